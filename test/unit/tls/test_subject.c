/* Owns: tests that the subject of a client's certificate, which decides about access, is the request's own: in handlers
 * on worker threads and in coroutines, and for deferred handles, it stays what it was when the client has gone. */
/* Needs: tls. */
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "support/http_server.h"

#define SUBJECT "CN=alice"

static uvhttp_tls_t *tls;
static X509 *certificate;
static EVP_PKEY *key;

/* --- a certificate that is its own authority --- */

static void add(const char *value, int nid) {
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static void make_certificate(void) {
    key = EVP_EC_gen("P-256");
    certificate = X509_new();
    assert_non_null(key);
    assert_non_null(certificate);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 7);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -86400);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_set_pubkey(certificate, key);
    X509_NAME *subject = X509_get_subject_name(certificate);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)"alice", -1, -1, 0),
                     1);
    X509_set_issuer_name(certificate, subject);
    add("critical,CA:TRUE", NID_basic_constraints);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
}

static void make_tls(void) {
    BIO *memory = BIO_new(BIO_s_mem());
    char *pem;
    assert_int_equal(PEM_write_bio_X509(memory, certificate), 1);
    long size = BIO_get_mem_data(memory, &pem);
    tls = uvhttp_tls_development(&(uvhttp_tls_options_t){
        .clients = UVHTTP_TLS_CLIENTS_REQUIRE, .client_ca = pem, .client_ca_size = (size_t)size});
    assert_non_null(tls);
    BIO_free(memory);
}

/* --- what handlers have seen --- */

static atomic_bool inside;
static _Atomic(uvhttp_deferred_t *) slot;
static atomic_int right, wrong;
static uvhttp_server_t *server;

static void look(uvhttp_request_t *req) {
    const char *subject = uvhttp_request_client_subject(req);
    bool same = subject && strcmp(subject, SUBJECT) == 0 && uvhttp_request_is_tls(req);
    atomic_fetch_add(same ? &right : &wrong, 1);
}

/* A view that was obtained before the client went stays valid, too. */
static void look_twice(uvhttp_request_t *req, const char *before) {
    look(req);
    atomic_fetch_add(before && strcmp(before, SUBJECT) == 0 ? &right : &wrong, 1);
}

static void work(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res;
    const char *before = user ? uvhttp_request_client_subject(req) : SUBJECT;
    uint64_t gone = uvhttp_server_counter(server, "aborted");
    atomic_store(&inside, true);
    for (int i = 0; i < LIMIT_SECONDS * 1000 && uvhttp_server_counter(server, "aborted") == gone; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    look_twice(req, before);
}

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&slot, uvhttp_response_defer(res));
    atomic_store(&inside, true);
}

#if UVHTTP_WITH_COROUTINES
static void wait_for_it(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res;
    const char *before = user ? uvhttp_request_client_subject(req) : SUBJECT;
    atomic_store(&inside, true);
    while (uvhttp_coro_sleep(1) == UVHTTP_OK) continue;
    look_twice(req, before);
}
#endif

/* --- the client --- */

static bool again(SSL *ssl, int result) {
    int error = SSL_get_error(ssl, result);
    return result <= 0 && (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE);
}

static void ask_and_go(const serving_t *serving, const char *text) {
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_use_certificate(ctx, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    SSL *ssl = SSL_new(ctx);
    int fd = client_connect(serving->port), done;
    SSL_set_fd(ssl, fd);
    do {
        done = SSL_connect(ssl);
    } while (again(ssl, done));
    assert_int_equal(done, 1);
    assert_int_equal(SSL_write(ssl, text, (int)strlen(text)), (int)strlen(text));
    WAIT_UNTIL(atomic_load(&inside));
    struct linger linger = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    close(fd);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void start(serving_t *serving, uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec) {
    right = wrong = 0;
    atomic_store(&inside, false);
    serving_make(serving);
    server = serving->server;
    assert_non_null(uvhttp_route(server, UVHTTP_GET, "/", handler, user, exec));
    assert_int_equal(uvhttp_server_listen_tls(server, "127.0.0.1:0", tls, &serving->port), UVHTTP_OK);
    serving_run(serving);
}

static void check_handler(serving_t *serving, uvhttp_handler_cb handler, bool asks_before, uvhttp_exec_t exec) {
    start(serving, handler, asks_before ? &right : NULL, exec);
    for (int i = 1; i <= 3; i++) {
        atomic_store(&inside, false);
        ask_and_go(serving, GET("/"));
        WAIT_UNTIL(right + wrong == 2 * i);
    }
    assert_int_equal(wrong, 0);
}

static void test_a_worker_thread_knows_the_subject_of_a_client_that_went(void **state) {
    check_handler(*state, work, false, UVHTTP_EXEC_WORKER);
}

static void test_the_subject_that_a_worker_thread_has_asked_for_stays(void **state) {
    check_handler(*state, work, true, UVHTTP_EXEC_WORKER);
}

#if UVHTTP_WITH_COROUTINES
static void test_a_coroutine_knows_the_subject_of_a_client_that_went(void **state) {
    check_handler(*state, wait_for_it, false, UVHTTP_EXEC_COROUTINE);
}

static void test_the_subject_that_a_coroutine_has_asked_for_stays(void **state) {
    check_handler(*state, wait_for_it, true, UVHTTP_EXEC_COROUTINE);
}
#endif

static void test_a_deferred_handle_knows_the_subject_of_a_client_that_went(void **state) {
    serving_t *serving = *state;
    start(serving, defer, NULL, UVHTTP_EXEC_LOOP);
    ask_and_go(serving, GET("/"));
    uvhttp_deferred_t *deferred = atomic_exchange(&slot, NULL);
    assert_non_null(deferred);
    WAIT_UNTIL(uvhttp_deferred_aborted(deferred));
    look(uvhttp_deferred_request(deferred));
    serving_stop(serving);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
    look(uvhttp_deferred_request(deferred));
    uvhttp_deferred_release(deferred);
    assert_int_equal(wrong, 0);
    assert_int_equal(right, 2);
}

int main(void) {
    make_certificate();
    make_tls();
    const struct CMUnitTest tests[] = {
        ON_EACH(test_a_worker_thread_knows_the_subject_of_a_client_that_went),
        ON_EACH(test_the_subject_that_a_worker_thread_has_asked_for_stays),
#if UVHTTP_WITH_COROUTINES
        ON_EACH(test_a_coroutine_knows_the_subject_of_a_client_that_went),
        ON_EACH(test_the_subject_that_a_coroutine_has_asked_for_stays),
#endif
        ON_EACH(test_a_deferred_handle_knows_the_subject_of_a_client_that_went),
    };
    int failed = RUN_TABLE(tests);
    uvhttp_tls_release(tls);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return failed;
}
