/* Owns: one connection: connects, sends, reads and checks answers, and starts again. May include: base, io, obs, http1.
 */
#include <string.h>

#include "base/str.h"
#include "load/worker.h"

/* Pause after a connection that could not be made, and between the pieces of a slow client. */
enum { RETRY_MS = 100, TICK_MS = 10, HELD_SEND_MAX = 64 * 1024, TCP_HEAD = 8 };

static load_conn_t *conn_of(uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream, load_conn_t, stream);
}

static uint64_t now_ns(const load_conn_t *conn) {
    return conn->worker->loop->now_ns;
}

static void set_timer(load_conn_t *conn, uint64_t ns) {
    uvhttp__timer_set(&conn->worker->loop->wheel, &conn->timer, (now_ns(conn) + ns + 999999) / 1000000);
}

static load_flight_t *flight_at(const load_conn_t *conn, uint32_t index) {
    uint32_t at = conn->first + index, size = conn->worker->options->pipeline;
    return &conn->flights[at < size ? at : at - size];
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
    uvhttp__stream_close(&conn->stream);
}

static void mark_tried(load_conn_t *conn) {
    if (conn->tried) return;
    conn->tried = true;
    load_worker_tried(conn->worker);
}

/* The connection is of no use any more, and what it had under way is lost. `pause`: the next one has to wait. */
static void fail(load_conn_t *conn, load_error_t kind, bool pause, const char *why) {
    load_worker_t *worker = conn->worker;
    uint32_t lost = conn->in_flight;
    if (worker->phase != LOAD_STOPPING)
        load_stats_error(&worker->stats, kind, lost ? lost : 1, "connection %u, after %llu answers on it: %s",
                         conn->number, (unsigned long long)conn->answered, why);
    conn->pause = pause;
    close_now(conn);
    if (lost) load_worker_answered(worker, lost);
}

static void on_closed(uvhttp__stream_t *stream) {
    load_conn_t *conn = conn_of(stream);
    load_worker_t *worker = conn->worker;
    conn->state = LOAD_CONN_OFFLINE;
    load_response_deinit(&conn->response);
    load_worker_closed(worker);
    if (worker->phase == LOAD_STOPPING) return;
    if (conn->pause)
        set_timer(conn, RETRY_MS * UINT64_C(1000000));
    else
        load_conn_open(conn);
}

/* --- sending --- */

static load_request_t *next_request(load_worker_t *worker) {
    load_request_t *request = &worker->plan->requests[worker->next_request];
    if (++worker->next_request == worker->plan->request_count) worker->next_request = 0;
    return request;
}

static void add_flight(load_conn_t *conn, load_request_t *request, uint64_t due_ns) {
    load_worker_t *worker = conn->worker;
    *flight_at(conn, conn->in_flight) = (load_flight_t){.request = request, .due_ns = due_ns};
    if (conn->in_flight++ == 0) {
        set_timer(conn, worker->options->timeout_ns);
        load_response_begin(&conn->response, request->is_head);
        conn->body_size = 0;
        conn->hashing = false;
    }
    conn->sent++;
    worker->in_flight++;
    if (worker->quota != UINT64_MAX) worker->quota--;
    if (conn->unstamped++ == 0) worker->sent[worker->sent_count++] = conn;
}

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

