/* Owns: the shards: where jobs that are ready wait for a thread. May include: io, base, obs. */
#include "base/alloc.h"
#include "exec/work_internal.h"

/* A thread takes from its home shard. Once in so many times it begins with another one, so that a shard whose threads
 * are all blocked is served even while every other thread has enough to do at home. */
#define ROUND_EVERY 16

int uvhttp__work_shards_init(uvhttp__work_t *work) {
    uint32_t count = work->options.shards > 0 ? work->options.shards : work->cpus;
    if (count > work->options.threads_max) count = work->options.threads_max;
    work->shards = uvhttp__alloc_aligned(64, count * sizeof *work->shards);
    if (work->options.queue_time) work->queue_times = uvhttp__alloc_aligned(64, count * sizeof *work->queue_times);
    if (!work->shards || (work->options.queue_time && !work->queue_times)) return UVHTTP_E_NOMEM;
    for (; work->shard_count < count; work->shard_count++) {
        uvhttp__work_shard_t *shard = &work->shards[work->shard_count];
        *shard = (uvhttp__work_shard_t){0};
        pthread_mutex_init(&shard->lock, NULL);
        uvhttp__list_init(&shard->ready);
        if (!work->queue_times) continue;
        shard->queue_time = &work->queue_times[work->shard_count];
        uvhttp__histogram_init(shard->queue_time);
    }
    return UVHTTP_OK;
}

void uvhttp__work_shards_deinit(uvhttp__work_t *work) {
    for (uint32_t i = 0; i < work->shard_count; i++) pthread_mutex_destroy(&work->shards[i].lock);
    uvhttp__free_aligned(work->queue_times);
    uvhttp__free_aligned(work->shards);
}

static _Thread_local uint32_t number; /* of this thread, modulo the number of shards; 0: it has none yet */

void uvhttp__work_set_own_shard(const uvhttp__work_t *work, uint32_t shard) {
    number = work->shard_count + shard;
}

uint32_t uvhttp__work_own_shard(const uvhttp__work_t *work) {
    static _Atomic uint32_t threads;
    while (number == 0) number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    return number % work->shard_count;
}

/* Under the shard's lock. */
static void set_count(uvhttp__work_shard_t *shard, int more) {
    uint32_t count = atomic_load_explicit(&shard->count, memory_order_relaxed);
    atomic_store(&shard->count, count + (uint32_t)more);
}

void uvhttp__work_push_all(uvhttp__work_t *work, uvhttp__list_t *jobs, uint64_t now_ns) {
    uvhttp__work_shard_t *shard = &work->shards[UVHTTP__CONTAINER_OF(jobs->next, uvhttp__job_t, link)->shard];
    int count = 0;
    for (uvhttp__list_t *node = jobs->next; node != jobs; node = node->next, count++) {
        uvhttp__job_t *job = UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link);
        job->state = UVHTTP__JOB_READY;
        job->at_ns = now_ns;
    }
    pthread_mutex_lock(&shard->lock);
    uvhttp__list_splice(&shard->ready, jobs);
    set_count(shard, count);
    pthread_mutex_unlock(&shard->lock);
}

void uvhttp__work_push(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns) {
    uvhttp__list_t jobs;
    uvhttp__list_init(&jobs);
    uvhttp__list_push_back(&jobs, &job->link);
    uvhttp__work_push_all(work, &jobs, now_ns);
}

/* --- by threads --- */

static uvhttp__job_t *take_from(uvhttp__work_shard_t *shard, uint64_t now_ns) {
    if (atomic_load_explicit(&shard->count, memory_order_relaxed) == 0) return NULL;
    pthread_mutex_lock(&shard->lock);
    uvhttp__list_t *node = uvhttp__list_pop_front(&shard->ready);
    uvhttp__job_t *job = node ? UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link) : NULL;
    if (job) {
        set_count(shard, -1);
        job->state = UVHTTP__JOB_RUNS;
        uvhttp__counter_bump(&shard->started, 1);
        /* It may have been given after the thread has looked at the clock. */
        if (shard->queue_time)
            uvhttp__histogram_record(shard->queue_time, now_ns > job->at_ns ? now_ns - job->at_ns : 0);
    }
    pthread_mutex_unlock(&shard->lock);
    return job;
}

uvhttp__job_t *uvhttp__work_take(uvhttp__work_t *work, uvhttp__work_thread_t *thread, uint64_t now_ns) {
    uint32_t first = ++thread->starts % ROUND_EVERY == 0 ? thread->starts / ROUND_EVERY : thread->home;
    for (uint32_t i = 0; i < work->shard_count; i++) {
        uvhttp__job_t *job = take_from(&work->shards[(first + i) % work->shard_count], now_ns);
        if (!job) continue;
        atomic_fetch_sub(&work->waiting, 1);
        return job;
    }
    return NULL;
}

/* --- by others --- */

/* Under the shard's lock. */
static void pull_out(uvhttp__work_t *work, uvhttp__work_shard_t *shard, uvhttp__job_t *job) {
    uvhttp__list_remove(&job->link);
    set_count(shard, -1);
    job->state = UVHTTP__JOB_OVER;
    atomic_fetch_sub(&work->waiting, 1);
}

bool uvhttp__work_pull(uvhttp__work_t *work, uvhttp__job_t *job) {
    uvhttp__work_shard_t *shard = &work->shards[job->shard];
    pthread_mutex_lock(&shard->lock);
    bool ready = job->state == UVHTTP__JOB_READY;
    if (ready) pull_out(work, shard, job);
    pthread_mutex_unlock(&shard->lock);
    return ready;
}

void uvhttp__work_pull_all(uvhttp__work_t *work, const uvhttp__work_port_t *port, uvhttp__list_t *list) {
    for (uint32_t i = 0; i < work->shard_count; i++) {
        uvhttp__work_shard_t *shard = &work->shards[i];
        uvhttp__list_t *node, *after;
        pthread_mutex_lock(&shard->lock);
        UVHTTP__LIST_FOREACH_SAFE(node, after, &shard->ready) {
            uvhttp__job_t *job = UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link);
            if (job->port != port) continue;
            pull_out(work, shard, job);
            uvhttp__list_push_back(list, &job->link);
        }
        pthread_mutex_unlock(&shard->lock);
    }
}

bool uvhttp__work_any_ready(const uvhttp__work_t *work) {
    for (uint32_t i = 0; i < work->shard_count; i++)
        if (atomic_load(&work->shards[i].count) > 0) return true;
    return false;
}

uint32_t uvhttp__work_count_ready(uvhttp__work_t *work, uint64_t *oldest_ns) {
    uint32_t count = 0;
    *oldest_ns = UINT64_MAX;
    for (uint32_t i = 0; i < work->shard_count; i++) {
        uvhttp__work_shard_t *shard = &work->shards[i];
        pthread_mutex_lock(&shard->lock);
        const uvhttp__list_t *node = uvhttp__list_front(&shard->ready);
        if (node) {
            uint64_t at_ns = UVHTTP__CONTAINER_OF(node, uvhttp__job_t, link)->at_ns;
            if (at_ns < *oldest_ns) *oldest_ns = at_ns;
            count += atomic_load_explicit(&shard->count, memory_order_relaxed);
        }
        pthread_mutex_unlock(&shard->lock);
    }
    return count;
}

uint64_t uvhttp__work_count_started(const uvhttp__work_t *work) {
    uint64_t started = 0;
    for (uint32_t i = 0; i < work->shard_count; i++)
        started += atomic_load_explicit(&work->shards[i].started, memory_order_relaxed);
    return started;
}
