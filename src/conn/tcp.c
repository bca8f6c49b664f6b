/* Owns: the public TCP server (uvhttp/tcp.h), whose connections pass bytes directly to the application. May include:
 * io, base, obs. */
#include <uvhttp/tcp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/never.h"
#include "base/sized.h"
#include "conn/tcp_server.h"

/* How long the peer may take nothing of what is queued once the connection is to close. */
#define CLOSE_WRITE_SECONDS 30

struct uvhttp_tcp_server {
    uvhttp__tcp_server_t *tcp_server;
    uvhttp_tcp_config_t config;
    uvhttp_tcp_handlers_t handlers;
    void *user;
};

/* --- handles for other threads ---
 * A uvhttp_tcp_ref_t is the uvhttp__loop_ref_t of its connection. */

typedef struct ref_message {
    uvhttp__loop_call_t call;
    union {
        size_t size; /* of data */
        struct {
            void (*run)(uvhttp_tcp_t *tcp, void *arg); /* tcp NULL: the connection is gone */
            void *arg;
        };
    };
    char data[];
} ref_message_t;

static uvhttp__loop_ref_t *loop_ref(uvhttp_tcp_ref_t *ref) {
    return (uvhttp__loop_ref_t *)(void *)ref;
}

uvhttp_tcp_ref_t *uvhttp_tcp_ref(uvhttp_tcp_t *tcp) {
    if (tcp->flags & UVHTTP__CONN_CLOSED) return NULL;
    return (uvhttp_tcp_ref_t *)(void *)uvhttp__loop_ref_get(&tcp->ref, tcp->stream.loop, tcp);
}

void uvhttp_tcp_ref_retain(uvhttp_tcp_ref_t *ref) {
    uvhttp__loop_ref_retain(loop_ref(ref));
}

void uvhttp_tcp_ref_release(uvhttp_tcp_ref_t *ref) {
    uvhttp__loop_ref_release(loop_ref(ref));
}

static ref_message_t *message_of(uvhttp__loop_call_t *call) {
    return UVHTTP__CONTAINER_OF(call, ref_message_t, call);
}

static void run_message(uvhttp__loop_call_t *call, void *target) {
    ref_message_t *message = message_of(call);
    message->run(target, message->arg);
    uvhttp__free(message);
}

/* The sender has been promised that its bytes follow each other: without some of them there are no more. */
static void send_message(uvhttp__loop_call_t *call, void *target) {
    ref_message_t *message = message_of(call);
    uvhttp_tcp_t *tcp = target;
    int status = tcp ? uvhttp_tcp_send(tcp, message->data, message->size, NULL) : UVHTTP_OK;
    if (status == UVHTTP_E_LIMIT || status == UVHTTP_E_NOMEM) {
        uvhttp__counters_error(&tcp->loop->counters, status);
        uvhttp__conn_reset(tcp, status);
    }
    uvhttp__free(message);
}

static void close_by_message(uvhttp__loop_call_t *call, void *target) {
    if (target) uvhttp_tcp_close(target);
    uvhttp__free(message_of(call));
}

static int post_message(uvhttp_tcp_ref_t *ref, const ref_message_t *head, const void *data, size_t size) {
    ref_message_t *message = uvhttp__malloc(sizeof *message + size);
    if (!message) return UVHTTP_E_NOMEM;
    *message = *head;
    if (size > 0) memcpy(message->data, data, size);
    int status = uvhttp__loop_ref_call(loop_ref(ref), &message->call);
    if (status != UVHTTP_OK) uvhttp__free(message);
    return status;
}

int uvhttp_tcp_ref_send(uvhttp_tcp_ref_t *ref, const void *data, size_t size) {
    if (!data && size > 0) return UVHTTP_E_INVALID;
    return post_message(ref, &(ref_message_t){.call.run = send_message, .size = size}, data, size);
}

int uvhttp_tcp_ref_close(uvhttp_tcp_ref_t *ref) {
    return post_message(ref, &(ref_message_t){.call.run = close_by_message}, NULL, 0);
}

int uvhttp_tcp_ref_run(uvhttp_tcp_ref_t *ref, void (*run)(uvhttp_tcp_t *tcp, void *arg), void *arg) {
    if (!run) return UVHTTP_E_INVALID;
    return post_message(ref, &(ref_message_t){.call.run = run_message, .run = run, .arg = arg}, NULL, 0);
}

