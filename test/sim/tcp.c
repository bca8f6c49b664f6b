/* Owns: the application's end of connections of bytes (uvhttp/tcp.h): handlers that call everything that they may. What
 * is called back is checked: how often, in which order, for what reason, and behind what nothing comes any more. */
#include "tcp.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvhttp.h>

#include "tls.h"

enum {
    HANDS = SIM_SENDERS - 1,
    HANDS_MAX = 12,   /* in a run */
    LATE_MS = 64 + 6, /* of a timer: its grain, and what a busy loop takes */
    AGAIN_MS = 20,
    STOP_MS = 100, /* until the loop has noticed */
    KEPT_MAX =
        2 * 64 * 1024, /* bytes of a client whose connection is paused: what a stream holds, and receives under way */
};

typedef struct hand {
    struct pipe *pipe;
    uvhttp_tcp_ref_t *ref;
    sim_random_t random;
    uint32_t number, posted, ran; /* functions */
    atomic_uint runs;
    pthread_t thread;
} hand_t;

typedef struct pipe {
    sim_pipe_t is; /* first */
    struct pipe *next;
    uvhttp_tcp_t *tcp; /* NULL: not yet, or no longer */
    const sim_pipe_limits_t *limits;
    void *user;          /* what callbacks get */
    bool direct, nobody; /* nobody: whose it is is not known */
    sim_random_t random;
    uvhttp_timer_t tick, leave;
    bool ticks, paused, pressed, ended, stopped;
    bool broken;     /* a send has failed, and not because of what was called here: on_close says why */
    uint64_t due_ns; /* of set_timer; 0: it is not set */
    uint64_t flood;  /* bytes that are left of it */
    hand_t hands[HANDS];
    uint32_t hand_count;
    int status;       /* of on_close */
    uint64_t late_ns; /* it was opened while the server drains: on_stop is due; 0: it was not */
} pipe_t;

static uint64_t pipes_seed;
static pipe_t *all;
static uint32_t hands_made;
static atomic_uint bodies;
static bool no_end, no_stop; /* those handlers are NULL */

static void act(pipe_t *pipe);
static void flow(pipe_t *pipe);
static void tick_in(pipe_t *pipe, uint32_t ms);

/* --- what clients know --- */

static pipe_t *find(uint32_t tag) {
    pipe_t *pipe = all;
    while (pipe && pipe->is.tag != tag) pipe = pipe->next;
    return pipe;
}

sim_pipe_t *sim_pipe_find(uint32_t tag) {
    pipe_t *pipe = find(tag);
    return pipe ? &pipe->is : NULL;
}

sim_pipe_mode_t sim_pipe_mode(uint32_t tag) {
    sim_random_t random = sim_random_of(pipes_seed ^ tag, 0x7c);
    return (sim_pipe_mode_t)sim_below(&random, SIM_PIPE_MODES);
}

/* --- sending --- */

static void note_over(pipe_t *pipe, bool reset) {
    if (!pipe->is.over) pipe->is.over_ns = sim_now_ns;
    pipe->is.over = true;
    pipe->is.reset = pipe->is.reset || reset;
    pipe->due_ns = 0;
}

typedef struct body {
    pipe_t *pipe; /* NULL: who sends is in the call that has failed */
    char frame[];
} body_t;

static int send_frame(pipe_t *pipe, uint32_t size, bool reference);
static void close_now(pipe_t *pipe);
static void reset_now(pipe_t *pipe);

/* Whoever gave it may use the connection in here. */
static void release_body(void *arg) {
    body_t *body = arg;
    pipe_t *pipe = body->pipe;
    free(body);
    bodies--;
    if (!pipe) return;
    if (pipe->is.closed) sim_fail("%x: a body is released behind on_close", pipe->is.tag);
    if (pipe->is.over || pipe->is.mode != SIM_WILD) return;
    switch (sim_below(&pipe->random, 12)) {
        case 0: reset_now(pipe); break;
        case 1: close_now(pipe); break;
        case 2:
        case 3: (void)send_frame(pipe, 1 + sim_log_uniform(&pipe->random, 1000), sim_one_in(&pipe->random, 2)); break;
        default: break;
    }
}

