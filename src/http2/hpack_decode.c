/* Owns: reading header blocks (RFC 7541 section 6). May include: base. */
#include "http2/hpack_decode.h"

#include <assert.h>

#include "http2/field.h"
#include "http2/hpack_huffman.h"

static_assert(UVHTTP__HPACK_SLACK >= UVHTTP__HPACK_COPY && UVHTTP__HPACK_SLACK >= UVHTTP__HUFFMAN_SLACK &&
                  UVHTTP__HPACK_SLACK >= UVHTTP__FIELD_SLACK,
              "what writes behind a text stays in the slack");

enum { UPDATES_MAX = 2 }; /* of one block (RFC 7541 section 4.2) */

void uvhttp__hpack_decoder_init(uvhttp__hpack_decoder_t *decoder) {
    uvhttp__hpack_prepare();
    uvhttp__hpack_table_init(&decoder->table);
    decoder->size_limit = decoder->size_lowest = UVHTTP__HPACK_TABLE_SIZE_MAX;
}

void uvhttp__hpack_decoder_deinit(uvhttp__hpack_decoder_t *decoder) {
    uvhttp__hpack_table_deinit(&decoder->table);
}

void uvhttp__hpack_decoder_set_limit(uvhttp__hpack_decoder_t *decoder, uint32_t size) {
    assert(size <= UVHTTP__HPACK_TABLE_SIZE_MAX);
    decoder->size_limit = (uint16_t)size;
    if (size < decoder->table.size_max && size < decoder->size_lowest) decoder->size_lowest = (uint16_t)size;
}

size_t uvhttp__hpack_decoder_memory(const uvhttp__hpack_decoder_t *decoder) {
    return uvhttp__hpack_table_memory(&decoder->table);
}

/* --- integers and strings --- */

/* The integer that starts in the low bits of *reader->at (RFC 7541 section 5.1). */
static inline int read_integer(uvhttp__hpack_reader_t *reader, unsigned prefix_max, uint32_t *value) {
    uint64_t sum = *reader->at++ & prefix_max;
    if (UNLIKELY(sum == prefix_max)) {
        uint8_t byte = 0x80;
        for (unsigned shift = 0; (byte & 0x80) != 0; shift += 7) {
            if (reader->at == reader->end || shift > 28) return UVHTTP_E_HPACK_INTEGER;
            byte = *reader->at++;
            sum += (uint64_t)(byte & 0x7f) << shift;
        }
        if (sum > UINT32_MAX) return UVHTTP_E_HPACK_INTEGER;
    }
    *value = (uint32_t)sum;
    return UVHTTP_OK;
}

/* A string that was read. */
typedef struct string {
    size_t size;
    bool kept;  /* it is at its final place; otherwise it does not fit, and is not in the table */
    bool clean; /* there is no byte in it that no field value has; false says nothing */
} string_t;

static int read_huffman(const uint8_t *data, size_t size, char *out, size_t capacity, string_t *string) {
    if (UVHTTP__HUFFMAN_DECODED_MAX(size) > capacity) {
        if (!uvhttp__huffman_measure(data, size, &string->size)) return UVHTTP_E_HPACK_HUFFMAN;
        string->kept = string->size <= capacity;
        if (!string->kept) return UVHTTP_OK;
    }
    uvhttp__huffman_text_t text = uvhttp__huffman_decode(data, size, out);
    if (!text.end) return UVHTTP_E_HPACK_HUFFMAN;
    *string = (string_t){.size = (size_t)(text.end - out), .kept = true, .clean = !text.odd};
    return UVHTTP_OK;
}

/* The string at reader->at, to be written to out. */
static int read_string(uvhttp__hpack_reader_t *reader, char *out, string_t *string) {
    if (reader->at == reader->end) return UVHTTP_E_HPACK_STRING;
    bool huffman = (*reader->at & 0x80) != 0;
    uint32_t size = *reader->at & 0x7f;
    if (LIKELY(size < 0x7f)) {
        reader->at++;
    } else {
        int status = read_integer(reader, 0x7f, &size);
        if (status != UVHTTP_OK) return status;
    }
    if (size > (size_t)(reader->end - reader->at)) return UVHTTP_E_HPACK_STRING;
    const uint8_t *data = reader->at;
    reader->at += size;
    size_t capacity = (size_t)(reader->limit - out);
    if (huffman) return read_huffman(data, size, out, capacity, string);
    *string = (string_t){.size = size, .kept = size <= capacity};
    if (string->kept) memcpy(out, data, size);
    return UVHTTP_OK;
}

/* --- fields --- */

static int read_indexed(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field, bool *shown) {
    uint32_t index;
    int status = read_integer(reader, 0x7f, &index);
    if (status != UVHTTP_OK) return status;
    if (index == 0 || index - 1 >= UVHTTP__HPACK_STATIC_COUNT + (uint32_t)reader->decoder->table.count)
        return UVHTTP_E_HPACK_INDEX;
    *shown = index <= UVHTTP__HPACK_STATIC_COUNT
                 ? uvhttp__hpack_take_static(reader, index, field)
                 : uvhttp__hpack_take_entry(reader, index - UVHTTP__HPACK_STATIC_COUNT - 1, field);
    return UVHTTP_OK;
}

