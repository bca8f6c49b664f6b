/* Owns: histograms in the formats of HdrHistogram: the percentiles as text (.hgrm) and the interval log 1.3 with V2
 * compressed histograms, values in ns with three significant digits. May include: base, io, obs. */
#ifndef UVHTTP_TOOLS_LOAD_HDR_H
#define UVHTTP_TOOLS_LOAD_HDR_H

#include <stdio.h>

#include "obs/histogram.h"

/* Five steps for each halving of what is left to 100 %, in ms. */
void load_hdr_print_percentiles(const uvhttp__histogram_t *histogram, FILE *out);

/* The head of a log that begins at this time since 1970. */
void load_hdr_log_begin(double starts_s, FILE *out);
/* A line of the log; false: out of memory, or without zlib. */
bool load_hdr_log_add(const uvhttp__histogram_t *histogram, double starts_s, double seconds, FILE *out);

/* deflate.c: the zlib format, as much as `size` bytes become. *out_size is the capacity before and the size after; a
 * capacity of LOAD_DEFLATED_MAX(size) is enough. */
#define LOAD_DEFLATED_MAX(size) ((size) + (size) / 1000 + 64)
bool load_deflate(const void *data, size_t size, void *out, size_t *out_size);

#endif
