/* Owns: tests of the chunked transfer coding (RFC 9112 section 7.1). */
#include "support/http1_feed.h"
#include "support/run.h"

#include <time.h>

typedef struct decoded {
    int code;
    size_t consumed;
    size_t body_size;
    size_t trailer_size;
    char body[8192];
    char trailer[256];
} decoded_t;

static const uint32_t extension_max = 40, trailer_max = 64;

/* Decodes one piece as the library's user does; true if there is to be another one. */
static bool decode_piece(uvhttp__http1_chunked_t *chunked, const char *data, size_t size, decoded_t *out) {
    size_t pos = 0;
    for (;;) {
        size_t consumed = SIZE_MAX;
        uvhttp_str_t body = {NULL, SIZE_MAX};
        uint32_t trailer_before = chunked->trailer_size;
        out->code = uvhttp__http1_chunked_decode(chunked, data + pos, size - pos, &consumed, &body);
        assert_true(consumed <= size - pos);
        assert_true(body.size <= consumed);
        if (body.size > 0) {
            assert_true(body.data >= data + pos && body.data + body.size <= data + pos + consumed);
            assert_true(out->body_size + body.size <= sizeof out->body);
            memcpy(out->body + out->body_size, body.data, body.size);
            out->body_size += body.size;
        }
        uvhttp_str_t trailer = uvhttp__http1_chunked_trailer(chunked, trailer_before, data + pos, consumed);
        if (trailer.size > 0) {
            assert_true(trailer.data >= data + pos && trailer.data + trailer.size <= data + pos + consumed);
            assert_true(out->trailer_size + trailer.size <= sizeof out->trailer);
            memcpy(out->trailer + out->trailer_size, trailer.data, trailer.size);
            out->trailer_size += trailer.size;
        }
        pos += consumed;
        out->consumed += consumed;
        if (out->code != UVHTTP_E_AGAIN) return false;
        if (pos == size) return true;
        assert_true(consumed > 0);
    }
}

static void decode_cuts(const char *data, const size_t *cuts, size_t cut_count, bool at_end, decoded_t *out) {
    uvhttp__http1_chunked_t chunked;
    uvhttp__http1_chunked_init(&chunked, extension_max, trailer_max);
    memset(out, 0, sizeof *out);
    size_t start = 0;
    for (size_t i = 0; i < cut_count; ++i) {
        const char *piece = feed_guarded(data + start, cuts[i] - start, at_end);
        if (!decode_piece(&chunked, piece, cuts[i] - start, out)) break;
        start = cuts[i];
    }
    if (out->code == UVHTTP_E_AGAIN) return;
    /* The end and an error are forever. */
    size_t consumed;
    uvhttp_str_t body;
    assert_int_equal(uvhttp__http1_chunked_decode(&chunked, "0\r\n\r\n", 5, &consumed, &body), out->code);
    assert_int_equal(consumed, 0);
    assert_int_equal(body.size, 0);
}

static void expect_same(const decoded_t *a, const decoded_t *b) {
    assert_int_equal(a->code, b->code);
    assert_int_equal(a->consumed, b->consumed);
    assert_int_equal(a->body_size, b->body_size);
    assert_memory_equal(a->body, b->body, a->body_size);
    if (a->code != 0) return; /* what came before an error is for nobody */
    assert_int_equal(a->trailer_size, b->trailer_size);
    assert_memory_equal(a->trailer, b->trailer, a->trailer_size);
}

/* Whole, byte by byte, and cut at every place. */
static void decode_all_ways(const char *data, size_t size, decoded_t *out) {
    static decoded_t other;
    size_t cuts[512];
    assert_true(size < 512);
    decode_cuts(data, &size, 1, true, out);
    for (size_t i = 0; i <= size; ++i) cuts[i] = i;
    decode_cuts(data, cuts, size + 1, true, &other);
    expect_same(out, &other);
    decode_cuts(data, cuts, size + 1, false, &other);
    expect_same(out, &other);
    for (size_t i = 1; i < size; ++i) {
        decode_cuts(data, (size_t[]){i, size}, 2, true, &other);
        expect_same(out, &other);
    }
}

typedef struct chunked_vector {
    const char *text;
    size_t size;
    int code;
    const char *body; /* what has come out before the end or the error */
} chunked_vector_t;

#define C(text_, code_, body_)                                                                                         \
    { text_, sizeof(text_) - 1, code_, body_ }

