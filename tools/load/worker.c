/* Owns: the phases of a thread, the pacing of an open loop, and the run as a whole. May include: base, io, obs. */
#include "load/h2_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"

#define MS_NS UINT64_C(1000000)
/* A closed loop: how long a request has to wait at least to count without a response. */
#define UNUSUAL_NS (1000 * MS_NS)

enum {
    SAMPLE_MS = 100,
    SETTLED_MS = 50, /* until when all threads have heard that the window begins */
    RECEIVE_BUFFER_SIZE = 32 * 1024,
    RECEIVE_BUFFER_COUNT = 256,
    SPARE_DESCRIPTORS = 32,
    FAILED_MIN = 10, /* attempts to connect */
};

/* --- the end of a worker --- */

static void stop_if_closed(load_worker_t *worker) {
    if (worker->phase != LOAD_STOPPING || worker->open > 0) return;
    if (worker->pace) uvhttp__fine_timer_free(worker->pace);
    worker->pace = NULL;
    uvhttp__loop_stop(worker->loop);
}

static void end_window(load_worker_t *worker, uint64_t end_ns) {
    load_stats_t *stats = &worker->stats;
    if (worker->measuring) {
        load_cpu_t now = load_cpu_now();
        stats->cpu = (load_cpu_t){now.user_ns - worker->cpu_begin.user_ns, now.system_ns - worker->cpu_begin.system_ns,
                                  now.switches - worker->cpu_begin.switches};
    }
    worker->measuring = false;
    if (end_ns < stats->end_ns) stats->end_ns = end_ns;
    if (stats->end_ns < stats->begin_ns) stats->begin_ns = stats->end_ns; /* ended in the warm-up: nothing counted */
}

void load_worker_closed(load_worker_t *worker) {
    worker->open--;
    stop_if_closed(worker);
}

/* --- open loop --- */

static bool is_due(const load_worker_t *worker, uint64_t now_ns) {
    return worker->quota > 0 && worker->arrivals.next_ns <= now_ns && worker->arrivals.next_ns < worker->stats.end_ns;
}

static void take_arrival(load_worker_t *worker) {
    load_stats_t *stats = &worker->stats;
    if (stats->stages) {
        stats->stage_now = load_stages_find(&worker->options->stages, worker->arrivals.next_ns - stats->begin_ns);
        stats->stages[stats->stage_now].due++;
    }
    load_arrivals_take(&worker->arrivals);
}

/* --- requests without a response at the end --- */

/* Closed loop: some requests are always under way when it ends. They count if they have waited longer than any response
 * took and than is usual, so that a server does not hide a request by never responding to it. */
static void record_oldest(load_worker_t *worker, uint64_t now) {
    uint64_t max = uvhttp__histogram_max(&worker->stats.latency);
    if (max < UNUSUAL_NS) max = UNUSUAL_NS;
    for (uint32_t i = 0; i < worker->conn_count; i++) {
        const load_conn_t *conn = &worker->conns[i];
        for (uvhttp__list_t *link = conn->waiting.next; link != &conn->waiting; link = link->next) {
            const load_flight_t *flight = load_flight_of(link);
            if (flight->sent_ns && now > flight->sent_ns && now - flight->sent_ns > max)
                load_record_waited(worker, flight, now);
        }
    }
}

/* Open loop: each that was due counts with its age, sent or not. */
static uint64_t record_unanswered(load_worker_t *worker, uint64_t now) {
    uint64_t unsent = 0;
    for (uint32_t i = 0; i < worker->conn_count; i++) {
        const uvhttp__list_t *waiting = &worker->conns[i].waiting;
        for (uvhttp__list_t *link = waiting->next; link != waiting; link = link->next)
            load_record_waited(worker, load_flight_of(link), now);
    }
    for (; is_due(worker, now); unsent++) {
        load_record_waited(worker, &(load_flight_t){.due_ns = worker->arrivals.next_ns}, now);
        take_arrival(worker);
        if (worker->quota != UINT64_MAX) worker->quota--;
    }
    return unsent;
}

static uint64_t count_missing(load_worker_t *worker) {
    uint64_t now = uvhttp__clock_ns(), missing = worker->in_flight;
    if (worker->options->is_open)
        missing += record_unanswered(worker, now);
    else if (worker->measuring)
        record_oldest(worker, now < worker->stats.end_ns ? now : worker->stats.end_ns - 1);
    worker->stats.unanswered += missing;
    return missing;
}

