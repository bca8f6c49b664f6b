/* Owns: HTTP/2 as a client speaks it (prior knowledge): requests on streams, resets, windows, floods, and the model of
 * the responses. Every byte of DATA is checked against the tag of the request whose stream it is on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "http2/hpack.h"
#include "http2/http2_internal.h"

enum { HEAD_SIZE = UVHTTP__HTTP2_FRAME_HEAD_SIZE, LIST_MAX = 8192, CREDIT_SIZE = 13, BODY_MAX = 60000 };

/* Of requests[i]: its stream has the number 2 * i + 1. */
typedef struct stream {
    bool headed, tagged, done, reset; /* reset: by this client */
    uint64_t at;
    uint32_t credit;
    int status;
} stream_t;

struct sim_h2 {
    uvhttp__hpack_decoder_t decoder;
    char frame[HEAD_SIZE + UVHTTP__HTTP2_FRAME_SIZE_MAX];
    uint32_t have;
    int64_t send_window; /* of the connection */
    uint32_t window;     /* what SETTINGS say of those of streams */
    uint32_t credit;     /* of the connection */
    uint32_t last_id;    /* of the server's last GOAWAY */
    bool deaf;           /* there was no memory for its table: heads mean nothing any more */
    stream_t streams[REQUESTS_MAX];
};

void sim_h2_new(client_t *client, uint32_t window) {
    client->h2 = calloc(1, sizeof *client->h2);
    if (!client->h2) abort();
    client->h2->window = window;
    client->h2->last_id = UINT32_MAX;
    client->h2->send_window = UVHTTP__HTTP2_WINDOW_DEFAULT;
    uvhttp__hpack_decoder_init(&client->h2->decoder);
}

void sim_h2_free(client_t *client) {
    if (client->h2) uvhttp__hpack_decoder_deinit(&client->h2->decoder);
    free(client->h2);
    client->h2 = NULL;
}

/* --- what it sends --- */

typedef struct writer {
    char *data;
    size_t size;
} writer_t;

/* Returns where the payload is. */
static char *put_frame(writer_t *out, size_t size, uint8_t type, unsigned flags, uint32_t id) {
    char *frame = out->data + out->size;
    uvhttp__http2_put_head(frame, size, type, (uint8_t)flags, id);
    out->size += HEAD_SIZE + size;
    return frame + HEAD_SIZE;
}

static void put_number(writer_t *out, uint8_t type, uint32_t id, uint32_t number) {
    uvhttp__http2_put32(put_frame(out, 4, type, 0, id), number);
}

size_t sim_h2_begin(const client_t *client, char *data) {
    writer_t out = {data, UVHTTP__HTTP2_PREFACE_SIZE};
    memcpy(data, UVHTTP__HTTP2_PREFACE, UVHTTP__HTTP2_PREFACE_SIZE);
    char *setting = put_frame(&out, 6, UVHTTP__HTTP2_SETTINGS, 0, 0);
    memcpy(setting, "\0\4", 2);
    uvhttp__http2_put32(setting + 2, client->h2->window);
    return out.size;
}

static void put_string(char **block, const char *text) {
    size_t size = strlen(text);
    *(*block)++ = (char)size;
    memcpy(*block, text, size);
    *block += size;
}

static void put_field(char **block, const char *name, const char *format, uint32_t value) {
    char text[32];
    snprintf(text, sizeof text, format, value);
    *(*block)++ = 0;
    put_string(block, name);
    put_string(block, text);
}

