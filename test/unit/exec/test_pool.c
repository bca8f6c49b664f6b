/* The pool by itself: threads come when those that are there are blocked and go when they are not needed, jobs wait for
 * their tag and their time, can be cancelled, and an end loses none. */
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <uvhttp/log.h>

#include "../support/failing_allocator.h"
#include "exec/work_internal.h"
#include "support/run.h"

#define LIMIT_MS 20000
#define MANY 40
#define MS UINT64_C(1000000)

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

#define WAIT_UNTIL(condition)                                                                                          \
    do {                                                                                                               \
        int left_ = LIMIT_MS;                                                                                          \
        while (!(condition) && --left_ > 0) pause_ms(1);                                                               \
        assert_true(left_ > 0);                                                                                        \
    } while (0)

typedef struct tally {
    pthread_mutex_t gate; /* held by a test: jobs block */
    atomic_uint ran, done, cancelled, inside, most_inside;
    atomic_uint order[MANY];
} tally_t;

typedef struct job {
    uvhttp__job_t job;
    tally_t *tally;
    unsigned number;
} job_t;

static void run(uvhttp__job_t *base) {
    job_t *job = UVHTTP__CONTAINER_OF(base, job_t, job);
    tally_t *tally = job->tally;
    unsigned inside = atomic_fetch_add(&tally->inside, 1) + 1;
    if (inside > atomic_load(&tally->most_inside)) atomic_store(&tally->most_inside, inside);
    pthread_mutex_lock(&tally->gate);
    pthread_mutex_unlock(&tally->gate);
    atomic_fetch_sub(&tally->inside, 1);
    unsigned place = atomic_fetch_add(&tally->ran, 1);
    if (place < MANY) atomic_store(&tally->order[place], job->number);
}

static void done(uvhttp__job_t *base, bool cancelled) {
    job_t *job = UVHTTP__CONTAINER_OF(base, job_t, job);
    if (cancelled) atomic_fetch_add(&job->tally->cancelled, 1);
    atomic_fetch_add(&job->tally->done, 1);
}

static tally_t *tally_new(void) {
    static tally_t tally;
    memset(&tally, 0, sizeof tally);
    pthread_mutex_init(&tally.gate, NULL);
    return &tally;
}

static uvhttp__work_t *pool(uvhttp__work_options_t options) {
    if (options.backlog_max == 0) options.backlog_max = 1000;
    uvhttp__work_t *work = uvhttp__work_new(&options);
    assert_non_null(work);
    return work;
}

static void end(uvhttp__work_t *work) {
    uvhttp__work_stop(work, uvhttp__clock_ns() + LIMIT_MS * MS);
    uvhttp__work_free(work);
}

static job_t make(tally_t *tally, unsigned number) {
    return (job_t){.job = {.run = run, .done = done}, .tally = tally, .number = number};
}

static void give(uvhttp__work_t *work, job_t *job) {
    assert_int_equal(uvhttp__work_submit(work, NULL, &job->job), UVHTTP_OK);
}

static uvhttp__work_stats_t read_stats(uvhttp__work_t *work) {
    uvhttp__work_stats_t stats;
    uvhttp__work_read(work, &stats, NULL);
    return stats;
}

/* --- threads --- */

static void test_blocked_threads_are_joined_by_more_up_to_the_maximum(void **state) {
    (void)state;
    static job_t jobs[MANY];
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 1, .threads_max = MANY / 2});
    pthread_mutex_lock(&tally->gate);
    for (unsigned i = 0; i < MANY; ++i) {
        jobs[i] = make(tally, i);
        give(work, &jobs[i]);
    }
    WAIT_UNTIL(atomic_load(&tally->inside) == MANY / 2);
    uvhttp__work_stats_t stats = read_stats(work);
    assert_int_equal(stats.threads, MANY / 2);
    assert_int_equal(stats.running, MANY / 2);
    assert_int_equal(stats.waiting, MANY / 2);
    pthread_mutex_unlock(&tally->gate);
    WAIT_UNTIL(atomic_load(&tally->done) == MANY);
    assert_int_equal(read_stats(work).threads, MANY / 2);
    end(work);
}

