/* Owns: the ring by which a loop hands entries to the log's thread. May include: base.
 *
 * Positions only grow, and are taken modulo the size. An entry lies in one piece: what is left at the end of the memory
 * when one does not fit is skipped, marked by an entry of size 0 if there is room for its size. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "middleware/access_log.h"

uvhttp__entry_ring_t *uvhttp__entry_ring_new(uint32_t size) {
    uvhttp__entry_ring_t *ring = uvhttp__alloc_aligned(alignof(uvhttp__entry_ring_t), sizeof *ring + size);
    if (!ring) return NULL;
    memset(ring, 0, sizeof *ring); /* not the data: it costs memory when it is used */
    ring->mask = size - 1;
    return ring;
}

void uvhttp__entry_ring_free(uvhttp__entry_ring_t *ring) {
    uvhttp__free_aligned(ring);
}

static size_t field_size(const uvhttp__entry_source_t *source, int field) {
    size_t size = source->fields[field].size;
    return size < UVHTTP__ENTRY_FIELD_SIZE_MAX ? size : UVHTTP__ENTRY_FIELD_SIZE_MAX;
}

static void fill(uvhttp__entry_t *entry, const uvhttp__entry_source_t *source, uint32_t size) {
    *entry = source->entry;
    entry->size = size;
    entry->cut = 0;
    char *out = (char *)(entry + 1);
    for (int i = 0; i < UVHTTP__ENTRY_FIELD_COUNT; i++) {
        size_t consumed = field_size(source, i);
        entry->sizes[i] = source->fields[i].data ? (uint16_t)consumed : UVHTTP__ENTRY_ABSENT;
        if (consumed < source->fields[i].size) entry->cut |= (uint16_t)(1u << i);
        assert(source->fields[i].data || consumed == 0);
        if (consumed > 0) memcpy(out, source->fields[i].data, consumed);
        out += consumed;
    }
}

uint64_t uvhttp__entry_ring_put(uvhttp__entry_ring_t *ring, const uvhttp__entry_source_t *source) {
    size_t size = sizeof(uvhttp__entry_t);
    for (int i = 0; i < UVHTTP__ENTRY_FIELD_COUNT; i++) size += field_size(source, i);
    size = (size + 7) & ~(size_t)7;
    uint64_t put = atomic_load_explicit(&ring->put, memory_order_relaxed), capacity = ring->mask + 1;
    uint64_t to_end = capacity - (put & ring->mask), skipped = to_end < size ? to_end : 0;
    if (put + skipped + size - ring->consumed_seen > capacity / 2) {
        ring->consumed_seen = atomic_load_explicit(&ring->consumed, memory_order_acquire);
        if (put + skipped + size - ring->consumed_seen > capacity) {
            atomic_store_explicit(&ring->dropped, atomic_load_explicit(&ring->dropped, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
            return 0;
        }
    }
    if (skipped > 0) memset(ring->data + (put & ring->mask), 0, sizeof(uint32_t)); /* to_end is a multiple of 8 */
    put += skipped;
    fill((uvhttp__entry_t *)(void *)(ring->data + (put & ring->mask)), source, (uint32_t)size);
    atomic_store_explicit(&ring->put, put + size, memory_order_release);
    return put + size - ring->consumed_seen;
}

const uvhttp__entry_t *uvhttp__entry_ring_peek(uvhttp__entry_ring_t *ring) {
    uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    if (consumed == atomic_load_explicit(&ring->put, memory_order_acquire)) return NULL;
    const char *at = ring->data + (consumed & ring->mask);
    uint32_t size;
    memcpy(&size, at, sizeof size);
    if (size == 0) { /* the next one begins at the begin */
        atomic_store_explicit(&ring->consumed, consumed + ring->mask + 1 - (consumed & ring->mask),
                              memory_order_release);
        at = ring->data;
    }
    return (const uvhttp__entry_t *)(const void *)at;
}

void uvhttp__entry_ring_release(uvhttp__entry_ring_t *ring, const uvhttp__entry_t *entry) {
    uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    atomic_store_explicit(&ring->consumed, consumed + entry->size, memory_order_release);
}
