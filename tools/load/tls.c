/* Owns: TLS of the client's side, with OpenSSL. May include: base, io, obs, http1. */
/* Needs: openssl. */
#include "load/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/alloc.h"

const bool load_has_tls = true;

typedef struct tls {
    uvhttp__filter_t filter; /* first: found by the stream's pointer to it */
    SSL *ssl;
    BIO *in, *out; /* the session's: records that came, and records to send */
    bool open;     /* the handshake is done */
    bool ended;    /* close_notify has come */
} tls_t;

static tls_t *tls_of(const uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream->filter, tls_t, filter);
}

static load_conn_t *conn_of(uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream, load_conn_t, stream);
}

static bool in_use(const load_conn_t *conn) {
    return conn->state == LOAD_CONN_SHAKING || conn->state == LOAD_CONN_ONLINE;
}

/* Puts the records that the session has made into the stream's queue. */
static int flush(tls_t *tls, uvhttp__stream_t *stream) {
    char *records;
    long size = BIO_get_mem_data(tls->out, &records);
    if (size <= 0) return UVHTTP_OK;
    int code = uvhttp__filter_put(stream, records, (size_t)size);
    (void)BIO_reset(tls->out);
    return code;
}

static void fail(load_conn_t *conn, load_error_t kind) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    char why[LOAD_EXAMPLE_SIZE];
    snprintf(why, sizeof why, "TLS: %s", reason ? reason : "failed");
    ERR_clear_error();
    load_conn_fail(conn, kind, kind == LOAD_ERROR_connect, why);
}

/* --- receiving --- */

static bool chose_http2(const tls_t *tls) {
    const unsigned char *name;
    unsigned size;
    SSL_get0_alpn_selected(tls->ssl, &name, &size);
    return size == 2 && memcmp(name, "h2", 2) == 0;
}

static void handshake(tls_t *tls, load_conn_t *conn) {
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    bool waits = result != 1 && SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ;
    int code = flush(tls, &conn->stream);
    if (result == 1 && code == 0) {
        tls->open = true;
        if (conn->thread->options->http2 && !chose_http2(tls))
            load_conn_fail(conn, LOAD_ERROR_connect, true, "TLS: the server does not choose h2 by ALPN");
        else
            load_conn_secured(conn);
    } else if (!waits || code != 0) {
        fail(conn, LOAD_ERROR_connect);
    }
}

static void receive(tls_t *tls, load_conn_t *conn) {
    char *memory = conn->stream.loop->filter_memory;
    while (in_use(conn)) {
        ERR_clear_error();
        int got = SSL_read(tls->ssl, memory, UVHTTP__FILTER_INPUT_SIZE);
        if (got > 0) {
            (void)load_conn_ops.on_data(&conn->stream, memory, (size_t)got);
            continue;
        }
        int error = SSL_get_error(tls->ssl, got);
        if (error == SSL_ERROR_WANT_READ) return;
        tls->ended = error == SSL_ERROR_ZERO_RETURN;
        if (tls->ended)
            load_conn_ops.on_end(&conn->stream, UVHTTP_OK);
        else
            fail(conn, LOAD_ERROR_protocol);
        return;
    }
}

static size_t on_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    tls_t *tls = tls_of(stream);
    load_conn_t *conn = conn_of(stream);
    if (!in_use(conn) || tls->ended) return size;
    if (BIO_write(tls->in, data, (int)size) != (int)size) {
        fail(conn, LOAD_ERROR_protocol);
        return size;
    }
    if (!tls->open) handshake(tls, conn);
    if (tls->open) receive(tls, conn);
    if (in_use(conn)) (void)flush(tls, stream); /* replies to key updates */
    return size;
}

/* A FIN without close_notify may be anybody's, and does not end a response. */
static void on_end(uvhttp__stream_t *stream, int status) {
    const tls_t *tls = tls_of(stream);
    load_conn_t *conn = conn_of(stream);
    if (tls->ended) return;
    if (status == UVHTTP_OK && tls->open && conn->in_flight > 0)
        load_conn_fail(conn, LOAD_ERROR_read, false, "closed by the server without close_notify");
    else
        load_conn_ops.on_end(stream, status);
}