/* The name of a literal that an index names, at reader->out; `index` is not 0. */
static int take_name(uvhttp__hpack_reader_t *reader, uint32_t index, uvhttp__hpack_field_t *field, string_t *name) {
    const uvhttp__hpack_table_t *table = &reader->decoder->table;
    if (LIKELY(index <= UVHTTP__HPACK_STATIC_COUNT)) {
        const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[index];
        memcpy(reader->out, entry->text, sizeof entry->text);
        field->name = entry->name;
        *name = (string_t){.size = entry->name_size, .kept = true};
        return UVHTTP_OK;
    }
    index -= UVHTTP__HPACK_STATIC_COUNT + 1;
    if (index >= table->count) return UVHTTP_E_HPACK_INDEX;
    const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, index);
    uvhttp__hpack_table_copy(table, entry->offset, entry->name_size, reader->out);
    field->name = entry->name;
    field->facts = entry->facts & UVHTTP__HPACK_BAD_NAME;
    *name = (string_t){.size = entry->name_size, .kept = true};
    return UVHTTP_OK;
}

static int read_name(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field, string_t *name) {
    int status = read_string(reader, reader->out, name);
    if (status != UVHTTP_OK || !name->kept) return status;
    field->name = (uint8_t)uvhttp__hpack_find_name(reader->out, name->size);
    if (field->name == UVHTTP__HPACK_NAME_OTHER) field->facts = uvhttp__field_name_facts(reader->out, name->size);
    return UVHTTP_OK;
}

/* prefix_max: of the index of the name. */
static int read_literal(uvhttp__hpack_reader_t *reader, unsigned prefix_max, bool indexed, uvhttp__hpack_field_t *field,
                        bool *shown) {
    uint32_t index;
    string_t name, value;
    *field = (uvhttp__hpack_field_t){.text = reader->out, .never_indexed = (*reader->at & 0xf0) == 0x10};
    int status = read_integer(reader, prefix_max, &index);
    if (status == UVHTTP_OK)
        status = index > 0 ? take_name(reader, index, field, &name) : read_name(reader, field, &name);
    if (status != UVHTTP_OK) return status;
    char *value_at = reader->out + (name.kept ? name.size : 0);
    status = read_string(reader, value_at, &value);
    if (status != UVHTTP_OK) return status;
    field->name_size = (uint32_t)name.size;
    field->value_size = (uint32_t)value.size;
    if (name.kept && value.kept)
        field->facts |= uvhttp__field_value_facts((uvhttp__hpack_name_t)field->name, value_at, value.size, value.clean);
    if ((field->facts & UVHTTP__HPACK_BAD_NAME) != 0) field->facts &= (uint8_t)~UVHTTP__HPACK_PLAIN_FIELD;
    if (indexed) {
        status = uvhttp__hpack_table_insert(&reader->decoder->table, reader->out, name.size, value.size, field->name,
                                            field->facts);
        if (status != UVHTTP_OK) return status;
    }
    *shown = uvhttp__hpack_accept(reader, name.size + value.size);
    return UVHTTP_OK;
}

/* --- usual literals --- */

/* A literal without its text. */
typedef struct literal {
    uvhttp__hpack_known_name_t name;
    uint32_t value_size;
    bool odd; /* the value may have a byte that no value has */
} literal_t;

static_assert(UVHTTP__HPACK_USUAL_NAME_MAX + UVHTTP__HPACK_COPY + UVHTTP__HUFFMAN_DECODED_MAX(0x7e) +
                      UVHTTP__HUFFMAN_SLACK <=
                  UVHTTP__HPACK_TABLE_SIZE_MAX,
              "they fit behind what the list may still have");

static bool is_literal(uint8_t first) {
    return (uint8_t)(first - 0x20) >= 0x20 && first < 0x80;
}

/* A literal with a value, whose name has an index in the bits of prefix_max, and whose sizes have one byte: both surely
 * fit before the end of the memory for text, which leaves UVHTTP__HPACK_TABLE_SIZE_MAX bytes behind what the list may
 * still have. Returns the byte behind it; NULL: it is none of those, or there is a fault. */
static const uint8_t *take_literal(const uvhttp__hpack_reader_t *reader, unsigned prefix_max, literal_t *literal) {
    const uint8_t *in = reader->at, *end = reader->end;
    if (UNLIKELY(end - in < 3)) return NULL;
    uint32_t index = *in++ & prefix_max;
    if (index == prefix_max) {
        if (UNLIKELY(*in >= 0x80)) return NULL;
        index += *in++;
    }
    unsigned length = *in++;
    size_t size = length & 0x7f;
    if (UNLIKELY(size - 1 >= 0x7e || size > (size_t)(end - in) ||
                 !uvhttp__hpack_take_name(&reader->decoder->table, index, reader->out, &literal->name)))
        return NULL;
    char *value = reader->out + literal->name.size;
    literal->value_size = (uint32_t)size;
    literal->odd = true;
    if (LIKELY((length & 0x80) != 0)) {
        uvhttp__huffman_text_t decoded = uvhttp__huffman_decode(in, size, value);
        if (UNLIKELY(!decoded.end)) return NULL;
        literal->value_size = (uint32_t)(decoded.end - value);
        literal->odd = decoded.odd;
    } else {
        memcpy(value, in, size);
    }
    bool fits = literal->name.size + literal->value_size + UVHTTP__HPACK_FIELD_OVERHEAD <= reader->left;
    return LIKELY(fits) ? in + size : NULL;
}

