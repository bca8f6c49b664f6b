/* Owns: around the handler of a request that is traced or timed: what it sends and logs belongs to its trace, and its
 * start is noted. Any thread that runs a handler. May include: message, io, obs. */
#ifndef UVHTTP_SRC_EXCHANGE_TRACED_H
#define UVHTTP_SRC_EXCHANGE_TRACED_H

#include "io/io.h"
#include "message/message.h"

static inline void uvhttp__traced_enter(uvhttp__trace_scope_t *scope, const uvhttp_request_t *req) {
    uvhttp__trace_record_t *record = uvhttp__request_trace_record(req);
    if (record) atomic_store_explicit(&record->handler_ns, uvhttp__clock_ns(), memory_order_relaxed);
    uvhttp__trace_enter(scope, record && record->traced ? &record->context : NULL);
}

#endif
