/* Owns: a handler whose deferred handle is used in any order that its documentation allows: by several threads, each
 * with a reference, that set fields, send interim responses, run functions on the loop, respond, or do nothing of this.
 * It is made on the loop, on a worker thread, or while a body comes. What is called back, and how often, is checked; so
 * is that nothing is behind the last reference. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "sim.h"

enum { ACTORS_MAX = 6, STEPS_MAX = 4 };

typedef struct handle handle_t;

/* Who has a reference: a timer of the loop, or a job. */
typedef struct actor {
    handle_t *handle;
    uvhttp_timer_t timer;
    bool waits; /* for its timer */
} actor_t;

/* They last until the end of the run, so that a callback that comes too late is seen. */
struct handle {
    handle_t *next;
    uint32_t tag, size, ms;
    sim_random_t random;
    uvhttp_deferred_t *deferred;
    actor_t actors[ACTORS_MAX];
    atomic_uint actor_count, references, posted, ran;
    atomic_bool released; /* the last reference, on the thread of the loop: nothing is called any more */
    bool aborted, done, body_ended;
    uint64_t received;
    bool may_be_sent; /* then the request is no longer readable */
};

static _Atomic(handle_t *) all;
static atomic_uint bodies;

static void act(actor_t *actor, bool on_loop);
static void act_on_body(handle_t *handle);

/* --- what is called back --- */

static void check_not_released(const handle_t *handle, const char *what) {
    if (handle->released) sim_fail("%s of %x is called behind its last reference", what, handle->tag);
    if (handle->done) sim_fail("%s of %x is called behind its end", what, handle->tag);
}

static void fill(const handle_t *handle, char **body, char tag[16]) {
    *body = malloc(handle->size + 1);
    if (!*body) abort();
    sim_fill(*body, handle->tag, 0, handle->size);
    snprintf(tag, 16, "%x", handle->tag);
}

/* Without memory for the field: whatever the library makes of a handler that does not respond. */
static void respond_on_loop(const handle_t *handle, uvhttp_response_t *res) {
    char *body, tag[16];
    fill(handle, &body, tag);
    if (uvhttp_response_header(res, "X-Tag", tag) == UVHTTP_OK)
        (void)uvhttp_response_send(res, 200, NULL, body, handle->size);
    free(body);
}

static void on_run(uvhttp_response_t *res, void *user) {
    handle_t *handle = user;
    if (++handle->ran > handle->posted) sim_fail("a function of %x runs twice", handle->tag);
    if (!res) return;
    if (handle->done) sim_fail("a function of %x has a response behind its end", handle->tag);
    if (sim_one_in(&handle->random, 3)) respond_on_loop(handle, res);
}

/* The server stops, or the connection is to end. */
static void on_stop(uvhttp_response_t *res, void *user) {
    handle_t *handle = user;
    check_not_released(handle, "on_stop");
    if (sim_one_in(&handle->random, 4)) uvhttp_response_close(res); /* the other streams stop, in here */
    if (sim_one_in(&handle->random, 2)) respond_on_loop(handle, res);
}

static void on_drain(uvhttp_response_t *res, void *user) {
    (void)res;
    check_not_released(user, "on_drain");
}

/* Actors that wait for a timer act now: the end of the loop may come before it. */
static void hurry(handle_t *handle) {
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        actor_t *actor = &handle->actors[i];
        if (!actor->waits) continue;
        uvhttp_timer_stop(&actor->timer);
        act(actor, true);
    }
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    handle_t *handle = user;
    check_not_released(handle, "on_abort");
    if (handle->aborted) sim_fail("on_abort of %x is called twice", handle->tag);
    if (!uvhttp_deferred_aborted(deferred)) sim_fail("on_abort of %x, which is not aborted", handle->tag);
    handle->aborted = true;
    if (sim_one_in(&handle->random, 2)) hurry(handle);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    handle_t *handle = user;
    if (uvhttp_request_path(uvhttp_response_request(res)).size == 0) sim_fail("%x has no path at its end", handle->tag);
    if (handle->aborted && status == UVHTTP_OK) sim_fail("%x is aborted and sent", handle->tag);
    hurry(handle);
    handle->done = true;
}

static void on_body(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    handle_t *handle = user;
    (void)req, (void)res;
    if (handle->done || handle->body_ended) sim_fail("a piece of the body of %x behind its end", handle->tag);
    if (sim_mismatch(data.data, SIM_REQUEST_TAG(handle->tag), handle->received, data.size) < data.size)
        sim_fail("the body of request %x is wrong", handle->tag);
    handle->received += data.size;
    if (sim_one_in(&handle->random, 8)) act_on_body(handle);
}

static void on_body_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    handle_t *handle = user;
    (void)req, (void)res, (void)status;
    if (handle->done || handle->body_ended) sim_fail("the end of the body of %x comes twice", handle->tag);
    handle->body_ended = true;
    if (sim_one_in(&handle->random, 4)) act_on_body(handle);
}

/* --- what is done with it --- */

static void on_release(void *arg) {
    bodies--;
    free(arg);
}

/* One that is sent is the last message. */
static void respond(const handle_t *handle) {
    char *body, tag[16];
    fill(handle, &body, tag);
    int status = uvhttp_deferred_header(handle->deferred, "X-Tag", tag);
    if (status != UVHTTP_OK) {
        free(body);
        return;
    }
    bodies++;
    status = uvhttp_deferred_send_ref(handle->deferred, 200, NULL, body, handle->size, on_release, body);
    if (status == UVHTTP_OK && uvhttp_deferred_text(handle->deferred, 200, "again") == UVHTTP_OK)
        sim_fail("%x has two responses", handle->tag);
}

