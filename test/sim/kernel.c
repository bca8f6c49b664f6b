/* Owns: the simulated kernel: the descriptors of the server, its sockets and epoll, behind the names of the
 * system calls. How much of a read or a write is accepted comes from the seed, one stream of numbers for
 * each connection. A call on a descriptor that is not open fails the run: in a real process it would be somebody
 * else's.
 *
 * What it does as Linux does: level- and edge-triggered events, a half-closed socket, RST when unread bytes are closed
 * over, ECONNRESET once and EPIPE from then on, the lowest free descriptor is used again at once, a socket closes with
 * the last of its descriptors (of listening ones only there may be several). */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"
#include "kernel.h"

enum {
    LISTENERS_MAX = 16, /* of a port */
    PLACE_MS = 5,       /* until a place that has become free is used: much less than a loop looks for one by itself */
    EXCUSE_MS = 2000,   /* for so long a refusal of the kernel excuses that nobody is accepted */
};

uint64_t sim_now_ns;

static descriptor_t descriptors[FD_MAX];
static int descriptors_end;   /* those from here on are free */
static uint32_t streams_open; /* that were accepted */
static uint32_t places_used;  /* of them, those of the server's own listeners */
uint64_t sim_ring_refused_ns;
static uint64_t idle_ns; /* since when a connection waits although there is a place for it; SIM_NEVER: none does */
sim_random_t sim_kernel_random;
static bool listens_on_unix; /* sockets of a Unix address; in all else they are like the others */
static uint64_t kernel_seed;
static uint32_t outgoing_count;  /* connections that the server has begun */
static uint32_t accept_fails_in; /* one in so many calls */
static uint64_t refused_ns;      /* when one has failed for want of descriptors or memory */

/* --- descriptors --- */

bool sim_is_open(int fd) {
    return fd >= FD_FIRST && fd < FD_FIRST + FD_MAX && descriptors[fd - FD_FIRST].kind != FREE;
}

descriptor_t *sim_find(int fd, const char *call) {
    if (!sim_is_open(fd)) sim_fail("%s on descriptor %d, which is not open", call, fd);
    return &descriptors[fd - FD_FIRST];
}

int sim_descriptor_new(kind_t kind) {
    int i = 0;
    while (i < descriptors_end && descriptors[i].kind != FREE) i++;
    if (i == FD_MAX) {
        errno = EMFILE;
        return -1;
    }
    if (i == descriptors_end) descriptors_end++;
    descriptors[i] = (descriptor_t){.kind = kind, .number = kind == TIMER ? SIM_NEVER : 0};
    return FD_FIRST + i;
}

struct output *sim_output_of(int fd) {
    return sim_find(fd, "use")->output;
}

uint32_t sim_open_descriptors(void) {
    uint32_t count = 0;
    for (int i = 0; i < descriptors_end; i++) count += descriptors[i].kind != FREE;
    return count;
}

void sim_kernel_reset(uint64_t seed) {
    for (int i = 0; i < descriptors_end; i++) descriptors[i] = (descriptor_t){.kind = FREE};
    descriptors_end = 0;
    streams_open = places_used = 0;
    idle_ns = SIM_NEVER;
    kernel_seed = seed;
    sim_kernel_random = sim_random_of(seed, 0x4b);
    sim_addresses_plan(seed);
    listens_on_unix = seed % 4 == 1 && !sim_address_max; /* a number of its own would change what all seeds do */
    sim_machine_reset(seed);
    sim_rings_reset(seed);
    refused_ns = sim_ring_refused_ns = 0;
    outgoing_count = 0;
    accept_fails_in = sim_one_in(&sim_kernel_random, 12) ? 2 : 64;
    sim_now_ns = UINT64_C(1000000000000) + sim_random(&sim_kernel_random) % 1000000000u;
}

/* --- queues --- */

static uint32_t queue_capacity(const queue_t *queue) {
    return queue->capacity - queue->size;
}

size_t sim_queue_put(queue_t *queue, const char *data, size_t size) {
    if (size > queue_capacity(queue)) size = queue_capacity(queue);
    for (size_t done = 0; done < size;) {
        uint32_t at = (queue->begin + queue->size) % queue->capacity;
        size_t part = queue->capacity - at < size - done ? queue->capacity - at : size - done;
        memcpy(queue->data + at, data + done, part);
        queue->size += (uint32_t)part;
        done += part;
    }
    return size;
}

