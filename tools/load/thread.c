/* Owns: the phases of a thread, the pacing of an open loop, and the run as a whole. May include: base, io, obs. */
#include "load/h2_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/libc.h"

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

static void stop_if_closed(load_thread_t *thread) {
    if (thread->phase != LOAD_STOPPING || thread->open > 0) return;
    if (thread->pace) uvhttp__fine_timer_free(thread->pace);
    thread->pace = NULL;
    uvhttp__loop_stop(thread->loop);
}

static void end_window(load_thread_t *thread, uint64_t end_ns) {
    load_stats_t *stats = &thread->stats;
    if (thread->measuring) {
        load_cpu_t now = load_cpu_now();
        stats->cpu = (load_cpu_t){now.user_ns - thread->cpu_begin.user_ns, now.system_ns - thread->cpu_begin.system_ns,
                                  now.switches - thread->cpu_begin.switches};
    }
    thread->measuring = false;
    if (end_ns < stats->end_ns) stats->end_ns = end_ns;
    if (stats->end_ns < stats->start_ns) stats->start_ns = stats->end_ns; /* ended in the warm-up: nothing counted */
}

void load_thread_closed(load_thread_t *thread) {
    thread->open--;
    stop_if_closed(thread);
}

/* --- open loop --- */

static bool is_due(const load_thread_t *thread, uint64_t now_ns) {
    return thread->quota > 0 && thread->arrivals.next_ns <= now_ns && thread->arrivals.next_ns < thread->stats.end_ns;
}

static void take_arrival(load_thread_t *thread) {
    load_stats_t *stats = &thread->stats;
    if (stats->stages) {
        stats->stage_now = load_stages_find(&thread->options->stages, thread->arrivals.next_ns - stats->start_ns);
        stats->stages[stats->stage_now].due++;
    }
    load_arrivals_take(&thread->arrivals);
}

/* --- requests without a response at the end --- */

/* Closed loop: some requests are always under way when it ends. They count if they have waited longer than any response
 * took and than is usual, so that a server does not hide a request by never responding to it. */
static void record_oldest(load_thread_t *thread, uint64_t now) {
    uint64_t max = uvhttp__histogram_max(&thread->stats.latency);
    if (max < UNUSUAL_NS) max = UNUSUAL_NS;
    for (uint32_t i = 0; i < thread->conn_count; i++) {
        const load_conn_t *conn = &thread->conns[i];
        for (uvhttp__list_t *link = conn->waiting.next; link != &conn->waiting; link = link->next) {
            const load_flight_t *flight = load_flight_of(link);
            if (flight->sent_ns && now > flight->sent_ns && now - flight->sent_ns > max)
                load_record_waited(thread, flight, now);
        }
    }
}

/* Open loop: each that was due counts with its age, sent or not. */
static uint64_t record_pending(load_thread_t *thread, uint64_t now) {
    uint64_t unsent = 0;
    for (uint32_t i = 0; i < thread->conn_count; i++) {
        const uvhttp__list_t *waiting = &thread->conns[i].waiting;
        for (uvhttp__list_t *link = waiting->next; link != waiting; link = link->next)
            load_record_waited(thread, load_flight_of(link), now);
    }
    for (; is_due(thread, now); unsent++) {
        load_record_waited(thread, &(load_flight_t){.due_ns = thread->arrivals.next_ns}, now);
        take_arrival(thread);
        if (thread->quota != UINT64_MAX) thread->quota--;
    }
    return unsent;
}

static uint64_t count_missing(load_thread_t *thread) {
    uint64_t now = uvhttp__clock_ns(), missing = thread->in_flight;
    if (thread->options->is_open)
        missing += record_pending(thread, now);
    else if (thread->measuring)
        record_oldest(thread, now < thread->stats.end_ns ? now : thread->stats.end_ns - 1);
    thread->stats.pending += missing;
    return missing;
}

