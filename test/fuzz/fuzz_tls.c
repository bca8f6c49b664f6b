/* Owns: fuzzing of a peer's bytes on a port that speaks TLS (libFuzzer): a whole TCP server per backend on a libuv
 * loop that this program runs, and a client on a Unix socket. Input: a byte that chooses, then
 *   even: the peer's bytes from the first on, sent in parts (a byte for the size, then so many bytes);
 *   odd:  a client of OpenSSL shakes hands; the bits of the byte are below. Then the input says what it sends: records,
 *         raw bytes, key updates, an end.
 * In both, a bit chooses the backend.
 * The last byte of what has arrived at once tells the server's handler what to do besides the echo: see act().
 * What the handler gets has to be what the client has sent, and what the client reads what the handler has sent, all of
 * it unless one has gone away, or up to where something was falsified. */
/* Needs: tls. */
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>
#include <uvhttp.h>

enum {
    TLS_1_2 = 2,     /* at most */
    FALSIFY = 4,     /* triples of the input (place, change) falsify the client's flights */
    RESUME = 8,      /* with the ticket of an earlier handshake */
    EXTENSIONS = 16, /* the input has the server name and the list for ALPN, each with its size in front */
    CERTIFICATE = 32,
    LAZY = 64, /* reads only when the input says so, and at the end */
    IO_URING = 128
};

enum {
    BACKENDS = 2,
    ROUNDS = 4,
    FLIGHTS_MAX = 12,
    STEPS_MAX = 40,
    REPORTED_MAX = 1 << 16,
    OUTPUT_MAX = 1 << 20,
    LARGE = 100000
};

static uv_loop_t loop;
static SSL_CTX *clients;
static SSL_SESSION *tickets[2]; /* of TLS 1.3 and 1.2 */
static X509 *client_certificate;
static EVP_PKEY *client_key;
/* By backend. */
static struct sockaddr_un addresses[BACKENDS];
static socklen_t address_sizes[BACKENDS];
static char reported[REPORTED_MAX], sent[REPORTED_MAX], output[OUTPUT_MAX];
static size_t reported_size, sent_size, output_size;
static unsigned opened;
static uvhttp_tcp_t *paused;
static bool left, reset; /* the server's handler has left the connection, by a reset */

static void die(const char *what) {
    fprintf(stderr, "fuzz_tls: %s\n", what);
    abort();
}

/* --- the server --- */

static void send_back(uvhttp_tcp_t *tcp, const char *data, size_t size) {
    if (size > sizeof output - output_size || uvhttp_tcp_send(tcp, data, size, NULL) != UVHTTP_OK) return;
    memcpy(output + output_size, data, size);
    output_size += size;
}

static void act(uvhttp_tcp_t *tcp, char command) {
    static char large[LARGE];
    switch (command) {
        case 'L':
            for (size_t i = 0; i < sizeof large; i++) large[i] = (char)(output_size + i);
            send_back(tcp, large, sizeof large);
            break;
        case 'M':
            for (int i = 0; i < 100; i++) send_back(tcp, "many small ones", 1 + (size_t)i % 15);
            break;
        case 'P':
            uvhttp_tcp_pause(tcp);
            paused = tcp;
            break;
        case 'S': uvhttp_tcp_shutdown(tcp); break;
        case 'C':
            left = true;
            uvhttp_tcp_close(tcp);
            break;
        case 'R':
            left = reset = true;
            uvhttp_tcp_reset(tcp);
            break;
        default: break;
    }
}

static void on_open(uvhttp_tcp_t *tcp, void *user) {
    (void)user;
    opened++;
    const char *subject = uvhttp_tcp_client_subject(tcp);
    if (subject && strcmp(subject, "CN=client") != 0) die("another client");
}

static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    if (left) die("data behind the end");
    if (reported_size + size > sizeof reported) die("more than was sent");
    memcpy(reported + reported_size, data, size);
    reported_size += size;
    char command = data[size - 1];
    send_back(tcp, data, size);
    act(tcp, command);
}

