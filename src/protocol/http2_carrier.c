/* Owns: the life of a carrier: it exists from the head of a request to the end of its response, or of its stream. */
#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "protocol/http2_connection.h"

static uvhttp__wheel_t *wheel_of(const uvhttp__http2_carrier_t *carrier) {
    return &uvhttp__http2_loop_of(carrier->connection)->wheel;
}

static uint64_t now_ms(const uvhttp__http2_carrier_t *carrier) {
    return uvhttp__conn_now_ms(carrier->connection->conn);
}

int uvhttp__http2_carrier_expect(uvhttp__http2_carrier_t *carrier) {
    carrier->inbound = uvhttp__arena_alloc_uncounted(&carrier->exchange.arena, sizeof *carrier->inbound,
                                                     _Alignof(uvhttp__http2_inbound_t));
    if (!carrier->inbound) return UVHTTP_E_NOMEM;
    *carrier->inbound = (uvhttp__http2_inbound_t){.trailer = {NULL, 0}};
    return UVHTTP_OK;
}

void uvhttp__http2_carrier_undo(uvhttp__http2_carrier_t *carrier) {
    if (uvhttp__list_linked(&carrier->link)) uvhttp__list_remove(&carrier->link);
    if (uvhttp__timer_active(&carrier->timer)) uvhttp__timer_stop(wheel_of(carrier), &carrier->timer);
    if (!carrier->inbound) return;
    uvhttp__free(carrier->inbound->held.data);
    uvhttp__free((char *)(uintptr_t)carrier->inbound->trailer.data);
    carrier->inbound = NULL;
}

void uvhttp__http2_linger(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream) {
    const uvhttp__conn_t *conn = connection->conn;
    if (stream->flags & UVHTTP__HTTP2_RESET || conn->flags & UVHTTP__CONN_PEER_ENDED)
        uvhttp__http2_release(&connection->core, stream);
    else if (connection->linger_ms == 0)
        connection->linger_ms = uvhttp__conn_now_ms(conn) + UVHTTP__HTTP2_LINGER_MS;
}

void uvhttp__http2_carrier_abort(uvhttp__http2_carrier_t *carrier, int status) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    uvhttp__http2_stream_t *stream = carrier->stream;
    stream->user = NULL;
    uvhttp__http2_carrier_leave(carrier);
    uvhttp__exchange_orphan(&carrier->exchange, connection->orphans);
    uvhttp__exchange_abort(&carrier->exchange, status);
    uvhttp__http2_count_orphans(connection);
    uvhttp__http2_release(&connection->core, stream);
    uvhttp__http2_set_due(connection);
}

void uvhttp__http2_carrier_set_due(uvhttp__http2_carrier_t *carrier, unsigned what) {
    carrier->due |= (uint8_t)what;
    if (!uvhttp__list_linked(&carrier->link)) uvhttp__list_push_back(&carrier->connection->due, &carrier->link);
    uvhttp__http2_set_due(carrier->connection);
}

void uvhttp__http2_carrier_cut(uvhttp__http2_carrier_t *carrier, uvhttp__http2_error_t error, int code) {
    if (!carrier->stream || (carrier->due & UVHTTP__HTTP2_DUE_CUT)) return;
    uvhttp__http2_reset(&carrier->connection->core, carrier->stream, error);
    carrier->cut_code = (int16_t)code;
    uvhttp__http2_carrier_set_due(carrier, UVHTTP__HTTP2_DUE_CUT);
}

/* --- memory --- */

uint64_t uvhttp__http2_memory(const uvhttp__http2_connection_t *connection) {
    return connection->core.memory + connection->kept + uvhttp__hpack_decoder_memory(&connection->decoder) +
           uvhttp__hpack_encoder_memory(&connection->encoder);
}

/* Bytes on the heap. */
static uint64_t kept_of(const uvhttp__http2_carrier_t *carrier) {
    const uvhttp__intake_t *intake = carrier->exchange.intake;
    const uvhttp__http2_inbound_t *inbound = carrier->inbound;
    uint64_t size = (intake ? intake->capacity : 0) + (uint64_t)carrier->copied;
    return inbound ? size + inbound->held.capacity + inbound->trailer.size : size;
}

bool uvhttp__http2_carrier_account(uvhttp__http2_carrier_t *carrier) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    uint64_t before = carrier->kept, now = kept_of(carrier);
    carrier->kept = now < UINT32_MAX ? (uint32_t)now : UINT32_MAX;
    connection->kept += carrier->kept - before;
    return carrier->kept <= before || connection->core.stream_count == 1 ||
           uvhttp__http2_memory(connection) <= connection->of_loop->limits.connection_memory_max;
}

void uvhttp__http2_carrier_cut_greedy(uvhttp__http2_carrier_t *carrier) {
    carrier->connection->of_loop->counters.memory_exceeded++;
    uvhttp__http2_carrier_cut(carrier, UVHTTP__HTTP2_ENHANCE_YOUR_CALM, UVHTTP_E_LIMIT);
}

/* --- time --- */

/* UINT64_MAX: none. No deadline is as far away as 2^31 ms. */
static uint64_t deadline_of(const uvhttp__http2_carrier_t *carrier) {
    uint64_t now = now_ms(carrier);
    return carrier->deadline ? now + (uint64_t)(int32_t)(carrier->deadline - (uint32_t)now) : UINT64_MAX;
}

