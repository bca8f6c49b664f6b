/* Owns: the histogram: counts of uint64 values (nanoseconds mostly) in buckets that grow with the value. May include:
 * base.
 *
 * 32 buckets per power of two: a bucket is at most 1/32 of its lower bound wide, and what a percentile says is within
 * 1/64 (1.6 %) of the true value; below 64 it is exact. The whole range of uint64, fixed size, no allocation.
 * One thread records; any may read at the same time. */
#ifndef UVHTTP_SRC_OBS_HISTOGRAM_H
#define UVHTTP_SRC_OBS_HISTOGRAM_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <uvhttp/types.h>

#define UVHTTP__HISTOGRAM_SUB_BITS 5 /* log2 of buckets per power of two */
#define UVHTTP__HISTOGRAM_BUCKETS ((64 - UVHTTP__HISTOGRAM_SUB_BITS + 1) << UVHTTP__HISTOGRAM_SUB_BITS)

typedef struct uvhttp__histogram {
    alignas(64) _Atomic uint64_t sum; /* of all values, wrapping */
    _Atomic uint64_t min;             /* UINT64_MAX when empty */
    _Atomic uint64_t max;             /* 0 when empty */
    _Atomic uint64_t buckets[UVHTTP__HISTOGRAM_BUCKETS];
} uvhttp__histogram_t;

static_assert(sizeof(uvhttp__histogram_t) <= 16384, "one per loop and kind of route");

/* Empties it. Recorder's thread, or before others know it. */
void uvhttp__histogram_init(uvhttp__histogram_t *histogram);

/* The bucket of a value: its six highest bits and how far they were shifted. */
static inline unsigned uvhttp__histogram_index(uint64_t value) {
    const unsigned sub = UVHTTP__HISTOGRAM_SUB_BITS;
    unsigned shift = 63 - (unsigned)__builtin_clzll(value | UINT64_C(1) << sub) - sub;
    return (shift << sub) + (unsigned)(value >> shift);
}

/* The least and the greatest value of a bucket. */
uint64_t uvhttp__histogram_low(unsigned index);
uint64_t uvhttp__histogram_high(unsigned index);

/* Records a value n times. Recorder's thread. */
static inline void uvhttp__histogram_record_n(uvhttp__histogram_t *histogram, uint64_t value, uint64_t n) {
    if (n == 0) return;
    _Atomic uint64_t *bucket = &histogram->buckets[uvhttp__histogram_index(value)];
    /* One writer, so load and store: no locked instruction. */
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + n, memory_order_relaxed);
    uint64_t sum = atomic_load_explicit(&histogram->sum, memory_order_relaxed);
    atomic_store_explicit(&histogram->sum, sum + value * n, memory_order_relaxed);
    if (value < atomic_load_explicit(&histogram->min, memory_order_relaxed))
        atomic_store_explicit(&histogram->min, value, memory_order_relaxed);
    if (value > atomic_load_explicit(&histogram->max, memory_order_relaxed))
        atomic_store_explicit(&histogram->max, value, memory_order_relaxed);
}

static inline void uvhttp__histogram_record(uvhttp__histogram_t *histogram, uint64_t value) {
    uvhttp__histogram_record_n(histogram, value, 1);
}

/* Adds what `from` holds to `to`; `to` is the caller's thread's, `from` may be recorded into meanwhile. Into an empty
 * one it makes a snapshot: read several figures from a snapshot, that they agree with each other. */
void uvhttp__histogram_merge(uvhttp__histogram_t *to, const uvhttp__histogram_t *from);

uint64_t uvhttp__histogram_count(const uvhttp__histogram_t *histogram);
uint64_t uvhttp__histogram_min(const uvhttp__histogram_t *histogram); /* exact; 0 when empty */
uint64_t uvhttp__histogram_max(const uvhttp__histogram_t *histogram); /* exact; 0 when empty */
double uvhttp__histogram_mean(const uvhttp__histogram_t *histogram);  /* exact but for rounding; 0 when empty */
double uvhttp__histogram_stdev(const uvhttp__histogram_t *histogram); /* of the population, from the buckets' middles */

/* The value that `percent` (0..100) of the values do not exceed: the middle of its bucket, within min and max; 0 gives
 * the minimum, 100 the maximum; 0 when empty. */
uint64_t uvhttp__histogram_percentile(const uvhttp__histogram_t *histogram, double percent);

#endif
