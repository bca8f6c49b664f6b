/* Owns: answers on their way out: the head is written straight into turn memory, small bodies behind it, large ones are
 * sent from where they are. */
#include <string.h>
#include <unistd.h>

#include "base/hot.h"
#include "base/str.h"
#include "exec/feed.h"
#include "server/server_internal.h"

/* Up to here a copy behind the head is cheaper than a second piece for the kernel to gather. */
#define COPY_MAX 4096

static inline char *put(char *out, const char *data, size_t size) {
    memcpy(out, data, size);
    return out + size;
}
#define PUT(out, literal) put((out), (literal), sizeof(literal) - 1)

/* The date is written once a second, not once an answer. */
static void refresh_date(uvhttp__http_worker_t *worker, uint64_t now_ms) {
    int64_t unix_ms = uvhttp__clock_unix_ms();
    memcpy(worker->date_line, "Date: ", 6);
    uvhttp__date_write(worker->date_line + 6, unix_ms / 1000);
    memcpy(worker->date_line + 6 + UVHTTP__DATE_SIZE, "\r\n", 2);
    worker->date_until_ms = now_ms + (uint64_t)(1000 - unix_ms % 1000);
}

static bool wants_body(const uvhttp__exchange_t *exchange) {
    return exchange->request.head.method != UVHTTP_HEAD && uvhttp__status_has_body(exchange->response.status);
}

/* Everything fixed that a head can have: status line, date, lengths, connection; and what copies of a fixed size write
 * beyond their end. */
#define HEAD_FIXED_MAX 320

static size_t head_max(const uvhttp_response_t *res) {
    return HEAD_FIXED_MAX + res->content_type_size + res->headers_size;
}

/* A type that is remembered is copied by its buffer's size: no call, no loop. */
static inline char *put_content_type(char *out, const uvhttp_response_t *res) {
    out = PUT(out, "Content-Type: ");
    if (res->content_type == res->checked_type)
        memcpy(out, res->checked_type, sizeof res->checked_type);
    else
        memcpy(out, res->content_type, res->content_type_size);
    return PUT(out + res->content_type_size, "\r\n");
}

static char *put_length(char *out, uint64_t size) {
    out = PUT(out, "Content-Length: ");
    out += uvhttp__write_decimal(out, size);
    return PUT(out, "\r\n");
}

/* length: bytes of the body, or UVHTTP_SIZE_UNKNOWN for chunked or until the connection ends. */
UVHTTP__HOT static char *write_head(uvhttp__exchange_t *exchange, char *out, uint64_t length) {
    const uvhttp_response_t *res = &exchange->response;
    uvhttp__http_worker_t *worker = exchange->worker;
    out += uvhttp__http1_write_status_line(out, res->status);
    uint64_t now_ms = worker->worker->loop->now_ms;
    if (now_ms >= worker->date_until_ms) refresh_date(worker, now_ms);
    out = put(out, worker->date_line, sizeof worker->date_line);
    if (res->content_type_size > 0) out = put_content_type(out, res);
    if (res->headers_size > 0) out = put(out, res->headers, res->headers_size);
    if (exchange->chunked_out)
        out = PUT(out, "Transfer-Encoding: chunked\r\n");
    else if (length != UVHTTP_SIZE_UNKNOWN && uvhttp__status_has_body(res->status))
        out = put_length(out, length);
    if (!exchange->keep_alive)
        out = PUT(out, "Connection: close\r\n");
    else if (exchange->request.head.version_minor == 0)
        out = PUT(out, "Connection: keep-alive\r\n");
    return PUT(out, "\r\n");
}

/* Whether the connection can serve another request after this answer. A server that drains still answers what it was
 * sent. An answer in pieces may outlast the body of its request. */
UVHTTP__HOT static void decide_keep_alive(uvhttp__exchange_t *exchange) {
    const uvhttp__session_t *session = exchange->session;
    const uvhttp_response_t *res = &exchange->response;
    bool drained = session->conn.worker->draining && !session->more && !uvhttp__stream_unread(&session->conn.stream);
    if (drained || (session->conn.flags & (UVHTTP__CONN_PEER_ENDED | UVHTTP__CONN_LAST))) exchange->keep_alive = false;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_CLOSE | UVHTTP__RESPONSE_BODY_OPEN) &&
        (uvhttp__response_is(res, UVHTTP__RESPONSE_CLOSE) ||
         (!uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN) && uvhttp__body_rest(exchange) < 0)))
        exchange->keep_alive = false;
}

