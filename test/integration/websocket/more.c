/* Owns: the routes of compression, of messages in parts and of topics. All but topics is for one loop. */
#include "more.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void echo(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    if (uvhttp_ws_send(ws, message.type, message.data, message.size) == UVHTTP_E_AGAIN) uvhttp_ws_pause(ws);
}

static void resume(uvhttp_ws_t *ws, void *user) {
    (void)user;
    uvhttp_ws_resume(ws);
}

/* --- messages in parts, in --- */

typedef struct tally {
    size_t size, pieces, largest;
} tally_t;

static void tally_open(uvhttp_ws_t *ws, void *user) {
    (void)user;
    uvhttp_ws_set_data(ws, calloc(1, sizeof(tally_t)));
}

static void tally_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)code, (void)reason, (void)user;
    free(uvhttp_ws_data(ws));
}

static tally_t *add_piece(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment) {
    tally_t *tally = uvhttp_ws_data(ws);
    if (fragment.first) *tally = (tally_t){0};
    tally->size += fragment.size;
    tally->pieces++;
    if (fragment.size > tally->largest) tally->largest = fragment.size;
    return tally;
}

static void say_tally(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user) {
    (void)user;
    const tally_t *tally = add_piece(ws, fragment);
    if (!fragment.last) return;
    char text[128];
    int size =
        snprintf(text, sizeof text, "%d %zu %zu %zu", (int)fragment.type, tally->size, tally->pieces, tally->largest);
    uvhttp_ws_send(ws, UVHTTP_WS_TEXT, text, (size_t)size);
}

/* Pauses after each piece; GET /resume says how much has come, and lets it continue. */
static uvhttp_ws_t *paused;

static void pause_at_piece(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user) {
    uvhttp_ws_pause(ws);
    paused = ws;
    say_tally(ws, fragment, user);
}

static void pause_at_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    uvhttp_ws_pause(ws);
    paused = ws;
    echo(ws, message, user);
}

static void resume_paused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    char text[64] = "nothing";
    if (paused) {
        const tally_t *tally = uvhttp_ws_data(paused);
        if (tally) snprintf(text, sizeof text, "%zu", tally->size);
        uvhttp_ws_resume(paused);
    }
    uvhttp_response_text(res, 200, text);
}

static void forget_paused(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    if (paused == ws) paused = NULL;
    tally_close(ws, code, reason, user);
}

/* --- messages in parts, out --- */

static void expect(int status, int wanted) {
    if (status != wanted) {
        fprintf(stderr, "status %d instead of %d\n", status, wanted);
        abort();
    }
}

/* Two messages in parts, and others in between, which have to wait. */
static void stream(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    uvhttp_server_t *server = user;
    (void)message;
    expect(uvhttp_ws_write(ws, "a", 1), UVHTTP_E_STATE);
    expect(uvhttp_ws_end(ws), UVHTTP_E_STATE);
    expect(uvhttp_ws_begin(ws, (uvhttp_ws_type_t)9), UVHTTP_E_INVALID);
    expect(uvhttp_ws_begin(ws, UVHTTP_WS_TEXT), 0);
    expect(uvhttp_ws_begin(ws, UVHTTP_WS_TEXT), UVHTTP_E_STATE);
    expect(uvhttp_ws_write(ws, "\xe2\x82", 2), 0);
    expect(uvhttp_ws_end(ws), UVHTTP_E_INVALID);
    expect(uvhttp_ws_write(ws, "\xff", 1), UVHTTP_E_INVALID);
    expect(uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "between", 7), 0);
    expect(uvhttp_ws_subscribe(ws, "stream"), 0);
    expect(uvhttp_websocket_publish(server, "stream", UVHTTP_WS_TEXT, "published", 9), 0);
    expect(uvhttp_ws_write(ws, "\xac", 1), 0);
    expect(uvhttp_ws_write(ws, NULL, 0), 0);
    if (uvhttp_ws_queued(ws) < 9) abort();
    expect(uvhttp_ws_end(ws), 0);
    expect(uvhttp_ws_begin(ws, UVHTTP_WS_BINARY), 0);
    expect(uvhttp_ws_write(ws, "tail", 4), 0);
    uvhttp_ws_ref_t *ref = uvhttp_ws_ref(ws);
    expect(uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "end", 3), 0); /* arrives while the message is open */
    uvhttp_ws_ref_release(ref);
}

