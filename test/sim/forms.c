/* Owns: forms: what a client sends, which the numbers of its request decide, and the handlers that save such a form or
 * a body to the disk of disk.c, read it as a stream, or from memory. Each field, file and byte is compared with what
 * was sent; of a request that fails no file is left. */
#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp.h>

#include "disk.h"
#include "forms.h"
#include "server/server.h"

enum { PARTS_MAX = 6, DATA_MAX = 40000, SAVED_MAX = PARTS_MAX };

typedef struct part {
    uint32_t size;
    uint8_t name; /* of file_names; FIELD: it is no file */
} part_t;

typedef struct layout {
    uint32_t tag, count;
    bool preamble, epilogue;
    int code; /* of what is wrong with it; 0: nothing is */
    part_t parts[PARTS_MAX];
} layout_t;

#define TEN "0123456789"

/* As it is sent, and what becomes of it: NULL: the request's own. */
static const struct {
    const char *sent, *name;
} file_names[] = {
    {"", ""},
    {"same.bin", "same.bin"},
    {"../up/../b.tar.gz", "b.tar.gz"},
    {"C:\\\\dir\\\\x y.doc", "x y.doc"},
    {"a \\\"b\\\".c", "a \"b\".c"},
    {". .hidden.", "hidden"},
    {"\xc3\xbc.txt", "\xc3\xbc.txt"},
    {"\xff.txt", "_.txt"},
    {"...", ""},
    {TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "\xc3\xbc.tar",
     TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "012345.tar"},
    {NULL, NULL},
};
enum { EMPTY = 0, FILE_NAMES = sizeof file_names / sizeof *file_names, FIELD = FILE_NAMES };

static atomic_uint handlers_open;
static int directory = -1;

static uint32_t content_of(uint32_t tag, uint32_t part) {
    return SIM_REQUEST_TAG(tag) + (part << 24);
}

/* The last part, or the end, has it. */
static const int codes[] = {UVHTTP_E_MULTIPART_INCOMPLETE, UVHTTP_E_MULTIPART_FRAMING, UVHTTP_E_MULTIPART_DISPOSITION,
                            UVHTTP_E_MULTIPART_ENCODING};

static layout_t layout_of(uint32_t tag, uint32_t size, uint32_t ms) {
    layout_t layout = {.tag = tag};
    sim_random_t random = sim_random_of((uint64_t)ms << 32 | size, 0xf0);
    uint32_t left = size < DATA_MAX ? size : DATA_MAX;
    layout.count = sim_below(&random, PARTS_MAX + 1);
    layout.preamble = sim_one_in(&random, 4);
    layout.epilogue = sim_one_in(&random, 4);
    if (sim_one_in(&random, 10)) layout.code = codes[sim_below(&random, 4)];
    if (layout.count == 0 && layout.code) layout.code = UVHTTP_E_MULTIPART_INCOMPLETE;
    for (uint32_t i = 0; i < layout.count; i++) {
        part_t *part = &layout.parts[i];
        part->name = (uint8_t)(sim_one_in(&random, 3) ? FIELD : sim_below(&random, FILE_NAMES));
        part->size = left == 0 || sim_one_in(&random, 8) ? 0 : sim_log_uniform(&random, left);
        left -= part->size;
    }
    return layout;
}

/* --- what is sent --- */

const char sim_form_type[] = "multipart/form-data; boundary=\"----sim 0f0rm\"";
#define BOUNDARY "----sim 0f0rm"

