/* Coroutines without a server: order of runs, children, the pool of stacks, and the report of an overflow. */
/* Needs: coroutines. */
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/coro.h"
#include "exec/coro_tools.h"
#include "io/engine.h"

typedef struct fixture {
    uvhttp__counters_t counters;
    uvhttp__loop_t *loop;
    uvhttp__coro_budget_t budget;
    uvhttp__coro_sched_t sched;
    int ended;
} fixture_t;

static fixture_t fixture;

static int before_wait(void *owner) {
    (void)owner;
    return UVHTTP_OK;
}

static void nothing(void *owner) {
    (void)owner;
}

static void ended(void *owner) {
    (void)owner;
    fixture.ended++;
}

static const uvhttp__coro_ops_t ops = {before_wait, nothing, nothing, ended};

static void on_iteration_end(uvhttp__loop_t *loop, void *arg) {
    (void)arg;
    uvhttp__coro_sched_run(&fixture.sched);
    if (uvhttp__list_empty(&fixture.sched.all)) uvhttp__loop_stop(loop);
}

static void open_fixture(size_t stack_size, uint32_t stacks_max) {
    memset(&fixture, 0, sizeof fixture);
    const uvhttp__loop_options_t options = {.engine = UVHTTP__ENGINE_EPOLL,
                                            .receive_buffer_size = 4096,
                                            .receive_buffer_count = 8,
                                            .counters = &fixture.counters,
                                            .on_iteration_end = on_iteration_end};
    assert_int_equal(uvhttp__loop_new(&options, &fixture.loop), UVHTTP_OK);
    uvhttp__coro_budget_init(&fixture.budget, stack_size, stacks_max);
    uvhttp__coro_sched_open(&fixture.sched, &fixture.budget, fixture.loop, NULL);
}

static void close_fixture(void) {
    uvhttp__coro_sched_close(&fixture.sched);
    uvhttp__loop_free(fixture.loop, NULL, NULL);
    assert_int_equal(fixture.budget.stacks, 0);
}

static int start(void (*run)(void *arg), void *arg) {
    const uvhttp__coro_start_t options = {.run = run, .arg = arg, .ops = &ops, .label = "/test"};
    uvhttp_coro_t *coro;
    return uvhttp__coro_begin(&fixture.sched, &options, &coro);
}

static char trace[64];

static void say(char letter) {
    size_t size = strlen(trace);
    trace[size] = letter;
    trace[size + 1] = '\0';
}

static void alternate(void *arg) {
    char letter = *(const char *)arg;
    for (int i = 0; i < 3; i++) {
        say(letter);
        assert_int_equal(uvhttp_coro_yield(), UVHTTP_OK);
    }
}

static void test_ready_coroutines_alternate(void **state) {
    (void)state;
    trace[0] = '\0';
    open_fixture(32768, 10);
    assert_int_equal(start(alternate, "a"), UVHTTP_OK);
    assert_int_equal(start(alternate, "b"), UVHTTP_OK);
    assert_string_equal(trace, "ab"); /* until its first wait at once */
    uvhttp__loop_run(fixture.loop);
    assert_string_equal(trace, "ababab");
    assert_int_equal(fixture.ended, 2);
    close_fixture();
}

enum { WAITED_MAX_MS = 2000 };

static void yield_until(void *arg) {
    uint64_t begin_ms = fixture.loop->now_ms;
    while (!*(const bool *)arg && fixture.loop->now_ms - begin_ms < WAITED_MAX_MS)
        assert_int_equal(uvhttp_coro_yield(), UVHTTP_OK);
}

static void sleep_briefly(void *arg) {
    assert_int_equal(uvhttp_coro_sleep(2), UVHTTP_OK);
    *(bool *)arg = true;
}

static void test_many_that_yield_let_the_others_wake_up(void **state) {
    (void)state;
    enum { MANY = UVHTTP__ITERATION_TIMERS_MAX + 8 };
    bool awake = false;
    open_fixture(32768, MANY + 1);
    uint64_t begin_ms = fixture.loop->now_ms;
    assert_int_equal(start(sleep_briefly, &awake), UVHTTP_OK);
    for (int i = 0; i < MANY; i++) assert_int_equal(start(yield_until, &awake), UVHTTP_OK);
    uvhttp__loop_run(fixture.loop);
    assert_int_equal(fixture.ended, MANY + 1);
    assert_true(fixture.loop->now_ms - begin_ms < WAITED_MAX_MS);
    close_fixture();
}

