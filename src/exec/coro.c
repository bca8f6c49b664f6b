/* Owns: the switch between stacks, the list of those that are ready, and the waits that need nothing else. May include:
 * io, base, obs. */
#include "exec/coro.h"

#include <assert.h>

#include "base/alloc.h"
#include "exec/coro_tools.h"

/* Boost.Context's C symbols (libs/context, fcontext.hpp): a context is the stack pointer below saved registers. */
typedef struct transfer {
    uvhttp__fcontext_t context; /* of who has jumped here */
    void *data;
} transfer_t;
transfer_t jump_fcontext(uvhttp__fcontext_t to, void *data);
uvhttp__fcontext_t make_fcontext(void *stack_end, size_t size, void (*entry)(transfer_t transfer));

#define TRIM_INTERVAL_MS 1000
/* Maximum of consecutive rounds in one iteration for coroutines woken by coroutines; then the network gets its share.
 */
#define ROUNDS 16

static _Thread_local uvhttp_coro_t *current;

uvhttp_coro_t *uvhttp__coro_current(void) {
    return current;
}

/* --- switching --- */

/* Runs a coroutine until it waits or ends. */
static void resume(uvhttp_coro_t *coro) {
    uvhttp_coro_t *before = current;
    void *fake_stack = NULL;
    coro->state = UVHTTP__CORO_RUNNING;
    coro->resumer_fiber = UVHTTP__TSAN_FIBER_CURRENT();
    current = coro;
    UVHTTP__ASAN_LEAVE(&fake_stack, coro->stack->bottom, coro->stack->size);
    UVHTTP__TSAN_SWITCH(coro->stack->tsan_fiber);
    coro->context = jump_fcontext(coro->context, coro).context;
    UVHTTP__ASAN_ARRIVE(fake_stack, NULL, NULL);
    current = before;
}

/* Back to who has resumed it. `last`: it will not be resumed. */
static void switch_back(uvhttp_coro_t *coro, bool last) {
    UVHTTP__ASAN_LEAVE(last ? NULL : &coro->fake_stack, coro->resumer_bottom, coro->resumer_size);
    UVHTTP__TSAN_SWITCH(coro->resumer_fiber);
    coro->context = jump_fcontext(coro->context, NULL).context;
    UVHTTP__ASAN_ARRIVE(coro->fake_stack, &coro->resumer_bottom, &coro->resumer_size);
}

static void run_cleanups(uvhttp_coro_t *coro) {
    while (coro->cleanups) {
        uvhttp__coro_cleanup_t cleanup = *coro->cleanups, *node = coro->cleanups;
        coro->cleanups = cleanup.next;
        bool inside = node >= coro->first_cleanups && node < coro->first_cleanups + UVHTTP__CORO_CLEANUPS;
        if (inside)
            coro->cleanup_count--;
        else
            uvhttp__free(node);
        cleanup.run(cleanup.arg);
    }
}

/* Those that were spawned and not joined. */
static void end_children(uvhttp_coro_t *coro) {
    for (uvhttp__list_t *node; (node = uvhttp__list_front(&coro->children));) {
        uvhttp_coro_t *child = UVHTTP__CONTAINER_OF(node, uvhttp_coro_t, sibling_link);
        uvhttp__coro_cancel(child);
        if (child->state != UVHTTP__CORO_DONE) {
            child->joiner = coro;
            (void)uvhttp__coro_wait_patiently(coro, UVHTTP_NEVER);
        }
        uvhttp__coro_reap(child);
    }
}

static void entry(transfer_t transfer) {
    uvhttp_coro_t *coro = transfer.data;
    coro->context = transfer.context;
    UVHTTP__ASAN_ARRIVE(NULL, &coro->resumer_bottom, &coro->resumer_size);
    if (coro->parent) coro->ops->enter(coro->owner);
    coro->run(coro->arg);
    run_cleanups(coro);
    end_children(coro);
    if (coro->parent) coro->ops->leave(coro->owner);
    coro->state = UVHTTP__CORO_DONE;
    switch_back(coro, true);
}

/* --- life --- */

static void check_stacks(uvhttp__coro_sched_t *sched) {
    if (uvhttp__timer_active(&sched->trim_timer) || sched->closing) return;
    uvhttp__timer_set(&sched->loop->wheel, &sched->trim_timer, sched->loop->now_ms + TRIM_INTERVAL_MS);
}

