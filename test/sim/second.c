/* Owns: a second server on the loop of an application, in some of the seeds in which there is such a loop: attached
 * before or behind the other one, stopped and freed at any time, and its visitors, who ask it for one response each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "uv_loop.h"

enum { VISITORS_MAX = 4, BODY_MAX = 20000, RESPONSE_MAX = 32768, CLIENT = 0x7800, TAG = 0x30000000, PATIENCE_S = 120 };

typedef struct visitor {
    sim_actor_t actor;
    sim_conn_t *conn; /* NULL: none yet */
    sim_random_t random;
    uint32_t tag, size, received;
    char request[128];
    size_t request_size, request_sent;
    uint64_t asked_ns;
    char response[RESPONSE_MAX];
} visitor_t;

typedef struct visit {
    uvhttp_timer_t timer;
    uvhttp_deferred_t *deferred;
    uint32_t tag, size;
} visit_t;

static uvhttp_server_t *second; /* NULL: there is none, or it was freed */
static sim_random_t random_numbers;
static bool frees_later, stop_asked;
static uint32_t visits_open, stopped;

bool sim_second_lives(void) {
    return second != NULL;
}

/* --- visitors --- */

static uint64_t soon(visitor_t *it, uint32_t max_ms) {
    return sim_now_ns + 1 + (uint64_t)sim_below(&it->random, 1000 * max_ms) * 1000;
}

static void leave(visitor_t *it) {
    if (it->conn) sim_client_close(it->conn);
    it->conn = NULL;
    it->actor.done = true;
    it->actor.next_ns = SIM_NEVER;
}

/* The connection has ended: behind the whole response, unless the server was stopped. */
static void check_response(const visitor_t *it) {
    const char *body = memmem(it->response, it->received, "\r\n\r\n", 4);
    if (stop_asked || sim_failing) return;
    if (!body || memcmp(it->response, "HTTP/1.1 200 ", 13) != 0)
        sim_fail("a visitor of the second server has no response: %.*s", (int)it->received, it->response);
    uint32_t size = it->received - (uint32_t)(body + 4 - it->response);
    if (size != it->size || sim_mismatch(body + 4, it->tag, 0, size) < size)
        sim_fail("a visitor of the second server has %u bytes of %u, or others", size, it->size);
}

static void receive(visitor_t *it) {
    if (RESPONSE_MAX == it->received) sim_fail("the response to a visitor has no end");
    long got = sim_client_receive(it->conn, it->response + it->received, RESPONSE_MAX - it->received);
    if (got > 0) it->received += (uint32_t)got;
    if (got >= 0) return;
    check_response(it);
    leave(it);
}

static void step(sim_actor_t *actor) {
    visitor_t *it = (visitor_t *)actor;
    actor->next_ns = SIM_NEVER;
    if (!it->conn) {
        it->conn = sim_connect(CLIENT + it->tag % VISITORS_MAX, SIM_SECOND_PORT, sim_actor_wake, it);
        it->asked_ns = sim_now_ns;
        if (it->conn || !stop_asked)
            actor->next_ns = soon(it, 20);
        else
            leave(it);
        return;
    }
    receive(it);
    if (actor->done) return;
    if (!stop_asked && !sim_failing && sim_now_ns - it->asked_ns > PATIENCE_S * 1000 * SIM_MS)
        sim_fail("a visitor of the second server has no response after %d s", PATIENCE_S);
    if (it->request_sent < it->request_size)
        it->request_sent +=
            sim_client_send(it->conn, it->request + it->request_sent, it->request_size - it->request_sent);
    bool acts = it->request_sent < it->request_size || sim_client_readable(it->conn);
    actor->next_ns = acts ? soon(it, 5) : it->asked_ns + (PATIENCE_S * 1000 + 1) * SIM_MS;
    if (actor->next_ns <= sim_now_ns) actor->next_ns = SIM_NEVER; /* it has been patient for long enough */
}

static void woken(sim_actor_t *actor) {
    uint64_t at = soon((visitor_t *)actor, 3);
    if (at < actor->next_ns) actor->next_ns = at;
}

static void free_visitor(sim_actor_t *actor) {
    leave((visitor_t *)actor);
    free(actor);
}