void uvhttp__http2_carrier_set_deadline(uvhttp__http2_carrier_t *carrier, uint64_t at_ms) {
    uint32_t deadline = at_ms == UINT64_MAX ? 0 : (uint32_t)at_ms ? (uint32_t)at_ms : 1;
    if (carrier->deadline == deadline) return;
    carrier->deadline = deadline;
    uvhttp__http2_carrier_arm(carrier);
}

void uvhttp__http2_carrier_arm(uvhttp__http2_carrier_t *carrier) {
    uint64_t at = carrier->responded ? UINT64_MAX : deadline_of(carrier);
    uint64_t look = carrier->rate_checked ? now_ms(carrier) + UVHTTP__RATE_INTERVAL_MS : UINT64_MAX;
    if (look < at) at = look;
    uvhttp__timer_stop(wheel_of(carrier), &carrier->timer);
    if (at != UINT64_MAX) uvhttp__timer_set(wheel_of(carrier), &carrier->timer, at);
}

static const uvhttp__rate_limits_t *output_limits(const uvhttp__http2_carrier_t *carrier) {
    return &carrier->connection->conn->loop->tcp_server->options.output;
}

void uvhttp__http2_carrier_check_rate(uvhttp__http2_carrier_t *carrier) {
    if (carrier->rate_checked) return;
    carrier->rate_checked = true;
    carrier->given = 0;
    uvhttp__rate_start(&carrier->rate, output_limits(carrier), (uint32_t)carrier->exchange.response.sent_size,
                       now_ms(carrier));
    uvhttp__http2_carrier_arm(carrier);
}

/* Whether the client has what the connection had sent when this was first asked. */
static bool has_received(uvhttp__conn_t *conn, uint32_t *given) {
    uvhttp__acknowledged_t acknowledged = uvhttp__stream_acknowledged(&conn->stream);
    uint32_t left = acknowledged.held + uvhttp__stream_out_size(&conn->stream);
    if (left == 0) return true;
    uvhttp__output_check_start(conn);
    if (acknowledged.held == 0) return false; /* the counter is not known */
    if (*given == 0) *given = acknowledged.bytes + left;
    if (*given == 0) *given = 1;
    return (int32_t)(acknowledged.bytes - *given) >= 0;
}

/* Or it receives that now. A client that takes nothing is not excused by what is on its way. */
static bool receives(const uvhttp__conn_t *conn) {
    return uvhttp__conn_now_ms(conn) - uvhttp__output_moved_ms(conn) <= 2 * UVHTTP__RATE_INTERVAL_MS;
}

bool uvhttp__http2_is_late(uvhttp__conn_t *conn, uvhttp__rate_t *rate, uint32_t *given,
                           const uvhttp__rate_limits_t *limits, uint32_t sent, bool waits) {
    uint64_t now_ms = uvhttp__conn_now_ms(conn);
    bool stands = rate->bytes == sent;
    if (!stands || !waits) *given = 0;
    if (stands && (!waits || (!has_received(conn, given) && receives(conn)))) {
        uvhttp__rate_start(rate, limits, sent, now_ms);
        return false;
    }
    uvhttp__rate_verdict_t verdict = uvhttp__rate_look(rate, limits, sent, now_ms);
    if (verdict == UVHTTP__RATE_FINE) return false;
    if (verdict == UVHTTP__RATE_STALLED)
        uvhttp__counters_add(&conn->loop->counters, timeouts_write, 1);
    else
        uvhttp__counters_add(&conn->loop->counters, slow_write, 1);
    return true;
}

/* Whether what waits does so for a window of the client. */
static bool waits_for_window(const uvhttp__http2_carrier_t *carrier) {
    const uvhttp__http2_connection_t *connection = carrier->connection;
    return (carrier->stream->flags & UVHTTP__HTTP2_WANTS) &&
           uvhttp__http2_capacity(&connection->core, carrier->stream) == 0;
}

static void check_rate(uvhttp__http2_carrier_t *carrier) {
    carrier->rate_checked = uvhttp__http2_carrier_left(carrier) > 0;
    if (!carrier->rate_checked) return;
    if (!uvhttp__http2_is_late(carrier->connection->conn, &carrier->rate, &carrier->given, output_limits(carrier),
                               (uint32_t)carrier->exchange.response.sent_size, waits_for_window(carrier)))
        return;
    carrier->rate_checked = false;
    uvhttp__http2_carrier_cut(carrier, UVHTTP__HTTP2_CANCEL, UVHTTP_E_TIMEOUT);
}

void uvhttp__http2_carrier_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    uvhttp__http2_carrier_t *carrier = UVHTTP__CONTAINER_OF(timer, uvhttp__http2_carrier_t, timer);
    if (carrier->rate_checked) check_rate(carrier);
    if (carrier->due & UVHTTP__HTTP2_DUE_CUT) return;
    if (carrier->responded || deadline_of(carrier) > now_ms(carrier)) {
        uvhttp__http2_carrier_arm(carrier);
        return;
    }
    carrier->deadline = 0;
    if (carrier->rate_checked) uvhttp__http2_carrier_arm(carrier);
    uvhttp__exchange_timer(&carrier->exchange); /* it may be gone afterwards */
}
