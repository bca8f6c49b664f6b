/* Owns: see writer.h. */
#include "base/writer.h"

#include <stdarg.h>
#include <uvhttp/str.h>

#include "base/alloc.h"
#include "base/format.h"
#include "base/str.h"

#define NUMBER_SIZE 24 /* decimal digits of any uint64_t */
#define CAPACITY_FIRST 4096

static char *make_place(uvhttp__writer_t *writer, size_t size) {
    if (writer->failed) return NULL;
    if (writer->size + size > writer->capacity) {
        size_t capacity = writer->capacity ? 2 * writer->capacity : CAPACITY_FIRST;
        if (capacity < writer->size + size) capacity = writer->size + size;
        char *data = uvhttp__realloc(writer->data, capacity);
        writer->failed = !data;
        if (!data) return NULL;
        writer->data = data;
        writer->capacity = capacity;
    }
    return writer->data + writer->size;
}

void uvhttp__write_bytes(uvhttp__writer_t *writer, const char *data, size_t size) {
    char *out = make_place(writer, size);
    if (!out) return;
    memcpy(out, data, size);
    writer->size += size;
}

void uvhttp__write_number(uvhttp__writer_t *writer, uint64_t number) {
    char *out = make_place(writer, NUMBER_SIZE);
    if (out) writer->size += uvhttp__write_decimal(out, number);
}

void uvhttp__write_scaled(uvhttp__writer_t *writer, uint64_t number, uint64_t scale, bool point) {
    uvhttp__write_number(writer, number / scale);
    uint64_t rest = number % scale;
    if (rest == 0) {
        if (point) uvhttp__write_text(writer, ".0");
        return;
    }
    char digits[NUMBER_SIZE] = ".";
    size_t size = 1;
    for (; rest > 0; rest %= scale) {
        scale /= 10;
        digits[size++] = (char)('0' + rest / scale);
    }
    uvhttp__write_bytes(writer, digits, size);
}

void uvhttp__write_hex(uvhttp__writer_t *writer, uint64_t number) {
    char digits[16];
    for (int i = 15; i >= 0; i--, number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
    uvhttp__write_bytes(writer, digits, sizeof digits);
}

void uvhttp__write_format(uvhttp__writer_t *writer, const char *format, ...) {
    char text[UVHTTP__WRITE_FORMAT_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = uvhttp__format_v(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof text)
        writer->failed = true;
    else
        uvhttp__write_bytes(writer, text, (size_t)size);
}

void uvhttp__write_other(uvhttp__writer_t *writer, const uvhttp__writer_t *other) {
    writer->failed = writer->failed || other->failed;
    if (other->size > 0) uvhttp__write_bytes(writer, other->data, other->size);
}

/* --- JSON --- */

void uvhttp__write_comma(uvhttp__writer_t *writer) {
    char before = writer->size > 0 ? writer->data[writer->size - 1] : '[';
    if (before != '{' && before != '[') uvhttp__write_text(writer, ",");
}

void uvhttp__write_key(uvhttp__writer_t *writer, const char *name) {
    uvhttp__write_comma(writer);
    uvhttp__write_text(writer, "\"");
    uvhttp__write_text(writer, name);
    uvhttp__write_text(writer, "\":");
}

void uvhttp__write_json_string(uvhttp__writer_t *writer, uvhttp_str_t text) {
    size_t size_max = UVHTTP_JSON_STRING_SIZE_MAX(text.size), written;
    char *out = make_place(writer, size_max);
    if (out && uvhttp_json_string(out, size_max, text, &written) == UVHTTP_OK) writer->size += written;
}

void uvhttp__write_member(uvhttp__writer_t *writer, const char *name, const char *text) {
    uvhttp__write_key(writer, name);
    if (text)
        uvhttp__write_json_string(writer, uvhttp__str_from(text));
    else
        uvhttp__write_text(writer, "null");
}

/* --- the text --- */

void uvhttp__writer_clear(uvhttp__writer_t *writer) {
    writer->size = 0;
    writer->failed = false;
}

void uvhttp__writer_trim(uvhttp__writer_t *writer) {
    char *data = writer->size > 0 ? uvhttp__realloc(writer->data, writer->size) : NULL;
    if (!data) return;
    writer->data = data;
    writer->capacity = writer->size;
}

void uvhttp__writer_free(uvhttp__writer_t *writer) {
    uvhttp__free(writer->data);
    *writer = (uvhttp__writer_t){0};
}

char *uvhttp__writer_finish(uvhttp__writer_t *writer, size_t *size) {
    uvhttp__write_bytes(writer, "", 1);
    if (writer->failed) {
        uvhttp__free(writer->data);
        return NULL;
    }
    if (size) *size = writer->size - 1;
    return writer->data;
}
