/* Owns: the reference that keeps bytes or a descriptor valid until a reader is done with them. May include: -. */
#ifndef UVHTTP_SRC_BASE_KEEPER_H
#define UVHTTP_SRC_BASE_KEEPER_H

#include <stdint.h>

/* A reference: whoever has it calls uvhttp__keeper_release exactly once, when nothing reads the bytes any more. */
typedef struct uvhttp__keeper {
    void (*release)(void *arg); /* NULL: there is nothing to release */
    void *arg;
} uvhttp__keeper_t;

static inline void uvhttp__keeper_release(uvhttp__keeper_t keeper) {
    if (keeper.release) keeper.release(keeper.arg);
}

/* Bytes of a body up to here are cheaper copied than kept where they are until the kernel has them. */
#define UVHTTP__PIECE_COPY_MAX 4096

/* How a transport cuts a body into frames: what is read into memory for it leaves space for the head of each frame in
 * front of its payload, so that a frame stands in one place. */
typedef struct uvhttp__framing {
    uint32_t head_size;   /* bytes; 0: the transport has no frames */
    uint32_t payload_max; /* bytes of a body in one frame */
} uvhttp__framing_t;

/* Where the bytes of a piece of a body are. */
typedef enum uvhttp__piece_kind {
    UVHTTP__PIECE_LENT,   /* in memory that is valid in this call only: they are copied */
    UVHTTP__PIECE_KEPT,   /* in memory that stays until the piece's keeper is released */
    UVHTTP__PIECE_FRAMED, /* the same, and the bytes in front, uvhttp__framing_t, are the caller's to write to */
    UVHTTP__PIECE_FILE,   /* in an open file, which stays until the piece's keeper is released; none waits for a disk */
} uvhttp__piece_kind_t;

/* The next bytes of a body, in one place. */
typedef struct uvhttp__piece {
    uvhttp__piece_kind_t kind;
    int fd;           /* FILE only */
    const char *data; /* not of FILE */
    uint64_t offset;  /* FILE only */
    uint64_t size;    /* bytes; > 0 */
} uvhttp__piece_t;

#endif
