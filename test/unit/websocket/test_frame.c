/* Owns: tests of the frame parser and writer: every vector at every split point, before an unmapped page. */
/* Needs: websocket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/run.h"
#include "websocket/frame.h"

/* What a stream of frames came to: "1.5:hello" for each frame (FIN opcode), then the code that ended it. */
typedef struct outcome {
    char text[512];
    size_t size;
    int code;
    size_t consumed;
} outcome_t;

static void note(outcome_t *out, const char *data, size_t size) {
    assert_true(out->size + size < sizeof out->text);
    if (size > 0) memcpy(out->text + out->size, data, size);
    out->size += size;
    out->text[out->size] = '\0';
}

/* Feeds one piece of input, which it unmasks; false: an error. */
static bool feed(uvhttp__ws_parser_t *parser, char *data, size_t size, outcome_t *out) {
    size_t at = 0;
    for (;;) {
        uvhttp__ws_piece_t piece;
        size_t consumed;
        out->code = uvhttp__ws_parse(parser, data + at, size - at, &consumed, &piece);
        at += consumed;
        out->consumed += consumed;
        assert_true(at <= size);
        if (out->code == UVHTTP_E_AGAIN) {
            assert_int_equal(at, size);
            return true;
        }
        if (out->code != UVHTTP_OK) {
            size_t unused;
            assert_int_equal(uvhttp__ws_parse(parser, data, size, &unused, &piece), out->code);
            return false;
        }
        assert_true(piece.data + piece.size <= data + size);
        if (piece.first) note(out, piece.fin ? "<1" : "<0", 2);
        if (piece.first) note(out, &"0123456789abcdef"[piece.opcode], 1);
        if (piece.first) note(out, piece.compressed ? "*:" : ":", piece.compressed ? 2 : 1);
        note(out, piece.data, piece.size);
        if (piece.last) note(out, ">", 1);
    }
}

/* Pieces end at an unmapped page, so that reading or writing beyond one is seen. */
static char *page_end(void) {
    static char *end;
    if (!end) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(pages, MAP_FAILED);
        assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
        end = pages + page;
    }
    return end;
}

static bool feed_copy(uvhttp__ws_parser_t *parser, const char *data, size_t size, outcome_t *out) {
    char *copy = page_end() - size;
    if (size > 0) memcpy(copy, data, size);
    return feed(parser, copy, size, out);
}

static void expect(uint8_t allowed, const char *data, size_t size, const char *text, int code, size_t consumed) {
    for (size_t first = 0; first <= size; first++) {
        for (size_t second = first; second <= size; second++) {
            uvhttp__ws_parser_t parser = {.allowed = allowed};
            outcome_t out = {0};
            if (feed_copy(&parser, data, first, &out) && feed_copy(&parser, data + first, second - first, &out))
                (void)feed_copy(&parser, data + second, size - second, &out);
            if (strcmp(out.text, text) != 0 || out.code != code || out.consumed != consumed)
                fail_msg("cut at %zu and %zu: \"%s\", code %d, %zu bytes; expected \"%s\", %d, %zu", first, second,
                         out.text, out.code, out.consumed, text, code, consumed);
        }
    }
}
#define EXPECT(bytes, text, code, consumed) expect(0, (bytes), sizeof(bytes) - 1, (text), (code), (consumed))
#define EXPECT_COMPRESSED(bytes, text, code, consumed)                                                                 \
    expect(UVHTTP__WS_COMPRESSED, (bytes), sizeof(bytes) - 1, (text), (code), (consumed))

#define ZERO "\0\0\0\0" /* a mask that changes nothing */

