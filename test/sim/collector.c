/* Owns: the collector of spans in a run. It accepts each request, or (half of the seeds) also breaks off, resets, stays
 * silent, reads slowly, and asks to be tried again. It knows each span by its id: none may get lost without a counter
 * that says so, and none may count as exported that has not come. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/server.h>

#include "kernel.h"

enum { HEAD_MAX = 2048, IDS = 1 << 16, READ_MAX = 16384 };

typedef enum behaviour {
    ACCEPTS,
    AGAIN, /* 503, with or without Retry-After */
    REFUSES,
    CUT,   /* FIN inside of the response */
    RESET, /* behind the request, or inside of it */
    SILENCE,
    BEHAVIOURS
} behaviour_t;

typedef struct collector {
    sim_actor_t actor;
    sim_conn_t *conn;
    sim_random_t random;
    behaviour_t behaviour;
    char *request;
    size_t size, capacity, wanted; /* wanted: of the whole request; 0: not known yet */
    char response[256];
    size_t response_size, response_at;
    bool slow;
} collector_t;

bool sim_traces, sim_collector_is_good;

static uint64_t ids[IDS]; /* those that have come; 0: free */
static uint32_t id_count;
static uint64_t spans, exported, failed; /* the server's */
static bool looked_at;                   /* at those */

void sim_collector_reset(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0xc0);
    if (id_count > 0) memset(ids, 0, sizeof ids);
    id_count = 0;
    looked_at = false;
    sim_traces = sim_one_in(&random, 8);
    sim_collector_is_good = sim_one_in(&random, 2);
}

/* --- spans --- */

static bool add_id(uint64_t id) {
    uint64_t at = id % IDS;
    while (ids[at] && ids[at] != id) at = (at + 1) % IDS;
    if (ids[at]) return false;
    if (++id_count > IDS / 2) sim_fail("more than %d spans", IDS / 2);
    ids[at] = id;
    return true;
}

static void take_spans(const collector_t *collector) {
    static const char mark[] = "\"spanId\":\"";
    for (const char *at = collector->request; (at = strstr(at, mark)); at += sizeof mark) {
        char text[17] = "";
        memcpy(text, at + sizeof mark - 1, 16);
        uint64_t id = strtoull(text, NULL, 16);
        if (strspn(text, "0123456789abcdef") != 16 || id == 0) sim_fail("a span has the id %s", text);
        if (!add_id(id) && sim_collector_is_good && !sim_failing) sim_fail("span %s has come twice", text);
    }
}

/* --- steps --- */

static uint64_t soon(collector_t *collector) {
    return sim_now_ns + 1 + sim_below(&collector->random, collector->slow ? 400000 : 2000) * UINT64_C(1000);
}

static void finish(collector_t *collector) {
    if (collector->actor.done) return;
    sim_client_close(collector->conn);
    free(collector->request);
    collector->request = NULL;
    collector->actor.done = true;
    collector->actor.next_ns = SIM_NEVER;
}

static void reset(collector_t *collector) {
    sim_client_reset(collector->conn);
    finish(collector);
}