static size_t put_block(const client_t *client, char *block, const op_t *op, uint32_t tag, uint32_t body) {
    char path[64], range[64], *end = block;
    *end++ = (char)(op->route >= ECHO ? 0x83 : 0x82);
    if (op->head) {
        end = block;
        *end++ = 0x02;
        put_string(&end, "HEAD");
    }
    *end++ = (char)0x86;
    if (op->route == FILES)
        snprintf(path, sizeof path, "/files/f%u?%x", op->file, tag);
    else
        snprintf(path, sizeof path, "/%s/%x/%u/%u", sim_route_names[op->route], tag, op->size, op->ms);
    *end++ = 0x04;
    put_string(&end, path);
    *end++ = 0x41;
    put_string(&end, "sim");
    if (op->ranged) {
        snprintf(range, sizeof range, "bytes=%u-%u", op->from, op->from + op->size - 1);
        *end++ = 0;
        put_string(&end, "range");
        put_string(&end, range);
    }
    if (client->transport.proxy) {
        uint32_t ip = client->transport.address;
        snprintf(range, sizeof range, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
        *end++ = 0;
        put_string(&end, "x-from");
        put_string(&end, range);
    }
    if (op->wait_ms) put_field(&end, "x-wait", "%u", op->wait_ms);
    if (op->route >= ECHO && !op->chunked) put_field(&end, "content-length", "%u", body);
    return (size_t)(end - block);
}

static void put_body(client_t *client, writer_t *out, uint32_t id, uint32_t tag, uint32_t body) {
    for (uint32_t done = 0; done < body;) {
        uint32_t left = body - done, part = sim_log_uniform(&client->random, left < 16000 ? left : 16000);
        sim_fill(put_frame(out, part, UVHTTP__HTTP2_DATA, done + part == body, id), SIM_REQUEST_TAG(tag), done, part);
        done += part;
    }
    client->h2->send_window -= body;
}

static uint32_t body_of(const client_t *client, const op_t *op) {
    int64_t max = client->h2->send_window < BODY_MAX ? client->h2->send_window : BODY_MAX;
    return op->body < max ? op->body : (uint32_t)max;
}

void sim_h2_request(client_t *client, const op_t *op) {
    if (client->asked == REQUESTS_MAX || client->h2->last_id != UINT32_MAX) return;
    uint32_t at = client->asked, tag = (client->id << 8 | at) + 0x1000, id = 2 * at + 1, body = body_of(client, op);
    char block[512];
    size_t size = put_block(client, block, op, tag, body);
    free(client->out);
    writer_t out = {malloc(1024 + (size_t)body * 11), 0};
    if (!out.data) abort();
    unsigned flags = UVHTTP__HTTP2_FLAG_END_HEADERS | (body == 0 ? UVHTTP__HTTP2_FLAG_END_STREAM : 0);
    memcpy(put_frame(&out, size, UVHTTP__HTTP2_HEADERS, flags, id), block, size);
    put_body(client, &out, id, tag, body);
    if (op->cut) put_number(&out, UVHTTP__HTTP2_RST_STREAM, id, UVHTTP__HTTP2_CANCEL);
    client->out = out.data;
    client->out_size = out.size;
    client->out_at = 0;
    client->h2->streams[at] = (stream_t){.reset = op->cut, .done = op->cut};
    client->requests[at] = sim_http_request_of(op, tag);
    client->asked++;
    sim_h2_answered(client);
}

static void put_floods(client_t *client, writer_t *out, uint8_t kind) {
    static const char head[] = "\x82\x86\x84\x41\3sim";
    uint32_t count = 1 + sim_below(&client->random, 2000);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = 2 * (REQUESTS_MAX + i) + 1;
        switch (kind) {
            case 1: /* rapid reset */
                memcpy(put_frame(out, 8, UVHTTP__HTTP2_HEADERS, 5, id), head, 8);
                put_number(out, UVHTTP__HTTP2_RST_STREAM, id, UVHTTP__HTTP2_CANCEL);
                break;
            case 2: /* CONTINUATION without an end */
                *put_frame(out, 1, i ? UVHTTP__HTTP2_CONTINUATION : UVHTTP__HTTP2_HEADERS, 0, 2 * REQUESTS_MAX + 1) =
                    (char)0x82;
                break;
            case 3: memset(put_frame(out, 8, UVHTTP__HTTP2_PING, 0, 0), 1, 8); break;
            case 4: put_frame(out, 0, UVHTTP__HTTP2_SETTINGS, 0, 0); break;
            default: put_number(out, UVHTTP__HTTP2_WINDOW_UPDATE, 0, 1);
        }
    }
}

void sim_h2_raw(client_t *client, const op_t *op) {
    client->wild = true;
    free(client->out);
    writer_t out = {malloc(1 << 17), 0};
    if (!out.data) abort();
    if (op->raw)
        put_floods(client, &out, op->raw);
    else
        while (out.size < op->size) out.data[out.size++] = (char)sim_random(&client->random);
    client->out = out.data;
    client->out_size = out.size;
    client->out_at = 0;
}

/* --- what it owes: acknowledgements, credit --- */

static bool control_frame(client_t *client, uint8_t type, unsigned flags, uint32_t id, const char *payload,
                          size_t size) {
    writer_t out = {client->control, client->control_size};
    if (out.size + HEAD_SIZE + size > sizeof client->control) return false;
    char *at = put_frame(&out, size, type, flags, id);
    if (size > 0) memcpy(at, payload, size);
    client->control_size = out.size;
    return true;
}

static void give(client_t *client, uint32_t id, uint32_t *credit) {
    char number[4];
    uvhttp__http2_put32(number, *credit);
    if (*credit > 0 && control_frame(client, UVHTTP__HTTP2_WINDOW_UPDATE, 0, id, number, 4)) *credit = 0;
}

