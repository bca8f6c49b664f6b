/* Owns: tests of patterns, conflicts and matching. */
#include <cmocka.h>

#include "routing.h"
#include "support/run.h"

static uvhttp__router_t *router;

#define GET(path) outcome(router, UVHTTP_GET, path)
#define assert_found(path, text) assert_string_equal(GET(path), text)

static void routes(const char *const *patterns) {
    for (; *patterns; ++patterns) assert_int_equal(add(router, UVHTTP_GET, *patterns), 0);
    assert_int_equal(uvhttp__router_freeze(router), 0);
}

#define ROUTES(...) routes((const char *const[]){__VA_ARGS__, NULL})

static const char *error_text(void) {
    const char *text;
    (void)uvhttp__router_error(router, &text);
    return text;
}

/* --- patterns --- */

static void test_malformed_patterns_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "a",
                                        "*",
                                        ":a",
                                        "*a",
                                        "/:",
                                        "/*",
                                        "/a/:/b",
                                        "/a/*/b",
                                        "/*a/b",
                                        "/*a/",
                                        "/a*",
                                        "/a*b",
                                        "/:a*",
                                        "/:a.b",
                                        "/:a b",
                                        "/:a:b",
                                        "/a?b",
                                        "/a#b",
                                        "/a%20",
                                        "/%2F",
                                        "/:a/:a",
                                        "/:a/*a",
                                        "/a\nb",
                                        "/a\x7f",
                                        "/a\tb",
                                        "/.",
                                        "/..",
                                        "/a/../b",
                                        "/a/./",
                                        "/:\xc3",
                                        "/:a/b/:a",
                                        "/a%7",
                                        "/%7",
                                        "/%7G",
                                        "/%G7",
                                        "/%00",
                                        "/%7B%20",
                                        "/caf\xe9",
                                        "/\xc3",
                                        "/a/\xed\xa0\x80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        uvhttp__router_t *own = uvhttp__router_new();
        int status = add(own, UVHTTP_GET, wrong[i]);
        if (status != UVHTTP_E_ROUTE_PATTERN) fail_msg("%s: %d", wrong[i], status);
        const char *text;
        assert_int_equal(uvhttp__router_error(own, &text), UVHTTP_E_ROUTE_PATTERN);
        char begin[64];
        snprintf(begin, sizeof begin, "GET %s: ", wrong[i]);
        assert_memory_equal(text, begin, strlen(begin));
        assert_true(strlen(text) > strlen(begin));
        assert_int_equal(uvhttp__router_freeze(own), UVHTTP_E_ROUTE_PATTERN);
        uvhttp__router_free(own);
    }
}

static void test_unusual_patterns_are_accepted(void **state) {
    (void)state;
    ROUTES("/", "//", "/a//b", "/a/", "/\xc3\xa4", "/a b", "/v1:batch", "/:a-b_C9/x", "/a.b", "/...",
           "/a=1;b,c@d!$&'()");
    assert_found("//", "GET //");
    assert_found("/a//b", "GET /a//b");
    assert_found("/\xc3\xa4", "GET /\xc3\xa4");
    assert_found("/v1:batch", "GET /v1:batch");
    assert_found("/q/x", "GET /:a-b_C9/x a-b_C9=q");
    assert_found("/a", "404");
}

