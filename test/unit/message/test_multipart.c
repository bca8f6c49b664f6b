/* Owns: tests of the multipart parser: every body whole, byte by byte and cut at every place, each piece next to an
 * unmapped page; all ways must tell the same. */
/* Needs: forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp/form.h>

#include "support/run.h"

#define STR(literal) ((uvhttp_str_t){"" literal, sizeof(literal) - 1})
#define TYPE "multipart/form-data; boundary=b"
#define HEADER "Content-Disposition: form-data; name=\"a\"\r\n"
#define PART(content) "--b\r\n" HEADER "\r\n" content "\r\n"
#define END "--b--"

enum { REPORTED_MAX = 16384 };

/* What the parser reported, as text: "<name|filename|type>content</>" for each part and "$" at the end. */
typedef struct reported {
    int code;
    size_t size;
    char text[REPORTED_MAX];
} reported_t;

static uvhttp_multipart_t parser;

/* A copy right before an unmapped page, or right after one. */
static const char *guarded(const char *data, size_t size, bool at_end) {
    static char *pages;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = 4 * page;
    if (!pages) {
        char *map = mmap(NULL, all + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(map != MAP_FAILED);
        assert_int_equal(mprotect(map + page, all, PROT_READ | PROT_WRITE), 0);
        pages = map + page;
    }
    assert_true(size <= all);
    char *copy = at_end ? pages + all - size : pages;
    if (size) memcpy(copy, data, size);
    return copy;
}

static void tell(reported_t *reported, const char *data, size_t size) {
    assert_true(reported->size + size <= sizeof reported->text);
    if (size) memcpy(reported->text + reported->size, data, size);
    reported->size += size;
}

static void notify_event(reported_t *reported, const uvhttp_multipart_event_t *event) {
    switch (event->kind) {
        case UVHTTP_MULTIPART_PART:
            assert_non_null(event->name.data);
            tell(reported, "<", 1);
            tell(reported, event->name.data, event->name.size);
            if (event->filename.data) tell(reported, "|", 1);
            tell(reported, event->filename.data, event->filename.size);
            if (event->content_type.data) tell(reported, ";", 1);
            tell(reported, event->content_type.data, event->content_type.size);
            tell(reported, ">", 1);
            break;
        case UVHTTP_MULTIPART_DATA:
            assert_true(event->data.size > 0);
            tell(reported, event->data.data, event->data.size);
            break;
        case UVHTTP_MULTIPART_PART_END: tell(reported, "</>", 3); break;
        case UVHTTP_MULTIPART_END: tell(reported, "$", 1); break;
    }
}

/* Reads one piece; false after an error. */
static bool feed(reported_t *reported, const char *data, size_t size) {
    size_t at = 0, consumed, calls = 0;
    uvhttp_multipart_event_t event;
    while ((reported->code = uvhttp_multipart_read(&parser, data + at, size - at, &consumed, &event)) == 0) {
        assert_true(consumed <= size - at);
        at += consumed;
        notify_event(reported, &event);
        assert_true(++calls <= 4 * size + 4);
    }
    assert_true(consumed <= size - at);
    if (reported->code != UVHTTP_E_AGAIN) {
        int again = uvhttp_multipart_read(&parser, data, size, &consumed, &event);
        assert_int_equal(again, reported->code);
        return false;
    }
    assert_int_equal(at + consumed, size);
    return true;
}

static void feed_cuts(const char *type, const uvhttp_form_limits_t *limits, const char *data, const size_t *cuts,
                      size_t count, bool at_end, reported_t *reported) {
    reported->size = 0;
    memset(&parser, 0xa5, sizeof parser);
    reported->code = uvhttp_multipart_init(&parser, (uvhttp_str_t){type, strlen(type)}, limits);
    if (reported->code != 0) return;
    size_t seen = 0;
    for (size_t i = 0; i < count; ++i) {
        size_t size = cuts[i] - seen;
        if (!feed(reported, guarded(data + seen, size, at_end), size)) break;
        seen = cuts[i];
    }
    int end = uvhttp_multipart_finish(&parser);
    if (reported->code == UVHTTP_E_AGAIN)
        reported->code = end;
    else
        assert_int_equal(end, reported->code);
}

static void expect_same(const reported_t *a, const reported_t *b) {
    assert_int_equal(a->code, b->code);
    if (a->code != 0) return; /* how many events came before an error depends on the splits */
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->text, b->text, a->size);
}

