/* Asks a pattern_server and checks every byte of every response. Keep-alive, requests pipelined by chance.
 *
 *   verify_client ADDRESS PORT CONNECTIONS RESPONSES [SEED [KINDS [tls]]]
 *
 * KINDS: letters of copy, ref, pieces, file (default "crp"), or "w": echoes of a WebSocket. tls: encrypted; a record
 * that cannot be decrypted is a wrong byte. Prints one line of JSON: responses verified, wrong ones, bytes, and
 * connections that the server broke off (a response cut short by that is no wrong one; no byte of it may be wrong all
 * the same). Exits with 1 if a byte was wrong, with 3 if nothing could be verified for 20 s. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef VERIFY_TLS
#include <openssl/ssl.h>
#endif

#include "pattern.h"

#define DEPTH_MAX 4
#define BUFFER_SIZE (2u << 20)
#define STALL_SECONDS 20

static struct sockaddr_in server;
static const char *kinds = "crp";
static atomic_llong left;
static atomic_llong verified, wrong, broken, bytes, stalled;
static atomic_uint_fast64_t next_seed;

typedef struct request {
    uint64_t seed;
    size_t size;
} request_t;

typedef struct client {
    pthread_t thread;
    uint64_t random;
    int fd;
    void *ssl;     /* NULL: plain */
    bool upgraded; /* speaks WebSocket */
    char *buffer;
    size_t begin, end;
} client_t;

static uint64_t draw(client_t *client) {
    client->random ^= client->random << 13;
    client->random ^= client->random >> 7;
    client->random ^= client->random << 17;
    return client->random;
}

/* 100 B to 1 MB, most of them small. */
static size_t draw_size(client_t *client) {
    uint64_t dice = draw(client) % 1000;
    if (dice < 800) return 100 + draw(client) % 4000;
    if (dice < 950) return 4096 + draw(client) % 60000;
    if (dice < 995) return 65536 + draw(client) % 340000;
    return 1000000;
}

static void complain(const request_t *request, size_t at, const char *what) {
    if (atomic_fetch_add(&wrong, 1) < 10)
        fprintf(stderr, "wrong: request %llu of %zu bytes: %s at %zu\n", (unsigned long long)request->seed,
                request->size, what, at);
}

/* --- bytes, plain or encrypted --- */

#ifdef VERIFY_TLS
static SSL_CTX *tls;

