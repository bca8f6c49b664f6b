/* Asks a pattern_server and checks every byte of every response. Keep-alive, requests pipelined by chance.
 *
 *   verify_client ADDRESS PORT CONNECTIONS RESPONSES [SEED [KINDS]]
 *
 * KINDS: letters of copy, ref, pieces, file (default "crp"). Prints one line of JSON: responses verified, wrong ones,
 * bytes, and connections that the server broke off (a response cut short by that is no wrong one; no byte of it may be
 * wrong all the same). Exits with 1 if a byte was wrong, with 3 if nothing could be verified for 20 s. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

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

static bool fill(client_t *client) {
    if (client->begin > 0) {
        memmove(client->buffer, client->buffer + client->begin, client->end - client->begin);
        client->end -= client->begin;
        client->begin = 0;
    }
    ssize_t got;
    do {
        got = recv(client->fd, client->buffer + client->end, BUFFER_SIZE - client->end, 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) atomic_fetch_add(&stalled, 1);
    if (got <= 0) return false;
    client->end += (size_t)got;
    return true;
}

static void complain(const request_t *request, size_t at, const char *what) {
    if (atomic_fetch_add(&wrong, 1) < 10)
        fprintf(stderr, "wrong: request %llu of %zu bytes: %s at %zu\n", (unsigned long long)request->seed,
                request->size, what, at);
}

/* Returns false if the connection has to be given up. */
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
    if (strncmp(head, "HTTP/1.1 5", 10) == 0) return false; /* out of memory, say: an honest answer */
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
    if (connect(client->fd, (struct sockaddr *)&server, sizeof server) == 0) return true;
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
    if (send(client->fd, text, used, MSG_NOSIGNAL) != (ssize_t)used) return false;
    for (int i = 0; i < depth; i++)
        if (!expect(client, &requests[i])) return false;
    return true;
}

static void *run(void *arg) {
    client_t *client = arg;
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
        while (good && rounds-- > 0 && atomic_load(&left) > atomic_load(&verified)) good = ask(client);
        if (!good) atomic_fetch_add(&broken, 1);
        failed = atomic_load(&verified) > before ? 0 : failed + 1;
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
