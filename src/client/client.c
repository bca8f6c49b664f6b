/* Owns: a request to another server, from its first byte to the last one of the response. May include: exec, conn,
 * http1, io, base, obs. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uvhttp/socket.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/str.h"
#include "client/connect.h"
#include "client/message.h"
#include "conn/tcp_server.h"
#include "http1/response_read.h"

enum {
    TIMEOUT_DEFAULT_MS = 30000,
    RESPONSE_SIZE_DEFAULT = 1024 * 1024,
    HEAD_SIZE_DEFAULT = 64 * 1024,
    HEAD_SIZE_MIN = 64,
    HEAD_SIZE_MAX = 16 * 1024 * 1024,
    RECEIVE_SIZE = 32 * 1024,
    SEND_SIZE = 256 * 1024, /* bytes of the body that a call sends at most */
    CALLS_MAX = 4,          /* consecutive receives, or sends, before others get their share */
};

struct uvhttp_client_response {
    uvhttp__connector_t connector;
    uvhttp__fd_wait_t wait;
    uvhttp_timer_t timer; /* the deadline */
    uvhttp__http1_response_t reader;
    uvhttp_client_cb on_done; /* NULL: it has been called */
    void *user;
    uvhttp__loop_t *loop;
    int fd; /* -1: none */
    uint32_t response_size_max;
    const char *request_body;
    size_t request_body_size;
    size_t sent;    /* bytes of head and body */
    int send_error; /* errno that ended the sending; 0: none. Nothing is sent after it */
    char *lines;    /* header of the response, lines_size bytes; NULL until it has come */
    size_t lines_size;
    size_t last_index;       /* uvhttp_client_response_header_at: of the field that was asked for last, ... */
    uvhttp_str_t last_lines; /* ... which these begin with: asking for one after the other reads the head once */
    char *body;              /* of the response; NULL: empty so far */
    size_t body_size, body_capacity;
    size_t head_size;
    char head[]; /* of the request */
};

/* --- the end --- */

static void close_socket(uvhttp_client_response_t *call) {
    uvhttp_timer_stop(&call->timer);
    uvhttp__connector_stop(&call->connector);
    uvhttp__fd_wait_stop(&call->wait);
    if (call->fd >= 0) close(call->fd);
    call->fd = -1;
}

static void finish(uvhttp_client_response_t *call, int status) {
    uvhttp__counters_t *counters = call->loop->counters;
    uvhttp_client_cb on_done = call->on_done;
    close_socket(call);
    if (status != UVHTTP_OK) {
        uvhttp__counters_add(counters, client_failed, 1);
        uvhttp__counters_error(counters, status);
    }
    call->on_done = NULL;
    on_done(call, status, call->user);
}

void uvhttp_client_response_free(uvhttp_client_response_t *call) {
    if (!call) return;
    close_socket(call);
    uvhttp__http1_response_deinit(&call->reader);
    uvhttp__free(call->lines);
    uvhttp__free(call->body);
    uvhttp__free(call);
}

static void on_deadline(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    finish(user, UVHTTP_E_TIMEOUT);
}

/* --- the response --- */

static int grow_body(uvhttp_client_response_t *call, size_t size) {
    if (size > call->response_size_max) return UVHTTP_E_PEER_TOO_LARGE;
    if (size < call->body_capacity) return UVHTTP_OK; /* with its NUL */
    size_t capacity = 2 * call->body_capacity > size ? 2 * call->body_capacity : size + 1;
    if (capacity > (size_t)call->response_size_max + 1) capacity = (size_t)call->response_size_max + 1;
    char *body = uvhttp__realloc(call->body, capacity);
    if (!body) return UVHTTP_E_NOMEM;
    call->body = body;
    call->body_capacity = capacity;
    return UVHTTP_OK;
}

static int add_body(uvhttp_client_response_t *call, uvhttp_str_t run) {
    int status = grow_body(call, call->body_size + run.size);
    if (status != UVHTTP_OK) return status;
    memcpy(call->body + call->body_size, run.data, run.size);
    call->body_size += run.size;
    call->body[call->body_size] = '\0';
    return UVHTTP_OK;
}

