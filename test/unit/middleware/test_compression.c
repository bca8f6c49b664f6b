/* Owns: tests of the compression middleware: which responses, what their heads say, and that what comes out is what
 * went in. */
/* Needs: middleware compression. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <uvhttp/compression.h>
#include <uvhttp/log.h>
#include <zlib.h>

#include "middleware/encoder.h"
#include "support/exchange.h"
#include "support/failing_allocator.h"
#include "support/run.h"

enum { PLAIN_SIZE = 5000 };

static exchange_t ex;
static char plain[PLAIN_SIZE + 1];
static int released;

static void release(void *arg) {
    (void)arg;
    ++released;
}

static int setup(void **state) {
    (void)state;
    for (size_t i = 0; i < PLAIN_SIZE; ++i) plain[i] = "the quick brown fox "[i % 20];
    released = 0;
    exchange_init(&ex, 1 << 20);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    exchange_deinit(&ex);
    return 0;
}

/* What the server does: middleware, handler, hooks. */
static void respond(const uvhttp_compression_options_t *options, const char *accept, const char *type, const void *data,
                    size_t size) {
    uvhttp_middleware_t middleware = uvhttp_compression(options);
    assert_non_null(middleware.run);
    if (accept) exchange_field(&ex, "Accept-Encoding", accept);
    assert_int_equal(middleware.run(&ex.req, &ex.res, middleware.user), UVHTTP_NEXT);
    assert_int_equal(uvhttp_response_send_ref(&ex.res, 200, type, data, size, release, NULL), 0);
    uvhttp__response_finish(&ex.res);
    middleware.destroy(middleware.user);
}

#define assert_header(name, text) assert_str(uvhttp_response_header_get(&ex.res, name), text)
#define assert_no_header(name) assert_null(uvhttp_response_header_get(&ex.res, name).data)

static void assert_untouched(const void *data, size_t size) {
    assert_no_header("Content-Encoding");
    assert_ptr_equal(ex.res.body.data, data);
    assert_int_equal(ex.res.body.size, size);
    assert_int_equal(released, 0);
}

static void assert_gunzips_to(const void *data, size_t size) {
    char *out = malloc(size + 1);
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)ex.res.body.data,
                       .avail_in = (unsigned)ex.res.body.size,
                       .next_out = (Bytef *)out,
                       .avail_out = (unsigned)size + 1};
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.total_out, size);
    assert_int_equal(stream.avail_in, 0);
    assert_memory_equal(out, data, size);
    inflateEnd(&stream);
    free(out);
}

static void test_gzip_comes_out_as_it_went_in(void **state) {
    (void)state;
    respond(NULL, "gzip", "text/html; charset=utf-8", plain, PLAIN_SIZE);
    assert_header("Content-Encoding", "gzip");
    assert_header("Vary", "Accept-Encoding");
    assert_true(ex.res.body.size < 300);
    assert_gunzips_to(plain, PLAIN_SIZE);
    assert_int_equal(released, 1); /* the body before has gone */
    assert_int_equal(ex.res.content_type_size, strlen("text/html; charset=utf-8"));
}

static void test_brotli_wins_when_nothing_is_preferred(void **state) {
    (void)state;
    respond(NULL, "gzip, br", "application/json", plain, PLAIN_SIZE);
    assert_header("Content-Encoding", "br");
    assert_true(ex.res.body.size < 300);
}

static void test_the_client_s_preference_is_kept(void **state) {
    (void)state;
    respond(NULL, "gzip;q=0.9, br;q=0.8", "text/plain", plain, PLAIN_SIZE);
    assert_header("Content-Encoding", "gzip");
    exchange_deinit(&ex);
    setup(NULL);
    respond(NULL, "identity, gzip;q=0.9, br;q=0.8", "text/plain", plain, PLAIN_SIZE);
    assert_untouched(plain, PLAIN_SIZE);
    assert_header("Vary", "Accept-Encoding");
}

