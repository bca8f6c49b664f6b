/* Owns: see log_line.h. Whatever a client has sent, it stays in its line: nothing in a message can end the line, close
 * its quotes or control a terminal. */
#include "obs/log_line.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json_line.h"

#define AREA_MAX 32 /* bytes of the name before ": " */

/* --- escaping --- */

/* Bytes at `text` that must not reach a terminal or a log file as they are: C0, DEL, and C1 in UTF-8. 0 if none. */
static size_t control_size(const char *text, size_t size) {
    uint8_t c = (uint8_t)*text;
    if (c < 0x20 || c == 0x7f) return 1;
    return c == 0xc2 && size > 1 && ((uint8_t)text[1] & 0xe0) == 0x80 ? 2 : 0;
}

#define PIECE_SIZE 16
#define WHOLE_MAX (UVHTTP_LOG_MESSAGE_MAX - 3) /* bytes of a message in front of "..." */

static int escape(char piece[PIECE_SIZE], const char *control, size_t size) {
    switch (*control) {
        case '\n': return snprintf(piece, PIECE_SIZE, "\\n");
        case '\r': return snprintf(piece, PIECE_SIZE, "\\r");
        case '\t': return snprintf(piece, PIECE_SIZE, "\\t");
        default: break;
    }
    if (size == 1) return snprintf(piece, PIECE_SIZE, "\\x%02x", (uint8_t)control[0]);
    return snprintf(piece, PIECE_SIZE, "\\x%02x\\x%02x", (uint8_t)control[0], (uint8_t)control[1]);
}

/* As uvhttp__json_line_piece, for text. */
static size_t text_piece(const char *text, size_t size, char piece[PIECE_SIZE], size_t *piece_size) {
    size_t control = control_size(text, size);
    piece[0] = *text;
    *piece_size = control ? (size_t)escape(piece, text, control) : 1;
    return control ? control : 1;
}

/* Bytes that stand for themselves in both forms: most of them. */
static size_t plain_size(const char *text, size_t size) {
    size_t at = 0;
    while (at < size && text[at] >= ' ' && text[at] < 0x7f && text[at] != '"' && text[at] != '\\') at++;
    return at;
}

size_t uvhttp__log_escape(uvhttp_log_format_t format, const char *text, size_t size, bool cut,
                          char out[UVHTTP_LOG_MESSAGE_MAX + 1]) {
    size_t used = 0, whole = 0; /* whole: how much may stay when the dots are added */
    for (size_t at = 0; at < size;) {
        size_t left = UVHTTP_LOG_MESSAGE_MAX - used, plain = plain_size(text + at, size - at < left ? size - at : left);
        if (plain > 0) {
            memcpy(out + used, text + at, plain);
            if (used <= WHOLE_MAX) whole = used + plain < WHOLE_MAX ? used + plain : WHOLE_MAX;
            used += plain;
            at += plain;
            continue;
        }
        char piece[PIECE_SIZE];
        size_t piece_size, consumed = format == UVHTTP_LOG_FORMAT_JSON
                                          ? uvhttp__json_line_piece(text + at, size - at, piece, &piece_size)
                                          : text_piece(text + at, size - at, piece, &piece_size);
        if (used + piece_size > UVHTTP_LOG_MESSAGE_MAX) {
            cut = true;
            break;
        }
        bool boundary = ((uint8_t)text[at] & 0xc0) != 0x80; /* not within a UTF-8 sequence */
        if (boundary && used <= WHOLE_MAX) whole = used;
        memcpy(out + used, piece, piece_size);
        used += piece_size;
        at += consumed;
    }
    if (cut) {
        memcpy(out + whole, "...", 3);
        used = whole + 3;
    }
    out[used] = '\0';
    return used;
}

/* --- lines --- */

/* "io" of "io: message"; 0: the message does not begin like that. */
static size_t area_size(const char *message) {
    size_t size = strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return size <= AREA_MAX && message[size] == ':' && message[size + 1] == ' ' ? size : 0;
}

static size_t put_time(char *line, uint64_t now_ns) {
    time_t seconds = (time_t)(now_ns / 1000000000u);
    struct tm utc = {0};
    gmtime_r(&seconds, &utc);
    size_t used = strftime(line, UVHTTP__LOG_LINE_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    return used + (size_t)snprintf(line + used, 8, ".%03uZ", (unsigned)(now_ns / 1000000u % 1000u));
}

static int put_text(char *at, size_t left, const char *level, const char *message, const char *trace_id) {
    return snprintf(at, left, " %-5s %s%s%s\n", level, message, *trace_id ? " trace_id=" : "", trace_id);
}

static int put_json(char *at, size_t left, const char *level, const char *message, const char *trace_id) {
    size_t area = area_size(message);
    return snprintf(at, left, "\",\"level\":\"%s\"%s%.*s%s,\"message\":\"%s\"%s%s%s}\n", level,
                    area ? ",\"area\":\"" : "", (int)area, message, area ? "\"" : "",
                    area ? message + area + 2 : message, *trace_id ? ",\"trace_id\":\"" : "", trace_id,
                    *trace_id ? "\"" : "");
}

size_t uvhttp__log_line(uvhttp_log_format_t format, uvhttp_log_level_t level, const char *message, const char *trace_id,
                        uint64_t now_ns, char line[UVHTTP__LOG_LINE_MAX]) {
    const char *name = uvhttp_log_level_name(level);
    bool json = format == UVHTTP_LOG_FORMAT_JSON;
    static const char head[] = "{\"time\":\"";
    size_t used = json ? sizeof head - 1 : 0;
    memcpy(line, head, used);
    used += put_time(line + used, now_ns);
    size_t left = UVHTTP__LOG_LINE_MAX - used;
    int wrote = (json ? put_json : put_text)(line + used, left, name, message, trace_id);
    assert(wrote > 0 && (size_t)wrote < left);
    return used + (size_t)wrote;
}
