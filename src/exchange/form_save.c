/* Owns: bodies that a handler on a worker thread saves to disk while they arrive. */
#include <string.h>
#include <unistd.h>
#include <uvhttp/body.h>

#include "base/sized.h"
#include "base/str.h"
#include "exchange/exchange.h"
#include "message/multipart.h"

#define VALUE_FIRST 256u /* bytes of memory for the value of a field, which grows */

typedef struct save {
    uvhttp_request_t *req;
    uvhttp_multipart_t *parser;
    uvhttp_form_t *form;
    int directory;
    int fd;                   /* of the file that is being written, -1: there is none */
    uvhttp_form_file_t *file; /* of the part in hand, NULL: it is a field */
    uvhttp_str_t *value;      /* of the field */
    size_t capacity;          /* of its memory */
} save_t;

/* --- files --- */

static int open_file(save_t *save) {
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE];
    int status = uvhttp__form_file_create(save->directory, save->file->name, saved, &save->fd);
    if (status != 0) return status;
    size_t size = strlen(saved);
    char *copy = uvhttp__form_alloc(save->req, size + 1, &status);
    if (!copy) {
        status = uvhttp__form_file_end(save->directory, saved, save->fd, status);
        save->fd = -1;
        return status;
    }
    save->file->saved = (uvhttp_str_t){memcpy(copy, saved, size + 1), size};
    return 0;
}

static int close_file(save_t *save, int status) {
    if (save->fd < 0) return status;
    status = uvhttp__form_file_end(save->directory, save->file->saved.data, save->fd, status);
    save->fd = -1;
    if (status != 0) save->file->saved = (uvhttp_str_t){NULL, 0}; /* the name may be another upload's by now */
    return status;
}

static void remove_files(const save_t *save) {
    uvhttp_form_file_t file;
    for (size_t i = 0; uvhttp_form_file_at(save->form, i, &file); i++)
        if (file.saved.data) unlinkat(save->directory, file.saved.data, 0);
}

/* --- parts --- */

static int begin_part(save_t *save, const uvhttp_multipart_event_t *event) {
    save->capacity = 0;
    int status = uvhttp__form_begin_part(save->req, save->form, event, "", &save->value, &save->file);
    bool is_named = event->filename.size > 0;
    return status == 0 && save->file && is_named ? open_file(save) : status;
}

static int grow_value(save_t *save, size_t size) {
    int status = 0;
    size_t wanted = save->capacity > 0 ? 2 * save->capacity : VALUE_FIRST;
    if (wanted < size) wanted = size;
    char *memory = uvhttp__form_alloc(save->req, wanted, &status);
    if (!memory) return status;
    memcpy(memory, save->value->data, save->value->size);
    save->value->data = memory;
    save->capacity = wanted;
    return 0;
}

static int take_data(save_t *save, uvhttp_str_t data) {
    int status = 0;
    if (save->file) {
        if (save->fd < 0) status = open_file(save); /* a file without a name that is not empty */
        if (status == 0) status = uvhttp__form_file_write(save->fd, data);
        if (status == 0) save->file->saved_size += data.size;
        return status;
    }
    size_t size = save->value->size + data.size;
    if (size > save->capacity) status = grow_value(save, size);
    if (status != 0) return status;
    memcpy((char *)(uintptr_t)save->value->data + save->value->size, data.data, data.size);
    save->value->size = size;
    return 0;
}

static int take_event(save_t *save, const uvhttp_multipart_event_t *event) {
    switch (event->kind) {
        case UVHTTP_MULTIPART_PART: return begin_part(save, event);
        case UVHTTP_MULTIPART_DATA: return take_data(save, event->data);
        case UVHTTP_MULTIPART_PART_END: return close_file(save, 0);
        case UVHTTP_MULTIPART_END: break;
    }
    return 0;
}

static int take_piece(save_t *save, uvhttp_str_t piece) {
    uvhttp_multipart_event_t event;
    int status = 0;
    for (size_t at = 0, consumed; status == 0; at += consumed) {
        status = uvhttp_multipart_read(save->parser, piece.data + at, piece.size - at, &consumed, &event);
        if (status == 0) status = take_event(save, &event);
    }
    return status == UVHTTP_E_AGAIN ? 0 : status;
}

