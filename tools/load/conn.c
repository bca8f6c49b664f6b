/* Owns: one connection: connects, sends, reads and checks responses, and reconnects. May include: base, io, obs, http1.
 */
#include <string.h>

#include "load/tls.h"

/* Pause after a connection that could not be made, and between the pieces of a slow client. */
enum { RETRY_MS = 100, TICK_MS = 10, HELD_SEND_MAX = 64 * 1024 };

static load_conn_t *conn_of(uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream, load_conn_t, stream);
}

static uint64_t now_ns(const load_conn_t *conn) {
    return conn->thread->loop->now_ns;
}

static void set_timer(load_conn_t *conn, uint64_t ns) {
    uvhttp__timer_set(&conn->thread->loop->wheel, &conn->timer, (now_ns(conn) + ns + 999999) / 1000000);
}

/* --- the end of a connection --- */

static void close_now(load_conn_t *conn) {
    load_thread_t *thread = conn->thread;
    conn->state = LOAD_CONN_CLOSING;
    conn->slow_left = 0;
    uvhttp__list_remove(&conn->free);
    uvhttp__timer_stop(&thread->loop->wheel, &conn->timer);
    uvhttp__timer_stop(&thread->loop->wheel, &conn->tick);
    thread->in_flight -= conn->in_flight;
    conn->in_flight = 0;
    for (uvhttp__list_t *link; (link = uvhttp__list_pop_front(&conn->waiting));) load_flight_of(link)->request = NULL;
    uvhttp__stream_close(&conn->stream);
}

static void mark_tried(load_conn_t *conn) {
    if (conn->tried) return;
    conn->tried = true;
    load_thread_tried(conn->thread);
}

/* The connection is of no use any more, and what it had under way is lost. `pause`: the next one has to wait. */
void load_conn_fail(load_conn_t *conn, load_error_t kind, bool pause, const char *why) {
    load_thread_t *thread = conn->thread;
    uint32_t lost = conn->in_flight;
    bool shaking = conn->state != LOAD_CONN_ONLINE;
    for (uvhttp__list_t *link = conn->waiting.next; kind == LOAD_ERROR_timeout && link != &conn->waiting;
         link = link->next)
        load_record_waited(thread, load_flight_of(link), now_ns(conn));
    if (thread->phase != LOAD_STOPPING)
        load_stats_error(&thread->stats, kind, lost ? lost : 1, "connection %u, after %llu responses on it: %s",
                         conn->number, (unsigned long long)conn->responded, why);
    conn->pause = pause;
    close_now(conn);
    mark_tried(conn);
    if (lost) load_thread_responded(thread, lost);
    if (shaking) load_thread_connected(thread, false);
}

static void on_closed(uvhttp__stream_t *stream) {
    load_conn_t *conn = conn_of(stream);
    load_thread_t *thread = conn->thread;
    conn->state = LOAD_CONN_OFFLINE;
    uvhttp__http1_response_deinit(&conn->response);
    if (thread->plan->protocol->closed) thread->plan->protocol->closed(conn);
    load_thread_closed(thread);
    if (thread->phase == LOAD_STOPPING) return;
    if (conn->pause)
        set_timer(conn, RETRY_MS * UINT64_C(1000000));
    else
        load_conn_open(conn);
}

/* --- sending --- */

/* Whole bytes of a tick at this rate; *rest, in thousandths, adds up to those of a later one. */
static uint64_t bytes_of_tick(uint64_t rate, uint16_t *rest) {
    uint64_t thousandths = rate * TICK_MS + *rest;
    *rest = (uint16_t)(thousandths % 1000);
    return thousandths / 1000;
}

/* A piece of what a slow client sends; it may be empty. */
static void slow_send(load_conn_t *conn) {
    const load_thread_t *thread = conn->thread;
    uint64_t piece = bytes_of_tick(thread->options->send_rate, &conn->send_rest);
    if (piece > conn->slow_left) piece = conn->slow_left;
    if (piece > 0) (void)uvhttp__stream_send_iteration(&conn->stream, conn->slow_out, (size_t)piece);
    conn->slow_out += piece;
    conn->slow_left -= piece;
    if (piece > 0 && conn->in_flight > 0) set_timer(conn, thread->options->timeout_ns);
    if (conn->slow_left > 0) uvhttp__timer_set(&thread->loop->wheel, &conn->tick, thread->loop->now_ms + TICK_MS);
}

