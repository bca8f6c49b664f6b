/* Owns: tests of loops on every engine: clock, timers, messages, the application's own libuv handles, life and death.
 */
#include "support/io_server.h"

#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <uvhttp/alloc.h>

#include "io/engine.h"

#if UVHTTP_WITH_URING
#include "io/io_uring.h"
#endif

static void echo_once(server_t *server) {
    int fd = client_connect(server->port);
    client_send(fd, "ping", 4);
    client_expect(fd, "ping", 4);
    close(fd);
}

/* --- names --- */

static void test_engine_names_are_parsed_in_any_case(void **state) {
    (void)state;
    uvhttp__engine_kind_t kind;
    assert_int_equal(uvhttp__engine_parse("auto", &kind), 0);
    assert_int_equal(kind, UVHTTP__ENGINE_AUTO);
    assert_int_equal(uvhttp__engine_parse("URing", &kind), 0);
    assert_int_equal(kind, UVHTTP__ENGINE_URING);
    assert_int_equal(uvhttp__engine_parse("EPoll", &kind), 0);
    assert_int_equal(kind, UVHTTP__ENGINE_EPOLL);
    kind = UVHTTP__ENGINE_AUTO;
    assert_int_equal(uvhttp__engine_parse("libuv", &kind), 0); /* its name up to 0.1 */
    assert_int_equal(kind, UVHTTP__ENGINE_EPOLL);
    assert_int_equal(uvhttp__engine_parse("", &kind), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__engine_parse("poll", &kind), UVHTTP_E_INVALID);
}

static void test_loop_says_its_engine_and_why(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    const char *expected = server->variant->kind == UVHTTP__ENGINE_URING ? "io_uring" : "epoll";
    assert_string_equal(uvhttp__loop_engine_name(server->loop), expected);
    assert_true(strlen(server->loop->reason) > 0);
}

/* --- clock and timers --- */

static size_t check_clock(uvhttp__stream_t *stream, const char *data, size_t size) {
    uint64_t sent_ns;
    if (size != sizeof sent_ns) {
        count_event(peer_of(stream)->server, EV_WRONG, 1);
        return size;
    }
    memcpy(&sent_ns, data, sizeof sent_ns);
    uint64_t now_ns = stream->loop->now_ns;
    if (now_ns > uvhttp__clock_ns()) count_event(peer_of(stream)->server, EV_WRONG, 1);
    if (stream->loop->now_ms != now_ns / 1000000) count_event(peer_of(stream)->server, EV_WRONG, 1);
    if (now_ns >= sent_ns) count_event(peer_of(stream)->server, EV_TICK, 1);
    count_event(peer_of(stream)->server, EV_BYTES, 1);
    return size;
}

/* The clock is read after the wait, not before: else every timeout set in a callback would be too short by the wait. A
 * busy machine may have the loop stand between the two, so that it is behind: five times out of a hundred are enough.
 */
static void test_clock_of_an_iteration_is_not_from_before_the_wait(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(check_clock);
    int fd = server_dial(server, &ops, "");
    for (uint64_t i = 1; i <= 100 && server_count(server, EV_TICK) < 5; i++) {
        poll(NULL, 0, 20);
        uint64_t now_ns = uvhttp__clock_ns();
        client_send(fd, &now_ns, sizeof now_ns);
        server_wait(server, EV_BYTES, i);
    }
    assert_int_equal(server_count(server, EV_TICK), 5);
    server_leave(server, fd);
}

enum { TIMERS = 4 };

typedef struct timers {
    uvhttp__timer_t timers[TIMERS];
    server_t *server;
    uint64_t set_ms; /* the loop's clock then, which may lag behind: it is read once an iteration */
    uint64_t fired_ms[TIMERS];
    int order[TIMERS];
    int count;
} timers_t;

static void on_expire(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    timers_t *timers = user;
    (void)wheel;
    int i = (int)(timer - timers->timers);
    timers->fired_ms[i] = timers->server->loop->now_ms;
    if (timers->fired_ms[i] * UVHTTP__TICKS_PER_MS < uvhttp__timer_deadline(timer))
        count_event(timers->server, EV_WRONG, 1);
    timers->order[timers->count++] = i;
    count_event(timers->server, EV_TICK, 1);
}

