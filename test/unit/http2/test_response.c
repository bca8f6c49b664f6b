/* Owns: tests of response heads, interim ones and trailer sections of HTTP/2, as libnghttp2 and we read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "hpack_oracle.h"
#include "http2/head_repeated.h"
#include "support/failing_allocator.h"

#define DATE_1 "Mon, 21 Oct 2013 20:13:21 GMT"
#define DATE_2 "Mon, 21 Oct 2013 20:13:22 GMT"

static uvhttp__hpack_encoder_t encoder;
static uvhttp__hpack_decoder_t decoder;
static nghttp2_hd_inflater *inflater;
static char lines[1 << 20];
static size_t block_size;
static bool repeated; /* what was written last */
static uint8_t first_byte;

static int set_up(void **state) {
    (void)state;
    uvhttp__hpack_encoder_init(&encoder);
    uvhttp__hpack_decoder_init(&decoder);
    return nghttp2_hd_inflate_new(&inflater);
}

static int tear_down(void **state) {
    (void)state;
    uvhttp__hpack_encoder_deinit(&encoder);
    uvhttp__hpack_decoder_deinit(&decoder);
    nghttp2_hd_inflate_del(inflater);
    return 0;
}

static const char *lines_of(const oracle_text_t *text) {
    char *out = lines;
    for (size_t at = 0; at < text->size;) {
        size_t sizes[2];
        const char *field = text->bytes + at + sizeof sizes;
        memcpy(sizes, text->bytes + at, sizeof sizes);
        out += sprintf(out, "%.*s: %.*s\n", (int)sizes[0], field, (int)sizes[1], field + sizes[0]);
        at += sizeof sizes + sizes[0] + sizes[1];
    }
    *out = '\0';
    return lines;
}

/* Writes the response into memory of the size that is promised, and reads it in both ways. What repeats is the same
 * block. */
static const char *write_response(const uvhttp__http2_response_t *response) {
    static oracle_text_t text;
    size_t size_max = uvhttp__http2_response_size_max(response);
    uint8_t *block = malloc(size_max), *repetition = malloc(size_max);
    size_t repeated_size;
    repeated = uvhttp__http2_repeat_response(&encoder, response, (char *)repetition, &repeated_size);
    block_size = uvhttp__http2_write_response(&encoder, response, (char *)block);
    assert_true(block_size <= size_max);
    if (repeated) {
        assert_int_equal(repeated_size, block_size);
        assert_memory_equal(repetition, block, block_size);
    }
    free(repetition);
    first_byte = block[0];
    oracle_ours(&decoder, block, block_size, &text);
    assert_int_equal(text.code, 0);
    static oracle_text_t theirs;
    oracle_theirs(inflater, block, block_size, &theirs);
    assert_int_equal(theirs.code, 0);
    assert_int_equal(theirs.size, text.size);
    assert_memory_equal(theirs.bytes, text.bytes, text.size);
    assert_int_equal(encoder.table.size, decoder.table.size);
    free(block);
    return lines_of(&text);
}

static uvhttp_str_t str(const char *text) {
    return (uvhttp_str_t){text, strlen(text)};
}

static uvhttp__http2_response_t plain(void) {
    return (uvhttp__http2_response_t){.status = 200,
                                      .content_type = str("text/plain"),
                                      .fields = str("Server: uvhttp\r\nX-Empty: \r\n"),
                                      .content_length = 13,
                                      .date = DATE_1,
                                      .date_id = 1};
}

#define PLAIN_1                                                                                                        \
    ":status: 200\ncontent-type: text/plain\nserver: uvhttp\nx-empty: \ndate: " DATE_1 "\ncontent-length: 13\n"
#define PLAIN_2                                                                                                        \
    ":status: 200\ncontent-type: text/plain\nserver: uvhttp\nx-empty: \ndate: " DATE_2 "\ncontent-length: 13\n"

