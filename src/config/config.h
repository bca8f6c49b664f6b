/* Owns: what the sources of a configuration (text, file, environment) share. May include: public headers. */
#ifndef UVHTTP_SERVER_CONFIG_H
#define UVHTTP_SERVER_CONFIG_H

#include <uvhttp/server.h>

#define UVHTTP__CONFIG_FIELDS_MAX UVHTTP_CONFIG_FIELDS_MAX
#define UVHTTP__CONFIG_GROUPS 1
#define UVHTTP__CONFIG_EXPECTED_SIZE 80
#define UVHTTP__CONFIG_SHOWN_SIZE 64
#define UVHTTP__CONFIG_VALUE_SIZE 24
#define UVHTTP__NEAREST_HINT_SIZE 96

/* --- the table (config.c) --- */

/* The name of the index-th field and the mapping of a file that it stands in, or NULL; NULL if there is no such field,
 * or none in the older structure that *config is. Indices go to UVHTTP__CONFIG_FIELDS_MAX. */
const char *uvhttp__config_name(const uvhttp_server_config_t *config, size_t index, const char **group);
const char *uvhttp__config_group(size_t index);
bool uvhttp__config_expects_words(size_t index);
/* Whether "" is a value. */
bool uvhttp__config_expects_nothing(size_t index);
/* The name of the index-th field if it differs and needs a restart, else NULL. */
const char *uvhttp__config_frozen(const uvhttp_server_config_t *config, const uvhttp_server_config_t *changed,
                                  size_t index);
/* Whether the index-th field differs and a server that runs applies it. Then text says how: "name: old -> new". */
#define UVHTTP__CONFIG_CHANGE_SIZE 192
bool uvhttp__config_applied(const uvhttp_server_config_t *config, const uvhttp_server_config_t *changed, size_t index,
                            char text[UVHTTP__CONFIG_CHANGE_SIZE]);
/* text: UVHTTP__CONFIG_EXPECTED_SIZE bytes, which need not be used. */
const char *uvhttp__config_expected(size_t index, char *text);
/* What 0 is for the index-th field: an amount ("none") or the default ("one per CPU"). NULL: it is no value of it. */
const char *uvhttp__config_zero(size_t index);
/* The value as text, or "***" for a secret that is set. text: UVHTTP__CONFIG_VALUE_SIZE bytes, which need not be used.
 */
const char *uvhttp__config_value(const uvhttp_server_config_t *config, size_t index, char *text);
/* The memory of a field in *config. */
const void *uvhttp__config_bytes(const uvhttp_server_config_t *config, size_t index, size_t *size);
bool uvhttp__config_is_live(size_t index);
/* As uvhttp_server_config_set, but for the origin; a message calls the field `name`. */
int uvhttp__config_assign(uvhttp_server_config_t *config, size_t index, const char *name, const char *value,
                          char *message, size_t size);
int uvhttp__config_check_size(const uvhttp_server_config_t *config, char *message, size_t size);

/* --- where values come from (config_origin.c) --- */

/* The index-th field of *config has been set, from anything but a file. */
void uvhttp__config_set_origin(uvhttp_server_config_t *config, size_t index, uvhttp_config_source_t source);
/* ... from this line of this file. */
void uvhttp__config_set_origin_line(uvhttp_server_config_t *config, size_t index, const char *path, size_t line);
/* Takes the fields that a server that runs applies, and where they come from. A line is left out unless both come from
 * one file. Both have the library's own size. */
void uvhttp__config_take_live(uvhttp_server_config_t *config, const uvhttp_server_config_t *changed);
/* As uvhttp__config_set_origin, of the field with this name. */
void uvhttp__config_set_origin_of(uvhttp_server_config_t *config, const char *name, uvhttp_config_source_t source);
/* The environment variable of a field. variable: UVHTTP__CONFIG_VARIABLE_SIZE bytes. */
#define UVHTTP__CONFIG_VARIABLE_SIZE 80
const char *uvhttp__config_variable(const char *name, char *variable);

/* What enforces the field, in a sentence without its end (config_enforcement.c); NULL: not known. */
const char *uvhttp__config_enforced_by(const char *name);

/* --- messages (config_message.c) --- */

/* Foreign text as a message may quote it: without control characters, and cut at the end of a character. `shown` has
 * UVHTTP__CONFIG_SHOWN_SIZE bytes and is returned. */
const char *uvhttp__config_shown(const char *text, char *shown);

/* The name most like a wrong one, by the number of letters that differ. */
typedef struct uvhttp__nearest {
    const char *wrong, *name; /* name NULL: nothing is alike */
    size_t distance;          /* of name; what is offered must be nearer */
} uvhttp__nearest_t;

uvhttp__nearest_t uvhttp__nearest(const char *wrong);
void uvhttp__nearest_offer(uvhttp__nearest_t *nearest, const char *name);
/* `, did you mean "name"?` or "". hint: UVHTTP__NEAREST_HINT_SIZE bytes. */
const char *uvhttp__nearest_hint(const uvhttp__nearest_t *nearest, char *hint);

/* Problems, a line each, as many as fit into the caller's message. */
typedef struct uvhttp__problems {
    char *message;
    size_t size, used;
    unsigned count, left_out;
} uvhttp__problems_t;

/* message may be NULL. */
uvhttp__problems_t uvhttp__problems(char *message, size_t size);
void uvhttp__problems_add(uvhttp__problems_t *problems, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports how many problems did not fit. Returns 0 or UVHTTP_E_CONFIG. */
int uvhttp__problems_end(uvhttp__problems_t *problems);

#endif