static void on_closed(uvhttp__stream_t *stream) {
    tls_t *tls = tls_of(stream);
    SSL_free(tls->ssl); /* and its BIOs */
    uvhttp__free(tls);
    load_conn_ops.on_closed(stream);
}

/* --- sending --- */

static int encode(uvhttp__stream_t *stream, const char *data, size_t size) {
    tls_t *tls = tls_of(stream);
    ERR_clear_error();
    if (SSL_write(tls->ssl, data, (int)size) != (int)size) return UVHTTP_E_ABORTED;
    return flush(tls, stream);
}

static void encode_end(uvhttp__stream_t *stream) {
    (void)stream; /* this program never sends FIN alone */
}

static void closing(uvhttp__stream_t *stream) {
    tls_t *tls = tls_of(stream);
    char *records;
    if (!tls->open) return;
    ERR_clear_error();
    (void)SSL_shutdown(tls->ssl);
    long size = BIO_get_mem_data(tls->out, &records);
    if (size > 0) (void)!send(stream->fd, records, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool unread(const uvhttp__stream_t *stream) {
    (void)stream;
    return false;
}

static const uvhttp__stream_ops_t stream_ops = {.on_data = on_data, .on_end = on_end, .on_closed = on_closed};

static const uvhttp__filter_ops_t filter_ops = {
    .encode = encode, .encode_end = encode_end, .closing = closing, .unread = unread};

/* --- beginning --- */

static bool is_address(const char *host) {
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool set_session(tls_t *tls, const load_options_t *options) {
    if (!tls->ssl || !tls->in || !tls->out) return false;
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    bool number = is_address(options->host);
    if (!number && SSL_set_tlsext_host_name(tls->ssl, options->host) != 1) return false;
    if (!options->ca_path) return true;
    X509_VERIFY_PARAM *expected = SSL_get0_param(tls->ssl);
    return (number ? X509_VERIFY_PARAM_set1_ip_asc(expected, options->host)
                   : X509_VERIFY_PARAM_set1_host(expected, options->host, 0)) == 1;
}

int load_tls_start(load_conn_t *conn) {
    tls_t *tls = uvhttp__calloc(1, sizeof *tls);
    if (!tls) return UVHTTP_E_NOMEM;
    tls->filter.ops = &filter_ops;
    tls->ssl = SSL_new(conn->thread->plan->tls);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    bool bios_owned = tls->ssl && tls->in && tls->out;
    if (!set_session(tls, conn->thread->options) ||
        uvhttp__stream_set_filter(&conn->stream, &tls->filter, &stream_ops) != UVHTTP_OK) {
        if (!bios_owned) {
            BIO_free(tls->in);
            BIO_free(tls->out);
        }
        SSL_free(tls->ssl);
        uvhttp__free(tls);
        return UVHTTP_E_NOMEM;
    }
    int code = uvhttp__stream_read_start(&conn->stream);
    if (code == 0) handshake(tls, conn);
    return code;
}

void *load_tls_context_new(const load_options_t *options, FILE *err) {
    static const unsigned char http1[] = "\x08http/1.1", http2[] = "\x02h2";
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    bool ok = context && (options->http2 ? SSL_CTX_set_alpn_protos(context, http2, sizeof http2 - 1)
                                         : SSL_CTX_set_alpn_protos(context, http1, sizeof http1 - 1)) == 0;
    if (ok && options->ca_path) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        ok = SSL_CTX_load_verify_locations(context, options->ca_path, NULL) == 1;
    }
    if (ok) return context;
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    fprintf(err, "uvhttp-load: TLS%s%s: %s\n", options->ca_path ? ": --ca-file " : "",
            options->ca_path ? options->ca_path : "", reason ? reason : "cannot be used");
    SSL_CTX_free(context);
    return NULL;
}

void load_tls_context_free(void *context) {
    SSL_CTX_free(context);
}
