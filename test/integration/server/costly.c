/* Owns: see costly.h. */
#include "costly.h"

#include <stdio.h>

static void respond_count(uvhttp_response_t *res, size_t count) {
    char text[32];
    snprintf(text, sizeof text, "%zu", count);
    uvhttp_response_text(res, 200, text);
}

/* A walk over all cookies, and a search for one that is not there. */
static void cookies(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t count = 0;
    while (uvhttp_request_cookie_at(req, count, NULL, NULL)) count++;
    respond_count(res, count + uvhttp_request_cookie(req, "session", NULL));
}

static void query(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t count = 0;
    while (uvhttp_request_query_at(req, count, NULL, NULL)) count++;
    respond_count(res, count);
}

/* Searches for fields that are not there: what a handler behind several middleware asks for. */
static void fields(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    static const char *const names[] = {"Accept", "Authorization", "Cookie", "Forwarded",  "If-Match",  "If-Range",
                                        "Origin", "Referer",       "TE",     "User-Agent", "X-Real-IP", "X-Request-ID"};
    size_t count = uvhttp_request_header_count(req);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) count += uvhttp_request_header(req, names[i]).size;
    respond_count(res, count);
}

static void form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_form_t *parsed;
    int status = uvhttp_request_form(req, NULL, &parsed);
    if (status == UVHTTP_OK)
        respond_count(res, uvhttp_form_field_count(parsed) + uvhttp_form_file_count(parsed));
    else
        uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_name(status));
}

static void limited(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "admitted");
}

void add_costly_routes(uvhttp_server_t *server) {
    uvhttp_get(server, "/costly/cookies", cookies, NULL);
    uvhttp_get(server, "/costly/query", query, NULL);
    uvhttp_get(server, "/costly/fields", fields, NULL);
    uvhttp_post(server, "/costly/form", form, NULL);
    uvhttp_route_use(uvhttp_get(server, "/costly/address", limited, NULL),
                     uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.per_second = 100, .keys_max = 1000}));
    uvhttp_route_use(uvhttp_get(server, "/costly/key", limited, NULL),
                     uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){
                         .per_second = 100, .keys_max = 1000, .by = UVHTTP_RATE_LIMIT_BY_HEADER, .header = "X-Key"}));
}
