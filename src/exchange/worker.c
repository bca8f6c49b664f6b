/* Owns: handlers on worker threads: the call from the loop to the pool and back. While a thread runs the handler,
 * request and response are its alone; the protocol keeps the exchange, or has aborted it (the client has gone), and
 * touches neither. What only the loop can do, writing to the connection, it does while the thread waits: so no lock is
 * needed, nothing is copied on the way, and a slow client holds back the thread that writes to it. So it is with a live
 * body that the thread reads: it is paused unless the thread waits for a piece of it. Other bodies have come before the
 * thread does (spool.c). */
#include "exchange/worker.h"

#include <assert.h>

#include "exchange/call.h"
#include "exchange/deferred.h"
#include "exchange/pull.h"
#include "exchange/respond.h"
#include "exchange/spool.h"
#include "exchange/traced.h"
#include "obs/probe.h"

/* Bytes of a response that go to the loop at once. */
#define PIECE_MAX (64u * 1024)

/* --- on the worker thread --- */

/* Whose handler this thread runs; NULL: none's. A thread with a deferred handle of the same request has no call. */
static _Thread_local uvhttp__call_t *running;

static int await(uvhttp__call_t *call, uvhttp__call_operation_t operation) {
    pthread_mutex_lock(&call->lock);
    call->operation = operation;
    call->done = false;
    uvhttp__loop_post(call->exchange->loop->tcp->io, &call->post);
    while (!call->done) pthread_cond_wait(&call->returned, &call->lock);
    int status = call->status;
    pthread_mutex_unlock(&call->lock);
    return status;
}

static int on_loop(uvhttp_response_t *res, uvhttp__call_operation_t operation, const char *data, size_t size) {
    uvhttp__call_t *call = uvhttp__exchange_of(res)->call;
    call->data = data;
    call->size = size;
    return await(call, operation);
}

static int sink_begin(uvhttp_response_t *res) {
    return on_loop(res, UVHTTP__CALL_BEGIN, NULL, 0);
}

static int sink_write(uvhttp_response_t *res, const char *data, size_t size) {
    int status = UVHTTP_OK;
    for (size_t piece; status == UVHTTP_OK && size > 0; data += piece, size -= piece) {
        piece = size < PIECE_MAX ? size : PIECE_MAX;
        status = on_loop(res, UVHTTP__CALL_WRITE, data, piece);
    }
    return status;
}

static int sink_capacity(uvhttp_response_t *res, size_t size) {
    return on_loop(res, UVHTTP__CALL_CAPACITY, NULL, size);
}

static int sink_push(uvhttp_response_t *res, const char *data, size_t size) {
    return on_loop(res, UVHTTP__CALL_PUSH, data, size);
}

static int sink_interim(uvhttp_response_t *res, int status, uvhttp_str_t fields) {
    uvhttp__exchange_of(res)->call->interim_status = status;
    return on_loop(res, UVHTTP__CALL_INTERIM, fields.data, fields.size);
}

static int sink_end(uvhttp_response_t *res) {
    return on_loop(res, UVHTTP__CALL_END, NULL, 0);
}

static void sink_cut_off(uvhttp_response_t *res) {
    (void)on_loop(res, UVHTTP__CALL_CUT_OFF, NULL, 0);
}

static uvhttp_deferred_t *sink_defer(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    bool aside = uvhttp__exchange_set_aside(exchange) == UVHTTP_OK;
    exchange->call->deferred = aside ? uvhttp__deferred_new_held(exchange) : NULL;
    if (!exchange->call->deferred) uvhttp__response_unavailable(res, UVHTTP_E_LIMIT);
    return exchange->call->deferred;
}

static const uvhttp__response_sink_t worker_sink = {.begin = sink_begin,
                                                    .write = sink_write,
                                                    .capacity = sink_capacity,
                                                    .push = sink_push,
                                                    .interim = sink_interim,
                                                    .end = sink_end,
                                                    .cut_off = sink_cut_off,
                                                    .defer = sink_defer};

