/* Owns: flow control as a client of HTTP/2 sees it (RFC 9113 section 5.2): both windows of both directions, of the
 * connection and of each stream, to the byte. The server must not send more than it was given, must not give more than
 * it is configured to take, and gives all of it back: when all streams have ended, what it owes is less than half a
 * window, and a body that makes it half a window brings back exactly all of it. */
#include <stdlib.h>
#include <string.h>

#include "http2.h"

uint32_t sim_h2_connection_window, sim_h2_stream_window;

static long long number(int64_t value) {
    return (long long)value;
}

void sim_h2_credit_init(client_t *client, uint32_t window) {
    struct sim_h2 *h2 = client->h2;
    h2->send_window = h2->receive_window = UVHTTP__HTTP2_WINDOW_DEFAULT;
    h2->server_window = UVHTTP__HTTP2_WINDOW_DEFAULT;
    h2->window = UVHTTP__HTTP2_WINDOW_DEFAULT;
    h2->pending[h2->pending_count++] = window;
    h2->give_when = (give_when_t)sim_below(&client->plan, 3);
    bool heavily = sim_one_in(&client->plan, 6); /* more padding than body */
    h2->pads = heavily ? 1 : sim_one_in(&client->plan, 3) ? 2 : 0;
    h2->piece_max = heavily ? 100 : 16000;
    if (heavily && client->delay_max_us > 3000) client->delay_max_us = 3000; /* or it is below min_receive_rate */
    h2->probes = sim_one_in(&client->plan, 2);
    h2->never_gives = window == 0;
}

/* The preface, whose SETTINGS the server reads first, precedes each stream. */
void sim_h2_credit_open(struct sim_h2 *h2, stream_t *stream) {
    stream->send_window = h2->server_window;
    stream->receive_window = h2->window;
}

/* --- what it may send --- */

uint32_t sim_h2_capacity(const struct sim_h2 *h2, const stream_t *stream) {
    int64_t capacity = stream->send_window < h2->send_window ? stream->send_window : h2->send_window;
    return capacity <= 0                             ? 0
           : capacity < UVHTTP__HTTP2_FRAME_SIZE_MAX ? (uint32_t)capacity
                                                     : UVHTTP__HTTP2_FRAME_SIZE_MAX;
}

void sim_h2_data_sent(struct sim_h2 *h2, stream_t *stream, uint32_t size) {
    h2->send_window -= size;
    stream->send_window -= size;
}

static void connection_window_came(client_t *client, uint32_t increment) {
    struct sim_h2 *h2 = client->h2;
    h2->send_window += increment;
    if (h2->send_window > sim_h2_connection_window)
        sim_fail("client %u: the server takes %lld bytes on the connection, %u at most", client->id,
                 number(h2->send_window), sim_h2_connection_window);
}

void sim_h2_window_came(client_t *client, uint32_t id, uint32_t increment) {
    struct sim_h2 *h2 = client->h2;
    sim_trace("window", client->id, (uint64_t)id << 32 | increment);
    if (increment == 0 || increment > UVHTTP__HTTP2_WINDOW_MAX)
        sim_fail("client %u: WINDOW_UPDATE by %u", client->id, increment);
    h2->starved_ns = 0;
    if (id == 0 && !h2->lawless) connection_window_came(client, increment);
    if (id == 0 || h2->lawless) return;
    if (!(id & 1) || id / 2 >= client->asked) {
        if (!client->wild) sim_fail("client %u: WINDOW_UPDATE of stream %u, which it has not opened", client->id, id);
        return;
    }
    stream_t *stream = &h2->streams[id / 2];
    stream->send_window += increment;
    if (stream->send_window > h2->server_window)
        sim_fail("client %u: the server takes %lld bytes on stream %u, %u at most", client->id,
                 number(stream->send_window), id, h2->server_window);
}

static void server_window_came(client_t *client, uint32_t window) {
    struct sim_h2 *h2 = client->h2;
    if (window != sim_h2_stream_window)
        sim_fail("client %u: the server announces a window of %u, %u is configured", client->id, window,
                 sim_h2_stream_window);
    for (uint32_t i = 0; i < client->asked; i++) h2->streams[i].send_window += (int64_t)window - h2->server_window;
    h2->server_window = window;
}

void sim_h2_settings_came(client_t *client, const char *payload, uint32_t size) {
    for (uint32_t at = 0; at + 6 <= size; at += 6) {
        uint32_t value = uvhttp__http2_get32(payload + at + 2);
        if (payload[at] == 0 && payload[at + 1] == 4) server_window_came(client, value);
        if (payload[at] == 0 && payload[at + 1] == 8) client->h2->connects = value == 1;
    }
    client->h2->heard = true;
    client->h2->starved_ns = 0;
}

/* --- what the server may send --- */

void sim_h2_data_came(client_t *client, stream_t *stream, uint32_t id, uint32_t size) {
    struct sim_h2 *h2 = client->h2;
    if (h2->lawless) return;
    h2->receive_window -= size;
    h2->credit += size;
    if (h2->receive_window < 0)
        sim_fail("client %u: DATA of stream %u exceeds the window of the connection by %lld", client->id, id,
                 number(-h2->receive_window));
    if (!stream) return;
    stream->receive_window -= size;
    stream->credit += size;
    if (size > 0 && stream->receive_window < 0)
        sim_fail("client %u: DATA exceeds the window of stream %u by %lld", client->id, id,
                 number(-stream->receive_window));
}

