/* Owns: what the tests of src/io/ share: a loop that runs in a thread of its own, on every engine, as own loop and as
 * guest, and server-side peers that count what happens to them.
 *
 * The test's thread is the client (client.h) and does all the asserting. Callbacks run in the loop's thread and only
 * count; the test waits for counts (never for time to pass) with server_wait, and reaches into the loop with
 * server_call. A program that uses this skips its io_uring variants where io_uring does not work. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_IO_SERVER_H
#define UVHTTP_TEST_UNIT_SUPPORT_IO_SERVER_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <uv.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/io.h"
#include "support/client.h"
#include "support/counts.h"

/* --- variants --- */

typedef struct variant {
    uvhttp__engine_kind_t kind;
    bool guest;
} variant_t;

extern variant_t epoll_own, epoll_guest, uring_own, uring_guest;

#define ON_VARIANT(test, variant)                                                                                      \
    { #test " (" #variant ")", test, server_setup, server_teardown, &variant }
#define ON_OWN_LOOPS(test) ON_VARIANT(test, epoll_own), ON_VARIANT(test, uring_own)
#define ON_GUESTS(test) ON_VARIANT(test, epoll_guest), ON_VARIANT(test, uring_guest)
#define ON_URING(test) ON_VARIANT(test, uring_own), ON_VARIANT(test, uring_guest)
#define ON_EACH(test) ON_OWN_LOOPS(test), ON_GUESTS(test)

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
    uv_loop_t embedding; /* guests only */
    uvhttp__listener_t listener;
    uvhttp__listener_ops_t listener_ops;
    const uvhttp__stream_ops_t *ops;
    uvhttp__filter_t *filter; /* a test may set one before server_start: that of every connection, with `ops` */
    uvhttp__list_t peers;
    int listen_fd; /* a test may set one before server_start */
    int port;
    int fds_before;
    struct rlimit nofile_before; /* restored by the teardown */
    int start_status;
    int embedding_close_status;
    atomic_uint iterations;
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

extern const char *const event_names[EV_COUNT];

/* --- events --- */

void count_event(server_t *server, event_t event, uint64_t n);
uint64_t server_count(server_t *server, event_t event);
/* Waits until an event has been counted n times. */
bool server_wait_within(server_t *server, event_t event, uint64_t n, int timeout_ms);

#define server_wait(server, event, n)                                                                                  \
    WAIT_COUNTED(server_wait_within((server), (event), (n), TIMEOUT_MS), event_names[event], (n),                      \
                 server_count((server), (event)))

/* Runs something in the loop's thread and waits until it has run. */
void server_call(server_t *server, void (*run)(server_t *server, void *arg), void *arg);
void nothing(server_t *server, void *arg);
/* Two full loop iterations: what was due has been done. */
void server_settle(server_t *server);
/* A loop with nothing to do waits: a level-triggered event that nobody handles would cause thousands of iterations. */
void assert_quiet(server_t *server);

/* Descriptors of so many connections, both ends of which are this program's: enough are allowed, or the test is
 * skipped. The caller frees them. */
int *descriptors_for(const server_t *server, rlim_t count);

/* --- peers with default behaviour: echo, close when the peer has ended --- */

peer_t *peer_of(uvhttp__stream_t *stream);
peer_t *server_first_peer(server_t *server);
peer_t *peer_new(server_t *server);
void peer_close(peer_t *peer);
size_t peer_echo(uvhttp__stream_t *stream, const char *data, size_t size);
size_t peer_swallow(uvhttp__stream_t *stream, const char *data, size_t size);
void peer_count_end(uvhttp__stream_t *stream, int status);
void peer_close_at_end(uvhttp__stream_t *stream, int status);
void peer_count_sent(uvhttp__stream_t *stream);
/* Counts EV_RELEASED when the stream needs the file no more. */
void peer_send_file(uvhttp__stream_t *stream, int fd, uint64_t offset, uint64_t size);
void peer_on_closed(uvhttp__stream_t *stream);
extern const uvhttp__stream_ops_t echo_ops;
/* Those of echo_ops, which count, but for the function that takes the bytes. */
#define PEER_OPS(take) PEER_OPS_SENT(take, peer_count_sent)
/* And for a stream whose owner is notified when everything has been submitted. */
#define PEER_OPS_SENT(take, sent)                                                                                      \
    { .on_data = take, .on_end = peer_close_at_end, .on_sent = sent, .on_closed = peer_on_closed }

/* --- life of the server --- */

void server_on_accept(uvhttp__listener_t *listener, int fd);
/* For uvhttp__filter_ops_t, of a filter that keeps no bytes. */
void filter_does_nothing(uvhttp__stream_t *stream);
bool filter_holds_nothing(const uvhttp__stream_t *stream);
int server_setup(void **state);
int server_teardown(void **state);
int listen_loopback(int *port);
void server_start(server_t *server, const uvhttp__stream_ops_t *ops);
/* Starts it; a client that has sent `text`. */
int server_dial(server_t *server, const uvhttp__stream_ops_t *ops, const char *text);

/* A listening socket at an address as uvhttp__endpoint_parse has it, -1 if there can be none; a client of one. */
int listen_on(const char *text);
int client_connect_to(const char *text);
/* Closes what is open, stops the loop and joins the thread. Returns false if something did not close. */
bool server_stop(server_t *server);
/* For a loop that the test has stopped: waits for its end. */
void server_join(server_t *server);
/* The only client closes, and the server has closed the connection. */
void server_leave(server_t *server, int fd);
void close_listener(server_t *server, void *arg);
void pause_listener(server_t *server, void *arg);
void close_everything(server_t *server, void *arg);
void close_peers(server_t *server, void *arg);

#endif