static void send_bytes(load_conn_t *conn, const char *data, size_t size) {
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

/* The beginning of a TCP message says whose and which it is, so that an old echo can not pass for a new one. */
static uint64_t message_head(const load_conn_t *conn, uint64_t sequence) {
    return (uint64_t)conn->number << 40 ^ sequence;
}

static size_t message_head_size(const load_request_t *message) {
    return message->size < TCP_HEAD ? message->size : TCP_HEAD;
}

static void send_message(load_conn_t *conn, load_request_t *message, uint64_t due_ns) {
    uint64_t head = message_head(conn, conn->sent);
    add_flight(conn, message, due_ns);
    char *copy = uvhttp__loop_turn_alloc(conn->worker->loop, message->size);
    if (!copy) return; /* it will be missed */
    memcpy(copy, message->data, message->size);
    memcpy(copy, &head, message_head_size(message));
    (void)uvhttp__stream_send_turn(&conn->stream, copy, message->size);
}

static void send_requests(load_conn_t *conn, uint32_t n, uint64_t due_ns) {
    load_worker_t *worker = conn->worker;
    if (worker->options->scheme == LOAD_TCP) {
        while (n-- > 0) send_message(conn, worker->plan->requests, due_ns);
    } else if (worker->plan->request_count == 1) {
        load_request_t *request = worker->plan->requests;
        while (n > 0) {
            uint32_t share = n < request->copies ? n : request->copies;
            for (uint32_t i = 0; i < share; i++) add_flight(conn, request, due_ns);
            send_bytes(conn, request->data, request->size * share);
            n -= share;
        }
    } else {
        while (n-- > 0) {
            load_request_t *request = next_request(worker);
            add_flight(conn, request, due_ns);
            send_bytes(conn, request->data, request->size);
        }
    }
}

/* How many requests the connection could take now. */
static uint32_t room(const load_conn_t *conn) {
    const load_worker_t *worker = conn->worker;
    if (conn->state != LOAD_CONN_ONLINE || worker->phase != LOAD_RUNNING || conn->thinking) return 0;
    uint64_t n = worker->options->pipeline - conn->in_flight;
    if (n > worker->quota) n = worker->quota;
    uint64_t limit = worker->options->requests_per_connection;
    if (limit > 0 && n > limit - conn->sent) n = limit - conn->sent;
    return (uint32_t)n;
}

void load_conn_begin(load_conn_t *conn) {
    load_worker_t *worker = conn->worker;
    if (worker->options->rate > 0) {
        bool could =
            conn->state == LOAD_CONN_ONLINE && conn->in_flight < worker->options->pipeline &&
            (worker->options->requests_per_connection == 0 || conn->sent < worker->options->requests_per_connection);
        if (could && !uvhttp__list_linked(&conn->free)) uvhttp__list_push_back(&worker->free, &conn->free);
        return;
    }
    uint32_t n = room(conn);
    if (n > 0) send_requests(conn, n, 0);
}

void load_conn_send_due(load_conn_t *conn, uint64_t due_ns) {
    uvhttp__list_remove(&conn->free);
    send_requests(conn, 1, due_ns);
    load_conn_begin(conn);
}

/* --- answers --- */

/* When it counts: a closed loop by when the answer came, so that the throughput is right; an open loop by when the
 * request was due, so that nothing that was asked for is left out. */
static void record(load_conn_t *conn, const load_flight_t *flight) {
    load_worker_t *worker = conn->worker;
    load_stats_t *stats = &worker->stats;
    uint64_t now = now_ns(conn), service = now > flight->sent_ns ? now - flight->sent_ns : 0;
    bool is_open = worker->options->rate > 0, inside = now >= stats->begin_ns && now < stats->end_ns;
    if (inside) {
        stats->answers++;
        unsigned status = (unsigned)conn->response.head.status;
        if (status < LOAD_STATUS_MAX) stats->statuses[status]++;
    }
    if (!is_open && inside) {
        stats->requests++;
        uvhttp__histogram_record(&stats->latency, service);
    } else if (is_open && flight->due_ns >= stats->begin_ns && flight->due_ns < stats->end_ns) {
        stats->requests++;
        uvhttp__histogram_record(&stats->latency, now > flight->due_ns ? now - flight->due_ns : 0);
        uvhttp__histogram_record(&stats->service, service);
    }
}

static bool wants_hash(const load_options_t *options) {
    return options->expects_hash || options->verify == LOAD_VERIFY_FIRST;
}

static void add_body(load_conn_t *conn, uvhttp_str_t run) {
    if (wants_hash(conn->worker->options)) {
        const load_head_t *head = &conn->response.head;
        if (head->has_length && run.size == head->length) {
            conn->body_hash = XXH64(run.data, run.size, 0);
        } else {
            if (!conn->hashing) XXH64_reset(&conn->hash, 0);
            conn->hashing = true;
            XXH64_update(&conn->hash, run.data, run.size);
        }
    }
    conn->body_size += run.size;
}

static uint64_t body_hash(const load_conn_t *conn) {
    if (conn->hashing) return XXH64_digest(&conn->hash);
    return conn->body_size > 0 ? conn->body_hash : XXH64("", 0, 0);
}

/* Whether the body is like the first one of its request, over all threads. */
static bool like_first(load_request_t *request, uint64_t hash) {
    uint64_t mark = hash ? hash : 1;
    uint64_t first = atomic_load_explicit(&request->first_hash, memory_order_relaxed);
    if (first == 0 && atomic_compare_exchange_strong(&request->first_hash, &first, mark)) return true;
    return first == mark;
}

static void check_answer(load_conn_t *conn, load_request_t *request) {
    const load_options_t *options = conn->worker->options;
    load_stats_t *stats = &conn->worker->stats;
    int status = conn->response.head.status;
    if (status >= LOAD_STATUS_MAX || !options->expect_status[status]) {
        load_stats_error(stats, LOAD_ERROR_status, 1, "%d for %.*s", status, (int)strcspn(request->data, "\r"),
                         request->data);
        return;
    }
    if (request->is_head) return;
    uint64_t size = conn->body_size, hash = wants_hash(options) ? body_hash(conn) : 0;
    if (options->expects_length && size != options->expect_length)
        load_stats_error(stats, LOAD_ERROR_body, 1, "%llu bytes, not %llu", (unsigned long long)size,
                         (unsigned long long)options->expect_length);
    else if (options->expects_hash && hash != options->expect_hash)
        load_stats_error(stats, LOAD_ERROR_body, 1, "XXH64 %016llx, not %016llx", (unsigned long long)hash,
                         (unsigned long long)options->expect_hash);
    else if (options->verify == LOAD_VERIFY_FIRST && !options->expects_hash && !like_first(request, hash))
        load_stats_error(stats, LOAD_ERROR_body, 1, "differs from the first of %.*s (--verify none if it may)",
                         (int)strcspn(request->data, "\r"), request->data);
}

/* The oldest request has its answer. */
static void take_flight(load_conn_t *conn) {
    load_worker_t *worker = conn->worker;
    const load_flight_t *flight = flight_at(conn, 0);
    record(conn, flight);
    if (++conn->first == worker->options->pipeline) conn->first = 0;
    conn->in_flight--;
    worker->in_flight--;
    conn->answered++;
    if (conn->in_flight > 0) {
        set_timer(conn, worker->options->timeout_ns);
        load_response_begin(&conn->response, flight_at(conn, 0)->request->is_head);
        conn->body_size = 0;
        conn->hashing = false;
    } else if (worker->options->think_ns > 0) {
        conn->thinking = true;
        set_timer(conn, worker->options->think_ns);
    }
    load_worker_answered(worker, 1);
}

/* After an answer: whether the connection has come to its end, which then is no error. What it still had under way is
 * asked for again. */
static bool ends_after_answer(load_conn_t *conn, bool close) {
    load_worker_t *worker = conn->worker;
    uint64_t limit = worker->options->requests_per_connection;
    if (!close && (limit == 0 || conn->answered < limit)) return false;
    if (conn->state != LOAD_CONN_ONLINE) return true;
    if (conn->in_flight > 0 && worker->options->rate > 0) { /* each was due at its moment: asking again is too late */
        fail(conn, LOAD_ERROR_read, false, "closed by the server behind an answer to an earlier request");
        return true;
    }
    if (worker->quota != UINT64_MAX) worker->quota += conn->in_flight;
    conn->pause = false;
    close_now(conn);
    return true;
}

static void receive_http(load_conn_t *conn, const char *data, size_t size) {
    size_t consumed;
    uvhttp_str_t body;
    while (size > 0 && conn->state == LOAD_CONN_ONLINE) {
        if (conn->in_flight == 0) {
            fail(conn, LOAD_ERROR_protocol, false, "bytes behind the answer");
            return;
        }
        int code = load_response_feed(&conn->response, data, size, &consumed, &body);
        data += consumed;
        size -= consumed;
        if (body.size > 0) add_body(conn, body);
        if (code == UVHTTP_E_AGAIN) continue;
        if (code != 0) {
            fail(conn, LOAD_ERROR_protocol, false, uvhttp_error_message(code));
            return;
        }
        bool close = conn->response.head.close;
        check_answer(conn, flight_at(conn, 0)->request);
        take_flight(conn);
        if (ends_after_answer(conn, close)) return;
    }
}

/* Compares what comes with what was sent. */
static void receive_tcp(load_conn_t *conn, const char *data, size_t size) {
    while (size > 0 && conn->state == LOAD_CONN_ONLINE) {
        if (conn->in_flight == 0) {
            fail(conn, LOAD_ERROR_protocol, false, "bytes that were not sent");
            return;
        }
        const load_request_t *message = flight_at(conn, 0)->request;
        uint64_t head = message_head(conn, conn->answered);
        size_t at = (size_t)conn->body_size, in_head = message_head_size(message);
        size_t n = message->size - at < size ? message->size - at : size;
        size_t head_part = at >= in_head ? 0 : in_head - at < n ? in_head - at : n;
        if (memcmp(data, (const char *)&head + (at < in_head ? at : 0), head_part) != 0 ||
            memcmp(data + head_part, message->data + at + head_part, n - head_part) != 0) {
            fail(conn, LOAD_ERROR_body, false, "the echo differs from what was sent");
            return;
        }
        data += n;
        size -= n;
        conn->body_size += n;
        if (conn->body_size < message->size) continue;
        conn->body_size = 0;
        take_flight(conn);
        if (ends_after_answer(conn, false)) return;
    }
}

static void received(load_conn_t *conn, const char *data, size_t size) {
    load_worker_t *worker = conn->worker;
    uint64_t now = now_ns(conn);
    if (now >= worker->stats.begin_ns && now < worker->stats.end_ns) worker->stats.bytes += size;
    if (worker->options->scheme == LOAD_TCP)
        receive_tcp(conn, data, size);
    else
        receive_http(conn, data, size);
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
    if (conn->state == LOAD_CONN_ONLINE && conn->allowance == 0) plan_allowance(conn);
    return conn->state == LOAD_CONN_ONLINE ? take : size;
}

static void on_end(uvhttp__stream_t *stream, int status) {
    load_conn_t *conn = conn_of(stream);
    if (conn->state != LOAD_CONN_ONLINE) return;
    if (conn->in_flight > 0 && status == UVHTTP_OK && conn->worker->options->scheme == LOAD_HTTP &&
        load_response_end(&conn->response) == 0) {
        check_answer(conn, flight_at(conn, 0)->request);
        take_flight(conn);
        (void)ends_after_answer(conn, true);
    } else if (conn->in_flight > 0) {
        bool sending = status != UVHTTP_OK && (uvhttp__stream_out_size(stream) > 0 || conn->slow_left > 0);
        fail(conn, sending ? LOAD_ERROR_write : LOAD_ERROR_read, false,
             status == UVHTTP_OK ? "closed by the server" : "reset by the server");
    } else { /* between answers a server may close */
        (void)ends_after_answer(conn, true);
    }
}

/* --- connecting --- */

static void on_connect(uvhttp__stream_t *stream, int status) {
    load_conn_t *conn = conn_of(stream);
    load_worker_t *worker = conn->worker;
    if (status != UVHTTP_OK) {
        fail(conn, LOAD_ERROR_connect, true, status == UVHTTP_E_TIMEOUT ? "timed out" : "refused or reset");
        mark_tried(conn);
        return;
    }
    uint64_t now = now_ns(conn);
    uvhttp__histogram_record(&worker->stats.connect, now > conn->connect_ns ? now - conn->connect_ns : 0);
    worker->stats.connections++;
    conn->state = LOAD_CONN_ONLINE;
    uvhttp__timer_stop(&worker->loop->wheel, &conn->timer);
    int code = uvhttp__stream_read_start(stream);
    if (code != 0) fail(conn, LOAD_ERROR_connect, true, uvhttp_error_message(code));
    mark_tried(conn);
    load_conn_begin(conn);
}

static const uvhttp__stream_ops_t ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_closed,
    .on_connect = on_connect,
};