/* As the beginning of a body, and behind another chunk. */
static void expect_vectors(const chunked_vector_t *vectors, size_t count) {
    static const char *const before[] = {"", "1\r\nx\r\n"};
    static decoded_t out;
    for (size_t i = 0; i < 2 * count; ++i) {
        const chunked_vector_t *vector = &vectors[i / 2];
        char text[256], body[256];
        size_t head = strlen(before[i % 2]), size = head + vector->size;
        assert_true(size <= sizeof text);
        memcpy(text, before[i % 2], head);
        memcpy(text + head, vector->text, vector->size);
        snprintf(body, sizeof body, "%s%s", head ? "x" : "", vector->body);
        decode_all_ways(text, size, &out);
        if (out.code != vector->code || out.body_size != strlen(body) || memcmp(out.body, body, out.body_size) != 0)
            fail_msg("expected %d and \"%s\", got %d and \"%.*s\" for vector %zu:\n%.*s", vector->code, body, out.code,
                     (int)out.body_size, out.body, i / 2, (int)size, text);
    }
}

#define EXPECT(vectors) expect_vectors(vectors, sizeof(vectors) / sizeof *(vectors))
#define SIZE UVHTTP_E_HTTP_CHUNK_SIZE
#define EXT UVHTTP_E_HTTP_CHUNK_EXTENSION
#define DATA UVHTTP_E_HTTP_CHUNK_DATA
#define TRAILER UVHTTP_E_HTTP_TRAILER
#define AGAIN UVHTTP_E_AGAIN

static void test_chunked_bodies_are_decoded(void **state) {
    (void)state;
    static const chunked_vector_t vectors[] = {
        C("0\r\n\r\n", 0, ""),
        C("000000000000000\r\n\r\n", 0, ""),
        C("5\r\nhello\r\n0\r\n\r\n", 0, "hello"),
        C("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", 0, "hello world"),
        C("a\r\n0123456789\r\n0\r\n\r\n", 0, "0123456789"),
        C("A\r\n0123456789\r\n0\r\n\r\n", 0, "0123456789"),
        C("0000000000000005\r\nhello\r\n0000\r\n\r\n", 0, "hello"),
        C("00000005\r\nhello\r\n000000005\r\nhello\r\n00000000\r\n\r\n", 0, "hellohello"),
        C("fffffff0\r\nabc", AGAIN, "abc"),
        C("100000000\r\nabc", AGAIN, "abc"),
        C("7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", 0, "\r\n0\r\n\r\n"),
        C("5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n", 0, "hello"),
        C("", AGAIN, ""),
        C("5", AGAIN, ""),
        C("5\r\nhel", AGAIN, "hel"),
        C("5\r\nhello\r\n0\r\n\r", AGAIN, "hello"),
        C("7fffffffffffffff\r\nabc", AGAIN, "abc"),
    };
    EXPECT(vectors);
}

static void test_chunk_size_is_strict(void **state) {
    (void)state;
    static const chunked_vector_t vectors[] = {
        C("8000000000000000\r\n", SIZE, ""),
        C("ffffffffffffffff\r\n", SIZE, ""),
        C("10000000000000000\r\n", SIZE, ""),
        C("00000000000000005\r\n", SIZE, ""),
        C("\r\n", SIZE, ""),
        C("\n", SIZE, ""),
        C(" 5\r\nhello", SIZE, ""),
        C("5 \r\nhello", SIZE, ""),
        C("5\t\r\nhello", SIZE, ""),
        C("5 \t\r\nhello", SIZE, ""),
        C("5 5\r\nhello", SIZE, ""),
        C("5 a\r\nhello", SIZE, ""),
        C("5 \nhello", SIZE, ""),
        C("-5\r\nhello", SIZE, ""),
        C("+5\r\nhello", SIZE, ""),
        C("0x5\r\nhello", SIZE, ""),
        C("5_0\r\nhello", SIZE, ""),
        C("5.\r\nhello", SIZE, ""),
        C("5,5\r\nhello", SIZE, ""),
        C("g\r\n", SIZE, ""),
        C("5\nhello", SIZE, ""),
        C("5\rhello", SIZE, ""),
        C("5\r\rhello", SIZE, ""),
        C(";a=b\r\n", SIZE, ""),
        C("5\0\r\nhello", SIZE, ""),
        C("\xef\xbc\x95\r\n", SIZE, ""),
        C("5\x0b\r\nhello", SIZE, ""),
        C("@\r\n", SIZE, ""),
        C("`\r\n", SIZE, ""),
        C("/\r\n", SIZE, ""),
        C(":\r\n", SIZE, ""),
        C("5\r\nhello\r\n\r\n", SIZE, "hello"),
    };
    EXPECT(vectors);
}

