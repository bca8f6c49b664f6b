/* Owns: the world outside of the server: the steps of clients, each with one connection and a script, and when a
 * connection may end: early only for a reason that the client knows: it was notified, it misbehaved, the server stops,
 * or memory runs out on purpose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/server.h>

#include "tcp.h"
#include "websocket.h"

#define SYN_AGAIN_NS (20 * SIM_MS) /* of a crowd: until a client tries again whose SYN had no place in the backlog */

static client_t *clients;
static uint32_t client_count, clients_left; /* left: those that are not done */
bool sim_failing, sim_ring_has_died, sim_ring_has_lost;
static uint64_t stop_ns; /* when the server is asked to stop; SIM_NEVER: some time after the last client is done */
uint64_t sim_beat_ns;
static uint64_t idle_ns; /* that time: what nobody wakes shows in it */
static bool stopped;     /* or it is about to: an operator has asked for it */
static bool stop_asked;
static uint64_t stopped_ns;

/* --- when clients act: the first moment of each block of them --- */

enum { BLOCK = 64, BLOCKS = SIM_CLIENTS_MAX / BLOCK };

static uint64_t moments[SIM_CLIENTS_MAX], first_moments[BLOCKS];

static void forget_moments(void) {
    clients_left = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) first_moments[i] = SIM_NEVER;
    for (uint32_t i = 0; i < client_count + BLOCK && i < SIM_CLIENTS_MAX; i++) moments[i] = SIM_NEVER;
}

static void act_at(client_t *client, uint64_t ns) {
    uint32_t block = client->id / BLOCK;
    client->next_ns = moments[client->id] = ns;
    uint64_t first = SIM_NEVER;
    for (uint32_t i = block * BLOCK; i < (block + 1) * BLOCK; i++)
        if (moments[i] < first) first = moments[i];
    first_moments[block] = first;
}

static uint64_t first_moment(void) {
    uint64_t first = SIM_NEVER;
    for (uint32_t i = 0; i * BLOCK < client_count; i++)
        if (first_moments[i] < first) first = first_moments[i];
    return first;
}

/* Those that have something to do now. */
static uint32_t find_due(client_t **due) {
    uint32_t count = 0;
    for (uint32_t block = 0; block * BLOCK < client_count; block++) {
        if (first_moments[block] > sim_now_ns) continue;
        for (uint32_t i = block * BLOCK; i < (block + 1) * BLOCK; i++)
            if (moments[i] <= sim_now_ns) due[count++] = &clients[i];
    }
    return count;
}

static void stop_when_idle(void) {
    uint64_t at = sim_now_ns + idle_ns;
    if (at < stop_ns) stop_ns = at;
}

void sim_world_new(uint64_t seed, const sim_drop_t *drop, bool memory_fails) {
    sim_random_t random = sim_random_of(seed, 0xc1);
    sim_world_free();
    client_count = 1 + sim_below(&random, sim_one_in(&random, 4) ? ORDINARY_MAX : 6);
    if (sim_places_are_few && client_count < 7) client_count += 6;
    sim_random_t of_beat = sim_random_of(seed, 0xc3);
    sim_beat_ns = sim_one_in(&of_beat, 8) ? (1 + sim_below(&of_beat, 2)) * SIM_MS : 0;
    if (sim_beat_ns) client_count = 2 + sim_below(&of_beat, ORDINARY_MAX - 1);
    if (sim_crowd) client_count = sim_crowd;
    clients = calloc(client_count, sizeof *clients);
    if (!clients) abort();
    forget_moments();
    sim_failing = memory_fails;
    sim_ring_has_died = sim_ring_has_lost = false;
    stopped = stop_asked = false;
    stop_ns = sim_one_in(&random, 3) ? sim_now_ns + sim_below(&random, 4000) * SIM_MS : SIM_NEVER;
    bool herd = sim_one_in(&random, 10); /* all come at once, and with them the stop, if any */
    bool topical = sim_one_in(&random, 8);
    uint64_t herd_ns = sim_now_ns + sim_below(&random, 1000) * SIM_MS;
    if (herd && sim_one_in(&random, 2)) stop_ns = herd_ns + sim_below(&random, 3000) * UINT64_C(1000);
    for (uint32_t i = 0; i < client_count; i++) {
        client_t *client = &clients[i];
        client->id = i;
        client->plan = sim_random_of(seed, 0x1000 + i);
        client->random = sim_random_of(seed, 0x2000 + i);
        client->deadline_ns = SIM_NEVER;
        client->publishes = topical && !sim_crowd && sim_one_in(&client->plan, 2);
        sim_client_plan(client);
        if (herd) client->next_ns = herd_ns;
        for (uint32_t op = 0; op < client->op_count; op++) client->dropped[op] = drop->ops[i] >> op & 1;
        client->done = drop->clients[i];
        clients_left += !client->done;
        act_at(client, client->done ? SIM_NEVER : client->next_ns);
    }
    sim_random_t of_idle = sim_random_of(seed, 0xc2);
    idle_ns = sim_one_in(&of_idle, 2) ? sim_below(&of_idle, 4000) * SIM_MS : 0;
    if (clients_left == 0) stop_when_idle();
    if (sim_admin_listens) sim_operators_new(seed, client_count);
    sim_editor_new();
}