void load_conn_send_bytes(load_conn_t *conn, const char *data, size_t size) {
    if (conn->thread->options->send_rate > 0) {
        conn->slow_out = data;
        conn->slow_left = size;
        slow_send(conn);
    } else if (size > HELD_SEND_MAX) {
        (void)uvhttp__stream_send_ref(&conn->stream, data, size, NULL, NULL);
    } else {
        (void)uvhttp__stream_send_iteration(&conn->stream, data, size); /* it lives as long as the run */
    }
}

load_flight_t *load_conn_add_flight(load_conn_t *conn, load_request_t *request, uint64_t due_ns) {
    load_thread_t *thread = conn->thread;
    load_flight_t *flight = load_flight_slot(conn, conn->next_number);
    while (flight->request) flight = load_flight_slot(conn, ++conn->next_number); /* HTTP/2: an older one waits on */
    memset(flight, 0, offsetof(load_flight_t, hash));
    flight->request = request;
    flight->number = conn->next_number++;
    flight->due_ns = due_ns;
    uvhttp__list_init(&flight->link);
    uvhttp__list_push_back(&conn->waiting, &flight->link);
    if (conn->in_flight++ == 0) set_timer(conn, thread->options->timeout_ns);
    conn->sent++;
    thread->in_flight++;
    if (thread->quota != UINT64_MAX) thread->quota--;
    if (!conn->unstamped) thread->sent[thread->sent_count++] = conn;
    conn->unstamped = true;
    return flight;
}

/* How many requests the connection could take now, whatever the loop. */
static uint64_t capacity(const load_conn_t *conn) {
    const load_thread_t *thread = conn->thread;
    const load_protocol_t *protocol = thread->plan->protocol;
    if (conn->state != LOAD_CONN_ONLINE) return 0;
    if (conn->slow_left > 0) return 0; /* the response came before the request had ended */
    uint64_t most = thread->options->pipeline, limit = thread->options->requests_per_connection;
    if (protocol->space && protocol->space(conn) < most) most = protocol->space(conn);
    uint64_t n = most > conn->in_flight ? most - conn->in_flight : 0;
    return limit > 0 && n > limit - conn->sent ? limit - conn->sent : n;
}

/* Closed loop: how many it sends now. */
static uint32_t space(const load_conn_t *conn) {
    const load_thread_t *thread = conn->thread;
    if (thread->phase != LOAD_RUNNING || now_ns(conn) < conn->think_until_ns) return 0;
    uint64_t n = capacity(conn);
    return (uint32_t)(n < thread->quota ? n : thread->quota);
}

void load_conn_begin(load_conn_t *conn) {
    load_thread_t *thread = conn->thread;
    if (thread->options->is_open) {
        bool could = capacity(conn) > 0;
        if (!could)
            uvhttp__list_remove(&conn->free);
        else if (!uvhttp__list_linked(&conn->free))
            uvhttp__list_push_back(&thread->free, &conn->free);
        return;
    }
    uint32_t n = space(conn);
    if (n > 0)
        thread->plan->protocol->send(conn, n, 0);
    else if (conn->state == LOAD_CONN_ONLINE && conn->in_flight == 0 && now_ns(conn) < conn->think_until_ns)
        set_timer(conn, conn->think_until_ns - now_ns(conn));
}

void load_conn_send_due(load_conn_t *conn, uint64_t due_ns) {
    uvhttp__list_remove(&conn->free);
    conn->thread->plan->protocol->send(conn, 1, due_ns);
    load_conn_begin(conn);
}

/* --- responses --- */

/* Of which it is seen whether the server has warmed up. One thread writes, another reads. */
static void record_warming(load_thread_t *thread, uint64_t latency_ns) {
    atomic_store_explicit(&thread->warm_responses, thread->warm_responses + 1, memory_order_relaxed);
    atomic_store_explicit(&thread->warm_latency_ns, thread->warm_latency_ns + latency_ns, memory_order_relaxed);
}

static void record_due(load_stats_t *stats, const load_thread_t *thread, const load_flight_t *flight, uint64_t now) {
    uint64_t latency = now > flight->due_ns ? now - flight->due_ns : 0;
    stats->requests++;
    uvhttp__histogram_record(&stats->latency, latency);
    if (flight->sent_ns) uvhttp__histogram_record(&stats->service, now > flight->sent_ns ? now - flight->sent_ns : 0);
    if (!stats->stages) return;
    uint32_t stage = load_stages_find(&thread->options->stages, flight->due_ns - stats->start_ns);
    uvhttp__histogram_record(&stats->stages[stage].latency, latency);
}