size_t sim_queue_take(queue_t *queue, char *data, size_t size) {
    if (size > queue->size) size = queue->size;
    for (size_t done = 0; done < size;) {
        size_t part = queue->capacity - queue->begin < size - done ? queue->capacity - queue->begin : size - done;
        memcpy(data + done, queue->data + queue->begin, part);
        queue->begin = (queue->begin + (uint32_t)part) % queue->capacity;
        queue->size -= (uint32_t)part;
        done += part;
    }
    queue->passed += size;
    return size;
}

static void queue_open(queue_t *queue, sim_random_t *random) {
    queue->capacity = 256 + sim_log_uniform(random, QUEUE_MAX - 256);
    queue->data = malloc(queue->capacity);
    if (!queue->data) abort();
}

size_t sim_share(sim_random_t *random, size_t size) {
    uint32_t kind = sim_below(random, 8);
    if (size <= 1 || kind < 5) return size;
    return kind == 5 ? 1 : 1 + sim_below(random, (uint32_t)size);
}

/* --- events of a descriptor --- */

static uint32_t stream_events(const sim_conn_t *conn) {
    if (conn->unheard) return 0;
    uint32_t events = 0;
    if (conn->to_server.size > 0 || conn->client_fin) events |= EPOLLIN;
    if (conn->client_fin) events |= EPOLLRDHUP;
    if (!conn->server_fin && queue_capacity(&conn->to_client) * 3 >= conn->to_client.capacity) events |= EPOLLOUT;
    if (conn->client_fin && conn->server_fin) events |= EPOLLHUP;
    if (conn->client_rst) events |= EPOLLIN | EPOLLRDHUP | EPOLLOUT | EPOLLHUP | (conn->error ? EPOLLERR : 0);
    return events;
}

uint32_t sim_events(int fd) {
    if (sim_output_is(fd)) return sim_output_events(fd);
    if (!sim_is_simulated(fd)) return sim_uv_ready(fd) ? EPOLLIN : 0; /* libuv's own */
    const descriptor_t *it = &descriptors[fd - FD_FIRST];
    switch (it->kind) {
        case STREAM: return stream_events(it->conn);
        case LISTENER: return it->backlog->size > 0 ? EPOLLIN : 0;
        case EVENT: return it->number > 0 ? EPOLLIN : 0;
        case EPOLL: return sim_fd_ready(fd) ? EPOLLIN : 0;
        case TIMER: return it->number <= sim_now_ns ? EPOLLIN : 0;
        default: return 0;
    }
}

bool sim_fd_ready(int fd) {
    const descriptor_t *it = sim_find(fd, "wait");
    if (it->kind == RING) return sim_ring_ready(it->ring);
    return sim_set_ready(it->set);
}

uint64_t sim_kernel_next_ns(void) {
    uint64_t next = SIM_NEVER;
    for (int i = 0; i < descriptors_end; i++) {
        const descriptor_t *it = &descriptors[i];
        uint64_t at = it->kind == TIMER ? it->number : it->kind == RING ? sim_ring_next_ns(it->ring) : SIM_NEVER;
        if (at > sim_now_ns && at < next) next = at; /* what is past, nobody waits for */
    }
    return next;
}

static bool is_of_server(uint16_t port) {
    return port >= SIM_PORT && port <= SIM_PORT + SIM_PORT_TLS + SIM_PORT_PROXY;
}

bool sim_kernel_is_excused(void) {
    return sim_now_ns - sim_ring_refused_ns < EXCUSE_MS * SIM_MS;
}

/* A connection waits, there is a place for it, and the kernel has refused nothing lately. */
static bool somebody_waits_for_nothing(void) {
    if (sim_crowd || sim_guest_is_blocked() || places_used >= sim_places ||
        sim_now_ns - refused_ns < EXCUSE_MS * SIM_MS || sim_kernel_is_excused())
        return false;
    if (!sim_standard_error_is_good()) return false; /* lines of the start are written before anybody is served */
    for (int i = 0; i < descriptors_end; i++) {
        const descriptor_t *it = &descriptors[i];
        if (it->kind == LISTENER && it->backlog->size > 0 && !it->closing && is_of_server(it->port)) return true;
    }
    return false;
}

