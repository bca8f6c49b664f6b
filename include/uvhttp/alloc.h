/* Owns: the allocator hook: where the library's memory comes from. May include: base. */
#ifndef UVHTTP_ALLOC_H
#define UVHTTP_ALLOC_H

#include <uvhttp/error.h>

UVHTTP_BEGIN_DECLS

/** An allocator with the contracts of the C library's functions: 16-byte aligned results, NULL when out of memory,
 * `free` takes NULL, `realloc` leaves the block alone when it fails. Called from any thread, also at the same time. */
typedef struct uvhttp_allocator {
    void *(*malloc)(size_t size, void *user);
    void *(*calloc)(size_t count, size_t size, void *user); /**< must refuse when count * size overflows */
    void *(*realloc)(void *memory, size_t size, void *user);
    void (*free)(void *memory, void *user);
    void *user; /**< passed to every call */
} uvhttp_allocator_t;

/** Lets all memory of the library come from `allocator`, whose content is copied; what its functions use must live
 * until the process ends. Without this call it is mimalloc if the library was built with it, else the C library. Call
 * it once, before anything else of uvhttp and before threads start. An aligned block of n bytes (the library's slabs
 * take 32 KiB ones) asks `malloc` for up to 2n, of which the rest stays untouched.
 * Returns 0, UVHTTP_E_INVALID (NULL, or one of the functions is NULL) or UVHTTP_E_STATE (an allocator was set before,
 * or the library has already allocated something). */
UVHTTP_EXPORT int uvhttp_set_allocator(const uvhttp_allocator_t *allocator);

UVHTTP_END_DECLS

#endif
