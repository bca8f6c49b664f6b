/* Owns: tests of io_address.c. Every socket here is a real one, on loopback, with a port that the kernel chooses. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/io.h"

static uvhttp__endpoint_t parsed(const char *text) {
    uvhttp__endpoint_t endpoint;
    if (uvhttp__endpoint_parse(text, &endpoint) != 0) fail_msg("\"%s\" was refused", text);
    return endpoint;
}

static void assert_round_trip(const char *text, const char *expected) {
    char written[UVHTTP__ADDRESS_TEXT_MAX];
    uvhttp__endpoint_t endpoint = parsed(text);
    uvhttp__address_format(&endpoint.address, endpoint.address_size, written);
    assert_string_equal(written, expected);
}

static int listen_on(const char *text) {
    int fd = -1;
    uvhttp__endpoint_t endpoint = parsed(text);
    int code = uvhttp__listen_socket(&endpoint, 16, false, &fd);
    if (code != 0) fail_msg("listening on %s: %s, %s", text, uvhttp_error_name(code), strerror(errno));
    return fd;
}

static int listen_code(const char *text, bool reuse_port) {
    int fd = -1;
    uvhttp__endpoint_t endpoint = parsed(text);
    int code = uvhttp__listen_socket(&endpoint, 16, reuse_port, &fd);
    if (code == 0) close(fd);
    return code;
}

static int option_of(int fd, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

static int port_of(int fd) {
    uvhttp__address_t address;
    socklen_t size = sizeof address;
    assert_int_equal(getsockname(fd, &address.any, &size), 0);
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

/* A blocking connect to loopback succeeds as soon as the backlog has space. */
static int connect_port(int family, int port) {
    uvhttp__address_t address;
    memset(&address, 0, sizeof address);
    socklen_t size = 0;
    if (family == AF_INET) {
        address.v4 = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        size = sizeof address.v4;
    } else {
        address.v6 = (struct sockaddr_in6){
            .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_loopback};
        size = sizeof address.v6;
    }
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, &address.any, size) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int accept_within(int fd, int timeout_ms) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, timeout_ms), 1);
    int accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(accepted >= 0);
    return accepted;
}

/* `asked` is the endpoint's, NULL: none. */
static void assert_congestion_control(const char *text, const char *asked, const char *expected) {
    char name[16] = "";
    socklen_t size = sizeof name;
    int fd = -1;
    uvhttp__endpoint_t endpoint = parsed(text);
    endpoint.congestion_control = asked;
    assert_int_equal(uvhttp__listen_socket(&endpoint, 16, false, &fd), 0);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    close(fd);
    assert_string_equal(name, expected);
}

static bool have_ipv6(void) {
    int fd = -1;
    uvhttp__endpoint_t endpoint = parsed("[::1]:0");
    if (uvhttp__listen_socket(&endpoint, 1, false, &fd) != 0) return false;
    close(fd);
    return true;
}

static void test_tcp_endpoints_round_trip_through_text(void **state) {
    (void)state;
    assert_round_trip("127.0.0.1:8080", "127.0.0.1:8080");
    assert_round_trip("0.0.0.0:0", "0.0.0.0:0");
    assert_round_trip("255.255.255.255:65535", "255.255.255.255:65535");
    assert_round_trip("localhost:80", "127.0.0.1:80");
    assert_round_trip("LocalHost:80", "127.0.0.1:80");
    assert_round_trip("[::1]:8080", "[::1]:8080");
    assert_round_trip("[2001:db8::ffff:1]:1", "[2001:db8::ffff:1]:1");
    assert_round_trip("[::]:0", "[::]:0");
    assert_round_trip("*:443", "[::]:443");
    assert_round_trip(":443", "[::]:443");
}

static void test_any_address_is_dual_stack_and_an_ipv6_literal_is_not(void **state) {
    (void)state;
    assert_true(parsed("*:80").dual_stack);
    assert_true(parsed(":80").dual_stack);
    assert_false(parsed("[::]:80").dual_stack);
    assert_false(parsed("0.0.0.0:80").dual_stack);
    assert_int_equal(parsed("*:80").fd, -1);
}

