/* Owns: handlers that use sockets of their own to ask another server (origin.c): with a connector and a watcher on the
 * loop, and in a coroutine; by address, and by a name that has several. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp.h>

#include "sim.h"

enum { CONNECT_MS = 20000, WAIT_MS = 6000 };

typedef struct dial {
    uint32_t tag, size, ms;
    uvhttp_deferred_t *deferred;
    uvhttp_connector_t connector;
    uvhttp_fd_watcher_t watcher;
    uvhttp_timer_t timer;
    int fd; /* -1: not yet, or not any more */
    char question[64];
    size_t question_size, asked;
    uint64_t received;
} dial_t;

static atomic_uint dials_open;

static bool by_name(uint32_t tag) {
    return tag % 3 == 0;
}

static bool is_whole(uint32_t tag) {
    return SIM_ORIGIN_PORT(tag) == SIM_ORIGIN_WHOLE;
}

bool sim_dial_may_fail(uint32_t tag) {
    return !is_whole(tag) || (by_name(tag) && !sim_threads_are_patient) || sim_crowd;
}

static void dial_init(dial_t *dial, const uvhttp_request_t *req) {
    *dial = (dial_t){.tag = sim_request_number(req, "tag", 16),
                     .size = sim_request_number(req, "size", 10),
                     .ms = sim_request_number(req, "ms", 10),
                     .fd = -1};
    dial->question_size = (size_t)snprintf(dial->question, sizeof dial->question,
                                           "GET /%x/%u/%u RAW\r\nHost: x\r\n\r\n", dial->tag, dial->size, dial->ms);
    dials_open++;
}

static void put_address(const dial_t *dial, char *address, size_t size) {
    bool known = dial->tag % 16 != 5; /* of those that are refused, half */
    const char *name = !by_name(dial->tag) ? "127.0.0.1" : known ? SIM_NAME : "nobody.sim";
    snprintf(address, size, "%s:%u", name, SIM_ORIGIN_PORT(dial->tag));
}

/* Some codes have a reason. */
static void check_connected(const dial_t *dial, int status) {
    sim_trace("dialled", dial->tag, (uint64_t)-status);
    bool refused = SIM_ORIGIN_PORT(dial->tag) == SIM_ORIGIN_REFUSES;
    bool stopped = status == UVHTTP_E_ABORTED || status == UVHTTP_E_WORK_CANCELLED;
    bool late = status == UVHTTP_E_TIMEOUT && sim_crowd; /* many wait for few threads */
    if (sim_failing || stopped || late ||
        (by_name(dial->tag) && status == UVHTTP_E_WORK_FULL && !sim_threads_are_patient))
        return;
    if (refused ? status == UVHTTP_OK : status != UVHTTP_OK)
        sim_fail("the connection for %x: %s", dial->tag, status ? uvhttp_error_name(status) : "none is possible");
}

static void check_bytes(dial_t *dial, const char *data, size_t size) {
    if (sim_mismatch(data, SIM_ORIGIN_TAG(dial->tag), dial->received, size) < size)
        sim_fail("the other server's response to %x has wrong bytes", dial->tag);
    dial->received += size;
}

/* The other server has sent all of it, or the rest is missing for a reason. */
static bool is_complete(const dial_t *dial, int status) {
    bool whole = status == UVHTTP_E_EOF && dial->received == dial->size;
    bool late = status == UVHTTP_E_TIMEOUT && sim_crowd; /* the other server has many */
    bool excused = sim_failing || late || status == UVHTTP_E_ABORTED || !is_whole(dial->tag);
    if (!whole && !excused)
        sim_fail("the other server's response to %x: %s after %llu bytes", dial->tag, uvhttp_error_name(status),
                 (unsigned long long)dial->received);
    return whole;
}

/* --- on the loop --- */

static void dial_end(dial_t *dial) {
    uvhttp_connect_stop(&dial->connector);
    uvhttp_fd_watcher_stop(&dial->watcher);
    uvhttp_timer_stop(&dial->timer);
    if (dial->fd >= 0) close(dial->fd);
    uvhttp_deferred_release(dial->deferred);
    free(dial);
    dials_open--;
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)deferred;
    dial_end(user);
}

static void refuse(dial_t *dial) {
    (void)uvhttp_deferred_send(dial->deferred, 502, NULL, "", 0);
    dial_end(dial);
}

