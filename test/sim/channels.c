/* Owns: handlers in coroutines that use channels: between coroutines of one request, and between all requests of a
 * loop, which share one. Each channel has a model that knows its items exactly, for only one coroutine of a loop runs
 * at a time; and so every result of a call is known, when it is due, and which item comes. */
#include <pthread.h>
#include <stdlib.h>
#include <uvhttp.h>

#include "client.h"

enum {
    CAPACITY_MAX = 8,
    CHILDREN_MAX = 6,
    LATE_MS = 5,         /* of a wait that is over */
    BUSY_LATE_MS = 500,  /* of a loop that an application blocks, or whose kernel refuses what it submits */
    CONTENT = 0x10000000 /* of tags */
};

/* It lasts as long as one of its users. */
typedef struct channel {
    uvhttp_coro_channel_t *real;
    pthread_t thread; /* of its loop */
    uint32_t users, capacity, item_size;
    uint32_t first, count, made; /* made: items, sent or not */
    uint32_t items[CAPACITY_MAX];
    uint64_t sent_ns[CAPACITY_MAX];
    uint64_t space_ns; /* when it was full last */
    uint64_t sent, received;
    bool closed;
} channel_t;

static uint32_t channels_open, users_open;
static _Thread_local channel_t *shared; /* by the requests of this loop */
static channel_t *foreign;              /* of some loop */

/* --- channels --- */

static channel_t *channel_new(sim_random_t *random) {
    channel_t *channel = calloc(1, sizeof *channel);
    if (!channel) abort();
    channel->thread = pthread_self();
    channel->capacity = 1 + sim_below(random, sim_one_in(random, 3) ? CAPACITY_MAX : 2);
    channel->item_size = sim_one_in(random, 8) ? UVHTTP_CORO_ITEM_MAX : sim_log_uniform(random, 100);
    uvhttp_coro_channel_t *bad;
    if (uvhttp_coro_channel_new(channel->item_size, 0, &bad) != UVHTTP_E_INVALID || bad)
        sim_fail("a channel without capacity");
    int status = uvhttp_coro_channel_new(channel->item_size, channel->capacity, &channel->real);
    if (status == UVHTTP_OK) {
        channel->users = 1;
        channels_open++;
        return channel;
    }
    if (!sim_failing || channel->real) sim_fail("no channel: %s", uvhttp_error_name(status));
    free(channel);
    return NULL;
}

static void leave(channel_t *channel) {
    if (--channel->users > 0) return;
    if (channel->sent != channel->received + channel->count) sim_fail("a channel has lost items");
    if (shared == channel) shared = NULL;
    if (foreign == channel) foreign = NULL;
    uvhttp_coro_channel_free(channel->real);
    free(channel);
    channels_open--;
}

static uint32_t content_of(const channel_t *channel, uint32_t item) {
    return CONTENT + (channel->item_size << 16) + (item & 0xffff);
}

/* --- calls --- */

static uint64_t ms_since(uint64_t ns) {
    return (sim_now_ns - ns) / SIM_MS;
}

static uint32_t late_ms(void) {
    return sim_is_guest || sim_kernel_is_excused() ? BUSY_LATE_MS : LATE_MS;
}

/* The time of a call that has waited until it could do what it does since `possible_ns`. */
static void check_prompt(const char *what, uint64_t begun_ns, uint64_t possible_ns) {
    uint64_t since_ns = begun_ns > possible_ns ? begun_ns : possible_ns;
    if (ms_since(since_ns) > late_ms())
        sim_fail("a coroutine that could %s waits %llu ms longer", what, (unsigned long long)ms_since(since_ns));
}

