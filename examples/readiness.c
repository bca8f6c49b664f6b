/* Readiness and liveness for a load balancer, with the configuration from the environment: kubernetes.yaml runs this.
 *
 *   UVHTTP_DRAIN_GRACE_MS=10000 build/dist/bin/readiness 127.0.0.1:8080
 *   curl -i http://127.0.0.1:8080/ready    # 200; after SIGTERM 503, while everything else works for ten more seconds
 */
#include <stdio.h>
#include <uvhttp.h>

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "Hello, World!\n");
}

static void ready(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    bool yes = uvhttp_server_ready(user);
    uvhttp_response_text(res, yes ? 200 : 503, yes ? "ready\n" : "not ready\n");
}

/* A server that drains is alive: nobody should restart it. */
static void alive(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "alive\n");
}

/* Nothing of the start can fail any more. A program that replaces another process would end that one here. */
static void started(uvhttp_server_t *server, void *user) {
    (void)server;
    printf("readiness: serves %s\n", (const char *)user);
    fflush(stdout);
}

int main(int argc, char **argv) {
    uvhttp_server_config_t config;
    char message[1024];
    uvhttp_server_config_default(&config);
    if (uvhttp_server_config_env(&config, message, sizeof message) != 0) {
        fprintf(stderr, "readiness: %s\n", message);
        return 2;
    }
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_service_init(server); /* listen fails if this has */
    uvhttp_get(server, "/", hello, NULL);
    uvhttp_get(server, "/ready", ready, server);
    uvhttp_get(server, "/alive", alive, NULL);
    const char *address = argc > 1 ? argv[1] : "127.0.0.1:8080";
    uvhttp_server_on_ready(server, started, (void *)address);
    int status = uvhttp_server_run(server, address);
    uvhttp_server_free(server);
    return status != 0;
}