void sim_kernel_check_idle(uint64_t next_ns) {
    sim_metrics_check_quiet();
    if (!sim_guest_is_blocked() && !sim_kernel_is_excused()) sim_addresses_check_quiet(next_ns);
    if (!somebody_waits_for_nothing())
        idle_ns = SIM_NEVER;
    else if (idle_ns == SIM_NEVER)
        idle_ns = sim_now_ns;
    else if (next_ns - idle_ns > PLACE_MS * SIM_MS)
        sim_fail("a connection waits for %llu ms although there is a place for it",
                 (unsigned long long)(next_ns - idle_ns) / SIM_MS);
}

/* An edge of everything that is about this descriptor. */
static void happened(int fd) {
    for (int i = 0; i < descriptors_end; i++) {
        item_t *item = descriptors[i].kind == EPOLL ? sim_set_find(descriptors[i].set, fd) : NULL;
        if (item) item->edge = true;
    }
}

/* --- the clients' end --- */

/* SO_REUSEPORT: one of the listeners of the port, by the client's number. */
static descriptor_t *find_listener(uint32_t client, uint16_t port) {
    descriptor_t *listeners[LISTENERS_MAX];
    uint32_t count = 0;
    for (int i = 0; i < descriptors_end && count < LISTENERS_MAX; i++)
        if (descriptors[i].kind == LISTENER && descriptors[i].port == port) listeners[count++] = &descriptors[i];
    descriptor_t *chosen = count ? listeners[client % count] : NULL;
    return chosen && chosen->backlog->size < BACKLOG_MAX ? chosen : NULL;
}

static sim_conn_t *conn_new(uint32_t client, void (*wake)(void *arg), void *arg) {
    sim_conn_t *conn = calloc(1, sizeof *conn);
    if (!conn) abort();
    conn->random = sim_random_of(kernel_seed, 0x10000 + client);
    conn->wake = wake;
    conn->arg = arg;
    conn->client = client;
    conn->ip = INADDR_LOOPBACK;
    conn->port = (uint16_t)(SIM_PEER_PORT + client);
    conn->fd = -1;
    queue_open(&conn->to_server, &conn->random);
    queue_open(&conn->to_client, &conn->random);
    return conn;
}

sim_conn_t *sim_connect(uint32_t client, uint16_t port, void (*wake)(void *arg), void *arg) {
    descriptor_t *listener = find_listener(client, port);
    if (!listener) return NULL;
    sim_conn_t *conn = conn_new(client, wake, arg);
    conn->is_unix = listens_on_unix;
    conn->ip = sim_socket_address_of(client, port);
    backlog_t *backlog = listener->backlog;
    backlog->conns[backlog->size++] = conn;
    for (int i = 0; i < descriptors_end; i++)
        if (descriptors[i].backlog == backlog) happened(FD_FIRST + i);
    sim_trace("connect", client, 0);
    return conn;
}

static void conn_free(sim_conn_t *conn) {
    if (!conn->client_gone || !conn->server_gone) return;
    free(conn->to_server.data);
    free(conn->to_client.data);
    free(conn);
}

/* The server's socket hears of something. */
static void notify_server(const sim_conn_t *conn) {
    if (conn->fd >= 0) happened(conn->fd);
}

static void reset_by_client(sim_conn_t *conn) {
    if (conn->client_rst || conn->server_gone) return;
    conn->client_rst = true;
    sim_traffic.resets++;
    conn->error = conn->client_fin ? EPIPE : ECONNRESET;
    conn->to_client.size = 0;
    notify_server(conn);
}

size_t sim_client_send(sim_conn_t *conn, const char *data, size_t size) {
    if (conn->client_fin || conn->client_rst) return 0;
    if (conn->server_gone) { /* the server's system replies with RST */
        conn->server_rst = true;
        return 0;
    }
    size_t sent = sim_queue_put(&conn->to_server, data, sim_share(&conn->random, size));
    if (sent > 0) notify_server(conn);
    sim_trace("client sends", conn->client, sent);
    return sent;
}

long sim_client_receive(sim_conn_t *conn, char *data, size_t size) {
    if (conn->server_rst && sim_one_in(&conn->random, 2)) conn->to_client.size = 0; /* RST has overtaken the data */
    size_t got = sim_queue_take(&conn->to_client, data, size);
    if (got > 0) {
        notify_server(conn);
        return (long)got;
    }
    if (conn->server_rst) return -2;
    return conn->server_fin ? -1 : 0;
}

bool sim_client_readable(const sim_conn_t *conn) {
    return conn->to_client.size > 0 || conn->server_fin || conn->server_rst;
}

