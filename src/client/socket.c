/* Owns: the public waits for descriptors and connections, which lie in the application's memory. May include: exec,
 * conn, io, base, obs. */
#include <uvhttp/socket.h>

#include "client/connect.h"
#include "conn/tcp_server.h"

static_assert((int)UVHTTP_READABLE == UVHTTP__FD_READABLE && (int)UVHTTP_WRITABLE == UVHTTP__FD_WRITABLE,
              "one is given as the other");

/* --- descriptors --- */

typedef struct watcher {
    uvhttp__fd_wait_t wait;
    void (*on_ready)(uvhttp_fd_watcher_t *watcher, void *user);
    void *user;
} __attribute__((may_alias)) watcher_t;

static_assert(sizeof(watcher_t) <= sizeof(uvhttp_fd_watcher_t), "it fits into the public one");

static void on_ready(uvhttp__fd_wait_t *wait) {
    const watcher_t *it = UVHTTP__CONTAINER_OF(wait, watcher_t, wait);
    it->on_ready((uvhttp_fd_watcher_t *)(void *)wait, it->user);
}

int uvhttp_fd_watcher_start(uvhttp_fd_watcher_t *watcher, int fd, unsigned events,
                            void (*ready)(uvhttp_fd_watcher_t *watcher, void *user), void *user) {
    const unsigned known = UVHTTP_READABLE | UVHTTP_WRITABLE;
    if (!watcher || !ready || fd < 0 || events == 0 || (events & ~known)) return UVHTTP_E_INVALID;
    uvhttp__loop_t *loop = uvhttp__tcp_server_current_loop();
    if (!loop) return UVHTTP_E_STATE;
    watcher_t *it = (void *)watcher->internal.bytes;
    uvhttp__fd_wait_stop(&it->wait);
    it->on_ready = ready;
    it->user = user;
    return uvhttp__fd_wait_start(loop, &it->wait, fd, events, on_ready);
}

void uvhttp_fd_watcher_stop(uvhttp_fd_watcher_t *watcher) {
    if (watcher) uvhttp__fd_wait_stop(&((watcher_t *)(void *)watcher->internal.bytes)->wait);
}

/* --- connections --- */

typedef struct connecting {
    uvhttp__connector_t connector;
    uvhttp_connect_cb on_connect;
    void *user;
} __attribute__((may_alias)) connecting_t;

static_assert(sizeof(connecting_t) <= sizeof(uvhttp_connector_t), "it fits into the public one");

static void on_connect(uvhttp__connector_t *connector, int status, int fd) {
    const connecting_t *it = UVHTTP__CONTAINER_OF(connector, connecting_t, connector);
    it->on_connect((uvhttp_connector_t *)(void *)connector, status, fd, it->user);
}

int uvhttp_connect_start(uvhttp_connector_t *connector, const char *address, uint32_t timeout_ms,
                         uvhttp_connect_cb connected, void *user) {
    if (!connector || !address || !connected) return UVHTTP_E_INVALID;
    uvhttp__loop_t *loop = uvhttp__tcp_server_current_loop();
    if (!loop) return UVHTTP_E_STATE;
    connecting_t *it = (void *)connector->internal.bytes;
    uvhttp__connector_stop(&it->connector);
    it->on_connect = connected;
    it->user = user;
    return uvhttp__connector_start(&it->connector, loop, address, UVHTTP__CONNECT_ANY, timeout_ms, on_connect);
}

void uvhttp_connect_stop(uvhttp_connector_t *connector) {
    if (connector) uvhttp__connector_stop(&((connecting_t *)(void *)connector->internal.bytes)->connector);
}