static void cleanup(void *arg) {
    say(*(const char *)arg);
}

static void with_cleanups(void *arg) {
    (void)arg;
    static const char letters[] = "123456";
    for (int i = 0; i < 6; i++) assert_int_equal(uvhttp_coro_defer(cleanup, (void *)(uintptr_t)&letters[i]), UVHTTP_OK);
    assert_int_equal(uvhttp_coro_defer(NULL, NULL), UVHTTP_E_INVALID);
    say('r');
}

static void start_traced(void (*run)(void *arg)) {
    trace[0] = '\0';
    open_fixture(32768, 10);
    assert_int_equal(start(run, NULL), UVHTTP_OK);
}

static void test_cleanups_run_last_first(void **state) {
    (void)state;
    start_traced(with_cleanups);
    assert_string_equal(trace, "r654321");
    close_fixture();
}

static void child(void *arg) {
    int *status = arg;
    *status = uvhttp_coro_sleep((uint32_t)*status);
    say('c');
}

static void parent(void *arg) {
    (void)arg;
    static int left; /* not a variable of this function, for it is not joined */
    int quick = 1, slow = left = 1000000;
    uvhttp_coro_t *coros[3];
    assert_int_equal(uvhttp_coro_spawn(child, &quick, &coros[0]), UVHTTP_OK);
    assert_int_equal(uvhttp_coro_spawn(child, &slow, &coros[1]), UVHTTP_OK);
    assert_int_equal(uvhttp_coro_spawn(child, &left, &coros[2]), UVHTTP_OK);
    assert_int_equal(uvhttp_coro_join(coros[0], UVHTTP_NEVER), UVHTTP_OK);
    assert_int_equal(quick, UVHTTP_OK);
    assert_int_equal(uvhttp_coro_join(coros[1], 0), UVHTTP_E_TIMEOUT);
    assert_int_equal(uvhttp_coro_join(coros[1], 2), UVHTTP_E_TIMEOUT);
    assert_int_equal(uvhttp_coro_cancel(coros[1]), UVHTTP_OK);
    assert_int_equal(uvhttp_coro_join(coros[1], UVHTTP_NEVER), UVHTTP_OK);
    assert_int_equal(slow, UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_coro_join(NULL, 0), UVHTTP_E_INVALID);
    say('p');
}

static void test_children_are_joined_cancelled_and_never_left_behind(void **state) {
    (void)state;
    start_traced(parent);
    uvhttp__loop_run(fixture.loop);
    assert_string_equal(trace, "ccpc");
    assert_int_equal(fixture.ended, 1);
    close_fixture();
}

static void spawner(void *arg) {
    int status = 1;
    uvhttp_coro_t *coro;
    *(int *)arg = uvhttp_coro_spawn(child, &status, &coro);
}

static void test_children_count_for_the_limit(void **state) {
    (void)state;
    int status = 0;
    open_fixture(32768, 1);
    assert_int_equal(start(spawner, &status), UVHTTP_OK);
    assert_int_equal(status, UVHTTP_E_COROUTINE_LIMIT);
    close_fixture();
}

static void sleeper(void *arg) {
    *(int *)arg = uvhttp_coro_sleep(1000000);
}

static void test_a_close_unwinds_all(void **state) {
    (void)state;
    int status[2] = {0};
    open_fixture(32768, 10);
    assert_int_equal(start(sleeper, &status[0]), UVHTTP_OK);
    assert_int_equal(start(sleeper, &status[1]), UVHTTP_OK);
    close_fixture();
    assert_int_equal(fixture.ended, 2);
    assert_int_equal(status[0], UVHTTP_E_ABORTED);
    assert_int_equal(status[1], UVHTTP_E_ABORTED);
}

/* --- stacks --- */

#define COUNT(name) atomic_load(&fixture.counters.values[UVHTTP__COUNTER_##name])

