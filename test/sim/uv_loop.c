/* Owns: the simulated libuv loop of an application, of which a server may be a guest. It does what libuv 1.40 to 1.51
 * do, as far as the order of callbacks shows: a handle that was started last is called first, what a callback starts is
 * called in the next iteration, descriptors are polled from the next poll on, closing handles are called last, and the
 * newest first. Timers run in front of the rest, or, as from 1.45 on, behind it. Its descriptors, its clock and its
 * waits are the simulated kernel's. */
#include "uv_loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "kernel.h"

enum { EVENTS_MAX = 64 };

typedef struct record {
    uvhttp__list_t all, link; /* link: of those that are active, or that are closing */
    uv_handle_t *handle;
    uv_handle_type type;
    bool active, unreferenced, closing;
    uv_close_cb on_closed;
    union {
        void (*any)(uv_handle_t *handle);
        uv_poll_cb poll;
        uv_timer_cb timer;
        uv_async_cb async;
    } cb;
    int fd; /* of a poll */
    int events;
    bool polled;                       /* it is in the set */
    bool sent;                         /* an async */
    uint64_t at_ms, repeat_ms, number; /* of a timer */
} record_t;

static struct {
    uv_loop_t *loop; /* NULL: there is none */
    uvhttp__list_t all, timers, idle, prepare, check, closing;
    int set, wake; /* descriptors */
    uint64_t now_ms, timers_started;
    uint32_t coarse_ns; /* when, in each millisecond, its clock moves */
    bool late_timers;   /* from 1.45 on */
    bool stopped;
} uv;

void (*sim_uv_iterated)(void);

static record_t *record_of(const uv_handle_t *handle) {
    record_t *it = handle->u.reserved[3];
    if (!it || it->handle != handle) sim_fail("libuv is called with a handle that is not open");
    return it;
}

static uvhttp__list_t *list_of(const record_t *it) {
    switch (it->type) {
        case UV_TIMER: return &uv.timers;
        case UV_IDLE: return &uv.idle;
        case UV_PREPARE: return &uv.prepare;
        default: return &uv.check;
    }
}

/* --- handles --- */

void sim_uv_init(uv_handle_t *handle, uv_handle_type type, int fd) {
    record_t *it = calloc(1, sizeof *it);
    if (!it) abort();
    *it = (record_t){.handle = handle, .type = type, .fd = fd};
    uvhttp__list_init(&it->all);
    uvhttp__list_init(&it->link);
    uvhttp__list_push_back(&uv.all, &it->all);
    handle->loop = uv.loop;
    handle->type = type;
    handle->u.reserved[3] = it;
}

static record_t *starting(uv_handle_t *handle) {
    record_t *it = record_of(handle);
    if (it->closing) sim_fail("libuv: a handle of type %d is started while it closes", it->type);
    return it;
}

void sim_uv_start(uv_handle_t *handle, void (*cb)(uv_handle_t *handle)) {
    record_t *it = starting(handle);
    if (it->active) return;
    it->active = true;
    it->cb.any = cb;
    uvhttp__list_push_front(list_of(it), &it->link);
}

void sim_uv_start_poll(uv_poll_t *handle, int events, uv_poll_cb cb) {
    record_t *it = starting((uv_handle_t *)handle);
    it->active = true;
    it->events = events;
    it->cb.poll = cb;
}

void sim_uv_start_timer(uv_timer_t *handle, uv_timer_cb cb, uint64_t timeout_ms, uint64_t repeat_ms) {
    record_t *it = starting((uv_handle_t *)handle);
    uvhttp__list_remove(&it->link);
    it->active = true;
    it->cb.timer = cb;
    it->at_ms = uv.now_ms + timeout_ms;
    it->repeat_ms = repeat_ms;
    it->number = uv.timers_started++;
    uvhttp__list_push_back(&uv.timers, &it->link);
}

void sim_uv_set_async(uv_async_t *handle, uv_async_cb cb) {
    record_t *it = record_of((uv_handle_t *)handle);
    it->active = true;
    it->cb.async = cb;
}

/* Any thread. */
void sim_uv_send(uv_async_t *handle) {
    record_t *it = record_of((uv_handle_t *)handle);
    if (it->sent) return;
    it->sent = true;
    (void)!write(uv.wake, &(uint64_t){1}, sizeof(uint64_t));
}

static void stop_polling(record_t *it) {
    if (it->polled) (void)epoll_ctl(uv.set, EPOLL_CTL_DEL, it->fd, NULL);
    it->polled = false;
}

