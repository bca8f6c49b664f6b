/* Owns: writing numbers and strings into a text that grows. May include: base. */
#include "server/metrics_writer.h"

#include <uvhttp/str.h>

#include "base/alloc.h"
#include "base/str.h"

#define NUMBER_SIZE 24 /* decimal digits of any uint64_t */

static char *make_place(uvhttp__writer_t *writer, size_t size) {
    if (writer->failed) return NULL;
    if (writer->size + size > writer->capacity) {
        size_t capacity = writer->capacity ? 2 * writer->capacity : 16384;
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

void uvhttp__write_json_string(uvhttp__writer_t *writer, const char *text) {
    uvhttp_str_t str = {text, strlen(text)};
    size_t size_max = UVHTTP_JSON_STRING_SIZE_MAX(str.size), written;
    char *out = make_place(writer, size_max);
    if (out && uvhttp_json_string(out, size_max, str, &written) == UVHTTP_OK) writer->size += written;
}

void uvhttp__write_label_value(uvhttp__writer_t *writer, const char *text) {
    uvhttp__write_text(writer, "\"");
    for (size_t plain; *text; text += plain) {
        plain = strcspn(text, "\"\\\n");
        uvhttp__write_bytes(writer, text, plain);
        if (!text[plain]) break;
        uvhttp__write_text(writer, text[plain] == '\n' ? "\\n" : text[plain] == '"' ? "\\\"" : "\\\\");
        plain++;
    }
    uvhttp__write_text(writer, "\"");
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
