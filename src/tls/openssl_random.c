/* Owns: random bytes of OpenSSL. May include: base. */
#include <openssl/err.h>
#include <openssl/rand.h>

#include "tls/backend.h"

bool uvhttp__tls_random(void *memory, size_t size) {
    bool done = RAND_bytes(memory, (int)size) == 1;
    if (!done) ERR_clear_error();
    return done;
}
