/* Owns: the comparison of the router with a matcher that is too simple to be wrong, on random sets of patterns, and the
 * bound on the work of one search. */
#include <cmocka.h>
#include <stdlib.h>
#include <time.h>

#include "routing.h"
#include "support/run.h"

#define ROUTE_MAX 24
#define SEGMENT_MAX 8

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static unsigned pick(unsigned count) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % count;
}

typedef struct naive_route {
    uvhttp_method_t method;
    char pattern[128];
} naive_route_t;

/* Splits a copy of text at '/'; the '/' in front is not part of a segment. */
static size_t split(const char *text, char segments[][64], size_t max) {
    size_t count = 0;
    for (const char *at = text; *at == '/' && count < max;) {
        size_t size = strcspn(++at, "/");
        memcpy(segments[count], at, size);
        segments[count++][size] = '\0';
        at += size;
    }
    return count;
}

/* How well a pattern fits: a digit per segment, '0' static, '1' parameter, '2' wildcard; smaller is better, compared as
 * text. False: it does not match. */
static bool naive_fit(const char *pattern, const char *path, char fit[SEGMENT_MAX + 1]) {
    char wanted[SEGMENT_MAX][64], given[SEGMENT_MAX][64];
    size_t wanted_count = split(pattern, wanted, SEGMENT_MAX), given_count = split(path, given, SEGMENT_MAX);
    size_t i = 0;
    for (; i < wanted_count; ++i) {
        if (i == given_count) return false;
        if (wanted[i][0] == '*') {
            fit[i] = '2', fit[i + 1] = '\0';
            return true;
        }
        if (wanted[i][0] == ':') {
            if (given[i][0] == '\0') return false;
            fit[i] = '1';
        } else {
            if (strcmp(wanted[i], given[i]) != 0) return false;
            fit[i] = '0';
        }
    }
    fit[i] = '\0';
    return i == given_count;
}

/* 0: not selected. Among routes of one shape, the method itself comes before GET for HEAD before ANY. */
static int naive_takes(uvhttp_method_t route, uvhttp_method_t method) {
    if (route == method) return 3;
    if (method == UVHTTP_HEAD && route == UVHTTP_GET) return 2;
    return route == UVHTTP_ANY;
}

static const naive_route_t *naive_match(const naive_route_t *routes, size_t count, uvhttp_method_t method,
                                        const char *path, uint32_t *allow) {
    const naive_route_t *best = NULL;
    char best_fit[SEGMENT_MAX + 1] = "";
    int best_takes = 0;
    *allow = 0;
    for (size_t i = 0; i < count; ++i) {
        char fit[SEGMENT_MAX + 1];
        if (!naive_fit(routes[i].pattern, path, fit)) continue;
        *allow |= 1u << UVHTTP_OPTIONS;
        if (routes[i].method != UVHTTP_ANY) *allow |= 1u << routes[i].method; /* with ANY it is never asked for */
        if (routes[i].method == UVHTTP_GET) *allow |= 1u << UVHTTP_HEAD;
        int takes = naive_takes(routes[i].method, method);
        if (!takes) continue;
        int order = best ? strcmp(fit, best_fit) : -1;
        if (order < 0 || (order == 0 && takes > best_takes)) {
            best = &routes[i];
            best_takes = takes;
            strcpy(best_fit, fit);
        }
    }
    return best;
}

static void random_pattern(char *pattern, size_t size) {
    static const char *const words[] = {"a", "b", "ab", "aa", "", "ba"};
    size_t used = 0, segments = 1 + pick(4);
    for (size_t i = 0; i < segments; ++i) {
        unsigned kind = pick(8);
        if (kind < 4)
            used += (size_t)snprintf(pattern + used, size - used, "/%s", words[pick(6)]);
        else if (kind < 7 || i + 1 < segments)
            used += (size_t)snprintf(pattern + used, size - used, "/:%c%zu", 'p' + (char)pick(3), i);
        else
            used += (size_t)snprintf(pattern + used, size - used, "/*w");
    }
}

static void random_path(char *path, size_t size) {
    static const char *const words[] = {"a", "b", "ab", "aa", "", "c"};
    size_t used = 0, segments = 1 + pick(5);
    for (size_t i = 0; i < segments; ++i) used += (size_t)snprintf(path + used, size - used, "/%s", words[pick(6)]);
}

/* A method that has a name, or `other` as often as each of them. */
static uvhttp_method_t pick_method(uvhttp_method_t other) {
    unsigned method = pick(UVHTTP__METHOD_KNOWN + 1);
    return method < UVHTTP__METHOD_KNOWN ? (uvhttp_method_t)method : other;
}

