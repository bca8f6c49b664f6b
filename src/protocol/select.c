/* Owns: see select.h. */
#include "protocol/select.h"

#include <uvhttp/log.h>

#include "protocol/http1_session.h"
#include "protocol/http2_connection.h"

/* how: what decided. */
static void log_selected(const uvhttp__conn_t *conn, const char *protocol, const char *how) {
    UVHTTP_LOG_DEBUG("http: %s speaks %s (%s)", uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text), protocol,
                     how);
}

static void speak_http2(uvhttp__conn_t *conn, const char *how) {
    log_selected(conn, "HTTP/2", how);
    uvhttp__conn_timer_stop(conn);
    uvhttp__conn_set_protocol(conn, UVHTTP__PROTOCOL_HTTP2);
    uvhttp__http2_on_open(conn);
}

/* Over TLS it is the handshake that decides. */
void uvhttp__select_on_open(uvhttp__conn_t *conn) {
    const uvhttp__http_loop_t *loop = conn->loop->user;
    bool enabled = loop->service->config.http2, clear = conn->stream.filter == NULL;
    if (enabled && (conn->flags & UVHTTP__CONN_ALPN_H2)) {
        speak_http2(conn, "ALPN");
        return;
    }
    if (enabled && clear)
        uvhttp__conn_set_protocol(conn, UVHTTP__PROTOCOL_UNKNOWN);
    else
        log_selected(conn, "HTTP/1.1", clear ? "http2 is off" : "ALPN has not chosen h2");
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
        log_selected(conn, "HTTP/1.1", "its first bytes");
        if (before > 0) (void)uvhttp__session_on_data(conn, preface, before);
        return uvhttp__session_on_data(conn, data, size);
    }
    speak_http2(conn, "its preface");
    if (conn->flags & UVHTTP__CONN_CLOSED) return size;
    if (before > 0) (void)uvhttp__http2_on_data(conn, preface, before);
    return uvhttp__http2_on_data(conn, data, size);
}

const char *uvhttp__select_describe(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_DESCRIPTION_MAX]) {
    (void)conn, (void)text;
    return "no request";
}