/* Returns how many requests have no response. */
static uint64_t stop(load_thread_t *thread) {
    if (thread->phase == LOAD_STOPPING) return 0;
    uint64_t missing = thread->phase == LOAD_CONNECTING ? 0 : count_missing(thread);
    thread->phase = LOAD_STOPPING;
    end_window(thread, uvhttp__clock_ns());
    uvhttp__timer_stop(&thread->loop->wheel, &thread->timer);
    uvhttp__timer_stop(&thread->loop->wheel, &thread->sample);
    for (uint32_t i = 0; i < thread->conn_count; i++) load_conn_stop(&thread->conns[i]);
    stop_if_closed(thread);
    return missing;
}

void load_thread_responded(load_thread_t *thread, uint64_t n) {
    if (thread->to_respond == UINT64_MAX) return;
    thread->to_respond -= n < thread->to_respond ? n : thread->to_respond;
    if (thread->to_respond == 0 && thread->phase != LOAD_CONNECTING) stop(thread);
}

/* A number of requests has no other end when the server is gone; a time has. */
void load_thread_connected(load_thread_t *thread, bool well) {
    thread->failed = well ? 0 : thread->failed + 1;
    if (thread->to_respond == UINT64_MAX || thread->phase == LOAD_CONNECTING) return;
    if (thread->failed > FAILED_MIN && thread->failed > 2 * thread->conn_count) stop(thread);
}

/* Open loop, draining: what was never sent, because no connection was free, or has no response, has failed. */
static void give_up(load_thread_t *thread) {
    uint64_t missing = stop(thread);
    if (missing == 0) return;
    load_stats_error(&thread->stats, LOAD_ERROR_timeout, missing, "never responded to: the rate is more than there is");
    load_thread_responded(thread, missing);
}

static void drain_if_done(load_thread_t *thread) {
    if (thread->phase == LOAD_DRAINING && thread->in_flight == 0 && !is_due(thread, UINT64_MAX)) stop(thread);
}

/* Sends what is due as long as a connection is free. What is due and finds none waits in the sequence of arrivals,
 * which costs no memory, and its clock runs. */
static void pump(load_thread_t *thread, uint64_t now_ns) {
    while (is_due(thread, now_ns) && !uvhttp__list_empty(&thread->free)) {
        uint64_t due_ns = thread->arrivals.next_ns;
        take_arrival(thread);
        if (thread->keeps_up && thread->measuring) uvhttp__histogram_record(&thread->stats.lateness, now_ns - due_ns);
        load_conn_send_due(UVHTTP__CONTAINER_OF(uvhttp__list_front(&thread->free), load_conn_t, free), due_ns);
    }
    thread->keeps_up = !is_due(thread, now_ns);
    uint64_t next = uvhttp__list_empty(&thread->free) || !is_due(thread, UINT64_MAX) ? 0 : thread->arrivals.next_ns;
    if (next != thread->pace_ns) uvhttp__fine_timer_set(thread->pace, next);
    thread->pace_ns = next;
}

/* Before the flush: what was queued in this iteration is sent now. */
static void on_iteration_end(uvhttp__loop_t *loop, void *arg) {
    (void)loop;
    load_thread_t *thread = arg;
    bool is_open = thread->options->is_open && (thread->phase == LOAD_RUNNING || thread->phase == LOAD_DRAINING);
    if (!is_open && thread->sent_count == 0) return;
    uint64_t now = uvhttp__clock_ns();
    if (is_open) pump(thread, now);
    for (uint32_t i = 0; i < thread->sent_count; i++) {
        load_conn_t *conn = thread->sent[i];
        conn->unstamped = false;
        for (uvhttp__list_t *link = conn->waiting.prev; link != &conn->waiting; link = link->prev) {
            if (load_flight_of(link)->sent_ns > 0) break;
            load_flight_of(link)->sent_ns = now;
        }
    }
    thread->sent_count = 0;
    if (is_open) drain_if_done(thread);
}

/* --- phases --- */

static void set_deadline(load_thread_t *thread, uint64_t ns) {
    uvhttp__timer_set(&thread->loop->wheel, &thread->timer, (ns + MS_NS - 1) / MS_NS);
}

