/* Owns: the comparison of two results (--compare). May include: base, io. */
#ifndef UVHTTP_TOOLS_LOAD_COMPARE_H
#define UVHTTP_TOOLS_LOAD_COMPARE_H

#include <stdio.h>

#include "load/options.h"

enum { LOAD_COMPARED_SAMPLES_MIN = 5 };

/* The ratio of the means of two series, b by a, with the interval of 95 %. */
typedef struct load_ratio {
    double ratio, low, high;
    bool has_interval; /* there are enough samples */
} load_ratio_t;

typedef enum load_samples_kind { LOAD_SAMPLES_TIMES, LOAD_SAMPLES_RATES } load_samples_kind_t;

/* The logarithms are compared by Welch's test, and correlated samples count for less. Values that are not positive are
 * left out, except a rate of zero, which counts in the mean of rates. */
load_ratio_t load_ratio_of(load_samples_kind_t kind, const double *a, size_t a_count, const double *b, size_t b_count);

/* Prints the comparison. Returns LOAD_OK, LOAD_MISSED (with a threshold: b is worse), LOAD_UNSTABLE (with a threshold:
 * too few samples) or LOAD_USAGE after a line on `err`. */
int load_compare(const load_options_t *options, FILE *out, FILE *err);

#endif
