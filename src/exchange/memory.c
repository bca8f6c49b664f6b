/* Owns: the memory of an exchange: what it borrows from its loop and when it has copies of its own, its body, its pool,
 * and its release. */
#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "exchange/exchange.h"
#include "exchange/measure.h"
#include "exchange/origin.h"
#include "obs/probe.h"

/* Enough for the open requests of one loop between iterations; more are returned to the allocator. */
#define POOL_MAX 32

/* Of a body that is collected, and more for the trailer behind it. */
#define CAPACITY_FIRST 4096

/* Most addresses of clients, as text, take less. */
#define ORIGIN_TEXT_SIZE 48

/* --- release --- */

/* Nobody but the loop has the request any more. */
static NOINLINE void forget_aside(uvhttp__exchange_t *exchange) {
    uvhttp__arena_deinit(exchange->request.arena);
    exchange->request.arena = &exchange->arena;
}

static NOINLINE void give_back_body(uvhttp__exchange_t *exchange) {
    uvhttp__free(exchange->intake->data);
    exchange->intake = NULL;
}

/* What is not in the arena. */
static inline void give_back(uvhttp__exchange_t *exchange) {
    if (UNLIKELY(exchange->intake != NULL)) give_back_body(exchange);
    if (UNLIKELY(exchange->request.arena != &exchange->arena)) forget_aside(exchange);
}

static void free_memory(uvhttp__exchange_t *exchange) {
    uvhttp__arena_deinit(&exchange->arena);
    uvhttp__free((char *)exchange - exchange->offset);
}

void uvhttp__exchange_free(uvhttp__exchange_t *exchange) {
    uvhttp__exchange_ended(exchange);
    give_back(exchange);
    free_memory(exchange);
}

static inline void put_into_pool(uvhttp__exchange_t *exchange) {
    uvhttp__exchange_pool_t *pool = exchange->pool;
    exchange->next_free = pool->free;
    pool->free = exchange;
    pool->free_count++;
    uvhttp__exchange_poison(pool, exchange);
}

static inline void recycle(uvhttp__exchange_t *exchange) {
    if (UNLIKELY(exchange->pool->free_count >= POOL_MAX)) {
        uvhttp__exchange_free(exchange);
        return;
    }
    give_back(exchange);
    uvhttp__arena_reset(&exchange->arena);
    put_into_pool(exchange);
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
        uvhttp__exchange_unpoison(pool, exchange);
        next = exchange->next_free;
        free_memory(exchange);
    }
    pool->free = NULL;
}

/* --- the end of an exchange --- */

static NOINLINE void measure_alone(uvhttp__exchange_t *exchange) {
    uvhttp__http_loop_t *loop = exchange->loop;
    if (loop->service->config.performance.enable_statistics)
        uvhttp__histogram_record(&loop->response_time, uvhttp__clock_ns() - exchange->start_ns);
}

static inline void measure(uvhttp__exchange_t *exchange) {
    uvhttp__http_loop_t *loop = exchange->loop;
    uvhttp__counters_response(&loop->tcp->counters, exchange->response.status);
    if (LIKELY(exchange->start_iteration == loop->tcp->io->iteration_number))
        loop->responses_in_iteration++;
    else
        measure_alone(exchange);
}

void uvhttp__exchange_count_whole(uvhttp__exchange_t *exchange) {
    UVHTTP__PROBE(response, exchange, exchange->response.status, exchange->response.sent_size, exchange->start_ns);
    if (exchange->loop->metrics) uvhttp__exchange_measure(exchange);
    measure(exchange);
}

static NOINLINE void finish_any(uvhttp__exchange_t *exchange) {
    measure(exchange);
    uvhttp__response_done(&exchange->response, UVHTTP_OK);
    uvhttp__exchange_release(exchange);
}

/* Whether nothing must be notified or released before the next request uses the memory. */
static inline bool is_plain(const uvhttp__exchange_t *exchange) {
    const uvhttp_response_t *res = &exchange->response;
    return !res->done_hooks && res->body.kind < UVHTTP__BODY_REF && exchange->borrowers == 0 && !exchange->intake &&
           exchange->request.arena == &exchange->arena && !exchange->arena.blocks &&
           exchange->start_iteration == exchange->loop->tcp->io->iteration_number &&
           exchange->pool->free_count < POOL_MAX;
}

static inline void finish_plain(uvhttp__exchange_t *exchange) {
    uvhttp__http_loop_t *loop = exchange->loop;
    uvhttp__counters_response(&loop->tcp->counters, exchange->response.status);
    loop->responses_in_iteration++;
    exchange->protocol = NULL;
    uvhttp__arena_rewind(&exchange->arena);
    put_into_pool(exchange);
}

/* Apart, so that without metrics no register is saved. */
static NOINLINE void finish_measured(uvhttp__exchange_t *exchange) {
    uvhttp__exchange_measure(exchange);
    if (is_plain(exchange))
        finish_plain(exchange);
    else
        finish_any(exchange);
}

UVHTTP__HOT void uvhttp__exchange_finished(uvhttp__exchange_t *exchange) {
    UVHTTP__PROBE(response, exchange, exchange->response.status, exchange->response.sent_size, exchange->start_ns);
    if (UNLIKELY(exchange->loop->metrics != NULL))
        finish_measured(exchange);
    else if (LIKELY(is_plain(exchange)))
        finish_plain(exchange);
    else
        finish_any(exchange);
}

/* --- what it owns --- */

static size_t own_size(const uvhttp__exchange_t *exchange) {
    const uvhttp__head_t *head = &exchange->request.head;
    return exchange->borrowed ? head->header_count * sizeof(uvhttp__field_t) + head->size : 0;
}

