/* Owns: the threads of the pool: starting, running jobs, ending. May include: io, base, obs. */
#include <errno.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "exec/work_internal.h"

/* --- what becomes of a job --- */

/* A thread that waits for jobs has set `waiters` before it reads what the caller has just counted: as `callable`. */
static void notify_waiters(uvhttp__work_t *work) {
    if (atomic_load(&work->waiters) == 0) return;
    pthread_mutex_lock(&work->lock);
    pthread_cond_broadcast(&work->returned);
    pthread_mutex_unlock(&work->lock);
}

void uvhttp__work_done_called(uvhttp__work_t *work, uint32_t count) {
    atomic_fetch_sub(&work->loose, count);
    notify_waiters(work);
}

void uvhttp__work_give_back(uvhttp__work_t *work, uvhttp__job_t *job, bool cancelled) {
    uvhttp__work_port_t *port = job->port;
    if (!port) {
        job->done(job, cancelled);
        uvhttp__work_done_called(work, 1);
        return;
    }
    job->last = cancelled;
    if (uvhttp__mpsc_push(&port->finished, &job->back)) uvhttp__loop_post(port->loop, &port->post);
    /* Only now may the port and its loop go: a post wakes the loop after it has pushed. */
    atomic_fetch_add(&port->returned, 1);
    notify_waiters(work);
}

void uvhttp__work_retire(uvhttp__work_t *work, uvhttp__job_t *job) {
    job->state = UVHTTP__JOB_OVER;
    if (job->delay_ns > 0 || job->period_ns > 0) work->timed--;
    if (job->period_ns > 0) uvhttp__list_remove(&job->periodic);
}

/* It has been run. Returns whether it waits for its time again. */
static bool again(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns) {
    if (job->period_ns == 0 || job->last || work->draining) return false;
    job->due_ns += job->period_ns;
    if (job->due_ns <= now_ns) job->due_ns += ((now_ns - job->due_ns) / job->period_ns + 1) * job->period_ns;
    atomic_fetch_add(&work->waiting, 1);
    uvhttp__work_heap_push(work, job);
    if (job->heap_index == 0) (void)uvhttp__work_call_keeper(work);
    return true;
}

/* A job with a tag or a time has been run. Returns whether it is over. */
static bool conclude(uvhttp__work_t *work, uvhttp__job_t *job) {
    uint64_t now_ns = uvhttp__clock_ns();
    pthread_mutex_lock(&work->lock);
    /* A job that becomes ready by this is run by this thread, which is about to check, unless it has more to do. */
    if (uvhttp__work_pass_tag(work, job, now_ns) && !job->port) uvhttp__work_call_thread(work, now_ns);
    bool over = !again(work, job, now_ns);
    if (over) {
        uvhttp__work_retire(work, job);
        if (job->period_ns > 0) work->cancelled++; /* that is the only end it has */
    }
    pthread_mutex_unlock(&work->lock);
    return over;
}

const uvhttp__job_t *uvhttp__work_hold(uvhttp__work_thread_t *thread) {
    uintptr_t runs = atomic_load(&thread->runs);
    if (runs == 0 || !atomic_compare_exchange_strong(&thread->runs, &runs, runs | UVHTTP__WORK_HELD)) return NULL;
    return (const uvhttp__job_t *)(runs & ~UVHTTP__WORK_HELD);
}

static void run(uvhttp__work_t *work, uvhttp__work_thread_t *thread, uvhttp__job_t *job, uint64_t now_ns) {
    bool plain = uvhttp__job_is_plain(job);
    atomic_store_explicit(&thread->busy, true, memory_order_relaxed);
    atomic_store_explicit(&thread->since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&thread->runs, (uintptr_t)job, memory_order_release);
    job->run(job);
    if ((atomic_exchange(&thread->runs, 0) & UVHTTP__WORK_HELD) != 0) {
        pthread_mutex_lock(&work->lock); /* who holds it gives it up with the lock */
        pthread_mutex_unlock(&work->lock);
    }
    if (plain || conclude(work, job)) uvhttp__work_give_back(work, job, job->period_ns > 0);
    atomic_store_explicit(&thread->busy, false, memory_order_relaxed);
}

/* --- threads --- */

void uvhttp__work_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool uvhttp__work_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns) {
    if (until_ns == UINT64_MAX) return pthread_cond_wait(cond, lock) == 0;
    const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}

void uvhttp__work_update_callable(uvhttp__work_t *work) {
    uint32_t count = work->count;
    bool more = count < work->options.threads_max && (count < work->options.threads_soon || !work->checking);
    atomic_store(&work->callable, more || !uvhttp__list_empty(&work->idle));
}

/* Returns whether the thread was woken. */
static bool sleep_until(uvhttp__work_thread_t *thread, uint64_t until_ns) {
    pthread_mutex_lock(&thread->sleep);
    while (!thread->called)
        if (!uvhttp__work_wait(&thread->wake, &thread->sleep, until_ns)) break;
    bool called = thread->called;
    thread->called = false;
    pthread_mutex_unlock(&thread->sleep);
    return called;
}

