/* Owns: jobs for the worker threads of the server, for code that blocks or runs long. UVHTTP_EXEC_WORKER handlers use
 * the same pool. config.worker_threads, worker_threads_min and max_backlog set its size. */
#ifndef UVHTTP_WORK_H
#define UVHTTP_WORK_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

struct uvhttp_server;

/** Does the work on a worker thread. It may block. Signals are blocked in it. */
typedef void (*uvhttp_work_cb)(void *user);

/** Ends a job; called exactly once per accepted job. The caller owns `user` again. `status` is UVHTTP_OK if the job has
 * run. It is UVHTTP_E_WORK_CANCELLED if the job has not run, or if a periodic job will not run again.
 *
 * A job submitted on the thread of one of the server's loops ends on that thread, and may use what belongs to the loop;
 * the loop does not end before. Any other job, also one submitted on a loop of another server, ends on the worker
 * thread that ran it, or on the thread that cancelled it: in uvhttp_work_cancel, or on a thread of the stopping server.
 */
typedef void (*uvhttp_work_done_cb)(void *user, int status);

/** Options of a job. A field that is 0 has its default. */
typedef struct uvhttp_work_options {
    uvhttp_work_done_cb done; /**< default: no notification */
    uint64_t tag; /**< jobs with the same tag never run concurrently. They run in the order of submission, or with a
                     delay in the order in which they become due. Default: no tag */
    uint32_t delay_ms;  /**< ms before the job becomes due. Default: immediately */
    uint32_t period_ms; /**< ms from one start to the next; the job repeats until it is cancelled or the server stops.
                           It first runs after delay_ms, or after one period. A start that becomes due while the job
                           runs is skipped. Default: once */
    const char *name;   /**< name for the log line about a job that runs longer than config.worker_warn_ms; must stay
                           valid. Default: none */
} uvhttp_work_options_t;

/** A reference-counted handle of a job that can be cancelled. */
typedef struct uvhttp_work_s uvhttp_work_t;

/** Runs run(user) on a worker thread, then calls done(user, status); `done` may be NULL. It may be called before the
 * server runs, and within `run` or `done`, but not after uvhttp_server_free has started. Returns 0, UVHTTP_E_WORK_FULL
 * (config.max_backlog jobs wait), UVHTTP_E_INVALID or UVHTTP_E_NOMEM; on failure nothing is called. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_work(struct uvhttp_server *server, uvhttp_work_cb run,
                                                uvhttp_work_done_cb done, void *user);

UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_work_with_sized(struct uvhttp_server *server,
                                                           const uvhttp_work_options_t *options, size_t options_size,
                                                           uvhttp_work_cb run, void *user, uvhttp_work_t **handle);
/** Submits a job with options (copied; NULL: defaults). `handle` may be NULL; otherwise it receives a handle that the
 * caller must release. Returns as uvhttp_work does, or UVHTTP_E_STATE: a job with a delay or a period while the server
 * stops. */
static inline int uvhttp_work_with(struct uvhttp_server *server, const uvhttp_work_options_t *options,
                                   uvhttp_work_cb run, void *user, uvhttp_work_t **handle) {
    return uvhttp_work_with_sized(server, options, sizeof *options, run, user, handle);
}

/** Cancels a job, or further runs of a periodic job. `done` is called with UVHTTP_E_WORK_CANCELLED. For a job that was
 * not submitted on a loop of the server and does not run, it is called inside this call. Returns 0, UVHTTP_E_INVALID
 * (NULL), or UVHTTP_E_STATE: the job has run, runs for the only time, or is already cancelled. Any thread, while the
 * server exists. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_work_cancel(uvhttp_work_t *handle);
/** Releases the handle; the job is not affected. NULL is allowed. Any thread, also after uvhttp_server_free. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_work_release(uvhttp_work_t *handle);

/* When the server stops, periodic jobs and jobs that are not yet due are cancelled. Jobs that wait for a thread may run
 * until config.drain_timeout, and are cancelled then. Running jobs are awaited: a job that never returns keeps
 * uvhttp_server_run from returning. An attached server awaits in uvhttp_server_free those that were given to it by
 * other threads than its loop's: on_stopped may come before their end. */

UVHTTP_END_DECLS

#endif
