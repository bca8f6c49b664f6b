/* Owns: tests of the reading of responses (RFC 9112): every vector whole, cut at every place and byte by byte, next to
 * an unmapped page, with a cache of heads and without. */
#include <assert.h>

#include "support/http1_feed.h"

#include "http1/response_read.h"
#include "support/failing_allocator.h"
#include "support/run.h"

#define HEAD_SIZE_MAX (64u * 1024)

typedef struct response {
    int code; /* the last one: 0 whole, UVHTTP_E_AGAIN more to come, or an error */
    int status;
    bool close;
    size_t consumed, body_size;
    char body[512];
} client_response_t;

/* Feeds a piece; true if the response wants another one. */
static bool feed_piece(uvhttp__http1_response_t *response, const char *data, size_t size, client_response_t *out) {
    size_t at = 0;
    while (at < size) {
        size_t consumed = SIZE_MAX;
        uvhttp_str_t body = {NULL, SIZE_MAX};
        out->code = uvhttp__http1_response_feed(response, data + at, size - at, &consumed, &body);
        assert_true(consumed <= size - at && body.size <= consumed);
        if (body.size > 0) {
            assert_true(body.data >= data + at && body.data + body.size <= data + at + consumed);
            assert_true(out->body_size + body.size <= sizeof out->body);
            memcpy(out->body + out->body_size, body.data, body.size);
            out->body_size += body.size;
        }
        at += consumed;
        out->consumed += consumed;
        if (out->code != UVHTTP_E_AGAIN) return false;
        assert_true(consumed > 0);
    }
    return true;
}

static void feed_pieces(const char *data, const size_t *cuts, size_t cut_count, bool to_head,
                        uvhttp__http1_head_cache_t *cache, client_response_t *out) {
    uvhttp__http1_response_t response;
    memset(out, 0, sizeof *out);
    out->code = UVHTTP_E_AGAIN;
    uvhttp__http1_response_init(&response, HEAD_SIZE_MAX, cache);
    uvhttp__http1_response_begin(&response, to_head);
    size_t start = 0;
    for (size_t i = 0; i < cut_count; i++) {
        bool at_end = i % 2 == 0;
        if (!feed_piece(&response, feed_guarded(data + start, cuts[i] - start, at_end), cuts[i] - start, out)) break;
        start = cuts[i];
    }
    out->status = response.head.status;
    out->close = response.head.close;
    if (out->code == UVHTTP_E_AGAIN && uvhttp__http1_response_end(&response) == 0)
        out->code = UVHTTP_E_EOF; /* FIN ends it */
    uvhttp__http1_response_deinit(&response);
}

static void expect_same(const client_response_t *a, const client_response_t *b) {
    assert_int_equal(a->code, b->code);
    if (a->code != 0 && a->code != UVHTTP_E_EOF) return;
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->close, b->close);
    assert_int_equal(a->consumed, b->consumed);
    assert_int_equal(a->body_size, b->body_size);
    assert_memory_equal(a->body, b->body, a->body_size);
}

static void feed_every_way(const char *data, size_t size, bool to_head, client_response_t *out) {
    client_response_t other;
    size_t cuts[1024] = {0};
    assert_true(size <= 1024);
    feed_pieces(data, &size, 1, to_head, NULL, out);
    for (size_t i = 0; i < size; i++) cuts[i] = i + 1;
    feed_pieces(data, cuts, size, to_head, NULL, &other);
    expect_same(out, &other);
    for (size_t cut = 1; cut < size; cut++) {
        feed_pieces(data, (size_t[]){cut, size}, 2, to_head, NULL, &other);
        expect_same(out, &other);
    }
    uvhttp__http1_head_cache_t cache = {.size = 0};
    for (int i = 0; i < 3; i++) { /* the second time the head is known; a reader that is cut does without */
        feed_pieces(data, &size, 1, to_head, &cache, &other);
        expect_same(out, &other);
        feed_pieces(data, (size_t[]){size / 2, size}, 2, to_head, &cache, &other);
        expect_same(out, &other);
    }
}