/* As on a machine that is so busy that threads do not get to run for a while after they were started. */
static void test_threads_that_have_not_got_to_run_yet_are_counted_on(void **state) {
    (void)state;
    static job_t jobs[5];
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 1, .threads_max = 100});
    pthread_mutex_lock(&tally->gate);
    for (unsigned i = 0; i < 5; ++i) jobs[i] = make(tally, i);
    give(work, &jobs[0]);
    WAIT_UNTIL(atomic_load(&tally->inside) == 1);
    pthread_mutex_lock(&work->lock);
    work->count += 3; /* there are none, so they never come */
    pthread_mutex_unlock(&work->lock);
    for (unsigned i = 1; i < 4; ++i) give(work, &jobs[i]);
    pause_ms(30);
    assert_int_equal(read_stats(work).threads_started, 1);
    give(work, &jobs[4]); /* one more than they could take */
    WAIT_UNTIL(atomic_load(&tally->inside) == 2);
    pause_ms(30);
    assert_int_equal(read_stats(work).threads_started, 2);
    pthread_mutex_lock(&work->lock);
    work->count -= 3;
    pthread_mutex_unlock(&work->lock);
    WAIT_UNTIL(atomic_load(&tally->inside) == 5);
    pthread_mutex_unlock(&tally->gate);
    WAIT_UNTIL(atomic_load(&tally->done) == 5);
    assert_int_equal(read_stats(work).threads_started, 5);
    end(work);
}

static void test_one_thread_is_enough_for_jobs_that_do_not_block(void **state) {
    (void)state;
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 1, .threads_max = 100});
    for (unsigned i = 0; i < 200; ++i) {
        job_t job = make(tally, i);
        give(work, &job);
        WAIT_UNTIL(atomic_load(&tally->done) == i + 1);
    }
    assert_in_range(read_stats(work).threads_started, 1, 20); /* more only where the machine is slow to go on */
    end(work);
}

static void test_threads_without_work_end_but_for_the_minimum(void **state) {
    (void)state;
    static job_t jobs[8];
    tally_t *tally = tally_new();
    uvhttp__work_t *work =
        pool((uvhttp__work_options_t){.threads_min = 2, .threads_soon = 8, .threads_max = 8, .idle_ms = 20});
    uvhttp__work_start(work);
    assert_int_equal(read_stats(work).threads, 2);
    for (int round = 1; round <= 2; ++round) { /* in the second one the threads' memory is used again */
        pthread_mutex_lock(&tally->gate);
        for (unsigned i = 0; i < 8; ++i) {
            jobs[i] = make(tally, i);
            give(work, &jobs[i]);
        }
        WAIT_UNTIL(atomic_load(&tally->inside) == 8);
        pthread_mutex_unlock(&tally->gate);
        WAIT_UNTIL(atomic_load(&tally->done) == 8u * (unsigned)round);
        WAIT_UNTIL(read_stats(work).threads == 2);
    }
    pause_ms(60);
    uvhttp__work_stats_t stats = read_stats(work);
    assert_int_equal(stats.threads, 2);
    assert_true(stats.threads_ended >= 12); /* more where jobs were given so slowly that some ended in between */
    assert_int_equal(stats.threads_started, stats.threads_ended + 2);
    end(work);
}

static void count_line(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)size;
    if (strstr(message, "longer than 20 ms; the longest: slow")) atomic_fetch_add((atomic_uint *)user, 1);
}

static void test_jobs_that_take_long_are_counted_once_and_reported(void **state) {
    (void)state;
    static job_t jobs[3];
    static atomic_uint lines;
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 3, .threads_max = 3, .warn_ms = 20});
    atomic_store(&lines, 0);
    uvhttp_log_set_callback(count_line, &lines);
    pthread_mutex_lock(&tally->gate);
    for (unsigned i = 0; i < 3; ++i) {
        jobs[i] = make(tally, i);
        jobs[i].job.name = "slow";
        give(work, &jobs[i]);
    }
    WAIT_UNTIL(read_stats(work).slow == 3);
    pause_ms(60);
    assert_int_equal(read_stats(work).slow, 3);
    pthread_mutex_unlock(&tally->gate);
    end(work);
    uvhttp_log_set_callback(NULL, NULL);
    assert_in_range(atomic_load(&lines), 1, 3);
}

