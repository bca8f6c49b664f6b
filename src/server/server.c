/* Owns: the public server: making it, routes, running, stopping. */
#include "server/server.h"
#include "base/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exchange/coroutine.h"
#include "exchange/exec.h"
#include "obs/log.h"
#include "obs/log_writer.h"
#include "server/http_loop.h"
#include "server/server_config.h"
#include "server/static.h"

/* --- making --- */

static void on_tcp_server_stopped(void *arg) {
    uvhttp_server_t *server = arg;
    if (server->on_stopped) server->on_stopped(server, server->on_stopped_user);
}

/* Without a write_timeout: a connection that ends ends some time. */
#define FINISH_SECONDS 3600

static int make_tcp_server(uvhttp_server_t *server) {
    const uvhttp_server_config_t *config = &server->service.config;
    uvhttp__tcp_server_options_t options = {
        .engine = (uvhttp__engine_kind_t)config->engine,
        .io_threads = config->io_threads,
        .max_connections = config->max_connections,
        .connections_per_address_max = config->connections_per_address_max,
        .descriptors_reserved = config->descriptors_reserved,
        .raise_descriptor_limit = config->raise_descriptor_limit,
        .backlog = config->backlog,
        .congestion_control = config->tcp_congestion_control,
        .read_buffer_size = config->read_buffer_size,
        .read_buffer_count = config->read_buffer_count,
        .drain_timeout = config->drain_timeout,
        .drain_idle_ms = config->drain_idle_ms,
        .proxy_timeout = config->connection_timeout,
        .output = {config->min_send_rate, config->rate_grace, config->write_timeout},
        .finish = {config->min_send_rate, config->rate_grace,
                   config->write_timeout ? config->write_timeout : FINISH_SECONDS},
        .write_high_watermark = config->write_buffer_size,
        .write_queue_max = config->write_queue_max,
        .install_signal_handlers = config->install_signal_handlers,
        .speaks_h2 = config->http2,
        .name = "http",
        .ops = &uvhttp__http_conn_ops,
        .user = server};
    int status = uvhttp__tcp_server_new(&options, &server->tcp_server);
    if (status != UVHTTP_OK) return status;
    server->tcp_server->on_stopped = on_tcp_server_stopped;
    server->tcp_server->on_stopped_arg = server;
    return UVHTTP_OK;
}

static int make_pool(uvhttp_server_t *server) {
    const uvhttp_server_config_t *config = &server->service.config;
    server->service.work = uvhttp__work_new(&(uvhttp__work_options_t){.threads_min = config->worker_threads_min,
                                                                      .threads_max = config->worker_threads,
                                                                      .backlog_max = config->max_backlog,
                                                                      .idle_ms = config->worker_idle_timeout * 1000,
                                                                      .warn_ms = config->worker_warn_ms,
                                                                      .queue_time = true});
    return server->service.work ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

uvhttp_server_t *uvhttp_server_new(const uvhttp_server_config_t *config) {
    char message[256];
    uvhttp_server_t *server = uvhttp__calloc(1, sizeof *server);
    if (!server) return NULL;
    if (uvhttp__server_copy_config(config, &server->service.config, message, sizeof message) != UVHTTP_OK) {
        UVHTTP_LOG_ERROR("http: configuration: %s", message);
        goto fail;
    }
    uvhttp__server_apply_log(&server->service.config);
    server->service.head_limits = (uvhttp__head_limits_t){.line_size_max = server->service.config.request_line_max,
                                                          .headers_size_max = server->service.config.headers_size_max,
                                                          .header_count_max = server->service.config.header_count_max};
    uvhttp__coroutine_service_init(&server->service);
    uvhttp__reload_init(&server->reload);
    server->service.router = uvhttp__router_new();
    if (!server->service.router || make_pool(server) != UVHTTP_OK || make_tcp_server(server) != UVHTTP_OK) goto fail;
    uvhttp__router_set_owner(server->service.router, server);
    return server;
fail:
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

/* --- routes --- NULL for a server: uvhttp_server_new has failed, and the program, which need not look before listen or
 * run, hears of it there. */

static uvhttp_group_t *root_of(uvhttp_server_t *server) {
    return server ? uvhttp__router_root(server->service.router) : NULL;
}

static uvhttp_route_t *add_route(uvhttp_group_t *group, uvhttp_method_t method, const char *pattern,
                                 uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec) {
    uvhttp_route_t *route;
    uint8_t kept = (unsigned)exec < UVHTTP__EXEC_FIXED ? (uint8_t)exec : UVHTTP__EXEC_FIXED - 1;
    if (uvhttp__group_add(group, method, pattern, handler, user, kept, &route) != UVHTTP_OK) return NULL;
    return uvhttp__exec_check(route) == UVHTTP_OK ? route : NULL;
}

uvhttp_route_t *uvhttp_route(uvhttp_server_t *server, uvhttp_method_t method, const char *pattern,
                             uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec) {
    return add_route(root_of(server), method, pattern, handler, user, exec);
}

uvhttp_route_t *uvhttp_group_route(uvhttp_group_t *group, uvhttp_method_t method, const char *pattern,
                                   uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec) {
    return add_route(group, method, pattern, handler, user, exec);
}

#define ROUTE_FUNCTIONS(name, method)                                                                                  \
    uvhttp_route_t *uvhttp_##name(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,             \
                                  void *user) {                                                                        \
        return add_route(root_of(server), method, pattern, handler, user, UVHTTP_EXEC_DEFAULT);                        \
    }                                                                                                                  \
    uvhttp_route_t *uvhttp_group_##name(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,         \
                                        void *user) {                                                                  \
        return add_route(group, method, pattern, handler, user, UVHTTP_EXEC_DEFAULT);                                  \
    }
