/* Owns: files on their way into a stream's output, where threads of a pool read what the loop's thread would have to
 * wait for the disk for. May include: io, base, obs. */
#ifndef UVHTTP_SRC_EXEC_FEED_H
#define UVHTTP_SRC_EXEC_FEED_H

#include "exec/work.h"

/* What one file that is copied has in memory at most, while a client takes it. */
#define UVHTTP__FEED_SIZE_MAX (128u * 1024)

typedef struct uvhttp__feed_file {
    int fd;
    uint64_t offset, size;      /* bytes; size > 0 */
    uvhttp__release_cb release; /* release(arg) when the descriptor is not needed any more, on the loop's thread */
    void *arg;
    _Atomic(uint64_t) *found_ms; /* when the file is sent whole: as in uvhttp__source_t; lives until release */
    int busy_code;               /* what is counted when the pool has no room for a job */
    bool resident;               /* as in uvhttp__source_t */
    bool copied; /* all of it goes through memory of ours, as it does on a stream that encodes; else by sendfile(2),
                    and threads read only what is not in the page cache */
} uvhttp__feed_file_t;

/* Queues the bytes [offset, offset + size) of an open regular file. Read is what the client takes next, once all before
 * it has gone, by jobs of the port. If it can not be read, or has become shorter, the connection is broken off. The
 * port must stay open as long as the stream. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_CLOSED, after having called release.
 */
int uvhttp__feed_send(uvhttp__stream_t *stream, uvhttp__work_port_t *port, const uvhttp__feed_file_t *file);

#endif
