/* Owns: one connection: connects, sends, reads and checks answers, and starts again. May include: base, io, obs, http1.
 */
#include <string.h>

#include "load/tls.h"

/* Pause after a connection that could not be made, and between the pieces of a slow client. */
enum { RETRY_MS = 100, TICK_MS = 10, HELD_SEND_MAX = 64 * 1024 };

static load_conn_t *conn_of(uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream, load_conn_t, stream);
}

static uint64_t now_ns(const load_conn_t *conn) {
    return conn->worker->loop->now_ns;
}

static void set_timer(load_conn_t *conn, uint64_t ns) {
    uvhttp__timer_set(&conn->worker->loop->wheel, &conn->timer, (now_ns(conn) + ns + 999999) / 1000000);
}

/* --- the end of a connection --- */

static void close_now(load_conn_t *conn) {
    load_worker_t *worker = conn->worker;
    conn->state = LOAD_CONN_CLOSING;
    conn->slow_left = 0;
    uvhttp__list_remove(&conn->free);
    uvhttp__timer_stop(&worker->loop->wheel, &conn->timer);
    uvhttp__timer_stop(&worker->loop->wheel, &conn->tick);
    worker->in_flight -= conn->in_flight;
    conn->in_flight = 0;
    for (uvhttp__list_t *link; (link = uvhttp__list_pop_front(&conn->waiting));) load_flight_of(link)->request = NULL;
    uvhttp__stream_close(&conn->stream);
}

static void mark_tried(load_conn_t *conn) {
    if (conn->tried) return;
    conn->tried = true;
    load_worker_tried(conn->worker);
}

/* The connection is of no use any more, and what it had under way is lost. `pause`: the next one has to wait. */
void load_conn_fail(load_conn_t *conn, load_error_t kind, bool pause, const char *why) {
    load_worker_t *worker = conn->worker;
    uint32_t lost = conn->in_flight;
    bool shaking = conn->state != LOAD_CONN_ONLINE;
    for (uvhttp__list_t *link = conn->waiting.next; kind == LOAD_ERROR_timeout && link != &conn->waiting;
         link = link->next)
        load_record_waited(worker, load_flight_of(link), now_ns(conn));
    if (worker->phase != LOAD_STOPPING)
        load_stats_error(&worker->stats, kind, lost ? lost : 1, "connection %u, after %llu answers on it: %s",
                         conn->number, (unsigned long long)conn->answered, why);
    conn->pause = pause;
    close_now(conn);
    mark_tried(conn);
    if (lost) load_worker_answered(worker, lost);
    if (shaking) load_worker_connected(worker, false);
}

static void on_closed(uvhttp__stream_t *stream) {
    load_conn_t *conn = conn_of(stream);
    load_worker_t *worker = conn->worker;
    conn->state = LOAD_CONN_OFFLINE;
    uvhttp__http1_response_deinit(&conn->response);
    if (worker->plan->protocol->closed) worker->plan->protocol->closed(conn);
    load_worker_closed(worker);
    if (worker->phase == LOAD_STOPPING) return;
    if (conn->pause)
        set_timer(conn, RETRY_MS * UINT64_C(1000000));
    else
        load_conn_open(conn);
}

/* --- sending --- */

/* A piece of what a slow client sends, so large that it comes at least every TICK_MS, but not less than a byte. */
static void slow_send(load_conn_t *conn) {
    const load_worker_t *worker = conn->worker;
    uint64_t rate = worker->options->send_rate, piece = rate * TICK_MS / 1000, pause_ms = TICK_MS;
    if (piece == 0) {
        piece = 1;
        pause_ms = 1000 / rate;
    }
    if (piece > conn->slow_left) piece = conn->slow_left;
    (void)uvhttp__stream_send_turn(&conn->stream, conn->slow_out, (size_t)piece);
    conn->slow_out += piece;
    conn->slow_left -= piece;
    set_timer(conn, worker->options->timeout_ns);
    if (conn->slow_left > 0) uvhttp__timer_set(&worker->loop->wheel, &conn->tick, worker->loop->now_ms + pause_ms);
}

