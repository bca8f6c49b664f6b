/* Owns: fuzzing of the reader of responses (libFuzzer). Every input is read whole, split from heap blocks of
 * the exact size, and with a cache of heads; the results must agree. Input: a byte for the number of cuts and whether
 * the request was HEAD, that many bytes for the places, the bytes of a server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http1/response_read.h"

enum { CUTS_MAX = 8, HEAD_SIZE_MAX = 256 };

typedef struct outcome {
    int code, status;
    bool close;
    size_t consumed, body_size, fields;
    char *body;
} outcome_t;

static void die(const char *what) {
    fprintf(stderr, "fuzz_response: %s\n", what);
    abort();
}

static size_t count_fields(const uvhttp__http1_response_t *response) {
    uvhttp_str_t lines = uvhttp__http1_response_lines(response), name, value;
    size_t count = 0;
    while (uvhttp__http1_response_field(&lines, &name, &value)) {
        if (name.size == 0 || memchr(value.data, '\n', value.size)) die("a field that is none");
        count++;
    }
    if (lines.size != 0) die("not all fields are shown");
    return count;
}

/* Reads one piece; true if more is wanted. */
static bool read_piece(uvhttp__http1_response_t *response, const char *data, size_t size, outcome_t *out) {
    char *copy = malloc(size > 0 ? size : 1);
    if (!copy) abort();
    if (size > 0) memcpy(copy, data, size);
    for (size_t at = 0; at < size && out->code == UVHTTP_E_AGAIN;) {
        size_t consumed;
        uvhttp_str_t body;
        bool had_head = uvhttp__http1_response_has_head(response);
        out->code = uvhttp__http1_response_feed(response, copy + at, size - at, &consumed, &body);
        if (consumed > size - at || body.size > consumed) die("more consumed than there is");
        if (out->code == UVHTTP_E_AGAIN && consumed == 0) die("no progress");
        bool good = out->code == UVHTTP_E_AGAIN || out->code == UVHTTP_OK;
        if (good && !had_head && uvhttp__http1_response_has_head(response)) out->fields = count_fields(response);
        if (body.size > 0) memcpy(out->body + out->body_size, body.data, body.size);
        out->body_size += body.size;
        out->consumed += consumed;
        at += consumed;
    }
    free(copy);
    return out->code == UVHTTP_E_AGAIN;
}

static void run(const char *data, size_t size, const uint8_t *cuts, size_t cut_count, bool to_head,
                uvhttp__http1_head_cache_t *cache, outcome_t *out) {
    uvhttp__http1_response_t response;
    char *body = out->body;
    *out = (outcome_t){.code = UVHTTP_E_AGAIN, .body = body};
    uvhttp__http1_response_init(&response, HEAD_SIZE_MAX, cache);
    uvhttp__http1_response_begin(&response, to_head);
    size_t seen = 0;
    for (size_t i = 0; i <= cut_count; i++) {
        size_t next = i == cut_count ? size : size * cuts[i] / 256;
        if (next < seen) continue;
        if (!read_piece(&response, data + seen, next - seen, out)) break;
        seen = next;
    }
    if (out->code == UVHTTP_E_AGAIN && uvhttp__http1_response_end(&response) == 0) out->code = UVHTTP_E_EOF;
    out->status = response.head.status;
    out->close = response.head.close;
    uvhttp__http1_response_deinit(&response);
}

static void expect_same(const outcome_t *a, const outcome_t *b) {
    if (a->code != b->code) die("codes differ");
    if (a->code != UVHTTP_OK && a->code != UVHTTP_E_EOF) return;
    if (a->status != b->status || a->close != b->close || a->fields != b->fields) die("heads differ");
    if (a->consumed != b->consumed || a->body_size != b->body_size) die("sizes differ");
    if (memcmp(a->body, b->body, a->body_size) != 0) die("bodies differ");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    static uvhttp__http1_head_cache_t cache;
    if (input_size < 1) return 0;
    size_t cut_count = input[0] % (CUTS_MAX + 1);
    bool to_head = input[0] >= 0xc0;
    if (input_size < 1 + cut_count) return 0;
    const char *data = (const char *)input + 1 + cut_count;
    size_t size = input_size - 1 - cut_count;
    outcome_t whole = {.body = malloc(size + 1)}, other = {.body = malloc(size + 1)};
    if (!whole.body || !other.body) abort();
    run(data, size, NULL, 0, to_head, NULL, &whole);
    run(data, size, input + 1, cut_count, to_head, NULL, &other);
    expect_same(&whole, &other);
    memset(&cache, 0, sizeof cache);
    for (int i = 0; i < 2; i++) { /* the second time the head is known */
        run(data, size, NULL, 0, to_head, &cache, &other);
        expect_same(&whole, &other);
    }
    free(whole.body);
    free(other.body);
    return 0;
}
