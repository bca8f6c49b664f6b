/* What the loop does when the kernel refuses a submission, consumes a part of it, loses completions, or never stops to
 * refuse. The functions of liburing that submit are this program's own here: they refuse when a test wants them to, and
 * let completions arrive all the same. And the rest of the class: accepting that fails for good, a backlog that does
 * not end, messages to a guest that closes. */
#include "support/io_server.h"

#if UVHTTP_WITH_URING
#include <dlfcn.h>
#include <liburing.h>

#include "io/io_uring.h"

enum { HALF = 1000000, ONE }; /* instead of an errno: half of the entries are consumed, or one in every second call */

static atomic_int refuse_error;  /* errno of a refusal */
static atomic_int refuse_left;   /* calls that are refused; < 0: all */
static atomic_int refuse_every;  /* 0, or which of the calls that submit something are refused */
static atomic_int refuse_events; /* calls that fetch completions and are refused */
static atomic_int drop_completion;
static atomic_uint refused_count, calls, streak; /* streak: of refusals, the most that the loop has counted */
static int (*real_submit)(struct io_uring *ring), (*real_get_events)(struct io_uring *ring),
    (*real_and_get_events)(struct io_uring *ring), (*real_and_wait)(struct io_uring *ring, unsigned wait_nr),
    (*real_and_wait_timeout)(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned wait_nr,
                             struct __kernel_timespec *ts, sigset_t *mask);

static __attribute__((constructor(101))) void find_real(void) {
    *(void **)&real_submit = dlsym(RTLD_NEXT, "io_uring_submit");
    *(void **)&real_get_events = dlsym(RTLD_NEXT, "io_uring_get_events");
    *(void **)&real_and_get_events = dlsym(RTLD_NEXT, "io_uring_submit_and_get_events");
    *(void **)&real_and_wait = dlsym(RTLD_NEXT, "io_uring_submit_and_wait");
    *(void **)&real_and_wait_timeout = dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
}

static bool refuses(const struct io_uring *ring) {
    if (atomic_load(&drop_completion)) {
        atomic_store(&drop_completion, 0);
        __atomic_add_fetch(ring->cq.koverflow, 1, __ATOMIC_RELAXED);
    }
    int left = atomic_load(&refuse_left), every = atomic_load(&refuse_every);
    bool something = ring->sq.sqe_tail != *ring->sq.khead;
    if (left < 0) return true;
    if (something && left > 0) return atomic_fetch_sub(&refuse_left, 1) > 0;
    return something && every > 0 && atomic_fetch_add(&calls, 1) % (unsigned)every != 0;
}

/* Completions come although nothing is submitted: that is what makes a loop continue. */
static int refuse(struct io_uring *ring) {
    atomic_fetch_add(&refused_count, 1);
    const uvhttp__uring_t *uring = UVHTTP__CONTAINER_OF(ring, uvhttp__uring_t, ring);
    if (uring->refusals.count > atomic_load(&streak)) atomic_store(&streak, uring->refusals.count);
    if (atomic_load(&refuse_error) < HALF) {
        if (atomic_load(&refuse_left) >= 0) real_get_events(ring);
        return -atomic_load(&refuse_error);
    }
    unsigned tail = ring->sq.sqe_tail;
    if (atomic_load(&refuse_error) == ONE && atomic_fetch_add(&calls, 1) % 2) return -EAGAIN;
    unsigned share = atomic_load(&refuse_error) == HALF ? (tail - ring->sq.sqe_head) / 2 : 1;
    ring->sq.sqe_tail = ring->sq.sqe_head + share;
    int status = real_submit(ring);
    ring->sq.sqe_tail = tail;
    real_get_events(ring);
    return status;
}

int io_uring_submit(struct io_uring *ring) {
    return refuses(ring) ? refuse(ring) : real_submit(ring);
}

int io_uring_submit_and_get_events(struct io_uring *ring) {
    return refuses(ring) ? refuse(ring) : real_and_get_events(ring);
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr) {
    return refuses(ring) ? refuse(ring) : real_and_wait(ring, wait_nr);
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned wait_nr,
                                     struct __kernel_timespec *ts, sigset_t *mask) {
    return refuses(ring) ? refuse(ring) : real_and_wait_timeout(ring, cqe, wait_nr, ts, mask);
}

