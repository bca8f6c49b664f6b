/* Owns: HTTP/2 on a connection (RFC 9113): its handshake, and the frames that a server sends. May include: base, io,
 * obs, http1, http2. */
#include <string.h>

#include "base/alloc.h"
#include "load/h2_internal.h"

enum {
    NUMBERS_MAX = (1 << 30) - 4096, /* of requests on a connection: stream ids have 31 bits */
    SETTING_SIZE = 6,
    SETTING_TABLE_SIZE = 1, /* RFC 9113 section 6.5.2 */
    SETTING_PUSH = 2,
    SETTING_STREAMS = 3,
    SETTING_WINDOW = 4,
    SETTING_FRAME_SIZE = 5,
};

typedef struct frame {
    uint32_t size, id;
    uint8_t type, flags;
    const char *payload;
} frame_t;

/* --- the end of connections and streams --- */

static bool is_usable(const load_conn_t *conn) {
    return conn->state == LOAD_CONN_SHAKING || conn->state == LOAD_CONN_ONLINE;
}

static void fail(load_conn_t *conn, const char *why) {
    load_conn_fail(conn, LOAD_ERROR_protocol, conn->state == LOAD_CONN_SHAKING, why);
}

/* A connection on which no more requests can be made has ended with its last response. */
static void end_if_done(load_conn_t *conn) {
    uint64_t limit = conn->thread->options->requests_per_connection;
    bool done = conn->h2->leaving || conn->next_number >= NUMBERS_MAX || (limit > 0 && conn->sent >= limit);
    if (conn->state == LOAD_CONN_ONLINE && conn->in_flight == 0 && done) (void)load_conn_ends(conn, true);
}

/* Ends the stream from our side. */
static void cancel(load_conn_t *conn, load_flight_t *flight, uint32_t code) {
    conn->h2->cancelled = true;
    uvhttp__list_remove(&flight->h2.upload);
    load_h2_send_number(conn, UVHTTP__HTTP2_RST_STREAM, load_h2_id(flight), code);
}

static void expire(load_conn_t *conn, load_flight_t *flight) {
    cancel(conn, flight, UVHTTP__HTTP2_CANCEL);
    load_conn_lose_flight(conn, flight, LOAD_ERROR_timeout, "no response in time");
    end_if_done(conn);
}

/* The response breaks the protocol in a way that concerns its stream only. */
static void lose(load_conn_t *conn, load_flight_t *flight, const char *why) {
    cancel(conn, flight, UVHTTP__HTTP2_PROTOCOL_ERROR);
    load_conn_lose_flight(conn, flight, LOAD_ERROR_protocol, why);
}

/* --- streams --- */

static load_flight_t *find(const load_conn_t *conn, uint32_t id) {
    load_flight_t *flight = load_flight_slot(conn, id >> 1);
    return flight->request && flight->number == id >> 1 ? flight : NULL;
}

/* The flight of a frame that only an open stream has; NULL: there is none, which is an error unless we have ended it.
 */
static load_flight_t *find_open(load_conn_t *conn, uint32_t id) {
    load_flight_t *flight = (id & 1) != 0 ? find(conn, id) : NULL;
    if (flight) return flight;
    if (!conn->h2->cancelled || (id & 1) == 0 || id >> 1 >= conn->next_number)
        fail(conn, "a response that nobody has asked for, or a second one");
    return NULL;
}

/* Whether the body may be of another length than announced. */
static bool is_bodiless(const load_flight_t *flight) {
    return flight->request->is_head || flight->status == 304;
}

static void finish(load_conn_t *conn, load_flight_t *flight) {
    if (!is_bodiless(flight) && flight->has_length && flight->length != flight->body_size) {
        lose(conn, flight, "the body is shorter than content-length");
        return;
    }
    if (uvhttp__list_linked(&flight->h2.upload)) cancel(conn, flight, UVHTTP__HTTP2_NO_ERROR);
    load_response_check(conn, flight);
    load_conn_take_flight(conn, flight);
}

