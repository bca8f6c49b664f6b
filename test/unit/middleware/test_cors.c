/* Owns: tests of CORS: who may read what, preflights, Vary, and options that contradict each other. */
/* Needs: middleware. */
#include <cmocka.h>
#include <uvhttp/cors.h>

#include "running.h"
#include "support/run.h"

static uvhttp_middleware_t cors;

static int teardown_cors(void **state) {
    drop(cors);
    cors = (uvhttp_middleware_t){.run = NULL};
    return teardown(state);
}

#define CORS(...) (drop(cors), cors = uvhttp_cors(&(uvhttp_cors_options_t){__VA_ARGS__}))

/* What a request with this Origin (NULL: none) gets when the handler answers 200. */
static const char *ask(const char *origin) {
    begin(UVHTTP_GET);
    if (origin) exchange_field(&ex, "Origin", origin);
    assert_int_equal(run(cors), UVHTTP_NEXT);
    uvhttp_response_text(&ex.res, 200, "body");
    finish();
    return fields();
}

static const char *preflight(const char *origin) {
    begin(UVHTTP_OPTIONS);
    exchange_field(&ex, "Origin", origin);
    exchange_field(&ex, "Access-Control-Request-Method", "PUT");
    assert_int_equal(run(cors), UVHTTP_STOP);
    finish();
    assert_int_equal(ex.res.body.size, 0);
    assert_int_equal(ex.res.content_type_size, 0);
    return fields();
}

static void test_defaults_let_every_origin_read(void **state) {
    (void)state;
    cors = uvhttp_cors(NULL);
    assert_string_equal(ask("https://a.example"), "Access-Control-Allow-Origin: *\r\n");
    assert_string_equal(ask(NULL), "Access-Control-Allow-Origin: *\r\n");
    CORS(.origins = " * ");
    assert_string_equal(ask("https://a.example"), "Access-Control-Allow-Origin: *\r\n");
}

static void test_listed_origin_is_named_and_vary_is_always_there(void **state) {
    (void)state;
    CORS(.origins = "https://a.example,http://localhost:3000 , null");
    assert_string_equal(ask("https://a.example"), "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n");
    assert_string_equal(ask("http://localhost:3000"),
                        "Vary: Origin\r\nAccess-Control-Allow-Origin: http://localhost:3000\r\n");
    assert_string_equal(ask("null"), "Vary: Origin\r\nAccess-Control-Allow-Origin: null\r\n");
    static const char *const others[] = {"https://b.example",
                                         "https://a.example.evil",
                                         "https://a.exampl",
                                         "https://a.example:443",
                                         "http://a.example",
                                         "https://A.example",
                                         "https://a.example,http://localhost:3000",
                                         "",
                                         "*",
                                         "https://sub.a.example"};
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i) assert_string_equal(ask(others[i]), "Vary: Origin\r\n");
    assert_string_equal(ask(NULL), "Vary: Origin\r\n");
}

static void test_two_origins_are_none(void **state) {
    (void)state;
    CORS(.origins = "https://a.example");
    begin(UVHTTP_GET);
    exchange_field(&ex, "Origin", "https://a.example");
    exchange_field(&ex, "origin", "https://b.example");
    assert_int_equal(run(cors), UVHTTP_NEXT);
    finish();
    assert_string_equal(fields(), "Vary: Origin\r\n");
}

static void test_vary_of_the_handler_is_kept(void **state) {
    (void)state;
    static const struct {
        const char *handler, *sent;
    } cases[] = {
        {"Accept-Encoding", "Vary: Accept-Encoding\r\nVary: Origin\r\n"},
        {"Accept-Encoding, origin", "Vary: Accept-Encoding, origin\r\n"},
        {"*", "Vary: *\r\n"},
        {"X-Origin", "Vary: X-Origin\r\nVary: Origin\r\n"},
    };
    CORS(.origins = "https://a.example");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        begin(UVHTTP_GET);
        assert_int_equal(run(cors), UVHTTP_NEXT);
        uvhttp_response_header(&ex.res, "Vary", cases[i].handler);
        finish();
        assert_string_equal(fields(), cases[i].sent);
    }
}

