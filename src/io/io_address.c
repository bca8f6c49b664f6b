/* Owns: what an endpoint's text means, how an address is written, and listening sockets. May include: base, obs. */
#include "io/io.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/new_file.h"
#include "base/str.h"

static_assert(sizeof("unix:") + sizeof(((struct sockaddr_un *)0)->sun_path) <= UVHTTP__ADDRESS_TEXT_MAX,
              "the longest Unix address fits into the text");

enum { SYSTEMD_FIRST_FD = 3, PORT_MAX = 65535 };

/* Decimal digits only, no sign, no space: strtol would take both. */
static bool parse_number(const char *text, size_t size, int max, int *number) {
    if (size == 0 || size > 10) return false;
    int64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (text[i] - '0');
    }
    if (value > max) return false;
    *number = (int)value;
    return true;
}

static int parse_unix(const char *name, uvhttp__endpoint_t *endpoint) {
    struct sockaddr_un *local = &endpoint->address.local;
    size_t size = strlen(name);
    bool abstract = name[0] == '@';
    if (size < (abstract ? 2 : 1) || size >= sizeof local->sun_path + (abstract ? 1 : 0)) return UVHTTP_E_ADDRESS;
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, name, size);
    if (abstract) {
        local->sun_path[0] = '\0'; /* that is what makes it abstract; its name ends where the address ends */
    } else {
        size++; /* the NUL is already there */
    }
    endpoint->address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return 0;
}

/* The place of `name` in "one:two:three", or -1. */
static int find_name(const char *names, const char *name) {
    size_t size = strlen(name);
    for (int i = 0; names; i++) {
        if (strncmp(names, name, size) == 0 && (names[size] == ':' || names[size] == '\0')) return i;
        names = strchr(names, ':');
        if (names) names++;
    }
    return -1;
}

/* sd_listen_fds(3): the variables are ours only if LISTEN_PID is this process, else a parent's were inherited. name:
 * FileDescriptorName of the socket's unit, "" for the first socket. */
static int parse_systemd(const char *name, uvhttp__endpoint_t *endpoint) {
    const char *pid_text = getenv("LISTEN_PID");
    const char *count_text = getenv("LISTEN_FDS");
    int pid = 0;
    int count = 0;
    if (!pid_text || !count_text) return UVHTTP_E_ADDRESS;
    if (!parse_number(pid_text, strlen(pid_text), INT32_MAX, &pid) || pid != getpid()) return UVHTTP_E_ADDRESS;
    if (!parse_number(count_text, strlen(count_text), INT32_MAX, &count) || count < 1) return UVHTTP_E_ADDRESS;
    int index = *name ? find_name(getenv("LISTEN_FDNAMES"), name) : 0;
    if (index < 0 || index >= count) return UVHTTP_E_ADDRESS;
    endpoint->fd = SYSTEMD_FIRST_FD + index;
    return 0;
}

static void set_v4(uvhttp__endpoint_t *endpoint, in_port_t port_be, in_addr_t address_be) {
    endpoint->address.v4.sin_family = AF_INET;
    endpoint->address.v4.sin_port = port_be;
    endpoint->address.v4.sin_addr.s_addr = address_be;
    endpoint->address_size = sizeof endpoint->address.v4;
}

/* "::1" or "fe80::1%eth0", without the brackets. */
static int parse_v6(char *host, in_port_t port_be, uvhttp__endpoint_t *endpoint) {
    struct sockaddr_in6 *v6 = &endpoint->address.v6;
    char *scope = strchr(host, '%');
    if (scope) {
        *scope++ = '\0';
        int index = 0;
        if (!parse_number(scope, strlen(scope), INT32_MAX, &index)) index = (int)if_nametoindex(scope);
        if (index == 0) return UVHTTP_E_ADDRESS;
        v6->sin6_scope_id = (uint32_t)index;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1) return UVHTTP_E_ADDRESS;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = port_be;
    endpoint->address_size = sizeof *v6;
    return 0;
}