static void test_chunk_extensions_are_skipped_but_must_end_plainly(void **state) {
    (void)state;
    static const chunked_vector_t vectors[] = {
        C("5;a=b\r\nhello\r\n0\r\n\r\n", 0, "hello"),
        C("5;x\r\nhello\r\n0;x\r\n\r\n", 0, "hello"),
        C("5 \t;\t a\r\nhello\r\n0 ;x\r\n\r\n", 0, "hello"),
        C("5;a;b=c;d=\"\";e\r\nhello\r\n0\r\n\r\n", 0, "hello"),
        C("5;a=\"\xc3\xa9\\\xa9\t \"\r\nhello\r\n0\r\n\r\n", 0, "hello"),
        C("5;a \t= \tb \t; c\r\nhello\r\n0\r\n\r\n", 0, "hello"),
        C("5; a = \"b;c\"\t;d\r\nhello\r\n0\r\n\r\n", 0, "hello"),
        C("5;a=\"\\\"\"\r\nhello\r\n0\r\n\r\n", 0, "hello"),
        /* not by the grammar */
        C("5;\r\nhello", EXT, ""),
        C("5; \r\nhello", EXT, ""),
        C("5;;\r\nhello", EXT, ""),
        C("5;a;\r\nhello", EXT, ""),
        C("5;=x\r\nhello", EXT, ""),
        C("5;a=\r\nhello", EXT, ""),
        C("5;a=;b\r\nhello", EXT, ""),
        C("5;a==b\r\nhello", EXT, ""),
        C("5;a=b=c\r\nhello", EXT, ""),
        C("5;a b\r\nhello", EXT, ""),
        C("5;a=b c\r\nhello", EXT, ""),
        C("5;a \r\nhello", EXT, ""),
        C("5;a=b\t\r\nhello", EXT, ""),
        C("5;a=\"b\" \r\nhello", EXT, ""),
        C("5;a=\"b\"c\r\nhello", EXT, ""),
        C("5;a=\"b\"\"c\"\r\nhello", EXT, ""),
        C("5;a=b\"c\"\r\nhello", EXT, ""),
        C("5;\"a\"\r\nhello", EXT, ""),
        C("5;a,b\r\nhello", EXT, ""),
        C("5;a/b\r\nhello", EXT, ""),
        C("5;\xc3\xa9\r\nhello", EXT, ""),
        C("5;a\x80\r\nhello", EXT, ""),
        C("5;a=\x80\r\nhello", EXT, ""),
        C("5;a=\"\\\x7f\"\r\nhello", EXT, ""),
        /* where it ends */
        C("5;a\nhello", EXT, ""),
        C("5;a\rhello", EXT, ""),
        C("5;a\r\rhello", EXT, ""),
        C("5;\nhello", EXT, ""),
        C("5;a=\"b\r\nhello", EXT, ""), /* an open quote */
        C("5;a=\"b\nc\"\r\nhello", EXT, ""),
        C("5;a=\"b\\\r\nhello", EXT, ""),
        C("5;a\0b\r\nhello", EXT, ""),
        C("5;a\x7f\r\nhello", EXT, ""),
        C("5;a\x0b\r\nhello", EXT, ""),
        /* The class of 2023-25: LF, or CR and another byte, that one side takes for the end of the line. */
        C("2;\n\r\nab\r\n0\r\n\r\n", EXT, ""),
        C("5;\rX\r\nhello", EXT, ""),
        C("0;\n\r\nGET /admin HTTP/1.1\r\n", EXT, ""),
    };
    EXPECT(vectors);
}

static void test_chunk_extensions_of_all_chunks_share_one_bound(void **state) {
    (void)state;
    static const chunked_vector_t vectors[] = {
        C("1;345678901234567890123456789012345678901\r\na\r\n0\r\n\r\n", 0, "a"),
        C("1;3456789012345678901234567890123456789012\r\na\r\n0\r\n\r\n", EXT, ""),
        C("1;3456789012345678901\r\na\r\n1;3456789012345678901\r\nb\r\n0\r\n\r\n", 0, "ab"),
        C("1;3456789012345678901\r\na\r\n1;34567890123456789012\r\nb\r\n0\r\n\r\n", EXT, "a"),
        C("1;3456789012345678901\r\na\r\n1;3456789012345678901\r\nb\r\n0;\r\n\r\n", EXT, "ab"),
    };
    EXPECT(vectors);
}

