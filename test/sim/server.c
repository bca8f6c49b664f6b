/* Owns: the server that is simulated: public API only. Each route takes /route/TAG/SIZE/MS and responds with SIZE bytes
 * of the tag, in one of the ways that a handler has. Handlers check what they receive in the same way. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvhttp.h>

#include "client.h"
#include "disk.h"
#include "tls.h"

uvhttp_server_t *sim_server;
static bool reload_is_due;
bool sim_places_are_few, sim_wall_jumps, sim_threads_are_patient, sim_look_ups_wait, sim_tls_listens, sim_proxy_listens,
    sim_access_logged, sim_half_close;
bool sim_access_log_is_file, sim_jobs_are_watched;
uint32_t sim_popular, sim_spool_max;
uint32_t sim_crowd, sim_streams_max, sim_places, sim_response_timeout_ms;
static uint32_t crowd_places; /* max_connections for it */

/* What handlers hold: each has to come back. */
static atomic_uint references, handlers_open;

enum { PIECE_MAX = 20000 };
static uint32_t piece_max; /* of streamed responses */

static uvhttp_middleware_t access_log; /* .run is NULL: there is none */
static bool access_log_complete;
static uint64_t access_log_dropped;

typedef struct call {
    uint32_t tag, size, ms, done;
    uint64_t received;
    uvhttp_deferred_t *deferred;
    uvhttp_request_t *req; /* of an upload */
    uvhttp_timer_t timer;
    sim_later_t *later; /* a callback of the application, in place of the timer */
    bool paused, sized;
} call_t;

/* `on_timer` comes by the timer of the call, or is called by the application whose loop it is. */
static void call_later(call_t *call, uint32_t ms, void (*on_timer)(uvhttp_timer_t *timer, void *arg),
                       void (*on_later)(void *arg)) {
    if (sim_is_guest && call->tag % 2)
        call->later = sim_guest_later(ms, on_later, call);
    else
        (void)uvhttp_timer_start(&call->timer, ms, on_timer, call);
}

uint32_t sim_number(const char *data, size_t size, int base) {
    char copy[16] = "";
    memcpy(copy, data, size < sizeof copy ? size : sizeof copy - 1);
    return (uint32_t)strtoul(copy, NULL, base);
}

uint32_t sim_request_number(const uvhttp_request_t *req, const char *name, int base) {
    uvhttp_str_t text = uvhttp_request_param(req, name);
    return sim_number(text.data, text.size, base);
}

static call_t read_call(const uvhttp_request_t *req) {
    return (call_t){.tag = sim_request_number(req, "tag", 16),
                    .size = sim_request_number(req, "size", 10),
                    .ms = sim_request_number(req, "ms", 10)};
}

static void set_tag(uvhttp_response_t *res, uint32_t tag) {
    char text[16];
    snprintf(text, sizeof text, "%x", tag);
    if (uvhttp_response_header(res, "X-Tag", text) != UVHTTP_OK) uvhttp_response_close(res);
    if (sim_compresses) (void)uvhttp_response_header(res, "Content-Type", "text/plain");
}

/* Without memory: whatever the library makes of a handler that does not respond. */
static void respond(uvhttp_response_t *res, const call_t *call) {
    char *body = malloc(call->size + 1);
    sim_fill(body, call->tag, 0, call->size);
    set_tag(res, call->tag);
    if (uvhttp_response_send(res, 200, NULL, body, call->size) != UVHTTP_OK)
        (void)uvhttp_response_header_remove(res, "X-Tag");
    free(body);
}

static void on_mem(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t call = read_call(req);
    sim_log_lines();
    if (sim_access_log_is_file && access_log.run && call.tag % 16 == 0) (void)uvhttp_access_log_reopen(access_log);
    respond(res, &call);
}

static void release(void *arg) {
    free(arg);
    references--;
}

static void on_ref(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t call = read_call(req);
    char *body = malloc(call.size + 1);
    sim_fill(body, call.tag, 0, call.size);
    references++;
    set_tag(res, call.tag);
    if (uvhttp_response_send_ref(res, 200, NULL, body, call.size, release, body) != UVHTTP_OK)
        (void)uvhttp_response_header_remove(res, "X-Tag");
}

static void on_limit(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    sim_limiter_served();
    on_mem(req, res, user);
}

/* --- who it is from --- */