static void test_stacks_of_a_burst_go_back(void **state) {
    (void)state;
    enum { MANY = 200 };
    uvhttp__coro_stack_t *consumed[MANY];
    uvhttp__coro_stacks_t *stacks = &fixture.sched.stacks;
    int status;
    open_fixture(32768, MANY);
    for (int i = 0; i < MANY; i++) assert_non_null(consumed[i] = uvhttp__coro_stack_take(stacks, &status));
    assert_null(uvhttp__coro_stack_take(stacks, &status));
    assert_int_equal(status, UVHTTP_E_COROUTINE_LIMIT);
    for (int i = 0; i < MANY; i++) uvhttp__coro_stack_give(stacks, consumed[i]);
    assert_true(uvhttp__coro_stacks_trim(stacks)); /* they were needed just now */
    assert_int_equal(COUNT(coroutine_stacks), MANY);
    int trims = 0;
    for (; uvhttp__coro_stacks_trim(stacks); trims++) assert_true(trims < 10);
    assert_int_equal(COUNT(coroutine_stacks), 16);
    assert_int_equal(COUNT(coroutine_stacks_released), MANY - 16);
    assert_int_equal(fixture.budget.stacks, 16);
    close_fixture();
}

/* Its result depends on what the call has returned: no tail call. */
static __attribute__((noinline)) int use_stack(size_t size) {
    volatile char block[1024];
    block[0] = (char)size;
    return (size > sizeof block ? use_stack(size - sizeof block) : 0) + block[0];
}

static void use_some(void *arg) {
    (void)use_stack(*(const size_t *)arg);
}

static void test_the_deepest_use_is_known(void **state) {
    (void)state;
    size_t size = 20000;
    open_fixture(65536, 10);
    assert_int_equal(start(use_some, &size), UVHTTP_OK);
    close_fixture();
    /* AddressSanitizer may keep variables elsewhere. */
    assert_true(COUNT(coroutine_stack_used_max) > size / UVHTTP__CORO_STACK_FACTOR / UVHTTP__CORO_STACK_FACTOR);
    assert_true(COUNT(coroutine_stack_used_max) <= 65536 * UVHTTP__CORO_STACK_FACTOR);
}

static void overflow(void) {
    size_t size = (size_t)1 << 30;
    open_fixture(32768, 10);
    (void)start(use_some, &size);
}

#define STACK_SIZE ((size_t)32768 * UVHTTP__CORO_STACK_FACTOR) /* bytes: a sanitizer's are larger */

/* A write far below the stack without touching what lies between, as an application's code without probes does it:
 * `char text[100000]`. Memory that is mapped there must not be hit. */
static void write_below(void *arg) {
    volatile char *text = (char *)__builtin_frame_address(0) - *(const size_t *)arg;
    *text = 1;
}

static void wait_long(void *arg) {
    (void)arg;
    (void)uvhttp_coro_sleep(60000);
}

static void step_over(size_t distance) {
    open_fixture(32768, 10);
    (void)start(write_below, &distance);
}
static void overflow_by_100_kb(void) {
    step_over(STACK_SIZE + 100000 - 32768);
}
static void overflow_by_1_mb(void) {
    step_over(STACK_SIZE + (1u << 20) - 8192);
}

/* Every way to end it is in the guard, also where the pages around the stack are mapped. */
static void overflow_next_to_others(void) {
    open_fixture(32768, 64);
    for (int i = 0; i < 32; i++) (void)start(wait_long, NULL);
    size_t distance = STACK_SIZE + 200000;
    (void)start(write_below, &distance);
}

static bool dies;

/* LeakSanitizer asks: what dies in a coroutine frees nothing. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
    return dies;
}

/* exit(3), which writes the counters of a build that measures coverage. */
static void handler_before(int number) {
    exit(number == SIGSEGV ? 42 : 1);
}

/* It is given what the kernel says about the fault. */
static void large_handler_before(int number, siginfo_t *info, void *context) {
    exit(number == SIGSEGV && context && info->si_code > 0 && info->si_addr ? 43 : 1);
}

