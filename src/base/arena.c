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

/* From this size on an uncounted allocation does not begin an ordinary block. */
#define OWN_MIN 256

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

void uvhttp__arena_reset_blocks(uvhttp__arena_t *arena) {
    uvhttp__arena_block_t *next, *block = arena->blocks;
    for (; block; block = next) {
        next = block->next;
        if (!arena->spare && block->size == BLOCK_DATA)
            arena->spare = block;
        else
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
    uvhttp__arena_block_t *block = size == BLOCK_DATA ? arena->spare : NULL;
    if (block) {
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

/* There was no room, or the limit is near. A new block needs no padding: all are aligned to 16. */
void *uvhttp__arena_alloc_slow(uvhttp__arena_t *arena, size_t size, size_t alignment) {
    assert(alignment <= 16 && arena->used <= arena->size_max);
    (void)alignment;
    if (size > arena->size_max - arena->used) return NULL;
    bool own = size > BLOCK_SHARE;
    uvhttp__arena_block_t *block = block_take(arena, own ? size : BLOCK_DATA);
    if (!block) return NULL;
    arena->used += size;
    if (own) return block->data; /* the block in use stays in use: it may have room for more */
    use(arena, block->data, block->size);
    arena->at += size;
    UVHTTP__UNPOISON(block->data, size);
    return block->data;
}

void *uvhttp__arena_alloc_uncounted(uvhttp__arena_t *arena, size_t size, size_t alignment) {
    size_t room = (size_t)(arena->end - arena->at);
    if (size >= OWN_MIN && size + alignment > room && !arena->spare) {
        uvhttp__arena_block_t *block = block_take(arena, size);
        return block ? block->data : NULL;
    }
    size_t used = arena->used, size_max = arena->size_max;
    arena->size_max = SIZE_MAX;
    void *memory = uvhttp__arena_alloc_with(arena, size, alignment);
    arena->used = used;
    arena->size_max = size_max;
    return memory;
}

uvhttp_str_t uvhttp__arena_copy(uvhttp__arena_t *arena, uvhttp_str_t str) {
    if (str.size == SIZE_MAX) return (uvhttp_str_t){0};
    char *copy = uvhttp__arena_alloc_bytes(arena, str.size + 1);
    if (!copy) return (uvhttp_str_t){0};
    if (str.size) memcpy(copy, str.data, str.size);
    copy[str.size] = '\0';
    return (uvhttp_str_t){copy, str.size};
}
