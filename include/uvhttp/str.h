/* Owns: functions on uvhttp_str_t: comparison, numbers, copies, media types, JSON. They may be called on any thread,
 * keep no reference to their arguments, and do not depend on the locale. */
#ifndef UVHTTP_STR_H
#define UVHTTP_STR_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** Returns a view of a terminated text, which the caller owns. `data` is NULL if `text` is. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_str_t uvhttp_str(const char *text);

/* --- comparison --- `other` and `prefix` are terminated; NULL means "". A text with `data` NULL equals "". */

/** Returns whether the bytes are the same. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_str_equal(uvhttp_str_t text, const char *other);
/** Returns whether the bytes are the same as `size` bytes at `other`, which need not be terminated. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_str_equal_n(uvhttp_str_t text, const char *other, size_t size);
/** Returns whether the bytes are the same if the case of ASCII letters is ignored, as in field names. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_str_equal_ci(uvhttp_str_t text, const char *other);
/** Returns whether the text starts with `prefix`; every text starts with "". */
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_str_starts_with(uvhttp_str_t text, const char *prefix);

/* --- numbers --- */

/** Parses the whole text as a decimal number: an optional '-', then digits; no '+', no spaces. *value receives it, in
 * INT64_MIN..INT64_MAX, and is unchanged on failure. Returns 0, UVHTTP_E_INVALID (not such a number, an empty text, or
 * `value` NULL) or UVHTTP_E_LIMIT (out of range). */
UVHTTP_EXPORT UVHTTP_ANY_THREAD UVHTTP_MUST_USE int uvhttp_str_to_int64(uvhttp_str_t text, int64_t *value);

#define UVHTTP_STR_DOUBLE_SIZE_MAX 1023u /**< maximum size of a text that uvhttp_str_to_double parses */

/** Parses the whole text as a JSON number (RFC 8259 section 6): an optional '-', digits without leading zeros, an
 * optional fraction and an optional exponent. There is no infinity and no NaN. *value receives the nearest double, 0 if
 * the number is too small for one, and is unchanged on failure. Returns 0, UVHTTP_E_INVALID (not such a number, or
 * `value` NULL), UVHTTP_E_LIMIT (too large for a double, or longer than UVHTTP_STR_DOUBLE_SIZE_MAX) or
 * UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD UVHTTP_MUST_USE int uvhttp_str_to_double(uvhttp_str_t text, double *value);

/* --- copies --- */

/** Returns a terminated copy of the text, which may contain NUL, or NULL if out of memory. The caller must release it
 * with uvhttp_free. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD UVHTTP_MUST_USE char *uvhttp_str_dup(uvhttp_str_t text);
/** Releases the result of uvhttp_str_dup. It comes from the library's allocator (alloc.h), not from malloc(3). NULL is
 * allowed. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_free(void *memory);

/* --- media types --- */

/** Returns whether the value of a Content-Type field has the media type `type` ("application/json"). The case of ASCII
 * letters and the parameters of the value are ignored (RFC 9110 section 8.3.1). Returns false if `data` is NULL, `type`
 * is NULL or "", or the type is followed by something other than parameters. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_media_type_is(uvhttp_str_t value, const char *type);

/* --- JSON --- */

/** Maximum bytes that uvhttp_json_string needs for a text of `size` bytes, with the terminator. */
#define UVHTTP_JSON_STRING_SIZE_MAX(size) (6 * (size_t)(size) + 3)

/** Writes the text as a JSON string with its quotation marks, terminated, into `buffer` of `buffer_size` bytes (RFC
 * 8259 section 7). '"', '\' and control characters are escaped, NUL as "\u0000". Bytes that are not UTF-8 become
 * U+FFFD, one for each maximal part of a character, so that the result is valid UTF-8. *written receives the bytes of
 * the string without the terminator, and may be NULL. Returns 0, UVHTTP_E_LIMIT (the string does not fit; *written is
 * its size, and the buffer has no meaning) or UVHTTP_E_INVALID (`buffer` NULL and buffer_size not 0). Call it with
 * buffer_size 0 to get the size. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD UVHTTP_MUST_USE int uvhttp_json_string(char *buffer, size_t buffer_size,
                                                                       uvhttp_str_t text, size_t *written);

UVHTTP_END_DECLS

#endif
