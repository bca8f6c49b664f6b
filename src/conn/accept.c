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
#include "base/libc.h"
#include "conn/inspect.h"
#include "conn/tcp_server_internal.h"

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

/* One socket per loop: separate ones for IP (SO_REUSEPORT spreads the connections), otherwise duplicates of one.
 * The first is bound without SO_REUSEPORT, because with it a second server would silently share the port of a first,
 * and gets it afterwards, so that its port is never free for somebody else in between. */
static int open_sockets(uvhttp__endpoint_t *endpoint, int backlog, int *fds, uint32_t count) {
    bool spread = is_ip(endpoint) && count > 1;
    int status = uvhttp__listen_socket(endpoint, endpoint->fd < 0 ? backlog : 0, false, &fds[0]);
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

/* A socket that is passed in, which the server would add twice to a loop, and close twice. */
static bool is_same_socket(const uvhttp__endpoint_t *a, const uvhttp__endpoint_t *b) {
    return a->fd >= 0 && a->fd == b->fd;
}

/* Whether the server or its companion has an endpoint that clashes with this one. */
static bool is_in_use(const uvhttp__tcp_server_t *tcp_server, const uvhttp__endpoint_t *endpoint,
                      bool (*clashes)(const uvhttp__endpoint_t *a, const uvhttp__endpoint_t *b)) {
    const uvhttp__tcp_server_t *const both[] = {tcp_server, tcp_server->companion};
    for (int each = 0; each < 2; each++)
        for (uint32_t i = 0; both[each] && i < both[each]->endpoint_count; i++)
            if (clashes(&both[each]->endpoints[i], endpoint)) return true;
    return false;
}

/* Of a dry run. */
static int check_sockets(const uvhttp__tcp_server_t *tcp_server, const uvhttp__endpoint_t *endpoint) {
    if (endpoint->is_passed_in) return UVHTTP_OK;
    if (is_in_use(tcp_server, endpoint, uvhttp__endpoint_overlaps)) return UVHTTP_E_ADDRESS_IN_USE;
    return uvhttp__listen_socket(endpoint, 0, false, NULL);
}

/* reason: what more there is to say, or NULL. */
static int fail(uvhttp__tcp_server_t *tcp_server, const char *address, int status, const char *reason) {
    snprintf(tcp_server->error, sizeof tcp_server->error, "cannot listen on \"%s\": %s%s%s", address,
             uvhttp_error_message(status), reason ? ": " : "", reason ? reason : "");
    return status;
}

static int fail_to_read(uvhttp__tcp_server_t *tcp_server, const char *address, int status,
                        const uvhttp__endpoint_t *endpoint) {
    const char *advice = "expected host:port, [v6]:port, *:port, unix:/path, unix:@name, fd:N, systemd or systemd:name";
    if (endpoint->is_passed_in)
        advice = "systemd has passed in no such socket (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES): start it by a unit "
                 "that has a socket unit";
    return fail(tcp_server, address, status, status == UVHTTP_E_ADDRESS ? advice : NULL);
}

/* The address is one, but not for this machine or process. */
static int fail_to_open(uvhttp__tcp_server_t *tcp_server, const char *address, int status,
                        const uvhttp__endpoint_t *endpoint) {
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
    return fail(tcp_server, address, status, reason);
}

/* A set has a socket for each loop. Other threads may read those of an attached server while one is added: there is
 * memory for all of them from the first one on, and it stays where it is. */
static int reserve_sets(uvhttp__tcp_server_t *tcp_server, uint32_t sets) {
    uint32_t index = tcp_server->endpoint_count, count = tcp_server->loop_count;
    if (tcp_server->uv && index > 0) return UVHTTP_OK;
    if (tcp_server->uv) sets = ATTACHED_ADDRESSES_MAX;
    uvhttp__endpoint_t *endpoints = uvhttp__realloc(tcp_server->endpoints, (index + sets) * sizeof *endpoints);
    if (!endpoints) return UVHTTP_E_NOMEM;
    tcp_server->endpoints = endpoints;
    uvhttp__conn_filter_t *filters = uvhttp__realloc(tcp_server->filters, (index + sets) * sizeof *filters);
    if (!filters) return UVHTTP_E_NOMEM;
    tcp_server->filters = filters;
    int *fds = uvhttp__realloc(tcp_server->fds, (size_t)(index + sets) * count * sizeof *fds);
    if (!fds) return UVHTTP_E_NOMEM;
    tcp_server->fds = fds;
    for (uint32_t i = 0; i < sets * count; i++) fds[index * count + i] = -1;
    return UVHTTP_OK;
}

/* They are complete from the first one on, and belong to the server. The first set's filter is released with it. */
static void add_sets(uvhttp__tcp_server_t *tcp_server, uvhttp__endpoint_t *endpoint, uint32_t sets,
                     const uvhttp__conn_filter_t *filter) {
    uvhttp__conn_filter_t own = filter ? *filter : (uvhttp__conn_filter_t){.open = NULL};
    for (uint32_t i = 0; i < sets; i++) {
        endpoint->is_more = i > 0;
        uint32_t index = tcp_server->endpoint_count;
        tcp_server->endpoints[index] = *endpoint;
        tcp_server->filters[index] = own;
        tcp_server->endpoint_count = index + 1; /* now other threads see it */
        own.release = NULL;
    }
}

static int refuse_proxies(uvhttp__tcp_server_t *tcp_server, const char *address) {
    snprintf(tcp_server->error, sizeof tcp_server->error,
             "cannot listen on \"%s\": nobody is trusted with the PROXY protocol: call uvhttp_server_trust_proxies "
             "before",
             address);
    return UVHTTP_E_CONFIG;
}

/* Sets *sets: how many sets of sockets the address has. */
static int find_sockets(uvhttp__tcp_server_t *tcp_server, const char *address, uvhttp__endpoint_t *endpoint,
                        uint32_t *sets) {
    int status = uvhttp__endpoint_split(address, endpoint);
    *sets = status == UVHTTP_OK ? uvhttp__inherited_find(tcp_server, endpoint) : 0;
    if (*sets == 0) {
        *sets = 1;
        status = uvhttp__endpoint_parse(address, endpoint);
        if (tcp_server->dry_run && endpoint->is_passed_in) status = UVHTTP_OK; /* it is somebody else who passes it */
    }
    if (status == UVHTTP_OK && tcp_server->uv && tcp_server->endpoint_count == ATTACHED_ADDRESSES_MAX)
        status = UVHTTP_E_LIMIT;
    return status;
}

/* The one of "fd:N" still belongs to the caller. */
static void close_own(const uvhttp__endpoint_t *endpoint, int *fds, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (fds[i] >= 0 && fds[i] != endpoint->fd) close(fds[i]);
        fds[i] = -1;
    }
}