static void stop(load_worker_t *worker) {
    if (worker->phase == LOAD_STOPPING) return;
    if (worker->phase == LOAD_RUNNING) count_missing(worker);
    worker->phase = LOAD_STOPPING;
    end_window(worker, uvhttp__clock_ns());
    uvhttp__timer_stop(&worker->loop->wheel, &worker->timer);
    uvhttp__timer_stop(&worker->loop->wheel, &worker->sample);
    for (uint32_t i = 0; i < worker->conn_count; i++) load_conn_stop(&worker->conns[i]);
    stop_if_closed(worker);
}

void load_worker_answered(load_worker_t *worker, uint64_t n) {
    if (worker->to_answer == UINT64_MAX) return;
    worker->to_answer -= n < worker->to_answer ? n : worker->to_answer;
    if (worker->to_answer == 0 && worker->phase != LOAD_CONNECTING) stop(worker);
}

/* A number of requests has no other end when the server is gone; a time has. */
void load_worker_connected(load_worker_t *worker, bool well) {
    worker->failed = well ? 0 : worker->failed + 1;
    if (worker->to_answer == UINT64_MAX || worker->phase == LOAD_CONNECTING) return;
    if (worker->failed > FAILED_MIN && worker->failed > 2 * worker->conn_count) stop(worker);
}

/* Open loop, draining: what was never sent, because no connection was free, or has no response, has failed. */
static void give_up(load_worker_t *worker) {
    uint64_t missing = count_missing(worker);
    if (missing > 0)
        load_stats_error(&worker->stats, LOAD_ERROR_timeout, missing, "never answered: the rate is more than there is");
    stop(worker);
}

static void drain_if_done(load_worker_t *worker) {
    if (worker->phase == LOAD_DRAINING && worker->in_flight == 0 && !is_due(worker, UINT64_MAX)) stop(worker);
}

/* Sends what is due as long as a connection is free. What is due and finds none waits in the sequence of arrivals,
 * which costs no memory, and its clock runs. */
static void pump(load_worker_t *worker, uint64_t now_ns) {
    while (is_due(worker, now_ns) && !uvhttp__list_empty(&worker->free)) {
        uint64_t due_ns = worker->arrivals.next_ns;
        take_arrival(worker);
        if (worker->keeps_up && worker->measuring) uvhttp__histogram_record(&worker->stats.lateness, now_ns - due_ns);
        load_conn_send_due(UVHTTP__CONTAINER_OF(uvhttp__list_front(&worker->free), load_conn_t, free), due_ns);
    }
    worker->keeps_up = !is_due(worker, now_ns);
    uint64_t next = uvhttp__list_empty(&worker->free) || !is_due(worker, UINT64_MAX) ? 0 : worker->arrivals.next_ns;
    if (next != worker->pace_ns) uvhttp__fine_timer_set(worker->pace, next);
    worker->pace_ns = next;
}

/* Before the flush: what was queued in this iteration is sent now. */
static void on_turn_end(uvhttp__loop_t *loop, void *arg) {
    (void)loop;
    load_worker_t *worker = arg;
    bool is_open = worker->options->is_open && (worker->phase == LOAD_RUNNING || worker->phase == LOAD_DRAINING);
    if (!is_open && worker->sent_count == 0) return;
    uint64_t now = uvhttp__clock_ns();
    if (is_open) pump(worker, now);
    for (uint32_t i = 0; i < worker->sent_count; i++) {
        load_conn_t *conn = worker->sent[i];
        conn->unstamped = false;
        for (uvhttp__list_t *link = conn->waiting.prev; link != &conn->waiting; link = link->prev) {
            if (load_flight_of(link)->sent_ns > 0) break;
            load_flight_of(link)->sent_ns = now;
        }
    }
    worker->sent_count = 0;
    if (is_open) drain_if_done(worker);
}

/* --- phases --- */

static void set_deadline(load_worker_t *worker, uint64_t ns) {
    uvhttp__timer_set(&worker->loop->wheel, &worker->timer, (ns + MS_NS - 1) / MS_NS);
}

static void begin_window(load_worker_t *worker) {
    worker->measuring = true;
    worker->cpu_begin = load_cpu_now();
    worker->sampled_ns = worker->loop->now_ns;
    worker->sampled_answers = worker->stats.answers;
    uvhttp__timer_set(&worker->loop->wheel, &worker->sample, worker->loop->now_ms + SAMPLE_MS);
    set_deadline(worker, worker->stats.end_ns);
    if (worker->index > 0) return;
    atomic_store(&worker->run->window_ns, worker->stats.begin_ns);
    pthread_kill(worker->run->waiter, SIGUSR1);
}

