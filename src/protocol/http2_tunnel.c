/* Owns: streams that have become channels (RFC 8441): what an upgraded protocol sends waits for the windows of its
 * stream, and what it does not take keeps them closed. END_STREAM is its FIN, RST_STREAM its RST. */
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "protocol/http2_connection.h"

/* Why a tunnel is looked at when the iteration ends; bits. */
enum {
    DUE_GIVE = 1 << 0,  /* bytes that were held, or the end, can be given to the protocol above */
    DUE_DRAIN = 1 << 1, /* all that was queued has left */
    DUE_CLOSE = 1 << 2, /* it is over */
};

struct uvhttp__http2_tunnel {
    uvhttp__http2_connection_t *connection;
    uvhttp__http2_stream_t *stream;
    uvhttp__list_t link; /* in connection->tunnels_due, if due */
    uvhttp__timer_t timer;
    uvhttp__channel_t channel;
    uvhttp__outgoing_t outgoing;
    uvhttp__http2_held_t held;
    uvhttp__rate_t rate;  /* of what is sent, while `rate_checked` */
    uint32_t given;       /* while it waits for a window, as in uvhttp__http2_is_late */
    uint64_t deadline_ms; /* of the protocol above, or of lingering; UINT64_MAX: none */
    uint64_t sent;
    uint64_t kept;    /* bytes of connection->kept */
    uint32_t charged; /* bytes of the core's memory */
    int16_t status;   /* for on_close */
    uint8_t due;
    bool ended_in;     /* the client sends nothing more */
    bool notified_end; /* ... which the protocol above knows */
    bool notified_stop;
    bool paused;
    bool pressed; /* on_drain is owed */
    bool rate_checked;
    bool over;      /* nothing but on_close follows */
    bool lingering; /* END_STREAM was sent, that of the client is awaited */
};

static uvhttp__http2_tunnel_t *tunnel_of(const uvhttp__channel_t *channel) {
    return (uvhttp__http2_tunnel_t *)(uintptr_t)((const char *)channel - offsetof(uvhttp__http2_tunnel_t, channel));
}

static uvhttp__conn_t *conn_of(const uvhttp__http2_tunnel_t *tunnel) {
    return tunnel->connection->conn;
}

static uint64_t now_ms(const uvhttp__http2_tunnel_t *tunnel) {
    return uvhttp__conn_now_ms(conn_of(tunnel));
}

static void set_due(uvhttp__http2_tunnel_t *tunnel, unsigned what) {
    tunnel->due |= (uint8_t)what;
    if (!uvhttp__list_linked(&tunnel->link)) uvhttp__list_push_back(&tunnel->connection->tunnels_due, &tunnel->link);
    uvhttp__http2_set_due(tunnel->connection);
}

/* What is kept for the client counts for the connection. */
static void account(uvhttp__http2_tunnel_t *tunnel) {
    uint64_t kept = tunnel->held.capacity + tunnel->outgoing.size;
    tunnel->connection->kept += kept - tunnel->kept;
    tunnel->kept = kept;
}

/* --- time --- */

static const uvhttp__rate_limits_t *output_limits(const uvhttp__http2_tunnel_t *tunnel) {
    return tunnel->channel.events->output_limits(&tunnel->channel);
}

static void arm(uvhttp__http2_tunnel_t *tunnel) {
    uvhttp__wheel_t *wheel = &tunnel->channel.loop->wheel;
    uint64_t at = tunnel->deadline_ms, look = now_ms(tunnel) + UVHTTP__RATE_INTERVAL_MS;
    if (tunnel->rate_checked && look < at) at = look;
    uvhttp__timer_stop(wheel, &tunnel->timer);
    if (at != UINT64_MAX) uvhttp__timer_set(wheel, &tunnel->timer, at);
}

static void check_rate_later(uvhttp__http2_tunnel_t *tunnel) {
    if (tunnel->rate_checked) return;
    tunnel->rate_checked = true;
    tunnel->given = 0;
    uvhttp__rate_start(&tunnel->rate, output_limits(tunnel), (uint32_t)tunnel->sent, now_ms(tunnel));
    arm(tunnel);
}