static void note_opened(const uvhttp__tcp_server_t *tcp_server, const char *address, uvhttp__endpoint_t *endpoint,
                        uint16_t port) {
    if (endpoint->fd < 0) set_port(endpoint, port);
    UVHTTP_LOG_INFO("%s: opened a listener: %s (port %u), backlog %d", tcp_server->options.name, address, port,
                    (int)tcp_server->options.backlog);
}

int uvhttp__tcp_server_listen(uvhttp__tcp_server_t *tcp_server, const char *address,
                              const uvhttp__conn_filter_t *filter, uint16_t *port) {
    if (tcp_server->finished || (tcp_server->running && (!tcp_server->uv || tcp_server->loops[0].draining)))
        return UVHTTP_E_STATE;
    if (!address) return UVHTTP_E_INVALID;
    uvhttp__endpoint_t endpoint;
    uint32_t sets, count = tcp_server->loop_count;
    int status = find_sockets(tcp_server, address, &endpoint, &sets);
    if (status != UVHTTP_OK) return fail_to_read(tcp_server, address, status, &endpoint);
    if (endpoint.proxy_protocol && !tcp_server->proxies) return refuse_proxies(tcp_server, address);
    status = reserve_sets(tcp_server, sets);
    if (status != UVHTTP_OK) return fail(tcp_server, address, status, NULL);
    endpoint.congestion_control = tcp_server->options.congestion_control;
    endpoint.private_path = tcp_server->options.private_paths;
    int *fds = &tcp_server->fds[tcp_server->endpoint_count * count];
    status = is_in_use(tcp_server, &endpoint, is_same_socket) ? UVHTTP_E_ADDRESS_IN_USE
             : tcp_server->dry_run                            ? check_sockets(tcp_server, &endpoint)
             : uvhttp__inherited_find(tcp_server, &endpoint) > 0
                 ? uvhttp__inherited_take(tcp_server, &endpoint, fds, sets)
                 : open_sockets(&endpoint, (int)tcp_server->options.backlog, fds, count);
    if (status != UVHTTP_OK) {
        status = fail_to_open(tcp_server, address, status, &endpoint);
        close_own(&endpoint, fds, sets * count);
        return status;
    }
    if (!tcp_server->dry_run) note_opened(tcp_server, address, &endpoint, port_of(fds[0]));
    if (port) *port = port_of(fds[0]);
    add_sets(tcp_server, &endpoint, sets, filter);
    return tcp_server->uv ? uvhttp__tcp_loop_open_listeners(&tcp_server->loops[0]) : UVHTTP_OK;
}

