/* Owns: see admin.h: whether config.admin is acceptable, the listener's own server, and its thread. May include:
 * everything. */
#include "server/admin.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "conn/inspect.h"
#include "server/admin_internal.h"
#include "server/server_config.h"

/* --- who reaches an address --- */

typedef enum reach { REACH_OWNER, REACH_LOOPBACK, REACH_OTHERS } reach_t;

/* A path has mode 0600, or that of who passed the socket in. An abstract name has no permissions. */
static reach_t reach_of_address(const uvhttp__address_t *address) {
    if (address->any.sa_family == AF_UNIX) return address->local.sun_path[0] ? REACH_OWNER : REACH_OTHERS;
    return uvhttp__address_is_loopback(address) ? REACH_LOOPBACK : REACH_OTHERS;
}

static reach_t reach_of_socket(int fd) {
    uvhttp__address_t address = {0};
    socklen_t size = sizeof address;
    return getsockname(fd, &address.any, &size) == 0 ? reach_of_address(&address) : REACH_OTHERS;
}

/* A number or a name of a manager means nothing in the process that an upgrade starts, which has the socket, nor in a
 * dry run, where nobody knows who will reach it. */
static int find_reach(const uvhttp__tcp_server_t *tcp_server, const char *text, reach_t *reach) {
    uvhttp__endpoint_t endpoint;
    int status = uvhttp__endpoint_split(text, &endpoint);
    int inherited = status == UVHTTP_OK ? uvhttp__inherited_peek(tcp_server, &endpoint) : -1;
    *reach = REACH_OWNER;
    if (inherited < 0) status = uvhttp__endpoint_parse(text, &endpoint);
    if (inherited < 0 && tcp_server->dry_run && endpoint.is_passed_in) return UVHTTP_OK;
    if (status != UVHTTP_OK) return status;
    int fd = inherited < 0 ? endpoint.fd : inherited;
    *reach = fd < 0 ? reach_of_address(&endpoint.address) : reach_of_socket(fd);
    return UVHTTP_OK;
}

/* --- the configuration --- */

/* As RFC 6750 section 2.1, or the middleware would refuse it without telling which field is meant. */
static const char *wrong_token(const char *token) {
    size_t size = strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~+/-");
    size_t end = size + strspn(token + size, "=");
    if (token[end] != '\0') return "has a character other than letters, digits and ._~+/-";
    if (end < UVHTTP__ADMIN_TOKEN_SIZE_MIN) return "has fewer than 16 characters";
    return end > UVHTTP_AUTH_SECRET_SIZE_MAX ? "has more than 512 characters" : NULL;
}

static int check(uvhttp_server_t *server, reach_t *reach) {
    const uvhttp_server_config_t *config = &server->service.config;
    const char *why = *config->admin_token ? wrong_token(config->admin_token) : NULL;
    if (why) return uvhttp__server_remember(server, UVHTTP_E_CONFIG, "admin_token %s", why);
    if (find_reach(server->tcp_server, config->admin, reach) != UVHTTP_OK)
        return uvhttp__server_remember(server, UVHTTP_E_ADDRESS,
                                       "admin is \"%.200s\": expected host:port or unix:/path", config->admin);
    if (*reach == REACH_OTHERS && *config->admin_token == '\0')
        return uvhttp__server_remember(
            server, UVHTTP_E_CONFIG,
            "admin is \"%.200s\", which others than this machine may reach: set admin_token, "
            "or use 127.0.0.1:port or unix:/path",
            config->admin);
    return UVHTTP_OK;
}

/* Its limits are its own, and small. An end must not keep the program from ending. */
static void own_config(uvhttp_server_config_t *config, const uvhttp_server_config_t *shown) {
    uvhttp_server_config_default(config);
    config->io_threads = 1;
    config->engine = UVHTTP_ENGINE_EPOLL;
    config->max_connections = UVHTTP__ADMIN_CONNECTIONS_MAX;
    config->descriptors_reserved = 0;
    config->raise_descriptor_limit = false;
    config->read_buffer_count = 8;
    config->drain_timeout = 1;
    config->drain_idle_ms = 0;
    config->body_size_max = 4096;
    config->install_signal_handlers = false;
    config->quiet = true;
    config->performance.performance_mode = false; /* it would set the level of the process */
    config->performance.log_level = uvhttp_log_get_level();
    config->performance.enable_statistics = false;
    config->worker_threads = 1;
    snprintf(config->tcp_congestion_control, sizeof config->tcp_congestion_control, "%s",
             shown->tcp_congestion_control);
}

/* --- its loop --- */

static void on_begin(uvhttp__post_t *post) {
    uvhttp__admin_ticks_begin(UVHTTP__CONTAINER_OF(post, uvhttp__admin_t, begin));
}

static void on_finish(uvhttp__post_t *post) {
    uvhttp__admin_ticks_finish(UVHTTP__CONTAINER_OF(post, uvhttp__admin_t, finish));
}

static void on_ready(uvhttp_server_t *own, void *user) {
    uvhttp__admin_t *admin = user;
    uvhttp__loop_post(own->tcp_server->loops[0].io, &admin->begin);
    pthread_mutex_lock(&admin->lock);
    admin->runs = true;
    pthread_cond_signal(&admin->changed);
    pthread_mutex_unlock(&admin->lock);
}

static void *run(void *arg) {
    uvhttp__admin_t *admin = arg;
    int status = admin->life->run(admin->own, NULL);
    pthread_mutex_lock(&admin->lock);
    admin->ended = true;
    admin->status = status;
    pthread_cond_signal(&admin->changed);
    pthread_mutex_unlock(&admin->lock);
    return NULL;
}

