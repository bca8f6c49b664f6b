/* Owns: one regression test for each of the pitfalls of io_uring that docs/internals/io.md lists, by its number. Where
 * the pitfall is a property that any engine must have, the test runs on all of them; the program runs a second time as
 * an ordinary user with a small RLIMIT_MEMLOCK, because root hides what others meet. */
#include "support/io_server.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

enum { MEGABYTE = 1024 * 1024 };

static void close_first_peer(server_t *server, void *arg) {
    (void)arg;
    peer_close(server_first_peer(server));
}

/* 1: close(fd) with an armed multishot receive sends no FIN. */
static void test_pitfall_01_close_with_an_armed_receive_sends_fin(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    for (uint64_t i = 1; i <= 20; i++) {
        int fd = client_connect(server->port);
        client_send(fd, "x", 1);
        client_expect(fd, "x", 1);
        server_call(server, close_first_peer, NULL);
        client_expect_eof(fd);
        server_wait(server, EV_CLOSED, i);
        close(fd);
    }
}

/* 2: two sends in flight on one socket interleave. Each message makes another iteration's send while the socket is
 * full. */
static void send_a_block(server_t *server, void *arg) {
    uint64_t *at = arg;
    enum { BLOCK = 100 * 1000 };
    uvhttp__stream_t *stream = &server_first_peer(server)->stream;
    char *data = uvhttp__loop_iteration_alloc(stream->loop, BLOCK);
    for (uint64_t i = 0; i < BLOCK; i++) data[i] = pattern_at(*at + i);
    *at += BLOCK;
    if (uvhttp__stream_send_iteration(stream, data, BLOCK) != 0) count_event(server, EV_WRONG, 1);
}

static void test_pitfall_02_sends_of_many_iterations_do_not_interleave(void **state) {
    server_t *server = *state;
    enum { BLOCKS = 150, SIZE = BLOCKS * 100 * 1000 };
    uint64_t at = 0;
    int fd = server_dial(server, &echo_ops, "");
    server_wait(server, EV_OPENED, 1);
    char *data = pattern_new(SIZE);
    size_t got = 0;
    for (int i = 0; i < BLOCKS; i++) {
        server_call(server, send_a_block, &at);
        if (i % 3) continue; /* the reader is slower than the writer: the socket is full most of the time */
        client_expect(fd, data + got, 70 * 1000);
        got += 70 * 1000;
    }
    client_expect(fd, data + got, SIZE - got);
    server_leave(server, fd);
    free(data);
}

/* 3: with DEFER_TASKRUN one call runs about 20 items. The rest must not wait for the next event, and an iteration must
 * take its 20: fetching all in one iteration by a second call was measured and gained nothing. */
typedef struct gate {
    pthread_mutex_t mutex;
    bool in;
    unsigned iterations;
} gate_t;

static void pass_gate(server_t *server, void *arg) {
    gate_t *gate = arg;
    gate->iterations = atomic_load(&server->iterations);
    count_event(server, EV_TICK, 1);
    pthread_mutex_lock(&gate->mutex); /* the test's thread holds it while it fills the sockets */
    pthread_mutex_unlock(&gate->mutex);
}

static void *pass_gate_thread(void *arg) {
    server_t *server = arg;
    server_call(server, pass_gate, server->user);
    return NULL;
}

static void test_pitfall_03_one_iteration_serves_all_that_is_there(void **state) {
    server_t *server = *state;
    enum { CLIENTS = 300 };
    struct rlimit limit = server->nofile_before;
    limit.rlim_cur = 2 * CLIENTS + 100;
    if (limit.rlim_max < limit.rlim_cur) skip();
    if (limit.rlim_cur > server->nofile_before.rlim_cur) assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    gate_t gate = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    server->user = &gate;
    server->options.receive_buffer_count = 512;
    server->options.receive_buffer_size = 4096;
    server_start(server, &echo_ops);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(server->port);
        client_send(fds[i], "x", 1);
    }
    for (int i = 0; i < CLIENTS; i++) client_expect(fds[i], "x", 1);
    server_settle(server);

    pthread_t thread;
    pthread_mutex_lock(&gate.mutex);
    assert_int_equal(pthread_create(&thread, NULL, pass_gate_thread, server), 0);
    server_wait(server, EV_TICK, 1); /* the loop stands now */
    for (int i = 0; i < CLIENTS; i++) client_send(fds[i], "y", 1);
    pthread_mutex_unlock(&gate.mutex);
    server_wait(server, EV_BYTES, 2 * CLIENTS);
    unsigned iterations = atomic_load(&server->iterations) - gate.iterations;
    pthread_join(thread, NULL);
    for (int i = 0; i < CLIENTS; i++) client_expect(fds[i], "y", 1);
    print_message("           %u turns\n", iterations);
    assert_true(iterations <= CLIENTS / 10);
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    server_wait(server, EV_CLOSED, CLIENTS);
}