static void prepare_timers(server_t *server, timers_t *timers) {
    timers->server = server;
    timers->set_ms = server->loop->now_ms;
    uvhttp__timer_kind_t kind = uvhttp__wheel_kind(&server->loop->wheel, on_expire, timers);
    for (int i = 0; i < TIMERS; i++) uvhttp__timer_init(&timers->timers[i], kind);
}

static void set_timer(server_t *server, timers_t *timers, int i, uint64_t in_ms) {
    uvhttp__timer_set(&server->loop->wheel, &timers->timers[i], server->loop->now_ms + in_ms);
}

/* Of a server that it starts. */
static timers_t *start_timers(server_t *server, void (*set)(server_t *server, void *arg)) {
    static timers_t timers;
    memset(&timers, 0, sizeof timers);
    server_start(server, &echo_ops);
    server_call(server, set, &timers);
    return &timers;
}

static void set_timers(server_t *server, void *arg) {
    timers_t *timers = arg;
    prepare_timers(server, timers);
    set_timer(server, timers, 0, 60);
    set_timer(server, timers, 1, 20);
    set_timer(server, timers, 2, 40);
    set_timer(server, timers, 3, 30);
    uvhttp__timer_stop(&server->loop->wheel, &timers->timers[3]);
}

static void test_timers_fire_in_order_and_not_early(void **state) {
    server_t *server = *state;
    timers_t *timers = start_timers(server, set_timers);
    server_wait(server, EV_TICK, 3);
    assert_int_equal(timers->order[0], 1);
    assert_int_equal(timers->order[1], 2);
    assert_int_equal(timers->order[2], 0);
    assert_true(timers->fired_ms[0] >= timers->set_ms + 60);
    server_settle(server);
    assert_int_equal(server_count(server, EV_TICK), 3);
}

static void set_far_timer(server_t *server, void *arg) {
    prepare_timers(server, arg);
    set_timer(server, arg, 0, 3600 * 1000);
}

static void set_near_timer(server_t *server, void *arg) {
    set_timer(server, arg, 1, 20);
}

static void stop_far_timer(server_t *server, void *arg) {
    uvhttp__timer_stop(&server->loop->wheel, &((timers_t *)arg)->timers[0]);
}

static void test_nearer_timer_shortens_a_wait_and_a_far_one_costs_no_iterations(void **state) {
    server_t *server = *state;
    timers_t *timers = start_timers(server, set_far_timer);
    server_settle(server);
    unsigned iterations = atomic_load(&server->iterations);
    poll(NULL, 0, 100);
    assert_true(atomic_load(&server->iterations) - iterations <= 10);
    server_call(server, set_near_timer, timers);
    server_wait(server, EV_TICK, 1); /* an hour, if it were for the far one */
    assert_int_equal(timers->order[0], 1);
    server_call(server, stop_far_timer, timers);
}

static void set_and_put_off_timer(server_t *server, void *arg) {
    prepare_timers(server, arg);
    set_timer(server, arg, 1, 10);
    for (uint64_t in_ms = 20; in_ms <= 80; in_ms += 20) set_timer(server, arg, 1, in_ms);
}

static void test_timer_that_is_put_off_fires_at_its_new_time(void **state) {
    server_t *server = *state;
    timers_t *timers = start_timers(server, set_and_put_off_timer);
    server_wait(server, EV_TICK, 1);
    assert_true(timers->fired_ms[1] >= timers->set_ms + 80);
    server_settle(server);
    assert_int_equal(server_count(server, EV_TICK), 1);
}

enum { CROWD = 4 * UVHTTP__ITERATION_TIMERS_MAX + 1 };

typedef struct crowd {
    uvhttp__timer_t timers[CROWD];
    server_t *server;
    uint64_t iteration, in_iteration, in_iteration_max, iterations;
} crowd_t;

static void on_expire_in_crowd(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)timer;
    crowd_t *crowd = user;
    uint64_t iteration = crowd->server->loop->iteration_number;
    crowd->in_iteration = iteration == crowd->iteration ? crowd->in_iteration + 1 : 1;
    crowd->iterations += iteration != crowd->iteration;
    crowd->iteration = iteration;
    if (crowd->in_iteration > crowd->in_iteration_max) crowd->in_iteration_max = crowd->in_iteration;
    count_event(crowd->server, EV_TICK, 1);
}

