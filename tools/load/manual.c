/* Owns: the manual page in roff, made of the text of --help. May include: nothing. */
#include <string.h>

#include "build_info.h"
#include "load/options.h"

#define TEXT_COLUMN 33 /* of the help, where the explanations start */

/* Text in which nothing is a request or an escape. */
static void put_text(FILE *out, const char *text, size_t size) {
    if (size > 0 && (*text == '.' || *text == '\'')) fputs("\\&", out);
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else if (text[i] != ' ' || i + 1 == size || text[i + 1] != ' ') /* columns are for a terminal */
            putc(text[i], out);
    }
    putc('\n', out);
}

static size_t spaces_of(const char *line, size_t size) {
    size_t count = 0;
    while (count < size && line[count] == ' ') count++;
    return count;
}

/* The name ends where two spaces are. */
static size_t name_size(const char *line, size_t size) {
    for (size_t i = 0; i + 1 < size; i++)
        if (line[i] == ' ' && line[i + 1] == ' ') return i;
    return size;
}

static void put_option(FILE *out, const char *line, size_t size) {
    size_t name = name_size(line, size), gap = spaces_of(line + name, size - name);
    fputs(".TP\n.B ", out);
    put_text(out, line, name);
    put_text(out, line + name + gap, size - name - gap);
}

/* A line of help: a heading, an option, or more about the one before. */
static void put_line(FILE *out, const char *line, size_t size) {
    size_t spaces = spaces_of(line, size);
    if (size == 0) return;
    bool heading = spaces == 0 && strncmp(line, "Exit", 4) != 0 && line[0] >= 'A' && line[0] <= 'Z';
    if (heading) {
        fputs(".SS ", out);
        put_text(out, line, size);
    } else if (spaces > 0 && spaces < TEXT_COLUMN && line[spaces] == '-') {
        put_option(out, line + spaces, size - spaces);
    } else {
        if (spaces == 0 && strncmp(line, "Exit", 4) == 0) fputs(".SH EXIT STATUS\n", out);
        put_text(out, line + spaces, size - spaces);
    }
}

void load_write_manual(FILE *out) {
    fputs(".TH UVHTTP\\-LOAD 1 \"\" \"uvhttp " UVHTTP_BUILD_VERSION "\" \"User Commands\"\n"
          ".SH NAME\nuvhttp\\-load \\- load generator for HTTP, HTTP/2, WebSocket and TCP\n"
          ".SH SYNOPSIS\n.B uvhttp\\-load\n[options]\n.I URL\n.br\n"
          ".B uvhttp\\-load \\-\\-compare\n[\\fB\\-\\-threshold\\fR \\fIPERCENT\\fR]\n.I A.json B.json\n"
          ".SH DESCRIPTION\n"
          "Loads the URL (http, https, ws, wss or tcp) and writes rate, latency percentiles and errors.\n"
          ".SH OPTIONS\n",
          out);
    for (const char *line = load_help; *line; line += *line == '\n') {
        size_t size = strcspn(line, "\n");
        put_line(out, line, size);
        line += size;
    }
    fputs(".SH SEE ALSO\n.BR uvhttp (1)\n", out);
}
