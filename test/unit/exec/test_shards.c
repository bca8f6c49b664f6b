/* The shards of a pool under many givers and many threads: nothing is lost or done twice, nobody sleeps while there is
 * something to do, the bound is exact, and a shard whose threads are blocked is emptied by the others. */
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvhttp/log.h>

#include "../support/failing_allocator.h"
#include "exec/work.h"
#include "support/run.h"

#define LIMIT_NS UINT64_C(20000000000)

enum { GIVERS = 8, JOBS = 100, SHARDS = 8 }; /* of shards a pool has as many as threads, at most */

/* Another thread is to do it: the CPU is its. Any thread may wait, so there is no way out of a failure but the end. */
#define WAIT_UNTIL(condition)                                                                                          \
    do {                                                                                                               \
        uint64_t until_ns_ = uvhttp__clock_ns() + LIMIT_NS;                                                            \
        while (!(condition)) {                                                                                         \
            if (uvhttp__clock_ns() > until_ns_) give_up(#condition, __LINE__);                                         \
            sched_yield();                                                                                             \
        }                                                                                                              \
    } while (0)

static void give_up(const char *condition, int line) {
    fprintf(stderr, "%s:%d: waited too long for: %s\n", __FILE__, line, condition);
    abort();
}

static void pause_us(long us) {
    nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
}

typedef struct job {
    uvhttp__job_t job;
    struct giver *giver;
    unsigned number;
    atomic_uint ran, done, cancelled;
} job_t;

typedef struct giver {
    uvhttp__work_t *work;
    pthread_t thread;
    unsigned rounds;
    uint64_t tag;               /* of all its jobs; 0: none */
    atomic_uint left, disorder; /* jobs that are not done; jobs that did not come in their order */
    atomic_uint next, inside;   /* the number that is to run now, and jobs that do */
    unsigned consumed, refused;
    job_t jobs[JOBS];
} giver_t;

static void run(uvhttp__job_t *base) {
    job_t *job = UVHTTP__CONTAINER_OF(base, job_t, job);
    giver_t *giver = job->giver;
    if (atomic_fetch_add(&giver->inside, 1) != 0 && giver->tag != 0) atomic_fetch_add(&giver->disorder, 1);
    if (atomic_exchange(&giver->next, job->number + 1) != job->number) atomic_fetch_add(&giver->disorder, 1);
    atomic_fetch_add(&job->ran, 1);
    atomic_fetch_sub(&giver->inside, 1);
}

static void done(uvhttp__job_t *base, bool cancelled) {
    job_t *job = UVHTTP__CONTAINER_OF(base, job_t, job);
    if (cancelled) atomic_fetch_add(&job->cancelled, 1);
    atomic_fetch_add(&job->done, 1);
    atomic_fetch_sub(&job->giver->left, 1);
}

static giver_t givers[GIVERS];

static void givers_reset(uvhttp__work_t *work, unsigned rounds) {
    memset(givers, 0, sizeof givers);
    for (unsigned i = 0; i < GIVERS; ++i) {
        givers[i].work = work;
        givers[i].rounds = rounds;
        for (unsigned n = 0; n < JOBS; ++n) {
            job_t *job = &givers[i].jobs[n];
            uvhttp__job_init(&job->job, run, done);
            job->giver = &givers[i];
            job->number = n;
        }
    }
}

static void givers_run(void *(*give)(void *giver)) {
    for (unsigned i = 0; i < GIVERS; ++i)
        assert_int_equal(pthread_create(&givers[i].thread, NULL, give, &givers[i]), 0);
    for (unsigned i = 0; i < GIVERS; ++i) pthread_join(givers[i].thread, NULL);
}

static uvhttp__work_t *pool(uint32_t threads, uint32_t backlog) {
    const uvhttp__work_options_t options = {
        .threads_min = threads, .threads_max = threads, .backlog_max = backlog, .shards = SHARDS};
    uvhttp__work_t *work = uvhttp__work_new(&options);
    assert_non_null(work);
    uvhttp__work_start(work);
    return work;
}

static void end(uvhttp__work_t *work) {
    uvhttp__work_stop(work, uvhttp__clock_ns() + LIMIT_NS);
    uvhttp__work_free(work);
}

static uvhttp__work_stats_t read_stats(uvhttp__work_t *work) {
    uvhttp__work_stats_t stats;
    uvhttp__work_read(work, &stats, NULL);
    return stats;
}

/* --- jobs that keep a thread until the test lets it go --- */

typedef struct blocker {
    uvhttp__job_t job;
    sem_t gate;
    atomic_bool inside;
} blocker_t;

static void block(uvhttp__job_t *base) {
    blocker_t *blocker = UVHTTP__CONTAINER_OF(base, blocker_t, job);
    atomic_store(&blocker->inside, true);
    while (sem_wait(&blocker->gate) != 0) continue;
}

static void unblocked(uvhttp__job_t *job, bool cancelled) {
    (void)job, (void)cancelled;
}

static void take_thread(uvhttp__work_t *work, uvhttp__work_port_t *port, blocker_t *blocker) {
    atomic_store(&blocker->inside, false);
    sem_init(&blocker->gate, 0, 0);
    uvhttp__job_init(&blocker->job, block, unblocked);
    assert_int_equal(uvhttp__work_submit(work, port, &blocker->job), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&blocker->inside));
}

