/* Owns: the endpoints that ask the loops of the server: each loop writes its part on its own thread, and the last one
 * sends the response. A loop that does not reply in time is named instead. May include: everything. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ref.h"
#include "conn/inspect.h"
#include "protocol/http1_session.h"
#include "protocol/select.h"
#include "server/admin_internal.h"

/* A part belongs to its loop's thread until `done`, then to that of the admin listener. */
typedef struct part {
    uvhttp__post_t post;
    struct question *question;
    uvhttp__tcp_loop_t *loop;
    atomic_bool done;
    uint64_t count; /* of its connections */
    uvhttp__writer_t json;
} part_t;

typedef struct question {
    uvhttp__ref_t ref;                     /* one of the admin listener, one of each part */
    uvhttp__admin_t *admin;                /* that thread's only */
    _Atomic(uvhttp_deferred_t *) deferred; /* of who takes it and sends the response */
    uvhttp_timer_t timer;
    atomic_uint missing;
    void (*ask)(part_t *part);
    void (*respond)(const struct question *question, uvhttp_response_t *res);
    size_t max; /* connections of a list */
    bool over;  /* the admin listener has released it */
    uint32_t part_count;
    part_t parts[];
} question_t;

static void release(question_t *question) {
    if (!uvhttp__ref_release(&question->ref)) return;
    uvhttp_deferred_release(atomic_load(&question->deferred));
    for (uint32_t i = 0; i < question->part_count; i++) uvhttp__writer_free(&question->parts[i].json);
    uvhttp__free(question);
}

/* Runs `run` on the admin listener's thread, with a reference of its own, unless somebody has done so before. The
 * handle stays if that fails: without memory on_timeout tries again; a client that has left ends the question by
 * on_abort. Any thread. */
static void send_once(question_t *question, void (*run)(uvhttp_response_t *res, void *user)) {
    uvhttp_deferred_t *deferred = atomic_exchange(&question->deferred, NULL);
    if (!deferred) return;
    uvhttp__ref_acquire(&question->ref);
    if (uvhttp_deferred_run(deferred, run, question) == UVHTTP_OK) {
        uvhttp_deferred_release(deferred);
        return;
    }
    atomic_store(&question->deferred, deferred);
    release(question);
}

/* --- the admin listener's thread --- */

static void end(question_t *question) {
    if (question->over) return;
    question->over = true;
    uvhttp_timer_stop(&question->timer);
    release(question);
}

/* Every loop has replied. It holds a reference of its own. res NULL: the client has gone. */
static void on_complete(uvhttp_response_t *res, void *user) {
    question_t *question = user;
    if (res) question->respond(question, res);
    end(question);
    release(question);
}

static void respond_now(uvhttp_response_t *res, void *user) {
    question_t *question = user;
    if (res) question->respond(question, res);
    release(question);
}

static void on_timeout(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    question_t *question = user;
    send_once(question, respond_now); /* or the last reply is on its way */
    end(question);
}

static void on_abort(uvhttp_deferred_t *aborted, void *user) {
    (void)aborted;
    question_t *question = user;
    uvhttp_deferred_t *deferred = atomic_exchange(&question->deferred, NULL);
    uvhttp_deferred_release(deferred);
    end(question);
}

/* --- the thread of a loop --- */

static void on_part(uvhttp__post_t *post) {
    part_t *part = UVHTTP__CONTAINER_OF(post, part_t, post);
    question_t *question = part->question;
    question->ask(part);
    atomic_store(&part->done, true);
    atomic_fetch_sub(&part->loop->open_questions, 1);
    if (atomic_fetch_sub(&question->missing, 1) == 1) send_once(question, on_complete);
    release(question);
}

/* --- asking --- */

static question_t *new_question(uvhttp__admin_t *admin) {
    uvhttp__tcp_server_t *tcp_server = admin->server->tcp_server;
    question_t *question = uvhttp__calloc(1, sizeof *question + tcp_server->loop_count * sizeof(part_t));
    if (!question) return NULL;
    uvhttp__ref_init(&question->ref);
    question->admin = admin;
    question->part_count = tcp_server->loop_count;
    atomic_init(&question->missing, question->part_count + 1); /* and the one who asks */
    for (uint32_t i = 0; i < question->part_count; i++) {
        part_t *part = &question->parts[i];
        part->post.run = on_part;
        part->question = question;
        part->loop = &tcp_server->loops[i];
    }
    return question;
}

