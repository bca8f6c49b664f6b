/* Owns: the servers of fuzz targets that play whole connections: one of each backend in this thread, with a route for
 * each way to read a request and to respond, and the client's end of one connection, a Unix socket. Header only. */
#ifndef UVHTTP_TEST_FUZZ_SERVED_H
#define UVHTTP_TEST_FUZZ_SERVED_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>
#include <uvhttp.h>

#include "served_memory.h"
#include "served_slow.h"
#include "served_websocket.h"

typedef enum backend {
    SERVED_BY_EPOLL,
    SERVED_BY_IO_URING, /* where the kernel has it; with small buffers and a small share of an iteration */
    SERVED_BACKENDS,
} backend_t;

enum {
    SERVED_REQUESTS_MAX = 256,
    SERVED_OUTPUT_MAX = 1 << 25,
    SERVED_BODY_MAX = 1 << 16,
    SERVED_FILE_SIZE = 9000,
    SERVED_LARGE_FILE_SIZE = 70000, /* by sendfile, or helper threads */
    SERVED_PATIENCE = 20            /* iterations */
};

/* --- time --- */

/* What has passed beyond the clock's time, for all connections so far: it must not run backwards. */
static uint64_t served_ahead_ns;
static uint64_t served_step_ns; /* before each piece that a client sends */

/* Two bits of an input. */
static void served_choose_step(unsigned bits) {
    static const uint64_t steps[] = {0, 700000000, 20000000000, 70000000000};
    served_step_ns = steps[bits & 3];
}

/* The linker puts them in the place of the library's (--wrap). */
uint64_t __real_uvhttp__clock_ns(void);
uint64_t __wrap_uvhttp__clock_ns(void);
uint64_t __wrap_uvhttp__clock_ns(void) {
    return __real_uvhttp__clock_ns() + served_ahead_ns;
}

/* A file that was made a moment ago has no strong validator. */
int64_t __real_uvhttp__clock_unix_ms(void);
int64_t __wrap_uvhttp__clock_unix_ms(void);
int64_t __wrap_uvhttp__clock_unix_ms(void) {
    return __real_uvhttp__clock_unix_ms() + 60000;
}

/* --- requests --- */

static uv_loop_t loop;
/* By backend. */
static struct {
    struct sockaddr_un address;
    socklen_t size;
} served[SERVED_BACKENDS];

/* Of the connection that is played: what its requests were, in their order, and those that are not over. */
static struct {
    size_t count, open;
    bool head[SERVED_REQUESTS_MAX];
    bool cut; /* a body was not complete, and its response had begun */
} asked;

static void served_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status, (void)user;
    asked.open--;
}

static void served_note(uvhttp_request_t *req, uvhttp_response_t *res) {
    if (asked.count < SERVED_REQUESTS_MAX) asked.head[asked.count++] = uvhttp_request_method(req) == UVHTTP_HEAD;
    if (uvhttp_response_on_done(res, served_done, NULL) == UVHTTP_OK) asked.open++;
}

static uvhttp_flow_t served_request(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    served_note(req, res);
    return UVHTTP_NEXT;
}

static void served_refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    served_note(req, res);
}

/* --- responses --- */

static void served_scarce(uvhttp_response_t *res) {
    memory_excuses("no memory");
    uvhttp_response_text(res, 503, "no memory");
}

static void served_text(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_text(res, 200, user);
}

static void served_nothing(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 204, "");
}

/* user: not NULL if the size is said beforehand. */
static void served_pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static const char piece[300] = "piece";
    (void)req;
    if (!user) uvhttp_response_header(res, "Trailer", "X-Sum");
    uvhttp_response_begin(res, 200, "text/plain", user ? 3 * sizeof piece : UVHTTP_SIZE_UNKNOWN);
    for (int i = 0; i < 3; i++) uvhttp_response_write(res, piece, sizeof piece);
    if (!user) (void)uvhttp_response_trailer(res, "X-Sum", "900");
    uvhttp_response_end(res);
}

static void served_large(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static char text[100000];
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "text/plain", text, sizeof text);
}

static void served_later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static const uvhttp_response_field_t hint = {"Link", "</style>; rel=preload"};
    (void)uvhttp_response_interim(res, 103, &hint, 1);
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return;
    (void)uvhttp_deferred_text(deferred, 200, "later");
    uvhttp_deferred_release(deferred);
}

static void served_redirect(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_redirect(res, 302, "/");
    uvhttp_response_close(res);
}

