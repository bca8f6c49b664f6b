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
    uvhttp__work_t *work = uvhttp__alloc_aligned(64, sizeof *work);
    if (!work) return NULL;
    *work = (uvhttp__work_t){.options = *options, .cpus = cpu_count(), .keep = uvhttp__work_keep};
    pthread_mutex_init(&work->lock, NULL);
    uvhttp__work_cond_init(&work->returned);
    uvhttp__work_cond_init(&work->keeper_wake);
    uvhttp__list_init(&work->idle);
    uvhttp__list_init(&work->ended);
    uvhttp__list_init(&work->periodic);
    if (work->options.threads_soon == 0) work->options.threads_soon = work->cpus;
    uvhttp__work_update_callable(work);
    if (uvhttp__work_shards_init(work) == UVHTTP_OK) return work;
    uvhttp__work_free(work);
    return NULL;
}

void uvhttp__work_free(uvhttp__work_t *work) {
    if (!work) return;
    pthread_mutex_lock(&work->lock);
    assert(work->waiting == 0 && work->loose == 0);
    work->ending = true;
    pthread_cond_signal(&work->keeper_wake);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&work->idle));)
        uvhttp__work_wake(UVHTTP__CONTAINER_OF(node, uvhttp__work_thread_t, link));
    pthread_mutex_unlock(&work->lock);
    if (work->has_keeper) pthread_join(work->keeper, NULL); /* from here on no thread is started */
    for (uvhttp__work_thread_t *thread = work->all; thread; thread = thread->next) uvhttp__work_join(thread);
    for (uvhttp__work_thread_t *next, *thread = work->all; thread; thread = next) {
        next = thread->next;
        pthread_cond_destroy(&thread->wake);
        pthread_mutex_destroy(&thread->sleep);
        uvhttp__free(thread);
    }
    pthread_cond_destroy(&work->keeper_wake);
    pthread_cond_destroy(&work->returned);
    pthread_mutex_destroy(&work->lock);
    uvhttp__work_shards_deinit(work);
    uvhttp__free(work->heap);
    uvhttp__free_aligned(work);
}

void uvhttp__work_start(uvhttp__work_t *work) {
    pthread_mutex_lock(&work->lock);
    while (work->count < work->options.threads_min && uvhttp__work_start_thread(work)) continue;
    pthread_mutex_unlock(&work->lock);
}

void uvhttp__work_read(uvhttp__work_t *work, uvhttp__work_stats_t *stats, uvhttp__histogram_t *queue_time) {
    pthread_mutex_lock(&work->lock);
    *stats = (uvhttp__work_stats_t){.jobs = uvhttp__work_count_started(work),
                                    .refused = work->refused,
                                    .cancelled = work->cancelled,
                                    .slow = work->slow,
                                    .threads_started = work->threads_started,
                                    .threads_ended = work->threads_ended,
                                    .threads = work->count,
                                    .waiting = work->waiting};
    for (uvhttp__work_thread_t *thread = work->all; thread; thread = thread->next) stats->running += thread->runs != 0;
    pthread_mutex_unlock(&work->lock);
    if (!queue_time || !work->queue_times) return;
    for (uint32_t i = 0; i < work->shard_count; i++) uvhttp__histogram_merge(queue_time, &work->queue_times[i]);
}

/* --- jobs --- */

/* Reserves places for up to `count` waiting jobs; returns the number reserved. Exact: never more than backlog_max, but
 * for jobs that are owed. */
static uint32_t reserve(uvhttp__work_t *work, uint32_t count, bool owed) {
    if (owed) {
        atomic_fetch_add(&work->waiting, count);
        return count;
    }
    uint32_t waiting = atomic_load_explicit(&work->waiting, memory_order_relaxed);
    while (waiting < work->options.backlog_max) {
        uint32_t capacity = work->options.backlog_max - waiting;
        if (count > capacity) count = capacity;
        if (atomic_compare_exchange_weak(&work->waiting, &waiting, waiting + count)) return count;
    }
    atomic_fetch_add_explicit(&work->refused, 1, memory_order_relaxed);
    return 0;
}