/* What a request shows of its connection, on any thread, also when its client has gone meanwhile: a snapshot. */
void sim_server_check_origin(uvhttp_request_t *req, uint32_t tag) {
    if (tag < 0x1000 || sim_failing) return; /* a hostile client's */
    char expected[32];
    uvhttp_str_t said = uvhttp_request_header(req, "X-From"), client = uvhttp_request_client(req),
                 peer = uvhttp_request_peer(req), scheme = uvhttp_request_client_scheme(req);
    sim_peer_text((tag - 0x1000) / 0x100, expected, sizeof expected);
    bool unknown = peer.size == 7 && memcmp(peer.data, "unknown", 7) == 0; /* it had gone before */
    if (!unknown && (peer.size != strlen(expected) || memcmp(peer.data, expected, peer.size) != 0))
        sim_fail("request %x is taken for one of %.*s", tag, (int)peer.size, peer.data);
    if (said.size > 0 && (client.size != said.size || memcmp(client.data, said.data, said.size) != 0))
        sim_fail("request %x of %.*s is taken for one of %.*s", tag, (int)said.size, said.data, (int)client.size,
                 client.data);
    const char *subject = uvhttp_request_client_subject(req);
    snprintf(expected, sizeof expected, SIM_SUBJECT, (tag - 0x1000) / 0x100);
    if (subject && strcmp(subject, expected) != 0) sim_fail("request %x is taken for one of %s", tag, subject);
    if (said.size == 0 && uvhttp_request_is_tls(req) != (scheme.size == 5))
        sim_fail("request %x: TLS is not what it was", tag);
}

/* --- deferred --- */

static call_t *call_new(const uvhttp_request_t *req) {
    call_t *call = calloc(1, sizeof *call);
    *call = read_call(req);
    handlers_open++;
    return call;
}

static void call_end(call_t *call) {
    uvhttp_timer_stop(&call->timer);
    sim_guest_cancel(call->later);
    if (call->deferred) uvhttp_deferred_release(call->deferred);
    free(call);
    handlers_open--;
}

static void respond_deferred(call_t *call) {
    char *body = malloc(call->size + 1), tag[16];
    sim_fill(body, call->tag, 0, call->size);
    snprintf(tag, sizeof tag, "%x", call->tag);
    references++;
    int status = uvhttp_deferred_header(call->deferred, "X-Tag", tag);
    if (sim_compresses) (void)uvhttp_deferred_header(call->deferred, "Content-Type", "text/plain");
    if (status == UVHTTP_OK)
        (void)uvhttp_deferred_send_ref(call->deferred, 200, NULL, body, call->size, release, body);
    else
        release(body);
    call_end(call);
}

static void on_defer_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    respond_deferred(user);
}

static void on_defer_later(void *user) {
    call_t *call = user;
    call->later = NULL;
    respond_deferred(call);
}

static void on_call_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)deferred;
    call_end(user);
}

/* The call ends when its client goes. False: it has ended. */
static bool call_defer(call_t *call, uvhttp_response_t *res) {
    call->deferred = uvhttp_response_defer(res);
    if (!call->deferred) {
        call_end(call);
        return false;
    }
    uvhttp_deferred_on_abort(call->deferred, on_call_abort, call);
    return true;
}

static void on_defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t *call = call_new(req);
    if (!call_defer(call, res)) return;
    call_later(call, call->ms, on_defer_timer, on_defer_later);
}

/* While the body comes, which nobody wants. */
static void on_early(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    if (sim_request_number(req, "ms", 10) > 0)
        on_defer(req, res, user);
    else
        on_mem(req, res, user);
}

static void write_part(uvhttp_response_t *res, const call_t *call, uint64_t size) {
    char part[4];
    set_tag(res, call->tag);
    sim_fill(part, call->tag, 0, sizeof part);
    if (uvhttp_response_begin(res, 200, NULL, size) == UVHTTP_OK) (void)uvhttp_response_write(res, part, sizeof part);
}

static void begin_broken(uvhttp_response_t *res, void *user) {
    if (res) write_part(res, user, UVHTTP_SIZE_UNKNOWN); /* else the call is gone */
}

static void on_broken_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    call_end(user);
}

static void write_short(uvhttp_request_t *req, uvhttp_response_t *res) {
    call_t shorter = read_call(req);
    write_part(res, &shorter, 5 + shorter.size);
    (void)uvhttp_response_end(res);
}

