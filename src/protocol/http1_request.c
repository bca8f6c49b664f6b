/* Owns: bytes of a session on their way in: heads become requests, and bodies lose their framing. */
#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "protocol/http1_session.h"

static uvhttp__counters_t *counters_of(const uvhttp__session_t *session) {
    return &session->conn.loop->counters;
}

/* --- bodies --- */

static size_t read_sized(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__http1_stream_t *stream = session->stream;
    size_t take = size < stream->body_left ? size : (size_t)stream->body_left;
    stream->body_left -= take;
    session->more = size > take || session->full;
    bool last = stream->body_left == 0;
    if (last) session->state = UVHTTP__SESSION_RESPONSE;
    uvhttp__exchange_data(&stream->exchange, data, take, last);
    return take;
}

/* The trailer section's part of what was decoded, if there is one. */
static int keep_trailer(uvhttp__http1_stream_t *stream, uint32_t size_before, const char *data, size_t consumed) {
    uvhttp__http1_chunked_t *chunked = &stream->chunked_in;
    if (chunked->trailer_size == 0) return UVHTTP_OK;
    uvhttp_str_t text = uvhttp__http1_chunked_trailer(chunked, size_before, data, consumed);
    return text.size > 0 ? uvhttp__exchange_trailer(&stream->exchange, text.data, text.size) : UVHTTP_OK;
}

/* Chunks that count as a request in their iteration, however small they are. */
#define CHUNK_SHARE 8

/* One step of the chunked coding. */
static size_t read_chunked(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__http1_stream_t *stream = session->stream;
    size_t consumed;
    uvhttp_str_t piece;
    uint32_t trailer_before = stream->chunked_in.trailer_size;
    int status = uvhttp__http1_chunked_decode(&stream->chunked_in, data, size, &consumed, &piece);
    bool last = status == UVHTTP_OK;
    if (last || status == UVHTTP_E_AGAIN) {
        int kept = keep_trailer(stream, trailer_before, data, consumed);
        if (kept != UVHTTP_OK) status = kept;
    }
    if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) {
        uvhttp__exchange_refuse(&stream->exchange, status);
        return size;
    }
    session->more = size > consumed || session->full;
    if (++stream->chunk_count % CHUNK_SHARE == 0) session->iteration_requests++;
    if (last) session->state = UVHTTP__SESSION_RESPONSE;
    if (last || piece.size > 0) uvhttp__exchange_data(&stream->exchange, piece.data, piece.size, last);
    return consumed;
}

size_t uvhttp__session_read_body(uvhttp__session_t *session, const char *data, size_t size) {
    const uvhttp__exchange_t *exchange = &session->stream->exchange;
    if (!uvhttp__exchange_is_receiving(exchange)) return 0;
    size_t piece_max = uvhttp__exchange_piece_max(exchange);
    bool chunked = exchange->request.head.chunked;
    if (size > piece_max) size = piece_max;
    return chunked ? read_chunked(session, data, size) : read_sized(session, data, size);
}

/* The head of a request with a body has been read; data[0..size) follows it. What the exchange does not own it must
 * see now. Returns bytes used of data. */
static NOINLINE size_t start_body(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__http1_stream_t *stream = session->stream;
    const uvhttp_server_config_t *config = uvhttp__session_config(session);
    const uvhttp__head_t *head = &stream->exchange.request.head;
    stream->owes_continue = head->expect_continue && size == 0;
    stream->body_left = head->content_length;
    if (head->chunked)
        uvhttp__http1_chunked_init(&stream->chunked_in, config->chunk_extension_max, config->trailer_size_max);
    session->state = UVHTTP__SESSION_BODY;
    bool whole = !head->chunked && head->content_length <= size;
    uvhttp__exchange_run_with_body(&stream->exchange, whole);
    bool wanted = session->state == UVHTTP__SESSION_BODY && !(session->conn.flags & UVHTTP__CONN_CLOSED);
    return whole && wanted ? uvhttp__session_read_body(session, data, size) : 0;
}

/* --- heads --- */

/* There is no whole head yet. */
static void cancel_stream(uvhttp__session_t *session) {
    uvhttp__exchange_release(&session->stream->exchange);
    session->stream = NULL;
}

/* Whose request it was nobody knows if there is no head: data may be NULL. */
void uvhttp__session_refuse_head(uvhttp__session_t *session, const char *data, size_t size, int code) {
    uvhttp__http1_stream_t *stream = session->stream ? session->stream : uvhttp__session_begin_stream(session);
    if (!stream) {
        uvhttp__counters_error(counters_of(session), code);
        uvhttp__conn_close(&session->conn, UVHTTP_E_NOMEM);
        return;
    }
    uvhttp__counters_add(counters_of(session), requests_faulty_head, 1);
    uvhttp__http1_headless(&stream->exchange, data, size);
    uvhttp__exchange_refuse(&stream->exchange, code);
}

/* Bytes of a head for which a request counts once more in its iteration: the cost of a head grows with it. */
#define HEAD_SHARE 128

