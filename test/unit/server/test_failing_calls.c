/* A server's life with some requests, on each backend, as each of its system calls fails once with each of some errors:
 * a response is right, an error, cut short or missing; the server stops; no descriptor and no memory is out. */
/* Needs: middleware. */
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/may_fail.h"

#define LARGE 60000

static char large[LARGE + 1];

/* --- what the server does --- */

static void send_large(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_send_ref(res, 200, "text/plain", large, LARGE, NULL, NULL);
}

static void set_up(uvhttp_server_t *server) {
    (void)uvhttp_get(server, "/greet/:name", may_fail_greet, NULL);
    (void)uvhttp_post(server, "/echo", may_fail_echo, NULL);
    (void)uvhttp_get(server, "/large", send_large, NULL);
    (void)uvhttp_get(server, "/later", may_fail_later, NULL);
    (void)uvhttp_route(server, UVHTTP_GET, "/worker/:name", may_fail_greet, NULL, UVHTTP_EXEC_WORKER);
}

/* --- what the client asks --- */

#define CLOSE " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

static void speak(one_thread_t *it) {
    const one_request_t requests[] = {
        {"GET /greet/you" CLOSE, 200, "you", NULL},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", 200, "body", NULL},
        {"GET /large" CLOSE, 200, large, NULL},
        {"GET /later" CLOSE, 200, "later", NULL},
        {"GET /worker/me" CLOSE, 200, "me", NULL},
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) one_thread_ask(it, &requests[i]);
}

static const failing_call_t calls[] = {
    {FAIL_epoll_create1, {EMFILE}},
    {FAIL_epoll_ctl, {ENOMEM, ENOSPC}},
    {FAIL_epoll_wait, {EINTR}},
    {FAIL_accept4, {EMFILE, ECONNABORTED, EAGAIN}},
    {FAIL_recv, {EAGAIN, EINTR, ECONNREFUSED}},
    {FAIL_send, {EAGAIN, EINTR, EPIPE, FAIL_SHORT}},
    {FAIL_sendmsg, {EAGAIN, EINTR, EPIPE}},
    {FAIL_close, {EIO, EINTR}},
    {FAIL_eventfd, {EMFILE}},
    {FAIL_mmap, {ENOMEM}},
    {FAIL_getrandom, {EAGAIN}},
    {FAIL_getrlimit, {EPERM}},
    {FAIL_setrlimit, {EPERM}},
    {FAIL_pthread_create, {EAGAIN}},
    {FAIL_io_uring_setup, {ENOMEM, EPERM}},
    {FAIL_io_uring_register, {ENOMEM, EINVAL}},
    {FAIL_io_uring_enter, {EAGAIN, EBUSY, EINTR, FAIL_PARTIAL}},
    {FAIL_sqe_recv, {ENOMEM, ENOBUFS, ECANCELED}},
    {FAIL_sqe_send, {EAGAIN, EPIPE}},
    {FAIL_sqe_sendmsg, {EAGAIN, EPIPE}},
    {FAIL_sqe_poll, {ENOMEM, EINTR}},
};

static const failing_life_t life = {
    .set_up = set_up, .speak = speak, .complete = 5, .calls = calls, .call_count = sizeof calls / sizeof *calls};

static void test_each_system_call_may_fail(void **state) {
    fail_each_call_of(&life, state, 50);
}

static void test_each_allocation_may_fail(void **state) {
    fail_each_allocation_of(&life, state, 20);
}

int main(void) {
    memset(large, 'l', LARGE);
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_IN_ONE_THREAD(test_each_system_call_may_fail, test_each_allocation_may_fail);
}