/* As over HTTP/1 when the kernel has not accepted all of it. */
static void check_what_waits(uvhttp__http2_tunnel_t *tunnel) {
    if (tunnel->outgoing.size > 0 && uvhttp__http2_capacity(&tunnel->connection->core, tunnel->stream) == 0)
        check_rate_later(tunnel);
}

/* Time is the client's only while its window is closed. */
static void check_rate(uvhttp__http2_tunnel_t *tunnel) {
    bool waits = uvhttp__http2_capacity(&tunnel->connection->core, tunnel->stream) == 0;
    tunnel->rate_checked = tunnel->outgoing.size > 0;
    if (tunnel->rate_checked && uvhttp__http2_is_late(conn_of(tunnel), &tunnel->rate, &tunnel->given,
                                                      output_limits(tunnel), (uint32_t)tunnel->sent, waits))
        uvhttp__http2_tunnel_cut(tunnel, UVHTTP__HTTP2_CANCEL, UVHTTP_E_TIMEOUT);
}

void uvhttp__http2_tunnel_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    uvhttp__http2_tunnel_t *tunnel = UVHTTP__CONTAINER_OF(timer, uvhttp__http2_tunnel_t, timer);
    if (tunnel->rate_checked)
        check_rate(tunnel);
    else
        check_what_waits(tunnel); /* other streams may have closed the window meanwhile */
    if (tunnel->due & DUE_CLOSE) return;
    if (tunnel->deadline_ms > now_ms(tunnel)) {
        arm(tunnel);
        return;
    }
    tunnel->deadline_ms = UINT64_MAX;
    arm(tunnel);
    if (tunnel->lingering)
        set_due(tunnel, DUE_CLOSE);
    else if (!tunnel->over)
        tunnel->channel.events->on_timer(&tunnel->channel);
}

/* --- the end --- */

static void drop_held(uvhttp__http2_tunnel_t *tunnel) {
    uvhttp__http2_consume(&tunnel->connection->core, tunnel->stream, tunnel->held.size);
    uvhttp__free(tunnel->held.data);
    tunnel->held = (uvhttp__http2_held_t){NULL, 0, 0, 0};
    account(tunnel);
}

/* END_STREAM was written. */
static void after_end(uvhttp__http2_tunnel_t *tunnel) {
    if (tunnel->ended_in) {
        set_due(tunnel, DUE_CLOSE);
        return;
    }
    tunnel->lingering = true;
    tunnel->deadline_ms = now_ms(tunnel) + UVHTTP__CONN_LINGER_MS;
    arm(tunnel);
}

static void finish(uvhttp__channel_t *channel) {
    uvhttp__http2_tunnel_t *tunnel = tunnel_of(channel);
    if (tunnel->over) return;
    tunnel->over = true;
    tunnel->deadline_ms = UINT64_MAX;
    set_due(tunnel, DUE_GIVE); /* bytes that are held may be in use */
    uvhttp__outgoing_end(&tunnel->outgoing);
    if (tunnel->outgoing.size > 0) {
        check_rate_later(tunnel);
        return;
    }
    if (uvhttp__http2_writable(tunnel->stream)) uvhttp__http2_wire_end(tunnel->connection, tunnel->stream);
    after_end(tunnel);
}

void uvhttp__http2_tunnel_cut(uvhttp__http2_tunnel_t *tunnel, uvhttp__http2_error_t error, int status) {
    if (tunnel->due & DUE_CLOSE) return;
    uvhttp__http2_reset(&tunnel->connection->core, tunnel->stream, error);
    tunnel->over = true;
    tunnel->status = (int16_t)status;
    uvhttp__outgoing_release(&tunnel->outgoing);
    set_due(tunnel, DUE_CLOSE);
}

static void reset(uvhttp__channel_t *channel) {
    uvhttp__http2_tunnel_cut(tunnel_of(channel), UVHTTP__HTTP2_CANCEL, UVHTTP_OK);
}

/* Nothing reaches it any more. */
static void detach(uvhttp__http2_tunnel_t *tunnel) {
    uvhttp__http2_t *core = &tunnel->connection->core;
    if (uvhttp__list_linked(&tunnel->link)) uvhttp__list_remove(&tunnel->link);
    uvhttp__timer_stop(&tunnel->channel.loop->wheel, &tunnel->timer);
    uvhttp__outgoing_release(&tunnel->outgoing);
    uvhttp__free(tunnel->held.data);
    tunnel->connection->kept -= tunnel->kept;
    uvhttp__http2_discharge(core, tunnel->charged);
    tunnel->stream->user = NULL;
    tunnel->stream->flags &= (uint16_t)~UVHTTP__HTTP2_TUNNEL;
    uvhttp__http2_release(core, tunnel->stream);
}