void sim_client_fin(sim_conn_t *conn) {
    if (conn->client_fin || conn->client_rst) return;
    conn->client_fin = true;
    notify_server(conn);
    sim_trace("client FIN", conn->client, 0);
}

void sim_client_reset(sim_conn_t *conn) {
    reset_by_client(conn);
    sim_trace("client RST", conn->client, 0);
}

void sim_client_close(sim_conn_t *conn) {
    if (conn->to_client.size > 0) /* close(2) over bytes that were not read */
        reset_by_client(conn);
    else
        sim_client_fin(conn);
    conn->client_gone = true;
    conn->arg = NULL;
    conn_free(conn);
}

uint64_t sim_server_received(const sim_conn_t *conn) {
    return conn->to_server.passed;
}

bool sim_server_has_looked(const sim_conn_t *conn, uint64_t size) {
    return conn->looked && conn->looked_at <= size;
}

bool sim_was_never_accepted(const sim_conn_t *conn) {
    return conn->never_accepted;
}

bool sim_server_has_closed(const sim_conn_t *conn) {
    return conn->server_gone;
}

bool sim_is_unix(const sim_conn_t *conn) {
    return conn->is_unix;
}

void sim_wake_client(const sim_conn_t *conn) {
    if (conn->arg) conn->wake(conn->arg);
}

/* The server closes its end. */
static void server_close(sim_conn_t *conn) {
    sim_trace("server closes", conn->client, conn->to_server.size);
    sim_address_closed(conn);
    conn->server_gone = true;
    conn->fd = -1;
    if (conn->linger_zero || (conn->to_server.size > 0 && !conn->client_rst)) {
        conn->server_rst = true;
        conn->to_client.size = conn->linger_zero ? 0 : conn->to_client.size;
    }
    conn->server_fin = true;
    conn->to_server.size = 0;
    sim_wake_client(conn);
    conn_free(conn);
}

/* --- what the server calls: --wrap=NAME makes __wrap_NAME of NAME, and __real_NAME is the C library's --- */

int __real_close(int fd);
ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __real_write(int fd, const void *data, size_t size);
int __real_fcntl64(int fd, int command, ...);

int __wrap_socket(int domain, int type, int protocol) {
    (void)domain, (void)type, (void)protocol;
    return sim_descriptor_new(SOCKET);
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t size) {
    (void)size;
    sim_find(fd, "bind")->port = ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    return 0;
}

int __wrap_listen(int fd, int backlog) {
    (void)backlog;
    descriptor_t *it = sim_find(fd, "listen");
    it->kind = LISTENER;
    it->backlog = calloc(1, sizeof *it->backlog);
    if (!it->backlog) abort();
    it->backlog->holders = 1;
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
    (void)value, (void)size;
    descriptor_t *it = sim_find(fd, "setsockopt");
    if (it->kind == STREAM && level == SOL_SOCKET && name == SO_LINGER) it->conn->linger_zero = true;
    return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    descriptor_t *it = sim_find(fd, "getsockopt");
    if (level == SOL_SOCKET && name == SO_ERROR) {
        *(int *)value = it->kind == STREAM ? it->conn->error : 0;
        if (it->kind == STREAM) it->conn->error = 0;
        return 0;
    }
    if (level == SOL_SOCKET && it->kind == LISTENER) {
        *(int *)value = name == SO_DOMAIN ? listens_on_unix ? AF_UNIX : AF_INET : name == SO_TYPE ? SOCK_STREAM : 1;
        return 0;
    }
    if (level != IPPROTO_TCP || name != TCP_INFO || (it->kind != STREAM && it->kind != LISTENER)) {
        errno = ENOPROTOOPT;
        return -1;
    }
    struct tcp_info info = {0};
    if (it->kind == LISTENER) {
        info.tcpi_unacked = it->backlog->size;
        it->closing = true; /* it asks before it takes the rest */
    }
    if (it->kind == STREAM) info.tcpi_bytes_acked = it->conn->to_client.passed;
    if (*size > sizeof info) *size = sizeof info;
    memcpy(value, &info, *size);
    return 0;
}

static sim_conn_t *take_first(backlog_t *backlog) {
    sim_conn_t *conn = backlog->conns[0];
    backlog->size--;
    memmove(backlog->conns, backlog->conns + 1, backlog->size * sizeof(sim_conn_t *));
    return conn;
}

