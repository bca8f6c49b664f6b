/* Owns: WebSocket on a connection: the handshake, and text messages that come back as they are. May include: base, io,
 * obs, http1. */
#include <string.h>

#include "base/str.h"
#include "load/conn.h"

static void shake(load_conn_t *conn) {
    const load_request_t *handshake = &conn->thread->plan->handshake;
    memset(&conn->ws, 0, sizeof conn->ws);
    uvhttp__http1_response_begin(&conn->response, false);
    load_conn_send_bytes(conn, handshake->data, handshake->size);
}

/* Returns how many bytes belonged to the handshake. */
static size_t receive_handshake(load_conn_t *conn, const char *data, size_t size) {
    size_t consumed;
    uvhttp_str_t body;
    int code = uvhttp__http1_response_feed(&conn->response, data, size, &consumed, &body);
    if (code == UVHTTP_E_AGAIN && !uvhttp__http1_response_has_head(&conn->response)) return consumed;
    const uvhttp__http1_response_head_t *head = &conn->response.head;
    char why[LOAD_EXAMPLE_SIZE];
    snprintf(why, sizeof why, "%d for the handshake, not 101", head->status);
    if (code != 0 && code != UVHTTP_E_AGAIN)
        load_conn_fail(conn, LOAD_ERROR_protocol, true, uvhttp_error_message(code));
    else if (head->status != 101)
        load_conn_fail(conn, LOAD_ERROR_status, true, why);
    else if (memcmp(head->accept, LOAD_WS_ACCEPT, sizeof head->accept) != 0)
        load_conn_fail(conn, LOAD_ERROR_protocol, true,
                       "the response to the handshake had a wrong Sec-WebSocket-Accept");
    else
        load_conn_online(conn);
    return consumed;
}

static void pong(load_conn_t *conn, const load_ws_piece_t *ping) {
    char frame[LOAD_WS_HEAD_MAX + LOAD_WS_CONTROL_MAX];
    (void)uvhttp__stream_send_copy(&conn->stream, frame, load_ws_write_pong(frame, ping->data, ping->size));
}

/* Returns false if the connection has come to its end. */
static bool take_piece(load_conn_t *conn, const load_ws_piece_t *piece) {
    switch (piece->kind) {
        case LOAD_WS_PING: pong(conn, piece); return true;
        case LOAD_WS_PONG: return true;
        case LOAD_WS_CLOSE:
            if (conn->in_flight > 0)
                load_conn_fail(conn, LOAD_ERROR_read, false, "closed by the server");
            else
                (void)load_conn_ends(conn, true);
            return false;
        case LOAD_WS_DATA: return load_echo_take(conn, piece->data, piece->size);
        default: break;
    }
    if (!load_echo_take(conn, piece->data, piece->size)) return false;
    if (load_conn_oldest(conn)->body_size < conn->thread->options->payload_size) {
        load_conn_fail(conn, LOAD_ERROR_body, false, "the echo is shorter than what was sent");
        return false;
    }
    load_conn_take_flight(conn, load_conn_oldest(conn));
    return !load_conn_ends(conn, false);
}

static void receive(load_conn_t *conn, const char *data, size_t size) {
    if (conn->state == LOAD_CONN_SHAKING) {
        size_t used = receive_handshake(conn, data, size);
        data += used;
        size -= used;
    }
    while (size > 0 && conn->state == LOAD_CONN_ONLINE) {
        load_ws_piece_t piece;
        size_t consumed;
        int code = load_ws_read(&conn->ws, data, size, &consumed, &piece);
        data += consumed;
        size -= consumed;
        if (code == UVHTTP_E_AGAIN) continue;
        if (code != 0) {
            load_conn_fail(conn, LOAD_ERROR_protocol, false, uvhttp_error_message(code));
            return;
        }
        if (!take_piece(conn, &piece)) return;
    }
}

const load_protocol_t load_protocol_ws = {.shake = shake, .send = load_echo_send, .receive = receive};
