/* Owns: the public server: making it, running, stopping. */
#include "server/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/never.h"
#include "exchange/coroutine.h"
#include "exchange/exec.h"
#include "obs/log.h"
#include "obs/log_writer.h"
#include "server/admin.h"
#include "server/http_loop.h"
#include "server/server_config.h"
#include "server/static.h"

/* --- making --- */

/* Without a write_timeout: a connection that ends ends some time. */
#define FINISH_SECONDS 3600

static void on_tcp_server_ready(void *arg);

static void on_tcp_server_stopped(void *arg) {
    uvhttp_server_t *server = arg;
    if (server->on_stopped) server->on_stopped(server, server->on_stopped_user);
}

static int make_tcp_server(uvhttp_server_t *server) {
    const uvhttp_server_config_t *config = &server->service.config;
    const uint32_t send_rate = uvhttp__or_none(config->min_send_rate);
    uvhttp__tcp_server_options_t options = {
        .engine = (uvhttp__engine_kind_t)config->engine,
        .io_threads = config->io_threads,
        .max_connections = config->max_connections,
        .connections_per_address_max = uvhttp__or_none(config->connections_per_address_max),
        .descriptors_reserved = config->descriptors_reserved,
        .raise_descriptor_limit = config->raise_descriptor_limit,
        .backlog = config->backlog,
        .congestion_control = config->tcp_congestion_control,
        .read_buffer_size = config->read_buffer_size,
        .read_buffer_count = config->read_buffer_count,
        .drain_timeout = config->drain_timeout,
        .drain_idle_ms = config->drain_idle_ms,
        .drain_grace_ms = config->drain_grace_ms,
        .proxy_timeout = uvhttp__or_none(config->connection_timeout),
        .output = {send_rate, config->rate_grace, uvhttp__or_none(config->write_timeout)},
        .finish = {send_rate, config->rate_grace,
                   config->write_timeout == UVHTTP_NEVER ? FINISH_SECONDS : config->write_timeout},
        .write_high_watermark = config->write_buffer_size,
        .write_queue_max = config->write_queue_max,
        .install_signal_handlers = config->install_signal_handlers,
        .keeps_ages = *config->admin != '\0',
        .speaks_h2 = config->http2,
        .name = "http",
        .ops = &uvhttp__http_conn_ops,
        .user = server};
    int status = uvhttp__tcp_server_new(&options, &server->tcp_server);
    if (status != UVHTTP_OK) return status;
    server->tcp_server->on_stopped = on_tcp_server_stopped;
    server->tcp_server->on_stopped_arg = server;
    server->tcp_server->on_ready = on_tcp_server_ready;
    server->tcp_server->on_ready_arg = server;
    return UVHTTP_OK;
}

