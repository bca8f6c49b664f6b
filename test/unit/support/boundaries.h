/* Owns: numbers around the powers of two and of ten, and their text, in 128 bits: what exhaustive checks of 64-bit
 * arithmetic go through and compare with. */
#ifndef UVHTTP_TEST_SUPPORT_BOUNDARIES_H
#define UVHTTP_TEST_SUPPORT_BOUNDARIES_H

#include <stddef.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 wide_t;

enum { WIDE_TEXT_MAX = 40, BOUNDARIES_MAX = 512 };

typedef struct boundaries {
    size_t count;
    wide_t values[BOUNDARIES_MAX];
} boundaries_t;

/* base^k + d for all k with base^k <= highest and d in -2..2. Those below 0 are left out. */
static inline void boundaries_of(unsigned base, wide_t highest, boundaries_t *all) {
    all->count = 0;
    for (wide_t power = 1; power <= highest; power *= base) {
        for (int d = -2; d <= 2; d++)
            if (d >= 0)
                all->values[all->count++] = power + (unsigned)d;
            else if (power >= (unsigned)-d)
                all->values[all->count++] = power - (unsigned)-d;
    }
}

/* Writes it without leading zeros. Returns the size. */
static inline size_t wide_print(wide_t value, unsigned base, const char *digits, char out[WIDE_TEXT_MAX]) {
    char reversed[WIDE_TEXT_MAX];
    size_t size = 0;
    do {
        reversed[size++] = digits[value % base];
        value /= base;
    } while (value > 0);
    for (size_t i = 0; i < size; i++) out[i] = reversed[size - 1 - i];
    out[size] = '\0';
    return size;
}

static inline size_t wide_print_decimal(wide_t value, char out[WIDE_TEXT_MAX]) {
    return wide_print(value, 10, "0123456789", out);
}

#endif
