/* Owns: see admin_json.h. May include: base. */
#include "server/admin_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/str.h>

#include "base/alloc.h"

#define CAPACITY_MIN 256u

static bool reserve(uvhttp__json_t *json, size_t more) {
    if (json->failed) return false;
    size_t wanted = json->size + more + 1, capacity = json->capacity ? json->capacity : CAPACITY_MIN;
    if (wanted <= json->capacity) return true;
    while (capacity < wanted) capacity *= 2;
    char *data = uvhttp__realloc(json->data, capacity);
    json->failed = !data;
    if (!data) return false;
    json->data = data;
    json->capacity = capacity;
    return true;
}

void uvhttp__json_add(uvhttp__json_t *json, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    if (size >= 0 && reserve(json, (size_t)size)) {
        (void)vsnprintf(json->data + json->size, (size_t)size + 1, format, again);
        json->size += (size_t)size;
    }
    va_end(again);
    va_end(arguments);
}

void uvhttp__json_add_string(uvhttp__json_t *json, const char *text) {
    uvhttp_str_t view = uvhttp_str(text ? text : "");
    size_t written = 0;
    if (!reserve(json, UVHTTP_JSON_STRING_SIZE_MAX(view.size))) return;
    (void)!uvhttp_json_string(json->data + json->size, json->capacity - json->size, view, &written);
    json->size += written;
}

void uvhttp__json_append(uvhttp__json_t *json, const uvhttp__json_t *other) {
    json->failed = json->failed || other->failed;
    if (other->size == 0 || !reserve(json, other->size)) return;
    memcpy(json->data + json->size, other->data, other->size + 1);
    json->size += other->size;
}

void uvhttp__json_clear(uvhttp__json_t *json) {
    json->size = 0;
    json->failed = false;
}

void uvhttp__json_free(uvhttp__json_t *json) {
    uvhttp__free(json->data);
    *json = (uvhttp__json_t){0};
}
