/* WebSocket on each backend, as each system call and each allocation fails once: an echo, compressed messages in steps,
 * and topics. What a client gets is the right frames in order, perhaps not all of them, then a close frame or the end.
 */
/* Needs: websocket compression. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/process.h"

#define LONG 3000
#define CAPACITY 65536

static char long_text[LONG];

/* --- the server --- */

static void echo(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    (void)uvhttp_ws_send(ws, message.type, message.data, message.size);
}

/* Passes each fragment on, as part of a message of its own. */
static void echo_fragment(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user) {
    (void)user;
    if (fragment.first && uvhttp_ws_begin(ws, fragment.type) != UVHTTP_OK) return;
    if (fragment.size > 0) (void)uvhttp_ws_write(ws, fragment.data, fragment.size);
    if (fragment.last) (void)uvhttp_ws_end(ws);
}

static void subscribe(uvhttp_ws_t *ws, void *user) {
    (void)user;
    (void)uvhttp_ws_subscribe(ws, "news");
}

static void publish(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    (void)uvhttp_ws_publish(ws, "news", message.type, message.data, message.size);
}

static void set_up(uvhttp_server_t *server) {
    static const uvhttp_ws_options_t compressed = {.compression = true, .close_timeout = 1};
    static const uvhttp_ws_options_t takeover = {.compression = true, .context_takeover = true, .close_timeout = 1};
    static const uvhttp_ws_options_t to_self = {.compression = true, .publish_to_self = true, .close_timeout = 1};
    const uvhttp_ws_handlers_t echoes = {.on_message = echo, .options = &compressed};
    const uvhttp_ws_handlers_t keeps = {.on_message = echo, .options = &takeover};
    const uvhttp_ws_handlers_t parts = {.on_fragment = echo_fragment, .options = &compressed};
    const uvhttp_ws_handlers_t topics = {.on_open = subscribe, .on_message = publish, .options = &to_self};
    (void)uvhttp_websocket(server, "/echo", &echoes, NULL);
    (void)uvhttp_websocket(server, "/keeps", &keeps, NULL);
    (void)uvhttp_websocket(server, "/parts", &parts, NULL);
    (void)uvhttp_websocket(server, "/topic", &topics, NULL);
}

/* --- frames --- */

enum { CONTINUATION, TEXT, BINARY, CLOSE = 8, PING, PONG, FIN = 0x80, COMPRESSED = 0x40 };

typedef struct bytes {
    size_t size;
    unsigned char data[CAPACITY];
} bytes_t;

