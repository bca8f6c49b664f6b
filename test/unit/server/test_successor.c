/* Owns: tests of the new process's side of an upgrade: messages as the old process sends them, and as it never would.
 * Whole upgrades: test/integration/test_upgrade.py. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn/tcp_server.h"
#include "server/process.h"
#include "server/server.h"
#include "server/upgrade_channel.h"
#include "support/http_server.h"
#include "support/process.h"

/* --- messages --- */

/* What goes with a message. AGAIN: another descriptor of the socket before. TWO: a listening one, twice. */
typedef enum passed { NOTHING, LISTENING, AGAIN, SILENT, TWO } passed_t;

static int make_descriptor(passed_t passed, int *listening) {
    if (passed == SILENT) return open("/dev/null", O_RDWR | O_CLOEXEC);
    if (passed == LISTENING || passed == TWO) {
        *listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(listen(*listening, 4), 0);
    }
    return fcntl(*listening, F_DUPFD_CLOEXEC, 0);
}

static void send_one(int channel, const char *text, size_t size, int fd, size_t count) {
    const int copies[] = {fd, fd};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof copies)];
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(char *)(uintptr_t)text, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    control.header.cmsg_len = CMSG_LEN(count * sizeof fd);
    memcpy(CMSG_DATA(&control.header), copies, count * sizeof fd);
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof fd);
    }
    assert_int_equal(sendmsg(channel, &message, MSG_NOSIGNAL), (ssize_t)size);
}

typedef struct sent {
    const char *text; /* its first byte is the kind */
    passed_t passed;
} sent_t;

typedef struct upgrade {
    sent_t sent[4];
    int status;
    uint32_t sockets, groups;
    bool pid_file;
} upgrade_t;

static void send_all(int channel, const sent_t *sent) {
    int listening = -1;
    for (int i = 0; i < 4 && sent[i].text; i++) {
        int fd = sent[i].passed == NOTHING ? -1 : make_descriptor(sent[i].passed, &listening);
        send_one(channel, sent[i].text, strlen(sent[i].text), fd, sent[i].passed == TWO ? 2 : 1);
        if (fd >= 0) close(fd);
        if (sent[i + 1 < 4 ? i + 1 : i].passed != AGAIN && listening >= 0) {
            close(listening);
            listening = -1;
        }
    }
    if (listening >= 0) close(listening);
}

static void receive(serving_t *serving, const upgrade_t *upgrade) {
    int ends[2];
    char message[256] = "";
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    send_all(ends[0], upgrade->sent);
    close(ends[0]);
    int saved = put_at_channel(ends[1]), before = count_fds();
    uvhttp__process_t process = {.server = serving->server, .channel = -1, .pid_file = -1};
    setenv(VARIABLE, "3", 1);
    int status = uvhttp__successor_receive(&process, message, sizeof message);
    if (status != upgrade->status) fail_msg("%s: %d", upgrade->sent[0].text, status);
    assert_int_equal(*message != '\0', status != UVHTTP_OK);
    assert_null(getenv(VARIABLE));
    assert_int_equal(process.channel, CHANNEL);
    uvhttp__inherited_t *inherited = &serving->server->tcp_server->inherited;
    assert_int_equal(inherited->count, upgrade->sockets);
    assert_int_equal(inherited->group_count, upgrade->groups);
    assert_int_equal(process.pid_file >= 0, upgrade->pid_file);
    assert_int_equal(process.borrowed, upgrade->pid_file);
    if (process.pid_file >= 0) close(process.pid_file);
    uvhttp__inherited_close(inherited);
    assert_int_equal(count_fds(), before); /* whatever was passed is closed */
    restore_channel(saved);
}

#define LONG_10 "0123456789"
#define LONG_100 LONG_10 LONG_10 LONG_10 LONG_10 LONG_10 LONG_10 LONG_10 LONG_10 LONG_10 LONG_10

