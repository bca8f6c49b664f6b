/* What uvhttp_tls_new takes and refuses, with the reason in the log; reloading; every allocation of ours failing once.
 * Certificates come from the library's own maker, files are written by the test. */
/* Needs: tls. */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvhttp/log.h>
#include <uvhttp/server.h>
#include <uvhttp/tls.h>

#include "base/alloc.h"
#include "support/failing_allocator.h"
#include "tls/backend.h"
#include "tls/tls.h"

#define IS_MBEDTLS (strstr(uvhttp_build_info(), "UVHTTP_TLS=mbedtls") != NULL)

static char *certificate, *key, *other_certificate, *other_key;
static char directory[] = "/tmp/uvhttp-tls-XXXXXX";
static char logged[2048];
static int warnings;

static void on_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)size, (void)user;
    if (level == UVHTTP_LOG_LEVEL_WARN) warnings++;
    snprintf(logged, sizeof logged, "%s", message);
}

static const char *file(const char *name, const char *text) {
    static char paths[64][128];
    static int next;
    char *path = paths[next++ % 64];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    if (!text) return path;
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    chmod(path, 0600);
    return path;
}

static uvhttp_tls_options_t options_with(uvhttp_tls_certificate_t *one) {
    *one = (uvhttp_tls_certificate_t){
        .certificate = certificate, .certificate_size = strlen(certificate), .key = key, .key_size = strlen(key)};
    return (uvhttp_tls_options_t){.certificates = one, .certificate_count = 1};
}

static void assert_refused(const uvhttp_tls_options_t *options, const char *reason) {
    logged[0] = '\0';
    assert_null(uvhttp_tls_new(options));
    if (!strstr(logged, reason)) fail_msg("the log says \"%s\", not \"%s\"", logged, reason);
}

static void test_defaults_and_several_references(void **state) {
    (void)state;
    uvhttp_tls_certificate_t one;
    uvhttp_tls_options_t options = options_with(&one);
    uvhttp_tls_t *tls = uvhttp_tls_new(&options);
    assert_non_null(tls);
    assert_ptr_equal(uvhttp_tls_retain(tls), tls);
    uvhttp_tls_release(tls);
    assert_int_equal(uvhttp_tls_reload(tls), UVHTTP_OK);
    assert_string_equal(uvhttp_tls_error_text(tls), "");
    uvhttp_tls_release(tls);
    uvhttp_tls_release(NULL);
    assert_int_equal(uvhttp_tls_reload(NULL), UVHTTP_E_INVALID);
}

static void test_options_out_of_range_are_named(void **state) {
    (void)state;
    uvhttp_tls_certificate_t one;
    uvhttp_tls_options_t good = options_with(&one), bad;
    assert_refused(NULL, "options are missing");
    assert_refused(&(uvhttp_tls_options_t){.certificate_count = 1}, "certificates");
    assert_refused((bad = good, bad.certificate_count = 0, &bad), "certificates");
    assert_refused((bad = good, bad.min_version = (uvhttp_tls_version_t)11, &bad), "min_version");
    assert_refused((bad = good, bad.min_version = UVHTTP_TLS_1_3, bad.max_version = UVHTTP_TLS_1_2, &bad), "above");
    assert_refused((bad = good, bad.handshake_timeout = 3601, &bad), "handshake_timeout");
    assert_refused((bad = good, bad.ticket_period = 604801, &bad), "ticket_period");
    assert_refused((bad = good, bad.alpn = "", &bad), "alpn");
    assert_refused((bad = good, bad.alpn = "a,,b", &bad), "alpn");
    assert_refused((bad = good, bad.clients = (uvhttp_tls_clients_t)3, &bad), "clients");
    assert_refused((bad = good, bad.clients = UVHTTP_TLS_CLIENTS_VERIFY, &bad), "client_ca_file");
    assert_refused((bad = good, bad.client_ca_file = "x", &bad), "client_ca_file");
    assert_refused((bad = good, bad.client_crl_file = "x", &bad), "client_crl_file is set, but client_ca_file");
    bad = good;
    bad.clients = UVHTTP_TLS_CLIENTS_REQUIRE;
    bad.client_ca = certificate;
    bad.client_ca_size = strlen(certificate);
    bad.client_crl_file = file("none.crl", NULL);
    assert_refused(&bad, "none.crl: No such file or directory");
    bad.client_crl = "nothing";
    bad.client_crl_size = 7;
    assert_refused(&bad, "set one of client_crl_file and client_crl");
    bad.client_crl_file = NULL;
    assert_refused(&bad, "(memory): revocation list");
    bad = good;
    bad.clients = UVHTTP_TLS_CLIENTS_REQUIRE;
    bad.client_ca = "nothing";
    bad.client_ca_size = 7;
    assert_refused(&bad, "authorities");
    one.names = "a.test, b..test";
    assert_refused(&good, "names");
    good = options_with(&one);
    one.key_file = "x";
    assert_refused(&good, "certificates[0]: set one of key_file and key");
    good = options_with(&one);
    one.certificate = NULL;
    assert_refused(&good, "certificates[0]: set one of certificate_file and certificate");
    good = options_with(&one);
    one.key_size = 0;
    assert_refused(&good, "certificates[0]: certificate_size and key_size");
}

