/* Owns: the handler that shows metrics, and its route. */
#include <uvhttp/metrics.h>

#include "base/str.h"
#include "message/message.h"
#include "server/server.h"

typedef struct format {
    uvhttp_metrics_format_t format;
    const char *accepted, *content_type;
} format_t;

/* The first that is named by the Accept field; the last is the default. Weights are not compared: Prometheus prefers
 * OpenMetrics if it names it, and everything that names JSON alone wants JSON. */
static const format_t formats[] = {
    {UVHTTP_METRICS_OPENMETRICS, "application/openmetrics-text",
     "application/openmetrics-text; version=1.0.0; charset=utf-8"},
    {UVHTTP_METRICS_JSON, "application/json", "application/json"},
    {UVHTTP_METRICS_PROMETHEUS, "", "text/plain; version=0.0.4; charset=utf-8"},
};

static const format_t *choose(const uvhttp_request_t *req) {
    const format_t *format = formats;
    for (; *format->accepted; format++) {
        uvhttp_str_t value;
        for (size_t i = 0; uvhttp_request_header_next(req, "Accept", &i, &value);)
            if (memmem(value.data, value.size, format->accepted, strlen(format->accepted))) return format;
    }
    return format;
}

static void release(void *text) {
    uvhttp_metrics_text_free(text);
}

void uvhttp_metrics_handler(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const format_t *format = choose(req);
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(user);
    size_t size;
    char *text = uvhttp_metrics_text(snapshot, format->format, &size);
    uvhttp_metrics_free(snapshot);
    if (!text) {
        uvhttp_response_text(res, 503, "Service Unavailable\n");
        uvhttp__response_retry_later(res);
        return;
    }
    uvhttp_response_header(res, "Cache-Control", "no-store");
    uvhttp_response_header(res, "Vary", "Accept");
    uvhttp_response_send_ref(res, 200, format->content_type, text, size, release, text);
}

uvhttp_route_t *uvhttp_metrics_route(uvhttp_server_t *server, const char *pattern) {
    return uvhttp_get(server, pattern, uvhttp_metrics_handler, server);
}
