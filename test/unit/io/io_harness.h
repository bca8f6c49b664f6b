/* Owns: what the tests of src/io/ share: a loop that runs in a thread of its own, on every engine, as own loop and as
 * guest; server-side peers that count what happens to them; a client of plain blocking sockets with time limits.
 *
 * The test's thread is the client and does all the asserting. Callbacks run in the loop's thread and only count; the
 * test waits for counts (never for time to pass) with server_wait, and reaches into the loop with server_call. */
#ifndef UVHTTP_TEST_UNIT_IO_HARNESS_H
#define UVHTTP_TEST_UNIT_IO_HARNESS_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/io.h"

#define TIMEOUT_MS 20000
#define MAYBE_UNUSED __attribute__((unused))

/* --- variants --- */

typedef struct variant {
    uvhttp__engine_kind_t kind;
    bool guest;
} variant_t;

static MAYBE_UNUSED variant_t libuv_own = {UVHTTP__ENGINE_LIBUV, false};
static MAYBE_UNUSED variant_t libuv_guest = {UVHTTP__ENGINE_LIBUV, true};
static MAYBE_UNUSED variant_t uring_own = {UVHTTP__ENGINE_URING, false};
static MAYBE_UNUSED variant_t uring_guest = {UVHTTP__ENGINE_URING, true};

#define ON_VARIANT(test, variant)                                                                                      \
    { #test " (" #variant ")", test, server_setup, server_teardown, &variant }
#define ON_OWN_LOOPS(test) ON_VARIANT(test, libuv_own), ON_VARIANT(test, uring_own)
#define ON_GUESTS(test) ON_VARIANT(test, libuv_guest), ON_VARIANT(test, uring_guest)
#define ON_URING(test) ON_VARIANT(test, uring_own), ON_VARIANT(test, uring_guest)
#define ON_EACH(test) ON_OWN_LOOPS(test), ON_GUESTS(test)

static inline int try_uring(void) {
    uvhttp__counters_t *counters = aligned_alloc(64, (sizeof *counters + 63) / 64 * 64);
    uvhttp__loop_options_t options = {
        .engine = UVHTTP__ENGINE_URING, .receive_buffer_size = 16384, .receive_buffer_count = 64, .counters = counters};
    uvhttp__loop_t *loop = NULL;
    return uvhttp__loop_new(&options, &loop) == UVHTTP_OK ? 0 : 1;
}

/* A build may be without io_uring, and a container may forbid it. It is tried in a child: what the kernel cleans up
 * after a ring interrupts system calls of the process that has made it, and a test may count on being the first. */
static __attribute__((constructor)) void skip_uring_where_it_does_not_work(void) {
    int status = 1;
    pid_t child = UVHTTP_WITH_URING ? fork() : -1;
    if (child == 0) _exit(try_uring());
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0) return;
    print_message("io_uring is not available here: its variants are skipped\n");
    cmocka_set_skip_filter("*(uring*");
}

/* --- the server --- */

typedef enum event {
    EV_OPENED,
    EV_BYTES,
    EV_END_OK,
    EV_END_ABORTED,
    EV_SENT,
    EV_CLOSED,
    EV_CONNECT_OK,
    EV_CONNECT_FAILED,
    EV_RELEASED,
    EV_ACCEPT_ERROR,
    EV_LISTENER_CLOSED,
    EV_TICK,
    EV_WRONG, /* something that must not happen */
    EV_COUNT,
} event_t;

typedef struct server {
    const variant_t *variant;
    uvhttp__loop_options_t options; /* a test may change them before server_start */
    uvhttp__counters_t *counters;
    uvhttp__loop_t *loop;
    uv_loop_t host; /* guests only */
    uvhttp__listener_t listener;
    uvhttp__listener_ops_t listener_ops;
    const uvhttp__stream_ops_t *ops;
    uvhttp__list_t peers;
    int listen_fd; /* a test may set one before server_start */
    int port;
    int fds_before;
    struct rlimit nofile_before; /* restored by the teardown */
    int start_status;
    int host_close_status;
    atomic_uint turns;
    bool started, ready, listener_open;
    atomic_bool may_free;
    uv_timer_t free_timer; /* guests only */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t counts[EV_COUNT];
    void *user;
} server_t;

