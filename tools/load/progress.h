/* Owns: the line on a terminal that says how a run goes. May include: base, io, obs. */
#ifndef UVHTTP_TOOLS_LOAD_PROGRESS_H
#define UVHTTP_TOOLS_LOAD_PROGRESS_H

#include "load/samples.h"

/* Standard error if it is a terminal that can rewrite a line; else NULL. */
FILE *load_progress_stream(void);

/* Before the window. */
void load_progress_wait(FILE *out, const char *what);
/* After a second; `responses` and `errors` are those of the whole run so far. */
void load_progress_show(FILE *out, const load_options_t *options, const load_sample_t *sample, uint64_t responses,
                        uint64_t errors);
void load_progress_clear(FILE *out);

#endif
