/* Owns: the pool as others see it: its life, giving and cancelling jobs, the ports of loops. May include: io, base,
 * obs. */
#include "exec/work.h"

#include <sched.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/work_internal.h"

/* --- life --- */

static uint32_t cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return (uint32_t)CPU_COUNT(&set);
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

uvhttp__work_t *uvhttp__work_new(const uvhttp__work_options_t *options) {
    assert(options->threads_max > 0 && options->backlog_max > 0 && options->threads_min <= options->threads_max);
    uvhttp__work_t *work = uvhttp__calloc(1, sizeof *work);
    if (!work) return NULL;
    pthread_mutex_init(&work->lock, NULL);
    uvhttp__work_cond_init(&work->returned);
    uvhttp__work_cond_init(&work->keeper_wake);
    uvhttp__list_init(&work->ready);
    uvhttp__list_init(&work->idle);
    uvhttp__list_init(&work->ended);
    work->options = *options;
    work->cpus = cpu_count();
    if (work->options.threads_soon == 0) work->options.threads_soon = work->cpus;
    return work;
}

void uvhttp__work_free(uvhttp__work_t *work) {
    if (!work) return;
    pthread_mutex_lock(&work->lock);
    assert(work->waiting == 0 && work->loose == 0);
    work->ending = true;
    pthread_cond_signal(&work->keeper_wake);
    for (uvhttp__list_t *node, *after = work->idle.next; (node = after) != &work->idle;) {
        after = node->next;
        uvhttp__list_remove(node);
        pthread_cond_signal(&UVHTTP__CONTAINER_OF(node, uvhttp__work_thread_t, link)->wake);
    }
    pthread_mutex_unlock(&work->lock);
    if (work->has_keeper) pthread_join(work->keeper, NULL); /* from here on no thread is started */
    for (uvhttp__work_thread_t *thread = work->all; thread; thread = thread->next) uvhttp__work_join(thread);
    for (uvhttp__work_thread_t *next, *thread = work->all; thread; thread = next) {
        next = thread->next;
        pthread_cond_destroy(&thread->wake);
        uvhttp__free(thread);
    }
    pthread_cond_destroy(&work->keeper_wake);
    pthread_cond_destroy(&work->returned);
    pthread_mutex_destroy(&work->lock);
    uvhttp__free(work->heap);
    uvhttp__free(work);
}

void uvhttp__work_start(uvhttp__work_t *work) {
    pthread_mutex_lock(&work->lock);
    while (work->count < work->options.threads_min && uvhttp__work_start_thread(work)) continue;
    pthread_mutex_unlock(&work->lock);
}

void uvhttp__work_read(uvhttp__work_t *work, uvhttp__work_stats_t *stats, uvhttp__histogram_t *queue_time) {
    pthread_mutex_lock(&work->lock);
    *stats = work->stats;
    stats->threads = work->count;
    stats->running = work->running;
    stats->waiting = work->waiting;
    if (queue_time && work->options.queue_time) uvhttp__histogram_merge(queue_time, work->options.queue_time);
    pthread_mutex_unlock(&work->lock);
}

/* --- jobs --- */

/* A job that is ready needs a thread, one that is timed the keeper. Under the lock. */
static int admit(uvhttp__work_t *work, const uvhttp__job_t *job) {
    if (work->waiting >= work->options.backlog_max) {
        work->stats.refused++;
        return UVHTTP_E_WORK_FULL;
    }
    bool timed = job->delay_ns > 0 || job->period_ns > 0;
    if (timed && work->draining) return UVHTTP_E_STATE;
    if (timed) {
        if (uvhttp__work_heap_reserve(work) != UVHTTP_OK) return UVHTTP_E_NOMEM;
        if (!work->has_keeper && !uvhttp__work_call_keeper(work)) return UVHTTP_E_NOMEM;
    }
    return work->count > 0 || uvhttp__work_start_thread(work) ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

int uvhttp__work_submit(uvhttp__work_t *work, uvhttp__work_port_t *port, uvhttp__job_t *job) {
    uint64_t now_ns = uvhttp__clock_ns();
    pthread_mutex_lock(&work->lock);
    int status = admit(work, job);
    if (status == UVHTTP_OK) {
        job->port = port;
        job->last = false;
        uvhttp__list_init(&job->link);
        work->waiting++;
        if (port)
            port->out++;
        else
            work->loose++;
        uint64_t delay_ns = job->delay_ns > 0 ? job->delay_ns : job->period_ns;
        if (delay_ns > 0) {
            work->timed++;
            job->due_ns = now_ns + delay_ns;
            uvhttp__work_heap_push(work, job);
            if (job->heap_index == 0) (void)uvhttp__work_call_keeper(work);
        } else if (uvhttp__work_make_ready(work, job, now_ns)) {
            uvhttp__work_call_thread(work, now_ns);
        }
    }
    pthread_mutex_unlock(&work->lock);
    if (status == UVHTTP_OK && port) port->pending++;
    return status;
}

int uvhttp__work_cancel(uvhttp__work_t *work, uvhttp__job_t *job) {
    int status = UVHTTP_OK;
    bool call = false;
    pthread_mutex_lock(&work->lock);
    if (job->state == UVHTTP__JOB_OVER || (job->state == UVHTTP__JOB_RUNS && (job->period_ns == 0 || job->last))) {
        status = UVHTTP_E_STATE;
    } else if (job->state == UVHTTP__JOB_RUNS) {
        job->last = true;
    } else {
        uvhttp__work_withdraw(work, job, uvhttp__clock_ns());
        call = uvhttp__work_give_back(work, job, true);
    }
    pthread_mutex_unlock(&work->lock);
    if (!call) return status;
    job->done(job, true);
    pthread_mutex_lock(&work->lock);
    uvhttp__work_done_called(work);
    pthread_mutex_unlock(&work->lock);
    return UVHTTP_OK;
}

/* --- many at once --- */

/* Takes a job out of where it waits, into a list by `link`. */
static void collect(uvhttp__work_t *work, uvhttp__job_t *job, uvhttp__list_t *list, uint64_t now_ns) {
    uvhttp__work_withdraw(work, job, now_ns);
    if (job->delay_ns > 0 || job->period_ns > 0) work->timed--;
    work->stats.cancelled++;
    job->state = UVHTTP__JOB_OVER;
    uvhttp__list_push_back(list, &job->link);
}

static void collect_list(uvhttp__work_t *work, uvhttp__list_t *from, const uvhttp__work_port_t *port,
                         uvhttp__list_t *list, uint64_t now_ns) {
    for (uvhttp__list_t *next, *node = from->next; node != from; node = next) {
        next = node->next;
        uvhttp__job_t *job = UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link);
        if (job->port == port) collect(work, job, list, now_ns);
    }
}

