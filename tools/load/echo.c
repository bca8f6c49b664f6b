/* Owns: messages of random bytes that have to come back, of all protocols, and TCP, where they follow each other
 * without anything between. May include: base, io, obs. */
#include <string.h>

#include "load/conn.h"
#include "load/random.h"
#include "load/ws_frame.h"

/* Messages up to this size are sent from one piece of memory; of longer ones the pool is. */
enum { COPIED_SIZE_MAX = 4096, HELD_SEND_MAX = 64 * 1024 };

static uint64_t id_of(const load_conn_t *conn, uint64_t sequence) {
    const uint64_t number = ((uint64_t)conn->number << 40) + conn->numbers_before + sequence;
    return load_mix64(number ^ conn->thread->plan->echo.seed);
}

static size_t write_id(uint64_t id, size_t size, char out[LOAD_MESSAGE_ID_SIZE]) {
    for (unsigned i = 0; i < LOAD_MESSAGE_ID_SIZE; i++) out[i] = load_echo_symbols[id >> 6 * i & 63];
    return size < LOAD_MESSAGE_ID_SIZE ? size : LOAD_MESSAGE_ID_SIZE;
}

/* Where the message begins in the pool: a multiple of four, so that the mask of a frame fits. */
static size_t place_of(uint64_t id) {
    return (size_t)(id >> 40) % LOAD_POOL_STEPS * 4;
}

static void send_static(load_conn_t *conn, const char *data, size_t size) {
    if (size > HELD_SEND_MAX)
        (void)uvhttp__stream_send_ref(&conn->stream, data, size, NULL, NULL);
    else if (size > 0)
        (void)uvhttp__stream_send_iteration(&conn->stream, data, size);
}

static void send_message(load_conn_t *conn, const load_request_t *request, uint64_t id) {
    const load_plan_t *plan = conn->thread->plan;
    const load_echo_t *echo = &plan->echo;
    char symbols[LOAD_MESSAGE_ID_SIZE];
    size_t in_id = write_id(id, echo->size, symbols), copied = echo->size <= COPIED_SIZE_MAX ? echo->size : in_id;
    size_t head = request->size + echo->before.size;
    const char *rest = echo->masked + place_of(id);
    char *out = uvhttp__loop_iteration_alloc(conn->thread->loop, head + copied);
    if (!out) return; /* the response will be missing */
    if (plan->options->scheme == LOAD_WS) load_ws_mask(symbols, in_id);
    if (request->size > 0) memcpy(out, request->data, request->size);
    if (echo->before.size > 0) memcpy(out + request->size, echo->before.data, echo->before.size);
    memcpy(out + head, symbols, in_id);
    memcpy(out + head + in_id, rest + in_id, copied - in_id);
    (void)uvhttp__stream_send_iteration(&conn->stream, out, head + copied);
    send_static(conn, rest + copied, echo->size - copied);
    send_static(conn, echo->after.data, echo->after.size);
}

void load_echo_send(load_conn_t *conn, uint32_t n, uint64_t due_ns) {
    while (n-- > 0) {
        load_request_t *request = load_thread_next_request(conn->thread);
        const load_flight_t *flight = load_conn_add_flight(conn, request, due_ns);
        send_message(conn, request, id_of(conn, flight->number));
    }
}

/* The parts that a message consists of. */
typedef struct message {
    char symbols[LOAD_MESSAGE_ID_SIZE];
    uvhttp_str_t parts[4];
} message_t;

static void find_parts(const load_conn_t *conn, const load_flight_t *flight, message_t *message) {
    const load_echo_t *echo = &conn->thread->plan->echo;
    uint64_t id = id_of(conn, flight->number);
    size_t in_id = write_id(id, echo->size, message->symbols);
    message->parts[0] = echo->before;
    message->parts[1] = (uvhttp_str_t){message->symbols, in_id};
    message->parts[2] = (uvhttp_str_t){echo->pool + place_of(id) + in_id, echo->size - in_id};
    message->parts[3] = echo->after;
}

/* The next run of bytes from *at on, of at most `size`; empty behind the end. */
static uvhttp_str_t next_run(const message_t *message, size_t *at, size_t size) {
    size_t before = *at;
    for (size_t i = 0; i < sizeof message->parts / sizeof *message->parts; i++) {
        uvhttp_str_t part = message->parts[i];
        if (before >= part.size) {
            before -= part.size;
            continue;
        }
        size_t n = part.size - before < size ? part.size - before : size;
        *at += n;
        return (uvhttp_str_t){part.data + before, n};
    }
    return (uvhttp_str_t){NULL, 0};
}

bool load_echo_matches(const load_conn_t *conn, const load_flight_t *flight, const char *data, size_t size) {
    message_t message;
    size_t at = (size_t)flight->body_size;
    find_parts(conn, flight, &message);
    while (size > 0) {
        uvhttp_str_t run = next_run(&message, &at, size);
        if (run.size == 0 || memcmp(data, run.data, run.size) != 0) return false; /* 0: more than was sent */
        data += run.size;
        size -= run.size;
    }
    return true;
}

void load_echo_copy(const load_conn_t *conn, const load_flight_t *flight, size_t at, size_t size, char *out) {
    message_t message;
    find_parts(conn, flight, &message);
    while (size > 0) {
        uvhttp_str_t run = next_run(&message, &at, size);
        memcpy(out, run.data, run.size);
        out += run.size;
        size -= run.size;
    }
}

bool load_echo_take(load_conn_t *conn, const char *data, size_t size) {
    if (conn->in_flight == 0)
        load_conn_fail(conn, LOAD_ERROR_protocol, false, "a message that nobody has sent");
    else if (!load_echo_matches(conn, load_conn_oldest(conn), data, size))
        load_conn_fail(conn, LOAD_ERROR_body, false, "the echo differs from what was sent");
    else
        load_conn_oldest(conn)->body_size += size;
    return conn->state == LOAD_CONN_ONLINE;
}

static void receive(load_conn_t *conn, const char *data, size_t size) {
    while (size > 0 && conn->state == LOAD_CONN_ONLINE) {
        size_t whole = conn->thread->options->payload_size;
        size_t left = conn->in_flight > 0 ? whole - (size_t)load_conn_oldest(conn)->body_size : whole;
        size_t n = left < size ? left : size;
        if (!load_echo_take(conn, data, n)) return;
        data += n;
        size -= n;
        if (load_conn_oldest(conn)->body_size < whole) continue;
        load_conn_take_flight(conn, load_conn_oldest(conn));
        if (load_conn_ends(conn, false)) return;
    }
}

const load_protocol_t load_protocol_tcp = {.send = load_echo_send, .receive = receive};