static void served_events(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_events_t *events;
    if (uvhttp_events_open(res, NULL, &events) != UVHTTP_OK) return;
    uvhttp_event_t event = {.data = {"one\ntwo", 7}, .event = "e", .id = "1"};
    (void)uvhttp_events_send(events, &event);
    (void)uvhttp_events_close(events);
    uvhttp_events_release(events);
}

/* --- bodies --- */

static void served_echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "text/plain", body.data, body.size);
}

static void served_form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_form_t *form;
    int status = uvhttp_request_form(req, NULL, &form);
    if (status != UVHTTP_OK) {
        uvhttp_response_text(res, 400, uvhttp_error_name(status));
        return;
    }
    uvhttp_str_t name, value;
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    for (size_t i = 0; uvhttp_form_field_at(form, i, &name, &value); i++) {
        uvhttp_response_write(res, name.data, name.size);
        uvhttp_response_write(res, value.data, value.size);
    }
    uvhttp_response_end(res);
}

/* What is read of a stream, which is paused after every other piece until the loop has run again. */
typedef struct served_sum {
    uint64_t size, sum;
    unsigned pieces;
    uvhttp_request_t *paused; /* or NULL */
    struct served_sum *next;  /* of those that are paused */
} served_sum_t;

static served_sum_t *served_paused;

static void served_pause(served_sum_t *sum, uvhttp_request_t *req) {
    if (sum->paused || ++sum->pieces % 2 == 0 || uvhttp_request_pause_body(req) != UVHTTP_OK) return;
    sum->paused = req;
    sum->next = served_paused;
    served_paused = sum;
}

static void served_unlist(served_sum_t *sum) {
    served_sum_t **at = &served_paused;
    while (*at != sum) at = &(*at)->next;
    *at = sum->next;
    sum->paused = NULL;
}

/* One, so that it may pause again and others may end meanwhile. */
static void served_resume_body(void) {
    served_sum_t *sum = served_paused;
    if (!sum) return;
    uvhttp_request_t *req = sum->paused;
    served_unlist(sum);
    (void)uvhttp_request_resume_body(req);
}

static void served_add(served_sum_t *sum, uvhttp_str_t data) {
    for (size_t i = 0; i < data.size; i++) sum->sum = sum->sum * 31 + (unsigned char)data.data[i];
    sum->size += data.size;
}

static void served_say_sum(uvhttp_response_t *res, const served_sum_t *sum) {
    char text[64];
    snprintf(text, sizeof text, "%llu %llx", (unsigned long long)sum->size, (unsigned long long)sum->sum);
    uvhttp_response_text(res, 200, text);
}

static void served_free(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    served_sum_t *sum = user;
    if (sum->paused) served_unlist(sum);
    free(sum);
}

/* NULL: the library has no memory. */
static served_sum_t *served_new_sum(uvhttp_response_t *res) {
    served_sum_t *sum = calloc(1, sizeof *sum);
    if (!sum) die("no memory");
    if (uvhttp_response_on_done(res, served_free, sum) == UVHTTP_OK) return sum;
    memory_excuses("no on_done");
    free(sum);
    return NULL;
}

static void served_sum_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res;
    served_sum_t *sum = user;
    served_add(sum, data);
    served_pause(sum, req);
}

static void served_sum_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    uvhttp_str_t name, value;
    for (size_t i = 0; uvhttp_request_trailer_at(req, i, &name, &value); i++) served_add(user, value);
    if (status == UVHTTP_OK) served_say_sum(res, user);
}

static void served_sum(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    served_sum_t *sum = served_new_sum(res);
    if (!sum || uvhttp_request_on_body(req, served_sum_data, served_sum_end, sum) != UVHTTP_OK) served_scarce(res);
}

/* Each piece goes back. */
static void served_back_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_write(res, data.data, data.size);
}

static void served_back_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)user;
    asked.cut |= status != UVHTTP_OK;
    (void)uvhttp_response_end(res);
}

static void served_back(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_request_on_body(req, served_back_data, served_back_end, NULL) == UVHTTP_OK)
        uvhttp_response_begin(res, 200, "application/octet-stream", UVHTTP_SIZE_UNKNOWN);
    else
        served_scarce(res);
}

static void served_part(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp_multipart_event_t *event,
                        void *user) {
    (void)req, (void)res;
    if (event->kind == UVHTTP_MULTIPART_PART) served_add(user, event->name);
    if (event->kind == UVHTTP_MULTIPART_DATA) served_add(user, event->data);
}

