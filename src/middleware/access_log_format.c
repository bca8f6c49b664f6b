/* Owns: the lines of the access log. Whatever a client has sent, it stays within its field: nothing in a line can end
 * it, close its quotes or speak to a terminal. May include: base. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json_line.h"
#include "base/str.h"
#include "middleware/access_log.h"

#define NS UINT64_C(1000000000)
#define TIME_SIZE 64 /* bytes that a time can take, terminated */

static const char hex[] = "0123456789abcdef";

static char *put(char *out, const char *text) {
    size_t size = strlen(text);
    memcpy(out, text, size);
    return out + size;
}

static char *put_number(char *out, uint64_t number) {
    return out + uvhttp__write_decimal(out, number);
}

/* The fields' views of an entry. */
static void open_fields(const uvhttp__entry_t *entry, uvhttp_str_t fields[UVHTTP__ENTRY_FIELD_COUNT]) {
    const char *at = (const char *)(entry + 1);
    for (int i = 0; i < UVHTTP__ENTRY_FIELD_COUNT; i++) {
        bool absent = entry->sizes[i] == UVHTTP__ENTRY_ABSENT;
        fields[i] = (uvhttp_str_t){absent ? NULL : at, absent ? 0 : entry->sizes[i]};
        at += fields[i].size;
    }
}

/* --- text --- */

/* Printable ASCII stays, '"' and '\' get a '\', all else is \xHH; so is a space where it would separate. */
static char *put_text(char *out, uvhttp_str_t text, bool cut, bool escape_space) {
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = (uint8_t)text.data[i];
        if (c == '"' || c == '\\') *out++ = '\\';
        if (c >= 127 || c < ' ' || (c == ' ' && escape_space)) {
            *out++ = '\\';
            *out++ = 'x';
            *out++ = hex[c >> 4];
            *out++ = hex[c & 15];
        } else {
            *out++ = (char)c;
        }
    }
    return cut ? put(out, "...") : out;
}

static char *put_field(char *out, const uvhttp__entry_t *entry, const uvhttp_str_t *fields, int field) {
    if (!fields[field].data || fields[field].size == 0) return put(out, "-");
    return put_text(out, fields[field], entry->cut & 1u << field, field == UVHTTP__ENTRY_USER);
}