static void test_chunk_data_is_followed_by_crlf_and_nothing_else(void **state) {
    (void)state;
    static const chunked_vector_t vectors[] = {
        C("5\r\nhello0\r\n\r\n", DATA, "hello"),    C("5\r\nhello\n0\r\n\r\n", DATA, "hello"),
        C("5\r\nhello\r0\r\n\r\n", DATA, "hello"),  C("5\r\nhello\r\r\n0\r\n", DATA, "hello"),
        C("5\r\nhello!!\r\n0\r\n", DATA, "hello"),  C("5\r\nhello  \r\n0\r\n", DATA, "hello"),
        C("4\r\nhello\r\n0\r\n\r\n", DATA, "hell"), C("6\r\nhello\r\n0\r\n\r\n", DATA, "hello\r"),
        C("5\r\nhelloXX0\r\n\r\n", DATA, "hello"),
    };
    EXPECT(vectors);
}

static void test_trailers_are_checked_and_dropped(void **state) {
    (void)state;
    static const chunked_vector_t vectors[] = {
        C("0\r\nA: b\r\n\r\n", 0, ""),
        C("0\r\nA:\r\nB: \t c \xc3\xa9\r\n\r\n", 0, ""),
        C("0\r\nHosts: b\r\nHos: c\r\nT: e\r\nX-Host: y\r\nContent-Lengths: 1\r\n\r\n", 0, ""),
        C("0\r\nA b: c\r\n\r\n", TRAILER, ""),
        C("0\r\nA : c\r\n\r\n", TRAILER, ""),
        C("0\r\nA\r\n\r\n", TRAILER, ""),
        C("0\r\n: c\r\n\r\n", TRAILER, ""),
        C("0\r\n:: c\r\n\r\n", TRAILER, ""),
        C("0\r\n:A: c\r\n\r\n", TRAILER, ""),
        C("0\r\n A: c\r\n\r\n", TRAILER, ""),
        C("0\r\nA: b\r\n c\r\n\r\n", TRAILER, ""), /* obs-fold */
        C("0\r\nA: b\nB: c\r\n\r\n", TRAILER, ""),
        C("0\r\nA: b\rB: c\r\n\r\n", TRAILER, ""),
        C("0\r\nA: b\0c\r\n\r\n", TRAILER, ""),
        C("0\r\nA: b\x7f\r\n\r\n", TRAILER, ""),
        C("0\r\nA\xc3: b\r\n\r\n", TRAILER, ""),
        C("0\r\n\n", TRAILER, ""),
        C("0\r\n\rX", TRAILER, ""),
        C("0\r\n\r\r\n", TRAILER, ""),
        C("0\r\nA: b\r\n\n", TRAILER, ""),
        C("0\r\nGET / HTTP/1.1\r\n\r\n", TRAILER, ""),
    };
    EXPECT(vectors);
}

static void test_trailers_that_frame_or_route_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {
        "Content-Length",    "content-length", "CONTENT_LENGTH", "Transfer-Encoding",
        "transfer_encoding", "Host",           "hOST",           "Trailer",
        "Connection",        "Upgrade",        "Expect",         "TE",
        "Keep-Alive",        "Keep_Alive",
    };
    static decoded_t out;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        char text[128];
        int size = snprintf(text, sizeof text, "0\r\nA: b\r\n%s: 1\r\n\r\n", names[i]);
        decode_all_ways(text, (size_t)size, &out);
        if (out.code != UVHTTP_E_HTTP_TRAILER) fail_msg("%s was taken", names[i]);
        for (int change = 0; change < 3; ++change) { /* longer at the end, longer at the beginning, shorter */
            size = snprintf(text, sizeof text, "0\r\n%s%.*s%s: 1\r\n\r\n", change == 1 ? "x" : "",
                            (int)strlen(names[i]) - (change == 2), names[i], change == 0 ? "x" : "");
            decode_all_ways(text, (size_t)size, &out);
            if (out.code != 0) fail_msg("a name like %s was refused", names[i]);
        }
    }
}

