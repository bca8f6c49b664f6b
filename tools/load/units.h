/* Owns: numbers with units, as wrk writes them. May include: base. */
#ifndef UVHTTP_TOOLS_LOAD_UNITS_H
#define UVHTTP_TOOLS_LOAD_UNITS_H

typedef char load_text_t[24];

/* Each writes `text` and returns it. */
const char *load_write_time(load_text_t text, double ns);
const char *load_write_count(load_text_t text, double value);
const char *load_write_bytes(load_text_t text, double value);

#endif
