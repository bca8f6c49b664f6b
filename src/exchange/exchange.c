/* Owns: an exchange as its protocol sees it: created for a request, and notified of capacity, time and the end of the
 * server; and the sink of its response, by which a streamed response leaves. */
#include "exchange/exchange.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "exchange/coroutine.h"
#include "exchange/deadline.h"
#include "exchange/deferred.h"
#include "exchange/origin.h"
#include "exchange/respond.h"
#include "exchange/worker.h"

/* --- streamed responses --- */

static int sink_begin(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->protocol) return UVHTTP_E_ABORTED;
    uvhttp__response_finish(res);
    uvhttp__response_commit(res);
    exchange->response_by_ms = 0;
    res->sent_size = 0;
    exchange->begun = true;
    int status = uvhttp__exchange_open_outgoing(exchange);
    if (status == UVHTTP_OK)
        status = exchange->protocol->begin(exchange, res->coder ? UVHTTP_SIZE_UNKNOWN : res->body.stream_size);
    if (status == UVHTTP_E_NOMEM) exchange->protocol->reset(exchange, status); /* nothing can follow a lost head */
    return status;
}

static int sink_capacity(uvhttp_response_t *res, size_t size) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    const uvhttp__protocol_t *protocol = exchange->protocol;
    if (!protocol || !protocol->is_open(exchange)) return UVHTTP_E_ABORTED;
    if (!uvhttp__exchange_wants_body(exchange)) return UVHTTP_OK;
    uint64_t queued = uvhttp__exchange_queued(exchange);
    if (queued + size <= exchange->loop->service->config.write_queue_max) return UVHTTP_OK;
    if (queued == 0) return UVHTTP_E_LIMIT;
    protocol->notify_writable(exchange); /* on_drain follows */
    if (!exchange->coroutine) return UVHTTP_E_LIMIT;
    int status = uvhttp__coroutine_wait_capacity(exchange);
    return status == UVHTTP_OK ? sink_capacity(res, size) : status;
}

/* The protocol may consume the bytes where they are; what it leaves is copied. */
static int sink_push(uvhttp_response_t *res, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!uvhttp__exchange_wants_body(exchange)) return UVHTTP_OK;
    if (!exchange->outgoing) return UVHTTP_E_ABORTED; /* there was no memory for it */
    uvhttp__outgoing_lend(exchange->outgoing, data, size);
    int status = exchange->protocol->body_ready(exchange);
    int kept = uvhttp__outgoing_take_back(exchange->outgoing, status == UVHTTP_OK);
    if (status == UVHTTP_OK) status = kept;
    if (status != UVHTTP_OK) res->flags |= UVHTTP__RESPONSE_MISSIZED; /* without it nothing may look complete */
    return status;
}

static int sink_write(uvhttp_response_t *res, const char *data, size_t size) {
    int status = sink_capacity(res, size);
    return status == UVHTTP_OK ? sink_push(res, data, size) : status;
}

static int sink_end(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->protocol || !exchange->outgoing) return UVHTTP_E_ABORTED;
    uvhttp__outgoing_end(exchange->outgoing);
    exchange->outgoing->whole = !uvhttp__response_is(res, UVHTTP__RESPONSE_MISSIZED);
    return exchange->protocol->body_ready(exchange);
}

static void sink_cut_off(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (exchange->protocol) exchange->protocol->reset(exchange, UVHTTP_E_NOMEM);
}

static int sink_interim(uvhttp_response_t *res, int status, uvhttp_str_t fields) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!exchange->protocol || !exchange->protocol->is_open(exchange)) return UVHTTP_E_ABORTED;
    return exchange->protocol->interim(exchange, status, fields);
}

static uvhttp_deferred_t *sink_defer(uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (exchange->deferred) return NULL; /* a callback of its handle has the response */
    bool may_leave = exchange->protocol && !exchange->coroutine && uvhttp__exchange_leave(exchange) == UVHTTP_OK &&
                     uvhttp__exchange_set_aside(exchange) == UVHTTP_OK;
    uvhttp_deferred_t *deferred = may_leave ? uvhttp__deferred_new(exchange) : NULL;
    if (!deferred) uvhttp__response_unavailable(res, UVHTTP_E_LIMIT);
    return deferred;
}