static void served_multipart(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    served_sum_t *sum = served_new_sum(res);
    if (!sum) {
        served_scarce(res);
        return;
    }
    int status = uvhttp_request_on_multipart(req, NULL, served_part, served_sum_end, sum);
    if (status != UVHTTP_OK) uvhttp_response_text(res, 400, uvhttp_error_name(status));
}

/* --- all of it --- */

static char served_directory[] = "/tmp/uvhttp-fuzz-XXXXXX", served_files[2][sizeof served_directory + 16];

static void served_remove_files(void) {
    for (int i = 0; i < 2; i++) (void)unlink(served_files[i]);
    (void)rmdir(served_directory);
}

static const struct timespec served_times[2] = {{1000000000, 0}, {1000000000, 0}}; /* what is sent is always the same */

static void served_make_file(char *path, const char *name, int file_size) {
    snprintf(path, sizeof *served_files, "%s/%s", served_directory, name);
    FILE *file = fopen(path, "w");
    for (int i = 0; file && i < file_size; i++) fputc('a' + i % 26, file);
    if (!file || fclose(file) != 0 || utimensat(AT_FDCWD, path, served_times, 0) != 0) die("no file");
}

static void served_make_files(void) {
    if (!mkdtemp(served_directory) || atexit(served_remove_files) != 0) die("no directory");
    served_make_file(served_files[0], "a.txt", SERVED_FILE_SIZE);
    served_make_file(served_files[1], "b.txt", SERVED_LARGE_FILE_SIZE);
    if (utimensat(AT_FDCWD, served_directory, served_times, 0) != 0) die("no directory");
}

static void served_routes(uvhttp_server_t *server) {
    static const char *const types[] = {"text/plain", NULL};
    static const uvhttp_compression_options_t compression = {.size_min = 100, .types = types};
    static const uvhttp_cors_options_t cors = {.origins = "http://a", .methods = "GET, PUT", .max_age = 10};
    static const uvhttp_route_options_t streamed = {.stream_body = true};
    static const uvhttp_static_options_t files = {
        .list_directories = true, .cache_entries_max = 16, .cache_missing_max = 16};
    static const uvhttp_static_options_t by_threads = {.no_sendfile = true, .cache_size_max = 1};
    static bool known = true;
    uvhttp_use(server, (uvhttp_middleware_t){.run = served_request, .on_refused = served_refused});
    uvhttp_use(server, uvhttp_cors(&cors));
    uvhttp_use(server, uvhttp_compression(&compression));
    uvhttp_any(server, "/", served_text, "hello");
    uvhttp_any(server, "/n", served_nothing, NULL);
    uvhttp_any(server, "/p", served_pieces, NULL);
    uvhttp_any(server, "/s", served_pieces, &known);
    uvhttp_any(server, "/l", served_large, NULL);
    uvhttp_any(server, "/d", served_later, NULL);
    uvhttp_any(server, "/r", served_redirect, NULL);
    uvhttp_any(server, "/v", served_events, NULL);
    uvhttp_any(server, "/e", served_echo, NULL);
    uvhttp_any(server, "/o", served_form, NULL);
    uvhttp_route_options(uvhttp_any(server, "/b", served_sum, NULL), &streamed);
    uvhttp_route_options(uvhttp_any(server, "/k", served_back, NULL), &streamed);
    uvhttp_route_options(uvhttp_any(server, "/m", served_multipart, NULL), &streamed);
    served_slow_routes(server);
    served_websocket_routes(server);
    if (uvhttp_static(server, "/f", served_directory, &files) != UVHTTP_OK ||
        uvhttp_static(server, "/t", served_directory, &by_threads) != UVHTTP_OK)
        die("no files");
}

static void served_start_by(backend_t backend) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.engine = backend == SERVED_BY_EPOLL ? UVHTTP_ENGINE_EPOLL : UVHTTP_ENGINE_AUTO;
    config.quiet = true;
    config.body_size_max = SERVED_BODY_MAX;
    config.half_close = true;            /* a client that has sent all may end its half while its response is made */
    if (backend == SERVED_BY_IO_URING) { /* what is small may not change what a client of HTTP/1 gets */
        config.read_buffer_size = config.write_buffer_size = 1024;
        config.read_buffer_count = 8;
        config.iteration_requests_max = 1;
        config.http2_connection_memory_max = 65536;
    }
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (!server) die("no server");
    served_routes(server);
    char name[64];
    int size =
        snprintf(name, sizeof name, "unix:@%s.%d.%d", program_invocation_short_name, (int)getpid(), (int)backend);
    if (uvhttp_server_attach(server, &loop) != UVHTTP_OK || uvhttp_server_listen(server, name, NULL) != UVHTTP_OK)
        die("no server");
    served[backend].address.sun_family = AF_UNIX;
    memcpy(served[backend].address.sun_path + 1, name + 6, (size_t)size - 6);
    served[backend].size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size - 6);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    memory_init();
    if (uv_loop_init(&loop) != 0) die("no loop");
    served_make_files();
    for (backend_t backend = 0; backend < SERVED_BACKENDS; backend++) served_start_by(backend);
    return 0;
}