static void tls_init(void) {
    tls = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_mode(tls, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_options(tls, SSL_OP_IGNORE_UNEXPECTED_EOF);
}

static bool tls_open(client_t *client) {
    if (!tls) return true;
    client->ssl = SSL_new(tls);
    return SSL_set_fd(client->ssl, client->fd) == 1 && SSL_connect(client->ssl) == 1;
}

static void tls_close(client_t *client) {
    SSL_free(client->ssl);
    client->ssl = NULL;
}

static ssize_t tls_receive(client_t *client, char *data, size_t size) {
    static const request_t none;
    int got = SSL_read(client->ssl, data, size > INT32_MAX ? INT32_MAX : (int)size);
    if (got > 0) return got;
    int error = SSL_get_error(client->ssl, got);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    if (error == SSL_ERROR_SSL) complain(&none, 0, "a record that cannot be decrypted");
    if (error == SSL_ERROR_SSL) errno = EPROTO;
    return -1;
}

static bool tls_send(client_t *client, const char *data, size_t size) {
    return SSL_write(client->ssl, data, (int)size) == (int)size;
}
#else
static void tls_init(void) {
    fprintf(stderr, "verify_client: built without TLS\n");
    exit(77);
}

static bool tls_open(client_t *client) {
    (void)client;
    return true;
}

static void tls_close(client_t *client) {
    (void)client;
}

static ssize_t tls_receive(client_t *client, char *data, size_t size) {
    (void)client, (void)data, (void)size;
    return -1;
}

static bool tls_send(client_t *client, const char *data, size_t size) {
    (void)client, (void)data, (void)size;
    return false;
}
#endif

static ssize_t receive(client_t *client, char *data, size_t size) {
    return client->ssl ? tls_receive(client, data, size) : recv(client->fd, data, size, 0);
}

static bool send_all(client_t *client, const char *data, size_t size) {
    if (client->ssl) return tls_send(client, data, size);
    for (ssize_t sent; size > 0; data += sent, size -= (size_t)sent) {
        sent = send(client->fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0) return false;
    }
    return true;
}

static bool fill(client_t *client) {
    if (client->begin > 0) {
        memmove(client->buffer, client->buffer + client->begin, client->end - client->begin);
        client->end -= client->begin;
        client->begin = 0;
    }
    ssize_t got;
    do {
        got = receive(client, client->buffer + client->end, BUFFER_SIZE - client->end);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) atomic_fetch_add(&stalled, 1);
    if (got <= 0) return false;
    client->end += (size_t)got;
    return true;
}

/* Returns false if the connection has to be aborted. */
static bool expect(client_t *client, const request_t *request) {
    char *head, *end;
    for (;;) {
        head = client->buffer + client->begin;
        end = memmem(head, client->end - client->begin, "\r\n\r\n", 4);
        if (end) break;
        if (client->end - client->begin > 4096) {
            complain(request, 0, "a head without end");
            return false;
        }
        if (!fill(client)) return false;
    }
    *end = '\0';
    char expected[64];
    snprintf(expected, sizeof expected, "\r\nX-Seed: %llu", (unsigned long long)request->seed);
    const char *seed = strcasestr(head, expected), *length = strcasestr(head, "\r\nContent-Length: ");
    if (strncmp(head, "HTTP/1.1 5", 10) == 0) return false; /* out of memory, say: an honest response */
    bool good = strncmp(head, "HTTP/1.1 200 ", 13) == 0 && seed && length &&
                strtoull(length + 18, NULL, 10) == request->size &&
                (seed[strlen(expected)] == '\r' || seed[strlen(expected)] == '\0');
    if (!good) {
        complain(request, 0, "a foreign head");
        return false;
    }
    client->begin += (size_t)(end + 4 - head);
    while (client->end - client->begin < request->size)
        if (!fill(client)) {
            size_t part = client->end - client->begin,
                   at = pattern_check(client->buffer + client->begin, part & ~(size_t)7, request->seed);
            if (at < (part & ~(size_t)7)) complain(request, at, "a foreign byte in a part");
            return false;
        }
    size_t at = pattern_check(client->buffer + client->begin, request->size, request->seed);
    if (at < request->size) {
        complain(request, at, "a foreign byte");
        return false;
    }
    client->begin += request->size;
    atomic_fetch_add(&verified, 1);
    atomic_fetch_add(&bytes, (long long)request->size);
    return true;
}

static bool open_connection(client_t *client) {
    client->begin = client->end = 0;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = STALL_SECONDS};
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (draw(client) % 4 == 0) setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &(int){16384}, sizeof(int));
    client->upgraded = false;
    if (connect(client->fd, (struct sockaddr *)&server, sizeof server) == 0 && tls_open(client)) return true;
    tls_close(client);
    close(client->fd);
    return false;
}

static bool ask(client_t *client) {
    request_t requests[DEPTH_MAX];
    char text[DEPTH_MAX * 128];
    size_t used = 0;
    int depth = draw(client) % 4 == 0 ? 1 + (int)(draw(client) % DEPTH_MAX) : 1;
    for (int i = 0; i < depth; i++) {
        requests[i] = (request_t){atomic_fetch_add(&next_seed, 1), draw_size(client)};
        char kind = kinds[draw(client) % strlen(kinds)];
        const char *name = kind == 'r' ? "ref" : kind == 'p' ? "pieces" : kind == 'f' ? "file" : "copy";
        used += (size_t)snprintf(text + used, sizeof text - used, "GET /%s/%llu/%zu HTTP/1.1\r\nHost: x\r\n\r\n", name,
                                 (unsigned long long)requests[i].seed, requests[i].size);
    }
    if (!send_all(client, text, used)) return false;
    for (int i = 0; i < depth; i++)
        if (!expect(client, &requests[i])) return false;
    return true;
}

/* --- echoes of a WebSocket (RFC 6455 section 5.2) --- */

#define ECHO_MAX 60000

static bool await(client_t *client, size_t size) {
    while (client->end - client->begin < size)
        if (!fill(client)) return false;
    return true;
}

static bool upgrade(client_t *client) {
    static const char text[] = "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    if (!send_all(client, text, sizeof text - 1)) return false;
    char *end;
    while (!(end = memmem(client->buffer, client->end, "\r\n\r\n", 4)))
        if (client->end > 4096 || !fill(client)) return false;
    if (strncmp(client->buffer, "HTTP/1.1 101 ", 13) != 0) return false;
    client->begin = (size_t)(end + 4 - client->buffer);
    client->upgraded = true;
    return true;
}

