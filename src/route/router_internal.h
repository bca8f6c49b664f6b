/* Owns: the router's own structures. Private to src/route. May include: message, base. */
#ifndef UVHTTP_SRC_ROUTE_ROUTER_INTERNAL_H
#define UVHTTP_SRC_ROUTE_ROUTER_INTERNAL_H

#include "base/method.h"
#include "route/router.h"

#define UVHTTP__ROUTER_ERROR_SIZE 512 /* bytes of the error text, cut if longer */

typedef struct uvhttp__middleware_list {
    uvhttp_middleware_t *items;
    size_t count, capacity;
} uvhttp__middleware_list_t;

/* A route as registered; `route` is what the others see. */
typedef struct uvhttp__route_entry {
    uvhttp_route_t route;
    uvhttp_group_t *group;
    uvhttp__middleware_list_t middleware;
    uvhttp__chain_t *own_chain;       /* freeze: a chain that only this route has, else NULL */
    struct uvhttp__route_entry *next; /* in order of registration */
    char *pattern;                    /* terminated */
    uvhttp_str_t param_names[];       /* views into the pattern */
} uvhttp__route_entry_t;

struct uvhttp_group_s {
    uvhttp__router_t *router;
    uvhttp_group_t *parent; /* NULL for the root */
    uvhttp_group_t *next;   /* in order of creation: parents before children */
    uvhttp__middleware_list_t middleware;
    uvhttp__chain_t *chain;          /* freeze: all of parent's, then its own */
    uvhttp_route_options_t defaults; /* freeze fills in those of parent */
    size_t prefix_size;
    char prefix[]; /* terminated, of all groups around it too, without '/' at the end */
};

/* All routes whose patterns match the same paths. */
typedef struct uvhttp__route_endpoint {
    const uvhttp_route_t *by_method[UVHTTP__METHOD_SLOTS]; /* freeze fills in GET for HEAD, and ANY */
    const uvhttp__chain_t *chain;                          /* freeze: of the group of the route that came first */
    uvhttp__route_entry_t *first;
    uint32_t allow; /* bit per slot of a method; freeze adds OPTIONS, and HEAD to GET */
} uvhttp__route_endpoint_t;

/* A static child; node NULL: a free slot. */
typedef struct uvhttp__child {
    uint64_t hash; /* of its segment */
    struct uvhttp__node *node;
} uvhttp__child_t;

/* A segment of the tree. The root stands for the text before the first '/' and is empty. */
typedef struct uvhttp__node {
    uvhttp__child_t *children;          /* open addressing, at most half full */
    struct uvhttp__node *param;         /* ":x" */
    uvhttp__route_endpoint_t *wildcard; /* "*x" */
    uvhttp__route_endpoint_t *endpoint; /* patterns that end here */
    uint32_t child_count;
    uint32_t child_capacity; /* slots: 0 or a power of two */
    uint32_t size;
    char text[]; /* the segment of a static node */
} uvhttp__node_t;

/* What a path is found by: up to 16 bytes the path itself, in two words that may overlap; above that a hash. */
typedef struct uvhttp__path_key {
    uint64_t words[2];
    uint64_t size; /* bytes */
} uvhttp__path_key_t;

/* A pattern without parameters; endpoint NULL: a free slot. */
typedef struct uvhttp__exact {
    uvhttp__path_key_t key;
    const char *path;
    const uvhttp__route_endpoint_t *endpoint;
} uvhttp__exact_t;

struct uvhttp__router {
    uvhttp__exact_t *exact; /* open addressing, at most half full; NULL: no such pattern */
    size_t exact_mask;
    uvhttp__node_t *root;
    void *owner;
    uvhttp_group_t *groups; /* the root group first */
    uvhttp_group_t **groups_last;
    uvhttp_group_t *dead; /* what a failed uvhttp__group_new returns; in no list */
    uvhttp__route_entry_t *routes;
    uvhttp__route_entry_t **routes_last;
    size_t exact_count;     /* patterns without parameters */
    uint32_t methods;       /* all that are registered, for `OPTIONS *` */
    uint32_t dynamic_count; /* patterns with parameters */
    bool frozen;
    int error; /* the first failure of a registration */
    char error_text[UVHTTP__ROUTER_ERROR_SIZE];
};

/* match.c: gives back what freeze has made, for router_free and for a freeze that fails. */
void uvhttp__router_thaw(uvhttp__router_t *router);

/* --- pattern.c --- */

/* What a pattern is made of. */
typedef struct uvhttp__pattern {
    uvhttp_str_t segments[UVHTTP__ROUTE_SEGMENT_MAX]; /* with their ':' or '*' */
    size_t segment_count;
    size_t param_count;
    char why[160]; /* memory for a reason that quotes the pattern */
} uvhttp__pattern_t;

/* Takes a pattern apart. Returns 0, or UVHTTP_E_ROUTE_PATTERN and why in *reason, valid as long as *pattern. */
int uvhttp__pattern_parse(uvhttp_str_t text, uvhttp__pattern_t *pattern, const char **reason);
/* Replaces the percent escapes of a pattern that has been parsed, and takes it apart again. Returns its size. */
size_t uvhttp__pattern_decode(char *text, size_t size, uvhttp__pattern_t *pattern);

/* Whether a segment is a parameter or a wildcard. */
static inline bool uvhttp__segment_is_dynamic(uvhttp_str_t segment) {
    return segment.size != 0 && (segment.data[0] == ':' || segment.data[0] == '*');
}

/* --- tree.c --- */

/* A node with a copy of `text`, not linked to anything; NULL if out of memory. */
uvhttp__node_t *uvhttp__node_new(uvhttp_str_t text);
/* With everything below. NULL is allowed. */
void uvhttp__node_free(uvhttp__node_t *node);

/* The endpoint of a pattern, made if it is new. NULL if out of memory: what has been made of the way there stays and
 * does no harm. */
uvhttp__route_endpoint_t *uvhttp__tree_endpoint(uvhttp__node_t *root, const uvhttp__pattern_t *pattern);

/* Calls visit for every endpoint. */
void uvhttp__tree_each(uvhttp__node_t *node, void (*visit)(uvhttp__route_endpoint_t *endpoint, void *user), void *user);

/* Looks for the route of method and path (begins with '/'). Returns NULL if there is none; then match->allow and
 * match->chain tell of patterns that match the path only (allow 0: none does). Sets match->params and param_count. */
const uvhttp_route_t *uvhttp__tree_match(const uvhttp__node_t *root, uvhttp_method_t method, uvhttp_str_t path,
                                         uvhttp__match_t *match);

#endif
