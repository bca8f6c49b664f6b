/* Owns: the application whose libuv loop a server is a guest of, in some seeds: its timers, prepare, check and idle
 * handles, long callbacks and a thread of its own; when it stops and frees the server. It checks that the guest lets it
 * run in time, lets it sleep when there is nothing to do, and leaves nothing behind. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvhttp.h>

#include "uv_loop.h"

enum {
    TICKS = 3,
    LATE_MS = 3,       /* of a timer, two of them by the clock's and the timer's granularity */
    QUIET_MAX = 1000,  /* iterations in which nobody has done anything */
    WOKEN_MAX = 100,   /* those of them that follow a wait */
    QUIET_MAX_A_S = 5, /* and per second of such a time, */
    LOOKS_A_S = 55,    /* ... if a client may wait for a place, for which the server looks all the time */
    BLOCK_MS_MAX = 20,
    PUMPS_MAX = 300,
};

typedef enum freeing { IN_ON_STOPPED, IN_A_CALLBACK, OUTSIDE, FREEINGS } freeing_t;
typedef enum stopping { BY_ANYBODY, ON_LOOP, BY_THREAD, STOPPINGS } stopping_t;

typedef struct tick {
    uv_timer_t timer;
    uint64_t due_ns, blocked_ns; /* blocked_ns: how long the application had blocked its loop when it was started */
} tick_t;

bool sim_is_guest;

static struct {
    uv_loop_t loop;
    sim_random_t random, of_thread;
    uvhttp_server_t *server; /* NULL: it was freed */
    freeing_t freeing;
    stopping_t stopping;
    tick_t ticks[TICKS];
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;
    uv_async_t async;
    uint32_t own_handles, tick_count, pumps_left, idle_left, sends_left;
    bool blocked, ended; /* ended: its handles are closing */
    uint64_t blocked_ns;
    uint32_t ready, stopped;           /* calls */
    bool stops_on_ready, stops_before; /* stops_before: the attach */
    uint64_t iterations, freed_at;     /* freed_at: iterations */
    uint64_t calls;                    /* of the application */
    uint64_t done_before, quiet, woken, quiet_since_ns, iterated_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    sem_t wake;
    bool stop_wanted; /* of the thread */
} guest = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void close_handle(void *handle);

/* --- work of its own --- */

bool sim_guest_is_blocked(void) {
    return guest.blocked;
}

void sim_guest_called(void) {
    guest.calls++;
}

static void block_for(uint64_t ns) {
    guest.blocked = true;
    sim_wait_time(sim_now_ns + ns);
    guest.blocked = false;
    guest.blocked_ns += ns;
}

void sim_guest_was_blocked(uint64_t since_ns) {
    guest.blocked_ns += sim_now_ns - since_ns;
}

static void on_prepare(uv_prepare_t *prepare) {
    (void)prepare;
}

static void on_check(uv_check_t *check) {
    (void)check;
}

static void on_idle(uv_idle_t *idle) {
    guest.calls++;
    if (guest.idle_left == 0 || --guest.idle_left == 0) uv_idle_stop(idle);
}

static void nothing(void *arg) {
    (void)arg;
}

static void work(void) {
    if (sim_one_in(&guest.random, 20)) block_for((1 + sim_below(&guest.random, BLOCK_MS_MAX)) * SIM_MS);
    if (sim_one_in(&guest.random, 8)) (void)sim_guest_later(sim_below(&guest.random, 5), nothing, NULL);
    if (!sim_one_in(&guest.random, 8)) return;
    guest.idle_left = 1 + sim_below(&guest.random, 20);
    uv_idle_start(&guest.idle, on_idle);
}

static void start_tick(tick_t *tick);

static void on_tick(uv_timer_t *timer) {
    tick_t *tick = timer->data;
    uint64_t blocked_ns = guest.blocked_ns - tick->blocked_ns, limit_ns = tick->due_ns + blocked_ns + LATE_MS * SIM_MS;
    guest.calls++;
    if (sim_now_ns > limit_ns)
        sim_fail("a timer of the application is %llu ms late",
                 (unsigned long long)((sim_now_ns - tick->due_ns - blocked_ns) / SIM_MS));
    if (guest.server && uvhttp_loop_uv() != &guest.loop) sim_fail("uvhttp_loop_uv is not the application's loop");
    work();
    start_tick(tick);
}