static void test_malformed_endpoints_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "127.0.0.1",
        "127.0.0.1:",
        "8080",
        ":",
        "*:",
        "127.0.0.1:65536",
        "127.0.0.1:99999999999999999999",
        "127.0.0.1:-1",
        "127.0.0.1:+1",
        "127.0.0.1: 80",
        "127.0.0.1:80 ",
        "127.0.0.1:8a",
        "127.0.0.1:0x50",
        " :80",
        "127.0.0:80",
        "127.0.0.256:80",
        "127.0.0.1.1:80",
        "example.com:80",
        "localhost",
        "**:80",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[::1:80",
        "::1]:80",
        "[]:80",
        "[]",
        "[:80",
        "[127.0.0.1]:80",
        "[:::1]:80",
        "[::1%]:80",
        "[fe80::1%0]:80",
        "[fe80::1%no_such_interface]:80",
        "[::12345]:80",
        "unix:",
        "unix:@",
        "fd:",
        "fd:-1",
        "fd:x",
        "fd:3x",
        "fd: 3",
        "fd:2147483648",
        "fd:99999999999",
        "Systemd",
        "systemd:3",
        "http://127.0.0.1:80",
        "127.0.0.1:80/",
        "[1234:1234:1234:1234:1234:1234:1234:1234:1234:1234:1234:1234:1234:1234:1234:1234:1234]:80",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uvhttp__endpoint_t endpoint;
        int code = uvhttp__endpoint_parse(bad[i], &endpoint);
        if (code != UVHTTP_E_ADDRESS) fail_msg("\"%s\" gave %s", bad[i], uvhttp_error_name(code));
    }
}

static void test_scope_of_a_link_local_address_is_a_name_or_a_number(void **state) {
    (void)state;
    unsigned loopback = if_nametoindex("lo");
    if (loopback == 0) skip();
    char expected[64];
    snprintf(expected, sizeof expected, "[fe80::1%%%u]:80", loopback);
    assert_round_trip("[fe80::1%lo]:80", expected);
    assert_round_trip("[fe80::1%7]:80", "[fe80::1%7]:80");
}

static void test_unix_path_of_maximum_length_is_accepted_and_one_more_refused(void **state) {
    (void)state;
    uvhttp__endpoint_t endpoint;
    enum { MAX = sizeof endpoint.address.local.sun_path };
    char text[256] = "unix:/";
    memset(text + 6, 'a', MAX);
    text[5 + MAX - 1] = '\0'; /* a path needs its NUL */
    assert_round_trip(text, text);
    assert_int_equal(parsed(text).address_size, sizeof(struct sockaddr_un));
    text[5 + MAX - 1] = 'a';
    text[5 + MAX] = '\0';
    assert_int_equal(uvhttp__endpoint_parse(text, &endpoint), UVHTTP_E_ADDRESS);
    text[5] = '@'; /* an abstract name does not: "@" stands for the first byte, so it has one more */
    assert_round_trip(text, text);
    text[5 + MAX] = 'a';
    text[5 + MAX + 1] = '\0';
    assert_int_equal(uvhttp__endpoint_parse(text, &endpoint), UVHTTP_E_ADDRESS);
}

static void test_format_writes_nothing_unprintable(void **state) {
    (void)state;
    char text[UVHTTP__ADDRESS_TEXT_MAX];
    uvhttp__address_t address;
    memset(&address, 0, sizeof address);
    address.local.sun_family = AF_UNIX;
    memcpy(address.local.sun_path, "\0a\n\0\x1b\xff", 6);
    uvhttp__address_format(&address, offsetof(struct sockaddr_un, sun_path) + 6, text);
    assert_string_equal(text, "unix:@a????");
    uvhttp__address_format(&address, offsetof(struct sockaddr_un, sun_path), text); /* a client that did not bind */
    assert_string_equal(text, "unix:");
}