typedef struct peer {
    uvhttp__stream_t stream;
    server_t *server;
    uvhttp__list_t link;
    uint64_t received; /* bytes consumed */
    uint64_t budget;   /* for a test's own use */
    uint32_t out_size_max;
    int step;
    bool in_call, closed_by_test;
} peer_t;

static inline peer_t *peer_of(uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream, peer_t, stream);
}

static inline uint64_t clock_ms(void) {
    return uvhttp__clock_ns() / 1000000u;
}

static inline void count_event(server_t *server, event_t event, uint64_t n) {
    pthread_mutex_lock(&server->lock);
    server->counts[event] += n;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static inline uint64_t server_count(server_t *server, event_t event) {
    pthread_mutex_lock(&server->lock);
    uint64_t n = server->counts[event];
    pthread_mutex_unlock(&server->lock);
    return n;
}

static inline struct timespec deadline_in(int timeout_ms) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* Waits until an event has been counted n times. */
static inline bool server_wait_within(server_t *server, event_t event, uint64_t n, int timeout_ms) {
    struct timespec at = deadline_in(timeout_ms);
    int error = 0;
    pthread_mutex_lock(&server->lock);
    while (server->counts[event] < n && error == 0)
        error = pthread_cond_timedwait(&server->changed, &server->lock, &at);
    bool reached = server->counts[event] >= n;
    pthread_mutex_unlock(&server->lock);
    return reached;
}

static const char *const event_names[EV_COUNT] = {
    "opened",         "bytes",    "end ok",       "end aborted",     "sent", "closed", "connect ok",
    "connect failed", "released", "accept error", "listener closed", "tick", "wrong"};

#define server_wait(server, event, n)                                                                                  \
    do {                                                                                                               \
        if (!server_wait_within((server), (event), (n), TIMEOUT_MS))                                                   \
            fail_msg("waited in vain for \"%s\" x %llu, there were %llu", event_names[event], (unsigned long long)(n), \
                     (unsigned long long)server_count((server), (event)));                                             \
    } while (0)

typedef struct call {
    uvhttp__post_t post;
    server_t *server;
    void (*run)(server_t *server, void *arg);
    void *arg;
    bool done;
} call_t;

static inline void run_call(uvhttp__post_t *post) {
    call_t *call = UVHTTP__CONTAINER_OF(post, call_t, post);
    server_t *server = call->server;
    call->run(server, call->arg);
    pthread_mutex_lock(&server->lock);
    call->done = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* Runs something in the loop's thread and waits until it has run. */
static inline void server_call(server_t *server, void (*run)(server_t *server, void *arg), void *arg) {
    call_t call = {.post = {.run = run_call}, .server = server, .run = run, .arg = arg};
    struct timespec at = deadline_in(TIMEOUT_MS);
    int error = 0;
    uvhttp__loop_post(server->loop, &call.post);
    pthread_mutex_lock(&server->lock);
    while (!call.done && error == 0) error = pthread_cond_timedwait(&server->changed, &server->lock, &at);
    bool done = call.done;
    pthread_mutex_unlock(&server->lock);
    if (!done) {
        fprintf(stderr, "a message to the loop was not run: the loop hangs\n");
        abort(); /* the call is on this stack: there is no safe way on */
    }
}

static inline void nothing(server_t *server, void *arg) {
    (void)server, (void)arg;
}

/* Two full turns of the loop: what was due has been done. */
static inline void server_settle(server_t *server) {
    server_call(server, nothing, NULL);
    server_call(server, nothing, NULL);
}

/* A loop with nothing to do waits: a level-triggered event that nobody handles would make thousands of turns. */
static inline void assert_quiet(server_t *server) {
    server_settle(server);
    unsigned turns = atomic_load(&server->turns);
    poll(NULL, 0, 100);
    turns = atomic_load(&server->turns) - turns;
    if (turns > 20) fail_msg("%u turns in 100 ms without anything to do", turns);
}

/* --- peers with default behaviour: echo, close when the peer has ended --- */

static inline peer_t *server_first_peer(server_t *server) {
    if (uvhttp__list_empty(&server->peers)) return NULL;
    return UVHTTP__CONTAINER_OF(server->peers.next, peer_t, link);
}

static inline peer_t *peer_new(server_t *server) {
    peer_t *peer = calloc(1, sizeof *peer);
    if (!peer) abort();
    peer->server = server;
    uvhttp__list_init(&peer->link);
    uvhttp__list_push_back(&server->peers, &peer->link);
    return peer;
}

static inline void peer_close(peer_t *peer) {
    peer->closed_by_test = true;
    peer->in_call = true;
    uvhttp__stream_close(&peer->stream);
    peer->in_call = false;
}

static inline size_t peer_echo(uvhttp__stream_t *stream, const char *data, size_t size) {
    count_event(peer_of(stream)->server, EV_BYTES, size);
    if (uvhttp__stream_send_copy(stream, data, size) != 0) count_event(peer_of(stream)->server, EV_WRONG, 1);
    return size;
}

static inline size_t peer_swallow(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    count_event(peer_of(stream)->server, EV_BYTES, size);
    return size;
}

static inline void peer_count_end(uvhttp__stream_t *stream, int status) {
    peer_t *peer = peer_of(stream);
    if (peer->in_call || peer->closed_by_test) count_event(peer->server, EV_WRONG, 1);
    count_event(peer->server, status == UVHTTP_OK ? EV_END_OK : EV_END_ABORTED, 1);
}

static inline void peer_close_at_end(uvhttp__stream_t *stream, int status) {
    peer_count_end(stream, status);
    peer_close(peer_of(stream));
}

static inline void peer_count_sent(uvhttp__stream_t *stream) {
    peer_t *peer = peer_of(stream);
    if (peer->in_call || peer->closed_by_test) count_event(peer->server, EV_WRONG, 1);
    count_event(peer->server, EV_SENT, 1);
}

/* A file that is said to be in memory, if ever it has to be asked for. */
typedef struct peer_file {
    uvhttp__source_t source;
    server_t *server;
} peer_file_t;

static inline void peer_file_want(uvhttp__source_t *source) {
    source->read_size = source->left < 65536 ? source->left : 65536;
}

static inline void peer_file_released(uvhttp__source_t *source) {
    peer_file_t *file = UVHTTP__CONTAINER_OF(source, peer_file_t, source);
    count_event(file->server, EV_RELEASED, 1);
    free(file);
}

static inline void peer_send_file(uvhttp__stream_t *stream, int fd, uint64_t offset, uint64_t size) {
    peer_file_t *file = malloc(sizeof *file);
    if (!file) abort();
    *file = (peer_file_t){.source = {.want = peer_file_want, .released = peer_file_released},
                          .server = peer_of(stream)->server};
    (void)uvhttp__stream_send_file(stream, &file->source, fd, offset, size);
}

static inline void peer_on_closed(uvhttp__stream_t *stream) {
    peer_t *peer = peer_of(stream);
    server_t *server = peer->server;
    if (peer->in_call) count_event(server, EV_WRONG, 1);
    uvhttp__list_remove(&peer->link);
    memset(peer, 0xdd, sizeof *peer); /* whoever still uses it is found out */
    free(peer);
    count_event(server, EV_CLOSED, 1);
}

static MAYBE_UNUSED const uvhttp__stream_ops_t echo_ops = {
    .on_data = peer_echo, .on_end = peer_close_at_end, .on_sent = peer_count_sent, .on_closed = peer_on_closed};

/* --- life of the server --- */

static inline void server_on_accept(uvhttp__listener_t *listener, int fd) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    peer_t *peer = peer_new(server);
    uvhttp__stream_open(&peer->stream, server->loop, fd, server->ops);
    if (uvhttp__stream_read_start(&peer->stream) != 0) count_event(server, EV_WRONG, 1);
    count_event(server, EV_OPENED, 1);
}

static inline void server_on_accept_error(uvhttp__listener_t *listener, int status) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    (void)status;
    count_event(server, EV_ACCEPT_ERROR, 1);
}