static void measure(uvhttp__exchange_t *exchange) {
    uvhttp__http_worker_t *worker = exchange->worker;
    uvhttp__counters_response(&worker->worker->counters, exchange->response.status);
    if (exchange->start_turn == worker->worker->loop->turn_number)
        worker->answered_in_turn++;
    else if (worker->server->config.performance.enable_statistics)
        uvhttp__histogram_record(&worker->response_time, uvhttp__clock_ns() - exchange->start_ns);
}

/* The answer is in the queue. */
UVHTTP__HOT static void complete(uvhttp__exchange_t *exchange) {
    uvhttp__session_t *session = exchange->session;
    bool keep_alive = exchange->keep_alive;
    if (__builtin_expect(uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BODY_OPEN), 0)) {
        int64_t rest = uvhttp__body_rest(exchange);
        keep_alive = keep_alive && rest >= 0;
        session->discard = keep_alive ? (uint32_t)rest : 0;
    }
    measure(exchange);
    uvhttp__response_done(&exchange->response, UVHTTP_OK);
    if (exchange->deferred) uvhttp__deferred_answered(exchange->deferred);
    uvhttp__exchange_release(exchange);
    uvhttp__session_answered(session, keep_alive);
}

static void give_up(uvhttp__exchange_t *exchange, int status) {
    /* The hooks of the end come in a later turn, when the receive buffer is another's. */
    if (uvhttp__exchange_own(exchange) != UVHTTP_OK) uvhttp__exchange_headless(exchange, NULL, 0);
    uvhttp__conn_close(&exchange->session->conn, status); /* on_closed aborts the exchange */
}

/* --- bodies --- */

static void on_borrower_gone(void *arg) {
    uvhttp__exchange_t *exchange = arg;
    exchange->borrowers--;
    if (exchange->released && exchange->borrowers == 0) {
        exchange->released = false;
        uvhttp__exchange_release(exchange);
    }
}

static void close_file(void *arg) {
    close((int)(intptr_t)arg);
}

/* Goes on after a failure, so that every part is released; nothing of what follows it is sent then. */
static int send_parts(uvhttp__stream_t *stream, const uvhttp__body_t *body) {
    int status = UVHTTP_OK;
    for (uint32_t i = 0; i < body->parts->count; i++) {
        const uvhttp__body_part_t *part = &body->parts->parts[i];
        int sent = UVHTTP_OK;
        if (status != UVHTTP_OK) {
            if (part->held) body->release(body->arg);
        } else if (!part->held) {
            sent = uvhttp__stream_send_copy(stream, part->data, (size_t)part->size);
        } else if (part->data) {
            sent = uvhttp__stream_send_ref(stream, part->data, (size_t)part->size, body->release, body->arg);
        } else {
            sent = uvhttp__feed_send(stream, body->parts->port,
                                     &(uvhttp__feed_file_t){.fd = body->parts->fd,
                                                            .offset = part->offset,
                                                            .size = part->size,
                                                            .release = body->release,
                                                            .arg = body->arg,
                                                            .found_ms = body->parts->found_ms,
                                                            .busy_code = UVHTTP_E_STATIC_BUSY,
                                                            .copied = body->parts->copied});
        }
        if (status == UVHTTP_OK) status = sent;
    }
    return status;
}

/* What is encoded is read from memory on its way; else the pages that the kernel has are sent. */
static int send_content(uvhttp__exchange_t *exchange, const uvhttp__body_t *body) {
    uvhttp__stream_t *stream = &exchange->session->conn.stream;
    uvhttp_content_t *content = body->arg;
    if (content->fd < 0 || uvhttp__stream_encodes(stream))
        return uvhttp__stream_send_ref(stream, content->data, content->size, body->release, content);
    return uvhttp__feed_send(stream, &exchange->worker->port,
                             &(uvhttp__feed_file_t){.fd = content->fd,
                                                    .size = content->size,
                                                    .release = body->release,
                                                    .arg = content,
                                                    .resident = true,
                                                    .busy_code = UVHTTP_E_WORK_FULL});
}

