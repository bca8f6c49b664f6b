/* Owns: the life of a server's loops: making, running, draining and ending them. Listening and accepting are in
 * accept.c. May include: io, base, obs. */
#include "conn/tcp_server.h"
#include "base/hot_path.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "base/standard_fds.h"
#include "base/thread.h"
#include "conn/address_limit.h"
#include "conn/tcp_server_internal.h"
#include "obs/log.h"
#include "obs/log_writer.h"

static _Thread_local uvhttp__loop_t *current_loop;

uvhttp__loop_t *uvhttp__tcp_server_current_loop(void) {
    return current_loop;
}

/* --- attached servers, the last one first: a thread may have several, and each may be freed before the others --- */

static pthread_mutex_t attached_lock = PTHREAD_MUTEX_INITIALIZER;
static uvhttp__tcp_server_t *attached;

static void attached_add(uvhttp__tcp_server_t *tcp_server) {
    tcp_server->thread = uvhttp__thread_number();
    pthread_mutex_lock(&attached_lock);
    tcp_server->next_attached = attached;
    attached = tcp_server;
    pthread_mutex_unlock(&attached_lock);
    current_loop = tcp_server->loops[0].io;
}

/* The thread's loop is now that of another host which it has attached, if there is one. */
static void attached_remove(const uvhttp__tcp_server_t *tcp_server) {
    uvhttp__loop_t *other = NULL;
    pthread_mutex_lock(&attached_lock);
    for (uvhttp__tcp_server_t **at = &attached; *at;) {
        if (*at == tcp_server) {
            *at = tcp_server->next_attached;
            continue;
        }
        if (!other && (*at)->thread == tcp_server->thread) other = (*at)->loops[0].io;
        at = &(*at)->next_attached;
    }
    pthread_mutex_unlock(&attached_lock);
    if (current_loop == tcp_server->loops[0].io) current_loop = other;
}

static uint32_t cpu_count(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

static int loops_new(uvhttp__tcp_server_t *tcp_server, uint32_t count) {
    size_t size = count * sizeof(uvhttp__tcp_loop_t);
    tcp_server->loops = uvhttp__alloc_aligned(_Alignof(uvhttp__tcp_loop_t), size);
    if (!tcp_server->loops) return UVHTTP_E_NOMEM;
    memset(tcp_server->loops, 0, size);
    tcp_server->loop_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uvhttp__tcp_loop_t *loop = &tcp_server->loops[i];
        loop->tcp_server = tcp_server;
        loop->index = i;
        uvhttp__list_init(&loop->conns);
        uvhttp__list_init(&loop->idle);
        uvhttp__slab_init(&loop->slab, tcp_server->options.ops->conn_size);
    }
    return UVHTTP_OK;
}

int uvhttp__tcp_server_new(const uvhttp__tcp_server_options_t *options, uvhttp__tcp_server_t **tcp_server) {
    uvhttp__tcp_server_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return UVHTTP_E_NOMEM;
    made->options = *options;
    made->connections_limit = options->max_connections;
    int status = uvhttp__standard_fds_hold();
    if (status == UVHTTP_OK) status = loops_new(made, options->io_threads ? options->io_threads : cpu_count());
    if (status == UVHTTP_OK && options->connections_per_address_max > 0) {
        made->addresses = uvhttp__address_limit_new(options->connections_per_address_max);
        if (!made->addresses) status = UVHTTP_E_NOMEM;
    }
    if (status != UVHTTP_OK) {
        uvhttp__free_aligned(made->loops);
        uvhttp__free(made);
        return status;
    }
    pthread_mutex_init(&made->stop_lock, NULL);
    pthread_cond_init(&made->gate, NULL);
    *tcp_server = made;
    return UVHTTP_OK;
}

/* --- ending --- */

static void notify_drain(uvhttp__tcp_loop_t *loop, bool cut) {
    const uvhttp__conn_ops_t *ops = loop->tcp_server->options.ops;
    if (loop->started && ops->on_loop_drain) ops->on_loop_drain(loop, cut);
}

