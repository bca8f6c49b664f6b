/* Owns: handlers that submit jobs of the application to the pool: with tags that all requests share, after a delay, or
 * periodic ones, from loops, from worker threads and from other jobs; and those that cancel them at any time. How often
 * each runs, when, in which order, and on which thread it ends, is checked. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvhttp.h>

#include "client.h"
#include "conn/tcp_server.h"

enum { JOBS_MAX = 8, TAGS = 4, RUNS_MAX = 4 };

typedef struct batch batch_t;

typedef struct job {
    batch_t *batch;
    uint32_t tag; /* 0: none */
    uint32_t delay_ms, period_ms, work_ms;
    uint32_t runs_max, runs; /* runs_max: of a periodic one, which then cancels itself */
    uvhttp_work_t *handle;
    uint64_t begun, submitted; /* moments of the call, in the order of all calls; submitted: 0: it has not returned */
    uint64_t begun_ns, submitted_ns, ended_ns; /* ended_ns: when the last run has ended */
    pthread_t thread, runner;
    bool on_loop, running, done, withdrawn; /* withdrawn: a call that cancels it has returned 0 */
    uint32_t cancels, misses;               /* calls, and those that were too late */
    uint32_t runs_since;                    /* it was withdrawn */
} job_t;

/* All of a request. They last until the end of the run, so that a callback that comes too late is seen. */
struct batch {
    batch_t *next;
    uint32_t id, size, ms, count, left; /* left: jobs that are not done, and the handler */
    sim_random_t random;
    job_t jobs[JOBS_MAX];
    uvhttp_deferred_t *deferred;
    uvhttp_timer_t timer;
    bool over; /* the response is */
};

static struct {
    const job_t *runs;                /* now */
    uint64_t last_begun, last_due_ns; /* of those without a delay; of those with one, the earliest it can be due */
} tags[TAGS];

static batch_t *all;
static uint64_t calls;

static void submit(batch_t *batch);

/* --- the end --- */

static void leave(batch_t *batch) {
    if (--batch->left > 0) return;
    sim_pass_on_deferred(batch->deferred, batch->id, batch->size);
    uvhttp_deferred_release(batch->deferred);
}

static bool is_once(const job_t *job) {
    return job->period_ms == 0;
}

static void check_done(const job_t *job, int status) {
    const uint32_t id = job->batch->id;
    if (job->done) sim_fail("a job of %x ends twice", id);
    if (job->running) sim_fail("a job of %x ends while it runs", id);
    if (status != UVHTTP_OK && status != UVHTTP_E_WORK_CANCELLED)
        sim_fail("a job of %x ends with %s", id, uvhttp_error_name(status));
    if (status == UVHTTP_OK && (!is_once(job) || job->runs != 1))
        sim_fail("a job of %x has run %u times", id, job->runs);
    if (status != UVHTTP_OK && is_once(job) && job->runs > 0) sim_fail("a job of %x has run and is cancelled", id);
    if (status != UVHTTP_OK && job->misses == job->cancels && !sim_clients_have_stopped())
        sim_fail("a job of %x is cancelled by nobody", id);
    if (job->on_loop && !pthread_equal(pthread_self(), job->thread))
        sim_fail("a job of %x ends on another thread than its loop's", id);
    if (!job->on_loop && status == UVHTTP_OK && !pthread_equal(pthread_self(), job->runner))
        sim_fail("a job of %x ends on another thread than the one that ran it", id);
}

static void on_done(void *user, int status) {
    job_t *job = user;
    batch_t *batch = job->batch;
    sim_trace("job ends", batch->id, (uint64_t)-status);
    check_done(job, status);
    job->done = true;
    if (sim_one_in(&batch->random, 6)) submit(batch);
    leave(batch);
}

static void cancel(job_t *job) {
    const uint32_t id = job->batch->id;
    if (!job->handle) return;
    job->cancels++;
    int status = uvhttp_work_cancel(job->handle);
    if (status != UVHTTP_OK && status != UVHTTP_E_STATE)
        sim_fail("a job of %x cannot be cancelled: %s", id, uvhttp_error_name(status));
    job->misses += status != UVHTTP_OK;
    if (status != UVHTTP_OK) return;
    if (job->withdrawn) sim_fail("a job of %x is cancelled twice", id);
    job->withdrawn = true;
    if (is_once(job) && job->runs > 0) sim_fail("a job of %x is cancelled and has run", id);
    if (!job->on_loop && job->runs == 0 && !job->done && is_once(job))
        sim_fail("a job of %x is cancelled and has no end", id);
}

