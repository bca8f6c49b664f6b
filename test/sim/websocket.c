/* Owns: what comes of a WebSocket, as its client may see it: one message for each of the client's, in their order, of
 * bytes of its tag; a pong for each ping; a close for a close; what an offence must bring. Subscribers get each
 * publication once, their own included, and those of one tunnel's loop in their order. And what the application may
 * see: one on_open and one on_close of each tunnel, with a code that its client knows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "websocket.h"

enum { COMPRESSIBLE_MIN = 1000 }; /* bytes */

/* Those of a tunnel are apart from the client's requests, and from other tunnels'. */
uint32_t sim_ws_tag(const tunnel_t *tunnel, uint32_t message) {
    return (tunnel->client->id << 8 | 0x80 | tunnel->number << 5 | message) + 0x1000;
}

/* --- what is awaited --- */

/* A publication that finds no thread, or a server that stops, ends the connection. */
static bool may_have_failed(const tunnel_t *tunnel) {
    return tunnel->topic && (!sim_threads_are_patient || sim_clients_have_stopped());
}

static bool is_quiet(const tunnel_t *tunnel) {
    if (!tunnel->open || tunnel->ended || tunnel->closes || tunnel->reset || tunnel->due || tunnel->stingy) return true;
    if (tunnel->topic && sim_failing) return true; /* a publication may be lost for want of memory */
    return tunnel->responded >= tunnel->asked && tunnel->pongs_seen >= tunnel->pongs_due;
}

bool sim_ws_quiet(const client_t *client) {
    for (uint32_t i = 0; i < TUNNELS_MAX; i++)
        if (client->tunnels[i] && !is_quiet(client->tunnels[i])) return false;
    return true;
}

bool sim_ws_any_open(const client_t *client) {
    for (uint32_t i = 0; i < TUNNELS_MAX; i++)
        if (client->tunnels[i] && client->tunnels[i]->open && !client->tunnels[i]->ended) return true;
    return false;
}

bool sim_ws_is_asked(const tunnel_t *tunnel) {
    return tunnel && !tunnel->decided;
}

bool sim_ws_is_open(const tunnel_t *tunnel) {
    return tunnel && !tunnel->ended;
}

bool sim_ws_any_ends(const client_t *client) {
    for (uint32_t i = 0; i < TUNNELS_MAX; i++) {
        const tunnel_t *tunnel = client->tunnels[i];
        if (tunnel && tunnel->open && !tunnel->ended && (tunnel->closing || tunnel->ends || tunnel->due)) return true;
    }
    return false;
}

uint64_t sim_ws_pending_ns(const client_t *client, uint32_t *tag) {
    for (uint32_t i = 0; i < TUNNELS_MAX; i++) {
        const tunnel_t *tunnel = client->tunnels[i];
        if (!tunnel || is_quiet(tunnel) || tunnel->responded >= tunnel->asked) continue;
        const message_t *message = &tunnel->messages[tunnel->responded];
        *tag = message->tag;
        if (message->sent_ns) return message->sent_ns;
    }
    return 0;
}

uint64_t sim_ws_outstanding(const client_t *client) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < TUNNELS_MAX; i++) {
        const tunnel_t *tunnel = client->tunnels[i];
        for (uint32_t at = tunnel ? tunnel->responded : 0; tunnel && at < tunnel->asked; at++)
            size += tunnel->messages[at].size;
    }
    return size;
}

/* --- ends --- */

/* The last response is streamed, and may be cut off by the client's own end. */
static bool ends_in_last(const tunnel_t *tunnel) {
    return !tunnel->topic && tunnel->responded + 1 == tunnel->asked &&
           SIM_WS_READS_ON(tunnel->messages[tunnel->responded].tag);
}

/* All that was sent before the client's own end has a response. Publications of threads may come too late. */
static void check_all_responded(const tunnel_t *tunnel) {
    if (tunnel->topic || sim_failing || tunnel->responded == tunnel->asked || ends_in_last(tunnel)) return;
    sim_fail("client %u: message %x of tunnel %u, sent before its end, has no response", tunnel->client->id,
             tunnel->messages[tunnel->responded].tag, tunnel->number);
}

/* The server's close frame. 0: without a code. */
static void check_code(tunnel_t *tunnel, uint16_t code) {
    bool own = tunnel->closing && code == tunnel->code, due = tunnel->due && code == tunnel->due;
    if (due) tunnel->punished = true;
    if (own || due)
        check_all_responded(tunnel);
    else if (!sim_failing && !(sim_clients_have_stopped() && code == WS_GOING_AWAY) &&
             !(code == WS_INTERNAL_ERROR && may_have_failed(tunnel)))
        sim_fail("client %u: tunnel %u: a close frame with code %u for no reason", tunnel->client->id, tunnel->number,
                 code);
}