static void set_crowd(server_t *server, void *arg) {
    crowd_t *crowd = arg;
    crowd->server = server;
    uvhttp__timer_kind_t kind = uvhttp__wheel_kind(&server->loop->wheel, on_expire_in_crowd, crowd);
    for (int i = 0; i < CROWD; i++) {
        uvhttp__timer_init(&crowd->timers[i], kind);
        uvhttp__timer_set(&server->loop->wheel, &crowd->timers[i], server->loop->now_ms + 20);
    }
}

static void test_timers_that_are_due_together_share_iterations_with_what_arrives(void **state) {
    server_t *server = *state;
    static crowd_t crowd;
    memset(&crowd, 0, sizeof crowd);
    server_start(server, &echo_ops);
    server_call(server, set_crowd, &crowd);
    server_wait(server, EV_TICK, CROWD);
    assert_int_equal(crowd.in_iteration_max, UVHTTP__ITERATION_TIMERS_MAX);
    assert_int_equal(crowd.iterations, 5);
}

enum { LONG_ITERATION_MS = 100 };

static void set_timer_and_take_long(server_t *server, void *arg) {
    prepare_timers(server, arg);
    set_timer(server, arg, 0, LONG_ITERATION_MS);
    poll(NULL, 0, LONG_ITERATION_MS);
}

/* A wait that were counted from the start of the iteration would be as long again, unless the wheel has sorting to do,
 * which it has at most once in a second. A busy machine makes any single one late. */
static void test_timer_that_falls_due_in_a_long_iteration_is_not_waited_for(void **state) {
    server_t *server = *state;
    static timers_t timers;
    int in_a_row = 0;
    server_start(server, &echo_ops);
    for (uint64_t i = 1; i <= 50 && in_a_row < 3; i++) {
        memset(&timers, 0, sizeof timers);
        server_call(server, set_timer_and_take_long, &timers);
        server_wait(server, EV_TICK, i);
        uint64_t late_ms = timers.fired_ms[0] - (timers.set_ms + LONG_ITERATION_MS);
        in_a_row = late_ms < LONG_ITERATION_MS / 2 ? in_a_row + 1 : 0;
    }
    assert_int_equal(in_a_row, 3);
}

typedef struct between {
    server_t *server;
    uvhttp__timer_t timer;
} between_t;

/* What the epoll engine has set last, in this thread. */
static _Thread_local struct timespec timerfd_time;

int timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *before) {
    timerfd_time = time->it_value;
    return (int)syscall(SYS_timerfd_settime, fd, flags, time, before);
}

/* The moment at which the kernel wakes the loop. */
static uint64_t wake_ns(server_t *server) {
    (void)server;
#if UVHTTP_WITH_URING
    const struct __kernel_timespec *time = &uvhttp__uring_of(server->loop)->timer;
    if (server->variant->kind == UVHTTP__ENGINE_URING) return (uint64_t)(time->tv_sec * 1000000000 + time->tv_nsec);
#endif
    return (uint64_t)(timerfd_time.tv_sec * 1000000000 + timerfd_time.tv_nsec);
}

/* Less than 2 ms from now, and right behind a whole one. */
static void set_between(between_t *between) {
    uvhttp__loop_t *loop = between->server->loop;
    uvhttp__timer_set_after(&loop->wheel, &between->timer, (loop->now_ms + 1) * 1000000u + 1, 1);
}

/* A loop that is late does not wait, and engines may omit a timer then: another try. */
static void on_between(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel;
    between_t *between = user;
    uint64_t due_ns = uvhttp__timer_deadline(timer) * UVHTTP__TICK_NS;
    if (between->server->loop->now_ns < due_ns) count_event(between->server, EV_WRONG, 1);
    if (wake_ns(between->server) == due_ns)
        count_event(between->server, EV_TICK, 1);
    else
        set_between(between);
}

static void begin_between(server_t *server, void *arg) {
    between_t *between = arg;
    *between = (between_t){.server = server};
    uvhttp__timer_init(&between->timer, uvhttp__wheel_kind(&server->loop->wheel, on_between, between));
    set_between(between);
}

/* How late it is then depends on the machine. */
static void test_a_loop_is_woken_between_two_milliseconds(void **state) {
    server_t *server = *state;
    static between_t between;
    server_start(server, &echo_ops);
    server_call(server, begin_between, &between);
    server_wait(server, EV_TICK, 1);
}

