/* Owns: idle connections of each loop, longest idle first, and their eviction for new clients. May include: io, base,
 * obs.
 *
 * The protocol reports when a connection has become idle, but not when it is busy again: requests cost nothing here. So
 * a connection in the list may be busy, but none has been idle for longer than its idle_since says. A busy connection
 * at the head of the list is removed until it is idle again. idle_since counts in grains of the clock, so that the list
 * changes at most once per grain for a connection with many requests. Connections that became idle within one grain are
 * equal. */
#include "conn/tcp_server_internal.h"

/* While a client waits and no connection is idle: when to look again, ms. */
#define RETRY_MS 20
/* How long a client has from its connection to its first bytes, and from a response to its acknowledgement, before it
 * counts as idle or slow: a round trip and a little. */
#define RECENT_MS 250
/* How many connections that are settling are passed over in the search for an idle one. */
#define PASSED_MAX 16

static uvhttp__conn_t *front_of(const uvhttp__tcp_loop_t *loop) {
    uvhttp__list_t *node = uvhttp__list_front(&loop->idle);
    return node ? UVHTTP__CONTAINER_OF(node, uvhttp__conn_t, link) : NULL;
}

/* Other loops choose by this whose idle connection goes. */
static void publish(uvhttp__tcp_loop_t *loop) {
    const uvhttp__conn_t *front = front_of(loop);
    atomic_store_explicit(&loop->idle_oldest, front ? front->stream.idle_since : 0, memory_order_relaxed);
}

/* The clock of idle_since wraps after years. */
static bool is_older(uint32_t a, uint32_t b) {
    return (int32_t)(a - b) < 0;
}

void uvhttp__conn_set_idle(uvhttp__conn_t *conn, uint32_t since) {
    uvhttp__tcp_loop_t *loop = conn->loop;
    conn->stream.idle_since = since;
    if (loop->draining) return; /* all are in loop->conns, and none is evicted */
    uvhttp__list_remove(&conn->link);
    uvhttp__list_push_back(&loop->idle, &conn->link);
    publish(loop);
}

void uvhttp__conn_set_busy(uvhttp__conn_t *conn) {
    uvhttp__tcp_loop_t *loop = conn->loop;
    if (conn->stream.idle_since == 0) return;
    conn->stream.idle_since = 0;
    uvhttp__list_remove(&conn->link);
    uvhttp__list_push_back(&loop->conns, &conn->link);
    publish(loop);
}

void uvhttp__conn_unlink(uvhttp__conn_t *conn) {
    uvhttp__list_remove(&conn->link);
    publish(conn->loop);
}

void uvhttp__tcp_loop_idle_drain(uvhttp__tcp_loop_t *loop) {
    uvhttp__list_splice(&loop->conns, &loop->idle);
    publish(loop);
}

/* Whether the connection waits for its client's next request. It does not while its client takes a response: the kernel
 * may hold all of that, but a request that arrives after the close would reset the connection and drop it. */
static bool waits_for_client(const uvhttp__conn_t *conn) {
    const uint16_t busy = UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED | UVHTTP__CONN_CHECKED | UVHTTP__CONN_PROXY |
                          UVHTTP__CONN_HANDSHAKE;
    const uvhttp__conn_ops_t *ops = uvhttp__conn_ops(conn);
    return !(conn->flags & busy) && ops->is_idle && ops->is_idle(conn);
}

bool uvhttp__conn_is_served(const uvhttp__conn_t *conn) {
    if (conn->flags & (UVHTTP__CONN_LINGERING | UVHTTP__CONN_CLOSED)) return false;
    return uvhttp__stream_out_size(&conn->stream) > 0 || !waits_for_client(conn);
}

static bool receives_response(const uvhttp__conn_t *conn) {
    return uvhttp__stream_acknowledged(&conn->stream).held > 0;
}

/* Bytes that have arrived are a request, although nobody has looked at them yet: the connection is busy. */
static bool is_idle(const uvhttp__conn_t *conn) {
    return waits_for_client(conn) && !uvhttp__stream_unread(&conn->stream) && !receives_response(conn);
}

/* It leaves the list until it is idle. The kernel took the response at once, so that nobody looks at how its client
 * takes it: from now on that is checked, and the end of the check brings the connection back. */
static void pass_over(uvhttp__conn_t *conn) {
    uvhttp__conn_set_busy(conn);
    if (waits_for_client(conn) && receives_response(conn)) uvhttp__output_check_start(conn);
}

void uvhttp__conn_output_acknowledged(uvhttp__conn_t *conn) {
    if (waits_for_client(conn)) uvhttp__conn_idle(conn);
}

/* The response has been made in this iteration and leaves at its end. */
static bool is_leaving(const uvhttp__conn_t *conn) {
    return uvhttp__stream_out_size(&conn->stream) > 0 && conn->stream.idle_since == uvhttp__conn_idle_clock(conn);
}

