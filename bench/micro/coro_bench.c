/* Owns: the cost of coroutines, in ns: making one and ending it, and a wait. Run by hand: build/bench/coro_bench. */
/* Needs: coroutines. */
#include <stdlib.h>
#include <unistd.h>

#include "exec/coro.h"
#include "measure.h"

#define MANY 30000

static uvhttp__coro_sched_t sched;
static uvhttp_coro_t *waiting;

static int before_wait(void *owner) {
    (void)owner;
    return UVHTTP_OK;
}

static void nothing(void *owner) {
    (void)owner;
}

static const uvhttp__coro_ops_t ops = {before_wait, nothing, nothing, nothing};

static void return_at_once(void *arg) {
    (void)arg;
}

static void wait_for_end(void *arg) {
    (void)arg;
    uvhttp_coro_t *coro = uvhttp__coro_current();
    while (uvhttp__coro_may_wait(coro) == UVHTTP_OK) (void)uvhttp__coro_wait(coro, UVHTTP_NEVER);
}

static uvhttp_coro_t *start(void (*run)(void *arg)) {
    const uvhttp__coro_start_t options = {.run = run, .ops = &ops, .label = "/bench"};
    uvhttp_coro_t *coro;
    if (uvhttp__coro_begin(&sched, &options, &coro) != UVHTTP_OK) abort();
    return coro;
}

static void wake_and_run(void) {
    uvhttp__coro_wake(waiting, UVHTTP_OK);
    uvhttp__coro_sched_run(&sched);
}

static size_t resident(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%*u %lu", &pages) != 1) abort();
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void measure_memory(void) {
    size_t before = resident();
    double begin = measure_now();
    for (int i = 0; i < MANY; i++) (void)start(wait_for_end);
    printf("%-56s %7.1f ns\n", "the first use of a stack, of 30,000 that wait at once", (measure_now() - begin) / MANY);
    printf("%-56s %7zu bytes\n", "memory of each", (resident() - before) / MANY);
}

int main(void) {
    static uvhttp__counters_t counters;
    static uvhttp__coro_budget_t budget;
    uvhttp__loop_t *loop;
    const uvhttp__loop_options_t options = {
        .engine = UVHTTP__ENGINE_EPOLL, .receive_buffer_size = 4096, .receive_buffer_count = 8, .counters = &counters};
    if (uvhttp__loop_new(&options, &loop) != UVHTTP_OK) abort();
    uvhttp__coro_budget_init(&budget, 65536, MANY + 2);
    uvhttp__coro_sched_open(&sched, &budget, loop, NULL);
    MEASURE("a coroutine that does not wait: begin to end", (void)start(return_at_once));
    waiting = start(wait_for_end);
    MEASURE("a wait: woken, two switches, waits again", wake_and_run());
    waiting = NULL;
    measure_memory();
    uvhttp__coro_sched_close(&sched);
    uvhttp__loop_free(loop, NULL, NULL);
    return 0;
}