static void test_responses_that_repeat_become_short(void **state) {
    (void)state;
    uvhttp__http2_response_t response = plain();
    for (int i = 0; i < 10; ++i) {
        assert_string_equal(write_response(&response), PLAIN_1);
        assert_int_equal(repeated, i >= 3); /* insertions, the block of indexes alone, and the date */
    }
    assert_int_equal(block_size, 4 + 1 + 5);
    uint32_t inserted = encoder.table.inserted;
    assert_string_equal(write_response(&response), PLAIN_1);
    assert_int_equal(encoder.table.inserted, inserted);
    response.date = DATE_2;
    response.date_id = 2;
    for (int i = 0; i < 10; ++i) assert_string_equal(write_response(&response), PLAIN_2);
    assert_int_equal(block_size, 4 + 1 + 5);
    response.content_length = 1234567;
    for (unsigned length = 0; length < 1200; ++length) {
        char line[40];
        sprintf(line, "content-length: %u\n", length);
        response.content_length = length;
        assert_non_null(strstr(write_response(&response), line));
        assert_true(repeated);
    }
    response.content_length = 1234567;
    assert_non_null(strstr(write_response(&response), "content-length: 1234567\n"));
}

/* One letter, in each part of what a block is remembered by. */
static void test_responses_that_differ_are_distinguished(void **state) {
    (void)state;
    uvhttp__http2_response_t response = plain();
    for (int i = 0; i < 4; ++i) write_response(&response);
    response.fields = str("Server: uvhttq\r\nX-Empty: \r\n");
    assert_non_null(strstr(write_response(&response), "server: uvhttq\n"));
    response = plain();
    response.content_type = str("text/plaim");
    assert_non_null(strstr(write_response(&response), "content-type: text/plaim\n"));
    response = plain();
    response.status = 204;
    assert_non_null(strstr(write_response(&response), ":status: 204\n"));
    response.status = 299;
    assert_non_null(strstr(write_response(&response), ":status: 299\n"));
    response = plain();
    assert_string_equal(write_response(&response), PLAIN_1);
}

static void test_statuses_of_the_static_table_are_one_byte(void **state) {
    (void)state;
    static const uint16_t statuses[] = {200, 204, 206, 304, 400, 404, 500};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; ++i) {
        char line[24];
        uvhttp__http2_response_t response = {.status = statuses[i], .content_length = UVHTTP__HTTP2_LENGTH_NONE};
        sprintf(line, ":status: %u\n", statuses[i]);
        assert_string_equal(write_response(&response), line);
        assert_int_equal(block_size, 1);
    }
    assert_int_equal(encoder.table.count, 0);
}

static void test_interim_heads_and_trailers(void **state) {
    (void)state;
    uvhttp__http2_response_t response = {.status = 100, .content_length = UVHTTP__HTTP2_LENGTH_NONE};
    for (int i = 0; i < 3; ++i) assert_string_equal(write_response(&response), ":status: 100\n");
    assert_int_equal(block_size, 1);
    response.status = 103;
    response.fields = str("Link: </a>\r\n");
    for (int i = 0; i < 3; ++i) assert_string_equal(write_response(&response), ":status: 103\nlink: </a>\n");
    assert_int_equal(block_size, 2);
    response.status = 0;
    response.fields = str("grpc-status: 0\r\n");
    for (int i = 0; i < 3; ++i) assert_string_equal(write_response(&response), "grpc-status: 0\n");
    assert_int_equal(block_size, 1);
}

static void test_fields_of_a_connection_are_left_out(void **state) {
    (void)state;
    uvhttp__http2_response_t response = {.status = 200,
                                         .fields = str("Connection: close\r\nA: b\r\nKeep-Alive: 1\r\nUpgrade: x\r\n"
                                                       "Proxy-Connection: 1\r\nTransfer-Encoding: chunked\r\n"),
                                         .content_length = UVHTTP__HTTP2_LENGTH_NONE};
    assert_string_equal(write_response(&response), ":status: 200\na: b\n");
}

static void test_secrets_are_never_indexed(void **state) {
    (void)state;
    uvhttp__http2_response_t response = {.fields = str("Set-Cookie: a=b\r\n"),
                                         .content_length = UVHTTP__HTTP2_LENGTH_NONE};
    for (int i = 0; i < 3; ++i) {
        assert_string_equal(write_response(&response), "set-cookie: a=b\n");
        assert_int_equal(first_byte, 0x1f);
    }
    assert_int_equal(encoder.table.count, 0);
}

/* A value that is new each time must not push out what repeats. */
static void test_values_that_change_are_soon_not_indexed(void **state) {
    (void)state;
    char fields[64];
    uvhttp__http2_response_t response = plain();
    for (uint64_t i = 0; i < 200; ++i) {
        sprintf(fields, "Server: uvhttp\r\nX-Id: %d\r\n", (int)i);
        response.fields = str(fields);
        write_response(&response);
    }
    assert_true(encoder.table.count < 14);
    assert_true(encoder.table.inserted < 14);
    /* Each second brings one more. */
    response.date_id = 2;
    for (uint64_t i = 0; i < 200; ++i) {
        sprintf(fields, "Server: uvhttp\r\nX-Id: a%d\r\n", (int)i);
        response.fields = str(fields);
        write_response(&response);
    }
    assert_true(encoder.table.inserted < 17);
}

