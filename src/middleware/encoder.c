/* Owns: the encoders of zlib and brotli, and the pool of the former. May include: base. */
#include "middleware/encoder.h"

#include <brotli/encode.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/list.h"
#include <uvhttp/error.h>

/* A deflate stream is 270 KB that want to be set up once; a brotli encoder cannot be used again. */
typedef struct gzip_encoder {
    z_stream stream;
    struct gzip_encoder *next;
} gzip_encoder_t;

struct uvhttp__encoder_pool {
    pthread_mutex_t lock;
    gzip_encoder_t *free; /* under lock */
    int gzip_level, brotli_quality;
    uint32_t streams_max;
    atomic_uint streams; /* open */
};

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

static void free_blocks(brotli_memory_t *memory) {
    for (uvhttp__list_t *link; (link = uvhttp__list_pop_front(&memory->blocks));)
        uvhttp__free(UVHTTP__CONTAINER_OF(link, brotli_block_t, link));
}

uvhttp__encoder_pool_t *uvhttp__encoder_pool_new(int gzip_level, int brotli_quality, uint32_t streams_max) {
    uvhttp__encoder_pool_t *pool = uvhttp__calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pool->gzip_level = gzip_level;
    pool->brotli_quality = brotli_quality;
    pool->streams_max = streams_max;
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
    encoder->stream.zalloc = uvhttp__zlib_alloc;
    encoder->stream.zfree = uvhttp__zlib_free;
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
    free_blocks(&memory);
    return written;
}

void *uvhttp__encode(uvhttp__encoder_pool_t *pool, uvhttp__coding_t coding, const void *data, size_t size,
                     size_t *encoded_size) {
    if (size < 2 || size > INT_MAX) return NULL;
    size_t capacity = size - 1; /* what would not be smaller does not fit */
    char *out = uvhttp__malloc(capacity);
    if (!out) return NULL;
    size_t written = coding == UVHTTP__CODING_BROTLI ? encode_brotli(pool, data, size, out, capacity)
                                                     : encode_gzip(pool, data, size, out, capacity);
    if (written == 0) {
        uvhttp__free(out);
        return NULL;
    }
    *encoded_size = written;
    void *shrunk = uvhttp__realloc(out, written); /* a slow client may keep it for long */
    return shrunk ? shrunk : out;
}

/* --- in pieces --- */

/* What leaves at once; on the stack. */
#define OUT_SIZE 8192
/* log2 of how far back a brotli stream looks: its memory is a multiple of that. */
#define STREAM_WINDOW_BITS 16

struct uvhttp__encoder {
    uvhttp__encoder_pool_t *pool;
    gzip_encoder_t *gzip; /* or NULL: brotli */
    BrotliEncoderState *brotli;
    brotli_memory_t memory;
    bool failed;
};

static bool open_brotli(uvhttp__encoder_t *encoder) {
    if (setjmp(encoder->memory.out_of_memory) != 0) return false;
    encoder->brotli = BrotliEncoderCreateInstance(brotli_alloc, brotli_free, &encoder->memory);
    if (!encoder->brotli) return false;
    BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_QUALITY, (uint32_t)encoder->pool->brotli_quality);
    BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_LGWIN, STREAM_WINDOW_BITS);
    BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_LGBLOCK, BROTLI_MIN_INPUT_BLOCK_BITS);
    return true;
}

uvhttp__encoder_t *uvhttp__encoder_open(uvhttp__encoder_pool_t *pool, uvhttp__coding_t coding) {
    uvhttp__encoder_t *encoder = uvhttp__calloc(1, sizeof *encoder);
    if (!encoder) return NULL;
    encoder->pool = pool;
    uvhttp__list_init(&encoder->memory.blocks);
    bool capacity = atomic_fetch_add(&pool->streams, 1) < pool->streams_max;
    if (capacity && coding == UVHTTP__CODING_GZIP) encoder->gzip = gzip_take(pool);
    if (capacity && (encoder->gzip || (coding == UVHTTP__CODING_BROTLI && open_brotli(encoder)))) return encoder;
    uvhttp__encoder_close(encoder);
    return NULL;
}

void uvhttp__encoder_close(uvhttp__encoder_t *encoder) {
    if (encoder->gzip) gzip_give_back(encoder->pool, encoder->gzip);
    free_blocks(&encoder->memory); /* all that the brotli encoder has */
    atomic_fetch_sub(&encoder->pool->streams, 1);
    uvhttp__free(encoder);
}

static int write_gzip(z_stream *stream, const void *data, size_t size, bool last,
                      int (*out)(void *arg, const char *data, size_t size), void *arg) {
    char buffer[OUT_SIZE];
    stream->next_in = (Bytef *)(uintptr_t)data;
    stream->avail_in = (unsigned)size;
    int status = UVHTTP_OK;
    do {
        stream->next_out = (Bytef *)buffer;
        stream->avail_out = sizeof buffer;
        (void)deflate(stream, last ? Z_FINISH : Z_SYNC_FLUSH);
        size_t made = sizeof buffer - stream->avail_out;
        if (made > 0) status = out(arg, buffer, made);
    } while (status == UVHTTP_OK && stream->avail_out == 0); /* a full buffer: there may be more */
    return status;
}

/* One call of the encoder, which may leave by the jump. Returns false if memory ran out. */
static bool step_brotli(uvhttp__encoder_t *encoder, BrotliEncoderOperation operation, const uint8_t **data,
                        size_t *size, char *buffer, size_t *made) {
    uint8_t *next_out = (uint8_t *)buffer;
    size_t capacity = OUT_SIZE;
    if (setjmp(encoder->memory.out_of_memory) != 0) return false;
    BROTLI_BOOL good = BrotliEncoderCompressStream(encoder->brotli, operation, size, data, &capacity, &next_out, NULL);
    *made = (size_t)(next_out - (uint8_t *)buffer);
    return good;
}

static int write_brotli(uvhttp__encoder_t *encoder, const void *data, size_t size, bool last,
                        int (*out)(void *arg, const char *data, size_t size), void *arg) {
    char buffer[OUT_SIZE];
    BrotliEncoderOperation operation = last ? BROTLI_OPERATION_FINISH : BROTLI_OPERATION_FLUSH;
    const uint8_t *at = data;
    for (;;) {
        size_t made;
        if (!step_brotli(encoder, operation, &at, &size, buffer, &made)) return UVHTTP_E_NOMEM;
        int status = made > 0 ? out(arg, buffer, made) : UVHTTP_OK;
        if (status != UVHTTP_OK) return status;
        if (size == 0 && !BrotliEncoderHasMoreOutput(encoder->brotli)) return UVHTTP_OK;
    }
}

int uvhttp__encoder_write(uvhttp__encoder_t *encoder, const void *data, size_t size, bool last,
                          int (*out)(void *arg, const char *data, size_t size), void *arg) {
    if (encoder->failed || size > INT_MAX) return UVHTTP_E_NOMEM;
    int status = encoder->gzip ? write_gzip(&encoder->gzip->stream, data, size, last, out, arg)
                               : write_brotli(encoder, data, size, last, out, arg);
    encoder->failed = status != UVHTTP_OK;
    return status;
}
