/* Loading certificates, keys, authorities and lists, making a session, and a handshake, as each allocation of OpenSSL
 * fails once: an error with a reason, and no memory is out. A client that gets bytes gets the right ones. How much
 * memory of OpenSSL a client can make a session keep. */
/* Needs: tls openssl. */
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "support/failing_allocator.h"
#include "support/run.h"
#include "tls/ocsp_response.h"
#include "tls/openssl.h"
#include "tls/tls.h"

#define EACH 150
#define ATTEMPTS_MAX 100000

#define HOUR 3600

/* --- the memory of OpenSSL --- */

static size_t count, fail_at, live;
static size_t server_bytes, server_most; /* bytes of the server */
static bool failed, is_client;           /* whose allocations do not fail */

static void count_bytes(const void *added, const void *removed) {
    if (is_client) return;
    server_bytes += malloc_usable_size((void *)(uintptr_t)added) - malloc_usable_size((void *)(uintptr_t)removed);
    if (server_bytes > server_most) server_most = server_bytes;
}

static bool fails(void) {
    if (is_client) return false;
    failed = failed || ++count == fail_at;
    return count == fail_at;
}

static void *ssl_malloc(size_t size, const char *file, int line) {
    (void)file, (void)line;
    void *memory = size == 0 || fails() ? NULL : malloc(size);
    live += memory != NULL;
    count_bytes(memory, NULL);
    return memory;
}

static void ssl_free(void *memory, const char *file, int line) {
    (void)file, (void)line;
    live -= memory != NULL;
    count_bytes(NULL, memory);
    free(memory);
}

static void *ssl_realloc(void *memory, size_t size, const char *file, int line) {
    if (!memory) return ssl_malloc(size, file, line);
    if (size == 0) {
        ssl_free(memory, file, line);
        return NULL;
    }
    if (fails()) return NULL;
    count_bytes(NULL, memory);
    memory = realloc(memory, size);
    if (!memory) abort();
    count_bytes(memory, NULL);
    return memory;
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

/* --- files --- */

static X509 *leaf;
static EVP_PKEY *key;
static char certificate[4096], chain[8192], key_text[1024], list[4096], ocsp_file[] = "/tmp/uvhttp-memory-XXXXXX";

static void add_extension(int kind, const char *value) {
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(leaf, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* The server's, the client's, and the authority of both. */
static void make_certificate(void) {
    key = EVP_EC_gen("P-256");
    leaf = X509_new();
    X509_set_version(leaf, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(leaf), 7);
    X509_gmtime_adj(X509_getm_notBefore(leaf), -HOUR);
    X509_gmtime_adj(X509_getm_notAfter(leaf), 100 * 24 * HOUR);
    X509_set_pubkey(leaf, key);
    X509_NAME *subject = X509_get_subject_name(leaf);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const uint8_t *)"alice", -1, -1, 0), 1);
    X509_set_issuer_name(leaf, subject);
    add_extension(NID_basic_constraints, "critical,CA:TRUE");
    add_extension(NID_subject_alt_name, "DNS:a.test");
    assert_true(X509_sign(leaf, key, EVP_sha256()) > 0);
}

static void take_text(BIO *from, char *text, size_t size) {
    char *data;
    long data_size = BIO_get_mem_data(from, &data);
    snprintf(text, size, "%.*s", (int)data_size, data);
    BIO_free(from);
}

