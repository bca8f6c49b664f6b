/* A reload of configuration and certificates as each system call and each allocation fails once: it applies all or
 * nothing, and says why. And what it makes of fields that do not fit each other. */
/* Needs: tls middleware. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>
#include <uvhttp/tls.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/process.h"
#include "support/run.h"
#include "tls/backend.h"

static char folder[] = "/tmp/uvhttp-reload-XXXXXX", certificate_file[64], key_file[64];
static char logged[4096];

static void keep_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)user;
    if (strlen(logged) + size + 2 > sizeof logged) return;
    strcat(logged, message);
    strcat(logged, "\n");
}

static void write_file(const char *path, const char *text) {
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static uvhttp_server_config_t config_with_files(void) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.quiet = true;
    config.io_threads = 1;
    snprintf(config.tls_certificate, sizeof config.tls_certificate, "%s, %s", certificate_file, certificate_file);
    snprintf(config.tls_key, sizeof config.tls_key, "%s, %s", key_file, key_file);
    return config;
}

static bool something_failed(void) {
    return test_call_failed() || test_allocator_failed();
}

/* Two addresses with TLS of the configuration, one with TLS of its own, and one without. NULL: something failed. */
static uvhttp_server_t *listen_everywhere(const uvhttp_server_config_t *config) {
    uvhttp_server_t *server = uvhttp_server_new(config);
    uvhttp_tls_t *configured = uvhttp_tls_from_config(config), *own = uvhttp_tls_development(NULL);
    bool listens = server && configured && own &&
                   uvhttp_server_listen_tls(server, "127.0.0.1:0", configured, NULL) == UVHTTP_OK &&
                   uvhttp_server_listen_tls(server, "127.0.0.2:0", configured, NULL) == UVHTTP_OK &&
                   uvhttp_server_listen_tls(server, "127.0.0.1:0", own, NULL) == UVHTTP_OK &&
                   uvhttp_server_listen(server, "127.0.0.1:0", NULL) == UVHTTP_OK;
    uvhttp_tls_release(configured);
    uvhttp_tls_release(own);
    if (listens) return server;
    assert_true(something_failed());
    uvhttp_server_free(server);
    return NULL;
}

static void reload(uvhttp_server_t *server, const uvhttp_server_config_t *config) {
    char message[256] = "none";
    bool failed_before = something_failed();
    *logged = '\0';
    int status = uvhttp_server_reload(server, config, message, sizeof message);
    if (status == UVHTTP_OK) {
        assert_string_equal(message, "");
        assert_non_null(strstr(logged, "TLS files of 2 listeners"));
        return;
    }
    assert_true(something_failed() && !failed_before);
    assert_string_not_equal(message, "");
    assert_non_null(strstr(uvhttp_server_error_text(server), message));
    assert_non_null(strstr(uvhttp_server_error_text(server), "nothing has changed"));
    assert_null(strstr(logged, "http: reloaded"));
}

/* With the files alone, then with a configuration that has changed. */
static void reload_twice(void *user) {
    (void)user;
    uvhttp_server_config_t config = config_with_files();
    uvhttp_server_t *server = listen_everywhere(&config);
    if (!server) return;
    reload(server, NULL);
    config.performance.log_level = UVHTTP_LOG_LEVEL_DEBUG;
    config.io_threads = 2; /* needs a restart */
    reload(server, &config);
    if (!something_failed()) {
        assert_non_null(strstr(logged, "applied only by a restart: io_threads"));
        assert_non_null(strstr(logged, "log_level"));
    }
    uvhttp_server_free(server);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_INFO);
}

static void test_each_system_call_may_fail(void **state) {
    (void)state;
    static const failing_call_t calls[] = {{FAIL_open, {EACCES}}, {FAIL_fstat, {EIO}}, {FAIL_read, {EIO}}};
    reload_twice(NULL);
    assert_true(test_calls_each_failure(calls, 3, reload_twice, NULL) > 20);
}

static void test_each_allocation_may_fail(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(reload_twice, NULL) > 20);
}

/* --- fields --- */

static void refuse(const char *certificates, const char *keys, const char *responses, const char *reason) {
    uvhttp_server_config_t config = config_with_files(), wrong = config;
    char message[256];
    snprintf(wrong.tls_certificate, sizeof wrong.tls_certificate, "%s", certificates);
    snprintf(wrong.tls_key, sizeof wrong.tls_key, "%s", keys);
    snprintf(wrong.tls_ocsp, sizeof wrong.tls_ocsp, "%s", responses);
    *logged = '\0';
    assert_null(uvhttp_tls_from_config(&wrong));
    if (!strstr(logged, reason)) fail_msg("%s: %s", reason, logged);
    uvhttp_server_t *server = listen_everywhere(&config);
    assert_int_equal(uvhttp_server_reload(server, &wrong, message, sizeof message), UVHTTP_E_CONFIG);
    if (!strstr(message, reason)) fail_msg("%s: %s", reason, message);
    assert_int_equal(uvhttp_server_reload(server, &wrong, NULL, 0), UVHTTP_E_CONFIG);
    uvhttp_server_free(server);
}