/* come: bytes of the body that have come with it. */
static int keep_head(uvhttp_client_response_t *call, size_t come) {
    const uvhttp__http1_response_head_t *head = &call->reader.head;
    if (head->status == 101 || head->coded) return UVHTTP_E_PEER_RESPONSE; /* nobody has asked for it */
    uvhttp_str_t lines = uvhttp__http1_response_lines(&call->reader);
    call->lines = uvhttp__malloc(lines.size);
    if (!call->lines) return UVHTTP_E_NOMEM;
    memcpy(call->lines, lines.data, lines.size);
    call->lines_size = lines.size;
    uint64_t size = call->reader.left + come;
    if (size > call->response_size_max) return UVHTTP_E_PEER_TOO_LARGE;
    return size > 0 ? grow_body(call, (size_t)size) : UVHTTP_OK;
}

static int reader_status(int status) {
    if (status == UVHTTP_E_NOMEM || status == UVHTTP_E_AGAIN || status == UVHTTP_OK || status == UVHTTP_E_PEER_INTERIM)
        return status;
    bool limit = status == UVHTTP_E_HTTP_HEADERS_TOO_LARGE || status == UVHTTP_E_HTTP_TRAILER_TOO_LARGE;
    return limit ? UVHTTP_E_PEER_TOO_LARGE : UVHTTP_E_PEER_RESPONSE;
}

/* Returns 0 when the response is complete, UVHTTP_E_AGAIN when not, or why it will never be. */
static int take(uvhttp_client_response_t *call, const char *data, size_t size) {
    int status = UVHTTP_E_AGAIN;
    while (size > 0 && status == UVHTTP_E_AGAIN) {
        size_t consumed;
        uvhttp_str_t body;
        status = reader_status(uvhttp__http1_response_feed(&call->reader, data, size, &consumed, &body));
        int kept = UVHTTP_OK;
        if (!call->lines && uvhttp__http1_response_has_head(&call->reader)) kept = keep_head(call, body.size);
        if (kept == UVHTTP_OK && body.size > 0) kept = add_body(call, body);
        if (kept != UVHTTP_OK) return kept;
        data += consumed;
        size -= consumed;
    }
    return status;
}

/* After a reset, the end of the stream is no end of a response: a failed send may have consumed the error. */
static int response_end(uvhttp_client_response_t *call) {
    bool whole = call->send_error != ECONNRESET && uvhttp__http1_response_end(&call->reader) == 0;
    return whole ? UVHTTP_OK : UVHTTP_E_PEER_RESET;
}

/* The same for what can be received now. *empty: nothing is left. */
static int receive(uvhttp_client_response_t *call, bool *empty) {
    char data[RECEIVE_SIZE];
    *empty = false;
    for (int i = 0; i < CALLS_MAX; i++) {
        size_t size;
        int status = uvhttp_socket_read(call->fd, data, sizeof data, &size);
        if (status == UVHTTP_E_EOF) return response_end(call);
        *empty = status == UVHTTP_E_AGAIN;
        if (status == UVHTTP_OK) status = take(call, data, size);
        if (status != UVHTTP_E_AGAIN || *empty) return status;
        if (size < sizeof data && call->send_error == 0) return status; /* the next event reports the rest */
    }
    return UVHTTP_E_AGAIN;
}

/* --- the request --- */

static size_t unsent(const uvhttp_client_response_t *call) {
    return call->send_error ? 0 : call->head_size + call->request_body_size - call->sent;
}

/* Until the system accepts no more, or others get their share: `await` continues it then. */
static void transmit(uvhttp_client_response_t *call) {
    for (int i = 0; i < CALLS_MAX && unsent(call) > 0; i++) {
        struct iovec parts[2];
        int count = 0;
        size_t of_body = call->sent > call->head_size ? call->sent - call->head_size : 0;
        size_t left = call->request_body_size - of_body;
        if (call->sent < call->head_size)
            parts[count++] = (struct iovec){call->head + call->sent, call->head_size - call->sent};
        if (left > 0)
            parts[count++] =
                (struct iovec){(char *)(uintptr_t)call->request_body + of_body, left < SEND_SIZE ? left : SEND_SIZE};
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t got = sendmsg(call->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got >= 0) {
            call->sent += (size_t)got;
            continue;
        }
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        call->send_error = errno;
    }
}

