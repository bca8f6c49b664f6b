/* Owns: the options of static files: ranges, defaults, a copy. May include: base, obs. */
#include <inttypes.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/str.h"
#include "handler/static.h"

typedef struct range {
    const char *name, *unit;
    uint64_t value, max;
    bool has_never;
} range_t;

static int check_ranges(const uvhttp_static_options_t *options, const char *prefix) {
    const range_t ranges[] = {{"sendfile_min", " bytes", options->sendfile_min, 64 << 20, false},
                              {"cache_entries_max", "", options->cache_entries_max, 10000000, false},
                              {"cache_missing_max", "", options->cache_missing_max, 10000000, false},
                              {"open_files_max", "", options->open_files_max, 1000000, false},
                              {"cache_size_max", " bytes", options->cache_size_max, UINT64_C(1) << 50, false},
                              {"revalidate_ms", " ms", options->revalidate_ms, 86400000, true},
                              {"ranges_max", "", options->ranges_max, 1000, false},
                              {"list_entries_max", "", options->list_entries_max, 100000, false},
                              {"helper_threads", "", options->helper_threads, 64, false},
                              {"backlog_max", "", options->backlog_max, 1000000, false}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const range_t *range = &ranges[i];
        if (range->value <= range->max || (range->has_never && range->value == UVHTTP_NEVER)) continue;
        UVHTTP_LOG_ERROR("static: %s: %s is %" PRIu64 ", allowed are 1..%" PRIu64 "%s%s, or 0 for the default", prefix,
                         range->name, range->value, range->max, range->unit, range->has_never ? ", UVHTTP_NEVER" : "");
        return UVHTTP_E_CONFIG;
    }
    return UVHTTP_OK;
}

static int refuse(const char *prefix, const char *name, const char *value, const char *expected) {
    UVHTTP_LOG_ERROR("static: %s: %s has \"%s\": expected %s", prefix, name, value ? value : "NULL", expected);
    return UVHTTP_E_CONFIG;
}

static bool value_valid(const char *text) {
    return text && uvhttp__valid_header_value(uvhttp__str_from(text));
}

static bool path_valid(const char *text) {
    return *text && uvhttp__static_path_valid(uvhttp__str_from(text), true);
}

static int check_texts(const uvhttp_static_options_t *options, const char *prefix) {
    for (const char *const *name = options->index_files; name && *name; name++)
        if (!path_valid(*name) || strchr(*name, '/'))
            return refuse(prefix, "index_files", *name, "a file name such as \"index.html\"");
    for (const uvhttp_static_type_t *row = options->types; row && row->extension; row++) {
        if (!*row->extension || strpbrk(row->extension, "./"))
            return refuse(prefix, "types", row->extension, "an extension without its dot, such as \"md\"");
        if (!value_valid(row->type) || !*row->type || strlen(row->type) > 255)
            return refuse(prefix, "types", row->type, "a Content-Type such as \"text/markdown\"");
    }
    for (const uvhttp_static_rule_t *rule = options->rules; rule && rule->pattern; rule++)
        if (!value_valid(rule->cache_control) || strlen(rule->cache_control) > 255)
            return refuse(prefix, "rules", rule->cache_control, "a Cache-Control such as \"public, max-age=3600\"");
    if (options->default_type && (!value_valid(options->default_type) || strlen(options->default_type) > 255))
        return refuse(prefix, "default_type", options->default_type, "a Content-Type");
    if (options->fallback && !path_valid(options->fallback))
        return refuse(prefix, "fallback", options->fallback, "a path below the root such as \"index.html\"");
    return UVHTTP_OK;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise) {
    return value ? value : otherwise;
}

