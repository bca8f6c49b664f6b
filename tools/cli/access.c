/* Owns: lines of requests for a person, made from those in JSON, which have no byte that a terminal would obey. */
#include "cli/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VALUE_SIZE 1024

/* The value of a member, as it stands in the line but for \" and \\. "" if there is none. */
static const char *member(const char *line, const char *name, char value[VALUE_SIZE]) {
    char key[40];
    size_t size = 0;
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(line, key);
    value[0] = '\0';
    if (!at) return value;
    at += strlen(key);
    bool quoted = *at == '"';
    for (at += quoted; *at && size + 1 < VALUE_SIZE; at++) {
        if (quoted ? *at == '"' : (*at == ',' || *at == '}')) break;
        if (quoted && *at == '\\' && (at[1] == '"' || at[1] == '\\')) at++;
        value[size++] = *at;
    }
    value[size] = '\0';
    return value;
}

static const char *size_text(const char *bytes, char text[32]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double size = strtod(bytes, NULL);
    size_t unit = 0;
    for (; size >= 1000 && unit < 4; unit++) size /= 1000;
    snprintf(text, 32, unit && size < 10 ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return text;
}

static const char *duration_text(const char *us, char text[32]) {
    double time = strtod(us, NULL);
    if (time < 1000)
        snprintf(text, 32, "%.0f us", time);
    else if (time < 1000000)
        snprintf(text, 32, time < 10000 ? "%.1f ms" : "%.0f ms", time / 1000);
    else
        snprintf(text, 32, "%.1f s", time / 1000000);
    return text;
}

static const char *color_of(const char *status) {
    switch (*status) {
        case '2': return "\033[32m";
        case '3': return "\033[36m";
        case '4': return "\033[33m";
        default: return "\033[31m";
    }
}

static void local_time(const char *utc, char text[16]) {
    struct tm tm = {0};
    text[0] = '\0';
    if (!strptime(utc, "%Y-%m-%dT%H:%M:%S", &tm)) return;
    time_t seconds = timegm(&tm);
    if (localtime_r(&seconds, &tm)) (void)strftime(text, 16, "%H:%M:%S", &tm);
}

static void write_line(const char *line, bool color) {
    char time[VALUE_SIZE], status[VALUE_SIZE], method[VALUE_SIZE], target[VALUE_SIZE], bytes[VALUE_SIZE],
        duration[VALUE_SIZE], client[VALUE_SIZE], dropped[VALUE_SIZE], clock[16], size[32], took[32];
    const char *dim = color ? "\033[2m" : "", *reset = color ? "\033[0m" : "";
    local_time(member(line, "time", time), clock);
    if (*member(line, "dropped", dropped)) {
        printf("%s  %s requests are not shown: they came faster than they could be written\n", clock, dropped);
        return;
    }
    member(line, "status", status);
    printf("%s%s%s  %s%s%s  %-4s %s  %s%s, %s, %s%s\n", dim, clock, reset, color ? color_of(status) : "", status, reset,
           member(line, "method", method), member(line, "target", target), dim,
           size_text(member(line, "bytes", bytes), size), duration_text(member(line, "duration_us", duration), took),
           member(line, "client", client), reset);
}

void access_write(const char *lines, size_t size, void *user) {
    const access_t *access = user;
    static char line[1 << 16]; /* only the thread of the log comes here; its longest line is shorter */
    while (size > 0) {
        const char *end = memchr(lines, '\n', size);
        size_t length = end ? (size_t)(end - lines) : size, kept = length < sizeof line ? length : sizeof line - 1;
        memcpy(line, lines, kept);
        line[kept] = '\0';
        write_line(line, access->color);
        lines += length + (end != NULL);
        size -= length + (end != NULL);
    }
    (void)fflush(stdout);
}
