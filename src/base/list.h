/* Owns: the intrusive doubly linked list. May include: nothing.
 *
 * A list is a ring with its head in it; head and node have the same type. A detached node points to itself: initialise
 * a node before use (zeroed memory is not a detached node), then remove may be called at any time and any number of
 * times. */
#ifndef UVHTTP_SRC_BASE_LIST_H
#define UVHTTP_SRC_BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct uvhttp__list {
    struct uvhttp__list *next;
    struct uvhttp__list *prev;
} uvhttp__list_t;

#define UVHTTP__CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* A head or a node, empty or detached. */
static inline void uvhttp__list_init(uvhttp__list_t *list) {
    list->next = list->prev = list;
}

static inline bool uvhttp__list_empty(const uvhttp__list_t *head) {
    assert(head->next);
    return head->next == head;
}

/* Whether a node is in some list. */
static inline bool uvhttp__list_linked(const uvhttp__list_t *node) {
    assert(node->next);
    return node->next != node;
}

static inline void uvhttp__list_link_between(uvhttp__list_t *node, uvhttp__list_t *prev, uvhttp__list_t *next) {
    assert(!uvhttp__list_linked(node));
    node->prev = prev;
    node->next = next;
    prev->next = node;
    next->prev = node;
}

/* The node must be detached. */
static inline void uvhttp__list_push_front(uvhttp__list_t *head, uvhttp__list_t *node) {
    uvhttp__list_link_between(node, head, head->next);
}

static inline void uvhttp__list_push_back(uvhttp__list_t *head, uvhttp__list_t *node) {
    uvhttp__list_link_between(node, head->prev, head);
}

/* Detaches a node; does nothing to a detached one. */
static inline void uvhttp__list_remove(uvhttp__list_t *node) {
    assert(node->next);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    uvhttp__list_init(node);
}

/* The first node, still linked, or NULL. */
static inline uvhttp__list_t *uvhttp__list_front(const uvhttp__list_t *head) {
    return uvhttp__list_empty(head) ? NULL : head->next;
}

/* The first node, detached, or NULL. */
static inline uvhttp__list_t *uvhttp__list_pop_front(uvhttp__list_t *head) {
    uvhttp__list_t *node = uvhttp__list_front(head);
    if (node) uvhttp__list_remove(node);
    return node;
}

/* Moves all nodes of `from` behind those of `to`; `from` is empty then. */
static inline void uvhttp__list_splice(uvhttp__list_t *to, uvhttp__list_t *from) {
    if (uvhttp__list_empty(from)) return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    uvhttp__list_init(from);
}

/* The body may remove `node`, and nothing else, from the list. */
#define UVHTTP__LIST_FOREACH_SAFE(node, after, head)                                                                   \
    for ((node) = (head)->next, (after) = (node)->next; (node) != (head); (node) = (after), (after) = (node)->next)

#endif