static void test_patterns_have_limits(void **state) {
    (void)state;
    char pattern[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 16] = "";
    for (int i = 0; i < UVHTTP__ROUTE_PARAM_MAX; ++i)
        snprintf(pattern + strlen(pattern), sizeof pattern - strlen(pattern), "/:p%d", i);
    assert_int_equal(add(router, UVHTTP_GET, pattern), 0);
    strcat(pattern, "/:one-more");
    assert_int_equal(add(router, UVHTTP_GET, pattern), UVHTTP_E_ROUTE_PATTERN);
    pattern[0] = '\0';
    for (int i = 0; i < UVHTTP__ROUTE_SEGMENT_MAX; ++i) strcat(pattern, "/s");
    assert_int_equal(add(router, UVHTTP_GET, pattern), 0);
    strcat(pattern, "/s");
    assert_int_equal(add(router, UVHTTP_GET, pattern), UVHTTP_E_ROUTE_PATTERN);
    memset(pattern, 'a', sizeof pattern);
    pattern[0] = '/';
    pattern[UVHTTP__ROUTE_PATTERN_SIZE_MAX] = '\0';
    assert_int_equal(add(router, UVHTTP_GET, pattern), 0);
    pattern[UVHTTP__ROUTE_PATTERN_SIZE_MAX] = 'a';
    pattern[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 1] = '\0';
    assert_int_equal(add(router, UVHTTP_GET, pattern), UVHTTP_E_ROUTE_PATTERN);
}

static void test_deepest_pattern_is_found(void **state) {
    (void)state;
    char pattern[512] = "/:p", path[512] = "/x";
    for (int i = 1; i < UVHTTP__ROUTE_SEGMENT_MAX; ++i) {
        strcat(pattern, i < UVHTTP__ROUTE_SEGMENT_MAX - 1 ? "/x" : "/*rest");
        strcat(path, "/x");
    }
    ROUTES(pattern);
    uvhttp__match_t result = match(router, UVHTTP_GET, path);
    assert_int_equal(result.outcome, UVHTTP__MATCH_FOUND);
    assert_int_equal(result.param_count, 2);
    strcat(path, "/y/z");
    assert_int_equal(match(router, UVHTTP_GET, path).outcome, UVHTTP__MATCH_FOUND);
    path[2 * (UVHTTP__ROUTE_SEGMENT_MAX - 1)] = '\0';
    assert_int_equal(match(router, UVHTTP_GET, path).outcome, UVHTTP__MATCH_NOT_FOUND);
}

/* The methods that have a name, then UVHTTP_METHOD_OTHER and UVHTTP_ANY. */
static unsigned next_method(unsigned method) {
    return method + 1 == UVHTTP__METHOD_KNOWN ? UVHTTP_METHOD_OTHER : method + 1;
}

