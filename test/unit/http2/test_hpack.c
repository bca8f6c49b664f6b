/* Owns: tests of header compression: the examples of RFC 7541 appendix C, each error, evictions and limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http2/hpack.h"
#include "support/failing_allocator.h"

enum { LIST_MAX = 16384, LINES_MAX = 65536 };

static char scratch[LIST_MAX + UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK];
static char lines[LINES_MAX]; /* "name: value\n" of the last block */

static size_t from_hex(const char *hex, uint8_t *out) {
    size_t size = 0;
    for (unsigned byte; *hex; hex += 2) {
        while (*hex == ' ') ++hex;
        if (!*hex || sscanf(hex, "%2x", &byte) != 1) break;
        out[size++] = (uint8_t)byte;
    }
    return size;
}

static int decode_limited(uvhttp__hpack_decoder_t *decoder, const uint8_t *block, size_t size, uint32_t list_max) {
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_field_t field;
    char *out = lines;
    uint8_t *exact = malloc(size + (size == 0)); /* so that a read behind the end is seen */
    memcpy(exact, block, size);
    int status = uvhttp__hpack_read(&reader, decoder, exact, size, scratch, list_max);
    while (status == 0 && (status = uvhttp__hpack_read_next(&reader, &field)) == 0)
        if (out < lines + LINES_MAX - LIST_MAX)
            out += sprintf(out, "%.*s: %.*s\n", (int)field.name_size, field.text, (int)field.value_size,
                           field.text + field.name_size);
    *out = '\0';
    free(exact);
    return status == UVHTTP_E_EOF ? 0 : status;
}

static int decode(uvhttp__hpack_decoder_t *decoder, const char *hex) {
    static uint8_t block[LIST_MAX];
    return decode_limited(decoder, block, from_hex(hex, block), LIST_MAX);
}

static void expect(uvhttp__hpack_decoder_t *decoder, const char *hex, const char *fields, unsigned table_size) {
    assert_int_equal(decode(decoder, hex), 0);
    assert_string_equal(lines, fields);
    assert_int_equal(decoder->table.size, table_size);
}

/* A decoder that is thrown away. */
static int code_of(const char *hex) {
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    int status = decode(&decoder, hex);
    uvhttp__hpack_decoder_deinit(&decoder);
    return status;
}

/* --- RFC 7541 appendix C --- */

static void test_rfc7541_c2_single_fields(void **state) {
    (void)state;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    expect(&decoder, "400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key: custom-header\n", 55);
    expect(&decoder, "040c2f73616d706c652f70617468", ":path: /sample/path\n", 55);
    expect(&decoder, "100870617373776f726406736563726574", "password: secret\n", 55);
    expect(&decoder, "82", ":method: GET\n", 55);
    uvhttp__hpack_decoder_deinit(&decoder);
}

#define C_REQUEST_1 ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n"
#define C_REQUEST_2 C_REQUEST_1 "cache-control: no-cache\n"
#define C_REQUEST_3                                                                                                    \
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n"

static void test_rfc7541_c3_requests(void **state) {
    (void)state;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    expect(&decoder, "828684410f7777772e6578616d706c652e636f6d", C_REQUEST_1, 57);
    expect(&decoder, "828684be58086e6f2d6361636865", C_REQUEST_2, 110);
    expect(&decoder, "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", C_REQUEST_3, 164);
    uvhttp__hpack_decoder_deinit(&decoder);
}

static void test_rfc7541_c4_requests_with_huffman(void **state) {
    (void)state;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    expect(&decoder, "828684418cf1e3c2e5f23a6ba0ab90f4ff", C_REQUEST_1, 57);
    expect(&decoder, "828684be5886a8eb10649cbf", C_REQUEST_2, 110);
    expect(&decoder, "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", C_REQUEST_3, 164);
    uvhttp__hpack_decoder_deinit(&decoder);
}

#define C_RESPONSE_1                                                                                                   \
    ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n"
#define C_RESPONSE_2                                                                                                   \
    ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n"
#define C_RESPONSE_3                                                                                                   \
    ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\n"   \
    "content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n"

