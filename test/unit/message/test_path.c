/* Owns: tests of the decoded path and of the parameters cut out of it. */
#include <cmocka.h>

#define EXCHANGE_MEMORY_MAX 65536
#include "one_exchange.h"
#include "support/failing_allocator.h"
#include "support/run.h"

typedef struct vector {
    const char *raw;
    const char *decoded; /* NULL: UVHTTP_E_HTTP_TARGET */
} vector_t;

static const vector_t vectors[] = {
    {"/", "/"},
    {"/a", "/a"},
    {"/a/", "/a/"},
    {"/a/b", "/a/b"},
    /* escapes */
    {"/%61", "/a"},
    {"/%41%7a%7A", "/Azz"},
    {"/a%20b", "/a b"},
    {"/%c3%A4", "/\xc3\xa4"},
    {"/100%25", "/100%"},
    {"/%2541", "/%41"}, /* decoded once */
    {"/%0d%0a", "/\r\n"},
    {"/a+b", "/a+b"},
    {"/%3f%23", "/?#"},
    /* a slash that is data stays as it was sent */
    {"/a%2Fb", "/a%2Fb"},
    {"/a%2fb", "/a%2fb"},
    {"/%252F", "/%2F"},
    {"/a%2f..%2fb", "/a%2f..%2fb"}, /* one segment, no dot segment */
    {"/..%2f", "/..%2f"},
    {"/%5c..", "/\\.."},
    /* malformed */
    {"/%", NULL},
    {"/%2", NULL},
    {"/a%", NULL},
    {"/%2g", NULL},
    {"/%2e%2", NULL},
    {"/%3F", "/?"},
    {"/%g0", NULL},
    {"/%0g", NULL},
    {"/%%30", NULL},
    {"/%-1", NULL},
    {"/%2/", NULL},
    {"/%/61", NULL},
    {"/%00", NULL},
    {"/a%00b", NULL},
    /* dot segments, RFC 3986 section 5.2.4 */
    {"/.", "/"},
    {"/./", "/"},
    {"/a/.", "/a/"},
    {"/a/./b", "/a/b"},
    {"/a/..", "/"},
    {"/a/../", "/"},
    {"/a/../b", "/b"},
    {"/a/b/..", "/a/"},
    {"/a/b/../..", "/"},
    {"/a/b/c/./../../g", "/a/g"},
    {"/a/%2e/b", "/a/b"},
    {"/a/%2E%2e/b", "/b"},
    {"/a/.%2e/b", "/b"},
    {"/a/%2e.", "/"},
    {"/...", "/..."},
    {"/a/...", "/a/..."},
    {"/.a", "/.a"},
    {"/a.", "/a."},
    {"/..a/b", "/..a/b"},
    {"/.a./b", "/.a./b"},
    {"/.%00", NULL},
    /* above the root */
    {"/..", NULL},
    {"/../", NULL},
    {"/../a", NULL},
    {"/a/../..", NULL},
    {"/a/../../b", NULL},
    {"/%2e%2e/etc/passwd", NULL},
    {"/./..", NULL},
    {"/a/../../a", NULL},
    /* empty segments are kept */
    {"//", "//"},
    {"//a", "//a"},
    {"/a//b", "/a//b"},
    {"/a//../b", "/a/b"},
    {"//..", "/"},
    {"//../..", NULL},
    /* other forms */
    {"*", "*"},
    {"", ""},
    {"a", NULL},
    {"**", NULL},
};

static void test_path_vectors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i) {
        const vector_t *vector = &vectors[i];
        exchange_request(&ex, UVHTTP_GET, (uvhttp_str_t){vector->raw, strlen(vector->raw)}, NULL);
        int status = uvhttp__request_decode_path(&ex.req);
        uvhttp_str_t path = uvhttp_request_path(&ex.req);
        bool good = vector->decoded ? status == 0 && uvhttp__str_equal(path, uvhttp__str_from(vector->decoded))
                                    : status == UVHTTP_E_HTTP_TARGET;
        if (!good) fail_msg("%s: status %d, path %.*s", vector->raw, status, (int)path.size, path.data);
    }
}

