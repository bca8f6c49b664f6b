/* Owns: mapping, keeping and giving back the stacks of coroutines, and how deep they were used. May include: io, base,
 * obs. */
#include "exec/coro_stack.h"

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uvhttp/error.h>

#include "base/sanitize.h"
#include "exec/coro_tools.h"

/* Bytes of addresses below a stack that no one may touch. A frame without probes (a handler that is compiled without
 * -fstack-clash-protection) must be larger to pass over them. */
#define GUARD_SIZE (1u << 20)
/* Stacks that stay mapped whatever happens. */
#define KEEP 16
/* Every so many uses one stack is looked at; what lies idle is looked at when it goes. */
#define SAMPLE 64
/* Linux 6.13: a guard without a mapping of its own, so that a stack does not cost two of vm.max_map_count. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

uint32_t uvhttp__coro_stack_fail_at;

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

void uvhttp__coro_budget_init(uvhttp__coro_budget_t *budget, size_t stack_size, uint32_t stacks_max) {
    size_t page = page_size();
    budget->stack_size = (stack_size * UVHTTP__CORO_STACK_FACTOR + page - 1) / page * page;
    budget->stacks_max = stacks_max;
    atomic_init(&budget->stacks, 0);
    atomic_init(&budget->used_max, 0);
}

void uvhttp__coro_stacks_init(uvhttp__coro_stacks_t *stacks, uvhttp__coro_budget_t *budget,
                              uvhttp__counters_t *counters) {
    *stacks = (uvhttp__coro_stacks_t){.budget = budget, .counters = counters};
}

/* --- depth --- */

/* The pages of a stack that are there, from its top on: what was touched at least once. */
static size_t touched(const uvhttp__coro_stack_t *stack) {
    enum { BATCH = 64 };
    unsigned char resident[BATCH];
    size_t page = page_size(), pages = stack->size / page, seen = 0;
    while (seen < pages) {
        size_t count = pages - seen < BATCH ? pages - seen : BATCH;
        if (mincore(stack->bottom + seen * page, count * page, resident) != 0) return 0;
        for (size_t i = 0; i < count; i++)
            if (resident[i] & 1) return stack->size - (seen + i) * page;
        seen += count;
    }
    return 0;
}

/* The counters of all loops add up to the maximum. */
static void measure(uvhttp__coro_stacks_t *stacks, const uvhttp__coro_stack_t *stack) {
    size_t used = touched(stack), before = atomic_load_explicit(&stacks->budget->used_max, memory_order_relaxed);
    while (used > before) {
        if (!atomic_compare_exchange_weak_explicit(&stacks->budget->used_max, &before, used, memory_order_relaxed,
                                                   memory_order_relaxed))
            continue;
        uvhttp__counters_add(stacks->counters, coroutine_stack_used_max, used - before);
        break;
    }
}

/* --- mapping --- */