static int parse_tcp(const char *text, uvhttp__endpoint_t *endpoint) {
    const char *colon = strrchr(text, ':');
    int port = 0;
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 4];
    if (!colon || !parse_number(colon + 1, strlen(colon + 1), PORT_MAX, &port)) return UVHTTP_E_ADDRESS;
    size_t size = (size_t)(colon - text);
    if (size >= sizeof host) return UVHTTP_E_ADDRESS;
    memcpy(host, text, size);
    host[size] = '\0';
    in_port_t port_be = htons((uint16_t)port);

    if (size == 0 || strcmp(host, "*") == 0) {
        endpoint->dual_stack = true;
        endpoint->address.v6.sin6_family = AF_INET6;
        endpoint->address.v6.sin6_port = port_be;
        endpoint->address.v6.sin6_addr = in6addr_any;
        endpoint->address_size = sizeof endpoint->address.v6;
        return 0;
    }
    if (uvhttp__text_equal_nocase(host, "localhost")) {
        set_v4(endpoint, port_be, htonl(INADDR_LOOPBACK));
        return 0;
    }
    if (host[0] == '[') {
        if (host[size - 1] != ']') return UVHTTP_E_ADDRESS;
        host[size - 1] = '\0';
        return parse_v6(host + 1, port_be, endpoint);
    }
    struct in_addr v4;
    if (inet_pton(AF_INET, host, &v4) != 1) return UVHTTP_E_ADDRESS;
    set_v4(endpoint, port_be, v4.s_addr);
    return 0;
}

static int parse_address(const char *text, uvhttp__endpoint_t *endpoint) {
    if (strncmp(text, "unix:", 5) == 0) return parse_unix(text + 5, endpoint);
    if (strncmp(text, "fd:", 3) == 0) {
        endpoint->is_passed_in = parse_number(text + 3, strlen(text + 3), INT32_MAX, &endpoint->fd);
        return endpoint->is_passed_in ? UVHTTP_OK : UVHTTP_E_ADDRESS;
    }
    endpoint->is_passed_in = strcmp(text, "systemd") == 0 || strncmp(text, "systemd:", 8) == 0;
    if (endpoint->is_passed_in) return parse_systemd(text[7] ? text + 8 : "", endpoint);
    return parse_tcp(text, endpoint);
}

int uvhttp__endpoint_split(const char *text, uvhttp__endpoint_t *endpoint) {
    static const char option[] = " proxy_protocol";
    size_t size = strlen(text), option_size = sizeof option - 1;
    memset(endpoint, 0, sizeof *endpoint);
    endpoint->fd = -1;
    endpoint->proxy_protocol = size > option_size && strcmp(text + size - option_size, option) == 0;
    if (endpoint->proxy_protocol) size -= option_size;
    if (size >= sizeof endpoint->text) return UVHTTP_E_ADDRESS;
    memcpy(endpoint->text, text, size); /* the NUL is already there */
    return UVHTTP_OK;
}

int uvhttp__endpoint_parse(const char *text, uvhttp__endpoint_t *endpoint) {
    int status = uvhttp__endpoint_split(text, endpoint);
    return status == UVHTTP_OK ? parse_address(endpoint->text, endpoint) : status;
}

/* Whoever can bind chooses the bytes of a Unix address, and the text goes into logs: nothing unprintable passes. */
static void format_unix(const struct sockaddr_un *local, size_t size, char *text) {
    size_t name_size =
        size > offsetof(struct sockaddr_un, sun_path) ? size - offsetof(struct sockaddr_un, sun_path) : 0;
    if (name_size > sizeof local->sun_path) name_size = sizeof local->sun_path;
    bool abstract = name_size > 0 && local->sun_path[0] == '\0';
    if (!abstract) name_size = strnlen(local->sun_path, name_size);
    memcpy(text, "unix:", 5);
    char *out = text + 5;
    for (size_t i = 0; i < name_size; i++) {
        char c = local->sun_path[i];
        *out++ = i == 0 && abstract ? '@' : c > ' ' && c < 127 ? c : '?';
    }
    *out = '\0';
}

void uvhttp__address_format(const uvhttp__address_t *address, socklen_t size, char *text) {
    char host[INET6_ADDRSTRLEN] = "?";
    sa_family_t family = size >= sizeof(sa_family_t) ? address->any.sa_family : AF_UNSPEC;
    if (family == AF_INET && size >= sizeof address->v4) {
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof host);
        snprintf(text, UVHTTP__ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(address->v4.sin_port));
    } else if (family == AF_INET6 && size >= sizeof address->v6) {
        const struct sockaddr_in6 *v6 = &address->v6;
        unsigned port = ntohs(v6->sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) { /* an IPv4 client of a dual-stack socket: people know it as IPv4 */
            inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof host);
            snprintf(text, UVHTTP__ADDRESS_TEXT_MAX, "%s:%u", host, port);
            return;
        }
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        if (v6->sin6_scope_id != 0) {
            snprintf(text, UVHTTP__ADDRESS_TEXT_MAX, "[%s%%%u]:%u", host, v6->sin6_scope_id, port);
        } else {
            snprintf(text, UVHTTP__ADDRESS_TEXT_MAX, "[%s]:%u", host, port);
        }
    } else if (family == AF_UNIX) {
        format_unix(&address->local, size, text);
    } else {
        memcpy(text, "unknown", sizeof "unknown");
    }
}

