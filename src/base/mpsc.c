/* Owns: the consumer's side of the queue. May include: mpsc. */
#include "base/mpsc.h"

uvhttp__mpsc_node_t *uvhttp__mpsc_take(uvhttp__mpsc_t *queue) {
    /* Acquire: pairs with the release of every push whose node is in the chain. Release: with the acquire of the next
     * push, which finds the queue empty. */
    uvhttp__mpsc_node_t *node = atomic_exchange_explicit(&queue->last, NULL, memory_order_acq_rel);
    uvhttp__mpsc_node_t *first = NULL;
    while (node) {
        uvhttp__mpsc_node_t *before = node->next;
        node->next = first;
        first = node;
        node = before;
    }
    return first;
}