static size_t put_head_of_part(char *out, const layout_t *layout, uint32_t i) {
    const part_t *part = &layout->parts[i];
    size_t at = (size_t)sprintf(out, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"p%u\"", i);
    if (part->name < FIELD && file_names[part->name].sent)
        at += (size_t)sprintf(out + at, "; filename=\"%s\"", file_names[part->name].sent);
    else if (part->name < FIELD)
        at += (size_t)sprintf(out + at, "; filename=\"%08x-%u.bin\"", layout->tag, i);
    bool last = i + 1 == layout->count;
    if (last && layout->code == UVHTTP_E_MULTIPART_DISPOSITION) at += (size_t)sprintf(out + at, "; name=\"again\"");
    if (last && layout->code == UVHTTP_E_MULTIPART_ENCODING)
        at += (size_t)sprintf(out + at, "\r\nContent-Transfer-Encoding: base64");
    if (part->name % 2) at += (size_t)sprintf(out + at, "\r\nContent-Type: text/x-%u", i);
    return at + (size_t)sprintf(out + at, "\r\n\r\n");
}

static size_t put_form(char *out, const layout_t *layout) {
    size_t at = layout->preamble ? (size_t)sprintf(out, "nobody\r\nreads --this\r\n") : 0;
    for (uint32_t i = 0; i < layout->count; i++) {
        at += put_head_of_part(out + at, layout, i);
        sim_fill(out + at, content_of(layout->tag, i), 0, layout->parts[i].size);
        at += layout->parts[i].size;
        at += (size_t)sprintf(out + at, "\r\n");
    }
    if (layout->code == UVHTTP_E_MULTIPART_INCOMPLETE) return at;
    at += (size_t)sprintf(out + at,
                          layout->code == UVHTTP_E_MULTIPART_FRAMING ? "--" BOUNDARY "x\r\n" : "--" BOUNDARY "--\r\n");
    return at + (layout->epilogue ? (size_t)sprintf(out + at, "nor this") : 0);
}

static char *form_of(const layout_t *layout, uint32_t *size) {
    char *form = malloc(DATA_MAX + 512 * (PARTS_MAX + 1));
    if (!form) abort();
    *size = (uint32_t)put_form(form, layout);
    return form;
}

char *sim_form_new(uint32_t tag, uint32_t size, uint32_t ms) {
    layout_t layout = layout_of(tag, size, ms);
    uint32_t all;
    return form_of(&layout, &all);
}

int sim_form_refusal(uint32_t size, uint32_t ms) {
    int code = layout_of(0, size, ms).code;
    return code ? uvhttp_error_http_status(code) : 0;
}

/* The tag has no influence on it. */
uint32_t sim_form_size(uint32_t size, uint32_t ms) {
    layout_t layout = layout_of(0, size, ms);
    uint32_t all;
    free(form_of(&layout, &all));
    return all;
}

/* --- what must come of it --- */

static layout_t layout_of_request(const uvhttp_request_t *req) {
    return layout_of(sim_request_number(req, "tag", 16), sim_request_number(req, "size", 10),
                     sim_request_number(req, "ms", 10));
}

static void expect_name(const layout_t *layout, uint32_t i, char name[256]) {
    uint8_t kind = layout->parts[i].name;
    if (file_names[kind].name)
        snprintf(name, 256, "%s", file_names[kind].name);
    else
        snprintf(name, 256, "%08x-%u.bin", layout->tag, i);
}

