/* Owns: a frozen router: the tables that matching reads, and matching. May include: message, base. */
#include "base/alloc.h"
#include "base/hash.h"
#include "base/hot_path.h"
#include "base/load.h"
#include "base/str.h"
#include "route/router_internal.h"

#define KNOWN_METHODS ((1u << UVHTTP__METHOD_KNOWN) - 1)

/* --- freezing --- */

void uvhttp__router_thaw(uvhttp__router_t *router) {
    for (uvhttp_group_t *group = router->groups; group; group = group->next) {
        uvhttp__free(group->chain);
        group->chain = NULL;
    }
    for (uvhttp__route_entry_t *entry = router->routes; entry; entry = entry->next) {
        uvhttp__free(entry->own_chain);
        entry->own_chain = NULL;
    }
    uvhttp__free(router->exact);
    router->exact = NULL;
}

/* `before` (or NULL), then `list`. */
static uvhttp__chain_t *join(const uvhttp__chain_t *before, const uvhttp__middleware_list_t *list) {
    size_t count = before ? before->count : 0;
    uvhttp__chain_t *chain = uvhttp__malloc(sizeof *chain + (count + list->count) * sizeof *chain->items);
    if (!chain) return NULL;
    chain->count = count + list->count;
    if (count) memcpy(chain->items, before->items, count * sizeof *chain->items);
    if (list->count) memcpy(chain->items + count, list->items, list->count * sizeof *chain->items);
    chain->head_count = 0;
    while (chain->head_count < chain->count && !chain->items[chain->head_count].needs_body) chain->head_count++;
    return chain;
}

static int make_chains(uvhttp__router_t *router) {
    for (uvhttp_group_t *group = router->groups; group; group = group->next) {
        group->chain = join(group->parent ? group->parent->chain : NULL, &group->middleware);
        if (!group->chain) return UVHTTP_E_NOMEM;
    }
    for (uvhttp__route_entry_t *entry = router->routes; entry; entry = entry->next) {
        entry->route.chain = entry->group->chain;
        if (entry->middleware.count == 0) continue;
        entry->route.chain = entry->own_chain = join(entry->group->chain, &entry->middleware);
        if (!entry->own_chain) return UVHTTP_E_NOMEM;
    }
    return 0;
}

/* Fields of *own that are 0 get the values of *outer. */
static void inherit(uvhttp_route_options_t *own, const uvhttp_route_options_t *outer) {
    own->stream_body = own->stream_body || outer->stream_body;
    own->live_body = own->live_body || outer->live_body;
    if (own->body_size_max == 0) own->body_size_max = outer->body_size_max;
    if (own->body_timeout == 0) own->body_timeout = outer->body_timeout;
    if (own->response_timeout_ms == 0) own->response_timeout_ms = outer->response_timeout_ms;
    if (own->exec == UVHTTP_EXEC_DEFAULT) own->exec = outer->exec;
}

/* Outer groups come before inner ones in the list. A handler of the library has no use for options. */
static void inherit_options(uvhttp__router_t *router) {
    for (uvhttp_group_t *group = router->groups; group; group = group->next)
        if (group->parent) inherit(&group->defaults, &group->parent->defaults);
    for (uvhttp__route_entry_t *entry = router->routes; entry; entry = entry->next) {
        uvhttp_route_t *route = &entry->route;
        if (route->exec == UVHTTP__EXEC_FIXED) continue;
        if (route->options.exec == UVHTTP_EXEC_DEFAULT) route->options.exec = (uvhttp_exec_t)route->exec;
        inherit(&route->options, &entry->group->defaults);
        if (route->options.exec == UVHTTP_EXEC_DEFAULT) route->options.exec = UVHTTP_EXEC_LOOP;
        if (route->options.response_timeout_ms == UVHTTP_NEVER) route->options.response_timeout_ms = 0;
    }
}

#define PATH_IN_KEY_MAX 16

static inline uvhttp__path_key_t key_of(uvhttp_str_t path) {
    const char *p = path.data;
    size_t size = path.size;
    if (size >= 8 && size <= PATH_IN_KEY_MAX)
        return (uvhttp__path_key_t){{uvhttp__load64(p), uvhttp__load64(p + size - 8)}, size};
    if (size > PATH_IN_KEY_MAX) return (uvhttp__path_key_t){{uvhttp__hash(p, size), 0}, size};
    if (size >= 4) return (uvhttp__path_key_t){{uvhttp__load32(p), uvhttp__load32(p + size - 4)}, size};
    if (size == 0) return (uvhttp__path_key_t){{0, 0}, 0};
    return (uvhttp__path_key_t){
        {(unsigned char)p[0], (uint64_t)(unsigned char)p[size / 2] << 8 | (unsigned char)p[size - 1]}, size};
}

