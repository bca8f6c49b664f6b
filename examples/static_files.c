/* A directory on the web: pages, downloads with ranges, and a listing where there is no index.html.
 *
 *   build/dist/bin/static_files ./public                   # http://127.0.0.1:8080/
 *   build/dist/bin/static_files ./public 127.0.0.1:9000
 */
#include <stdio.h>
#include <uvhttp.h>

/* Names with a hash in them never change; pages are asked for again each time, which costs a 304. */
static const uvhttp_static_rule_t rules[] = {
    {"*.html", "no-cache"}, {"*/", "no-cache"}, {"*", "max-age=3600"}, {NULL, NULL}};

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "Usage: %s DIRECTORY [ADDRESS]\n", argv[0]);
        return 2;
    }
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return 1;
    const uvhttp_static_options_t options = {.rules = rules, .immutable_hashed = true, .list_directories = true};
    uvhttp_static(server, "/", argv[1], &options);
    int status = uvhttp_server_run(server, argc == 3 ? argv[2] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status == UVHTTP_OK ? 0 : 1;
}
