/* Owns: numbers with units. May include: base. */
#include "load/units.h"

#include <stdio.h>

static const char *write_unit(load_text_t text, double value, const char *const *units, double step) {
    while (units[1] && value >= step * 0.995) {
        value /= step;
        units++;
    }
    snprintf(text, sizeof(load_text_t), "%.2f%s", value, *units);
    return text;
}

const char *load_write_time(load_text_t text, double ns) {
    static const char *const units[] = {"us", "ms", "s", NULL};
    return write_unit(text, ns / 1000, units, 1000);
}

const char *load_write_count(load_text_t text, double value) {
    static const char *const units[] = {"", "k", "M", "G", NULL};
    return write_unit(text, value, units, 1000);
}

const char *load_write_bytes(load_text_t text, double value) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", NULL};
    return write_unit(text, value, units, 1024);
}