/* 4: the descriptor of a DEFER_TASKRUN ring never wakes an epoll: a guest that waits would sleep forever. */
static void test_pitfall_04_idle_embedding_loop_is_woken_by_every_byte(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "");
    for (int i = 0; i < 3000; i++) {
        if (i % 500 == 0)
            poll(NULL, 0, 10); /* let it fall asleep for certain; the others race with its going to sleep */
        client_send(fd, "x", 1);
        client_expect(fd, "x", 1);
    }
    server_leave(server, fd);
}

/* 5: an empty buffer ring returns -ENOBUFS immediately, and one greedy stream can use every buffer. */
static size_t hold_if_greedy(uvhttp__stream_t *stream, const char *data, size_t size) {
    peer_t *peer = peer_of(stream);
    if (peer->step == 0) peer->step = data[0] == 'g' ? 1 : 2;
    if (peer->step == 1) return 0; /* greedy: takes nothing for now */
    return peer_echo(stream, data, size);
}

static void release_greedy(server_t *server, void *arg) {
    (void)arg;
    uvhttp__list_t *node, *next;
    UVHTTP__LIST_FOREACH_SAFE(node, next, &server->peers) {
        peer_t *peer = UVHTTP__CONTAINER_OF(node, peer_t, link);
        if (peer->step != 1) continue;
        peer->step = 3;
        uvhttp__stream_resume(&peer->stream);
    }
}

static void test_pitfall_05_greedy_streams_starve_nobody_and_nothing_spins(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(hold_if_greedy);
    enum { GREEDY = 8 };
    server->options.receive_buffer_size = 4096;
    server->options.receive_buffer_count = 8; /* fewer than what any of them sends */
    server_start(server, &ops);
    int greedy[GREEDY];
    size_t sent[GREEDY] = {0};
    char *data = malloc(MEGABYTE);
    memset(data, 'g', MEGABYTE);
    for (int i = 0; i < GREEDY; i++) {
        greedy[i] = client_connect(server->port);
        ssize_t n;
        while (sent[i] < MEGABYTE && (n = send(greedy[i], data, MEGABYTE - sent[i], MSG_DONTWAIT)) > 0)
            sent[i] += (size_t)n;
    }
    int fd = client_connect(server->port);
    for (int i = 0; i < 100; i++) { /* an honest client is served all the while */
        client_send(fd, "honest", 6);
        client_expect(fd, "honest", 6);
    }
    assert_quiet(server);
    server_call(server, release_greedy, NULL);
    for (int i = 0; i < GREEDY; i++) client_expect(greedy[i], data, sent[i]);
    for (int i = 0; i < GREEDY; i++) close(greedy[i]);
    close(fd);
    server_wait(server, EV_CLOSED, GREEDY + 1);
    free(data);
}

typedef struct share {
    gate_t gate; /* first: pass_gate takes it for the whole */
    unsigned pieces, pieces_before;
} share_t;

static size_t count_pieces_before_the_other(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    share_t *share = server->user;
    if (*data == 'g')
        share->pieces++;
    else
        share->pieces_before = share->pieces;
    return peer_swallow(stream, data, size);
}

/* Deliveries that one stream may have before the others get theirs. */
static unsigned pieces_max(const server_t *server) {
    struct utsname kernel;
    unsigned major = 0, minor = 0;
    if (server->variant->kind == UVHTTP__ENGINE_EPOLL) return 1;
    assert_int_equal(uname(&kernel), 0);
    sscanf(kernel.release, "%u.%u", &major, &minor);
    return major > 6 || (major == 6 && minor >= 17) ? 4 : 33; /* 33: the kernel's own patience with one receive */
}