static void test_a_coding_that_is_off_is_not_used(void **state) {
    (void)state;
    respond(&(uvhttp_compression_options_t){.no_brotli = true}, "br, gzip;q=0.1", "text/plain", plain, PLAIN_SIZE);
    assert_header("Content-Encoding", "gzip");
}

static void test_vary_is_sent_to_clients_that_accept_nothing(void **state) {
    (void)state;
    respond(NULL, NULL, "text/plain", plain, PLAIN_SIZE);
    assert_untouched(plain, PLAIN_SIZE);
    assert_header("Vary", "Accept-Encoding");
}

static void test_sizes_have_limits(void **state) {
    (void)state;
    respond(NULL, "gzip", "text/plain", plain, 1023);
    assert_untouched(plain, 1023);
    assert_no_header("Vary");
    exchange_deinit(&ex);
    setup(NULL);
    respond(NULL, "gzip", "text/plain", plain, 1024);
    assert_header("Content-Encoding", "gzip");
    exchange_deinit(&ex);
    setup(NULL);
    respond(&(uvhttp_compression_options_t){.size_max = 2000}, "gzip", "text/plain", plain, 2001);
    assert_untouched(plain, 2001);
}

static void test_types_decide(void **state) {
    (void)state;
    static const struct {
        const char *type;
        bool compressed;
    } cases[] = {{"text/css", true},
                 {"TEXT/HTML", true},
                 {"application/problem+json", true},
                 {"image/svg+xml", true},
                 {"image/png", false},
                 {"application/zip", false},
                 {"video/mp4", false},
                 {"font/woff2", false},
                 {"application/octet-stream", false},
                 {"application/xhtml+xml ; q", true},
                 {"+json", false},
                 {"textual/x", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        respond(NULL, "gzip", cases[i].type, plain, PLAIN_SIZE);
        if ((uvhttp_response_header_get(&ex.res, "Content-Encoding").data != NULL) != cases[i].compressed)
            fail_msg("%s", cases[i].type);
        exchange_deinit(&ex);
        setup(NULL);
    }
    const char *const types[] = {"", "model/*", "application/x-mine", NULL};
    const uvhttp_compression_options_t own = {.types = types};
    respond(&own, "gzip", "model/obj", plain, PLAIN_SIZE);
    assert_header("Content-Encoding", "gzip");
    exchange_deinit(&ex);
    setup(NULL);
    respond(&own, "gzip", "text/plain", plain, PLAIN_SIZE);
    assert_untouched(plain, PLAIN_SIZE);
}

static void test_what_is_encoded_or_must_not_be_transformed_is_left_alone(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_header(&ex.res, "Content-Encoding", "zstd"), 0);
    respond(NULL, "gzip", "text/plain", plain, PLAIN_SIZE);
    assert_header("Content-Encoding", "zstd");
    assert_int_equal(ex.res.body.size, PLAIN_SIZE);
    exchange_deinit(&ex);
    setup(NULL);
    assert_int_equal(uvhttp_response_header(&ex.res, "Cache-Control", "max-age=60 , No-Transform"), 0);
    respond(NULL, "gzip", "text/plain", plain, PLAIN_SIZE);
    assert_untouched(plain, PLAIN_SIZE);
}

/* RFC 9530 sections 2 and 3: a digest is that of one coding, and a client that checks it would refuse another one. */
static void test_what_has_a_digest_keeps_the_bytes_that_it_is_of(void **state) {
    (void)state;
    static const char *const fields[] = {"Content-Digest", "Repr-Digest", "Digest", "Content-MD5"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        exchange_deinit(&ex);
        setup(NULL);
        assert_int_equal(uvhttp_response_header(&ex.res, fields[i], "sha-256=:AA==:"), 0);
        respond(NULL, "gzip", "text/plain", plain, PLAIN_SIZE);
        assert_untouched(plain, PLAIN_SIZE);
        assert_no_header("Vary");
    }
}