void sim_h2_credit(client_t *client) {
    struct sim_h2 *h2 = client->h2;
    if (h2->window == 0) return; /* it never gives any */
    if (2 * h2->credit >= UVHTTP__HTTP2_WINDOW_DEFAULT) give(client, 0, &h2->credit);
    for (uint32_t i = 0; i < client->asked; i++)
        if (!h2->streams[i].done && 2 * h2->streams[i].credit >= h2->window)
            give(client, 2 * i + 1, &h2->streams[i].credit);
}

/* --- responses --- */

/* In the order of the requests, so that the first one that has no response is known. */
void sim_h2_answered(client_t *client) {
    while (client->answered < client->asked && client->h2->streams[client->answered].done) client->answered++;
}

bool sim_h2_is_refused(const client_t *client, const request_t *request) {
    return 2 * (uint32_t)(request - client->requests) + 1 > client->h2->last_id;
}

bool sim_h2_is_cut(const client_t *client) {
    return client->h2->have > 0;
}

static void stream_ended(client_t *client, uint32_t at) {
    const request_t *request = &client->requests[at];
    stream_t *stream = &client->h2->streams[at];
    uint32_t size = request->head ? 0 : request->size;
    sim_trace("response", client->id, (uint64_t)stream->status);
    if (stream->tagged && stream->at != size)
        sim_fail("client %u: the response to %x has %llu bytes instead of %u", client->id, request->tag,
                 (unsigned long long)stream->at, size);
    if (stream->tagged && !request->untagged) sim_access_log_expect(request->tag, stream->status);
    stream->done = true;
    sim_h2_answered(client);
}

static stream_t *stream_of(client_t *client, uint32_t id) {
    if (!(id & 1) || id / 2 >= client->asked) {
        if (client->wild) return NULL;
        sim_fail("client %u: a frame of stream %u, which it has not opened", client->id, id);
    }
    stream_t *stream = &client->h2->streams[id / 2];
    if (stream->done && !stream->reset) sim_fail("client %u: a frame of stream %u behind its end", client->id, id);
    return stream->reset ? NULL : stream;
}

typedef struct head {
    int status;
    bool tagged;
    uint32_t tag;
} head_t;

static head_t read_block(client_t *client, const char *block, size_t size) {
    static char scratch[LIST_MAX + UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK];
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_field_t field;
    head_t head = {0};
    int code = uvhttp__hpack_read(&reader, &client->h2->decoder, block, size, scratch, LIST_MAX);
    while (code == 0 && (code = uvhttp__hpack_read_next(&reader, &field)) == 0) {
        char value[32] = "";
        memcpy(value, field.text + field.name_size, field.value_size < 31 ? field.value_size : 31);
        if (field.name == UVHTTP__HPACK_STATUS) head.status = atoi(value);
        if (field.name_size != 5 || memcmp(field.text, "x-tag", 5) != 0) continue;
        head.tagged = true;
        head.tag = (uint32_t)strtoul(value, NULL, 16);
    }
    if (code == UVHTTP_E_NOMEM && sim_failing)
        client->h2->deaf = client->wild = true;
    else if (code != UVHTTP_E_EOF)
        sim_fail("client %u: a header block cannot be decoded: %d", client->id, code);
    return head;
}

static void check_head(client_t *client, uint32_t at, stream_t *stream, head_t head) {
    const request_t *request = &client->requests[at];
    if (stream->headed) sim_fail("client %u: a second head for request %x", client->id, request->tag);
    if (request->untagged && head.status == request->status) head.tagged = true;
    if (sim_failing && head.status >= 300) head.tagged = false;
    if (head.tagged && head.status != request->status)
        sim_fail("client %u: a handler's response has status %d", client->id, head.status);
    if (head.tagged && !request->untagged && head.tag != request->tag)
        sim_fail("client %u: the response to request %x has tag %x", client->id, request->tag, head.tag);
    if (!head.tagged && !client->wild && !sim_failing && !(request->may_wait && head.status == 503))
        sim_fail("client %u: status %d for request %x", client->id, head.status, request->tag);
    stream->headed = true;
    stream->tagged = head.tagged;
    stream->status = head.status;
}

static void take_headers(client_t *client, uint32_t id, unsigned flags, const char *payload, uint32_t size) {
    if (!(flags & UVHTTP__HTTP2_FLAG_END_HEADERS)) sim_fail("client %u: a head in parts", client->id);
    head_t head = read_block(client, payload, size);
    stream_t *stream = client->h2->deaf ? NULL : stream_of(client, id);
    if (!stream || head.status == 100) return;
    check_head(client, id / 2, stream, head);
    if (flags & UVHTTP__HTTP2_FLAG_END_STREAM) stream_ended(client, id / 2);
}

