/* Owns: the pool of threads for what may block: bounded queues of jobs, threads that come when they are needed and go
 * when they are not, jobs that wait for their time or for others of their tag, and the way back to the loop that gave
 * the job. May include: io, base, obs. */
#ifndef UVHTTP_SRC_EXEC_WORK_H
#define UVHTTP_SRC_EXEC_WORK_H

#include "io/io.h"
#include "obs/histogram.h"

typedef struct uvhttp__work uvhttp__work_t;
typedef struct uvhttp__work_port uvhttp__work_port_t;
typedef struct uvhttp__job uvhttp__job_t;

typedef struct uvhttp__work_options {
    uint32_t threads_min;  /* that stay when there is nothing to do; 0..threads_max */
    uint32_t threads_soon; /* made as soon as a job finds no thread, 0: as many as there are CPUs; more only when those
                              that are there turn out to be blocked */
    uint32_t threads_max;  /* 1.. */
    uint32_t backlog_max;  /* jobs that wait, 1..; those that are owed may be more */
    uint32_t idle_ms;      /* a thread above threads_min that had nothing to do for so long ends; 0: none does */
    uint32_t warn_ms;      /* a job that runs so long is counted and logged; 0: none is */
    uint32_t shards;       /* queues, 0: as many as there are CPUs; never more than threads_max */
    bool queue_time;       /* the ns that jobs wait for a thread are recorded, for uvhttp__work_read */
} uvhttp__work_options_t;

/* Embedded in what is to be done; its memory is the caller's again in `done`. */
struct uvhttp__job {
    void (*run)(uvhttp__job_t *job);                  /* a thread of the pool; may block */
    void (*done)(uvhttp__job_t *job, bool cancelled); /* the port's loop; without a port the thread that has run or
                                                         cancelled it. cancelled: it has not been run (again) */
    const char *name;                                 /* for the log; stays valid until done. NULL: none */
    bool waits;                                       /* for a client, for as long as that takes: it is never slow */
    bool owed;          /* of what a client was promised: backlog_max does not refuse it. Whoever submits such jobs has
                           one at a time */
    uint64_t tag;       /* jobs of one tag run one after the other, in the order in which they were ready; 0: none */
    uint64_t delay_ns;  /* it is ready so much later */
    uint64_t period_ns; /* time from ready to ready again, until it is cancelled; 0: once. Never concurrently with
                           itself: a time that has passed meanwhile is skipped */
    /* The pool's. While it is ready under its shard's lock, too; see work_internal.h. */
    uvhttp__work_port_t *port;
    uvhttp__list_t link; /* ready, or behind another of its tag */
    uint64_t at_ns;      /* ready since */
    uint32_t shard;      /* that it is, or will be, ready in */
    uint8_t state;
    bool last;                /* on the way back: cancelled; before: there is no further time for it */
    uvhttp__mpsc_node_t back; /* on the way back */
    /* Of jobs with a tag or a time. */
    uvhttp__job_t *next;     /* in a chain of tags, while it has its tag */
    uvhttp__list_t behind;   /* head, while it has its tag: jobs that wait for it */
    uvhttp__list_t periodic; /* while it is one that is not over */
    uint64_t due_ns;         /* its time, if it waits for one */
    uint32_t heap_index;
};

/* Everything but run and done 0. */
static inline void uvhttp__job_init(uvhttp__job_t *job, void (*run)(uvhttp__job_t *job),
                                    void (*done)(uvhttp__job_t *job, bool cancelled)) {
    *job = (uvhttp__job_t){.run = run, .done = done};
}

/* Where the jobs of one loop come from and go back to. The loop's thread only, unless it says otherwise. */
struct uvhttp__work_port {
    uvhttp__work_t *work;
    uvhttp__loop_t *loop;                       /* NULL: not open */
    void (*on_idle)(uvhttp__work_port_t *port); /* NULL, or called when the last pending job is done */
    uint32_t pending;                           /* jobs submitted whose done has not been called */
    uint32_t shard;                             /* that its jobs go to */
    uint32_t given;                             /* jobs that went to the pool and were not cancelled by the port */
    uvhttp__post_t post;
    /* Any thread. */
    uvhttp__mpsc_t finished;   /* jobs on the way back */
    _Atomic uint32_t returned; /* of those that were given, by threads that touch the port no more */
};

