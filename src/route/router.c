/* Owns: registration of groups, routes and middleware, and its errors. May include: message, base. */
#include "route/router.h"
#include "base/sized.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/str.h"
#include "route/router_internal.h"

#define TOO_LATE "registered after the server has started to listen"

/* Keeps the first failure; returns the code. */
UVHTTP_PRINTF(3, 4) static int remember(uvhttp__router_t *router, int code, const char *format, ...) {
    if (router->error != 0) return code;
    router->error = code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(router->error_text, sizeof router->error_text, format, arguments);
    va_end(arguments);
    return code;
}

static int out_of_memory(uvhttp__router_t *router) {
    return remember(router, UVHTTP_E_NOMEM, "%s", uvhttp_error_message(UVHTTP_E_NOMEM));
}

static const char *method_text(unsigned method) {
    return method == UVHTTP_ANY ? "ANY" : uvhttp_method_name((uvhttp_method_t)method);
}

/* --- life --- */

static uvhttp_group_t *group_alloc(uvhttp__router_t *router, uvhttp_group_t *parent, uvhttp_str_t before,
                                   uvhttp_str_t prefix) {
    uvhttp_group_t *group = uvhttp__malloc(sizeof *group + before.size + prefix.size + 1);
    if (!group) return NULL;
    *group = (uvhttp_group_t){.router = router, .parent = parent, .prefix_size = before.size + prefix.size};
    if (before.size) memcpy(group->prefix, before.data, before.size);
    if (prefix.size) memcpy(group->prefix + before.size, prefix.data, prefix.size);
    group->prefix[group->prefix_size] = '\0';
    return group;
}

static void group_link(uvhttp__router_t *router, uvhttp_group_t *group) {
    *router->groups_last = group;
    router->groups_last = &group->next;
}

uvhttp__router_t *uvhttp__router_new(void) {
    uvhttp__router_t *router = uvhttp__calloc(1, sizeof *router);
    if (!router) return NULL;
    router->groups_last = &router->groups;
    router->routes_last = &router->routes;
    router->root = uvhttp__node_new((uvhttp_str_t){NULL, 0});
    const uvhttp_str_t none = {NULL, 0};
    router->dead = group_alloc(router, NULL, none, none);
    uvhttp_group_t *root = group_alloc(router, NULL, none, none);
    if (root) group_link(router, root);
    if (!router->root || !router->dead || !root) {
        uvhttp__router_free(router);
        return NULL;
    }
    return router;
}

static void destroy_middleware(uvhttp__middleware_list_t *list) {
    for (size_t i = 0; i < list->count; ++i)
        if (list->items[i].destroy) list->items[i].destroy(list->items[i].user);
    uvhttp__free(list->items);
}

static void entry_free(uvhttp__route_entry_t *entry) {
    destroy_middleware(&entry->middleware);
    uvhttp__free(entry->pattern);
    uvhttp__free(entry);
}

void uvhttp__router_free(uvhttp__router_t *router) {
    if (!router) return;
    uvhttp__router_thaw(router);
    while (router->routes) {
        uvhttp__route_entry_t *entry = router->routes;
        router->routes = entry->next;
        entry_free(entry);
    }
    while (router->groups) {
        uvhttp_group_t *group = router->groups;
        router->groups = group->next;
        destroy_middleware(&group->middleware);
        uvhttp__free(group);
    }
    uvhttp__free(router->dead);
    uvhttp__node_free(router->root);
    uvhttp__free(router);
}

static void reload_middleware(const uvhttp__middleware_list_t *list) {
    for (size_t i = 0; i < list->count; ++i)
        if (list->items[i].reload) list->items[i].reload(list->items[i].user);
}

void uvhttp__router_reload(const uvhttp__router_t *router) {
    for (const uvhttp_group_t *group = router->groups; group; group = group->next)
        reload_middleware(&group->middleware);
    for (const uvhttp__route_entry_t *entry = router->routes; entry; entry = entry->next)
        reload_middleware(&entry->middleware);
}