/* --- the end of a connection --- */

static void finish(client_t *client) {
    if (!client->done && --clients_left == 0) stop_when_idle();
    client->done = true;
    act_at(client, SIM_NEVER);
    if (client->conn) sim_client_close(client->conn);
    client->conn = NULL;
    free(client->out);
    client->out = NULL;
    for (uint32_t i = 0; i < client->asked; i++) sim_http_free(&client->requests[i]);
    sim_transport_free(client);
    sim_h2_free(client);
}

bool sim_clients_have_stopped(void) {
    return stopped || sim_ring_has_died;
}

/* In the middle of what the server sends. */
static bool is_cut(const client_t *client) {
    if (client->h2) return sim_h2_is_cut(client);
    if (client->state == FRAMES) return sim_ws_is_cut(client->tunnels[0]);
    return client->state != HEAD || client->head_size > 0;
}

/* With few places, an idle client may be evicted, and a request may cross that. But not one of which something had
 * come before the server looked, and not before the response to the one before it was accepted. A close that the kernel
 * refuses comes late, and what arrives until then is received for nobody. */
static bool is_crossed(const client_t *client) {
    if (!sim_places_are_few || client->state == FRAMES || (client->h2 && sim_ws_any_open(client))) return false;
    if (client->responded == client->asked || stopped) return true;
    const request_t *request = &client->requests[client->responded];
    if (!sim_server_has_looked(client->conn, request->begin)) return false;
    bool is_late = sim_kernel_is_excused() && request->sent_ns > sim_ring_refused_ns;
    return is_late || request->begin >= sim_server_received(client->conn);
}

/* FIN follows the last byte; the time for which a connection lingers is for what the client still sends. */
static void check_prompt(const client_t *client, bool reset) {
    if (reset || client->closes_ns == 0 || sim_failing) return;
    if (sim_now_ns - client->closes_ns > SIM_END_MS * SIM_MS)
        sim_fail("client %u: FIN came %llu ms after the last response", client->id,
                 (unsigned long long)((sim_now_ns - client->closes_ns) / SIM_MS));
}

