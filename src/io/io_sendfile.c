/* Owns: sendfile(2), which raises SIGPIPE. May include: base, obs. */
#include <errno.h>
#include <sys/sendfile.h>

#include "base/sigpipe.h"
#include "io/engine.h"
#include "obs/log.h"

/* sendfile(2) fails for the socket's reasons and for the file's. */
static bool is_of_peer(int error) {
    switch (error) {
        case EPIPE:
        case ECONNRESET:
        case ECONNABORTED:
        case ENOTCONN:
        case ESHUTDOWN:
        case ETIMEDOUT:
        case EHOSTUNREACH:
        case EHOSTDOWN:
        case ENETUNREACH:
        case ENETDOWN:
        case ENETRESET:
        case ENOBUFS: return true;
        default: return false;
    }
}

/* sendfile(2) has failed with `error`, or moved nothing (0): the file ends before its segment does. Counts and logs it
 * unless it is the peer's doing. Returns UVHTTP_E_ABORTED. */
static int file_failed(uvhttp__stream_t *stream, const uvhttp__segment_t *file, int error) {
    if (error) uvhttp__stream_note_error(stream, error, true);
    if (is_of_peer(error)) return UVHTTP_E_ABORTED;
    uvhttp__counters_add(stream->loop->counters, file_read_errors, 1);
    uvhttp__log_file_error(file->fd, NULL, (uint64_t)file->offset, error);
    return UVHTTP_E_ABORTED;
}

static int send_share_of_file(uvhttp__stream_t *stream) {
    const uvhttp__segment_t *file = stream->out_first;
    for (uint64_t share = UVHTTP__FILE_ITERATION_MAX; share > 0;) {
        off_t offset = (off_t)file->offset;
        size_t want = (size_t)(file->size < share ? file->size : share);
        ssize_t sent = sendfile(stream->fd, file->fd, &offset, want);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return UVHTTP_E_AGAIN;
        if (sent <= 0) return file_failed(stream, file, sent < 0 ? errno : 0);
        share -= (uint64_t)sent;
        bool last = (uint64_t)sent == file->size;
        uvhttp__out_advance(stream, (size_t)sent);
        if (last) return UVHTTP_OK;
    }
    return UVHTTP_E_LIMIT;
}

/* FIN follows this segment. */
static int send_close_notify(uvhttp__stream_t *stream) {
    int status = stream->filter->ops->pass_end(stream);
    if (status != UVHTTP_OK) return status;
    uvhttp__segment_t *end = stream->out_first;
    stream->out_first = end->next;
    if (!end->next) stream->out_last = NULL;
    uvhttp__segment_release(stream->loop, end);
    return UVHTTP_OK;
}

int uvhttp__out_sendfile(uvhttp__stream_t *stream) {
    if (stream->out_first->kind == UVHTTP__SEGMENT_CONTROL) return send_close_notify(stream);
    if (!stream->loop->is_guest) return send_share_of_file(stream);
    uvhttp__pipe_guard_t guard;
    uvhttp__pipe_block(&guard);
    int status = send_share_of_file(stream);
    uvhttp__pipe_restore(&guard);
    return status;
}