static char *make_frame(uint32_t tag, uint32_t sender, uint64_t at, uint32_t size) {
    char *frame = malloc(SIM_FRAME_HEAD + size);
    if (!frame) abort();
    frame[0] = (char)(SIM_FRAME_MARK | sender);
    frame[1] = (char)size;
    frame[2] = (char)(size >> 8);
    sim_fill(frame + SIM_FRAME_HEAD, SIM_PIPE_TAG(tag, sender), at, size);
    return frame;
}

/* What `queued` was, and what it is with these bytes, decides about the status. */
static void check_status(pipe_t *pipe, int status, size_t size, size_t before, size_t queued) {
    const sim_pipe_limits_t *limits = pipe->limits;
    bool fits = before + size <= limits->max;
    if (status == UVHTTP_E_CLOSED && !pipe->is.over && !pipe->is.shut && !pipe->is.may_close) pipe->broken = true;
    if (status == UVHTTP_E_CLOSED || (status == UVHTTP_E_NOMEM && sim_failing)) return;
    if (pipe->is.over || (pipe->is.shut && fits))
        sim_fail("%x: a send behind the end has the status %s", pipe->is.tag, uvhttp_error_name(status));
    bool right = !fits ? status == UVHTTP_E_LIMIT
                       : status == (queued > limits->high ? UVHTTP_E_AGAIN : UVHTTP_OK) && queued == before + size;
    if (!right)
        sim_fail("%x: %zu bytes behind %zu have the status %s, and %zu are queued", pipe->is.tag, size, before,
                 uvhttp_error_name(status), queued);
}

/* A frame of the loop. */
static int send_frame(pipe_t *pipe, uint32_t size, bool reference) {
    size_t before = 0, queued = 0;
    char *frame = make_frame(pipe->is.tag, 0, pipe->is.sent[0], size);
    int status = uvhttp_tcp_send(pipe->tcp, frame, 0, &before);
    if (status == UVHTTP_E_AGAIN) pipe->pressed = true;
    if (reference) {
        body_t *body = malloc(sizeof *body + SIM_FRAME_HEAD + size);
        if (!body) abort();
        body->pipe = NULL;
        memcpy(body->frame, frame, SIM_FRAME_HEAD + size);
        bodies++;
        status = uvhttp_tcp_send_ref(pipe->tcp, body->frame, SIM_FRAME_HEAD + size, release_body, body);
        if (status == UVHTTP_OK || status == UVHTTP_E_AGAIN) body->pipe = pipe;
        int again = uvhttp_tcp_send(pipe->tcp, "", 0, &queued);
        if (again != status && status != UVHTTP_E_LIMIT && !sim_failing)
            sim_fail("%x: a send of nothing has the status %s behind %s", pipe->is.tag, uvhttp_error_name(again),
                     uvhttp_error_name(status));
    } else {
        status = uvhttp_tcp_send(pipe->tcp, frame, SIM_FRAME_HEAD + size, &queued);
    }
    free(frame);
    check_status(pipe, status, SIM_FRAME_HEAD + size, before, queued);
    if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) return status;
    if (status == UVHTTP_E_AGAIN) pipe->pressed = true;
    pipe->is.sent[0] += size;
    pipe->is.moved_ns = sim_now_ns;
    return status;
}

/* --- calls that end it, and behind the end --- */

static void call_behind_end(pipe_t *pipe) {
    switch (sim_below(&pipe->random, 8)) {
        case 0: uvhttp_tcp_close(pipe->tcp); break;
        case 1: uvhttp_tcp_shutdown(pipe->tcp); break;
        case 2: uvhttp_tcp_pause(pipe->tcp); break;
        case 3: uvhttp_tcp_resume(pipe->tcp); break;
        case 4: (void)send_frame(pipe, 10, sim_one_in(&pipe->random, 2)); break;
        case 5:
            if (uvhttp_tcp_set_timer(pipe->tcp, 5) != UVHTTP_E_CLOSED)
                sim_fail("%x: set_timer behind the end", pipe->is.tag);
            break;
        default: break;
    }
}

