/* Owns: exhaustive checks of the numbers of header compression (RFC 7541): integers of each prefix, what is evicted,
 * and the Huffman code.
 *
 * An integer is put together byte by byte, seven bits each: all bytes that differ in what they do (the first and last
 * of those that end one and of those that do not) in all sequences up to one that is too long, behind each first byte.
 * The table: all sequences of five insertions and changes of its size, against a list. The Huffman code: every state of
 * a decoder that reads bits, at each place in a byte, with every byte behind it. */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "http2/hpack_encode.h"
#include "http2/hpack_huffman.h"
#include "support/boundaries.h"
#include "support/run.h"

/* --- integers --- */

enum { CONTINUATIONS_MAX = 6, LIST_MAX = 1 << 16 };

static char scratch[LIST_MAX + UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK];

/* What section 5.1 says, in numbers that do not overflow. Returns false if it does not end within five bytes behind the
 * prefix, or is above 2^32 - 1. *size: bytes of it. */
static bool read_naively(const uint8_t *in, size_t in_size, unsigned prefix_max, wide_t *value, size_t *size) {
    *value = in[0] & prefix_max;
    *size = 1;
    if (*value < prefix_max) return true;
    for (wide_t factor = 1; *size < in_size && *size <= 5; factor *= 128) {
        uint8_t byte = in[(*size)++];
        *value += (byte % 128) * factor;
        if (byte < 128) return *value <= UINT32_MAX;
    }
    return false;
}

/* A block of one representation that begins with the integer, behind which nothing comes but `rest`. */
static int read_block(const uint8_t *integer, size_t size, const char *rest, size_t rest_size,
                      uvhttp__hpack_decoder_t *decoder, uvhttp__hpack_field_t *field) {
    static uint8_t exact[64];
    uint8_t *block = exact + sizeof exact - size - rest_size; /* up against the end, which a sanitizer checks */
    uvhttp__hpack_reader_t reader;
    memcpy(block, integer, size);
    memcpy(block + size, rest, rest_size);
    int code = uvhttp__hpack_read(&reader, decoder, block, size + rest_size, scratch, LIST_MAX);
    return code == UVHTTP_OK ? uvhttp__hpack_read_next(&reader, field) : code;
}

/* An index: 7 bits of a field, 6 and 4 of a name, with an empty value. The table has entries enough that some indexes
 * take two bytes, and memory enough for one more, which only the copy knows of. */
static void expect_index(const uint8_t *in, size_t size, unsigned prefix_max, uvhttp__hpack_decoder_t *decoder) {
    wide_t value;
    size_t used;
    uvhttp__hpack_field_t field;
    uvhttp__hpack_decoder_t copy = *decoder;
    bool good = read_naively(in, size, prefix_max, &value, &used), whole = prefix_max == 0x7f;
    if (good && used < size) return; /* a shorter one has been gone through */
    uint32_t last = UVHTTP__HPACK_STATIC_COUNT + decoder->table.count;
    if (!whole && good && value == 0) return; /* the name is a string that follows */
    int code = read_block(in, size, "\0", !whole && good, &copy, &field);
    if (!good) {
        assert_int_equal(code, UVHTTP_E_HPACK_INTEGER);
    } else if (value == 0 || value > last) {
        assert_int_equal(code, UVHTTP_E_HPACK_INDEX);
    } else {
        assert_int_equal(code, UVHTTP_OK);
        if (value <= UVHTTP__HPACK_STATIC_COUNT) {
            const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[value];
            assert_int_equal(field.name_size, entry->name_size);
            assert_memory_equal(field.text, entry->text, entry->name_size);
        } else { /* names are their age, in two letters */
            unsigned age = (unsigned)value - UVHTTP__HPACK_STATIC_COUNT - 1;
            assert_int_equal(field.name_size, 2);
            assert_int_equal(field.text[0] - 'a', age / 16);
            assert_int_equal(field.text[1] - 'a', age % 16);
        }
    }
}

