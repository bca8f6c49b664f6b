/* Owns: the scripts of clients: what each does, polite or hostile, from the seed alone. */
#include <stdio.h>

#include "client.h"
#include "forms.h"

enum { CROWD_HASTE = 32, STINGY_MS = 20000, SPOOLED = 4096 /* bytes, which fill the memory of a spool */ };

const char *const sim_route_names[] = {
    "mem",   "ref",    "defer",   "stream", "sized",   "work",   "coro",    "job",     "files",   "limit",
    "quota", "gate",   "cogate",  "dial",   "codial",  "handle", "whandle", "events",  "channel", "jobs",
    "wjobs", "hinted", "whinted", "shared", "wshared", "part",   "wpart",   "echo",    "upload",  "spool",
    "live",  "save",   "form",    "lform",  "bform",   "fparts", "cobody",  "bhandle", "early",   "broken"};
static const char *const op_names[] = {"request", "wait",         "pause",    "raw",     "stop reading", "fin",
                                       "reset",   "await close",  "upgrade",  "message", "ping",         "close",
                                       "offend",  "await tunnel", "settings", "settle",  "tcp",          "bytes"};

static void add(client_t *client, op_t op) {
    if (client->op_count < OPS_MAX) client->ops[client->op_count++] = op;
}

static void plan_file(sim_random_t *r, op_t *op, bool slow) {
    if (sim_edits && !sim_one_in(r, 8)) {
        sim_edited_plan(op, r, slow);
        return;
    }
    op->file = (uint8_t)sim_below(r, slow ? SIM_FILES / 2 : SIM_FILES);
    uint32_t size = sim_file_sizes[op->file];
    op->from = 0;
    op->size = size;
    if (size > 0 && sim_one_in(r, 3))
        sim_ranges_plan(op, r);
    else
        op->head = sim_one_in(r, 6);
}

/* One of those that share something with other requests. */
static route_t popular_route(sim_random_t *r) {
    static const route_t jobs[] = {JOBS, WJOBS}, forms[] = {SAVE, FORM, LFORM, BFORM, PARTS, SPOOL};
    switch (sim_popular) {
        case JOBS: return jobs[sim_below(r, 2)];
        case FORM: return forms[sim_below(r, 6)];
        default: return CHANNEL;
    }
}

static op_t plan_request(client_t *client, bool slow) {
    sim_random_t *r = &client->plan;
    uint32_t size_max = slow ? 8000 : sim_one_in(r, sim_compresses ? 5 : 20) ? 300000 : 30000;
    op_t op = {.kind = OP_REQUEST, .route = (route_t)sim_below(r, client->h2 ? ROUTES : BROKEN)};
    if (sim_redis_is_popular && !sim_one_in(r, 4)) op.route = QUOTA;
    if (op.route == QUOTA && !sim_has_redis) op.route = MEM;
    if (sim_popular && !sim_one_in(r, 3)) op.route = popular_route(r);
    if (sim_edits && !sim_one_in(r, 4)) op.route = FILES;
    op.size = sim_one_in(r, 10) ? 0 : sim_log_uniform(r, size_max);
    op.body = op.route >= ECHO ? (sim_one_in(r, 10) ? 0 : sim_log_uniform(r, size_max)) : 0;
    op.ms = sim_one_in(r, 3) ? 0 : sim_log_uniform(r, 1500);
    op.wait_ms = sim_one_in(r, 8) ? sim_log_uniform(r, 400) : 0;
    if (sim_crowd) op.ms /= CROWD_HASTE; /* few threads serve many */
    op.head = (op.route == MEM || op.route == SHARED || op.route == PART) && sim_one_in(r, 8);
    op.chunked = op.route >= ECHO && sim_one_in(r, 2);
    op.close = sim_one_in(r, 20);
    op.expect = op.body > 0 && sim_one_in(r, 6);
    op.accepts = sim_compresses ? (uint8_t)sim_below(r, 4) : 0;
    if (op.route == FILES) plan_file(r, &op, slow);
    if (op.route == SPOOL && sim_one_in(r, 2)) op.body = SPOOLED * (1 + sim_below(r, size_max / SPOOLED));
    if (sim_is_form(op.route)) op.body = sim_form_size(op.size, op.ms);
    return op;
}

