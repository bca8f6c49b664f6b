/* Owns: the chunks of a slab. May include: alloc, list. */
#include "base/slab.h"

#include "base/alloc.h"
#include "base/sanitize.h"

typedef struct free_object {
    struct free_object *next;
} free_object_t;

/* At the start of its memory, which is aligned: an object finds it by masking its own address. */
typedef struct chunk {
    uvhttp__list_t link; /* in slab->partial or slab->full */
    free_object_t *free; /* objects given back, the last one first: it is the warmest */
    uint32_t in_use;     /* objects */
    uint32_t fresh;      /* objects from this index on were never used, and their memory never touched */
} chunk_t;

#define HEADER_SIZE 64u

static_assert(sizeof(chunk_t) <= HEADER_SIZE, "objects begin on a cache line");

static chunk_t *chunk_of(void *object) {
    return (chunk_t *)(void *)((char *)object - ((uintptr_t)object & (UVHTTP__SLAB_CHUNK_ALIGNMENT - 1)));
}

void uvhttp__slab_init(uvhttp__slab_t *slab, size_t object_size) {
    assert(object_size > 0 && object_size <= UVHTTP__SLAB_OBJECT_SIZE_MAX);
    uint32_t size = ((uint32_t)object_size + 15) & ~15u;
    *slab = (uvhttp__slab_t){.object_size = size, .chunk_objects = (UVHTTP__SLAB_CHUNK_SIZE - HEADER_SIZE) / size};
    uvhttp__list_init(&slab->partial);
    uvhttp__list_init(&slab->full);
}

static void chunk_free(uvhttp__slab_t *slab, chunk_t *chunk) {
    uvhttp__list_remove(&chunk->link);
    slab->chunk_count--;
    UVHTTP__UNPOISON(chunk, UVHTTP__SLAB_CHUNK_SIZE);
    uvhttp__free_aligned(chunk);
}

void uvhttp__slab_deinit(uvhttp__slab_t *slab) {
    uvhttp__list_splice(&slab->partial, &slab->full);
    while (!uvhttp__list_empty(&slab->partial))
        chunk_free(slab, UVHTTP__CONTAINER_OF(uvhttp__list_front(&slab->partial), chunk_t, link));
    assert(slab->chunk_count == 0);
    slab->empty_count = 0;
    slab->in_use = 0;
}

static chunk_t *chunk_add(uvhttp__slab_t *slab) {
    chunk_t *chunk = uvhttp__alloc_aligned(UVHTTP__SLAB_CHUNK_ALIGNMENT, UVHTTP__SLAB_CHUNK_SIZE);
    if (!chunk) return NULL;
    *chunk = (chunk_t){0};
    uvhttp__list_init(&chunk->link);
    UVHTTP__POISON((char *)chunk + HEADER_SIZE, UVHTTP__SLAB_CHUNK_SIZE - HEADER_SIZE);
    uvhttp__list_push_front(&slab->partial, &chunk->link);
    slab->chunk_count++;
    slab->empty_count++;
    return chunk;
}

void *uvhttp__slab_alloc(uvhttp__slab_t *slab) {
    uvhttp__list_t *front = uvhttp__list_front(&slab->partial);
    chunk_t *chunk = front ? UVHTTP__CONTAINER_OF(front, chunk_t, link) : chunk_add(slab);
    if (!chunk) return NULL;
    void *object = chunk->free;
    if (object) {
        UVHTTP__UNPOISON(object, slab->object_size);
        chunk->free = chunk->free->next;
    } else {
        object = (char *)chunk + HEADER_SIZE + (size_t)chunk->fresh++ * slab->object_size;
        UVHTTP__UNPOISON(object, slab->object_size);
    }
    if (chunk->in_use++ == 0) slab->empty_count--;
    slab->in_use++;
    if (chunk->in_use == slab->chunk_objects) {
        uvhttp__list_remove(&chunk->link);
        uvhttp__list_push_back(&slab->full, &chunk->link);
    }
    return object;
}

void uvhttp__slab_free(uvhttp__slab_t *slab, void *object) {
    chunk_t *chunk = chunk_of(object);
    assert(((uintptr_t)object - (uintptr_t)chunk - HEADER_SIZE) % slab->object_size == 0);
    assert(chunk->in_use > 0 && slab->in_use > 0);
    bool was_full = chunk->in_use == slab->chunk_objects;
    free_object_t *freed = object;
    freed->next = chunk->free;
    chunk->free = freed;
    UVHTTP__POISON(object, slab->object_size);
    slab->in_use--;
    chunk->in_use--;
    if (was_full || chunk->in_use == 0) uvhttp__list_remove(&chunk->link);
    if (chunk->in_use == 0) {
        /* At the back it is used last, so that it stays empty while others have free objects. */
        uvhttp__list_push_back(&slab->partial, &chunk->link);
        if (slab->empty_count > 0)
            chunk_free(slab, chunk);
        else
            slab->empty_count = 1;
    } else if (was_full) {
        uvhttp__list_push_front(&slab->partial, &chunk->link);
    }
}