/* False if the loop does not run, or hangs: what it is asked would be kept until it runs again. */
static bool ask_loop(question_t *question, uint32_t index) {
    atomic_uint *open_questions = &question->parts[index].loop->open_questions;
    if (atomic_load(open_questions) >= UVHTTP__ADMIN_QUESTIONS_MAX) return false;
    atomic_fetch_add(open_questions, 1);
    uvhttp__ref_acquire(&question->ref);
    if (uvhttp__tcp_server_post(question->admin->server->tcp_server, index, &question->parts[index].post)) return true;
    atomic_fetch_sub(open_questions, 1);
    release(question);
    return false;
}

/* Loops that are not asked are missing in the response. */
static void ask_loops(question_t *question) {
    unsigned not_asked = 1;
    for (uint32_t i = 0; i < question->part_count; i++) not_asked += !ask_loop(question, i);
    if (atomic_fetch_sub(&question->missing, not_asked) == not_asked) send_once(question, on_complete);
}

static void begin(uvhttp__admin_t *admin, uvhttp_response_t *res, void (*ask)(part_t *part),
                  void (*respond)(const question_t *question, uvhttp_response_t *res), size_t max) {
    question_t *question = new_question(admin);
    uvhttp_deferred_t *deferred = question ? uvhttp_response_defer(res) : NULL;
    if (!deferred) {
        if (question)
            release(question);
        else
            uvhttp__admin_respond(res, 503, &(uvhttp__writer_t){.failed = true});
        return;
    }
    question->ask = ask;
    question->respond = respond;
    question->max = max;
    atomic_init(&question->deferred, deferred);
    uvhttp_deferred_on_abort(deferred, on_abort, question);
    (void)uvhttp_timer_start(&question->timer, UVHTTP__ADMIN_LOOP_WAIT_MS, on_timeout, question);
    ask_loops(question);
}

/* --- health --- */

static void ask_nothing(part_t *part) {
    (void)part; /* that it replies is what is asked */
}

static void respond_health(const question_t *question, uvhttp_response_t *res) {
    const char *state = uvhttp__admin_state(question->admin);
    bool healthy = true;
    uvhttp__writer_t json = {0}, loops = {0};
    for (uint32_t i = 0; i < question->part_count; i++) {
        bool responds = atomic_load(&question->parts[i].done);
        healthy = healthy && responds;
        uvhttp__write_comma(&loops);
        uvhttp__write_format(&loops, "{\"index\":%u,\"responds\":%s}", i, responds ? "true" : "false");
    }
    uvhttp__write_format(&json, "{\"healthy\":%s,\"state\":\"%s\",\"loops\":[", healthy ? "true" : "false", state);
    uvhttp__write_other(&json, &loops);
    uvhttp__write_text(&json, "]}\n");
    uvhttp__admin_respond(res, healthy ? 200 : 503, &json);
    uvhttp__writer_free(&loops);
    uvhttp__writer_free(&json);
}

void uvhttp__admin_get_health(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    begin(user, res, ask_nothing, respond_health, 0);
}

/* --- connections --- */

static const char *protocol_of(uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_PROXY) return "proxy";
    if (conn->flags & UVHTTP__CONN_HANDSHAKE) return "handshake";
    switch ((conn->flags & UVHTTP__CONN_PROTOCOL) >> 13) {
        case UVHTTP__PROTOCOL_HTTP2: return "h2";
        case UVHTTP__PROTOCOL_UNKNOWN: return "new";
        default: return uvhttp__session_of(conn)->state == UVHTTP__SESSION_UPGRADED ? "upgraded" : "http/1";
    }
}

