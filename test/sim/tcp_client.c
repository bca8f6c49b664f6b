/* Owns: clients of connections of bytes, and the model of what they may see: frames of each sender in their order, all
 * of what was accepted before a regular end, and no end without a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcp.h"

enum {
    SLACK_MS = 200,           /* of the server's timers */
    DEAF_S = 20,              /* rate_grace, and what was acknowledged before */
    MORE_THAN_QUEUED = 70000, /* bytes that the kernel does not hold */
    LINGERS_S = 40,           /* at most, whatever the client sends */
    CLOSE_S = 28,             /* the server waits for who has to read its end */
};

/* --- what they send --- */

static void start_out(client_t *client, size_t capacity) {
    free(client->out);
    client->out = malloc(capacity + 1);
    if (!client->out) abort();
    client->out_size = client->out_at = 0;
}

static void put_bytes(client_t *client, uint32_t size) {
    sim_fill(client->out + client->out_size, SIM_REQUEST_TAG(client->tcp.tag), client->tcp.sent, size);
    client->out_size += size;
    client->tcp.sent += size;
}

void sim_tcp_open(client_t *client) {
    client->state = RAW;
    client->tcp.direct = true;
    client->tcp.tag = 0x1000 + (client->id << 8);
    client->transport.proxy = false;
    client->transport.port = (uint16_t)(SIM_TCP_PORT + (client->transport.tls ? SIM_PORT_TLS : 0));
}

/* `body` bytes of the new protocol are right behind the head. */
void sim_tcp_upgrade(client_t *client, const op_t *op) {
    if (client->asked == REQUESTS_MAX) return;
    request_t *request = &client->requests[client->asked];
    *request =
        (request_t){.tag = (client->id << 8 | client->asked) + 0x1000, .status = 200, .upgrade = true, .raw = true};
    sim_metrics_asked(request, 0, 0);
    if (op->body > 0) sim_metrics_strayed(); /* bytes behind an upgrade that is refused */
    client->asked++;
    client->tcp.tag = request->tag;
    client->tcp.asked = true;
    start_out(client, 512 + op->body);
    static const char *const routes[] = {"tcp", "ctcp", "wtcp"}; /* threads may be short */
    const char *route = routes[sim_below(&client->random, sim_threads_are_patient ? 3 : 2)];
    int size = sprintf(client->out, "GET /%s/%x HTTP/1.1\r\nHost: sim\r\nConnection: Upgrade\r\nUpgrade: sim\r\n",
                       route, request->tag);
    client->out_size = (size_t)size;
    if (op->wait_ms) client->out_size += (size_t)sprintf(client->out + client->out_size, "X-Wait: %u\r\n", op->wait_ms);
    client->out_size += (size_t)sprintf(client->out + client->out_size, "\r\n");
    put_bytes(client, op->body);
    sim_transport_encode(client);
}

/* Not if there was no upgrade. */
void sim_tcp_bytes(client_t *client, const op_t *op) {
    bool waits = client->state != RAW && client->tcp.asked && client->responded < client->asked;
    if (client->state != RAW && !waits) return;
    if (waits) sim_metrics_strayed(); /* as in sim_tcp_upgrade */
    start_out(client, op->size);
    put_bytes(client, op->size);
    sim_transport_encode(client);
}

/* --- what they see --- */

static void take_head(client_t *client, char byte) {
    tcp_t *tcp = &client->tcp;
    tcp->head[tcp->have++] = (unsigned char)byte;
    if (tcp->have < SIM_FRAME_HEAD) return;
    tcp->left = (uint32_t)tcp->head[1] | (uint32_t)tcp->head[2] << 8;
    tcp->sender = tcp->head[0] ^ SIM_FRAME_MARK;
    const sim_pipe_t *pipe = sim_pipe_find(tcp->tag);
    if (tcp->sender >= SIM_SENDERS || tcp->left == 0 || !pipe)
        sim_fail("client %u: a frame begins with %02x", client->id, tcp->head[0]);
    if (tcp->received[tcp->sender] + tcp->left > pipe->sent[tcp->sender])
        sim_fail("client %u: sender %u has not sent so much", client->id, tcp->sender);
}