/* 5 bits: the new size of the table, above its limit an error. */
static void expect_size_update(const uint8_t *in, size_t size) {
    wide_t value;
    size_t used;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_field_t field;
    if (read_naively(in, size, 0x1f, &value, &used) && used < size) return;
    bool good = read_naively(in, size, 0x1f, &value, &used);
    uvhttp__hpack_decoder_init(&decoder);
    int code = read_block(in, size, "", 0, &decoder, &field);
    if (!good) {
        assert_int_equal(code, UVHTTP_E_HPACK_INTEGER);
    } else if (value > UVHTTP__HPACK_TABLE_SIZE_MAX) {
        assert_int_equal(code, UVHTTP_E_HPACK_TABLE_SIZE);
    } else {
        assert_int_equal(code, UVHTTP_E_EOF);
        assert_int_equal(decoder.table.size_max, value);
    }
}

/* The length of a string, 7 bits behind its first: nothing of it comes, so that any but 0 is too long. */
static void expect_length(const uint8_t *in, size_t size) {
    wide_t value;
    size_t used;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_field_t field;
    if (read_naively(in, size, 0x7f, &value, &used) && used < size) return;
    bool good = read_naively(in, size, 0x7f, &value, &used);
    uint8_t block[2 + CONTINUATIONS_MAX] = {0x02}; /* without indexing, :method */
    memcpy(block + 1, in, size);
    uvhttp__hpack_decoder_init(&decoder);
    int code = read_block(block, size + 1, "", 0, &decoder, &field);
    assert_int_equal(code, !good ? UVHTTP_E_HPACK_INTEGER : value > 0 ? UVHTTP_E_HPACK_STRING : UVHTTP_OK);
}

static void fill_table(uvhttp__hpack_decoder_t *decoder, unsigned count) {
    uvhttp__hpack_decoder_init(decoder);
    for (unsigned i = count; i-- > 0;) {
        const char name[] = {(char)('a' + i / 16), (char)('a' + i % 16)};
        assert_int_equal(uvhttp__hpack_table_insert(&decoder->table, name, 2, 0, 0, 0), UVHTTP_OK);
    }
    assert_int_equal(decoder->table.count, count);
}

static void expect_integer(const uint8_t *in, size_t size, uvhttp__hpack_decoder_t *full) {
    if (in[0] & 0x80)
        expect_index(in, size, 0x7f, full);
    else if (in[0] & 0x40)
        expect_index(in, size, 0x3f, full);
    else if (in[0] & 0x20)
        expect_size_update(in, size);
    else
        expect_index(in, size, 0x0f, full);
    expect_length(in, size);
}

static void test_every_integer_however_it_is_written(void **state) {
    (void)state;
    static const uint8_t bytes[] = {0x00, 0x01, 0x7f, 0x80, 0x81, 0xff};
    uvhttp__hpack_decoder_t full;
    fill_table(&full, 100);
    for (size_t more = 0, count = 1; more <= CONTINUATIONS_MAX; more++, count *= sizeof bytes) {
        for (size_t n = 0; n < count; n++) {
            uint8_t in[1 + CONTINUATIONS_MAX];
            for (size_t i = 0, rest = n; i < more; i++, rest /= sizeof bytes) in[1 + i] = bytes[rest % sizeof bytes];
            static const uint8_t firsts[] = {0xff, 0x7f, 0x3f, 0x1f, 0x0f};
            for (size_t i = 0; i < sizeof firsts; i++) {
                in[0] = firsts[i];
                expect_integer(in, 1 + more, &full);
            }
        }
    }
    for (unsigned first = 0; first < 256; first++) expect_integer((uint8_t[]){(uint8_t)first}, 1, &full);
    for (unsigned pair = 0; pair < 1 << 16; pair++)
        expect_integer((uint8_t[]){(uint8_t)(pair >> 8), (uint8_t)pair}, 2, &full);
    for (unsigned pair = 0; pair < 1 << 16; pair++) /* all sizes around the limit, too */
        expect_size_update((uint8_t[]){0x3f, (uint8_t)(pair >> 8), (uint8_t)pair}, 3);
    uvhttp__hpack_decoder_deinit(&full);
}

