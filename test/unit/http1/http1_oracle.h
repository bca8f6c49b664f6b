/* Owns: a second opinion on accepted request heads, written without the library's tables and masks: plain loops that
 * say in the simplest way what must be true of every head that the parser takes. Used by unit tests and fuzz targets.
 */
#ifndef UVHTTP_TEST_HTTP1_ORACLE_H
#define UVHTTP_TEST_HTTP1_ORACLE_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http1/http1.h"

static inline bool oracle_token(unsigned char c) {
    return c < 0x80 && (isalnum(c) || (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL));
}

/* Compares without regard to case, '_' being '-', as a careless reader behind us would. */
static inline bool oracle_name_is(const char *name, size_t size, const char *word) {
    if (size != strlen(word)) return false;
    for (size_t i = 0; i < size; ++i) {
        int c = name[i] == '_' ? '-' : tolower((unsigned char)name[i]);
        if (c != word[i]) return false;
    }
    return true;
}

/* NULL if data[0..size) cannot be read in two ways at the level of bytes, else what is wrong with it. */
static inline const char *oracle_bytes(const char *data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        unsigned char c = (unsigned char)data[i];
        if (c == '\r' && (i + 1 == size || data[i + 1] != '\n')) return "bare CR";
        if (c == '\n' && (i == 0 || data[i - 1] != '\r')) return "bare LF";
        if (c != '\r' && c != '\n' && c != '\t' && (c < 0x20 || c == 0x7f)) return "control character";
    }
    return NULL;
}

typedef struct oracle_counts {
    int lines, hosts, lengths, encodings;
    uint64_t length;
} oracle_counts_t;

/* One field line without its CRLF. */
static inline const char *oracle_field(const char *line, size_t size, oracle_counts_t *counts) {
    size_t name = 0;
    while (name < size && oracle_token((unsigned char)line[name])) ++name;
    if (name == 0 || name == size || line[name] != ':') return "malformed name";
    const char *value = line + name + 1;
    size_t value_size = size - name - 1;
    while (value_size > 0 && (*value == ' ' || *value == '\t')) ++value, --value_size;
    while (value_size > 0 && (value[value_size - 1] == ' ' || value[value_size - 1] == '\t')) --value_size;
    ++counts->lines;
    if (oracle_name_is(line, name, "host")) ++counts->hosts;
    if (oracle_name_is(line, name, "content-length")) {
        char digits[64] = "";
        ++counts->lengths;
        if (value_size == 0 || strspn(value, "0123456789") < value_size) return "length is not a number";
        while (value_size > 1 && *value == '0') ++value, --value_size;
        if (value_size > 19) return "length is too large";
        memcpy(digits, value, value_size);
        counts->length = strtoull(digits, NULL, 10);
        if (counts->length > INT64_MAX) return "length is too large";
    }
    if (oracle_name_is(line, name, "transfer-encoding")) {
        ++counts->encodings;
        if (!oracle_name_is(value, value_size, "chunked")) return "coding is not chunked";
    }
    return NULL;
}

static inline const char *oracle_request_line(const char *line, size_t size) {
    size_t method = 0;
    while (method < size && oracle_token((unsigned char)line[method])) ++method;
    if (method == 0 || method == size || line[method] != ' ') return "malformed method";
    size_t end = method + 1;
    while (end < size && line[end] > 0x20 && line[end] < 0x7f && line[end] != '#') ++end;
    if (end == method + 1 || end == size || line[end] != ' ') return "malformed target";
    if (size - end != 9) return "malformed version";
    if (memcmp(line + end, " HTTP/1.", 8) != 0 || !isdigit((unsigned char)line[end + 8])) return "wrong version";
    return NULL;
}

/* What is wrong with the parser having accepted data[0..size) as head, or NULL. */
static inline const char *oracle_accepted(const char *data, size_t size, const uvhttp__head_t *head) {
    const char *wrong = oracle_bytes(data, size);
    if (wrong != NULL) return wrong;
    size_t pos = 0;
    while (pos + 1 < size && data[pos] == '\r') pos += 2;
    if (pos > 4) return "too many empty lines";
    const char *line = data + pos, *end = data + size;
    oracle_counts_t counts = {0};
    for (int number = 0;; ++number) {
        const char *lf = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
        if (lf == NULL) return "no empty line";
        size_t line_size = (size_t)(lf - line) - 1;
        if (line_size == 0) {
            if (lf + 1 != end) return "bytes after the empty line";
            break;
        }
        wrong = number == 0 ? oracle_request_line(line, line_size) : oracle_field(line, line_size, &counts);
        if (wrong != NULL) return wrong;
        line = lf + 1;
    }
    if (head->size != size || (int)head->header_count != counts.lines) return "wrong count";
    if (counts.hosts > 1 || (counts.hosts == 0 && head->version == UVHTTP_HTTP_1_1)) return "not one Host";
    if (counts.lengths > 1 || counts.encodings > 1 || counts.lengths + counts.encodings > 1) return "two framings";
    if (counts.encodings == 1 && head->version == UVHTTP_HTTP_1_0) return "chunked in HTTP/1.0";
    if (head->has_content_length != (counts.lengths == 1) || head->chunked != (counts.encodings == 1))
        return "framing not noticed";
    return head->content_length == counts.length ? NULL : "wrong length";
}

static inline bool oracle_span_inside(uvhttp__span_t span, size_t size) {
    return span.offset <= size && span.size <= size - span.offset;
}

/* Whether every view lies within the head and paths are what path_plain says. */
static inline const char *oracle_spans(const char *data, size_t size, const uvhttp__head_t *head) {
    if (!oracle_span_inside(head->method_text, size) || !oracle_span_inside(head->target, size) ||
        !oracle_span_inside(head->path, size) || !oracle_span_inside(head->query, size) ||
        !oracle_span_inside(head->authority, size))
        return "a view outside the head";
    for (uint32_t i = 0; i < head->header_count; ++i) {
        if (!oracle_span_inside(head->headers[i].name, size) || !oracle_span_inside(head->headers[i].value, size))
            return "a field outside the head";
    }
    char *path = malloc(head->path.size + 2);
    if (path == NULL) abort();
    memcpy(path, data + head->path.offset, head->path.size);
    memcpy(path + head->path.size, "/", 2); /* a segment ends at the end as at a '/' */
    bool plain = strchr(path, '%') == NULL && strstr(path, "/./") == NULL && strstr(path, "/../") == NULL;
    path[head->path.size] = '\0';
    plain = plain && strstr(path, "//") == NULL;
    free(path);
    if (head->form == UVHTTP__FORM_AUTHORITY) return NULL;
    return plain == head->path_plain ? NULL : "path_plain is wrong";
}

#endif
