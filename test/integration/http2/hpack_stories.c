/* Owns: header compression as a program, for stories that other implementations tell (test_hpack_stories.py). Commands
 * come on standard input, each reply goes to standard output behind its size; numbers are 32 bits, little-endian.
 *   L limit           the decoder's limit
 *   B block           reply: code, fields, table of the decoder
 *   S limit           the encoder's limit
 *   R status length, then strings: content type, fields, date
 *                     reply: block, table of the encoder; code, fields, table of libnghttp2's decoder for that block
 * A string or block is its size and its bytes. A field or entry is name, value and whether it must not be indexed. */
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/date.h"
#include "http2/head.h"
#include "http2/hpack_table.h"

enum { LIST_MAX = 1 << 18, BLOCK_MAX = 1 << 20 };

static struct {
    char *data;
    size_t size, capacity;
} reply;

static void put(const void *data, size_t size) {
    if (reply.size + size > reply.capacity) {
        reply.capacity = 2 * (reply.size + size);
        reply.data = realloc(reply.data, reply.capacity);
        if (!reply.data) abort();
    }
    if (size > 0) memcpy(reply.data + reply.size, data, size);
    reply.size += size;
}

static void put_number(uint32_t number) {
    put(&number, sizeof number);
}

static void put_string(const void *data, size_t size) {
    put_number((uint32_t)size);
    put(data, size);
}

static void put_field(const void *name, size_t name_size, const void *value, size_t value_size, bool never_indexed) {
    put_string(name, name_size);
    put_string(value, value_size);
    put_number(never_indexed);
}

/* The list is written behind a count that is not known yet. */
static void set_count(size_t at, uint32_t count) {
    memcpy(reply.data + at, &count, sizeof count);
}

static bool get(void *data, size_t size) {
    return fread(data, 1, size, stdin) == size;
}

static uint32_t get_number(void) {
    uint32_t number;
    if (!get(&number, sizeof number)) abort();
    return number;
}

/* In memory of its exact size, so that a read behind its end is seen. */
static uvhttp_str_t get_string(void) {
    uint32_t size = get_number();
    if (size > BLOCK_MAX) abort();
    char *data = malloc(size > 0 ? size : 1);
    if (!data || (size > 0 && !get(data, size))) abort();
    return (uvhttp_str_t){data, size};
}

static void drop(uvhttp_str_t string) {
    free((void *)(uintptr_t)string.data);
}

static void put_table(const uvhttp__hpack_table_t *table) {
    char text[UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_COPY];
    put_number(table->size);
    put_number(table->count);
    for (uint32_t age = 0; age < table->count; ++age) {
        const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, age);
        uvhttp__hpack_table_copy(table, entry->offset, (size_t)entry->name_size + entry->value_size, text);
        put_field(text, entry->name_size, text + entry->name_size, entry->value_size, false);
    }
}

static void decode(uvhttp__hpack_decoder_t *decoder, uvhttp_str_t block) {
    static char scratch[LIST_MAX + UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK];
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_field_t field;
    uint32_t count = 0;
    put_number(0);
    put_number(0);
    int code = uvhttp__hpack_read(&reader, decoder, block.data, block.size, scratch, LIST_MAX);
    while (code == 0 && (code = uvhttp__hpack_read_next(&reader, &field)) == 0) {
        put_field(field.text, field.name_size, field.text + field.name_size, field.value_size, field.never_indexed);
        ++count;
    }
    set_count(0, (uint32_t)(code == UVHTTP_E_EOF ? 0 : code));
    set_count(sizeof count, count);
    put_table(&decoder->table);
}

static void put_their_table(nghttp2_hd_inflater *inflater) {
    size_t end = nghttp2_hd_inflate_get_num_table_entries(inflater);
    put_number((uint32_t)nghttp2_hd_inflate_get_dynamic_table_size(inflater));
    put_number((uint32_t)(end - UVHTTP__HPACK_STATIC_COUNT));
    for (size_t i = UVHTTP__HPACK_STATIC_COUNT + 1; i <= end; ++i) {
        const nghttp2_nv *entry = nghttp2_hd_inflate_get_table_entry(inflater, i);
        put_field(entry->name, entry->namelen, entry->value, entry->valuelen, false);
    }
}

static void decode_by_nghttp2(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t size) {
    size_t start = reply.size;
    uint32_t count = 0;
    int flags = 0;
    ssize_t used = 0;
    put_number(0);
    put_number(0);
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field;
        used = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, size, 1);
        if (used < 0) break;
        block += used;
        size -= (size_t)used;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT)) continue;
        put_field(field.name, field.namelen, field.value, field.valuelen, field.flags & NGHTTP2_NV_FLAG_NO_INDEX);
        ++count;
    }
    nghttp2_hd_inflate_end_headers(inflater);
    set_count(start, (uint32_t)(used < 0 ? used : 0));
    set_count(start + sizeof count, count);
    put_their_table(inflater);
}

static void encode(uvhttp__hpack_encoder_t *encoder, nghttp2_hd_inflater *inflater) {
    uint32_t status = get_number(), length = get_number();
    uvhttp_str_t type = get_string(), fields = get_string(), date = get_string();
    uvhttp__http2_response_t response = {
        .status = (uint16_t)status,
        .content_type = type,
        .fields = fields,
        .content_length = length == UINT32_MAX ? UVHTTP__HTTP2_LENGTH_NONE : length,
        .date = date.size == UVHTTP__DATE_SIZE ? date.data : NULL,
    };
    for (size_t i = 0; i < date.size; ++i) response.date_id = response.date_id * 31 + (uint8_t)date.data[i];
    char *block = malloc(uvhttp__http2_response_size_max(&response));
    if (!block) abort();
    size_t size = uvhttp__http2_write_response(encoder, &response, block);
    put_string(block, size);
    put_table(&encoder->table);
    decode_by_nghttp2(inflater, (const uint8_t *)block, size);
    free(block);
    drop(type);
    drop(fields);
    drop(date);
}

int main(void) {
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_encoder_t encoder;
    nghttp2_hd_inflater *inflater;
    uvhttp__hpack_decoder_init(&decoder);
    uvhttp__hpack_encoder_init(&encoder);
    if (nghttp2_hd_inflate_new(&inflater) != 0) abort();
    for (char command; get(&command, 1);) {
        reply.size = 0;
        if (command == 'L') {
            uvhttp__hpack_decoder_set_limit(&decoder, get_number());
        } else if (command == 'S') {
            uint32_t limit = get_number();
            uvhttp__hpack_encoder_set_limit(&encoder, limit);
            if (nghttp2_hd_inflate_change_table_size(inflater, limit) != 0) abort();
        } else if (command == 'B') {
            uvhttp_str_t block = get_string();
            decode(&decoder, block);
            drop(block);
        } else if (command == 'R') {
            encode(&encoder, inflater);
        } else {
            abort();
        }
        uint32_t size = (uint32_t)reply.size;
        fwrite(&size, sizeof size, 1, stdout);
        fwrite(reply.data, 1, reply.size, stdout);
        fflush(stdout);
    }
    uvhttp__hpack_decoder_deinit(&decoder);
    uvhttp__hpack_encoder_deinit(&encoder);
    nghttp2_hd_inflate_del(inflater);
    free(reply.data);
    return 0;
}
