/* Owns: what the tests of the HTTP/2 core share: frames to feed, and a text of what became of them. */
#ifndef UVHTTP_TEST_HTTP2_FEED_H
#define UVHTTP_TEST_HTTP2_FEED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http2/http2.h"
#include "http2/http2_internal.h"

/* --- frames --- */

typedef struct wire {
    char data[1 << 17];
    size_t size;
} wire_t;

static inline void put_raw(wire_t *wire, const void *data, size_t size) {
    assert_true(wire->size + size <= sizeof wire->data);
    if (size > 0) memcpy(wire->data + wire->size, data, size);
    wire->size += size;
}

/* Length of the payload as the head says it, whatever follows. */
static inline void put_head(wire_t *wire, size_t size, uint8_t type, uint8_t flags, uint32_t id) {
    char head[UVHTTP__HTTP2_FRAME_HEAD_SIZE];
    uvhttp__http2_put_head(head, size, type, flags, id);
    put_raw(wire, head, sizeof head);
}

static inline void put_frame(wire_t *wire, uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t size) {
    put_head(wire, size, type, flags, id);
    put_raw(wire, payload, size);
}
#define PUT(wire, type, flags, id, literal) put_frame((wire), (type), (flags), (id), (literal), sizeof(literal) - 1)

enum {
    DATA = UVHTTP__HTTP2_DATA,
    HEADERS = UVHTTP__HTTP2_HEADERS,
    PRIORITY = UVHTTP__HTTP2_PRIORITY_FRAME,
    RST_STREAM = UVHTTP__HTTP2_RST_STREAM,
    SETTINGS = UVHTTP__HTTP2_SETTINGS,
    PUSH_PROMISE = UVHTTP__HTTP2_PUSH_PROMISE,
    PING = UVHTTP__HTTP2_PING,
    GOAWAY = UVHTTP__HTTP2_GOAWAY,
    WINDOW_UPDATE = UVHTTP__HTTP2_WINDOW_UPDATE,
    CONTINUATION = UVHTTP__HTTP2_CONTINUATION,
    PRIORITY_UPDATE = UVHTTP__HTTP2_PRIORITY_UPDATE,
    ACK = 0x1,
    END = 0x1,
    WHOLE = 0x4,
    PADDED = 0x8,
    WITH_PRIORITY = 0x20,
};

static inline void put_number(wire_t *wire, uint8_t type, uint32_t id, uint32_t number) {
    char payload[4];
    uvhttp__http2_put32(payload, number);
    put_frame(wire, type, 0, id, payload, sizeof payload);
}

static inline void put_setting(wire_t *wire, uint16_t id, uint32_t value) {
    char payload[6] = {(char)(id >> 8), (char)id};
    uvhttp__http2_put32(payload + 2, value);
    put_frame(wire, SETTINGS, 0, 0, payload, sizeof payload);
}

/* Preface and empty SETTINGS. */
static inline void put_preface(wire_t *wire) {
    put_raw(wire, UVHTTP__HTTP2_PREFACE, UVHTTP__HTTP2_PREFACE_SIZE);
    put_frame(wire, SETTINGS, 0, 0, NULL, 0);
}

/* A request without a body. */
static inline void put_get(wire_t *wire, uint32_t id) {
    PUT(wire, HEADERS, END | WHOLE, id, "get");
}

/* --- what became of them --- */

typedef struct peer {
    uvhttp__http2_t http2;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_counters_t counters;
    char events[1 << 14]; /* one line per event; DATA pieces of one stream are one */
    size_t events_size;
    char sent[1 << 14]; /* one line per control frame */
    size_t sent_size;
    uint32_t data_stream; /* of the DATA line that is being written; 0: none */
    int code;
    size_t consumed;
    uint64_t now_ms;
    /* What the owner of streams does at an event, or NULL: it consumes what comes. */
    void (*own)(struct peer *peer, const uvhttp__http2_event_t *event);
} peer_t;

__attribute__((format(printf, 4, 5))) static inline void note(char *text, size_t capacity, size_t *size,
                                                              const char *format, ...) {
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text + *size, capacity - *size, format, args);
    va_end(args);
    assert_true(more >= 0 && (size_t)more < capacity - *size);
    *size += (size_t)more;
}
#define NOTE_EVENT(peer, ...) note((peer)->events, sizeof(peer)->events, &(peer)->events_size, __VA_ARGS__)
#define NOTE_SENT(peer, ...) note((peer)->sent, sizeof(peer)->sent, &(peer)->sent_size, __VA_ARGS__)

