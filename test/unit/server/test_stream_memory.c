/* Owns: streamed bodies when any allocation fails. */
#include "support/failing_allocator.h"

#include "server/streaming.h"

static atomic_bool run_returned;

static void *run(void *arg) {
    serving_t *serving = arg;
    serving->status = uvhttp_server_run(serving->server, NULL);
    atomic_store(&run_returned, true);
    return NULL;
}

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

/* Any whole answer, or none. */
static void ask(uint16_t port, const char *first, const char *second) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = LIMIT_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        (void)send(fd, first, strlen(first), MSG_NOSIGNAL);
        (void)send(fd, second, strlen(second), MSG_NOSIGNAL);
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        for (int tries = 0; poll(&readable, 1, 10) <= 0 && !atomic_load(&run_returned); tries++)
            assert_true(tries < LIMIT_SECONDS * 100);
        if (!atomic_load(&run_returned)) {
            answer_t *answer = client_read(fd);
            assert_true(answer->size == 0 || answer->status == 200 || answer->status == 500 || answer->status == 503);
        }
    }
    close(fd);
}

static void serve_once(void *user) {
    serving_t *serving = user;
    seen_reset();
    atomic_store(&run_returned, false);
    serving->server = uvhttp_server_new(&serving->config);
    if (!serving->server) return;
    const uvhttp_route_options_t streamed = {.stream_body = true, .answer_timeout_ms = 5000};
    static const struct {
        const char *path;
        uvhttp_handler_t handler;
    } routes[] = {{"/take", take}, {"/form", take_form}, {"/late", late}};
    bool made = true;
    for (size_t i = 0; i < 3; ++i)
        made = made && uvhttp_post(serving->server, routes[i].path, routes[i].handler, NULL) == UVHTTP_OK &&
               uvhttp_route_options(serving->server, &streamed) == UVHTTP_OK;
    if (made && uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port) == UVHTTP_OK) {
        assert_int_equal(pthread_create(&serving->thread, NULL, run, serving), 0);
        ask(serving->port,
            "POST /take HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
            "0\r\nX-Check: t\r\n\r\n");
        ask(serving->port,
            "POST /form HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\n\r\n",
            "--b--");
        ask(serving->port, "POST /late HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbo", "dy");
        uvhttp_server_stop(serving->server);
        pthread_join(serving->thread, NULL);
    }
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_streams_survive_any_failed_allocation(void **state) {
    serving_t *serving = *state;
    serve_once(serving); /* what is made once and stays */
    size_t count = test_allocator_each_failure(serve_once, serving);
    print_message("%zu allocations, each failed once\n", count);
    assert_true(count > 20);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    const struct CMUnitTest tests[] = {ON_EACH(test_streams_survive_any_failed_allocation)};
    return RUN_ON_EACH(tests);
}