static void test_format_survives_any_size_and_family(void **state) {
    (void)state;
    char text[UVHTTP__ADDRESS_TEXT_MAX];
    uvhttp__address_t address;
    memset(&address, 'x', sizeof address);
    uvhttp__address_format(&address, sizeof address, text);
    assert_string_equal(text, "unknown");
    uvhttp__address_format(&address, 0, text);
    assert_string_equal(text, "unknown");
    address.any.sa_family = AF_INET;
    uvhttp__address_format(&address, 4, text);
    assert_string_equal(text, "unknown");
    address.any.sa_family = AF_UNIX; /* a path that fills sun_path has no NUL */
    uvhttp__address_format(&address, sizeof address.local, text);
    assert_int_equal(strlen(text), 5 + sizeof address.local.sun_path);
    uvhttp__address_format(&address, 1000, text);
    assert_int_equal(strlen(text), 5 + sizeof address.local.sun_path);
}

static void test_format_writes_a_mapped_ipv4_client_as_ipv4(void **state) {
    (void)state;
    assert_round_trip("[::ffff:192.0.2.1]:80", "192.0.2.1:80");
}

static void test_listening_socket_has_its_options(void **state) {
    (void)state;
    int fd = listen_on("127.0.0.1:0");
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(option_of(fd, SOL_SOCKET, SO_ACCEPTCONN));
    assert_true(option_of(fd, SOL_SOCKET, SO_REUSEADDR));
    assert_true(option_of(fd, IPPROTO_TCP, TCP_NODELAY));
    assert_false(option_of(fd, SOL_SOCKET, SO_REUSEPORT));
    int client = connect_port(AF_INET, port_of(fd));
    int accepted = accept_within(fd, 5000);
    assert_true(option_of(accepted, IPPROTO_TCP, TCP_NODELAY));
    close(accepted);
    close(client);
    close(fd);
}

/* Whoever is on this machine is not paced; to all others the system's choice applies. */
static void test_congestion_control_is_reno_on_loopback_and_else_the_systems(void **state) {
    (void)state;
    char system[16] = "";
    int fd = open("/proc/sys/net/ipv4/tcp_congestion_control", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, system, sizeof system - 1) : -1;
    if (fd >= 0) close(fd);
    if (size <= 0) skip();
    system[strcspn(system, "\n")] = '\0';
    assert_congestion_control("127.0.0.1:0", NULL, "reno");
    assert_congestion_control("127.3.2.1:0", "", "reno");
    assert_congestion_control("127.0.0.1:0", "system", system);
    assert_congestion_control("0.0.0.0:0", NULL, system);
    assert_congestion_control("0.0.0.0:0", "reno", "reno");
    if (!have_ipv6()) return;
    assert_congestion_control("[::1]:0", NULL, "reno");
    assert_congestion_control("[::1]:0", "system", system);
    assert_congestion_control("[::]:0", NULL, system);
    assert_congestion_control("*:0", NULL, system);
    assert_congestion_control("*:0", "reno", "reno");
}

/* It holds for a socket that was inherited, too, and is of no concern to a Unix socket. */
static void test_a_named_congestion_control_is_set_or_refused(void **state) {
    (void)state;
    int fd = -1, inherited = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char name[16] = "";
    socklen_t size = sizeof name;
    assert_int_equal(listen(inherited, 1), 0);
    uvhttp__endpoint_t endpoint = {.fd = inherited, .congestion_control = "reno"};
    assert_int_equal(uvhttp__listen_socket(&endpoint, 16, false, &fd), 0);
    assert_int_equal(fd, inherited);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    assert_string_equal(name, "reno");
    endpoint.congestion_control = "carrier-pigeon";
    assert_int_equal(uvhttp__listen_socket(&endpoint, 16, false, &fd), UVHTTP_E_CONFIG);
    close(inherited);
    endpoint = parsed("127.0.0.1:0");
    endpoint.congestion_control = "carrier-pigeon";
    assert_int_equal(uvhttp__listen_socket(&endpoint, 16, false, &fd), UVHTTP_E_CONFIG);
    assert_int_equal(errno, ENOENT);
    endpoint = parsed("unix:@uvhttp-test-congestion");
    endpoint.congestion_control = "reno";
    assert_int_equal(uvhttp__listen_socket(&endpoint, 16, false, &fd), 0);
    close(fd);
}