void uvhttp__conn_close_ref(uvhttp__conn_t *conn) {
    uvhttp__loop_ref_close(&conn->ref);
}

/* --- connections --- */

static uvhttp_tcp_server_t *server_of(const uvhttp__conn_t *conn) {
    return conn->loop->tcp_server->options.user;
}

/* Bytes went in or out: the idle time begins again. */
static void touch(uvhttp__conn_t *conn) {
    uint32_t idle = conn->loop->tcp_server->options.idle_timeout;
    if (!idle || (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED))) return;
    uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + (uint64_t)idle * 1000);
}

static void on_open(uvhttp__conn_t *conn) {
    uvhttp_tcp_server_t *server = server_of(conn);
    touch(conn);
    if (server->handlers.on_open) server->handlers.on_open(conn, server->user);
}

/* What was kept while it was paused can be many times a receive: the application gets it in the pieces that it is used
 * to, and may pause after each. */
static size_t on_data(uvhttp__conn_t *conn, const char *data, size_t size) {
    if (conn->flags & UVHTTP__CONN_PAUSED) return 0;
    uvhttp_tcp_server_t *server = server_of(conn);
    size_t used = 0, piece_max = server->config.read_buffer_size;
    touch(conn);
    while (used < size && !(conn->flags & UVHTTP__CONN_PAUSED)) {
        if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return size;
        size_t piece = size - used < piece_max ? size - used : piece_max;
        server->handlers.on_data(conn, data + used, piece, server->user);
        used += piece;
    }
    return used;
}

static void on_end(uvhttp__conn_t *conn) {
    uvhttp_tcp_server_t *server = server_of(conn);
    if (server->handlers.on_end)
        server->handlers.on_end(conn, server->user);
    else
        uvhttp_tcp_close(conn);
}

static void on_sent(uvhttp__conn_t *conn) {
    uvhttp_tcp_server_t *server = server_of(conn);
    if (!(conn->flags & UVHTTP__CONN_PRESSED)) return;
    conn->flags &= (uint16_t)~UVHTTP__CONN_PRESSED;
    touch(conn);
    if (server->handlers.on_drain) server->handlers.on_drain(conn, server->user);
}

/* A peer that takes what is queued for it is not idle. */
static void on_timer(uvhttp__conn_t *conn) {
    uvhttp_tcp_server_t *server = server_of(conn);
    uint32_t idle = conn->loop->tcp_server->options.idle_timeout;
    if (idle == 0) {
        if (server->handlers.on_timer) server->handlers.on_timer(conn, server->user);
        return;
    }
    uint64_t moved_ms = uvhttp__output_moved_ms(conn), idle_ms = (uint64_t)idle * 1000;
    if ((conn->flags & UVHTTP__CONN_CHECKED) && uvhttp__conn_now_ms(conn) - moved_ms < idle_ms) {
        uvhttp__conn_timer_set(conn, moved_ms + idle_ms);
        return;
    }
    uvhttp__counters_add(&conn->loop->counters, timeouts_keepalive, 1);
    uvhttp__conn_close(conn, UVHTTP_E_TIMEOUT);
}

static void on_drain(uvhttp__conn_t *conn) {
    uvhttp_tcp_server_t *server = server_of(conn);
    if (uvhttp__conn_drains_again(conn)) return;
    if (server->handlers.on_stop)
        server->handlers.on_stop(conn, server->user);
    else
        uvhttp_tcp_close(conn);
}

static void on_closed(uvhttp__conn_t *conn) {
    uvhttp_tcp_server_t *server = server_of(conn);
    if (server->handlers.on_close) server->handlers.on_close(conn, conn->close_status, server->user);
    uvhttp__conn_close_ref(conn);
}

static const uvhttp__conn_ops_t conn_ops = {.conn_size = sizeof(uvhttp__conn_t),
                                            .on_open = on_open,
                                            .on_data = on_data,
                                            .on_end = on_end,
                                            .on_sent = on_sent,
                                            .on_timer = on_timer,
                                            .on_drain = on_drain,
                                            .on_closed = on_closed};

