/* Owns: the routes of served.h whose responses last for several iterations of the loop. Header only.
 *   /h is deferred, and its response comes some iterations later, or never in time if time passes;
 *   /g streams as fast as its client reads; /u upgrades to a protocol of its own: see raw_data(). */
#ifndef UVHTTP_TEST_FUZZ_SERVED_SLOW_H
#define UVHTTP_TEST_FUZZ_SERVED_SLOW_H

#include <stdlib.h>
#include <uvhttp.h>

#include "served_memory.h"
#include "served_websocket.h"

enum { SLOW_RUNS = 6, SLOW_PIECES = 12, SLOW_PIECE = 10000, SLOW_TIMEOUT_MS = 15000 };

/* --- held --- */

typedef struct slow_held {
    uvhttp_deferred_t *deferred;
    unsigned runs; /* of the loop since then */
    struct slow_held *next;
} slow_held_t;

static slow_held_t *slow_first, **slow_last = &slow_first;

static void slow_hold(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    slow_held_t *held = deferred ? calloc(1, sizeof *held) : NULL;
    if (!held) return;
    held->deferred = deferred;
    *slow_last = held;
    slow_last = &held->next;
}

/* Whatever has become of the request meanwhile. */
static void slow_run(void) {
    for (slow_held_t *held = slow_first; held; held = held->next) held->runs++;
    while (slow_first && slow_first->runs > SLOW_RUNS) {
        slow_held_t *held = slow_first;
        slow_first = held->next;
        if (!slow_first) slow_last = &slow_first;
        (void)uvhttp_deferred_header(held->deferred, "X-Held", "yes");
        (void)uvhttp_deferred_text(held->deferred, 200, "held");
        uvhttp_deferred_release(held->deferred);
        free(held);
    }
}

/* --- drained --- */

typedef struct slow_stream {
    uvhttp_deferred_t *deferred;
    unsigned pieces;
    bool plain; /* what it writes is not compressed */
} slow_stream_t;

static void slow_write(uvhttp_response_t *res, void *user) {
    static char piece[SLOW_PIECE];
    slow_stream_t *stream = user;
    while (stream->pieces < SLOW_PIECES) {
        memset(piece, 'a' + (int)stream->pieces, sizeof piece);
        if (uvhttp_response_write(res, piece, sizeof piece) != UVHTTP_OK) return;
        stream->pieces++;
        if (stream->plain && stream->pieces % 3 == 0) return; /* more than 4 KiB are left */
    }
    (void)uvhttp_response_end(res);
}

static void slow_stream_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    slow_stream_t *stream = user;
    uvhttp_deferred_release(stream->deferred);
    free(stream);
}

/* The client gets 500. */
static void slow_leave(slow_stream_t *stream) {
    uvhttp_deferred_t *deferred = stream->deferred;
    memory_excuses("a response cannot begin");
    stream->deferred = NULL;
    uvhttp_deferred_release(deferred);
}

static void slow_begin(uvhttp_response_t *res, void *user) {
    if (!res) return; /* and no stream any more */
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) == UVHTTP_OK)
        slow_write(res, user);
    else
        slow_leave(user);
}

static void slow_stream(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    slow_stream_t *stream = calloc(1, sizeof *stream);
    if (!stream) die("no memory");
    stream->plain = uvhttp_request_header(req, "Accept-Encoding").size == 0;
    stream->deferred = uvhttp_response_defer(res);
    if (!stream->deferred || uvhttp_response_on_done(res, slow_stream_done, stream) != UVHTTP_OK) {
        memory_excuses("no deferred response");
        uvhttp_deferred_release(stream->deferred);
        free(stream);
        return;
    }
    uvhttp_deferred_on_drain(stream->deferred, slow_write, stream);
    if (uvhttp_deferred_run(stream->deferred, slow_begin, stream) != UVHTTP_OK) slow_leave(stream);
}

/* --- upgraded --- */

static uvhttp_tcp_t *raw_paused;

static void raw_resume(void) {
    uvhttp_tcp_t *tcp = raw_paused;
    raw_paused = NULL;
    if (tcp) uvhttp_tcp_resume(tcp);
}

static void raw_open(uvhttp_tcp_t *tcp, void *user) {
    (void)user;
    talk.opened++;
    talk.varies = true;
    (void)uvhttp_tcp_send(tcp, "raw", 3, NULL);
}

/* An echo. The last byte of what has come at once says what is done besides. */
static void raw_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    char command = data[size - 1];
    (void)uvhttp_tcp_send(tcp, data, size, NULL);
    switch (command) {
        case 'P':
            raw_resume();
            uvhttp_tcp_pause(tcp);
            raw_paused = tcp;
            break;
        case 'T': uvhttp_tcp_set_timer(tcp, 10000); break;
        case 'S': uvhttp_tcp_shutdown(tcp); break;
        case 'C': uvhttp_tcp_close(tcp); break;
        case 'R':
            talk.reset = true;
            uvhttp_tcp_reset(tcp);
            break;
        default: break;
    }
}

static void raw_timer(uvhttp_tcp_t *tcp, void *user) {
    (void)user;
    (void)uvhttp_tcp_send(tcp, "time", 4, NULL);
}

static void raw_close(uvhttp_tcp_t *tcp, int status, void *user) {
    (void)status, (void)user;
    talk.closed++;
    if (raw_paused == tcp) raw_paused = NULL;
}

static void slow_upgrade(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static const uvhttp_tcp_handlers_t handlers = {
        .on_open = raw_open, .on_data = raw_data, .on_timer = raw_timer, .on_close = raw_close};
    (void)req, (void)user;
    if (uvhttp_response_upgrade(res, "raw", &handlers, NULL) != UVHTTP_OK) uvhttp_response_text(res, 426, "raw");
}

static void served_slow_routes(uvhttp_server_t *server) {
    static const uvhttp_route_options_t timely = {.response_timeout_ms = SLOW_TIMEOUT_MS};
    uvhttp_route_options(uvhttp_any(server, "/h", slow_hold, NULL), &timely);
    uvhttp_any(server, "/g", slow_stream, NULL);
    uvhttp_any(server, "/u", slow_upgrade, NULL);
}

#endif
