/* Owns: listening, accepting, and the limit of connections. At the limit, or without descriptors, new connections wait
 * in the kernel's backlog; nobody spins and nobody is turned away. May include: io, base, obs. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "conn/host_internal.h"

/* The array of listeners of an attached server has its final size from the start, because listeners must not move. */
#define ATTACHED_ADDRESSES_MAX 64

/* --- listening --- */

static uint16_t port_of(int fd) {
    uvhttp__address_t address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, &address.any, &size) != 0) return 0;
    if (address.any.sa_family == AF_INET) return ntohs(address.v4.sin_port);
    if (address.any.sa_family == AF_INET6) return ntohs(address.v6.sin6_port);
    return 0;
}

static void set_port(uvhttp__endpoint_t *endpoint, uint16_t port) {
    if (endpoint->address.any.sa_family == AF_INET) endpoint->address.v4.sin_port = htons(port);
    if (endpoint->address.any.sa_family == AF_INET6) endpoint->address.v6.sin6_port = htons(port);
}

static bool is_ip(const uvhttp__endpoint_t *endpoint) {
    return endpoint->fd < 0 && endpoint->address.any.sa_family != AF_UNIX;
}

/* One socket per worker: of their own for IP (SO_REUSEPORT spreads the connections), otherwise the same one duplicated.
 * The first is bound without SO_REUSEPORT, because with it a second server would silently share the port of a first,
 * and gets it afterwards, so that its port is never free for somebody else in between. */
static int open_sockets(uvhttp__endpoint_t *endpoint, int backlog, int *fds, uint32_t count) {
    bool spread = is_ip(endpoint) && count > 1;
    int status = uvhttp__listen_socket(endpoint, backlog, false, &fds[0]);
    if (status != UVHTTP_OK) return status;
    if (spread) {
        set_port(endpoint, port_of(fds[0]));
        if (setsockopt(fds[0], SOL_SOCKET, SO_REUSEPORT, &(int){1}, sizeof(int)) != 0) return UVHTTP_E_IO;
    }
    for (uint32_t i = 1; i < count; i++) {
        if (spread) {
            status = uvhttp__listen_socket(endpoint, backlog, true, &fds[i]);
            if (status != UVHTTP_OK) return status;
        } else {
            fds[i] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
            if (fds[i] < 0) return UVHTTP_E_NO_DESCRIPTORS;
        }
    }
    return UVHTTP_OK;
}

/* reason: what more there is to say, or NULL. */
static int fail(uvhttp__host_t *host, const char *address, int status, const char *reason) {
    snprintf(host->error, sizeof host->error, "cannot listen on \"%s\": %s%s%s", address, uvhttp_error_message(status),
             reason ? ": " : "", reason ? reason : "");
    return status;
}

static int fail_to_read(uvhttp__host_t *host, const char *address, int status) {
    const char *advice = "expected host:port, [v6]:port, *:port, unix:/path, unix:@name, fd:N or systemd";
    return fail(host, address, status, status == UVHTTP_E_ADDRESS ? advice : NULL);
}

/* The address is one, but not for this machine or process. */
static int fail_to_open(uvhttp__host_t *host, const char *address, int status, const uvhttp__endpoint_t *endpoint) {
    const char *reason = NULL;
    char text[160];
    if (status == UVHTTP_E_CONFIG) {
        bool unknown = errno == ENOENT;
        snprintf(text, sizeof text, "tcp_congestion_control \"%.15s\" %s: net.ipv4.tcp_%s_congestion_control",
                 endpoint->congestion_control,
                 unknown ? "is not known to the kernel" : "is not allowed to this process",
                 unknown ? "available" : "allowed");
        reason = text;
    }
    if (status == UVHTTP_E_IO || status == UVHTTP_E_ADDRESS) reason = strerrordesc_np(errno);
    if (status == UVHTTP_E_ADDRESS && endpoint->fd >= 0) reason = "it is no listening stream socket";
    return fail(host, address, status, reason);
}

