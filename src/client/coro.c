/* Owns: connections and requests to other servers for which a coroutine waits. May include: exec, conn, http1, io,
 * base, obs. */
#include <unistd.h>
#include <uvhttp/client.h>

#include "client/connect.h"
#include "exec/coro.h"

typedef struct connecting {
    uvhttp__connector_t connector;
    uvhttp_coro_t *coro;
    int fd;
} connecting_t;

static void on_connect(uvhttp__connector_t *connector, int status, int fd) {
    connecting_t *connecting = UVHTTP__CONTAINER_OF(connector, connecting_t, connector);
    connecting->fd = fd;
    uvhttp__coro_wake(connecting->coro, status);
}

int uvhttp_coro_connect(const char *address, uint32_t timeout_ms, int *fd) {
    if (fd) *fd = -1;
    if (!address || !fd) return UVHTTP_E_INVALID;
    connecting_t connecting = {.coro = uvhttp__coro_current(), .fd = -1};
    int status = uvhttp__coro_may_wait(connecting.coro);
    if (status != UVHTTP_OK) return status;
    status = uvhttp__connector_start(&connecting.connector, connecting.coro->sched->loop, address, UVHTTP__CONNECT_ANY,
                                     timeout_ms, on_connect);
    if (status != UVHTTP_OK) return status;
    status = uvhttp__coro_wait(connecting.coro, UVHTTP_NEVER);
    uvhttp__connector_stop(&connecting.connector);
    if (status == UVHTTP_OK)
        *fd = connecting.fd;
    else if (connecting.fd >= 0)
        close(connecting.fd);
    return status;
}

static void on_done(uvhttp_client_response_t *response, int status, void *user) {
    (void)response;
    uvhttp__coro_wake(user, status);
}

int uvhttp_coro_request_sized(const uvhttp_client_request_t *request, size_t request_size,
                              uvhttp_client_response_t **response) {
    if (!response) return UVHTTP_E_INVALID;
    *response = NULL;
    uvhttp_coro_t *coro = uvhttp__coro_current();
    int status = uvhttp__coro_may_wait(coro);
    if (status != UVHTTP_OK) return status;
    uvhttp_client_response_t *asked;
    status = uvhttp_client_send_sized(request, request_size, on_done, coro, &asked);
    if (status != UVHTTP_OK) return status;
    status = uvhttp__coro_wait(coro, UVHTTP_NEVER);
    if (status == UVHTTP_OK)
        *response = asked;
    else
        uvhttp_client_response_free(asked);
    return status;
}
