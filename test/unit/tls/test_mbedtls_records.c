/* Owns: tests of records that OpenSSL's client never sends, from a client of mbedTLS: empty ones, and data behind a
 * renegotiation. The server is the TCP server with an echo. */
/* Needs: tls mbedtls. */
#include <mbedtls/ssl_internal.h>
#include <sys/random.h>
#include <unistd.h>

#include "support/tcp_server.h"

#include <uvhttp/tls.h>

static uvhttp_tls_t *tls;

typedef struct client {
    mbedtls_ssl_config config;
    mbedtls_ssl_context ssl;
    int fd;
    char out[4096]; /* goes out in one send */
    size_t size;
    bool holds; /* what is written stays in `out` */
} client_t;

static int random_bytes(void *arg, unsigned char *memory, size_t size) {
    (void)arg;
    return getrandom(memory, size, 0) == (ssize_t)size ? 0 : -1;
}

static void flush(client_t *client) {
    client_send(client->fd, client->out, client->size);
    client->size = 0;
}

static int on_send(void *arg, const unsigned char *data, size_t size) {
    client_t *client = arg;
    assert_true(size <= sizeof client->out - client->size);
    memcpy(client->out + client->size, data, size);
    client->size += size;
    if (!client->holds) flush(client);
    return (int)size;
}

static int on_receive(void *arg, unsigned char *data, size_t size) {
    const client_t *client = arg;
    if (client->holds) return MBEDTLS_ERR_SSL_WANT_READ;
    ssize_t got;
    do {
        got = recv(client->fd, data, size, 0);
    } while (got < 0 && errno == EINTR);
    return (int)got;
}

static void start_and_open(fixture_t *fixture, client_t *client) {
    fixture_make(fixture);
    assert_int_equal(uvhttp_tcp_server_listen_tls(fixture->server, "127.0.0.1:0", tls, &fixture->port), UVHTTP_OK);
    fixture_run(fixture);
    *client = (client_t){.fd = client_connect(fixture->port)};
    mbedtls_ssl_config_init(&client->config);
    mbedtls_ssl_init(&client->ssl);
    assert_int_equal(mbedtls_ssl_config_defaults(&client->config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                                 MBEDTLS_SSL_PRESET_DEFAULT),
                     0);
    mbedtls_ssl_conf_authmode(&client->config, MBEDTLS_SSL_VERIFY_NONE);
    mbedtls_ssl_conf_rng(&client->config, random_bytes, NULL);
    mbedtls_ssl_conf_renegotiation(&client->config, MBEDTLS_SSL_RENEGOTIATION_ENABLED);
    assert_int_equal(mbedtls_ssl_setup(&client->ssl, &client->config), 0);
    mbedtls_ssl_set_bio(&client->ssl, client, on_send, on_receive, NULL);
    assert_int_equal(mbedtls_ssl_handshake(&client->ssl), 0);
}

static void close_and_stop(fixture_t *fixture, client_t *client) {
    mbedtls_ssl_free(&client->ssl);
    mbedtls_ssl_config_free(&client->config);
    close(client->fd);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
}

static void put(client_t *client, const char *data, size_t size) {
    assert_int_equal(mbedtls_ssl_write(&client->ssl, (const unsigned char *)data, size), size);
}

static void expect_back(client_t *client, const char *data, size_t size) {
    unsigned char back[64];
    for (size_t got = 0; got < size;) {
        int part = mbedtls_ssl_read(&client->ssl, back + got, size - got);
        if (part <= 0) fail_msg("read: -0x%x", (unsigned)-part);
        got += (size_t)part;
    }
    assert_memory_equal(back, data, size);
}

/* They hide how much is sent (RFC 5246 section 6.2.1). */
static void test_empty_records_are_no_error(void **state) {
    client_t client;
    start_and_open(*state, &client);
    for (size_t count = 1; count <= 3; count++) {
        client.holds = true;
        for (size_t i = 0; i < count; i++) put(&client, "", 0);
        put(&client, "ping", 4);
        client.holds = false;
        flush(&client);
        expect_back(&client, "ping", 4);
    }
    close_and_stop(*state, &client);
}

/* The library ends what would keep it busy for nothing. */
static void test_a_flood_of_empty_records_ends_the_connection(void **state) {
    client_t client;
    start_and_open(*state, &client);
    client.holds = true;
    for (size_t i = 0; i < 50; i++) put(&client, "", 0);
    flush(&client);
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0); /* or the server waits for that */
    wait_seen(*state, SEEN_CLOSE_OTHER, 1);
    close_and_stop(*state, &client);
}

/* A client may continue after the refusal (RFC 5246 section 7.2.2), and need not have waited for it. */
static void test_data_behind_a_refused_renegotiation_arrives(void **state) {
    client_t client;
    start_and_open(*state, &client);
    client.holds = true;
    assert_int_equal(mbedtls_ssl_renegotiate(&client.ssl), MBEDTLS_ERR_SSL_WANT_READ);
    client.ssl.state = MBEDTLS_SSL_HANDSHAKE_OVER;
    client.ssl.renego_status = MBEDTLS_SSL_RENEGOTIATION_DONE;
    put(&client, "ping", 4);
    flush(&client);
    wait_seen(*state, SEEN_BYTES, 4);
    close_and_stop(*state, &client);
}

int main(void) {
    tls = uvhttp_tls_development(NULL);
    if (!tls) return 1;
    const struct CMUnitTest tests[] = {
        ON_ENGINES(test_empty_records_are_no_error),
        ON_ENGINES(test_a_flood_of_empty_records_ends_the_connection),
        ON_ENGINES(test_data_behind_a_refused_renegotiation_arrives),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    uvhttp_tls_release(tls);
    return failed;
}