static void give_thread_back(blocker_t *blocker) {
    sem_post(&blocker->gate);
}

/* --- givers --- */

static void link_jobs(giver_t *giver, uvhttp__list_t *jobs) {
    uvhttp__list_init(jobs);
    for (unsigned i = 0; i < JOBS; ++i) {
        uvhttp__list_init(&giver->jobs[i].job.link);
        uvhttp__list_push_back(jobs, &giver->jobs[i].job.link);
    }
}

static void give_all(giver_t *giver) {
    uvhttp__list_t jobs;
    link_jobs(giver, &jobs);
    if (uvhttp__work_submit_all(giver->work, NULL, &jobs) != UVHTTP_OK) abort();
}

static void give_with_tag(giver_t *giver) {
    for (unsigned i = 0; i < JOBS; ++i) {
        giver->jobs[i].job.tag = giver->tag;
        if (uvhttp__work_submit(giver->work, NULL, &giver->jobs[i].job) != UVHTTP_OK) abort();
    }
}

static void *give_rounds(void *arg) {
    giver_t *giver = arg;
    for (unsigned round = 0; round < giver->rounds; ++round) {
        atomic_store(&giver->left, JOBS);
        atomic_store(&giver->next, 0);
        if (giver->tag != 0)
            give_with_tag(giver);
        else
            give_all(giver);
        WAIT_UNTIL(atomic_load(&giver->left) == 0);
    }
    return NULL;
}

static void assert_all_done_once_a_round(unsigned rounds) {
    for (unsigned i = 0; i < GIVERS; ++i)
        for (unsigned n = 0; n < JOBS; ++n) {
            assert_int_equal(atomic_load(&givers[i].jobs[n].ran), rounds);
            assert_int_equal(atomic_load(&givers[i].jobs[n].done), rounds);
        }
}

static void test_many_givers_and_threads_lose_nothing_and_do_nothing_twice(void **state) {
    (void)state;
    const unsigned rounds = 40;
    uvhttp__work_t *work = pool(6, GIVERS * JOBS);
    givers_reset(work, rounds);
    for (unsigned i = 0; i < GIVERS; i += 2) givers[i].tag = i + 1;
    givers_run(give_rounds);
    assert_all_done_once_a_round(rounds);
    for (unsigned i = 0; i < GIVERS; i += 2) assert_int_equal(atomic_load(&givers[i].disorder), 0);
    uvhttp__work_stats_t stats = read_stats(work);
    assert_int_equal(stats.jobs, GIVERS * JOBS * rounds);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.running, 0);
    end(work);
}

