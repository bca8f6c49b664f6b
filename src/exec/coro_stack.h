/* Owns: stacks of coroutines: mapped with a guard of 1 MiB below, kept for the next one, given back when a burst is
 * over. One pool a loop; what all loops may map together is counted in the budget. May include: io, base, obs. */
#ifndef UVHTTP_SRC_EXEC_CORO_STACK_H
#define UVHTTP_SRC_EXEC_CORO_STACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "obs/counters.h"

/* What the loops of a server share; touched when a stack is mapped or unmapped only. */
typedef struct uvhttp__coro_budget {
    size_t stack_size; /* bytes, whole pages, without the guard */
    uint32_t stacks_max;
    atomic_uint stacks;
    _Atomic size_t used_max; /* bytes of the deepest stack so far */
} uvhttp__coro_budget_t;

/* At the top of its own memory, so that nothing is allocated for it. */
typedef struct uvhttp__coro_stack {
    struct uvhttp__coro_stack *next; /* in the pool */
    char *guard;                     /* lowest address: the guard, of guard_size bytes */
    size_t guard_size;
    char *bottom; /* lowest address that may be used */
    size_t size;  /* bytes from there to the end of the mapping, this included */
    unsigned valgrind_id;
    void *tsan_fiber;
} uvhttp__coro_stack_t;

typedef struct uvhttp__coro_stacks {
    uvhttp__coro_budget_t *budget;
    uvhttp__counters_t *counters;
    uvhttp__coro_stack_t *free; /* last used first: its memory is in the cache */
    uint32_t free_count;
    uint32_t free_min; /* the fewest since the last trim: so many were not needed */
    uint32_t uses;     /* every so many, the depth is looked at */
} uvhttp__coro_stacks_t;

/* stack_size is rounded up to pages; a sanitizer's build gets a multiple of it. */
void uvhttp__coro_budget_init(uvhttp__coro_budget_t *budget, size_t stack_size, uint32_t stacks_max);

void uvhttp__coro_stacks_init(uvhttp__coro_stacks_t *stacks, uvhttp__coro_budget_t *budget,
                              uvhttp__counters_t *counters);
/* Unmaps what is in the pool. */
void uvhttp__coro_stacks_deinit(uvhttp__coro_stacks_t *stacks);

/* A stack of the pool or a new one. NULL: the budget is used up (*status UVHTTP_E_COROUTINE_LIMIT) or the system has
 * refused (UVHTTP_E_NOMEM). */
uvhttp__coro_stack_t *uvhttp__coro_stack_take(uvhttp__coro_stacks_t *stacks, int *status);
void uvhttp__coro_stack_give(uvhttp__coro_stacks_t *stacks, uvhttp__coro_stack_t *stack);

/* Unmaps half of those that nobody has needed since the last call, all if they are few. Returns whether there are some
 * left to look after. */
bool uvhttp__coro_stacks_trim(uvhttp__coro_stacks_t *stacks);

static inline bool uvhttp__coro_stack_guards(const uvhttp__coro_stack_t *stack, const void *address) {
    const char *at = address;
    return at >= stack->guard && at < stack->guard + stack->guard_size;
}

/* For tests, before a loop runs: the n-th mapping fails (1: the next); 0: none. */
extern uint32_t uvhttp__coro_stack_fail_at;

#endif
