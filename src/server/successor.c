/* Owns: the upgrade to a new binary: starting it, passing on the listening sockets, waiting until it is ready; and the
 * other side of that. The two processes talk over a socket pair, of which the new one's end is descriptor 3. May
 * include: everything. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "base/thread.h"
#include "server/admin.h"
#include "server/process.h"
#include "server/server.h"

#define VARIABLE "UVHTTP_UPGRADE_FD"

enum {
    CHILD_FD = 3,
    MESSAGE_SIZE = 512,
    END_MS = 2000,              /* for a process that was asked to end */
    COMMAND_LINE_MAX = 1 << 20, /* bytes */
};

/* The first byte of a message. To the new process: a descriptor each, but for the last one. */
enum {
    ADDRESS = 'A',  /* a listening socket; its address as text */
    MORE = 'M',     /* another one of the same address */
    PID_FILE = 'P', /* locked; its path, as far as it fits */
    COMPLETE = 'C',
    READY = 'R',  /* from the new process */
    FAILED = 'F', /* the same, with a reason */
};

/* --- how the program was started --- */

/* Returns NULL if it cannot be read. */
static char *read_file(const char *path, size_t *size) {
    char *data = uvhttp__malloc(COMMAND_LINE_MAX + 1);
    int fd = data ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    *size = 0;
    for (ssize_t got; fd >= 0 && *size < COMMAND_LINE_MAX; *size += (size_t)got)
        if ((got = read(fd, data + *size, COMMAND_LINE_MAX - *size)) <= 0) break;
    if (fd >= 0) close(fd);
    if (*size > 0 && *size < COMMAND_LINE_MAX) {
        data[*size] = '\0';
        return data;
    }
    uvhttp__free(data);
    return NULL;
}

static char **split(char *words, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++) count += words[i] == '\0';
    char **arguments = uvhttp__calloc(count + 1, sizeof *arguments);
    if (!arguments) return NULL;
    for (size_t i = 0; i < count; words += strlen(words) + 1) arguments[i++] = words;
    return arguments;
}

static char *join_path(const char *directory, const char *name) {
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = uvhttp__malloc(size);
    if (path) snprintf(path, size, "%s%s%s", directory, *directory ? "/" : "", name);
    return path;
}

/* A path that was given may be a link which the next release changes: /proc tells what it led to. */
static char *find_executable(const char *given) {
    char target[4096], directory[4096];
    struct stat running, named;
    ssize_t size = readlink("/proc/self/exe", target, sizeof target - 1);
    if (size <= 0) return NULL;
    target[size] = '\0';
    bool same = strchr(given, '/') && stat("/proc/self/exe", &running) == 0 && stat(given, &named) == 0 &&
                running.st_dev == named.st_dev && running.st_ino == named.st_ino;
    if (!same) return join_path("", target);
    if (given[0] == '/') return join_path("", given);
    return getcwd(directory, sizeof directory) ? join_path(directory, given) : NULL;
}

void uvhttp__successor_init(uvhttp__successor_t *successor) {
    size_t size;
    pthread_mutex_init(&successor->lock, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &successor->mask);
    successor->channel = -1;
    successor->words = read_file("/proc/self/cmdline", &size);
    successor->arguments = successor->words ? split(successor->words, size) : NULL;
    bool has_name = successor->arguments && successor->arguments[0];
    successor->executable = has_name ? find_executable(successor->arguments[0]) : NULL;
}

void uvhttp__successor_deinit(uvhttp__successor_t *successor) {
    uvhttp__free(successor->executable);
    uvhttp__free(successor->arguments);
    uvhttp__free(successor->words);
    pthread_mutex_destroy(&successor->lock);
}

/* --- messages --- */

static bool send_message(int channel, char kind, const char *text, int fd) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec parts[] = {{&kind, 1}, {(char *)text, strnlen(text, MESSAGE_SIZE - 2)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (fd >= 0) {
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    ssize_t sent;
    do sent = sendmsg(channel, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

/* Returns the kind, or 0 at the end and after an error. text: MESSAGE_SIZE bytes; *fd: -1 for none. */
static char receive_message(int channel, char *text, int *fd) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char kind = 0;
    struct iovec parts[] = {{&kind, 1}, {text, MESSAGE_SIZE - 1}};
    /* Not CMSG_SPACE, whose padding has space for another one: the kernel closes what does not fit. */
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof *fd)};
    ssize_t size;
    *fd = -1;
    /* ECONNRESET: the other process has ended without reading everything. What it sent comes behind that. */
    do size = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    while (size < 0 && (errno == EINTR || errno == ECONNRESET));
    if (size == 0) errno = ECONNRESET;
    text[size > 0 ? size - 1 : 0] = '\0';
    const struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(header), sizeof *fd);
    return size > 0 ? kind : '\0';
}