/* What is written, for each prefix, is read as what it was, and is the shortest: its last byte is not 0 behind others.
 */
static void expect_written(wide_t value) {
    for (unsigned bits = 4; bits <= 7; bits++) {
        char out[16];
        wide_t read;
        size_t used, prefix_max = (1u << bits) - 1;
        size_t size = (size_t)(uvhttp__hpack_put_integer(out, 0, (unsigned)prefix_max, (size_t)value) - out);
        assert_true(read_naively((const uint8_t *)out, size, (unsigned)prefix_max, &read, &used));
        assert_true(read == value && used == size);
        assert_int_equal(size == 1, value < prefix_max);
        if (size > 2) assert_int_not_equal(out[size - 1], 0);
    }
}

static void test_every_integer_that_is_written(void **state) {
    (void)state;
    static boundaries_t numbers;
    for (wide_t value = 0; value < 70000; value++) expect_written(value);
    boundaries_of(2, (wide_t)1 << 31, &numbers);
    for (size_t i = 0; i < numbers.count; i++) expect_written(numbers.values[i]);
    for (unsigned prefix = 0; prefix <= 0x7f; prefix++) expect_written((wide_t)UINT32_MAX - prefix);
}

/* --- the table --- */

enum { STEPS = 5, ENTRIES_MAX = 256 };

/* The sizes of text that were inserted, the newest last, and how large the table may be: what is in it is as many of
 * the newest as fit (section 4.1, 4.4). */
typedef struct list {
    size_t sizes[ENTRIES_MAX];
    unsigned count, first; /* first: the oldest that is in the table */
    size_t size_max;
} list_t;

static size_t list_size(const list_t *list) {
    size_t sum = 0;
    for (unsigned i = list->first; i < list->count; i++) sum += list->sizes[i] + 32;
    return sum;
}

static void list_evict(list_t *list) {
    while (list_size(list) > list->size_max) list->first++;
}

/* Each byte is of its entry, and of its place in it. */
static void fill_text(char *text, size_t size, unsigned number) {
    for (size_t i = 0; i < size; i++) text[i] = (char)(number * 37 + i * 11 + i / 256);
}

static void expect_table(const uvhttp__hpack_table_t *table, const list_t *list) {
    char expected[UVHTTP__HPACK_TABLE_SIZE_MAX], text[UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_COPY];
    assert_int_equal(table->count, list->count - list->first);
    assert_int_equal(table->size, list_size(list));
    assert_int_equal(table->size_max, list->size_max);
    for (uint32_t age = 0; age < table->count; age++) {
        unsigned number = list->count - 1 - age;
        const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, age);
        size_t size = list->sizes[number], name_size = size / 3;
        assert_int_equal(entry->name_size, name_size);
        assert_int_equal(entry->value_size, size - name_size);
        fill_text(expected, size, number);
        uvhttp__hpack_table_copy(table, entry->offset, size, text);
        assert_memory_equal(text, expected, size);
        assert_true(uvhttp__hpack_table_equals(table, entry, expected, name_size, size - name_size));
        if (size == 0) continue;
        expected[size - 1]++;
        assert_false(uvhttp__hpack_table_equals(table, entry, expected, name_size, size - name_size));
    }
}

static void insert(uvhttp__hpack_table_t *table, list_t *list, size_t size) {
    char text[UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_COPY];
    fill_text(text, size, list->count);
    assert_int_equal(uvhttp__hpack_table_insert(table, text, size / 3, size - size / 3, 0, 0), UVHTTP_OK);
    list->sizes[list->count++] = size;
    list_evict(list);
}

static void resize(uvhttp__hpack_table_t *table, list_t *list, size_t size) {
    uvhttp__hpack_table_resize(table, (uint32_t)size);
    list->size_max = size;
    list_evict(list);
}