bool sim_ws_is_cut(const tunnel_t *tunnel) {
    return tunnel->frames.head_have > 0 || (tunnel->frames.in_message && !tunnel->closes);
}

static void check_punished(const tunnel_t *tunnel) {
    if (tunnel->due && !tunnel->punished && !may_have_failed(tunnel) && !sim_failing && !sim_clients_have_stopped())
        sim_fail("client %u: tunnel %u: its offence did not bring a close frame with code %u", tunnel->client->id,
                 tunnel->number, tunnel->due);
}

/* END_STREAM, behind a close frame unless it is the reply to the client's own. */
void sim_ws_ended(tunnel_t *tunnel) {
    const client_t *client = tunnel->client;
    sim_trace("tunnel ends", client->id, tunnel->number);
    tunnel->ended = true;
    if (sim_failing || client->wild) return;
    if (sim_ws_is_cut(tunnel) && !(tunnel->half_ended && ends_in_last(tunnel)))
        sim_fail("client %u: tunnel %u ended inside of a message", client->id, tunnel->number);
    check_punished(tunnel);
    if (tunnel->closes) return;
    if (!tunnel->half_ended) sim_fail("client %u: tunnel %u ended without a close frame", client->id, tunnel->number);
    check_all_responded(tunnel);
}

/* By RST_STREAM of the server. is_slow: it gives no credit, or too much is kept for it. */
void sim_ws_was_reset(tunnel_t *tunnel, const char *error, bool is_slow) {
    const client_t *client = tunnel->client;
    sim_trace("tunnel reset", client->id, tunnel->number);
    tunnel->ended = true;
    if (!client->wild && !sim_failing && !is_slow)
        sim_fail("client %u: tunnel %u was reset: %s", client->id, tunnel->number, error);
}

/* excused: its connection may end. */
void sim_ws_connection_ended(client_t *client, bool reset, bool excused) {
    for (uint32_t i = 0; i < TUNNELS_MAX; i++) {
        tunnel_t *tunnel = client->tunnels[i];
        if (!tunnel || tunnel->ended) continue;
        tunnel->ended = true;
        if (!reset && tunnel->open && !client->h2 && !client->fin) check_punished(tunnel);
        if (tunnel->open && client->h2 && !excused && !client->wild && !sim_failing && !tunnel->reset)
            sim_fail("client %u: the connection ended before tunnel %u", client->id, i);
    }
}

/* --- what the application sees --- */

static tunnel_t *tunnel_of(uint32_t tag) {
    client_t *client = sim_client((tag - 0x1000) >> 8);
    for (uint32_t i = 0; client && i < TUNNELS_MAX; i++)
        if (client->tunnels[i] && client->tunnels[i]->tag == tag) return client->tunnels[i];
    sim_fail("the application has a WebSocket %x, which nobody has asked for", tag);
}

void sim_ws_app_opened(uint32_t tag) {
    tunnel_t *tunnel = tunnel_of(tag);
    if (tunnel->opened) sim_fail("on_open of %x is called twice", tag);
    tunnel->opened = true;
}

/* Whether it may be without a close frame, or behind one that had no reply in time. */
static bool may_be_abnormal(const tunnel_t *tunnel) {
    const client_t *client = tunnel->client;
    if (tunnel->due && may_have_failed(tunnel)) return true; /* the server had closed before */
    if (sim_edited_any_may_break(client)) return true;       /* a response in front of it was cut off */
    return client->done || client->wild || client->fin || tunnel->reset || tunnel->half_ended || tunnel->stingy ||
           sim_clients_have_stopped() || (client->h2 && (tunnel->ended || sim_h2_is_greedy(client)));
}

void sim_ws_app_closed(uint32_t tag, int code) {
    tunnel_t *tunnel = tunnel_of(tag);
    if (!tunnel->opened || tunnel->closed) sim_fail("on_close of %x without on_open", tag);
    tunnel->closed = true;
    sim_trace("on_close", tag, (uint64_t)code);
    bool own = tunnel->closing && code == (tunnel->code ? tunnel->code : WS_NO_CODE);
    if (own || (tunnel->due && code == tunnel->due) || sim_failing) return;
    if (code != WS_ABNORMAL || !may_be_abnormal(tunnel)) sim_fail("on_close of %x has code %d", tag, code);
}

void sim_ws_check_end(const client_t *client) {
    for (uint32_t i = 0; i < TUNNELS_MAX; i++) {
        const tunnel_t *tunnel = client->tunnels[i];
        if (tunnel && tunnel->opened != tunnel->closed) sim_fail("on_close of %x is missing", tunnel->tag);
        if (tunnel && tunnel->open && !tunnel->opened) sim_fail("on_open of %x is missing", tunnel->tag);
    }
}

/* --- control frames --- */

