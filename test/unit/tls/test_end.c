/* Owns: tests of a client's end over TLS, close_notify (RFC 8446 section 6.1), that arrives together with requests. */
/* Needs: tls. */
#include <openssl/ssl.h>

#include "support/http_server.h"

static uvhttp_tls_t *tls;
static _Atomic(uvhttp_deferred_t *) slot;

/* --- the server --- */

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&slot, uvhttp_response_defer(res));
}

static void next(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "next");
}

static void start(serving_t *serving) {
    serving->config.keepalive_timeout = UVHTTP_NEVER; /* it is the client's end that ends the connection */
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/later", defer, NULL));
    assert_non_null(uvhttp_get(serving->server, "/next", next, NULL));
    assert_int_equal(uvhttp_server_listen_tls(serving->server, "127.0.0.1:0", tls, &serving->port), UVHTTP_OK);
    serving_run(serving);
}

/* --- the client --- */

/* Both requests and close_notify, all in one segment. */
static void send_together(SSL *ssl, int fd) {
    static const char text[] = GET("/later") GET("/next");
    char *data;
    BIO *out = BIO_new(BIO_s_mem());
    SSL_set0_wbio(ssl, out);
    assert_int_equal(SSL_write(ssl, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(SSL_shutdown(ssl), 0);
    long size = BIO_get_mem_data(out, &data);
    assert_true(size > 0);
    client_send(fd, data, (size_t)size);
}

static void respond_now(void) {
    WAIT_UNTIL(atomic_load(&slot));
    uvhttp_deferred_t *deferred = atomic_exchange(&slot, NULL);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "later"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
}

/* A signal (io_uring's, a sleeping thread's) may interrupt a blocking call. */
static bool again(const SSL *ssl, int result) {
    return result <= 0 && SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ;
}

/* Both responses, then the server's close_notify. */
static void expect_both(SSL *ssl) {
    char text[4096] = "";
    int size = 0, got;
    do {
        got = SSL_read(ssl, text + size, (int)sizeof text - 1 - size);
        if (got > 0) size += got;
    } while (got > 0 || again(ssl, got));
    assert_int_equal(SSL_get_error(ssl, got), SSL_ERROR_ZERO_RETURN);
    const char *first = strstr(text, "\r\n\r\nlaterHTTP/1.1 200");
    assert_non_null(first);
    assert_non_null(strstr(first, "\r\n\r\nnext"));
}

static void test_requests(serving_t *serving, bool with_fin) {
    start(serving);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    int fd = client_connect(serving->port), done;
    SSL_set_fd(ssl, fd);
    do {
        done = SSL_connect(ssl);
    } while (again(ssl, done));
    assert_int_equal(done, 1);
    send_together(ssl, fd);
    if (with_fin) assert_int_equal(shutdown(fd, SHUT_WR), 0);
    respond_now();
    expect_both(ssl);
    client_expect_eof(fd);
    assert_int_equal(uvhttp_server_counter(serving->server, "rejected_tls_truncated"), 0);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
}

/* --- tests --- */

static void test_close_notify_behind_requests_that_wait_costs_no_response(void **state) {
    test_requests(*state, false);
}

static void test_fin_behind_that_neither(void **state) {
    test_requests(*state, true);
}

int main(void) {
    tls = uvhttp_tls_development(NULL);
    assert_non_null(tls);
    int failed =
        RUN_ON_EACH(test_close_notify_behind_requests_that_wait_costs_no_response, test_fin_behind_that_neither);
    uvhttp_tls_release(tls);
    return failed;
}
