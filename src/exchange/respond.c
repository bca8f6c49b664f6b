/* Owns: the end of an exchange: its response leaves through the protocol, buffered or streamed, or there is no client
 * any more. */
#include "exchange/respond.h"

#include <stdio.h>
#include <string.h>

#include "base/hot_path.h"
#include "exchange/call.h"
#include "exchange/coroutine.h"
#include "exchange/deadline.h"
#include "exchange/deferred.h"
#include "exchange/incoming.h"
#include "exchange/measure.h"
#include "exchange/own_response.h"
#include "exchange/stall.h"
#include "obs/probe.h"

/* The protocol gets the whole response, and may take its time to send it: no handle has a say any more. */
static inline void close_response(uvhttp__exchange_t *exchange) {
    if (exchange->deferred) uvhttp__deferred_detach(exchange->deferred);
    exchange->responded = true;
}

/* Hooks, and the complete response leaves. */
UVHTTP__HOT static void send_response(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    if (__builtin_expect(uvhttp__response_is(res, UVHTTP__RESPONSE_BY_SERVER), 0))
        uvhttp__exchange_own_response(exchange);
    uvhttp__response_finish(res);
    uvhttp__response_commit(res);
    close_response(exchange);
    exchange->protocol->respond(exchange);
}

/* --- bodies that are pulled --- */

static void on_body_ready(uvhttp__outgoing_t *outgoing) {
    uvhttp__exchange_t *exchange = outgoing->exchange;
    (void)exchange->protocol->body_ready(exchange);
}

int uvhttp__exchange_open_outgoing(uvhttp__exchange_t *exchange) {
    uvhttp__outgoing_t *outgoing =
        uvhttp__arena_alloc_uncounted(&exchange->arena, sizeof *outgoing, _Alignof(uvhttp__outgoing_t));
    if (!outgoing) return UVHTTP_E_NOMEM;
    uvhttp__outgoing_init(outgoing, on_body_ready, exchange);
    exchange->outgoing = outgoing;
    return UVHTTP_OK;
}

static void unpin(void *arg) {
    (void)uvhttp__exchange_unpin(arg);
}

uvhttp__keeper_t uvhttp__exchange_keep_body(uvhttp__exchange_t *exchange) {
    const uvhttp__body_t *body = &exchange->response.body;
    if (body->kind == UVHTTP__BODY_REF) return (uvhttp__keeper_t){body->release, body->arg};
    if (body->kind != UVHTTP__BODY_MEMORY) return (uvhttp__keeper_t){NULL, NULL};
    uvhttp__exchange_pin(exchange);
    return (uvhttp__keeper_t){unpin, exchange};
}

int uvhttp__exchange_open_body(uvhttp__exchange_t *exchange) {
    uvhttp__body_t *body = &exchange->response.body;
    int status = uvhttp__exchange_open_outgoing(exchange);
    if (status != UVHTTP_OK) {
        uvhttp__body_release(body);
        return status;
    }
    exchange->outgoing->framing = exchange->protocol->framing;
    return uvhttp__outgoing_put_body(exchange->outgoing, body, uvhttp__exchange_keep_body(exchange),
                                     &exchange->loop->port);
}

/* --- what follows --- */

UVHTTP__HOT void uvhttp__exchange_returned(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED)) {
        uvhttp__exchange_await(exchange);
        return;
    }
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN)) {
        send_response(exchange);
        return;
    }
    /* It was cut off: abort follows, when the head is not lent any more. */
    if (!exchange->protocol->is_open(exchange)) {
        if (uvhttp__exchange_own(exchange) != UVHTTP_OK) uvhttp__exchange_forget_head(exchange);
        return;
    }
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_ENDED)) (void)uvhttp_response_end(res);
    close_response(exchange);
    exchange->protocol->finish(exchange);
}

UVHTTP__HOT void uvhttp__exchange_conclude(uvhttp__exchange_t *exchange) {
    if (UNLIKELY(!uvhttp__response_is_settled(&exchange->response))) uvhttp__exchange_no_response(exchange);
    uvhttp__exchange_returned(exchange);
}