static bool set_timeout(int channel, uint32_t seconds) {
    struct timeval time = {.tv_sec = seconds};
    return setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0 &&
           setsockopt(channel, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0;
}

/* --- the new process --- */

/* "": of a process that does not say it. */
static bool is_path_of(const char *text, const char *pid_file) {
    return *text == '\0' || strncmp(text, pid_file, MESSAGE_SIZE - 2) == 0;
}

static int take_message(uvhttp__process_t *process, char kind, const char *text, int fd) {
    uvhttp__inherited_t *inherited = &process->server->tcp_server->inherited;
    if (fd < 0) return kind == COMPLETE ? UVHTTP_OK : UVHTTP_E_IO;
    if (kind == ADDRESS || kind == MORE) return uvhttp__inherited_add(inherited, text, fd, kind == MORE);
    if (kind == PID_FILE && process->pid_file < 0) {
        if (!is_path_of(text, process->server->service.config.pid_file)) {
            close(fd); /* the old process removes it */
            return UVHTTP_OK;
        }
        process->pid_file = fd;
        process->borrowed = true;
        return UVHTTP_OK;
    }
    close(fd);
    return UVHTTP_E_IO;
}

int uvhttp__successor_receive(uvhttp__process_t *process, char *message, size_t size) {
    const char *variable = getenv(VARIABLE);
    char text[MESSAGE_SIZE], kind = 0;
    int fd, type = 0, status = UVHTTP_OK;
    socklen_t type_size = sizeof type;
    if (!variable) return UVHTTP_OK;
    bool usable = strcmp(variable, "3") == 0 && getsockopt(CHILD_FD, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 &&
                  type == SOCK_SEQPACKET && fcntl(CHILD_FD, F_SETFD, FD_CLOEXEC) == 0;
    unsetenv(VARIABLE); /* it is not for the children of this process */
    if (!usable || !set_timeout(CHILD_FD, process->server->service.config.upgrade_timeout)) {
        snprintf(message, size, "%s is set, but descriptor 3 is not from an upgrade", VARIABLE);
        return UVHTTP_E_IO;
    }
    process->channel = CHILD_FD;
    while (status == UVHTTP_OK && kind != COMPLETE) {
        kind = receive_message(CHILD_FD, text, &fd);
        status = take_message(process, kind, text, fd);
    }
    if (status != UVHTTP_OK) snprintf(message, size, "sockets were not received: %s", uvhttp_error_message(status));
    return status;
}

bool uvhttp__successor_report(uvhttp__process_t *process, const char *why) {
    bool sent = send_message(process->channel, why ? FAILED : READY, why ? why : "", -1);
    close(process->channel);
    process->channel = -1;
    if (sent && !why) process->borrowed = false;
    return sent;
}

/* --- the old process --- */

typedef struct passed {
    struct {
        const char *text;
        int fd;
        bool more;
    } * sockets;
    size_t count;
    bool failed;
} passed_t;

static void keep_socket(const char *text, int fd, bool more, void *arg) {
    passed_t *passed = arg;
    void *sockets = fd < 0 ? NULL : uvhttp__realloc(passed->sockets, (passed->count + 1) * sizeof *passed->sockets);
    if (!sockets) {
        passed->failed = true;
        if (fd >= 0) close(fd);
        return;
    }
    passed->sockets = sockets;
    passed->sockets[passed->count].text = text;
    passed->sockets[passed->count].fd = fd;
    passed->sockets[passed->count++].more = more;
}

static bool pass_all(const uvhttp__process_t *process, int channel) {
    passed_t passed = {.count = 0};
    uvhttp_server_t *server = process->server;
    bool sent = uvhttp__tcp_server_each_socket(server->tcp_server, keep_socket, &passed) == UVHTTP_OK;
    sent = sent && uvhttp__admin_each_socket(server->admin, keep_socket, &passed) == UVHTTP_OK && !passed.failed;
    for (size_t i = 0; i < passed.count; i++) {
        sent = sent && send_message(channel, passed.sockets[i].more ? MORE : ADDRESS, passed.sockets[i].text,
                                    passed.sockets[i].fd);
        close(passed.sockets[i].fd);
    }
    uvhttp__free(passed.sockets);
    if (sent && process->pid_file >= 0)
        sent = send_message(channel, PID_FILE, process->server->service.config.pid_file, process->pid_file);
    return sent && send_message(channel, COMPLETE, "", -1);
}

static bool is_of_this_process(const char *entry) {
    static const char *const names[] = {"LISTEN_PID=", "WATCHDOG_PID=", VARIABLE "="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0) return true;
    return false;
}

/* Only the array is the caller's. NULL: out of memory. */
static char **environment_of_child(void) {
    static char own[] = VARIABLE "=3";
    size_t count = 0, used = 0;
    while (environ[count]) count++;
    char **environment = uvhttp__calloc(count + 2, sizeof *environment);
    if (!environment) return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_of_this_process(environ[i])) environment[used++] = environ[i];
    environment[used] = own;
    return environment;
}

/* Returns 0 or an errno. The program gets the signals as this one was started with them. */
static int spawn(const uvhttp__successor_t *successor, int channel, pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    char **environment = environment_of_child();
    if (!environment || posix_spawn_file_actions_init(&actions) != 0) {
        uvhttp__free(environment);
        return ENOMEM;
    }
    int error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, channel, CHILD_FD);
        if (error == 0) error = posix_spawnattr_setsigmask(&attributes, &successor->mask);
        if (error == 0) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        if (error == 0)
            error = posix_spawn(child, successor->executable, &actions, &attributes, successor->arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    uvhttp__free(environment);
    return error;
}

/* Returns whether it has ended within the time; it stays to be reaped. */
static bool ends(pid_t child, int ms) {
    int fd = pidfd_open(child, 0);
    if (fd < 0) return false;
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    int count;
    do count = poll(&ended, 1, ms);
    while (count < 0 && errno == EINTR);
    close(fd);
    return count > 0;
}

/* It is our child, and no other one has its number until it is reaped. */
static void end(pid_t child, bool at_once, char *how, size_t size) {
    int status = 0;
    if (at_once || !ends(child, END_MS)) {
        kill(child, SIGTERM);
        if (!ends(child, END_MS)) kill(child, SIGKILL);
    }
    pid_t reaped;
    do reaped = waitpid(child, &status, 0);
    while (reaped < 0 && errno == EINTR);
    if (reaped != child)
        snprintf(how, size, "it has ended");
    else if (WIFEXITED(status))
        snprintf(how, size, "it has ended with status %d", WEXITSTATUS(status));
    else
        snprintf(how, size, "it was ended by signal %d", WTERMSIG(status));
}

/* Returns whether the new process is ready; else *why has the reason. At the end of the time the channel is shut down:
 * a new process whose report was sent before is ready, and one whose report is refused stops. */
static bool await(int channel, char *text, const char **why) {
    int fd;
    char kind = receive_message(channel, text, &fd);
    bool late = kind == 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (late && shutdown(channel, SHUT_RDWR) == 0) kind = receive_message(channel, text, &fd);
    if (fd >= 0) close(fd);
    *why = kind == FAILED && *text ? text : late ? "it was not ready within upgrade_timeout" : "it did not say why";
    return kind == READY;
}

/* READY=1 ends a reload of this process that is in progress: nothing else will. */
static void on_ready(uvhttp__process_t *process, pid_t child) {
    char text[96];
    UVHTTP_LOG_INFO("http: upgrade: process %ld is ready; this one drains", (long)child);
    snprintf(text, sizeof text, "READY=1\nMAINPID=%ld\nSTATUS=process %ld serves", (long)child, (long)child);
    pthread_mutex_lock(&process->successor.lock);
    (void)uvhttp_service_notify(text);
    process->successor.replaced = true;
    pthread_mutex_unlock(&process->successor.lock);
    uvhttp__admin_pass_on(process->server->admin);
    uvhttp__tcp_server_pass_on(process->server->tcp_server);
}

/* The new process may have written its number into the PID file already. stops: this process does not continue. */
static void on_failed(const uvhttp__process_t *process, pid_t child, const char *why, bool stops) {
    char how[64], text[MESSAGE_SIZE + 128];
    bool late = !stops && strstr(why, "upgrade_timeout") != NULL;
    end(child, late, how, sizeof how);
    if (process->pid_file >= 0) (void)uvhttp__pid_file_write(process->pid_file);
    if (stops) {
        UVHTTP_LOG_WARN("http: upgrade: cancelled, because the server stops; process %ld: %s", (long)child, how);
        return;
    }
    UVHTTP_LOG_ERROR("http: upgrade: process %ld did not start: %s (%s); this one continues", (long)child, why, how);
    snprintf(text, sizeof text, "STATUS=upgrade failed: %s (%s)", why, how);
    (void)uvhttp_service_notify(text);
}

/* From here on a stop of the server ends the channel; -1: not any more. Returns false if there was one. */
static bool publish(uvhttp__successor_t *successor, int channel) {
    pthread_mutex_lock(&successor->lock);
    bool over = successor->over;
    successor->channel = channel;
    pthread_mutex_unlock(&successor->lock);
    return !over;
}

/* Closes the channel. */
static void try_upgrade(uvhttp__process_t *process, int channel, pid_t child) {
    char text[MESSAGE_SIZE] = "";
    const char *why;
    bool passed = publish(&process->successor, channel) && pass_all(process, channel);
    if (!passed) (void)shutdown(channel, SHUT_WR); /* the new process does not wait for the rest */
    /* A process that ends early says why, and does not read what is passed. */
    bool ready = await(channel, text, &why);
    bool stops = !publish(&process->successor, -1);
    close(channel);
    if (passed && ready)
        on_ready(process, child);
    else
        on_failed(process, child, why, stops);
}

static void *run_upgrade(void *arg) {
    uvhttp__process_t *process = arg;
    uvhttp__successor_t *successor = &process->successor;
    int ends_of_channel[2], error = 0;
    pid_t child = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_of_channel) != 0) {
        error = errno;
    } else {
        if (!set_timeout(ends_of_channel[0], process->server->service.config.upgrade_timeout)) error = errno;
        if (error == 0) error = spawn(successor, ends_of_channel[1], &child);
        close(ends_of_channel[1]);
        if (error == 0)
            try_upgrade(process, ends_of_channel[0], child);
        else
            close(ends_of_channel[0]);
    }
    if (error != 0)
        UVHTTP_LOG_ERROR("http: upgrade: \"%s\" cannot be started: %s; this process continues", successor->executable,
                         strerrordesc_np(error));
    pthread_mutex_lock(&successor->lock);
    successor->running = false;
    pthread_mutex_unlock(&successor->lock);
    return NULL;
}