static void take_data(client_t *client, uint32_t id, unsigned flags, const char *payload, uint32_t size) {
    client->h2->credit += size;
    stream_t *stream = stream_of(client, id);
    if (!stream) return;
    const request_t *request = &client->requests[id / 2];
    if (!stream->headed) sim_fail("client %u: a body without a head for %x", client->id, request->tag);
    if (client->h2->window == 0 && size > 0) sim_fail("client %u: DATA without a window", client->id);
    size_t wrong = stream->tagged ? sim_mismatch(payload, request->tag, request->from + stream->at, size) : size;
    if (wrong < size)
        sim_fail("client %u: byte %llu of the response to %x is wrong", client->id,
                 (unsigned long long)(stream->at + wrong), request->tag);
    stream->at += size;
    stream->credit += size;
    if (flags & UVHTTP__HTTP2_FLAG_END_STREAM) stream_ended(client, id / 2);
}

/* A stream that is over may be reset once more: its request was not whole (RFC 9113 section 8.1). */
static void take_reset(client_t *client, uint32_t id, uint32_t error) {
    stream_t *stream = id / 2 < client->asked ? &client->h2->streams[id / 2] : NULL;
    if (!stream || stream->done) return;
    if (!client->wild && !sim_failing)
        sim_fail("client %u: request %x was reset: %s", client->id, client->requests[id / 2].tag,
                 uvhttp__http2_error_name(error));
    stream->done = true;
    sim_h2_answered(client);
}

static void take_goaway(client_t *client, uint32_t last_id, uint32_t error) {
    if (error && !client->wild && !sim_failing)
        sim_fail("client %u: GOAWAY: %s", client->id, uvhttp__http2_error_name(error));
    if (last_id != UVHTTP__HTTP2_STREAM_ID_MAX) client->h2->last_id = last_id;
}

static void take_frame(client_t *client, const char *frame, uint32_t size) {
    uint32_t id = uvhttp__http2_get32(frame + 5);
    unsigned flags = (uint8_t)frame[4];
    const char *payload = frame + HEAD_SIZE;
    if (client->h2->deaf && frame[3] <= UVHTTP__HTTP2_HEADERS) return;
    switch (frame[3]) {
        case UVHTTP__HTTP2_HEADERS: take_headers(client, id, flags, payload, size); break;
        case UVHTTP__HTTP2_DATA: take_data(client, id, flags, payload, size); break;
        case UVHTTP__HTTP2_RST_STREAM: take_reset(client, id, uvhttp__http2_get32(payload)); break;
        case UVHTTP__HTTP2_SETTINGS:
            if (!flags) (void)control_frame(client, UVHTTP__HTTP2_SETTINGS, UVHTTP__HTTP2_FLAG_ACK, 0, NULL, 0);
            break;
        case UVHTTP__HTTP2_PING:
            if (!flags) (void)control_frame(client, UVHTTP__HTTP2_PING, UVHTTP__HTTP2_FLAG_ACK, 0, payload, 8);
            break;
        case UVHTTP__HTTP2_GOAWAY:
            take_goaway(client, uvhttp__http2_get32(payload), uvhttp__http2_get32(payload + 4));
            break;
        case UVHTTP__HTTP2_WINDOW_UPDATE:
            if (id == 0) client->h2->send_window += uvhttp__http2_get32(payload);
            break;
        default: sim_fail("client %u: a frame of type %d", client->id, frame[3]);
    }
}

void sim_h2_take(client_t *client, const char *data, size_t size) {
    struct sim_h2 *h2 = client->h2;
    for (size_t at = 0; at < size;) {
        uint32_t want = h2->have < HEAD_SIZE ? HEAD_SIZE : HEAD_SIZE + (uvhttp__http2_get32(h2->frame) >> 8);
        if (want > sizeof h2->frame) sim_fail("client %u: a frame of %u bytes", client->id, want);
        size_t part = want - h2->have < size - at ? want - h2->have : size - at;
        memcpy(h2->frame + h2->have, data + at, part);
        h2->have += (uint32_t)part;
        at += part;
        if (h2->have < HEAD_SIZE || h2->have < HEAD_SIZE + (uvhttp__http2_get32(h2->frame) >> 8)) continue;
        uint32_t payload = h2->have - HEAD_SIZE;
        h2->have = 0;
        take_frame(client, h2->frame, payload);
    }
    sim_h2_credit(client);
}
