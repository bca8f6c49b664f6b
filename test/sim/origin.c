/* Owns: the other server that handlers ask (gateway.c), as the world plays it. What it does with a request comes from
 * its port: it responds, it breaks its response off, or nobody listens there. Every byte of a response has its tag. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { REQUEST_MAX = 2048, HEAD_MAX = 1024 };

typedef enum behaviour {
    WHOLE,
    UNTIL_CLOSE, /* whole, and its end is the connection's */
    RAW,         /* the same, without a head */
    CUT,         /* FIN before the end */
    RESET,
    GARBAGE,
    SILENCE, /* no response */
} behaviour_t;

typedef struct origin {
    sim_actor_t actor; /* the first, so that it can be cast */
    sim_conn_t *conn;
    sim_random_t random;
    char request[REQUEST_MAX];
    size_t request_size;
    behaviour_t behaviour;
    char *out;
    size_t out_size, out_at;
    bool broken, responds;
} origin_t;

static uint64_t soon(origin_t *origin) {
    return sim_now_ns + 1 + sim_below(&origin->random, 3000) * UINT64_C(1000);
}

static void finish(origin_t *origin) {
    if (origin->actor.done) return;
    sim_client_close(origin->conn);
    free(origin->out);
    origin->out = NULL;
    origin->actor.done = true;
    origin->actor.next_ns = SIM_NEVER;
}

/* --- responses --- */

static size_t put_body(origin_t *origin, char *out, uint32_t tag, uint32_t size, bool chunked) {
    size_t at = 0;
    for (uint32_t done = 0; done < size;) {
        uint32_t part = chunked ? sim_log_uniform(&origin->random, size - done) : size;
        if (chunked) at += (size_t)sprintf(out + at, "%x\r\n", part);
        sim_fill(out + at, SIM_ORIGIN_TAG(tag), done, part);
        at += part;
        if (chunked) at += (size_t)sprintf(out + at, "\r\n");
        done += part;
    }
    if (chunked) at += (size_t)sprintf(out + at, "0\r\n\r\n");
    return at;
}

static void make_raw(origin_t *origin, uint32_t tag, uint32_t size) {
    origin->out = malloc((size_t)size + 1);
    if (!origin->out) abort();
    sim_fill(origin->out, SIM_ORIGIN_TAG(tag), 0, size);
    origin->out_size = origin->behaviour == RAW ? size : sim_below(&origin->random, size);
}

static void make_response(origin_t *origin, uint32_t tag, uint32_t size) {
    bool chunked = origin->behaviour != UNTIL_CLOSE && sim_one_in(&origin->random, 2);
    origin->out = malloc(HEAD_MAX + (size_t)size * 10);
    if (!origin->out) abort();
    char *out = origin->out;
    size_t at = 0;
    if (sim_one_in(&origin->random, 4)) at += (size_t)sprintf(out + at, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n");
    at += (size_t)sprintf(out + at, "HTTP/1.1 200 OK\r\nX-Origin: %x\r\n", tag);
    if (chunked) at += (size_t)sprintf(out + at, "Transfer-Encoding: chunked\r\n");
    if (!chunked && origin->behaviour != UNTIL_CLOSE) at += (size_t)sprintf(out + at, "Content-Length: %u\r\n", size);
    at += (size_t)sprintf(out + at, "\r\n");
    at += put_body(origin, out + at, tag, size, chunked);
    origin->out_size = at;
    if (origin->behaviour == CUT || origin->behaviour == RESET)
        origin->out_size = sim_below(&origin->random, (uint32_t)at - 1);
    if (origin->behaviour == GARBAGE) memcpy(out, sim_one_in(&origin->random, 2) ? "HTTX" : "\0\1\2\3", 4);
}

static void respond(origin_t *origin) {
    static const behaviour_t whole[] = {WHOLE, WHOLE, UNTIL_CLOSE}, broken[] = {CUT, RESET, GARBAGE, SILENCE};
    unsigned tag, size, ms;
    const bool raw = strstr(origin->request, " RAW\r\n") != NULL;
    if (sscanf(origin->request, "GET /%x/%u/%u ", &tag, &size, &ms) != 3 ||
        !(raw || strstr(origin->request, " HTTP/1.1\r\nHost: 127.0.0.1:") ||
          strstr(origin->request, " HTTP/1.1\r\nHost: " SIM_NAME ":")))
        sim_fail("this is no request to another server: %.80s", origin->request);
    origin->behaviour = origin->broken ? broken[sim_below(&origin->random, 4)] : whole[sim_below(&origin->random, 3)];
    if (raw && origin->behaviour != SILENCE) origin->behaviour = origin->broken ? RESET : RAW;
    origin->responds = true;
    sim_trace("origin", tag, origin->behaviour);
    if (origin->behaviour == SILENCE) return;
    if (raw)
        make_raw(origin, tag, size);
    else
        make_response(origin, tag, size);
    origin->actor.next_ns = sim_now_ns + ms * SIM_MS + 1;
}

/* --- steps --- */

static void read_request(origin_t *origin) {
    long got = sim_client_receive(origin->conn, origin->request + origin->request_size,
                                  REQUEST_MAX - 1 - origin->request_size);
    if (got < 0) {
        finish(origin);
        return;
    }
    origin->request_size += (size_t)got;
    origin->request[origin->request_size] = '\0';
    if (origin->request_size == REQUEST_MAX - 1) sim_fail("a request to another server has no end");
    if (strstr(origin->request, "\r\n\r\n")) respond(origin);
}

static void send_response(origin_t *origin) {
    size_t left = origin->out_size - origin->out_at;
    size_t sent = left ? sim_client_send(origin->conn, origin->out + origin->out_at, left) : 0;
    origin->out_at += sent;
    if (origin->out_at < origin->out_size) {
        if (sent > 0) origin->actor.next_ns = soon(origin); /* else the other end reads first */
    } else if (origin->behaviour == RESET) {
        sim_client_reset(origin->conn);
        finish(origin);
    } else if (origin->behaviour == CUT || origin->behaviour == UNTIL_CLOSE || origin->behaviour == RAW) {
        sim_client_fin(origin->conn);
    }
}

static void step(sim_actor_t *actor) {
    origin_t *origin = (origin_t *)actor;
    actor->next_ns = SIM_NEVER;
    if (sim_server_has_closed(origin->conn))
        finish(origin);
    else if (!origin->responds)
        read_request(origin);
    else if (origin->out)
        send_response(origin);
}

static void woken(sim_actor_t *actor) {
    origin_t *origin = (origin_t *)actor;
    uint64_t at = soon(origin);
    bool waits = origin->out && origin->out_at == 0 && actor->next_ns != SIM_NEVER; /* it takes its time to respond */
    if (at < actor->next_ns && (!waits || sim_server_has_closed(origin->conn))) actor->next_ns = at;
}

static void free_origin(sim_actor_t *actor) {
    finish((origin_t *)actor);
    free(actor);
}

sim_actor_t *sim_origin_new(sim_conn_t *conn, uint16_t port, uint64_t seed, uint32_t number) {
    origin_t *origin = calloc(1, sizeof *origin);
    if (!origin) abort();
    *origin = (origin_t){.actor = {.next_ns = SIM_NEVER, .step = step, .woken = woken, .free = free_origin},
                         .conn = conn,
                         .random = sim_random_of(seed, 0x60000 + number),
                         .broken = port == SIM_ORIGIN_BROKEN};
    sim_actor_add(&origin->actor);
    return &origin->actor;
}
