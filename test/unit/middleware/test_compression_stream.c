/* Owns: tests of the compression of streamed responses: every piece can be decoded as soon as it is written, and
 * nothing of an encoder is left behind. */
/* Needs: middleware compression. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <brotli/decode.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <uvhttp/compression.h>
#include <uvhttp/log.h>
#include <zlib.h>

#include "support/exchange.h"
#include "support/failing_allocator.h"
#include "support/run.h"

enum { OUT_MAX = 4 << 20, LARGE = 2 << 20 };

static exchange_t ex;
static uvhttp_middleware_t middleware;
static char out[OUT_MAX], decoded[OUT_MAX], large[LARGE];
static size_t out_size, decoded_size;
static int capacity_result, push_result;

/* --- a sink that keeps what it is given --- */

static int capacity(uvhttp_response_t *res, size_t size) {
    (void)res, (void)size;
    return capacity_result;
}

static int push(uvhttp_response_t *res, const char *data, size_t size) {
    (void)res;
    if (push_result != 0) return push_result;
    assert_true(out_size + size <= sizeof out);
    memcpy(out + out_size, data, size);
    out_size += size;
    return 0;
}

static int write_plain(uvhttp_response_t *res, const char *data, size_t size) {
    return push(res, data, size);
}

static const uvhttp__response_sink_t sink = {.begin = exchange_begin,
                                             .write = write_plain,
                                             .capacity = capacity,
                                             .push = push,
                                             .end = exchange_end,
                                             .cut_off = exchange_cut_off};

/* --- decoders --- */

static bool inflate_all(bool *ended) {
    z_stream stream = {.next_in = (Bytef *)out,
                       .avail_in = (unsigned)out_size,
                       .next_out = (Bytef *)decoded,
                       .avail_out = sizeof decoded};
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    int status = inflate(&stream, Z_SYNC_FLUSH);
    decoded_size = stream.total_out;
    *ended = status == Z_STREAM_END;
    inflateEnd(&stream);
    return status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR;
}