/* In the same call, or while the rest goes out. */
static void end_with(pipe_t *pipe, void (*end)(uvhttp_tcp_t *tcp), bool reset) {
    note_over(pipe, reset);
    end(pipe->tcp);
    call_behind_end(pipe);
    if (!pipe->is.closed && sim_one_in(&pipe->random, 2)) tick_in(pipe, sim_log_uniform(&pipe->random, 3000));
}

static void close_now(pipe_t *pipe) {
    end_with(pipe, uvhttp_tcp_close, false);
}

static void reset_now(pipe_t *pipe) {
    end_with(pipe, uvhttp_tcp_reset, true);
}

static void shut_now(pipe_t *pipe) {
    pipe->is.shut = true;
    uvhttp_tcp_shutdown(pipe->tcp);
}

/* --- later: what was put off, or is wanted again --- */

/* Of what has come the connection keeps no more than a bound. */
static void check_kept(const pipe_t *pipe) {
    const client_t *client = pipe->nobody ? NULL : sim_client((pipe->is.tag - 0x1000) >> 8);
    if (!client || !client->conn || client->transport.tls || !pipe->direct) return;
    uint64_t kept = sim_server_received(client->conn) - pipe->is.received;
    if (kept > KEPT_MAX) sim_fail("%x: %llu bytes are kept while it is paused", pipe->is.tag, (unsigned long long)kept);
}

static void on_tick(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    pipe_t *pipe = user;
    pipe->ticks = false;
    if (pipe->is.over) {
        call_behind_end(pipe);
        return;
    }
    if (pipe->paused) {
        check_kept(pipe);
        pipe->paused = false;
        uvhttp_tcp_resume(pipe->tcp);
    }
    if (pipe->is.mode == SIM_WILD) act(pipe);
    if (!pipe->is.over) flow(pipe);
    bool ends = (pipe->ended || pipe->stopped) && pipe->is.mode == SIM_WILD;
    if (ends && !pipe->is.over) close_now(pipe);
}

static void tick_in(pipe_t *pipe, uint32_t ms) {
    if (pipe->ticks) return;
    pipe->ticks = uvhttp_timer_start(&pipe->tick, ms, on_tick, pipe) == UVHTTP_OK;
    if (!pipe->ticks) sim_fail("%x: no timer", pipe->is.tag);
}

static void on_leave(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    pipe_t *pipe = user;
    if (!pipe->is.over) close_now(pipe);
}

static void leave_in(pipe_t *pipe, uint32_t ms) {
    if (uvhttp_timer_start(&pipe->leave, ms, on_leave, pipe) != UVHTTP_OK) sim_fail("%x: no timer", pipe->is.tag);
}

static void pause_now(pipe_t *pipe) {
    uvhttp_tcp_pause(pipe->tcp);
    pipe->paused = true;
    tick_in(pipe, 1 + sim_log_uniform(&pipe->random, 3000));
}

static void set_timer(pipe_t *pipe) {
    uint32_t ms = sim_one_in(&pipe->random, 4) ? 0 : sim_log_uniform(&pipe->random, 4000);
    int status = uvhttp_tcp_set_timer(pipe->tcp, ms);
    if (status == UVHTTP_E_CLOSED && !pipe->is.over) return; /* see check_status */
    if (status != (pipe->limits->idle_s ? UVHTTP_E_STATE : UVHTTP_OK))
        sim_fail("%x: set_timer: %s", pipe->is.tag, uvhttp_error_name(status));
    pipe->due_ns = ms && status == UVHTTP_OK ? sim_now_ns + ms * SIM_MS : 0;
}

/* --- hands --- */

typedef struct mark {
    hand_t *hand;
    uint32_t number;
    uint64_t sent;
    int closes; /* 1: its hand closes behind it; 2: it has */
} mark_t;

