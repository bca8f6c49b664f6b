/* Owns: what the files about forms share: parameters of a header value, and the header of a part. Private to
 * src/message. May include: base. */
#ifndef UVHTTP_SRC_MESSAGE_MULTIPART_H
#define UVHTTP_SRC_MESSAGE_MULTIPART_H

#include <uvhttp/form.h>

/* Splits "type; a=b" at the first ';': the type without whitespace around it, and what follows (with its ';'). */
uvhttp_str_t uvhttp__multipart_value_type(uvhttp_str_t value, uvhttp_str_t *rest);

typedef struct uvhttp__multipart_param {
    uvhttp_str_t name;  /* a token */
    uvhttp_str_t value; /* without its quotes, still escaped */
    bool quoted;
} uvhttp__multipart_param_t;

/* Takes `; name=value` or `; name="value"` from the front of *rest. Returns 0, UVHTTP_E_EOF when there is none, or
 * UVHTTP_E_INVALID. An unquoted value is not empty and free of whitespace, ';', '"' and '\\'; what else it may hold is
 * the caller's question. */
int uvhttp__multipart_next_param(uvhttp_str_t *rest, uvhttp__multipart_param_t *param);

/* The header of a part, with the empty line that ends it: fills name, filename and content_type of the event with views
 * into `header`, which is changed (unescaped in place). Returns 0, UVHTTP_E_MULTIPART_HEADER,
 * UVHTTP_E_MULTIPART_DISPOSITION or UVHTTP_E_MULTIPART_ENCODING. */
int uvhttp__multipart_parse_header(char *header, size_t size, uvhttp_multipart_event_t *event);

/* Writes the sanitised form of a file name to `out` (raw.size bytes or UVHTTP_FORM_FILE_NAME_SIZE_MAX, whichever is
 * more) and returns its size, at most UVHTTP_FORM_FILE_NAME_SIZE_MAX. */
size_t uvhttp__form_sanitise_name(uvhttp_str_t raw, char *out);

/* The request's only Content-Type, of a body that is not coded. Returns 0 or UVHTTP_E_FORM_TYPE. */
int uvhttp__form_type(const uvhttp_request_t *req, uvhttp_str_t *type);

/* An empty form, in the request's memory. Returns 0, UVHTTP_E_FORM_TOO_LARGE or UVHTTP_E_NOMEM. */
int uvhttp__form_new(uvhttp_request_t *req, uvhttp_form_t **form);

/* Memory of the request. NULL: *status tells why not, as above. */
char *uvhttp__form_alloc(uvhttp_request_t *req, size_t size, int *status);

/* The field or file (then *file, else NULL) of a part that begins, whose content stands at `data` and has no size yet:
 * *content. Both until the next part. Returns 0, UVHTTP_E_FORM_TOO_LARGE or UVHTTP_E_NOMEM. */
int uvhttp__form_begin_part(uvhttp_request_t *req, uvhttp_form_t *form, const uvhttp_multipart_event_t *event,
                            const char *data, uvhttp_str_t **content, uvhttp_form_file_t **file);

/* A file on disk: created under a name that is free, "upload" if it has none; filled; and closed, which removes it if
 * something went wrong (status) or does now. Return codes as uvhttp_form_file_save. */
int uvhttp__form_file_create(int directory, uvhttp_str_t name, char saved[UVHTTP_FORM_SAVED_NAME_SIZE], int *fd);
int uvhttp__form_file_write(int fd, uvhttp_str_t data);
int uvhttp__form_file_end(int directory, const char *saved, int fd, int status);

#endif