/* The library needs the encoder only, so the decoder is not linked. */
static void *decoder_function(const char *name) {
    static void *library;
    if (!library) library = dlopen("libbrotlidec.so.1", RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}

static bool unbrotli_all(bool *ended) {
    BrotliDecoderState *(*create)(brotli_alloc_func, brotli_free_func, void *);
    BrotliDecoderResult (*step)(BrotliDecoderState *, size_t *, const uint8_t **, size_t *, uint8_t **, size_t *);
    void (*destroy)(BrotliDecoderState *);
    void *functions[] = {decoder_function("BrotliDecoderCreateInstance"),
                         decoder_function("BrotliDecoderDecompressStream"),
                         decoder_function("BrotliDecoderDestroyInstance")};
    if (!functions[0]) skip();
    memcpy(&create, &functions[0], sizeof create);
    memcpy(&step, &functions[1], sizeof step);
    memcpy(&destroy, &functions[2], sizeof destroy);
    BrotliDecoderState *decoder = create(NULL, NULL, NULL);
    const uint8_t *next_in = (const uint8_t *)out;
    uint8_t *next_out = (uint8_t *)decoded;
    size_t in_left = out_size, out_left = sizeof decoded;
    BrotliDecoderResult result = step(decoder, &in_left, &next_in, &out_left, &next_out, NULL);
    decoded_size = sizeof decoded - out_left;
    *ended = result == BROTLI_DECODER_RESULT_SUCCESS;
    destroy(decoder);
    return result != BROTLI_DECODER_RESULT_ERROR;
}

static bool brotli_coding;

static void assert_decodes_to(const char *data, size_t size, bool end) {
    bool ended;
    assert_true(brotli_coding ? unbrotli_all(&ended) : inflate_all(&ended));
    assert_int_equal(decoded_size, size);
    assert_memory_equal(decoded, data, size);
    assert_int_equal(ended, end);
}

/* --- a request --- */

static void ask(uvhttp_method_t method, const char *accept) {
    exchange_request(&ex, method, STR("/"), NULL);
    exchange_field(&ex, "Accept-Encoding", accept);
    out_size = 0;
    capacity_result = push_result = 0;
    assert_int_equal(middleware.run(&ex.req, &ex.res, middleware.user), UVHTTP_NEXT);
}

static void make(const uvhttp_compression_options_t *options) {
    middleware = uvhttp_compression(options);
    assert_non_null(middleware.run);
}

static int setup(void **state) {
    (void)state;
    for (size_t i = 0; i < LARGE; ++i) large[i] = (char)(i * i >> 7);
    exchange_init(&ex, SIZE_MAX);
    ex.res.sink = &sink;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    uvhttp__response_done(&ex.res, 0);
    if (middleware.destroy) middleware.destroy(middleware.user);
    middleware = (uvhttp_middleware_t){0};
    exchange_deinit(&ex);
    assert_int_equal(test_allocator_live(), 0);
    return 0;
}

#define assert_header(name, text) assert_str(uvhttp_response_header_get(&ex.res, name), text)
#define assert_no_header(name) assert_null(uvhttp_response_header_get(&ex.res, name).data)
#define begin(type, size) assert_int_equal(uvhttp_response_begin(&ex.res, 200, type, size), 0)
#define write_text(text) assert_int_equal(uvhttp_response_write(&ex.res, text, strlen(text)), 0)
#define done() uvhttp__response_done(&ex.res, 0)

static void check_pieces(const char *accept) {
    brotli_coding = strcmp(accept, "br") == 0;
    ask(UVHTTP_GET, accept);
    uvhttp_response_header(&ex.res, "ETag", "\"x\"");
    begin("text/plain", UVHTTP_SIZE_UNKNOWN);
    assert_header("Content-Encoding", accept);
    assert_header("Vary", "Accept-Encoding");
    assert_header("ETag", "W/\"x\"");
    write_text("first ");
    assert_decodes_to("first ", 6, false);
    write_text("s");
    assert_decodes_to("first s", 7, false);
    write_text("econd");
    assert_decodes_to("first second", 12, false);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_decodes_to("first second", 12, true);
    assert_string_equal(ex.log, "begin:200 end ");
    done();
    ask(UVHTTP_GET, accept);
    begin("text/plain", LARGE);
    assert_int_equal(uvhttp_response_write(&ex.res, large, 1000), 0);
    assert_decodes_to(large, 1000, false);
    assert_int_equal(uvhttp_response_write(&ex.res, large + 1000, LARGE - 1000), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_decodes_to(large, LARGE, true);
    done();
    /* An empty one, and one that ends without a piece. */
    ask(UVHTTP_GET, accept);
    begin("text/plain", UVHTTP_SIZE_UNKNOWN);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_decodes_to("", 0, true);
    done();
}

static void test_every_piece_can_be_decoded_at_once(void **state) {
    (void)state;
    make(NULL);
    check_pieces("gzip");
    check_pieces("gzip"); /* the encoder is used again */
    check_pieces("br");
}

static void test_a_refused_piece_can_be_tried_again(void **state) {
    (void)state;
    make(NULL);
    brotli_coding = false;
    ask(UVHTTP_GET, "gzip");
    begin("text/plain", UVHTTP_SIZE_UNKNOWN);
    write_text("one ");
    capacity_result = UVHTTP_E_LIMIT;
    assert_int_equal(uvhttp_response_write(&ex.res, "two", 3), UVHTTP_E_LIMIT);
    capacity_result = 0;
    assert_decodes_to("one ", 4, false);
    write_text("two");
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_decodes_to("one two", 7, true);
}

static void test_events_are_compressed_only_when_they_are_listed(void **state) {
    (void)state;
    static const char *const kinds[][3] = {{"text/*", NULL}, {"text/*", "text/event-stream", NULL}};
    for (int way = 0; way < 3; ++way) {
        make(way ? &(uvhttp_compression_options_t){.types = kinds[way - 1]} : NULL);
        ask(UVHTTP_GET, "gzip");
        begin("text/event-stream; charset=utf-8", UVHTTP_SIZE_UNKNOWN);
        write_text("data: x\n\n");
        if (way < 2)
            assert_no_header("Content-Encoding");
        else
            assert_header("Content-Encoding", "gzip");
        if (way < 2) assert_memory_equal(out, "data: x\n\n", 9);
        done();
        middleware.destroy(middleware.user);
        middleware = (uvhttp_middleware_t){0};
    }
}

static void test_head_shows_the_head_only(void **state) {
    (void)state;
    make(NULL);
    ask(UVHTTP_HEAD, "gzip");
    begin("text/plain", 100000);
    assert_header("Content-Encoding", "gzip");
    assert_non_null(ex.res.coder); /* no Content-Length */
    write_text("x");
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_int_equal(out_size, 0);
}

static void test_what_must_stay_plain_does(void **state) {
    (void)state;
    make(&(uvhttp_compression_options_t){.size_min = 50});
    for (int way = 0; way < 7; ++way) {
        ask(UVHTTP_GET, way == 5 ? "identity" : "gzip");
        if (way == 0) uvhttp_response_header(&ex.res, "Content-Encoding", "own");
        if (way == 1) uvhttp_response_header(&ex.res, "Cache-Control", "no-transform");
        if (way == 6) uvhttp_response_header(&ex.res, "Repr-Digest", "sha-256=:AA==:");
        const char *type = way == 2 ? "image/png" : "text/plain";
        assert_int_equal(uvhttp_response_begin(&ex.res, way == 3 ? 206 : 200, type, way == 4 ? 49 : 50), 0);
        write_text("plain");
        assert_int_equal(out_size, 5);
        assert_null(ex.res.coder);
        done();
    }
    middleware.destroy(middleware.user);
    make(&(uvhttp_compression_options_t){.no_streams = true});
    ask(UVHTTP_GET, "gzip");
    begin("text/plain", UVHTTP_SIZE_UNKNOWN);
    assert_no_header("Content-Encoding");
    assert_no_header("Vary");
}

/* A digest of the bytes that the handler writes stands behind them (RFC 9530 section 2). */
static void test_a_digest_in_the_trailer_keeps_the_bytes_that_it_is_of(void **state) {
    (void)state;
    static const struct {
        const char *trailer;
        bool plain;
    } cases[] = {{"Content-Digest", true}, {"X-Count, repr-digest", true}, {"X-Content-Digest", false}};
    make(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(UVHTTP_GET, "gzip");
        exchange_field(&ex, "TE", "trailers");
        uvhttp_response_header(&ex.res, "Trailer", cases[i].trailer);
        begin("text/plain", UVHTTP_SIZE_UNKNOWN);
        write_text("plain");
        assert_int_equal(out_size == 5 && !ex.res.coder, cases[i].plain);
        done();
    }
}

static void test_beyond_streams_max_responses_are_plain(void **state) {
    (void)state;
    static exchange_t other;
    make(&(uvhttp_compression_options_t){.streams_max = 1});
    ask(UVHTTP_GET, "gzip");
    begin("text/plain", UVHTTP_SIZE_UNKNOWN);
    assert_header("Content-Encoding", "gzip");
    exchange_init(&other, SIZE_MAX);
    other.res.sink = &sink;
    for (int round = 0; round < 2; ++round) {
        exchange_request(&other, UVHTTP_GET, STR("/"), NULL);
        exchange_field(&other, "Accept-Encoding", round ? "gzip" : "br");
        middleware.run(&other.req, &other.res, middleware.user);
        assert_int_equal(uvhttp_response_begin(&other.res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN), 0);
        assert_int_equal(uvhttp_response_header_get(&other.res, "Content-Encoding").data != NULL, round);
        assert_str(uvhttp_response_header_get(&other.res, "Vary"), "Accept-Encoding");
        uvhttp__response_done(&other.res, 0);
        if (round == 0) done(); /* space for the other */
    }
    exchange_deinit(&other);
}

static void test_a_response_that_breaks_off_does_not_look_whole(void **state) {
    (void)state;
    make(NULL);
    static const char *const codings[] = {"gzip", "br"};
    for (int i = 0; i < 2; ++i) {
        ask(UVHTTP_GET, codings[i]);
        begin("text/plain", UVHTTP_SIZE_UNKNOWN);
        write_text("one");
        push_result = UVHTTP_E_NOMEM;
        assert_int_equal(uvhttp_response_write(&ex.res, "two", 3), UVHTTP_E_NOMEM);
        push_result = 0;
        assert_int_equal(uvhttp_response_write(&ex.res, "three", 5), UVHTTP_E_NOMEM);
        size_t before = out_size;
        assert_int_equal(uvhttp_response_end(&ex.res), 0);
        assert_int_equal(out_size, before);
        assert_string_equal(ex.log, "begin:200 cut off cut off end:missized ");
        done();
    }
    /* Shorter than announced. */
    ask(UVHTTP_GET, "gzip");
    begin("text/plain", 5000);
    write_text("one");
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    brotli_coding = false;
    assert_decodes_to("one", 3, false);
    assert_string_equal(ex.log, "begin:200 end:missized ");
}

static void attempt(void *user) {
    middleware = uvhttp_compression(NULL);
    if (!middleware.run) return;
    exchange_init(&ex, SIZE_MAX);
    ex.res.sink = &sink;
    brotli_coding = strcmp(user, "br") == 0;
    ask(UVHTTP_GET, user);
    if (uvhttp_response_begin(&ex.res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) == 0) {
        bool good = uvhttp_response_write(&ex.res, large, 100000) == 0;
        good = good && uvhttp_response_write(&ex.res, large + 100000, 100000) == 0;
        assert_int_equal(uvhttp_response_end(&ex.res), 0);
        assert_true(good || test_allocator_failed());
        assert_int_equal(good, !uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_MISSIZED));
        if (good && ex.res.coder) assert_decodes_to(large, 200000, true);
        if (!ex.res.coder) assert_no_header("Content-Encoding");
        if (!ex.res.coder) assert_memory_equal(out, large, 200000);
    }
    done();
    exchange_deinit(&ex);
    middleware.destroy(middleware.user);
    middleware = (uvhttp_middleware_t){0};
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    exchange_deinit(&ex);
    assert_true(test_allocator_each_failure(attempt, "gzip") > 5);
    assert_true(test_allocator_each_failure(attempt, "br") > 5);
    setup(NULL);
}

static void test_an_open_stream_holds_no_more_than_documented(void **state) {
    (void)state;
    static const char *const codings[] = {"gzip", "br"};
    make(NULL);
    for (int i = 0; i < 2; ++i) {
        ask(UVHTTP_GET, codings[i]);
        size_t before = test_allocator_live_bytes();
        begin("text/plain", UVHTTP_SIZE_UNKNOWN);
        for (size_t at = 0; at < LARGE; at += 65536)
            assert_int_equal(uvhttp_response_write(&ex.res, large + at, 65536), 0);
        size_t held = test_allocator_live_bytes() - before;
        print_message("%s: %zu bytes\n", codings[i], held);
        assert_true(held < (i ? 1700u : 300u) * 1024);
        done();
    }
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_TESTS_WITH(
        setup, teardown, test_every_piece_can_be_decoded_at_once, test_a_refused_piece_can_be_tried_again,
        test_events_are_compressed_only_when_they_are_listed, test_head_shows_the_head_only,
        test_what_must_stay_plain_does, test_a_digest_in_the_trailer_keeps_the_bytes_that_it_is_of,
        test_beyond_streams_max_responses_are_plain, test_a_response_that_breaks_off_does_not_look_whole,
        test_every_allocation_may_fail, test_an_open_stream_holds_no_more_than_documented);
}