/* 5, with buffers enough: the queued bytes of one stream do not all arrive before those of another. */
static void test_pitfall_05_one_stream_takes_its_share_of_an_iteration(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = {
        .on_data = count_pieces_before_the_other, .on_end = peer_close_at_end, .on_closed = peer_on_closed};
    share_t share = {.gate.mutex = PTHREAD_MUTEX_INITIALIZER};
    server->user = &share;
    server->options.receive_buffer_size = 1024;
    server_start(server, &ops);
    int greedy = client_connect(server->port), modest = client_connect(server->port);
    server_wait(server, EV_OPENED, 2);
    server_settle(server);

    pthread_t thread;
    pthread_mutex_lock(&share.gate.mutex);
    assert_int_equal(pthread_create(&thread, NULL, pass_gate_thread, server), 0);
    server_wait(server, EV_TICK, 1); /* the loop stands now */
    char data[1000];                 /* many small segments */
    memset(data, 'g', sizeof data);
    size_t sent = 0;
    for (ssize_t n; (n = send(greedy, data, sizeof data, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;) sent += (size_t)n;
    client_send(modest, "m", 1);
    pthread_mutex_unlock(&share.gate.mutex);
    pthread_join(thread, NULL);
    server_wait(server, EV_BYTES, sent + 1);
    print_message("           %u of %u pieces\n", share.pieces_before, share.pieces);
    assert_true(share.pieces > 32);
    assert_true(share.pieces_before <= pieces_max(server));
    close(greedy);
    close(modest);
    server_wait(server, EV_CLOSED, 2);
}

/* 6: RLIMIT_MEMLOCK is charged per user and given back late: loops come and go without falling back, and 64 KiB are
 * enough for one. */
static void test_pitfall_06_loops_in_quick_succession_all_get_their_engine(void **state) {
    server_t *server = *state;
    enum { ROUNDS = 12, LOOPS = 4 };
    static bool uring_works; /* found out as root, known to the ordinary user's process too */
    int loop_count = again_as_user ? 1 : LOOPS;
    uvhttp__loop_t *loops[LOOPS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < loop_count; i++) {
            int status = uvhttp__loop_new(&server->options, &loops[i]);
            if (status == UVHTTP_E_UNSUPPORTED && !uring_works) skip();
            if (status != 0) fail_msg("loop %d of round %d: %s", i, round, uvhttp_error_name(status));
        }
        for (int i = 0; i < loop_count; i++) uvhttp__loop_free(loops[i], NULL, NULL);
        if (server->variant->kind == UVHTTP__ENGINE_URING) uring_works = true;
    }
}

/* 7: IORING_OP_SPLICE runs in a worker thread of the kernel: files must go by non-blocking sendfile. */
typedef struct threads {
    long numbers[64];
    size_t count;
} threads_t;

static threads_t find_threads(void) {
    threads_t threads = {.count = 0};
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        assert_true(threads.count < sizeof threads.numbers / sizeof *threads.numbers);
        threads.numbers[threads.count++] = strtol(entry->d_name, NULL, 10);
    }
    closedir(folder);
    return threads;
}

/* Fewer there may be: one that was joined may still be seen on its way out. */
static void assert_no_new_thread(const threads_t *before) {
    threads_t now = find_threads();
    for (size_t i = 0; i < now.count; i++) {
        bool known = false;
        for (size_t k = 0; k < before->count; k++) known |= now.numbers[i] == before->numbers[k];
        assert_true(known);
    }
}

static size_t send_file_or_echo(uvhttp__stream_t *stream, const char *data, size_t size) {
    if (data[0] != 'f') return peer_echo(stream, data, size);
    peer_send_file(stream, *(int *)peer_of(stream)->server->user, 0, 16 * MEGABYTE);
    return size;
}

static void test_pitfall_07_files_need_no_thread_and_block_nobody(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_file_or_echo);
    enum { READERS = 4, SIZE = 16 * MEGABYTE };
    char path[] = "/tmp/uvhttp-pitfalls-XXXXXX";
    int file = mkostemp(path, O_CLOEXEC);
    char *data = pattern_new(SIZE);
    unlink(path);
    assert_int_equal(write(file, data, SIZE), SIZE);
    server->user = &file;
    int fd = server_dial(server, &ops, "x");
    client_expect(fd, "x", 1);
    threads_t threads = find_threads();
    int readers[READERS];
    for (int i = 0; i < READERS; i++) { /* they ask and do not read yet */
        readers[i] = client_connect(server->port);
        client_send(readers[i], "f", 1);
    }
    for (int i = 0; i < 50; i++) {
        client_send(fd, "x", 1);
        client_expect(fd, "x", 1);
    }
    assert_no_new_thread(&threads);
    for (int i = 0; i < READERS; i++) {
        client_expect(readers[i], data, SIZE);
        close(readers[i]);
    }
    assert_no_new_thread(&threads);
    close(fd);
    server_wait(server, EV_CLOSED, READERS + 1);
    close(file);
    free(data);
}