void uvhttp__http2_tunnel_abort(uvhttp__http2_tunnel_t *tunnel, int status) {
    if (tunnel->due & DUE_CLOSE || tunnel->lingering) status = tunnel->status; /* it has ended before */
    tunnel->over = true;
    tunnel->due |= DUE_CLOSE;
    tunnel->channel.events->on_close(&tunnel->channel, status);
    detach(tunnel);
    uvhttp__http2_set_due(tunnel->connection);
    uvhttp__free(tunnel);
}

void uvhttp__http2_tunnel_stop(uvhttp__http2_tunnel_t *tunnel) {
    if (!conn_of(tunnel)->loop->draining || tunnel->over || tunnel->notified_stop) return;
    tunnel->notified_stop = true;
    tunnel->channel.events->on_stop(&tunnel->channel);
}

/* --- what is sent --- */

/* Whether the connection may keep so much more. What waits for a window that is open leaves soon, and the only stream
 * is bounded by its own queue, as over HTTP/1. */
static bool may_keep(const uvhttp__http2_tunnel_t *tunnel, size_t size) {
    const uvhttp__http2_connection_t *connection = tunnel->connection;
    return connection->core.stream_count == 1 || uvhttp__http2_capacity(&connection->core, tunnel->stream) > 0 ||
           uvhttp__http2_memory(connection) + size <= connection->of_loop->limits.connection_memory_max;
}

static void cut_greedy(uvhttp__http2_tunnel_t *tunnel) {
    tunnel->connection->of_loop->counters.memory_exceeded++;
    uvhttp__http2_tunnel_cut(tunnel, UVHTTP__HTTP2_ENHANCE_YOUR_CALM, UVHTTP_E_LIMIT);
}

static int may_send(uvhttp__http2_tunnel_t *tunnel, size_t size, uvhttp__channel_capacity_t capacity) {
    if (tunnel->over || !uvhttp__http2_writable(tunnel->stream)) return UVHTTP_E_CLOSED;
    if (tunnel->outgoing.size + size > capacity.queue_max) return UVHTTP_E_LIMIT;
    if (may_keep(tunnel, size)) return UVHTTP_OK;
    cut_greedy(tunnel);
    return UVHTTP_E_CLOSED;
}

static int queued_status(uvhttp__http2_tunnel_t *tunnel, int status, uvhttp__channel_capacity_t capacity) {
    if (status != UVHTTP_OK) return status;
    account(tunnel);
    if (tunnel->outgoing.size > 0) uvhttp__http2_want(&tunnel->connection->core, tunnel->stream, true);
    check_what_waits(tunnel);
    uvhttp__http2_set_due(tunnel->connection);
    if (tunnel->outgoing.size <= capacity.high_watermark) return UVHTTP_OK;
    tunnel->pressed = true;
    return UVHTTP_E_AGAIN;
}

static int send_copy(uvhttp__http2_tunnel_t *tunnel, uvhttp_str_t head, uvhttp_str_t rest,
                     uvhttp__channel_capacity_t capacity) {
    int status = may_send(tunnel, head.size + rest.size, capacity);
    if (status != UVHTTP_OK || head.size + rest.size == 0) return status;
    return queued_status(tunnel, uvhttp__outgoing_put_copy(&tunnel->outgoing, head, rest), capacity);
}

static int send_parts(uvhttp__channel_t *channel, const uvhttp__channel_parts_t *parts,
                      uvhttp__channel_capacity_t capacity) {
    const uvhttp_str_t head = {parts->head, parts->head_size}, rest = {parts->data, parts->size};
    return send_copy(tunnel_of(channel), head, rest, capacity);
}

/* Iteration memory does not last until a window opens. */
static int send_iteration(uvhttp__channel_t *channel, const char *data, size_t size,
                          uvhttp__channel_capacity_t capacity) {
    return send_copy(tunnel_of(channel), (uvhttp_str_t){data, size}, (uvhttp_str_t){NULL, 0}, capacity);
}

