/* Owns: the session: bytes of a connection become requests, one after the other, under limits, deadlines and a share of
 * each turn of the loop. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hot.h"
#include "server/server_internal.h"
#if UVHTTP_WITH_WEBSOCKET
#include "handler/websocket.h"
#endif

static_assert(sizeof(uvhttp__session_t) <= 240, "memory of an idle connection: at most 320 bytes with all overhead");

static const uvhttp_server_config_t *config_of(const uvhttp__session_t *session) {
    return &uvhttp__session_worker(session)->server->config;
}

static uvhttp__counters_t *counters_of(const uvhttp__session_t *session) {
    return &session->conn.worker->counters;
}

/* 0 switches a time limit off. */
UVHTTP__HOT static void set_deadline(uvhttp__session_t *session, uint64_t seconds) {
    if (seconds == 0)
        uvhttp__conn_timer_stop(&session->conn);
    else
        uvhttp__conn_timer_set(&session->conn, uvhttp__conn_now_ms(&session->conn) + seconds * 1000);
}

void uvhttp__session_watch(uvhttp__session_t *session) {
    const uvhttp__exchange_t *exchange = session->exchange;
    uint64_t at = UINT64_MAX;
    bool receiving = session->state == UVHTTP__SESSION_BODY && !uvhttp__body_held_back(exchange);
    if (receiving) at = uvhttp__conn_now_ms(&session->conn) + UVHTTP__RATE_INTERVAL_MS;
    if (exchange->answer_by_ms > 0 && exchange->answer_by_ms < at) at = exchange->answer_by_ms;
    if (at == UINT64_MAX)
        uvhttp__conn_timer_stop(&session->conn);
    else
        uvhttp__conn_timer_set(&session->conn, at);
}

static void drop_partial(uvhttp__session_t *session) {
    if (session->state == UVHTTP__SESSION_UPGRADED) return;
    uvhttp__free(session->partial);
    session->partial = NULL;
}

/* --- refusing --- */

/* Makes an exchange for an answer to nobody's request. */
static bool begin_headless(uvhttp__session_t *session) {
    if (uvhttp__exchange_begin(session) != UVHTTP_OK) {
        uvhttp__conn_close(&session->conn, UVHTTP_E_NOMEM);
        return false;
    }
    uvhttp__exchange_headless(session->exchange, NULL, 0);
    return true;
}

void uvhttp__session_refuse(uvhttp__session_t *session, int code) {
    uvhttp__counters_error(counters_of(session), code);
    uvhttp__exchange_t *current = session->exchange;
    bool foreign = current && current->call; /* a worker thread has it, or another one may be reading it */
    if (current && !foreign) {
        if (uvhttp__response_is(&current->response, UVHTTP__RESPONSE_COMMITTED)) {
            uvhttp__conn_close(&session->conn, code);
            return;
        }
        foreign = current->deferred != NULL;
        if (!foreign) uvhttp__body_fail(current, code);
    }
    if (foreign && !uvhttp__exchange_replace(session, code)) {
        uvhttp__conn_close(&session->conn, UVHTTP_E_NOMEM);
        return;
    }
    if (!session->exchange && !begin_headless(session)) return;
    uvhttp__exchange_t *exchange = session->exchange;
    uvhttp_response_t *res = &exchange->response;
    exchange->keep_alive = false;
    session->conn.close_status = (int16_t)code;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_COMMITTED)) { /* begun just now */
        uvhttp__conn_close(&session->conn, code);
        return;
    }
    uvhttp__response_undefer(res);
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_ANSWERED)) {
        char text[128];
        int size = snprintf(text, sizeof text, "%s\n", uvhttp_error_message(code));
        int status = uvhttp_error_http_status(code);
        if (uvhttp_response_send(res, status, "text/plain; charset=utf-8", text, (size_t)size) == UVHTTP_OK)
            uvhttp__response_by_server(res, code);
        else
            uvhttp__response_fail_by(res, code, status, NULL);
    }
    uvhttp__exchange_answer(exchange);
}

