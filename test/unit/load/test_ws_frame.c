/* Owns: tests of WebSocket frames as a client writes and reads them (RFC 6455 section 5): every vector at every cut,
 * and against the library's own reader, which is the server's half. */
#include <cmocka.h>
#include <string.h>

#include "load/ws_frame.h"
#if UVHTTP_WITH_WEBSOCKET
#include "websocket/frame.h"
#endif

typedef struct seen {
    int code;
    char text[512]; /* pieces in short: data as it is, '.' at the end of a message, "<p...>", "<o...>", "<c...>" */
} seen_t;

static void append(seen_t *seen, const char *data, size_t size) {
    size_t at = strlen(seen->text);
    assert_true(at + size < sizeof seen->text);
    memcpy(seen->text + at, data, size);
}

static void add_piece(seen_t *seen, const load_ws_piece_t *piece) {
    if (piece->kind >= LOAD_WS_PING) {
        append(seen, piece->kind == LOAD_WS_PING ? "<p" : piece->kind == LOAD_WS_PONG ? "<o" : "<c", 2);
        append(seen, piece->data, piece->size);
        append(seen, ">", 1);
        return;
    }
    append(seen, piece->data, piece->size);
    if (piece->kind == LOAD_WS_MESSAGE_END) append(seen, ".", 1);
}

static void read_pieces(const char *data, const size_t *cuts, size_t cut_count, seen_t *seen) {
    load_ws_reader_t reader;
    memset(&reader, 0, sizeof reader);
    memset(seen, 0, sizeof *seen);
    size_t at = 0;
    for (size_t i = 0; i < cut_count; i++) {
        while (at < cuts[i]) {
            load_ws_piece_t piece;
            size_t consumed;
            seen->code = load_ws_read(&reader, data + at, cuts[i] - at, &consumed, &piece);
            at += consumed;
            assert_true(at <= cuts[i]);
            if (seen->code == 0) add_piece(seen, &piece);
            if (seen->code != 0 && seen->code != UVHTTP_E_AGAIN) return;
            assert_true(consumed > 0);
        }
    }
}

static void read_every_way(const char *data, size_t size, seen_t *seen) {
    seen_t other;
    size_t cuts[256] = {0};
    assert_true(size <= 256);
    read_pieces(data, &size, 1, seen);
    for (size_t i = 0; i < size; i++) cuts[i] = i + 1;
    read_pieces(data, cuts, size, &other);
    assert_string_equal(other.text, seen->text);
    assert_int_equal(other.code, seen->code);
    for (size_t cut = 1; cut < size; cut++) {
        read_pieces(data, (size_t[]){cut, size}, 2, &other);
        assert_string_equal(other.text, seen->text);
        assert_int_equal(other.code, seen->code);
    }
}

#define S(text) text, sizeof(text) - 1

static void test_frames_of_a_server_are_read(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t size;
        const char *text;
    } vectors[] = {
        {S("\x81\x05hello"), "hello."},
        {S("\x82\x02hi\x81\x00"), "hi.."},
        {S("\x01\x03hel\x00\x00\x80\x02lo"), "hello."},
        {S("\x01\x03hel\x89\x01!\x80\x02lo\x88\x02\x03\xe8"), "hel<p!>lo.<c\x03\xe8>"},
        {S("\x8a\x00\x89\x03"
           "abc"),
         "<o><pabc>"},
    };
    seen_t seen;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        read_every_way(vectors[i].data, vectors[i].size, &seen);
        assert_string_equal(seen.text, vectors[i].text);
        assert_int_equal(seen.code, 0);
    }
    char large[200] = "\x81\x7e\x00\x80";
    memset(large + 4, 'x', 128);
    read_every_way(large, 132, &seen);
    assert_int_equal(strlen(seen.text), 129);
}

static void test_what_a_server_may_not_send_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t size;
        int code;
    } vectors[] = {
        {S("\xc1\x00"), UVHTTP_E_WS_RESERVED},
        {S("\x83\x00"), UVHTTP_E_WS_RESERVED},
        {S("\x8b\x00"), UVHTTP_E_WS_RESERVED},
        {S("\x81\x80"), UVHTTP_E_WS_RESERVED}, /* masked */
        {S("\x09\x00"), UVHTTP_E_WS_CONTROL},
        {S("\x89\x7e\x00\x7e"), UVHTTP_E_WS_CONTROL},
        {S("\x80\x00"), UVHTTP_E_WS_CONTINUATION},
        {S("\x01\x00\x01\x00"), UVHTTP_E_WS_CONTINUATION},
        {S("\x81\x7e\x00\x7d"), UVHTTP_E_WS_LENGTH},
        {S("\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff"), UVHTTP_E_WS_LENGTH},
        {S("\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00"), UVHTTP_E_WS_LENGTH},
    };
    seen_t seen;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        read_every_way(vectors[i].data, vectors[i].size, &seen);
        if (seen.code != vectors[i].code) fail_msg("%d, not %d, for vector %zu", seen.code, vectors[i].code, i);
    }
}

#if UVHTTP_WITH_WEBSOCKET
static void test_the_server_reads_what_is_written(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 125, 126, 65535, 65536};
    static char frame[LOAD_WS_HEAD_MAX + 65536];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t head = load_ws_write_head(frame, sizes[i]), consumed;
        memset(frame + head, 'x', sizes[i]);
        load_ws_mask(frame + head, sizes[i]);
        uvhttp__ws_parser_t parser;
        uvhttp__ws_piece_t piece;
        memset(&parser, 0, sizeof parser);
        assert_int_equal(uvhttp__ws_parse(&parser, frame, head + sizes[i], &consumed, &piece), 0);
        assert_true(piece.first && piece.last && piece.fin);
        assert_int_equal(piece.opcode, UVHTTP__WS_TEXT);
        assert_int_equal(piece.size, sizes[i]);
        assert_true(piece.data[0] == 'x' && piece.data[sizes[i] - 1] == 'x');
    }
    uvhttp__ws_parser_t parser;
    uvhttp__ws_piece_t piece;
    size_t consumed, size = load_ws_write_pong(frame, "abc", 3);
    memset(&parser, 0, sizeof parser);
    assert_int_equal(uvhttp__ws_parse(&parser, frame, size, &consumed, &piece), 0);
    assert_int_equal(piece.opcode, UVHTTP__WS_PONG);
    assert_memory_equal(piece.data, "abc", 3);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_of_a_server_are_read),
        cmocka_unit_test(test_what_a_server_may_not_send_is_refused),
#if UVHTTP_WITH_WEBSOCKET
        cmocka_unit_test(test_the_server_reads_what_is_written),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
