/* Owns: the shortest path of the decoder: a field that a table has whole, and a usual literal. Private to src/http2.
 * May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HPACK_DECODE_H
#define UVHTTP_SRC_HTTP2_HPACK_DECODE_H

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
                                     .facts = entry->facts,
                                     .static_index = (uint8_t)index};
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

/* The name of a literal at reader->out, if it has an index, and is good and in one piece. */
static ALWAYS_INLINE bool uvhttp__hpack_take_name(const uvhttp__hpack_reader_t *reader, uint32_t index,
                                                  uvhttp__hpack_field_t *field) {
    const uvhttp__hpack_table_t *table = &reader->decoder->table;
    if (LIKELY(index - 1 < UVHTTP__HPACK_STATIC_COUNT)) {
        const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[index];
        memcpy(reader->out, entry->text, sizeof entry->text);
        field->name = entry->name;
        field->name_size = entry->name_size;
        field->facts = uvhttp__hpack_static[entry->name].facts;
        return true;
    }
    uint32_t age = index - UVHTTP__HPACK_STATIC_COUNT - 1;
    if (age >= table->count) return false;
    const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, age);
    if ((entry->facts & (UVHTTP__HPACK_BAD_NAME | UVHTTP__HPACK_IN_PIECES)) != 0) return false;
    uvhttp__hpack_copy(reader->out, table->text + entry->offset, entry->name_size);
    field->name = entry->name;
    field->name_size = entry->name_size;
    field->facts = uvhttp__hpack_facts_of_name(entry->name);
    return true;
}

static inline bool uvhttp__hpack_is_literal(uint8_t first) {
    return (uint8_t)(first - 0x20) >= 0x20 && first < 0x80;
}

static ALWAYS_INLINE void uvhttp__hpack_judge(uvhttp__hpack_field_t *field, char *value, size_t size, bool clean) {
    bool visible = size == 0 || ((uint8_t)value[0] > ' ' && (uint8_t)value[size - 1] > ' ');
    if (UNLIKELY(!clean || !visible || field->facts == UVHTTP__HPACK_GOOD_PSEUDO))
        field->facts = uvhttp__field_value_facts((uvhttp__hpack_name_t)field->name, value, size, clean);
}

/* A literal whose name has an index, and whose sizes have one byte: both surely fit before reader->limit, which leaves
 * UVHTTP__HPACK_TABLE_SIZE_MAX bytes behind what the list may still have. False: nothing is read, as it is none of
 * those, or there is a fault. */
static ALWAYS_INLINE bool uvhttp__hpack_take_literal(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field) {
    const uint8_t *in = reader->at, *end = reader->end;
    unsigned first = *in++, prefix_max = (first & 0x40) != 0 ? 0x3f : 0x0f;
    uint32_t index = first & prefix_max;
    if (index == prefix_max && in < end) index += *in++;
    if (UNLIKELY(in >= end || index >= prefix_max + 0x80)) return false;
    size_t size = *in & 0x7fu, left = (size_t)(end - in);
    bool huffman = (*in++ & 0x80) != 0, odd = true;
    if (UNLIKELY(size == 0x7f || size >= left || !uvhttp__hpack_take_name(reader, index, field))) return false;
    char *value = reader->out + field->name_size;
    const uint8_t *coded = in;
    in += size;
    if (UNLIKELY(!huffman))
        memcpy(value, coded, size);
    else if (UNLIKELY(!uvhttp__huffman_decode(coded, size, value, &size, &odd)))
        return false;
    if (UNLIKELY(field->name_size + size + UVHTTP__HPACK_FIELD_OVERHEAD > reader->left)) return false;
    uvhttp__hpack_judge(field, value, size, !odd);
    if ((first & 0x40) != 0 && uvhttp__hpack_table_insert(&reader->decoder->table, reader->out, field->name_size, size,
                                                          field->name, field->facts) != UVHTTP_OK)
        return false;
    field->text = reader->out;
    field->value_size = (uint32_t)size;
    field->static_index = 0;
    field->never_indexed = (first & 0xf0) == 0x10;
    reader->at = in;
    reader->left -= (uint32_t)(field->name_size + size) + UVHTTP__HPACK_FIELD_OVERHEAD;
    reader->out = value + size;
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
