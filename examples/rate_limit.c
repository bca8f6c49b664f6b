/* Rate limits: everything by the client's address, an API by its key, log-ins strictly. All loops share the buckets.
 * Further arguments are clients that are never limited.
 *
 *   build/dist/bin/rate_limit                 # or: rate_limit 127.0.0.1:9000 10.0.0.0/8 ::1
 *   curl -i http://127.0.0.1:8080/                            # RateLimit: "all";r=99;t=1
 *   curl -i -H 'X-Api-Key: tea' http://127.0.0.1:8080/api/hello
 *   for i in 1 2 3 4 5 6; do curl -i -X POST http://127.0.0.1:8080/login; done    # the sixth: 429, Retry-After: 12
 *   curl http://127.0.0.1:8080/stats
 *   REDIS=127.0.0.1:6379 build/dist/bin/rate_limit     # log-ins are counted in Redis, for all servers together
 */
/* Needs: middleware. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uvhttp.h>

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "Hello, World!");
}

static void show_stats(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    const uvhttp_middleware_t *limit = user;
    uvhttp_rate_limit_stats_t stats;
    uvhttp_rate_limit_stats(*limit, &stats);
    char json[256];
    snprintf(json, sizeof json,
             "{\"allowed\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"keys\":%" PRIu64 ",\"evicted\":%" PRIu64
             ",\"exempt\":%" PRIu64 "}\n",
             stats.allowed, stats.refused, stats.keys, stats.evicted, stats.exempt);
    uvhttp_response_json(res, 200, json);
}

int main(int argc, char **argv) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = 2;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (!server) return 1;

    const char *const *allow = argc > 2 ? (const char *const *)argv + 2 : NULL;
    size_t allow_count = argc > 2 ? (size_t)argc - 2 : 0;
    static uvhttp_middleware_t all;
    all = uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){
        .per_second = 20, .burst = 100, .name = "all", .allow = allow, .allow_count = allow_count});
    uvhttp_use(server, all); /* what fails here is reported by uvhttp_server_run */

    const uvhttp_rate_limit_options_t by_api_key = {
        .per_second = 1, .burst = 20, .name = "api", .by = UVHTTP_RATE_LIMIT_BY_HEADER, .header = "X-Api-Key"};
    uvhttp_group_t *api = uvhttp_group(server, "/api");
    uvhttp_group_use(api, uvhttp_rate_limit(&by_api_key));
    uvhttp_group_get(api, "/hello", hello, NULL);

    uvhttp_rate_limit_options_t five_a_minute = {.per_second = 5.0 / 60, .burst = 5, .name = "login"};
    uvhttp_rate_limit_store_t shared;
    const char *redis = getenv("REDIS");
    if (redis) {
        /* A log-in may wait a second for its response. */
        uvhttp_rate_limit_redis(&(uvhttp_rate_limit_redis_options_t){.address = redis, .timeout_ms = 1000}, &shared);
        five_a_minute.store = &shared;
        five_a_minute.refuse_on_error = true; /* rather no log-in than any number of guesses */
    }
    uvhttp_route_t *login = uvhttp_post(server, "/login", hello, NULL);
    uvhttp_route_use(login, uvhttp_rate_limit(&five_a_minute));
    uvhttp_get(server, "/", hello, NULL);
    uvhttp_get(server, "/stats", show_stats, &all);

    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status != 0;
}