static const char *state_of(const uvhttp__conn_t *conn) {
    static const char *const names[] = {[UVHTTP__PHASE_IDLE] = "idle",
                                        [UVHTTP__PHASE_READING] = "reading",
                                        [UVHTTP__PHASE_WRITING] = "writing",
                                        [UVHTTP__PHASE_CLOSING] = "closing"};
    return names[uvhttp__conn_phase(conn)];
}

static void add_connection(uvhttp__conn_t *conn, void *user) {
    part_t *part = user;
    uvhttp__writer_t *json = &part->json;
    char peer[UVHTTP__ADDRESS_TEXT_MAX] = "unknown";
    uvhttp__kernel_facts_t facts;
    uint64_t age_ms = uvhttp__conn_age_ms(conn);
    (void)uvhttp__conn_peer(conn, peer);
    uvhttp__write_comma(json);
    uvhttp__write_text(json, "\n{");
    uvhttp__write_member(json, "peer", peer);
    uvhttp__write_format(json, ",\"loop\":%u,\"protocol\":\"%s\",\"tls\":%s,\"state\":\"%s\",\"queued\":%" PRIu32,
                         conn->loop->index, protocol_of(conn), conn->stream.filter ? "true" : "false", state_of(conn),
                         uvhttp__stream_out_size(&conn->stream));
    if (age_ms != UVHTTP__AGE_UNKNOWN)
        uvhttp__write_format(json, ",\"age_s\":%.1f", (double)age_ms / 1000);
    else
        uvhttp__write_text(json, ",\"age_s\":null");
    if (uvhttp__stream_kernel_facts(&conn->stream, &facts))
        uvhttp__write_format(json,
                             ",\"bytes_received\":%" PRIu64 ",\"bytes_acknowledged\":%" PRIu64
                             ",\"round_trip_us\":%" PRIu32 ",\"retransmits\":%" PRIu32 "}",
                             facts.bytes_received, facts.bytes_acknowledged, facts.round_trip_us, facts.retransmits);
    else
        uvhttp__write_text(json, ",\"bytes_received\":null,\"bytes_acknowledged\":null,\"round_trip_us\":null,"
                                 "\"retransmits\":null}");
}

static void ask_connections(part_t *part) {
    part->count = uvhttp__tcp_loop_each(part->loop, part->question->max, add_connection, part);
}

static void respond_connections(const question_t *question, uvhttp_response_t *res) {
    uvhttp__writer_t json = {0}, missing = {0};
    uint64_t total = 0;
    uvhttp__write_text(&json, "{\"connections\":[");
    for (uint32_t i = 0; i < question->part_count; i++) {
        const part_t *part = &question->parts[i];
        if (!atomic_load(&part->done)) {
            uvhttp__write_comma(&missing);
            uvhttp__write_number(&missing, i);
            continue;
        }
        total += part->count;
        if (part->json.size == 0 && !part->json.failed) continue;
        uvhttp__write_comma(&json);
        uvhttp__write_other(&json, &part->json);
    }
    uvhttp__write_format(&json, "],\n\"total\":%" PRIu64 ",\"limit_per_loop\":%zu,\"loops_missing\":[", total,
                         question->max);
    uvhttp__write_other(&json, &missing);
    uvhttp__write_text(&json, "]}\n");
    uvhttp__admin_respond(res, 200, &json);
    uvhttp__writer_free(&missing);
    uvhttp__writer_free(&json);
}

void uvhttp__admin_get_connections(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp__admin_t *admin = user;
    uvhttp_str_t text;
    int64_t limit = UVHTTP__ADMIN_LIST_DEFAULT;
    if (uvhttp_request_query_param(req, "limit", &text) &&
        (uvhttp_str_to_int64(text, &limit) != UVHTTP_OK || limit < 1 || limit > UVHTTP__ADMIN_LIST_MAX)) {
        (void)uvhttp_response_json(res, 400, "{\"error\":\"limit: expected 1..1000\"}\n");
        return;
    }
    uint32_t loops = admin->server->tcp_server->loop_count;
    size_t per_loop = ((size_t)limit + loops - 1) / loops;
    begin(admin, res, ask_connections, respond_connections, per_loop);
}
