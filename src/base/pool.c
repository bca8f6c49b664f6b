/* Owns: the cache of free buffers, and the growth of a buffer. May include: alloc. */
#include "base/pool.h"

#include <string.h>

#include "base/alloc.h"
#include "base/sanitize.h"

/* Stands in the buffer while that is free. */
typedef struct uvhttp__pool_free {
    struct uvhttp__pool_free *next;
} pool_free_t;

/* Capacities above the classes are multiples of this, so that the capacity of a buffer tells where it is from. */
#define LARGE_STEP 4096u
#define CAPACITY_MAX (UINT32_MAX - (LARGE_STEP - 1))

static uint32_t class_size(unsigned class) {
    return UVHTTP__POOL_CLASS_SIZE_MIN << (2 * class);
}

static_assert(UVHTTP__POOL_CLASS_SIZE_MIN << (2 * (UVHTTP__POOL_CLASS_COUNT - 1)) == UVHTTP__POOL_CLASS_SIZE_MAX,
              "a class is four times the one before");

/* The class that holds `capacity` bytes, which are at most UVHTTP__POOL_CLASS_SIZE_MAX. */
static unsigned class_of(uint32_t capacity) {
    unsigned class = 0;
    while (class_size(class) < capacity) class ++;
    return class;
}

static uint32_t round_up(uint32_t capacity) {
    if (capacity <= UVHTTP__POOL_CLASS_SIZE_MAX) return class_size(class_of(capacity));
    return (capacity + LARGE_STEP - 1) & ~(LARGE_STEP - 1);
}

void uvhttp__pool_init(uvhttp__pool_t *pool, size_t cached_bytes_max) {
    *pool = (uvhttp__pool_t){.cached_bytes_max = cached_bytes_max};
}

void uvhttp__pool_trim(uvhttp__pool_t *pool) {
    for (unsigned class = 0; class < UVHTTP__POOL_CLASS_COUNT; class ++) {
        while (pool->cached[class]) {
            pool_free_t *memory = pool->cached[class];
            UVHTTP__UNPOISON(memory, class_size(class));
            pool->cached[class] = memory->next;
            uvhttp__free(memory);
        }
    }
    pool->cached_bytes = 0;
}

void uvhttp__pool_deinit(uvhttp__pool_t *pool) {
    assert(pool->in_use == 0);
    uvhttp__pool_trim(pool);
}

/* `capacity` is what round_up makes. */
static char *take(uvhttp__pool_t *pool, uint32_t capacity) {
    unsigned class = capacity <= UVHTTP__POOL_CLASS_SIZE_MAX ? class_of(capacity) : UVHTTP__POOL_CLASS_COUNT;
    void *memory = NULL;
    if (class < UVHTTP__POOL_CLASS_COUNT && pool->cached[class]) {
        pool_free_t *cached = pool->cached[class];
        UVHTTP__UNPOISON(cached, capacity);
        pool->cached[class] = cached->next;
        pool->cached_bytes -= capacity;
        memory = cached;
    } else {
        memory = uvhttp__malloc(capacity);
        if (!memory) return NULL;
    }
    pool->in_use++;
    pool->in_use_bytes += capacity;
    return memory;
}

static void give(uvhttp__pool_t *pool, char *memory, uint32_t capacity) {
    assert(pool->in_use > 0 && pool->in_use_bytes >= capacity);
    pool->in_use--;
    pool->in_use_bytes -= capacity;
    if (capacity > UVHTTP__POOL_CLASS_SIZE_MAX || capacity > pool->cached_bytes_max - pool->cached_bytes) {
        uvhttp__free(memory);
        return;
    }
    unsigned class = class_of(capacity);
    pool_free_t *cached = (pool_free_t *)(void *)memory;
    cached->next = pool->cached[class];
    pool->cached[class] = cached;
    pool->cached_bytes += capacity;
    UVHTTP__POISON(memory, capacity);
}

static int grow(uvhttp__pool_t *pool, uvhttp__buf_t *buf, uint32_t capacity) {
    if (buf->capacity > UVHTTP__POOL_CLASS_SIZE_MAX) { /* both are the allocator's, which may not have to copy */
        char *moved = uvhttp__realloc(buf->data, capacity);
        if (!moved) return UVHTTP_E_NOMEM;
        pool->in_use_bytes += capacity - buf->capacity;
        buf->data = moved;
        buf->capacity = capacity;
        return UVHTTP_OK;
    }
    char *data = take(pool, capacity);
    if (!data) return UVHTTP_E_NOMEM;
    uint32_t size = buf->size;
    if (size) memcpy(data, buf->data, size);
    uvhttp__buf_release(pool, buf);
    *buf = (uvhttp__buf_t){.data = data, .size = size, .capacity = capacity};
    return UVHTTP_OK;
}

int uvhttp__buf_reserve(uvhttp__pool_t *pool, uvhttp__buf_t *buf, size_t capacity, size_t capacity_max) {
    if (capacity <= buf->capacity) return capacity <= capacity_max ? UVHTTP_OK : UVHTTP_E_LIMIT;
    if (capacity_max > CAPACITY_MAX) capacity_max = CAPACITY_MAX;
    if (capacity > capacity_max) return UVHTTP_E_LIMIT;
    size_t wanted = (size_t)buf->capacity * 2;
    if (wanted < capacity) wanted = capacity;
    if (wanted > capacity_max) wanted = capacity_max;
    return grow(pool, buf, round_up((uint32_t)wanted));
}

int uvhttp__buf_append(uvhttp__pool_t *pool, uvhttp__buf_t *buf, const char *data, size_t size, size_t size_max) {
    if (size > size_max || buf->size > size_max - size) return UVHTTP_E_LIMIT;
    if (size == 0) return UVHTTP_OK;
    int status = uvhttp__buf_reserve(pool, buf, buf->size + size, size_max);
    if (status != UVHTTP_OK) return status;
    memcpy(buf->data + buf->size, data, size);
    buf->size += (uint32_t)size;
    return UVHTTP_OK;
}

void uvhttp__buf_consume(uvhttp__buf_t *buf, size_t size) {
    assert(size <= buf->size);
    if (size == 0) return;
    buf->size -= (uint32_t)size;
    if (buf->size) memmove(buf->data, buf->data + size, buf->size);
}

void uvhttp__buf_release(uvhttp__pool_t *pool, uvhttp__buf_t *buf) {
    if (buf->data) give(pool, buf->data, buf->capacity);
    *buf = (uvhttp__buf_t){0};
}
