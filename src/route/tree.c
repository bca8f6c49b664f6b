/* Owns: the tree of pattern segments and the search in it. May include: message, base.
 *
 * The cost of a search: a node is entered by its only parent, and its depth fixes the position in the path, because a
 * node matches exactly one segment. So backtracking, which is needed for /users/:id/x and /users/me/y, enters every
 * node at most once: at most min(number of nodes, 2^segments) steps of one binary search each, for any path. The ends
 * of segments are found once for all branches. */
#include "base/alloc.h"
#include "base/hash.h"
#include "base/str.h"
#include "route/router_internal.h"

uvhttp__node_t *uvhttp__node_new(uvhttp_str_t text) {
    uvhttp__node_t *node = uvhttp__malloc(sizeof *node + text.size);
    if (!node) return NULL;
    *node = (uvhttp__node_t){.size = (uint32_t)text.size};
    if (text.size) memcpy(node->text, text.data, text.size);
    return node;
}

void uvhttp__node_free(uvhttp__node_t *node) {
    if (!node) return;
    for (size_t i = 0; i < node->child_capacity; ++i) uvhttp__node_free(node->children[i].node);
    uvhttp__node_free(node->param);
    uvhttp__free(node->children);
    uvhttp__free(node->wildcard);
    uvhttp__free(node->endpoint);
    uvhttp__free(node);
}

static inline bool is_segment(const uvhttp__node_t *node, uvhttp_str_t segment) {
    return node->size == segment.size && (segment.size == 0 || memcmp(node->text, segment.data, segment.size) == 0);
}

/* The slot of the child for a segment, or the free one where it would be. The node must have slots. */
static inline uvhttp__child_t *find_child(const uvhttp__node_t *node, uvhttp_str_t segment, uint64_t hash) {
    size_t mask = node->child_capacity - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        uvhttp__child_t *child = &node->children[at];
        if (!child->node || (child->hash == hash && is_segment(child->node, segment))) return child;
    }
}

/* --- building --- */

static bool grow(uvhttp__node_t *node) {
    uint32_t capacity = node->child_capacity ? 2 * node->child_capacity : 4;
    uvhttp__child_t *old = node->children, *children = uvhttp__calloc(capacity, sizeof *children);
    if (!children) return false;
    uint32_t old_capacity = node->child_capacity;
    node->children = children;
    node->child_capacity = capacity;
    for (size_t i = 0; i < old_capacity; ++i) {
        if (!old[i].node) continue;
        *find_child(node, (uvhttp_str_t){old[i].node->text, old[i].node->size}, old[i].hash) = old[i];
    }
    uvhttp__free(old);
    return true;
}

static uvhttp__node_t *static_child(uvhttp__node_t *node, uvhttp_str_t segment) {
    uint64_t hash = uvhttp__hash(segment.data, segment.size);
    if (node->child_count) {
        uvhttp__child_t *child = find_child(node, segment, hash);
        if (child->node) return child->node;
    }
    if (2 * (node->child_count + 1) > node->child_capacity && !grow(node)) return NULL;
    uvhttp__node_t *made = uvhttp__node_new(segment);
    if (!made) return NULL;
    *find_child(node, segment, hash) = (uvhttp__child_t){hash, made};
    ++node->child_count;
    return made;
}

static uvhttp__node_t *param_child(uvhttp__node_t *node) {
    if (!node->param) node->param = uvhttp__node_new((uvhttp_str_t){NULL, 0});
    return node->param;
}

uvhttp__route_endpoint_t *uvhttp__tree_endpoint(uvhttp__node_t *root, const uvhttp__pattern_t *pattern) {
    uvhttp__node_t *node = root;
    uvhttp__route_endpoint_t **endpoint = NULL;
    for (size_t i = 0; i < pattern->segment_count; ++i) {
        uvhttp_str_t segment = pattern->segments[i];
        if (segment.size && segment.data[0] == '*') { /* the last one */
            endpoint = &node->wildcard;
            break;
        }
        node = uvhttp__segment_is_dynamic(segment) ? param_child(node) : static_child(node, segment);
        if (!node) return NULL;
        endpoint = &node->endpoint;
    }
    assert(endpoint);
    if (!*endpoint) *endpoint = uvhttp__calloc(1, sizeof **endpoint);
    return *endpoint;
}

