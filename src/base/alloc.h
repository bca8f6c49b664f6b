/* Owns: memory allocation. All other code calls these functions, never malloc. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_ALLOC_H
#define UVHTTP_SRC_BASE_ALLOC_H

#include <uvhttp/alloc.h>

/* The contracts of the C library: NULL when out of memory, free takes NULL, results are 16-byte aligned. */
UVHTTP_MUST_USE void *uvhttp__malloc(size_t size);
UVHTTP_MUST_USE void *uvhttp__calloc(size_t count, size_t size);
UVHTTP_MUST_USE void *uvhttp__realloc(void *memory, size_t size);
void uvhttp__free(void *memory);

/* `alignment` is a power of two, 16..65536. The result goes to uvhttp__free_aligned and to nothing else. */
UVHTTP_MUST_USE void *uvhttp__alloc_aligned(size_t alignment, size_t size);
void uvhttp__free_aligned(void *memory);

/* uvhttp__calloc and uvhttp__free in the form that zlib asks for (zalloc, zfree). */
void *uvhttp__zlib_alloc(void *opaque, unsigned count, unsigned size);
void uvhttp__zlib_free(void *opaque, void *memory);

/* "mimalloc", "libc" or "application", for the metrics and the version. */
const char *uvhttp__allocator_name(void);

#endif
