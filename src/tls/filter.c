/* Owns: TLS on a connection: the handshake under its deadline, decoding what comes, encoding what goes or having the
 * kernel do that, the ends. May include: conn, io, base, obs. */
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "tls/backend.h"
#include "tls/tls.h"

/* Unsolicited bytes of a connection in its whole life (replies to key updates, refused renegotiations), so that a peer
 * that never reads does not fill the queue with them. */
#define UNASKED_SIZE_MAX (64u * 1024)
/* Flights of handshakes that a loop sends in an iteration: the first holds a signature, which may take a millisecond,
 * and others' requests wait meanwhile. */
#define FLIGHTS_MAX 4
/* Records of a connection that are decoded in an iteration. Each has its price, however few bytes are in it: a receive
 * buffer holds thousands that have one. */
#define RECORDS_MAX 256
/* How long an alert and the FIN behind it may take. */
#define FAIL_WRITE_MS 2000
#define RECORD_HEAD_SIZE 5

/* Where in the peer's records a byte is. */
typedef struct position {
    uint16_t left; /* bytes that the current record still has, once its head is complete */
    uint8_t head;  /* bytes of its head that have arrived; 0: the last record is complete */
} position_t;

typedef struct tls_conn {
    uvhttp__filter_t filter; /* first: found by the stream's pointer to it */
    uvhttp__tls_io_t io;
    uvhttp__tls_session_t *session;
    uvhttp__tls_contexts_t *contexts;
    char *held; /* decoded bytes that the upper layer has left, NULL if none */
    char *subject;
    uint32_t held_size, held_offset; /* bytes; in `held`, in front of them those that were consumed */
    uint32_t received;               /* bytes, until the handshake is done */
    uint32_t unasked_size;           /* bytes */
    uint32_t records_left;           /* how many more are decoded in the iteration of that number */
    uint32_t records_iteration;
    position_t position; /* behind what the session has consumed */
    int16_t behind_held; /* why decoding has ended behind `held`: an end or an error; 0: for neither */
    bool open;           /* the handshake is done */
    bool dead;           /* it has failed: nothing can be encoded or decoded any more */
    bool ended;          /* the peer's close_notify or FIN was reported upwards */
    bool said_end;       /* close_notify is written: what the session has to say after it is discarded */
    bool direct;         /* output goes straight to the descriptor */
    bool noted;          /* uvhttp__tls_notes has begun */
    bool kernel;         /* the kernel encrypts: what the session writes is discarded */
} tls_conn_t;

static const unsigned char close_notify[] = {1, 0};

static tls_conn_t *tls_of(const uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream->filter, tls_conn_t, filter);
}

static uvhttp__counters_t *counters_of(uvhttp__conn_t *conn) {
    return &conn->loop->counters;
}

static int write_encoded(uvhttp__tls_io_t *io, const char *data, size_t size) {
    tls_conn_t *tls = UVHTTP__CONTAINER_OF(io, tls_conn_t, io);
    if (tls->kernel || tls->said_end) return UVHTTP_OK;
    if (tls->direct) {
        ssize_t sent = send(io->stream->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) uvhttp__counters_add(io->stream->loop->counters, bytes_sent, (size_t)sent);
        return UVHTTP_OK;
    }
    if (tls->open && io->in) {
        tls->unasked_size += (uint32_t)size;
        if (tls->unasked_size > UNASKED_SIZE_MAX) return UVHTTP_E_LIMIT;
    }
    return uvhttp__filter_put(io->stream, data, size);
}

/* --- ends --- */

/* Nothing more will be read or written; the alert, if the session has written one, goes out, then FIN. */
static void fail(tls_conn_t *tls, uvhttp__conn_t *conn, int code) {
    tls->dead = true;
    tls->io.in_size = 0;
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return;
    uvhttp__counters_error(counters_of(conn), code);
    conn->close_status = (int16_t)code;
    uvhttp__conn_finish_by(conn, uvhttp__conn_now_ms(conn) + FAIL_WRITE_MS);
}

static void notify_end(tls_conn_t *tls, uvhttp__stream_t *stream, int status) {
    tls->ended = true;
    uvhttp__conn_stream_ops.on_end(stream, status);
}

/* FIN or a reset. A FIN without close_notify may be somebody else's, who cuts off what follows (RFC 8446 section 6.1):
 * not a regular end, unless we have said goodbye ourselves. */
