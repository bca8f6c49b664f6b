/* Owns: work on threads of the server's pool, for what blocks or takes long: the pool that UVHTTP_EXEC_WORKER handlers
 * run on, too. Its size and bounds are config.worker_threads, worker_threads_min and max_backlog. */
#ifndef UVHTTP_WORK_H
#define UVHTTP_WORK_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

struct uvhttp_server;

/** Does the work, on a thread of the pool; may block. Signals are blocked in it. */
typedef void (*uvhttp_work_cb)(void *user);

/** The end of a job, exactly once for each job that was taken: what `user` points to is the caller's again. status:
 * UVHTTP_OK, it has been run; UVHTTP_E_WORK_CANCELLED, it has not, or (a periodic one) will not be again. A job that
 * was given on a loop's thread ends on that loop's thread, so that it may use what belongs to the loop; the loop does
 * not end before. Any other ends on the worker thread that has run it, or on the thread that has cancelled it: in
 * uvhttp_work_cancel, or one of the server's when it stops. */
typedef void (*uvhttp_work_done_cb)(void *user, int status);

/** What a job may have. A field that is 0 has its default. */
typedef struct uvhttp_work_options {
    uvhttp_work_done_cb done; /**< default: nobody is told */
    uint64_t tag;       /**< jobs with the same tag never run beside each other, but in the order in which they were
                             given (with a delay: in which their time came). Default: no tag */
    uint32_t delay_ms;  /**< it runs so much later, in ms. Default: as soon as there is a thread */
    uint32_t period_ms; /**< it runs again and again, so long from begin to begin, in ms, until it is cancelled or
                             the server stops; first after delay_ms or, without, one period. A time that comes
                             while it still runs is left out. Default: once */
    const char *name;   /**< for the log line about a job that takes longer than config.worker_warn_ms; must stay valid.
                             Default: none */
} uvhttp_work_options_t;

/** A job that can be cancelled. Counted. */
typedef struct uvhttp_work_s uvhttp_work_t;

/** Has run(user) called by a worker thread, then done(user, status) (may be NULL). From any thread, also before the
 * server runs and from within run or done; not after uvhttp_server_free has begun. Returns 0, UVHTTP_E_WORK_FULL
 * (config.max_backlog jobs wait), UVHTTP_E_INVALID or UVHTTP_E_NOMEM; then nothing is called. */
UVHTTP_EXPORT int uvhttp_work(struct uvhttp_server *server, uvhttp_work_cb run, uvhttp_work_done_cb done, void *user);

/** The same with options (copied; NULL: defaults). handle: NULL, or gets a handle, which has to be released. Also
 * UVHTTP_E_STATE: a job with a delay or a period while the server stops. */
UVHTTP_EXPORT int uvhttp_work_with(struct uvhttp_server *server, const uvhttp_work_options_t *options,
                                   uvhttp_work_cb run, void *user, uvhttp_work_t **handle);

/** The job will not run, or not again: done follows with UVHTTP_E_WORK_CANCELLED, for a job that was not given on a
 * loop in this call unless it runs. Any thread, while the server is there. Returns 0, or UVHTTP_E_STATE: it has been
 * run, runs for the only time, or has been cancelled. */
UVHTTP_EXPORT int uvhttp_work_cancel(uvhttp_work_t *handle);
/** Gives the handle back; the job is not concerned. NULL is allowed. Any thread, also after the server has gone. */
UVHTTP_EXPORT void uvhttp_work_release(uvhttp_work_t *handle);

/* When the server stops, jobs that wait for their time and periodic ones are cancelled; those that wait for a thread
 * have until config.drain_timeout to be run and are cancelled then. What runs is waited for: a job that never returns
 * keeps uvhttp_server_run from returning. */

UVHTTP_END_DECLS

#endif