/* Functions of one thread run in their order, behind what it has sent. */
static void on_mark(uvhttp_tcp_t *tcp, void *arg) {
    mark_t *mark = arg;
    hand_t *hand = mark->hand;
    pipe_t *pipe = hand->pipe;
    hand->ran++;
    if (mark->number != hand->ran) sim_fail("%x: function %u of a hand runs late", pipe->is.tag, mark->number);
    if (tcp != pipe->tcp)
        sim_fail("%x: a function runs with a connection that %s", pipe->is.tag, tcp ? "is gone" : "is there");
    bool may_end = pipe->is.ends_itself && sim_tcp_has_ended((pipe->is.tag - 0x1000) >> 8);
    if (pipe->is.stops_itself && sim_pipe_is_stopped(pipe->direct)) may_end = true;
    bool open = tcp && !may_end && !pipe->is.over && !pipe->is.shut && !pipe->is.may_close && !pipe->broken;
    if (open) pipe->is.owed[hand->number] = mark->sent;
    if (mark->closes == 1) pipe->is.may_close = true;
    if (mark->closes == 2) note_over(pipe, false);
    free(mark);
}

static void check_hand(const hand_t *hand, int status) {
    if (status == UVHTTP_OK || (status == UVHTTP_E_NOMEM && sim_failing)) return;
    if (status != UVHTTP_E_ABORTED || !hand->pipe->is.closed)
        sim_fail("%x: a hand has the status %s", hand->pipe->is.tag, uvhttp_error_name(status));
}

static void hand_run(hand_t *hand, int closes) {
    mark_t *mark = malloc(sizeof *mark);
    if (!mark) abort();
    *mark = (mark_t){hand, ++hand->posted, hand->pipe->is.sent[hand->number], closes};
    int status = uvhttp_tcp_ref_run(hand->ref, on_mark, mark);
    check_hand(hand, status);
    if (status == UVHTTP_OK) return;
    hand->posted--;
    free(mark);
}

static void hand_send(hand_t *hand) {
    pipe_t *pipe = hand->pipe;
    uint32_t size = sim_log_uniform(&hand->random, sim_one_in(&hand->random, 3) ? 6000 : 600);
    uint64_t *sent = &pipe->is.sent[hand->number];
    char *frame = make_frame(pipe->is.tag, hand->number, *sent, size);
    *sent += size;
    pipe->is.hands = true;
    int status = uvhttp_tcp_ref_send(hand->ref, frame, SIM_FRAME_HEAD + size);
    check_hand(hand, status);
    if (status != UVHTTP_OK) *sent -= size;
    free(frame);
}

static void hand_close(hand_t *hand) {
    hand_run(hand, 1);
    int status = uvhttp_tcp_ref_close(hand->ref);
    check_hand(hand, status);
    if (status == UVHTTP_OK) hand_run(hand, 2);
}

static void hand_act(hand_t *hand) {
    bool wild = hand->pipe->is.mode == SIM_WILD;
    switch (sim_below(&hand->random, 8)) {
        case 0: hand_run(hand, 0); break;
        case 1:
            uvhttp_tcp_ref_retain(hand->ref);
            hand_send(hand);
            uvhttp_tcp_ref_release(hand->ref);
            break;
        case 2:
            if (wild)
                hand_close(hand);
            else
                hand_run(hand, 0);
            break;
        case 3:
            for (uint32_t i = sim_below(&hand->random, 8); i > 0; i--) hand_send(hand);
            hand_run(hand, 0);
            break;
        default: hand_send(hand);
    }
}

static void *hand_main(void *arg) {
    hand_t *hand = arg;
    for (uint32_t i = 1 + sim_below(&hand->random, 8); i > 0; i--) {
        uint32_t ms = sim_one_in(&hand->random, 2) ? 0 : sim_log_uniform(&hand->random, 4000);
        if (ms) nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
        hand_act(hand);
    }
    uvhttp_tcp_ref_release(hand->ref);
    return NULL;
}

static void start_hand(pipe_t *pipe) {
    if (pipe->hand_count == HANDS || hands_made == HANDS_MAX) return;
    uvhttp_tcp_ref_t *ref = uvhttp_tcp_ref(pipe->tcp);
    if (!ref) return;
    hand_t *hand = &pipe->hands[pipe->hand_count++];
    hands_made++;
    *hand = (hand_t){.pipe = pipe, .ref = ref, .number = pipe->hand_count};
    hand->random = sim_random_of(pipes_seed ^ pipe->is.tag, 0x80 + hand->number);
    if (pthread_create(&hand->thread, NULL, hand_main, hand)) abort();
}