static void feed_all_ways(const char *type, const uvhttp_form_limits_t *limits, const char *data, size_t size,
                          reported_t *reported) {
    static reported_t other;
    size_t *each = malloc((size + 1) * sizeof *each);
    assert_non_null(each);
    for (size_t i = 0; i <= size; ++i) each[i] = i;
    feed_cuts(type, limits, data, &size, 1, true, reported);
    for (int at_end = 0; at_end <= 1; ++at_end) {
        feed_cuts(type, limits, data, each, size + 1, at_end, &other);
        expect_same(reported, &other);
        for (size_t i = 0; i <= size; ++i) {
            feed_cuts(type, limits, data, (size_t[]){i, size}, 2, at_end, &other);
            expect_same(reported, &other);
        }
        for (size_t i = 0; i + 3 <= size; ++i) {
            feed_cuts(type, limits, data, (size_t[]){i, i + 1, i + 3, size}, 4, at_end, &other);
            expect_same(reported, &other);
        }
    }
    free(each);
}

static void expect_reported_for(const char *type, const char *data, size_t size, const char *text, size_t text_size) {
    static reported_t reported;
    feed_all_ways(type, NULL, data, size, &reported);
    if (reported.code != 0) fail_msg("%s for:\n%.*s", uvhttp_error_name(reported.code), (int)size, data);
    if (reported.size != text_size || memcmp(reported.text, text, text_size) != 0)
        fail_msg("told \"%.*s\", not \"%.*s\"", (int)reported.size, reported.text, (int)text_size, text);
}
#define EXPECT_REPORTED(body, text) expect_reported_for(TYPE, body, sizeof(body) - 1, text, sizeof(text) - 1)

static void expect_code_for(const uvhttp_form_limits_t *limits, const char *data, size_t size, int code) {
    static reported_t reported;
    feed_all_ways(TYPE, limits, data, size, &reported);
    if (reported.code != code)
        fail_msg("%s, not %s for:\n%.*s", uvhttp_error_name(reported.code), uvhttp_error_name(code), (int)size, data);
}
#define EXPECT_CODE(body, code) expect_code_for(NULL, body, sizeof(body) - 1, code)

/* --- what is read --- */

static void test_parts_are_reported_with_name_filename_and_type(void **state) {
    (void)state;
    EXPECT_REPORTED(PART("x") END, "<a>x</>$");
    EXPECT_REPORTED(PART("x") PART("y") END "\r\n", "<a>x</><a>y</>$");
    EXPECT_REPORTED(
        "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n.txt\"\r\nContent-Type: text/plain\r\n"
        "\r\nline\r\nline\r\n\r\n--b--\r\n",
        "<f|n.txt;text/plain>line\r\nline\r\n</>$");
    EXPECT_REPORTED(
        "--b\r\ncontent-type:image/png \r\nCONTENT-DISPOSITION:FORM-DATA;NAME=a;FileName=\"\"\r\n\r\n\r\n--b--",
        "<a|;image/png></>$");
    EXPECT_REPORTED("--b\r\nX-Other: 1\r\nContent-Transfer-Encoding: Binary\r\n" HEADER "\r\nx\r\n--b--", "<a>x</>$");
    EXPECT_REPORTED("--b\r\nContent-Disposition: form-data; name=\"\"; size=3\r\n\r\nx\r\n--b--", "<>x</>$");
}

static void test_preamble_epilogue_and_padding_are_thrown_away(void **state) {
    (void)state;
    EXPECT_REPORTED("hello\r\n" PART("x") END "\r\nbye\r\n--b\r\n", "<a>x</>$");
    EXPECT_REPORTED("\r\n" PART("x") END, "<a>x</>$");
    EXPECT_REPORTED("--\r\n--\r\n\r\n" PART("x") END, "<a>x</>$");
    EXPECT_REPORTED("x--b\r\n" HEADER "\r\nno\r\n" PART("x") END, "<a>x</>$");
    EXPECT_REPORTED("--b \t \r\n" HEADER "\r\nx\r\n--b\t\r\n" HEADER "\r\ny\r\n--b-- \t", "<a>x</><a>y</>$");
    EXPECT_REPORTED("--b--", "$");
    EXPECT_REPORTED("--b--\r\n", "$");
}