static void on_sample(load_worker_t *worker) {
    uint64_t now = worker->loop->now_ns, answers = worker->stats.answers;
    if (now > worker->sampled_ns) {
        double rate = (double)(answers - worker->sampled_answers) * 1e9 / (double)(now - worker->sampled_ns);
        uvhttp__histogram_record(&worker->stats.rates, (uint64_t)(rate + 0.5));
    }
    worker->sampled_ns = now;
    worker->sampled_answers = answers;
    uvhttp__timer_set(&worker->loop->wheel, &worker->sample, worker->loop->now_ms + SAMPLE_MS);
}

/* --warmup auto, the first worker: another slice has passed. */
static void on_slice(load_worker_t *worker) {
    load_run_t *run = worker->run;
    load_warmup_t *warmup = &run->warmup;
    uint64_t answers = 0, latency_ns = 0, now = uvhttp__clock_ns();
    for (uint32_t i = 0; i < run->worker_count; i++) {
        answers += atomic_load_explicit(&run->workers[i].warm_answers, memory_order_relaxed);
        latency_ns += atomic_load_explicit(&run->workers[i].warm_latency_ns, memory_order_relaxed);
    }
    warmup->elapsed_ns = now - run->start_ns;
    warmup->is_steady = load_steady_add(&warmup->steady, answers, latency_ns);
    if (!warmup->is_steady && warmup->elapsed_ns < worker->options->warmup_ns) {
        set_deadline(worker, now + LOAD_STEADY_SLICE_MS * MS_NS);
        return;
    }
    warmup->elapsed_ns += SETTLED_MS * MS_NS;
    for (uint32_t i = 0; i < run->worker_count; i++) uvhttp__loop_post(run->workers[i].loop, &run->workers[i].settled);
}

static void on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    load_worker_t *worker = user;
    if (worker->phase == LOAD_STOPPING) return;
    if (timer == &worker->sample) {
        on_sample(worker);
    } else if (worker->phase == LOAD_DRAINING) {
        give_up(worker);
    } else if (worker->warming) {
        on_slice(worker);
    } else if (!worker->measuring) {
        begin_window(worker);
    } else if (worker->options->is_open) {
        end_window(worker, worker->stats.end_ns);
        uvhttp__timer_stop(wheel, &worker->sample);
        worker->phase = LOAD_DRAINING; /* the end of this iteration looks whether anything is left */
        set_deadline(worker, worker->stats.end_ns + worker->options->drain_ns);
    } else {
        stop(worker);
    }
}

static void set_window(load_worker_t *worker, uint64_t begin_ns) {
    worker->stats.begin_ns = begin_ns;
    worker->stats.end_ns = begin_ns + worker->options->duration_ns;
    worker->warming = false;
    if (begin_ns > uvhttp__clock_ns())
        set_deadline(worker, begin_ns);
    else
        begin_window(worker);
}

/* No answer counts before the server is steady. */
static void await_steady(load_worker_t *worker) {
    worker->stats.begin_ns = worker->stats.end_ns = UINT64_MAX;
    worker->warming = true;
    if (worker->index == 0) set_deadline(worker, worker->run->start_ns + LOAD_STEADY_SLICE_MS * MS_NS);
}

static void on_settled(uvhttp__post_t *post) {
    load_worker_t *worker = UVHTTP__CONTAINER_OF(post, load_worker_t, settled);
    if (worker->phase == LOAD_RUNNING) set_window(worker, worker->run->start_ns + worker->run->warmup.elapsed_ns);
}

/* All connections of all threads have been tried. */
static void on_go(uvhttp__post_t *post) {
    load_worker_t *worker = UVHTTP__CONTAINER_OF(post, load_worker_t, go);
    const load_options_t *options = worker->options;
    if (worker->phase != LOAD_CONNECTING) return;
    worker->phase = LOAD_RUNNING;
    if (options->stages.count > 0)
        load_arrivals_init_stages(&worker->arrivals, worker->run->start_ns, &options->stages, worker->index,
                                  options->threads, options->arrivals == LOAD_POISSON, options->seed);
    else if (options->is_open)
        load_arrivals_init(&worker->arrivals, worker->run->start_ns, options->rate, worker->index, options->threads,
                           options->arrivals == LOAD_POISSON, options->seed);
    if (options->warmup_auto)
        await_steady(worker);
    else
        set_window(worker, worker->run->start_ns + options->warmup_ns);
    for (uint32_t i = 0; i < worker->conn_count; i++) load_conn_begin(&worker->conns[i]);
    load_worker_answered(worker, 0); /* -n 1 with two threads: nothing to do for one of them */
}