void load_conn_send_bytes(load_conn_t *conn, const char *data, size_t size) {
    if (conn->worker->options->send_rate > 0) {
        conn->slow_out = data;
        conn->slow_left = size;
        slow_send(conn);
    } else if (size > HELD_SEND_MAX) {
        (void)uvhttp__stream_send_ref(&conn->stream, data, size, NULL, NULL);
    } else {
        (void)uvhttp__stream_send_turn(&conn->stream, data, size); /* it lives as long as the run */
    }
}

load_flight_t *load_conn_add_flight(load_conn_t *conn, load_request_t *request, uint64_t due_ns) {
    load_worker_t *worker = conn->worker;
    load_flight_t *flight = load_flight_slot(conn, conn->next_number);
    while (flight->request) flight = load_flight_slot(conn, ++conn->next_number); /* HTTP/2: an older one waits on */
    memset(flight, 0, offsetof(load_flight_t, hash));
    flight->request = request;
    flight->number = conn->next_number++;
    flight->due_ns = due_ns;
    uvhttp__list_init(&flight->link);
    uvhttp__list_push_back(&conn->waiting, &flight->link);
    if (conn->in_flight++ == 0) set_timer(conn, worker->options->timeout_ns);
    conn->sent++;
    worker->in_flight++;
    if (worker->quota != UINT64_MAX) worker->quota--;
    if (!conn->unstamped) worker->sent[worker->sent_count++] = conn;
    conn->unstamped = true;
    return flight;
}

/* How many requests the connection could take now, whatever the loop. */
static uint64_t capacity(const load_conn_t *conn) {
    const load_worker_t *worker = conn->worker;
    const load_protocol_t *protocol = worker->plan->protocol;
    if (conn->state != LOAD_CONN_ONLINE) return 0;
    uint64_t most = worker->options->pipeline, limit = worker->options->requests_per_connection;
    if (protocol->room && protocol->room(conn) < most) most = protocol->room(conn);
    uint64_t n = most > conn->in_flight ? most - conn->in_flight : 0;
    return limit > 0 && n > limit - conn->sent ? limit - conn->sent : n;
}

/* Closed loop: how many it sends now. */
static uint32_t room(const load_conn_t *conn) {
    const load_worker_t *worker = conn->worker;
    if (worker->phase != LOAD_RUNNING || conn->thinking) return 0;
    uint64_t n = capacity(conn);
    return (uint32_t)(n < worker->quota ? n : worker->quota);
}

void load_conn_begin(load_conn_t *conn) {
    load_worker_t *worker = conn->worker;
    if (worker->options->is_open) {
        bool could = capacity(conn) > 0;
        if (!could)
            uvhttp__list_remove(&conn->free);
        else if (!uvhttp__list_linked(&conn->free))
            uvhttp__list_push_back(&worker->free, &conn->free);
        return;
    }
    uint32_t n = room(conn);
    if (n > 0) worker->plan->protocol->send(conn, n, 0);
}

void load_conn_send_due(load_conn_t *conn, uint64_t due_ns) {
    uvhttp__list_remove(&conn->free);
    conn->worker->plan->protocol->send(conn, 1, due_ns);
    load_conn_begin(conn);
}

/* --- answers --- */

/* Of which it is seen whether the server has warmed up. One thread writes, another reads. */
static void record_warming(load_worker_t *worker, uint64_t latency_ns) {
    atomic_store_explicit(&worker->warm_answers, worker->warm_answers + 1, memory_order_relaxed);
    atomic_store_explicit(&worker->warm_latency_ns, worker->warm_latency_ns + latency_ns, memory_order_relaxed);
}