static void on_end(uvhttp__stream_t *stream, int status) {
    tls_conn_t *tls = tls_of(stream);
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    bool leaving = conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED);
    if (tls->ended && status == UVHTTP_OK && !leaving) return;
    if (!tls->open && !leaving) {
        if (tls->received > 0) uvhttp__counters_error(counters_of(conn), UVHTTP_E_TLS_HANDSHAKE);
        if (status != UVHTTP_OK) uvhttp__conn_count_reset(conn);
        uvhttp__conn_close(conn, UVHTTP_E_ABORTED);
        return;
    }
    if (status == UVHTTP_OK && !leaving) {
        if (stream->write == UVHTTP__WRITE_OPEN) {
            uvhttp__counters_error(counters_of(conn), UVHTTP_E_TLS_TRUNCATED);
            status = UVHTTP_E_ABORTED;
        }
    }
    notify_end(tls, stream, status);
}

static void on_sent(uvhttp__stream_t *stream) {
    uvhttp__conn_stream_ops.on_sent(stream);
}

static void on_closed(uvhttp__stream_t *stream) {
    tls_conn_t *tls = tls_of(stream);
    uvhttp__tls_session_free(tls->session);
    uvhttp__tls_contexts_release(tls->contexts);
    uvhttp__free(tls->held);
    uvhttp__free(tls->subject);
    uvhttp__free(tls);
    uvhttp__conn_stream_ops.on_closed(stream);
}

/* --- the kernel --- */

/* What this session could give to the kernel is not asked for any more: its records cost what they always do. */
static void end_notes(tls_conn_t *tls) {
    tls->filter.may_pass = tls->noted = false;
    uvhttp__tls_notes->end(tls->session);
}

static bool kernel_may_take(const tls_conn_t *tls) {
    return uvhttp__tls_notes->cipher(tls->session) &
           ~atomic_load_explicit(&tls->contexts->kernel_refuses, memory_order_relaxed);
}

/* Whether it is worth a try is known when the handshake is done, and with that what all further records cost. */
static void choose_sender(tls_conn_t *tls) {
    if (!tls->noted) return;
    tls->filter.may_pass = kernel_may_take(tls);
    if (!tls->filter.may_pass) end_notes(tls);
}

/* One attempt a connection. What the kernel will not do for the next one either is remembered until a reload. */
static bool pass(uvhttp__stream_t *stream) {
    tls_conn_t *tls = tls_of(stream);
    uvhttp__tls_sending_t sending;
    uint8_t refuses = 0;
    tls->filter.may_pass = false;
    if (tls->dead) return false;
    bool wanted = kernel_may_take(tls) && uvhttp__tls_notes->take(tls->session, &sending);
    if (wanted) tls->kernel = uvhttp__ktls_start(stream->fd, &sending, &refuses);
    explicit_bzero(&sending, sizeof sending);
    if (tls->kernel) {
        uvhttp__counters_add(stream->loop->counters, tls_kernel, 1);
        return true;
    }
    if (wanted) uvhttp__counters_add(stream->loop->counters, tls_kernel_refused, 1);
    atomic_fetch_or_explicit(&tls->contexts->kernel_refuses, refuses, memory_order_relaxed);
    end_notes(tls);
    return false;
}

/* The socket accepts them only when everything before is with TCP: FIN would cut off what is still queued there. */
static int pass_end(uvhttp__stream_t *stream) {
    tls_conn_t *tls = tls_of(stream);
    const unsigned char *alert = tls->dead ? uvhttp__tls_notes->alert(tls->session) : close_notify;
    return alert ? uvhttp__ktls_alert(stream->fd, alert) : UVHTTP_OK;
}

/* The peer has new keys for what it sends, which the session takes, and may ask for new ones from here. Kernels before
 * Linux 6.14 take no second key, so that this end goes no further than what it owes: the responses to what has come are
 * sent under the old key, as if they had been under way already (RFC 8446 section 4.6.3 has the peer accept those),
 * then close_notify. The same as in a drain, and under the same timeouts. */
static void end_for_new_keys(tls_conn_t *tls, uvhttp__conn_t *conn) {
    if (!tls->kernel || tls->dead || (conn->flags & UVHTTP__CONN_LAST) || !uvhttp__tls_notes->rekeyed(tls->session))
        return;
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return;
    uvhttp__counters_add(counters_of(conn), tls_kernel_ended, 1);
    uvhttp__conn_drain_alone(conn);
}