/* After something was queued: what the sender has to know. */
static int queued_status(uvhttp__conn_t *conn, int status, uint64_t high_watermark) {
    if (status != UVHTTP_OK) return status;
    touch(conn);
    if (uvhttp__stream_out_size(&conn->stream) <= high_watermark) return UVHTTP_OK;
    conn->flags |= UVHTTP__CONN_PRESSED;
    uvhttp__stream_notify_sent(&conn->stream);
    return UVHTTP_E_AGAIN;
}

static int may_send(const uvhttp__conn_t *conn, size_t size, uint64_t queue_max) {
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return UVHTTP_E_CLOSED;
    uint64_t after = (uint64_t)uvhttp__stream_out_size(&conn->stream) + size;
    return after > queue_max ? UVHTTP_E_LIMIT : UVHTTP_OK;
}

int uvhttp__conn_send_parts(uvhttp__conn_t *conn, const uvhttp__channel_parts_t *parts,
                            uvhttp__channel_capacity_t capacity) {
    size_t size = parts->head_size + parts->size;
    int status = may_send(conn, size, capacity.queue_max);
    if (status != UVHTTP_OK) return status;
    char *copy = uvhttp__loop_iteration_alloc(conn->stream.loop, size);
    if (!copy) return UVHTTP_E_NOMEM;
    memcpy(copy, parts->head, parts->head_size);
    if (parts->size > 0) memcpy(copy + parts->head_size, parts->data, parts->size);
    return queued_status(conn, uvhttp__stream_send_iteration(&conn->stream, copy, size), capacity.high_watermark);
}

int uvhttp__conn_send_iteration(uvhttp__conn_t *conn, const char *data, size_t size,
                                uvhttp__channel_capacity_t capacity) {
    int status = may_send(conn, size, capacity.queue_max);
    if (status != UVHTTP_OK) return status;
    return queued_status(conn, uvhttp__stream_send_iteration(&conn->stream, data, size), capacity.high_watermark);
}

int uvhttp__conn_send_ref(uvhttp__conn_t *conn, const void *data, size_t size, void (*release)(void *arg), void *arg,
                          uvhttp__channel_capacity_t capacity) {
    int status = may_send(conn, size, capacity.queue_max);
    if (status == UVHTTP_OK)
        return queued_status(conn, uvhttp__stream_send_ref(&conn->stream, data, size, release, arg),
                             capacity.high_watermark);
    if (release) release(arg);
    return status;
}

int uvhttp_tcp_send(uvhttp_tcp_t *tcp, const void *data, size_t size, size_t *queued) {
    uvhttp__loop_look_at_clock(tcp->stream.loop);
    const uvhttp__tcp_server_options_t *options = &tcp->loop->tcp_server->options;
    int status = may_send(tcp, size, options->write_queue_max);
    if (status == UVHTTP_OK)
        status = queued_status(tcp, uvhttp__stream_send_copy(&tcp->stream, data, size), options->write_high_watermark);
    if (queued) *queued = uvhttp__stream_out_size(&tcp->stream);
    return status;
}

int uvhttp_tcp_send_ref(uvhttp_tcp_t *tcp, const void *data, size_t size, void (*release)(void *arg), void *arg) {
    uvhttp__loop_look_at_clock(tcp->stream.loop);
    const uvhttp__tcp_server_options_t *options = &tcp->loop->tcp_server->options;
    return uvhttp__conn_send_ref(tcp, data, size, release, arg,
                                 (uvhttp__channel_capacity_t){options->write_high_watermark, options->write_queue_max});
}

void uvhttp_tcp_pause(uvhttp_tcp_t *tcp) {
    tcp->flags |= UVHTTP__CONN_PAUSED;
}

void uvhttp_tcp_resume(uvhttp_tcp_t *tcp) {
    tcp->flags &= (uint16_t)~UVHTTP__CONN_PAUSED;
    uvhttp__stream_resume(&tcp->stream);
}

void uvhttp_tcp_shutdown(uvhttp_tcp_t *tcp) {
    uvhttp__stream_shutdown(&tcp->stream);
}

void uvhttp_tcp_close(uvhttp_tcp_t *tcp) {
    uvhttp__loop_look_at_clock(tcp->stream.loop);
    uvhttp__conn_finish(tcp);
}

void uvhttp_tcp_reset(uvhttp_tcp_t *tcp) {
    uvhttp__conn_reset(tcp, UVHTTP_OK);
}