static inline void server_on_listener_closed(uvhttp__listener_t *listener) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    server->listener_open = false;
    count_event(server, EV_LISTENER_CLOSED, 1);
}

static inline void server_on_turn_end(uvhttp__loop_t *loop, void *arg) {
    (void)loop;
    atomic_fetch_add(&((server_t *)arg)->turns, 1);
}

/* Descriptors of this process; the directory's own is the same before and after. */
static inline int count_fds(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    if (!folder) return -1;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* libuv keeps a pipe for signals from the first loop of the process on: it is not a leak of a test. */
static inline void warm_up_libuv(void) {
    static bool done;
    uv_loop_t loop;
    if (done || uv_loop_init(&loop) != 0) return;
    uv_loop_close(&loop);
    done = true;
}

static inline int server_setup(void **state) {
    server_t *server = calloc(1, sizeof *server);
    if (!server) return -1;
    warm_up_libuv();
    server->variant = *state;
    server->listen_fd = -1;
    server->fds_before = count_fds();
    getrlimit(RLIMIT_NOFILE, &server->nofile_before);
    server->counters = aligned_alloc(64, (sizeof *server->counters + 63) / 64 * 64);
    memset(server->counters, 0, sizeof *server->counters);
    server->options = (uvhttp__loop_options_t){.engine = server->variant->kind,
                                               .receive_buffer_size = 16384,
                                               .receive_buffer_count = 64,
                                               .counters = server->counters,
                                               .on_turn_end = server_on_turn_end,
                                               .arg = server};
    server->listener_ops = (uvhttp__listener_ops_t){.on_accept = server_on_accept,
                                                    .on_accept_error = server_on_accept_error,
                                                    .on_closed = server_on_listener_closed};
    uvhttp__list_init(&server->peers);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->changed, NULL);
    *state = server;
    return 0;
}

