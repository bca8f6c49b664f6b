/* Owns: what a loop does with a deferred handle: made for an exchange, the application called through it, and the
 * response sent once it is complete. */
#include "base/alloc.h"
#include "exchange/coroutine.h"
#include "exchange/deferred.h"
#include "exchange/respond.h"
#include "exchange/stall.h"

static void respond_now(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange) {
    uvhttp__exchange_returned(exchange);
    if (deferred->exchange) uvhttp__deferred_detach(deferred);
}

void uvhttp__deferred_abandon(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange) {
    uvhttp__exchange_no_response(exchange);
    if (uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BEGUN)) {
        uvhttp__deferred_detach(deferred);
        exchange->protocol->reset(exchange, UVHTTP_E_STATE);
    } else {
        respond_now(deferred, exchange);
    }
}

/* The message that the last reference has become. */
static void run_abandon(uvhttp__post_t *post) {
    uvhttp_deferred_t *deferred = UVHTTP__CONTAINER_OF(post, uvhttp_deferred_t, abandon);
    uvhttp__exchange_t *exchange = deferred->exchange;
    if (exchange && exchange->protocol) {
        uvhttp__response_undefer(&exchange->response);
        uvhttp__deferred_abandon(deferred, exchange);
    }
    uvhttp__deferred_let_go(deferred);
}

/* --- new handles --- */

static uvhttp_deferred_t *new_handle(uvhttp__exchange_t *exchange, bool held) {
    uvhttp_deferred_t *deferred = uvhttp__calloc(1, sizeof *deferred);
    if (!deferred) return NULL;
    deferred->references = 1;
    deferred->held = held;
    uvhttp__mpsc_init(&deferred->posts);
    deferred->loop = exchange->loop->tcp->io;
    deferred->exchange = exchange;
    deferred->abandon.run = run_abandon;
    return deferred;
}

uvhttp_deferred_t *uvhttp__deferred_new(uvhttp__exchange_t *exchange) {
    uvhttp_deferred_t *deferred = new_handle(exchange, false);
    if (deferred) uvhttp__deferred_adopt(deferred, exchange);
    return deferred;
}

uvhttp_deferred_t *uvhttp__deferred_new_held(uvhttp__exchange_t *exchange) {
    return new_handle(exchange, true);
}

/* --- calls of the application --- */

void uvhttp__deferred_proceed(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange) {
    if (uvhttp__response_is_complete(&exchange->response) && !exchange->coroutine)
        respond_now(deferred, exchange);
    else
        uvhttp__response_redefer(&exchange->response);
}

void uvhttp__deferred_enter(uvhttp_deferred_t *deferred) {
    uvhttp__deferred_keep(deferred); /* its last reference may be released in the call */
    uvhttp__response_undefer(&deferred->exchange->response);
}

void uvhttp__deferred_leave(uvhttp_deferred_t *deferred) {
    uvhttp__deferred_proceed(deferred, deferred->exchange);
    uvhttp__deferred_let_go(deferred);
}

void uvhttp__deferred_drained(uvhttp_deferred_t *deferred) {
    uvhttp__exchange_t *exchange = deferred->exchange;
    if (exchange && exchange->coroutine) uvhttp__coroutine_drained(exchange);
    if (!exchange || !deferred->on_drain || !uvhttp__deferred_is_open(deferred)) return;
    uvhttp_response_t *res = &exchange->response;
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN) || uvhttp__response_is(res, UVHTTP__RESPONSE_ENDED)) return;
    uvhttp__deferred_enter(deferred);
    deferred->on_drain(res, deferred->on_drain_user);
    uvhttp__deferred_leave(deferred);
}

void uvhttp__deferred_stop(uvhttp_deferred_t *deferred) {
    void (*on_stop)(uvhttp_response_t * res, void *user) = deferred->on_stop;
    deferred->on_stop = NULL;
    if (!on_stop || !deferred->exchange || !uvhttp__deferred_is_open(deferred)) return;
    if (uvhttp__response_is_complete(&deferred->exchange->response)) return;
    uvhttp__deferred_enter(deferred);
    on_stop(&deferred->exchange->response, deferred->on_stop_user);
    uvhttp__deferred_leave(deferred);
}
