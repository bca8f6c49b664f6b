/* A server's life with some requests, on each backend, as each of its system calls fails once with each of some errors:
 * a response is right, an error, cut short or missing; the server stops; no descriptor and no memory is out. */
/* Needs: middleware. */
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/one_thread.h"

#define LARGE 60000

static char large[LARGE + 1];

/* --- what the server does --- */

static void greet(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t name = uvhttp_request_param(req, "name");
    (void)uvhttp_response_send(res, 200, "text/plain", name.data, name.size);
}

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    (void)uvhttp_response_send(res, 200, "text/plain", body.data, body.size);
}

static void send_large(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_send_ref(res, 200, "text/plain", large, LARGE, NULL, NULL);
}

static void later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return;
    (void)uvhttp_deferred_text(deferred, 200, "later");
    uvhttp_deferred_release(deferred);
}

static void set_up(uvhttp_server_t *server) {
    (void)uvhttp_get(server, "/greet/:name", greet, NULL);
    (void)uvhttp_post(server, "/echo", echo, NULL);
    (void)uvhttp_get(server, "/large", send_large, NULL);
    (void)uvhttp_get(server, "/later", later, NULL);
    (void)uvhttp_route(server, UVHTTP_GET, "/worker/:name", greet, NULL, UVHTTP_EXEC_WORKER);
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
    {FAIL_shutdown, {ENOTCONN}},
    {FAIL_socket, {EMFILE, EAFNOSUPPORT}},
    {FAIL_bind, {EADDRINUSE, EACCES}},
    {FAIL_listen, {EADDRINUSE}},
    {FAIL_setsockopt, {ENOPROTOOPT}},
    {FAIL_getsockopt, {ENOPROTOOPT}},
    {FAIL_getsockname, {ENOBUFS}},
    {FAIL_fcntl, {EMFILE}},
    {FAIL_ioctl, {ENOTTY}},
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

static void test_each_system_call_may_fail(void **state) {
    one_thread_t it;
    one_thread_init(&it, *(uvhttp_engine_t *)*state);
    it.set_up = set_up;
    it.speak = speak;
    one_thread_serve(&it); /* what is made once and stays */
    assert_int_equal(it.complete, 5);
    it.may_fail = test_call_failed;
    size_t count = test_calls_each_failure(calls, sizeof calls / sizeof *calls, one_thread_serve, &it);
    print_message("%zu calls failed\n", count);
    assert_true(count > 50);
}

static void test_each_allocation_may_fail(void **state) {
    one_thread_t it;
    one_thread_init(&it, *(uvhttp_engine_t *)*state);
    it.set_up = set_up;
    it.speak = speak;
    one_thread_serve(&it);
    it.may_fail = test_allocator_failed;
    size_t count = test_allocator_each_failure(one_thread_serve, &it);
    print_message("%zu allocations failed\n", count);
    assert_true(count > 20);
}

int main(void) {
    memset(large, 'l', LARGE);
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_IN_ONE_THREAD(test_each_system_call_may_fail, test_each_allocation_may_fail);
}
