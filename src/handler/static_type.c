/* Owns: Content-Type and Cache-Control by name. May include: base. */
#include <stdlib.h>

#include "base/str.h"
#include "handler/static.h"

#define TEXT(type) type "; charset=utf-8"

/* Sorted by extension. */
static const uvhttp_static_type_t types[] = {
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apng", "image/apng"},
    {"appcache", TEXT("text/cache-manifest")},
    {"atom", "application/atom+xml"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bin", "application/octet-stream"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", TEXT("text/plain")},
    {"cjs", TEXT("text/javascript")},
    {"conf", TEXT("text/plain")},
    {"css", TEXT("text/css")},
    {"csv", TEXT("text/csv")},
    {"deb", "application/vnd.debian.binary-package"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eot", "application/vnd.ms-fontobject"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h", TEXT("text/plain")},
    {"htm", TEXT("text/html")},
    {"html", TEXT("text/html")},
    {"ico", "image/x-icon"},
    {"ics", TEXT("text/calendar")},
    {"jar", "application/java-archive"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", TEXT("text/javascript")},
    {"json", "application/json"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"log", TEXT("text/plain")},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"map", "application/json"},
    {"md", TEXT("text/markdown")},
    {"mid", "audio/midi"},
    {"mjs", TEXT("text/javascript")},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpd", "application/dash+xml"},
    {"mpeg", "video/mpeg"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"rar", "application/vnd.rar"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "video/mp2t"},
    {"ttf", "font/ttf"},
    {"txt", TEXT("text/plain")},
    {"vtt", TEXT("text/vtt")},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xsl", "application/xslt+xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

#define EXTENSION_MAX 16 /* bytes with the terminator */

/* The extension of the last name, in lower case; "" if there is none. */
static void extension_of(const char *path, char extension[EXTENSION_MAX]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    extension[0] = '\0';
    if (!dot || dot == name || strlen(dot + 1) >= EXTENSION_MAX) return;
    size_t size = strlen(dot + 1);
    for (size_t i = 0; i <= size; i++) extension[i] = uvhttp__char_lower(dot[1 + i]);
}

static int compare(const void *extension, const void *row) {
    return strcmp(extension, ((const uvhttp_static_type_t *)row)->extension);
}

const char *uvhttp__static_type(const uvhttp_static_options_t *options, const char *path) {
    const char *dot = strrchr(path, '.');
    for (const uvhttp_static_type_t *row = options->types; dot && row && row->extension; row++)
        if (uvhttp__str_equal_nocase(uvhttp__str_from(row->extension), uvhttp__str_from(dot + 1))) return row->type;
    char extension[EXTENSION_MAX];
    extension_of(path, extension);
    const uvhttp_static_type_t *found = bsearch(extension, types, sizeof types / sizeof *types, sizeof *types, compare);
    return found ? found->type : options->default_type;
}

bool uvhttp__static_pattern_fits(const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL; /* the last star, and the text it has not swallowed yet */
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

bool uvhttp__static_name_is_hashed(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    if (!dot) return false;
    const char *at = dot;
    bool digit = false; /* words such as "defaced" are no hashes */
    while (at > name && uvhttp__hex_value(at[-1]) >= 0) {
        --at;
        digit |= *at >= '0' && *at <= '9';
    }
    return dot - at >= 8 && digit && at > name && strchr(".-_", at[-1]);
}

const char *uvhttp__static_cache_control(const uvhttp_static_options_t *options, const char *path) {
    /* Without "public", which would let shared caches keep what was sent to a client with credentials. */
    if (options->immutable_hashed && uvhttp__static_name_is_hashed(path)) return "max-age=31536000, immutable";
    for (const uvhttp_static_rule_t *rule = options->rules; rule && rule->pattern; rule++)
        if (uvhttp__static_pattern_fits(rule->pattern, path)) return rule->cache_control;
    return "";
}
