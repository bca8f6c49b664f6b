/* HTTP/2 on each backend, as each system call and each allocation fails once: of several streams on one connection,
 * each gets its response, an error, a reset, or the end of the connection; never a byte of another. Some have trailers,
 * wait for 100, or are tunnels of WebSocket. */
/* Needs: middleware websocket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/http2_client.h"

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/may_fail.h"

#define LARGE 50000 /* fits the first window */
#define STREAMS 11
#define CAPACITY 262144

static char large[LARGE + 1];

/* --- the server --- */

static void send_large(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_send_ref(res, 200, "text/plain", large, LARGE, NULL, NULL);
}

static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) return;
    if (uvhttp_response_write(res, "pie", 3) != UVHTTP_OK) return;
    if (uvhttp_response_write(res, "ces", 3) != UVHTTP_OK) return;
    (void)uvhttp_response_end(res);
}

/* The body, and the field that is behind it. */
static void body_and_trailer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req), trailer = uvhttp_request_trailer(req, "x-check");
    char text[64];
    int size = snprintf(text, sizeof text, "%.*s%.*s", (int)body.size, body.data, (int)trailer.size,
                        trailer.data ? trailer.data : "");
    (void)uvhttp_response_send(res, 200, "text/plain", text, (size_t)size);
}

static void echo_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    (void)uvhttp_ws_send(ws, message.type, message.data, message.size);
}

static uvhttp_flow_t proceed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_NEXT;
}

/* What the client sends meanwhile is held. */
static uvhttp_flow_t wait_for_next_iteration(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t path = uvhttp_request_path(req);
    if (path.size < 6 || memcmp(path.data, "/wait/", 6) != 0) return UVHTTP_NEXT;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return UVHTTP_STOP;
    if (uvhttp_deferred_next(deferred, proceed, NULL) != UVHTTP_OK) (void)uvhttp_deferred_text(deferred, 503, "");
    uvhttp_deferred_release(deferred);
    return UVHTTP_STOP;
}

static void set_up(uvhttp_server_t *server) {
    const uvhttp_ws_handlers_t echoes = {.on_message = echo_message};
    (void)uvhttp_use(server, (uvhttp_middleware_t){.run = wait_for_next_iteration});
    (void)uvhttp_websocket(server, "/ws", &echoes, NULL);
    (void)uvhttp_websocket(server, "/wait/ws", &echoes, NULL);
    (void)uvhttp_post(server, "/trailer", body_and_trailer, NULL);
    (void)uvhttp_post(server, "/wait/trailer", body_and_trailer, NULL);
    (void)uvhttp_get(server, "/greet/:name", may_fail_greet, NULL);
    (void)uvhttp_post(server, "/echo", may_fail_echo, NULL);
    (void)uvhttp_get(server, "/large", send_large, NULL);
    (void)uvhttp_get(server, "/later", may_fail_later, NULL);
    (void)uvhttp_get(server, "/pieces", pieces, NULL);
    (void)uvhttp_route(server, UVHTTP_GET, "/worker/:name", may_fail_greet, NULL, UVHTTP_EXEC_WORKER);
}

/* --- the client --- */

typedef enum kind { PLAIN, POST, TRAILER, EXPECT, TUNNEL } kind_t;

#define SENT_FRAMES "\x81\x85\0\0\0\0hello\x88\x82\0\0\0\0\x03\xe8" /* a message and a close frame, masked by zeros */
#define SEEN_FRAMES "\x81\x05hello\x88\x02\x03\xe8"

static const struct {
    const char *path, *body;
    kind_t kind;
} asked[STREAMS] = {{"/greet/you", "you", PLAIN},     {"/echo", "body", POST},
                    {"/large", large, PLAIN},         {"/later", "later", PLAIN},
                    {"/pieces", "pieces", PLAIN},     {"/worker/me", "me", PLAIN},
                    {"/ws", SEEN_FRAMES, TUNNEL},     {"/wait/ws", SEEN_FRAMES, TUNNEL},
                    {"/trailer", "bodyyes", TRAILER}, {"/wait/trailer", "bodyyes", TRAILER},
                    {"/echo", "body", EXPECT}};

static void put_head(h2_out_t *out, uint32_t stream, const char *path, kind_t kind) {
    char block[512];
    size_t at = h2_put_field(block, 0, ":method", kind == TUNNEL ? "CONNECT" : "POST");
    if (kind == TUNNEL) at = h2_put_field(block, at, ":protocol", "websocket");
    at = h2_put_field(block, at, ":scheme", "http");
    at = h2_put_field(block, at, ":path", path);
    at = h2_put_field(block, at, ":authority", "a");
    if (kind == TUNNEL) at = h2_put_field(block, at, "sec-websocket-version", "13");
    if (kind == EXPECT) at = h2_put_field(block, at, "expect", "100-continue");
    h2_put_frame(out, H2_HEADERS, H2_END_HEADERS, stream, block, at);
}