/* --- what handlers do --- */

/* Sends back what has come, and the flood. */
static void flow(pipe_t *pipe) {
    for (;;) {
        uint64_t due = pipe->is.received - pipe->is.echoed;
        bool echo = due > 0;
        if (!echo) due = pipe->flood;
        if (due == 0 || pipe->pressed || pipe->is.shut || pipe->is.over || pipe->is.mode == SIM_WILD) break;
        uint32_t part = 1 + sim_log_uniform(&pipe->random, 4000);
        if (part > due) part = (uint32_t)due;
        int status = send_frame(pipe, part, sim_one_in(&pipe->random, 4));
        if (status == UVHTTP_E_LIMIT || status == UVHTTP_E_NOMEM) tick_in(pipe, AGAIN_MS);
        if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) return;
        if (echo)
            pipe->is.echoed += part;
        else
            pipe->flood -= part;
    }
    bool done = pipe->is.received == pipe->is.echoed && pipe->flood == 0;
    if (pipe->is.mode != SIM_WILD && pipe->ended && done && !pipe->is.over) close_now(pipe);
}

typedef enum deed {
    NOTHING,
    SEND,
    SEND_REF,
    PAUSE,
    RESUME,
    SHUT,
    CLOSE,
    RESET,
    TIMER,
    HAND,
    TICK,
    SEND_SHUT,
    DEEDS
} deed_t;

/* Of 40; the rest is nothing. */
static const uint8_t weights[DEEDS] = {
    [SEND] = 10, [SEND_REF] = 5, [PAUSE] = 3, [RESUME] = 1, [SHUT] = 1,      [CLOSE] = 2,
    [RESET] = 1, [TIMER] = 5,    [HAND] = 2,  [TICK] = 2,   [SEND_SHUT] = 1,
};

static deed_t choose(sim_random_t *r) {
    uint32_t at = sim_below(r, 40);
    for (int deed = SEND; deed < DEEDS; deed++) {
        if (at < weights[deed]) return (deed_t)deed;
        at -= weights[deed];
    }
    return NOTHING;
}

static void act(pipe_t *pipe) {
    sim_random_t *r = &pipe->random;
    uint32_t size = sim_log_uniform(r, sim_one_in(r, 8) ? SIM_FRAME_PAYLOAD_MAX : 1000);
    switch (choose(r)) {
        case SEND: (void)send_frame(pipe, size, false); break;
        case SEND_REF: (void)send_frame(pipe, size, true); break;
        case PAUSE:
            if (!pipe->paused) pause_now(pipe);
            break;
        case RESUME:
            uvhttp_tcp_resume(pipe->tcp);
            pipe->paused = false;
            break;
        case SEND_SHUT: (void)send_frame(pipe, size, true); /* fallthrough */
        case SHUT: shut_now(pipe); break;
        case CLOSE: close_now(pipe); break;
        case RESET: reset_now(pipe); break;
        case TIMER: set_timer(pipe); break;
        case HAND: start_hand(pipe); break;
        case TICK: tick_in(pipe, sim_log_uniform(r, 2000)); break;
        default: break;
    }
}

/* --- what is called back --- */

/* Nothing but on_close comes behind close and reset. */
static pipe_t *called(uvhttp_tcp_t *tcp, const void *user, const char *what) {
    pipe_t *pipe = uvhttp_tcp_data(tcp);
    if (pipe->tcp != tcp) sim_fail("%x: %s for a connection that is not open", pipe->is.tag, what);
    if (user != pipe->user) sim_fail("%x: %s with another user", pipe->is.tag, what);
    if ((pipe->is.over || pipe->broken) && strcmp(what, "on_close") != 0)
        sim_fail("%x: %s behind its end", pipe->is.tag, what);
    sim_guest_called();
    return pipe;
}

static void check_peer(pipe_t *pipe) {
    char text[64], expected[64];
    if (pipe->nobody) return;
    sim_peer_text((pipe->is.tag - 0x1000) >> 8, expected, sizeof expected);
    if (uvhttp_tcp_peer(pipe->tcp, text, sizeof text) == UVHTTP_OK && strcmp(text, expected) != 0)
        sim_fail("%x: its peer is %s", pipe->is.tag, text);
}

