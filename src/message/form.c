/* Owns: a whole form of a buffered body, in the request's memory. Text that needs no decoding stays where it is in the
 * body. May include: base. */
#include <assert.h>

#include "base/sized.h"
#include "base/str.h"
#include "message/message.h"
#include "message/multipart.h"

#define ENTRIES_FIRST 8u

typedef struct form_field {
    uvhttp_str_t name, value;
} form_field_t;

struct uvhttp_form {
    form_field_t *fields;
    uvhttp_form_file_t *files;
    size_t field_count, field_capacity;
    size_t file_count, file_capacity;
};

/* --- memory --- */

static int no_memory(const uvhttp_request_t *req, size_t size) {
    return req->arena->size_max - req->arena->used < size ? UVHTTP_E_FORM_TOO_LARGE : UVHTTP_E_NOMEM;
}

/* The array with space for one more entry, moved if necessary; NULL: *status is the reason. */
static void *grow(uvhttp_request_t *req, void *array, size_t entry_size, size_t count, size_t *capacity, int *status) {
    if (count < *capacity) return array;
    size_t wanted = *capacity ? *capacity * 2 : ENTRIES_FIRST;
    void *moved = uvhttp__arena_alloc(req->arena, wanted * entry_size);
    if (!moved) {
        *status = no_memory(req, wanted * entry_size);
        return NULL;
    }
    if (count) memcpy(moved, array, count * entry_size);
    *capacity = wanted;
    return moved;
}

static int add_field(uvhttp_request_t *req, uvhttp_form_t *form, form_field_t field) {
    int status = 0;
    form_field_t *fields = grow(req, form->fields, sizeof field, form->field_count, &form->field_capacity, &status);
    if (!fields) return status;
    form->fields = fields;
    form->fields[form->field_count++] = field;
    return 0;
}

char *uvhttp__form_alloc(uvhttp_request_t *req, size_t size, int *status) {
    char *memory = uvhttp__arena_alloc_bytes(req->arena, size);
    if (!memory) *status = no_memory(req, size);
    return memory;
}

/* A copy; a text that is there but empty keeps a pointer. */
static int copy_text(uvhttp_request_t *req, uvhttp_str_t text, uvhttp_str_t *copy) {
    *copy = (uvhttp_str_t){text.data ? "" : NULL, 0};
    if (text.size == 0) return 0;
    assert(text.data);
    int status = 0;
    char *memory = uvhttp__form_alloc(req, text.size, &status);
    if (!memory) return status;
    *copy = (uvhttp_str_t){memcpy(memory, text.data, text.size), text.size};
    return 0;
}

/* --- application/x-www-form-urlencoded --- */

static int decode(uvhttp_request_t *req, uvhttp_str_t text, uvhttp_str_t *decoded) {
    *decoded = text;
    bool plain = text.size == 0 || (!memchr(text.data, '%', text.size) && !memchr(text.data, '+', text.size));
    if (plain) return 0;
    int status = 0;
    char *memory = uvhttp__form_alloc(req, text.size, &status);
    if (!memory) return status;
    decoded->data = memory;
    return uvhttp__percent_decode(text, memory, &decoded->size, true) == 0 ? 0 : UVHTTP_E_FORM_ENCODING;
}

static int parse_pair(uvhttp_request_t *req, uvhttp_form_t *form, uvhttp_str_t pair) {
    form_field_t field;
    const char *equals = memchr(pair.data, '=', pair.size);
    size_t name_size = equals ? (size_t)(equals - pair.data) : pair.size;
    size_t value_at = equals ? name_size + 1 : pair.size;
    int status = decode(req, (uvhttp_str_t){pair.data, name_size}, &field.name);
    if (status == 0 && field.name.size > 0 && memchr(field.name.data, '\0', field.name.size))
        return UVHTTP_E_FORM_ENCODING;
    if (status == 0) status = decode(req, (uvhttp_str_t){pair.data + value_at, pair.size - value_at}, &field.value);
    return status == 0 ? add_field(req, form, field) : status;
}

