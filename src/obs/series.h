/* Owns: counts of requests by their attributes: one shard per loop thread, written by that thread alone, read by any.
 * May include: base.
 *
 * A shard has a place for so many series as it was made with, and one more, the first, for requests that find no place.
 * Requests that end in the iteration in which they came have taken the same time: they are counted in their series, and
 * get their duration at its end (uvhttp__series_iteration). */
#ifndef UVHTTP_SRC_OBS_SERIES_H
#define UVHTTP_SRC_OBS_SERIES_H

#include "base/hot_path.h"
#include "obs/counters.h"

#define UVHTTP__DURATION_BOUNDS 28 /* ns, uvhttp__duration_bounds */
#define UVHTTP__DURATION_COUNTS (UVHTTP__DURATION_BOUNDS + 1)
#define UVHTTP__SIZE_BOUNDS 11 /* bytes, uvhttp__size_bounds */
#define UVHTTP__SIZE_COUNTS (UVHTTP__SIZE_BOUNDS + 1)

/* Ascending, then UINT64_MAX. */
extern const uint64_t uvhttp__duration_bounds[UVHTTP__DURATION_COUNTS];
extern const uint64_t uvhttp__size_bounds[UVHTTP__SIZE_COUNTS];
/* How many duration bounds are below 2^i ns. */
extern const uint8_t uvhttp__duration_first[64];

/* The first bound that is not below the value. */
static inline unsigned uvhttp__duration_index(uint64_t ns) {
    /* At most two bounds are between two powers of two. */
    unsigned i = uvhttp__duration_first[63 - (unsigned)__builtin_clzll(ns | 1)];
    i += ns > uvhttp__duration_bounds[i];
    return i + (ns > uvhttp__duration_bounds[i]);
}
/* The bounds are 0, 256 and its multiples by powers of 4. */
static inline unsigned uvhttp__size_index(uint64_t size) {
    if (size <= 256) return size > 0;
    unsigned i = (65 - 8 - (unsigned)__builtin_clzll(size - 1)) / 2 + 1;
    return i < UVHTTP__SIZE_BOUNDS ? i : UVHTTP__SIZE_BOUNDS;
}

/* What is the same for all requests of a series. */
typedef struct uvhttp__series_key {
    const void *route;
    uint64_t attributes;
} uvhttp__series_key_t;

typedef struct uvhttp__series {
    uvhttp__series_key_t key; /* does not change once the series is counted in shard->count */
    struct uvhttp__series *next_pending;
    uint64_t pending; /* requests of this iteration; the loop's */
    _Atomic uint64_t duration_sum;
    _Atomic uint64_t durations[UVHTTP__DURATION_COUNTS];
    _Atomic uint64_t request_sum, response_sum; /* bytes of bodies */
    _Atomic uint64_t requests[UVHTTP__SIZE_COUNTS];
    _Atomic uint64_t responses[UVHTTP__SIZE_COUNTS];
} uvhttp__series_t;

/* A request that was traced, as an example of a bucket. */
typedef struct uvhttp__trace_id {
    uint64_t trace[2], span; /* the bytes of the ids, big-endian */
} uvhttp__trace_id_t;

#define UVHTTP__EXEMPLARS 128 /* places of a shard, a power of two: a newer one takes the place of an older one */
#define UVHTTP__EXEMPLAR_NS UINT64_C(100000000) /* how often a request that ends in its iteration is looked at */

typedef struct uvhttp__exemplar {
    _Atomic uint64_t sequence; /* odd: it is being written. 0: there is none */
    _Atomic uint64_t series, trace[2], span, duration_ns, time_ns;
} uvhttp__exemplar_t;

typedef struct uvhttp__exemplar_view {
    uint32_t series; /* index in the shard */
    uvhttp__trace_id_t id;
    uint64_t duration_ns, time_ns; /* time: since 1970 */
} uvhttp__exemplar_view_t;