static void plan_pauses(client_t *client, bool slow) {
    sim_random_t *r = &client->plan;
    if (sim_one_in(r, 2)) add(client, (op_t){.kind = OP_WAIT});
    if (sim_one_in(r, 4)) add(client, (op_t){.kind = OP_PAUSE, .ms = sim_log_uniform(r, 3000)});
    if (!slow && sim_one_in(r, 8)) add(client, (op_t){.kind = OP_STOP_READING, .ms = sim_log_uniform(r, 2500)});
}

static void plan_end(client_t *client, uint32_t ms) {
    sim_random_t *r = &client->plan;
    add(client, (op_t){.kind = OP_WAIT});
    if (sim_one_in(r, 6))
        add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = ms});
    else if (sim_one_in(r, 3))
        add(client, (op_t){.kind = OP_FIN});
}

static void plan_polite(client_t *client, bool slow) {
    uint32_t count = 1 + sim_below(&client->plan, slow ? 4 : 8);
    for (uint32_t i = 0; i < count; i++) {
        op_t op = plan_request(client, slow);
        add(client, op);
        if (op.close) break;
        plan_pauses(client, slow);
    }
    plan_end(client, (SIM_KEEPALIVE_S + 10) * 1000);
}

/* Requests whose responses are there at once, all of them and FIN behind them before it reads. */
static void plan_burst(client_t *client) {
    static const route_t routes[] = {MEM, REF, SHARED, FILES};
    sim_random_t *r = &client->plan;
    client->piece_max = 100000;
    client->hasty = true;
    for (uint32_t i = 1 + sim_below(r, 8); i > 0; i--) {
        op_t op = {.kind = OP_REQUEST, .route = routes[sim_below(r, 4)], .size = sim_log_uniform(r, 3000)};
        if (op.route == FILES) plan_file(r, &op, true);
        add(client, op);
    }
    add(client, (op_t){.kind = OP_FIN});
}

static op_t plan_message(sim_random_t *r, bool topic, uint32_t size_max) {
    return (op_t){.kind = OP_MESSAGE,
                  .size = sim_one_in(r, 10) ? 0 : sim_log_uniform(r, size_max),
                  .body = topic || sim_one_in(r, 10) ? 0 : sim_log_uniform(r, size_max),
                  .frames = (uint8_t)(sim_one_in(r, 3) ? 1 + sim_below(r, 5) : 1)};
}

static op_t plan_offence(sim_random_t *r) {
    return (op_t){.kind = OP_OFFEND, .raw = (uint8_t)sim_below(r, SIM_WS_OFFENCES)};
}

static void plan_websocket(client_t *client, bool slow) {
    sim_random_t *r = &client->plan;
    uint32_t count = sim_below(r, slow ? 4 : 10), size_max = slow ? 4000 : sim_one_in(r, 10) ? 200000 : 20000;
    bool topic = client->publishes || sim_one_in(r, 3);
    if (topic && size_max > 10000) size_max = 10000; /* all of them get it */
    if (sim_one_in(r, 4)) {
        op_t before = plan_request(client, slow);
        before.close = false;
        add(client, before);
    }
    add(client, (op_t){.kind = OP_UPGRADE, .topic = topic});
    for (uint32_t i = 0; i < count; i++) {
        if (sim_one_in(r, 6))
            add(client, (op_t){.kind = OP_PING});
        else
            add(client, plan_message(r, topic, size_max));
        plan_pauses(client, slow);
    }
    if (sim_one_in(r, 2)) {
        if (sim_one_in(r, 2)) add(client, (op_t){.kind = OP_WAIT});
        add(client, sim_one_in(r, 3) ? plan_offence(r) : (op_t){.kind = OP_CLOSE});
        add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = 20000});
    } else if (sim_one_in(r, 6)) {
        add(client, (op_t){.kind = OP_RESET});
    } else {
        plan_end(client, 1000);
        if (client->ops[client->op_count - 1].kind == OP_AWAIT_CLOSE) client->op_count--;
    }
}