static void test_a_shared_body_holds_any_bytes(void **state) {
    (void)state;
    EXPECT_REPORTED(PART("\0\r\n\0\n\r\r\n-\r\n--\r\r\n--B\n--b\xff\r") END,
                    "<a>\0\r\n\0\n\r\r\n-\r\n--\r\r\n--B\n--b\xff\r</>$");
    EXPECT_REPORTED(PART("") END, "<a></>$");
    EXPECT_REPORTED(PART("\r\n") END, "<a>\r\n</>$");
    EXPECT_REPORTED(PART("-") END, "<a>-</>$");
    EXPECT_REPORTED(PART("--") END, "<a>--</>$");
    EXPECT_REPORTED(PART("--c\r\n--") END, "<a>--c\r\n--</>$");
    /* RFC 2046: without content, the delimiter may stand right behind the header. */
    EXPECT_REPORTED("--b\r\n" HEADER "\r\n--b\r\n" HEADER "\r\n--b--", "<a></><a></>$");
}

static void test_names_are_unescaped_and_paths_are_kept(void **state) {
    (void)state;
    EXPECT_REPORTED("--b\r\nContent-Disposition: form-data; name=\"a\\\"b\\\\c\\d%22\"; "
                    "filename=\"C:\\dir\\f;x.txt\"\r\n\r\n\r\n--b--",
                    "<a\"b\\c\\d%22|C:\\dir\\f;x.txt></>$");
    EXPECT_REPORTED("--b\r\nContent-Disposition:\tform-data\t;\tname=\"a\\\"\\\\\"\r\n\r\n\r\n--b--", "<a\"\\></>$");
    EXPECT_REPORTED("--b\r\nContent-Disposition: form-data; filename=\"\xc3\xa9\"; name=\"n\"; \r\n\r\n\r\n--b--",
                    "<n|\xc3\xa9></>$");
}

static void test_longest_and_strangest_boundaries(void **state) {
    (void)state;
#define LONG "0123456789'()+_,-./:=?abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST U"
    _Static_assert(sizeof LONG - 1 == 70, "the longest boundary");
    const char good[] = "--" LONG "\r\n" HEADER "\r\nx\r\n--0123\r\n--" LONG "--";
    expect_reported_for("Multipart/Form-Data; charset=utf-8; Boundary=\"" LONG "\"", good, sizeof good - 1,
                        "<a>x\r\n--0123</>$", strlen("<a>x\r\n--0123</>$"));
    const char dash[] = "------\r\n" HEADER "\r\n--\r\n---\r\n--------";
    expect_reported_for("multipart/form-data;boundary=----", dash, sizeof dash - 1, "<a>--\r\n---</>$",
                        strlen("<a>--\r\n---</>$"));
}

/* --- what is refused --- */

static int init_code(const char *type) {
    return uvhttp_multipart_init(&parser, (uvhttp_str_t){type, strlen(type)}, NULL);
}