/* ECONNABORTED is about a connection that has gone, which leaves the backlog with that. */
static int fail_accept(descriptor_t *listener, int error) {
    if (error == ECONNABORTED && !listener->backlog->conns[0]->client_rst) error = EINTR;
    if (error == ECONNABORTED) server_close(take_first(listener->backlog));
    if (error != ECONNABORTED && error != EINTR) refused_ns = sim_now_ns;
    if (is_of_server(listener->port) && !listener->closing) sim_traffic.accept_errors++;
    sim_trace("accept4 fails", (uint64_t)error, 0);
    errno = error;
    return -1;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    (void)address, (void)size, (void)flags;
    descriptor_t *listener = sim_find(fd, "accept4");
    if (listener->backlog->size == 0) {
        errno = EAGAIN;
        return -1;
    }
    static const int errors[] = {ECONNABORTED, EMFILE, ENFILE, ENOMEM, EINTR};
    if (sim_one_in(&sim_kernel_random, listener->closing ? 4 : accept_fails_in))
        return fail_accept(listener, listener->closing ? EINTR : errors[sim_below(&sim_kernel_random, 5)]);
    if (sim_streams_max > 0 && !listener->closing && streams_open >= sim_streams_max)
        return fail_accept(listener, EMFILE);
    int made = sim_descriptor_new(STREAM);
    if (made < 0) return -1;
    sim_conn_t *conn = take_first(listener->backlog);
    descriptors[made - FD_FIRST].conn = conn;
    conn->fd = made;
    conn->accepted = true;
    conn->takes_place = is_of_server(listener->port);
    sim_traffic.accepted += conn->takes_place;
    sim_traffic.accepted_late += conn->takes_place && listener->closing;
    streams_open++;
    places_used += conn->takes_place;
    sim_address_look(conn);
    sim_memory_accepts();
    sim_trace("accept", conn->client, (uint64_t)made);
    return made;
}

sim_conn_t *sim_stream_of(int fd, const char *call) {
    descriptor_t *it = sim_find(fd, call);
    if (it->kind != STREAM) sim_fail("%s on descriptor %d, which is no stream", call, fd);
    return it->conn;
}

static bool take_error(sim_conn_t *conn) {
    if (!conn->error) return false;
    errno = conn->error;
    conn->error = 0;
    return true;
}

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags) {
    (void)flags;
    sim_conn_t *conn = sim_stream_of(fd, "recv");
    if (conn->to_server.size > 0) {
        if (sim_one_in(&conn->random, 32)) {
            errno = sim_one_in(&conn->random, 2) ? EAGAIN : EINTR;
            return -1;
        }
        size_t want = conn->to_server.size < size ? conn->to_server.size : size;
        size_t got = sim_queue_take(&conn->to_server, data, sim_share(&conn->random, want));
        if (conn->takes_place) sim_traffic.received += got;
        sim_address_look(conn);
        sim_trace("recv", conn->client, got);
        sim_trace_bytes(data, got);
        sim_wake_client(conn);
        return (ssize_t)got;
    }
    if (take_error(conn)) return -1;
    if (conn->client_fin || conn->client_rst) return 0;
    errno = EAGAIN;
    return -1;
}

ssize_t sim_stream_send(sim_conn_t *conn, const struct iovec *iov, size_t count) {
    size_t size = 0, sent = 0;
    for (size_t i = 0; i < count; i++) size += iov[i].iov_len;
    if (conn->server_fin) sim_fail("send after FIN on the connection of client %u", conn->client);
    if (take_error(conn)) return -errno;
    if (conn->client_rst) return -EPIPE;
    if (conn->client_gone) { /* nobody is there: the peer's system will reset */
        reset_by_client(conn);
        if (conn->takes_place) sim_traffic.sent += size;
        return (ssize_t)size;
    }
    size_t capacity = queue_capacity(&conn->to_client);
    if (capacity == 0 ||
        sim_one_in(&conn->random, 16)) { /* that there is space is reported: the event is level-triggered */
        sim_trace("send waits", conn->client, size);
        return -EAGAIN;
    }
    size_t left = sim_share(&conn->random, size < capacity ? size : capacity);
    for (size_t i = 0; i < count && left > 0; i++) {
        size_t part = iov[i].iov_len < left ? iov[i].iov_len : left;
        sim_trace_bytes(iov[i].iov_base, part);
        sent += sim_queue_put(&conn->to_client, iov[i].iov_base, part);
        left -= part;
    }
    if (conn->takes_place) sim_traffic.sent += sent;
    sim_trace("send", conn->client, sent);
    sim_wake_client(conn);
    return (ssize_t)sent;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
    (void)flags;
    ssize_t sent = sim_stream_send(sim_stream_of(fd, "send"), message->msg_iov, message->msg_iovlen);
    if (sent >= 0) return sent;
    errno = (int)-sent;
    return -1;
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags) {
    struct iovec one = {.iov_base = (char *)(uintptr_t)data, .iov_len = size};
    return __wrap_sendmsg(fd, &(struct msghdr){.msg_iov = &one, .msg_iovlen = 1}, flags);
}