void sim_uv_stop(uv_handle_t *handle) {
    record_t *it = record_of(handle);
    if (!it->closing) uvhttp__list_remove(&it->link);
    it->active = false;
    stop_polling(it);
}

void sim_uv_close(uv_handle_t *handle, uv_close_cb on_closed) {
    record_t *it = record_of(handle);
    if (it->closing) sim_fail("libuv: a handle of type %d is closed twice", it->type);
    sim_uv_stop(handle);
    it->closing = true;
    it->on_closed = on_closed;
    uvhttp__list_push_front(&uv.closing, &it->link);
}

void sim_uv_reference(uv_handle_t *handle, bool referenced) {
    record_of(handle)->unreferenced = !referenced;
}

bool sim_uv_is_closing(const uv_handle_t *handle) {
    return record_of(handle)->closing;
}

uint32_t sim_uv_handle_count(void) {
    uint32_t count = 0;
    for (const uvhttp__list_t *at = uv.all.next; at != &uv.all; at = at->next) count++;
    return count;
}

/* --- time --- */

uint64_t sim_uv_now(void) {
    return uv.now_ms;
}

/* CLOCK_MONOTONIC_COARSE, if it moves once in a millisecond. */
void sim_uv_update_time(void) {
    sim_now_ns += 100;
    uv.now_ms = (sim_now_ns - (sim_now_ns - uv.coarse_ns) % SIM_MS) / SIM_MS;
}

static record_t *first_timer(void) {
    record_t *first = NULL;
    for (uvhttp__list_t *at = uv.timers.next; at != &uv.timers; at = at->next) {
        record_t *it = UVHTTP__CONTAINER_OF(at, record_t, link);
        if (!first || it->at_ms < first->at_ms || (it->at_ms == first->at_ms && it->number < first->number)) first = it;
    }
    return first;
}

bool sim_uv_alive(void) {
    if (!uvhttp__list_empty(&uv.closing)) return true;
    for (const uvhttp__list_t *at = uv.all.next; at != &uv.all; at = at->next) {
        const record_t *it = UVHTTP__CONTAINER_OF(at, record_t, all);
        if (it->active && !it->unreferenced) return true;
    }
    return false;
}

int sim_uv_backend_timeout(void) {
    if (uv.stopped || !sim_uv_alive() || !uvhttp__list_empty(&uv.idle) || !uvhttp__list_empty(&uv.closing)) return 0;
    const record_t *first = first_timer();
    if (!first) return -1;
    return first->at_ms <= uv.now_ms ? 0 : (int)(first->at_ms - uv.now_ms);
}

/* --- phases --- */

/* From 1.45 on, those only that are due when it begins. */
static void run_timers(void) {
    uint64_t end = uv.late_timers ? uv.timers_started : UINT64_MAX;
    for (record_t *it; (it = first_timer()) != NULL && it->at_ms <= uv.now_ms && it->number < end;) {
        uv_timer_t *timer = (uv_timer_t *)it->handle;
        uvhttp__list_remove(&it->link);
        it->active = false;
        if (it->repeat_ms > 0) sim_uv_start_timer(timer, it->cb.timer, it->repeat_ms, it->repeat_ms);
        it->cb.timer(timer);
    }
}

static void run(uvhttp__list_t *list) {
    uvhttp__list_t due;
    uvhttp__list_init(&due);
    uvhttp__list_splice(&due, list);
    for (uvhttp__list_t *at; (at = uvhttp__list_pop_front(&due));) {
        record_t *it = UVHTTP__CONTAINER_OF(at, record_t, link);
        uvhttp__list_push_back(list, at);
        it->cb.any(it->handle);
    }
}

static void run_asyncs(void) {
    uint64_t number;
    (void)!read(uv.wake, &number, sizeof number);
    for (uvhttp__list_t *at = uv.all.next; at != &uv.all; at = at->next) {
        record_t *it = UVHTTP__CONTAINER_OF(at, record_t, all);
        if (it->type != UV_ASYNC || !it->sent || it->closing) continue;
        it->sent = false;
        it->cb.async((uv_async_t *)it->handle); /* frees no record: that is for the end of the iteration */
    }
}

static void begin_to_poll(void) {
    for (uvhttp__list_t *at = uv.all.next; at != &uv.all; at = at->next) {
        record_t *it = UVHTTP__CONTAINER_OF(at, record_t, all);
        if (it->type != UV_POLL || !it->active || it->polled) continue;
        struct epoll_event event = {.events = (uint32_t)it->events, .data.u64 = (uint64_t)it->fd};
        if (epoll_ctl(uv.set, EPOLL_CTL_ADD, it->fd, &event) != 0) sim_fail("libuv: descriptor %d: %d", it->fd, errno);
        it->polled = true;
    }
}

