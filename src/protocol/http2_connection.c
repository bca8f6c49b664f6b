/* Owns: the life of a connection that speaks HTTP/2: bytes become events, what is due when an iteration ends, time, and
 * the end in two phases (RFC 9113 section 6.8). */
#include "protocol/http2_connection.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "protocol/idle.h"

static_assert(sizeof(uvhttp__http2_connection_t) <= 1280,
              "an idle connection: 1.5 KB with its session and the allocator");

static uvhttp__counters_t *counters_of(const uvhttp__http2_connection_t *connection) {
    return &connection->conn->loop->counters;
}

static uint64_t now_ms(const uvhttp__http2_connection_t *connection) {
    return uvhttp__conn_now_ms(connection->conn);
}

/* --- what a loop has --- */

/* A head within its maximum is read in frames as full as they may be, and one that is not much larger gets 431. */
static void set_block_limits(uvhttp__http2_limits_t *limits) {
    enum { SPARE_FRAMES = 4 };
    uint32_t size = 2 * limits->header_list_size_max, count = size / UVHTTP__HTTP2_FRAME_SIZE_MAX + SPARE_FRAMES;
    if (size > limits->header_block_size_max) limits->header_block_size_max = size;
    if (count > limits->continuation_frames_max) limits->continuation_frames_max = count;
}

static void set_limits(uvhttp__http2_limits_t *limits, const uvhttp_server_config_t *config) {
    uvhttp__http2_limits_default(limits);
    uint32_t quarter = config->http2_connection_window / 4;
    limits->streams_max = config->http2_concurrent_streams_max;
    limits->connection_window = config->http2_connection_window;
    limits->stream_window = config->http2_stream_window < quarter ? config->http2_stream_window : quarter;
    limits->header_table_size = config->http2_table_size_max;
    limits->header_list_size_max = config->http2_header_list_size_max;
    set_block_limits(limits);
    limits->iteration_requests_max = config->iteration_requests_max;
    limits->resets_max = config->http2_resets_max;
    limits->connection_memory_max = (uint32_t)config->http2_connection_memory_max;
}

/* With the first connection; NULL: no memory. */
static uvhttp__http2_loop_t *loop_new(uvhttp__http_loop_t *loop) {
    const uvhttp_server_config_t *config = &loop->service->config;
    const uvhttp__http2_head_limits_t head_limits = {.list_size_max = config->http2_header_list_size_max,
                                                     .target_size_max = config->request_line_max,
                                                     .header_count_max = config->header_count_max,
                                                     .connect_protocol = loop->service->has_websocket};
    uvhttp__http2_loop_t *made = uvhttp__calloc(1, sizeof *made + uvhttp__http2_scratch_size(&head_limits));
    if (!made) return NULL;
    set_limits(&made->limits, config);
    made->head_limits = head_limits;
    made->pool.protocol = &uvhttp__http2_protocol;
    made->timer_kind = uvhttp__wheel_kind(&loop->tcp->io->wheel, uvhttp__http2_carrier_on_timer, NULL);
    made->tunnel_timer_kind = uvhttp__wheel_kind(&loop->tcp->io->wheel, uvhttp__http2_tunnel_on_timer, NULL);
    made->share_timer_kind = uvhttp__wheel_kind(&loop->tcp->io->wheel, uvhttp__http2_on_share_timer, NULL);
    made->limits.connect_protocol = loop->service->has_websocket;
    uvhttp__list_init(&made->due);
    loop->http2 = made;
    return made;
}

void uvhttp__http2_loop_free(uvhttp__http_loop_t *loop) {
    uvhttp__http2_loop_t *of_loop = loop->http2;
    if (!of_loop) return;
    uvhttp__exchange_pool_free(&of_loop->pool);
    uvhttp__free(of_loop);
    loop->http2 = NULL;
}

#define TRIM_MS 1000

#define FOR_EACH_COUNTER(X)                                                                                            \
    X(streams_refused)                                                                                                 \
    X(windows_exceeded)                                                                                                \
    X(header_blocks_too_large)                                                                                         \
    X(continuation_floods)                                                                                             \
    X(settings_too_large)                                                                                              \
    X(priorities_too_large)                                                                                            \
    X(priorities_too_early)                                                                                            \
    X(iterations_cut)                                                                                                  \
    X(control_floods)                                                                                                  \
    X(reset_floods)                                                                                                    \
    X(control_overflows)                                                                                               \
    X(memory_exceeded)                                                                                                 \
    X(resets_received)                                                                                                 \
    X(resets_sent)                                                                                                     \
    X(connection_errors)                                                                                               \
    X(length_mismatches)

