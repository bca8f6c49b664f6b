/* Owns: what tests of a whole server share: one on a thread of its own, on either engine, with real sockets on
 * loopback, and what its client reads. The test's thread is the client (client.h) and does all the asserting; handlers
 * run on the server's thread and only count. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_HTTP_SERVER_H
#define UVHTTP_TEST_UNIT_SUPPORT_HTTP_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include <cmocka.h>

#include "support/client.h"
#include "support/run.h"

#define LIMIT_SECONDS (TIMEOUT_MS / 1000)

/* Waits for something that another thread does; a hang fails the test. */
#define WAIT_UNTIL(condition)                                                                                          \
    do {                                                                                                               \
        int tries_ = LIMIT_SECONDS * 1000;                                                                             \
        while (!(condition) && --tries_ > 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);                  \
        assert_true(tries_ > 0);                                                                                       \
    } while (0)

/* --- the server --- */

typedef struct serving {
    uvhttp_server_config_t config; /* a test may change it before serving_make */
    uvhttp_server_t *server;
    uint16_t port;
    bool running;
    pthread_t thread;
    int status; /* of run */
    void *user; /* the test's */
} serving_t;

extern uvhttp_engine_t on_epoll, on_uring;
extern const run_group_t on_each_engine;

int serving_setup(void **state);
void serving_make(serving_t *serving);
/* Runs a server that listens already; serving_start listens first. */
void serving_run(serving_t *serving);
void serving_start(serving_t *serving);
void serving_join(serving_t *serving);
void serving_stop(serving_t *serving);
/* The client closes, and the server stops. */
void serving_leave(serving_t *serving, int fd);
int serving_teardown(void **state);

#define ON_ENGINE(test, engine)                                                                                        \
    { #test " (" #engine ")", test, serving_setup, serving_teardown, &engine }
#define ON_EACH(test) ON_ENGINE(test, on_epoll), ON_ENGINE(test, on_uring)

/* RUN_ON_EACH(test_one, test_two) */
#define RUN_ON_EACH(...) RUN_GROUP(on_each_engine, __VA_ARGS__)

/* --- the client --- */

int client_ask(const serving_t *serving, const char *text);

typedef struct client_response {
    int status;
    const char *body;
    size_t size;
    char text[16384];
} client_response_t;

/* Reads one response with Content-Length, or until the end of the connection if there is none. status 0: nothing came.
 */
client_response_t *client_read(int fd);
/* Reads one response of this status, and closes. */
void client_read_last(int fd, int status);

/* A label of 64 letters, which no resolver asks anybody about (RFC 1035 section 2.3.4). */
#define NO_NAME "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

#endif