/* What a connection with few requests holds, and what is found again when the table has become one of many entries. */
static void test_tables_hold_what_their_fields_need(void **state) {
    (void)state;
    uvhttp__http2_response_t response = plain();
    for (int i = 0; i < 3; ++i) write_response(&response);
    assert_int_equal(encoder.table.count, 4);
    assert_true(uvhttp__hpack_encoder_memory(&encoder) <= 384);
    assert_true(uvhttp__hpack_decoder_memory(&decoder) <= 192);
    response.fields = str("X-0: a\r\nX-1: a\r\nX-2: a\r\nX-3: a\r\nX-4: a\r\nX-5: a\r\nX-6: a\r\nX-7: a\r\n");
    for (int i = 0; i < 3; ++i) write_response(&response);
    uint32_t inserted = encoder.table.inserted;
    assert_true(inserted > 8);
    response = plain();
    assert_string_equal(write_response(&response), PLAIN_1);
    assert_int_equal(block_size, 4 + 1 + 5);
    assert_int_equal(encoder.table.inserted, inserted);
}

static void test_table_size_of_the_peer(void **state) {
    (void)state;
    uvhttp__http2_response_t response = plain();
    for (int i = 0; i < 5; ++i) write_response(&response);
    uvhttp__hpack_encoder_set_limit(&encoder, 65536); /* we keep ours, and say nothing */
    assert_string_equal(write_response(&response), PLAIN_1);
    assert_int_equal(first_byte, 0x88);
    static const uint32_t sizes[] = {0, 4096, 100, 300, 64, 1 << 20, 31, 30, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        uint32_t size = sizes[i] < 4096 ? sizes[i] : 4096;
        uvhttp__hpack_encoder_set_limit(&encoder, sizes[i]);
        uvhttp__hpack_decoder_set_limit(&decoder, size);
        assert_int_equal(nghttp2_hd_inflate_change_table_size(inflater, size), 0);
        for (int j = 0; j < 5; ++j) assert_string_equal(write_response(&response), PLAIN_1);
        assert_true(encoder.table.size <= size);
    }
    /* Several between two blocks: the lowest counts. */
    static const uint32_t steps[] = {2000, 0, 1000};
    for (size_t i = 0; i < 3; ++i) {
        uvhttp__hpack_encoder_set_limit(&encoder, steps[i]);
        uvhttp__hpack_decoder_set_limit(&decoder, steps[i]);
        assert_int_equal(nghttp2_hd_inflate_change_table_size(inflater, steps[i]), 0);
    }
    for (int j = 0; j < 5; ++j) assert_string_equal(write_response(&response), PLAIN_1);
    assert_int_equal(encoder.table.size_max, 1000);
}

/* Dates push everything out once a minute; a connection with a response a second has no table of them. */
static void test_many_seconds(void **state) {
    (void)state;
    uvhttp__http2_response_t response = plain();
    char date[] = DATE_1;
    response.date = date;
    for (unsigned i = 0; i < 600; ++i) {
        response.date_id = i + 1;
        sprintf(date, "Mon, 21 Oct 2013 20:%02u:%02u GMT", i / 60, i % 60);
        for (int j = 0; j < (i < 300 ? 4 : 1); ++j) {
            const char *text = write_response(&response);
            assert_non_null(strstr(text, date));
            assert_non_null(strstr(text, "server: uvhttp\nx-empty: \n"));
        }
    }
    assert_true(encoder.table.size <= 4096);
}

static void test_large_fields(void **state) {
    (void)state;
    static char fields[40000], type[300];
    memset(type, 't', sizeof type - 1);
    static const size_t sizes[] = {1, 100, 126, 127, 128, 254, 255, 1000, 2015, 2016, 4096, 16000, 39000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        size_t at = (size_t)sprintf(fields, "X-Large: ");
        memset(fields + at, i % 2 ? 'v' : '~', sizes[i]);
        strcpy(fields + at + sizes[i], "\r\n");
        uvhttp__http2_response_t response = plain();
        response.fields = str(fields);
        response.content_type = str(type);
        for (int j = 0; j < 3; ++j) {
            const char *text = write_response(&response);
            assert_int_equal(strlen(text), 13 + 15 + 299 + 9 + sizes[i] + 1 + 36 + 19);
        }
    }
}