static NOINLINE void move_counters(uvhttp__http2_counters_t *from, uvhttp__counters_t *to) {
#define MOVE(name)                                                                                                     \
    if (from->name > 0) uvhttp__counters_add(to, http2_##name, from->name);
    FOR_EACH_COUNTER(MOVE)
#undef MOVE
    memset(from, 0, sizeof *from);
}

/* What the core has counted becomes the loop's. */
static inline void take_counters(const uvhttp__http2_connection_t *connection) {
    uvhttp__http2_counters_t *from = &connection->of_loop->counters;
    uint64_t any = 0;
#define ANY(name) any |= from->name;
    FOR_EACH_COUNTER(ANY)
#undef ANY
    if (UNLIKELY(any != 0)) move_counters(from, counters_of(connection));
}

/* --- the end --- */

/* GOAWAY, if it was not sent, says which streams were served. What is queued leaves, then FIN. */
static void finish(uvhttp__http2_connection_t *connection) {
    if (connection->ended) return;
    uvhttp__http2_shutdown_now(&connection->core);
    uvhttp__http2_wire_flush(connection);
    connection->ended = true;
    uvhttp__conn_finish(connection->conn);
}

static void abort_stream(uvhttp__http2_stream_t *stream, void *arg) {
    uvhttp__http2_connection_t *connection = arg;
    uvhttp__http2_carrier_t *carrier = stream->user;
    int status = connection->conn->close_status < 0 ? connection->conn->close_status : UVHTTP_E_ABORTED;
    if (stream->flags & UVHTTP__HTTP2_TUNNEL)
        uvhttp__http2_tunnel_abort(stream->user, status);
    else if (carrier)
        uvhttp__http2_carrier_abort(carrier, status);
    else
        uvhttp__http2_release(&connection->core, stream);
}

/* The core has failed: GOAWAY is the last that is sent, and nobody waits for a response any more. */
static void end_failed(uvhttp__http2_connection_t *connection, int code) {
    uvhttp__counters_error(counters_of(connection), code);
    connection->conn->close_status = (int16_t)code;
    finish(connection);
    uvhttp__http2_each_stream(&connection->core, abort_stream, connection);
}

/* --- time --- */

static uint64_t after(uint64_t since_ms, uint64_t seconds) {
    return seconds == UVHTTP_NEVER ? UINT64_MAX : since_ms + seconds * 1000;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Our SETTINGS have to be acknowledged, which also needs the preface of the client. */
static uint64_t settings_deadline(const uvhttp__http2_connection_t *connection) {
    if (connection->core.settings_acked) return UINT64_MAX;
    return after(connection->opened_ms, uvhttp__http2_config(connection)->connection_timeout);
}

/* A header block, or another frame but DATA, that was begun has to become whole. */
static uint64_t frame_deadline(const uvhttp__http2_connection_t *connection) {
    if (connection->frame_ms == 0) return UINT64_MAX;
    return after(connection->frame_ms, uvhttp__http2_config(connection)->connection_timeout);
}

/* A connection in the middle of a frame is not idle: frame_deadline limits it. */
static uint64_t idle_deadline(const uvhttp__http2_connection_t *connection) {
    if (connection->core.stream_count > 0 || connection->frame_ms != 0) return UINT64_MAX;
    const uvhttp_server_config_t *config = uvhttp__http2_config(connection);
    uint32_t seconds = connection->request_count > 0 ? config->keepalive_timeout : config->connection_timeout;
    return after(connection->idle_ms, seconds);
}

/* What bursts of streams have left behind is given back after a second without one. */
static uint64_t trim_deadline(const uvhttp__http2_connection_t *connection) {
    if (connection->core.stream_count > 0 || connection->trimmed) return UINT64_MAX;
    return connection->idle_ms + TRIM_MS;
}

/* The client has a moment to acknowledge PING. */
static uint64_t stop_deadline(const uvhttp__http2_connection_t *connection) {
    if (connection->stop_ms == 0 || connection->core.phase != UVHTTP__HTTP2_CLOSING) return UINT64_MAX;
    return connection->stop_ms + uvhttp__http2_config(connection)->drain_idle_ms;
}

static uint64_t linger_deadline(const uvhttp__http2_connection_t *connection) {
    return connection->linger_ms > 0 ? connection->linger_ms : UINT64_MAX;
}

static void arm(uvhttp__http2_connection_t *connection) {
    uint64_t at = least(least(settings_deadline(connection), frame_deadline(connection)),
                        least(idle_deadline(connection), stop_deadline(connection)));
    at = least(at, least(trim_deadline(connection), linger_deadline(connection)));
    if (at == UINT64_MAX)
        uvhttp__conn_timer_stop(connection->conn);
    else
        uvhttp__conn_timer_set(connection->conn, at);
}

/* A busy client can leave a part of a frame at the end of every read: each request restarts the time of the part. */
static void note_progress(uvhttp__http2_connection_t *connection) {
    const uvhttp__http2_t *core = &connection->core;
    bool in_part = uvhttp__http2_in_frame(core) && (core->block_stream_id != 0 || core->frame_type != 0);
    if (!in_part) {
        connection->frame_ms = 0;
    } else if (connection->frame_ms == 0 || connection->frame_count != connection->request_count) {
        connection->frame_count = connection->request_count;
        connection->frame_ms = now_ms(connection);
    }
    if (core->stream_count > 0) {
        connection->idle_count = UINT32_MAX;
    } else if (connection->idle_count != connection->request_count) {
        connection->idle_count = connection->request_count;
        connection->idle_ms = now_ms(connection);
        connection->trimmed = false;
        uvhttp__conn_idle(connection->conn);
    }
}

/* --- what is due --- */

static void do_due(uvhttp__http2_carrier_t *carrier) {
    unsigned due = carrier->due;
    carrier->due = 0;
    if (due & UVHTTP__HTTP2_DUE_CUT) {
        uvhttp__http2_carrier_abort(carrier, carrier->cut_code < 0 ? carrier->cut_code : UVHTTP_E_ABORTED);
        return;
    }
    uvhttp__http2_stream_t *stream = carrier->stream;
    uint32_t id = stream->id;
    if (due & UVHTTP__HTTP2_DUE_BODY) {
        if (!carrier->responded) uvhttp__http2_give_held(carrier);
        if (!uvhttp__http2_carrier_is_at(carrier, stream, id)) return;
    }
    if ((due & UVHTTP__HTTP2_DUE_WRITABLE) && !carrier->responded && carrier->wants_writable &&
        uvhttp__http2_carrier_left(carrier) == 0) {
        carrier->wants_writable = false;
        uvhttp__exchange_writable(&carrier->exchange);
    }
}

static void drain_stream(uvhttp__http2_stream_t *stream, void *arg) {
    uvhttp__http2_carrier_t *carrier = stream->user;
    (void)arg;
    if (stream->flags & UVHTTP__HTTP2_TUNNEL)
        uvhttp__http2_tunnel_stop(stream->user);
    else if (carrier && !carrier->responded)
        uvhttp__exchange_drain(&carrier->exchange);
}

static bool is_over(const uvhttp__http2_connection_t *connection) {
    return connection->ended || (connection->conn->flags & (UVHTTP__CONN_CLOSED | UVHTTP__CONN_FINISHING));
}

static bool has_due(const uvhttp__http2_connection_t *connection) {
    return !uvhttp__list_empty(&connection->due) || !uvhttp__list_empty(&connection->tunnels_due) ||
           connection->drain_due;
}

static NOINLINE void do_all_due(uvhttp__http2_connection_t *connection) {
    uvhttp__list_t *node;
    bool drains = connection->drain_due && !is_over(connection);
    connection->drain_due = false;
    if (drains) uvhttp__http2_each_stream(&connection->core, drain_stream, connection);
    while (!(connection->conn->flags & UVHTTP__CONN_CLOSED) && (node = uvhttp__list_pop_front(&connection->due)))
        do_due(UVHTTP__CONTAINER_OF(node, uvhttp__http2_carrier_t, link));
    uvhttp__http2_tunnels_do_due(connection);
}

/* Forever, once the client has ended its half. */
static bool waits_for_window(const uvhttp__http2_carrier_t *carrier) {
    return uvhttp__http2_carrier_left(carrier) > 0 &&
           uvhttp__http2_capacity(&carrier->connection->core, carrier->stream) == 0;
}

static void abort_starved(uvhttp__http2_stream_t *stream, void *arg) {
    (void)arg;
    uvhttp__http2_carrier_t *carrier = stream->user;
    if (!(stream->flags & UVHTTP__HTTP2_TUNNEL) && carrier && waits_for_window(carrier))
        uvhttp__http2_carrier_abort(carrier, UVHTTP_E_ABORTED);
}

/* All that can leave leaves, and what can be given is given. */
static void settle(uvhttp__http2_connection_t *connection, bool returns_credit) {
    connection->settling = true;
    do {
        if (UNLIKELY(has_due(connection))) do_all_due(connection);
        if (!is_over(connection) && connection->core.ready_mask != 0) uvhttp__http2_send_bodies(connection);
        if (UNLIKELY((connection->conn->flags & UVHTTP__CONN_PEER_ENDED) != 0) && !is_over(connection))
            uvhttp__http2_each_stream(&connection->core, abort_starved, connection);
    } while (UNLIKELY(has_due(connection)) && !(connection->conn->flags & UVHTTP__CONN_CLOSED));
    connection->settling = false;
    take_counters(connection);
    if (is_over(connection)) return;
    if (returns_credit) uvhttp__http2_return_due_credit(&connection->core);
    uvhttp__http2_wire_flush(connection);
    note_progress(connection);
    if (UNLIKELY(connection->core.phase == UVHTTP__HTTP2_FAILED))
        end_failed(connection, UVHTTP_E_HTTP2_FLOOD);
    else if (UNLIKELY(uvhttp__http2_done(&connection->core)))
        finish(connection);
    else
        arm(connection);
}

void uvhttp__http2_end_iteration(uvhttp__http2_loop_t *of_loop) {
    uvhttp__list_t *node;
    while ((node = uvhttp__list_pop_front(&of_loop->due)))
        settle(UVHTTP__CONTAINER_OF(node, uvhttp__http2_connection_t, link), true);
}

bool uvhttp__http2_is_settled(const uvhttp__http2_loop_t *of_loop) {
    return uvhttp__list_empty(&of_loop->due);
}

/* --- reading --- */

/* Whether reading has to wait for the client to take what is queued. */
static inline bool must_wait(uvhttp__http2_connection_t *connection) {
    if (LIKELY(uvhttp__http2_wire_size(connection) <= 2 * UVHTTP__HTTP2_WIRE_MAX)) return false;
    uvhttp__counters_add(counters_of(connection), write_queue_full, 1);
    connection->blocked = true; /* on_sent continues */
    uvhttp__stream_notify_sent(&connection->conn->stream);
    return true;
}

static size_t read_events(uvhttp__http2_connection_t *connection, const char *data, size_t size) {
    size_t used = 0;
    for (;;) {
        if (UNLIKELY(is_over(connection))) return size;
        if (must_wait(connection)) return used;
        uvhttp__http2_event_t event;
        size_t consumed;
        int code = uvhttp__http2_read(&connection->core, data + used, size - used, &consumed, &event);
        used += consumed;
        if (LIKELY(code == UVHTTP_OK)) code = uvhttp__http2_on_event(connection, &event);
        if (LIKELY(code == UVHTTP_OK)) continue;
        if (LIKELY(code == UVHTTP_E_AGAIN)) return used;
        if (code == UVHTTP_E_LIMIT) {
            uvhttp__counters_add(counters_of(connection), budget_exhausted, 1);
            uvhttp__stream_resume(&connection->conn->stream); /* behind the others */
            return used;
        }
        end_failed(connection, code);
        return size;
    }
}

void uvhttp__http2_enter_iteration(uvhttp__http2_connection_t *connection) {
    uint32_t iteration = uvhttp__http2_loop_of(connection)->iteration_number;
    if (connection->iteration == iteration) return;
    connection->iteration = iteration;
    uvhttp__http2_begin_iteration(&connection->core, now_ms(connection));
    uvhttp__http2_count_orphans(connection);
    if (UNLIKELY(connection->tunnels_wait)) uvhttp__http2_tunnels_continue(connection);
}

UVHTTP__HOT size_t uvhttp__http2_on_data(uvhttp__conn_t *conn, const char *data, size_t size) {
    uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    if (UNLIKELY(is_over(connection))) return size;
    connection->reading = true;
    uvhttp__http2_enter_iteration(connection);
    size_t used = read_events(connection, data, size);
    connection->reading = false;
    settle(connection, false);
    if (UNLIKELY(connection->core.credit_stream_id != 0)) uvhttp__http2_set_due(connection);
    return used;
}

/* --- the rest of a connection's life --- */

static uvhttp__http2_connection_t *connection_new(uvhttp__conn_t *conn) {
    uvhttp__http_loop_t *loop = conn->loop->user;
    uvhttp__http2_loop_t *of_loop = loop->http2 ? loop->http2 : loop_new(loop);
    uvhttp__http2_connection_t *made = of_loop ? uvhttp__calloc(1, sizeof *made) : NULL;
    if (!made) return NULL;
    made->orphans = uvhttp__orphans_new();
    if (!made->orphans ||
        uvhttp__http2_init(&made->core, &of_loop->limits, &of_loop->counters, uvhttp__conn_now_ms(conn)) != UVHTTP_OK) {
        uvhttp__free(made->orphans);
        uvhttp__free(made);
        return NULL;
    }
    made->conn = conn;
    made->of_loop = of_loop;
    uvhttp__hpack_decoder_init(&made->decoder);
    uvhttp__hpack_encoder_init(&made->encoder);
    uvhttp__list_init(&made->link);
    uvhttp__list_init(&made->due);
    uvhttp__list_init(&made->tunnels_due);
    uvhttp__timer_init(&made->share_timer, of_loop->share_timer_kind);
    made->opened_ms = made->idle_ms = uvhttp__conn_now_ms(conn);
    made->iteration = conn->stream.loop->iteration_number - 1;
    return made;
}

void uvhttp__http2_on_open(uvhttp__conn_t *conn) {
    uvhttp__http2_connection_t *connection = connection_new(conn);
    ((uvhttp__http2_session_t *)(void *)conn)->connection = connection;
    if (!connection) {
        uvhttp__conn_close(conn, UVHTTP_E_NOMEM);
        return;
    }
    connection->core.user = connection;
    uvhttp__counters_add(counters_of(connection), http2_connections, 1);
    uvhttp__conn_idle(conn);
    uvhttp__http2_set_due(connection);                           /* our SETTINGS are the first that is sent */
    if (uvhttp__conn_drains(conn)) uvhttp__http2_on_drain(conn); /* its preface came behind the start of the drain */
}

bool uvhttp__http2_is_idle(const uvhttp__conn_t *conn) {
    const uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    return connection && connection->core.stream_count == 0 && !uvhttp__http2_in_frame(&connection->core) &&
           !connection->blocked && connection->core.settings_acked && uvhttp__http2_wire_size(connection) == 0;
}

void uvhttp__http2_on_evict(uvhttp__conn_t *conn) {
    uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    uvhttp__http2_shutdown_now(&connection->core);
    settle(connection, true);
}

bool uvhttp__http2_is_new(const uvhttp__conn_t *conn) {
    return uvhttp__http2_of(conn)->request_count == 0;
}

const char *uvhttp__http2_describe(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_DESCRIPTION_MAX]) {
    const uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    uint32_t count = connection ? connection->request_count : 0;
    snprintf(text, UVHTTP__CONN_DESCRIPTION_MAX, "HTTP/2, %u request%s", count, count == 1 ? "" : "s");
    return text;
}

uvhttp__conn_phase_t uvhttp__http2_phase(const uvhttp__conn_t *conn) {
    const uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    if (!connection) return UVHTTP__PHASE_IDLE;
    if (connection->core.stream_count > 0) return UVHTTP__PHASE_WRITING;
    return connection->frame_ms ? UVHTTP__PHASE_READING : UVHTTP__PHASE_IDLE;
}

/* Whoever waits for a response may have it, if the server lets clients end their half first. */
static void end_stream(uvhttp__http2_stream_t *stream, void *arg) {
    uvhttp__http2_carrier_t *carrier = stream->user;
    uvhttp__http2_connection_t *connection = arg;
    if (stream->flags & UVHTTP__HTTP2_TUNNEL)
        uvhttp__http2_tunnel_abort(stream->user, UVHTTP_E_ABORTED);
    else if (!carrier)
        uvhttp__http2_release(&connection->core, stream);
    else if (!carrier->responded && (carrier->body_open || !uvhttp__exchange_half_closed(&carrier->exchange)))
        uvhttp__http2_carrier_abort(carrier, UVHTTP_E_ABORTED);
}

/* FIN of the client: no stream follows. Those that wait for a window are settle's. What tunnels have not been given yet
 * came before it. */
void uvhttp__http2_on_end(uvhttp__conn_t *conn) {
    uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    if (!connection || is_over(connection)) return;
    connection->end_waits = connection->tunnels_wait;
    if (connection->end_waits) return;
    uvhttp__http2_each_stream(&connection->core, end_stream, connection);
    uvhttp__http2_shutdown_now(&connection->core);
    settle(connection, true);
}

void uvhttp__http2_on_share_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    uvhttp__http2_connection_t *connection = UVHTTP__CONTAINER_OF(timer, uvhttp__http2_connection_t, share_timer);
    if (is_over(connection)) return;
    uvhttp__http2_enter_iteration(connection);
    uvhttp__http2_set_due(connection);
    if (connection->tunnels_wait)
        uvhttp__http2_tunnels_wait(connection); /* they have had the share of this iteration, too */
    else if (connection->end_waits)
        uvhttp__http2_on_end(connection->conn);
}

