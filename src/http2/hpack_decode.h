/* Owns: the shortest path of the decoder: a field that a table has whole. Private to src/http2.
 * May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HPACK_DECODE_H
#define UVHTTP_SRC_HTTP2_HPACK_DECODE_H

#include <assert.h>

#include "base/hot_path.h"
#include "http2/field.h"
#include "http2/hpack_huffman.h"
#include "http2/hpack_static.h"
#include "http2/hpack_table.h"

/* Applies the size updates that the block starts with. */
int uvhttp__hpack_read_updates(uvhttp__hpack_reader_t *reader);

/* Whether it starts with any, or has to. */
static ALWAYS_INLINE bool uvhttp__hpack_has_updates(const uvhttp__hpack_decoder_t *decoder, const uint8_t *block,
                                                    size_t size) {
    return (size > 0 && (*block & 0xe0) == 0x20) || decoder->table.size_max > decoder->size_lowest;
}

/* uvhttp__hpack_read. */
static ALWAYS_INLINE int uvhttp__hpack_begin(uvhttp__hpack_reader_t *reader, uvhttp__hpack_decoder_t *decoder,
                                             const void *block, size_t size, char *scratch, uint32_t list_size_max) {
    *reader = (uvhttp__hpack_reader_t){.decoder = decoder,
                                       .at = block,
                                       .end = (const uint8_t *)block + size,
                                       .out = scratch,
                                       .limit = scratch + list_size_max + UVHTTP__HPACK_TABLE_SIZE_MAX,
                                       .left = list_size_max};
    return UNLIKELY(uvhttp__hpack_has_updates(decoder, block, size)) ? uvhttp__hpack_read_updates(reader) : UVHTTP_OK;
}

/* Subtracts the field, which fits, from the list's maximum. */
static ALWAYS_INLINE void uvhttp__hpack_count(uvhttp__hpack_reader_t *reader, uint32_t text_size) {
    reader->left -= text_size + UVHTTP__HPACK_FIELD_OVERHEAD;
    reader->out += text_size;
}

/* The same if it fits. False: it does not fit, and *reader is too_large from now on. */
static ALWAYS_INLINE bool uvhttp__hpack_accept(uvhttp__hpack_reader_t *reader, size_t text_size) {
    if (UNLIKELY(text_size + UVHTTP__HPACK_FIELD_OVERHEAD > reader->left)) {
        reader->left = 0;
        reader->too_large = true;
        return false;
    }
    uvhttp__hpack_count(reader, (uint32_t)text_size);
    return true;
}

/* Copies the entry to reader->out, where the list has space for it, and shows it. */
static ALWAYS_INLINE bool uvhttp__hpack_take_static(uvhttp__hpack_reader_t *reader, unsigned index,
                                                    uvhttp__hpack_field_t *field) {
    const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[index];
    memcpy(reader->out, entry->text, sizeof entry->text);
    *field = (uvhttp__hpack_field_t){.text = reader->out,
                                     .name_size = entry->name_size,
                                     .value_size = entry->value_size,
                                     .name = entry->name,
                                     .facts = entry->facts};
    return uvhttp__hpack_accept(reader, (size_t)entry->name_size + entry->value_size);
}

static ALWAYS_INLINE bool uvhttp__hpack_take_entry(uvhttp__hpack_reader_t *reader, unsigned age,
                                                   uvhttp__hpack_field_t *field) {
    const uvhttp__hpack_table_t *table = &reader->decoder->table;
    const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, age);
    size_t size = (size_t)entry->name_size + entry->value_size;
    *field = (uvhttp__hpack_field_t){.text = reader->out,
                                     .name_size = entry->name_size,
                                     .value_size = entry->value_size,
                                     .name = entry->name,
                                     .facts = entry->facts & (uint8_t)~UVHTTP__HPACK_IN_PIECES};
    /* A list that is too large costs no copies: a byte of a bomb costs as little as any other. */
    if (LIKELY(!reader->too_large)) uvhttp__hpack_table_copy(table, entry->offset, size, reader->out);
    return uvhttp__hpack_accept(reader, size);
}

/* Whether a value that is not empty has no whitespace at either end. */
static ALWAYS_INLINE bool uvhttp__hpack_is_trimmed(const char *value, size_t size) {
    return (uint8_t)value[0] > ' ' && (uint8_t)value[size - 1] > ' ';
}

/* The name of a literal that has an index. */
typedef struct uvhttp__hpack_known_name {
    uint32_t size;
    uint8_t name;  /* uvhttp__hpack_name_t */
    uint8_t facts; /* UVHTTP__HPACK_* bits of any good value behind it */
} uvhttp__hpack_known_name_t;

/* The most that a usual name has. */
#define UVHTTP__HPACK_USUAL_NAME_MAX 1024

/* Copies the name that an index names to `out`. False: there is none, or it is not good, not in one piece or unusually
 * long. */
static ALWAYS_INLINE bool uvhttp__hpack_take_name(const uvhttp__hpack_table_t *table, uint32_t index, char *out,
                                                  uvhttp__hpack_known_name_t *name) {
    if (LIKELY(index - 1 < UVHTTP__HPACK_STATIC_COUNT)) {
        const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[index];
        memcpy(out, entry->text, sizeof entry->text);
        *name = (uvhttp__hpack_known_name_t){entry->name_size, entry->name, entry->facts};
        return true;
    }
    uint32_t age = index - UVHTTP__HPACK_STATIC_COUNT - 1;
    if (age >= table->count) return false;
    const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, age);
    if ((entry->facts & (UVHTTP__HPACK_BAD_NAME | UVHTTP__HPACK_IN_PIECES)) != 0) return false;
    if (entry->name_size > UVHTTP__HPACK_USUAL_NAME_MAX) return false;
    uvhttp__hpack_copy(out, table->text + entry->offset, entry->name_size);
    *name = (uvhttp__hpack_known_name_t){entry->name_size, entry->name, uvhttp__hpack_static_facts(entry->name)};
    return true;
}

/* uvhttp__hpack_read_next for all that is not a plain index, and for the end. */
int uvhttp__hpack_read_other(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field);

static ALWAYS_INLINE int uvhttp__hpack_next(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field) {
    if (LIKELY(reader->at < reader->end)) {
        unsigned index = *reader->at - 0x80u;
        if (LIKELY(index - 1 < UVHTTP__HPACK_STATIC_COUNT)) {
            reader->at++;
            if (LIKELY(uvhttp__hpack_take_static(reader, index, field))) return UVHTTP_OK;
        } else if (LIKELY(index < 0x7f && index - UVHTTP__HPACK_STATIC_COUNT - 1 < reader->decoder->table.count)) {
            reader->at++;
            if (LIKELY(uvhttp__hpack_take_entry(reader, index - UVHTTP__HPACK_STATIC_COUNT - 1, field)))
                return UVHTTP_OK;
        }
    }
    return uvhttp__hpack_read_other(reader, field);
}

#endif