/* What would be accepted now would not be served. The socket may be another process's, too, which serves it: that of an
 * upgrade if this one cannot start, or a service manager's. */
static void cut_off(uvhttp__tcp_loop_t *loop) {
    if (loop->cut) return;
    loop->cut = true;
    uvhttp__tcp_loop_leave_backlog(loop);
    unsigned count = 0;
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, &loop->conns) {
        uvhttp__conn_t *conn = UVHTTP__CONTAINER_OF(node, uvhttp__conn_t, link);
        if (uvhttp__conn_is_served(conn)) count++;
        uvhttp__conn_close(conn, UVHTTP_E_TIMEOUT);
    }
    if (count > 0) {
        uvhttp__counters_add(&loop->counters, drain_cut_off, count);
        UVHTTP_LOG_WARN("%s: drain: %u connections cut off while they were being served",
                        loop->tcp_server->options.name, count);
    }
    notify_drain(loop, true);
}

static void enter(uvhttp__tcp_server_t *tcp_server, uvhttp__state_t state) {
    atomic_store(&tcp_server->state, state);
    if (tcp_server->on_state) tcp_server->on_state(tcp_server->on_state_arg, state);
}

/* The first loop whose grace period is over. */
static void end_grace(uvhttp__tcp_server_t *tcp_server) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    if (atomic_load(&tcp_server->state) == UVHTTP__STATE_GRACE) enter(tcp_server, UVHTTP__STATE_DRAINING);
    pthread_mutex_unlock(&tcp_server->stop_lock);
}

static void drain(uvhttp__tcp_loop_t *loop) {
    if (loop->draining) return;
    end_grace(loop->tcp_server);
    uvhttp__tcp_loop_idle_drain(loop);
    loop->draining = true;
    UVHTTP_LOG_INFO("%s: loop %u drains: %u connections of all loops are open, for at most %u s",
                    loop->tcp_server->options.name, loop->index, atomic_load(&loop->tcp_server->connections),
                    loop->tcp_server->options.drain_timeout);
    atomic_store_explicit(&loop->tcp_server->stopping, true, memory_order_relaxed);
    uvhttp__tcp_loop_close_listeners(loop);
    uvhttp__timer_set(&loop->io->wheel, &loop->drain_timer,
                      loop->io->now_ms + (uint64_t)loop->tcp_server->options.drain_timeout * 1000);
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, &loop->conns) {
        uvhttp__conn_t *conn = UVHTTP__CONTAINER_OF(node, uvhttp__conn_t, link);
        uvhttp__conn_drain(conn);
    }
    notify_drain(loop, false);
    uvhttp__tcp_loop_check_done(loop);
}

static void on_loop_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel;
    uvhttp__tcp_loop_t *loop = user;
    if (timer == &loop->place_timer)
        uvhttp__tcp_loop_find_place(loop, true);
    else if (loop->draining)
        cut_off(loop);
    else
        drain(loop);
}

/* Clients that an upgrade leaves to the next process need no time to notice. */
static uint32_t grace_of(const uvhttp__tcp_server_t *tcp_server) {
    return tcp_server->passed_on ? 0 : tcp_server->options.drain_grace_ms;
}

static void on_stop_post(uvhttp__post_t *post) {
    uvhttp__tcp_loop_t *loop = UVHTTP__CONTAINER_OF(post, uvhttp__tcp_loop_t, stop_post);
    uint32_t grace_ms = grace_of(loop->tcp_server);
    if (grace_ms == 0)
        drain(loop);
    else if (!loop->draining)
        uvhttp__timer_set(&loop->io->wheel, &loop->drain_timer, loop->io->now_ms + grace_ms);
}

static void on_cut_post(uvhttp__post_t *post) {
    uvhttp__tcp_loop_t *loop = UVHTTP__CONTAINER_OF(post, uvhttp__tcp_loop_t, cut_post);
    drain(loop);
    cut_off(loop);
}

