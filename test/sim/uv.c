/* Owns: the functions of libuv that the linker replaces. On the loop of an application that is simulated (uv_loop.c)
 * they are the simulation's. On any other they are the real ones, except that a loop of the server's own also polls
 * simulated descriptors: the real libuv knows real ones only. */
#include <uv.h>

#include "kernel.h"
#include "uv_loop.h"

enum { POLLS_MAX = 64 };

int __real_uv_poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd);
int __real_uv_poll_start(uv_poll_t *handle, int events, uv_poll_cb cb);
void __real_uv_close(uv_handle_t *handle, uv_close_cb on_closed);
int __real_uv_run(uv_loop_t *loop, uv_run_mode mode);
int __real_uv_prepare_init(uv_loop_t *loop, uv_prepare_t *handle);
int __real_uv_prepare_start(uv_prepare_t *handle, uv_prepare_cb cb);
int __real_uv_backend_timeout(const uv_loop_t *loop);
int __real_uv_loop_alive(const uv_loop_t *loop);
void __real_uv_update_time(uv_loop_t *loop);
int __real_uv_loop_close(uv_loop_t *loop);
void __real_uv_ref(uv_handle_t *handle);
void __real_uv_unref(uv_handle_t *handle);

static bool is_simulated(const void *handle) {
    return sim_uv_is_simulated(((const uv_handle_t *)handle)->loop);
}

/* --- descriptors that a loop of the server's own polls --- */

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

static int run_real(uv_loop_t *loop, uv_run_mode mode) {
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

/* --- loops --- */

int __wrap_uv_run(uv_loop_t *loop, uv_run_mode mode) {
    return sim_uv_is_simulated(loop) ? sim_uv_run(mode) : run_real(loop, mode);
}

int __wrap_uv_backend_timeout(const uv_loop_t *loop) {
    return sim_uv_is_simulated(loop) ? sim_uv_backend_timeout() : __real_uv_backend_timeout(loop);
}

int __wrap_uv_loop_alive(const uv_loop_t *loop) {
    return sim_uv_is_simulated(loop) ? sim_uv_alive() : __real_uv_loop_alive(loop);
}

void __wrap_uv_update_time(uv_loop_t *loop) {
    if (sim_uv_is_simulated(loop))
        sim_uv_update_time();
    else
        __real_uv_update_time(loop);
}

int __wrap_uv_loop_close(uv_loop_t *loop) {
    return sim_uv_is_simulated(loop) ? sim_uv_loop_close() : __real_uv_loop_close(loop);
}

/* --- handles of both --- */

int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *handle, int fd) {
    if (sim_uv_is_simulated(loop)) {
        if (sim_memory_fails()) return UV_ENOMEM; /* the kernel's */
        sim_uv_init((uv_handle_t *)handle, UV_POLL, fd);
        return 0;
    }
    if (!sim_is_simulated(fd)) return __real_uv_poll_init(loop, handle, fd);
    polled_t *it = find(NULL);
    if (!it) sim_fail("more than %d descriptors for libuv", POLLS_MAX);
    *it = (polled_t){.handle = handle, .loop = loop, .fd = fd};
    return 0;
}

int __wrap_uv_poll_start(uv_poll_t *handle, int events, uv_poll_cb on_event) {
    polled_t *it = find(handle);
    if (it) {
        it->on_event = on_event;
        return 0;
    }
    if (!is_simulated(handle)) return __real_uv_poll_start(handle, events, on_event);
    sim_uv_start_poll(handle, events, on_event);
    return 0;
}

void __wrap_uv_close(uv_handle_t *handle, uv_close_cb on_closed) {
    polled_t *it = find(handle);
    if (it)
        it->on_closed = on_closed;
    else if (is_simulated(handle))
        sim_uv_close(handle, on_closed);
    else
        __real_uv_close(handle, on_closed);
}

int __wrap_uv_prepare_init(uv_loop_t *loop, uv_prepare_t *handle) {
    if (!sim_uv_is_simulated(loop)) return __real_uv_prepare_init(loop, handle);
    sim_uv_init((uv_handle_t *)handle, UV_PREPARE, -1);
    return 0;
}

int __wrap_uv_prepare_start(uv_prepare_t *handle, uv_prepare_cb cb) {
    if (!is_simulated(handle)) return __real_uv_prepare_start(handle, cb);
    sim_uv_start((uv_handle_t *)handle, (void (*)(uv_handle_t *))cb);
    return 0;
}

static bool is_polled(const uv_handle_t *handle) {
    return find(handle) != NULL;
}

void __wrap_uv_ref(uv_handle_t *handle) {
    if (!is_polled(handle) && is_simulated(handle))
        sim_uv_reference(handle, true);
    else
        __real_uv_ref(handle);
}

void __wrap_uv_unref(uv_handle_t *handle) {
    if (!is_polled(handle) && is_simulated(handle))
        sim_uv_reference(handle, false);
    else
        __real_uv_unref(handle);
}

/* --- handles that only the loop of an application has --- */

static void need_simulated(const uv_loop_t *loop, const char *call) {
    if (!sim_uv_is_simulated(loop)) sim_fail("%s on a loop that is not simulated", call);
}

uint64_t __wrap_uv_now(const uv_loop_t *loop) {
    need_simulated(loop, "uv_now");
    return sim_uv_now();
}

int __wrap_uv_check_init(uv_loop_t *loop, uv_check_t *handle) {
    need_simulated(loop, "uv_check_init");
    sim_uv_init((uv_handle_t *)handle, UV_CHECK, -1);
    return 0;
}

int __wrap_uv_check_start(uv_check_t *handle, uv_check_cb cb) {
    sim_uv_start((uv_handle_t *)handle, (void (*)(uv_handle_t *))cb);
    return 0;
}

int __wrap_uv_idle_init(uv_loop_t *loop, uv_idle_t *handle) {
    need_simulated(loop, "uv_idle_init");
    sim_uv_init((uv_handle_t *)handle, UV_IDLE, -1);
    return 0;
}

int __wrap_uv_idle_start(uv_idle_t *handle, uv_idle_cb cb) {
    sim_uv_start((uv_handle_t *)handle, (void (*)(uv_handle_t *))cb);
    return 0;
}

int __wrap_uv_idle_stop(uv_idle_t *handle) {
    sim_uv_stop((uv_handle_t *)handle);
    return 0;
}

int __wrap_uv_timer_init(uv_loop_t *loop, uv_timer_t *handle) {
    need_simulated(loop, "uv_timer_init");
    sim_uv_init((uv_handle_t *)handle, UV_TIMER, -1);
    return 0;
}

int __wrap_uv_timer_start(uv_timer_t *handle, uv_timer_cb cb, uint64_t timeout, uint64_t repeat) {
    sim_uv_start_timer(handle, cb, timeout, repeat);
    return 0;
}

int __wrap_uv_async_init(uv_loop_t *loop, uv_async_t *handle, uv_async_cb cb) {
    need_simulated(loop, "uv_async_init");
    if (sim_memory_fails()) return UV_ENOMEM;
    sim_uv_init((uv_handle_t *)handle, UV_ASYNC, -1);
    sim_uv_set_async(handle, cb);
    return 0;
}

int __wrap_uv_async_send(uv_async_t *handle) {
    sim_uv_send(handle);
    return 0;
}