static void plan_end_of_bytes(client_t *client) {
    sim_random_t *r = &client->plan;
    switch (sim_below(r, 8)) {
        case 0:
            add(client, (op_t){.kind = OP_PAUSE, .ms = sim_log_uniform(r, 2000)});
            add(client, (op_t){.kind = OP_RESET});
            break;
        case 1: /* reads nothing */
            add(client, (op_t){.kind = OP_STOP_READING, .ms = 10000000});
            add(client, (op_t){.kind = OP_BYTES, .size = 1 + sim_below(r, 100)});
            add(client, (op_t){.kind = OP_PAUSE, .ms = sim_log_uniform(r, 100000)});
            add(client, (op_t){.kind = OP_RESET});
            break;
        case 2:
            if (client->tcp.direct && sim_tcp_idle_s)
                add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = (sim_tcp_idle_s + 50) * 1000});
            break;
        case 3: add(client, (op_t){.kind = OP_FIN}); break;
        case 4: break;
        default:
            add(client, (op_t){.kind = OP_WAIT});
            if (sim_one_in(r, 2)) add(client, (op_t){.kind = OP_FIN});
    }
}

/* Bytes of a protocol that the server does not know: behind an upgrade, which may be in a pipeline, or from the start.
 */
static void plan_bytes(client_t *client, bool slow, bool direct) {
    sim_random_t *r = &client->plan;
    uint32_t size_max = slow ? 4000 : sim_one_in(r, 10) ? 200000 : 20000;
    if (direct) sim_tcp_open(client);
    for (uint32_t i = direct ? 0 : sim_below(r, 3); i > 0; i--) {
        op_t before = plan_request(client, slow);
        before.close = false;
        add(client, before);
        if (sim_one_in(r, 3)) plan_pauses(client, slow);
    }
    if (!direct)
        add(client, (op_t){.kind = OP_TCP,
                           .body = sim_one_in(r, 3) ? 0 : sim_log_uniform(r, size_max),
                           .wait_ms = sim_one_in(r, 4) ? sim_log_uniform(r, 400) : 0,
                           .eager = sim_one_in(r, 2)});
    if (!direct && sim_one_in(r, 8)) { /* the upgrade may be late */
        add(client, (op_t){.kind = OP_FIN});
        return;
    }
    client->tcp.stubborn = sim_one_in(r, 4);
    if (direct && !sim_tcp_min_rate && sim_one_in(r, 6)) /* it sleeps, and then reads all */
        add(client, (op_t){.kind = OP_STOP_READING, .ms = SIM_TCP_SLEEP_MS + sim_below(r, SIM_TCP_SLEEP_MS)});
    for (uint32_t i = sim_below(r, slow ? 4 : 8); i > 0; i--) {
        add(client, (op_t){.kind = OP_BYTES, .size = sim_log_uniform(r, size_max)});
        plan_pauses(client, slow);
    }
    if (client->tcp.stubborn) add(client, (op_t){.kind = OP_PAUSE, .ms = 60000});
    plan_end_of_bytes(client);
}

/* A tunnel whose windows stay closed must not hold up the other streams. */
static void plan_stingy(client_t *client) {
    sim_random_t *r = &client->plan;
    const uint8_t last = TUNNELS_MAX - 1;
    add(client, (op_t){.kind = OP_UPGRADE, .tunnel = last, .stingy = true});
    for (uint32_t i = 0; i < 3; i++)
        add(client,
            (op_t){.kind = OP_MESSAGE, .tunnel = last, .size = 60000, .body = sim_log_uniform(r, 3000), .frames = 1});
    for (uint32_t i = 1 + sim_below(r, 3); i > 0; i--)
        add(client, (op_t){.kind = OP_REQUEST,
                           .route = (route_t)sim_below(r, 3),
                           .size = sim_log_uniform(r, 5000),
                           .prompt = true});
    add(client, (op_t){.kind = OP_AWAIT_TUNNEL, .tunnel = last, .ms = STINGY_MS});
}

typedef struct tunnels {
    uint32_t count, size_max;
    bool topic[TUNNELS_MAX], ends[TUNNELS_MAX];
} tunnels_t;

static void end_tunnel(client_t *client, tunnels_t *tunnels, uint32_t number) {
    sim_random_t *r = &client->plan;
    op_t op = sim_one_in(r, 4) ? plan_offence(r) : (op_t){.kind = OP_CLOSE, .raw = (uint8_t)sim_below(r, SIM_WS_ENDS)};
    op.tunnel = (uint8_t)number;
    if (!tunnels->ends[number]) add(client, op);
    tunnels->ends[number] = true;
}

