/* Owns: listening sockets that pass from a process to the one that replaces it. A socket that both have open loses no
 * connection of its backlog when one of them closes it: that is why the sockets themselves pass, all of a SO_REUSEPORT
 * group, and why each of them gets a listener however many loops the new process has. May include: io, base, obs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "conn/tcp_server_internal.h"

/* --- received --- */

static uint64_t cookie_of(int fd) {
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

/* Loops that share one socket have duplicates of it. */
static bool is_known(const uvhttp__inherited_t *inherited, int fd) {
    uint64_t cookie = cookie_of(fd);
    for (uint32_t i = 0; i < inherited->count && cookie != 0; i++)
        if (cookie_of(inherited->sockets[i].fd) == cookie) return true;
    return false;
}

static int add_group(uvhttp__inherited_t *inherited, const char *address) {
    size_t size = (inherited->group_count + 1) * sizeof *inherited->addresses;
    char(*addresses)[UVHTTP__ADDRESS_TEXT_MAX] = uvhttp__realloc(inherited->addresses, size);
    if (!addresses) return UVHTTP_E_NOMEM;
    inherited->addresses = addresses;
    memset(addresses[inherited->group_count], 0, sizeof *addresses);
    memcpy(addresses[inherited->group_count++], address, strnlen(address, UVHTTP__ADDRESS_TEXT_MAX - 1));
    return UVHTTP_OK;
}

static int add_socket(uvhttp__inherited_t *inherited, int fd) {
    size_t size = (inherited->count + 1) * sizeof *inherited->sockets;
    uvhttp__inherited_socket_t *sockets = uvhttp__realloc(inherited->sockets, size);
    if (!sockets) return UVHTTP_E_NOMEM;
    inherited->sockets = sockets;
    sockets[inherited->count++] = (uvhttp__inherited_socket_t){.fd = fd, .group = inherited->group_count - 1};
    return UVHTTP_OK;
}

int uvhttp__inherited_add(uvhttp__inherited_t *inherited, const char *address, int fd, bool more) {
    const uvhttp__endpoint_t endpoint = {.fd = fd};
    int checked, status = uvhttp__listen_socket(&endpoint, 0, false, &checked);
    if (status == UVHTTP_OK && (!more || inherited->group_count == 0)) status = add_group(inherited, address);
    if (status == UVHTTP_OK && !is_known(inherited, fd)) {
        status = add_socket(inherited, fd);
        if (status == UVHTTP_OK) return status;
    }
    close(fd);
    return status;
}

void uvhttp__inherited_close(uvhttp__inherited_t *inherited) {
    for (uint32_t i = 0; i < inherited->count; i++)
        if (inherited->sockets[i].fd >= 0) close(inherited->sockets[i].fd);
    uvhttp__free(inherited->sockets);
    uvhttp__free(inherited->addresses);
    *inherited = (uvhttp__inherited_t){.count = 0};
}

/* --- listened on --- */

/* The sockets of one address that no listener has yet: the first of them, and how many. Addresses that were listened on
 * twice (port 0) come in their order. */
static uint32_t find(const uvhttp__tcp_server_t *tcp_server, const char *text, uint32_t *first) {
    const uvhttp__inherited_t *inherited = &tcp_server->inherited;
    uint32_t count = 0;
    for (uint32_t i = 0; i < inherited->count; i++) {
        const uvhttp__inherited_socket_t *socket = &inherited->sockets[i];
        if (count > 0 && socket->group != inherited->sockets[*first].group) break;
        if (socket->fd < 0 || strcmp(inherited->addresses[socket->group], text) != 0) continue;
        if (count++ == 0) *first = i;
    }
    return count;
}

uint32_t uvhttp__inherited_find(const uvhttp__tcp_server_t *tcp_server, const uvhttp__endpoint_t *endpoint) {
    uint32_t first, count = find(tcp_server, endpoint->text, &first);
    return (count + tcp_server->loop_count - 1) / tcp_server->loop_count;
}

int uvhttp__inherited_peek(const uvhttp__tcp_server_t *tcp_server, const uvhttp__endpoint_t *endpoint) {
    uint32_t first;
    return find(tcp_server, endpoint->text, &first) > 0 ? tcp_server->inherited.sockets[first].fd : -1;
}

/* Loops beyond the sockets share them. */
static int share(int *fds, uint32_t count, uint32_t places) {
    for (uint32_t i = count; i < places; i++) {
        fds[i] = fcntl(fds[i % count], F_DUPFD_CLOEXEC, 0);
        if (fds[i] < 0) return UVHTTP_E_NO_DESCRIPTORS;
    }
    return UVHTTP_OK;
}

/* One that the old process inherited from its manager, which has chosen the backlog. */
static bool is_of_manager(const char *text) {
    return strncmp(text, "fd:", 3) == 0 || strncmp(text, "systemd", 7) == 0;
}

int uvhttp__inherited_take(uvhttp__tcp_server_t *tcp_server, uvhttp__endpoint_t *endpoint, int *fds, uint32_t sets) {
    uint32_t first, count = find(tcp_server, endpoint->text, &first);
    int backlog = is_of_manager(endpoint->text) ? 0 : (int)tcp_server->options.backlog;
    for (uint32_t i = 0; i < count; i++) {
        endpoint->fd = tcp_server->inherited.sockets[first + i].fd;
        int status = uvhttp__listen_socket(endpoint, backlog, false, &fds[i]);
        endpoint->fd = -1;
        if (status != UVHTTP_OK) return status;
        tcp_server->inherited.sockets[first + i].fd = -1;
    }
    endpoint->address_size = sizeof endpoint->address;
    if (getsockname(fds[0], &endpoint->address.any, &endpoint->address_size) != 0) return UVHTTP_E_IO;
    return share(fds, count, sets * tcp_server->loop_count);
}

/* --- passed on --- */

/* A loop closes its listeners after a stop alone, which the lock keeps away. */
int uvhttp__tcp_server_each_socket(uvhttp__tcp_server_t *tcp_server,
                                   void (*each)(const char *text, int fd, bool more, void *arg), void *arg) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    bool runs = tcp_server->loops_ready && tcp_server->stop_level == 0 && !tcp_server->uv;
    for (uint32_t i = 0; runs && i < tcp_server->endpoint_count; i++) {
        const uvhttp__endpoint_t *endpoint = &tcp_server->endpoints[i];
        for (uint32_t loop = 0; loop < tcp_server->loop_count; loop++)
            each(endpoint->text, fcntl(tcp_server->loops[loop].listeners[i].fd, F_DUPFD_CLOEXEC, 0),
                 endpoint->is_more || loop > 0, arg);
    }
    pthread_mutex_unlock(&tcp_server->stop_lock);
    return runs ? UVHTTP_OK : UVHTTP_E_STATE;
}
