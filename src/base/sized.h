/* Owns: structs that a program passes together with their size. The program may be older than the library, and its
 * struct shorter, or newer, and its struct longer (include/uvhttp/types.h). Fields are only ever appended, and 0 is the
 * default. */
#ifndef UVHTTP_BASE_SIZED_H
#define UVHTTP_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>

/* Why such a struct is refused. */
#define UVHTTP__SIZED_NEWER "the program has set an option of a newer release than this library"

/* Copies a struct of the program into `own`, the library's: fields that an older program does not know are 0. given
 * NULL: all are 0. Returns false if a newer program has set a field that this library does not know; the others are
 * copied all the same. */
bool uvhttp__sized_read(void *own, size_t own_size, const void *given, size_t given_size);

/* Copies a struct of the library into one of the program: an older program gets the fields that it knows, and in a
 * newer one those that this library does not know become 0. */
void uvhttp__sized_write(void *given, size_t given_size, const void *own, size_t own_size);

/* Whether the place that a struct has for later releases (reserved) is unused; if not, the program is newer. */
#define UVHTTP__RESERVED_UNUSED(given)                                                                                 \
    (!(given)->reserved[0] && !(given)->reserved[1] && !(given)->reserved[2] && !(given)->reserved[3])

#endif
