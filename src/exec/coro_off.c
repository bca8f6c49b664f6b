/* Owns: what is left of coroutines in a build without them: nobody runs in one. May include: io, base, obs. */
#include "exec/coro.h"

bool uvhttp_coro_active(void) {
    return false;
}

int uvhttp_coro_wake_on_stop(void) {
    return UVHTTP_E_STATE;
}

int uvhttp_coro_sleep(uint32_t ms) {
    (void)ms;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_yield(void) {
    return UVHTTP_E_STATE;
}

int uvhttp_coro_defer(void (*cleanup)(void *arg), void *arg) {
    (void)cleanup, (void)arg;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_work(void (*run)(void *arg), void *arg) {
    (void)run, (void)arg;
    return UVHTTP_E_STATE;
}

void uvhttp__coro_sched_run(uvhttp__coro_sched_t *sched) {
    (void)sched;
}

void uvhttp__coro_sched_soon(uvhttp__coro_sched_t *sched) {
    (void)sched;
}

int uvhttp_coro_spawn(void (*run)(void *arg), void *arg, uvhttp_coro_t **coro) {
    (void)run, (void)arg;
    if (coro) *coro = NULL;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_join(uvhttp_coro_t *coro, uint32_t timeout_ms) {
    (void)coro, (void)timeout_ms;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_cancel(uvhttp_coro_t *coro) {
    (void)coro;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_channel_new(size_t item_size, uint32_t capacity, uvhttp_coro_channel_t **channel) {
    (void)item_size, (void)capacity;
    if (channel) *channel = NULL;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_channel_send(uvhttp_coro_channel_t *channel, const void *item, uint32_t timeout_ms) {
    (void)channel, (void)item, (void)timeout_ms;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_channel_receive(uvhttp_coro_channel_t *channel, void *item, uint32_t timeout_ms) {
    (void)channel, (void)item, (void)timeout_ms;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_channel_close(uvhttp_coro_channel_t *channel) {
    (void)channel;
    return UVHTTP_E_STATE;
}

void uvhttp_coro_channel_free(uvhttp_coro_channel_t *channel) {
    (void)channel;
}

int uvhttp_coro_wait_fd(int fd, unsigned events, uint32_t timeout_ms) {
    (void)fd, (void)events, (void)timeout_ms;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_read(int fd, void *data, size_t max, size_t *size, uint32_t timeout_ms) {
    (void)fd, (void)data, (void)max, (void)timeout_ms;
    if (size) *size = 0;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_write(int fd, const void *data, size_t size, uint32_t timeout_ms) {
    (void)fd, (void)data, (void)size, (void)timeout_ms;
    return UVHTTP_E_STATE;
}