/* Any further message ends what is open. */
static void stream_on(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    if (uvhttp_ws_write(ws, "", 0) == UVHTTP_E_STATE)
        stream(ws, message, user);
    else
        expect(uvhttp_ws_end(ws), 0);
}

/* Ten megabytes in parts, as fast as the client takes them. */
static void pour(uvhttp_ws_t *ws, void *user) {
    (void)user;
    static const char piece[10000];
    size_t done = (size_t)(uintptr_t)uvhttp_ws_data(ws);
    int status = 0;
    for (; done > 0 && status == 0; done--) status = uvhttp_ws_write(ws, piece, sizeof piece);
    uvhttp_ws_set_data(ws, (void *)(uintptr_t)done);
    if (status != 0 && status != UVHTTP_E_AGAIN) abort();
    if (done == 0) (void)uvhttp_ws_end(ws);
}

static void start_pouring(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)message;
    expect(uvhttp_ws_begin(ws, UVHTTP_WS_BINARY), 0);
    uvhttp_ws_set_data(ws, (void *)(uintptr_t)1000);
    pour(ws, user);
}

static void fill(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)message, (void)user;
    static const char piece[10000];
    int status = 0;
    while (status == 0 || status == UVHTTP_E_AGAIN) status = uvhttp_ws_send(ws, UVHTTP_WS_BINARY, piece, sizeof piece);
}

/* --- topics --- */

static void say(uvhttp_ws_t *ws, int status) {
    const char *text = status == 0 ? "ok" : uvhttp_error_name(status);
    uvhttp_ws_send(ws, UVHTTP_WS_TEXT, text, strlen(text));
}

typedef struct flood {
    uvhttp_server_t *server;
    char topic[64];
} flood_t;

/* A thousand numbers from a thread of its own. */
static void *flood(void *arg) {
    flood_t *job = arg;
    for (int i = 0; i < 1000; i++) {
        char text[300];
        int size = snprintf(text, sizeof text, "%-280d", i);
        while (uvhttp_websocket_publish(job->server, job->topic, UVHTTP_WS_TEXT, text, (size_t)size) == UVHTTP_E_LIMIT)
            continue;
    }
    free(job);
    return NULL;
}

static void start_flood(uvhttp_server_t *server, const char *topic) {
    pthread_t thread;
    flood_t *job = calloc(1, sizeof *job);
    job->server = server;
    snprintf(job->topic, sizeof job->topic, "%s", topic);
    if (pthread_create(&thread, NULL, flood, job) != 0) abort();
    pthread_detach(thread);
}

/* "+topic": subscribe; "-topic": unsubscribe; "!topic text": publish; "*topic text": publish from the server; "#topic":
 * a thousand numbers from a thread; "@topic n": n MB; "=x text": back. Says what '+', '-' and '*' have returned. */
static void obey(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    if (message.size == 0) return;
    char *topic = calloc(1, message.size);
    memcpy(topic, message.data + 1, message.size - 1);
    char *blank = strchr(topic, ' ');
    const char *text = blank ? blank + 1 : "";
    if (blank) *blank = '\0';
    switch (message.data[0]) {
        case '+': say(ws, uvhttp_ws_subscribe(ws, topic)); break;
        case '-': say(ws, uvhttp_ws_unsubscribe(ws, topic)); break;
        case '!': expect(uvhttp_ws_publish(ws, topic, message.type, text, strlen(text)), 0); break;
        case '*': say(ws, uvhttp_websocket_publish(user, topic, message.type, text, strlen(text))); break;
        case '=': uvhttp_ws_send(ws, message.type, text, strlen(text)); break;
        case '#': start_flood(user, topic); break;
        case '@': {
            size_t large = (size_t)atoi(text) << 20;
            char *zeros = calloc(1, large);
            int status = uvhttp_websocket_publish(user, topic, UVHTTP_WS_BINARY, zeros, large);
            free(zeros);
            if (status != 0) say(ws, status);
            break;
        }
        default: break;
    }
    free(topic);
}

