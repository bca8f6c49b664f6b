/* Owns: descriptor watchers for descriptors that are not streams of the loop, through the loop's libuv. May include:
 * base, io. */
#include <uv.h>

#include "base/alloc.h"
#include "io/io.h"

struct uvhttp__watch {
    uv_poll_t poll;
    void (*on_readable)(void *arg);
    void *arg;
};

static void on_event(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    const uvhttp__watch_t *watch = poll->data;
    watch->on_readable(watch->arg);
}

static void on_closed(uv_handle_t *handle) {
    uvhttp__free(handle->data);
}

int uvhttp__loop_watch(uvhttp__loop_t *loop, int fd, void (*on_readable)(void *arg), void *arg,
                       uvhttp__watch_t **watch) {
    uvhttp__watch_t *made = uvhttp__calloc(1, sizeof *made);
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
        uvhttp__watch_close(made);
        return UVHTTP_E_IO;
    }
    *watch = made;
    return UVHTTP_OK;
}

void uvhttp__watch_close(uvhttp__watch_t *watch) {
    uv_close((uv_handle_t *)&watch->poll, on_closed);
}
