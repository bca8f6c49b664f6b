/* Upgrades that fail: by what the new process does, and as each system call and each allocation of the two sides fails
 * once. The old process says why, ends the new one, and continues. This program is also the new process. */
/* Needs: middleware. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "conn/tcp_server.h"
#include "server/process.h"
#include "server/server.h"
#include "server/upgrade_channel.h"
#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/http_server.h"

#define SAYS "TEST_NEW_PROCESS_SAYS" /* what it sends; "": nothing */
#define ENDS "TEST_NEW_PROCESS_ENDS"

/* --- the new process --- */

/* Without the descriptors: what is not asked for is closed. Returns at the last message, or the end of the channel. */
static void read_messages(bool leave_last) {
    char kind;
    while (recv(CHANNEL, &kind, 1, leave_last ? MSG_PEEK : 0) > 0 && kind != 'C')
        if (leave_last) (void)recv(CHANNEL, &kind, 1, 0);
}

static void say(const char *text, bool with_descriptor) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(char *)(uintptr_t)text, strlen(text)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (with_descriptor) {
        memcpy(CMSG_DATA(&control.header), &(int){CHANNEL}, sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    (void)sendmsg(CHANNEL, &message, MSG_NOSIGNAL);
}

static void be_new_process(void) {
    const char *ends = getenv(ENDS), *says = getenv(SAYS);
    if (strcmp(ends, "stubborn") == 0) signal(SIGTERM, SIG_IGN);
    read_messages(strcmp(ends, "early") == 0);
    if (*says) say(says, strcmp(ends, "gives") == 0);
    if (strcmp(ends, "killed") == 0) raise(SIGKILL);
    if (strcmp(ends, "late") == 0 || strcmp(ends, "stubborn") == 0)
        for (;;) pause();
    if (strcmp(ends, "with the old one") == 0)
        while (recv(CHANNEL, &(char){0}, 1, 0) > 0) continue;
    _exit(strcmp(ends, "3") == 0 ? 3 : 0);
}

/* --- the old process --- */

static serving_t *old; /* of the test that runs */
static char folder[] = "/tmp/uvhttp-upgrade-XXXXXX", pid_file[64];
static char logged[1024];

static void keep_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)user;
    if (strncmp(message, "http: upgrade", 13) == 0 && size < sizeof logged) memcpy(logged, message, size + 1);
}

static void start_old(void **state) {
    old = *state;
    old->config.io_threads = 2; /* two sockets of an address; no admin listener, which does something each second */
    snprintf(old->config.pid_file, sizeof old->config.pid_file, "%s", pid_file);
    serving_make(old);
    assert_int_equal(uvhttp_service_init(old->server), UVHTTP_OK);
    serving_start(old);
    WAIT_UNTIL(uvhttp_server_ready(old->server));
}

static void free_old(void) {
    uvhttp_server_free(old->server);
    old->server = NULL;
}

static bool upgrade_runs(void) {
    uvhttp__successor_t *successor = &old->server->process->successor;
    pthread_mutex_lock(&successor->lock);
    bool runs = successor->running;
    pthread_mutex_unlock(&successor->lock);
    return runs;
}

static bool new_process_is_awaited(void) {
    uvhttp__successor_t *successor = &old->server->process->successor;
    pthread_mutex_lock(&successor->lock);
    bool awaited = successor->channel >= 0;
    pthread_mutex_unlock(&successor->lock);
    return awaited;
}

/* What the library has not waited for. */
static void reap_all(void) {
    while (waitpid(-1, NULL, 0) > 0) continue;
    assert_int_equal(errno, ECHILD);
}

typedef struct refusal {
    const char *says, *ends;
    const char *reason; /* of the log; NULL: any */
} refusal_t;

static void set_new_process(const refusal_t *refusal) {
    setenv(SAYS, refusal->says, 1);
    setenv(ENDS, refusal->ends, 1);
    logged[0] = '\0';
}

static void assert_old_continues(const char *reason) {
    if (reason && !strstr(logged, reason)) fail_msg("%s: not \"%s\"", reason, logged);
    assert_non_null(strstr(logged, "continues"));
    assert_true(uvhttp_server_ready(old->server));
    FILE *in = fopen(pid_file, "re");
    long pid = 0;
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%ld", &pid), 1);
    fclose(in);
    assert_int_equal(pid, getpid());
}

static void upgrade(void *user) {
    const refusal_t *refusal = user;
    set_new_process(refusal);
    assert_int_equal(uvhttp_service_upgrade(old->server), UVHTTP_OK);
    WAIT_UNTIL(!upgrade_runs());
    reap_all();
    assert_old_continues(refusal->reason);
}

