/* Owns: descriptors that coroutines wait for, read and write. May include: io, base, obs. */
#include <poll.h>
#include <uvhttp/socket.h>

#include "exec/coro.h"

static_assert((int)UVHTTP_READABLE == UVHTTP__FD_READABLE && (int)UVHTTP_WRITABLE == UVHTTP__FD_WRITABLE,
              "one is given as the other");

typedef struct waiting {
    uvhttp__fd_wait_t wait;
    uvhttp_coro_t *coro;
} waiting_t;

static void on_ready(uvhttp__fd_wait_t *wait) {
    uvhttp__coro_wake(UVHTTP__CONTAINER_OF(wait, waiting_t, wait)->coro, UVHTTP_OK);
}

static int await(uvhttp_coro_t *coro, int fd, unsigned events, uint32_t timeout_ms) {
    int status = uvhttp__coro_may_wait(coro);
    if (status != UVHTTP_OK) return status;
    if (timeout_ms == 0) return UVHTTP_E_TIMEOUT;
    waiting_t waiting = {.coro = coro};
    status = uvhttp__fd_wait_start(coro->sched->loop, &waiting.wait, fd, events, on_ready);
    if (status != UVHTTP_OK) return status;
    status = uvhttp__coro_wait(coro, timeout_ms);
    uvhttp__fd_wait_stop(&waiting.wait);
    return status;
}

int uvhttp_coro_wait_fd(int fd, unsigned events, uint32_t timeout_ms) {
    uvhttp_coro_t *coro = uvhttp__coro_current();
    if (fd < 0 || events == 0 || (events & ~(unsigned)(UVHTTP_READABLE | UVHTTP_WRITABLE))) return UVHTTP_E_INVALID;
    if (!coro) return UVHTTP_E_STATE;
    short wanted = (short)((events & UVHTTP_READABLE ? POLLIN : 0) | (events & UVHTTP_WRITABLE ? POLLOUT : 0));
    struct pollfd now = {.fd = fd, .events = wanted};
    if (poll(&now, 1, 0) > 0) return now.revents & POLLNVAL ? UVHTTP_E_INVALID : UVHTTP_OK;
    return await(coro, fd, events, timeout_ms);
}

/* --- reading and writing --- */

int uvhttp_coro_read(int fd, void *data, size_t max, size_t *size, uint32_t timeout_ms) {
    if (size) *size = 0;
    if (!data || max == 0 || !size) return UVHTTP_E_INVALID;
    if (!uvhttp__coro_current()) return UVHTTP_E_STATE;
    for (;;) {
        int status = uvhttp_socket_read(fd, data, max, size);
        if (status != UVHTTP_E_AGAIN) return status;
        status = await(uvhttp__coro_current(), fd, UVHTTP__FD_READABLE, timeout_ms);
        if (status != UVHTTP_OK) return status;
    }
}

int uvhttp_coro_write(int fd, const void *data, size_t size, uint32_t timeout_ms) {
    if (!data && size > 0) return UVHTTP_E_INVALID;
    if (!uvhttp__coro_current()) return UVHTTP_E_STATE;
    for (size_t done = 0, sent; done < size; done += sent) {
        int status = uvhttp_socket_write(fd, (const char *)data + done, size - done, &sent);
        if (status == UVHTTP_E_AGAIN) status = await(uvhttp__coro_current(), fd, UVHTTP__FD_WRITABLE, timeout_ms);
        if (status != UVHTTP_OK) return status;
    }
    return UVHTTP_OK;
}