typedef struct whole {
    const char *text;
    int status;
    const char *body;
    bool close, to_head;
    const char *rest; /* what stands behind the response; NULL: nothing */
} whole_t;

static void test_whole_responses_are_read(void **state) {
    (void)state;
    static const whole_t wholes[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", .close = false},
        {"HTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhelloHTTP/1.1 200", 200, "hello", .rest = "HTTP/1.1 200"},
        {"HTTP/1.2 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", .close = false},
        {"HTTP/1.9 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", .close = false},
        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, "", .close = false},
        {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 200, "", .close = false},
        {"HTTP/1.1 404 Nicht gefunden\xfc\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", 404, "no",
         .close = true},
        {"HTTP/1.1 200 OK\r\nConnection: Upgrade, CLOSE\r\nContent-Length: 0\r\n\r\n", 200, "", .close = true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", .close = true},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, "x", .close = false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", .close = false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\nX: y\r\n\r\n", 200,
         "hello!", .close = false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP", 200, "", .rest = "HTTP"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n", 200,
         "z", .close = false},
        {"HTTP/1.1 204 No Content\r\n\r\nrest", 204, "", .rest = "rest"},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", 304, "", .close = false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 200, "", .to_head = true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", 200, "", .to_head = true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, "", .to_head = true},
        {"HTTP/1.1 200 OK\r\n\r\n", 200, "", .to_head = true},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
         200, "ok", .close = false},
        {"HTTP/1.1 199 Odd\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", .close = false},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nraw", 101, "", .rest = "raw"},
        {"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 999, "", .close = false},
    };
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        client_response_t response;
        const whole_t *whole = &wholes[i];
        feed_every_way(whole->text, strlen(whole->text), whole->to_head, &response);
        if (response.code != 0) fail_msg("%d for vector %zu:\n%s", response.code, i, whole->text);
        assert_int_equal(response.status, whole->status);
        assert_int_equal(response.close, whole->close);
        assert_int_equal(response.body_size, strlen(whole->body));
        assert_memory_equal(response.body, whole->body, response.body_size);
        assert_string_equal(whole->text + response.consumed, whole->rest ? whole->rest : "");
    }
}

typedef struct other {
    const char *text;
    int code;
} other_t;

static void expect_codes(const other_t *others, size_t count) {
    for (size_t i = 0; i < count; i++) {
        client_response_t response;
        feed_every_way(others[i].text, strlen(others[i].text), false, &response);
        if (response.code != others[i].code)
            fail_msg("%d, not %d, for vector %zu:\n%s", response.code, others[i].code, i, others[i].text);
    }
}

#define EXPECT_CODES(others) expect_codes(others, sizeof(others) / sizeof *(others))

static void test_what_is_not_a_response_is_refused(void **state) {
    (void)state;
    static const other_t others[] = {
        {"HTTP/2 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/2.1 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.x 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1x1 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/2.0 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.12 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"http/1.1 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"echo: nothing like it", UVHTTP_E_HTTP_VERSION},
        {"\r\nHTTP/1.1 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1 20 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1 099 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1 2000 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1  200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1./ 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.: 200 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1 2/0 OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1 20: OK\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1 20\r\n\r\n", UVHTTP_E_HTTP_VERSION},
        {"HTTP/1.1 200 O\x01K\r\n\r\n", UVHTTP_E_HTTP_HEADER_VALUE},
        {"HTTP/1.1 200 OK\r\nA\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME},
        {"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME},
        {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME},
        {"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", UVHTTP_E_HTTP_HEADER_VALUE},
        {"HTTP/1.1 200 OK\nA: b\r\n\r\n", UVHTTP_E_HTTP_BARE_LF},
        {"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", UVHTTP_E_HTTP_BARE_LF},
        {"HTTP/1.1 200 OK\r\n\nA: b\r\n\r\n", UVHTTP_E_HTTP_BARE_LF},
        {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", UVHTTP_E_HTTP_CONTENT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", UVHTTP_E_HTTP_CONTENT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", UVHTTP_E_HTTP_CONTENT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", UVHTTP_E_HTTP_CONTENT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", UVHTTP_E_HTTP_CONTENT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", UVHTTP_E_HTTP_TRANSFER_ENCODING},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", UVHTTP_E_HTTP_TRANSFER_ENCODING},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", UVHTTP_E_HTTP_TRANSFER_ENCODING},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", UVHTTP_E_HTTP_CHUNK_SIZE},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx", UVHTTP_E_HTTP_CHUNK_DATA},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;=x\r\nhello", UVHTTP_E_HTTP_CHUNK_EXTENSION},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;;\r\nhello", UVHTTP_E_HTTP_CHUNK_EXTENSION},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a b\r\nhello", UVHTTP_E_HTTP_CHUNK_EXTENSION},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\x80\r\nhello", UVHTTP_E_HTTP_CHUNK_EXTENSION},
    };
    EXPECT_CODES(others);
}