/* A head, of which data[0..size) has come, is refused. */
static void refuse_head(uvhttp__session_t *session, const char *data, size_t size, int code) {
    if (session->exchange || uvhttp__exchange_begin(session) == UVHTTP_OK)
        uvhttp__exchange_headless(session->exchange, data, size);
    uvhttp__session_refuse(session, code);
}

/* --- after an answer --- */

void uvhttp__session_watch_writing(uvhttp__session_t *session) {
    if (session->writing) return;
    session->writing = true;
    uvhttp__stream_notify_sent(&session->conn.stream);
    uvhttp__output_check_start(&session->conn);
    if (session->state == UVHTTP__SESSION_HEAD) uvhttp__conn_timer_stop(&session->conn); /* on_sent sets it */
}

/* The server stops, or this connection ends alone. Its client may have sent another request, or be about to, and can
 * not know: that one is answered, with `Connection: close`. */
static void await_last_request(uvhttp__session_t *session) {
    uvhttp__conn_timer_set(&session->conn, uvhttp__conn_now_ms(&session->conn) + config_of(session)->drain_idle_ms);
}

/* Another one on a connection that is kept. */
UVHTTP__HOT static void expect_request(uvhttp__session_t *session) {
    uvhttp__conn_idle(&session->conn);
    if (uvhttp__conn_drains(&session->conn))
        await_last_request(session);
    else
        set_deadline(session, config_of(session)->keepalive_timeout);
}

UVHTTP__HOT void uvhttp__session_answered(uvhttp__session_t *session, bool keep_alive) {
    session->exchange = NULL;
    bool was_later = session->state != UVHTTP__SESSION_HEAD;
    session->state = UVHTTP__SESSION_HEAD;
    if (!keep_alive && session->writing) {
        session->closing = session->blocked = true;   /* on_sent goes on */
        uvhttp__stream_resume(&session->conn.stream); /* what comes is thrown away, so that the client can read */
        return;
    }
    if (!keep_alive) {
        uvhttp__conn_finish(&session->conn);
        return;
    }
    if (!session->writing)
        expect_request(session);
    else
        uvhttp__conn_timer_stop(&session->conn); /* on_sent expects it */
    if (was_later) uvhttp__stream_resume(&session->conn.stream);
}

/* --- heads --- */

/* exchange->head has been read; it stands at base, and `data` is what follows it. Returns bytes used of data. */
UVHTTP__HOT static size_t on_head(uvhttp__session_t *session, const char *base, const char *data, size_t size) {
    uvhttp_server_t *server = uvhttp__session_worker(session)->server;
    uvhttp__exchange_t *exchange = session->exchange;
    uvhttp__counters_add(counters_of(session), requests, 1);
    session->request_count++;
    session->turn_requests++;
    exchange->borrowed = base;
    exchange->keep_alive =
        exchange->request.head.keep_alive && session->request_count != server->config.keepalive_requests;
    exchange->request.base = base;
    if (exchange->request.head.chunked || exchange->request.head.content_length > 0)
        return uvhttp__body_start(session, data, size);
    session->more = size > 0 || session->full;
    session->state = UVHTTP__SESSION_ANSWER;
    uvhttp__exchange_run(exchange);
    return 0;
}

/* Keeps what has come of a head. Returns 0 or UVHTTP_E_NOMEM. */
static int keep_partial(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__partial_t *partial = session->partial;
    uint32_t have = partial ? partial->size : 0;
    size_t need = (size_t)have + size;
    if (!partial || need > partial->capacity) {
        size_t capacity = partial ? (size_t)partial->capacity * 2 : 1024 - sizeof *partial;
        if (capacity < need) capacity = need;
        uvhttp__partial_t *grown = uvhttp__realloc(partial, sizeof *partial + capacity);
        if (!grown) return UVHTTP_E_NOMEM;
        if (!partial) grown->scan = (uvhttp__http1_scan_t){0};
        grown->capacity = (uint32_t)capacity;
        session->partial = partial = grown;
    }
    memcpy(partial->data + have, data, size);
    partial->size = (uint32_t)need;
    return UVHTTP_OK;
}

