/* Uploads of any size saved to a directory by worker threads: the client is held back while the disk is slow, other
 * clients are not. A form's files, or a body as it is.
 *
 *   build/dist/bin/save_upload             # or: save_upload 127.0.0.1:9000 /srv/uploads
 *   curl -F note=hello -F file=@large.iso http://127.0.0.1:8080/form
 *   curl -T large.iso http://127.0.0.1:8080/body
 */
/* Needs: forms. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>
#include <uvhttp.h>

static void refuse(uvhttp_response_t *res, int status) {
    uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_message(status));
}

static void save_form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const int *directory = user;
    const uvhttp_form_limits_t limits = {.field_count_max = 100, .part_size_max = UINT64_C(4) << 30};
    uvhttp_form_t *form;
    int status = uvhttp_request_save_form(req, *directory, &limits, &form);
    if (status != 0) {
        refuse(res, status);
        return;
    }
    uvhttp_form_file_t file;
    uvhttp_response_begin(res, 200, "text/plain; charset=utf-8", UVHTTP_SIZE_UNKNOWN);
    for (size_t i = 0; uvhttp_form_file_at(form, i, &file); ++i) {
        char line[UVHTTP_FORM_SAVED_NAME_SIZE + 64];
        if (!file.saved.data) continue; /* no file was chosen */
        int size = snprintf(line, sizeof line, "%s: %" PRIu64 " bytes\n", file.saved.data, file.saved_size);
        uvhttp_response_write(res, line, (size_t)size);
    }
}

static void save_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const int *directory = user;
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE], text[UVHTTP_FORM_SAVED_NAME_SIZE + 64];
    uint64_t size;
    int status = uvhttp_request_save_body(req, *directory, NULL, saved, &size);
    if (status != 0) {
        refuse(res, status);
        return;
    }
    snprintf(text, sizeof text, "%s: %" PRIu64 " bytes\n", saved, size);
    uvhttp_response_text(res, 201, text);
}

int main(int argc, char **argv) {
    const char *path = argc > 2 ? argv[2] : ".";
    const uvhttp_route_options_t options = {
        .exec = UVHTTP_EXEC_WORKER, .stream_body = true, .body_size_max = UINT64_C(10) << 30, .body_timeout = 86400};
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        perror(path);
        return 1;
    }
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    uvhttp_group_t *uploads = uvhttp_group(server, "");
    uvhttp_group_defaults(uploads, &options);
    uvhttp_group_post(uploads, "/form", save_form, &directory);
    uvhttp_group_put(uploads, "/body", save_body, &directory);
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    close(directory);
    return status != 0; /* what went wrong has been logged */
}
