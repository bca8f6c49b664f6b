/* Owns: the ramps of an open loop. May include: base. */
#include "load/stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/options.h"

static const char expected[] = "expected stages such as 10s:1000,30s:5000,10s:0 (duration:rate at its end)";

static const char *add_stage(load_stages_t *stages, const char *duration, const char *rate_text) {
    load_stage_t *stage = &stages->items[stages->count];
    double rate;
    if (!load_parse_duration(duration, &stage->duration_ns)) return expected;
    if (!load_parse_rate(rate_text, &rate)) return expected;
    stage->rate_begin = stages->count > 0 ? stage[-1].rate_end : 0;
    stage->rate_end = rate;
    stage->start_ns = stages->duration_ns;
    stage->count_begin = stages->requests;
    stages->duration_ns += stage->duration_ns;
    stages->requests += (double)stage->duration_ns / 1e9 * (stage->rate_begin + stage->rate_end) / 2;
    stages->count++;
    return NULL;
}

const char *load_stages_parse(load_stages_t *stages, const char *text) {
    *stages = (load_stages_t){.count = 0};
    while (*text) {
        char item[64];
        size_t size = strcspn(text, ",");
        if (stages->count == LOAD_STAGES_MAX) return "at most 32 stages";
        if (size >= sizeof item) return expected;
        memcpy(item, text, size);
        item[size] = '\0';
        char *colon = strchr(item, ':');
        if (!colon) return expected;
        *colon = '\0';
        const char *wrong = add_stage(stages, item, colon + 1);
        if (wrong) return wrong;
        text += size;
        if (*text == ',' && *++text == '\0') return expected;
    }
    if (stages->count == 0) return expected;
    return stages->requests >= 1 ? NULL : "no request is due in these stages";
}

/* Of the requests of a stage: when the y-th is due. The root of rate_begin * t + slope * t * t / 2 = y, in the form
 * that does not subtract nearly equal numbers. */
static double solve(const load_stage_t *stage, double y) {
    double seconds = (double)stage->duration_ns / 1e9;
    double slope = (stage->rate_end - stage->rate_begin) / seconds;
    double square = stage->rate_begin * stage->rate_begin + 2 * slope * y;
    double root = square > 0 ? sqrt(square) : 0;
    double divisor = stage->rate_begin + root;
    double elapsed = divisor > 0 ? 2 * y / divisor : 0;
    return elapsed < seconds ? elapsed : seconds;
}

uint64_t load_stages_due(const load_stages_t *stages, double n, uint32_t *at) {
    if (!(n < stages->requests)) return UINT64_MAX;
    while (*at + 1 < stages->count && n >= stages->items[*at + 1].count_begin) ++*at;
    const load_stage_t *stage = &stages->items[*at];
    return stage->start_ns + (uint64_t)(solve(stage, n - stage->count_begin) * 1e9);
}

uint32_t load_stages_find(const load_stages_t *stages, uint64_t elapsed_ns) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < stages->count; i++)
        if (stages->items[i].duration_ns > 0 && stages->items[i].start_ns <= elapsed_ns) at = i;
    return at;
}