/* --- stopping, from any thread --- */

/* Once for each level, when it is reached or when the loops are there: a message is in a queue only once. */
static void post_stop(uvhttp__tcp_server_t *tcp_server) {
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) {
        uvhttp__tcp_loop_t *loop = &tcp_server->loops[i];
        uvhttp__loop_post(loop->io, tcp_server->stop_level == 1 ? &loop->stop_post : &loop->cut_post);
    }
}

/* Returns the ms of a grace period that begins, for unlock. */
static uint32_t raise_stop_level(uvhttp__tcp_server_t *tcp_server, int level) {
    if (level <= tcp_server->stop_level) return 0;
    tcp_server->stop_level = level;
    uint32_t grace_ms = level == 1 ? grace_of(tcp_server) : 0;
    enter(tcp_server, grace_ms > 0 ? UVHTTP__STATE_GRACE : UVHTTP__STATE_DRAINING);
    if (tcp_server->loops_ready) post_stop(tcp_server);
    return grace_ms;
}

/* Nothing is logged under the lock: a log callback may stop the server. Behind it the server may be gone. */
static void unlock(uvhttp__tcp_server_t *tcp_server, uint32_t grace_ms) {
    const char *name = tcp_server->options.name;
    pthread_mutex_unlock(&tcp_server->stop_lock);
    if (grace_ms > 0) UVHTTP_LOG_INFO("%s: not ready any more; the drain starts in %u ms", name, grace_ms);
}

static void request_stop(uvhttp__tcp_server_t *tcp_server, int level) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    unlock(tcp_server, raise_stop_level(tcp_server, level));
}

/* A stop that came before the loops were there reaches them now. */
static void loops_begin(uvhttp__tcp_server_t *tcp_server) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    tcp_server->loops_ready = true;
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) tcp_server->loops[i].reachable = true;
    if (tcp_server->stop_level) post_stop(tcp_server);
    pthread_mutex_unlock(&tcp_server->stop_lock);
}

/* After this no other thread uses a loop: the loops and the server may be freed. */
static void loops_end(uvhttp__tcp_server_t *tcp_server) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    tcp_server->loops_ready = false;
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) tcp_server->loops[i].reachable = false;
    pthread_mutex_unlock(&tcp_server->stop_lock);
}

void uvhttp__tcp_server_enter_ready(uvhttp__tcp_server_t *tcp_server) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    bool ready = atomic_load(&tcp_server->state) == UVHTTP__STATE_STARTING;
    if (ready) enter(tcp_server, UVHTTP__STATE_READY);
    pthread_mutex_unlock(&tcp_server->stop_lock);
    if (ready && tcp_server->on_ready) tcp_server->on_ready(tcp_server->on_ready_arg);
}

void uvhttp__tcp_server_stop(uvhttp__tcp_server_t *tcp_server) {
    request_stop(tcp_server, 1);
}

void uvhttp__tcp_server_pass_on(uvhttp__tcp_server_t *tcp_server) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    if (tcp_server->stop_level == 0) tcp_server->passed_on = true;
    unlock(tcp_server, raise_stop_level(tcp_server, 1));
}

/* The first signal drains, the second cuts off. A drain that the program or an upgrade has begun counts as no signal: a
 * manager that stops the service asks for the drain and then signals, or signals both processes. */
static void on_signal(int signal_number, void *arg) {
    uvhttp__tcp_server_t *tcp_server = arg;
    if (signal_number == SIGHUP) {
        tcp_server->on_hangup(tcp_server->on_hangup_arg);
        return;
    }
    if (signal_number == SIGUSR2) {
        tcp_server->on_upgrade(tcp_server->on_upgrade_arg);
        return;
    }
    request_stop(tcp_server, tcp_server->signalled ? 2 : 1);
    tcp_server->signalled = true;
}

/* --- the gate: threads exist before the server is ready, and their loops iterate after that --- */

