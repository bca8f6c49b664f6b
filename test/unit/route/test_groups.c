/* Owns: tests of groups, chains of middleware, and of routing a whole request. */
#include <cmocka.h>

#include "routing.h"
#include "support/exchange.h"
#include "support/run.h"

static uvhttp__router_t *router;
static uvhttp_group_t *root;
static exchange_t ex;
static int destroyed;

static void destroy(void *user) {
    (void)user;
    ++destroyed;
}

static uvhttp_flow_t note(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    exchange_log(exchange_of(res), "%s ", (const char *)user);
    return UVHTTP_NEXT;
}

static uvhttp_flow_t stop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    note(req, res, user);
    return UVHTTP_STOP;
}

static void handle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    exchange_log(exchange_of(res), "handler:%s ", (const char *)user);
}

static uvhttp_middleware_t named(const char *name) {
    return (uvhttp_middleware_t){.run = note, .user = (void *)name, .destroy = destroy};
}

static uvhttp_route_t *last_route; /* what get() has registered */

static int get(uvhttp_group_t *group, const char *pattern) {
    return uvhttp__group_add(group, UVHTTP_GET, pattern, handle, (void *)pattern, 0, &last_route);
}

static uvhttp_flow_t go(const uvhttp__match_t *result) {
    return uvhttp__middleware_cursor_run(&(uvhttp__middleware_cursor_t){.chain = result->chain, .route = result->route},
                                         &ex.req, &ex.res);
}

/* What runs for a request: the names, in order. */
static const char *run(uvhttp_method_t method, const char *path) {
    exchange_request(&ex, method, uvhttp__str_from(path), NULL);
    uvhttp__match_t result;
    assert_int_equal(uvhttp__router_route(router, &ex.req, &result), 0);
    (void)go(&result);
    return ex.log;
}

static void freeze(void) {
    assert_int_equal(uvhttp__router_freeze(router), 0);
}

static void test_prefixes_are_joined(void **state) {
    (void)state;
    uvhttp_group_t *api = uvhttp__group_new(root, "/api"), *user = uvhttp__group_new(api, "/users/:id/");
    assert_int_equal(get(api, "/orders"), 0);
    assert_int_equal(get(api, ""), 0);
    assert_int_equal(get(api, "/"), 0);
    assert_int_equal(get(user, "/files/*path"), 0);
    assert_int_equal(get(uvhttp__group_new(root, "/"), "/x"), 0);
    assert_int_equal(get(uvhttp__group_new(root, ""), "/y"), 0);
    freeze();
    assert_string_equal(outcome(router, UVHTTP_GET, "/api/orders"), "GET /api/orders");
    assert_string_equal(outcome(router, UVHTTP_GET, "/api"), "GET /api");
    assert_string_equal(outcome(router, UVHTTP_GET, "/api/"), "GET /api/");
    assert_string_equal(outcome(router, UVHTTP_GET, "/api/users/7/files/a/b"),
                        "GET /api/users/:id/files/*path id=7 path=a/b");
    assert_string_equal(outcome(router, UVHTTP_GET, "/x"), "GET /x");
    assert_string_equal(outcome(router, UVHTTP_GET, "/y"), "GET /y");
    assert_string_equal(outcome(router, UVHTTP_GET, "/orders"), "404");
}

static void test_conflict_across_groups_is_seen(void **state) {
    (void)state;
    assert_int_equal(get(root, "/api/:x"), 0);
    assert_int_equal(get(uvhttp__group_new(root, "/api"), "/:y"), UVHTTP_E_ROUTE_CONFLICT);
    const char *text;
    assert_int_equal(uvhttp__router_error(router, &text), UVHTTP_E_ROUTE_CONFLICT);
    assert_string_equal(text, "GET /api/:y conflicts with GET /api/:x (registered first)");
}

static void test_bad_prefix_gives_a_group_that_refuses(void **state) {
    (void)state;
    static const char *const wrong[] = {"api", "/a?b", "/a/*x", "/*x/", "/:a/:a", "/%41", "/caf\xe9"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        uvhttp__router_t *own = uvhttp__router_new();
        uvhttp_group_t *group = uvhttp__group_new(uvhttp__router_root(own), wrong[i]);
        assert_non_null(group);
        assert_int_equal(uvhttp__router_error(own, NULL), UVHTTP_E_ROUTE_PATTERN);
        assert_int_equal(get(group, "/x"), UVHTTP_E_INVALID);
        assert_ptr_equal(uvhttp__group_new(group, "/x"), group);
        destroyed = 0;
        assert_int_equal(uvhttp__group_use(group, named("m")), UVHTTP_E_INVALID);
        assert_int_equal(destroyed, 1);
        assert_int_equal(uvhttp__router_freeze(own), UVHTTP_E_ROUTE_PATTERN);
        uvhttp__router_free(own);
    }
}