void uvhttp__http2_on_sent(uvhttp__conn_t *conn) {
    uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    if (!connection || is_over(connection)) return;
    if (connection->blocked) {
        connection->blocked = false;
        uvhttp__stream_resume(&conn->stream);
    }
    settle(connection, true);
}

/* Each stream lingers for one whole interval. */
static void end_lingering(uvhttp__http2_stream_t *stream, void *arg) {
    uvhttp__http2_connection_t *connection = arg;
    if (stream->user || !(stream->flags & UVHTTP__HTTP2_LOCAL_ENDED)) return;
    if (stream->flags & UVHTTP__HTTP2_LINGERED) {
        uvhttp__http2_release(&connection->core, stream);
        return;
    }
    stream->flags |= UVHTTP__HTTP2_LINGERED;
    connection->linger_ms = now_ms(connection) + UVHTTP__HTTP2_LINGER_MS;
}

/* Nothing was asked for some time. */
static void end_idle(uvhttp__http2_connection_t *connection) {
    uvhttp__count_idle_end(connection->conn, connection->request_count);
    uvhttp__http2_shutdown_now(&connection->core);
}

void uvhttp__http2_on_timer(uvhttp__conn_t *conn) {
    uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    if (!connection || is_over(connection)) return;
    uint64_t now = now_ms(connection);
    if (now >= settings_deadline(connection)) {
        uvhttp__counters_add(counters_of(connection), timeouts_header, 1);
        end_failed(connection, uvhttp__http2_fail(&connection->core, UVHTTP__HTTP2_SETTINGS_TIMEOUT));
        return;
    }
    if (now >= frame_deadline(connection)) {
        uvhttp__counters_add(counters_of(connection), timeouts_header, 1);
        end_failed(connection, uvhttp__http2_fail(&connection->core, UVHTTP__HTTP2_ENHANCE_YOUR_CALM));
        return;
    }
    if (now >= linger_deadline(connection)) {
        connection->linger_ms = 0;
        uvhttp__http2_each_stream(&connection->core, end_lingering, connection);
    }
    if (now >= trim_deadline(connection)) {
        connection->trimmed = true;
        uvhttp__http2_trim(&connection->core);
    }
    if (now >= idle_deadline(connection))
        end_idle(connection);
    else if (now >= stop_deadline(connection))
        uvhttp__http2_shutdown(&connection->core);
    settle(connection, true);
}

