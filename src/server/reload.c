/* Owns: taking a new configuration while the server runs, and the thread that SIGHUP has that done by. May include:
 * everything. */
#include "server/reload.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "config/config.h"
#include "route/router.h"
#include "server/server.h"
#include "server/server_config.h"
#include "server/tls_config.h"

/* --- what is applied --- */

static void warn_of_frozen(const uvhttp_server_t *server, const uvhttp_server_config_t *config) {
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX && used < sizeof names; i++) {
        const char *name = uvhttp__config_frozen(&server->service.config, config, i);
        if (name) used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
    }
    if (used) UVHTTP_LOG_WARN("http: reload: changed, but applied only by a restart: %s", names);
}

static void list_changes(const uvhttp_server_config_t *before, const uvhttp_server_config_t *after, char *text,
                         size_t size) {
    size_t used = (size_t)snprintf(text, size, "nothing that applies without a restart has changed");
    for (size_t i = 0, count = 0; i < UVHTTP__CONFIG_FIELDS_MAX && used < size; i++) {
        char change[UVHTTP__CONFIG_CHANGE_SIZE];
        if (!uvhttp__config_applied(before, after, i, change)) continue;
        used = count > 0 ? used : 0;
        used += (size_t)snprintf(text + used, size - used, "%s%s", count++ > 0 ? "; " : "", change);
    }
}

int uvhttp_server_reload(uvhttp_server_t *server, const uvhttp_server_config_t *config, char *message, size_t size) {
    if (!server) return UVHTTP_E_INVALID;
    char reason[512] = "";
    uvhttp_server_config_t whole, before;
    unsigned listeners = 0;
    int status = config ? uvhttp__server_copy_config(config, &whole, reason, sizeof reason) : UVHTTP_OK;
    if (status == UVHTTP_OK)
        status = uvhttp__server_reload_tls(server, config ? &whole : NULL, &listeners, reason, sizeof reason);
    if (message && size > 0) snprintf(message, size, "%s", reason);
    if (status != UVHTTP_OK) return uvhttp__server_remember(server, status, "reload: %s; nothing has changed", reason);
    char changes[512] = "";
    if (config) {
        warn_of_frozen(server, &whole);
        uvhttp__server_read_config(server, &before);
        list_changes(&before, &whole, changes, sizeof changes);
        uvhttp__server_keep_applied(server, &whole);
        uvhttp__server_apply_log(&whole);
    }
    uvhttp__router_reload(server->service.router);
    UVHTTP_LOG_INFO("http: reloaded: %s%s%s%s, TLS files of %u listener%s, log files",
                    config ? "configuration" : "files alone", config ? " (" : "", changes, config ? ")" : "", listeners,
                    listeners == 1 ? "" : "s");
    return UVHTTP_OK;
}

/* --- SIGHUP --- */

/* Signals that come while this runs are one more run. */
static void *run_reload(void *arg) {
    uvhttp_server_t *server = arg;
    uvhttp__reload_t *reload = &server->reload;
    pthread_mutex_lock(&reload->lock);
    while (reload->wanted) {
        reload->wanted = false;
        pthread_mutex_unlock(&reload->lock);
        if (server->process) uvhttp__process_reloading(server->process);
        reload->cb(server, reload->user);
        if (server->process) uvhttp__process_reloaded(server->process);
        pthread_mutex_lock(&reload->lock);
    }
    reload->running = false;
    pthread_mutex_unlock(&reload->lock);
    return NULL;
}

/* A thread that has ended is waited for no longer than it takes to end. */
static void join(uvhttp__reload_t *reload) {
    if (reload->made) pthread_join(reload->thread, NULL);
    reload->made = false;
}

/* The first loop's thread, or the one of run when no loop runs any more. */
static void on_hangup(void *arg) {
    uvhttp_server_t *server = arg;
    uvhttp__reload_t *reload = &server->reload;
    pthread_mutex_lock(&reload->lock);
    reload->wanted = true;
    bool start = !reload->running;
    if (start) reload->running = true;
    pthread_mutex_unlock(&reload->lock);
    if (!start) return;
    join(reload);
    reload->made = uvhttp__thread_start(&reload->thread, run_reload, server);
    if (reload->made) return;
    UVHTTP_LOG_ERROR("http: reload: no thread can be started for it; nothing has changed");
    pthread_mutex_lock(&reload->lock);
    reload->running = false;
    pthread_mutex_unlock(&reload->lock);
}

int uvhttp_server_on_reload(uvhttp_server_t *server, uvhttp_server_cb on_reload, void *user) {
    if (!server) return UVHTTP_E_INVALID;
    if (server->ran) return UVHTTP_E_STATE;
    server->reload.cb = on_reload;
    server->reload.user = user;
    server->tcp_server->on_hangup = on_reload ? on_hangup : NULL;
    server->tcp_server->on_hangup_arg = server;
    return UVHTTP_OK;
}

void uvhttp__reload_init(uvhttp__reload_t *reload) {
    pthread_mutex_init(&reload->lock, NULL);
}

void uvhttp__reload_wait(uvhttp__reload_t *reload) {
    join(reload);
}

void uvhttp__reload_deinit(uvhttp__reload_t *reload) {
    pthread_mutex_destroy(&reload->lock);
    uvhttp__free(reload->applied);
}
