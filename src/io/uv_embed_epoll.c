/* Owns: the epoll engine in a libuv loop of the application, which polls the set of io_epoll.c as one descriptor. May
 * include: base, obs, io. */
#include "io/io_epoll.h"
#include "io/uv_embed.h"

#define HANDLE_COUNT 4 /* that are closed with it */

/* One iteration of the embedding loop is one iteration here. It starts with the first of our callbacks after polling,
 * and ends in uv_prepare: after all polling, check, timer and idle handles of the application. */
static void guest_enter(uvhttp__epoll_t *epoll) {
    if (epoll->in_iteration) return;
    epoll->in_iteration = true;
    uvhttp__iteration_begin(&epoll->loop);
}

static void guest_leave(uvhttp__epoll_t *epoll) {
    guest_enter(epoll);
    uvhttp__iteration_settle(&epoll->loop);
    uvhttp__iteration_end(&epoll->loop);
    epoll->in_iteration = false;
}

static void guest_on_timer(uv_timer_t *timer) {
    uvhttp__epoll_t *epoll = timer->data;
    epoll->loop.timer_tick = UINT64_MAX;
    guest_enter(epoll); /* the end of the iteration, in the next uv_prepare, checks the wheel */
}

static void guest_idle(uv_idle_t *idle) {
    (void)idle; /* that it is active is what counts: libuv polls without waiting */
}

static void guest_check(uv_check_t *check) {
    guest_enter(check->data);
}

static void guest_prepare(uv_prepare_t *prepare) {
    uvhttp__epoll_t *epoll = prepare->data;
    uvhttp__uv_embed_enter(&epoll->loop);
    guest_leave(epoll);
    uvhttp__uv_embed_leave(&epoll->loop);
    if (epoll->freeing) return; /* the handles are closing: nothing may be started again */
    uvhttp__uv_embed_arm_timer(&epoll->loop, &epoll->timer, guest_on_timer);
    if (uvhttp__iteration_pending(&epoll->loop)) {
        uv_idle_start(&epoll->idle, guest_idle);
    } else {
        uv_idle_stop(&epoll->idle);
    }
}

static void guest_on_readable(void *arg) {
    uvhttp__epoll_t *epoll = arg;
    uvhttp__uv_embed_enter(&epoll->loop);
    guest_enter(epoll);
    uvhttp__fd_set_poll(epoll->loop.waited, 0);
    if (__builtin_expect(epoll->refusals.count > 0 || epoll->loop.waited->error, 0))
        uvhttp__epoll_look_at_refusal(epoll);
    uvhttp__epoll_drain(epoll);
    uvhttp__uv_embed_leave(&epoll->loop);
}

/* Only uvhttp__fd_set_poll_by_uv can fail: it comes first, so that there is nothing to unwind. */
int uvhttp__uv_embed_epoll_start(uvhttp__epoll_t *epoll, uv_loop_t *embedding) {
    epoll->loop.uv = embedding;
    int status = uvhttp__fd_set_poll_by_uv(epoll->loop.waited, guest_on_readable, epoll);
    if (status != UVHTTP_OK) return status;
    uv_prepare_init(embedding, &epoll->prepare);
    uv_check_init(embedding, &epoll->check);
    uv_idle_init(embedding, &epoll->idle);
    uv_timer_init(embedding, &epoll->timer);
    epoll->prepare.data = epoll->check.data = epoll->idle.data = epoll->timer.data = epoll;
    uv_prepare_start(&epoll->prepare, guest_prepare);
    uv_check_start(&epoll->check, guest_check);
    /* Only the prepare handle keeps the embedding loop alive, until uvhttp__loop_free: no other handle needs a
     * reference. */
    uv_unref((uv_handle_t *)&epoll->check);
    uv_unref((uv_handle_t *)&epoll->idle);
    uv_unref((uv_handle_t *)&epoll->timer);
    epoll->handles_open = HANDLE_COUNT;
    return UVHTTP_OK;
}

static void guest_on_closed(uv_handle_t *handle) {
    uvhttp__epoll_t *epoll = handle->data;
    if (--epoll->handles_open > 0) return;
    guest_leave(epoll);
    uvhttp__loop_run_posts(&epoll->loop); /* messages posted by this iteration's messages */
    void (*on_freed)(void *) = epoll->on_freed;
    void *arg = epoll->freed_arg;
    uvhttp__epoll_free(epoll);
    if (on_freed) on_freed(arg);
}

void uvhttp__uv_embed_epoll_free(uvhttp__epoll_t *epoll, void (*on_freed)(void *arg), void *arg) {
    epoll->freeing = true;
    epoll->on_freed = on_freed;
    epoll->freed_arg = arg;
    uv_close((uv_handle_t *)&epoll->prepare, guest_on_closed);
    uv_close((uv_handle_t *)&epoll->check, guest_on_closed);
    uv_close((uv_handle_t *)&epoll->idle, guest_on_closed);
    uv_close((uv_handle_t *)&epoll->timer, guest_on_closed);
}