int io_uring_get_events(struct io_uring *ring) {
    if (atomic_load(&refuse_left) < 0) return -atomic_load(&refuse_error);
    if (atomic_load(&refuse_events) > 0 && atomic_fetch_sub(&refuse_events, 1) > 0) {
        atomic_fetch_add(&refused_count, 1);
        return -ENOMEM;
    }
    return real_get_events(ring);
}

static int refusal_teardown(void **state) {
    atomic_store(&refuse_left, 0);
    atomic_store(&refuse_every, 0);
    atomic_store(&refuse_events, 0);
    return server_teardown(state);
}

static int refusal_setup(void **state) {
    atomic_store(&refused_count, 0);
    return server_setup(state);
}

#define ON_REFUSALS(test)                                                                                              \
    {#test " (uring_own)", test, refusal_setup, refusal_teardown, &uring_own}, {                                       \
#test " (uring_guest)", test, refusal_setup, refusal_teardown, &uring_guest                                    \
    }

/* --- memory stays until the kernel has consumed what refers to it --- */

enum { CLIENTS = 8, ROUNDS = 60, ROUND_SIZE = 12000 };

static void fill_round(char *data, int client, int round) {
    for (int i = 0; i < ROUND_SIZE; i++) data[i] = (char)(client * 37 + round * 11 + i * 31 + i / 251);
}

static void check_echoes(server_t *server, int error, int every) {
    static char data[ROUND_SIZE];
    int fds[CLIENTS];
    server_start(server, &echo_ops); /* with a preflight that is not refused */
    atomic_store(&refuse_error, error);
    atomic_store(&refuse_every, every);
    for (int i = 0; i < CLIENTS; i++) fds[i] = client_connect(server->port);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            fill_round(data, i, round);
            client_send(fds[i], data, sizeof data);
        }
        for (int i = 0; i < CLIENTS; i++) {
            fill_round(data, i, round);
            client_expect(fds[i], data, sizeof data);
        }
    }
    assert_true(atomic_load(&refused_count) > 20);
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    server_wait(server, EV_CLOSED, CLIENTS);
}

static void test_refused_submissions_keep_their_memory(void **state) {
    check_echoes(*state, EAGAIN, 3);
}

static void test_submissions_consumed_in_part_keep_the_rest(void **state) {
    check_echoes(*state, HALF, 2);
}

/* --- more entries than the queue has space for --- */

enum { MANY = 1200, MANY_SIZE = 100 };