static void open_gate(uvhttp__tcp_server_t *tcp_server) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    tcp_server->gate_open = true;
    pthread_cond_broadcast(&tcp_server->gate);
    pthread_mutex_unlock(&tcp_server->stop_lock);
}

static void enter_loop(uvhttp__tcp_loop_t *loop) {
    uvhttp__tcp_server_t *tcp_server = loop->tcp_server;
    int status = uvhttp__loop_enter(loop->io);
    pthread_mutex_lock(&tcp_server->stop_lock);
    tcp_server->loops_entered++;
    if (status != UVHTTP_OK) (void)raise_stop_level(tcp_server, 2); /* the loop's first iteration says why */
    pthread_cond_broadcast(&tcp_server->gate);
    pthread_mutex_unlock(&tcp_server->stop_lock);
}

static void wait_for_loops(uvhttp__tcp_server_t *tcp_server, uint32_t count) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    while (tcp_server->loops_entered < count) pthread_cond_wait(&tcp_server->gate, &tcp_server->stop_lock);
    pthread_mutex_unlock(&tcp_server->stop_lock);
}

static void wait_for_gate(uvhttp__tcp_server_t *tcp_server) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    while (!tcp_server->gate_open) pthread_cond_wait(&tcp_server->gate, &tcp_server->stop_lock);
    pthread_mutex_unlock(&tcp_server->stop_lock);
}

/* --- loops --- */

/* One loop cannot serve any more: clients would be spread over it all the same. The server ends, and says so. */
static void on_loop_failed(uvhttp__loop_t *io, void *arg) {
    const uvhttp__tcp_loop_t *loop = arg;
    uvhttp__tcp_server_t *tcp_server = loop->tcp_server;
    pthread_mutex_lock(&tcp_server->stop_lock);
    if (tcp_server->failure == UVHTTP_OK)
        snprintf(tcp_server->error, sizeof tcp_server->error, "loop %u: %s: %s", loop->index,
                 uvhttp__loop_engine_name(io), strerrordesc_np(io->failure));
    tcp_server->failure = UVHTTP_E_IO;
    (void)raise_stop_level(tcp_server, 2);
    pthread_mutex_unlock(&tcp_server->stop_lock);
}

UVHTTP__HOT static void on_iteration_end(uvhttp__loop_t *io, void *arg) {
    (void)io;
    uvhttp__tcp_loop_t *loop = arg;
    loop->tcp_server->options.ops->on_iteration_end(loop);
}

/* The thread may have attached several: what is called now belongs to this one. */
static void on_enter(uvhttp__loop_t *io, void *arg) {
    (void)arg;
    current_loop = io;
}

static int loop_make_io(uvhttp__tcp_loop_t *loop) {
    uvhttp__tcp_server_t *tcp_server = loop->tcp_server;
    uvhttp__loop_options_t options = {.engine = tcp_server->options.engine,
                                      .embedding = tcp_server->uv,
                                      .receive_buffer_size = tcp_server->options.read_buffer_size,
                                      .receive_buffer_count = tcp_server->options.read_buffer_count,
                                      .counters = &loop->counters,
                                      .index = loop->index,
                                      .on_iteration_end =
                                          tcp_server->options.ops->on_iteration_end ? on_iteration_end : NULL,
                                      .on_enter = tcp_server->uv ? on_enter : NULL,
                                      .on_failed = on_loop_failed,
                                      .arg = loop};
    int status = uvhttp__loop_new(&options, &loop->io);
    if (status != UVHTTP_OK) {
        snprintf(tcp_server->error, sizeof tcp_server->error, "loop %u: %s", loop->index, uvhttp_error_message(status));
        return status;
    }
    loop->stop_post.run = on_stop_post;
    loop->cut_post.run = on_cut_post;
    loop->conn_timer_kind = uvhttp__wheel_kind(&loop->io->wheel, uvhttp__conn_on_timer, loop);
    uvhttp__timer_kind_t kind = uvhttp__wheel_kind(&loop->io->wheel, on_loop_timer, loop);
    uvhttp__timer_init(&loop->drain_timer, kind);
    uvhttp__timer_init(&loop->place_timer, kind);
    return UVHTTP_OK;
}