/* --- messages --- */

enum { PRODUCERS = 4, MESSAGES = 5000 };

typedef struct message {
    uvhttp__post_t post;
    server_t *server;
    int producer, number;
} message_t;

typedef struct producer {
    server_t *server;
    int number;
    pthread_t thread;
    message_t *messages;
} producer_t;

static int last_seen[PRODUCERS];

static void on_message(uvhttp__post_t *post) {
    message_t *message = UVHTTP__CONTAINER_OF(post, message_t, post);
    if (message->number != last_seen[message->producer] + 1) count_event(message->server, EV_WRONG, 1);
    last_seen[message->producer] = message->number;
    count_event(message->server, EV_TICK, 1);
}

static void *produce(void *arg) {
    producer_t *producer = arg;
    for (int i = 0; i < MESSAGES; i++) {
        message_t *message = &producer->messages[i];
        *message = (message_t){
            .post = {.run = on_message}, .server = producer->server, .producer = producer->number, .number = i + 1};
        uvhttp__loop_post(producer->server->loop, &message->post);
    }
    return NULL;
}

static void test_messages_of_four_threads_all_arrive_in_their_order(void **state) {
    server_t *server = *state;
    producer_t producers[PRODUCERS];
    memset(last_seen, 0, sizeof last_seen);
    server_start(server, &echo_ops);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] =
            (producer_t){.server = server, .number = i, .messages = malloc(MESSAGES * sizeof *producers[i].messages)};
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    echo_once(server); /* and the streams continue meanwhile */
    for (int i = 0; i < PRODUCERS; i++) pthread_join(producers[i].thread, NULL);
    server_wait(server, EV_TICK, PRODUCERS * MESSAGES);
    for (int i = 0; i < PRODUCERS; i++) free(producers[i].messages);
    server_wait(server, EV_CLOSED, 1);
}

static void repost(uvhttp__post_t *post) {
    message_t *message = UVHTTP__CONTAINER_OF(post, message_t, post);
    server_t *server = message->server;
    if (message->number-- > 1) uvhttp__loop_post(server->loop, post);
    count_event(server, EV_TICK, 1); /* from now on the message may be gone */
}

static void test_message_may_post_itself_again_without_starving_streams(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    message_t message = {.post = {.run = repost}, .server = server, .number = 2000};
    uvhttp__loop_post(server->loop, &message.post);
    echo_once(server);
    server_wait(server, EV_TICK, 2000);
    assert_true(atomic_load(&server->iterations) >= 1999); /* one an iteration, so that others get theirs */
    server_wait(server, EV_CLOSED, 1);
}

static message_t late_message;

static void post_and_stop(server_t *server, void *arg) {
    (void)arg;
    late_message = (message_t){.post = {.run = repost}, .server = server, .number = 3};
    uvhttp__loop_stop(server->loop);
    uvhttp__loop_post(server->loop, &late_message.post);
}

static void test_messages_pending_at_stop_run_before_run_returns(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    server_call(server, close_listener, NULL);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    server_call(server, post_and_stop, NULL);
    server_join(server);
    assert_int_equal(server_count(server, EV_TICK), 3);
}

/* --- the application's own handles --- */

typedef struct application {
    uv_timer_t timer;
    uv_async_t async;
    server_t *server;
    int timer_count;
} application_t;

static void app_on_timer(uv_timer_t *timer) {
    application_t *app = timer->data;
    app->timer_count++;
    count_event(app->server, EV_TICK, 1);
}

static void app_on_async(uv_async_t *async) {
    application_t *app = async->data;
    count_event(app->server, EV_SENT, 1);
}

static void app_start(server_t *server, void *arg) {
    application_t *app = arg;
    app->server = server;
    uv_timer_init(server->loop->uv, &app->timer);
    uv_async_init(server->loop->uv, &app->async, app_on_async);
    app->timer.data = app->async.data = app;
    uv_timer_start(&app->timer, app_on_timer, 5, 5);
}

static void app_stop(server_t *server, void *arg) {
    application_t *app = arg;
    (void)server;
    uv_close((uv_handle_t *)&app->timer, NULL);
    uv_close((uv_handle_t *)&app->async, NULL);
}

