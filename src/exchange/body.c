/* Owns: the body of a request on its way to the application: buffered before the handler runs, or streamed to it; and
 * what follows the application's return. */
#include "exchange/body.h"

#include <string.h>

#include "exchange/deadline.h"
#include "exchange/deferred.h"
#include "exchange/incoming.h"
#include "exchange/respond.h"
#include "exchange/run.h"
#include "obs/probe.h"

static const uvhttp_server_config_t *config_of(const uvhttp__exchange_t *exchange) {
    return &exchange->loop->service->config;
}

static bool is_open(const uvhttp__exchange_t *exchange) {
    return uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BODY_OPEN);
}

/* --- the application has returned --- */

/* The application has returned: its response is sent, or more bytes are awaited. final: the end of the body was
 * reported, and the response is not deferred. */
static void settle(uvhttp__exchange_t *exchange, bool final) {
    if (exchange->call) { /* a worker thread will respond */
        if (final) uvhttp__exchange_await(exchange);
        return;
    }
    if (!final && !uvhttp__response_is_complete(&exchange->response)) return;
    uvhttp__exchange_conclude(exchange);
}

/* Calls into the application; nothing of the exchange may be used afterwards unless it is pinned. */
static void notify_data(uvhttp__exchange_t *exchange, uvhttp_str_t piece) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    uvhttp_deferred_t *deferred = exchange->deferred;
    if (deferred) uvhttp__deferred_enter(deferred);
    incoming->on_data(&exchange->request, &exchange->response, piece, incoming->user);
    if (deferred)
        uvhttp__deferred_leave(deferred);
    else
        settle(exchange, false);
}

static void notify_complete(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    uvhttp_deferred_t *deferred = exchange->deferred;
    incoming->end_notified = true;
    if (deferred) uvhttp__deferred_enter(deferred);
    uvhttp__exchange_pin(exchange);
    incoming->on_end(&exchange->request, &exchange->response, UVHTTP_OK, incoming->user);
    if (deferred)
        uvhttp__deferred_leave(deferred);
    else
        settle(exchange, true);
    if (uvhttp__exchange_unpin(exchange) && deferred) uvhttp__exchange_await(exchange);
}

static void handler_returned(uvhttp__exchange_t *exchange) {
    const uvhttp__incoming_t *incoming = exchange->incoming;
    exchange->incoming->handler_runs = false;
    uvhttp__exchange_pin(exchange);
    settle(exchange, !incoming->on_end);
    if (!uvhttp__exchange_unpin(exchange) || !incoming->on_end || !exchange->protocol->is_open(exchange)) return;
    if (!is_open(exchange))
        notify_complete(exchange);
    else if (incoming->paused)
        uvhttp__exchange_await(exchange);
    else
        uvhttp__incoming_resume(exchange);
}

static void pass_on(uvhttp__exchange_t *exchange, uvhttp_str_t piece) {
    if (!exchange->receiving) exchange->response.flags &= (uint16_t)~UVHTTP__RESPONSE_BODY_OPEN;
    uvhttp__exchange_pin(exchange);
    if (piece.size > 0) notify_data(exchange, piece);
    if (uvhttp__exchange_unpin(exchange) && !is_open(exchange)) notify_complete(exchange);
}

/* --- collected --- */

static int collect(uvhttp__exchange_t *exchange, uvhttp_str_t piece) {
    if (!exchange->body_complete) return uvhttp__exchange_body_append(exchange, piece.data, piece.size);
    exchange->request.body = piece;
    return UVHTTP_OK;
}

/* Behind the body, if that was collected; not before its lines are whole. Returns 0 or UVHTTP_E_NOMEM. */
static int show_trailer(uvhttp__exchange_t *exchange) {
    uvhttp_request_t *req = &exchange->request;
    const uvhttp__intake_t *intake = exchange->intake;
    size_t before = req->body.size;
    if (!intake->data || intake->size <= before) return UVHTTP_OK;
    uvhttp__request_extras_t *extras = uvhttp__request_extras(req);
    if (!extras) return UVHTTP_E_NOMEM;
    extras->trailer = (uvhttp_str_t){intake->data + before, intake->size - before};
    return UVHTTP_OK;
}

/* The rest of the way of a request that was routed. */
static void run_routed(uvhttp__exchange_t *exchange) {
    uvhttp__exchange_go(exchange);
    if (exchange->incoming)
        handler_returned(exchange);
    else
        uvhttp__exchange_conclude(exchange);
}

/* --- streaming --- */

void uvhttp__exchange_data(uvhttp__exchange_t *exchange, const char *data, size_t size, bool last) {
    uvhttp__intake_t *intake = exchange->intake;
    if (size > intake->max - intake->seen) {
        uvhttp__exchange_refuse(exchange, UVHTTP_E_HTTP_BODY_TOO_LARGE);
        return;
    }
    intake->seen += size;
    exchange->receiving = !last;
    uvhttp_str_t piece = {data, size};
    int status = size > 0 && !exchange->incoming ? collect(exchange, piece) : UVHTTP_OK;
    if (last && status == UVHTTP_OK) status = show_trailer(exchange);
    if (status != UVHTTP_OK)
        uvhttp__exchange_refuse(exchange, status);
    else if (exchange->incoming)
        pass_on(exchange, piece);
    else if (last)
        run_routed(exchange);
}

/* --- its start --- */

/* Until it is asked for, a response leaves the body behind. */
static void leave_open(uvhttp__exchange_t *exchange) {
    exchange->response.flags |= UVHTTP__RESPONSE_BODY_OPEN;
}