static void test_rfc7541_c5_responses_with_evictions(void **state) {
    (void)state;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    uvhttp__hpack_decoder_set_limit(&decoder, 256);
    expect(&decoder,
           "3fe101 4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e17687474"
           "70733a2f2f7777772e6578616d706c652e636f6d",
           C_RESPONSE_1, 222);
    expect(&decoder, "4803333037c1c0bf", C_RESPONSE_2, 222);
    expect(&decoder,
           "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b4851"
           "4b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
           C_RESPONSE_3, 215);
    uvhttp__hpack_decoder_deinit(&decoder);
}

static void test_rfc7541_c6_responses_with_huffman(void **state) {
    (void)state;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    uvhttp__hpack_decoder_set_limit(&decoder, 256);
    expect(&decoder,
           "3fe101 488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae"
           "82ae43d3",
           C_RESPONSE_1, 222);
    expect(&decoder, "4883640effc1c0bf", C_RESPONSE_2, 222);
    expect(&decoder,
           "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27"
           "087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
           C_RESPONSE_3, 215);
    uvhttp__hpack_decoder_deinit(&decoder);
}

/* --- errors --- */

static void test_indexes_of_no_entry(void **state) {
    (void)state;
    assert_int_equal(code_of("80"), UVHTTP_E_HPACK_INDEX);
    assert_int_equal(code_of("be"), UVHTTP_E_HPACK_INDEX);
    assert_int_equal(code_of("bd"), 0); /* 61 */
    assert_int_equal(code_of("ff00"), UVHTTP_E_HPACK_INDEX);
    assert_int_equal(code_of("7e0161"), UVHTTP_E_HPACK_INDEX); /* the name of a literal */
    assert_int_equal(code_of("0f2f0161"), UVHTTP_E_HPACK_INDEX);
    assert_int_equal(code_of("ffffffffff0f"), UVHTTP_E_HPACK_INTEGER);
    assert_int_equal(code_of("ff80ffffff0f"), UVHTTP_E_HPACK_INDEX); /* 2^32 - 1 */
}

static void test_integers_cut_short_or_too_large(void **state) {
    (void)state;
    assert_int_equal(code_of("ff"), UVHTTP_E_HPACK_INTEGER);
    assert_int_equal(code_of("ff80"), UVHTTP_E_HPACK_INTEGER);
    assert_int_equal(code_of("ff81ffffff0f"), UVHTTP_E_HPACK_INTEGER); /* 2^32 */
    assert_int_equal(code_of("ff808080808000"), UVHTTP_E_HPACK_INTEGER);
    assert_int_equal(code_of("007f80"), UVHTTP_E_HPACK_INTEGER);
    assert_int_equal(code_of("3f"), UVHTTP_E_HPACK_INTEGER);
}

static void test_strings_cut_short(void **state) {
    (void)state;
    static const char *const blocks[] = {"00",       "40",         "0001", "000161",
                                         "00016102", "0001610261", "0461", "007fffffff07"};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; ++i)
        assert_int_equal(code_of(blocks[i]), UVHTTP_E_HPACK_STRING);
}

static void test_huffman_padding_and_eos(void **state) {
    (void)state;
    assert_int_equal(code_of("048107"), 0);                              /* '0' and 3 bits */
    assert_int_equal(code_of("048106"), UVHTTP_E_HPACK_HUFFMAN);         /* padding that is not of ones */
    assert_int_equal(code_of("048207ff"), UVHTTP_E_HPACK_HUFFMAN);       /* padding of 11 bits */
    assert_int_equal(code_of("0481ff"), UVHTTP_E_HPACK_HUFFMAN);         /* of 8 */
    assert_int_equal(code_of("0484ffffffff"), UVHTTP_E_HPACK_HUFFMAN);   /* EOS */
    assert_int_equal(code_of("048500ffffffff"), UVHTTP_E_HPACK_HUFFMAN); /* behind a character */
    assert_int_equal(code_of("0480"), 0);
    /* The same behind what is decoded in large steps: 29 times '0', and padding of 7 and of 15 bits. */
    assert_int_equal(code_of("0493 000000000000000000000000000000000000 7f"), 0);
    assert_int_equal(code_of("0494 000000000000000000000000000000000000 7fff"), UVHTTP_E_HPACK_HUFFMAN);
}