static void respond(collector_t *collector) {
    static const char *const responses[] = {
        [ACCEPTS] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        [AGAIN] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
        [REFUSES] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        [CUT] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{",
    };
    sim_trace("collector", collector->size, collector->behaviour);
    if (collector->request[collector->size - 1] != '}' ||
        memcmp(collector->request, "POST /v1/traces HTTP/1.1\r\n", 26) != 0)
        sim_fail("this is no request to a collector: %.80s", collector->request);
    if (collector->behaviour == SILENCE) return;
    if (collector->behaviour == RESET) {
        reset(collector);
        return;
    }
    if (collector->behaviour == ACCEPTS) take_spans(collector);
    collector->response_size =
        (size_t)snprintf(collector->response, sizeof collector->response, "%s", responses[collector->behaviour]);
    collector->actor.next_ns = soon(collector);
}

/* How long it is, once the head has come. */
static void find_size(collector_t *collector) {
    const char *end = strstr(collector->request, "\r\n\r\n"),
               *length = strstr(collector->request, "\r\nContent-Length: ");
    if (!end && collector->size > HEAD_MAX) sim_fail("a request to the collector has no end");
    if (!end) return;
    if (!length || length > end) sim_fail("a request to the collector has no length");
    collector->wanted = (size_t)(end + 4 - collector->request) + strtoull(length + 18, NULL, 10);
}

static void receive(collector_t *collector) {
    if (collector->capacity - collector->size < READ_MAX + 1) {
        collector->capacity = 2 * collector->capacity + READ_MAX + 1;
        collector->request = realloc(collector->request, collector->capacity);
        if (!collector->request) abort();
    }
    long got = sim_client_receive(collector->conn, collector->request + collector->size,
                                  collector->slow ? 1 + sim_below(&collector->random, 3000) : READ_MAX);
    if (got < 0) {
        finish(collector);
        return;
    }
    collector->size += (size_t)got;
    collector->request[collector->size] = '\0';
    if (collector->wanted == 0) find_size(collector);
    bool whole = collector->wanted > 0 && collector->size >= collector->wanted;
    if (collector->wanted > 0 && collector->size > collector->wanted)
        sim_fail("bytes behind a request to the collector");
    if (!whole && collector->behaviour == RESET && sim_one_in(&collector->random, 4))
        reset(collector);
    else if (whole)
        respond(collector);
    else if (got > 0)
        collector->actor.next_ns = soon(collector);
}

static void send_response(collector_t *collector) {
    collector->response_at += sim_client_send(collector->conn, collector->response + collector->response_at,
                                              collector->response_size - collector->response_at);
    if (collector->response_at < collector->response_size)
        collector->actor.next_ns = soon(collector);
    else if (collector->behaviour == CUT)
        sim_client_fin(collector->conn);
}

static void step(sim_actor_t *actor) {
    collector_t *collector = (collector_t *)actor;
    actor->next_ns = SIM_NEVER;
    if (sim_server_has_closed(collector->conn))
        finish(collector);
    else if (collector->response_size == 0)
        receive(collector);
    else if (collector->response_at < collector->response_size)
        send_response(collector);
}

static void woken(sim_actor_t *actor) {
    uint64_t at = soon((collector_t *)actor);
    if (at < actor->next_ns) actor->next_ns = at;
}

static void free_collector(sim_actor_t *actor) {
    finish((collector_t *)actor);
    free(actor);
}

sim_actor_t *sim_collector_new(sim_conn_t *conn, uint64_t seed, uint32_t number) {
    collector_t *collector = calloc(1, sizeof *collector);
    if (!collector) abort();
    *collector = (collector_t){.actor = {.next_ns = SIM_NEVER, .step = step, .woken = woken, .free = free_collector},
                               .conn = conn,
                               .random = sim_random_of(seed, 0x70000 + number)};
    bool bad = !sim_collector_is_good && sim_one_in(&collector->random, 2);
    collector->behaviour = bad ? (behaviour_t)sim_below(&collector->random, BEHAVIOURS) : ACCEPTS;
    collector->slow = bad && sim_one_in(&collector->random, 4);
    sim_actor_add(&collector->actor);
    return &collector->actor;
}

/* --- what has to be true --- */

void sim_collector_check_server(const uvhttp_server_t *server) {
    if (!sim_traces) return;
    spans = uvhttp_server_counter(server, "trace_spans");
    exported = uvhttp_server_counter(server, "trace_spans_exported");
    failed = uvhttp_server_counter(server, "trace_spans_failed");
    looked_at = true;
    sim_trace("spans", spans, exported);
    if (exported + failed > spans)
        sim_fail("%" PRIu64 " spans, of which %" PRIu64 " are exported and %" PRIu64 " failed", spans, exported,
                 failed);
}

void sim_collector_check_end(void) {
    if (!looked_at) return;
    if (id_count < exported) sim_fail("%" PRIu64 " spans count as exported, and %u have come", exported, id_count);
    if (id_count > spans) sim_fail("%" PRIu64 " spans, and %u have come", spans, id_count);
    if (!sim_collector_is_good || sim_failing) return;
    if (failed > 0) sim_fail("%" PRIu64 " spans failed", failed);
    if (id_count != spans)
        sim_fail("%" PRIu64 " spans, and %u have come to a collector that accepts all", spans, id_count);
}
