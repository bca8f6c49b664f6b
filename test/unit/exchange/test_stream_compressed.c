/* Owns: tests of compressed event streams on the wire: what is written arrives while the response is open, and a client
 * that goes leaves nothing behind. */
/* Needs: middleware compression. */
#include <zlib.h>

#include "support/streaming.h"

static _Atomic(uvhttp_deferred_t *) stream;
static atomic_int refused, drains, written;

static void begin_events(uvhttp_response_t *res, void *user) {
    (void)user;
    if (!res) return;
    uvhttp_response_begin(res, 200, "text/event-stream", UVHTTP_SIZE_UNKNOWN);
    uvhttp_response_write(res, "data: one\n\n", 11);
}

static void write_event(uvhttp_response_t *res, void *user) {
    if (res) uvhttp_response_write(res, user, strlen(user));
}

static void end_events(uvhttp_response_t *res, void *user) {
    (void)user;
    if (res) uvhttp_response_end(res);
}

static char noise[60000]; /* does not get smaller */

static void flood(uvhttp_response_t *res, void *user) {
    (void)user;
    if (!res) return;
    int status;
    while ((status = uvhttp_response_write(res, noise, sizeof noise)) == UVHTTP_OK) atomic_fetch_add(&written, 1);
    if (status == UVHTTP_E_LIMIT) atomic_fetch_add(&refused, 1);
}

static void on_drain(uvhttp_response_t *res, void *user) {
    (void)user;
    if (atomic_fetch_add(&drains, 1) < 20)
        flood(res, NULL);
    else
        uvhttp_response_end(res);
}

static void events(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_on_done(res, take_done, NULL);
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    uvhttp_deferred_on_drain(deferred, on_drain, NULL);
    uvhttp_deferred_run(deferred, begin_events, NULL);
    atomic_store(&stream, deferred);
}

/* On a worker thread, which waits where the loop would be refused. */
static void flood_from_worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_on_done(res, take_done, NULL);
    uvhttp_response_begin(res, 200, "text/event-stream", UVHTTP_SIZE_UNKNOWN);
    for (int i = 0; i < 20 && uvhttp_response_write(res, noise, sizeof noise) == UVHTTP_OK; ++i)
        atomic_fetch_add(&written, 1);
}

static void start(serving_t *serving) {
    static const char *const types[] = {"text/event-stream", NULL};
    seen_reset();
    refused = drains = written = 0;
    atomic_store(&stream, NULL);
    uint64_t state = 1;
    for (size_t i = 0; i < sizeof noise; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        noise[i] = (char)(state >> 56);
    }
    serving->config.write_queue_max = 200000;
    serving_make(serving);
    uvhttp_use(serving->server, uvhttp_compression(&(uvhttp_compression_options_t){.types = types}));
    uvhttp_get(serving->server, "/events", events, NULL);
    uvhttp_route(serving->server, UVHTTP_GET, "/worker", flood_from_worker, NULL, UVHTTP_EXEC_WORKER);
    serving_start(serving);
}

static const char gzip_request[] = "GET /events HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";

static void skip_head(int fd, char *text, size_t size) {
    size_t used = 0;
    memset(text, 0, size);
    while (!strstr(text, "\r\n\r\n")) {
        assert_true(used + 1 < size);
        client_receive(fd, text + used++, 1);
    }
}

/* Takes chunks and inflates them until `size` bytes have come out, or the last chunk. */
typedef struct reader {
    int fd;
    z_stream stream;
    bool last;
} reader_t;

static void read_chunk(reader_t *reader) {
    char line[32] = "", byte;
    for (size_t used = 0; !strstr(line, "\r\n"); ++used) {
        assert_true(used + 1 < sizeof line);
        client_receive(reader->fd, line + used, 1);
    }
    size_t left = strtoul(line, NULL, 16);
    reader->last = left == 0;
    static char data[1 << 20];
    assert_true(left < sizeof data);
    for (size_t at = 0; at < left;) {
        ssize_t got = client_receive_some(reader->fd, data + at, left - at);
        assert_true(got > 0);
        at += (size_t)got;
    }
    for (int i = 0; i < 2; ++i) client_receive(reader->fd, &byte, 1);
    reader->stream.next_in = (Bytef *)data;
    reader->stream.avail_in = (unsigned)left;
    static char out[1 << 20];
    while (reader->stream.avail_in > 0) {
        if (reader->stream.avail_out == 0) {
            reader->stream.next_out = (Bytef *)out;
            reader->stream.avail_out = sizeof out;
        }
        int status = inflate(&reader->stream, Z_SYNC_FLUSH);
        assert_true(status == Z_OK || status == Z_STREAM_END);
    }
}

