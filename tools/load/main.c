/* uvhttp-load: a load generator on the library's own engines. Owns: the order of things, and the exit code. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "load/report.h"
#include "load/tls.h"

/* Whole or not at all: written beside it and then put in its place. */
static bool write_json_file(const load_result_t *result, const char *path) {
    char draft[4096];
    int size = snprintf(draft, sizeof draft, "%s.%ld", path, (long)getpid());
    FILE *out = size < (int)sizeof draft ? fopen(draft, "w") : NULL;
    if (out) {
        load_report_json(result, out);
        bool ok = !ferror(out);
        if (fclose(out) == 0 && ok && rename(draft, path) == 0) return true;
        unlink(draft);
    }
    fprintf(stderr, "uvhttp-load: --json %s: can not be written: %s\n", path, strerrordesc_np(errno));
    return false;
}

static bool report(const load_result_t *result) {
    const char *path = result->options->json_path;
    if (path && strcmp(path, "-") == 0) {
        load_report_json(result, stdout);
    } else {
        load_report_text(result, stdout);
        if (path && !write_json_file(result, path)) return false;
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    fprintf(stderr, "uvhttp-load: standard output: %s\n", strerrordesc_np(errno));
    return false;
}

static double busiest_thread(const load_run_t *run) {
    double most = 0;
    for (uint32_t i = 0; i < run->worker_count; i++) {
        const load_stats_t *stats = &run->workers[i].stats;
        double elapsed = (double)(stats->end_ns - stats->begin_ns);
        double share = elapsed > 0 ? (double)(stats->cpu.user_ns + stats->cpu.system_ns) / elapsed : 0;
        if (share > most) most = share;
    }
    return most;
}

static int finish(const load_run_t *run, const load_plan_t *plan) {
    static load_stats_t all; /* too large for the stack to be a good place */
    load_stats_init(&all);
    for (uint32_t i = 0; i < run->worker_count; i++) load_stats_merge(&all, &run->workers[i].stats);
    const load_result_t result = {
        .options = run->options,
        .plan = plan,
        .stats = &all,
        .warmup = run->options->warmup_auto ? &run->warmup : NULL,
        .engine = uvhttp__loop_engine_name(run->workers[0].loop),
        .busiest = busiest_thread(run),
        .interrupted = run->interrupted,
    };
    if (!report(&result)) return LOAD_ERROR;
    if (run->interrupted) return LOAD_INTERRUPTED;
    uint64_t errors = load_stats_errors(&all), wanted = run->options->requests;
    if (errors > 0) {
        fprintf(stderr, "uvhttp-load: %llu errors: the result says which, and the first of each kind\n",
                (unsigned long long)errors);
        return LOAD_ERROR;
    }
    if (all.answers == 0 || all.answers < wanted) {
        fprintf(stderr, "uvhttp-load: %llu answers in the time given: a longer one (-d)?\n",
                (unsigned long long)all.answers);
        return LOAD_ERROR;
    }
    return LOAD_OK;
}

static int run_plan(load_plan_t *plan) {
    load_run_t run;
    int code = load_run_init(&run, plan, stderr);
    if (code == 0) code = load_run(&run, stderr);
    if (code == 0) code = finish(&run, plan);
    load_run_deinit(&run);
    return code;
}

int main(int argc, char **argv) {
    load_options_t options;
    int code;
    if (!load_options_parse(&options, argc, argv, stdout, stderr, &code)) return code;
    load_plan_t plan;
    code = load_plan_init(&plan, &options, stderr);
    if (code == 0 && options.secure && !(plan.tls = load_tls_context_new(&options, stderr))) code = LOAD_USAGE;
    if (code == 0) code = load_plan_find_target(&plan, stderr);
    if (code == 0) code = run_plan(&plan);
    if (plan.tls) load_tls_context_free(plan.tls);
    load_plan_deinit(&plan);
    load_options_deinit(&options);
    return code;
}
