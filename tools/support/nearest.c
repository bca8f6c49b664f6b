#include "support/nearest.h"

#include <string.h>

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Levenshtein's: letters to insert, leave out or replace. */
static size_t distance_between(const char *a, const char *b) {
    size_t row[NEAREST_NAME_SIZE], size = strlen(b);
    for (size_t j = 0; j <= size; j++) row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= size; j++) {
            size_t replaced = diagonal + (a[i] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[size];
}

void nearest_offer(nearest_t *nearest, const char *name) {
    size_t size = strlen(name) + 1;
    if (size > NEAREST_NAME_SIZE || strlen(nearest->wrong) >= NEAREST_NAME_SIZE) return;
    size_t distance = distance_between(nearest->wrong, name);
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    memcpy(nearest->name, name, size);
}
