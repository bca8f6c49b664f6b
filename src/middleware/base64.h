/* Owns: strict decoding of base64 (RFC 4648 section 4). Private to src/middleware. May include: base. */
#ifndef UVHTTP_SRC_MIDDLEWARE_BASE64_H
#define UVHTTP_SRC_MIDDLEWARE_BASE64_H

#include <uvhttp/types.h>

/* Writes *out_size bytes, at most in.size / 4 * 3, to `out`, which may not overlap. False, and nothing is said about
 * `out`, for anything but what an encoder would write: padding is needed, the bits that it leaves over are 0, and there
 * are no spaces or line breaks. */
bool uvhttp__base64_decode(uvhttp_str_t in, char *out, size_t *out_size);

#endif