static void begin_window(load_thread_t *thread) {
    thread->measuring = true;
    thread->cpu_begin = load_cpu_now();
    thread->sampled_ns = thread->loop->now_ns;
    thread->sampled_responses = thread->stats.responses;
    uvhttp__timer_set(&thread->loop->wheel, &thread->sample, thread->loop->now_ms + SAMPLE_MS);
    set_deadline(thread, thread->stats.end_ns);
    if (thread->index > 0) return;
    atomic_store(&thread->run->window_ns, thread->stats.start_ns);
    pthread_kill(thread->run->waiter, SIGUSR1);
}

static void on_sample(load_thread_t *thread) {
    uint64_t now = thread->loop->now_ns, responses = thread->stats.responses;
    if (now > thread->sampled_ns) {
        double rate = (double)(responses - thread->sampled_responses) * 1e9 / (double)(now - thread->sampled_ns);
        uvhttp__histogram_record(&thread->stats.rates, (uint64_t)(rate + 0.5));
    }
    thread->sampled_ns = now;
    thread->sampled_responses = responses;
    uvhttp__timer_set(&thread->loop->wheel, &thread->sample, thread->loop->now_ms + SAMPLE_MS);
}

/* --warmup auto, the first worker: another slice has passed. */
static void on_slice(load_thread_t *thread) {
    load_run_t *run = thread->run;
    load_warmup_t *warmup = &run->warmup;
    uint64_t responses = 0, latency_ns = 0, now = uvhttp__clock_ns();
    for (uint32_t i = 0; i < run->thread_count; i++) {
        responses += atomic_load_explicit(&run->threads[i].warm_responses, memory_order_relaxed);
        latency_ns += atomic_load_explicit(&run->threads[i].warm_latency_ns, memory_order_relaxed);
    }
    warmup->elapsed_ns = now - run->start_ns;
    warmup->is_steady = load_steady_add(&warmup->steady, responses, latency_ns);
    if (!warmup->is_steady && warmup->elapsed_ns < thread->options->warmup_ns) {
        set_deadline(thread, now + LOAD_STEADY_SLICE_MS * MS_NS);
        return;
    }
    warmup->elapsed_ns += SETTLED_MS * MS_NS;
    for (uint32_t i = 0; i < run->thread_count; i++) uvhttp__loop_post(run->threads[i].loop, &run->threads[i].settled);
}

static void on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    load_thread_t *thread = user;
    if (thread->phase == LOAD_STOPPING) return;
    if (timer == &thread->sample) {
        on_sample(thread);
    } else if (thread->phase == LOAD_DRAINING) {
        give_up(thread);
    } else if (thread->warming) {
        on_slice(thread);
    } else if (!thread->measuring) {
        begin_window(thread);
    } else if (thread->options->is_open) {
        end_window(thread, thread->stats.end_ns);
        uvhttp__timer_stop(wheel, &thread->sample);
        thread->phase = LOAD_DRAINING; /* the end of this iteration looks whether anything is left */
        set_deadline(thread, thread->stats.end_ns + thread->options->drain_ns);
    } else {
        stop(thread);
    }
}

static void set_window(load_thread_t *thread, uint64_t start_ns) {
    thread->stats.start_ns = start_ns;
    thread->stats.end_ns = start_ns + thread->options->duration_ns;
    thread->warming = false;
    if (start_ns > uvhttp__clock_ns())
        set_deadline(thread, start_ns);
    else
        begin_window(thread);
}

/* No response counts before the server is steady. */
static void await_steady(load_thread_t *thread) {
    thread->stats.start_ns = thread->stats.end_ns = UINT64_MAX;
    thread->warming = true;
    if (thread->index == 0) set_deadline(thread, thread->run->start_ns + LOAD_STEADY_SLICE_MS * MS_NS);
}

static void on_settled(uvhttp__post_t *post) {
    load_thread_t *thread = UVHTTP__CONTAINER_OF(post, load_thread_t, settled);
    if (thread->phase == LOAD_RUNNING) set_window(thread, thread->run->start_ns + thread->run->warmup.elapsed_ns);
}

