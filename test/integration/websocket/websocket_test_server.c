/* Owns: the WebSocket routes that the integration tests ask, on one loop by default: each with a limit, or a
 * handler, of its own. websocket_test_server ADDRESS [LOOPS]. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "more.h"

/* --- what ended how: one loop, so plain memory --- */

static char closes[65536];
static size_t closes_size;

static void note_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)ws, (void)user;
    int size =
        snprintf(closes + closes_size, sizeof closes - closes_size, "%d %.*s\n", code, (int)reason.size, reason.data);
    if (size > 0 && closes_size + (size_t)size < sizeof closes) closes_size += (size_t)size;
}

/* Tells what has ended since it was asked last. */
static void show_closes(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send(res, 200, "text/plain", closes, closes_size);
    closes_size = 0;
}

static void add_counter(const char *name, const char *help, uint64_t value, void *user) {
    (void)help;
    char *text = user;
    size_t size = strlen(text);
    snprintf(text + size, 16384 - size, "%s\"%s\": %" PRIu64, size > 1 ? ", " : "", name, value);
}

static void show_counters(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    char text[16384] = "{";
    (void)req;
    uvhttp_server_counters(user, add_counter, text);
    strcat(text, "}");
    uvhttp_response_json(res, 200, text);
}

/* --- routes --- */

static void echo(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    if (uvhttp_ws_send(ws, message.type, message.data, message.size) == UVHTTP_E_AGAIN) uvhttp_ws_pause(ws);
}

static void resume(uvhttp_ws_t *ws, void *user) {
    (void)user;
    uvhttp_ws_resume(ws);
}

static void say_subprotocol(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)message, (void)user;
    const char *name = uvhttp_ws_subprotocol(ws);
    uvhttp_ws_send(ws, UVHTTP_WS_TEXT, name ? name : "-", name ? strlen(name) : 1);
}

/* "4001 why": closes so. Says first what a call with these arguments returns. */
static void close_so(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    char reason[256] = "";
    size_t size = message.size > 5 ? message.size - 5 : 0;
    memcpy(reason, message.data + 5, size < sizeof reason ? size : 0);
    int code = (int)strtol(message.data, NULL, 10);
    if (uvhttp_ws_close(ws, code, reason) == UVHTTP_E_INVALID)
        uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "invalid", 7);
    else if (uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "late", 4) != UVHTTP_E_CLOSED)
        abort();
}

/* Lets in who says a name: it is the connection's data from then on. */
static uvhttp_flow_t ask_name(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t name = uvhttp_request_param(req, "name");
    if (name.size == 4 && memcmp(name.data, "evil", 4) == 0) {
        uvhttp_response_text(res, 401, "who are you?");
        return UVHTTP_STOP;
    }
    char *copy = calloc(1, name.size + 1);
    memcpy(copy, name.data, name.size);
    uvhttp_request_set_data(req, copy);
    uvhttp_response_header(res, "X-Hello", copy);
    return UVHTTP_NEXT;
}

static void greet(uvhttp_ws_t *ws, void *user) {
    (void)user;
    char text[128];
    int size = snprintf(text, sizeof text, "hello %s", (char *)uvhttp_ws_data(ws));
    uvhttp_ws_send(ws, UVHTTP_WS_TEXT, text, (size_t)size);
}

static void forget_name(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    free(uvhttp_ws_data(ws));
    note_close(ws, code, reason, user);
}

/* Sends numbers from a thread of its own, until the connection has gone. */
static void *count(void *arg) {
    uvhttp_ws_ref_t *ref = arg;
    int status = uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "\xff", 1) == UVHTTP_E_INVALID ? 0 : -1;
    for (int i = 0; i < 1000 && status == 0; i++) {
        char text[16];
        int size = snprintf(text, sizeof text, "%d", i);
        status = uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, text, (size_t)size);
    }
    if (status == 0) (void)uvhttp_ws_ref_close(ref, 4000, "counted");
    if (status == 0) (void)uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "behind the close", 16);
    uvhttp_ws_ref_release(ref);
    return NULL;
}

static void start_count(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)message, (void)user;
    pthread_t thread;
    uvhttp_ws_ref_t *ref = uvhttp_ws_ref(ws);
    if (ref && pthread_create(&thread, NULL, count, ref) == 0) pthread_detach(thread);
}