static size_t write_frame(char *frame, const request_t *message) {
    size_t head = message->size < 126 ? 2 : 4;
    frame[0] = (char)0x82; /* binary, whole */
    frame[1] = (char)(0x80 | (head == 2 ? message->size : 126));
    if (head == 4) frame[2] = (char)(message->size >> 8);
    if (head == 4) frame[3] = (char)message->size;
    memcpy(frame + head, &message->seed, 4); /* the mask */
    char *data = frame + head + 4;
    pattern_fill(data, message->size, message->seed);
    for (size_t i = 0; i < message->size; i++) data[i] = (char)(data[i] ^ frame[head + i % 4]);
    return head + 4 + message->size;
}

static bool expect_frame(client_t *client, const request_t *message) {
    size_t head = message->size < 126 ? 2 : 4;
    if (!await(client, head)) return false;
    const unsigned char *frame = (unsigned char *)client->buffer + client->begin;
    size_t size = head == 2 ? frame[1] : (size_t)frame[2] << 8 | frame[3];
    if (frame[0] != 0x82 || size != message->size || (head == 4 && frame[1] != 126)) {
        complain(message, 0, "a foreign frame");
        return false;
    }
    if (!await(client, head + size)) return false;
    size_t at = pattern_check(client->buffer + client->begin + head, size, message->seed);
    if (at < size) complain(message, at, "a foreign byte");
    client->begin += head + size;
    if (at < size) return false;
    atomic_fetch_add(&verified, 1);
    atomic_fetch_add(&bytes, (long long)size);
    return true;
}

static bool ask_echo(client_t *client) {
    request_t messages[DEPTH_MAX];
    static _Thread_local char frames[DEPTH_MAX * (ECHO_MAX + 8)];
    size_t used = 0;
    if (!client->upgraded && !upgrade(client)) return false;
    int depth = 1 + (int)(draw(client) % DEPTH_MAX);
    for (int i = 0; i < depth; i++) {
        messages[i] = (request_t){atomic_fetch_add(&next_seed, 1), draw_size(client) % ECHO_MAX};
        used += write_frame(frames + used, &messages[i]);
    }
    if (!send_all(client, frames, used)) return false;
    for (int i = 0; i < depth; i++)
        if (!expect_frame(client, &messages[i])) return false;
    return true;
}

static void *run(void *arg) {
    client_t *client = arg;
    const bool echoes = strcmp(kinds, "w") == 0;
    int failed = 0;
    while (atomic_load(&left) > atomic_load(&verified) && atomic_load(&stalled) == 0 && failed < 100) {
        if (!open_connection(client)) {
            failed++;
            poll(NULL, 0, 20);
            continue;
        }
        long long before = atomic_load(&verified);
        bool good = true;
        int rounds = 50 + (int)(draw(client) % 1000);
        while (good && rounds-- > 0 && atomic_load(&left) > atomic_load(&verified))
            good = echoes ? ask_echo(client) : ask(client);
        if (!good) atomic_fetch_add(&broken, 1);
        failed = atomic_load(&verified) > before ? 0 : failed + 1;
        tls_close(client);
        close(client->fd);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &server.sin_addr);
    int count = atoi(argv[3]);
    atomic_store(&left, atoll(argv[4]));
    uint64_t seed = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;
    if (argc > 6) kinds = argv[6];
    if (argc > 7) tls_init();
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    atomic_store(&next_seed, seed * UINT64_C(1000000000));
    client_t *clients = calloc((size_t)count, sizeof *clients);
    for (int i = 0; i < count; i++) {
        clients[i].random = (seed * 1000 + (uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        clients[i].buffer = malloc(BUFFER_SIZE);
        pthread_create(&clients[i].thread, NULL, run, &clients[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(clients[i].thread, NULL);
        free(clients[i].buffer);
    }
    free(clients);
    printf("{\"verified\": %lld, \"wrong\": %lld, \"bytes\": %lld, \"broken\": %lld, \"stalled\": %lld}\n",
           (long long)verified, (long long)wrong, (long long)bytes, (long long)broken, (long long)stalled);
    return wrong > 0 ? 1 : verified < left ? 3 : 0;
}