static void connection_ended(client_t *client, bool reset) {
    sim_trace("client sees the end", client->id, reset);
    if (reset && sim_was_refused(client->conn)) {
        finish(client);
        return;
    }
    if (client->state == RAW || (reset && sim_tcp_is_reset(client))) {
        sim_tcp_ended(client, reset);
        finish(client);
        return;
    }
    const request_t *lost = sim_http_pending(client);
    bool crossed = is_crossed(client) || sim_was_never_accepted(client->conn);
    bool dropped = sim_edited_any_may_break(client);
    for (uint32_t i = client->responded; i < client->asked; i++)
        dropped |= sim_events_are_dropped(&client->requests[i]) || (!client->h2 && client->requests[i].may_break);
    bool excused = client->closes || client->wild || sim_failing || dropped;
    if (client->h2 && !reset && !crossed && !sim_failing && !stopped) sim_h2_check_offence(client);
    check_prompt(client, reset);
    bool overtaken = client->h2 && crossed && reset; /* RST for what the client sent was faster than GOAWAY */
    if (!excused && !overtaken && is_cut(client))
        sim_fail("client %u: the connection ended inside of a response", client->id);
    excused = excused || crossed;
    if (client->owed && lost && !client->closes && !crossed && !stopped && !sim_failing && !dropped)
        sim_fail("client %u: request %x, whole and before its fault or its FIN, has no response", client->id,
                 lost->tag);
    uint32_t message = 0;
    uint64_t message_ns = client->h2 ? 0 : sim_ws_pending_ns(client, &message);
    bool owed = client->owed && !client->closes && !stopped && !sim_failing;
    if (message_ns && (owed || (!excused && !(stopped && message_ns >= stopped_ns))))
        sim_fail("client %u: message %x was sent and has no response", client->id, message);
    sim_ws_connection_ended(client, reset, excused);
    bool late = lost && ((stopped && lost->sent_ns >= stopped_ns) || (client->h2 && sim_h2_is_refused(client, lost)));
    if (!excused && lost && !late)
        sim_fail("client %u: request %x was sent and has no response", client->id, lost->tag);
    if (!excused && client->h2) sim_h2_check_end(client);
    bool sent_away = client->h2 && sim_places_are_few && sim_h2_is_sent_away(client); /* before it asked */
    if (!excused && !sent_away && !stopped && client->at < client->op_count &&
        client->ops[client->at].kind != OP_AWAIT_CLOSE)
        sim_fail("client %u: the server has closed for no reason that the client knows", client->id);
    finish(client);
}

/* --- steps --- */

static void read_some(client_t *client) {
    char data[16384];
    if (client->read_ns > sim_now_ns) return;
    uint32_t max = client->piece_max < sizeof data ? client->piece_max : (uint32_t)sizeof data;
    long got = sim_client_receive(client->conn, data, max);
    if (got > 0) {
        sim_trace("client reads", client->id, (uint64_t)got);
        client->moved_ns = sim_now_ns;
        sim_transport_decode(client, data, (size_t)got, sim_http_take);
    }
    if (got == -1 && sim_tcp_half_ended(client)) return;
    if (got < 0) connection_ended(client, got == -2);
}

static void next_op(client_t *client) {
    client->at++;
    client->started = false;
    client->deadline_ns = SIM_NEVER;
}

static void upgrade(client_t *client, const op_t *op) {
    if (client->h2)
        sim_h2_connect(client, op);
    else
        sim_ws_upgrade(client, op);
}

static void begin_op(client_t *client, const op_t *op) {
    client->started = true;
    client->blocked = false;
    client->out_size = client->out_at = 0;
    uint32_t asked = client->asked;
    switch (op->kind) {
        case OP_REQUEST: sim_http_request(client, op); break;
        case OP_RAW: sim_http_raw(client, op); break;
        case OP_UPGRADE: upgrade(client, op); break;
        case OP_SETTINGS: sim_h2_settings(client, op); break;
        case OP_TCP: sim_tcp_upgrade(client, op); break;
        case OP_BYTES: sim_tcp_bytes(client, op); break;
        case OP_MESSAGE:
        case OP_PING:
        case OP_CLOSE:
        case OP_OFFEND: sim_ws_act(client, op); break;
        case OP_FIN:
            client->notified = sim_one_in(&client->random, 2);
            if (client->transport.tls) client->owed = false; /* until all of it was sent: see end_op */
            if (client->notified)
                sim_transport_end(client);
            else
                client->tcp.rude |= client->transport.tls;
            break;
        case OP_PAUSE:
        case OP_AWAIT_TUNNEL:
        case OP_AWAIT_CLOSE: client->deadline_ns = sim_now_ns + op->ms * SIM_MS; break;
        case OP_STOP_READING:
            client->read_ns = sim_now_ns + op->ms * SIM_MS;
            client->closes_ns = 0;
            if (op->ms >= SIM_TCP_SLEEP_MS) client->tcp.wakes_ns = client->read_ns;
            if (op->ms <= 1000000) break;
            client->wild = client->tcp.rude = true;
            client->tcp.deaf_ns = sim_now_ns;
            break;
        default: break;
    }
    if (client->asked > asked) client->requests[asked].begin = client->sent_size;
}

