/* Owns: tests of cookies. */
#include <cmocka.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp/cookie.h>

#include "one_exchange.h"
#include "support/failing_allocator.h"
#include "support/run.h"

static void expect_cookie(size_t index, const char *name, const char *value) {
    uvhttp_str_t found_name, found_value;
    assert_true(uvhttp_request_cookie_at(&ex.req, index, &found_name, &found_value));
    assert_str(found_name, name);
    assert_str(found_value, value);
}

static void test_cookies_of_all_fields_are_read(void **state) {
    (void)state;
    uvhttp_str_t name, value;
    exchange_field(&ex, "Cookie", "a=1; b=\"x y\";c=; a=2;  d = e=f ;");
    exchange_field(&ex, "X-Other", "z=1");
    exchange_field(&ex, "cookie", "g=%20");
    expect_cookie(0, "a", "1");
    expect_cookie(1, "b", "\"x y\"");
    expect_cookie(2, "c", "");
    expect_cookie(3, "a", "2");
    expect_cookie(4, "d", "e=f");
    expect_cookie(5, "g", "%20");
    assert_false(uvhttp_request_cookie_at(&ex.req, 6, &name, &value));
    assert_null(name.data);
    assert_null(value.data);
    assert_true(uvhttp_request_cookie(&ex.req, "a", &value));
    assert_str(value, "1");
    assert_true(uvhttp_request_cookie(&ex.req, "g", NULL));
    assert_false(uvhttp_request_cookie(&ex.req, "A", &value));
    assert_null(value.data);
    assert_false(uvhttp_request_cookie(&ex.req, "z", NULL));
    assert_false(uvhttp_request_cookie(&ex.req, "", NULL));
}

/* In any order, and after the head has moved: what is remembered of the last one is no more than a hint. */
static void test_cookies_are_found_in_any_order(void **state) {
    (void)state;
    static char moved[sizeof ex.head];
    char name[8], value[8];
    exchange_field(&ex, "Cookie", "c0=0; c1=1;; c2=2");
    exchange_field(&ex, "X", "c9=9");
    exchange_field(&ex, "Cookie", "");
    exchange_field(&ex, "Cookie", "c3=3; nothing; c4=4");
    for (size_t i = 0; i < 200; i++) {
        size_t index = i * 7 % 11 % 6; /* up, down and twice the same; 5: past the last */
        snprintf(name, sizeof name, "c%zu", index);
        snprintf(value, sizeof value, "%zu", index);
        if (index < 5)
            expect_cookie(index, name, value);
        else
            assert_false(uvhttp_request_cookie_at(&ex.req, index, NULL, NULL));
        if (i != 100) continue;
        memcpy(moved, ex.head, sizeof moved);
        memset(ex.head, ';', sizeof ex.head);
        uvhttp__request_rebase(&ex.req, moved, ex.fields);
    }
}

/* Each pair is looked at a bounded number of times: a walk over twice as many costs about twice as much. Counted in
 * time of the thread, so that the machine's load does not matter, and with space for all but another order. */
static double walk_s(size_t count) {
    struct timespec begin, end;
    uvhttp_str_t name, value;
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    static char text[60001];
    assert_true(4 * count < sizeof text);
    for (size_t i = 0; i < count; i++) memcpy(text + 4 * i, "a=b;", 5);
    exchange_field(&ex, "Cookie", text);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    size_t found = 0;
    while (uvhttp_request_cookie_at(&ex.req, found, &name, NULL) &&
           uvhttp_request_cookie_at(&ex.req, found, NULL, &value))
        found++;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_int_equal(found, count);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

static void test_a_walk_over_all_cookies_is_linear(void **state) {
    (void)state;
    double few = 1, many = 0;
    for (int i = 0; i < 5; i++) { /* the best of some: a timer may interrupt one */
        double seconds = walk_s(1000);
        if (seconds < few) few = seconds;
    }
    many = walk_s(14000);
    print_message("1000 cookies: %.0f us, 14000: %.0f us\n", few * 1e6, many * 1e6);
    assert_true(many < few * 14 * 5 + 0.001); /* quadratic: 196 times */
}

static void test_what_is_no_pair_is_left_out(void **state) {
    (void)state;
    exchange_field(&ex, "Cookie", ";; ; a; =1; a b=2; \"c\"=3; ok=4;");
    exchange_field(&ex, "Cookie", "");
    exchange_field(&ex, "Cookie", "\t b \t=\t c=d \t; e=;f=\";x\t");
    expect_cookie(0, "ok", "4");
    expect_cookie(1, "b", "c=d");
    expect_cookie(2, "e", "");
    expect_cookie(3, "f", "\"");
    assert_false(uvhttp_request_cookie_at(&ex.req, 4, NULL, NULL));
}

/* Then the place of the last one is not kept, and each search begins at the first. */
static void test_cookies_are_found_without_memory(void **state) {
    (void)state;
    exchange_field(&ex, "Cookie", "a=1; b=2; c=3");
    ex.arena.size_max = 0;
    test_allocator_fail_from(1);
    for (int i = 0; i < 2; i++) {
        expect_cookie(2, "c", "3");
        expect_cookie(0, "a", "1");
        expect_cookie(1, "b", "2");
        assert_false(uvhttp_request_cookie_at(&ex.req, 3, NULL, NULL));
    }
    test_allocator_fail_at(0);
}

static void expect_set(const uvhttp_cookie_options_t *options, const char *text) {
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp_response_cookie(&ex.res, options), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "Set-Cookie"), text);
}
#define EXPECT_SET(text, ...) expect_set(&(uvhttp_cookie_options_t){__VA_ARGS__}, text)

