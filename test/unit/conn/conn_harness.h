/* Owns: what the tests of src/conn/ share: a TCP server that runs in a thread of its own, on either engine, and
 * handlers that count. The test's thread is the client and does all the asserting; it waits for counts, never for time
 * to pass. */
#ifndef UVHTTP_TEST_UNIT_CONN_HARNESS_H
#define UVHTTP_TEST_UNIT_CONN_HARNESS_H

#include <uvhttp/tcp.h>

#include "io/io_harness.h"

typedef enum seen {
    SEEN_OPEN,
    SEEN_BYTES,
    SEEN_DRAIN,
    SEEN_END,
    SEEN_CLOSE_OK,
    SEEN_CLOSE_ABORTED,
    SEEN_CLOSE_TIMEOUT,
    SEEN_CLOSE_OTHER,
    SEEN_RELEASE,
    SEEN_STEP, /* for a test's own use */
    SEEN_AGAIN,
    SEEN_WRONG, /* something that must not happen */
    SEEN_COUNT,
} seen_t;

static const char *const seen_names[SEEN_COUNT] = {"open",     "bytes",         "drain",         "end",
                                                   "close ok", "close aborted", "close timeout", "close other",
                                                   "release",  "step",          "again",         "wrong"};

typedef struct fixture {
    int engine;
    uvhttp_tcp_config_t config; /* a test may change it before start */
    uvhttp_tcp_handlers_t handlers;
    uvhttp_tcp_server_t *server;
    uint16_t port;
    pthread_t thread;
    bool running;
    int run_status;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t counts[SEEN_COUNT];
    int64_t open_now;
    int64_t open_most;
    uvhttp_tcp_t *tcp;     /* loop's thread: the connection that was opened last, for tests with one loop */
    uvhttp_tcp_t *subject; /* loop's thread: a connection that another one gives orders about */
    uvhttp_tcp_ref_t *ref; /* under lock */
    uint64_t number;       /* for a test's own use */
    const char *data;
    size_t size;
    int fds_before;
} fixture_t;

static inline void saw(fixture_t *fixture, seen_t what, uint64_t n) {
    pthread_mutex_lock(&fixture->lock);
    fixture->counts[what] += n;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

static inline uint64_t seen(fixture_t *fixture, seen_t what) {
    pthread_mutex_lock(&fixture->lock);
    uint64_t n = fixture->counts[what];
    pthread_mutex_unlock(&fixture->lock);
    return n;
}

static inline bool wait_seen_within(fixture_t *fixture, seen_t what, uint64_t n, int timeout_ms) {
    struct timespec at = deadline_in(timeout_ms);
    int error = 0;
    pthread_mutex_lock(&fixture->lock);
    while (fixture->counts[what] < n && error == 0)
        error = pthread_cond_timedwait(&fixture->changed, &fixture->lock, &at);
    bool reached = fixture->counts[what] >= n;
    pthread_mutex_unlock(&fixture->lock);
    return reached;
}

#define wait_seen(fixture, what, n)                                                                                    \
    do {                                                                                                               \
        if (!wait_seen_within((fixture), (what), (n), TIMEOUT_MS))                                                     \
            fail_msg("waited in vain for \"%s\" x %llu, there were %llu", seen_names[what], (unsigned long long)(n),   \
                     (unsigned long long)seen((fixture), (what)));                                                     \
    } while (0)

/* --- handlers --- */

static inline void count_open(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    pthread_mutex_lock(&fixture->lock);
    fixture->tcp = tcp;
    if (++fixture->open_now > fixture->open_most) fixture->open_most = fixture->open_now;
    pthread_mutex_unlock(&fixture->lock);
    saw(fixture, SEEN_OPEN, 1);
}

static inline void echo_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    int status = uvhttp_tcp_send(tcp, data, size, NULL);
    if (status == UVHTTP_E_AGAIN) {
        uvhttp_tcp_pause(tcp);
        saw(user, SEEN_AGAIN, 1);
    } else if (status == UVHTTP_E_NOMEM) {
        uvhttp_tcp_reset(tcp);
    } else if (status != UVHTTP_OK) {
        saw(user, SEEN_WRONG, 1);
    }
    saw(user, SEEN_BYTES, size);
}

static inline void send_by_reference(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    if (uvhttp_tcp_send_ref(tcp, fixture->data, fixture->size, NULL, NULL) != UVHTTP_E_AGAIN)
        saw(fixture, SEEN_WRONG, 1);
}

static inline void swallow_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)tcp, (void)data;
    saw(user, SEEN_BYTES, size);
}

static inline void resume_on_drain(uvhttp_tcp_t *tcp, void *user) {
    uvhttp_tcp_resume(tcp);
    saw(user, SEEN_DRAIN, 1);
}

static inline void count_end(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp;
    saw(user, SEEN_END, 1);
}

static inline void count_close(uvhttp_tcp_t *tcp, int status, void *user) {
    (void)tcp;
    fixture_t *fixture = user;
    pthread_mutex_lock(&fixture->lock);
    fixture->open_now--;
    pthread_mutex_unlock(&fixture->lock);
    saw(fixture,
        status == UVHTTP_OK          ? SEEN_CLOSE_OK
        : status == UVHTTP_E_ABORTED ? SEEN_CLOSE_ABORTED
        : status == UVHTTP_E_TIMEOUT ? SEEN_CLOSE_TIMEOUT
                                     : SEEN_CLOSE_OTHER,
        1);
}