static bool is_within(const load_stats_t *stats, uint64_t ns) {
    return ns >= stats->start_ns && ns < stats->end_ns;
}

void load_record_waited(load_thread_t *thread, const load_flight_t *flight, uint64_t now) {
    load_stats_t *stats = &thread->stats;
    if (thread->options->is_open ? !is_within(stats, flight->due_ns) : !is_within(stats, now)) return;
    stats->timeouts_included++;
    if (thread->options->is_open) {
        record_due(stats, thread, flight, now);
    } else {
        stats->requests++;
        uvhttp__histogram_record(&stats->latency, flight->sent_ns && now > flight->sent_ns ? now - flight->sent_ns : 0);
    }
}

/* When it counts: a closed loop by when the response came, so that the throughput is right; an open loop by when the
 * request was due, so that nothing that was asked for is left out. */
static void record(load_conn_t *conn, const load_flight_t *flight) {
    load_thread_t *thread = conn->thread;
    load_stats_t *stats = &thread->stats;
    uint64_t now = now_ns(conn), service = now > flight->sent_ns ? now - flight->sent_ns : 0;
    bool is_open = thread->options->is_open, inside = is_within(stats, now);
    if (thread->warming) record_warming(thread, !is_open ? service : now > flight->due_ns ? now - flight->due_ns : 0);
    if (inside) {
        stats->responses++;
        unsigned status = flight->status;
        if (status < LOAD_STATUS_MAX) stats->statuses[status]++;
    }
    if (!is_open && inside) {
        stats->requests++;
        uvhttp__histogram_record(&stats->latency, service);
    } else if (is_open && is_within(stats, flight->due_ns)) {
        record_due(stats, thread, flight, now);
    }
}

static void remove_flight(load_conn_t *conn, load_flight_t *flight) {
    uvhttp__list_remove(&flight->link);
    flight->request = NULL;
    conn->in_flight--;
    conn->thread->in_flight--;
}

void load_conn_lose_flight(load_conn_t *conn, load_flight_t *flight, load_error_t kind, const char *why) {
    load_thread_t *thread = conn->thread;
    if (kind == LOAD_ERROR_timeout) load_record_waited(thread, flight, now_ns(conn));
    load_stats_error(&thread->stats, kind, 1, "connection %u, after %llu responses on it: %s", conn->number,
                     (unsigned long long)conn->responded, why);
    remove_flight(conn, flight);
    load_thread_responded(thread, 1);
}

void load_conn_return_flight(load_conn_t *conn, load_flight_t *flight, const char *why) {
    if (conn->thread->options->is_open) { /* it was due at its moment: asking again is too late */
        load_conn_lose_flight(conn, flight, LOAD_ERROR_read, why);
        return;
    }
    if (conn->thread->quota != UINT64_MAX) conn->thread->quota++;
    remove_flight(conn, flight);
}

void load_conn_take_flight(load_conn_t *conn, load_flight_t *flight) {
    load_thread_t *thread = conn->thread;
    record(conn, flight);
    thread->stats.responses_total++;
    remove_flight(conn, flight);
    conn->responded++;
    if (conn->in_flight > 0) {
        if (!thread->plan->protocol->expire) set_timer(conn, thread->options->timeout_ns);
    } else if (thread->options->think_ns > 0) {
        conn->think_until_ns = now_ns(conn) + thread->options->think_ns;
    }
    load_thread_responded(thread, 1);
}

/* After a response: whether the connection has come to its end, which then is no error. What it still had under way is
 * asked for again. */
bool load_conn_ends(load_conn_t *conn, bool close) {
    load_thread_t *thread = conn->thread;
    uint64_t limit = thread->options->requests_per_connection;
    if (!close && (limit == 0 || conn->responded < limit)) return false;
    if (conn->state != LOAD_CONN_ONLINE) return true;
    if (conn->in_flight > 0 && thread->options->is_open) { /* each was due at its moment: asking again is too late */
        load_conn_fail(conn, LOAD_ERROR_read, false, "closed by the server behind the response to an earlier request");
        return true;
    }
    if (thread->quota != UINT64_MAX) thread->quota += conn->in_flight;
    conn->pause = false;
    close_now(conn);
    return true;
}