void uvhttp__exchange_reserve(uvhttp__exchange_t *exchange, size_t more) {
    size_t head = (own_size(exchange) + 7) & ~(size_t)7; /* what follows is aligned to 8 */
    uvhttp__arena_reserve(&exchange->arena, head + more);
}

int uvhttp__exchange_own(uvhttp__exchange_t *exchange) {
    if (!exchange->borrowed) return UVHTTP_OK;
    uvhttp_request_t *req = &exchange->request;
    uvhttp_str_t body = req->body;
    bool is_view = body.size > 0 && !(exchange->intake && exchange->intake->data);
    if (is_view && uvhttp__exchange_body_append(exchange, body.data, body.size) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    /* The head is bounded by the limits, not by what an application may allocate. */
    size_t fields_size = req->head.header_count * sizeof(uvhttp__field_t);
    uvhttp__field_t *fields =
        uvhttp__arena_alloc_uncounted(&exchange->arena, own_size(exchange), _Alignof(uvhttp__field_t));
    if (!fields) return UVHTTP_E_NOMEM;
    char *copy = (char *)fields + fields_size;
    memcpy(fields, req->head.headers, fields_size);
    memcpy(copy, req->base, req->head.size);
    uvhttp__request_rebase(req, copy, fields);
    exchange->borrowed = false;
    return UVHTTP_OK;
}

void uvhttp__exchange_forget_head(uvhttp__exchange_t *exchange) {
    uvhttp_request_t *req = &exchange->request;
    req->head = (uvhttp__head_t){
        .headers = uvhttp__exchange_fields(exchange), .method = req->head.method, .version = req->head.version};
    req->base = "";
    req->body = (uvhttp_str_t){NULL, 0};
    exchange->borrowed = false;
}

int uvhttp__exchange_leave(uvhttp__exchange_t *exchange) {
    if (exchange->may_leave) return UVHTTP_OK;
    uvhttp__exchange_share_origin(exchange);
    size_t origin_size = exchange->request.origin ? 0 : sizeof(uvhttp__origin_t) + ORIGIN_TEXT_SIZE;
    uvhttp__exchange_reserve(exchange, sizeof(uvhttp__arena_t) + origin_size);
    int status = uvhttp__exchange_own(exchange);
    if (status == UVHTTP_OK) status = uvhttp__request_own_params(&exchange->request);
    if (status == UVHTTP_OK) status = uvhttp__request_learn(&exchange->request, UVHTTP__ORIGIN_ALL);
    exchange->may_leave = status == UVHTTP_OK;
    return status;
}

int uvhttp__exchange_set_aside(uvhttp__exchange_t *exchange) {
    uvhttp__arena_t *arena = &exchange->arena;
    if (exchange->request.arena != arena) return UVHTTP_OK; /* it was deferred before */
    uvhttp__arena_t *aside = uvhttp__arena_alloc_uncounted(arena, sizeof *aside, _Alignof(uvhttp__arena_t));
    if (!aside) return UVHTTP_E_NOMEM;
    uvhttp__arena_init(aside, NULL, 0, arena->size_max - arena->used);
    exchange->request.arena = aside;
    return UVHTTP_OK;
}

int uvhttp__exchange_receive(uvhttp__exchange_t *exchange) {
    if (exchange->intake) return UVHTTP_OK;
    uvhttp__intake_t *intake =
        uvhttp__arena_alloc_uncounted(&exchange->arena, sizeof *intake, _Alignof(uvhttp__intake_t));
    if (!intake) return UVHTTP_E_NOMEM;
    *intake = (uvhttp__intake_t){0};
    exchange->intake = intake;
    return UVHTTP_OK;
}

/* Doubles with what has come, so that an announcement costs nothing, up to the whole body. Behind that is a trailer. */
static size_t intake_capacity(const uvhttp__exchange_t *exchange, size_t need) {
    const uvhttp__head_t *head = &exchange->request.head;
    const uvhttp__intake_t *intake = exchange->intake;
    uint64_t whole = head->has_content_length ? head->content_length : intake->max;
    if (need > whole) return need + CAPACITY_FIRST;
    size_t capacity = intake->capacity ? intake->capacity * 2 : CAPACITY_FIRST;
    if (capacity < need) capacity = need;
    return capacity < whole ? capacity : (size_t)whole;
}

static int append(uvhttp__exchange_t *exchange, const char *data, size_t size) {
    if (uvhttp__exchange_receive(exchange) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    uvhttp__intake_t *intake = exchange->intake;
    if (size == 0) return UVHTTP_OK; /* there may be no memory yet */
    if (intake->size + size > intake->capacity) {
        size_t capacity = intake_capacity(exchange, intake->size + size);
        char *body = uvhttp__realloc(intake->data, capacity);
        if (!body) return UVHTTP_E_NOMEM;
        intake->data = body;
        intake->capacity = capacity;
    }
    assert(intake->data);
    memcpy(intake->data + intake->size, data, size);
    intake->size += size;
    return UVHTTP_OK;
}

int uvhttp__exchange_body_append(uvhttp__exchange_t *exchange, const char *data, size_t size) {
    if (append(exchange, data, size) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    exchange->request.body = (uvhttp_str_t){exchange->intake->data, exchange->intake->size};
    return UVHTTP_OK;
}

int uvhttp__exchange_trailer(uvhttp__exchange_t *exchange, const char *data, size_t size) {
    if (append(exchange, data, size) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    uvhttp_request_t *req = &exchange->request;
    if (req->body.size > 0) req->body.data = exchange->intake->data;
    return UVHTTP_OK;
}
