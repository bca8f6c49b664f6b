/* Owns: the life of a server's loops: making, running, draining and ending them. Listening and accepting are in
 * accept.c. May include: io, base, obs. */
#include "conn/host.h"
#include "base/hot.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "conn/address_limit.h"
#include "conn/host_internal.h"

static _Thread_local uvhttp__loop_t *current_loop;

uvhttp__loop_t *uvhttp__host_current_loop(void) {
    return current_loop;
}

/* --- attached servers, the last one first: a thread may have several, and each may be freed before the others --- */

static pthread_mutex_t attached_lock = PTHREAD_MUTEX_INITIALIZER;
static uvhttp__host_t *attached;

static void attached_add(uvhttp__host_t *host) {
    host->thread = uvhttp__thread_number();
    pthread_mutex_lock(&attached_lock);
    host->next_attached = attached;
    attached = host;
    pthread_mutex_unlock(&attached_lock);
    current_loop = host->workers[0].loop;
}

/* The thread's loop is now that of another host which it has attached, if there is one. */
static void attached_remove(const uvhttp__host_t *host) {
    uvhttp__loop_t *other = NULL;
    pthread_mutex_lock(&attached_lock);
    for (uvhttp__host_t **at = &attached; *at;) {
        if (*at == host) {
            *at = host->next_attached;
            continue;
        }
        if (!other && (*at)->thread == host->thread) other = (*at)->workers[0].loop;
        at = &(*at)->next_attached;
    }
    pthread_mutex_unlock(&attached_lock);
    if (current_loop == host->workers[0].loop) current_loop = other;
}

static uint32_t cpu_count(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

static int workers_new(uvhttp__host_t *host, uint32_t count) {
    size_t size = count * sizeof(uvhttp__worker_t);
    host->workers = uvhttp__alloc_aligned(_Alignof(uvhttp__worker_t), size);
    if (!host->workers) return UVHTTP_E_NOMEM;
    memset(host->workers, 0, size);
    host->worker_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uvhttp__worker_t *worker = &host->workers[i];
        worker->host = host;
        worker->index = i;
        uvhttp__list_init(&worker->conns);
        uvhttp__list_init(&worker->idle);
        uvhttp__slab_init(&worker->slab, host->options.ops->conn_size);
    }
    return UVHTTP_OK;
}

int uvhttp__host_new(const uvhttp__host_options_t *options, uvhttp__host_t **host) {
    uvhttp__host_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return UVHTTP_E_NOMEM;
    made->options = *options;
    made->connections_limit = options->max_connections;
    int status = workers_new(made, options->io_threads ? options->io_threads : cpu_count());
    if (status == UVHTTP_OK && options->max_connections_per_address > 0) {
        made->addresses = uvhttp__address_limit_new(options->max_connections_per_address);
        if (!made->addresses) status = UVHTTP_E_NOMEM;
    }
    if (status != UVHTTP_OK) {
        uvhttp__free_aligned(made->workers);
        uvhttp__free(made);
        return status;
    }
    pthread_mutex_init(&made->stop_lock, NULL);
    *host = made;
    return UVHTTP_OK;
}

/* --- ending --- */

static void tell_drain(uvhttp__worker_t *worker, bool cut) {
    const uvhttp__conn_ops_t *ops = worker->host->options.ops;
    if (worker->started && ops->on_worker_drain) ops->on_worker_drain(worker, cut);
}

static void cut_off(uvhttp__worker_t *worker) {
    if (worker->cut) return;
    worker->cut = true;
    unsigned count = 0;
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, &worker->conns) {
        uvhttp__conn_t *conn = UVHTTP__CONTAINER_OF(node, uvhttp__conn_t, link);
        if (!(conn->flags & UVHTTP__CONN_LINGERING)) count++;
        uvhttp__conn_close(conn, UVHTTP_E_TIMEOUT);
    }
    if (count > 0) {
        uvhttp__counters_add(&worker->counters, drain_cut_off, count);
        UVHTTP_LOG_WARN("%s: drain: %u connections cut off while they were being served", worker->host->options.name,
                        count);
    }
    tell_drain(worker, true);
}

static void on_worker_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel;
    uvhttp__worker_t *worker = user;
    if (timer == &worker->drain_timer)
        cut_off(worker);
    else
        uvhttp__worker_find_room(worker, true);
}