static void plan_tunnel(client_t *client, tunnels_t *tunnels) {
    sim_random_t *r = &client->plan;
    uint32_t number = sim_below(r, tunnels->count);
    if (sim_one_in(r, 12)) {
        end_tunnel(client, tunnels, number);
        return;
    }
    bool pings = sim_one_in(r, 5);
    op_t op = pings ? (op_t){.kind = OP_PING} : plan_message(r, tunnels->topic[number], tunnels->size_max);
    op.tunnel = (uint8_t)number;
    add(client, op);
}

static void open_tunnels(client_t *client, tunnels_t *tunnels, bool slow, bool narrow) {
    sim_random_t *r = &client->plan;
    tunnels->count = 1 + sim_below(r, TUNNELS_MAX - 1);
    tunnels->size_max = slow || narrow ? 2000 : 20000;
    for (uint32_t i = 0; i < tunnels->count; i++) {
        tunnels->topic[i] = client->publishes || sim_one_in(r, 4);
        add(client,
            (op_t){.kind = OP_UPGRADE, .tunnel = (uint8_t)i, .topic = tunnels->topic[i], .eager = sim_one_in(r, 2)});
    }
}

/* WebSockets next to requests. */
static void plan_tunnels(client_t *client, bool slow) {
    sim_random_t *r = &client->plan;
    tunnels_t tunnels = {0};
    bool narrow = !slow && sim_one_in(r, 4), stingy = !slow && !narrow && sim_one_in(r, 6);
    sim_h2_new(client, narrow ? 64 + sim_below(r, 500) : sim_one_in(r, 2) ? 65535 : 2048 + sim_below(r, 100000));
    open_tunnels(client, &tunnels, slow, narrow);
    for (uint32_t i = 2 + sim_below(r, slow ? 5 : 10); i > 0; i--) {
        if (sim_one_in(r, 3))
            add(client, plan_request(client, slow || narrow));
        else
            plan_tunnel(client, &tunnels);
        if (sim_one_in(r, 3)) plan_pauses(client, slow);
        if (sim_one_in(r, 12)) add(client, (op_t){.kind = OP_SETTINGS, .size = 2048 + sim_below(r, 100000)});
    }
    if (stingy) plan_stingy(client);
    if (sim_one_in(r, 2)) add(client, (op_t){.kind = OP_WAIT});
    bool stay = sim_one_in(r, 6);
    for (uint32_t i = 0; i < tunnels.count && !stay; i++) end_tunnel(client, &tunnels, i);
    add(client, (op_t){.kind = OP_WAIT});
    add(client, (op_t){.kind = OP_SETTLE});
    plan_end(client, (SIM_KEEPALIVE_S + 10) * 1000);
}

/* Bodies that the server keeps at the same time. */
static op_t plan_hoarded(sim_random_t *r) {
    static const route_t routes[] = {ECHO, UPLOAD, SPOOL, LIVE, COBODY, BHANDLE, EARLY};
    return (op_t){.kind = OP_REQUEST,
                  .route = routes[sim_below(r, sizeof routes / sizeof *routes)],
                  .size = sim_log_uniform(r, 20000),
                  .body = sim_one_in(r, 4) ? sim_log_uniform(r, 60000) : 20000 + sim_below(r, 40000),
                  .ms = sim_one_in(r, 3) ? 0 : sim_log_uniform(r, 1500),
                  .wait_ms = sim_one_in(r, 2) ? sim_log_uniform(r, 1500) : 0,
                  .chunked = sim_one_in(r, 2),
                  .cut = sim_one_in(r, 12)};
}

static void plan_http2(client_t *client, bool slow) {
    sim_random_t *r = &client->plan;
    const bool hoards = sim_h2_memory_max && !slow && sim_one_in(r, 2);
    client->hoards = hoards;
    if (hoards && client->piece_max > 40) client->piece_max = 100000;
    if (client->publishes || sim_one_in(r, 3)) {
        plan_tunnels(client, slow);
        return;
    }
    uint32_t count = 1 + sim_below(r, slow ? 4 : 14);
    sim_h2_new(client, sim_one_in(r, 2) ? 65535 : 2048 + sim_below(r, 100000));
    for (uint32_t i = 0; i < count; i++) {
        op_t op = hoards ? plan_hoarded(r) : plan_request(client, slow);
        op.cut = op.cut || sim_one_in(r, 8);
        add(client, op);
        if (sim_one_in(r, hoards ? 12 : 3)) plan_pauses(client, slow);
        if (sim_one_in(r, 12)) add(client, (op_t){.kind = OP_SETTINGS, .size = 2048 + sim_below(r, 100000)});
    }
    add(client, (op_t){.kind = OP_WAIT});
    add(client, (op_t){.kind = OP_SETTLE});
    plan_end(client, (SIM_KEEPALIVE_S + 10) * 1000);
}

