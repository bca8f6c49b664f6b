/* Owns: the blocks of an arena. May include: alloc. */
#include "base/arena.h"

#include <string.h>

#include "base/alloc.h"

struct uvhttp__arena_block {
    uvhttp__arena_block_t *next;
    size_t size; /* bytes of data */
    char data[];
};

#define BLOCK_DATA (UVHTTP__ARENA_BLOCK_SIZE - sizeof(uvhttp__arena_block_t))

/* What is above gets a block of its own, so that at most half of an ordinary block is wasted. */
#define BLOCK_SHARE (BLOCK_DATA / 2)

/* Data of the small blocks that are kept for the next request. An arena without a block of the caller's begins with the
 * smallest: most requests need nothing more, and many may wait. */
#define SMALL_MIN (256 - sizeof(uvhttp__arena_block_t))
#define SMALL_MAX (512 - sizeof(uvhttp__arena_block_t))

static_assert(offsetof(uvhttp__arena_block_t, data) == 16, "the data of a block is aligned like the block");

static void use(uvhttp__arena_t *arena, char *data, size_t size) {
    arena->at = data;
    arena->end = data + size;
    UVHTTP__POISON(data, size);
}

static void block_free(uvhttp__arena_block_t *block) {
    if (!block) return;
    UVHTTP__UNPOISON(block->data, block->size);
    uvhttp__free(block);
}

void uvhttp__arena_init(uvhttp__arena_t *arena, void *first, size_t first_size, size_t size_max) {
    assert(first || first_size == 0);
    *arena = (uvhttp__arena_t){.first = first, .first_size = first_size, .size_max = size_max};
    if (first) use(arena, first, first_size);
}

static bool is_worth_keeping(const uvhttp__arena_t *arena, const uvhttp__arena_block_t *block) {
    bool ordinary = block->size == BLOCK_DATA || block->size <= SMALL_MAX;
    return ordinary && (!arena->spare || block->size > arena->spare->size);
}

void uvhttp__arena_reset_blocks(uvhttp__arena_t *arena) {
    uvhttp__arena_block_t *next, *block = arena->blocks;
    for (; block; block = next) {
        next = block->next;
        if (is_worth_keeping(arena, block)) {
            uvhttp__arena_block_t *smaller = arena->spare;
            arena->spare = block;
            block = smaller;
        }
        block_free(block);
    }
    if (arena->spare) UVHTTP__POISON(arena->spare->data, arena->spare->size);
    arena->blocks = NULL;
}

void uvhttp__arena_deinit(uvhttp__arena_t *arena) {
    uvhttp__arena_reset(arena);
    block_free(arena->spare);
    arena->spare = NULL;
    if (arena->first) UVHTTP__UNPOISON(arena->first, arena->first_size);
}

/* A block for `size` bytes, already among the arena's own; NULL when out of memory. */
static uvhttp__arena_block_t *block_take(uvhttp__arena_t *arena, size_t size) {
    uvhttp__arena_block_t *block = arena->spare;
    if (block && block->size >= size) {
        arena->spare = NULL;
        UVHTTP__UNPOISON(block->data, block->size);
    } else {
        if (size > PTRDIFF_MAX - sizeof *block) return NULL;
        block = uvhttp__malloc(sizeof *block + size);
        if (!block) return NULL;
        block->size = size;
    }
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

/* Returns the size of a block with space for `size` bytes, which one block can hold. */
static size_t block_size(const uvhttp__arena_t *arena, size_t size) {
    if (arena->spare && arena->spare->size >= size) return size;
    if (arena->first || arena->blocks || size > SMALL_MAX) return BLOCK_DATA;
    return size <= SMALL_MIN ? SMALL_MIN : SMALL_MAX;
}

/* The block was full, or the maximum is near. A new block needs no padding: all are aligned to 16. */
void *uvhttp__arena_alloc_slow(uvhttp__arena_t *arena, size_t size, size_t alignment) {
    assert(alignment <= 16 && arena->used <= arena->size_max);
    (void)alignment;
    if (size > arena->size_max - arena->used) return NULL;
    bool own = size > BLOCK_SHARE;
    uvhttp__arena_block_t *block = block_take(arena, own ? size : block_size(arena, size));
    if (!block) return NULL;
    arena->used += size;
    if (own) return block->data; /* the current block stays in use: it may have space for more */
    use(arena, block->data, block->size);
    arena->at += size;
    UVHTTP__UNPOISON(block->data, size);
    return block->data;
}

/* The block was full. */
void *uvhttp__arena_alloc_uncounted_slow(uvhttp__arena_t *arena, size_t size, size_t alignment) {
    if (size > SMALL_MIN && !(arena->spare && arena->spare->size >= size)) {
        uvhttp__arena_block_t *block = block_take(arena, size);
        return block ? block->data : NULL;
    }
    uvhttp__arena_reserve(arena, size > SMALL_MIN ? size : SMALL_MIN);
    size_t used = arena->used, size_max = arena->size_max;
    arena->size_max = SIZE_MAX;
    void *memory = uvhttp__arena_alloc_with(arena, size, alignment);
    arena->used = used;
    arena->size_max = size_max;
    return memory;
}

void uvhttp__arena_reserve(uvhttp__arena_t *arena, size_t size) {
    if (size <= (size_t)(arena->end - arena->at)) return;
    uvhttp__arena_block_t *block = block_take(arena, (size + 15) & ~(size_t)15);
    if (block) use(arena, block->data, block->size);
}

uvhttp_str_t uvhttp__arena_copy(uvhttp__arena_t *arena, uvhttp_str_t str) {
    if (str.size == SIZE_MAX) return (uvhttp_str_t){0};
    char *copy = uvhttp__arena_alloc_bytes(arena, str.size + 1);
    if (!copy) return (uvhttp_str_t){0};
    if (str.size) memcpy(copy, str.data, str.size);
    copy[str.size] = '\0';
    return (uvhttp_str_t){copy, str.size};
}
