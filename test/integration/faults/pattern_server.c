/* A server whose bodies are determined by the request alone, for tests that let system calls fail: every byte can be
 * checked.
 *
 *   pattern_server --listen ADDRESS [--threads N] [--tls-listen ADDRESS] [--set name=value ...] [--upstream ADDRESS]
 *                  [--directory DIR] [--uploads DIR] [--access-log FILE] [--redis ADDRESS] [--service on]
 *
 * GET /copy/SEED/SIZE, /ref/SEED/SIZE, /pieces/SEED/SIZE and /file/SEED/SIZE send pattern.h's bytes from memory of the
 * library, from memory of the application, in parts, and by sendfile(2); X-Seed repeats the seed. /ws is a WebSocket
 * that echoes, /counters is as in http_test_server, pattern_routes.c has the others. --tls-listen: the same, encrypted,
 * with a certificate for development. --service on: uvhttp_service_init.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uvhttp.h>
#include <uvhttp/service.h>
#include <uvhttp/tls.h>

#include "pattern.h"
#include "pattern_routes.h"

static uvhttp_server_t *the_server;

uint64_t pattern_number(uvhttp_request_t *req, const char *name) {
    char text[32] = "";
    uvhttp_str_t value = uvhttp_request_param(req, name);
    if (value.size < sizeof text) memcpy(text, value.data, value.size);
    return strtoull(text, NULL, 10);
}

char *pattern_body_of(uvhttp_request_t *req, uvhttp_response_t *res, size_t *size) {
    uint64_t seed = pattern_number(req, "seed"), asked = pattern_number(req, "size");
    char *body = asked <= PATTERN_SIZE_MAX ? malloc(asked ? asked : 1) : NULL;
    char text[32];
    if (!body) return NULL;
    pattern_fill(body, asked, seed);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    uvhttp_response_header(res, "X-Seed", text);
    *size = asked;
    return body;
}

void pattern_copy(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t size = 0;
    char *body = pattern_body_of(req, res, &size);
    if (body) uvhttp_response_send(res, 200, PATTERN_TYPE, body, size);
    free(body);
}

static void release(void *body) {
    memset(body, 0xee, 16); /* whoever still sends it is found out */
    free(body);
}

static void ref(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t size = 0;
    char *body = pattern_body_of(req, res, &size);
    if (body) uvhttp_response_send_ref(res, 200, PATTERN_TYPE, body, size, size < 16 ? free : release, body);
}

static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t size = 0;
    char *body = pattern_body_of(req, res, &size);
    int status = body ? uvhttp_response_begin(res, 200, PATTERN_TYPE, size) : UVHTTP_E_NOMEM;
    for (size_t at = 0, piece; status == UVHTTP_OK && at < size; at += piece) {
        piece = size - at < 9000 ? size - at : 9000;
        status = uvhttp_response_write(res, body + at, piece);
    }
    free(body);
    if (status == UVHTTP_OK) uvhttp_response_end(res);
}

static void file(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t size = 0;
    char *body = pattern_body_of(req, res, &size);
    int fd = body ? memfd_create("pattern", MFD_CLOEXEC) : -1;
    bool wrote = fd >= 0 && write(fd, body, size) == (ssize_t)size;
    free(body);
    if (!wrote) {
        if (fd >= 0) close(fd);
        return;
    }
    uvhttp_response_send_fd(res, 200, PATTERN_TYPE, fd, 0, size);
}

typedef struct text {
    char data[16384];
    size_t used;
} text_t;

static void write_counter(const char *name, const char *help, uint64_t value, void *user) {
    (void)help;
    text_t *json = user;
    if (json->used + 100 > sizeof json->data) return;
    json->used += (size_t)snprintf(json->data + json->used, sizeof json->data - json->used, "%s\"%s\": %llu",
                                   json->used > 1 ? ", " : "", name, (unsigned long long)value);
}

static void counters(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    text_t json = {.data = "{", .used = 1};
    uvhttp_server_counters(the_server, write_counter, &json);
    strcpy(json.data + json.used, "}");
    uvhttp_response_json(res, 200, json.data);
}

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "hello");
}

