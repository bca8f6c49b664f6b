/* Owns: the page of a directory. Runs on helper threads. May include: base. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "handler/static.h"

/* --- text that grows --- */

typedef struct text {
    char *data;
    size_t size, capacity;
    bool failed; /* out of memory */
} text_t;

static void add_bytes(text_t *text, const char *data, size_t size) {
    if (text->failed) return;
    if (text->size + size > text->capacity) {
        size_t capacity = (text->size + size) * 2 + 4096;
        char *grown = uvhttp__realloc(text->data, capacity);
        if (!grown) {
            text->failed = true;
            return;
        }
        text->data = grown;
        text->capacity = capacity;
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
}

static void add(text_t *text, const char *literal) {
    add_bytes(text, literal, strlen(literal));
}

/* As text or in a quoted attribute. */
static void add_html(text_t *text, const char *plain) {
    for (; *plain; plain++) {
        switch (*plain) {
            case '<': add(text, "&lt;"); break;
            case '>': add(text, "&gt;"); break;
            case '&': add(text, "&amp;"); break;
            case '"': add(text, "&quot;"); break;
            case '\'': add(text, "&#39;"); break;
            default: add_bytes(text, plain, 1);
        }
    }
}

/* A path segment of a relative reference; "./" before it, so that a ':' in it makes no scheme. */
static void add_link(text_t *text, const char *name) {
    static const char hex[] = "0123456789ABCDEF";
    add(text, "./");
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c);
        if (plain)
            add_bytes(text, name, 1);
        else
            add_bytes(text, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
}

/* --- names --- */

typedef struct item {
    char *name;
    bool directory;
    uint64_t size;
    int64_t modified; /* Unix seconds */
} item_t;

typedef struct items {
    item_t *data;
    uint32_t count;
    bool cut; /* there are more */
} items_t;

static int by_name(const void *a, const void *b) {
    const item_t *x = a, *y = b;
    if (x->directory != y->directory) return x->directory ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void items_free(items_t *items) {
    for (uint32_t i = 0; i < items->count; i++) uvhttp__free(items->data[i].name);
    uvhttp__free(items->data);
}

/* Whether a link is what it looks like is not asked: it would be a way to look outside. */
static bool take(const uvhttp_static_options_t *options, int fd, const char *name, item_t *item) {
    struct stat info;
    if (name[0] == '.' && (!options->dot_files || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)) return false;
    if (!uvhttp__static_path_valid((uvhttp_str_t){name, strlen(name)}, options->dot_files)) return false;
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && (options->no_symlinks || !S_ISLNK(info.st_mode)))
        return false;
    *item = (item_t){.directory = S_ISDIR(info.st_mode),
                     .size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0,
                     .modified = info.st_mtim.tv_sec};
    return true;
}

/* Returns 0 or a status. */
static int read_items(const uvhttp_static_options_t *options, DIR *stream, items_t *items) {
    items->data = uvhttp__calloc(options->list_entries_max, sizeof *items->data);
    if (!items->data) return 503;
    for (;;) {
        errno = 0;
        const struct dirent *found = readdir(stream);
        if (!found) return errno ? 500 : 0;
        item_t item;
        if (!take(options, dirfd(stream), found->d_name, &item)) continue;
        if (items->count == options->list_entries_max) {
            items->cut = true;
            return 0;
        }
        size_t size = strlen(found->d_name) + 1;
        item.name = uvhttp__malloc(size);
        if (!item.name) return 503;
        memcpy(item.name, found->d_name, size);
        items->data[items->count++] = item;
    }
}

/* --- the page --- */

static void add_size(text_t *text, uint64_t size) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    char line[32];
    size_t unit = 0;
    double shown = (double)size;
    for (; shown >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++) shown /= 1000;
    snprintf(line, sizeof line, unit && shown < 10 ? "%.1f %s" : "%.0f %s", shown, units[unit]);
    add(text, line);
}

static void add_row(text_t *text, const item_t *item) {
    add(text, "<tr><td><a href=\"");
    add_link(text, item->name);
    if (item->directory) add(text, "/");
    add(text, "\">");
    add_html(text, item->name);
    add(text, item->directory ? "/</a></td><td></td><td>" : "</a></td><td>");
    if (!item->directory) add_size(text, item->size);
    if (!item->directory) add(text, "</td><td>");
    struct tm tm;
    char date[32] = "";
    time_t seconds = (time_t)item->modified;
    if (gmtime_r(&seconds, &tm)) (void)strftime(date, sizeof date, "%Y-%m-%d %H:%M", &tm);
    add(text, date);
    add(text, "</td></tr>\n");
}

static void add_page(text_t *text, const char *path, const items_t *items) {
    add(text, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
              "<meta name=\"viewport\" content=\"width=device-width\"><title>/");
    add_html(text, path);
    add(text, "</title><style>:root{color-scheme:light dark}"
              "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
              "h1{font-size:1.3em;font-weight:600;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}"
              "td,th{padding:.3em .6em;text-align:left;border-bottom:1px solid #8883}"
              "td:nth-child(2),td:nth-child(3),th:nth-child(2),th:nth-child(3){text-align:right;white-space:nowrap;"
              "color:GrayText;font-variant-numeric:tabular-nums}td:first-child{overflow-wrap:anywhere}"
              "a{text-decoration:none}a:hover{text-decoration:underline}tr:hover td{background:#8881}"
              "</style></head><body>\n<h1>/");
    add_html(text, path);
    add(text, "</h1>\n<table><thead><tr><th>Name</th><th>Size</th><th>Modified (UTC)</th></tr></thead><tbody>\n");
    if (*path) add(text, "<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    for (uint32_t i = 0; i < items->count; i++) add_row(text, &items->data[i]);
    add(text, "</tbody></table>\n");
    if (items->cut) add(text, "<p>There are more names than this page shows.</p>\n");
    add(text, "</body></html>\n");
}

/* The page is as new as what it shows. */
static struct stat date_of(const struct stat *info, const items_t *items) {
    struct stat dated = *info;
    for (uint32_t i = 0; i < items->count; i++)
        if (items->data[i].modified > dated.st_mtim.tv_sec)
            dated.st_mtim = (struct timespec){.tv_sec = items->data[i].modified};
    return dated;
}

int uvhttp__static_list(const uvhttp_static_options_t *options, int fd, const char *path, struct stat *info,
                        char **page, size_t *size) {
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        return 503;
    }
    items_t items = {.count = 0};
    text_t text = {.data = NULL};
    int status = read_items(options, stream, &items);
    closedir(stream);
    if (status == 0) {
        qsort(items.data, items.count, sizeof *items.data, by_name);
        add_page(&text, path, &items);
        if (text.failed) status = 503;
    }
    *info = date_of(info, &items);
    items_free(&items);
    if (status != 0) {
        uvhttp__free(text.data);
        return status;
    }
    *page = text.data;
    *size = text.size;
    return 200;
}