/* A body that is not copied. The queue takes over the duty to release it, also on failure. */
static int send_large(uvhttp__exchange_t *exchange, const uvhttp__body_t *body) {
    uvhttp__stream_t *stream = &exchange->session->conn.stream;
    switch (body->kind) {
        case UVHTTP__BODY_MEMORY:
            exchange->borrowers++;
            return uvhttp__stream_send_ref(stream, body->data, (size_t)body->size, on_borrower_gone, exchange);
        case UVHTTP__BODY_FILE:
            return uvhttp__feed_send(stream, &exchange->worker->port,
                                     &(uvhttp__feed_file_t){.fd = body->fd,
                                                            .offset = body->offset,
                                                            .size = body->size,
                                                            .release = close_file,
                                                            .arg = (void *)(intptr_t)body->fd,
                                                            .busy_code = UVHTTP_E_WORK_FULL});
        case UVHTTP__BODY_PARTS: return send_parts(stream, body);
        case UVHTTP__BODY_CONTENT: return send_content(exchange, body);
        case UVHTTP__BODY_REF:
            return uvhttp__stream_send_ref(stream, body->data, (size_t)body->size, body->release, body->arg);
        default: return uvhttp__stream_send_ref(stream, body->data, (size_t)body->size, NULL, NULL);
    }
}

static void hand_over_upgrade(uvhttp__exchange_t *exchange) {
    uvhttp__session_t *session = exchange->session;
    const uvhttp_tcp_handlers_t *handlers = exchange->upgrade;
    void *user = exchange->upgrade_user;
    uvhttp__counters_add(&session->conn.worker->counters, upgrades, 1);
    exchange->keep_alive = true;
    complete(exchange);
    uvhttp__conn_timer_stop(&session->conn);
    uvhttp__conn_set_busy(&session->conn);
    session->state = UVHTTP__SESSION_UPGRADED;
    session->upgraded = handlers;
    session->conn.user = user;
    if (handlers->on_open) handlers->on_open(&session->conn, user);
    /* What the session was told before is the other protocol's to know, too. */
    if (uvhttp__conn_drains(&session->conn))
        uvhttp__session_ops.on_drain(&session->conn);
    else if (session->conn.flags & UVHTTP__CONN_PEER_ENDED)
        uvhttp__session_ops.on_end(&session->conn);
}

UVHTTP__HOT void uvhttp__exchange_answer(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    uvhttp__session_t *session = exchange->session;
    uvhttp__stream_t *stream = &session->conn.stream;
    if (__builtin_expect(uvhttp__response_is(res, UVHTTP__RESPONSE_BY_SERVER), 0))
        uvhttp__exchange_own_response(exchange);
    uvhttp__response_finish(res);
    uvhttp__response_commit(res);
    decide_keep_alive(exchange);
    if (exchange->upgrade && res->status == 101) {
        exchange->keep_alive = true; /* "Connection: close" contradicts 101 */
        /* RFC 9110 section 7.8: 100 comes first, although there is no body. */
        if (exchange->request.head.expect_continue) uvhttp__body_send_continue(exchange);
    }
    exchange->chunked_out = false;
    uvhttp__body_t *body = &res->body;
    bool with_body = body->size > 0 && wants_body(exchange);
    res->sent_size = with_body ? body->size : 0;
    bool copied = with_body && body->size <= COPY_MAX && body->kind < UVHTTP__BODY_FILE;
    char *begin = uvhttp__loop_turn_alloc(stream->loop, head_max(res) + (copied ? (size_t)body->size : 0));
    if (!begin) {
        give_up(exchange, UVHTTP_E_NOMEM);
        return;
    }
    char *end = write_head(exchange, begin, body->size);
    if (copied) end = put(end, body->data, (size_t)body->size);
    uvhttp__loop_turn_trim(stream->loop, end);
    int status = uvhttp__stream_send_turn(stream, begin, (size_t)(end - begin));
    if (with_body && !copied) {
        int sent = send_large(exchange, body);
        body->kind = UVHTTP__BODY_NONE; /* the queue's now */
        if (status == UVHTTP_OK) status = sent;
        if (status == UVHTTP_OK) uvhttp__session_watch_writing(session);
    }
    if (status != UVHTTP_OK)
        give_up(exchange, status);
    else if (exchange->upgrade && res->status == 101)
        hand_over_upgrade(exchange);
    else
        complete(exchange);
}

