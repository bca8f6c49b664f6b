/* Owns: the slots of streams: found by id in one step, since ids count upwards. May include: base. */
#include "base/alloc.h"
#include "http2/http2_internal.h"

/* Bytes of a chunk: a power of two, which no allocator rounds up. The pointers to chunks stand elsewhere. */
#define CHUNK_SIZE (UVHTTP__HTTP2_CHUNK_STREAMS * sizeof(uvhttp__http2_stream_t))

/* --- memory --- */

static void free_slots(uvhttp__http2_t *http2, uvhttp__http2_stream_t *streams, unsigned count) {
    for (unsigned i = count; i-- > 0;) {
        streams[i].flags = 0;
        streams[i].bucket = http2->free;
        http2->free = &streams[i];
    }
}

void uvhttp__http2_streams_init(uvhttp__http2_t *http2) {
    http2->buckets = http2->own_buckets;
    http2->bucket_mask = UVHTTP__HTTP2_BUCKETS - 1;
    http2->free = NULL;
    free_slots(http2, http2->own_streams, UVHTTP__HTTP2_OWN_STREAMS);
}

static size_t bucket_bytes(const uvhttp__http2_t *http2) {
    return (http2->bucket_mask + (size_t)1) * sizeof *http2->buckets;
}

void uvhttp__http2_streams_deinit(uvhttp__http2_t *http2) {
    for (uint32_t i = 0; i < http2->chunk_count; i++) uvhttp__free(http2->chunks[i]);
    uvhttp__free(http2->chunks);
    uvhttp__http2_discharge(http2, http2->chunk_count * (CHUNK_SIZE + sizeof *http2->chunks));
    http2->chunks = NULL;
    http2->chunk_count = 0;
    if (http2->buckets == http2->own_buckets) return;
    uvhttp__http2_discharge(http2, bucket_bytes(http2));
    uvhttp__free(http2->buckets);
    http2->buckets = http2->own_buckets;
}

/* Returns false without memory. */
static bool make_chunk(uvhttp__http2_t *http2) {
    size_t count = http2->chunk_count;
    uvhttp__http2_stream_t **chunks = uvhttp__realloc(http2->chunks, (count + 1) * sizeof *chunks);
    if (!chunks) return false;
    http2->chunks = chunks;
    chunks[count] = uvhttp__malloc(CHUNK_SIZE);
    if (!chunks[count]) return false;
    http2->chunk_count++;
    free_slots(http2, chunks[count], UVHTTP__HTTP2_CHUNK_STREAMS);
    return true;
}

static bool add_chunk(uvhttp__http2_t *http2) {
    const size_t size = CHUNK_SIZE + sizeof *http2->chunks;
    if (uvhttp__http2_charge(http2, size) != UVHTTP_OK) return false;
    if (make_chunk(http2)) return true;
    uvhttp__http2_discharge(http2, size);
    return false;
}

static uvhttp__http2_stream_t **bucket_of(const uvhttp__http2_t *http2, uint32_t id) {
    return &http2->buckets[id >> 1 & http2->bucket_mask];
}

/* Twice as many buckets. Without memory for them the chains get longer, which streams_max bounds. */
static void grow_buckets(uvhttp__http2_t *http2) {
    size_t old_bytes = bucket_bytes(http2);
    uint32_t old_count = http2->bucket_mask + 1;
    if (uvhttp__http2_charge(http2, 2 * old_bytes) != UVHTTP_OK) return;
    uvhttp__http2_stream_t **old = http2->buckets, **buckets = uvhttp__calloc(2 * (size_t)old_count, sizeof *buckets);
    if (!buckets) {
        uvhttp__http2_discharge(http2, 2 * old_bytes);
        return;
    }
    http2->buckets = buckets;
    http2->bucket_mask = 2 * old_count - 1;
    for (uint32_t i = 0; i < old_count; i++) {
        for (uvhttp__http2_stream_t *stream = old[i], *next; stream; stream = next) {
            next = stream->bucket;
            stream->bucket = *bucket_of(http2, stream->id);
            *bucket_of(http2, stream->id) = stream;
        }
    }
    if (old == http2->own_buckets) return;
    uvhttp__free(old);
    uvhttp__http2_discharge(http2, old_bytes);
}

/* --- streams --- */

uvhttp__http2_stream_t *uvhttp__http2_find(const uvhttp__http2_t *http2, uint32_t id) {
    uvhttp__http2_stream_t *stream = *bucket_of(http2, id);
    while (stream && stream->id != id) stream = stream->bucket;
    return stream;
}

bool uvhttp__http2_make_slot(uvhttp__http2_t *http2) {
    if (http2->stream_count + http2->orphan_count >= http2->limits->streams_max) return false;
    if (!http2->free && !add_chunk(http2)) return false;
    if (http2->stream_count > http2->bucket_mask) grow_buckets(http2);
    return true;
}

static void visit_slots(uvhttp__http2_stream_t *streams, unsigned count,
                        void (*visit)(uvhttp__http2_stream_t *stream, void *arg), void *arg) {
    for (unsigned i = 0; i < count; i++)
        if (streams[i].flags & UVHTTP__HTTP2_IN_USE) visit(&streams[i], arg);
}

/* By slots, which stay where they are: a chain ends elsewhere when one of its streams does. */
void uvhttp__http2_each_stream(uvhttp__http2_t *http2, void (*visit)(uvhttp__http2_stream_t *stream, void *arg),
                               void *arg) {
    visit_slots(http2->own_streams, UVHTTP__HTTP2_OWN_STREAMS, visit, arg);
    for (uint32_t i = 0; i < http2->chunk_count; i++)
        visit_slots(http2->chunks[i], UVHTTP__HTTP2_CHUNK_STREAMS, visit, arg);
}
