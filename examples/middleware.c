/* An API for a page of another origin: an access log with ids, security headers, CORS, and two ways to say who one is.
 * The order of the calls is the order in which they run: CORS before authentication, for a preflight carries no
 * credentials.
 *
 *   build/dist/bin/middleware              # or: middleware 127.0.0.1:9000 /var/log/my/access.log
 *   kill -HUP ...                          # the log file has been renamed: a new one is begun
 *   curl -i -H 'Origin: https://app.example' http://127.0.0.1:8080/
 *   curl -i -X OPTIONS -H 'Origin: https://app.example' -H 'Access-Control-Request-Method: PUT' \
 *        http://127.0.0.1:8080/admin/name
 *   curl -i -u alice:wonderland http://127.0.0.1:8080/admin/name
 *   curl -i -H 'Authorization: Bearer key-of-ci' http://127.0.0.1:8080/machines/name
 *   curl -i -H 'Authorization: Bearer key-of-ci' -d '{"load": 1}' http://127.0.0.1:8080/machines/report
 */
/* Needs: middleware. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp.h>

static void welcome(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t id = uvhttp_request_id_get(req);
    char text[UVHTTP_REQUEST_ID_SIZE_MAX + 32];
    snprintf(text, sizeof text, "You are request %.*s\n", (int)id.size, id.data);
    uvhttp_response_text(res, 200, text);
}

static void show_name(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t name = uvhttp_auth_user(req);
    uvhttp_response_send(res, 200, "text/plain; charset=utf-8", name.data, name.size);
}

/* A real program would look the token up, or verify its signature. */
static bool check_token(uvhttp_request_t *req, uvhttp_str_t token, uvhttp_str_t *user, void *arg) {
    (void)req, (void)arg;
    static const char prefix[] = "key-of-";
    size_t size = sizeof prefix - 1;
    if (token.size <= size || memcmp(token.data, prefix, size) != 0) return false;
    *user = (uvhttp_str_t){token.data + size, token.size - size};
    return true;
}

/* Needs the body, so it runs when that has come, and behind what refuses by the head alone. */
static uvhttp_flow_t require_object(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    if (body.size > 0 && body.data[0] == '{') return UVHTTP_NEXT;
    uvhttp_response_text(res, 422, "A report is a JSON object\n");
    return UVHTTP_STOP;
}

static uvhttp_middleware_t access_log;

static void on_hangup(int signal_number) {
    (void)signal_number;
    (void)uvhttp_access_log_reopen(access_log); /* may be called in a signal handler */
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1;

    access_log = uvhttp_access_log(&(uvhttp_access_log_options_t){
        .format = UVHTTP_ACCESS_LOG_JSON, .path = argc > 2 ? argv[2] : NULL, /* NULL: standard output */
    });
    uvhttp_use(server, access_log); /* first, so that it sees how everything ends */
    signal(SIGHUP, on_hangup);
    uvhttp_use(server, uvhttp_request_id(NULL));
    uvhttp_use(server, uvhttp_security_headers(&(uvhttp_security_headers_options_t){
                           .content_security_policy = "default-src 'none'; frame-ancestors 'none'",
                       }));
    uvhttp_use(server, uvhttp_cors(&(uvhttp_cors_options_t){
                           .origins = "https://app.example, http://localhost:3000",
                           .exposed_headers = "X-Request-Id",
                           .credentials = true,
                           .max_age = 600,
                       }));
    uvhttp_get(server, "/", welcome, NULL);

    static const uvhttp_credential_t admins[] = {{"alice", "wonderland"}, {"bob", "builder"}};
    uvhttp_group_t *admin = uvhttp_group(server, "/admin");
    uvhttp_group_use(admin, uvhttp_basic_auth(&(uvhttp_basic_auth_options_t){
                                .realm = "Administration",
                                .credentials = admins,
                                .credential_count = sizeof admins / sizeof admins[0],
                            }));
    uvhttp_group_get(admin, "/name", show_name, NULL);

    uvhttp_group_t *machines = uvhttp_group(server, "/machines");
    uvhttp_group_use(machines, uvhttp_bearer_auth(&(uvhttp_bearer_auth_options_t){.check = check_token}));
    uvhttp_group_get(machines, "/name", show_name, NULL);
    uvhttp_route_t *report = uvhttp_group_post(machines, "/report", show_name, NULL);
    uvhttp_route_use(report, (uvhttp_middleware_t){.run = require_object, .needs_body = true});

    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status != 0;
}
