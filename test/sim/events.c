/* Owns: event streams that jobs and timers send to, and what a client may make of them: the events of each sender, in
 * its order, and all of them if it is the one that has ended the stream. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvhttp.h>

#include "client.h"

typedef struct feed feed_t;

/* Who has a reference: a timer of the loop, or a job. */
typedef struct sender {
    feed_t *feed;
    uvhttp_timer_t timer;
    bool waits; /* for its timer */
    uint32_t number, sent;
} sender_t;

/* They last until the end of the run, so that a callback that comes too late is seen. */
struct feed {
    feed_t *next;
    uint32_t tag, count, ms;
    sim_random_t random;
    uvhttp_events_t *events;
    sender_t senders[SIM_SENDERS];
    atomic_uint references;
    atomic_int last; /* the sender that has ended the stream; -1: none has */
    bool opened, closed;
    bool dropped; /* the server has cut its client off, which was too slow */
};

static feed_t *all;

/* --- the handler --- */

static void release(feed_t *feed) {
    uvhttp_events_release(feed->events);
    feed->references--;
}

static void end(sender_t *sender) {
    feed_t *feed = sender->feed;
    sender->waits = false;
    bool ends = sim_one_in(&feed->random, 3);
    if (ends && uvhttp_events_close(feed->events) == UVHTTP_OK && !sim_failing) feed->last = (int)sender->number;
    release(feed);
}

/* False: it is refused. One that is sent counts before its client can have it. */
static bool send_one(sender_t *sender) {
    feed_t *feed = sender->feed;
    char text[40];
    int size = snprintf(text, sizeof text, "%x %u %u", feed->tag, sender->number, sender->sent++);
    bool closed = feed->closed;
    int status = uvhttp_events_send(feed->events, &(uvhttp_event_t){.data = {text, (size_t)size}});
    if (status != UVHTTP_OK) sender->sent--;
    if (status == UVHTTP_OK && closed) sim_fail("%x sends an event behind its end", feed->tag);
    return status == UVHTTP_OK;
}

static void on_timer(uvhttp_timer_t *timer, void *user) {
    sender_t *sender = user;
    feed_t *feed = sender->feed;
    if (sender->sent < feed->count && send_one(sender))
        (void)uvhttp_timer_start(timer, sim_below(&feed->random, feed->ms + 1), on_timer, sender);
    else
        end(sender);
}

static void on_job(void *user) {
    sender_t *sender = user;
    feed_t *feed = sender->feed;
    for (uint32_t i = 0; i < feed->count; i++) {
        uint32_t ms = sim_below(&feed->random, feed->ms + 1);
        if (ms) nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
        if (!send_one(sender)) break;
    }
    end(sender);
}

static void on_job_done(void *user, int status) {
    if (status == UVHTTP_E_WORK_CANCELLED) end(user);
}

/* Timers may not come any more: the loop may end. */
static void on_close(uvhttp_events_t *events, int status, void *user) {
    feed_t *feed = user;
    if (feed->closed) sim_fail("on_close of %x is called twice", feed->tag);
    if (feed->opened && events != feed->events) sim_fail("on_close of %x is called with others' events", feed->tag);
    feed->dropped = status == UVHTTP_E_LIMIT;
    bool without_memory = status == UVHTTP_E_NOMEM && sim_failing;
    if (status != UVHTTP_OK && status != UVHTTP_E_ABORTED && !feed->dropped && !without_memory)
        sim_fail("on_close of %x: %s", feed->tag, uvhttp_error_name(status));
    feed->closed = true;
    for (uint32_t i = 0; i < SIM_SENDERS; i++) {
        sender_t *sender = &feed->senders[i];
        if (!sender->waits) continue;
        uvhttp_timer_stop(&sender->timer);
        end(sender);
    }
}

static void start(feed_t *feed, uint32_t number) {
    sender_t *sender = &feed->senders[number];
    *sender = (sender_t){.feed = feed, .number = number};
    (void)uvhttp_events_retain(feed->events);
    feed->references++;
    if (sim_one_in(&feed->random, 2) && uvhttp_work(sim_server, on_job, on_job_done, sender) == UVHTTP_OK) return;
    sender->waits = true;
    (void)uvhttp_timer_start(&sender->timer, sim_below(&feed->random, feed->ms + 1), on_timer, sender);
}