int uvhttp_tcp_set_timer(uvhttp_tcp_t *tcp, uint64_t ms) {
    uvhttp__loop_look_at_clock(tcp->stream.loop);
    if (tcp->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return UVHTTP_E_CLOSED;
    if (tcp->loop->tcp_server->options.idle_timeout > 0) return UVHTTP_E_STATE;
    if (ms == 0)
        uvhttp__conn_timer_stop(tcp);
    else
        uvhttp__conn_timer_set(tcp, uvhttp__conn_now_ms(tcp) + ms);
    return UVHTTP_OK;
}

void uvhttp_tcp_set_data(uvhttp_tcp_t *tcp, void *data) {
    tcp->user = data;
}

void *uvhttp_tcp_data(const uvhttp_tcp_t *tcp) {
    return tcp->user;
}

int uvhttp_tcp_peer(uvhttp_tcp_t *tcp, char *text, size_t size) {
    char full[UVHTTP__ADDRESS_TEXT_MAX];
    if (!text || size == 0) return UVHTTP_E_INVALID;
    bool known = uvhttp__conn_peer(tcp, full);
    snprintf(text, size, "%s", full);
    return known ? UVHTTP_OK : UVHTTP_E_IO;
}

/* --- the server --- */

#define SECONDS_MAX (86400 * 7)

void uvhttp_tcp_config_init(uvhttp_tcp_config_t *config, size_t struct_size) {
    uvhttp_tcp_config_t defaults = {.struct_size = (uint32_t)struct_size,
                                    .max_connections = 10000,
                                    .backlog = 4096,
                                    .read_buffer_size = 16384,
                                    .read_buffer_count = 64,
                                    .idle_timeout = UVHTTP_NEVER,
                                    .drain_timeout = 30,
                                    .write_high_watermark = 1 << 20,
                                    .write_queue_max = 64 << 20,
                                    .min_send_rate = UVHTTP_NEVER,
                                    .rate_grace = 5,
                                    .install_signal_handlers = true,
                                    .raise_descriptor_limit = true,
                                    .descriptors_reserved = 512,
                                    .connections_per_address_max = UVHTTP_NEVER};
    memcpy(config, &defaults, struct_size < sizeof defaults ? struct_size : sizeof defaults);
}

/* 0 is an amount or the default (RANGE), or it is refused: what has no limit is UVHTTP_NEVER (OR_NEVER). */
#define RANGE(member, min, max)                                                                                        \
    { #member, config->member, (min), (max), false }
#define OR_NEVER(member, max)                                                                                          \
    { #member, config->member, 1, (max), true }

/* The program may have been compiled with an older, shorter structure: the rest gets its defaults. */
static int take_config(const uvhttp_tcp_config_t *given, uvhttp_tcp_config_t *config) {
    uvhttp_tcp_config_default(config);
    if (!given) return UVHTTP_OK;
    if (given->struct_size < sizeof given->struct_size || given->struct_size > sizeof *config) return UVHTTP_E_CONFIG;
    memcpy(config, given, given->struct_size);
    const struct {
        const char *name;
        uint64_t value, min, max;
        bool or_never;
    } ranges[] = {RANGE(io_threads, 0, 1024),
                  {"engine", (uint64_t)(unsigned)config->engine, 0, 2, false},
                  RANGE(max_connections, 1, 10000000),
                  OR_NEVER(connections_per_address_max, 10000000),
                  RANGE(descriptors_reserved, 0, 1000000),
                  RANGE(backlog, 1, 65535),
                  RANGE(read_buffer_size, 1024, 1 << 20),
                  RANGE(read_buffer_count, 8, 32768),
                  RANGE(write_high_watermark, 1, UINT32_MAX),
                  RANGE(write_queue_max, 1, UINT32_MAX),
                  OR_NEVER(idle_timeout, SECONDS_MAX),
                  RANGE(drain_timeout, 0, SECONDS_MAX),
                  OR_NEVER(min_send_rate, 1 << 30),
                  RANGE(rate_grace, 0, SECONDS_MAX)};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].value >= ranges[i].min && ranges[i].value <= ranges[i].max) continue;
        if (ranges[i].or_never && ranges[i].value == UVHTTP_NEVER) continue;
        UVHTTP_LOG_ERROR("tcp: config: %s is %llu, allowed are %llu..%llu%s%s", ranges[i].name,
                         (unsigned long long)ranges[i].value, (unsigned long long)ranges[i].min,
                         (unsigned long long)ranges[i].max, ranges[i].or_never ? ", or UVHTTP_NEVER" : "",
                         ranges[i].or_never && ranges[i].value == 0 ? ", which 0 meant before 0.2" : "");
        return UVHTTP_E_CONFIG;
    }
    if (config->read_buffer_count & (config->read_buffer_count - 1)) {
        UVHTTP_LOG_ERROR("tcp: config: read_buffer_count is %u, it must be a power of two", config->read_buffer_count);
        return UVHTTP_E_CONFIG;
    }
    return UVHTTP_OK;
}