int __wrap_shutdown(int fd, int how) {
    sim_conn_t *conn = sim_stream_of(fd, "shutdown");
    if (conn->client_rst) {
        errno = ENOTCONN;
        return -1;
    }
    if (how != SHUT_RD) {
        conn->server_fin = true;
        sim_trace("server FIN", conn->client, 0);
        sim_wake_client(conn);
    }
    return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    int *value = va_arg(arguments, int *);
    va_end(arguments);
    sim_conn_t *conn = sim_stream_of(fd, "ioctl");
    if (request == FIONREAD && conn->to_server.size == 0) {
        conn->looked = true;
        conn->looked_at = conn->to_server.passed;
    }
    *value = request == FIONREAD ? (int)conn->to_server.size : request == SIOCOUTQ ? (int)conn->to_client.size : 0;
    return 0;
}

static int duplicate(const descriptor_t *listener) {
    if (listener->kind != LISTENER) sim_fail("a duplicate of a descriptor that is no listening socket");
    int fd = sim_descriptor_new(LISTENER);
    if (fd < 0) return fd;
    descriptor_t *made = sim_find(fd, "fcntl");
    made->port = listener->port;
    made->backlog = listener->backlog;
    made->backlog->holders++;
    return fd;
}

static int simulated_fcntl(int fd, int command) {
    const descriptor_t *it = sim_find(fd, "fcntl");
    if (command == F_DUPFD_CLOEXEC) return duplicate(it);
    return command == F_GETFL ? O_RDWR | O_NONBLOCK : 0;
}

int __wrap_fcntl64(int fd, int command, ...) {
    if (sim_is_simulated(fd)) return simulated_fcntl(fd, command);
    va_list arguments;
    va_start(arguments, command);
    long value = va_arg(arguments, long);
    va_end(arguments);
    return __real_fcntl64(fd, command, value);
}

/* Connections that wait there are reset. */
static void close_backlog(backlog_t *backlog) {
    for (uint32_t i = 0; i < backlog->size; i++) {
        backlog->conns[i]->linger_zero = true;
        backlog->conns[i]->never_accepted = refused_ns == sim_now_ns;
        server_close(backlog->conns[i]);
    }
    free(backlog);
}

int __wrap_close(int fd) {
    if (!sim_is_simulated(fd)) return __real_close(fd);
    descriptor_t *it = sim_find(fd, "close");
    for (int i = 0; i < descriptors_end; i++)
        if (descriptors[i].kind == EPOLL) sim_set_drop(descriptors[i].set, fd);
    if (it->kind == EPOLL) sim_set_free(it->set);
    if (it->kind == LISTENER && --it->backlog->holders == 0) close_backlog(it->backlog);
    descriptor_t was = *it;
    *it = (descriptor_t){.kind = FREE};
    if (was.kind == STREAM && was.conn->accepted) streams_open--;
    if (was.kind == STREAM && was.conn->takes_place) places_used--;
    if (was.kind == STREAM && was.conn->takes_place) sim_traffic.closed++;
    if (was.kind == STREAM) server_close(was.conn);
    if (was.kind == PEER) sim_client_close(was.conn);
    return was.kind == DISK ? sim_disk_closed(was.file) : 0;
}

int __wrap_eventfd(unsigned count, int flags) {
    (void)flags;
    int fd = sim_descriptor_new(EVENT);
    if (fd >= 0) descriptors[fd - FD_FIRST].number = count;
    return fd;
}

void sim_event_add(int fd, uint64_t number) {
    descriptor_t *it = sim_find(fd, "write");
    if (it->kind != EVENT) sim_fail("write to descriptor %d, which is no event", fd);
    it->number += number;
    happened(fd);
}

