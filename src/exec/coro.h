/* Owns: coroutines, each with its own stack, run by the loop's thread when their wait is over. May include: io, base,
 * obs.
 *
 * A woken coroutine is put into a list, and runs at the end of the loop's iteration, before its output is flushed. No
 * coroutine runs inside a callback, and what it writes leaves in the same iteration. */
#ifndef UVHTTP_SRC_EXEC_CORO_H
#define UVHTTP_SRC_EXEC_CORO_H

#include <uvhttp/coro.h>

#include "exec/coro_stack.h"
#include "exec/work.h"
#include "io/io.h"

typedef void *uvhttp__fcontext_t;

/* What a coroutine is run for (a request). All but `ended` are called on the coroutine's stack. */
typedef struct uvhttp__coro_ops {
    int (*before_wait)(void *owner); /* before the first wait; a code other than 0 is returned by the wait */
    void (*leave)(void *owner);      /* it is about to wait */
    void (*enter)(void *owner);      /* it continues */
    void (*ended)(void *owner);      /* on the loop's stack; the coroutine is gone */
} uvhttp__coro_ops_t;

typedef struct uvhttp__coro_sched {
    uvhttp__loop_t *loop;      /* NULL: not open */
    uvhttp__work_port_t *port; /* NULL: no blocking work */
    uvhttp__coro_stacks_t stacks;
    uvhttp__list_t ready;
    uvhttp__list_t all;
    uvhttp__timer_t trim_timer;
    uvhttp__timer_kind_t timer_kind; /* of the timers of coroutines */
    uvhttp__post_t post;
    bool posted;
    bool closing;
    bool stopping;                                     /* the server stops: uvhttp_coro_wake_on_stop */
    void (*on_idle)(struct uvhttp__coro_sched *sched); /* NULL, or called when none is left, while it stops */
} uvhttp__coro_sched_t;

typedef struct uvhttp__coro_cleanup {
    struct uvhttp__coro_cleanup *next;
    void (*run)(void *arg);
    void *arg;
} uvhttp__coro_cleanup_t;

enum { UVHTTP__CORO_CLEANUPS = 4 };

typedef enum uvhttp__coro_state {
    UVHTTP__CORO_READY,
    UVHTTP__CORO_RUNNING,
    UVHTTP__CORO_WAITING,
    UVHTTP__CORO_DONE
} uvhttp__coro_state_t;

struct uvhttp_coro {
    uvhttp__fcontext_t context; /* where it continues; while it runs, where its resumer does */
    uvhttp__coro_sched_t *sched;
    uvhttp__coro_stack_t *stack;
    const uvhttp__coro_ops_t *ops;
    void *owner;
    const char *label; /* for the report of an overflow */
    void (*run)(void *arg);
    void *arg;
    uvhttp__timer_t timer;
    uvhttp__list_t link;     /* in sched->ready */
    uvhttp__list_t all_link; /* in sched->all */
    uvhttp__list_t children; /* by sibling_link */
    uvhttp__list_t sibling_link;
    uvhttp_coro_t *parent;
    uvhttp_coro_t *joiner; /* waits for the end of this one */
    uvhttp__coro_cleanup_t *cleanups;
    int wake_status;
    uint8_t state; /* uvhttp__coro_state_t */
    uint8_t cleanup_count;
    bool cancelled;
    bool patient;    /* the wait in hand ends with what it waits for only */
    bool prepared;   /* ops->before_wait has been called */
    bool heeds_stop; /* it has still to be woken when the server stops */
    void *fake_stack, *resumer_fiber;
    const void *resumer_bottom;
    size_t resumer_size;
    uvhttp__coro_cleanup_t first_cleanups[UVHTTP__CORO_CLEANUPS];
};

typedef struct uvhttp__coro_start {
    void (*run)(void *arg);
    void *arg;
    const uvhttp__coro_ops_t *ops;
    void *owner;
    const char *label; /* must live as long as the coroutine */
} uvhttp__coro_start_t;

/* Allocates nothing. budget and port (may be NULL) live longer. */
void uvhttp__coro_sched_open(uvhttp__coro_sched_t *sched, uvhttp__coro_budget_t *budget, uvhttp__loop_t *loop,
                             uvhttp__work_port_t *port);
/* The server stops: waits of those that asked for it return UVHTTP_E_STOPPING. */
void uvhttp__coro_sched_stop(uvhttp__coro_sched_t *sched);
/* The loop does not turn any more: what still waits is cancelled and runs to its end. The port has no jobs any more. */
void uvhttp__coro_sched_close(uvhttp__coro_sched_t *sched);
static inline bool uvhttp__coro_sched_busy(const uvhttp__coro_sched_t *sched) {
    return !uvhttp__list_empty(&sched->all);
}
static inline bool uvhttp__coro_sched_due(const uvhttp__coro_sched_t *sched) {
    return sched->ready.next != &sched->ready;
}
/* In the loop's on_iteration_end: runs the ready coroutines. */
void uvhttp__coro_sched_run(uvhttp__coro_sched_t *sched);

/* A coroutine woken outside an iteration runs in an iteration that starts immediately. */
void uvhttp__coro_sched_soon(uvhttp__coro_sched_t *sched);

/* Begins a coroutine and runs it to its first wait. *coro is NULL if it has ended by then. Returns 0,
 * UVHTTP_E_COROUTINE_LIMIT or UVHTTP_E_NOMEM. */
int uvhttp__coro_begin(uvhttp__coro_sched_t *sched, const uvhttp__coro_start_t *start, uvhttp_coro_t **coro);
/* The same for a coroutine that runs when it is scheduled. */
int uvhttp__coro_create(uvhttp__coro_sched_t *sched, const uvhttp__coro_start_t *start, uvhttp_coro_t **coro);
/* A coroutine that has ended and was spawned: its stack goes back. */
void uvhttp__coro_reap(uvhttp_coro_t *coro);
/* Every wait of it, and of those it has spawned, returns UVHTTP_E_ABORTED from now on. */
void uvhttp__coro_cancel(uvhttp_coro_t *coro);

/* The coroutine that runs on this thread, or NULL. */
uvhttp_coro_t *uvhttp__coro_current(void);

/* --- for what can be waited for --- */

/* 0 if the running coroutine may wait, else what the wait returns. To be called before anything is set in motion. */
int uvhttp__coro_may_wait(uvhttp_coro_t *coro);
/* The same for what a stop of the server does not affect. */
int uvhttp__coro_may_wait_patiently(uvhttp_coro_t *coro);
/* Waits for uvhttp__coro_wake; returns its status, UVHTTP_E_TIMEOUT or UVHTTP_E_ABORTED. After uvhttp__coro_may_wait.
 */
int uvhttp__coro_wait(uvhttp_coro_t *coro, uint32_t timeout_ms);
/* The same, whoever cancels. */
int uvhttp__coro_wait_patiently(uvhttp_coro_t *coro, uint32_t timeout_ms);
/* Does nothing if it does not wait, or has been woken already. */
void uvhttp__coro_wake(uvhttp_coro_t *coro, int status);

/* --- overflow (coro_fault.c) --- */

/* The thread gets a stack for signals if it has none, the process a handler that reports overflows of what current()
 * returns, the same function in each call. */
void uvhttp__coro_fault_install(uvhttp_coro_t *(*current)(void));

#endif