void uvhttp__router_set_owner(uvhttp__router_t *router, void *owner) {
    router->owner = owner;
}

void *uvhttp__router_owner(const uvhttp__router_t *router) {
    return router->owner;
}

uvhttp_group_t *uvhttp__router_root(uvhttp__router_t *router) {
    return router->groups;
}

uvhttp_str_t uvhttp__group_prefix(const uvhttp_group_t *group) {
    return (uvhttp_str_t){group->prefix, group->prefix_size};
}

int uvhttp__router_fail(uvhttp__router_t *router, int code, const char *text) {
    return remember(router, code, "%s", text);
}

int uvhttp__router_error(const uvhttp__router_t *router, const char **text) {
    if (text) *text = router->error_text;
    return router->error;
}

/* --- groups and routes --- */

/* Whether the whole prefix of a group can be the start of patterns: checked now, so that an error names the group and
 * not its first route. */
static const char *check_prefix(const uvhttp_group_t *group, uvhttp__pattern_t *pattern) {
    uvhttp_str_t prefix = {group->prefix, group->prefix_size};
    const char *reason = NULL;
    if (prefix.size == 0 || uvhttp__pattern_parse(prefix, pattern, &reason) != 0) return reason;
    if (memchr(prefix.data, '%', prefix.size)) return "a prefix has no percent escapes";
    uvhttp_str_t segment = pattern->segments[pattern->segment_count - 1];
    return segment.size && segment.data[0] == '*' ? "a prefix has no wildcard" : NULL;
}

uvhttp_group_t *uvhttp__group_new(uvhttp_group_t *parent, const char *prefix_text) {
    if (!parent) return NULL;
    uvhttp__router_t *router = parent->router;
    if (parent == router->dead) return parent;
    if (!prefix_text) prefix_text = "";
    uvhttp_str_t prefix = uvhttp__str_from(prefix_text);
    int status = UVHTTP_E_ROUTE_PATTERN;
    const char *reason = NULL;
    uvhttp__pattern_t pattern;
    uvhttp_group_t *group = NULL;
    if (router->frozen) {
        status = UVHTTP_E_STATE;
        reason = TOO_LATE;
    } else if (prefix.size && prefix.data[0] != '/') {
        reason = "a prefix begins with '/'";
    } else {
        if (prefix.size && prefix.data[prefix.size - 1] == '/') --prefix.size;
        group = group_alloc(router, parent, (uvhttp_str_t){parent->prefix, parent->prefix_size}, prefix);
        if (!group) {
            out_of_memory(router);
            return router->dead;
        }
        reason = check_prefix(group, &pattern);
    }
    if (reason) {
        remember(router, status, "group %s%s: %s", parent->prefix, prefix_text, reason);
        uvhttp__free(group);
        return router->dead;
    }
    group_link(router, group);
    return group;
}

/* Makes the entry of a route with its whole pattern taken apart; not linked yet. *entry: NULL on failure. */
static int entry_new(uvhttp_group_t *group, uvhttp_method_t method, const char *text, uvhttp__pattern_t *pattern,
                     uvhttp__route_entry_t **entry) {
    *entry = NULL;
    size_t size = strlen(text), whole = group->prefix_size + size;
    const char *reason = NULL;
    if (size && text[0] != '/') reason = "a pattern begins with '/'";
    if (whole > UVHTTP__ROUTE_PATTERN_SIZE_MAX) reason = "too long";
    if (reason)
        return remember(group->router, UVHTTP_E_ROUTE_PATTERN, "%s %s%s: %s", method_text(method), group->prefix, text,
                        reason);
    char *copy = uvhttp__malloc(whole + 1);
    if (!copy) return out_of_memory(group->router);
    memcpy(copy, group->prefix, group->prefix_size);
    memcpy(copy + group->prefix_size, text, size + 1);
    int status = uvhttp__pattern_parse((uvhttp_str_t){copy, whole}, pattern, &reason);
    if (status != 0) {
        remember(group->router, status, "%s %s: %s", method_text(method), copy, reason);
        uvhttp__free(copy);
        return status;
    }
    (void)uvhttp__pattern_decode(copy, whole, pattern);
    uvhttp__route_entry_t *made = uvhttp__calloc(1, sizeof *made + pattern->param_count * sizeof *made->param_names);
    if (!made) {
        uvhttp__free(copy);
        return out_of_memory(group->router);
    }
    made->pattern = copy;
    made->group = group;
    *entry = made;
    return 0;
}

