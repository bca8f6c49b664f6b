/* Owns: the check that peers acknowledge queued output (conn.h). Bytes that the kernel accepted prove nothing: it
 * may hold megabytes for a peer that reads nothing. Therefore the number of acknowledged bytes is read once a second
 * while output is queued.
 *
 * A check shares the connection's timer: it is set to the earlier of the upper layer's deadline and the next look. Its
 * memory is an entry in a table of the loop, so that a connection without a check costs 4 bytes. May include: io, base,
 * obs. */
#include "base/alloc.h"
#include "conn/tcp_server_internal.h"

#define FIRST_SLOTS 64

static uvhttp__output_check_t *check_of(const uvhttp__conn_t *conn) {
    return &conn->loop->output_checks[conn->output_check];
}

static const uvhttp__rate_limits_t *limits_of(const uvhttp__conn_t *conn) {
    const uvhttp__tcp_server_options_t *options = &conn->loop->tcp_server->options;
    if (conn->flags & UVHTTP__CONN_FINISHING) return &options->finish;
    bool upper = !(conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE));
    const uvhttp__conn_ops_t *ops = uvhttp__conn_ops(conn);
    return upper && ops->output_limits ? ops->output_limits(conn) : &options->output;
}

/* 0: out of memory. */
static uint32_t take_slot(uvhttp__tcp_loop_t *loop) {
    uint32_t slot = loop->output_check_free;
    if (slot > 0) {
        loop->output_check_free = loop->output_checks[slot].next_free;
        return slot;
    }
    if (loop->output_check_count == loop->output_check_capacity) {
        uint32_t capacity = loop->output_check_capacity ? loop->output_check_capacity * 2 : FIRST_SLOTS;
        uvhttp__output_check_t *grown = uvhttp__realloc(loop->output_checks, capacity * sizeof *grown);
        if (!grown) return 0;
        if (loop->output_check_count == 0) loop->output_check_count = 1;
        loop->output_checks = grown;
        loop->output_check_capacity = capacity;
    }
    return loop->output_check_count++;
}

static void arm(uvhttp__conn_t *conn) {
    const uvhttp__output_check_t *check = check_of(conn);
    uint64_t at = check->look_ms < check->deadline_ms ? check->look_ms : check->deadline_ms;
    uvhttp__timer_set(&conn->stream.loop->wheel, &conn->timer, at);
}

void uvhttp__output_check_start(uvhttp__conn_t *conn) {
    if (conn->flags & (UVHTTP__CONN_CHECKED | UVHTTP__CONN_CLOSED)) return;
    uint32_t slot = take_slot(conn->loop);
    if (slot == 0) return; /* it is asked for again */
    bool timed = uvhttp__timer_active(&conn->timer);
    uint64_t now_ms = uvhttp__conn_now_ms(conn);
    conn->output_check = slot;
    conn->flags |= UVHTTP__CONN_CHECKED;
    uvhttp__output_check_t *check = check_of(conn);
    check->given = (uvhttp__given_t){0};
    check->look_ms = now_ms + UVHTTP__RATE_INTERVAL_MS;
    check->deadline_ms = timed ? uvhttp__timer_deadline(&conn->timer) / UVHTTP__TICKS_PER_MS : UINT64_MAX;
    /* What it has acknowledged before is not known: the first second is for nothing. */
    uvhttp__rate_start(&check->rate, limits_of(conn), 0, now_ms);
    arm(conn);
}

void uvhttp__output_begin_end(uvhttp__conn_t *conn) {
    uvhttp__rate_limits_t before = *limits_of(conn);
    conn->flags |= UVHTTP__CONN_FINISHING;
    if (!(conn->flags & UVHTTP__CONN_CHECKED)) return;
    const uvhttp__rate_limits_t *limits = limits_of(conn);
    bool timed = before.timeout > 0 && before.timeout <= limits->timeout; /* that of the end is never 0 */
    uvhttp__rate_t *rate = &check_of(conn)->rate;
    if (!timed || before.rate < limits->rate) uvhttp__rate_start(rate, limits, rate->bytes, uvhttp__conn_now_ms(conn));
}

void uvhttp__output_check_end(uvhttp__conn_t *conn) {
    uvhttp__tcp_loop_t *loop = conn->loop;
    check_of(conn)->next_free = loop->output_check_free;
    loop->output_check_free = conn->output_check;
    conn->output_check = 0;
    conn->flags &= (uint16_t)~UVHTTP__CONN_CHECKED;
}

void uvhttp__output_deadline(uvhttp__conn_t *conn, uint64_t deadline_ms) {
    if (conn->flags & UVHTTP__CONN_CLOSED) return;
    check_of(conn)->deadline_ms = deadline_ms;
    arm(conn);
}

uint64_t uvhttp__output_moved_ms(const uvhttp__conn_t *conn) {
    uint64_t now_ms = uvhttp__conn_now_ms(conn);
    if (!(conn->flags & UVHTTP__CONN_CHECKED)) return now_ms;
    return now_ms - ((uint32_t)now_ms - check_of(conn)->rate.moved_ms);
}

static uvhttp__output_verdict_t check(uvhttp__conn_t *conn) {
    uvhttp__output_check_t *check = check_of(conn);
    uint64_t now_ms = uvhttp__conn_now_ms(conn);
    check->look_ms = now_ms + UVHTTP__RATE_INTERVAL_MS;
    uvhttp__acknowledged_t acknowledged = uvhttp__stream_acknowledged(&conn->stream);
    if (acknowledged.held > 0) {
        switch (uvhttp__rate_look_at_output(&check->rate, &check->given, limits_of(conn), acknowledged.bytes,
                                            acknowledged.held, now_ms)) {
            case UVHTTP__RATE_SLOW: return UVHTTP__OUTPUT_SLOW;
            case UVHTTP__RATE_STALLED: return UVHTTP__OUTPUT_STALLED;
            default: return UVHTTP__OUTPUT_WAITS;
        }
    }
    if (uvhttp__stream_out_size(&conn->stream) > 0) { /* not the peer is waited for, but who brings the rest */
        uvhttp__rate_start(&check->rate, limits_of(conn), check->rate.bytes, now_ms);
        return UVHTTP__OUTPUT_WAITS;
    }
    uint64_t deadline_ms = check->deadline_ms;
    uvhttp__output_check_end(conn);
    if (deadline_ms != UINT64_MAX) uvhttp__conn_timer_set(conn, deadline_ms);
    return UVHTTP__OUTPUT_ACKNOWLEDGED;
}

uvhttp__output_verdict_t uvhttp__output_look(uvhttp__conn_t *conn) {
    uint64_t now_ms = uvhttp__conn_now_ms(conn);
    if (now_ms >= check_of(conn)->look_ms) {
        uvhttp__output_verdict_t verdict = check(conn);
        if (verdict != UVHTTP__OUTPUT_WAITS) return verdict; /* what is due expires in the next iteration */
    }
    uvhttp__output_check_t *check = check_of(conn);
    bool due = check->deadline_ms <= now_ms;
    if (due) check->deadline_ms = UINT64_MAX;
    arm(conn);
    return due ? UVHTTP__OUTPUT_DUE : UVHTTP__OUTPUT_WAITS;
}