/* --- the queue --- */

static void test_the_time_in_the_queue_is_recorded(void **state) {
    (void)state;
    static job_t jobs[2];
    static uvhttp__histogram_t read;
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 1, .threads_max = 1, .queue_time = true});
    pthread_mutex_lock(&tally->gate);
    for (unsigned i = 0; i < 2; ++i) {
        jobs[i] = make(tally, i);
        give(work, &jobs[i]);
    }
    pause_ms(20);
    pthread_mutex_unlock(&tally->gate);
    WAIT_UNTIL(atomic_load(&tally->done) == 2);
    uvhttp__histogram_init(&read);
    uvhttp__work_stats_t stats;
    uvhttp__work_read(work, &stats, &read);
    assert_int_equal(uvhttp__histogram_count(&read), 2);
    assert_true(uvhttp__histogram_max(&read) >= 20 * MS); /* the second one waited for the first */
    end(work);
}

static void test_a_full_pool_refuses_and_counts(void **state) {
    (void)state;
    static job_t jobs[10];
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 1, .threads_max = 1, .backlog_max = 3});
    pthread_mutex_lock(&tally->gate);
    jobs[0] = make(tally, 0);
    give(work, &jobs[0]);
    WAIT_UNTIL(atomic_load(&tally->inside) == 1);
    for (unsigned i = 1; i < 10; ++i) {
        jobs[i] = make(tally, i);
        if (i == 2) jobs[i].job.delay_ns = MS; /* what waits for its time counts, too */
        if (i == 3) jobs[i].job.tag = 7;
        assert_int_equal(uvhttp__work_submit(work, NULL, &jobs[i].job), i <= 3 ? UVHTTP_OK : UVHTTP_E_WORK_FULL);
    }
    assert_int_equal(read_stats(work).refused, 6);
    pthread_mutex_unlock(&tally->gate);
    WAIT_UNTIL(atomic_load(&tally->done) == 4);
    end(work);
}

/* --- tags --- */

static void test_jobs_of_a_tag_run_in_order_and_never_at_the_same_time(void **state) {
    (void)state;
    static job_t jobs[MANY], others[4];
    tally_t *tally = tally_new(), other = {0};
    pthread_mutex_init(&other.gate, NULL);
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 8, .threads_max = 8});
    pthread_mutex_lock(&tally->gate);
    for (unsigned i = 0; i < MANY; ++i) {
        jobs[i] = make(tally, i);
        jobs[i].job.tag = 42;
        give(work, &jobs[i]);
    }
    for (unsigned i = 0; i < 4; ++i) { /* of other tags: they need not wait, not even in the same bucket */
        others[i] = make(&other, i);
        others[i].job.tag = 43 + i * UINT64_C(0x100000000);
        give(work, &others[i]);
    }
    WAIT_UNTIL(atomic_load(&other.done) == 4);
    pthread_mutex_unlock(&tally->gate);
    WAIT_UNTIL(atomic_load(&tally->done) == MANY);
    assert_int_equal(atomic_load(&tally->most_inside), 1);
    for (unsigned i = 0; i < MANY; ++i) assert_int_equal(atomic_load(&tally->order[i]), i);
    end(work);
}

