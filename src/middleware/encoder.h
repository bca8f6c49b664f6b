/* Owns: gzip (RFC 1952) and brotli (RFC 7932) of whole bodies. May include: base. */
#ifndef UVHTTP_SRC_MIDDLEWARE_ENCODER_H
#define UVHTTP_SRC_MIDDLEWARE_ENCODER_H

#include <stddef.h>

/* Encoders with their memory, for any number of threads: as many as were in use at once. */
typedef struct uvhttp__encoder_pool uvhttp__encoder_pool_t;

typedef enum uvhttp__coding { UVHTTP__CODING_IDENTITY, UVHTTP__CODING_GZIP, UVHTTP__CODING_BROTLI } uvhttp__coding_t;

/* gzip_level 1..9, brotli_quality 1..11. NULL if out of memory. */
uvhttp__encoder_pool_t *uvhttp__encoder_pool_new(int gzip_level, int brotli_quality);
/* When no thread uses it. NULL is allowed. */
void uvhttp__encoder_pool_free(uvhttp__encoder_pool_t *pool);

/* Any thread. The body in that coding (not IDENTITY), to be freed with uvhttp__free, and its size; NULL if it would not
 * be smaller or memory ran out. */
void *uvhttp__encode(uvhttp__encoder_pool_t *pool, uvhttp__coding_t coding, const void *data, size_t size,
                     size_t *encoded_size);

#endif
