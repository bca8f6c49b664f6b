/* Owns: gzip (RFC 1952) and brotli (RFC 7932) of bodies, buffered or streamed. May include: base. */
#ifndef UVHTTP_SRC_MIDDLEWARE_ENCODER_H
#define UVHTTP_SRC_MIDDLEWARE_ENCODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Encoders with their memory, for any number of threads: as many as were in use at once. */
typedef struct uvhttp__encoder_pool uvhttp__encoder_pool_t;

typedef enum uvhttp__coding { UVHTTP__CODING_IDENTITY, UVHTTP__CODING_GZIP, UVHTTP__CODING_BROTLI } uvhttp__coding_t;

/* gzip_level 1..9, brotli_quality 1..11; streams_max: how many may be open at once. NULL if out of memory. */
uvhttp__encoder_pool_t *uvhttp__encoder_pool_new(int gzip_level, int brotli_quality, uint32_t streams_max);
/* When no thread uses it. NULL is allowed. */
void uvhttp__encoder_pool_free(uvhttp__encoder_pool_t *pool);

/* Any thread. The body in that coding (not IDENTITY), to be freed with uvhttp__free, and its size; NULL if it would not
 * be smaller or memory ran out. */
void *uvhttp__encode(uvhttp__encoder_pool_t *pool, uvhttp__coding_t coding, const void *data, size_t size,
                     size_t *encoded_size);

/* --- a streamed body --- One thread at a time. */

typedef struct uvhttp__encoder uvhttp__encoder_t;

/* Any thread. coding: not IDENTITY. NULL: out of memory, or streams_max are open. */
uvhttp__encoder_t *uvhttp__encoder_open(uvhttp__encoder_pool_t *pool, uvhttp__coding_t coding);
/* Encodes data and whatever was held back, so that a decoder can read all of it; last: the end. Calls out(arg, ...)
 * with bytes that are valid during the call; a code other than 0 is handed through. Returns that, or UVHTTP_E_NOMEM;
 * after a failure nothing but close may follow. */
int uvhttp__encoder_write(uvhttp__encoder_t *encoder, const void *data, size_t size, bool last,
                          int (*out)(void *arg, const char *data, size_t size), void *arg);
void uvhttp__encoder_close(uvhttp__encoder_t *encoder);

#endif
