/* Revocation lists: what is read, what is refused and what is a warning. The authority is its own certificate, and the
 * lists are made by the test. */
/* Needs: tls openssl. */
#include <openssl/pem.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "support/run.h"
#include "tls/openssl.h"

#define NO_END 0
#define HOUR 3600

static char *certificate, *key;
static char warned[2048], refused[2048], lists[8192];

static void on_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)size, (void)user;
    if (level == UVHTTP_LOG_LEVEL_WARN) snprintf(warned, sizeof warned, "%s", message);
    if (level == UVHTTP_LOG_LEVEL_ERROR) snprintf(refused, sizeof refused, "%s", message);
}

static BIO *read_text(const char *text) {
    BIO *bio = BIO_new_mem_buf(text, -1);
    assert_non_null(bio);
    return bio;
}

/* Appends a list of nobody to `lists`. until: seconds from now; NO_END: it does not say when the next one comes. */
static void add_list(long until) {
    BIO *text = read_text(certificate), *key_text = read_text(key), *out = BIO_new(BIO_s_mem());
    X509 *authority = PEM_read_bio_X509(text, NULL, NULL, NULL);
    EVP_PKEY *own = PEM_read_bio_PrivateKey(key_text, NULL, NULL, NULL);
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *since = ASN1_TIME_adj(NULL, time(NULL), 0, -2 * HOUR);
    assert_int_equal(X509_CRL_set_version(list, X509_CRL_VERSION_2), 1);
    assert_int_equal(X509_CRL_set_issuer_name(list, X509_get_subject_name(authority)), 1);
    assert_int_equal(X509_CRL_set1_lastUpdate(list, since), 1);
    if (until != NO_END) {
        ASN1_TIME *end = ASN1_TIME_adj(NULL, time(NULL), 0, until);
        assert_int_equal(X509_CRL_set1_nextUpdate(list, end), 1);
        ASN1_TIME_free(end);
    }
    assert_true(X509_CRL_sign(list, own, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509_CRL(out, list), 1);
    char *data;
    long size = BIO_get_mem_data(out, &data);
    snprintf(lists + strlen(lists), sizeof lists - strlen(lists), "%.*s", (int)size, data);
    ASN1_TIME_free(since);
    X509_CRL_free(list);
    X509_free(authority);
    EVP_PKEY_free(own);
    BIO_free(text);
    BIO_free(key_text);
    BIO_free(out);
}

/* Loads `lists`, and empties it. */
static bool load(void) {
    const uvhttp_tls_certificate_t one = {
        .certificate = certificate, .certificate_size = strlen(certificate), .key = key, .key_size = strlen(key)};
    const uvhttp_tls_options_t options = {.certificates = &one,
                                          .certificate_count = 1,
                                          .clients = UVHTTP_TLS_CLIENTS_REQUIRE,
                                          .client_ca = certificate,
                                          .client_ca_size = strlen(certificate),
                                          .client_crl = lists,
                                          .client_crl_size = strlen(lists)};
    *warned = *refused = '\0';
    uvhttp_tls_t *tls = uvhttp_tls_new(&options);
    uvhttp_tls_release(tls);
    *lists = '\0';
    return tls != NULL;
}

static void test_a_list_is_read(void **state) {
    (void)state;
    add_list(HOUR);
    assert_true(load());
    assert_string_equal(warned, "");
}

static void test_a_list_that_has_expired_is_a_warning(void **state) {
    (void)state;
    add_list(HOUR);
    add_list(-HOUR);
    assert_true(load());
    assert_non_null(strstr(warned, "the revocation list has expired"));
}

/* The field is optional (RFC 5280 section 5.1.2.5 has authorities of the Internet set it, others do without). */
static void test_a_list_without_an_end_does_not_expire(void **state) {
    (void)state;
    add_list(NO_END);
    assert_true(load());
    assert_string_equal(warned, "");
}

static void test_a_broken_list_behind_a_good_one_is_refused(void **state) {
    (void)state;
    add_list(HOUR);
    strcat(lists, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
    assert_false(load());
    assert_non_null(strstr(refused, "(memory): revocation list 2"));
}

static int set_up(void **state) {
    (void)state;
    uvhttp_log_set_callback(on_log, NULL);
    uvhttp_log_set_rate_limit(0);
    return uvhttp__tls_development_pem(&certificate, &key);
}

static int tear_down(void **state) {
    (void)state;
    uvhttp__free(certificate);
    uvhttp__free(key);
    return 0;
}

int main(void) {
    return RUN_TESTS_WITH(set_up, tear_down, test_a_list_is_read, test_a_list_that_has_expired_is_a_warning,
                          test_a_list_without_an_end_does_not_expire, test_a_broken_list_behind_a_good_one_is_refused);
}
