/* Owns: short forms for tests that register and match. Include after cmocka.h. */
#ifndef TEST_UNIT_ROUTE_ROUTING_H
#define TEST_UNIT_ROUTE_ROUTING_H

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "route/router.h"

static inline void handle_nothing(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
}

/* `user` is the pattern, so that a test sees which route was found. */
static inline int add(uvhttp__router_t *router, uvhttp_method_t method, const char *pattern) {
    return uvhttp__group_add(uvhttp__router_root(router), method, pattern, handle_nothing, (void *)pattern, 0, NULL);
}

static inline uvhttp__match_t match(const uvhttp__router_t *router, uvhttp_method_t method, const char *path) {
    uvhttp__match_t result;
    memset(&result, 0xa5, sizeof result);
    uvhttp__router_match(router, method, uvhttp__str_from(path), &result);
    return result;
}

/* "GET /users/:id id=42", "404", "405 GET, HEAD, OPTIONS" or "204 GET, HEAD, OPTIONS"; static storage. */
static inline const char *outcome(const uvhttp__router_t *router, uvhttp_method_t method, const char *path) {
    static char text[4096];
    char allow[UVHTTP__ALLOW_TEXT_MAX];
    uvhttp__match_t result = match(router, method, path);
    size_t allow_size = uvhttp__allow_text(result.allow, allow);
    assert_int_equal(allow_size, strlen(allow));
    assert_non_null(result.chain);
    assert_true((result.route != NULL) == (result.outcome == UVHTTP__MATCH_FOUND));
    int size = 0;
    switch (result.outcome) {
        case UVHTTP__MATCH_NOT_FOUND: assert_int_equal(result.allow, 0); return "404";
        case UVHTTP__MATCH_METHOD_NOT_ALLOWED: snprintf(text, sizeof text, "405 %s", allow); return text;
        case UVHTTP__MATCH_OPTIONS: snprintf(text, sizeof text, "204 %s", allow); return text;
        case UVHTTP__MATCH_FOUND: break;
    }
    const char *name = result.route->method == UVHTTP_ANY ? "ANY" : uvhttp_method_name(result.route->method);
    size = snprintf(text, sizeof text, "%s %s", name, result.route->pattern);
    assert_int_equal(result.param_count, result.route->param_count);
    for (size_t i = 0; i < result.param_count; ++i) {
        uvhttp_str_t param = result.route->param_names[i];
        uvhttp__span_t value = result.params[i];
        size += snprintf(text + size, sizeof text - (size_t)size, " %.*s=%.*s", (int)param.size, param.data,
                         (int)value.size, path + value.offset);
    }
    return text;
}

#endif