static bool is_text(uvhttp_str_t text, const char *expected) {
    return text.data && text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

static void check_type(const layout_t *layout, uint32_t i, uvhttp_str_t type) {
    char expected[32];
    snprintf(expected, sizeof expected, "text/x-%u", i);
    bool right = layout->parts[i].name % 2 ? is_text(type, expected) : type.data == NULL;
    if (!right) sim_fail("part %u of %x has type %.*s", i, layout->tag, (int)type.size, type.data);
}

static void check_name(const layout_t *layout, uint32_t i, uvhttp_str_t field) {
    char expected[8];
    snprintf(expected, sizeof expected, "p%u", i);
    if (!is_text(field, expected)) sim_fail("part %u of %x is named %.*s", i, layout->tag, (int)field.size, field.data);
}

static void check_data(const layout_t *layout, uint32_t i, uvhttp_str_t data) {
    if (data.size != layout->parts[i].size)
        sim_fail("part %u of %x has %zu bytes instead of %u", i, layout->tag, data.size, layout->parts[i].size);
    size_t wrong = sim_mismatch(data.data, content_of(layout->tag, i), 0, data.size);
    if (wrong < data.size) sim_fail("byte %zu of part %u of %x is wrong", wrong, i, layout->tag);
}

/* "stem.ext", or "stem-1.ext", "stem-2.ext" ... */
static void check_saved_name(uint32_t tag, uvhttp_str_t name, const char *saved) {
    if (name.size == 0) name = (uvhttp_str_t){"upload", 6};
    size_t stem = name.size;
    for (size_t i = 1; i < name.size; i++)
        if (name.data[i] == '.') stem = i;
    const char *rest = saved + stem;
    if (strncmp(saved, name.data, stem) == 0 && *rest == '-')
        for (rest++; isdigit((unsigned char)*rest);) rest++;
    if (strncmp(saved, name.data, stem) != 0 || strlen(rest) != name.size - stem ||
        memcmp(rest, name.data + stem, name.size - stem) != 0)
        sim_fail("%.*s of %x is saved as %s", (int)name.size, name.data, tag, saved);
}

static void check_file(const layout_t *layout, uint32_t i, const uvhttp_form_file_t *file) {
    char name[256];
    expect_name(layout, i, name);
    check_name(layout, i, file->field);
    check_type(layout, i, file->content_type);
    if (!is_text(file->name, name) && (file->name.size || *name))
        sim_fail("file %u of %x has name %.*s", i, layout->tag, (int)file->name.size, file->name.data);
}

/* Fields and files in their order; `take` gets each file. */
static void check_form(const layout_t *layout, const uvhttp_form_t *form,
                       void (*take)(const layout_t *layout, uint32_t i, const uvhttp_form_file_t *file)) {
    size_t fields = 0, files = 0;
    for (uint32_t i = 0; i < layout->count; i++) {
        uvhttp_str_t name, value;
        uvhttp_form_file_t file;
        if (layout->parts[i].name == FIELD) {
            if (!uvhttp_form_field_at(form, fields++, &name, &value))
                sim_fail("field %u of %x is not there", i, layout->tag);
            check_name(layout, i, name);
            check_data(layout, i, value);
        } else {
            if (!uvhttp_form_file_at(form, files++, &file)) sim_fail("file %u of %x is not there", i, layout->tag);
            check_file(layout, i, &file);
            take(layout, i, &file);
        }
    }
    if (fields != uvhttp_form_field_count(form) || files != uvhttp_form_file_count(form))
        sim_fail("%x has %zu fields and %zu files", layout->tag, uvhttp_form_field_count(form),
                 uvhttp_form_file_count(form));
}

/* --- responses --- */

/* The code that a failure of the disk has to bring. */
static int code_of(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return UVHTTP_E_UPLOAD_NO_SPACE;
        case EMFILE:
        case ENFILE: return UVHTTP_E_NO_DESCRIPTORS;
        case EACCES:
        case EROFS: return UVHTTP_E_PERMISSION;
        default: return UVHTTP_E_IO;
    }
}

/* error: of the disk, 0: none. live: the body may end with its connection. */
static void check_status(const layout_t *layout, int status, int error, bool live) {
    const uint32_t tag = layout->tag;
    sim_trace("saved", tag, (uint64_t)-status);
    bool ends = status == UVHTTP_E_ABORTED || status == UVHTTP_E_HTTP_TIMEOUT ||
                status == UVHTTP_E_HTTP_BODY_INCOMPLETE || (status == UVHTTP_E_LIMIT && sim_h2_memory_max) ||
                sim_may_misbehave((tag - 0x1000) >> 8);
    bool malformed = layout->code && status == layout->code; /* before, say, its file was closed */
    if (error && status != code_of(error) && !malformed && !(live && ends))
        sim_fail("%x: %s after a failure of the disk (%d)", tag, uvhttp_error_name(status), error);
    bool known = status == layout->code || error || (live && ends);
    if (!known && !(sim_failing && (status == UVHTTP_E_NOMEM || status == UVHTTP_E_FORM_TOO_LARGE)))
        sim_fail("%x: %s although the disk has not failed", tag, uvhttp_error_name(status));
}