/* 8: a zero-copy send holds its buffer until the peer has acknowledged: a reference must come back before it has read.
 */
static void count_release(void *arg) {
    count_event(arg, EV_RELEASED, 1);
}

static size_t send_reference(uvhttp__stream_t *stream, const char *data, size_t size) {
    static const char page[32 * 1024];
    (void)data;
    uvhttp__stream_send_ref(stream, page, sizeof page, count_release, peer_of(stream)->server);
    return size;
}

static void test_pitfall_08_reference_comes_back_before_the_peer_has_read(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_reference);
    int fd = server_dial(server, &ops, "x");
    server_wait(server, EV_RELEASED, 1);
    server_leave(server, fd);
}

/* 9: where io_uring is forbidden or missing, `auto` falls back and says why, and `uring` is refused. In a child,
 * because a seccomp filter cannot be removed. */
static int forbid_io_uring(int error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int refused_child(server_t *server, int error) {
    uvhttp__loop_t *loop = (uvhttp__loop_t *)server;
    if (forbid_io_uring(error) != 0) return 0; /* no seccomp here: nothing to test */
    server->options.engine = UVHTTP__ENGINE_URING;
    if (uvhttp__loop_new(&server->options, &loop) != UVHTTP_E_UNSUPPORTED) return 1;
    if (loop) return 2;
    server->options.engine = UVHTTP__ENGINE_AUTO;
    if (uvhttp__loop_new(&server->options, &loop) != 0) return 3;
    if (strcmp(uvhttp__loop_engine_name(loop), "epoll") != 0) return 4;
    if (strlen(loop->reason) == 0) return 5;
    fprintf(stderr, "           reason: %s\n", loop->reason);
    uvhttp__loop_free(loop, NULL, NULL);
    return 0;
}

static void test_pitfall_09_forbidden_io_uring_falls_back_and_says_why(void **state) {
    static const int errors[] = {EPERM, ENOSYS, EINVAL, EACCES, ENOMEM};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(refused_child(*state, errors[i]));
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* 10: SINGLE_ISSUER binds a ring to a thread: a loop is made on one and runs on another. */
static void test_pitfall_10_loop_runs_on_another_thread_than_made_it(void **state) {
    server_t *server = *state;
    int status = uvhttp__loop_new(&server->options, &server->loop);
    if (status == UVHTTP_E_UNSUPPORTED) skip();
    assert_int_equal(status, 0);
    int fd = server_dial(server, &echo_ops, "");
    for (int i = 0; i < 10; i++) {
        client_send(fd, "x", 1);
        client_expect(fd, "x", 1);
    }
    server_leave(server, fd);
}

/* 11: a reset that arrives together with the last bytes before it goes unnoticed by the receive: the kernel asks how
 * much is left, hears nothing of the error, and waits on. */
static const uvhttp__stream_ops_t swallow_ops = PEER_OPS(peer_swallow);

static size_t echo_first(uvhttp__stream_t *stream, const char *data, size_t size) {
    return peer_of(stream)->received++ == 0 ? peer_echo(stream, data, size) : peer_swallow(stream, data, size);
}

static const uvhttp__stream_ops_t echo_first_ops = PEER_OPS(echo_first);

/* The loop stands until clients have done all of it. */
static pthread_t stop_loop(server_t *server, gate_t *gate) {
    pthread_t thread;
    pthread_mutex_lock(&gate->mutex);
    assert_int_equal(pthread_create(&thread, NULL, pass_gate_thread, server), 0);
    server_wait(server, EV_TICK, 1);
    return thread;
}

static void let_loop_go(gate_t *gate, pthread_t thread) {
    pthread_mutex_unlock(&gate->mutex);
    pthread_join(thread, NULL);
}

static void reset_with_bytes(server_t *server, const uvhttp__stream_ops_t *ops) {
    enum { CLIENTS = 5 };
    gate_t gate = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    server->user = &gate;
    server_start(server, ops);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(server->port);
        if (ops != &echo_first_ops) continue;
        client_send(fds[i], "x", 1);
        client_expect(fds[i], "x", 1); /* what is under way to a client is not yet known to have arrived */
    }
    server_wait(server, EV_OPENED, CLIENTS);
    server_settle(server);
    pthread_t thread = stop_loop(server, &gate);
    for (int i = 0; i < CLIENTS; i++) {
        client_send(fds[i], "y", 1);
        client_reset(fds[i]);
    }
    let_loop_go(&gate, thread);
    server_wait(server, EV_CLOSED, CLIENTS);
    assert_int_equal(server_count(server, EV_END_ABORTED), CLIENTS);
}

static void test_pitfall_11_reset_right_after_bytes_is_noticed(void **state) {
    reset_with_bytes(*state, &swallow_ops);
}

static void test_pitfall_11_reset_right_after_bytes_is_noticed_after_a_response(void **state) {
    reset_with_bytes(*state, &echo_first_ops);
}

/* Of a Unix socket the kernel does not say that FIN is left to read. */
static void fin_with_bytes(server_t *server, const uvhttp__stream_ops_t *ops, size_t size) {
    enum { CLIENTS = 5 };
    gate_t gate = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    char text[64];
    int fds[CLIENTS];
    snprintf(text, sizeof text, "unix:@uvhttp-pitfall-%d", (int)getpid());
    server->user = &gate;
    server->listen_fd = listen_on(text);
    server_start(server, ops);
    pthread_t thread = stop_loop(server, &gate);
    for (int i = 0; i < CLIENTS; i++) fds[i] = client_connect_to(text);
    char *data = pattern_new(size);
    for (int i = 0; i < CLIENTS; i++) {
        client_send(fds[i], data, size);
        shutdown(fds[i], SHUT_WR);
    }
    let_loop_go(&gate, thread);
    server_wait(server, EV_CLOSED, CLIENTS);
    assert_int_equal(server_count(server, EV_END_OK), CLIENTS);
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    free(data);
}

static void test_pitfall_11_fin_right_after_bytes_of_a_unix_socket_is_noticed(void **state) {
    fin_with_bytes(*state, &swallow_ops, 10);
}

static void test_pitfall_11_fin_right_after_bytes_of_a_unix_socket_is_noticed_with_output(void **state) {
    fin_with_bytes(*state, &echo_ops, 10);
}

static void test_pitfall_11_fin_right_after_many_bytes_of_a_unix_socket_is_noticed(void **state) {
    fin_with_bytes(*state, &swallow_ops, 100000);
}

static void test_pitfall_11_fin_right_after_many_bytes_of_a_unix_socket_is_noticed_with_output(void **state) {
    fin_with_bytes(*state, &echo_ops, 100000);
}

static int run(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_pitfall_01_close_with_an_armed_receive_sends_fin),
        ON_EACH(test_pitfall_02_sends_of_many_iterations_do_not_interleave),
        ON_EACH(test_pitfall_03_one_iteration_serves_all_that_is_there),
        ON_GUESTS(test_pitfall_04_idle_embedding_loop_is_woken_by_every_byte),
        ON_EACH(test_pitfall_05_greedy_streams_starve_nobody_and_nothing_spins),
        ON_EACH(test_pitfall_05_one_stream_takes_its_share_of_an_iteration),
        ON_OWN_LOOPS(test_pitfall_06_loops_in_quick_succession_all_get_their_engine),
        ON_EACH(test_pitfall_07_files_need_no_thread_and_block_nobody),
        ON_EACH(test_pitfall_08_reference_comes_back_before_the_peer_has_read),
        ON_VARIANT(test_pitfall_09_forbidden_io_uring_falls_back_and_says_why, uring_own),
        ON_OWN_LOOPS(test_pitfall_10_loop_runs_on_another_thread_than_made_it),
        ON_EACH(test_pitfall_11_reset_right_after_bytes_is_noticed),
        ON_EACH(test_pitfall_11_reset_right_after_bytes_is_noticed_after_a_response),
        ON_EACH(test_pitfall_11_fin_right_after_bytes_of_a_unix_socket_is_noticed),
        ON_EACH(test_pitfall_11_fin_right_after_bytes_of_a_unix_socket_is_noticed_with_output),
        ON_EACH(test_pitfall_11_fin_right_after_many_bytes_of_a_unix_socket_is_noticed),
        ON_EACH(test_pitfall_11_fin_right_after_many_bytes_of_a_unix_socket_is_noticed_with_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
    return run_again_as_user(run);
}