/* Bytes for a head of which some have come before. */
static size_t continue_head(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp_server_t *server = uvhttp__session_worker(session)->server;
    uint32_t before = session->partial->size;
    int status = keep_partial(session, data, size);
    uvhttp__partial_t *partial = session->partial;
    if (status == UVHTTP_OK) status = uvhttp__exchange_begin(session);
    if (status == UVHTTP_OK)
        status = uvhttp__http1_read_request(&partial->scan, partial->data, partial->size, &server->limits,
                                            &session->exchange->request.head);
    if (status == UVHTTP_E_AGAIN) {
        uvhttp__exchange_cancel(session);
        return size;
    }
    session->partial = NULL;
    if (status != UVHTTP_OK) {
        refuse_head(session, partial->data, partial->size, status);
        uvhttp__free(partial);
        return size;
    }
    size_t of_head = session->exchange->request.head.size - before; /* the rest stands in data still */
    size_t used = on_head(session, partial->data, data + of_head, size - of_head);
    /* An answer to come owns a copy by now; any other is out. */
    uvhttp__free(partial);
    return of_head + used;
}

static size_t read_head(uvhttp__session_t *session, const char *data, size_t size) {
    if (session->partial) return continue_head(session, data, size);
    uvhttp_server_t *server = uvhttp__session_worker(session)->server;
    uvhttp__http1_scan_t scan = {0};
    int status = uvhttp__exchange_begin(session);
    if (status == UVHTTP_OK)
        status = uvhttp__http1_read_request(&scan, data, size, &server->limits, &session->exchange->request.head);
    if (status == UVHTTP_OK) {
        size_t head_size = session->exchange->request.head.size;
        return head_size + on_head(session, data, data + head_size, size - head_size);
    }
    if (status == UVHTTP_E_AGAIN) {
        uvhttp__exchange_cancel(session);
        if (keep_partial(session, data, size) == UVHTTP_OK) {
            session->partial->scan = scan;
            /* From the first byte on the whole head is due. */
            if (!session->writing) {
                uvhttp__conn_timer_stop(&session->conn);
                set_deadline(session, server->config.connection_timeout);
            }
            return size;
        }
        status = UVHTTP_E_NOMEM;
    }
    refuse_head(session, data, size, status);
    return size;
}

/* --- reading --- */

/* Whether this connection has to let others go first, or to wait for its client to read. */
static bool must_wait(uvhttp__session_t *session) {
    uvhttp__stream_t *stream = &session->conn.stream;
    const uvhttp_server_config_t *config = config_of(session);
    if (session->turn_number != stream->loop->turn_number) {
        session->turn_number = stream->loop->turn_number;
        session->turn_requests = 0;
    }
    if (session->blocked) return true;
    if (uvhttp__stream_out_size(stream) > config->write_buffer_size) {
        uvhttp__counters_add(counters_of(session), write_queue_full, 1);
        session->blocked = true; /* on_sent goes on */
        uvhttp__session_watch_writing(session);
        return true;
    }
    if (session->turn_requests < config->turn_requests_max) return false;
    uvhttp__counters_add(counters_of(session), budget_exhausted, 1);
    uvhttp__stream_resume(stream); /* behind the others */
    return true;
}

/* As the public TCP server does: what was kept while it was paused comes in pieces of a receive. Who puts back bytes is
 * paused. */
