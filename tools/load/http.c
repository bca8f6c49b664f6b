/* Owns: HTTP/1.1 on a connection: its requests and its answers. May include: base, io, obs,
 * http1. */
#include <string.h>

#include "load/conn.h"

/* --- sending --- */

static void send_requests(load_conn_t *conn, uint32_t n, uint64_t due_ns) {
    load_thread_t *thread = conn->thread;
    if (thread->options->echo) {
        load_echo_send(conn, n, due_ns);
        return;
    }
    if (thread->plan->request_count > 1) {
        while (n-- > 0) {
            load_request_t *request = load_thread_next_request(thread);
            load_conn_add_flight(conn, request, due_ns);
            load_conn_send_bytes(conn, request->data, request->size);
        }
        return;
    }
    load_request_t *request = thread->plan->requests;
    while (n > 0) { /* several of a pipeline stand in one piece of memory */
        uint32_t share = n < request->copies ? n : request->copies;
        for (uint32_t i = 0; i < share; i++) load_conn_add_flight(conn, request, due_ns);
        load_conn_send_bytes(conn, request->data, request->size * share);
        n -= share;
    }
}

/* --- receiving --- */

static void begin_response(load_conn_t *conn) {
    uvhttp__http1_response_begin(&conn->response, load_conn_oldest(conn)->request->is_head);
    conn->reading = true;
}

static void responded(load_conn_t *conn) {
    const uvhttp__http1_response_head_t *head = &conn->response.head;
    load_flight_t *flight = load_conn_oldest(conn);
    flight->status = (uint16_t)head->status;
    flight->has_length = head->has_length;
    flight->length = head->length;
    conn->reading = false;
    load_response_check(conn, flight);
    load_conn_take_flight(conn, flight);
}

static void add_body(const load_conn_t *conn, uvhttp_str_t run) {
    const uvhttp__http1_response_head_t *head = &conn->response.head;
    load_response_add_body(conn, load_conn_oldest(conn), run.data, run.size,
                           head->has_length && run.size == head->length);
}

static void receive(load_conn_t *conn, const char *data, size_t size) {
    size_t consumed;
    uvhttp_str_t body;
    while (size > 0 && conn->state == LOAD_CONN_ONLINE) {
        if (conn->in_flight == 0) {
            load_conn_fail(conn, LOAD_ERROR_protocol, false, "bytes behind the response");
            return;
        }
        if (!conn->reading) begin_response(conn);
        int code = uvhttp__http1_response_feed(&conn->response, data, size, &consumed, &body);
        data += consumed;
        size -= consumed;
        if (body.size > 0) add_body(conn, body);
        if (code == UVHTTP_E_AGAIN) continue;
        if (code != 0) {
            load_conn_fail(conn, LOAD_ERROR_protocol, false, uvhttp_error_message(code));
            return;
        }
        bool close = conn->response.head.close;
        responded(conn);
        if (load_conn_ends(conn, close)) return;
    }
}

static bool end(load_conn_t *conn) {
    if (!conn->reading || uvhttp__http1_response_end(&conn->response) != 0) return false;
    responded(conn);
    return true;
}

const load_protocol_t load_protocol_http = {.send = send_requests, .receive = receive, .end = end};
