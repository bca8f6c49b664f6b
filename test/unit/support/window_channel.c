/* Owns: see window_channel.h. */
#include "support/window_channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/error.h>

/* Also on the thread of a loop, where cmocka's assertions must not be. */
#define WINDOW_REQUIRE(condition)                                                                                      \
    do {                                                                                                               \
        if (condition) break;                                                                                          \
        fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition);                                            \
        abort();                                                                                                       \
    } while (0)

typedef struct window_segment {
    struct window_segment *next;
    const char *data;
    size_t size;
    void (*release)(void *arg); /* NULL: the bytes stand behind */
    void *arg;
    char copy[];
} window_segment_t;

static window_channel_t *window_of(const uvhttp__channel_t *channel) {
    return (window_channel_t *)(uintptr_t)((const char *)channel - offsetof(window_channel_t, channel));
}

/* --- the queue --- */

static void window_take(window_channel_t *it, size_t size) {
    window_segment_t *segment = it->first;
    segment->data += size;
    segment->size -= size;
    it->queued -= size;
    if (segment->size > 0) return;
    it->first = segment->next;
    if (!it->first) it->last = &it->first;
    if (segment->release) segment->release(segment->arg);
    free(segment);
}

static void window_drop(window_channel_t *it) {
    while (it->first) window_take(it, it->first->size);
}

static int window_may_send(window_channel_t *it, size_t size, uvhttp__channel_capacity_t capacity) {
    if (it->finishing || it->ended) return UVHTTP_E_CLOSED;
    if (it->scarce_at > 0 && --it->scarce_at == 0) return UVHTTP_E_NOMEM;
    return it->queued + size > capacity.queue_max ? UVHTTP_E_LIMIT : UVHTTP_OK;
}

static window_segment_t *window_segment_new(size_t size) {
    window_segment_t *segment = malloc(sizeof *segment + size);
    if (!segment) abort();
    *segment = (window_segment_t){.data = segment->copy, .size = size};
    return segment;
}

static int window_queue(window_channel_t *it, window_segment_t *segment, uvhttp__channel_capacity_t capacity) {
    *it->last = segment;
    it->last = &segment->next;
    it->queued += segment->size;
    if (it->queued <= capacity.high_watermark) return UVHTTP_OK;
    it->pressed = true;
    return UVHTTP_E_AGAIN;
}

/* --- operations --- */

static int window_send(uvhttp__channel_t *channel, const uvhttp__channel_parts_t *parts,
                       uvhttp__channel_capacity_t capacity) {
    window_channel_t *it = window_of(channel);
    int status = window_may_send(it, parts->head_size + parts->size, capacity);
    if (status != UVHTTP_OK) return status;
    window_segment_t *segment = window_segment_new(parts->head_size + parts->size);
    memcpy(segment->copy, parts->head, parts->head_size);
    if (parts->size > 0) memcpy(segment->copy + parts->head_size, parts->data, parts->size);
    return window_queue(it, segment, capacity);
}

/* What may outlast the iteration is copied. */
static int window_send_iteration(uvhttp__channel_t *channel, const char *data, size_t size,
                                 uvhttp__channel_capacity_t capacity) {
    return window_send(channel, &(uvhttp__channel_parts_t){.head = data, .head_size = size}, capacity);
}

static int window_send_reference(uvhttp__channel_t *channel, uvhttp_str_t data, void (*release)(void *arg), void *arg,
                                 uvhttp__channel_capacity_t capacity) {
    window_channel_t *it = window_of(channel);
    int status = window_may_send(it, data.size, capacity);
    if (status != UVHTTP_OK) {
        release(arg);
        return status;
    }
    window_segment_t *segment = window_segment_new(0);
    *segment = (window_segment_t){.data = data.data, .size = data.size, .release = release, .arg = arg};
    return window_queue(it, segment, capacity);
}

static size_t window_queued(const uvhttp__channel_t *channel) {
    return window_of(channel)->queued;
}

static void window_check_output(uvhttp__channel_t *channel) {
    window_of(channel)->checks++;
}

static bool window_has_share(const window_channel_t *it) {
    return it->spent < it->share;
}

static bool window_spend(uvhttp__channel_t *channel, uint32_t *requests) {
    window_channel_t *it = window_of(channel);
    uint32_t left = it->share - it->spent, counted = *requests < left ? *requests : left;
    it->spent += counted;
    *requests -= counted;
    return window_has_share(it);
}

static void window_pause(uvhttp__channel_t *channel) {
    window_of(channel)->paused = true;
}

