/* Owns: the slab: objects of one size without overhead per object. One thread at a time. May include: alloc, list. */
#ifndef UVHTTP_SRC_BASE_SLAB_H
#define UVHTTP_SRC_BASE_SLAB_H

#include <uvhttp/types.h>

#include "base/list.h"

/* Alignment of a chunk: an object finds its chunk by masking its address. */
#define UVHTTP__SLAB_CHUNK_ALIGNMENT 32768u
/* Bytes of a chunk: a little less, so that an allocator which keeps a header before each block (glibc) can put the next
 * chunk right behind. With the full size every chunk would cost a quarter more of memory. */
#define UVHTTP__SLAB_CHUNK_SIZE (UVHTTP__SLAB_CHUNK_ALIGNMENT - 64u)
#define UVHTTP__SLAB_OBJECT_SIZE_MAX 4096u

typedef struct uvhttp__slab {
    uvhttp__list_t
        partial; /* chunks with a free object, the ones to use first in front; wholly empty ones at the back */
    uvhttp__list_t full;
    uint32_t object_size;   /* bytes, a multiple of 16 */
    uint32_t chunk_objects; /* objects of one chunk */
    uint32_t chunk_count;
    uint32_t empty_count; /* of them wholly empty: at most one stays */
    size_t in_use;        /* objects */
} uvhttp__slab_t;

/* `object_size` 1..UVHTTP__SLAB_OBJECT_SIZE_MAX, rounded up to a multiple of 16. Allocates nothing. */
void uvhttp__slab_init(uvhttp__slab_t *slab, size_t object_size);

/* Gives the memory back; objects still in use die with it. */
void uvhttp__slab_deinit(uvhttp__slab_t *slab);

/* An object, 16-byte aligned, not cleared; NULL when out of memory. */
UVHTTP_MUST_USE void *uvhttp__slab_alloc(uvhttp__slab_t *slab);

/* `object` comes from this slab. A second wholly empty chunk goes back to the allocator. */
void uvhttp__slab_free(uvhttp__slab_t *slab, void *object);

static inline size_t uvhttp__slab_in_use(const uvhttp__slab_t *slab) {
    return slab->in_use;
}

/* Objects that fit into the chunks held now. */
static inline size_t uvhttp__slab_capacity(const uvhttp__slab_t *slab) {
    return (size_t)slab->chunk_count * slab->chunk_objects;
}

/* Bytes held from the allocator now. */
static inline size_t uvhttp__slab_bytes(const uvhttp__slab_t *slab) {
    return (size_t)slab->chunk_count * UVHTTP__SLAB_CHUNK_SIZE;
}

#endif
