/* Owns: what clients of HTTP/2 send: requests on streams, bodies within their windows and in the order of chance, and
 * what hostile ones send, with the error that it must bring. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forms.h"
#include "http2.h"

enum { BODY_MAX = 60000, PIECE_MAX = 16000, HOSTILE_SIZE = 1 << 18 };

/* --- frames --- */

char *sim_h2_put_frame(writer_t *out, size_t size, uint8_t type, unsigned flags, uint32_t id) {
    char *frame = out->data + out->size;
    uvhttp__http2_put_head(frame, size, type, (uint8_t)flags, id);
    out->size += FRAME_HEAD_SIZE + size;
    return frame + FRAME_HEAD_SIZE;
}

void sim_h2_put_number(writer_t *out, uint8_t type, uint32_t id, uint32_t number) {
    uvhttp__http2_put32(sim_h2_put_frame(out, 4, type, 0, id), number);
}

bool sim_h2_owe(client_t *client, uint8_t type, unsigned flags, uint32_t id, const char *payload, size_t size) {
    writer_t out = {client->control, client->control_size};
    if (out.size + FRAME_HEAD_SIZE + size > sizeof client->control) return false;
    char *at = sim_h2_put_frame(&out, size, type, flags, id);
    if (size > 0) memcpy(at, payload, size);
    client->control_size = out.size;
    return true;
}

size_t sim_h2_begin(const client_t *client, char *data) {
    writer_t out = {data, UVHTTP__HTTP2_PREFACE_SIZE};
    memcpy(data, UVHTTP__HTTP2_PREFACE, UVHTTP__HTTP2_PREFACE_SIZE);
    char *setting = sim_h2_put_frame(&out, 6, UVHTTP__HTTP2_SETTINGS, 0, 0);
    memcpy(setting, "\0\4", 2);
    uvhttp__http2_put32(setting + 2, client->h2->pending[0]);
    return out.size;
}

/* --- heads --- */

void sim_h2_put_string(char **block, const char *text) {
    size_t size = strlen(text);
    if (size >= 127) { /* in two bytes (RFC 7541 section 5.1) */
        *(*block)++ = 127;
        *(*block)++ = (char)(size - 127);
    } else {
        *(*block)++ = (char)size;
    }
    memcpy(*block, text, size);
    *block += size;
}

void sim_h2_put_field(char **block, const char *name, const char *value) {
    *(*block)++ = 0;
    sim_h2_put_string(block, name);
    sim_h2_put_string(block, value);
}

static void put_number_field(char **block, const char *name, uint32_t value) {
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    sim_h2_put_field(block, name, text);
}