static void break_in_body(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)data, (void)user;
    write_short(req, res);
}

static void break_at_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)user;
    if (status == UVHTTP_OK) write_short(req, res);
}

/* Begins a response, and lets it down, or ends it before its size: at once, or when some of the body has come. */
static void on_broken(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint32_t kind = read_call(req).size % 3;
    if (kind == 0) {
        write_short(req, res);
        return;
    }
    if (kind == 1) {
        if (uvhttp_request_on_body(req, break_in_body, break_at_end, NULL) != UVHTTP_OK)
            uvhttp_response_empty(res, 503);
        return;
    }
    call_t *call = call_new(req);
    if (!call_defer(call, res)) return;
    (void)uvhttp_deferred_run(call->deferred, begin_broken, call);
    (void)uvhttp_timer_start(&call->timer, call->ms, on_broken_timer, call);
}

/* A job on a worker thread, which responds from there. */
static void run_job(void *user) {
    call_t *call = user;
    if (call->ms) nanosleep(&(struct timespec){.tv_sec = call->ms / 1000, .tv_nsec = call->ms % 1000 * 1000000L}, NULL);
    uvhttp_request_t *req = uvhttp_deferred_request(call->deferred);
    if (req) sim_server_check_origin(req, call->tag);
    sim_log_lines();
    respond_deferred(call);
}

/* A server that stops at once cancels what waits. */
static void on_job_done(void *user, int status) {
    if (status == UVHTTP_E_WORK_CANCELLED) call_end(user);
}

static void on_job(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t *call = call_new(req);
    call->deferred = uvhttp_response_defer(res);
    if (!call->deferred || uvhttp_work(sim_server, run_job, on_job_done, call) != UVHTTP_OK) call_end(call);
}

/* --- in parts --- */

static void on_stream_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    call_end(user);
}

static void write_on(uvhttp_response_t *res, void *user) {
    call_t *call = user;
    while (call->done < call->size) {
        char piece[PIECE_MAX];
        uint32_t size = 1 + (call->tag * 31 + call->done) % piece_max;
        if (size > call->size - call->done) size = call->size - call->done;
        sim_fill(piece, call->tag, call->done, size);
        int status = uvhttp_response_write(res, piece, size);
        if (status == UVHTTP_E_LIMIT) return; /* on_drain comes */
        if (status != UVHTTP_OK) break;
        call->done += size;
    }
    (void)uvhttp_response_end(res);
}

static void begin_stream(uvhttp_response_t *res, void *user) {
    call_t *call = user;
    if (!res) return; /* the client has gone, and on_done has been called */
    set_tag(res, call->tag);
    if (uvhttp_response_begin(res, 200, NULL, call->sized ? call->size : UVHTTP_SIZE_UNKNOWN) == UVHTTP_OK) {
        write_on(res, call);
    } else {
        (void)uvhttp_response_header_remove(res, "X-Tag");
        sim_give_up(&call->deferred);
    }
}

static void on_stream(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    call_t *call = call_new(req);
    call->sized = user != NULL;
    if (uvhttp_response_on_done(res, on_stream_done, call) != UVHTTP_OK) {
        call_end(call);
        return;
    }
    call->deferred = uvhttp_response_defer(res);
    if (!call->deferred) return;
    uvhttp_deferred_on_drain(call->deferred, write_on, call);
    if (uvhttp_deferred_run(call->deferred, begin_stream, call) != UVHTTP_OK) sim_give_up(&call->deferred);
}

/* --- where it may wait --- */

