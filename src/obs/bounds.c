/* Owns: the bounds of histograms of durations and sizes. May include: base. */
#include "obs/series.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

/* From 5 ms on those that OpenTelemetry advises for http.server.request.duration; below, the same pattern. */
const uint64_t uvhttp__duration_bounds[] = {
    1 * US,   2500,     5 * US,   7500,      10 * US,   25 * US, 50 * US,   75 * US, 100 * US,   250 * US,
    500 * US, 750 * US, 1 * MS,   2500 * US, 5 * MS,    10 * MS, 25 * MS,   50 * MS, 75 * MS,    100 * MS,
    250 * MS, 500 * MS, 750 * MS, 1 * S,     2500 * MS, 5 * S,   7500 * MS, 10 * S,  UINT64_MAX,
};

const uint64_t uvhttp__size_bounds[] = {
    0, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, UINT64_MAX,
};

const uint8_t uvhttp__duration_first[64] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  1,  1,  2,  4,  5,  6,  7,  9,  10, 11, 13, 13,
    14, 15, 16, 17, 18, 20, 21, 22, 24, 24, 25, 27, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28,
};

#undef US
#undef MS
#undef S

static_assert(sizeof uvhttp__duration_bounds / sizeof *uvhttp__duration_bounds == UVHTTP__DURATION_COUNTS,
              "all of them");
static_assert(sizeof uvhttp__size_bounds / sizeof *uvhttp__size_bounds == UVHTTP__SIZE_COUNTS, "all of them");