static void test_a_cancelled_job_gives_its_tag_to_the_next(void **state) {
    (void)state;
    static job_t jobs[6];
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 1, .threads_max = 1});
    pthread_mutex_lock(&tally->gate);
    jobs[0] = make(tally, 0); /* keeps the only thread, and has no tag */
    give(work, &jobs[0]);
    WAIT_UNTIL(atomic_load(&tally->inside) == 1);
    for (unsigned i = 1; i < 6; ++i) {
        jobs[i] = make(tally, i);
        jobs[i].job.tag = 5;
        give(work, &jobs[i]);
    }
    assert_int_equal(uvhttp__work_cancel(work, &jobs[1].job), UVHTTP_OK); /* it has the tag */
    assert_int_equal(uvhttp__work_cancel(work, &jobs[3].job), UVHTTP_OK); /* it waits for it */
    assert_int_equal(atomic_load(&tally->cancelled), 2);
    assert_int_equal(uvhttp__work_cancel(work, &jobs[0].job), UVHTTP_E_STATE); /* it runs */
    assert_int_equal(uvhttp__work_cancel(work, &jobs[1].job), UVHTTP_E_STATE); /* it is over */
    pthread_mutex_unlock(&tally->gate);
    WAIT_UNTIL(atomic_load(&tally->done) == 6);
    const unsigned order[] = {0, 2, 4, 5};
    for (unsigned i = 0; i < 4; ++i) assert_int_equal(atomic_load(&tally->order[i]), order[i]);
    assert_int_equal(read_stats(work).cancelled, 2);
    end(work);
}

/* --- times --- */

static void test_delayed_jobs_run_in_the_order_of_their_times(void **state) {
    (void)state;
    static job_t jobs[MANY];
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 1, .threads_max = 1});
    uint64_t earliest_ns[MANY],
        latest_ns[MANY]; /* of its time: it was given somewhere between two looks at the clock */
    for (unsigned i = 0; i < MANY; ++i) {
        jobs[i] = make(tally, i);
        jobs[i].job.delay_ns = (20 + 2 * (uint64_t)(i * 7 % MANY)) * MS; /* no common factor: each delay comes once */
        if (i == 10) jobs[i].job.delay_ns = 3600 * 1000 * MS;
        earliest_ns[i] = uvhttp__clock_ns() + jobs[i].job.delay_ns;
        give(work, &jobs[i]);
        latest_ns[i] = uvhttp__clock_ns() + jobs[i].job.delay_ns;
    }
    assert_int_equal(uvhttp__work_cancel(work, &jobs[10].job), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&tally->done) == MANY);
    uint64_t end_ns = uvhttp__clock_ns();
    for (unsigned i = 0; i < MANY - 1; ++i) {
        unsigned number = atomic_load(&tally->order[i]);
        assert_true(number != 10 && earliest_ns[number] <= end_ns);
        if (i > 0) assert_true(earliest_ns[atomic_load(&tally->order[i - 1])] <= latest_ns[number]);
    }
    assert_int_equal(atomic_load(&tally->cancelled), 1);
    end(work);
}

static void test_a_periodic_job_comes_again_until_it_is_cancelled(void **state) {
    (void)state;
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 2, .threads_max = 2});
    job_t job = make(tally, 1);
    job.job.period_ns = 2 * MS;
    give(work, &job);
    WAIT_UNTIL(atomic_load(&tally->ran) >= 5);
    pthread_mutex_lock(&tally->gate); /* it takes longer than its period: never beside itself */
    pause_ms(10);
    assert_true(atomic_load(&tally->inside) <= 1);
    pthread_mutex_unlock(&tally->gate);
    assert_int_equal(atomic_load(&tally->done), 0);
    assert_int_equal(uvhttp__work_cancel(work, &job.job), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&tally->done) == 1);
    unsigned ran = atomic_load(&tally->ran);
    pause_ms(10);
    assert_int_equal(atomic_load(&tally->ran), ran);
    assert_int_equal(atomic_load(&tally->cancelled), 1);
    end(work);
}

/* --- the end --- */

static void *stop(void *arg) {
    uvhttp__work_stop(arg, uvhttp__clock_ns() + LIMIT_MS * MS);
    return NULL;
}

static void test_a_stop_runs_what_is_ready_and_cancels_what_is_timed(void **state) {
    (void)state;
    static job_t jobs[20];
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 2, .threads_max = 2});
    pthread_mutex_lock(&tally->gate);
    for (unsigned i = 0; i < 20; ++i) {
        jobs[i] = make(tally, i);
        if (i % 4 == 1) jobs[i].job.delay_ns = 3600 * 1000 * MS;
        if (i % 4 == 2) jobs[i].job.period_ns = 3600 * 1000 * MS;
        if (i % 4 == 3) jobs[i].job.tag = 1;
        give(work, &jobs[i]);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, stop, work);
    WAIT_UNTIL(atomic_load(&tally->cancelled) == 10);
    job_t late = make(tally, 0);
    late.job.delay_ns = MS;
    assert_int_equal(uvhttp__work_submit(work, NULL, &late.job), UVHTTP_E_STATE);
    pthread_mutex_unlock(&tally->gate);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&tally->ran), 10);
    assert_int_equal(atomic_load(&tally->done), 20);
    end(work);
}