void uvhttp__tree_each(uvhttp__node_t *node, void (*visit)(uvhttp__route_endpoint_t *endpoint, void *user),
                       void *user) {
    if (node->endpoint) visit(node->endpoint, user);
    if (node->wildcard) visit(node->wildcard, user);
    if (node->param) uvhttp__tree_each(node->param, visit, user);
    for (size_t i = 0; i < node->child_capacity; ++i)
        if (node->children[i].node) uvhttp__tree_each(node->children[i].node, visit, user);
}

/* --- searching --- */

typedef struct segment {
    uint32_t end; /* offset of the '/' behind it, or the size of the path */
    uint64_t hash;
} segment_t;

typedef struct search {
    uvhttp_str_t path;
    unsigned method_slot;
    uint32_t known; /* how many of segments are filled in */
    uvhttp__match_t *match;
    segment_t segments[UVHTTP__ROUTE_SEGMENT_MAX + 1]; /* of the path */
} search_t;

/* Segments are short: a call of memchr would cost more than the search. */
static inline size_t find_slash(const char *text, size_t at, size_t size) {
    size_t near = size - at > 16 ? at + 16 : size;
    for (; at < near; ++at)
        if (text[at] == '/') return at;
    const char *slash = at < size ? memchr(text + at, '/', size - at) : NULL;
    return slash ? (size_t)(slash - text) : size;
}

static inline const segment_t *get_segment(search_t *search, uint32_t depth, uint32_t begin) {
    segment_t *segment = &search->segments[depth];
    if (depth == search->known) {
        size_t end = find_slash(search->path.data, begin, search->path.size);
        *segment = (segment_t){(uint32_t)end, uvhttp__hash(search->path.data + begin, end - begin)};
        ++search->known;
    }
    return segment;
}

static const uvhttp_route_t *take(search_t *search, const uvhttp__route_endpoint_t *endpoint) {
    if (!endpoint) return NULL;
    const uvhttp_route_t *route = endpoint->by_method[search->method_slot];
    if (!route) {
        search->match->allow |= endpoint->allow;
        if (!search->match->chain) search->match->chain = endpoint->chain;
    }
    return route;
}

/* Below `node`, for the path from `begin` on, which is the segment number `depth`. */
static const uvhttp_route_t *walk(search_t *search, const uvhttp__node_t *node, uint32_t depth, uint32_t begin) {
    if (!node->child_count && !node->param && !node->wildcard) return NULL;
    uvhttp__match_t *match = search->match;
    const segment_t *segment = get_segment(search, depth, begin);
    uint32_t end = segment->end;
    bool last = end == search->path.size;
    const uvhttp_route_t *route = NULL;
    if (node->child_count) {
        uvhttp_str_t text = {search->path.data + begin, end - begin};
        const uvhttp__node_t *child = find_child(node, text, segment->hash)->node;
        if (child) {
            route = last ? take(search, child->endpoint) : walk(search, child, depth + 1, end + 1);
            if (route) return route;
        }
    }
    if (node->param && end > begin) {
        match->params[match->param_count++] = (uvhttp__span_t){begin, end - begin};
        route = last ? take(search, node->param->endpoint) : walk(search, node->param, depth + 1, end + 1);
        if (route) return route;
        --match->param_count;
    }
    route = take(search, node->wildcard);
    if (route) match->params[match->param_count++] = (uvhttp__span_t){begin, (uint32_t)search->path.size - begin};
    return route;
}

const uvhttp_route_t *uvhttp__tree_match(const uvhttp__node_t *root, uvhttp_method_t method, uvhttp_str_t path,
                                         uvhttp__match_t *match) {
    search_t search; /* `segments` is written before it is read: not cleared */
    search.path = path;
    search.method_slot = uvhttp__method_slot(method);
    search.known = 0;
    search.match = match;
    return walk(&search, root, 0, 1);
}