/* Odd constants with many bits; what matters is the upper half. The keys in the table are the application's: nobody can
 * prepare collisions. */
static inline size_t slot_of(uvhttp__path_key_t key, size_t mask) {
    uint64_t mixed = (key.words[0] ^ key.size) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 32 ^ key.words[1]) * UINT64_C(0xd6e8feb86659fd93);
    return (size_t)(mixed >> 32) & mask;
}

static inline bool same_path(const uvhttp__exact_t *slot, uvhttp__path_key_t key, const char *path) {
    if (slot->key.words[0] != key.words[0] || slot->key.words[1] != key.words[1] || slot->key.size != key.size)
        return false;
    return key.size <= PATH_IN_KEY_MAX || memcmp(slot->path, path, key.size) == 0;
}

static void add_exact(uvhttp__route_endpoint_t *endpoint, void *user) {
    uvhttp__router_t *router = user;
    /* An endpoint without a route is left by a registration that ran out of memory. */
    if (!endpoint->first || endpoint->first->route.param_count) return;
    uvhttp_str_t path = uvhttp__str_from(endpoint->first->pattern);
    uvhttp__path_key_t key = key_of(path);
    size_t at = slot_of(key, router->exact_mask);
    while (router->exact[at].endpoint) at = (at + 1) & router->exact_mask;
    router->exact[at] = (uvhttp__exact_t){key, path.data, endpoint};
}

/* What a method without a route of its own gets, and what Allow says. */
static void resolve(uvhttp__route_endpoint_t *endpoint, void *user) {
    (void)user;
    if (!endpoint->first) return;
    const uvhttp_route_t **by_method = endpoint->by_method;
    if (!by_method[UVHTTP_HEAD]) by_method[UVHTTP_HEAD] = by_method[UVHTTP_GET];
    for (unsigned slot = 0; slot < UVHTTP__METHOD_SLOTS; ++slot)
        if (!by_method[slot]) by_method[slot] = by_method[uvhttp__method_slot(UVHTTP_ANY)];
    for (unsigned method = 0; method < UVHTTP__METHOD_KNOWN; ++method)
        if (by_method[method]) endpoint->allow |= 1u << method;
    endpoint->allow |= 1u << UVHTTP_OPTIONS;
    endpoint->chain = endpoint->first->group->chain;
}

int uvhttp__router_freeze(uvhttp__router_t *router) {
    if (router->error != 0) return router->error;
    if (router->frozen) return 0;
    int status = make_chains(router);
    if (status == 0 && router->exact_count) {
        size_t capacity = 2;
        while (capacity < 2 * router->exact_count) capacity *= 2;
        router->exact = uvhttp__calloc(capacity, sizeof *router->exact);
        router->exact_mask = capacity - 1;
        if (!router->exact) status = UVHTTP_E_NOMEM;
    }
    if (status != 0) {
        uvhttp__router_thaw(router);
        return status;
    }
    inherit_options(router);
    if (router->exact) uvhttp__tree_each(router->root, add_exact, router);
    uvhttp__tree_each(router->root, resolve, NULL);
    if (router->methods & 1u << uvhttp__method_slot(UVHTTP_ANY))
        router->methods |= KNOWN_METHODS & ~(1u << UVHTTP_CONNECT);
    if (router->methods & 1u << UVHTTP_GET) router->methods |= 1u << UVHTTP_HEAD;
    router->methods |= 1u << UVHTTP_OPTIONS;
    router->frozen = true;
    return 0;
}

/* --- matching --- */

const uvhttp__chain_t *uvhttp__router_root_chain(const uvhttp__router_t *router) {
    return router->groups->chain;
}

static inline const uvhttp__route_endpoint_t *find_exact(const uvhttp__router_t *router, uvhttp_str_t path) {
    if (!router->exact) return NULL;
    uvhttp__path_key_t key = key_of(path);
    for (size_t at = slot_of(key, router->exact_mask);; at = (at + 1) & router->exact_mask) {
        const uvhttp__exact_t *slot = &router->exact[at];
        if (!slot->endpoint || same_path(slot, key, path.data)) return slot->endpoint;
    }
}

static inline void found(uvhttp__match_t *match, const uvhttp_route_t *route) {
    match->outcome = UVHTTP__MATCH_FOUND;
    match->allow = 0;
    match->route = route;
    match->chain = route->chain;
}

static void not_found(const uvhttp__router_t *router, uvhttp__match_t *match) {
    match->outcome = UVHTTP__MATCH_NOT_FOUND;
    match->allow = 0;
    match->route = NULL;
    match->chain = router->groups->chain;
    match->param_count = 0;
}