static void test_content_types_without_a_good_boundary_are_refused(void **state) {
    (void)state;
    static const char *const wrong_types[] = {"", "text/plain; boundary=b", "multipart/mixed; boundary=b",
                                              "multipart/form-datax; boundary=b", "application/x-www-form-urlencoded"};
    for (size_t i = 0; i < sizeof wrong_types / sizeof *wrong_types; ++i)
        assert_int_equal(init_code(wrong_types[i]), UVHTTP_E_FORM_TYPE);
    assert_int_equal(uvhttp_multipart_init(&parser, (uvhttp_str_t){NULL, 0}, NULL), UVHTTP_E_FORM_TYPE);
#define M "multipart/form-data"
    static const char *const wrong[] = {M,
                                        M ";",
                                        M "; boundary",
                                        M "; boundary=",
                                        M "; boundary=\"\"",
                                        M "; boundary=\"b",
                                        M "; boundary=b; boundary=b",
                                        M "; boundary=b c",
                                        M "; boundary=\"b \"",
                                        M "; boundary=b\\c",
                                        M "; boundary=\"b\\c\"",
                                        M "; boundary=\xc3\xa9",
                                        M "; boundary=\"a\rb\"",
                                        M "; boundary=\"b\"c",
                                        M "; boundary=b; =x",
                                        M "; boundary=\"" LONG "x\"",
                                        M "; xboundary=b"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        if (init_code(wrong[i]) != UVHTTP_E_MULTIPART_BOUNDARY) fail_msg("taken: %s", wrong[i]);
        size_t consumed;
        uvhttp_multipart_event_t event;
        assert_int_equal(uvhttp_multipart_read(&parser, "x", 1, &consumed, &event), UVHTTP_E_MULTIPART_BOUNDARY);
    }
    static const char with_nul[] = M "; boundary=\"a\0b\"";
    assert_int_equal(uvhttp_multipart_init(&parser, (uvhttp_str_t){with_nul, sizeof with_nul - 1}, NULL),
                     UVHTTP_E_MULTIPART_BOUNDARY);
    assert_int_equal(uvhttp_error_http_status(UVHTTP_E_FORM_TYPE), 415);
    assert_int_equal(uvhttp_error_http_status(UVHTTP_E_MULTIPART_BOUNDARY), 400);
}

static void test_limits_out_of_range_are_refused(void **state) {
    (void)state;
    const uvhttp_form_limits_t wrong[] = {
        {.field_count_max = 1000001}, {.header_size_max = 63}, {.header_size_max = 4097}};
    for (size_t i = 0; i < 3; ++i)
        assert_int_equal(uvhttp_multipart_init(&parser, STR(TYPE), &wrong[i]), UVHTTP_E_INVALID);
}

static void test_lines_of_delimiters_that_continue_are_refused(void **state) {
    (void)state;
    EXPECT_CODE("--bx\r\n" HEADER "\r\n\r\n--b--", UVHTTP_E_MULTIPART_FRAMING);
    EXPECT_CODE(PART("x") "--bx\r\n--b--", UVHTTP_E_MULTIPART_FRAMING);
    EXPECT_CODE(PART("x") "--b-x", UVHTTP_E_MULTIPART_FRAMING);
    EXPECT_CODE(PART("x") "--b --", UVHTTP_E_MULTIPART_FRAMING);
    EXPECT_CODE(PART("x") "--b\n" HEADER "\r\n\r\n--b--", UVHTTP_E_MULTIPART_FRAMING);
    EXPECT_CODE(PART("x") "--b\rx", UVHTTP_E_MULTIPART_FRAMING);
    EXPECT_CODE(PART("x") "--b--x", UVHTTP_E_MULTIPART_FRAMING);
    EXPECT_CODE(PART("x") "--b--\n", UVHTTP_E_MULTIPART_FRAMING);
    EXPECT_CODE(PART("x") "--b--\rx", UVHTTP_E_MULTIPART_FRAMING);
}

static void test_bodies_that_end_early_are_refused(void **state) {
    (void)state;
    static const char whole[] = "pre\r\n" PART("x\r\n--") PART("y") END;
    for (size_t size = 0; size < sizeof whole - 1; ++size)
        expect_code_for(NULL, whole, size, UVHTTP_E_MULTIPART_INCOMPLETE);
    expect_code_for(NULL, whole, sizeof whole - 1, 0);
    EXPECT_CODE("--b--\r", UVHTTP_E_MULTIPART_INCOMPLETE);
}

