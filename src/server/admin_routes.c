/* Owns: the endpoints of the admin listener that need no other thread, and what protects all of them: the Host field,
 * the token, and a field that pages of other sites cannot send. May include: everything. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/allowed_hosts.h>
#include <uvhttp/auth.h>
#include <uvhttp/security_headers.h>

#include "base/str.h"
#include "obs/log_settings.h"
#include "server/admin_internal.h"
#include "server/server_config.h"

#define OWN_FIELD "X-Uvhttp-Admin"

static void respond_and_free(uvhttp_response_t *res, int status, uvhttp__writer_t *json) {
    uvhttp__admin_respond(res, status, json);
    uvhttp__writer_free(json);
}

static void refuse(uvhttp_response_t *res, int status, const char *why) {
    uvhttp__writer_t json = {0};
    uvhttp__write_text(&json, "{");
    uvhttp__write_member(&json, "error", why);
    uvhttp__write_text(&json, "}\n");
    respond_and_free(res, status, &json);
}

/* --- readiness and the end --- */

static void get_ready(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    const char *state = uvhttp__admin_state(user);
    bool ready = strcmp(state, "running") == 0;
    uvhttp__writer_t json = {0};
    uvhttp__write_format(&json, "{\"ready\":%s,\"state\":\"%s\"}\n", ready ? "true" : "false", state);
    respond_and_free(res, ready ? 200 : 503, &json);
}

static void post_drain(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp__admin_t *admin = user;
    uvhttp_str_t peer = uvhttp_request_peer(req);
    UVHTTP_LOG_WARN("admin: drain, requested by %.*s", (int)peer.size, peer.data ? peer.data : "");
    uvhttp__tcp_server_stop(admin->server->tcp_server);
    uvhttp__writer_t json = {0};
    uvhttp__write_format(&json, "{\"state\":\"%s\",\"connections\":%u}\n", uvhttp__admin_state(admin),
                         atomic_load(&admin->server->tcp_server->connections));
    respond_and_free(res, 202, &json);
}

/* --- configuration --- */

static void add_setting(const uvhttp_config_setting_t *setting, void *user) {
    uvhttp__writer_t *json = user;
    const char *const members[][2] = {{"name", setting->name},
                                      {"value", setting->value},
                                      {"default", setting->initial},
                                      {"origin", setting->origin},
                                      {"expected", setting->expected},
                                      {"group", setting->group},
                                      {"enforced_by", setting->enforced_by}};
    uvhttp__write_comma(json);
    uvhttp__write_text(json, "\n{");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        uvhttp__write_member(json, members[i][0], members[i][1]);
    uvhttp__write_format(json, ",\"is_default\":%s,\"live\":%s}",
                         setting->source == UVHTTP_CONFIG_FROM_DEFAULT ? "true" : "false",
                         setting->live ? "true" : "false");
}

static void get_config(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    const uvhttp__admin_t *admin = user;
    uvhttp_server_config_t config;
    const char *reason = NULL, *engine = uvhttp__tcp_server_engine(admin->server->tcp_server, &reason);
    uvhttp__writer_t json = {0};
    uvhttp__write_text(&json, "{");
    uvhttp__write_member(&json, "version", uvhttp_version());
    uvhttp__write_member(&json, "engine", engine);
    uvhttp__write_member(&json, "engine_reason", reason);
    uvhttp__write_member(&json, "build_info", uvhttp_build_info());
    uvhttp__write_text(&json, ",\"settings\":[");
    uvhttp__server_read_config(admin->server, &config);
    uvhttp_server_config_explain(&config, add_setting, &json);
    uvhttp__write_text(&json, "]}\n");
    respond_and_free(res, 200, &json);
}

/* --- the log's level --- */

static void respond_level(uvhttp_response_t *res) {
    static const char *const names[] = {"debug", "info", "warn", "error", "none"};
    uvhttp__writer_t json = {0};
    uvhttp__write_format(&json, "{\"level\":\"%s\"}\n", names[uvhttp_log_get_level()]);
    respond_and_free(res, 200, &json);
}

static void get_log_level(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    respond_level(res);
}

static bool next_is(uvhttp_str_t *text, const char *token) {
    size_t size = strlen(token);
    while (text->size > 0 && memchr(" \t\r\n", text->data[0], 4)) text->data++, text->size--;
    if (!uvhttp_str_starts_with(*text, token)) return false;
    *text = (uvhttp_str_t){text->data + size, text->size - size};
    return true;
}