static void test_the_end_of_the_connection_ends_only_a_body_without_a_length(void **state) {
    (void)state;
    static const other_t others[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", UVHTTP_E_EOF},
        {"HTTP/1.1 200 OK\r\n\r\nall of it", UVHTTP_E_EOF},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nall of it", UVHTTP_E_EOF},
        {"H", UVHTTP_E_AGAIN},
        {"HTTP/1.1 200 OK\r\n", UVHTTP_E_AGAIN},
        {"HTTP/1.1 100 Continue\r\n\r\n", UVHTTP_E_AGAIN},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", UVHTTP_E_AGAIN},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", UVHTTP_E_AGAIN},
    };
    EXPECT_CODES(others);
    client_response_t response;
    const char *text = "HTTP/1.1 200 OK\r\n\r\nall of it";
    feed_every_way(text, strlen(text), false, &response);
    assert_true(response.close);
    assert_int_equal(response.body_size, 9);
}

#define CONTINUE_2 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
#define CONTINUE_8 CONTINUE_2 CONTINUE_2 CONTINUE_2 CONTINUE_2

static void test_interim_responses_have_a_limit(void **state) {
    (void)state;
    static_assert(UVHTTP__HTTP1_INTERIM_DEFAULT == 16, "two times CONTINUE_8");
    static const other_t others[] = {
        {CONTINUE_8 CONTINUE_8 "HTTP/1.1 204 No Content\r\n\r\n", UVHTTP_OK},
        {CONTINUE_8 CONTINUE_8 "HTTP/1.1 102 Processing\r\n\r\n", UVHTTP_E_PEER_INTERIM},
    };
    EXPECT_CODES(others);
}

static void test_the_key_of_a_websocket_is_shown(void **state) {
    (void)state;
    static const struct {
        const char *field;
        bool shown;
    } cases[] = {{"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", true},
                 {"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", true},
                 {"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo\r\n", false},
                 {"Sec-WebSocket-Accepted: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        int size = snprintf(text, sizeof text, "HTTP/1.1 101 Switching Protocols\r\n%s\r\n", cases[i].field);
        uvhttp__http1_response_t response;
        size_t consumed;
        uvhttp_str_t body;
        uvhttp__http1_response_init(&response, HEAD_SIZE_MAX, NULL);
        uvhttp__http1_response_begin(&response, false);
        assert_int_equal(uvhttp__http1_response_feed(&response, text, (size_t)size, &consumed, &body), UVHTTP_OK);
        static const char none[sizeof response.head.accept];
        assert_memory_equal(response.head.accept, cases[i].shown ? "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" : none, sizeof none);
        uvhttp__http1_response_deinit(&response);
    }
}

/* One with a head of exactly the limit is read, one byte more is not; whole or in parts. */
static void test_a_head_has_a_limit(void **state) {
    (void)state;
    static char text[HEAD_SIZE_MAX + 16];
    static const char begin[] = "HTTP/1.1 204 No Content\r\nX: ";
    static const size_t pieces[] = {1, 7, 4096, 65535, sizeof text};
    for (size_t over = 0; over <= 1; over++) {
        size_t size = HEAD_SIZE_MAX + over;
        memset(text, 'x', sizeof text);
        memcpy(text, begin, sizeof begin - 1);
        memcpy(text + size - 4, "\r\n\r\n", 4);
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            uvhttp__http1_response_t response;
            uvhttp__http1_response_init(&response, HEAD_SIZE_MAX, NULL);
            uvhttp__http1_response_begin(&response, false);
            int code = UVHTTP_E_AGAIN;
            for (size_t at = 0; at < size && code == UVHTTP_E_AGAIN;) {
                size_t consumed, piece = pieces[i] < size - at ? pieces[i] : size - at;
                uvhttp_str_t body;
                code = uvhttp__http1_response_feed(&response, text + at, piece, &consumed, &body);
                at += consumed;
            }
            assert_int_equal(code, over ? UVHTTP_E_HTTP_HEADERS_TOO_LARGE : 0);
            uvhttp__http1_response_deinit(&response);
        }
    }
}