static void fill_route(uvhttp__route_entry_t *entry, const uvhttp__pattern_t *pattern) {
    size_t count = 0;
    for (size_t i = 0; i < pattern->segment_count; ++i) {
        uvhttp_str_t segment = pattern->segments[i];
        if (uvhttp__segment_is_dynamic(segment))
            entry->param_names[count++] = (uvhttp_str_t){segment.data + 1, segment.size - 1};
    }
    entry->route.pattern = entry->pattern;
    entry->route.param_names = entry->param_names;
    entry->route.param_count = (uint8_t)count;
}

/* Puts the route into the tree and into the list. */
static int link_route(uvhttp__router_t *router, uvhttp__route_entry_t *entry, const uvhttp__pattern_t *pattern) {
    unsigned method = entry->route.method, slot = uvhttp__method_slot(method);
    uvhttp__route_endpoint_t *endpoint = uvhttp__tree_endpoint(router->root, pattern);
    if (!endpoint) return out_of_memory(router);
    const uvhttp_route_t *other = endpoint->by_method[slot];
    if (other)
        return remember(router, UVHTTP_E_ROUTE_CONFLICT, "%s %s conflicts with %s %s (registered first)",
                        method_text(method), entry->pattern, method_text(method), other->pattern);
    endpoint->by_method[slot] = &entry->route;
    if (!endpoint->first) {
        endpoint->first = entry;
        if (pattern->param_count)
            ++router->dynamic_count;
        else
            ++router->exact_count;
    }
    router->methods |= 1u << slot;
    *router->routes_last = entry;
    router->routes_last = &entry->next;
    return 0;
}

int uvhttp__group_add(uvhttp_group_t *group, uvhttp_method_t method, const char *pattern_text,
                      uvhttp_handler_cb handler, void *user, uint8_t exec, uvhttp_route_t **route) {
    if (route) *route = NULL;
    if (!group) return UVHTTP_E_INVALID;
    uvhttp__router_t *router = group->router;
    if (group == router->dead) return UVHTTP_E_INVALID;
    const char *shown = pattern_text ? pattern_text : "(null)";
    if (router->frozen) return remember(router, UVHTTP_E_STATE, "%s%s: %s", group->prefix, shown, TOO_LATE);
    bool known = (unsigned)method < UVHTTP__METHOD_KNOWN || method == UVHTTP_ANY;
    if (!known || !pattern_text || !handler)
        return remember(router, UVHTTP_E_INVALID, "%s%s: %s", group->prefix, shown,
                        !known ? "a route is for a known method or UVHTTP_ANY" : "pattern or handler is NULL");
    uvhttp__pattern_t pattern;
    uvhttp__route_entry_t *entry;
    int status = entry_new(group, method, pattern_text, &pattern, &entry);
    if (status != 0) return status;
    assert(entry);
    entry->route.handler = handler;
    entry->route.user = user;
    entry->route.method = (uint8_t)method;
    entry->route.exec = exec;
    fill_route(entry, &pattern);
    status = link_route(router, entry, &pattern);
    if (status != 0) {
        entry_free(entry);
        return status;
    }
    if (route) *route = &entry->route;
    return 0;
}

uvhttp__router_t *uvhttp__group_router(const uvhttp_group_t *group) {
    return group->router;
}

static uvhttp__route_entry_t *entry_of(const uvhttp_route_t *route) {
    return UVHTTP__CONTAINER_OF(route, uvhttp__route_entry_t, route);
}

uvhttp__router_t *uvhttp__route_router(const uvhttp_route_t *route) {
    return entry_of(route)->group->router;
}