static void send_some(client_t *client) {
    size_t left = client->out_size - client->out_at;
    if (left > client->piece_max) left = client->piece_max;
    size_t sent = sim_client_send(client->conn, client->out + client->out_at, left);
    client->out_at += sent;
    client->sent_size += sent;
    client->blocked = sent == 0;
}

/* Whether a body of HTTP/2 is next, or else what the script says. */
static bool pumps(client_t *client) {
    if (!client->h2 || client->out_at < client->out_size || sim_transport_busy(client)) return false;
    bool waits = client->started || client->at >= client->op_count;
    return waits || sim_one_in(&client->random, 2);
}

/* What precedes the first request, and frames in reply to the server's: between two of its own. Returns whether
 * something of that is still to be sent or awaited. */
static bool flush_first(client_t *client) {
    if (client->h2) sim_h2_credit(client);
    bool may_owe = !client->flushing && client->out_at >= client->out_size && !sim_transport_busy(client);
    if (client->notified) may_owe = false; /* it has said its last */
    if (client->owed_last && pumps(client) && sim_h2_can_pump(client))
        may_owe = false; /* bodies go first now and then */
    if (may_owe && client->control_size > 0) {
        client->owed_last = true;
        sim_transport_out(client, client->control, client->control_size);
        client->control_size = 0;
        client->flushing = true;
        client->blocked = false;
    }
    if (may_owe && !client->flushing && sim_ws_flush(client)) {
        client->flushing = true;
        client->blocked = false;
    }
    if (!client->flushing && pumps(client) && sim_h2_pump(client)) {
        client->owed_last = false;
        client->flushing = true;
        client->blocked = false;
    }
    if (client->flushing && client->out_at < client->out_size) send_some(client);
    if (client->h2 && client->blocked) sim_h2_check_starved(client, false); /* it is not credit that it waits for */
    if (client->flushing && client->out_at >= client->out_size) sim_h2_pumped(client);
    client->flushing = client->flushing && client->out_at < client->out_size;
    bool owes = (client->control_size > 0 || sim_ws_owes(client)) && client->out_at >= client->out_size;
    return client->flushing || owes || sim_transport_busy(client);
}

static bool awaits(client_t *client, const op_t *op) {
    switch (op->kind) {
        case OP_REQUEST:
        case OP_RAW:
        case OP_MESSAGE:
        case OP_PING:
        case OP_CLOSE:
        case OP_OFFEND:
        case OP_BYTES:
        case OP_FIN: return client->out_at < client->out_size;
        case OP_TCP: return client->out_at < client->out_size || (client->responded < client->asked && !op->eager);
        case OP_UPGRADE:
            if (client->h2)
                return client->out_at < client->out_size ||
                       (!op->eager && sim_ws_is_asked(client->tunnels[op->tunnel]));
            return client->out_at < client->out_size || client->responded < client->asked;
        case OP_AWAIT_TUNNEL: return sim_ws_is_open(client->tunnels[op->tunnel]) && client->deadline_ns > sim_now_ns;
        case OP_WAIT:
            return client->responded < client->asked || !sim_ws_quiet(client) || !sim_tcp_quiet(client) ||
                   sim_h2_sends(client);
        case OP_SETTLE: return client->out_at < client->out_size || !sim_h2_settle(client);
        case OP_PAUSE: return client->deadline_ns > sim_now_ns;
        case OP_AWAIT_CLOSE: return client->deadline_ns != SIM_NEVER || !sim_ws_any_open(client); /* which may stay */
        default: return false;
    }
}