/* ready: it had nothing to wait for. done: its channel is closed, and nothing is left for it. */
static void check_failure(const char *what, int status, uint64_t begun_ns, uint32_t timeout_ms, bool ready, bool done) {
    uint64_t ms = ms_since(begun_ns);
    bool ends = status == UVHTTP_E_CLOSED || status == UVHTTP_E_EOF;
    if (ready) sim_fail("a coroutine that could %s has %s", what, uvhttp_error_name(status));
    if (ends && !done) sim_fail("a coroutine has %s of a channel that has no end", uvhttp_error_name(status));
    if (status == UVHTTP_E_TIMEOUT && (timeout_ms == UVHTTP_NEVER || ms + late_ms() < timeout_ms))
        sim_fail("a wait of %u ms to %s is over after %llu ms", timeout_ms, what, (unsigned long long)ms);
    if (timeout_ms != UVHTTP_NEVER && ms > timeout_ms + late_ms())
        sim_fail("a wait of %u ms to %s is over after %llu ms", timeout_ms, what, (unsigned long long)ms);
    bool known = ends || status == UVHTTP_E_TIMEOUT || status == UVHTTP_E_ABORTED || status == UVHTTP_E_STOPPING;
    if (!known && !(sim_failing && status == UVHTTP_E_NOMEM))
        sim_fail("a coroutine that wants to %s has %s", what, uvhttp_error_name(status));
}

static int send_item(channel_t *channel, uint32_t timeout_ms) {
    const uint32_t item = ++channel->made;
    const uint64_t begun_ns = sim_now_ns;
    const bool ready = !channel->closed && channel->count < channel->capacity;
    char *data = malloc(channel->item_size);
    if (!data) abort();
    sim_fill(data, content_of(channel, item), 0, channel->item_size);
    int status = uvhttp_coro_channel_send(channel->real, data, timeout_ms);
    free(data);
    sim_trace("channel sends", item, (uint64_t)-status);
    if (status != UVHTTP_OK) {
        check_failure("send", status, begun_ns, timeout_ms, ready, channel->closed);
        return status;
    }
    if (channel->closed) sim_fail("an item is sent to a channel that is closed");
    if (channel->count == channel->capacity) sim_fail("a channel has more items than its capacity");
    check_prompt("send", begun_ns, channel->space_ns);
    uint32_t at = (channel->first + channel->count++) % channel->capacity;
    channel->items[at] = item;
    channel->sent_ns[at] = sim_now_ns;
    if (channel->count == channel->capacity) channel->space_ns = SIM_NEVER;
    channel->sent++;
    return UVHTTP_OK;
}

static void check_item(channel_t *channel, const char *data, uint64_t begun_ns) {
    if (channel->count == 0) sim_fail("an item comes of an empty channel");
    uint32_t tag = content_of(channel, channel->items[channel->first]);
    if (sim_mismatch(data, tag, 0, channel->item_size) < channel->item_size)
        sim_fail("the item that comes of a channel is not its oldest one");
    check_prompt("receive", begun_ns, channel->sent_ns[channel->first]);
    channel->first = (channel->first + 1) % channel->capacity;
    if (channel->count-- == channel->capacity) channel->space_ns = sim_now_ns;
    channel->received++;
}

static int receive_item(channel_t *channel, uint32_t timeout_ms) {
    const uint64_t begun_ns = sim_now_ns;
    const bool ready = channel->count > 0;
    char *data = malloc(channel->item_size);
    if (!data) abort();
    int status = uvhttp_coro_channel_receive(channel->real, data, timeout_ms);
    sim_trace("channel receives", channel->received, (uint64_t)-status);
    if (status == UVHTTP_OK)
        check_item(channel, data, begun_ns);
    else
        check_failure("receive", status, begun_ns, timeout_ms, ready, channel->closed && channel->count == 0);
    free(data);
    return status;
}

/* The sender itself may be faster than a coroutine that it has woken. */
static int send_or_take_back(channel_t *channel, sim_random_t *random, uint32_t timeout_ms) {
    int status = send_item(channel, timeout_ms);
    if (status == UVHTTP_OK && sim_one_in(random, 3)) (void)receive_item(channel, 0);
    return status;
}

static void close_channel(channel_t *channel) {
    if (uvhttp_coro_channel_close(channel->real) != UVHTTP_OK) sim_fail("a channel cannot be closed");
    channel->closed = true;
}

