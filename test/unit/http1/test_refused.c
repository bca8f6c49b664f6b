/* Owns: tests of what is read of a refused head for the log: nothing beyond what has come, and nothing doubtful. */
#include "support/http1_feed.h"
#include "support/run.h"

typedef struct refused {
    const char *name, *text;
    uint32_t line_size_max; /* 0: more than enough */
    int method;
    const char *method_text, *target, *path, *query; /* NULL: not shown */
    bool path_plain;
    size_t size; /* of what is shown */
} refused_t;

static const refused_t cases[] = {
    {.name = "nothing", .text = ""},
    {.name = "part of a method", .text = "GE"},
    {.name = "a method without the space", .text = "GET"},
    {.name = "a method that is cut", .text = "GET /", .line_size_max = 3},
    {.name = "no token", .text = "G@T / HTTP/1.1\r\n"},
    {.name = "a CR that is no line", .text = "\r/"},
    {.name = "one empty line too many", .text = "\r\n\r\n\r\nGET / HTTP/1.1\r\n"},
    {.name = "one letter and the end", .text = "A ", .method = UVHTTP_METHOD_OTHER, .method_text = "A", .size = 1},
    {.name = "two letters and the end", .text = "GE ", .method = UVHTTP_METHOD_OTHER, .method_text = "GE", .size = 2},
    {.name = "a space first", .text = " /"},
    {.name = "a method and the end", .text = "GET ", .method = UVHTTP_GET, .method_text = "GET", .size = 3},
    {.name = "another known method", .text = "PUT ", .method = UVHTTP_PUT, .method_text = "PUT", .size = 3},
    {.name = "a method of the line's size",
     .text = "PUT /",
     .line_size_max = 4,
     .method = UVHTTP_PUT,
     .method_text = "PUT",
     .size = 3},
    {.name = "behind an empty line", .text = "\r\nPOST ", .method = UVHTTP_POST, .method_text = "POST", .size = 6},
    {.name = "a target without its end", .text = "GET /a", .method_text = "GET", .size = 3},
    {.name = "a target that the bound cuts",
     .text = "GET /abc HTTP/1.1\r\n",
     .line_size_max = 8,
     .method_text = "GET",
     .size = 3},
    {.name = "a target within the bound",
     .text = "GET /abc HTTP/1.1\r\n",
     .line_size_max = 9,
     .method_text = "GET",
     .target = "/abc",
     .path = "/abc",
     .path_plain = true,
     .size = 8},
    {.name = "the bound counts from the line",
     .text = "\r\nGET /abc HTTP/1.1\r\n",
     .line_size_max = 9,
     .method_text = "GET",
     .target = "/abc",
     .path = "/abc",
     .path_plain = true,
     .size = 10},
    {.name = "no target", .text = "GET  / HTTP/1.1\r\n", .method_text = "GET", .size = 3},
    {.name = "a target and a space",
     .text = "GET / ",
     .method_text = "GET",
     .target = "/",
     .path = "/",
     .path_plain = true,
     .size = 5},
    {.name = "a target and CR",
     .text = "GET /\r",
     .method_text = "GET",
     .target = "/",
     .path = "/",
     .path_plain = true,
     .size = 5},
    {.name = "a target and LF",
     .text = "GET /\n",
     .method_text = "GET",
     .target = "/",
     .path = "/",
     .path_plain = true,
     .size = 5},
    {.name = "a query",
     .text = "GET /a/./b?c?d= ",
     .method_text = "GET",
     .target = "/a/./b?c?d=",
     .path = "/a/./b",
     .query = "c?d=",
     .size = 15},
    {.name = "an empty query",
     .text = "GET /a? ",
     .method_text = "GET",
     .target = "/a?",
     .path = "/a",
     .query = "",
     .path_plain = true,
     .size = 7},
    {.name = "a target that is no path",
     .text = "OPTIONS * ",
     .method = UVHTTP_OPTIONS,
     .method_text = "OPTIONS",
     .target = "*",
     .size = 9},
    {.name = "a fragment", .text = "GET /a#b ", .method_text = "GET", .size = 3},
    {.name = "a control character", .text = "GET /\x01 ", .method_text = "GET", .size = 3},
    {.name = "DEL", .text = "GET /\x7f ", .method_text = "GET", .size = 3},
    {.name = "the last byte that is shown",
     .text = "GET /~! ",
     .method_text = "GET",
     .target = "/~!",
     .path = "/~!",
     .path_plain = true,
     .size = 7},
    {.name = "beyond ASCII", .text = "GET /\xc3 ", .method_text = "GET", .size = 3},
    {.name = "a tab behind the target", .text = "GET /\t", .method_text = "GET", .size = 3},
};

static void expect_shown(const refused_t *expected, const char *what, const char *data, uvhttp__span_t span,
                         const char *text) {
    if (span.size != (text ? strlen(text) : 0) || (text && memcmp(data + span.offset, text, span.size) != 0))
        fail_msg("%s: the %s is \"%.*s\"", expected->name, what, (int)span.size, data + span.offset);
}

/* `data` has unmapped memory before or behind it. */
static void expect_refused(const refused_t *expected, const char *data, size_t size) {
    uvhttp__field_t fields[1];
    uvhttp__head_t head;
    memset(&head, 0xff, sizeof head);
    head.headers = fields;
    uvhttp__http1_read_refused(data, size, expected->line_size_max ? expected->line_size_max : 1024, &head);
    if (head.method != expected->method) fail_msg("%s: the method is %d", expected->name, head.method);
    expect_shown(expected, "method's text", data, head.method_text, expected->method_text);
    expect_shown(expected, "target", data, head.target, expected->target);
    expect_shown(expected, "path", data, head.path, expected->path);
    expect_shown(expected, "query", data, head.query, expected->query);
    if (head.size != expected->size) fail_msg("%s: %u bytes are shown", expected->name, head.size);
    if (head.path_plain != expected->path_plain) fail_msg("%s: path_plain is %d", expected->name, head.path_plain);
    if (head.headers != fields || head.header_count != 0) fail_msg("%s: it has fields", expected->name);
    if (head.version != UVHTTP_HTTP_1_1) fail_msg("%s: the version is %d", expected->name, head.version);
}

static void test_of_a_refused_head_is_shown_what_is_without_doubt(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].text);
        for (int at_end = 0; at_end <= 1; at_end++)
            expect_refused(&cases[i], feed_guarded(cases[i].text, size, at_end), size);
    }
}

/* However short it is. */
static void test_no_byte_behind_a_refused_head_is_read(void **state) {
    (void)state;
    static const char text[] = "\r\nDELETE /a?b HTTP/1.1\r\n";
    for (size_t start = 0; start < sizeof text; start++) {
        for (size_t size = 0; start + size < sizeof text; size++) {
            uvhttp__head_t head = {.headers = NULL};
            uvhttp__http1_read_refused(feed_guarded(text + start, size, true), size, 1024, &head);
            if (head.size > size) fail_msg("%u bytes are shown of %zu", head.size, size);
        }
    }
}

int main(void) {
    return RUN_TESTS(test_of_a_refused_head_is_shown_what_is_without_doubt, test_no_byte_behind_a_refused_head_is_read);
}
