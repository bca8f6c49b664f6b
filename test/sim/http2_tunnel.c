/* Owns: WebSocket tunnels on streams of HTTP/2 (RFC 8441) as their client sees them: how they are asked for, and how
 * their ends are those of streams. What is in them is websocket.c's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http2.h"

bool sim_h2_has_settings(const client_t *client) {
    return client->h2->heard;
}

static size_t put_connect(const tunnel_t *tunnel, char *block) {
    char path[64], *end = block;
    snprintf(path, sizeof path, "/%s/%x", sim_ws_route(tunnel), tunnel->tag);
    *end++ = 0x02;
    sim_h2_put_string(&end, "CONNECT");
    sim_h2_put_field(&end, ":protocol", "websocket");
    *end++ = (char)(tunnel->client->transport.tls ? 0x87 : 0x86);
    *end++ = 0x04;
    sim_h2_put_string(&end, path);
    *end++ = 0x41;
    sim_h2_put_string(&end, "sim");
    sim_h2_put_field(&end, "sec-websocket-version", "13");
    if (*tunnel->offer.text) sim_h2_put_field(&end, "sec-websocket-extensions", tunnel->offer.text);
    return (size_t)(end - block);
}

void sim_h2_connect(client_t *client, const op_t *op) {
    struct sim_h2 *h2 = client->h2;
    if (!sim_h2_may_ask(client) || client->tunnels[op->tunnel]) return;
    if (!h2->connects) sim_fail("client %u: the server does not support extended CONNECT", client->id);
    uint32_t at = client->asked, tag = (client->id << 8 | at) + 0x1000;
    h2->streams[at] = (stream_t){.cut_at = UINT32_MAX, .tunnel = sim_ws_new(client, op, tag)};
    sim_h2_credit_open(h2, &h2->streams[at]);
    char frame[FRAME_HEAD_SIZE + 512];
    writer_t out = {frame, 0};
    size_t size = put_connect(h2->streams[at].tunnel, frame + FRAME_HEAD_SIZE);
    (void)sim_h2_put_frame(&out, size, UVHTTP__HTTP2_HEADERS, UVHTTP__HTTP2_FLAG_END_HEADERS, 2 * at + 1);
    sim_transport_out(client, frame, out.size);
    client->requests[at] = (request_t){.tag = tag, .status = 200, .upgrade = true};
    sim_metrics_asked(&client->requests[at], 0, 0);
    client->asked++;
}

static stream_t *stream_of(const client_t *client, const tunnel_t *tunnel) {
    for (uint32_t i = 0; i < client->asked; i++)
        if (client->h2->streams[i].tunnel == tunnel) return &client->h2->streams[i];
    abort();
}

/* A reset follows some of the bytes that wait. */
void sim_h2_tunnel_acts(client_t *client, tunnel_t *tunnel) {
    stream_t *stream = stream_of(client, tunnel);
    client->blocked = false;
    if (!tunnel->reset || stream->done) return;
    uint32_t waiting = (uint32_t)(tunnel->out_size - tunnel->out_at);
    stream->cut_at = stream->body_at + sim_below(&client->random, waiting + 1);
}

/* The response: 200 means that it is open. Other statuses are those of a request. */
bool sim_h2_tunnel_opens(stream_t *stream, int status, const char *extension, bool ends) {
    tunnel_t *tunnel = stream->tunnel;
    if (status != 200) {
        tunnel->decided = tunnel->ended = true;
        return false;
    }
    if (ends) sim_fail("client %u: a tunnel that has no body", tunnel->client->id);
    sim_ws_opened(tunnel, extension);
    return true;
}

/* Nothing that it still sends is of use: most end their half, now or behind what waits; some leave that to the server.
 */
void sim_h2_tunnel_ended(client_t *client, stream_t *stream) {
    tunnel_t *tunnel = stream->tunnel;
    sim_ws_ended(tunnel);
    stream->done = true;
    if (sim_one_in(&client->random, 8)) stream->ended = true;
    if (!sim_one_in(&client->random, 4)) tunnel->out_size = tunnel->out_at = 0;
    tunnel->ends = true;
}
