/* Owns: see outgoing.h. */
#include "exchange/outgoing.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

/* --- keepers with several references --- */

typedef struct shared_keeper {
    uvhttp__keeper_t keeper;
    uint32_t refs;
} shared_keeper_t;

static void release_shared(void *arg) {
    shared_keeper_t *shared = arg;
    if (--shared->refs > 0) return;
    uvhttp__keeper_release(shared->keeper);
    uvhttp__free(shared);
}

/* Returns 0 or UVHTTP_E_NOMEM. */
static int share(uvhttp__outgoing_part_t *part, uvhttp__keeper_t *keeper) {
    *keeper = part->keeper;
    if (!keeper->release) return UVHTTP_OK;
    if (keeper->release != release_shared) {
        shared_keeper_t *shared = uvhttp__malloc(sizeof *shared);
        if (!shared) return UVHTTP_E_NOMEM;
        *shared = (shared_keeper_t){.keeper = part->keeper, .refs = 1};
        *keeper = part->keeper = (uvhttp__keeper_t){release_shared, shared};
    }
    ((shared_keeper_t *)keeper->arg)->refs++;
    return UVHTTP_OK;
}

/* --- parts --- */

static void append(uvhttp__outgoing_t *outgoing, uvhttp__outgoing_part_t *part) {
    *(outgoing->last ? &outgoing->last->next : &outgoing->first) = part;
    outgoing->last = part;
}

/* The part may be in memory that goes with its keeper. */
static void remove_first(uvhttp__outgoing_t *outgoing) {
    outgoing->first = outgoing->first->next;
    if (!outgoing->first) outgoing->last = NULL;
}

static void close_file(void *arg) {
    close((int)(intptr_t)arg);
}

static void on_ready(void *arg) {
    uvhttp__outgoing_t *outgoing = arg;
    outgoing->ready(outgoing);
}

static int put_kept(uvhttp__outgoing_t *outgoing, uvhttp__piece_t piece, uvhttp__keeper_t keeper) {
    outgoing->own = (uvhttp__outgoing_part_t){.piece = piece, .keeper = keeper};
    append(outgoing, &outgoing->own);
    return UVHTTP_OK;
}

static int put_file(uvhttp__outgoing_t *outgoing, uvhttp__work_port_t *port, const uvhttp__file_t *file) {
    uvhttp__file_reader_t *reader = uvhttp__file_reader_new(port, file, on_ready, outgoing);
    if (!reader) return UVHTTP_E_NOMEM;
    outgoing->own =
        (uvhttp__outgoing_part_t){.piece = {.kind = UVHTTP__PIECE_FILE, .size = file->size}, .reader = reader};
    append(outgoing, &outgoing->own);
    return UVHTTP_OK;
}

static uvhttp__piece_t memory_piece(const char *data, uint64_t size) {
    return (uvhttp__piece_t){.kind = UVHTTP__PIECE_KEPT, .fd = -1, .data = data, .size = size};
}

static int put_next_part(uvhttp__outgoing_t *outgoing) {
    const uvhttp__body_parts_t *parts = outgoing->rest->parts;
    const uvhttp__body_part_t *part = &parts->parts[outgoing->next_part++];
    uvhttp__keeper_t keeper = {NULL, NULL};
    if (part->held) keeper = (uvhttp__keeper_t){outgoing->rest->release, outgoing->rest->arg};
    if (!part->data)
        return put_file(outgoing, parts->blocking,
                        &(uvhttp__file_t){.fd = parts->fd,
                                          .offset = part->offset,
                                          .size = part->size,
                                          .keeper = keeper,
                                          .found_ms = parts->found_ms,
                                          .copied = parts->copied,
                                          .framing = outgoing->framing});
    uvhttp__piece_t piece = memory_piece(part->data, part->size);
    if (!part->held) piece.kind = UVHTTP__PIECE_LENT; /* in the exchange's arena, which may go before the bytes */
    return put_kept(outgoing, piece, keeper);
}

static bool has_parts(const uvhttp__outgoing_t *outgoing) {
    return outgoing->rest && outgoing->next_part < outgoing->rest->parts->count;
}

/* --- what is put in --- */

