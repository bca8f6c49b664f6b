/* Owns: the body of one response on its way out. The exchange appends bytes; the protocol pulls them when the wire
 * queue has capacity. Loop's thread. May include: message, exec, base. */
#ifndef UVHTTP_SRC_EXCHANGE_OUTGOING_H
#define UVHTTP_SRC_EXCHANGE_OUTGOING_H

#include "exec/file_reader.h"
#include "message/message.h"

/* Bytes that stand together, and what was not consumed of them. */
typedef struct uvhttp__outgoing_part {
    struct uvhttp__outgoing_part *next;
    uvhttp__piece_t piece; /* KEPT with a descriptor: the same bytes are in a file that is memory */
    uvhttp__keeper_t keeper;
    uvhttp__file_reader_t *reader; /* brings the bytes; NULL: `piece` says where they are */
    bool begun;                    /* some of it was consumed */
} uvhttp__outgoing_part_t;

typedef struct uvhttp__outgoing {
    void (*ready)(struct uvhttp__outgoing *outgoing);
    struct uvhttp__exchange *exchange; /* for `ready` only */
    uvhttp__outgoing_part_t *first, *last;
    uint64_t size;               /* bytes that were not consumed */
    uvhttp__outgoing_part_t own; /* a complete body's only part that is in the list; or the bytes that are lent */
    const uvhttp__body_t *rest;  /* of the kind PARTS: those that have yet to come, from next_part on; NULL: none */
    uvhttp__framing_t framing;   /* of the protocol, for files that are read into memory */
    uint32_t next_part;
    int16_t failure; /* why the rest cannot be had; 0: it can */
    bool ended;
    bool whole; /* a streamed one was ended as it should: with all that was announced */
} uvhttp__outgoing_t;

/* ready: as for uvhttp__file_reader_new, after a peek that has returned UVHTTP_E_AGAIN because of a file. */
void uvhttp__outgoing_init(uvhttp__outgoing_t *outgoing, void (*ready)(uvhttp__outgoing_t *outgoing),
                           struct uvhttp__exchange *exchange);
/* All of a complete body, which is none afterwards, but stays where it is. memory: keeps a body that is one piece of
 * memory (kinds up to REF). port: reads a file that brings no port of its own. Returns 0 or UVHTTP_E_NOMEM: everything
 * was released. */
int uvhttp__outgoing_put_body(uvhttp__outgoing_t *outgoing, uvhttp__body_t *body, uvhttp__keeper_t memory,
                              uvhttp__work_port_t *port);
/* The next bytes of a streamed body, which stay the caller's: they can be pulled until uvhttp__outgoing_take_back. */
void uvhttp__outgoing_lend(uvhttp__outgoing_t *outgoing, const char *data, size_t size);
/* What was lent and not consumed is copied (keep), or dropped. Returns 0 or UVHTTP_E_NOMEM: it is dropped, and if some
 * of it was consumed nothing can follow. */
int uvhttp__outgoing_take_back(uvhttp__outgoing_t *outgoing, bool keep);
/* A copy of both, one behind the other. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__outgoing_put_copy(uvhttp__outgoing_t *outgoing, uvhttp_str_t head, uvhttp_str_t rest);
/* Bytes that `keeper` keeps. Returns 0 or UVHTTP_E_NOMEM: the keeper was released. */
int uvhttp__outgoing_put_reference(uvhttp__outgoing_t *outgoing, uvhttp_str_t data, uvhttp__keeper_t keeper);
/* Nothing is put in any more. */
void uvhttp__outgoing_end(uvhttp__outgoing_t *outgoing);

/* --- for the protocol --- */

/* Shows the next bytes. by_sendfile: it can send a descriptor. Returns 0, UVHTTP_E_AGAIN (there are none yet),
 * UVHTTP_E_EOF (all were consumed), or why the rest cannot be had: the response has to be cut off. */
int uvhttp__outgoing_peek(uvhttp__outgoing_t *outgoing, bool by_sendfile, uvhttp__piece_t *piece);
/* The first `size` bytes of what the last peek has shown are consumed. *keeper keeps them, for the caller to release.
 * Returns 0 or UVHTTP_E_NOMEM: none was consumed. Never fails for all of the piece. */
int uvhttp__outgoing_consume(uvhttp__outgoing_t *outgoing, uint64_t size, uvhttp__keeper_t *keeper);
/* Whether all was consumed and nothing is appended any more: known without a peek, so that a protocol without capacity
 * need not wait for it. */
static inline bool uvhttp__outgoing_is_over(const uvhttp__outgoing_t *outgoing) {
    return outgoing->ended && outgoing->size == 0 && outgoing->failure == UVHTTP_OK;
}
/* Bytes of a file that come next and could go by sendfile(2), as far as is not decided yet; 0: none. */
uint64_t uvhttp__outgoing_file_size(uvhttp__outgoing_t *outgoing);
/* Nothing is pulled any more: releases what was not consumed. */
void uvhttp__outgoing_release(uvhttp__outgoing_t *outgoing);

#endif