static void write_texts(void) {
    BIO *texts[] = {BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem())};
    X509_CRL *revoked = X509_CRL_new();
    ASN1_TIME *since = ASN1_TIME_adj(NULL, time(NULL), 0, -HOUR), *end = ASN1_TIME_adj(NULL, time(NULL), 0, HOUR);
    X509_CRL_set_version(revoked, X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(revoked, X509_get_subject_name(leaf));
    X509_CRL_set1_lastUpdate(revoked, since);
    X509_CRL_set1_nextUpdate(revoked, end);
    assert_true(X509_CRL_sign(revoked, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509(texts[0], leaf), 1);
    assert_int_equal(PEM_write_bio_PrivateKey(texts[1], key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(PEM_write_bio_X509_CRL(texts[2], revoked), 1);
    take_text(texts[0], certificate, sizeof certificate);
    take_text(texts[1], key_text, sizeof key_text);
    take_text(texts[2], list, sizeof list);
    snprintf(chain, sizeof chain, "%s%s", certificate, certificate);
    X509_CRL_free(revoked);
    ASN1_TIME_free(since);
    ASN1_TIME_free(end);
}

/* --- attempts --- */

static uvhttp_tls_t *make(void) {
    const uvhttp_tls_certificate_t one = {.certificate = chain,
                                          .certificate_size = strlen(chain),
                                          .key = key_text,
                                          .key_size = strlen(key_text),
                                          .ocsp_file = ocsp_file};
    const uvhttp_tls_options_t options = {.certificates = &one,
                                          .certificate_count = 1,
                                          .clients = UVHTTP_TLS_CLIENTS_VERIFY,
                                          .client_ca = certificate,
                                          .client_ca_size = strlen(certificate),
                                          .client_crl = list,
                                          .client_crl_size = strlen(list)};
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

/* --- handshakes --- */

static SSL_CTX *client_ctx;
static SSL_SESSION *ticket; /* the client's; NULL: none yet */

typedef struct talk {
    uvhttp__tls_io_t io; /* first: write has it */
    uvhttp__tls_session_t *server;
    SSL *client;
    int server_status; /* of the handshake */
    bool client_done;
} talk_t;

static int send_to_client(uvhttp__tls_io_t *io, const char *data, size_t size) {
    is_client = true;
    assert_int_equal(BIO_write(SSL_get_rbio(((talk_t *)(void *)io)->client), data, (int)size), size);
    is_client = false;
    return UVHTTP_OK;
}

static void make_client(talk_t *talk) {
    static const unsigned char http1[] = "\x08http/1.1";
    is_client = true;
    talk->client = SSL_new(client_ctx);
    SSL_set_bio(talk->client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(talk->client);
    SSL_set_tlsext_host_name(talk->client, "a.test");
    SSL_set_tlsext_status_type(talk->client, TLSEXT_STATUSTYPE_ocsp);
    SSL_set_alpn_protos(talk->client, http1, sizeof http1 - 1);
    if (ticket) SSL_set_session(talk->client, ticket);
    is_client = false;
}

/* What the client has sent is what the server's session reads. */
static void give_to_server(talk_t *talk) {
    char *data;
    talk->io.in_size = (size_t)BIO_get_mem_data(SSL_get_wbio(talk->client), &data);
    talk->io.in = data;
}

static void consumed_by_server(talk_t *talk) {
    is_client = true;
    assert_int_equal(talk->io.in_size, 0);
    (void)BIO_reset(SSL_get_wbio(talk->client));
    is_client = false;
}

static bool shake_hands(talk_t *talk) {
    talk->server_status = UVHTTP_E_AGAIN;
    for (int i = 0; i < 4; i++) {
        is_client = true;
        talk->client_done = SSL_do_handshake(talk->client) == 1;
        is_client = false;
        if (talk->server_status == UVHTTP_OK) break;
        give_to_server(talk);
        talk->server_status = uvhttp__tls_session_handshake(talk->server);
        if (talk->server_status != UVHTTP_OK && talk->server_status != UVHTTP_E_AGAIN) return false;
        consumed_by_server(talk);
    }
    return talk->server_status == UVHTTP_OK && talk->client_done;
}

/* Each side gets the other's text, or an error. The client's session with its ticket is kept in *kept. */
static bool exchange(talk_t *talk, SSL_SESSION **kept) {
    char text[16];
    size_t size = 0;
    is_client = true;
    assert_int_equal(SSL_write(talk->client, "ping", 4), 4);
    is_client = false;
    give_to_server(talk);
    if (uvhttp__tls_session_read(talk->server, text, sizeof text, &size) != UVHTTP_OK) return false;
    consumed_by_server(talk);
    assert_int_equal(size, 4);
    assert_memory_equal(text, "ping", 4);
    if (uvhttp__tls_session_write(talk->server, "pong", 4) != UVHTTP_OK) return false;
    is_client = true;
    assert_int_equal(SSL_read(talk->client, text, sizeof text), 4);
    assert_memory_equal(text, "pong", 4);
    if (kept) *kept = SSL_get1_session(talk->client);
    is_client = false;
    return true;
}

/* What a handshake without memory may leave out: the subject, the OCSP response, the resumption, the next ticket. */
static bool has_all(const talk_t *talk) {
    const unsigned char *response;
    char *subject = uvhttp__tls_session_subject(talk->server);
    if (subject) assert_string_equal(subject, "CN=alice");
    bool resumed = ticket != NULL;
    bool whole = subject && uvhttp__tls_session_resumed(talk->server) == resumed &&
                 SSL_SESSION_has_ticket(SSL_get0_session(talk->client)) &&
                 (resumed || SSL_get_tlsext_status_ocsp_resp(talk->client, &response) > 0);
    uvhttp__free(subject);
    return whole;
}

/* The session keeps what it needs of the contexts. */
static bool begin_talk(talk_t *talk) {
    static uvhttp__loop_t loop;
    static uvhttp__counters_t counters;
    static uvhttp__stream_t stream = {.loop = &loop};
    loop.counters = &counters;
    *talk = (talk_t){.io = {.stream = &stream, .write = send_to_client}};
    uvhttp__tls_contexts_t *contexts = uvhttp__tls_now(made);
    talk->server = uvhttp__tls_session_new(contexts, &talk->io);
    uvhttp__tls_contexts_release(contexts);
    return talk->server != NULL;
}

static bool talk_and_keep(SSL_SESSION **kept) {
    talk_t talk;
    bool whole = begin_talk(&talk);
    if (whole) {
        make_client(&talk);
        whole = shake_hands(&talk) && exchange(&talk, kept) && has_all(&talk);
        uvhttp__tls_session_close(talk.server);
        uvhttp__tls_session_free(talk.server);
        is_client = true;
        (void)SSL_shutdown(talk.client); /* else its session is not resumed */
        SSL_free(talk.client);
        is_client = false;
    }
    return whole;
}

static bool talk_once(void) {
    return talk_and_keep(NULL);
}

static void make_client_ctx(int version) {
    client_ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(client_ctx, version);
    assert_int_equal(SSL_CTX_use_certificate(client_ctx, leaf), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(client_ctx, key), 1);
}

static void test_a_handshake_without_memory_fails_or_has_less(void **state) {
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    made = make();
    assert_non_null(made);
    for (size_t i = 0; i < 2; i++) {
        make_client_ctx(versions[i]);
        assert_true(talk_once());
        assert_true(each_failure(talk_once, 11) > 100);
        SSL_SESSION *kept = NULL;
        assert_true(talk_and_keep(&kept));
        ticket = kept;
        assert_true(talk_once());
        assert_true(each_failure(talk_once, 5) > 100);
        SSL_SESSION_free(ticket);
        ticket = NULL;
        SSL_CTX_free(client_ctx);
    }
    uvhttp_tls_release(made);
}

/* --- how much a session keeps (docs/guide/limits.md) --- */

#define NEW_MAX ((size_t)16 * 1024)
#define HANDSHAKE_MAX ((size_t)96 * 1024)
#define CERTIFICATES_MAX ((size_t)192 * 1024)
#define IDLE_MAX ((size_t)24 * 1024)
#define RECORD_MAX ((size_t)48 * 1024)
#define RECORD_SIZE 16384u

static talk_t bounded;
static size_t server_before;

static void expect_kept(const char *when, size_t max) {
    print_message("%s: %zu bytes of OpenSSL, %zu at most\n", when, server_bytes - server_before,
                  server_most - server_before);
    assert_in_range(server_most - server_before, 1, max);
    server_most = server_bytes;
}

/* Each byte alone, but for the last `left`. */
static int give_bytes(const char *data, size_t size, size_t left) {
    char text[16];
    int status = UVHTTP_E_AGAIN;
    for (size_t i = 0; i + left < size && status == UVHTTP_E_AGAIN; i++) {
        size_t got;
        bounded.io.in = data + i;
        bounded.io.in_size = 1;
        status = bounded.client_done ? uvhttp__tls_session_read(bounded.server, text, sizeof text, &got)
                                     : uvhttp__tls_session_handshake(bounded.server);
    }
    return status;
}

static int add_padding(SSL *ssl, unsigned type, const unsigned char **data, size_t *size, int *alert, void *user) {
    static const unsigned char padding[15000];
    (void)ssl, (void)type, (void)alert, (void)user;
    *data = padding;
    *size = sizeof padding;
    return 1;
}

static void begin_bounded(int version) {
    make_client_ctx(version);
    assert_int_equal(SSL_CTX_add_client_custom_ext(client_ctx, 65000, add_padding, NULL, NULL, NULL, NULL), 1);
    server_before = server_most = server_bytes;
    assert_true(begin_talk(&bounded));
    expect_kept("new", NEW_MAX);
    make_client(&bounded);
}

static void end_bounded(void) {
    uvhttp__tls_session_free(bounded.server);
    is_client = true;
    SSL_free(bounded.client);
    is_client = false;
    ERR_clear_error();
    assert_int_equal(server_bytes, server_before);
    SSL_CTX_free(client_ctx);
}

static size_t client_said(char *text, size_t size) {
    is_client = true;
    int got = BIO_read(SSL_get_wbio(bounded.client), text, (int)size);
    is_client = false;
    assert_true(got > 0);
    return (size_t)got;
}

static void test_a_session_keeps_a_bounded_amount(void **state) {
    (void)state;
    static char text[40000], large[16000];
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    made = make();
    assert_non_null(made);
    for (size_t i = 0; i < 2; i++) {
        make_client_ctx(versions[i]);
        assert_true(talk_once()); /* what is made once and stays */
        SSL_CTX_free(client_ctx);
        begin_bounded(versions[i]);
        is_client = true;
        assert_int_equal(SSL_do_handshake(bounded.client), -1);
        is_client = false;
        size_t size = client_said(text, sizeof text);
        assert_int_equal(give_bytes(text, size, 1), UVHTTP_E_AGAIN);
        expect_kept("within a ClientHello", HANDSHAKE_MAX);
        bounded.io.in = text + size - 1;
        bounded.io.in_size = 1;
        assert_int_equal(uvhttp__tls_session_handshake(bounded.server), UVHTTP_E_AGAIN);
        assert_true(shake_hands(&bounded));
        expect_kept("in the handshake", HANDSHAKE_MAX);
        assert_true(exchange(&bounded, NULL));
        expect_kept("in an exchange", RECORD_MAX);
        assert_in_range(server_bytes - server_before, 1, IDLE_MAX);
        is_client = true;
        assert_int_equal(SSL_write(bounded.client, large, sizeof large), sizeof large);
        is_client = false;
        size = client_said(text, sizeof text);
        assert_int_equal(give_bytes(text, size, 1), UVHTTP_E_AGAIN);
        expect_kept("within a record", RECORD_MAX);
        end_bounded();
    }
    uvhttp_tls_release(made);
}

/* A Certificate message of which only the length comes (RFC 5246 section 7.4.6). */
static void test_announced_certificates_keep_a_bounded_amount(void **state) {
    (void)state;
    static char text[40000], zeros[RECORD_SIZE];
    made = make();
    assert_non_null(made);
    static const unsigned sizes[] = {RECORD_SIZE, UVHTTP__TLS_HANDSHAKE_SIZE_MAX, UVHTTP__TLS_HANDSHAKE_SIZE_MAX + 1,
                                     (1 << 24) - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned size = sizes[i];
        begin_bounded(TLS1_2_VERSION);
        is_client = true;
        assert_int_equal(SSL_do_handshake(bounded.client), -1);
        is_client = false;
        assert_int_equal(give_bytes(text, client_said(text, sizeof text), 0), UVHTTP_E_AGAIN);
        const char head[] = {22, 3, 3, 64, 0, 11, (char)(size >> 16), (char)(size >> 8), (char)size, 0, 0, 0};
        assert_int_equal(give_bytes(head, sizeof head, 0), UVHTTP_E_AGAIN);
        int status = give_bytes(zeros, RECORD_SIZE + 5 - sizeof head, 0);
        assert_int_equal(status == UVHTTP_E_AGAIN, size <= UVHTTP__TLS_HANDSHAKE_SIZE_MAX);
        expect_kept("within certificates", CERTIFICATES_MAX);
        end_bounded();
    }
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
    make_certificate();
    write_texts();
    close(mkstemp(ocsp_file));
    write_ocsp_response(ocsp_file, leaf, key, V_OCSP_CERTSTATUS_GOOD, HOUR);
    int result = RUN_TESTS(test_loading_bears_a_library_without_memory, test_a_session_is_made_whole_or_not_at_all,
                           test_a_handshake_without_memory_fails_or_has_less, test_a_session_keeps_a_bounded_amount,
                           test_announced_certificates_keep_a_bounded_amount,
                           test_a_development_certificate_is_made_whole_or_not_at_all);
    X509_free(leaf);
    EVP_PKEY_free(key);
    unlink(ocsp_file);
    return result;
}
