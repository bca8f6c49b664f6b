/* Owns: fuzzing of a peer's bytes on a port that speaks TLS (libFuzzer): a whole TCP server on a libuv loop that this
 * program runs, and a client on a Unix socket. Input: a byte that chooses, then
 *   even: the peer's bytes from the first on, sent in parts (a byte for the size, then so many bytes);
 *   odd:  a client of OpenSSL (bit 1: TLS 1.2 at most) shakes hands, while pairs of the input (place, change) falsify
 *         its flights if bit 2 is set; then the input says what it sends: records, raw bytes, key updates, an end.
 * What the server's handler gets has to be what the client has sent, up to where something was falsified. */
/* Needs: tls. */
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>
#include <uvhttp.h>

enum { ROUNDS = 4, FLIGHTS_MAX = 12, STEPS_MAX = 40, REPORTED_MAX = 1 << 16 };

static uv_loop_t loop;
static SSL_CTX *clients;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_size;
static char reported[REPORTED_MAX], sent[REPORTED_MAX];
static size_t reported_size, sent_size;
static unsigned opened;

static void die(const char *what) {
    fprintf(stderr, "fuzz_tls: %s\n", what);
    abort();
}

/* --- the server --- */

static void on_open(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp, (void)user;
    opened++;
}

static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    if (reported_size + size > sizeof reported) die("more than was sent");
    memcpy(reported + reported_size, data, size);
    reported_size += size;
    (void)uvhttp_tcp_send(tcp, data, size, NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    static const uvhttp_tcp_handlers_t handlers = {.on_open = on_open, .on_data = on_data};
    char text[64];
    int size = snprintf(text, sizeof text, "unix:@uvhttp-fuzz-tls-%d", (int)getpid());
    memcpy(address.sun_path + 1, text + 6, (size_t)size - 6);
    address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size - 6);
    clients = SSL_CTX_new(TLS_client_method());
    uvhttp_tls_t *tls = uvhttp_tls_development(NULL);
    uvhttp_tcp_server_t *server = uvhttp_tcp_server_new(NULL, &handlers, NULL);
    if (!clients || !tls || !server || uv_loop_init(&loop) != 0 ||
        uvhttp_tcp_server_attach(server, &loop) != UVHTTP_OK ||
        uvhttp_tcp_server_listen_tls(server, text, tls, NULL) != UVHTTP_OK)
        die("no server");
    uvhttp_tls_release(tls);
    return 0;
}

static void run_loop(void) {
    for (int i = 0; i < ROUNDS; i++) uv_run(&loop, UV_RUN_NOWAIT);
}

/* --- the peer --- */

typedef struct peer {
    int fd;
    SSL *ssl;
    const uint8_t *in;
    size_t left;
    bool falsified;
} peer_t;

static uint8_t take(peer_t *peer) {
    if (peer->left == 0) return 0;
    peer->left--;
    return *peer->in++;
}

static size_t take_bytes(peer_t *peer, size_t most, const uint8_t **bytes) {
    size_t size = take(peer);
    if (size > most) size = most;
    if (size > peer->left) size = peer->left;
    *bytes = peer->in;
    peer->in += size;
    peer->left -= size;
    return size;
}

static void put(peer_t *peer, const void *data, size_t size) {
    (void)send(peer->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    run_loop();
}

/* What OpenSSL has for the server goes there, and what the server has for OpenSSL comes here. */
static void exchange(peer_t *peer, bool falsify) {
    char data[1 << 16];
    int size = BIO_read(SSL_get_wbio(peer->ssl), data, sizeof data);
    if (size > 0 && falsify && peer->left >= 3) {
        size_t place = ((size_t)take(peer) << 8 | take(peer)) % (size_t)size;
        char change = (char)take(peer);
        data[place] = (char)(data[place] ^ change);
        peer->falsified |= change != 0;
    }
    if (size > 0) put(peer, data, (size_t)size);
    ssize_t got = recv(peer->fd, data, sizeof data, MSG_DONTWAIT);
    if (got > 0) (void)BIO_write(SSL_get_rbio(peer->ssl), data, (int)got);
}

static void send_record(peer_t *peer) {
    const uint8_t *bytes;
    size_t size = take_bytes(peer, 255, &bytes);
    if (size == 0 || SSL_write(peer->ssl, bytes, (int)size) <= 0) return;
    if (peer->falsified) return; /* it may arrive or not */
    memcpy(sent + sent_size, bytes, size);
    sent_size += size;
}

static void step(peer_t *peer) {
    const uint8_t *bytes;
    size_t size;
    char back[4096];
    uint8_t what = take(peer);
    switch (what % 6) {
        case 0:
        case 1: send_record(peer); break;
        case 2:
            size = take_bytes(peer, 255, &bytes);
            peer->falsified |= size > 0;
            put(peer, bytes, size);
            break;
        case 3:
            (void)SSL_key_update(peer->ssl, what & 64 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
            break;
        case 4: (void)SSL_renegotiate(peer->ssl); break;
        default: (void)SSL_shutdown(peer->ssl); break;
    }
    if (what % 6 == 3 || what % 6 == 4) (void)SSL_do_handshake(peer->ssl);
    exchange(peer, what & 128);
    (void)SSL_read(peer->ssl, back, sizeof back);
}

static void shake_hands(peer_t *peer, uint8_t choice) {
    peer->ssl = SSL_new(clients);
    if (!peer->ssl) die("no memory");
    if (choice & 2) SSL_set_max_proto_version(peer->ssl, TLS1_2_VERSION);
    SSL_set_bio(peer->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    (void)SSL_set_tlsext_host_name(peer->ssl, "localhost");
    bool done = false;
    for (int i = 0; i < FLIGHTS_MAX && !done; i++) {
        done = SSL_connect(peer->ssl) == 1;
        exchange(peer, choice & 4);
    }
    if (!done && !peer->falsified) die("no handshake");
    for (int i = 0; i < STEPS_MAX && done && peer->left > 0; i++) step(peer);
    SSL_free(peer->ssl);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    peer_t peer = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), .in = data, .left = size};
    reported_size = sent_size = opened = 0;
    if (peer.fd < 0 || connect(peer.fd, (const struct sockaddr *)&address, address_size) != 0) die("no connection");
    uint8_t choice = take(&peer);
    if (choice & 1) {
        shake_hands(&peer, choice);
        if (!peer.falsified && reported_size != sent_size) die("not what was sent has arrived");
        if (memcmp(reported, sent, reported_size < sent_size ? reported_size : sent_size) != 0)
            die("changed on the way");
    } else {
        while (peer.left > 0) {
            const uint8_t *bytes;
            size_t piece = take_bytes(&peer, 255, &bytes);
            put(&peer, bytes, piece);
        }
        if (opened || reported_size) die("a connection without keys");
    }
    close(peer.fd);
    run_loop();
    run_loop();
    return 0;
}