static void test_a_stop_cancels_what_is_still_ready_at_its_deadline(void **state) {
    (void)state;
    static job_t jobs[9];
    tally_t *tally = tally_new();
    uvhttp__work_t *work = pool((uvhttp__work_options_t){.threads_soon = 1, .threads_max = 1});
    pthread_mutex_lock(&tally->gate);
    for (unsigned i = 0; i < 9; ++i) {
        jobs[i] = make(tally, i);
        if (i > 3) jobs[i].job.tag = i % 2 + 1;
        give(work, &jobs[i]);
    }
    WAIT_UNTIL(atomic_load(&tally->inside) == 1);
    pthread_t thread;
    pthread_create(&thread, NULL, stop, work);
    pause_ms(5);
    assert_int_equal(atomic_load(&tally->cancelled), 0);
    pthread_mutex_unlock(&tally->gate);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&tally->ran), 9);

    pthread_mutex_lock(&tally->gate);
    for (unsigned i = 0; i < 9; ++i) give(work, &jobs[i]);
    WAIT_UNTIL(atomic_load(&tally->inside) == 1);
    pthread_mutex_unlock(&tally->gate);
    uvhttp__work_stop(work, 0);
    assert_int_equal(atomic_load(&tally->done), 18);
    assert_int_equal(atomic_load(&tally->ran) + atomic_load(&tally->cancelled), 18);
    end(work);
}

/* --- memory --- */

/* Pools and jobs of every kind, with the n-th allocation failing: what is refused is refused whole. */
static void test_without_memory_jobs_are_refused_and_the_rest_continues(void **state) {
    (void)state;
    static job_t jobs[30];
    bool failed = true;
    for (int n = 1; failed; ++n) {
        tally_t *tally = tally_new();
        test_allocator_fail_at((size_t)n);
        const uvhttp__work_options_t options = {.threads_soon = 2, .threads_max = 4, .backlog_max = 100};
        uvhttp__work_t *work = uvhttp__work_new(&options);
        unsigned consumed = 0;
        for (unsigned i = 0; work && i < 30; ++i) {
            jobs[i] = make(tally, i);
            if (i % 3 == 1) jobs[i].job.delay_ns = MS;
            if (i % 3 == 2) jobs[i].job.tag = i % 2 + 1;
            int status = uvhttp__work_submit(work, NULL, &jobs[i].job);
            assert_true(status == UVHTTP_OK || status == UVHTTP_E_NOMEM);
            consumed += status == UVHTTP_OK;
        }
        failed = test_allocator_failed();
        test_allocator_fail_at(0);
        if (!work) continue;
        assert_true(consumed >= 9);
        WAIT_UNTIL(atomic_load(&tally->done) == consumed);
        assert_int_equal(atomic_load(&tally->ran), consumed);
        end(work);
    }
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(
        test_blocked_threads_are_joined_by_more_up_to_the_maximum,
        test_threads_that_have_not_got_to_run_yet_are_counted_on, test_one_thread_is_enough_for_jobs_that_do_not_block,
        test_threads_without_work_end_but_for_the_minimum, test_jobs_that_take_long_are_counted_once_and_reported,
        test_the_time_in_the_queue_is_recorded, test_a_full_pool_refuses_and_counts,
        test_jobs_of_a_tag_run_in_order_and_never_at_the_same_time, test_a_cancelled_job_gives_its_tag_to_the_next,
        test_delayed_jobs_run_in_the_order_of_their_times, test_a_periodic_job_comes_again_until_it_is_cancelled,
        test_a_stop_runs_what_is_ready_and_cancels_what_is_timed,
        test_a_stop_cancels_what_is_still_ready_at_its_deadline,
        test_without_memory_jobs_are_refused_and_the_rest_continues);
}
