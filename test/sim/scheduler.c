/* Owns: the order of threads. Only one runs at a time, the others wait for the baton; who gets it when one waits or
 * passes a lock comes from the seed, as does whether a client of the world goes first. Threads are real ones, so that
 * thread-locals, stacks and sanitizers are what they are. When nobody can run, the clock moves to the next moment that
 * somebody waits for; if there is none, the run has hung and fails. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel.h"

enum {
    THREADS_MAX = 128,
    STEPS_MAX = 2000000,
    CROWD_STEPS_MAX = 20000000,
    HOURS_MAX = 4,
    STALL_US = 1000,
    PAUSE_US = 50000,
    INTERRUPTS = 16
};

typedef enum state {
    UNUSED,
    READY,
    WAITS_FD,
    WAITS_POLL,
    WAITS_COND,
    WAITS_MUTEX,
    WAITS_JOIN,
    WAITS_TIME,
    ENDED
} state_t;

typedef struct thread {
    state_t state;
    uint64_t deadline_ns;
    const void *object;          /* the condition or mutex */
    int fd;                      /* the epoll set or ring */
    const struct pollfd *polled; /* WAITS_POLL */
    uint64_t polled_count;
    uint32_t joined; /* WAITS_JOIN: index of the other */
    bool timed_out;
    bool is_loop;   /* it has waited for descriptors */
    bool is_helper; /* it has waited for work, for a time */
    uint32_t locks; /* held */
    void *(*main)(void *arg);
    void *arg, *result;
    pthread_t real;
    pthread_cond_t baton;
} thread_t;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg);
int __real_pthread_join(pthread_t thread, void **result);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __real_pthread_cond_signal(pthread_cond_t *cond);

static thread_t threads[THREADS_MAX]; /* 0 is the one that runs the server */
static uint32_t thread_count, running, made;
static pthread_mutex_t baton_lock = PTHREAD_MUTEX_INITIALIZER;
static sim_random_t order;
static uint32_t stalls; /* one in so many waits; 0: none */
static bool pauses;     /* the system runs others for long while a helper thread is at work */
static uint64_t steps;
static uint64_t started_ns;
static bool in_world; /* what the world does is not interrupted */
static uint64_t others;

void sim_scheduler_reset(uint64_t seed) {
    for (uint32_t i = 1; i < thread_count; i++) {
        if (threads[i].state != ENDED && threads[i].state != UNUSED) sim_fail("thread %u has not ended", i);
        if (threads[i].state == ENDED) sim_fail("thread %u was not joined", i);
    }
    if (thread_count == 0) pthread_cond_init(&threads[0].baton, NULL);
    threads[0].state = READY;
    threads[0].is_loop = threads[0].is_helper = false;
    thread_count = 1;
    running = 0;
    made = 0;
    steps = 0;
    started_ns = sim_now_ns;
    order = sim_random_of(seed, 0x5c);
    stalls = sim_one_in(&order, 4) ? 1 + sim_below(&order, 20) : 0;
    pauses = sim_one_in(&order, 4);
}

uint64_t sim_steps(void) {
    return steps;
}

uint64_t sim_steps_of_others(void) {
    return others;
}

bool sim_threads_stall(void) {
    return stalls > 0;
}

uint32_t sim_threads_made(void) {
    return made;
}

/* --- choosing --- */

static bool is_polled(const thread_t *thread) {
    for (uint64_t i = 0; i < thread->polled_count; i++)
        if (sim_polled(&thread->polled[i])) return true;
    return false;
}

static bool can_run(const thread_t *thread) {
    switch (thread->state) {
        case READY: return true;
        case WAITS_FD: return thread->deadline_ns <= sim_now_ns || sim_fd_ready(thread->fd);
        case WAITS_POLL: return thread->deadline_ns <= sim_now_ns || is_polled(thread);
        case WAITS_COND:
        case WAITS_TIME: return thread->deadline_ns <= sim_now_ns;
        case WAITS_JOIN: return threads[thread->joined].state == ENDED;
        default: return false;
    }
}

static const char *const state_names[] = {"unused", "ready", "events", "poll", "condition",
                                          "mutex",  "join",  "time",   "ended"};

_Noreturn static void fail_hung(void) {
    char text[1024];
    size_t used = 0;
    for (uint32_t i = 0; i < thread_count; i++) {
        int wrote = snprintf(text + used, sizeof text - used, " thread %u: %s", i, state_names[threads[i].state]);
        if (wrote > 0 && used + (size_t)wrote < sizeof text) used += (size_t)wrote;
    }
    sim_fail("nothing will ever happen again:%s", text);
}