static void test_attributes_are_written(void **state) {
    (void)state;
    EXPECT_SET("a=b; Path=/; Domain=a-1.B9.example; SameSite=Lax", .name = "a", .value = "b",
               .domain = "a-1.B9.example");
    EXPECT_SET("a=; Path=/; SameSite=Lax", .name = "a");
    EXPECT_SET("a=\"b\"; Path=/x y; Domain=example.org; Max-Age=60; SameSite=Strict; Secure; HttpOnly", .name = "a",
               .value = "\"b\"", .path = "/x y", .domain = "example.org", .max_age_s = 60,
               .same_site = UVHTTP_SAME_SITE_STRICT, .secure = true, .http_only = true);
    EXPECT_SET("a=; Path=/; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT; SameSite=Lax", .name = "a",
               .max_age_s = -1);
    EXPECT_SET("a=b; Path=/; Max-Age=34560000; SameSite=None; Secure", .name = "a", .value = "b",
               .max_age_s = UVHTTP_COOKIE_MAX_AGE_S, .same_site = UVHTTP_SAME_SITE_NONE, .secure = true);
    EXPECT_SET("__Host-a=b; Path=/; SameSite=Lax; Secure", .name = "__Host-a", .value = "b", .secure = true);
    EXPECT_SET("__Secure-a=b; Path=/x; Domain=d; SameSite=Lax; Secure", .name = "__Secure-a", .value = "b",
               .path = "/x", .domain = "d", .secure = true);
}

static void test_each_cookie_has_its_own_field(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_cookie(&ex.res, &(uvhttp_cookie_options_t){.name = "a"}), 0);
    assert_int_equal(uvhttp_response_cookie(&ex.res, &(uvhttp_cookie_options_t){.name = "b"}), 0);
    const char expected[] = "Set-Cookie: a=; Path=/; SameSite=Lax\r\nSet-Cookie: b=; Path=/; SameSite=Lax\r\n";
    assert_int_equal(ex.res.headers_size, sizeof expected - 1);
    assert_memory_equal(ex.res.headers, expected, sizeof expected - 1);
}