void uvhttp__tcp_server_addresses(const uvhttp__tcp_server_t *tcp_server, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < tcp_server->endpoint_count && used < size; i++) {
        const uvhttp__endpoint_t *endpoint = &tcp_server->endpoints[i];
        char one[UVHTTP__ADDRESS_TEXT_MAX];
        if (endpoint->is_more) continue;
        if (endpoint->fd >= 0)
            snprintf(one, sizeof one, "fd:%d", endpoint->fd);
        else
            uvhttp__address_format(&endpoint->address, endpoint->address_size, one);
        const char *name = tcp_server->filters[i].open ? tcp_server->filters[i].name : "";
        int wrote = snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "", one,
                             endpoint->proxy_protocol ? " proxy_protocol" : "", name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* --- accepting --- */

/* Returns NULL if the connection is gone already. */
static uvhttp__conn_t *serve(uvhttp__tcp_loop_t *loop, const uvhttp__listener_t *listener, int fd) {
    uint32_t address_index = (uint32_t)(listener - loop->listeners);
    uvhttp__conn_t *conn = uvhttp__slab_alloc(&loop->slab);
    if (!conn) {
        UVHTTP_LOG_DEBUG("conn: loop %u: fd %d refused: out of memory", loop->index, fd);
        close(fd);
        (void)uvhttp__tcp_server_leave_place(loop->tcp_server);
        return NULL;
    }
    uvhttp__counters_add(&loop->counters, connections_accepted, 1);
    uvhttp__stream_open(&conn->stream, loop->io, fd, listener->flags & UVHTTP__LISTENER_UNIX, &uvhttp__conn_stream_ops);
    uvhttp__timer_init(&conn->timer, loop->conn_timer_kind);
    uvhttp__list_init(&conn->link);
    uvhttp__list_push_back(&loop->conns, &conn->link);
    conn->loop = loop;
    conn->ref = NULL;
    conn->user = NULL;
    conn->output_check = 0;
    conn->close_status = UVHTTP_OK;
    conn->flags = 0;
    conn->peer = NULL;
    if (loop->tcp_server->options.keeps_ages) uvhttp__conn_keep_age(conn);
    UVHTTP_LOG_DEBUG("conn: %s accepted", uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text));
    int status = uvhttp__conn_start(conn, address_index);
    if (conn->flags & UVHTTP__CONN_CLOSED) return NULL;
    if (status == UVHTTP_OK) status = uvhttp__stream_read_start(&conn->stream);
    if (status == UVHTTP_OK) return conn;
    uvhttp__conn_close(conn, status);
    return NULL;
}

/* All of them each time: one may have been opened since the others were paused. */
static void pause_listeners(uvhttp__tcp_loop_t *loop) {
    if (!atomic_exchange(&loop->paused, true)) atomic_fetch_add(&loop->tcp_server->loops_paused, 1);
    for (uint32_t i = 0; i < loop->listeners_open; i++) uvhttp__listener_pause(&loop->listeners[i]);
}

static void resume_listeners(uvhttp__tcp_loop_t *loop) {
    if (!atomic_exchange(&loop->paused, false)) return;
    uvhttp__timer_stop(&loop->io->wheel, &loop->place_timer);
    atomic_fetch_sub(&loop->tcp_server->loops_paused, 1);
    if (loop->draining) return;
    for (uint32_t i = 0; i < loop->listeners_open; i++) uvhttp__listener_resume(&loop->listeners[i]);
}

static void on_place_post(uvhttp__post_t *post) {
    uvhttp__tcp_loop_t *loop = UVHTTP__CONTAINER_OF(post, uvhttp__tcp_loop_t, place_post);
    atomic_store(&loop->place_posted, false);
    if (uvhttp__tcp_server_has_place(loop->tcp_server)) resume_listeners(loop);
}

void uvhttp__tcp_loop_find_place(uvhttp__tcp_loop_t *loop, bool again) {
    if (!atomic_load(&loop->paused) || loop->draining) return;
    if (uvhttp__tcp_server_has_place(loop->tcp_server))
        resume_listeners(loop);
    else
        uvhttp__tcp_loop_make_place(loop, again);
}

