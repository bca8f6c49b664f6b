/* Owns: the test that registration and freezing survive the failure of any allocation. */
#include <cmocka.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "routing.h"

static size_t until_failure; /* allocations that still succeed */
static size_t live;
static int registered, destroyed;

static bool fails(void) {
    if (until_failure == 0) return true;
    --until_failure;
    return false;
}

static void *hook_malloc(size_t size, void *user) {
    (void)user;
    void *memory = fails() ? NULL : malloc(size);
    live += memory != NULL;
    return memory;
}

static void *hook_calloc(size_t count, size_t size, void *user) {
    (void)user;
    void *memory = fails() ? NULL : calloc(count, size);
    live += memory != NULL;
    return memory;
}

static void *hook_realloc(void *memory, size_t size, void *user) {
    (void)user;
    if (fails()) return NULL;
    live += memory == NULL;
    return realloc(memory, size);
}

static void hook_free(void *memory, void *user) {
    (void)user;
    live -= memory != NULL;
    free(memory);
}

static uvhttp_flow_t pass(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_NEXT;
}

static void count_destroyed(void *user) {
    (void)user;
    ++destroyed;
}

static int use(uvhttp_group_t *group) {
    ++registered;
    return uvhttp__group_use(group, (uvhttp_middleware_t){.run = pass, .destroy = count_destroyed});
}

/* Continues after failures, as a program does that checks nothing. Returns what freeze says. */
static int build(uvhttp__router_t *router) {
    uvhttp_group_t *api = uvhttp__group_new(uvhttp__router_root(router), "/api");
    use(uvhttp__router_root(router));
    use(api);
    static const char *const patterns[] = {"/", "/a", "/a/b", "/a/:x", "/a/*x", "/:x/:y/:z", "/c/d/e", "/q", "/r"};
    uvhttp_route_t *last = NULL;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i) {
        add(router, UVHTTP_GET, patterns[i]);
        uvhttp__group_add(api, UVHTTP_ANY, patterns[i], handle_nothing, NULL, 0, &last);
    }
    for (int i = 0; i < 5; ++i) {
        ++registered;
        uvhttp__route_use(last, (uvhttp_middleware_t){.run = pass, .destroy = count_destroyed});
    }
    return uvhttp__router_freeze(router);
}

static void test_any_allocation_may_fail(void **state) {
    (void)state;
    bool done = false;
    size_t failures = 0;
    for (size_t n = 0; !done; ++n, ++failures) {
        assert_true(n < 1000);
        registered = destroyed = 0;
        until_failure = n;
        uvhttp__router_t *router = uvhttp__router_new();
        if (router) {
            size_t before = SIZE_MAX;
            int status = build(router);
            done = status == 0;
            if (!done) {
                /* Either a registration has failed, for good, or freezing alone, which can be done again. */
                assert_int_equal(status, UVHTTP_E_NOMEM);
                int remembered = uvhttp__router_error(router, NULL);
                assert_true(remembered == 0 || remembered == UVHTTP_E_NOMEM);
                until_failure = before;
                assert_int_equal(uvhttp__router_freeze(router), remembered);
                if (remembered == 0) assert_int_equal(match(router, UVHTTP_GET, "/api/a").outcome, UVHTTP__MATCH_FOUND);
            }
            uvhttp__router_free(router);
        }
        assert_int_equal(destroyed, registered);
        assert_int_equal(live, 0);
    }
    assert_true(failures > 50);
}

static int set_up(void **state) {
    (void)state;
    static const uvhttp_allocator_t allocator = {
        .malloc = hook_malloc, .calloc = hook_calloc, .realloc = hook_realloc, .free = hook_free};
    return uvhttp_set_allocator(&allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_allocation_may_fail)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