static void check_tls(const pipe_t *pipe) {
    const client_t *client = pipe->nobody ? NULL : sim_client((pipe->is.tag - 0x1000) >> 8);
    const char *subject = uvhttp_tcp_client_subject(pipe->tcp);
    char expected[SIM_SUBJECT_SIZE];
    if (!client) return;
    if (uvhttp_tcp_is_tls(pipe->tcp) != client->transport.tls) sim_fail("%x: TLS is not what it is", pipe->is.tag);
    snprintf(expected, sizeof expected, SIM_SUBJECT, client->id);
    if (subject && strcmp(subject, expected) != 0) sim_fail("%x: it is taken for %s", pipe->is.tag, subject);
}

sim_pipe_t *sim_pipe_new(uint32_t tag, const sim_pipe_limits_t *limits, bool direct, void *user) {
    pipe_t *pipe = calloc(1, sizeof *pipe);
    if (!pipe) abort();
    *pipe = (pipe_t){.next = all, .limits = limits, .direct = direct, .user = user};
    pipe->random = sim_random_of(pipes_seed ^ tag, 0x7d);
    pipe->nobody = tag == SIM_PIPE_NOBODY;
    pipe->is = (sim_pipe_t){.tag = tag,
                            .mode = sim_pipe_mode(tag),
                            .ends_itself = no_end,
                            .stops_itself = no_stop,
                            .idle_s = limits->idle_s,
                            .min_rate = limits->min_rate};
    all = pipe;
    return &pipe->is;
}

void sim_pipe_open(sim_pipe_t *opened, uvhttp_tcp_t *tcp) {
    pipe_t *pipe = (pipe_t *)(void *)opened;
    if (pipe->is.opened) sim_fail("%x: on_open is called twice", pipe->is.tag);
    uvhttp_tcp_set_data(tcp, pipe);
    pipe->tcp = tcp;
    pipe->is.opened = true;
    pipe->is.moved_ns = sim_now_ns;
    sim_trace("pipe opens", pipe->is.tag, 0);
    check_peer(pipe);
    check_tls(pipe);
    if (pipe->is.mode == SIM_FLOOD) {
        pipe->flood = sim_log_uniform(&pipe->random, 300000);
        pipe->is.leaves = pipe->direct && sim_one_in(&pipe->random, 3);
        if (pipe->is.leaves) leave_in(pipe, 20000 + sim_below(&pipe->random, 60000));
    }
    if (sim_one_in(&pipe->random, 4)) start_hand(pipe);
    if (pipe->is.mode == SIM_WILD) act(pipe);
    if (!pipe->is.over) flow(pipe);
    bool drains = !pipe->direct && uvhttp_server_state(sim_server) == UVHTTP_SERVER_DRAINING;
    if (drains && !pipe->is.over && !no_stop) pipe->late_ns = sim_now_ns;
}

static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    pipe_t *pipe = called(tcp, user, "on_data");
    if (pipe->paused) sim_fail("%x: on_data although it is paused", pipe->is.tag);
    if (pipe->ended) sim_fail("%x: on_data behind on_end", pipe->is.tag);
    if (size == 0 || size > pipe->limits->piece_max) sim_fail("%x: on_data of %zu bytes", pipe->is.tag, size);
    size_t wrong = sim_mismatch(data, SIM_REQUEST_TAG(pipe->is.tag), pipe->is.received, size);
    if (wrong < size && !pipe->nobody)
        sim_fail("%x: byte %llu of its client is wrong", pipe->is.tag, (unsigned long long)(pipe->is.received + wrong));
    memset((char *)(uintptr_t)data, 0xee, size);
    pipe->is.received += size;
    pipe->is.moved_ns = sim_now_ns;
    check_peer(pipe);
    if (pipe->is.mode == SIM_WILD) act(pipe);
    if (pipe->is.mode == SIM_WILD && !pipe->is.over && sim_one_in(&pipe->random, 2)) act(pipe);
    if (pipe->is.mode != SIM_WILD && sim_one_in(&pipe->random, 16)) start_hand(pipe);
    if (pipe->is.mode != SIM_WILD && !pipe->paused && sim_one_in(&pipe->random, 12)) pause_now(pipe);
    if (!pipe->is.over) flow(pipe);
}

