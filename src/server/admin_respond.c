/* Owns: what the endpoints of the admin listener share: sending JSON, and the state of the server. May include:
 * everything. */
#include "server/admin_internal.h"

const char *uvhttp__admin_state(const uvhttp__admin_t *admin) {
    static const char *const names[] = {[UVHTTP__STATE_STARTING] = "starting",
                                        [UVHTTP__STATE_READY] = "running",
                                        [UVHTTP__STATE_GRACE] = "grace",
                                        [UVHTTP__STATE_DRAINING] = "draining",
                                        [UVHTTP__STATE_STOPPED] = "stopped"};
    return names[atomic_load(&admin->server->tcp_server->state)];
}

void uvhttp__admin_respond(uvhttp_response_t *res, int status, const uvhttp__writer_t *json) {
    (void)uvhttp_response_header(res, "Cache-Control", "no-store");
    if (!json->failed) {
        (void)uvhttp_response_send(res, status, "application/json", json->data, json->size);
        return;
    }
    (void)uvhttp_response_json(res, 503, "{\"error\":\"out of memory\"}\n");
    uvhttp__response_retry_later(res);
}
