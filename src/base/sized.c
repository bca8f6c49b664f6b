/* Owns: structs that a program passes together with their size. */
#include "base/sized.h"

#include <string.h>

bool uvhttp__sized_read(void *own, size_t own_size, const void *given, size_t given_size) {
    const char *bytes = given;
    size_t known = !given ? 0 : given_size < own_size ? given_size : own_size;
    memset(own, 0, own_size);
    if (known > 0) memcpy(own, given, known);
    for (size_t at = own_size; given && at < given_size; at++)
        if (bytes[at] != 0) return false;
    return true;
}

void uvhttp__sized_write(void *given, size_t given_size, const void *own, size_t own_size) {
    size_t known = given_size < own_size ? given_size : own_size;
    memcpy(given, own, known);
    memset((char *)given + known, 0, given_size - known);
}