#define UVHTTP__SERIES_NONE UINT32_MAX     /* an index */
#define UVHTTP__SERIES_OVERFLOW UINT64_MAX /* attributes of requests without a series of their own */

typedef struct uvhttp__series_shard {
    /* The loop's. */
    uvhttp__series_t *last, *pending;
    uint32_t *slots; /* of a hash table: index of a series, 0: empty */
    uint32_t slot_mask, capacity;
    bool exemplar_due;  /* the next request that ends in its iteration is looked at */
    uint32_t candidate; /* series of one of this iteration that is an example; UVHTTP__SERIES_NONE: there is none */
    uvhttp__trace_id_t candidate_id;
    uint64_t exemplar_at_ns; /* when the next one is due */
    /* Any thread's to read. */
    _Atomic uint32_t count; /* series that are in use */
    _Atomic uint64_t busy_ns, iterations[UVHTTP__DURATION_COUNTS];
    uvhttp__exemplar_t exemplars[UVHTTP__EXEMPLARS];
    uvhttp__series_t series[]; /* 0: overflow */
} uvhttp__series_shard_t;

/* A shard for `capacity` series, 1..65535. NULL: out of memory. */
uvhttp__series_shard_t *uvhttp__series_shard_new(uint32_t capacity);
void uvhttp__series_shard_free(uvhttp__series_shard_t *shard); /* NULL is allowed */

uvhttp__series_t *uvhttp__series_look_up(uvhttp__series_shard_t *shard, uvhttp__series_key_t key);

/* The series of a request; the first of the shard if there is no place for one. Loop's thread. */
static inline uvhttp__series_t *uvhttp__series_find(uvhttp__series_shard_t *shard, uvhttp__series_key_t key) {
    uvhttp__series_t *last = shard->last;
    if (LIKELY(last->key.attributes == key.attributes && last->key.route == key.route)) return last;
    return uvhttp__series_look_up(shard, key);
}
static inline bool uvhttp__series_is_overflow(const uvhttp__series_shard_t *shard, const uvhttp__series_t *series) {
    return series == shard->series;
}

/* Counts bodies of a request. A duration must follow. Loop's thread. */
static inline void uvhttp__series_bodies(uvhttp__series_t *series, uint64_t request_size, uint64_t response_size) {
    uvhttp__counter_bump(&series->requests[uvhttp__size_index(request_size)], 1);
    if (request_size > 0) uvhttp__counter_bump(&series->request_sum, request_size);
    uvhttp__counter_bump(&series->responses[uvhttp__size_index(response_size)], 1);
    uvhttp__counter_bump(&series->response_sum, response_size);
}
/* The duration of one request. Loop's thread. */
void uvhttp__series_record(uvhttp__series_t *series, uint64_t ns);
/* Its duration is that of the iteration. Loop's thread. */
static inline void uvhttp__series_pend(uvhttp__series_shard_t *shard, uvhttp__series_t *series) {
    if (series->pending++ > 0) return;
    series->next_pending = shard->pending;
    shard->pending = series;
}
/* An iteration that began at start_ns has taken so long, and what pends in it. Loop's thread. */
void uvhttp__series_iteration(uvhttp__series_shard_t *shard, uint64_t start_ns, uint64_t ns);

/* Reads a traceparent field (W3C Trace Context) of a sampled request. Returns whether it is one. */
bool uvhttp__trace_id_read(uvhttp__trace_id_t *id, const char *text, size_t size);
/* Keeps a request as the example of its bucket. Loop's thread. */
void uvhttp__exemplar_put(uvhttp__series_shard_t *shard, const uvhttp__series_t *series, const uvhttp__trace_id_t *id,
                          uint64_t ns);
/* Any thread: reads the exemplar at 0..UVHTTP__EXEMPLARS - 1. Returns false if there is none, or it is being written.
 */
bool uvhttp__exemplar_get(const uvhttp__series_shard_t *shard, unsigned index, uvhttp__exemplar_view_t *view);

#endif