/* "n": fills the queue until it is refused, then says how often that was backpressure, and whether on_drain came. */
static void fill(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)message, (void)user;
    static char piece[10000];
    int status, consumed = 0, pressed = 0;
    while ((status = uvhttp_ws_send(ws, UVHTTP_WS_BINARY, piece, sizeof piece)) == 0 || status == UVHTTP_E_AGAIN) {
        consumed++;
        pressed += status == UVHTTP_E_AGAIN;
    }
    if (status != UVHTTP_E_LIMIT || uvhttp_ws_queued(ws) == 0) abort();
    uvhttp_ws_set_data(ws, (void *)(intptr_t)(consumed * 1000 + pressed));
}

static void say_drained(uvhttp_ws_t *ws, void *user) {
    (void)user;
    char text[64];
    int sum = (int)(intptr_t)uvhttp_ws_data(ws);
    int size =
        snprintf(text, sizeof text, "%d taken, %d pressed, %zu queued", sum / 1000, sum % 1000, uvhttp_ws_queued(ws));
    uvhttp_ws_send(ws, UVHTTP_WS_TEXT, text, (size_t)size);
}

/* Two hundred messages in one iteration. */
static void burst(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    for (int i = 0; i < 200; i++) uvhttp_ws_send(ws, message.type, message.data, message.size);
}

void add_websocket(uvhttp_server_t *server, const char *pattern, uvhttp_ws_handlers_t handlers, void *user) {
    uvhttp_ws_options_t options = handlers.options ? *handlers.options : (uvhttp_ws_options_t){0};
    if (options.rate_grace == 0) options.rate_grace = RATE_GRACE;
    handlers.options = &options;
    uvhttp_websocket(server, pattern, &handlers, user);
}

static void add_routes(uvhttp_server_t *server) {
    static const char *const subprotocols[] = {"chat.v2", "chat.v1", NULL},
                             *const origins[] = {"https://good.example", NULL}, *const everyone[] = {"*", NULL};
    static const uvhttp_ws_options_t large = {.message_size_max = 32 << 20, .send_queue_max = 80 << 20},
                                     small = {.message_size_max = 100, .fragments_max = 3},
                                     slow = {.message_timeout = 1},
                                     quick = {.ping_interval = 1, .idle_timeout = 2, .close_timeout = 1},
                                     talk = {.subprotocols = subprotocols, .origins = everyone},
                                     strict = {.origins = origins},
                                     narrow = {.send_queue_max = 200000, .send_high_watermark = 50000},
                                     impatient = {.ping_interval = 1, .idle_timeout = 2, .send_queue_max = 8 << 20};
    const struct {
        const char *pattern;
        uvhttp_ws_handlers_t handlers;
    } routes[] = {
        {"/echo", {.on_message = echo, .on_drain = resume, .options = &large}},
        {"/default", {.on_message = echo, .on_drain = resume}},
        {"/small", {.on_message = echo, .options = &small}},
        {"/slow", {.on_message = echo, .options = &slow}},
        {"/quick", {.on_message = close_so, .options = &quick}},
        {"/talk", {.on_message = say_subprotocol, .options = &talk}},
        {"/strict", {.on_message = echo, .options = &strict}},
        {"/name/:name", {.on_upgrade = ask_name, .on_open = greet, .on_message = echo, .on_close = forget_name}},
        {"/count", {.on_message = start_count}},
        {"/burst", {.on_message = burst}},
        {"/impatient", {.on_message = fill, .options = &impatient}},
        {"/fill", {.on_message = fill, .on_drain = say_drained, .options = &narrow}}};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        uvhttp_ws_handlers_t handlers = routes[i].handlers;
        if (!handlers.on_close) handlers.on_close = note_close;
        add_websocket(server, routes[i].pattern, handlers, NULL);
    }
    uvhttp_group_websocket(uvhttp_group(server, "/group"), "/echo", &(uvhttp_ws_handlers_t){.on_message = echo}, NULL);
    uvhttp_get(server, "/closes", show_closes, NULL);
    uvhttp_get(server, "/counters", show_counters, server);
}

int main(int argc, char **argv) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    config.drain_timeout = 5;
    config.rate_grace = RATE_GRACE;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (!server || argc < 2) return 2;
    add_routes(server);
    add_more_routes(server);
    int status = uvhttp_server_run(server, argv[1]);
    uvhttp_server_free(server);
    return status != 0;
}
