/* Owns: the queue from many producer threads to one consumer. Lock-free, intrusive and unbounded: the objects that
 * embed its nodes bound its length. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_MPSC_H
#define UVHTTP_SRC_BASE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct uvhttp__mpsc_node {
    struct uvhttp__mpsc_node *next; /* the consumer's after take */
} uvhttp__mpsc_node_t;

/* A stack that is removed as a whole and reversed: every removal empties it, so only the order within must be kept. */
typedef struct uvhttp__mpsc {
    _Atomic(uvhttp__mpsc_node_t *) last;
} uvhttp__mpsc_t;

static inline void uvhttp__mpsc_init(uvhttp__mpsc_t *queue) {
    atomic_init(&queue->last, NULL);
}

/* Any thread. Returns true if the queue was empty: the consumer must be woken. The node may be gone when it returns. */
static inline bool uvhttp__mpsc_push(uvhttp__mpsc_t *queue, uvhttp__mpsc_node_t *node) {
    uvhttp__mpsc_node_t *last = atomic_load_explicit(&queue->last, memory_order_relaxed);
    do {
        node->next = last;
        /* Release: what the producer wrote before is there for the consumer, whose exchange acquires. Acquire: who
         * finds it empty comes after the take that has emptied it, and may use again what it wakes the consumer with.
         */
    } while (
        !atomic_compare_exchange_weak_explicit(&queue->last, &last, node, memory_order_acq_rel, memory_order_relaxed));
    return last == NULL;
}

/* Consumer. A glance: a push may come right after. */
static inline bool uvhttp__mpsc_empty(const uvhttp__mpsc_t *queue) {
    return atomic_load_explicit(&queue->last, memory_order_relaxed) == NULL;
}

/* Consumer. Takes everything: a chain by `next`, the oldest first, or NULL. Read a node's `next` before giving it away.
 */
uvhttp__mpsc_node_t *uvhttp__mpsc_take(uvhttp__mpsc_t *queue);

#endif
