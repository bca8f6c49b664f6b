/* Owns: the page of a directory, in HTML that needs no script. May include: base. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/format.h"
#include "base/str.h"
#include "handler/static.h"
#include "handler/static_list.h"

typedef uvhttp__static_item_t item_t;
typedef uvhttp__static_items_t items_t;
typedef uvhttp__static_order_t order_t;

/* UVHTTP__STATIC_PAGE_POLICY has the hash of this text: after a change test_static.py shows the new one. */
static const char style[] =
    ":root{color-scheme:light dark;--b:#fff;--t:#1f2328;--m:#656d76;--l:#d8dee4;--h:#f3f6f9;--a:#0757b8;--f:#e0a62a;"
    "--i:#8a94a0}"
    "@media(prefers-color-scheme:dark){:root{--b:#0f1419;--t:#e4e8ec;--m:#95a0ab;--l:#2b333c;--h:#1a2129;--a:#7db7ff;"
    "--f:#d9a032;--i:#7a8591}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:62rem;padding:1.5rem 1rem 3rem;background:var(--b);color:var(--t);"
    "font:1rem/1.45 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",\"DejaVu Sans\",sans-serif}"
    "a{color:var(--a);text-decoration:none}a:hover{text-decoration:underline}"
    ":focus-visible{outline:2px solid var(--a);outline-offset:2px;border-radius:4px}"
    "header{display:flex;flex-wrap:wrap;gap:.75rem 1.5rem;align-items:center;justify-content:space-between}"
    "ol{display:flex;flex-wrap:wrap;list-style:none;margin:0;padding:0;font-size:1.15rem;overflow-wrap:anywhere}"
    "li+li::before{content:\"/\";color:var(--m);padding:0 .4em}"
    "li:last-child a{color:var(--t);font-weight:600}"
    "form{display:flex;gap:.4rem}"
    "input,button{font:inherit;font-size:.95rem;padding:.35rem .7rem;border:1px solid var(--l);border-radius:6px;"
    "background:var(--b);color:var(--t);min-width:0}"
    "input{width:13rem}button{background:var(--h);cursor:pointer}"
    "p{color:var(--m);font-size:.9rem;margin:.9rem 0}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th,td{padding:.42rem .6rem;text-align:left;border-bottom:1px solid var(--l)}"
    "th{font-size:.85rem;font-weight:600}th a{color:var(--m)}"
    "th[aria-sort] a{color:var(--t)}"
    "th[aria-sort=ascending] a::after{content:\" \\2191\"}th[aria-sort=descending] a::after{content:\" \\2193\"}"
    "tbody tr:hover{background:var(--h)}"
    "td:first-child{overflow-wrap:anywhere;width:100%}td:first-child a{display:flex;gap:.6rem;align-items:baseline}"
    ".s,.d{text-align:right;white-space:nowrap}td.s,td.d{color:var(--m);font-size:.9rem}"
    "td a::before{content:\"\";flex:none;width:.85rem;height:1rem;background:var(--i);align-self:center;"
    "clip-path:polygon(0 0,62% 0,100% 28%,100% 100%,0 100%)}"
    ".f::before,.u::before{width:1.05rem;height:.85rem;margin-right:-.2rem;background:var(--f);"
    "clip-path:polygon(0 0,40% 0,52% 16%,100% 16%,100% 100%,0 100%)}"
    ".u::before{background:var(--i)}.i::before{background:#2f9e62}.v::before{background:#c2517f}"
    ".z::before{background:#9a6b3f}.c::before{background:#4377cf}.p::before{background:#c8433b}"
    ".l::after{content:\"\\2197\";color:var(--m);margin-left:-.35rem}"
    "@media(max-width:40rem){body{padding:1rem .75rem 2rem}form{width:100%}input{flex:1;width:auto}"
    "table,tbody,thead{display:block}tr{display:flex;flex-wrap:wrap;border-bottom:1px solid var(--l);"
    "padding:.45rem .25rem}th,td{border:0;padding:.1rem 0}th{padding-right:1.2rem}"
    "td:first-child{flex:1 0 100%}td.s,td.d{padding-left:1.48rem}td.s+td.d:not(:empty){padding-left:.9rem}"
    "td.s:empty{display:none}td.s:empty+td.d{padding-left:1.48rem}}";

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
static void add_html_bytes(text_t *text, const char *plain, size_t size) {
    for (const char *end = plain + size; plain < end; plain++) {
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

static void add_html(text_t *text, const char *plain) {
    add_html_bytes(text, plain, strlen(plain));
}

/* A path segment or a value of a query, in which nothing has a meaning of its own. */
static void add_escaped(text_t *text, const char *name) {
    static const char hex[] = "0123456789ABCDEF";
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c);
        if (plain)
            add_bytes(text, name, 1);
        else
            add_bytes(text, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
}

static void add_number(text_t *text, uint64_t number, const char *one, const char *many) {
    char line[64];
    snprintf(line, sizeof line, "%" PRIu64 " %s", number, number == 1 ? one : many);
    add(text, line);
}

static void add_size(text_t *text, uint64_t size) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    char line[32];
    size_t unit = 0;
    double shown = (double)size;
    for (; shown >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++) shown /= 1000;
    uvhttp__format(line, sizeof line, unit && shown < 10 ? "%.1f %s" : "%.0f %s", shown, units[unit]);
    add(text, line);
}

/* --- the top --- */

/* Each directory of the path, from the root, as a link that leads up to it. */
static void add_crumbs(text_t *text, const char *path) {
    size_t depth = 0;
    for (const char *at = path; *at; at++) depth += *at == '/';
    add(text, "<nav aria-label=\"Path\"><ol><li><a href=\"./");
    for (size_t i = 0; i < depth; i++) add(text, "../");
    add(text, "\" title=\"Top directory\">\xe2\x8c\x82</a></li>");
    while (*path) {
        size_t size = strcspn(path, "/");
        add(text, "<li><a href=\"./");
        for (size_t i = 1; i < depth; i++) add(text, "../");
        add(text, depth == 1 ? "\" aria-current=\"page\">" : "\">");
        add_html_bytes(text, path, size);
        add(text, "</a></li>");
        path += size + 1;
        depth--;
    }
    add(text, "</ol></nav>\n");
}

static bool is_default(const order_t *order) {
    return order->key == 'n' && !order->descending;
}

static void add_form(text_t *text, const order_t *order) {
    add(text, "<form method=\"get\" action=\"./\" role=\"search\">");
    if (!is_default(order)) {
        add(text, "<input type=\"hidden\" name=\"sort\" value=\"");
        add(text, uvhttp__static_order_name(order));
        add(text, "\">");
    }
    add(text, "<input type=\"search\" name=\"filter\" placeholder=\"Part of a name\" aria-label=\"Part of a name\" "
              "maxlength=\"255\" value=\"");
    add_html(text, order->filter);
    add(text, "\"><button>Filter</button></form>");
}

static void add_totals(text_t *text, const items_t *items) {
    uint64_t directories = 0, size = 0;
    for (uint32_t i = 0; i < items->count; i++) {
        directories += items->data[i].directory;
        size += items->data[i].size;
    }
    add_number(text, directories, "directory", "directories");
    add(text, ", ");
    add_number(text, items->count - directories, "file", "files");
    if (items->count > directories) {
        add(text, ", ");
        add_size(text, size);
    }
}

static void add_summary(text_t *text, const order_t *order, const items_t *items) {
    add(text, "<p>");
    if (items->count == 0) {
        add(text, *order->filter ? "No name" : "This directory is empty.");
    } else {
        add_totals(text, items);
    }
    if (*order->filter) {
        add(text, items->count == 0 ? " contains \xe2\x80\x9c" : " with \xe2\x80\x9c");
        add_html(text, order->filter);
        add(text, "\xe2\x80\x9d. <a href=\"./");
        if (!is_default(order)) add(text, "?sort=");
        if (!is_default(order)) add(text, uvhttp__static_order_name(order));
        add(text, "\">Show all</a>");
    }
    if (items->cut) add(text, ". There are more names than this page shows: use the filter.");
    add(text, "</p>\n");
}

/* --- the table --- */

/* A link that sorts by the column, or the other way round where it is sorted by it. Sizes and dates start with the
 * largest. */
static void add_column(text_t *text, const order_t *order, const char *title, char key, const char *attributes) {
    bool current = order->key == key;
    order_t next = {.key = key, .descending = current ? !order->descending : key != 'n'};
    add(text, "<th scope=\"col\"");
    add(text, attributes);
    if (current) add(text, order->descending ? " aria-sort=\"descending\"" : " aria-sort=\"ascending\"");
    add(text, "><a href=\"./");
    if (!is_default(&next) || *order->filter) add(text, "?");
    if (!is_default(&next)) add(text, "sort=");
    if (!is_default(&next)) add(text, uvhttp__static_order_name(&next));
    if (*order->filter) add(text, is_default(&next) ? "filter=" : "&amp;filter=");
    add_escaped(text, order->filter);
    add(text, "\">");
    add(text, title);
    add(text, "</a></th>");
}

/* The class that colours an icon. */
static const char *class_of(const item_t *item) {
    static const struct {
        const char *extensions, *name;
    } classes[] = {
        {" png jpg jpeg gif svg webp avif ico bmp tif tiff heic ", "i"},
        {" mp4 webm mkv mov avi mp3 ogg opus flac wav m4a ", "v"},
        {" zip gz tgz bz2 xz zst br tar 7z rar deb rpm iso jar ", "z"},
        {" c h cpp hpp cc js mjs ts tsx jsx css html htm json xml yaml yml toml py rs go java sh lua sql wasm ", "c"},
        {" pdf ps epub doc docx odt xls xlsx ods ppt pptx odp ", "p"},
    };
    const char *dot = strrchr(item->name, '.');
    char wanted[16];
    if (item->directory) return "f";
    if (!dot || dot == item->name || strchr(dot, ' ') ||
        snprintf(wanted, sizeof wanted, " %s ", dot + 1) >= (int)sizeof wanted)
        return "";
    uvhttp__text_lower(wanted);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strstr(classes[i].extensions, wanted)) return classes[i].name;
    return "";
}