static void on_close(uvhttp_tcp_t *tcp, int status, void *user) {
    (void)status, (void)user;
    left = true;
    if (paused == tcp) paused = NULL;
}

/* What has waited comes, and may pause again. */
static void resume(void) {
    uvhttp_tcp_t *tcp = paused;
    paused = NULL;
    if (tcp) uvhttp_tcp_resume(tcp);
}

/* --- certificates --- */

static void make_certificate(const char *name, X509 **made, EVP_PKEY **key) {
    X509 *x509 = X509_new();
    *key = EVP_EC_gen("P-256");
    if (!x509 || !*key) die("no memory");
    X509_NAME *subject = X509_get_subject_name(x509);
    (void)X509_set_version(x509, 2);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(x509), -86400);
    (void)X509_gmtime_adj(X509_getm_notAfter(x509), 86400L * 365);
    (void)X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    (void)X509_set_issuer_name(x509, subject);
    (void)X509_set_pubkey(x509, *key);
    if (X509_sign(x509, *key, EVP_sha256()) == 0) die("no certificate");
    *made = x509;
}

static const void *pem(X509 *x509, EVP_PKEY *key, size_t *size) {
    static char texts[5][2048];
    static unsigned used;
    BIO *memory = BIO_new(BIO_s_mem());
    if (!memory || used == 5 ||
        (x509 ? PEM_write_bio_X509(memory, x509) : PEM_write_bio_PrivateKey(memory, key, NULL, NULL, 0, NULL, NULL)) !=
            1)
        die("no PEM");
    int got = BIO_read(memory, texts[used], sizeof texts[used]);
    if (got <= 0 || (size_t)got == sizeof texts[used]) die("no PEM");
    BIO_free(memory);
    *size = (size_t)got;
    return texts[used++];
}

static uvhttp_tls_t *make_tls(void) {
    static uvhttp_tls_certificate_t sites[2];
    static const char *const names[] = {"localhost", "*.site.example"};
    uvhttp_tls_options_t options = {
        .certificates = sites, .certificate_count = 2, .alpn = "h2,http/1.1", .clients = UVHTTP_TLS_CLIENTS_VERIFY};
    for (size_t i = 0; i < 2; i++) {
        X509 *x509;
        EVP_PKEY *key;
        make_certificate(names[i], &x509, &key);
        sites[i].certificate = pem(x509, NULL, &sites[i].certificate_size);
        sites[i].key = pem(NULL, key, &sites[i].key_size);
        X509_free(x509);
        EVP_PKEY_free(key);
    }
    make_certificate("client", &client_certificate, &client_key);
    options.client_ca = pem(client_certificate, NULL, &options.client_ca_size);
    return uvhttp_tls_new(&options);
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
    size_t read_size; /* of the output */
    bool falsified;
    bool over; /* there is no server any more */
    bool deaf; /* the client reads no more: OpenSSL ends when the server refuses to renegotiate */
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

static void connect_to_server(peer_t *peer, uint8_t choice) {
    int backend = choice & IO_URING ? 1 : 0;
    peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer->fd < 0 || connect(peer->fd, (const struct sockaddr *)&addresses[backend], address_sizes[backend]) != 0)
        die("no connection");
    reported_size = sent_size = output_size = opened = 0;
    left = reset = false;
    paused = NULL;
}

