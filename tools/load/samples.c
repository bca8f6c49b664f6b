/* Owns: what a run did in each second. May include: base, io, obs. */
#include "load/samples.h"

#include <time.h>

#include "base/alloc.h"
#include "load/hdr.h"
#include "load/progress.h"
#include "load/thread.h"

#define SECOND_NS UINT64_C(1000000000)

void load_sampler_init(load_sampler_t *sampler, const load_options_t *options, FILE *progress, FILE *hdr_log) {
    *sampler = (load_sampler_t){.options = options, .progress = progress, .hdr_log = hdr_log};
    uvhttp__histogram_init(&sampler->before);
}

void load_sampler_deinit(load_sampler_t *sampler) {
    uvhttp__free(sampler->items);
    sampler->items = NULL;
    sampler->count = sampler->capacity = 0;
}

static uint64_t count_errors(const load_run_t *run) {
    uint64_t errors = 0;
    for (uint32_t i = 0; i < run->thread_count; i++)
        errors += atomic_load_explicit(&run->threads[i].stats.error_total, memory_order_relaxed);
    return errors;
}

static uint64_t load_value(const _Atomic uint64_t *value) {
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* now - before. Its least and greatest values are bounds of their buckets. */
static void set_delta(load_sampler_t *sampler) {
    uvhttp__histogram_t *delta = &sampler->delta;
    uint64_t max = uvhttp__histogram_max(&sampler->now);
    uvhttp__histogram_init(delta);
    atomic_store_explicit(&delta->sum, load_value(&sampler->now.sum) - load_value(&sampler->before.sum),
                          memory_order_relaxed);
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t n = load_value(&sampler->now.buckets[i]) - load_value(&sampler->before.buckets[i]);
        if (n == 0) continue;
        uint64_t high = uvhttp__histogram_high(i);
        atomic_store_explicit(&delta->buckets[i], n, memory_order_relaxed);
        if (load_value(&delta->min) == UINT64_MAX)
            atomic_store_explicit(&delta->min, uvhttp__histogram_low(i), memory_order_relaxed);
        atomic_store_explicit(&delta->max, high < max ? high : max, memory_order_relaxed);
    }
}

static bool has_space(load_sampler_t *sampler) {
    if (sampler->count < sampler->capacity) return true;
    uint32_t capacity = sampler->capacity ? sampler->capacity * 2 : 64;
    load_sample_t *items = uvhttp__realloc(sampler->items, capacity * sizeof *items);
    if (!items) return false; /* the samples end here; the totals do not need them */
    sampler->items = items;
    sampler->capacity = capacity;
    return true;
}

static void add_sample(load_sampler_t *sampler, const load_run_t *run, uint64_t end_ns) {
    uvhttp__histogram_init(&sampler->now);
    for (uint32_t i = 0; i < run->thread_count; i++)
        uvhttp__histogram_merge(&sampler->now, &run->threads[i].stats.latency);
    set_delta(sampler);
    uint64_t errors = count_errors(run);
    load_sample_t sample = {
        .at_s = (double)(end_ns - sampler->start_ns) / 1e9,
        .seconds = (double)(end_ns - sampler->last_ns) / 1e9,
        .responses = uvhttp__histogram_count(&sampler->delta),
        .errors = errors - sampler->errors_before,
        .mean_ns = uvhttp__histogram_mean(&sampler->delta),
        .p50_ns = uvhttp__histogram_percentile(&sampler->delta, 50),
        .p99_ns = uvhttp__histogram_percentile(&sampler->delta, 99),
    };
    if (sample.seconds < 1e-3 && sample.responses == 0 && sample.errors == 0) return;
    if (has_space(sampler)) sampler->items[sampler->count++] = sample;
    double starts_s = (double)sampler->starts_ms / 1e3 + sample.at_s - sample.seconds;
    if (sampler->hdr_log && !load_hdr_log_add(&sampler->delta, starts_s, sample.seconds, sampler->hdr_log))
        sampler->hdr_failed = true;
    sampler->responses += sample.responses;
    if (sampler->progress) load_progress_show(sampler->progress, sampler->options, &sample, sampler->responses, errors);
    sampler->errors_before = errors;
    sampler->last_ns = end_ns;
    uvhttp__histogram_init(&sampler->before);
    uvhttp__histogram_merge(&sampler->before, &sampler->now);
}

static void begin(load_sampler_t *sampler, const load_run_t *run, uint64_t window_ns) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t since_ns = uvhttp__clock_ns() - window_ns;
    sampler->starts_ms = ((uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec - since_ns) / 1000000;
    sampler->start_ns = sampler->last_ns = window_ns;
    sampler->errors_begin = sampler->errors_before = count_errors(run);
    if (sampler->hdr_log) load_hdr_log_begin((double)sampler->starts_ms / 1e3, sampler->hdr_log);
}

uint64_t load_sampler_tick(load_sampler_t *sampler, load_run_t *run) {
    uint64_t now = uvhttp__clock_ns(), window_ns = atomic_load(&run->window_ns);
    if (window_ns == 0 || now < window_ns) {
        bool connected = atomic_load(&run->ready) == run->thread_count;
        if (sampler->progress) load_progress_wait(sampler->progress, connected ? "warming up" : "connecting");
        return SECOND_NS;
    }
    if (sampler->start_ns == 0) begin(sampler, run, window_ns);
    /* The rest of a closed loop ends with its window, however late this thread was woken: load_sampler_end. */
    const load_options_t *options = sampler->options;
    if (!options->is_open && now >= sampler->start_ns + options->duration_ns) return SECOND_NS;
    uint64_t next_ns = sampler->start_ns + ((sampler->last_ns - sampler->start_ns) / SECOND_NS + 1) * SECOND_NS;
    if (now >= next_ns) {
        add_sample(sampler, run, now);
        next_ns = sampler->start_ns + ((now - sampler->start_ns) / SECOND_NS + 1) * SECOND_NS;
    }
    return next_ns - now;
}

void load_sampler_end(load_sampler_t *sampler, load_run_t *run) {
    uint64_t window_ns = atomic_load(&run->window_ns), end_ns = 0;
    for (uint32_t i = 0; i < run->thread_count; i++)
        if (run->threads[i].stats.end_ns > end_ns) end_ns = run->threads[i].stats.end_ns;
    if (window_ns > 0) {
        if (sampler->start_ns == 0) begin(sampler, run, window_ns);
        /* Open loop: what came after the window. */
        if (end_ns <= sampler->last_ns) end_ns = uvhttp__clock_ns();
        add_sample(sampler, run, end_ns);
    }
    if (sampler->progress) load_progress_clear(sampler->progress);
}
