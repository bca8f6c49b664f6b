#include "failing_allocator.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/alloc.h>

/* Stands before every block; 16 bytes, so that the block is aligned as malloc would. */
typedef struct header {
    size_t size;
    size_t mark;
} header_t;

#define MARK ((size_t)0x5eedb10c)

static test_allocator_t own, *state = &own;
static void (*on_failure)(void);
static size_t call_number; /* of `count`; 0: none */
static void (*called)(void);

static bool fails(void) {
    size_t number = atomic_fetch_add(&state->count, 1) + 1;
    if (number == call_number) called();
    size_t first = atomic_load(&state->fail_first);
    if (first == 0 || number < first || number > atomic_load(&state->fail_last)) return false;
    atomic_store(&state->failed, true);
    if (on_failure) on_failure();
    return true;
}

static void *hook_malloc(size_t size, void *user) {
    (void)user;
    if (fails() || size > SIZE_MAX - sizeof(header_t)) return NULL;
    header_t *header = malloc(sizeof *header + size);
    if (!header) return NULL;
    *header = (header_t){size, MARK};
    memset(header + 1, 0xa5, size); /* nobody may rely on zeros */
    atomic_fetch_add(&state->live, 1);
    atomic_fetch_add(&state->live_bytes, size);
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
    if (header->mark != MARK) {
        fprintf(stderr, "memory is freed that is not out: corrupted, or a double free\n");
        abort();
    }
    header->mark = 0;
    memset(header + 1, 0xdd, header->size); /* nobody may use it any more */
    atomic_fetch_sub(&state->live, 1);
    atomic_fetch_sub(&state->live_bytes, header->size);
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
    test_allocator_install_at(&own, NULL);
}

void test_allocator_install_at(test_allocator_t *where, void (*failing)(void)) {
    state = where;
    on_failure = failing;
    static const uvhttp_allocator_t allocator = {hook_malloc, hook_calloc, hook_realloc, hook_free, NULL};
    if (uvhttp_set_allocator(&allocator) != UVHTTP_OK) abort();
}

static void fail_between(size_t first, size_t last) {
    atomic_store(&state->failed, false);
    atomic_store(&state->fail_last, last);
    atomic_store(&state->fail_first, first);
}

void test_allocator_fail_at(size_t n) {
    size_t number = n ? atomic_load(&state->count) + n : 0;
    fail_between(number, number);
}

void test_allocator_fail_from(size_t n) {
    fail_between(atomic_load(&state->count) + n, SIZE_MAX);
}

void test_allocator_call_at(size_t n, void (*call)(void)) {
    called = call;
    call_number = atomic_load(&state->count) + n;
}

bool test_allocator_failed(void) {
    return atomic_load(&state->failed);
}

size_t test_allocator_count(void) {
    return atomic_load(&state->count);
}

size_t test_allocator_live(void) {
    return atomic_load(&state->live);
}

size_t test_allocator_live_bytes(void) {
    return atomic_load(&state->live_bytes);
}
