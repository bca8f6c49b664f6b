/* Owns: the check of aligned blocks, whoever allocates. Include after cmocka.h. */
#ifndef UVHTTP_TEST_UNIT_BASE_ALIGNED_H
#define UVHTTP_TEST_UNIT_BASE_ALIGNED_H

#include "base/alloc.h"

static void assert_aligned_below(size_t size_end) {
    for (size_t alignment = 16; alignment <= 65536; alignment *= 2) {
        for (size_t size = 1; size < size_end; size = size * 7 + 3) {
            char *memory = uvhttp__alloc_aligned(alignment, size);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % alignment, 0);
            memset(memory, 'x', size);
            uvhttp__free_aligned(memory);
        }
    }
    uvhttp__free_aligned(NULL);
}

#endif
