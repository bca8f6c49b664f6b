/* Owns: what is checked of a response, whatever the protocol: status, length and body. May include: base, io, obs,
 * http1. */
#include "load/conn.h"

static bool wants_hash(const load_options_t *options) {
    return !options->echo && (options->expects_hash || options->verify == LOAD_VERIFY_FIRST);
}

static void add_to_hash(load_flight_t *flight, const char *data, size_t size, bool whole) {
    if (whole) {
        flight->body_hash = XXH64(data, size, 0);
        return;
    }
    if (!flight->hashing) XXH64_reset(&flight->hash, 0);
    flight->hashing = true;
    XXH64_update(&flight->hash, data, size);
}

void load_response_add_body(const load_conn_t *conn, load_flight_t *flight, const char *data, size_t size, bool whole) {
    const load_options_t *options = conn->thread->options;
    if (wants_hash(options)) add_to_hash(flight, data, size, whole);
    if (options->echo && !load_echo_matches(conn, flight, data, size)) flight->differs = true;
    flight->body_size += size;
}

static uint64_t body_hash(const load_flight_t *flight) {
    if (flight->hashing) return XXH64_digest(&flight->hash);
    return flight->body_size > 0 ? flight->body_hash : XXH64("", 0, 0);
}

/* Whether the body is like the first one of its request, over all threads. */
static bool like_first(load_request_t *request, uint64_t hash) {
    uint64_t mark = hash ? hash : 1;
    uint64_t first = atomic_load_explicit(&request->first_hash, memory_order_relaxed);
    if (first == 0 && atomic_compare_exchange_strong(&request->first_hash, &first, mark)) return true;
    return first == mark;
}

/* Whether a response to HEAD announces the length that is expected. */
static bool announces(const load_flight_t *flight, const load_options_t *options) {
    return !options->expects_length || !flight->has_length || flight->length == options->expect_length;
}

static void check_body(load_conn_t *conn, const load_flight_t *flight) {
    const load_options_t *options = conn->thread->options;
    load_stats_t *stats = &conn->thread->stats;
    uint64_t size = flight->body_size, hash = wants_hash(options) ? body_hash(flight) : 0;
    if (options->echo && (flight->differs || size != conn->thread->plan->echo.total))
        load_stats_error(stats, LOAD_ERROR_body, 1, "the response is not the body of its request (--echo)");
    else if (options->expects_length && size != options->expect_length)
        load_stats_error(stats, LOAD_ERROR_body, 1, "%llu bytes, not %llu", (unsigned long long)size,
                         (unsigned long long)options->expect_length);
    else if (options->expects_hash && hash != options->expect_hash)
        load_stats_error(stats, LOAD_ERROR_body, 1, "XXH64 %016llx, not %016llx", (unsigned long long)hash,
                         (unsigned long long)options->expect_hash);
    else if (!options->echo && options->verify == LOAD_VERIFY_FIRST && !options->expects_hash &&
             !like_first(flight->request, hash))
        load_stats_error(stats, LOAD_ERROR_body, 1, "differs from the first of %s (--verify none if it may)",
                         flight->request->line);
}

void load_response_check(load_conn_t *conn, const load_flight_t *flight) {
    const load_options_t *options = conn->thread->options;
    load_stats_t *stats = &conn->thread->stats;
    if (flight->status >= LOAD_STATUS_MAX || !options->expect_status[flight->status]) {
        load_stats_error(stats, LOAD_ERROR_status, 1, "%d for %s", flight->status, flight->request->line);
    } else if (!flight->request->is_head || options->echo) {
        check_body(conn, flight);
    } else if (!announces(flight, options)) {
        load_stats_error(stats, LOAD_ERROR_body, 1, "Content-Length is not %llu",
                         (unsigned long long)options->expect_length);
    }
}