static void give_stack(uvhttp_coro_t *coro) {
    uvhttp__coro_sched_t *sched = coro->sched;
    uvhttp__list_remove(&coro->all_link);
    uvhttp__coro_stack_give(&sched->stacks, coro->stack);
    check_stacks(sched);
}

/* After resume: a coroutine that has ended leaves, unless its parent has to see it first. */
static void settle(uvhttp_coro_t *coro) {
    if (coro->state != UVHTTP__CORO_DONE) return;
    if (coro->parent) {
        if (coro->joiner) uvhttp__coro_wake(coro->joiner, UVHTTP_OK);
        return;
    }
    const uvhttp__coro_ops_t *ops = coro->ops;
    void *owner = coro->owner;
    give_stack(coro);
    ops->ended(owner);
}

static int make(uvhttp__coro_sched_t *sched, const uvhttp__coro_start_t *start, uvhttp_coro_t **made) {
    int status = UVHTTP_OK;
    uvhttp__coro_stack_t *stack = uvhttp__coro_stack_take(&sched->stacks, &status);
    assert(stack || status != UVHTTP_OK);
    if (!stack) return status;
    uvhttp_coro_t *coro = (void *)((char *)stack - UVHTTP__CORO_ALIGN(sizeof *coro));
    coro->sched = sched;
    coro->stack = stack;
    coro->ops = start->ops;
    coro->owner = start->owner;
    coro->label = start->label;
    coro->run = start->run;
    coro->arg = start->arg;
    coro->parent = coro->joiner = NULL;
    coro->cleanups = NULL;
    coro->cleanup_count = 0;
    coro->cancelled = coro->patient = coro->prepared = coro->heeds_stop = false;
    coro->fake_stack = NULL;
    uvhttp__timer_init(&coro->timer, sched->timer_kind);
    uvhttp__list_init(&coro->link);
    uvhttp__list_init(&coro->all_link);
    uvhttp__list_init(&coro->children);
    uvhttp__list_init(&coro->sibling_link);
    uvhttp__list_push_back(&sched->all, &coro->all_link);
    coro->context = make_fcontext(coro, (size_t)((char *)coro - stack->bottom), entry);
    uvhttp__counters_add(sched->loop->counters, coroutines, 1);
    uvhttp__coro_fault_install(uvhttp__coro_current);
    *made = coro;
    return UVHTTP_OK;
}

int uvhttp__coro_begin(uvhttp__coro_sched_t *sched, const uvhttp__coro_start_t *start, uvhttp_coro_t **made) {
    uvhttp_coro_t *coro;
    *made = NULL;
    int status = make(sched, start, &coro);
    if (status != UVHTTP_OK) return status;
    resume(coro);
    if (coro->state != UVHTTP__CORO_DONE) *made = coro;
    settle(coro);
    return UVHTTP_OK;
}

int uvhttp__coro_create(uvhttp__coro_sched_t *sched, const uvhttp__coro_start_t *start, uvhttp_coro_t **made) {
    *made = NULL;
    int status = make(sched, start, made);
    if (status != UVHTTP_OK) return status;
    (*made)->state = UVHTTP__CORO_READY;
    uvhttp__list_push_back(&sched->ready, &(*made)->link);
    return UVHTTP_OK;
}

void uvhttp__coro_reap(uvhttp_coro_t *coro) {
    assert(coro->state == UVHTTP__CORO_DONE);
    uvhttp__list_remove(&coro->sibling_link);
    give_stack(coro);
}

void uvhttp__coro_cancel(uvhttp_coro_t *coro) {
    coro->cancelled = true;
    uvhttp__list_t *node, *after;
    UVHTTP__LIST_FOREACH_SAFE(node, after, &coro->children)
    uvhttp__coro_cancel(UVHTTP__CONTAINER_OF(node, uvhttp_coro_t, sibling_link));
    if (!coro->patient) uvhttp__coro_wake(coro, UVHTTP_E_ABORTED);
}

/* --- waiting --- */

int uvhttp__coro_may_wait_patiently(uvhttp_coro_t *coro) {
    if (!coro) return UVHTTP_E_STATE;
    if (coro->cancelled) return UVHTTP_E_ABORTED;
    if (coro->prepared) return UVHTTP_OK;
    int status = coro->ops->before_wait(coro->owner);
    coro->prepared = status == UVHTTP_OK;
    return status;
}

