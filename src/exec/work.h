/* Owns: helper threads for calls that block: a bounded queue of jobs, threads made when they are needed, and the way
 * back to the loop that gave the job. May include: io, base, obs. */
#ifndef UVHTTP_SRC_EXEC_WORK_H
#define UVHTTP_SRC_EXEC_WORK_H

#include "io/io.h"

typedef struct uvhttp__work uvhttp__work_t;
typedef struct uvhttp__work_port uvhttp__work_port_t;

/* Embedded in what is to be done; its memory is the caller's until `done`. */
typedef struct uvhttp__job {
    struct uvhttp__job *next; /* the pool's */
    uvhttp__work_port_t *port;
    void (*run)(struct uvhttp__job *job);                  /* a helper thread; may block */
    void (*done)(struct uvhttp__job *job, bool cancelled); /* the loop's thread; cancelled: it has not been run */
} uvhttp__job_t;

/* Where the jobs of one loop come from and go back to. The loop's thread only, unless it says otherwise. */
struct uvhttp__work_port {
    uvhttp__work_t *work;
    uvhttp__loop_t *loop; /* NULL: not open */
    uvhttp__post_t post;
    uvhttp__job_t *finished, **finished_last; /* from here on under the pool's lock: on the way back */
    uint32_t out;                             /* jobs that helper threads may still touch */
};

/* threads_max and backlog_max: 1.. . No thread is started yet. NULL if out of memory. */
uvhttp__work_t *uvhttp__work_new(uint32_t threads_max, uint32_t backlog_max);
/* Ends the threads. All ports are closed. NULL is allowed. */
void uvhttp__work_free(uvhttp__work_t *work);

void uvhttp__work_port_open(uvhttp__work_port_t *port, uvhttp__work_t *work, uvhttp__loop_t *loop);

/* Has job->run called by a helper thread, then job->done on the loop. Returns 0, UVHTTP_E_LIMIT (backlog_max jobs wait
 * already) or UVHTTP_E_NOMEM (there is no thread and none can be made); then nothing is called. */
UVHTTP_MUST_USE int uvhttp__work_submit(uvhttp__work_port_t *port, uvhttp__job_t *job);

/* Before the loop is freed, when it does not turn: jobs that wait are cancelled, those that run are waited for, and
 * `done` has been called for all. The port's memory must stay until the loop is freed. A port that is not open stays
 * so.
 */
void uvhttp__work_port_close(uvhttp__work_port_t *port);

#endif
