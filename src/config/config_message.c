/* Owns: messages about a configuration: quoting what is wrong, the nearest right name, a line for each problem. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/config.h"

#define NAME_SIZE_MAX 64 /* longer ones are like nothing */
#define REST_SIZE 24     /* bytes of the last line, "and 12345 more" */
#define LINE_SIZE 512

const char *uvhttp__config_shown(const char *text, char *shown) {
    size_t size = strlen(text), end = size;
    bool cut = size >= UVHTTP__CONFIG_SHOWN_SIZE;
    if (cut) {
        end = UVHTTP__CONFIG_SHOWN_SIZE - sizeof "...";
        while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) end--;
    }
    for (size_t i = 0; i < end; i++) {
        unsigned char byte = (unsigned char)text[i];
        shown[i] = (char)(byte < 0x20 || byte == 0x7f ? '?' : byte);
    }
    memcpy(shown + end, cut ? "..." : "", cut ? 4 : 1);
    return shown;
}

/* --- the nearest name --- */

/* An option writes "-" where a field has "_", and an environment variable is in upper case. */
static char folded(char letter) {
    return letter == '-' ? '_' : uvhttp__char_lower(letter);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Levenshtein's: letters to insert, leave out or replace. */
static size_t distance_between(const char *a, const char *b) {
    size_t b_size = strlen(b), row[NAME_SIZE_MAX + 1];
    for (size_t j = 0; j <= b_size; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t replaced = diagonal + (folded(a[i - 1]) != folded(b[j - 1]));
            diagonal = row[j];
            row[j] = smaller(replaced, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_size];
}

/* A third of the letters may be wrong, but not more than four. */
uvhttp__nearest_t uvhttp__nearest(const char *wrong) {
    size_t size = strlen(wrong);
    return (uvhttp__nearest_t){wrong, NULL, size > NAME_SIZE_MAX ? 0 : smaller((size + 2) / 3, 4) + 1};
}

void uvhttp__nearest_offer(uvhttp__nearest_t *nearest, const char *name) {
    size_t size = strlen(name), wrong_size = strlen(nearest->wrong);
    size_t least = size > wrong_size ? size - wrong_size : wrong_size - size; /* no distance is smaller */
    if (least >= nearest->distance || size > NAME_SIZE_MAX) return;
    size_t distance = distance_between(nearest->wrong, name);
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    nearest->name = name;
}

const char *uvhttp__nearest_hint(const uvhttp__nearest_t *nearest, char *hint) {
    if (!nearest->name) return "";
    snprintf(hint, UVHTTP__NEAREST_HINT_SIZE, ", did you mean \"%s\"?", nearest->name);
    return hint;
}

/* --- problems --- */

uvhttp__problems_t uvhttp__problems(char *message, size_t size) {
    if (message && size > 0) *message = '\0';
    return (uvhttp__problems_t){.message = message, .size = message ? size : 0};
}

void uvhttp__problems_add(uvhttp__problems_t *problems, const char *format, ...) {
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    bool first = problems->count++ == 0;
    size_t capacity = problems->size - problems->used;
    if (!first && (problems->left_out > 0 || strlen(line) + 1 + REST_SIZE >= capacity)) {
        problems->left_out++;
        return;
    }
    if (capacity == 0) return;
    size_t keep =
        first && capacity > REST_SIZE + 1 ? capacity - REST_SIZE : capacity; /* the first one even if it is cut */
    (void)snprintf(problems->message + problems->used, keep, "%s%s", first ? "" : "\n", line);
    problems->used += strlen(problems->message + problems->used);
}

int uvhttp__problems_end(uvhttp__problems_t *problems) {
    if (problems->left_out > 0 && problems->used + REST_SIZE <= problems->size)
        (void)snprintf(problems->message + problems->used, REST_SIZE, "\nand %u more", problems->left_out);
    return problems->count == 0 ? UVHTTP_OK : UVHTTP_E_CONFIG;
}
