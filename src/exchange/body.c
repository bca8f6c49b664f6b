/* Owns: the body of a request on its way to the application: collected before the handler runs, or handed to it as it
 * comes; and the client's and the application's time for it. */
#include <string.h>

#include "exchange/exchange_internal.h"

static const uvhttp_server_config_t *config_of(const uvhttp__exchange_t *exchange) {
    return &exchange->worker->service->config;
}

static uint64_t now_ms(const uvhttp__exchange_t *exchange) {
    return exchange->worker->worker->loop->now_ms;
}

static uvhttp__counters_t *counters_of(const uvhttp__exchange_t *exchange) {
    return &exchange->worker->worker->counters;
}

static bool is_open(const uvhttp__exchange_t *exchange) {
    return uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BODY_OPEN);
}

size_t uvhttp__exchange_piece_max(const uvhttp__exchange_t *exchange) {
    if (!exchange->incoming) return SIZE_MAX;
    uint32_t piece_max = exchange->incoming->piece_max;
    return piece_max > 0 ? piece_max : config_of(exchange)->read_buffer_size;
}

/* --- time --- */

/* What the client has to send. */
static uvhttp__rate_limits_t rate_limits(const uvhttp__exchange_t *exchange) {
    const uvhttp_server_config_t *config = config_of(exchange);
    const uvhttp__route_t *route = exchange->way.route;
    uint32_t timeout = route ? route->options.body_timeout : 0;
    if (timeout == 0) timeout = config->body_timeout;
    if (timeout == UINT32_MAX) timeout = 0; /* a route's: no limit */
    return (uvhttp__rate_limits_t){config->min_receive_rate, config->rate_grace, timeout};
}

/* The client's time for its body starts, under the limits of the route. */
static void start_rate(uvhttp__exchange_t *exchange) {
    const uvhttp__rate_limits_t limits = rate_limits(exchange);
    uvhttp__rate_start(&exchange->body_rate, &limits, (uint32_t)exchange->body_seen, now_ms(exchange));
}

void uvhttp__exchange_watch(uvhttp__exchange_t *exchange) {
    uint64_t at = UINT64_MAX;
    if (exchange->receiving && uvhttp__exchange_takes(exchange)) at = now_ms(exchange) + UVHTTP__RATE_INTERVAL_MS;
    if (exchange->answer_by_ms > 0 && exchange->answer_by_ms < at) at = exchange->answer_by_ms;
    exchange->protocol->set_deadline(exchange, at);
}

/* Returns false if the request was given up. */
static bool check_rate(uvhttp__exchange_t *exchange) {
    if (!uvhttp__exchange_takes(exchange)) return true;
    const uvhttp__rate_limits_t limits = rate_limits(exchange);
    uvhttp__rate_verdict_t verdict =
        uvhttp__rate_look(&exchange->body_rate, &limits, (uint32_t)exchange->body_seen, now_ms(exchange));
    if (verdict == UVHTTP__RATE_FINE) return true;
    if (verdict == UVHTTP__RATE_STALLED)
        uvhttp__counters_add(counters_of(exchange), timeouts_body, 1);
    else
        uvhttp__counters_add(counters_of(exchange), slow_read, 1);
    uvhttp__exchange_refuse(exchange, UVHTTP_E_HTTP_TIMEOUT);
    return false;
}

void uvhttp__exchange_timer(uvhttp__exchange_t *exchange) {
    if (exchange->receiving && !check_rate(exchange)) return;
    if (exchange->answer_by_ms > 0 && now_ms(exchange) >= exchange->answer_by_ms)
        uvhttp__exchange_refuse(exchange, UVHTTP_E_ANSWER_TIMEOUT);
    else
        uvhttp__exchange_watch(exchange);
}

void uvhttp__exchange_await(uvhttp__exchange_t *exchange) {
    if (exchange->worker->deferred_in_turn < UINT16_MAX) exchange->worker->deferred_in_turn++;
    uint32_t timeout = exchange->way.route ? exchange->way.route->options.answer_timeout_ms : 0;
    bool begun = uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BEGUN);
    if (timeout > 0 && exchange->answer_by_ms == 0 && !begun) exchange->answer_by_ms = now_ms(exchange) + timeout;
    uvhttp__exchange_watch(exchange);
}