static int parse_urlencoded(uvhttp_request_t *req, uvhttp_str_t body, size_t count_max, uvhttp_form_t *form) {
    size_t at = 0;
    while (at < body.size) {
        const char *ampersand = memchr(body.data + at, '&', body.size - at);
        size_t size = ampersand ? (size_t)(ampersand - body.data) - at : body.size - at;
        if (size > 0) {
            if (form->field_count == count_max) return UVHTTP_E_FORM_TOO_MANY_FIELDS;
            int status = parse_pair(req, form, (uvhttp_str_t){body.data + at, size});
            if (status != 0) return status;
        }
        at += size + 1;
    }
    return 0;
}

/* --- multipart/form-data --- */

/* A file whose data begins at `data`. */
static int begin_file(uvhttp_request_t *req, uvhttp_form_t *form, const uvhttp_multipart_event_t *event,
                      const char *data) {
    uvhttp_form_file_t file = {.data = {data, 0}};
    int status = 0;
    uvhttp_form_file_t *files = grow(req, form->files, sizeof file, form->file_count, &form->file_capacity, &status);
    if (!files) return status;
    form->files = files;
    status = copy_text(req, event->name, &file.field);
    if (status == 0) status = copy_text(req, event->filename, &file.name_raw);
    if (status == 0) status = copy_text(req, event->content_type, &file.content_type);
    if (status != 0) return status;
    char name[UVHTTP_MULTIPART_HEADER_SIZE_MAX];
    size_t name_size = uvhttp__form_sanitise_name(event->filename, name);
    status = copy_text(req, (uvhttp_str_t){name, name_size}, &file.name);
    if (status == 0) form->files[form->file_count++] = file;
    return status;
}

static int begin_field(uvhttp_request_t *req, uvhttp_form_t *form, const uvhttp_multipart_event_t *event,
                       const char *data) {
    form_field_t field = {.value = {data, 0}};
    int status = copy_text(req, event->name, &field.name);
    return status == 0 ? add_field(req, form, field) : status;
}

int uvhttp__form_begin_part(uvhttp_request_t *req, uvhttp_form_t *form, const uvhttp_multipart_event_t *event,
                            const char *data, uvhttp_str_t **content, uvhttp_form_file_t **file) {
    bool is_file = event->filename.data != NULL;
    int status = (is_file ? begin_file : begin_field)(req, form, event, data);
    if (status != 0) return status;
    *file = is_file ? &form->files[form->file_count - 1] : NULL;
    *content = is_file ? &(*file)->data : &form->fields[form->field_count - 1].value;
    return 0;
}

/* The content of a part is one view into the body, however many events it came in. */
static int parse_multipart(uvhttp_request_t *req, uvhttp_str_t body, uvhttp_multipart_t *parser, uvhttp_form_t *form) {
    uvhttp_multipart_event_t event;
    uvhttp_str_t *content = NULL; /* of the part that is read */
    size_t at = 0, consumed;
    int status;
    while ((status = uvhttp_multipart_read(parser, body.data + at, body.size - at, &consumed, &event)) == 0) {
        at += consumed;
        if (event.kind == UVHTTP_MULTIPART_DATA) {
            assert(content); /* a part begins before its data */
            content->size += event.data.size;
        } else if (event.kind == UVHTTP_MULTIPART_PART) {
            uvhttp_form_file_t *file;
            status = uvhttp__form_begin_part(req, form, &event, body.data + at, &content, &file);
            if (status != 0) return status;
        }
    }
    return status == UVHTTP_E_AGAIN ? uvhttp_multipart_finish(parser) : status;
}

/* --- what is asked for --- */

static int parse_body(uvhttp_request_t *req, uvhttp_str_t content_type, const uvhttp_form_limits_t *limits,
                      uvhttp_form_t *form) {
    uvhttp_multipart_t parser;
    uvhttp_str_t body = uvhttp_request_body(req), rest;
    if (body.size == 0) body.data = "";
    int status = uvhttp_multipart_init(&parser, content_type, limits);
    if (status == 0) return parse_multipart(req, body, &parser, form);
    if (status != UVHTTP_E_FORM_TYPE) return status;
    uvhttp_str_t type = uvhttp__multipart_value_type(content_type, &rest);
    if (!uvhttp__str_equal_nocase(type, UVHTTP__STR("application/x-www-form-urlencoded"))) return UVHTTP_E_FORM_TYPE;
    size_t count_max = limits->field_count_max ? limits->field_count_max : UVHTTP_FORM_FIELD_COUNT_MAX_DEFAULT;
    return parse_urlencoded(req, body, count_max, form);
}

