/* Owns: finding values in JSON. May include: base. */
#include "load/json_read.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 32 };

static const char *skip_space(const char *text) {
    return text + strspn(text, " \t\r\n");
}

static const char *skip_string(const char *text) {
    for (text++; *text && *text != '"'; text++)
        if (*text == '\\' && !*++text) return NULL;
    return *text ? text + 1 : NULL;
}

static const char *skip_value(const char *text, unsigned depth);

/* An object or an array. */
static const char *skip_group(const char *text, unsigned depth) {
    bool is_object = *text == '{';
    char end = is_object ? '}' : ']';
    text = skip_space(text + 1);
    if (*text == end) return text + 1;
    for (;;) {
        if (is_object) {
            if (*text != '"' || !(text = skip_string(text))) return NULL;
            text = skip_space(text);
            if (*text++ != ':') return NULL;
        }
        if (!(text = skip_value(text, depth + 1))) return NULL;
        text = skip_space(text);
        if (*text == end) return text + 1;
        if (*text != ',') return NULL;
        text = skip_space(text + 1);
    }
}

static const char *skip_value(const char *text, unsigned depth) {
    text = skip_space(text);
    if (depth > DEPTH_MAX) return NULL;
    if (*text == '{' || *text == '[') return skip_group(text, depth);
    if (*text == '"') return skip_string(text);
    size_t size = strspn(text, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
    return size > 0 ? text + size : NULL;
}

const char *load_json_skip(const char *text) {
    return skip_value(text, 0);
}

static const char *find_member(const char *object, const char *name, size_t size) {
    const char *at = skip_space(object);
    if (*at != '{') return NULL;
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *begin = at + 1, *end = skip_string(at) - 1;
        const char *value = skip_space(skip_space(end + 1) + 1);
        if ((size_t)(end - begin) == size && memcmp(begin, name, size) == 0) return value;
        at = skip_space(load_json_skip(value));
        if (*at == ',') at = skip_space(at + 1);
    }
    return NULL;
}

const char *load_json_find(const char *object, const char *path) {
    for (;;) {
        size_t size = strcspn(path, ".");
        object = find_member(object, path, size);
        if (!object || path[size] == '\0') return object;
        path += size + 1;
    }
}

const char *load_json_first(const char *array) {
    const char *at = skip_space(array);
    if (*at != '[') return NULL;
    at = skip_space(at + 1);
    return *at == ']' ? NULL : at;
}

const char *load_json_next(const char *element) {
    const char *at = skip_space(load_json_skip(element));
    return *at == ',' ? skip_space(at + 1) : NULL;
}

bool load_json_number(const char *object, const char *path, double *number) {
    const char *value = load_json_find(object, path);
    char *end;
    if (!value || !strchr("-0123456789", *value)) return false;
    *number = strtod(value, &end);
    return end > value;
}
