/* The TCP server over TLS, on both engines: an echo with a client of OpenSSL, every allocation of ours failing once.
 * The fixture's on_open and on_close are those of a plain connection. */
/* Needs: tls. */
#include <openssl/ssl.h>

#include <cmocka.h>
#include <signal.h>

#include "support/failing_allocator.h"
#include "support/tcp_server.h"

#include <uvhttp/tls.h>

static uvhttp_tls_t *tls;

static void start_tls(fixture_t *fixture) {
    fixture_make(fixture);
    assert_int_equal(uvhttp_tcp_server_listen_tls(fixture->server, "127.0.0.1:0", tls, &fixture->port), UVHTTP_OK);
    fixture_run(fixture);
}

typedef struct client {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
} client_t;

/* A signal (io_uring's, a sleeping thread's) may interrupt a blocking call. */
static bool again(client_t *client, int result) {
    return result <= 0 && SSL_get_error(client->ssl, result) == SSL_ERROR_WANT_READ;
}

/* Whether the handshake succeeded. */
static bool client_open(client_t *client, uint16_t port) {
    client->ctx = SSL_CTX_new(TLS_client_method());
    client->ssl = SSL_new(client->ctx);
    client->fd = client_connect(port);
    SSL_set_fd(client->ssl, client->fd);
    int done;
    do {
        done = SSL_connect(client->ssl);
    } while (again(client, done));
    return done == 1;
}

static void client_close(client_t *client) {
    SSL_free(client->ssl);
    SSL_CTX_free(client->ctx);
    close(client->fd);
}

static bool receive(client_t *client, char *data, int size) {
    for (int got = 0; got < size;) {
        int part = SSL_read(client->ssl, data + got, size - got);
        if (again(client, part)) continue;
        if (part <= 0) return false;
        got += part;
    }
    return true;
}

static bool echo(client_t *client, const char *data, int size) {
    char back[70000];
    if (SSL_write(client->ssl, data, size) != size) return false;
    return receive(client, back, size) && memcmp(data, back, (size_t)size) == 0;
}

static void start_and_open(fixture_t *fixture, client_t *client) {
    start_tls(fixture);
    assert_true(client_open(client, fixture->port));
    assert_true(echo(client, "ping", 4));
}

/* The client leaves first. */
static void close_and_stop(fixture_t *fixture, client_t *client) {
    client_close(client);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
}

static void test_echo_and_the_clients_end(void **state) {
    fixture_t *fixture = *state;
    start_tls(fixture);
    static char data[60000];
    memset(data, 'x', sizeof data);
    client_t client;
    assert_true(client_open(&client, fixture->port));
    wait_seen(fixture, SEEN_OPEN, 1);
    assert_true(echo(&client, "ping", 4));
    assert_true(echo(&client, data, sizeof data));
    assert_int_equal(SSL_shutdown(client.ssl), 0);
    assert_int_equal(SSL_shutdown(client.ssl), 1); /* the server's close_notify */
    wait_seen(fixture, SEEN_CLOSE_OK, 1);
    close_and_stop(fixture, &client);
}

static void test_an_end_without_close_notify_is_reported_as_aborted(void **state) {
    fixture_t *fixture = *state;
    client_t client;
    start_and_open(fixture, &client);
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    wait_seen(fixture, SEEN_CLOSE_ABORTED, 1);
    close_and_stop(fixture, &client);
}

static void test_a_connection_without_a_handshake_is_never_seen(void **state) {
    fixture_t *fixture = *state;
    start_tls(fixture);
    int fd = dial(fixture);
    client_send(fd, "GET / HTTP/1.1\r\n\r\n", 18);
    char first[12];
    assert_int_equal(recv(fd, first, sizeof first, MSG_WAITALL), sizeof first);
    assert_memory_equal(first, "HTTP/1.1 400", 12);
    int silent = dial(fixture);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK); /* and it keeps nobody from stopping */
    assert_int_equal(fixture_seen(fixture, SEEN_OPEN), 0);
    close(fd);
    close(silent);
}