/* In whichever pieces it came. Interim ones are not shown. */
static void test_the_fields_of_a_head_are_shown(void **state) {
    (void)state;
    static const char text[] = "HTTP/1.1 100 Continue\r\nNo: no\r\n\r\n"
                               "HTTP/1.1 200 OK\r\nA:  b \r\nEmpty:\r\nContent-Length: 2\r\na: c:d\r\n\r\nok";
    static const char *const expected[] = {"A", "b", "Empty", "", "Content-Length", "2", "a", "c:d"};
    size_t size = sizeof text - 1, head_end = size - 2;
    for (size_t cut = 1; cut < head_end; cut++) {
        uvhttp__http1_response_t response;
        size_t consumed;
        uvhttp_str_t body, name, value;
        uvhttp__http1_response_init(&response, HEAD_SIZE_MAX, NULL);
        uvhttp__http1_response_begin(&response, false);
        uvhttp_str_t none = uvhttp__http1_response_lines(&response);
        assert_int_equal(none.size, 0);
        assert_false(uvhttp__http1_response_field(&none, &name, &value));
        for (size_t at = 0; !uvhttp__http1_response_has_head(&response); at += consumed) {
            const char *piece = feed_guarded(text + at, (at < cut ? cut : head_end) - at, true);
            assert_int_equal(
                uvhttp__http1_response_feed(&response, piece, (at < cut ? cut : head_end) - at, &consumed, &body),
                UVHTTP_E_AGAIN);
        }
        uvhttp_str_t lines = uvhttp__http1_response_lines(&response);
        assert_ptr_equal(lines.data + lines.size, response.head_text.data + response.head_text.size);
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i += 2) {
            assert_true(uvhttp__http1_response_field(&lines, &name, &value));
            assert_int_equal(name.size, strlen(expected[i]));
            assert_memory_equal(name.data, expected[i], name.size);
            assert_int_equal(value.size, strlen(expected[i + 1]));
            assert_memory_equal(value.data, expected[i + 1], value.size);
        }
        assert_int_equal(lines.size, 2); /* the empty line */
        assert_false(uvhttp__http1_response_field(&lines, &name, &value));
        uvhttp__http1_response_deinit(&response);
    }
}

/* The cache must not confuse the heads of two responses. */
static void test_the_cache_knows_only_heads_that_are_equal(void **state) {
    (void)state;
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 201 OK\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 201 OK\r\nContent-Length: 2\r\nA: b\r\n\r\nab"};
    uvhttp__http1_head_cache_t cache = {.size = 0};
    client_response_t plain, cached;
    for (size_t i = 0; i < 40; i++) {
        const char *text = texts[(i * 7 + i / 3) % 4];
        size_t size = strlen(text);
        feed_pieces(text, &size, 1, false, NULL, &plain);
        feed_pieces(text, &size, 1, false, &cache, &cached);
        assert_int_equal(plain.code, 0);
        expect_same(&plain, &cached);
    }
    /* It remembers the head, not to which request it was the response. */
    const char *text = texts[1];
    size_t size = strlen(text), head_size = size - 2;
    feed_pieces(text, &size, 1, false, &cache, &cached);
    assert_int_equal(cached.body_size, 2);
    feed_pieces(text, &head_size, 1, true, &cache, &cached);
    assert_int_equal(cached.code, 0);
    assert_int_equal(cached.body_size, 0);
}

