/* Owns: exchanges: their memory, their pool, the way from a parsed head through the routes to an answer. */
#include <string.h>

#include "base/alloc.h"
#include "base/hot.h"
#include "exchange/exchange_internal.h"

/* Enough for the requests that one loop has in the air at once between turns; more go back to the allocator. */
#define POOL_MAX 32

static const uvhttp__exchange_t *exchange_of_request(const uvhttp_request_t *req) {
    return (const uvhttp__exchange_t *)(const void *)((const char *)req - offsetof(uvhttp__exchange_t, request));
}

/* --- what a request shows of its connection; learnt while there is one, see uvhttp__origin_t --- */

/* NULL: the client has gone. */
static uvhttp__conn_t *connection_of(const uvhttp__exchange_t *exchange) {
    const uvhttp__protocol_t *protocol = uvhttp__exchange_protocol(exchange);
    return protocol ? protocol->connection(exchange) : NULL;
}

static void write_peer(const uvhttp_request_t *req, char text[UVHTTP__PEER_TEXT_MAX]) {
    uvhttp__conn_t *conn = connection_of(exchange_of_request(req));
    if (conn) (void)uvhttp__conn_peer(conn, text);
}

static void read_client(uvhttp_request_t *req, uvhttp__client_t *client) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    uvhttp__conn_t *conn = connection_of(exchange);
    const uvhttp__trust_t *trust = &exchange->worker->service->trust;
    if (!conn) return;
    client->address = uvhttp__conn_client(conn);
    client->https = uvhttp_tcp_is_tls(conn);
    if (trust->header == UVHTTP__PROXY_HEADER_NONE || !uvhttp__ip_ranges_have(trust->ranges, &client->address)) return;
    if (!uvhttp__forwarded_resolve(req, trust, client))
        uvhttp__counters_add(&exchange->worker->worker->counters, forwarded_ignored, 1);
}

static bool read_tls(const uvhttp_request_t *req, const char **subject) {
    uvhttp__conn_t *conn = connection_of(exchange_of_request(req));
    if (!conn || !uvhttp_tcp_is_tls(conn)) return false;
    *subject = uvhttp_tcp_client_subject(conn);
    return true;
}

/* --- what any thread may ask for, also when the loop is gone: nothing of it is read unless the caller runs on it ---
 */

static uvhttp__counters_t *counters_of(const uvhttp_request_t *req) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    return uvhttp__exchange_is_here(exchange) ? &exchange->worker->worker->counters : NULL;
}

static uint64_t read_time_ns(const uvhttp_request_t *req) {
    const uvhttp__exchange_t *exchange = exchange_of_request(req);
    return uvhttp__exchange_is_here(exchange) ? exchange->worker->worker->loop->now_ns : uvhttp__clock_ns();
}

static void read_times(const uvhttp_request_t *req, uint64_t *begin_ns, uint64_t *now_ns) {
    *begin_ns = exchange_of_request(req)->start_ns;
    *now_ns = uvhttp__clock_ns();
}

static const uvhttp__request_ops_t request_ops = {.peer = write_peer,
                                                  .client = read_client,
                                                  .tls = read_tls,
                                                  .counters = counters_of,
                                                  .time_ns = read_time_ns,
                                                  .times = read_times};

/* --- memory --- */

static uvhttp__exchange_t *allocate(uvhttp__http_worker_t *worker, uvhttp__exchange_pool_t *pool) {
    const uvhttp__service_t *service = worker->service;
    size_t fields_size = service->config.header_count_max * sizeof(uvhttp__field_t);
    char *memory = uvhttp__malloc(pool->protocol->offset + sizeof(uvhttp__exchange_t) + fields_size);
    if (!memory) return NULL;
    uvhttp__exchange_t *exchange = (uvhttp__exchange_t *)(void *)(memory + pool->protocol->offset);
    uvhttp__arena_init(&exchange->arena, exchange->first, sizeof exchange->first,
                       service->config.request_memory_max > SIZE_MAX ? SIZE_MAX
                                                                     : (size_t)service->config.request_memory_max);
    uvhttp__request_init(&exchange->request, &exchange->arena, &request_ops);
    uvhttp__response_init(&exchange->response, &exchange->request, &exchange->arena, &uvhttp__exchange_sink);
    exchange->memory = memory;
    exchange->worker = worker;
    exchange->pool = pool;
    atomic_init(&exchange->home, uvhttp__thread_number());
    exchange->request.head.headers = uvhttp__exchange_fields(exchange);
    return exchange;
}