static void finish(dial_t *dial, int status) {
    if (!is_complete(dial, status)) {
        refuse(dial);
        return;
    }
    sim_pass_on_deferred(dial->deferred, dial->tag, dial->size);
    dial_end(dial);
}

static void on_late(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    finish(user, UVHTTP_E_TIMEOUT);
}

static int ask(dial_t *dial) {
    int status = UVHTTP_OK;
    while (status == UVHTTP_OK && dial->asked < dial->question_size) {
        size_t sent = 0;
        status = uvhttp_socket_write(dial->fd, dial->question + dial->asked, dial->question_size - dial->asked, &sent);
        dial->asked += sent;
    }
    return status;
}

static int listen_to(dial_t *dial) {
    char data[3000];
    for (size_t size;;) {
        int status = uvhttp_socket_read(dial->fd, data, sizeof data, &size);
        if (status != UVHTTP_OK) return status;
        check_bytes(dial, data, size);
    }
}

static void proceed(dial_t *dial);

static void on_ready(uvhttp_fd_watcher_t *watcher, void *user) {
    (void)watcher;
    proceed(user);
}

static void proceed(dial_t *dial) {
    int status = ask(dial);
    bool asks = status == UVHTTP_E_AGAIN;
    if (status == UVHTTP_OK) status = listen_to(dial);
    if (status == UVHTTP_E_AGAIN)
        status =
            uvhttp_fd_watcher_start(&dial->watcher, dial->fd, asks ? UVHTTP_WRITABLE : UVHTTP_READABLE, on_ready, dial);
    if (status == UVHTTP_OK) status = uvhttp_timer_start(&dial->timer, WAIT_MS, on_late, dial);
    if (status != UVHTTP_OK) finish(dial, status);
}

static void on_connected(uvhttp_connector_t *connector, int status, int fd, void *user) {
    dial_t *dial = user;
    if (connector != &dial->connector) sim_fail("the connector of %x is another's", dial->tag);
    check_connected(dial, status);
    dial->fd = fd;
    if (status == UVHTTP_OK)
        proceed(dial);
    else
        refuse(dial);
}

static void on_dial(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char address[64];
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return;
    dial_t *dial = calloc(1, sizeof *dial);
    if (!dial) abort();
    dial_init(dial, req);
    dial->deferred = deferred;
    uvhttp_deferred_on_abort(deferred, on_abort, dial);
    put_address(dial, address, sizeof address);
    int status = uvhttp_connect_start(&dial->connector, address, CONNECT_MS, on_connected, dial);
    if (status == UVHTTP_OK) return;
    check_connected(dial, status);
    refuse(dial);
}

/* --- in a coroutine --- */

static int talk(dial_t *dial) {
    char address[64], data[3000];
    put_address(dial, address, sizeof address);
    int status = uvhttp_coro_connect(address, CONNECT_MS, &dial->fd);
    check_connected(dial, status);
    if (status == UVHTTP_OK) status = uvhttp_coro_write(dial->fd, dial->question, dial->question_size, WAIT_MS);
    for (size_t size; status == UVHTTP_OK;) {
        status = uvhttp_coro_read(dial->fd, data, sizeof data, &size, WAIT_MS);
        if (status == UVHTTP_OK) check_bytes(dial, data, size);
    }
    return status;
}

static void on_codial(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    dial_t dial;
    dial_init(&dial, req);
    int status = talk(&dial);
    bool connected = dial.fd >= 0, good = connected && is_complete(&dial, status);
    if (connected) close(dial.fd);
    dials_open--;
    if (!good) {
        (void)uvhttp_response_send(res, 502, NULL, "", 0);
        return;
    }
    sim_pass_on(res, dial.tag, dial.size);
}

void sim_dial_add(uvhttp_server_t *server) {
    dials_open = 0;
    uvhttp_get(server, "/dial/:tag/:size/:ms", on_dial, NULL);
    uvhttp_route(server, UVHTTP_GET, "/codial/:tag/:size/:ms", on_codial, NULL, UVHTTP_EXEC_COROUTINE);
}

void sim_dial_check_end(void) {
    if (dials_open) sim_fail("%u handlers with sockets of their own have no end", dials_open);
}