static void cancel_some(batch_t *batch) {
    for (uint32_t i = 0; i < batch->count && i < JOBS_MAX; i++)
        if (batch->jobs[i].submitted && sim_one_in(&batch->random, 2)) cancel(&batch->jobs[i]);
}

/* --- a run --- */

/* Those that were given without a delay run in the order of the calls, as far as they had one; the others in that in
 * which they become due. */
static void check_order(const job_t *job) {
    uint64_t submitted = job->submitted ? job->submitted : UINT64_MAX;
    uint64_t submitted_ns = job->submitted ? job->submitted_ns : UINT64_MAX / 2;
    if (job->delay_ms == 0 && tags[job->tag].last_begun > submitted)
        sim_fail("a job of %x with tag %u runs behind one that was submitted later", job->batch->id, job->tag);
    if (job->delay_ms > 0 && tags[job->tag].last_due_ns > submitted_ns + job->delay_ms * SIM_MS)
        sim_fail("a job of %x with tag %u runs behind one that was due later", job->batch->id, job->tag);
    if (job->delay_ms == 0 && job->begun > tags[job->tag].last_begun) tags[job->tag].last_begun = job->begun;
    uint64_t due_ns = job->begun_ns + job->delay_ms * SIM_MS;
    if (job->delay_ms > 0 && due_ns > tags[job->tag].last_due_ns) tags[job->tag].last_due_ns = due_ns;
}

/* Starts that were due while it ran are skipped, and so is one at its end. The first is due some time after a moment
 * within the call. */
static void check_period(const job_t *job) {
    const uint64_t period_ns = job->period_ms * SIM_MS,
                   first_ns = (job->delay_ms ? job->delay_ms : job->period_ms) * SIM_MS;
    const uint64_t latest_ns = job->submitted_ns + first_ns;
    if (job->submitted == 0 || job->runs == 0 || job->ended_ns < latest_ns) return;
    uint64_t skipped = (job->ended_ns - latest_ns) / period_ns + 1;
    if (sim_now_ns < job->begun_ns + first_ns + skipped * period_ns)
        sim_fail("a job of %x makes up for a start that it has missed", job->batch->id);
}

static void check_start(const job_t *job) {
    const uint32_t id = job->batch->id;
    uint32_t first_ms = job->delay_ms ? job->delay_ms : job->period_ms;
    if (job->done || (job->withdrawn && is_once(job))) sim_fail("a job of %x runs behind its end", id);
    if (job->runs_since > 1) sim_fail("a job of %x is cancelled and runs again", id); /* one was about to */
    if (job->running) sim_fail("a job of %x runs twice at a time", id);
    if (is_once(job) && job->runs > 0) sim_fail("a job of %x runs again", id);
    uint64_t due_ns = job->begun_ns + (first_ms + (uint64_t)job->runs * job->period_ms) * SIM_MS;
    if (sim_now_ns < due_ns)
        sim_fail("a job of %x runs %llu us before it is due", id, (unsigned long long)(due_ns - sim_now_ns) / 1000);
    if (job->tag && tags[job->tag].runs) sim_fail("two jobs with tag %u run at a time, one of %x", job->tag, id);
    if (!is_once(job)) check_period(job);
    if (job->tag && is_once(job)) check_order(job);
}

static void run(void *user) {
    job_t *job = user;
    batch_t *batch = job->batch;
    sim_trace("job runs", batch->id, job->runs);
    job->runs_since += job->withdrawn;
    check_start(job);
    job->runs++;
    job->running = true;
    job->runner = pthread_self();
    if (job->tag) tags[job->tag].runs = job;
    if (job->work_ms) nanosleep(&(struct timespec){.tv_nsec = job->work_ms * 1000000L}, NULL);
    if (sim_one_in(&batch->random, 6)) submit(batch);
    if (!is_once(job) && job->runs >= job->runs_max) cancel(job);
    if (job->tag) tags[job->tag].runs = NULL;
    job->running = false;
    job->ended_ns = sim_now_ns;
}

/* --- submitting --- */

static void plan(job_t *job) {
    sim_random_t *random = &job->batch->random;
    const uint32_t ms = job->batch->ms;
    job->tag = sim_one_in(random, 3) ? 0 : 1 + sim_below(random, TAGS - 1);
    job->delay_ms = sim_one_in(random, 2) ? 0 : sim_below(random, ms + 1);
    job->period_ms = sim_one_in(random, 4) ? 1 + sim_below(random, ms / 4 + 1) : 0;
    job->work_ms = sim_one_in(random, 2) ? sim_below(random, ms / 16 + 1) : 0;
    job->runs_max = 1 + sim_below(random, RUNS_MAX);
}