static size_t on_upgraded_data(uvhttp__session_t *session, const char *data, size_t size) {
    size_t used = 0, piece_max = config_of(session)->read_buffer_size;
    while (used < size && !(session->conn.flags & UVHTTP__CONN_PAUSED)) {
        if (session->conn.flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return size;
        size_t piece = size - used < piece_max ? size - used : piece_max;
        session->upgraded->on_data(&session->conn, data + used, piece, session->conn.user);
        used += piece - session->conn.worker->put_back;
        session->conn.worker->put_back = 0;
    }
    return used;
}

static size_t discard(uvhttp__session_t *session, size_t size) {
    if (size > session->discard) size = session->discard;
    session->discard -= (uint32_t)size;
    if (session->discard == 0) uvhttp__conn_idle(&session->conn);
    return size;
}

UVHTTP__HOT static size_t on_data(uvhttp__conn_t *conn, const char *data, size_t size) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    size_t used = 0;
    session->full = size >= config_of(session)->read_buffer_size;
    while (used < size) {
        if (session->conn.flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return size;
        if (session->state == UVHTTP__SESSION_HEAD) {
            if (must_wait(session)) return session->closing ? size : used;
            used += session->discard ? discard(session, size - used) : read_head(session, data + used, size - used);
        } else if (session->state == UVHTTP__SESSION_BODY) {
            size_t taken = uvhttp__body_read(session, data + used, size - used);
            if (taken == 0) break;
            used += taken;
        } else if (session->state == UVHTTP__SESSION_UPGRADED) {
            return used + on_upgraded_data(session, data + used, size - used);
        } else {
            break;
        }
    }
    return used;
}

/* --- the rest of a connection's life --- */

static void on_open(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    memset((char *)session + sizeof session->conn, 0, sizeof *session - sizeof session->conn);
    uvhttp__conn_idle(conn);
    set_deadline(session, config_of(session)->connection_timeout);
}

/* Nothing of a request has come. */
static bool is_idle(const uvhttp__conn_t *conn) {
    const uvhttp__session_t *session = UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn);
    return session->state == UVHTTP__SESSION_HEAD && !session->exchange && !session->partial && !session->writing &&
           !session->closing && !session->blocked && session->discard == 0;
}

static bool is_new(const uvhttp__conn_t *conn) {
    return UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn)->request_count == 0;
}

static uvhttp__conn_phase_t phase(const uvhttp__conn_t *conn) {
    const uvhttp__session_t *session = UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) return UVHTTP__PHASE_IDLE;
    if (session->state == UVHTTP__SESSION_ANSWER || session->writing) return UVHTTP__PHASE_WRITING;
    if (session->state == UVHTTP__SESSION_BODY || session->partial) return UVHTTP__PHASE_READING;
    return UVHTTP__PHASE_IDLE;
}

static void on_end(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (session->upgraded->on_end)
            session->upgraded->on_end(conn, conn->user);
        else
            uvhttp_tcp_close(conn);
    } else if (session->state == UVHTTP__SESSION_BODY) {
        uvhttp__counters_error(counters_of(session), UVHTTP_E_HTTP_BODY_INCOMPLETE);
        uvhttp__conn_close(conn, UVHTTP_E_HTTP_BODY_INCOMPLETE);
    } else if (session->state == UVHTTP__SESSION_ANSWER) {
        uvhttp__exchange_t *exchange = session->exchange;
        /* While a worker thread has it, the response is that thread's. */
        if (config_of(session)->half_close ||
            (!exchange->call && uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BRIEFLY)))
            exchange->keep_alive = false;
        else
            uvhttp__conn_close(conn, UVHTTP_E_ABORTED);
    } else if (session->partial || uvhttp__stream_out_size(&conn->stream) == 0) {
        uvhttp__conn_close(conn, UVHTTP_OK);
    } else if (!session->closing) {
        uvhttp__conn_finish(&session->conn);
    }
}

static void on_sent(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (!(conn->flags & UVHTTP__CONN_PRESSED)) return;
        conn->flags &= (uint16_t)~UVHTTP__CONN_PRESSED;
        if (session->upgraded->on_drain) session->upgraded->on_drain(conn, conn->user);
        return;
    }
    if (session->closing) {
        uvhttp__conn_finish(&session->conn);
        return;
    }
    if (session->writing) {
        session->writing = false;
        if (session->state == UVHTTP__SESSION_HEAD && session->partial)
            set_deadline(session, config_of(session)->connection_timeout);
        else if (session->state == UVHTTP__SESSION_HEAD)
            expect_request(session);
    }
    if (session->blocked) {
        session->blocked = false;
        uvhttp__stream_resume(&conn->stream);
    }
    if (session->exchange && session->exchange->deferred)
        uvhttp__deferred_drained(session->exchange->deferred);
    else if (session->exchange && session->exchange->call)
        uvhttp__call_drained(session->exchange);
}