static void respond(uvhttp_response_t *res, const layout_t *layout, uint32_t size, int status, int error) {
    if (status == UVHTTP_OK) {
        sim_pass_on(res, layout->tag, size);
        return;
    }
    if (error) sim_disk_refuse(layout->tag, uvhttp_error_http_status(status));
    (void)uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_message(status));
}

/* --- saved while it comes, or from the spool --- */

static void take_saved(const layout_t *layout, uint32_t i, const uvhttp_form_file_t *file) {
    const part_t *part = &layout->parts[i];
    if (part->name == EMPTY && part->size == 0) {
        if (file->saved.data) sim_fail("an empty input of %x is saved as %s", layout->tag, file->saved.data);
        return;
    }
    if (!file->saved.data || strlen(file->saved.data) != file->saved.size)
        sim_fail("file %u of %x is not saved", i, layout->tag);
    check_saved_name(layout->tag, file->name, file->saved.data);
    uint64_t size = sim_disk_check(layout->tag, file->saved.data, content_of(layout->tag, i));
    if (size != part->size || size != file->saved_size)
        sim_fail("file %u of %x has %llu bytes instead of %u", i, layout->tag, (unsigned long long)size, part->size);
    sim_disk_remove(layout->tag, file->saved.data);
}

enum { SPOOLED, LIVE_ONE };
static const int kinds[] = {SPOOLED, LIVE_ONE};

static void on_form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const bool live = *(const int *)user == LIVE_ONE;
    layout_t layout = layout_of_request(req);
    uvhttp_form_t *form;
    handlers_open++;
    sim_disk_begin(layout.tag);
    int status = uvhttp_request_save_form(req, directory, NULL, &form);
    int error = sim_disk_end();
    check_status(&layout, status, error, live);
    if (status == UVHTTP_OK) check_form(&layout, form, take_saved);
    if (status != UVHTTP_OK && form) sim_fail("a form of %x that was not saved", layout.tag);
    sim_disk_check_none(layout.tag);
    respond(res, &layout, sim_request_number(req, "size", 10), status, error);
    handlers_open--;
}

/* --- in memory, and saved then --- */

static void nothing(const layout_t *layout, uint32_t i, const uvhttp_form_file_t *file) {
    check_data(layout, i, file->data);
}

static int save_files(const layout_t *layout, const uvhttp_form_t *form) {
    uvhttp_form_file_t file;
    int status = UVHTTP_OK;
    for (size_t i = 0; status == UVHTTP_OK && uvhttp_form_file_at(form, i, &file); i++) {
        char saved[UVHTTP_FORM_SAVED_NAME_SIZE];
        const char *name = i % 2 ? "name.x" : NULL;
        status = uvhttp_form_file_save(&file, directory, name, saved);
        if (status != UVHTTP_OK) break;
        check_saved_name(layout->tag, name ? (uvhttp_str_t){name, 6} : file.name, saved);
        uint32_t part = (uint32_t)(file.field.data[1] - '0');
        if (sim_disk_check(layout->tag, saved, content_of(layout->tag, part)) != file.data.size)
            sim_fail("%s of %x has another size", saved, layout->tag);
        sim_disk_remove(layout->tag, saved);
    }
    return status;
}

static void on_buffered_form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    layout_t layout = layout_of_request(req);
    uvhttp_form_t *form;
    handlers_open++;
    sim_disk_begin(layout.tag);
    int status = uvhttp_request_form(req, NULL, &form);
    if (status == UVHTTP_OK) {
        check_form(&layout, form, nothing);
        status = save_files(&layout, form);
    }
    int error = sim_disk_end();
    check_status(&layout, status, error, false);
    sim_disk_check_none(layout.tag);
    respond(res, &layout, sim_request_number(req, "size", 10), status, error);
    handlers_open--;
}