/* The handler runs now. */
static void start_stream(uvhttp__exchange_t *exchange) {
    int status = exchange->request.head.content_length > exchange->intake->max ? UVHTTP_E_HTTP_BODY_TOO_LARGE
                 : uvhttp__exchange_own(exchange) != UVHTTP_OK || !uvhttp__incoming_new(exchange) ? UVHTTP_E_NOMEM
                                                                                                  : UVHTTP_OK;
    if (status != UVHTTP_OK) {
        uvhttp__exchange_refuse(exchange, status);
        return;
    }
    leave_open(exchange);
    run_routed(exchange);
}

/* The handler runs when the body is complete. A body that is complete now is used in place. */
static void start_collecting(uvhttp__exchange_t *exchange, bool whole) {
    int status = exchange->request.head.content_length > exchange->intake->max ? UVHTTP_E_HTTP_BODY_TOO_LARGE
                 : whole                                                       ? UVHTTP_OK
                                                                               : uvhttp__exchange_own(exchange);
    exchange->body_complete = whole;
    if (status != UVHTTP_OK) {
        uvhttp__exchange_refuse(exchange, status);
        return;
    }
    if (whole) return;
    uvhttp__exchange_start_rate(exchange);
    uvhttp__exchange_arm_deadline(exchange);
    exchange->protocol->want_body(exchange);
}

/* Runs the middleware that needs no body. Returns whether the body is wanted now. */
static bool admit(uvhttp__exchange_t *exchange) {
    if (!uvhttp__exchange_run_head(exchange)) return false;
    exchange->response.flags &= (uint16_t)~UVHTTP__RESPONSE_BODY_OPEN;
    exchange->body_waits = false;
    return true;
}

/* CONNECT, which is not served, whatever follows. */
static void refuse_tunnel(uvhttp__exchange_t *exchange) {
    exchange->cursor = (uvhttp__middleware_cursor_t){.chain = NULL};
    uvhttp__exchange_start_rate(exchange);
    leave_open(exchange);
    if (uvhttp__exchange_run(exchange)) exchange->protocol->respond(exchange);
}

void uvhttp__exchange_run_with_body(uvhttp__exchange_t *exchange, bool whole) {
    UVHTTP__PROBE(request, exchange, exchange->request.base, exchange->request.head.size);
    const uvhttp_server_config_t *config = config_of(exchange);
    if (uvhttp__exchange_receive(exchange) != UVHTTP_OK) {
        exchange->cursor = (uvhttp__middleware_cursor_t){.chain = NULL};
        leave_open(exchange);
        uvhttp__exchange_refuse(exchange, UVHTTP_E_NOMEM);
        return;
    }
    exchange->receiving = true;
    if (exchange->request.head.form == UVHTTP__FORM_AUTHORITY) {
        refuse_tunnel(exchange);
        return;
    }
    const uvhttp_route_options_t *options = uvhttp__exchange_route(exchange);
    uvhttp__exchange_start_rate(exchange);
    bool streamed = options && options->stream_body;
    exchange->intake->max = options && options->body_size_max > 0 ? options->body_size_max
                            : streamed                            ? UINT64_MAX
                                                                  : config->body_size_max;
    if (streamed) {
        start_stream(exchange);
    } else if (exchange->cursor.route && exchange->cursor.chain->head_count == 0) {
        start_collecting(exchange, whole);
    } else {
        leave_open(exchange);
        if (admit(exchange)) start_collecting(exchange, whole);
    }
}

/* --- a deferred middleware continues --- */

void uvhttp__exchange_resume(uvhttp__exchange_t *exchange, uvhttp_middleware_cb resume, void *user) {
    uvhttp_response_t *res = &exchange->response;
    bool streamed = exchange->incoming != NULL; /* its body waits for the handler */
    if (exchange->may_resume) {
        exchange->may_resume = false;
        exchange->response_by_ms = 0; /* the handler's time begins anew */
        if (streamed) exchange->incoming->handler_runs = true;
        uvhttp_flow_t flow = resume(&exchange->request, res, user);
        if (flow == UVHTTP_NEXT && exchange->body_waits) {
            if (admit(exchange)) start_collecting(exchange, false);
            return;
        }
        if (flow == UVHTTP_NEXT)
            uvhttp__exchange_go(exchange);
        else
            exchange->may_resume = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    }
    if (streamed)
        handler_returned(exchange);
    else
        uvhttp__exchange_conclude(exchange);
}

/* --- what a handler calls --- */

static uvhttp__exchange_t *exchange_of_request(uvhttp_request_t *req) {
    return UVHTTP__CONTAINER_OF(req, uvhttp__exchange_t, request);
}

/* There is no body, and the handler, in which we still are, has asked for it. */
static void notify_empty(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    uvhttp_response_t *res = &exchange->response;
    bool deferred = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    incoming->handler_runs = false;
    if (!incoming->on_end || (!deferred && uvhttp__response_is_complete(res))) return;
    incoming->end_notified = true;
    uvhttp__response_undefer(res);
    incoming->on_end(&exchange->request, res, UVHTTP_OK, incoming->user);
    if (deferred && !uvhttp__response_is_complete(res)) uvhttp__response_redefer(res);
}

void uvhttp__body_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp__exchange_t *exchange = exchange_of_request(req);
    const uvhttp_route_t *route = user;
    bool has_body = exchange->incoming != NULL;
    if (!has_body && !uvhttp__incoming_new(exchange)) {
        uvhttp__response_unavailable(res, UVHTTP_E_LIMIT);
        return;
    }
    route->inner(req, res, route->inner_user);
    if (!has_body) notify_empty(exchange);
}