static void drain(uvhttp__worker_t *worker) {
    if (worker->draining) return;
    uvhttp__worker_idle_drain(worker);
    worker->draining = true;
    UVHTTP_LOG_INFO("%s: loop %u drains: %u connections of all loops are open, for at most %u s",
                    worker->host->options.name, worker->index, atomic_load(&worker->host->connections),
                    worker->host->options.drain_timeout);
    atomic_store_explicit(&worker->host->stopping, true, memory_order_relaxed);
    uvhttp__worker_close_listeners(worker);
    uvhttp__timer_set(&worker->loop->wheel, &worker->drain_timer,
                      worker->loop->now_ms + (uint64_t)worker->host->options.drain_timeout * 1000);
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, &worker->conns) {
        uvhttp__conn_t *conn = UVHTTP__CONTAINER_OF(node, uvhttp__conn_t, link);
        uvhttp__conn_drain(conn);
    }
    tell_drain(worker, false);
    uvhttp__worker_check_done(worker);
}

static void on_stop_post(uvhttp__post_t *post) {
    uvhttp__worker_t *worker = UVHTTP__CONTAINER_OF(post, uvhttp__worker_t, stop_post);
    drain(worker);
}

static void on_cut_post(uvhttp__post_t *post) {
    uvhttp__worker_t *worker = UVHTTP__CONTAINER_OF(post, uvhttp__worker_t, cut_post);
    drain(worker);
    cut_off(worker);
}

/* --- stopping, from any thread --- */

/* A message may be in a loop's queue only once: that is why each level is posted once, when it is reached or when the
 * loops are there. */
static void post_stop(uvhttp__host_t *host) {
    for (uint32_t i = 0; i < host->worker_count; i++) {
        uvhttp__worker_t *worker = &host->workers[i];
        uvhttp__loop_post(worker->loop, host->stop_level == 1 ? &worker->stop_post : &worker->cut_post);
    }
}

static void raise_stop_level(uvhttp__host_t *host, int level) {
    if (level <= host->stop_level) return;
    host->stop_level = level;
    if (host->loops_ready) post_stop(host);
}

static void request_stop(uvhttp__host_t *host, int level) {
    pthread_mutex_lock(&host->stop_lock);
    raise_stop_level(host, level);
    pthread_mutex_unlock(&host->stop_lock);
}

/* A stop that came before the loops were there reaches them now. */
static void loops_begin(uvhttp__host_t *host) {
    pthread_mutex_lock(&host->stop_lock);
    host->loops_ready = true;
    if (host->stop_level) post_stop(host);
    pthread_mutex_unlock(&host->stop_lock);
}

/* After this no other thread uses a loop: the loops and the server may be freed. */
static void loops_end(uvhttp__host_t *host) {
    pthread_mutex_lock(&host->stop_lock);
    host->loops_ready = false;
    pthread_mutex_unlock(&host->stop_lock);
}

void uvhttp__host_stop(uvhttp__host_t *host) {
    request_stop(host, 1);
}

/* The first signal drains, the second cuts off. */
static void on_signal(int signal_number, void *arg) {
    uvhttp__host_t *host = arg;
    if (signal_number == SIGHUP) {
        host->on_hangup(host->on_hangup_arg);
        return;
    }
    pthread_mutex_lock(&host->stop_lock);
    raise_stop_level(host, host->stop_level ? 2 : 1);
    pthread_mutex_unlock(&host->stop_lock);
}

/* --- workers --- */

/* One loop cannot serve any more: clients would be spread over it all the same. The server ends, and says so. */
static void on_loop_failed(uvhttp__loop_t *loop, void *arg) {
    const uvhttp__worker_t *worker = arg;
    uvhttp__host_t *host = worker->host;
    pthread_mutex_lock(&host->stop_lock);
    if (host->failure == UVHTTP_OK)
        snprintf(host->error, sizeof host->error, "loop %u: %s: %s", worker->index, uvhttp__loop_engine_name(loop),
                 strerrordesc_np(loop->failure));
    host->failure = UVHTTP_E_IO;
    raise_stop_level(host, 2);
    pthread_mutex_unlock(&host->stop_lock);
}

UVHTTP__HOT static void on_turn_end(uvhttp__loop_t *loop, void *arg) {
    (void)loop;
    uvhttp__worker_t *worker = arg;
    worker->host->options.ops->on_turn_end(worker);
}