static const struct sigaction nothing_before = {.sa_handler = SIG_DFL};
static const struct sigaction small_before = {.sa_handler = handler_before, .sa_flags = SA_ONSTACK};
static const struct sigaction large_before = {.sa_sigaction = large_handler_before,
                                              .sa_flags = SA_ONSTACK | SA_SIGINFO};

/* What a process that overflows says, and how it ends. */
static int die(void (*overflow_it)(void), char *said, size_t size, const struct sigaction *before) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dies = true;
        dup2(ends[1], STDERR_FILENO);
        stack_t memory = {.ss_sp = malloc(65536), .ss_size = 65536};
        if (before->sa_flags & SA_ONSTACK) sigaltstack(&memory, NULL);
        sigaction(SIGSEGV, before, NULL);
        overflow_it();
        _exit(0);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t n; got < size - 1 && (n = read(ends[0], said + got, size - 1 - got)) > 0;) got += (size_t)n;
    said[got] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Those of programs that QEMU runs are not: it says that advice was accepted which it does not know. */
static bool guards_are_real(void) {
    const int unknown_advice = 0x7777;
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool refused = madvise(page, 4096, unknown_advice) != 0;
    munmap(page, 4096);
    return refused;
}

static void test_an_overflow_says_which_route_and_what_to_do(void **state) {
    (void)state;
    if (!guards_are_real()) skip();
    char said[4096];
    int status = die(overflow, said, sizeof said, &nothing_before);
    assert_non_null(strstr(said, "uvhttp: coroutine stack overflow in route /test: it has "));
    assert_non_null(strstr(said, " bytes; raise coroutine_stack_size\n"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    /* The handler that was there before has its say. */
    const struct sigaction *const handlers[] = {&small_before, &large_before};
    for (int i = 0; i < 2; i++) {
        status = die(overflow, said, sizeof said, handlers[i]);
        assert_non_null(strstr(said, "coroutine stack overflow"));
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42 + i);
    }
}

static void test_a_large_frame_does_not_step_over_the_guard(void **state) {
    (void)state;
    if (!guards_are_real()) skip();
    void (*const ways[])(void) = {overflow_by_100_kb, overflow_by_1_mb, overflow_next_to_others};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char said[4096];
        int status = die(ways[i], said, sizeof said, &nothing_before);
        assert_non_null(strstr(said, "uvhttp: coroutine stack overflow in route /test: it has "));
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
}

/* RLIMIT_AS, or a system that is out of addresses: a status, and no stack with a smaller guard. */
static void limit_addresses_and_start(void) {
    struct rlimit limit;
    open_fixture(32768, 10);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_AS, &limit);
    getrlimit(RLIMIT_AS, &limit);
    if (limit.rlim_cur != 0) _exit(77); /* QEMU keeps the addresses of what it runs */
    int status = start(wait_long, NULL);
    dprintf(STDERR_FILENO, "%s", uvhttp_error_name(status));
    _exit(0);
}

static void test_without_addresses_there_is_no_coroutine(void **state) {
    (void)state;
    if (UVHTTP__CORO_STACK_FACTOR > 1) skip(); /* a sanitizer needs addresses of its own */
    char said[4096];
    int status = die(limit_addresses_and_start, said, sizeof said, &nothing_before);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_string_equal(said, "UVHTTP_E_NOMEM");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First: the handler is set once in a process. */
        cmocka_unit_test(test_an_overflow_says_which_route_and_what_to_do),
        cmocka_unit_test(test_a_large_frame_does_not_step_over_the_guard),
        cmocka_unit_test(test_without_addresses_there_is_no_coroutine),
        cmocka_unit_test(test_ready_coroutines_alternate),
        cmocka_unit_test(test_many_that_yield_let_the_others_wake_up),
        cmocka_unit_test(test_cleanups_run_last_first),
        cmocka_unit_test(test_children_are_joined_cancelled_and_never_left_behind),
        cmocka_unit_test(test_children_count_for_the_limit),
        cmocka_unit_test(test_a_close_unwinds_all),
        cmocka_unit_test(test_stacks_of_a_burst_go_back),
        cmocka_unit_test(test_the_deepest_use_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