static void add(bytes_t *to, const void *data, size_t size) {
    assert_true(size <= CAPACITY - to->size);
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

/* mask: 0x80 and a key of zeros, for those of the client; 0 for those of the server. */
static void add_frame(bytes_t *to, int head, int mask, const void *payload, size_t size) {
    const unsigned char bytes[] = {(unsigned char)head, (unsigned char)(mask | (size < 126 ? (int)size : 126)),
                                   (unsigned char)(size >> 8), (unsigned char)size};
    add(to, bytes, size < 126 ? 2 : 4);
    if (mask) add(to, "\0\0\0", 4);
    add(to, payload, size);
}

/* A message as permessage-deflate has it: one stored block, and the header of an empty one (RFC 7692 section 7.2.3.3).
 */
static void add_stored(bytes_t *to, const char *text, size_t size) {
    bytes_t payload = {.size = 0};
    const unsigned char head[] = {0, (unsigned char)size, (unsigned char)(size >> 8), (unsigned char)~size,
                                  (unsigned char)(~size >> 8)};
    add(&payload, head, sizeof head);
    add(&payload, text, size);
    add(&payload, "", 1);
    add_frame(to, FIN | COMPRESSED | TEXT, 0x80, payload.data, payload.size);
}

/* The size of a whole frame of the server at the start of the bytes, or 0. */
static size_t frame_size(const unsigned char *data, size_t size) {
    size_t head = size >= 2 && (data[1] & 127) == 126 ? 4 : 2;
    if (size < head) return 0;
    size_t whole = head + (head == 4 ? (size_t)data[2] << 8 | data[3] : data[1] & 127u);
    return whole <= size ? whole : 0;
}

/* What came is what was expected up to some frame, or up to a close frame. */
static void expect_frames(const one_thread_t *it, const unsigned char *got, size_t size, const bytes_t *expected) {
    size_t at = 0;
    for (size_t one; (one = frame_size(got + at, size - at)) > 0 && (got[at] & 15) != CLOSE; at += one) {
        assert_true(one <= expected->size - at);
        assert_memory_equal(got + at, expected->data + at, one);
    }
    if (it->may_fail && it->may_fail()) return;
    assert_int_equal(at, expected->size);
    assert_int_equal(got[at], FIN | CLOSE);
}

/* --- the client --- */

#define HANDSHAKE(path, extensions)                                                                                    \
    "GET " path " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"   \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" extensions "\r\n"
#define DEFLATE "Sec-WebSocket-Extensions: permessage-deflate\r\n"

static size_t wanted; /* bytes of frames */
static bool (*may_fail)(void);

/* Of what fails to be sent nobody hears: then there is nothing to wait for. */
static bool has_wanted(const char *text, size_t size) {
    if (may_fail && may_fail()) return true;
    const char *head_end = memmem(text, size, "\r\n\r\n", 4);
    return head_end && size - (size_t)(head_end + 4 - text) >= wanted;
}

/* The frames, and a close frame when the responses have come, or when the connection has ended. */
static size_t exchange(one_thread_t *it, int fd, const bytes_t *frames, char text[CAPACITY]) {
    bytes_t close_frame = {.size = 0};
    add_frame(&close_frame, FIN | CLOSE, 0x80, "\x03\xe8", 2);
    size_t size = one_thread_exchange(it, fd, frames->data, frames->size, has_wanted, text, CAPACITY);
    return size + one_thread_exchange(it, fd, close_frame.data, close_frame.size, NULL, text + size, CAPACITY - size);
}

static void talk(one_thread_t *it, const char *handshake, const bytes_t *frames, const bytes_t *expected) {
    static bytes_t all;
    static char text[CAPACITY];
    all.size = 0;
    add(&all, handshake, strlen(handshake));
    add(&all, frames->data, frames->size);
    wanted = expected->size;
    may_fail = it->may_fail;
    int fd = one_thread_connect(it);
    size_t size = fd < 0 ? 0 : exchange(it, fd, &all, text);
    if (fd >= 0) one_thread_close(it, fd);
    const char *head_end = memmem(text, size, "\r\n\r\n", 4);
    bool upgraded = size > 12 && memcmp(text, "HTTP/1.1 101", 12) == 0 && head_end;
    if (upgraded) {
        size_t head = (size_t)(head_end + 4 - text);
        expect_frames(it, (const unsigned char *)text + head, size - head, expected);
        it->complete++;
    } else {
        assert_true(it->may_fail && it->may_fail());
        assert_true(size == 0 || memcmp(text, "HTTP/1.1 50", 11) == 0 || !head_end);
    }
}

static void speak(one_thread_t *it) {
    static bytes_t frames, expected;
    frames.size = expected.size = 0;
    add_frame(&frames, TEXT, 0x80, "in ", 3);
    add_frame(&frames, FIN | PING, 0x80, "?", 1);
    add_frame(&frames, FIN | CONTINUATION, 0x80, "parts", 5);
    add_frame(&frames, FIN | BINARY, 0x80, long_text, LONG);
    add_frame(&expected, FIN | PONG, 0, "?", 1);
    add_frame(&expected, FIN | TEXT, 0, "in parts", 8);
    add_frame(&expected, FIN | BINARY, 0, long_text, LONG);
    talk(it, HANDSHAKE("/echo", ""), &frames, &expected);
    talk(it, HANDSHAKE("/topic", ""), &(bytes_t){0}, &(bytes_t){0});
    frames.size = expected.size = 0;
    add_stored(&frames, "stored", 6);
    add_frame(&expected, FIN | TEXT, 0, "stored", 6);
    talk(it, HANDSHAKE("/echo", DEFLATE), &frames, &expected);
    talk(it, HANDSHAKE("/keeps", DEFLATE), &frames, &expected);
    talk(it, HANDSHAKE("/topic", DEFLATE), &frames, &expected);
    expected.size = 0;
    add_frame(&expected, TEXT, 0, "stored", 6);
    add_frame(&expected, FIN | CONTINUATION, 0, "", 0);
    talk(it, HANDSHAKE("/parts", DEFLATE), &frames, &expected);
}

static const failing_call_t calls[] = {
    {FAIL_recv, {EAGAIN, EINTR, ECONNREFUSED}},
    {FAIL_send, {EAGAIN, EINTR, EPIPE, FAIL_SHORT}},
    {FAIL_sendmsg, {EAGAIN, EPIPE}},
    {FAIL_epoll_ctl, {ENOMEM}},
    {FAIL_eventfd, {EMFILE}},
    {FAIL_getrandom, {EAGAIN}},
    {FAIL_io_uring_enter, {EAGAIN, EBUSY, FAIL_PARTIAL}},
    {FAIL_sqe_recv, {ENOMEM, ENOBUFS}},
    {FAIL_sqe_send, {EAGAIN, EPIPE}},
};

static const failing_life_t life = {
    .set_up = set_up, .speak = speak, .complete = 6, .calls = calls, .call_count = sizeof calls / sizeof *calls};

static void test_each_system_call_may_fail(void **state) {
    fail_each_call_of(&life, state, 20);
}

static void test_each_allocation_may_fail(void **state) {
    fail_each_allocation_of(&life, state, 50);
}

int main(void) {
    memset(long_text, 'x', LONG);
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_IN_ONE_THREAD(test_each_system_call_may_fail, test_each_allocation_may_fail);
}
