/* Owns: operators in a run: clients of the admin listener, which ask while the server starts, is full, drains and
 * stops. A response is complete, is JSON where it should be, says what is true, and comes in time, whatever the server
 * does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { ASKS_MAX = 6, READ_MAX = 16384, PATIENCE_S = 20, CLIENT = 0x7000 };

typedef enum target { READY, HEALTH, CONNECTIONS, CONFIG, METRICS, LEVEL, EVENTS, DRAIN, TARGETS } target_t;

static const char *const targets[] = {
    [READY] = "GET /ready",   [HEALTH] = "GET /health",   [CONNECTIONS] = "GET /connections?limit=50",
    [CONFIG] = "GET /config", [METRICS] = "GET /metrics", [LEVEL] = "GET /log-level",
    [EVENTS] = "GET /events", [DRAIN] = "POST /drain",
};

typedef struct operator{
    sim_actor_t actor;
    sim_conn_t *conn; /* NULL: none yet */
    sim_random_t random;
    uint32_t number;
    target_t asks[ASKS_MAX];
    uint32_t ask_count, at;
    char request[256];
    size_t request_size, request_sent;
    uint64_t asked_ns, leave_ns; /* leave_ns: it goes then, whatever has come; SIM_NEVER */
    bool waits;                  /* for a response */
    char *response;
    size_t size, capacity;
}
operator_t;

bool sim_admin_listens;
static bool stopped; /* or the server is about to be */
static bool drains;  /* an operator has asked for it: the server may stop at any time */
static uint64_t stopped_ns;

static uint64_t soon(operator_t *it, uint32_t max_ms) {
    return sim_now_ns + 1 + (uint64_t)sim_below(&it->random, 1000 * max_ms) * 1000;
}

static void finish(operator_t *it) {
    if (it->actor.done) return;
    if (it->conn) sim_client_close(it->conn);
    free(it->response);
    it->response = NULL;
    it->actor.done = true;
    it->actor.next_ns = SIM_NEVER;
}

/* --- responses --- */

/* Returns false if it is not whole JSON: brackets that close, outside of strings. */
static bool is_json(const char *text, size_t size) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && strchr("{[", text[i]))
            depth++;
        else if (!quoted && strchr("}]", text[i]) && --depth == 0)
            return i + 2 == size && text[i + 1] == '\n';
    }
    return false;
}

static void check_body(const operator_t *it, int status, const char *body, size_t size) {
    target_t target = it->asks[it->at];
    if (sim_failing && status == 503) return; /* out of memory */
    bool good = target == METRICS ? size > 0 && body[size - 1] == '\n' : is_json(body, size);
    if (!good) sim_fail("operator %u: \"%s\" has the response %.200s", it->number, targets[target], body);
    bool may_be_503 = target == READY || target == HEALTH;
    if (status != (target == DRAIN ? 202 : 200) && !(status == 503 && may_be_503))
        sim_fail("operator %u: \"%s\" has the status %d", it->number, targets[target], status);
    if (target == READY && status == 200 && stopped && it->asked_ns > stopped_ns)
        sim_fail("operator %u: a server that was asked to stop is ready", it->number);
}

/* Whether the response is complete; then it is checked. */
static bool take(operator_t *it) {
    const char *end = strstr(it->response, "\r\n\r\n");
    if (!end) return false;
    const char *body = end + 4, *length = strstr(it->response, "Content-Length: ");
    size_t have = it->size - (size_t)(body - it->response);
    if (memcmp(it->response, "HTTP/1.1 ", 9) != 0) sim_fail("operator %u: %.40s", it->number, it->response);
    int status = atoi(it->response + 9);
    if (it->asks[it->at] == EVENTS && status == 200) return false; /* it has no end */
    if (!length || length > end) sim_fail("operator %u: a response without length: %.200s", it->number, it->response);
    size_t size = strtoull(length + 16, NULL, 10);
    if (have > size) sim_fail("operator %u: bytes behind a response", it->number);
    if (have < size) return false;
    if (status == 500 && sim_failing) return true;
    check_body(it, status, body, size);
    return true;
}

/* Something of a stream has come: the history is its first event. */
static void check_events(const operator_t *it) {
    const char *end = strstr(it->response, "\r\n\r\n");
    if (!end || sim_failing) return;
    if (!strstr(it->response, "text/event-stream") && strncmp(it->response + 9, "503", 3) != 0)
        sim_fail("operator %u: no event stream: %.200s", it->number, it->response);
    const char *event = strstr(end, "event: ");
    if (event && strchr(event, '\n') && memcmp(event, "event: history\n", 15) != 0)
        sim_fail("operator %u: %.40s", it->number, event);
}

/* --- steps --- */

