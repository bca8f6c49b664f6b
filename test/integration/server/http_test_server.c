/* A server for the integration tests: routes for everything that the examples do not show. Not an example: it trusts
 * its clients and sends whatever a test asks for.
 *
 *   http_test_server --listen ADDRESS [--listen ADDRESS ...] [--set name=value ...] [--trust ADDRESS ...]
 *                    [--forwarded standard|x] [--access-log common|combined|json:[PATH]]
 *                    [--redis ADDRESS [--redis-timeout MS]] [--memory-max BYTES] [--log-rate LINES] [--service on]
 *
 * --set sets a field of the configuration by its name, --trust and --forwarded say which proxies are believed,
 * --memory-max how much the library may allocate, --log-rate how many lines of a level it logs in a second. A
 * configuration that is refused: its message on stderr, exit 2.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp.h>

#include "costly.h"
#include "groups.h"
#include "interim.h"
#include "later.h"
#include "memory_limit.h"
#include "middleware.h"
#include "routes.h"
#include "tls.h"
#include "trace.h"
#include "trickle.h"
#include "worker.h"

#define LISTEN_MAX 16

static void die(const char *message) {
    fprintf(stderr, "http_test_server: %s\n", message);
    exit(2);
}

static void set(uvhttp_server_config_t *config, const char *text) {
    char name[64], message[256];
    const char *equals = strchr(text, '=');
    if (!equals || (size_t)(equals - text) >= sizeof name) die("--set takes name=value");
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    if (uvhttp_server_config_set(config, name, equals + 1, message, sizeof message) != 0) die(message);
}

int main(int argc, char **argv) {
    const char *addresses[LISTEN_MAX];
    unsigned address_count = 0;
    const char *trusted[LISTEN_MAX];
    const char *access_log = NULL, *redis = NULL;
    uint32_t redis_timeout_ms = 0;
    bool service = false;
    uvhttp_proxy_options_t proxies = {.trusted = trusted};
    uvhttp_server_config_t config;
    for (int i = 1; i + 1 < argc; i += 2) /* before anything is allocated */
        if (strcmp(argv[i], "--memory-max") == 0 && limit_memory(argv[i + 1]) != UVHTTP_OK) die("no limit of memory");
    uvhttp_server_config_default(&config);
    config.io_threads = 1;
    for (int i = 1; i < argc; ++i) {
        if (i + 1 == argc) die("an option lacks its value");
        if (strcmp(argv[i], "--listen") == 0 && address_count < LISTEN_MAX) {
            addresses[address_count++] = argv[++i];
        } else if (strcmp(argv[i], "--trust") == 0 && proxies.trusted_count < LISTEN_MAX) {
            trusted[proxies.trusted_count++] = argv[++i];
        } else if (strcmp(argv[i], "--access-log") == 0) {
            access_log = argv[++i];
        } else if (strcmp(argv[i], "--redis") == 0) {
            redis = argv[++i];
        } else if (strcmp(argv[i], "--redis-timeout") == 0) {
            redis_timeout_ms = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--forwarded") == 0) {
            proxies.header = argv[++i][0] == 'x' ? UVHTTP_PROXY_HEADER_X_FORWARDED : UVHTTP_PROXY_HEADER_FORWARDED;
        } else if (strcmp(argv[i], "--log-rate") == 0) {
            if (uvhttp_log_set_rate_limit((uint32_t)strtoul(argv[++i], NULL, 10)) != 0)
                die("--log-rate takes a number");
        } else if (strcmp(argv[i], "--service") == 0) {
            service = strcmp(argv[++i], "on") == 0;
        } else if (strcmp(argv[i], "--set") == 0) {
            set(&config, argv[++i]);
        } else if (strcmp(argv[i], "--memory-max") == 0 || tls_option(argv[i], argv[i + 1])) {
            ++i;
        } else {
            die("options are --memory-max, --listen, --set, --trust, --forwarded, --access-log, --redis, "
                "--redis-timeout, --log-rate, --service and those of tls.c");
        }
    }

    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (!server) return 2;
    if (service) (void)uvhttp_service_init(server); /* listen returns what it does */
    later_t *later = later_new();
    if (!later) return 1;
    if (access_log) add_access_log(server, access_log);
    add_routes(server, later);
    add_worker_routes(server);
    add_group_routes(server);
    add_interim_routes(server);
    add_trace_routes(server);
    add_costly_routes(server);
    tls_routes(server);
    trickle_route(server);
    if (redis) add_shared_limits(server, redis, redis_timeout_ms);
    int status = proxies.trusted_count ? uvhttp_server_trust_proxies(server, &proxies) : 0;
    if (status == 0) status = tls_listen(server);
    for (unsigned i = 0; i < address_count && status == 0; ++i) {
        status = uvhttp_server_listen(server, addresses[i], NULL);
    }
    if (status == 0) status = uvhttp_server_run(server, NULL);
    later_free(later);
    tls_free();
    uvhttp_server_free(server);
    return status != 0;
}