static void test_size_updates(void **state) {
    (void)state;
    assert_int_equal(code_of("20"), 0);
    assert_int_equal(code_of("203fe11f82"), 0); /* 0, then 4096 */
    assert_int_equal(code_of("20203fe11f82"), UVHTTP_E_HPACK_TABLE_SIZE);
    assert_int_equal(code_of("3fe21f"), UVHTTP_E_HPACK_TABLE_SIZE); /* 4097 */
    assert_int_equal(code_of("8220"), UVHTTP_E_HPACK_TABLE_SIZE);
    assert_int_equal(code_of("3fffffffff1f"), UVHTTP_E_HPACK_INTEGER);
}

static void test_size_update_that_is_due(void **state) {
    (void)state;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    uvhttp__hpack_decoder_set_limit(&decoder, 100);
    assert_int_equal(decode(&decoder, "82"), UVHTTP_E_HPACK_TABLE_SIZE);
    assert_int_equal(decode(&decoder, "3f4682"), UVHTTP_E_HPACK_TABLE_SIZE); /* 101 */
    assert_int_equal(decode(&decoder, "3f4582"), 0);
    assert_int_equal(decode(&decoder, "82"), 0);
    uvhttp__hpack_decoder_set_limit(&decoder, 4096);
    assert_int_equal(decode(&decoder, "82"), 0); /* a raise need not be used */
    assert_int_equal(decode(&decoder, "3fe11f82"), 0);
    /* Lowered and raised at once: the lowest has to be said first. */
    uvhttp__hpack_decoder_set_limit(&decoder, 64);
    uvhttp__hpack_decoder_set_limit(&decoder, 4096);
    assert_int_equal(decode(&decoder, "3fe11f82"), UVHTTP_E_HPACK_TABLE_SIZE);
    assert_int_equal(decode(&decoder, "3f313f2182"), UVHTTP_E_HPACK_TABLE_SIZE); /* 80, then 64 */
    assert_int_equal(decode(&decoder, "3f213fe11f82"), 0);
    /* A table that is smaller already need not be resized. */
    assert_int_equal(decode(&decoder, "2082"), 0);
    uvhttp__hpack_decoder_set_limit(&decoder, 64);
    uvhttp__hpack_decoder_set_limit(&decoder, 4096);
    assert_int_equal(decode(&decoder, "3fe11f82"), 0);
    uvhttp__hpack_decoder_deinit(&decoder);
}

/* --- the table --- */

/* A literal with indexing: a name of one letter, a value of `size` bytes. */
static size_t put_literal(uint8_t *out, char name, char fill, size_t size) {
    uint8_t *start = out;
    *out++ = 0x40;
    *out++ = 1;
    *out++ = (uint8_t)name;
    if (size < 127) {
        *out++ = (uint8_t)size;
    } else {
        *out++ = 127;
        for (size -= 127; size >= 128; size >>= 7) *out++ = (uint8_t)(size | 0x80);
        *out++ = (uint8_t)size;
        size = 0;
        for (const uint8_t *at = start + 4; at < out; ++at) size += (size_t)(*at & 0x7f) << (7 * (at - start - 4));
        size += 127;
    }
    memset(out, fill, size);
    return (size_t)(out + size - start);
}

static void test_entry_larger_than_the_table_empties_it(void **state) {
    (void)state;
    static uint8_t block[8192];
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    assert_int_equal(decode(&decoder, "4001610162"), 0);
    assert_int_equal(decoder.table.count, 1);
    assert_int_equal(decode_limited(&decoder, block, put_literal(block, 'a', 'v', 4096 - 33), LIST_MAX), 0);
    assert_int_equal(decoder.table.count, 1);
    assert_int_equal(decoder.table.size, 4096);
    assert_int_equal(decode_limited(&decoder, block, put_literal(block, 'a', 'v', 4096 - 32), LIST_MAX), 0);
    assert_int_equal(decoder.table.count, 0);
    assert_int_equal(decoder.table.size, 0);
    uvhttp__hpack_decoder_deinit(&decoder);
}

/* The name of the entry that its own insertion evicts (RFC 7541 section 4.4). */
static void test_name_of_an_entry_that_is_evicted(void **state) {
    (void)state;
    static uint8_t block[8192];
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    assert_int_equal(decode_limited(&decoder, block, put_literal(block, 'q', 'v', 4000), LIST_MAX), 0);
    assert_int_equal(decode(&decoder, "7e7f00" /* 127 bytes */
                                      "61616161616161616161616161616161616161616161616161616161616161616161616161616161"
                                      "61616161616161616161616161616161616161616161616161616161616161616161616161616161"
                                      "61616161616161616161616161616161616161616161616161616161616161616161616161616161"
                                      "61616161616161"),
                     0);
    assert_int_equal(strncmp(lines, "q: aaa", 6), 0);
    assert_int_equal(decoder.table.count, 1);
    expect(&decoder, "7e0162", "q: b\n", 33 + 127 + 34);
    uvhttp__hpack_decoder_deinit(&decoder);
}