int uvhttp__host_listen(uvhttp__host_t *host, const char *address, const uvhttp__conn_filter_t *filter,
                        uint16_t *port) {
    if (host->finished || (host->running && (!host->uv || host->workers[0].draining))) return UVHTTP_E_STATE;
    if (!address) return UVHTTP_E_INVALID;
    uvhttp__endpoint_t endpoint;
    int status = uvhttp__endpoint_parse(address, &endpoint);
    if (status == UVHTTP_OK && host->uv && host->endpoint_count == ATTACHED_ADDRESSES_MAX) status = UVHTTP_E_LIMIT;
    if (status != UVHTTP_OK) return fail_to_read(host, address, status);
    if (endpoint.proxy_protocol && !host->proxies) {
        snprintf(host->error, sizeof host->error,
                 "cannot listen on \"%s\": nobody is trusted with the PROXY protocol: call uvhttp_server_trust_proxies "
                 "before",
                 address);
        return UVHTTP_E_CONFIG;
    }
    uint32_t row = host->endpoint_count, count = host->worker_count;
    uvhttp__endpoint_t *endpoints = uvhttp__realloc(host->endpoints, (row + 1) * sizeof *endpoints);
    if (!endpoints) return UVHTTP_E_NOMEM;
    host->endpoints = endpoints;
    uvhttp__conn_filter_t *filters = uvhttp__realloc(host->filters, (row + 1) * sizeof *filters);
    if (!filters) return UVHTTP_E_NOMEM;
    host->filters = filters;
    int *fds = uvhttp__realloc(host->fds, (row + 1) * count * sizeof *fds);
    if (!fds) return UVHTTP_E_NOMEM;
    host->fds = fds;
    for (uint32_t i = 0; i < count; i++) fds[row * count + i] = -1;
    endpoint.congestion_control = host->options.congestion_control;
    status = open_sockets(&endpoint, (int)host->options.backlog, &fds[row * count], count);
    if (status != UVHTTP_OK) {
        status = fail_to_open(host, address, status, &endpoint);
        for (uint32_t i = 0; i < count; i++)
            if (fds[row * count + i] >= 0) close(fds[row * count + i]);
        return status;
    }
    if (endpoint.fd < 0) set_port(&endpoint, port_of(fds[row * count]));
    endpoints[row] = endpoint;
    filters[row] = filter ? *filter : (uvhttp__conn_filter_t){.open = NULL};
    if (port) *port = port_of(fds[row * count]);
    host->endpoint_count++;
    UVHTTP_LOG_INFO("%s: opened a listener: %s (port %u), backlog %d", host->options.name, address,
                    port_of(fds[row * count]), (int)host->options.backlog);
    return host->uv ? uvhttp__worker_open_listeners(&host->workers[0]) : UVHTTP_OK;
}

void uvhttp__host_addresses(const uvhttp__host_t *host, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < host->endpoint_count && used < size; i++) {
        const uvhttp__endpoint_t *endpoint = &host->endpoints[i];
        char one[UVHTTP__ADDRESS_TEXT_MAX];
        if (endpoint->fd >= 0)
            snprintf(one, sizeof one, "fd:%d", endpoint->fd);
        else
            uvhttp__address_format(&endpoint->address, endpoint->address_size, one);
        const char *name = host->filters[i].open ? host->filters[i].name : "";
        int wrote = snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "", one,
                             endpoint->proxy_protocol ? " proxy_protocol" : "", name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* --- accepting --- */

/* Returns NULL if the connection is gone already. */
static uvhttp__conn_t *serve(uvhttp__worker_t *worker, int fd, uint32_t row) {
    uvhttp__conn_t *conn = uvhttp__slab_alloc(&worker->slab);
    if (!conn) {
        UVHTTP_LOG_DEBUG("conn: loop %u: fd %d refused: out of memory", worker->index, fd);
        close(fd);
        (void)uvhttp__host_leave_place(worker->host);
        return NULL;
    }
    uvhttp__counters_add(&worker->counters, connections_accepted, 1);
    uvhttp__stream_open(&conn->stream, worker->loop, fd, &uvhttp__conn_stream_ops);
    uvhttp__timer_init(&conn->timer, worker->conn_timer_kind);
    uvhttp__list_init(&conn->link);
    uvhttp__list_push_back(&worker->conns, &conn->link);
    conn->worker = worker;
    conn->ref = NULL;
    conn->user = NULL;
    conn->output_check = 0;
    conn->close_status = UVHTTP_OK;
    conn->flags = 0;
    conn->peer = NULL;
    UVHTTP_LOG_DEBUG("conn: %s accepted", uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text));
    int status = uvhttp__conn_start(conn, row);
    if (conn->flags & UVHTTP__CONN_CLOSED) return NULL;
    if (status == UVHTTP_OK) status = uvhttp__stream_read_start(&conn->stream);
    if (status == UVHTTP_OK) return conn;
    uvhttp__conn_close(conn, status);
    return NULL;
}

static void pause_listeners(uvhttp__worker_t *worker) {
    if (atomic_exchange(&worker->paused, true)) return;
    atomic_fetch_add(&worker->host->workers_paused, 1);
    for (uint32_t i = 0; i < worker->listeners_open; i++) uvhttp__listener_pause(&worker->listeners[i]);
}