static void received(load_conn_t *conn, const char *data, size_t size) {
    load_thread_t *thread = conn->thread;
    uint64_t now = now_ns(conn);
    if (now >= thread->stats.start_ns && now < thread->stats.end_ns) thread->stats.bytes += size;
    thread->plan->protocol->receive(conn, data, size);
    load_conn_begin(conn);
}

static void plan_allowance(load_conn_t *conn) {
    load_thread_t *thread = conn->thread;
    if (!uvhttp__timer_active(&conn->tick))
        uvhttp__timer_set(&thread->loop->wheel, &conn->tick, thread->loop->now_ms + TICK_MS);
}

static size_t on_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    load_conn_t *conn = conn_of(stream);
    if (conn->thread->options->receive_rate == 0) {
        received(conn, data, size);
        return size;
    }
    size_t take = conn->allowance < size ? (size_t)conn->allowance : size;
    conn->allowance -= take;
    if (take > 0) {
        if (conn->in_flight > 0) set_timer(conn, conn->thread->options->timeout_ns);
        received(conn, data, take);
    }
    if (conn->state == LOAD_CONN_CLOSING) return size;
    if (conn->allowance == 0) plan_allowance(conn);
    return take;
}

static void on_end(uvhttp__stream_t *stream, int status) {
    load_conn_t *conn = conn_of(stream);
    const load_protocol_t *protocol = conn->thread->plan->protocol;
    const char *why = status == UVHTTP_OK ? "closed by the server" : "reset by the server";
    if (conn->state == LOAD_CONN_SHAKING) {
        if (protocol->ended_shaking) why = protocol->ended_shaking;
        load_conn_fail(conn, LOAD_ERROR_connect, true, why);
    } else if (conn->state == LOAD_CONN_ONLINE && conn->in_flight > 0) {
        if (status == UVHTTP_OK && protocol->end && protocol->end(conn)) {
            (void)load_conn_ends(conn, true);
            return;
        }
        bool sending = status != UVHTTP_OK && (uvhttp__stream_out_size(stream) > 0 || conn->slow_left > 0);
        load_conn_fail(conn, sending ? LOAD_ERROR_write : LOAD_ERROR_read, false, why);
    } else if (conn->state == LOAD_CONN_ONLINE) { /* between responses a server may close */
        (void)load_conn_ends(conn, true);
    }
}

/* --- connecting --- */

void load_conn_online(load_conn_t *conn) {
    conn->state = LOAD_CONN_ONLINE;
    load_thread_connected(conn->thread, true);
    uvhttp__timer_stop(&conn->thread->loop->wheel, &conn->timer);
    mark_tried(conn);
    load_conn_begin(conn);
}

void load_conn_secured(load_conn_t *conn) {
    const load_protocol_t *protocol = conn->thread->plan->protocol;
    if (protocol->shake)
        protocol->shake(conn);
    else
        load_conn_online(conn);
}

static void on_connect(uvhttp__stream_t *stream, int status) {
    load_conn_t *conn = conn_of(stream);
    load_thread_t *thread = conn->thread;
    if (status != UVHTTP_OK) {
        load_conn_fail(conn, LOAD_ERROR_connect, true, status == UVHTTP_E_TIMEOUT ? "timed out" : "refused or reset");
        return;
    }
    uint64_t now = now_ns(conn);
    uvhttp__histogram_record(&thread->stats.connect, now > conn->connect_ns ? now - conn->connect_ns : 0);
    thread->stats.connections++;
    conn->state = LOAD_CONN_SHAKING;
    int code = thread->plan->tls ? load_tls_start(conn) : uvhttp__stream_read_start(stream);
    if (code != 0)
        load_conn_fail(conn, LOAD_ERROR_connect, true, uvhttp_error_message(code));
    else if (!thread->plan->tls)
        load_conn_secured(conn);
}

const uvhttp__stream_ops_t load_conn_ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
    .on_connect = on_connect,
};