/* No thread is started yet. NULL if out of memory. Options are copied. */
uvhttp__work_t *uvhttp__work_new(const uvhttp__work_options_t *options);
/* Ends the threads. All ports are closed, and uvhttp__work_stop was called if jobs had no port. NULL is allowed. */
void uvhttp__work_free(uvhttp__work_t *work);
/* Starts the threads_min threads; those that cannot be started will be when they are needed. */
void uvhttp__work_start(uvhttp__work_t *work);

void uvhttp__work_port_open(uvhttp__work_port_t *port, uvhttp__work_t *work, uvhttp__loop_t *loop);

/* Where blocking work of a loop's thread goes; NULL: nowhere. */
static inline uvhttp__work_port_t *uvhttp__work_port_of(const uvhttp__loop_t *loop) {
    return loop->blocking;
}
static inline void uvhttp__work_port_assign(uvhttp__loop_t *loop, uvhttp__work_port_t *port) {
    loop->blocking = port;
}

/* Has job->run called by a thread of the pool, then job->done. port: the caller's loop's; NULL, from any thread: none.
 * Returns 0, UVHTTP_E_WORK_FULL (backlog_max jobs wait already, and it is not owed), UVHTTP_E_STATE (a job with a time
 * while the pool drains) or UVHTTP_E_NOMEM (also when there is no thread and none can be made); then nothing is called.
 */
UVHTTP_MUST_USE int uvhttp__work_submit(uvhttp__work_t *work, uvhttp__work_port_t *port, uvhttp__job_t *job);
/* The same for jobs without tag and time, linked by `link`, which costs little more than one: in their order, until one
 * is refused. Jobs that were not accepted stay in the list. */
UVHTTP_MUST_USE int uvhttp__work_submit_all(uvhttp__work_t *work, uvhttp__work_port_t *port, uvhttp__list_t *jobs);

/* Any thread, while the job's memory is there. It will not be run (again), and done follows; of a job without a port in
 * this call, unless it runs. Returns 0, or UVHTTP_E_STATE: it is over, or runs for the only time. */
int uvhttp__work_cancel(uvhttp__work_t *work, uvhttp__job_t *job);

/* Cancels the jobs of a port that do not run, or only those that wait for their time. `done` is called in it. */
void uvhttp__work_port_cancel(uvhttp__work_port_t *port, bool timed_only);

/* Before the loop is freed, when it does not run: waiting jobs are cancelled, running jobs are awaited, and `done` has
 * been called for all. The port's memory must stay until the loop is freed. A port that is not open stays so. */
void uvhttp__work_port_close(uvhttp__work_port_t *port);

/* For jobs without a port. Drain: jobs that are not due are cancelled, and no more of them are accepted. Stop: waits
 * for the others until deadline_ns (uvhttp__clock_ns), cancels what still waits, and waits for what runs. */
void uvhttp__work_drain(uvhttp__work_t *work);
void uvhttp__work_stop(uvhttp__work_t *work, uint64_t deadline_ns);

/* Figures of a pool. */
typedef struct uvhttp__work_stats {
    uint64_t jobs;                      /* started by a thread */
    uint64_t refused;                   /* UVHTTP_E_WORK_FULL */
    uint64_t cancelled;                 /* before they ran */
    uint64_t slow;                      /* ran longer than warn_ms */
    uint64_t threads_started;           /* ... */
    uint64_t threads_ended;             /* because they had nothing to do */
    uint32_t threads, running, waiting; /* now; waiting: also for their time or their tag */
} uvhttp__work_stats_t;

/* Any thread. queue_time: NULL, or an initialised histogram that the pool's is added to. */
void uvhttp__work_read(uvhttp__work_t *work, uvhttp__work_stats_t *stats, uvhttp__histogram_t *queue_time);

#endif