static void resume_listeners(uvhttp__worker_t *worker) {
    if (!atomic_exchange(&worker->paused, false)) return;
    uvhttp__timer_stop(&worker->loop->wheel, &worker->room_timer);
    atomic_fetch_sub(&worker->host->workers_paused, 1);
    if (worker->draining) return;
    for (uint32_t i = 0; i < worker->listeners_open; i++) uvhttp__listener_resume(&worker->listeners[i]);
}

static void on_room_post(uvhttp__post_t *post) {
    uvhttp__worker_t *worker = UVHTTP__CONTAINER_OF(post, uvhttp__worker_t, room_post);
    atomic_store(&worker->room_posted, false);
    if (uvhttp__host_has_place(worker->host)) resume_listeners(worker);
}

void uvhttp__worker_find_room(uvhttp__worker_t *worker, bool again) {
    if (!atomic_load(&worker->paused) || worker->draining) return;
    if (uvhttp__host_has_place(worker->host))
        resume_listeners(worker);
    else
        uvhttp__worker_make_room(worker, again);
}

/* --- callbacks of listeners --- */

static uvhttp__worker_t *worker_of(uvhttp__listener_t *listener) {
    return listener->loop->arg;
}

static bool on_take_place(uvhttp__listener_t *listener) {
    return uvhttp__host_take_place(worker_of(listener)->host);
}

static void on_give_place(uvhttp__listener_t *listener) {
    (void)uvhttp__host_leave_place(worker_of(listener)->host);
}

static void on_full(uvhttp__listener_t *listener) {
    uvhttp__worker_t *worker = worker_of(listener);
    uvhttp__counters_add(&worker->counters, connections_waited, 1);
    UVHTTP_LOG_DEBUG("conn: loop %u: all %u connections of max_connections are open; others wait in the backlog",
                     worker->index, worker->host->options.max_connections);
    pause_listeners(worker);
    uvhttp__worker_find_room(worker, false); /* a place may have become free between the refusal and the pause */
}

static void on_accept(uvhttp__listener_t *listener, int fd) {
    uvhttp__worker_t *worker = worker_of(listener);
    if (worker->cut) {
        UVHTTP_LOG_DEBUG("conn: loop %u: fd %d refused: the server stops", worker->index, fd);
        close(fd);
        (void)uvhttp__host_leave_place(worker->host);
        return;
    }
    uvhttp__conn_t *conn = serve(worker, fd, (uint32_t)(listener - worker->listeners));
    if (conn && worker->draining) uvhttp__conn_drain(conn);
}

static void on_accept_error(uvhttp__listener_t *listener, int status) {
    (void)listener, (void)status; /* counted by io; the listener tries again by itself */
}

static void on_listener_closed(uvhttp__listener_t *listener) {
    uvhttp__worker_t *worker = worker_of(listener);
    worker->listeners_open--;
    uvhttp__worker_check_done(worker);
}

static const uvhttp__listener_ops_t listener_ops = {.on_accept = on_accept,
                                                    .take_place = on_take_place,
                                                    .give_place = on_give_place,
                                                    .on_full = on_full,
                                                    .on_accept_error = on_accept_error,
                                                    .on_closed = on_listener_closed};

/* Own loops: all addresses at once. Attached: called again for each address that is added. */
int uvhttp__worker_open_listeners(uvhttp__worker_t *worker) {
    uvhttp__host_t *host = worker->host;
    worker->room_post.run = on_room_post;
    worker->evict_post.run = uvhttp__worker_on_evict_post;
    if (!worker->listeners) {
        uint32_t count = host->uv ? ATTACHED_ADDRESSES_MAX : host->endpoint_count;
        worker->listeners = uvhttp__calloc(count ? count : 1, sizeof *worker->listeners);
        if (!worker->listeners) return UVHTTP_E_NOMEM;
    }
    while (worker->listeners_open < host->endpoint_count) {
        uint32_t i = worker->listeners_open;
        int *fd = &host->fds[i * host->worker_count + worker->index];
        int status = uvhttp__listener_open(&worker->listeners[i], worker->loop, *fd, &listener_ops);
        if (status != UVHTTP_OK) return status;
        *fd = -1;
        worker->listeners_open++;
    }
    return UVHTTP_OK;
}

void uvhttp__worker_close_listeners(uvhttp__worker_t *worker) {
    uvhttp__timer_stop(&worker->loop->wheel, &worker->room_timer);
    for (uint32_t i = worker->listeners_open; i-- > 0;) uvhttp__listener_close(&worker->listeners[i]);
}