static int send_reference(uvhttp__channel_t *channel, uvhttp_str_t data, void (*release)(void *arg), void *arg,
                          uvhttp__channel_capacity_t capacity) {
    uvhttp__http2_tunnel_t *tunnel = tunnel_of(channel);
    const uvhttp__keeper_t keeper = {release, arg};
    int status = may_send(tunnel, data.size, capacity);
    if (status != UVHTTP_OK || data.size == 0) {
        uvhttp__keeper_release(keeper);
        return status;
    }
    return queued_status(tunnel, uvhttp__outgoing_put_reference(&tunnel->outgoing, data, keeper), capacity);
}

static void after_last_piece(uvhttp__http2_tunnel_t *tunnel) {
    if (uvhttp__http2_writable(tunnel->stream)) uvhttp__http2_want(&tunnel->connection->core, tunnel->stream, false);
    if (tunnel->outgoing.ended)
        after_end(tunnel);
    else if (tunnel->pressed)
        set_due(tunnel, DUE_DRAIN);
}

void uvhttp__http2_tunnel_send(uvhttp__http2_tunnel_t *tunnel, uint32_t size) {
    uvhttp__outgoing_t *outgoing = &tunnel->outgoing;
    uvhttp__piece_t piece;
    uvhttp__keeper_t keeper;
    int status = uvhttp__outgoing_peek(outgoing, false, &piece);
    if (status == UVHTTP_OK && piece.size > size) piece.size = size;
    if (status == UVHTTP_OK) status = uvhttp__outgoing_consume(outgoing, piece.size, &keeper);
    if (status != UVHTTP_OK) {
        uvhttp__http2_tunnel_cut(tunnel, UVHTTP__HTTP2_INTERNAL_ERROR, status);
        return;
    }
    tunnel->sent += piece.size;
    account(tunnel);
    bool end = outgoing->ended && outgoing->size == 0;
    bool written = uvhttp__http2_wire_data(tunnel->connection, tunnel->stream, &piece, keeper, end);
    if (!written) return;
    if (outgoing->size == 0)
        after_last_piece(tunnel);
    else
        check_what_waits(tunnel);
}

static size_t queued(const uvhttp__channel_t *channel) {
    return (size_t)tunnel_of(channel)->outgoing.size;
}

static void check_output(uvhttp__channel_t *channel) {
    uvhttp__output_check_start(conn_of(tunnel_of(channel)));
}

/* --- what is received --- */

void uvhttp__http2_tunnels_wait(uvhttp__http2_connection_t *connection) {
    connection->tunnels_wait = true;
    uvhttp__timer_set(&uvhttp__http2_loop_of(connection)->wheel, &connection->share_timer, 0);
}

/* Whether the tunnels of this connection have to let others go first. */
static bool has_had_its_share(uvhttp__http2_tunnel_t *tunnel) {
    if (uvhttp__http2_has_share(&tunnel->connection->core)) return false;
    uvhttp__counters_add(&conn_of(tunnel)->loop->counters, budget_exhausted, 1);
    uvhttp__http2_tunnels_wait(tunnel->connection);
    return true;
}

/* Returns how many bytes were consumed: their credit goes back. */
static size_t give(uvhttp__http2_tunnel_t *tunnel, char *data, size_t size) {
    size_t used = 0, piece_max = uvhttp__http2_config(tunnel->connection)->read_buffer_size;
    while (used < size && !tunnel->paused && !tunnel->over && !has_had_its_share(tunnel)) {
        size_t piece = size - used < piece_max ? size - used : piece_max;
        size_t consumed = tunnel->channel.events->on_data(&tunnel->channel, data + used, piece);
        used += consumed;
    }
    if (tunnel->over) used = size;
    uvhttp__http2_consume(&tunnel->connection->core, tunnel->stream, used);
    return used;
}

static void give_held(uvhttp__http2_tunnel_t *tunnel) {
    uvhttp__http2_held_t *held = &tunnel->held;
    if (held->size > 0) {
        size_t used = give(tunnel, held->data + held->at, held->size);
        held->at += (uint32_t)used;
        held->size -= (uint32_t)used;
    }
    if (held->size > 0) return;
    drop_held(tunnel);
    if (tunnel->over || !tunnel->ended_in || tunnel->notified_end || tunnel->paused) return;
    tunnel->notified_end = true;
    tunnel->channel.events->on_end(&tunnel->channel);
}

