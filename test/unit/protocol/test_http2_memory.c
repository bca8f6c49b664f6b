/* Owns: a test of HTTP/2 without memory: any allocation may fail, and nothing is lost or kept. */
#include <fcntl.h>
#include <uvhttp/metrics.h>

#include "support/http2_client.h"
#include "support/may_fail.h"

#define LARGE (200u * 1024)

static char large[LARGE];
static char path[] = "/tmp/uvhttp-http2-XXXXXX";

static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) return;
    for (int i = 0; i < 4; i++) (void)uvhttp_response_write(res, large, 30000);
}

static void copy(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_send(res, 200, "text/plain", large, LARGE);
}

static void file(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_send_file(res, 200, "text/plain", path);
}

static void take_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res, (void)data, (void)user;
    (void)uvhttp_request_pause_body(req); /* what follows is held */
    (void)uvhttp_request_resume_body(req);
}

static void take_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)user;
    if (status == UVHTTP_OK) (void)uvhttp_response_text(res, 200, "taken");
}

static void take(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    if (uvhttp_request_on_body(req, take_data, take_end, user) != UVHTTP_OK) (void)uvhttp_response_text(res, 500, "no");
}

static void add_routes(uvhttp_server_t *server) {
    static const uvhttp_route_options_t streamed = {.stream_body = true};
    (void)uvhttp_get(server, "/greet/:name", may_fail_greet, NULL);
    (void)uvhttp_post(server, "/echo", may_fail_echo, NULL);
    (void)uvhttp_get(server, "/later", may_fail_later, NULL);
    (void)uvhttp_get(server, "/pieces", pieces, NULL);
    (void)uvhttp_get(server, "/copy", copy, NULL);
    (void)uvhttp_get(server, "/file", file, NULL);
    (void)uvhttp_route_options(uvhttp_post(server, "/take", take, NULL), &streamed);
    (void)uvhttp_route(server, UVHTTP_GET, "/worker/:name", may_fail_greet, NULL, UVHTTP_EXEC_WORKER);
}

/* Returns how many streams there are. */
static int put_requests(h2_out_t *out) {
    static const char *const paths[] = {"/greet/x", "/later", "/pieces", "/copy", "/file", "/worker/x", "/none"};
    uint32_t stream = 1;
    h2_put_preface(out);
    h2_put_setting(out, 4, 1 << 20); /* the windows of streams, and of the connection */
    h2_put_window(out, 0, 1 << 20);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++, stream += 2)
        h2_put_request(out, stream, false, paths[i], true);
    h2_put_request(out, stream, true, "/echo", false);
    h2_put_frame(out, H2_DATA, 0, stream, "ab", 2);
    h2_put_frame(out, H2_DATA, H2_END_STREAM, stream, "cd", 2);
    stream += 2;
    h2_put_request(out, stream, true, "/take", false);
    for (int i = 0; i < 3; i++) h2_put_frame(out, H2_DATA, i == 2 ? H2_END_STREAM : 0, stream, large, 3000);
    return (int)(stream + 1) / 2;
}

/* Each request gets a whole response, or is reset, or the connection ends. */
static void visit(uint16_t port) {
    static h2_out_t out;
    static h2_frame_t frame;
    int fd = client_socket();
    struct sockaddr_in address = loopback(port);
    out.size = 0;
    int streams = put_requests(&out);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, out.data, out.size, MSG_NOSIGNAL) == (ssize_t)out.size) {
        while (streams > 0 && h2_read(fd, &frame)) {
            bool carries = frame.type == H2_DATA || frame.type == H2_HEADERS;
            if (frame.type == H2_RST_STREAM && h2_get32(frame.payload) == 0) continue; /* behind a whole response */
            streams -= frame.type == H2_RST_STREAM || (carries && (frame.flags & H2_END_STREAM));
        }
        shutdown(fd, SHUT_WR);
        while (h2_read(fd, &frame)) continue;
    }
    close(fd);
}

static void serve_once(serving_t *serving) {
    serving->server = uvhttp_server_new(&serving->config);
    if (!serving->server) return;
    add_routes(serving->server);
    if (uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port) == UVHTTP_OK) {
        may_fail_start(serving);
        visit(serving->port);
        uvhttp_server_stop(serving->server);
        pthread_join(serving->thread, NULL);
    }
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void attempt(void *user) {
    serve_once(user);
}

static void test_requests_survive_any_failed_allocation(void **state) {
    serving_t *serving = *state;
    serve_once(serving); /* what is made once and stays */
    size_t count = test_allocator_each_failure(attempt, serving);
    print_message("%zu allocations, each failed once\n", count);
    assert_true(count > 20);
}

/* Returns whether it was reset with REFUSED_STREAM. */
static bool post_once(uint16_t port, size_t failing) {
    static h2_out_t out;
    static h2_frame_t frame;
    int fd = client_connect(port);
    out.size = 0;
    h2_put_preface(&out);
    h2_put_request(&out, 1, true, "/echo", false);
    h2_put_frame(&out, H2_DATA, H2_END_STREAM, 1, "ab", 2);
    test_allocator_fail_from(failing);
    (void)send(fd, out.data, out.size, MSG_NOSIGNAL);
    while (h2_read(fd, &frame) && frame.type != H2_RST_STREAM && !(frame.stream == 1 && frame.flags & H2_END_STREAM))
        continue;
    test_allocator_fail_at(0);
    close(fd);
    return frame.type == H2_RST_STREAM && h2_get32(frame.payload) == 7;
}

/* Also one that has not come as far as its route. Its exchange is new: what is not set in it is no address. */
static void test_a_request_without_memory_is_measured(void **state) {
    serving_t *serving = *state;
    serving->config.metrics = true;
    for (size_t failing = 1; failing <= 20; failing++) {
        serving_make(serving);
        add_routes(serving->server);
        serving_start(serving);
        client_read_last(client_ask(serving, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 404);
        bool refused = post_once(serving->port, failing);
        serving_stop(serving);
        assert_int_equal(uvhttp_server_counter(serving->server, "http2_streams_refused"), refused);
        uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
        assert_int_equal(snapshot->active_requests, 0);
        for (uint32_t i = 0; i < snapshot->series_count; i++) {
            const char *route = uvhttp_metrics_series(snapshot, i)->route;
            if (*route) assert_string_equal(route, "/echo");
        }
        uvhttp_metrics_free(snapshot);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    memset(large, 'x', sizeof large);
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, large, LARGE) != LARGE) return 1;
    close(fd);
    int failed = RUN_ON_EACH(test_requests_survive_any_failed_allocation, test_a_request_without_memory_is_measured);
    unlink(path);
    return failed;
}