/* What a request ends with whose rest could not be sent. */
static int send_status(int error) {
    switch (error) {
        case EPIPE:
        case ECONNRESET:
        case ETIMEDOUT: return UVHTTP_E_PEER_RESET;
        case ENOBUFS:
        case ENOMEM: return UVHTTP_E_NOMEM; /* the socket is still writable: waiting for it would spin */
        default: return UVHTTP_E_IO;
    }
}

static void on_ready(uvhttp__fd_wait_t *wait);

static int await(uvhttp_client_response_t *call) {
    unsigned events = UVHTTP__FD_READABLE | (unsent(call) > 0 ? UVHTTP__FD_WRITABLE : 0u);
    return uvhttp__fd_wait_start(call->loop, &call->wait, call->fd, events, on_ready);
}

/* A server may respond before it has read everything, and close: its response counts, although the rest of the
 * request cannot be sent. A server that has not responded by then waits for the rest, which never comes. */
static void receive_response(uvhttp_client_response_t *call) {
    bool empty;
    int status = receive(call, &empty);
    if (status == UVHTTP_E_AGAIN && empty && call->send_error) status = send_status(call->send_error);
    bool over = status != UVHTTP_E_AGAIN;
    if (!over) status = await(call);
    if (over || status != UVHTTP_OK) finish(call, status);
}

static void on_ready(uvhttp__fd_wait_t *wait) {
    uvhttp_client_response_t *call = UVHTTP__CONTAINER_OF(wait, uvhttp_client_response_t, wait);
    transmit(call);
    receive_response(call);
}

static void on_connect(uvhttp__connector_t *connector, int status, int fd) {
    uvhttp_client_response_t *call = UVHTTP__CONTAINER_OF(connector, uvhttp_client_response_t, connector);
    call->fd = fd;
    if (status == UVHTTP_OK) transmit(call);
    if (status == UVHTTP_OK && call->send_error) {
        receive_response(call);
        return;
    }
    if (status == UVHTTP_OK) status = await(call);
    if (status != UVHTTP_OK) finish(call, status);
}

/* --- start --- */

