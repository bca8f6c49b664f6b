/* Owns: the routes of the test server in groups with defaults: each responds with how it runs and what of its body it
 * has seen. */
#include "groups.h"

#include <stdio.h>

static void show(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    const char *mode = uvhttp_coro_active() ? "coroutine" : uvhttp_loop_uv() ? "loop" : "worker";
    char text[64];
    snprintf(text, sizeof text, "%s %zu", mode, uvhttp_request_body(req).size);
    uvhttp_response_text(res, 200, text);
}

void add_group_routes(uvhttp_server_t *server) {
    uvhttp_group_t *outer = uvhttp_group(server, "/groups");
    uvhttp_group_t *inner = uvhttp_group_group(outer, "/inner");
    uvhttp_group_get(outer, "/x", show, NULL);
    uvhttp_group_post(outer, "/x", show, NULL);
    uvhttp_group_post(inner, "/x", show, NULL);
    uvhttp_group_defaults(inner, &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_LOOP});
    uvhttp_group_defaults(outer, &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_WORKER, .body_size_max = 100000});
    uvhttp_route_options(uvhttp_group_put(inner, "/large", show, NULL),
                         &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_WORKER, .body_size_max = 200000});
}