static void test_port_in_use_is_said(void **state) {
    (void)state;
    char text[64];
    int fd = listen_on("127.0.0.1:0");
    snprintf(text, sizeof text, "127.0.0.1:%d", port_of(fd));
    errno = 0;
    assert_int_equal(listen_code(text, false), UVHTTP_E_ADDRESS_IN_USE);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(listen_code(text, true), UVHTTP_E_ADDRESS_IN_USE); /* both must ask for sharing */
    close(fd);
    assert_int_equal(listen_code(text, false), 0);
}

static void test_reuse_port_lets_loops_share_a_port(void **state) {
    (void)state;
    char text[64];
    int first = -1;
    int second = -1;
    uvhttp__endpoint_t endpoint = parsed("127.0.0.1:0");
    assert_int_equal(uvhttp__listen_socket(&endpoint, 16, true, &first), 0);
    snprintf(text, sizeof text, "127.0.0.1:%d", port_of(first));
    endpoint = parsed(text);
    assert_int_equal(uvhttp__listen_socket(&endpoint, 16, true, &second), 0);
    assert_int_equal(port_of(first), port_of(second));
    close(first);
    close(second);
}

static void test_address_of_another_machine_is_an_address_error(void **state) {
    (void)state;
    assert_int_equal(listen_code("192.0.2.1:0", false), UVHTTP_E_ADDRESS);
    assert_int_equal(listen_code("unix:/no/such/folder/socket", false), UVHTTP_E_ADDRESS);
}

static void test_dual_stack_takes_both_families(void **state) {
    (void)state;
    int fd = listen_on("*:0");
    int client = connect_port(AF_INET, port_of(fd));
    assert_true(client >= 0);
    close(accept_within(fd, 5000));
    close(client);
    if (have_ipv6()) {
        client = connect_port(AF_INET6, port_of(fd));
        assert_true(client >= 0);
        close(accept_within(fd, 5000));
        close(client);
    }
    close(fd);
}

static void test_ipv6_any_leaves_ipv4_alone(void **state) {
    (void)state;
    if (!have_ipv6()) skip();
    int fd = -1, other = 0;
    for (int tries = 0; tries < 10 && other >= 0; tries++) { /* another process may have the port over IPv4 */
        if (fd >= 0) close(other), close(fd);
        fd = listen_on("[::]:0");
        other = connect_port(AF_INET, port_of(fd));
    }
    assert_int_equal(other, -1);
    int client = connect_port(AF_INET6, port_of(fd));
    assert_true(client >= 0);
    close(client);
    close(fd);
}

/* --- Unix sockets --- */

typedef struct folder {
    char path[64];
    char socket_path[80];
    char endpoint[96];
} folder_t;

static int make_folder(void **state) {
    folder_t *folder = calloc(1, sizeof *folder);
    snprintf(folder->path, sizeof folder->path, "/tmp/uvhttp-address-XXXXXX");
    if (!mkdtemp(folder->path)) return -1;
    snprintf(folder->socket_path, sizeof folder->socket_path, "%s/socket", folder->path);
    snprintf(folder->endpoint, sizeof folder->endpoint, "unix:%s", folder->socket_path);
    *state = folder;
    return 0;
}

static int remove_folder(void **state) {
    folder_t *folder = *state;
    unlink(folder->socket_path);
    int code = rmdir(folder->path); /* fails when a test left something else */
    free(folder);
    return code;
}

