/* Owns: a server's process as a service: what is set up before it listens and before its loops start, and what its
 * manager hears. May include: everything. */
#include "server/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "io/io.h"
#include "server/server.h"
#include "server/server_config.h"

/* --- set-up --- */

/* Whoever reads the PID file may send them before there is somebody who handles them: they would end the process. */
static void hold_signals(uvhttp__process_t *process) {
    static const int signals[] = {SIGHUP, SIGUSR2};
    const uvhttp__tcp_server_t *tcp_server = process->server->tcp_server;
    sigset_t before;
    if (!tcp_server->options.install_signal_handlers || tcp_server->dry_run) return;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!sigismember(&before, signals[i])) sigaddset(&process->held, signals[i]);
    pthread_sigmask(SIG_BLOCK, &process->held, NULL);
}

static void release_signals(uvhttp__process_t *process) {
    pthread_sigmask(SIG_UNBLOCK, &process->held, NULL);
    sigemptyset(&process->held);
}

static int set_umask(uvhttp_server_t *server, const char *text) {
    char *end;
    if (!*text) return UVHTTP_OK;
    errno = 0;
    unsigned long mask = strtoul(text, &end, 8);
    if (*text < '0' || *text > '7' || *end != '\0' || errno != 0 || mask > 0777)
        return uvhttp__server_remember(server, UVHTTP_E_CONFIG, "umask is \"%.32s\": expected octal digits, 000..777",
                                       text);
    if (!server->tcp_server->dry_run) umask((mode_t)mask);
    return UVHTTP_OK;
}

/* For root; rights of others are left out. The limit is as before. */
static bool is_settable(const struct rlimit *limit, const struct rlimit *before) {
    if (setrlimit(RLIMIT_NOFILE, limit) != 0) return geteuid() != 0;
    return setrlimit(RLIMIT_NOFILE, before) == 0;
}

/* The hard limit, too, if it is too low and this process may raise it. */
static int set_descriptor_limit(uvhttp_server_t *server, uint32_t wanted) {
    struct rlimit limit;
    if (wanted == 0) return UVHTTP_OK;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        const struct rlimit before = limit;
        const rlim_t hard = limit.rlim_max;
        limit.rlim_cur = wanted;
        if (limit.rlim_max < wanted) limit.rlim_max = wanted;
        if (server->tcp_server->dry_run && is_settable(&limit, &before)) return UVHTTP_OK;
        server->tcp_server->options.descriptor_limit_given = true;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return UVHTTP_OK;
        return uvhttp__server_remember(server, UVHTTP_E_CONFIG,
                                       "descriptor_limit is %" PRIu32 ": %s (the hard limit is %ju)", wanted,
                                       strerrordesc_np(errno), (uintmax_t)hard);
    }
    return uvhttp__server_remember(server, UVHTTP_E_CONFIG, "descriptor_limit: %s", strerrordesc_np(errno));
}

/* Whether there are such a user and group, before anything is opened for a server that would not start. */
static int find_identity(uvhttp_server_t *server) {
    const uvhttp_server_config_t *config = &server->service.config;
    char message[256];
    if (!*config->user && !*config->group) return UVHTTP_OK;
    int status = uvhttp__drop_privileges(config->user, config->group, true, message, sizeof message);
    return status == UVHTTP_OK ? status : uvhttp__server_remember(server, status, "%s", message);
}

static int open_pid_file(uvhttp__process_t *process) {
    uvhttp_server_t *server = process->server;
    const char *path = server->service.config.pid_file;
    char message[512];
    if (!*path || process->pid_file >= 0) return UVHTTP_OK;
    bool dry_run = server->tcp_server->dry_run;
    int status = uvhttp__pid_file_open(path, dry_run ? NULL : &process->pid_file, message, sizeof message);
    if (status != UVHTTP_OK) return uvhttp__server_remember(server, status, "%s", message);
    if (dry_run || uvhttp__pid_file_write(process->pid_file)) return UVHTTP_OK;
    return uvhttp__server_remember(server, UVHTTP_E_IO, "pid_file \"%s\": %s", path, strerrordesc_np(errno));
}

static int set_up(uvhttp__process_t *process) {
    uvhttp_server_t *server = process->server;
    const uvhttp_server_config_t *config = &server->service.config;
    char message[512];
    bool dry_run = server->tcp_server->dry_run;
    int status = dry_run ? UVHTTP_OK : uvhttp__successor_receive(process, message, sizeof message);
    if (status != UVHTTP_OK) return uvhttp__server_remember(server, status, "upgrade: %s", message);
    status = set_umask(server, config->umask);
    if (status == UVHTTP_OK) status = set_descriptor_limit(server, config->descriptor_limit);
    if (status == UVHTTP_OK) status = find_identity(server);
    return status == UVHTTP_OK ? open_pid_file(process) : status;
}

/* --- what the manager hears --- */

static void notify_ready(uvhttp__process_t *process) {
    char addresses[512], text[640];
    uvhttp__tcp_server_addresses(process->server->tcp_server, addresses, sizeof addresses);
    snprintf(text, sizeof text, "READY=1\nSTATUS=listening on %s", addresses);
    int sent = uvhttp_service_notify(text);
    if (sent < 0) process->unreachable = sent == UVHTTP_E_IO ? strerrordesc_np(errno) : uvhttp_error_message(sent);
}

/* Under stop_lock: it logs nothing. After an upgrade the manager hears of the new process, which is the service
 * from then on, and of this one nothing more. */
