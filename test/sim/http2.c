/* Owns: HTTP/2 as a client hears it (prior knowledge): the model of the responses, of resets and of the end. Every byte
 * of DATA is checked against the tag of the request whose stream it is on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http2.h"

enum { LIST_MAX = 8192, PROMPT_MS = 2000 };

void sim_h2_new(client_t *client, uint32_t window) {
    client->h2 = calloc(1, sizeof *client->h2);
    if (!client->h2) abort();
    client->h2->last_id = UINT32_MAX;
    sim_h2_credit_init(client, window);
    uvhttp__hpack_decoder_init(&client->h2->decoder);
}

void sim_h2_free(client_t *client) {
    if (client->h2) uvhttp__hpack_decoder_deinit(&client->h2->decoder);
    free(client->h2);
    client->h2 = NULL;
}

/* --- responses --- */

/* In the order of the requests, so that the first one that has no response is known. */
void sim_h2_responded(client_t *client) {
    const stream_t *streams = client->h2->streams;
    while (
        client->responded < client->asked &&
        (streams[client->responded].done || (streams[client->responded].tunnel && streams[client->responded].headed)))
        client->responded++;
}

bool sim_h2_is_refused(const client_t *client, const request_t *request) {
    return 2 * (uint32_t)(request - client->requests) + 1 > client->h2->last_id;
}

bool sim_h2_is_cut(const client_t *client) {
    return client->h2->have > 0;
}

uint64_t sim_h2_received(const client_t *client, uint32_t at) {
    return client->h2->streams[at].at;
}

bool sim_h2_is_sent_away(const client_t *client) {
    return client->h2->last_id != UINT32_MAX;
}

/* What the last GOAWAY has not refused, it has promised. */
void sim_h2_check_end(const client_t *client) {
    const struct sim_h2 *h2 = client->h2;
    for (uint32_t i = 0; i < client->asked && h2->last_id != UINT32_MAX; i++)
        if (!h2->streams[i].done && 2 * i + 1 <= h2->last_id)
            sim_fail("client %u: request %x has no response, and GOAWAY names stream %u", client->id,
                     client->requests[i].tag, h2->last_id);
}

void sim_h2_check_offence(const client_t *client) {
    const struct sim_h2 *h2 = client->h2;
    if (h2->due_error && !h2->punished)
        sim_fail("client %u: its offence did not bring %s on stream %u", client->id,
                 uvhttp__http2_error_name(h2->due_error), h2->due_stream);
}

static void note_error(struct sim_h2 *h2, uint32_t id, uint32_t error) {
    if (h2->due_error == error && h2->due_stream == id) h2->punished = true;
}

/* Whatever the other streams of the connection do. */
static void check_prompt(const client_t *client, const request_t *request) {
    if (request->prompt && request->sent_ns && !sim_failing && sim_now_ns - request->sent_ns > PROMPT_MS * SIM_MS)
        sim_fail("client %u: the response to %x ended %llu ms after the request", client->id, request->tag,
                 (unsigned long long)((sim_now_ns - request->sent_ns) / SIM_MS));
}

static void stream_ended(client_t *client, uint32_t at) {
    request_t *request = &client->requests[at];
    stream_t *stream = &client->h2->streams[at];
    sim_trace("response", client->id, (uint64_t)stream->status);
    if (stream->tunnel && stream->tunnel->open) {
        sim_h2_tunnel_ended(client, stream);
        return;
    }
    if (stream->tagged) sim_body_ended(client, request, stream->at);
    if (stream->tagged && !request->untagged) sim_access_log_expect(request->tag, stream->status, request->received);
    check_prompt(client, request);
    sim_metrics_responded(client, request, stream->status, stream->tagged);
    stream->done = true;
    sim_h2_responded(client);
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
    bool tagged, varies;
    uint32_t tag;
    char coding[16];
    char extension[EXTENSION_MAX]; /* of WebSocket */
    char link[32], sum[32];
    sim_edited_head_t edited;
} head_t;

static bool is_named(const uvhttp__hpack_field_t *field, const char *name) {
    return field->name_size == strlen(name) && memcmp(field->text, name, field->name_size) == 0;
}