/* The same for a usual one. False: nothing is read. */
static bool read_usual(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field) {
    literal_t literal;
    unsigned first = *reader->at;
    bool indexed = (first & 0x40) != 0;
    const uint8_t *behind = take_literal(reader, indexed ? 0x3f : 0x0f, &literal);
    if (!behind) return false;
    char *text = reader->out, *value = text + literal.name.size;
    uint8_t facts = literal.name.facts;
    if (UNLIKELY(literal.odd || facts == UVHTTP__HPACK_GOOD_PSEUDO ||
                 !uvhttp__hpack_is_trimmed(value, literal.value_size)))
        facts =
            uvhttp__field_value_facts((uvhttp__hpack_name_t)literal.name.name, value, literal.value_size, !literal.odd);
    if (indexed && uvhttp__hpack_table_insert(&reader->decoder->table, text, literal.name.size, literal.value_size,
                                              literal.name.name, facts) != UVHTTP_OK)
        return false;
    *field = (uvhttp__hpack_field_t){.text = text,
                                     .name_size = literal.name.size,
                                     .value_size = literal.value_size,
                                     .name = literal.name.name,
                                     .facts = facts,
                                     .never_indexed = (first & 0xf0) == 0x10};
    reader->at = behind;
    uvhttp__hpack_count(reader, literal.name.size + literal.value_size); /* take_literal: it fits */
    return true;
}

static int read_one(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field, bool *shown) {
    unsigned first = *reader->at;
    if ((first & 0x80) != 0) return read_indexed(reader, field, shown);
    if ((first & 0x40) != 0) return read_literal(reader, 0x3f, true, field, shown);
    if ((first & 0x20) != 0) return UVHTTP_E_HPACK_TABLE_SIZE;
    return read_literal(reader, 0x0f, false, field, shown);
}

int uvhttp__hpack_read_other(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field) {
    while (reader->at < reader->end) {
        bool shown = false;
        if (LIKELY(is_literal(*reader->at)) && LIKELY(read_usual(reader, field))) return UVHTTP_OK;
        int status = read_one(reader, field, &shown);
        if (UNLIKELY(status != UVHTTP_OK)) return status;
        if (LIKELY(shown)) return UVHTTP_OK;
    }
    return reader->too_large ? UVHTTP_E_HTTP_HEADERS_TOO_LARGE : UVHTTP_E_EOF;
}

int uvhttp__hpack_read_next(uvhttp__hpack_reader_t *reader, uvhttp__hpack_field_t *field) {
    return uvhttp__hpack_next(reader, field);
}

/* --- blocks --- */

static int read_size_update(uvhttp__hpack_reader_t *reader) {
    uvhttp__hpack_decoder_t *decoder = reader->decoder;
    uint32_t size;
    int status = read_integer(reader, 0x1f, &size);
    if (status != UVHTTP_OK) return status;
    if (size > decoder->size_limit || size > decoder->size_lowest) return UVHTTP_E_HPACK_TABLE_SIZE;
    uvhttp__hpack_table_resize(&decoder->table, size);
    decoder->size_lowest = UVHTTP__HPACK_TABLE_SIZE_MAX; /* it has been said how small the table was */
    return UVHTTP_OK;
}

int uvhttp__hpack_read_updates(uvhttp__hpack_reader_t *reader) {
    for (int i = 0; i < UPDATES_MAX && reader->at < reader->end && (*reader->at & 0xe0) == 0x20; ++i) {
        int status = read_size_update(reader);
        if (status != UVHTTP_OK) return status;
    }
    const uvhttp__hpack_decoder_t *decoder = reader->decoder;
    return decoder->table.size_max > decoder->size_lowest ? UVHTTP_E_HPACK_TABLE_SIZE : UVHTTP_OK;
}

int uvhttp__hpack_read(uvhttp__hpack_reader_t *reader, uvhttp__hpack_decoder_t *decoder, const void *block, size_t size,
                       char *scratch, uint32_t list_size_max) {
    return uvhttp__hpack_begin(reader, decoder, block, size, scratch, list_size_max);
}

int uvhttp__hpack_read_rest(uvhttp__hpack_reader_t *reader) {
    uvhttp__hpack_field_t field;
    bool too_large = reader->too_large;
    reader->too_large = true;
    reader->left = 0;
    int status = uvhttp__hpack_read_other(reader, &field);
    reader->too_large = too_large;
    return status == UVHTTP_E_HTTP_HEADERS_TOO_LARGE ? UVHTTP_OK : status;
}
