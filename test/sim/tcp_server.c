/* Owns: where connections of bytes come from: routes that upgrade to them, at once or late, and a TCP server in the
 * same process, with threads of its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "tcp.h"
#include "tls.h"

/* What its callbacks get; they last until the end of the run. */
typedef struct upgrade {
    struct upgrade *next;
    sim_pipe_t *pipe;
    uvhttp_timer_t timer;
    uvhttp_deferred_t *deferred; /* it waits for its time; NULL: it does not */
} upgrade_t;

bool sim_tcp_listens;
uint32_t sim_tcp_idle_s, sim_tcp_min_rate;
static sim_pipe_limits_t http_limits, tcp_limits;
static upgrade_t *upgrades;
static uvhttp_tcp_server_t *server;
static pthread_t server_thread;
static int server_user; /* its address is what callbacks of the TCP server get */
static uint32_t ready_count, drain_s;
static bool tcp_stopped, http_stopped;
static uint64_t tcp_cut_ns, http_cut_ns; /* when drains end; SIM_NEVER: there is none yet */

bool sim_pipe_is_stopped(bool direct) {
    return direct ? tcp_stopped : http_stopped;
}

uint64_t sim_pipe_cut_ns(bool direct) {
    return direct ? tcp_cut_ns : http_cut_ns;
}

/* --- the route --- */

static uvhttp_tcp_handlers_t handlers; /* of upgraded connections: it has to last */

static void on_upgraded(uvhttp_tcp_t *tcp, void *user) {
    upgrade_t *upgrade = user;
    sim_pipe_open(upgrade->pipe, tcp);
}

/* res NULL: the client has gone. */
static void do_upgrade(uvhttp_response_t *res, void *user) {
    const upgrade_t *upgrade = user;
    int status = res ? uvhttp_response_upgrade(res, "sim", &handlers, user) : UVHTTP_OK;
    if (status != UVHTTP_OK && !sim_failing)
        sim_fail("%x: no upgrade: %s", upgrade->pipe->tag, uvhttp_error_name(status));
}

static void upgrade_later(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    upgrade_t *upgrade = user;
    uvhttp_deferred_t *deferred = upgrade->deferred;
    upgrade->deferred = NULL;
    (void)uvhttp_deferred_run(deferred, do_upgrade, upgrade);
    uvhttp_deferred_release(deferred);
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    upgrade_t *upgrade = user;
    if (!upgrade->deferred) return;
    upgrade->deferred = NULL;
    uvhttp_timer_stop(&upgrade->timer);
    uvhttp_deferred_release(deferred);
}

/* On the loop at once, or deferred for a while; on a worker thread, or in a coroutine. */
static void on_upgrade(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    upgrade_t *upgrade = calloc(1, sizeof *upgrade);
    if (!upgrade) abort();
    uint32_t tag = sim_request_number(req, "tag", 16);
    *upgrade = (upgrade_t){.next = upgrades, .pipe = sim_pipe_new(tag, &http_limits, false, upgrade)};
    upgrades = upgrade;
    sim_random_t random = sim_random_of(tag, 0x7f);
    if (user && sim_one_in(&random, 3)) upgrade->deferred = uvhttp_response_defer(res);
    if (!upgrade->deferred) {
        do_upgrade(res, upgrade);
        return;
    }
    uvhttp_deferred_on_abort(upgrade->deferred, on_abort, upgrade);
    uint32_t ms = sim_one_in(&random, 3) ? 0 : sim_log_uniform(&random, 3000);
    if (ms == 0)
        upgrade_later(NULL, upgrade);
    else if (uvhttp_timer_start(&upgrade->timer, ms, upgrade_later, upgrade) != UVHTTP_OK)
        sim_fail("%x: no timer", tag);
}

void sim_tcp_add(uvhttp_server_t *http, const uvhttp_server_config_t *config) {
    http_limits = (sim_pipe_limits_t){
        .high = config->write_buffer_size, .max = config->write_queue_max, .piece_max = config->read_buffer_size};
    sim_pipe_handlers(&handlers, on_upgraded);
    uvhttp_get(http, "/tcp/:tag", on_upgrade, &handlers);
    uvhttp_route(http, UVHTTP_GET, "/wtcp/:tag", on_upgrade, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(http, UVHTTP_GET, "/ctcp/:tag", on_upgrade, NULL, UVHTTP_EXEC_COROUTINE);
}

/* --- the TCP server --- */

void sim_tcp_plan(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x7a);
    sim_pipes_reset(seed);
    sim_tcp_listens = !sim_crowd && sim_one_in(&random, 5);
    if (sim_is_guest) sim_tcp_listens = false; /* the application may be done before it */
    sim_tcp_idle_s = sim_one_in(&random, 2) ? 1 + sim_below(&random, 20) : 0;
    sim_tcp_min_rate = sim_one_in(&random, 2) ? 1 + sim_below(&random, 50) : 0;
    drain_s = sim_below(&random, 20);
    tcp_stopped = http_stopped = false;
    tcp_cut_ns = http_cut_ns = SIM_NEVER;
    ready_count = 0;
    server = NULL;
}