static void copy_field(const uvhttp__hpack_field_t *field, const char *name, char value[64]) {
    if (is_named(field, name)) snprintf(value, 64, "%.*s", (int)field->value_size, field->text + field->name_size);
}

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
        if (is_named(&field, "content-encoding")) snprintf(head.coding, sizeof head.coding, "%.15s", value);
        if (is_named(&field, "content-length")) head.edited.size = strtoull(value, NULL, 10);
        copy_field(&field, "etag", head.edited.etag);
        copy_field(&field, "content-range", head.edited.range);
        if (is_named(&field, "vary")) head.varies = strstr(value, "Accept-Encoding") != NULL;
        if (is_named(&field, "link")) snprintf(head.link, sizeof head.link, "%s", value);
        if (is_named(&field, "x-sum")) snprintf(head.sum, sizeof head.sum, "%s", value);
        if (is_named(&field, "sec-websocket-extensions"))
            snprintf(head.extension, sizeof head.extension, "%.*s", (int)field.value_size,
                     field.text + field.name_size);
        if (!is_named(&field, "x-tag")) continue;
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
    request_t *request = &client->requests[at];
    if (stream->headed) sim_fail("client %u: a second head for request %x", client->id, request->tag);
    head.edited.status = head.status;
    head.edited.coded = head.coding[0] != '\0';
    if (request->edited) sim_edited_came(client, request, &head.edited);
    if ((request->untagged || request->upgrade) && head.status == request->status) head.tagged = true;
    if (sim_failing && head.status >= 300) head.tagged = false;
    if (head.tagged && head.status != request->status)
        sim_fail("client %u: a handler's response has status %d", client->id, head.status);
    if (head.tagged && !request->untagged && !request->upgrade && head.tag != request->tag)
        sim_fail("client %u: the response to request %x has tag %x", client->id, request->tag, head.tag);
    if (!head.tagged && !client->wild && !sim_failing && !sim_may_be_refused(request, head.status))
        sim_fail("client %u: status %d for request %x", client->id, head.status, request->tag);
    if (head.tagged) sim_coding_begin(client, request, head.status, head.coding, head.varies);
    stream->headed = true;
    stream->tagged = head.tagged;
    stream->status = head.status;
}

static void open_tunnel(client_t *client, stream_t *stream, const char *extension, bool ends) {
    if (sim_h2_tunnel_opens(stream, stream->status, *extension ? extension : NULL, ends))
        sim_access_log_expect(client->requests[stream - client->h2->streams].tag, 200, SIM_NEVER);
    sim_h2_responded(client);
}

static void take_headers(client_t *client, uint32_t id, unsigned flags, const char *payload, uint32_t size) {
    if (!(flags & UVHTTP__HTTP2_FLAG_END_HEADERS)) sim_fail("client %u: a head in parts", client->id);
    head_t head = read_block(client, payload, size);
    stream_t *stream = client->h2->deaf ? NULL : stream_of(client, id);
    if (stream && head.status == 103) sim_reply_hint(client, &client->requests[id / 2], head.link);
    if (!stream || head.status == 100 || head.status == 103) return;
    if (head.status == 0 && stream->tagged)
        sim_reply_trailer(client, &client->requests[id / 2], head.sum);
    else if (head.status != 0 || !stream->headed || !sim_failing) /* else: of one that may be an error */
        check_head(client, id / 2, stream, head);
    if (stream->tunnel) open_tunnel(client, stream, head.extension, flags & UVHTTP__HTTP2_FLAG_END_STREAM);
    if (flags & UVHTTP__HTTP2_FLAG_END_STREAM) stream_ended(client, id / 2);
}

static void take_data(client_t *client, uint32_t id, unsigned flags, const char *payload, uint32_t size) {
    stream_t *stream = stream_of(client, id);
    if (flags & UVHTTP__HTTP2_FLAG_PADDED) sim_fail("client %u: padded DATA", client->id);
    sim_h2_data_came(client, stream, id, size);
    if (!stream) return;
    request_t *request = &client->requests[id / 2];
    if (!stream->headed) sim_fail("client %u: a body without a head for %x", client->id, request->tag);
    const bool is_tunnel = stream->tunnel && stream->tunnel->open;
    request->received += size;
    if (is_tunnel) sim_ws_take(stream->tunnel, payload, size);
    stream->at += stream->tagged && !is_tunnel ? sim_body_take(client, request, stream->at, payload, size) : size;
    if (flags & UVHTTP__HTTP2_FLAG_END_STREAM) stream_ended(client, id / 2);
}

/* The server keeps only so much for a connection whose windows are closed. */
static void tunnel_was_reset(client_t *client, stream_t *stream, uint32_t error) {
    bool slow = (error == UVHTTP__HTTP2_CANCEL && stream->tunnel->stingy) ||
                (error == UVHTTP__HTTP2_ENHANCE_YOUR_CALM && sim_h2_is_greedy(client));
    (void)sim_h2_is_cut_off(client, stream, error);
    sim_ws_was_reset(stream->tunnel, uvhttp__http2_error_name(error), slow);
}

