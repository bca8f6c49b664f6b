/* Owns: tests of a client's KeyUpdate (RFC 8446 section 4.6.3) on a connection that the kernel encrypts, without such a
 * kernel: the two functions of ktls.c are defined here, and what "the kernel" sends stays plain text. So the client
 * reads TLS until the head of the file, and plain bytes from there on. ./dev ktls has the same with a real kernel. */
/* Needs: tls openssl. */
#include <openssl/ssl.h>

#include "support/http_server.h"
#include "tls/openssl.h"

#define FILE_SIZE ((size_t)8 << 20)

/* --- the kernel --- */

static atomic_int consumed, notified, alerts;

bool uvhttp__ktls_start(int fd, const uvhttp__tls_sending_t *sending, uint8_t *refuses) {
    (void)fd, (void)sending;
    *refuses = 0;
    atomic_fetch_add(&consumed, 1);
    return true;
}

int uvhttp__ktls_alert(int fd, const unsigned char *alert) {
    (void)fd;
    atomic_fetch_add(alert[0] == 1 && alert[1] == 0 ? &notified : &alerts, 1);
    return UVHTTP_OK;
}

/* --- the server --- */

static uvhttp_tls_t *tls;
static char path[] = "/tmp/uvhttp-new-keys-XXXXXX";
static _Atomic(uvhttp_deferred_t *) slot;

static void send_file(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (uvhttp_response_send_file(res, 200, NULL, path) != UVHTTP_OK) abort();
}

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&slot, uvhttp_response_defer(res));
}

static void start(serving_t *serving) {
    atomic_store(&consumed, 0);
    atomic_store(&notified, 0);
    atomic_store(&alerts, 0);
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/file", send_file, NULL));
    assert_non_null(uvhttp_get(serving->server, "/later", defer, NULL));
    assert_int_equal(uvhttp_server_listen_tls(serving->server, "127.0.0.1:0", tls, &serving->port), UVHTTP_OK);
    serving_run(serving);
}

/* --- the client --- */

typedef struct client {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
} client_t;

static void ask(client_t *client, const char *text) {
    assert_int_equal(SSL_write(client->ssl, text, (int)strlen(text)), (int)strlen(text));
}

static void read_body(client_t *client, size_t size) {
    static char part[65536];
    while (size > 0) {
        ssize_t got = client_receive_some(client->fd, part, size < sizeof part ? size : sizeof part);
        if (got <= 0) fail_msg("%zu bytes are missing", size);
        for (ssize_t i = 0; i < got; i++) assert_int_equal(part[i], 'x');
        size -= (size_t)got;
    }
}

/* Asks for the file and reads its head, which is the last that comes as TLS. */
static client_t connect_and_ask_for_file(const serving_t *serving) {
    client_t client = {.ctx = SSL_CTX_new(TLS_client_method()), .fd = client_connect(serving->port)};
    char head[4096] = "";
    SSL_CTX_set_min_proto_version(client.ctx, TLS1_3_VERSION);
    client.ssl = SSL_new(client.ctx);
    SSL_set_fd(client.ssl, client.fd);
    assert_int_equal(SSL_connect(client.ssl), 1);
    ask(&client, GET("/file"));
    for (int size = 0; !strstr(head, "\r\n\r\n");) {
        int got = SSL_read(client.ssl, head + size, 1);
        assert_int_equal(got, 1);
        size += got;
    }
    assert_int_equal(SSL_pending(client.ssl), 0);
    WAIT_UNTIL(atomic_load(&consumed) == 1);
    return client;
}

static void update_keys(client_t *client, int kind) {
    assert_int_equal(SSL_key_update(client->ssl, kind), 1);
    assert_int_equal(SSL_do_handshake(client->ssl), 1);
}

static void close_client(client_t *client) {
    close(client->fd);
    SSL_free(client->ssl);
    SSL_CTX_free(client->ctx);
}

/* close_notify is said once, then FIN. */
static void expect_end(client_t *client) {
    client_expect_eof(client->fd);
    assert_int_equal(atomic_load(&notified), 1);
    assert_int_equal(atomic_load(&alerts), 0);
    close_client(client);
}

static bool has_ended(const serving_t *serving) {
    return uvhttp_server_counter(serving->server, "tls_kernel_ended") == 1;
}

/* --- tests --- */

static void test_a_file_in_progress_is_sent_whole(void **state) {
    start(*state);
    client_t client = connect_and_ask_for_file(*state);
    read_body(&client, 1000);
    update_keys(&client, SSL_KEY_UPDATE_REQUESTED);
    WAIT_UNTIL(has_ended(*state));
    read_body(&client, FILE_SIZE - 1000);
    expect_end(&client);
}

static void count_stop(uvhttp_response_t *res, void *user) {
    (void)res;
    atomic_fetch_add((atomic_int *)user, 1);
}

/* An owner that asks for the end is notified, also when it asks late. */
static void test_a_response_that_has_not_begun_is_sent(void **state) {
    start(*state);
    client_t client = connect_and_ask_for_file(*state);
    read_body(&client, FILE_SIZE);
    ask(&client, GET("/later"));
    WAIT_UNTIL(atomic_load(&slot));
    update_keys(&client, SSL_KEY_UPDATE_REQUESTED);
    WAIT_UNTIL(has_ended(*state));
    uvhttp_deferred_t *deferred = atomic_exchange(&slot, NULL);
    atomic_int stops = 0;
    assert_int_equal(uvhttp_deferred_on_stop(deferred, count_stop, &stops), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&stops) == 1);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "later"), UVHTTP_OK);
    client_response_t *response = client_read(client.fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "later");
    assert_non_null(strstr(response->text, "Connection: close\r\n"));
    uvhttp_deferred_release(deferred);
    expect_end(&client);
}

static void test_a_connection_that_owes_nothing_ends(void **state) {
    start(*state);
    client_t client = connect_and_ask_for_file(*state);
    read_body(&client, FILE_SIZE);
    update_keys(&client, SSL_KEY_UPDATE_REQUESTED);
    expect_end(&client);
    assert_true(has_ended(*state));
}

/* A client's own keys are its own affair: nothing is asked for. */
static void test_new_keys_of_the_client_alone_end_nothing(void **state) {
    start(*state);
    client_t client = connect_and_ask_for_file(*state);
    read_body(&client, FILE_SIZE);
    update_keys(&client, SSL_KEY_UPDATE_NOT_REQUESTED);
    for (int i = 0; i < 2; i++) {
        ask(&client, GET("/missing"));
        client_response_t *response = client_read(client.fd);
        assert_int_equal(response->status, 404);
        assert_null(strstr(response->text, "Connection: close"));
    }
    assert_false(has_ended(*state));
    assert_int_equal(atomic_load(&notified), 0);
    close_client(&client);
}

static void write_file(void) {
    static char part[65536];
    memset(part, 'x', sizeof part);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t size = 0; size < FILE_SIZE; size += sizeof part)
        assert_int_equal(write(fd, part, sizeof part), sizeof part);
    close(fd);
}

int main(void) {
    write_file();
    tls = uvhttp_tls_development(&(uvhttp_tls_options_t){.kernel_tls = true});
    assert_non_null(tls);
    const struct CMUnitTest tests[] = {
        ON_EACH(test_a_file_in_progress_is_sent_whole),
        ON_EACH(test_a_response_that_has_not_begun_is_sent),
        ON_EACH(test_a_connection_that_owes_nothing_ends),
        ON_EACH(test_new_keys_of_the_client_alone_end_nothing),
    };
    int failed = RUN_TABLE(tests);
    uvhttp_tls_release(tls);
    unlink(path);
    return failed;
}