/* The longer it runs, the less often. */
static void start_tick(tick_t *tick) {
    uint32_t ms = sim_log_uniform(&guest.random, 50 + 20 * guest.tick_count++);
    tick->due_ns = sim_now_ns + ms * SIM_MS;
    tick->blocked_ns = guest.blocked_ns;
    uv_timer_start(&tick->timer, on_tick, ms, 0);
}

/* --- callbacks of each kind --- */

struct sim_later {
    union {
        uv_handle_t any;
        uv_timer_t timer;
        uv_prepare_t prepare;
        uv_check_t check;
        uv_idle_t idle;
        uv_async_t async;
    } handle;
    uv_idle_t also;      /* with `check`: without it the loop would wait in front of that */
    uv_handle_type type; /* UNKNOWN: when the timer has closed */
    void (*run)(void *arg);
    void *arg;
};

static void on_later_closed(uv_handle_t *handle) {
    free(handle->data);
    guest.own_handles--;
}

static void run_later(sim_later_t *later) {
    void (*run_now)(void *arg) = later->run;
    later->run = NULL;
    guest.calls++;
    if (run_now) run_now(later->arg);
}

static void on_later(uv_handle_t *handle) {
    run_later(handle->data);
    uv_close(handle, on_later_closed);
}

static void on_later_prepare(uv_prepare_t *handle) {
    on_later((uv_handle_t *)handle);
}

static void on_idle_closed(uv_handle_t *handle) {
    guest.own_handles--;
    uv_close(handle->data, on_later_closed);
}

static void on_later_check(uv_check_t *handle) {
    sim_later_t *later = handle->data;
    run_later(later);
    uv_check_stop(handle);
    uv_close((uv_handle_t *)&later->also, on_idle_closed);
}

static void nothing_idle(uv_idle_t *handle) {
    (void)handle;
}

static void on_later_idle(uv_idle_t *handle) {
    on_later((uv_handle_t *)handle);
}

static void on_later_async(uv_async_t *handle) {
    on_later((uv_handle_t *)handle);
}

/* The timer is over: the handle is now one of another type. */
static void on_later_timer_closed(uv_handle_t *handle) {
    sim_later_t *later = handle->data;
    switch (later->run ? later->type : UV_UNKNOWN_HANDLE) {
        case UV_PREPARE:
            uv_prepare_init(&guest.loop, &later->handle.prepare);
            uv_prepare_start(&later->handle.prepare, on_later_prepare);
            return;
        case UV_CHECK:
            uv_check_init(&guest.loop, &later->handle.check);
            uv_check_start(&later->handle.check, on_later_check);
            uv_idle_init(&guest.loop, &later->also);
            guest.own_handles++;
            later->also.data = &later->handle;
            uv_idle_start(&later->also, nothing_idle);
            return;
        case UV_IDLE:
            uv_idle_init(&guest.loop, &later->handle.idle);
            uv_idle_start(&later->handle.idle, on_later_idle);
            return;
        case UV_ASYNC:
            if (uv_async_init(&guest.loop, &later->handle.async, on_later_async) != 0) break;
            uv_async_send(&later->handle.async);
            return;
        default: break;
    }
    run_later(later);
    on_later_closed(handle);
}

static void on_later_timer(uv_timer_t *timer) {
    sim_later_t *later = timer->data;
    if (later->type != UV_TIMER) {
        uv_close((uv_handle_t *)timer, on_later_timer_closed);
        return;
    }
    on_later((uv_handle_t *)timer);
}

sim_later_t *sim_guest_later(uint32_t ms, void (*run)(void *arg), void *arg) {
    static const uv_handle_type types[] = {UV_TIMER, UV_PREPARE, UV_CHECK, UV_IDLE, UV_ASYNC, UV_UNKNOWN_HANDLE};
    sim_later_t *later = calloc(1, sizeof *later);
    if (!later) abort();
    later->run = run;
    later->arg = arg;
    later->type = types[sim_below(&guest.random, sizeof types / sizeof *types)];
    guest.own_handles++;
    later->handle.any.data = later;
    uv_timer_init(&guest.loop, &later->handle.timer);
    uv_timer_start(&later->handle.timer, on_later_timer, ms, 0);
    return later;
}

