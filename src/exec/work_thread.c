/* Owns: the threads of the pool: starting, running jobs, ending. May include: io, base, obs. */
#include <errno.h>
#include <signal.h>

#include "base/alloc.h"
#include "exec/work_internal.h"

/* --- what becomes of a job --- */

/* Under the lock, which also orders one use of the port's message with the next. */
bool uvhttp__work_give_back(uvhttp__work_t *work, uvhttp__job_t *job, bool cancelled) {
    uvhttp__work_port_t *port = job->port;
    job->state = UVHTTP__JOB_OVER;
    job->last = cancelled;
    if (job->delay_ns > 0 || job->period_ns > 0) work->timed--;
    if (cancelled) work->stats.cancelled++;
    if (!port) return true;
    bool first = port->finished == NULL;
    job->next = NULL;
    *port->finished_last = job;
    port->finished_last = &job->next;
    if (first) uvhttp__loop_post(port->loop, &port->post);
    /* Only now may the loop go: a post wakes it after it has pushed. */
    port->out--;
    pthread_cond_broadcast(&work->returned);
    return false;
}

void uvhttp__work_done_called(uvhttp__work_t *work) {
    work->loose--;
    pthread_cond_broadcast(&work->returned);
}

/* It has been run. Returns whether it waits for its time again. */
static bool again(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns) {
    if (job->period_ns == 0 || job->last || work->draining) return false;
    job->due_ns += job->period_ns;
    if (job->due_ns <= now_ns) job->due_ns += ((now_ns - job->due_ns) / job->period_ns + 1) * job->period_ns;
    work->waiting++;
    uvhttp__work_heap_push(work, job);
    if (job->heap_index == 0) (void)uvhttp__work_call_keeper(work);
    return true;
}

static void run(uvhttp__work_t *work, uvhttp__work_thread_t *thread, uvhttp__job_t *job) {
    thread->job = job;
    pthread_mutex_unlock(&work->lock);
    job->run(job);
    uint64_t now_ns = uvhttp__clock_ns();
    pthread_mutex_lock(&work->lock);
    thread->job = NULL;
    work->running--;
    /* What gets ready by this is taken by this thread, which is about to look, unless it has more to do. */
    if (uvhttp__work_pass_tag(work, job, now_ns) && !job->port) uvhttp__work_call_thread(work, now_ns);
    if (again(work, job, now_ns)) return;
    bool cancelled = job->period_ns > 0; /* that is the only end it has */
    if (!uvhttp__work_give_back(work, job, cancelled)) return;
    pthread_mutex_unlock(&work->lock);
    job->done(job, cancelled);
    pthread_mutex_lock(&work->lock);
    uvhttp__work_done_called(work);
}

/* --- threads --- */

void uvhttp__work_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool uvhttp__work_wait(uvhttp__work_t *work, pthread_cond_t *cond, uint64_t until_ns) {
    if (until_ns == UINT64_MAX) return pthread_cond_wait(cond, &work->lock) == 0;
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    return pthread_cond_timedwait(cond, &work->lock, &until) != ETIMEDOUT;
}

/* Nothing is to do. Returns whether the thread is to go on. */
static bool wait_idle(uvhttp__work_t *work, uvhttp__work_thread_t *thread) {
    bool may_end = work->options.idle_ms > 0 && work->count > work->options.threads_min;
    uint64_t until_ns = may_end ? uvhttp__clock_ns() + work->options.idle_ms * UINT64_C(1000000) : UINT64_MAX;
    uvhttp__list_push_front(&work->idle, &thread->link);
    while (uvhttp__list_linked(&thread->link))
        if (!uvhttp__work_wait(work, &thread->wake, until_ns)) break;
    if (!uvhttp__list_linked(&thread->link)) return true;
    uvhttp__list_remove(&thread->link);
    return work->count <= work->options.threads_min;
}

static void *help(void *arg) {
    uvhttp__work_thread_t *thread = arg;
    uvhttp__work_t *work = thread->work;
    pthread_mutex_lock(&work->lock);
    for (;;) {
        uvhttp__job_t *job = uvhttp__work_take_ready(work);
        if (job) {
            job->state = UVHTTP__JOB_RUNS;
            work->waiting--;
            work->running++;
            work->stats.jobs++;
            thread->since_ns = uvhttp__clock_ns();
            thread->told = false;
            if (work->options.queue_time)
                uvhttp__histogram_record(work->options.queue_time, thread->since_ns - job->at_ns);
            run(work, thread, job);
        } else if (work->ending) {
            break;
        } else if (!wait_idle(work, thread)) {
            work->stats.threads_ended++;
            break;
        }
    }
    work->count--;
    uvhttp__list_push_back(&work->ended, &thread->link);
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

bool uvhttp__work_create_thread(pthread_t *thread, void *(*main)(void *arg), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool made = pthread_create(thread, NULL, main, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

/* Memory for a thread: that of one that has ended, or new. */
static uvhttp__work_thread_t *obtain(uvhttp__work_t *work) {
    if (!uvhttp__list_empty(&work->ended)) {
        uvhttp__work_thread_t *thread = UVHTTP__CONTAINER_OF(work->ended.next, uvhttp__work_thread_t, link);
        uvhttp__list_remove(&thread->link);
        uvhttp__work_join(thread); /* it needs the lock no more */
        return thread;
    }
    uvhttp__work_thread_t *thread = uvhttp__calloc(1, sizeof *thread);
    if (!thread) return NULL;
    uvhttp__work_cond_init(&thread->wake);
    uvhttp__list_init(&thread->link);
    thread->work = work;
    thread->next = work->all;
    work->all = thread;
    return thread;
}

bool uvhttp__work_start_thread(uvhttp__work_t *work) {
    uvhttp__work_thread_t *thread = obtain(work);
    if (!thread) return false;
    thread->joinable = uvhttp__work_create_thread(&thread->thread, help, thread);
    if (!thread->joinable) {
        uvhttp__list_push_back(&work->ended, &thread->link);
        return false;
    }
    work->stats.threads_started++;
    if (work->count++ == 0 && work->options.warn_ms > 0) (void)uvhttp__work_call_keeper(work);
    return true;
}

void uvhttp__work_join(uvhttp__work_thread_t *thread) {
    if (thread->joinable) pthread_join(thread->thread, NULL);
    thread->joinable = false;
}

bool uvhttp__work_call_keeper(uvhttp__work_t *work) {
    if (!work->has_keeper) work->has_keeper = uvhttp__work_create_thread(&work->keeper, uvhttp__work_keep, work);
    if (work->has_keeper) pthread_cond_signal(&work->keeper_wake);
    return work->has_keeper;
}

void uvhttp__work_call_thread(uvhttp__work_t *work, uint64_t now_ns) {
    if (!uvhttp__list_empty(&work->idle)) {
        uvhttp__work_thread_t *thread = UVHTTP__CONTAINER_OF(work->idle.next, uvhttp__work_thread_t, link);
        uvhttp__list_remove(&thread->link);
        pthread_cond_signal(&thread->wake);
        return;
    }
    if (work->count >= work->options.threads_max) return;
    if (work->count < work->options.threads_soon) {
        (void)uvhttp__work_start_thread(work);
        return;
    }
    if (work->watching) return;
    work->watching = true;
    work->watch_ns = now_ns;
    work->watch_cpu_ns = uvhttp__clock_cpu_ns();
    work->watch_jobs = work->stats.jobs;
    if (uvhttp__work_call_keeper(work)) return;
    work->watching = false;
    (void)uvhttp__work_start_thread(work);
}