static inline void server_say_ready(server_t *server) {
    pthread_mutex_lock(&server->lock);
    server->ready = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static inline void *server_thread(void *arg) {
    server_t *server = arg;
    if (server->variant->guest) {
        if (uv_loop_init(&server->host) != 0) abort();
        server->options.host = &server->host;
    }
    if (!server->loop) server->start_status = uvhttp__loop_new(&server->options, &server->loop);
    if (server->start_status == 0 && server->listen_fd >= 0) {
        server->listener_open = true;
        uvhttp__listener_open(&server->listener, server->loop, server->listen_fd, &server->listener_ops);
    }
    server_say_ready(server);
    if (server->start_status == 0) {
        if (server->variant->guest) {
            uv_run(&server->host, UV_RUN_DEFAULT);
        } else {
            uvhttp__loop_run(server->loop);
            while (!atomic_load(&server->may_free)) poll(NULL, 0, 1);
            uvhttp__loop_free(server->loop, NULL, NULL);
        }
    }
    if (server->variant->guest) server->host_close_status = uv_loop_close(&server->host);
    return NULL;
}

static inline int listen_loopback(int *port) {
    uvhttp__endpoint_t endpoint;
    uvhttp__address_t address;
    socklen_t size = sizeof address;
    int fd = -1;
    assert_int_equal(uvhttp__endpoint_parse("127.0.0.1:0", &endpoint), 0);
    assert_int_equal(uvhttp__listen_socket(&endpoint, 1024, false, &fd), 0);
    assert_int_equal(getsockname(fd, &address.any, &size), 0);
    *port = ntohs(address.v4.sin_port);
    return fd;
}

static inline void server_start(server_t *server, const uvhttp__stream_ops_t *ops) {
    server->ops = ops;
    if (server->listen_fd < 0) server->listen_fd = listen_loopback(&server->port);
    assert_int_equal(pthread_create(&server->thread, NULL, server_thread, server), 0);
    pthread_mutex_lock(&server->lock);
    while (!server->ready) pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    if (server->start_status != 0) {
        pthread_join(server->thread, NULL);
        close(server->listen_fd);
        if (server->start_status == UVHTTP_E_UNSUPPORTED && server->variant->kind == UVHTTP__ENGINE_URING) {
            print_message("           io_uring is not available here\n");
            skip();
        }
        fail_msg("no loop: %s", uvhttp_error_name(server->start_status));
    }
    server->started = true;
}

static inline void close_listener(server_t *server, void *arg) {
    (void)arg;
    uvhttp__listener_close(&server->listener);
}

static inline void close_peers(server_t *server, void *arg) {
    (void)arg;
    uvhttp__list_t *node, *next;
    UVHTTP__LIST_FOREACH_SAFE(node, next, &server->peers) {
        peer_close(UVHTTP__CONTAINER_OF(node, peer_t, link));
    }
}

static inline void close_everything(server_t *server, void *arg) {
    if (server->listener_open) uvhttp__listener_close(&server->listener);
    close_peers(server, arg);
}

static inline void free_guest(uv_timer_t *timer) {
    server_t *server = timer->data;
    if (!atomic_load(&server->may_free)) return;
    uv_close((uv_handle_t *)timer, NULL);
    uvhttp__loop_free(server->loop, NULL, NULL);
}

/* The loop is not freed before uvhttp__loop_post, which brought this here, has returned in the other thread. */
static inline void stop_loop(server_t *server, void *arg) {
    (void)arg;
    if (server->variant->guest) {
        uv_timer_init(&server->host, &server->free_timer);
        server->free_timer.data = server;
        uv_timer_start(&server->free_timer, free_guest, 0, 1);
    } else {
        uvhttp__loop_stop(server->loop);
    }
}

typedef struct leftovers {
    bool any;
} leftovers_t;

static inline void count_leftovers(server_t *server, void *arg) {
    ((leftovers_t *)arg)->any = server->listener_open || !uvhttp__list_empty(&server->peers);
}

/* Closes what is open, stops the loop and joins the thread. Returns false if something did not close. */
static inline bool server_stop(server_t *server) {
    if (!server->started) return true;
    leftovers_t leftovers = {.any = true};
    uint64_t end_ms = clock_ms() + TIMEOUT_MS;
    server_call(server, close_everything, NULL);
    while (leftovers.any && clock_ms() < end_ms) {
        server_call(server, close_peers, NULL); /* those that the listener took from its backlog when it closed */
        server_call(server, count_leftovers, &leftovers);
        if (leftovers.any) poll(NULL, 0, 1); /* not for an order: only not to be busy */
    }
    if (leftovers.any) {
        fprintf(stderr, "a stream or listener was not closed\n");
        abort();
    }
    server_call(server, stop_loop, NULL);
    atomic_store(&server->may_free, true);
    pthread_join(server->thread, NULL);
    server->started = false;
    return true;
}

static inline int server_teardown(void **state) {
    server_t *server = *state;
    setrlimit(RLIMIT_NOFILE, &server->nofile_before);
    server_stop(server);
    int failed = 0;
    if (server->counts[EV_WRONG] != 0) {
        fprintf(stderr, "%llu callbacks came that must not\n", (unsigned long long)server->counts[EV_WRONG]);
        failed = -1;
    }
    if (server->host_close_status != 0) {
        fprintf(stderr, "the application's loop has handles left: %s\n", uv_strerror(server->host_close_status));
        failed = -1;
    }
    int fds = count_fds();
    if (fds != server->fds_before) {
        fprintf(stderr, "%d descriptors before, %d after\n", server->fds_before, fds);
        failed = -1;
    }
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server->counters);
    free(server);
    return failed;
}

