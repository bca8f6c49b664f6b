/* Echo round trips through the TCP server, without HTTP: the server and its clients in one process, over loopback.
 *
 *   build/dist/bin/benchmark_tcp_echo --io-threads 3 --client-threads 8 --requests-per-thread 20000 --payload-size 64
 *
 * A client is a thread with a blocking socket that is kept: it sends a message, reads it back, compares every byte, and
 * goes on. All are connected and accepted before the first one starts; the time is from the first client's start to the
 * last one's end. bytes and MiB are counted in one direction. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp.h>

#include "support/options.h"

#define WAIT_SECONDS 30
#define MESSAGE_HEAD 8 /* bytes at the begin of a message that tell it from the one before */

/* --- options --- */

typedef struct settings {
    unsigned long port, io_threads, client_threads, requests_per_thread, payload_size;
    int engine; /* uvhttp_engine_t */
    bool json;
} settings_t;

static void parse_options(settings_t *settings, char **argv) {
    const option_t table[] = {
        {"--port", OPTION_NUMBER, &settings->port, 0, 65535, .help = "0..65535; 0: chosen by the kernel (default 0)"},
        {"--io-threads", OPTION_NUMBER, &settings->io_threads, 0, 1024,
         .help = "loops of the server, 0..1024; 0: one per CPU (default 3)"},
        {"--client-threads", OPTION_NUMBER, &settings->client_threads, 1, 1024,
         .help = "clients, one connection each, 1..1024 (default 8)"},
        {"--requests-per-thread", OPTION_NUMBER, &settings->requests_per_thread, 1, 1000000000,
         .help = "1..1000000000 (default 20000)"},
        {"--payload-size", OPTION_NUMBER, &settings->payload_size, 1, 1 << 20,
         .help = "bytes of a message, 1..1048576 (default 64)"},
        {"--engine", OPTION_CHOICE, &settings->engine, .choices = "auto, uring, epoll",
         .help = "auto, uring or epoll (default auto)"},
        {"--json", OPTION_FLAG, &settings->json, .help = "one JSON object instead of lines"},
    };
    options_parse(
        &(options_t){.program = "benchmark_tcp_echo", .table = table, .count = sizeof table / sizeof table[0]}, argv);
}

/* --- latencies: 64 buckets per power of two, so that a percentile is exact to 1.6 % --- */

#define SUB_BITS 6
#define BUCKETS ((64 - SUB_BITS + 1) << SUB_BITS)

static unsigned bucket_of(uint64_t ns) {
    unsigned shift = 63 - (unsigned)__builtin_clzll(ns | UINT64_C(1) << SUB_BITS) - SUB_BITS;
    return (shift << SUB_BITS) + (unsigned)(ns >> shift);
}

/* The greatest value of a bucket. */
static uint64_t bucket_high(unsigned bucket) {
    if (bucket < 2u << SUB_BITS) return bucket;
    unsigned shift = (bucket >> SUB_BITS) - 1;
    return ((uint64_t)((bucket & ((1u << SUB_BITS) - 1)) + (1u << SUB_BITS) + 1) << shift) - 1;
}

static double percentile_us(const uint64_t *buckets, uint64_t total, double share) {
    uint64_t rank = (uint64_t)(share * (double)total), seen = 0;
    if ((double)rank < share * (double)total) rank++;
    for (unsigned i = 0; i < BUCKETS; ++i) {
        seen += buckets[i];
        if (seen >= rank) return (double)bucket_high(i) / 1000.0;
    }
    return 0;
}

/* --- the server --- */

typedef struct server {
    uvhttp_tcp_server_t *tcp;
    int status; /* of run, once it has returned */
    atomic_bool returned;
    atomic_ulong opened;
    _Atomic(const char *) engine; /* asked for on a loop, where it cannot be gone */
    pthread_t thread;
} server_t;

static void on_open(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp;
    server_t *server = user;
    atomic_store(&server->engine, uvhttp_tcp_server_engine(server->tcp, NULL));
    atomic_fetch_add(&server->opened, 1);
}

static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    int status = uvhttp_tcp_send(tcp, data, size, NULL);
    if (status == UVHTTP_E_AGAIN)
        uvhttp_tcp_pause(tcp);
    else if (status != 0)
        uvhttp_tcp_reset(tcp);
}

static void on_drain(uvhttp_tcp_t *tcp, void *user) {
    (void)user;
    uvhttp_tcp_resume(tcp);
}

static void *server_run(void *arg) {
    server_t *server = arg;
    server->status = uvhttp_tcp_server_run(server->tcp, NULL);
    atomic_store(&server->returned, true);
    return NULL;
}

/* --- clients --- */

typedef struct client {
    const settings_t *settings;
    pthread_barrier_t *start;
    pthread_t thread;
    int fd;
    unsigned number;
    uint64_t begin_ns, end_ns;
    bool failed;
    uint64_t buckets[BUCKETS];
} client_t;

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool client_connect(client_t *client, uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = WAIT_SECONDS}; /* a server that hangs must not hang the benchmark */
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0) return false;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return connect(client->fd, (struct sockaddr *)&address, sizeof address) == 0;
}

