/* Owns: what a WebSocket client sends: messages in frames, pings, the ends that a tunnel may have, and what breaks a
 * rule, with the code of the close frame that it must bring. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "websocket.h"

enum { PONG_WATERMARK_MIN = 65536 };

/* --- a tunnel --- */

static void make_seen(tunnel_t *tunnel) {
    uint32_t count = sim_world_clients() * TUNNELS_MAX;
    tunnel->seen = malloc(count * sizeof *tunnel->seen);
    if (!tunnel->seen) abort();
    for (uint32_t i = 0; i < count; i++) tunnel->seen[i] = (seen_t){.last = SEEN_NONE};
    tunnel->seen[tunnel->client->id * TUNNELS_MAX + tunnel->number].last = SEEN_ALL;
}

tunnel_t *sim_ws_new(client_t *client, const op_t *op, uint32_t tag) {
    if (client->tunnels[op->tunnel]) return NULL;
    tunnel_t *tunnel = calloc(1, sizeof *tunnel);
    if (!tunnel) abort();
    *tunnel = (tunnel_t){.client = client, .number = op->tunnel, .tag = tag, .topic = op->topic, .stingy = op->stingy};
    if (tunnel->topic) make_seen(tunnel);
    if (!tunnel->stingy) sim_ws_offer(tunnel, &client->random); /* its messages must not fit its window */
    client->tunnels[op->tunnel] = tunnel;
    return tunnel;
}

const char *sim_ws_route(const tunnel_t *tunnel) {
    return tunnel->topic ? "topic" : tunnel->tag % 3 == 0 ? "parts" : "ws";
}

void sim_ws_opened(tunnel_t *tunnel, const char *extension) {
    tunnel->open = tunnel->decided = true;
    sim_ws_agree(tunnel, extension);
}

void sim_ws_free(client_t *client) {
    for (uint32_t i = 0; i < TUNNELS_MAX; i++) {
        tunnel_t *tunnel = client->tunnels[i];
        client->tunnels[i] = NULL;
        if (!tunnel) continue;
        free(tunnel->seen);
        free(tunnel->out);
        sim_ws_deflate_free(tunnel);
        free(tunnel);
    }
}

void sim_ws_upgrade(client_t *client, const op_t *op) {
    if (client->asked == REQUESTS_MAX || client->tunnels[op->tunnel]) return;
    uint32_t tag = (client->id << 8 | client->asked) + 0x1000;
    const tunnel_t *tunnel = sim_ws_new(client, op, tag);
    client->requests[client->asked] = (request_t){.tag = tag, .status = 200, .upgrade = true};
    sim_metrics_asked(&client->requests[client->asked++], 0, 0);
    char head[768];
    const char *offer = tunnel->offer.text;
    int size =
        snprintf(head, sizeof head,
                 "GET /%s/%x HTTP/1.1\r\nHost: sim\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                 "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s%s%s\r\n",
                 sim_ws_route(tunnel), tag, *offer ? "Sec-WebSocket-Extensions: " : "", offer, *offer ? "\r\n" : "");
    sim_transport_out(client, head, (size_t)size);
}

/* --- frames --- */

static char *reserve(tunnel_t *tunnel, size_t size) {
    char *grown = malloc(tunnel->out_size - tunnel->out_at + size);
    if (!grown) abort();
    tunnel->out_size -= tunnel->out_at;
    if (tunnel->out_size > 0) memcpy(grown, tunnel->out + tunnel->out_at, tunnel->out_size);
    free(tunnel->out);
    tunnel->out = grown;
    tunnel->out_at = 0;
    return grown + tunnel->out_size;
}

static void put_bytes(tunnel_t *tunnel, const void *data, size_t size) {
    memcpy(reserve(tunnel, size), data, size);
    tunnel->out_size += size;
    tunnel->queued += size;
}

/* With a length that may be wrong. A frame of a client is masked (RFC 6455 section 5.3). */
static void put_frame(tunnel_t *tunnel, unsigned first, uint64_t length, const void *data, size_t size) {
    unsigned char *begin = (unsigned char *)reserve(tunnel, size + 14), *at = begin, mask[4];
    *at++ = (unsigned char)first;
    if (length < 126) {
        *at++ = (unsigned char)(0x80 | length);
    } else if (length < 65536) {
        *at++ = 0x80 | 126;
        *at++ = (unsigned char)(length >> 8);
        *at++ = (unsigned char)length;
    } else {
        *at++ = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8) *at++ = (unsigned char)(length >> shift);
    }
    for (int i = 0; i < 4; i++) *at++ = mask[i] = (unsigned char)sim_random(&tunnel->client->random);
    for (size_t i = 0; i < size; i++) *at++ = (unsigned char)(((const unsigned char *)data)[i] ^ mask[i & 3]);
    tunnel->out_size += (size_t)(at - begin);
    tunnel->queued += (uint64_t)(at - begin);
}