/* Jobs that were counted in are not given after all. */
static void dismiss(uvhttp__work_t *work, const uvhttp__work_port_t *port, uint32_t count) {
    atomic_fetch_sub(&work->waiting, count);
    if (!port) uvhttp__work_done_called(work, count);
}

/* Plain jobs that are counted in. */
static void give_ready(uvhttp__work_t *work, uvhttp__list_t *jobs, uint32_t count, uint64_t now_ns) {
    uvhttp__work_push_all(work, jobs, now_ns);
    for (; count > 0 && atomic_load(&work->callable); count--) {
        pthread_mutex_lock(&work->lock);
        uvhttp__work_thread_t *thread = uvhttp__work_find_thread(work, now_ns);
        pthread_mutex_unlock(&work->lock);
        if (thread) uvhttp__work_wake(thread);
    }
}

/* Admits up to `count` jobs, for which there is a thread then. Returns 0 or why none is admitted. */
static int admit(uvhttp__work_t *work, const uvhttp__work_port_t *port, uint32_t *count, bool owed) {
    *count = reserve(work, *count, owed);
    if (*count == 0) return UVHTTP_E_WORK_FULL;
    if (!port) atomic_fetch_add(&work->loose, *count);
    if (atomic_load(&work->count) > 0) return UVHTTP_OK;
    pthread_mutex_lock(&work->lock);
    bool have = work->count > 0 || uvhttp__work_start_thread(work);
    pthread_mutex_unlock(&work->lock);
    if (have) return UVHTTP_OK;
    dismiss(work, port, *count);
    return UVHTTP_E_NOMEM;
}

static void prepare(uvhttp__work_t *work, uvhttp__work_port_t *port, uvhttp__job_t *job) {
    job->port = port;
    job->shard = port ? port->shard : uvhttp__work_own_shard(work);
    job->last = false;
}

static void count_given(uvhttp__work_port_t *port, uint32_t count) {
    if (!port) return;
    port->given += count;
    port->pending += count;
}

static int submit_all(uvhttp__work_t *work, uvhttp__work_port_t *port, uvhttp__list_t *jobs, bool owed) {
    uint64_t now_ns = uvhttp__clock_ns();
    uint32_t left = 0;
    for (uvhttp__list_t *node = jobs->next; node != jobs; node = node->next, left++)
        prepare(work, port, UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link));
    while (left > 0) {
        uvhttp__list_t ready;
        uvhttp__list_init(&ready);
        uint32_t count = left;
        int status = admit(work, port, &count, owed);
        if (status != UVHTTP_OK) return status;
        for (uint32_t i = 0; i < count; i++) uvhttp__list_push_back(&ready, uvhttp__list_pop_front(jobs));
        give_ready(work, &ready, count, now_ns);
        count_given(port, count);
        left -= count;
    }
    return UVHTTP_OK;
}

int uvhttp__work_submit_all(uvhttp__work_t *work, uvhttp__work_port_t *port, uvhttp__list_t *jobs) {
    return submit_all(work, port, jobs, false);
}