static int worker_make_loop(uvhttp__worker_t *worker) {
    uvhttp__host_t *host = worker->host;
    uvhttp__loop_options_t options = {.engine = host->options.engine,
                                      .host = host->uv,
                                      .receive_buffer_size = host->options.read_buffer_size,
                                      .receive_buffer_count = host->options.read_buffer_count,
                                      .counters = &worker->counters,
                                      .index = worker->index,
                                      .on_turn_end = host->options.ops->on_turn_end ? on_turn_end : NULL,
                                      .on_failed = on_loop_failed,
                                      .arg = worker};
    int status = uvhttp__loop_new(&options, &worker->loop);
    if (status != UVHTTP_OK) {
        snprintf(host->error, sizeof host->error, "loop %u: %s", worker->index, uvhttp_error_message(status));
        return status;
    }
    worker->stop_post.run = on_stop_post;
    worker->cut_post.run = on_cut_post;
    worker->conn_timer_kind = uvhttp__wheel_kind(&worker->loop->wheel, uvhttp__conn_on_timer, worker);
    uvhttp__timer_kind_t kind = uvhttp__wheel_kind(&worker->loop->wheel, on_worker_timer, worker);
    uvhttp__timer_init(&worker->drain_timer, kind);
    uvhttp__timer_init(&worker->room_timer, kind);
    return UVHTTP_OK;
}

static int worker_start(uvhttp__worker_t *worker) {
    const uvhttp__conn_ops_t *ops = worker->host->options.ops;
    int status = ops->on_worker_start ? ops->on_worker_start(worker) : UVHTTP_OK;
    if (status == UVHTTP_OK) {
        worker->started = true;
        status = uvhttp__worker_open_listeners(worker);
    }
    if (status != UVHTTP_OK)
        snprintf(worker->host->error, sizeof worker->host->error, "loop %u: %s", worker->index,
                 uvhttp_error_message(status));
    return status;
}

static void worker_free(uvhttp__worker_t *worker) {
    if (worker->started && worker->host->options.ops->on_worker_stop) worker->host->options.ops->on_worker_stop(worker);
    worker->started = false;
    uvhttp__slab_deinit(&worker->slab);
    uvhttp__free(worker->output_checks);
    worker->output_checks = NULL;
    uvhttp__free(worker->listeners);
    worker->listeners = NULL;
}

static void *worker_run(void *arg) {
    uvhttp__worker_t *worker = arg;
    current_loop = worker->loop;
    uvhttp__loop_run(worker->loop);
    current_loop = NULL;
    return NULL;
}

/* --- running on threads of our own --- */

static void free_loops(uvhttp__host_t *host) {
    for (uint32_t i = 0; i < host->worker_count; i++) {
        uvhttp__worker_t *worker = &host->workers[i];
        worker_free(worker);
        if (worker->loop) uvhttp__loop_free(worker->loop, NULL, NULL);
        worker->loop = NULL;
    }
}

/* Those that no worker has taken over. */
static void close_sockets(uvhttp__host_t *host) {
    for (uint32_t i = 0; i < host->endpoint_count * host->worker_count; i++) {
        if (host->fds[i] >= 0) close(host->fds[i]);
        host->fds[i] = -1;
    }
}

/* As early as there is a loop for them: clients can connect already. A server that a signal would end without a drain
 * does not start. */
static int start_signals(uvhttp__host_t *host) {
    if (!host->options.install_signal_handlers) return UVHTTP_OK;
    int status = uvhttp__loop_signals_start(host->workers[0].loop, host->on_hangup, on_signal, host);
    if (status != UVHTTP_OK)
        snprintf(host->error, sizeof host->error, "handlers of signals: %s", uvhttp_error_message(status));
    return status;
}

static int make_loops(uvhttp__host_t *host) {
    for (uint32_t i = 0; i < host->worker_count; i++) {
        int status = worker_make_loop(&host->workers[i]);
        if (status == UVHTTP_OK && i == 0) status = start_signals(host);
        if (status == UVHTTP_OK) status = worker_start(&host->workers[i]);
        if (status != UVHTTP_OK) return status;
    }
    return UVHTTP_OK;
}