int uvhttp__coro_may_wait(uvhttp_coro_t *coro) {
    if (coro && coro->heeds_stop && coro->sched->stopping && !coro->cancelled) {
        coro->heeds_stop = false;
        return UVHTTP_E_STOPPING;
    }
    return uvhttp__coro_may_wait_patiently(coro);
}

static int park(uvhttp_coro_t *coro) {
    coro->state = UVHTTP__CORO_WAITING;
    coro->ops->leave(coro->owner);
    switch_back(coro, false);
    coro->ops->enter(coro->owner);
    return coro->wake_status;
}

int uvhttp__coro_wait(uvhttp_coro_t *coro, uint32_t timeout_ms) {
    uvhttp__loop_t *loop = coro->sched->loop;
    if (timeout_ms == 0) return UVHTTP_E_TIMEOUT;
    if (timeout_ms != UVHTTP_NEVER) uvhttp__timer_set_after(&loop->wheel, &coro->timer, loop->now_ns, timeout_ms);
    return park(coro);
}

int uvhttp__coro_wait_patiently(uvhttp_coro_t *coro, uint32_t timeout_ms) {
    coro->patient = true;
    int status = uvhttp__coro_wait(coro, timeout_ms);
    coro->patient = false;
    return status;
}

void uvhttp__coro_wake(uvhttp_coro_t *coro, int status) {
    if (coro->state != UVHTTP__CORO_WAITING) return;
    coro->state = UVHTTP__CORO_READY;
    coro->wake_status = status;
    uvhttp__timer_stop(&coro->sched->loop->wheel, &coro->timer);
    uvhttp__list_push_back(&coro->sched->ready, &coro->link);
}

/* --- the loop's side --- */

/* The server stops, and no coroutine is left. */
static bool was_last(const uvhttp__coro_sched_t *sched) {
    return sched->stopping && !uvhttp__coro_sched_busy(sched);
}

/* The end of this iteration runs coroutines that are due. */
static void on_post(uvhttp__post_t *post) {
    uvhttp__coro_sched_t *sched = UVHTTP__CONTAINER_OF(post, uvhttp__coro_sched_t, post);
    sched->posted = false;
    if (was_last(sched) && sched->on_idle) sched->on_idle(sched);
}

static void run_batch(uvhttp__coro_sched_t *sched) {
    uvhttp__list_t batch, *node;
    uvhttp__list_init(&batch);
    uvhttp__list_splice(&batch, &sched->ready);
    while ((node = uvhttp__list_pop_front(&batch))) {
        uvhttp_coro_t *coro = UVHTTP__CONTAINER_OF(node, uvhttp_coro_t, link);
        resume(coro);
        settle(coro);
    }
}

void uvhttp__coro_sched_run(uvhttp__coro_sched_t *sched) {
    for (int round = 0; round < ROUNDS && uvhttp__coro_sched_due(sched); round++) run_batch(sched);
    if (uvhttp__coro_sched_due(sched) || was_last(sched)) uvhttp__coro_sched_soon(sched);
}

void uvhttp__coro_sched_soon(uvhttp__coro_sched_t *sched) {
    if (sched->posted) return;
    sched->posted = true;
    uvhttp__loop_post(sched->loop, &sched->post);
}

static void on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel;
    uvhttp__coro_sched_t *sched = user;
    if (timer != &sched->trim_timer)
        uvhttp__coro_wake(UVHTTP__CONTAINER_OF(timer, uvhttp_coro_t, timer), UVHTTP_E_TIMEOUT);
    else if (uvhttp__coro_stacks_trim(&sched->stacks))
        check_stacks(sched);
}

void uvhttp__coro_sched_open(uvhttp__coro_sched_t *sched, uvhttp__coro_budget_t *budget, uvhttp__loop_t *loop,
                             uvhttp__work_port_t *port) {
    *sched = (uvhttp__coro_sched_t){.loop = loop, .port = port, .post.run = on_post};
    uvhttp__list_init(&sched->ready);
    uvhttp__list_init(&sched->all);
    uvhttp__coro_stacks_init(&sched->stacks, budget, loop->counters);
    sched->timer_kind = uvhttp__wheel_kind(&loop->wheel, on_timer, sched);
    uvhttp__timer_init(&sched->trim_timer, sched->timer_kind);
}

