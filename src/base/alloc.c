/* Owns: the allocator hook, and the allocator without one. May include: nothing. */
#include "base/alloc.h"
#include "base/hot_path.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#if UVHTTP_WITH_MIMALLOC
#include <mimalloc.h>
#define DEFAULT_NAME "mimalloc"
#define default_malloc mi_malloc
#define default_calloc mi_calloc
#define default_realloc mi_realloc
#define default_free mi_free
#define default_aligned(alignment, size) mi_malloc_aligned((size), (alignment))
#else
#define DEFAULT_NAME "libc"
#define default_malloc malloc
#define default_calloc calloc
#define default_realloc realloc
#define default_free free
static void *default_aligned(size_t alignment, size_t size) {
    void *memory;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}
#endif

#define ALIGNMENT_MAX 65536u

/* FRESH until the first allocation or uvhttp_set_allocator, whichever comes first, decides for the rest of the process.
 */
enum { FRESH, DEFAULT, HOOKED };
static _Atomic int state = FRESH;
static uvhttp_allocator_t hook; /* written before state becomes HOOKED, then constant */

int uvhttp_set_allocator(const uvhttp_allocator_t *allocator) {
    if (!allocator || !allocator->malloc || !allocator->calloc || !allocator->realloc || !allocator->free)
        return UVHTTP_E_INVALID;
    if (atomic_load_explicit(&state, memory_order_acquire) != FRESH) return UVHTTP_E_STATE;
    hook = *allocator;
    /* Release: whoever sees HOOKED sees the hook. */
    atomic_store_explicit(&state, HOOKED, memory_order_release);
    return UVHTTP_OK;
}

/* Whether the hook serves; decides it if nothing has yet. */
static bool use_hook(void) {
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (__builtin_expect(now == DEFAULT, 1)) return false;
    if (now == FRESH) atomic_compare_exchange_strong(&state, &now, DEFAULT);
    return now == HOOKED;
}

void *uvhttp__malloc(size_t size) {
    return use_hook() ? hook.malloc(size, hook.user) : default_malloc(size);
}

void *uvhttp__calloc(size_t count, size_t size) {
    return use_hook() ? hook.calloc(count, size, hook.user) : default_calloc(count, size);
}

void *uvhttp__realloc(void *memory, size_t size) {
    return use_hook() ? hook.realloc(memory, size, hook.user) : default_realloc(memory, size);
}

UVHTTP__HOT void uvhttp__free(void *memory) {
    if (use_hook())
        hook.free(memory, hook.user);
    else
        default_free(memory);
}

/* A hook has no aligned form: takes more than is needed, and keeps where that began in the word before the result. */
static void *hook_aligned(size_t alignment, size_t size) {
    char *begin = hook.malloc(size + alignment, hook.user);
    if (!begin) return NULL;
    assert(((uintptr_t)begin & 15) == 0); /* so that there is room for the word */
    char *memory = begin + (alignment - ((uintptr_t)begin & (alignment - 1)));
    ((void **)(void *)memory)[-1] = begin;
    return memory;
}

void *uvhttp__alloc_aligned(size_t alignment, size_t size) {
    assert(alignment >= 16 && alignment <= ALIGNMENT_MAX && (alignment & (alignment - 1)) == 0);
    if (size > PTRDIFF_MAX - ALIGNMENT_MAX) return NULL;
    return use_hook() ? hook_aligned(alignment, size) : default_aligned(alignment, size);
}

void uvhttp__free_aligned(void *memory) {
    if (!use_hook())
        default_free(memory);
    else if (memory)
        hook.free(((void **)memory)[-1], hook.user);
}

void *uvhttp__zlib_alloc(void *opaque, unsigned count, unsigned size) {
    (void)opaque;
    return uvhttp__calloc(count, size);
}

void uvhttp__zlib_free(void *opaque, void *memory) {
    (void)opaque;
    uvhttp__free(memory);
}

const char *uvhttp__allocator_name(void) {
    return atomic_load_explicit(&state, memory_order_relaxed) == HOOKED ? "application" : DEFAULT_NAME;
}
