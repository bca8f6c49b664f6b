/* Owns: the body of a request on its way in: collected before the handler runs, or handed to it as it comes. */
#include <string.h>

#include "server/server_internal.h"

/* Up to here what is left of a body that nobody wants is thrown away for the sake of the connection. */
#define DISCARD_MAX 65536

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

static const uvhttp_server_config_t *config_of(const uvhttp__exchange_t *exchange) {
    return &exchange->worker->server->config;
}

static uint64_t now_ms(const uvhttp__exchange_t *exchange) {
    return exchange->worker->worker->loop->now_ms;
}

void uvhttp__body_send_continue(uvhttp__exchange_t *exchange) {
    exchange->owes_continue = false;
    uvhttp__counters_add(&exchange->worker->worker->counters, responses_1xx, 1);
    (void)uvhttp__stream_send_turn(&exchange->session->conn.stream, continue_line, sizeof continue_line - 1);
}

/* One step of the chunked coding: status as of the decoder, and what it has found. */
static int decode(uvhttp__exchange_t *exchange, const char *data, size_t size, size_t *consumed, uvhttp_str_t *piece) {
    uvhttp__http1_chunked_t *chunked = &exchange->chunked_in;
    uint32_t trailer_before = chunked->trailer_size;
    int status = uvhttp__http1_chunked_decode(chunked, data, size, consumed, piece);
    if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) return status;
    if (piece->size > exchange->body_max - exchange->body_seen) return UVHTTP_E_HTTP_BODY_TOO_LARGE;
    exchange->body_seen += piece->size;
    if (chunked->trailer_size == 0) return status;
    uvhttp_str_t trailer = uvhttp__http1_chunked_trailer(chunked, trailer_before, data, *consumed);
    if (trailer.size > 0 && uvhttp__exchange_trailer_append(exchange, trailer.data, trailer.size) != UVHTTP_OK)
        return UVHTTP_E_NOMEM;
    uvhttp_request_t *req = &exchange->request;
    if (status == UVHTTP_OK) /* not before its lines are whole */
        req->trailer = (uvhttp_str_t){exchange->body + req->body.size, exchange->body_size - req->body.size};
    return status;
}

/* --- collected --- */

/* The request is whole. */
static void run(uvhttp__session_t *session) {
    session->state = UVHTTP__SESSION_ANSWER;
    uvhttp__exchange_run_routed(session->exchange);
}

static size_t collect_sized(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = session->exchange;
    size_t take = size < exchange->body_left ? size : (size_t)exchange->body_left;
    if (uvhttp__exchange_body_append(exchange, data, take) != UVHTTP_OK) {
        uvhttp__session_refuse(session, UVHTTP_E_NOMEM);
        return size;
    }
    exchange->body_left -= take;
    exchange->body_seen += take;
    session->more = size > take || session->full;
    if (exchange->body_left == 0) run(session);
    return take;
}

static size_t collect_chunked(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = session->exchange;
    size_t used = 0;
    int status = UVHTTP_E_AGAIN;
    while (status == UVHTTP_E_AGAIN && used < size) {
        size_t consumed;
        uvhttp_str_t piece;
        status = decode(exchange, data + used, size - used, &consumed, &piece);
        used += consumed;
        if ((status == UVHTTP_OK || status == UVHTTP_E_AGAIN) && piece.size > 0 &&
            uvhttp__exchange_body_append(exchange, piece.data, piece.size) != UVHTTP_OK)
            status = UVHTTP_E_NOMEM;
    }
    if (status == UVHTTP_E_AGAIN) return used;
    if (status == UVHTTP_OK) {
        session->more = size > used || session->full;
        run(session);
        return used;
    }
    uvhttp__session_refuse(session, status);
    return size;
}

/* --- handed over --- */

static bool is_open(const uvhttp__exchange_t *exchange) {
    return uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BODY_OPEN);
}

bool uvhttp__body_held_back(const uvhttp__exchange_t *exchange) {
    const uvhttp__incoming_t *incoming = exchange->incoming;
    return incoming ? !incoming->on_end || incoming->paused : exchange->body_waits;
}

int64_t uvhttp__body_rest(const uvhttp__exchange_t *exchange) {
    bool unbounded = exchange->request.head.chunked || exchange->body_left > DISCARD_MAX;
    return unbounded || exchange->owes_continue ? -1 : (int64_t)exchange->body_left;
}

