/* Owns: starting threads of the library. */
#ifndef UVHTTP_SRC_BASE_THREAD_H
#define UVHTTP_SRC_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts main(arg) on a thread that is handed no signal of the process: they are for the application's threads, and a
 * pipe without a reader is an error there and not the end of the process. What a thread brings upon itself (SIGSEGV and
 * the like) and SIGPROF, by which profilers look, arrive. Returns false if the system refuses. Any thread. */
bool uvhttp__thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg);

/* The number of the calling thread: never 0, and never another thread's, not even when this one has ended. */
uint64_t uvhttp__thread_number(void);

#endif
