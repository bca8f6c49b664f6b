/* Owns: writing JSON that is mostly numbers, as printf does. May include: base. */
#ifndef UVHTTP_SRC_SERVER_ADMIN_JSON_H
#define UVHTTP_SRC_SERVER_ADMIN_JSON_H

#include "server/metrics_writer.h"

typedef uvhttp__writer_t uvhttp__json_t;

#define UVHTTP__JSON_ADD_MAX 1024u /* bytes of one call; more: it has failed */

/* Appends as printf. The text is JSON: numbers, names and punctuation. */
UVHTTP_PRINTF(2, 3) void uvhttp__json_add(uvhttp__json_t *json, const char *format, ...);
/* Appends a JSON string; NULL: "". */
void uvhttp__json_add_string(uvhttp__json_t *json, const char *text);
/* Appends another one. */
void uvhttp__json_append(uvhttp__json_t *json, const uvhttp__json_t *other);
/* Returns the memory that it does not use. */
void uvhttp__json_trim(uvhttp__json_t *json);
/* Empties it, and keeps its memory. */
void uvhttp__json_clear(uvhttp__json_t *json);
void uvhttp__json_free(uvhttp__json_t *json);

#endif
