/* Owns: what a loop's libuv polls in the simulated kernel: uv_poll on a simulated descriptor. Everything else of
 * libuv is the real one, which knows real descriptors only. */
#include <uv.h>

#include "kernel.h"

enum { POLLS_MAX = 64 };

int __real_uv_poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd);
int __real_uv_poll_start(uv_poll_t *handle, int events, uv_poll_cb cb);
void __real_uv_close(uv_handle_t *handle, uv_close_cb on_closed);
int __real_uv_run(uv_loop_t *loop, uv_run_mode mode);

typedef struct polled {
    void *handle; /* NULL: free */
    uv_loop_t *loop;
    int fd;
    uv_poll_cb on_event;
    uv_close_cb on_closed; /* it is to be closed */
} polled_t;

static polled_t polls[POLLS_MAX];

static polled_t *find(const void *handle) {
    for (uint32_t i = 0; i < POLLS_MAX; i++)
        if (polls[i].handle == handle) return &polls[i];
    return NULL;
}

static bool is_ready(const polled_t *it) {
    return it->handle && (it->on_closed || (it->on_event && (sim_events(it->fd) & 1)));
}

bool sim_uv_ready(int backend_fd) {
    for (uint32_t i = 0; i < POLLS_MAX; i++)
        if (is_ready(&polls[i]) && uv_backend_fd(polls[i].loop) == backend_fd) return true;
    return false;
}

int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd) {
    if (!sim_is_simulated(fd)) return __real_uv_poll_init(loop, handle, fd);
    polled_t *it = find(NULL);
    if (!it) sim_fail("more than %d descriptors for libuv", POLLS_MAX);
    *it = (polled_t){.handle = handle, .loop = loop, .fd = fd};
    return 0;
}

int __wrap_uv_poll_start(uv_poll_t *handle, int events, uv_poll_cb on_event) {
    polled_t *it = find(handle);
    if (!it) return __real_uv_poll_start(handle, events, on_event);
    it->on_event = on_event;
    return 0;
}

void __wrap_uv_close(uv_handle_t *handle, uv_close_cb on_closed) {
    polled_t *it = find(handle);
    if (it)
        it->on_closed = on_closed;
    else
        __real_uv_close(handle, on_closed);
}

int __wrap_uv_run(uv_loop_t *loop, uv_run_mode mode) {
    int alive = __real_uv_run(loop, mode);
    for (uint32_t i = 0; i < POLLS_MAX; i++) {
        polled_t it = polls[i];
        if (it.loop != loop || !is_ready(&it)) continue;
        if (it.on_closed) {
            polls[i].handle = NULL;
            it.on_closed(it.handle);
        } else {
            it.on_event(it.handle, 0, UV_READABLE);
        }
    }
    return alive;
}