/* --- the handshake --- */

static const char not_https[] = "HTTP/1.1 400 Bad Request\r\n"
                                "Content-Type: text/plain; charset=utf-8\r\n"
                                "Content-Length: 24\r\n"
                                "Connection: close\r\n"
                                "\r\n"
                                "This port speaks HTTPS.\n";

/* The first byte of TLS marks a handshake. A letter is probably a request of HTTP: its client can read a response. */
static bool is_tls(tls_conn_t *tls, uvhttp__conn_t *conn) {
    char first = tls->io.in[0];
    if (first == 0x16) return true;
    bool letter = (first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z');
    if (letter) (void)uvhttp__filter_put(&conn->stream, not_https, sizeof not_https - 1);
    fail(tls, conn, letter ? UVHTTP_E_TLS_PLAIN_HTTP : UVHTTP_E_TLS_NOT_TLS);
    return false;
}

static void log_handshake(const tls_conn_t *tls, const uvhttp__conn_t *conn) {
    UVHTTP_LOG_DEBUG("tls: %s handshake done: %s, %s, %s, %u bytes received",
                     uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text),
                     uvhttp__tls_session_version(tls->session), uvhttp__tls_session_cipher(tls->session),
                     uvhttp__tls_session_resumed(tls->session) ? "resumed" : "new session", tls->received);
}

static void count_handshake(const tls_conn_t *tls, uvhttp__counters_t *counters) {
    uvhttp__counters_add(counters, tls_handshakes, 1);
    if (strcmp(uvhttp__tls_session_version(tls->session), "TLSv1.3") == 0)
        uvhttp__counters_add(counters, tls_version_1_3, 1);
    else
        uvhttp__counters_add(counters, tls_version_1_2, 1);
    if (uvhttp__tls_session_resumed(tls->session)) uvhttp__counters_add(counters, tls_resumed, 1);
}

/* Whether this iteration may still compute one. */
static bool has_flight_left(uvhttp__conn_t *conn) {
    uint32_t iteration = conn->stream.loop->iteration_number;
    if (conn->loop->flights_iteration != iteration) conn->loop->flights = 0;
    conn->loop->flights_iteration = iteration;
    return conn->loop->flights < FLIGHTS_MAX;
}

static void handshake(tls_conn_t *tls, uvhttp__conn_t *conn) {
    if (tls->io.in_size == 0) return;
    if (tls->received == 0 && !is_tls(tls, conn)) return;
    size_t before = tls->io.in_size, queued = uvhttp__stream_out_size(&conn->stream);
    int status = uvhttp__tls_session_handshake(tls->session);
    if (uvhttp__stream_out_size(&conn->stream) > queued) conn->loop->flights++;
    tls->received += (uint32_t)(before - tls->io.in_size);
    if (status == UVHTTP_E_AGAIN)
        status = tls->received > UVHTTP__TLS_HANDSHAKE_SIZE_MAX ? UVHTTP_E_TLS_HANDSHAKE : UVHTTP_OK;
    else if (status == UVHTTP_OK)
        tls->open = true;
    if (status != UVHTTP_OK) {
        fail(tls, conn, status);
        return;
    }
    if (!tls->open) return;
    count_handshake(tls, counters_of(conn));
    if (uvhttp__tls_session_chose_h2(tls->session)) conn->flags |= UVHTTP__CONN_ALPN_H2;
    log_handshake(tls, conn);
    choose_sender(tls);
    uvhttp__conn_opened(conn);
}

/* --- receiving --- */

/* Gives decoded bytes to the upper layer. Returns false if it has left some, which are kept, or has closed. */
static bool deliver(tls_conn_t *tls, uvhttp__stream_t *stream, const char *data, size_t size) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_RESUMED;
    size_t used = uvhttp__conn_stream_ops.on_data(stream, data, size);
    if (uvhttp__stream_is_over(stream)) return false;
    if (used == size) return true;
    if (tls->held) { /* that is what data was */
        tls->held_offset += (uint32_t)used;
    } else {
        tls->held = uvhttp__malloc(size - used);
        if (!tls->held) {
            uvhttp__conn_close(uvhttp__conn_of(stream), UVHTTP_E_NOMEM);
            return false;
        }
        memcpy(tls->held, data + used, size - used);
        tls->held_offset = 0;
    }
    tls->held_size = (uint32_t)(size - used);
    uvhttp__filter_hold(stream);
    return false;
}

