/* Owns: exemplars: requests with a trace, as examples of what a bucket of a series counts. May include: base. */
#include <string.h>
#include <time.h>

#include "obs/series.h"

/* "00-" 32 hex digits "-" 16 hex digits "-" 2 hex digits (W3C Trace Context section 3.2). */
#define TRACEPARENT_SIZE 55

static bool read_hex(uint64_t *value, const char *text, size_t digits) {
    *value = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = text[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit > 15) return false;
        *value = *value << 4 | digit;
    }
    return true;
}

bool uvhttp__trace_id_read(uvhttp__trace_id_t *id, const char *text, size_t size) {
    uint64_t version, flags;
    if (size < TRACEPARENT_SIZE || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
    if (!read_hex(&version, text, 2) || version == 0xff) return false;
    if (size > TRACEPARENT_SIZE && (version == 0 || text[TRACEPARENT_SIZE] != '-')) return false;
    if (!read_hex(&id->trace[0], text + 3, 16) || !read_hex(&id->trace[1], text + 19, 16) ||
        !read_hex(&id->span, text + 36, 16) || !read_hex(&flags, text + 53, 2))
        return false;
    return (flags & 1) && (id->trace[0] | id->trace[1]) && id->span;
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