static void on_drain(uvhttp_tcp_t *tcp, void *user) {
    pipe_t *pipe = called(tcp, user, "on_drain");
    size_t queued = 0;
    if (!pipe->pressed && pipe->hand_count == 0) sim_fail("%x: on_drain that was not announced", pipe->is.tag);
    pipe->pressed = false;
    (void)uvhttp_tcp_send(tcp, "", 0, &queued);
    if (queued) sim_fail("%x: on_drain with %zu bytes in the queue", pipe->is.tag, queued);
    pipe->is.moved_ns = sim_now_ns;
    if (pipe->is.mode == SIM_WILD) act(pipe);
    if (!pipe->is.over) flow(pipe);
}

static void on_end(uvhttp_tcp_t *tcp, void *user) {
    pipe_t *pipe = called(tcp, user, "on_end");
    if (pipe->ended) sim_fail("%x: on_end is called twice", pipe->is.tag);
    if (!pipe->nobody) sim_tcp_check_end_of((pipe->is.tag - 0x1000) >> 8, pipe->is.received);
    pipe->ended = true;
    if (pipe->is.mode != SIM_WILD) {
        flow(pipe);
        return;
    }
    act(pipe);
    if (pipe->is.over) return;
    if (sim_one_in(&pipe->random, 2))
        close_now(pipe);
    else
        tick_in(pipe, sim_log_uniform(&pipe->random, 3000));
}

static void on_timer(uvhttp_tcp_t *tcp, void *user) {
    pipe_t *pipe = called(tcp, user, "on_timer");
    if (!pipe->due_ns) sim_fail("%x: a timer that is not set", pipe->is.tag);
    if (sim_now_ns + SIM_MS < pipe->due_ns)
        sim_fail("%x: the timer is %llu ms early", pipe->is.tag,
                 (unsigned long long)((pipe->due_ns - sim_now_ns) / SIM_MS));
    if (sim_now_ns > pipe->due_ns + LATE_MS * SIM_MS)
        sim_fail("%x: the timer is %llu ms late", pipe->is.tag,
                 (unsigned long long)((sim_now_ns - pipe->due_ns) / SIM_MS));
    pipe->due_ns = 0;
    act(pipe);
}

static void on_stop(uvhttp_tcp_t *tcp, void *user) {
    pipe_t *pipe = called(tcp, user, "on_stop");
    if (pipe->stopped) sim_fail("%x: on_stop is called twice", pipe->is.tag);
    /* Without memory for an entry of the ring its loop fails, and all of its server ends. */
    if (!sim_pipe_is_stopped(pipe->direct) && !sim_ring_has_died && !sim_memory_has_failed())
        sim_fail("%x: on_stop of a server that was not stopped", pipe->is.tag);
    pipe->stopped = true;
    if (!pipe->is.shut && sim_one_in(&pipe->random, 2)) (void)send_frame(pipe, 100, false);
    uint32_t kind = sim_below(&pipe->random, 8);
    if (kind < 5)
        close_now(pipe);
    else if (kind < 7)
        tick_in(pipe, sim_log_uniform(&pipe->random, 3000));
    else
        act(pipe);
}

/* A timeout: of idleness, of a client that does not take what is sent, or the end of the drain. */
static void check_timeout(const pipe_t *pipe) {
    const sim_pipe_t *is = &pipe->is;
    uint32_t client = (is->tag - 0x1000) / 0x100;
    if (is->idle_s && sim_now_ns - is->moved_ns + 100 * SIM_MS >= is->idle_s * 1000 * SIM_MS) return;
    if (sim_pipe_is_stopped(pipe->direct) && sim_now_ns + 2 * SIM_MS >= sim_pipe_cut_ns(pipe->direct)) return;
    if (sim_tcp_may_break(client) || sim_tcp_may_be_late(client, is)) return;
    sim_fail("%x: UVHTTP_E_TIMEOUT without a reason", is->tag);
}