static bool may_be(const job_t *job, int status) {
    switch (status) {
        case UVHTTP_OK: return true;
        case UVHTTP_E_NOMEM: return sim_failing;
        case UVHTTP_E_WORK_FULL: return !sim_threads_are_patient;
        case UVHTTP_E_STATE: return (job->delay_ms || job->period_ms) && sim_clients_have_stopped();
        default: return false;
    }
}

static void submit(batch_t *batch) {
    if (batch->count >= JOBS_MAX) return;
    job_t *job = &batch->jobs[batch->count++];
    *job = (job_t){.batch = batch,
                   .on_loop = uvhttp__tcp_server_current_loop() != NULL,
                   .thread = pthread_self(),
                   .begun_ns = sim_now_ns};
    plan(job);
    const uvhttp_work_options_t options = {.done = on_done,
                                           .tag = job->tag,
                                           .delay_ms = job->delay_ms,
                                           .period_ms = job->period_ms,
                                           .name = "a job of the application"};
    batch->left++;
    job->begun = ++calls;
    int status = uvhttp_work_with(sim_server, &options, run, job, &job->handle);
    job->submitted_ns = sim_now_ns;
    job->submitted = ++calls;
    sim_trace("job", batch->id, (uint64_t)-status);
    if (!may_be(job, status)) sim_fail("a job of %x is refused: %s", batch->id, uvhttp_error_name(status));
    if (status == UVHTTP_OK) return;
    if (job->handle || job->runs > 0 || job->done) sim_fail("a job of %x is refused and called", batch->id);
    job->done = true;
    batch->left--;
}

/* --- handlers --- */

static void on_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    cancel_some(user);
}

static void on_over(uvhttp_response_t *res, int status, void *user) {
    batch_t *batch = user;
    (void)res, (void)status;
    if (batch->over) sim_fail("on_done of %x is called twice", batch->id);
    batch->over = true;
    uvhttp_timer_stop(&batch->timer);
    if (sim_one_in(&batch->random, 2)) cancel_some(batch);
}

enum { ON_LOOP, ON_WORKER };
static const int where[] = {ON_LOOP, ON_WORKER};

static void on_jobs(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const bool on_loop = *(const int *)user == ON_LOOP;
    batch_t *batch = calloc(1, sizeof *batch);
    if (!batch) abort();
    *batch = (batch_t){.next = all,
                       .id = sim_request_number(req, "tag", 16),
                       .size = sim_request_number(req, "size", 10),
                       .ms = sim_request_number(req, "ms", 10)};
    batch->random = sim_random_of(batch->id, 0x10b);
    all = batch;
    if (uvhttp_response_on_done(res, on_over, batch) != UVHTTP_OK) return;
    batch->deferred = uvhttp_response_defer(res);
    if (!batch->deferred) return;
    batch->left = 1;
    for (uint32_t i = 1 + sim_below(&batch->random, JOBS_MAX - 2); i > 0; i--) submit(batch);
    if (!on_loop && sim_one_in(&batch->random, 3)) cancel_some(batch);
    if (on_loop && !batch->over && sim_one_in(&batch->random, 2))
        (void)uvhttp_timer_start(&batch->timer, sim_below(&batch->random, batch->ms + 1), on_timer, batch);
    leave(batch);
}

void sim_jobs_add(uvhttp_server_t *server) {
    memset(tags, 0, sizeof tags);
    calls = 0;
    uvhttp_get(server, "/jobs/:tag/:size/:ms", on_jobs, (void *)(uintptr_t)&where[ON_LOOP]);
    uvhttp_route(server, UVHTTP_GET, "/wjobs/:tag/:size/:ms", on_jobs, (void *)(uintptr_t)&where[ON_WORKER],
                 UVHTTP_EXEC_WORKER);
}

void sim_jobs_check_end(void) {
    for (batch_t *next, *batch = all; batch; batch = next) {
        next = batch->next;
        if (batch->left) sim_fail("%u jobs of %x have no end", batch->left, batch->id);
        for (uint32_t i = 0; i < batch->count && i < JOBS_MAX; i++) uvhttp_work_release(batch->jobs[i].handle);
        free(batch);
    }
    all = NULL;
}
