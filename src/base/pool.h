/* Owns: pooled buffers of one loop, and buffers that grow within them. One thread at a time. May include: alloc. */
#ifndef UVHTTP_SRC_BASE_POOL_H
#define UVHTTP_SRC_BASE_POOL_H

#include <assert.h>
#include <uvhttp/error.h>
#include <uvhttp/types.h>

/* The classes are 4, 16 and 64 KiB; what is larger comes from the allocator and is never cached. */
#define UVHTTP__POOL_CLASS_COUNT 3
#define UVHTTP__POOL_CLASS_SIZE_MIN 4096u
#define UVHTTP__POOL_CLASS_SIZE_MAX 65536u

typedef struct uvhttp__pool {
    struct uvhttp__pool_free *cached[UVHTTP__POOL_CLASS_COUNT]; /* free buffers, the last freed first */
    size_t cached_bytes, cached_bytes_max;
    size_t in_use_bytes; /* capacity of the buffers that are out */
    size_t in_use;       /* how many those are */
} uvhttp__pool_t;

/* A buffer: empty (all zero) or `capacity` bytes of a pool, of which the first `size` mean something. */
typedef struct uvhttp__buf {
    char *data;
    uint32_t size;     /* bytes */
    uint32_t capacity; /* bytes; 0 when data is NULL */
} uvhttp__buf_t;

static_assert(sizeof(uvhttp__buf_t) == 16, "two words: connections embed it");

/* Keeps at most `cached_bytes_max` of free buffers. Allocates nothing. */
void uvhttp__pool_init(uvhttp__pool_t *pool, size_t cached_bytes_max);

/* Gives the cached buffers back. No buffer may be out. */
void uvhttp__pool_deinit(uvhttp__pool_t *pool);

/* Gives the cached buffers back. */
void uvhttp__pool_trim(uvhttp__pool_t *pool);

/* Makes room for `capacity` bytes in all, keeping the content: at least doubles, but never goes above `capacity_max`
 * (rounded up to the class it falls into). Returns 0, UVHTTP_E_LIMIT (capacity > capacity_max) or UVHTTP_E_NOMEM; on
 * failure the buffer is as it was. */
UVHTTP_MUST_USE int uvhttp__buf_reserve(uvhttp__pool_t *pool, uvhttp__buf_t *buf, size_t capacity, size_t capacity_max);

/* Appends, growing as uvhttp__buf_reserve does: buf->size never goes above `size_max`. */
UVHTTP_MUST_USE int uvhttp__buf_append(uvhttp__pool_t *pool, uvhttp__buf_t *buf, const char *data, size_t size,
                                       size_t size_max);

/* Drops the first `size` bytes, moving the rest down. */
void uvhttp__buf_consume(uvhttp__buf_t *buf, size_t size);

/* Gives the memory back to the pool; the buffer is empty then. Does nothing to an empty one. */
void uvhttp__buf_release(uvhttp__pool_t *pool, uvhttp__buf_t *buf);

#endif