int uvhttp__form_new(uvhttp_request_t *req, uvhttp_form_t **form) {
    *form = uvhttp__arena_alloc(req->arena, sizeof **form);
    if (!*form) return no_memory(req, sizeof **form);
    **form = (uvhttp_form_t){0};
    return 0;
}

/* No coding is decoded: what is read must not be what one makes of a form. */
static bool is_coded(const uvhttp_request_t *req) {
    uvhttp__members_t at = {.req = req, .name = "Content-Encoding"};
    uvhttp_str_t coding;
    while (uvhttp__member_next(&at, &coding))
        if (!uvhttp__str_equal_nocase(coding, UVHTTP__STR("identity"))) return true;
    return false;
}

int uvhttp__form_type(const uvhttp_request_t *req, uvhttp_str_t *type) {
    size_t index = 0;
    bool found = uvhttp_request_header_next(req, "Content-Type", &index, type);
    bool single = found && !uvhttp_request_header_next(req, "Content-Type", &index, NULL);
    return single && !is_coded(req) ? 0 : UVHTTP_E_FORM_TYPE;
}

int uvhttp_request_form_sized(uvhttp_request_t *req, const uvhttp_form_limits_t *limits, size_t limits_size,
                              uvhttp_form_t **form) {
    *form = NULL;
    uvhttp_form_limits_t full;
    if (!uvhttp__sized_read(&full, sizeof full, limits, limits_size)) return UVHTTP_E_UNSUPPORTED;
    limits = &full;
    uvhttp_str_t content_type;
    uvhttp_form_t *parsed;
    int status = uvhttp__form_type(req, &content_type);
    if (status == 0) status = uvhttp__form_new(req, &parsed);
    if (status == 0) status = parse_body(req, content_type, limits, parsed);
    if (status == 0) *form = parsed;
    return status;
}

bool uvhttp_form_field_next(const uvhttp_form_t *form, const char *name, size_t *index, uvhttp_str_t *value) {
    uvhttp_str_t wanted = uvhttp__str_from(name);
    while (*index < form->field_count) {
        const form_field_t *field = &form->fields[(*index)++];
        if (!uvhttp__str_equal(field->name, wanted)) continue;
        if (value) *value = field->value;
        return true;
    }
    if (value) *value = (uvhttp_str_t){NULL, 0};
    return false;
}

bool uvhttp_form_field(const uvhttp_form_t *form, const char *name, uvhttp_str_t *value) {
    size_t index = 0;
    return uvhttp_form_field_next(form, name, &index, value);
}

bool uvhttp_form_field_at(const uvhttp_form_t *form, size_t index, uvhttp_str_t *name, uvhttp_str_t *value) {
    bool found = index < form->field_count;
    const uvhttp_str_t none = {NULL, 0};
    if (name) *name = found ? form->fields[index].name : none;
    if (value) *value = found ? form->fields[index].value : none;
    return found;
}

size_t uvhttp_form_field_count(const uvhttp_form_t *form) {
    return form->field_count;
}

bool uvhttp_form_file_at_sized(const uvhttp_form_t *form, size_t index, uvhttp_form_file_t *file, size_t file_size) {
    static const uvhttp_form_file_t none;
    bool found = index < form->file_count;
    uvhttp__sized_write(file, file_size, found ? &form->files[index] : &none, sizeof none);
    return found;
}

bool uvhttp_form_file_sized(const uvhttp_form_t *form, const char *field, uvhttp_form_file_t *file, size_t file_size) {
    uvhttp_str_t wanted = uvhttp__str_from(field);
    size_t index = 0;
    while (index < form->file_count && !uvhttp__str_equal(form->files[index].field, wanted)) ++index;
    return uvhttp_form_file_at_sized(form, index, file, file_size);
}

size_t uvhttp_form_file_count(const uvhttp_form_t *form) {
    return form->file_count;
}
