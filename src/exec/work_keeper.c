/* Owns: what nobody else has time for: jobs whose time comes, growth when the threads are blocked, jobs that take long.
 * A thread of its own, made when there is something to look after. May include: io, base, obs. */
#include <stdio.h>
#include <uvhttp/log.h>

#include "exec/work_internal.h"

#define MS UINT64_C(1000000) /* ns */

/* A job that has been ready for so long says that the threads are blocked, or that there is more to compute than there
 * are CPUs. */
#define GROW_AFTER_NS (2 * MS)
/* Between two looks while threads are added, and while that would not help. */
#define GROW_INTERVAL_NS (1 * MS)
#define SATURATED_INTERVAL_NS (20 * MS)

static void run_due(uvhttp__work_t *work, uint64_t now_ns) {
    while (work->heap_count > 0 && work->heap[0]->due_ns <= now_ns) {
        uvhttp__job_t *job = work->heap[0];
        uvhttp__work_heap_remove(work, job);
        if (uvhttp__work_make_ready(work, job, now_ns)) uvhttp__work_call_thread(work, now_ns);
    }
}

/* Whether the process has used nine tenths of what the CPUs can give since the last look. */
static bool saturated(uvhttp__work_t *work, uint64_t now_ns) {
    uint64_t cpu_ns = uvhttp__clock_cpu_ns();
    uint64_t span_ns = (now_ns - work->seen_ns) * work->cpus, used_ns = cpu_ns - work->seen_cpu_ns;
    work->seen_ns = now_ns;
    work->seen_cpu_ns = cpu_ns;
    return used_ns * 10 >= span_ns * 9;
}

/* Stops checking, unless it is still needed. */
static bool keep_checking(uvhttp__work_t *work) {
    work->checking = false;
    uvhttp__work_update_callable(work);
    work->checking = work->count < work->options.threads_max && uvhttp__work_any_ready(work);
    uvhttp__work_update_callable(work);
    return work->checking;
}

/* Threads that have no job: idle, or about to look for one. */
static uint32_t count_coming(const uvhttp__work_t *work) {
    uint32_t busy = 0;
    for (const uvhttp__work_thread_t *thread = work->all; thread; thread = thread->next) busy += thread->busy;
    return work->count > busy ? work->count - busy : 0;
}

/* Doubles the number of threads while the existing ones are blocked. When all CPUs are busy, more threads would only
 * slow everything down; if nothing progresses behind long computations, one is started. Returns when to check again. */
static uint64_t grow(uvhttp__work_t *work, uint64_t now_ns) {
    if (!keep_checking(work)) return UINT64_MAX;
    /* A busy machine may not let threads run for a while that were started or woken for these jobs. Counted first: a
     * job that one of them takes between the two counts must not be missing a thread. */
    uint32_t coming = count_coming(work);
    uint64_t oldest_ns;
    uint32_t ready = uvhttp__work_count_ready(work, &oldest_ns);
    if (ready == 0) return now_ns + GROW_INTERVAL_NS; /* started meanwhile */
    if (now_ns < oldest_ns + GROW_AFTER_NS) return oldest_ns + GROW_AFTER_NS;
    if (ready <= coming) return now_ns + GROW_INTERVAL_NS;
    if (now_ns < work->seen_ns + GROW_INTERVAL_NS) return work->seen_ns + GROW_INTERVAL_NS;
    uint64_t interval_ns = GROW_INTERVAL_NS, started = uvhttp__work_count_started(work);
    uint32_t more = work->count > 0 ? work->count : 1;
    if (saturated(work, now_ns)) {
        more = started == work->seen_jobs;
        interval_ns = SATURATED_INTERVAL_NS;
    }
    work->seen_jobs = started;
    if (more > ready - coming) more = ready - coming;
    if (more > work->options.threads_max - work->count) more = work->options.threads_max - work->count;
    while (more > 0 && uvhttp__work_start_thread(work)) more--;
    return now_ns + interval_ns;
}

static void warn(uvhttp__work_t *work, const char *name, uint64_t ns, uint32_t count) {
    char text[128];
    snprintf(text, sizeof text, "%s", name ? name : "a job without a name");
    pthread_mutex_unlock(&work->lock); /* the log may be the application's */
    UVHTTP_LOG_WARN("exec: %u job%s run%s longer than %u ms; the longest: %s, %llu ms so far", count,
                    count == 1 ? "" : "s", count == 1 ? "s" : "", work->options.warn_ms, text,
                    (unsigned long long)(ns / MS));
    pthread_mutex_lock(&work->lock);
}

/* The job of a thread, held, if it has run for limit_ns and was not reported yet; or NULL. */
static const uvhttp__job_t *runs_long(uvhttp__work_thread_t *thread, uint64_t now_ns, uint64_t limit_ns) {
    uint64_t since_ns = thread->since_ns;
    if (now_ns < since_ns + limit_ns || since_ns == thread->reported_ns) return NULL;
    const uvhttp__job_t *job = uvhttp__work_hold(thread);
    return job && thread->since_ns == since_ns && !job->waits ? job : NULL; /* or it has another job by now */
}

/* Each slow job is counted once, and one line is logged a look. Returns when to look again. */
static uint64_t report_slow(uvhttp__work_t *work, uint64_t now_ns) {
    if (work->options.warn_ms == 0 || work->count == 0) return UINT64_MAX;
    if (now_ns < work->look_ns) return work->look_ns;
    uint64_t limit_ns = work->options.warn_ms * MS, longest_ns = 0;
    uint32_t count = 0;
    const char *name = NULL;
    for (uvhttp__work_thread_t *thread = work->all; thread; thread = thread->next) {
        const uvhttp__job_t *job = runs_long(thread, now_ns, limit_ns);
        if (!job) continue;
        thread->reported_ns = thread->since_ns;
        count++;
        if (now_ns - thread->reported_ns < longest_ns) continue;
        longest_ns = now_ns - thread->reported_ns;
        name = job->name;
    }
    work->slow += count;
    work->look_ns = now_ns + (limit_ns + 1) / 2;
    uint64_t again_ns = work->look_ns;
    if (count > 0) warn(work, name, longest_ns, count);
    return again_ns;
}

void *uvhttp__work_keep(void *arg) {
    uvhttp__work_t *work = arg;
    pthread_mutex_lock(&work->lock);
    while (!work->ending) {
        uint64_t now_ns = uvhttp__clock_ns();
        uint64_t wake_ns = report_slow(work, now_ns);
        run_due(work, now_ns);
        uint64_t grow_ns = grow(work, now_ns);
        if (grow_ns < wake_ns) wake_ns = grow_ns;
        if (work->heap_count > 0 && work->heap[0]->due_ns < wake_ns) wake_ns = work->heap[0]->due_ns;
        if (!work->ending) (void)uvhttp__work_wait(&work->keeper_wake, &work->lock, wake_ns);
    }
    pthread_mutex_unlock(&work->lock);
    return NULL;
}