/* More than a server may keep for a client that does not read. */
static op_t plan_large(sim_random_t *r) {
    static const route_t routes[] = {STREAM, REF, WORK, CORO};
    op_t op = {.kind = OP_REQUEST, .route = routes[sim_below(r, 4)], .size = sim_compresses ? 1500000 : 400000};
    op.accepts = sim_compresses ? (uint8_t)sim_below(r, 4) : 0;
    return op;
}

static void plan_hostile_http2(client_t *client) {
    sim_random_t *r = &client->plan;
    bool tiny = client->piece_max <= 40;
    uint32_t kind = sim_below(r, 3) ? sim_below(r, 8)
                                    : SIM_H2_FIRST_OFFENCE + sim_below(r, SIM_H2_OFFENCES_END - SIM_H2_FIRST_OFFENCE);
    sim_h2_new(client, kind == 7 ? 0 : 65535);
    for (uint32_t i = sim_below(r, 3); i > 0 && kind != 7; i--) add(client, plan_request(client, tiny));
    if (sim_one_in(r, 4)) {
        add(client, (op_t){.kind = OP_UPGRADE, .eager = sim_one_in(r, 2)});
        add(client, plan_message(r, false, 2000));
    }
    op_t large = plan_large(r);
    switch (kind) {
        case 6: /* resets the connection while responses come */
            add(client, large);
            add(client, large);
            add(client, (op_t){.kind = OP_PAUSE, .ms = sim_below(r, 3)});
            add(client, (op_t){.kind = OP_RESET});
            break;
        case 7: /* never opens a window */
            for (uint32_t i = sim_below(r, 6); i > 0; i--) add(client, large);
            add(client, (op_t){.kind = OP_RAW, .size = 0, .raw = 5});
            add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = (SIM_WRITE_TIMEOUT_S + SIM_KEEPALIVE_S + 60) * 1000});
            break;
        default: /* garbage, floods */
            add(client, (op_t){.kind = OP_RAW, .raw = (uint8_t)kind, .size = sim_log_uniform(r, 5000)});
            add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = (SIM_BODY_TIMEOUT_S + SIM_KEEPALIVE_S + 60) * 1000});
    }
}

static void plan_hostile(client_t *client) {
    sim_random_t *r = &client->plan;
    if (sim_one_in(r, 8)) client->breaks_off = BREAKS_BY_FIN + sim_below(r, 3);
    bool tiny = client->piece_max <= 40;
    uint32_t before = sim_below(r, 3);
    for (uint32_t i = 0; i < before; i++) add(client, plan_request(client, tiny));
    op_t large = plan_large(r);
    op_t asking = {.kind = OP_REQUEST, .route = (route_t)(GATE + sim_below(r, 4)), .size = 1 + sim_below(r, 300)};
    op_t cut = plan_request(client, tiny);
    cut.cut = true;
    if (cut.route == EARLY || cut.route == BHANDLE) cut.route = ECHO; /* else a part has a response */
    switch (sim_below(r, 7)) {
        case 0: /* garbage */
            add(client, (op_t){.kind = OP_RAW, .size = sim_log_uniform(r, 5000), .raw = 0});
            add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = (SIM_KEEPALIVE_S + 20) * 1000}); /* a part of a record */
            break;
        case 1: /* a part of a request, and then nothing */
            add(client, cut);
            add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = (SIM_BODY_TIMEOUT_S + 20) * 1000});
            break;
        case 2: /* a part of a request, and it is gone */
            add(client, cut);
            add(client, (op_t){.kind = sim_one_in(r, 2) ? OP_RESET : OP_FIN});
            break;
        case 3: /* reads nothing */
            add(client, (op_t){.kind = OP_STOP_READING, .ms = 10000000});
            add(client, large);
            add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = (SIM_WRITE_TIMEOUT_S + 60) * 1000});
            break;
        case 4: /* resets while the response comes */
            add(client, sim_one_in(r, 2) ? large : asking);
            add(client, (op_t){.kind = OP_PAUSE, .ms = sim_below(r, 3)});
            add(client, (op_t){.kind = OP_RESET});
            break;
        case 5: /* a pipeline, and FIN behind it */
            for (uint32_t i = 0; i < 4; i++) add(client, plan_request(client, tiny));
            add(client, (op_t){.kind = OP_FIN});
            break;
        default: /* bad framing */
            add(client, (op_t){.kind = OP_RAW, .raw = (uint8_t)(1 + sim_below(r, 5))});
            add(client, (op_t){.kind = OP_AWAIT_CLOSE, .ms = (SIM_HEAD_TIMEOUT_S + 20) * 1000});
    }
}

