/* Owns: the WebSocket routes of served.h, and what they have sent on the connection that is played: a client must get
 * exactly that. Header only.
 *   /w echoes whole messages; /x too, compressed, and does what the first byte says, see served_do();
 *   /y echoes each part of a message as it has come; /z subscribes and publishes, and so does /v, which compresses a
 *   publication once for all. */
#ifndef UVHTTP_TEST_FUZZ_SERVED_WEBSOCKET_H
#define UVHTTP_TEST_FUZZ_SERVED_WEBSOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp.h>

enum { SERVED_MESSAGES_MAX = 1024, SERVED_LARGE_MAX = 20, SERVED_LARGE_MESSAGE = 70000 };

typedef struct served_message {
    uint64_t hash;
    uint32_t size;
    uint32_t type;
} served_message_t;

/* What has been sent, in its order; what it has ended with. */
static struct {
    size_t count, large;
    served_message_t messages[SERVED_MESSAGES_MAX];
    served_message_t open; /* one that is streamed */
    bool streams;
    size_t held; /* of the messages: they are sent when that one has ended */
    unsigned opened, closed;
    int code;      /* of on_close */
    bool referred; /* what was sent so is not among the messages */
    bool varies;   /* with the parts in which the client's bytes have come, or with the iterations of the loop */
    bool reset;    /* by the server: what was not sent before is lost */
    uvhttp_ws_t *paused;
} talk;

static uint64_t served_hash(uint64_t hash, const char *data, size_t size) {
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static void talk_sent(served_message_t message) {
    if (talk.count < SERVED_MESSAGES_MAX) talk.messages[talk.count++] = message;
}

static bool talk_is_queued(int status) {
    return status == UVHTTP_OK || status == UVHTTP_E_AGAIN;
}

static void talk_send(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const char *data, size_t size) {
    if (talk_is_queued(uvhttp_ws_send(ws, type, data, size)))
        talk_sent((served_message_t){served_hash(0, data, size), (uint32_t)size, type});
}

static void talk_begin(uvhttp_ws_t *ws, uvhttp_ws_type_t type) {
    if (uvhttp_ws_begin(ws, type) != UVHTTP_OK) return;
    talk.open = (served_message_t){.type = type};
    talk.held = talk.count;
    talk.streams = true;
}

static void talk_write(uvhttp_ws_t *ws, const char *data, size_t size) {
    if (!talk_is_queued(uvhttp_ws_write(ws, data, size))) return;
    talk.open.hash = served_hash(talk.open.hash, data, size);
    talk.open.size += (uint32_t)size;
}

static void talk_end(uvhttp_ws_t *ws) {
    if (!talk_is_queued(uvhttp_ws_end(ws))) return;
    talk_sent(talk.open);
    for (size_t i = talk.count - 1; i > talk.held; i--) talk.messages[i] = talk.messages[i - 1];
    talk.messages[talk.held] = talk.open;
    talk.streams = false;
}

static void served_resume(void) {
    uvhttp_ws_t *ws = talk.paused;
    talk.paused = NULL;
    if (ws) uvhttp_ws_resume(ws);
}

/* --- handlers --- */

static void served_ws_open(uvhttp_ws_t *ws, void *user) {
    talk.opened++;
    if (user) talk_send(ws, UVHTTP_WS_TEXT, user, strlen(user));
}

static void served_ws_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)reason, (void)user;
    talk.closed++;
    talk.code = code;
    if (talk.paused == ws) talk.paused = NULL;
}

static void served_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    talk_send(ws, message.type, message.data, message.size);
}

/* As another thread does. */
static void served_refer(uvhttp_ws_t *ws) {
    talk.varies = true;
    talk.referred = true;
    uvhttp_ws_ref_t *ref = uvhttp_ws_ref(ws);
    if (!ref) return;
    (void)uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "referred", 8);
    (void)uvhttp_ws_ref_close(ref, 3001, "referred");
    uvhttp_ws_ref_release(ref);
}

