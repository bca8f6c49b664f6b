/* Owns: connections to other servers. May include: exec, conn, io, base, obs. */
#include "client/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "exec/work.h"

/* A name that is being looked up, in memory of its own: a thread may still do it when nobody wants to know. */
typedef struct uvhttp__look_up {
    uvhttp__job_t job;
    uvhttp__connector_t *connector; /* NULL: cancelled. The loop's thread */
    struct addrinfo *found;
    const char *port;
    int status; /* getaddrinfo's */
    char name[UVHTTP__CONNECT_TEXT_MAX];
} look_up_t;

static void forget(uvhttp__connector_t *connector) {
    uvhttp_timer_stop(&connector->timer);
    uvhttp__fd_wait_stop(&connector->wait);
    if (connector->look_up) connector->look_up->connector = NULL;
    if (connector->found) freeaddrinfo(connector->found);
    connector->look_up = NULL;
    connector->found = connector->address = NULL;
}

static void finish(uvhttp__connector_t *connector, int status) {
    int fd = connector->fd;
    forget(connector);
    connector->fd = -1;
    if (status != UVHTTP_OK && fd >= 0) close(fd);
    connector->on_connect(connector, status, status == UVHTTP_OK ? fd : -1);
}

/* --- one address --- */

static void on_writable(uvhttp__fd_wait_t *wait);
static void on_timer(uvhttp_timer_t *timer, void *user);

/* The share of an address, or of the name, of which so many come after it. */
static int set_timer(uvhttp__connector_t *connector, int after) {
    if (connector->deadline_ms == UINT64_MAX) return UVHTTP_OK;
    uint64_t now_ms = connector->loop->now_ms;
    if (now_ms >= connector->deadline_ms) return UVHTTP_E_TIMEOUT;
    uint64_t share_ms = (connector->deadline_ms - now_ms) / (unsigned)(after + 1);
    return uvhttp_timer_start(&connector->timer, share_ms ? share_ms : 1, on_timer, connector);
}

/* A family that is switched off, or that a sandbox forbids, says nothing about the next address of a name. */
static int no_socket(int error) {
    switch (error) {
        case EAFNOSUPPORT:
        case EPROTONOSUPPORT:
        case EACCES:
        case EPERM: return UVHTTP_E_PEER_UNREACHABLE;
        case EMFILE:
        case ENFILE: return UVHTTP_E_NO_DESCRIPTORS;
        default: return UVHTTP_E_IO;
    }
}

/* Whoever connects at once is writable at once: on_writable comes in any case. */
static int try_address(uvhttp__connector_t *connector, const struct sockaddr *address, socklen_t size) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return no_socket(errno);
    if (address->sa_family != AF_UNIX) (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    int status = connect(fd, address, size) == 0 || errno == EINPROGRESS ? UVHTTP_OK : UVHTTP_E_PEER_UNREACHABLE;
    if (status == UVHTTP_OK)
        status = uvhttp__fd_wait_start(connector->loop, &connector->wait, fd, UVHTTP__FD_WRITABLE, on_writable);
    if (status == UVHTTP_OK) status = set_timer(connector, connector->addresses_left);
    if (status == UVHTTP_OK) {
        connector->fd = fd;
        return UVHTTP_OK;
    }
    uvhttp__fd_wait_stop(&connector->wait);
    close(fd);
    return status;
}

/* From connector->address on. */
static int try_addresses(uvhttp__connector_t *connector) {
    int status = UVHTTP_E_PEER_UNREACHABLE;
    while (connector->address && connector->addresses_left > 0) {
        const struct addrinfo *address = connector->address;
        connector->addresses_left--;
        status = try_address(connector, address->ai_addr, address->ai_addrlen);
        if (status != UVHTTP_E_PEER_UNREACHABLE) return status;
        connector->address = address->ai_next;
    }
    return status;
}

static void try_next(uvhttp__connector_t *connector, int why) {
    uvhttp_timer_stop(&connector->timer);
    uvhttp__fd_wait_stop(&connector->wait);
    if (connector->fd >= 0) close(connector->fd);
    connector->fd = -1;
    if (connector->address) connector->address = connector->address->ai_next;
    int status = connector->address && connector->addresses_left > 0 ? try_addresses(connector) : why;
    if (status != UVHTTP_OK) finish(connector, status);
}

static void on_writable(uvhttp__fd_wait_t *wait) {
    uvhttp__connector_t *connector = UVHTTP__CONTAINER_OF(wait, uvhttp__connector_t, wait);
    int problem = 0;
    socklen_t size = sizeof problem;
    if (getsockopt(connector->fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0) problem = errno;
    if (problem == 0)
        finish(connector, UVHTTP_OK);
    else
        try_next(connector, UVHTTP_E_PEER_UNREACHABLE);
}

static void on_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    uvhttp__connector_t *connector = user;
    if (connector->look_up)
        finish(connector, UVHTTP_E_TIMEOUT);
    else
        try_next(connector, UVHTTP_E_TIMEOUT);
}