static void owe(tunnel_t *tunnel, unsigned opcode, const void *data, size_t size) {
    client_t *client = tunnel->client;
    if (tunnel->ends || tunnel->reset) return;
    if (tunnel->out_size - tunnel->out_at > OWED_MAX && !client->wild && !client->h2)
        sim_fail("client %u: a flood of control frames", client->id);
    sim_ws_put(tunnel, LAST | opcode, data, size);
}

static void take_pong(tunnel_t *tunnel) {
    const frames_t *frames = &tunnel->frames;
    char text[16];
    for (uint32_t ping = tunnel->pongs_seen; ping < tunnel->pings_sent; ping++) {
        int size = snprintf(text, sizeof text, "ping %u", ping);
        if (frames->control_have != (uint32_t)size || memcmp(frames->control, text, (size_t)size) != 0) continue;
        tunnel->pongs_seen = ping + 1;
        return;
    }
    sim_fail("client %u: this is no pong of a ping that waits for one", tunnel->client->id);
}

static void take_close(tunnel_t *tunnel) {
    const frames_t *frames = &tunnel->frames;
    uint16_t code = frames->control_have < 2 ? 0 : (uint16_t)(frames->control[0] << 8 | frames->control[1]);
    check_code(tunnel, code);
    if (!tunnel->closing) {
        owe(tunnel, CLOSE, frames->control, frames->control_have);
        tunnel->closing = true;
        tunnel->code = code;
    }
    tunnel->closes = true;
    if (!tunnel->client->h2) tunnel->client->closes = true;
}

static void control_ended(tunnel_t *tunnel) {
    const frames_t *frames = &tunnel->frames;
    sim_trace("control frame", tunnel->client->id, frames->opcode);
    if (frames->opcode == PING)
        owe(tunnel, PONG, frames->control, frames->control_have);
    else if (frames->opcode == PONG)
        take_pong(tunnel);
    else
        take_close(tunnel);
}

/* --- messages --- */

/* Its tag says which tunnel has published it, and which of its publications it is. */
static void publication_ended(tunnel_t *tunnel) {
    const frames_t *frames = &tunnel->frames;
    const client_t *client = tunnel->client;
    uint32_t tag = sim_get32(frames->publication), size = sim_get32(frames->publication + 4);
    uint32_t from = (tag - 0x1000) >> 8, low = tag & 0xff, number = low & 31;
    if (frames->message_at < 8 || frames->message_at - 8 != size || from >= sim_world_clients() || low < 0x80)
        sim_fail("client %u: a publication %x of %u bytes with %llu", client->id, tag, size,
                 (unsigned long long)frames->message_at);
    seen_t *seen = &tunnel->seen[from * TUNNELS_MAX + (low >> 5 & 3)];
    if (seen->numbers >> number & 1) sim_fail("client %u: publication %x for a second time", client->id, tag);
    seen->numbers |= 1u << number;
    if (!SIM_PUBLISHED_BY_THREAD(tag)) {
        if ((int)number < seen->last) sim_fail("client %u: publication %x is late", client->id, tag);
        for (int lost = seen->last + 1; seen->last != SEEN_NONE && lost < (int)number; lost++)
            if (!SIM_PUBLISHED_BY_THREAD(tag - number + (uint32_t)lost) && !sim_failing)
                sim_fail("client %u: publication %x without %x", client->id, tag, tag - number + (uint32_t)lost);
        seen->last = (int)number;
    }
    sim_trace("publication", client->id, tag);
    if (tag == sim_ws_tag(tunnel, number)) tunnel->responded++;
}

/* What does not become smaller is sent as it is, what can become smaller is compressed, unless it has waited behind a
 * message that was streamed. */
static void check_compressed(const tunnel_t *tunnel, uint32_t tag) {
    const frames_t *frames = &tunnel->frames;
    if (frames->compressed && frames->wire_size >= frames->message_at)
        sim_fail("client %u: a message of %llu bytes is compressed to %llu", tunnel->client->id,
                 (unsigned long long)frames->message_at, (unsigned long long)frames->wire_size);
    bool waited = tunnel->responded > 0 && SIM_WS_READS_ON(tunnel->messages[tunnel->responded - 1].tag);
    bool may = tunnel->deflate && !tunnel->topic && !SIM_WS_IS_STREAMED(tag) && tag % 7 != 0 && !waited;
    if (may && !frames->compressed && frames->message_at >= COMPRESSIBLE_MIN && !sim_failing &&
        frames->message_at >= sim_ws.size_min)
        sim_fail("client %u: the message for %x, of %llu bytes, is not compressed", tunnel->client->id, tag,
                 (unsigned long long)frames->message_at);
}

