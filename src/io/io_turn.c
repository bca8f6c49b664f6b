/* Owns: the iteration arena. It has two halves: output of this iteration is in one; the kernel may still read output of
 * the previous iteration from the other. May include: base. */
#include "base/alloc.h"
#include "base/hot.h"
#include "io/engine.h"

/* The first chunk is permanent and serves the plain path; an iteration allocates more if it needs them. */
#define TURN_CHUNK_SIZE (256u * 1024)

typedef struct turn_chunk {
    struct turn_chunk *next;
    size_t size;
    char data[];
} turn_chunk_t;

struct uvhttp__turn_memory {
    turn_chunk_t
        *halves[2]; /* that of mark 1 and that of mark 2: chunks, newest first; the last is the one that stays */
};

/* A chunk of at least `size` bytes in front of a half's. Returns NULL if out of memory. */
static turn_chunk_t *add_chunk(turn_chunk_t **half, size_t size) {
    if (size < TURN_CHUNK_SIZE) size = TURN_CHUNK_SIZE;
    size =
        (size + _Alignof(uvhttp__segment_t) - 1) & ~(_Alignof(uvhttp__segment_t) - 1); /* segments stand at the end */
    turn_chunk_t *chunk = uvhttp__malloc(sizeof *chunk + size);
    if (!chunk) return NULL;
    chunk->next = *half;
    chunk->size = size;
    *half = chunk;
    return chunk;
}

static void drop_chunks(turn_chunk_t **half) {
    while ((*half)->next) {
        turn_chunk_t *chunk = *half;
        *half = chunk->next;
        uvhttp__free(chunk);
    }
}

static void fill_from(uvhttp__loop_t *loop, turn_chunk_t *chunk) {
    loop->turn_at = chunk->data;
    loop->turn_end = chunk->data + chunk->size;
}

void uvhttp__turn_memory_deinit(uvhttp__loop_t *loop) {
    if (!loop->turn) return;
    for (int i = 0; i < 2; i++) {
        if (!loop->turn->halves[i]) continue;
        drop_chunks(&loop->turn->halves[i]);
        uvhttp__free(loop->turn->halves[i]);
    }
    uvhttp__free(loop->turn);
    loop->turn = NULL;
}

int uvhttp__turn_memory_init(uvhttp__loop_t *loop) {
    loop->turn = uvhttp__calloc(1, sizeof *loop->turn);
    if (loop->turn && add_chunk(&loop->turn->halves[0], 0) && add_chunk(&loop->turn->halves[1], 0)) {
        loop->turn_mark = 1;
        fill_from(loop, loop->turn->halves[0]);
        return UVHTTP_OK;
    }
    uvhttp__turn_memory_deinit(loop);
    return UVHTTP_E_NOMEM;
}

void uvhttp__turn_memory_sent(uvhttp__loop_t *loop) {
    drop_chunks(&loop->turn->halves[UVHTTP__TURN_OTHER(loop->turn_mark) - 1]);
}

void uvhttp__turn_memory_flip(uvhttp__loop_t *loop) {
    loop->turn_mark = UVHTTP__TURN_OTHER(loop->turn_mark);
    fill_from(loop, loop->turn->halves[loop->turn_mark - 1]);
}

char *uvhttp__loop_turn_alloc_chunk(uvhttp__loop_t *loop, size_t size) {
    turn_chunk_t *chunk = add_chunk(&loop->turn->halves[loop->turn_mark - 1], size);
    if (!chunk) return NULL;
    fill_from(loop, chunk);
    loop->turn_at += size;
    return chunk->data;
}

UVHTTP__HOT uvhttp__segment_t *uvhttp__segment_of_turn(uvhttp__loop_t *loop, const char *data, size_t size) {
    if ((size_t)(loop->turn_end - loop->turn_at) < sizeof(uvhttp__segment_t) && !uvhttp__loop_turn_alloc_chunk(loop, 0))
        return NULL;
    loop->turn_end -= sizeof(uvhttp__segment_t);
    uvhttp__segment_t *segment = (void *)loop->turn_end;
    *segment = (uvhttp__segment_t){.data = data, .size = size, .fd = -1, .turn = loop->turn_mark};
    return segment;
}