/* What is another loop's is refused. */
static void try_foreign(void) {
    if (!foreign || pthread_equal(foreign->thread, pthread_self())) return;
    char item[UVHTTP_CORO_ITEM_MAX] = "";
    if (uvhttp_coro_channel_send(foreign->real, item, 0) != UVHTTP_E_STATE ||
        uvhttp_coro_channel_receive(foreign->real, item, 0) != UVHTTP_E_STATE ||
        uvhttp_coro_channel_close(foreign->real) != UVHTTP_E_STATE)
        sim_fail("a coroutine uses a channel of another loop");
}

/* --- coroutines of one request --- */

typedef struct child {
    struct group *group;
    uvhttp_coro_t *coro;
    sim_random_t random;
    uint32_t left; /* items that it sends, or receives at most; UVHTTP_NEVER: until the end */
    bool sends;
} child_t;

typedef struct group {
    channel_t *channel;
    uint32_t ms, references, child_count;
    child_t children[CHILDREN_MAX];
} group_t;

static void group_leave(group_t *group) {
    if (--group->references > 0) return;
    leave(group->channel);
    free(group);
}

static uint32_t timeout_of(sim_random_t *random, uint32_t ms) {
    return sim_one_in(random, 2) ? UVHTTP_NEVER : sim_one_in(random, 4) ? 0 : sim_below(random, ms + 1);
}

static void run_job(void *arg) {
    *(bool *)arg = true;
    sim_wait_time(sim_now_ns + SIM_MS);
    *(bool *)arg = false;
}

/* Neither a stop nor the end of the client leaves it running. */
static void work(void) {
    bool runs = false;
    int status = uvhttp_coro_work(run_job, &runs);
    bool known = status == UVHTTP_OK || status == UVHTTP_E_ABORTED ||
                 (status == UVHTTP_E_WORK_FULL && !sim_threads_are_patient) ||
                 (status == UVHTTP_E_NOMEM && sim_failing);
    if (runs || !known)
        sim_fail("a job of a coroutine%s: %s", runs ? " that still runs" : "", uvhttp_error_name(status));
}

static void sleep_sometimes(sim_random_t *random, uint32_t ms) {
    if (sim_one_in(random, 3)) (void)uvhttp_coro_sleep(sim_below(random, ms / 8 + 1));
    if (sim_one_in(random, 6)) (void)uvhttp_coro_yield();
    if (sim_one_in(random, 12)) work();
}

/* A wait that was refused or is over may have lasted no time: then it would be repeated without an end. */
static bool continues(int status) {
    if (status == UVHTTP_E_TIMEOUT) status = uvhttp_coro_sleep(1);
    return status == UVHTTP_OK || status == UVHTTP_E_STOPPING;
}

static void child_ended(void *arg) {
    users_open--;
    group_leave(arg);
}

static void run_child(void *arg) {
    child_t *child = arg;
    group_t *group = child->group;
    users_open++;
    bool deferred = sim_one_in(&child->random, 2) && uvhttp_coro_defer(child_ended, group) == UVHTTP_OK;
    for (int status = UVHTTP_OK; child->left > 0 && continues(status);) {
        uint32_t timeout_ms = timeout_of(&child->random, group->ms);
        sleep_sometimes(&child->random, group->ms);
        status = child->sends ? send_or_take_back(group->channel, &child->random, timeout_ms)
                              : receive_item(group->channel, timeout_ms);
        if (status == UVHTTP_OK && child->left != UVHTTP_NEVER) child->left--;
    }
    if (!deferred) child_ended(group);
}

/* The last receiver stays until the end, so that every sender has one. */
static bool spawn(group_t *group, sim_random_t *random, bool sends, bool last) {
    child_t *child = &group->children[group->child_count];
    *child = (child_t){.group = group, .sends = sends};
    child->random = sim_random_of(sim_random(random), 0xc0);
    child->left = last || (!sends && sim_one_in(random, 2)) ? UVHTTP_NEVER : sim_below(random, 12);
    group->references++;
    int status = uvhttp_coro_spawn(run_child, child, &child->coro);
    if (status == UVHTTP_OK) {
        group->child_count++;
        return true;
    }
    if (status != UVHTTP_E_ABORTED && !(sim_failing && status == UVHTTP_E_NOMEM))
        sim_fail("no coroutine: %s", uvhttp_error_name(status));
    group->references--;
    return false;
}

