/* Owns: what an application does with the texts that the library shows: compare them, read numbers, copy them, test
 * media types, write them into JSON. All functions: any thread; they keep nothing and read no locale. */
#ifndef UVHTTP_STR_H
#define UVHTTP_STR_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** A view of a terminated text, which stays the caller's; of NULL, data is NULL. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_str(const char *text);

/* --- compare --- `other` and `prefix` are terminated; NULL counts as "". A text whose data is NULL equals "". */

/** Whether the bytes are the same. */
UVHTTP_EXPORT bool uvhttp_str_equal(uvhttp_str_t text, const char *other);
/** The same, for `size` bytes that are not terminated. */
UVHTTP_EXPORT bool uvhttp_str_equal_n(uvhttp_str_t text, const char *other, size_t size);
/** Whether the bytes are the same when the case of ASCII letters is ignored, as in the names of fields. */
UVHTTP_EXPORT bool uvhttp_str_equal_ci(uvhttp_str_t text, const char *other);
/** Whether the text starts with these bytes; each text starts with "". */
UVHTTP_EXPORT bool uvhttp_str_starts_with(uvhttp_str_t text, const char *prefix);

/* --- numbers --- */

/** Reads a decimal number that is the whole text: '-' or nothing, then digits; no '+', no space. *value gets it,
 * INT64_MIN..INT64_MAX, and is left alone on failure. Returns 0, UVHTTP_E_INVALID (not such a number, also an empty
 * text; value NULL) or UVHTTP_E_LIMIT (out of range). */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_str_to_int64(uvhttp_str_t text, int64_t *value);

#define UVHTTP_STR_DOUBLE_SIZE_MAX 1023u /**< bytes of a text that uvhttp_str_to_double reads */

/** Reads a number that is the whole text, as JSON writes it (RFC 8259 section 6): '-' or nothing, digits without
 * leading zeros, perhaps '.' and digits, perhaps an exponent. No infinity, no NaN. *value gets the nearest double, 0
 * when the number is too small for one, and is left alone on failure. Returns 0, UVHTTP_E_INVALID (not such a number;
 * value NULL), UVHTTP_E_LIMIT (too large for a double, or longer than UVHTTP_STR_DOUBLE_SIZE_MAX) or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_str_to_double(uvhttp_str_t text, double *value);

/* --- copy --- */

/** A terminated copy of the text, which may hold NUL: the caller's to give to uvhttp_free. NULL when out of memory. */
UVHTTP_EXPORT UVHTTP_MUST_USE char *uvhttp_str_dup(uvhttp_str_t text);
/** Gives back what uvhttp_str_dup returned; it is of the library's allocator (alloc.h), not of malloc(3). NULL is
 * allowed. */
UVHTTP_EXPORT void uvhttp_free(void *memory);

/* --- media types --- */

/** Whether the value of a Content-Type field names this media type: `type` is "application/json", case of ASCII letters
 * ignored, parameters of the value ignored (RFC 9110 section 8.3.1). A value without a field (data NULL), `type` NULL
 * or "", and a type with something other than parameters behind it are false. */
UVHTTP_EXPORT bool uvhttp_media_type_is(uvhttp_str_t value, const char *type);

/* --- JSON --- */

/** Bytes that uvhttp_json_string may need for a text of `size` bytes, the terminator included. */
#define UVHTTP_JSON_STRING_SIZE_MAX(size) (6 * (size_t)(size) + 3)

/** Writes the text as a JSON string with its quotation marks, terminated, into `buffer` of `buffer_size` bytes (RFC
 * 8259 section 7). '"', '\' and control characters are escaped, NUL as "\u0000". Bytes that are not UTF-8 become
 * U+FFFD, one for each maximal part of a character, so that the result is valid UTF-8. *written gets the bytes of the
 * string without the terminator; may be NULL. Returns 0; UVHTTP_E_LIMIT: it does not fit, *written is what the string
 * has, the content of the buffer means nothing; or UVHTTP_E_INVALID (buffer NULL and buffer_size not 0). buffer_size 0
 * asks for the size. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_json_string(char *buffer, size_t buffer_size, uvhttp_str_t text,
                                                     size_t *written);

UVHTTP_END_DECLS

#endif
