/* Owns: the shards of series: finding a series, the end of an iteration. May include: base. */
#include "obs/series.h"

#include "base/alloc.h"

/* --- the shard --- */

uvhttp__series_shard_t *uvhttp__series_shard_new(uint32_t capacity) {
    assert(capacity > 0 && capacity <= UINT16_MAX);
    /* Zeroed by the allocator: pages of series that are never used take no memory. */
    uvhttp__series_shard_t *shard =
        uvhttp__calloc(1, sizeof *shard + (capacity + (size_t)1) * sizeof(uvhttp__series_t));
    uint32_t slots = 2;
    while (slots < 2 * capacity) slots *= 2;
    uint32_t *table = shard ? uvhttp__calloc(slots, sizeof *table) : NULL;
    if (!table) {
        uvhttp__free(shard);
        return NULL;
    }
    shard->slots = table;
    shard->slot_mask = slots - 1;
    shard->capacity = capacity;
    shard->candidate = UVHTTP__SERIES_NONE;
    shard->series[0].key.attributes = UVHTTP__SERIES_OVERFLOW;
    shard->last = &shard->series[0];
    atomic_init(&shard->count, 1);
    return shard;
}

void uvhttp__series_shard_free(uvhttp__series_shard_t *shard) {
    if (!shard) return;
    uvhttp__free(shard->slots);
    uvhttp__free(shard);
}

static uint32_t hash(uvhttp__series_key_t key) {
    uint64_t mixed = ((uint64_t)(uintptr_t)key.route >> 4) * UINT64_C(0x9e3779b97f4a7c15) ^ key.attributes;
    return (uint32_t)((mixed * UINT64_C(0xd6e8feb86659fd93)) >> 32);
}

static NOINLINE uvhttp__series_t *add(uvhttp__series_shard_t *shard, uvhttp__series_key_t key, uint32_t *slot) {
    uint32_t count = atomic_load_explicit(&shard->count, memory_order_relaxed);
    if (count > shard->capacity) return &shard->series[0];
    *slot = count;
    shard->series[count].key = key;
    atomic_store_explicit(&shard->count, count + 1, memory_order_release); /* its key is there */
    return &shard->series[count];
}

/* The table is half empty at least: the search ends. */
NOINLINE uvhttp__series_t *uvhttp__series_look_up(uvhttp__series_shard_t *shard, uvhttp__series_key_t key) {
    for (uint32_t i = hash(key);; i++) {
        uint32_t *slot = &shard->slots[i & shard->slot_mask];
        uvhttp__series_t *series = &shard->series[*slot];
        if (*slot == 0) series = add(shard, key, slot);
        if (series != shard->series && (series->key.route != key.route || series->key.attributes != key.attributes))
            continue;
        if (series != shard->series) shard->last = series;
        return series;
    }
}

/* --- durations --- */

static inline void record(uvhttp__series_t *series, unsigned index, uint64_t ns, uint64_t n) {
    uvhttp__counter_bump(&series->durations[index], n);
    uvhttp__counter_bump(&series->duration_sum, ns * n);
}

void uvhttp__series_record(uvhttp__series_t *series, uint64_t ns) {
    record(series, uvhttp__duration_index(ns), ns, 1);
}

static NOINLINE void settle_candidate(uvhttp__series_shard_t *shard, uint64_t ns) {
    uvhttp__exemplar_put(shard, &shard->series[shard->candidate], &shard->candidate_id, ns);
    shard->candidate = UVHTTP__SERIES_NONE;
}

UVHTTP__HOT void uvhttp__series_iteration(uvhttp__series_shard_t *shard, uint64_t start_ns, uint64_t ns) {
    unsigned index = uvhttp__duration_index(ns);
    uvhttp__counter_bump(&shard->busy_ns, ns);
    uvhttp__counter_bump(&shard->iterations[index], 1);
    for (uvhttp__series_t *series = shard->pending; series; series = series->next_pending) {
        record(series, index, ns, series->pending);
        series->pending = 0;
    }
    shard->pending = NULL;
    if (UNLIKELY(shard->candidate != UVHTTP__SERIES_NONE)) settle_candidate(shard, ns);
    if (UNLIKELY(start_ns >= shard->exemplar_at_ns)) {
        shard->exemplar_due = true;
        shard->exemplar_at_ns = start_ns + UVHTTP__EXEMPLAR_NS;
    }
}
