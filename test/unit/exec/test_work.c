/* Helper threads: jobs go there and come back, the backlog is bounded, and an end waits for what runs. */
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "../support/failing_allocator.h"
#include "exec/work.h"
#include "support/run.h"

#define MANY 2000

typedef struct fixture {
    uvhttp__counters_t counters;
    uvhttp__loop_t *loop;
    uvhttp__work_t *work;
    uvhttp__work_port_t port;
    pthread_mutex_t gate;          /* held by the test: jobs wait */
    uint32_t ran, done, cancelled; /* ran: under the gate; the others: the loop's thread */
    uint32_t left;
} fixture_t;

typedef struct job {
    uvhttp__job_t job;
    fixture_t *fixture;
    pthread_t ran_on;
} job_t;

static void run(uvhttp__job_t *base) {
    job_t *job = UVHTTP__CONTAINER_OF(base, job_t, job);
    job->ran_on = pthread_self();
    pthread_mutex_lock(&job->fixture->gate);
    job->fixture->ran++;
    pthread_mutex_unlock(&job->fixture->gate);
}

static void done(uvhttp__job_t *base, bool cancelled) {
    job_t *job = UVHTTP__CONTAINER_OF(base, job_t, job);
    fixture_t *fixture = job->fixture;
    fixture->done++;
    fixture->cancelled += cancelled;
    if (!cancelled) assert_false(pthread_equal(job->ran_on, pthread_self()));
    if (--fixture->left == 0 && fixture->loop) uvhttp__loop_stop(fixture->loop);
}

static fixture_t *fixture_new(uint32_t threads, uint32_t backlog) {
    static fixture_t fixture;
    memset(&fixture, 0, sizeof fixture);
    pthread_mutex_init(&fixture.gate, NULL);
    const uvhttp__loop_options_t options = {.engine = UVHTTP__ENGINE_EPOLL,
                                            .receive_buffer_size = 4096,
                                            .receive_buffer_count = 8,
                                            .counters = &fixture.counters};
    assert_int_equal(uvhttp__loop_new(&options, &fixture.loop), UVHTTP_OK);
    fixture.work = uvhttp__work_new(
        &(uvhttp__work_options_t){.threads_soon = threads, .threads_max = threads, .backlog_max = backlog});
    assert_non_null(fixture.work);
    uvhttp__work_port_open(&fixture.port, fixture.work, fixture.loop);
    return &fixture;
}

static void fixture_end(fixture_t *fixture) {
    uvhttp__work_port_close(&fixture->port);
    uvhttp__loop_free(fixture->loop, NULL, NULL);
    uvhttp__work_free(fixture->work);
    pthread_mutex_destroy(&fixture->gate);
}

static int submit(fixture_t *fixture, job_t *job) {
    *job = (job_t){.job = {.run = run, .done = done}, .fixture = fixture};
    int status = uvhttp__work_submit(fixture->work, &fixture->port, &job->job);
    if (status == UVHTTP_OK) fixture->left++;
    return status;
}

static void test_all_jobs_run_elsewhere_and_come_back(void **state) {
    (void)state;
    static job_t jobs[MANY];
    fixture_t *fixture = fixture_new(3, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(submit(fixture, &jobs[i]), UVHTTP_OK);
    uvhttp__loop_run(fixture->loop);
    assert_int_equal(fixture->done, MANY);
    assert_int_equal(fixture->ran, MANY);
    assert_int_equal(fixture->cancelled, 0);
    fixture_end(fixture);
}

static void test_a_full_backlog_refuses(void **state) {
    (void)state;
    static job_t jobs[20];
    fixture_t *fixture = fixture_new(2, 5);
    pthread_mutex_lock(&fixture->gate);
    int refused = 0;
    for (int i = 0; i < 20; i++) refused += submit(fixture, &jobs[i]) == UVHTTP_E_WORK_FULL;
    assert_in_range(refused, 13, 15); /* two run, unless they have not begun yet; five wait */
    pthread_mutex_unlock(&fixture->gate);
    uvhttp__loop_run(fixture->loop);
    assert_int_equal(fixture->done, 20 - refused);
    job_t again;
    assert_int_equal(submit(fixture, &again), UVHTTP_OK);
    uvhttp__loop_run(fixture->loop);
    fixture_end(fixture);
}

static void test_closing_cancels_what_waits_and_waits_for_what_runs(void **state) {
    (void)state;
    static job_t jobs[10];
    fixture_t *fixture = fixture_new(1, 10);
    job_t other_jobs[2];
    uvhttp__work_port_t other;
    uvhttp__work_port_open(&other, fixture->work, fixture->loop);
    pthread_mutex_lock(&fixture->gate);
    for (int i = 0; i < 10; i++) assert_int_equal(submit(fixture, &jobs[i]), UVHTTP_OK);
    pthread_mutex_unlock(&fixture->gate);
    for (int i = 0; i < 2; i++) {
        other_jobs[i] = (job_t){.job = {.run = run, .done = done}, .fixture = fixture};
        if (uvhttp__work_submit(fixture->work, &other, &other_jobs[i].job) == UVHTTP_OK) fixture->left++;
    }
    uint32_t submitted = fixture->left;
    uvhttp__work_port_close(&fixture->port);
    assert_true(fixture->done >= 10);
    uvhttp__work_port_close(&other);
    assert_int_equal(fixture->done, submitted);
    assert_int_equal(fixture->ran + fixture->cancelled, submitted);
    uvhttp__work_port_close(&other); /* again: nothing */
    fixture_end(fixture);
}

static void test_two_loops_share_the_threads(void **state) {
    (void)state;
    static job_t jobs[200];
    fixture_t *fixture = fixture_new(2, 1000);
    uvhttp__counters_t counters = {0};
    uvhttp__loop_t *second;
    const uvhttp__loop_options_t options = {
        .engine = UVHTTP__ENGINE_AUTO, .receive_buffer_size = 4096, .receive_buffer_count = 8, .counters = &counters};
    assert_int_equal(uvhttp__loop_new(&options, &second), UVHTTP_OK);
    uvhttp__work_port_t port;
    uvhttp__work_port_open(&port, fixture->work, second);
    for (int i = 0; i < 200; i++) {
        jobs[i] = (job_t){.job = {.run = run, .done = done}, .fixture = fixture};
        fixture->left++;
        assert_int_equal(uvhttp__work_submit(fixture->work, i % 2 ? &port : &fixture->port, &jobs[i].job), UVHTTP_OK);
    }
    uvhttp__work_port_close(&port);
    uvhttp__work_port_close(&fixture->port);
    assert_int_equal(fixture->done, 200);
    uvhttp__loop_free(second, NULL, NULL);
    fixture_end(fixture);
}

static void test_no_memory_is_no_pool(void **state) {
    (void)state;
    test_allocator_fail_at(1);
    assert_null(uvhttp__work_new(&(uvhttp__work_options_t){.threads_max = 4, .backlog_max = 4}));
    test_allocator_fail_at(0);
    uvhttp__work_free(NULL);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_all_jobs_run_elsewhere_and_come_back, test_a_full_backlog_refuses,
                     test_closing_cancels_what_waits_and_waits_for_what_runs, test_two_loops_share_the_threads,
                     test_no_memory_is_no_pool);
}