static int error_code(int error) {
    switch (error) {
        case EADDRINUSE: return UVHTTP_E_ADDRESS_IN_USE;
        case EACCES:
        case EPERM: return UVHTTP_E_PERMISSION;
        case EADDRNOTAVAIL:
        case EAFNOSUPPORT:
        case ENODEV:
        case ENOENT:
        case ENOTDIR: return UVHTTP_E_ADDRESS;
        case EMFILE:
        case ENFILE: return UVHTTP_E_NO_DESCRIPTORS;
        case ENOBUFS:
        case ENOMEM: return UVHTTP_E_NOMEM;
        default: return UVHTTP_E_IO;
    }
}

/* A file at the address is removed only if it is a socket that refuses: a server that crashed left it there. Anything
 * else, a full backlog for one (EAGAIN), means that somebody lives there. */
static bool remove_stale(const struct sockaddr_un *local, socklen_t size) {
    struct stat status;
    if (local->sun_path[0] == '\0') return false;
    if (lstat(local->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0) return false;
    bool refused = connect(probe, (const struct sockaddr *)local, size) != 0 && errno == ECONNREFUSED;
    close(probe);
    return refused && unlink(local->sun_path) == 0;
}

static bool set_option(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

bool uvhttp__address_is_loopback(const uvhttp__address_t *address) {
    if (address->any.sa_family == AF_INET) return ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

static bool is_any(const uvhttp__address_t *address) {
    if (address->any.sa_family == AF_INET) return address->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

static bool same_ip(const uvhttp__address_t *a, const uvhttp__address_t *b) {
    if (a->any.sa_family == AF_INET) return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return a->v6.sin6_scope_id == b->v6.sin6_scope_id && IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

bool uvhttp__endpoint_overlaps(const uvhttp__endpoint_t *a, const uvhttp__endpoint_t *b) {
    const uvhttp__address_t *one = &a->address, *other = &b->address;
    if (a->fd >= 0 || b->fd >= 0) return false;
    if (one->any.sa_family == AF_UNIX || other->any.sa_family == AF_UNIX)
        return a->address_size == b->address_size && memcmp(one, other, a->address_size) == 0;
    in_port_t port = one->any.sa_family == AF_INET ? one->v4.sin_port : one->v6.sin6_port;
    if (port == 0 || port != (other->any.sa_family == AF_INET ? other->v4.sin_port : other->v6.sin6_port)) return false;
    if (one->any.sa_family != other->any.sa_family) return a->dual_stack || b->dual_stack;
    return is_any(one) || is_any(other) || same_ip(one, other);
}

/* Accepted sockets inherit it. Returns 0 or UVHTTP_E_CONFIG; a Unix socket has none, which is fine. */
static int set_congestion_control(int fd, const char *name) {
    if (strcmp(name, "system") == 0) return UVHTTP_OK;
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0) return UVHTTP_OK;
    return errno == EOPNOTSUPP ? UVHTTP_OK : UVHTTP_E_CONFIG;
}

static bool names_congestion_control(const uvhttp__endpoint_t *endpoint) {
    return endpoint->congestion_control && *endpoint->congestion_control;
}

/* Between programs of one machine there is no queue to keep short, but a congestion control that paces, such as BBR,
 * sets a timer for most packets all the same (docs/internals/decisions.md). Every kernel has and allows "reno"
 * (tcp(7)); if one should not, the system's is good enough. */
static int choose_congestion_control(int fd, const uvhttp__endpoint_t *endpoint) {
    if (names_congestion_control(endpoint)) return set_congestion_control(fd, endpoint->congestion_control);
    if (uvhttp__address_is_loopback(&endpoint->address)) (void)set_congestion_control(fd, "reno");
    return UVHTTP_OK;
}

static int prepare_tcp(int fd, const uvhttp__endpoint_t *endpoint, bool reuse_port) {
    if (endpoint->address.any.sa_family == AF_INET6 &&
        !set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, endpoint->dual_stack ? 0 : 1)) {
        return error_code(errno);
    }
    /* Accepted sockets inherit TCP_NODELAY: one system call less for each. */
    bool set = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) && set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
               (!reuse_port || set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1));
    return set ? choose_congestion_control(fd, endpoint) : error_code(errno);
}

/* A socket there belongs to somebody, or is stale; anything else is in the way. */
static int check_path(const char *path) {
    struct stat status;
    if (*path == '\0') return UVHTTP_OK; /* abstract */
    if (lstat(path, &status) == 0)
        errno = S_ISSOCK(status.st_mode) ? 0 : EADDRINUSE;
    else if (errno == ENOENT)
        errno = uvhttp__new_file_error(path);
    return errno == 0 || errno == EACCES ? UVHTTP_OK : error_code(errno);
}

static int bind_and_listen(const uvhttp__endpoint_t *endpoint, int backlog, bool reuse_port, int *fd) {
    const uvhttp__address_t *address = &endpoint->address;
    bool local = address->any.sa_family == AF_UNIX;
    int made = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return error_code(errno);
    int code = local ? UVHTTP_OK : prepare_tcp(made, endpoint, reuse_port);
    /* bind(2) gives the path the mode of the socket, so that nobody connects before it is private. */
    if (local && endpoint->private_path && fchmod(made, 0600) != 0) code = error_code(errno);
    if (code == 0 && !fd && local) code = check_path(address->local.sun_path);
    if (code == 0 && fd && bind(made, &address->any, endpoint->address_size) != 0) {
        code = error_code(errno);
        if (local && code == UVHTTP_E_ADDRESS_IN_USE && remove_stale(&address->local, endpoint->address_size)) {
            code = bind(made, &address->any, endpoint->address_size) == 0 ? 0 : error_code(errno);
        }
    }
    if (code == 0 && fd && listen(made, backlog) != 0) code = error_code(errno);
    if (code != 0 || !fd) {
        int error = errno;
        close(made);
        errno = error;
        return code;
    }
    *fd = made;
    return 0;
}

/* Only a listening stream socket is usable: accept on anything else would fail forever. */
static int check_inherited(int fd) {
    int type = 0;
    int listening = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return UVHTTP_E_ADDRESS;
    size = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0) return UVHTTP_E_ADDRESS;
    if (type != SOCK_STREAM || !listening) return UVHTTP_E_ADDRESS;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return UVHTTP_E_IO;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return UVHTTP_E_IO;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); /* fails on a Unix socket, which has no such delay */
    return 0;
}