static void test_threads_steal_from_shards_whose_own_are_blocked(void **state) {
    (void)state;
    static blocker_t blockers[3];
    uvhttp__work_t *work = pool(4, GIVERS * JOBS);
    for (unsigned i = 0; i < 3; ++i) take_thread(work, NULL, &blockers[i]);
    givers_reset(work, 1);
    givers_run(give_rounds); /* threads in a row have one shard after the other: one thread empties all of them */
    assert_all_done_once_a_round(1);
    for (unsigned i = 0; i < GIVERS; ++i) assert_int_equal(atomic_load(&givers[i].disorder), 0); /* in their order */
    for (unsigned i = 0; i < 3; ++i) give_thread_back(&blockers[i]);
    end(work);
}

/* --- sleep --- */

/* One job at a time, given when the thread that had the last one is about to sleep. */
static void *give_one_by_one(void *arg) {
    giver_t *giver = arg;
    uvhttp__work_t *work = pool(1, 1); /* no other thread would find what this one has overlooked */
    job_t *job = &giver->jobs[0];
    for (unsigned round = 0; round < giver->rounds; ++round) {
        if (uvhttp__work_submit(work, NULL, &job->job) != UVHTTP_OK) abort();
        for (int spin = 0; spin < 2000 && atomic_load(&job->done) != round + 1; ++spin) continue;
        WAIT_UNTIL(atomic_load(&job->done) == round + 1);
    }
    end(work);
    return NULL;
}

static void test_no_wake_up_is_lost_however_often_the_pool_sleeps(void **state) {
    (void)state;
    const unsigned rounds = 100000 / GIVERS;
    givers_reset(NULL, rounds);
    givers_run(give_one_by_one);
    for (unsigned i = 0; i < GIVERS; ++i) assert_int_equal(atomic_load(&givers[i].jobs[0].ran), rounds);
}

static void test_a_job_that_comes_when_the_last_thread_ends_is_run(void **state) {
    (void)state;
    const unsigned rounds = 200;
    const uvhttp__work_options_t options = {
        .threads_soon = 1, .threads_max = 1, .backlog_max = 1, .idle_ms = 1, .shards = 1};
    uvhttp__work_t *work = uvhttp__work_new(&options);
    givers_reset(work, rounds);
    job_t *job = &givers[0].jobs[0];
    for (unsigned round = 0; round < rounds; ++round) {
        assert_int_equal(uvhttp__work_submit(work, NULL, &job->job), UVHTTP_OK);
        WAIT_UNTIL(atomic_load(&job->done) == round + 1);
        pause_us(900 + round % 20 * 10); /* and what the system adds: about when the thread ends */
    }
    uvhttp__work_stats_t stats = read_stats(work);
    assert_int_equal(stats.jobs, rounds);
    assert_int_equal(stats.threads_started, stats.threads_ended + stats.threads);
    end(work);
}

/* --- the bound --- */

static void *give_until_refused(void *arg) {
    giver_t *giver = arg;
    for (unsigned i = 0; i < JOBS; ++i) {
        int status = uvhttp__work_submit(giver->work, NULL, &giver->jobs[i].job);
        if (status == UVHTTP_OK)
            giver->consumed++;
        else if (status == UVHTTP_E_WORK_FULL)
            giver->refused++;
    }
    return NULL;
}

/* The same, all at once: those that are refused stay in the list, in their order. */
static void *give_all_until_refused(void *arg) {
    giver_t *giver = arg;
    uvhttp__list_t jobs, *node;
    link_jobs(giver, &jobs);
    while (uvhttp__work_submit_all(giver->work, NULL, &jobs) == UVHTTP_E_WORK_FULL) {
        node = uvhttp__list_pop_front(&jobs);
        if (giver->refused++ == 0) giver->consumed = UVHTTP__CONTAINER_OF(node, job_t, job.link)->number;
    }
    if (giver->refused == 0) giver->consumed = JOBS;
    return NULL;
}

