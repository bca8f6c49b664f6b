/* Owns: forms in request bodies: application/x-www-form-urlencoded (WHATWG URL standard, section 5.1) and
 * multipart/form-data (RFC 7578), buffered or streamed. Nothing here locks: one thread at a time. A library built with
 * BUILD_WITH_FORMS=OFF has none of these functions. */
#ifndef UVHTTP_FORM_H
#define UVHTTP_FORM_H

#include <uvhttp/error.h>
#include <uvhttp/request.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

#define UVHTTP_FORM_FIELD_COUNT_MAX_DEFAULT 1000u
#define UVHTTP_MULTIPART_HEADER_SIZE_MAX 4096u /**< bytes */
#define UVHTTP_MULTIPART_BOUNDARY_SIZE_MAX 70u /**< bytes (RFC 2046 section 5.1.1) */
#define UVHTTP_FORM_FILE_NAME_SIZE_MAX 200u    /**< bytes of a sanitised file name */
#define UVHTTP_FORM_SAVED_NAME_SIZE 256u       /**< bytes of a saved file's name with its terminator */

/** Maximum sizes of a form. 0 in any field, and a NULL pointer, mean the default. */
typedef struct uvhttp_form_limits {
    size_t field_count_max; /**< fields and files together; default 1000, at most 1000000 */
    size_t header_size_max; /**< bytes of the header of one part, 64..4096; default 4096 */
    uint64_t part_size_max; /**< bytes of the data of one part; default: limited only by the body */
} uvhttp_form_limits_t;

/* --- buffered forms --- */

typedef struct uvhttp_form uvhttp_form_t;

/** A part with a file name. A file input that the user left empty has an empty `name_raw` and no data. */
typedef struct uvhttp_form_file_s {
    uvhttp_str_t field; /**< name of the input */
    uvhttp_str_t name;  /**< last component of the file name, safe to create: valid UTF-8 without control and direction
                           characters, '/' and '\\'. It neither starts nor ends with a dot or a space. At most
                           UVHTTP_FORM_FILE_NAME_SIZE_MAX bytes; empty if nothing remains */
    uvhttp_str_t name_raw;     /**< file name as sent: any bytes except control characters. Never use it as a path */
    uvhttp_str_t content_type; /**< type claimed by the client; data is NULL if there is none */
    uvhttp_str_t data;         /**< view into the request's body; empty if the file was saved */
    uvhttp_str_t saved;        /**< uvhttp_request_save_form: terminated name on disk; data is NULL for an empty input.
                                  uvhttp_request_form: data is NULL */
    uint64_t saved_size;       /**< bytes of the saved file */
} uvhttp_form_file_t;

UVHTTP_EXPORT UVHTTP_OWNER_THREAD UVHTTP_MUST_USE int uvhttp_request_form_sized(uvhttp_request_t *req,
                                                                                const uvhttp_form_limits_t *limits,
                                                                                size_t limits_size,
                                                                                uvhttp_form_t **form);
/** Parses the request's body according to its Content-Type. The form and its views are valid as long as the request
 * (request.h). They use its memory (config.request_memory_max) and its body; parsing again takes memory again. A
 * multipart part with a file name is a file. Any other part is a field, with its bytes as sent.
 *
 * Returns 0, or a code with *form NULL. uvhttp_error_http_status returns the status for each code:
 * - 415: UVHTTP_E_FORM_TYPE (no Content-Type, several, or another type; a Content-Encoding),
 * UVHTTP_E_MULTIPART_ENCODING (base64 ...);
 * - 400: UVHTTP_E_FORM_ENCODING (a malformed escape, or NUL in a name), UVHTTP_E_MULTIPART_BOUNDARY,
 * UVHTTP_E_MULTIPART_FRAMING, UVHTTP_E_MULTIPART_HEADER, UVHTTP_E_MULTIPART_DISPOSITION, UVHTTP_E_MULTIPART_INCOMPLETE;
 * - 413: UVHTTP_E_FORM_TOO_MANY_FIELDS, UVHTTP_E_FORM_TOO_LARGE (config.request_memory_max),
 * UVHTTP_E_MULTIPART_HEADER_TOO_LARGE, UVHTTP_E_MULTIPART_PART_TOO_LARGE;
 * - 500: UVHTTP_E_INVALID (limits out of range); 503: UVHTTP_E_NOMEM. */
static inline UVHTTP_MUST_USE int uvhttp_request_form(uvhttp_request_t *req, const uvhttp_form_limits_t *limits,
                                                      uvhttp_form_t **form) {
    return uvhttp_request_form_sized(req, limits, sizeof *limits, form);
}

/** Finds the first field named `name` (case-sensitive), decoded. The value may contain any byte. Returns false and an
 * empty view if there is none. `value` may be NULL. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_form_field(const uvhttp_form_t *form, const char *name,
                                                         uvhttp_str_t *value);
/** Iterates over repeated fields: set *index to 0, then call until it returns false. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_form_field_next(const uvhttp_form_t *form, const char *name,
                                                              size_t *index, uvhttp_str_t *value);
/** Returns the field at `index`, from 0, in the order received. Returns false past the last one. `name` and `value` may
 * be NULL. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_form_field_at(const uvhttp_form_t *form, size_t index, uvhttp_str_t *name,
                                                            uvhttp_str_t *value);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD size_t uvhttp_form_field_count(const uvhttp_form_t *form);

UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_form_file_sized(const uvhttp_form_t *form, const char *field,
                                                              uvhttp_form_file_t *file, size_t file_size);
/** Finds the first file of the input named `field`. Returns false and empty views if there is none. */
static inline bool uvhttp_form_file(const uvhttp_form_t *form, const char *field, uvhttp_form_file_t *file) {
    return uvhttp_form_file_sized(form, field, file, sizeof *file);
}
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_form_file_at_sized(const uvhttp_form_t *form, size_t index,
                                                                 uvhttp_form_file_t *file, size_t file_size);