static void test_plain_path_is_not_copied(void **state) {
    (void)state;
    exchange_request(&ex, UVHTTP_GET, STR("/a/b"), NULL);
    ex.req.head.path_plain = true;
    size_t used = ex.arena.used;
    assert_int_equal(uvhttp__request_decode_path(&ex.req), 0);
    assert_str(uvhttp_request_path(&ex.req), "/a/b");
    assert_int_equal(ex.arena.used, used);
}

static void test_decoded_path_never_holds_nul_or_a_dot_segment(void **state) {
    (void)state;
    static const char *const pieces[] = {"/",  ".", "%2e", "%2E", "%2f", "%2F", "%25",
                                         "2f", "a", "%00", "%",   "%61", "//"};
    uint64_t random = 88172645463325252u;
    size_t accepted = 0;
    for (size_t round = 0; round < 200000; ++round) {
        char raw[64] = "/";
        size_t size = 1;
        for (size_t i = 0; i < 12; ++i) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            const char *piece = pieces[random % (sizeof pieces / sizeof *pieces)];
            size_t piece_size = strlen(piece);
            memcpy(raw + size, piece, piece_size);
            size += piece_size;
        }
        exchange_t *e = &ex;
        uvhttp__arena_reset(&e->arena);
        uvhttp__request_reset(&e->req);
        e->req.base = raw;
        e->req.head.path_plain = false;
        e->req.head.path = (uvhttp__span_t){0, (uint32_t)size};
        if (uvhttp__request_decode_path(&e->req) != 0) continue;
        ++accepted;
        uvhttp_str_t path = uvhttp_request_path(&e->req);
        assert_true(path.size >= 1 && path.size <= size && path.data[0] == '/');
        assert_null(memchr(path.data, '\0', path.size));
        char bounded[80];
        snprintf(bounded, sizeof bounded, "%.*s/", (int)path.size, path.data);
        assert_null(strstr(bounded, "/./"));
        assert_null(strstr(bounded, "/../"));
        for (size_t i = 0; i < uvhttp__request_see_extras(&e->req)->slash_count; ++i) {
            assert_true(uvhttp__request_see_extras(&e->req)->slashes[i] + 3 <= path.size);
            assert_true(i == 0 || uvhttp__request_see_extras(&e->req)->slashes[i - 1] <
                                      uvhttp__request_see_extras(&e->req)->slashes[i]);
            assert_memory_equal(path.data + uvhttp__request_see_extras(&e->req)->slashes[i], "%2", 2);
        }
    }
    assert_true(accepted > 1000);
}

/* Decodes `raw` and takes the segments of the decoded path as parameters a, b, c, ... */
static void take_segments(const char *raw) {
    static const uvhttp_str_t names[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};
    uvhttp__span_t spans[4];
    size_t count = 0;
    exchange_request(&ex, UVHTTP_GET, (uvhttp_str_t){raw, strlen(raw)}, NULL);
    assert_int_equal(uvhttp__request_decode_path(&ex.req), 0);
    uvhttp_str_t path = uvhttp_request_path(&ex.req);
    for (size_t begin = 1; begin <= path.size && count < 4;) {
        const char *slash = memchr(path.data + begin, '/', path.size - begin);
        size_t end = slash ? (size_t)(slash - path.data) : path.size;
        spans[count++] = (uvhttp__span_t){(uint32_t)begin, (uint32_t)(end - begin)};
        begin = end + 1;
    }
    assert_int_equal(uvhttp__request_set_params(&ex.req, names, spans, count), 0);
}

#define assert_param(name, text) assert_str(uvhttp_request_param(&ex.req, name), text)

static void test_param_is_a_view_of_the_path(void **state) {
    (void)state;
    take_segments("/users/42");
    assert_param("a", "users");
    assert_param("b", "42");
    assert_null(uvhttp_request_param(&ex.req, "c").data);
    assert_null(uvhttp_request_param(&ex.req, "").data);
}

static void test_param_has_its_slashes_decoded(void **state) {
    (void)state;
    take_segments("/x%2Fy/%2f/z/%2f%2F");
    assert_param("a", "x/y");
    assert_param("b", "/");
    assert_param("c", "z");
    assert_param("d", "//");
    assert_str(uvhttp_request_path(&ex.req), "/x%2Fy/%2f/z/%2f%2F");
}

