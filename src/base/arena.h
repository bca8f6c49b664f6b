/* Owns: the bump arena: memory of one request, all given back at once. One thread at a time. May include: alloc. */
#ifndef UVHTTP_SRC_BASE_ARENA_H
#define UVHTTP_SRC_BASE_ARENA_H

#include <assert.h>
#include <uvhttp/types.h>

#include "base/sanitize.h"

/* Bytes of an ordinary block, its header included. Requests for more than half of it get a block of their own. */
#define UVHTTP__ARENA_BLOCK_SIZE 4096u

typedef struct uvhttp__arena_block uvhttp__arena_block_t;

typedef struct uvhttp__arena {
    char *at, *end;                /* free bytes of the block in use; both NULL before the first */
    uvhttp__arena_block_t *blocks; /* own blocks, in any order */
    uvhttp__arena_block_t *spare;  /* a block that is not in use: of the default size, or a small one; or NULL */
    char *first;                   /* the caller's block, or NULL */
    size_t first_size;             /* bytes */
    size_t used;                   /* bytes handed out since init or reset, rounded up as they were aligned */
    size_t size_max;               /* limit of `used` */
} uvhttp__arena_t;

static_assert(sizeof(uvhttp__arena_t) == 8 * sizeof(void *), "an arena is part of every request");

/* `first` (first_size bytes, used before anything is allocated) may be NULL; it is the caller's and stays until deinit.
 * `size_max` bounds what is handed out; SIZE_MAX: no limit. Allocates nothing. */
void uvhttp__arena_init(uvhttp__arena_t *arena, void *first, size_t first_size, size_t size_max);

/* Gives back everything that was allocated, keeping at most one block for the next request: of the default size or
 * less. */
void uvhttp__arena_reset_blocks(uvhttp__arena_t *arena);
/* The same if nothing was allocated. */
static inline void uvhttp__arena_rewind(uvhttp__arena_t *arena) {
    arena->used = 0;
    arena->at = arena->first;
    arena->end = arena->first ? arena->first + arena->first_size : NULL;
    if (arena->first) UVHTTP__POISON(arena->first, arena->first_size);
}
static inline void uvhttp__arena_reset(uvhttp__arena_t *arena) {
    uvhttp__arena_rewind(arena);
    if (__builtin_expect(arena->blocks != NULL, 0)) uvhttp__arena_reset_blocks(arena);
}

/* Gives back everything, that block too. The arena may be used again. */
void uvhttp__arena_deinit(uvhttp__arena_t *arena);

void *uvhttp__arena_alloc_slow(uvhttp__arena_t *arena, size_t size, size_t alignment);

static inline void *uvhttp__arena_alloc_with(uvhttp__arena_t *arena, size_t size, size_t alignment) {
    size_t padding = (size_t) - (uintptr_t)arena->at & (alignment - 1);
    size_t capacity = (size_t)(arena->end - arena->at), limit = arena->size_max - arena->used;
    if (padding < capacity && size <= capacity - padding && padding + size <= limit) {
        char *memory = arena->at + padding;
        arena->at = memory + size;
        arena->used += padding + size;
        UVHTTP__UNPOISON(memory, size);
        return memory;
    }
    return uvhttp__arena_alloc_slow(arena, size, alignment);
}

/* `size` bytes, 16-byte aligned, not cleared, valid until reset or deinit. NULL: out of memory, or the limit is
 * reached. */
UVHTTP_MUST_USE static inline void *uvhttp__arena_alloc(uvhttp__arena_t *arena, size_t size) {
    return uvhttp__arena_alloc_with(arena, size, 16);
}

/* The same without alignment, for text. */
UVHTTP_MUST_USE static inline char *uvhttp__arena_alloc_bytes(uvhttp__arena_t *arena, size_t size) {
    return uvhttp__arena_alloc_with(arena, size, 1);
}

void *uvhttp__arena_alloc_uncounted_slow(uvhttp__arena_t *arena, size_t size, size_t alignment);

/* The same, `alignment` of 1 to 16, for the library's own, which is bounded elsewhere: neither held up by the limit nor
 * counted in `used`, so that the limit stays exactly what the application may have. It never begins a block of the
 * default size, so that a request which waits holds no more than it needs. NULL only when out of memory. */
UVHTTP_MUST_USE static inline void *uvhttp__arena_alloc_uncounted(uvhttp__arena_t *arena, size_t size,
                                                                  size_t alignment) {
    size_t padding = (size_t) - (uintptr_t)arena->at & (alignment - 1);
    size_t capacity = (size_t)(arena->end - arena->at);
    if (padding >= capacity || size > capacity - padding)
        return uvhttp__arena_alloc_uncounted_slow(arena, size, alignment);
    char *memory = arena->at + padding;
    arena->at = memory + size;
    UVHTTP__UNPOISON(memory, size);
    return memory;
}

/* Makes the next `size` bytes, alignment included, come from one block: the current one, the one that was kept, or a
 * new one of that size. Without memory nothing happens. */
void uvhttp__arena_reserve(uvhttp__arena_t *arena, size_t size);

/* A copy of `str` with a NUL behind it that is not counted. Returns data NULL when there is no memory. */
uvhttp_str_t uvhttp__arena_copy(uvhttp__arena_t *arena, uvhttp_str_t str);

#endif