/** Returns the file at `index`, from 0, in the order received. Returns false past the last one. */
static inline bool uvhttp_form_file_at(const uvhttp_form_t *form, size_t index, uvhttp_form_file_t *file) {
    return uvhttp_form_file_at_sized(form, index, file, sizeof *file);
}
UVHTTP_EXPORT UVHTTP_OWNER_THREAD size_t uvhttp_form_file_count(const uvhttp_form_t *form);

UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_form_file_save_sized(const uvhttp_form_file_t *file, size_t file_size,
                                                                int directory, const char *name,
                                                                char saved[UVHTTP_FORM_SAVED_NAME_SIZE]);
/** Writes a file into the directory that the descriptor `directory` is open on, with mode 0600. It is named `name`; if
 * that exists, "name-1.ext" to "name-999.ext". No file is overwritten and no link is followed. With `name` NULL the
 * name is file->name, or "upload" if that is empty. Otherwise `name` must not contain '/' nor be "." or "..", and has
 * at most UVHTTP_FORM_FILE_NAME_SIZE_MAX bytes. `saved` receives the final name and may be NULL. A partly written file
 * is removed on failure; during the call, other processes may see it grow.
 *
 * Returns 0, UVHTTP_E_INVALID (name, or not a directory), UVHTTP_E_LIMIT (1000 files of that name),
 * UVHTTP_E_PERMISSION, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_UPLOAD_NO_SPACE (507) or UVHTTP_E_IO. Blocks on the disk: use
 * it for small files, or on worker threads. Any thread. */
static inline int uvhttp_form_file_save(const uvhttp_form_file_t *file, int directory, const char *name,
                                        char saved[UVHTTP_FORM_SAVED_NAME_SIZE]) {
    return uvhttp_form_file_save_sized(file, sizeof *file, directory, name, saved);
}

/* --- streaming multipart/form-data --- */

typedef enum uvhttp_multipart_event_kind {
    UVHTTP_MULTIPART_PART,     /**< start of a part: name, filename, content_type */
    UVHTTP_MULTIPART_DATA,     /**< bytes of the part: data, never empty */
    UVHTTP_MULTIPART_PART_END, /**< end of the part */
    UVHTTP_MULTIPART_END,      /**< the last boundary was read */
} uvhttp_multipart_event_kind_t;

/** An event. Views are valid until the next call for the same parser. `data` is valid only as long as the parsed bytes.
 */
typedef struct uvhttp_multipart_event {
    uvhttp_multipart_event_kind_t kind;
    uvhttp_str_t name; /**< PART: unescaped (\" and \\), without control characters; may be empty */
    uvhttp_str_t
        filename; /**< PART: as sent, unescaped; data is NULL if the part is not a file. Never use it as a path */
    uvhttp_str_t content_type; /**< PART: data is NULL if it has none */
    uvhttp_str_t data;         /**< DATA */
} uvhttp_multipart_event_t;

/** A parser. It allocates nothing, owns nothing and may be abandoned at any time. Do not copy or move it. */
typedef struct uvhttp_multipart {
    union {
        uint64_t align;
        unsigned char bytes[4352];
    } internal; /**< the library's */
} uvhttp_multipart_t;

UVHTTP_EXPORT UVHTTP_OWNER_THREAD UVHTTP_MUST_USE int uvhttp_multipart_init_sized(uvhttp_multipart_t *parser,
                                                                                  uvhttp_str_t content_type,
                                                                                  const uvhttp_form_limits_t *limits,
                                                                                  size_t limits_size);
/** Initialises a parser. `content_type` is the value of the request's header field; its boundary is copied. Returns 0,
 * UVHTTP_E_FORM_TYPE (not multipart/form-data), UVHTTP_E_MULTIPART_BOUNDARY (missing, repeated, malformed, or not 1 to
 * 70 bytes) or UVHTTP_E_INVALID (limits out of range). */
static inline UVHTTP_MUST_USE int uvhttp_multipart_init(uvhttp_multipart_t *parser, uvhttp_str_t content_type,
                                                        const uvhttp_form_limits_t *limits) {
    return uvhttp_multipart_init_sized(parser, content_type, limits, sizeof *limits);
}

UVHTTP_EXPORT UVHTTP_OWNER_THREAD UVHTTP_MUST_USE int
uvhttp_multipart_read_sized(uvhttp_multipart_t *parser, const char *data, size_t size, size_t *consumed,
                            uvhttp_multipart_event_t *event, size_t event_size);
/** Parses `data` up to the next event. *consumed is the number of bytes parsed; pass the bytes after them to the next
 * call. Returns 0 with an event (0 bytes may be consumed), UVHTTP_E_AGAIN without one when all bytes are parsed, or an
 * error: UVHTTP_E_FORM_TOO_MANY_FIELDS or UVHTTP_E_MULTIPART_* (see uvhttp_request_form). After an error every call
 * returns it again; discard the parts received so far. Time is linear in `size`, however the input is split. */
static inline UVHTTP_MUST_USE int uvhttp_multipart_read(uvhttp_multipart_t *parser, const char *data, size_t size,
                                                        size_t *consumed, uvhttp_multipart_event_t *event) {
    return uvhttp_multipart_read_sized(parser, data, size, consumed, event, sizeof *event);
}

/** Ends the input. Returns 0 if the body was complete, the error of uvhttp_multipart_read, or
 * UVHTTP_E_MULTIPART_INCOMPLETE. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD UVHTTP_MUST_USE int uvhttp_multipart_finish(const uvhttp_multipart_t *parser);

UVHTTP_END_DECLS

#endif