static void invite(uint64_t seed) {
    uint32_t count = 1 + sim_below(&random_numbers, VISITORS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        visitor_t *it = calloc(1, sizeof *it);
        if (!it) abort();
        it->actor = (sim_actor_t){.step = step, .woken = woken, .free = free_visitor};
        it->random = sim_random_of(seed, 0x98000 + i);
        it->tag = TAG + i;
        it->size = sim_below(&it->random, BODY_MAX);
        it->request_size = (size_t)snprintf(it->request, sizeof it->request,
                                            "GET /visit/%x/%u/%u HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                                            it->tag, it->size, sim_below(&it->random, 300));
        it->actor.next_ns = soon(it, 2000);
        sim_actor_add(&it->actor);
    }
}

/* --- the server --- */

static void end_visit(visit_t *visit) {
    uvhttp_timer_stop(&visit->timer);
    uvhttp_deferred_release(visit->deferred);
    free(visit);
    visits_open--;
}

static void on_visit_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    visit_t *visit = user;
    char *body = malloc(visit->size + 1);
    sim_fill(body, visit->tag, 0, visit->size);
    (void)uvhttp_deferred_send(visit->deferred, 200, NULL, body, visit->size);
    free(body);
    end_visit(visit);
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)deferred;
    end_visit(user);
}

/* By a timer of the loop, which has to be this server's, whichever was attached last. */
static void on_visit(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return;
    visit_t *visit = calloc(1, sizeof *visit);
    visit->deferred = deferred;
    visit->tag = sim_request_number(req, "tag", 16);
    visit->size = sim_request_number(req, "size", 10);
    visits_open++;
    uvhttp_deferred_on_abort(deferred, on_abort, visit);
    if (uvhttp_timer_start(&visit->timer, sim_request_number(req, "ms", 10), on_visit_timer, visit) != UVHTTP_OK)
        sim_fail("a handler of the second server has no loop");
}

static void free_second(void *arg) {
    (void)arg;
    uvhttp_server_t *server = second;
    second = NULL;
    sim_guest_free(server);
}

static void on_stopped(uvhttp_server_t *server, void *user) {
    (void)user;
    sim_trace("the second server has stopped", frees_later, 0);
    uint64_t accepted = uvhttp_server_counter(server, "connections_accepted"),
             closed = uvhttp_server_counter(server, "connections_closed");
    if (stopped++ > 0 || server != second) sim_fail("on_stopped of the second server is called twice");
    if (accepted != closed || visits_open > 0)
        sim_fail("the second server has stopped with %llu connections and %u handlers",
                 (unsigned long long)(accepted - closed), visits_open);
    if (frees_later)
        (void)sim_guest_later(sim_below(&random_numbers, 500), free_second, NULL);
    else
        free_second(NULL);
}

static void stop(void *arg) {
    (void)arg;
    stop_asked = true;
    (void)uvhttp_server_stop(second);
}

static uvhttp_server_t *make(uvhttp_engine_t engine) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.engine = engine;
    config.install_signal_handlers = false;
    config.quiet = true;
    config.raise_descriptor_limit = false;
    config.read_buffer_count = 8;
    config.max_connections = 10;
    config.drain_timeout = SIM_DRAIN_S;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (server) uvhttp_get(server, "/visit/:tag/:size/:ms", on_visit, NULL);
    return server;
}

void sim_second_attach(uv_loop_t *loop, uint64_t seed) {
    random_numbers = sim_random_of(seed, 0x97);
    frees_later = sim_one_in(&random_numbers, 2);
    stop_asked = false;
    visits_open = stopped = 0;
    bool uring = UVHTTP_WITH_URING && sim_one_in(&random_numbers, 2);
    second = make(uring ? UVHTTP_ENGINE_URING : UVHTTP_ENGINE_EPOLL);
    if (!second && !sim_memory_has_failed()) sim_fail("no second server");
    if (!second) return;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", SIM_SECOND_PORT);
    int status = uvhttp_server_attach(second, loop);
    if (status == UVHTTP_OK) status = uvhttp_server_listen(second, address, NULL);
    if (status != UVHTTP_OK && !sim_memory_has_failed())
        sim_fail("the second server: %s", uvhttp_server_error_text(second));
    if (status != UVHTTP_OK) {
        free_second(NULL);
        return;
    }
    uvhttp_server_on_stopped(second, on_stopped, NULL);
    invite(seed);
    (void)sim_guest_later(sim_log_uniform(&random_numbers, 60000), stop, NULL);
}