/* --- what is asked for --- */

int uvhttp_request_save_form_sized(uvhttp_request_t *req, int directory, const uvhttp_form_limits_t *limits,
                                   size_t limits_size, uvhttp_form_t **form) {
    if (form) *form = NULL;
    if (!req || !form || directory < 0) return UVHTTP_E_INVALID;
    save_t save = {.req = req, .directory = directory, .fd = -1};
    uvhttp_str_t type, piece;
    int status = uvhttp__form_type(req, &type);
    if (status == 0) status = uvhttp__form_new(req, &save.form);
    if (status != 0) return status;
    save.parser = uvhttp_request_alloc(req, sizeof *save.parser);
    if (!save.parser) return UVHTTP_E_NOMEM;
    status = uvhttp_multipart_init_sized(save.parser, type, limits, limits_size);
    while (status == 0 && (status = uvhttp_request_read_body(req, &piece, UVHTTP_NEVER)) == 0)
        status = take_piece(&save, piece);
    if (status == UVHTTP_E_EOF) status = uvhttp_multipart_finish(save.parser);
    status = close_file(&save, status);
    if (status == 0)
        *form = save.form;
    else
        remove_files(&save);
    return status;
}

/* Bytes that the client has announced, -1: none. */
static int64_t announced(const uvhttp_request_t *req) {
    uint64_t size;
    int status = uvhttp__str_parse_u64(uvhttp_request_header(req, "Content-Length"), &size);
    return status == UVHTTP_OK && size <= INT64_MAX ? (int64_t)size : -1;
}

/* Writes the body to the end. *written receives the bytes of the complete pieces, also after a failure. */
static int write_pieces(uvhttp_request_t *req, int fd, const uvhttp_save_options_t *options, uint64_t *written) {
    uvhttp_str_t piece;
    int status = 0;
    int64_t total = options->on_progress ? announced(req) : -1;
    while (status == 0 && (status = uvhttp_request_read_body(req, &piece, UVHTTP_NEVER)) == 0) {
        status = uvhttp__form_file_write(fd, piece);
        if (status != 0) break;
        *written += piece.size;
        if (options->on_progress) options->on_progress(req, *written, total, options->user);
    }
    return status == UVHTTP_E_EOF ? 0 : status;
}

int uvhttp_request_save_body_sized(uvhttp_request_t *req, int directory, const uvhttp_save_options_t *given,
                                   size_t options_size, char saved[UVHTTP_FORM_SAVED_NAME_SIZE], uint64_t *size) {
    uvhttp_save_options_t options;
    char own[UVHTTP_FORM_SAVED_NAME_SIZE];
    uint64_t written = 0;
    int fd;
    if (!uvhttp__sized_read(&options, sizeof options, given, options_size)) return UVHTTP_E_UNSUPPORTED;
    const char *name = options.name;
    if (!req || directory < 0 || (name && !*name)) return UVHTTP_E_INVALID;
    if (!saved) saved = own;
    int status =
        uvhttp__form_file_create(directory, name ? uvhttp__str_from(name) : (uvhttp_str_t){NULL, 0}, saved, &fd);
    if (status != 0) return status;
    status = uvhttp__form_file_end(directory, saved, fd, write_pieces(req, fd, &options, &written));
    if (status == 0 && size) *size = written;
    return status;
}

int uvhttp_request_write_body_sized(uvhttp_request_t *req, int fd, const uvhttp_save_options_t *given,
                                    size_t options_size, uint64_t *size) {
    uvhttp_save_options_t options;
    uint64_t written = 0;
    if (size) *size = 0;
    if (!uvhttp__sized_read(&options, sizeof options, given, options_size)) return UVHTTP_E_UNSUPPORTED;
    if (!req || fd < 0 || options.name) return UVHTTP_E_INVALID;
    int status = write_pieces(req, fd, &options, &written);
    if (size) *size = written;
    return status;
}
