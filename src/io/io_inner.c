/* Owns: the libuv loop inside of a loop of our own. May include: base, obs, io. */
#include "io/io_inner.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uvhttp/error.h>
#include <uvhttp/log.h>

/* watchers_changed reads a field that libuv does not document. A version of another major number, or a later one than
 * was looked at, may have changed it: look at `watcher_queue` of uv_loop_t (uv/unix.h) and at its use in uv__io_poll,
 * then raise this. */
#if UV_VERSION_MAJOR != 1 || UV_VERSION_MINOR < 40 || UV_VERSION_MINOR > 51
#error "this version of libuv is not known (1.40 to 1.51 are): read the comment above this line in src/io/io_inner.c"
#endif

/* libuv polls nothing while no referenced handle is active, not even for unreferenced ones such as our signal watchers.
 * A handle that is referenced just for the call makes it look. */
static void on_anchor(uv_prepare_t *anchor) {
    (void)anchor;
}

/* With its first loop in a process, libuv makes a pipe, behind other descriptors, and ends the process if it cannot.
 * All that a loop needs are 6. */
static bool has_descriptors(void) {
    int fds[4], count = 0;
    while (count < 4 && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0) count++;
    for (int i = 0; i < count; i++) close(fds[i]);
    return count == 4;
}

int uvhttp__inner_open(uvhttp__inner_t *inner) {
    if (!has_descriptors()) return UVHTTP_E_NO_DESCRIPTORS;
    switch (uv_loop_init(&inner->uv)) {
        case 0: break;
        case UV_ENOMEM: return UVHTTP_E_NOMEM;
        case UV_EMFILE:
        case UV_ENFILE: return UVHTTP_E_NO_DESCRIPTORS;
        default: return UVHTTP_E_IO;
    }
    uv_prepare_init(&inner->uv, &inner->anchor);
    uv_prepare_start(&inner->anchor, on_anchor);
    uv_unref((uv_handle_t *)&inner->anchor);
    inner->open = true;
    return UVHTTP_OK;
}

/* Watchers that were added or changed since uv_run last polled are not in its epoll set yet. The queue begins
 * with the pointer to its first element, itself if it is empty: void *[2] until 1.46, struct uv__queue since then. */
static bool watchers_changed(const uv_loop_t *uv) {
    const void *first;
    memcpy(&first, &uv->watcher_queue, sizeof first);
    return first != (const void *)&uv->watcher_queue;
}

int uvhttp__inner_iteration(uvhttp__inner_t *inner) {
    uv_loop_t *uv = &inner->uv;
    if (!inner->due && !uv_loop_alive(uv) && !watchers_changed(uv)) return -1;
    uv_update_time(uv);
    if (inner->due || watchers_changed(uv) || uv_backend_timeout(uv) == 0) {
        inner->due = false;
        uv_ref((uv_handle_t *)&inner->anchor);
        uv_run(uv, UV_RUN_NOWAIT);
        uv_unref((uv_handle_t *)&inner->anchor);
    }
    if (!uv_loop_alive(uv)) return -1;
    return watchers_changed(uv) ? 0 : uv_backend_timeout(uv);
}

bool uvhttp__inner_close(uvhttp__inner_t *inner) {
    if (!inner->open) return true;
    inner->open = false;
    uv_close((uv_handle_t *)&inner->anchor, NULL);
    uv_run(&inner->uv, UV_RUN_NOWAIT); /* this and close callbacks that are due */
    if (uv_loop_close(&inner->uv) == 0) return true;
    UVHTTP_LOG_ERROR("io: a loop ends while uv handles of the application are open on it: close them before the server "
                     "stops");
    return false;
}

const char *uvhttp__uv_version(void) {
    return uv_version_string();
}