static void advance_clock(void) {
    uint64_t next = sim_world_next_ns(), kernel = sim_kernel_next_ns();
    if (kernel < next) next = kernel;
    for (uint32_t i = 0; i < thread_count; i++) {
        state_t state = threads[i].state;
        bool waits = state == WAITS_FD || state == WAITS_POLL || state == WAITS_COND || state == WAITS_TIME;
        if (waits && threads[i].deadline_ns < next) next = threads[i].deadline_ns;
    }
    if (next == SIM_NEVER) fail_hung();
    in_world = true;
    sim_kernel_check_idle(next);
    in_world = false;
    if (next > sim_now_ns) sim_now_ns = next;
    if (sim_now_ns - started_ns > HOURS_MAX * UINT64_C(3600) * 1000 * SIM_MS)
        sim_fail("no end after %d hours", HOURS_MAX);
}

static void do_world(void) {
    in_world = true;
    others++;
    sim_world_step(&order);
    in_world = false;
}

/* The thread that continues. The world does what is due meanwhile. */
static uint32_t choose(void) {
    for (;;) {
        if (++steps > (sim_crowd ? CROWD_STEPS_MAX : STEPS_MAX)) sim_fail("no end after %" PRIu64 " steps", steps - 1);
        uint32_t able[THREADS_MAX + 1], count = 0;
        sim_rings_look();
        for (uint32_t i = 0; i < thread_count; i++)
            if (can_run(&threads[i])) able[count++] = i;
        if (sim_world_next_ns() <= sim_now_ns) able[count++] = UINT32_MAX;
        if (count == 0) {
            advance_clock();
            continue;
        }
        bool together = sim_beat_ns && able[count - 1] == UINT32_MAX && !sim_one_in(&order, 64);
        uint32_t chosen = able[together ? count - 1 : count == 1 ? 0 : sim_below(&order, count)];
        if (chosen != UINT32_MAX) return chosen;
        do_world();
    }
}

/* The caller's state says what it waits for. Returns when the caller is scheduled. */
static void pass_baton(uint32_t self) {
    uint32_t next = choose();
    threads[next].timed_out = threads[next].state == WAITS_COND; /* woken by nobody */
    if (threads[next].state != ENDED) threads[next].state = READY;
    if (next == self) return;
    others++;
    sim_trace("thread", next, 0);
    __real_pthread_mutex_lock(&baton_lock);
    running = next;
    __real_pthread_cond_signal(&threads[next].baton);
    while (running != self && threads[self].state != ENDED) __real_pthread_cond_wait(&threads[self].baton, &baton_lock);
    __real_pthread_mutex_unlock(&baton_lock);
}

static void wait_as(state_t state, const void *object, uint64_t deadline_ns) {
    thread_t *self = &threads[running];
    if (in_world) sim_fail("the world waits (%s)", state_names[state]);
    if (state == WAITS_COND && deadline_ns != SIM_NEVER) self->is_helper = true;
    if (state == WAITS_FD || state == WAITS_POLL) self->is_loop = true;
    self->state = state;
    self->object = object;
    self->deadline_ns = deadline_ns;
    pass_baton(running);
}

void sim_yield(void) {
    if (!in_world && thread_count > 1) wait_as(READY, NULL, 0);
}

/* A thread that the system lets wait although it could run: meanwhile more happens, which it finds together. */
static void stall(void) {
    if (stalls > 0 && sim_one_in(&order, stalls)) sim_wait_time(sim_now_ns + sim_log_uniform(&order, STALL_US) * 1000);
}

void sim_wait_fd(int fd, uint64_t deadline_ns) {
    threads[running].fd = fd;
    wait_as(WAITS_FD, NULL, deadline_ns);
    stall();
}

void sim_wait_poll(const struct pollfd *fds, uint64_t count, uint64_t deadline_ns) {
    threads[running].polled = fds;
    threads[running].polled_count = count;
    wait_as(WAITS_POLL, NULL, deadline_ns);
}

/* --- threads --- */

static void *thread_main(void *arg) {
    thread_t *self = arg;
    uint32_t index = (uint32_t)(self - threads);
    __real_pthread_mutex_lock(&baton_lock);
    while (running != index) __real_pthread_cond_wait(&self->baton, &baton_lock);
    __real_pthread_mutex_unlock(&baton_lock);
    self->result = self->main(self->arg);
    self->state = ENDED;
    pass_baton(index);
    return self->result;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg) {
    uint32_t index = 1;
    while (index < thread_count && threads[index].state != UNUSED) index++;
    if (index == THREADS_MAX) sim_fail("more than %d threads", THREADS_MAX);
    thread_t *made_thread = &threads[index];
    *made_thread = (thread_t){.state = READY, .main = main, .arg = arg};
    pthread_cond_init(&made_thread->baton, NULL);
    if (index == thread_count) thread_count++;
    made++;
    int error = __real_pthread_create(thread, attr, thread_main, made_thread);
    if (error) sim_fail("a thread cannot be made: %s", strerror(error));
    made_thread->real = *thread;
    sim_yield();
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result) {
    uint32_t index = 1;
    while (index < thread_count && (threads[index].state == UNUSED || !pthread_equal(threads[index].real, thread)))
        index++;
    if (index == thread_count) sim_fail("join of a thread that nobody has made");
    threads[running].joined = index;
    wait_as(WAITS_JOIN, NULL, SIM_NEVER);
    (void)__real_pthread_join(thread, result);
    pthread_cond_destroy(&threads[index].baton);
    threads[index].state = UNUSED;
    while (thread_count > 1 && threads[thread_count - 1].state == UNUSED) thread_count--;
    return 0;
}

