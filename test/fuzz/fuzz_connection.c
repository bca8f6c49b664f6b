/* Owns: fuzzing of a whole connection (libFuzzer): a server in this thread, bytes of a client, what it responds. The
 * bytes are sent at once and then in parts: both times every response has to be complete, and the responses have to be
 * the same but for their dates. Input: a byte for the number of cuts, that many bytes for the places, what the client
 * sends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>
#include <uvhttp.h>

#include "http1/response_read.h"

enum { CUTS_MAX = 8, REQUESTS_MAX = 256, OUTPUT_MAX = 1 << 22, ECHO_MAX = 1 << 16 };

static void die(const char *what) {
    fprintf(stderr, "fuzz_connection: %s\n", what);
    abort();
}

/* --- the server --- */

static uv_loop_t loop;
static struct sockaddr_un address;
static socklen_t address_size;

/* Of the connection that is played: what its requests were, in their order. */
static struct {
    size_t count;
    bool head[REQUESTS_MAX];
} asked;

static void note(uvhttp_request_t *req) {
    if (asked.count < REQUESTS_MAX) asked.head[asked.count++] = uvhttp_request_method(req) == UVHTTP_HEAD;
}

static uvhttp_flow_t on_request(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    note(req);
    return UVHTTP_NEXT;
}

static void on_refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    note(req);
}

static void on_text(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_text(res, 200, user);
}

static void on_echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "application/octet-stream", body.data, body.size);
}

/* user: not NULL if the size is said beforehand. */
static void on_pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static const char piece[300] = "piece";
    (void)req;
    uvhttp_response_begin(res, 200, "text/plain", user ? 3 * sizeof piece : UVHTTP_SIZE_UNKNOWN);
    for (int i = 0; i < 3; i++) uvhttp_response_write(res, piece, sizeof piece);
    uvhttp_response_end(res);
}

static void on_nothing(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 204, "");
}

static void make_server(void) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.engine = UVHTTP_ENGINE_EPOLL;
    config.quiet = true;
    config.body_size_max = ECHO_MAX;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_use(server, (uvhttp_middleware_t){.run = on_request, .on_refused = on_refused});
    static bool known = true;
    uvhttp_any(server, "/", on_text, "hello");
    uvhttp_any(server, "/e", on_echo, NULL);
    uvhttp_any(server, "/p", on_pieces, NULL);
    uvhttp_any(server, "/s", on_pieces, &known);
    uvhttp_any(server, "/n", on_nothing, NULL);
    char name[64];
    snprintf(name, sizeof name, "unix:@fuzz_connection.%d", (int)getpid());
    if (uv_loop_init(&loop) != 0 || uvhttp_server_attach(server, &loop) != UVHTTP_OK ||
        uvhttp_server_listen(server, name, NULL) != UVHTTP_OK)
        die("no server");
    address.sun_family = AF_UNIX;
    size_t size = strlen(name + 6);
    memcpy(address.sun_path + 1, name + 6, size);
    address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
}

/* --- the client --- */

typedef struct played {
    char *data;
    size_t size;
    bool reset;
} played_t;

/* Takes what has come. False: the server has ended its half. */
static bool take(int fd, played_t *played) {
    for (;;) {
        if (played->size == OUTPUT_MAX) die("more is sent than so few bytes can ask for");
        ssize_t got = recv(fd, played->data + played->size, OUTPUT_MAX - played->size, MSG_DONTWAIT);
        if (got > 0) {
            played->size += (size_t)got;
            continue;
        }
        if (got < 0 && errno == ECONNRESET) played->reset = true;
        return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
}

/* False: the server takes no more. */
static bool give(int fd, const char *data, size_t size, played_t *played) {
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return false;
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
        }
        uv_run(&loop, UV_RUN_NOWAIT);
        if (!take(fd, played)) return false;
    }
    return true;
}

/* Cuts need not be in order: a piece is the bytes up to the largest cut so far. */
static played_t play(const char *data, size_t size, const uint8_t *cuts, size_t cut_count) {
    played_t played = {.data = malloc(OUTPUT_MAX)};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!played.data || fd < 0 || connect(fd, (struct sockaddr *)&address, address_size) != 0) die("no connection");
    asked.count = 0;
    bool open = true;
    size_t given = 0;
    for (size_t i = 0; open && i <= cut_count; i++) {
        size_t next = i == cut_count ? size : size * cuts[i] / 256;
        if (next <= given) continue;
        open = give(fd, data + given, next - given, &played);
        given = next;
    }
    if (open) shutdown(fd, SHUT_WR);
    while (open) { /* libFuzzer's time limit is for a server that does not end */
        uv_run(&loop, UV_RUN_NOWAIT);
        open = take(fd, &played);
    }
    close(fd);
    for (int i = 0; i < 4; i++) uv_run(&loop, UV_RUN_NOWAIT); /* the next one meets a server that has forgotten it */
    return played;
}

/* --- what has to hold --- */

static void forget_dates(played_t *played) {
    static const char field[] = "\r\ndate: ";
    for (size_t i = 0; i + 8 + 29 <= played->size; i++)
        if (strncasecmp(played->data + i, field, 8) == 0) memset(played->data + i + 8, 'x', 29);
}

/* A client that ends its connection instead of sending its body gets no response after this. */
static bool is_continue(const char *data, size_t size) {
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    return size == sizeof line - 1 && memcmp(data, line, size) == 0;
}

/* Responses follow each other without a byte between them, and the last one is complete. */
static void expect_whole(const played_t *played) {
    size_t at = 0;
    for (size_t i = 0; at < played->size && !is_continue(played->data + at, played->size - at); i++) {
        uvhttp__http1_response_t response;
        uvhttp_str_t body;
        uvhttp__http1_response_init(&response, 65536, NULL);
        uvhttp__http1_response_begin(&response, i < asked.count && asked.head[i]);
        int status;
        do {
            size_t consumed;
            status = uvhttp__http1_response_feed(&response, played->data + at, played->size - at, &consumed, &body);
            at += consumed;
        } while (status == UVHTTP_E_AGAIN && at < played->size);
        if (status == UVHTTP_E_AGAIN) status = uvhttp__http1_response_end(&response);
        if (status != UVHTTP_OK) die("a response is not whole");
        if (i >= asked.count && asked.count < REQUESTS_MAX) die("more responses than requests");
        uvhttp__http1_response_deinit(&response);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    make_server();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 1) return 0;
    size_t cut_count = input[0] % (CUTS_MAX + 1);
    if (input_size < 1 + cut_count) return 0;
    const char *data = (const char *)input + 1 + cut_count;
    size_t size = input_size - 1 - cut_count;
    if (size >= 3 && memcmp(data, "PRI", 3) == 0) return 0; /* HTTP/2 has targets of its own */
    played_t whole = play(data, size, NULL, 0);
    if (!whole.reset) expect_whole(&whole);
    played_t pieces = play(data, size, input + 1, cut_count);
    if (!pieces.reset) expect_whole(&pieces);
    forget_dates(&whole);
    forget_dates(&pieces);
    if (!whole.reset && !pieces.reset &&
        (whole.size != pieces.size || memcmp(whole.data, pieces.data, whole.size) != 0))
        die("in pieces the responses are other ones");
    free(whole.data);
    free(pieces.data);
    return 0;
}
