/* Owns: the distribution of latencies as bars of text. May include: base, obs. */
#include "load/bars.h"

enum { WIDTH = 40, BOUNDS_MAX = 64 };

typedef struct bars {
    uint64_t bounds[BOUNDS_MAX + 1]; /* row i holds the values from bounds[i] to below bounds[i + 1] */
    uint64_t counts[BOUNDS_MAX];
    unsigned rows;
} bars_t;

/* The rows from the one of min to the one of max. */
static void set_bounds(bars_t *bars, uint64_t min, uint64_t max, bool by_tens) {
    static const unsigned steps[] = {1, 2, 5};
    bars->rows = 0;
    unsigned at = 0;
    for (uint64_t power = 1; power <= UINT64_C(1000000000000000000); power *= 10) {
        for (unsigned i = 0; i < (by_tens ? 1 : 3); i++) {
            uint64_t bound = power * steps[i];
            if (bound <= min) at = 0; /* the rows below are empty */
            bars->bounds[at] = bound;
            bars->rows = at++;
            if (bound > max) return;
        }
        if (power == UINT64_C(1000000000000000000)) break;
    }
    bars->bounds[++bars->rows] = UINT64_MAX;
}

static const char *write_bound(char text[16], uint64_t ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    unsigned unit = 0;
    for (; ns >= 1000 && unit < 3; ns /= 1000) unit++;
    snprintf(text, 16, "%u%s", (unsigned)ns, units[unit]);
    return text;
}

static void print_row(const bars_t *bars, unsigned row, uint64_t total, uint64_t most, FILE *out) {
    char low[16], high[16];
    unsigned width = (unsigned)((double)bars->counts[row] * WIDTH / (double)most + 0.5);
    if (width == 0 && bars->counts[row] > 0) width = 1;
    fprintf(out, "  %7s - %-6s %7.3f%% ", write_bound(low, bars->bounds[row]), write_bound(high, bars->bounds[row + 1]),
            100.0 * (double)bars->counts[row] / (double)total);
    for (; width > 0; width--) fputc('#', out);
    fputc('\n', out);
}

void load_bars_print(const uvhttp__histogram_t *histogram, FILE *out) {
    bars_t bars = {.rows = 0};
    uint64_t min = uvhttp__histogram_min(histogram), max = uvhttp__histogram_max(histogram), total = 0, most = 0;
    set_bounds(&bars, min, max, false);
    if (bars.rows > LOAD_BARS_MAX) set_bounds(&bars, min, max, true);
    unsigned row = 0;
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t n = atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        if (n == 0) continue;
        uint64_t middle = uvhttp__histogram_low(i) + (uvhttp__histogram_high(i) - uvhttp__histogram_low(i)) / 2;
        while (row + 1 < bars.rows && middle >= bars.bounds[row + 1]) row++;
        bars.counts[row] += n;
        total += n;
        if (bars.counts[row] > most) most = bars.counts[row];
    }
    for (row = 0; total > 0 && row < bars.rows && row < LOAD_BARS_MAX; row++) print_row(&bars, row, total, most, out);
}