uvhttp__rate_limits_t uvhttp__session_body_limits(const uvhttp__session_t *session) {
    const uvhttp_server_config_t *config = config_of(session);
    const uvhttp__route_t *route = session->exchange->way.route;
    uint32_t timeout = route ? route->options.body_timeout : 0;
    if (timeout == 0) timeout = config->body_timeout;
    if (timeout == UINT32_MAX) timeout = 0; /* a route's: no limit */
    return (uvhttp__rate_limits_t){config->min_receive_rate, config->rate_grace, timeout};
}

/* Returns false if the request was given up. */
static bool check_body(uvhttp__session_t *session) {
    uvhttp__exchange_t *exchange = session->exchange;
    if (uvhttp__body_held_back(exchange)) return true;
    const uvhttp__rate_limits_t limits = uvhttp__session_body_limits(session);
    uint64_t now_ms = uvhttp__conn_now_ms(&session->conn);
    uvhttp__rate_verdict_t verdict =
        uvhttp__rate_look(&exchange->body_rate, &limits, (uint32_t)exchange->body_seen, now_ms);
    if (verdict == UVHTTP__RATE_FINE) return true;
    if (verdict == UVHTTP__RATE_STALLED)
        uvhttp__counters_add(counters_of(session), timeouts_body, 1);
    else
        uvhttp__counters_add(counters_of(session), slow_read, 1);
    uvhttp__session_refuse(session, UVHTTP_E_HTTP_TIMEOUT);
    return false;
}

/* A request is received, answered, or both. */
static void check_exchange(uvhttp__session_t *session) {
    if (session->state == UVHTTP__SESSION_BODY && !check_body(session)) return;
    uint64_t answer_by_ms = session->exchange->answer_by_ms;
    if (answer_by_ms > 0 && uvhttp__conn_now_ms(&session->conn) >= answer_by_ms)
        uvhttp__session_refuse(session, UVHTTP_E_ANSWER_TIMEOUT);
    else
        uvhttp__session_watch(session);
}

static void on_timer(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (session->upgraded->on_timer) session->upgraded->on_timer(conn, conn->user);
    } else if (session->state != UVHTTP__SESSION_HEAD) {
        check_exchange(session);
    } else if (session->partial) {
        uvhttp__counters_add(counters_of(session), timeouts_header, 1);
        uvhttp__partial_t *partial = session->partial;
        session->partial = NULL;
        refuse_head(session, partial->data, partial->size, UVHTTP_E_HTTP_TIMEOUT);
        uvhttp__free(partial);
    } else {
        /* Nothing was asked, so nothing is answered. A connection on which nothing ever came is closed like an idle
         * one. */
        if (uvhttp__conn_drains(conn))
            ; /* no request came */
        else if (session->request_count == 0)
            uvhttp__counters_add(counters_of(session), timeouts_header, 1);
        else
            uvhttp__counters_add(counters_of(session), timeouts_keepalive, 1);
        uvhttp__conn_finish(&session->conn);
    }
}

/* Of a protocol that we do not know nothing is asked. */
static const uvhttp__rate_limits_t *output_limits(const uvhttp__conn_t *conn) {
    static const uvhttp__rate_limits_t none = {0};
    const uvhttp__session_t *session = (const uvhttp__session_t *)(const void *)conn;
    if (session->state != UVHTTP__SESSION_UPGRADED) return &conn->worker->host->options.output;
#if UVHTTP_WITH_WEBSOCKET
    if (session->upgraded == &uvhttp__ws_tcp_handlers) return uvhttp__ws_output_limits(conn);
#endif
    return &none;
}

/* What has begun goes on; who has asked for nothing has a moment to do so. */
static void on_drain(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (session->upgraded->on_stop)
            session->upgraded->on_stop(conn, conn->user);
        else
            uvhttp_tcp_close(conn);
        return;
    }
    if (session->exchange && session->exchange->deferred)
        uvhttp__deferred_stop(session->exchange->deferred);
    else if (session->state == UVHTTP__SESSION_HEAD && !session->partial && !session->writing)
        await_last_request(session);
}

static void abort_exchange(uvhttp__session_t *session) {
    int status = session->conn.close_status;
    if (session->state == UVHTTP__SESSION_ANSWER || session->exchange->incoming)
        uvhttp__counters_add(counters_of(session), aborted, 1);
    uvhttp__exchange_abort(session->exchange, status < 0 ? status : UVHTTP_E_ABORTED);
}

