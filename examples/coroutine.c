/* Owns: the example of coroutine routes: handlers that wait in straight-line code, thousands of them on one thread.
 *
 *   curl http://127.0.0.1:8080/wait          responds after 200 ms
 *   curl http://127.0.0.1:8080/fanout        three waits at once, the longest counts
 *   curl http://127.0.0.1:8080/pair?ms=900  two coroutines, one waits for the other
 *   curl -T FILE http://127.0.0.1:8080/count counts lines as they arrive
 *   curl http://127.0.0.1:8080/file          reads a file on a thread of the pool
 *   curl http://127.0.0.1:8080/other         talks to a server (coroutine ADDRESS SERVER; itself) by a socket, and
 * shows what it has said; gateway.c has the shorter way for HTTP
 * Fields of the configuration are set by the environment: UVHTTP_COROUTINES_MAX=100000 coroutine
 */
/* Needs: coroutines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp.h>

static void wait200(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_coro_sleep(200); /* the thread serves others meanwhile */
    uvhttp_response_text(res, 200, "slept\n");
}

typedef struct part {
    uint32_t ms;
    int status;
} part_t;

static void wait_part(void *arg) {
    part_t *part = arg;
    part->status = uvhttp_coro_sleep(part->ms);
}

static void fan_out(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    part_t parts[3] = {{.ms = 30}, {.ms = 20}, {.ms = 10}};
    uvhttp_coro_t *coros[3];
    int begun = 0, done = 0;
    while (begun < 3 && uvhttp_coro_spawn(wait_part, &parts[begun], &coros[begun]) == UVHTTP_OK) begun++;
    for (int i = 0; i < begun; i++) {
        (void)uvhttp_coro_join(coros[i], UVHTTP_NEVER);
        if (parts[i].status == UVHTTP_OK) done++;
    }
    uvhttp_response_text(res, done == 3 ? 200 : 503, done == 3 ? "all done\n" : "not all\n");
}

static void pair(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    part_t part = {.ms = 200};
    uvhttp_str_t ms;
    if (uvhttp_request_query_param(req, "ms", &ms)) part.ms = (uint32_t)strtoul(ms.data, NULL, 10);
    uvhttp_coro_t *coro;
    if (uvhttp_coro_spawn(wait_part, &part, &coro) == UVHTTP_OK) {
        (void)uvhttp_coro_join(coro, UVHTTP_NEVER);
        uvhttp_response_text(res, 200, "both waited\n");
    } else {
        uvhttp_response_text(res, 503, "no space for a second\n");
    }
}

static void count_lines(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    unsigned long lines = 0;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_coro_read_body(req, &piece, 10000)) == UVHTTP_OK)
        for (size_t i = 0; i < piece.size; i++) lines += piece.data[i] == '\n';
    if (status != UVHTTP_E_EOF) return;
    char text[32];
    snprintf(text, sizeof text, "%lu\n", lines);
    uvhttp_response_text(res, 200, text);
}

static void close_socket(void *arg) {
    close((int)(intptr_t)arg);
}

/* What another server responds, up to its end or `max` - 1 bytes. */
static int fetch(const char *address, const char *request, char *text, size_t max) {
    int fd;
    int status = uvhttp_coro_connect(address, 1000, &fd);
    if (status != UVHTTP_OK) return status;
    if ((status = uvhttp_coro_defer(close_socket, (void *)(intptr_t)fd)) != UVHTTP_OK) {
        close(fd);
        return status;
    }
    status = uvhttp_coro_write(fd, request, strlen(request), 1000);
    size_t sum = 0, size;
    while (status == UVHTTP_OK && sum < max - 1) {
        status = uvhttp_coro_read(fd, text + sum, max - 1 - sum, &size, 1000);
        sum += size;
    }
    text[sum] = '\0';
    return status == UVHTTP_E_EOF ? UVHTTP_OK : status;
}

static void ask_other(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    static const char request[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char text[4096];
    int status = fetch(user, request, text, sizeof text);
    if (status == UVHTTP_OK)
        uvhttp_response_text(res, 200, text);
    else
        uvhttp_response_text(res, 502, uvhttp_error_message(status));
}

static void close_file(void *arg) {
    fclose(arg);
}

typedef struct reading {
    FILE *file;
    char line[256];
} reading_t;

static void read_line(void *arg) { /* on a thread of the pool: it may block */
    reading_t *reading = arg;
    if (!fgets(reading->line, sizeof reading->line, reading->file)) reading->line[0] = '\0';
}

static void show_file(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    reading_t reading = {.file = fopen("/etc/hostname", "re")};
    if (!reading.file) {
        uvhttp_response_text(res, 404, "no such file\n");
        return;
    }
    /* Whatever way this handler ends, also when the client goes while it waits. */
    if (uvhttp_coro_defer(close_file, reading.file) != UVHTTP_OK) {
        fclose(reading.file);
        return;
    }
    if (uvhttp_coro_work(read_line, &reading) == UVHTTP_OK) uvhttp_response_text(res, 200, reading.line);
}

int main(int argc, char **argv) {
    uvhttp_server_config_t config;
    char message[256];
    uvhttp_server_config_default(&config);
    if (uvhttp_server_config_env(&config, message, sizeof message) != UVHTTP_OK) {
        fprintf(stderr, "%s\n", message);
        return EXIT_FAILURE;
    }
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (!server) return EXIT_FAILURE;
    uvhttp_route(server, UVHTTP_GET, "/wait", wait200, NULL, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(server, UVHTTP_GET, "/fanout", fan_out, NULL, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(server, UVHTTP_GET, "/pair", pair, NULL, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(server, UVHTTP_GET, "/file", show_file, NULL, UVHTTP_EXEC_COROUTINE);
    char *address = argc > 1 ? argv[1] : "127.0.0.1:8080";
    uvhttp_route(server, UVHTTP_GET, "/other", ask_other, argc > 2 ? argv[2] : address, UVHTTP_EXEC_COROUTINE);
    uvhttp_route_t *count = uvhttp_put(server, "/count", count_lines, NULL);
    uvhttp_route_options(count, &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_COROUTINE, .stream_body = true});
    int status = uvhttp_server_run(server, address);
    uvhttp_server_free(server);
    return status == UVHTTP_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