static void test_the_bound_is_exact_for_givers_at_the_same_time(void **state) {
    (void)state;
    const unsigned bound = GIVERS * JOBS / 3;
    static blocker_t blocker;
    uvhttp__work_t *work = pool(1, bound);
    for (unsigned round = 1; round <= 20; ++round) {
        take_thread(work, NULL, &blocker);
        givers_reset(work, 1);
        givers_run(round % 2 ? give_until_refused : give_all_until_refused);
        unsigned consumed = 0, refused = 0, ran = 0;
        for (unsigned i = 0; i < GIVERS; ++i) {
            consumed += givers[i].consumed;
            refused += givers[i].refused;
        }
        assert_int_equal(consumed, bound);
        assert_int_equal(refused, GIVERS * JOBS - bound);
        assert_int_equal(read_stats(work).waiting, bound);
        assert_int_equal(read_stats(work).refused, round * refused);
        give_thread_back(&blocker);
        WAIT_UNTIL(read_stats(work).waiting == 0 && read_stats(work).running == 0);
        for (unsigned i = 0; i < GIVERS; ++i)
            for (unsigned n = 0; n < JOBS; ++n) ran += atomic_load(&givers[i].jobs[n].ran);
        assert_int_equal(ran, bound);
    }
    end(work);
}

static atomic_uint waiting, waiting_most;

static void *give_and_take_back(void *arg) {
    giver_t *giver = arg;
    for (unsigned round = 0; round < giver->rounds; ++round) {
        job_t *job = &giver->jobs[0];
        if (uvhttp__work_submit(giver->work, NULL, &job->job) != UVHTTP_OK) continue;
        unsigned now = atomic_fetch_add(&waiting, 1) + 1;
        if (now > atomic_load(&waiting_most)) atomic_store(&waiting_most, now);
        atomic_fetch_sub(&waiting, 1);
        if (uvhttp__work_cancel(giver->work, &job->job) != UVHTTP_OK) abort();
    }
    return NULL;
}

/* All the time the last place is free for several givers. */
static void test_the_bound_is_never_passed_even_for_a_moment(void **state) {
    (void)state;
    static blocker_t blocker;
    uvhttp__work_t *work = pool(1, 2);
    take_thread(work, NULL, &blocker);
    atomic_store(&waiting_most, 0);
    givers_reset(work, 5000);
    givers_run(give_and_take_back);
    assert_in_range(atomic_load(&waiting_most), 1, 2);
    give_thread_back(&blocker);
    end(work);
}

/* --- cancelling --- */

static void *give_and_cancel(void *arg) {
    giver_t *giver = arg;
    for (unsigned round = 0; round < giver->rounds; ++round) {
        atomic_store(&giver->left, JOBS);
        for (unsigned i = 0; i < JOBS; ++i)
            if (uvhttp__work_submit(giver->work, NULL, &giver->jobs[i].job) != UVHTTP_OK) abort();
        for (unsigned i = 0; i < JOBS; ++i)
            if (uvhttp__work_cancel(giver->work, &giver->jobs[i].job) == UVHTTP_OK) giver->refused++;
        WAIT_UNTIL(atomic_load(&giver->left) == 0);
    }
    return NULL;
}

static void test_a_job_is_run_or_cancelled_whoever_is_first(void **state) {
    (void)state;
    const unsigned rounds = 20;
    uvhttp__work_t *work = pool(3, GIVERS * JOBS);
    givers_reset(work, rounds);
    for (unsigned i = 0; i < GIVERS; i += 2) /* half of them hand on a tag */
        for (unsigned n = 0; n < JOBS; ++n) givers[i].jobs[n].job.tag = n % 3 + 1;
    givers_run(give_and_cancel);
    unsigned cancelled = 0;
    for (unsigned i = 0; i < GIVERS; ++i) {
        unsigned reported = 0;
        for (unsigned n = 0; n < JOBS; ++n) {
            job_t *job = &givers[i].jobs[n];
            assert_int_equal(atomic_load(&job->done), rounds);
            assert_int_equal(atomic_load(&job->ran) + atomic_load(&job->cancelled), rounds);
            reported += atomic_load(&job->cancelled);
        }
        assert_int_equal(reported, givers[i].refused);
        cancelled += reported;
    }
    assert_int_equal(read_stats(work).cancelled, cancelled);
    assert_int_equal(read_stats(work).waiting, 0);
    end(work);
}

