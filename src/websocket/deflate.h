/* Owns: the compressed payload of permessage-deflate messages (RFC 7692 section 7.2), by zlib. Sans-I/O. In a build
 * without compression nothing here can be made (NULL). May include: base. */
#ifndef UVHTTP_SRC_WEBSOCKET_DEFLATE_H
#define UVHTTP_SRC_WEBSOCKET_DEFLATE_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

typedef struct uvhttp__ws_inflater uvhttp__ws_inflater_t;
typedef struct uvhttp__ws_deflater uvhttp__ws_deflater_t;

typedef struct uvhttp__ws_deflate_settings {
    uint8_t level;        /* 1..9 */
    uint8_t memory_level; /* 1..9 */
    uint8_t bits;         /* 9..15 */
} uvhttp__ws_deflate_settings_t;

/* Contexts for messages that refer to no message before: any connection of a loop may use them, so that an idle one
 * needs none. Zeroed: empty. */
typedef struct uvhttp__ws_codecs {
    uvhttp__ws_inflater_t *inflaters; /* not in use */
    uvhttp__ws_deflater_t *deflaters; /* one for each settings; none is in use between two calls */
    uint32_t inflater_count;
} uvhttp__ws_codecs_t;

/* Whether this build can compress. */
extern const bool uvhttp__ws_deflate_available;

void uvhttp__ws_codecs_clear(uvhttp__ws_codecs_t *codecs);

/* --- inflating --- */

/* NULL if out of memory. codecs NULL: one that is the caller's alone. */
uvhttp__ws_inflater_t *uvhttp__ws_inflater_take(uvhttp__ws_codecs_t *codecs);
/* Whatever state it is in. codecs as when it was taken; inflater may be NULL. */
void uvhttp__ws_inflater_give(uvhttp__ws_codecs_t *codecs, uvhttp__ws_inflater_t *inflater);

/* Takes the next piece of a message, or as much of it as fills `out`; moves *data and *size on. end: no piece follows.
 * Returns 0 (all taken, and all that it is is out; after `end`: the next message may follow), UVHTTP_E_AGAIN (out is
 * full: call it again with what is left, which may be nothing), UVHTTP_E_WS_DEFLATE (malformed) or UVHTTP_E_NOMEM. */
int uvhttp__ws_inflate(uvhttp__ws_inflater_t *inflater, const char **data, size_t *size, bool end, char *out,
                       size_t out_size, size_t *written);

/* --- deflating --- */

/* NULL if out of memory. */
uvhttp__ws_deflater_t *uvhttp__ws_deflater_new(uvhttp__ws_deflate_settings_t settings);
void uvhttp__ws_deflater_free(uvhttp__ws_deflater_t *deflater);
/* The one with these settings, without a context; the codecs keep it. NULL if out of memory. */
uvhttp__ws_deflater_t *uvhttp__ws_deflater_of(uvhttp__ws_codecs_t *codecs, uvhttp__ws_deflate_settings_t settings);
/* The next message refers to none before. */
void uvhttp__ws_deflater_reset(uvhttp__ws_deflater_t *deflater);

/* Bytes of `out` for a message that is not to grow. */
#define UVHTTP__WS_DEFLATE_CAPACITY(size) ((size) + 4)

/* Compresses a message into out[UVHTTP__WS_DEFLATE_CAPACITY(size)], in the context of those before. Returns its size,
 * or 0: it would not have become smaller, and the context is forgotten. */
size_t uvhttp__ws_deflate(uvhttp__ws_deflater_t *deflater, const void *data, size_t size, char *out);

#endif