void uvhttp__outgoing_init(uvhttp__outgoing_t *outgoing, void (*ready)(uvhttp__outgoing_t *outgoing),
                           struct uvhttp__exchange *exchange) {
    *outgoing = (uvhttp__outgoing_t){.ready = ready, .exchange = exchange};
}

static int put_content(uvhttp__outgoing_t *outgoing, const uvhttp__body_t *body) {
    const uvhttp_shared_body_t *shared = body->arg;
    uvhttp__piece_t piece = memory_piece(shared->data, shared->size);
    piece.fd = shared->fd;
    return put_kept(outgoing, piece, (uvhttp__keeper_t){body->release, body->arg});
}

int uvhttp__outgoing_put_body(uvhttp__outgoing_t *outgoing, uvhttp__body_t *recorded, uvhttp__keeper_t memory,
                              uvhttp__work_port_t *port) {
    const uvhttp__body_t body = *recorded;
    recorded->kind = UVHTTP__BODY_NONE;
    outgoing->size = body.size;
    outgoing->ended = true;
    switch (body.kind) {
        case UVHTTP__BODY_SHARED: return put_content(outgoing, &body);
        case UVHTTP__BODY_PARTS: outgoing->rest = recorded; return UVHTTP_OK;
        case UVHTTP__BODY_FILE:
            return put_file(outgoing, port,
                            &(uvhttp__file_t){.fd = body.fd,
                                              .offset = body.offset,
                                              .size = body.size,
                                              .keeper = {close_file, (void *)(intptr_t)body.fd},
                                              .framing = outgoing->framing});
        default: return put_kept(outgoing, memory_piece(body.data, body.size), memory);
    }
}

void uvhttp__outgoing_lend(uvhttp__outgoing_t *outgoing, const char *data, size_t size) {
    outgoing->own =
        (uvhttp__outgoing_part_t){.piece = {.kind = UVHTTP__PIECE_LENT, .fd = -1, .data = data, .size = size}};
    append(outgoing, &outgoing->own);
    outgoing->size += size;
}

/* What was lent is the last part. */
static void drop_lent(uvhttp__outgoing_t *outgoing) {
    uvhttp__outgoing_part_t **at = &outgoing->first, *before = NULL;
    for (; *at != &outgoing->own; at = &(*at)->next) before = *at;
    *at = NULL;
    outgoing->last = before;
    outgoing->size -= outgoing->own.piece.size;
}

int uvhttp__outgoing_take_back(uvhttp__outgoing_t *outgoing, bool keep) {
    const uvhttp__piece_t lent = outgoing->own.piece;
    if (outgoing->last != &outgoing->own) return UVHTTP_OK; /* all was consumed */
    drop_lent(outgoing);
    if (!keep) return UVHTTP_OK;
    uvhttp__outgoing_part_t *copy = uvhttp__malloc(sizeof *copy + (size_t)lent.size);
    if (!copy) {
        if (outgoing->own.begun) outgoing->failure = UVHTTP_E_NOMEM;
        return UVHTTP_E_NOMEM;
    }
    const char *data = memcpy(copy + 1, lent.data, (size_t)lent.size);
    *copy = (uvhttp__outgoing_part_t){.piece = memory_piece(data, lent.size), .keeper = {uvhttp__free, copy}};
    append(outgoing, copy);
    outgoing->size += lent.size;
    return UVHTTP_OK;
}

int uvhttp__outgoing_put_copy(uvhttp__outgoing_t *outgoing, uvhttp_str_t head, uvhttp_str_t rest) {
    size_t size = head.size + rest.size;
    uvhttp__outgoing_part_t *copy = uvhttp__malloc(sizeof *copy + size);
    if (!copy) return UVHTTP_E_NOMEM;
    char *data = (char *)(copy + 1);
    if (head.size > 0) memcpy(data, head.data, head.size);
    if (rest.size > 0) memcpy(data + head.size, rest.data, rest.size);
    *copy = (uvhttp__outgoing_part_t){.piece = memory_piece(data, size), .keeper = {uvhttp__free, copy}};
    append(outgoing, copy);
    outgoing->size += size;
    return UVHTTP_OK;
}

/* A part that stands behind the keeper of its bytes. */
typedef struct reference {
    uvhttp__keeper_t keeper;
    uvhttp__outgoing_part_t part;
} reference_t;