static bool deliver_held(tls_conn_t *tls, uvhttp__stream_t *stream) {
    if (!tls->held) return true;
    if (!deliver(tls, stream, tls->held + tls->held_offset, tls->held_size)) return false;
    uvhttp__free(tls->held);
    tls->held = NULL;
    tls->held_size = 0;
    return true;
}

/* As many records as there are, so that the upper layer sees a batch as one. Returns why it ended. */
static int decode(tls_conn_t *tls, char *memory, size_t *size) {
    *size = 0;
    while (*size < UVHTTP__FILTER_INPUT_SIZE) {
        if (tls->io.in_size == 0 && !uvhttp__tls_session_pending(tls->session)) return UVHTTP_E_AGAIN;
        size_t got = 0;
        int status = uvhttp__tls_session_read(tls->session, memory + *size, UVHTTP__FILTER_INPUT_SIZE - *size, &got);
        if (status != UVHTTP_OK) return status;
        *size += got;
    }
    return UVHTTP_OK;
}

static void receive(tls_conn_t *tls, uvhttp__conn_t *conn) {
    uvhttp__stream_t *stream = &conn->stream;
    int status = UVHTTP_OK;
    while (status == UVHTTP_OK) {
        if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) {
            tls->io.in_size = 0; /* whatever it is, nobody wants it */
            return;
        }
        size_t size = 0;
        status = tls->behind_held;
        if (status == UVHTTP_OK) status = decode(tls, stream->loop->filter_memory, &size);
        if (size > 0 && !deliver(tls, stream, stream->loop->filter_memory, size)) {
            if (status != UVHTTP_E_AGAIN) tls->behind_held = (int16_t)status;
            return;
        }
    }
    if (status == UVHTTP_E_AGAIN) return;
    if (status != UVHTTP_E_EOF)
        fail(tls, conn, status);
    else if (!(conn->flags & UVHTTP__CONN_CLOSED))
        notify_end(tls, stream, UVHTTP_OK);
}

/* The session consumes the available part of a record and shows nothing of it before it is complete. Returns how many
 * bytes there are up to the end of the last one that may be completed. */
static size_t follow_records(position_t *position, const char *data, size_t size, uint32_t *records) {
    uint32_t left = *records;
    size_t at = 0;
    while (at < size && left > 0) {
        size_t step = 1;
        if (position->head < RECORD_HEAD_SIZE) { /* type, version, version, then the size in two bytes */
            position->head++;
            position->left = (uint16_t)(position->left << 8 | (uint8_t)data[at]);
        } else {
            step = size - at < position->left ? size - at : position->left;
            position->left = (uint16_t)(position->left - step);
        }
        at += step;
        if (position->head == RECORD_HEAD_SIZE && position->left == 0) {
            position->head = 0;
            left--;
        }
    }
    *records = left;
    return at;
}

/* How many of the bytes may be decoded in this iteration. */
static size_t share_of(tls_conn_t *tls, const char *data, size_t size) {
    uint32_t iteration = tls->io.stream->loop->iteration_number;
    if (tls->records_iteration != iteration) tls->records_left = RECORDS_MAX;
    tls->records_iteration = iteration;
    return follow_records(&tls->position, data, size, &tls->records_left);
}

static size_t on_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    tls_conn_t *tls = tls_of(stream);
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    if (conn->flags & UVHTTP__CONN_FINISHING) return uvhttp__conn_discard(conn, size);
    if (tls->ended) return 0; /* what comes behind close_notify waits until it is discarded */
    if (!tls->open && !has_flight_left(conn)) {
        uvhttp__stream_resume(stream); /* in the next iteration */
        return 0;
    }
    position_t before = tls->position;
    size_t share = share_of(tls, data, size);
    tls->io.in = data;
    tls->io.in_size = share;
    bool was_open = tls->open;
    if (!was_open) handshake(tls, conn);
    if (tls->open && !tls->dead && deliver_held(tls, stream)) receive(tls, conn);
    if (tls->open && !was_open && conn->loop->draining) uvhttp__conn_drain(conn);
    end_for_new_keys(tls, conn);
    size_t used = share - tls->io.in_size;
    tls->io.in = NULL;
    tls->io.in_size = 0;
    if (used < share) { /* the upper layer waits, or nothing is read any more */
        tls->position = before;
        (void)follow_records(&tls->position, data, used, &(uint32_t){UINT32_MAX});
    } else if (share < size && !tls->held) {
        uvhttp__counters_add(counters_of(conn), budget_exhausted, 1);
        uvhttp__stream_resume(stream); /* in the next iteration */
    }
    return used;
}

