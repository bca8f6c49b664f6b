/* Owns: what the tests of request heads of HTTP/2 share: a block made of lines, read from memory of its size into one
 * record. Header only: every test program here is one file. */
#ifndef UVHTTP_TEST_HTTP2_HEAD_FEED_H
#define UVHTTP_TEST_HTTP2_HEAD_FEED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "head_block.h"
#include "http2/head.h"

enum { FIELDS_MAX = 20, BLOCK_MAX = 1 << 16 };

static const uvhttp__http2_head_limits_t default_limits = {4096, 1000, FIELDS_MAX, false};
static const uvhttp__http2_head_limits_t connect_limits = {4096, 1000, FIELDS_MAX, true};
static uvhttp__hpack_decoder_t decoder;
static uvhttp__field_t fields[FIELDS_MAX];
static uvhttp__head_t head;
static uvhttp__http2_request_t request;
static char *scratch;
static uint8_t block[BLOCK_MAX];
static head_form_t form; /* of all blocks */

#define GET ":method=GET\n:scheme=https\n:path=/\n:authority=a.example\n"

static inline int read_with(const char *lines, const uvhttp__http2_head_limits_t *limits) {
    free(scratch);
    scratch = malloc(uvhttp__http2_scratch_size(limits));
    memset(&head, 0xa5, sizeof head);
    head.headers = fields;
    size_t size = head_block(block, lines, 0, form);
    uint8_t *exact = malloc(size + 1);
    memcpy(exact, block, size);
    int status = uvhttp__http2_read_request(&decoder, exact, size, limits, scratch, &head, &request);
    free(exact);
    return status;
}

static inline int read_lines(const char *lines) {
    return read_with(lines, &default_limits);
}

static inline const char *text(uvhttp__span_t span) {
    static char texts[4][4096];
    static int next;
    char *out = texts[next++ % 4];
    assert_true(span.offset + span.size <= head.size);
    memcpy(out, scratch + span.offset, span.size);
    out[span.size] = '\0';
    return out;
}

static inline const char *field(const char *name) {
    for (uint32_t i = 0; i < head.header_count; ++i)
        if (strcmp(text(fields[i].name), name) == 0) return text(fields[i].value);
    return NULL;
}

static inline int set_up(void **state) {
    (void)state;
    uvhttp__hpack_decoder_init(&decoder);
    return 0;
}

static inline int tear_down(void **state) {
    (void)state;
    uvhttp__hpack_decoder_deinit(&decoder);
    free(scratch);
    scratch = NULL;
    return 0;
}

typedef struct fault {
    const char *lines;
    int code;
} fault_t;

/* main of the tests: each of them in each form. */
static inline int run_in_each_form(const struct CMUnitTest *tests, size_t count) {
    int failed = 0;
    for (form = 0; form < HEAD_FORMS; ++form) failed += _cmocka_run_group_tests("heads", tests, count, NULL, NULL);
    return failed;
}

#endif
