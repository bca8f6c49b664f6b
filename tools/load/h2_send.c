/* Owns: what an HTTP/2 connection sends. May include: base, io, obs, http1, http2. */
#include <string.h>

#include "load/h2_internal.h"

enum {
    BATCH = 64,             /* requests that are written into one piece of memory */
    INLINE_BODY_MAX = 4096, /* of a body that is written there, too */
};

/* --- frames --- */

void load_h2_send_frame(load_conn_t *conn, unsigned type, unsigned flags, uint32_t id, const char *payload,
                        size_t size) {
    char frame[LOAD_H2_HEAD_SIZE + 8];
    uvhttp__http2_put_head(frame, size, (uint8_t)type, (uint8_t)flags, id);
    memcpy(frame + LOAD_H2_HEAD_SIZE, payload, size);
    (void)uvhttp__stream_send_copy(&conn->stream, frame, LOAD_H2_HEAD_SIZE + size);
}

void load_h2_send_number(load_conn_t *conn, unsigned type, uint32_t id, uint32_t number) {
    char payload[4];
    uvhttp__http2_put32(payload, number);
    load_h2_send_frame(conn, type, 0, id, payload, sizeof payload);
}

void load_h2_send_preface(load_conn_t *conn) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\x0c\4\0\0\0\0\0"                 /* SETTINGS */
                                  "\0\2\0\0\0\0"                         /* ENABLE_PUSH 0 */
                                  "\0\4\x3f\xff\xff\xff"                 /* INITIAL_WINDOW_SIZE: LOAD_H2_WINDOW */
                                  "\0\0\4\x8\0\0\0\0\0\x3f\xff\x00\x00"; /* WINDOW_UPDATE: from 65535 to the same */
    (void)uvhttp__stream_send_iteration(&conn->stream, preface, sizeof preface - 1);
}

/* --- bodies --- */

static size_t body_size(const load_conn_t *conn) {
    return conn->thread->plan->h2_body_size;
}

static void copy_body(const load_conn_t *conn, const load_flight_t *flight, size_t at, size_t size, char *out) {
    const load_options_t *options = conn->thread->options;
    if (options->echo)
        load_echo_copy(conn, flight, at, size, out);
    else
        memcpy(out, options->body + at, size);
}

/* Writes the next DATA frame of the stream, with `size` bytes. Returns its end. */
static char *put_data(load_conn_t *conn, load_flight_t *flight, size_t size, char *out) {
    load_h2_stream_t *stream = &flight->h2;
    bool ends = stream->sent + size == body_size(conn);
    uvhttp__http2_put_head(out, size, UVHTTP__HTTP2_DATA, ends ? UVHTTP__HTTP2_FLAG_END_STREAM : 0, load_h2_id(flight));
    copy_body(conn, flight, (size_t)stream->sent, size, out + LOAD_H2_HEAD_SIZE);
    stream->sent += size;
    stream->window -= (int64_t)size;
    conn->h2->window -= (int64_t)size;
    return out + LOAD_H2_HEAD_SIZE + size;
}

/* Bytes of the next frame; 0: a window is shut. */
static size_t frame_size(const load_conn_t *conn, const load_flight_t *flight) {
    int64_t size = (int64_t)(body_size(conn) - flight->h2.sent);
    if (size > LOAD_H2_FRAME_MAX) size = LOAD_H2_FRAME_MAX;
    if (size > flight->h2.window) size = flight->h2.window;
    if (size > conn->h2->window) size = conn->h2->window;
    return size > 0 ? (size_t)size : 0;
}

static void send_body(load_conn_t *conn, load_flight_t *flight) {
    for (size_t size; (size = frame_size(conn, flight)) > 0;) {
        char *out = uvhttp__loop_iteration_alloc(conn->thread->loop, LOAD_H2_HEAD_SIZE + size);
        if (!out) return; /* the response will be missing */
        (void)put_data(conn, flight, size, out);
        (void)uvhttp__stream_send_iteration(&conn->stream, out, LOAD_H2_HEAD_SIZE + size);
    }
    if (flight->h2.sent == body_size(conn)) uvhttp__list_remove(&flight->h2.upload);
}

void load_h2_send_bodies(load_conn_t *conn) {
    const load_h2_t *h2 = conn->h2;
    for (uvhttp__list_t *link = h2->uploads.next, *next; link != &h2->uploads && h2->window > 0; link = next) {
        next = link->next;
        send_body(conn, UVHTTP__CONTAINER_OF(link, load_flight_t, h2.upload));
    }
}

/* --- requests --- */

/* Writes the head of the next request, and its body if that is short and the windows are wide. */
static char *put_request(load_conn_t *conn, uint64_t due_ns, char *out) {
    load_h2_t *h2 = conn->h2;
    load_request_t *request = load_thread_next_request(conn->thread);
    load_flight_t *flight = load_conn_add_flight(conn, request, due_ns);
    const load_h2_frame_t *frame = h2->introduced ? &request->h2.later[h2->table] : &request->h2.first[h2->table];
    size_t body = body_size(conn);
    h2->introduced = true;
    memcpy(out, frame->data, frame->size);
    uvhttp__http2_put32(out + 5, load_h2_id(flight));
    out += frame->size;
    uvhttp__list_init(&flight->h2.upload);
    if (body == 0) return out;
    flight->h2.window = h2->stream_window;
    if (body <= INLINE_BODY_MAX && uvhttp__list_empty(&h2->uploads) && frame_size(conn, flight) == body)
        return put_data(conn, flight, body, out);
    uvhttp__list_push_back(&h2->uploads, &flight->h2.upload);
    return out;
}

void load_h2_send_requests(load_conn_t *conn, uint32_t n, uint64_t due_ns) {
    size_t body = body_size(conn), each = conn->thread->plan->h2_head_max;
    if (body <= INLINE_BODY_MAX) each += LOAD_H2_HEAD_SIZE + body;
    while (n > 0) {
        uint32_t share = n < BATCH ? n : BATCH;
        char *out = uvhttp__loop_iteration_alloc(conn->thread->loop, share * each), *at = out;
        if (!out) return;
        for (uint32_t i = 0; i < share; i++) at = put_request(conn, due_ns, at);
        uvhttp__loop_iteration_trim(conn->thread->loop, at);
        (void)uvhttp__stream_send_iteration(&conn->stream, out, (size_t)(at - out));
        n -= share;
    }
    if (!uvhttp__list_empty(&conn->h2->uploads)) load_h2_send_bodies(conn);
}
