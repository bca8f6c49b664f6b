/* Owns: writing JSON for the tests. Bytes outside of ASCII are written as U+0080..U+00FF each, so that a test gets back
 * exactly what the library gave. */
#ifndef UVHTTP_TEST_JSON_H
#define UVHTTP_TEST_JSON_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uvhttp.h>

typedef struct json {
    FILE *out;
    char *text;
    size_t size;
} json_t;

static inline void json_open(json_t *json) {
    json->text = NULL;
    json->size = 0;
    json->out = open_memstream(&json->text, &json->size);
    if (!json->out) abort();
}

static inline void json_str(json_t *json, uvhttp_str_t str) {
    if (!str.data) {
        fputs("null", json->out);
        return;
    }
    fputc('"', json->out);
    for (size_t i = 0; i < str.size; ++i) {
        unsigned char byte = (unsigned char)str.data[i];
        if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\') {
            fprintf(json->out, "\\u%04x", byte);
        } else {
            fputc(byte, json->out);
        }
    }
    fputc('"', json->out);
}

static inline void json_field(json_t *json, const char *name, uvhttp_str_t value) {
    fprintf(json->out, "\"%s\":", name);
    json_str(json, value);
    fputc(',', json->out);
}

static inline void json_number(json_t *json, const char *name, uint64_t value) {
    fprintf(json->out, "\"%s\":%" PRIu64 ",", name, value);
}

/* Answers with what was written, and frees it when it is sent. */
static inline void json_response(json_t *json, uvhttp_response_t *res) {
    if (fclose(json->out) != 0) abort();
    uvhttp_response_send_ref(res, 200, "application/json", json->text, json->size, free, json->text);
}

#endif