static void test_a_new_process_that_is_not_ready_is_ended(void **state) {
    static const refusal_t refusals[] = {
        {"Fno port", "3", "did not start: no port (it has ended with status 3); this one continues"},
        {"Fno port", "early", "no port (it has ended with status 0)"},
        {"Fno port", "gives", "no port (it has ended with status 0)"},
        {"F", "0", "it did not say why (it has ended with status 0)"},
        {"X", "0", "it did not say why (it has ended with status 0)"},
        {"", "0", "it did not say why (it has ended with status 0)"},
        {"", "early", "it did not say why (it has ended with status 0)"},
        {"", "killed", "it did not say why (it was ended by signal 9)"},
    };
    start_old(state);
    upgrade(&(refusal_t){refusals[0].says, refusals[0].ends, refusals[0].reason});
    int fds = count_fds();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        upgrade(&(refusal_t){refusals[i].says, refusals[i].ends, refusals[i].reason});
        assert_int_equal(count_fds(), fds);
    }
    serving_stop(old);
}

/* --- calls that fail --- */

static size_t each(int call, int error, const char *reason) {
    refusal_t refusal = {"Fno port", "3", reason};
    const failing_call_t one = {call, {error}};
    return test_calls_each_failure(&one, 1, upgrade, &refusal);
}

static void once(int call, int error, refusal_t refusal) {
    test_call_fail_at(call, error, 1);
    upgrade(&refusal);
    assert_true(test_call_failed());
    test_call_fail_at(call, 0, 0);
}

static void test_each_system_call_may_fail(void **state) {
    const refusal_t whole = {"Fno port", "3", "no port (it has ended with status 3)"};
    start_old(state);
    upgrade(&(refusal_t){whole.says, whole.ends, whole.reason});
    once(FAIL_socketpair, EMFILE, (refusal_t){"", "0", "cannot be started: Too many open files"});
    once(FAIL_posix_spawn, ENOENT, (refusal_t){"", "0", "cannot be started: No such file or directory"});
    once(FAIL_setsockopt, ENOPROTOOPT, (refusal_t){"", "0", "cannot be started: Protocol not available"});
    assert_int_equal(each(FAIL_setsockopt, ENOPROTOOPT, NULL), 2);
    /* Again, until it is done. */
    assert_int_equal(each(FAIL_sendmsg, EINTR, whole.reason), 4);
    assert_int_equal(each(FAIL_recvmsg, EINTR, whole.reason), 1);
    assert_int_equal(each(FAIL_poll, EINTR, whole.reason), 1);
    assert_int_equal(each(FAIL_waitpid, EINTR, whole.reason), 1);
    /* Not all that is passed: two sockets, the PID file, and the message behind them. */
    assert_int_equal(each(FAIL_fcntl, EMFILE, "no port (it has ended with status 3)"), 2);
    assert_int_equal(each(FAIL_sendmsg, EPIPE, "no port (it has ended with status 3)"), 4);
    serving_stop(old);
}

static void test_an_end_that_is_not_seen_is_brought_about(void **state) {
    start_old(state);
    once(FAIL_recvmsg, ENOMEM, (refusal_t){"Fno port", "3", "it did not say why (it has ended with status 3)"});
    once(FAIL_recvmsg, EAGAIN,
         (refusal_t){"", "late", "it was not ready within upgrade_timeout (it was ended by signal 15)"});
    once(FAIL_waitpid, ECHILD, (refusal_t){"Fno port", "3", "no port (it has ended)"});
    static const int calls[] = {FAIL_pidfd_open, FAIL_poll};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        test_call_fail_always(calls[i], ENOMEM);
        upgrade(&(refusal_t){"Fno port", "stubborn", "no port (it was ended by signal 9)"});
        test_call_fail_at(calls[i], 0, 0);
    }
    serving_stop(old);
}

static void test_without_a_thread_there_is_no_upgrade(void **state) {
    start_old(state);
    test_call_fail_at(FAIL_pthread_create, EAGAIN, 1);
    one_thread_is_client = false;
    assert_int_equal(uvhttp_service_upgrade(old->server), UVHTTP_E_LIMIT);
    one_thread_is_client = true;
    test_call_fail_at(FAIL_pthread_create, 0, 0);
    upgrade(&(refusal_t){"Fno port", "3", "no port"});
    serving_stop(old);
}

static void test_each_allocation_may_fail(void **state) {
    refusal_t refusal = {"Fno port", "3", NULL};
    start_old(state);
    upgrade(&refusal);
    assert_int_equal(test_allocator_each_failure(upgrade, &refusal), 3); /* the environment, and two sockets */
    serving_stop(old);
}

/* --- the ends of the old process --- */

static void test_a_server_that_ends_ends_its_upgrade(void **state) {
    start_old(state);
    set_new_process(&(refusal_t){"", "with the old one", NULL});
    assert_int_equal(uvhttp_service_upgrade(old->server), UVHTTP_OK);
    assert_int_equal(uvhttp_service_upgrade(old->server), UVHTTP_E_STATE);
    WAIT_UNTIL(new_process_is_awaited());
    serving_stop(old);
    free_old();
    assert_non_null(strstr(logged, "cancelled, because the server stops; process "));
    assert_non_null(strstr(logged, "it has ended with status 0"));
    assert_int_equal(access(pid_file, F_OK), -1);
    reap_all();
}

