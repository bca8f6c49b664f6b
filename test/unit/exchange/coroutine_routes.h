/* Owns: what the tests of coroutine routes share: what handlers have seen, and things to wait for. */
#ifndef UVHTTP_TEST_UNIT_EXCHANGE_COROUTINE_ROUTES_H
#define UVHTTP_TEST_UNIT_EXCHANGE_COROUTINE_ROUTES_H

#include "support/http_server.h"

#define PIECE 32768

/* What the handlers have seen; written on the loop's thread. */
static MAYBE_UNUSED atomic_int reached, waited_status, cleanups, done_status, dones, order;
static MAYBE_UNUSED atomic_int cleanup_at, done_at;
static MAYBE_UNUSED atomic_bool gate;

static MAYBE_UNUSED void reset(void) {
    reached = cleanups = dones = order = cleanup_at = done_at = 0;
    waited_status = done_status = 1;
    gate = false;
}

static MAYBE_UNUSED void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    done_status = status;
    done_at = ++order;
    dones++; /* last: the test waits for it */
}

static MAYBE_UNUSED void on_cleanup(void *arg) {
    (void)arg;
    cleanups++;
    cleanup_at = ++order;
}

static MAYBE_UNUSED uvhttp_route_t *begin(serving_t *serving, const char *path, uvhttp_handler_cb handler) {
    reset();
    serving_make(serving);
    uvhttp_route_t *route = uvhttp_route(serving->server, UVHTTP_ANY, path, handler, NULL, UVHTTP_EXEC_COROUTINE);
    assert_non_null(route);
    return route;
}

static MAYBE_UNUSED void block(void *arg) {
    *(pthread_t *)arg = pthread_self();
    while (gate) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A pair of connected sockets, closed with the coroutine. */
static MAYBE_UNUSED void close_pair(void *arg) {
    int *ends = arg;
    close(ends[0]);
    close(ends[1]);
}

static MAYBE_UNUSED int ends[2];

static MAYBE_UNUSED void open_pair(void) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) abort();
    if (uvhttp_coro_defer(close_pair, ends) != UVHTTP_OK) abort();
}

static MAYBE_UNUSED void free_channel(void *arg) {
    uvhttp_coro_channel_free(arg);
}

static MAYBE_UNUSED uvhttp_coro_channel_t *open_channel(void) {
    uvhttp_coro_channel_t *channel;
    if (uvhttp_coro_channel_new(sizeof(int), 2, &channel) != UVHTTP_OK) abort();
    if (uvhttp_coro_defer(free_channel, channel) != UVHTTP_OK) abort();
    return channel;
}

#endif