static void post_run(handle_t *handle) {
    handle->posted++;
    if (uvhttp_deferred_run(handle->deferred, on_run, handle) != UVHTTP_OK) handle->posted--;
}

static void on_job(void *user) {
    act(user, false);
}

static void on_job_done(void *user, int status) {
    if (status == UVHTTP_E_WORK_CANCELLED) act(user, false);
}

static void on_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    act(user, true);
}

/* It has a reference. */
static void start(handle_t *handle, actor_t *actor, bool on_loop) {
    actor->handle = handle;
    if (sim_one_in(&handle->random, 2) && uvhttp_work(sim_server, on_job, on_job_done, actor) == UVHTTP_OK) return;
    actor->waits = on_loop;
    if (!on_loop)
        act(actor, false);
    else
        (void)uvhttp_timer_start(&actor->timer, sim_below(&handle->random, handle->ms + 1), on_timer, actor);
}

static void share(handle_t *handle, bool on_loop) {
    uint32_t at = handle->actor_count++;
    if (at >= ACTORS_MAX || handle->done) return;
    uvhttp_deferred_retain(handle->deferred);
    handle->references++;
    start(handle, &handle->actors[at], on_loop);
}

static void step(handle_t *handle, bool on_loop) {
    static const uvhttp_response_field_t link = {"Link", "</style.css>; rel=preload"};
    bool alone = handle->actor_count == 1; /* some functions are for one thread at a time */
    const uvhttp_request_t *req = alone && !handle->may_be_sent ? uvhttp_deferred_request(handle->deferred) : NULL;
    if (req && uvhttp_request_path(req).size == 0) sim_fail("%x has no path", handle->tag);
    uint32_t what = sim_below(&handle->random, 8);
    if (what > 1) handle->may_be_sent = true;
    switch (what) {
        case 0:
            if (alone) (void)uvhttp_deferred_header(handle->deferred, "X-More", "1");
            break;
        case 1: (void)uvhttp_deferred_interim(handle->deferred, 103, &link, 1); break;
        case 2:
        case 3: post_run(handle); break;
        case 4: (void)uvhttp_deferred_on_stop(handle->deferred, on_stop, handle); break;
        case 5: share(handle, on_loop); break;
        case 6:
            (void)uvhttp_deferred_pause_body(handle->deferred);
            (void)uvhttp_deferred_resume_body(handle->deferred);
            break;
        default: respond(handle);
    }
}

/* It may be the last that happens to the handle: the count follows, for only then no other thread is about to release
 * its reference. */
static void act(actor_t *actor, bool on_loop) {
    handle_t *handle = actor->handle;
    actor->waits = false;
    for (uint32_t i = sim_below(&handle->random, STEPS_MAX + 1); i > 0; i--) step(handle, on_loop);
    uvhttp_deferred_release(handle->deferred);
    if (--handle->references == 0 && on_loop) handle->released = true;
}

/* Those that wait for a timer may act at any moment of a body. */
static void act_on_body(handle_t *handle) {
    actor_t *actor = &handle->actors[sim_below(&handle->random, ACTORS_MAX)];
    if (!actor->waits) return;
    uvhttp_timer_stop(&actor->timer);
    act(actor, true);
}

enum { ON_LOOP, ON_WORKER, WITH_BODY };
static const int where[] = {ON_LOOP, ON_WORKER, WITH_BODY};

static void on_handle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const int *kind = user;
    const bool on_loop = *kind != ON_WORKER;
    handle_t *handle = calloc(1, sizeof *handle);
    if (!handle) abort();
    handle->tag = sim_request_number(req, "tag", 16);
    handle->size = sim_request_number(req, "size", 10);
    handle->ms = sim_request_number(req, "ms", 10);
    handle->random = sim_random_of(handle->tag, 0x4a);
    handle->next = all;
    all = handle;
    if (uvhttp_response_on_done(res, on_done, handle) != UVHTTP_OK) return;
    handle->deferred = uvhttp_response_defer(res);
    if (!handle->deferred) return;
    handle->references = handle->actor_count = 1;
    uvhttp_deferred_on_abort(handle->deferred, on_abort, handle);
    uvhttp_deferred_on_drain(handle->deferred, on_drain, handle);
    if (*kind == WITH_BODY && sim_one_in(&handle->random, 2))
        (void)uvhttp_request_on_body(req, on_body, on_body_end, handle);
    for (uint32_t i = sim_below(&handle->random, 3); i > 0; i--) share(handle, on_loop);
    start(handle, &handle->actors[0], on_loop);
}

void sim_handles_add(uvhttp_server_t *server) {
    bodies = 0;
    uvhttp_get(server, "/handle/:tag/:size/:ms", on_handle, (void *)(uintptr_t)&where[ON_LOOP]);
    uvhttp_route(server, UVHTTP_GET, "/whandle/:tag/:size/:ms", on_handle, (void *)(uintptr_t)&where[ON_WORKER],
                 UVHTTP_EXEC_WORKER);
    uvhttp_route_options(
        uvhttp_post(server, "/bhandle/:tag/:size/:ms", on_handle, (void *)(uintptr_t)&where[WITH_BODY]),
        &(uvhttp_route_options_t){.stream_body = true});
}

void sim_handles_check_end(void) {
    for (handle_t *next, *handle = all; handle; handle = next) {
        next = handle->next;
        if (handle->references) sim_fail("%x has %u references", handle->tag, (unsigned)handle->references);
        if (handle->ran != handle->posted)
            sim_fail("%u of %u functions of %x have run", (unsigned)handle->ran, (unsigned)handle->posted, handle->tag);
        free(handle);
    }
    all = NULL;
    if (bodies) sim_fail("%u bodies of deferred responses were not released", (unsigned)bodies);
}