/* One of many: its script is short, and its pieces are no single bytes. */
static void plan_of_crowd(client_t *client) {
    sim_random_t *r = &client->plan;
    client->piece_max = sim_one_in(r, 8) ? 200 + sim_below(r, 800) : 100000;
    client->delay_max_us = sim_one_in(r, 2) ? 100 : 3000;
    sim_transport_plan(client);
    uint32_t kind = sim_below(r, 16);
    if (kind < 2)
        plan_hostile(client);
    else if (kind == 2)
        plan_hostile_http2(client);
    else if (kind < 5)
        plan_http2(client, true);
    else if (kind == 5)
        plan_websocket(client, true);
    else
        plan_polite(client, true);
    client->next_ns = sim_now_ns + sim_below(r, 2000) * SIM_MS;
}

void sim_client_plan(client_t *client) {
    if (sim_crowd) {
        plan_of_crowd(client);
        return;
    }
    sim_random_t *r = &client->plan;
    bool slow = sim_one_in(r, 5);
    client->piece_max = slow ? 200 + sim_below(r, 800) : sim_one_in(r, 4) ? 1 + sim_below(r, 40) : 100000;
    client->delay_max_us = slow ? 100000 : sim_one_in(r, 2) ? 100 : 3000;
    if (client->piece_max <= 40) client->delay_max_us = 100;
    sim_transport_plan(client);
    bool tiny = slow || client->piece_max <= 40;
    bool http2 = sim_one_in(r, 3);
    if (client->publishes && http2)
        plan_http2(client, tiny);
    else if (client->publishes)
        plan_websocket(client, tiny);
    else if (sim_tcp_listens && sim_one_in(r, 2))
        plan_bytes(client, tiny, true);
    else if (sim_one_in(r, 8))
        plan_bytes(client, tiny, false);
    else if (http2 && sim_one_in(r, 4) && !slow)
        plan_hostile_http2(client);
    else if (http2)
        plan_http2(client, tiny);
    else if (sim_one_in(r, 3) && !slow)
        plan_hostile(client);
    else if (sim_one_in(r, 6))
        plan_websocket(client, tiny);
    else if (sim_one_in(r, 8))
        plan_burst(client);
    else
        plan_polite(client, tiny);
    client->next_ns = sim_now_ns + sim_below(r, 2000) * SIM_MS / (sim_one_in(r, 2) ? 1 : 1000);
}

void sim_op_describe(const op_t *op, char *text, size_t size) {
    const char *method = op->head ? "HEAD" : op->route >= ECHO ? "POST" : "GET";
    if (op->kind == OP_REQUEST && op->route == FILES)
        snprintf(text, size, "%s%s /files/%c%u%s, %u bytes from %u", op->cut ? "part of " : "", method,
                 op->edited ? 'e' : 'f', op->file,
                 op->ranges == 0   ? ""
                 : op->ranges == 1 ? ", a range"
                                   : ", ranges",
                 op->size, op->from);
    else if (op->kind == OP_REQUEST)
        snprintf(text, size, "%s%s /%s: response %u, body %u%s, %u ms%s%s", op->cut ? "part of " : "", method,
                 sim_route_names[op->route], op->size, op->body, op->chunked ? " chunked" : "", op->ms,
                 op->wait_ms ? ", deferring middleware" : "", op->close ? ", close" : "");
    else if (op->kind == OP_MESSAGE)
        snprintf(text, size, "message of %u bytes in %u frames for one of %u", op->body, op->frames, op->size);
    else
        snprintf(text, size, "%s (ms %u, size %u, kind %u)", op_names[op->kind], op->ms, op->size, op->raw);
}