void uvhttp__exchange_await(uvhttp__exchange_t *exchange) {
    if (exchange->worker->deferred_in_turn < UINT16_MAX) exchange->worker->deferred_in_turn++;
    uint32_t timeout = exchange->way.route ? exchange->way.route->options.answer_timeout_ms : 0;
    bool begun = uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BEGUN);
    if (timeout > 0 && exchange->answer_by_ms == 0 && !begun) exchange->answer_by_ms = now_ms(exchange) + timeout;
    uvhttp__session_watch(exchange->session);
}

/* The client shall send. */
static void let_come(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!is_open(exchange)) return;
    uvhttp__rate_excuse(&exchange->body_rate, now_ms(exchange) - incoming->paused_at_ms);
    incoming->paused_at_ms = now_ms(exchange);
    exchange->answer_by_ms = 0;
    if (exchange->owes_continue) uvhttp__body_send_continue(exchange);
    uvhttp__session_watch(exchange->session);
    uvhttp__stream_resume(&exchange->session->conn.stream);
}

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

/* Calls into the application; nothing of the exchange may be used afterwards unless it is still the session's. */
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
    uvhttp__session_t *session = exchange->session;
    session->state = UVHTTP__SESSION_ANSWER;
    incoming->end_told = true;
    if (deferred) uvhttp__deferred_enter(deferred);
    incoming->on_end(&exchange->request, &exchange->response, UVHTTP_OK, incoming->user);
    if (!deferred) {
        settle(exchange, true);
        return;
    }
    uvhttp__deferred_leave(deferred);
    if (session->exchange == exchange) uvhttp__exchange_await(exchange);
}

void uvhttp__body_fail(uvhttp__exchange_t *exchange, int status) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!incoming || !incoming->on_end || incoming->end_told) return;
    incoming->end_told = true;
    incoming->on_end(&exchange->request, &exchange->response, status, incoming->user);
}

void uvhttp__body_handler_returned(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    uvhttp__session_t *session = exchange->session;
    incoming->handler_runs = false;
    settle(exchange, !incoming->on_end);
    if (session->exchange != exchange || !incoming->on_end || (session->conn.flags & UVHTTP__CONN_CLOSED)) return;
    if (!is_open(exchange))
        tell_whole(exchange);
    else if (incoming->paused)
        uvhttp__exchange_await(exchange);
    else
        let_come(exchange);
}

static size_t stream_sized(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = session->exchange;
    size_t take = size < exchange->body_left ? size : (size_t)exchange->body_left;
    exchange->body_left -= take;
    exchange->body_seen += take;
    session->more = size > take || session->full;
    if (exchange->body_left == 0) exchange->response.flags &= (uint16_t)~UVHTTP__RESPONSE_BODY_OPEN;
    tell_data(exchange, (uvhttp_str_t){data, take});
    if (session->exchange == exchange && !is_open(exchange)) tell_whole(exchange);
    return take;
}

static size_t stream_chunked(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = session->exchange;
    size_t consumed;
    uvhttp_str_t piece;
    int status = decode(exchange, data, size, &consumed, &piece);
    if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) {
        uvhttp__session_refuse(session, status);
        return size;
    }
    session->more = size > consumed || session->full;
    if (piece.size > 0) tell_data(exchange, piece);
    if (status == UVHTTP_OK) {
        exchange->response.flags &= (uint16_t)~UVHTTP__RESPONSE_BODY_OPEN;
        tell_whole(exchange);
    }
    return consumed;
}

