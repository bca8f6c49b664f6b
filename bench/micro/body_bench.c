/* Owns: what a request body costs the server's process by how it comes and how its route takes it: CPU time for a body
 * in chunks of one byte and in chunks of 64 KiB, per byte of content. The difference is the constant per chunk.
 *
 *   body_bench [uring|libuv]     # default: libuv */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp.h>

static double cpu_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void respond(uvhttp_response_t *res, unsigned long long bytes) {
    char text[32];
    snprintf(text, sizeof text, "%llu", bytes);
    uvhttp_response_text(res, 200, text);
}

static void whole(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    respond(res, uvhttp_request_body(req).size);
}

static void on_worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    unsigned long long bytes = 0;
    while (uvhttp_request_read_body(req, &piece, UVHTTP_BODY_FOREVER) == 0) bytes += piece.size;
    respond(res, bytes);
}

static void in_coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    unsigned long long bytes = 0;
    while (uvhttp_coro_read_body(req, &piece, UVHTTP_CORO_FOREVER) == 0) bytes += piece.size;
    respond(res, bytes);
}

/* Pauses after each piece, and resumes in another iteration. */
static unsigned long long paused_bytes;

static void resume(uvhttp_response_t *res, void *user) {
    (void)user;
    if (res) uvhttp_request_resume_body(uvhttp_response_request(res));
}

static void take(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res;
    paused_bytes += data.size;
    uvhttp_request_pause_body(req);
    uvhttp_deferred_run(user, resume, NULL);
}

static void end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req;
    if (status == 0) respond(res, paused_bytes);
    uvhttp_deferred_release(user);
}

static void pausing(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    paused_bytes = 0;
    (void)uvhttp_request_on_body(req, take, end, uvhttp_response_defer(res));
}

static void *serve(void *server) {
    uvhttp_server_run(server, NULL);
    return NULL;
}

/* All of it in memory first, so that the client's own work is writing only. */
static char *make_request(const char *path, size_t bytes, size_t chunk, size_t *size) {
    char *text = malloc(256 + bytes + (bytes / chunk + 1) * 16), *at = text;
    at += sprintf(at, "POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", path);
    for (size_t left = bytes, now; left > 0; left -= now) {
        now = left < chunk ? left : chunk;
        at += sprintf(at, "%zx\r\n", now);
        memset(at, 'b', now);
        at += now;
        *at++ = '\r';
        *at++ = '\n';
    }
    at += sprintf(at, "0\r\n\r\n");
    *size = (size_t)(at - text);
    return text;
}

/* CPU time of the process but for this thread, which is the client. */
static double upload(uint16_t port, const char *path, size_t bytes, size_t chunk) {
    size_t size;
    char *text = make_request(path, bytes, chunk, &size), answer[512];
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) exit(1);
    double begin = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    for (size_t sent = 0; sent < size;) {
        ssize_t n = send(fd, text + sent, size - sent, MSG_NOSIGNAL);
        if (n <= 0) exit(1);
        sent += (size_t)n;
    }
    ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
    double ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    if (got < 12 || memcmp(answer + 9, "200", 3) != 0) {
        fprintf(stderr, "%s: %.*s\n", path, got > 0 ? (int)got : 0, answer);
        exit(1);
    }
    close(fd);
    free(text);
    return ns;
}

static double best_of(uint16_t port, const char *path, size_t bytes, size_t chunk) {
    double best = 1e18;
    for (int i = 0; i < 5; i++) {
        double ns = upload(port, path, bytes, chunk);
        if (ns < best) best = ns;
    }
    return best / (double)bytes;
}

int main(int argc, char **argv) {
    enum { SMALL = 100000, LARGE = 32 << 20 };
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.engine = argc > 1 && strcmp(argv[1], "uring") == 0 ? UVHTTP_ENGINE_URING : UVHTTP_ENGINE_LIBUV;
    config.io_threads = 1;
    config.quiet = true;
    config.body_size_max = 64 << 20;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    const struct {
        const char *name, *path;
        uvhttp_handler_t handler;
        uvhttp_route_options_t options;
    } routes[] = {
        {"loop, buffered", "/whole", whole, {0}},
        {"loop, streamed, paused at each piece", "/paused", pausing, {.stream_body = true}},
        {"worker, streamed, spooled", "/worker", on_worker, {.stream_body = true, .exec = UVHTTP_EXEC_WORKER}},
        {"worker, streamed live",
         "/live",
         on_worker,
         {.stream_body = true, .exec = UVHTTP_EXEC_WORKER, .live_body = true}},
        {"coroutine, streamed", "/coro", in_coroutine, {.stream_body = true, .exec = UVHTTP_EXEC_COROUTINE}},
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        uvhttp_post(server, routes[i].path, routes[i].handler, NULL);
        uvhttp_route_options(server, &routes[i].options);
    }
    uint16_t port;
    if (uvhttp_server_listen(server, "127.0.0.1:0", &port) != 0) return 1;
    pthread_t thread;
    pthread_create(&thread, NULL, serve, server);
    printf("%-40s %16s %16s\n", "ns of CPU per byte", "1-byte chunks", "64-KiB chunks");
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        printf("%-40s %16.1f %16.2f\n", routes[i].name, best_of(port, routes[i].path, SMALL, 1),
               best_of(port, routes[i].path, LARGE, 65536));
    uvhttp_server_stop(server);
    pthread_join(thread, NULL);
    uvhttp_server_free(server);
    return 0;
}