void load_conn_open(load_conn_t *conn) {
    load_worker_t *worker = conn->worker;
    conn->first = conn->in_flight = 0;
    conn->sent = conn->answered = 0;
    conn->body_size = 0;
    conn->thinking = conn->pause = false;
    conn->allowance = 0;
    if (worker->options->receive_rate > 0) conn->allowance = 1;
    conn->connect_ns = uvhttp__clock_ns();
    load_response_init(&conn->response, &worker->cache);
    int code = uvhttp__stream_connect(&conn->stream, worker->loop, &worker->plan->endpoint, &ops);
    if (code == 0) {
        worker->open++;
        conn->state = LOAD_CONN_CONNECTING;
        set_timer(conn, worker->options->connect_timeout_ns);
        return;
    }
    load_stats_error(&worker->stats, LOAD_ERROR_connect, 1, "%s", uvhttp_error_message(code));
    mark_tried(conn);
    set_timer(conn, RETRY_MS * UINT64_C(1000000));
}

void load_conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    load_conn_t *conn = UVHTTP__CONTAINER_OF(timer, load_conn_t, timer);
    if (conn->worker->phase == LOAD_STOPPING) return;
    if (conn->state == LOAD_CONN_OFFLINE) {
        load_conn_open(conn);
    } else if (conn->state == LOAD_CONN_CONNECTING) {
        fail(conn, LOAD_ERROR_connect, true, "timed out");
        mark_tried(conn);
    } else if (conn->state == LOAD_CONN_ONLINE && conn->in_flight > 0) {
        fail(conn, LOAD_ERROR_timeout, false, "no answer in time");
    } else if (conn->thinking) {
        conn->thinking = false;
        load_conn_begin(conn);
    }
}

void load_conn_on_tick(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    load_conn_t *conn = UVHTTP__CONTAINER_OF(timer, load_conn_t, tick);
    if (conn->state != LOAD_CONN_ONLINE) return;
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
    uvhttp__timer_init(&conn->timer, UVHTTP__TIMER_CONNECTION);
    uvhttp__timer_init(&conn->tick, UVHTTP__TIMER_SESSION);
}

void load_conn_stop(load_conn_t *conn) {
    uvhttp__timer_stop(&conn->worker->loop->wheel, &conn->timer);
    if (conn->state == LOAD_CONN_CONNECTING || conn->state == LOAD_CONN_ONLINE) close_now(conn);
}

void load_conn_deinit(load_conn_t *conn) {
    load_response_deinit(&conn->response);
}
