/* What a session notes for the kernel: keys as RFC 8448 derives them, and the number of the next record, proved by
 * decrypting that record; which sessions are not for the kernel; and what the kernel does with it, where it can. */
/* Needs: tls openssl. */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "support/failing_allocator.h"
#include "tls/openssl.h"

#define RECORD_OVERHEAD (1 + 16) /* the type and the tag */

static char *certificate, *key;

/* Server and client in one thread, what they say in memory: it is the test that moves it. */
typedef struct pair {
    SSL_CTX *server_ctx, *client_ctx;
    SSL *server, *client;
    BIO *to_server, *to_client;
    uvhttp__tls_session_t *session; /* the server */
} pair_t;

typedef struct setting {
    const char *suites; /* NULL: any */
    int version;        /* 0: TLS 1.3 */
    int tickets;
    uint8_t fragment; /* TLSEXT_max_fragment_length_* */
} setting_t;

static bool finish_handshake(pair_t *pair) {
    for (int i = 0; i < 20; i++) {
        int client = SSL_do_handshake(pair->client), server = SSL_do_handshake(pair->server);
        if (client == 1 && server == 1) return true;
    }
    return false;
}

static void set_server(SSL_CTX *ctx) {
    BIO *text = BIO_new_mem_buf(certificate, -1), *key_text = BIO_new_mem_buf(key, -1);
    X509 *leaf = PEM_read_bio_X509(text, NULL, NULL, NULL);
    EVP_PKEY *own = PEM_read_bio_PrivateKey(key_text, NULL, NULL, NULL);
    assert_int_equal(SSL_CTX_use_cert_and_key(ctx, leaf, own, NULL, 1), 1);
    X509_free(leaf);
    EVP_PKEY_free(own);
    BIO_free(text);
    BIO_free(key_text);
    SSL_CTX_set_keylog_callback(ctx, uvhttp__tls_on_secret);
}

static pair_t open_pair(setting_t setting) {
    pair_t pair = {.server_ctx = SSL_CTX_new(TLS_server_method()), .client_ctx = SSL_CTX_new(TLS_client_method())};
    set_server(pair.server_ctx);
    SSL_CTX_set_num_tickets(pair.server_ctx, (size_t)setting.tickets);
    int version = setting.version ? setting.version : TLS1_3_VERSION;
    SSL_CTX_set_max_proto_version(pair.client_ctx, version);
    SSL_CTX_set_min_proto_version(pair.client_ctx, version);
    if (setting.suites) assert_int_equal(SSL_CTX_set_ciphersuites(pair.client_ctx, setting.suites), 1);
    if (setting.fragment) SSL_CTX_set_tlsext_max_fragment_length(pair.client_ctx, setting.fragment);
    pair.server = SSL_new(pair.server_ctx);
    pair.client = SSL_new(pair.client_ctx);
    pair.to_server = BIO_new(BIO_s_mem());
    pair.to_client = BIO_new(BIO_s_mem());
    BIO_up_ref(pair.to_server);
    BIO_up_ref(pair.to_client);
    SSL_set_bio(pair.server, pair.to_server, pair.to_client);
    SSL_set_bio(pair.client, pair.to_client, pair.to_server);
    SSL_set_accept_state(pair.server);
    SSL_set_connect_state(pair.client);
    pair.session = (uvhttp__tls_session_t *)(void *)pair.server;
    assert_true(uvhttp__tls_notes->begin(pair.session));
    assert_true(finish_handshake(&pair));
    return pair;
}

static void close_pair(pair_t *pair) {
    SSL_free(pair->server);
    SSL_free(pair->client);
    SSL_CTX_free(pair->server_ctx);
    SSL_CTX_free(pair->client_ctx);
}

static void server_writes(pair_t *pair, const char *data, int size) {
    assert_int_equal(SSL_write(pair->server, data, size), size);
}

/* --- keys --- */

static size_t from_hex(const char *text, unsigned char *out, size_t size) {
    size_t got;
    assert_int_equal(OPENSSL_hexstr2buf_ex(out, size, &got, text, '\0'), 1);
    return got;
}

