/* Owns: the report of a coroutine that has used up its stack: it hits the guard, and the process is told why before it
 * ends as it would have. May include: io, base,
 * obs. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exec/coro.h"

/* The handler needs a stack of its own, for the coroutine has none left. */
#define SIGNAL_STACK_SIZE (64u * 1024)

static struct sigaction before;
static uvhttp_coro_t *(*_Atomic find_current)(void);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t stacks;
static _Thread_local bool installed;

static void put(char *line, size_t *size, size_t max, const char *text) {
    while (*text && *size < max) line[(*size)++] = *text++;
}

static void put_number(char *line, size_t *size, size_t max, size_t number) {
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    put(line, size, max, digits + at);
}

/* Only what a signal handler may call. */
static void report(const uvhttp_coro_t *coro) {
    char line[512];
    size_t size = 0, max = sizeof line - 1;
    put(line, &size, max, "uvhttp: coroutine stack overflow in route ");
    put(line, &size, max, coro->label);
    put(line, &size, max, ": it has ");
    put_number(line, &size, max, coro->stack->size);
    put(line, &size, max, " bytes; raise coroutine_stack_size\n");
    (void)!write(STDERR_FILENO, line, size);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    const uvhttp_coro_t *coro = atomic_load_explicit(&find_current, memory_order_relaxed)();
    if (coro && info->si_code > 0 && uvhttp__coro_stack_guards(coro->stack, info->si_addr)) report(coro);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        /* Back in the instruction that has failed, it fails again; a signal that was sent has to be sent again. */
        sigaction(number, &before, NULL);
        if (info->si_code <= 0) raise(number);
    }
}

static void free_stack(void *memory) {
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    munmap(memory, SIGNAL_STACK_SIZE);
}

static void install(void) {
    struct sigaction action;
    pthread_key_create(&stacks, free_stack);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
}

/* Until the thread ends: it may be the application's, and outlive the server. */
static void keeper_thread(void) {
    stack_t there;
    if (sigaltstack(NULL, &there) == 0 && !(there.ss_flags & SS_DISABLE)) return;
    void *memory = mmap(NULL, SIGNAL_STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    stack_t ours = {.ss_sp = memory, .ss_size = SIGNAL_STACK_SIZE};
    if (sigaltstack(&ours, NULL) == 0)
        pthread_setspecific(stacks, memory);
    else
        munmap(memory, SIGNAL_STACK_SIZE);
}

void uvhttp__coro_fault_install(uvhttp_coro_t *(*current)(void)) {
    if (__builtin_expect(installed, 1)) return;
    installed = true;
    atomic_store_explicit(&find_current, current, memory_order_relaxed); /* the same for all threads */
    pthread_once(&once, install);
    keeper_thread();
}