static void test_a_body_that_does_not_shrink_is_sent_as_it_is(void **state) {
    (void)state;
    char noise[2000];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof noise; ++i) noise[i] = (char)((x = x * 1664525 + 1013904223) >> 24);
    respond(NULL, "gzip", "text/plain", noise, sizeof noise);
    assert_untouched(noise, sizeof noise);
    assert_header("Vary", "Accept-Encoding");
    exchange_deinit(&ex);
    setup(NULL);
    respond(NULL, "br", "text/plain", noise, sizeof noise);
    assert_untouched(noise, sizeof noise);
}

static void test_vary_is_not_doubled_and_a_strong_etag_becomes_weak(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_header(&ex.res, "Vary", "Origin, accept-encoding"), 0);
    assert_int_equal(uvhttp_response_header(&ex.res, "ETag", "\"abc\""), 0);
    respond(NULL, "gzip", "text/plain", plain, PLAIN_SIZE);
    assert_header("Vary", "Origin, accept-encoding");
    assert_header("ETag", "W/\"abc\"");
    exchange_deinit(&ex);
    setup(NULL);
    assert_int_equal(uvhttp_response_header(&ex.res, "ETag", "W/\"abc\""), 0);
    respond(NULL, "gzip", "text/plain", plain, PLAIN_SIZE);
    assert_header("ETag", "W/\"abc\"");
}

static void test_partial_responses_are_left_alone(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = uvhttp_compression(NULL);
    exchange_field(&ex, "Accept-Encoding", "gzip");
    middleware.run(&ex.req, &ex.res, middleware.user);
    assert_int_equal(uvhttp_response_send_static(&ex.res, 206, "text/plain", plain, PLAIN_SIZE), 0);
    uvhttp__response_finish(&ex.res);
    assert_untouched(plain, PLAIN_SIZE);
    middleware.destroy(middleware.user);
}

static void respond_partially(const char *type, const char *cache_control) {
    uvhttp_middleware_t middleware = uvhttp_compression(NULL);
    exchange_deinit(&ex);
    setup(NULL);
    if (cache_control) assert_int_equal(uvhttp_response_header(&ex.res, "Cache-Control", cache_control), 0);
    middleware.run(&ex.req, &ex.res, middleware.user);
    assert_int_equal(uvhttp_response_send_static(&ex.res, 206, type, plain, 10), 0);
    uvhttp__response_finish(&ex.res);
    assert_untouched(plain, 10);
    middleware.destroy(middleware.user);
}

/* RFC 9110 section 15.3.7 */
static void test_a_206_varies_as_the_response_that_it_is_a_part_of(void **state) {
    (void)state;
    respond_partially("text/plain", NULL);
    assert_header("Vary", "Accept-Encoding");
    respond_partially("multipart/byteranges; boundary=x", NULL); /* the type of the parts does not show */
    assert_header("Vary", "Accept-Encoding");
    respond_partially("image/png", NULL);
    assert_no_header("Vary");
    respond_partially("text/plain", "no-transform");
    assert_no_header("Vary");
}

/* Ranges count the bytes before compression. */
static void test_a_compressed_response_offers_no_ranges(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_header(&ex.res, "Accept-Ranges", "bytes"), 0);
    respond(NULL, "gzip", "text/plain", plain, PLAIN_SIZE);
    assert_header("Content-Encoding", "gzip");
    assert_no_header("Accept-Ranges");
    exchange_deinit(&ex);
    setup(NULL);
    assert_int_equal(uvhttp_response_header(&ex.res, "Accept-Ranges", "bytes"), 0);
    respond(NULL, NULL, "text/plain", plain, PLAIN_SIZE);
    assert_header("Accept-Ranges", "bytes");
}

/* The response of a handler that has evaluated If-None-Match. */
static void respond_not_modified(const char *if_none_match, const char *etag) {
    uvhttp_middleware_t middleware = uvhttp_compression(NULL);
    exchange_field(&ex, "Accept-Encoding", "gzip");
    if (if_none_match) exchange_field(&ex, "If-None-Match", if_none_match);
    if (etag) assert_int_equal(uvhttp_response_header(&ex.res, "ETag", etag), 0);
    middleware.run(&ex.req, &ex.res, middleware.user);
    assert_int_equal(uvhttp_response_empty(&ex.res, 304), 0);
    uvhttp__response_finish(&ex.res);
    middleware.destroy(middleware.user);
    assert_no_header("Content-Encoding");
}

