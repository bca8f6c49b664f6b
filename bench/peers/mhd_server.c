/* Owns: libmicrohttpd as a peer: one epoll thread, the same responses as performance_test.
 *
 *   mhd_server PORT TLS_PORT FILES CERTIFICATE KEY
 */
#include <fcntl.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct MHD_Response *hello, *large;
static const char *files;

static enum MHD_Result send_file(struct MHD_Connection *connection, const char *name) {
    char path[512];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", files, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) != 0) return MHD_NO;
    struct MHD_Response *response = MHD_create_response_from_fd((uint64_t)facts.st_size, fd);
    enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result respond(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *data, size_t *size, void **state) {
    (void)arg, (void)method, (void)version, (void)data, (void)size;
    static int seen;
    if (!*state) { /* the first call is for the head alone */
        *state = &seen;
        return MHD_YES;
    }
    if (strcmp(url, "/") == 0) return MHD_queue_response(connection, 200, hello);
    if (strcmp(url, "/large/100kb") == 0) return MHD_queue_response(connection, 200, large);
    if (strncmp(url, "/static/", 8) == 0 && !strstr(url, "..")) return send_file(connection, url + 8);
    return MHD_NO;
}

/* A file as text, terminated. */
static char *read_text(const char *path) {
    char *text = calloc(1, 65536);
    FILE *file = fopen(path, "r");
    if (!text || !file || fread(text, 1, 65535, file) == 0) {
        fprintf(stderr, "mhd_server: %s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fputs("usage: mhd_server PORT TLS_PORT FILES CERTIFICATE KEY\n", stderr);
        return 2;
    }
    static char body[100 * 1024];
    memset(body, 'a', sizeof body);
    files = argv[3];
    hello = MHD_create_response_from_buffer(13, (void *)"Hello, World!", MHD_RESPMEM_PERSISTENT);
    large = MHD_create_response_from_buffer(sizeof body, body, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(hello, "Content-Type", "text/plain");
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO;
    struct MHD_Daemon *plain =
        MHD_start_daemon(flags, (uint16_t)atoi(argv[1]), NULL, NULL, respond, NULL, MHD_OPTION_CONNECTION_LIMIT, 4000u,
                         MHD_OPTION_CONNECTION_TIMEOUT, 60u, MHD_OPTION_END);
    struct MHD_Daemon *tls = MHD_start_daemon(flags | MHD_USE_TLS, (uint16_t)atoi(argv[2]), NULL, NULL, respond, NULL,
                                              MHD_OPTION_CONNECTION_LIMIT, 4000u, MHD_OPTION_CONNECTION_TIMEOUT, 60u,
                                              MHD_OPTION_HTTPS_MEM_CERT, read_text(argv[4]), MHD_OPTION_HTTPS_MEM_KEY,
                                              read_text(argv[5]), MHD_OPTION_END);
    if (!plain || !tls) return 1;
    pause(); /* until a signal ends it */
    return 0;
}