static void put(peer_t *peer, const void *data, size_t size) {
    if (size > 0 && send(peer->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size) peer->over = true;
    run_loop();
}

/* What OpenSSL has for the server goes there. */
static void flush(peer_t *peer, bool falsify) {
    char data[1 << 16];
    int size = BIO_read(SSL_get_wbio(peer->ssl), data, sizeof data);
    if (size > 0 && falsify && peer->left >= 3) {
        size_t place = ((size_t)take(peer) << 8 | take(peer)) % (size_t)size;
        char change = (char)take(peer);
        data[place] = (char)(data[place] ^ change);
        peer->falsified |= change != 0;
    }
    if (size > 0) put(peer, data, (size_t)size);
}

/* What the server has for OpenSSL comes here. False: nothing. */
static bool fetch(peer_t *peer) {
    char data[1 << 16];
    ssize_t got = recv(peer->fd, data, sizeof data, MSG_DONTWAIT);
    if (got > 0) (void)BIO_write(SSL_get_rbio(peer->ssl), data, (int)got);
    return got > 0;
}

static void read_records(peer_t *peer) {
    char data[1 << 14];
    int size;
    while ((size = SSL_read(peer->ssl, data, sizeof data)) > 0) {
        if ((size_t)size > output_size - peer->read_size) die("more came than the handler has sent");
        if (memcmp(data, output + peer->read_size, (size_t)size) != 0) die("changed on the way to the client");
        peer->read_size += (size_t)size;
    }
}

static void send_record(peer_t *peer) {
    const uint8_t *bytes;
    size_t size = take_bytes(peer, 255, &bytes);
    if (size == 0 || SSL_write(peer->ssl, bytes, (int)size) <= 0) return;
    if (peer->falsified) return; /* it may arrive or not */
    memcpy(sent + sent_size, bytes, size);
    sent_size += size;
}

static void step(peer_t *peer, bool lazy) {
    const uint8_t *bytes;
    size_t size;
    uint8_t what = take(peer);
    switch (what % 7) {
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
        case 4: peer->deaf |= SSL_renegotiate(peer->ssl) == 1; break;
        case 5: lazy = false; break;
        default: (void)SSL_shutdown(peer->ssl); break;
    }
    if (what % 7 == 3 || what % 7 == 4) (void)SSL_do_handshake(peer->ssl);
    flush(peer, what & 128);
    if (lazy) return;
    (void)fetch(peer);
    read_records(peer);
    if (paused && what & 32) {
        resume();
        run_loop();
    }
}

/* Reads all that is under way, as long as there is more, on either side. */
static void read_rest(peer_t *peer) {
    do {
        resume();
        flush(peer, false);
        run_loop();
        read_records(peer);
    } while (fetch(peer) || paused);
}

static void set_extensions(peer_t *peer) {
    char name[256];
    const uint8_t *bytes;
    size_t size = take_bytes(peer, 255, &bytes);
    memcpy(name, bytes, size);
    name[size] = '\0';
    (void)SSL_set_tlsext_host_name(peer->ssl, name);
    size = take_bytes(peer, 255, &bytes);
    (void)SSL_set_alpn_protos(peer->ssl, bytes, (unsigned)size);
}

static void set_client(peer_t *peer, uint8_t choice) {
    peer->ssl = SSL_new(clients);
    if (!peer->ssl) die("no memory");
    SSL_set_bio(peer->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    (void)SSL_set_tlsext_host_name(peer->ssl, "localhost");
    if (choice & TLS_1_2) SSL_set_max_proto_version(peer->ssl, TLS1_2_VERSION);
    if (choice & RESUME) (void)SSL_set_session(peer->ssl, tickets[choice & TLS_1_2 ? 1 : 0]);
    if (choice & EXTENSIONS) set_extensions(peer);
    if (choice & CERTIFICATE &&
        (SSL_use_certificate(peer->ssl, client_certificate) != 1 || SSL_use_PrivateKey(peer->ssl, client_key) != 1))
        die("no certificate for the client");
}

static bool shake_hands(peer_t *peer, bool falsify) {
    bool done = false;
    for (int i = 0; i < FLIGHTS_MAX && !done; i++) {
        done = SSL_connect(peer->ssl) == 1;
        flush(peer, falsify);
        (void)fetch(peer);
    }
    return done;
}

/* OpenSSL takes no session up again that has ended without close_notify. */
static void end_client(peer_t *peer) {
    SSL_set_shutdown(peer->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(peer->ssl);
}

static void play_client(peer_t *peer, uint8_t choice) {
    set_client(peer, choice);
    bool done = shake_hands(peer, choice & FALSIFY);
    if (!done && !peer->falsified && !(choice & EXTENSIONS)) die("no handshake"); /* ALPN without a common protocol */
    for (int i = 0; i < STEPS_MAX && done && peer->left > 0 && !peer->over; i++) step(peer, choice & LAZY);
    if (done) read_rest(peer);
    if (memcmp(reported, sent, reported_size < sent_size ? reported_size : sent_size) != 0) die("changed on the way");
    if (done && !peer->falsified) {
        if (!left && reported_size != sent_size) die("not all that was sent has arrived");
        if (!reset && !peer->deaf && peer->read_size != output_size) die("not all that the handler has sent has come");
    }
    end_client(peer);
}

static void play_bytes(peer_t *peer) {
    while (peer->left > 0) {
        const uint8_t *bytes;
        size_t piece = take_bytes(peer, 255, &bytes);
        put(peer, bytes, piece);
    }
    if (opened || reported_size) die("a connection without keys");
}

static void leave(const peer_t *peer) {
    close(peer->fd);
    resume();
    run_loop();
    run_loop();
    if (opened && !left) die("a connection without a client");
}

static void get_ticket(uint8_t choice, SSL_SESSION **ticket) {
    peer_t peer = {.fd = -1};
    connect_to_server(&peer, choice);
    set_client(&peer, choice);
    if (!shake_hands(&peer, false)) die("no handshake for a ticket");
    read_rest(&peer);
    SSL_SESSION_free(*ticket);
    *ticket = SSL_get1_session(peer.ssl);
    if (SSL_session_reused(peer.ssl) != (choice & RESUME ? 1 : 0)) die("a ticket is not accepted");
    end_client(&peer);
    if (!SSL_SESSION_is_resumable(*ticket)) die("no ticket");
    leave(&peer);
}

/* Where the kernel has no io_uring, both are on epoll. */
static void make_server(int backend, uvhttp_tls_t *tls) {
    static const uvhttp_tcp_handlers_t handlers = {.on_open = on_open, .on_data = on_data, .on_close = on_close};
    uvhttp_tcp_config_t config;
    uvhttp_tcp_config_default(&config);
    config.engine = backend == 1 ? UVHTTP_ENGINE_AUTO : UVHTTP_ENGINE_EPOLL;
    if (backend == 1) config.read_buffer_size = 1024;
    struct sockaddr_un *address = &addresses[backend];
    char text[64];
    int size = snprintf(text, sizeof text, "unix:@uvhttp-fuzz-tls-%d-%d", (int)getpid(), backend);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, text + 6, (size_t)size - 6);
    address_sizes[backend] = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size - 6);
    uvhttp_tcp_server_t *server = uvhttp_tcp_server_new(&config, &handlers, NULL);
    if (!server || uvhttp_tcp_server_attach(server, &loop) != UVHTTP_OK ||
        uvhttp_tcp_server_listen_tls(server, text, tls, NULL) != UVHTTP_OK)
        die("no server");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    clients = SSL_CTX_new(TLS_client_method());
    uvhttp_tls_t *tls = make_tls();
    if (!clients || !tls || uv_loop_init(&loop) != 0) die("no memory");
    for (int backend = 0; backend < BACKENDS; backend++) make_server(backend, tls);
    uvhttp_tls_release(tls);
    for (uint8_t resume = 0; resume <= RESUME; resume += RESUME) {
        get_ticket(resume | CERTIFICATE, &tickets[0]);
        get_ticket(resume | CERTIFICATE | TLS_1_2, &tickets[1]);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    peer_t peer = {.fd = -1, .in = data, .left = size};
    uint8_t choice = take(&peer);
    connect_to_server(&peer, choice);
    if (choice & 1)
        play_client(&peer, choice);
    else
        play_bytes(&peer);
    leave(&peer);
    return 0;
}