static void test_every_sequence_of_insertions_and_sizes(void **state) {
    (void)state;
    static const size_t texts[] = {0, 1, 32, 96, 4064}, maxima[] = {0, 33, 128, 4096};
    enum { TEXTS = sizeof texts / sizeof *texts, ALPHABET = TEXTS + sizeof maxima / sizeof *maxima };
    uint32_t count = 1;
    for (int i = 0; i < STEPS; i++) count *= ALPHABET;
    for (uint32_t n = 0; n < count; n++) {
        uvhttp__hpack_table_t table;
        list_t list = {.size_max = UVHTTP__HPACK_TABLE_SIZE_MAX};
        uvhttp__hpack_table_init(&table);
        uint32_t rest = n;
        for (int i = 0; i < STEPS; i++, rest /= ALPHABET) {
            unsigned which = rest % ALPHABET;
            if (which < TEXTS)
                insert(&table, &list, texts[which]);
            else
                resize(&table, &list, maxima[which - TEXTS]);
        }
        expect_table(&table, &list);
        uvhttp__hpack_table_deinit(&table);
    }
}

/* The ring of text at each place of its end: three entries of all sizes, again and again, and the table that grows
 * between them. */
static void test_every_size_of_text_goes_round_the_ring(void **state) {
    (void)state;
    for (size_t size = 0; size <= 140; size++) {
        for (size_t max = 128; max <= 512; max += 96) {
            uvhttp__hpack_table_t table;
            list_t list = {.size_max = UVHTTP__HPACK_TABLE_SIZE_MAX};
            uvhttp__hpack_table_init(&table);
            resize(&table, &list, max);
            for (unsigned i = 0; i < 60; i++) {
                insert(&table, &list, size + i % 3);
                if (i == 40) resize(&table, &list, max + 200);
                expect_table(&table, &list);
            }
            uvhttp__hpack_table_deinit(&table);
        }
    }
}

/* --- the Huffman code --- */

enum { NODES_MAX = 512, NONE = -1, TEXT_MAX = 128 };

/* The tree of all codes, made of what each character is encoded as. A leaf has a symbol, its children are NONE. */
static struct {
    int children[2], symbol;
    uint8_t depth; /* bits to here, */
    uint32_t path; /* ... which are these */
} nodes[NODES_MAX];
static int node_count;

static int new_node(uint32_t path, uint8_t depth) {
    assert_true(node_count < NODES_MAX);
    nodes[node_count].children[0] = nodes[node_count].children[1] = nodes[node_count].symbol = NONE;
    nodes[node_count].path = path;
    nodes[node_count].depth = depth;
    return node_count++;
}

static void make_tree(void) {
    uvhttp__hpack_prepare();
    node_count = 0;
    (void)new_node(0, 0);
    for (int symbol = 0; symbol < 256; symbol++) {
        char eight[8];
        uint8_t coded[32] = {0};
        memset(eight, symbol, sizeof eight);
        size_t bits = uvhttp__huffman_size(eight, sizeof eight); /* eight of them are as many bytes */
        uvhttp__huffman_encode(eight, 1, coded);
        int at = 0;
        for (unsigned bit = 0; bit < bits; bit++) {
            int *child = &nodes[at].children[coded[bit / 8] >> (7 - bit % 8) & 1];
            if (*child == NONE)
                *child = new_node(nodes[at].path << 1 | (child != nodes[at].children), (uint8_t)(bit + 1));
            at = *child;
            assert_int_equal(nodes[at].symbol, NONE); /* no code begins another */
        }
        assert_true(nodes[at].children[0] == NONE && nodes[at].children[1] == NONE);
        nodes[at].symbol = symbol;
    }
}

/* The code is complete but for that of EOS, which is 30 ones. */
static void test_the_code_is_complete(void **state) {
    (void)state;
    int missing = 0;
    make_tree();
    for (int i = 0; i < node_count; i++) {
        if (nodes[i].symbol != NONE) continue;
        missing += (nodes[i].children[0] == NONE) + (nodes[i].children[1] == NONE);
        if (nodes[i].children[1] == NONE) assert_true(nodes[i].path == (1u << 29) - 1 && nodes[i].depth == 29);
    }
    assert_int_equal(missing, 1);
    assert_int_equal(node_count, 2 * 256);
}

