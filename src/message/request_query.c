/* Owns: the parameters of a query (the urlencoded form of the WHATWG URL standard, section 5.1: '&' separates, ';' does
 * not). Decoded on first use, all at once, into the arena. May include: base. */
#include "base/str.h"
#include "message/message.h"

/* Decodes one part to text + *used. */
static bool decode_part(uvhttp_str_t part, char *text, size_t *used, uvhttp__span_t *span) {
    size_t size = 0;
    if (part.size && uvhttp__percent_decode(part, text + *used, &size, true) != 0) return false;
    *span = (uvhttp__span_t){(uint32_t)*used, (uint32_t)size};
    *used += size;
    return true;
}

/* Decoded parts are never longer than the query, so `text` (query.size bytes) suffices. Returns the number of pairs. */
static size_t parse_pairs(uvhttp_str_t query, char *text, uvhttp__query_param_t *params, size_t count_max) {
    size_t used = 0, count = 0;
    const char *at = query.data, *end = at + query.size;
    while (at < end && count < count_max) {
        const char *ampersand = memchr(at, '&', (size_t)(end - at));
        const char *pair_end = ampersand ? ampersand : end;
        const char *equals = memchr(at, '=', (size_t)(pair_end - at));
        const char *name_end = equals ? equals : pair_end;
        uvhttp_str_t name = {at, (size_t)(name_end - at)};
        uvhttp_str_t value = {equals ? equals + 1 : pair_end, equals ? (size_t)(pair_end - equals - 1) : 0};
        uvhttp__query_param_t *param = &params[count];
        if (pair_end > at && decode_part(name, text, &used, &param->name) &&
            decode_part(value, text, &used, &param->value))
            ++count;
        at = ampersand ? ampersand + 1 : end;
    }
    return count;
}

/* When memory is short there are no parameters, this time. */
static void parse_query(uvhttp_request_t *req) {
    uvhttp_str_t query = uvhttp_request_query(req);
    size_t count_max = 1;
    for (size_t i = 0; i < query.size && count_max < UVHTTP__QUERY_PARAM_MAX; ++i) count_max += query.data[i] == '&';
    uvhttp__request_extras_t *extras = query.size ? uvhttp__request_extras(req) : NULL;
    if (!extras) return;
    uvhttp__query_param_t *params = uvhttp__arena_alloc(req->arena, count_max * sizeof *params);
    char *text = params ? uvhttp__arena_alloc_bytes(req->arena, query.size) : NULL;
    if (!text) return;
    extras->query_count = (uint32_t)parse_pairs(query, text, params, count_max);
    extras->query_params = params;
    extras->query_text = text;
    extras->query_parsed = true;
}

static const uvhttp__request_extras_t *parsed(uvhttp_request_t *req) {
    if (!uvhttp__request_see_extras(req)->query_parsed) parse_query(req);
    return uvhttp__request_see_extras(req);
}

bool uvhttp_request_query_param(uvhttp_request_t *req, const char *name, uvhttp_str_t *value) {
    const uvhttp__request_extras_t *extras = parsed(req);
    uvhttp_str_t wanted = uvhttp__str_from(name);
    for (size_t i = 0; i < extras->query_count; ++i) {
        if (!uvhttp__str_equal(uvhttp__span_str(extras->query_text, extras->query_params[i].name), wanted)) continue;
        if (value) *value = uvhttp__span_str(extras->query_text, extras->query_params[i].value);
        return true;
    }
    if (value) *value = (uvhttp_str_t){NULL, 0};
    return false;
}

bool uvhttp_request_query_at(uvhttp_request_t *req, size_t index, uvhttp_str_t *name, uvhttp_str_t *value) {
    const uvhttp__request_extras_t *extras = parsed(req);
    bool found = index < extras->query_count;
    const uvhttp_str_t none = {NULL, 0};
    if (name) *name = found ? uvhttp__span_str(extras->query_text, extras->query_params[index].name) : none;
    if (value) *value = found ? uvhttp__span_str(extras->query_text, extras->query_params[index].value) : none;
    return found;
}