static void test_long_prefix_is_refused(void **state) {
    (void)state;
    static char prefix[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 2];
    memset(prefix, 'a', sizeof prefix - 1);
    prefix[0] = '/';
    assert_int_equal(get(uvhttp__group_new(root, prefix), "/x"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__router_error(router, NULL), UVHTTP_E_ROUTE_PATTERN);
}

static void test_middleware_runs_from_outer_to_inner(void **state) {
    (void)state;
    uvhttp_group_t *api = uvhttp__group_new(root, "/api"), *v1 = uvhttp__group_new(api, "/v1");
    assert_int_equal(get(v1, "/x"), 0);
    assert_int_equal(uvhttp__route_use(last_route, named("route")), 0);
    assert_int_equal(get(v1, "/y"), 0);
    assert_int_equal(get(root, "/z"), 0);
    /* Added after the routes, and inner before outer: neither matters. */
    assert_int_equal(uvhttp__group_use(v1, named("v1-a")), 0);
    assert_int_equal(uvhttp__group_use(api, named("api")), 0);
    assert_int_equal(uvhttp__group_use(v1, named("v1-b")), 0);
    assert_int_equal(uvhttp__group_use(root, named("global")), 0);
    freeze();
    assert_string_equal(run(UVHTTP_GET, "/api/v1/x"), "global api v1-a v1-b route handler:/x ");
    assert_string_equal(run(UVHTTP_GET, "/api/v1/y"), "global api v1-a v1-b handler:/y ");
    assert_string_equal(run(UVHTTP_GET, "/z"), "global handler:/z ");
}

static void test_stop_ends_the_chain(void **state) {
    (void)state;
    uvhttp__group_use(root, named("a"));
    uvhttp__group_use(root, (uvhttp_middleware_t){.run = stop, .user = (void *)"b"});
    uvhttp__group_use(root, named("c"));
    get(root, "/");
    freeze();
    assert_string_equal(run(UVHTTP_GET, "/"), "a b ");
    uvhttp__match_t result = match(router, UVHTTP_GET, "/");
    uvhttp__middleware_cursor_t cursor = {.chain = result.chain, .route = result.route};
    ex.log[0] = '\0';
    assert_int_equal(uvhttp__middleware_cursor_run(&cursor, &ex.req, &ex.res), UVHTTP_STOP);
    assert_int_equal(uvhttp__middleware_cursor_run(&cursor, &ex.req, &ex.res),
                     UVHTTP_NEXT); /* from behind who has stopped it */
    assert_string_equal(ex.log, "a b c handler:/ ");
}

static void test_requests_without_a_route_pass_middleware(void **state) {
    (void)state;
    uvhttp_group_t *api = uvhttp__group_new(root, "/api");
    uvhttp__group_use(root, named("global"));
    uvhttp__group_use(api, named("cors"));
    get(api, "/x");
    uvhttp__route_use(last_route, named("route"));
    freeze();
    assert_string_equal(run(UVHTTP_GET, "/missing"), "global ");
    assert_string_equal(run(UVHTTP_GET, "/api/missing"), "global ");
    assert_string_equal(run(UVHTTP_POST, "/api/x"), "global cors ");    /* 405 */
    assert_string_equal(run(UVHTTP_OPTIONS, "/api/x"), "global cors "); /* a preflight */
    assert_string_equal(run(UVHTTP_OPTIONS, "*"), "global ");
    uvhttp__match_t result = match(router, UVHTTP_GET, "/missing");
    assert_int_equal(go(&result), UVHTTP_NEXT);
}

static void test_405_passes_the_group_of_the_best_pattern(void **state) {
    (void)state;
    uvhttp_group_t *outer = uvhttp__group_new(root, "/a"), *inner = uvhttp__group_new(outer, "/b");
    uvhttp__group_use(outer, named("outer"));
    uvhttp__group_use(inner, named("inner"));
    get(outer, "/*all");
    get(inner, "/c");
    freeze();
    assert_string_equal(run(UVHTTP_POST, "/a/b/c"), "outer inner ");
    assert_string_equal(run(UVHTTP_POST, "/a/b/d"), "outer ");
}

static void test_middleware_is_destroyed_once(void **state) {
    (void)state;
    uvhttp__router_t *own = uvhttp__router_new();
    uvhttp_group_t *group = uvhttp__group_new(uvhttp__router_root(own), "/g");
    for (int i = 0; i < 9; ++i) assert_int_equal(uvhttp__group_use(group, named("m")), 0);
    assert_int_equal(get(group, "/a"), 0);
    assert_int_equal(uvhttp__route_use(last_route, named("r")), 0);
    assert_int_equal(get(group, "/b"), 0);
    assert_int_equal(uvhttp__router_freeze(own), 0);
    assert_int_equal(destroyed, 0);
    assert_int_equal(uvhttp__group_use(group, named("late")), UVHTTP_E_STATE);
    assert_int_equal(destroyed, 1);
    uvhttp__router_free(own);
    assert_int_equal(destroyed, 11);
}

static void test_middleware_that_cannot_run_is_refused(void **state) {
    (void)state;
    assert_int_equal(uvhttp__group_use(root, (uvhttp_middleware_t){.destroy = destroy}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__group_use(NULL, named("m")), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__route_use(NULL, named("m")), UVHTTP_E_INVALID);
    assert_int_equal(destroyed, 3);
    assert_int_equal(uvhttp__router_freeze(router), UVHTTP_E_INVALID);
}

static void test_late_group_is_refused(void **state) {
    (void)state;
    freeze();
    uvhttp_group_t *late = uvhttp__group_new(root, "/late");
    assert_int_equal(get(late, "/x"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__router_error(router, NULL), UVHTTP_E_STATE);
}

/* --- whole requests --- */

static void test_request_gets_its_parameters(void **state) {
    (void)state;
    get(root, "/u/:id/*rest");
    freeze();
    run(UVHTTP_GET, "/u/a%2Fb%20c/x/%2e./y%2Fz");
    assert_str(uvhttp_request_path(&ex.req), "/u/a%2Fb c/y%2Fz");
    assert_str(uvhttp_request_param(&ex.req, "id"), "a/b c");
    assert_str(uvhttp_request_param(&ex.req, "rest"), "y/z");
    run(UVHTTP_GET, "/other");
    assert_null(uvhttp_request_param(&ex.req, "id").data);
}

static void test_escaped_slash_is_no_separator(void **state) {
    (void)state;
    get(root, "/admin/:x");
    get(root, "/:y");
    freeze();
    assert_string_equal(run(UVHTTP_GET, "/admin%2Fsecret"), "handler:/:y ");
    assert_string_equal(run(UVHTTP_GET, "/%61dmin/secret"), "handler:/admin/:x ");
    assert_string_equal(run(UVHTTP_GET, "/x/../admin/secret"), "handler:/admin/:x ");
}

static void test_bad_target_passes_the_global_chain(void **state) {
    (void)state;
    uvhttp__group_use(root, named("global"));
    get(root, "/*all");
    freeze();
    exchange_request(&ex, UVHTTP_GET, STR("/%zz"), NULL);
    uvhttp__match_t result;
    assert_int_equal(uvhttp__router_route(router, &ex.req, &result), UVHTTP_E_HTTP_TARGET);
    assert_int_equal(result.outcome, UVHTTP__MATCH_NOT_FOUND);
    go(&result);
    assert_string_equal(ex.log, "global ");
    exchange_request(&ex, UVHTTP_GET, STR("/%2f"), NULL);
    ex.arena.size_max = 0;
    assert_int_equal(uvhttp__router_route(router, &ex.req, &result), UVHTTP_E_NOMEM);
    ex.arena.size_max = 65536;
}

static int set_up(void **state) {
    (void)state;
    destroyed = 0;
    exchange_init(&ex, 65536);
    router = uvhttp__router_new();
    root = uvhttp__router_root(router);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    uvhttp__router_free(router);
    exchange_deinit(&ex);
    return 0;
}

int main(void) {
    return RUN_TESTS_WITH(set_up, tear_down, test_prefixes_are_joined, test_conflict_across_groups_is_seen,
                          test_bad_prefix_gives_a_group_that_refuses, test_long_prefix_is_refused,
                          test_middleware_runs_from_outer_to_inner, test_stop_ends_the_chain,
                          test_requests_without_a_route_pass_middleware, test_405_passes_the_group_of_the_best_pattern,
                          test_middleware_is_destroyed_once, test_middleware_that_cannot_run_is_refused,
                          test_late_group_is_refused, test_request_gets_its_parameters,
                          test_escaped_slash_is_no_separator, test_bad_target_passes_the_global_chain);
}