int uvhttp__router_each_route(uvhttp__router_t *router, int (*visit)(uvhttp_route_t *route)) {
    int status = 0;
    for (uvhttp__route_entry_t *entry = router->routes; entry && status == 0; entry = entry->next)
        status = visit(&entry->route);
    return status;
}

/* --- middleware --- */

static int reject(uvhttp_middleware_t middleware, int status) {
    if (middleware.destroy) middleware.destroy(middleware.user);
    return status;
}

static int use(uvhttp__router_t *router, uvhttp__middleware_list_t *list, uvhttp_middleware_t middleware) {
    if (router->frozen) return reject(middleware, remember(router, UVHTTP_E_STATE, "middleware: %s", TOO_LATE));
    if (!middleware.run)
        return reject(middleware, remember(router, UVHTTP_E_INVALID, "middleware: it has no run function"));
    if (!UVHTTP__RESERVED_UNUSED(&middleware))
        return reject(middleware, remember(router, UVHTTP_E_UNSUPPORTED, "middleware: " UVHTTP__SIZED_NEWER));
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4;
        uvhttp_middleware_t *items = uvhttp__realloc(list->items, capacity * sizeof *items);
        if (!items) return reject(middleware, out_of_memory(router));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = middleware;
    return 0;
}

int uvhttp__group_use(uvhttp_group_t *group, uvhttp_middleware_t middleware) {
    if (!group || group == group->router->dead) return reject(middleware, UVHTTP_E_INVALID);
    return use(group->router, &group->middleware, middleware);
}

int uvhttp__route_use(uvhttp_route_t *route, uvhttp_middleware_t middleware) {
    if (!route) return reject(middleware, UVHTTP_E_INVALID);
    return use(uvhttp__route_router(route), &entry_of(route)->middleware, middleware);
}

/* --- options --- */

#define RESPONSE_TIMEOUT_MS_MAX 604800000u /* a week */

/* subject: "GET /users", what the options are for. */
static int check_options(uvhttp__router_t *router, const char *subject, const uvhttp_route_options_t *options) {
    if (router->frozen) return remember(router, UVHTTP_E_STATE, "%s: options: %s", subject, TOO_LATE);
    if (!options->stream_body && options->body_size_max > UINT64_C(1) << 62)
        return remember(router, UVHTTP_E_INVALID,
                        "%s: body_size_max is %llu: give at most 2^62, or 0 for that of the server", subject,
                        (unsigned long long)options->body_size_max);
    if (options->response_timeout_ms > RESPONSE_TIMEOUT_MS_MAX && options->response_timeout_ms != UVHTTP_NEVER)
        return remember(router, UVHTTP_E_INVALID, "%s: response_timeout_ms is %u: give 1 to %u, or UVHTTP_NEVER",
                        subject, options->response_timeout_ms, RESPONSE_TIMEOUT_MS_MAX);
    if (options->live_body && !options->stream_body)
        return remember(router, UVHTTP_E_INVALID, "%s: live_body: it needs stream_body", subject);
    return 0;
}

static const uvhttp_route_options_t no_options;

int uvhttp__route_set_options(uvhttp_route_t *route, const uvhttp_route_options_t *options) {
    if (!route) return UVHTTP_E_INVALID;
    if (!options) options = &no_options;
    char subject[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 16];
    snprintf(subject, sizeof subject, "%s %s", method_text(route->method), route->pattern);
    int status = check_options(uvhttp__route_router(route), subject, options);
    if (status == 0) route->options = *options;
    return status;
}

int uvhttp__group_set_defaults(uvhttp_group_t *group, const uvhttp_route_options_t *defaults) {
    if (!group || group == group->router->dead) return UVHTTP_E_INVALID;
    if (!defaults) defaults = &no_options;
    char subject[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 16];
    snprintf(subject, sizeof subject, "group %s", group->prefix);
    int status = check_options(group->router, subject, defaults);
    if (status == 0) group->defaults = *defaults;
    return status;
}