/* RFC 8448 section 3: {server} derive write traffic keys for application data. */
static void test_key_and_iv_are_those_of_rfc_8448(void **state) {
    (void)state;
    unsigned char secret[48], expected[32], got[32];
    size_t size = from_hex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643", secret, sizeof secret);
    assert_true(uvhttp__tls_expand(secret, size, "key", got, 16));
    assert_memory_equal(got, expected, from_hex("9f02283b6c9c07efc26bb9f2ac92e356", expected, sizeof expected));
    assert_true(uvhttp__tls_expand(secret, size, "iv", got, 12));
    assert_memory_equal(got, expected, from_hex("cf782b88dd83549aadf1e984", expected, sizeof expected));
}

/* --- records --- */

static const EVP_CIPHER *cipher_of(const uvhttp__tls_sending_t *sending) {
    switch (sending->cipher) {
        case UVHTTP__TLS_AES_128_GCM: return EVP_aes_128_gcm();
        case UVHTTP__TLS_AES_256_GCM: return EVP_aes_256_gcm();
        default: return EVP_chacha20_poly1305();
    }
}

/* As the kernel would make it, read backwards (RFC 8446 section 5.3). */
static bool opens(const uvhttp__tls_sending_t *sending, uint64_t record, const unsigned char *data, size_t size,
                  char *plain) {
    unsigned char nonce[12];
    int used = 0, fragment = (int)size - 5;
    memcpy(nonce, sending->iv, sizeof nonce);
    for (int i = 0; i < 8; i++) nonce[11 - i] ^= (unsigned char)(record >> (8 * i));
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    assert_int_equal(EVP_DecryptInit_ex(context, cipher_of(sending), NULL, sending->key, nonce), 1);
    assert_int_equal(EVP_DecryptUpdate(context, NULL, &used, data, 5), 1);
    assert_int_equal(EVP_DecryptUpdate(context, (unsigned char *)plain, &used, data + 5, fragment - 16), 1);
    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, (void *)(uintptr_t)(data + size - 16));
    bool good = EVP_DecryptFinal_ex(context, (unsigned char *)plain + used, &used) == 1;
    EVP_CIPHER_CTX_free(context);
    return good;
}

static void expect_key_and_number(setting_t setting, uint8_t cipher) {
    static char large[40000];
    unsigned char record[256];
    char plain[256];
    pair_t pair = open_pair(setting);
    assert_int_equal(uvhttp__tls_notes->cipher(pair.session), cipher);
    server_writes(&pair, "one", 3);
    server_writes(&pair, large, sizeof large); /* three records */
    (void)BIO_reset(pair.to_client);           /* the client is not needed any more */
    uvhttp__tls_sending_t sending;
    assert_true(uvhttp__tls_notes->take(pair.session, &sending));
    assert_int_equal(sending.cipher, cipher);
    assert_int_equal(sending.record, setting.tickets + 4);
    server_writes(&pair, "next", 4);
    int size = BIO_read(pair.to_client, record, sizeof record);
    assert_int_equal(size, 5 + 4 + RECORD_OVERHEAD);
    assert_true(opens(&sending, sending.record, record, (size_t)size, plain));
    assert_memory_equal(plain, "next\x17", 5);
    assert_false(opens(&sending, sending.record + 1, record, (size_t)size, plain));
    assert_false(uvhttp__tls_notes->take(pair.session, &sending)); /* the secret is wiped */
    close_pair(&pair);
}

static void test_the_next_record_opens_with_what_was_noted(void **state) {
    (void)state;
    for (int tickets = 0; tickets < 3; tickets++) {
        expect_key_and_number((setting_t){.suites = "TLS_AES_128_GCM_SHA256", .tickets = tickets},
                              UVHTTP__TLS_AES_128_GCM);
        expect_key_and_number((setting_t){.suites = "TLS_AES_256_GCM_SHA384", .tickets = tickets},
                              UVHTTP__TLS_AES_256_GCM);
        expect_key_and_number((setting_t){.suites = "TLS_CHACHA20_POLY1305_SHA256", .tickets = tickets},
                              UVHTTP__TLS_CHACHA20_POLY1305);
    }
}

/* --- sessions that stay in the process --- */

