/* Owns: how a connection ends, gracefully or now, and what is said and counted of that. May include: io, base, obs. */
#include "conn/conn.h"

#include <stdio.h>
#include <sys/socket.h>
#include <uvhttp/log.h>

#include "conn/tcp_server_internal.h"
#include "obs/log.h"

static_assert(sizeof(uvhttp__conn_t) <= 192, "an idle connection costs this and what the upper layer adds");

static void stop_all_timers(uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_CHECKED) uvhttp__output_check_end(conn);
    uvhttp__conn_timer_stop(conn);
}

const char *uvhttp__conn_log_name(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_NAME_MAX]) {
    uvhttp__address_t address;
    socklen_t size = sizeof address;
    char peer[UVHTTP__ADDRESS_TEXT_MAX] = "(gone)";
    if (getpeername(conn->stream.fd, (struct sockaddr *)&address, &size) == 0)
        uvhttp__address_format(&address, size, peer);
    snprintf(text, UVHTTP__CONN_NAME_MAX, "loop %u: fd %d, %s,", conn->loop->index, conn->stream.fd, peer);
    return text;
}

static const char *description(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_DESCRIPTION_MAX]) {
    if (conn->flags & UVHTTP__CONN_PROXY) return "during the PROXY protocol header";
    if (conn->flags & UVHTTP__CONN_HANDSHAKE) return "during the TLS handshake";
    const uvhttp__conn_ops_t *ops = uvhttp__conn_ops(conn);
    return ops->describe ? ops->describe(conn, text) : conn->loop->tcp_server->options.name;
}

static void log_end(const uvhttp__conn_t *conn, int status, const char *how) {
    char what[UVHTTP__CONN_DESCRIPTION_MAX], bytes[80] = "";
    uvhttp__kernel_facts_t facts;
    if (uvhttp__stream_kernel_facts(&conn->stream, &facts))
        snprintf(bytes, sizeof bytes, ", %llu bytes received, %llu acknowledged",
                 (unsigned long long)facts.bytes_received, (unsigned long long)facts.bytes_acknowledged);
    UVHTTP_LOG_DEBUG("conn: %s %s: %s, %s%s", uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text), how,
                     uvhttp_error_name(status), description(conn, what), bytes);
}

static void end(uvhttp__conn_t *conn, int status, const char *how, void (*end_stream)(uvhttp__stream_t *stream)) {
    if (conn->flags & UVHTTP__CONN_CLOSED) return;
    if (uvhttp__log_enabled(UVHTTP_LOG_LEVEL_DEBUG)) log_end(conn, status, how);
    conn->flags |= UVHTTP__CONN_CLOSED;
    conn->close_status = (int16_t)status;
    stop_all_timers(conn);
    end_stream(&conn->stream);
}

void uvhttp__conn_close(uvhttp__conn_t *conn, int status) {
    end(conn, status, "closed", uvhttp__stream_close);
}

void uvhttp__conn_reset(uvhttp__conn_t *conn, int status) {
    end(conn, status, "reset by us", uvhttp__stream_reset);
}

void uvhttp__conn_finish_by(uvhttp__conn_t *conn, uint64_t deadline_ms) {
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return;
    uvhttp__output_begin_end(conn);
    if (uvhttp__stream_out_size(&conn->stream) == 0 && !(conn->flags & UVHTTP__CONN_CHECKED))
        conn->flags |= UVHTTP__CONN_IDLE_END;
    else
        uvhttp__output_check_start(conn);
    uvhttp__conn_timer_stop(conn);
    uvhttp__conn_timer_set(conn, deadline_ms);
    uvhttp__stream_shutdown(&conn->stream);
    uvhttp__stream_notify_sent(&conn->stream);
    uvhttp__stream_resume(&conn->stream); /* what was kept is thrown away now */
}

/* Without memory for a check there is at least an end. One that finishes already has a timer of its own. */
void uvhttp__conn_finish(uvhttp__conn_t *conn) {
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return;
    uint64_t ms = (uint64_t)conn->loop->tcp_server->options.finish.timeout * 1000;
    uvhttp__conn_finish_by(conn, uvhttp__conn_now_ms(conn) + ms);
    if (conn->flags & UVHTTP__CONN_CHECKED) uvhttp__conn_timer_stop(conn);
}

uvhttp__conn_phase_t uvhttp__conn_phase(const uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_FINISHING) return UVHTTP__PHASE_CLOSING;
    if (conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE)) return UVHTTP__PHASE_READING;
    if (conn->stream.flags & UVHTTP__STREAM_RESET_SENDING) return UVHTTP__PHASE_WRITING;
    const uvhttp__conn_ops_t *ops = uvhttp__conn_ops(conn);
    return ops->phase ? ops->phase(conn) : UVHTTP__PHASE_IDLE;
}

void uvhttp__conn_count_reset(uvhttp__conn_t *conn) {
    static const char *const when[] = {"while it was idle", "while a request was received",
                                       "while a response was made or sent", "while it was being closed"};
    if (!(conn->stream.flags & UVHTTP__STREAM_RESET)) return;
    uvhttp__counters_t *counters = &conn->loop->counters;
    uvhttp__conn_phase_t phase = uvhttp__conn_phase(conn);
    switch (phase) {
        case UVHTTP__PHASE_IDLE: uvhttp__counters_add(counters, resets_idle, 1); break;
        case UVHTTP__PHASE_READING: uvhttp__counters_add(counters, resets_reading, 1); break;
        case UVHTTP__PHASE_WRITING: uvhttp__counters_add(counters, resets_writing, 1); break;
        case UVHTTP__PHASE_CLOSING: uvhttp__counters_add(counters, resets_closing, 1); break;
    }
    UVHTTP_LOG_DEBUG("conn: %s reset by its client %s", uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text),
                     when[phase]);
}