/* " [10/Oct/2000:13:55:36 +0000]". In English whatever the locale. */
static void write_time(uint64_t second, char text[TIME_SIZE]) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t seconds = (time_t)second;
    struct tm utc = {0};
    gmtime_r(&seconds, &utc);
    snprintf(text, TIME_SIZE, " [%02d/%.3s/%04d:%02d:%02d:%02d +0000]", utc.tm_mday, months + 3 * utc.tm_mon,
             utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

/* A second's text is made once for all of its lines. */
typedef struct second_text {
    uint64_t second; /* 0: none yet */
    char text[TIME_SIZE];
} second_text_t;

static const char *text_of(second_text_t *known, uint64_t second,
                           void (*write)(uint64_t second, char text[TIME_SIZE])) {
    if (known->second != second) {
        write(second, known->text);
        known->second = second;
    }
    return known->text;
}

static char *put_time(char *out, uint64_t real_ns) {
    static _Thread_local second_text_t latest;
    return put(out, text_of(&latest, real_ns / NS, write_time));
}

static char *put_common(char *out, const uvhttp__entry_t *entry, const uvhttp_str_t *fields, uint64_t real_ns) {
    out += uvhttp__peer_text(&entry->client, out);
    out = put(out, " - ");
    out = put_field(out, entry, fields, UVHTTP__ENTRY_USER);
    out = put_time(out, real_ns);
    out = put(out, " \"");
    out = put_field(out, entry, fields, UVHTTP__ENTRY_METHOD);
    out = put(out, " ");
    out = put_field(out, entry, fields, UVHTTP__ENTRY_TARGET);
    out = put(out, " ");
    out = put(out, uvhttp_http_version_name((uvhttp_http_version_t)entry->version));
    out = put(out, "\" ");
    out = put_number(out, entry->status);
    out = put(out, " ");
    return entry->bytes > 0 ? put_number(out, entry->bytes) : put(out, "-");
}

static char *put_combined(char *out, const uvhttp__entry_t *entry, const uvhttp_str_t *fields, uint64_t real_ns) {
    out = put_common(out, entry, fields, real_ns);
    out = put(out, " \"");
    out = put_field(out, entry, fields, UVHTTP__ENTRY_REFERER);
    out = put(out, "\" \"");
    out = put_field(out, entry, fields, UVHTTP__ENTRY_AGENT);
    return put(out, "\"");
}

/* --- JSON (RFC 8259) --- */

static char *put_json(char *out, uvhttp_str_t text, bool cut) {
    *out++ = '"';
    for (size_t i = 0; i < text.size;) {
        size_t size;
        i += uvhttp__json_line_piece(text.data + i, text.size - i, out, &size);
        out += size;
    }
    if (cut) out = put(out, "...");
    *out++ = '"';
    return out;
}

static void write_json_time(uint64_t second, char text[TIME_SIZE]) {
    time_t seconds = (time_t)second;
    struct tm utc = {0};
    gmtime_r(&seconds, &utc);
    snprintf(text, TIME_SIZE, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.", utc.tm_year + 1900, utc.tm_mon + 1,
             utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

static char *put_json_time(char *out, uint64_t real_ns) {
    static _Thread_local second_text_t latest;
    out = put(out, text_of(&latest, real_ns / NS, write_json_time));
    uint32_t us = (uint32_t)(real_ns % NS / 1000);
    for (int i = 5; i >= 0; i--, us /= 10) out[i] = (char)('0' + us % 10);
    return put(out + 6, "Z\"");
}

static char *put_object(char *out, const uvhttp__entry_t *entry, const uvhttp_str_t *fields, uint64_t real_ns) {
    static const char *const names[UVHTTP__ENTRY_FIELD_COUNT] = {"method",     "target", "user",       "referer",
                                                                 "user_agent", "host",   "request_id", "trace_id"};
    out = put_json_time(out, real_ns);
    out = put(out, ",\"client\":\"");
    out += uvhttp__peer_text(&entry->client, out);
    out = put(out, "\",\"protocol\":\"");
    out = put(out, uvhttp_http_version_name((uvhttp_http_version_t)entry->version));
    out = put(out, "\"");
    for (int i = 0; i < UVHTTP__ENTRY_FIELD_COUNT; i++) {
        if (!fields[i].data) continue;
        out = put(out, ",\"");
        out = put(out, names[i]);
        out = put(out, "\":");
        out = put_json(out, fields[i], entry->cut & 1u << i);
    }
    out = put(out, ",\"status\":");
    out = put_number(out, entry->status);
    out = put(out, ",\"bytes\":");
    out = put_number(out, entry->bytes);
    out = put(out, ",\"duration_us\":");
    out = put_number(out, entry->duration_ns / 1000);
    if (entry->aborted) out = put(out, ",\"aborted\":true");
    return put(out, "}");
}

size_t uvhttp__access_line(uvhttp_access_log_format_t format, const uvhttp__entry_t *entry, int64_t real_offset_ns,
                           char line[UVHTTP__ACCESS_LINE_MAX]) {
    uvhttp_str_t fields[UVHTTP__ENTRY_FIELD_COUNT];
    uint64_t real_ns = entry->start_ns + (uint64_t)real_offset_ns;
    open_fields(entry, fields);
    char *end = format == UVHTTP_ACCESS_LOG_COMMON     ? put_common(line, entry, fields, real_ns)
                : format == UVHTTP_ACCESS_LOG_COMBINED ? put_combined(line, entry, fields, real_ns)
                                                       : put_object(line, entry, fields, real_ns);
    *end++ = '\n';
    return (size_t)(end - line);
}

size_t uvhttp__access_dropped_line(uvhttp_access_log_format_t format, uint64_t count, int64_t real_ns,
                                   char line[UVHTTP__ACCESS_LINE_MAX]) {
    if (format == UVHTTP_ACCESS_LOG_JSON) {
        char *end = put_json_time(line, (uint64_t)real_ns);
        return (size_t)(end - line) + (size_t)snprintf(end, 64, ",\"dropped\":%" PRIu64 "}\n", count);
    }
    char *end = put_time(put(line, "- - -"), (uint64_t)real_ns);
    const char *rest = format == UVHTTP_ACCESS_LOG_COMBINED ? " \"-\" \"-\"" : "";
    return (size_t)(end - line) +
           (size_t)snprintf(end, 96, " \"uvhttp: %" PRIu64 " requests dropped here\" 0 -%s\n", count, rest);
}
