/* gRPC without a library for it: a unary method and one that streams both ways, over HTTP/2 in clear or with TLS.
 *
 *   build/dist/bin/grpc 127.0.0.1:8080                      # or: grpc 127.0.0.1:8443 tls
 *
 *   service Greeter {
 *       rpc Hello (Text) returns (Text);                    // {"Ann"} -> {"Hello, Ann!"}
 *       rpc Chat (stream Text) returns (stream Text);       // each message comes back
 *   }
 *   message Text { string text = 1; }
 *
 * A method is a route in a coroutine: it reads messages, sends messages, and ends with a status in the trailers. Each
 * message has five bytes before it: whether it is compressed, and its size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvhttp.h>

#define MESSAGE_MAX (4u << 20) /* bytes, as gRPC libraries have it */

enum { OK = 0, CANCELLED = 1, INVALID_ARGUMENT = 3, DEADLINE_EXCEEDED = 4, RESOURCE_EXHAUSTED = 8, UNIMPLEMENTED = 12 };

/* --- calls --- */

typedef struct call {
    uvhttp_request_t *req;
    uvhttp_response_t *res;
    uint64_t deadline_ms; /* 0: none */
    char *data;           /* what has come of the request */
    size_t size, capacity;
    size_t used; /* ... and was accepted */
    bool begun;  /* the head of the response has left */
} call_t;

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* "250m" in ms: at most eight digits and a unit. False: malformed. */
static bool parse_timeout(uvhttp_str_t text, uint64_t *ms) {
    uint64_t value = 0;
    if (text.size < 2 || text.size > 9) return false;
    for (size_t i = 0; i + 1 < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    switch (text.data[text.size - 1]) {
        case 'H': *ms = value * 3600000; return true;
        case 'M': *ms = value * 60000; return true;
        case 'S': *ms = value * 1000; return true;
        case 'm': *ms = value; return true;
        case 'u': *ms = value / 1000; return true;
        case 'n': *ms = value / 1000000; return true;
        default: return false;
    }
}

static uint32_t time_left_ms(const call_t *call) {
    if (call->deadline_ms == 0) return UVHTTP_NEVER;
    uint64_t now = now_ms();
    return now < call->deadline_ms ? (uint32_t)(call->deadline_ms - now < 1u << 30 ? call->deadline_ms - now : 1u << 30)
                                   : 0;
}

static bool is_late(const call_t *call) {
    return call->deadline_ms != 0 && time_left_ms(call) == 0;
}

/* Returns a gRPC status; -1: it is none of gRPC, and was responded to. */
static int call_start(call_t *call, uvhttp_request_t *req, uvhttp_response_t *res) {
    *call = (call_t){.req = req, .res = res};
    uvhttp_str_t type = uvhttp_request_header(req, "content-type"),
                 timeout = uvhttp_request_header(req, "grpc-timeout");
    if (type.size < 16 || memcmp(type.data, "application/grpc", 16) != 0) {
        uvhttp_response_empty(res, 415);
        return -1;
    }
    uint64_t ms = 0;
    if (timeout.data && !parse_timeout(timeout, &ms)) return INVALID_ARGUMENT;
    if (timeout.data) call->deadline_ms = now_ms() + ms;
    return OK;
}

static bool reserve(call_t *call, size_t more) {
    size_t needed = call->size + more, capacity = call->capacity ? call->capacity : 4096;
    if (needed <= call->capacity) return true;
    while (capacity < needed) capacity *= 2;
    char *grown = realloc(call->data, capacity);
    if (!grown) return false;
    call->data = grown;
    call->capacity = capacity;
    return true;
}

/* More of the request. Returns UVHTTP_E_EOF at its end. */
static int read_more(call_t *call) {
    uvhttp_str_t piece;
    if (is_late(call)) return UVHTTP_E_TIMEOUT;
    int status = uvhttp_coro_read_body(call->req, &piece, time_left_ms(call));
    if (status != UVHTTP_OK) return status;
    if (call->used > 0) {
        call->size -= call->used;
        memmove(call->data, call->data + call->used, call->size);
        call->used = 0;
    }
    if (piece.size == 0) return UVHTTP_OK;
    if (!reserve(call, piece.size)) return UVHTTP_E_NOMEM;
    memcpy(call->data + call->size, piece.data, piece.size);
    call->size += piece.size;
    return UVHTTP_OK;
}

static int status_of(int code) {
    switch (code) {
        case UVHTTP_E_TIMEOUT: return DEADLINE_EXCEEDED;
        case UVHTTP_E_NOMEM: return RESOURCE_EXHAUSTED;
        default: return CANCELLED;
    }
}

/* The next message, valid until the next call. Returns a gRPC status; *end: there is none. */
static int receive(call_t *call, uvhttp_str_t *message, bool *end) {
    *end = false;
    for (;;) {
        size_t left = call->size - call->used;
        if (left >= 5) {
            const unsigned char *head = (const unsigned char *)call->data + call->used;
            size_t size = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
            if (head[0] != 0) return UNIMPLEMENTED; /* compressed, which we have not offered */
            if (size > MESSAGE_MAX) return RESOURCE_EXHAUSTED;
            if (left - 5 >= size) {
                *message = (uvhttp_str_t){call->data + call->used + 5, size};
                call->used += 5 + size;
                return OK;
            }
        }
        int status = read_more(call);
        *end = status == UVHTTP_E_EOF;
        if (*end) return left == 0 ? OK : INVALID_ARGUMENT;
        if (status != UVHTTP_OK) return status_of(status);
    }
}

/* Waits for a slow client. */
static int send_message(call_t *call, uvhttp_str_t message) {
    const char head[5] = {0, (char)(message.size >> 24), (char)(message.size >> 16), (char)(message.size >> 8),
                          (char)message.size};
    int status = UVHTTP_OK;
    if (!call->begun) status = uvhttp_response_begin(call->res, 200, "application/grpc", UVHTTP_SIZE_UNKNOWN);
    call->begun = true;
    if (status == UVHTTP_OK) status = uvhttp_response_write(call->res, head, sizeof head);
    for (size_t piece; status == UVHTTP_OK && message.size > 0; message.data += piece, message.size -= piece) {
        piece = message.size < 65536 ? message.size : 65536;
        status = uvhttp_response_write(call->res, message.data, piece);
    }
    return status == UVHTTP_OK ? OK : CANCELLED;
}

/* The status goes behind the messages; without any, all of the response is its head ("trailers-only"). */
static void call_end(call_t *call, int status, const char *text) {
    char number[4];
    free(call->data);
    snprintf(number, sizeof number, "%d", status);
    if (call->begun) {
        uvhttp_response_trailer(call->res, "grpc-status", number);
        if (text) uvhttp_response_trailer(call->res, "grpc-message", text);
        uvhttp_response_end(call->res);
        return;
    }
    uvhttp_response_header(call->res, "content-type", "application/grpc");
    uvhttp_response_header(call->res, "grpc-status", number);
    if (text) uvhttp_response_header(call->res, "grpc-message", text);
    uvhttp_response_empty(call->res, 200);
}

/* --- message Text { string text = 1; } --- */

/* The last field 1, as the format has it; others are skipped. False: malformed. */
static bool read_varint(uvhttp_str_t *from, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && from->size > 0; shift += 7) {
        unsigned char byte = (unsigned char)*from->data++;
        from->size--;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool read_text(uvhttp_str_t message, uvhttp_str_t *text) {
    *text = (uvhttp_str_t){"", 0};
    while (message.size > 0) {
        uint64_t key, size;
        if (!read_varint(&message, &key) || !read_varint(&message, &size)) return false;
        if ((key & 7) == 0) continue; /* a number: it was read */
        if ((key & 7) != 2 || size > message.size) return false;
        if (key >> 3 == 1) *text = (uvhttp_str_t){message.data, (size_t)size};
        message.data += size;
        message.size -= (size_t)size;
    }
    return true;
}

/* Into memory of the request; the text is `a`, `b` and `c`, one behind the other. */
static uvhttp_str_t write_text(uvhttp_request_t *req, uvhttp_str_t a, uvhttp_str_t b, uvhttp_str_t c) {
    uint64_t size = a.size + b.size + c.size;
    char *data = uvhttp_request_alloc(req, (size_t)size + 11), *at = data;
    if (!data) return (uvhttp_str_t){NULL, 0};
    *at++ = 1 << 3 | 2;
    uint64_t rest = size;
    for (; rest >= 0x80; rest >>= 7) *at++ = (char)(rest | 0x80);
    *at++ = (char)rest;
    memcpy(at, a.data, a.size);
    memcpy(at + a.size, b.data, b.size);
    memcpy(at + a.size + b.size, c.data, c.size);
    return (uvhttp_str_t){data, (size_t)(at - data) + (size_t)size};
}

/* --- methods --- */

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t call;
    uvhttp_str_t message, name;
    bool end = false;
    int status = call_start(&call, req, res);
    if (status < 0) return;
    if (status == OK) status = receive(&call, &message, &end);
    if (status != OK || end || !read_text(message, &name)) {
        call_end(&call, status != OK ? status : INVALID_ARGUMENT, "no message");
        return;
    }
    if (name.size == 0) {
        call_end(&call, INVALID_ARGUMENT, "a name is missing");
        return;
    }
    uvhttp_str_t reply = write_text(req, (uvhttp_str_t){"Hello, ", 7}, name, (uvhttp_str_t){"!", 1});
    status = reply.data ? send_message(&call, reply) : RESOURCE_EXHAUSTED;
    call_end(&call, status, NULL);
}

static void chat(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t call;
    uvhttp_str_t message;
    bool end = false;
    int status = call_start(&call, req, res);
    if (status < 0) return;
    while (status == OK && (status = receive(&call, &message, &end)) == OK && !end)
        status = is_late(&call) ? DEADLINE_EXCEEDED : send_message(&call, message);
    call_end(&call, status, status == OK ? NULL : "the call has failed");
}

/* --- the server --- */

static void add_method(uvhttp_server_t *server, const char *path, uvhttp_handler_cb method) {
    uvhttp_route_options(uvhttp_post(server, path, method, NULL),
                         &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_COROUTINE, .stream_body = true});
}

int main(int argc, char **argv) {
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:8080";
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.request_memory_max = 2 * MESSAGE_MAX;
    config.body_timeout = UVHTTP_NEVER; /* a stream may be quiet; calls have deadlines */
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (!server) return 1;
    add_method(server, "/Greeter/Hello", hello);
    add_method(server, "/Greeter/Chat", chat);
    uvhttp_tls_t *tls = argc > 2 ? uvhttp_tls_development(NULL) : NULL;
    int status = argc > 2 && !tls ? UVHTTP_E_TLS_CERTIFICATE : UVHTTP_OK;
    if (tls) status = uvhttp_server_listen_tls(server, address, tls, NULL);
    if (status == UVHTTP_OK) status = uvhttp_server_run(server, tls ? NULL : address);
    uvhttp_server_free(server);
    uvhttp_tls_release(tls);
    return status == UVHTTP_OK ? 0 : 1;
}