static MAYBE_UNUSED void count_release(void *arg) {
    saw(arg, SEEN_RELEASE, 1);
}

/* --- life --- */

static MAYBE_UNUSED int uring_engine = UVHTTP__ENGINE_URING;
static MAYBE_UNUSED int libuv_engine = UVHTTP__ENGINE_LIBUV;

#define ON_ENGINES(test)                                                                                               \
    {#test " (libuv)", test, fixture_setup, fixture_teardown, &libuv_engine}, {                                        \
#test " (uring)", test, fixture_setup, fixture_teardown, &uring_engine                                         \
    }

static inline int fixture_setup(void **state) {
    fixture_t *fixture = calloc(1, sizeof *fixture);
    if (!fixture) return -1;
    warm_up_libuv();
    fixture->engine = *(int *)*state;
    fixture->fds_before = count_fds();
    uvhttp_tcp_config_default(&fixture->config);
    fixture->config.io_threads = 1;
    fixture->config.engine = fixture->engine;
    fixture->config.install_signal_handlers = false;
    fixture->handlers = (uvhttp_tcp_handlers_t){
        .on_open = count_open, .on_data = echo_data, .on_drain = resume_on_drain, .on_close = count_close};
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    *state = fixture;
    return 0;
}

static inline void make_server(fixture_t *fixture) {
    fixture->server = uvhttp_tcp_server_new(&fixture->config, &fixture->handlers, fixture);
    assert_non_null(fixture->server);
}

static inline void *run_server(void *arg) {
    fixture_t *fixture = arg;
    fixture->run_status = uvhttp_tcp_server_run(fixture->server, NULL);
    return NULL;
}

static inline void run_in_thread(fixture_t *fixture) {
    assert_int_equal(pthread_create(&fixture->thread, NULL, run_server, fixture), 0);
    fixture->running = true;
}

static inline void start(fixture_t *fixture) {
    make_server(fixture);
    assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port), UVHTTP_OK);
    assert_true(fixture->port > 0);
    run_in_thread(fixture);
}

/* The server's thread is back; what it returned. */
static inline int join(fixture_t *fixture) {
    pthread_join(fixture->thread, NULL);
    fixture->running = false;
    return fixture->run_status;
}

static inline int stop(fixture_t *fixture) {
    assert_int_equal(uvhttp_tcp_server_stop(fixture->server), UVHTTP_OK);
    return join(fixture);
}

static inline void free_server(fixture_t *fixture) {
    uvhttp_tcp_server_free(fixture->server);
    fixture->server = NULL;
}

static inline int fixture_teardown(void **state) {
    fixture_t *fixture = *state;
    int failed = 0;
    uvhttp_tcp_ref_release(fixture->ref);
    if (fixture->running && stop(fixture) != UVHTTP_OK) failed = -1;
    if (fixture->server) free_server(fixture);
    if (fixture->counts[SEEN_WRONG] != 0) {
        fprintf(stderr, "%llu things happened that must not\n", (unsigned long long)fixture->counts[SEEN_WRONG]);
        failed = -1;
    }
    uint64_t closed = fixture->counts[SEEN_CLOSE_OK] + fixture->counts[SEEN_CLOSE_ABORTED] +
                      fixture->counts[SEEN_CLOSE_TIMEOUT] + fixture->counts[SEEN_CLOSE_OTHER];
    if (closed != fixture->counts[SEEN_OPEN]) {
        fprintf(stderr, "%llu opened, %llu closed\n", (unsigned long long)fixture->counts[SEEN_OPEN],
                (unsigned long long)closed);
        failed = -1;
    }
    int fds = count_fds();
    if (fds != fixture->fds_before) {
        fprintf(stderr, "%d descriptors before, %d after\n", fixture->fds_before, fds);
        failed = -1;
    }
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
    free(fixture);
    return failed;
}

/* --- the client --- */

/* What the kernel cleans up after a ring of this thread can interrupt it: the connecting goes on meanwhile. */
static inline void dial_fd(int fd, uint16_t port) {
    struct sockaddr_in address = loopback(port);
    int error = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
    if (error == EINTR && wait_fd(fd, POLLOUT, TIMEOUT_MS))
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}), 0);
    if (error != 0) fail_msg("client: connect: %s", strerror(error));
}

static inline int dial_port(uint16_t port) {
    int fd = client_socket();
    dial_fd(fd, port);
    return fd;
}

static inline int dial(fixture_t *fixture) {
    return dial_port(fixture->port);
}

/* A client whose kernel takes little, so that the server's queue is where bytes wait. */
static MAYBE_UNUSED int dial_narrow(fixture_t *fixture) {
    int fd = client_socket();
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){16384}, sizeof(int));
    dial_fd(fd, fixture->port);
    return fd;
}

static inline void ping(int fd) {
    client_send(fd, "ping", 4);
    client_expect(fd, "ping", 4);
}

#endif