static const uvhttp__response_sink_t sink = {.begin = sink_begin,
                                             .write = sink_write,
                                             .capacity = sink_capacity,
                                             .push = sink_push,
                                             .interim = sink_interim,
                                             .end = sink_end,
                                             .cut_off = sink_cut_off,
                                             .defer = sink_defer};

/* --- a new one --- */

static uvhttp__exchange_t *allocate(uvhttp__http_loop_t *loop, uvhttp__exchange_pool_t *pool) {
    const uvhttp__service_t *service = loop->service;
    uint16_t offset = pool->protocol->offset, arena_size = pool->protocol->arena_size;
    size_t end = offset + sizeof(uvhttp__exchange_t), first = (end + 15) & ~(size_t)15;
    char *memory = uvhttp__malloc(arena_size > 0 ? first + arena_size : end);
    if (!memory) return NULL;
    uvhttp__exchange_t *exchange = (uvhttp__exchange_t *)(void *)(memory + offset);
    uvhttp__arena_init(&exchange->arena, arena_size > 0 ? memory + first : NULL, arena_size,
                       service->config.request_memory_max > SIZE_MAX ? SIZE_MAX
                                                                     : (size_t)service->config.request_memory_max);
    uvhttp__request_init(&exchange->request, &exchange->arena, &uvhttp__exchange_request_ops);
    uvhttp__response_init(&exchange->response, &exchange->request, &exchange->arena, &sink);
    exchange->offset = offset;
    exchange->loop = loop;
    exchange->pool = pool;
    atomic_init(&exchange->home, uvhttp__thread_number());
    return exchange;
}

/* In two pieces: of one, the compiler makes an instruction that takes long to start. */
static inline void clear(uvhttp__exchange_t *exchange) {
    enum { SIZE = offsetof(uvhttp__exchange_t, offset) - offsetof(uvhttp__exchange_t, deferred), PIECE = 48 };
    char *from = (char *)&exchange->deferred;
    memset(from, 0, PIECE);
    memset(from + PIECE, 0, SIZE - PIECE);
    uvhttp__request_reset(&exchange->request);
    uvhttp__response_reset(&exchange->response);
}

static ALWAYS_INLINE uvhttp__exchange_t *begin(uvhttp__exchange_t *exchange, const uvhttp__http_loop_t *loop,
                                               const uvhttp__exchange_pool_t *pool) {
    const uvhttp__loop_t *io = loop->tcp->io;
    clear(exchange);
    exchange->protocol = pool->protocol;
    exchange->start_ns = io->now_ns;
    exchange->start_iteration = io->iteration_number;
    exchange->request.head.headers = loop->fields;
    return exchange;
}

static NOINLINE uvhttp__exchange_t *make(uvhttp__http_loop_t *loop, uvhttp__exchange_pool_t *pool) {
    uvhttp__exchange_t *exchange = allocate(loop, pool);
    return exchange ? begin(exchange, loop, pool) : NULL;
}

UVHTTP__HOT uvhttp__exchange_t *uvhttp__exchange_new(uvhttp__http_loop_t *loop, uvhttp__exchange_pool_t *pool) {
    uvhttp__exchange_t *exchange = pool->free;
    if (UNLIKELY(!exchange)) return make(loop, pool);
    uvhttp__exchange_unpoison(pool, exchange);
    pool->free = exchange->next_free;
    pool->free_count--;
    return begin(exchange, loop, pool);
}

/* --- what its protocol says --- */

void uvhttp__exchange_timer(uvhttp__exchange_t *exchange) {
    if (uvhttp__exchange_client_is_late(exchange))
        uvhttp__exchange_refuse(exchange, UVHTTP_E_HTTP_TIMEOUT);
    else if (exchange->response_by_ms > 0 && uvhttp__exchange_now_ms(exchange) >= exchange->response_by_ms)
        uvhttp__exchange_refuse(exchange, UVHTTP_E_RESPONSE_TIMEOUT);
    else
        uvhttp__exchange_arm_deadline(exchange);
}

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
    return exchange->loop->service->config.half_close ||
           (!exchange->call && uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BRIEFLY));
}

bool uvhttp_response_stopping(const uvhttp_response_t *res) {
    const uvhttp__exchange_t *exchange = UVHTTP__CONTAINER_OF(res, uvhttp__exchange_t, response);
    return atomic_load_explicit(&exchange->loop->tcp->tcp_server->stopping, memory_order_relaxed);
}