void uvhttp__coro_sched_stop(uvhttp__coro_sched_t *sched) {
    sched->stopping = true;
    for (uvhttp__list_t *node = sched->all.next; node != &sched->all; node = node->next) {
        uvhttp_coro_t *coro = UVHTTP__CONTAINER_OF(node, uvhttp_coro_t, all_link);
        if (!coro->heeds_stop || coro->patient || coro->state != UVHTTP__CORO_WAITING) continue;
        coro->heeds_stop = false;
        uvhttp__coro_wake(coro, UVHTTP_E_STOPPING);
    }
}

void uvhttp__coro_sched_close(uvhttp__coro_sched_t *sched) {
    if (!sched->loop) return;
    sched->closing = true;
    for (uvhttp__list_t *node = sched->all.next; node != &sched->all; node = node->next)
        uvhttp__coro_cancel(UVHTTP__CONTAINER_OF(node, uvhttp_coro_t, all_link));
    while (uvhttp__coro_sched_due(sched)) run_batch(sched);
    assert(uvhttp__list_empty(&sched->all));
    uvhttp__timer_stop(&sched->loop->wheel, &sched->trim_timer);
    uvhttp__coro_stacks_deinit(&sched->stacks);
    sched->loop = NULL;
}

/* --- public --- */

bool uvhttp_coro_active(void) {
    return current != NULL;
}

int uvhttp_coro_wake_on_stop(void) {
    if (!current) return UVHTTP_E_STATE;
    current->heeds_stop = true;
    return UVHTTP_OK;
}

int uvhttp_coro_sleep(uint32_t ms) {
    int status = uvhttp__coro_may_wait(current);
    if (status != UVHTTP_OK || ms == 0) return status;
    status = uvhttp__coro_wait(current, ms);
    return status == UVHTTP_E_TIMEOUT ? UVHTTP_OK : status;
}

int uvhttp_coro_yield(void) {
    uvhttp_coro_t *coro = current;
    int status = uvhttp__coro_may_wait(coro);
    if (status != UVHTTP_OK) return status;
    /* In the next iteration, so that the network gets its share. */
    uvhttp__timer_set(&coro->sched->loop->wheel, &coro->timer, 0);
    status = park(coro);
    return status == UVHTTP_E_TIMEOUT ? UVHTTP_OK : status;
}

int uvhttp_coro_defer(void (*cleanup)(void *arg), void *arg) {
    uvhttp_coro_t *coro = current;
    if (!coro) return UVHTTP_E_STATE;
    if (!cleanup) return UVHTTP_E_INVALID;
    uvhttp__coro_cleanup_t *node = coro->cleanup_count < UVHTTP__CORO_CLEANUPS
                                       ? &coro->first_cleanups[coro->cleanup_count]
                                       : uvhttp__malloc(sizeof *node);
    if (!node) return UVHTTP_E_NOMEM;
    if (coro->cleanup_count < UVHTTP__CORO_CLEANUPS) coro->cleanup_count++;
    *node = (uvhttp__coro_cleanup_t){coro->cleanups, cleanup, arg};
    coro->cleanups = node;
    return UVHTTP_OK;
}

typedef struct blocking {
    uvhttp__job_t job;
    uvhttp_coro_t *coro;
    void (*run)(void *arg);
    void *arg;
    bool cancelled;
} blocking_t;

static void run_blocking(uvhttp__job_t *job) {
    const blocking_t *blocking = UVHTTP__CONTAINER_OF(job, blocking_t, job);
    blocking->run(blocking->arg);
}

static void blocking_done(uvhttp__job_t *job, bool cancelled) {
    blocking_t *blocking = UVHTTP__CONTAINER_OF(job, blocking_t, job);
    blocking->cancelled = cancelled;
    uvhttp__coro_wake(blocking->coro, UVHTTP_OK);
}

int uvhttp_coro_work(void (*run)(void *arg), void *arg) {
    uvhttp_coro_t *coro = current;
    if (!run) return UVHTTP_E_INVALID;
    int status = uvhttp__coro_may_wait_patiently(coro);
    if (status != UVHTTP_OK) return status;
    blocking_t blocking = {.job = {.run = run_blocking, .done = blocking_done}, .coro = coro, .run = run, .arg = arg};
    status = uvhttp__work_submit(coro->sched->port->work, coro->sched->port, &blocking.job);
    if (status != UVHTTP_OK) return status;
    (void)uvhttp__coro_wait_patiently(coro, UVHTTP_NEVER);
    return blocking.cancelled || coro->cancelled ? UVHTTP_E_ABORTED : UVHTTP_OK;
}
