/* uvhttp-load: a load generator on the library's own engines. Owns: the order of things, and the exit code. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "load/compare.h"
#include "load/hdr.h"
#include "load/measure.h"
#include "load/tls.h"

/* The intervals of the log are written while the run continues. */
typedef struct hdr_log {
    FILE *out;
    char *text; /* the C library's */
    size_t size;
} hdr_log_t;

typedef struct outcome {
    load_result_t result;
    const hdr_log_t *log;
} outcome_t;

static void write_json(const outcome_t *outcome, FILE *out) {
    load_report_json(&outcome->result, out);
}

static void write_hgrm(const outcome_t *outcome, FILE *out) {
    load_hdr_print_percentiles(&outcome->result.stats->latency, out);
}

static void write_hdr_log(const outcome_t *outcome, FILE *out) {
    fwrite(outcome->log->text, 1, outcome->log->size, out);
}

typedef struct output {
    const char *option, *path;
    bool in_place; /* a pipe, a device or a link stays what it is: it is written to */
    char draft[4096];
} output_t;

static bool cannot_write(const output_t *output, int error) {
    fprintf(stderr, "uvhttp-load: --%s %s: cannot be written: %s\n", output->option, output->path,
            strerrordesc_np(error));
    return false;
}

/* Whole or not at all: written next to it and then put in its place. */
static bool name_draft(output_t *output, const char *option, const char *path) {
    struct stat info;
    *output = (output_t){.option = option, .path = path};
    output->in_place = lstat(path, &info) == 0 && !S_ISREG(info.st_mode);
    int size = output->in_place ? snprintf(output->draft, sizeof output->draft, "%s", path)
                                : snprintf(output->draft, sizeof output->draft, "%s.%ld", path, (long)getpid());
    return size < (int)sizeof output->draft || cannot_write(output, ENAMETOOLONG);
}

static bool write_file(const outcome_t *outcome, const char *option, const char *path,
                       void (*write)(const outcome_t *, FILE *)) {
    output_t output;
    if (!path) return true;
    if (!name_draft(&output, option, path)) return false;
    FILE *out = fopen(output.draft, "w");
    if (!out) return cannot_write(&output, errno);
    write(outcome, out);
    bool ok = !ferror(out);
    if (fclose(out) == 0 && ok && (output.in_place || rename(output.draft, path) == 0)) return true;
    int error = errno;
    if (!output.in_place) unlink(output.draft);
    return cannot_write(&output, error);
}

/* Before the run, which may be long: whether its result can be written. */
static bool can_write(const char *option, const char *path) {
    output_t output;
    if (!path) return true;
    if (!name_draft(&output, option, path)) return false;
    if (output.in_place) return true;
    FILE *out = fopen(output.draft, "w");
    if (!out) return cannot_write(&output, errno);
    fclose(out);
    unlink(output.draft);
    return true;
}

static bool prints_json(const load_options_t *options) {
    return options->json_path && strcmp(options->json_path, "-") == 0;
}

static bool report(const outcome_t *outcome) {
    const load_options_t *options = outcome->result.options;
    bool ok = true;
    if (prints_json(options)) {
        load_report_json(&outcome->result, stdout);
    } else {
        load_report_text(&outcome->result, stdout);
        ok = write_file(outcome, "json", options->json_path, write_json);
    }
    ok = ok && write_file(outcome, "hdr", options->hgrm_path, write_hgrm) &&
         write_file(outcome, "hdr", options->hdr_log_path, write_hdr_log);
    if (!ok || (fflush(stdout) == 0 && !ferror(stdout))) return ok;
    fprintf(stderr, "uvhttp-load: standard output: %s\n", strerrordesc_np(errno));
    return false;
}

static bool can_report(const load_options_t *options) {
    return (prints_json(options) || can_write("json", options->json_path)) && can_write("hdr", options->hgrm_path) &&
           can_write("hdr", options->hdr_log_path);
}

/* After the report: the exit code, with a line that says why if it is not 0. */
static int judge(const load_result_t *result) {
    const load_options_t *options = result->options;
    const load_stats_t *stats = result->stats;
    uint64_t errors = load_stats_errors(stats);
    if (result->interrupted) return LOAD_INTERRUPTED;
    if (result->capacity && !(result->capacity->rate > 0)) {
        fputs("uvhttp-load: no rate meets the objectives: see the probes\n", stderr);
        return LOAD_MISSED;
    }
    if (result->capacity && !result->capacity->confirmed) {
        fputs("uvhttp-load: the capacity is not confirmed: more time (--capacity=T), or a quieter machine\n", stderr);
        return LOAD_UNSTABLE;
    }
    if (result->capacity) return LOAD_OK;
    if (options->slo.count > 0 && !load_slo_met(&options->slo, stats, load_elapsed_s(result))) {
        fputs("uvhttp-load: an objective of --slo was missed: the result says which\n", stderr);
        return LOAD_MISSED;
    }
    if (errors > 0 && !load_slo_bounds_errors(&options->slo)) {
        fprintf(stderr, "uvhttp-load: %llu errors: the result says which, and the first of each kind\n",
                (unsigned long long)errors);
        return LOAD_ERROR;
    }
    if (stats->responses == 0 || result->missing > 0) {
        fprintf(stderr, "uvhttp-load: %llu responses in the time given: a longer one (-d)?\n",
                (unsigned long long)stats->responses);
        return LOAD_ERROR;
    }
    return LOAD_OK;
}

static int run(load_plan_t *plan, hdr_log_t *log) {
    static load_measurement_t measurement; /* too large for the stack to be a good place */
    static load_capacity_t capacity;
    const load_options_t *options = plan->options;
    int code;
    if (options->finds_capacity)
        code =
            load_find_capacity(&capacity, &measurement, plan, log->out, prints_json(options) ? NULL : stdout, stderr);
    else
        code = load_measure(&measurement, plan, log->out, stderr);
    if (log->out) fflush(log->out);
    if (code == 0) {
        outcome_t outcome = {.result = load_measurement_result(&measurement, plan), .log = log};
        if (options->finds_capacity) {
            outcome.result.capacity = &capacity;
            outcome.result.options = &capacity.options;
        }
        code = report(&outcome) ? judge(&outcome.result) : LOAD_ERROR;
    }
    load_measurement_deinit(&measurement);
    return code;
}

static int run_logged(load_plan_t *plan) {
    hdr_log_t log = {.out = NULL};
    if (plan->options->hdr_log_path && !(log.out = open_memstream(&log.text, &log.size))) {
        fputs("uvhttp-load: out of memory\n", stderr);
        return LOAD_ERROR;
    }
    int code = run(plan, &log);
    if (log.out) fclose(log.out);
    free(log.text);
    return code;
}

int main(int argc, char **argv) {
    load_options_t options;
    int code;
    if (!load_options_parse(&options, argc, argv, stdout, stderr, &code)) return code;
    if (options.compares) return load_compare(&options, stdout, stderr);
    load_plan_t plan;
    code = load_plan_init(&plan, &options, stderr);
    if (code == 0 && options.secure && !(plan.tls = load_tls_context_new(&options, stderr))) code = LOAD_USAGE;
    if (code == 0 && !can_report(&options)) code = LOAD_ERROR;
    if (code == 0) code = load_plan_find_target(&plan, stderr);
    if (code == 0) code = run_logged(&plan);
    if (plan.tls) load_tls_context_free(plan.tls);
    load_plan_deinit(&plan);
    load_options_deinit(&options);
    return code;
}