static void record_due(load_stats_t *stats, const load_worker_t *worker, const load_flight_t *flight, uint64_t now) {
    uint64_t latency = now > flight->due_ns ? now - flight->due_ns : 0;
    stats->requests++;
    uvhttp__histogram_record(&stats->latency, latency);
    if (flight->sent_ns) uvhttp__histogram_record(&stats->service, now > flight->sent_ns ? now - flight->sent_ns : 0);
    if (!stats->stages) return;
    uint32_t stage = load_stages_find(&worker->options->stages, flight->due_ns - stats->begin_ns);
    uvhttp__histogram_record(&stats->stages[stage].latency, latency);
}

static bool is_within(const load_stats_t *stats, uint64_t ns) {
    return ns >= stats->begin_ns && ns < stats->end_ns;
}

void load_record_waited(load_worker_t *worker, const load_flight_t *flight, uint64_t now) {
    load_stats_t *stats = &worker->stats;
    if (worker->options->is_open ? !is_within(stats, flight->due_ns) : !is_within(stats, now)) return;
    stats->timeouts_included++;
    if (worker->options->is_open) {
        record_due(stats, worker, flight, now);
    } else {
        stats->requests++;
        uvhttp__histogram_record(&stats->latency, flight->sent_ns && now > flight->sent_ns ? now - flight->sent_ns : 0);
    }
}

/* When it counts: a closed loop by when the response came, so that the throughput is right; an open loop by when the
 * request was due, so that nothing that was asked for is left out. */
static void record(load_conn_t *conn, const load_flight_t *flight) {
    load_worker_t *worker = conn->worker;
    load_stats_t *stats = &worker->stats;
    uint64_t now = now_ns(conn), service = now > flight->sent_ns ? now - flight->sent_ns : 0;
    bool is_open = worker->options->is_open, inside = is_within(stats, now);
    if (worker->warming) record_warming(worker, !is_open ? service : now > flight->due_ns ? now - flight->due_ns : 0);
    if (inside) {
        stats->answers++;
        unsigned status = flight->status;
        if (status < LOAD_STATUS_MAX) stats->statuses[status]++;
    }
    if (!is_open && inside) {
        stats->requests++;
        uvhttp__histogram_record(&stats->latency, service);
    } else if (is_open && is_within(stats, flight->due_ns)) {
        record_due(stats, worker, flight, now);
    }
}

static void remove_flight(load_conn_t *conn, load_flight_t *flight) {
    uvhttp__list_remove(&flight->link);
    flight->request = NULL;
    conn->in_flight--;
    conn->worker->in_flight--;
}

void load_conn_lose_flight(load_conn_t *conn, load_flight_t *flight, load_error_t kind, const char *why) {
    load_worker_t *worker = conn->worker;
    if (kind == LOAD_ERROR_timeout) load_record_waited(worker, flight, now_ns(conn));
    load_stats_error(&worker->stats, kind, 1, "connection %u, after %llu answers on it: %s", conn->number,
                     (unsigned long long)conn->answered, why);
    remove_flight(conn, flight);
    load_worker_answered(worker, 1);
}

void load_conn_return_flight(load_conn_t *conn, load_flight_t *flight, const char *why) {
    if (conn->worker->options->is_open) { /* it was due at its moment: asking again is too late */
        load_conn_lose_flight(conn, flight, LOAD_ERROR_read, why);
        return;
    }
    if (conn->worker->quota != UINT64_MAX) conn->worker->quota++;
    remove_flight(conn, flight);
}

void load_conn_take_flight(load_conn_t *conn, load_flight_t *flight) {
    load_worker_t *worker = conn->worker;
    record(conn, flight);
    worker->stats.answers_total++;
    remove_flight(conn, flight);
    conn->answered++;
    if (conn->in_flight > 0) {
        if (!worker->plan->protocol->expire) set_timer(conn, worker->options->timeout_ns);
    } else if (worker->options->think_ns > 0) {
        conn->thinking = true;
        set_timer(conn, worker->options->think_ns);
    }
    load_worker_answered(worker, 1);
}

