/* A directory on the web: pages, downloads with ranges, and a listing where there is no index.html.
 *
 *   build/dist/bin/static_files                            # the current directory on http://127.0.0.1:8080/
 *   build/dist/bin/static_files 127.0.0.1:9000 ./public
 */
/* Needs: static. */
#include <uvhttp.h>

/* Names with a hash in them never change; pages are asked for again each time, which costs a 304. */
static const uvhttp_static_rule_t rules[] = {
    {"*.html", "no-cache"}, {"*/", "no-cache"}, {"*", "max-age=3600"}, {NULL, NULL}};

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1; /* what is wrong has been logged, here and below */
    const uvhttp_static_options_t options = {.rules = rules, .immutable_hashed = true, .list_directories = true};
    uvhttp_static(server, "/", argc > 2 ? argv[2] : ".", &options);
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status != 0;
}