static void test_what_would_break_the_field_is_refused(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_cookie(&ex.res, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_cookie(NULL, &(uvhttp_cookie_options_t){.name = "a"}), UVHTTP_E_INVALID);
    static char longest[UVHTTP_COOKIE_SIZE_MAX + 2];
    memset(longest, 'n', UVHTTP_COOKIE_SIZE_MAX + 1);
    assert_int_equal(uvhttp_response_cookie(&ex.res, &(uvhttp_cookie_options_t){.name = longest}), UVHTTP_E_INVALID);
    const uvhttp_cookie_options_t wrong[] = {
        {.name = NULL},
        {.name = ""},
        {.name = "a b"},
        {.name = "a=b"},
        {.name = "a;"},
        {.name = "a\r\nb"},
        {.name = "a", .value = "b c"},
        {.name = "a", .value = "b;c"},
        {.name = "a", .value = "b,c"},
        {.name = "a", .value = "b\\c"},
        {.name = "a", .value = "\"b"},
        {.name = "a", .value = "\""},
        {.name = "a", .value = "\"b\"c\""},
        {.name = "a", .value = "b\r\nX: y"},
        {.name = "a", .value = "\xc3\xa9"},
        {.name = "a", .value = "\x7f"},
        {.name = "a", .value = "b\"c"},
        {.name = "a", .path = ""},
        {.name = "a", .path = "x"},
        {.name = "a", .path = "/x;y"},
        {.name = "a", .path = "/x\ny"},
        {.name = "a", .path = "/x\x7fy"},
        {.name = "a", .path = "/\xc3\xa9"},
        {.name = "a", .path = "/x "},
        {.name = "a", .domain = ""},
        {.name = "a", .domain = ".a.b"},
        {.name = "a", .domain = "a.b."},
        {.name = "a", .domain = "a b"},
        {.name = "a", .domain = "a;b"},
        {.name = "a", .domain = "a{b"},
        {.name = "a", .domain = "a`b"},
        {.name = "a", .domain = "a/b"},
        {.name = "a", .domain = "a:b"},
        {.name = "a", .domain = "-a"},
        {.name = "a", .domain = "a-"},
        {.name = "a", .domain = "a_b"},
        {.name = "a", .max_age_s = UVHTTP_COOKIE_MAX_AGE_S + 1},
        {.name = "a", .same_site = UVHTTP_SAME_SITE_NONE},
        {.name = "a", .same_site = (uvhttp_same_site_t)3},
        {.name = "__Secure-a"},
        {.name = "__secure-a"},
        {.name = "__Host-a"},
        {.name = "__HOST-a", .secure = true, .path = "/x"},
        {.name = "__Host-a", .secure = true, .domain = "d"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        if (uvhttp_response_cookie(&ex.res, &wrong[i]) != UVHTTP_E_INVALID) fail_msg("taken: number %zu", i);
    assert_int_equal(ex.res.headers_size, 0);
}

static void test_sizes_are_bounded(void **state) {
    (void)state;
    static char value[UVHTTP_COOKIE_SIZE_MAX + 1], path[UVHTTP_COOKIE_ATTRIBUTE_SIZE_MAX + 2], domain[sizeof path];
    memset(value, 'v', sizeof value - 1);
    memset(path, '/', sizeof path - 1);
    memset(domain, 'd', sizeof domain - 1);
    uvhttp_cookie_options_t options = {.name = "n", .value = value, .path = path + 1, .domain = domain + 1};
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), UVHTTP_E_INVALID);
    options.value = value + 1;
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), 0);
    uvhttp_str_t field = uvhttp_response_header_get(&ex.res, "Set-Cookie");
    assert_int_equal(field.size, UVHTTP_COOKIE_SIZE_MAX + 1 + 2 * 1024 + strlen("; Path=; Domain=; SameSite=Lax"));
    options.path = path;
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), UVHTTP_E_INVALID);
    options.path = NULL;
    options.domain = domain;
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), UVHTTP_E_INVALID);
}

static void test_a_value_may_have_a_length(void **state) {
    (void)state;
    uvhttp_cookie_options_t options = {.name = "a", .value = "one;two", .value_size = 3};
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "Set-Cookie"), "a=one; Path=/; SameSite=Lax");
    options.value_size = 4;
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), UVHTTP_E_INVALID);
    options = (uvhttp_cookie_options_t){.name = "a", .value = "b\0c", .value_size = 3};
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), UVHTTP_E_INVALID);
    options = (uvhttp_cookie_options_t){.name = "a", .value_size = 3};
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), UVHTTP_E_INVALID);
}

/* It ends where the next page cannot be read. */
static void test_a_value_with_a_length_is_not_read_beyond_it(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED && mprotect(memory + page, page, PROT_NONE) == 0);
    const uvhttp_cookie_options_t options = {
        .name = "a", .value = memcpy(memory + page - 3, "one", 3), .value_size = 3};
    assert_int_equal(uvhttp_response_cookie(&ex.res, &options), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "Set-Cookie"), "a=one; Path=/; SameSite=Lax");
    munmap(memory, 2 * page);
}

static void test_too_late_is_reported(void **state) {
    (void)state;
    uvhttp__response_commit(&ex.res);
    assert_int_equal(uvhttp_response_cookie(&ex.res, &(uvhttp_cookie_options_t){.name = "a"}), UVHTTP_E_STATE);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(set_up, tear_down, test_cookies_of_all_fields_are_read, test_cookies_are_found_in_any_order,
                          test_cookies_are_found_without_memory, test_a_walk_over_all_cookies_is_linear,
                          test_what_is_no_pair_is_left_out, test_attributes_are_written,
                          test_each_cookie_has_its_own_field, test_what_would_break_the_field_is_refused,
                          test_sizes_are_bounded, test_a_value_may_have_a_length,
                          test_a_value_with_a_length_is_not_read_beyond_it, test_too_late_is_reported);
}
