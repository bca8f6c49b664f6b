/* Owns: HTTP/1.1 on a connection: its requests, its answers and what is checked of them. May include: base, io, obs,
 * http1. */
#include <string.h>

#include "load/conn.h"

/* --- sending --- */

static void send_requests(load_conn_t *conn, uint32_t n, uint64_t due_ns) {
    load_worker_t *worker = conn->worker;
    if (worker->options->echo) {
        load_echo_send(conn, n, due_ns);
        return;
    }
    if (worker->plan->request_count > 1) {
        while (n-- > 0) {
            load_request_t *request = load_worker_next_request(worker);
            load_conn_add_flight(conn, request, due_ns);
            load_conn_send_bytes(conn, request->data, request->size);
        }
        return;
    }
    load_request_t *request = worker->plan->requests;
    while (n > 0) { /* several of a pipeline stand in one piece of memory */
        uint32_t share = n < request->copies ? n : request->copies;
        for (uint32_t i = 0; i < share; i++) load_conn_add_flight(conn, request, due_ns);
        load_conn_send_bytes(conn, request->data, request->size * share);
        n -= share;
    }
}

/* --- checking --- */

static bool wants_hash(const load_options_t *options) {
    return !options->echo && (options->expects_hash || options->verify == LOAD_VERIFY_FIRST);
}

static void add_body(load_conn_t *conn, uvhttp_str_t run) {
    if (wants_hash(conn->worker->options)) {
        const uvhttp__http1_response_head_t *head = &conn->response.head;
        if (head->has_length && run.size == head->length) {
            conn->body_hash = XXH64(run.data, run.size, 0);
        } else {
            if (!conn->hashing) XXH64_reset(&conn->hash, 0);
            conn->hashing = true;
            XXH64_update(&conn->hash, run.data, run.size);
        }
    }
    if (conn->worker->options->echo && !load_echo_matches(conn, run.data, run.size)) conn->differs = true;
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

/* The length that a response to HEAD announces. */
static bool announces(const uvhttp__http1_response_head_t *head, const load_options_t *options) {
    return !options->expects_length || !head->has_length || head->length == options->expect_length;
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
    if (request->is_head && !options->echo) {
        if (!announces(&conn->response.head, options))
            load_stats_error(stats, LOAD_ERROR_body, 1, "Content-Length is not %llu",
                             (unsigned long long)options->expect_length);
        return;
    }
    uint64_t size = conn->body_size, hash = wants_hash(options) ? body_hash(conn) : 0;
    if (options->echo && (conn->differs || size != conn->worker->plan->echo.total))
        load_stats_error(stats, LOAD_ERROR_body, 1, "the response is not the body of its request (--echo)");
    else if (options->expects_length && size != options->expect_length)
        load_stats_error(stats, LOAD_ERROR_body, 1, "%llu bytes, not %llu", (unsigned long long)size,
                         (unsigned long long)options->expect_length);
    else if (options->expects_hash && hash != options->expect_hash)
        load_stats_error(stats, LOAD_ERROR_body, 1, "XXH64 %016llx, not %016llx", (unsigned long long)hash,
                         (unsigned long long)options->expect_hash);
    else if (!options->echo && options->verify == LOAD_VERIFY_FIRST && !options->expects_hash &&
             !like_first(request, hash))
        load_stats_error(stats, LOAD_ERROR_body, 1, "differs from the first of %.*s (--verify none if it may)",
                         (int)strcspn(request->data, "\r"), request->data);
}

/* --- receiving --- */

static void answered(load_conn_t *conn) {
    check_answer(conn, load_flight_at(conn, 0)->request);
    load_conn_take_flight(conn);
}

static void receive(load_conn_t *conn, const char *data, size_t size) {
    size_t consumed;
    uvhttp_str_t body;
    while (size > 0 && conn->state == LOAD_CONN_ONLINE) {
        if (conn->in_flight == 0) {
            load_conn_fail(conn, LOAD_ERROR_protocol, false, "bytes behind the answer");
            return;
        }
        int code = uvhttp__http1_response_feed(&conn->response, data, size, &consumed, &body);
        data += consumed;
        size -= consumed;
        if (body.size > 0) add_body(conn, body);
        if (code == UVHTTP_E_AGAIN) continue;
        if (code != 0) {
            load_conn_fail(conn, LOAD_ERROR_protocol, false, uvhttp_error_message(code));
            return;
        }
        bool close = conn->response.head.close;
        answered(conn);
        if (load_conn_ends(conn, close)) return;
    }
}

static bool end(load_conn_t *conn) {
    if (uvhttp__http1_response_end(&conn->response) != 0) return false;
    answered(conn);
    return true;
}

const load_protocol_t load_protocol_http = {.send = send_requests, .receive = receive, .end = end};
