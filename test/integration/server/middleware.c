/* Owns: the routes of the test server that pass the library's own middleware. */
#include "middleware.h"

static void deny_frames_otherwise(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_header(res, "X-Frame-Options", "SAMEORIGIN");
    uvhttp_response_header(res, "Vary", "Accept-Language");
    uvhttp_response_text(res, 200, "own");
}

static void no_answer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
}

static void in_pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t id = uvhttp_request_id_get(req);
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    uvhttp_response_write(res, id.data, id.size);
    uvhttp_response_end(res);
}

/* The id is still there when the request has been copied out of the receive buffer. */
static void deferred(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *later = uvhttp_response_defer(res);
    if (!later) return;
    uvhttp_str_t id = uvhttp_request_id_get(uvhttp_deferred_request(later));
    uvhttp_deferred_send(later, 200, "text/plain", id.data, id.size);
    uvhttp_deferred_release(later);
}

void add_guarded_routes(uvhttp_server_t *server) {
    uvhttp_group_t *group = uvhttp_group(server, "/guarded");
    uvhttp_group_use(group, uvhttp_request_id(&(uvhttp_request_id_options_t){.trust_incoming = true}));
    uvhttp_group_use(group, uvhttp_security_headers(NULL));
    uvhttp_group_use(group,
                     uvhttp_cors(&(uvhttp_cors_options_t){.origins = "https://app.example", .private_network = true}));
    uvhttp_group_route(group, UVHTTP_GET, "/own", deny_frames_otherwise, NULL);
    uvhttp_group_route(group, UVHTTP_GET, "/nothing", no_answer, NULL);
    uvhttp_group_route(group, UVHTTP_GET, "/pieces", in_pieces, NULL);
    uvhttp_group_route(group, UVHTTP_GET, "/later", deferred, NULL);
}