static void on_closed(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (session->upgraded->on_close) session->upgraded->on_close(conn, conn->close_status, conn->user);
    } else {
        drop_partial(session);
        if (session->exchange) abort_exchange(session);
    }
    uvhttp__conn_close_ref(conn);
}

/* --- per worker --- */

static int on_worker_start(uvhttp__worker_t *worker) {
    uvhttp__http_worker_t *upper = uvhttp__alloc_aligned(64, sizeof *upper);
    if (!upper) return UVHTTP_E_NOMEM;
    memset(upper, 0, offsetof(uvhttp__http_worker_t, response_time));
    upper->worker = worker;
    upper->server = worker->host->options.user;
    uvhttp__histogram_init(&upper->response_time);
    worker->upper = upper;
    uvhttp__calls_open(upper);
    uvhttp__watch_open(upper);
    uvhttp__coroutine_worker_start(upper);
    return UVHTTP_OK;
}

static void on_worker_stop(uvhttp__worker_t *worker) {
    uvhttp__http_worker_t *upper = worker->upper;
    uvhttp__static_worker_stop(upper);
    uvhttp__work_port_close(&upper->port);
    worker->loop->work_port = NULL;
    uvhttp__coroutine_worker_stop(upper);
    uvhttp__exchange_pool_free(upper);
    upper->due_in_turn = 0; /* a guest's loop may end its turn after the server is gone */
}

/* Until here the figures of a server that has stopped can be read. */
static void on_worker_delete(uvhttp__worker_t *worker) {
    uvhttp__http_worker_t *upper = worker->upper;
    uvhttp__static_free(upper->sites);
    uvhttp__work_free(upper->work);
    uvhttp__free_aligned(upper);
}

static void on_worker_drain(uvhttp__worker_t *worker, bool cut) {
    uvhttp__http_worker_t *upper = worker->upper;
    if (!cut) uvhttp__coroutine_worker_drain(upper);
    if (worker->index == 0 && !cut) {
        upper->server->drain_ns = worker->loop->now_ns;
        uvhttp__work_drain(upper->server->work);
    }
    uvhttp__work_port_cancel(&upper->port, !cut);
}

/* A job of this loop is waited for: it may have to answer. */
static bool is_busy(const uvhttp__worker_t *worker) {
    return ((const uvhttp__http_worker_t *)worker->upper)->port.pending > 0;
}

/* All requests that were seen and answered in this turn took the same time: from its begin to the hand-over now. */
UVHTTP__HOT static void on_turn_end(uvhttp__worker_t *worker) {
    uvhttp__http_worker_t *upper = worker->upper;
    if (!upper) return; /* the worker could not be started */
    uvhttp__coroutine_turn_end(upper);
    if (upper->due_in_turn == 0) return;
    if (upper->has_calls) uvhttp__calls_submit(upper);
    uint64_t ns = uvhttp__clock_ns() - worker->loop->now_ns;
    if (upper->server->config.performance.enable_statistics)
        uvhttp__histogram_record_n(&upper->response_time, ns, upper->answered_in_turn);
    if (__builtin_expect(ns >= upper->look_ns, false)) uvhttp__watch_turn(upper, ns);
    upper->due_in_turn = 0;
}

const uvhttp__conn_ops_t uvhttp__session_ops = {.conn_size = sizeof(uvhttp__session_t),
                                                .on_worker_start = on_worker_start,
                                                .on_worker_stop = on_worker_stop,
                                                .on_worker_delete = on_worker_delete,
                                                .on_worker_drain = on_worker_drain,
                                                .is_busy = is_busy,
                                                .on_turn_end = on_turn_end,
                                                .on_open = on_open,
                                                .on_data = on_data,
                                                .on_end = on_end,
                                                .on_sent = on_sent,
                                                .on_timer = on_timer,
                                                .output_limits = output_limits,
                                                .is_idle = is_idle,
                                                .is_new = is_new,
                                                .phase = phase,
                                                .on_drain = on_drain,
                                                .on_closed = on_closed};