static void end_op(client_t *client, const op_t *op) {
    bool asks = op->kind == OP_REQUEST || op->kind == OP_UPGRADE || op->kind == OP_TCP;
    if (op->kind == OP_MESSAGE && !client->h2 && client->tunnels[0])
        sim_ws_sent(client->tunnels[0], client->tunnels[0]->queued);
    if (asks && client->h2) asks = client->asked > 0 && sim_h2_is_sent(client, client->asked - 1);
    if (asks && !op->cut && client->asked > 0) client->requests[client->asked - 1].sent_ns = sim_now_ns;
    if (op->kind == OP_FIN) {
        client->owed = sim_half_close && !client->h2 &&
                       (client->transport.tls ? !client->wild && client->notified : !client->wild || client->owed);
        client->wild = client->fin = client->tcp.ended = true;
        client->moved_ns = sim_now_ns;
        sim_client_fin(client->conn);
    }
    if (op->kind != OP_RESET) {
        next_op(client);
        return;
    }
    sim_tcp_check_deaf(client);
    client->tcp.rude = true;
    sim_client_reset(client->conn);
    finish(client);
}

/* FIN of a Unix socket may not be seen when it comes with bytes. */
static bool goes_on_at_once(client_t *client) {
    if (client->done || client->at >= client->op_count || sim_transport_busy(client)) return false;
    return client->hasty || (client->ops[client->at].kind == OP_FIN && sim_is_unix(client->conn));
}

/* Before them nobody knows whether the server has tunnels. */
static bool waits_for_settings(const client_t *client, const op_t *op) {
    return op->kind == OP_UPGRADE && client->h2 && !sim_h2_has_settings(client);
}

static void do_op(client_t *client) {
    const op_t *op = &client->ops[client->at];
    if (client->dropped[client->at]) {
        next_op(client);
        return;
    }
    if (waits_for_settings(client, op)) return;
    if (!client->started) begin_op(client, op);
    if (client->out_at < client->out_size) send_some(client);
    if ((op->kind == OP_UPGRADE || op->kind == OP_TCP) && client->out_at >= client->out_size && client->asked > 0 &&
        client->requests[client->asked - 1].sent_ns == 0)
        client->requests[client->asked - 1].sent_ns = sim_now_ns;
    if (op->kind == OP_AWAIT_CLOSE && client->deadline_ns <= sim_now_ns) {
        client->deadline_ns = SIM_NEVER;
        /* Without memory there may be no WebSocket that could be closed. */
        bool no_websocket = sim_failing && client->state != FRAMES && op->ms < SIM_KEEPALIVE_S * 1000;
        if (!stopped && !sim_places_are_few && !no_websocket && !sim_ws_any_open(client))
            sim_fail("client %u: the server has not closed within %u ms", client->id, op->ms);
    }
    if (op->kind == OP_AWAIT_TUNNEL && client->deadline_ns <= sim_now_ns && !sim_failing &&
        sim_ws_is_open(client->tunnels[op->tunnel]))
        sim_fail("client %u: tunnel %u has not ended within %u ms", client->id, op->tunnel, op->ms);
    if (awaits(client, op)) return;
    end_op(client, op);
    if (goes_on_at_once(client)) do_op(client);
}

static uint64_t soon(client_t *client) {
    uint64_t at = sim_now_ns + 1 + sim_below(&client->random, client->delay_max_us) * UINT64_C(1000);
    if (!sim_beat_ns || client->piece_max <= 40) return at; /* so little at a time: it has to hurry */
    return (at / sim_beat_ns + 1) * sim_beat_ns;
}

/* Until the server closes at the latest, behind a FIN: at once, unless a handler may take its time. */
static uint64_t fin_ns(const client_t *client) {
    bool is_over = !client->h2 && client->state == HEAD && client->responded >= client->asked && !client->lingers;
    uint64_t moved_ns = client->moved_ns > client->tcp.wakes_ns ? client->moved_ns : client->tcp.wakes_ns;
    return moved_ns + (is_over ? 2u : SIM_FIN_S) * 1000 * SIM_MS;
}

