/* Owns: streamed bodies when any allocation fails. */
/* Needs: forms. */
#include "support/may_fail.h"
#include "support/streaming.h"

static void on_event(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp_multipart_event_t *event, void *user) {
    (void)req, (void)res, (void)event, (void)user;
}

static void take_form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    int status = uvhttp_request_on_multipart(req, NULL, on_event, take_end, NULL);
    if (status != UVHTTP_OK) uvhttp_response_empty(res, uvhttp_error_http_status(status));
}

static void late(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return;
    (void)uvhttp_request_on_body(req, take_data, take_end, NULL);
    (void)uvhttp_request_pause_body(req);
    (void)uvhttp_deferred_resume_body(deferred); /* if that fails: 500 or 503 */
    uvhttp_deferred_release(deferred);
}

static void serve_once(void *user) {
    serving_t *serving = user;
    seen_reset();
    serving->server = uvhttp_server_new(&serving->config);
    if (!serving->server) return;
    const uvhttp_route_options_t streamed = {.stream_body = true, .response_timeout_ms = 5000};
    static const struct {
        const char *path;
        uvhttp_handler_cb handler;
    } routes[] = {{"/take", take}, {"/form", take_form}, {"/late", late}};
    bool made = true;
    for (size_t i = 0; i < 3; ++i)
        made = made && uvhttp_route_options(uvhttp_post(serving->server, routes[i].path, routes[i].handler, NULL),
                                            &streamed) == UVHTTP_OK;
    if (made && uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port) == UVHTTP_OK) {
        may_fail_start(serving);
        may_fail_ask(
            serving->port,
            "POST /take HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
            "0\r\nX-Check: t\r\n\r\n");
        may_fail_ask(serving->port,
                     "POST /form HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n"
                     "Content-Type: multipart/form-data; boundary=b\r\n\r\n",
                     "--b--");
        may_fail_ask(serving->port,
                     "POST /late HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbo", "dy");
        uvhttp_server_stop(serving->server);
        pthread_join(serving->thread, NULL);
    }
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_streams_survive_any_failed_allocation(void **state) {
    may_fail_everywhere(serve_once, *state);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_streams_survive_any_failed_allocation);
}