/* After a response: whether the connection has come to its end, which then is no error. What it still had under way is
 * asked for again. */
bool load_conn_ends(load_conn_t *conn, bool close) {
    load_worker_t *worker = conn->worker;
    uint64_t limit = worker->options->requests_per_connection;
    if (!close && (limit == 0 || conn->answered < limit)) return false;
    if (conn->state != LOAD_CONN_ONLINE) return true;
    if (conn->in_flight > 0 && worker->options->is_open) { /* each was due at its moment: asking again is too late */
        load_conn_fail(conn, LOAD_ERROR_read, false, "closed by the server behind an answer to an earlier request");
        return true;
    }
    if (worker->quota != UINT64_MAX) worker->quota += conn->in_flight;
    conn->pause = false;
    close_now(conn);
    return true;
}

static void received(load_conn_t *conn, const char *data, size_t size) {
    load_worker_t *worker = conn->worker;
    uint64_t now = now_ns(conn);
    if (now >= worker->stats.begin_ns && now < worker->stats.end_ns) worker->stats.bytes += size;
    worker->plan->protocol->receive(conn, data, size);
    load_conn_begin(conn);
}

static void plan_allowance(load_conn_t *conn) {
    load_worker_t *worker = conn->worker;
    uint64_t rate = worker->options->receive_rate, pause_ms = rate * TICK_MS < 1000 ? 1000 / rate : TICK_MS;
    if (!uvhttp__timer_active(&conn->tick))
        uvhttp__timer_set(&worker->loop->wheel, &conn->tick, worker->loop->now_ms + pause_ms);
}

static size_t on_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    load_conn_t *conn = conn_of(stream);
    if (conn->worker->options->receive_rate == 0) {
        received(conn, data, size);
        return size;
    }
    size_t take = conn->allowance < size ? (size_t)conn->allowance : size;
    conn->allowance -= take;
    if (take > 0) {
        if (conn->in_flight > 0) set_timer(conn, conn->worker->options->timeout_ns);
        received(conn, data, take);
    }
    if (conn->state == LOAD_CONN_CLOSING) return size;
    if (conn->allowance == 0) plan_allowance(conn);
    return take;
}

static void on_end(uvhttp__stream_t *stream, int status) {
    load_conn_t *conn = conn_of(stream);
    const load_protocol_t *protocol = conn->worker->plan->protocol;
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
    load_worker_connected(conn->worker, true);
    uvhttp__timer_stop(&conn->worker->loop->wheel, &conn->timer);
    mark_tried(conn);
    load_conn_begin(conn);
}

void load_conn_secured(load_conn_t *conn) {
    const load_protocol_t *protocol = conn->worker->plan->protocol;
    if (protocol->shake)
        protocol->shake(conn);
    else
        load_conn_online(conn);
}

static void on_connect(uvhttp__stream_t *stream, int status) {
    load_conn_t *conn = conn_of(stream);
    load_worker_t *worker = conn->worker;
    if (status != UVHTTP_OK) {
        load_conn_fail(conn, LOAD_ERROR_connect, true, status == UVHTTP_E_TIMEOUT ? "timed out" : "refused or reset");
        return;
    }
    uint64_t now = now_ns(conn);
    uvhttp__histogram_record(&worker->stats.connect, now > conn->connect_ns ? now - conn->connect_ns : 0);
    worker->stats.connections++;
    conn->state = LOAD_CONN_SHAKING;
    int code = worker->plan->tls ? load_tls_start(conn) : uvhttp__stream_read_start(stream);
    if (code != 0)
        load_conn_fail(conn, LOAD_ERROR_connect, true, uvhttp_error_message(code));
    else if (!worker->plan->tls)
        load_conn_secured(conn);
}

const uvhttp__stream_ops_t load_conn_ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
    .on_connect = on_connect,
};