/* Left out silently it would be a server with less than was asked for. */
static void test_what_the_backend_cannot_do_is_refused(void **state) {
    (void)state;
    if (!IS_MBEDTLS) skip();
    uvhttp_tls_certificate_t one;
    uvhttp_tls_options_t options = options_with(&one);
    options.min_version = UVHTTP_TLS_1_3;
    assert_refused(&options, "min_version is TLS 1.3, but this library was built with mbedTLS");
    options.min_version = UVHTTP_TLS_DEFAULT;
    options.max_version = UVHTTP_TLS_1_3; /* 1.2 is not above it */
    uvhttp_tls_t *tls = uvhttp_tls_new(&options);
    assert_non_null(tls);
    uvhttp_tls_release(tls);
    one.ocsp_file = file("text.ocsp", "hello");
    assert_refused(&options, "certificates[0]: ocsp_file is set, but this library was built with mbedTLS");
}

static void test_files_that_cannot_be_used_are_named_with_the_reason(void **state) {
    (void)state;
    uvhttp_tls_certificate_t one = {.certificate_file = file("none.pem", NULL), .key_file = file("good.key", key)};
    uvhttp_tls_options_t options = {.certificates = &one, .certificate_count = 1};
    assert_refused(&options, "none.pem: No such file or directory");
    one.certificate_file = directory;
    assert_refused(&options, "not a regular file");
    one.certificate_file = file("empty.pem", "");
    assert_refused(&options, "empty.pem: not a regular file of 1 byte");
    one.certificate_file = file("text.pem", "hello");
    assert_refused(&options, "text.pem: no PEM certificate");
    one.certificate_file = file("good.pem", certificate);
    one.key_file = file("other.key", other_key);
    assert_refused(&options, "other.key: is not the key of");
    one.key_file = file("text.key", "hello");
    assert_refused(&options, "text.key: no PEM private key");
    one.key_file = file("good.pem", certificate);
    assert_refused(&options, "good.pem: no PEM private key");
    char broken[8192];
    snprintf(broken, sizeof broken, "%s-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", certificate);
    one.certificate_file = file("chain.pem", broken);
    one.key_file = file("good.key", key);
    assert_refused(&options, "chain.pem: certificate 2 of the chain");
    one.certificate_file = file("good.pem", certificate);
    one.ocsp_file = file("text.ocsp", "hello");
    assert_refused(&options, IS_MBEDTLS ? "ocsp_file is set" : "text.ocsp: not an OCSP response");
    one.ocsp_file = NULL;
    options.clients = UVHTTP_TLS_CLIENTS_VERIFY;
    options.client_ca_file = file("ca.pem", broken);
    assert_refused(&options, "ca.pem: certificate 2 of the authorities");
}