static size_t take_payload(client_t *client, const char *data, size_t size) {
    tcp_t *tcp = &client->tcp;
    size_t part = tcp->left < size ? tcp->left : size;
    size_t wrong = sim_mismatch(data, SIM_PIPE_TAG(tcp->tag, tcp->sender), tcp->received[tcp->sender], part);
    if (wrong < part)
        sim_fail("client %u: byte %llu of sender %u is wrong", client->id,
                 (unsigned long long)(tcp->received[tcp->sender] + wrong), tcp->sender);
    tcp->received[tcp->sender] += part;
    tcp->left -= (uint32_t)part;
    if (tcp->left == 0) tcp->have = 0;
    return part;
}

void sim_tcp_take(client_t *client, const char *data, size_t size) {
    for (size_t i = 0; i < size;) {
        if (client->tcp.have < SIM_FRAME_HEAD)
            take_head(client, data[i++]);
        else
            i += take_payload(client, data + i, size - i);
    }
}

/* Everything has come back. */
bool sim_tcp_quiet(const client_t *client) {
    const tcp_t *tcp = &client->tcp;
    if (client->state != RAW || sim_failing || sim_pipe_is_stopped(tcp->direct)) return true;
    const sim_pipe_t *pipe = sim_pipe_find(tcp->tag);
    if (!pipe || !pipe->opened) return tcp->sent == 0; /* nothing would wake it */
    return pipe->mode == SIM_WILD || pipe->over || (pipe->echoed == tcp->sent && pipe->sent[0] == tcp->received[0]);
}

/* --- the end --- */

void sim_tcp_check_end_of(uint32_t id, uint64_t received) {
    const client_t *client = sim_client(id);
    if (client && client->tcp.ended && !client->tcp.rude && received != client->tcp.sent)
        sim_fail("client %u: %llu bytes came before its FIN, of %llu", id, (unsigned long long)received,
                 (unsigned long long)client->tcp.sent);
}

bool sim_tcp_may_break(uint32_t id) {
    const client_t *client = sim_client(id);
    return !client || client->done || client->tcp.rude || sim_failing || sim_edited_any_may_break(client);
}

bool sim_tcp_has_ended(uint32_t id) {
    const client_t *client = sim_client(id);
    return !client || client->done || client->fin;
}

static bool is_graceful(const client_t *client, const sim_pipe_t *pipe) {
    return pipe->shut || pipe->over || pipe->may_close || (pipe->ends_itself && client->fin) ||
           (pipe->stops_itself && sim_pipe_is_stopped(client->tcp.direct));
}

static void check_complete(const client_t *client, const sim_pipe_t *pipe) {
    const tcp_t *tcp = &client->tcp;
    if (tcp->have > 0) sim_fail("client %u: the end came inside of a frame", client->id);
    if (tcp->received[0] != pipe->sent[0])
        sim_fail("client %u: %llu bytes were accepted, and %llu have come", client->id,
                 (unsigned long long)pipe->sent[0], (unsigned long long)tcp->received[0]);
    for (uint32_t i = 1; i < SIM_SENDERS; i++)
        if (tcp->received[i] < pipe->owed[i])
            sim_fail("client %u: %llu bytes of hand %u were accepted, and %llu have come", client->id,
                     (unsigned long long)pipe->owed[i], i, (unsigned long long)tcp->received[i]);
    bool echoes = pipe->mode != SIM_WILD && !pipe->leaves && !pipe->ends_itself && !sim_pipe_is_stopped(tcp->direct);
    if (echoes && tcp->ended && pipe->echoed != tcp->sent)
        sim_fail("client %u: %llu of %llu bytes were sent back", client->id, (unsigned long long)pipe->echoed,
                 (unsigned long long)tcp->sent);
}

