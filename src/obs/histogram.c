/* Owns: reading a histogram. May include: base. */
#include "obs/histogram.h"

#define SUB_BITS UVHTTP__HISTOGRAM_SUB_BITS

static uint64_t load(const _Atomic uint64_t *value) {
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void store(_Atomic uint64_t *value, uint64_t to) {
    atomic_store_explicit(value, to, memory_order_relaxed);
}

void uvhttp__histogram_init(uvhttp__histogram_t *histogram) {
    store(&histogram->sum, 0);
    store(&histogram->min, UINT64_MAX);
    store(&histogram->max, 0);
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) store(&histogram->buckets[i], 0);
}

/* By how much the values of a bucket were shifted: the inverse of uvhttp__histogram_index. */
static unsigned shift_of(unsigned index) {
    unsigned power = index >> SUB_BITS;
    return power > 1 ? power - 1 : 0;
}

uint64_t uvhttp__histogram_low(unsigned index) {
    assert(index < UVHTTP__HISTOGRAM_BUCKETS);
    unsigned shift = shift_of(index);
    return (uint64_t)(index - (shift << SUB_BITS)) << shift;
}

uint64_t uvhttp__histogram_high(unsigned index) {
    return uvhttp__histogram_low(index) + ((UINT64_C(1) << shift_of(index)) - 1);
}

static uint64_t middle(unsigned index) {
    return uvhttp__histogram_low(index) + ((UINT64_C(1) << shift_of(index)) >> 1);
}

void uvhttp__histogram_merge(uvhttp__histogram_t *to, const uvhttp__histogram_t *from) {
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t n = load(&from->buckets[i]);
        if (n) store(&to->buckets[i], load(&to->buckets[i]) + n);
    }
    store(&to->sum, load(&to->sum) + load(&from->sum));
    if (load(&from->min) < load(&to->min)) store(&to->min, load(&from->min));
    if (load(&from->max) > load(&to->max)) store(&to->max, load(&from->max));
}

uint64_t uvhttp__histogram_count(const uvhttp__histogram_t *histogram) {
    uint64_t count = 0;
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) count += load(&histogram->buckets[i]);
    return count;
}

uint64_t uvhttp__histogram_min(const uvhttp__histogram_t *histogram) {
    uint64_t min = load(&histogram->min);
    return min == UINT64_MAX && load(&histogram->max) == 0 ? 0 : min;
}

uint64_t uvhttp__histogram_max(const uvhttp__histogram_t *histogram) {
    return load(&histogram->max);
}

double uvhttp__histogram_mean(const uvhttp__histogram_t *histogram) {
    uint64_t count = uvhttp__histogram_count(histogram);
    return count ? (double)load(&histogram->sum) / (double)count : 0;
}

/* Newton's method from above, where it falls until it has arrived. The library does without libm. */
static double square_root(double x) {
    if (!(x > 0)) return 0;
    double root = x > 1 ? x : 1;
    for (;;) {
        double better = (root + x / root) / 2;
        if (better >= root) return root;
        root = better;
    }
}

double uvhttp__histogram_stdev(const uvhttp__histogram_t *histogram) {
    double mean = uvhttp__histogram_mean(histogram), squares = 0, count = 0;
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        double n = (double)load(&histogram->buckets[i]), distance = (double)middle(i) - mean;
        squares += n * distance * distance;
        count += n;
    }
    return count > 0 ? square_root(squares / count) : 0;
}

/* How many of the values are to be counted, 1..count. */
static uint64_t rank_of(double percent, uint64_t count) {
    double exact = percent / 100 * (double)count;
    uint64_t rank = (uint64_t)exact;
    if (exact - (double)rank > 1e-6) rank++; /* 99.9 % of 1000 is 999, although the product is a little more */
    return rank < 1 ? 1 : rank > count ? count : rank;
}

uint64_t uvhttp__histogram_percentile(const uvhttp__histogram_t *histogram, double percent) {
    assert(percent >= 0 && percent <= 100);
    uint64_t count = uvhttp__histogram_count(histogram);
    uint64_t min = uvhttp__histogram_min(histogram), max = uvhttp__histogram_max(histogram);
    if (count == 0 || percent <= 0) return min;
    if (percent >= 100) return max;
    uint64_t rank = rank_of(percent, count), seen = 0;
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        seen += load(&histogram->buckets[i]);
        if (seen < rank) continue;
        uint64_t value = middle(i);
        return value < min ? min : value > max ? max : value;
    }
    return max;
}
