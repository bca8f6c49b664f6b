/* Owns: conditional requests (RFC 9110 section 13) on what has a strong ETag and a date. May include: message, base. */
#include "base/date.h"
#include "base/str.h"
#include "handler/static.h"
#include "message/message.h"

/* One pass over the fields of the request, most of which are of other lengths. */
void uvhttp__static_fields(const uvhttp_request_t *req, uvhttp__static_fields_t *fields) {
    *fields = (uvhttp__static_fields_t){.req = req};
    uvhttp_str_t name, value;
    for (size_t i = 0; uvhttp_request_header_at(req, i, &name, &value); i++) {
        uvhttp_str_t *field = NULL, known = {NULL, 0};
        switch (name.size) {
            case 5: field = &fields->range, known = UVHTTP__STR("Range"); break;
            case 8:
                field = uvhttp__char_lower(name.data[3]) == 'm' ? &fields->if_match : &fields->if_range;
                known = field == &fields->if_match ? UVHTTP__STR("If-Match") : UVHTTP__STR("If-Range");
                break;
            case 13: field = &fields->if_none_match, known = UVHTTP__STR("If-None-Match"); break;
            case 15:
                if (uvhttp__str_equal_nocase(name, UVHTTP__STR("Accept-Encoding"))) fields->accept_encoding = true;
                continue;
            case 17: field = &fields->if_modified_since, known = UVHTTP__STR("If-Modified-Since"); break;
            case 19: field = &fields->if_unmodified_since, known = UVHTTP__STR("If-Unmodified-Since"); break;
            default: continue;
        }
        if (!uvhttp__str_equal_nocase(name, known)) continue;
        fields->any = true;
        /* A second one makes the field match nothing, which never sends less than there is. Those of entity tags are
         * lists: their lines are read again when they are compared. */
        *field = field->data ? UVHTTP__STR("") : (uvhttp_str_t){value.data ? value.data : "", value.size};
    }
}

/* Whether the entity tags of a field, or "*", have ours. strong: a weak one does not count. */
static bool tags_have(const uvhttp_request_t *req, const char *name, uvhttp_str_t etag, bool strong) {
    uvhttp__members_t at = {.req = req, .name = name};
    uvhttp_str_t tag;
    while (uvhttp__member_next(&at, &tag)) {
        if (uvhttp__str_equal(tag, UVHTTP__STR("*"))) return true;
        bool weak = uvhttp__str_starts_with(tag, UVHTTP__STR("W/"));
        if (weak) tag = (uvhttp_str_t){tag.data + 2, tag.size - 2};
        if (uvhttp__str_equal(tag, etag) && !(strong && weak)) return true;
    }
    return false;
}

int uvhttp__static_condition(const uvhttp__static_fields_t *fields, const uvhttp__validators_t *validators) {
    int64_t date;
    if (fields->if_match.data) {
        if (!tags_have(fields->req, "If-Match", validators->etag, true)) return 412;
    } else if (fields->if_unmodified_since.data &&
               uvhttp__date_parse(fields->if_unmodified_since, validators->now, &date)) {
        if (validators->modified > date) return 412;
    }
    if (fields->if_none_match.data) {
        if (tags_have(fields->req, "If-None-Match", validators->etag, false)) return 304;
    } else if (fields->if_modified_since.data &&
               uvhttp__date_parse(fields->if_modified_since, validators->now, &date)) {
        if (validators->modified <= date) return 304;
    }
    return 200;
}

bool uvhttp__static_range_applies(const uvhttp__static_fields_t *fields, const uvhttp__validators_t *validators) {
    uvhttp_str_t value = fields->if_range;
    if (!value.data) return true;
    if (value.size > 0 && value.data[0] == '"') return uvhttp__str_equal(value, validators->etag);
    int64_t date;
    /* A date is a strong validator only if nothing can have changed within its second (RFC 9110 section 8.8.2.2), and
     * no other representation can have it. */
    return !validators->vary && uvhttp__date_parse(value, validators->now, &date) && date == validators->modified &&
           validators->now > validators->modified;
}