static void write_pieces(uvhttp_response_t *res, const call_t *call, char *piece, uint32_t max) {
    set_tag(res, call->tag);
    if (uvhttp_response_begin(res, 200, NULL, call->tag & 1 ? call->size : UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) return;
    for (uint32_t done = 0; done < call->size;) {
        uint32_t size = call->size - done < max ? call->size - done : max;
        sim_fill(piece, call->tag, done, size);
        if (uvhttp_response_write(res, piece, size) != UVHTTP_OK) return;
        done += size;
        sim_world_wrote(call->tag, done);
    }
}

/* For a thread no piece is too large; one of a coroutine has to fit into the queue. */
static void write_waiting(uvhttp_response_t *res, const call_t *call) {
    const uint32_t max = sim_compresses && !uvhttp_coro_active() ? PIECE_MAX : 3000;
    char *piece = malloc(max);
    write_pieces(res, call, piece, max);
    free(piece);
}

/* In some runs an operator's files have changed while requests run. */
static void reload_once(const call_t *call) {
    if (!reload_is_due || call->tag % 2 == 0) return;
    reload_is_due = false; /* one at a time */
    char message[256] = "";
    int status = uvhttp_server_reload(sim_server, NULL, message, sizeof message);
    sim_trace("reload", (uint64_t)-status, 0);
    if (status != UVHTTP_OK && !sim_failing) sim_fail("reload: %s", message);
}

static void on_work(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t call = read_call(req);
    reload_once(&call);
    if (call.ms) nanosleep(&(struct timespec){.tv_sec = call.ms / 1000, .tv_nsec = call.ms % 1000 * 1000000L}, NULL);
    sim_server_check_origin(req, call.tag);
    sim_log_lines();
    if (call.tag % 3)
        write_waiting(res, &call);
    else
        respond(res, &call);
}

static void run_coro(uvhttp_request_t *req, uvhttp_response_t *res) {
    call_t call = read_call(req);
    int slept = uvhttp_coro_sleep(call.ms);
    sim_log_lines();
    sim_server_check_origin(req, call.tag);
    if (slept != UVHTTP_OK) return;
    if (call.tag % 3)
        write_waiting(res, &call);
    else
        respond(res, &call);
}

static void on_coro(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    handlers_open++;
    run_coro(req, res);
    handlers_open--;
}

/* --- request bodies --- */

static void check(const char *data, size_t size, uint32_t tag, uint64_t offset) {
    size_t wrong = sim_mismatch(data, SIM_REQUEST_TAG(tag), offset, size);
    if (wrong < size)
        sim_fail("byte %llu of the body of request %x is wrong", (unsigned long long)(offset + wrong), tag);
}

static void on_echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t call = read_call(req);
    uvhttp_str_t body = uvhttp_request_body(req);
    if (call.tag > 1) check(body.data, body.size, call.tag, 0);
    respond(res, &call);
}

static void on_resume(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    call_t *call = user;
    call->paused = false;
    (void)uvhttp_request_resume_body(call->req);
}

static void on_resume_later(void *user) {
    call_t *call = user;
    call->later = NULL;
    on_resume(NULL, call);
}

static void on_upload_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res;
    call_t *call = user;
    if (call->paused) sim_fail("a piece of the body of %x while it is paused", call->tag);
    if (call->tag > 1) check(data.data, data.size, call->tag, call->received);
    call->received += data.size;
    if (call->ms == 0 || (call->received + call->tag) % 7 > 1) return;
    call->paused = uvhttp_request_pause_body(req) == UVHTTP_OK;
    if (call->paused) call_later(call, call->ms % 300, on_resume, on_resume_later);
}

static void on_upload_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req;
    if (status == UVHTTP_OK) respond(res, user);
}

static void on_upload_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    call_end(user);
}

static void on_upload(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    call_t *call = call_new(req);
    if (uvhttp_response_on_done(res, on_upload_done, call) != UVHTTP_OK) {
        call_end(call);
        return;
    }
    call->req = req;
    (void)uvhttp_request_on_body(req, on_upload_data, on_upload_end, call);
}

/* Where the handler may wait for the body: on a worker thread and in a coroutine. */
static void read_and_respond(uvhttp_request_t *req, uvhttp_response_t *res) {
    call_t call = read_call(req);
    uvhttp_str_t piece;
    int status;
    for (;;) {
        status = uvhttp_coro_active() ? uvhttp_coro_read_body(req, &piece, UVHTTP_NEVER)
                                      : uvhttp_request_read_body(req, &piece, UVHTTP_NEVER);
        if (status != UVHTTP_OK) break;
        if (call.tag > 1) check(piece.data, piece.size, call.tag, call.received);
        call.received += piece.size;
        if (call.ms && call.received % 5 == 0 && uvhttp_coro_active() && uvhttp_coro_sleep(call.ms % 200)) return;
    }
    if (status == UVHTTP_E_EOF) respond(res, &call);
}

static void on_read(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    handlers_open++;
    read_and_respond(req, res);
    handlers_open--;
}

/* --- middleware that waits --- */

static uvhttp_flow_t proceed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_NEXT;
}