static void respond_not_modified_with(const char *name, const char *value) {
    exchange_deinit(&ex);
    setup(NULL);
    assert_int_equal(uvhttp_response_header(&ex.res, name, value), 0);
    respond_not_modified(NULL, NULL);
}

/* Several fields of a name are one list (RFC 9110 section 5.3). */
static void test_lists_in_several_fields_are_read_to_their_end(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_header(&ex.res, "Cache-Control", "private"), 0);
    assert_int_equal(uvhttp_response_header_add(&ex.res, "cache-control", "max-age=60, No-Transform"), 0);
    respond(NULL, "gzip", "text/plain", plain, PLAIN_SIZE);
    assert_untouched(plain, PLAIN_SIZE);
    assert_no_header("Vary");
    exchange_deinit(&ex);
    setup(NULL);
    assert_int_equal(uvhttp_response_header(&ex.res, "Vary", "Origin"), 0);
    assert_int_equal(uvhttp_response_header_add(&ex.res, "Vary", "accept-encoding"), 0);
    uint32_t size = ex.res.headers_size;
    respond(NULL, NULL, "text/plain", plain, PLAIN_SIZE);
    assert_int_equal(ex.res.headers_size, size);
}

/* RFC 9110 section 15.4.5 */
static void test_a_304_varies_as_the_response_that_it_stands_for(void **state) {
    (void)state;
    respond_not_modified(NULL, NULL);
    assert_header("Vary", "Accept-Encoding");
    respond_not_modified_with("Vary", "Accept-Encoding");
    assert_header("Vary", "Accept-Encoding");
    respond_not_modified_with("Content-Type", "text/css");
    assert_header("Vary", "Accept-Encoding");
    respond_not_modified_with("Content-Type", "image/png");
    assert_no_header("Vary");
    respond_not_modified_with("Cache-Control", "no-transform");
    assert_no_header("Vary");
}

static void test_a_304_has_the_validator_that_the_client_has(void **state) {
    (void)state;
    static const struct {
        const char *if_none_match, *etag, *sent;
    } cases[] = {{"W/\"abc\"", "\"abc\"", "W/\"abc\""},   {"\"x\", W/\"abc\"", "\"abc\"", "W/\"abc\""},
                 {"\"abc\"", "\"abc\"", "\"abc\""},       {"W/\"abcd\"", "\"abc\"", "\"abc\""},
                 {"W/\"abc\"", "W/\"abc\"", "W/\"abc\""}, {NULL, "\"abc\"", "\"abc\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        respond_not_modified(cases[i].if_none_match, cases[i].etag);
        assert_header("ETag", cases[i].sent);
        exchange_deinit(&ex);
        setup(NULL);
    }
    respond_not_modified("W/\"abc\"", NULL);
    assert_no_header("ETag");
}

static void replace_body(uvhttp_response_t *res, void *user) {
    assert_int_equal(uvhttp_response_send_static(res, 500, "text/html", user, strlen(user)), 0);
}

/* The body that is compressed is the one that is sent, whoever came first. */
static void test_a_hook_may_replace_the_body_in_any_order(void **state) {
    (void)state;
    static char page[] = "a short page";
    for (int first = 0; first < 2; first++) {
        exchange_deinit(&ex);
        setup(NULL);
        uvhttp_middleware_t middleware = uvhttp_compression(NULL);
        exchange_field(&ex, "Accept-Encoding", "gzip");
        if (first) assert_int_equal(uvhttp_response_on_finish(&ex.res, replace_body, page), 0);
        assert_int_equal(middleware.run(&ex.req, &ex.res, middleware.user), UVHTTP_NEXT);
        if (!first) assert_int_equal(uvhttp_response_on_finish(&ex.res, replace_body, page), 0);
        assert_int_equal(uvhttp_response_send_ref(&ex.res, 200, "text/html", plain, PLAIN_SIZE, release, NULL), 0);
        uvhttp__response_finish(&ex.res);
        middleware.destroy(middleware.user);
        assert_int_equal(released, 1);
        assert_int_equal(ex.res.body.size, sizeof page - 1);
        assert_no_header("Content-Encoding");
        assert_no_header("Vary");
    }
}

static void test_wrong_options_are_refused(void **state) {
    (void)state;
    static const uvhttp_compression_options_t wrong[] = {
        {.gzip_level = 10},     {.brotli_quality = 12},         {.streams_max = 65537},
        {.size_max = 1u << 31}, {.size_min = 3, .size_max = 2}, {.no_gzip = true, .no_brotli = true}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) assert_null(uvhttp_compression(&wrong[i]).run);
}

static char logged[512];

static void take_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)size, (void)user;
    snprintf(logged, sizeof logged, "%s", message);
}