void uvhttp__exchange_gone(uvhttp__exchange_t *exchange, int status) {
    uvhttp__response_abort(&exchange->response);
    uvhttp_deferred_t *deferred = exchange->deferred;
    /* Once it is aborted, the last release on any thread frees handle and exchange, which the hooks need. */
    if (deferred) uvhttp__deferred_keep(deferred);
    uvhttp__body_fail(exchange, status);
    bool kept = deferred && uvhttp__deferred_abort(deferred);
    if (exchange->coroutine)
        uvhttp__coroutine_abort(exchange);
    else
        uvhttp__response_done(&exchange->response, uvhttp__exchange_outcome(exchange));
    if (!kept) {
        uvhttp__exchange_ended(exchange);
        uvhttp__exchange_release(exchange);
    } else if (!exchange->coroutine) /* one that has not ended has it on the loop until then */
        atomic_store_explicit(&exchange->home, 0, memory_order_relaxed);
    if (deferred) uvhttp__deferred_let_go(deferred);
}

static void detach(uvhttp__exchange_t *exchange, int status) {
    exchange->protocol = NULL;
    if (exchange->outgoing) uvhttp__outgoing_release(exchange->outgoing);
    exchange->outgoing = NULL;
    if (exchange->call) uvhttp__body_fail(exchange, status); /* a thread may be waiting for it */
    if (!exchange->call || !uvhttp__call_leave(exchange)) uvhttp__exchange_gone(exchange, status);
}

/* Who writes a streamed response may run on when all of it is on the wire: the client that leaves then has got it. */
static bool is_delivered(const uvhttp__exchange_t *exchange) {
    const uvhttp_response_t *res = &exchange->response;
    const uvhttp__outgoing_t *outgoing = exchange->outgoing;
    if (!exchange->begun || exchange->failure != UVHTTP_OK || !outgoing || outgoing->size > 0) return false;
    return outgoing->failure == UVHTTP_OK && (outgoing->whole || res->sent_size == res->body.stream_size);
}

void uvhttp__exchange_abort(uvhttp__exchange_t *exchange, int status) {
    exchange->delivered = is_delivered(exchange);
    if (exchange->delivered) {
        uvhttp__exchange_count_whole(exchange);
        detach(exchange, status);
        return;
    }
    uvhttp__exchange_measure_abort(exchange, status);
    UVHTTP__PROBE(abort, exchange, status);
    if (!exchange->receiving || exchange->incoming) uvhttp__counters_add(&exchange->loop->tcp->counters, aborted, 1);
    detach(exchange, status);
}

/* --- refusing --- */

/* The response of `old` is another thread's: ends it with `code` and makes another one with the same request line in
 * its place. NULL if there is no memory. */
static uvhttp__exchange_t *replace(uvhttp__exchange_t *old, int code) {
    uvhttp__exchange_t *made = old->protocol->replace(old);
    if (!made) return NULL;
    /* It is measured in place of the abandoned one, whose hooks describe the request. */
    made->cursor = (uvhttp__middleware_cursor_t){.route = old->cursor.route, .next = UINT32_MAX};
    made->start_ns = old->start_ns;
    made->start_iteration = old->start_iteration;
    old->failure = (int16_t)code;
    detach(old, code);
    return made;
}

static void make_refusal(uvhttp_response_t *res, int code) {
    char text[128];
    int size = snprintf(text, sizeof text, "%s\n", uvhttp_error_message(code));
    int status = uvhttp_error_http_status(code);
    uvhttp__response_fail_by(res, code, status, NULL);
    if (uvhttp_response_send(res, status, "text/plain; charset=utf-8", text, (size_t)size) == UVHTTP_OK)
        uvhttp__response_by_server(res, code);
}

/* No second head may follow the first. */
static bool has_head(const uvhttp__exchange_t *exchange) {
    return exchange->begun || exchange->responded;
}

void uvhttp__exchange_refuse(uvhttp__exchange_t *exchange, int code) {
    uvhttp__counters_error(&exchange->loop->tcp->counters, code);
    bool foreign = exchange->call || exchange->deferred; /* another thread has it, or may be reading it */
    if (!has_head(exchange) && !foreign) uvhttp__body_fail(exchange, code);
    if (has_head(exchange)) { /* perhaps just now */
        exchange->failure = (int16_t)code;
        exchange->protocol->reset(exchange, code);
        return;
    }
    if (foreign) {
        uvhttp__exchange_t *made = replace(exchange, code);
        if (!made) exchange->protocol->reset(exchange, UVHTTP_E_NOMEM);
        if (!made) return;
        exchange = made;
    }
    exchange->failure = (int16_t)code;
    uvhttp_response_t *res = &exchange->response;
    uvhttp__response_undefer(res);
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_COMPLETE)) make_refusal(res, code);
    send_response(exchange);
}
