/* Owns: a connection of HTTP/1 after its upgrade: the channel that it is, and the application's protocols, which get
 * the connection itself. */
#include "protocol/http1_session.h"

static uvhttp__session_t *session_of(const uvhttp__channel_t *channel) {
    return (uvhttp__session_t *)(uintptr_t)((const char *)channel - offsetof(uvhttp__session_t, channel));
}

static uvhttp__conn_t *conn_of(const uvhttp__channel_t *channel) {
    return &session_of(channel)->conn;
}

/* --- the channel --- */

static int send_parts(uvhttp__channel_t *channel, const uvhttp__channel_parts_t *parts,
                      uvhttp__channel_capacity_t capacity) {
    return uvhttp__conn_send_parts(conn_of(channel), parts, capacity);
}

static int send_iteration(uvhttp__channel_t *channel, const char *data, size_t size,
                          uvhttp__channel_capacity_t capacity) {
    return uvhttp__conn_send_iteration(conn_of(channel), data, size, capacity);
}

static int send_reference(uvhttp__channel_t *channel, uvhttp_str_t data, void (*release)(void *arg), void *arg,
                          uvhttp__channel_capacity_t capacity) {
    return uvhttp__conn_send_ref(conn_of(channel), data.data, data.size, release, arg, capacity);
}

static size_t queued(const uvhttp__channel_t *channel) {
    return uvhttp__stream_out_size(&conn_of(channel)->stream);
}

static void check_output(uvhttp__channel_t *channel) {
    uvhttp__output_check_start(conn_of(channel));
}

static bool spend(uvhttp__channel_t *channel, uint32_t *requests) {
    uvhttp__session_t *session = session_of(channel);
    uint32_t max = uvhttp__session_config(session)->iteration_requests_max;
    uint32_t left = session->iteration_requests < max ? max - session->iteration_requests : 0;
    uint32_t counted = *requests < left ? *requests : left;
    session->iteration_requests += counted;
    *requests -= counted;
    return counted < left;
}

static void pause_reading(uvhttp__channel_t *channel) {
    uvhttp_tcp_pause(conn_of(channel));
}

static void resume_reading(uvhttp__channel_t *channel) {
    uvhttp_tcp_resume(conn_of(channel));
}

static void set_deadline(uvhttp__channel_t *channel, uint64_t at_ms) {
    uvhttp__conn_t *conn = conn_of(channel);
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return; /* its timer is the end's */
    if (at_ms == UINT64_MAX)
        uvhttp__conn_timer_stop(conn);
    else
        uvhttp__conn_timer_set(conn, at_ms);
}

static void finish(uvhttp__channel_t *channel) {
    uvhttp__conn_finish(conn_of(channel));
}

static void reset(uvhttp__channel_t *channel) {
    uvhttp__conn_reset(conn_of(channel), UVHTTP_OK);
}