/* The only body that is understood: {"level": "debug"}. */
static bool parse_level(uvhttp_str_t body, uvhttp_log_level_t *level) {
    char word[8];
    if (!next_is(&body, "{") || !next_is(&body, "\"level\"") || !next_is(&body, ":") || !next_is(&body, "\""))
        return false;
    const char *end = memchr(body.data, '"', body.size);
    size_t size = end ? (size_t)(end - body.data) : sizeof word;
    if (size >= sizeof word) return false;
    memcpy(word, body.data, size);
    word[size] = '\0';
    body = (uvhttp_str_t){end, body.size - size};
    return next_is(&body, "\"") && next_is(&body, "}") && (next_is(&body, ""), body.size == 0) &&
           strlen(word) == size && uvhttp_log_level_parse(word, level) == UVHTTP_OK;
}

static void put_log_level(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_log_level_t level;
    if (!parse_level(uvhttp_request_body(req), &level)) {
        refuse(res, 400, "expected {\"level\": \"debug\"}, or info, warn, error or none");
        return;
    }
    uvhttp__log_apply_level(level);
    respond_level(res);
}

/* --- protection --- */

static bool field_is(const uvhttp_request_t *req, const char *name, const char *value) {
    return uvhttp_str_equal(uvhttp_request_header(req, name), value);
}

/* What a page of another site has sent, or makes a browser show within itself. A link that a person follows is not. */
static bool is_foreign(const uvhttp_request_t *req, bool reads) {
    if (!uvhttp_request_header(req, "Sec-Fetch-Site").data || field_is(req, "Sec-Fetch-Site", "same-origin") ||
        field_is(req, "Sec-Fetch-Site", "none"))
        return false;
    return !reads || !field_is(req, "Sec-Fetch-Mode", "navigate") || !field_is(req, "Sec-Fetch-Dest", "document");
}

/* A page of another site can make a browser send a form, but neither JSON nor a field of its own without asking first,
 * which is never granted here. It cannot read what a GET returns, but it could hold all of the event streams. */
static uvhttp_flow_t refuse_foreign_pages(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_method_t method = uvhttp_request_method(req);
    bool reads = method == UVHTTP_GET || method == UVHTTP_HEAD, foreign = is_foreign(req, reads);
    bool own = reads || uvhttp_request_header(req, OWN_FIELD).data ||
               uvhttp_media_type_is(uvhttp_request_header(req, "Content-Type"), "application/json");
    if (own && !foreign) return UVHTTP_NEXT;
    refuse(res, 403,
           foreign ? "this request comes from a page of another site"
                   : "send Content-Type: application/json, or the field " OWN_FIELD);
    return UVHTTP_STOP;
}

static uvhttp_middleware_t token_check(const char *token) {
    const uvhttp_credential_t credential = {.user = "admin", .secret = token};
    const uvhttp_bearer_auth_options_t options = {
        .realm = "uvhttp admin", .credentials = &credential, .credential_count = 1};
    return uvhttp_bearer_auth(&options);
}

static int protect(uvhttp_server_t *own, bool loopback) {
    const uvhttp_allowed_hosts_options_t hosts = {.loopback = true, .hint = "Open it as localhost or 127.0.0.1."};
    const uvhttp_security_headers_options_t fields = {
        .referrer_policy = "no-referrer", .content_security_policy = "default-src 'none'; frame-ancestors 'none'"};
    int status = uvhttp_use(own, uvhttp_security_headers(&fields));
    if (status == UVHTTP_OK && loopback) status = uvhttp_use(own, uvhttp_allowed_hosts(&hosts));
    return status;
}

/* The page itself shows nothing of the server. Health and readiness are for probes, and say little more than a
 * connection does. */
int uvhttp__admin_add_routes(uvhttp__admin_t *admin, bool loopback) {
    const char *token = admin->server->service.config.admin_token;
    int status = protect(admin->own, loopback);
    uvhttp_get(admin->own, "/", uvhttp__admin_get_page, NULL);
    uvhttp_get(admin->own, "/health", uvhttp__admin_get_health, admin);
    uvhttp_get(admin->own, "/ready", get_ready, admin);
    uvhttp_group_t *group = uvhttp_group(admin->own, NULL);
    if (status == UVHTTP_OK && *token) status = uvhttp_group_use(group, token_check(token));
    if (status == UVHTTP_OK) status = uvhttp_group_use(group, (uvhttp_middleware_t){.run = refuse_foreign_pages});
    uvhttp_group_get(group, "/metrics", uvhttp_metrics_handler, admin->server);
    uvhttp_group_get(group, "/config", get_config, admin);
    uvhttp_group_get(group, "/connections", uvhttp__admin_get_connections, admin);
    uvhttp_group_get(group, "/events", uvhttp__admin_get_events, admin);
    uvhttp_group_get(group, "/log-level", get_log_level, admin);
    uvhttp_group_put(group, "/log-level", put_log_level, admin);
    uvhttp_group_post(group, "/drain", post_drain, admin);
    return status;
}
