/* Owns: what tests ask of their process: its descriptors, its clock, and a second run as an ordinary user. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_PROCESS_H
#define UVHTTP_TEST_UNIT_SUPPORT_PROCESS_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define TIMEOUT_MS 20000
#define MAYBE_UNUSED __attribute__((unused))

uint64_t clock_ms(void);
/* Of CLOCK_REALTIME, for pthread_cond_timedwait. */
struct timespec deadline_in(int timeout_ms);
/* Asserts that it comes in time. */
void wait_semaphore(sem_t *semaphore);
/* Descriptors of this process; the directory's own is the same before and after. */
int count_fds(void);
/* A folder of mkdtemp, with what is in it. */
void remove_tree(const char *folder);
/* libuv keeps a pipe for signals from the first loop of the process on: it is not a leak of a test. */
void warm_up_epoll(void);

/* Root has no RLIMIT_MEMLOCK and hides what others meet: runs the tests, and as root a second time as somebody else. */
int run_again_as_user(int (*group)(void));
extern bool again_as_user;

#endif
