/* Owns: the state of a handler's call on a worker thread: what it waits for, and its end. */

#include "exchange/call.h"

void uvhttp__call_complete(uvhttp__call_t *call, int status) {
    call->waits_for_client = false;
    pthread_mutex_lock(&call->lock);
    call->status = status;
    call->done = true;
    pthread_cond_signal(&call->returned);
    pthread_mutex_unlock(&call->lock);
}

void uvhttp__call_end(uvhttp__call_t *call) {
    uvhttp__exchange_t *exchange = call->exchange;
    uvhttp__timer_stop(&exchange->loop->tcp->io->wheel, &call->deadline);
    if (call->is_live) atomic_fetch_sub(&exchange->loop->service->live_calls, 1);
    pthread_cond_destroy(&call->returned);
    pthread_mutex_destroy(&call->lock);
    exchange->call = NULL;
}

bool uvhttp__call_leave(uvhttp__exchange_t *exchange) {
    uvhttp__call_t *call = exchange->call;
    if (uvhttp__list_linked(&call->link)) { /* no thread has seen it */
        uvhttp__list_remove(&call->link);
        uvhttp__call_end(call);
        return false;
    }
    if (call->waits_for_client) uvhttp__call_complete(call, UVHTTP_E_ABORTED);
    return true;
}