void sim_guest_cancel(sim_later_t *later) {
    if (later) later->run = NULL; /* its callback comes all the same */
}

/* --- the end of the server --- */

static void free_server(void *arg);

static void end_application(void *arg) {
    (void)arg;
    pthread_mutex_lock(&guest.lock);
    guest.ended = true;
    for (int i = 0; i < TICKS; i++) close_handle(&guest.ticks[i].timer);
    close_handle(&guest.prepare);
    close_handle(&guest.check);
    close_handle(&guest.idle);
    close_handle(&guest.async);
    pthread_mutex_unlock(&guest.lock);
    sem_post(&guest.wake);
}

/* It may wait for who reads the log. */
void sim_guest_free(uvhttp_server_t *server) {
    uint64_t begin_ns = sim_now_ns;
    guest.blocked = true;
    uvhttp_server_free(server);
    guest.blocked = false;
    sim_guest_was_blocked(begin_ns);
    guest.freed_at = guest.iterations;
}

static void free_server(void *arg) {
    if (!guest.server) return;
    if (guest.stop_wanted) { /* the thread still uses it */
        (void)sim_guest_later(1, free_server, arg);
        return;
    }
    uvhttp_server_t *server = guest.server;
    sim_log_server_runs(false);
    sim_server_check_counters(server);
    guest.server = NULL;
    sim_guest_free(server);
    sim_jobs_check_end(); /* it has waited for those that no loop knows */
    sim_server = NULL;
    sim_trace("freed", 0, 0);
    if (sim_one_in(&guest.random, 2))
        end_application(NULL);
    else
        (void)sim_guest_later(sim_below(&guest.random, 3000), end_application, NULL);
}

static void on_stopped(uvhttp_server_t *server, void *user) {
    (void)user;
    sim_trace("on_stopped", guest.freeing, 0);
    sim_world_stopped();
    if (guest.stopped++ > 0) sim_fail("on_stopped is called twice");
    if (server != guest.server || uvhttp_server_state(server) != UVHTTP_SERVER_STOPPED)
        sim_fail("on_stopped: the server is in state %d", (int)uvhttp_server_state(server));
    sim_server_check_end(); /* no handler runs any more */
    switch (guest.freeing) {
        case IN_ON_STOPPED: free_server(NULL); break;
        case IN_A_CALLBACK: (void)sim_guest_later(sim_below(&guest.random, 100), free_server, NULL); break;
        default: sim_uv_break();
    }
}

/* --- what stops it --- */

/* On its own thread the call takes time. */
static void stop_guest(void) {
    sim_operators_stopping();
    (void)uvhttp_server_stop(guest.server);
    sim_operators_stopped();
}

static void stop(void *arg) {
    (void)arg;
    if (guest.server) stop_guest();
}

static void on_async(uv_async_t *async) {
    (void)async;
    guest.calls++;
    if (guest.stop_wanted && guest.stopping == ON_LOOP) {
        guest.stop_wanted = false;
        (void)sim_guest_later(sim_below(&guest.random, 3), stop, NULL);
    }
    work();
}

void sim_guest_stop(void) {
    guest.stop_wanted = guest.stopping != BY_ANYBODY;
    if (guest.stopping == BY_ANYBODY) stop_guest();
    if (guest.stopping == BY_THREAD) sem_post(&guest.wake);
    if (guest.stopping == ON_LOOP) uv_async_send(&guest.async);
}

static void *thread_main(void *arg) {
    (void)arg;
    for (;;) {
        uint64_t until_ns = sim_now_ns + sim_log_uniform(&guest.of_thread, 2000) * SIM_MS;
        const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                       .tv_nsec = (long)(until_ns % 1000000000u)};
        if (guest.sends_left > 0)
            (void)sem_clockwait(&guest.wake, CLOCK_MONOTONIC, &until);
        else
            (void)sem_wait(&guest.wake);
        if (guest.stop_wanted && guest.stopping == BY_THREAD) {
            stop_guest();
            guest.stop_wanted = false;
        }
        pthread_mutex_lock(&guest.lock);
        bool ended = guest.ended;
        if (!ended && guest.sends_left > 0) {
            guest.sends_left--;
            uv_async_send(&guest.async);
        }
        pthread_mutex_unlock(&guest.lock);
        if (ended) return NULL;
    }
}