static void on_wait_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    call_t *call = user;
    (void)uvhttp_deferred_next(call->deferred, proceed, NULL);
    call_end(call);
}

/* Who came through the proxy says so itself, too. */
static void check_client(uvhttp_request_t *req) {
    uvhttp_str_t said = uvhttp_request_header(req, "X-From"), client = uvhttp_request_client(req);
    if (said.size == 0 || sim_failing) return;
    if (client.size != said.size || memcmp(client.data, said.data, said.size) != 0)
        sim_fail("a request of %.*s is taken for one of %.*s", (int)said.size, said.data, (int)client.size,
                 client.data);
}

/* A slow client's, for example. A head that is malformed may end in its tag. */
static void note_refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    uvhttp_str_t path = uvhttp_request_path(req);
    uint32_t slashes = 0;
    for (size_t i = 0; i < path.size; i++) slashes += path.data[i] == '/';
    if (slashes == 4) sim_access_log_saw(req);
}

static uvhttp_flow_t wait_first(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    check_client(req);
    sim_access_log_saw(req);
    uvhttp_str_t text = uvhttp_request_header(req, "X-Wait");
    if (text.size == 0) return UVHTTP_NEXT;
    call_t *call = calloc(1, sizeof *call);
    handlers_open++;
    call->ms = sim_number(text.data, text.size, 10);
    if (!call_defer(call, res)) return UVHTTP_STOP;
    (void)uvhttp_timer_start(&call->timer, call->ms, on_wait_timer, call);
    return UVHTTP_STOP;
}

/* --- life --- */

/* What io_uring tries out once in a process is done in seed 0, which runs first. */
static uvhttp_engine_t engine_of(uint64_t seed, sim_random_t *random) {
    bool uring = sim_one_in(random, 2) || seed == 0;
    return UVHTTP_WITH_URING && uring ? UVHTTP_ENGINE_URING : UVHTTP_ENGINE_EPOLL;
}

/* Each limit that a crowd may reach: none, max_connections, or descriptors. */
static void plan_crowd(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0xc7);
    sim_crowd = sim_streams_max = 0;
    sim_admin_listens = sim_one_in(&random, 4);
    if (seed % SIM_CROWD_EVERY != SIM_CROWD_EVERY - 1) return;
    uint32_t least = 100u << sim_below(&random, 5), more = sim_below(&random, least);
    sim_crowd = least + more < SIM_CLIENTS_MAX ? least + more : SIM_CLIENTS_MAX;
    crowd_places = SIM_CLIENTS_MAX;
    uint32_t limit = sim_below(&random, 3), places = sim_crowd / (2 + sim_below(&random, 8));
    if (limit == 1) crowd_places = places;
    if (limit == 2) sim_streams_max = places;
    sim_places_are_few = limit > 0;
}

void sim_server_plan(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x91);
    sim_tls_listens = sim_one_in(&random, 4) && sim_tls_server;
    sim_tls_reset(seed, sim_tls_listens && sim_one_in(&random, 25));
    sim_proxy_listens = sim_one_in(&random, 5);
    sim_access_logged = sim_one_in(&random, 3);
    sim_places_are_few = sim_one_in(&random, 4);
    sim_threads_are_patient = !sim_one_in(&random, 6);
    reload_is_due = sim_one_in(&random, 16);
    sim_wall_jumps = sim_one_in(&random, 8);
    bool wide = sim_one_in(&random, 4);
    sim_h2_connection_window = wide ? 1 << 20 : 65535 + sim_below(&random, 2) * sim_below(&random, 50000);
    sim_h2_stream_window = wide ? 1 << 18 : 16384 + sim_below(&random, 16384);
    if (sim_h2_stream_window > sim_h2_connection_window / 4) sim_h2_stream_window = sim_h2_connection_window / 4;
    plan_crowd(seed);
    sim_coding_reset(seed);
    sim_h2_memory_plan(seed);
    sim_redis_reset(seed);
    sim_names_reset(seed);
    sim_guest_plan(seed);
    sim_tcp_plan(seed);
    sim_collector_reset(seed);
    sim_access_log_reset();
    sim_metrics_reset(seed);
    sim_ws_plan(seed);
    sim_random_t of_log = sim_random_of(seed, 0x92);
    sim_access_log_is_file = sim_one_in(&of_log, 2);
    static const route_t kinds[] = {CHANNEL, JOBS, FORM};
    sim_random_t of_routes = sim_random_of(seed, 0x93);
    sim_spool_max = sim_one_in(&of_routes, 8) ? 4000 + sim_log_uniform(&of_routes, 100000) : 0;
    sim_popular = sim_one_in(&of_routes, 12) ? kinds[sim_below(&of_routes, 3)] : 0;
    sim_response_timeout_ms = sim_one_in(&of_log, 6) && !sim_crowd ? 300 + sim_below(&of_log, 600) : 0;
}