static void test_registration_arguments_are_checked(void **state) {
    (void)state;
    uvhttp_group_t *root = uvhttp__router_root(router);
    assert_int_equal(uvhttp__group_add(root, UVHTTP_METHOD_OTHER, "/", handle_nothing, NULL, 0, NULL),
                     UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__group_add(root, (uvhttp_method_t)UVHTTP__METHOD_KNOWN, "/", handle_nothing, NULL, 0, NULL),
                     UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__group_add(root, (uvhttp_method_t)-1, "/", handle_nothing, NULL, 0, NULL),
                     UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__group_add(root, UVHTTP_GET, NULL, handle_nothing, NULL, 0, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__group_add(root, UVHTTP_GET, "/", NULL, NULL, 0, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__group_add(NULL, UVHTTP_GET, "/", handle_nothing, NULL, 0, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__router_error(router, NULL), UVHTTP_E_INVALID);
}

static void test_route_carries_what_was_registered(void **state) {
    (void)state;
    int user;
    uvhttp_route_t *route;
    assert_int_equal(
        uvhttp__group_add(uvhttp__router_root(router), UVHTTP_POST, "/a/:x", handle_nothing, &user, 7, &route), 0);
    assert_int_equal(uvhttp__router_freeze(router), 0);
    uvhttp__match_t result = match(router, UVHTTP_POST, "/a/b");
    assert_ptr_equal(result.route, route);
    assert_ptr_equal(route->handler, handle_nothing);
    assert_ptr_equal(route->user, &user);
    assert_int_equal(route->exec, 7);
    assert_int_equal(route->method, UVHTTP_POST);
    assert_string_equal(route->pattern, "/a/:x");
}

/* A pattern of another framework was a path without parameters, and the route never matched. */
static void test_foreign_parameters_are_refused_with_the_spelling_of_here(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"/users/{id}", ":id"},    {"/users/<id>", ":id"}, {"/users/{id:int}", ":id"},
        {"/a/<int:id>/b", ":int"}, {"/{*rest}", ":rest"},  {"/a-{id}", ":a-"},
        {"/{}", ":name"},          {"/x}", ":x"},          {"/{id}.json", ":id"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        uvhttp__router_t *own = uvhttp__router_new();
        const char *text;
        char expected[32];
        snprintf(expected, sizeof expected, "write \"%s\"", wrong[i][1]);
        assert_int_equal(add(own, UVHTTP_GET, wrong[i][0]), UVHTTP_E_ROUTE_PATTERN);
        assert_int_equal(uvhttp__router_error(own, &text), UVHTTP_E_ROUTE_PATTERN);
        if (!strstr(text, expected) || !strstr(text, wrong[i][0])) fail_msg("%s: %s", wrong[i][0], text);
        assert_int_equal(uvhttp__router_freeze(own), UVHTTP_E_ROUTE_PATTERN);
        uvhttp__router_free(own);
    }
}

static void test_a_brace_is_written_escaped(void **state) {
    (void)state;
    ROUTES("/users/%7Bid%7d", "/%3Ca%3e/:x");
    assert_found("/users/{id}", "GET /users/{id}");
    assert_found("/<a>/b", "GET /<a>/:x x=b");
    assert_found("/users/17", "404");
    assert_found("/users/%7Bid%7d", "404"); /* what is matched is decoded */
}

/* --- conflicts --- */

static void test_conflict_names_both_routes(void **state) {
    (void)state;
    assert_int_equal(add(router, UVHTTP_GET, "/users/:name"), 0);
    assert_int_equal(add(router, UVHTTP_POST, "/users/:id"), 0);
    assert_int_equal(add(router, UVHTTP_GET, "/users/:id"), UVHTTP_E_ROUTE_CONFLICT);
    assert_string_equal(error_text(), "GET /users/:id conflicts with GET /users/:name (registered first)");
    assert_int_equal(add(router, UVHTTP_GET, "wrong"), UVHTTP_E_ROUTE_PATTERN);
    assert_int_equal(uvhttp__router_error(router, NULL), UVHTTP_E_ROUTE_CONFLICT); /* the first one counts */
    assert_int_equal(uvhttp__router_freeze(router), UVHTTP_E_ROUTE_CONFLICT);
}

static void test_same_shape_and_method_conflict(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"/", "/"}, {"/a/b", "/a/b"}, {"/*a", "/*b"}, {"/:a/x/*b", "/:c/x/*d"}, {"/a/:x", "/a/:x"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
        for (unsigned method = 0; method <= UVHTTP_ANY; method = next_method(method)) {
            if (method == UVHTTP_METHOD_OTHER) continue;
            uvhttp__router_t *own = uvhttp__router_new();
            assert_int_equal(add(own, method, pairs[i][0]), 0);
            assert_int_equal(add(own, method, pairs[i][1]), UVHTTP_E_ROUTE_CONFLICT);
            uvhttp__router_free(own);
        }
}

static void test_different_shapes_do_not_conflict(void **state) {
    (void)state;
    ROUTES("/a", "/a/", "/:x", "/*x", "/a/:x", "/a/*x", "/:x/a", "/:x/:y", "/a/b", "/:x/*y", "/A");
    assert_int_equal(uvhttp__router_error(router, NULL), 0);
    assert_string_equal(error_text(), "");
}

/* --- matching --- */

static void test_static_wins_over_param_over_wildcard(void **state) {
    (void)state;
    ROUTES("/users/*rest", "/users/:id", "/users/me", "/users/");
    assert_found("/users/me", "GET /users/me");
    assert_found("/users/you", "GET /users/:id id=you");
    assert_found("/users/", "GET /users/");
    assert_found("/users/me/x", "GET /users/*rest rest=me/x");
    assert_found("/users", "404");
    assert_found("/user", "404");
    assert_found("/users/mee", "GET /users/:id id=mee");
}

static void test_search_goes_back(void **state) {
    (void)state;
    ROUTES("/users/:id/x", "/users/me/y", "/:a/me/z", "/*all");
    assert_found("/users/me/x", "GET /users/:id/x id=me");
    assert_found("/users/me/y", "GET /users/me/y");
    assert_found("/users/me/z", "GET /:a/me/z a=users");
    assert_found("/users/you/y", "GET /*all all=users/you/y");
    assert_found("/users/me", "GET /*all all=users/me");
    assert_found("/", "GET /*all all=");
}

static void test_params_of_abandoned_branches_are_forgotten(void **state) {
    (void)state;
    ROUTES("/:a/:b/:c/end", "/:x/*rest");
    assert_found("/1/2/3/end", "GET /:a/:b/:c/end a=1 b=2 c=3");
    assert_found("/1/2/3/other", "GET /:x/*rest x=1 rest=2/3/other");
}

static void test_param_is_one_segment_that_is_not_empty(void **state) {
    (void)state;
    ROUTES("/a/:x", "/b/:x/c");
    assert_found("/a/", "404");
    assert_found("/a/b/c", "404");
    assert_found("/b//c", "404");
    assert_found("/a/b/", "404");
    assert_found("/a/:x", "GET /a/:x x=:x");
}

static void test_wildcard_takes_the_rest_that_may_be_empty(void **state) {
    (void)state;
    ROUTES("/assets/*path");
    assert_found("/assets/", "GET /assets/*path path=");
    assert_found("/assets/a", "GET /assets/*path path=a");
    assert_found("/assets//a/", "GET /assets/*path path=/a/");
    assert_found("/assets", "404");
    assert_found("/assetsx", "404");
}

static void test_first_difference_from_the_left_decides(void **state) {
    (void)state;
    ROUTES("/:a/b", "/a/:b", "/a/*c");
    assert_found("/a/b", "GET /a/:b b=b");
    assert_found("/x/b", "GET /:a/b a=x");
    assert_found("/a/b/c", "GET /a/*c c=b/c");
}

static void test_odd_paths_match_nothing(void **state) {
    (void)state;
    ROUTES("/", "/a", "/a/:x");
    assert_found("", "404");
    assert_found("a", "404");
    assert_found("*", "404");
    assert_found("**", "404");
    assert_found("//", "404");
    assert_found("/a//", "404");
}

static void test_empty_router_matches_nothing(void **state) {
    (void)state;
    assert_int_equal(uvhttp__router_freeze(router), 0);
    assert_int_equal(uvhttp__router_freeze(router), 0);
    assert_found("/", "404");
    assert_string_equal(outcome(router, UVHTTP_OPTIONS, "*"), "204 OPTIONS");
}

static void test_order_of_registration_does_not_matter(void **state) {
    (void)state;
    static const char *const patterns[] = {"/a/b", "/a/:x", "/a/*x", "/:y/b"};
    static const char *const paths[] = {"/a/b", "/a/c", "/a/c/d", "/x/b", "/a/"};
    static const char *const expected[] = {"GET /a/b", "GET /a/:x x=c", "GET /a/*x x=c/d", "GET /:y/b y=x",
                                           "GET /a/*x x="};
    for (unsigned order = 0; order < 24; ++order) {
        uvhttp__router_t *own = uvhttp__router_new();
        unsigned used = 0, code = order;
        for (unsigned left = 4; left > 0; code /= left, --left) { /* the code's digits pick among what is left */
            unsigned pick = code % left, at = 0;
            for (;; ++at)
                if (!(used & 1u << at) && pick-- == 0) break;
            used |= 1u << at;
            assert_int_equal(add(own, UVHTTP_GET, patterns[at]), 0);
        }
        assert_int_equal(uvhttp__router_freeze(own), 0);
        for (size_t i = 0; i < sizeof paths / sizeof *paths; ++i)
            assert_string_equal(outcome(own, UVHTTP_GET, paths[i]), expected[i]);
        uvhttp__router_free(own);
    }
}

static void test_many_exact_paths_are_all_found(void **state) {
    (void)state;
    static char patterns[1000][16];
    for (size_t i = 0; i < 1000; ++i) {
        snprintf(patterns[i], sizeof patterns[i], "/p%zu", i);
        assert_int_equal(add(router, UVHTTP_GET, patterns[i]), 0);
    }
    assert_int_equal(uvhttp__router_freeze(router), 0);
    for (size_t i = 0; i < 1000; ++i) {
        uvhttp__match_t result = match(router, UVHTTP_GET, patterns[i]);
        assert_int_equal(result.outcome, UVHTTP__MATCH_FOUND);
        assert_ptr_equal(result.route->user, patterns[i]);
    }
    assert_found("/p1000", "404");
}

/* --- methods --- */

typedef struct asked {
    uvhttp_method_t method;
    const char *path, *outcome;
} asked_t;

static const struct {
    const char *name;
    struct {
        uvhttp_method_t method;
        const char *pattern;
    } routes[6];
    asked_t asked[5];
} method_cases[] = {
    {"wrong method gets 405 with all that are allowed",
     {{UVHTTP_GET, "/a"}, {UVHTTP_POST, "/a"}, {UVHTTP_DELETE, "/:x"}, {UVHTTP_PUT, "/*x"}},
     {{UVHTTP_PATCH, "/a", "405 GET, HEAD, POST, PUT, DELETE, OPTIONS"},
      {UVHTTP_PATCH, "/b", "405 PUT, DELETE, OPTIONS"},
      {UVHTTP_GET, "/b/c", "405 PUT, OPTIONS"},
      {UVHTTP_METHOD_OTHER, "/b/c", "405 PUT, OPTIONS"},
      {UVHTTP_CONNECT, "/b/c", "405 PUT, OPTIONS"}}},
    {"method is part of the search",
     {{UVHTTP_GET, "/users/me"}, {UVHTTP_POST, "/users/:id"}, {UVHTTP_ANY, "/*all"}},
     {{UVHTTP_POST, "/users/me", "POST /users/:id id=me"}, {UVHTTP_PUT, "/users/me", "ANY /*all all=users/me"}}},
    {"head goes through get",
     {{UVHTTP_GET, "/a"},
      {UVHTTP_GET, "/b"},
      {UVHTTP_HEAD, "/b"},
      {UVHTTP_GET, "/c"},
      {UVHTTP_ANY, "/c"},
      {UVHTTP_POST, "/d"}},
     {{UVHTTP_HEAD, "/a", "GET /a"},
      {UVHTTP_HEAD, "/b", "HEAD /b"},
      {UVHTTP_HEAD, "/c", "GET /c"},
      {UVHTTP_HEAD, "/d", "405 POST, OPTIONS"}}},
    {"options is automatic unless registered",
     {{UVHTTP_GET, "/a"}, {UVHTTP_OPTIONS, "/b"}, {UVHTTP_DELETE, "/c/:x"}},
     {{UVHTTP_OPTIONS, "/a", "204 GET, HEAD, OPTIONS"},
      {UVHTTP_OPTIONS, "/b", "OPTIONS /b"},
      {UVHTTP_OPTIONS, "/c/d", "204 DELETE, OPTIONS"},
      {UVHTTP_OPTIONS, "/x", "404"},
      {UVHTTP_OPTIONS, "*", "204 GET, HEAD, DELETE, OPTIONS"}}},
    {"unknown method goes to any only",
     {{UVHTTP_GET, "/a"}, {UVHTTP_ANY, "/b"}},
     {{UVHTTP_METHOD_OTHER, "/a", "405 GET, HEAD, OPTIONS"}, {UVHTTP_METHOD_OTHER, "/b", "ANY /b"}}},
};

static void test_methods_are_chosen_and_reported(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof method_cases / sizeof *method_cases; i++) {
        uvhttp__router_t *own = uvhttp__router_new();
        assert_non_null(own);
        for (int j = 0; j < 6 && method_cases[i].routes[j].pattern; j++)
            assert_int_equal(add(own, method_cases[i].routes[j].method, method_cases[i].routes[j].pattern), 0);
        assert_int_equal(uvhttp__router_freeze(own), 0);
        for (int j = 0; j < 5 && method_cases[i].asked[j].path; j++) {
            const asked_t *asked = &method_cases[i].asked[j];
            const char *got = outcome(own, asked->method, asked->path);
            if (strcmp(got, asked->outcome) != 0)
                fail_msg("%s: %s: \"%s\", not \"%s\"", method_cases[i].name, asked->path, got, asked->outcome);
        }
        uvhttp__router_free(own);
    }
}

static void test_any_takes_what_no_other_method_does(void **state) {
    (void)state;
    add(router, UVHTTP_ANY, "/a");
    add(router, UVHTTP_POST, "/a");
    assert_int_equal(uvhttp__router_freeze(router), 0);
    for (unsigned method = 0; method <= UVHTTP_METHOD_OTHER; method = next_method(method))
        assert_string_equal(outcome(router, method, "/a"), method == UVHTTP_POST ? "POST /a" : "ANY /a");
    assert_string_equal(outcome(router, UVHTTP_OPTIONS, "*"),
                        "204 GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, TRACE");
}

static void test_allow_text_holds_every_method(void **state) {
    (void)state;
    char text[UVHTTP__ALLOW_TEXT_MAX];
    size_t size = uvhttp__allow_text(UINT32_MAX, text);
    assert_int_equal(size, strlen(text));
    assert_string_equal(text, "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, CONNECT, TRACE");
    assert_int_equal(uvhttp__allow_text(0, text), 0);
}

static void test_frozen_router_takes_no_route(void **state) {
    (void)state;
    ROUTES("/a");
    assert_int_equal(add(router, UVHTTP_GET, "/b"), UVHTTP_E_STATE);
    assert_found("/b", "404");
    assert_found("/a", "GET /a");
    assert_string_equal(error_text(), "/b: registered after the server has started to listen");
}

static int set_up(void **state) {
    (void)state;
    router = uvhttp__router_new();
    return router ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    uvhttp__router_free(router);
    return 0;
}

int main(void) {
    return RUN_TESTS_WITH(
        set_up, tear_down, test_malformed_patterns_are_refused, test_unusual_patterns_are_accepted,
        test_patterns_have_limits, test_deepest_pattern_is_found, test_registration_arguments_are_checked,
        test_route_carries_what_was_registered, test_conflict_names_both_routes, test_same_shape_and_method_conflict,
        test_different_shapes_do_not_conflict, test_static_wins_over_param_over_wildcard, test_search_goes_back,
        test_params_of_abandoned_branches_are_forgotten, test_param_is_one_segment_that_is_not_empty,
        test_wildcard_takes_the_rest_that_may_be_empty, test_first_difference_from_the_left_decides,
        test_odd_paths_match_nothing, test_empty_router_matches_nothing, test_order_of_registration_does_not_matter,
        test_many_exact_paths_are_all_found, test_foreign_parameters_are_refused_with_the_spelling_of_here,
        test_a_brace_is_written_escaped, test_methods_are_chosen_and_reported, test_any_takes_what_no_other_method_does,
        test_allow_text_holds_every_method, test_frozen_router_takes_no_route);
}
