/* Owns: writing JSON into memory that grows. May include: base. */
#ifndef UVHTTP_SRC_SERVER_ADMIN_JSON_H
#define UVHTTP_SRC_SERVER_ADMIN_JSON_H

#include <uvhttp/types.h>

/* Zero: empty. After a lack of memory nothing more is written. */
typedef struct uvhttp__json {
    char *data; /* terminated once something was written */
    size_t size, capacity;
    bool failed;
} uvhttp__json_t;

/* Appends as printf. The text is JSON: numbers, names and punctuation. */
UVHTTP_PRINTF(2, 3) void uvhttp__json_add(uvhttp__json_t *json, const char *format, ...);
/* Appends a JSON string. */
void uvhttp__json_add_string(uvhttp__json_t *json, const char *text);
/* Appends another one. */
void uvhttp__json_append(uvhttp__json_t *json, const uvhttp__json_t *other);
/* Empties it, and keeps its memory. */
void uvhttp__json_clear(uvhttp__json_t *json);
void uvhttp__json_free(uvhttp__json_t *json);

#endif
