/* Owns: what the files of the pool share. Private to src/exec. May include: io, base, obs.
 *
 * Everything here is under work->lock. */
#ifndef UVHTTP_SRC_EXEC_WORK_INTERNAL_H
#define UVHTTP_SRC_EXEC_WORK_INTERNAL_H

#include <pthread.h>

#include "exec/work.h"

/* job->state */
enum {
    UVHTTP__JOB_TIMED,  /* in the heap */
    UVHTTP__JOB_BEHIND, /* another of its tag is before it */
    UVHTTP__JOB_READY,  /* in the queue */
    UVHTTP__JOB_RUNS,
    UVHTTP__JOB_OVER /* on the way back, or back */
};

/* A thread. Its memory stays until the pool is freed, and is used again: who has seen it idle may signal it later. */
typedef struct uvhttp__work_thread {
    uvhttp__list_t link;              /* in work->idle, or in work->ended; else detached */
    struct uvhttp__work_thread *next; /* in work->all */
    uvhttp__work_t *work;
    pthread_t thread;
    pthread_cond_t wake;
    uvhttp__job_t *job; /* that it runs, or NULL */
    uint64_t since_ns;  /* it runs since */
    bool told;          /* that the job takes long */
    bool joinable;
} uvhttp__work_thread_t;

#define UVHTTP__WORK_BUCKETS 256 /* of tags, a power of two */

struct uvhttp__work {
    uvhttp__work_options_t options;
    pthread_mutex_t lock;
    pthread_cond_t returned; /* a job has gone back to its loop, or one without a port is done */
    uvhttp__list_t ready;    /* jobs, first come first served */
    uvhttp__list_t idle;     /* threads; who went idle last is woken first, so that the others can end */
    uvhttp__list_t ended;    /* threads to be joined before their memory is used again */
    uvhttp__work_thread_t *all;
    uint32_t cpus;
    uint32_t ready_count;
    uint32_t waiting; /* jobs that do not run yet: ready, behind and timed */
    uint32_t running;
    uint32_t count;       /* threads that have not ended */
    uint32_t loose;       /* jobs without a port that are not done */
    uvhttp__job_t **heap; /* timed jobs, the next one first */
    uint32_t heap_count, heap_capacity;
    uint32_t timed; /* jobs that are in the heap or may come back to it: never more than heap_capacity */
    uvhttp__job_t *tags[UVHTTP__WORK_BUCKETS];
    bool draining, ending;
    /* The keeper: a thread that looks after times, growth and slow jobs. */
    pthread_t keeper;
    pthread_cond_t keeper_wake;
    bool has_keeper;
    bool watching;                               /* it looks whether the threads are blocked */
    uint64_t watch_ns, watch_cpu_ns, watch_jobs; /* at its last look */
    uint64_t look_ns;                            /* when it looks for slow jobs next */
    uvhttp__work_stats_t stats;
};

/* --- queues (work_queue.c) --- */

/* A job is ready: it goes to the queue, or behind another of its tag. Returns whether to the queue. */
bool uvhttp__work_make_ready(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns);
uvhttp__job_t *uvhttp__work_take_ready(uvhttp__work_t *work);
/* A job that had its tag does not need it any more. Returns whether another one got ready. */
bool uvhttp__work_pass_tag(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns);
/* Takes a job that waits out of where it is. */
void uvhttp__work_withdraw(uvhttp__work_t *work, uvhttp__job_t *job, uint64_t now_ns);
/* Room in the heap for one more timed job. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__work_heap_reserve(uvhttp__work_t *work);
void uvhttp__work_heap_push(uvhttp__work_t *work, uvhttp__job_t *job);
void uvhttp__work_heap_remove(uvhttp__work_t *work, uvhttp__job_t *job);

/* --- threads (work_thread.c) --- */

/* Somebody has to look after jobs that have got ready: wakes a thread, starts one, or has the keeper look. */
void uvhttp__work_call_thread(uvhttp__work_t *work, uint64_t now_ns);
/* False: the system refuses one. */
bool uvhttp__work_start_thread(uvhttp__work_t *work);
/* Makes the keeper if there is none, and has it look. False: there is none. */
bool uvhttp__work_call_keeper(uvhttp__work_t *work);
/* A job is over. Returns true if the caller has to call done, without the lock, and then uvhttp__work_done_called. */
UVHTTP_MUST_USE bool uvhttp__work_give_back(uvhttp__work_t *work, uvhttp__job_t *job, bool cancelled);
void uvhttp__work_done_called(uvhttp__work_t *work);
/* Waits for a thread that has ended, once. */
void uvhttp__work_join(uvhttp__work_thread_t *thread);
/* Conditions on the monotonic clock. wait: until_ns UINT64_MAX is for ever; false: the time has come. */
void uvhttp__work_cond_init(pthread_cond_t *cond);
bool uvhttp__work_wait(uvhttp__work_t *work, pthread_cond_t *cond, uint64_t until_ns);
/* pthread_create with all signals blocked: they are for the application's threads. */
bool uvhttp__work_create_thread(pthread_t *thread, void *(*main)(void *arg), void *arg);

/* --- the keeper (work_keeper.c) --- */

void *uvhttp__work_keep(void *arg);

#endif
