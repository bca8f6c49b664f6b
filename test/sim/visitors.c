/* Owns: who visits the second server and its successor: clients that ask for one response, or for several on a
 * connection, with less time between them than an idle connection has while a server drains. Each has its response,
 * unless the last of these servers was stopped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uv_loop.h"

enum {
    BODY_MAX = 20000,
    RESPONSE_MAX = 32768,
    REQUESTS_MAX = 16,
    GAP_MS_MAX = 600, /* of 1,000, drain_idle_ms */
    DELAY_MS_MAX = 300,
    PATIENCE_S = 120
};
#define FIRST_CLIENT 0x7800u
#define FIRST_TAG 0x30000000u

typedef struct visitor {
    sim_actor_t actor;
    sim_conn_t *conn; /* NULL: none yet */
    sim_random_t random;
    uint32_t number, tag, size, received;
    uint32_t left;     /* requests behind this one */
    bool waits, ended; /* waits: for a response; ended: for the end of the connection, which came with the last one */
    char request[128];
    size_t request_size, request_sent;
    uint64_t asks_ns, asked_ns;
    char response[RESPONSE_MAX + 1];
} visitor_t;

static bool stopped;

void sim_visitors_stop(void) {
    stopped = true;
}

static uint64_t soon(visitor_t *it, uint32_t max_ms) {
    return sim_now_ns + 1 + (uint64_t)sim_below(&it->random, 1000 * max_ms) * 1000;
}

static void leave(visitor_t *it) {
    if (it->conn) sim_client_close(it->conn);
    it->conn = NULL;
    it->actor.done = true;
    it->actor.next_ns = SIM_NEVER;
}

static void ask(visitor_t *it) {
    it->left--;
    it->tag = FIRST_TAG + it->number * REQUESTS_MAX + it->left;
    it->size = sim_below(&it->random, BODY_MAX);
    it->request_size =
        (size_t)snprintf(it->request, sizeof it->request, "GET /visit/%x/%u/%u HTTP/1.1\r\nHost: a\r\n%s\r\n", it->tag,
                         it->size, sim_below(&it->random, DELAY_MS_MAX), it->left ? "" : "Connection: close\r\n");
    it->request_sent = it->received = 0;
    it->asked_ns = sim_now_ns;
    it->waits = true;
}

static void disconnect(visitor_t *it) {
    if (it->waits && !stopped && !sim_failing)
        sim_fail("a visitor of the second server has no response, but %u bytes", it->received);
    bool over = it->waits || it->left == 0;
    sim_client_close(it->conn);
    it->conn = NULL;
    it->ended = false;
    if (over) leave(it);
}

/* Where the body begins of a response that has come; NULL: some of it is still to come. */
static const char *find_body(visitor_t *it) {
    it->response[it->received] = '\0';
    const char *head_end = strstr(it->response, "\r\n\r\n");
    if (!head_end) return NULL;
    return it->response + it->received - (head_end + 4) >= it->size ? head_end + 4 : NULL;
}

static void check_response(const visitor_t *it, const char *body) {
    uint32_t size = it->received - (uint32_t)(body - it->response);
    if (memcmp(it->response, "HTTP/1.1 200 ", 13) != 0 || size != it->size ||
        sim_mismatch(body, it->tag, 0, size) < size)
        sim_fail("a visitor of the second server has %u bytes of %u, or others: %.12s", size, it->size, it->response);
}

static void receive(visitor_t *it) {
    long got = sim_client_receive(it->conn, it->response + it->received, RESPONSE_MAX - it->received);
    if (got < 0) {
        disconnect(it);
        return;
    }
    it->received += (uint32_t)got;
    if (it->received == RESPONSE_MAX) sim_fail("the response to a visitor has no end");
    if (got > 0 && !it->waits) sim_fail("a visitor of the second server has more than its response");
    const char *body = it->waits ? find_body(it) : NULL;
    if (!body) return;
    if (!sim_failing) check_response(it, body);
    it->waits = false;
    it->ended = strstr(it->response, "onnection: close\r\n") != NULL;
    it->asks_ns = soon(it, GAP_MS_MAX);
}

static void send_rest(visitor_t *it) {
    if (!stopped && !sim_failing && sim_now_ns - it->asked_ns > PATIENCE_S * 1000 * SIM_MS)
        sim_fail("a visitor of the second server has no response after %d s", PATIENCE_S);
    if (it->request_sent < it->request_size)
        it->request_sent +=
            sim_client_send(it->conn, it->request + it->request_sent, it->request_size - it->request_sent);
    bool acts = it->request_sent < it->request_size || sim_client_readable(it->conn);
    it->actor.next_ns = acts ? soon(it, 5) : it->asked_ns + (PATIENCE_S * 1000 + 1) * SIM_MS;
    if (it->actor.next_ns <= sim_now_ns) it->actor.next_ns = SIM_NEVER; /* it has been patient for long enough */
}

static void step(sim_actor_t *actor) {
    visitor_t *it = (visitor_t *)actor;
    actor->next_ns = SIM_NEVER;
    if (it->conn) receive(it);
    if (actor->done) return;
    if (it->conn && !it->waits && sim_client_readable(it->conn)) { /* its end */
        actor->next_ns = soon(it, 3);
        return;
    }
    if (it->ended) return;
    if (!it->waits && it->asks_ns > sim_now_ns) {
        actor->next_ns = it->asks_ns;
        return;
    }
    if (!it->waits) ask(it);
    if (!it->conn) it->conn = sim_connect(FIRST_CLIENT + it->number, SIM_SECOND_PORT, sim_actor_wake, it);
    if (it->conn)
        send_rest(it);
    else if (stopped)
        leave(it);
    else
        actor->next_ns = soon(it, 20); /* the backlog is full, or nobody listens yet */
}

static void woken(sim_actor_t *actor) {
    uint64_t at = soon((visitor_t *)actor, 3);
    if (at < actor->next_ns) actor->next_ns = at;
}

static void free_visitor(sim_actor_t *actor) {
    leave((visitor_t *)actor);
    free(actor);
}

void sim_visitors_invite(uint64_t seed, uint32_t count, uint32_t max_ms, bool stay) {
    stopped = false;
    for (uint32_t i = 0; i < count; i++) {
        visitor_t *it = calloc(1, sizeof *it);
        if (!it) abort();
        it->actor = (sim_actor_t){.step = step, .woken = woken, .free = free_visitor};
        it->random = sim_random_of(seed, 0x98000 + i);
        it->number = i;
        it->left = stay ? 1 + sim_below(&it->random, REQUESTS_MAX) : 1;
        it->actor.next_ns = it->asks_ns = soon(it, max_ms);
        sim_actor_add(&it->actor);
    }
}