UVHTTP__HOT uvhttp__exchange_t *uvhttp__exchange_new(uvhttp__http_worker_t *worker, uvhttp__exchange_pool_t *pool) {
    const uvhttp__loop_t *loop = worker->worker->loop;
    uvhttp__exchange_t *exchange = pool->free;
    if (exchange) {
        pool->free = exchange->next_free;
        pool->free_count--;
    } else {
        exchange = allocate(worker, pool);
        if (!exchange) return NULL;
    }
    memset(&exchange->deferred, 0, offsetof(uvhttp__exchange_t, start_turn) - offsetof(uvhttp__exchange_t, deferred));
    exchange->protocol = pool->protocol;
    exchange->start_ns = loop->now_ns;
    exchange->start_turn = loop->turn_number;
    uvhttp__request_reset(&exchange->request);
    uvhttp__response_reset(&exchange->response);
    return exchange;
}

/* Nobody but the loop has the request any more. */
static void forget_aside(uvhttp__exchange_t *exchange) {
    uvhttp__arena_deinit(&exchange->aside);
    exchange->request.arena = &exchange->arena;
}

void uvhttp__exchange_free(uvhttp__exchange_t *exchange) {
    if (exchange->request.arena == &exchange->aside) forget_aside(exchange);
    uvhttp__arena_deinit(&exchange->arena);
    uvhttp__free(exchange->body);
    uvhttp__free(exchange->memory);
}

