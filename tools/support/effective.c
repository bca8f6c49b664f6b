#include "support/effective.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 128
#define VALUE_SIZE 128

typedef struct fields {
    FILE *out;
    size_t index;
    char defaults[FIELDS_MAX][VALUE_SIZE];
} fields_t;

static void print_string(FILE *out, const char *text) {
    putc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at; ++at) {
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at < ' ')
            fprintf(out, "\\u%04x", *at);
        else
            putc(*at, out);
    }
    putc('"', out);
}

static void keep_default(const char *name, const char *group, const char *value, const char *expected, void *user) {
    fields_t *fields = user;
    (void)name, (void)group, (void)expected;
    if (fields->index == FIELDS_MAX) return;
    snprintf(fields->defaults[fields->index++], VALUE_SIZE, "%s", value);
}

static void print_field(const char *name, const char *group, const char *value, const char *expected, void *user) {
    fields_t *fields = user;
    size_t index = fields->index++;
    (void)group, (void)expected;
    bool is_default = index < FIELDS_MAX && strncmp(value, fields->defaults[index], VALUE_SIZE - 1) == 0;
    fprintf(fields->out, "%s\n\"%s\": {\"default\": %s, \"value\": ", index ? "," : "", name,
            is_default ? "true" : "false");
    print_string(fields->out, value);
    putc('}', fields->out);
}

char *effective_json(const uvhttp_server_t *server, const uvhttp_server_config_t *config) {
    static const char *const levels[] = {"debug", "info", "warn", "error", "none"};
    char *text = NULL;
    size_t size = 0;
    fields_t *fields = calloc(1, sizeof *fields);
    FILE *out = fields ? open_memstream(&text, &size) : NULL;
    if (!out) {
        free(fields);
        return NULL;
    }
    uvhttp_server_config_t defaults;
    uvhttp_server_config_default(&defaults);
    const char *engine = uvhttp_server_engine(server, NULL);
    fields->out = out;
    fputs("{\"build_info\": ", out);
    print_string(out, uvhttp_build_info());
    fprintf(out, ", \"engine\": \"%s\", \"log_level\": \"%s\", \"settings\": {", engine ? engine : "",
            levels[uvhttp_log_get_level()]);
    uvhttp_server_config_fields(&defaults, keep_default, fields);
    fields->index = 0;
    uvhttp_server_config_fields(config, print_field, fields);
    fputs("}}\n", out);
    bool failed = ferror(out) != 0;
    free(fields);
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