/* The client shall send. */
static void let_come(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!is_open(exchange)) return;
    uvhttp__rate_excuse(&exchange->body_rate, now_ms(exchange) - incoming->paused_at_ms);
    incoming->paused_at_ms = now_ms(exchange);
    exchange->answer_by_ms = 0;
    uvhttp__exchange_watch(exchange);
    exchange->protocol->want_body(exchange);
}

/* --- handed over --- */

bool uvhttp__response_is_complete(const uvhttp_response_t *res) {
    return uvhttp__response_is(res, UVHTTP__RESPONSE_ENDED) ||
           (uvhttp__response_is(res, UVHTTP__RESPONSE_ANSWERED) && !uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN));
}

/* The application has spoken: its answer leaves, or more is waited for. final: the end of the body was told, and it has
 * not deferred its answer. */
static void settle(uvhttp__exchange_t *exchange, bool final) {
    if (exchange->call) { /* a worker thread will answer */
        if (final) uvhttp__exchange_await(exchange);
        return;
    }
    if (!final && !uvhttp__response_is_complete(&exchange->response)) return;
    uvhttp__exchange_conclude(exchange);
}

/* Calls into the application; nothing of the exchange may be used afterwards unless it is pinned. */
static void tell_data(uvhttp__exchange_t *exchange, uvhttp_str_t piece) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    uvhttp_deferred_t *deferred = exchange->deferred;
    if (deferred) uvhttp__deferred_enter(deferred);
    incoming->on_data(&exchange->request, &exchange->response, piece, incoming->user);
    if (deferred)
        uvhttp__deferred_leave(deferred);
    else
        settle(exchange, false);
}

static void tell_whole(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    uvhttp_deferred_t *deferred = exchange->deferred;
    incoming->end_told = true;
    if (deferred) uvhttp__deferred_enter(deferred);
    uvhttp__exchange_pin(exchange);
    incoming->on_end(&exchange->request, &exchange->response, UVHTTP_OK, incoming->user);
    if (deferred)
        uvhttp__deferred_leave(deferred);
    else
        settle(exchange, true);
    if (uvhttp__exchange_unpin(exchange) && deferred) uvhttp__exchange_await(exchange);
}

void uvhttp__body_fail(uvhttp__exchange_t *exchange, int status) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!incoming || !incoming->on_end || incoming->end_told) return;
    incoming->end_told = true;
    incoming->on_end(&exchange->request, &exchange->response, status, incoming->user);
}

void uvhttp__body_handler_returned(uvhttp__exchange_t *exchange) {
    const uvhttp__incoming_t *incoming = exchange->incoming;
    exchange->incoming->handler_runs = false;
    uvhttp__exchange_pin(exchange);
    settle(exchange, !incoming->on_end);
    if (!uvhttp__exchange_unpin(exchange) || !incoming->on_end || !exchange->protocol->is_open(exchange)) return;
    if (!is_open(exchange))
        tell_whole(exchange);
    else if (incoming->paused)
        uvhttp__exchange_await(exchange);
    else
        let_come(exchange);
}

static void pass_on(uvhttp__exchange_t *exchange, uvhttp_str_t piece) {
    if (!exchange->receiving) exchange->response.flags &= (uint16_t)~UVHTTP__RESPONSE_BODY_OPEN;
    uvhttp__exchange_pin(exchange);
    if (piece.size > 0) tell_data(exchange, piece);
    if (uvhttp__exchange_unpin(exchange) && !is_open(exchange)) tell_whole(exchange);
}

/* --- collected --- */

static int collect(uvhttp__exchange_t *exchange, uvhttp_str_t piece) {
    if (!exchange->body_whole) return uvhttp__exchange_body_append(exchange, piece.data, piece.size);
    exchange->request.body = piece;
    return UVHTTP_OK;
}