/* One that has to wait for its time needs the keeper, too. Under the lock. */
static int admit_timed(uvhttp__work_t *work) {
    if (work->draining) return UVHTTP_E_STATE;
    if (uvhttp__work_heap_reserve(work) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    return work->has_keeper || uvhttp__work_call_keeper(work) ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

/* A job with a tag or a time, counted in. */
static int give_bound(uvhttp__work_t *work, uvhttp__job_t *job) {
    uint64_t now_ns = uvhttp__clock_ns(), delay_ns = job->delay_ns > 0 ? job->delay_ns : job->period_ns;
    pthread_mutex_lock(&work->lock);
    int status = delay_ns > 0 ? admit_timed(work) : UVHTTP_OK;
    if (status == UVHTTP_OK && delay_ns > 0) {
        work->timed++;
        job->due_ns = now_ns + delay_ns;
        if (job->period_ns > 0) {
            uvhttp__list_init(&job->periodic);
            uvhttp__list_push_back(&work->periodic, &job->periodic);
        }
        uvhttp__work_heap_push(work, job);
        if (job->heap_index == 0) (void)uvhttp__work_call_keeper(work);
    } else if (status == UVHTTP_OK && uvhttp__work_make_ready(work, job, now_ns)) {
        uvhttp__work_call_thread(work, now_ns);
    }
    pthread_mutex_unlock(&work->lock);
    return status;
}

int uvhttp__work_submit(uvhttp__work_t *work, uvhttp__work_port_t *port, uvhttp__job_t *job) {
    uint32_t count = 1;
    int status;
    uvhttp__list_init(&job->link);
    if (uvhttp__job_is_plain(job)) {
        uvhttp__list_t jobs;
        uvhttp__list_init(&jobs);
        uvhttp__list_push_back(&jobs, &job->link);
        status = submit_all(work, port, &jobs, job->owed);
        if (status != UVHTTP_OK) uvhttp__list_remove(&job->link);
        return status;
    }
    status = admit(work, port, &count, job->owed);
    if (status != UVHTTP_OK) return status;
    prepare(work, port, job);
    status = give_bound(work, job);
    if (status == UVHTTP_OK)
        count_given(port, 1);
    else
        dismiss(work, port, 1);
    return status;
}

/* A job that waits is taken out of where it does. False: it does not. Under the lock. */
static bool withdraw(uvhttp__work_t *work, uvhttp__job_t *job) {
    if (uvhttp__work_pull(work, job)) {
        uint64_t now_ns = uvhttp__clock_ns();
        if (uvhttp__work_pass_tag(work, job, now_ns)) uvhttp__work_call_thread(work, now_ns);
    } else if (job->state == UVHTTP__JOB_TIMED || job->state == UVHTTP__JOB_BEHIND) {
        uvhttp__work_unqueue(work, job);
    } else {
        return false;
    }
    uvhttp__work_retire(work, job);
    work->cancelled++;
    return true;
}

int uvhttp__work_cancel(uvhttp__work_t *work, uvhttp__job_t *job) {
    int status = UVHTTP_OK;
    pthread_mutex_lock(&work->lock);
    bool withdrawn = withdraw(work, job);
    if (!withdrawn && job->period_ns > 0 && job->state == UVHTTP__JOB_RUNS && !job->last)
        job->last = true;
    else if (!withdrawn)
        status = UVHTTP_E_STATE;
    pthread_mutex_unlock(&work->lock);
    if (withdrawn) uvhttp__work_give_back(work, job, true);
    return status;
}

/* --- many at once --- */

static void collect(uvhttp__work_t *work, uvhttp__list_t *from, const uvhttp__work_port_t *port, uvhttp__list_t *list) {
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, from) {
        uvhttp__job_t *job = UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link);
        if (job->port != port) continue;
        uvhttp__work_unqueue(work, job);
        uvhttp__list_push_back(list, &job->link);
    }
}

static void collect_timed(uvhttp__work_t *work, const uvhttp__work_port_t *port, uvhttp__list_t *list) {
    uint32_t count = work->heap_count;
    work->heap_count = 0;
    for (uint32_t i = 0; i < count; i++) { /* those that stay make a new heap in the same place */
        uvhttp__job_t *job = work->heap[i];
        uvhttp__work_heap_push(work, job);
        if (job->port != port) continue;
        uvhttp__work_unqueue(work, job);
        uvhttp__list_push_back(list, &job->link);
    }
}

static void collect_ready(uvhttp__work_t *work, const uvhttp__work_port_t *port, uvhttp__list_t *list) {
    uint64_t now_ns = uvhttp__clock_ns();
    uvhttp__list_t ready;
    uvhttp__list_init(&ready);
    uvhttp__work_pull_all(work, port, &ready);
    for (uvhttp__list_t *node = ready.next; node != &ready; node = node->next)
        if (uvhttp__work_pass_tag(work, UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link), now_ns))
            uvhttp__work_call_thread(work, now_ns);
    uvhttp__list_splice(list, &ready);
}

/* Jobs of a port that wait, or those without one: out of the pool, into a list by `link`. Periodic ones that do not are
 * run for the last time. Returns how many. Under the lock. */