/* What is remembered has a size; a block that is longer than its text is looked at again. */
/* So many fields come after the date that its index has two bytes. */
static void test_an_old_date_is_found(void **state) {
    (void)state;
    uvhttp__http2_response_t response = plain();
    char fields[32];
    for (unsigned i = 0; i < 80; ++i) {
        sprintf(fields, "X-%u: a\r\n", i);
        response.fields = str(fields);
        assert_non_null(strstr(write_response(&response), "date: " DATE_1 "\n"));
    }
    uint32_t age = encoder.table.inserted - 1 - encoder.date_entry;
    assert_true(encoder.date_indexed && age < encoder.table.count);
    assert_true(UVHTTP__HPACK_STATIC_COUNT + 1 + age >= 0x7f);
}

static void test_large_blocks_are_not_remembered(void **state) {
    (void)state;
    static char fields[2049];
    for (size_t size = 2046; size <= 2048; size += 2) { /* the block has two bytes more */
        memset(fields, '~', size);
        memcpy(fields, "x: ", 3);
        memcpy(fields + size - 2, "\r\n", 2);
        uvhttp__http2_response_t response = {.status = 200,
                                             .fields = {fields, size},
                                             .content_length = UVHTTP__HTTP2_LENGTH_NONE,
                                             .date = DATE_1,
                                             .date_id = 1};
        size_t before = uvhttp__hpack_encoder_memory(&encoder);
        for (int j = 0; j < 4; ++j) {
            const char *text = write_response(&response);
            assert_non_null(strstr(text, "x: ~~~"));
            assert_non_null(strstr(text, "date: " DATE_1 "\n"));
        }
        assert_int_equal(uvhttp__hpack_encoder_memory(&encoder) - before > size, size == 2046);
    }
}

/* Without memory less is indexed or remembered, and what is said is the same. */
static void write_without_memory(void *user) {
    static oracle_text_t text;
    uvhttp__hpack_encoder_t other;
    nghttp2_hd_inflater *reader;
    (void)user;
    assert_int_equal(nghttp2_hd_inflate_new(&reader), 0);
    uvhttp__hpack_encoder_init(&other);
    for (int i = 0; i < 40; ++i) { /* the first ten names come again, so that blocks are remembered */
        char fields[128], expected[256];
        uint8_t block[1024];
        uvhttp__http2_response_t response = plain();
        sprintf(fields, "X-%d: a\r\nX-Long: %.*s\r\n", i % 10, 20 + i % 10, "0123456789012345678901234567890123456789");
        sprintf(expected,
                ":status: 200\ncontent-type: text/plain\nx-%d: a\nx-long: %.*s\ndate: %s\ncontent-length: 13\n", i % 10,
                20 + i % 10, "0123456789012345678901234567890123456789", DATE_1);
        response.fields = str(fields);
        assert_true(uvhttp__http2_response_size_max(&response) <= sizeof block);
        oracle_theirs(reader, block, uvhttp__http2_write_response(&other, &response, (char *)block), &text);
        assert_int_equal(text.code, 0);
        assert_string_equal(lines_of(&text), expected);
    }
    uvhttp__hpack_encoder_deinit(&other);
    nghttp2_hd_inflate_del(reader);
}

static void test_without_memory_the_same_is_said(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(write_without_memory, NULL) > 10);
    /* None at all. */
    test_allocator_fail_from(1);
    write_without_memory(NULL);
    assert_true(test_allocator_failed());
    test_allocator_fail_at(0);
}

/* --- random fields, in both directions --- */