static void test_a_key_that_others_can_read_is_a_warning(void **state) {
    (void)state;
    uvhttp_tls_certificate_t one = {.certificate_file = file("good.pem", certificate),
                                    .key_file = file("good.key", key)};
    uvhttp_tls_options_t options = {.certificates = &one, .certificate_count = 1};
    warnings = 0;
    uvhttp_tls_release(uvhttp_tls_new(&options));
    assert_int_equal(warnings, 0);
    chmod(one.key_file, 0644);
    uvhttp_tls_t *tls = uvhttp_tls_new(&options);
    assert_non_null(tls);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(logged, "good.key"));
    uvhttp_tls_release(tls);
}

static void test_a_reload_that_fails_leaves_what_was_there(void **state) {
    (void)state;
    uvhttp_tls_certificate_t one = {.certificate_file = file("live.pem", certificate),
                                    .key_file = file("live.key", key)};
    uvhttp_tls_options_t options = {.certificates = &one, .certificate_count = 1};
    uvhttp_tls_t *tls = uvhttp_tls_new(&options);
    assert_non_null(tls);
    uvhttp__tls_contexts_t *before = uvhttp__tls_now(tls);
    file("live.key", other_key);
    assert_int_equal(uvhttp_tls_reload(tls), UVHTTP_E_TLS_CERTIFICATE);
    assert_non_null(strstr(uvhttp_tls_error_text(tls), "live.key: is not the key of"));
    assert_non_null(strstr(logged, "stay in use"));
    uvhttp__tls_contexts_t *now = uvhttp__tls_now(tls);
    assert_ptr_equal(now, before);
    uvhttp__tls_contexts_release(now);
    file("live.pem", other_certificate);
    assert_int_equal(uvhttp_tls_reload(tls), UVHTTP_OK);
    now = uvhttp__tls_now(tls);
    assert_ptr_not_equal(now, before);
    uvhttp__tls_contexts_release(now);
    uvhttp__tls_contexts_release(before);
    uvhttp_tls_release(tls);
}

static void make_and_reload(void *user) {
    uvhttp_tls_certificate_t ones[3];
    uvhttp_tls_options_t options = options_with(&ones[0]);
    ones[1] = ones[0];
    ones[1].names = "a.test,*.b.test";
    const char *const *files = user;
    ones[2] = (uvhttp_tls_certificate_t){.certificate_file = files[0], .key_file = files[1]};
    options.certificates = ones;
    options.certificate_count = 3;
    options.alpn = "a,b";
    options.clients = UVHTTP_TLS_CLIENTS_VERIFY;
    options.client_ca = certificate;
    options.client_ca_size = strlen(certificate);
    uvhttp_tls_t *tls = uvhttp_tls_new(&options);
    if (!tls) {
        assert_true(test_allocator_failed());
        return;
    }
    bool failed = test_allocator_failed();
    int status = uvhttp_tls_reload(tls);
    if (!failed && test_allocator_failed()) assert_int_equal(status, UVHTTP_E_NOMEM);
    uvhttp_tls_release(tls);
}

static void test_each_allocation_of_ours_may_fail(void **state) {
    (void)state;
    const char *files[] = {file("good.pem", certificate), file("good.key", key)};
    assert_true(test_allocator_each_failure(make_and_reload, files) > 20);
}

static void make_development(void *user) {
    (void)user;
    uvhttp_tls_t *tls = uvhttp_tls_development(NULL);
    assert_true(tls || test_allocator_failed());
    uvhttp_tls_release(tls);
}

static void test_a_development_certificate_without_memory(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(make_development, NULL) > 5);
}