/* When it has something to do by itself; what the server does wakes it before. */
static uint64_t next_of(client_t *client) {
    bool stuck = client->flushing && client->blocked; /* the op comes behind that */
    uint64_t next = client->fin ? fin_ns(client) : stuck ? SIM_NEVER : client->deadline_ns;
    if (client->read_ns > sim_now_ns && client->read_ns < next) next = client->read_ns;
    bool acts = sim_client_readable(client->conn) && client->read_ns <= sim_now_ns;
    if (client->tcp.server_ended) acts = sim_server_has_closed(client->conn);
    if (sim_tcp_closes_ns(client) < next) next = sim_tcp_closes_ns(client);
    if (client->at < client->op_count && !stuck) {
        op_kind_t kind = client->ops[client->at].kind;
        bool waits = kind == OP_WAIT || kind == OP_SETTLE || kind == OP_PAUSE || kind == OP_AWAIT_CLOSE ||
                     kind == OP_AWAIT_TUNNEL || kind == OP_UPGRADE || kind == OP_TCP || client->blocked ||
                     sim_transport_busy(client);
        bool begins = !client->started && !waits_for_settings(client, &client->ops[client->at]);
        acts = acts || (begins && !sim_transport_busy(client)) || !waits;
    }
    bool owes = client->control_size > 0 || sim_ws_owes(client);
    bool ready = !sim_transport_busy(client) && (owes || sim_h2_can_pump(client));
    bool sends = ready || client->out_at < client->out_size;
    acts = acts || (sends && !client->blocked);
    if (sim_h2_starves_ns(client) < next) next = sim_h2_starves_ns(client);
    uint64_t at = acts ? soon(client) : SIM_NEVER;
    return at < next ? at : next;
}

/* Behind a FIN nothing is awaited but what the handlers take. */
static void check_fin(client_t *client) {
    if (!client->fin || fin_ns(client) > sim_now_ns) return;
    bool queues = sim_crowd && sim_threads_are_patient; /* behind handlers whose clients take their time */
    if (!queues && !sim_places_are_few && !sim_failing && !stopped)
        sim_fail("client %u: %u s after its FIN the server has not closed", client->id,
                 (unsigned)((sim_now_ns - client->moved_ns) / 1000 / SIM_MS));
    client->moved_ns = sim_now_ns;
    client->tcp.wakes_ns = 0;
}

/* A part of the PROXY header, of the handshake, or of a request, or nothing at all. */
static void begin_to_break_off(client_t *client) {
    sim_metrics_strayed();
    client->started = client->wild = true;
    if (client->out_size == 0) sim_transport_out(client, "GET /mem/", 9);
    client->out_size = sim_below(&client->random, (uint32_t)client->out_size + 1);
}

static void break_off(client_t *client) {
    const bool ends = client->breaks_off != BREAKS_BY_SILENCE;
    if (client->breaks_off == BREAKS_BY_RESET) {
        sim_client_reset(client->conn);
        finish(client);
        return;
    }
    if (ends) sim_client_fin(client->conn);
    client->deadline_ns = sim_now_ns + (ends ? SIM_BREAK_S : SIM_SILENCE_S) * 1000 * SIM_MS;
}

/* Instead of the script. */
static void step_to_break_off(client_t *client) {
    if (!client->started) begin_to_break_off(client);
    read_some(client);
    if (client->done) return;
    if (client->deadline_ns == SIM_NEVER && client->out_at < client->out_size) {
        send_some(client);
        act_at(client, client->blocked && !sim_client_readable(client->conn) ? SIM_NEVER : soon(client));
        return;
    }
    if (client->deadline_ns == SIM_NEVER) break_off(client);
    if (client->done) return;
    if (client->deadline_ns <= sim_now_ns) {
        if (!stopped && !sim_places_are_few)
            sim_fail("client %u: it has broken off, and the server has not closed", client->id);
        finish(client);
        return;
    }
    act_at(client, sim_client_readable(client->conn) ? soon(client) : client->deadline_ns);
}

static void client_step(client_t *client) {
    if (!client->conn) {
        client->conn = sim_connect(client->id, client->transport.port, sim_world_wake, client);
        if (!client->conn && (client->tcp.direct ? sim_pipe_is_stopped(true) : stopped)) finish(client);
        if (client->conn) client->flushing = sim_transport_begin(client);
        if (!client->done) act_at(client, client->conn || !sim_crowd ? soon(client) : soon(client) + SYN_AGAIN_NS);
        return;
    }
    if (client->breaks_off) {
        step_to_break_off(client);
        return;
    }
    if (sim_server_has_closed(client->conn)) client->read_ns = 0; /* who polls hears of it */
    read_some(client);
    if (client->done) return;
    check_fin(client);
    sim_tcp_check_closed(client);
    bool busy = flush_first(client);
    if (client->at < client->op_count && !busy) do_op(client);
    if (client->done) return;
    if (client->at >= client->op_count && !client->fin && !busy)
        finish(client);
    else
        act_at(client, next_of(client));
}

