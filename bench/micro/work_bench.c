/* Owns: the cost of submitting a job to the pool: jobs per second, CPU time and thread switches per job, for bursts
 * like those of a loop iteration, by number of pool threads and of submitting threads. Run manually:
 * build/bench/work_bench, or one case for strace -f -c -e trace=futex: build/bench/work_bench WORKERS PRODUCERS BURST.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "exec/work.h"

enum { BURST_MAX = 64, PRODUCERS_MAX = 8 };
#define JOBS 200000u

typedef struct producer {
    uvhttp__work_t *work;
    unsigned burst, rounds;
    uvhttp__job_t jobs[BURST_MAX];
    atomic_uint left;
    sem_t all;
    pthread_t thread;
} producer_t;

static void run(uvhttp__job_t *job) {
    (void)job;
}

static void done(uvhttp__job_t *job, bool cancelled) {
    (void)cancelled;
    producer_t *producer = (producer_t *)(uintptr_t)job->name;
    if (atomic_fetch_sub(&producer->left, 1) == 1) sem_post(&producer->all);
}

static void *give(void *arg) {
    producer_t *giver = arg;
    for (unsigned round = 0; round < giver->rounds; round++) {
        atomic_store(&giver->left, giver->burst);
        uvhttp__list_t jobs;
        uvhttp__list_init(&jobs);
        for (unsigned i = 0; i < giver->burst; i++) {
            uvhttp__job_init(&giver->jobs[i], run, done);
            giver->jobs[i].name = (const char *)giver;
            uvhttp__list_init(&giver->jobs[i].link);
            uvhttp__list_push_back(&jobs, &giver->jobs[i].link);
        }
        if (uvhttp__work_submit_all(giver->work, NULL, &jobs) != UVHTTP_OK) abort();
        while (sem_wait(&giver->all) != 0) continue;
    }
    return NULL;
}

/* Times that a thread of the process yielded its CPU because it had to wait, or was made to. */
static double switches(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) abort();
    return (double)(usage.ru_nvcsw + usage.ru_nivcsw);
}

static void measure(unsigned loops, unsigned producers, unsigned burst) {
    static producer_t givers[PRODUCERS_MAX];
    const uvhttp__work_options_t options = {.threads_min = loops, .threads_max = loops, .backlog_max = 1000};
    uvhttp__work_t *work = uvhttp__work_new(&options);
    if (!work) abort();
    uvhttp__work_start(work);
    uint64_t begin_ns = uvhttp__clock_ns(), begin_cpu_ns = uvhttp__clock_cpu_ns();
    double begin_switches = switches();
    unsigned rounds = JOBS / burst / producers;
    for (unsigned i = 0; i < producers; i++) {
        givers[i] = (producer_t){.work = work, .burst = burst, .rounds = rounds};
        sem_init(&givers[i].all, 0, 0);
        if (pthread_create(&givers[i].thread, NULL, give, &givers[i]) != 0) abort();
    }
    for (unsigned i = 0; i < producers; i++) pthread_join(givers[i].thread, NULL);
    double ns = (double)(uvhttp__clock_ns() - begin_ns), cpu_ns = (double)(uvhttp__clock_cpu_ns() - begin_cpu_ns);
    double jobs = (double)rounds * burst * producers;
    printf("%7u %9u %5u %12.0f %16.2f %17.3f\n", loops, producers, burst, jobs / ns * 1e9, cpu_ns / jobs / 1000,
           (switches() - begin_switches) / jobs);
    uvhttp__work_stop(work, UINT64_MAX);
    uvhttp__work_free(work);
}

int main(int argc, char **argv) {
    printf("workers producers burst  jobs/second  CPU us per job  switches per job\n");
    if (argc == 4) {
        unsigned producers = (unsigned)atoi(argv[2]), burst = (unsigned)atoi(argv[3]);
        if (producers < 1 || producers > PRODUCERS_MAX || burst < 1 || burst > BURST_MAX) return 2;
        measure((unsigned)atoi(argv[1]), producers, burst);
        return 0;
    }
    static const unsigned bursts[] = {1, 16, 64};
    for (size_t b = 0; b < sizeof bursts / sizeof *bursts; b++)
        for (unsigned loops = 1; loops <= 8; loops *= 2)
            for (unsigned producers = 1; producers <= PRODUCERS_MAX; producers *= 2)
                measure(loops, producers, bursts[b]);
    return 0;
}