/* --- header blocks --- */

static void take_trailer(load_conn_t *conn, load_flight_t *flight, bool ends_stream) {
    if (ends_stream)
        finish(conn, flight);
    else
        lose(conn, flight, "trailers that do not end the stream");
}

static void take_head(load_conn_t *conn, load_flight_t *flight, const load_h2_head_t *head, bool ends_stream) {
    if (head->status < 200) { /* the final one follows */
        if (ends_stream || head->status == 101) lose(conn, flight, "an interim response in place of the final one");
        return;
    }
    flight->h2.headed = true;
    flight->status = head->status;
    flight->has_length = head->has_length;
    flight->length = head->length;
    if (ends_stream) finish(conn, flight);
}

static void take_block(load_conn_t *conn, uint32_t id, const char *block, size_t size, bool ends_stream) {
    load_h2_head_t head;
    bool fatal;
    load_flight_t *flight = find_open(conn, id);
    if (!is_usable(conn)) return;
    bool is_trailer = !flight || flight->h2.headed;
    const char *wrong = load_h2_read_head(conn, block, size, is_trailer, &head, &fatal);
    if (wrong && fatal)
        fail(conn, wrong);
    else if (wrong && flight)
        lose(conn, flight, wrong);
    else if (flight && is_trailer)
        take_trailer(conn, flight, ends_stream);
    else if (flight)
        take_head(conn, flight, &head, ends_stream);
}

