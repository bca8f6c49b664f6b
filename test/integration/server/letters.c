/* Owns: the row of letters. Each test starts a server, and a sanitizer makes each store of a loop over all of it
 * expensive: a file in memory has one part of it, which is mapped again and again. */
#include "letters.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALPHABET 26
#define TIMES 8 /* a part is 832 KiB, with pages of 4 KiB */

/* The descriptor of a file of `size` bytes, a multiple of the alphabet's and of a page's. */
static int part_new(size_t size) {
    char *part = malloc(size);
    int fd = memfd_create("letters", MFD_CLOEXEC);
    if (!part || fd < 0) abort();
    for (size_t i = 0; i < size; i++) part[i] = (char)('a' + i % ALPHABET);
    if (write(fd, part, size) != (ssize_t)size) abort();
    free(part);
    return fd;
}

const char *letters_new(void) {
    size_t part = (size_t)sysconf(_SC_PAGESIZE) * ALPHABET * TIMES;
    int fd = part_new(part);
    char *letters = mmap(NULL, LETTERS_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (letters == MAP_FAILED) abort();
    for (size_t at = 0; at < LETTERS_SIZE; at += part) {
        size_t size = part < LETTERS_SIZE - at ? part : LETTERS_SIZE - at;
        if (mmap(letters + at, size, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED) abort();
    }
    close(fd);
    return letters;
}
