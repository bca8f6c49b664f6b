/* The smallest server: one route, run until Ctrl-C.
 *
 *   build/dist/bin/hello                   # or: hello 0.0.0.0:80, hello unix:/tmp/hello.sock
 *   curl http://127.0.0.1:8080/
 */
#include <uvhttp.h>

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "Hello, World!");
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL); /* NULL: defaults */
    uvhttp_get(server, "/", hello, NULL);
    int status =
        uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080"); /* until SIGINT or SIGTERM, drained */
    uvhttp_server_free(server);
    return status != 0; /* what went wrong has been logged */
}
