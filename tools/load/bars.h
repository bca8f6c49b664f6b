/* Owns: the distribution of latencies as bars of text. May include: base, obs. */
#ifndef UVHTTP_TOOLS_LOAD_BARS_H
#define UVHTTP_TOOLS_LOAD_BARS_H

#include <stdio.h>

#include "obs/histogram.h"

enum { LOAD_BARS_MAX = 12 };

/* At most LOAD_BARS_MAX lines, a range of values each, and nothing for an empty histogram. The ranges grow by 1, 2, 5,
 * 10 and so on, or by tens if those would be too many. Values are ns. */
void load_bars_print(const uvhttp__histogram_t *histogram, FILE *out);

#endif
