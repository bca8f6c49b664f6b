/* A server whose bodies are told by the request alone, for tests that let system calls fail: every byte can be checked.
 *
 *   pattern_server --listen ADDRESS [--threads N] [--tls-listen ADDRESS]
 *
 * GET /copy/SEED/SIZE, /ref/SEED/SIZE, /pieces/SEED/SIZE and /file/SEED/SIZE send pattern.h's bytes from memory of the
 * library, from memory of the application, in pieces, and by sendfile(2); X-Seed repeats the seed. /ws is a WebSocket
 * that echoes, /counters is as in http_test_server. --tls-listen: the same, encrypted, with a certificate for
 * development.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uvhttp.h>
#include <uvhttp/tls.h>

#include "pattern.h"

#define TYPE "application/octet-stream"
#define SIZE_MAX_ASKED (64u * 1024 * 1024)

static uvhttp_server_t *the_server;

static uint64_t number_of(uvhttp_request_t *req, const char *name) {
    char text[32] = "";
    uvhttp_str_t value = uvhttp_request_param(req, name);
    if (value.size < sizeof text) memcpy(text, value.data, value.size);
    return strtoull(text, NULL, 10);
}

static char *body_of(uvhttp_request_t *req, uvhttp_response_t *res, size_t *size) {
    uint64_t seed = number_of(req, "seed"), asked = number_of(req, "size");
    char *body = asked <= SIZE_MAX_ASKED ? malloc(asked ? asked : 1) : NULL;
    char text[32];
    if (!body) return NULL;
    pattern_fill(body, asked, seed);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    uvhttp_response_header(res, "X-Seed", text);
    *size = asked;
    return body;
}

static void copy(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t size = 0;
    char *body = body_of(req, res, &size);
    if (body) uvhttp_response_send(res, 200, TYPE, body, size);
    free(body);
}

static void release(void *body) {
    memset(body, 0xee, 16); /* whoever still sends it is found out */
    free(body);
}

static void ref(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t size = 0;
    char *body = body_of(req, res, &size);
    if (body) uvhttp_response_send_ref(res, 200, TYPE, body, size, size < 16 ? free : release, body);
}

static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t size = 0;
    char *body = body_of(req, res, &size);
    int status = body ? uvhttp_response_begin(res, 200, TYPE, size) : UVHTTP_E_NOMEM;
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
    char *body = body_of(req, res, &size);
    int fd = body ? memfd_create("pattern", MFD_CLOEXEC) : -1;
    bool wrote = fd >= 0 && write(fd, body, size) == (ssize_t)size;
    free(body);
    if (!wrote) {
        if (fd >= 0) close(fd);
        return;
    }
    uvhttp_response_send_fd(res, 200, TYPE, fd, 0, size);
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

#ifdef PATTERN_WEBSOCKET
static void echo(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    uvhttp_ws_send(ws, message.type, message.data, message.size);
}

static const uvhttp_ws_handlers_t echoes = {.on_message = echo};
#endif

int main(int argc, char **argv) {
    const char *address = NULL, *tls_address = NULL;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = 1;
    config.write_queue_max = SIZE_MAX_ASKED;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--listen") == 0) address = argv[i + 1];
        if (strcmp(argv[i], "--tls-listen") == 0) tls_address = argv[i + 1];
        if (strcmp(argv[i], "--threads") == 0) config.io_threads = (uint32_t)atoi(argv[i + 1]);
        if (strcmp(argv[i], "--drain") == 0) config.drain_timeout = (uint32_t)atoi(argv[i + 1]);
    }
    the_server = uvhttp_server_new(&config);
    if (!the_server || !address) return 2;
    uvhttp_get(the_server, "/", hello, NULL);
    uvhttp_get(the_server, "/copy/:seed/:size", copy, NULL);
    uvhttp_get(the_server, "/ref/:seed/:size", ref, NULL);
    uvhttp_get(the_server, "/pieces/:seed/:size", pieces, NULL);
    uvhttp_get(the_server, "/file/:seed/:size", file, NULL);
    uvhttp_get(the_server, "/counters", counters, NULL);
#ifdef PATTERN_WEBSOCKET
    uvhttp_websocket(the_server, "/ws", &echoes, NULL);
#endif
    uvhttp_tls_t *tls = tls_address ? uvhttp_tls_development(NULL) : NULL;
    int status = tls_address ? uvhttp_server_listen_tls(the_server, tls_address, tls, NULL) : UVHTTP_OK;
    if (status == UVHTTP_OK) status = uvhttp_server_run(the_server, address);
    if (status != UVHTTP_OK) {
        const char *message = uvhttp_server_error_text(the_server);
        fprintf(stderr, "pattern_server: %s\n", message ? message : uvhttp_error_message(status));
    }
    uvhttp_server_free(the_server);
    uvhttp_tls_free(tls);
    return status == UVHTTP_OK ? 0 : 1;
}