static void await_report(void) {
    struct pollfd report = {.fd = old->server->process->successor.channel, .events = POLLIN};
    (void)poll(&report, 1, TIMEOUT_MS);
}

/* It accepts already: its end would cost its clients their requests. */
static void test_a_report_that_comes_with_the_end_of_the_time_counts(void **state) {
    start_old(state);
    set_new_process(&(refusal_t){"R", "0", NULL});
    test_call_fail_behind(FAIL_recvmsg, EAGAIN, await_report);
    assert_int_equal(uvhttp_service_upgrade(old->server), UVHTTP_OK);
    WAIT_UNTIL(!upgrade_runs());
    assert_true(test_call_failed());
    test_call_fail_at(FAIL_recvmsg, 0, 0);
    assert_string_equal(logged, "");
    serving_join(old);
    free_old();
    reap_all();
}

/* holds: the new process has the lock, as its descriptor that the test keeps for it shows. */
static void replace_old(void **state, bool holds) {
    start_old(state);
    int held = holds ? fcntl(old->server->process->pid_file, F_DUPFD_CLOEXEC, 0) : -1;
    set_new_process(&(refusal_t){"R", "0", NULL});
    assert_int_equal(uvhttp_service_upgrade(old->server), UVHTTP_OK);
    serving_join(old);
    assert_int_equal(uvhttp_service_upgrade(old->server), UVHTTP_E_STATE);
    free_old();
    assert_string_equal(logged, "");
    assert_int_equal(access(pid_file, F_OK), holds ? 0 : -1);
    if (held >= 0) close(held);
    reap_all();
}

static void test_a_server_that_is_replaced_ends_and_leaves_the_pid_file(void **state) {
    replace_old(state, true);
}

static void test_a_pid_file_that_the_new_process_does_not_want_is_removed(void **state) {
    replace_old(state, false);
}

/* --- the new process's side --- */

/* `user`: of what a failure says. */
static void receive(void *user) {
    int ends[2];
    char message[256] = "";
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(send(ends[0], "C", 1, 0), 1);
    int saved = put_at_channel(ends[1]);
    uvhttp__process_t process = {.server = old->server, .channel = -1, .pid_file = -1};
    setenv(VARIABLE, "3", 1);
    one_thread_is_client = false;
    int status = uvhttp__successor_receive(&process, message, sizeof message);
    one_thread_is_client = true;
    if (user && test_call_failed()) {
        assert_int_equal(status, UVHTTP_E_IO);
        assert_non_null(strstr(message, user));
    } else {
        assert_int_equal(status, UVHTTP_OK);
    }
    assert_null(getenv(VARIABLE));
    restore_channel(saved);
    close(ends[0]);
}

static void test_a_channel_that_fails_is_an_error(void **state) {
    static char no_channel[] = "descriptor 3 is not from an upgrade", no_message[] = "sockets were not received";
    const failing_call_t unusable[] = {{FAIL_getsockopt, {EIO}}, {FAIL_fcntl, {EIO}}, {FAIL_setsockopt, {EIO}}};
    const failing_call_t receiving = {FAIL_recvmsg, {EIO}}, interrupted = {FAIL_recvmsg, {EINTR}};
    old = *state;
    serving_make(old);
    assert_int_equal(test_calls_each_failure(unusable, 3, receive, no_channel), 4);
    assert_int_equal(test_calls_each_failure(&receiving, 1, receive, no_message), 1);
    assert_int_equal(test_calls_each_failure(&interrupted, 1, receive, NULL), 1);
}

int main(void) {
    if (getenv(VARIABLE)) be_new_process();
    test_allocator_install();
    one_thread_is_client = true;
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_WARN);
    uvhttp_log_set_callback(keep_log, NULL);
    if (!mkdtemp(folder)) return 1;
    snprintf(pid_file, sizeof pid_file, "%s/pid", folder);
    const run_group_t on_epoll_only = {&(run_variant_t){NULL, &on_epoll}, 1, serving_setup, serving_teardown};
    int failed =
        RUN_GROUP(on_epoll_only, test_a_new_process_that_is_not_ready_is_ended, test_each_system_call_may_fail,
                  test_an_end_that_is_not_seen_is_brought_about, test_without_a_thread_there_is_no_upgrade,
                  test_each_allocation_may_fail, test_a_report_that_comes_with_the_end_of_the_time_counts,
                  test_a_server_that_ends_ends_its_upgrade, test_a_server_that_is_replaced_ends_and_leaves_the_pid_file,
                  test_a_pid_file_that_the_new_process_does_not_want_is_removed, test_a_channel_that_fails_is_an_error);
    remove_tree(folder);
    return failed;
}