static void search(const uvhttp__router_t *router, uvhttp_method_t method, uvhttp_str_t path, uvhttp__match_t *match) {
    match->allow = 0;
    match->chain = NULL;
    const uvhttp_route_t *route = uvhttp__tree_match(router->root, method, path, match);
    if (route) {
        found(match, route);
    } else if (match->allow) {
        match->outcome = method == UVHTTP_OPTIONS ? UVHTTP__MATCH_OPTIONS : UVHTTP__MATCH_METHOD_NOT_ALLOWED;
        match->route = NULL;
    } else {
        not_found(router, match);
    }
}

void uvhttp__router_match(const uvhttp__router_t *router, uvhttp_method_t method, uvhttp_str_t path,
                          uvhttp__match_t *match) {
    assert(router->frozen && method != UVHTTP_ANY);
    match->param_count = 0;
    /* A pattern without parameters is the best that there can be for its path. */
    const uvhttp__route_endpoint_t *endpoint = find_exact(router, path);
    const uvhttp_route_t *exact = endpoint ? endpoint->by_method[uvhttp__method_slot(method)] : NULL;
    if (__builtin_expect(exact != NULL, 1)) {
        found(match, exact);
    } else if (path.size && path.data[0] == '/') {
        if (endpoint || router->dynamic_count)
            search(router, method, path, match);
        else
            not_found(router, match);
    } else {
        not_found(router, match);
        if (path.size == 1 && path.data[0] == '*' && method == UVHTTP_OPTIONS) {
            match->outcome = UVHTTP__MATCH_OPTIONS;
            match->allow = router->methods & KNOWN_METHODS;
        }
    }
}

static NOINLINE const uvhttp_route_t *find_long(const uvhttp__router_t *router, uvhttp_str_t path, uint8_t method) {
    const uvhttp__route_endpoint_t *endpoint = find_exact(router, path);
    return endpoint ? endpoint->by_method[uvhttp__method_slot(method)] : NULL;
}

UVHTTP__HOT const uvhttp_route_t *uvhttp__router_find(const uvhttp__router_t *router, const uvhttp_request_t *req) {
    assert(router->frozen);
    uvhttp_str_t path = uvhttp__span_str(req->base, req->head.path);
    if (UNLIKELY(!req->head.path_plain || !router->exact)) return NULL;
    if (path.size > PATH_IN_KEY_MAX) return find_long(router, path, req->head.method);
    uvhttp__path_key_t key = key_of(path);
    for (size_t at = slot_of(key, router->exact_mask);; at = (at + 1) & router->exact_mask) {
        const uvhttp__exact_t *slot = &router->exact[at];
        if (UNLIKELY(!slot->endpoint)) return NULL;
        if (LIKELY(slot->key.words[0] == key.words[0] && slot->key.words[1] == key.words[1] &&
                   slot->key.size == key.size))
            return slot->endpoint->by_method[uvhttp__method_slot(req->head.method)];
    }
}

int uvhttp__router_route(const uvhttp__router_t *router, uvhttp_request_t *req, uvhttp__match_t *match) {
    int status = uvhttp__request_decode_path(req);
    if (status == 0) {
        uvhttp__router_match(router, uvhttp_request_method(req), uvhttp_request_path(req), match);
        if (match->param_count == 0) return 0;
        assert(match->route); /* which the parameters are of */
        status = uvhttp__request_set_params(req, match->route->param_names, match->params, match->param_count);
    }
    if (status != 0) not_found(router, match);
    return status;
}

size_t uvhttp__allow_text(uint32_t allow, char text[UVHTTP__ALLOW_TEXT_MAX]) {
    size_t size = 0;
    for (unsigned method = 0; method < UVHTTP__METHOD_KNOWN; ++method) {
        if (!(allow & 1u << method)) continue;
        if (size) {
            memcpy(text + size, ", ", 2);
            size += 2;
        }
        uvhttp_str_t name = uvhttp__str_from(uvhttp_method_name((uvhttp_method_t)method));
        memcpy(text + size, name.data, name.size);
        size += name.size;
    }
    text[size] = '\0';
    assert(size < UVHTTP__ALLOW_TEXT_MAX);
    return size;
}

/* --- running --- */

uvhttp_flow_t uvhttp__middleware_cursor_run_until(uvhttp__middleware_cursor_t *cursor, size_t end,
                                                  uvhttp_request_t *req, uvhttp_response_t *res) {
    while (cursor->next < end) {
        const uvhttp_middleware_t *middleware = &cursor->chain->items[cursor->next++];
        if (middleware->run(req, res, middleware->user) == UVHTTP_STOP) return UVHTTP_STOP;
    }
    return UVHTTP_NEXT;
}
