/* Owns: the header blocks of requests. May include: base, http2. */
#include "load/h2_request.h"

#include <string.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "http2/hpack_encode.h"
#include "http2/hpack_huffman.h"
#include "http2/http2_internal.h"

/* What a field needs beyond its text: an index and two sizes. */
enum { FIELD_OVERHEAD = 16 };

typedef struct block {
    const load_options_t *options;
    uvhttp_str_t method, target;
    size_t body_size;
    uvhttp__hpack_encoder_t encoder;
    char *scratch; /* the text of a field: its name in lower case, then its value */
    char *frame, *at;
} block_t;

/* --- fields --- */

static void put_text(block_t *block, uvhttp_str_t text) {
    size_t coded = uvhttp__huffman_size(text.data, text.size);
    if (coded >= text.size) {
        block->at = uvhttp__hpack_put_string(block->at, text.data, text.size);
        return;
    }
    block->at = uvhttp__hpack_put_integer(block->at, 0x80, 0x7f, coded);
    block->at = (char *)uvhttp__huffman_encode(text.data, text.size, (uint8_t *)block->at);
}

/* A value that is not added to the table, because each request may have another one. */
static void put_pseudo(block_t *block, uvhttp__hpack_name_t name, uvhttp_str_t value) {
    block->at = uvhttp__hpack_put_integer(block->at, UVHTTP__HPACK_UNINDEXED, 0x0f, name);
    put_text(block, value);
}

static void put_static(block_t *block, unsigned index) {
    *block->at++ = (char)(UVHTTP__HPACK_INDEXED | index);
}

static void put_method(block_t *block) {
    if (uvhttp__str_equal(block->method, UVHTTP__STR("GET")))
        put_static(block, UVHTTP__HPACK_METHOD);
    else if (uvhttp__str_equal(block->method, UVHTTP__STR("POST")))
        put_static(block, UVHTTP__HPACK_METHOD + 1);
    else
        put_pseudo(block, UVHTTP__HPACK_METHOD, block->method);
}

static void put_path(block_t *block) {
    if (uvhttp__str_equal(block->target, UVHTTP__STR("/")))
        put_static(block, UVHTTP__HPACK_PATH);
    else
        put_pseudo(block, UVHTTP__HPACK_PATH, block->target);
}