/* One that is a byte longer is read all the same. */
static void test_the_cache_keeps_heads_up_to_a_size(void **state) {
    (void)state;
    static char text[UVHTTP__HTTP1_HEAD_CACHED_MAX + 2];
    for (size_t over = 0; over <= 1; over++) {
        uvhttp__http1_head_cache_t cache = {.size = 0};
        size_t size = UVHTTP__HTTP1_HEAD_CACHED_MAX + over;
        client_response_t response;
        memset(text, 'x', sizeof text);
        memcpy(text, "HTTP/1.1 204 No Content\r\nX: ", 28);
        memcpy(text + size - 4, "\r\n\r\n", 4);
        for (int i = 0; i < 2; i++) {
            feed_pieces(text, &size, 1, false, &cache, &response);
            assert_int_equal(response.code, 0);
            assert_int_equal(response.consumed, size);
            assert_int_equal(cache.size, over ? 0 : size);
        }
    }
}

/* Where they are received. */
static void test_whole_heads_take_no_memory(void **state) {
    (void)state;
    const char *text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    uvhttp__http1_head_cache_t cache = {.size = 0};
    size_t size = strlen(text), before = test_allocator_count();
    client_response_t response;
    for (int i = 0; i < 4; i++) {
        feed_pieces(text, &size, 1, false, i < 2 ? NULL : &cache, &response);
        assert_int_equal(response.code, 0);
    }
    assert_int_equal(test_allocator_count(), before);
}

static void test_a_response_begins_anew_after_one_that_was_cut(void **state) {
    (void)state;
    static const char *const cuts[] = {"H", "HTTP/1.1 200 OK\r\nA: b",
                                       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
                                       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"};
    static const char whole[] = "HTTP/1.1 201 OK\r\nContent-Length: 2\r\n\r\nok";
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        uvhttp__http1_response_t response;
        size_t consumed;
        uvhttp_str_t body;
        uvhttp__http1_response_init(&response, HEAD_SIZE_MAX, NULL);
        uvhttp__http1_response_begin(&response, false);
        assert_int_equal(uvhttp__http1_response_feed(&response, cuts[i], strlen(cuts[i]), &consumed, &body),
                         UVHTTP_E_AGAIN);
        uvhttp__http1_response_begin(&response, false);
        assert_false(uvhttp__http1_response_has_head(&response));
        assert_int_equal(uvhttp__http1_response_feed(&response, whole, sizeof whole - 1, &consumed, &body), 0);
        assert_int_equal(consumed, sizeof whole - 1);
        assert_int_equal(response.head.status, 201);
        assert_int_equal(body.size, 2);
        uvhttp__http1_response_deinit(&response);
    }
}

static void read_in_pieces(void *user) {
    (void)user;
    const char *text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    client_response_t response;
    feed_pieces(text, (size_t[]){5, 20, strlen(text)}, 3, false, NULL, &response);
    assert_int_equal(response.code, test_allocator_failed() ? UVHTTP_E_NOMEM : 0);
}

static void test_a_head_in_pieces_bears_a_lack_of_memory(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(read_in_pieces, NULL) > 0);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_whole_responses_are_read, test_what_is_not_a_response_is_refused,
                     test_interim_responses_have_a_limit, test_the_key_of_a_websocket_is_shown,
                     test_the_end_of_the_connection_ends_only_a_body_without_a_length, test_a_head_has_a_limit,
                     test_the_fields_of_a_head_are_shown, test_the_cache_knows_only_heads_that_are_equal,
                     test_the_cache_keeps_heads_up_to_a_size, test_whole_heads_take_no_memory,
                     test_a_response_begins_anew_after_one_that_was_cut, test_a_head_in_pieces_bears_a_lack_of_memory);
}