static void check(const uvhttp__router_t *router, const naive_route_t *routes, size_t count) {
    char path[64];
    random_path(path, sizeof path);
    uvhttp_method_t method = pick_method(UVHTTP_METHOD_OTHER);
    uint32_t allow;
    const naive_route_t *expected = naive_match(routes, count, method, path, &allow);
    uvhttp__match_t result = match(router, method, path);
    const char *got = result.route ? result.route->pattern : "(none)";
    const char *want = expected ? expected->pattern : "(none)";
    if (strcmp(got, want) != 0 || (expected && result.route->method != expected->method))
        fail_msg("%s %s: found %s instead of %s", uvhttp_method_name(method), path, got, want);
    if (expected) {
        assert_int_equal(result.outcome, UVHTTP__MATCH_FOUND);
        /* Put into the pattern, the parameters give the path again. */
        char rebuilt[256] = "", segments[SEGMENT_MAX][64];
        size_t segment_count = split(expected->pattern, segments, SEGMENT_MAX), param = 0;
        for (size_t i = 0; i < segment_count; ++i) {
            bool dynamic = segments[i][0] == ':' || segments[i][0] == '*';
            uvhttp__span_t span = dynamic ? result.params[param++] : (uvhttp__span_t){0, 0};
            size_t used = strlen(rebuilt);
            snprintf(rebuilt + used, sizeof rebuilt - used, "/%.*s", dynamic ? (int)span.size : 64,
                     dynamic ? path + span.offset : segments[i]);
        }
        assert_int_equal(param, result.param_count);
        assert_string_equal(rebuilt, path);
    } else {
        assert_int_equal(result.allow, allow);
        if (!allow) assert_int_equal(result.outcome, UVHTTP__MATCH_NOT_FOUND);
    }
}

static void test_router_agrees_with_a_simple_matcher(void **state) {
    (void)state;
    static naive_route_t routes[ROUTE_MAX];
    for (int round = 0; round < 3000; ++round) {
        uvhttp__router_t *router = uvhttp__router_new();
        size_t count = 0, wanted = 1 + pick(ROUTE_MAX);
        while (count < wanted) {
            naive_route_t *route = &routes[count];
            random_pattern(route->pattern, sizeof route->pattern);
            route->method = pick_method(UVHTTP_ANY);
            int status = add(router, route->method, route->pattern);
            if (status != 0) { /* the error makes freezing fail: the set ends here */
                assert_int_equal(status, UVHTTP_E_ROUTE_CONFLICT);
                break;
            }
            ++count;
        }
        if (uvhttp__router_error(router, NULL) != 0) {
            uvhttp__router_free(router);
            router = uvhttp__router_new();
            for (size_t i = 0; i < count; ++i) assert_int_equal(add(router, routes[i].method, routes[i].pattern), 0);
        }
        assert_int_equal(uvhttp__router_freeze(router), 0);
        for (int i = 0; i < 60; ++i) check(router, routes, count);
        uvhttp__router_free(router);
    }
}

/* All 2^12 patterns of "/a" and "/:x" of length 12, but each with an end that does not match: a search that came back
 * to a node twice would take 2^24 steps, and one that looked for the end of the
 * last segment in every branch would read 400 GB.
 */
static void test_search_enters_every_node_at_most_once(void **state) {
    (void)state;
    enum { DEPTH = 12, SIZE = 1024 * 1024 };
    uvhttp__router_t *router = uvhttp__router_new();
    static char patterns[1 << DEPTH][8 * DEPTH];
    static char path[DEPTH * 2 + 1 + SIZE];
    for (unsigned code = 0; code < 1u << DEPTH; ++code) {
        size_t used = 0;
        for (unsigned i = 0; i < DEPTH; ++i)
            used += (size_t)snprintf(patterns[code] + used, sizeof patterns[code] - used,
                                     code & 1u << i ? "/:p%u" : "/a", i);
        snprintf(patterns[code] + used, sizeof patterns[code] - used, "/end");
        assert_int_equal(add(router, UVHTTP_GET, patterns[code]), 0);
    }
    assert_int_equal(uvhttp__router_freeze(router), 0);
    for (unsigned i = 0; i < DEPTH; ++i) strcat(path, "/a");
    size_t size = strlen(path);
    path[size++] = '/';
    memset(path + size, 'e', SIZE - 1);
    clock_t begin = clock();
    for (int i = 0; i < 100; ++i) assert_int_equal(match(router, UVHTTP_GET, path).outcome, UVHTTP__MATCH_NOT_FOUND);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    /* 100 searches of 2^13 nodes: some 0.1 s with sanitizers.
     */
    assert_true(seconds < 10);
    uvhttp__router_free(router);
}

int main(void) {
    return RUN_TESTS(test_router_agrees_with_a_simple_matcher, test_search_enters_every_node_at_most_once);
}