static void message_ended(tunnel_t *tunnel) {
    frames_t *frames = &tunnel->frames;
    const message_t *message = &tunnel->messages[tunnel->responded];
    if (!tunnel->topic && frames->message_at != message->size)
        sim_fail("client %u: the message for %x has %llu bytes instead of %u", tunnel->client->id, message->tag,
                 (unsigned long long)frames->message_at, message->size);
    if (frames->compressed) sim_ws_inflate_end(tunnel);
    check_compressed(tunnel, message->tag);
    if (tunnel->topic) {
        publication_ended(tunnel);
    } else {
        sim_trace("message", tunnel->client->id, message->size);
        tunnel->responded++;
    }
    frames->in_message = frames->compressed = false;
    frames->message_at = frames->wire_size = 0;
}

/* --- frames --- */

static void frame_ended(tunnel_t *tunnel) {
    frames_t *frames = &tunnel->frames;
    frames->head_have = 0;
    if (frames->opcode >= CLOSE)
        control_ended(tunnel);
    else if (frames->last)
        message_ended(tunnel);
    frames->control_have = 0;
}

static void head_ended(tunnel_t *tunnel) {
    frames_t *frames = &tunnel->frames;
    const uint32_t id = tunnel->client->id;
    frames->opcode = frames->head[0] & 15;
    frames->last = frames->head[0] & LAST;
    frames->left = frames->head[1];
    if (frames->head_size > 2) frames->left = 0;
    for (uint32_t i = 2; i < frames->head_size; i++) frames->left = frames->left << 8 | frames->head[i];
    bool control = frames->opcode >= CLOSE, data = frames->opcode <= BINARY;
    bool begins = frames->opcode == TEXT || frames->opcode == BINARY;
    if ((frames->head[0] & 0x70 & ~(begins && tunnel->deflate ? COMPRESSED : 0)) || !(control || data) ||
        frames->opcode > PONG)
        sim_fail("client %u: a frame that begins with %02x", id, frames->head[0]);
    if (tunnel->closes) sim_fail("client %u: a frame behind a close frame", id);
    if (control && (frames->left > 125 || !frames->last)) sim_fail("client %u: a long control frame", id);
    if (data && (frames->opcode == CONTINUATION) != frames->in_message)
        sim_fail("client %u: a frame in the wrong place of a message", id);
    if (data && tunnel->responded == tunnel->asked && !tunnel->topic)
        sim_fail("client %u: a message that nobody has asked for", id);
    if (begins) frames->compressed = frames->head[0] & COMPRESSED;
    if (data) frames->wire_size += frames->left;
    if (data) frames->in_message = true;
    if (frames->left == 0) frame_ended(tunnel);
}

static void take_head_byte(tunnel_t *tunnel, char byte) {
    frames_t *frames = &tunnel->frames;
    frames->head[frames->head_have++] = (unsigned char)byte;
    if (frames->head_have == 1) frames->head_size = 2;
    if (frames->head_have == 2 && (frames->head[1] & 0x80)) sim_fail("client %u: a masked frame", tunnel->client->id);
    if (frames->head_have == 2) frames->head_size = frames->head[1] == 127 ? 10 : frames->head[1] == 126 ? 4 : 2;
    if (frames->head_have == frames->head_size) head_ended(tunnel);
}

void sim_ws_payload(tunnel_t *tunnel, const char *data, size_t size) {
    frames_t *frames = &tunnel->frames;
    for (; tunnel->topic && size > 0 && frames->message_at < 8; data++, size--)
        frames->publication[frames->message_at++] = *data;
    uint32_t tag = tunnel->topic ? sim_get32(frames->publication) : tunnel->messages[tunnel->responded].tag;
    uint64_t at = frames->message_at - (tunnel->topic ? 8 : 0);
    size_t wrong = size > 0 ? sim_ws_mismatch(data, tag, at, size) : size;
    if (wrong < size)
        sim_fail("client %u: byte %llu of the message for %x is wrong", tunnel->client->id,
                 (unsigned long long)(at + wrong), tag);
    frames->message_at += size;
}

static size_t take_some(tunnel_t *tunnel, const char *data, size_t size) {
    frames_t *frames = &tunnel->frames;
    if (frames->left == 0) {
        take_head_byte(tunnel, *data);
        return 1;
    }
    size_t part = frames->left < size ? (size_t)frames->left : size;
    if (frames->opcode >= CLOSE) {
        memcpy(frames->control + frames->control_have, data, part);
        frames->control_have += (uint32_t)part;
    } else if (frames->compressed) {
        sim_ws_inflate(tunnel, data, part);
    } else {
        sim_ws_payload(tunnel, data, part);
    }
    frames->left -= part;
    if (frames->left == 0) frame_ended(tunnel);
    return part;
}

void sim_ws_take(tunnel_t *tunnel, const char *data, size_t size) {
    for (size_t at = 0; at < size;) at += take_some(tunnel, data + at, size - at);
}
