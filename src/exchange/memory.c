/* Owns: the memory of an exchange: what it borrows from its loop and when it has copies of its own, its body, its pool,
 * and its release. */
#include <string.h>

#include "base/alloc.h"
#include "base/hot.h"
#include "exchange/exchange.h"

/* Enough for the requests that one loop has in the air at once between turns; more go back to the allocator. */
#define POOL_MAX 32

/* --- release --- */

/* Nobody but the loop has the request any more. */
static NOINLINE void forget_aside(uvhttp__exchange_t *exchange) {
    uvhttp__arena_deinit(&exchange->aside);
    exchange->request.arena = &exchange->arena;
}

void uvhttp__exchange_free(uvhttp__exchange_t *exchange) {
    uvhttp__exchange_ended(exchange);
    if (exchange->request.arena == &exchange->aside) forget_aside(exchange);
    uvhttp__arena_deinit(&exchange->arena);
    uvhttp__free(exchange->body);
    uvhttp__free(exchange->memory);
}

static NOINLINE void give_back_body(uvhttp__exchange_t *exchange) {
    uvhttp__free(exchange->body);
    exchange->body = NULL;
}

static inline void recycle(uvhttp__exchange_t *exchange) {
    uvhttp__exchange_pool_t *pool = exchange->pool;
    if (UNLIKELY(pool->free_count >= POOL_MAX)) {
        uvhttp__exchange_free(exchange);
        return;
    }
    if (UNLIKELY(exchange->body != NULL)) give_back_body(exchange);
    if (UNLIKELY(exchange->request.arena == &exchange->aside)) forget_aside(exchange);
    uvhttp__arena_reset(&exchange->arena);
    exchange->next_free = pool->free;
    pool->free = exchange;
    pool->free_count++;
}

UVHTTP__HOT void uvhttp__exchange_release(uvhttp__exchange_t *exchange) {
    exchange->protocol = NULL;
    if (exchange->borrowers > 0)
        exchange->released = true;
    else
        recycle(exchange);
}

bool uvhttp__exchange_unpin(uvhttp__exchange_t *exchange) {
    bool attached = exchange->protocol && !exchange->responded;
    exchange->borrowers--;
    if (exchange->released && exchange->borrowers == 0) {
        exchange->released = false;
        recycle(exchange);
    }
    return attached;
}

void uvhttp__exchange_pool_free(uvhttp__exchange_pool_t *pool) {
    uvhttp__exchange_t *next;
    for (uvhttp__exchange_t *exchange = pool->free; exchange; exchange = next) {
        next = exchange->next_free;
        uvhttp__exchange_free(exchange);
    }
    pool->free = NULL;
}

/* --- the end of an exchange --- */

static NOINLINE void measure_alone(uvhttp__exchange_t *exchange) {
    uvhttp__http_worker_t *worker = exchange->worker;
    if (worker->service->config.performance.enable_statistics)
        uvhttp__histogram_record(&worker->response_time, uvhttp__clock_ns() - exchange->start_ns);
}

static inline void measure(uvhttp__exchange_t *exchange) {
    uvhttp__http_worker_t *worker = exchange->worker;
    uvhttp__counters_response(&worker->worker->counters, exchange->response.status);
    if (LIKELY(exchange->start_turn == worker->worker->loop->turn_number))
        worker->answered_in_turn++;
    else
        measure_alone(exchange);
}

UVHTTP__HOT void uvhttp__exchange_finished(uvhttp__exchange_t *exchange) {
    measure(exchange);
    uvhttp__response_done(&exchange->response, UVHTTP_OK);
    uvhttp__exchange_release(exchange);
}

/* --- what it owns --- */

int uvhttp__exchange_own(uvhttp__exchange_t *exchange) {
    if (!exchange->borrowed) return UVHTTP_OK;
    uvhttp_request_t *req = &exchange->request;
    uvhttp_str_t body = req->body;
    if (body.size > 0 && !exchange->body && uvhttp__exchange_body_append(exchange, body.data, body.size) != UVHTTP_OK)
        return UVHTTP_E_NOMEM;
    /* The head is bounded by the limits, not by what an application may allocate. */
    size_t fields_size = req->head.header_count * sizeof(uvhttp__field_t);
    uvhttp__field_t *fields =
        uvhttp__arena_alloc_uncounted(&exchange->arena, fields_size + req->head.size, _Alignof(uvhttp__field_t));
    if (!fields) return UVHTTP_E_NOMEM;
    char *copy = (char *)fields + fields_size;
    memcpy(fields, req->head.headers, fields_size);
    memcpy(copy, exchange->borrowed, req->head.size);
    uvhttp__request_rebase(req, copy, fields);
    exchange->borrowed = NULL;
    return UVHTTP_OK;
}

void uvhttp__exchange_forget_head(uvhttp__exchange_t *exchange) {
    uvhttp_request_t *req = &exchange->request;
    req->head = (uvhttp__head_t){
        .headers = uvhttp__exchange_fields(exchange), .method = req->head.method, .version = req->head.version};
    req->base = "";
    req->body = (uvhttp_str_t){NULL, 0};
    exchange->borrowed = NULL;
}

int uvhttp__exchange_leave(uvhttp__exchange_t *exchange) {
    if (exchange->may_leave) return UVHTTP_OK;
    int status = uvhttp__exchange_own(exchange);
    if (status == UVHTTP_OK) status = uvhttp__request_own_params(&exchange->request);
    if (status == UVHTTP_OK) status = uvhttp__request_learn(&exchange->request, UVHTTP__ORIGIN_ALL);
    exchange->may_leave = status == UVHTTP_OK;
    return status;
}

void uvhttp__exchange_set_aside(uvhttp__exchange_t *exchange) {
    const uvhttp__arena_t *arena = &exchange->arena;
    if (exchange->request.arena == &exchange->aside) return; /* it was deferred before */
    uvhttp__arena_init(&exchange->aside, NULL, 0, arena->size_max - arena->used);
    exchange->request.arena = &exchange->aside;
}

static int append(uvhttp__exchange_t *exchange, const char *data, size_t size) {
    if (exchange->body_size + size > exchange->body_capacity) {
        /* Grown by what has come, not by what was announced, so that an announcement costs nothing. */
        size_t capacity = exchange->body_capacity ? exchange->body_capacity * 2 : 4096;
        if (capacity < exchange->body_size + size) capacity = exchange->body_size + size;
        char *body = uvhttp__realloc(exchange->body, capacity);
        if (!body) return UVHTTP_E_NOMEM;
        exchange->body = body;
        exchange->body_capacity = capacity;
    }
    memcpy(exchange->body + exchange->body_size, data, size);
    exchange->body_size += size;
    return UVHTTP_OK;
}

int uvhttp__exchange_body_append(uvhttp__exchange_t *exchange, const char *data, size_t size) {
    if (append(exchange, data, size) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    exchange->request.body = (uvhttp_str_t){exchange->body, exchange->body_size};
    return UVHTTP_OK;
}

int uvhttp__exchange_trailer(uvhttp__exchange_t *exchange, const char *data, size_t size) {
    if (append(exchange, data, size) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    uvhttp_request_t *req = &exchange->request;
    if (req->body.size > 0) req->body.data = exchange->body;
    return UVHTTP_OK;
}
