/* Owns: tests of the moment from which a server is ready: after all that can fail, before the first connection is
 * accepted, and in one order for everybody who looks. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <uv.h>

#include "support/http_server.h"

enum { CLIENTS = 16 };

typedef struct seen {
    serving_t *serving;
    atomic_uint ready, handled, wrong;
    bool stops;                /* on_ready stops the server */
    uv_timer_t timer;          /* that on_ready starts */
    uvhttp_server_t *attached; /* instead of serving->server */
    atomic_uint fired;
} seen_t;

static uvhttp_server_t *server_of(const seen_t *seen) {
    return seen->attached ? seen->attached : seen->serving->server;
}

static void expect(seen_t *seen, bool right) {
    if (!right) atomic_fetch_add(&seen->wrong, 1);
}

static void home(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    seen_t *seen = user;
    (void)req;
    expect(seen, atomic_load(&seen->ready) == 1);
    expect(seen, uvhttp_server_ready(server_of(seen)));
    atomic_fetch_add(&seen->handled, 1);
    uvhttp_response_text(res, 200, "home");
}

static void on_closed(uv_handle_t *handle) {
    seen_t *seen = handle->data;
    atomic_fetch_add(&seen->fired, 1);
}

static void on_fired(uv_timer_t *timer) {
    uv_close((uv_handle_t *)timer, on_closed);
}

