/* Owns: CORS: who may read responses across origins, and the responses to preflights (WHATWG Fetch section 3.2). May
 * include: message, base, obs. */
#include <stdio.h>
#include <uvhttp/cors.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "message/message.h"
#include "middleware/middleware.h"

#define NAME "cors"
#define MAX_AGE_MAX 86400

typedef struct cors {
    bool any; /* every origin, so that no response depends on it */
    bool credentials;
    bool private_network;
    char *origins; /* list; NULL: any, or origin_allowed */
    bool (*origin_allowed)(uvhttp_request_t *req, uvhttp_str_t origin, void *user);
    void *user;
    char *methods, *request_headers, *exposed_headers; /* as sent; "" is not sent */
    char max_age[12];                                  /* as sent; "" is not sent */
    char preflight_vary[88];                           /* as sent */
} cors_t;

static void destroy(void *user) {
    cors_t *cors = user;
    uvhttp__free(cors->origins);
    uvhttp__free(cors->methods);
    uvhttp__free(cors->request_headers);
    uvhttp__free(cors->exposed_headers);
    uvhttp__free(cors);
}

/* --- options --- */

static bool all_of(uvhttp_str_t text, const char *more) {
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr(more, c))) return false;
    }
    return text.size > 0;
}

/* Host and port as browsers write them (URL section 4.7); a port that they would leave out can never match. */
static bool valid_authority(uvhttp_str_t scheme, uvhttp_str_t authority) {
    const char *bracket = memrchr(authority.data, ']', authority.size);
    size_t from = bracket ? (size_t)(bracket - authority.data) : 0;
    const char *colon = memchr(authority.data + from, ':', authority.size - from);
    uvhttp_str_t host = authority;
    if (colon) {
        host.size = (size_t)(colon - authority.data);
        uvhttp_str_t port = {colon + 1, authority.size - host.size - 1};
        uint64_t number;
        if (uvhttp__str_parse_u64(port, &number) != UVHTTP_OK || number > 65535 || port.data[0] == '0') return false;
        if (number == 80 && uvhttp__str_equal(scheme, UVHTTP__STR("http"))) return false;
        if (number == 443 && uvhttp__str_equal(scheme, UVHTTP__STR("https"))) return false;
    }
    if (!bracket) return all_of(host, "-._");
    return host.size > 2 && host.data[0] == '[' && host.data[host.size - 1] == ']' &&
           all_of((uvhttp_str_t){host.data + 1, host.size - 2}, ":.");
}

static bool valid_origin(uvhttp_str_t origin) {
    if (uvhttp__str_equal(origin, UVHTTP__STR("null"))) return true;
    const char *colon = memchr(origin.data, ':', origin.size);
    if (!colon) return false;
    uvhttp_str_t scheme = {origin.data, (size_t)(colon - origin.data)};
    uvhttp_str_t rest = {colon, origin.size - scheme.size};
    if (!all_of(scheme, "+-.") || !uvhttp__str_starts_with(rest, UVHTTP__STR("://"))) return false;
    return rest.size > 3 && valid_authority(scheme, (uvhttp_str_t){rest.data + 3, rest.size - 3});
}

/* These write what is wrong with the options; false if nothing is. */
static bool wrong_origins(const uvhttp_cors_options_t *options, bool any, char *why, size_t size) {
    uvhttp_str_t rest = uvhttp__str_from(options->origins), item;
    size_t count = 0;
    if (options->origin_allowed && options->origins) {
        snprintf(why, size, "origins and origin_allowed are both set: give one of them");
        return true;
    }
    while (!any && uvhttp__list_next(&rest, &item)) {
        count++;
        if (valid_origin(item)) continue;
        snprintf(why, size,
                 "origins has \"%.*s\": expected scheme://host or scheme://host:port in lower case, without a path and "
                 "without the default port, or \"*\" alone",
                 (int)(item.size < 200 ? item.size : 200), item.data);
        return true;
    }
    if (!any && !options->origin_allowed && count == 0) {
        snprintf(why, size, "origins is empty: name at least one, or NULL for every origin");
        return true;
    }
    if (any && options->credentials) {
        snprintf(why, size,
                 "credentials is set for every origin, which browsers refuse and which would give any page the user's "
                 "session: name the origins, or decide in origin_allowed");
        return true;
    }
    return false;
}