/* --- loops --- */

enum { PORTS = 2 };

typedef struct place {
    job_t job;
    atomic_uint *places; /* the next one */
    unsigned place;
} place_t;

static void run_place(uvhttp__job_t *base) {
    place_t *it = UVHTTP__CONTAINER_OF(base, place_t, job.job);
    it->place = atomic_fetch_add(it->places, 1);
    run(base);
}

static uvhttp__loop_t *make_loop(uvhttp__counters_t *counters) {
    uvhttp__loop_t *loop;
    const uvhttp__loop_options_t options = {
        .engine = UVHTTP__ENGINE_EPOLL, .receive_buffer_size = 4096, .receive_buffer_count = 8, .counters = counters};
    assert_int_equal(uvhttp__loop_new(&options, &loop), UVHTTP_OK);
    return loop;
}

/* One of two threads is blocked. The other one has enough to do in its own shard, and looks after both: jobs of one
 * loop are overtaken by jobs of the other only. */
static void test_a_shard_is_served_in_its_order_while_others_are_full(void **state) {
    (void)state;
    static place_t jobs[PORTS][JOBS];
    static blocker_t blockers[PORTS];
    uvhttp__counters_t counters = {0};
    uvhttp__loop_t *loop = make_loop(&counters);
    uvhttp__work_t *work = pool(PORTS, 1000);
    uvhttp__work_port_t ports[PORTS];
    atomic_uint places = 0;
    givers_reset(work, 1);
    for (unsigned i = 0; i < PORTS; ++i) {
        take_thread(work, NULL, &blockers[i]);
        uvhttp__work_port_open(&ports[i], work, loop);
    }
    for (unsigned i = 0; i < PORTS; ++i)
        for (unsigned n = 0; n < JOBS; ++n) {
            jobs[i][n] = (place_t){.job = {.giver = &givers[i], .number = n}, .places = &places};
            uvhttp__job_init(&jobs[i][n].job.job, run_place, done);
            assert_int_equal(uvhttp__work_submit(work, &ports[i], &jobs[i][n].job.job), UVHTTP_OK);
        }
    give_thread_back(&blockers[0]);
    WAIT_UNTIL(atomic_load(&places) == PORTS * JOBS);
    give_thread_back(&blockers[1]);
    for (unsigned i = 0; i < PORTS; ++i) {
        uvhttp__work_port_close(&ports[i]);
        assert_int_equal(atomic_load(&givers[i].disorder), 0);
        assert_in_range(jobs[i][0].place, 0, 32);
        assert_int_equal(atomic_load(&jobs[i][JOBS - 1].job.done), 1);
    }
    uvhttp__loop_free(loop, NULL, NULL);
    end(work);
}

typedef struct burst {
    uvhttp__loop_t *loop;
    uvhttp__work_port_t port;
    unsigned rounds;
} burst_t;

static void give_burst(uvhttp__work_port_t *port) {
    burst_t *burst = UVHTTP__CONTAINER_OF(port, burst_t, port);
    if (burst->rounds-- == 0) {
        uvhttp__loop_stop(burst->loop);
        return;
    }
    for (unsigned i = 0; i < JOBS; ++i)
        assert_int_equal(uvhttp__work_submit(port->work, port, &givers[0].jobs[i].job), UVHTTP_OK);
}

/* The message that brings jobs back is used again and again, by whatever thread finds nothing under way. */
static void test_bursts_come_back_to_their_loop(void **state) {
    (void)state;
    const unsigned rounds = 100;
    uvhttp__counters_t counters = {0};
    uvhttp__work_t *work = pool(4, JOBS);
    burst_t burst = {.loop = make_loop(&counters), .rounds = rounds};
    uvhttp__work_port_open(&burst.port, work, burst.loop);
    burst.port.on_idle = give_burst;
    givers_reset(work, 1);
    give_burst(&burst.port);
    uvhttp__loop_run(burst.loop);
    for (unsigned i = 0; i < JOBS; ++i) assert_int_equal(atomic_load(&givers[0].jobs[i].done), rounds);
    uvhttp__work_port_close(&burst.port);
    uvhttp__loop_free(burst.loop, NULL, NULL);
    end(work);
}

