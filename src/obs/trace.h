/* Owns: the context of a trace (W3C Trace Context): its text, and which one the running thread works for.
 * May include: base. */
#ifndef UVHTTP_SRC_OBS_TRACE_H
#define UVHTTP_SRC_OBS_TRACE_H

#include <uvhttp/types.h>

enum {
    UVHTTP__TRACE_ID_SIZE = 16,       /* bytes */
    UVHTTP__SPAN_ID_SIZE = 8,         /* bytes */
    UVHTTP__TRACEPARENT_SIZE = 55,    /* bytes: "00-<trace id>-<span id>-<flags>" */
    UVHTTP__TRACESTATE_SIZE_MAX = 512 /* bytes; a longer list is cut after a member (section 3.3.1.5) */
};
#define UVHTTP__TRACE_SAMPLED 1u /* of flags */
#define UVHTTP__TRACE_RANDOM 2u  /* of flags: the last 7 bytes of the trace id are random (level 2) */

typedef struct uvhttp__trace_context {
    uint8_t trace_id[UVHTTP__TRACE_ID_SIZE]; /* not all zero, unless it is that of no trace */
    uint8_t span_id[UVHTTP__SPAN_ID_SIZE];
    uint8_t flags;
    uvhttp_str_t state; /* of tracestate, data NULL: none */
} uvhttp__trace_context_t;

/* Reads the value of traceparent, of version 00 or a later one (section 3.2). Does not set `state`. Returns false if it
 * is malformed. */
bool uvhttp__traceparent_parse(uvhttp_str_t text, uvhttp__trace_context_t *context);
/* Writes it as version 00. */
void uvhttp__traceparent_write(const uvhttp__trace_context_t *context, char text[UVHTTP__TRACEPARENT_SIZE]);

/* Adds the members of one field of tracestate to list[*size], of UVHTTP__TRACESTATE_SIZE_MAX bytes. Returns false if
 * one is malformed: then the whole list counts as absent (section 3.3.1). */
bool uvhttp__tracestate_add(uvhttp_str_t field, char list[UVHTTP__TRACESTATE_SIZE_MAX], size_t *size, unsigned *count);

void uvhttp__trace_hex(const uint8_t *bytes, size_t size, char *text);

/* Where a call into the application keeps what it works for: it begins with NULL, and the first who knows fills it in.
 */
typedef struct uvhttp__trace_scope {
    const uvhttp__trace_context_t *context;
    struct uvhttp__trace_scope *outer;
} uvhttp__trace_scope_t;

/* What the running thread works for; NULL: nothing that is traced. */
const uvhttp__trace_context_t *uvhttp__trace_here(void);
/* The innermost scope of this thread works for `context`; without a scope nothing happens. */
void uvhttp__trace_set_here(const uvhttp__trace_context_t *context);
/* The scope stands on the caller's stack between the two. */
void uvhttp__trace_enter(uvhttp__trace_scope_t *scope, const uvhttp__trace_context_t *context);
void uvhttp__trace_leave(const uvhttp__trace_scope_t *scope);

#endif
