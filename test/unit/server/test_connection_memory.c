/* Owns: the proof of "Memory of a connection" (docs/guide/limits.md): what one client over HTTP/1 makes the library
 * allocate at most, in each state of its connection. */
#include "support/failing_allocator.h"
#include "support/http_server.h"

/* The session, its exchange with an arena, and a segment; the slabs that they stand in have been filled before. */
#define FIXED ((size_t)4096)
/* 64 KiB before receiving stops, and what is received by then: on io_uring it can be all buffers of the loop. */
#define UNREAD ((size_t)128 * 1024)
#define UNREAD_URING ((size_t)64 * 1024 + ((size_t)1 << 20))
/* Allocated ahead of a trailer. */
#define TRAILER_AHEAD ((size_t)4096)
#define RESPONSE_SIZE ((size_t)64 * 1024)

static uvhttp_deferred_t *_Atomic deferred;

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    deferred = uvhttp_response_defer(res);
}

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *size) {
    static const char body[RESPONSE_SIZE];
    (void)req;
    (void)uvhttp_response_send(res, 200, "text/plain", body, *(const size_t *)size);
}

typedef struct measured {
    serving_t *serving;
    const uvhttp_server_config_t *config;
    int control; /* another connection of the only loop */
    size_t before;
    char *text; /* of the client */
    size_t size;
} measured_t;

#define TEXT_SIZE ((size_t)16 << 20)
#define PIECE ((size_t)3000)

static void text_add(measured_t *m, const char *text) {
    size_t size = strlen(text);
    assert_true(m->size + size <= TEXT_SIZE);
    memcpy(m->text + m->size, text, size);
    m->size += size;
}

static void text_fill(measured_t *m, size_t size) {
    assert_true(m->size + size <= TEXT_SIZE);
    memset(m->text + m->size, 'a', size);
    m->size += size;
}

/* The loop has seen what was there before. */
static void iterate(const measured_t *m) {
    client_send_text(m->control, GET("/"));
    assert_int_equal(client_read(m->control)->status, 200);
}

static size_t grown(const measured_t *m) {
    iterate(m);
    size_t now = test_allocator_live_bytes();
    return now > m->before ? now - m->before : 0;
}

/* Sends the text, as much as the server accepts until it keeps `reached`. It never keeps more than `most`. */
static void attempt(measured_t *m, size_t reached, size_t most) {
    m->before = test_allocator_live_bytes();
    int fd = client_connect_narrow(m->serving->port, 4096);
    size_t sent = 0, keeps = 0;
    for (int tries = 0; sent < m->size || keeps < reached; tries++) {
        size_t piece = m->size - sent < PIECE ? m->size - sent : PIECE;
        ssize_t n = send(fd, m->text + sent, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) sent += (size_t)n;
        keeps = grown(m);
        if (keeps > most) fail_msg("after %zu bytes the server keeps %zu, more than %zu", sent, keeps, most);
        if (n < 0 && keeps >= reached) break;
        if (tries == 100000) fail_msg("after %zu bytes the server keeps %zu, less than %zu", sent, keeps, reached);
    }
    client_reset(fd);
    if (deferred) uvhttp_deferred_release(deferred);
    deferred = NULL;
}

static void measure(measured_t *m, size_t reached, size_t most) {
    attempt(m, 0, SIZE_MAX); /* what the loop allocates once */
    uint64_t open;
    do {
        iterate(m);
        uvhttp_metrics_t metrics;
        uvhttp_server_metrics(m->serving->server, &metrics);
        open = metrics.connections_active;
    } while (open > 1);
    attempt(m, reached, most);
    m->size = 0;
}

/* --- the states --- */

static size_t head_max(const measured_t *m) {
    return m->config->request_line_max + m->config->headers_size_max;
}

static size_t unread_max(const measured_t *m) {
    return m->config->engine == UVHTTP_ENGINE_URING ? UNREAD_URING : UNREAD;
}

/* A head as large as it may be, but for some bytes, without its end. */
static void add_large_head(measured_t *m, const char *start) {
    text_add(m, start);
    text_fill(m, m->config->request_line_max - 100);
    text_add(m, " HTTP/1.1\r\nHost: a\r\nX: ");
    text_fill(m, m->config->headers_size_max - 100);
}

static void part_of_a_head(measured_t *m) {
    add_large_head(m, "GET /?");
    measure(m, head_max(m) - 200, FIXED + 2 * head_max(m));
}

static void body_that_was_announced(measured_t *m) {
    char length[64];
    size_t size = m->config->body_size_max;
    snprintf(length, sizeof length, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
    text_add(m, length);
    text_fill(m, size - 1);
    measure(m, size - 1, FIXED + size);
}

static void body_without_a_length(measured_t *m) {
    char length[64];
    size_t size = m->config->body_size_max;
    add_large_head(m, "POST /?");
    snprintf(length, sizeof length, "\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n", size);
    text_add(m, length);
    text_fill(m, size);
    text_add(m, "\r\n0\r\nX: ");
    text_fill(m, m->config->trailer_size_max - 100);
    size_t trailer = m->config->trailer_size_max;
    measure(m, size + trailer - 100, FIXED + head_max(m) + size + trailer + TRAILER_AHEAD);
}

static void more_while_a_response_is_deferred(measured_t *m) {
    add_large_head(m, "GET /later?");
    text_add(m, "\r\n\r\n");
    text_fill(m, TEXT_SIZE - m->size);
    measure(m, head_max(m) + UNREAD / 2, FIXED + head_max(m) + unread_max(m));
}

static void responses_that_are_not_read(measured_t *m) {
    while (m->size < TEXT_SIZE - 100) text_add(m, GET("/large"));
    measure(m, RESPONSE_SIZE + UNREAD / 2, FIXED + m->config->write_buffer_size + RESPONSE_SIZE + unread_max(m));
}

static void test_a_client_costs_no_more_than_the_sum(void **state) {
    static const size_t small = 2, large = RESPONSE_SIZE;
    serving_t *serving = *state;
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/", respond, (void *)&small));
    assert_non_null(uvhttp_post(serving->server, "/", respond, (void *)&small));
    assert_non_null(uvhttp_get(serving->server, "/large", respond, (void *)&large));
    assert_non_null(uvhttp_get(serving->server, "/later", defer, NULL));
    serving_start(serving);
    measured_t m = {.serving = serving, .config = &serving->config, .text = malloc(TEXT_SIZE)};
    m.control = client_connect(serving->port);
    part_of_a_head(&m);
    body_that_was_announced(&m);
    body_without_a_length(&m);
    more_while_a_response_is_deferred(&m);
    responses_that_are_not_read(&m);
    free(m.text);
    serving_leave(serving, m.control);
}

int main(void) {
    test_allocator_install();
    return RUN_ON_EACH(test_a_client_costs_no_more_than_the_sum);
}