/* An earlier callback may have stopped it. */
static void run_poll(int fd, uint32_t events) {
    for (uvhttp__list_t *at = uv.all.next; at != &uv.all; at = at->next) {
        record_t *it = UVHTTP__CONTAINER_OF(at, record_t, all);
        if (it->type != UV_POLL || it->fd != fd || !it->polled) continue;
        it->cb.poll((uv_poll_t *)it->handle, 0, (int)(events & (uint32_t)it->events));
        return;
    }
}

/* Until something is ready or the time is over. A signal ends no wait. */
static void poll_for(int timeout_ms) {
    struct epoll_event events[EVENTS_MAX];
    begin_to_poll();
    sim_rings_check_guests(timeout_ms != 0);
    uint64_t end_ms = timeout_ms < 0 ? UINT64_MAX : uv.now_ms + (uint64_t)timeout_ms;
    for (;;) {
        int count = epoll_wait(uv.set, events, EVENTS_MAX, timeout_ms);
        sim_uv_update_time();
        for (int i = 0; i < count; i++) {
            if ((int)events[i].data.u64 == uv.wake)
                run_asyncs();
            else
                run_poll((int)events[i].data.u64, events[i].events);
        }
        if (count > 0 || end_ms <= uv.now_ms) return;
        if (timeout_ms > 0) timeout_ms = (int)(end_ms - uv.now_ms);
    }
}

static void run_closing(void) {
    uvhttp__list_t due;
    uvhttp__list_init(&due);
    uvhttp__list_splice(&due, &uv.closing);
    for (uvhttp__list_t *at; (at = uvhttp__list_pop_front(&due));) {
        record_t *it = UVHTTP__CONTAINER_OF(at, record_t, link);
        uv_handle_t *handle = it->handle;
        uv_close_cb on_closed = it->on_closed;
        uvhttp__list_remove(&it->all);
        handle->u.reserved[3] = NULL;
        free(it);
        if (on_closed) on_closed(handle);
    }
}

static void iterate(uv_run_mode mode) {
    if (!uv.late_timers) {
        sim_uv_update_time();
        run_timers();
    }
    run(&uv.idle);
    run(&uv.prepare);
    poll_for(mode == UV_RUN_NOWAIT ? 0 : sim_uv_backend_timeout());
    run(&uv.check);
    run_closing();
    if (uv.late_timers || mode == UV_RUN_ONCE) {
        sim_uv_update_time();
        run_timers();
    }
    if (sim_uv_iterated) sim_uv_iterated();
}

int sim_uv_run(uv_run_mode mode) {
    bool alive = sim_uv_alive();
    if (!alive) sim_uv_update_time();
    if (uv.late_timers && mode == UV_RUN_DEFAULT && alive && !uv.stopped) {
        sim_uv_update_time();
        run_timers();
    }
    while (alive && !uv.stopped) {
        iterate(mode);
        alive = sim_uv_alive();
        if (mode != UV_RUN_DEFAULT) break;
    }
    uv.stopped = false;
    return alive;
}

void sim_uv_break(void) {
    uv.stopped = true;
}

/* --- life --- */

bool sim_uv_is_simulated(const uv_loop_t *loop) {
    return loop && loop == uv.loop;
}

void sim_uv_loop_open(uv_loop_t *loop, uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x94);
    uv.loop = loop;
    uvhttp__list_t *lists[] = {&uv.all, &uv.timers, &uv.idle, &uv.prepare, &uv.check, &uv.closing};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) uvhttp__list_init(lists[i]);
    uv.set = epoll_create1(EPOLL_CLOEXEC);
    uv.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)uv.wake};
    if (epoll_ctl(uv.set, EPOLL_CTL_ADD, uv.wake, &event) != 0) sim_fail("a libuv loop cannot be made");
    uv.timers_started = 0;
    uv.coarse_ns = sim_one_in(&random, 2) ? 0 : sim_below(&random, SIM_MS);
    uv.late_timers = sim_one_in(&random, 2);
    uv.stopped = false;
    sim_uv_update_time();
}

int sim_uv_loop_close(void) {
    if (!uvhttp__list_empty(&uv.all)) return UV_EBUSY;
    (void)close(uv.set);
    (void)close(uv.wake);
    uv.loop = NULL;
    return 0;
}
