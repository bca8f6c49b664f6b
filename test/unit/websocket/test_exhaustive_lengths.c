/* Owns: exhaustive checks of the length of a frame and of where its mask stands.
 *
 * There are three forms of a length. Of 7 and of 16 bits all values are gone through. A length of 64 bits is put
 * together byte by byte and compared with two bounds, so that all below 2^17 and those around each power of two are
 * enough; each in every form that can hold it, hence also in those that are too long. */
/* Needs: websocket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/boundaries.h"
#include "support/run.h"
#include "websocket/frame.h"

enum { FORMS = 3, HEAD_MAX = UVHTTP__WS_CLIENT_HEAD_MAX };

static const unsigned length_bytes[FORMS] = {0, 2, 8};

/* A head with a length in that form; the mask changes nothing. Returns its size. */
static size_t make_head(uint8_t first, unsigned form, uint64_t length, char out[HEAD_MAX]) {
    unsigned bytes = length_bytes[form];
    memset(out, 0, HEAD_MAX);
    out[0] = (char)first;
    out[1] = (char)(0x80 | (form == 0 ? length : form == 1 ? 126 : 127));
    for (unsigned i = 0; i < bytes; i++) out[1 + bytes - i] = (char)(length >> 8 * i & 0xff);
    return 2 + bytes + 4;
}

/* Section 5.2: the shortest form, and the top bit of 64 is 0. */
static bool may_stand(unsigned form, uint64_t length) {
    if (form == 0) return length <= 125;
    if (form == 1) return length >= 126;
    return length > 65535 && length <= INT64_MAX;
}

static void expect_head(unsigned form, uint64_t length, size_t cut) {
    char head[HEAD_MAX];
    size_t size = make_head(0x82, form, length, head), first, second = 0;
    uvhttp__ws_parser_t parser = {0};
    uvhttp__ws_piece_t piece;
    int code = uvhttp__ws_parse(&parser, head, cut, &first, &piece);
    if (cut < size && code == UVHTTP_E_AGAIN) code = uvhttp__ws_parse(&parser, head + cut, size - cut, &second, &piece);
    if (!may_stand(form, length)) {
        assert_int_equal(code, UVHTTP_E_WS_LENGTH);
        assert_int_equal(first + second, size - 4); /* with the last byte of the length */
        return;
    }
    assert_int_equal(code, UVHTTP_OK);
    assert_int_equal(first + second, size);
    assert_true(piece.frame_size == length && parser.left == length);
    assert_true(piece.first && piece.fin && piece.size == 0 && piece.last == (length == 0));
    assert_int_equal(parser.in_payload, length > 0);
}

static void expect_at_each_cut(unsigned form, uint64_t length) {
    for (size_t cut = 0; cut <= 2 + length_bytes[form] + 4u; cut++) expect_head(form, length, cut);
}

static void test_every_length_of_7_and_16_bits(void **state) {
    (void)state;
    for (uint64_t length = 0; length <= 125; length++) expect_at_each_cut(0, length);
    for (uint64_t length = 0; length <= 0xffff; length++) expect_at_each_cut(1, length);
}

static void test_lengths_of_64_bits_around_each_power_of_two(void **state) {
    (void)state;
    static boundaries_t numbers;
    boundaries_of(2, (wide_t)1 << 64, &numbers);
    for (uint64_t length = 0; length < 1 << 17; length++) expect_head(2, length, 1 + length % 13);
    for (size_t i = 0; i < numbers.count; i++)
        if (numbers.values[i] <= UINT64_MAX) expect_at_each_cut(2, (uint64_t)numbers.values[i]);
    for (unsigned byte = 0; byte < 8; byte++) /* each byte has its place */
        for (uint64_t value = 0; value < 256; value++) expect_head(2, value << 8 * byte | 0x10000, 14);
}

/* All pairs of first bytes, in every state of a message: a control frame is refused at the second byte for its length,
 * and has no longer form (section 5.5). */