/* --- sending --- */

static int encode(uvhttp__stream_t *stream, const char *data, size_t size) {
    tls_conn_t *tls = tls_of(stream);
    return tls->dead ? UVHTTP_OK : uvhttp__tls_session_write(tls->session, data, size); /* dead: the alert continues */
}

static void encode_end(uvhttp__stream_t *stream) {
    tls_conn_t *tls = tls_of(stream);
    if (tls->open && !tls->dead) uvhttp__tls_session_close(tls->session);
    tls->said_end = true;
}

/* Only after a regular life: close_notify says that nothing is missing. */
static void closing(uvhttp__stream_t *stream) {
    tls_conn_t *tls = tls_of(stream);
    int status = uvhttp__conn_of(stream)->close_status;
    if (!tls->open || tls->dead || (status != UVHTTP_OK && status != UVHTTP_E_TIMEOUT)) return;
    if (tls->kernel) {
        (void)uvhttp__ktls_alert(stream->fd, close_notify);
        return;
    }
    tls->direct = true;
    uvhttp__tls_session_close(tls->session);
}

static bool unread(const uvhttp__stream_t *stream) {
    const tls_conn_t *tls = tls_of(stream);
    return tls->held_size > 0 || (tls->open ? tls->position.head > 0 : tls->received > 0);
}

static void on_kept(uvhttp__stream_t *stream) {
    uvhttp__conn_stream_ops.on_kept(stream);
}

/* --- opening --- */

static const uvhttp__stream_ops_t stream_ops = {
    .on_data = on_data, .on_end = on_end, .on_sent = on_sent, .on_kept = on_kept, .on_closed = on_closed};

static const uvhttp__filter_ops_t filter_ops = {.encode = encode,
                                                .encode_end = encode_end,
                                                .pass = pass,
                                                .pass_end = pass_end,
                                                .closing = closing,
                                                .unread = unread};

/* Opportunistic: without it the connection is served all the same. */
static bool begin_notes(const tls_conn_t *tls) {
    const uvhttp__tls_contexts_t *contexts = tls->contexts;
    return contexts->settings->kernel_tls && uvhttp__tls_notes &&
           atomic_load_explicit(&contexts->kernel_refuses, memory_order_relaxed) != UVHTTP__TLS_ALL_CIPHERS &&
           uvhttp__tls_notes->begin(tls->session);
}

int uvhttp__tls_open(uvhttp__conn_t *conn, void *arg) {
    uvhttp_tls_t *tls = arg;
    tls_conn_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return UVHTTP_E_NOMEM;
    made->filter.ops = &filter_ops;
    made->io.stream = &conn->stream;
    made->io.write = write_encoded;
    made->io.speaks_h2 = conn->loop->tcp_server->options.speaks_h2;
    made->contexts = uvhttp__tls_now(tls);
    made->session = uvhttp__tls_session_new(made->contexts, &made->io);
    if (!made->session || uvhttp__stream_set_filter(&conn->stream, &made->filter, &stream_ops) != UVHTTP_OK) {
        uvhttp__tls_session_free(made->session);
        uvhttp__tls_contexts_release(made->contexts);
        uvhttp__free(made);
        return UVHTTP_E_NOMEM;
    }
    made->noted = begin_notes(made);
    uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + made->contexts->settings->handshake_timeout_ms);
    return UVHTTP_OK;
}

/* --- what a connection knows --- */

bool uvhttp_tcp_is_tls(const uvhttp_tcp_t *tcp) {
    return tcp && tcp->stream.filter != NULL;
}

const char *uvhttp_tcp_client_subject(uvhttp_tcp_t *tcp) {
    if (!uvhttp_tcp_is_tls(tcp)) return NULL;
    tls_conn_t *tls = tls_of(&tcp->stream);
    if (!tls->subject) tls->subject = uvhttp__tls_session_subject(tls->session);
    return tls->subject;
}