/* --- answers in pieces --- */

static int sink_begin(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->session) return UVHTTP_E_ABORTED;
    uvhttp__stream_t *stream = &exchange->session->conn.stream;
    uvhttp__response_finish(res);
    uvhttp__response_commit(res);
    decide_keep_alive(exchange);
    uint64_t size = res->coder ? UVHTTP_SIZE_UNKNOWN : res->stream_size;
    bool unknown = size == UVHTTP_SIZE_UNKNOWN && uvhttp__status_has_body(res->status);
    exchange->chunked_out = unknown && exchange->request.head.version_minor == 1;
    exchange->answer_by_ms = 0;
    if (unknown && !exchange->chunked_out && exchange->request.head.method != UVHTTP_HEAD) exchange->keep_alive = false;
    char *begin = uvhttp__loop_turn_alloc(stream->loop, head_max(res));
    if (!begin) return UVHTTP_E_NOMEM;
    char *end = write_head(exchange, begin, size);
    res->sent_size = 0;
    uvhttp__loop_turn_trim(stream->loop, end);
    return uvhttp__stream_send_turn(stream, begin, (size_t)(end - begin)) == UVHTTP_OK ? UVHTTP_OK : UVHTTP_E_ABORTED;
}

static int sink_room(uvhttp_response_t *res, size_t size) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->session || (exchange->session->conn.flags & UVHTTP__CONN_CLOSED)) return UVHTTP_E_ABORTED;
    if (!wants_body(exchange)) return UVHTTP_OK;
    uint32_t queued = uvhttp__stream_out_size(&exchange->session->conn.stream);
    if (queued + (uint64_t)size <= exchange->worker->server->config.write_queue_max) return UVHTTP_OK;
    if (queued == 0) return UVHTTP_E_LIMIT;
    uvhttp__session_watch_writing(exchange->session); /* on_drain follows */
    if (!exchange->coroutine) return UVHTTP_E_LIMIT;
    int status = uvhttp__coroutine_wait_room(exchange);
    return status == UVHTTP_OK ? sink_room(res, size) : status;
}

static int sink_push(uvhttp_response_t *res, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!wants_body(exchange)) return UVHTTP_OK;
    uvhttp__stream_t *stream = &exchange->session->conn.stream;
    char *begin = uvhttp__loop_turn_alloc(stream->loop, size + UVHTTP__HTTP1_CHUNK_HEAD_MAX + 2), *end = begin;
    if (!begin) return UVHTTP_E_NOMEM;
    if (exchange->chunked_out) end += uvhttp__http1_write_chunk_head(end, size);
    end = put(end, data, size);
    if (exchange->chunked_out) end = PUT(end, "\r\n");
    uvhttp__loop_turn_trim(stream->loop, end);
    if (uvhttp__stream_send_turn(stream, begin, (size_t)(end - begin)) != UVHTTP_OK) return UVHTTP_E_ABORTED;
    res->sent_size += size;
    if (uvhttp__stream_out_size(stream) > COPY_MAX)
        uvhttp__session_watch_writing(exchange->session);
    else if (res->sent_size > COPY_MAX) /* the kernel takes what comes little by little, for minutes */
        uvhttp__output_check_start(&exchange->session->conn);
    return UVHTTP_OK;
}

static int sink_write(uvhttp_response_t *res, const char *data, size_t size) {
    int status = sink_room(res, size);
    return status == UVHTTP_OK ? sink_push(res, data, size) : status;
}

static int send_last_chunk(uvhttp__exchange_t *exchange) {
    const uvhttp__trailers_t *trailers = exchange->response.trailers;
    uvhttp__stream_t *stream = &exchange->session->conn.stream;
    size_t size = trailers ? trailers->size : 0;
    char *begin = uvhttp__loop_turn_alloc(stream->loop, size + 5), *end = begin;
    if (!begin) { /* without its end it must not look whole */
        exchange->keep_alive = false;
        return UVHTTP_E_NOMEM;
    }
    end = PUT(end, "0\r\n");
    if (size > 0) end = put(end, trailers->text, size);
    end = PUT(end, "\r\n");
    uvhttp__loop_turn_trim(stream->loop, end);
    return uvhttp__stream_send_turn(stream, begin, (size_t)(end - begin)) == UVHTTP_OK ? UVHTTP_OK : UVHTTP_E_ABORTED;
}

