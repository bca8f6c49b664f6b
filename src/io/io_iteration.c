/* Owns: turn memory: what is sent in a turn stands in one half, while from the other, that of the turn before, the
 * kernel may still read. May include: base. */
#include "base/alloc.h"
#include "base/hot_path.h"
#include "io/engine.h"

/* The first chunk stays forever and is what the plain path uses; more are taken when a turn needs them. */
#define ITERATION_CHUNK_SIZE (256u * 1024)

typedef struct iteration_chunk {
    struct iteration_chunk *next;
    size_t size;
    char data[];
} iteration_chunk_t;

struct uvhttp__iteration_arena {
    iteration_chunk_t
        *halves[2]; /* that of mark 1 and that of mark 2: chunks, newest first; the last is the one that stays */
};

/* A chunk of at least `size` bytes in front of a half's. Returns NULL if out of memory. */
static iteration_chunk_t *add_chunk(iteration_chunk_t **half, size_t size) {
    if (size < ITERATION_CHUNK_SIZE) size = ITERATION_CHUNK_SIZE;
    size =
        (size + _Alignof(uvhttp__segment_t) - 1) & ~(_Alignof(uvhttp__segment_t) - 1); /* segments stand at the end */
    iteration_chunk_t *chunk = uvhttp__malloc(sizeof *chunk + size);
    if (!chunk) return NULL;
    chunk->next = *half;
    chunk->size = size;
    *half = chunk;
    return chunk;
}

static void drop_chunks(iteration_chunk_t **half) {
    while ((*half)->next) {
        iteration_chunk_t *chunk = *half;
        *half = chunk->next;
        uvhttp__free(chunk);
    }
}

static void fill_from(uvhttp__loop_t *loop, iteration_chunk_t *chunk) {
    loop->iteration_at = chunk->data;
    loop->iteration_end = chunk->data + chunk->size;
}

void uvhttp__iteration_arena_deinit(uvhttp__loop_t *loop) {
    if (!loop->arena) return;
    for (int i = 0; i < 2; i++) {
        if (!loop->arena->halves[i]) continue;
        drop_chunks(&loop->arena->halves[i]);
        uvhttp__free(loop->arena->halves[i]);
    }
    uvhttp__free(loop->arena);
    loop->arena = NULL;
}

int uvhttp__iteration_arena_init(uvhttp__loop_t *loop) {
    loop->arena = uvhttp__calloc(1, sizeof *loop->arena);
    if (loop->arena && add_chunk(&loop->arena->halves[0], 0) && add_chunk(&loop->arena->halves[1], 0)) {
        loop->iteration_mark = 1;
        fill_from(loop, loop->arena->halves[0]);
        return UVHTTP_OK;
    }
    uvhttp__iteration_arena_deinit(loop);
    return UVHTTP_E_NOMEM;
}

void uvhttp__iteration_arena_sent(uvhttp__loop_t *loop) {
    drop_chunks(&loop->arena->halves[UVHTTP__ITERATION_OTHER(loop->iteration_mark) - 1]);
}

void uvhttp__iteration_arena_flip(uvhttp__loop_t *loop) {
    loop->iteration_mark = UVHTTP__ITERATION_OTHER(loop->iteration_mark);
    fill_from(loop, loop->arena->halves[loop->iteration_mark - 1]);
}

char *uvhttp__loop_iteration_alloc_chunk(uvhttp__loop_t *loop, size_t size) {
    iteration_chunk_t *chunk = add_chunk(&loop->arena->halves[loop->iteration_mark - 1], size);
    if (!chunk) return NULL;
    fill_from(loop, chunk);
    loop->iteration_at += size;
    return chunk->data;
}

UVHTTP__HOT uvhttp__segment_t *uvhttp__segment_of_iteration(uvhttp__loop_t *loop, const char *data, size_t size) {
    if ((size_t)(loop->iteration_end - loop->iteration_at) < sizeof(uvhttp__segment_t) &&
        !uvhttp__loop_iteration_alloc_chunk(loop, 0))
        return NULL;
    loop->iteration_end -= sizeof(uvhttp__segment_t);
    uvhttp__segment_t *segment = (void *)loop->iteration_end;
    *segment = (uvhttp__segment_t){.data = data, .size = size, .fd = -1, .iteration = loop->iteration_mark};
    return segment;
}
