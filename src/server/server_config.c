/* Owns: what a server takes of a configuration, when it is made and when it is reloaded, and the text of its last
 * error. May include: everything. */
#include "server/server_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "config/config.h"
#include "exchange/spool.h"
#include "obs/log_settings.h"
#include "server/server.h"

/* The program may have been compiled with an older, shorter structure: the rest keeps its defaults. */
int uvhttp__server_copy_config(const uvhttp_server_config_t *given, uvhttp_server_config_t *config, char *message,
                               size_t size) {
    uvhttp_server_config_default(config);
    if (given) {
        int status = uvhttp_server_config_check(given, message, size);
        if (status != UVHTTP_OK) return status;
        memcpy(config, given, given->struct_size);
        config->struct_size = sizeof *config;
    }
    const char *engine = getenv("UVHTTP_ENGINE");
    if (config->engine != UVHTTP_ENGINE_AUTO || !engine || !*engine) return UVHTTP_OK;
    if (uvhttp_server_config_set(config, "engine", engine, message, size) != UVHTTP_OK) {
        snprintf(message, size, "environment: UVHTTP_ENGINE is \"%s\": expected auto, uring or epoll", engine);
        return UVHTTP_E_CONFIG;
    }
    uvhttp__config_set_origin_of(config, "engine", UVHTTP_CONFIG_FROM_ENVIRONMENT);
    return UVHTTP_OK;
}

void uvhttp__server_keep_applied(uvhttp_server_t *server, const uvhttp_server_config_t *config) {
    uvhttp__reload_t *reload = &server->reload;
    pthread_mutex_lock(&reload->lock);
    if (!reload->applied) reload->applied = uvhttp__malloc(sizeof *reload->applied);
    if (reload->applied) *reload->applied = *config;
    pthread_mutex_unlock(&reload->lock);
}

void uvhttp__server_read_config(uvhttp_server_t *server, uvhttp_server_config_t *config) {
    *config = server->service.config;
    pthread_mutex_lock(&server->reload.lock);
    if (server->reload.applied) uvhttp__config_take_live(config, server->reload.applied);
    pthread_mutex_unlock(&server->reload.lock);
}

static uvhttp_log_level_t level_of(const uvhttp_server_config_t *config) {
    uvhttp_log_level_t level = config->performance.log_level;
    return config->performance.performance_mode && level < UVHTTP_LOG_LEVEL_WARN ? UVHTTP_LOG_LEVEL_WARN : level;
}

void uvhttp__server_start_log(const uvhttp_server_config_t *config) {
    bool is_default =
        level_of(config) == uvhttp__log_level_default() && config->log_format == uvhttp__log_format_default();
    if (!is_default) uvhttp__server_apply_log(config);
}

void uvhttp__server_apply_log(const uvhttp_server_config_t *config) {
    uvhttp_log_level_t level = level_of(config);
    if (config->log_format != uvhttp_log_get_format()) uvhttp__log_apply_format(config->log_format);
    if (level == uvhttp_log_get_level()) return;
    uvhttp__log_apply_level(level);
#ifdef UVHTTP_PERFORMANCE_MODE
    if (level < UVHTTP_LOG_LEVEL_WARN)
        UVHTTP_LOG_WARN("log: log_level %s has no effect on the server: it was built with UVHTTP_PERFORMANCE_MODE",
                        uvhttp_log_level_name(level));
#endif
}

int uvhttp__server_try_spool(uvhttp_server_t *server) {
    const uvhttp_server_config_t *config = &server->service.config;
    int error = uvhttp__spool_try(config);
    /* Another user may check a configuration. */
    if (error == 0 || (error == EACCES && server->tcp_server->dry_run)) return UVHTTP_OK;
    return uvhttp__server_remember(server, uvhttp__server_file_code(error),
                                   "spool_directory \"%s\": no file can be made there: %s", config->spool_directory,
                                   strerrordesc_np(error));
}

int uvhttp__server_remember(uvhttp_server_t *server, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(server->error, sizeof server->error, format, arguments);
    va_end(arguments);
    server->error_code = status;
    UVHTTP_LOG_ERROR("http: %s", server->error);
    return status;
}