/* No advice that leads to the next refusal: the default of size_min is more than this, too. */
static void test_a_maximum_below_the_minimum_is_refused_with_both(void **state) {
    (void)state;
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_ERROR);
    uvhttp_log_set_callback(take_log, NULL);
    assert_null(uvhttp_compression(&(uvhttp_compression_options_t){.size_max = 500}).run);
    assert_string_equal(logged, "middleware: compression: size_min is 1024, more than size_max, which is 500");
    assert_null(uvhttp_compression(&(uvhttp_compression_options_t){.size_min = 501, .size_max = 500}).run);
    assert_string_equal(logged, "middleware: compression: size_min is 501, more than size_max, which is 500");
    uvhttp_log_set_callback(NULL, NULL);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
}

static void attempt(void *user) {
    const char *accept = user;
    const char *const types[] = {"text/plain", NULL};
    uvhttp_middleware_t middleware = uvhttp_compression(&(uvhttp_compression_options_t){.types = types});
    if (!middleware.run) {
        assert_true(test_allocator_failed());
        return;
    }
    exchange_init(&ex, 1 << 20);
    exchange_field(&ex, "Accept-Encoding", accept);
    middleware.run(&ex.req, &ex.res, middleware.user);
    if (uvhttp_response_send(&ex.res, 200, "text/plain", plain, PLAIN_SIZE) == 0) {
        uvhttp__response_finish(&ex.res);
        bool encoded = ex.res.body.size != PLAIN_SIZE;
        assert_int_equal(uvhttp_response_header_get(&ex.res, "Content-Encoding").data != NULL, encoded);
        assert_true(encoded || test_allocator_failed());
    } else {
        assert_true(test_allocator_failed());
    }
    exchange_deinit(&ex);
    middleware.destroy(middleware.user);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    exchange_deinit(&ex);
    assert_true(test_allocator_each_failure(attempt, "gzip") > 5);
    assert_true(test_allocator_each_failure(attempt, "br") > 5);
    setup(NULL);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_TESTS_WITH(
        setup, teardown, test_gzip_comes_out_as_it_went_in, test_brotli_wins_when_nothing_is_preferred,
        test_the_client_s_preference_is_kept, test_a_coding_that_is_off_is_not_used,
        test_vary_is_sent_to_clients_that_accept_nothing, test_sizes_have_limits, test_types_decide,
        test_what_is_encoded_or_must_not_be_transformed_is_left_alone,
        test_what_has_a_digest_keeps_the_bytes_that_it_is_of, test_a_body_that_does_not_shrink_is_sent_as_it_is,
        test_vary_is_not_doubled_and_a_strong_etag_becomes_weak, test_partial_responses_are_left_alone,
        test_a_206_varies_as_the_response_that_it_is_a_part_of, test_a_compressed_response_offers_no_ranges,
        test_lists_in_several_fields_are_read_to_their_end, test_a_304_varies_as_the_response_that_it_stands_for,
        test_a_304_has_the_validator_that_the_client_has, test_a_hook_may_replace_the_body_in_any_order,
        test_wrong_options_are_refused, test_a_maximum_below_the_minimum_is_refused_with_both,
        test_every_allocation_may_fail);
}