/* --- callbacks of listeners --- */

static uvhttp__tcp_loop_t *loop_of(uvhttp__listener_t *listener) {
    return listener->loop->arg;
}

static bool on_take_place(uvhttp__listener_t *listener) {
    return uvhttp__tcp_server_take_place(loop_of(listener)->tcp_server);
}

static void on_give_place(uvhttp__listener_t *listener) {
    (void)uvhttp__tcp_server_leave_place(loop_of(listener)->tcp_server);
}

static void on_full(uvhttp__listener_t *listener) {
    uvhttp__tcp_loop_t *loop = loop_of(listener);
    uvhttp__counters_add(&loop->counters, connections_waited, 1);
    UVHTTP_LOG_DEBUG("conn: loop %u: all %u connections of max_connections are open; others wait in the backlog",
                     loop->index, loop->tcp_server->options.max_connections);
    pause_listeners(loop);
    uvhttp__tcp_loop_find_place(loop, false); /* a place may have become free between the refusal and the pause */
}

static void on_accept(uvhttp__listener_t *listener, int fd) {
    uvhttp__tcp_loop_t *loop = loop_of(listener);
    assert(!loop->cut);
    uvhttp__conn_t *conn = serve(loop, listener, fd);
    if (conn && loop->draining) uvhttp__conn_drain(conn);
}

static void on_accept_error(uvhttp__listener_t *listener, int status) {
    (void)listener, (void)status; /* counted by io; the listener tries again by itself */
}

static void on_listener_closed(uvhttp__listener_t *listener) {
    uvhttp__tcp_loop_t *loop = loop_of(listener);
    uvhttp__tcp_server_t *tcp_server = loop->tcp_server;
    if (--loop->listeners_open == 0 && atomic_fetch_add(&tcp_server->loops_closed, 1) + 1 == tcp_server->loop_count) {
        char addresses[512];
        uvhttp__tcp_server_addresses(tcp_server, addresses, sizeof addresses);
        UVHTTP_LOG_INFO("%s: closed the listeners: %s", tcp_server->options.name, addresses);
    }
    uvhttp__tcp_loop_check_done(loop);
}

static const uvhttp__listener_ops_t listener_ops = {.on_accept = on_accept,
                                                    .take_place = on_take_place,
                                                    .give_place = on_give_place,
                                                    .on_full = on_full,
                                                    .on_accept_error = on_accept_error,
                                                    .on_closed = on_listener_closed};

/* Own loops: all addresses at once. Attached: at the start, without any, and again for each one that is added, which
 * cannot fail then. */
int uvhttp__tcp_loop_open_listeners(uvhttp__tcp_loop_t *loop) {
    uvhttp__tcp_server_t *tcp_server = loop->tcp_server;
    loop->place_post.run = on_place_post;
    loop->evict_post.run = uvhttp__tcp_loop_on_evict_post;
    if (!loop->listeners) {
        uint32_t count = tcp_server->uv ? ATTACHED_ADDRESSES_MAX : tcp_server->endpoint_count;
        loop->listeners = uvhttp__calloc(count ? count : 1, sizeof *loop->listeners);
        if (!loop->listeners) return UVHTTP_E_NOMEM;
    }
    while (loop->listeners_open < tcp_server->endpoint_count) {
        uint32_t i = loop->listeners_open;
        int *fd = &tcp_server->fds[i * tcp_server->loop_count + loop->index];
        uvhttp__listener_open(&loop->listeners[i], loop->io, *fd, &listener_ops);
        *fd = -1;
        loop->listeners_open++;
    }
    return UVHTTP_OK;
}

void uvhttp__tcp_loop_close_listeners(uvhttp__tcp_loop_t *loop) {
    uvhttp__timer_stop(&loop->io->wheel, &loop->place_timer);
    if (loop->tcp_server->passed_on) uvhttp__tcp_loop_leave_backlog(loop);
    for (uint32_t i = loop->listeners_open; i-- > 0;) uvhttp__listener_close(&loop->listeners[i]);
}

void uvhttp__tcp_loop_leave_backlog(uvhttp__tcp_loop_t *loop) {
    for (uint32_t i = 0; loop->listeners && i < loop->tcp_server->endpoint_count; i++)
        loop->listeners[i].flags |= UVHTTP__LISTENER_LEAVES;
}