/* Behind the body, if that was collected; not before its lines are whole. */
static void show_trailer(uvhttp__exchange_t *exchange) {
    uvhttp_request_t *req = &exchange->request;
    size_t before = req->body.size;
    if (exchange->body && exchange->body_size > before)
        req->trailer = (uvhttp_str_t){exchange->body + before, exchange->body_size - before};
}

/* --- as it comes --- */

void uvhttp__exchange_data(uvhttp__exchange_t *exchange, const char *data, size_t size, bool last) {
    if (size > exchange->body_max - exchange->body_seen) {
        uvhttp__exchange_refuse(exchange, UVHTTP_E_HTTP_BODY_TOO_LARGE);
        return;
    }
    exchange->body_seen += size;
    exchange->receiving = !last;
    uvhttp_str_t piece = {data, size};
    int status = size > 0 && !exchange->incoming ? collect(exchange, piece) : UVHTTP_OK;
    if (last) show_trailer(exchange);
    if (status != UVHTTP_OK)
        uvhttp__exchange_refuse(exchange, status);
    else if (exchange->incoming)
        pass_on(exchange, piece);
    else if (last)
        uvhttp__exchange_run_routed(exchange);
}

/* --- the begin --- */

static uvhttp__incoming_t *incoming_new(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = uvhttp__arena_alloc(&exchange->arena, sizeof *incoming);
    if (!incoming) return NULL;
    *incoming = (uvhttp__incoming_t){.handler_runs = true, .paused_at_ms = now_ms(exchange)};
    exchange->incoming = incoming;
    return incoming;
}

/* Until it is asked for, whoever answers leaves the body behind. */
static void leave_open(uvhttp__exchange_t *exchange) {
    exchange->response.flags |= UVHTTP__RESPONSE_BODY_OPEN;
}

/* The handler runs now. */
static void start_stream(uvhttp__exchange_t *exchange) {
    int status = exchange->request.head.content_length > exchange->body_max               ? UVHTTP_E_HTTP_BODY_TOO_LARGE
                 : uvhttp__exchange_own(exchange) != UVHTTP_OK || !incoming_new(exchange) ? UVHTTP_E_NOMEM
                                                                                          : UVHTTP_OK;
    if (status != UVHTTP_OK) {
        uvhttp__exchange_refuse(exchange, status);
        return;
    }
    leave_open(exchange);
    uvhttp__exchange_run_routed(exchange);
}

/* The handler runs when the body is there. What comes whole, now, is used where it is. */
static void start_collecting(uvhttp__exchange_t *exchange, bool whole) {
    int status = exchange->request.head.content_length > exchange->body_max ? UVHTTP_E_HTTP_BODY_TOO_LARGE
                 : whole                                                    ? UVHTTP_OK
                                                                            : uvhttp__exchange_own(exchange);
    exchange->body_whole = whole;
    if (status != UVHTTP_OK) {
        uvhttp__exchange_refuse(exchange, status);
        return;
    }
    if (whole) return;
    start_rate(exchange);
    uvhttp__exchange_watch(exchange);
    exchange->protocol->want_body(exchange);
}

/* Runs the middleware that needs no body. Returns whether the body is wanted now. */
static bool admit(uvhttp__exchange_t *exchange) {
    if (!uvhttp__exchange_run_head(exchange)) return false;
    exchange->response.flags &= (uint16_t)~UVHTTP__RESPONSE_BODY_OPEN;
    exchange->body_waits = false;
    return true;
}

void uvhttp__body_go_on(uvhttp__exchange_t *exchange) {
    if (admit(exchange)) start_collecting(exchange, false);
}

/* CONNECT, which is not served, whatever follows. */
static void refuse_tunnel(uvhttp__exchange_t *exchange) {
    exchange->way = (uvhttp__way_t){.chain = NULL};
    start_rate(exchange);
    leave_open(exchange);
    uvhttp__exchange_run(exchange);
}

