/* Owns: fuzzing of the multipart parser (libFuzzer). Every input is read whole and cut in pieces, from heap blocks of
 * the exact size; both must tell the same, and the content of an accepted body must be what a second reader finds that
 * searches for delimiters naively. Input: a byte for the number of cuts and the boundary, the places of the cuts, the
 * body. */
/* Needs: forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/form.h>

enum { CUTS_MAX = 7 };

typedef struct reported {
    int code;
    size_t size, capacity;
    char *text; /* content of the parts, each followed by its size */
    size_t part_size;
    bool in_part, ended;
} reported_t;

static void die(const char *what) {
    fprintf(stderr, "fuzz_multipart: %s\n", what);
    abort();
}

static void tell(reported_t *reported, const void *data, size_t size) {
    if (reported->size + size > reported->capacity) {
        reported->capacity = 2 * (reported->size + size);
        reported->text = realloc(reported->text, reported->capacity);
        if (!reported->text) abort();
    }
    if (size) memcpy(reported->text + reported->size, data, size);
    reported->size += size;
}

static void notify_event(reported_t *reported, const uvhttp_multipart_event_t *event) {
    if (reported->ended) die("an event after the end");
    switch (event->kind) {
        case UVHTTP_MULTIPART_PART:
            if (reported->in_part || !event->name.data) die("a part inside another, or without a name");
            if (memchr(event->name.data, '\0', event->name.size)) die("NUL in a name");
            reported->in_part = true;
            reported->part_size = 0;
            break;
        case UVHTTP_MULTIPART_DATA:
            if (!reported->in_part || event->data.size == 0) die("content without a part, or empty");
            tell(reported, event->data.data, event->data.size);
            reported->part_size += event->data.size;
            break;
        case UVHTTP_MULTIPART_PART_END:
            if (!reported->in_part) die("the end of no part");
            reported->in_part = false;
            tell(reported, &reported->part_size, sizeof reported->part_size);
            break;
        case UVHTTP_MULTIPART_END:
            if (reported->in_part) die("the end inside a part");
            reported->ended = true;
            break;
    }
}

static bool feed(uvhttp_multipart_t *parser, reported_t *reported, const char *data, size_t size) {
    char *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    uvhttp_multipart_event_t event;
    size_t at = 0, consumed, calls = 0;
    while ((reported->code = uvhttp_multipart_read(parser, copy + at, size - at, &consumed, &event)) == 0) {
        if (consumed > size - at || ++calls > 4 * size + 4) die("more consumed than there is, or no progress");
        at += consumed;
        notify_event(reported, &event);
    }
    if (reported->code == UVHTTP_E_AGAIN && at + consumed != size) die("bytes left unread");
    free(copy);
    return reported->code == UVHTTP_E_AGAIN;
}

static void run(uvhttp_str_t type, const char *data, size_t size, const uint8_t *cuts, size_t cut_count,
                reported_t *reported) {
    uvhttp_multipart_t parser;
    const uvhttp_form_limits_t limits = {.field_count_max = 20, .header_size_max = 200, .part_size_max = 100};
    if (uvhttp_multipart_init(&parser, type, &limits) != 0) die("the boundary is refused");
    size_t seen = 0;
    for (size_t i = 0; i <= cut_count; ++i) {
        size_t next = i == cut_count ? size : size * cuts[i] / 256;
        if (next < seen) continue;
        if (!feed(&parser, reported, data + seen, next - seen)) break;
        seen = next;
    }
    int end = uvhttp_multipart_finish(&parser);
    if (reported->code == UVHTTP_E_AGAIN) reported->code = end;
    if (reported->code != end) die("finish says something else");
}

static const char *naive_find(const char *at, const char *end, const char *text) {
    size_t size = strlen(text);
    for (; (size_t)(end - at) >= size; ++at)
        if (memcmp(at, text, size) == 0) return at;
    return NULL;
}

/* The body, accepted, with CRLF put before it: all lines of delimiters begin alike. */
static void expect_parts(const char *data, const char *end, const char *delimiter, const reported_t *reported) {
    reported_t other = {0};
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
    if (other.size != reported->size || (other.size && memcmp(other.text, reported->text, other.size) != 0))
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
    reported_t whole = {0}, cut = {0};
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
