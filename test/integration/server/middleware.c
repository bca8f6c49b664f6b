/* Owns: the routes of the test server that pass the library's own middleware. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "middleware.h"

static void deny_frames_otherwise(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_header(res, "X-Frame-Options", "SAMEORIGIN");
    uvhttp_response_header(res, "Vary", "Accept-Language");
    uvhttp_response_text(res, 200, "own");
}

static void no_response(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
}

static void in_pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t id = uvhttp_request_id_get(req);
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    uvhttp_response_write(res, id.data, id.size);
    uvhttp_response_end(res);
}

/* The id is still there when the request has been copied out of the receive buffer. */
static void deferred(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *later = uvhttp_response_defer(res);
    if (!later) return;
    uvhttp_str_t id = uvhttp_request_id_get(uvhttp_deferred_request(later));
    uvhttp_deferred_send(later, 200, "text/plain", id.data, id.size);
    uvhttp_deferred_release(later);
}

void add_guarded_routes(uvhttp_server_t *server) {
    uvhttp_group_t *group = uvhttp_group(server, "/guarded");
    uvhttp_group_use(group, uvhttp_request_id(&(uvhttp_request_id_options_t){.trust_incoming = true}));
    uvhttp_group_use(group, uvhttp_security_headers(NULL));
    uvhttp_group_use(group,
                     uvhttp_cors(&(uvhttp_cors_options_t){.origins = "https://app.example", .private_network = true}));
    uvhttp_group_get(group, "/own", deny_frames_otherwise, NULL);
    uvhttp_group_get(group, "/nothing", no_response, NULL);
    uvhttp_group_get(group, "/pieces", in_pieces, NULL);
    uvhttp_group_get(group, "/later", deferred, NULL);
}

static uvhttp_middleware_t access_log;

static void reopen(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, uvhttp_access_log_reopen(access_log) == 0 ? 200 : 500, "");
}

static void show_log(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_access_log_stats_t stats;
    char json[256];
    uvhttp_access_log_stats(access_log, &stats);
    snprintf(json, sizeof json,
             "{\"lines\":%" PRIu64 ",\"dropped\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"reopened\":%" PRIu64 "}",
             stats.lines, stats.dropped, stats.failed, stats.reopened);
    uvhttp_response_json(res, 200, json);
}

void add_access_log(uvhttp_server_t *server, const char *text) {
    uvhttp_access_log_options_t options = {.flush_ms = 5, .ring_size = 65536};
    const char *path = strchr(text, ':') + 1;
    if (strncmp(text, "common:", 7) == 0) options.format = UVHTTP_ACCESS_LOG_COMMON;
    if (strncmp(text, "json:", 5) == 0) options.format = UVHTTP_ACCESS_LOG_JSON;
    if (*path) options.path = path;
    access_log = uvhttp_access_log(&options);
    uvhttp_use(server, access_log);
    uvhttp_get(server, "/access_log/reopen", reopen, NULL);
    uvhttp_get(server, "/access_log/stats", show_log, NULL);
}

static bool check_user(uvhttp_request_t *req, uvhttp_str_t user, uvhttp_str_t password, void *arg) {
    (void)req, (void)user, (void)arg;
    return password.size == 6 && memcmp(password.data, "secret", 6) == 0;
}

static void private_page(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "private");
}

void add_private_routes(uvhttp_server_t *server) {
    uvhttp_group_t *group = uvhttp_group(server, "/private");
    uvhttp_group_use(group, uvhttp_basic_auth(&(uvhttp_basic_auth_options_t){.check = check_user}));
    uvhttp_group_get(group, "/page", private_page, NULL);
}

static uvhttp_middleware_t shared[2];

static void show_shared(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_rate_limit_stats_t open, closed;
    char json[256];
    uvhttp_rate_limit_stats(shared[0], &open);
    uvhttp_rate_limit_stats(shared[1], &closed);
    snprintf(json, sizeof json, "{\"allowed\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"errors\":%" PRIu64 "}",
             open.allowed + closed.allowed, open.refused + closed.refused, open.store_errors + closed.store_errors);
    uvhttp_response_json(res, 200, json);
}

void add_shared_limits(uvhttp_server_t *server, const char *redis, uint32_t timeout_ms) {
    static const char *const patterns[] = {"/shared/open/:id", "/shared/closed/:id"};
    for (int i = 0; i < 2; ++i) {
        uvhttp_rate_limit_store_t store;
        uvhttp_rate_limit_redis(&(uvhttp_rate_limit_redis_options_t){.address = redis, .timeout_ms = timeout_ms},
                                &store);
        shared[i] = uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.per_second = 1.0 / 3600,
                                                                     .burst = 100,
                                                                     .name = i ? "closed" : "open",
                                                                     .by = UVHTTP_RATE_LIMIT_BY_HEADER,
                                                                     .header = "X-Key",
                                                                     .store = &store,
                                                                     .refuse_on_error = i == 1});
        uvhttp_route_use(uvhttp_get(server, patterns[i], private_page, NULL), shared[i]);
    }
    uvhttp_get(server, "/shared-stats", show_shared, NULL);
}