static void add_time(text_t *text, int64_t modified) {
    struct tm tm;
    char date[96] = "";
    time_t seconds = (time_t)modified;
    if (gmtime_r(&seconds, &tm))
        (void)strftime(date, sizeof date, "<time datetime=\"%Y-%m-%dT%H:%M:%SZ\">%Y-%m-%d %H:%M</time>", &tm);
    add(text, date);
}

/* "./" in front of the name, so that a ':' in it makes no scheme. */
static void add_row(text_t *text, const item_t *item) {
    const char *class = class_of(item);
    add(text, "<tr><td><a");
    if (*class || item->link) {
        add(text, " class=\"");
        add(text, class);
        add(text, item->link ? (*class ? " l\"" : "l\"") : "\"");
    }
    add(text, " href=\"./");
    add_escaped(text, item->name);
    if (item->directory) add(text, "/");
    add(text, "\">");
    add_html(text, item->name);
    add(text, item->directory ? "/</a></td><td class=\"s\">" : "</a></td><td class=\"s\">");
    if (!item->directory && !item->link) add_size(text, item->size);
    add(text, "</td><td class=\"d\">");
    add_time(text, item->modified);
    add(text, "</td></tr>\n");
}

static void add_table(text_t *text, const char *path, const order_t *order, const items_t *items) {
    add(text, "<table><thead><tr>");
    add_column(text, order, "Name", 'n', "");
    add_column(text, order, "Size", 's', " class=\"s\"");
    add_column(text, order, "Modified\xc2\xa0(UTC)", 'm', " class=\"d\"");
    add(text, "</tr></thead><tbody>\n");
    if (*path)
        add(text, "<tr><td><a class=\"u\" href=\"../\">Parent directory</a></td><td class=\"s\"></td>"
                  "<td class=\"d\"></td></tr>\n");
    for (uint32_t i = 0; i < items->count; i++) add_row(text, &items->data[i]);
    add(text, "</tbody></table>\n");
}

char *uvhttp__static_page(const char *path, const order_t *order, const items_t *items, size_t *size) {
    text_t text = {.data = NULL};
    add(&text, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
               "<meta name=\"color-scheme\" content=\"light dark\"><title>/");
    add_html(&text, path);
    add(&text, "</title><style>");
    add(&text, style);
    add(&text, "</style></head><body>\n<header>");
    add_crumbs(&text, path);
    add_form(&text, order);
    add(&text, "</header>\n<main>");
    add_summary(&text, order, items);
    add_table(&text, path, order, items);
    add(&text, "</main></body></html>\n");
    if (text.failed) uvhttp__free(text.data);
    *size = text.size;
    return text.failed ? NULL : text.data;
}
