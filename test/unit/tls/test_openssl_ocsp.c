/* Which OCSP responses are stapled: those that are for the certificate, say "good" and have not expired. */
/* Needs: tls openssl. */
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "tls/ocsp_response.h"
#include "tls/openssl.h"
#include "tls/tls.h"

#define HOUR 3600

typedef struct pair {
    char *certificate, *key; /* PEM */
    X509 *leaf;
    EVP_PKEY *own;
} pair_t;

static pair_t served, other;
static char path[] = "/tmp/uvhttp-ocsp-XXXXXX";
static char logged[2048];

static void on_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)size, (void)user;
    snprintf(logged, sizeof logged, "%s", message);
}

static pair_t make_pair(void) {
    pair_t pair;
    assert_int_equal(uvhttp__tls_development_pem(&pair.certificate, &pair.key), UVHTTP_OK);
    BIO *text = BIO_new_mem_buf(pair.certificate, -1), *key_text = BIO_new_mem_buf(pair.key, -1);
    pair.leaf = PEM_read_bio_X509(text, NULL, NULL, NULL);
    pair.own = PEM_read_bio_PrivateKey(key_text, NULL, NULL, NULL);
    BIO_free(text);
    BIO_free(key_text);
    return pair;
}

static void free_pair(pair_t *pair) {
    X509_free(pair->leaf);
    EVP_PKEY_free(pair->own);
    uvhttp__free(pair->certificate);
    uvhttp__free(pair->key);
}

static void write_response(const pair_t *about, int verdict, long until) {
    write_ocsp_response(path, about->leaf, about->own, verdict, until);
}

static uvhttp_tls_t *make(void) {
    const uvhttp_tls_certificate_t one = {.certificate = served.certificate,
                                          .certificate_size = strlen(served.certificate),
                                          .key = served.key,
                                          .key_size = strlen(served.key),
                                          .ocsp_file = path};
    logged[0] = '\0';
    return uvhttp_tls_new(&(uvhttp_tls_options_t){.certificates = &one, .certificate_count = 1});
}

static bool is_stapled(uvhttp_tls_t *tls) {
    uvhttp__tls_contexts_t *contexts = uvhttp__tls_now(tls);
    SSL *ssl = SSL_new(contexts->library->sites[0]);
    int status = uvhttp__tls_on_status(ssl, contexts);
    SSL_free(ssl);
    uvhttp__tls_contexts_release(contexts);
    return status == SSL_TLSEXT_ERR_OK;
}

static void test_a_response_that_is_good_is_stapled(void **state) {
    (void)state;
    static const long ends[] = {HOUR, NO_END};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        write_response(&served, V_OCSP_CERTSTATUS_GOOD, ends[i]);
        uvhttp_tls_t *tls = make();
        assert_non_null(tls);
        assert_string_equal(logged, "");
        assert_true(is_stapled(tls));
        uvhttp_tls_release(tls);
    }
}

static void test_an_expired_response_is_kept_back_until_a_reload(void **state) {
    (void)state;
    write_response(&served, V_OCSP_CERTSTATUS_GOOD, -HOUR);
    uvhttp_tls_t *tls = make();
    assert_non_null(tls);
    assert_non_null(strstr(logged, "the OCSP response has expired and is not sent"));
    assert_false(is_stapled(tls));
    write_response(&served, V_OCSP_CERTSTATUS_GOOD, HOUR);
    assert_int_equal(uvhttp_tls_reload(tls), UVHTTP_OK);
    assert_true(is_stapled(tls));
    uvhttp_tls_release(tls);
}

/* Nothing is read again: it is the clock that decides. */
static void test_a_response_that_expires_while_it_is_served_is_sent_no_more(void **state) {
    (void)state;
    write_response(&served, V_OCSP_CERTSTATUS_GOOD, HOUR);
    uvhttp_tls_t *tls = make();
    uvhttp__tls_contexts_t *contexts = uvhttp__tls_now(tls);
    assert_true(contexts->library->loaded[0].ocsp_until > time(NULL) + HOUR - 60);
    contexts->library->loaded[0].ocsp_until = time(NULL) - 1;
    uvhttp__tls_contexts_release(contexts);
    assert_false(is_stapled(tls));
    uvhttp_tls_release(tls);
}

static void test_a_response_for_another_certificate_is_refused(void **state) {
    (void)state;
    write_response(&other, V_OCSP_CERTSTATUS_GOOD, HOUR);
    assert_null(make());
    assert_non_null(strstr(logged, ": an OCSP response for another certificate than (memory)"));
}

static void test_a_response_that_says_revoked_is_refused(void **state) {
    (void)state;
    write_response(&served, V_OCSP_CERTSTATUS_REVOKED, HOUR);
    assert_null(make());
    assert_non_null(strstr(logged, "is revoked or unknown"));
    write_response(&served, V_OCSP_CERTSTATUS_GOOD, HOUR);
    uvhttp_tls_t *tls = make();
    write_response(&served, V_OCSP_CERTSTATUS_UNKNOWN, HOUR);
    assert_int_equal(uvhttp_tls_reload(tls), UVHTTP_E_TLS_CERTIFICATE);
    assert_true(is_stapled(tls)); /* what was loaded before stays */
    uvhttp_tls_release(tls);
}

static int set_up(void **state) {
    (void)state;
    served = make_pair();
    other = make_pair();
    uvhttp_log_set_callback(on_log, NULL);
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int tear_down(void **state) {
    (void)state;
    free_pair(&served);
    free_pair(&other);
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_response_that_is_good_is_stapled),
        cmocka_unit_test(test_an_expired_response_is_kept_back_until_a_reload),
        cmocka_unit_test(test_a_response_that_expires_while_it_is_served_is_sent_no_more),
        cmocka_unit_test(test_a_response_for_another_certificate_is_refused),
        cmocka_unit_test(test_a_response_that_says_revoked_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