/* --- iterations --- */

static void check_left_behind(void) {
    uint32_t count = sim_uv_handle_count();
    bool lives = guest.server || sim_second_lives();
    if (!lives && guest.iterations > guest.freed_at + 1 && count != guest.own_handles)
        sim_fail("%d handles of a server that was freed are left in the loop", (int)(count - guest.own_handles));
}

/* Nobody has done anything since the last iteration. One that follows at once has some work of before. */
static void check_sleep(void) {
    guest.quiet++;
    if (sim_now_ns - guest.iterated_ns >= SIM_MS / 2) guest.woken++;
    uint64_t seconds = (sim_now_ns - guest.quiet_since_ns) / (1000 * SIM_MS);
    uint64_t most = (seconds + 1) * (sim_places_are_few ? LOOKS_A_S : QUIET_MAX_A_S);
    if (guest.quiet > QUIET_MAX + most || guest.woken > WOKEN_MAX + most)
        sim_fail("the loop of an application has iterated %llu times in %llu s for nothing",
                 (unsigned long long)guest.quiet, (unsigned long long)seconds);
}

static void on_iteration(void) {
    guest.iterations++;
    check_left_behind();
    uint64_t done = sim_steps_of_others() + guest.calls;
    if (done == guest.done_before && guest.pumps_left == 0) {
        check_sleep();
    } else {
        guest.done_before = done;
        guest.quiet = guest.woken = 0;
        guest.quiet_since_ns = sim_now_ns;
    }
    guest.iterated_ns = sim_now_ns;
}

/* An application may iterate as it likes. */
static bool run_some(void) {
    if (guest.pumps_left > 0) {
        guest.pumps_left--;
        bool alive = uv_run(&guest.loop, UV_RUN_NOWAIT);
        if (alive) block_for(sim_below(&guest.random, SIM_MS));
        return alive;
    }
    return uv_run(&guest.loop, sim_one_in(&guest.random, 2) ? UV_RUN_ONCE : UV_RUN_DEFAULT);
}

static void run_loop(void) {
    for (;;) {
        bool alive = run_some();
        if (guest.stopped > 0 && guest.server && guest.freeing == OUTSIDE) {
            free_server(NULL);
            continue;
        }
        if (alive) continue;
        if (!guest.server && !sim_second_lives()) return;
        sim_fail("the loop has nothing to do although a server is attached to it");
    }
}

/* --- life --- */

static void stop_now(uvhttp_server_t *server) {
    sim_world_stopped();
    sim_operators_stopped();
    (void)uvhttp_server_stop(server);
}

static void on_ready(uvhttp_server_t *server, void *user) {
    (void)user;
    if (guest.ready++ > 0) sim_fail("on_ready is called twice");
    if (!uvhttp_server_ready(server)) sim_fail("on_ready: the server is not ready");
    if (guest.stops_on_ready) stop_now(server);
}

static void on_handle_closed(uv_handle_t *handle) {
    (void)handle;
    guest.own_handles--;
}

static void close_handle(void *handle) {
    uv_close(handle, on_handle_closed);
}

/* Those that wait for nothing are not to be what keeps the loop. */
static void open_handles(void) {
    for (int i = 0; i < TICKS; i++) {
        tick_t *tick = &guest.ticks[i];
        tick->timer.data = tick;
        uv_timer_init(&guest.loop, &tick->timer);
        start_tick(tick);
    }
    uv_prepare_init(&guest.loop, &guest.prepare);
    uv_check_init(&guest.loop, &guest.check);
    uv_idle_init(&guest.loop, &guest.idle);
    uv_prepare_start(&guest.prepare, on_prepare);
    uv_check_start(&guest.check, on_check);
    sim_uv_init((uv_handle_t *)&guest.async, UV_ASYNC, -1);
    sim_uv_set_async(&guest.async, on_async);
    guest.own_handles += TICKS + 4;
}