static void test_what_the_handler_allowed_is_not_sent_twice(void **state) {
    (void)state;
    cors = uvhttp_cors(NULL);
    begin(UVHTTP_GET);
    run(cors);
    uvhttp_response_header(&ex.res, "access-control-allow-origin", "https://x.example");
    finish();
    assert_string_equal(fields(), "Access-Control-Allow-Origin: *\r\n");
}

static void test_errors_and_pieces_have_the_fields(void **state) {
    (void)state;
    CORS(.origins = "https://a.example", .exposed_headers = "X-A,X-B");
    static const char expected[] = "Vary: Origin\r\nAccess-Control-Expose-Headers: X-A, X-B\r\n"
                                   "Access-Control-Allow-Origin: https://a.example\r\n";
    static const int codes[] = {404, 500};
    for (size_t i = 0; i < 2; ++i) {
        begin(UVHTTP_GET);
        exchange_field(&ex, "Origin", "https://a.example");
        run(cors);
        uvhttp__response_fail(&ex.res, codes[i], "error\n");
        finish();
        assert_string_equal(fields(), expected);
    }
    begin(UVHTTP_GET);
    exchange_field(&ex, "Origin", "https://a.example");
    run(cors);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN), 0);
    assert_string_equal(fields(), expected);
}

static void test_preflight_says_what_is_allowed(void **state) {
    (void)state;
    CORS(.origins = "https://a.example", .credentials = true);
    assert_string_equal(preflight("https://a.example"),
                        "Vary: Origin, Access-Control-Request-Method\r\n"
                        "Access-Control-Allow-Origin: https://a.example\r\n"
                        "Access-Control-Allow-Credentials: true\r\n"
                        "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE\r\n"
                        "Access-Control-Allow-Headers: Content-Type, Authorization\r\n");
    assert_int_equal(uvhttp_response_status(&ex.res), 204);
    assert_string_equal(ask("https://a.example"), "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n"
                                                  "Access-Control-Allow-Credentials: true\r\n");
    CORS(.methods = "*", .request_headers = "*,Authorization", .exposed_headers = "*", .max_age = 600);
    assert_string_equal(preflight("https://a.example"), "Vary: Access-Control-Request-Method\r\n"
                                                        "Access-Control-Allow-Origin: *\r\n"
                                                        "Access-Control-Allow-Methods: *\r\n"
                                                        "Access-Control-Allow-Headers: *, Authorization\r\n"
                                                        "Access-Control-Max-Age: 600\r\n");
    CORS(.methods = "", .request_headers = " , ", .max_age = -1);
    assert_string_equal(preflight("null"), "Vary: Access-Control-Request-Method\r\n"
                                           "Access-Control-Allow-Origin: *\r\nAccess-Control-Max-Age: 0\r\n");
}

static void test_preflight_of_another_origin_is_refused(void **state) {
    (void)state;
    CORS(.origins = "https://a.example", .max_age = 5, .private_network = true);
    assert_string_equal(preflight("https://b.example"), "Vary: Origin, Access-Control-Request-Method, "
                                                        "Access-Control-Request-Private-Network\r\n");
    assert_int_equal(uvhttp_response_status(&ex.res), 403);
}

static void test_options_that_is_no_preflight_passes(void **state) {
    (void)state;
    CORS(.origins = "https://a.example");
    begin(UVHTTP_OPTIONS);
    exchange_field(&ex, "Origin", "https://a.example");
    assert_int_equal(run(cors), UVHTTP_NEXT);
    begin(UVHTTP_OPTIONS);
    exchange_field(&ex, "Access-Control-Request-Method", "PUT");
    assert_int_equal(run(cors), UVHTTP_NEXT);
    begin(UVHTTP_GET);
    exchange_field(&ex, "Origin", "https://a.example");
    exchange_field(&ex, "Access-Control-Request-Method", "PUT");
    assert_int_equal(run(cors), UVHTTP_NEXT);
    assert_int_equal(uvhttp_response_status(&ex.res), 0);
}