int uvhttp_request_read_body(uvhttp_request_t *req, uvhttp_str_t *piece, uint32_t timeout_ms) {
    if (piece) *piece = (uvhttp_str_t){NULL, 0};
    if (!req || !piece) return UVHTTP_E_INVALID;
    uvhttp__call_t *call = running;
    if (!call || &call->exchange->request != req) return UVHTTP_E_STATE;
    uvhttp__spool_t *spool = uvhttp__exchange_spool(call->exchange);
    if (spool) return uvhttp__spool_read(spool, piece);
    call->timeout_ms = timeout_ms;
    int status = await(call, UVHTTP__CALL_READ);
    if (status == UVHTTP_OK) *piece = call->piece;
    return status;
}

static void run(uvhttp__job_t *job) {
    uvhttp__call_t *call = UVHTTP__CONTAINER_OF(job, uvhttp__call_t, job);
    uvhttp__exchange_t *exchange = call->exchange;
    const uvhttp_route_t *route = exchange->cursor.route;
    UVHTTP__PROBE(queue_wait, exchange, job->at_ns);
    bool traced = exchange->loop->service->traced;
    uvhttp__trace_scope_t scope;
    running = call;
    if (traced) uvhttp__traced_enter(&scope, &exchange->request);
    route->inner(&exchange->request, &exchange->response, route->inner_user);
    if (traced) uvhttp__trace_leave(&scope);
    running = NULL;
    uvhttp__spool_t *spool = uvhttp__exchange_spool(exchange);
    if (spool) uvhttp__spool_close_file(spool);
}

/* --- on the loop: operations --- */

/* There is capacity for any write when it fits or the queue is empty: the thread waits in any case. Otherwise on_sent
 * follows. */
static int capacity(const uvhttp__call_t *call, size_t size) {
    uvhttp__exchange_t *exchange = call->exchange;
    int status = call->sink->capacity(&exchange->response, size);
    bool empty = status == UVHTTP_E_LIMIT && uvhttp__exchange_queued(exchange) == 0;
    return empty ? UVHTTP_OK : status;
}

/* A thread waits for its body: a piece is asked for, and has come when on_piece is called. */
static void await_piece(uvhttp__call_t *call) {
    uvhttp__loop_t *io = call->exchange->loop->tcp->io;
    call->waits_for_body = true;
    uvhttp__timer_stop(&io->wheel, &call->deadline); /* it was for the wait for a thread */
    if (call->timeout_ms != UVHTTP_NEVER)
        uvhttp__timer_set_after(&io->wheel, &call->deadline, io->now_ns, call->timeout_ms > 0 ? call->timeout_ms : 1);
    (void)uvhttp_request_resume_body(&call->exchange->request);
}

static int read_piece(uvhttp__call_t *call) {
    if (uvhttp__pull_ready(&call->pull)) return uvhttp__pull_take(&call->pull, &call->piece);
    if (!call->exchange->protocol) return UVHTTP_E_ABORTED;
    await_piece(call);
    return UVHTTP_E_AGAIN;
}

/* The thread continues when the current operation on the exchange is done: by a message to this very loop. */
static void on_piece(uvhttp__pull_t *pull) {
    uvhttp__call_t *call = UVHTTP__CONTAINER_OF(pull, uvhttp__call_t, pull);
    if (!call->waits_for_body) return;
    call->waits_for_body = false;
    uvhttp__loop_t *io = call->exchange->loop->tcp->io;
    uvhttp__timer_stop(&io->wheel, &call->deadline);
    uvhttp__loop_post(io, &call->post);
}

static void on_deadline(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    uvhttp__call_t *call = UVHTTP__CONTAINER_OF(timer, uvhttp__call_t, deadline);
    if (!call->waits_for_body) { /* unless it runs already, on_returned follows */
        uvhttp__http_loop_t *loop = call->exchange->loop;
        if (uvhttp__work_cancel(loop->service->work, &call->job) == UVHTTP_OK)
            uvhttp__counters_add(&loop->tcp->counters, work_queue_timeouts, 1);
        return;
    }
    call->waits_for_body = false;
    (void)uvhttp_request_pause_body(&call->exchange->request); /* nothing comes while the thread runs */
    uvhttp__call_complete(call, UVHTTP_E_TIMEOUT);
}

