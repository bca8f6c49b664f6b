/* Owns: one measurement. May include: base, io, obs, http1. */
#include "load/measure.h"

#include "load/progress.h"
#include "load/thread.h"

static double busiest_thread(const load_run_t *run) {
    double most = 0;
    for (uint32_t i = 0; i < run->thread_count; i++) {
        const load_stats_t *stats = &run->threads[i].stats;
        double elapsed = (double)(stats->end_ns - stats->start_ns);
        double share = elapsed > 0 ? (double)(stats->cpu.user_ns + stats->cpu.system_ns) / elapsed : 0;
        if (share > most) most = share;
    }
    return most;
}

static uint64_t count_missing(const load_run_t *run) {
    uint64_t missing = 0;
    for (uint32_t i = 0; i < run->thread_count && run->options->requests > 0; i++)
        missing += run->threads[i].to_respond;
    return missing;
}

int load_measure(load_measurement_t *measurement, load_plan_t *plan, FILE *hdr_log, FILE *err) {
    load_run_t run;
    const load_options_t *options = plan->options;
    *measurement = (load_measurement_t){.interrupted = false};
    load_stats_init(&measurement->stats);
    load_sampler_init(&measurement->sampler, options, load_progress_stream(), hdr_log);
    if (hdr_log) rewind(hdr_log); /* it holds one measurement: the last */
    int code = load_run_init(&run, plan, err);
    run.sampler = &measurement->sampler;
    if (code == 0 && options->stages.count > 0 && !load_stats_add_stages(&measurement->stats, options->stages.count)) {
        fputs("uvhttp-load: out of memory\n", err);
        code = LOAD_ERROR;
    }
    if (code == 0) code = load_run(&run, err);
    if (code == 0) {
        for (uint32_t i = 0; i < run.thread_count; i++) load_stats_merge(&measurement->stats, &run.threads[i].stats);
        measurement->warmup = run.warmup;
        measurement->engine = uvhttp__loop_engine_name(run.threads[0].loop);
        measurement->busiest = busiest_thread(&run);
        measurement->interrupted = run.interrupted;
        measurement->missing = count_missing(&run);
    }
    load_run_deinit(&run);
    if (code == 0 && measurement->sampler.hdr_failed) {
        fputs("uvhttp-load: --hdr: out of memory\n", err);
        code = LOAD_ERROR;
    }
    return code;
}

void load_measurement_deinit(load_measurement_t *measurement) {
    load_stats_deinit(&measurement->stats);
    load_sampler_deinit(&measurement->sampler);
}

load_result_t load_measurement_result(const load_measurement_t *measurement, const load_plan_t *plan) {
    return (load_result_t){
        .options = plan->options,
        .plan = plan,
        .stats = &measurement->stats,
        .warmup = plan->options->warmup_auto ? &measurement->warmup : NULL,
        .engine = measurement->engine,
        .busiest = measurement->busiest,
        .interrupted = measurement->interrupted,
        .missing = measurement->missing,
        .samples = measurement->sampler.items,
        .sample_count = measurement->sampler.count,
    };
}