static void test_private_network_is_allowed_when_asked_for(void **state) {
    (void)state;
    CORS(.methods = "", .request_headers = "", .private_network = true);
    assert_null(strstr(preflight("https://a.example"), "Allow-Private-Network"));
    for (int asked = 0; asked < 2; ++asked) {
        begin(UVHTTP_OPTIONS);
        exchange_field(&ex, "Origin", "https://a.example");
        exchange_field(&ex, "Access-Control-Request-Method", "PUT");
        exchange_field(&ex, "Access-Control-Request-Private-Network", asked ? "true" : "false");
        run(cors);
        assert_int_equal(strstr(fields(), "\r\nAccess-Control-Allow-Private-Network: true\r\n") != NULL, asked);
    }
    CORS(.methods = "");
    begin(UVHTTP_OPTIONS);
    exchange_field(&ex, "Origin", "https://a.example");
    exchange_field(&ex, "Access-Control-Request-Method", "PUT");
    exchange_field(&ex, "Access-Control-Request-Private-Network", "true");
    run(cors);
    assert_null(strstr(fields(), "Private-Network"));
}

static int asked;

static bool ends_in_example(uvhttp_request_t *req, uvhttp_str_t origin, void *user) {
    assert_ptr_equal(req, &ex.req);
    ++asked;
    size_t size = strlen(user);
    return origin.size >= size && memcmp(origin.data + origin.size - size, user, size) == 0;
}

static void test_a_callback_decides_once_per_request(void **state) {
    (void)state;
    CORS(.origin_allowed = ends_in_example, .user = ".example", .credentials = true);
    asked = 0;
    assert_string_equal(ask("https://a.example"), "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n"
                                                  "Access-Control-Allow-Credentials: true\r\n");
    assert_string_equal(ask("https://a.invalid"), "Vary: Origin\r\n");
    assert_int_equal(asked, 2);
    assert_string_equal(ask(NULL), "Vary: Origin\r\n");
    assert_int_equal(asked, 2);
    assert_non_null(strstr(preflight("https://b.example"), "Access-Control-Allow-Origin: https://b.example\r\n"));
    assert_int_equal(asked, 3);
}

static void test_options_that_contradict_are_refused(void **state) {
    (void)state;
    assert_refused(CORS(.origins = "*", .credentials = true),
                   "middleware: cors: credentials is set for every origin, which browsers refuse and which would give "
                   "any page the user's session: name the origins, or decide in origin_allowed");
    assert_null(CORS(.credentials = true).run);
    assert_non_null(strstr(logged, "credentials is set for every origin"));
    assert_refused(CORS(.origins = "https://a.example", .origin_allowed = ends_in_example),
                   "middleware: cors: origins and origin_allowed are both set: give one of them");
    assert_refused(CORS(.origins = " , "),
                   "middleware: cors: origins is empty: name at least one, or NULL for every origin");
    assert_refused(CORS(.origins = "https://a.example", .credentials = true, .request_headers = "X-A, *"),
                   "middleware: cors: request_headers has \"*\", which is no wildcard with credentials: name them");
    assert_null(CORS(.origins = "https://a.example", .credentials = true, .methods = "*").run);
    assert_null(CORS(.origins = "https://a.example", .credentials = true, .exposed_headers = "*").run);
    assert_refused(CORS(.methods = "GET PUT"),
                   "middleware: cors: methods has \"GET PUT\": expected names with commas between them");
    assert_null(CORS(.request_headers = "X-A\r\nX-B").run);
    assert_null(CORS(.exposed_headers = "X:A").run);
    assert_refused(CORS(.max_age = 86401), "middleware: cors: max_age is 86401: expected -1..86400 seconds");
    assert_null(CORS(.max_age = -2).run);
    cors = (uvhttp_middleware_t){.run = NULL};
}