ssize_t __wrap_write(int fd, const void *data, size_t size) {
    if (sim_output_is(fd)) return sim_output_write(fd, data, size);
    if (!sim_is_simulated(fd)) return __real_write(fd, data, size);
    if (sim_disk_is(fd)) return sim_disk_write(fd, data, size);
    sim_event_add(fd, *(const uint64_t *)data);
    return (ssize_t)size;
}

/* Of an event only. */
ssize_t __wrap_read(int fd, void *data, size_t size) {
    if (!sim_is_simulated(fd)) return __real_read(fd, data, size);
    descriptor_t *it = sim_find(fd, "read");
    if (it->kind != EVENT || it->number == 0) sim_fail("read of descriptor %d would block", fd);
    memcpy(data, &it->number, sizeof it->number);
    it->number = 0;
    return sizeof it->number;
}

short sim_polled(const struct pollfd *fd) {
    return fd->fd < 0 ? 0 : (short)(sim_events(fd->fd) & (uint32_t)(fd->events | POLLERR | POLLHUP));
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    int ready = 0;
    if (timeout_ms != 0)
        sim_wait_poll(fds, count, timeout_ms < 0 ? SIM_NEVER : sim_now_ns + (uint64_t)timeout_ms * SIM_MS);
    for (nfds_t i = 0; i < count; i++) {
        fds[i].revents = sim_polled(&fds[i]);
        ready += fds[i].revents != 0;
    }
    return ready;
}

int __wrap_socketpair(int domain, int type, int protocol, int *pair) {
    (void)domain, (void)type, (void)protocol;
    sim_conn_t *conn = conn_new(UINT32_MAX, NULL, NULL);
    pair[0] = conn->fd = sim_descriptor_new(STREAM);
    pair[1] = sim_descriptor_new(PEER);
    if (pair[1] < 0) sim_fail("no descriptors for a socket pair");
    descriptors[pair[0] - FD_FIRST].conn = descriptors[pair[1] - FD_FIRST].conn = conn;
    return 0;
}

/* Where nobody listens, connect or SO_ERROR says so. */
static int connect_origin(int fd, uint32_t ip, uint16_t port) {
    descriptor_t *it = sim_find(fd, "connect");
    if (it->kind != SOCKET) sim_fail("connect of descriptor %d", fd);
    bool refuses =
        port == SIM_ORIGIN_REFUSES || ip == SIM_ADDRESS_REFUSES || (port == SIM_REDIS && sim_redis_is_away());
    if (refuses && ip != SIM_ADDRESS_SILENT && sim_one_in(&sim_kernel_random, 2)) {
        errno = ECONNREFUSED;
        return -1;
    }
    uint32_t number = outgoing_count++;
    sim_conn_t *conn = conn_new(0x8000 + number, sim_actor_wake, NULL);
    it->kind = STREAM;
    it->conn = conn;
    conn->fd = fd;
    sim_trace("the server connects", number, port);
    if (ip == SIM_ADDRESS_SILENT) {
        conn->unheard = conn->client_gone = true;
    } else if (refuses) {
        conn->client_rst = conn->client_gone = true;
        conn->error = ECONNREFUSED;
    } else {
        conn->arg = port == SIM_COLLECTOR ? sim_collector_new(conn, kernel_seed, number)
                    : port == SIM_REDIS   ? sim_redis_new(conn, kernel_seed, number)
                                          : sim_origin_new(conn, port, kernel_seed, number);
        if (sim_one_in(&sim_kernel_random, 2)) return 0;
    }
    errno = EINPROGRESS;
    return -1;
}

/* With AF_UNSPEC: the end of a connection, at once (connect(2)). */
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size) {
    (void)size;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *to = (const void *)address;
        return connect_origin(fd, ntohl(to->sin_addr.s_addr), ntohs(to->sin_port));
    }
    if (address->sa_family != AF_UNSPEC) sim_fail("connect");
    sim_conn_t *conn = sim_stream_of(fd, "connect");
    conn->linger_zero = true;
    conn->to_client.size = 0;
    return 0;
}

int __wrap_timerfd_create(int clock, int flags) {
    (void)clock, (void)flags;
    return sim_descriptor_new(TIMER);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *before) {
    (void)flags, (void)before;
    descriptor_t *it = sim_find(fd, "timerfd_settime");
    uint64_t ns = (uint64_t)time->it_value.tv_sec * 1000000000u + (uint64_t)time->it_value.tv_nsec;
    it->number = ns ? ns : SIM_NEVER;
    return 0;
}