/* --- the client --- */

static inline void set_limits(int fd) {
    struct timeval limit = {.tv_sec = TIMEOUT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static inline struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline int client_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    set_limits(fd);
    return fd;
}

static inline void client_connect_fd(server_t *server, int fd) {
    struct sockaddr_in address = loopback(server->port);
    int error = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
    if (error ==
        EINTR) { /* it goes on: the kernel's cleaning up after an io_uring of this thread interrupts what waits */
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof error;
        while (poll(&wait, 1, TIMEOUT_MS) < 0 && errno == EINTR) {
        }
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    assert_int_equal(error, 0);
}

static inline int client_connect(server_t *server) {
    int fd = client_socket();
    client_connect_fd(server, fd);
    return fd;
}

static inline void client_send(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) fail_msg("client: send: %s", strerror(errno));
        at += sent;
        size -= (size_t)sent;
    }
}

static inline void client_receive(int fd, void *data, size_t size) {
    char *at = data;
    while (size > 0) {
        ssize_t got = recv(fd, at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) fail_msg("client: end of stream, %zu bytes missing", size);
        if (got < 0) fail_msg("client: recv: %s, %zu bytes missing", strerror(errno), size);
        at += got;
        size -= (size_t)got;
    }
}

static inline void client_expect(int fd, const void *data, size_t size) {
    char *got = malloc(size);
    client_receive(fd, got, size);
    for (size_t i = 0; i < size; i++) {
        if (got[i] != ((const char *)data)[i]) {
            free(got);
            fail_msg("client: byte %zu of %zu differs", i, size);
        }
    }
    free(got);
}

