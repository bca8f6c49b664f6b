/* Uploads of any size in constant memory: the body is counted and hashed as it arrives. A form's files, too.
 *
 *   build/dist/bin/stream_upload           # or: stream_upload 127.0.0.1:9000
 *   curl -T large.iso http://127.0.0.1:8080/hash
 *   curl -F note=hello -F file=@large.iso http://127.0.0.1:8080/form
 *
 * The hash is FNV-1a of 64 bits: good for seeing that every byte has come, no more.
 */
/* Needs: forms. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp.h>

#define FNV_INITIAL UINT64_C(0xcbf29ce484222325)

typedef struct upload {
    uint64_t size, hash;
    uint64_t file_count;
    bool in_file;
} upload_t;

static void hash(upload_t *upload, uvhttp_str_t data) {
    for (size_t i = 0; i < data.size; ++i)
        upload->hash = (upload->hash ^ (unsigned char)data.data[i]) * UINT64_C(0x100000001b3);
    upload->size += data.size;
}

/* Lives as long as the request. */
static upload_t *new_upload(uvhttp_request_t *req) {
    upload_t *upload = uvhttp_request_alloc(req, sizeof *upload);
    if (upload) *upload = (upload_t){.hash = FNV_INITIAL};
    return upload;
}

static void respond(uvhttp_response_t *res, const upload_t *upload) {
    char text[128];
    snprintf(text, sizeof text, "{\"size\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\",\"files\":%" PRIu64 "}\n",
             upload->size, upload->hash, upload->file_count);
    uvhttp_response_json(res, 200, text);
}

/* --- a body --- */

static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)res;
    hash(user, data);
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req;
    if (status == UVHTTP_OK) respond(res, user); /* else the library responds, unless the client has disconnected */
}

static void hash_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    upload_t *upload = new_upload(req);
    if (!upload || uvhttp_request_on_body(req, on_data, on_end, upload) != UVHTTP_OK) uvhttp_response_empty(res, 503);
}

/* --- the files of a form --- */

static void on_part(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp_multipart_event_t *event, void *user) {
    upload_t *upload = user;
    (void)req, (void)res;
    if (event->kind == UVHTTP_MULTIPART_PART) {
        upload->in_file = event->filename.size > 0;
        upload->file_count += upload->in_file;
    } else if (event->kind == UVHTTP_MULTIPART_DATA && upload->in_file) {
        hash(upload, event->data);
    }
}

static void hash_form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    upload_t *upload = new_upload(req);
    int status = upload ? uvhttp_request_on_multipart(req, NULL, on_part, on_end, upload) : UVHTTP_E_NOMEM;
    if (status != UVHTTP_OK) uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_message(status));
}

int main(int argc, char **argv) {
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    uvhttp_route_t *hash = uvhttp_put(server, "/hash", hash_body, NULL);
    uvhttp_route_options(hash, &(uvhttp_route_options_t){.stream_body = true, .body_timeout = 86400});
    uvhttp_route_t *form = uvhttp_post(server, "/form", hash_form, NULL);
    uvhttp_route_options(form, &(uvhttp_route_options_t){.stream_body = true, .body_size_max = UINT64_C(10) << 30});
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    return status != 0; /* what went wrong has been logged */
}
