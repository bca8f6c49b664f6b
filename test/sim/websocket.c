/* Owns: WebSocket as a client speaks it, and the model of what the server sends: one message for each of the client's,
 * in their order, of bytes of its tag; a pong for each ping; a close for a close. Subscribers get each publication
 * once, their own included, and those of one loop in their order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

enum { CONTINUATION = 0, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10, LAST = 0x80 };

static request_t *next_request(client_t *client, uint32_t size) {
    if (client->asked == REQUESTS_MAX) return NULL;
    request_t *request = &client->requests[client->asked];
    *request = (request_t){.tag = (client->id << 8 | client->asked) + 0x1000, .size = size, .status = 200};
    client->asked++;
    return request;
}

static void start_out(client_t *client, size_t capacity) {
    free(client->out);
    client->out = malloc(capacity);
    if (!client->out) abort();
    client->out_size = client->out_at = 0;
}

void sim_ws_upgrade(client_t *client, const op_t *op) {
    request_t *request = next_request(client, 0);
    if (!request) return;
    request->upgrade = true;
    client->frames.topic = op->topic;
    if (op->topic && !client->frames.seen) {
        client->frames.seen = malloc(sim_world_clients() * sizeof(seen_t));
        if (!client->frames.seen) abort();
        for (uint32_t i = 0; i < sim_world_clients(); i++) client->frames.seen[i] = (seen_t){.last = -1};
        client->frames.seen[client->id].last = (int)client->asked - 1; /* what follows is published */
    }
    start_out(client, 512);
    client->out_size =
        (size_t)sprintf(client->out,
                        "GET %s HTTP/1.1\r\nHost: sim\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                        op->topic ? "/topic" : "/ws");
    sim_transport_encode(client);
}

/* A frame of a client is masked (RFC 6455 section 5.3). */
static size_t put_frame(client_t *client, char *out, unsigned first, const char *data, size_t size) {
    unsigned char *at = (unsigned char *)out, mask[4];
    *at++ = (unsigned char)first;
    if (size < 126) {
        *at++ = (unsigned char)(0x80 | size);
    } else if (size < 65536) {
        *at++ = 0x80 | 126;
        *at++ = (unsigned char)(size >> 8);
        *at++ = (unsigned char)size;
    } else {
        *at++ = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8) *at++ = (unsigned char)(size >> shift);
    }
    for (int i = 0; i < 4; i++) *at++ = mask[i] = (unsigned char)sim_random(&client->random);
    for (size_t i = 0; i < size; i++) *at++ = (unsigned char)((unsigned char)data[i] ^ mask[i & 3]);
    return (size_t)(at - (unsigned char *)out);
}

/* The tag, the size of the response, and `body` bytes of what this client sends, in some frames. */
void sim_ws_message(client_t *client, const op_t *op) {
    const request_t *request = next_request(client, op->size);
    if (!request) return;
    size_t size = 8 + (size_t)op->body;
    char *message = malloc(size);
    if (!message) abort();
    sim_put32(message, request->tag);
    sim_put32(message + 4, op->size);
    sim_fill(message + 8, SIM_REQUEST_TAG(request->tag), 0, op->body);
    start_out(client, size + 16 * (size_t)op->frames);
    for (size_t done = 0, frame = 0; frame < op->frames; frame++) {
        bool last = frame + 1 == op->frames;
        size_t part = last ? size - done : sim_below(&client->random, (uint32_t)(size - done + 1));
        unsigned first = (frame == 0 ? BINARY : CONTINUATION) | (last ? LAST : 0);
        client->out_size += put_frame(client, client->out + client->out_size, first, message + done, part);
        done += part;
    }
    free(message);
    sim_transport_encode(client);
}

/* While messages are on their way the server may leave a pong out (RFC 6455 section 5.5.3). */
void sim_ws_ping(client_t *client) {
    char text[16];
    if (client->responded == client->asked) client->frames.pongs_due = client->frames.pings_sent + 1;
    int size = snprintf(text, sizeof text, "ping %u", client->frames.pings_sent++);
    start_out(client, 64);
    client->out_size = put_frame(client, client->out, LAST | PING, text, (size_t)size);
    sim_transport_encode(client);
}

void sim_ws_close(client_t *client) {
    start_out(client, 64);
    client->out_size = put_frame(client, client->out, LAST | CLOSE, "\x03\xe8", 2);
    client->frames.closing = true;
    sim_transport_encode(client);
}

bool sim_ws_quiet(const client_t *client) {
    return client->frames.pongs_seen >= client->frames.pongs_due;
}

/* --- what comes --- */

static void owe(client_t *client, unsigned opcode, const void *data, size_t size) {
    if (client->control_size + size + 16 > CONTROL_MAX) sim_fail("client %u: a flood of control frames", client->id);
    client->control_size += put_frame(client, client->control + client->control_size, LAST | opcode, data, size);
}

static void take_pong(client_t *client) {
    frames_t *frames = &client->frames;
    char text[16];
    for (uint32_t ping = frames->pongs_seen; ping < frames->pings_sent; ping++) {
        int size = snprintf(text, sizeof text, "ping %u", ping);
        if (frames->control_have != (uint32_t)size || memcmp(frames->control, text, (size_t)size) != 0) continue;
        frames->pongs_seen = ping + 1;
        return;
    }
    sim_fail("client %u: this is no pong of a ping that waits for one", client->id);
}