static inline void client_expect_eof(int fd) {
    char byte;
    ssize_t got;
    do {
        got = recv(fd, &byte, 1, 0);
    } while (got < 0 && errno == EINTR);
    if (got != 0) fail_msg("client: expected FIN, got %zd (%s)", got, got < 0 ? strerror(errno) : "a byte");
}

static inline void client_expect_reset(int fd) {
    char buffer[4096];
    ssize_t got;
    do {
        got = recv(fd, buffer, sizeof buffer, 0);
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got == 0) fail_msg("client: expected a reset, got FIN");
    assert_int_equal(errno, ECONNRESET);
}

static inline void client_reset(int fd) {
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

static inline bool wait_fd(int fd, short events, int timeout_ms) {
    struct pollfd wait = {.fd = fd, .events = events};
    int ready;
    do {
        ready = poll(&wait, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    return ready == 1;
}

/* Bytes whose order shows: no period of a power of two. */
static inline char pattern_at(uint64_t i) {
    return (char)(i * 31 + i / 251 + i / 65537);
}

static inline char *pattern_new(size_t size) {
    char *data = malloc(size);
    for (size_t i = 0; i < size; i++) data[i] = pattern_at(i);
    return data;
}

/* --- as an ordinary user --- */

/* Root has no RLIMIT_MEMLOCK and hides what others meet: the program runs its tests a second time as somebody else. */
static MAYBE_UNUSED bool again_as_user;

static inline int run_again_as_user(int (*group)(void)) {
    int failed = group();
    if (geteuid() != 0) return failed;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        struct rlimit small = {.rlim_cur = 64 * 1024, .rlim_max = 64 * 1024};
        if (setrlimit(RLIMIT_MEMLOCK, &small) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
        prctl(PR_SET_DUMPABLE, 1); /* for /proc/self and the leak checker */
        again_as_user = true;
        print_message("--- again as uid %d with 64 KiB of RLIMIT_MEMLOCK\n", (int)getuid());
        exit(group());
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) return 1;
    return failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

#endif
