/* Owns: channels: bounded queues between the coroutines of one loop. May include: io, base, obs. */
#include <string.h>

#include "base/alloc.h"
#include "exec/coro.h"

struct uvhttp_coro_channel {
    const uvhttp__coro_sched_t *sched; /* whose coroutines use it */
    uvhttp__list_t senders, receivers; /* that wait, by waiting_t.link */
    size_t item_size;
    uint32_t capacity, first, count;
    bool closed;
    char items[];
};

typedef struct waiting {
    uvhttp__list_t link;
    uvhttp_coro_t *coro;
} waiting_t;

int uvhttp_coro_channel_new(size_t item_size, uint32_t capacity, uvhttp_coro_channel_t **made) {
    if (!made) return UVHTTP_E_INVALID;
    *made = NULL;
    const uvhttp_coro_t *coro = uvhttp__coro_current();
    if (!coro) return UVHTTP_E_STATE;
    if (item_size == 0 || item_size > UVHTTP_CORO_ITEM_MAX || capacity == 0 || capacity > UVHTTP_CORO_CAPACITY_MAX)
        return UVHTTP_E_INVALID;
    uvhttp_coro_channel_t *channel = uvhttp__malloc(sizeof *channel + item_size * capacity);
    if (!channel) return UVHTTP_E_NOMEM;
    *channel = (uvhttp_coro_channel_t){.sched = coro->sched, .item_size = item_size, .capacity = capacity};
    uvhttp__list_init(&channel->senders);
    uvhttp__list_init(&channel->receivers);
    *made = channel;
    return UVHTTP_OK;
}

/* The one that has waited longest looks again. It leaves the list itself, so a second wake goes to the next. One whose
 * wait has failed was not woken for this, and one that was woken does not fail. */
static void wake_one(const uvhttp__list_t *list) {
    for (uvhttp__list_t *node = list->next; node != list; node = node->next) {
        uvhttp_coro_t *coro = UVHTTP__CONTAINER_OF(node, waiting_t, link)->coro;
        if (coro->state != UVHTTP__CORO_WAITING) continue;
        uvhttp__coro_wake(coro, UVHTTP_OK);
        return;
    }
}

static int wait_in(uvhttp__list_t *list, uvhttp_coro_t *coro, uint32_t timeout_ms) {
    int status = uvhttp__coro_may_wait(coro);
    if (status != UVHTTP_OK) return status;
    waiting_t waiting = {.coro = coro};
    uvhttp__list_init(&waiting.link);
    uvhttp__list_push_back(list, &waiting.link);
    status = uvhttp__coro_wait(coro, timeout_ms);
    uvhttp__list_remove(&waiting.link);
    return status;
}

static int check(const uvhttp_coro_channel_t *channel, const uvhttp_coro_t *coro, const void *item) {
    if (!channel || !item) return UVHTTP_E_INVALID;
    return coro && coro->sched == channel->sched ? UVHTTP_OK : UVHTTP_E_STATE;
}

static bool is_full(const uvhttp_coro_channel_t *channel) {
    return !channel->closed && channel->count == channel->capacity;
}

static bool is_empty(const uvhttp_coro_channel_t *channel) {
    return !channel->closed && channel->count == 0;
}

static uint32_t time_left(const uvhttp_coro_t *coro, uint64_t begun_ns, uint32_t timeout_ms) {
    uint64_t passed_ms = (coro->sched->loop->now_ns - begun_ns) / 1000000;
    return timeout_ms == UVHTTP_NEVER ? UVHTTP_NEVER : passed_ms < timeout_ms ? timeout_ms - (uint32_t)passed_ms : 0;
}

/* A coroutine that runs first may use what another one was woken for, which then waits for the rest of its time. */
static int await(const uvhttp_coro_channel_t *channel, uvhttp__list_t *list,
                 bool (*blocks)(const uvhttp_coro_channel_t *channel), uint32_t timeout_ms) {
    uvhttp_coro_t *coro = uvhttp__coro_current();
    const uint64_t begun_ns = coro->sched->loop->now_ns;
    while (blocks(channel)) {
        int status = wait_in(list, coro, time_left(coro, begun_ns, timeout_ms));
        if (status != UVHTTP_OK) return status;
    }
    return UVHTTP_OK;
}

int uvhttp_coro_channel_send(uvhttp_coro_channel_t *channel, const void *item, uint32_t timeout_ms) {
    int status = check(channel, uvhttp__coro_current(), item);
    if (status == UVHTTP_OK && is_full(channel)) status = await(channel, &channel->senders, is_full, timeout_ms);
    if (status != UVHTTP_OK) return status;
    if (channel->closed) return UVHTTP_E_CLOSED;
    uint32_t at = (channel->first + channel->count++) % channel->capacity;
    memcpy(channel->items + at * channel->item_size, item, channel->item_size);
    wake_one(&channel->receivers);
    return UVHTTP_OK;
}

int uvhttp_coro_channel_receive(uvhttp_coro_channel_t *channel, void *item, uint32_t timeout_ms) {
    int status = check(channel, uvhttp__coro_current(), item);
    if (status == UVHTTP_OK && is_empty(channel)) status = await(channel, &channel->receivers, is_empty, timeout_ms);
    if (status != UVHTTP_OK) return status;
    if (channel->count == 0) return UVHTTP_E_EOF;
    memcpy(item, channel->items + channel->first * channel->item_size, channel->item_size);
    channel->first = (channel->first + 1) % channel->capacity;
    channel->count--;
    wake_one(&channel->senders);
    return UVHTTP_OK;
}

int uvhttp_coro_channel_close(uvhttp_coro_channel_t *channel) {
    const uvhttp_coro_t *coro = uvhttp__coro_current();
    int status = check(channel, coro, channel);
    if (status != UVHTTP_OK) return status;
    channel->closed = true;
    for (const uvhttp__list_t *node = channel->senders.next; node != &channel->senders; node = node->next)
        wake_one(&channel->senders);
    for (const uvhttp__list_t *node = channel->receivers.next; node != &channel->receivers; node = node->next)
        wake_one(&channel->receivers);
    return UVHTTP_OK;
}

void uvhttp_coro_channel_free(uvhttp_coro_channel_t *channel) {
    if (!channel) return;
    assert(uvhttp__list_empty(&channel->senders) && uvhttp__list_empty(&channel->receivers));
    uvhttp__free(channel);
}
