/* Owns: what the tests of src/conn/ share: a TCP server that runs in a thread of its own, on either engine, and
 * handlers that count. The test's thread is the client (client.h) and does all the asserting; it waits for counts,
 * never for time to pass. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_TCP_SERVER_H
#define UVHTTP_TEST_UNIT_SUPPORT_TCP_SERVER_H

#include <uvhttp/tcp.h>

#include "support/io_server.h"
#include "support/run.h"

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

extern const char *const seen_names[SEEN_COUNT];

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

void fixture_saw(fixture_t *fixture, seen_t what, uint64_t n);
uint64_t fixture_seen(fixture_t *fixture, seen_t what);
bool wait_seen_within(fixture_t *fixture, seen_t what, uint64_t n, int timeout_ms);

#define wait_seen(fixture, what, n)                                                                                    \
    WAIT_COUNTED(wait_seen_within((fixture), (what), (n), TIMEOUT_MS), seen_names[what], (n),                          \
                 fixture_seen((fixture), (what)))

/* --- handlers --- */

void count_open(uvhttp_tcp_t *tcp, void *user);
void echo_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user);
void send_by_reference(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user);
void swallow_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user);
void resume_on_drain(uvhttp_tcp_t *tcp, void *user);
void count_end(uvhttp_tcp_t *tcp, void *user);
void count_close(uvhttp_tcp_t *tcp, int status, void *user);
void count_release(void *arg);

/* Of on_open: the other threads' handle on the newest connection is fixture->ref. */
void open_with_ref(uvhttp_tcp_t *tcp, void *user);
/* What on_data sends by reference: a pattern, which is the caller's to free. */
char *fixture_have_sent(fixture_t *fixture,
                        void (*on_data)(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user), size_t size);

/* --- life --- */

extern int uring_engine, epoll_engine;

#define ON_ENGINES(test)                                                                                               \
    {#test " (epoll)", test, fixture_setup, fixture_teardown, &epoll_engine}, {                                        \
#test " (uring)", test, fixture_setup, fixture_teardown, &uring_engine                                         \
    }

/* RUN_ON_ENGINES(test_one, test_two) */
#define RUN_ON_ENGINES(...) RUN_GROUP(on_engines, __VA_ARGS__)
extern const run_group_t on_engines;

int fixture_setup(void **state);
int fixture_teardown(void **state);
void fixture_make(fixture_t *fixture);
void fixture_run(fixture_t *fixture);
void fixture_start(fixture_t *fixture);
/* The server's thread is back; what it returned. */
int fixture_join(fixture_t *fixture);
int fixture_stop(fixture_t *fixture);
void fixture_free(fixture_t *fixture);

/* --- the client --- */

int dial(fixture_t *fixture);
/* A client whose kernel takes little, so that the server's queue is where bytes wait. */
int dial_narrow(fixture_t *fixture);
/* Starts the server; such a client, which has sent `text`. */
int fixture_dial(fixture_t *fixture, const char *text);
int fixture_dial_narrow(fixture_t *fixture, const char *text);
/* With open_with_ref, which has run. */
int fixture_dial_with_ref(fixture_t *fixture);
void ping(int fd);
/* The only client closes, and its connection has ended well. */
void fixture_leave(fixture_t *fixture, int fd);
/* So many clients, each of which has an echo. */
void dial_many(fixture_t *fixture, int *fds, int count);
/* The server ends each. */
void expect_ends(const int *fds, int count);

#endif
