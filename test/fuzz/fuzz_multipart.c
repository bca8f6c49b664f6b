/* Owns: fuzzing of the multipart parser (libFuzzer). Every input is read whole and split, from heap blocks of
 * the exact size; both must tell the same, and the content of an accepted body must be what a second reader finds that
 * searches for delimiters naively. Input: a byte for the number of cuts and the boundary, the places of the cuts, the
 * body. */
/* Needs: forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/form.h>

enum { CUTS_MAX = 7 };

typedef struct told {
    int code;
    size_t size, capacity;
    char *text; /* content of the parts, each followed by its size */
    size_t part_size;
    bool in_part, ended;
} told_t;

static void die(const char *what) {
    fprintf(stderr, "fuzz_multipart: %s\n", what);
    abort();
}

static void tell(told_t *told, const void *data, size_t size) {
    if (told->size + size > told->capacity) {
        told->capacity = 2 * (told->size + size);
        told->text = realloc(told->text, told->capacity);
        if (!told->text) abort();
    }
    if (size) memcpy(told->text + told->size, data, size);
    told->size += size;
}

static void notify_event(told_t *told, const uvhttp_multipart_event_t *event) {
    if (told->ended) die("an event after the end");
    switch (event->kind) {
        case UVHTTP_MULTIPART_PART:
            if (told->in_part || !event->name.data) die("a part inside another, or without a name");
            if (memchr(event->name.data, '\0', event->name.size)) die("NUL in a name");
            told->in_part = true;
            told->part_size = 0;
            break;
        case UVHTTP_MULTIPART_DATA:
            if (!told->in_part || event->data.size == 0) die("content without a part, or empty");
            tell(told, event->data.data, event->data.size);
            told->part_size += event->data.size;
            break;
        case UVHTTP_MULTIPART_PART_END:
            if (!told->in_part) die("the end of no part");
            told->in_part = false;
            tell(told, &told->part_size, sizeof told->part_size);
            break;
        case UVHTTP_MULTIPART_END:
            if (told->in_part) die("the end inside a part");
            told->ended = true;
            break;
    }
}

static bool feed(uvhttp_multipart_t *parser, told_t *told, const char *data, size_t size) {
    char *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    uvhttp_multipart_event_t event;
    size_t at = 0, consumed, calls = 0;
    while ((told->code = uvhttp_multipart_read(parser, copy + at, size - at, &consumed, &event)) == 0) {
        if (consumed > size - at || ++calls > 4 * size + 4) die("more consumed than there is, or no progress");
        at += consumed;
        notify_event(told, &event);
    }
    if (told->code == UVHTTP_E_AGAIN && at + consumed != size) die("bytes left unread");
    free(copy);
    return told->code == UVHTTP_E_AGAIN;
}

static void run(uvhttp_str_t type, const char *data, size_t size, const uint8_t *cuts, size_t cut_count, told_t *told) {
    uvhttp_multipart_t parser;
    const uvhttp_form_limits_t limits = {.field_count_max = 20, .header_size_max = 200, .part_size_max = 100};
    if (uvhttp_multipart_init(&parser, type, &limits) != 0) die("the boundary is refused");
    size_t seen = 0;
    for (size_t i = 0; i <= cut_count; ++i) {
        size_t next = i == cut_count ? size : size * cuts[i] / 256;
        if (next < seen) continue;
        if (!feed(&parser, told, data + seen, next - seen)) break;
        seen = next;
    }
    int end = uvhttp_multipart_finish(&parser);
    if (told->code == UVHTTP_E_AGAIN) told->code = end;
    if (told->code != end) die("finish says something else");
}

static const char *naive_find(const char *at, const char *end, const char *text) {
    size_t size = strlen(text);
    for (; (size_t)(end - at) >= size; ++at)
        if (memcmp(at, text, size) == 0) return at;
    return NULL;
}

/* The body, accepted, with CRLF put before it: all lines of delimiters begin alike. */
static void expect_parts(const char *data, const char *end, const char *delimiter, const told_t *told) {
    told_t other = {0};
    const char *at = naive_find(data, end, delimiter);
    for (;;) {
        if (!at) die("a delimiter is missing");
        at += strlen(delimiter);
        if (end - at >= 2 && memcmp(at, "--", 2) == 0) break;
        while (at < end && (*at == ' ' || *at == '\t')) ++at;
        at = naive_find(at, end, "\r\n\r\n");
        if (!at) die("a header does not end");
        at += 2;
        const char *next = naive_find(at, end, delimiter);
        if (!next) die("a part does not end");
        size_t size = next > at ? (size_t)(next - at) - 2 : 0;
        tell(&other, at + 2, size);
        tell(&other, &size, sizeof size);
        at = next;
    }
    if (other.size != told->size || (other.size && memcmp(other.text, told->text, other.size) != 0))
        die("the content differs");
    free(other.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    static const char *const types[] = {"multipart/form-data; boundary=b", "multipart/form-data; boundary=\"--b-\""};
    static const char *const delimiters[] = {"\r\n--b", "\r\n----b-"};
    if (input_size < 1) return 0;
    size_t cut_count = input[0] & CUTS_MAX, which = input[0] >> 7;
    if (input_size < 1 + cut_count) return 0;
    const char *data = (const char *)input + 1 + cut_count;
    size_t size = input_size - 1 - cut_count;
    uvhttp_str_t type = {types[which], strlen(types[which])};
    told_t whole = {0}, cut = {0};
    run(type, data, size, NULL, 0, &whole);
    run(type, data, size, input + 1, cut_count, &cut);
    if (whole.code != cut.code) die("results differ");
    if (whole.code == 0) {
        if (!whole.ended || !cut.ended) die("accepted without an end");
        if (whole.size != cut.size || (whole.size && memcmp(whole.text, cut.text, whole.size) != 0))
            die("contents differ");
        char *copy = malloc(size + 2);
        if (!copy) abort();
        memcpy(copy, "\r\n", 2);
        memcpy(copy + 2, data, size);
        expect_parts(copy, copy + 2 + size, delimiters[which], &whole);
        free(copy);
    }
    free(whole.text);
    free(cut.text);
    return 0;
}