static void join(group_t *group, bool senders) {
    for (uint32_t i = 0; i < group->child_count; i++) {
        const child_t *child = &group->children[i];
        if (child->sends != senders) continue;
        int status = uvhttp_coro_join(child->coro, i % 2 ? UVHTTP_NEVER : 1 + group->ms / 8);
        if (status == UVHTTP_E_TIMEOUT && i % 2 == 0) status = uvhttp_coro_join(child->coro, UVHTTP_NEVER);
        if (status != UVHTTP_OK) sim_fail("a coroutine has no end: %s", uvhttp_error_name(status));
    }
}

static void use_own_channel(sim_random_t *random, uint32_t ms) {
    group_t *group = calloc(1, sizeof *group);
    if (!group) abort();
    group->channel = channel_new(random);
    group->ms = ms;
    group->references = 1;
    if (!group->channel) {
        free(group);
        return;
    }
    bool receives = spawn(group, random, false, true);
    for (uint32_t i = sim_below(random, 3); i > 0; i--) (void)spawn(group, random, false, false);
    for (uint32_t i = receives ? 1 + sim_below(random, 3) : 0; i > 0; i--) (void)spawn(group, random, true, false);
    sleep_sometimes(random, ms);
    const child_t *last = group->child_count > 0 ? &group->children[group->child_count - 1] : NULL;
    if (last && last->sends && sim_one_in(random, 6)) (void)uvhttp_coro_cancel(last->coro);
    if (!sim_one_in(random, 5)) { /* else they are cancelled */
        if (!sim_one_in(random, 4)) join(group, true);
        close_channel(group->channel);
        if (sim_one_in(random, 4)) join(group, false);
    }
    group_leave(group);
}

/* --- of all requests of a loop --- */

static channel_t *enter_shared(sim_random_t *random) {
    if (!shared || shared->closed) {
        shared = channel_new(random);
        if (shared && !foreign) foreign = shared;
    } else {
        shared->users++;
    }
    return shared;
}

/* Nobody may be at its other end: no wait is without a limit. */
static void use_shared_channel(sim_random_t *random, uint32_t ms) {
    channel_t *channel = enter_shared(random);
    if (!channel) return;
    int status = UVHTTP_OK;
    for (uint32_t i = sim_below(random, 12); i > 0 && continues(status); i--) {
        uint32_t timeout_ms = sim_below(random, ms / 4 + 1);
        sleep_sometimes(random, ms);
        status =
            sim_one_in(random, 2) ? send_or_take_back(channel, random, timeout_ms) : receive_item(channel, timeout_ms);
        if (sim_one_in(random, 40)) close_channel(channel);
        if (sim_one_in(random, 8)) try_foreign();
    }
    leave(channel);
}

static void on_channel(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint32_t tag = sim_request_number(req, "tag", 16), ms = sim_request_number(req, "ms", 10);
    sim_random_t random = sim_random_of(tag, 0xc2);
    users_open++;
    if (sim_one_in(&random, 6)) (void)uvhttp_coro_wake_on_stop();
    if (sim_one_in(&random, 2))
        use_own_channel(&random, ms);
    else
        use_shared_channel(&random, ms);
    sim_pass_on(res, tag, sim_request_number(req, "size", 10));
    users_open--;
}

void sim_channels_add(uvhttp_server_t *server) {
    users_open = channels_open = 0;
    uvhttp_route(server, UVHTTP_GET, "/channel/:tag/:size/:ms", on_channel, NULL, UVHTTP_EXEC_COROUTINE);
}

void sim_channels_check_end(void) {
    if (users_open) sim_fail("%u coroutines of channels have no end", users_open);
    if (channels_open) sim_fail("%u channels are left", channels_open);
}
