/* Owns: see deflate.h. May include: base. */
#include "websocket/deflate.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"

const bool uvhttp__ws_deflate_available = true;

/* What ends a flush of zlib's, and is left out on the wire (section 7.2.1). */
static const char tail[] = {0, 0, (char)0xff, (char)0xff};

#define INFLATERS_KEPT 8 /* 40 KB each */

struct uvhttp__ws_inflater {
    z_stream stream;
    uvhttp__ws_inflater_t *next;
    uint8_t tail_left; /* bytes of the tail that the message still gets */
    bool pending;      /* out was full: there may be more without further input */
};

struct uvhttp__ws_deflater {
    z_stream stream;
    uvhttp__ws_deflater_t *next;
    uvhttp__ws_deflate_settings_t settings;
};

/* --- inflating --- */

static uvhttp__ws_inflater_t *inflater_new(void) {
    uvhttp__ws_inflater_t *inflater = uvhttp__calloc(1, sizeof *inflater);
    if (!inflater) return NULL;
    inflater->stream.zalloc = uvhttp__zlib_alloc;
    inflater->stream.zfree = uvhttp__zlib_free;
    inflater->tail_left = sizeof tail;
    /* The largest window reads what was made with any. */
    if (inflateInit2(&inflater->stream, -MAX_WBITS) == Z_OK) return inflater;
    uvhttp__free(inflater);
    return NULL;
}

static void inflater_free(uvhttp__ws_inflater_t *inflater) {
    (void)inflateEnd(&inflater->stream);
    uvhttp__free(inflater);
}

uvhttp__ws_inflater_t *uvhttp__ws_inflater_take(uvhttp__ws_codecs_t *codecs) {
    uvhttp__ws_inflater_t *inflater = codecs ? codecs->inflaters : NULL;
    if (!inflater) return inflater_new();
    codecs->inflaters = inflater->next;
    codecs->inflater_count--;
    return inflater;
}

void uvhttp__ws_inflater_give(uvhttp__ws_codecs_t *codecs, uvhttp__ws_inflater_t *inflater) {
    if (!inflater) return;
    if (!codecs || codecs->inflater_count >= INFLATERS_KEPT) {
        inflater_free(inflater);
        return;
    }
    (void)inflateReset(&inflater->stream);
    inflater->tail_left = sizeof tail;
    inflater->pending = false;
    inflater->next = codecs->inflaters;
    codecs->inflaters = inflater;
    codecs->inflater_count++;
}

/* One call of zlib with what there is: the piece, or the tail behind the last. */
static int step(uvhttp__ws_inflater_t *inflater, const char **data, size_t *size) {
    z_stream *stream = &inflater->stream;
    bool in_tail = *size == 0;
    unsigned given = in_tail ? inflater->tail_left : *size < UINT_MAX ? (unsigned)*size : UINT_MAX;
    const char *from = in_tail ? tail + sizeof tail - inflater->tail_left : *data;
    stream->next_in = (Bytef *)(uintptr_t)from;
    stream->avail_in = given;
    int result = inflate(stream, Z_SYNC_FLUSH);
    unsigned used = given - stream->avail_in;
    if (in_tail) {
        inflater->tail_left = (uint8_t)(inflater->tail_left - used);
    } else {
        *data += used;
        *size -= used;
    }
    switch (result) {
        case Z_OK:
        case Z_BUF_ERROR:
            return UVHTTP_OK; /* the latter: nothing to do, which is not a mistake */
        /* A block that says it is the last ends a stream, but no message (section 7.2.3.4); the window stays. */
        case Z_STREAM_END: (void)inflateResetKeep(stream); return UVHTTP_OK;
        case Z_MEM_ERROR: return UVHTTP_E_NOMEM;
        default: return UVHTTP_E_WS_DEFLATE;
    }
}

enum { BLOCK_END = 128, UNUSED_BITS = 7 }; /* in zlib's data_type, of its last call */

/* At the end of a block all of its output has been written; one more call, without input, would clear the flag that
 * end_message() looks at. */
static bool has_more(const z_stream *stream) {
    return stream->avail_out == 0 && !(stream->data_type & BLOCK_END);
}

/* The tail has been consumed: unless the message was cut, a block has just ended with it, at a whole byte. */
static int end_message(uvhttp__ws_inflater_t *inflater) {
    inflater->tail_left = sizeof tail;
    return (inflater->stream.data_type & (BLOCK_END | UNUSED_BITS)) == BLOCK_END ? UVHTTP_OK : UVHTTP_E_WS_DEFLATE;
}

