/* Owns: tests of work that has lost its stream: it counts as a stream until it has ended, wherever it runs, and
 * outlives the connection. */
/* Needs: coroutines. */
#include <semaphore.h>

#include "support/http2_client.h"

enum { STREAMS = 2 };

static struct {
    sem_t proceed;
    atomic_uint begun, ended, kept_count;
    uvhttp_deferred_t *kept[STREAMS];
} work;

static void block(void *arg) {
    (void)arg;
    while (sem_wait(&work.proceed) != 0) continue;
}

static void on_worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    atomic_fetch_add(&work.begun, 1);
    block(user);
    (void)uvhttp_response_text(res, 200, "done");
    atomic_fetch_add(&work.ended, 1);
}

static void on_coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    atomic_fetch_add(&work.begun, 1);
    (void)uvhttp_coro_work(block, user);
    (void)uvhttp_response_text(res, 200, "done");
    atomic_fetch_add(&work.ended, 1);
}

static void on_loop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    work.kept[atomic_load(&work.kept_count)] = uvhttp_response_defer(res);
    atomic_fetch_add(&work.kept_count, 1);
    atomic_fetch_add(&work.begun, 1);
}

static void text(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_text(res, 200, "here");
}

/* Also handles, on a thread that is no loop's. */
static void let_go(void) {
    for (unsigned i = 0; i < STREAMS; i++) sem_post(&work.proceed);
    for (unsigned i = 0; i < atomic_load(&work.kept_count); i++) uvhttp_deferred_release(work.kept[i]);
    if (atomic_exchange(&work.kept_count, 0) == 0) WAIT_UNTIL(atomic_load(&work.ended) == STREAMS);
}

static serving_t *serve(void **state) {
    serving_t *serving = *state;
    memset(&work, 0, sizeof work);
    sem_init(&work.proceed, 0, 0);
    serving->config.http2_concurrent_streams_max = STREAMS;
    serving->config.worker_threads = 2 * STREAMS;
    serving_make(serving);
    assert_non_null(uvhttp_route(serving->server, UVHTTP_GET, "/worker", on_worker, NULL, UVHTTP_EXEC_WORKER));
    assert_non_null(uvhttp_route(serving->server, UVHTTP_GET, "/coro", on_coroutine, NULL, UVHTTP_EXEC_COROUTINE));
    assert_non_null(uvhttp_get(serving->server, "/deferred", on_loop, NULL));
    assert_non_null(uvhttp_get(serving->server, "/", text, NULL));
    serving_start(serving);
    return serving;
}

/* --- the client --- */

static void send_all(int fd, h2_out_t *out) {
    assert_int_equal(send(fd, out->data, out->size, MSG_NOSIGNAL), out->size);
    out->size = 0;
}

/* All streams are open, and their handlers have begun. */
static int open_streams(const serving_t *serving, const char *path, h2_out_t *out) {
    int fd = client_connect(serving->port);
    out->size = 0;
    h2_put_preface(out);
    for (uint32_t i = 0; i < STREAMS; i++) h2_put_request(out, 2 * i + 1, false, path, true);
    send_all(fd, out);
    WAIT_UNTIL(atomic_load(&work.begun) == STREAMS);
    return fd;
}

static void reset_streams(int fd, h2_out_t *out) {
    static const unsigned char cancel[] = {0, 0, 0, 8};
    for (uint32_t i = 0; i < STREAMS; i++) h2_put_frame(out, H2_RST_STREAM, 0, 2 * i + 1, cancel, sizeof cancel);
    send_all(fd, out);
}

/* Whether one more stream is admitted; if not it is to be tried again elsewhere. */
static bool is_admitted(int fd, uint32_t stream, h2_out_t *out) {
    static h2_frame_t frame;
    h2_put_request(out, stream, false, "/", true);
    send_all(fd, out);
    do assert_true(h2_read(fd, &frame));
    while (frame.stream != stream || (frame.type == H2_DATA && !(frame.flags & H2_END_STREAM)));
    if (frame.type == H2_RST_STREAM) assert_int_equal(h2_get32(frame.payload), 7); /* REFUSED_STREAM */
    return frame.type != H2_RST_STREAM;
}

static h2_out_t out;

static void check_count(serving_t *serving, const char *path) {
    int fd = open_streams(serving, path, &out);
    uint32_t stream = 2 * STREAMS + 1;
    reset_streams(fd, &out);
    assert_false(is_admitted(fd, stream, &out));
    assert_false(is_admitted(fd, stream += 2, &out));
    let_go();
    WAIT_UNTIL(is_admitted(fd, stream += 2, &out));
    serving_leave(serving, fd);
}

static void test_a_job_counts_until_it_has_ended(void **state) {
    check_count(serve(state), "/worker");
}

static void test_a_coroutine_counts_until_it_has_ended(void **state) {
    check_count(serve(state), "/coro");
}

static void test_a_deferred_handle_counts_until_it_is_released(void **state) {
    check_count(serve(state), "/deferred");
}

static bool has_connections(const serving_t *serving) {
    uvhttp_metrics_t metrics;
    uvhttp_server_metrics(serving->server, &metrics);
    return metrics.connections_active > 0;
}

static void check_outlives(serving_t *serving, const char *path) {
    int fd = open_streams(serving, path, &out);
    reset_streams(fd, &out);
    assert_false(is_admitted(fd, 2 * STREAMS + 1, &out));
    close(fd);
    WAIT_UNTIL(!has_connections(serving));
    let_go();
    serving_stop(serving);
}

static void test_a_job_outlives_the_connection(void **state) {
    check_outlives(serve(state), "/worker");
}

static void test_a_coroutine_outlives_the_connection(void **state) {
    check_outlives(serve(state), "/coro");
}

static void test_a_deferred_handle_outlives_the_connection(void **state) {
    check_outlives(serve(state), "/deferred");
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_job_counts_until_it_has_ended, test_a_coroutine_counts_until_it_has_ended,
                       test_a_deferred_handle_counts_until_it_is_released, test_a_job_outlives_the_connection,
                       test_a_coroutine_outlives_the_connection, test_a_deferred_handle_outlives_the_connection);
}
