/* Owns: finding values in JSON that this program wrote. May include: base. */
#ifndef UVHTTP_TOOLS_LOAD_JSON_READ_H
#define UVHTTP_TOOLS_LOAD_JSON_READ_H

#include <stdbool.h>

/* The end of the value that begins at `text`; NULL if there is none: malformed, or nested deeper than 32. */
const char *load_json_skip(const char *text);

/* The value of a member, by a path such as "results.errors.total"; NULL if there is none. `object` is the beginning of
 * an object that load_json_skip has found to be well-formed. */
const char *load_json_find(const char *object, const char *path);

/* The first element of an array and the one after another; NULL: there is none. */
const char *load_json_first(const char *array);
const char *load_json_next(const char *element);

/* A member that is a number. */
bool load_json_number(const char *object, const char *path, double *number);

#endif
