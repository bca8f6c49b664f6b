/* Owns: what the files of the pool share. Private to src/exec. May include: io, base, obs.
 *
 * Ready jobs wait in shards, each with its own lock. A plain job, one without tag and time, needs nothing else: it is
 * admitted, pushed, popped and released without the pool's lock. That lock is for what is rare, or costs a system call
 * anyway: threads that start, sleep and end, tags, times, cancelling, the keeper. It is acquired before a shard's lock,
 * never after.
 *
 * Who may change a job's state: for READY and the transition out of it, the holder of its shard's lock; for every other
 * state, the holder of the pool's. A plain job that was popped belongs to its thread alone, and stays RUNS to the end.
 *
 * Why no thread sleeps while there is something to do: a producer (1) adds to a shard's count and then (2) reads
 * `callable`, and calls a thread if that is set. A thread that is about to sleep, or the keeper that stops checking,
 * (3) sets it and then (4) reads the counts of all shards once more. All four are sequentially consistent, so they have
 * one order: if (2) comes before (3) and misses it, then (1) comes before (4), which sees the job. If not, the producer
 * acquires the lock, under which the sleeper is either in the list of idle threads or has seen the job.
 *
 * Why no job waits without any thread: a producer (1) adds to `waiting` and then (2) reads `count`; if there is no
 * thread it starts one, or fails. The last thread that ends (3) subtracts from `count` and then (4) reads `waiting`,
 * and stays if a job waits. The same argument holds. */
#ifndef UVHTTP_SRC_EXEC_WORK_INTERNAL_H
#define UVHTTP_SRC_EXEC_WORK_INTERNAL_H

#include <pthread.h>
#include <stdalign.h>

#include "exec/work.h"

/* job->state */
enum {
    UVHTTP__JOB_TIMED,  /* in the heap */
    UVHTTP__JOB_BEHIND, /* another of its tag is before it */
    UVHTTP__JOB_READY,  /* in a shard */
    UVHTTP__JOB_RUNS,
    UVHTTP__JOB_OVER /* on the way back, or back */
};

/* Neither tag nor time: none of the pool's lock. */
static inline bool uvhttp__job_is_plain(const uvhttp__job_t *job) {
    return (job->tag | job->delay_ns | job->period_ns) == 0;
}

/* One queue of jobs that are ready. */
typedef struct uvhttp__work_shard {
    alignas(64) pthread_mutex_t lock;
    uvhttp__list_t ready;            /* jobs, first come first served */
    _Atomic uint32_t count;          /* of them; written under the lock */
    _Atomic uint64_t started;        /* by threads, ever; the same */
    uvhttp__histogram_t *queue_time; /* recorded under the lock; NULL: not asked for */
} uvhttp__work_shard_t;

/* A thread. Its memory stays until the pool is freed, and is used again: who has seen it idle may signal it later. */
typedef struct uvhttp__work_thread {
    uvhttp__list_t link;              /* in work->idle, or in work->ended; else detached */
    struct uvhttp__work_thread *next; /* in work->all */
    uvhttp__work_t *work;
    pthread_t thread;
    pthread_mutex_t sleep; /* its own: who is woken has to wait for nobody */
    pthread_cond_t wake;
    bool called;               /* under `sleep`; the thread that sets it has removed this one from work->idle */
    uint32_t home;             /* the shard that it takes from first */
    uint32_t starts;           /* the thread's */
    _Atomic uintptr_t runs;    /* the job that it runs, or 0; with UVHTTP__WORK_HELD, see uvhttp__work_hold */
    _Atomic uint64_t since_ns; /* it runs since */
    _Atomic bool busy;         /* it has a job, its done included */
    uint64_t reported_ns;      /* the keeper's: since_ns of the last job that it has reported */
    bool joinable;
} uvhttp__work_thread_t;

#define UVHTTP__WORK_HELD ((uintptr_t)1)

#define UVHTTP__WORK_BUCKETS 256 /* of tags, a power of two */

struct uvhttp__work {
    uvhttp__work_options_t options;
    uvhttp__work_shard_t *shards;
    uvhttp__histogram_t *queue_times; /* of all shards, or NULL */
    uint32_t shard_count;
    /* Changed for every job. */
    alignas(64) _Atomic uint32_t waiting; /* jobs that do not run yet: ready, behind and timed */
    _Atomic uint32_t loose;               /* jobs without a port that are not done */
    _Atomic uint64_t refused;
    /* Looked at for every job. */
    alignas(64) _Atomic uint32_t count; /* threads that have not ended; written under the lock */
    _Atomic uint32_t waiters;           /* threads that wait for jobs to come back; the same */
    _Atomic bool callable;              /* who has given a job has to call a thread; the same */
    _Atomic uint32_t ports;             /* opened, ever */
    /* From here on under the lock. */
    alignas(64) pthread_mutex_t lock;
    pthread_cond_t returned; /* a job has gone back to its loop, or one without a port is done */
    uvhttp__list_t idle;     /* threads; who went idle last is woken first, so that the others can end */
    uvhttp__list_t ended;    /* threads to be joined before their memory is used again */
    uvhttp__work_thread_t *all;
    uint32_t cpus;
    uvhttp__list_t periodic; /* jobs that come again, until they are over */
    uvhttp__job_t **heap;    /* timed jobs, the next one first */
    uint32_t heap_count, heap_capacity;
    uint32_t timed; /* jobs that are in the heap or may come back to it: never more than heap_capacity */
    uvhttp__job_t *tags[UVHTTP__WORK_BUCKETS];
    bool draining, ending;
    /* The keeper: a thread that looks after times, growth and slow jobs. */
    pthread_t keeper;
    void *(*keep)(void *work); /* what it runs: uvhttp__work_keep */
    pthread_cond_t keeper_wake;
    bool has_keeper;
    bool checking;                            /* it looks whether the threads are blocked */
    uint64_t seen_ns, seen_cpu_ns, seen_jobs; /* at its last look */
    uint64_t look_ns;                         /* when it looks for slow jobs next */
    uint64_t cancelled, slow, threads_started, threads_ended;
};