typedef struct arguments {
    const char *address, *tls_address;
    const char *service; /* NULL: it is none */
    uvhttp_server_config_t config;
    pattern_options_t routes;
} arguments_t;

static void die(const char *message) {
    fprintf(stderr, "pattern_server: %s\n", message);
    exit(2);
}

static void set(uvhttp_server_config_t *config, const char *text) {
    char name[64] = "", message[256];
    const char *equals = strchr(text, '=');
    if (!equals || (size_t)(equals - text) >= sizeof name) die("--set takes name=value");
    memcpy(name, text, (size_t)(equals - text));
    if (uvhttp_server_config_set(config, name, equals + 1, message, sizeof message) != UVHTTP_OK) die(message);
}

static void read_argument(arguments_t *arguments, const char *name, const char *value) {
    const struct {
        const char *name;
        const char **value;
    } texts[] = {{"--listen", &arguments->address},           {"--tls-listen", &arguments->tls_address},
                 {"--upstream", &arguments->routes.upstream}, {"--directory", &arguments->routes.directory},
                 {"--uploads", &arguments->routes.uploads},   {"--access-log", &arguments->routes.access_log},
                 {"--redis", &arguments->routes.redis},       {"--service", &arguments->service}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i].name) == 0) {
            *texts[i].value = value;
            return;
        }
    if (strcmp(name, "--threads") == 0)
        arguments->config.io_threads = (uint32_t)atoi(value);
    else if (strcmp(name, "--set") == 0)
        set(&arguments->config, value);
    else
        die("the options stand at the top of pattern_server.c");
}

static int run(const arguments_t *arguments, uvhttp_tls_t *tls) {
    int status = arguments->service ? uvhttp_service_init(the_server) : UVHTTP_OK;
    if (status == UVHTTP_OK) status = pattern_middleware(the_server, &arguments->routes);
    uvhttp_get(the_server, "/", hello, NULL);
    uvhttp_get(the_server, "/copy/:seed/:size", pattern_copy, NULL);
    uvhttp_get(the_server, "/ref/:seed/:size", ref, NULL);
    uvhttp_get(the_server, "/pieces/:seed/:size", pieces, NULL);
    uvhttp_get(the_server, "/file/:seed/:size", file, NULL);
    uvhttp_get(the_server, "/counters", counters, NULL);
    if (status == UVHTTP_OK) status = pattern_routes(the_server, &arguments->routes);
    if (status == UVHTTP_OK && arguments->tls_address)
        status = uvhttp_server_listen_tls(the_server, arguments->tls_address, tls, NULL);
    return status == UVHTTP_OK ? uvhttp_server_run(the_server, arguments->address) : status;
}

int main(int argc, char **argv) {
    arguments_t arguments = {0};
    uvhttp_server_config_default(&arguments.config);
    arguments.config.io_threads = 1;
    arguments.config.write_queue_max = PATTERN_SIZE_MAX;
    for (int i = 1; i + 1 < argc; i += 2) read_argument(&arguments, argv[i], argv[i + 1]);
    if (!arguments.address) die("--listen is missing");
    if (uvhttp_log_set_rate_limit(0) != UVHTTP_OK) die("no rate");
    the_server = uvhttp_server_new(&arguments.config);
    if (!the_server) die("no server");
    uvhttp_tls_t *tls = arguments.tls_address ? uvhttp_tls_development(NULL) : NULL;
    int status = run(&arguments, tls);
    if (status != UVHTTP_OK) {
        const char *message = uvhttp_server_error_text(the_server);
        signal(SIGPIPE, SIG_IGN); /* for its own line: those of the library raise none */
        fprintf(stderr, "pattern_server: %s\n", message ? message : uvhttp_error_message(status));
    }
    uvhttp_server_free(the_server);
    uvhttp_tls_release(tls);
    pattern_routes_end();
    return status == UVHTTP_OK ? 0 : 1;
}
