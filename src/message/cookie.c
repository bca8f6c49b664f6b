/* Owns: cookies: reading the Cookie fields of a request, and making a Set-Cookie field. May include: base. */
#include <inttypes.h>
#include <stdio.h>

#include "base/chars.h"
#include "base/sized.h"
#include "base/str.h"
#include "message/response_internal.h"
#include <uvhttp/cookie.h>

/* --- request --- */

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    return at;
}

/* Takes the next pair of which the name is a token from the front of *rest; false at the end. */
static bool next_pair(uvhttp_str_t *rest, uvhttp_str_t *name, uvhttp_str_t *value) {
    while (rest->size > 0) {
        const char *end = rest->data + rest->size, *at = skip_blanks(rest->data, end);
        name->data = at;
        while (at < end && uvhttp__char_is(*at, UVHTTP__CHAR_TOKEN)) at++;
        name->size = (size_t)(at - name->data);
        at = skip_blanks(at, end);
        bool found = name->size > 0 && at < end && *at == '=';
        const char *semicolon = memchr(at, ';', (size_t)(end - at)), *stop = semicolon ? semicolon : end;
        if (found) *value = uvhttp__str_trim((uvhttp_str_t){at + 1, (size_t)(stop - at) - 1});
        if (semicolon) stop++;
        *rest = (uvhttp_str_t){stop, (size_t)(end - stop)};
        if (found) return true;
    }
    return false;
}

/* Where to continue in the Cookie fields; zeros: at the first. */
typedef struct place {
    size_t field;
    uvhttp_str_t rest;
} place_t;

static bool next_cookie(const uvhttp_request_t *req, place_t *place, uvhttp_str_t *name, uvhttp_str_t *value) {
    while (!next_pair(&place->rest, name, value))
        if (!uvhttp_request_header_next(req, "Cookie", &place->field, &place->rest)) return false;
    return true;
}

static bool show(bool found, uvhttp_str_t found_name, uvhttp_str_t found_value, uvhttp_str_t *name,
                 uvhttp_str_t *value) {
    const uvhttp_str_t none = {NULL, 0};
    if (name) *name = found ? found_name : none;
    if (value) *value = found ? found_value : none;
    return found;
}

bool uvhttp_request_cookie(const uvhttp_request_t *req, const char *name, uvhttp_str_t *value) {
    uvhttp_str_t wanted = uvhttp__str_from(name), found_name = {NULL, 0}, found_value = {NULL, 0};
    place_t place = {.field = 0};
    bool found;
    do {
        found = next_cookie(req, &place, &found_name, &found_value);
    } while (found && !uvhttp__str_equal(found_name, wanted));
    return show(found, found_name, found_value, NULL, value);
}

static place_t recall(const uvhttp_request_t *req, uvhttp__cookie_place_t kept) {
    place_t place = {.field = kept.field};
    if (place.field == 0) return place;
    uvhttp_str_t whole;
    (void)uvhttp_request_header_at(req, place.field - 1, NULL, &whole);
    place.rest = (uvhttp_str_t){whole.data + whole.size - kept.left, kept.left};
    return place;
}

static uvhttp__cookie_place_t keep(const place_t *place) {
    return (uvhttp__cookie_place_t){.field = (uint32_t)place->field, .left = (uint32_t)place->rest.size};
}

bool uvhttp_request_cookie_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name, uvhttp_str_t *value) {
    /* One thread's. Without memory the place is not kept. */
    uvhttp__request_extras_t *memo = uvhttp__request_extras((uvhttp_request_t *)(uintptr_t)req);
    uvhttp_str_t found_name = {NULL, 0}, found_value = {NULL, 0};
    bool known = memo && memo->cookie_known && index >= memo->last_cookie.index;
    bool again = known && index == memo->last_cookie.index;
    size_t at = known ? memo->last_cookie.index + !again : 0;
    place_t place = {.field = 0};
    if (known) place = recall(req, again ? memo->last_cookie.before : memo->last_cookie.after);
    place_t before = place;
    bool found = next_cookie(req, &place, &found_name, &found_value);
    for (; found && at < index; at++) {
        before = place;
        found = next_cookie(req, &place, &found_name, &found_value);
    }
    if (memo) {
        memo->cookie_known = found;
        memo->last_cookie.index = (uint32_t)at;
        memo->last_cookie.before = keep(&before);
        memo->last_cookie.after = keep(&place);
    }
    return show(found, found_name, found_value, name, value);
}

/* --- response --- */

