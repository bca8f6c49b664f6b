/* Behind a reverse proxy, a load balancer or a CDN: who the client is, they say, and only those that are trusted are
 * believed. Limits and logs go by the client.
 *
 *   build/dist/bin/behind_proxy              # or: behind_proxy 127.0.0.1:9000 127.0.0.1:9001
 *   curl -H 'X-Forwarded-For: 192.0.2.7' -H 'X-Forwarded-Proto: https' http://127.0.0.1:8080/
 *   curl --haproxy-protocol http://127.0.0.1:8081/     # curl begins with a PROXY protocol header
 */
/* Needs: middleware. */
#include <stdio.h>
#include <uvhttp.h>

static void who(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t client = uvhttp_request_client(req), peer = uvhttp_request_peer(req);
    uvhttp_str_t scheme = uvhttp_request_client_scheme(req), host = uvhttp_request_client_host(req);
    char text[512];
    snprintf(text, sizeof text, "%.*s asked for %.*s://%.*s/, %.*s has brought it here\n", (int)client.size,
             client.data, (int)scheme.size, scheme.data, (int)host.size, host.data, (int)peer.size, peer.data);
    uvhttp_response_text(res, 200, text);
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1;
    /* The proxies' own addresses, and nothing wider: whoever is in this list can claim to be anybody. */
    static const char *const proxies[] = {"127.0.0.0/8", "10.1.0.0/24", "unix:"};
    uvhttp_server_trust_proxies(server, &(uvhttp_proxy_options_t){
                                            .trusted = proxies,
                                            .trusted_count = sizeof proxies / sizeof *proxies,
                                            .header = UVHTTP_PROXY_HEADER_X_FORWARDED,
                                            .fields = UVHTTP_PROXY_FOR | UVHTTP_PROXY_PROTO | UVHTTP_PROXY_HOST,
                                        });
    uvhttp_use(server, uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.per_second = 100})); /* by the client */
    uvhttp_get(server, "/", who, NULL);

    char balanced[128];
    snprintf(balanced, sizeof balanced, "%s proxy_protocol", argc > 2 ? argv[2] : "127.0.0.1:8081");
    int status = uvhttp_server_listen(server, balanced, NULL);
    if (status == 0) status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status != 0;
}
