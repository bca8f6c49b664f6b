/* Owns: what replaces deflate.c in a build without zlib: options.c refuses what would call it. May include: base, io.
 */
/* Needs: no_compression. */
#include "load/hdr.h"
#include "load/options.h"

const bool load_has_zlib = false;

bool load_deflate(const void *data, size_t size, void *out, size_t *out_size) {
    (void)data, (void)size, (void)out, (void)out_size;
    return false;
}