static void control_ended(client_t *client) {
    frames_t *frames = &client->frames;
    sim_trace("control frame", client->id, frames->opcode);
    if (frames->opcode == PING) {
        owe(client, PONG, frames->control, frames->control_have);
    } else if (frames->opcode == PONG) {
        take_pong(client);
    } else {
        if (!frames->closing) owe(client, CLOSE, frames->control, frames->control_have);
        frames->closing = client->closes = true;
    }
}

/* Its tag says who has published it, and which of his it is. */
static void publication_ended(client_t *client) {
    frames_t *frames = &client->frames;
    uint32_t tag = sim_get32(frames->publication), size = sim_get32(frames->publication + 4);
    uint32_t publisher = (tag - 0x1000) >> 8, number = tag & 0xff;
    if (frames->message_at < 8 || frames->message_at - 8 != size || publisher >= sim_world_clients() ||
        number >= REQUESTS_MAX)
        sim_fail("client %u: a publication %x of %u bytes with %llu", client->id, tag, size,
                 (unsigned long long)frames->message_at);
    seen_t *seen = &frames->seen[publisher];
    if (seen->numbers >> number & 1) sim_fail("client %u: publication %x for a second time", client->id, tag);
    seen->numbers |= 1u << number;
    if (!SIM_PUBLISHED_BY_THREAD(tag)) {
        if ((int)number < seen->last) sim_fail("client %u: publication %x is late", client->id, tag);
        for (int lost = seen->last + 1; seen->last >= 0 && lost < (int)number; lost++)
            if (!SIM_PUBLISHED_BY_THREAD(tag - number + (uint32_t)lost) && !sim_failing)
                sim_fail("client %u: publication %x without %x", client->id, tag, tag - number + (uint32_t)lost);
        seen->last = (int)number;
    }
    sim_trace("publication", client->id, tag);
    if (publisher == client->id) client->responded++;
    frames->in_message = false;
    frames->message_at = 0;
}

static void message_ended(client_t *client) {
    if (client->frames.topic) {
        publication_ended(client);
        return;
    }
    const request_t *request = &client->requests[client->responded];
    if (client->frames.message_at != request->size)
        sim_fail("client %u: the message for %x has %llu bytes instead of %u", client->id, request->tag,
                 (unsigned long long)client->frames.message_at, request->size);
    sim_trace("message", client->id, request->size);
    client->responded++;
    client->frames.in_message = false;
    client->frames.message_at = 0;
}

static void frame_ended(client_t *client) {
    frames_t *frames = &client->frames;
    frames->head_have = 0;
    if (frames->opcode >= CLOSE)
        control_ended(client);
    else if (frames->last)
        message_ended(client);
    frames->control_have = 0;
}

static void head_ended(client_t *client) {
    frames_t *frames = &client->frames;
    frames->opcode = frames->head[0] & 15;
    frames->last = frames->head[0] & LAST;
    frames->left = frames->head[1];
    if (frames->head_size > 2) frames->left = 0;
    for (uint32_t i = 2; i < frames->head_size; i++) frames->left = frames->left << 8 | frames->head[i];
    bool control = frames->opcode >= CLOSE, data = frames->opcode <= BINARY;
    if ((frames->head[0] & 0x70) || !(control || data) || frames->opcode > PONG)
        sim_fail("client %u: a frame that begins with %02x", client->id, frames->head[0]);
    if (client->closes) sim_fail("client %u: a frame behind a close frame", client->id);
    if (control && (frames->left > 125 || !frames->last)) sim_fail("client %u: a long control frame", client->id);
    if (data && (frames->opcode == CONTINUATION) != frames->in_message)
        sim_fail("client %u: a frame in the wrong place of a message", client->id);
    if (data && client->responded == client->asked && !frames->topic)
        sim_fail("client %u: a message that nobody has asked for", client->id);
    if (data) frames->in_message = true;
    if (frames->left == 0) frame_ended(client);
}

static void take_head_byte(client_t *client, char byte) {
    frames_t *frames = &client->frames;
    frames->head[frames->head_have++] = (unsigned char)byte;
    if (frames->head_have == 1) frames->head_size = 2;
    if (frames->head_have == 2 && (frames->head[1] & 0x80)) sim_fail("client %u: a masked frame", client->id);
    if (frames->head_have == 2) frames->head_size = frames->head[1] == 127 ? 10 : frames->head[1] == 126 ? 4 : 2;
    if (frames->head_have == frames->head_size) head_ended(client);
}

static void take_payload(client_t *client, const char *data, size_t size) {
    frames_t *frames = &client->frames;
    if (frames->opcode >= CLOSE) {
        memcpy(frames->control + frames->control_have, data, size);
        frames->control_have += (uint32_t)size;
        return;
    }
    for (; frames->topic && size > 0 && frames->message_at < 8; data++, size--)
        frames->publication[frames->message_at++] = *data;
    uint32_t tag = frames->topic ? sim_get32(frames->publication) : client->requests[client->responded].tag;
    uint64_t at = frames->message_at - (frames->topic ? 8 : 0);
    size_t wrong = size > 0 ? sim_mismatch(data, tag, at, size) : size;
    if (wrong < size)
        sim_fail("client %u: byte %llu of the message for %x is wrong", client->id, (unsigned long long)(at + wrong),
                 tag);
    frames->message_at += size;
}

size_t sim_ws_take(client_t *client, const char *data, size_t size) {
    frames_t *frames = &client->frames;
    if (frames->left == 0) {
        take_head_byte(client, *data);
        return 1;
    }
    size_t part = frames->left < size ? (size_t)frames->left : size;
    take_payload(client, data, part);
    frames->left -= part;
    if (frames->left == 0) frame_ended(client);
    return part;
}