static void release_reference(void *arg) {
    reference_t *reference = arg;
    uvhttp__keeper_release(reference->keeper);
    uvhttp__free(reference);
}

int uvhttp__outgoing_put_reference(uvhttp__outgoing_t *outgoing, uvhttp_str_t data, uvhttp__keeper_t keeper) {
    reference_t *reference = uvhttp__malloc(sizeof *reference);
    if (!reference) {
        uvhttp__keeper_release(keeper);
        return UVHTTP_E_NOMEM;
    }
    *reference =
        (reference_t){.keeper = keeper,
                      .part = {.piece = memory_piece(data.data, data.size), .keeper = {release_reference, reference}}};
    append(outgoing, &reference->part);
    outgoing->size += data.size;
    return UVHTTP_OK;
}

void uvhttp__outgoing_end(uvhttp__outgoing_t *outgoing) {
    outgoing->ended = true;
}

/* --- what is pulled --- */

static int peek_part(const uvhttp__outgoing_part_t *part, bool by_sendfile, uvhttp__piece_t *piece) {
    if (part->reader) return uvhttp__file_reader_peek(part->reader, by_sendfile, piece);
    *piece = part->piece;
    if (by_sendfile && part->piece.fd >= 0) piece->kind = UVHTTP__PIECE_FILE;
    return UVHTTP_OK;
}

/* An empty queue takes the next part of its body. */
static void refill(uvhttp__outgoing_t *outgoing) {
    if (!outgoing->first && outgoing->failure == UVHTTP_OK && has_parts(outgoing))
        outgoing->failure = (int16_t)put_next_part(outgoing);
}

int uvhttp__outgoing_peek(uvhttp__outgoing_t *outgoing, bool by_sendfile, uvhttp__piece_t *piece) {
    refill(outgoing);
    if (outgoing->failure != UVHTTP_OK) return outgoing->failure;
    if (!outgoing->first) return outgoing->ended ? UVHTTP_E_EOF : UVHTTP_E_AGAIN;
    return peek_part(outgoing->first, by_sendfile, piece);
}

static void consume_file(uvhttp__outgoing_t *outgoing, uint64_t size, uvhttp__keeper_t *keeper) {
    uvhttp__outgoing_part_t *part = outgoing->first;
    *keeper = uvhttp__file_reader_consume(part->reader, size);
    part->piece.size -= size;
    if (part->piece.size > 0) return;
    uvhttp__file_reader_close(part->reader);
    remove_first(outgoing);
}

int uvhttp__outgoing_consume(uvhttp__outgoing_t *outgoing, uint64_t size, uvhttp__keeper_t *keeper) {
    uvhttp__outgoing_part_t *part = outgoing->first;
    if (part->reader) {
        consume_file(outgoing, size, keeper);
    } else if (size == part->piece.size) {
        *keeper = part->keeper;
        remove_first(outgoing);
    } else {
        int status = share(part, keeper);
        if (status != UVHTTP_OK) return status;
        part->piece.data += size;
        part->piece.offset += size;
        part->piece.size -= size;
        part->begun = true;
    }
    outgoing->size -= size;
    return UVHTTP_OK;
}

uint64_t uvhttp__outgoing_file_size(uvhttp__outgoing_t *outgoing) {
    refill(outgoing);
    const uvhttp__outgoing_part_t *part = outgoing->first;
    bool undecided = part && part->reader && uvhttp__file_reader_is_undecided(part->reader);
    return undecided ? part->piece.size : 0;
}

void uvhttp__outgoing_release(uvhttp__outgoing_t *outgoing) {
    while (outgoing->first) {
        const uvhttp__outgoing_part_t *part = outgoing->first;
        const uvhttp__keeper_t keeper = part->keeper;
        if (part->reader) uvhttp__file_reader_close(part->reader);
        remove_first(outgoing);
        uvhttp__keeper_release(keeper);
    }
    while (has_parts(outgoing))
        if (outgoing->rest->parts->parts[outgoing->next_part++].held) outgoing->rest->release(outgoing->rest->arg);
    outgoing->size = 0;
    outgoing->failure = UVHTTP_E_ABORTED;
}