/* Entries of all sizes go round the rings many times; what the table has is compared with a list of what was sent. */
static void test_table_keeps_the_newest_entries(void **state) {
    (void)state;
    enum { ROUNDS = 3000 };
    static uint8_t block[8192];
    static struct {
        char name, fill;
        size_t size;
    } sent[ROUNDS];
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    uint32_t random = 1;
    for (unsigned n = 0; n < ROUNDS; ++n) {
        random = random * 1664525 + 1013904223;
        sent[n].name = (char)('a' + n % 26);
        sent[n].fill = (char)('A' + n % 57);
        sent[n].size = (random >> 8) % 7 == 0 ? (random >> 12) % 1500 : (random >> 12) % 40;
        size_t size = put_literal(block, sent[n].name, sent[n].fill, sent[n].size);
        assert_int_equal(decode_limited(&decoder, block, size, LIST_MAX), 0);
        unsigned age = (random >> 20) % decoder.table.count, expected = 0, total = 0;
        while (expected <= n && total + sent[n - expected].size + 33 <= 4096)
            total += (unsigned)sent[n - expected++].size + 33;
        assert_int_equal(decoder.table.count, expected);
        assert_int_equal(decoder.table.size, total);
        uint8_t index[3] = {0xff, (uint8_t)(62 + age - 127), 0};
        size_t index_size = 2;
        if (62 + age < 127) index[0] = (uint8_t)(0x80 | (62 + age)), index_size = 1;
        assert_int_equal(decode_limited(&decoder, index, index_size, LIST_MAX), 0);
        assert_int_equal(lines[0], sent[n - age].name);
        assert_int_equal(strlen(lines), sent[n - age].size + 4);
        for (size_t i = 0; i < sent[n - age].size; ++i) assert_int_equal(lines[3 + i], sent[n - age].fill);
    }
    uvhttp__hpack_decoder_deinit(&decoder);
}

/* --- limits --- */