/* In the loop: before it runs nothing more than its queue holds could be given to the kernel. */
static void on_begin(uvhttp__post_t *post) {
    load_worker_t *worker = UVHTTP__CONTAINER_OF(post, load_worker_t, begin);
    if (worker->phase != LOAD_CONNECTING) return;
    for (uint32_t i = 0; i < worker->conn_count; i++) load_conn_open(&worker->conns[i]);
}

static void on_stop(uvhttp__post_t *post) {
    stop(UVHTTP__CONTAINER_OF(post, load_worker_t, stop));
}

void load_worker_tried(load_worker_t *worker) {
    load_run_t *run = worker->run;
    if (++worker->tried < worker->conn_count) return;
    if (atomic_fetch_add(&run->ready, 1) + 1 < run->worker_count) return;
    run->start_ns = uvhttp__clock_ns();
    for (uint32_t i = 0; i < run->worker_count; i++) uvhttp__loop_post(run->workers[i].loop, &run->workers[i].go);
}

/* --- threads --- */

static void *worker_main(void *arg) {
    load_worker_t *worker = arg;
    load_run_t *run = worker->run;
    uvhttp__loop_post(worker->loop, &worker->begin);
    uvhttp__loop_run(worker->loop);
    if (atomic_fetch_add(&run->finished, 1) + 1 == run->worker_count) pthread_kill(run->waiter, SIGUSR1);
    return NULL;
}

/* The part of a whole that the one with this index gets. */
static uint64_t part_of(uint64_t whole, uint32_t index, uint32_t parts) {
    return whole / parts + (index < whole % parts);
}

static bool worker_init(load_worker_t *worker, load_run_t *run, uint32_t index) {
    const load_options_t *options = run->options;
    worker->run = run;
    worker->options = options;
    worker->plan = run->plan;
    worker->index = index;
    worker->next_request = index % run->plan->request_count;
    worker->conn_count = (uint32_t)part_of(options->connections, index, run->worker_count);
    worker->quota = worker->to_answer = UINT64_MAX;
    if (options->requests > 0) worker->quota = worker->to_answer = part_of(options->requests, index, run->worker_count);
    worker->begin.run = on_begin;
    worker->go.run = on_go;
    worker->settled.run = on_settled;
    worker->stop.run = on_stop;
    worker->keeps_up = true;
    load_stats_init(&worker->stats);
    if (options->stages.count > 0 && !load_stats_add_stages(&worker->stats, options->stages.count)) return false;
    uvhttp__list_init(&worker->free);
    const uvhttp__loop_options_t loop_options = {
        .engine = options->engine,
        .receive_buffer_size = RECEIVE_BUFFER_SIZE,
        .receive_buffer_count = RECEIVE_BUFFER_COUNT,
        .counters = &worker->counters,
        .on_turn_end = on_turn_end,
        .arg = worker,
    };
    if (uvhttp__loop_new(&loop_options, &worker->loop) != 0) return false;
    if (options->is_open && uvhttp__fine_timer_new(worker->loop, &worker->pace) != 0) return false;
    uvhttp__timer_kind_t kind = uvhttp__wheel_kind(&worker->loop->wheel, on_timer, worker);
    uvhttp__timer_init(&worker->timer, kind);
    uvhttp__timer_init(&worker->sample, kind);
    size_t bytes = worker->conn_count * sizeof *worker->conns;
    worker->conns = uvhttp__alloc_aligned(64, bytes);
    for (worker->slot_count = 1; worker->slot_count < options->pipeline;) worker->slot_count *= 2;
    if (options->http2) worker->slot_count *= 2; /* an old stream takes the slot of a new one seldom */
    worker->flights = uvhttp__calloc((size_t)worker->conn_count * worker->slot_count, sizeof *worker->flights);
    worker->sent = uvhttp__calloc(worker->conn_count, sizeof(load_conn_t *));
    if (options->http2 && !(worker->h2_scratch = uvhttp__malloc(LOAD_H2_SCRATCH_SIZE))) return false;
    if (!worker->conns || !worker->flights || !worker->sent) return false;
    memset(worker->conns, 0, bytes);
    uint32_t first = 0;
    for (uint32_t i = 0; i < index; i++) first += (uint32_t)part_of(options->connections, i, run->worker_count);
    for (uint32_t i = 0; i < worker->conn_count; i++)
        load_conn_init(&worker->conns[i], worker, worker->flights + (size_t)i * worker->slot_count, first + i);
    return true;
}