static size_t put_block(const client_t *client, char *block, const op_t *op, uint32_t tag, uint32_t body) {
    const request_t *request = &client->requests[client->asked];
    char path[64], text[32], value[96], *end = block;
    const char *name;
    *end++ = (char)(op->route >= ECHO ? 0x83 : 0x82);
    if (op->head) {
        end = block;
        *end++ = 0x02;
        sim_h2_put_string(&end, "HEAD");
    }
    *end++ = (char)0x86;
    if (op->route == FILES)
        snprintf(path, sizeof path, "/files/%c%u?%x", op->edited ? 'e' : 'f', op->file, tag);
    else
        snprintf(path, sizeof path, "/%s/%x/%u/%u", sim_route_names[op->route], tag, op->size, op->ms);
    *end++ = 0x04;
    sim_h2_put_string(&end, path);
    *end++ = 0x41;
    sim_h2_put_string(&end, "sim");
    if (op->ranges) sim_h2_put_field(&end, "range", sim_ranges_text(op));
    for (uint32_t i = 0; op->edited && sim_edited_field(op, request, i, &name, value, sizeof value); i++)
        sim_h2_put_field(&end, name, value);
    if (client->transport.proxy) {
        uint32_t ip = client->transport.address;
        snprintf(text, sizeof text, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
        sim_h2_put_field(&end, "x-from", text);
    }
    if (op->wait_ms) put_number_field(&end, "x-wait", op->wait_ms);
    if (op->expect) sim_h2_put_field(&end, "expect", "100-continue");
    if (op->route == HINTED || op->route == WHINTED) sim_h2_put_field(&end, "te", "trailers");
    if (op->accepts) sim_h2_put_field(&end, "accept-encoding", sim_coding_accept(op));
    if (sim_is_form(op->route)) sim_h2_put_field(&end, "content-type", sim_form_type);
    if (op->route >= ECHO && !op->chunked) put_number_field(&end, "content-length", body);
    return (size_t)(end - block);
}

/* --- requests --- */

bool sim_h2_may_ask(const client_t *client) {
    return client->asked < REQUESTS_MAX && client->h2->last_id == UINT32_MAX;
}

static void start_out(client_t *client, writer_t *out, size_t capacity) {
    free(client->out);
    *out = (writer_t){malloc(capacity), 0};
    if (!out->data) abort();
    client->out = out->data;
    client->out_at = 0;
}

/* Ones that mean something, and ones that do not (RFC 9218 section 4). */
static const char *some_priority(client_t *client) {
    static const char *const texts[] = {"u=0", "u=7, i", "i", "u=5;x=1, i=?0", "u=9", "u=", ""};
    return texts[sim_below(&client->random, sizeof texts / sizeof *texts)];
}

/* Of a stream that is open, has ended, or comes next. */
static void prioritize(client_t *client) {
    char payload[4 + 16];
    const char *text = some_priority(client);
    uvhttp__http2_put32(payload, 2 * sim_below(&client->random, client->asked + 1) + 1);
    memcpy(payload + 4, text, strlen(text));
    (void)sim_h2_owe(client, UVHTTP__HTTP2_PRIORITY_UPDATE, 0, 0, payload, 4 + strlen(text));
}

void sim_h2_request(client_t *client, const op_t *op) {
    if (!sim_h2_may_ask(client)) return;
    uint32_t at = client->asked, tag = (client->id << 8 | at) + 0x1000;
    uint32_t body = op->route >= ECHO && op->body > BODY_MAX ? BODY_MAX : op->route >= ECHO ? op->body : 0;
    stream_t *stream = &client->h2->streams[at];
    *stream = (stream_t){.body = body, .cut_at = op->cut ? sim_below(&client->random, body + 1) : UINT32_MAX};
    stream->trailer = op->chunked && op->route >= ECHO && sim_one_in(&client->random, 4);
    stream->ended = body == 0 && !stream->trailer;
    sim_h2_credit_open(client->h2, stream);
    client->requests[at] = sim_http_request_of(op, tag);
    char block[512];
    size_t size = put_block(client, block, op, tag, body);
    char *end = block + size;
    if (sim_one_in(&client->random, 8)) sim_h2_put_field(&end, "priority", some_priority(client));
    size = (size_t)(end - block);
    unsigned flags = UVHTTP__HTTP2_FLAG_END_HEADERS | (stream->ended ? UVHTTP__HTTP2_FLAG_END_STREAM : 0);
    writer_t out;
    start_out(client, &out, 1024);
    memcpy(sim_h2_put_frame(&out, size, UVHTTP__HTTP2_HEADERS, flags, 2 * at + 1), block, size);
    client->out_size = out.size;
    sim_transport_encode(client);
    sim_metrics_asked(&client->requests[at], body, op->ms);
    client->asked++;
    if (sim_one_in(&client->random, 8)) prioritize(client);
}

void sim_h2_probe(client_t *client, uint32_t body) {
    client->h2->pads = 0; /* not a byte more */
    client->h2->piece_max = PIECE_MAX;
    sim_h2_request(client, &(op_t){.kind = OP_REQUEST, .route = UPLOAD, .size = 1, .body = body});
    client->requests[client->asked - 1].begin = client->sent_size;
}

bool sim_h2_is_sent(const client_t *client, uint32_t at) {
    return client->h2->streams[at].ended;
}

/* --- bodies --- */

/* The response may have come before: then what is cut is the rest of the request. */
static bool is_cut_now(const stream_t *stream) {
    return !(stream->done && stream->ended) && stream->body_at >= stream->cut_at;
}

static uint32_t left_of(const stream_t *stream) {
    const tunnel_t *tunnel = stream->tunnel;
    return tunnel ? (uint32_t)(tunnel->out_size - tunnel->out_at) : stream->body - stream->body_at;
}

/* Behind what is left of it. */
static bool ends(const stream_t *stream) {
    return !stream->tunnel || stream->tunnel->ends;
}

static bool has_more(const stream_t *stream) {
    return is_cut_now(stream) || (!stream->ended && (left_of(stream) > 0 || ends(stream)));
}

static bool can_send(const struct sim_h2 *h2, const stream_t *stream) {
    if (is_cut_now(stream)) return true;
    return has_more(stream) && (left_of(stream) == 0 || sim_h2_capacity(h2, stream) > 0);
}

bool sim_h2_sends(const client_t *client) {
    if (!client->h2 || client->h2->mute) return false;
    for (uint32_t i = 0; i < client->asked; i++)
        if (has_more(&client->h2->streams[i])) return true;
    return false;
}

bool sim_h2_can_pump(const client_t *client) {
    if (!client->h2 || client->h2->mute) return false;
    for (uint32_t i = 0; i < client->asked; i++)
        if (can_send(client->h2, &client->h2->streams[i])) return true;
    return false;
}

static void put_cut(writer_t *out, stream_t *stream, uint32_t id) {
    stream->done = stream->reset = stream->ended = true;
    if (stream->tunnel) stream->tunnel->decided = stream->tunnel->ended = true;
    sim_h2_put_number(out, UVHTTP__HTTP2_RST_STREAM, id, UVHTTP__HTTP2_CANCEL);
}

static void put_trailer(writer_t *out, stream_t *stream, uint32_t id) {
    char block[32], *end = block;
    sim_h2_put_field(&end, "x-trailer", "t");
    size_t size = (size_t)(end - block);
    unsigned flags = UVHTTP__HTTP2_FLAG_END_HEADERS | UVHTTP__HTTP2_FLAG_END_STREAM;
    memcpy(sim_h2_put_frame(out, size, UVHTTP__HTTP2_HEADERS, flags, id), block, size);
    stream->ended = true;
}

static void consume_out(tunnel_t *tunnel, char *payload, uint32_t size) {
    if (size > 0) memcpy(payload, tunnel->out + tunnel->out_at, size);
    tunnel->out_at += size;
}

/* Padding counts against the windows, with its length (RFC 9113 section 6.1). */
static void put_data(client_t *client, writer_t *out, stream_t *stream, uint32_t at) {
    uint32_t capacity = sim_h2_capacity(client->h2, stream), left = left_of(stream), pad = 0;
    if (stream->cut_at < stream->body_at + left) left = stream->cut_at - stream->body_at;
    if (left > client->h2->piece_max) left = client->h2->piece_max;
    uint32_t most = left < capacity ? left : capacity;
    uint32_t part = most > 0 && client->hoards ? most
                    : most > 0                 ? sim_log_uniform(&client->random, most)
                                               : 0,
             size = part;
    bool padded = client->h2->pads && part < capacity && sim_one_in(&client->random, client->h2->pads);
    if (padded) {
        pad = sim_below(&client->random, capacity - part < 256 ? capacity - part : 256);
        size = 1 + part + pad;
    }
    bool last = part == left_of(stream) && ends(stream) && !stream->trailer;
    unsigned flags = (last ? UVHTTP__HTTP2_FLAG_END_STREAM : 0) | (padded ? UVHTTP__HTTP2_FLAG_PADDED : 0);
    char *payload = sim_h2_put_frame(out, size, UVHTTP__HTTP2_DATA, flags, 2 * at + 1);
    if (padded) *payload++ = (char)pad;
    if (stream->tunnel)
        consume_out(stream->tunnel, payload, part);
    else
        sim_http_fill(&client->requests[at], payload, stream->body_at, part);
    memset(payload + part, 0, pad);
    stream->body_at += part;
    stream->ended = last;
    sim_h2_data_sent(client->h2, stream, size);
}

/* One frame of one of the streams that may send. */
bool sim_h2_pump(client_t *client) {
    struct sim_h2 *h2 = client->h2;
    if (!sim_h2_can_pump(client)) {
        sim_h2_check_starved(client, sim_h2_sends(client) && client->read_ns <= sim_now_ns);
        return false;
    }
    h2->starved_ns = 0;
    uint32_t at = sim_below(&client->random, client->asked);
    while (!can_send(h2, &h2->streams[at])) at = (at + 1) % client->asked;
    stream_t *stream = &h2->streams[at];
    char frame[FRAME_HEAD_SIZE + PIECE_MAX + 256];
    writer_t out = {frame, 0};
    if (is_cut_now(stream))
        put_cut(&out, stream, 2 * at + 1);
    else if (stream->trailer && left_of(stream) == 0)
        put_trailer(&out, stream, 2 * at + 1);
    else
        put_data(client, &out, stream, at);
    h2->pumped = (stream->ended && !stream->reset) || stream->tunnel ? at + 1 : 0;
    sim_transport_out(client, frame, out.size);
    sim_h2_responded(client);
    return true;
}

void sim_h2_pumped(client_t *client) {
    struct sim_h2 *h2 = client->h2;
    if (!h2 || !h2->pumped) return;
    const stream_t *stream = &h2->streams[h2->pumped - 1];
    if (stream->tunnel)
        sim_ws_sent(stream->tunnel, stream->body_at);
    else
        client->requests[h2->pumped - 1].sent_ns = sim_now_ns;
    h2->pumped = 0;
}

/* --- hostile ones --- */

enum { RAPID_RESET = 1, CONTINUATIONS, PINGS, SETTINGS, TINY_UPDATES };

static const char get_head[] = "\x82\x86\x84\x41\3sim";

static uint32_t hostile_id(uint32_t i) {
    return 2 * (REQUESTS_MAX + i) + 1;
}

static void put_flood(client_t *client, writer_t *out, uint8_t kind) {
    uint32_t count = 1 + sim_below(&client->random, 2000);
    for (uint32_t i = 0; i < count; i++) {
        switch (kind) {
            case RAPID_RESET:
                memcpy(sim_h2_put_frame(out, 8, UVHTTP__HTTP2_HEADERS, 5, hostile_id(i)), get_head, 8);
                sim_h2_put_number(out, UVHTTP__HTTP2_RST_STREAM, hostile_id(i), UVHTTP__HTTP2_CANCEL);
                break;
            case CONTINUATIONS: /* without an end */
                *sim_h2_put_frame(out, 1, i ? UVHTTP__HTTP2_CONTINUATION : UVHTTP__HTTP2_HEADERS, 0, hostile_id(0)) =
                    (char)0x82;
                break;
            case PINGS: memset(sim_h2_put_frame(out, 8, UVHTTP__HTTP2_PING, 0, 0), 1, 8); break;
            case SETTINGS: sim_h2_put_frame(out, 0, UVHTTP__HTTP2_SETTINGS, 0, 0); break;
            default: sim_h2_put_number(out, UVHTTP__HTTP2_WINDOW_UPDATE, 0, 1); client->h2->receive_window++;
        }
    }
}

/* A stream that is open until its client reads: GET of more than a window, or a POST that nobody takes yet. */
static void put_open(writer_t *out, uint32_t id, bool post) {
    char block[128], *end = block;
    *end++ = (char)(post ? 0x83 : 0x82);
    *end++ = (char)0x86;
    *end++ = 0x04;
    sim_h2_put_string(&end, post ? "/upload/1/1/0" : "/stream/1/400000/0");
    *end++ = 0x41;
    sim_h2_put_string(&end, "sim");
    if (post) sim_h2_put_field(&end, "x-wait", "20000");
    size_t size = (size_t)(end - block);
    unsigned flags = UVHTTP__HTTP2_FLAG_END_HEADERS | (post ? 0 : UVHTTP__HTTP2_FLAG_END_STREAM);
    memcpy(sim_h2_put_frame(out, size, UVHTTP__HTTP2_HEADERS, flags, id), block, size);
}

static void put_bytes(client_t *client, writer_t *out, uint32_t id, uint32_t size) {
    for (uint32_t part; size > 0; size -= part) {
        part = size < UVHTTP__HTTP2_FRAME_SIZE_MAX ? size : UVHTTP__HTTP2_FRAME_SIZE_MAX;
        memset(sim_h2_put_frame(out, part, UVHTTP__HTTP2_DATA, 0, id), 0, part);
        client->h2->send_window -= part;
    }
}

/* The server may keep so many bytes, and resets no stream for its memory before it sees the offence. */
static bool fits_memory(uint32_t size) {
    return !sim_h2_memory_max || size < sim_h2_memory_max * 2 / 5;
}

/* More than a stream's window, and less than the connection's. */
static bool put_stream_overrun(client_t *client, writer_t *out) {
    const struct sim_h2 *h2 = client->h2;
    uint32_t size = h2->server_window + 1;
    if (!h2->heard || h2->send_window < size || size > HOSTILE_SIZE / 2 || !fits_memory(size)) return false;
    put_open(out, hostile_id(0), true);
    put_bytes(client, out, hostile_id(0), size);
    return true;
}

/* More than the connection's, on streams that keep within their own. */
static bool put_connection_overrun(client_t *client, writer_t *out) {
    const struct sim_h2 *h2 = client->h2;
    if (!h2->heard || sim_h2_connection_window > HOSTILE_SIZE / 2 || !fits_memory(sim_h2_connection_window))
        return false;
    int64_t left = (int64_t)sim_h2_connection_window + 1;
    for (uint32_t i = 0; left > 0; i++) {
        put_open(out, hostile_id(i), true);
        uint32_t part = left < h2->server_window ? (uint32_t)left : h2->server_window;
        put_bytes(client, out, hostile_id(i), part);
        left -= part;
    }
    return true;
}

static void put_setting(writer_t *out, uint32_t window) {
    char *setting = sim_h2_put_frame(out, 6, UVHTTP__HTTP2_SETTINGS, 0, 0);
    memcpy(setting, "\0\4", 2);
    uvhttp__http2_put32(setting + 2, window);
}

/* A window that is used up may be opened so far once. */
static void put_twice(writer_t *out, uint32_t id, uint32_t increment) {
    for (int i = 0; i < 2; i++) sim_h2_put_number(out, UVHTTP__HTTP2_WINDOW_UPDATE, id, increment);
}

static void must_bring(struct sim_h2 *h2, uint32_t error, uint32_t stream) {
    h2->due_error = error;
    h2->due_stream = stream;
}

/* What breaks a rule of flow control. */
static void put_offence(client_t *client, writer_t *out, uint8_t kind) {
    struct sim_h2 *h2 = client->h2;
    const uint32_t id = hostile_id(0), most = UVHTTP__HTTP2_WINDOW_MAX;
    h2->never_gives = true; /* so that what is open stays open */
    if (kind == SIM_H2_STREAM_OVERRUN && put_stream_overrun(client, out)) {
        must_bring(h2, UVHTTP__HTTP2_FLOW_CONTROL_ERROR, id);
        return;
    }
    if (kind == SIM_H2_CONNECTION_OVERRUN && put_connection_overrun(client, out)) {
        must_bring(h2, UVHTTP__HTTP2_FLOW_CONTROL_ERROR, 0);
        return;
    }
    bool zero = kind == SIM_H2_ZERO_UPDATE || kind == SIM_H2_ZERO_STREAM_UPDATE;
    must_bring(h2, zero || kind == SIM_H2_IDLE_DATA ? UVHTTP__HTTP2_PROTOCOL_ERROR : UVHTTP__HTTP2_FLOW_CONTROL_ERROR,
               0);
    bool open = kind == SIM_H2_STREAM_OVERFLOW || kind == SIM_H2_ZERO_STREAM_UPDATE || kind == SIM_H2_ENDED_DATA ||
                kind == SIM_H2_SETTINGS_OVERFLOW;
    if (open) put_open(out, id, false);
    if (open && kind != SIM_H2_SETTINGS_OVERFLOW) h2->due_stream = id;
    switch (kind) {
        case SIM_H2_STREAM_OVERFLOW: put_twice(out, id, most); break;
        case SIM_H2_ZERO_UPDATE: sim_h2_put_number(out, UVHTTP__HTTP2_WINDOW_UPDATE, 0, 0); break;
        case SIM_H2_ZERO_STREAM_UPDATE: sim_h2_put_number(out, UVHTTP__HTTP2_WINDOW_UPDATE, id, 0); break;
        case SIM_H2_LARGE_SETTING: put_setting(out, most + 1); break;
        case SIM_H2_SETTINGS_OVERFLOW:
            h2->lawless = true;
            sim_h2_put_number(out, UVHTTP__HTTP2_WINDOW_UPDATE, id, most - 100000);
            put_setting(out, 200000);
            break;
        case SIM_H2_IDLE_DATA: put_bytes(client, out, id, 1); break;
        case SIM_H2_ENDED_DATA:
            put_bytes(client, out, id, 1);
            h2->due_error = UVHTTP__HTTP2_STREAM_CLOSED;
            break;
        default: put_twice(out, 0, most); h2->receive_window += most;
    }
}

void sim_h2_raw(client_t *client, const op_t *op) {
    sim_metrics_lawless();
    bool polite = !client->wild;
    client->wild = client->h2->mute = true;
    writer_t out;
    start_out(client, &out, HOSTILE_SIZE);
    if (op->raw >= SIM_H2_FIRST_OFFENCE)
        put_offence(client, &out, op->raw);
    else if (op->raw)
        put_flood(client, &out, op->raw);
    else {
        client->h2->lawless = true;
        while (out.size < op->size) out.data[out.size++] = (char)sim_random(&client->random);
    }
    client->out_size = out.size;
    sim_transport_encode(client);
    if (!polite) client->h2->due_error = 0; /* it has brought another one by now */
}
