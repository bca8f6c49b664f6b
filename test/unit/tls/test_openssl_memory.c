/* Loading certificates, keys, authorities and lists, and making a session, as each allocation of OpenSSL fails once: an
 * error with a reason, and no memory is out. */
/* Needs: tls openssl. */
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "support/failing_allocator.h"
#include "support/run.h"
#include "tls/openssl.h"
#include "tls/tls.h"

#define EACH 20
#define ATTEMPTS_MAX 100000

static char *certificate, *key;

/* --- the memory of OpenSSL --- */

static size_t count, fail_at, live;
static bool failed;

static bool fails(void) {
    failed = failed || ++count == fail_at;
    return count == fail_at;
}

static void *ssl_malloc(size_t size, const char *file, int line) {
    (void)file, (void)line;
    void *memory = size == 0 || fails() ? NULL : malloc(size);
    live += memory != NULL;
    return memory;
}

static void *ssl_realloc(void *memory, size_t size, const char *file, int line) {
    if (!memory) return ssl_malloc(size, file, line);
    if (size > 0) return fails() ? NULL : realloc(memory, size);
    free(memory);
    live--;
    return NULL;
}

static void ssl_free(void *memory, const char *file, int line) {
    (void)file, (void)line;
    live -= memory != NULL;
    free(memory);
}

/* Each of the first allocations fails once, and each `step`th of the others. Returns how many there are at least. */
static size_t each_failure(bool (*attempt)(void), size_t step) {
    for (size_t n = 1; n < ATTEMPTS_MAX; n += n < EACH ? 1 : step) {
        size_t ours = test_allocator_live(), theirs = live;
        count = 0;
        failed = false;
        fail_at = n;
        bool whole = attempt();
        fail_at = 0;
        ERR_clear_error();
        assert_int_equal(test_allocator_live(), ours);
        if (live > theirs) fail_msg("allocation %zu of OpenSSL: %zu are out", n, live - theirs);
        if (!failed) {
            print_message("%zu allocations of OpenSSL\n", n - 1);
            assert_true(whole);
            return n - 1;
        }
    }
    fail_msg("no end");
    return 0;
}

/* --- attempts --- */

static uvhttp_tls_t *make(void) {
    const uvhttp_tls_certificate_t one = {
        .certificate = certificate, .certificate_size = strlen(certificate), .key = key, .key_size = strlen(key)};
    const uvhttp_tls_options_t options = {.certificates = &one,
                                          .certificate_count = 1,
                                          .clients = UVHTTP_TLS_CLIENTS_VERIFY,
                                          .client_ca = certificate,
                                          .client_ca_size = strlen(certificate)};
    return uvhttp_tls_new(&options);
}

static bool load_and_reload(void) {
    uvhttp_tls_t *tls = make();
    if (!tls) return false;
    int status = uvhttp_tls_reload(tls);
    if (status != UVHTTP_OK) assert_string_not_equal(uvhttp_tls_error_text(tls), "");
    uvhttp_tls_release(tls);
    return status == UVHTTP_OK;
}

static void test_loading_bears_a_library_without_memory(void **state) {
    (void)state;
    assert_true(load_and_reload()); /* what is made once and stays */
    assert_true(each_failure(load_and_reload, 53) > 100);
}

static uvhttp_tls_t *made;

static bool make_session(void) {
    uvhttp__tls_io_t io = {0};
    uvhttp__tls_contexts_t *contexts = uvhttp__tls_now(made);
    uvhttp__tls_session_t *session = uvhttp__tls_session_new(contexts, &io);
    bool whole = session != NULL;
    if (session) uvhttp__tls_session_free(session);
    uvhttp__tls_contexts_release(contexts);
    return whole;
}

static void test_a_session_is_made_whole_or_not_at_all(void **state) {
    (void)state;
    made = make();
    assert_non_null(made);
    assert_true(make_session());
    assert_true(each_failure(make_session, 1) > 5);
    uvhttp_tls_release(made);
}

static bool make_development(void) {
    uvhttp_tls_t *tls = uvhttp_tls_development(NULL);
    uvhttp_tls_release(tls);
    return tls != NULL;
}

static void test_a_development_certificate_is_made_whole_or_not_at_all(void **state) {
    (void)state;
    assert_true(make_development());
    assert_true(each_failure(make_development, 61) > 100);
}

int main(void) {
    test_allocator_install();
    if (CRYPTO_set_mem_functions(ssl_malloc, ssl_realloc, ssl_free) != 1) return 1;
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    if (uvhttp__tls_development_pem(&certificate, &key) != UVHTTP_OK) return 1;
    int result = RUN_TESTS(test_loading_bears_a_library_without_memory, test_a_session_is_made_whole_or_not_at_all,
                           test_a_development_certificate_is_made_whole_or_not_at_all);
    uvhttp__free(certificate);
    uvhttp__free(key);
    return result;
}
