/* Owns: tests of starting threads: which signals they are handed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "support/run.h"

static void *report_mask(void *arg) {
    pthread_sigmask(SIG_BLOCK, NULL, arg);
    return NULL;
}

static sigset_t mask_of_a_thread(void) {
    sigset_t mask;
    pthread_t thread;
    sigemptyset(&mask);
    assert_true(uvhttp__thread_start(&thread, report_mask, &mask));
    assert_int_equal(pthread_join(thread, NULL), 0);
    return mask;
}

static void test_signals_of_the_process_are_not_for_it(void **state) {
    (void)state;
    sigset_t mask = mask_of_a_thread();
    static const int blocked[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD};
    for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++) assert_true(sigismember(&mask, blocked[i]));
}

static void test_what_it_brings_upon_itself_is(void **state) {
    (void)state;
    sigset_t mask = mask_of_a_thread();
    static const int wanted[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) assert_false(sigismember(&mask, wanted[i]));
}

static void test_who_starts_it_keeps_its_own_mask(void **state) {
    (void)state;
    sigset_t own, before, after;
    sigemptyset(&own);
    sigaddset(&own, SIGSEGV); /* blocked by the application: for its threads, too */
    pthread_sigmask(SIG_SETMASK, &own, &before);
    sigset_t mask = mask_of_a_thread();
    pthread_sigmask(SIG_SETMASK, &before, &after);
    assert_true(sigismember(&mask, SIGSEGV));
    assert_true(sigismember(&after, SIGSEGV) && !sigismember(&after, SIGTERM));
}

int main(void) {
    return RUN_TESTS(test_signals_of_the_process_are_not_for_it, test_what_it_brings_upon_itself_is,
                     test_who_starts_it_keeps_its_own_mask);
}