/* Jobs of a port that wait, or those without one: out of the pool. Periodic ones that run do so for the last time.
 * Under the lock. */
static void withdraw_all(uvhttp__work_t *work, const uvhttp__work_port_t *port, bool timed_only, uvhttp__list_t *list) {
    uint64_t now_ns = uvhttp__clock_ns();
    uvhttp__list_init(list);
    for (uvhttp__work_thread_t *thread = work->all; thread; thread = thread->next)
        if (thread->job && thread->job->port == port) thread->job->last = true;
    uint32_t count = work->heap_count;
    work->heap_count = 0;
    for (uint32_t i = 0; i < count; i++) { /* those that stay make a new heap in the same place */
        uvhttp__job_t *job = work->heap[i];
        uvhttp__work_heap_push(work, job);
        if (job->port == port) collect(work, job, list, now_ns);
    }
    if (timed_only) return;
    for (uint32_t i = 0; i < UVHTTP__WORK_BUCKETS; i++)
        for (uvhttp__job_t *job = work->tags[i]; job; job = job->next)
            collect_list(work, &job->behind, port, list, now_ns);
    collect_list(work, &work->ready, port, list, now_ns);
}

static uint32_t call_done(uvhttp__list_t *list) {
    uint32_t count = 0;
    for (; !uvhttp__list_empty(list); count++) {
        uvhttp__job_t *job = UVHTTP__CONTAINER_OF(list->next, uvhttp__job_t, link);
        uvhttp__list_remove(&job->link);
        job->done(job, true);
    }
    return count;
}

/* --- the loop's side --- */

static void settle(uvhttp__work_port_t *port, uint32_t count) {
    port->pending -= count;
    if (count > 0 && port->pending == 0 && port->on_idle) port->on_idle(port);
}

static void run_done(uvhttp__work_port_t *port) {
    pthread_mutex_lock(&port->work->lock);
    uvhttp__job_t *next, *job = port->finished;
    port->finished = NULL;
    port->finished_last = &port->finished;
    pthread_mutex_unlock(&port->work->lock);
    uint32_t count = 0;
    for (; job; job = next, count++) {
        next = job->next;
        job->done(job, job->last);
    }
    settle(port, count);
}

static void on_post(uvhttp__post_t *post) {
    run_done(UVHTTP__CONTAINER_OF(post, uvhttp__work_port_t, post));
}

void uvhttp__work_port_open(uvhttp__work_port_t *port, uvhttp__work_t *work, uvhttp__loop_t *loop) {
    *port = (uvhttp__work_port_t){.work = work, .loop = loop, .post.run = on_post};
    port->finished_last = &port->finished;
}

void uvhttp__work_port_cancel(uvhttp__work_port_t *port, bool timed_only) {
    uvhttp__work_t *work = port->work;
    uvhttp__list_t list;
    pthread_mutex_lock(&work->lock);
    withdraw_all(work, port, timed_only, &list);
    for (uvhttp__list_t *node = list.next; node != &list; node = node->next) port->out--;
    pthread_mutex_unlock(&work->lock);
    settle(port, call_done(&list));
}

void uvhttp__work_port_close(uvhttp__work_port_t *port) {
    if (!port->loop) return;
    uvhttp__work_t *work = port->work;
    port->on_idle = NULL;
    uvhttp__work_port_cancel(port, false);
    pthread_mutex_lock(&work->lock);
    while (port->out > 0) pthread_cond_wait(&work->returned, &work->lock);
    pthread_mutex_unlock(&work->lock);
    run_done(port);
    port->loop = NULL;
}

/* --- jobs without a port --- */

static void cancel_loose(uvhttp__work_t *work, bool timed_only) {
    uvhttp__list_t list;
    pthread_mutex_lock(&work->lock);
    work->draining = true;
    withdraw_all(work, NULL, timed_only, &list);
    pthread_mutex_unlock(&work->lock);
    uint32_t count = call_done(&list);
    pthread_mutex_lock(&work->lock);
    work->loose -= count;
    pthread_mutex_unlock(&work->lock);
}

void uvhttp__work_drain(uvhttp__work_t *work) {
    cancel_loose(work, true);
}

void uvhttp__work_stop(uvhttp__work_t *work, uint64_t deadline_ns) {
    cancel_loose(work, true);
    pthread_mutex_lock(&work->lock);
    while (work->loose > 0)
        if (!uvhttp__work_wait(work, &work->returned, deadline_ns)) break;
    pthread_mutex_unlock(&work->lock);
    cancel_loose(work, false);
    pthread_mutex_lock(&work->lock);
    while (work->loose > 0) pthread_cond_wait(&work->returned, &work->lock);
    pthread_mutex_unlock(&work->lock);
}
