/* Owns: reading of a file by threads of a pool, for a body that is pulled: what sendfile(2) would have to wait for is
 * brought into memory, and a transport that cannot send a descriptor (TLS, frames) gets the bytes in memory. Loop's
 * thread. May include: io, base, obs. */
#ifndef UVHTTP_SRC_EXEC_FILE_READER_H
#define UVHTTP_SRC_EXEC_FILE_READER_H

#include "base/keeper.h"
#include "exec/work.h"

/* Bytes of one file that are in memory at most while a client takes it. */
#define UVHTTP__FILE_READER_MEMORY_MAX (128u * 1024)

typedef struct uvhttp__file {
    int fd;                      /* of a regular file, open until `keeper` is released on the loop's thread */
    uint64_t offset, size;       /* bytes; size > 0 */
    uvhttp__keeper_t keeper;     /* released once, also when the reader cannot be made */
    _Atomic(uint64_t) *found_ms; /* of a file that is sent whole: as for uvhttp__page_cache_holds; or NULL */
    bool copied;                 /* threads read all of it into memory: sendfile(2) is not wanted */
    uvhttp__framing_t framing;   /* of what is read into memory */
} uvhttp__file_t;

typedef struct uvhttp__file_reader uvhttp__file_reader_t;

/* ready(arg) is called after each peek that has returned UVHTTP_E_AGAIN, once, from the loop and outside of any other
 * call, until the reader is closed. The port stays open as long as its loop runs. NULL: out of memory. */
uvhttp__file_reader_t *uvhttp__file_reader_new(uvhttp__work_port_t *port, const uvhttp__file_t *file,
                                               void (*ready)(void *arg), void *arg);
/* Shows the next bytes. by_sendfile: the caller can send a descriptor; the first peek decides for the whole file.
 * Returns 0, UVHTTP_E_AGAIN (`ready` follows) or, from then on for good, why the rest cannot be had: UVHTTP_E_ABORTED
 * (it cannot be read, or is shorter than it was) or UVHTTP_E_NOMEM. */
int uvhttp__file_reader_peek(uvhttp__file_reader_t *reader, bool by_sendfile, uvhttp__piece_t *piece);
/* The first `size` bytes of what the last peek has shown are consumed; the keeper keeps them, also when the reader has
 * been closed. */
uvhttp__keeper_t uvhttp__file_reader_consume(uvhttp__file_reader_t *reader, uint64_t size);
/* Whether the first peek has yet to decide, and sendfile(2) may be used. */
bool uvhttp__file_reader_is_undecided(const uvhttp__file_reader_t *reader);
/* No more is consumed. */
void uvhttp__file_reader_close(uvhttp__file_reader_t *reader);

#endif