static void worker_deinit(load_worker_t *worker) {
    for (uint32_t i = 0; worker->conns && i < worker->conn_count; i++) load_conn_deinit(&worker->conns[i]);
    if (worker->pace) uvhttp__fine_timer_free(worker->pace); /* it has not run */
    if (worker->loop) uvhttp__loop_free(worker->loop, NULL, NULL);
    uvhttp__free_aligned(worker->conns);
    uvhttp__free(worker->flights);
    uvhttp__free(worker->sent);
    uvhttp__free(worker->h2_scratch);
    load_stats_deinit(&worker->stats);
}

static bool raise_descriptors(uint32_t connections, uint32_t threads, FILE *err) {
    struct rlimit limit;
    rlim_t wanted = (rlim_t)connections + (rlim_t)threads * 16 + SPARE_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return true;
    if (limit.rlim_max >= wanted) {
        limit.rlim_cur = wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return true;
    }
    fprintf(err, "uvhttp-load: %u connections need %llu file descriptors and the limit is %llu: raise it (ulimit -n)\n",
            connections, (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
    return false;
}

int load_run_init(load_run_t *run, load_plan_t *plan, FILE *err) {
    const load_options_t *options = plan->options;
    plan->protocol = options->scheme == LOAD_TCP  ? &load_protocol_tcp
                     : options->scheme == LOAD_WS ? &load_protocol_ws
                     : options->http2             ? &load_protocol_h2
                                                  : &load_protocol_http;
    *run = (load_run_t){.options = options, .plan = plan};
    if (!raise_descriptors(options->connections, options->threads, err)) return LOAD_ERROR;
    run->workers = uvhttp__alloc_aligned(64, options->threads * sizeof *run->workers);
    if (run->workers) {
        memset(run->workers, 0, options->threads * sizeof *run->workers);
        run->worker_count = options->threads;
    }
    bool ok = run->workers;
    for (uint32_t i = 0; ok && i < run->worker_count; i++) ok = worker_init(&run->workers[i], run, i);
    if (ok) return 0;
    fputs("uvhttp-load: no loop could be made: out of memory or descriptors, or the engine is not available here "
          "(--engine)\n",
          err);
    return LOAD_ERROR;
}

void load_run_deinit(load_run_t *run) {
    for (uint32_t i = 0; i < run->worker_count; i++) worker_deinit(&run->workers[i]);
    uvhttp__free_aligned(run->workers);
    run->workers = NULL;
    run->worker_count = 0;
}

/* A second signal ends the program at once. */
static void stop_all(load_run_t *run, uint32_t started, const sigset_t *signals) {
    if (run->interrupted) return;
    run->interrupted = true;
    sigset_t ending = *signals;
    sigdelset(&ending, SIGUSR1);
    for (uint32_t i = 0; i < started; i++) uvhttp__loop_post(run->workers[i].loop, &run->workers[i].stop);
    pthread_sigmask(SIG_UNBLOCK, &ending, NULL);
}

int load_run(load_run_t *run, FILE *err) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    /* The threads inherit it: only this one hears. It stays so: the last thread's SIGUSR1 may come when its end has
     * been seen already, and what is left to do takes no time. */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    run->waiter = pthread_self();
    uint32_t started = 0;
    int error = 0;
    while (started < run->worker_count && error == 0) {
        load_worker_t *worker = &run->workers[started];
        error = pthread_create(&worker->thread, NULL, worker_main, worker);
        started += error == 0;
    }
    if (error != 0) {
        fprintf(err, "uvhttp-load: thread %u cannot be started: %s\n", started, strerrordesc_np(error));
        stop_all(run, started, &signals);
    }
    while (atomic_load(&run->finished) < started) {
        /* The limit is for a run that could not start all of its threads: none of them is the last then. */
        uint64_t pause_ns = run->sampler ? load_sampler_tick(run->sampler, run) : MS_NS * 1000;
        int signal_number = sigtimedwait(&signals, NULL,
                                         &(struct timespec){.tv_sec = (time_t)(pause_ns / (MS_NS * 1000)),
                                                            .tv_nsec = (long)(pause_ns % (MS_NS * 1000))});
        if (signal_number == SIGINT || signal_number == SIGTERM) stop_all(run, started, &signals);
    }
    for (uint32_t i = 0; i < started; i++) pthread_join(run->workers[i].thread, NULL);
    if (run->sampler) load_sampler_end(run->sampler, run);
    return error == 0 ? 0 : LOAD_ERROR;
}