static void window_resume(uvhttp__channel_t *channel) {
    window_of(channel)->paused = false;
}

static void window_set_deadline(uvhttp__channel_t *channel, uint64_t at_ms) {
    window_of(channel)->deadline_ms = at_ms;
}

static void window_finish(uvhttp__channel_t *channel) {
    window_of(channel)->finishing = true;
}

void window_end(window_channel_t *it, int status) {
    if (it->ended) return;
    it->cut = it->ended = true;
    it->close_status = status;
    window_drop(it);
}

static void window_reset(uvhttp__channel_t *channel) {
    window_end(window_of(channel), UVHTTP_OK);
}

static int window_peer(uvhttp__channel_t *channel, char *text, size_t size) {
    (void)channel;
    WINDOW_REQUIRE(size >= sizeof WINDOW_PEER);
    memcpy(text, WINDOW_PEER, sizeof WINDOW_PEER);
    return UVHTTP_OK;
}

static const uvhttp__channel_ops_t window_ops = {.send = window_send,
                                                 .send_iteration = window_send_iteration,
                                                 .send_reference = window_send_reference,
                                                 .queued = window_queued,
                                                 .check_output = window_check_output,
                                                 .spend = window_spend,
                                                 .pause = window_pause,
                                                 .resume = window_resume,
                                                 .set_deadline = window_set_deadline,
                                                 .finish = window_finish,
                                                 .reset = window_reset,
                                                 .peer = window_peer};

/* --- the peer, and time --- */

void window_init(window_channel_t *it, uvhttp__loop_t *loop, const uvhttp__channel_events_t *events, void *user) {
    *it = (window_channel_t){.channel = {.ops = &window_ops, .events = events, .user = user, .loop = loop},
                             .deadline_ms = UINT64_MAX,
                             .share = UINT32_MAX};
    it->last = &it->first;
    events->on_open(&it->channel);
}

void window_deinit(window_channel_t *it) {
    WINDOW_REQUIRE(it->gone && !it->first);
    free(it->wire);
    free(it->kept);
}

static bool window_is_open(const window_channel_t *it) {
    return !it->finishing && !it->ended;
}

/* What is delivered ends where its memory does. */
static void window_deliver(window_channel_t *it) {
    while (it->kept_size > 0 && !it->paused && window_is_open(it) && window_has_share(it)) {
        char *data = it->kept;
        size_t size = it->kept_size;
        it->kept = NULL;
        it->kept_size = 0;
        size_t consumed = it->channel.events->on_data(&it->channel, data, size);
        WINDOW_REQUIRE(consumed == size || it->paused || !window_is_open(it) || !window_has_share(it));
        if (consumed < size) {
            it->kept_size = size - consumed;
            it->kept = malloc(it->kept_size);
            if (!it->kept) abort();
            memcpy(it->kept, data + consumed, it->kept_size);
        }
        free(data);
    }
}

void window_receive(window_channel_t *it, const void *data, size_t size) {
    it->kept = realloc(it->kept, it->kept_size + size);
    if (!it->kept) abort();
    memcpy(it->kept + it->kept_size, data, size);
    it->kept_size += size;
    window_deliver(it);
}

static void window_write(window_channel_t *it) {
    while (it->first && it->window > 0) {
        size_t size = it->first->size < it->window ? it->first->size : (size_t)it->window;
        it->wire = realloc(it->wire, it->wire_size + size);
        if (!it->wire) abort();
        memcpy(it->wire + it->wire_size, it->first->data, size);
        it->wire_size += size;
        it->window -= size;
        window_take(it, size);
    }
}

void window_iterate(window_channel_t *it) {
    if (it->gone) return;
    it->spent = 0;
    window_write(it);
    if (it->pressed && it->queued == 0 && window_is_open(it)) {
        it->pressed = false;
        it->channel.events->on_drain(&it->channel);
    }
    window_deliver(it);
    if (it->ended || (it->finishing && it->queued == 0)) {
        it->gone = it->ended = true;
        it->channel.events->on_close(&it->channel, it->close_status);
    }
}

void window_allow(window_channel_t *it, uint64_t size) {
    it->window += size;
    window_iterate(it);
}

void window_expire(window_channel_t *it, uint64_t ms) {
    it->channel.loop->now_ms += ms;
    if (!window_is_open(it) || it->deadline_ms > it->channel.loop->now_ms) return;
    it->deadline_ms = UINT64_MAX;
    it->channel.events->on_timer(&it->channel);
}
