/* Owns: forms in request bodies: application/x-www-form-urlencoded (WHATWG URL standard, section 5.1) and
 * multipart/form-data (RFC 7578), whole or piece by piece. Nothing here keeps a lock: one thread at a time. A library
 * that was built with BUILD_WITH_FORMS=OFF has none of these functions. */
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

/** What a form may hold; 0 in any field, and a NULL pointer, mean the default. */
typedef struct uvhttp_form_limits {
    size_t field_count_max; /**< fields and files together; default 1000, at most 1000000 */
    size_t header_size_max; /**< bytes of the header of one part; default and at most 4096, at least 64 */
    uint64_t part_size_max; /**< bytes of the content of one part; default: no limit but that of the body */
} uvhttp_form_limits_t;

/* --- a whole form --- */

typedef struct uvhttp_form uvhttp_form_t;

/** A part that came with a file name. An input of a page that was left empty comes with an empty `name_raw` and no
 * data. */
typedef struct uvhttp_form_file_s {
    uvhttp_str_t field;        /**< name of the input */
    uvhttp_str_t name;         /**< the last component of the file name, safe to create: valid UTF-8 without control and
                                    direction characters, '/' and '\\'; neither first nor last is a dot or a space; at
                                    most UVHTTP_FORM_FILE_NAME_SIZE_MAX bytes; empty if nothing was left */
    uvhttp_str_t name_raw;     /**< the file name as sent: any bytes but control characters. Never a path to open */
    uvhttp_str_t content_type; /**< as the client claims; data is NULL if it says nothing */
    uvhttp_str_t data;         /**< a view into the request's body; nothing if it was saved */
    uvhttp_str_t saved;        /**< uvhttp_request_save_form: the name that it has on disk, terminated; data is NULL if
                                    it was left empty. uvhttp_request_form: the same */
    uint64_t saved_size;       /**< ... and how many bytes it has there */
} uvhttp_form_file_t;

/** Parses the request's body by its Content-Type. The form and all it gives are views that are valid as long as the
 * request (see request.h), in its memory (config.request_memory_max) and its body. Parsing again takes memory again.
 * A multipart part with a file name is a file, each other one a field, with the bytes as they were sent.
 * Returns 0, or, with *form NULL, a code that uvhttp_error_http_status knows the answer for:
 *   415 UVHTTP_E_FORM_TYPE (none, repeated, or another Content-Type), UVHTTP_E_MULTIPART_ENCODING (base64 ...);
 *   400 UVHTTP_E_FORM_ENCODING (a malformed escape, or NUL in a name), UVHTTP_E_MULTIPART_BOUNDARY,
 *       UVHTTP_E_MULTIPART_FRAMING, UVHTTP_E_MULTIPART_HEADER, UVHTTP_E_MULTIPART_DISPOSITION,
 *       UVHTTP_E_MULTIPART_INCOMPLETE;
 *   413 UVHTTP_E_FORM_TOO_MANY_FIELDS, UVHTTP_E_FORM_TOO_LARGE (config.request_memory_max),
 *       UVHTTP_E_MULTIPART_HEADER_TOO_LARGE, UVHTTP_E_MULTIPART_PART_TOO_LARGE;
 *   500 UVHTTP_E_INVALID (limits out of range); 503 UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_request_form(uvhttp_request_t *req, const uvhttp_form_limits_t *limits,
                                                      uvhttp_form_t **form);

/** The first field called `name` (case matters), decoded; it may hold any byte. Returns false, and an empty view, if
 * there is none. `value` may be NULL. */
UVHTTP_EXPORT bool uvhttp_form_field(const uvhttp_form_t *form, const char *name, uvhttp_str_t *value);
/** Repeated fields: set *index to 0, call until it returns false. */
UVHTTP_EXPORT bool uvhttp_form_field_next(const uvhttp_form_t *form, const char *name, size_t *index,
                                          uvhttp_str_t *value);
/** Fields in the order received; `index` from 0. Returns false past the last. name and value may be NULL. */
UVHTTP_EXPORT bool uvhttp_form_field_at(const uvhttp_form_t *form, size_t index, uvhttp_str_t *name,
                                        uvhttp_str_t *value);
UVHTTP_EXPORT size_t uvhttp_form_field_count(const uvhttp_form_t *form);

/** The first file of the input called `field`. Returns false, and empty views, if there is none. */
UVHTTP_EXPORT bool uvhttp_form_file(const uvhttp_form_t *form, const char *field, uvhttp_form_file_t *file);
/** Files in the order received; `index` from 0. Returns false past the last. */
UVHTTP_EXPORT bool uvhttp_form_file_at(const uvhttp_form_t *form, size_t index, uvhttp_form_file_t *file);
UVHTTP_EXPORT size_t uvhttp_form_file_count(const uvhttp_form_t *form);

