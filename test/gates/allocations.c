/* Counts allocations per request: calls of the library's allocator hook, and calls of malloc and its kin by anybody in
 * the process (libuv, liburing, the C library). Prints one line per engine and kind of request: engine, name, requests,
 * hook calls, malloc calls. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp.h>

/* --- counting --- */

static atomic_ulong hook_calls, malloc_calls;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
    atomic_fetch_add(&malloc_calls, 1);
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    atomic_fetch_add(&malloc_calls, 1);
    return __libc_calloc(count, size);
}
void *realloc(void *memory, size_t size) {
    atomic_fetch_add(&malloc_calls, 1);
    return __libc_realloc(memory, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    atomic_fetch_add(&malloc_calls, 1);
    return __libc_memalign(alignment, size);
}

static void *hook_malloc(size_t size, void *user) {
    (void)user;
    atomic_fetch_add(&hook_calls, 1);
    return __libc_malloc(size);
}
static void *hook_calloc(size_t count, size_t size, void *user) {
    (void)user;
    atomic_fetch_add(&hook_calls, 1);
    return __libc_calloc(count, size);
}
static void *hook_realloc(void *memory, size_t size, void *user) {
    (void)user;
    atomic_fetch_add(&hook_calls, 1);
    return __libc_realloc(memory, size);
}
static void hook_free(void *memory, void *user) {
    (void)user;
    free(memory);
}

/* --- the server --- */

static void home(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "text/plain", "Hello, World!", 13);
}

static void greet(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t name = uvhttp_request_param(req, "name"), verbose;
    if (uvhttp_request_query_param(req, "verbose", &verbose)) uvhttp_response_header(res, "X-Verbose", "yes");
    uvhttp_response_send(res, 200, "text/plain", name.data, name.size);
}

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "application/json", body.data, body.size);
}

static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_begin(res, 200, "text/plain", 8);
    uvhttp_response_write(res, "four", 4);
    uvhttp_response_write(res, "more", 4);
    uvhttp_response_end(res);
}

/* Allocates in both ways, once a request: shows that the counting counts. */
static void control(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char *volatile memory = malloc(1);
    free(memory);
    uvhttp_response_text(res, uvhttp_request_alloc(req, 65536) ? 200 : 500, "allocated");
}

static void add_header(uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_header(res, "X-Served-By", "uvhttp");
}

static uvhttp_flow_t middleware(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_request_set_data(req, uvhttp_request_alloc(req, 64));
    uvhttp_response_on_finish(res, add_header, NULL);
    return UVHTTP_NEXT;
}

static void *run_server(void *server) {
    return (void *)(intptr_t)uvhttp_server_run(server, NULL);
}

/* --- the client --- */

static const char body_post[] =
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"
    "{\"test\":\"data\"}";

static const struct kind {
    const char *name, *request;
    int per_write;
} kinds[] = {
    {"get", "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: gate\r\n\r\n", 1},
    {"get_pipelined", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 16},
    {"param_and_query", "GET /greet/j%C3%BCrgen?verbose=1&x=%20 HTTP/1.1\r\nHost: a\r\n\r\n", 1},
    {"middleware", "GET /group/home HTTP/1.1\r\nHost: a\r\n\r\n", 1},
    {"post", body_post, 1},
    {"post_pipelined", body_post, 16},
    {"not_found", "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", 1},
    {"control", "GET /control HTTP/1.1\r\nHost: a\r\n\r\n", 1},
    {"in_pieces", "GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n", 1},
};

static void die(const char *why) {
    fprintf(stderr, "allocations: %s\n", why);
    exit(1);
}

static int connect_to(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) die("cannot connect");
    return fd;
}

/* Sends `text` and reads until `responses` bytes have come; 0: until a whole response has, whose size it returns. */
static size_t exchange(int fd, const char *text, size_t size, size_t responses) {
    static char in[65536];
    size_t got = 0, want = responses ? responses : sizeof in - 1;
    if (write(fd, text, size) != (ssize_t)size) die("cannot send");
    while (got < want) {
        ssize_t n = read(fd, in + got, (responses ? want : sizeof in - 1) - got);
        if (n <= 0) die("the server has closed");
        got += (size_t)n;
        in[got] = '\0';
        char *end = strstr(in, "\r\n\r\n"), *length = strstr(in, "Content-Length: ");
        if (!responses && end && length) want = (size_t)(end + 4 - in) + strtoul(length + 16, NULL, 10);
    }
    return got;
}

static void count_kind(const char *engine, const struct kind *kind, uint16_t port) {
    enum { WARM_UP = 200, WRITES = 1000 };
    int fd = connect_to(port);
    size_t one = strlen(kind->request), size = one * (size_t)kind->per_write;
    char *text = malloc(size + 1);
    for (int i = 0; i < kind->per_write; i++) memcpy(text + (size_t)i * one, kind->request, one + 1);
    size_t response = exchange(fd, kind->request, one, 0);
    unsigned long hook = 0, all = 0;
    for (int i = 0; i < WARM_UP + WRITES; i++) {
        if (i == WARM_UP) {
            hook = atomic_load(&hook_calls);
            all = atomic_load(&malloc_calls);
        }
        exchange(fd, text, size, response * (size_t)kind->per_write);
    }
    printf("%s %s %d %lu %lu\n", engine, kind->name, WRITES * kind->per_write, atomic_load(&hook_calls) - hook,
           atomic_load(&malloc_calls) - all);
    close(fd);
    free(text);
}

static void count_engine(const char *name, uvhttp_engine_t engine, bool metrics) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = 1;
    config.engine = engine;
    config.metrics = metrics;
    config.quiet = true;
    config.install_signal_handlers = false;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_get(server, "/", home, NULL);
    uvhttp_get(server, "/greet/:name", greet, NULL);
    uvhttp_post(server, "/echo", echo, NULL);
    uvhttp_get(server, "/control", control, NULL);
    uvhttp_get(server, "/pieces", pieces, NULL);
    uvhttp_group_t *group = uvhttp_group(server, "/group");
    uvhttp_group_use(group, (uvhttp_middleware_t){.run = middleware});
    uvhttp_group_get(group, "/home", home, NULL);
    uint16_t port;
    if (uvhttp_server_listen(server, "127.0.0.1:0", &port) != 0) die(uvhttp_server_error_text(server));
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_server, server) != 0) die("no thread");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) count_kind(name, &kinds[i], port);
    uvhttp_server_stop(server);
    void *status;
    pthread_join(thread, &status);
    uvhttp_server_free(server);
}

int main(int argc, char **argv) {
    static const uvhttp_allocator_t counting = {hook_malloc, hook_calloc, hook_realloc, hook_free, NULL};
    if (argc != 2 || uvhttp_set_allocator(&counting) != 0) die("usage: gate_allocations uring|epoll");
    uvhttp_engine_t engine = strcmp(argv[1], "epoll") == 0 ? UVHTTP_ENGINE_EPOLL : UVHTTP_ENGINE_URING;
    count_engine(argv[1], engine, false);
    count_engine(argv[1][0] == 'e' ? "epoll+metrics" : "uring+metrics", engine, true);
    return 0;
}