static void expect_not_for_the_kernel(setting_t setting) {
    uvhttp__tls_sending_t sending;
    pair_t pair = open_pair(setting);
    assert_int_equal(uvhttp__tls_notes->cipher(pair.session), 0);
    assert_false(uvhttp__tls_notes->take(pair.session, &sending));
    uvhttp__tls_notes->end(pair.session);
    server_writes(&pair, "goes on", 7);
    char data[16];
    assert_int_equal(SSL_read(pair.client, data, sizeof data), 7);
    close_pair(&pair);
}

static void test_old_versions_and_small_records_are_not_for_the_kernel(void **state) {
    (void)state;
    expect_not_for_the_kernel((setting_t){.version = TLS1_2_VERSION});
    expect_not_for_the_kernel((setting_t){.fragment = TLSEXT_max_fragment_length_1024});
}

/* --- new keys and alerts --- */

static void client_asks_for_new_keys(pair_t *pair, int kind) {
    assert_int_equal(SSL_key_update(pair->client, kind), 1);
    assert_int_equal(SSL_do_handshake(pair->client), 1);
}

static void test_new_keys_are_noticed_only_if_they_are_ours(void **state) {
    (void)state;
    char data[16];
    pair_t pair = open_pair((setting_t){.tickets = 2});
    client_asks_for_new_keys(&pair, SSL_KEY_UPDATE_NOT_REQUESTED); /* its own alone */
    assert_int_equal(SSL_write(pair.client, "x", 1), 1);
    assert_int_equal(SSL_read(pair.server, data, sizeof data), 1);
    assert_false(uvhttp__tls_notes->rekeyed(pair.session));
    assert_int_not_equal(uvhttp__tls_notes->cipher(pair.session), 0);
    client_asks_for_new_keys(&pair, SSL_KEY_UPDATE_REQUESTED);
    assert_int_equal(SSL_read(pair.server, data, sizeof data), -1);
    assert_true(uvhttp__tls_notes->rekeyed(pair.session));
    assert_int_equal(uvhttp__tls_notes->cipher(pair.session), 0); /* the process has to respond */
    server_writes(&pair, "x", 1);                                 /* and before it, in the process, the response */
    assert_true(uvhttp__tls_notes->rekeyed(pair.session));
    assert_int_equal(uvhttp__tls_notes->cipher(pair.session), 0); /* the secret is that of the keys before */
    close_pair(&pair);
}

static void test_what_the_session_would_have_said_is_noted(void **state) {
    (void)state;
    static const unsigned char bad_record[] = {23, 3,  3,  0,  32, 1,  2,  3,  4,  5,  6,  7,  8,
                                               9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                               22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
    char data[16];
    pair_t pair = open_pair((setting_t){.tickets = 2});
    assert_null(uvhttp__tls_notes->alert(pair.session));
    assert_int_equal(BIO_write(pair.to_server, bad_record, sizeof bad_record), sizeof bad_record);
    assert_int_equal(SSL_read(pair.server, data, sizeof data), -1);
    const unsigned char *alert = uvhttp__tls_notes->alert(pair.session);
    assert_non_null(alert);
    assert_int_equal(alert[0], SSL3_AL_FATAL);
    assert_int_equal(alert[1], SSL_AD_BAD_RECORD_MAC);
    ERR_clear_error();
    close_pair(&pair);
}

static void test_without_memory_nothing_is_noted(void **state) {
    (void)state;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL *ssl = SSL_new(ctx);
    test_allocator_fail_at(1);
    assert_false(uvhttp__tls_notes->begin((uvhttp__tls_session_t *)(void *)ssl));
    assert_true(test_allocator_failed());
    test_allocator_fail_at(0);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

/* --- the kernel --- */

static void connect_tcp(int *server, int *client) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(*client, (struct sockaddr *)&address, size), 0);
    *server = accept(listener, NULL, NULL);
    assert_true(*server >= 0);
    close(listener);
}

/* What the pair has said so far is behind it: from here on it is the client that reads from the socket. */
static void client_reads_from(pair_t *pair, int fd) {
    char data[16];
    assert_int_equal(SSL_read(pair->client, data, sizeof data), -1); /* the tickets */
    assert_int_equal(SSL_get_error(pair->client, -1), SSL_ERROR_WANT_READ);
    SSL_set_rfd(pair->client, fd);
}