static void expect_decoded(const uint8_t *in, size_t size) {
    char expected[TEXT_MAX], out[TEXT_MAX + UVHTTP__HUFFMAN_SLACK];
    size_t count = 0, measured;
    int at = 0;
    for (size_t bit = 0; bit < 8 * size && at != NONE; bit++) {
        at = nodes[at].children[in[bit / 8] >> (7 - bit % 8) & 1];
        if (at == NONE || nodes[at].symbol == NONE) continue;
        expected[count++] = (char)nodes[at].symbol;
        at = 0;
    }
    /* Padding: less than a byte, of ones (section 5.2). */
    bool good = at != NONE && nodes[at].depth < 8 && nodes[at].path == (1u << nodes[at].depth) - 1;
    uvhttp__huffman_text_t text = uvhttp__huffman_decode(in, size, out);
    assert_int_equal(text.end != NULL, good);
    assert_int_equal(uvhttp__huffman_measure(in, size, &measured), good);
    if (!good) return;
    assert_int_equal(text.end - out, count);
    assert_memory_equal(out, expected, count);
    assert_int_equal(measured, count);
}

static void put_bits(uint8_t *out, size_t *at, uint32_t bits, unsigned count) {
    for (; count-- > 0; ++*at)
        if (bits >> count & 1) out[*at / 8] |= (uint8_t)(0x80 >> *at % 8);
}

/* So many characters of 5 bits, the way to a node of the tree, and a byte; then ones to the end of the last byte, and
 * the same with a byte of ones more, which is too many. */
static void expect_state(unsigned before, int node, unsigned byte) {
    uint8_t in[TEXT_MAX / 2] = {0};
    size_t at = 0;
    put_bits(in, &at, 0, 5 * before % 25);
    for (unsigned i = 0; i < 5 * before / 25; i++) put_bits(in, &at, 0, 25);
    put_bits(in, &at, nodes[node].path, nodes[node].depth);
    put_bits(in, &at, byte, 8);
    while (at % 8 != 0) put_bits(in, &at, 1, 1);
    expect_decoded(in, at / 8);
    put_bits(in, &at, 0xff, 8);
    expect_decoded(in, at / 8);
}

/* In texts that are short, and in those that are decoded eight bytes at a time. */
static void test_every_byte_in_every_state_at_every_place(void **state) {
    (void)state;
    make_tree();
    for (int node = 0; node < node_count; node++) {
        if (nodes[node].symbol != NONE) continue;
        for (unsigned byte = 0; byte < 256; byte++) {
            for (unsigned before = 0; before < 8; before++) expect_state(before, node, byte);
            for (unsigned before = 48; before < 56; before++) expect_state(before, node, byte);
        }
    }
}

static void test_every_text_of_two_bytes_and_what_is_read_of_every_two(void **state) {
    (void)state;
    make_tree();
    expect_decoded((const uint8_t *)"", 0);
    for (unsigned byte = 0; byte < 256; byte++) expect_decoded(&(uint8_t){(uint8_t)byte}, 1);
    for (unsigned pair = 0; pair < 1 << 16; pair++) {
        const char text[] = {(char)(pair >> 8), (char)pair};
        uint8_t coded[8];
        char out[16 + UVHTTP__HUFFMAN_SLACK];
        expect_decoded((const uint8_t *)text, 2);
        for (size_t size = 1; size <= 2; size++) {
            size_t coded_size = (size_t)(uvhttp__huffman_encode(text, size, coded) - coded);
            assert_int_equal(coded_size, uvhttp__huffman_size(text, size));
            uvhttp__huffman_text_t decoded = uvhttp__huffman_decode(coded, coded_size, out);
            assert_non_null(decoded.end);
            assert_int_equal(decoded.end - out, size);
            assert_memory_equal(out, text, size);
        }
    }
}

int main(void) {
    return RUN_TESTS(test_every_integer_however_it_is_written, test_every_integer_that_is_written,
                     test_every_sequence_of_insertions_and_sizes, test_every_size_of_text_goes_round_the_ring,
                     test_the_code_is_complete, test_every_byte_in_every_state_at_every_place,
                     test_every_text_of_two_bytes_and_what_is_read_of_every_two);
}