static bool send_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, char *data, size_t size) {
    while (size > 0) {
        ssize_t got = recv(fd, data, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = ECONNRESET;
        if (got <= 0) return false;
        data += got;
        size -= (size_t)got;
    }
    return true;
}

static bool client_fail(const client_t *client, unsigned long request, const char *what) {
    fprintf(stderr, "benchmark_tcp_echo: client %u, request %lu: %s\n", client->number, request, what);
    return false;
}

/* No two messages of a run begin alike, so that an old echo cannot pass for a new one. */
static bool client_echo(client_t *client, char *message, char *echo) {
    size_t size = client->settings->payload_size;
    for (unsigned long i = 0; i < client->settings->requests_per_thread; ++i) {
        uint64_t head = (uint64_t)client->number << 32 | i;
        memcpy(message, &head, size < MESSAGE_HEAD ? size : MESSAGE_HEAD);
        uint64_t sent_ns = clock_ns();
        if (!send_all(client->fd, message, size) || !receive_all(client->fd, echo, size))
            return client_fail(client, i, strerror(errno));
        client->buckets[bucket_of(clock_ns() - sent_ns)]++;
        if (memcmp(message, echo, size) != 0) return client_fail(client, i, "the echo differs from what was sent");
    }
    return true;
}

static void *client_run(void *arg) {
    client_t *client = arg;
    size_t size = client->settings->payload_size;
    char *message = malloc(size), *echo = malloc(size);
    if (message) {
        for (size_t i = 0; i < size; ++i) message[i] = (char)(i * 31 + i / 251 + client->number);
    }
    pthread_barrier_wait(client->start);
    client->begin_ns = clock_ns();
    client->failed = !message || !echo || !client_echo(client, message, echo);
    client->end_ns = clock_ns();
    close(client->fd);
    free(message);
    free(echo);
    return NULL;
}

/* --- the run --- */

typedef struct result {
    const char *engine;
    unsigned port;
    uint64_t requests, bytes;
    double elapsed_seconds, p50_us, p99_us, p999_us;
    uvhttp_tcp_metrics_t metrics;
} result_t;

static void die(const char *what, const char *why) {
    fprintf(stderr, "benchmark_tcp_echo: %s: %s\n", what, why);
    exit(1);
}

/* Connecting is over for the server too when it has accepted all of them. */
static void connect_all(server_t *server, client_t *clients, const settings_t *settings, uint16_t port) {
    for (unsigned long i = 0; i < settings->client_threads; ++i) {
        if (!client_connect(&clients[i], port)) die("a client cannot connect", strerror(errno));
    }
    uint64_t end_ns = clock_ns() + UINT64_C(1000000000) * WAIT_SECONDS;
    while (atomic_load(&server->opened) < settings->client_threads) {
        if (atomic_load(&server->returned)) exit(1); /* why it cannot run has been logged */
        if (clock_ns() > end_ns) die("the clients are not accepted", "timed out");
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static bool run_clients(client_t *clients, const settings_t *settings, result_t *result) {
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)settings->client_threads);
    for (unsigned long i = 0; i < settings->client_threads; ++i) {
        clients[i].start = &start;
        int error = pthread_create(&clients[i].thread, NULL, client_run, &clients[i]);
        if (error) die("a client's thread cannot be started", strerror(error));
    }
    uint64_t begin_ns = UINT64_MAX, end_ns = 0;
    static uint64_t buckets[BUCKETS];
    bool ok = true;
    for (unsigned long i = 0; i < settings->client_threads; ++i) {
        client_t *client = &clients[i];
        pthread_join(client->thread, NULL);
        ok = ok && !client->failed;
        if (client->begin_ns < begin_ns) begin_ns = client->begin_ns;
        if (client->end_ns > end_ns) end_ns = client->end_ns;
        for (unsigned b = 0; b < BUCKETS; ++b) {
            buckets[b] += client->buckets[b];
            result->requests += client->buckets[b];
        }
    }
    pthread_barrier_destroy(&start);
    result->elapsed_seconds = (double)(end_ns - begin_ns) / 1e9;
    result->bytes = result->requests * settings->payload_size;
    result->p50_us = percentile_us(buckets, result->requests, 0.5);
    result->p99_us = percentile_us(buckets, result->requests, 0.99);
    result->p999_us = percentile_us(buckets, result->requests, 0.999);
    return ok;
}

/* The echoes were right at the clients; the server must have counted the same. */
static bool counts_agree(const settings_t *settings, const result_t *result) {
    const uvhttp_tcp_metrics_t *metrics = &result->metrics;
    if (metrics->connections_accepted == settings->client_threads &&
        metrics->connections_closed == settings->client_threads && metrics->bytes_received == result->bytes &&
        metrics->bytes_sent == result->bytes)
        return true;
    fprintf(stderr,
            "benchmark_tcp_echo: the server's counts are wrong: accepted %llu, closed %llu, received %llu, sent %llu\n",
            (unsigned long long)metrics->connections_accepted, (unsigned long long)metrics->connections_closed,
            (unsigned long long)metrics->bytes_received, (unsigned long long)metrics->bytes_sent);
    return false;
}

/* --- output --- */

static void print_title(bool json, const char *title) {
    if (!json) puts(title);
}

static void print_value(bool json, const char *name, const char *value, bool text) {
    static bool any;
    if (json)
        printf(text ? "%s\"%s\":\"%s\"" : "%s\"%s\":%s", any ? "," : "{", name, value);
    else
        printf("  %s: %s\n", name, value);
    any = true;
}

static void print_count(bool json, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    print_value(json, name, text, false);
}

static void print_real(bool json, const char *name, double value, int digits) {
    char text[64];
    snprintf(text, sizeof text, "%.*f", digits, value);
    print_value(json, name, text, false);
}

static void print_result(const settings_t *settings, const result_t *result) {
    bool json = settings->json;
    double requests = (double)result->requests, seconds = result->elapsed_seconds > 0 ? result->elapsed_seconds : 1e-9;
    print_title(json, "Benchmark: uvhttp_tcp echo round-trip");
    print_count(json, "port", result->port);
    print_count(json, "io_threads", settings->io_threads);
    print_count(json, "client_threads", settings->client_threads);
    print_count(json, "requests_per_thread", settings->requests_per_thread);
    print_count(json, "payload_size_bytes", settings->payload_size);
    print_value(json, "engine", result->engine, true);
    print_title(json, "Results:");
    print_count(json, "total_requests", result->requests);
    print_count(json, "total_bytes", result->bytes);
    print_real(json, "elapsed_seconds", seconds, 6);
    print_real(json, "throughput_req_per_sec", requests / seconds, 2);
    print_real(json, "throughput_mib_per_sec", (double)result->bytes / seconds / (1 << 20), 2);
    print_real(json, "avg_round_trip_us_per_connection", seconds * 1e6 * (double)settings->client_threads / requests,
               2);
    print_real(json, "p50_us", result->p50_us, 2);
    print_real(json, "p99_us", result->p99_us, 2);
    print_real(json, "p999_us", result->p999_us, 2);
    print_title(json, "Server stats:");
    print_count(json, "accepted_connections", result->metrics.connections_accepted);
    print_count(json, "closed_connections", result->metrics.connections_closed);
    print_count(json, "echoed_messages", result->metrics.bytes_sent / settings->payload_size);
    print_count(json, "echoed_bytes", result->metrics.bytes_sent);
    if (json) puts("}");
}

/* --- main --- */

static uint16_t server_start(server_t *server, const settings_t *settings) {
    uvhttp_tcp_config_t config;
    uvhttp_tcp_config_default(&config);
    config.io_threads = (uint32_t)settings->io_threads;
    config.engine = settings->engine;
    config.install_signal_handlers = false; /* Ctrl-C ends the benchmark */
    const uvhttp_tcp_handlers_t handlers = {.on_open = on_open, .on_data = on_data, .on_drain = on_drain};
    server->tcp = uvhttp_tcp_server_new(&config, &handlers, server);
    if (!server->tcp) die("no server", "out of memory");
    char address[32];
    uint16_t port;
    snprintf(address, sizeof address, "127.0.0.1:%lu", settings->port);
    if (uvhttp_tcp_server_listen(server->tcp, address, &port) != 0) exit(1); /* it has been logged */
    int error = pthread_create(&server->thread, NULL, server_run, server);
    if (error) die("the server's thread cannot be started", strerror(error));
    return port;
}

int main(int argc, char **argv) {
    settings_t settings = {.io_threads = 3, .client_threads = 8, .requests_per_thread = 20000, .payload_size = 64};
    (void)argc;
    parse_options(&settings, argv);
    client_t *clients = calloc(settings.client_threads, sizeof *clients);
    if (!clients) die("no clients", "out of memory");
    for (unsigned long i = 0; i < settings.client_threads; ++i) {
        clients[i].settings = &settings;
        clients[i].number = (unsigned)i;
    }
    static server_t server;
    result_t result = {.port = server_start(&server, &settings)};
    connect_all(&server, clients, &settings, (uint16_t)result.port);
    result.engine = atomic_load(&server.engine);
    bool ok = run_clients(clients, &settings, &result);
    uvhttp_tcp_server_stop(server.tcp);
    pthread_join(server.thread, NULL);
    uvhttp_tcp_server_metrics(server.tcp, &result.metrics);
    ok = ok && server.status == 0 && counts_agree(&settings, &result);
    if (ok) print_result(&settings, &result);
    uvhttp_tcp_server_free(server.tcp);
    free(clients);
    return !ok;
}
