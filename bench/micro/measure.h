/* Owns: measuring a statement. For the programs of bench/micro. */
#ifndef UVHTTP_BENCH_MICRO_MEASURE_H
#define UVHTTP_BENCH_MICRO_MEASURE_H

#include <stdio.h>
#include <time.h>

/* ns of this thread only: other work on the machine does not count. */
static inline double measure_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* The best of several rounds: what disturbs a round only makes it slower. */
#define MEASURE(name, statement)                                                                                       \
    do {                                                                                                               \
        double best = 1e9;                                                                                             \
        for (int round = 0; round < 15; ++round) {                                                                     \
            enum { COUNT = 300000 };                                                                                   \
            double begin = measure_now();                                                                              \
            for (int i = 0; i < COUNT; ++i) {                                                                          \
                statement;                                                                                             \
                __asm__ volatile("" ::: "memory");                                                                     \
            }                                                                                                          \
            double each = (measure_now() - begin) / COUNT;                                                             \
            if (each < best) best = each;                                                                              \
        }                                                                                                              \
        printf("%-56s %7.1f ns\n", name, best);                                                                        \
    } while (0)

#endif
