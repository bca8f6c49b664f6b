/* Owns: the shortest path of the decoder: a field that a table has whole, and a usual literal. Private to src/http2.
 * May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HPACK_DECODE_H
#define UVHTTP_SRC_HTTP2_HPACK_DECODE_H

#include <assert.h>

#include "base/hot.h"
#include "http2/field.h"
#include "http2/hpack_huffman.h"
#include "http2/hpack_static.h"
#include "http2/hpack_table.h"

/* Applies the size updates that the block starts with. */
int uvhttp__hpack_read_updates(uvhttp__hpack_reader_t *reader);

/* uvhttp__hpack_read. */
static ALWAYS_INLINE int uvhttp__hpack_begin(uvhttp__hpack_reader_t *reader, uvhttp__hpack_decoder_t *decoder,
                                             const void *block, size_t size, char *scratch, uint32_t list_size_max) {
    *reader = (uvhttp__hpack_reader_t){.decoder = decoder,
                                       .at = block,
                                       .end = (const uint8_t *)block + size,
                                       .out = scratch,
                                       .limit = scratch + list_size_max + UVHTTP__HPACK_TABLE_SIZE_MAX,
                                       .left = list_size_max};
    bool update = size > 0 && (*reader->at & 0xe0) == 0x20;
    return LIKELY(!update && decoder->table.size_max <= decoder->size_lowest) ? UVHTTP_OK
                                                                              : uvhttp__hpack_read_updates(reader);
}

/* Takes the field out of the list's limit. False: it has no room, and *reader is too_large from now on. */
static ALWAYS_INLINE bool uvhttp__hpack_accept(uvhttp__hpack_reader_t *reader, size_t text_size) {
    size_t size = text_size + UVHTTP__HPACK_FIELD_OVERHEAD;
    if (UNLIKELY(size > reader->left)) {
        reader->left = 0;
        reader->too_large = true;
        return false;
    }
    reader->left -= (uint32_t)size;
    reader->out += text_size;
    return true;
}

/* Copies the entry to reader->out, where the list has room for it, and shows it. */
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

/* What is said of a value that is good for any field: the facts of its name. */
static ALWAYS_INLINE uint8_t uvhttp__hpack_facts_of_name(unsigned name) {
    if (name > UVHTTP__HPACK_STATIC_COUNT) return 0;
    return name > 0 ? uvhttp__hpack_static[name].facts : (uint8_t)UVHTTP__HPACK_PLAIN_FIELD;
}

/* A block as it is read, in registers; text is written to base + offset. `left` as of the reader. */
typedef struct uvhttp__hpack_cursor {
    const uint8_t *in, *end;
    char *base;
    uint32_t offset;
    uint32_t left;
} uvhttp__hpack_cursor_t;

/* A literal without its text. */
typedef struct uvhttp__hpack_literal {
    uint32_t name_size, value_size;
    unsigned name, facts; /* facts: what the name says, of a good value */
    bool odd;             /* the value may have a byte that no value has */
} uvhttp__hpack_literal_t;

enum { UVHTTP__HPACK_USUAL_NAME_MAX = 1024 };
static_assert(UVHTTP__HPACK_USUAL_NAME_MAX + UVHTTP__HPACK_COPY + UVHTTP__HUFFMAN_DECODED_MAX(0x7e) +
                      UVHTTP__HUFFMAN_SLACK <=
                  UVHTTP__HPACK_TABLE_SIZE_MAX,
              "they fit behind what the list may still have");

/* Copies the name of a literal to `out`. False: it has no index, or is not good, not in one piece or unusually long. */
static ALWAYS_INLINE bool uvhttp__hpack_take_name(const uvhttp__hpack_table_t *table, uint32_t index, char *out,
                                                  uvhttp__hpack_literal_t *literal) {
    if (LIKELY(index - 1 < UVHTTP__HPACK_STATIC_COUNT)) {
        const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[index];
        memcpy(out, entry->text, sizeof entry->text);
        literal->name = entry->name;
        literal->name_size = entry->name_size;
        literal->facts = entry->facts;
        return true;
    }
    uint32_t age = index - UVHTTP__HPACK_STATIC_COUNT - 1;
    if (age >= table->count) return false;
    const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, age);
    if ((entry->facts & (UVHTTP__HPACK_BAD_NAME | UVHTTP__HPACK_IN_PIECES)) != 0) return false;
    if (entry->name_size > UVHTTP__HPACK_USUAL_NAME_MAX) return false;
    uvhttp__hpack_copy(out, table->text + entry->offset, entry->name_size);
    literal->name = entry->name;
    literal->name_size = entry->name_size;
    literal->facts = uvhttp__hpack_facts_of_name(entry->name);
    return true;
}

static inline bool uvhttp__hpack_is_literal(uint8_t first) {
    return (uint8_t)(first - 0x20) >= 0x20 && first < 0x80;
}

/* A literal with a value, whose name has an index in the bits of prefix_max, and whose sizes have one byte: both surely
 * fit before the end of the memory for text, which leaves UVHTTP__HPACK_TABLE_SIZE_MAX bytes behind what the list may
 * still have. The table does not get it. False: nothing is read, as it is none of those, or there is a fault. */
static ALWAYS_INLINE bool uvhttp__hpack_take_literal(uvhttp__hpack_cursor_t *cursor, const uvhttp__hpack_table_t *table,
                                                     unsigned prefix_max, uvhttp__hpack_literal_t *literal) {
    const uint8_t *in = cursor->in, *end = cursor->end;
    char *text = cursor->base + cursor->offset;
    if (UNLIKELY(end - in < 3)) return false;
    uint32_t index = *in++ & prefix_max;
    if (index == prefix_max) {
        if (UNLIKELY(*in >= 0x80)) return false;
        index += *in++;
    }
    unsigned length = *in++;
    size_t size = length & 0x7f;
    if (UNLIKELY(size - 1 >= 0x7e || size > (size_t)(end - in) ||
                 !uvhttp__hpack_take_name(table, index, text, literal)))
        return false;
    char *value = text + literal->name_size;
    const uint8_t *behind = in + size;
    literal->odd = true;
    if (LIKELY((length & 0x80) != 0)) {
        uvhttp__huffman_text_t decoded = uvhttp__huffman_decode(in, size, value);
        if (UNLIKELY(!decoded.end)) return false;
        size = (size_t)(decoded.end - value);
        literal->odd = decoded.odd;
    } else {
        memcpy(value, in, size);
    }
    uint32_t text_size = literal->name_size + (uint32_t)size, list_size = text_size + UVHTTP__HPACK_FIELD_OVERHEAD;
    if (UNLIKELY(list_size > cursor->left)) return false;
    literal->value_size = (uint32_t)size;
    cursor->in = behind;
    cursor->left -= list_size;
    cursor->offset += text_size;
    return true;
}

/* Whether a value that is not empty has no whitespace at either end. */
static ALWAYS_INLINE bool uvhttp__hpack_is_trimmed(const char *value, size_t size) {
    return (uint8_t)value[0] > ' ' && (uint8_t)value[size - 1] > ' ';
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