void sim_world_wake(void *arg) {
    client_t *client = arg;
    if (client->done) return;
    uint64_t at = soon(client);
    if (at < client->next_ns) act_at(client, at);
}

uint64_t sim_world_next_ns(void) {
    if (!sim_server && !sim_second_lives()) return SIM_NEVER;
    uint64_t next = stop_asked ? SIM_NEVER : stop_ns;
    uint64_t client = first_moment(), origin = sim_actors_next_ns();
    if (client < next) next = client;
    return origin < next ? origin : next;
}

static void note_stop(void) {
    if (stopped) return;
    stopped = true;
    stopped_ns = sim_now_ns;
    sim_tcp_http_stopped();
}

void sim_world_drain(void) {
    note_stop();
}

void sim_world_stopped(void) {
    note_stop();
    stop_asked = true;
}

void sim_world_step(sim_random_t *random) {
    static client_t *due[SIM_CLIENTS_MAX];
    if (!stop_asked && stop_ns <= sim_now_ns) {
        stop_asked = true;
        note_stop();
        sim_trace("stop", 0, 0);
        if (sim_is_guest) {
            sim_guest_stop();
        } else {
            (void)uvhttp_server_stop(sim_server);
            sim_operators_stopped();
        }
        sim_tcp_stop();
        return;
    }
    uint32_t count = find_due(due);
    if ((count == 0 || sim_one_in(random, 4)) && sim_actors_step()) return;
    if (count > 0) client_step(due[sim_below(random, count)]);
}

void sim_world_check_end(void) {
    stop_asked = true;
    for (uint32_t i = 0; i < client_count; i++) {
        client_t *client = &clients[i];
        if (client->done || !client->conn) continue;
        /* The server is gone, perhaps for long: what is left in the connection is read. */
        client->read_ns = client->closes_ns = 0;
        for (; !client->done; read_some(client))
            if (!sim_client_readable(client->conn))
                sim_fail("client %u: the server is gone, and has left its connection open", i);
    }
}

void sim_world_check_callbacks(void) {
    for (uint32_t i = 0; i < client_count; i++) sim_ws_check_end(&clients[i]);
}

client_t *sim_client(uint32_t id) {
    return id < client_count ? &clients[id] : NULL;
}

/* Who writes is held back by who does not read. */
void sim_world_wrote(uint32_t tag, uint64_t size) {
    const uint32_t number = tag - 0x1000, at = number & 0xff;
    if (tag < 0x1000 || number >> 8 >= client_count) return;
    const client_t *client = &clients[number >> 8];
    if (client->done || at >= client->asked) return;
    uint64_t received = client->h2 ? sim_h2_received(client, at) : client->responded == at ? client->at_body : 0;
    uint64_t queued_max = SIM_QUEUED_MAX * (sim_compresses ? 3 : 1); /* what an encoder makes half of it */
    if (client->responded <= at && size > received + queued_max)
        sim_fail("client %u: %llu bytes of the response to %x are written, and %llu were read", client->id,
                 (unsigned long long)size, tag, (unsigned long long)received);
}

void sim_world_free(void) {
    for (uint32_t i = 0; clients && i < client_count; i++) {
        finish(&clients[i]);
        sim_ws_free(&clients[i]);
    }
    free(clients);
    clients = NULL;
    sim_actors_free();
}

uint32_t sim_world_clients(void) {
    return client_count;
}

uint32_t sim_world_ops(uint32_t client) {
    return clients[client].op_count;
}

void sim_world_describe(uint32_t client, uint32_t at, char *text, size_t size) {
    sim_op_describe(&clients[client].ops[at], text, size);
}

bool sim_may_misbehave(uint32_t client) {
    return sim_failing || client >= client_count || clients[client].wild;
}