static void fill_in(uvhttp_static_options_t *options) {
    static const char *const index_files[] = {"index.html", NULL};
    if (!options->index_files) options->index_files = index_files;
    if (!options->default_type) options->default_type = "application/octet-stream";
    options->sendfile_min = or_default(options->sendfile_min, UVHTTP__SENDFILE_MIN);
    options->cache_entries_max = or_default(options->cache_entries_max, 4096);
    options->cache_missing_max = or_default(options->cache_missing_max, 512);
    options->open_files_max = or_default(options->open_files_max, 256);
    if (!options->cache_size_max) options->cache_size_max = 64 << 20;
    options->revalidate_ms = or_default(options->revalidate_ms, 1000);
    options->ranges_max = or_default(options->ranges_max, 16);
    options->list_entries_max = or_default(options->list_entries_max, 1000);
    options->helper_threads = or_default(options->helper_threads, 4);
    options->backlog_max = or_default(options->backlog_max, 1024);
}

/* --- a copy --- Written twice by the same function: first to nowhere, to know how large it is. */

typedef struct copier {
    char *memory; /* NULL: only counting */
    size_t size;
} copier_t;

static void *copy_bytes(copier_t *copier, const void *data, size_t size) {
    char *at = copier->memory ? copier->memory + copier->size : NULL;
    if (at && size > 0) memcpy(at, data, size);
    copier->size += size;
    return at;
}

static const char *copy_text(copier_t *copier, const char *text) {
    return text ? copy_bytes(copier, text, strlen(text) + 1) : NULL;
}

/* Tables come first: they need alignment, texts do not. */
static void copy_options(copier_t *copier, const uvhttp_static_options_t *from, uvhttp_static_options_t *to) {
    size_t names = 0, rows = 0, rules = 0;
    while (from->index_files[names]) names++;
    while (from->types && from->types[rows].extension) rows++;
    while (from->rules && from->rules[rules].pattern) rules++;
    const char **name_copy = copy_bytes(copier, from->index_files, (names + 1) * sizeof *name_copy);
    uvhttp_static_type_t *row_copy = NULL;
    if (from->types) row_copy = copy_bytes(copier, from->types, (rows + 1) * sizeof *row_copy);
    uvhttp_static_rule_t *rule_copy = NULL;
    if (from->rules) rule_copy = copy_bytes(copier, from->rules, (rules + 1) * sizeof *rule_copy);
    for (size_t i = 0; i < names; i++) {
        const char *text = copy_text(copier, from->index_files[i]);
        if (name_copy) name_copy[i] = text;
    }
    for (size_t i = 0; i < rows; i++) {
        const char *extension = copy_text(copier, from->types[i].extension);
        const char *type = copy_text(copier, from->types[i].type);
        if (row_copy) row_copy[i] = (uvhttp_static_type_t){extension, type};
    }
    for (size_t i = 0; i < rules; i++) {
        const char *pattern = copy_text(copier, from->rules[i].pattern);
        const char *value = copy_text(copier, from->rules[i].cache_control);
        if (rule_copy) rule_copy[i] = (uvhttp_static_rule_t){pattern, value};
    }
    to->default_type = copy_text(copier, from->default_type);
    to->fallback = copy_text(copier, from->fallback);
    to->index_files = name_copy;
    to->types = row_copy;
    to->rules = rule_copy;
}

int uvhttp__static_settings_init(uvhttp__static_settings_t *settings, const uvhttp_static_options_t *given,
                                 const char *prefix) {
    uvhttp_static_options_t options = {0};
    if (given) options = *given;
    int status = check_ranges(&options, prefix);
    if (status == UVHTTP_OK) status = check_texts(&options, prefix);
    if (status != UVHTTP_OK) return status;
    fill_in(&options);
    *settings = (uvhttp__static_settings_t){.options = options};
    copier_t copier = {NULL, 0};
    copy_options(&copier, &options, &settings->options);
    copier = (copier_t){uvhttp__malloc(copier.size), 0};
    if (!copier.memory) return UVHTTP_E_NOMEM;
    copy_options(&copier, &options, &settings->options);
    settings->memory = copier.memory;
    return UVHTTP_OK;
}

void uvhttp__static_settings_deinit(uvhttp__static_settings_t *settings) {
    uvhttp__free(settings->memory);
}