static void put_field(block_t *block, uvhttp_str_t name, uvhttp_str_t value) {
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        block->scratch[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    memcpy(block->scratch + name.size, value.data, value.size);
    block->at = uvhttp__hpack_put_field(&block->encoder, block->at, block->scratch, name.size, value.size);
}

static uvhttp_str_t name_of(const char *header) {
    return (uvhttp_str_t){header, strcspn(header, ":")};
}

static uvhttp_str_t value_of(const char *header) {
    return uvhttp__str_trim(uvhttp__str_from(strchr(header, ':') + 1));
}

static bool is_host(const char *header) {
    return uvhttp__str_equal_nocase(name_of(header), UVHTTP__STR("host"));
}

static uvhttp_str_t authority_of(const load_options_t *options) {
    for (size_t i = 0; i < options->header_count; i++)
        if (is_host(options->headers[i])) return value_of(options->headers[i]);
    return uvhttp__str_from(options->authority);
}

static void put_fields(block_t *block) {
    const load_options_t *options = block->options;
    put_method(block);
    put_static(block, options->secure ? UVHTTP__HPACK_SCHEME + 1 : UVHTTP__HPACK_SCHEME);
    put_field(block, UVHTTP__STR(":authority"), authority_of(options));
    put_path(block);
    for (size_t i = 0; i < options->header_count; i++)
        if (!is_host(options->headers[i]))
            put_field(block, name_of(options->headers[i]), value_of(options->headers[i]));
    if (!options->body && !options->echo) return;
    char length[24];
    int size = snprintf(length, sizeof length, "%zu", block->body_size);
    put_field(block, UVHTTP__STR("content-length"), (uvhttp_str_t){length, (size_t)size});
}

/* --- frames --- */

/* Encodes the request once more, as one that follows what was encoded before. */
static int put_frame(block_t *block, load_h2_frame_t *frame) {
    block->at = block->frame + LOAD_H2_HEAD_SIZE;
    if (block->encoder.size_update) block->at = uvhttp__hpack_put_updates(&block->encoder, block->at);
    put_fields(block);
    size_t size = (size_t)(block->at - block->frame);
    if (size > LOAD_H2_HEAD_SIZE + LOAD_H2_FRAME_MAX) return UVHTTP_E_HTTP_HEADERS_TOO_LARGE;
    unsigned flags = UVHTTP__HTTP2_FLAG_END_HEADERS | (block->body_size == 0 ? UVHTTP__HTTP2_FLAG_END_STREAM : 0u);
    uvhttp__http2_put_head(block->frame, size - LOAD_H2_HEAD_SIZE, UVHTTP__HTTP2_HEADERS, (uint8_t)flags, 0);
    uvhttp__free(frame->data);
    frame->size = (uint32_t)size;
    frame->data = uvhttp__malloc(size);
    if (!frame->data) return UVHTTP_E_NOMEM;
    memcpy(frame->data, block->frame, size);
    return 0;
}

static bool is_same(const load_h2_frame_t *a, const load_h2_frame_t *b) {
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* *settled: all requests behind the second one would look like it. */
static int put_frames(block_t *block, uint32_t table_size, load_h2_frame_t *first, load_h2_frame_t *later,
                      bool *settled) {
    load_h2_frame_t third = {NULL, 0};
    uvhttp__hpack_encoder_init(&block->encoder);
    uvhttp__hpack_encoder_set_limit(&block->encoder, table_size);
    int code = put_frame(block, first);
    if (code == 0) code = put_frame(block, later);
    uint32_t inserted = block->encoder.table.inserted;
    if (code == 0) code = put_frame(block, &third);
    *settled = code == 0 && is_same(later, &third) && block->encoder.table.inserted == inserted;
    uvhttp__free(third.data);
    uvhttp__hpack_encoder_deinit(&block->encoder);
    return code;
}

static int put_all(block_t *block, load_h2_request_t *request) {
    for (int table = 0; table < LOAD_H2_TABLES; table++) {
        bool settled = false;
        uint32_t size = table == LOAD_H2_LITERAL ? 0 : UVHTTP__HPACK_TABLE_SIZE_MAX;
        int code = put_frames(block, size, &request->first[table], &request->later[table], &settled);
        /* Fields that are more than the table holds push each other out: none of them is added. */
        if (code == 0 && !settled)
            code = put_frames(block, 0, &request->first[table], &request->later[table], &settled);
        if (code != 0) return code;
    }
    return 0;
}

/* Bytes of the largest field, and of all. */
static size_t measure(const block_t *block, size_t *all) {
    const load_options_t *options = block->options;
    size_t largest = sizeof options->authority + sizeof ":authority", size = largest;
    size += block->method.size + block->target.size + 8 * FIELD_OVERHEAD;
    for (size_t i = 0; i < options->header_count; i++) {
        size_t field = strlen(options->headers[i]) + sizeof ":authority";
        if (field > largest) largest = field;
        size += field + FIELD_OVERHEAD;
    }
    *all = size;
    return largest;
}

int load_h2_request_init(load_h2_request_t *request, const load_options_t *options, uvhttp_str_t method,
                         uvhttp_str_t target, size_t body_size) {
    block_t block = {.options = options, .method = method, .target = target, .body_size = body_size};
    size_t all, largest = measure(&block, &all);
    block.scratch = uvhttp__calloc(1, largest + UVHTTP__HPACK_SLACK);
    block.frame = uvhttp__malloc(LOAD_H2_HEAD_SIZE + all + UVHTTP__HPACK_SLACK);
    int code = block.scratch && block.frame ? put_all(&block, request) : UVHTTP_E_NOMEM;
    uvhttp__free(block.scratch);
    uvhttp__free(block.frame);
    return code;
}

void load_h2_request_deinit(load_h2_request_t *request) {
    for (int table = 0; table < LOAD_H2_TABLES; table++) {
        uvhttp__free(request->first[table].data);
        uvhttp__free(request->later[table].data);
    }
    *request = (load_h2_request_t){0};
}