/* From now on the server keeps to the oldest SETTINGS that were not acknowledged. */
void sim_h2_settings_acked(client_t *client) {
    struct sim_h2 *h2 = client->h2;
    if (h2->lawless) return;
    if (h2->pending_count == 0) {
        if (!client->wild) sim_fail("client %u: SETTINGS are acknowledged that were not sent", client->id);
        return;
    }
    int64_t change = (int64_t)h2->pending[0] - h2->window;
    h2->window = h2->pending[0];
    memmove(h2->pending, h2->pending + 1, --h2->pending_count * sizeof *h2->pending);
    for (uint32_t i = 0; i < client->asked; i++) h2->streams[i].receive_window += change;
}

void sim_h2_settings(client_t *client, const op_t *op) {
    struct sim_h2 *h2 = client->h2;
    char setting[6] = {0, 4};
    uvhttp__http2_put32(setting + 2, op->size);
    if (h2->pending_count == PENDING_MAX) return;
    if (sim_h2_owe(client, UVHTTP__HTTP2_SETTINGS, 0, 0, setting, 6)) h2->pending[h2->pending_count++] = op->size;
}

static bool is_due(const struct sim_h2 *h2, int64_t left, uint32_t credit, uint32_t window) {
    if (credit == 0) return false;
    if (h2->give_when == AT_ONCE || left <= 0) return true;
    return h2->give_when == WHEN_HALF && 2 * credit >= window;
}

static void give(client_t *client, uint32_t id, int64_t *window, uint32_t *credit) {
    char increment[4];
    uvhttp__http2_put32(increment, *credit);
    if (!sim_h2_owe(client, UVHTTP__HTTP2_WINDOW_UPDATE, 0, id, increment, 4)) return;
    *window += *credit;
    *credit = 0;
}

void sim_h2_credit(client_t *client) {
    struct sim_h2 *h2 = client->h2;
    if (h2->never_gives) return;
    if (is_due(h2, h2->receive_window, h2->credit, UVHTTP__HTTP2_WINDOW_DEFAULT))
        give(client, 0, &h2->receive_window, &h2->credit);
    for (uint32_t i = 0; i < client->asked; i++) {
        stream_t *stream = &h2->streams[i];
        if (stream->tunnel && stream->tunnel->stingy) continue;
        if (!stream->done && is_due(h2, stream->receive_window, stream->credit, h2->window))
            give(client, 2 * i + 1, &stream->receive_window, &stream->credit);
    }
}

/* --- nobody waits for credit forever --- */

uint64_t sim_h2_starves_ns(const client_t *client) {
    const struct sim_h2 *h2 = client->h2;
    return h2 && h2->starved_ns ? h2->starved_ns + SIM_CREDIT_S * 1000 * SIM_MS : SIM_NEVER;
}

void sim_h2_check_starved(client_t *client, bool starved) {
    struct sim_h2 *h2 = client->h2;
    if (!starved || client->wild)
        h2->starved_ns = 0;
    else if (h2->starved_ns == 0)
        h2->starved_ns = sim_now_ns;
    else if (sim_h2_starves_ns(client) <= sim_now_ns && !sim_failing)
        sim_fail("client %u: %u s without credit for a body: %lld on the connection", client->id, SIM_CREDIT_S,
                 number(h2->send_window));
}

/* --- at rest: all has come back --- */

/* What the server has not returned, of all that was sent. */
static int64_t owed(const struct sim_h2 *h2) {
    return (int64_t)sim_h2_connection_window - h2->send_window;
}

static int64_t batch(void) {
    return sim_h2_connection_window / 2;
}

static void ping(client_t *client, settling_t then) {
    if (sim_h2_owe(client, UVHTTP__HTTP2_PING, 0, 0, "settling", 8)) client->h2->settling = then;
}

/* All that was sent before the PING was read, and the streams have ended. */
static void check_rest(client_t *client) {
    struct sim_h2 *h2 = client->h2;
    if (owed(h2) >= batch())
        sim_fail("client %u: all streams have ended, and %lld bytes of credit are missing", client->id,
                 number(owed(h2)));
    bool can = h2->probes && sim_h2_connection_window <= SIM_PROBED_WINDOW_MAX && sim_h2_may_ask(client);
    h2->settling = can ? PROBING : SETTLED;
    if (can) sim_h2_probe(client, (uint32_t)(batch() - owed(h2)));
}

void sim_h2_ping_acked(client_t *client) {
    struct sim_h2 *h2 = client->h2;
    bool counts = !client->wild && !sim_failing && h2->heard;
    if (h2->settling == PINGED) {
        h2->settling = counts ? AT_REST : SETTLED;
    } else if (h2->settling == PINGED_AGAIN) {
        h2->settling = SETTLED;
        if (counts && h2->last_id == UINT32_MAX && owed(h2) != 0)
            sim_fail("client %u: %lld bytes of credit are missing behind half a window", client->id, number(owed(h2)));
    } else if (!client->wild) {
        sim_fail("client %u: a PONG came for a PING that was not sent", client->id);
    }
}

bool sim_h2_settle(client_t *client) {
    struct sim_h2 *h2 = client->h2;
    if (!h2) return true;
    bool quiet = client->responded == client->asked && !sim_h2_sends(client) && client->out_at >= client->out_size;
    if (!quiet || sim_ws_any_ends(client)) return false;
    if (h2->settling == NOT_YET && sim_ws_any_open(client)) h2->settling = SETTLED;
    switch (h2->settling) {
        case NOT_YET: ping(client, PINGED); break;
        case AT_REST: check_rest(client); break;
        case PROBING: ping(client, PINGED_AGAIN); break;
        default: break;
    }
    return h2->settling == SETTLED;
}