/* Started streams continue, and requests sent before the client knew are served. Their functions are not called in
 * here: it may be the call of another one's handler that has asked for the end. */
void uvhttp__http2_on_drain(uvhttp__conn_t *conn) {
    uvhttp__http2_connection_t *connection = uvhttp__http2_of(conn);
    if (!connection || is_over(connection)) return;
    if (connection->stop_ms == 0) {
        connection->stop_ms = now_ms(connection) > 0 ? now_ms(connection) : 1;
        uvhttp__http2_shutdown(&connection->core);
    }
    connection->drain_due = true;
    uvhttp__http2_set_due(connection);
}

void uvhttp__http2_on_closed(uvhttp__conn_t *conn) {
    uvhttp__http2_session_t *session = (uvhttp__http2_session_t *)(void *)conn;
    uvhttp__http2_connection_t *connection = session->connection;
    if (connection) {
        connection->settling = true; /* nothing is due any more */
        uvhttp__http2_each_stream(&connection->core, abort_stream, connection);
        take_counters(connection);
        uvhttp__list_remove(&connection->link);
        uvhttp__timer_stop(&conn->stream.loop->wheel, &connection->share_timer);
        uvhttp__hpack_decoder_deinit(&connection->decoder);
        uvhttp__hpack_encoder_deinit(&connection->encoder);
        uvhttp__http2_deinit(&connection->core);
        uvhttp__orphans_leave(connection->orphans);
        uvhttp__free(connection);
        session->connection = NULL;
    }
    uvhttp__conn_close_ref(conn);
}