int sim_server_listen(uvhttp_server_t *server) {
    for (uint32_t i = 0; i < 4; i++) {
        char address[64];
        bool tls = i & SIM_PORT_TLS, proxy = i & SIM_PORT_PROXY;
        if ((tls && !sim_tls_listens) || (proxy && !sim_proxy_listens)) continue;
        snprintf(address, sizeof address, "127.0.0.1:%u%s", SIM_PORT + i, proxy ? " proxy_protocol" : "");
        int status = tls ? uvhttp_server_listen_tls(server, address, sim_tls_server, NULL)
                         : uvhttp_server_listen(server, address, NULL);
        if (status != UVHTTP_OK) return status;
    }
    return UVHTTP_OK;
}

static void make_config(uint64_t seed, uvhttp_server_config_t *config) {
    sim_random_t random = sim_random_of(seed, 0x5e);
    uvhttp_server_config_default(config);
    config->io_threads = sim_one_in(&random, 2) ? 1 : 2 + sim_below(&random, 2);
    if (sim_is_guest) config->io_threads = 1;
    config->engine = engine_of(seed, &random);
    config->install_signal_handlers = false;
    config->quiet = true;
    config->raise_descriptor_limit = false;
    sim_places = config->max_connections = sim_crowd ? crowd_places : sim_places_are_few ? 4 : 100;
    config->read_buffer_size = sim_one_in(&random, sim_h2_memory_max ? 1 : 3) ? 1024 : 16384;
    config->read_buffer_count = sim_one_in(&random, 3) ? 8 : 64;
    config->write_buffer_size = sim_one_in(&random, 3) ? 1024 : 16384;
    config->write_queue_max = sim_one_in(&random, 3) ? 8192 : 65536;
    piece_max = sim_compresses && config->write_queue_max > PIECE_MAX ? PIECE_MAX : PIECE_MAX / 4;
    config->iteration_requests_max = sim_one_in(&random, 3) ? 1 : 128;
    sim_half_close = config->half_close = sim_one_in(&random, 3);
    config->connection_timeout = SIM_HEAD_TIMEOUT_S;
    config->keepalive_timeout = SIM_KEEPALIVE_S;
    config->body_timeout = SIM_BODY_TIMEOUT_S;
    config->write_timeout = SIM_WRITE_TIMEOUT_S;
    config->drain_timeout = SIM_DRAIN_S;
    config->http2_connection_window = sim_h2_connection_window;
    config->http2_stream_window = sim_h2_stream_window < 16384 ? 16384 : sim_h2_stream_window;
    if (sim_h2_memory_max) config->http2_connection_memory_max = sim_h2_memory_max;
    if (sim_compresses) config->http2_connection_memory_max = 16 << 20; /* for responses that are large */
    snprintf(config->spool_directory, sizeof config->spool_directory, SIM_SPOOL);
    if (sim_spool_max) config->spool_size_max = sim_spool_max;
    config->spool_memory = sim_one_in(&random, 2) || sim_popular ? 4096 : 65536;
    config->worker_threads = 1 + sim_below(&random, 6);
    config->worker_idle_timeout = 2;
    sim_random_t of_warnings = sim_random_of(seed, 0x94);
    sim_jobs_are_watched = !sim_logged && sim_one_in(&of_warnings, 4);
    config->worker_warn_ms = sim_jobs_are_watched ? 1 + sim_log_uniform(&of_warnings, 200) : UVHTTP_NEVER;
    config->worker_queue_timeout_ms = sim_threads_are_patient ? UVHTTP_NEVER : 50;
    if (!sim_threads_are_patient && sim_one_in(&random, 2)) config->max_backlog = 1 + sim_below(&random, 3);
    config->handler_warn_ms = UVHTTP_NEVER;
    if (sim_admin_listens) snprintf(config->admin, sizeof config->admin, "127.0.0.1:%u", SIM_ADMIN_PORT);
    config->trace = sim_traces;
    snprintf(config->trace_endpoint, sizeof config->trace_endpoint, "http://127.0.0.1:%u", SIM_COLLECTOR);
    config->trace_delay_ms = sim_log_uniform(&random, 5000);
    config->trace_queue_size = 65536;
    config->metrics = sim_metered;
    if (sim_address_max) config->connections_per_address_max = sim_address_max;
    config->metrics_series_max = sim_series_max;
    if (sim_crowd && sim_threads_are_patient) config->max_backlog = 10 * SIM_CLIENTS_MAX;
}

