/* Owns: what is counted. May include: base, obs. */
#include "load/stats.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"

const char *const load_error_names[LOAD_ERROR_KINDS] = {
#define LOAD_ERROR_NAME(name, what) #name,
    LOAD_ERROR_MAP(LOAD_ERROR_NAME)
#undef LOAD_ERROR_NAME
};

const char *const load_error_whats[LOAD_ERROR_KINDS] = {
#define LOAD_ERROR_WHAT(name, what) what,
    LOAD_ERROR_MAP(LOAD_ERROR_WHAT)
#undef LOAD_ERROR_WHAT
};

void load_stats_init(load_stats_t *stats) {
    memset(stats, 0, sizeof *stats);
    uvhttp__histogram_init(&stats->latency);
    uvhttp__histogram_init(&stats->service);
    uvhttp__histogram_init(&stats->connect);
    uvhttp__histogram_init(&stats->rates);
    uvhttp__histogram_init(&stats->lateness);
}

bool load_stats_add_stages(load_stats_t *stats, uint32_t count) {
    stats->stages = uvhttp__alloc_aligned(64, count * sizeof *stats->stages);
    if (!stats->stages) return false;
    memset(stats->stages, 0, count * sizeof *stats->stages);
    for (uint32_t i = 0; i < count; i++) uvhttp__histogram_init(&stats->stages[i].latency);
    stats->stage_count = count;
    return true;
}

void load_stats_deinit(load_stats_t *stats) {
    uvhttp__free_aligned(stats->stages);
    stats->stages = NULL;
    stats->stage_count = 0;
}

void load_stats_merge(load_stats_t *to, const load_stats_t *from) {
    uvhttp__histogram_merge(&to->latency, &from->latency);
    uvhttp__histogram_merge(&to->service, &from->service);
    uvhttp__histogram_merge(&to->connect, &from->connect);
    uvhttp__histogram_merge(&to->rates, &from->rates);
    uvhttp__histogram_merge(&to->lateness, &from->lateness);
    for (uint32_t i = 0; i < to->stage_count; i++) {
        uvhttp__histogram_merge(&to->stages[i].latency, &from->stages[i].latency);
        to->stages[i].due += from->stages[i].due;
        to->stages[i].errors += from->stages[i].errors;
    }
    to->requests += from->requests;
    to->responses += from->responses;
    to->bytes += from->bytes;
    to->timeouts_included += from->timeouts_included;
    to->pending += from->pending;
    to->connections += from->connections;
    to->responses_total += from->responses_total;
    for (size_t i = 0; i < sizeof to->statuses / sizeof *to->statuses; i++) to->statuses[i] += from->statuses[i];
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++) {
        to->errors[kind] += from->errors[kind];
        if (!to->examples[kind][0]) memcpy(to->examples[kind], from->examples[kind], LOAD_EXAMPLE_SIZE);
    }
    to->cpu.user_ns += from->cpu.user_ns;
    to->cpu.system_ns += from->cpu.system_ns;
    to->cpu.switches += from->cpu.switches;
    if (to->start_ns == 0 || from->start_ns < to->start_ns) to->start_ns = from->start_ns;
    if (from->end_ns > to->end_ns) to->end_ns = from->end_ns;
}

uint64_t load_stats_errors(const load_stats_t *stats) {
    uint64_t sum = 0;
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++) sum += stats->errors[kind];
    return sum;
}

double load_stats_error_share(const load_stats_t *stats) {
    uint64_t errors = load_stats_errors(stats);
    uint64_t responded = stats->errors[LOAD_ERROR_status] + stats->errors[LOAD_ERROR_body]; /* these are in responses */
    uint64_t tried = stats->responses_total + errors - responded;
    return errors == 0 ? 0 : tried > errors ? (double)errors / (double)tried : 1;
}

void load_stats_error(load_stats_t *stats, load_error_t kind, uint64_t n, const char *format, ...) {
    stats->errors[kind] += n;
    uint64_t total = atomic_load_explicit(&stats->error_total, memory_order_relaxed);
    atomic_store_explicit(&stats->error_total, total + n, memory_order_relaxed);
    if (stats->stages) stats->stages[stats->stage_now].errors += n;
    if (stats->examples[kind][0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(stats->examples[kind], LOAD_EXAMPLE_SIZE, format, arguments);
    va_end(arguments);
    for (char *c = stats->examples[kind]; *c; c++) /* some come from the server, and go to a terminal */
        if (*c < ' ' || *c > '~') *c = '?';
}

static uint64_t ns_of(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

load_cpu_t load_cpu_now(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0) return (load_cpu_t){0, 0, 0};
    return (load_cpu_t){ns_of(usage.ru_utime), ns_of(usage.ru_stime), (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw)};
}

double load_within_stdev(const uvhttp__histogram_t *histogram) {
    double mean = uvhttp__histogram_mean(histogram), stdev = uvhttp__histogram_stdev(histogram);
    uint64_t inside = 0, count = 0;
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t n = atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        double middle = ((double)uvhttp__histogram_low(i) + (double)uvhttp__histogram_high(i)) / 2;
        count += n;
        if (middle >= mean - stdev && middle <= mean + stdev) inside += n;
    }
    return count ? 100.0 * (double)inside / (double)count : 0;
}