/* Requests wait already: a loop that accepts before the end of this call has handled one by then. */
static void on_ready(uvhttp_server_t *server, void *user) {
    seen_t *seen = user;
    expect(seen, server == server_of(seen));
    expect(seen, uvhttp_server_state(server) == UVHTTP_SERVER_READY);
    expect(seen, uvhttp_server_engine(server, NULL) != NULL);
    expect(seen, uvhttp_server_on_ready(server, NULL, NULL) == UVHTTP_E_STATE);
    for (int i = 0; i < 100 && atomic_load(&seen->handled) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    expect(seen, atomic_load(&seen->handled) == 0);
    struct uv_loop_s *uv = uvhttp_loop_uv();
    expect(seen, uv != NULL);
    if (uv && !seen->stops && uv_timer_init(uv, &seen->timer) == 0) {
        seen->timer.data = seen;
        expect(seen, uv_timer_start(&seen->timer, on_fired, 1, 0) == 0);
    }
    atomic_fetch_add(&seen->ready, 1);
    if (seen->stops) expect(seen, uvhttp_server_stop(server) == UVHTTP_OK);
}

static seen_t *seen_make(serving_t *serving, uint32_t io_threads) {
    static seen_t seen;
    memset(&seen, 0, sizeof seen);
    seen.serving = serving;
    serving->config.io_threads = io_threads;
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/", home, &seen));
    assert_int_equal(uvhttp_server_on_ready(serving->server, on_ready, &seen), UVHTTP_OK);
    return &seen;
}

static void server_free(serving_t *serving) {
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void ask_all(uint16_t port, int *fds) {
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(port);
        client_send_text(fds[i], GET("/"));
    }
}

static void test_no_request_is_handled_before_the_server_is_ready(void **state) {
    serving_t *serving = *state;
    static const uint32_t io_threads[] = {1, 4};
    for (size_t i = 0; i < sizeof io_threads / sizeof *io_threads; i++) {
        int fds[CLIENTS];
        seen_t *seen = seen_make(serving, io_threads[i]);
        assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
        assert_int_equal(uvhttp_server_state(serving->server), UVHTTP_SERVER_STARTING);
        ask_all(serving->port, fds);
        serving_run(serving);
        for (int c = 0; c < CLIENTS; c++) client_read_last(fds[c], 200);
        WAIT_UNTIL(atomic_load(&seen->fired) == 1);
        serving_stop(serving);
        assert_int_equal(atomic_load(&seen->handled), CLIENTS);
        assert_int_equal(atomic_load(&seen->wrong), 0);
        server_free(serving);
    }
}

static void test_on_ready_may_stop_the_server(void **state) {
    serving_t *serving = *state;
    for (uint32_t io_threads = 1; io_threads <= 4; io_threads += 3) {
        seen_t *seen = seen_make(serving, io_threads);
        seen->stops = true;
        serving_start(serving);
        serving_join(serving);
        assert_int_equal(atomic_load(&seen->ready), 1);
        assert_int_equal(atomic_load(&seen->wrong), 0);
        server_free(serving);
    }
}

static void test_a_server_that_was_stopped_before_is_never_ready(void **state) {
    serving_t *serving = *state;
    for (uint32_t io_threads = 1; io_threads <= 4; io_threads += 3) {
        seen_t *seen = seen_make(serving, io_threads);
        assert_int_equal(uvhttp_server_stop(serving->server), UVHTTP_OK);
        serving_start(serving);
        serving_join(serving);
        assert_int_equal(atomic_load(&seen->ready), 0);
        server_free(serving);
    }
}

/* The calling thread can start no other from now on. RLIMIT_NPROC would not bind root, and musl reduces a default stack
 * size that fits into no address space. */
static int refuse_threads(void) {
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    static const struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *run_without_threads(void *arg) {
    serving_t *serving = arg;
    serving->status = refuse_threads() == 0 ? uvhttp_server_run(serving->server, NULL) : UVHTTP_E_UNSUPPORTED;
    return NULL;
}

static void test_a_server_without_its_threads_is_never_ready(void **state) {
    serving_t *serving = *state;
    int fds[CLIENTS];
    pthread_t thread;
    seen_t *seen = seen_make(serving, 4);
    seen->stops = true; /* a test that fails ends, too */
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    ask_all(serving->port, fds);
    assert_int_equal(pthread_create(&thread, NULL, run_without_threads, serving), 0);
    pthread_join(thread, NULL);
    for (int c = 0; c < CLIENTS; c++) close(fds[c]);
    if (serving->status == UVHTTP_E_UNSUPPORTED) skip(); /* no seccomp here */
    assert_int_equal(serving->status, UVHTTP_E_LIMIT);
    assert_string_equal(uvhttp_server_error_text(serving->server), "run: thread 1 cannot be started");
    assert_int_equal(uvhttp_server_state(serving->server), UVHTTP_SERVER_STOPPED);
    assert_int_equal(atomic_load(&seen->ready), 0);
    assert_int_equal(atomic_load(&seen->handled), 0);
}

static void test_on_ready_comes_too_late_for_a_server_that_has_run(void **state) {
    serving_t *serving = *state;
    assert_int_equal(uvhttp_server_on_ready(NULL, on_ready, NULL), UVHTTP_E_INVALID);
    serving_make(serving);
    serving_start(serving);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_on_ready(serving->server, on_ready, NULL), UVHTTP_E_STATE);
}

/* --- in a loop of the application --- */

static void on_stopped(uvhttp_server_t *server, void *user) {
    seen_t *seen = user;
    expect(seen, seen->attached == server);
    uvhttp_server_free(server);
}

static void *ask_and_stop(void *arg) {
    seen_t *seen = arg;
    client_read_last(client_ask(seen->serving, GET("/")), 200);
    uvhttp_server_stop(seen->attached);
    return NULL;
}

static void test_an_attached_server_is_ready_when_it_listens(void **state) {
    serving_t *serving = *state;
    pthread_t client;
    uv_loop_t loop;
    seen_t *seen = seen_make(serving, 1);
    seen->attached = serving->server;
    serving->server = NULL;
    uvhttp_server_on_stopped(seen->attached, on_stopped, seen);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uvhttp_server_attach(seen->attached, &loop), UVHTTP_OK);
    assert_int_equal(uvhttp_server_state(seen->attached), UVHTTP_SERVER_STARTING);
    assert_int_equal(uvhttp_server_listen(seen->attached, "nonsense", NULL), UVHTTP_E_ADDRESS);
    assert_int_equal(uvhttp_server_state(seen->attached), UVHTTP_SERVER_STARTING);
    assert_int_equal(atomic_load(&seen->ready), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uvhttp_server_listen(seen->attached, "127.0.0.1:0", &serving->port), UVHTTP_OK);
        assert_true(uvhttp_server_ready(seen->attached));
        assert_int_equal(atomic_load(&seen->ready), 1);
    }
    assert_int_equal(pthread_create(&client, NULL, ask_and_stop, seen), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    pthread_join(client, NULL);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(atomic_load(&seen->fired), 1);
    assert_int_equal(atomic_load(&seen->wrong), 0);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(
        test_no_request_is_handled_before_the_server_is_ready, test_on_ready_may_stop_the_server,
        test_a_server_that_was_stopped_before_is_never_ready, test_a_server_without_its_threads_is_never_ready,
        test_on_ready_comes_too_late_for_a_server_that_has_run, test_an_attached_server_is_ready_when_it_listens);
}