void sim_ws_put(tunnel_t *tunnel, unsigned first, const void *data, size_t size) {
    put_frame(tunnel, first, size, data, size);
}

/* While messages are on their way the server may leave a pong out (RFC 6455 section 5.5.3), and so it may if it keeps
 * next to nothing for a client. */
static void put_ping(tunnel_t *tunnel) {
    char text[16];
    bool is_due = tunnel->responded == tunnel->asked && sim_ws.high_watermark >= PONG_WATERMARK_MIN && !sim_failing;
    if (is_due) tunnel->pongs_due = tunnel->pings_sent + 1;
    int size = snprintf(text, sizeof text, "ping %u", tunnel->pings_sent++);
    sim_ws_put(tunnel, LAST | PING, text, (size_t)size);
}

/* --- messages --- */

static void put_fragments(tunnel_t *tunnel, unsigned kind, const char *data, size_t size, uint32_t frames) {
    sim_random_t *random = &tunnel->client->random;
    for (size_t done = 0, frame = 0; frame < frames; frame++) {
        bool last = frame + 1 == frames;
        size_t part = last ? size - done : sim_below(random, (uint32_t)(size - done + 1));
        sim_ws_put(tunnel, (frame == 0 ? kind : CONTINUATION) | (last ? LAST : 0u), data + done, part);
        if (!last && sim_one_in(random, 6)) put_ping(tunnel);
        done += part;
    }
}

/* The tag, the size of the response, and `body` bytes of what this client sends, in some frames. */
static void put_message(tunnel_t *tunnel, const op_t *op) {
    if (tunnel->asked == MESSAGES_MAX) return;
    message_t *sent = &tunnel->messages[tunnel->asked];
    *sent = (message_t){.tag = sim_ws_tag(tunnel, tunnel->asked), .size = op->size};
    tunnel->asked++;
    size_t size = 8 + (size_t)op->body;
    char *message = malloc(size);
    if (!message) abort();
    sim_put32(message, sent->tag);
    sim_put32(message + 4, op->size);
    sim_ws_fill(message + 8, SIM_REQUEST_TAG(sent->tag), 0, op->body);
    bool packs = tunnel->deflate && !sim_one_in(&tunnel->client->random, 5);
    char *packed = packs ? sim_ws_deflate(tunnel, message, size, &size) : message;
    put_fragments(tunnel, packs ? COMPRESSED | BINARY : BINARY, packed, size, op->frames);
    if (packs) free(packed);
    free(message);
    sent->end = tunnel->queued;
}

void sim_ws_sent(tunnel_t *tunnel, uint64_t bytes) {
    for (uint32_t i = 0; i < tunnel->asked; i++)
        if (tunnel->messages[i].sent_ns == 0 && tunnel->messages[i].end <= bytes)
            tunnel->messages[i].sent_ns = sim_now_ns;
}

/* --- ends --- */

static void put_close(tunnel_t *tunnel) {
    bool coded = !sim_one_in(&tunnel->client->random, 4);
    sim_ws_put(tunnel, LAST | CLOSE, "\x03\xe8", coded ? 2 : 0);
    tunnel->closing = true;
    tunnel->code = coded ? WS_NORMAL : 0;
}

static void put_part(tunnel_t *tunnel) {
    char part[32] = "";
    put_frame(tunnel, LAST | BINARY, 1000, part, sim_below(&tunnel->client->random, sizeof part));
}

static void end(tunnel_t *tunnel, const op_t *op) {
    switch (op->raw) {
        case SIM_WS_END_HALF: tunnel->half_ended = tunnel->ends = true; break;
        case SIM_WS_END_IN_FRAME:
            put_part(tunnel);
            tunnel->half_ended = tunnel->ends = true;
            break;
        case SIM_WS_END_RESET:
            if (sim_one_in(&tunnel->client->random, 2)) put_part(tunnel);
            tunnel->reset = true;
            break;
        default: put_close(tunnel); tunnel->ends = op->raw == SIM_WS_END_AT_ONCE;
    }
}

/* --- what breaks a rule --- */

static void put_head(tunnel_t *tunnel, unsigned first, unsigned second, const char *rest, size_t size) {
    const char head[2] = {(char)first, (char)second};
    put_bytes(tunnel, head, 2);
    put_bytes(tunnel, rest, size);
}

/* RFC 7692: RSV1 of what was not agreed on, or of a frame that begins no message; and what is no deflate. */
static uint16_t put_packed_fault(tunnel_t *tunnel, uint8_t kind) {
    const unsigned first = LAST | COMPRESSED | BINARY;
    if (!tunnel->open) { /* it is not known what is agreed on */
        sim_ws_put(tunnel, LAST | COMPRESSED | PING, "", 0);
        return WS_PROTOCOL_ERROR;
    }
    if (!tunnel->deflate) {
        sim_ws_put(tunnel, first, "\0", 1);
        return WS_PROTOCOL_ERROR;
    }
    switch (kind) {
        case SIM_WS_RESERVED_1:
            sim_ws_put(tunnel, COMPRESSED | BINARY, "", 0);
            sim_ws_put(tunnel, LAST | COMPRESSED | CONTINUATION, "\0", 1);
            return WS_PROTOCOL_ERROR;
        case SIM_WS_BOMB: sim_ws_put_bomb(tunnel); return WS_TOO_LARGE;
        case SIM_WS_NO_DEFLATE: sim_ws_put(tunnel, first, "\7abc", 4); return WS_INVALID_DATA;
        default: sim_ws_put(tunnel, first, "\0\x64\0\x9b\xff\0\0\0", 8); return WS_INVALID_DATA;
    }
}