static uint32_t seed = 7;
static uint32_t next_random(uint32_t below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static void test_random_responses(void **state) {
    (void)state;
    static char fields[8192];
    static const char *const names[] = {"Server", "Cache-Control", "ETag", "Vary", "X-A", "X-B", "X-Long-Name", "Link"};
    for (int round = 0; round < 5000; ++round) {
        char *out = fields;
        for (uint32_t i = 0, count = next_random(8); i < count; ++i) {
            out += sprintf(out, "%s: ", names[next_random(8)]);
            uint32_t size = next_random(20) == 0 ? next_random(700) : next_random(4), first = next_random(4);
            for (uint32_t j = 0; j < size; ++j) *out++ = (char)(first == 0 ? 0x21 + next_random(0x5e) : 'a' + first);
            out += sprintf(out, "\r\n");
        }
        *out = '\0';
        uvhttp__http2_response_t response = plain();
        response.status = (uint16_t)(200 + next_random(4));
        response.fields = str(fields);
        response.date_id = 1 + (uint64_t)round / 10;
        if (next_random(50) == 0) {
            uint32_t size = next_random(2) ? 4096 : next_random(4096);
            uvhttp__hpack_encoder_set_limit(&encoder, size);
            uvhttp__hpack_decoder_set_limit(&decoder, size);
            assert_int_equal(nghttp2_hd_inflate_change_table_size(inflater, size), 0);
        }
        const char *text = write_response(&response);
        for (const char *line = fields; *line; line = strchr(line, '\n') + 1) {
            const char *colon = strchr(line, ':');
            char expected[1024];
            int size = sprintf(expected, "\n%.*s\n", (int)(strchr(line, '\r') - line), line);
            for (int i = 1; i <= colon - line; ++i)
                if (expected[i] >= 'A' && expected[i] <= 'Z') expected[i] = (char)(expected[i] | 0x20);
            (void)size;
            assert_non_null(strstr(text, expected));
        }
    }
}

/* Blocks of libnghttp2's encoder, whole and with faults: both read the same, or both refuse. */
static void test_random_blocks_against_libnghttp2(void **state) {
    (void)state;
    static uint8_t block[1 << 16];
    static char texts[64][512];
    static const char *const names[] = {":path", "cookie", "accept", "x-a", "x-b", "user-agent", "te", "x-long-name"};
    nghttp2_hd_deflater *deflater;
    assert_int_equal(nghttp2_hd_deflate_new(&deflater, 4096), 0);
    unsigned refused = 0;
    for (int round = 0; round < 30000; ++round) {
        nghttp2_nv fields[16];
        size_t count = 1 + next_random(15);
        for (size_t i = 0; i < count; ++i) {
            const char *name = names[next_random(8)];
            char *value = texts[i];
            uint32_t size = next_random(8) == 0 ? next_random(500) : next_random(30), kind = next_random(3);
            for (uint32_t j = 0; j < size; ++j)
                value[j] = (char)(kind == 0   ? 'a' + next_random(3)
                                  : kind == 1 ? 0x20 + next_random(95)
                                              : next_random(256));
            fields[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)value, strlen(name), size,
                                     (uint8_t)(next_random(4) == 0 ? NGHTTP2_NV_FLAG_NO_INDEX : 0)};
        }
        ssize_t size = nghttp2_hd_deflate_hd(deflater, block, sizeof block, fields, count);
        assert_true(size > 0);
        bool good, mutated = next_random(4) == 0;
        if (mutated)
            for (uint32_t i = 1 + next_random(3); i > 0; --i)
                block[next_random((uint32_t)size)] ^= (uint8_t)(1u << next_random(8));
        if (mutated && next_random(4) == 0) size = (ssize_t)next_random((uint32_t)size);
        const char *wrong = oracle_compare(&decoder, inflater, block, (size_t)size, &good);
        if (wrong) fail_msg("round %d: %s", round, wrong);
        assert_true(good || mutated);
        refused += !good;
        if (mutated) { /* the tables are not those of the encoder any more */
            nghttp2_hd_deflate_del(deflater);
            assert_int_equal(nghttp2_hd_deflate_new(&deflater, 4096), 0);
            tear_down(state);
            set_up(state);
        }
    }
    assert_true(refused > 1000);
    nghttp2_hd_deflate_del(deflater);
}

int main(void) {
    test_allocator_install();
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_responses_that_repeat_become_short),
        TEST(test_responses_that_differ_are_distinguished),
        TEST(test_statuses_of_the_static_table_are_one_byte),
        TEST(test_interim_heads_and_trailers),
        TEST(test_fields_of_a_connection_are_left_out),
        TEST(test_secrets_are_never_indexed),
        TEST(test_values_that_change_are_soon_not_indexed),
        TEST(test_tables_hold_what_their_fields_need),
        TEST(test_table_size_of_the_peer),
        TEST(test_many_seconds),
        TEST(test_large_fields),
        TEST(test_an_old_date_is_found),
        TEST(test_large_blocks_are_not_remembered),
        TEST(test_without_memory_the_same_is_said),
        TEST(test_random_responses),
        TEST(test_random_blocks_against_libnghttp2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
