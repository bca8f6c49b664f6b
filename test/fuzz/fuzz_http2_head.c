/* Owns: fuzzing of request heads and trailer sections of HTTP/2 (libFuzzer). What is accepted must hold to the rules,
 * and every span lie in the head. Input: a byte for the limits, a byte for what the block is, the block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chars.h"
#include "base/str.h"
#include "base/uri.h"
#include "http2/head.h"

enum { FIELDS_MAX = 64 };

static void die(const char *what) {
    fprintf(stderr, "fuzz_http2_head: %s\n", what);
    abort();
}

static void check_span(const uvhttp__head_t *head, uvhttp__span_t span) {
    if (span.size > 0 && (span.offset > head->size || span.size > head->size - span.offset)) die("span outside");
}

static void check_field(const char *base, const uvhttp__head_t *head, uvhttp__field_t field) {
    check_span(head, field.name);
    check_span(head, field.value);
    uvhttp_str_t name = uvhttp__span_str(base, field.name), value = uvhttp__span_str(base, field.value);
    if (!uvhttp__valid_header_name(name) || !uvhttp__valid_header_value(value)) die("bad field");
    if (uvhttp__str_trim(value).size != value.size && !uvhttp__str_equal(name, UVHTTP__STR("cookie"))) die("blanks");
    for (size_t i = 0; i < name.size; ++i)
        if (name.data[i] >= 'A' && name.data[i] <= 'Z') die("upper case");
    if (uvhttp__str_equal(name, UVHTTP__STR("connection")) || uvhttp__str_equal(name, UVHTTP__STR("transfer-encoding")))
        die("a field of a connection");
}

static void check_head(const char *base, const uvhttp__head_t *head, const uvhttp__http2_request_t *request) {
    const uvhttp__span_t spans[] = {head->method_text, head->target,      head->path,       head->query,
                                    head->authority,   request->protocol, request->priority};
    size_t hosts = 0, cookies = 0, lengths = 0;
    for (size_t i = 0; i < sizeof spans / sizeof *spans; ++i) check_span(head, spans[i]);
    for (uint32_t i = 0; i < head->header_count; ++i) {
        uvhttp_str_t name = uvhttp__span_str(base, head->headers[i].name);
        check_field(base, head, head->headers[i]);
        hosts += uvhttp__str_equal(name, UVHTTP__STR("host"));
        cookies += uvhttp__str_equal(name, UVHTTP__STR("cookie"));
        lengths += uvhttp__str_equal(name, UVHTTP__STR("content-length"));
    }
    if (hosts != 1 || cookies > 1 || lengths != head->has_content_length) die("repeated or missing field");
    if (!uvhttp__valid_header_name(uvhttp__span_str(base, head->method_text))) die("bad method");
    if (!uvhttp__valid_authority(uvhttp__span_str(base, head->authority), false)) die("bad authority");
    uvhttp_str_t target = uvhttp__span_str(base, head->target), path = uvhttp__span_str(base, head->path);
    if (head->form == UVHTTP__FORM_ORIGIN) {
        if (path.size == 0 || path.data[0] != '/' || !uvhttp__chars_are(target, UVHTTP__CHAR_TARGET)) die("bad path");
        if (memchr(path.data, '?', path.size)) die("query in the path");
        if (head->path_plain != uvhttp__plain_path(path.data, path.size)) die("plain path");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static const uvhttp__http2_head_limits_t all_limits[] = {
        {16384, 8192, FIELDS_MAX, false}, {300, 30, 3, false}, {4000, 64, 8, false}, {0, 0, 0, false}};
    if (size < 2) return 0;
    unsigned kind = input[1] % 4;
    uvhttp__http2_head_limits_t limits = all_limits[input[0] % 4];
    limits.connect_protocol = kind == 1;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__field_t fields[FIELDS_MAX];
    uvhttp__head_t head = {.headers = fields};
    uvhttp__http2_request_t request;
    uvhttp_str_t text;
    char *scratch = malloc(uvhttp__http2_scratch_size(&limits)); /* of the exact size */
    uint8_t *block = malloc(size - 1);
    memcpy(block, input + 2, size - 2);
    uvhttp__hpack_decoder_init(&decoder);
    for (int i = 0; i < 3; ++i) { /* again with the table as it is then */
        int status = 0;
        if (kind == 3)
            status = uvhttp__http2_skip_block(&decoder, block, size - 2, scratch);
        else if (kind == 2)
            status = uvhttp__http2_read_trailer(&decoder, block, size - 2, &limits, scratch, &text);
        else
            status = uvhttp__http2_read_request(&decoder, block, size - 2, &limits, scratch, &head, &request);
        if (kind < 2 && status == 0) check_head(scratch, &head, &request);
        if (status != 0 && uvhttp__http2_scope(status) == UVHTTP__HTTP2_SCOPE_CONNECTION) break;
    }
    uvhttp__hpack_decoder_deinit(&decoder);
    free(block);
    free(scratch);
    return 0;
}