static uint16_t put_fault(tunnel_t *tunnel, uint8_t kind) {
    static const char zeros[130];
    switch (kind) {
        case SIM_WS_UNMASKED: put_head(tunnel, LAST | BINARY, 9, zeros, 9); return WS_PROTOCOL_ERROR;
        case SIM_WS_RESERVED: sim_ws_put(tunnel, LAST | 0x20 | BINARY, zeros, 9); return WS_PROTOCOL_ERROR;
        case SIM_WS_UNAGREED: sim_ws_put(tunnel, LAST | 0x40 | PING, zeros, 9); return WS_PROTOCOL_ERROR;
        case SIM_WS_OPCODE: sim_ws_put(tunnel, LAST | 3, zeros, 9); return WS_PROTOCOL_ERROR;
        case SIM_WS_LONG_PING: sim_ws_put(tunnel, LAST | PING, zeros, 126); return WS_PROTOCOL_ERROR;
        case SIM_WS_PART_OF_PING: sim_ws_put(tunnel, PING, zeros, 9); return WS_PROTOCOL_ERROR;
        case SIM_WS_NO_BEGIN: sim_ws_put(tunnel, LAST | CONTINUATION, zeros, 9); return WS_PROTOCOL_ERROR;
        case SIM_WS_NO_END:
            sim_ws_put(tunnel, BINARY, zeros, 9);
            sim_ws_put(tunnel, LAST | BINARY, zeros, 9);
            return WS_PROTOCOL_ERROR;
        case SIM_WS_LENGTH: put_head(tunnel, LAST | BINARY, 0x80 | 126, zeros, 15); return WS_PROTOCOL_ERROR;
        case SIM_WS_LARGE: put_frame(tunnel, LAST | BINARY, UINT64_C(1) << 40, zeros, 9); return WS_TOO_LARGE;
        case SIM_WS_CLOSE_CODE: sim_ws_put(tunnel, LAST | CLOSE, "\x03\xed", 2); return WS_PROTOCOL_ERROR;
        case SIM_WS_CLOSE_SIZE: sim_ws_put(tunnel, LAST | CLOSE, zeros, 1); return WS_PROTOCOL_ERROR;
        case SIM_WS_CLOSE_TEXT: sim_ws_put(tunnel, LAST | CLOSE, "\x03\xe8\xff", 3); return WS_INVALID_DATA;
        case SIM_WS_UTF8: sim_ws_put(tunnel, TEXT, "a\xc0\x80", 3); return WS_INVALID_DATA;
        default: return put_packed_fault(tunnel, kind);
    }
}

/* And whatever follows it. */
static void offend(tunnel_t *tunnel, uint8_t kind) {
    tunnel->due = put_fault(tunnel, kind);
    for (uint32_t i = sim_below(&tunnel->client->random, 200); i > 0; i--)
        put_bytes(tunnel, &(char){(char)sim_random(&tunnel->client->random)}, 1);
}

/* --- steps of a script --- */

/* What a client of HTTP/1 sends is in client->out: it goes before all else. */
static void to_connection(tunnel_t *tunnel) {
    client_t *client = tunnel->client;
    sim_transport_out(client, tunnel->out, tunnel->out_size);
    tunnel->out_size = tunnel->out_at = 0;
    if (tunnel->due) client->wild = true;
}

void sim_ws_act(client_t *client, const op_t *op) {
    tunnel_t *tunnel = client->tunnels[op->tunnel];
    bool may = tunnel && (tunnel->open || (client->h2 && !tunnel->decided)) && !tunnel->ended;
    if (!may || tunnel->closing || tunnel->ends || tunnel->reset || tunnel->due) return;
    switch (op->kind) {
        case OP_MESSAGE: put_message(tunnel, op); break;
        case OP_PING: put_ping(tunnel); break;
        case OP_CLOSE: end(tunnel, op); break;
        default: offend(tunnel, op->raw);
    }
    if (client->h2)
        sim_h2_tunnel_acts(client, tunnel);
    else
        to_connection(tunnel);
}

bool sim_ws_owes(const client_t *client) {
    const tunnel_t *tunnel = client->tunnels[0];
    return !client->h2 && tunnel && tunnel->out_size > tunnel->out_at;
}

bool sim_ws_flush(client_t *client) {
    if (!sim_ws_owes(client)) return false;
    to_connection(client->tunnels[0]);
    return true;
}