void uvhttp__exchange_run_with_body(uvhttp__exchange_t *exchange, bool whole) {
    const uvhttp_server_config_t *config = config_of(exchange);
    exchange->receiving = true;
    exchange->body_seen = 0;
    if (exchange->request.head.form == UVHTTP__FORM_AUTHORITY) {
        refuse_tunnel(exchange);
        return;
    }
    const uvhttp_route_options_t *options = uvhttp__exchange_route(exchange);
    start_rate(exchange);
    bool streamed = options && options->stream_body;
    exchange->body_max = options && options->body_size_max > 0 ? options->body_size_max
                         : streamed                            ? UINT64_MAX
                                                               : config->body_size_max;
    if (streamed) {
        start_stream(exchange);
    } else if (exchange->way.route && exchange->way.chain->head_count == 0) {
        start_collecting(exchange, whole);
    } else {
        leave_open(exchange);
        if (admit(exchange)) start_collecting(exchange, whole);
    }
}

/* --- what a handler calls --- */

static uvhttp__exchange_t *exchange_of_request(uvhttp_request_t *req) {
    return UVHTTP__CONTAINER_OF(req, uvhttp__exchange_t, request);
}

/* There is no body, and the handler, in which we still are, has asked for it. */
static void tell_empty(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    uvhttp_response_t *res = &exchange->response;
    bool deferred = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    incoming->handler_runs = false;
    if (!incoming->on_end || (!deferred && uvhttp__response_is_complete(res))) return;
    incoming->end_told = true;
    uvhttp__response_undefer(res);
    incoming->on_end(&exchange->request, res, UVHTTP_OK, incoming->user);
    if (deferred && !uvhttp__response_is_complete(res)) uvhttp__response_redefer(res);
}

void uvhttp__body_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp__exchange_t *exchange = exchange_of_request(req);
    const uvhttp__route_t *route = user;
    bool has_body = exchange->incoming != NULL;
    if (!has_body && !incoming_new(exchange)) {
        uvhttp__response_fail(res, 503, "Service Unavailable\n");
        return;
    }
    route->inner(req, res, route->inner_user);
    if (!has_body) tell_empty(exchange);
}

int uvhttp__body_take(uvhttp__exchange_t *exchange, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end,
                      void *user) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!incoming || !incoming->handler_runs || incoming->on_end) return UVHTTP_E_STATE;
    incoming->on_data = on_data;
    incoming->on_end = on_end;
    incoming->user = user;
    return UVHTTP_OK;
}

/* What comes for a handler on a worker thread is that thread's, as request and response are: nobody else is told. */
int uvhttp_request_on_body(uvhttp_request_t *req, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end, void *user) {
    if (!req || !on_data || !on_end) return UVHTTP_E_INVALID;
    uvhttp__exchange_t *exchange = exchange_of_request(req);
    if (!uvhttp__exchange_is_here(exchange)) return UVHTTP_E_STATE;
    if (exchange->incoming && exchange->way.route->handler == uvhttp__call_serve) return UVHTTP_E_STATE;
    return uvhttp__body_take(exchange, on_data, on_end, user);
}

int uvhttp_request_pause_body(uvhttp_request_t *req) {
    uvhttp__exchange_t *exchange = exchange_of_request(req);
    if (!uvhttp__exchange_is_here(exchange)) return UVHTTP_E_STATE;
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!incoming || !incoming->on_end) return UVHTTP_E_STATE;
    if (!exchange->protocol) return UVHTTP_E_ABORTED;
    if (incoming->paused || !is_open(exchange)) return UVHTTP_OK;
    incoming->paused = true;
    if (incoming->handler_runs) return UVHTTP_OK;
    incoming->paused_at_ms = now_ms(exchange);
    uvhttp__exchange_await(exchange);
    return UVHTTP_OK;
}

int uvhttp_request_resume_body(uvhttp_request_t *req) {
    uvhttp__exchange_t *exchange = exchange_of_request(req);
    if (!uvhttp__exchange_is_here(exchange)) return UVHTTP_E_STATE;
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!incoming || !incoming->on_end) return UVHTTP_E_STATE;
    if (!exchange->protocol) return UVHTTP_E_ABORTED;
    if (!incoming->paused) return UVHTTP_OK;
    incoming->paused = false;
    if (!incoming->handler_runs) let_come(exchange);
    return UVHTTP_OK;
}
