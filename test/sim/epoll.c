/* Owns: epoll of the simulated kernel: sets, level- and edge-triggered events, in which order they are reported. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "kernel.h"

/* --- sets --- */

item_t *sim_set_find(epoll_set_t *set, int fd) {
    if (sim_is_simulated(fd)) {
        uint16_t place = set->places[fd - FD_FIRST];
        return place > 0 ? &set->items[place - 1] : NULL;
    }
    for (uint32_t i = 0; i < set->count; i++)
        if (set->items[i].fd == fd) return &set->items[i];
    return NULL;
}

static void set_place(epoll_set_t *set, int fd, uint32_t place) {
    if (sim_is_simulated(fd)) set->places[fd - FD_FIRST] = (uint16_t)place;
}

static item_t *add_item(epoll_set_t *set, int fd) {
    if (set->count == set->capacity) {
        set->capacity = set->capacity ? 2 * set->capacity : 64;
        set->items = realloc(set->items, set->capacity * sizeof *set->items);
        if (!set->items) abort();
    }
    set_place(set, fd, ++set->count);
    return &set->items[set->count - 1];
}

/* The last one gets its place. */
void sim_set_drop(epoll_set_t *set, int fd) {
    item_t *item = sim_set_find(set, fd);
    if (!item) return;
    *item = set->items[--set->count];
    set_place(set, item->fd, (uint32_t)(item - set->items) + 1);
    set_place(set, fd, 0);
}

void sim_set_free(epoll_set_t *set) {
    free(set->items);
    free(set);
}

static uint32_t events_of(const item_t *item) {
    uint32_t wanted = (item->events | EPOLLERR | EPOLLHUP) & ~(uint32_t)(EPOLLET | EPOLLONESHOT);
    uint32_t events = sim_events(item->fd) & wanted;
    bool is_old = (item->events & EPOLLET) && !item->edge;
    bool fires = sim_is_simulated(item->fd) && sim_find(item->fd, "epoll")->kind == TIMER;
    return is_old && !fires ? 0 : events;
}

bool sim_set_ready(const epoll_set_t *set) {
    for (uint32_t i = 0; i < set->count; i++)
        if (events_of(&set->items[i])) return true;
    return false;
}

/* --- what the server calls --- */

int __wrap_epoll_create1(int flags) {
    (void)flags;
    int fd = sim_descriptor_new(EPOLL);
    if (fd < 0) return fd;
    epoll_set_t *set = calloc(1, sizeof *set);
    if (!set) abort();
    sim_find(fd, "epoll_create1")->set = set;
    return fd;
}

int __wrap_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    epoll_set_t *set = sim_find(epoll, "epoll_ctl")->set;
    if (sim_is_simulated(fd)) (void)sim_find(fd, "epoll_ctl");
    item_t *item = sim_set_find(set, fd);
    if (operation == EPOLL_CTL_ADD ? item != NULL : item == NULL) {
        errno = operation == EPOLL_CTL_ADD ? EEXIST : ENOENT;
        return -1;
    }
    if (operation == EPOLL_CTL_DEL) {
        sim_set_drop(set, fd);
        return 0;
    }
    if (!item) item = add_item(set, fd);
    *item = (item_t){.fd = fd, .events = event->events, .data = event->data.u64, .edge = true};
    return 0;
}

/* The seed decides which events one call reports, and their order. */
static int take_events(epoll_set_t *set, struct epoll_event *events, int max) {
    static uint32_t ready[FD_MAX]; /* one thread runs at a time */
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count; i++)
        if (events_of(&set->items[i])) ready[count++] = i;
    uint32_t wanted = count > 1 && sim_one_in(&sim_kernel_random, 4) ? 1 + sim_below(&sim_kernel_random, count) : count;
    int reported = 0;
    for (; reported < max && (uint32_t)reported < wanted; reported++) {
        uint32_t at = (uint32_t)reported + sim_below(&sim_kernel_random, count - (uint32_t)reported);
        uint32_t chosen = ready[at];
        ready[at] = ready[reported];
        item_t *item = &set->items[chosen];
        events[reported] = (struct epoll_event){.events = events_of(item), .data.u64 = item->data};
        sim_trace("event", (uint64_t)item->fd, events[reported].events);
        item->edge = false;
        if (item->events & EPOLLONESHOT) item->events = 0;
        descriptor_t *it = sim_is_simulated(item->fd) ? sim_find(item->fd, "epoll_wait") : NULL;
        if (it && it->kind == TIMER) it->number = SIM_NEVER;
    }
    return reported;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms) {
    epoll_set_t *set = sim_find(fd, "epoll_wait")->set;
    sim_wait_fd(fd, timeout_ms < 0 ? SIM_NEVER : sim_now_ns + (uint64_t)timeout_ms * SIM_MS);
    if (sim_one_in(&sim_kernel_random, 256)) {
        errno = EINTR;
        return -1;
    }
    return take_events(set, events, max);
}
