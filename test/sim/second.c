/* Owns: a second server on the loop of an application, in some of the seeds in which there is such a loop: attached
 * before or behind the other one, stopped and freed at any time. In half of them it has a successor, which
 * listens on the same socket before the second server stops, as the next process of an application would: none of their
 * visitors (visitors.c) may notice that. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "uv_loop.h"

enum {
    FEW_VISITORS = 4,
    MANY_VISITORS = 24,
    FEW_PLACES = 10,
    MANY_PLACES = 2 * MANY_VISITORS,
};

typedef struct attached {
    uvhttp_server_t *server; /* NULL: there is none, or it was freed */
    bool frees_later;
    uint32_t visits_open, stopped;
} attached_t;

typedef struct visit {
    attached_t *at;
    uvhttp_timer_t timer;
    uvhttp_deferred_t *deferred;
    uint32_t tag, size;
} visit_t;

static attached_t second, successor;
static uv_loop_t *loop_of_both;
static sim_random_t random_numbers;
static int socket_of_successor = -1; /* of one that is to come */
static uint32_t places;

bool sim_second_lives(void) {
    return second.server || successor.server || socket_of_successor >= 0;
}

/* --- the server --- */

static void end_visit(visit_t *visit) {
    uvhttp_timer_stop(&visit->timer);
    uvhttp_deferred_release(visit->deferred);
    visit->at->visits_open--;
    free(visit);
}

static void on_visit_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    visit_t *visit = user;
    char *body = malloc(visit->size + 1);
    sim_fill(body, visit->tag, 0, visit->size);
    (void)uvhttp_deferred_send(visit->deferred, 200, NULL, body, visit->size);
    free(body);
    end_visit(visit);
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)deferred;
    end_visit(user);
}

/* By a timer of the loop, which has to be this server's, whichever was attached last. */
static void on_visit(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    attached_t *it = user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return;
    visit_t *visit = calloc(1, sizeof *visit);
    visit->at = it;
    visit->deferred = deferred;
    visit->tag = sim_request_number(req, "tag", 16);
    visit->size = sim_request_number(req, "size", 10);
    it->visits_open++;
    uvhttp_deferred_on_abort(deferred, on_abort, visit);
    if (uvhttp_timer_start(&visit->timer, sim_request_number(req, "ms", 10), on_visit_timer, visit) != UVHTTP_OK)
        sim_fail("a handler of the second server has no loop");
}

static void free_attached(void *arg) {
    attached_t *it = arg;
    uvhttp_server_t *server = it->server;
    it->server = NULL;
    sim_guest_free(server);
}

static void on_stopped(uvhttp_server_t *server, void *user) {
    attached_t *it = user;
    sim_trace("the second server has stopped", it->frees_later, it == &successor);
    uint64_t accepted = uvhttp_server_counter(server, "connections_accepted"),
             closed = uvhttp_server_counter(server, "connections_closed");
    if (it->stopped++ > 0 || server != it->server) sim_fail("on_stopped of the second server is called twice");
    if (accepted != closed || it->visits_open > 0)
        sim_fail("the second server has stopped with %llu connections and %u handlers",
                 (unsigned long long)(accepted - closed), it->visits_open);
    if (it->frees_later)
        (void)sim_guest_later(sim_below(&random_numbers, 500), free_attached, it);
    else
        free_attached(it);
}

static uvhttp_server_t *make(attached_t *it, uvhttp_engine_t engine) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.engine = engine;
    config.install_signal_handlers = false;
    config.quiet = true;
    config.raise_descriptor_limit = false;
    config.read_buffer_count = 8;
    config.max_connections = places;
    config.drain_timeout = SIM_DRAIN_S;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (server) uvhttp_get(server, "/visit/:tag/:size/:ms", on_visit, it);
    return server;
}

/* Whether it listens. The socket is its own from then on, else it is as before. */
static bool attach(attached_t *it, const char *address) {
    uint64_t begin_ns = sim_now_ns;
    bool uring = UVHTTP_WITH_URING && sim_one_in(&random_numbers, 2);
    *it = (attached_t){.frees_later = sim_one_in(&random_numbers, 2)};
    it->server = make(it, uring ? UVHTTP_ENGINE_URING : UVHTTP_ENGINE_EPOLL);
    if (!it->server && !sim_memory_has_failed()) sim_fail("no second server");
    if (!it->server) return false;
    int status = uvhttp_server_attach(it->server, loop_of_both);
    if (status == UVHTTP_OK) status = uvhttp_server_listen(it->server, address, NULL);
    sim_guest_was_blocked(begin_ns);
    if (status == UVHTTP_OK) {
        uvhttp_server_on_stopped(it->server, on_stopped, it);
        return true;
    }
    if (!sim_memory_has_failed()) sim_fail("the second server: %s", uvhttp_server_error_text(it->server));
    free_attached(it);
    return false;
}

static void stop(void *arg) {
    attached_t *it = arg;
    if (it == &successor || !successor.server) sim_visitors_stop();
    if (it->server) (void)uvhttp_server_stop(it->server);
}

/* From here on both accept, until the second server has stopped. */
static void succeed(void *arg) {
    (void)arg;
    char address[16];
    snprintf(address, sizeof address, "fd:%d", socket_of_successor);
    if (!attach(&successor, address)) (void)close(socket_of_successor);
    socket_of_successor = -1;
    (void)sim_guest_later(sim_log_uniform(&random_numbers, 3000), stop, &second);
    if (successor.server) (void)sim_guest_later(5000 + sim_below(&random_numbers, 60000), stop, &successor);
}

static int listen_for_both(void) {
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(SIM_SECOND_PORT)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 100) != 0)
        sim_fail("no socket for the second server and its successor");
    return fd;
}

void sim_second_attach(uv_loop_t *loop, uint64_t seed) {
    random_numbers = sim_random_of(seed, 0x97);
    loop_of_both = loop;
    successor = (attached_t){.server = NULL};
    socket_of_successor = -1;
    bool succession = sim_one_in(&random_numbers, 2);
    places = succession && sim_one_in(&random_numbers, 2) ? MANY_PLACES : FEW_PLACES;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", SIM_SECOND_PORT);
    int fd = succession ? listen_for_both() : -1;
    if (succession) snprintf(address, sizeof address, "fd:%d", fd);
    if (!attach(&second, address)) {
        if (succession) (void)close(fd);
        return;
    }
    if (!succession) {
        sim_visitors_invite(seed, 1 + sim_below(&random_numbers, FEW_VISITORS), 2000, false);
        (void)sim_guest_later(sim_log_uniform(&random_numbers, 60000), stop, &second);
        return;
    }
    socket_of_successor = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (socket_of_successor < 0) sim_fail("no descriptor for the successor");
    sim_visitors_invite(seed, 1 + sim_below(&random_numbers, MANY_VISITORS), 5000, places == MANY_PLACES);
    (void)sim_guest_later(sim_below(&random_numbers, 3000), succeed, NULL);
}