static bool is_value(uvhttp_str_t value) {
    if (value.size >= 2 && value.data[0] == '"' && value.data[value.size - 1] == '"') {
        ++value.data;
        value.size -= 2;
    }
    for (size_t i = 0; i < value.size; ++i) {
        char c = value.data[i];
        if (c <= ' ' || c > '~' || memchr("\",;\\", c, 4)) return false;
    }
    return true;
}

static bool is_path(uvhttp_str_t path) {
    if (path.size == 0 || path.size > UVHTTP_COOKIE_ATTRIBUTE_SIZE_MAX || path.data[0] != '/') return false;
    for (size_t i = 0; i < path.size; ++i)
        if (path.data[i] < ' ' || path.data[i] > '~' || path.data[i] == ';') return false;
    return path.data[path.size - 1] != ' ';
}

static bool is_domain(uvhttp_str_t domain) {
    if (domain.size == 0 || domain.size > UVHTTP_COOKIE_ATTRIBUTE_SIZE_MAX) return false;
    for (size_t i = 0; i < domain.size; ++i) {
        char c = domain.data[i], lower = uvhttp__char_lower(c);
        bool letter = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
        bool inner = i > 0 && i + 1 < domain.size && (c == '-' || c == '.');
        if (!letter && !inner) return false;
    }
    return true;
}

/* A browser drops a cookie that breaks the promise of its name. */
static bool keeps_prefix(uvhttp_str_t name, uvhttp_str_t path, const uvhttp_cookie_options_t *options) {
    bool host = uvhttp__str_starts_with_nocase(name, UVHTTP__STR("__Host-"));
    bool secure = host || uvhttp__str_starts_with_nocase(name, UVHTTP__STR("__Secure-"));
    if (secure && !options->secure) return false;
    return !host || (!options->domain && path.size == 1);
}

static const char *same_site_name(uvhttp_same_site_t same_site) {
    switch (same_site) {
        case UVHTTP_SAME_SITE_LAX: return "Lax";
        case UVHTTP_SAME_SITE_STRICT: return "Strict";
        case UVHTTP_SAME_SITE_NONE: return "None";
    }
    return NULL;
}

int uvhttp_response_cookie_sized(uvhttp_response_t *res, const uvhttp_cookie_options_t *options, size_t options_size) {
    if (!res || !options) return UVHTTP_E_INVALID;
    uvhttp_cookie_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size)) return UVHTTP_E_UNSUPPORTED;
    options = &full;
    uvhttp_str_t name = uvhttp__str_from(options->name);
    uvhttp_str_t value = {options->value, options->value_size}; /* with a size it need not be terminated */
    if (value.size > 0 && !value.data) return UVHTTP_E_INVALID;
    if (value.size == 0) value = uvhttp__str_from(value.data ? value.data : "");
    uvhttp_str_t path = uvhttp__str_from(options->path ? options->path : "/");
    const char *same_site = same_site_name(options->same_site);
    if (!uvhttp__valid_header_name(name) || !is_value(value) || name.size > UVHTTP_COOKIE_SIZE_MAX ||
        value.size > UVHTTP_COOKIE_SIZE_MAX - name.size)
        return UVHTTP_E_INVALID;
    if (!is_path(path) || (options->domain && !is_domain(uvhttp__str_from(options->domain))) || !same_site ||
        (options->same_site == UVHTTP_SAME_SITE_NONE && !options->secure) ||
        options->max_age_s > UVHTTP_COOKIE_MAX_AGE_S || !keeps_prefix(name, path, options))
        return UVHTTP_E_INVALID;
    char max_age[96] = "";
    if (options->max_age_s > 0)
        snprintf(max_age, sizeof max_age, "; Max-Age=%" PRId64, options->max_age_s);
    else if (options->max_age_s <
             0) /* with the older attribute: to keep what should go would be worse than a few bytes */
        snprintf(max_age, sizeof max_age, "; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
    char text[UVHTTP_COOKIE_SIZE_MAX + 2 * UVHTTP_COOKIE_ATTRIBUTE_SIZE_MAX + 256];
    snprintf(text, sizeof text, "%s=%.*s; Path=%s%s%s%s; SameSite=%s%s%s", name.data, (int)value.size, value.data,
             path.data, options->domain ? "; Domain=" : "", options->domain ? options->domain : "", max_age, same_site,
             options->secure ? "; Secure" : "", options->http_only ? "; HttpOnly" : "");
    return uvhttp_response_header_add(res, "Set-Cookie", text);
}
