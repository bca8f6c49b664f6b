/* Metrics: requests by route and status, for Prometheus, as JSON, and read by the program itself when it ends.
 *
 *   build/dist/bin/metrics                    # or: metrics 127.0.0.1:9000
 *   curl http://127.0.0.1:8080/hello/world
 *   curl http://127.0.0.1:8080/metrics                                         # Prometheus
 *   curl -H 'Accept: application/json' http://127.0.0.1:8080/metrics
 *   Ctrl-C: a line for each route and status
 */
#include <inttypes.h>
#include <stdio.h>
#include <uvhttp.h>

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t name = uvhttp_request_param(req, "name");
    uvhttp_response_send(res, 200, "text/plain; charset=utf-8", name.data, name.size);
}

static void print_requests(const uvhttp_server_t *server) {
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(server);
    for (uint32_t i = 0; snapshot && i < snapshot->series_count; i++) {
        const uvhttp_metrics_series_t *series = uvhttp_metrics_series(snapshot, i);
        printf("%s %s %" PRIu32 ": %" PRIu64 "\n", series->method, series->route, series->status, series->count);
    }
    uvhttp_metrics_free(snapshot);
}

int main(int argc, char **argv) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.metrics = true;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_get(server, "/hello/:name", hello, NULL);
    uvhttp_metrics_route(server, "/metrics");
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    if (status != 0) fprintf(stderr, "metrics: %s\n", uvhttp_server_error_text(server));
    if (server) print_requests(server);
    uvhttp_server_free(server);
    return status != 0;
}