/* --- a body of another type --- */

typedef struct progress {
    uint32_t tag;
    uint64_t received;
} progress_t;

static void on_progress(uvhttp_request_t *req, uint64_t received, int64_t total, void *user) {
    progress_t *progress = user;
    (void)req;
    if (received <= progress->received || (total >= 0 && received > (uint64_t)total))
        sim_fail("%x has %llu bytes, %llu of them before", progress->tag, (unsigned long long)received,
                 (unsigned long long)progress->received);
    progress->received = received;
}

static int save_body(uvhttp_request_t *req, progress_t *progress, uint64_t *size) {
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE];
    const char *name = progress->tag % 3 ? "same.bin" : NULL;
    const uvhttp_save_options_t options = {.name = name, .on_progress = on_progress, .user = progress};
    int status = uvhttp_request_save_body(req, directory, &options, saved, size);
    if (status != UVHTTP_OK) return status;
    check_saved_name(progress->tag, name ? (uvhttp_str_t){name, strlen(name)} : (uvhttp_str_t){NULL, 0}, saved);
    if (sim_disk_check(progress->tag, saved, SIM_REQUEST_TAG(progress->tag)) != *size)
        sim_fail("%s of %x has another size", saved, progress->tag);
    sim_disk_remove(progress->tag, saved);
    return UVHTTP_OK;
}

/* What came before a failure is in the file. */
static int write_body(uvhttp_request_t *req, progress_t *progress, uint64_t *size) {
    char name[32];
    snprintf(name, sizeof name, "own-%x", progress->tag);
    const uvhttp_save_options_t options = {.on_progress = on_progress, .user = progress};
    int fd = sim_disk_create(name);
    if (fd < 0) return UVHTTP_E_NO_DESCRIPTORS;
    int status = uvhttp_request_write_body(req, fd, &options, size);
    sim_disk_close(fd);
    uint64_t there = sim_disk_check(progress->tag, name, SIM_REQUEST_TAG(progress->tag));
    if (there < *size || (status == UVHTTP_OK && there > *size))
        sim_fail("%s has %llu bytes instead of %llu", name, (unsigned long long)there, (unsigned long long)*size);
    sim_disk_remove(progress->tag, name);
    return status;
}

static void on_save(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    layout_t layout = {.tag = sim_request_number(req, "tag", 16)};
    progress_t progress = {.tag = layout.tag};
    uint64_t size = 0;
    handlers_open++;
    sim_disk_begin(layout.tag);
    int status = layout.tag % 2 ? save_body(req, &progress, &size) : write_body(req, &progress, &size);
    int error = sim_disk_end();
    check_status(&layout, status, error, true);
    if (status == UVHTTP_OK && size != progress.received)
        sim_fail("%x has %llu bytes and reports %llu", layout.tag, (unsigned long long)size,
                 (unsigned long long)progress.received);
    sim_disk_check_none(layout.tag);
    respond(res, &layout, sim_request_number(req, "size", 10), status, error);
    handlers_open--;
}

/* --- as a stream of parts --- */

typedef struct parts {
    layout_t layout;
    uint32_t size, at; /* at: parts that have ended */
    uint64_t received;
    bool in_part, ended;
} parts_t;

static void begin_part(parts_t *parts, const uvhttp_multipart_event_t *event) {
    const layout_t *layout = &parts->layout;
    if (parts->in_part || parts->at == layout->count) sim_fail("a part of %x too many", layout->tag);
    check_name(layout, parts->at, event->name);
    check_type(layout, parts->at, event->content_type);
    if ((layout->parts[parts->at].name == FIELD) != (event->filename.data == NULL))
        sim_fail("part %u of %x has another kind", parts->at, layout->tag);
    parts->in_part = true;
    parts->received = 0;
}