static uvhttp__engine_kind_t choose_engine(int wanted) {
    uvhttp__engine_kind_t kind = (uvhttp__engine_kind_t)wanted;
    const char *text = getenv("UVHTTP_ENGINE");
    if (kind == UVHTTP__ENGINE_AUTO && text && *text && uvhttp__engine_parse(text, &kind) != UVHTTP_OK)
        UVHTTP_LOG_WARN("tcp: UVHTTP_ENGINE is \"%s\": not one of auto, uring, epoll; using auto", text);
    return kind;
}

uvhttp_tcp_server_t *uvhttp_tcp_server_new(const uvhttp_tcp_config_t *config, const uvhttp_tcp_handlers_t *handlers,
                                           void *user) {
    if (!handlers || !handlers->on_data) {
        UVHTTP_LOG_ERROR("tcp: uvhttp_tcp_server_new: handlers.on_data is missing");
        return NULL;
    }
    if (!UVHTTP__RESERVED_UNUSED(handlers)) {
        UVHTTP_LOG_ERROR("tcp: uvhttp_tcp_server_new: handlers: " UVHTTP__SIZED_NEWER);
        return NULL;
    }
    uvhttp_tcp_server_t *server = uvhttp__calloc(1, sizeof *server);
    if (!server) return NULL;
    server->handlers = *handlers;
    server->user = user;
    uvhttp__tcp_server_options_t options;
    if (take_config(config, &server->config) != UVHTTP_OK) goto fail;
    options = (uvhttp__tcp_server_options_t){
        .engine = choose_engine(server->config.engine),
        .io_threads = server->config.io_threads,
        .max_connections = server->config.max_connections,
        .connections_per_address_max = uvhttp__or_none(server->config.connections_per_address_max),
        .descriptors_reserved = server->config.descriptors_reserved,
        .raise_descriptor_limit = server->config.raise_descriptor_limit,
        .backlog = server->config.backlog,
        .read_buffer_size = server->config.read_buffer_size,
        .read_buffer_count = server->config.read_buffer_count,
        .drain_timeout = server->config.drain_timeout,
        .idle_timeout = uvhttp__or_none(server->config.idle_timeout),
        .output = {uvhttp__or_none(server->config.min_send_rate), server->config.rate_grace, 0},
        .finish = {uvhttp__or_none(server->config.min_send_rate), server->config.rate_grace, CLOSE_WRITE_SECONDS},
        .write_high_watermark = server->config.write_high_watermark,
        .write_queue_max = server->config.write_queue_max,
        .install_signal_handlers = server->config.install_signal_handlers,
        .name = "tcp",
        .ops = &conn_ops,
        .user = server};
    if (uvhttp__tcp_server_new(&options, &server->tcp_server) == UVHTTP_OK) return server;
fail:
    uvhttp__free(server);
    return NULL;
}

static int logged(const uvhttp_tcp_server_t *server, int status) {
    if (status != UVHTTP_OK) UVHTTP_LOG_ERROR("tcp: %s", server->tcp_server->error);
    return status;
}

/* For errors without further details than their name. */
static int refuse(uvhttp_tcp_server_t *server, int status, const char *text) {
    snprintf(server->tcp_server->error, sizeof server->tcp_server->error, "%s", text);
    return logged(server, status);
}

int uvhttp_tcp_server_listen(uvhttp_tcp_server_t *server, const char *address, uint16_t *port) {
    return uvhttp__tcp_server_listen_filter(server, address, NULL, port);
}

