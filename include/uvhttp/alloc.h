/* Owns: the allocator hook, which decides where the library's memory comes from. May include: base. */
#ifndef UVHTTP_ALLOC_H
#define UVHTTP_ALLOC_H

#include <uvhttp/error.h>

UVHTTP_BEGIN_DECLS

/** An allocator with the contracts of the C library. Results are 16-byte aligned, and NULL when out of memory. `free`
 * accepts NULL. `realloc` leaves the block unchanged when it fails. Functions are called from any thread, also
 * concurrently. */
typedef struct uvhttp_allocator {
    void *(*malloc)(size_t size, void *user);
    void *(*calloc)(size_t count, size_t size, void *user); /**< must refuse when count * size overflows */
    void *(*realloc)(void *memory, size_t size, void *user);
    void (*free)(void *memory, void *user);
    void *user; /**< passed to every call */
} uvhttp_allocator_t;

/** Makes the library allocate all its memory from `allocator`. The structure is copied; what its functions use must
 * live until the process ends. Without this call the allocator is mimalloc if the library was built with it, else the C
 * library. Call it once, before any other function of uvhttp and before threads start.
 *
 * An aligned block of n bytes asks `malloc` for up to 2n bytes; the unused part is never touched. The library's slabs
 * use aligned blocks of 32 KiB.
 *
 * Returns 0, UVHTTP_E_INVALID (`allocator` or one of its functions is NULL) or UVHTTP_E_STATE (an allocator is already
 * set, or the library has already allocated memory). */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_set_allocator(const uvhttp_allocator_t *allocator);

UVHTTP_END_DECLS

#endif