/* --- shards (work_shard.c): without the pool's lock, or with it --- */

/* Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__work_shards_init(uvhttp__work_t *work);
void uvhttp__work_shards_deinit(uvhttp__work_t *work);
/* The shard of jobs that this thread gives without a port: that of a thread of the pool is the one it takes from first.
 */
uint32_t uvhttp__work_own_shard(const uvhttp__work_t *work);
void uvhttp__work_set_own_shard(const uvhttp__work_t *work, uint32_t shard);
/* Jobs that are linked by `link` are ready, in their shard, which is one for all. From here on they may be gone. */
void uvhttp__work_push_all(uvhttp__work_t *work, uvhttp__list_t *jobs, uint64_t now_ns);
void uvhttp__work_push(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns);
/* A job for a thread, or NULL. now_ns: just now. */
uvhttp__job_t *uvhttp__work_take(uvhttp__work_t *work, uvhttp__work_thread_t *thread, uint64_t now_ns);
/* Takes a job out again. False: it is not ready. */
bool uvhttp__work_pull(uvhttp__work_t *work, uvhttp__job_t *job);
/* Those of a port, or without one, behind the others of the list. */
void uvhttp__work_pull_all(uvhttp__work_t *work, const uvhttp__work_port_t *port, uvhttp__list_t *list);
/* Whether a job is ready in any shard: the second look of who has set `callable`. */
bool uvhttp__work_any_ready(const uvhttp__work_t *work);
/* How many are. oldest_ns: since when the oldest of them is, or UINT64_MAX. */
uint32_t uvhttp__work_count_ready(uvhttp__work_t *work, uint64_t *oldest_ns);
uint64_t uvhttp__work_count_started(const uvhttp__work_t *work);

/* --- tags and times (work_queue.c): under the lock --- */

/* A job is ready: it goes to its shard, or behind another of its tag. Returns whether to its shard. */
bool uvhttp__work_make_ready(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns);
/* A job that had its tag does not need it any more. Returns whether another one got ready. */
bool uvhttp__work_pass_tag(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns);
/* Takes a job that waits for its tag or its time out of there. */
void uvhttp__work_unqueue(uvhttp__work_t *work, uvhttp__job_t *job);
/* Reserves space in the heap for one more timed job. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__work_heap_reserve(uvhttp__work_t *work);
void uvhttp__work_heap_push(uvhttp__work_t *work, uvhttp__job_t *job);
void uvhttp__work_heap_remove(uvhttp__work_t *work, uvhttp__job_t *job);

/* --- threads (work_thread.c): under the lock, unless it says otherwise --- */

/* Somebody has to look after a job that has got ready: starts a thread, has the keeper look, or returns one that is
 * idle, to be woken without the lock. */
uvhttp__work_thread_t *uvhttp__work_find_thread(uvhttp__work_t *work, uint64_t now_ns);
void uvhttp__work_wake(uvhttp__work_thread_t *thread);
/* Both at once, with the lock. */
void uvhttp__work_call_thread(uvhttp__work_t *work, uint64_t now_ns);
/* Who gives a job has to call a thread, or need not: after every change of what decides that. */
void uvhttp__work_update_callable(uvhttp__work_t *work);
/* False: the system refuses one. */
bool uvhttp__work_start_thread(uvhttp__work_t *work);
/* Makes the keeper if there is none, and has it look. False: there is none. */
bool uvhttp__work_call_keeper(uvhttp__work_t *work);
/* A job with a tag or a time is not to be run again. */
void uvhttp__work_retire(uvhttp__work_t *work, uvhttp__job_t *job);
/* Without the lock. A job is over: to its loop, or done is called. */
void uvhttp__work_give_back(uvhttp__work_t *work, uvhttp__job_t *job, bool cancelled);
/* Without the lock. `done` has been called for jobs without a port. */
void uvhttp__work_done_called(uvhttp__work_t *work, uint32_t count);
/* The job that a thread runs, which does not end before the lock is released; or NULL. */
const uvhttp__job_t *uvhttp__work_hold(uvhttp__work_thread_t *thread);
/* Waits for a thread that has ended, once. */
void uvhttp__work_join(uvhttp__work_thread_t *thread);
/* Conditions on the monotonic clock. wait: until_ns UINT64_MAX is forever; false: the time has come. */
void uvhttp__work_cond_init(pthread_cond_t *cond);
bool uvhttp__work_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

/* --- the keeper (work_keeper.c) --- */

void *uvhttp__work_keep(void *arg);

#endif