static size_t stream(uvhttp__session_t *session, const char *data, size_t size) {
    if (uvhttp__body_held_back(session->exchange)) return 0;
    size_t piece_max = session->exchange->incoming->piece_max;
    if (piece_max == 0) piece_max = config_of(session->exchange)->read_buffer_size;
    if (size > piece_max) size = piece_max;
    return session->exchange->request.head.chunked ? stream_chunked(session, data, size)
                                                   : stream_sized(session, data, size);
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
static void leave_open(uvhttp__session_t *session, size_t size) {
    session->exchange->response.flags |= UVHTTP__RESPONSE_BODY_OPEN;
    session->more = size > 0 || session->full;
    session->state = UVHTTP__SESSION_BODY;
}

/* The handler runs now. */
static size_t start_stream(uvhttp__session_t *session, size_t size) {
    uvhttp__exchange_t *exchange = session->exchange;
    int status = exchange->request.head.content_length > exchange->body_max               ? UVHTTP_E_HTTP_BODY_TOO_LARGE
                 : uvhttp__exchange_own(exchange) != UVHTTP_OK || !incoming_new(exchange) ? UVHTTP_E_NOMEM
                                                                                          : UVHTTP_OK;
    if (status != UVHTTP_OK) {
        uvhttp__session_refuse(session, status);
        return size;
    }
    leave_open(session, size);
    uvhttp__exchange_run_routed(exchange);
    return 0;
}

/* The client's time for its body starts, under the limits of the route. */
static void start_rate(uvhttp__session_t *session) {
    uvhttp__exchange_t *exchange = session->exchange;
    const uvhttp__rate_limits_t limits = uvhttp__session_body_limits(session);
    uvhttp__rate_start(&exchange->body_rate, &limits, (uint32_t)exchange->body_seen, now_ms(exchange));
}

/* What is there is kept, the rest is asked for. */
static size_t start_collecting(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = session->exchange;
    if (uvhttp__exchange_own(exchange) != UVHTTP_OK) {
        uvhttp__session_refuse(session, UVHTTP_E_NOMEM);
        return size;
    }
    session->state = UVHTTP__SESSION_BODY;
    start_rate(session);
    if (exchange->owes_continue) uvhttp__body_send_continue(exchange);
    uvhttp__session_watch(session);
    return size > 0 ? uvhttp__body_read(session, data, size) : 0;
}

/* Runs the middleware that needs no body. Returns whether the body is wanted now. */
static bool admit(uvhttp__exchange_t *exchange) {
    if (!uvhttp__exchange_run_head(exchange)) return false;
    exchange->response.flags &= (uint16_t)~UVHTTP__RESPONSE_BODY_OPEN;
    exchange->body_waits = false;
    return true;
}

/* The bytes that have come with the head are used where they are if they are all. */
static size_t start_whole(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = session->exchange;
    const uvhttp__head_t *head = &exchange->request.head;
    if (head->content_length > exchange->body_max) {
        uvhttp__session_refuse(session, UVHTTP_E_HTTP_BODY_TOO_LARGE);
        return size;
    }
    if (head->chunked || head->content_length > size) return start_collecting(session, data, size);
    size_t length = (size_t)head->content_length;
    exchange->request.body = (uvhttp_str_t){data, length};
    session->more = size > length || session->full;
    run(session);
    return length;
}

void uvhttp__body_go_on(uvhttp__exchange_t *exchange) {
    uvhttp__session_t *session = exchange->session;
    if (!admit(exchange)) return;
    (void)start_whole(session, NULL, 0);
    if (session->exchange == exchange) uvhttp__stream_resume(&session->conn.stream);
}

/* CONNECT, which is not served, whatever follows. */
static size_t start_tunnel(uvhttp__session_t *session, size_t size) {
    session->exchange->way = (uvhttp__way_t){.chain = NULL};
    start_rate(session);
    leave_open(session, size);
    uvhttp__exchange_run(session->exchange);
    return 0;
}

size_t uvhttp__body_start(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__exchange_t *exchange = session->exchange;
    const uvhttp_server_config_t *config = config_of(exchange);
    const uvhttp__head_t *head = &exchange->request.head;
    exchange->owes_continue = head->expect_continue && size == 0;
    exchange->body_left = head->content_length;
    exchange->body_seen = 0;
    if (head->form == UVHTTP__FORM_AUTHORITY) return start_tunnel(session, size);
    const uvhttp_route_options_t *options = uvhttp__exchange_route(exchange);
    start_rate(session);
    bool streamed = options && options->stream_body;
    exchange->body_max = options && options->body_size_max > 0 ? options->body_size_max
                         : streamed                            ? UINT64_MAX
                                                               : config->body_size_max;
    if (head->chunked)
        uvhttp__http1_chunked_init(&exchange->chunked_in, config->chunk_extension_max, config->trailer_size_max);
    if (streamed) return start_stream(session, size);
    if (exchange->way.route && exchange->way.chain->head_count == 0) return start_whole(session, data, size);
    leave_open(session, size);
    return admit(exchange) ? start_whole(session, data, size) : 0;
}

size_t uvhttp__body_read(uvhttp__session_t *session, const char *data, size_t size) {
    if (session->exchange->body_waits) return 0;
    if (session->exchange->incoming) return stream(session, data, size);
    return session->exchange->request.head.chunked ? collect_chunked(session, data, size)
                                                   : collect_sized(session, data, size);
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
    if (!exchange->session) return UVHTTP_E_ABORTED;
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
    if (!exchange->session) return UVHTTP_E_ABORTED;
    if (!incoming->paused) return UVHTTP_OK;
    incoming->paused = false;
    if (!incoming->handler_runs) let_come(exchange);
    return UVHTTP_OK;
}