bool sim_tcp_half_ended(client_t *client) {
    const sim_pipe_t *pipe = client->state == RAW ? sim_pipe_find(client->tcp.tag) : NULL;
    if (client->tcp.server_ended) return !sim_server_has_closed(client->conn);
    if (!pipe || pipe->reset || sim_server_has_closed(client->conn)) return false;
    bool keeps = client->tcp.stubborn && pipe->over;
    if (!keeps && (!pipe->shut || pipe->over)) return false;
    if (!sim_failing && !client->tcp.rude) check_complete(client, pipe);
    client->tcp.server_ended = true;
    if (keeps) client->tcp.ended_ns = sim_now_ns;
    return true;
}

uint64_t sim_tcp_closes_ns(const client_t *client) {
    return client->tcp.ended_ns ? client->tcp.ended_ns + LINGERS_S * 1000 * SIM_MS : SIM_NEVER;
}

void sim_tcp_check_closed(client_t *client) {
    if (sim_tcp_closes_ns(client) > sim_now_ns) return;
    client->tcp.ended_ns = 0;
    if (sim_server_has_closed(client->conn) || sim_failing) return;
    sim_fail("client %u: %d s behind its end the server has not closed", client->id, LINGERS_S);
}

/* The server does not wait so long for who reads nothing of the end; when that has begun is not always known. */
static bool has_slept(const client_t *client, const sim_pipe_t *pipe) {
    return client->tcp.wakes_ns && (!pipe->over_ns || client->tcp.wakes_ns > pipe->over_ns + CLOSE_S * 1000 * SIM_MS);
}

bool sim_tcp_may_be_late(uint32_t id, const sim_pipe_t *pipe) {
    const client_t *client = sim_client(id);
    return !client || has_slept(client, pipe);
}

void sim_tcp_check_deaf(const client_t *client) {
    const sim_pipe_t *pipe = sim_pipe_find(client->tcp.tag);
    if (!pipe || !pipe->min_rate || !client->tcp.deaf_ns || sim_failing || sim_pipe_is_stopped(client->tcp.direct))
        return;
    if (sim_now_ns - client->tcp.deaf_ns < DEAF_S * 1000 * SIM_MS || pipe->sent[0] < MORE_THAN_QUEUED || pipe->closed)
        return;
    sim_fail("client %u: it has read nothing of %llu bytes for %llu s, and is not cut off", client->id,
             (unsigned long long)pipe->sent[0], (unsigned long long)(sim_now_ns - client->tcp.deaf_ns) / SIM_MS / 1000);
}

bool sim_tcp_is_reset(const client_t *client) {
    const sim_pipe_t *pipe = client->tcp.asked ? sim_pipe_find(client->tcp.tag) : NULL;
    return pipe && (pipe->reset || pipe->hands);
}

static bool is_complete(const tcp_t *tcp, const sim_pipe_t *pipe) {
    bool complete = tcp->have == 0 && tcp->received[0] == pipe->sent[0];
    for (uint32_t i = 1; i < SIM_SENDERS; i++) complete = complete && tcp->received[i] >= pipe->owed[i];
    return complete;
}

void sim_tcp_ended(const client_t *client, bool reset) {
    const tcp_t *tcp = &client->tcp;
    sim_pipe_t *pipe = sim_pipe_find(tcp->tag);
    bool stopped = sim_pipe_is_stopped(tcp->direct);
    if (sim_failing || tcp->rude || (reset && pipe && has_slept(client, pipe))) return;
    if (!pipe || !pipe->opened) {
        if (!stopped) sim_fail("client %u: the connection ended before on_open", client->id);
        return;
    }
    bool idle = pipe->idle_s && sim_now_ns + SLACK_MS * SIM_MS >= pipe->moved_ns + pipe->idle_s * 1000 * SIM_MS;
    bool cut = sim_now_ns + 2 * SIM_MS >= sim_pipe_cut_ns(tcp->direct);
    bool graceful = is_graceful(client, pipe), complete = is_complete(tcp, pipe);
    if (reset && pipe->hands && !pipe->reset && !idle && !cut && !(graceful && (complete || stopped))) {
        pipe->must_be_full = true;
        return;
    }
    if (!graceful && !idle && !cut) sim_fail("client %u: the connection ended for no reason that it knows", client->id);
    if (!pipe->reset && !idle && !cut && !(reset && stopped)) check_complete(client, pipe);
}
