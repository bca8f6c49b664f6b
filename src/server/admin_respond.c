/* Owns: what the endpoints of the admin listener share: sending JSON, and the state of the server. May include:
 * everything. */
#include "server/admin_internal.h"

const char *uvhttp__admin_state(const uvhttp__admin_t *admin) {
    uvhttp__tcp_server_t *tcp_server = admin->server->tcp_server;
    const char *reason;
    if (!uvhttp__server_engine(admin->server, &reason)) return "starting";
    pthread_mutex_lock(&tcp_server->stop_lock);
    int level = tcp_server->stop_level;
    pthread_mutex_unlock(&tcp_server->stop_lock);
    return level == 0 ? "running" : "draining";
}

void uvhttp__admin_respond(uvhttp_response_t *res, int status, const uvhttp__json_t *json) {
    (void)uvhttp_response_header(res, "Cache-Control", "no-store");
    if (json->failed)
        (void)uvhttp_response_json(res, 503, "{\"error\":\"out of memory\"}\n");
    else
        (void)uvhttp_response_send(res, status, "application/json", json->data, json->size);
}