static void on_state(void *arg, uvhttp__state_t state) {
    uvhttp__process_t *process = arg;
    bool grace = state == UVHTTP__STATE_GRACE;
    if (state == UVHTTP__STATE_READY) release_signals(process);
    if (state == UVHTTP__STATE_READY && process->channel < 0) notify_ready(process);
    if (!grace && state != UVHTTP__STATE_DRAINING) return;
    uvhttp__successor_cancel(&process->successor);
    uvhttp__successor_notify(&process->successor,
                             grace ? "STOPPING=1\nSTATUS=not ready, drains soon" : "STOPPING=1\nSTATUS=draining");
}

void uvhttp__process_ready(uvhttp__process_t *process) {
    if (process->unreachable)
        UVHTTP_LOG_WARN("http: the service manager cannot be reached (NOTIFY_SOCKET): %s", process->unreachable);
    if (process->channel < 0) return;
    if (process->pid_file >= 0 && !uvhttp__pid_file_write(process->pid_file))
        UVHTTP_LOG_WARN("http: upgrade: the PID file cannot be written: %s", strerrordesc_np(errno));
    if (uvhttp__successor_report(process, NULL)) return;
    UVHTTP_LOG_ERROR("http: upgrade: the process that started this one has stopped; this one stops, too");
    uvhttp__tcp_server_stop(process->server->tcp_server);
}

static void on_alive(void *arg) {
    (void)arg;
    (void)uvhttp_service_notify("WATCHDOG=1");
}

/* sd_watchdog_enabled(3). Four times as often as it has to: a loop responds in the next period. */
static uint32_t liveness_period_ms(void) {
    const char *time_text = getenv("WATCHDOG_USEC"), *pid_text = getenv("WATCHDOG_PID");
    if (!time_text || (pid_text && strtol(pid_text, NULL, 10) != getpid())) return 0;
    unsigned long long period_ms = strtoull(time_text, NULL, 10) / 4000;
    if (period_ms == 0) return 0;
    return period_ms < UINT32_MAX ? (uint32_t)period_ms : UINT32_MAX;
}

void uvhttp__process_reloading(uvhttp__process_t *process) {
    char text[64];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, uvhttp__clock_ns() / 1000);
    uvhttp__successor_notify(&process->successor, text);
}

void uvhttp__process_reloaded(uvhttp__process_t *process) {
    if (atomic_load(&process->server->tcp_server->state) == UVHTTP__STATE_READY)
        uvhttp__successor_notify(&process->successor, "READY=1");
}

/* --- life --- */

static void on_upgrade(void *arg) {
    uvhttp__process_t *process = arg;
    int status = uvhttp_service_upgrade(process->server);
    if (status != UVHTTP_OK)
        UVHTTP_LOG_WARN("http: upgrade: not started: %s", status == UVHTTP_E_STATE
                                                              ? "one is in progress, or the server is stopping"
                                                              : uvhttp_error_message(status));
}

int uvhttp_service_init(uvhttp_server_t *server) {
    if (!server) return UVHTTP_E_INVALID;
    uvhttp__tcp_server_t *tcp_server = server->tcp_server;
    if (server->process || server->frozen || tcp_server->uv)
        return uvhttp__server_remember(server, UVHTTP_E_STATE,
                                       "service: once, before listen, and not for a server that is attached to a loop");
    uvhttp__process_t *process = uvhttp__calloc(1, sizeof *process);
    if (!process) return uvhttp__server_remember(server, UVHTTP_E_NOMEM, "service: out of memory");
    process->server = server;
    process->channel = process->pid_file = -1;
    uvhttp__successor_init(&process->successor);
    sigemptyset(&process->held);
    hold_signals(process);
    server->process = process;
    server->setup_status = set_up(process);
    tcp_server->on_state = on_state;
    tcp_server->on_state_arg = process;
    tcp_server->on_upgrade = on_upgrade;
    tcp_server->on_upgrade_arg = process;
    tcp_server->liveness = (uvhttp__liveness_t){.period_ms = liveness_period_ms(), .on_alive = on_alive};
    return server->setup_status;
}

int uvhttp__process_before_run(uvhttp__process_t *process) {
    uvhttp_server_t *server = process->server;
    const uvhttp_server_config_t *config = &server->service.config;
    char message[256];
    uvhttp__inherited_close(&server->tcp_server->inherited);
    if ((!*config->user && !*config->group) || server->tcp_server->dry_run) return UVHTTP_OK;
    int status = uvhttp_service_drop_privileges(config->user, config->group, message, sizeof message);
    if (status != UVHTTP_OK) return uvhttp__server_remember(server, status, "run: %s", message);
    UVHTTP_LOG_INFO("http: runs as user %ld, group %ld", (long)geteuid(), (long)getegid());
    return uvhttp__server_try_spool(server);
}

/* Another process has the lock, too, unless that has another file now. */
static void end_pid_file(const uvhttp__process_t *process, bool replaced) {
    const char *path = process->server->service.config.pid_file;
    int fd = process->pid_file;
    char message[512];
    if (replaced || process->borrowed) {
        close(fd);
        if (!replaced || uvhttp__pid_file_open(path, &fd, message, sizeof message) != UVHTTP_OK) return;
    }
    uvhttp__pid_file_remove(fd, path);
}

void uvhttp__process_free(uvhttp__process_t *process) {
    if (!process) return;
    if (process->channel >= 0) (void)uvhttp__successor_report(process, process->server->error);
    bool replaced = uvhttp__successor_wait(&process->successor);
    if (process->pid_file >= 0) end_pid_file(process, replaced);
    uvhttp__successor_deinit(&process->successor);
    release_signals(process);
    uvhttp__free(process);
}