static void allow_descriptors(server_t *server) {
    struct rlimit limit = server->nofile_before;
    if (limit.rlim_max < 3 * MANY) skip();
    limit.rlim_cur = limit.rlim_max < 8 * MANY ? limit.rlim_max : 8 * MANY;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void send_to_all(server_t *server, void *arg) {
    uvhttp__list_t *node, *next;
    int number = 0;
    (void)arg;
    UVHTTP__LIST_FOREACH_SAFE(node, next, &server->peers) {
        peer_t *peer = UVHTTP__CONTAINER_OF(node, peer_t, link);
        char text[MANY_SIZE];
        memset(text, 'a' + number++ % 26, sizeof text);
        if (uvhttp__stream_send_copy(&peer->stream, text, sizeof text) != 0) count_event(server, EV_WRONG, 1);
    }
}

static void connect_many(server_t *server, int *fds) {
    allow_descriptors(server);
    server_start(server, &echo_ops);
    for (int i = 0; i < MANY; i++) {
        fds[i] = client_connect(server->port);
        server_wait(server, EV_OPENED, (uint64_t)i + 1);
    }
}

/* What send_to_all sends to the clients of connect_many. */
static void expect_from_all(const int *fds) {
    for (int i = 0; i < MANY; i++) {
        char text[MANY_SIZE];
        memset(text, 'a' + i % 26, sizeof text);
        client_expect(fds[i], text, sizeof text);
    }
}

static void close_many(server_t *server, const int *fds) {
    for (int i = 0; i < MANY; i++) close(fds[i]);
    server_wait(server, EV_CLOSED, MANY);
}

static void test_full_queue_keeps_entries_in_order(void **state) {
    server_t *server = *state;
    int fds[MANY];
    connect_many(server, fds);
    for (int round = 0; round < 3; round++) {
        atomic_store(&refuse_error, round == 2 ? HALF : EAGAIN);
        atomic_store(&refuse_left, 6);
        server_call(server, send_to_all, NULL);
        expect_from_all(fds);
    }
    assert_true(atomic_load(&refused_count) >= 12);
    close_many(server, fds);
}

/* However long it takes: the kernel has not refused everything. */
static void test_little_that_is_consumed_is_no_refusal_without_end(void **state) {
    server_t *server = *state;
    int fds[MANY];
    connect_many(server, fds);
    atomic_store(&streak, 0);
    atomic_store(&refuse_error, ONE);
    atomic_store(&refuse_left, 400);
    server_call(server, send_to_all, NULL);
    expect_from_all(fds);
    assert_int_equal(atomic_load(&refuse_left), 0);
    assert_in_range(atomic_load(&streak), 0, 2);
    close_many(server, fds);
}

/* --- completions that wait for the queue, or are lost --- */

typedef struct late_call {
    uvhttp__post_t post;
    pthread_barrier_t barrier;
} late_call_t;

static void wait_for_clients(uvhttp__post_t *post) {
    late_call_t *late = UVHTTP__CONTAINER_OF(post, late_call_t, post);
    pthread_barrier_wait(&late->barrier);
    pthread_barrier_wait(&late->barrier);
}

static void test_overflow_that_cannot_be_fetched_is_fetched_later(void **state) {
    server_t *server = *state;
    int fds[MANY];
    connect_many(server, fds);
    late_call_t late = {.post = {.run = wait_for_clients}};
    pthread_barrier_init(&late.barrier, NULL, 2);
    uvhttp__loop_post(server->loop, &late.post);
    pthread_barrier_wait(&late.barrier);
    for (int i = 0; i < MANY; i++) { /* more completions than the queue holds, all in one iteration */
        char text[MANY_SIZE];
        memset(text, 'a' + i % 26, sizeof text);
        client_send(fds[i], text, sizeof text);
    }
    atomic_store(&refuse_events, 3);
    pthread_barrier_wait(&late.barrier);
    expect_from_all(fds);
    /* A loop of our own has the kernel run no more at once than it waits for: its queue does not overflow this way. */
    if (server->variant->guest) assert_int_equal(atomic_load(&refuse_events), 0);
    server_settle(server);
    pthread_barrier_destroy(&late.barrier);
    close_many(server, fds);
}

static void on_failed(uvhttp__loop_t *loop, void *arg) {
    server_t *server = arg;
    if (loop->failure != atomic_load(&refuse_error)) count_event(server, EV_WRONG, 1);
    close_everything(server, NULL);
    count_event(server, EV_TICK, 1);
}

/* Streams that are open, that close, and that have output: none is left, and no descriptor. */
static void fail_with_streams(server_t *server, void (*begin)(void)) {
    int fds[4];
    server->options.on_failed = on_failed;
    server_start(server, &echo_ops);
    for (int i = 0; i < 4; i++) fds[i] = client_connect(server->port);
    server_wait(server, EV_OPENED, 4);
    client_send(fds[0], "x", 1);
    client_expect(fds[0], "x", 1);
    begin();
    shutdown(fds[1], SHUT_WR);
    client_send(fds[2], "y", 1);
    server_call(server, send_to_all, NULL);
    server_wait(server, EV_TICK, 1);
    server_wait(server, EV_CLOSED, 4);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    for (int i = 0; i < 4; i++) {
        char rest[4 * MANY_SIZE];
        while (recv(fds[i], rest, sizeof rest, 0) > 0) {
        }
        close(fds[i]);
    }
}

static void forbid(void) {
    atomic_store(&refuse_error, EPERM);
    atomic_store(&refuse_left, -1);
}

static void lose(void) {
    atomic_store(&refuse_error, EBADR);
    atomic_store(&drop_completion, 1);
}

static void test_refusal_without_end_fails_the_loop(void **state) {
    fail_with_streams(*state, forbid);
}

static void test_lost_completion_fails_the_loop(void **state) {
    fail_with_streams(*state, lose);
}

/* The queue is full, and what it refuses now fails the loop: nobody submits the close any more. */
static void close_behind_a_full_queue(uvhttp__stream_t *stream, int status) {
    (void)status;
    atomic_store(&refuse_error, EBADR);
    atomic_store(&refuse_left, -1);
    for (struct io_uring_sqe *sqe; (sqe = io_uring_get_sqe(&uvhttp__uring_of(stream->loop)->ring));) {
        io_uring_prep_nop(sqe);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        sqe->user_data = 0;
    }
    peer_close(peer_of(stream));
}

static const uvhttp__stream_ops_t closing_ops = {.on_data = peer_swallow,
                                                 .on_end = close_behind_a_full_queue,
                                                 .on_sent = peer_count_sent,
                                                 .on_closed = peer_on_closed};

static void test_a_close_that_fails_the_loop_closes(void **state) {
    server_t *server = *state;
    server->options.on_failed = on_failed;
    server_start(server, &closing_ops);
    int fd = client_connect(server->port);
    server_wait(server, EV_OPENED, 1);
    shutdown(fd, SHUT_WR);
    server_wait(server, EV_TICK, 1);
    server_wait(server, EV_CLOSED, 1);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

/* --- closing while refused --- */

static void test_streams_close_once_while_refused(void **state) {
    server_t *server = *state;
    int fds[CLIENTS];
    server_start(server, &echo_ops);
    for (int i = 0; i < CLIENTS; i++) fds[i] = client_connect(server->port);
    server_wait(server, EV_OPENED, CLIENTS);
    atomic_store(&refuse_error, ENOMEM);
    atomic_store(&refuse_left, 12);
    server_call(server, send_to_all, NULL); /* plain sends: they point at streams that close now */
    server_call(server, close_peers, NULL);
    server_wait(server, EV_CLOSED, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        char text[MANY_SIZE + 1];
        size_t size = 0;
        for (ssize_t got; (got = recv(fds[i], text + size, sizeof text - size, 0)) > 0;) size += (size_t)got;
        assert_true(size <= MANY_SIZE);
        for (size_t at = 0; at < size; at++) assert_int_equal(text[at], 'a' + i);
        close(fds[i]);
    }
    assert_int_equal(server_count(server, EV_CLOSED), CLIENTS);
}

#define REFUSAL_TESTS                                                                                                  \
    ON_REFUSALS(test_refused_submissions_keep_their_memory),                                                           \
        ON_REFUSALS(test_submissions_consumed_in_part_keep_the_rest),                                                  \
        ON_REFUSALS(test_full_queue_keeps_entries_in_order),                                                           \
        ON_REFUSALS(test_little_that_is_consumed_is_no_refusal_without_end),                                           \
        ON_REFUSALS(test_overflow_that_cannot_be_fetched_is_fetched_later),                                            \
        ON_REFUSALS(test_refusal_without_end_fails_the_loop), ON_REFUSALS(test_lost_completion_fails_the_loop),        \
        ON_REFUSALS(test_a_close_that_fails_the_loop_closes), ON_REFUSALS(test_streams_close_once_while_refused),
#else
#define REFUSAL_TESTS
#endif

/* --- two sends of one stream in one flush --- */

enum { LATE_SIZE = 6 * 1024 * 1024 };

static void end_and_send_on_the_first(uvhttp__stream_t *stream, int status) {
    server_t *server = peer_of(stream)->server;
    (void)status;
    peer_t *first = server_first_peer(server);
    if (first != peer_of(stream) && uvhttp__stream_send_copy(&first->stream, "tail", 4) != 0)
        count_event(server, EV_WRONG, 1);
    peer_close(peer_of(stream));
}

static const uvhttp__stream_ops_t late_ops = {.on_data = peer_swallow,
                                              .on_end = end_and_send_on_the_first,
                                              .on_sent = peer_count_sent,
                                              .on_closed = peer_on_closed};

/* The second stream breaks while it is submitted: its file is shorter than was said. */
static void send_and_break(server_t *server, void *arg) {
    peer_t *first = server_first_peer(server);
    peer_t *second = UVHTTP__CONTAINER_OF(first->link.next, peer_t, link);
    if (uvhttp__stream_send_copy(&first->stream, arg, LATE_SIZE) != 0) count_event(server, EV_WRONG, 1);
    FILE *empty = tmpfile();
    int fd = fcntl(fileno(empty), F_DUPFD_CLOEXEC, 0);
    fclose(empty);
    server->user = (void *)(intptr_t)fd;
    peer_send_file(&second->stream, fd, 0, 1000);
}

static void test_output_queued_during_a_flush_comes_after_it(void **state) {
    server_t *server = *state;
    char *data = pattern_new(LATE_SIZE);
    server_start(server, &late_ops);
    int first = client_connect(server->port);
    server_wait(server, EV_OPENED, 1);
    int second = client_connect(server->port);
    server_wait(server, EV_OPENED, 2);
    server_call(server, send_and_break, data);
    server_wait(server, EV_CLOSED, 1);
    client_expect(first, data, LATE_SIZE);
    client_expect(first, "tail", 4);
    server_settle(server);
    assert_false(wait_fd(first, POLLIN, 50)); /* nothing of it twice */
    close((int)(intptr_t)server->user);
    close(first);
    close(second);
    server_wait(server, EV_CLOSED, 2);
    free(data);
}

/* --- accepting that fails for good --- */

static void test_permanent_accept_error_backs_off(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    server_settle(server);
    shutdown(server->listen_fd, SHUT_RDWR); /* accept(2) fails with EINVAL from here on */
    server_wait(server, EV_ACCEPT_ERROR, 2);
    unsigned before = atomic_load(&server->iterations);
    uint64_t errors = server_count(server, EV_ACCEPT_ERROR), start_ms = clock_ms();
    server_wait(server, EV_ACCEPT_ERROR, errors + 5);
    assert_true(clock_ms() - start_ms >= 4 * UVHTTP__ACCEPT_RETRY_MS);
    assert_true(atomic_load(&server->iterations) - before < 100);
}

/* --- a backlog that grows while it is accepted --- */

enum { ENDLESS = 3000 };

static void accept_and_connect_again(uvhttp__listener_t *listener, int fd) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    close(fd);
    count_event(server, EV_OPENED, 1);
    if (server_count(server, EV_OPENED) >= ENDLESS) return;
    int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(server->port);
    struct linger linger = {.l_onoff = 1};
    if (connect(other, (struct sockaddr *)&address, sizeof address) != 0) count_event(server, EV_WRONG, 1);
    setsockopt(other, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(other);
}

static void test_backlog_that_grows_is_accepted_once(void **state) {
    server_t *server = *state;
    server->listener_ops.on_accept = accept_and_connect_again;
    server_start(server, &echo_ops);
    server_call(server, pause_listener, NULL);
    server_settle(server);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = client_socket();
        client_connect_fd(fds[i], server->port);
    }
    server_call(server, close_listener, NULL);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    uint64_t consumed = server_count(server, EV_OPENED);
    for (int i = 0; i < 3; i++) close(fds[i]);
    assert_in_range(consumed, 3, 50); /* a paused multishot accept may have had one already */
}

/* --- messages to a guest that closes --- */

typedef struct note {
    uvhttp__post_t post;
    atomic_int runs;
    struct note *next; /* posted when this one runs */
    uvhttp__loop_t *loop;
} note_t;

static note_t notes[3];

static void run_note(uvhttp__post_t *post) {
    note_t *note = UVHTTP__CONTAINER_OF(post, note_t, post);
    atomic_fetch_add(&note->runs, 1);
    if (note->next) uvhttp__loop_post(note->loop, &note->next->post);
}

static void free_guest_and_post(uv_timer_t *timer) {
    server_t *server = timer->data;
    if (!atomic_load(&server->may_free)) return;
    for (int i = 0; i < 3; i++) notes[i] = (note_t){.post.run = run_note, .loop = server->loop};
    notes[1].next = &notes[2];
    uvhttp__loop_t *loop = server->loop;
    uv_close((uv_handle_t *)timer, NULL);
    uvhttp__loop_post(loop, &notes[0].post);
    uvhttp__loop_free(loop, NULL, NULL);
    uvhttp__loop_post(loop, &notes[1].post);
}

static void stop_and_post(server_t *server, void *arg) {
    (void)arg;
    uv_timer_init(&server->embedding, &server->free_timer);
    server->free_timer.data = server;
    uv_timer_start(&server->free_timer, free_guest_and_post, 0, 1);
}

static void test_messages_to_a_closing_guest_run_once(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    server_call(server, close_everything, NULL);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    server_call(server, stop_and_post, NULL);
    server_join(server);
    for (int i = 0; i < 3; i++) assert_int_equal(atomic_load(&notes[i].runs), 1);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        REFUSAL_TESTS ON_EACH(test_output_queued_during_a_flush_comes_after_it),
        ON_EACH(test_permanent_accept_error_backs_off),
        ON_EACH(test_backlog_that_grows_is_accepted_once),
        ON_GUESTS(test_messages_to_a_closing_guest_run_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
