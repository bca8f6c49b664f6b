/* Owns: exemplars: requests with a trace, as examples of what a bucket of a series counts. May include: base. */
#include <endian.h>
#include <string.h>
#include <time.h>

#include "obs/series.h"
#include "obs/trace.h"

static uint64_t number_of(const uint8_t bytes[8]) {
    uint64_t number;
    memcpy(&number, bytes, sizeof number);
    return be64toh(number);
}

bool uvhttp__trace_id_read(uvhttp__trace_id_t *id, const char *text, size_t size) {
    uvhttp__trace_context_t context;
    if (!uvhttp__traceparent_parse((uvhttp_str_t){text, size}, &context)) return false;
    id->trace[0] = number_of(context.trace_id);
    id->trace[1] = number_of(context.trace_id + 8);
    id->span = number_of(context.span_id);
    return context.flags & UVHTTP__TRACE_SAMPLED;
}

static void store(_Atomic uint64_t *to, uint64_t value) {
    atomic_store_explicit(to, value, memory_order_relaxed);
}

static uint64_t load(const _Atomic uint64_t *from) {
    return atomic_load_explicit(from, memory_order_relaxed);
}

static uint64_t unix_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* A sequence lock of one writer: a reader that meets an odd sequence, or another one after it has read, discards what
 * it has. The fences keep the values between the two stores of the sequence. */
void uvhttp__exemplar_put(uvhttp__series_shard_t *shard, const uvhttp__series_t *series, const uvhttp__trace_id_t *id,
                          uint64_t ns) {
    uint64_t index = (uint64_t)(series - shard->series);
    unsigned place = (unsigned)(index * UVHTTP__DURATION_COUNTS + uvhttp__duration_index(ns)) % UVHTTP__EXEMPLARS;
    uvhttp__exemplar_t *to = &shard->exemplars[place];
    uint64_t sequence = load(&to->sequence);
    store(&to->sequence, sequence + 1);
    atomic_thread_fence(memory_order_release);
    store(&to->series, index);
    store(&to->trace[0], id->trace[0]);
    store(&to->trace[1], id->trace[1]);
    store(&to->span, id->span);
    store(&to->duration_ns, ns);
    store(&to->time_ns, unix_ns());
    atomic_store_explicit(&to->sequence, sequence + 2, memory_order_release);
}

bool uvhttp__exemplar_get(const uvhttp__series_shard_t *shard, unsigned index, uvhttp__exemplar_view_t *view) {
    const uvhttp__exemplar_t *from = &shard->exemplars[index];
    uint64_t sequence = atomic_load_explicit(&from->sequence, memory_order_acquire);
    if (sequence == 0 || (sequence & 1)) return false;
    view->series = (uint32_t)load(&from->series);
    view->id = (uvhttp__trace_id_t){{load(&from->trace[0]), load(&from->trace[1])}, load(&from->span)};
    view->duration_ns = load(&from->duration_ns);
    view->time_ns = load(&from->time_ns);
    atomic_thread_fence(memory_order_acquire);
    return load(&from->sequence) == sequence;
}
