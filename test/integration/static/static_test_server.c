/* Owns: a server of static files whose options stand on the command line, for the integration tests and measurements.
 *
 *   static_test_server ADDRESS ROOT [name=value ...]
 *
 * Names: the fields of uvhttp_static_options_t (index=a:b, type=extension:type, rule=pattern:value, lists in the order
 * given), prefix, group (mount in that group), compression=1, middleware=1 (sets fields that the files have, too), and
 * "config.<field>" of the server's configuration. /counters tells the counters, /plain is 13 bytes. Exit 3: refused. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#define LIST_MAX 16

typedef struct setup {
    uvhttp_server_config_t config;
    uvhttp_static_options_t options;
    const char *index[LIST_MAX + 1];
    uvhttp_static_type_t types[LIST_MAX + 1];
    uvhttp_static_rule_t rules[LIST_MAX + 1];
    const char *prefix, *group;
    bool compression, middleware;
} setup_t;

static void die(const char *message, const char *what) {
    fprintf(stderr, "static_test_server: %s: %s\n", message, what);
    exit(2);
}

/* "a:b" becomes "a", and b is returned. */
static char *split(char *text) {
    char *colon = strchr(text, ':');
    if (!colon) die("expected a colon", text);
    *colon = '\0';
    return colon + 1;
}

static size_t length_of(const void *list, size_t item_size) {
    size_t length = 0;
    for (const char *at = list; *(const char *const *)(const void *)at; at += item_size) length++;
    if (length == LIST_MAX) die("too many", "in a list");
    return length;
}

static bool set_list(setup_t *setup, const char *name, char *value) {
    if (strcmp(name, "index") == 0) {
        setup->options.index_files = setup->index;
        for (char *one = strtok(value, ":"); one; one = strtok(NULL, ":"))
            setup->index[length_of(setup->index, sizeof *setup->index)] = one;
    } else if (strcmp(name, "type") == 0) {
        char *type = split(value);
        setup->options.types = setup->types;
        setup->types[length_of(setup->types, sizeof *setup->types)] = (uvhttp_static_type_t){value, type};
    } else if (strcmp(name, "rule") == 0) {
        char *cache_control = split(value);
        setup->options.rules = setup->rules;
        setup->rules[length_of(setup->rules, sizeof *setup->rules)] = (uvhttp_static_rule_t){value, cache_control};
    } else {
        return false;
    }
    return true;
}

#define FIELD(name)                                                                                                    \
    { #name, offsetof(uvhttp_static_options_t, name), sizeof((uvhttp_static_options_t *)0)->name }

static bool set_number(setup_t *setup, const char *name, const char *value) {
    static const struct {
        const char *name;
        size_t offset, size;
    } fields[] = {FIELD(immutable_hashed),  FIELD(list_directories),  FIELD(dot_files),        FIELD(no_symlinks),
                  FIELD(no_precompressed),  FIELD(no_sendfile),       FIELD(warm_up),          FIELD(sendfile_min),
                  FIELD(cache_entries_max), FIELD(cache_missing_max), FIELD(open_files_max),   FIELD(cache_size_max),
                  FIELD(revalidate_ms),     FIELD(ranges_max),        FIELD(list_entries_max), FIELD(helper_threads),
                  FIELD(backlog_max),       FIELD(fallback_for_html)};
    uint64_t number = strtoull(value, NULL, 10);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, name) != 0) continue;
        memcpy((char *)&setup->options + fields[i].offset, &number, fields[i].size); /* little endian */
        return true;
    }
    return false;
}

static void set(setup_t *setup, char *text) {
    char message[256], *value = strchr(text, '=');
    if (!value) die("expected name=value", text);
    *value++ = '\0';
    if (strncmp(text, "config.", 7) == 0) {
        if (uvhttp_server_config_set(&setup->config, text + 7, value, message, sizeof message) != 0)
            die("configuration", message);
    } else if (strcmp(text, "prefix") == 0) {
        setup->prefix = value;
    } else if (strcmp(text, "group") == 0) {
        setup->group = value;
    } else if (strcmp(text, "fallback") == 0) {
        setup->options.fallback = value;
    } else if (strcmp(text, "default_type") == 0) {
        setup->options.default_type = value;
    } else if (strcmp(text, "compression") == 0) {
        setup->compression = true;
    } else if (strcmp(text, "middleware") == 0) {
        setup->middleware = true;
    } else if (!set_list(setup, text, value) && !set_number(setup, text, value)) {
        die("unknown name", text);
    }
}

static void add_counter(const char *name, const char *help, uint64_t value, void *user) {
    char *text = user;
    size_t size = strlen(text);
    (void)help;
    snprintf(text + size, 16384 - size, "%s\"%s\": %" PRIu64, size > 1 ? ", " : "", name, value);
}

static void show_counters(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    char text[16384] = "{";
    (void)req;
    uvhttp_server_counters(user, add_counter, text);
    strcat(text, "}");
    uvhttp_response_json(res, 200, text);
}

static void plain(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "Hello, World!");
}

static uvhttp_flow_t set_fields(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_header(res, "X-Content-Type-Options", "nosniff");
    uvhttp_response_header(res, "Vary", "Origin");
    uvhttp_response_header(res, "X-Own", "1");
    uvhttp_response_header(res, "Cache-Control", "no-store");
    return UVHTTP_NEXT;
}

int main(int argc, char **argv) {
    static setup_t setup = {.prefix = "/"};
    uvhttp_server_config_default(&setup.config);
    setup.config.io_threads = 1;
    if (argc < 3) die("usage", "ADDRESS ROOT [name=value ...]");
    for (int i = 3; i < argc; i++) set(&setup, argv[i]);
    uvhttp_server_t *server = uvhttp_server_new(&setup.config);
    if (!server) return 2;
    uvhttp_get(server, "/counters", show_counters, server);
    uvhttp_get(server, "/plain", plain, NULL);
#if __has_include(<uvhttp/compression.h>)
    if (setup.compression) uvhttp_use(server, uvhttp_compression(NULL));
#endif
    if (setup.middleware) uvhttp_use(server, (uvhttp_middleware_t){.run = set_fields});
    if (setup.group)
        uvhttp_group_static(uvhttp_group(server, setup.group), setup.prefix, argv[2], &setup.options);
    else
        uvhttp_static(server, setup.prefix, argv[2], &setup.options);
    int status = uvhttp_server_run(server, argv[1]);
    if (status != UVHTTP_OK) fprintf(stderr, "refused: %s\n", uvhttp_server_error_text(server));
    uvhttp_server_free(server);
    return status == UVHTTP_OK ? 0 : 3;
}