static void add_routes(uvhttp_server_t *server, uint32_t loop_count) {
    static bool known_size = true;
    uvhttp_get(server, "/mem/:tag/:size/:ms", on_mem, NULL);
    (void)sim_limiter_add(server, on_limit, loop_count);
    (void)sim_redis_add(server, on_mem);
    uvhttp_get(server, "/ref/:tag/:size/:ms", on_ref, NULL);
    const uvhttp_route_options_t timed = {.response_timeout_ms = sim_response_timeout_ms};
    uvhttp_route_options(uvhttp_get(server, "/defer/:tag/:size/:ms", on_defer, NULL), &timed);
    uvhttp_get(server, "/job/:tag/:size/:ms", on_job, NULL);
    uvhttp_get(server, "/stream/:tag/:size/:ms", on_stream, NULL);
    uvhttp_get(server, "/sized/:tag/:size/:ms", on_stream, &known_size);
    uvhttp_route_options(uvhttp_route(server, UVHTTP_GET, "/work/:tag/:size/:ms", on_work, NULL, UVHTTP_EXEC_WORKER),
                         &timed);
    uvhttp_route_options(uvhttp_route(server, UVHTTP_GET, "/coro/:tag/:size/:ms", on_coro, NULL, UVHTTP_EXEC_COROUTINE),
                         &timed);
    uvhttp_post(server, "/echo/:tag/:size/:ms", on_echo, NULL);
    uvhttp_route_options(uvhttp_post(server, "/upload/:tag/:size/:ms", on_upload, NULL),
                         &(uvhttp_route_options_t){.stream_body = true});
    uvhttp_route_options(uvhttp_route(server, UVHTTP_POST, "/spool/:tag/:size/:ms", on_read, NULL, UVHTTP_EXEC_WORKER),
                         &(uvhttp_route_options_t){.stream_body = true});
    uvhttp_route_options(uvhttp_route(server, UVHTTP_POST, "/live/:tag/:size/:ms", on_read, NULL, UVHTTP_EXEC_WORKER),
                         &(uvhttp_route_options_t){.stream_body = true, .live_body = true});
    uvhttp_route_options(
        uvhttp_route(server, UVHTTP_POST, "/cobody/:tag/:size/:ms", on_read, NULL, UVHTTP_EXEC_COROUTINE),
        &(uvhttp_route_options_t){.stream_body = true});
    uvhttp_route_options(uvhttp_post(server, "/early/:tag/:size/:ms", on_early, NULL),
                         &(uvhttp_route_options_t){.stream_body = true});
    uvhttp_route_options(uvhttp_post(server, "/broken/:tag/:size/:ms", on_broken, NULL),
                         &(uvhttp_route_options_t){.stream_body = true});
    sim_endpoints_add(server);
    sim_topics_add(server);
    sim_gateway_add(server);
    sim_dial_add(server);
    sim_handles_add(server);
    sim_events_add(server);
    sim_replies_add(server);
    sim_channels_add(server);
    sim_jobs_add(server);
    sim_forms_add(server);
}

/* Little of it is kept where the caches are small, while responses still send it. */
static void add_files(uvhttp_server_t *server, uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x95);
    uvhttp_static_options_t options = {.sendfile_min = 5000, .helper_threads = 2, .no_precompressed = !sim_edits};
    if (sim_one_in(&random, 3)) options.cache_entries_max = 1 + sim_below(&random, 4);
    if (sim_one_in(&random, 3)) options.open_files_max = 1 + sim_below(&random, 3);
    if (sim_one_in(&random, 3)) options.cache_size_max = 1 + sim_log_uniform(&random, 100000);
    if (sim_one_in(&random, 3)) options.revalidate_ms = 1 + sim_below(&random, 50);
    sim_look_ups_wait = !sim_one_in(&random, 3);
    if (!sim_look_ups_wait) options.backlog_max = 1 + sim_below(&random, 3);
    if (sim_edits) options.revalidate_ms = sim_edit_revalidate_ms;
    sim_inodes_are_reused = options.cache_size_max == 0;
    options.warm_up = sim_one_in(&random, 4);
    options.no_sendfile = sim_one_in(&random, 4);
    uvhttp_static(server, "/files", sim_files_root(), &options);
}