static bool is_recent(const uvhttp__conn_t *conn) {
    uint32_t grains = uvhttp__conn_idle_clock(conn) - conn->stream.idle_since;
    return grains <= RECENT_MS / UVHTTP__CONN_IDLE_GRAIN_MS;
}

/* It is about to be idle, or to ask: its client has yet to acknowledge the response, or to send its first bytes. */
static bool is_settling(const uvhttp__conn_t *conn) {
    if (is_leaving(conn)) return true;
    if (!is_recent(conn) || !waits_for_client(conn)) return false;
    return receives_response(conn) || (uvhttp__conn_ops(conn)->is_new(conn) && !uvhttp__stream_unread(&conn->stream));
}

/* The loop with the connection that has been idle for the longest time; NULL: no connection is idle. */
static uvhttp__tcp_loop_t *find_oldest(uvhttp__tcp_server_t *tcp_server) {
    uvhttp__tcp_loop_t *found = NULL;
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) {
        uint32_t since = atomic_load_explicit(&tcp_server->loops[i].idle_oldest, memory_order_relaxed);
        if (since == 0 || (found && !is_older(since, oldest))) continue;
        found = &tcp_server->loops[i];
        oldest = since;
    }
    return found;
}

/* Asks a loop to close its longest idle connection. Any thread of a loop: a message, also to the loop's own thread,
 * because nothing that was sent on an idle connection may be on its way to the kernel when it is closed. */
static void ask(uvhttp__tcp_loop_t *loop) {
    atomic_fetch_add(&loop->evictions_asked, 1);
    if (!atomic_exchange(&loop->evict_posted, true)) uvhttp__loop_post(loop->io, &loop->evict_post);
}

/* The longest idle connection of this loop that can be closed now, or NULL. Busy ones leave the list. */
static uvhttp__conn_t *find_idle(uvhttp__tcp_loop_t *loop) {
    uvhttp__list_t *node, *after;
    int passed = 0;
    UVHTTP__LIST_FOREACH_SAFE(node, after, &loop->idle) {
        uvhttp__conn_t *conn = UVHTTP__CONTAINER_OF(node, uvhttp__conn_t, link);
        if (is_settling(conn)) {
            if (++passed == PASSED_MAX) return NULL;
        } else if (uvhttp__stream_out_size(&conn->stream) == 0 && is_idle(conn)) {
            return conn;
        } else {
            pass_over(conn);
        }
    }
    return NULL;
}

static void give_up(uvhttp__conn_t *conn) {
    const uvhttp__conn_ops_t *ops = uvhttp__conn_ops(conn);
    conn->flags |= UVHTTP__CONN_EVICTED;
    if (ops->on_evict)
        ops->on_evict(conn);
    else
        uvhttp__conn_close(conn, UVHTTP_OK);
}

/* Closes the longest idle connection of this loop. If another loop has one that is idle for longer, that loop evicts
 * instead; by now this loop knows which of its own are idle. */
static void evict(uvhttp__tcp_loop_t *loop) {
    uvhttp__conn_t *conn = find_idle(loop);
    uvhttp__tcp_loop_t *oldest = find_oldest(loop->tcp_server);
    if (oldest && oldest != loop &&
        (!conn ||
         is_older(atomic_load_explicit(&oldest->idle_oldest, memory_order_relaxed), conn->stream.idle_since))) {
        ask(oldest);
    } else if (conn) {
        uvhttp__conn_set_busy(conn);
        uvhttp__counters_add(&loop->counters, connections_evicted, 1);
        give_up(conn);
    }
}

/* While the kernel refuses flushed entries, a connection whose response is among them looks idle, and closing it would
 * cut the response off: none is closed. The waiting loop asks again. */
void uvhttp__tcp_loop_on_evict_post(uvhttp__post_t *post) {
    uvhttp__tcp_loop_t *loop = UVHTTP__CONTAINER_OF(post, uvhttp__tcp_loop_t, evict_post);
    atomic_store(&loop->evict_posted, false);
    uint32_t asked = atomic_exchange(&loop->evictions_asked, 0);
    for (; asked > 0 && !loop->draining && uvhttp__loop_is_current(loop->io); asked--) evict(loop);
}

void uvhttp__tcp_loop_make_place(uvhttp__tcp_loop_t *loop, bool again) {
    if (!loop->tcp_server->options.ops->is_idle) return; /* it never is */
    uvhttp__tcp_loop_t *oldest = find_oldest(loop->tcp_server);
    if (oldest && !(again && atomic_load(&oldest->evictions_asked) > 0)) ask(oldest);
    /* It may be busy after all, or none is idle yet. */
    uvhttp__timer_set(&loop->io->wheel, &loop->place_timer, loop->io->now_ms + RETRY_MS);
}