static int connect_endpoint(const char *text) {
    uvhttp__endpoint_t endpoint = parsed(text);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, &endpoint.address.any, endpoint.address_size) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void test_unix_socket_listens(void **state) {
    folder_t *folder = *state;
    int fd = listen_on(folder->endpoint);
    int client = connect_endpoint(folder->endpoint);
    assert_true(client >= 0);
    close(accept_within(fd, 5000));
    close(client);
    close(fd);
}

static void test_stale_unix_socket_is_replaced(void **state) {
    folder_t *folder = *state;
    close(listen_on(folder->endpoint)); /* the file stays, as after a crash */
    struct stat status;
    assert_int_equal(stat(folder->socket_path, &status), 0);
    int fd = listen_on(folder->endpoint);
    int client = connect_endpoint(folder->endpoint);
    assert_true(client >= 0);
    close(client);
    close(fd);
}

static void test_unix_socket_with_a_listener_is_in_use(void **state) {
    folder_t *folder = *state;
    int fd = listen_on(folder->endpoint);
    assert_int_equal(listen_code(folder->endpoint, false), UVHTTP_E_ADDRESS_IN_USE);
    int client = connect_endpoint(folder->endpoint); /* and was not harmed */
    assert_true(client >= 0);
    close(client);
    close(fd);
}

static void test_unix_socket_with_a_full_backlog_is_in_use(void **state) {
    folder_t *folder = *state;
    int fd = -1;
    int clients[8];
    int count = 0;
    uvhttp__endpoint_t endpoint = parsed(folder->endpoint);
    assert_int_equal(uvhttp__listen_socket(&endpoint, 1, false, &fd), 0);
    for (; count < 8; count++) {
        clients[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(clients[count], &endpoint.address.any, endpoint.address_size) != 0) break;
    }
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(listen_code(folder->endpoint, false), UVHTTP_E_ADDRESS_IN_USE);
    for (int i = 0; i <= count; i++) close(clients[i]);
    close(fd);
}

static void test_file_that_is_no_socket_is_never_removed(void **state) {
    folder_t *folder = *state;
    int file = open(folder->socket_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(file, "precious", 8), 8);
    close(file);
    assert_int_equal(listen_code(folder->endpoint, false), UVHTTP_E_ADDRESS_IN_USE);
    struct stat status;
    assert_int_equal(stat(folder->socket_path, &status), 0);
    assert_int_equal(status.st_size, 8);
}

