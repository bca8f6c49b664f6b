/* Owns: a text that grows, and the writing of numbers and JSON into it. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_WRITER_H
#define UVHTTP_SRC_BASE_WRITER_H

#include <stdbool.h>
#include <string.h>
#include <uvhttp/types.h>

#define UVHTTP__WRITE_FORMAT_MAX 1024u /* bytes of one uvhttp__write_format(), with the terminator */

/* {0} is an empty one. */
typedef struct uvhttp__writer {
    char *data; /* uvhttp__realloc; NULL: nothing yet */
    size_t size, capacity;
    bool failed; /* out of memory: nothing is written any more */
} uvhttp__writer_t;

void uvhttp__write_bytes(uvhttp__writer_t *writer, const char *data, size_t size);
static inline void uvhttp__write_text(uvhttp__writer_t *writer, const char *text) {
    uvhttp__write_bytes(writer, text, strlen(text));
}
/* As uvhttp__format(). It fails if there is more than UVHTTP__WRITE_FORMAT_MAX takes. */
UVHTTP_PRINTF(2, 3) void uvhttp__write_format(uvhttp__writer_t *writer, const char *format, ...);
void uvhttp__write_number(uvhttp__writer_t *writer, uint64_t number);
/* number / scale as a decimal fraction, exactly; scale: a power of ten. point: "1.0" in place of "1". */
void uvhttp__write_scaled(uvhttp__writer_t *writer, uint64_t number, uint64_t scale, bool point);
/* 16 hex digits. */
void uvhttp__write_hex(uvhttp__writer_t *writer, uint64_t number);
/* The text of another one; fails if that has failed. */
void uvhttp__write_other(uvhttp__writer_t *writer, const uvhttp__writer_t *other);

/* --- JSON --- */

/* The comma before an item; none before the first of an array, of an object or of the text. */
void uvhttp__write_comma(uvhttp__writer_t *writer);
/* The name of a member of an object, of ours, and so without escapes; a comma before it as uvhttp__write_comma(). */
void uvhttp__write_key(uvhttp__writer_t *writer, const char *name);
/* A member whose value is a string; NULL: null. */
void uvhttp__write_member(uvhttp__writer_t *writer, const char *name, const char *text);
/* A string with its quotation marks. */
void uvhttp__write_json_string(uvhttp__writer_t *writer, uvhttp_str_t text);

/* --- the text --- */

/* Empties it, and keeps its memory. */
void uvhttp__writer_clear(uvhttp__writer_t *writer);
/* Returns the memory that it does not use. */
void uvhttp__writer_trim(uvhttp__writer_t *writer);
void uvhttp__writer_free(uvhttp__writer_t *writer);
/* The text, terminated, for uvhttp__free; NULL if it has failed. The writer is at its end. */
char *uvhttp__writer_finish(uvhttp__writer_t *writer, size_t *size);

#endif
