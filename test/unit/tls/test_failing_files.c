/* Certificates, keys and authorities are read from files as each system call fails once: an error with the name of the
 * file and the reason, or all is well; no descriptor and no memory is out. */
/* Needs: tls middleware. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/log.h>
#include <uvhttp/tls.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/process.h"
#include "support/run.h"
#include "tls/backend.h"

static char folder[] = "/tmp/uvhttp-failing-XXXXXX", certificate_file[64], key_file[64];
static char logged[2048];

static void on_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)size, (void)user;
    if (level == UVHTTP_LOG_LEVEL_ERROR) snprintf(logged, sizeof logged, "%s", message);
}

static void write_file(const char *path, const char *text) {
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static bool names_a_file(const char *text) {
    return strstr(text, certificate_file) || strstr(text, key_file);
}

/* `user`: the error that a call fails with, if its text has to be in the message. */
static void load_and_reload(void *user) {
    const int *error = user;
    const uvhttp_tls_certificate_t one = {.certificate_file = certificate_file, .key_file = key_file};
    const uvhttp_tls_options_t options = {.certificates = &one,
                                          .certificate_count = 1,
                                          .clients = UVHTTP_TLS_CLIENTS_VERIFY,
                                          .client_ca_file = certificate_file};
    *logged = '\0';
    uvhttp_tls_t *tls = uvhttp_tls_new(&options);
    int status = tls ? uvhttp_tls_reload(tls) : UVHTTP_E_TLS_CERTIFICATE;
    if (status != UVHTTP_OK) {
        const char *reason = tls ? uvhttp_tls_error_text(tls) : logged;
        assert_int_equal(status, UVHTTP_E_TLS_CERTIFICATE);
        assert_true(test_call_failed());
        assert_true(names_a_file(reason));
        assert_non_null(strstr(reason, strerrordesc_np(*error)));
    }
    uvhttp_tls_release(tls);
}

static void test_a_call_that_fails_is_named_with_its_reason(void **state) {
    (void)state;
    static const failing_call_t calls[] = {
        {FAIL_open, {EACCES}}, {FAIL_open, {EMFILE}}, {FAIL_fstat, {EIO}}, {FAIL_read, {EIO}}, {FAIL_read, {ENOMEM}}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int error = calls[i].errors[0];
        assert_int_equal(test_calls_each_failure(&calls[i], 1, load_and_reload, &error), 6); /* three files, twice */
    }
}

static void load(void *user) {
    load_and_reload(user);
    assert_string_equal(logged, "");
}

static void test_a_call_that_is_interrupted_or_short_is_made_again(void **state) {
    (void)state;
    static const failing_call_t calls[] = {
        {FAIL_read, {EINTR, FAIL_SHORT}}, {FAIL_close, {EIO}}, {FAIL_stat, {EACCES}}};
    int none = 0;
    /* Three files, which are read and closed twice; the mode of the key is looked at each time. */
    assert_int_equal(test_calls_each_failure(calls, sizeof calls / sizeof *calls, load, &none), 6 + 6 + 6 + 2);
}

int main(void) {
    char *certificate, *key;
    test_allocator_install();
    uvhttp_log_set_callback(on_log, NULL);
    uvhttp_log_set_rate_limit(0);
    if (!mkdtemp(folder) || uvhttp__tls_development_pem(&certificate, &key) != UVHTTP_OK) return 1;
    snprintf(certificate_file, sizeof certificate_file, "%s/site.pem", folder);
    snprintf(key_file, sizeof key_file, "%s/site.key", folder);
    write_file(certificate_file, certificate);
    write_file(key_file, key);
    uvhttp__free(certificate);
    uvhttp__free(key);
    int none = 0;
    load_and_reload(&none); /* what is made once and stays */
    int failed = RUN_TESTS(test_a_call_that_fails_is_named_with_its_reason,
                           test_a_call_that_is_interrupted_or_short_is_made_again);
    remove_tree(folder);
    return failed;
}