/* Only what hands send is lost, if there is no capacity for it. */
static void check_full(const pipe_t *pipe) {
    uint64_t all_sent = 0;
    for (uint32_t i = 0; i < SIM_SENDERS; i++) all_sent += pipe->is.sent[i];
    bool may_be = pipe->is.hands && (!pipe->direct || all_sent * 2 > pipe->limits->max); /* behind large responses */
    if (!may_be) sim_fail("%x: UVHTTP_E_LIMIT without a reason", pipe->is.tag);
}

/* A regular end has been asked for. */
static bool may_end_well(const pipe_t *pipe) {
    const sim_pipe_t *is = &pipe->is;
    return is->over || pipe->is.may_close || is->ends_itself || (is->stops_itself && sim_pipe_is_stopped(pipe->direct));
}

static void on_close(uvhttp_tcp_t *tcp, int status, void *user) {
    pipe_t *pipe = called(tcp, user, "on_close");
    uint32_t client = (pipe->is.tag - 0x1000) / 0x100;
    sim_trace("pipe closes", pipe->is.tag, (uint64_t)-status);
    if (pipe->is.closed) sim_fail("%x: on_close is called twice", pipe->is.tag);
    if (status == UVHTTP_E_TIMEOUT)
        check_timeout(pipe);
    else if (status == UVHTTP_E_LIMIT)
        check_full(pipe);
    else if (status != UVHTTP_OK && !sim_tcp_may_break(client) && !pipe->nobody)
        sim_fail("%x: on_close: %s", pipe->is.tag, uvhttp_error_name(status));
    if (status == UVHTTP_OK && !may_end_well(pipe) && !sim_failing)
        sim_fail("%x: on_close without a reason", pipe->is.tag);
    if (uvhttp_tcp_send(tcp, "x", 1, NULL) != UVHTTP_E_CLOSED) sim_fail("%x: a send in on_close", pipe->is.tag);
    if (uvhttp_tcp_ref(tcp)) sim_fail("%x: a reference in on_close", pipe->is.tag);
    if (pipe->late_ns && !pipe->stopped && sim_now_ns - pipe->late_ns > STOP_MS * SIM_MS)
        sim_fail("%x: on_stop is never called", pipe->is.tag);
    if (pipe->ticks) uvhttp_timer_stop(&pipe->tick);
    uvhttp_timer_stop(&pipe->leave);
    pipe->ticks = false;
    pipe->is.closed = true;
    pipe->status = status;
    pipe->tcp = NULL;
}

/* --- life --- */

static void end_pipe(pipe_t *pipe) {
    for (uint32_t i = 0; i < pipe->hand_count; i++) {
        hand_t *hand = &pipe->hands[i];
        (void)pthread_join(hand->thread, NULL);
        if (hand->ran != hand->posted)
            sim_fail("%x: %u of %u functions of a hand have run", pipe->is.tag, hand->ran, hand->posted);
    }
    if (pipe->is.opened && !pipe->is.closed) sim_fail("%x: on_close is never called", pipe->is.tag);
    if (pipe->is.must_be_full && pipe->status != UVHTTP_E_LIMIT)
        sim_fail("%x: the connection was reset with %s", pipe->is.tag, uvhttp_error_name(pipe->status));
    free(pipe);
}

void sim_pipes_end(void) {
    while (all) {
        pipe_t *pipe = all;
        all = pipe->next;
        end_pipe(pipe);
    }
    if (bodies) sim_fail("%u bodies of connections were not released", (unsigned)bodies);
}

void sim_pipes_reset(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x7b);
    pipes_seed = sim_random(&random);
    no_end = sim_one_in(&random, 4);
    no_stop = sim_one_in(&random, 4);
    hands_made = 0;
    bodies = 0;
}

void sim_pipe_handlers(uvhttp_tcp_handlers_t *made, void (*on_open)(uvhttp_tcp_t *tcp, void *user)) {
    *made = (uvhttp_tcp_handlers_t){.on_open = on_open,
                                    .on_data = on_data,
                                    .on_drain = on_drain,
                                    .on_end = no_end ? NULL : on_end,
                                    .on_close = on_close,
                                    .on_timer = on_timer,
                                    .on_stop = no_stop ? NULL : on_stop};
}
