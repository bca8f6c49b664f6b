/* Connections with TLS on each backend, as each system call and each allocation of ours fails once: a response is
 * right, an error, cut short or missing, and the client's session never sees a record that is wrong. */
/* Needs: tls openssl middleware. */
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/process.h"

#define LARGE 100000
#define CAPACITY 262144

static char large[LARGE + 1];

/* --- the server --- */

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    (void)uvhttp_response_send(res, 200, "text/plain", body.data, body.size);
}

static void send_large(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_send_ref(res, 200, "text/plain", large, LARGE, NULL, NULL);
}

static void set_up(uvhttp_server_t *server) {
    (void)uvhttp_post(server, "/echo", echo, NULL);
    (void)uvhttp_get(server, "/large", send_large, NULL);
}

/* --- the client --- */

typedef struct client {
    one_thread_t *it;
    SSL *ssl;
    int fd;
} client_t;

/* Whether the operation is to be tried again; the loop has run meanwhile. */
static bool again(const client_t *client, int result, uint64_t end_ms) {
    if (result > 0) return false;
    int error = SSL_get_error(client->ssl, result);
    ERR_clear_error();
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return false;
    if (clock_ms() > end_ms) fail_msg("silence");
    one_thread_run(client->it, client->fd, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
    return true;
}

static size_t exchange(const client_t *client, const char *request, char text[CAPACITY]) {
    uint64_t end_ms = clock_ms() + TIMEOUT_MS;
    size_t received = 0;
    int done;
    do done = SSL_connect(client->ssl);
    while (again(client, done, end_ms));
    if (done != 1) return 0;
    do done = SSL_write(client->ssl, request, (int)strlen(request));
    while (again(client, done, end_ms));
    for (;;) {
        int some = SSL_read(client->ssl, text + received, (int)(CAPACITY - received));
        if (some > 0) received += (size_t)some;
        if (some <= 0 && !again(client, some, end_ms)) return received;
    }
}

static void ask(one_thread_t *it, SSL_CTX *ctx, const one_request_t *request) {
    static char text[CAPACITY];
    client_t client = {.it = it, .fd = one_thread_connect(it)};
    if (client.fd < 0) {
        assert_true(it->may_fail && it->may_fail());
        return;
    }
    fcntl(client.fd, F_SETFL, O_NONBLOCK);
    client.ssl = SSL_new(ctx);
    SSL_set_fd(client.ssl, client.fd);
    one_thread_judge(it, request, text, exchange(&client, request->text, text));
    SSL_free(client.ssl);
    one_thread_close(it, client.fd);
}

static void speak_with(one_thread_t *it, int version) {
    static const one_request_t requests[] = {
        {"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", 200, "body", NULL},
        {"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200, large, NULL},
    };
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(ctx, version);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) ask(it, ctx, &requests[i]);
    SSL_CTX_free(ctx);
}

static void speak(one_thread_t *it) {
    speak_with(it, TLS1_3_VERSION);
    speak_with(it, TLS1_2_VERSION);
    /* Not TLS at all: a response of HTTP, which says so. */
    one_thread_ask(it, &(one_request_t){"GET / HTTP/1.1\r\n\r\n", 400, "This port speaks HTTPS.\n", NULL});
}

static const failing_call_t calls[] = {
    {FAIL_recv, {EAGAIN, EINTR, ECONNREFUSED}},
    {FAIL_send, {EAGAIN, EINTR, EPIPE, FAIL_SHORT}},
    {FAIL_sendmsg, {EAGAIN, EINTR, EPIPE}},
    {FAIL_setsockopt, {ENOPROTOOPT}},
    {FAIL_getrandom, {EAGAIN}},
    {FAIL_io_uring_enter, {EAGAIN, FAIL_PARTIAL}},
    {FAIL_sqe_recv, {ENOMEM, ENOBUFS}},
    {FAIL_sqe_send, {EAGAIN, EPIPE}},
    {FAIL_sqe_sendmsg, {EAGAIN, EPIPE}},
};

static failing_life_t life = {
    .set_up = set_up, .speak = speak, .complete = 5, .calls = calls, .call_count = sizeof calls / sizeof *calls};

static void test_each_system_call_may_fail(void **state) {
    fail_each_call_of(&life, state, 20);
}

static void test_each_allocation_may_fail(void **state) {
    fail_each_allocation_of(&life, state, 20);
}

int main(void) {
    memset(large, 'l', LARGE);
    test_allocator_install();
    signal(SIGPIPE, SIG_IGN); /* the client writes to what the server has closed */
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    life.tls = uvhttp_tls_development(NULL);
    int failed = RUN_IN_ONE_THREAD(test_each_system_call_may_fail, test_each_allocation_may_fail);
    uvhttp_tls_release(life.tls);
    return failed;
}