static void test_applications_own_timer_and_async_work_at_the_same_time(void **state) {
    server_t *server = *state;
    static application_t app;
    memset(&app, 0, sizeof app);
    server_start(server, &echo_ops);
    server_call(server, app_start, &app);
    for (uint64_t i = 1; i <= 10; i++) {
        echo_once(server);
        assert_int_equal(uv_async_send(&app.async), 0);
        server_wait(server, EV_SENT, i);
        server_wait(server, EV_CLOSED, i);
    }
    server_wait(server, EV_TICK, 5);
    server_call(server, app_stop, &app);
    server_settle(server);
    uint64_t ticks = server_count(server, EV_TICK);
    poll(NULL, 0, 20);
    assert_int_equal(server_count(server, EV_TICK), ticks);
}

/* Output that the application makes in a callback of its own handle goes out without another event. */
static void app_send(uv_timer_t *timer) {
    application_t *app = timer->data;
    peer_t *peer = server_first_peer(app->server);
    if (peer) uvhttp__stream_send_copy(&peer->stream, "tick", 4);
    uv_timer_stop(timer);
}

static void app_start_sending(server_t *server, void *arg) {
    app_start(server, arg);
    uv_timer_start(&((application_t *)arg)->timer, app_send, 20, 0);
}

static void test_output_made_in_an_applications_callback_is_sent(void **state) {
    server_t *server = *state;
    static application_t app;
    memset(&app, 0, sizeof app);
    int fd = server_dial(server, &echo_ops, "");
    server_wait(server, EV_OPENED, 1);
    server_call(server, app_start_sending, &app);
    client_expect(fd, "tick", 4);
    server_call(server, app_stop, &app);
    server_settle(server);
    server_leave(server, fd);
}

/* --- output at the end of an iteration --- */

static void send_in_iteration_end(uvhttp__loop_t *loop, void *arg) {
    server_t *server = arg;
    (void)loop;
    atomic_fetch_add(&server->iterations, 1);
    peer_t *peer = server_first_peer(server);
    if (!peer || peer->budget == 0) return;
    peer->budget = 0;
    uvhttp__stream_send_copy(&peer->stream, "batch", 5);
}

static size_t remember(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    peer_of(stream)->budget = 1;
    return size;
}

static void test_output_made_at_the_end_of_an_iteration_is_sent_in_it(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(remember);
    server->options.on_iteration_end = send_in_iteration_end;
    int fd = server_dial(server, &ops, "");
    for (int i = 0; i < 3; i++) {
        client_send(fd, "x", 1);
        client_expect(fd, "batch", 5);
    }
    server_leave(server, fd);
}

/* --- the iteration arena --- */

static size_t respond_with_large_iteration_arena(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    static const size_t sizes[] = {1, 100, 70000, 10, 300000, 65536, 1};
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *memory = uvhttp__loop_iteration_alloc(stream->loop, sizes[i] + 50);
        if (!memory) count_event(peer_of(stream)->server, EV_WRONG, 1);
        for (size_t k = 0; k < sizes[i]; k++) memory[k] = pattern_at(at + k);
        at += sizes[i];
        uvhttp__loop_iteration_trim(stream->loop, memory + sizes[i]);
        uvhttp__stream_send_iteration(stream, memory, sizes[i]);
    }
    return size;
}

static void test_iteration_memory_of_every_size_is_sent_as_written(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(respond_with_large_iteration_arena);
    enum { SIZE = 1 + 100 + 70000 + 10 + 300000 + 65536 + 1 };
    char *data = pattern_new(SIZE);
    int fd = server_dial(server, &ops, "");
    for (int i = 0; i < 20; i++) {
        client_send(fd, "x", 1);
        client_expect(fd, data, SIZE);
    }
    server_leave(server, fd);
    free(data);
}

/* --- life --- */

static void test_loop_made_on_another_thread_than_it_runs_on(void **state) {
    server_t *server = *state;
    int status = uvhttp__loop_new(&server->options, &server->loop);
    if (status == UVHTTP_E_UNSUPPORTED) skip();
    assert_int_equal(status, 0);
    server_start(server, &echo_ops); /* runs it in the server's thread */
    echo_once(server);
    server_wait(server, EV_CLOSED, 1);
}

static void on_freed(void *arg) {
    ++*(int *)arg;
}