ROUTE_FUNCTIONS(get, UVHTTP_GET)
ROUTE_FUNCTIONS(head, UVHTTP_HEAD)
ROUTE_FUNCTIONS(post, UVHTTP_POST)
ROUTE_FUNCTIONS(put, UVHTTP_PUT)
ROUTE_FUNCTIONS(delete, UVHTTP_DELETE)
ROUTE_FUNCTIONS(patch, UVHTTP_PATCH)
ROUTE_FUNCTIONS(options, UVHTTP_OPTIONS)
ROUTE_FUNCTIONS(any, UVHTTP_ANY)

uvhttp_group_t *uvhttp_group(uvhttp_server_t *server, const char *prefix) {
    return uvhttp__group_new(root_of(server), prefix);
}

uvhttp_group_t *uvhttp_group_group(uvhttp_group_t *group, const char *prefix) {
    return uvhttp__group_new(group, prefix);
}

/* What the program gave, in a struct of the library's own size. */
static int read_options(uvhttp__router_t *router, const uvhttp_route_options_t *given, size_t given_size,
                        uvhttp_route_options_t *full) {
    if (uvhttp__sized_read(full, sizeof *full, given, given_size)) return UVHTTP_OK;
    return uvhttp__router_fail(router, UVHTTP_E_UNSUPPORTED, "route options: " UVHTTP__SIZED_NEWER);
}

int uvhttp_group_defaults_sized(uvhttp_group_t *group, const uvhttp_route_options_t *defaults, size_t defaults_size) {
    uvhttp_route_options_t full;
    if (!group) return UVHTTP_E_INVALID;
    int status = read_options(uvhttp__group_router(group), defaults, defaults_size, &full);
    return status == UVHTTP_OK ? uvhttp__group_set_defaults(group, &full) : status;
}

int uvhttp_use(uvhttp_server_t *server, uvhttp_middleware_t middleware) {
    return uvhttp__group_use(root_of(server), middleware);
}

int uvhttp_group_use(uvhttp_group_t *group, uvhttp_middleware_t middleware) {
    return uvhttp__group_use(group, middleware);
}

int uvhttp_route_use(uvhttp_route_t *route, uvhttp_middleware_t middleware) {
    return uvhttp__route_use(route, middleware);
}

int uvhttp_route_options_sized(uvhttp_route_t *route, const uvhttp_route_options_t *options, size_t options_size) {
    uvhttp_route_options_t full;
    if (!route) return UVHTTP_E_INVALID;
    int status = read_options(uvhttp__route_router(route), options, options_size, &full);
    if (status == UVHTTP_OK) status = uvhttp__route_set_options(route, &full);
    return status == UVHTTP_OK ? uvhttp__exec_check(route) : status;
}

int uvhttp_server_on_error(uvhttp_server_t *server, uvhttp_error_cb on_error, void *user) {
    if (!server) return UVHTTP_E_INVALID;
    if (server->frozen)
        return uvhttp__server_remember(server, UVHTTP_E_STATE, "on_error: not after the server has started to listen");
    server->service.on_error = on_error;
    server->service.on_error_user = user;
    return UVHTTP_OK;
}

/* --- life --- */

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
    server->frozen = true;
    return UVHTTP_OK;
}