/* All connections of all threads have been tried. */
static void on_go(uvhttp__post_t *post) {
    load_thread_t *thread = UVHTTP__CONTAINER_OF(post, load_thread_t, go);
    const load_options_t *options = thread->options;
    if (thread->phase != LOAD_CONNECTING) return;
    thread->phase = LOAD_RUNNING;
    if (options->stages.count > 0)
        load_arrivals_init_stages(&thread->arrivals, thread->run->start_ns, &options->stages, thread->index,
                                  options->threads, options->arrivals == LOAD_POISSON, options->seed);
    else if (options->is_open)
        load_arrivals_init(&thread->arrivals, thread->run->start_ns, options->rate, thread->index, options->threads,
                           options->arrivals == LOAD_POISSON, options->seed);
    if (options->warmup_auto)
        await_steady(thread);
    else
        set_window(thread, thread->run->start_ns + options->warmup_ns);
    for (uint32_t i = 0; i < thread->conn_count; i++) load_conn_begin(&thread->conns[i]);
    load_thread_responded(thread, 0); /* -n 1 with two threads: nothing to do for one of them */
}

/* In the loop: before it runs nothing more than its queue holds could be given to the kernel. */
static void on_begin(uvhttp__post_t *post) {
    load_thread_t *thread = UVHTTP__CONTAINER_OF(post, load_thread_t, begin);
    if (thread->phase != LOAD_CONNECTING) return;
    for (uint32_t i = 0; i < thread->conn_count; i++) load_conn_open(&thread->conns[i]);
}

static void on_stop(uvhttp__post_t *post) {
    stop(UVHTTP__CONTAINER_OF(post, load_thread_t, stop));
}

void load_thread_tried(load_thread_t *thread) {
    load_run_t *run = thread->run;
    if (++thread->tried < thread->conn_count) return;
    if (atomic_fetch_add(&run->ready, 1) + 1 < run->thread_count) return;
    run->start_ns = uvhttp__clock_ns();
    for (uint32_t i = 0; i < run->thread_count; i++) uvhttp__loop_post(run->threads[i].loop, &run->threads[i].go);
}

/* --- threads --- */

static void *thread_main(void *arg) {
    load_thread_t *thread = arg;
    load_run_t *run = thread->run;
    uvhttp__loop_post(thread->loop, &thread->begin);
    uvhttp__loop_run(thread->loop);
    if (atomic_fetch_add(&run->finished, 1) + 1 == run->thread_count) pthread_kill(run->waiter, SIGUSR1);
    return NULL;
}

/* The part of a whole that the one with this index gets. */
static uint64_t part_of(uint64_t whole, uint32_t index, uint32_t parts) {
    return whole / parts + (index < whole % parts);
}