static bool wrong_list(const char *name, const char *list, bool credentials, char *why, size_t size) {
    uvhttp_str_t wrong = uvhttp__list_wrong_token(list);
    if (wrong.data) {
        snprintf(why, size, "%s has \"%.*s\": expected names with commas between them", name,
                 (int)(wrong.size < 200 ? wrong.size : 200), wrong.data);
        return true;
    }
    if (credentials && uvhttp__list_has(uvhttp__str_from(list), UVHTTP__STR("*"))) {
        snprintf(why, size, "%s has \"*\", which is no wildcard with credentials: name them", name);
        return true;
    }
    return false;
}

static bool wrong(const uvhttp_cors_options_t *options, bool any, char *why, size_t size) {
    if (wrong_origins(options, any, why, size) ||
        wrong_list("methods", options->methods, options->credentials, why, size) ||
        wrong_list("request_headers", options->request_headers, options->credentials, why, size) ||
        wrong_list("exposed_headers", options->exposed_headers, options->credentials, why, size))
        return true;
    if (options->max_age >= -1 && options->max_age <= MAX_AGE_MAX) return false;
    snprintf(why, size, "max_age is %d: expected -1..%d seconds", (int)options->max_age, MAX_AGE_MAX);
    return true;
}

/* --- requests --- */

static int put(uvhttp_response_t *res, uvhttp_str_t name, uvhttp_str_t value) {
    return uvhttp__response_put_header(res, name, value, true);
}

static int put_text(uvhttp_response_t *res, const char *name, const char *value) {
    return *value ? put(res, uvhttp__str_from(name), uvhttp__str_from(value)) : UVHTTP_OK;
}

static bool allows(const cors_t *cors, uvhttp_request_t *req) {
    if (cors->any) return true;
    uvhttp_str_t origin, item;
    if (!uvhttp__single_header(req, "Origin", &origin) || origin.size == 0) return false;
    if (cors->origin_allowed) return cors->origin_allowed(req, origin, cors->user);
    uvhttp_str_t rest = uvhttp__str_from(cors->origins);
    while (uvhttp__list_next(&rest, &item))
        if (uvhttp__str_equal(item, origin)) return true;
    return false;
}

/* Who may read this response. */
static int put_allowed(const cors_t *cors, uvhttp_response_t *res) {
    uvhttp_str_t origin = UVHTTP__STR("*");
    if (!cors->any) origin = uvhttp_request_header(uvhttp_response_request(res), "Origin");
    int status = put(res, UVHTTP__STR("Access-Control-Allow-Origin"), origin);
    if (status == UVHTTP_OK && cors->credentials)
        status = put(res, UVHTTP__STR("Access-Control-Allow-Credentials"), UVHTTP__STR("true"));
    return status;
}

static int put_vary(const cors_t *cors, uvhttp_response_t *res) {
    return cors->any ? UVHTTP_OK : uvhttp__vary_add(res, UVHTTP__STR("Origin"));
}

static int put_preflight(const cors_t *cors, uvhttp_response_t *res) {
    uvhttp_str_t asked;
    bool private_network =
        cors->private_network &&
        uvhttp__single_header(uvhttp_response_request(res), "Access-Control-Request-Private-Network", &asked) &&
        uvhttp__str_equal(asked, UVHTTP__STR("true"));
    int status = put_allowed(cors, res);
    if (status == UVHTTP_OK) status = put_text(res, "Access-Control-Allow-Methods", cors->methods);
    if (status == UVHTTP_OK) status = put_text(res, "Access-Control-Allow-Headers", cors->request_headers);
    if (status == UVHTTP_OK) status = put_text(res, "Access-Control-Max-Age", cors->max_age);
    if (status == UVHTTP_OK && private_network) status = put_text(res, "Access-Control-Allow-Private-Network", "true");
    return status;
}