static void on_part(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp_multipart_event_t *event, void *user) {
    parts_t *parts = user;
    const layout_t *layout = &parts->layout;
    (void)req, (void)res;
    if (event->kind == UVHTTP_MULTIPART_PART) {
        begin_part(parts, event);
        return;
    }
    if (!parts->in_part || parts->ended) sim_fail("an event of %x outside of a part", layout->tag);
    if (event->kind == UVHTTP_MULTIPART_DATA) {
        size_t size = event->data.size;
        if (size == 0 ||
            sim_mismatch(event->data.data, content_of(layout->tag, parts->at), parts->received, size) < size)
            sim_fail("a byte of part %u of %x is wrong", parts->at, layout->tag);
        parts->received += size;
        return;
    }
    if (event->kind != UVHTTP_MULTIPART_PART_END || parts->received != layout->parts[parts->at].size)
        sim_fail("part %u of %x has %llu bytes", parts->at, layout->tag, (unsigned long long)parts->received);
    parts->at++;
    parts->in_part = false;
}

static void on_parts_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    parts_t *parts = user;
    (void)req;
    if (parts->ended) sim_fail("the form of %x ends twice", parts->layout.tag);
    parts->ended = true;
    sim_trace("form", parts->layout.tag, (uint64_t)-status);
    if (status == UVHTTP_OK && parts->layout.code) sim_fail("the form of %x is accepted", parts->layout.tag);
    if (status != UVHTTP_OK) return;
    if (parts->at != parts->layout.count) sim_fail("%x has %u parts", parts->layout.tag, parts->at);
    sim_pass_on(res, parts->layout.tag, parts->size);
}

static void on_parts_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    free(user);
    handlers_open--;
}

static void on_parts(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    parts_t *parts = calloc(1, sizeof *parts);
    if (!parts) abort();
    parts->layout = layout_of_request(req);
    parts->size = sim_request_number(req, "size", 10);
    if (uvhttp_response_on_done(res, on_parts_done, parts) != UVHTTP_OK) {
        free(parts);
        return;
    }
    handlers_open++;
    int status = uvhttp_request_on_multipart(req, NULL, on_part, on_parts_end, parts);
    if (status != UVHTTP_OK && !sim_failing)
        sim_fail("the form of %x: %s", parts->layout.tag, uvhttp_error_name(status));
}

/* --- life --- */

void sim_forms_add(uvhttp_server_t *server) {
    const uvhttp_route_options_t streamed = {.stream_body = true}, live = {.stream_body = true, .live_body = true};
    handlers_open = 0;
    directory = sim_disk_directory();
    uvhttp_route_options(uvhttp_route(server, UVHTTP_POST, "/form/:tag/:size/:ms", on_form,
                                      (void *)(uintptr_t)&kinds[SPOOLED], UVHTTP_EXEC_WORKER),
                         &streamed);
    uvhttp_route_options(uvhttp_route(server, UVHTTP_POST, "/lform/:tag/:size/:ms", on_form,
                                      (void *)(uintptr_t)&kinds[LIVE_ONE], UVHTTP_EXEC_WORKER),
                         &live);
    uvhttp_route_options(uvhttp_route(server, UVHTTP_POST, "/save/:tag/:size/:ms", on_save, NULL, UVHTTP_EXEC_WORKER),
                         &live);
    uvhttp_route(server, UVHTTP_POST, "/bform/:tag/:size/:ms", on_buffered_form, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route_options(uvhttp_post(server, "/fparts/:tag/:size/:ms", on_parts, NULL), &streamed);
}

/* Bytes that were reserved for the spool have been given back. */
void sim_forms_check_server(const uvhttp_server_t *server) {
    uint64_t spooled = server->service.spooled;
    if (spooled) sim_fail("%llu bytes count as spooled at the end", (unsigned long long)spooled);
}

void sim_forms_check_end(void) {
    if (handlers_open) sim_fail("%u handlers of forms have no end", handlers_open);
    if (directory >= 0) (void)close(directory);
    directory = -1;
}
