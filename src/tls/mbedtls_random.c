/* Owns: random bytes of the system: mbedTLS has none that several threads may ask. May include: base. */
#include <errno.h>
#include <sys/random.h>

#include "tls/backend.h"

bool uvhttp__tls_random(void *memory, size_t size) {
    for (char *at = memory; size > 0;) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}