static void put_request(h2_out_t *out, uint32_t stream, const char *path, kind_t kind) {
    char block[64];
    if (kind == PLAIN) {
        h2_put_request(out, stream, false, path, true);
        return;
    }
    put_head(out, stream, path, kind);
    if (kind == TUNNEL) {
        h2_put_frame(out, H2_DATA, H2_END_STREAM, stream, SENT_FRAMES, sizeof SENT_FRAMES - 1);
        return;
    }
    h2_put_frame(out, H2_DATA, kind == TRAILER ? 0 : H2_END_STREAM, stream, "body", 4);
    if (kind == TRAILER)
        h2_put_frame(out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, stream, block,
                     h2_put_field(block, 0, "x-check", "yes"));
}

static void put_requests(h2_out_t *out) {
    h2_put_preface(out);
    for (uint32_t i = 0; i < STREAMS; i++) put_request(out, 2 * i + 1, asked[i].path, asked[i].kind);
}

typedef struct seen {
    bool is_ok, ended, reset;
    size_t size;
} seen_t;

static void look_at_data(seen_t *seen, uint32_t index, const unsigned char *payload, size_t size) {
    if (!seen->is_ok) return; /* an error has a text of its own */
    /* A message without memory is not sent, and the close frame is. */
    if (asked[index].kind == TUNNEL && seen->size == 0 && size > 0 && payload[0] == 0x88) return;
    assert_true(size <= strlen(asked[index].body) - seen->size);
    assert_memory_equal(payload, asked[index].body + seen->size, size);
    seen->size += size;
}

/* Goes through the frames; compare: their bytes, too. Returns how many streams have ended. */
static size_t look(const char *text, size_t size, seen_t seen[STREAMS], bool compare) {
    memset(seen, 0, STREAMS * sizeof *seen);
    size_t ended = 0;
    for (const unsigned char *at = (const unsigned char *)text; size >= 9;) {
        size_t payload = h2_get32(at) >> 8;
        uint32_t stream = h2_get32(at + 5);
        if (size < 9 + payload) break;
        if (stream % 2 == 1 && stream < 2 * STREAMS) {
            seen_t *one = &seen[stream / 2];
            if (at[3] == H2_HEADERS && !one->is_ok) one->is_ok = payload > 0 && at[9] == 0x88; /* :status 200 */
            if (compare && at[3] == H2_DATA) look_at_data(one, stream / 2, at + 9, payload);
            one->reset = one->reset || at[3] == H2_RST_STREAM;
            bool ends = one->reset || ((at[3] == H2_HEADERS || at[3] == H2_DATA) && (at[4] & H2_END_STREAM));
            ended += ends && !one->ended;
            one->ended = one->ended || ends;
        }
        at += 9 + payload;
        size -= 9 + payload;
    }
    return ended;
}

static bool all_ended(const char *text, size_t size) {
    seen_t seen[STREAMS];
    return look(text, size, seen, false) == STREAMS;
}

static void speak(one_thread_t *it) {
    static h2_out_t out;
    static char text[CAPACITY];
    seen_t seen[STREAMS];
    out.size = 0;
    put_requests(&out);
    int fd = one_thread_connect(it);
    size_t size = fd < 0 ? 0 : one_thread_exchange(it, fd, out.data, out.size, all_ended, text, sizeof text);
    if (fd >= 0) one_thread_close(it, fd);
    size_t ended = look(text, size, seen, true);
    if (it->may_fail && it->may_fail()) return;
    assert_int_equal(ended, STREAMS);
    for (size_t i = 0; i < STREAMS; i++) {
        assert_true(seen[i].is_ok && !seen[i].reset);
        assert_int_equal(seen[i].size, strlen(asked[i].body));
        it->complete++;
    }
}

static const failing_call_t calls[] = {
    {FAIL_recv, {EAGAIN, EINTR, ECONNREFUSED}},
    {FAIL_send, {EAGAIN, EINTR, EPIPE, FAIL_SHORT}},
    {FAIL_sendmsg, {EAGAIN, EINTR, EPIPE}},
    {FAIL_epoll_ctl, {ENOMEM}},
    {FAIL_pthread_create, {EAGAIN}},
    {FAIL_io_uring_enter, {EAGAIN, EBUSY, FAIL_PARTIAL}},
    {FAIL_sqe_recv, {ENOMEM, ENOBUFS}},
    {FAIL_sqe_send, {EAGAIN, EPIPE}},
    {FAIL_sqe_sendmsg, {EAGAIN, EPIPE}},
};

static const failing_life_t life = {
    .set_up = set_up, .speak = speak, .complete = STREAMS, .calls = calls, .call_count = sizeof calls / sizeof *calls};

static void test_each_system_call_may_fail(void **state) {
    fail_each_call_of(&life, state, 20);
}

static void test_each_allocation_may_fail(void **state) {
    fail_each_allocation_of(&life, state, 50);
}

int main(void) {
    memset(large, 'l', LARGE);
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_IN_ONE_THREAD(test_each_system_call_may_fail, test_each_allocation_may_fail);
}