/** Writes a file into the directory that the descriptor `directory` is open on, with mode 0600, as `name` or, when that
 * exists, "name-1.ext" to "name-999.ext": nothing is ever overwritten and no link followed. `name` NULL: file->name,
 * or "upload" when that is empty; else a name without '/', not "." or "..", at most UVHTTP_FORM_FILE_NAME_SIZE_MAX
 * bytes. `saved` receives the name and may be NULL. A file that cannot be written whole is removed again; until the
 * call returns, others may see it grow. Blocks as disks do: for small files, or for threads that may wait. Any thread.
 * Returns 0, UVHTTP_E_INVALID (name, or directory not a directory), UVHTTP_E_LIMIT (1000 files of that name),
 * UVHTTP_E_PERMISSION, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_UPLOAD_NO_SPACE (507) or UVHTTP_E_IO. */
UVHTTP_EXPORT int uvhttp_form_file_save(const uvhttp_form_file_t *file, int directory, const char *name,
                                        char saved[UVHTTP_FORM_SAVED_NAME_SIZE]);

/* --- multipart/form-data piece by piece --- */

typedef enum uvhttp_multipart_event_kind {
    UVHTTP_MULTIPART_PART,     /**< a part begins: name, filename, content_type */
    UVHTTP_MULTIPART_DATA,     /**< bytes of its content: data, never empty */
    UVHTTP_MULTIPART_PART_END, /**< ... and its end */
    UVHTTP_MULTIPART_END,      /**< the last boundary was read */
} uvhttp_multipart_event_kind_t;

/** Views are valid until the next call for the same parser, `data` also only as long as the bytes that were read. */
typedef struct uvhttp_multipart_event {
    uvhttp_multipart_event_kind_t kind;
    uvhttp_str_t name;     /**< PART: unescaped (\" and \\), no control characters; may be empty */
    uvhttp_str_t filename; /**< PART: as sent, unescaped; data is NULL if the part is no file. Never a path to open */
    uvhttp_str_t content_type; /**< PART: data is NULL if it has none */
    uvhttp_str_t data;         /**< DATA */
} uvhttp_multipart_event_t;

/** A parser: it allocates nothing, owns nothing and may be forgotten at any time. It must not be copied or moved. The
 * fields are the library's. */
typedef struct uvhttp_multipart {
    uint8_t state;
    bool in_part;
    uint8_t delimiter_size;
    uint8_t matched; /* bytes of the delimiter that the last piece ended with */
    uint8_t assumed; /* ... that were not there: CRLF before the first delimiter, and right behind a header */
    int error;       /* what every call returns from now on; 0: nothing went wrong */
    size_t parts;    /* begun so far */
    size_t field_count_max;
    size_t header_size;
    size_t header_size_max;
    uint64_t part_size; /* of this part so far */
    uint64_t part_size_max;
    char delimiter[4 + UVHTTP_MULTIPART_BOUNDARY_SIZE_MAX]; /* CRLF "--" boundary */
    char header[UVHTTP_MULTIPART_HEADER_SIZE_MAX];          /* of the part that begins */
} uvhttp_multipart_t;

/** Begins. content_type: the value of the request's header field, for its boundary; not kept. Returns 0,
 * UVHTTP_E_FORM_TYPE (not multipart/form-data), UVHTTP_E_MULTIPART_BOUNDARY (none, repeated, malformed, or not of 1 to
 * 70 bytes) or UVHTTP_E_INVALID (limits out of range). */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_multipart_init(uvhttp_multipart_t *parser, uvhttp_str_t content_type,
                                                        const uvhttp_form_limits_t *limits);

/** Reads from `data` up to the next event. *consumed is how much was read: the next call wants what follows. Returns 0
 * with an event (and perhaps 0 consumed), UVHTTP_E_AGAIN without one when all has been read, or one of the codes
 * UVHTTP_E_FORM_TOO_MANY_FIELDS and UVHTTP_E_MULTIPART_* (see uvhttp_request_form), then the same forever; parts seen
 * so far should be thrown away. Time is linear in `size`, wherever the pieces are cut. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_multipart_read(uvhttp_multipart_t *parser, const char *data, size_t size,
                                                        size_t *consumed, uvhttp_multipart_event_t *event);

/** To be called at the end of the body. Returns 0 if it was whole, the code that read() failed with, or
 * UVHTTP_E_MULTIPART_INCOMPLETE. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_multipart_finish(const uvhttp_multipart_t *parser);

UVHTTP_END_DECLS

#endif
