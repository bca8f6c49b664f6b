/* Owns: the end of an exchange's way: its response leaves by the protocol, in one or in pieces, or nobody is there. */
#include <stdio.h>
#include <string.h>

#include "base/hot.h"
#include "exchange/exchange_internal.h"

static void measure(uvhttp__exchange_t *exchange) {
    uvhttp__http_worker_t *worker = exchange->worker;
    uvhttp__counters_response(&worker->worker->counters, exchange->response.status);
    if (exchange->start_turn == worker->worker->loop->turn_number)
        worker->answered_in_turn++;
    else if (worker->service->config.performance.enable_statistics)
        uvhttp__histogram_record(&worker->response_time, uvhttp__clock_ns() - exchange->start_ns);
}

UVHTTP__HOT void uvhttp__exchange_finished(uvhttp__exchange_t *exchange) {
    measure(exchange);
    uvhttp__response_done(&exchange->response, UVHTTP_OK);
    if (exchange->deferred) uvhttp__deferred_answered(exchange->deferred);
    uvhttp__exchange_release(exchange);
}

UVHTTP__HOT void uvhttp__exchange_answer(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    if (__builtin_expect(uvhttp__response_is(res, UVHTTP__RESPONSE_BY_SERVER), 0))
        uvhttp__exchange_own_response(exchange);
    uvhttp__response_finish(res);
    uvhttp__response_commit(res);
    exchange->protocol->respond(exchange);
}

/* --- responses in pieces --- */

static int sink_begin(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->protocol) return UVHTTP_E_ABORTED;
    uvhttp__response_finish(res);
    uvhttp__response_commit(res);
    exchange->answer_by_ms = 0;
    res->sent_size = 0;
    return exchange->protocol->begin(exchange, res->coder ? UVHTTP_SIZE_UNKNOWN : res->stream_size);
}

static int sink_room(uvhttp_response_t *res, size_t size) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    const uvhttp__protocol_t *protocol = exchange->protocol;
    if (!protocol || !protocol->is_open(exchange)) return UVHTTP_E_ABORTED;
    if (!uvhttp__exchange_wants_body(exchange)) return UVHTTP_OK;
    uint64_t queued = protocol->queued(exchange);
    if (queued + size <= exchange->worker->service->config.write_queue_max) return UVHTTP_OK;
    if (queued == 0) return UVHTTP_E_LIMIT;
    protocol->notify_writable(exchange); /* on_drain follows */
    if (!exchange->coroutine) return UVHTTP_E_LIMIT;
    int status = uvhttp__coroutine_wait_room(exchange);
    return status == UVHTTP_OK ? sink_room(res, size) : status;
}

static int sink_push(uvhttp_response_t *res, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!uvhttp__exchange_wants_body(exchange)) return UVHTTP_OK;
    int status = exchange->protocol->write(exchange, data, size);
    if (status == UVHTTP_OK) res->sent_size += size;
    return status;
}

static int sink_write(uvhttp_response_t *res, const char *data, size_t size) {
    int status = sink_room(res, size);
    return status == UVHTTP_OK ? sink_push(res, data, size) : status;
}

static int sink_end(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    return exchange->protocol ? exchange->protocol->end(exchange) : UVHTTP_E_ABORTED;
}

static uvhttp_deferred_t *sink_defer(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->protocol || exchange->coroutine || uvhttp__exchange_leave(exchange) != UVHTTP_OK) return NULL;
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
    exchange->protocol->finish(exchange);
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

static void detach(uvhttp__exchange_t *exchange, int status) {
    exchange->protocol = NULL;
    if (exchange->call) uvhttp__body_fail(exchange, status); /* a thread may be waiting for it */
    if (!exchange->call || !uvhttp__call_leave(exchange)) uvhttp__exchange_gone(exchange, status);
}

void uvhttp__exchange_abort(uvhttp__exchange_t *exchange, int status) {
    if (!exchange->receiving || exchange->incoming)
        uvhttp__counters_add(&exchange->worker->worker->counters, aborted, 1);
    detach(exchange, status);
}

/* --- refusing --- */

/* The response of `old` is another thread's: ends it with `code` and makes another one with the same request line in
 * its place. NULL if there is no memory. */
static uvhttp__exchange_t *replace(uvhttp__exchange_t *old, int code) {
    uvhttp__exchange_t *made = old->protocol->replace(old);
    if (!made) return NULL;
    made->way.next = SIZE_MAX; /* the hooks of the one that is given up tell of the request */
    detach(old, code);
    return made;
}

static void make_refusal(uvhttp_response_t *res, int code) {
    char text[128];
    int size = snprintf(text, sizeof text, "%s\n", uvhttp_error_message(code));
    int status = uvhttp_error_http_status(code);
    if (uvhttp_response_send(res, status, "text/plain; charset=utf-8", text, (size_t)size) == UVHTTP_OK)
        uvhttp__response_by_server(res, code);
    else
        uvhttp__response_fail_by(res, code, status, NULL);
}

void uvhttp__exchange_refuse(uvhttp__exchange_t *exchange, int code) {
    uvhttp__counters_error(&exchange->worker->worker->counters, code);
    bool foreign = exchange->call != NULL; /* a worker thread has it, or another one may be reading it */
    if (!foreign && !uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_COMMITTED)) {
        foreign = exchange->deferred != NULL;
        if (!foreign) uvhttp__body_fail(exchange, code);
    }
    if (foreign) {
        uvhttp__exchange_t *made = replace(exchange, code);
        if (!made) exchange->protocol->reset(exchange, UVHTTP_E_NOMEM);
        if (!made) return;
        exchange = made;
    }
    uvhttp_response_t *res = &exchange->response;
    exchange->failure = (int16_t)code;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_COMMITTED)) { /* begun, perhaps just now */
        exchange->protocol->reset(exchange, code);
        return;
    }
    uvhttp__response_undefer(res);
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_ANSWERED)) make_refusal(res, code);
    uvhttp__exchange_answer(exchange);
}

/* --- what a protocol says --- */

void uvhttp__exchange_writable(uvhttp__exchange_t *exchange) {
    if (exchange->deferred)
        uvhttp__deferred_drained(exchange->deferred);
    else if (exchange->call)
        uvhttp__call_drained(exchange);
}

void uvhttp__exchange_drain(uvhttp__exchange_t *exchange) {
    if (exchange->deferred) uvhttp__deferred_stop(exchange->deferred);
}

/* While a worker thread has it, the response is that thread's. */
bool uvhttp__exchange_half_closed(const uvhttp__exchange_t *exchange) {
    return exchange->worker->service->config.half_close ||
           (!exchange->call && uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BRIEFLY));
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

bool uvhttp_response_stopping(const uvhttp_response_t *res) {
    const uvhttp__exchange_t *exchange = UVHTTP__CONTAINER_OF(res, uvhttp__exchange_t, response);
    return atomic_load_explicit(&exchange->worker->worker->host->stopping, memory_order_relaxed);
}
