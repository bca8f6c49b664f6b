/* Owns: what a handler asks and adds about its trace. May include: message, io, base, obs. */
#include "trace/span.h"

#include <string.h>

#include "base/sized.h"
#include "io/io.h"

static uvhttp__trace_span_t *span_of(const uvhttp_request_t *req) {
    uvhttp__trace_record_t *record = uvhttp__request_trace_record(req);
    return record && record->traced ? UVHTTP__CONTAINER_OF(record, uvhttp__trace_span_t, record) : NULL;
}

int uvhttp_request_trace_sized(const uvhttp_request_t *req, uvhttp_trace_t *trace, size_t trace_size) {
    if (!req || !trace) return UVHTTP_E_INVALID;
    const uvhttp__trace_span_t *span = span_of(req);
    if (!span) return UVHTTP_E_STATE;
    const uvhttp__trace_context_t *context = &span->record.context;
    uvhttp_trace_t full;
    memset(&full, 0, sizeof full); /* the padding, too */
    full.sampled = uvhttp__span_is_sampled(span);
    full.tracestate = context->state;
    uvhttp__trace_hex(context->trace_id, UVHTTP__TRACE_ID_SIZE, full.trace_id);
    uvhttp__trace_hex(context->span_id, UVHTTP__SPAN_ID_SIZE, full.span_id);
    uvhttp__traceparent_write(context, full.traceparent);
    uvhttp__sized_write(trace, trace_size, &full, sizeof full);
    return UVHTTP_OK;
}

/* --- additions --- */

static void count_dropped(_Atomic uint32_t *dropped) {
    atomic_store_explicit(dropped, atomic_load_explicit(dropped, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Whether there is capacity for one more; if not, it counts as dropped. */
static bool admit(uvhttp__trace_span_t *span, bool is_event) {
    uint32_t *count = is_event ? &span->event_count : &span->attribute_count;
    uint32_t maximum = is_event ? UVHTTP_TRACE_EVENTS_MAX : UVHTTP_TRACE_ATTRIBUTES_MAX;
    if (*count < maximum) {
        (*count)++;
        return true;
    }
    count_dropped(is_event ? &span->events_dropped : &span->attributes_dropped);
    return false;
}

static int add(uvhttp_request_t *req, const char *name, uvhttp_str_t text, uvhttp__addition_t addition) {
    if (!req || !name || (!text.data && text.size > 0)) return UVHTTP_E_INVALID;
    uvhttp__trace_span_t *span = span_of(req);
    size_t name_size = strnlen(name, UVHTTP_TRACE_NAME_SIZE_MAX + 1);
    if (name_size == 0 || name_size > UVHTTP_TRACE_NAME_SIZE_MAX) return UVHTTP_E_INVALID;
    if (!span) return UVHTTP_E_STATE;
    if (!uvhttp__span_is_sampled(span)) return UVHTTP_OK;
    if (text.size > UVHTTP_TRACE_TEXT_SIZE_MAX) text.size = UVHTTP_TRACE_TEXT_SIZE_MAX;
    if (!admit(span, addition.kind == UVHTTP__ADDITION_EVENT)) return UVHTTP_E_LIMIT;
    uvhttp__addition_node_t *node = uvhttp_request_alloc(req, sizeof *node + name_size + text.size);
    if (!node) return UVHTTP_E_NOMEM;
    addition.name_size = (uint16_t)name_size;
    addition.text_size = (uint16_t)text.size;
    node->addition = addition;
    memcpy(node->bytes, name, name_size);
    if (text.size > 0) memcpy(node->bytes + name_size, text.data, text.size);
    node->next = atomic_load_explicit(&span->additions, memory_order_relaxed);
    atomic_store_explicit(&span->additions, node, memory_order_release);
    return UVHTTP_OK;
}

static const uvhttp_str_t no_text;

int uvhttp_request_trace_text(uvhttp_request_t *req, const char *name, uvhttp_str_t text) {
    return add(req, name, text, (uvhttp__addition_t){.kind = UVHTTP__ADDITION_TEXT});
}

int uvhttp_request_trace_int(uvhttp_request_t *req, const char *name, int64_t value) {
    return add(req, name, no_text, (uvhttp__addition_t){.kind = UVHTTP__ADDITION_INT, .number = value});
}

int uvhttp_request_trace_double(uvhttp_request_t *req, const char *name, double value) {
    return add(req, name, no_text, (uvhttp__addition_t){.kind = UVHTTP__ADDITION_DOUBLE, .real = value});
}

int uvhttp_request_trace_bool(uvhttp_request_t *req, const char *name, bool value) {
    return add(req, name, no_text, (uvhttp__addition_t){.kind = UVHTTP__ADDITION_BOOL, .number = value});
}

int uvhttp_request_trace_event(uvhttp_request_t *req, const char *name) {
    return add(req, name, no_text, (uvhttp__addition_t){.kind = UVHTTP__ADDITION_EVENT, .time_ns = uvhttp__clock_ns()});
}