static int loop_start(uvhttp__tcp_loop_t *loop) {
    const uvhttp__conn_ops_t *ops = loop->tcp_server->options.ops;
    int status = ops->on_loop_start ? ops->on_loop_start(loop) : UVHTTP_OK;
    if (status == UVHTTP_OK) {
        loop->started = true;
        if (!loop->tcp_server->dry_run) status = uvhttp__tcp_loop_open_listeners(loop);
    }
    if (status != UVHTTP_OK)
        snprintf(loop->tcp_server->error, sizeof loop->tcp_server->error, "loop %u: %s", loop->index,
                 uvhttp_error_message(status));
    return status;
}

static void loop_free(uvhttp__tcp_loop_t *loop) {
    if (loop->started && loop->tcp_server->options.ops->on_loop_stop) loop->tcp_server->options.ops->on_loop_stop(loop);
    loop->started = false;
    uvhttp__slab_deinit(&loop->slab);
    uvhttp__free(loop->output_checks);
    loop->output_checks = NULL;
    uvhttp__free(loop->accepted);
    loop->accepted = NULL;
    uvhttp__free(loop->listeners);
    loop->listeners = NULL;
}

static void loop_run(uvhttp__tcp_loop_t *loop) {
    current_loop = loop->io;
    uvhttp__tcp_loop_enter(loop);
    uvhttp__loop_run(loop->io);
    uvhttp__tcp_loop_leave(loop);
    current_loop = NULL;
}

/* --- running on threads of our own --- */

static void *thread_main(void *arg) {
    uvhttp__tcp_loop_t *loop = arg;
    uvhttp__tcp_server_t *tcp_server = loop->tcp_server;
    enter_loop(loop);
    wait_for_gate(tcp_server);
    loop_run(loop);
    if (atomic_fetch_sub(&tcp_server->others, 1) == 1)
        uvhttp__loop_post(tcp_server->loops[0].io, &tcp_server->others_post);
    return NULL;
}

static void on_others_ended(uvhttp__post_t *post) {
    uvhttp__tcp_server_t *tcp_server = UVHTTP__CONTAINER_OF(post, uvhttp__tcp_server_t, others_post);
    tcp_server->others_run = false;
    uvhttp__tcp_loop_check_done(&tcp_server->loops[0]);
}

static void finish_loops(uvhttp__tcp_server_t *tcp_server) {
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) {
        uvhttp__tcp_loop_t *loop = &tcp_server->loops[i];
        loop_free(loop);
        if (loop->io) uvhttp__loop_free(loop->io, NULL, NULL);
        loop->io = NULL;
    }
    tcp_server->running = false;
    tcp_server->finished = true;
}

/* Closes the sockets that no loop owns yet. */
static void close_sockets(uvhttp__tcp_server_t *tcp_server) {
    for (uint32_t i = 0; i < tcp_server->endpoint_count * tcp_server->loop_count; i++) {
        if (tcp_server->fds[i] >= 0) close(tcp_server->fds[i]);
        tcp_server->fds[i] = -1;
    }
}

/* As early as there is a loop for them: clients can connect already. A server that a signal would end without a drain
 * does not start. */
static int start_signals(uvhttp__tcp_server_t *tcp_server) {
    if (!tcp_server->options.install_signal_handlers) return UVHTTP_OK;
    const int others[] = {tcp_server->on_hangup ? SIGHUP : 0, tcp_server->on_upgrade ? SIGUSR2 : 0};
    int status = uvhttp__loop_signals_start(tcp_server->loops[0].io, others, on_signal, tcp_server);
    if (status != UVHTTP_OK)
        snprintf(tcp_server->error, sizeof tcp_server->error, "handlers of signals: %s", uvhttp_error_message(status));
    return status;
}

