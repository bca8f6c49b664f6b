/* Owns: the library's memory in fuzz targets that play whole connections: how much of it there is, and which
 * allocations of a connection fail. Header only. */
#ifndef UVHTTP_TEST_FUZZ_SERVED_MEMORY_H
#define UVHTTP_TEST_FUZZ_SERVED_MEMORY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <uvhttp.h>

enum { MEMORY_WARM_UP = 500, MEMORY_BLOCKS_MAX = 1000 };

static _Noreturn void die(const char *what) {
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    abort();
}

/* The library keeps memory for the next request in objects that are poisoned until then. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void) {
    return "use_poisoned=1";
}

/* --- allocations that fail --- */

/* Of the loop's thread: what other threads allocate, and when, is not the input's choice. */
static _Thread_local bool memory_is_loop;
static struct {
    unsigned before, failures; /* still to come */
    bool starts, failed;
} scarcity;

/* Two bits of an input, and a byte: how many fail, and how many are good before. */
static void memory_choose(unsigned bits, uint8_t before) {
    static const unsigned failures[] = {0, 1, 4, 30};
    scarcity.before = before;
    scarcity.failures = failures[bits & 3];
    scarcity.starts = scarcity.failed = false;
}

static void memory_relieve(void) {
    scarcity.failures = 0;
}

static bool memory_fails(void) {
    if (!memory_is_loop || !scarcity.starts || scarcity.failures == 0) return false;
    if (scarcity.before > 0) {
        scarcity.before--;
        return false;
    }
    scarcity.failures--;
    scarcity.failed = true;
    return true;
}

/* What only a want of memory may cause. */
static void memory_excuses(const char *what) {
    if (!scarcity.failed) die(what);
}

/* --- blocks --- */

/* Blocks that the library has. It keeps some for later requests, but not ever more of them: that is a leak which
 * LeakSanitizer does not see where a pointer is left in poisoned memory. */
static atomic_llong memory_blocks;

static void *memory_malloc(size_t size, void *user) {
    (void)user;
    void *block = memory_fails() ? NULL : malloc(size);
    if (block) memory_blocks++;
    return block;
}

static void *memory_calloc(size_t count, size_t size, void *user) {
    (void)user;
    void *block = memory_fails() ? NULL : calloc(count, size);
    if (block) memory_blocks++;
    return block;
}

static void *memory_realloc(void *block, size_t size, void *user) {
    (void)user;
    void *grown = memory_fails() ? NULL : realloc(block, size);
    if (!block && grown) memory_blocks++;
    return grown;
}

static void memory_release(void *block, void *user) {
    (void)user;
    if (block) memory_blocks--;
    free(block);
}

static void memory_expect_no_growth(void) {
    static long long connections, start;
    if (++connections == MEMORY_WARM_UP) start = memory_blocks;
    if (connections > MEMORY_WARM_UP && memory_blocks > start + MEMORY_BLOCKS_MAX)
        die("the library keeps ever more memory");
}

/* In the loop's thread. */
static void memory_init(void) {
    static const uvhttp_allocator_t allocator = {
        .malloc = memory_malloc, .calloc = memory_calloc, .realloc = memory_realloc, .free = memory_release};
    if (uvhttp_set_allocator(&allocator) != UVHTTP_OK) die("no memory");
    memory_is_loop = true;
}

#endif