void sim_guest_plan(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x95);
    sim_is_guest = sim_one_in(&random, 8) && seed != 0 && sim_crowd == 0;
    guest.blocked = false;
    guest.random = random;
    guest.of_thread = sim_random_of(seed, 0x96);
}

static void reset(uvhttp_server_t *server, uint64_t seed) {
    guest.server = server;
    guest.freeing = (freeing_t)sim_below(&guest.random, FREEINGS);
    guest.stopping = (stopping_t)sim_below(&guest.random, STOPPINGS);
    guest.pumps_left = sim_one_in(&guest.random, 4) ? sim_below(&guest.random, PUMPS_MAX) : 0;
    guest.stops_on_ready = sim_one_in(&guest.random, 64);
    guest.stops_before = sim_one_in(&guest.random, 64);
    guest.own_handles = guest.tick_count = guest.idle_left = guest.ready = guest.stopped = 0;
    guest.sends_left = sim_below(&guest.random, 20);
    guest.ended = guest.stop_wanted = false;
    guest.blocked_ns = guest.iterations = guest.freed_at = guest.calls = guest.quiet = 0;
    guest.done_before = UINT64_MAX;
    sem_init(&guest.wake, 0, 0);
    sim_uv_iterated = on_iteration;
    sim_uv_loop_open(&guest.loop, seed);
}

static void check_attached(int status) {
    static const int failures[] = {UVHTTP_E_NOMEM, UVHTTP_E_UNSUPPORTED, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_IO};
    if (status == UVHTTP_OK) {
        if (uvhttp_server_attach(guest.server, &guest.loop) != UVHTTP_E_STATE) sim_fail("a server is attached twice");
        return;
    }
    bool known = false;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) known = known || status == failures[i];
    if (!known || !sim_memory_has_failed()) sim_fail("attach: %s", uvhttp_server_error_text(guest.server));
}

/* Whether the server is to be stopped before it is freed: not if its first listen has failed. */
static bool start(void) {
    uvhttp_server_t *server = guest.server;
    if (guest.stops_before) stop_now(server);
    uint64_t begin_ns = sim_now_ns;
    int attached = uvhttp_server_attach(server, &guest.loop);
    check_attached(attached);
    int status = attached == UVHTTP_OK ? sim_server_listen(server) : attached;
    sim_guest_was_blocked(begin_ns); /* it looks at spool_directory, and may write to the log */
    if (status == UVHTTP_OK) {
        if (guest.ready != !guest.stops_before)
            sim_fail("an attached server listens: on_ready came %u times", guest.ready);
        return true;
    }
    if (!sim_memory_has_failed()) sim_fail("listen: %s", uvhttp_server_error_text(server));
    bool stops = attached == UVHTTP_OK && (guest.ready > 0 || guest.stops_before || sim_one_in(&guest.random, 2));
    if (stops) {
        stop_now(server);
    } else {
        sim_world_stopped();
        sim_operators_stopped();
    }
    return stops;
}

void sim_guest_run(uvhttp_server_t *server, uint64_t seed) {
    reset(server, seed);
    sim_server = server;
    (void)uvhttp_server_on_ready(server, on_ready, NULL);
    uvhttp_server_on_stopped(server, on_stopped, NULL);
    bool own_first = sim_one_in(&guest.random, 2);
    if (own_first) open_handles();
    sim_log_server_runs(true);
    uint32_t second = sim_below(&guest.random, 6); /* 0: attached before the other, 1: behind it */
    if (second == 0) sim_second_attach(&guest.loop, seed);
    bool started = start();
    if (second == 1) sim_second_attach(&guest.loop, seed);
    if (!own_first) open_handles();
    if (pthread_create(&guest.thread, NULL, thread_main, NULL) != 0) sim_fail("no thread");
    if (!started) free_server(NULL);
    run_loop();
    (void)pthread_join(guest.thread, NULL);
    if (started && guest.stopped != 1) sim_fail("on_stopped was not called");
    if (uv_loop_close(&guest.loop) != 0) sim_fail("the loop of an application cannot be closed");
    sem_destroy(&guest.wake);
    sim_world_check_end();
    sim_server_check_end();
    sim_server_check_log();
}