static int make_loops(uvhttp__tcp_server_t *tcp_server) {
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) {
        int status = loop_make_io(&tcp_server->loops[i]);
        if (status == UVHTTP_OK && i == 0) status = start_signals(tcp_server);
        if (status == UVHTTP_OK) status = loop_start(&tcp_server->loops[i]);
        if (status != UVHTTP_OK) return status;
    }
    return UVHTTP_OK;
}

static void publish_engine(uvhttp__tcp_server_t *tcp_server, const uvhttp__loop_t *io) {
    snprintf(tcp_server->engine_reason, sizeof tcp_server->engine_reason, "%s", io->reason);
    atomic_store_explicit(&tcp_server->engine, uvhttp__loop_engine_name(io), memory_order_release);
}

/* Returns how many threads run; fewer than asked for if the system refuses one, which ends the start. They wait at the
 * gate. */
static uint32_t start_threads(uvhttp__tcp_server_t *tcp_server) {
    uint32_t running = 1;
    for (; running < tcp_server->loop_count; running++) {
        uvhttp__tcp_loop_t *loop = &tcp_server->loops[running];
        if (!uvhttp__thread_start(&loop->thread, thread_main, loop)) break;
    }
    atomic_store(&tcp_server->others, running - 1);
    tcp_server->others_run = running > 1;
    tcp_server->others_post.run = on_others_ended;
    return running;
}

/* Nobody posts to a loop any more, and the state stays as it is. */
static void stop_for_good(uvhttp__tcp_server_t *tcp_server) {
    pthread_mutex_lock(&tcp_server->stop_lock);
    tcp_server->stop_level = 2;
    pthread_mutex_unlock(&tcp_server->stop_lock);
    enter(tcp_server, UVHTTP__STATE_STOPPED);
}

/* Loops that exist have listeners: they iterate once more to close them. */
void uvhttp__tcp_server_abandon(uvhttp__tcp_server_t *tcp_server) {
    if (tcp_server->finished) return;
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) {
        if (!tcp_server->loops[i].io) continue;
        uvhttp__loop_post(tcp_server->loops[i].io, &tcp_server->loops[i].cut_post);
        loop_run(&tcp_server->loops[i]);
    }
    if (tcp_server->loops[0].io) uvhttp__loop_signals_stop(tcp_server->loops[0].io, &tcp_server->late_signals);
    finish_loops(tcp_server);
    close_sockets(tcp_server); /* clients must not wait for a server that will not come */
    stop_for_good(tcp_server);
}

/* Steps that can fail come first. Then the server is ready, and then its loops accept; until then clients wait in the
 * backlog. */
int uvhttp__tcp_server_run(uvhttp__tcp_server_t *tcp_server) {
    if (tcp_server->running || tcp_server->finished || tcp_server->uv) return UVHTTP_E_STATE;
    tcp_server->running = true;
    int status = make_loops(tcp_server);
    if (status != UVHTTP_OK || tcp_server->dry_run) {
        uvhttp__tcp_server_abandon(tcp_server);
        return status;
    }
    uvhttp__tcp_server_fit_descriptors(tcp_server);
    publish_engine(tcp_server, tcp_server->loops[0].io);
    uint32_t threads = start_threads(tcp_server);
    if (threads < tcp_server->loop_count) {
        snprintf(tcp_server->error, sizeof tcp_server->error, "thread %u cannot be started", threads);
        status = UVHTTP_E_LIMIT;
        request_stop(tcp_server, 2);
    }
    enter_loop(&tcp_server->loops[0]);
    wait_for_loops(tcp_server, threads);
    uvhttp__liveness_start(tcp_server);
    loops_begin(tcp_server);
    current_loop = tcp_server->loops[0].io;
    uvhttp__tcp_server_enter_ready(tcp_server);
    uvhttp__log_writer_open(); /* loops that log must not wait; lines of the start need no thread */
    open_gate(tcp_server);
    loop_run(&tcp_server->loops[0]);
    for (uint32_t i = 1; i < tcp_server->loop_count; i++) {
        if (i < threads)
            pthread_join(tcp_server->loops[i].thread, NULL);
        else
            loop_run(&tcp_server->loops[i]);
    }
    uvhttp__loop_signals_stop(tcp_server->loops[0].io, &tcp_server->late_signals);
    loops_end(tcp_server);
    finish_loops(tcp_server);
    uvhttp__tcp_server_forget_descriptors(tcp_server);
    enter(tcp_server, UVHTTP__STATE_STOPPED);
    uvhttp__log_server_ended(UVHTTP__LOG_CLOSE_MS);
    return status == UVHTTP_OK ? tcp_server->failure : status;
}

