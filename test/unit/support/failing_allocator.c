#include "failing_allocator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uvhttp/alloc.h>

/* Stands before every block; 16 bytes, so that the block is aligned as malloc would. */
typedef struct header {
    size_t size;
    size_t mark;
} header_t;

#define MARK ((size_t)0x5eedb10c)

static atomic_size_t count, live, live_bytes;
static atomic_size_t fail_first, fail_last; /* of `count`, both included; 0: never */
static atomic_bool failed;

static bool fails(void) {
    size_t number = atomic_fetch_add(&count, 1) + 1;
    size_t first = atomic_load(&fail_first);
    if (first == 0 || number < first || number > atomic_load(&fail_last)) return false;
    atomic_store(&failed, true);
    return true;
}

static void *hook_malloc(size_t size, void *user) {
    (void)user;
    if (fails() || size > SIZE_MAX - sizeof(header_t)) return NULL;
    header_t *header = malloc(sizeof *header + size);
    if (!header) return NULL;
    *header = (header_t){size, MARK};
    memset(header + 1, 0xa5, size); /* nobody may rely on zeros */
    atomic_fetch_add(&live, 1);
    atomic_fetch_add(&live_bytes, size);
    return header + 1;
}

static void *hook_calloc(size_t n, size_t size, void *user) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
    void *memory = hook_malloc(bytes, user);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

static void hook_free(void *memory, void *user) {
    (void)user;
    if (!memory) return;
    header_t *header = (header_t *)memory - 1;
    assert_int_equal(header->mark, MARK);
    header->mark = 0;
    atomic_fetch_sub(&live, 1);
    atomic_fetch_sub(&live_bytes, header->size);
    free(header);
}

/* Always moves, which finds those who keep the old address. */
static void *hook_realloc(void *memory, size_t size, void *user) {
    void *moved = hook_malloc(size, user);
    if (!moved || !memory) return moved;
    size_t old_size = ((header_t *)memory - 1)->size;
    memcpy(moved, memory, old_size < size ? old_size : size);
    hook_free(memory, user);
    return moved;
}

void test_allocator_install(void) {
    static const uvhttp_allocator_t allocator = {hook_malloc, hook_calloc, hook_realloc, hook_free, NULL};
    if (uvhttp_set_allocator(&allocator) != UVHTTP_OK) abort();
}

static void fail_between(size_t first, size_t last) {
    atomic_store(&failed, false);
    atomic_store(&fail_last, last);
    atomic_store(&fail_first, first);
}

void test_allocator_fail_at(size_t n) {
    size_t number = n ? atomic_load(&count) + n : 0;
    fail_between(number, number);
}

void test_allocator_fail_from(size_t n) {
    fail_between(atomic_load(&count) + n, SIZE_MAX);
}

bool test_allocator_failed(void) {
    return atomic_load(&failed);
}

size_t test_allocator_count(void) {
    return atomic_load(&count);
}

size_t test_allocator_live(void) {
    return atomic_load(&live);
}

size_t test_allocator_live_bytes(void) {
    return atomic_load(&live_bytes);
}

size_t test_allocator_each_failure(void (*attempt)(void *user), void *user) {
    size_t n = 0;
    bool any;
    do {
        size_t before = test_allocator_live();
        test_allocator_fail_at(++n);
        attempt(user);
        any = test_allocator_failed();
        test_allocator_fail_at(0);
        assert_int_equal(test_allocator_live(), before);
    } while (any);
    return n - 1;
}