static void test_symbolic_link_to_a_stale_socket_is_not_followed(void **state) {
    folder_t *folder = *state;
    char target[96];
    snprintf(target, sizeof target, "%s.target", folder->socket_path);
    char target_endpoint[112];
    snprintf(target_endpoint, sizeof target_endpoint, "unix:%s", target);
    close(listen_on(target_endpoint));
    assert_int_equal(symlink(target, folder->socket_path), 0);
    assert_int_equal(listen_code(folder->endpoint, false), UVHTTP_E_ADDRESS_IN_USE);
    struct stat status;
    assert_int_equal(lstat(folder->socket_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    unlink(target);
}

static void test_abstract_unix_socket_leaves_no_file(void **state) {
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "unix:@uvhttp-test-%d", (int)getpid());
    int fd = listen_on(text);
    assert_int_equal(listen_code(text, false), UVHTTP_E_ADDRESS_IN_USE);
    int client = connect_endpoint(text);
    assert_true(client >= 0);
    char written[UVHTTP__ADDRESS_TEXT_MAX];
    uvhttp__address_t address;
    socklen_t size = sizeof address;
    assert_int_equal(getpeername(client, &address.any, &size), 0);
    uvhttp__address_format(&address, size, written);
    assert_string_equal(written, text);
    close(client);
    close(fd);
    fd = listen_on(text);
    close(fd);
}

/* --- inherited descriptors --- */

static void test_inherited_listening_socket_is_used_as_it_is(void **state) {
    (void)state;
    char text[32];
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* blocking and without close-on-exec, as a parent hands it down */
    assert_int_equal(listen(fd, 4), 0);
    snprintf(text, sizeof text, "fd:%d", fd);
    int same = listen_on(text);
    assert_int_equal(same, fd);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(option_of(fd, IPPROTO_TCP, TCP_NODELAY));
    close(fd);
}

static void assert_refused_as_inherited(int fd) {
    char text[32];
    snprintf(text, sizeof text, "fd:%d", fd);
    assert_int_equal(listen_code(text, false), UVHTTP_E_ADDRESS);
    close(fd);
}

static void test_inherited_descriptor_that_does_not_listen_is_refused(void **state) {
    (void)state;
    int ends[2];
    assert_refused_as_inherited(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    assert_refused_as_inherited(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    assert_refused_as_inherited(open("/dev/null", O_RDWR | O_CLOEXEC));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_refused_as_inherited(ends[0]);
    close(ends[1]);
    int seqpacket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_int_equal(bind(seqpacket, (struct sockaddr *)&address, sizeof(sa_family_t)), 0); /* the kernel names it */
    assert_int_equal(listen(seqpacket, 4), 0);
    assert_refused_as_inherited(seqpacket);
    assert_int_equal(listen_code("fd:1000000", false), UVHTTP_E_ADDRESS);
}

/* In a child, because the first descriptor of systemd has a number of its own. */
static void in_child(int (*run)(void)) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(run());
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int systemd_child(void) {
    uvhttp__endpoint_t endpoint;
    char pid[16];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (listen(fd, 4) != 0 || dup2(fd, 3) != 3) return 1;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
    if (uvhttp__endpoint_parse("systemd", &endpoint) != 0 || endpoint.fd != 3) return 2;
    fd = -1;
    if (uvhttp__listen_socket(&endpoint, 4, false, &fd) != 0 || fd != 3) return 3;
    setenv("LISTEN_FDS", "0", 1);
    if (uvhttp__endpoint_parse("systemd", &endpoint) != UVHTTP_E_ADDRESS) return 4;
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", "1", 1); /* somebody else's */
    if (uvhttp__endpoint_parse("systemd", &endpoint) != UVHTTP_E_ADDRESS) return 5;
    unsetenv("LISTEN_PID");
    return uvhttp__endpoint_parse("systemd", &endpoint) == UVHTTP_E_ADDRESS ? 0 : 6;
}

static void test_systemd_means_descriptor_three_of_this_process(void **state) {
    (void)state;
    in_child(systemd_child);
}

static int privileged_child(void) {
    int first_free = 1024;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    if (file) {
        if (fscanf(file, "%d", &first_free) != 1) first_free = 1024;
        fclose(file);
    }
    if (first_free <= 1) return 0;
    if (geteuid() == 0 && setuid(65534) != 0) return 1;
    return listen_code("127.0.0.1:1", false) == UVHTTP_E_PERMISSION ? 0 : 2;
}

static void test_port_that_an_ordinary_user_may_not_have_is_a_permission_error(void **state) {
    (void)state;
    in_child(privileged_child);
}

/* What the kernel says of the second socket is what is known without it. */
static void assert_overlap_is_known(const char *first, const char *second) {
    char text[UVHTTP__ADDRESS_TEXT_MAX];
    uvhttp__address_t bound = {0};
    socklen_t size = sizeof bound;
    int one, other;
    snprintf(text, sizeof text, "%s:0", first);
    uvhttp__endpoint_t a = parsed(text);
    assert_int_equal(uvhttp__listen_socket(&a, 8, false, &one), 0);
    assert_int_equal(getsockname(one, &bound.any, &size), 0);
    unsigned port = ntohs(bound.any.sa_family == AF_INET ? bound.v4.sin_port : bound.v6.sin6_port);
    snprintf(text, sizeof text, "%s:%u", first, port);
    a = parsed(text);
    snprintf(text, sizeof text, "%s:%u", second, port);
    uvhttp__endpoint_t b = parsed(text);
    int status = uvhttp__listen_socket(&b, 8, false, &other);
    if (uvhttp__endpoint_overlaps(&a, &b) != (status == UVHTTP_E_ADDRESS_IN_USE))
        fail_msg("%s and %s: listen returned %d", first, second, status);
    assert_int_equal(uvhttp__endpoint_overlaps(&b, &a), uvhttp__endpoint_overlaps(&a, &b));
    assert_int_equal(uvhttp__listen_socket(&b, 8, false, NULL), 0); /* others are left out */
    if (status == 0) close(other);
    close(one);
}

static void test_addresses_that_cannot_both_be_listened_on_are_known_before(void **state) {
    (void)state;
    static const char *const hosts[] = {"127.0.0.1", "127.0.0.2", "0.0.0.0", "[::1]", "[::]", "*"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        for (size_t j = 0; j < sizeof hosts / sizeof *hosts; j++) assert_overlap_is_known(hosts[i], hosts[j]);
    const uvhttp__endpoint_t path = parsed("unix:a"), other = parsed("unix:ab"), any = parsed("127.0.0.1:0"),
                             passed = parsed("fd:3");
    assert_true(uvhttp__endpoint_overlaps(&path, &path));
    assert_false(uvhttp__endpoint_overlaps(&path, &other));
    assert_false(uvhttp__endpoint_overlaps(&path, &any));
    assert_false(uvhttp__endpoint_overlaps(&any, &any));
    assert_false(uvhttp__endpoint_overlaps(&passed, &passed));
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp_endpoints_round_trip_through_text),
        cmocka_unit_test(test_any_address_is_dual_stack_and_an_ipv6_literal_is_not),
        cmocka_unit_test(test_malformed_endpoints_are_refused),
        cmocka_unit_test(test_scope_of_a_link_local_address_is_a_name_or_a_number),
        cmocka_unit_test(test_unix_path_of_maximum_length_is_accepted_and_one_more_refused),
        cmocka_unit_test(test_format_writes_nothing_unprintable),
        cmocka_unit_test(test_format_survives_any_size_and_family),
        cmocka_unit_test(test_format_writes_a_mapped_ipv4_client_as_ipv4),
        cmocka_unit_test(test_listening_socket_has_its_options),
        cmocka_unit_test(test_congestion_control_is_reno_on_loopback_and_else_the_systems),
        cmocka_unit_test(test_a_named_congestion_control_is_set_or_refused),
        cmocka_unit_test(test_port_in_use_is_said),
        cmocka_unit_test(test_reuse_port_lets_loops_share_a_port),
        cmocka_unit_test(test_address_of_another_machine_is_an_address_error),
        cmocka_unit_test(test_dual_stack_takes_both_families),
        cmocka_unit_test(test_ipv6_any_leaves_ipv4_alone),
        WITH_FOLDER(test_unix_socket_listens),
        WITH_FOLDER(test_stale_unix_socket_is_replaced),
        WITH_FOLDER(test_unix_socket_with_a_listener_is_in_use),
        WITH_FOLDER(test_unix_socket_with_a_full_backlog_is_in_use),
        WITH_FOLDER(test_file_that_is_no_socket_is_never_removed),
        WITH_FOLDER(test_symbolic_link_to_a_stale_socket_is_not_followed),
        cmocka_unit_test(test_abstract_unix_socket_leaves_no_file),
        cmocka_unit_test(test_inherited_listening_socket_is_used_as_it_is),
        cmocka_unit_test(test_inherited_descriptor_that_does_not_listen_is_refused),
        cmocka_unit_test(test_systemd_means_descriptor_three_of_this_process),
        cmocka_unit_test(test_port_that_an_ordinary_user_may_not_have_is_a_permission_error),
        cmocka_unit_test(test_addresses_that_cannot_both_be_listened_on_are_known_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