/* --- names --- */

/* On a thread of the pool. */
static void look_up(uvhttp__job_t *job) {
    look_up_t *it = UVHTTP__CONTAINER_OF(job, look_up_t, job);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    it->status = getaddrinfo(it->name, it->port, &hints, &it->found);
}

static int count(const struct addrinfo *address) {
    int sum = 0;
    for (; address && sum < UVHTTP__CONNECT_ADDRESSES_MAX; address = address->ai_next) sum++;
    return sum;
}

static void looked_up(uvhttp__job_t *job, bool cancelled) {
    look_up_t *it = UVHTTP__CONTAINER_OF(job, look_up_t, job);
    uvhttp__connector_t *connector = it->connector;
    int status = cancelled ? UVHTTP_E_WORK_CANCELLED : it->status == 0 ? UVHTTP_OK : UVHTTP_E_PEER_NAME;
    if (connector) {
        uvhttp_timer_stop(&connector->timer);
        connector->look_up = NULL;
        connector->found = connector->address = it->found;
        connector->addresses_left = count(it->found);
    } else if (it->found) {
        freeaddrinfo(it->found);
    }
    uvhttp__free(it);
    if (!connector) return;
    if (status == UVHTTP_OK) status = try_addresses(connector);
    if (status != UVHTTP_OK) finish(connector, status);
}

/* getaddrinfo(3) would take the low 16 bits of a larger number. */
static bool is_port(const char *text) {
    uint64_t port;
    return uvhttp__str_parse_u64(uvhttp__str_from(text), &port) == UVHTTP_OK && port <= UINT16_MAX;
}

static int start_name(uvhttp__connector_t *connector, const char *address) {
    const char *colon = strrchr(address, ':');
    size_t size = colon ? (size_t)(colon - address) : 0;
    if (size == 0 || strlen(address) >= UVHTTP__CONNECT_TEXT_MAX || !is_port(colon + 1) || strpbrk(address, "/@[]%* "))
        return UVHTTP_E_ADDRESS;
    if (!uvhttp__work_port_of(connector->loop)) return UVHTTP_E_STATE;
    look_up_t *it = uvhttp__malloc(sizeof *it);
    if (!it) return UVHTTP_E_NOMEM;
    *it = (look_up_t){.connector = connector};
    memcpy(it->name, address, strlen(address) + 1);
    it->name[size] = '\0';
    it->port = it->name + size + 1;
    uvhttp__job_init(&it->job, look_up, looked_up);
    it->job.name = "getaddrinfo";
    uvhttp__work_port_t *port = uvhttp__work_port_of(connector->loop);
    int status = set_timer(connector, 0);
    if (status == UVHTTP_OK) status = uvhttp__work_submit(port->work, port, &it->job);
    if (status == UVHTTP_OK) {
        connector->look_up = it;
        return UVHTTP_OK;
    }
    uvhttp_timer_stop(&connector->timer);
    uvhttp__free(it);
    return status;
}

/* --- life --- */

static bool is_tcp(const uvhttp__endpoint_t *endpoint) {
    return endpoint->address_size > 0 && endpoint->address.any.sa_family != AF_UNIX;
}

int uvhttp__connector_start(uvhttp__connector_t *connector, uvhttp__loop_t *loop, const char *address,
                            uvhttp__connect_reach_t reach, uint32_t timeout_ms, uvhttp__connect_cb on_connect) {
    uvhttp__loop_look_at_clock(loop);
    /* The loop's time is rounded down: one more, so that it is never too short. */
    uint64_t deadline_ms = timeout_ms == UVHTTP_NEVER ? UINT64_MAX : loop->now_ms + timeout_ms + 1;
    *connector = (uvhttp__connector_t){.loop = loop, .on_connect = on_connect, .deadline_ms = deadline_ms, .fd = -1};
    if (timeout_ms == 0) return UVHTTP_E_TIMEOUT;
    uvhttp__endpoint_t endpoint;
    if (uvhttp__endpoint_parse(address, &endpoint) != UVHTTP_OK || (reach == UVHTTP__CONNECT_TCP && !is_tcp(&endpoint)))
        return start_name(connector, address);
    if (endpoint.address_size == 0 || endpoint.dual_stack || endpoint.proxy_protocol) return UVHTTP_E_ADDRESS;
    return try_address(connector, &endpoint.address.any, endpoint.address_size);
}

void uvhttp__connector_stop(uvhttp__connector_t *connector) {
    if (!connector->loop) return;
    forget(connector);
    if (connector->fd >= 0) close(connector->fd);
    connector->fd = -1;
}
