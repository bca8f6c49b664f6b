/* Owns: see memory_limit.h. */
#include "memory_limit.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <uvhttp.h>

static atomic_ptrdiff_t left;

static bool take(size_t size) {
    ptrdiff_t now = atomic_load(&left);
    do {
        if (now < 0 || (size_t)now < size) return false;
    } while (!atomic_compare_exchange_weak(&left, &now, now - (ptrdiff_t)size));
    return true;
}

static void give(size_t size) {
    atomic_fetch_add(&left, (ptrdiff_t)size);
}

/* What counts is what a block has, not what was asked for: that is what its end gives back. The last block may have
 * more than is left. */
static void *settle(void *memory, size_t asked) {
    give(asked);
    atomic_fetch_sub(&left, memory ? (ptrdiff_t)malloc_usable_size(memory) : 0);
    return memory;
}

static void *limited_malloc(size_t size, void *user) {
    (void)user;
    return take(size) ? settle(malloc(size), size) : NULL;
}

static void *limited_calloc(size_t count, size_t size, void *user) {
    (void)user;
    if (size && count > SIZE_MAX / size) return NULL;
    return take(count * size) ? settle(calloc(count, size), count * size) : NULL;
}

static void limited_free(void *memory, void *user) {
    (void)user;
    give(malloc_usable_size(memory));
    free(memory);
}

static void *limited_realloc(void *memory, size_t size, void *user) {
    (void)user;
    if (!take(size)) return NULL;
    size_t before = malloc_usable_size(memory);
    void *made = settle(realloc(memory, size), size);
    if (made) give(before);
    return made;
}

int limit_memory(const char *bytes) {
    atomic_store(&left, strtoll(bytes, NULL, 10));
    return uvhttp_set_allocator(
        &(uvhttp_allocator_t){limited_malloc, limited_calloc, limited_realloc, limited_free, NULL});
}
