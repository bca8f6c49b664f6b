/* Owns: a server inside a libuv loop, and its client, on the test's thread: what happens depends on no order of
 * threads. The client sends a request, lets the loop run until the connection ends, and judges what came. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_ONE_THREAD_H
#define UVHTTP_TEST_UNIT_SUPPORT_ONE_THREAD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include <uvhttp.h>

#include "support/run.h"

typedef struct one_thread {
    uvhttp_server_config_t config; /* a test may change it before one_thread_serve */
    uvhttp_tls_t *tls;             /* NULL: it listens without */
    void (*set_up)(uvhttp_server_t *server);
    void (*speak)(struct one_thread *it); /* the client */
    bool (*may_fail)(void);               /* whether something was made to fail in this life; NULL: nothing */
    uv_loop_t loop;
    uvhttp_server_t *server;
    uint16_t port;
    bool stopped;
    size_t complete; /* responses of this life that were as expected */
} one_thread_t;

/* Whether the client runs: its calls and allocations are none of the server's. */
extern _Thread_local bool one_thread_is_client;

/* Sets the configuration of a server with this backend. */
void one_thread_init(one_thread_t *it, uvhttp_engine_t engine);

/* A life: makes the server, listens, lets `speak` speak, stops and frees. Where nothing was made to fail, all of it
 * succeeds. */
void one_thread_serve(void *it);

typedef struct one_request {
    const char *text; /* with Connection: close */
    int status;
    const char *body;       /* NULL: any */
    const char *substitute; /* another one that is right if something was made to fail; NULL: none */
} one_request_t;

/* Sends it on a connection of its own. The response is as expected; or, if something was made to fail, an error, cut
 * short, or nothing. */
void one_thread_ask(one_thread_t *it, const one_request_t *request);

/* A connection, whose calls do not block; -1: the server has not accepted it. */
int one_thread_connect(const one_thread_t *it);
/* Sends `size` bytes, then reads until `enough` says so, or until the end of the connection. Returns the size. */
size_t one_thread_exchange(one_thread_t *it, int fd, const void *data, size_t size,
                           bool (*enough)(const char *text, size_t size), char *text, size_t text_max);
void one_thread_close(one_thread_t *it, int fd);
/* For clients that do more: the loop runs, until it has nothing to do, or `fd` is ready. */
void one_thread_run(one_thread_t *it, int fd, short events);
/* Whether what came is as one_thread_ask wants it. */
void one_thread_judge(one_thread_t *it, const one_request_t *request, const char *text, size_t size);

/* RUN_IN_ONE_THREAD(test_one, test_two): on each backend, whose uvhttp_engine_t *state points to. */
#define RUN_IN_ONE_THREAD(...) RUN_GROUP(one_thread_backends, __VA_ARGS__)
extern const run_group_t one_thread_backends;

#endif
