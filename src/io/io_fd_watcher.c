/* Owns: watching a descriptor that is not a stream of the loop, through the loop's libuv. May include: base, io. */
#include <uv.h>

#include "base/alloc.h"
#include "io/io.h"

struct uvhttp__fd_watcher {
    uv_poll_t poll;
    void (*on_readable)(void *arg);
    void *arg;
};

static void on_event(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    const uvhttp__fd_watcher_t *watcher = poll->data;
    watcher->on_readable(watcher->arg);
}

static void on_closed(uv_handle_t *handle) {
    uvhttp__free(handle->data);
}

int uvhttp__fd_watcher_open(uvhttp__loop_t *loop, int fd, void (*on_readable)(void *arg), void *arg,
                            uvhttp__fd_watcher_t **watcher) {
    uvhttp__fd_watcher_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return UVHTTP_E_NOMEM;
    if (uv_poll_init(loop->uv, &made->poll, fd) != 0) {
        uvhttp__free(made);
        return UVHTTP_E_IO;
    }
    made->poll.data = made;
    made->on_readable = on_readable;
    made->arg = arg;
    uv_unref((uv_handle_t *)&made->poll);
    if (uv_poll_start(&made->poll, UV_READABLE, on_event) != 0) {
        uvhttp__fd_watcher_close(made);
        return UVHTTP_E_IO;
    }
    *watcher = made;
    return UVHTTP_OK;
}

void uvhttp__fd_watcher_close(uvhttp__fd_watcher_t *watcher) {
    uv_close((uv_handle_t *)&watcher->poll, on_closed);
}
