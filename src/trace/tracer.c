/* Owns: the middleware that traces and times requests: the context of each, which of them are sampled, Server-Timing,
 * and a queue a loop for spans that have ended. It is outermost, so a request that is not traced costs nothing.
 * May include: exchange, io, message, base, obs. */
#include "trace/tracer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/str.h"
#include "base/thread.h"
#include "io/io.h"
#include "obs/counters.h"
#include "trace/span.h"

#define RANDOM_BITS 56 /* of a trace id, by which the ratio decides: the last 7 bytes */

struct uvhttp__tracer {
    uint64_t number; /* of this tracer in the process, never used again */
    bool traces, times;
    uint64_t threshold; /* a new trace is sampled if its random bits are not below it */
    uint32_t queue_size;
    uvhttp__exporter_t *exporter; /* NULL: nothing is traced */
    pthread_mutex_t lock;         /* adding queues, starting the exporter */
    _Atomic(uvhttp__span_queue_t *) queues;
};

static void count_dropped(const uvhttp_request_t *req) {
    uvhttp__counters_t *counters = req->ops->counters ? req->ops->counters(req) : NULL;
    if (counters) uvhttp__counters_add(counters, trace_spans_dropped, 1);
}

/* --- the queue of a loop --- */

static uint64_t next_number(void) {
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static _Thread_local struct {
    uint64_t tracer;
    uvhttp__span_queue_t *queue;
} latest; /* that this thread used */

static void free_queue(uvhttp__span_queue_t *queue) {
    uvhttp__ring_free(queue->ring);
    uvhttp__free(queue);
}

/* Starts the exporter with the first one. NULL if one of them is unavailable: it is tried again. */
static uvhttp__span_queue_t *add_queue(uvhttp__tracer_t *tracer) {
    uvhttp__span_queue_t *queue = uvhttp__calloc(1, sizeof *queue);
    if (!queue) return NULL;
    queue->owner = uvhttp__thread_number();
    queue->seed = uvhttp__random();
    queue->number = uvhttp__random();
    queue->ring = uvhttp__ring_new(tracer->queue_size);
    pthread_mutex_lock(&tracer->lock);
    bool runs = queue->ring && uvhttp__exporter_start(tracer->exporter) == UVHTTP_OK;
    if (runs) {
        queue->next = atomic_load_explicit(&tracer->queues, memory_order_relaxed);
        atomic_store_explicit(&tracer->queues, queue, memory_order_release);
    }
    pthread_mutex_unlock(&tracer->lock);
    if (runs) return queue;
    free_queue(queue);
    return NULL;
}

static uvhttp__span_queue_t *queue_of(uvhttp__tracer_t *tracer) {
    if (latest.tracer == tracer->number) return latest.queue;
    const uint64_t thread = uvhttp__thread_number();
    uvhttp__span_queue_t *queue = atomic_load_explicit(&tracer->queues, memory_order_acquire);
    while (queue && queue->owner != thread) queue = queue->next;
    if (!queue) queue = add_queue(tracer);
    if (queue) {
        latest.tracer = tracer->number;
        latest.queue = queue;
    }
    return queue;
}

/* --- ids --- */

/* A permutation of the numbers that the kernel has chosen at random for this loop: never 0 here, and never twice. */
static uint64_t random_number(uvhttp__span_queue_t *queue) {
    uint64_t number;
    do {
        queue->number++;
        number = uvhttp__hash_seeded(&queue->number, sizeof queue->number, queue->seed);
    } while (number == 0);
    return number;
}

static void put_random(uvhttp__span_queue_t *queue, uint8_t bytes[8]) {
    uint64_t number = random_number(queue);
    for (int i = 7; i >= 0; i--, number >>= 8) bytes[i] = (uint8_t)number;
}

static uint64_t random_bits(const uint8_t trace_id[UVHTTP__TRACE_ID_SIZE]) {
    uint64_t bits = 0;
    for (int i = UVHTTP__TRACE_ID_SIZE - RANDOM_BITS / 8; i < UVHTTP__TRACE_ID_SIZE; i++)
        bits = bits << 8 | trace_id[i];
    return bits;
}

/* --- the context of a request --- */

static bool read_parent(const uvhttp_request_t *req, uvhttp__trace_context_t *context) {
    size_t index = 0;
    uvhttp_str_t value;
    return uvhttp_request_header_next(req, "traceparent", &index, &value) &&
           uvhttp__traceparent_parse(uvhttp__str_trim(value), context) &&
           !uvhttp_request_header_next(req, "traceparent", &index, NULL);
}

static void read_state(uvhttp_request_t *req, uvhttp__trace_context_t *context) {
    char list[UVHTTP__TRACESTATE_SIZE_MAX];
    size_t size = 0, index = 0;
    unsigned count = 0;
    uvhttp_str_t value;
    while (uvhttp_request_header_next(req, "tracestate", &index, &value))
        if (!uvhttp__tracestate_add(value, list, &size, &count)) return;
    char *copy = size > 0 ? uvhttp_request_alloc(req, size) : NULL;
    if (!copy) return;
    memcpy(copy, list, size);
    context->state = (uvhttp_str_t){copy, size};
}

static void trace(uvhttp__tracer_t *tracer, uvhttp__span_queue_t *queue, uvhttp_request_t *req,
                  uvhttp__trace_span_t *span) {
    uvhttp__trace_context_t *context = &span->record.context;
    span->record.traced = true;
    span->has_parent = read_parent(req, context);
    if (span->has_parent) {
        memcpy(span->parent_id, context->span_id, sizeof span->parent_id);
        read_state(req, context);
    } else {
        put_random(queue, context->trace_id);
        put_random(queue, context->trace_id + 8);
        context->flags = random_bits(context->trace_id) >= tracer->threshold ? UVHTTP__TRACE_SAMPLED : 0;
    }
    put_random(queue, context->span_id);
}

/* --- the end of a request --- */

static void on_done(uvhttp_response_t *res, int status, void *user) {
    uvhttp__tracer_t *tracer = user;
    const uvhttp_request_t *req = uvhttp_response_request(res);
    uvhttp__trace_record_t *record = uvhttp__request_trace_record(req);
    uvhttp__span_queue_t *queue = queue_of(tracer);
    uint64_t waiting = 0;
    if (queue)
        waiting =
            uvhttp__span_put(queue->ring, res, UVHTTP__CONTAINER_OF(record, uvhttp__trace_span_t, record), status);
    if (waiting == 0) {
        count_dropped(req);
        return;
    }
    uvhttp__counters_t *counters = req->ops->counters ? req->ops->counters(req) : NULL;
    if (counters) uvhttp__counters_add(counters, trace_spans, 1);
    bool half = waiting > tracer->queue_size / 2;
    if (half && !queue->kicked) uvhttp__exporter_kick(tracer->exporter);
    queue->kicked = half;
}

static double ms_between(uint64_t start_ns, uint64_t end_ns) {
    return end_ns > start_ns ? (double)(end_ns - start_ns) / 1e6 : 0;
}

/* "total;dur=1.234, queue;dur=0.200, handler;dur=1.034": thousandths of ms, up to here. */
static void add_timing(uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_request_t *req = uvhttp_response_request(res);
    uint64_t start_ns, now_ns;
    req->ops->times(req, &start_ns, &now_ns);
    uvhttp__trace_record_t *record = uvhttp__request_trace_record(req);
    uint64_t handler_ns = record ? atomic_load_explicit(&record->handler_ns, memory_order_relaxed) : 0;
    char text[128];
    double total_ms = ms_between(start_ns, now_ns);
    int size = handler_ns > 0
                   ? uvhttp__format(text, sizeof text, "total;dur=%.3f, queue;dur=%.3f, handler;dur=%.3f", total_ms,
                                    ms_between(start_ns, handler_ns), ms_between(handler_ns, now_ns))
                   : uvhttp__format(text, sizeof text, "total;dur=%.3f", total_ms);
    if (size < 0) return; /* no memory */
    (void)uvhttp__response_put_header(res, UVHTTP__STR("Server-Timing"), (uvhttp_str_t){text, (size_t)size}, false);
}

/* --- the start --- */

/* What cannot be noted for want of memory is not traced; the request is served all the same. The handler is next,
 * unless the request has a body or a thread has to be found. */
static void note(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp__tracer_t *tracer = user;
    uvhttp__span_queue_t *queue = tracer->traces ? queue_of(tracer) : NULL;
    uvhttp__trace_span_t span = {.record = {.handler_ns = tracer->times ? uvhttp__clock_ns() : 0}};
    if (queue) trace(tracer, queue, req, &span);
    bool sampled = uvhttp__span_is_sampled(&span);
    if (uvhttp__request_set_trace_record(req, &span.record, sizeof span) != UVHTTP_OK || (tracer->traces && !queue)) {
        count_dropped(req);
        return;
    }
    uvhttp__trace_set_here(uvhttp__request_trace_context(req));
    if (tracer->times && uvhttp_response_on_finish(res, add_timing, NULL) != UVHTTP_OK) count_dropped(req);
    if (!sampled) return;
    (void)uvhttp__request_client(req); /* now, because the connection can be gone when the response is aborted */
    if (uvhttp_response_on_done(res, on_done, tracer) != UVHTTP_OK) count_dropped(req);
}

static uvhttp_flow_t run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    note(req, res, user);
    return UVHTTP_NEXT;
}