static uint32_t or_default(uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

static int make(const uvhttp_client_request_t *request, const uvhttp__client_url_t *url, uvhttp__loop_t *loop,
                uvhttp_client_response_t **made) {
    const uvhttp__trace_context_t *trace = uvhttp__trace_here();
    size_t head_size = uvhttp__client_write_head(request, url, trace, NULL);
    uvhttp_client_response_t *call = uvhttp__malloc(sizeof *call + head_size);
    if (!call) return UVHTTP_E_NOMEM;
    memset(call, 0, sizeof *call);
    call->loop = loop;
    call->fd = -1;
    call->head_size = uvhttp__client_write_head(request, url, trace, call->head);
    call->request_body = request->body;
    call->request_body_size = request->body_size;
    call->response_size_max = or_default(request->response_size_max, RESPONSE_SIZE_DEFAULT);
    uvhttp__http1_response_init(&call->reader, or_default(request->head_size_max, HEAD_SIZE_DEFAULT), NULL);
    call->reader.interim_max = or_default(request->interim_max, UVHTTP__HTTP1_INTERIM_DEFAULT);
    uvhttp__http1_response_begin(&call->reader, request->method && strcmp(request->method, "HEAD") == 0);
    *made = call;
    return UVHTTP_OK;
}

/* Where a request goes: host and port of the url, unless the program has named a socket. */
typedef struct destination {
    uvhttp__connect_reach_t reach;
    char address[UVHTTP__CONNECT_TEXT_MAX];
} destination_t;

static int find_destination(const uvhttp_client_request_t *request, const uvhttp__client_url_t *url,
                            destination_t *to) {
    to->reach = request->unix_socket ? UVHTTP__CONNECT_ANY : UVHTTP__CONNECT_TCP;
    if (!request->unix_socket) return uvhttp__client_url_address(url, to->address, sizeof to->address);
    if (request->unix_socket[0] != '/' && request->unix_socket[0] != '@') return UVHTTP_E_INVALID;
    int size = snprintf(to->address, sizeof to->address, "unix:%s", request->unix_socket);
    return size < (int)sizeof to->address ? UVHTTP_OK : UVHTTP_E_ADDRESS;
}

static int start(uvhttp_client_response_t *call, const uvhttp_client_request_t *request, const destination_t *to) {
    uint32_t timeout_ms = or_default(request->timeout_ms, TIMEOUT_DEFAULT_MS);
    int status = UVHTTP_OK;
    if (timeout_ms != UVHTTP_NEVER) status = uvhttp_timer_start(&call->timer, timeout_ms + 1ull, on_deadline, call);
    if (status != UVHTTP_OK) return status;
    return uvhttp__connector_start(&call->connector, call->loop, to->address, to->reach, timeout_ms, on_connect);
}

int uvhttp_client_send_sized(const uvhttp_client_request_t *request, size_t request_size, uvhttp_client_cb on_done,
                             void *user, uvhttp_client_response_t **response) {
    uvhttp__client_url_t url;
    destination_t to;
    if (!response) return UVHTTP_E_INVALID;
    *response = NULL;
    uvhttp_client_request_t full;
    if (!uvhttp__sized_read(&full, sizeof full, request, request_size)) return UVHTTP_E_UNSUPPORTED;
    request = &full;
    uint32_t head_size = request->head_size_max ? request->head_size_max : HEAD_SIZE_DEFAULT;
    if (!request->url || !on_done || head_size < HEAD_SIZE_MIN || head_size > HEAD_SIZE_MAX) return UVHTTP_E_INVALID;
    uvhttp__loop_t *loop = uvhttp__tcp_server_current_loop();
    if (!loop) return UVHTTP_E_STATE;
    int status = uvhttp__client_check(request);
    if (status == UVHTTP_OK) status = uvhttp__client_url_parse(uvhttp__str_from(request->url), &url);
    if (status == UVHTTP_OK) status = find_destination(request, &url, &to);
    uvhttp_client_response_t *call;
    if (status == UVHTTP_OK) status = make(request, &url, loop, &call);
    if (status != UVHTTP_OK) return status;
    call->on_done = on_done;
    call->user = user;
    status = start(call, request, &to);
    if (status != UVHTTP_OK) {
        uvhttp_client_response_free(call);
        return status;
    }
    uvhttp__counters_add(loop->counters, client_requests, 1);
    *response = call;
    return UVHTTP_OK;
}

/* --- what has come --- */

int uvhttp_client_response_status(const uvhttp_client_response_t *response) {
    return response->reader.head.status;
}

bool uvhttp_client_response_header_at(const uvhttp_client_response_t *response, size_t index, uvhttp_str_t *name,
                                      uvhttp_str_t *value) {
    uvhttp_client_response_t *call = (uvhttp_client_response_t *)(uintptr_t)response; /* one thread's */
    bool known = call->last_lines.data && index >= call->last_index;
    uvhttp_str_t lines = known ? call->last_lines : (uvhttp_str_t){call->lines, call->lines_size}, before = lines;
    size_t at = known ? call->last_index : 0;
    bool found = uvhttp__http1_response_field(&lines, name, value);
    for (; found && at < index; at++) {
        before = lines;
        found = uvhttp__http1_response_field(&lines, name, value);
    }
    call->last_lines = found ? before : (uvhttp_str_t){NULL, 0};
    call->last_index = at;
    return found;
}

uvhttp_str_t uvhttp_client_response_header(const uvhttp_client_response_t *response, const char *name) {
    uvhttp_str_t lines = {response->lines, response->lines_size}, wanted = uvhttp__str_from(name), is, value;
    while (uvhttp__http1_response_field(&lines, &is, &value))
        if (uvhttp__str_equal_nocase(is, wanted)) return value;
    return (uvhttp_str_t){NULL, 0};
}

uvhttp_str_t uvhttp_client_response_body(const uvhttp_client_response_t *response) {
    return (uvhttp_str_t){response->body ? response->body : "", response->body_size};
}