/* The head of `stream` has been read; it stands at base, and `data` is what follows it. Returns bytes used of data. */
static ALWAYS_INLINE size_t on_head(uvhttp__session_t *session, uvhttp__http1_stream_t *stream, const char *base,
                                    const char *data, size_t size) {
    uvhttp__exchange_t *exchange = &stream->exchange;
    const uvhttp__head_t *head = &exchange->request.head;
    uvhttp__counters_add(counters_of(session), requests, 1);
    session->request_count++;
    session->iteration_requests += 1 + head->size / HEAD_SHARE;
    exchange->borrowed = true;
    exchange->request.base = base;
    stream->keep_alive =
        head->keep_alive && session->request_count != uvhttp__session_config(session)->keepalive_requests_max;
    session->more = size > 0 || session->full;
    if (head->chunked || head->content_length > 0) return start_body(session, data, size);
    session->state = UVHTTP__SESSION_RESPONSE;
    if (LIKELY(uvhttp__exchange_run(exchange))) uvhttp__http1_respond(exchange);
    return 0;
}

/* Keeps what has come of a head. Returns 0 or UVHTTP_E_NOMEM. */
static int keep_partial(uvhttp__session_t *session, const char *data, size_t size) {
    uvhttp__partial_t *partial = session->partial;
    uint32_t have = partial ? partial->size : 0;
    size_t need = (size_t)have + size;
    if (!partial || need > partial->capacity) {
        size_t capacity = partial ? (size_t)partial->capacity * 2 : 1024 - sizeof *partial;
        if (capacity < need) capacity = need;
        uvhttp__partial_t *grown = uvhttp__realloc(partial, sizeof *partial + capacity);
        if (!grown) return UVHTTP_E_NOMEM;
        if (!partial) grown->scan = (uvhttp__http1_scan_t){0};
        grown->capacity = (uint32_t)capacity;
        session->partial = partial = grown;
    }
    memcpy(partial->data + have, data, size);
    partial->size = (uint32_t)need;
    return UVHTTP_OK;
}

/* Bytes for a head of which some have come before. */
static NOINLINE size_t continue_head(uvhttp__session_t *session, const char *data, size_t size) {
    const uvhttp__service_t *service = uvhttp__session_http_loop(session)->service;
    uint32_t before = session->partial->size;
    int status = keep_partial(session, data, size);
    uvhttp__partial_t *partial = session->partial;
    uvhttp__http1_stream_t *stream = status == UVHTTP_OK ? uvhttp__session_begin_stream(session) : NULL;
    if (status == UVHTTP_OK)
        status = !stream ? UVHTTP_E_NOMEM
                         : uvhttp__http1_read_request(&partial->scan, partial->data, partial->size,
                                                      &service->head_limits, &stream->exchange.request.head);
    if (status == UVHTTP_E_AGAIN) {
        cancel_stream(session);
        return size;
    }
    session->partial = NULL;
    if (status != UVHTTP_OK) {
        uvhttp__session_refuse_head(session, partial->data, partial->size, status);
        uvhttp__free(partial);
        return size;
    }
    size_t of_head = stream->exchange.request.head.size - before; /* the rest stands in data still */
    size_t used = on_head(session, stream, partial->data, data + of_head, size - of_head);
    /* A response to come owns a copy by now; any other has been sent. */
    uvhttp__free(partial);
    return of_head + used;
}

/* The head in data[0..size), the first bytes of it, is incomplete or faulty. */
static NOINLINE size_t keep_or_refuse(uvhttp__session_t *session, const char *data, size_t size,
                                      const uvhttp__http1_scan_t *scan, int status) {
    if (status == UVHTTP_E_AGAIN) {
        cancel_stream(session);
        if (keep_partial(session, data, size) == UVHTTP_OK) {
            session->partial->scan = *scan;
            /* From the first byte on the whole head is due. */
            if (!session->writing) {
                uvhttp__conn_timer_stop(&session->conn);
                uvhttp__session_set_deadline(session, uvhttp__session_times(session)->connection_timeout);
            }
            return size;
        }
        status = UVHTTP_E_NOMEM;
    }
    uvhttp__session_refuse_head(session, data, size, status);
    return size;
}

UVHTTP__HOT size_t uvhttp__session_read_head(uvhttp__session_t *session, const char *data, size_t size) {
    if (UNLIKELY(session->partial != NULL)) return continue_head(session, data, size);
    const uvhttp__service_t *service = uvhttp__session_http_loop(session)->service;
    uvhttp__http1_scan_t scan = {0};
    uvhttp__http1_stream_t *stream = uvhttp__session_begin_stream(session);
    int status = UVHTTP_E_NOMEM;
    if (LIKELY(stream != NULL))
        status = uvhttp__http1_read_request(&scan, data, size, &service->head_limits, &stream->exchange.request.head);
    if (UNLIKELY(status != UVHTTP_OK)) return keep_or_refuse(session, data, size, &scan, status);
    size_t head_size = stream->exchange.request.head.size;
    return head_size + on_head(session, stream, data, data + head_size, size - head_size);
}