int uvhttp_service_upgrade(uvhttp_server_t *server) {
    if (!server) return UVHTTP_E_INVALID;
    uvhttp__process_t *process = server->process;
    if (!process || atomic_load(&server->tcp_server->state) != UVHTTP__STATE_READY) return UVHTTP_E_STATE;
    uvhttp__successor_t *successor = &process->successor;
    if (!successor->executable) return UVHTTP_E_UNSUPPORTED;
    int status = UVHTTP_OK;
    pthread_mutex_lock(&successor->lock);
    if (successor->running || successor->over || successor->replaced) {
        status = UVHTTP_E_STATE;
    } else {
        if (successor->made) pthread_join(successor->thread, NULL); /* it has unlocked for the last time */
        successor->made = successor->running = uvhttp__thread_start(&successor->thread, run_upgrade, process);
        if (!successor->made) status = UVHTTP_E_LIMIT;
    }
    pthread_mutex_unlock(&successor->lock);
    return status;
}

/* What the new process has sent before can still be read; what it sends later is refused, and it stops, too. */
void uvhttp__successor_cancel(uvhttp__successor_t *successor) {
    pthread_mutex_lock(&successor->lock);
    successor->over = true;
    if (successor->channel >= 0) (void)shutdown(successor->channel, SHUT_RDWR);
    pthread_mutex_unlock(&successor->lock);
}

void uvhttp__successor_notify(uvhttp__successor_t *successor, const char *state) {
    pthread_mutex_lock(&successor->lock);
    if (!successor->replaced) (void)uvhttp_service_notify(state);
    pthread_mutex_unlock(&successor->lock);
}

bool uvhttp__successor_wait(uvhttp__successor_t *successor) {
    uvhttp__successor_cancel(successor);
    pthread_mutex_lock(&successor->lock);
    bool made = successor->made;
    successor->made = false;
    pthread_mutex_unlock(&successor->lock);
    if (made) pthread_join(successor->thread, NULL);
    return successor->replaced;
}