int uvhttp__listen_socket(const uvhttp__endpoint_t *endpoint, int backlog, bool reuse_port, int *fd) {
    if (endpoint->fd >= 0) {
        int code = check_inherited(endpoint->fd);
        if (code == 0 && names_congestion_control(endpoint))
            code = set_congestion_control(endpoint->fd, endpoint->congestion_control);
        if (code == 0 && backlog > 0 && listen(endpoint->fd, backlog) != 0) code = error_code(errno);
        if (code == 0 && fd) *fd = endpoint->fd;
        return code;
    }
    int code = bind_and_listen(endpoint, backlog, reuse_port, fd);
    if (code == UVHTTP_E_ADDRESS && endpoint->dual_stack) { /* a kernel without IPv6: "any" is still all there is */
        uvhttp__endpoint_t v4 = {.fd = -1, .congestion_control = endpoint->congestion_control};
        set_v4(&v4, endpoint->address.v6.sin6_port, htonl(INADDR_ANY));
        code = bind_and_listen(&v4, backlog, reuse_port, fd);
    }
    return code;
}

/* --- connecting --- */

int uvhttp__connect_status(int error_number) {
    switch (error_number) {
        case 0: return UVHTTP_OK;
        case ECONNREFUSED:
        case ECONNRESET: return UVHTTP_E_ABORTED;
        case ETIMEDOUT: return UVHTTP_E_TIMEOUT;
        case EACCES:
        case EPERM: return UVHTTP_E_PERMISSION;
        case EADDRNOTAVAIL:
        case EAFNOSUPPORT:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ENOENT: return UVHTTP_E_ADDRESS;
        default: return UVHTTP_E_IO;
    }
}
