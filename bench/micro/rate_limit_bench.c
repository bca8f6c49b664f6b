/* Owns: the cost of the rate limiter, in ns per request. Run by hand: build/bench/rate_limit_bench. */
/* Needs: middleware. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"
#include "message/message.h"
#include "middleware/rate_limit.h"

/* --- the table --- */

static uvhttp_rate_limit_store_t store_of(uint32_t keys_max) {
    uvhttp_rate_limit_store_t store;
    if (uvhttp__rate_limit_local_store(keys_max, &store) != UVHTTP_OK) abort();
    return store;
}

static uint64_t time_ns;

static void take(const uvhttp_rate_limit_store_t *store, uint64_t number) {
    uvhttp_rate_limit_decision_t decision;
    const uvhttp_rate_limit_take_t wanted = {.kind = '6',
                                             .key = {(const char *)&number, sizeof number},
                                             .now_ns = ++time_ns,
                                             .interval_ns = 10000000,
                                             .burst = 200};
    (void)store->take(store->user, &wanted, &decision);
}

static uint64_t random_number(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static void bench_table(void) {
    uvhttp_rate_limit_store_t store = store_of(100000);
    MEASURE("take, one key", take(&store, 1));
    MEASURE("take, 90,000 keys at random", take(&store, random_number() % 90000));
    MEASURE("take, a flood: always a new key, one evicted", take(&store, random_number() << 20));
    store.destroy(store.user);
    store = store_of(1100000);
    MEASURE("take, 1,000,000 keys at random", take(&store, random_number() % 1000000));
    store.destroy(store.user);
}

/* Two threads at once; wall time of both, divided by what one of them did. */
typedef struct contender {
    const uvhttp_rate_limit_store_t *store;
    uint64_t first, count;
} contender_t;

static void *contend(void *arg) {
    const contender_t *contender = arg;
    for (uint64_t i = 0; i < 3000000; i++) {
        uint64_t number = contender->first + i % contender->count;
        uvhttp_rate_limit_decision_t decision;
        const uvhttp_rate_limit_take_t wanted = {
            .kind = '6', .key = {(const char *)&number, sizeof number}, .now_ns = i, .interval_ns = 10, .burst = 200};
        (void)contender->store->take(contender->store->user, &wanted, &decision);
    }
    return NULL;
}

static void bench_two_threads(const char *name, uint64_t count, uint64_t apart) {
    uvhttp_rate_limit_store_t store = store_of(100000);
    double best = 1e9;
    for (int round = 0; round < 5; round++) {
        contender_t contenders[2] = {{&store, 0, count}, {&store, apart, count}};
        pthread_t threads[2];
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, contend, &contenders[i]) != 0) abort();
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        clock_gettime(CLOCK_MONOTONIC, &end);
        double each = ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / 3000000;
        if (each < best) best = each;
    }
    printf("%-56s %7.1f ns\n", name, best);
    store.destroy(store.user);
}

static size_t resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all, pages = 0;
    if (!file || fscanf(file, "%lu %lu", &all, &pages) != 2) abort();
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void bench_memory(void) {
    enum { KEYS = 1000000 };
    size_t before = resident();
    uvhttp_rate_limit_store_t store = store_of(KEYS);
    for (uint64_t i = 0; i < KEYS; i++) take(&store, i);
    printf("%-56s %7.1f bytes a key\n", "memory of 1,000,000 keys", (double)(resident() - before) / KEYS);
    for (uint64_t i = KEYS; i < 10 * KEYS; i++) take(&store, i);
    printf("%-56s %7.1f bytes a key\n", "... after 10,000,000 others", (double)(resident() - before) / KEYS);
    store.destroy(store.user);
}

/* --- the middleware --- */

/* What a server does when the connection remembers its peer. */
static void read_client(uvhttp_request_t *req, uvhttp__client_t *client) {
    (void)req;
    client->address = uvhttp__peer_of_ip("\177\0\0\1", 4, 50000);
}

static uint64_t read_time_ns(const uvhttp_request_t *req) {
    (void)req;
    return time_ns += 20000;
}

static const uvhttp__request_ops_t ops = {.client = read_client, .time_ns = read_time_ns};
static const uvhttp__response_sink_t sink;

static void bench_middleware(const char *name, uvhttp_rate_limit_options_t options) {
    static char first[2048];
    uvhttp__arena_t arena;
    uvhttp_request_t req;
    uvhttp_response_t res;
    uvhttp__arena_init(&arena, first, sizeof first, 1 << 20);
    uvhttp__request_init(&req, &arena, &ops);
    uvhttp__response_init(&res, &req, &arena, &sink);
    uvhttp_middleware_t limit = uvhttp_rate_limit(&options);
    if (!limit.run) abort();
    MEASURE(name, uvhttp__arena_reset(&arena); uvhttp__request_reset(&req); uvhttp__response_reset(&res);
            (void)limit.run(&req, &res, limit.user));
    limit.destroy(limit.user);
    uvhttp__arena_deinit(&arena);
}

int main(void) {
    bench_memory();
    bench_table();
    bench_two_threads("take, two threads, all for one key", 1, 0);
    bench_two_threads("take, two threads, 1000 keys each", 1000, 1000000);
    const double fast = 1e5;
    bench_middleware(
        "middleware by route, without fields",
        (uvhttp_rate_limit_options_t){.per_second = fast, .by = UVHTTP_RATE_LIMIT_BY_ROUTE, .omit_headers = true});
    bench_middleware("middleware by route",
                     (uvhttp_rate_limit_options_t){.per_second = fast, .by = UVHTTP_RATE_LIMIT_BY_ROUTE});
    bench_middleware("middleware by address, without fields",
                     (uvhttp_rate_limit_options_t){.per_second = fast, .omit_headers = true});
    bench_middleware("middleware by address", (uvhttp_rate_limit_options_t){.per_second = fast});
    bench_middleware("middleware by address, refused", (uvhttp_rate_limit_options_t){.per_second = 1});
    return 0;
}