static void recycle(uvhttp__exchange_t *exchange) {
    uvhttp__exchange_pool_t *pool = exchange->pool;
    if (pool->free_count >= POOL_MAX) {
        uvhttp__exchange_free(exchange);
        return;
    }
    uvhttp__free(exchange->body);
    exchange->body = NULL;
    if (__builtin_expect(exchange->request.arena == &exchange->aside, 0)) forget_aside(exchange);
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
    bool attached = exchange->protocol != NULL;
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

int uvhttp__exchange_own(uvhttp__exchange_t *exchange) {
    if (!exchange->borrowed) return UVHTTP_OK;
    uvhttp_str_t body = exchange->request.body;
    if (body.size > 0 && !exchange->body && uvhttp__exchange_body_append(exchange, body.data, body.size) != UVHTTP_OK)
        return UVHTTP_E_NOMEM;
    /* The head is bounded by the limits, not by what an application may allocate. */
    char *copy = uvhttp__arena_alloc_uncounted(&exchange->arena, exchange->request.head.size);
    if (!copy) return UVHTTP_E_NOMEM;
    memcpy(copy, exchange->borrowed, exchange->request.head.size);
    uvhttp__request_rebase(&exchange->request, copy, uvhttp__exchange_fields(exchange));
    exchange->borrowed = NULL;
    return UVHTTP_OK;
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

/* --- from the head to the answer --- */

/* 405 and OPTIONS name what there is (RFC 9110 sections 15.5.6 and 9.3.7). */
static void answer_unrouted(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    const uvhttp__unrouted_t *unrouted = &exchange->unrouted;
    if (unrouted->status != UVHTTP_OK) {
        uvhttp__counters_error(&exchange->worker->worker->counters, unrouted->status);
        uvhttp__response_fail_by(res, unrouted->status, uvhttp_error_http_status(unrouted->status), "Bad Request\n");
        return;
    }
    if (unrouted->outcome == UVHTTP__MATCH_NOT_FOUND) {
        uvhttp__response_fail(res, 404, "Not Found\n");
        return;
    }
    if (unrouted->outcome == UVHTTP__MATCH_METHOD_NOT_ALLOWED && exchange->request.head.method == UVHTTP_METHOD_OTHER)
        uvhttp__response_fail(res, 501, "Not Implemented\n"); /* a method that nobody knows (RFC 9110 section 9.1) */
    else if (unrouted->outcome == UVHTTP__MATCH_METHOD_NOT_ALLOWED)
        uvhttp__response_fail(res, 405, "Method Not Allowed\n");
    else
        (void)uvhttp_response_empty(res, 204);
    char text[UVHTTP__ALLOW_TEXT_MAX];
    size_t size = uvhttp__allow_text(unrouted->allow, text);
    (void)uvhttp__response_put_header(res, (uvhttp_str_t){"Allow", 5}, (uvhttp_str_t){text, size}, true);
}

static bool answered(const uvhttp_response_t *res) {
    return uvhttp__response_is(res, UVHTTP__RESPONSE_ANSWERED | UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_DEFERRED);
}

static inline void route(uvhttp__exchange_t *exchange) {
    uvhttp__match_t match;
    int status = uvhttp__router_route(exchange->worker->service->router, &exchange->request, &match);
    exchange->way = (uvhttp__way_t){match.chain, match.route, 0};
    if (!match.route) exchange->unrouted = (uvhttp__unrouted_t){status, match.outcome, match.allow};
}

static uvhttp_flow_t way_go_timed(uvhttp__exchange_t *exchange) {
    uint64_t begin_ns = uvhttp__clock_ns();
    uvhttp_flow_t flow = uvhttp__way_go(&exchange->way, &exchange->request, &exchange->response);
    uvhttp__watch_handler(exchange->worker, exchange->way.route, uvhttp__clock_ns() - begin_ns);
    return flow;
}

/* The rest of the chain, the handler, and what is said if there is none. */
static inline void go(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    uvhttp__http_worker_t *worker = exchange->worker;
    worker->last_route = exchange->way.route;
    if ((__builtin_expect(worker->timed, false)
             ? way_go_timed(exchange)
             : uvhttp__way_go(&exchange->way, &exchange->request, res)) == UVHTTP_STOP)
        exchange->may_go_on = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    else if (!exchange->way.route && !answered(res))
        answer_unrouted(exchange);
}

UVHTTP__HOT void uvhttp__exchange_conclude(uvhttp__exchange_t *exchange) {
    if (!answered(&exchange->response)) {
        uvhttp__counters_add(&exchange->worker->worker->counters, handler_no_answer, 1);
        uvhttp__response_fail_by(&exchange->response, UVHTTP_E_NO_RESPONSE, 500, "Internal Server Error\n");
    }
    uvhttp__exchange_returned(exchange);
}

UVHTTP__HOT void uvhttp__exchange_run(uvhttp__exchange_t *exchange) {
    if (exchange->request.head.form == UVHTTP__FORM_AUTHORITY) {
        /* A tunnel is not ours to open (RFC 9110 section 9.3.6). */
        exchange->way = (uvhttp__way_t){.chain = NULL};
        uvhttp__response_fail(&exchange->response, 501, "Not Implemented\n");
    } else {
        route(exchange);
        go(exchange);
    }
    uvhttp__exchange_conclude(exchange);
}

const uvhttp_route_options_t *uvhttp__exchange_route(uvhttp__exchange_t *exchange) {
    route(exchange);
    return exchange->way.route ? &exchange->way.route->options : NULL;
}

/* What needs the body of a request that no route matches is left out: the body would be read for nothing. */
bool uvhttp__exchange_run_head(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    uvhttp__way_t *way = &exchange->way;
    exchange->worker->last_route = way->route;
    uvhttp_flow_t flow = uvhttp__way_run_middleware(way, way->chain->head_count, &exchange->request, res);
    if (flow == UVHTTP_NEXT && way->route) return true;
    if (flow == UVHTTP_STOP)
        exchange->may_go_on = exchange->body_waits = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    else if (!answered(res))
        answer_unrouted(exchange);
    uvhttp__exchange_conclude(exchange);
    return false;
}

void uvhttp__exchange_run_routed(uvhttp__exchange_t *exchange) {
    go(exchange);
    if (exchange->incoming)
        uvhttp__body_handler_returned(exchange);
    else
        uvhttp__exchange_conclude(exchange);
}

void uvhttp__exchange_go_on(uvhttp__exchange_t *exchange, uvhttp_middleware_cb go_on, void *user) {
    uvhttp_response_t *res = &exchange->response;
    bool streamed = exchange->incoming != NULL; /* its body waits for the handler */
    if (exchange->may_go_on) {
        exchange->may_go_on = false;
        exchange->answer_by_ms = 0; /* the handler's time begins anew */
        if (streamed) exchange->incoming->handler_runs = true;
        uvhttp_flow_t flow = go_on(&exchange->request, res, user);
        if (flow == UVHTTP_NEXT && exchange->body_waits) {
            uvhttp__body_go_on(exchange);
            return;
        }
        if (flow == UVHTTP_NEXT)
            go(exchange);
        else
            exchange->may_go_on = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    }
    if (streamed)
        uvhttp__body_handler_returned(exchange);
    else
        uvhttp__exchange_conclude(exchange);
}