static void test_a_kernel_that_refuses_leaves_the_socket_as_it_is(void **state) {
    (void)state;
    int server, client, ends[2];
    uint8_t refuses;
    char data[4];
    uvhttp__tls_sending_t sending = {.cipher = UVHTTP__TLS_AES_128_GCM, .key_size = 16};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_false(uvhttp__ktls_start(ends[0], &sending, &refuses));
    assert_int_equal(refuses, 0); /* that is about this socket */
    assert_int_equal(write(ends[0], "sent", 4), 4);
    assert_int_equal(read(ends[1], data, 4), 4);
    connect_tcp(&server, &client);
    if (uvhttp__ktls_start(server, &sending, &refuses)) {
        print_message("           this kernel does not refuse\n");
        assert_int_equal(refuses, 0);
    } else {
        assert_int_equal(refuses, UVHTTP__TLS_ALL_CIPHERS);
        assert_int_equal(write(server, "sent", 4), 4);
        assert_int_equal(read(client, data, 4), 4);
        assert_memory_equal(data, "sent", 4);
    }
    close(server);
    close(client);
    close(ends[0]);
    close(ends[1]);
}

static void expect_the_kernel_to_continue(const char *suites) {
    int server, client;
    uint8_t refuses;
    char data[64];
    uvhttp__tls_sending_t sending;
    pair_t pair = open_pair((setting_t){.suites = suites, .tickets = 2});
    connect_tcp(&server, &client);
    server_writes(&pair, "before", 6);
    assert_int_equal(SSL_read(pair.client, data, sizeof data), 6);
    assert_true(uvhttp__tls_notes->take(pair.session, &sending));
    assert_true(uvhttp__ktls_start(server, &sending, &refuses));
    client_reads_from(&pair, client);
    assert_int_equal(write(server, "after", 5), 5);
    assert_int_equal(SSL_read(pair.client, data, sizeof data), 5);
    assert_memory_equal(data, "after", 5);
    assert_int_equal(uvhttp__ktls_alert(server, (const unsigned char[]){SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY}),
                     UVHTTP_OK);
    assert_int_equal(SSL_read(pair.client, data, sizeof data), 0);
    assert_int_equal(SSL_get_error(pair.client, 0), SSL_ERROR_ZERO_RETURN);
    close_pair(&pair);
    close(server);
    close(client);
}

static bool kernel_can(void) {
    int server, client;
    uint8_t refuses;
    uvhttp__tls_sending_t sending = {.cipher = UVHTTP__TLS_AES_128_GCM, .key_size = 16};
    connect_tcp(&server, &client);
    bool can = uvhttp__ktls_start(server, &sending, &refuses);
    close(server);
    close(client);
    return can;
}

static void test_the_kernel_continues_where_the_session_has_stopped(void **state) {
    (void)state;
    if (!kernel_can()) {
        print_message("           this kernel has no TLS (./dev ktls has one)\n");
        skip();
    }
    expect_the_kernel_to_continue("TLS_AES_128_GCM_SHA256");
    expect_the_kernel_to_continue("TLS_AES_256_GCM_SHA384");
    expect_the_kernel_to_continue("TLS_CHACHA20_POLY1305_SHA256");
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_and_iv_are_those_of_rfc_8448),
        cmocka_unit_test(test_the_next_record_opens_with_what_was_noted),
        cmocka_unit_test(test_old_versions_and_small_records_are_not_for_the_kernel),
        cmocka_unit_test(test_new_keys_are_noticed_only_if_they_are_ours),
        cmocka_unit_test(test_what_the_session_would_have_said_is_noted),
        cmocka_unit_test(test_without_memory_nothing_is_noted),
        cmocka_unit_test(test_a_kernel_that_refuses_leaves_the_socket_as_it_is),
        cmocka_unit_test(test_the_kernel_continues_where_the_session_has_stopped),
    };
    if (uvhttp__tls_development_pem(&certificate, &key) != UVHTTP_OK) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    uvhttp__free(certificate);
    uvhttp__free(key);
    return failed;
}