static void test_loop_that_never_ran_can_be_freed(void **state) {
    server_t *server = *state;
    int freed = 0;
    for (int i = 0; i < 5; i++) {
        if (server->variant->guest) {
            assert_int_equal(uv_loop_init(&server->embedding), 0);
            server->options.embedding = &server->embedding;
        }
        int status = uvhttp__loop_new(&server->options, &server->loop);
        if (status == UVHTTP_E_UNSUPPORTED) {
            if (server->variant->guest) uv_loop_close(&server->embedding);
            skip();
        }
        assert_int_equal(status, 0);
        uvhttp__loop_free(server->loop, on_freed, &freed);
        if (server->variant->guest) {
            assert_int_equal(freed, i); /* not inside the call */
            assert_int_equal(uv_run(&server->embedding, UV_RUN_DEFAULT), 0);
            assert_int_equal(uv_loop_close(&server->embedding), 0);
        }
        assert_int_equal(freed, i + 1);
    }
}

static void test_handles_left_open_on_a_loop_that_ends_can_still_be_closed(void **state) {
    server_t *server = *state;
    static uv_timer_t timers[2]; /* all that still knows the memory of the loops */
    uv_timer_t *timer = &timers[server->variant->kind == UVHTTP__ENGINE_URING];
    assert_int_equal(uvhttp__loop_new(&server->options, &server->loop), 0);
    assert_int_equal(uv_timer_init(server->loop->uv, timer), 0);
    timer->loop->data = server;
    int freed = 0;
    uvhttp__loop_free(server->loop, on_freed, &freed);
    assert_int_equal(freed, 1);
    assert_ptr_equal(timer->loop->data, server);
    uv_close((uv_handle_t *)timer, NULL);
    assert_int_equal(uv_run(timer->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(timer->loop), 0);
}

static atomic_long allocations, fail_at; /* the n-th allocation fails; 0: none */

static bool allocation_fails(void) {
    return atomic_fetch_add(&allocations, 1) + 1 == atomic_load(&fail_at);
}

static void *hook_malloc(size_t size, void *user) {
    (void)user;
    return allocation_fails() ? NULL : malloc(size);
}

static void *hook_calloc(size_t count, size_t size, void *user) {
    (void)user;
    return allocation_fails() ? NULL : calloc(count, size);
}

static void *hook_realloc(void *memory, size_t size, void *user) {
    (void)user;
    return allocation_fails() ? NULL : realloc(memory, size);
}

static void hook_free(void *memory, void *user) {
    (void)user;
    free(memory);
}

static void set_hook(void) {
    static const uvhttp_allocator_t allocator = {
        .malloc = hook_malloc, .calloc = hook_calloc, .realloc = hook_realloc, .free = hook_free};
    if (uvhttp_set_allocator(&allocator) != 0) fail_msg("the allocator was not taken");
}

static void test_loop_new_survives_every_failing_allocation(void **state) {
    server_t *server = *state;
    int status = UVHTTP_E_NOMEM;
    for (long n = 1; status != 0; n++) {
        assert_true(n < 100);
        if (server->variant->guest) {
            assert_int_equal(uv_loop_init(&server->embedding), 0);
            server->options.embedding = &server->embedding;
        }
        atomic_store(&allocations, 0);
        atomic_store(&fail_at, n);
        status = uvhttp__loop_new(&server->options, &server->loop);
        atomic_store(&fail_at, 0);
        bool unsupported = status == UVHTTP_E_UNSUPPORTED;
        if (status == 0) uvhttp__loop_free(server->loop, NULL, NULL);
        if (server->variant->guest) {
            uv_run(&server->embedding, UV_RUN_DEFAULT);
            assert_int_equal(uv_loop_close(&server->embedding), 0);
        }
        if (unsupported) skip();
        if (status != 0) {
            assert_int_equal(status, UVHTTP_E_NOMEM);
            assert_null(server->loop);
        } else {
            assert_true(n > 1);
        }
    }
}

static void fail_nth_from_now(long n) {
    atomic_store(&allocations, 0);
    atomic_store(&fail_at, n);
}

static size_t echo_or_close(uvhttp__stream_t *stream, const char *data, size_t size) {
    if (uvhttp__stream_send_copy(stream, data, size) != 0) peer_close(peer_of(stream));
    return size;
}

static void accept_or_close(uvhttp__listener_t *listener, int fd) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    peer_t *peer = peer_new(server);
    uvhttp__stream_open(&peer->stream, server->loop, fd, false, server->ops);
    count_event(server, EV_OPENED, 1);
    if (uvhttp__stream_read_start(&peer->stream) != 0) peer_close(peer);
}