static int setup(void **state) {
    (void)state;
    uvhttp_log_set_callback(on_log, NULL);
    uvhttp_log_set_rate_limit(0);
    if (!mkdtemp(directory)) return -1;
    int status = uvhttp__tls_development_pem(&certificate, &key);
    if (status == UVHTTP_OK) status = uvhttp__tls_development_pem(&other_certificate, &other_key);
    return status;
}

static int teardown(void **state) {
    (void)state;
    static const char *const names[] = {"good.key",  "good.pem",  "empty.pem", "text.pem", "other.key", "text.key",
                                        "chain.pem", "text.ocsp", "ca.pem",    "live.pem", "live.key"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(file(names[i], NULL));
    rmdir(directory);
    uvhttp__free(certificate);
    uvhttp__free(key);
    uvhttp__free(other_certificate);
    uvhttp__free(other_key);
    return 0;
}

/* Each field has another value than its default, and another one than adjacent fields. */
static void test_every_field_of_the_configuration_arrives(void **state) {
    (void)state;
    char certificates[300], keys[300], message[200] = "";
    snprintf(certificates, sizeof certificates, "%s,%s", file("c1.pem", certificate),
             file("c2.pem", other_certificate));
    snprintf(keys, sizeof keys, "%s,%s", file("k1.pem", key), file("k2.pem", other_key));
    const char *authority = file("ca.pem", certificate);
    const char *newest = IS_MBEDTLS ? "1.2" : "1.3";
    const char *const values[][2] = {
        {"tls_certificate", certificates},
        {"tls_key", keys},
        {"tls_client_ca", authority},
        {"tls_clients", "verify"},
        {"tls_min_version", newest},
        {"tls_max_version", newest},
        {"tls_alpn", "x"},
        {"tls_handshake_timeout", "7"},
        {"tls_tickets", "off"},
        {"tls_ticket_period", "600"},
        {"tls_kernel", "on"},
    };
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (uvhttp_server_config_set(&config, values[i][0], values[i][1], message, sizeof message) != UVHTTP_OK)
            fail_msg("%s", message);
    uvhttp_tls_t *tls = uvhttp_tls_from_config(&config);
    assert_non_null(tls);
    uvhttp__tls_contexts_t *contexts = uvhttp__tls_now(tls);
    const uvhttp__tls_settings_t *settings = contexts->settings;
    assert_int_equal(settings->certificate_count, 2);
    assert_non_null(strstr(settings->certificates[1].certificate_file, "c2.pem"));
    assert_non_null(strstr(settings->certificates[1].key_file, "k2.pem"));
    assert_string_equal(settings->client_ca_file, authority);
    assert_int_equal(settings->clients, UVHTTP_TLS_CLIENTS_VERIFY);
    assert_int_equal(settings->min_version, IS_MBEDTLS ? UVHTTP_TLS_1_2 : UVHTTP_TLS_1_3);
    assert_int_equal(settings->max_version, IS_MBEDTLS ? UVHTTP_TLS_1_2 : UVHTTP_TLS_1_3);
    assert_int_equal(settings->alpn_size, 2);
    assert_memory_equal(settings->alpn, "\1x", 2);
    assert_int_equal(settings->handshake_timeout_ms, 7000);
    assert_int_equal(settings->ticket_period_ms, 600000);
    assert_true(settings->no_tickets);
    assert_true(settings->kernel_tls);
    uvhttp__tls_contexts_release(contexts);
    uvhttp_tls_release(tls);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_and_several_references),
        cmocka_unit_test(test_options_out_of_range_are_named),
        cmocka_unit_test(test_every_field_of_the_configuration_arrives),
        cmocka_unit_test(test_what_the_backend_cannot_do_is_refused),
        cmocka_unit_test(test_files_that_cannot_be_used_are_named_with_the_reason),
        cmocka_unit_test(test_a_key_that_others_can_read_is_a_warning),
        cmocka_unit_test(test_a_reload_that_fails_leaves_what_was_there),
        cmocka_unit_test(test_each_allocation_of_ours_may_fail),
        cmocka_unit_test(test_a_development_certificate_without_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