static int peer(uvhttp__channel_t *channel, char *text, size_t size) {
    return uvhttp_tcp_peer(conn_of(channel), text, size);
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

/* --- an application's protocol --- */

static const uvhttp_tcp_handlers_t *handlers_of(const uvhttp__channel_t *channel) {
    return channel->handlers;
}

static void raw_open(uvhttp__channel_t *channel) {
    uvhttp__conn_t *conn = conn_of(channel);
    if (handlers_of(channel)->on_open) handlers_of(channel)->on_open(conn, channel->user);
}

static size_t raw_data(uvhttp__channel_t *channel, char *data, size_t size) {
    uvhttp__conn_t *conn = conn_of(channel);
    handlers_of(channel)->on_data(conn, data, size, channel->user);
    return size;
}

static void raw_drain(uvhttp__channel_t *channel) {
    uvhttp__conn_t *conn = conn_of(channel);
    if (handlers_of(channel)->on_drain) handlers_of(channel)->on_drain(conn, channel->user);
}

static void raw_end(uvhttp__channel_t *channel) {
    uvhttp__conn_t *conn = conn_of(channel);
    if (handlers_of(channel)->on_end)
        handlers_of(channel)->on_end(conn, channel->user);
    else
        uvhttp_tcp_close(conn);
}

static void raw_timer(uvhttp__channel_t *channel) {
    uvhttp__conn_t *conn = conn_of(channel);
    if (handlers_of(channel)->on_timer) handlers_of(channel)->on_timer(conn, channel->user);
}

static void raw_stop(uvhttp__channel_t *channel) {
    uvhttp__conn_t *conn = conn_of(channel);
    if (handlers_of(channel)->on_stop)
        handlers_of(channel)->on_stop(conn, channel->user);
    else
        uvhttp_tcp_close(conn);
}

static void raw_close(uvhttp__channel_t *channel, int status) {
    uvhttp__conn_t *conn = conn_of(channel);
    if (handlers_of(channel)->on_close) handlers_of(channel)->on_close(conn, status, channel->user);
}

/* Of a protocol that we do not know nothing is asked. */
static const uvhttp__rate_limits_t *raw_output_limits(const uvhttp__channel_t *channel) {
    static const uvhttp__rate_limits_t none = {0};
    (void)channel;
    return &none;
}

static const uvhttp__channel_events_t raw_events = {.on_open = raw_open,
                                                    .on_data = raw_data,
                                                    .on_drain = raw_drain,
                                                    .on_end = raw_end,
                                                    .on_timer = raw_timer,
                                                    .on_stop = raw_stop,
                                                    .on_close = raw_close,
                                                    .output_limits = raw_output_limits};

/* --- what the session calls --- */

void uvhttp__http1_upgrade(uvhttp__http1_stream_t *stream) {
    uvhttp__session_t *session = stream->session;
    uvhttp__conn_t *conn = &session->conn;
    const uvhttp__upgrade_t to = *stream->exchange.upgrade;
    uvhttp__counters_add(&conn->loop->counters, upgrades, 1);
    UVHTTP_LOG_DEBUG("http: %s upgraded to %s after %u requests",
                     uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text),
                     to.events ? "WebSocket" : "raw bytes", session->request_count);
    stream->keep_alive = true;
    uvhttp__http1_done(stream);
    uvhttp__conn_timer_stop(conn);
    uvhttp__conn_set_busy(conn);
    session->state = UVHTTP__SESSION_UPGRADED;
    session->channel =
        (uvhttp__channel_t){.events = to.events ? to.events : &raw_events, .user = to.user, .loop = conn->stream.loop};
    if (to.events)
        session->channel.ops = &channel_ops;
    else
        session->channel.handlers = to.handlers;
    conn->user = to.user;
    session->channel.events->on_open(&session->channel);
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return;
    /* The other protocol must know what the session was notified of before. */
    if (uvhttp__conn_drains(conn)) {
        conn->flags |= UVHTTP__CONN_LAST;
        session->channel.events->on_stop(&session->channel);
    } else if (conn->flags & UVHTTP__CONN_PEER_ENDED) {
        session->channel.events->on_end(&session->channel);
    }
}

/* As the public TCP server does: bytes kept during a pause are delivered in units of one receive. */
size_t uvhttp__http1_upgraded_data(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__channel_t *channel = &session->channel;
    char *own = (char *)(uintptr_t)data; /* the loop's receive buffer, which is ours in this call */
    const uvhttp_server_config_t *config = uvhttp__session_config(session);
    size_t used = 0, piece_max = config->read_buffer_size;
    while (used < size && !(session->conn.flags & UVHTTP__CONN_PAUSED)) {
        if (session->conn.flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return size;
        if (uvhttp__session_has_had_its_share(session, config)) return used;
        size_t piece = size - used < piece_max ? size - used : piece_max;
        used += channel->events->on_data(channel, own + used, piece);
    }
    return used;
}

void uvhttp__http1_upgraded_sent(uvhttp__session_t *session) {
    if (!(session->conn.flags & UVHTTP__CONN_PRESSED)) return;
    session->conn.flags &= (uint16_t)~UVHTTP__CONN_PRESSED;
    session->channel.events->on_drain(&session->channel);
}