/* Leaves in the close of a connection that others are notified of: publishing there is allowed. */
static void say_goodbye(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)code, (void)reason, (void)user;
    (void)uvhttp_ws_publish(ws, "goodbye", UVHTTP_WS_TEXT, "bye", 3);
}

void add_more_routes(uvhttp_server_t *server) {
    static const char *const everyone[] = {"*", NULL};
    static const uvhttp_ws_options_t deflate = {.compression = true,
                                                .compression_size_min = 1,
                                                .message_size_max = 16 << 20,
                                                .send_queue_max = 40 << 20,
                                                .origins = everyone},
                                     takeover = {.compression = true,
                                                 .context_takeover = true,
                                                 .compression_size_min = 1,
                                                 .message_size_max = 16 << 20,
                                                 .send_queue_max = 40 << 20,
                                                 .origins = everyone},
                                     narrow = {.compression = true,
                                               .server_window_bits = 9,
                                               .client_window_bits = 10,
                                               .compression_size_min = 100,
                                               .message_size_max = 100000},
                                     pieces = {.compression = true, .message_size_max = UINT64_C(1) << 40},
                                     few = {.message_size_max = 1000, .compression = true},
                                     plain = {.topics_max = 3, .topic_size_max = 20, .subscriptions_max = 1000},
                                     self = {.publish_to_self = true, .subscriptions_max = 2},
                                     skip = {.send_queue_max = 2 << 20, .idle_timeout = 1000},
                                     drop = {.send_queue_max = 2 << 20,
                                             .idle_timeout = 1000,
                                             .drop_slow_subscribers = true},
                                     rate = {.min_send_rate = 1 << 20, .rate_grace = 1, .send_queue_max = 40 << 20};
    const struct {
        const char *pattern;
        uvhttp_ws_handlers_t handlers;
    } routes[] = {
        {"/deflate", {.on_message = echo, .on_drain = resume, .options = &deflate}},
        {"/takeover", {.on_message = echo, .on_drain = resume, .options = &takeover}},
        {"/narrow", {.on_message = echo, .on_drain = resume, .options = &narrow}},
        {"/pieces", {.on_open = tally_open, .on_fragment = say_tally, .on_close = tally_close, .options = &pieces}},
        {"/few", {.on_open = tally_open, .on_fragment = say_tally, .on_close = tally_close, .options = &few}},
        {"/paused",
         {.on_open = tally_open, .on_fragment = pause_at_piece, .on_close = forget_paused, .options = &pieces}},
        {"/paused-messages", {.on_message = pause_at_message, .on_close = forget_paused, .options = &deflate}},
        {"/stream", {.on_message = stream_on, .options = &takeover}},
        {"/pour", {.on_message = start_pouring, .on_drain = pour}},
        {"/rate", {.on_message = fill, .options = &rate}},
        {"/topic", {.on_message = obey, .on_close = say_goodbye, .options = &plain}},
        {"/topic-self", {.on_message = obey, .options = &self}},
        {"/topic-deflate", {.on_message = obey, .options = &deflate}},
        {"/topic-takeover", {.on_message = obey, .options = &takeover}},
        {"/topic-narrow", {.on_message = obey, .options = &narrow}},
        {"/topic-skip", {.on_message = obey, .options = &skip}},
        {"/topic-drop", {.on_message = obey, .options = &drop}},
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        add_websocket(server, routes[i].pattern, routes[i].handlers, server);
    uvhttp_get(server, "/resume", resume_paused, NULL);
}
