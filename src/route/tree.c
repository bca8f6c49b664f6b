/* Owns: the tree of pattern segments and the search in it. May include: message, base.
 *
 * What a search costs: a node is entered by its only parent, and where in the path that happens is fixed by its depth,
 * because a node takes exactly one segment. So backtracking, which is needed for /users/:id/x beside /users/me/y,
 * enters every node at most once: at most min(number of nodes, 2^segments) steps of one binary search each, whatever
 * the path. The ends of segments are found once for all branches. */
#include "base/alloc.h"
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
    for (size_t i = 0; i < node->child_count; ++i) uvhttp__node_free(node->children[i]);
    uvhttp__node_free(node->param);
    uvhttp__free(node->children);
    uvhttp__free(node->wildcard);
    uvhttp__free(node->endpoint);
    uvhttp__free(node);
}

static int compare(const uvhttp__node_t *node, uvhttp_str_t segment) {
    if (node->size != segment.size) return node->size < segment.size ? -1 : 1;
    return segment.size ? memcmp(node->text, segment.data, segment.size) : 0;
}

/* Where the child for a segment is, or would be. */
static inline uint32_t find_child(const uvhttp__node_t *node, uvhttp_str_t segment, bool *found) {
    uint32_t low = 0, high = node->child_count;
    *found = false;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        int order = compare(node->children[middle], segment);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- building --- */

static uvhttp__node_t *static_child(uvhttp__node_t *node, uvhttp_str_t segment) {
    bool found;
    uint32_t at = find_child(node, segment, &found);
    if (found) return node->children[at];
    if (node->child_count == node->child_capacity) {
        uint32_t capacity = node->child_capacity ? 2 * node->child_capacity : 2;
        uvhttp__node_t **children = uvhttp__realloc(node->children, capacity * sizeof(uvhttp__node_t *));
        if (!children) return NULL;
        node->children = children;
        node->child_capacity = capacity;
    }
    uvhttp__node_t *child = uvhttp__node_new(segment);
    if (!child) return NULL;
    memmove(node->children + at + 1, node->children + at, (node->child_count - at) * sizeof(uvhttp__node_t *));
    node->children[at] = child;
    ++node->child_count;
    return child;
}

static uvhttp__node_t *param_child(uvhttp__node_t *node) {
    if (!node->param) node->param = uvhttp__node_new((uvhttp_str_t){NULL, 0});
    return node->param;
}

uvhttp__endpoint_t *uvhttp__tree_endpoint(uvhttp__node_t *root, const uvhttp__pattern_t *pattern) {
    uvhttp__node_t *node = root;
    uvhttp__endpoint_t **endpoint = NULL;
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

void uvhttp__tree_each(uvhttp__node_t *node, void (*visit)(uvhttp__endpoint_t *endpoint, void *user), void *user) {
    if (node->endpoint) visit(node->endpoint, user);
    if (node->wildcard) visit(node->wildcard, user);
    if (node->param) uvhttp__tree_each(node->param, visit, user);
    for (size_t i = 0; i < node->child_count; ++i) uvhttp__tree_each(node->children[i], visit, user);
}

/* --- searching --- */

typedef struct search {
    uvhttp_str_t path;
    uvhttp_method_t method;
    uint32_t known; /* how many of ends are */
    uvhttp__match_t *match;
    uint32_t
        ends[UVHTTP__ROUTE_SEGMENT_MAX + 1]; /* of the segments of the path: offset of the '/' behind, or path.size */
} search_t;

static uint32_t segment_end(search_t *search, uint32_t depth, uint32_t begin) {
    if (depth == search->known) {
        const char *slash = memchr(search->path.data + begin, '/', search->path.size - begin);
        search->ends[depth] = (uint32_t)(slash ? (size_t)(slash - search->path.data) : search->path.size);
        ++search->known;
    }
    return search->ends[depth];
}

static const uvhttp__route_t *take(search_t *search, const uvhttp__endpoint_t *endpoint) {
    if (!endpoint) return NULL;
    const uvhttp__route_t *route = endpoint->by_method[search->method];
    if (!route) {
        search->match->allow |= endpoint->allow;
        if (!search->match->chain) search->match->chain = endpoint->chain;
    }
    return route;
}

/* Below `node`, for the path from `begin` on, which is the segment number `depth`. */
static const uvhttp__route_t *walk(search_t *search, const uvhttp__node_t *node, uint32_t depth, uint32_t begin) {
    if (!node->child_count && !node->param && !node->wildcard) return NULL;
    uvhttp__match_t *match = search->match;
    uint32_t end = segment_end(search, depth, begin);
    bool last = end == search->path.size, found = false;
    const uvhttp__route_t *route = NULL;
    if (node->child_count) {
        uint32_t at = find_child(node, (uvhttp_str_t){search->path.data + begin, end - begin}, &found);
        if (found) {
            const uvhttp__node_t *child = node->children[at];
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

const uvhttp__route_t *uvhttp__tree_match(const uvhttp__node_t *root, uvhttp_method_t method, uvhttp_str_t path,
                                          uvhttp__match_t *match) {
    search_t search; /* `ends` is written before it is read: not cleared */
    search.path = path;
    search.method = method;
    search.known = 0;
    search.match = match;
    return walk(&search, root, 0, 1);
}