static void fail_at_end(server_t *server, const char *why) {
    fail_nth_from_now(0);
    fail_msg("neither answered nor closed: %s; %llu opened, %llu closed", why,
             (unsigned long long)server_count(server, EV_OPENED), (unsigned long long)server_count(server, EV_CLOSED));
}

/* Any allocation may fail while connections come and go: one of them may be lost, the server not. */
static void test_server_survives_a_failing_allocation_anywhere(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(echo_or_close);
    server->listener_ops.on_accept = accept_or_close;
    server_start(server, &ops);
    for (long n = 1; n <= 12; n++) {
        fail_nth_from_now(n);
        int fd = client_connect(server->port);
        char big[30000];
        memset(big, 'x', sizeof big);
        if (send(fd, big, sizeof big, MSG_NOSIGNAL) == (ssize_t)sizeof big) {
            ssize_t got;
            do { /* the kernel's cleaning up after an io_uring may interrupt it */
                got = recv(fd, big, sizeof big, 0);
            } while (got < 0 && errno == EINTR);
            if (got < 0 && errno != ECONNRESET) fail_at_end(server, strerror(errno));
        }
        close(fd);
        fail_nth_from_now(0);
        echo_once(server);
    }
    server_wait(server, EV_CLOSED, server_count(server, EV_OPENED));
}

/* The same while everything is being closed with data under way in both directions. */
static void test_closing_survives_a_failing_allocation_anywhere(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(echo_or_close);
    enum { CLIENTS = 4, SIZE = 1024 * 1024 };
    char *data = pattern_new(SIZE);
    server->listener_ops.on_accept = accept_or_close;
    server_start(server, &ops);
    for (long n = 1; n <= 30; n++) {
        int fds[CLIENTS];
        fail_nth_from_now(n);
        for (int i = 0; i < CLIENTS; i++) {
            fds[i] = client_connect(server->port);
            while (send(fds[i], data, SIZE, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
            }
        }
        server_call(server, close_peers, NULL);
        fail_nth_from_now(0);
        for (int i = 0; i < CLIENTS; i++) close(fds[i]);
        echo_once(server);
        server_wait(server, EV_CLOSED, server_count(server, EV_OPENED));
    }
    free(data);
}

int main(void) {
    set_hook();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_names_are_parsed_in_any_case),
        ON_EACH(test_loop_says_its_engine_and_why),
        ON_EACH(test_clock_of_an_iteration_is_not_from_before_the_wait),
        ON_EACH(test_timers_fire_in_order_and_not_early),
        ON_EACH(test_nearer_timer_shortens_a_wait_and_a_far_one_costs_no_iterations),
        ON_EACH(test_timer_that_is_put_off_fires_at_its_new_time),
        ON_EACH(test_timer_that_falls_due_in_a_long_iteration_is_not_waited_for),
        ON_EACH(test_timers_that_are_due_together_share_iterations_with_what_arrives),
        ON_OWN_LOOPS(test_a_loop_is_woken_between_two_milliseconds),
        ON_EACH(test_messages_of_four_threads_all_arrive_in_their_order),
        ON_EACH(test_message_may_post_itself_again_without_starving_streams),
        ON_OWN_LOOPS(test_messages_pending_at_stop_run_before_run_returns),
        ON_EACH(test_applications_own_timer_and_async_work_at_the_same_time),
        ON_EACH(test_output_made_in_an_applications_callback_is_sent),
        ON_EACH(test_output_made_at_the_end_of_an_iteration_is_sent_in_it),
        ON_EACH(test_iteration_memory_of_every_size_is_sent_as_written),
        ON_OWN_LOOPS(test_loop_made_on_another_thread_than_it_runs_on),
        ON_EACH(test_loop_that_never_ran_can_be_freed),
        ON_OWN_LOOPS(test_handles_left_open_on_a_loop_that_ends_can_still_be_closed),
        ON_EACH(test_loop_new_survives_every_failing_allocation),
        ON_EACH(test_server_survives_a_failing_allocation_anywhere),
        ON_EACH(test_closing_survives_a_failing_allocation_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