/* Of the others UVHTTP_E_LIMIT is a result: an interim response does not fit, or the stream of a body that is read was
 * reset for the memory of its connection. */
static bool waits_for_capacity(uvhttp__call_operation_t operation) {
    return operation != UVHTTP__CALL_INTERIM && operation != UVHTTP__CALL_READ;
}

static void operate(uvhttp__call_t *call) {
    uvhttp__exchange_t *exchange = call->exchange;
    uvhttp_response_t *res = &exchange->response;
    const uvhttp__response_sink_t *sink = call->sink;
    int status = UVHTTP_E_ABORTED;
    if (call->operation == UVHTTP__CALL_READ)
        status = read_piece(call);
    else if (exchange->protocol)
        switch (call->operation) {
            case UVHTTP__CALL_BEGIN: status = sink->begin(res); break;
            case UVHTTP__CALL_WRITE:
                status = capacity(call, call->size);
                if (status == UVHTTP_OK) status = sink->push(res, call->data, call->size);
                break;
            case UVHTTP__CALL_CAPACITY: status = capacity(call, call->size); break;
            case UVHTTP__CALL_PUSH: status = sink->push(res, call->data, call->size); break;
            case UVHTTP__CALL_INTERIM:
                status = sink->interim(res, call->interim_status, (uvhttp_str_t){call->data, call->size});
                break;
            case UVHTTP__CALL_END: status = sink->end(res); break;
            case UVHTTP__CALL_CUT_OFF: sink->cut_off(res); break;
            case UVHTTP__CALL_READ: break;
        }
    call->waits_for_client = status == UVHTTP_E_LIMIT && waits_for_capacity(call->operation);
    if (!call->waits_for_client && !call->waits_for_body) uvhttp__call_complete(call, status);
}

static void on_post(uvhttp__post_t *post) {
    operate(UVHTTP__CONTAINER_OF(post, uvhttp__call_t, post));
}

void uvhttp__call_drained(uvhttp__exchange_t *exchange) {
    if (exchange->call->waits_for_client) operate(exchange->call);
}

/* --- on the loop: the way there and back --- */

static void refuse(uvhttp__exchange_t *exchange, int status) {
    uvhttp__counters_error(&exchange->loop->tcp->counters, status);
    uvhttp__response_unavailable(&exchange->response, status);
}

static void on_returned(uvhttp__job_t *job, bool cancelled) {
    uvhttp__call_t *call = UVHTTP__CONTAINER_OF(job, uvhttp__call_t, job);
    uvhttp__exchange_t *exchange = call->exchange;
    uvhttp_deferred_t *deferred = call->deferred;
    if (!uvhttp__exchange_spool(exchange)) uvhttp__pull_close(&call->pull);
    exchange->response.sink = call->sink;
    uvhttp__call_end(call);
    if (cancelled) uvhttp__response_unavailable(&exchange->response, UVHTTP_E_WORK_CANCELLED);
    if (deferred) {
        uvhttp__deferred_keep(deferred);
        uvhttp__deferred_adopt(deferred, exchange);
    }
    if (exchange->protocol)
        uvhttp__exchange_conclude(exchange);
    else
        uvhttp__exchange_gone(exchange, UVHTTP_E_ABORTED);
    if (!deferred) return;
    uvhttp__deferred_unhold(deferred);
    uvhttp__deferred_let_go(deferred);
}

/* A share of the threads stays for handlers that do not wait for their clients' bodies. */
static bool may_be_live(uvhttp__service_t *service) {
    uint32_t max = service->config.worker_live_max, threads = service->config.worker_threads;
    if (max == 0) max = threads > 1 ? threads / 2 : 1;
    if (atomic_fetch_add(&service->live_calls, 1) < max) return true;
    atomic_fetch_sub(&service->live_calls, 1);
    return false;
}