/* Returns how many threads run; fewer than asked for if the system refuses one, which ends the start. */
static uint32_t start_threads(uvhttp__host_t *host) {
    uint32_t running = 1;
    for (; running < host->worker_count; running++) {
        uvhttp__worker_t *worker = &host->workers[running];
        if (!uvhttp__thread_start(&worker->thread, worker_run, worker)) break;
    }
    return running;
}

int uvhttp__host_run(uvhttp__host_t *host, void (*on_ready)(void *arg), void *arg) {
    if (host->running || host->finished || host->uv) return UVHTTP_E_STATE;
    host->running = true;
    int status = make_loops(host);
    if (status != UVHTTP_OK) {
        /* Loops that exist have listeners: they iterate once more to close them. */
        for (uint32_t i = 0; i < host->worker_count; i++) {
            if (!host->workers[i].loop) continue;
            uvhttp__loop_post(host->workers[i].loop, &host->workers[i].cut_post);
            worker_run(&host->workers[i]);
        }
        if (host->workers[0].loop) uvhttp__loop_signals_stop(host->workers[0].loop);
        free_loops(host);
        close_sockets(host); /* clients must not wait for a server that will not come */
        host->running = false;
        host->finished = true;
        return status;
    }
    uvhttp__host_fit_descriptors(host, host->options.raise_descriptor_limit);
    if (on_ready) on_ready(arg);
    loops_begin(host);
    uint32_t threads = start_threads(host);
    if (threads < host->worker_count) {
        snprintf(host->error, sizeof host->error, "thread %u cannot be started", threads);
        status = UVHTTP_E_LIMIT;
        request_stop(host, 2);
    }
    worker_run(&host->workers[0]);
    for (uint32_t i = 1; i < host->worker_count; i++) {
        if (i < threads)
            pthread_join(host->workers[i].thread, NULL);
        else
            worker_run(&host->workers[i]);
    }
    uvhttp__loop_signals_stop(host->workers[0].loop);
    loops_end(host);
    free_loops(host);
    uvhttp__host_forget_descriptors(host);
    host->running = false;
    host->finished = true;
    return status == UVHTTP_OK ? host->failure : status;
}

/* --- attached to the application's loop --- */

int uvhttp__host_attach(uvhttp__host_t *host, struct uv_loop_s *uv) {
    if (host->running || host->finished || host->uv || host->endpoint_count > 0) return UVHTTP_E_STATE;
    host->uv = uv;
    host->worker_count = 1;
    int status = worker_make_loop(&host->workers[0]);
    if (status == UVHTTP_OK) status = worker_start(&host->workers[0]);
    if (status == UVHTTP_OK) {
        uvhttp__host_fit_descriptors(host, false);
        host->running = true;
        attached_add(host);
        loops_begin(host);
        return UVHTTP_OK;
    }
    /* An existing loop has handles in the application's loop, which use the server until they have closed: host_free
     * waits for them. */
    host->finished = true;
    if (!host->workers[0].loop) host->uv = NULL;
    return status;
}

static void host_delete(void *arg) {
    uvhttp__host_t *host = arg;
    close_sockets(host);
    uvhttp__host_forget_descriptors(host);
    for (uint32_t i = 0; i < host->worker_count; i++)
        if (host->workers[i].upper && host->options.ops->on_worker_delete)
            host->options.ops->on_worker_delete(&host->workers[i]);
    for (uint32_t i = 0; i < host->endpoint_count; i++)
        if (host->filters[i].open) host->filters[i].release(host->filters[i].arg);
    uvhttp__address_limit_free(host->addresses);
    uvhttp__free(host->filters);
    uvhttp__free(host->fds);
    uvhttp__free(host->endpoints);
    uvhttp__free_aligned(host->workers);
    pthread_mutex_destroy(&host->stop_lock);
    uvhttp__free(host);
}

void uvhttp__host_free(uvhttp__host_t *host) {
    if (!host) return;
    if (!host->uv) {
        host_delete(host);
        return;
    }
    loops_end(host);
    worker_free(&host->workers[0]);
    attached_remove(host);
    uvhttp__loop_free(host->workers[0].loop, host_delete, host);
}

void uvhttp__host_counters(const uvhttp__host_t *host, uvhttp__counter_sums_t *sums) {
    memset(sums, 0, sizeof *sums);
    for (uint32_t i = 0; i < host->worker_count; i++) uvhttp__counters_read(&host->workers[i].counters, sums);
    sums->values[UVHTTP__COUNTER_connections_limit] = host->connections_limit;
}