/* --- the client --- */

typedef struct played {
    char *data; /* of SERVED_OUTPUT_MAX bytes */
    size_t size;
    int fd;
    bool reset;
    bool slow; /* it takes nothing until the server takes no more */
} played_t;

static void served_run(void) {
    served_resume();
    served_resume_body();
    raw_resume();
    slow_run();
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void served_connect(played_t *played, char *memory, backend_t backend) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&served[backend].address, served[backend].size) != 0)
        die("no connection");
    *played = (played_t){.data = memory, .fd = fd};
    asked.count = 0;
    asked.cut = false;
    memset(&talk, 0, sizeof talk);
    for (int i = 0; i < 3 && scarcity.failures > 0; i++) served_run(); /* it is accepted */
    scarcity.starts = true;
}

/* Takes what has come. False: the server has ended its half. */
static bool served_take(played_t *played) {
    for (;;) {
        if (played->size == SERVED_OUTPUT_MAX) die("more is sent than so few bytes can ask for");
        ssize_t got = recv(played->fd, played->data + played->size, SERVED_OUTPUT_MAX - played->size, MSG_DONTWAIT);
        if (got > 0) {
            played->size += (size_t)got;
            continue;
        }
        if (got < 0 && errno == ECONNRESET) played->reset = true;
        return got < 0 && errno == EAGAIN;
    }
}

/* Time passes, and the server sees it before anything else comes. False: it has ended its half. */
static bool served_wait(played_t *played) {
    served_ahead_ns += served_step_ns;
    for (int i = 0; i < 3 && served_step_ns > 0; i++) served_run();
    return served_step_ns == 0 || served_take(played);
}

/* False: the server takes no more. */
static bool served_give(played_t *played, const char *data, size_t size) {
    for (unsigned runs = 0; size > 0; runs++) {
        ssize_t sent = send(played->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            (void)served_take(played); /* what it has said before; a slow client has not read it yet */
            return false;
        }
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
            runs = 0;
        }
        served_run();
        if (played->slow && runs < SERVED_PATIENCE) continue;
        if (!served_take(played)) return false;
    }
    return true;
}

/* The client ends its half, and reads until the server does. libFuzzer's time limit is for one that does not. */
static void served_end(played_t *played) {
    shutdown(played->fd, SHUT_WR);
    do served_run();
    while (served_take(played));
}

/* The next one meets a server that has forgotten it, and has memory. libFuzzer's time limit is for a request that does
 * not end. */
static void served_close(played_t *played) {
    memory_relieve();
    close(played->fd);
    for (int i = 0; i < 4 || asked.open > 0 || slow_first || talk.closed < talk.opened; i++) served_run();
    memory_expect_no_growth();
}

/* A connection whose client sends this, and its end. Cuts need not be in order: a piece is the bytes up to the largest
 * cut so far. */
static inline played_t served_play(const char *data, size_t size, const uint8_t *cuts, size_t cut_count, bool slow,
                                   char *memory, backend_t backend) {
    played_t played;
    served_connect(&played, memory, backend);
    played.slow = slow;
    bool open = true;
    size_t given = 0;
    for (size_t i = 0; open && i <= cut_count; i++) {
        size_t next = i == cut_count ? size : size * cuts[i] / 256;
        if (next <= given) continue;
        open = served_wait(&played) && served_give(&played, data + given, next - given);
        given = next;
    }
    if (open) served_end(&played);
    served_close(&played);
    return played;
}

/* After allocations that failed: all is as before. */
static void served_expect_service(char *memory, backend_t backend) {
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", body[] = "hello";
    if (!scarcity.failed) return;
    memory_choose(0, 0);
    served_choose_step(0);
    played_t played = served_play(request, sizeof request - 1, NULL, 0, false, memory, backend);
    size_t size = sizeof body - 1;
    if (played.size < size || memcmp(played.data, "HTTP/1.1 200", 12) != 0 ||
        memcmp(played.data + played.size - size, body, size) != 0)
        die("no service after memory was scarce");
}

#endif