/* --- attached to the application's loop --- */

int uvhttp__tcp_server_attach(uvhttp__tcp_server_t *tcp_server, struct uv_loop_s *uv) {
    if (tcp_server->running || tcp_server->finished || tcp_server->uv || tcp_server->endpoint_count > 0)
        return UVHTTP_E_STATE;
    tcp_server->uv = uv;
    tcp_server->loop_count = 1;
    int status = loop_make_io(&tcp_server->loops[0]);
    if (status == UVHTTP_OK) status = loop_start(&tcp_server->loops[0]);
    if (status == UVHTTP_OK) {
        uvhttp__tcp_server_fit_descriptors(tcp_server);
        publish_engine(tcp_server, tcp_server->loops[0].io);
        tcp_server->running = true;
        uvhttp__log_writer_open();
        attached_add(tcp_server);
        uvhttp__tcp_loop_enter(&tcp_server->loops[0]);
        loops_begin(tcp_server);
        return UVHTTP_OK;
    }
    /* An existing loop has handles in the application's loop, which use the server until they have closed:
     * uvhttp__tcp_server_free waits for them. */
    tcp_server->finished = true;
    if (!tcp_server->loops[0].io) tcp_server->uv = NULL;
    return status;
}

static void tcp_server_delete(void *arg) {
    uvhttp__tcp_server_t *tcp_server = arg;
    close_sockets(tcp_server);
    uvhttp__tcp_server_forget_descriptors(tcp_server);
    for (uint32_t i = 0; i < tcp_server->loop_count; i++)
        if (tcp_server->loops[i].user && tcp_server->options.ops->on_loop_delete)
            tcp_server->options.ops->on_loop_delete(&tcp_server->loops[i]);
    for (uint32_t i = 0; i < tcp_server->endpoint_count; i++)
        if (tcp_server->filters[i].release) tcp_server->filters[i].release(tcp_server->filters[i].arg);
    uvhttp__inherited_close(&tcp_server->inherited);
    uvhttp__address_limit_free(tcp_server->addresses);
    uvhttp__free(tcp_server->filters);
    uvhttp__free(tcp_server->fds);
    uvhttp__free(tcp_server->endpoints);
    uvhttp__free_aligned(tcp_server->loops);
    pthread_cond_destroy(&tcp_server->gate);
    pthread_mutex_destroy(&tcp_server->stop_lock);
    uvhttp__free(tcp_server);
}

void uvhttp__tcp_server_free(uvhttp__tcp_server_t *tcp_server) {
    if (!tcp_server) return;
    uvhttp__late_signals_end(&tcp_server->late_signals);
    if (!tcp_server->uv) {
        tcp_server_delete(tcp_server);
        return;
    }
    loops_end(tcp_server);
    loop_free(&tcp_server->loops[0]);
    attached_remove(tcp_server);
    if (tcp_server->running) uvhttp__log_server_ended(UVHTTP__LOG_CLOSE_ATTACHED_MS);
    uvhttp__loop_free(tcp_server->loops[0].io, tcp_server_delete, tcp_server);
}

void uvhttp__tcp_server_counters(const uvhttp__tcp_server_t *tcp_server, uvhttp__counter_sums_t *sums) {
    memset(sums, 0, sizeof *sums);
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) uvhttp__counters_read(&tcp_server->loops[i].counters, sums);
    sums->values[UVHTTP__COUNTER_connections_limit] = tcp_server->connections_limit;
}