/* --- life --- */

static void destroy(void *user) {
    uvhttp__tracer_t *tracer = user;
    uvhttp__exporter_free(tracer->exporter);
    uvhttp__span_queue_t *next;
    for (uvhttp__span_queue_t *queue = atomic_load(&tracer->queues); queue; queue = next) {
        next = queue->next;
        free_queue(queue);
    }
    pthread_mutex_destroy(&tracer->lock);
    uvhttp__free(tracer);
}

int uvhttp__tracer_new(const uvhttp_server_config_t *config, uvhttp__tracer_t **made) {
    uvhttp__tracer_t *tracer = uvhttp__calloc(1, sizeof *tracer);
    if (!tracer) return UVHTTP_E_NOMEM;
    pthread_mutex_init(&tracer->lock, NULL);
    tracer->number = next_number();
    tracer->traces = config->trace;
    tracer->times = config->server_timing;
    tracer->queue_size = config->trace_queue_size;
    tracer->threshold = (uint64_t)((1.0 - config->trace_ratio) * (double)(UINT64_C(1) << RANDOM_BITS));
    const uvhttp__exporter_options_t options = {.endpoint = config->trace_endpoint,
                                                .service = config->trace_service,
                                                .delay_ms = config->trace_delay_ms,
                                                .queues = &tracer->queues};
    int status = config->trace ? uvhttp__exporter_new(&options, &tracer->exporter) : UVHTTP_OK;
    if (status == UVHTTP_OK)
        *made = tracer;
    else
        destroy(tracer);
    return status;
}

uvhttp_middleware_t uvhttp__tracer_middleware(uvhttp__tracer_t *tracer) {
    return (uvhttp_middleware_t){.run = run, .user = tracer, .destroy = destroy, .on_refused = note};
}

void uvhttp__tracer_read(const uvhttp__tracer_t *tracer, uvhttp__exporter_stats_t *stats) {
    *stats = (uvhttp__exporter_stats_t){0};
    if (tracer->exporter) uvhttp__exporter_read(tracer->exporter, stats);
}
