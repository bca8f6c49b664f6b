/* Owns: tests of streams that are reset for the memory of their connection (http2_connection_memory_max), while a
 * handler has their bodies. */
#include <semaphore.h>

#include "support/http2_client.h"

enum { MEMORY_MAX = 65536, BODY_SIZE = 60000, PIECE = 10000 };

static struct {
    sem_t proceed;
    atomic_uint begun, reset, served;
} seen;

static void seen_reset(void) {
    memset(&seen, 0, sizeof seen);
    sem_init(&seen.proceed, 0, 0);
}

/* Its body waits for it; reads all. */
static void on_worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    atomic_fetch_add(&seen.begun, 1);
    while (sem_wait(&seen.proceed) != 0) continue;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_request_read_body(req, &piece, UVHTTP_NEVER)) == UVHTTP_OK) continue;
    if (status == UVHTTP_E_LIMIT) atomic_fetch_add(&seen.reset, 1);
    if (status == UVHTTP_E_EOF) atomic_fetch_add(&seen.served, 1);
    (void)uvhttp_response_text(res, 200, "read");
}

static void send_all(int fd, h2_out_t *out) {
    assert_int_equal(send(fd, out->data, out->size, MSG_NOSIGNAL), out->size);
    out->size = 0;
}

static h2_out_t out;

static void put_body(int fd, uint32_t stream) {
    static const char zeros[PIECE];
    for (uint32_t at = 0; at < BODY_SIZE; at += PIECE) {
        h2_put_frame(&out, H2_DATA, at + PIECE == BODY_SIZE ? H2_END_STREAM : 0, stream, zeros, sizeof zeros);
        send_all(fd, &out);
    }
}

/* Its wait would never end, and the thread would be lost. */
static void test_a_thread_that_reads_the_body_is_notified(void **state) {
    static h2_frame_t frame;
    serving_t *serving = *state;
    seen_reset();
    serving->config.http2_connection_memory_max = MEMORY_MAX;
    serving->config.worker_threads = 4; /* half of them may wait for their clients */
    serving_make(serving);
    uvhttp_route_t *route = uvhttp_route(serving->server, UVHTTP_POST, "/read", on_worker, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route_options(route, &(uvhttp_route_options_t){.stream_body = true, .live_body = true});
    serving_start(serving);
    int fd = client_connect(serving->port);
    out.size = 0;
    h2_put_preface(&out);
    h2_put_request(&out, 1, true, "/read", false);
    h2_put_request(&out, 3, true, "/read", false);
    send_all(fd, &out);
    WAIT_UNTIL(atomic_load(&seen.begun) == 2);
    put_body(fd, 1);
    put_body(fd, 3);
    h2_expect(fd, H2_RST_STREAM, UINT32_MAX, &frame);
    assert_int_equal(h2_get32(frame.payload), 11); /* ENHANCE_YOUR_CALM */
    sem_post(&seen.proceed);
    sem_post(&seen.proceed);
    WAIT_UNTIL(atomic_load(&seen.reset) + atomic_load(&seen.served) == 2); /* which ones depends on when bytes come */
    assert_true(atomic_load(&seen.reset) > 0);
    serving_leave(serving, fd);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_thread_that_reads_the_body_is_notified);
}