/* --- its life --- */

static void describe_address(uvhttp__admin_t *admin) {
    char text[UVHTTP__ADDRESS_TEXT_MAX];
    uvhttp__tcp_server_addresses(admin->own->tcp_server, text, sizeof text);
    bool has_url = strncmp(text, "unix:", 5) != 0 && strncmp(text, "fd:", 3) != 0;
    snprintf(admin->address, sizeof admin->address, "%s%.100s%s", has_url ? "http://" : "", text, has_url ? "/" : "");
}

/* On a socket of the process that this one replaces, if it has passed one. */
static int listen_on(uvhttp__admin_t *admin) {
    uvhttp__inherited_t *inherited = &admin->server->tcp_server->inherited, *own = &admin->own->tcp_server->inherited;
    *own = *inherited;
    int status = admin->life->listen(admin->own, admin->server->service.config.admin, NULL);
    *inherited = *own;
    *own = (uvhttp__inherited_t){.count = 0};
    return status;
}

static int make_own(uvhttp__admin_t *admin, reach_t reach) {
    uvhttp_server_config_t config;
    own_config(&config, &admin->server->service.config);
    admin->own = admin->life->new (&config);
    if (!admin->own) return UVHTTP_E_NOMEM;
    admin->own->on_ready = on_ready;
    admin->own->on_ready_user = admin;
    admin->own->nested = true;
    admin->own->tcp_server->options.name = "admin";
    admin->own->tcp_server->options.private_paths = true;
    admin->own->tcp_server->dry_run = admin->server->tcp_server->dry_run;
    admin->server->tcp_server->companion = admin->own->tcp_server;
    int status = uvhttp__admin_add_routes(admin, reach == REACH_LOOPBACK);
    if (status == UVHTTP_OK) status = listen_on(admin);
    if (status == UVHTTP_OK) describe_address(admin);
    return status;
}

int uvhttp__admin_listen(uvhttp_server_t *server, const uvhttp__admin_life_t *life) {
    reach_t reach;
    const uvhttp_server_config_t *config = &server->service.config;
    if (*config->admin == '\0') {
        if (*config->admin_token)
            UVHTTP_LOG_WARN("http: admin_token is set, and there is no admin listener: set admin to its address");
        return UVHTTP_OK;
    }
    int status = check(server, &reach);
    if (status != UVHTTP_OK) return status;
    uvhttp__admin_t *admin = uvhttp__calloc(1, sizeof *admin);
    if (!admin) return uvhttp__server_remember(server, UVHTTP_E_NOMEM, "admin: out of memory");
    pthread_mutex_init(&admin->lock, NULL);
    pthread_cond_init(&admin->changed, NULL);
    admin->server = server;
    admin->life = life;
    admin->begin.run = on_begin;
    admin->finish.run = on_finish;
    status = make_own(admin, reach);
    if (status != UVHTTP_OK) {
        const char *why = admin->own ? admin->own->error : "";
        status = uvhttp__server_remember(server, status, "admin: %s", *why ? why : uvhttp_error_message(status));
        uvhttp__admin_free(admin);
        return status;
    }
    server->admin = admin;
    return UVHTTP_OK;
}

/* A server whose state nobody can ask for is none that was configured. */
int uvhttp__admin_start(uvhttp__admin_t *admin) {
    if (!admin || admin->started || admin->own->tcp_server->dry_run) return UVHTTP_OK;
    admin->started = uvhttp__thread_start(&admin->thread, run, admin);
    if (!admin->started)
        return uvhttp__server_remember(admin->server, UVHTTP_E_LIMIT, "admin: its thread cannot be started");
    pthread_mutex_lock(&admin->lock);
    while (!admin->runs && !admin->ended) pthread_cond_wait(&admin->changed, &admin->lock);
    int status = admin->runs ? UVHTTP_OK : admin->status;
    pthread_mutex_unlock(&admin->lock);
    return status == UVHTTP_OK ? status
                               : uvhttp__server_remember(admin->server, status, "admin: %s", admin->own->error);
}

static void end_ticks(uvhttp__admin_t *admin) {
    if (atomic_exchange(&admin->ending, true)) return;
    (void)uvhttp__tcp_server_post(admin->own->tcp_server, 0, &admin->finish); /* else its loop has not begun */
}

int uvhttp__admin_each_socket(uvhttp__admin_t *admin, void (*each)(const char *text, int fd, bool more, void *arg),
                              void *arg) {
    return admin ? uvhttp__tcp_server_each_socket(admin->own->tcp_server, each, arg) : UVHTTP_OK;
}

void uvhttp__admin_pass_on(uvhttp__admin_t *admin) {
    if (!admin) return;
    end_ticks(admin);
    uvhttp__tcp_server_pass_on(admin->own->tcp_server);
}

void uvhttp__admin_stop(uvhttp__admin_t *admin) {
    if (!admin || !admin->own) return;
    if (!admin->started) {
        uvhttp__tcp_server_abandon(admin->own->tcp_server);
        return;
    }
    end_ticks(admin);
    (void)admin->life->stop(admin->own);
    pthread_join(admin->thread, NULL);
    admin->started = false;
}

void uvhttp__admin_free(uvhttp__admin_t *admin) {
    if (!admin) return;
    uvhttp__admin_stop(admin);
    uvhttp__admin_ticks_free(&admin->ticks);
    admin->life->free(admin->own);
    pthread_cond_destroy(&admin->changed);
    pthread_mutex_destroy(&admin->lock);
    uvhttp__free(admin);
}

const char *uvhttp__admin_address(const uvhttp__admin_t *admin) {
    return admin ? admin->address : "";
}