int uvhttp__ws_inflate(uvhttp__ws_inflater_t *inflater, const char **data, size_t *size, bool end, char *out,
                       size_t out_size, size_t *written) {
    z_stream *stream = &inflater->stream;
    stream->next_out = (Bytef *)out;
    stream->avail_out = out_size < UINT_MAX ? (unsigned)out_size : UINT_MAX;
    unsigned capacity = stream->avail_out;
    int status = UVHTTP_OK;
    while (status == UVHTTP_OK && (*size > 0 || inflater->pending || (end && inflater->tail_left > 0))) {
        /* With the tail outstanding, output that is still to come needs no byte of it. */
        bool only_pending = *size == 0 && !end;
        uint8_t tail_left = inflater->tail_left;
        if (only_pending) inflater->tail_left = 0;
        status = step(inflater, data, size);
        if (only_pending) inflater->tail_left = tail_left;
        inflater->pending = has_more(stream);
        if (status == UVHTTP_OK && inflater->pending) status = UVHTTP_E_AGAIN;
    }
    *written = capacity - stream->avail_out;
    return status == UVHTTP_OK && end ? end_message(inflater) : status;
}

/* --- deflating --- */

uvhttp__ws_deflater_t *uvhttp__ws_deflater_new(uvhttp__ws_deflate_settings_t settings) {
    uvhttp__ws_deflater_t *deflater = uvhttp__calloc(1, sizeof *deflater);
    if (!deflater) return NULL;
    deflater->settings = settings;
    deflater->stream.zalloc = uvhttp__zlib_alloc;
    deflater->stream.zfree = uvhttp__zlib_free;
    if (deflateInit2(&deflater->stream, settings.level, Z_DEFLATED, -settings.bits, settings.memory_level,
                     Z_DEFAULT_STRATEGY) == Z_OK)
        return deflater;
    uvhttp__free(deflater);
    return NULL;
}

void uvhttp__ws_deflater_free(uvhttp__ws_deflater_t *deflater) {
    if (!deflater) return;
    (void)deflateEnd(&deflater->stream);
    uvhttp__free(deflater);
}

uvhttp__ws_deflater_t *uvhttp__ws_deflater_of(uvhttp__ws_codecs_t *codecs, uvhttp__ws_deflate_settings_t settings) {
    for (uvhttp__ws_deflater_t *d = codecs->deflaters; d; d = d->next) {
        if (memcmp(&d->settings, &settings, sizeof settings) != 0) continue;
        uvhttp__ws_deflater_reset(d);
        return d;
    }
    uvhttp__ws_deflater_t *made = uvhttp__ws_deflater_new(settings);
    if (!made) return NULL;
    made->next = codecs->deflaters;
    codecs->deflaters = made;
    return made;
}

void uvhttp__ws_deflater_reset(uvhttp__ws_deflater_t *deflater) {
    (void)deflateReset(&deflater->stream);
}

size_t uvhttp__ws_deflate(uvhttp__ws_deflater_t *deflater, const void *data, size_t size, char *out) {
    z_stream *stream = &deflater->stream;
    size_t written = 0;
    if (size > 0 && UVHTTP__WS_DEFLATE_CAPACITY(size) <= UINT_MAX) {
        stream->next_in = (Bytef *)(uintptr_t)data;
        stream->avail_in = (unsigned)size;
        stream->next_out = (Bytef *)out;
        stream->avail_out = (unsigned)UVHTTP__WS_DEFLATE_CAPACITY(size);
        int status = deflate(stream, Z_SYNC_FLUSH);
        assert(status == Z_OK); /* it has input and space, and its memory since the start */
        (void)status;
        /* The flush is complete if space is left; output that fills it to the last byte has not become smaller. */
        if (stream->avail_out > 0) written = UVHTTP__WS_DEFLATE_CAPACITY(size) - stream->avail_out - sizeof tail;
    }
    if (written == 0) uvhttp__ws_deflater_reset(deflater);
    return written;
}

void uvhttp__ws_codecs_clear(uvhttp__ws_codecs_t *codecs) {
    for (uvhttp__ws_inflater_t *next, *i = codecs->inflaters; i; i = next) {
        next = i->next;
        inflater_free(i);
    }
    for (uvhttp__ws_deflater_t *next, *d = codecs->deflaters; d; d = next) {
        next = d->next;
        uvhttp__ws_deflater_free(d);
    }
    *codecs = (uvhttp__ws_codecs_t){0};
}