static void continue_tunnel(uvhttp__http2_stream_t *stream, void *arg) {
    (void)arg;
    uvhttp__http2_tunnel_t *tunnel = stream->flags & UVHTTP__HTTP2_TUNNEL ? stream->user : NULL;
    if (tunnel && tunnel->held.size > 0 && !tunnel->over) give_held(tunnel);
}

void uvhttp__http2_tunnels_continue(uvhttp__http2_connection_t *connection) {
    connection->tunnels_wait = false;
    uvhttp__http2_each_stream(&connection->core, continue_tunnel, NULL);
}

static void hold(uvhttp__http2_tunnel_t *tunnel, const char *data, size_t size) {
    const uvhttp__http2_connection_t *connection = tunnel->connection;
    uint32_t before = tunnel->held.capacity;
    if (uvhttp__http2_hold(&tunnel->held, data, size) != UVHTTP_OK) {
        uvhttp__http2_tunnel_cut(tunnel, UVHTTP__HTTP2_INTERNAL_ERROR, UVHTTP_E_NOMEM);
        return;
    }
    account(tunnel);
    bool fits = tunnel->held.capacity == before || connection->core.stream_count == 1 ||
                uvhttp__http2_memory(connection) <= connection->of_loop->limits.connection_memory_max;
    if (!fits) cut_greedy(tunnel);
}

void uvhttp__http2_tunnel_data(uvhttp__http2_tunnel_t *tunnel, uvhttp_str_t data, bool end) {
    if (end) tunnel->ended_in = true;
    if (tunnel->over) {
        uvhttp__http2_consume(&tunnel->connection->core, tunnel->stream, data.size);
        if (tunnel->lingering && end) set_due(tunnel, DUE_CLOSE);
        return;
    }
    size_t used = 0;
    if (tunnel->held.size == 0) used = give(tunnel, (char *)(uintptr_t)data.data, data.size); /* ours in this call */
    if (used < data.size) hold(tunnel, data.data + used, data.size - used);
    if (tunnel->ended_in && tunnel->over && tunnel->lingering)
        set_due(tunnel, DUE_CLOSE);
    else if (end)
        set_due(tunnel, DUE_GIVE);
}

static bool spend(uvhttp__channel_t *channel, uint32_t *requests) {
    return uvhttp__http2_spend(&tunnel_of(channel)->connection->core, requests);
}

static void pause_reading(uvhttp__channel_t *channel) {
    tunnel_of(channel)->paused = true;
}

static void resume_reading(uvhttp__channel_t *channel) {
    uvhttp__http2_tunnel_t *tunnel = tunnel_of(channel);
    tunnel->paused = false;
    set_due(tunnel, DUE_GIVE);
}

/* --- the rest of the channel --- */

static void set_deadline(uvhttp__channel_t *channel, uint64_t at_ms) {
    uvhttp__http2_tunnel_t *tunnel = tunnel_of(channel);
    if (tunnel->over || tunnel->deadline_ms == at_ms) return;
    tunnel->deadline_ms = at_ms;
    arm(tunnel);
}

static int peer(uvhttp__channel_t *channel, char *text, size_t size) {
    return uvhttp_tcp_peer(conn_of(tunnel_of(channel)), text, size);
}

static const uvhttp__channel_ops_t channel_ops = {.send = send_parts,
                                                  .send_iteration = send_iteration,
                                                  .send_reference = send_reference,
                                                  .queued = queued,
                                                  .check_output = check_output,
                                                  .spend = spend,
                                                  .pause = pause_reading,
                                                  .resume = resume_reading,
                                                  .set_deadline = set_deadline,
                                                  .finish = finish,
                                                  .reset = reset,
                                                  .peer = peer};