void load_conn_open(load_conn_t *conn) {
    load_thread_t *thread = conn->thread;
    conn->numbers_before += conn->next_number;
    conn->next_number = conn->sent = conn->responded = 0;
    conn->pause = conn->reading = false;
    conn->allowance = conn->send_rest = conn->receive_rest = 0;
    if (thread->options->receive_rate > 0) conn->allowance = 1;
    conn->connect_ns = uvhttp__clock_ns();
    uvhttp__http1_response_init(&conn->response, LOAD_HEAD_SIZE_MAX, &thread->cache);
    int code = uvhttp__stream_connect(&conn->stream, thread->loop, &thread->plan->endpoint, &load_conn_ops);
    if (code == 0) {
        thread->open++;
        conn->state = LOAD_CONN_CONNECTING;
        set_timer(conn, thread->options->connect_timeout_ns);
        return;
    }
    load_stats_error(&thread->stats, LOAD_ERROR_connect, 1, "%s", uvhttp_error_message(code));
    mark_tried(conn);
    set_timer(conn, RETRY_MS * UINT64_C(1000000));
    load_thread_connected(thread, false);
}

/* How much of its time the oldest request has left, ns. The timer was set by the time at which the iteration started;
 * the request left when it ended. */
static uint64_t time_left(const load_conn_t *conn) {
    uint64_t sent = load_conn_oldest(conn)->sent_ns, timeout = conn->thread->options->timeout_ns;
    uint64_t waited = sent > 0 && now_ns(conn) > sent ? now_ns(conn) - sent : 0;
    return waited < timeout ? timeout - waited : 0;
}

static void expire(load_conn_t *conn) {
    const load_protocol_t *protocol = conn->thread->plan->protocol;
    if (!protocol->expire) {
        load_conn_fail(conn, LOAD_ERROR_timeout, false, "no response in time");
        return;
    }
    while (conn->state == LOAD_CONN_ONLINE && conn->in_flight > 0 && time_left(conn) == 0)
        protocol->expire(conn, load_conn_oldest(conn));
    if (conn->state != LOAD_CONN_ONLINE) return;
    if (conn->in_flight > 0) set_timer(conn, time_left(conn));
    load_conn_begin(conn);
}

static void on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    load_conn_t *conn = UVHTTP__CONTAINER_OF(timer, load_conn_t, timer);
    if (conn->thread->phase == LOAD_STOPPING) return;
    if (conn->state == LOAD_CONN_OFFLINE) {
        load_conn_open(conn);
    } else if (conn->state == LOAD_CONN_CONNECTING || conn->state == LOAD_CONN_SHAKING) {
        load_conn_fail(conn, LOAD_ERROR_connect, true, "timed out");
    } else if (conn->state == LOAD_CONN_ONLINE && conn->in_flight > 0 && time_left(conn) > 0) {
        set_timer(conn, time_left(conn));
    } else if (conn->state == LOAD_CONN_ONLINE && conn->in_flight > 0) {
        expire(conn);
    } else if (conn->state == LOAD_CONN_ONLINE) { /* it has thought */
        load_conn_begin(conn);
    }
}

static void on_tick(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    load_conn_t *conn = UVHTTP__CONTAINER_OF(timer, load_conn_t, tick);
    if (conn->state != LOAD_CONN_ONLINE && conn->state != LOAD_CONN_SHAKING) return;
    if (conn->slow_left > 0) {
        slow_send(conn);
        if (conn->slow_left == 0 && conn->in_flight == 0) load_conn_begin(conn);
    }
    if (conn->thread->options->receive_rate > 0) {
        conn->allowance = bytes_of_tick(conn->thread->options->receive_rate, &conn->receive_rest);
        if (conn->allowance > 0)
            uvhttp__stream_resume(&conn->stream);
        else
            plan_allowance(conn);
    }
}

/* --- life --- */

void load_conn_init(load_conn_t *conn, load_thread_t *thread, load_flight_t *flights, uint32_t number) {
    conn->thread = thread;
    conn->flights = flights;
    conn->number = number;
    uvhttp__list_init(&conn->free);
    uvhttp__list_init(&conn->waiting);
    uvhttp__timer_init(&conn->timer, uvhttp__wheel_kind(&thread->loop->wheel, on_timer, thread));
    uvhttp__timer_init(&conn->tick, uvhttp__wheel_kind(&thread->loop->wheel, on_tick, thread));
}

void load_conn_stop(load_conn_t *conn) {
    uvhttp__timer_stop(&conn->thread->loop->wheel, &conn->timer);
    if (conn->state != LOAD_CONN_OFFLINE && conn->state != LOAD_CONN_CLOSING) close_now(conn);
}

void load_conn_deinit(load_conn_t *conn) {
    uvhttp__http1_response_deinit(&conn->response);
}