static void *give_back_later(void *arg) {
    pause_us(5000);
    give_thread_back(arg);
    return NULL;
}

static void test_closing_a_port_waits_for_what_runs(void **state) {
    (void)state;
    static blocker_t blocker;
    uvhttp__counters_t counters = {0};
    uvhttp__loop_t *loop = make_loop(&counters);
    uvhttp__work_t *work = pool(1, 10);
    uvhttp__work_port_t port;
    pthread_t thread;
    uvhttp__work_port_open(&port, work, loop);
    take_thread(work, &port, &blocker);
    assert_int_equal(pthread_create(&thread, NULL, give_back_later, &blocker), 0);
    uvhttp__work_port_close(&port);
    assert_int_equal(port.pending, 0);
    assert_int_equal(read_stats(work).running, 0);
    pthread_join(thread, NULL);
    uvhttp__loop_free(loop, NULL, NULL);
    end(work);
}

/* --- what the keeper reads of a job that runs --- */

static void run_about_1_ms(uvhttp__job_t *base) {
    job_t *job = UVHTTP__CONTAINER_OF(base, job_t, job);
    pause_us(900 + job->number % 10 * 50);
}

static void done_with_name(uvhttp__job_t *base, bool cancelled) {
    free((void *)(uintptr_t)base->name);
    done(base, cancelled);
}

static void drop_line(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)message, (void)size, (void)user;
}

/* For AddressSanitizer: the keeper copies the names of jobs that end while it looks. */
static void test_the_name_of_a_job_is_not_read_when_it_is_over(void **state) {
    (void)state;
    const uvhttp__work_options_t options = {.threads_soon = 8, .threads_max = 8, .backlog_max = JOBS, .warn_ms = 1};
    uvhttp__work_t *work = uvhttp__work_new(&options);
    givers_reset(work, 1);
    uvhttp_log_set_callback(drop_line, NULL);
    for (unsigned i = 0; i < JOBS; ++i) {
        job_t *job = &givers[0].jobs[i];
        uvhttp__job_init(&job->job, run_about_1_ms, done_with_name);
        char *name = malloc(16);
        memcpy(name, "about to end", 13);
        job->job.name = name;
        assert_int_equal(uvhttp__work_submit(work, NULL, &job->job), UVHTTP_OK);
    }
    end(work);
    uvhttp_log_set_callback(NULL, NULL);
    for (unsigned i = 0; i < JOBS; ++i) assert_int_equal(atomic_load(&givers[0].jobs[i].done), 1);
}

/* --- memory --- */

static void make_pool(void *user) {
    (void)user;
    const uvhttp__work_options_t options = {
        .threads_max = SHARDS, .backlog_max = 4, .shards = SHARDS, .queue_time = true};
    uvhttp__work_t *work = uvhttp__work_new(&options);
    assert_int_equal(work == NULL, test_allocator_failed());
    uvhttp__work_free(work);
}

static void test_without_memory_for_the_shards_there_is_no_pool(void **state) {
    (void)state;
    assert_int_equal(test_allocator_each_failure(make_pool, NULL), 3);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(
        test_many_givers_and_threads_lose_nothing_and_do_nothing_twice,
        test_threads_steal_from_shards_whose_own_are_blocked, test_no_wake_up_is_lost_however_often_the_pool_sleeps,
        test_a_job_that_comes_when_the_last_thread_ends_is_run, test_the_bound_is_exact_for_givers_at_the_same_time,
        test_the_bound_is_never_passed_even_for_a_moment, test_a_job_is_run_or_cancelled_whoever_is_first,
        test_a_shard_is_served_in_its_order_while_others_are_full, test_bursts_come_back_to_their_loop,
        test_closing_a_port_waits_for_what_runs, test_the_name_of_a_job_is_not_read_when_it_is_over,
        test_without_memory_for_the_shards_there_is_no_pool);
}