static void test_malformed_headers_are_refused(void **state) {
    (void)state;
    EXPECT_CODE("--b\r\n" HEADER "X: a\rb\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n" HEADER "X: a\nY: b\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n" HEADER "\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n" HEADER "X: a\n", UVHTTP_E_MULTIPART_HEADER); /* at once: more need not come */
    EXPECT_CODE("--b\r\n" HEADER "X: a\0b\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n\n" HEADER "\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\nX\r\n" HEADER "\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER); /* a line of one byte */
    EXPECT_CODE("--b\r\n" HEADER " folded\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n" HEADER "X : a\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n" HEADER ": a\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n" HEADER "X\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n" HEADER "Content-Type: a\r\nContent-Type: a\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
    EXPECT_CODE("--b\r\n" HEADER "Content-Transfer-Encoding: base64\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_ENCODING);
    EXPECT_CODE("--b\r\nContent-Disposition: form-data; name=\"a\0b\"\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_HEADER);
}

static void test_encodings_that_change_nothing(void **state) {
    (void)state;
    static const char *const encodings[] = {"binary", "8bit", "7BIT"};
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; ++i) {
        char body[256];
        int size = snprintf(body, sizeof body, "--b\r\n" HEADER "Content-Transfer-Encoding: %s\r\n\r\nx\r\n--b--",
                            encodings[i]);
        expect_code_for(NULL, body, (size_t)size, 0);
    }
    EXPECT_CODE("--b\r\n" HEADER "Content-Transfer-Encoding: 7bits\r\n\r\n\r\n--b--", UVHTTP_E_MULTIPART_ENCODING);
}

static void test_malformed_dispositions_are_refused(void **state) {
    (void)state;
    EXPECT_CODE("--b\r\n\r\nx\r\n--b--", UVHTTP_E_MULTIPART_DISPOSITION);
    EXPECT_CODE("--b\r\nX: y\r\n\r\nx\r\n--b--", UVHTTP_E_MULTIPART_DISPOSITION);
    EXPECT_CODE("--b\r\n" HEADER HEADER "\r\nx\r\n--b--", UVHTTP_E_MULTIPART_DISPOSITION);
    EXPECT_CODE("--b\r\n" HEADER "Content-Disposition: form-data; filename=x\r\n\r\nx\r\n--b--",
                UVHTTP_E_MULTIPART_DISPOSITION);
    static const char *const wrong[] = {"form-data",
                                        "form-data;",
                                        "form-data; filename=\"x\"",
                                        "attachment; name=\"a\"",
                                        "form-data name=\"a\"",
                                        "form-data; name=\"a\"; name=\"a\"",
                                        "form-data; name=\"a\"; NAME=b",
                                        "form-data; name=\"a",
                                        "form-data; name=\"a\\\"",
                                        "form-data; name=\"a\\",
                                        "form-data; name=\"a\"; filename=x; filename=y",
                                        "form-data; name=\"a\"; filename*=utf-8''x",
                                        "form-data; name*=utf-8''a",
                                        "form-data; name=",
                                        "form-data; name",
                                        "form-data; name =\"a\"",
                                        "form-data; name= \"a\"",
                                        "form-data; name=\"a\"x",
                                        "form-data; name=a/b",
                                        "form-data; name=\"a\", filename=\"x\"",
                                        "form-data; =\"a\"; name=\"a\"",
                                        "form-data; ; name=\"a\"",
                                        "",
                                        "; name=\"a\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        char body[256];
        int size = snprintf(body, sizeof body, "--b\r\nContent-Disposition: %s\r\n\r\nx\r\n--b--", wrong[i]);
        expect_code_for(NULL, body, (size_t)size, UVHTTP_E_MULTIPART_DISPOSITION);
    }
}

static void test_each_limit_is_reached_exactly(void **state) {
    (void)state;
    static const char three[] = PART("x") PART("y") PART("z") END;
    expect_code_for(&(uvhttp_form_limits_t){.field_count_max = 3}, three, sizeof three - 1, 0);
    expect_code_for(&(uvhttp_form_limits_t){.field_count_max = 2}, three, sizeof three - 1,
                    UVHTTP_E_FORM_TOO_MANY_FIELDS);
    static const char ten[] = PART("\r\n--\r\n0123") PART("x") END;
    expect_code_for(&(uvhttp_form_limits_t){.part_size_max = 10}, ten, sizeof ten - 1, 0);
    expect_code_for(&(uvhttp_form_limits_t){.part_size_max = 9}, ten, sizeof ten - 1,
                    UVHTTP_E_MULTIPART_PART_TOO_LARGE);
    static const char header[] = "--b\r\n" HEADER "X: 0123456789012345678901234567890123456789\r\n\r\nx\r\n" END;
    const size_t size = strlen(HEADER "X: 0123456789012345678901234567890123456789\r\n\r\n");
    expect_code_for(&(uvhttp_form_limits_t){.header_size_max = size}, header, sizeof header - 1, 0);
    expect_code_for(&(uvhttp_form_limits_t){.header_size_max = size - 1}, header, sizeof header - 1,
                    UVHTTP_E_MULTIPART_HEADER_TOO_LARGE);
}

static void test_fields_are_bounded_by_default(void **state) {
    (void)state;
    static char body[(sizeof(PART("x")) - 1) * 1001];
    for (size_t i = 0; i < 1001; ++i) memcpy(body + i * (sizeof(PART("x")) - 1), PART("x"), sizeof(PART("x")) - 1);
    size_t at = 0, consumed, parts = 0;
    uvhttp_multipart_event_t event;
    int status;
    assert_int_equal(init_code(TYPE), 0);
    while ((status = uvhttp_multipart_read(&parser, body + at, sizeof body - at, &consumed, &event)) == 0) {
        at += consumed;
        parts += event.kind == UVHTTP_MULTIPART_PART;
    }
    assert_int_equal(status, UVHTTP_E_FORM_TOO_MANY_FIELDS);
    assert_int_equal(parts, UVHTTP_FORM_FIELD_COUNT_MAX_DEFAULT);
}

/* --- time --- */

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#define DASHES "----------------------------------------------------------------------"

/* CPU time for a part of `unit` again and again, in parts, when the boundary is 70 dashes: parts of it are everywhere.
 */
static double time_of(const char *unit, size_t size, size_t piece) {
    static const char type[] = "multipart/form-data; boundary=" DASHES;
    static const char head[] = "--" DASHES "\r\n" HEADER "\r\n";
    char *body = malloc(size);
    assert_non_null(body);
    size_t unit_size = strlen(unit), consumed;
    for (size_t i = 0; i < size; ++i) body[i] = unit[i % unit_size];
    body[0] = 'x'; /* right behind the header, dashes are a delimiter */
    uvhttp_multipart_event_t event;
    assert_int_equal(init_code(type), 0);
    assert_int_equal(uvhttp_multipart_read(&parser, head, sizeof head - 1, &consumed, &event), 0);
    double start = cpu_seconds();
    for (size_t at = 0; at < size; at += piece) {
        size_t end = at + piece < size ? at + piece : size, from = at;
        while (uvhttp_multipart_read(&parser, body + from, end - from, &consumed, &event) == 0) from += consumed;
        assert_int_equal(from + consumed, end);
    }
    double seconds = cpu_seconds() - start;
    free(body);
    return seconds;
}

static void test_near_delimiters_take_linear_time(void **state) {
    (void)state;
    static const struct {
        const char *what, *unit;
    } texts[] = {{"no delimiter", "x"},
                 {"CR", "\r"},
                 {"CRLF--", "\r\n--"},
                 {"one dash too few", "\r\n-" DASHES},
                 {"LF and dashes", "\n--" DASHES},
                 {"dashes", "-"}};
    const size_t pieces[] = {4 << 20, 65536, 7};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; ++p) {
            double seconds = time_of(texts[i].unit, 4 << 20, pieces[p]);
            print_message("%s, in pieces of %zu bytes: %.2f ns/byte\n", texts[i].what, pieces[p],
                          seconds * 1e9 / (4 << 20));
            assert_true(seconds < 10); /* quadratic time would be 10^13 steps */
        }
    }
}

int main(void) {
    return RUN_TESTS(test_parts_are_reported_with_name_filename_and_type,
                     test_preamble_epilogue_and_padding_are_thrown_away, test_a_shared_body_holds_any_bytes,
                     test_names_are_unescaped_and_paths_are_kept, test_longest_and_strangest_boundaries,
                     test_content_types_without_a_good_boundary_are_refused, test_limits_out_of_range_are_refused,
                     test_lines_of_delimiters_that_continue_are_refused, test_bodies_that_end_early_are_refused,
                     test_malformed_headers_are_refused, test_encodings_that_change_nothing,
                     test_malformed_dispositions_are_refused, test_each_limit_is_reached_exactly,
                     test_fields_are_bounded_by_default, test_near_delimiters_take_linear_time);
}