static void test_what_the_old_process_passes_is_accepted(void **state) {
    serving_t *serving = *state;
    static const upgrade_t upgrades[] = {
        {{{"C", NOTHING}}, UVHTTP_OK, 0, 0, false},
        {{{"A127.0.0.1:1", LISTENING}, {"C", NOTHING}}, UVHTTP_OK, 1, 1, false},
        {{{"A127.0.0.1:1", LISTENING}, {"M127.0.0.1:1", LISTENING}, {"C", NOTHING}}, UVHTTP_OK, 2, 1, false},
        {{{"A127.0.0.1:1", LISTENING}, {"A127.0.0.1:2", LISTENING}, {"C", NOTHING}}, UVHTTP_OK, 2, 2, false},
        {{{"A127.0.0.1:1", LISTENING}, {"M127.0.0.1:1", AGAIN}, {"C", NOTHING}}, UVHTTP_OK, 1, 1, false},
        {{{"M127.0.0.1:1", LISTENING}, {"C", NOTHING}}, UVHTTP_OK, 1, 1, false},
        {{{"A127.0.0.1:1", TWO}, {"C", NOTHING}}, UVHTTP_OK, 1, 1, false}, /* one is used */
        {{{"P", SILENT}, {"C", NOTHING}}, UVHTTP_OK, 0, 0, true},
        {{{"A127.0.0.1:1", LISTENING}, {"P", SILENT}, {"C", NOTHING}}, UVHTTP_OK, 1, 1, true},
        /* Longer than any address, and than a message: what is kept of it ends in a NUL. */
        {{{"A" LONG_100 LONG_100 LONG_100 LONG_100 LONG_100 LONG_100, LISTENING}, {"C", NOTHING}},
         UVHTTP_OK,
         1,
         1,
         false},
    };
    serving_make(serving);
    for (size_t i = 0; i < sizeof upgrades / sizeof *upgrades; i++) receive(serving, &upgrades[i]);
}

static void test_what_it_never_passes_ends_the_upgrade_and_is_closed(void **state) {
    serving_t *serving = *state;
    static const upgrade_t upgrades[] = {
        {{{NULL, NOTHING}}, UVHTTP_E_IO, 0, 0, false}, /* it has ended */
        {{{"", NOTHING}}, UVHTTP_E_IO, 0, 0, false},
        {{{"A127.0.0.1:1", LISTENING}}, UVHTTP_E_IO, 1, 1, false},
        {{{"A127.0.0.1:1", NOTHING}, {"C", NOTHING}}, UVHTTP_E_IO, 0, 0, false},
        {{{"A127.0.0.1:1", SILENT}, {"C", NOTHING}}, UVHTTP_E_ADDRESS, 0, 0, false},
        {{{"X", NOTHING}, {"C", NOTHING}}, UVHTTP_E_IO, 0, 0, false},
        {{{"X", SILENT}, {"C", NOTHING}}, UVHTTP_E_IO, 0, 0, false},
        {{{"C", SILENT}}, UVHTTP_E_IO, 0, 0, false},
        {{{"P", NOTHING}, {"C", NOTHING}}, UVHTTP_E_IO, 0, 0, false},
        {{{"P", SILENT}, {"P", SILENT}, {"C", NOTHING}}, UVHTTP_E_IO, 0, 0, true},
    };
    serving_make(serving);
    for (size_t i = 0; i < sizeof upgrades / sizeof *upgrades; i++) receive(serving, &upgrades[i]);
}

/* Such an end is an error of the channel, which comes before what was sent. */
static void test_what_an_old_process_has_sent_arrives_though_it_ended_without_reading(void **state) {
    serving_t *serving = *state;
    int ends[2];
    char message[256] = "";
    serving_make(serving);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(send(ends[1], "R", 1, 0), 1);
    assert_int_equal(send(ends[0], "C", 1, 0), 1);
    close(ends[0]);
    int saved = put_at_channel(ends[1]);
    uvhttp__process_t process = {.server = serving->server, .channel = -1, .pid_file = -1};
    setenv(VARIABLE, "3", 1);
    assert_int_equal(uvhttp__successor_receive(&process, message, sizeof message), UVHTTP_OK);
    restore_channel(saved);
}

/* --- listening on what was passed --- */

/* What the kernel says of a listening socket. */
static uint32_t backlog_of(int fd) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_sacked;
}