uvhttp_server_t *sim_server_new(uint64_t seed) {
    static const char *const trusted[] = {"127.0.0.1"};
    uvhttp_server_config_t config;
    make_config(seed, &config);
    uvhttp_server_t *server = uvhttp_server_new(&config);
    references = handlers_open = 0;
    if (!server) return NULL;
    if (sim_proxy_listens)
        (void)uvhttp_server_trust_proxies(server, &(uvhttp_proxy_options_t){.trusted = trusted, .trusted_count = 1});
    access_log.run = NULL;
    if (sim_access_logged) {
        access_log = uvhttp_access_log(
            &(uvhttp_access_log_options_t){.format = UVHTTP_ACCESS_LOG_COMMON,
                                           .path = sim_access_log_is_file ? SIM_ACCESS_LOG : NULL,
                                           .write = sim_access_log_is_file ? NULL : sim_access_log_write,
                                           .ring_size = 65536});
        if (uvhttp_use(server, access_log) != UVHTTP_OK) access_log.run = NULL;
    }
    (void)sim_coding_add(server);
    uvhttp_use(server, (uvhttp_middleware_t){.run = wait_first, .on_refused = note_refused});
    add_routes(server, (uint32_t)config.io_threads);
    add_files(server, seed);
    sim_tcp_add(server, &config);
    return server;
}

/* The last lines and spans are written when the server is freed. */
void sim_server_check_log(void) {
    sim_collector_check_end();
    sim_events_forget();
    if (!access_log.run) return;
    sim_access_log_check(access_log_complete);
    if (!access_log_complete && sim_access_log_is_file && sim_access_log_is_good() && !sim_failing &&
        sim_access_log_dropped() != access_log_dropped)
        sim_fail("the access log says that %llu requests are missing, which are %llu",
                 (unsigned long long)sim_access_log_dropped(), (unsigned long long)access_log_dropped);
}

void sim_server_check_counters(uvhttp_server_t *server) {
    uvhttp_access_log_stats_t stats = {0};
    if (access_log.run) (void)uvhttp_access_log_stats(access_log, &stats);
    access_log_dropped = stats.dropped;
    access_log_complete = !sim_failing && stats.dropped == 0 && sim_access_log_is_good();
    if (sim_access_log_is_file && stats.lines > sim_access_log_lines())
        sim_fail("%llu lines of the access log count as written, and %llu have come", (unsigned long long)stats.lines,
                 (unsigned long long)sim_access_log_lines());
    sim_limiter_check_end();
    sim_redis_check_end();
    sim_forms_check_server(server);
    sim_topics_check_counters(server);
    sim_collector_check_server(server);
    sim_metrics_check_end(server);
    sim_metrics_check_limits();
    if (access_log.run && sim_metrics_last("access_log_dropped") > stats.dropped)
        sim_fail("the access log counts %llu requests as dropped, and its server more",
                 (unsigned long long)stats.dropped);
    sim_addresses_check_end();
    uint64_t accepted = uvhttp_server_counter(server, "connections_accepted"),
             closed = uvhttp_server_counter(server, "connections_closed");
    if (accepted != closed)
        sim_fail("%llu connections were accepted and %llu closed", (unsigned long long)accepted,
                 (unsigned long long)closed);
}

void sim_server_check_end(void) {
    sim_world_check_callbacks();
    sim_endpoints_check_end();
    sim_topics_check_end();
    sim_gateway_check_end();
    sim_dial_check_end();
    sim_handles_check_end();
    sim_events_check_end();
    sim_replies_check_end();
    sim_channels_check_end();
    sim_forms_check_end();
    sim_disk_check_end();
    if (references) sim_fail("%u response bodies were not released", references);
    if (handlers_open) sim_fail("%u handlers were not notified of their end", handlers_open);
}