static void test_list_above_its_limit_is_decoded_to_the_end(void **state) {
    (void)state;
    uint8_t block[64];
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    size_t size = from_hex("82 4001610162 4001630164", block);
    assert_int_equal(decode_limited(&decoder, block, size, 42 + 34 + 33), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    assert_string_equal(lines, ":method: GET\na: b\n");
    assert_int_equal(decode_limited(&decoder, block, size, 42 + 34 + 34), 0);
    assert_int_equal(decode_limited(&decoder, block, size, 41), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    assert_string_equal(lines, "");
    assert_int_equal(decoder.table.count, 6);
    expect(&decoder, "be", "c: d\n", 6 * 34);
    /* A fault behind the limit is one. */
    size = from_hex("82828280", block);
    assert_int_equal(decode_limited(&decoder, block, size, 10), UVHTTP_E_HPACK_INDEX);
    uvhttp__hpack_decoder_deinit(&decoder);
}

static void test_strings_above_the_limit_are_checked(void **state) {
    (void)state;
    static uint8_t block[20000];
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    size_t head = from_hex("400161 ff 81 7d", block); /* 127 + 16001 bytes of Huffman code */
    memset(block + head, 0, 16128);                   /* "000..." of 5 bits each */
    block[head + 16127] = 0x0f;
    assert_int_equal(decode_limited(&decoder, block, head + 16128, 100), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    assert_int_equal(decoder.table.count, 0);
    block[head + 16127] = 0x06;
    assert_int_equal(decode_limited(&decoder, block, head + 16128, 100), UVHTTP_E_HPACK_HUFFMAN);
    memset(block + head + 8000, 0xff, 4);
    assert_int_equal(decode_limited(&decoder, block, head + 16128, 100), UVHTTP_E_HPACK_HUFFMAN);
    uvhttp__hpack_decoder_deinit(&decoder);
}

/* Names and values that are longer than the memory for text; the last only might have been. */
static void test_strings_that_do_not_fit(void **state) {
    (void)state;
    static const struct {
        const char *before, *head; /* head: of a string of 5000 bytes, or of 3000 that are Huffman code */
        int byte;
        unsigned size, entries;
    } cases[] = {
        {"00", "7f8926", 'n', 5000, 1},      {"000161", "7f8926", 'v', 5000, 1}, {"40", "7f8926", 'n', 5000, 0},
        {"400161", "7f8926", 'v', 5000, 0},  {"41", "7f8926", 'v', 5000, 0},     {"400161", "ffb916", 0xfc, 3000, 2},
        {"000161", "ffb916", 0xfc, 3000, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        static uint8_t block[6000];
        uvhttp__hpack_decoder_t decoder;
        uvhttp__hpack_decoder_init(&decoder);
        assert_int_equal(uvhttp__hpack_decoder_memory(&decoder), 0);
        expect(&decoder, "4001780179", "x: y\n", 34);
        size_t size = from_hex(cases[i].before, block);
        size += from_hex(cases[i].head, block + size);
        memset(block + size, cases[i].byte, cases[i].size);
        size += cases[i].size;
        if (cases[i].byte == 'n') size += from_hex("0162", block + size); /* its value */
        assert_int_equal(decode_limited(&decoder, block, size, 100), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
        assert_string_equal(lines, "");
        assert_int_equal(decoder.table.count, cases[i].entries);
        uvhttp__hpack_decoder_deinit(&decoder);
    }
}

/* A table that cannot grow ends the connection, unless memory is there when it is tried again. */
static void decode_without_memory(void *user) {
    uint8_t block[64];
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    size_t size = from_hex(user, block);
    int status = decode_limited(&decoder, block, size, LIST_MAX);
    assert_true(status == 0 || (status == UVHTTP_E_NOMEM && test_allocator_failed()));
    if (status == 0) assert_int_equal(decoder.table.count, 6);
    uvhttp__hpack_decoder_deinit(&decoder);
}

static void test_a_table_without_memory(void **state) {
    (void)state;
    static const char *const blocks[] = {"400161016240016301644001650166400167016840016901 6a40016b016c",
                                         "510161510162510163510164510165510166"};
    for (size_t i = 0; i < 2; ++i) {
        assert_true(test_allocator_each_failure(decode_without_memory, (void *)(uintptr_t)blocks[i]) >= 2);
        uint8_t block[64];
        uvhttp__hpack_decoder_t decoder;
        uvhttp__hpack_decoder_init(&decoder);
        test_allocator_fail_from(1);
        assert_int_equal(decode_limited(&decoder, block, from_hex(blocks[i], block), LIST_MAX), UVHTTP_E_NOMEM);
        test_allocator_fail_at(0);
        assert_int_equal(decoder.table.count, 0);
        uvhttp__hpack_decoder_deinit(&decoder);
    }
}

/* One byte of a bomb becomes 4 KiB: what is decoded stays within the limit. */
/* The memory for text is what is promised to be enough, and not a byte behind it is written. */
static void test_a_long_name_of_the_table_with_a_value_stays_in_the_memory(void **state) {
    (void)state;
    enum { NAME_SIZE = 4000, SCRATCH_SIZE = UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK, GUARD = 1024 };
    static char memory[SCRATCH_SIZE + GUARD], guard[GUARD];
    static uint8_t insertion[NAME_SIZE + 8], literal[3 + 0x7e];
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_decoder_init(&decoder);
    size_t size = from_hex("40 7fa11e", insertion); /* 127 + 3873 */
    memset(insertion + size, 'a', NAME_SIZE);
    assert_int_equal(decode_limited(&decoder, insertion, size + NAME_SIZE + 1, LIST_MAX), 0);
    assert_int_equal(decoder.table.count, 1);
    from_hex("0f 2f fe", literal); /* name 62, 126 bytes of Huffman code: 201 times '0' */
    literal[sizeof literal - 1] = 0x07;
    memset(guard, 0x5a, sizeof guard);
    memset(memory, 0x5a, sizeof memory);
    assert_int_equal(uvhttp__hpack_scratch_size(0), SCRATCH_SIZE);
    assert_int_equal(uvhttp__hpack_read(&reader, &decoder, literal, sizeof literal, memory, 0), 0);
    assert_int_equal(uvhttp__hpack_read_rest(&reader), 0);
    assert_memory_equal(memory + SCRATCH_SIZE, guard, GUARD);
    uvhttp__hpack_decoder_deinit(&decoder);
}

static void test_bomb_is_bounded_by_the_list_limit(void **state) {
    (void)state;
    static uint8_t block[10000];
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_decoder_init(&decoder);
    size_t size = put_literal(block, 'a', 'v', 4000);
    memset(block + size, 0xbe, 5000);
    assert_int_equal(decode_limited(&decoder, block, size + 5000, LIST_MAX), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    assert_true(strlen(lines) <= LIST_MAX);
    uvhttp__hpack_decoder_deinit(&decoder);
}

static void test_facts_are_remembered(void **state) {
    (void)state;
    static const struct {
        const char *hex;
        unsigned facts;
    } cases[] = {
        {"4001610162", UVHTTP__HPACK_PLAIN_FIELD},
        {"4001410162", UVHTTP__HPACK_BAD_NAME},
        {"40000162", UVHTTP__HPACK_BAD_NAME},
        {"400161020d62", UVHTTP__HPACK_BAD_VALUE},
        {"400161022062", UVHTTP__HPACK_BAD_VALUE},
        {"400161026209", UVHTTP__HPACK_BAD_VALUE},
        {"40016103620962", UVHTTP__HPACK_PLAIN_FIELD},
        {"410161", UVHTTP__HPACK_GOOD_PSEUDO},
        {"4103614061", 0}, /* user@host */
        {"4003666f6f00", UVHTTP__HPACK_PLAIN_FIELD},
        {"4002746500", 0}, /* te */
        {"44022f61", UVHTTP__HPACK_GOOD_PSEUDO},
        {"44032f3f61", UVHTTP__HPACK_GOOD_PSEUDO | UVHTTP__HPACK_QUERY},
        {"44042f3f2561", 0}, /* a query with '%', a fragment, "//", "/." */
        {"44042f3f2361", 0},
        {"44032f2f61", 0},
        {"44032f2e61", 0},
        {"44032f7f61", UVHTTP__HPACK_BAD_VALUE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        uint8_t block[32];
        uvhttp__hpack_decoder_t decoder;
        uvhttp__hpack_reader_t reader;
        uvhttp__hpack_field_t field;
        uvhttp__hpack_decoder_init(&decoder);
        size_t size = from_hex(cases[i].hex, block);
        {
            assert_int_equal(uvhttp__hpack_read(&reader, &decoder, block, size, scratch, LIST_MAX), 0);
            assert_int_equal(uvhttp__hpack_read_next(&reader, &field), 0);
            assert_int_equal(field.facts, cases[i].facts);
            assert_int_equal(uvhttp__hpack_read(&reader, &decoder, "\xbe", 1, scratch, LIST_MAX), 0);
            assert_int_equal(uvhttp__hpack_read_next(&reader, &field), 0);
            assert_int_equal(field.facts, cases[i].facts);
        }
        uvhttp__hpack_decoder_deinit(&decoder);
    }
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc7541_c2_single_fields),
        cmocka_unit_test(test_rfc7541_c3_requests),
        cmocka_unit_test(test_rfc7541_c4_requests_with_huffman),
        cmocka_unit_test(test_rfc7541_c5_responses_with_evictions),
        cmocka_unit_test(test_rfc7541_c6_responses_with_huffman),
        cmocka_unit_test(test_indexes_of_no_entry),
        cmocka_unit_test(test_integers_cut_short_or_too_large),
        cmocka_unit_test(test_strings_cut_short),
        cmocka_unit_test(test_huffman_padding_and_eos),
        cmocka_unit_test(test_size_updates),
        cmocka_unit_test(test_size_update_that_is_due),
        cmocka_unit_test(test_entry_larger_than_the_table_empties_it),
        cmocka_unit_test(test_name_of_an_entry_that_is_evicted),
        cmocka_unit_test(test_table_keeps_the_newest_entries),
        cmocka_unit_test(test_list_above_its_limit_is_decoded_to_the_end),
        cmocka_unit_test(test_strings_above_the_limit_are_checked),
        cmocka_unit_test(test_strings_that_do_not_fit),
        cmocka_unit_test(test_a_table_without_memory),
        cmocka_unit_test(test_a_long_name_of_the_table_with_a_value_stays_in_the_memory),
        cmocka_unit_test(test_bomb_is_bounded_by_the_list_limit),
        cmocka_unit_test(test_facts_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
