/* Owns: see admin_json.h. May include: base. */
#include "server/admin_json.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

void uvhttp__json_add(uvhttp__json_t *json, const char *format, ...) {
    char text[UVHTTP__JSON_ADD_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof text)
        json->failed = true;
    else
        uvhttp__write_bytes(json, text, (size_t)size);
}

void uvhttp__json_add_string(uvhttp__json_t *json, const char *text) {
    uvhttp__write_json_string(json, text ? text : "");
}

void uvhttp__json_append(uvhttp__json_t *json, const uvhttp__json_t *other) {
    json->failed = json->failed || other->failed;
    if (other->size > 0) uvhttp__write_bytes(json, other->data, other->size);
}

void uvhttp__json_trim(uvhttp__json_t *json) {
    char *data = json->size > 0 ? uvhttp__realloc(json->data, json->size) : NULL;
    if (!data) return;
    json->data = data;
    json->capacity = json->size;
}

void uvhttp__json_clear(uvhttp__json_t *json) {
    json->size = 0;
    json->failed = false;
}

void uvhttp__json_free(uvhttp__json_t *json) {
    uvhttp__free(json->data);
    *json = (uvhttp__json_t){0};
}
