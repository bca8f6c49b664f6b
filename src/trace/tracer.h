/* Owns: the middleware that traces and times requests, as the server installs it. May include: as span.h. */
#ifndef UVHTTP_SRC_TRACE_TRACER_H
#define UVHTTP_SRC_TRACE_TRACER_H

#include <uvhttp/server.h>

#include "trace/exporter.h"

typedef struct uvhttp__tracer uvhttp__tracer_t;

/* Whether this configuration wants one. */
static inline bool uvhttp__tracer_wanted(const uvhttp_server_config_t *config) {
    return config->trace || config->server_timing;
}

/* Returns 0, UVHTTP_E_NOMEM, or what uvhttp_client_send says of config->trace_endpoint. */
int uvhttp__tracer_new(const uvhttp_server_config_t *config, uvhttp__tracer_t **tracer);
/* For the outermost group, before any other; its `destroy` frees the tracer. */
uvhttp_middleware_t uvhttp__tracer_middleware(uvhttp__tracer_t *tracer);
/* Any thread. */
void uvhttp__tracer_read(const uvhttp__tracer_t *tracer, uvhttp__exporter_stats_t *stats);

#endif