static uint32_t withdraw_all(uvhttp__work_t *work, const uvhttp__work_port_t *port, bool timed_only,
                             uvhttp__list_t *list) {
    uvhttp__list_init(list);
    for (uvhttp__list_t *node = work->periodic.next; node != &work->periodic; node = node->next) {
        uvhttp__job_t *job = UVHTTP__CONTAINER_OF(node, uvhttp__job_t, periodic);
        if (job->port == port) job->last = true;
    }
    collect_timed(work, port, list);
    for (uint32_t i = 0; i < UVHTTP__WORK_BUCKETS && !timed_only; i++)
        for (uvhttp__job_t *job = work->tags[i]; job; job = job->next) collect(work, &job->behind, port, list);
    if (!timed_only) collect_ready(work, port, list);
    uint32_t count = 0;
    for (uvhttp__list_t *node = list->next; node != list; node = node->next, count++)
        uvhttp__work_retire(work, UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link));
    work->cancelled += count;
    return count;
}

static void call_done(uvhttp__list_t *list) {
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(list));) {
        uvhttp__job_t *job = UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link);
        job->done(job, true);
    }
}

/* --- the loop's side --- */

static void settle(uvhttp__work_port_t *port, uint32_t count) {
    port->pending -= count;
    if (count > 0 && port->pending == 0 && port->on_idle) port->on_idle(port);
}

static void run_done(uvhttp__work_port_t *port) {
    uint32_t count = 0;
    for (uvhttp__mpsc_node_t *next, *node = uvhttp__mpsc_take(&port->finished); node; node = next, count++) {
        uvhttp__job_t *job = UVHTTP__CONTAINER_OF(node, uvhttp__job_t, back);
        next = node->next;
        job->done(job, job->last);
    }
    settle(port, count);
}

static void on_post(uvhttp__post_t *post) {
    run_done(UVHTTP__CONTAINER_OF(post, uvhttp__work_port_t, post));
}

void uvhttp__work_port_open(uvhttp__work_port_t *port, uvhttp__work_t *work, uvhttp__loop_t *loop) {
    uint32_t number = atomic_fetch_add_explicit(&work->ports, 1, memory_order_relaxed);
    *port = (uvhttp__work_port_t){.work = work, .loop = loop, .post.run = on_post, .shard = number % work->shard_count};
    uvhttp__mpsc_init(&port->finished);
}

void uvhttp__work_port_cancel(uvhttp__work_port_t *port, bool timed_only) {
    uvhttp__work_t *work = port->work;
    uvhttp__list_t list;
    pthread_mutex_lock(&work->lock);
    uint32_t count = withdraw_all(work, port, timed_only, &list);
    pthread_mutex_unlock(&work->lock);
    port->given -= count;
    call_done(&list);
    settle(port, count);
}

void uvhttp__work_port_close(uvhttp__work_port_t *port) {
    if (!port->loop) return;
    uvhttp__work_t *work = port->work;
    port->on_idle = NULL;
    uvhttp__work_port_cancel(port, false);
    pthread_mutex_lock(&work->lock);
    atomic_fetch_add(&work->waiters, 1);
    while (atomic_load(&port->returned) != port->given) pthread_cond_wait(&work->returned, &work->lock);
    atomic_fetch_sub(&work->waiters, 1);
    pthread_mutex_unlock(&work->lock);
    run_done(port);
    port->loop = NULL;
}

/* --- jobs without a port --- */

static void cancel_loose(uvhttp__work_t *work, bool timed_only) {
    uvhttp__list_t list;
    pthread_mutex_lock(&work->lock);
    work->draining = true;
    uint32_t count = withdraw_all(work, NULL, timed_only, &list);
    pthread_mutex_unlock(&work->lock);
    call_done(&list);
    uvhttp__work_done_called(work, count);
}

static void wait_for_loose(uvhttp__work_t *work, uint64_t deadline_ns) {
    pthread_mutex_lock(&work->lock);
    atomic_fetch_add(&work->waiters, 1);
    while (atomic_load(&work->loose) > 0)
        if (!uvhttp__work_wait(&work->returned, &work->lock, deadline_ns)) break;
    atomic_fetch_sub(&work->waiters, 1);
    pthread_mutex_unlock(&work->lock);
}

void uvhttp__work_drain(uvhttp__work_t *work) {
    cancel_loose(work, true);
}

void uvhttp__work_stop(uvhttp__work_t *work, uint64_t deadline_ns) {
    cancel_loose(work, true);
    wait_for_loose(work, deadline_ns);
    cancel_loose(work, false);
    wait_for_loose(work, UINT64_MAX);
}