static int make_pool(uvhttp_server_t *server) {
    const uvhttp_server_config_t *config = &server->service.config;
    server->service.work =
        uvhttp__work_new(&(uvhttp__work_options_t){.threads_min = config->worker_threads_min,
                                                   .threads_max = config->worker_threads,
                                                   .backlog_max = config->max_backlog,
                                                   .idle_ms = uvhttp__or_none(config->worker_idle_timeout) * 1000,
                                                   .warn_ms = uvhttp__or_none(config->worker_warn_ms),
                                                   .queue_time = true});
    return server->service.work ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

/* Outermost, and before any middleware of the application. */
static int make_tracer(uvhttp_server_t *server) {
    const uvhttp_server_config_t *config = &server->service.config;
    if (!uvhttp__tracer_wanted(config)) return UVHTTP_OK;
    server->service.traced = true;
    int status = uvhttp__tracer_new(config, &server->tracer);
    if (status != UVHTTP_OK) {
        UVHTTP_LOG_ERROR("http: configuration: trace_endpoint is \"%.300s\": %s", config->trace_endpoint,
                         uvhttp_error_message(status));
        return status;
    }
    return uvhttp__group_use(uvhttp__router_root(server->service.router), uvhttp__tracer_middleware(server->tracer));
}

static void set_limits(uvhttp__service_t *service) {
    const uvhttp_server_config_t *config = &service->config;
    service->head_limits = (uvhttp__head_limits_t){.line_size_max = config->request_line_max,
                                                   .headers_size_max = config->headers_size_max,
                                                   .header_count_max = config->header_count_max};
    service->times.connection_timeout = uvhttp__or_none(config->connection_timeout);
    service->times.keepalive_timeout = uvhttp__or_none(config->keepalive_timeout);
    service->times.min_receive_rate = uvhttp__or_none(config->min_receive_rate);
}

uvhttp_server_t *uvhttp_server_new(const uvhttp_server_config_t *config) {
    char message[256];
    uvhttp_server_t *server = uvhttp__calloc(1, sizeof *server);
    if (!server) return NULL;
    server->created_ns = uvhttp__clock_ns();
    if (uvhttp__server_copy_config(config, &server->service.config, message, sizeof message) != UVHTTP_OK) {
        UVHTTP_LOG_ERROR("http: configuration: %s", message);
        goto fail;
    }
    uvhttp__server_start_log(&server->service.config);
    set_limits(&server->service);
    uvhttp__coroutine_service_init(&server->service);
    uvhttp__reload_init(&server->reload);
    server->service.router = uvhttp__router_new();
    if (!server->service.router || make_pool(server) != UVHTTP_OK || make_tcp_server(server) != UVHTTP_OK) goto fail;
    uvhttp__router_set_owner(server->service.router, server);
    if (make_tracer(server) != UVHTTP_OK) goto fail;
    return server;
fail:
    uvhttp__tcp_server_free(server->tcp_server);
    uvhttp__work_free(server->service.work);
    uvhttp__router_free(server->service.router);
    uvhttp__free(server);
    return NULL;
}

/* Until when jobs that no loop waits for are waited for. */
static uint64_t drain_deadline_ns(const uvhttp_server_t *server) {
    uint64_t start_ns = server->drain_ns ? server->drain_ns : uvhttp__clock_ns();
    return start_ns + server->service.config.drain_timeout * UINT64_C(1000000000);
}

void uvhttp_server_free(uvhttp_server_t *server) {
    if (!server) return;
    uvhttp__process_free(server->process); /* an upgrade that has begun looks at the admin listener */
    uvhttp__admin_free(server->admin);     /* it looks at the server */
    uvhttp__work_stop(server->service.work, drain_deadline_ns(server));
    /* Messages of the pools' threads may be on their way still: the loops go first. */
    uvhttp__server_loop_t *first = server->tcp_server->loops[0].user;
    if (first) {
        first->sites = server->sites;
        first->work = server->service.work;
    } else {
        uvhttp__static_free(server->sites);
        uvhttp__work_free(server->service.work);
    }
    uvhttp__tcp_server_free(server->tcp_server);
    uvhttp__router_free(server->service.router);
    uvhttp__free(server->service.trust.ranges);
    if (server->ws_registry) server->ws_registry_release(server->ws_registry);
    uvhttp__reload_deinit(&server->reload);
    uvhttp__free(server);
}

/* --- errors --- */

const char *uvhttp_server_error_text(const uvhttp_server_t *server) {
    if (!server) return "there is no server: uvhttp_server_new has said why in the log";
    if (server->error[0]) return server->error;
    const char *text = NULL;
    return uvhttp__router_error(server->service.router, &text) && text ? text : "";
}

int uvhttp_server_error(const uvhttp_server_t *server) {
    if (!server) return UVHTTP_E_INVALID;
    return server->error[0] ? server->error_code : uvhttp__router_error(server->service.router, NULL);
}

/* --- life --- */

static const uvhttp__admin_life_t own_life = {.new = uvhttp_server_new,
                                              .listen = uvhttp_server_listen,
                                              .run = uvhttp_server_run,
                                              .stop = uvhttp_server_stop,
                                              .free = uvhttp_server_free};

static int freeze(uvhttp_server_t *server) {
    if (server->frozen) return UVHTTP_OK;
    if (server->setup_status != UVHTTP_OK) return server->setup_status;
    int status = uvhttp__router_freeze(server->service.router);
    if (status == UVHTTP_OK) status = uvhttp__router_each_route(server->service.router, uvhttp__exec_install);
    if (status != UVHTTP_OK) {
        const char *text = NULL;
        (void)uvhttp__router_error(server->service.router, &text);
        return uvhttp__server_remember(server, status, "routes: %s",
                                       text && *text ? text : uvhttp_error_message(status));
    }
    status = uvhttp__server_try_spool(server);
    if (status == UVHTTP_OK) status = uvhttp__admin_listen(server, &own_life);
    if (status != UVHTTP_OK) return status;
    server->frozen = true;
    return UVHTTP_OK;
}

int uvhttp_server_listen(uvhttp_server_t *server, const char *address, uint16_t *port) {
    return server ? uvhttp__server_listen(server, address, NULL, port) : UVHTTP_E_INVALID;
}

/* Of an attached server the admin listener comes first: a listen that fails leaves nothing open in the loop. */
int uvhttp__server_listen(uvhttp_server_t *server, const char *address, const uvhttp__conn_filter_t *filter,
                          uint16_t *port) {
    if (!address) return uvhttp__server_remember(server, UVHTTP_E_INVALID, "listen: address is NULL");
    int status = freeze(server);
    if (status != UVHTTP_OK) return status;
    if (server->ran) return uvhttp__server_remember(server, UVHTTP_E_STATE, "listen: not after the server has run");
    bool attached = server->tcp_server->uv != NULL;
    if (attached) status = uvhttp__admin_start(server->admin);
    if (status != UVHTTP_OK) return status;
    status = uvhttp__tcp_server_listen(server->tcp_server, address, filter, port);
    if (status == UVHTTP_E_STATE)
        return uvhttp__server_remember(server, status, "listen: not after the server has started to run");
    if (status != UVHTTP_OK) return uvhttp__server_remember(server, status, "%s", server->tcp_server->error);
    if (attached) uvhttp__tcp_server_enter_ready(server->tcp_server);
    return UVHTTP_OK;
}

/* Otherwise start and end have a line of their own, unless `quiet`. */
static bool logs_info(void) {
    return uvhttp__log_enabled(UVHTTP_LOG_LEVEL_INFO);
}

/* Until the line of the end is written: no thread of a server waits for standard error. */
static void keep_log_open(uvhttp_server_t *server) {
    if (!server->log_opened) uvhttp__log_writer_open();
    server->log_opened = true;
}

static void announce(uvhttp_server_t *server) {
    char addresses[512];
    uvhttp__tcp_server_addresses(server->tcp_server, addresses, sizeof addresses);
    const char *reason, *engine = uvhttp_server_engine(server, &reason);
    const char *admin = uvhttp__admin_address(server->admin), *admin_at = *admin ? ", admin on " : "";
    const uint32_t count = server->tcp_server->loop_count;
    const char *plural = count == 1 ? "" : "s";
    if (!uvhttp__log_writer_accepts()) keep_log_open(server); /* otherwise this line needs no thread */
    UVHTTP_LOG_INFO("http: started: uvhttp %s, %u loop%s on %s (%s), listening on %s%s%s", uvhttp_version(), count,
                    plural, engine, reason, addresses, admin_at, admin);
    if (!server->service.config.quiet && !logs_info())
        uvhttp__log_notice("uvhttp %s: %u loop%s on %s (%s), listening on %s%s%s", uvhttp_version(), count, plural,
                           engine, reason, addresses, admin_at, admin);
    keep_log_open(server);
}

/* The program comes last: everybody else sees that the server is ready by then. */
static void on_tcp_server_ready(void *arg) {
    uvhttp_server_t *server = arg;
    if (!server->tcp_server->uv && !server->nested) announce(server);
    if (server->process) uvhttp__process_ready(server->process);
    if (uvhttp_server_ready(server) && server->on_ready) server->on_ready(server, server->on_ready_user);
}

static void notify_end(const uvhttp_server_t *server) {
    uvhttp__counter_sums_t sums;
    if (server->nested) return;
    uvhttp__tcp_server_counters(server->tcp_server, &sums);
    unsigned long long cut = UVHTTP__COUNTER(&sums, drain_cut_off);
    UVHTTP_LOG_INFO("http: stopped: %llu connections and %llu requests since the start, %llu connections cut off while "
                    "being served",
                    (unsigned long long)UVHTTP__COUNTER(&sums, connections_accepted),
                    (unsigned long long)UVHTTP__COUNTER(&sums, requests), cut);
    if (server->service.config.quiet || logs_info()) return;
    if (cut > 0)
        uvhttp__log_notice("uvhttp: stopped; %llu connections were cut off while being served", cut);
    else
        uvhttp__log_notice("uvhttp: stopped, drained");
}

int uvhttp_server_run(uvhttp_server_t *server, const char *address) {
    if (!server) return UVHTTP_E_INVALID;
    if (server->ran)
        return uvhttp__server_remember(server, UVHTTP_E_STATE, "run: a server runs once; make another one");
    if (server->tcp_server->uv)
        return uvhttp__server_remember(server, UVHTTP_E_STATE, "run: the server is attached to a loop");
    int status = address ? uvhttp_server_listen(server, address, NULL) : freeze(server);
    if (status != UVHTTP_OK) return status;
    if (server->tcp_server->endpoint_count == 0)
        return uvhttp__server_remember(server, UVHTTP_E_STATE,
                                       "run: no address: pass one, or call uvhttp_server_listen before");
    server->ran = true;
    status = server->process ? uvhttp__process_before_run(server->process) : UVHTTP_OK;
    if (status == UVHTTP_OK) status = uvhttp__admin_start(server->admin);
    if (status != UVHTTP_OK) {
        uvhttp__tcp_server_abandon(server->tcp_server);
        uvhttp__admin_stop(server->admin);
        return status;
    }
    status = uvhttp__tcp_server_run(server->tcp_server);
    keep_log_open(server); /* of a server that was never ready, too */
    uvhttp__reload_wait(&server->reload);
    uvhttp__work_stop(server->service.work, drain_deadline_ns(server));
    uvhttp__admin_stop(server->admin);
    if (status == UVHTTP_OK && !server->tcp_server->dry_run)
        notify_end(server);
    else if (status != UVHTTP_OK)
        (void)uvhttp__server_remember(server, status, "run: %s", server->tcp_server->error);
    uvhttp__log_server_ended(UVHTTP__LOG_CLOSE_MS);
    return status;
}

int uvhttp_server_dry_run(uvhttp_server_t *server) {
    if (!server) return UVHTTP_E_INVALID;
    if (server->process || server->frozen || server->tcp_server->uv)
        return uvhttp__server_remember(server, UVHTTP_E_STATE,
                                       "dry_run: before service_init and listen, and not for a server that is attached "
                                       "to a loop");
    server->tcp_server->dry_run = true;
    return UVHTTP_OK;
}

int uvhttp_server_attach(uvhttp_server_t *server, struct uv_loop_s *loop) {
    if (!server) return UVHTTP_E_INVALID;
    if (!loop) return uvhttp__server_remember(server, UVHTTP_E_INVALID, "attach: loop is NULL");
    if (server->tcp_server->dry_run) return uvhttp__server_remember(server, UVHTTP_E_STATE, "attach: not in a dry run");
    int status = uvhttp__tcp_server_attach(server->tcp_server, loop);
    if (status != UVHTTP_OK) return uvhttp__server_remember(server, status, "attach: %s", uvhttp_error_message(status));
    const char *reason, *engine = uvhttp_server_engine(server, &reason);
    UVHTTP_LOG_INFO("http: attached to a loop of the application: uvhttp %s on %s (%s)", uvhttp_version(), engine,
                    reason);
    return UVHTTP_OK;
}

int uvhttp_server_stop(uvhttp_server_t *server) {
    if (!server) return UVHTTP_E_INVALID;
    uvhttp__tcp_server_stop(server->tcp_server);
    return UVHTTP_OK;
}

static_assert((int)UVHTTP_SERVER_STARTING == UVHTTP__STATE_STARTING &&
                  (int)UVHTTP_SERVER_READY == UVHTTP__STATE_READY && (int)UVHTTP_SERVER_GRACE == UVHTTP__STATE_GRACE &&
                  (int)UVHTTP_SERVER_DRAINING == UVHTTP__STATE_DRAINING &&
                  (int)UVHTTP_SERVER_STOPPED == UVHTTP__STATE_STOPPED,
              "tcp_server.h has the same numbers");

uvhttp_server_state_t uvhttp_server_state(const uvhttp_server_t *server) {
    return server ? (uvhttp_server_state_t)atomic_load(&server->tcp_server->state) : UVHTTP_SERVER_STOPPED;
}

bool uvhttp_server_ready(const uvhttp_server_t *server) {
    return uvhttp_server_state(server) == UVHTTP_SERVER_READY;
}

int uvhttp_server_on_ready(uvhttp_server_t *server, uvhttp_server_cb on_ready, void *user) {
    if (!server) return UVHTTP_E_INVALID;
    if (server->ran || uvhttp_server_state(server) != UVHTTP_SERVER_STARTING) return UVHTTP_E_STATE;
    server->on_ready = on_ready;
    server->on_ready_user = user;
    return UVHTTP_OK;
}

void uvhttp_server_on_stopped(uvhttp_server_t *server, uvhttp_server_cb on_stopped, void *user) {
    if (!server) return;
    server->on_stopped = on_stopped;
    server->on_stopped_user = user;
}

const char *uvhttp_server_engine(const uvhttp_server_t *server, const char **reason) {
    const char *why = NULL, *engine = server ? uvhttp__tcp_server_engine(server->tcp_server, &why) : NULL;
    if (reason) *reason = why;
    return engine;
}

struct uv_loop_s *uvhttp_loop_uv(void) {
    uvhttp__loop_t *loop = uvhttp__tcp_server_current_loop();
    return loop ? loop->uv : NULL;
}
