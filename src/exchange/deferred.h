/* Owns: the reference-counted handle by which any thread responds later: what its files share, and what other files of
 * src/exchange/ call. May include: as exchange.h.
 *
 * Ownership: the application's references keep the handle, and so do the library's uses of it. OPEN: the application
 * has a reference and has not responded; the protocol keeps the exchange. ABORTED: the handle keeps the exchange, so
 * that its request stays readable. SENT: the application has responded or has no reference left; nothing of it is
 * called back, and nothing needs the exchange. */
#ifndef UVHTTP_SRC_EXCHANGE_DEFERRED_H
#define UVHTTP_SRC_EXCHANGE_DEFERRED_H

#include "exchange/exchange.h"

typedef enum uvhttp__deferred_state {
    UVHTTP__DEFERRED_OPEN,
    UVHTTP__DEFERRED_SENT,
    UVHTTP__DEFERRED_ABORTED,
} uvhttp__deferred_state_t;

/* A request that waits has one: what is "under the lock" is so under the lock of its address (deferred_handle.c). */
struct uvhttp_deferred {
    uint32_t references; /* the application's; under the lock, as the next three */
    uint32_t uses : 29;  /* messages on their way, of over 64 bytes each, and calls that last */
    uint32_t state : 2;  /* uvhttp__deferred_state_t */
    uint32_t held : 1;   /* a worker thread has the response still, messages wait in `posts` */
    uvhttp__loop_t *loop;
    uvhttp__exchange_t *exchange; /* written on the loop's thread under the lock */
    uvhttp__post_t abandon;       /* the message that the last reference becomes if there is no response yet */
    uvhttp__mpsc_t posts;
    void (*on_abort)(uvhttp_deferred_t *deferred, void *user);
    void *on_abort_user;
    void (*on_drain)(uvhttp_response_t *res, void *user);
    void *on_drain_user;
    void (*on_stop)(uvhttp_response_t *res, void *user); /* NULL: nobody waits for it, or it has been called */
    void *on_stop_user;
};

/* --- deferred_handle.c: references and state --- */

/* Loop's thread. The exchange has a handle from here on. */
void uvhttp__deferred_adopt(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange);
/* Loop's thread. The worker thread has the response no longer: what was said through the handle is applied. */
void uvhttp__deferred_unhold(uvhttp_deferred_t *deferred);
/* Any thread. The handle lasts until let_go, whatever the application releases meanwhile. */
void uvhttp__deferred_keep(uvhttp_deferred_t *deferred);
void uvhttp__deferred_let_go(uvhttp_deferred_t *deferred);
/* Any thread. A message to the loop, which lets the handle go when it has run; `next` is the state that it leads to.
 * Returns 0, UVHTTP_E_ABORTED or UVHTTP_E_STATE. */
int uvhttp__deferred_post(uvhttp_deferred_t *deferred, uvhttp__post_t *post, uvhttp__deferred_state_t next);
/* Loop's thread. The client has gone. Returns true if the handle keeps the exchange, and frees it with itself, which
 * the caller keeps from that. */
bool uvhttp__deferred_abort(uvhttp_deferred_t *deferred);
/* Loop's thread. Whether the application has more to say: it has neither responded nor released its last reference.
 * Otherwise nothing of it is called back. */
bool uvhttp__deferred_is_open(uvhttp_deferred_t *deferred);
/* Loop's thread. The response is made, or was cut off: the exchange continues as if it had not been deferred, and the
 * handle forgets it. */
void uvhttp__deferred_detach(uvhttp_deferred_t *deferred);

/* --- deferred_loop.c: the loop's thread, unless a line says otherwise --- */

uvhttp_deferred_t *uvhttp__deferred_new(uvhttp__exchange_t *exchange);
/* The same on a worker thread that has the response: the exchange does not know of it before adopt, and what is said
 * through it waits for let_go. */
uvhttp_deferred_t *uvhttp__deferred_new_held(uvhttp__exchange_t *exchange);
/* Around a call into the application that may use the response as in uvhttp_deferred_run; leave sends the response if
 * it is complete. */
void uvhttp__deferred_enter(uvhttp_deferred_t *deferred);
void uvhttp__deferred_leave(uvhttp_deferred_t *deferred);
/* What was done to the response has completed it, or more is waited for: a coroutine responds when it ends. */
void uvhttp__deferred_proceed(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange);
/* Nobody has responded, and nobody can any more: the client gets 500. A streamed response that was begun is cut off. */
void uvhttp__deferred_abandon(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange);
/* The client has acknowledged the queued output: on_drain. */
void uvhttp__deferred_drained(uvhttp_deferred_t *deferred);
/* The server stops: on_stop. */
void uvhttp__deferred_stop(uvhttp_deferred_t *deferred);

#endif