/* The sockets of a service manager keep the backlog that it has chosen. */
static void test_a_backlog_that_was_changed_applies_to_what_is_inherited(void **state) {
    static const struct {
        const char *address;
        uint32_t backlog;
    } sockets[] = {{"127.0.0.1:1", 77}, {"systemd:web", 4}, {"systemd", 4}, {"fd:9", 4}};
    serving_t *serving = *state;
    serving->config.backlog = 77;
    serving_make(serving);
    for (size_t i = 0; i < sizeof sockets / sizeof *sockets; i++) {
        int listening = -1, fd = make_descriptor(LISTENING, &listening);
        uvhttp__inherited_t *inherited = &serving->server->tcp_server->inherited;
        assert_int_equal(uvhttp__inherited_add(inherited, sockets[i].address, fd, false), UVHTTP_OK);
        assert_int_equal(uvhttp_server_listen(serving->server, sockets[i].address, NULL), UVHTTP_OK);
        if (backlog_of(listening) != sockets[i].backlog) fail_msg("%s: %u", sockets[i].address, backlog_of(listening));
        close(listening);
    }
}

/* --- the channel --- */

static void assert_no_channel(uvhttp_server_t *server, const char *variable, int fd) {
    char message[256] = "";
    uvhttp__process_t process = {.server = server, .channel = -1, .pid_file = -1};
    int saved = put_at_channel(fd);
    setenv(VARIABLE, variable, 1);
    assert_int_equal(uvhttp__successor_receive(&process, message, sizeof message), UVHTTP_E_IO);
    assert_string_equal(message, VARIABLE " is set, but descriptor 3 is not from an upgrade");
    assert_null(getenv(VARIABLE)); /* children of this process do not get it */
    assert_int_equal(process.channel, -1);
    restore_channel(saved);
}

static void test_a_variable_alone_is_no_upgrade(void **state) {
    serving_t *serving = *state;
    int ends[2];
    char message[16] = "";
    serving_make(serving);
    uvhttp__process_t process = {.server = serving->server, .channel = -1};
    unsetenv(VARIABLE);
    assert_int_equal(uvhttp__successor_receive(&process, message, sizeof message), UVHTTP_OK);
    assert_int_equal(process.channel, -1);
    assert_no_channel(serving->server, "3", open("/dev/null", O_RDWR | O_CLOEXEC));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_no_channel(serving->server, "3", ends[1]);
    close(ends[0]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_no_channel(serving->server, "4", ends[1]);
    close(ends[0]);
}

static void test_the_old_process_hears_how_it_went(void **state) {
    (void)state;
    char text[600] = "";
    for (int failed = 0; failed < 2; failed++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        uvhttp__process_t process = {.channel = ends[1], .borrowed = true};
        assert_true(uvhttp__successor_report(&process, failed ? "no port" : NULL));
        assert_int_equal(process.channel, -1);
        assert_int_equal(process.borrowed, failed); /* the PID file is this process's alone when it is ready */
        ssize_t size = recv(ends[0], text, sizeof text, 0);
        assert_int_equal(size, failed ? 8 : 1);
        assert_memory_equal(text, failed ? "Fno port" : "R", (size_t)size);
        close(ends[0]);
    }
}

static void test_a_process_that_has_ended_hears_nothing(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    close(ends[0]);
    uvhttp__process_t process = {.channel = ends[1], .borrowed = true};
    assert_false(uvhttp__successor_report(&process, NULL));
    assert_true(process.borrowed);
    assert_int_equal(process.channel, -1);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    const struct CMUnitTest tests[] = {
        ON_ENGINE(test_what_the_old_process_passes_is_accepted, on_epoll),
        ON_ENGINE(test_what_it_never_passes_ends_the_upgrade_and_is_closed, on_epoll),
        ON_ENGINE(test_what_an_old_process_has_sent_arrives_though_it_ended_without_reading, on_epoll),
        ON_ENGINE(test_a_backlog_that_was_changed_applies_to_what_is_inherited, on_epoll),
        ON_ENGINE(test_a_variable_alone_is_no_upgrade, on_epoll),
        cmocka_unit_test(test_the_old_process_hears_how_it_went),
        cmocka_unit_test(test_a_process_that_has_ended_hears_nothing),
    };
    return RUN_TABLE(tests);
}