/* A stream that is over may be reset once more: its request was not whole (RFC 9113 section 8.1). */
static void take_reset(client_t *client, uint32_t id, uint32_t error) {
    stream_t *stream = id / 2 < client->asked ? &client->h2->streams[id / 2] : NULL;
    note_error(client->h2, id, error);
    if (stream) stream->ended = true;
    if (!stream || stream->done) return;
    sim_body_cut(client, &client->requests[id / 2], stream->at);
    if (stream->tunnel && stream->tunnel->open)
        tunnel_was_reset(client, stream, error);
    else if (!client->wild && !sim_failing && !client->requests[id / 2].may_break &&
             !sim_edited_may_break(&client->requests[id / 2]) && !sim_events_are_dropped(&client->requests[id / 2]) &&
             !sim_h2_is_cut_off(client, stream, error))
        sim_fail("client %u: request %x was reset: %s", client->id, client->requests[id / 2].tag,
                 uvhttp__http2_error_name(error));
    if (stream->tunnel && !stream->tunnel->open) stream->tunnel->decided = stream->tunnel->ended = true;
    stream->done = true;
    sim_h2_responded(client);
}

static void take_goaway(client_t *client, uint32_t last_id, uint32_t error) {
    if (error && !client->wild && !sim_failing)
        sim_fail("client %u: GOAWAY: %s", client->id, uvhttp__http2_error_name(error));
    struct sim_h2 *h2 = client->h2;
    note_error(h2, 0, error);
    if (last_id == UVHTTP__HTTP2_STREAM_ID_MAX && h2->last_id == UINT32_MAX) return;
    if (last_id > h2->last_id) sim_fail("client %u: GOAWAY names %u after %u", client->id, last_id, h2->last_id);
    if (!client->wild && last_id > 2 * client->asked)
        sim_fail("client %u: GOAWAY names stream %u, which it has not opened", client->id, last_id);
    h2->last_id = last_id;
    for (uint32_t i = (last_id + 1) / 2; i < client->asked; i++) {
        h2->streams[i].ended = true;
        h2->streams[i].cut_at = UINT32_MAX;
    }
}

static void take_settings(client_t *client, unsigned flags, const char *payload, uint32_t size) {
    if (flags) {
        sim_h2_settings_acked(client);
        return;
    }
    sim_h2_settings_came(client, payload, size);
    (void)sim_h2_owe(client, UVHTTP__HTTP2_SETTINGS, UVHTTP__HTTP2_FLAG_ACK, 0, NULL, 0);
}

static void take_frame(client_t *client, const char *frame, uint32_t size) {
    uint32_t id = uvhttp__http2_get32(frame + 5);
    unsigned flags = (uint8_t)frame[4];
    const char *payload = frame + FRAME_HEAD_SIZE;
    if (client->h2->deaf && frame[3] <= UVHTTP__HTTP2_HEADERS) return;
    switch (frame[3]) {
        case UVHTTP__HTTP2_HEADERS: take_headers(client, id, flags, payload, size); break;
        case UVHTTP__HTTP2_DATA: take_data(client, id, flags, payload, size); break;
        case UVHTTP__HTTP2_RST_STREAM: take_reset(client, id, uvhttp__http2_get32(payload)); break;
        case UVHTTP__HTTP2_SETTINGS: take_settings(client, flags, payload, size); break;
        case UVHTTP__HTTP2_PING:
            if (flags)
                sim_h2_ping_acked(client);
            else
                (void)sim_h2_owe(client, UVHTTP__HTTP2_PING, UVHTTP__HTTP2_FLAG_ACK, 0, payload, 8);
            break;
        case UVHTTP__HTTP2_GOAWAY:
            take_goaway(client, uvhttp__http2_get32(payload), uvhttp__http2_get32(payload + 4));
            break;
        case UVHTTP__HTTP2_WINDOW_UPDATE: sim_h2_window_came(client, id, uvhttp__http2_get32(payload)); break;
        default: sim_fail("client %u: a frame of type %d", client->id, frame[3]);
    }
}

void sim_h2_take(client_t *client, const char *data, size_t size) {
    struct sim_h2 *h2 = client->h2;
    for (size_t at = 0; at < size;) {
        uint32_t want =
            h2->have < FRAME_HEAD_SIZE ? FRAME_HEAD_SIZE : FRAME_HEAD_SIZE + (uvhttp__http2_get32(h2->frame) >> 8);
        if (want > sizeof h2->frame) sim_fail("client %u: a frame of %u bytes", client->id, want);
        size_t part = want - h2->have < size - at ? want - h2->have : size - at;
        memcpy(h2->frame + h2->have, data + at, part);
        h2->have += (uint32_t)part;
        at += part;
        if (h2->have < FRAME_HEAD_SIZE || h2->have < FRAME_HEAD_SIZE + (uvhttp__http2_get32(h2->frame) >> 8)) continue;
        uint32_t payload = h2->have - FRAME_HEAD_SIZE;
        h2->have = 0;
        take_frame(client, h2->frame, payload);
    }
    sim_h2_credit(client);
}
