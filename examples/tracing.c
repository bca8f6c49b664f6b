/* Traces: each request is a span, which a collector of OpenTelemetry gets over OTLP/HTTP.
 *
 *   docker run --rm -p 4318:4318 -p 16686:16686 jaegertracing/jaeger    # or any other collector
 *   build/dist/bin/tracing                 # or: tracing 127.0.0.1:9000 http://collector:4318
 *   curl http://127.0.0.1:8080/orders/7
 *
 * The response names the trace. The handler adds to the span what only it knows.
 */
#include <stdio.h>
#include <uvhttp.h>

static void show_order(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_trace_t trace;
    char text[80] = "not traced\n";
    (void)uvhttp_request_trace_text(req, "order.id", uvhttp_request_param(req, "id"));
    (void)uvhttp_request_trace_event(req, "order found");
    if (uvhttp_request_trace(req, &trace) == UVHTTP_OK) snprintf(text, sizeof text, "trace %s\n", trace.trace_id);
    uvhttp_response_text(res, 200, text);
}

int main(int argc, char **argv) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.trace = true;
    config.trace_ratio = 1;       /* of the requests that do not come with a trace; in production less */
    config.server_timing = true;  /* for the developer's tools of browsers */
    config.trace_delay_ms = 1000; /* for those who try it */
    (void)uvhttp_server_config_set(&config, "trace_service", "orders", NULL, 0);
    if (argc > 2) (void)uvhttp_server_config_set(&config, "trace_endpoint", argv[2], NULL, 0);
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_get(server, "/orders/:id", show_order, NULL);
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    if (status != UVHTTP_OK) fprintf(stderr, "tracing: %s\n", uvhttp_server_error_text(server));
    uvhttp_server_free(server);
    return status == UVHTTP_OK ? 0 : 1;
}