int uvhttp__tcp_server_listen_filter(uvhttp_tcp_server_t *server, const char *address,
                                     const uvhttp__conn_filter_t *filter, uint16_t *port) {
    if (!server) return UVHTTP_E_INVALID;
    if (!address) return refuse(server, UVHTTP_E_INVALID, "listen: address is NULL");
    int status = uvhttp__tcp_server_listen(server->tcp_server, address, filter, port);
    if (status == UVHTTP_E_STATE) return refuse(server, status, "listen: not after the server has started to run");
    if (status == UVHTTP_OK && server->tcp_server->uv) uvhttp__tcp_server_enter_ready(server->tcp_server);
    return logged(server, status);
}

int uvhttp_tcp_server_run(uvhttp_tcp_server_t *server, const char *address) {
    if (!server) return UVHTTP_E_INVALID;
    if (server->tcp_server->uv) return refuse(server, UVHTTP_E_STATE, "run: the server is attached to a loop");
    int status = address ? uvhttp_tcp_server_listen(server, address, NULL) : UVHTTP_OK;
    if (status != UVHTTP_OK) return status;
    if (server->tcp_server->endpoint_count == 0)
        return refuse(server, UVHTTP_E_STATE, "run: no address: pass one, or call uvhttp_tcp_server_listen before");
    status = uvhttp__tcp_server_run(server->tcp_server);
    return status == UVHTTP_E_STATE ? refuse(server, status, "run: a server runs once") : logged(server, status);
}

int uvhttp_tcp_server_attach(uvhttp_tcp_server_t *server, struct uv_loop_s *loop) {
    if (!server) return UVHTTP_E_INVALID;
    if (!loop) return refuse(server, UVHTTP_E_INVALID, "attach: loop is NULL");
    int status = uvhttp__tcp_server_attach(server->tcp_server, loop);
    return status == UVHTTP_E_STATE ? refuse(server, status, "attach: only once, and before listen and run")
                                    : logged(server, status);
}

int uvhttp_tcp_server_stop(uvhttp_tcp_server_t *server) {
    if (!server) return UVHTTP_E_INVALID;
    uvhttp__tcp_server_stop(server->tcp_server);
    return UVHTTP_OK;
}

void uvhttp_tcp_server_on_stopped(uvhttp_tcp_server_t *server, void (*on_stopped)(void *user), void *user) {
    if (!server) return;
    server->tcp_server->on_stopped = on_stopped;
    server->tcp_server->on_stopped_arg = user;
}

void uvhttp_tcp_server_on_ready(uvhttp_tcp_server_t *server, void (*on_ready)(void *user), void *user) {
    if (!server) return;
    server->tcp_server->on_ready = on_ready;
    server->tcp_server->on_ready_arg = user;
}

void uvhttp_tcp_server_free(uvhttp_tcp_server_t *server) {
    if (!server) return;
    uvhttp__tcp_server_free(server->tcp_server);
    uvhttp__free(server);
}

const char *uvhttp_tcp_server_error_text(const uvhttp_tcp_server_t *server) {
    return server ? server->tcp_server->error : "there is no server: uvhttp_tcp_server_new has said why in the log";
}

const char *uvhttp_tcp_server_engine(const uvhttp_tcp_server_t *server, const char **reason) {
    const char *why = NULL, *engine = server ? uvhttp__tcp_server_engine(server->tcp_server, &why) : NULL;
    if (reason) *reason = why;
    return engine;
}

void uvhttp_tcp_server_metrics_sized(const uvhttp_tcp_server_t *server, uvhttp_tcp_metrics_t *metrics,
                                     size_t metrics_size) {
    uvhttp__counter_sums_t sums = {0};
    if (!metrics) return;
    if (server) uvhttp__tcp_server_counters(server->tcp_server, &sums);
    const uvhttp_tcp_metrics_t full = {.connections_accepted = UVHTTP__COUNTER(&sums, connections_accepted),
                                       .connections_closed = UVHTTP__COUNTER(&sums, connections_closed),
                                       .bytes_received = UVHTTP__COUNTER(&sums, bytes_received),
                                       .bytes_sent = UVHTTP__COUNTER(&sums, bytes_sent)};
    uvhttp__sized_write(metrics, metrics_size, &full, sizeof full);
}