/* Whose it is, its port says; if it has reset already, nobody knows. */
static void on_direct(uvhttp_tcp_t *tcp, void *user) {
    char peer[64];
    bool known = uvhttp_tcp_peer(tcp, peer, sizeof peer) == UVHTTP_OK;
    uint32_t client = known ? (uint32_t)atoi(strchr(peer, ':') + 1) - SIM_PEER_PORT : 0;
    if (user != &server_user) sim_fail("on_open with another user");
    if (ready_count != 1 && !tcp_stopped) sim_fail("a connection of a server that is not ready");
    uint32_t tag = known ? 0x1000 + (client << 8) : SIM_PIPE_NOBODY;
    sim_pipe_open(sim_pipe_new(tag, &tcp_limits, true, user), tcp);
}

static void make_config(uint64_t seed, uvhttp_tcp_config_t *config) {
    sim_random_t random = sim_random_of(seed, 0x7e);
    uvhttp_tcp_config_default(config);
    config->io_threads = 1 + sim_below(&random, 2);
    config->engine = UVHTTP_WITH_URING && sim_one_in(&random, 2) ? UVHTTP_ENGINE_URING : UVHTTP_ENGINE_EPOLL;
    config->max_connections = 100;
    config->read_buffer_size = sim_one_in(&random, 3) ? 1024 : 16384;
    config->read_buffer_count = sim_one_in(&random, 3) ? 8 : 64;
    config->write_high_watermark = sim_log_uniform(&random, 16384);
    config->write_queue_max = config->write_high_watermark + 8192 + sim_log_uniform(&random, 100000);
    if (sim_tcp_idle_s) config->idle_timeout = sim_tcp_idle_s;
    if (sim_tcp_min_rate) config->min_send_rate = sim_tcp_min_rate;
    config->drain_timeout = drain_s;
    config->install_signal_handlers = false;
    config->raise_descriptor_limit = false;
    tcp_limits = (sim_pipe_limits_t){
        .high = config->write_high_watermark,
        .max = config->write_queue_max,
        .piece_max = config->read_buffer_size,
        .idle_s = sim_tcp_idle_s,
        .min_rate = config->min_send_rate == UVHTTP_NEVER ? 0 : config->min_send_rate,
    };
}

static void on_ready(void *user) {
    const char *reason = NULL, *engine = uvhttp_tcp_server_engine(server, &reason);
    if (user != &server_user || !engine || !reason) sim_fail("tcp: on_ready");
    ready_count++;
}

static void *run_server(void *arg) {
    (void)arg;
    int status = uvhttp_tcp_server_run(server, NULL);
    if (status != UVHTTP_OK && !sim_failing) sim_fail("tcp: run: %s", uvhttp_tcp_server_error_text(server));
    tcp_stopped = true;
    return NULL;
}

static int listen_tcp(void) {
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", SIM_TCP_PORT);
    int status = uvhttp_tcp_server_listen(server, address, NULL);
    if (status != UVHTTP_OK || !sim_tls_listens) return status;
    snprintf(address, sizeof address, "127.0.0.1:%u", SIM_TCP_PORT + SIM_PORT_TLS);
    return uvhttp_tcp_server_listen_tls(server, address, sim_tls_server, NULL);
}

/* Without memory there is none. */
void sim_tcp_start(uint64_t seed) {
    uvhttp_tcp_config_t config;
    uvhttp_tcp_handlers_t own;
    if (!sim_tcp_listens) return;
    make_config(seed, &config);
    sim_pipe_handlers(&own, on_direct);
    server = uvhttp_tcp_server_new(&config, &own, &server_user);
    if (server) uvhttp_tcp_server_on_ready(server, on_ready, &server_user);
    int status = server ? listen_tcp() : UVHTTP_E_NOMEM;
    if (status != UVHTTP_OK && !sim_failing) sim_fail("tcp: %s", uvhttp_error_name(status));
    if (status == UVHTTP_OK && pthread_create(&server_thread, NULL, run_server, NULL) == 0) return;
    uvhttp_tcp_server_free(server);
    server = NULL;
    tcp_stopped = true;
}

void sim_tcp_stop(void) {
    if (!server || tcp_cut_ns != SIM_NEVER) return;
    tcp_stopped = true;
    tcp_cut_ns = sim_now_ns + drain_s * 1000 * SIM_MS;
    sim_trace("the TCP server stops", 0, 0);
    (void)uvhttp_tcp_server_stop(server);
}

void sim_tcp_http_stopped(void) {
    http_stopped = true;
    http_cut_ns = sim_now_ns + SIM_DRAIN_S * 1000 * SIM_MS;
}

void sim_tcp_join(void) {
    uvhttp_tcp_metrics_t metrics;
    if (!server) return;
    sim_tcp_stop();
    (void)pthread_join(server_thread, NULL);
    uvhttp_tcp_server_metrics(server, &metrics);
    if (metrics.connections_accepted != metrics.connections_closed)
        sim_fail("tcp: %llu connections were accepted and %llu closed",
                 (unsigned long long)metrics.connections_accepted, (unsigned long long)metrics.connections_closed);
    uvhttp_tcp_server_free(server);
    server = NULL;
}

void sim_tcp_end(void) {
    sim_pipes_end();
    while (upgrades) {
        upgrade_t *upgrade = upgrades;
        upgrades = upgrade->next;
        free(upgrade);
    }
}
