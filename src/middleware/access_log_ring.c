/* Owns: the ring by which a loop passes entries to the log's thread. May include: base. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "middleware/access_log.h"

uvhttp__entry_ring_t *uvhttp__entry_ring_new(uint32_t size) {
    uvhttp__entry_ring_t *ring = uvhttp__calloc(1, sizeof *ring);
    if (!ring) return NULL;
    ring->ring = uvhttp__ring_new(size);
    if (ring->ring) return ring;
    uvhttp__free(ring);
    return NULL;
}

void uvhttp__entry_ring_free(uvhttp__entry_ring_t *ring) {
    uvhttp__ring_free(ring->ring);
    uvhttp__free(ring);
}

static size_t field_size(const uvhttp__entry_source_t *source, int field) {
    size_t size = source->fields[field].size;
    return size < UVHTTP__ENTRY_FIELD_SIZE_MAX ? size : UVHTTP__ENTRY_FIELD_SIZE_MAX;
}

static void fill(uvhttp__entry_t *entry, const uvhttp__entry_source_t *source) {
    const uvhttp__ring_record_t record = entry->record;
    *entry = source->entry;
    entry->record = record;
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
    uvhttp__entry_t *entry = uvhttp__ring_reserve(ring->ring, size);
    if (!entry) return 0;
    fill(entry, source);
    return uvhttp__ring_commit(ring->ring);
}
