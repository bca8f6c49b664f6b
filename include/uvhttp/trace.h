/* Owns: the trace context of a request, and the attributes and events that a handler adds to its span. With
 * config.trace set, the server creates and exports the spans. docs/guide/tracing.md. */
#ifndef UVHTTP_TRACE_H
#define UVHTTP_TRACE_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

#define UVHTTP_TRACE_ATTRIBUTES_MAX 32  /**< attributes of a span that a program can add */
#define UVHTTP_TRACE_EVENTS_MAX 32      /**< events of a span */
#define UVHTTP_TRACE_NAME_SIZE_MAX 128  /**< bytes of the name of an attribute or event */
#define UVHTTP_TRACE_TEXT_SIZE_MAX 1024 /**< bytes of the text of an attribute; a longer one is truncated */
#define UVHTTP_TRACE_STATE_SIZE_MAX 512 /**< bytes of `tracestate` */

/** The trace context of a request (W3C Trace Context). The texts are terminated. */
typedef struct uvhttp_trace {
    char trace_id[33];       /**< 32 hex digits */
    char span_id[17];        /**< 16 hex digits: of the request's own span */
    char traceparent[56];    /**< the value of the field `traceparent` for outgoing requests */
    bool sampled;            /**< whether the span is exported */
    uvhttp_str_t tracestate; /**< the value of `tracestate` for outgoing requests, valid as long as the request. `data`
                                NULL: none */
} uvhttp_trace_t;

UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_request_trace_sized(const uvhttp_request_t *req, uvhttp_trace_t *trace,
                                                                 size_t trace_size);
/** Returns the trace context of a request. uvhttp_client_send and uvhttp_coro_request in a handler propagate it
 * automatically. Returns 0, UVHTTP_E_STATE (the server does not trace) or UVHTTP_E_INVALID (NULL). Threads as for
 * <uvhttp/request.h>. */
static inline int uvhttp_request_trace(const uvhttp_request_t *req, uvhttp_trace_t *trace) {
    return uvhttp_request_trace_sized(req, trace, sizeof *trace);
}

/** Add an attribute to the span of a request. `name` and the text are copied. A later attribute of the same name
 * replaces the earlier one. Attributes added after the end of the response are lost. Returns 0, UVHTTP_E_STATE (the
 * server does not trace), UVHTTP_E_INVALID (an argument is NULL, or the name has 0 or more than 128 bytes),
 * UVHTTP_E_LIMIT (the span has UVHTTP_TRACE_ATTRIBUTES_MAX; the span counts this one as dropped) or UVHTTP_E_NOMEM. For
 * a request that is not sampled, the functions do nothing and return 0. Threads as for <uvhttp/request.h>: one at a
 * time. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_request_trace_text(uvhttp_request_t *req, const char *name,
                                                                uvhttp_str_t text);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_request_trace_int(uvhttp_request_t *req, const char *name, int64_t value);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_request_trace_double(uvhttp_request_t *req, const char *name,
                                                                  double value);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_request_trace_bool(uvhttp_request_t *req, const char *name, bool value);
/** Adds an event with the current time, at most UVHTTP_TRACE_EVENTS_MAX per span. Otherwise as
 * uvhttp_request_trace_text. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_request_trace_event(uvhttp_request_t *req, const char *name);

UVHTTP_END_DECLS

#endif
