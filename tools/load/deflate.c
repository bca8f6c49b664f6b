/* Owns: compression with zlib. May include: base, io. */
/* Needs: compression. */
#include <zlib.h>

#include "load/hdr.h"
#include "load/options.h"

const bool load_has_zlib = true;

bool load_deflate(const void *data, size_t size, void *out, size_t *out_size) {
    uLongf space = *out_size;
    if (compress2(out, &space, data, size, Z_BEST_SPEED) != Z_OK) return false;
    *out_size = space;
    return true;
}