static void *map_pages(size_t size, int protection) {
    void *memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

/* One mapping for both, which the kernel joins with those of other stacks: vm.max_map_count is 65530. */
static char *map_with_markers(size_t guard, size_t size) {
    char *memory = map_pages(guard + size, PROT_READ | PROT_WRITE);
    if (memory && madvise(memory, guard, MADV_GUARD_INSTALL) == 0) return memory;
    if (memory) munmap(memory, guard + size);
    return NULL;
}

/* Kernels before 6.13, and systems that count what may be written as used (vm.overcommit_memory 2): the guard is not.
 */
static char *map_with_protection(size_t guard, size_t size) {
    char *memory = map_pages(guard + size, PROT_NONE);
    if (memory && mprotect(memory + guard, size, PROT_READ | PROT_WRITE) == 0) return memory;
    if (memory) munmap(memory, guard + size);
    return NULL;
}

static uvhttp__coro_stack_t *map(const uvhttp__coro_budget_t *budget) {
    size_t guard = GUARD_SIZE, size = guard + budget->stack_size;
    if (uvhttp__coro_stack_fail_at > 0 && --uvhttp__coro_stack_fail_at == 0) return NULL;
    char *memory = map_with_markers(guard, budget->stack_size);
    if (!memory) memory = map_with_protection(guard, budget->stack_size);
    if (!memory) return NULL;
    /* Adjacent stacks become one mapping; huge pages in it would make every stack resident. A refusal is not an error.
     */
    (void)madvise(memory, size, MADV_NOHUGEPAGE);
    uvhttp__coro_stack_t *stack = (void *)(memory + size - UVHTTP__CORO_ALIGN(sizeof *stack));
    *stack = (uvhttp__coro_stack_t){
        .guard = memory, .guard_size = guard, .bottom = memory + guard, .size = budget->stack_size};
    stack->valgrind_id = UVHTTP__VALGRIND_STACK_REGISTER(stack->bottom, memory + size);
    stack->tsan_fiber = UVHTTP__TSAN_FIBER_NEW();
    return stack;
}

static void unmap(uvhttp__coro_stacks_t *stacks, uvhttp__coro_stack_t *stack) {
    measure(stacks, stack);
    UVHTTP__VALGRIND_STACK_DEREGISTER(stack->valgrind_id);
    UVHTTP__TSAN_FIBER_FREE(stack->tsan_fiber);
    UVHTTP__UNPOISON(stack->bottom, stack->size);
    munmap(stack->guard, stack->guard_size + stack->size);
    atomic_fetch_sub_explicit(&stacks->budget->stacks, 1, memory_order_relaxed);
    uvhttp__counters_add(stacks->counters, coroutine_stacks, (uint64_t)-1);
    uvhttp__counters_add(stacks->counters, coroutine_stacks_released, 1);
}

static uvhttp__coro_stack_t *new_stack(uvhttp__coro_stacks_t *stacks, int *status) {
    uvhttp__coro_budget_t *budget = stacks->budget;
    uvhttp__coro_stack_t *stack = NULL;
    if (atomic_fetch_add_explicit(&budget->stacks, 1, memory_order_relaxed) >= budget->stacks_max)
        *status = UVHTTP_E_COROUTINE_LIMIT;
    else if (!(stack = map(budget)))
        *status = UVHTTP_E_NOMEM;
    if (stack)
        uvhttp__counters_add(stacks->counters, coroutine_stacks, 1);
    else
        atomic_fetch_sub_explicit(&budget->stacks, 1, memory_order_relaxed);
    return stack;
}

/* --- the pool --- */

uvhttp__coro_stack_t *uvhttp__coro_stack_take(uvhttp__coro_stacks_t *stacks, int *status) {
    uvhttp__coro_stack_t *stack = stacks->free;
    if (__builtin_expect(!stack, 0)) return new_stack(stacks, status);
    stacks->free = stack->next;
    if (--stacks->free_count < stacks->free_min) stacks->free_min = stacks->free_count;
    return stack;
}

void uvhttp__coro_stack_give(uvhttp__coro_stacks_t *stacks, uvhttp__coro_stack_t *stack) {
    if (__builtin_expect(++stacks->uses % SAMPLE == 0, 0)) measure(stacks, stack);
    UVHTTP__UNPOISON(stack->bottom, (size_t)((char *)stack - stack->bottom));
    stack->next = stacks->free;
    stacks->free = stack;
    stacks->free_count++;
}

bool uvhttp__coro_stacks_trim(uvhttp__coro_stacks_t *stacks) {
    uint32_t unneeded = stacks->free_min;
    if (unneeded > stacks->free_count) unneeded = stacks->free_count;
    unneeded = unneeded > KEEP ? unneeded - KEEP : 0;
    uint32_t gone = unneeded > 2 * KEEP ? unneeded / 2 : unneeded;
    /* Those at the far end have been idle for longest. */
    uvhttp__coro_stack_t **at = &stacks->free;
    for (uint32_t i = 0; i < stacks->free_count - gone; i++) at = &(*at)->next;
    uvhttp__coro_stack_t *next, *stack = *at;
    *at = NULL;
    for (; stack; stack = next) {
        next = stack->next;
        unmap(stacks, stack);
    }
    stacks->free_count -= gone;
    stacks->free_min = stacks->free_count;
    return stacks->free_count > KEEP;
}

void uvhttp__coro_stacks_deinit(uvhttp__coro_stacks_t *stacks) {
    uvhttp__coro_stack_t *next;
    for (uvhttp__coro_stack_t *stack = stacks->free; stack; stack = next) {
        next = stack->next;
        unmap(stacks, stack);
    }
    stacks->free = NULL;
    stacks->free_count = 0;
}