static void test_trailer_section_is_bounded(void **state) {
    (void)state;
    static decoded_t out;
    for (int size = 5; size < 100; ++size) {
        char text[256];
        int n = snprintf(text, sizeof text, "0\r\nA:%*s\r\n\r\n", size - 4, ""); /* `size` bytes in the section */
        decode_all_ways(text, (size_t)n, &out);
        assert_int_equal(out.code, size <= (int)trailer_max ? 0 : UVHTTP_E_HTTP_TRAILER_TOO_LARGE);
        if (size < 10) continue;
        n = snprintf(text, sizeof text, "0\r\nA:%*s\r\nB:\r\n\r\n", size - 8, "");
        decode_all_ways(text, (size_t)n, &out);
        assert_int_equal(out.code, size <= (int)trailer_max ? 0 : UVHTTP_E_HTTP_TRAILER_TOO_LARGE);
    }
}

static void test_every_byte_in_every_place_of_a_chunked_body(void **state) {
    (void)state;
    static const char valid[] = "5;a=\"b\"\r\nhello\r\n0\r\nA: b\r\n\r\n";
    static decoded_t out;
    const size_t data = 9, trailer_value = 22;
    for (size_t i = 0; i < sizeof valid - 1; ++i) {
        for (int byte = 0; byte < 256; ++byte) {
            char text[sizeof valid];
            memcpy(text, valid, sizeof valid);
            text[i] = (char)byte;
            decode_all_ways(text, sizeof valid - 1, &out);
            bool in_data = i >= data && i < data + 5;
            bool line_end = byte == '\r' || byte == '\n';
            /* Whatever the byte: no CR or LF is accepted outside the data unless it was there before. */
            if (line_end && !in_data && valid[i] != (char)byte) assert_true(out.code != 0);
            if (in_data) assert_int_equal(out.code, 0);
            if (i == trailer_value && byte >= 0x80) assert_int_equal(out.code, 0);
            if (out.code == 0) assert_int_equal(out.body_size, 5);
        }
    }
}

static void test_tiny_chunks_are_decoded_fast(void **state) {
    (void)state;
    enum { CHUNKS = 1 << 20 };
    static const char chunk[] = "1\r\nX\r\n";
    char *data = malloc((size_t)CHUNKS * 6);
    assert_non_null(data);
    for (size_t i = 0; i < CHUNKS; ++i) memcpy(data + i * 6, chunk, 6);
    uvhttp__http1_chunked_t chunked;
    uvhttp__http1_chunked_init(&chunked, 0, 0);
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    size_t pos = 0, body_size = 0, calls = 0;
    while (pos < (size_t)CHUNKS * 6) {
        size_t consumed;
        uvhttp_str_t body;
        int code = uvhttp__http1_chunked_decode(&chunked, data + pos, (size_t)CHUNKS * 6 - pos, &consumed, &body);
        assert_true(code == UVHTTP_E_AGAIN);
        pos += consumed;
        body_size += body.size;
        ++calls;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    free(data);
    assert_int_equal(body_size, CHUNKS);
    assert_true(calls <= CHUNKS + 1);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    print_message("%.0f MB/s of wire bytes in 1-byte chunks\n", (double)CHUNKS * 6 / seconds / 1e6);
    assert_true(seconds < 5); /* 120 times the time it takes: catches only what is not linear */
}

static void test_trailers_are_delivered_however_they_are_cut(void **state) {
    (void)state;
    static const struct {
        const char *text, *trailer;
    } cases[] = {
        {"0\r\n\r\n", ""},
        {"0\r\nA: 1\r\n\r\n", "A: 1\r\n"},
        {"3\r\nabc\r\n0\r\nA:\r\nlong-name:  x y \r\n\r\n", "A:\r\nlong-name:  x y \r\n"},
    };
    static decoded_t out;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        decode_all_ways(cases[i].text, strlen(cases[i].text), &out);
        assert_int_equal(out.code, 0);
        assert_int_equal(out.trailer_size, strlen(cases[i].trailer));
        assert_memory_equal(out.trailer, cases[i].trailer, out.trailer_size);
    }
}

int main(void) {
    return RUN_TESTS(test_chunked_bodies_are_decoded, test_chunk_size_is_strict,
                     test_chunk_extensions_are_skipped_but_must_end_plainly,
                     test_chunk_extensions_of_all_chunks_share_one_bound,
                     test_chunk_data_is_followed_by_crlf_and_nothing_else, test_trailers_are_checked_and_dropped,
                     test_trailers_that_frame_or_route_are_refused, test_trailer_section_is_bounded,
                     test_every_byte_in_every_place_of_a_chunked_body, test_tiny_chunks_are_decoded_fast,
                     test_trailers_are_delivered_however_they_are_cut);
}