static void test_listening_without_tls_is_refused(void **state) {
    fixture_t *fixture = *state;
    fixture_make(fixture);
    assert_int_equal(uvhttp_tcp_server_listen_tls(fixture->server, "127.0.0.1:0", NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_tcp_server_listen_tls(fixture->server, "nowhere", tls, NULL), UVHTTP_E_ADDRESS);
    assert_int_equal(uvhttp_tcp_server_listen_tls(NULL, "127.0.0.1:0", tls, NULL), UVHTTP_E_INVALID);
}

static void test_a_message_allocates_nothing_of_ours(void **state) {
    fixture_t *fixture = *state;
    start_tls(fixture);
    client_t client;
    assert_true(client_open(&client, fixture->port));
    for (int i = 0; i < 10; i++) assert_true(echo(&client, "ping", 4));
    size_t before = test_allocator_count();
    for (int i = 0; i < 200; i++) assert_true(echo(&client, "ping", 4));
    assert_int_equal(test_allocator_count(), before);
    close_and_stop(fixture, &client);
}

enum { QUEUED_SIZE = 1 << 20 };

static char queued[QUEUED_SIZE];

static void send_last(void *arg) {
    fixture_t *fixture = arg;
    fixture_saw(fixture, SEEN_RELEASE, 1);
    (void)uvhttp_tcp_send(fixture->tcp, "last", 4, NULL);
}

static void send_queued(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    fixture->tcp = tcp;
    (void)uvhttp_tcp_send_ref(tcp, "first", 5, send_last, fixture);
    (void)uvhttp_tcp_send_ref(tcp, queued, sizeof queued, count_release, fixture);
}

/* The first piece is encrypted together with a part of the second one. */
static void test_what_release_sends_comes_behind_what_is_queued(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_data = send_queued;
    fixture->config.write_high_watermark = 2 * QUEUED_SIZE;
    memset(queued, 'q', sizeof queued);
    start_tls(fixture);
    client_t client;
    static char got[5 + QUEUED_SIZE + 4];
    assert_true(client_open(&client, fixture->port));
    assert_int_equal(SSL_write(client.ssl, "go", 2), 2);
    assert_true(receive(&client, got, sizeof got));
    assert_memory_equal(got, "first", 5);
    assert_memory_equal(got + 5, queued, sizeof queued);
    assert_memory_equal(got + 5 + sizeof queued, "last", 4);
    wait_seen(fixture, SEEN_RELEASE, 2);
    close_and_stop(fixture, &client);
}

static void update_keys(client_t *client) {
    if (SSL_version(client->ssl) != TLS1_3_VERSION) return; /* mbedTLS */
    assert_int_equal(SSL_key_update(client->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(client->ssl), 1);
}

static void end_own_half(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    swallow_data(tcp, data, size, user);
    uvhttp_tcp_shutdown(tcp);
}

/* A key update that is asked for then has no reply, which needs none (RFC 8446 section 4.6.3). */
static void test_what_a_client_sends_under_new_keys_arrives_after_the_servers_end(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_data = end_own_half;
    start_tls(fixture);
    client_t client;
    assert_true(client_open(&client, fixture->port));
    assert_int_equal(SSL_write(client.ssl, "first", 5), 5);
    int result;
    do {
        result = SSL_read(client.ssl, (char[1]){0}, 1);
    } while (again(&client, result));
    assert_int_equal(SSL_get_error(client.ssl, result), SSL_ERROR_ZERO_RETURN);
    for (int i = 1; i <= 2; i++) {
        update_keys(&client);
        assert_int_equal(SSL_write(client.ssl, "and more", 8), 8);
        wait_seen(fixture, SEEN_BYTES, 5 + 8 * (uint64_t)i);
    }
    assert_int_equal(SSL_shutdown(client.ssl), 1);
    wait_seen(fixture, SEEN_CLOSE_OK, 1);
    close_and_stop(fixture, &client);
}

/* Each request for a key update gets a response by one of ours, which waits while the client does not read. */
static bool cut_off(fixture_t *fixture) {
    return fixture_seen(fixture, SEEN_CLOSE_OTHER) + fixture_seen(fixture, SEEN_CLOSE_TIMEOUT) > 0;
}

/* The reason is the limit; or the time, where a busy machine does not get the alert out within it. */
static void wait_cut_off(fixture_t *fixture) {
    for (uint64_t end_ms = clock_ms() + TIMEOUT_MS; !cut_off(fixture) && clock_ms() < end_ms;) poll(NULL, 0, 5);
    assert_true(cut_off(fixture));
}

static void test_a_flood_of_key_updates_is_cut_off(void **state) {
    fixture_t *fixture = *state;
    client_t client;
    start_and_open(fixture, &client);
    /* TLS 1.2, where there are none: mbedTLS. */
    for (int i = 0; i < 8000 && SSL_version(client.ssl) == TLS1_3_VERSION; i++) {
        if (SSL_key_update(client.ssl, SSL_KEY_UPDATE_REQUESTED) != 1) break;
        if (SSL_do_handshake(client.ssl) != 1) break;
    }
    if (SSL_version(client.ssl) == TLS1_3_VERSION) wait_cut_off(fixture);
    close_and_stop(fixture, &client);
}

/* The server bears it, and serves the next client. */
static void test_allocations_that_fail_cost_one_connection(void **state) {
    fixture_t *fixture = *state;
    client_t client;
    start_and_open(fixture, &client);
    client_close(&client);
    for (size_t n = 1; n <= 12; n++) {
        test_allocator_fail_at(n);
        if (client_open(&client, fixture->port)) (void)echo(&client, "ping", 4);
        client_close(&client);
        test_allocator_fail_at(0);
    }
    assert_true(client_open(&client, fixture->port));
    assert_true(echo(&client, "ping", 4));
    close_and_stop(fixture, &client);
}

int main(void) {
    test_allocator_install();
    signal(SIGPIPE, SIG_IGN); /* the client writes to what the server has closed */
    tls = uvhttp_tls_development(NULL);
    const struct CMUnitTest tests[] = {
        ON_ENGINES(test_what_release_sends_comes_behind_what_is_queued),
        ON_ENGINES(test_echo_and_the_clients_end),
        ON_ENGINES(test_an_end_without_close_notify_is_reported_as_aborted),
        ON_ENGINES(test_a_connection_without_a_handshake_is_never_seen),
        ON_ENGINES(test_listening_without_tls_is_refused),
        ON_ENGINES(test_what_a_client_sends_under_new_keys_arrives_after_the_servers_end),
        ON_ENGINES(test_a_message_allocates_nothing_of_ours),
        ON_ENGINES(test_a_flood_of_key_updates_is_cut_off),
        ON_ENGINES(test_allocations_that_fail_cost_one_connection),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    uvhttp_tls_release(tls);
    return failed;
}
