/* Owns: bodies of responses of HTTP/1 on their way out: pulled from the exchange while there is room on the wire, with
 * chunked framing in front if the size is not known. May include: as http1_session.h. */
#include <string.h>

#include "protocol/http1_session.h"

static inline char *put(char *out, const char *data, size_t size) {
    memcpy(out, data, size);
    return out + size;
}
#define PUT(out, literal) put((out), (literal), sizeof(literal) - 1)

static uvhttp__stream_t *wire_of(const uvhttp__http1_stream_t *stream) {
    return &stream->session->conn.stream;
}

/* --- from the exchange to the wire --- */

/* One allocation and one segment, so that a failure leaves nothing behind. */
static int push_copy(uvhttp__http1_stream_t *stream, const uvhttp__piece_t *piece) {
    uvhttp__stream_t *wire = wire_of(stream);
    size_t size = (size_t)piece->size;
    char *begin = uvhttp__loop_iteration_alloc(wire->loop, size + UVHTTP__HTTP1_CHUNK_HEAD_MAX + 2), *end = begin;
    if (!begin) return UVHTTP_E_NOMEM;
    if (stream->chunked_out) end += uvhttp__http1_write_chunk_head(end, size);
    end = put(end, piece->data, size);
    if (stream->chunked_out) end = PUT(end, "\r\n");
    uvhttp__loop_iteration_trim(wire->loop, end);
    return uvhttp__stream_send_iteration(wire, begin, (size_t)(end - begin));
}

static int push_chunk_head(uvhttp__http1_stream_t *stream, uint64_t size) {
    char head[UVHTTP__HTTP1_CHUNK_HEAD_MAX];
    return uvhttp__stream_send_copy(wire_of(stream), head, uvhttp__http1_write_chunk_head(head, (size_t)size));
}

/* From where the bytes are. */
static int push_reference(uvhttp__http1_stream_t *stream, const uvhttp__piece_t *piece, uvhttp__keeper_t keeper) {
    uvhttp__stream_t *wire = wire_of(stream);
    if (piece->kind == UVHTTP__PIECE_FILE)
        return uvhttp__stream_send_file(wire, piece->fd, piece->offset, piece->size, keeper.release, keeper.arg);
    int status = stream->chunked_out ? push_chunk_head(stream, piece->size) : UVHTTP_OK;
    /* After a failure, too: the keeper is the queue's to release. */
    int sent = uvhttp__stream_send_ref(wire, piece->data, (size_t)piece->size, keeper.release, keeper.arg);
    if (status == UVHTTP_OK) status = sent;
    if (status == UVHTTP_OK && stream->chunked_out) status = uvhttp__stream_send_iteration(wire, "\r\n", 2);
    return status;
}

static int push(uvhttp__http1_stream_t *stream, const uvhttp__piece_t *piece) {
    uvhttp__exchange_t *exchange = &stream->exchange;
    uvhttp__keeper_t keeper;
    bool copied = piece->kind == UVHTTP__PIECE_LENT ||
                  (piece->kind == UVHTTP__PIECE_KEPT && piece->size <= UVHTTP__PIECE_COPY_MAX);
    int status = copied ? push_copy(stream, piece) : UVHTTP_OK;
    if (status != UVHTTP_OK) return status == UVHTTP_E_NOMEM ? status : UVHTTP_E_ABORTED;
    (void)uvhttp__outgoing_consume(exchange->outgoing, piece->size, &keeper); /* all of it: that does not fail */
    exchange->response.sent_size += piece->size;
    if (copied)
        uvhttp__keeper_release(keeper);
    else
        status = push_reference(stream, piece, keeper);
    if (status == UVHTTP_OK) return UVHTTP_OK;
    uvhttp__http1_cut_off(stream, status);
    return UVHTTP_E_ABORTED;
}

/* Whether the next bytes may go by sendfile(2). On a stream that encodes, a large file is worth the question whether
 * the kernel may do that from now on, once all before it is with the kernel: UVHTTP_E_AGAIN. */
static int choose_transport(uvhttp__http1_stream_t *stream, bool *by_sendfile) {
    uvhttp__stream_t *wire = wire_of(stream);
    *by_sendfile = !uvhttp__stream_encodes(wire);
    if (!uvhttp__stream_may_pass(wire) ||
        uvhttp__outgoing_file_size(stream->exchange.outgoing) < UVHTTP__FILTER_PASS_MIN)
        return UVHTTP_OK;
    if (uvhttp__stream_out_size(wire) > 0) return UVHTTP_E_AGAIN;
    *by_sendfile = uvhttp__stream_pass(wire);
    return UVHTTP_OK;
}

/* Until the wire is full (0), nothing is there to be pulled (UVHTTP_E_AGAIN), all was pulled (UVHTTP_E_EOF, on a full
 * wire, too), or it cannot be had. */
static int pull(uvhttp__http1_stream_t *stream) {
    uvhttp__outgoing_t *outgoing = stream->exchange.outgoing;
    int status = UVHTTP_OK;
    while (status == UVHTTP_OK && uvhttp__stream_out_size(wire_of(stream)) < UVHTTP__WIRE_FULL) {
        bool by_sendfile;
        uvhttp__piece_t piece;
        status = choose_transport(stream, &by_sendfile);
        if (status == UVHTTP_OK) status = uvhttp__outgoing_peek(outgoing, by_sendfile, &piece);
        if (status == UVHTTP_OK) status = push(stream, &piece);
    }
    return status == UVHTTP_OK && uvhttp__outgoing_is_over(outgoing) ? UVHTTP_E_EOF : status;
}