static bool thread_init(load_thread_t *thread, load_run_t *run, uint32_t index) {
    const load_options_t *options = run->options;
    thread->run = run;
    thread->options = options;
    thread->plan = run->plan;
    thread->index = index;
    thread->next_request = index % run->plan->request_count;
    thread->conn_count = (uint32_t)part_of(options->connections, index, run->thread_count);
    thread->quota = thread->to_respond = UINT64_MAX;
    if (options->requests > 0)
        thread->quota = thread->to_respond = part_of(options->requests, index, run->thread_count);
    thread->begin.run = on_begin;
    thread->go.run = on_go;
    thread->settled.run = on_settled;
    thread->stop.run = on_stop;
    thread->keeps_up = true;
    load_stats_init(&thread->stats);
    if (options->stages.count > 0 && !load_stats_add_stages(&thread->stats, options->stages.count)) return false;
    uvhttp__list_init(&thread->free);
    const uvhttp__loop_options_t loop_options = {
        .engine = options->engine,
        .receive_buffer_size = RECEIVE_BUFFER_SIZE,
        .receive_buffer_count = RECEIVE_BUFFER_COUNT,
        .counters = &thread->counters,
        .on_iteration_end = on_iteration_end,
        .arg = thread,
    };
    if (uvhttp__loop_new(&loop_options, &thread->loop) != 0) return false;
    if (options->is_open && uvhttp__fine_timer_new(thread->loop, &thread->pace) != 0) return false;
    uvhttp__timer_kind_t kind = uvhttp__wheel_kind(&thread->loop->wheel, on_timer, thread);
    uvhttp__timer_init(&thread->timer, kind);
    uvhttp__timer_init(&thread->sample, kind);
    size_t bytes = thread->conn_count * sizeof *thread->conns;
    thread->conns = uvhttp__alloc_aligned(64, bytes);
    for (thread->slot_count = 1; thread->slot_count < options->pipeline;) thread->slot_count *= 2;
    if (options->http2) thread->slot_count *= 2; /* an old stream takes the slot of a new one seldom */
    thread->flights = uvhttp__calloc((size_t)thread->conn_count * thread->slot_count, sizeof *thread->flights);
    thread->sent = uvhttp__calloc(thread->conn_count, sizeof(load_conn_t *));
    if (options->http2 && !(thread->h2_scratch = uvhttp__malloc(LOAD_H2_SCRATCH_SIZE))) return false;
    if (!thread->conns || !thread->flights || !thread->sent) return false;
    memset(thread->conns, 0, bytes);
    uint32_t first = 0;
    for (uint32_t i = 0; i < index; i++) first += (uint32_t)part_of(options->connections, i, run->thread_count);
    for (uint32_t i = 0; i < thread->conn_count; i++)
        load_conn_init(&thread->conns[i], thread, thread->flights + (size_t)i * thread->slot_count, first + i);
    return true;
}

static void thread_deinit(load_thread_t *thread) {
    for (uint32_t i = 0; thread->conns && i < thread->conn_count; i++) load_conn_deinit(&thread->conns[i]);
    if (thread->pace) uvhttp__fine_timer_free(thread->pace); /* it has not run */
    if (thread->loop) uvhttp__loop_free(thread->loop, NULL, NULL);
    uvhttp__free_aligned(thread->conns);
    uvhttp__free(thread->flights);
    uvhttp__free(thread->sent);
    uvhttp__free(thread->h2_scratch);
    load_stats_deinit(&thread->stats);
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
    run->threads = uvhttp__alloc_aligned(64, options->threads * sizeof *run->threads);
    if (run->threads) {
        memset(run->threads, 0, options->threads * sizeof *run->threads);
        run->thread_count = options->threads;
    }
    bool ok = run->threads;
    for (uint32_t i = 0; ok && i < run->thread_count; i++) ok = thread_init(&run->threads[i], run, i);
    if (ok) return 0;
    fputs("uvhttp-load: no loop could be made: out of memory or descriptors, or the engine is not available here "
          "(--engine)\n",
          err);
    return LOAD_ERROR;
}

void load_run_deinit(load_run_t *run) {
    for (uint32_t i = 0; i < run->thread_count; i++) thread_deinit(&run->threads[i]);
    uvhttp__free_aligned(run->threads);
    run->threads = NULL;
    run->thread_count = 0;
}

/* A second signal ends the program at once. */
static void stop_all(load_run_t *run, uint32_t started, const sigset_t *signals) {
    if (run->interrupted) return;
    run->interrupted = true;
    sigset_t ending = *signals;
    sigdelset(&ending, SIGUSR1);
    for (uint32_t i = 0; i < started; i++) uvhttp__loop_post(run->threads[i].loop, &run->threads[i].stop);
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
    while (started < run->thread_count && error == 0) {
        load_thread_t *thread = &run->threads[started];
        error = pthread_create(&thread->handle, NULL, thread_main, thread);
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
    for (uint32_t i = 0; i < started; i++) pthread_join(run->threads[i].handle, NULL);
    if (run->sampler) load_sampler_end(run->sampler, run);
    return error == 0 ? 0 : LOAD_ERROR;
}
