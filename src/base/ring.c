/* Owns: the ring by which one thread passes records to another. */
#include "base/ring.h"

#include <string.h>

#include "base/alloc.h"

uvhttp__ring_t *uvhttp__ring_new(uint32_t size) {
    uvhttp__ring_t *ring = uvhttp__alloc_aligned(alignof(uvhttp__ring_t), sizeof *ring + size);
    if (!ring) return NULL;
    memset(ring, 0, sizeof *ring); /* not the data: it costs memory when it is used */
    ring->mask = size - 1;
    return ring;
}

void uvhttp__ring_free(uvhttp__ring_t *ring) {
    uvhttp__free_aligned(ring);
}

void *uvhttp__ring_reserve(uvhttp__ring_t *ring, size_t size) {
    size = (size + 7) & ~(size_t)7;
    uint64_t put = atomic_load_explicit(&ring->put, memory_order_relaxed), capacity = ring->mask + 1;
    uint64_t to_end = capacity - (put & ring->mask), skipped = to_end < size ? to_end : 0;
    if (put + skipped + size - ring->consumed_seen > capacity / 2) {
        ring->consumed_seen = atomic_load_explicit(&ring->consumed, memory_order_acquire);
        if (put + skipped + size - ring->consumed_seen > capacity) {
            atomic_store_explicit(&ring->dropped, atomic_load_explicit(&ring->dropped, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
            return NULL;
        }
    }
    if (skipped > 0) memset(ring->data + (put & ring->mask), 0, sizeof(uint32_t)); /* to_end is a multiple of 8 */
    uvhttp__ring_record_t *record = (void *)(ring->data + ((put + skipped) & ring->mask));
    record->size = (uint32_t)size;
    ring->reserved = put + skipped + size;
    return record;
}

uint64_t uvhttp__ring_commit(uvhttp__ring_t *ring) {
    atomic_store_explicit(&ring->put, ring->reserved, memory_order_release);
    return ring->reserved - ring->consumed_seen;
}

const void *uvhttp__ring_peek(uvhttp__ring_t *ring) {
    uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    if (consumed == atomic_load_explicit(&ring->put, memory_order_acquire)) return NULL;
    const char *at = ring->data + (consumed & ring->mask);
    uvhttp__ring_record_t record;
    memcpy(&record, at, sizeof record);
    if (record.size > 0) return at;
    /* The next one is at the start. */
    atomic_store_explicit(&ring->consumed, consumed + ring->mask + 1 - (consumed & ring->mask), memory_order_release);
    return ring->data;
}

void uvhttp__ring_release(uvhttp__ring_t *ring, const void *record) {
    uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    atomic_store_explicit(&ring->consumed, consumed + ((const uvhttp__ring_record_t *)record)->size,
                          memory_order_release);
}