void uvhttp__work_wake(uvhttp__work_thread_t *thread) {
    pthread_mutex_lock(&thread->sleep);
    thread->called = true;
    pthread_mutex_unlock(&thread->sleep);
    pthread_cond_signal(&thread->wake);
}

/* The thread is idle, unless there is something to do after all. Returns whether it is. */
static bool go_idle(uvhttp__work_t *work, uvhttp__work_thread_t *thread) {
    uvhttp__list_push_front(&work->idle, &thread->link);
    uvhttp__work_update_callable(work);
    if (!uvhttp__work_any_ready(work)) return true;
    uvhttp__list_remove(&thread->link);
    uvhttp__work_update_callable(work);
    return false;
}

/* A thread that had nothing to do for long ends, if others are left for what waits. */
static bool count_out(uvhttp__work_t *work, uvhttp__work_thread_t *thread) {
    if (!work->ending) {
        if (work->count <= work->options.threads_min) return false;
        if (atomic_fetch_sub(&work->count, 1) == 1 && atomic_load(&work->waiting) > 0) {
            atomic_fetch_add(&work->count, 1);
            return false;
        }
        work->threads_ended++;
    }
    uvhttp__list_push_back(&work->ended, &thread->link);
    uvhttp__work_update_callable(work);
    return true;
}

/* There was nothing to do at now_ns. Returns whether the thread continues. */
static bool wait_idle(uvhttp__work_t *work, uvhttp__work_thread_t *thread, uint64_t now_ns) {
    pthread_mutex_lock(&work->lock);
    bool ends = work->ending && count_out(work, thread);
    bool idle = !ends && go_idle(work, thread);
    bool may_end = work->options.idle_ms > 0 && work->count > work->options.threads_min;
    pthread_mutex_unlock(&work->lock);
    if (!idle) return !ends;
    if (sleep_until(thread, may_end ? now_ns + work->options.idle_ms * UINT64_C(1000000) : UINT64_MAX)) return true;
    pthread_mutex_lock(&work->lock);
    idle = uvhttp__list_linked(&thread->link);
    uvhttp__list_remove(&thread->link);
    ends = idle && count_out(work, thread);
    pthread_mutex_unlock(&work->lock);
    if (!idle) (void)sleep_until(thread, UINT64_MAX); /* it is being woken just now */
    return !ends;
}

static void *help(void *arg) {
    uvhttp__work_thread_t *thread = arg;
    uvhttp__work_set_own_shard(thread->work, thread->home);
    for (;;) {
        uint64_t now_ns = uvhttp__clock_ns();
        uvhttp__job_t *job = uvhttp__work_take(thread->work, thread, now_ns);
        if (job)
            run(thread->work, thread, job, now_ns);
        else if (!wait_idle(thread->work, thread, now_ns))
            return NULL;
    }
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
    pthread_mutex_init(&thread->sleep, NULL);
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
    thread->home = (uint32_t)(work->threads_started % work->shard_count);
    thread->joinable = uvhttp__thread_start(&thread->thread, help, thread);
    if (!thread->joinable) {
        uvhttp__list_push_back(&work->ended, &thread->link);
        return false;
    }
    work->threads_started++;
    if (atomic_fetch_add(&work->count, 1) == 0 && work->options.warn_ms > 0) (void)uvhttp__work_call_keeper(work);
    uvhttp__work_update_callable(work);
    return true;
}

void uvhttp__work_join(uvhttp__work_thread_t *thread) {
    if (thread->joinable) pthread_join(thread->thread, NULL);
    thread->joinable = false;
}

bool uvhttp__work_call_keeper(uvhttp__work_t *work) {
    if (!work->has_keeper) work->has_keeper = uvhttp__thread_start(&work->keeper, work->keep, work);
    if (work->has_keeper) pthread_cond_signal(&work->keeper_wake);
    return work->has_keeper;
}

/* Has the keeper look whether the threads are blocked. False: there is none. */
static bool check(uvhttp__work_t *work, uint64_t now_ns) {
    work->seen_ns = now_ns;
    work->seen_cpu_ns = uvhttp__clock_cpu_ns();
    work->seen_jobs = uvhttp__work_count_started(work);
    work->checking = uvhttp__work_call_keeper(work);
    return work->checking;
}

uvhttp__work_thread_t *uvhttp__work_find_thread(uvhttp__work_t *work, uint64_t now_ns) {
    uvhttp__list_t *node = uvhttp__list_pop_front(&work->idle);
    if (!node && work->count < work->options.threads_max) {
        bool soon = work->count < work->options.threads_soon;
        if (soon || (!work->checking && !check(work, now_ns))) (void)uvhttp__work_start_thread(work);
    }
    uvhttp__work_update_callable(work);
    return node ? UVHTTP__CONTAINER_OF(node, uvhttp__work_thread_t, link) : NULL;
}

void uvhttp__work_call_thread(uvhttp__work_t *work, uint64_t now_ns) {
    uvhttp__work_thread_t *thread = uvhttp__work_find_thread(work, now_ns);
    if (thread) uvhttp__work_wake(thread);
}