static void test_an_event_arrives_while_the_stream_is_open(void **state) {
    serving_t *serving = *state;
    char head[1024], out[100] = "";
    start(serving);
    reader_t reader = {.fd = client_ask(serving, gzip_request)};
    skip_head(reader.fd, head, sizeof head);
    assert_non_null(strstr(head, "Content-Encoding: gzip\r\n"));
    assert_non_null(strstr(head, "Vary: Accept-Encoding\r\n"));
    assert_int_equal(inflateInit2(&reader.stream, 15 + 16), Z_OK);
    reader.stream.next_out = (Bytef *)out;
    reader.stream.avail_out = sizeof out;
    while (reader.stream.total_out < 11) read_chunk(&reader);
    assert_string_equal(out, "data: one\n\n");
    assert_int_equal(uvhttp_deferred_run(stream, write_event, "data: two\n\n"), UVHTTP_OK);
    while (reader.stream.total_out < 22) read_chunk(&reader);
    assert_string_equal(out, "data: one\n\ndata: two\n\n");
    assert_int_equal(seen.dones, 0);
    assert_int_equal(uvhttp_deferred_run(stream, end_events, NULL), UVHTTP_OK);
    while (!reader.last) read_chunk(&reader);
    uvhttp_deferred_release(stream);
    inflateEnd(&reader.stream);
    close(reader.fd);
    WAIT_UNTIL(seen.dones == 1);
    assert_int_equal(seen.done_status, UVHTTP_OK);
}

static void test_a_client_that_goes_ends_the_encoder(void **state) {
    serving_t *serving = *state;
    char head[1024];
    start(serving);
    for (int i = 0; i < 3; ++i) {
        static const char *const codings[] = {"gzip", "br", "gzip"};
        char request[200];
        snprintf(request, sizeof request, "GET /events HTTP/1.1\r\nHost: a\r\nAccept-Encoding: %s\r\n\r\n", codings[i]);
        int fd = client_ask(serving, request);
        skip_head(fd, head, sizeof head);
        assert_non_null(strstr(head, codings[i]));
        WAIT_UNTIL(atomic_load(&stream) != NULL);
        if (i < 2)
            close(fd);
        else
            client_reset(fd);
        WAIT_UNTIL(seen.dones == i + 1);
        assert_int_equal(seen.done_status, UVHTTP_E_ABORTED);
        assert_int_equal(uvhttp_deferred_run(stream, write_event, "x"), UVHTTP_E_ABORTED);
        uvhttp_deferred_release(atomic_exchange(&stream, NULL));
    }
}

/* The queue holds 200,000 bytes; a piece that was refused is not in the stream. */
static void test_a_slow_client_holds_back_the_writer(void **state) {
    serving_t *serving = *state;
    char head[1024];
    start(serving);
    reader_t reader = {.fd = client_ask(serving, gzip_request)};
    skip_head(reader.fd, head, sizeof head);
    WAIT_UNTIL(atomic_load(&stream) != NULL);
    assert_int_equal(inflateInit2(&reader.stream, 15 + 16), Z_OK);
    assert_int_equal(uvhttp_deferred_run(stream, flood, NULL), UVHTTP_OK);
    WAIT_UNTIL(refused > 0);
    while (!reader.last) read_chunk(&reader);
    assert_int_equal(reader.stream.total_out, 11 + (unsigned long)written * sizeof noise);
    assert_true(written >= 20);
    uvhttp_deferred_release(stream);
    inflateEnd(&reader.stream);
    close(reader.fd);
}

static void test_a_worker_thread_compresses_and_waits_for_its_client(void **state) {
    serving_t *serving = *state;
    char head[1024];
    serving->config.write_queue_max = 65536;
    start(serving);
    reader_t reader = {.fd = client_ask(serving, "GET /worker HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")};
    skip_head(reader.fd, head, sizeof head);
    assert_non_null(strstr(head, "Content-Encoding: gzip\r\n"));
    assert_int_equal(inflateInit2(&reader.stream, 15 + 16), Z_OK);
    while (!reader.last) read_chunk(&reader);
    WAIT_UNTIL(seen.dones == 1);
    assert_int_equal(seen.done_status, UVHTTP_OK);
    assert_int_equal(written, 20);
    assert_int_equal(reader.stream.total_out, 20 * sizeof noise);
    inflateEnd(&reader.stream);
    close(reader.fd);
    int fd = client_ask(serving, "GET /worker HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    skip_head(fd, head, sizeof head);
    client_reset(fd);
    WAIT_UNTIL(seen.dones == 2);
    assert_int_equal(seen.done_status, UVHTTP_E_ABORTED);
}

int main(void) {
    return RUN_ON_EACH(test_an_event_arrives_while_the_stream_is_open, test_a_client_that_goes_ends_the_encoder,
                       test_a_slow_client_holds_back_the_writer,
                       test_a_worker_thread_compresses_and_waits_for_its_client);
}
