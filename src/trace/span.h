/* Owns: what the files of traces share: a span while its exchange lives, and as the record that a loop leaves for the
 * exporter. May include: exchange, client, config, conn, io, message, base,
 * obs. */
#ifndef UVHTTP_SRC_TRACE_SPAN_H
#define UVHTTP_SRC_TRACE_SPAN_H

#include <stdatomic.h>
#include <uvhttp/server.h>
#include <uvhttp/trace.h>

#include "base/ip.h"
#include "base/ring.h"
#include "base/writer.h"
#include "message/message.h"
#include "obs/trace.h"

/* --- while the exchange lives --- */

typedef enum uvhttp__addition_kind {
    UVHTTP__ADDITION_TEXT,
    UVHTTP__ADDITION_INT,
    UVHTTP__ADDITION_DOUBLE,
    UVHTTP__ADDITION_BOOL,
    UVHTTP__ADDITION_EVENT
} uvhttp__addition_kind_t;

/* An attribute or event, without what belongs to its place. */
typedef struct uvhttp__addition {
    uint8_t kind; /* uvhttp__addition_kind_t */
    uint16_t name_size, text_size;
    union {
        int64_t number; /* INT, BOOL */
        double real;
        uint64_t time_ns; /* EVENT; CLOCK_MONOTONIC */
    };
} uvhttp__addition_t;

/* In the request's arena, and never changed once it is in the list: the loop may read the list of an aborted exchange
 * while another thread adds to it. */
typedef struct uvhttp__addition_node {
    struct uvhttp__addition_node *next; /* added before */
    uvhttp__addition_t addition;
    char bytes[]; /* name, text */
} uvhttp__addition_node_t;

/* A note of the request, in its arena. */
typedef struct uvhttp__trace_span {
    uvhttp__trace_record_t record; /* first: what lower folders know of it */
    bool has_parent;
    uint8_t parent_id[UVHTTP__SPAN_ID_SIZE];
    uint32_t attribute_count, event_count;               /* of the thread that has the request */
    _Atomic uint32_t attributes_dropped, events_dropped; /* written by that thread, read by the loop */
    _Atomic(uvhttp__addition_node_t *) additions;        /* the last one first; the same */
} uvhttp__trace_span_t;

static inline bool uvhttp__span_is_sampled(const uvhttp__trace_span_t *span) {
    return span->record.traced && (span->record.context.flags & UVHTTP__TRACE_SAMPLED);
}

/* --- as the loop leaves it (record.c) --- */

typedef enum uvhttp__span_field {
    UVHTTP__SPAN_METHOD, /* as the client sent it */
    UVHTTP__SPAN_ROUTE,  /* the pattern */
    UVHTTP__SPAN_PATH,
    UVHTTP__SPAN_SERVER, /* host and port that the client addressed */
    UVHTTP__SPAN_AGENT,
    UVHTTP__SPAN_STATE, /* tracestate */
    UVHTTP__SPAN_FIELD_COUNT
} uvhttp__span_field_t;

/* Behind it: the bytes of the fields, then `additions` of uvhttp__addition_t, each with its bytes. Nothing is aligned
 * there. */
typedef struct uvhttp__span_record {
    uvhttp__ring_record_t record;
    uint16_t status;           /* 0: the client has gone before there was one */
    int16_t error;             /* a UVHTTP_E_* code: the response was not completed; 0: it was */
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    uint8_t trace_id[UVHTTP__TRACE_ID_SIZE], span_id[UVHTTP__SPAN_ID_SIZE], parent_id[UVHTTP__SPAN_ID_SIZE];
    uint8_t flags;
    bool has_parent, https;
    uint8_t method, version; /* uvhttp_method_t, uvhttp_http_version_t */
    uvhttp__peer_t client;
    uint16_t sizes[UVHTTP__SPAN_FIELD_COUNT]; /* 0: absent */
    uint32_t additions, attributes_dropped, events_dropped;
} uvhttp__span_record_t;

/* What a record is read into. */
typedef struct uvhttp__span_view {
    const uvhttp__span_record_t *record;
    uvhttp_str_t fields[UVHTTP__SPAN_FIELD_COUNT];
    const char *additions; /* of the first */
} uvhttp__span_view_t;

/* Loop's thread, when the response of a sampled request has ended. Returns how many bytes wait in the ring, or 0 if
 * there was no capacity. */
uint64_t uvhttp__span_put(uvhttp__ring_t *ring, uvhttp_response_t *res, const uvhttp__trace_span_t *span, int status);
void uvhttp__span_view(const uvhttp__span_record_t *record, uvhttp__span_view_t *view);
/* Reads the addition at *at, which moves to the next one. */
void uvhttp__addition_read(const char **at, uvhttp__addition_t *addition, uvhttp_str_t *name, uvhttp_str_t *text);

/* --- as the collector wants it (otlp.c) --- */

typedef struct uvhttp__otlp {
    uvhttp__writer_t out; /* its owner frees it */
    uint32_t spans;
    int64_t real_offset_ns; /* what to add to CLOCK_MONOTONIC to get the time since 1970 */
} uvhttp__otlp_t;

/* A request of OTLP/HTTP in its JSON mapping (POST /v1/traces): begin, spans, end. */
void uvhttp__otlp_begin(uvhttp__otlp_t *otlp, const char *service_name, int64_t real_offset_ns);
void uvhttp__otlp_span(uvhttp__otlp_t *otlp, const uvhttp__span_record_t *record);
void uvhttp__otlp_end(uvhttp__otlp_t *otlp);
/* How many spans a response with status 200 says were rejected. */
uint64_t uvhttp__otlp_rejected(uvhttp_str_t response);

#endif