/* --- locks: nobody else runs, so that trying is exact --- */

static void wake_one_of(const void *object, state_t state, bool all) {
    uint32_t waiting[THREADS_MAX], count = 0;
    for (uint32_t i = 0; i < thread_count; i++)
        if (threads[i].state == state && threads[i].object == object) waiting[count++] = i;
    if (count == 0) return;
    uint32_t only = waiting[count == 1 || all ? 0 : sim_below(&order, count)];
    for (uint32_t i = 0; i < count; i++)
        if (all || waiting[i] == only) threads[waiting[i]].state = READY;
}

/* Who holds a lock is not interrupted at another one: who else may want the first is not always decided by the seed.
 * Those of deferred handles are shared by address. */
static void yield_without_lock(void) {
    if (!in_world && threads[running].locks == 0 && sim_one_in(&order, 4)) sim_yield();
}

/* A loop is not stopped for long, nor is an application's, which joins threads at the end: their time limits would be
 * about the machine. */
void sim_interrupt(void) {
    const thread_t *self = &threads[running];
    if (in_world || thread_count == 1 || self->locks > 0) return;
    if (pauses && !sim_is_guest && running > 0 && self->is_helper && !self->is_loop && sim_one_in(&order, 4)) {
        uint32_t us = sim_log_uniform(&order, PAUSE_US);
        sim_trace("pause", running, us);
        sim_wait_time(sim_now_ns + us * UINT64_C(1000));
    } else if (sim_one_in(&order, INTERRUPTS)) {
        sim_yield();
    }
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (thread_count > 1) yield_without_lock();
    while (pthread_mutex_trylock(mutex) != 0) wait_as(WAITS_MUTEX, mutex, SIM_NEVER);
    threads[running].locks++;
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    int error = __real_pthread_mutex_unlock(mutex);
    threads[running].locks--;
    if (thread_count <= 1) return error;
    wake_one_of(mutex, WAITS_MUTEX, true);
    yield_without_lock();
    return error;
}

static int wait_cond(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_ns) {
    __real_pthread_mutex_unlock(mutex);
    threads[running].locks--;
    wake_one_of(mutex, WAITS_MUTEX, true);
    uint32_t self = running;
    wait_as(WAITS_COND, cond, deadline_ns);
    bool timed_out = threads[self].timed_out;
    while (pthread_mutex_trylock(mutex) != 0) wait_as(WAITS_MUTEX, mutex, SIM_NEVER);
    threads[self].locks++;
    return timed_out ? ETIMEDOUT : 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    return wait_cond(cond, mutex, SIM_NEVER);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    return wait_cond(cond, mutex, (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *until) {
    (void)clock;
    return wait_cond(cond, mutex, (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec);
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond) {
    wake_one_of(cond, WAITS_COND, false);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond) {
    wake_one_of(cond, WAITS_COND, true);
    return 0;
}

/* --- semaphores: as conditions --- */

int __real_sem_post(sem_t *sem);

static int wait_sem(sem_t *sem, uint64_t deadline_ns) {
    uint32_t self = running;
    while (sem_trywait(sem) != 0) {
        wait_as(WAITS_COND, sem, deadline_ns);
        if (!threads[self].timed_out) continue;
        errno = ETIMEDOUT;
        return -1;
    }
    return 0;
}

int __wrap_sem_wait(sem_t *sem) {
    return wait_sem(sem, SIM_NEVER);
}

int __wrap_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until) {
    (void)clock;
    return wait_sem(sem, (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec);
}

int __wrap_sem_post(sem_t *sem) {
    int status = __real_sem_post(sem);
    wake_one_of(sem, WAITS_COND, false);
    return status;
}

void sim_wait_time(uint64_t deadline_ns) {
    wait_as(WAITS_TIME, NULL, deadline_ns);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left) {
    (void)left;
    sim_wait_time(sim_now_ns + (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec);
    return 0;
}