/* --- the end of a body --- */

/* Returns 0, UVHTTP_E_ABORTED or UVHTTP_E_NOMEM. */
static int push_last_chunk(uvhttp__http1_stream_t *stream) {
    const uvhttp__trailers_t *trailers = stream->exchange.response.trailers;
    uvhttp__stream_t *wire = wire_of(stream);
    size_t size = trailers ? trailers->size : 0;
    char *begin = uvhttp__loop_iteration_alloc(wire->loop, size + 5), *end = begin;
    if (!begin) { /* without its end it must not look whole */
        stream->keep_alive = false;
        return UVHTTP_E_NOMEM;
    }
    end = PUT(end, "0\r\n");
    if (size > 0) end = put(end, trailers->text, size);
    end = PUT(end, "\r\n");
    uvhttp__loop_iteration_trim(wire->loop, end);
    return uvhttp__stream_send_iteration(wire, begin, (size_t)(end - begin)) == UVHTTP_OK ? UVHTTP_OK
                                                                                          : UVHTTP_E_ABORTED;
}

static int end_body(uvhttp__http1_stream_t *stream) {
    const uvhttp__exchange_t *exchange = &stream->exchange;
    if (stream->body_ended) return UVHTTP_OK;
    stream->body_ended = true;
    if (uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_MISSIZED))
        stream->keep_alive = false;
    else if (stream->chunked_out && uvhttp__exchange_wants_body(exchange))
        return push_last_chunk(stream);
    return UVHTTP_OK;
}

/* --- pulling and waiting --- */

/* Whoever pulls goes on when the wire is empty. Of a streamed response, `unchecked_max` bytes on the wire need no look.
 * The response's flags may be a worker thread's. */
static void check_write_rate(uvhttp__http1_stream_t *stream, uint32_t unchecked_max) {
    uvhttp__session_t *session = stream->session;
    uint32_t queued = uvhttp__stream_out_size(&session->conn.stream);
    if (queued > unchecked_max)
        uvhttp__session_check_write_rate(session);
    else if (queued > 0 && stream->exchange.response.sent_size > UVHTTP__PIECE_COPY_MAX)
        uvhttp__output_check_start(&session->conn); /* the kernel takes what comes little by little, for minutes */
}

/* The rest cannot be had. What is on the wire leaves first. */
static void end_early(uvhttp__http1_stream_t *stream) {
    if (uvhttp__stream_out_size(wire_of(stream)) > 0)
        uvhttp__session_check_write_rate(stream->session);
    else
        uvhttp__http1_give_up(stream, UVHTTP_E_ABORTED);
}

/* For a response that the application still writes. */
static int pull_written(uvhttp__http1_stream_t *stream) {
    int status = pull(stream);
    check_write_rate(stream, UVHTTP__PIECE_COPY_MAX);
    if (status == UVHTTP_E_EOF) status = end_body(stream);
    return status == UVHTTP_E_AGAIN ? UVHTTP_OK : status;
}

/* For a complete response. Returns whether it is over: sent, or given up. */
static bool pull_responded(uvhttp__http1_stream_t *stream) {
    const uvhttp__conn_t *conn = &stream->session->conn;
    uint32_t unchecked_max =
        uvhttp__response_is(&stream->exchange.response, UVHTTP__RESPONSE_BEGUN) ? UVHTTP__PIECE_COPY_MAX : 0;
    int status = pull(stream);
    if (status == UVHTTP_E_EOF) {
        check_write_rate(stream, unchecked_max);
        (void)end_body(stream);
        uvhttp__http1_done(stream);
        return true;
    }
    if (conn->flags & UVHTTP__CONN_CLOSED) return true; /* on_closed aborts the exchange */
    if (status == UVHTTP_OK || status == UVHTTP_E_AGAIN)
        check_write_rate(stream, unchecked_max);
    else
        end_early(stream);
    return false;
}

/* The response takes its time: the bytes that follow its request wait. */
static void respond_later(uvhttp__http1_stream_t *stream) {
    uvhttp__session_t *session = stream->session;
    uvhttp__exchange_t *exchange = &stream->exchange;
    stream->responding = true;
    uvhttp__http1_settle_request(stream);
    session->state = UVHTTP__SESSION_RESPONSE;
    uvhttp__conn_timer_stop(&session->conn);
    if (uvhttp__exchange_own(exchange) != UVHTTP_OK) uvhttp__http1_give_up(stream, UVHTTP_E_NOMEM);
}

int uvhttp__http1_body_ready(uvhttp__exchange_t *exchange) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    if (!exchange->responded) return pull_written(stream);
    (void)pull_responded(stream);
    return UVHTTP_OK;
}

void uvhttp__http1_finish(uvhttp__exchange_t *exchange) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    if (!pull_responded(stream)) respond_later(stream);
}

bool uvhttp__http1_wire_empty(uvhttp__http1_stream_t *stream) {
    uvhttp__exchange_t *exchange = &stream->exchange;
    if (!exchange->outgoing) return true;
    if (exchange->responded) {
        (void)pull_responded(stream);
        return false;
    }
    int status = pull_written(stream);
    if (status != UVHTTP_OK) uvhttp__http1_cut_off(stream, status);
    return status == UVHTTP_OK && uvhttp__exchange_queued(exchange) == 0;
}