static inline void note_event(peer_t *peer, const uvhttp__http2_event_t *event) {
    static const char *const names[] = {"headers", "trailers", "data",  "reset",
                                        "discard", "settings", "acked", "goaway"};
    uint32_t id = event->stream ? event->stream->id : 0;
    bool is_data = event->type == UVHTTP__HTTP2_EVENT_DATA;
    if (is_data && peer->data_stream == id)
        peer->events_size--; /* the line continues */
    else
        NOTE_EVENT(peer, "%s %u ", names[event->type], id);
    if (event->type == UVHTTP__HTTP2_EVENT_RESET || event->type == UVHTTP__HTTP2_EVENT_GOAWAY)
        NOTE_EVENT(peer, "%s%s ", event->by_peer ? "by peer " : "", uvhttp__http2_error_name(event->error));
    if (event->data.size > 64)
        NOTE_EVENT(peer, "(%zu)", event->data.size);
    else
        NOTE_EVENT(peer, "%.*s", (int)event->data.size, event->data.data ? event->data.data : "");
    NOTE_EVENT(peer, "%s\n", event->end ? "." : "");
    peer->data_stream = is_data && !event->end ? id : 0;
}

static inline void note_frame(peer_t *peer, const char *frame, uint32_t size) {
    const char *payload = frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    uint32_t id = uvhttp__http2_get32(frame + 5);
    switch (frame[3]) {
        case RST_STREAM:
            NOTE_SENT(peer, "rst %u %s\n", id, uvhttp__http2_error_name(uvhttp__http2_get32(payload)));
            break;
        case SETTINGS: NOTE_SENT(peer, frame[4] & ACK ? "settings ack\n" : "settings %u\n", size / 6); break;
        case PING: NOTE_SENT(peer, "ping%s %.8s\n", frame[4] & ACK ? " ack" : "", payload); break;
        case GOAWAY:
            NOTE_SENT(peer, "goaway %u %s\n", uvhttp__http2_get32(payload),
                      uvhttp__http2_error_name(uvhttp__http2_get32(payload + 4)));
            break;
        case WINDOW_UPDATE: NOTE_SENT(peer, "window %u +%u\n", id, uvhttp__http2_get32(payload)); break;
        default: fail_msg("control frame of type %d", frame[3]);
    }
}

/* Takes the control bytes, as at the end of an iteration. */
static inline void take_control(peer_t *peer) {
    uvhttp__http2_return_due_credit(&peer->http2);
    uvhttp_str_t control = uvhttp__http2_control(&peer->http2);
    for (size_t at = 0; at < control.size;) {
        uint32_t size = uvhttp__http2_get32(control.data + at) >> 8;
        assert_true(at + UVHTTP__HTTP2_FRAME_HEAD_SIZE + size <= control.size);
        note_frame(peer, control.data + at, size);
        at += UVHTTP__HTTP2_FRAME_HEAD_SIZE + size;
    }
    uvhttp__http2_control_consumed(&peer->http2);
}

/* With the settings and the window that the server sends first consumed already. */
static inline void peer_init_with(peer_t *peer, const uvhttp__http2_limits_t *limits) {
    memset(peer, 0, sizeof *peer);
    peer->limits = *limits;
    peer->code = UVHTTP_E_AGAIN;
    assert_int_equal(uvhttp__http2_init(&peer->http2, &peer->limits, &peer->counters, 0), 0);
    take_control(peer);
    peer->sent_size = 0;
    peer->sent[0] = '\0';
}

static inline void peer_init(peer_t *peer) {
    uvhttp__http2_limits_t limits;
    uvhttp__http2_limits_default(&limits);
    peer_init_with(peer, &limits);
}

static inline void peer_deinit(peer_t *peer) {
    uvhttp__http2_deinit(&peer->http2);
    assert_int_equal(peer->http2.memory, 0);
}