int uvhttp_server_listen(uvhttp_server_t *server, const char *address, uint16_t *port) {
    return server && address ? uvhttp__server_listen(server, address, NULL, port) : UVHTTP_E_INVALID;
}

int uvhttp__server_listen(uvhttp_server_t *server, const char *address, const uvhttp__conn_filter_t *filter,
                          uint16_t *port) {
    int status = freeze(server);
    if (status != UVHTTP_OK) return status;
    if (server->ran) return uvhttp__server_remember(server, UVHTTP_E_STATE, "listen: not after the server has run");
    status = uvhttp__tcp_server_listen(server->tcp_server, address, filter, port);
    if (status == UVHTTP_E_STATE)
        return uvhttp__server_remember(server, status, "listen: not after the server has started to run");
    return status == UVHTTP_OK ? status : uvhttp__server_remember(server, status, "%s", server->tcp_server->error);
}

static void publish_engine(uvhttp_server_t *server) {
    const uvhttp__loop_t *loop = server->tcp_server->loops[0].io;
    snprintf(server->engine_reason, sizeof server->engine_reason, "%s", loop->reason);
    atomic_store_explicit(&server->engine, uvhttp__loop_engine_name(loop), memory_order_release);
}

/* Otherwise start and end have a line of their own, unless `quiet`. */
static bool logs_info(void) {
    return uvhttp__log_enabled(UVHTTP_LOG_LEVEL_INFO);
}

static void announce(void *arg) {
    uvhttp_server_t *server = arg;
    publish_engine(server);
    char addresses[512];
    uvhttp__tcp_server_addresses(server->tcp_server, addresses, sizeof addresses);
    const char *reason, *engine = uvhttp_server_engine(server, &reason);
    const uint32_t count = server->tcp_server->loop_count;
    const char *plural = count == 1 ? "" : "s";
    UVHTTP_LOG_INFO("http: started: uvhttp %s, %u loop%s on %s (%s), listening on %s", uvhttp_version(), count, plural,
                    engine, reason, addresses);
    if (!server->service.config.quiet && !logs_info())
        uvhttp__log_notice("uvhttp %s: %u loop%s on %s (%s), listening on %s", uvhttp_version(), count, plural, engine,
                           reason, addresses);
    uvhttp__log_writer_open(); /* until the line of the end is written */
    server->log_opened = true;
}

static void notify_end(const uvhttp_server_t *server) {
    uvhttp__counter_sums_t sums;
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
    int status = address ? uvhttp_server_listen(server, address, NULL) : freeze(server);
    if (status != UVHTTP_OK) return status;
    if (server->tcp_server->endpoint_count == 0)
        return uvhttp__server_remember(server, UVHTTP_E_STATE,
                                       "run: no address: pass one, or call uvhttp_server_listen before");
    if (server->tcp_server->uv)
        return uvhttp__server_remember(server, UVHTTP_E_STATE, "run: the server is attached to a loop");
    server->ran = true;
    status = uvhttp__tcp_server_run(server->tcp_server, announce, server);
    uvhttp__reload_wait(&server->reload);
    uvhttp__work_stop(server->service.work, drain_deadline_ns(server));
    if (status == UVHTTP_OK)
        notify_end(server);
    else
        (void)uvhttp__server_remember(server, status, "run: %s", server->tcp_server->error);
    if (server->log_opened) uvhttp__log_server_ended(UVHTTP__LOG_CLOSE_MS);
    return status;
}

int uvhttp_server_attach(uvhttp_server_t *server, struct uv_loop_s *loop) {
    if (!server || !loop) return UVHTTP_E_INVALID;
    int status = uvhttp__tcp_server_attach(server->tcp_server, loop);
    if (status != UVHTTP_OK) return uvhttp__server_remember(server, status, "attach: %s", uvhttp_error_message(status));
    publish_engine(server);
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

void uvhttp_server_on_stopped(uvhttp_server_t *server, void (*on_stopped)(uvhttp_server_t *server, void *user),
                              void *user) {
    if (!server) return;
    server->on_stopped = on_stopped;
    server->on_stopped_user = user;
}

const char *uvhttp_server_engine(const uvhttp_server_t *server, const char **reason) {
    const char *engine = server ? atomic_load_explicit(&server->engine, memory_order_acquire) : NULL;
    if (reason) *reason = engine ? server->engine_reason : NULL;
    return engine;
}

struct uv_loop_s *uvhttp_loop_uv(void) {
    uvhttp__loop_t *loop = uvhttp__tcp_server_current_loop();
    return loop ? loop->uv : NULL;
}
