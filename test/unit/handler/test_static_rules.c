/* Static files: what is decided without touching a file: paths, ranges, conditions, types, options. */
/* Needs: static. */
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "../support/failing_allocator.h"
#include "handler/static.h"
#include "support/exchange.h"
#include "support/run.h"

/* The text up against a page that cannot be read: who reads on dies. */
static uvhttp_str_t guarded(const char *text) {
    static char *pages;
    size_t size = strlen(text), page = (size_t)sysconf(_SC_PAGESIZE), capacity = 4 * page;
    if (!pages) {
        pages = mmap(NULL, capacity + page, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
        assert_true(pages != MAP_FAILED);
        assert_int_equal(mprotect(pages + capacity, page, PROT_NONE), 0);
    }
    assert_true(size <= capacity);
    memcpy(pages + capacity - size, text, size);
    return (uvhttp_str_t){pages + capacity - size, size};
}

/* --- paths --- */

static void test_paths_that_cannot_leave_the_root_are_valid(void **state) {
    (void)state;
    static const char *const good[] = {"", "a", "a/", "a/b.txt", "a b", "a%2Fb", "a\t", "a..b", "a.", "~root", "a:b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(uvhttp__static_path_valid(guarded(good[i]), false));
    static const char *const bad[] = {"/",   "//",   "/a",    "a//b",   "a//",  ".",       "..",       "a/..",
                                      "./a", "../a", "a/./b", "a/../b", "a\\b", ".hidden", "a/.git/b", "..\\a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (uvhttp__static_path_valid(guarded(bad[i]), false)) fail_msg("taken: %s", bad[i]);
    assert_false(uvhttp__static_path_valid((uvhttp_str_t){"a\0b", 3}, true));
    assert_true(uvhttp__static_path_valid(guarded(".hidden"), true));
    assert_true(uvhttp__static_path_valid(guarded("..."), true));
    assert_false(uvhttp__static_path_valid(guarded(".."), true));
    assert_false(uvhttp__static_path_valid(guarded("a/."), true));
}

static void test_names_and_paths_have_a_longest(void **state) {
    (void)state;
    char text[UVHTTP__STATIC_PATH_MAX + 2];
    memset(text, 'a', sizeof text);
    assert_true(uvhttp__static_path_valid((uvhttp_str_t){text, 255}, false));
    assert_false(uvhttp__static_path_valid((uvhttp_str_t){text, 256}, false));
    for (size_t i = 100; i < sizeof text; i += 100) text[i] = '/';
    assert_true(uvhttp__static_path_valid((uvhttp_str_t){text, UVHTTP__STATIC_PATH_MAX - 1}, false));
    assert_false(uvhttp__static_path_valid((uvhttp_str_t){text, UVHTTP__STATIC_PATH_MAX}, false));
}

/* --- ranges --- */

static void expect_ranges(const char *value, uint64_t size, uvhttp__range_outcome_t outcome, const char *expected) {
    uvhttp__range_t ranges[4];
    uint32_t count;
    uvhttp__range_outcome_t got = uvhttp__range_parse(guarded(value), size, ranges, 4, &count);
    char text[256] = "";
    if (got == UVHTTP__RANGE_SOME)
        for (uint32_t i = 0; i < count; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%" PRIu64 "+%" PRIu64 " ", ranges[i].first,
                     ranges[i].size);
    if (got != outcome || strcmp(text, expected) != 0) fail_msg("%s of %" PRIu64 ": %d %s", value, size, got, text);
}

static void test_ranges_are_read_as_rfc_9110_says(void **state) {
    (void)state;
    expect_ranges("bytes=0-0", 10, UVHTTP__RANGE_SOME, "0+1 ");
    expect_ranges("bytes=0-", 10, UVHTTP__RANGE_SOME, "0+10 ");
    expect_ranges("bytes=-3", 10, UVHTTP__RANGE_SOME, "7+3 ");
    expect_ranges("bytes=-30", 10, UVHTTP__RANGE_SOME, "0+10 ");
    expect_ranges("bytes=5-99999999999999999999999", 10, UVHTTP__RANGE_SOME, "5+5 ");
    expect_ranges("bytes=9-,0-1", 10, UVHTTP__RANGE_SOME, "9+1 0+2 ");
    expect_ranges("BYTES=1-2 ,, 4-4\t", 10, UVHTTP__RANGE_SOME, "1+2 4+1 ");
    expect_ranges("bytes=0-0,99-", 10, UVHTTP__RANGE_SOME, "0+1 ");
    expect_ranges("bytes=10-", 10, UVHTTP__RANGE_UNSATISFIABLE, "");
    expect_ranges("bytes=-0", 10, UVHTTP__RANGE_UNSATISFIABLE, "");
    expect_ranges("bytes=18446744073709551615-", UINT64_MAX, UVHTTP__RANGE_UNSATISFIABLE, "");
    expect_ranges("bytes=0-18446744073709551615", UINT64_MAX, UVHTTP__RANGE_SOME, "0+18446744073709551615 ");
    expect_ranges("bytes=0-", 0, UVHTTP__RANGE_NONE, "");
    expect_ranges("bytes=-1", 0, UVHTTP__RANGE_NONE, "");
    expect_ranges("bytes=0-4,4-5", 10, UVHTTP__RANGE_ABSURD, "");
    expect_ranges("bytes=0-1,2-3,4-5,6-7", 10, UVHTTP__RANGE_SOME, "0+2 2+2 4+2 6+2 ");
    expect_ranges("bytes=0-1,2-3,4-5,6-7,8-9", 10, UVHTTP__RANGE_ABSURD, "");
    static const char *const wrong[] = {"",           "bytes",      "bytes=",      "bytes=-",
                                        "bytes=a",    "bytes=1",    "bytes=2-1",   "bytes=,",
                                        "bytes=1-2-", "bytes=--1",  "bytes=1 -2",  "bytes=0-1;2-3",
                                        "items=0-1",  "bytes =0-1", "bytes=0-1,a", "bytes=0-4,2-6,x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_ranges(wrong[i], 10, UVHTTP__RANGE_NONE, "");
}

/* --- conditions --- */

#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"
#define SECONDS 784111777

static const uvhttp__validators_t validators = {{"\"a\"", 3}, SECONDS, SECONDS + 100, false};

static void expect_condition(const char *name, const char *value, const char *name2, const char *value2, int expected) {
    exchange_t ex;
    exchange_init(&ex, SIZE_MAX);
    exchange_field(&ex, name, value);
    if (name2) exchange_field(&ex, name2, value2);
    uvhttp__static_fields_t fields;
    uvhttp__static_fields(&ex.req, &fields);
    assert_true(fields.any);
    int status = uvhttp__static_condition(&fields, &validators);
    if (status != expected) fail_msg("%s: %s: %d", name, value, status);
    exchange_deinit(&ex);
}

static void test_conditions_have_the_order_of_rfc_9110(void **state) {
    (void)state;
    expect_condition("If-None-Match", "\"a\"", NULL, NULL, 304);
    expect_condition("if-none-match", "W/\"a\"", NULL, NULL, 304);
    expect_condition("If-None-Match", "\"b\", \"a\"", NULL, NULL, 304);
    expect_condition("If-None-Match", "\"b\",W/\"c\"", NULL, NULL, 200);
    expect_condition("If-None-Match", "a", NULL, NULL, 200);
    expect_condition("If-None-Match", "\"a", NULL, NULL, 200);
    expect_condition("If-None-Match", "*", NULL, NULL, 304);
    expect_condition("If-None-Match", "\"b\"", "If-Modified-Since", DATE, 200);
    expect_condition("If-Modified-Since", DATE, NULL, NULL, 304);
    expect_condition("If-Modified-Since", "Sun, 06 Nov 1994 08:49:36 GMT", NULL, NULL, 200);
    expect_condition("If-Modified-Since", "never", NULL, NULL, 200);
    expect_condition("If-Match", "\"a\"", NULL, NULL, 200);
    expect_condition("If-Match", "W/\"a\"", NULL, NULL, 412);
    expect_condition("If-Match", "*", NULL, NULL, 200);
    expect_condition("If-Match", "", NULL, NULL, 412);
    expect_condition("If-Unmodified-Since", DATE, NULL, NULL, 200);
    expect_condition("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:36 GMT", NULL, NULL, 412);
    expect_condition("If-Match", "\"a\"", "If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:36 GMT", 200);
    expect_condition("If-Match", "\"a\"", "If-None-Match", "\"a\"", 304);
    /* Several lines are one list (RFC 9110 section 5.3). */
    expect_condition("If-None-Match", "\"a\"", "If-None-Match", "\"a\"", 304);
    expect_condition("If-None-Match", "\"b\"", "if-none-match", "\"c\", W/\"a\"", 304);
    expect_condition("If-None-Match", "\"b\"", "If-None-Match", "\"c\"", 200);
    expect_condition("If-Match", "\"b\"", "If-Match", "\"a\"", 200);
    expect_condition("If-Match", "W/\"a\"", "If-Match", "\"b\"", 412);
    expect_condition("If-Match", "", "If-Match", "*", 200);
    /* A comma in a tag is no end of it. */
    expect_condition("If-None-Match", "\"x,\"a\",y\"", NULL, NULL, 200);
    expect_condition("If-None-Match", "\"x,y\" , \"a\"", NULL, NULL, 304);
    /* Those that are no lists match nothing. */
    expect_condition("If-Modified-Since", DATE, "If-Modified-Since", DATE, 200);
}

static bool range_applies(const char *if_range) {
    uvhttp__static_fields_t fields = {.if_range = guarded(if_range)};
    return uvhttp__static_range_applies(&fields, &validators);
}

static void test_if_range_compares_strongly(void **state) {
    (void)state;
    assert_true(range_applies("\"a\""));
    assert_false(range_applies("W/\"a\""));
    assert_false(range_applies("\"b\""));
    assert_false(range_applies(""));
    assert_true(range_applies(DATE));
    assert_false(range_applies("Sun, 06 Nov 1994 08:49:38 GMT"));
    uvhttp__static_fields_t fields = {.if_range = guarded(DATE)};
    uvhttp__validators_t now = validators;
    now.now = SECONDS; /* it could still change within this second */
    assert_false(uvhttp__static_range_applies(&fields, &now));
    uvhttp__validators_t one_of_several = validators;
    one_of_several.vary = true;
    assert_false(uvhttp__static_range_applies(&fields, &one_of_several));
    fields.if_range = guarded("\"a\"");
    assert_true(uvhttp__static_range_applies(&fields, &one_of_several));
}

/* --- types, rules, options --- */

static void test_types_go_by_the_extension(void **state) {
    (void)state;
    const uvhttp_static_type_t own[] = {{"txt", "text/x-own"}, {"gz", "application/x-own"}, {NULL, NULL}};
    uvhttp_static_options_t options = {.default_type = "application/octet-stream"};
    assert_string_equal(uvhttp__static_type(&options, "a.html"), "text/html; charset=utf-8");
    assert_string_equal(uvhttp__static_type(&options, "a.b/A.JPG"), "image/jpeg");
    assert_string_equal(uvhttp__static_type(&options, "7.7z"), "application/x-7z-compressed");
    assert_string_equal(uvhttp__static_type(&options, "a.zst"), "application/zstd");
    assert_string_equal(uvhttp__static_type(&options, "a.woff2"), "font/woff2");
    static const char *const unknown[] = {"", "a", "a.", ".html", "a.html/b", "a.unknownextension", "a.html.thing"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_string_equal(uvhttp__static_type(&options, unknown[i]), "application/octet-stream");
    options.types = own;
    assert_string_equal(uvhttp__static_type(&options, "a.TXT"), "text/x-own");
    assert_string_equal(uvhttp__static_type(&options, "a.gz"), "application/x-own");
    assert_string_equal(uvhttp__static_type(&options, "a.css"), "text/css; charset=utf-8");
}

static void test_the_table_of_types_is_sorted(void **state) {
    (void)state;
    uvhttp_static_options_t options = {.default_type = "none"};
    static const char *const all[] = {
        "7z",  "aac",  "apng",        "avif", "bin",  "bmp",  "c",   "css",  "csv", "doc", "epub", "gif",
        "gz",  "h",    "htm",         "html", "ico",  "jpeg", "js",  "json", "jxl", "map", "md",   "mjs",
        "mp3", "mp4",  "ogg",         "otf",  "pdf",  "png",  "svg", "tar",  "ttf", "txt", "vtt",  "wasm",
        "wav", "webm", "webmanifest", "webp", "woff", "xml",  "xz",  "yml",  "zip", "zst"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char path[32];
        snprintf(path, sizeof path, "x.%s", all[i]);
        if (strcmp(uvhttp__static_type(&options, path), "none") == 0) fail_msg("not found: %s", path);
    }
}

static void test_patterns(void **state) {
    (void)state;
    assert_true(uvhttp__static_pattern_fits("*", ""));
    assert_true(uvhttp__static_pattern_fits("*.css", "a/b.css"));
    assert_true(uvhttp__static_pattern_fits("a/*", "a/"));
    assert_true(uvhttp__static_pattern_fits("a*b*c", "aXbYbZc"));
    assert_true(uvhttp__static_pattern_fits("**a**", "bab"));
    assert_true(uvhttp__static_pattern_fits("", ""));
    assert_false(uvhttp__static_pattern_fits("", "a"));
    assert_false(uvhttp__static_pattern_fits("*.css", "a.css.map"));
    assert_false(uvhttp__static_pattern_fits("a*b", "ab/"));
    assert_false(uvhttp__static_pattern_fits("ab", "a"));
}

static void test_names_with_a_hash_are_known(void **state) {
    (void)state;
    static const char *const hashed[] = {"app.3f2a9c81.js", "a/b-0123456789abcdef.css", "x_DEADBEE1.png"};
    static const char *const others[] = {"app.js",        "app.3f2a9c8.js", "3f2a9c81.js",
                                         "a.facadeed.js", "a.3f2a9c8g1.js", "a.3f2a9c81/b.js",
                                         "a.3f2a9c81",    "a3f2a9c81.js",   ""};
    for (size_t i = 0; i < sizeof hashed / sizeof *hashed; i++) assert_true(uvhttp__static_name_is_hashed(hashed[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (uvhttp__static_name_is_hashed(others[i])) fail_msg("hashed: %s", others[i]);
}

static void silent(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)message, (void)size, (void)user;
}

static void test_options_are_checked_and_copied(void **state) {
    (void)state;
    char extension[] = "md", type[] = "text/x", pattern[] = "*", value[] = "no-cache", index[] = "i.html";
    uvhttp_static_type_t types[] = {{extension, type}, {NULL, NULL}};
    uvhttp_static_rule_t rules[] = {{pattern, value}, {NULL, NULL}};
    const char *names[] = {index, NULL};
    uvhttp_static_options_t options = {.types = types, .rules = rules, .index_files = names, .fallback = "f.html"};
    uvhttp__static_settings_t settings;
    assert_int_equal(uvhttp__static_settings_init(&settings, &options, "/"), UVHTTP_OK);
    memset(extension, 'x', 2), memset(type, 'x', 6), memset(value, 'x', 8), memset(index, 'x', 6);
    types[0].extension = rules[0].pattern = names[0] = NULL;
    assert_string_equal(uvhttp__static_type(&settings.options, "a.md"), "text/x");
    assert_string_equal(uvhttp__static_cache_control(&settings.options, "a"), "no-cache");
    assert_string_equal(settings.options.index_files[0], "i.html");
    assert_string_equal(settings.options.fallback, "f.html");
    assert_int_equal(settings.options.ranges_max, 16);
    uvhttp__static_settings_deinit(&settings);

    const uvhttp_static_type_t bad_types[] = {{"md", "a\r\nb"}, {NULL, NULL}};
    const uvhttp_static_rule_t bad_rules[] = {{"*", "a\nb"}, {NULL, NULL}};
    const char *const bad_names[] = {"..", NULL};
    const uvhttp_static_options_t wrong[] = {{.types = bad_types},
                                             {.rules = bad_rules},
                                             {.index_files = bad_names},
                                             {.fallback = "/a"},
                                             {.fallback = ""},
                                             {.default_type = "a\n"},
                                             {.sendfile_min = (64 << 20) + 1},
                                             {.revalidate_ms = 86400001},
                                             {.ranges_max = 1001},
                                             {.list_entries_max = 100001},
                                             {.helper_threads = 65},
                                             {.backlog_max = 1000001},
                                             {.cache_entries_max = 10000001},
                                             {.cache_missing_max = 10000001},
                                             {.open_files_max = 1000001},
                                             {.cache_size_max = UINT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(uvhttp__static_settings_init(&settings, &wrong[i], "/"), UVHTTP_E_CONFIG);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_callback(silent, NULL);
    return RUN_TESTS(test_paths_that_cannot_leave_the_root_are_valid, test_names_and_paths_have_a_longest,
                     test_ranges_are_read_as_rfc_9110_says, test_conditions_have_the_order_of_rfc_9110,
                     test_if_range_compares_strongly, test_types_go_by_the_extension, test_the_table_of_types_is_sorted,
                     test_patterns, test_names_with_a_hash_are_known, test_options_are_checked_and_copied);
}