static void test_origins_are_written_as_browsers_write_them(void **state) {
    (void)state;
    static const char *const right[] = {"https://a.example",         "http://a:1",        "http://127.0.0.1:65535",
                                        "https://[2001:db8::1]",     "http://[::1]:8080", "capacitor://localhost",
                                        "chrome-extension://abcdef", "http://a:443",      "null"};
    static const char *const not_right[] = {
        "a.example",    "https://",          "://a",          "https:/a",        "https://a/",
        "https://a/b",  "https://A.example", "HTTPS://a",     "https://a:443",   "http://a:80",
        "https://a:",   "https://a:0",       "https://a:080", "https://a:65536", "https://a:1x",
        "https://u@a",  "https://*.a",       "https://a?b",   "https://[::1",    "https://::1]",
        "https://[]",   "https://[::1]x",    "https://a b",   "*, https://a",    "https://\xc3\xa4.example",
        "https://a:1:2"};
    for (size_t i = 0; i < sizeof right / sizeof *right; ++i) {
        if (!CORS(.origins = right[i]).run) fail_msg("%s is refused", right[i]);
        assert_non_null(strstr(ask(right[i]), "Access-Control-Allow-Origin: "));
    }
    for (size_t i = 0; i < sizeof not_right / sizeof *not_right; ++i)
        if (CORS(.origins = not_right[i]).run) fail_msg("%s is taken", not_right[i]);
}

static void test_options_are_copied(void **state) {
    (void)state;
    char origins[] = "https://a.example", methods[] = "PUT";
    CORS(.origins = origins, .methods = methods);
    memset(origins, 'x', sizeof origins - 1);
    memset(methods, 'x', sizeof methods - 1);
    const char *sent = preflight("https://a.example");
    assert_non_null(strstr(sent, "Access-Control-Allow-Methods: PUT\r\n"));
}

/* One request with `pad` bytes of fields set before and `left` bytes of memory. Returns whether it was refused. */
static bool ask_with_little(bool is_preflight, size_t pad, size_t left, bool *named) {
    static char value[300];
    memset(value, 'x', sizeof value);
    value[pad] = '\0';
    ex.arena.size_max = SIZE_MAX;
    begin(is_preflight ? UVHTTP_OPTIONS : UVHTTP_GET);
    exchange_field(&ex, "Origin", "https://a.example");
    if (is_preflight) exchange_field(&ex, "Access-Control-Request-Method", "PUT");
    uvhttp_response_header(&ex.res, "X", value);
    leave_memory(left);
    bool refused = run(cors) == UVHTTP_STOP && ex.res.status == 503;
    if (!refused) finish();
    bool origin = strstr(fields(), "Allow-Origin") != NULL;
    assert_true(!origin || strstr(fields(), "Vary: Origin"));
    *named |= origin;
    return refused;
}

/* Whatever room is left, an answer that names an origin has Vary, and what cannot be let through is answered with 503.
 */
static void test_without_memory_nothing_is_allowed(void **state) {
    (void)state;
    CORS(.origins = "https://a.example");
    bool named = false, refused = false;
    for (size_t pad = 100; pad < 256; pad += 4) {
        for (size_t left = 0; left < 1200; left += 40) {
            refused |= ask_with_little(false, pad, left, &named);
            refused |= ask_with_little(true, pad, left, &named);
        }
    }
    assert_true(named && refused);
    ex.arena.size_max = SIZE_MAX;
}

static void attempt(void *user) {
    (void)user;
    uvhttp_middleware_t made = uvhttp_cors(&(uvhttp_cors_options_t){.origins = "https://a.example"});
    if (!made.run) assert_refused(made, "middleware: cors: out of memory");
    drop(made);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    assert_int_equal(test_allocator_each_failure(attempt, NULL), 5);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(
        setup, teardown_cors, test_defaults_let_every_origin_read, test_listed_origin_is_named_and_vary_is_always_there,
        test_two_origins_are_none, test_vary_of_the_handler_is_kept, test_what_the_handler_allowed_is_not_sent_twice,
        test_errors_and_pieces_have_the_fields, test_preflight_says_what_is_allowed,
        test_preflight_of_another_origin_is_refused, test_options_that_is_no_preflight_passes,
        test_private_network_is_allowed_when_asked_for, test_a_callback_decides_once_per_request,
        test_options_that_contradict_are_refused, test_origins_are_written_as_browsers_write_them,
        test_options_are_copied, test_without_memory_nothing_is_allowed, test_every_allocation_may_fail);
}