static void test_param_is_never_decoded_twice(void **state) {
    (void)state;
    take_segments("/%252F/%2F/%25252F");
    assert_param("a", "%2F");
    assert_param("b", "/");
    assert_param("c", "%252F");
}

static void test_slashes_of_removed_segments_are_forgotten(void **state) {
    (void)state;
    take_segments("/%2F%2F/../%252F/b%2fc");
    assert_param("a", "%2F");
    assert_param("b", "b/c");
}

static void test_path_reports_lack_of_memory(void **state) {
    (void)state;
    ex.arena.size_max = 8;
    exchange_request(&ex, UVHTTP_GET, STR("/%2f0123456789"), NULL);
    assert_int_equal(uvhttp__request_decode_path(&ex.req), UVHTTP_E_NOMEM);
    ex.arena.size_max = 65536;
}

/* The arena may have as much as comes before, and no more: an error at each place, and no parameter is shown. */
static void decode_with(size_t memory) {
    static const uvhttp_str_t names[] = {{"a", 1}};
    static const uvhttp__span_t span = {1, 4};
    exchange_request(&ex, UVHTTP_GET, STR("/%2fx/b"), NULL);
    ex.arena.size_max = ex.arena.used + memory;
    int status = uvhttp__request_decode_path(&ex.req);
    if (status == 0) status = uvhttp__request_set_params(&ex.req, names, &span, 1);
    assert_true(status == 0 || status == UVHTTP_E_NOMEM);
    if (status == 0) assert_param("a", "/x");
    if (status != 0) assert_null(uvhttp_request_param(&ex.req, "a").data);
}

/* So many bytes of the arena are used, and there are no more blocks than one. */
static int decode_behind(size_t filled, bool plain) {
    static const uvhttp_str_t names[] = {{"a", 1}};
    static const uvhttp__span_t span = {1, 4};
    static exchange_t fresh;
    exchange_init(&fresh, SIZE_MAX);
    exchange_request(&fresh, UVHTTP_GET, plain ? STR("/abcd/b") : STR("/%2fx/b"), NULL);
    fresh.req.head.path_plain = plain; /* then nothing is decoded */
    for (size_t at = 0; at < filled; at += 8) assert_non_null(uvhttp__arena_alloc_bytes(&fresh.arena, 8));
    test_allocator_fail_from(1);
    int status = uvhttp__request_decode_path(&fresh.req);
    if (status == 0) status = uvhttp__request_set_params(&fresh.req, names, &span, 1);
    if (status == 0) status = uvhttp__request_own_params(&fresh.req);
    assert_true(status == 0 || (status == UVHTTP_E_NOMEM && test_allocator_failed()));
    test_allocator_fail_at(0);
    if (status == 0) assert_str(uvhttp_request_param(&fresh.req, "a"), plain ? "abcd" : "/x");
    exchange_deinit(&fresh);
    return status;
}

static void test_parameters_report_lack_of_memory(void **state) {
    (void)state;
    for (size_t memory = 0; memory < 600; memory++) decode_with(memory);
    ex.arena.size_max = EXCHANGE_MEMORY_MAX;
    take_segments("/%2fx");
    assert_param("a", "/x");
    for (int plain = 0; plain < 2; plain++) {
        size_t failed = 0;
        for (size_t filled = 8; filled < UVHTTP__ARENA_BLOCK_SIZE; filled += 8)
            failed += decode_behind(filled, plain) != 0;
        assert_true(failed > 0 && failed < UVHTTP__ARENA_BLOCK_SIZE / 8 - 1);
    }
    /* None at all, with extras and without. */
    assert_int_equal(uvhttp__request_set_params(&ex.req, NULL, NULL, 0), 0);
    assert_null(uvhttp_request_param(&ex.req, "a").data);
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp__request_set_params(&ex.req, NULL, NULL, 0), 0);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(set_up, tear_down, test_path_vectors, test_plain_path_is_not_copied,
                          test_decoded_path_never_holds_nul_or_a_dot_segment, test_param_is_a_view_of_the_path,
                          test_param_has_its_slashes_decoded, test_param_is_never_decoded_twice,
                          test_slashes_of_removed_segments_are_forgotten, test_path_reports_lack_of_memory,
                          test_parameters_report_lack_of_memory);
}