static void test_the_examples_of_the_rfc(void **state) {
    (void)state;
    EXPECT("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "<11:Hello>", UVHTTP_E_AGAIN, 11);
    EXPECT("\x01\x83" ZERO "Hel\x80\x82" ZERO "lo", "<01:Hel><10:lo>", UVHTTP_E_AGAIN, 17);
    EXPECT("\x89\x85" ZERO "Hello\x8a\x85" ZERO "Hello", "<19:Hello><1a:Hello>", UVHTTP_E_AGAIN, 22);
    EXPECT("\x82\xfe\x00\x7e" ZERO "0123456789012345678901234567890123456789012345678901234567890123456789012345678901"
           "23456789012345678901234567890123456789abcdef",
           "<12:0123456789012345678901234567890123456789012345678901234567890123456789012345678901"
           "23456789012345678901234567890123456789abcdef>",
           UVHTTP_E_AGAIN, 8 + 126);
}

static void test_control_frames_stand_between_fragments(void **state) {
    (void)state;
    EXPECT("\x02\x81" ZERO "a\x89\x81" ZERO "p\x00\x80" ZERO "\x8a\x80" ZERO "\x80\x81" ZERO "b\x88\x80" ZERO,
           "<02:a><19:p><00:><1a:><10:b><18:>", UVHTTP_E_AGAIN, 39);
}

static void test_what_breaks_a_rule_is_refused_at_its_first_byte(void **state) {
    (void)state;
    EXPECT("\xc1\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT("\xa1\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT("\x91\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT("\x83\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT("\x87\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT("\x8b\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT("\x8f\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT("\x81\x05Hello", "", UVHTTP_E_WS_UNMASKED, 2);
    EXPECT("\x09\x80" ZERO, "", UVHTTP_E_WS_CONTROL, 1);
    EXPECT("\x08\x80" ZERO, "", UVHTTP_E_WS_CONTROL, 1);
    EXPECT("\x89\xfe\x00\x7e" ZERO, "", UVHTTP_E_WS_CONTROL, 2);
    EXPECT("\x88\xff" ZERO, "", UVHTTP_E_WS_CONTROL, 2);
    EXPECT("\x80\x80" ZERO, "", UVHTTP_E_WS_CONTINUATION, 1);
    EXPECT("\x01\x80" ZERO "\x81\x80" ZERO, "<01:>", UVHTTP_E_WS_CONTINUATION, 7);
    EXPECT("\x01\x80" ZERO "\x80\x80" ZERO "\x80\x80", "<01:><10:>", UVHTTP_E_WS_CONTINUATION, 13);
    EXPECT("\x82\xfe\x00\x7d" ZERO, "", UVHTTP_E_WS_LENGTH, 4);
    EXPECT("\x82\xff\x00\x00\x00\x00\x00\x00\xff\xff" ZERO, "", UVHTTP_E_WS_LENGTH, 10);
    EXPECT("\x82\xff\x80\x00\x00\x00\x00\x01\x00\x00" ZERO, "", UVHTTP_E_WS_LENGTH, 10);
}

static void test_only_the_first_frame_of_a_message_may_be_compressed(void **state) {
    (void)state;
    EXPECT_COMPRESSED("\xc1\x81" ZERO "a\x81\x81" ZERO "b", "<11*:a><11:b>", UVHTTP_E_AGAIN, 14);
    EXPECT_COMPRESSED("\x42\x80" ZERO "\x89\x80" ZERO "\x80\x81" ZERO "c", "<02*:><19:><10:c>", UVHTTP_E_AGAIN, 19);
    EXPECT_COMPRESSED("\x41\x80" ZERO "\xc0\x80" ZERO, "<01*:>", UVHTTP_E_WS_RESERVED, 7);
    EXPECT_COMPRESSED("\xc9\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT_COMPRESSED("\xc8\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT_COMPRESSED("\xe1\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT_COMPRESSED("\xd1\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
    EXPECT_COMPRESSED("\xc3\x80" ZERO, "", UVHTTP_E_WS_RESERVED, 1);
}

static void test_lengths_up_to_63_bits_are_read(void **state) {
    (void)state;
    static const struct {
        const char *head;
        size_t size;
        uint64_t length;
    } heads[] = {{"\x82\xfd" ZERO, 6, 125},
                 {"\x82\xfe\x00\x7e" ZERO, 8, 126},
                 {"\x82\xfe\xff\xff" ZERO, 8, 65535},
                 {"\x82\xff\0\0\0\0\0\1\0\0" ZERO, 14, 65536},
                 {"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff" ZERO, 14, UINT64_MAX >> 1}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char copy[14];
        memcpy(copy, heads[i].head, heads[i].size);
        uvhttp__ws_parser_t parser = {0};
        uvhttp__ws_piece_t piece;
        size_t consumed;
        assert_int_equal(uvhttp__ws_parse(&parser, copy, heads[i].size, &consumed, &piece), UVHTTP_OK);
        assert_true(piece.frame_size == heads[i].length);
        assert_true(piece.first && !piece.last && piece.size == 0);
    }
}

static void test_masking_agrees_with_one_byte_at_a_time(void **state) {
    (void)state;
    static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    char data[100], expected[100];
    for (size_t size = 0; size <= sizeof data; size++) {
        for (unsigned at = 0; at < 4; at++) {
            for (size_t i = 0; i < size; i++) {
                data[i] = (char)(i * 7 + size);
                expected[i] = (char)(data[i] ^ mask[(at + i) & 3]);
            }
            char *copy = page_end() - size;
            memcpy(copy, data, size);
            uvhttp__ws_mask(copy, size, mask, at);
            assert_memory_equal(copy, expected, size);
        }
    }
}

static void test_heads_are_written_as_short_as_can_be(void **state) {
    (void)state;
    char out[UVHTTP__WS_SERVER_HEAD_MAX];
    assert_int_equal(uvhttp__ws_write_head(out, true, UVHTTP__WS_TEXT, 125), 2);
    assert_memory_equal(out, "\x81\x7d", 2);
    assert_int_equal(uvhttp__ws_write_head(out, false, UVHTTP__WS_BINARY, 126), 4);
    assert_memory_equal(out, "\x02\x7e\x00\x7e", 4);
    assert_int_equal(uvhttp__ws_write_head(out, true, UVHTTP__WS_BINARY, 65535), 4);
    assert_memory_equal(out, "\x82\x7e\xff\xff", 4);
    assert_int_equal(uvhttp__ws_write_head(out, true, UVHTTP__WS_BINARY, 65536), 10);
    assert_memory_equal(out, "\x82\x7f\0\0\0\0\0\1\0\0", 10);
    assert_int_equal(uvhttp__ws_write_head(out, true, UVHTTP__WS_BINARY, UINT64_MAX >> 1), 10);
    assert_memory_equal(out, "\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", 10);
}

static void test_close_codes_that_may_be_sent(void **state) {
    (void)state;
    static const unsigned good[] = {1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 3999, 4000, 4999};
    static const unsigned bad[] = {0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(uvhttp__ws_close_code_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(uvhttp__ws_close_code_valid(bad[i]));
}

static void test_close_payloads(void **state) {
    (void)state;
    uint16_t code;
    uvhttp_str_t reason;
    assert_int_equal(uvhttp__ws_read_close("", 0, &code, &reason), UVHTTP_OK);
    assert_int_equal(code, UVHTTP__WS_CLOSE_NO_CODE);
    assert_int_equal(reason.size, 0);
    assert_int_equal(uvhttp__ws_read_close("\x03", 1, &code, &reason), UVHTTP_E_WS_CLOSE);
    assert_int_equal(uvhttp__ws_read_close("\x03\xed", 2, &code, &reason), UVHTTP_E_WS_CLOSE);
    assert_int_equal(uvhttp__ws_read_close("\x03\xe8\xc3", 3, &code, &reason), UVHTTP_E_WS_UTF8);
    assert_int_equal(uvhttp__ws_read_close("\x03\xe8\xff", 3, &code, &reason), UVHTTP_E_WS_UTF8);
    assert_int_equal(uvhttp__ws_read_close("\x03\xe9"
                                           "bye",
                                           5, &code, &reason),
                     UVHTTP_OK);
    assert_int_equal(code, 1001);
    assert_int_equal(reason.size, 3);
    assert_memory_equal(reason.data, "bye", 3);
    char out[UVHTTP__WS_CONTROL_SIZE_MAX];
    assert_int_equal(uvhttp__ws_write_close(out, 1001, NULL, 0), 2);
    assert_memory_equal(out, "\x03\xe9", 2);
    assert_int_equal(uvhttp__ws_write_close(out, 1009, "big", 3), 5);
    assert_memory_equal(out,
                        "\x03\xf1"
                        "big",
                        5);
}

int main(void) {
    return RUN_TESTS(test_the_examples_of_the_rfc, test_control_frames_stand_between_fragments,
                     test_what_breaks_a_rule_is_refused_at_its_first_byte,
                     test_only_the_first_frame_of_a_message_may_be_compressed, test_lengths_up_to_63_bits_are_read,
                     test_masking_agrees_with_one_byte_at_a_time, test_heads_are_written_as_short_as_can_be,
                     test_close_codes_that_may_be_sent, test_close_payloads);
}
