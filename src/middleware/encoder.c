/* Owns: the encoders of zlib and brotli, and the pool of the former. May include: base. */
#include "middleware/encoder.h"

#include <brotli/encode.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/list.h"

/* A deflate stream is 270 KB that want to be set up once; a brotli encoder can not be used again. */
typedef struct gzip_encoder {
    z_stream stream;
    struct gzip_encoder *next;
} gzip_encoder_t;

struct uvhttp__encoder_pool {
    pthread_mutex_t lock;
    gzip_encoder_t *free; /* under lock */
    int gzip_level, brotli_quality;
};

static void *zlib_alloc(void *opaque, unsigned count, unsigned size) {
    (void)opaque;
    return uvhttp__calloc(count, size);
}

static void zlib_free(void *opaque, void *memory) {
    (void)opaque;
    uvhttp__free(memory);
}

/* The brotli encoder ends the process when its allocator returns NULL. So this one does not return: it jumps out of the
 * encoder, all of whose memory stands in the list. */
typedef struct brotli_memory {
    uvhttp__list_t blocks;
    jmp_buf out_of_memory;
} brotli_memory_t;

typedef struct brotli_block {
    uvhttp__list_t link;
    _Alignas(16) char data[];
} brotli_block_t;

static void *brotli_alloc(void *opaque, size_t size) {
    brotli_memory_t *memory = opaque;
    brotli_block_t *block = uvhttp__malloc(sizeof *block + size);
    if (!block) longjmp(memory->out_of_memory, 1);
    uvhttp__list_init(&block->link);
    uvhttp__list_push_back(&memory->blocks, &block->link);
    return block->data;
}

static void brotli_free(void *opaque, void *data) {
    (void)opaque;
    if (!data) return;
    brotli_block_t *block = UVHTTP__CONTAINER_OF(data, brotli_block_t, data);
    uvhttp__list_remove(&block->link);
    uvhttp__free(block);
}

uvhttp__encoder_pool_t *uvhttp__encoder_pool_new(int gzip_level, int brotli_quality) {
    uvhttp__encoder_pool_t *pool = uvhttp__calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->gzip_level = gzip_level;
    pool->brotli_quality = brotli_quality;
    return pool;
}

void uvhttp__encoder_pool_free(uvhttp__encoder_pool_t *pool) {
    if (!pool) return;
    for (gzip_encoder_t *next, *encoder = pool->free; encoder; encoder = next) {
        next = encoder->next;
        (void)deflateEnd(&encoder->stream);
        uvhttp__free(encoder);
    }
    pthread_mutex_destroy(&pool->lock);
    uvhttp__free(pool);
}

static gzip_encoder_t *gzip_new(int level) {
    gzip_encoder_t *encoder = uvhttp__calloc(1, sizeof *encoder);
    if (!encoder) return NULL;
    encoder->stream.zalloc = zlib_alloc;
    encoder->stream.zfree = zlib_free;
    enum { WINDOW_BITS = 15, GZIP = 16, MEMORY_LEVEL = 8 };
    if (deflateInit2(&encoder->stream, level, Z_DEFLATED, WINDOW_BITS + GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK)
        return encoder;
    uvhttp__free(encoder);
    return NULL;
}

static gzip_encoder_t *gzip_take(uvhttp__encoder_pool_t *pool) {
    pthread_mutex_lock(&pool->lock);
    gzip_encoder_t *encoder = pool->free;
    if (encoder) pool->free = encoder->next;
    pthread_mutex_unlock(&pool->lock);
    return encoder ? encoder : gzip_new(pool->gzip_level);
}

static void gzip_give_back(uvhttp__encoder_pool_t *pool, gzip_encoder_t *encoder) {
    (void)deflateReset(&encoder->stream);
    pthread_mutex_lock(&pool->lock);
    encoder->next = pool->free;
    pool->free = encoder;
    pthread_mutex_unlock(&pool->lock);
}

/* Returns bytes written, 0 if they do not fit. */
static size_t encode_gzip(uvhttp__encoder_pool_t *pool, const void *data, size_t size, void *out, size_t out_size) {
    gzip_encoder_t *encoder = gzip_take(pool);
    if (!encoder) return 0;
    z_stream *stream = &encoder->stream;
    stream->next_in = (Bytef *)(uintptr_t)data;
    stream->avail_in = (unsigned)size;
    stream->next_out = out;
    stream->avail_out = (unsigned)out_size;
    size_t written = deflate(stream, Z_FINISH) == Z_STREAM_END ? out_size - stream->avail_out : 0;
    gzip_give_back(pool, encoder);
    return written;
}

static size_t run_brotli(BrotliEncoderState *encoder, int quality, const void *data, size_t size, void *out,
                         size_t out_size) {
    uint32_t window_bits = BROTLI_MIN_WINDOW_BITS;
    while (window_bits < BROTLI_MAX_WINDOW_BITS && ((size_t)1 << window_bits) - 16 < size) window_bits++;
    BrotliEncoderSetParameter(encoder, BROTLI_PARAM_QUALITY, (uint32_t)quality);
    BrotliEncoderSetParameter(encoder, BROTLI_PARAM_LGWIN, window_bits);
    BrotliEncoderSetParameter(encoder, BROTLI_PARAM_SIZE_HINT, (uint32_t)size);
    const uint8_t *next_in = data;
    uint8_t *next_out = out;
    size_t in_left = size, out_left = out_size;
    BROTLI_BOOL good =
        BrotliEncoderCompressStream(encoder, BROTLI_OPERATION_FINISH, &in_left, &next_in, &out_left, &next_out, NULL);
    return good && BrotliEncoderIsFinished(encoder) ? out_size - out_left : 0;
}

static size_t encode_brotli(const uvhttp__encoder_pool_t *pool, const void *data, size_t size, void *out,
                            size_t out_size) {
    brotli_memory_t memory;
    uvhttp__list_init(&memory.blocks);
    volatile size_t written = 0;
    if (setjmp(memory.out_of_memory) == 0) {
        BrotliEncoderState *encoder = BrotliEncoderCreateInstance(brotli_alloc, brotli_free, &memory);
        if (encoder) written = run_brotli(encoder, pool->brotli_quality, data, size, out, out_size);
    }
    for (uvhttp__list_t *link; (link = uvhttp__list_pop_front(&memory.blocks));)
        uvhttp__free(UVHTTP__CONTAINER_OF(link, brotli_block_t, link));
    return written;
}

void *uvhttp__encode(uvhttp__encoder_pool_t *pool, uvhttp__coding_t coding, const void *data, size_t size,
                     size_t *encoded_size) {
    if (size < 2 || size > INT_MAX) return NULL;
    size_t room = size - 1; /* what would not be smaller does not fit */
    char *out = uvhttp__malloc(room);
    if (!out) return NULL;
    size_t written = coding == UVHTTP__CODING_BROTLI ? encode_brotli(pool, data, size, out, room)
                                                     : encode_gzip(pool, data, size, out, room);
    if (written == 0) {
        uvhttp__free(out);
        return NULL;
    }
    *encoded_size = written;
    void *shrunk = uvhttp__realloc(out, written); /* a slow client may keep it for long */
    return shrunk ? shrunk : out;
}