/* The handler of the exchange's route has sent no response yet; it is submitted at the end of the iteration. */
static void call_handler(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    uvhttp__http_loop_t *loop = exchange->loop;
    uvhttp__call_t *call = uvhttp__arena_alloc(&exchange->arena, sizeof *call);
    if (!call || uvhttp__exchange_leave(exchange) != UVHTTP_OK) {
        uvhttp__response_unavailable(res, UVHTTP_E_LIMIT);
        return;
    }
    const uvhttp_route_t *route = exchange->cursor.route;
    bool is_live = exchange->incoming && route->options.live_body;
    if (is_live && !may_be_live(loop->service)) {
        uvhttp__counters_add(&loop->tcp->counters, work_live_refused, 1);
        refuse(exchange, UVHTTP_E_WORK_FULL);
        return;
    }
    *call = (uvhttp__call_t){.exchange = exchange, .post.run = on_post, .sink = res->sink, .is_live = is_live};
    uvhttp__job_init(&call->job, run, on_returned);
    call->job.name = route->pattern;
    call->job.waits = is_live;
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->returned, NULL);
    uvhttp__list_init(&call->link);
    uvhttp__timer_init(&call->deadline, uvhttp__wheel_kind(&loop->tcp->io->wheel, on_deadline, NULL));
    if (!uvhttp__exchange_spool(exchange)) uvhttp__pull_open(&call->pull, exchange, on_piece);
    uint32_t patience_ms = loop->service->config.worker_queue_timeout_ms;
    uvhttp__loop_t *io = loop->tcp->io;
    if (patience_ms != UVHTTP_NEVER) uvhttp__timer_set_after(&io->wheel, &call->deadline, io->now_ns, patience_ms);
    uvhttp__list_push_back(&loop->calls, &call->link);
    loop->has_calls = true;
    exchange->call = call;
    uvhttp__response_redefer(res); /* until the end of the iteration nothing may respond */
}

void uvhttp__call_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const uvhttp_route_t *route = user;
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    (void)req;
    if (!exchange->incoming || route->options.live_body) {
        call_handler(exchange);
        return;
    }
    int status = uvhttp__spool_start(exchange, call_handler);
    if (status == UVHTTP_OK) return;
    uvhttp__counters_error(&exchange->loop->tcp->counters, status);
    uvhttp__response_fail_by(res, status, uvhttp_error_http_status(status), NULL);
}

/* Submits the calls of the iteration. From here on they belong to the threads, except those that are refused. */
void uvhttp__calls_submit(uvhttp__http_loop_t *loop) {
    uvhttp__list_t jobs;
    uvhttp__list_init(&jobs);
    loop->has_calls = false;
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&loop->calls));) {
        uvhttp__call_t *call = UVHTTP__CONTAINER_OF(node, uvhttp__call_t, link);
        uvhttp__response_undefer(&call->exchange->response);
        call->exchange->response.sink = &worker_sink;
        uvhttp__list_init(&call->job.link);
        uvhttp__list_push_back(&jobs, &call->job.link);
    }
    while (!uvhttp__list_empty(&jobs)) {
        int status = uvhttp__work_submit_all(loop->service->work, &loop->port, &jobs);
        if (status == UVHTTP_OK) return;
        uvhttp__list_t *first = uvhttp__list_pop_front(&jobs);
        assert(first); /* what is refused stays in the list */
        uvhttp__job_t *job = UVHTTP__CONTAINER_OF(first, uvhttp__job_t, link);
        refuse(UVHTTP__CONTAINER_OF(job, uvhttp__call_t, job)->exchange, status);
        on_returned(job, false);
    }
}

/* Loops that drain wait for their jobs. */
static void on_port_idle(uvhttp__work_port_t *port) {
    uvhttp__tcp_loop_check_done(UVHTTP__CONTAINER_OF(port, uvhttp__http_loop_t, port)->tcp);
}

void uvhttp__calls_open(uvhttp__http_loop_t *loop) {
    uvhttp__list_init(&loop->calls);
    uvhttp__work_port_open(&loop->port, loop->service->work, loop->tcp->io);
    loop->port.on_idle = on_port_idle;
    uvhttp__work_port_assign(loop->tcp->io, &loop->port);
    if (loop->tcp->index == 0) uvhttp__work_start(loop->service->work);
}
