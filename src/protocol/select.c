/* Owns: see select.h. */
#include "protocol/select.h"

#include "protocol/http1_session.h"
#include "protocol/http2_connection.h"

static void speak_http2(uvhttp__conn_t *conn) {
    uvhttp__conn_timer_stop(conn);
    uvhttp__conn_set_protocol(conn, UVHTTP__PROTOCOL_HTTP2);
    uvhttp__http2_on_open(conn);
}

/* Over TLS it is the handshake that decides. */
void uvhttp__select_on_open(uvhttp__conn_t *conn) {
    const uvhttp__http_loop_t *loop = conn->loop->user;
    bool enabled = loop->service->config.http2, clear = conn->stream.filter == NULL;
    if (enabled && (conn->flags & UVHTTP__CONN_ALPN_H2)) {
        speak_http2(conn);
        return;
    }
    if (enabled && clear) uvhttp__conn_set_protocol(conn, UVHTTP__PROTOCOL_UNKNOWN);
    uvhttp__session_on_open(conn);
}

/* What has been seen of a preface was not kept: it is known. */
size_t uvhttp__select_on_data(uvhttp__conn_t *conn, const char *data, size_t size) {
    static const char preface[] = UVHTTP__HTTP2_PREFACE;
    uvhttp__session_t *session = uvhttp__session_of(conn);
    uint32_t before = session->preface_size;
    size_t rest = UVHTTP__HTTP2_PREFACE_SIZE - before, look = size < rest ? size : rest;
    bool matches = memcmp(data, preface + before, look) == 0;
    if (matches && look < rest) {
        session->preface_size += (uint32_t)look;
        return size;
    }
    session->preface_size = 0;
    if (!matches) {
        uvhttp__conn_set_protocol(conn, UVHTTP__PROTOCOL_HTTP1);
        if (before > 0) (void)uvhttp__session_on_data(conn, preface, before);
        return uvhttp__session_on_data(conn, data, size);
    }
    speak_http2(conn);
    if (conn->flags & UVHTTP__CONN_CLOSED) return size;
    if (before > 0) (void)uvhttp__http2_on_data(conn, preface, before);
    return uvhttp__http2_on_data(conn, data, size);
}