static void ask(operator_t *it) {
    target_t target = it->asks[it->at];
    it->request_size = (size_t)snprintf(it->request, sizeof it->request,
                                        "%s HTTP/1.1\r\nHost: localhost\r\nX-Uvhttp-Admin: 1\r\n\r\n", targets[target]);
    it->request_sent = 0;
    it->size = 0;
    it->waits = true;
    it->asked_ns = sim_now_ns;
    it->leave_ns = SIM_NEVER;
    if (target == EVENTS)
        it->leave_ns = soon(it, 4000);
    else if (sim_one_in(&it->random, 10))
        it->leave_ns = soon(it, 3);
    if (target == DRAIN) {
        drains = true;
        sim_world_drain();
    }
    sim_trace("operator asks", it->number, target);
}

/* Without descriptors nobody is accepted. */
static bool needs_response(const operator_t *it) {
    return it->waits && it->asks[it->at] != EVENTS && !stopped && !drains && !sim_failing && sim_streams_max == 0;
}

static void connection_ended(operator_t *it) {
    if (needs_response(it)) sim_fail("operator %u: \"%s\" has no response", it->number, targets[it->asks[it->at]]);
    finish(it);
}

static void receive(operator_t *it) {
    if (it->capacity - it->size < READ_MAX + 1) {
        it->capacity = 2 * it->capacity + READ_MAX + 1;
        it->response = realloc(it->response, it->capacity);
        if (!it->response) abort();
    }
    long got = sim_client_receive(it->conn, it->response + it->size, READ_MAX);
    if (got < 0) {
        connection_ended(it);
        return;
    }
    it->size += (size_t)got;
    it->response[it->size] = '\0';
    if (got > 0 && it->asks[it->at] == EVENTS) check_events(it);
    if (!it->waits || !take(it)) return;
    it->waits = false;
    it->at++;
    it->leave_ns = SIM_NEVER;
}

static void leave(operator_t *it) {
    if (sim_one_in(&it->random, 2)) sim_client_reset(it->conn);
    finish(it);
}

static void send_request(operator_t *it) {
    size_t sent = sim_client_send(it->conn, it->request + it->request_sent, it->request_size - it->request_sent);
    it->request_sent += sent;
}

static void check_patience(const operator_t *it) {
    if (needs_response(it) && sim_now_ns > it->asked_ns + PATIENCE_S * 1000 * SIM_MS)
        sim_fail("operator %u: \"%s\" has no response after %d s", it->number, targets[it->asks[it->at]], PATIENCE_S);
}

static void plan_next(operator_t *it) {
    uint64_t next = it->waits ? it->asked_ns + (PATIENCE_S * 1000 + 1) * SIM_MS : soon(it, 2000);
    if (it->request_sent < it->request_size || sim_client_readable(it->conn)) next = soon(it, 5);
    if (it->leave_ns < next) next = it->leave_ns;
    it->actor.next_ns = next > sim_now_ns ? next : SIM_NEVER;
}

static void step(sim_actor_t *actor) {
    operator_t *it = (operator_t *)actor;
    actor->next_ns = SIM_NEVER;
    if (!it->conn) {
        it->conn = sim_connect(CLIENT + it->number, SIM_ADMIN_PORT, sim_actor_wake, it);
        if (!it->conn && (stopped || drains))
            finish(it);
        else
            actor->next_ns = soon(it, 50);
        return;
    }
    receive(it);
    if (actor->done) return;
    check_patience(it);
    if (it->leave_ns <= sim_now_ns || (!it->waits && it->at == it->ask_count)) {
        leave(it);
        return;
    }
    if (!it->waits) ask(it);
    if (it->request_sent < it->request_size) send_request(it);
    plan_next(it);
}

static void woken(sim_actor_t *actor) {
    operator_t *it = (operator_t *)actor;
    uint64_t at = soon(it, 3);
    if (at < actor->next_ns) actor->next_ns = at;
}

static void free_operator(sim_actor_t *actor) {
    finish((operator_t *)actor);
    free(actor);
}

void sim_operators_new(uint64_t seed, uint32_t clients) {
    sim_random_t random = sim_random_of(seed, 0xad);
    uint32_t count = 1 + sim_below(&random, clients > 50 ? 20 : 4);
    stopped = drains = false;
    for (uint32_t i = 0; i < count; i++) {
        operator_t *it = calloc(1, sizeof *it);
        if (!it) abort();
        *it = (operator_t){.actor = {.step = step, .woken = woken, .free = free_operator},
                           .random = sim_random_of(seed, 0x80000 + i),
                           .number = i,
                           .leave_ns = SIM_NEVER};
        it->ask_count = 1 + sim_below(&it->random, ASKS_MAX);
        for (uint32_t at = 0; at < it->ask_count; at++)
            it->asks[at] = (target_t)sim_below(&it->random, sim_one_in(&it->random, 16) ? TARGETS : DRAIN);
        it->actor.next_ns = soon(it, 3000);
        sim_actor_add(&it->actor);
    }
}

void sim_operators_stopping(void) {
    stopped = true;
    stopped_ns = SIM_NEVER;
}

void sim_operators_stopped(void) {
    stopped = true;
    stopped_ns = sim_now_ns;
}