static void do_due(uvhttp__http2_tunnel_t *tunnel) {
    unsigned due = tunnel->due;
    if (due & DUE_CLOSE) {
        uvhttp__http2_tunnel_abort(tunnel, tunnel->status);
        return;
    }
    tunnel->due = 0;
    if ((due & DUE_GIVE) && tunnel->over)
        drop_held(tunnel);
    else if (due & DUE_GIVE)
        give_held(tunnel);
    if ((due & DUE_DRAIN) && !tunnel->over && tunnel->pressed && tunnel->outgoing.size == 0) {
        tunnel->pressed = false;
        tunnel->channel.events->on_drain(&tunnel->channel);
    }
}

void uvhttp__http2_tunnels_do_due(uvhttp__http2_connection_t *connection) {
    uvhttp__list_t *node;
    while (!(connection->conn->flags & UVHTTP__CONN_CLOSED) &&
           (node = uvhttp__list_pop_front(&connection->tunnels_due)))
        do_due(UVHTTP__CONTAINER_OF(node, uvhttp__http2_tunnel_t, link));
}

/* --- the way there --- */

/* A route that is no WebSocket must not look like one that was opened. */
static void refuse_success(uvhttp_response_t *res, void *user) {
    (void)user;
    int status = uvhttp_response_status(res);
    if (status < 200 || status > 299) return;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN))
        (void)uvhttp_response_set_status(res, 501);
    else
        uvhttp__response_fail(res, 501, "Not Implemented\n");
}

int uvhttp__http2_accept_connect(uvhttp__http2_carrier_t *carrier, uvhttp_str_t protocol) {
    uvhttp__head_t *head = &carrier->exchange.request.head;
    if (!uvhttp__str_equal_nocase(protocol, UVHTTP__STR("websocket"))) {
        head->form = UVHTTP__FORM_AUTHORITY; /* as a tunnel of plain CONNECT: 501 */
        return UVHTTP_OK;
    }
    head->method = UVHTTP_GET;
    head->upgrade = true;
    carrier->connects = true;
    return uvhttp_response_on_finish(&carrier->exchange.response, refuse_success, NULL);
}

uvhttp__http2_tunnel_t *uvhttp__http2_tunnel_new(const uvhttp__http2_carrier_t *carrier) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    const uvhttp__upgrade_t *to = carrier->exchange.upgrade;
    uvhttp__http2_tunnel_t *tunnel = uvhttp__calloc(1, sizeof *tunnel);
    if (!tunnel) return NULL;
    if (uvhttp__http2_charge(&connection->core, sizeof *tunnel) != UVHTTP_OK) {
        uvhttp__free(tunnel);
        return NULL;
    }
    tunnel->charged = (uint32_t)sizeof *tunnel;
    tunnel->connection = connection;
    tunnel->stream = carrier->stream;
    uvhttp__list_init(&tunnel->link);
    uvhttp__timer_init(&tunnel->timer, connection->of_loop->tunnel_timer_kind);
    tunnel->channel = (uvhttp__channel_t){
        .ops = &channel_ops, .events = to->events, .user = to->user, .loop = uvhttp__http2_loop_of(connection)};
    uvhttp__outgoing_init(&tunnel->outgoing, NULL, NULL);
    tunnel->deadline_ms = UINT64_MAX;
    return tunnel;
}

/* What has come for it meanwhile is its from here on. */
void uvhttp__http2_tunnel_open(uvhttp__http2_tunnel_t *tunnel, uvhttp__http2_carrier_t *carrier) {
    tunnel->held = carrier->inbound->held;
    tunnel->ended_in = carrier->ended_in;
    carrier->inbound->held = (uvhttp__http2_held_t){NULL, 0, 0, 0};
    tunnel->stream->user = tunnel;
    tunnel->stream->flags |= UVHTTP__HTTP2_TUNNEL;
    /* It has no end that the others could wait for (RFC 9218 section 11). */
    uvhttp__http2_set_priority(&tunnel->connection->core, tunnel->stream, tunnel->stream->priority | 1);
    uvhttp__counters_add(&conn_of(tunnel)->loop->counters, upgrades, 1);
    uvhttp__http2_carrier_leave(carrier);
    account(tunnel);
    uvhttp__exchange_finished(&carrier->exchange);
    tunnel->channel.events->on_open(&tunnel->channel);
    uvhttp__http2_tunnel_stop(tunnel);
    if (tunnel->held.size > 0 || tunnel->ended_in) set_due(tunnel, DUE_GIVE);
}