static void on_events(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char tag[16];
    feed_t *feed = calloc(1, sizeof *feed);
    if (!feed) abort();
    *feed = (feed_t){.next = all, .tag = sim_request_number(req, "tag", 16), .last = -1};
    all = feed;
    feed->count = sim_request_number(req, "size", 10) % 12;
    feed->ms = sim_request_number(req, "ms", 10) / 8;
    feed->random = sim_random_of(feed->tag, 0x4b);
    uvhttp_events_options_t options = {.on_close = on_close, .user = feed, .queue_max = 1 << 20};
    options.heartbeat_ms =
        1 + (sim_one_in(&feed->random, 2) ? sim_below(&feed->random, 3) : sim_log_uniform(&feed->random, 5000));
    snprintf(tag, sizeof tag, "%x", feed->tag);
    if (uvhttp_response_header(res, "X-Tag", tag) != UVHTTP_OK) return;
    if (uvhttp_events_open(res, &options, &feed->events) != UVHTTP_OK) {
        (void)uvhttp_response_header_remove(res, "X-Tag");
        return;
    }
    feed->opened = true;
    feed->references = 1;
    for (uint32_t i = sim_below(&feed->random, SIM_SENDERS + 1); i > 0 && !feed->closed; i--) start(feed, i - 1);
    release(feed);
}

/* --- its client --- */

/* A line is empty, a comment, or the next event of a sender. */
static void take_line(const client_t *client, request_t *request) {
    sim_feed_t *feed = &request->feed;
    uint32_t tag, number, sent;
    feed->line[feed->size] = '\0';
    feed->size = 0;
    if (feed->line[0] == '\0' || strcmp(feed->line, ":") == 0) return;
    if (sscanf(feed->line, "data: %x %u %u", &tag, &number, &sent) != 3 || tag != request->tag || number >= SIM_SENDERS)
        sim_fail("client %u: the events of %x have the line %s", client->id, request->tag, feed->line);
    if (sent != feed->next[number]++)
        sim_fail("client %u: event %u of sender %u of %x is not the next", client->id, sent, number, request->tag);
}

void sim_events_take(const client_t *client, request_t *request, const char *data, size_t size) {
    sim_feed_t *feed = &request->feed;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '\n') {
            take_line(client, request);
            continue;
        }
        if (feed->size + 1u == sizeof feed->line)
            sim_fail("client %u: the events of %x have a long line", client->id, request->tag);
        feed->line[feed->size++] = data[i];
    }
}

static const feed_t *find(const request_t *request) {
    const feed_t *feed = all;
    while (feed && feed->tag != request->tag) feed = feed->next;
    return feed;
}

bool sim_events_are_dropped(const request_t *request) {
    const feed_t *feed = request->events ? find(request) : NULL;
    return feed && feed->dropped;
}

void sim_events_ended(const client_t *client, const request_t *request) {
    const feed_t *feed = find(request);
    if (!feed) sim_fail("client %u: %x has no events", client->id, request->tag);
    if (request->feed.size) sim_fail("client %u: the events of %x end in a line", client->id, request->tag);
    for (uint32_t i = 0; i < SIM_SENDERS; i++)
        if (request->feed.next[i] > feed->senders[i].sent)
            sim_fail("client %u: an event of %x was not sent", client->id, feed->tag);
    int last = feed->last;
    if (last >= 0 && !sim_clients_have_stopped() && !sim_failing &&
        request->feed.next[last] != feed->senders[last].sent)
        sim_fail("client %u: sender %d of %x has sent %u events and ended the stream, and %u have come", client->id,
                 last, feed->tag, feed->senders[last].sent, request->feed.next[last]);
}

/* --- life --- */

void sim_events_add(uvhttp_server_t *server) {
    uvhttp_get(server, "/events/:tag/:size/:ms", on_events, NULL);
}

void sim_events_check_end(void) {
    for (const feed_t *feed = all; feed; feed = feed->next) {
        if (feed->opened && !feed->closed) sim_fail("on_close of %x is never called", feed->tag);
        if (feed->references) sim_fail("events of %x have %u references", feed->tag, (unsigned)feed->references);
    }
}

void sim_events_forget(void) {
    for (feed_t *next; all; all = next) {
        next = all->next;
        free(all);
    }
}