/* Feeds bytes, from a block of their size, in one iteration. False: they ended in an error. */
static inline bool feed(peer_t *peer, const char *data, size_t size) {
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0) memcpy(copy, data, size);
    size_t at = 0;
    uvhttp__http2_begin_iteration(&peer->http2, peer->now_ms);
    for (;;) {
        uvhttp__http2_event_t event;
        size_t consumed;
        peer->code = uvhttp__http2_read(&peer->http2, copy + at, size - at, &consumed, &event);
        assert_true(consumed <= size - at);
        at += consumed;
        peer->consumed += consumed;
        if (peer->code == UVHTTP_E_LIMIT) uvhttp__http2_begin_iteration(&peer->http2, peer->now_ms);
        if (peer->code == UVHTTP_E_LIMIT) continue;
        if (peer->code != UVHTTP_OK) break;
        note_event(peer, &event);
        if (peer->own)
            peer->own(peer, &event);
        else if (event.type == UVHTTP__HTTP2_EVENT_DATA)
            uvhttp__http2_consume(&peer->http2, event.stream, event.data.size);
        take_control(peer);
    }
    take_control(peer);
    if (peer->code == UVHTTP_E_AGAIN) assert_int_equal(at, size);
    free(copy);
    return peer->code == UVHTTP_E_AGAIN;
}

static inline void feed_wire(peer_t *peer, const wire_t *wire) {
    (void)feed(peer, wire->data, wire->size);
}

/* What a test compares: events, frames sent, and how it ended. */
static inline void expect_texts(const peer_t *peer, const char *events, const char *sent, int code) {
    if (events) assert_string_equal(peer->events, events);
    if (sent) assert_string_equal(peer->sent, sent);
    if (peer->code != code) fail_msg("%s, expected %s", uvhttp_error_name(peer->code), uvhttp_error_name(code));
}

/* One connection whose input is cut at two places, or byte by byte (step 1). */
static inline void expect_cut(const wire_t *wire, void (*own)(peer_t *, const uvhttp__http2_event_t *),
                              const char *events, const char *sent, int code, size_t first, size_t step) {
    static peer_t peer;
    peer_init(&peer);
    peer.own = own;
    bool more = feed(&peer, wire->data, first);
    for (size_t at = first; more && at < wire->size; at += step)
        more = feed(&peer, wire->data + at, wire->size - at < step ? wire->size - at : step);
    expect_texts(&peer, events, sent, code);
    peer_deinit(&peer);
}

/* At every split point, and byte by byte. `sent` leaves out "settings ack", which every connection sends first. */
static inline void expect_own(const wire_t *wire, void (*own)(peer_t *, const uvhttp__http2_event_t *),
                              const char *events, const char *sent, int code) {
    char all_events[1 << 12], all_sent[1 << 12];
    snprintf(all_events, sizeof all_events, "settings 0 \n%s", events);
    snprintf(all_sent, sizeof all_sent, "settings ack\n%s", sent);
    expect_cut(wire, own, all_events, all_sent, code, 0, 1);
    for (size_t first = 0; first <= wire->size; first++)
        expect_cut(wire, own, all_events, all_sent, code, first, wire->size - first + 1);
}
static inline void expect(const wire_t *wire, const char *events, const char *sent, int code) {
    expect_own(wire, NULL, events, sent, code);
}

/* A connection error, and nothing before it but `events`. */
static inline void expect_error(const wire_t *wire, const char *events, const char *goaway, int code) {
    char sent[256];
    snprintf(sent, sizeof sent, "goaway %s\n", goaway);
    expect(wire, events, sent, code);
}

#define WIRE(name)                                                                                                     \
    static wire_t name;                                                                                                \
    name.size = 0;                                                                                                     \
    put_preface(&name)

/* A response without a body, or with one, and the end of the work. */
static inline void respond(peer_t *peer, uvhttp__http2_stream_t *stream, uint32_t body) {
    char frame[64] = {0};
    (void)uvhttp__http2_write_headers(&peer->http2, stream, frame, 8, body == 0);
    if (body > 0) uvhttp__http2_write_data(&peer->http2, stream, frame, body, true);
    uvhttp__http2_release(&peer->http2, stream);
}

/* An owner that responds as soon as the request is complete, and aborts what was reset. */
static inline void own_respond(peer_t *peer, const uvhttp__http2_event_t *event) {
    if (event->type == UVHTTP__HTTP2_EVENT_DATA) uvhttp__http2_consume(&peer->http2, event->stream, event->data.size);
    if (event->type == UVHTTP__HTTP2_EVENT_RESET)
        uvhttp__http2_release(&peer->http2, event->stream);
    else if (event->stream && event->end)
        respond(peer, event->stream, 0);
}

#endif