static int sink_end(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->session) return UVHTTP_E_ABORTED;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_MISSIZED))
        exchange->keep_alive = false;
    else if (exchange->chunked_out && wants_body(exchange))
        return send_last_chunk(exchange);
    return UVHTTP_OK;
}

static uvhttp_deferred_t *sink_defer(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->session || exchange->coroutine || uvhttp__exchange_leave(exchange) != UVHTTP_OK) return NULL;
    uvhttp_deferred_t *deferred = uvhttp__deferred_new(exchange);
    if (deferred) uvhttp__exchange_set_aside(exchange);
    return deferred;
}

const uvhttp__response_sink_t uvhttp__exchange_sink = {.begin = sink_begin,
                                                       .write = sink_write,
                                                       .room = sink_room,
                                                       .push = sink_push,
                                                       .end = sink_end,
                                                       .defer = sink_defer};

/* --- what follows --- */

UVHTTP__HOT void uvhttp__exchange_returned(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED)) {
        uvhttp__exchange_await(exchange);
        return;
    }
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN)) {
        uvhttp__exchange_answer(exchange);
        return;
    }
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_ENDED)) (void)uvhttp_response_end(res);
    complete(exchange);
}

void uvhttp__exchange_gone(uvhttp__exchange_t *exchange, int status) {
    uvhttp__response_abort(&exchange->response);
    uvhttp_deferred_t *deferred = exchange->deferred;
    /* Once it is aborted, the last release on any thread frees handle and exchange: a reference of our own lasts until
     * the hooks have run. */
    if (deferred) uvhttp_deferred_retain(deferred);
    uvhttp__body_fail(exchange, status);
    bool kept = deferred && uvhttp__deferred_abort(deferred);
    if (exchange->coroutine)
        uvhttp__coroutine_abort(exchange);
    else
        uvhttp__response_done(&exchange->response, UVHTTP_E_ABORTED);
    if (!kept)
        uvhttp__exchange_release(exchange);
    else if (!exchange->coroutine) /* one that has not ended has it on the loop until then */
        atomic_store_explicit(&exchange->home, 0, memory_order_relaxed);
    if (deferred) uvhttp_deferred_release(deferred);
}

void uvhttp__exchange_abort(uvhttp__exchange_t *exchange, int status) {
    exchange->session->exchange = NULL;
    exchange->session = NULL;
    if (exchange->call) uvhttp__body_fail(exchange, status); /* a thread may be waiting for it */
    if (!exchange->call || !uvhttp__call_leave(exchange)) uvhttp__exchange_gone(exchange, status);
}

int uvhttp_response_upgrade(uvhttp_response_t *res, const char *protocol, const uvhttp_tcp_handlers_t *handlers,
                            void *user) {
    if (!res || !protocol || !handlers || !handlers->on_data) return UVHTTP_E_INVALID;
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->request.head.upgrade || exchange->request.head.version_minor != 1 ||
        exchange->request.body.size > 0 || exchange->incoming ||
        uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_DEFERRED | UVHTTP__RESPONSE_COMMITTED |
                                     UVHTTP__RESPONSE_ON_ERROR))
        return UVHTTP_E_STATE;
    int status = uvhttp__response_put_header(res, (uvhttp_str_t){"Upgrade", 7},
                                             (uvhttp_str_t){protocol, strlen(protocol)}, true);
    if (status == UVHTTP_OK)
        status = uvhttp__response_put_header(res, (uvhttp_str_t){"Connection", 10}, (uvhttp_str_t){"Upgrade", 7}, true);
    if (status == UVHTTP_OK) status = uvhttp_response_empty(res, 204);
    if (status != UVHTTP_OK) return status;
    res->status = 101;
    exchange->upgrade = handlers;
    exchange->upgrade_user = user;
    return UVHTTP_OK;
}