static void served_do(uvhttp_ws_t *ws, char command) {
    static char large[SERVED_LARGE_MESSAGE];
    switch (command) {
        case 'L':
            if (talk.large++ < SERVED_LARGE_MAX) talk_send(ws, UVHTTP_WS_BINARY, large, sizeof large);
            break;
        case 'P':
            served_resume();
            uvhttp_ws_pause(ws);
            talk.paused = ws;
            break;
        case 'S':
            talk_begin(ws, UVHTTP_WS_TEXT);
            talk_write(ws, "stre", 4);
            talk_write(ws, "amed", 4);
            talk_end(ws);
            break;
        case 'B': talk_begin(ws, UVHTTP_WS_BINARY); break;
        case 'W': talk_write(ws, "written", 7); break;
        case 'E': talk_end(ws); break;
        case 'R': served_refer(ws); break;
        case 'C': (void)uvhttp_ws_close(ws, 3000, "bye"); break;
        default: break;
    }
}

static void served_command(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    char command = '\0';
    if (message.size > 0) command = message.data[0];
    served_message(ws, message, user);
    served_do(ws, command);
}

static void served_fragment(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user) {
    (void)user;
    talk.varies = true;
    if (fragment.first) talk_begin(ws, fragment.type);
    talk_write(ws, fragment.data, fragment.size);
    if (fragment.last) talk_end(ws);
}

static void served_topic(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    char topic[8];
    talk.varies = true;
    size_t size = 0; /* up to a space */
    while (size < message.size && size < sizeof topic - 1 && message.data[size] != ' ') size++;
    snprintf(topic, sizeof topic, "%.*s", (int)size, message.data);
    switch (*topic) {
        case '+': (void)uvhttp_ws_subscribe(ws, topic + 1); break;
        case '-': (void)uvhttp_ws_unsubscribe(ws, topic + 1); break;
        case '(': talk_begin(ws, UVHTTP_WS_TEXT); break;
        case ')': talk_end(ws); break;
        default: (void)uvhttp_ws_publish(ws, topic, message.type, message.data, message.size); break;
    }
}

static void served_websocket_routes(uvhttp_server_t *server) {
    static const char *const protocols[] = {"chat", "other", NULL};
    static const uvhttp_ws_options_t compressed = {
        .compression = true, .compression_size_min = 1, .subprotocols = protocols, .message_size_max = 100000};
    static const uvhttp_ws_options_t parts = {.compression = true, .context_takeover = true, .compression_size_min = 1};
    static const uvhttp_ws_options_t topics = {.compression = true,
                                               .context_takeover = true,
                                               .compression_size_min = 10,
                                               .publish_to_self = true,
                                               .topics_max = 4,
                                               .topic_size_max = 5,
                                               .server_window_bits = 10};
    static const uvhttp_ws_options_t alike = {
        .compression = true, .compression_size_min = 1, .idle_timeout = 60, .ping_interval = 15, .topics_max = 4};
    static const uvhttp_ws_handlers_t echo = {
        .on_open = served_ws_open, .on_message = served_message, .on_close = served_ws_close};
    static const uvhttp_ws_handlers_t commands = {
        .on_open = served_ws_open, .on_message = served_command, .on_close = served_ws_close, .options = &compressed};
    static const uvhttp_ws_handlers_t fragments = {
        .on_open = served_ws_open, .on_fragment = served_fragment, .on_close = served_ws_close, .options = &parts};
    static const uvhttp_ws_handlers_t publications = {
        .on_open = served_ws_open, .on_message = served_topic, .on_close = served_ws_close, .options = &topics};
    static const uvhttp_ws_handlers_t shared = {
        .on_open = served_ws_open, .on_message = served_topic, .on_close = served_ws_close, .options = &alike};
    uvhttp_websocket(server, "/v", &shared, NULL);
    uvhttp_websocket(server, "/w", &echo, NULL);
    static char greeting[] = "hello";
    uvhttp_websocket(server, "/x", &commands, greeting);
    uvhttp_websocket(server, "/y", &fragments, NULL);
    uvhttp_websocket(server, "/z", &publications, NULL);
}

#endif