void load_conn_open(load_conn_t *conn) {
    load_worker_t *worker = conn->worker;
    conn->numbers_before += conn->next_number;
    conn->next_number = conn->sent = conn->answered = 0;
    conn->thinking = conn->pause = conn->reading = false;
    conn->allowance = 0;
    if (worker->options->receive_rate > 0) conn->allowance = 1;
    conn->connect_ns = uvhttp__clock_ns();
    uvhttp__http1_response_init(&conn->response, LOAD_HEAD_SIZE_MAX, &worker->cache);
    int code = uvhttp__stream_connect(&conn->stream, worker->loop, &worker->plan->endpoint, &load_conn_ops);
    if (code == 0) {
        worker->open++;
        conn->state = LOAD_CONN_CONNECTING;
        set_timer(conn, worker->options->connect_timeout_ns);
        return;
    }
    load_stats_error(&worker->stats, LOAD_ERROR_connect, 1, "%s", uvhttp_error_message(code));
    mark_tried(conn);
    set_timer(conn, RETRY_MS * UINT64_C(1000000));
    load_worker_connected(worker, false);
}

/* How much of its time the oldest request has left, ns. The timer was set by the time at which the iteration started;
 * the request left when it ended. */
static uint64_t time_left(const load_conn_t *conn) {
    uint64_t sent = load_conn_oldest(conn)->sent_ns, timeout = conn->worker->options->timeout_ns;
    uint64_t waited = sent > 0 && now_ns(conn) > sent ? now_ns(conn) - sent : 0;
    return waited < timeout ? timeout - waited : 0;
}

static void expire(load_conn_t *conn) {
    const load_protocol_t *protocol = conn->worker->plan->protocol;
    if (!protocol->expire) {
        load_conn_fail(conn, LOAD_ERROR_timeout, false, "no answer in time");
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
    if (conn->worker->phase == LOAD_STOPPING) return;
    if (conn->state == LOAD_CONN_OFFLINE) {
        load_conn_open(conn);
    } else if (conn->state == LOAD_CONN_CONNECTING || conn->state == LOAD_CONN_SHAKING) {
        load_conn_fail(conn, LOAD_ERROR_connect, true, "timed out");
    } else if (conn->state == LOAD_CONN_ONLINE && conn->in_flight > 0 && time_left(conn) > 0) {
        set_timer(conn, time_left(conn));
    } else if (conn->state == LOAD_CONN_ONLINE && conn->in_flight > 0) {
        expire(conn);
    } else if (conn->thinking) {
        conn->thinking = false;
        load_conn_begin(conn);
    }
}

static void on_tick(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    load_conn_t *conn = UVHTTP__CONTAINER_OF(timer, load_conn_t, tick);
    if (conn->state != LOAD_CONN_ONLINE && conn->state != LOAD_CONN_SHAKING) return;
    if (conn->slow_left > 0) slow_send(conn);
    if (conn->worker->options->receive_rate > 0) {
        uint64_t piece = conn->worker->options->receive_rate * TICK_MS / 1000;
        conn->allowance = piece ? piece : 1;
        uvhttp__stream_resume(&conn->stream);
    }
}

/* --- life --- */

void load_conn_init(load_conn_t *conn, load_worker_t *worker, load_flight_t *flights, uint32_t number) {
    conn->worker = worker;
    conn->flights = flights;
    conn->number = number;
    uvhttp__list_init(&conn->free);
    uvhttp__list_init(&conn->waiting);
    uvhttp__timer_init(&conn->timer, uvhttp__wheel_kind(&worker->loop->wheel, on_timer, worker));
    uvhttp__timer_init(&conn->tick, uvhttp__wheel_kind(&worker->loop->wheel, on_tick, worker));
}

void load_conn_stop(load_conn_t *conn) {
    uvhttp__timer_stop(&conn->worker->loop->wheel, &conn->timer);
    if (conn->state != LOAD_CONN_OFFLINE && conn->state != LOAD_CONN_CLOSING) close_now(conn);
}

void load_conn_deinit(load_conn_t *conn) {
    uvhttp__http1_response_deinit(&conn->response);
}