static void test_every_first_byte_with_every_length_of_7_bits(void **state) {
    (void)state;
    for (unsigned bytes = 0; bytes < 1 << 16; bytes++) {
        for (int in_message = 0; in_message <= 1; in_message++) {
            uint8_t first = (uint8_t)(bytes >> 8), second = (uint8_t)bytes;
            uvhttp__ws_parser_t parser = {.in_message = in_message};
            uvhttp__ws_piece_t piece;
            char wire[2] = {(char)first, (char)second};
            size_t consumed;
            int code = uvhttp__ws_parse(&parser, wire, 2, &consumed, &piece), expected = UVHTTP_E_AGAIN;
            unsigned opcode = first & 0x0f, length = second & 0x7f;
            bool control = opcode == 8 || opcode == 9 || opcode == 10;
            if (first & 0x70 || (opcode > 2 && !control))
                expected = UVHTTP_E_WS_RESERVED;
            else if (control && !(first & 0x80))
                expected = UVHTTP_E_WS_CONTROL;
            else if (!control && (opcode == 0) != in_message)
                expected = UVHTTP_E_WS_CONTINUATION;
            assert_int_equal(consumed, expected == UVHTTP_E_AGAIN ? 2 : 1);
            if (expected == UVHTTP_E_AGAIN && !(second & 0x80))
                expected = UVHTTP_E_WS_UNMASKED;
            else if (expected == UVHTTP_E_AGAIN && control && length > 125)
                expected = UVHTTP_E_WS_CONTROL;
            assert_int_equal(code, expected);
        }
    }
}

/* What is written is the only form that may stand, and is read as what it was. */
static void expect_written(uint64_t length) {
    char out[UVHTTP__WS_SERVER_HEAD_MAX], expected[HEAD_MAX];
    unsigned form = may_stand(0, length) ? 0 : length <= 0xffff ? 1 : 2;
    size_t size = make_head(0x82, form, length, expected) - 4;
    assert_true(may_stand(form, length));
    expected[1] = (char)(expected[1] & 0x7f);
    assert_int_equal(uvhttp__ws_write_head(out, true, UVHTTP__WS_BINARY, length), size);
    assert_memory_equal(out, expected, size);
}

static void test_every_length_that_is_written(void **state) {
    (void)state;
    static boundaries_t numbers;
    boundaries_of(2, INT64_MAX, &numbers);
    for (uint64_t length = 0; length < 1 << 17; length++) expect_written(length);
    for (size_t i = 0; i < numbers.count; i++) expect_written((uint64_t)numbers.values[i]);
    expect_written(INT64_MAX);
}

/* --- masks --- */

static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};

/* A frame of `size` bytes, of which the first piece ends in the head or in the payload, and another frame behind it. */
static void expect_payload(size_t size, size_t first, size_t second, char *wire, size_t wire_size) {
    uvhttp__ws_parser_t parser = {0};
    size_t ends[3] = {first, second, wire_size}, at = 0, payload = 0, frames = 0;
    for (int i = 0; i < 3; i++) {
        for (int code = UVHTTP_OK; code == UVHTTP_OK;) {
            uvhttp__ws_piece_t piece;
            size_t consumed;
            code = uvhttp__ws_parse(&parser, wire + at, ends[i] - at, &consumed, &piece);
            at += consumed;
            assert_true(code == UVHTTP_OK || code == UVHTTP_E_AGAIN);
            if (code == UVHTTP_E_AGAIN) continue;
            for (size_t j = 0; j < piece.size; j++) assert_int_equal((uint8_t)piece.data[j], (uint8_t)(payload++ * 7));
            if (piece.last) assert_int_equal(payload, size);
            if (piece.last) payload = 0, frames++;
        }
        assert_int_equal(at, ends[i]);
    }
    assert_int_equal(frames, 2);
}

/* Two frames of all sizes up to some more than a step of the loop that unmasks, cut at all pairs of places: the mask
 * goes on at each of its four bytes, and starts anew with a frame. */
static void test_masks_continue_wherever_a_payload_is_cut(void **state) {
    (void)state;
    for (size_t size = 0; size <= 45; size++) {
        char made[2 * (HEAD_MAX + 45)], wire[sizeof made];
        size_t made_size = 0;
        for (int frame = 0; frame < 2; frame++) {
            made[made_size++] = (char)0x82;
            made[made_size++] = (char)(0x80 | size);
            memcpy(made + made_size, mask, 4);
            made_size += 4;
            for (size_t i = 0; i < size; i++) made[made_size++] = (char)((uint8_t)(i * 7) ^ mask[i % 4]);
        }
        for (size_t first = 0; first <= made_size; first++) {
            for (size_t second = first; second <= made_size; second++) {
                memcpy(wire, made, made_size);
                expect_payload(size, first, second, wire, made_size);
            }
        }
    }
}

int main(void) {
    return RUN_TESTS(test_every_length_of_7_and_16_bits, test_lengths_of_64_bits_around_each_power_of_two,
                     test_every_first_byte_with_every_length_of_7_bits, test_every_length_that_is_written,
                     test_masks_continue_wherever_a_payload_is_cut);
}
