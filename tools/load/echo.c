/* Owns: messages that come back as they are: what is sent and compared, and TCP, where they follow each other without
 * anything between. May include: base, io, obs. */
#include <string.h>

#include "load/conn.h"

size_t load_message_head(const load_conn_t *conn, uint64_t sequence, size_t size, char head[LOAD_MESSAGE_HEAD_MAX]) {
    uint64_t number = (uint64_t)conn->number << 40 ^ sequence;
    for (int i = 0; i < LOAD_MESSAGE_HEAD_MAX; i++) /* the digit that changes most comes first */
        head[i] = "0123456789abcdef"[number >> 4 * i & 15];
    return size < LOAD_MESSAGE_HEAD_MAX ? size : LOAD_MESSAGE_HEAD_MAX;
}

bool load_echo_take(load_conn_t *conn, const char *data, size_t size) {
    size_t at = (size_t)conn->body_size, whole = conn->worker->options->payload_size;
    char head[LOAD_MESSAGE_HEAD_MAX];
    size_t in_head = load_message_head(conn, conn->answered, whole, head);
    size_t head_part = at >= in_head ? 0 : in_head - at < size ? in_head - at : size;
    const char *message = conn->worker->plan->message;
    if (conn->in_flight == 0)
        load_conn_fail(conn, LOAD_ERROR_protocol, false, "a message that nobody has sent");
    else if (size > whole - at || (head_part > 0 && memcmp(data, head + at, head_part) != 0) ||
             memcmp(data + head_part, message + at + head_part, size - head_part) != 0)
        load_conn_fail(conn, LOAD_ERROR_body, false, "the echo differs from what was sent");
    else
        conn->body_size += size;
    return conn->state == LOAD_CONN_ONLINE;
}

static void send_messages(load_conn_t *conn, uint32_t n, uint64_t due_ns) {
    load_request_t *message = conn->worker->plan->requests;
    char head[LOAD_MESSAGE_HEAD_MAX];
    while (n-- > 0) {
        size_t size = load_message_head(conn, conn->sent, message->size, head);
        load_conn_add_flight(conn, message, due_ns);
        char *copy = uvhttp__loop_turn_alloc(conn->worker->loop, message->size);
        if (!copy) return; /* it will be missed */
        memcpy(copy, message->data, message->size);
        memcpy(copy, head, size);
        (void)uvhttp__stream_send_turn(&conn->stream, copy, message->size);
    }
}

static void receive(load_conn_t *conn, const char *data, size_t size) {
    while (size > 0 && conn->state == LOAD_CONN_ONLINE) {
        size_t whole = conn->worker->options->payload_size, left = whole - (size_t)conn->body_size;
        size_t n = left < size ? left : size;
        if (!load_echo_take(conn, data, n)) return;
        data += n;
        size -= n;
        if (conn->body_size < whole) continue;
        conn->body_size = 0;
        load_conn_take_flight(conn);
        if (load_conn_ends(conn, false)) return;
    }
}

const load_protocol_t load_protocol_tcp = {.send = send_messages, .receive = receive};