/* Grows in powers of two, up to `max`. */
static bool append(load_h2_bytes_t *bytes, const char *data, size_t size, size_t max) {
    size_t wanted = bytes->size + size, capacity = bytes->capacity ? bytes->capacity : 256;
    if (wanted > max) return false;
    while (capacity < wanted) capacity *= 2;
    if (capacity > bytes->capacity) {
        char *more = uvhttp__realloc(bytes->data, capacity);
        if (!more) return false;
        bytes->data = more;
        bytes->capacity = (uint32_t)capacity;
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size = (uint32_t)wanted;
    return true;
}

static void take_fragment(load_conn_t *conn, const char *data, size_t size, bool ends_block) {
    load_h2_t *h2 = conn->h2;
    if (!append(&h2->block, data, size, LOAD_HEAD_SIZE_MAX)) {
        fail(conn, "a head of more than 64 KB");
        return;
    }
    if (!ends_block) return;
    uint32_t id = h2->block_id;
    h2->block_id = 0;
    take_block(conn, id, h2->block.data, h2->block.size, h2->block_ends_stream);
    h2->block.size = 0;
}

/* Removes padding and priority. */
static bool strip(frame_t *frame) {
    size_t before = 0, after = 0;
    if ((frame->flags & UVHTTP__HTTP2_FLAG_PADDED) != 0) {
        if (frame->size == 0) return false;
        after = (uint8_t)frame->payload[0];
        before = 1;
    }
    if (frame->type == UVHTTP__HTTP2_HEADERS && (frame->flags & UVHTTP__HTTP2_FLAG_PRIORITY) != 0) before += 5;
    if (before + after > frame->size) return false;
    frame->payload += before;
    frame->size -= (uint32_t)(before + after);
    return true;
}

static void take_headers(load_conn_t *conn, frame_t *frame) {
    load_h2_t *h2 = conn->h2;
    bool ends_stream = (frame->flags & UVHTTP__HTTP2_FLAG_END_STREAM) != 0;
    if (!strip(frame)) {
        fail(conn, "padding of more bytes than the frame has");
    } else if ((frame->flags & UVHTTP__HTTP2_FLAG_END_HEADERS) != 0) {
        take_block(conn, frame->id, frame->payload, frame->size, ends_stream);
    } else {
        h2->block_id = frame->id;
        h2->block_ends_stream = ends_stream;
        take_fragment(conn, frame->payload, frame->size, false);
    }
}

/* --- DATA --- */

/* Returns credit before the server has used up half of it. */
static void return_credit(load_conn_t *conn, uint64_t *unreturned, uint32_t id, size_t size) {
    *unreturned += size;
    if (*unreturned < LOAD_H2_WINDOW / 2) return;
    load_h2_send_number(conn, UVHTTP__HTTP2_WINDOW_UPDATE, id, (uint32_t)*unreturned);
    *unreturned = 0;
}

static void take_body(load_conn_t *conn, load_flight_t *flight, const char *data, size_t size, bool ends_stream) {
    if (!flight->h2.headed) {
        lose(conn, flight, "DATA before the head of the response");
        return;
    }
    if (size > 0 && flight->request->is_head) {
        lose(conn, flight, "a body in response to HEAD");
        return;
    }
    if (flight->has_length && size > flight->length - flight->body_size) {
        lose(conn, flight, "the body is longer than content-length");
        return;
    }
    if (size > 0) load_response_add_body(conn, flight, data, size, flight->has_length && size == flight->length);
    if (ends_stream)
        finish(conn, flight);
    else
        return_credit(conn, &flight->h2.unreturned, load_h2_id(flight), size);
}

static void take_data(load_conn_t *conn, uint32_t id, const char *data, size_t size, bool ends_stream) {
    return_credit(conn, &conn->h2->unreturned, 0, size);
    load_flight_t *flight = find_open(conn, id);
    if (flight) take_body(conn, flight, data, size, ends_stream);
}

static void take_padded(load_conn_t *conn, frame_t *frame) {
    size_t size = frame->size;
    if (!strip(frame)) {
        fail(conn, "padding of more bytes than the frame has");
        return;
    }
    load_flight_t *flight = find(conn, frame->id);
    if (flight) flight->h2.unreturned += size - frame->size;
    conn->h2->unreturned += size - frame->size;
    take_data(conn, frame->id, frame->payload, frame->size, (frame->flags & UVHTTP__HTTP2_FLAG_END_STREAM) != 0);
}

/* --- the other frames --- */

static void set_stream_window(load_conn_t *conn, uint32_t size) {
    int64_t more = (int64_t)size - conn->h2->stream_window;
    conn->h2->stream_window = size;
    for (uvhttp__list_t *link = conn->waiting.next; link != &conn->waiting; link = link->next)
        load_flight_of(link)->h2.window += more;
}

/* Returns NULL or what is wrong. */
static const char *take_setting(load_conn_t *conn, unsigned name, uint32_t value) {
    load_h2_t *h2 = conn->h2;
    switch (name) {
        case SETTING_TABLE_SIZE:
            if (value >= UVHTTP__HPACK_TABLE_SIZE_MAX || h2->table == LOAD_H2_LITERAL) return NULL;
            h2->table = LOAD_H2_LITERAL;
            h2->introduced = false; /* the next request says that the table is not used */
            return NULL;
        case SETTING_PUSH: return value == 0 ? NULL : "SETTINGS_ENABLE_PUSH from a server";
        case SETTING_STREAMS: h2->streams_max = value; return NULL;
        case SETTING_WINDOW:
            if (value > INT32_MAX) return "SETTINGS_INITIAL_WINDOW_SIZE of more than 2^31 - 1";
            set_stream_window(conn, value);
            return NULL;
        case SETTING_FRAME_SIZE:
            return value >= LOAD_H2_FRAME_MAX && value < 1 << 24 ? NULL : "SETTINGS_MAX_FRAME_SIZE out of range";
        default: return NULL;
    }
}

static void take_settings(load_conn_t *conn, const frame_t *frame) {
    if ((frame->flags & UVHTTP__HTTP2_FLAG_ACK) != 0) return;
    if (frame->id != 0 || frame->size % SETTING_SIZE != 0) {
        fail(conn, "malformed SETTINGS");
        return;
    }
    for (uint32_t at = 0; at < frame->size; at += SETTING_SIZE) {
        const uint8_t *name = (const uint8_t *)frame->payload + at;
        const char *wrong =
            take_setting(conn, (unsigned)name[0] << 8 | name[1], uvhttp__http2_get32(frame->payload + at + 2));
        if (!wrong) continue;
        fail(conn, wrong);
        return;
    }
    load_h2_send_frame(conn, UVHTTP__HTTP2_SETTINGS, UVHTTP__HTTP2_FLAG_ACK, 0, "", 0);
    if (conn->state == LOAD_CONN_SHAKING)
        load_conn_online(conn);
    else if (!uvhttp__list_empty(&conn->h2->uploads))
        load_h2_send_bodies(conn);
}

static void take_reset(load_conn_t *conn, const frame_t *frame) {
    load_flight_t *flight = frame->size == 4 && (frame->id & 1) != 0 ? find(conn, frame->id) : NULL;
    char why[LOAD_EXAMPLE_SIZE];
    if (frame->size != 4 || (frame->id & 1) == 0 || frame->id >> 1 >= conn->next_number) {
        fail(conn, "malformed RST_STREAM, or for a stream that was never opened");
        return;
    }
    if (!flight) return; /* NO_ERROR behind the response, or it crossed our own */
    snprintf(why, sizeof why, "RST_STREAM, %s", uvhttp__http2_error_name(uvhttp__http2_get32(frame->payload)));
    uvhttp__list_remove(&flight->h2.upload);
    load_conn_lose_flight(conn, flight, LOAD_ERROR_reset, why);
}

static void take_window(load_conn_t *conn, const frame_t *frame) {
    load_h2_t *h2 = conn->h2;
    uint32_t more = frame->size == 4 ? uvhttp__http2_get32(frame->payload) & INT32_MAX : 0;
    load_flight_t *flight = frame->id != 0 ? find(conn, frame->id) : NULL;
    int64_t *window = frame->id == 0 ? &h2->window : flight ? &flight->h2.window : NULL;
    if (more == 0) {
        fail(conn, "malformed WINDOW_UPDATE");
        return;
    }
    if (!window) return;
    *window += more;
    if (*window > INT32_MAX)
        fail(conn, "a window of more than 2^31 - 1");
    else if (!uvhttp__list_empty(&h2->uploads))
        load_h2_send_bodies(conn);
}

static void take_goaway(load_conn_t *conn, const frame_t *frame) {
    char why[LOAD_EXAMPLE_SIZE];
    if (frame->size < 8 || frame->id != 0) {
        fail(conn, "malformed GOAWAY");
        return;
    }
    uint32_t last = uvhttp__http2_get32(frame->payload) & INT32_MAX, code = uvhttp__http2_get32(frame->payload + 4);
    if (code != UVHTTP__HTTP2_NO_ERROR) {
        snprintf(why, sizeof why, "GOAWAY, %s: %.*s", uvhttp__http2_error_name(code),
                 (int)(frame->size - 8 < 80 ? frame->size - 8 : 80), frame->payload + 8);
        load_conn_fail(conn, LOAD_ERROR_reset, conn->state == LOAD_CONN_SHAKING, why);
        return;
    }
    conn->h2->leaving = true;
    for (uvhttp__list_t *link = conn->waiting.next, *next; link != &conn->waiting; link = next) {
        load_flight_t *flight = load_flight_of(link);
        next = link->next;
        if (load_h2_id(flight) <= last) continue;
        uvhttp__list_remove(&flight->h2.upload);
        load_conn_return_flight(conn, flight, "GOAWAY: the server has not processed it");
        if (conn->state != LOAD_CONN_ONLINE) return; /* the run has ended with it */
    }
}

/* A frame that is complete, other than DATA without padding. */
static void take_frame(load_conn_t *conn, frame_t *frame) {
    load_h2_t *h2 = conn->h2;
    if (h2->block_id != 0 && (frame->type != UVHTTP__HTTP2_CONTINUATION || frame->id != h2->block_id)) {
        fail(conn, "a header block that another frame interrupts");
        return;
    }
    switch (frame->type) {
        case UVHTTP__HTTP2_DATA: take_padded(conn, frame); return;
        case UVHTTP__HTTP2_HEADERS: take_headers(conn, frame); return;
        case UVHTTP__HTTP2_RST_STREAM: take_reset(conn, frame); return;
        case UVHTTP__HTTP2_SETTINGS: take_settings(conn, frame); return;
        case UVHTTP__HTTP2_PUSH_PROMISE: fail(conn, "PUSH_PROMISE, which was switched off"); return;
        case UVHTTP__HTTP2_GOAWAY: take_goaway(conn, frame); return;
        case UVHTTP__HTTP2_WINDOW_UPDATE: take_window(conn, frame); return;
        case UVHTTP__HTTP2_PING:
            if (frame->size != 8)
                fail(conn, "malformed PING");
            else if ((frame->flags & UVHTTP__HTTP2_FLAG_ACK) == 0)
                load_h2_send_frame(conn, UVHTTP__HTTP2_PING, UVHTTP__HTTP2_FLAG_ACK, 0, frame->payload, 8);
            return;
        case UVHTTP__HTTP2_CONTINUATION:
            if (h2->block_id == 0)
                fail(conn, "CONTINUATION without HEADERS");
            else
                take_fragment(conn, frame->payload, frame->size, (frame->flags & UVHTTP__HTTP2_FLAG_END_HEADERS) != 0);
            return;
        default: return; /* RFC 9113 section 5.5 */
    }
}

/* --- receiving --- */

/* Of at least LOAD_H2_HEAD_SIZE bytes. */
static frame_t read_frame_head(const char *at) {
    uint32_t first = uvhttp__http2_get32(at);
    return (frame_t){.size = first >> 8,
                     .type = (uint8_t)first,
                     .flags = (uint8_t)at[4],
                     .id = uvhttp__http2_get32(at + 5) & INT32_MAX,
                     .payload = at + LOAD_H2_HEAD_SIZE};
}

/* The first bytes of a server are the head of its SETTINGS. */
static const char *what_spoke(const char *data, size_t size) {
    static const char http1[] = "HTTP/1";
    if (memcmp(data, http1, size < sizeof http1 - 1 ? size : sizeof http1 - 1) == 0)
        return "the server speaks HTTP/1 here: without --h2, or by another port";
    return "the server does not begin with SETTINGS: is it one of HTTP/2?";
}

static bool begins_well(const char *data, size_t size) {
    return data[0] == 0 && (size < 4 || data[3] == UVHTTP__HTTP2_SETTINGS) && (size < 5 || data[4] == 0);
}

/* Consumes payload of DATA. Returns how many bytes. */
static size_t take_run(load_conn_t *conn, const char *data, size_t size) {
    load_h2_t *h2 = conn->h2;
    size_t n = h2->data_left < size ? h2->data_left : size;
    h2->data_left -= (uint32_t)n;
    take_data(conn, h2->data_id, data, n, h2->data_end && h2->data_left == 0);
    return n;
}

static bool is_plain_data(const frame_t *frame) {
    return frame->type == UVHTTP__HTTP2_DATA && (frame->flags & UVHTTP__HTTP2_FLAG_PADDED) == 0;
}

static void begin_data(load_conn_t *conn, const frame_t *frame) {
    load_h2_t *h2 = conn->h2;
    h2->data_id = frame->id;
    h2->data_left = frame->size;
    h2->data_end = (frame->flags & UVHTTP__HTTP2_FLAG_END_STREAM) != 0;
    if (h2->block_id != 0)
        fail(conn, "a header block that another frame interrupts");
    else if (frame->size == 0)
        take_data(conn, frame->id, frame->payload, 0, h2->data_end);
}

/* data[0..size) begins with a frame. Returns how many bytes were consumed; 0: more are needed. */
static size_t take_next(load_conn_t *conn, const char *data, size_t size) {
    if (size < LOAD_H2_HEAD_SIZE) return 0;
    frame_t frame = read_frame_head(data);
    if (frame.size > LOAD_H2_FRAME_MAX) {
        fail(conn, "a frame of more than 16384 bytes");
        return size;
    }
    if (is_plain_data(&frame)) {
        begin_data(conn, &frame);
        return LOAD_H2_HEAD_SIZE;
    }
    if (size - LOAD_H2_HEAD_SIZE < frame.size) return 0;
    size_t consumed = LOAD_H2_HEAD_SIZE + frame.size;
    take_frame(conn, &frame);
    return consumed;
}

/* Continues a frame of which a part was kept. Returns how many bytes of `data` were consumed. */
static size_t take_held(load_conn_t *conn, const char *data, size_t size) {
    load_h2_bytes_t *held = &conn->h2->held;
    size_t before = held->size, whole = LOAD_H2_HEAD_SIZE;
    if (before >= LOAD_H2_HEAD_SIZE) whole += read_frame_head(held->data).size;
    size_t n = whole - before < size ? whole - before : size;
    if (!append(held, data, n, LOAD_H2_HEAD_SIZE + LOAD_H2_FRAME_MAX)) {
        fail(conn, uvhttp_error_message(UVHTTP_E_NOMEM));
    } else if (take_next(conn, held->data, held->size) > 0) {
        held->size = 0;
    }
    return n;
}

static void receive_frames(load_conn_t *conn, const char *data, size_t size) {
    load_h2_t *h2 = conn->h2;
    while (size > 0 && is_usable(conn)) {
        size_t n;
        if (h2->data_left > 0) {
            n = take_run(conn, data, size);
        } else if (h2->held.size > 0) {
            n = take_held(conn, data, size);
        } else if ((n = take_next(conn, data, size)) == 0) {
            n = size;
            if (!append(&h2->held, data, size, LOAD_H2_HEAD_SIZE + LOAD_H2_FRAME_MAX))
                fail(conn, uvhttp_error_message(UVHTTP_E_NOMEM));
        }
        data += n;
        size -= n;
    }
}

static void receive(load_conn_t *conn, const char *data, size_t size) {
    if (conn->state == LOAD_CONN_SHAKING && conn->h2->held.size == 0 && !begins_well(data, size)) {
        load_conn_fail(conn, LOAD_ERROR_connect, true, what_spoke(data, size));
        return;
    }
    receive_frames(conn, data, size);
    if (conn->state == LOAD_CONN_ONLINE) end_if_done(conn);
}

/* --- life --- */

static void shake(load_conn_t *conn) {
    load_h2_t *h2 = conn->h2 = uvhttp__calloc(1, sizeof *h2);
    if (!h2) {
        load_conn_fail(conn, LOAD_ERROR_connect, true, uvhttp_error_message(UVHTTP_E_NOMEM));
        return;
    }
    uvhttp__hpack_decoder_init(&h2->decoder);
    uvhttp__list_init(&h2->uploads);
    h2->window = h2->stream_window = 65535; /* RFC 9113 section 6.9.2 */
    h2->streams_max = UINT32_MAX;
    load_h2_send_preface(conn);
}

static void closed(load_conn_t *conn) {
    load_h2_t *h2 = conn->h2;
    if (!h2) return;
    uvhttp__hpack_decoder_deinit(&h2->decoder);
    uvhttp__free(h2->held.data);
    uvhttp__free(h2->block.data);
    uvhttp__free(h2);
    conn->h2 = NULL;
}

static uint32_t space(const load_conn_t *conn) {
    const load_h2_t *h2 = conn->h2;
    return h2->leaving || conn->next_number >= NUMBERS_MAX ? 0 : h2->streams_max;
}

const load_protocol_t load_protocol_h2 = {
    .shake = shake,
    .send = load_h2_send_requests,
    .receive = receive,
    .expire = expire,
    .space = space,
    .closed = closed,
    .ended_shaking = "closed by the server before its SETTINGS: does it speak HTTP/2?",
};