static void test_each_certificate_has_a_key_and_at_most_one_response(void **state) {
    (void)state;
    refuse("a", "", "", "tls_key names 0 files, tls_certificate 1");
    refuse("", "a", "", "tls_key names 1 files, tls_certificate 0");
    refuse("a, b", "a", "", "tls_key names 1 files, tls_certificate 2");
    refuse("a", "a", "a, b", "tls_ocsp names 2 files, tls_certificate 1");
    refuse("a, ,c", "a,b,c", "", "the name of file 2 is empty");
    refuse("a,b", "a, ", "", "the name of file 2 is empty");
}

static void test_a_configuration_out_of_range_is_refused(void **state) {
    (void)state;
    uvhttp_server_config_t config = config_with_files();
    uvhttp_server_t *server = listen_everywhere(&config);
    char message[256];
    config.io_threads = UINT32_MAX;
    assert_null(uvhttp_tls_from_config(&config));
    assert_int_equal(uvhttp_server_reload(server, &config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_non_null(strstr(message, "io_threads"));
    assert_int_equal(uvhttp_server_reload(NULL, &config, message, sizeof message), UVHTTP_E_INVALID);
    uvhttp_server_free(server);
}

static void test_a_server_without_addresses_has_nothing_to_read(void **state) {
    (void)state;
    uvhttp_server_config_t config = config_with_files();
    uvhttp_server_t *server = uvhttp_server_new(&config);
    *logged = '\0';
    assert_int_equal(uvhttp_server_reload(server, NULL, NULL, 0), UVHTTP_OK);
    assert_non_null(strstr(logged, "TLS files of 0 listeners"));
    uvhttp_server_free(server);
}

/* A line that was removed from a file is not in the configuration of the reload. */
static void test_what_is_not_set_any_more_is_as_without_a_configuration(void **state) {
    (void)state;
    uvhttp_server_config_t config = config_with_files(), other;
    config.performance.log_level = UVHTTP_LOG_LEVEL_ERROR;
    config.log_format = UVHTTP_LOG_FORMAT_JSON;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    assert_int_equal(uvhttp_log_get_level(), UVHTTP_LOG_LEVEL_ERROR);
    assert_int_equal(uvhttp_log_get_format(), UVHTTP_LOG_FORMAT_JSON);
    config = config_with_files();
    assert_int_equal(config.performance.log_level, UVHTTP_LOG_LEVEL_INFO);
    uvhttp_server_free(uvhttp_server_new(&config)); /* another one changes nothing */
    assert_int_equal(uvhttp_log_get_level(), UVHTTP_LOG_LEVEL_ERROR);
    assert_int_equal(uvhttp_server_reload(server, &config, NULL, 0), UVHTTP_OK);
    assert_int_equal(uvhttp_log_get_level(), UVHTTP_LOG_LEVEL_INFO);
    assert_int_equal(uvhttp_log_get_format(), UVHTTP_LOG_FORMAT_TEXT);
    config.performance.performance_mode = true;
    assert_int_equal(uvhttp_server_reload(server, &config, NULL, 0), UVHTTP_OK);
    assert_int_equal(uvhttp_log_get_level(), UVHTTP_LOG_LEVEL_WARN);
    uvhttp_server_config_default(&other);
    assert_int_equal(uvhttp_server_reload(server, &other, NULL, 0), UVHTTP_OK);
    assert_int_equal(uvhttp_log_get_level(), UVHTTP_LOG_LEVEL_INFO);
    uvhttp_server_free(server);
}

int main(void) {
    char *certificate, *key;
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_INFO);
    uvhttp_log_set_rate_limit(0);
    uvhttp_log_set_callback(keep_log, NULL);
    if (!mkdtemp(folder) || uvhttp__tls_development_pem(&certificate, &key) != UVHTTP_OK) return 1;
    snprintf(certificate_file, sizeof certificate_file, "%s/certificate.pem", folder);
    snprintf(key_file, sizeof key_file, "%s/key.pem", folder);
    write_file(certificate_file, certificate);
    write_file(key_file, key);
    uvhttp__free(certificate);
    uvhttp__free(key);
    int failed =
        RUN_TESTS(test_each_system_call_may_fail, test_each_allocation_may_fail,
                  test_each_certificate_has_a_key_and_at_most_one_response,
                  test_a_configuration_out_of_range_is_refused, test_a_server_without_addresses_has_nothing_to_read,
                  test_what_is_not_set_any_more_is_as_without_a_configuration);
    remove_tree(folder);
    return failed;
}
