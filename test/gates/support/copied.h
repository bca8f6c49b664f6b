/* Owns: memcpy and memmove of the whole process, which count what they copy, and what hardened code calls in their
 * place. For one source file of a program. */
#ifndef UVHTTP_TEST_GATES_COPIED_H
#define UVHTTP_TEST_GATES_COPIED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

static atomic_ullong copied;

/* By an instruction of its own: a compiler makes a call of memcpy from a loop. */
static void copy_up(char *to, const char *from, size_t size) {
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
#else
    for (volatile size_t i = 0; i < size; i++) to[i] = from[i];
#endif
}

/* Names of the linker alone: in hardened code the C names are inline functions. */
void *count_memcpy(void *restrict to, const void *restrict from, size_t size) __asm__("memcpy");
void *count_memmove(void *to, const void *from, size_t size) __asm__("memmove");
void *count_memcpy_chk(void *restrict to, const void *restrict from, size_t size,
                       size_t capacity) __asm__("__memcpy_chk");
void *count_memmove_chk(void *to, const void *from, size_t size, size_t capacity) __asm__("__memmove_chk");

void *count_memcpy(void *restrict to, const void *restrict from, size_t size) {
    atomic_fetch_add_explicit(&copied, size, memory_order_relaxed);
    copy_up(to, from, size);
    return to;
}

void *count_memmove(void *to, const void *from, size_t size) {
    atomic_fetch_add_explicit(&copied, size, memory_order_relaxed);
    if ((char *)to <= (const char *)from || (char *)to >= (const char *)from + size)
        copy_up(to, from, size);
    else
        for (volatile size_t i = size; i > 0; i--) ((char *)to)[i - 1] = ((const char *)from)[i - 1];
    return to;
}

void *count_memcpy_chk(void *restrict to, const void *restrict from, size_t size, size_t capacity) {
    if (size > capacity) abort();
    return count_memcpy(to, from, size);
}

void *count_memmove_chk(void *to, const void *from, size_t size, size_t capacity) {
    if (size > capacity) abort();
    return count_memmove(to, from, size);
}

#endif
