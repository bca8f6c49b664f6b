/* Owns: the line on a terminal that says how a run goes. May include: base, io, obs. */
#include "load/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load/units.h"

#define CLEAR "\r\033[K"

FILE *load_progress_stream(void) {
    const char *terminal = getenv("TERM");
    bool can = terminal && strcmp(terminal, "dumb") != 0 && isatty(STDERR_FILENO);
    return can ? stderr : NULL;
}

/* Errors in red, unless NO_COLOR is set and not empty (no-color.org). */
static bool has_color(void) {
    const char *no = getenv("NO_COLOR");
    return !no || !*no;
}

void load_progress_wait(FILE *out, const char *what) {
    fprintf(out, CLEAR "  %s", what);
    fflush(out);
}

static void print_rest(FILE *out, const load_options_t *options, double at_s, uint64_t responses) {
    load_text_t done, all;
    double left_s = (double)options->duration_ns / 1e9 - at_s;
    if (options->requests > 0)
        fprintf(out, "%s of %s", load_write_count(done, (double)responses),
                load_write_count(all, (double)options->requests));
    else if (left_s > 0.001)
        fprintf(out, "%.0fs left", ceil(left_s));
    else
        fputs("waiting for the last responses", out);
}

void load_progress_show(FILE *out, const load_options_t *options, const load_sample_t *sample, uint64_t responses,
                        uint64_t errors) {
    load_text_t rate, p99;
    bool red = errors > 0 && has_color();
    double per_second = sample->seconds > 0 ? (double)sample->responses / sample->seconds : 0;
    fprintf(out, CLEAR "  %.0fs  %s/s  P99 %s  %s%llu errors%s  ", sample->at_s, load_write_count(rate, per_second),
            load_write_time(p99, (double)sample->p99_ns), red ? "\033[31m" : "", (unsigned long long)errors,
            red ? "\033[0m" : "");
    print_rest(out, options, sample->at_s, responses);
    fflush(out);
}

void load_progress_clear(FILE *out) {
    fputs(CLEAR, out);
    fflush(out);
}