static uvhttp_flow_t respond_to_preflight(const cors_t *cors, uvhttp_response_t *res, bool allowed) {
    int status = uvhttp__response_put_header(res, UVHTTP__STR("Vary"), uvhttp__str_from(cors->preflight_vary), false);
    if (status == UVHTTP_OK && allowed) status = put_preflight(cors, res);
    if (status == UVHTTP_OK) status = uvhttp_response_empty(res, allowed ? 204 : 403);
    if (status != UVHTTP_OK) return uvhttp__middleware_unavailable(res);
    if (!allowed) uvhttp__middleware_count(uvhttp_response_request(res), refused_cors);
    return UVHTTP_STOP;
}

/* At the end, because a handler may set Vary. Without memory for Vary nothing is allowed, for a cache could send the
 * response to others. */
static void finish_allowed(uvhttp_response_t *res, void *user) {
    const cors_t *cors = user;
    int status = put_vary(cors, res);
    if (status == UVHTTP_OK) status = put_text(res, "Access-Control-Expose-Headers", cors->exposed_headers);
    if (status == UVHTTP_OK) (void)put_allowed(cors, res);
}

static void finish_refused(uvhttp_response_t *res, void *user) {
    (void)put_vary(user, res);
}

static bool is_preflight(const uvhttp_request_t *req) {
    return uvhttp_request_method(req) == UVHTTP_OPTIONS && uvhttp_request_header(req, "Origin").data &&
           uvhttp_request_header(req, "Access-Control-Request-Method").data;
}

static int finish_later(uvhttp_response_t *res, void *user, bool allowed) {
    return uvhttp_response_on_finish(res, allowed ? finish_allowed : finish_refused, user);
}

static uvhttp_flow_t run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const cors_t *cors = user;
    bool allowed = allows(cors, req);
    if (is_preflight(req)) return respond_to_preflight(cors, res, allowed);
    return finish_later(res, user, allowed) == UVHTTP_OK ? UVHTTP_NEXT : uvhttp__middleware_unavailable(res);
}

/* So that the page sees the status: a body that is too large, above all. */
static void on_refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)finish_later(res, user, allows(user, req));
}

/* --- making it --- */

static bool fill(cors_t *cors, const uvhttp_cors_options_t *options) {
    cors->credentials = options->credentials;
    cors->private_network = options->private_network;
    cors->origin_allowed = options->origin_allowed;
    cors->user = options->user;
    if (options->max_age != 0)
        snprintf(cors->max_age, sizeof cors->max_age, "%d", options->max_age < 0 ? 0 : (int)options->max_age);
    snprintf(cors->preflight_vary, sizeof cors->preflight_vary, "%sAccess-Control-Request-Method%s",
             cors->any ? "" : "Origin, ", options->private_network ? ", Access-Control-Request-Private-Network" : "");
    if (options->origins && !cors->any) {
        cors->origins = uvhttp__list_copy(options->origins);
        if (!cors->origins) return false;
    }
    cors->methods = uvhttp__list_copy(options->methods ? options->methods : "GET, HEAD, POST, PUT, PATCH, DELETE");
    cors->request_headers =
        uvhttp__list_copy(options->request_headers ? options->request_headers : "Content-Type, Authorization");
    cors->exposed_headers = uvhttp__list_copy(options->exposed_headers);
    return cors->methods && cors->request_headers && cors->exposed_headers;
}

uvhttp_middleware_t uvhttp_cors_sized(const uvhttp_cors_options_t *options, size_t options_size) {
    uvhttp_cors_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        return uvhttp__middleware_refused(NAME, "%s", UVHTTP__SIZED_NEWER);
    options = &full;
    char why[400];
    bool any = options->origins
                   ? uvhttp__str_equal(uvhttp__str_trim(uvhttp__str_from(options->origins)), UVHTTP__STR("*"))
                   : !options->origin_allowed;
    if (wrong(options, any, why, sizeof why)) return uvhttp__middleware_refused(NAME, "%s", why);
    cors_t *cors = uvhttp__calloc(1, sizeof *cors);
    if (cors) cors->any = any;
    if (!cors || !fill(cors, options)) {
        if (cors) destroy(cors);
        return uvhttp__middleware_refused(NAME, "out of memory");
    }
    return (uvhttp_middleware_t){.run = run, .user = cors, .destroy = destroy, .on_refused = on_refused};
}
