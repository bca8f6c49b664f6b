/* A page with a form, and what becomes of it: the response lists the text fields and the files as JSON, and the files
 * are kept in a directory. It may be sent as multipart/form-data or, without files, urlencoded. The whole body is in
 * memory (1 MiB at most here), and worker threads save: a disk may block them. Larger files: save_upload.c.
 *
 *   build/dist/bin/upload                  # or: upload 127.0.0.1:9000 /srv/uploads
 *   curl -F title=tea -F 'file=@photo.jpg' http://127.0.0.1:8080/upload
 *   curl --data-urlencode 'title=green tea' http://127.0.0.1:8080/upload
 */
/* Needs: forms. */
#include <fcntl.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp.h>
#include <wchar.h>

static const char page[] = "<!doctype html>\n"
                           "<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Upload</title></head><body>\n"
                           "<h1>Upload</h1>\n"
                           "<form method=\"post\" action=\"/upload\" enctype=\"multipart/form-data\">\n"
                           "<p><label>Title <input name=\"title\"></label></p>\n"
                           "<p><label>Note <textarea name=\"note\"></textarea></label></p>\n"
                           "<p><label>Files <input type=\"file\" name=\"file\" multiple></label></p>\n"
                           "<p><button>Send</button></p>\n"
                           "</form></body></html>\n";

static void show_page(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "text/html; charset=utf-8", page, sizeof page - 1);
}

/* A JSON string. What a client sends need not be UTF-8: bytes that are not become U+FFFD. */
static void put_string(FILE *out, const char *name, uvhttp_str_t text) {
    fprintf(out, "\"%s\":\"", name);
    for (size_t i = 0, size; i < text.size; i += size) {
        size = mbrlen(text.data + i, text.size - i, &(mbstate_t){0});
        bool valid = size > 0 && size <= text.size - i;
        if (!valid) size = 1;
        unsigned char byte = (unsigned char)text.data[i];
        if (!valid && byte != 0)
            fputs("\\ufffd", out);
        else if (byte < ' ' || byte == '"' || byte == '\\' || byte == '<')
            fprintf(out, "\\u%04x", byte);
        else
            fwrite(text.data + i, 1, size, out);
    }
    fputc('"', out);
}

/* Returns 0 or what went wrong. */
static int put_file(FILE *out, const uvhttp_form_file_t *file, int directory) {
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE] = "";
    int status = uvhttp_form_file_save(file, directory, NULL, saved);
    put_string(out, "field", file->field);
    fputc(',', out);
    put_string(out, "name", file->name);
    fputc(',', out);
    put_string(out, "type", file->content_type);
    fprintf(out, ",\"size\":%zu,", file->data.size);
    put_string(out, "saved", (uvhttp_str_t){saved, strlen(saved)});
    return status;
}

static int put_form(FILE *out, const uvhttp_form_t *form, int directory) {
    uvhttp_str_t name, value;
    uvhttp_form_file_t file;
    fputs("\"fields\":[", out);
    for (size_t i = 0; uvhttp_form_field_at(form, i, &name, &value); ++i) {
        fputs(i > 0 ? ",{" : "{", out);
        put_string(out, "name", name);
        fputc(',', out);
        put_string(out, "value", value);
        fputc('}', out);
    }
    fputs("],\"files\":[", out);
    const char *separator = "";
    int status = 0;
    for (size_t i = 0; status == 0 && uvhttp_form_file_at(form, i, &file); ++i) {
        if (file.name_raw.size == 0 && file.data.size == 0) continue; /* no file was chosen */
        fprintf(out, "%s{", separator);
        status = put_file(out, &file, directory);
        fputc('}', out);
        separator = ",";
    }
    fputs("]}\n", out);
    return status;
}

/* Counts in a cookie: what a client says it did, which is all that is wanted here. */
static unsigned count_upload(uvhttp_request_t *req, uvhttp_response_t *res) {
    uvhttp_str_t value;
    unsigned count = 0;
    if (uvhttp_request_cookie(req, "uploads", &value) && value.size < 9) {
        for (size_t i = 0; i < value.size && value.data[i] >= '0' && value.data[i] <= '9'; ++i)
            count = count * 10 + (unsigned)(value.data[i] - '0');
    }
    char text[16];
    snprintf(text, sizeof text, "%u", ++count);
    const uvhttp_cookie_options_t cookie = {.name = "uploads",
                                            .value = text,
                                            .max_age_s = 30 * 86400,
                                            .same_site = UVHTTP_SAME_SITE_STRICT,
                                            .http_only = true};
    uvhttp_response_cookie(res, &cookie);
    return count;
}

static void upload(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const int *directory = user;
    uvhttp_form_t *form;
    int status = uvhttp_request_form(req, NULL, &form);
    if (status != 0) {
        uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_message(status));
        return;
    }
    char *json = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&json, &size);
    if (!out) {
        uvhttp_response_text(res, 503, "out of memory");
        return;
    }
    fprintf(out, "{\"uploads\":%u,", count_upload(req, res));
    status = put_form(out, form, *directory);
    if (fclose(out) != 0) status = UVHTTP_E_NOMEM;
    if (status == 0)
        uvhttp_response_send(res, 200, "application/json", json, size);
    else
        uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_message(status));
    free(json);
}

int main(int argc, char **argv) {
    const char *path = argc > 2 ? argv[2] : ".";
    setlocale(LC_CTYPE, "C.UTF-8"); /* for mbrlen */
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        perror(path);
        return 1;
    }
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    uvhttp_get(server, "/", show_page, NULL);
    uvhttp_route(server, UVHTTP_POST, "/upload", upload, &directory, UVHTTP_EXEC_WORKER);
    int status = uvhttp_server_run(server, argc > 1 ? argv[1] : "127.0.0.1:8080");
    uvhttp_server_free(server);
    close(directory);
    return status != 0;
}
