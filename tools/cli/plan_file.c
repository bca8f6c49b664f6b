/* Needs: yaml. */
/* Owns: "listen" and "sites" of a configuration file. The server's own fields, and the syntax, are the library's. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "cli/plan.h"
#include "support/nearest.h"

typedef struct reader {
    plan_t *plan;
    yaml_document_t document;
} reader_t;

/* --- nodes --- */

static place_t place_of(const yaml_node_t *node) {
    return (place_t){(int)node->start_mark.line + 1, (int)node->start_mark.column + 1};
}

static const char *text_of(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

static yaml_node_t *node_at(reader_t *reader, int index) {
    return yaml_document_get_node(&reader->document, index);
}

static char *copy(const char *text) {
    char *made = strdup(text);
    if (made) return made;
    fputs("uvhttp: out of memory\n", stderr);
    exit(1);
}

static void expected(reader_t *reader, const yaml_node_t *node, const char *name, const char *what) {
    plan_problem(reader->plan, place_of(node), "%s: expected %s", name, what);
}

/* What a mapping may have: a name, what to say of a wrong value, and who takes it. False: the value is wrong. */
typedef struct key {
    const char *name, *expected;
    bool (*take)(reader_t *reader, const yaml_node_t *node, void *at);
    size_t offset;
} site_key_t;

static void unknown(reader_t *reader, const yaml_node_t *node, const char *where, const site_key_t *keys) {
    char list[512] = "";
    nearest_t nearest = {.wrong = text_of(node), .distance = 4};
    for (; keys->name; keys++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", keys->name);
        nearest_offer(&nearest, keys->name);
    }
    if (nearest.name[0])
        plan_problem(reader->plan, place_of(node), "%s has no \"%.60s\", did you mean \"%s\"?", where, text_of(node),
                     nearest.name);
    else
        plan_problem(reader->plan, place_of(node), "%s has no \"%.60s\": it may have %s", where, text_of(node), list);
}

/* Takes what `keys` names, into the structure at `to`. */
static void take_mapping(reader_t *reader, const yaml_node_t *node, const char *where, const site_key_t *keys,
                         void *to) {
    if (node->type != YAML_MAPPING_NODE) {
        expected(reader, node, where, "a mapping, one \"name: value\" in a line");
        return;
    }
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = node_at(reader, pair->key), *value = node_at(reader, pair->value);
        const site_key_t *key = keys;
        while (key->name && strcmp(key->name, text_of(name)) != 0) key++;
        if (!key->name)
            unknown(reader, name, where, keys);
        else if (!key->take(reader, value, (char *)to + key->offset))
            expected(reader, value, key->name, key->expected);
    }
}

/* --- values --- */

static bool take_text(reader_t *reader, const yaml_node_t *node, void *at) {
    (void)reader;
    if (!*text_of(node)) return false;
    *(char **)at = copy(text_of(node));
    return true;
}

/* Relative to the directory of the file, wherever the program was started. */
static bool take_path(reader_t *reader, const yaml_node_t *node, void *at) {
    char path[PATH_MAX];
    const char *text = text_of(node), *file = reader->plan->file, *slash = strrchr(file, '/');
    int directory = *text != '/' && slash ? (int)(slash - file) + 1 : 0;
    if (!*text || snprintf(path, sizeof path, "%.*s%s", directory, file, text) >= (int)sizeof path) return false;
    *(char **)at = copy(path);
    return true;
}

static bool take_bool(reader_t *reader, const yaml_node_t *node, void *at) {
    (void)reader;
    *(bool *)at = strcmp(text_of(node), "true") == 0;
    return *(bool *)at || strcmp(text_of(node), "false") == 0;
}

static bool take_seconds(reader_t *reader, const yaml_node_t *node, void *at) {
    char *end;
    (void)reader;
    const char *text = text_of(node);
    unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number > 31536000) return false;
    *(unsigned long *)at = number;
    return true;
}

static bool take_status(reader_t *reader, const yaml_node_t *node, void *at) {
    unsigned long number = 0;
    if (!take_seconds(reader, node, &number) || number > 999) return false;
    *(int *)at = (int)number;
    return true;
}

/* One host, or a list. */
static bool take_hosts(reader_t *reader, const yaml_node_t *node, void *at) {
    char *hosts = at;
    size_t size = sizeof((site_t *)0)->hosts;
    if (*text_of(node)) return (size_t)snprintf(hosts, size, "%s", text_of(node)) < size;
    if (node->type != YAML_SEQUENCE_NODE) return false;
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        const char *text = text_of(node_at(reader, *item));
        size_t used = strlen(hosts);
        if (!*text || (size_t)snprintf(hosts + used, size - used, "%s%s", used ? "," : "", text) >= size - used)
            return false;
    }
    return *hosts != '\0';
}

/* --- parts of a site --- */

static bool take_fields(reader_t *reader, const yaml_node_t *node, void *at) {
    site_t *site = (site_t *)at;
    if (node->type != YAML_MAPPING_NODE) return false;
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = node_at(reader, pair->key), *value = node_at(reader, pair->value);
        if (value->type != YAML_SCALAR_NODE || site->field_count == FIELDS_MAX) return false;
        site->fields[site->field_count++] =
            (field_t){.place = place_of(name), .name = copy(text_of(name)), .value = copy(text_of(value))};
    }
    return true;
}

static bool take_redirects(reader_t *reader, const yaml_node_t *node, void *at) {
    static const site_key_t keys[] = {
        {"from", "a path: /old, or /old/* with all below", take_text, offsetof(redirect_t, from)},
        {"to", "a path or a URL", take_text, offsetof(redirect_t, to)},
        {"status", "301, 302, 303, 307 or 308", take_status, offsetof(redirect_t, status)},
        {NULL, NULL, NULL, 0}};
    site_t *site = (site_t *)at;
    if (node->type != YAML_SEQUENCE_NODE) return false;
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *one = node_at(reader, *item);
        if (site->redirect_count == REDIRECTS_MAX) return false;
        redirect_t *redirect = &site->redirects[site->redirect_count];
        *redirect = (redirect_t){.place = place_of(one), .status = 301};
        take_mapping(reader, one, "a redirect", keys, redirect);
        if (redirect->from && redirect->to)
            site->redirect_count++;
        else
            plan_problem(reader->plan, redirect->place, "a redirect needs \"from\" and \"to\"");
    }
    return true;
}

/* "/assets/" becomes "/assets", "/" becomes "". */
static bool take_prefix(reader_t *reader, const yaml_node_t *node, void *at) {
    if (text_of(node)[0] != '/' || strpbrk(text_of(node), "%?#*")) return false;
    if (!take_text(reader, node, at)) return false;
    char *prefix = *(char **)at;
    for (size_t size = strlen(prefix); size > 0 && prefix[size - 1] == '/'; size--) prefix[size - 1] = '\0';
    return true;
}

#define FILES_KEYS(member)                                                                                             \
    {"root", "a directory", take_path, offsetof(member, files.root)},                                                  \
        {"fallback", "a file below root", take_text, offsetof(member, files.fallback)},                                \
        {"spa", "true or false", take_bool, offsetof(member, files.spa)},                                              \
        {"listing", "true or false", take_bool, offsetof(member, files.listing)},                                      \
        {"dot_files", "true or false", take_bool, offsetof(member, files.dot_files)},                                  \
        {"symlinks", "true or false", take_bool, offsetof(member, files.symlinks)}, {                                  \
        "max_age", "0..31536000 seconds", take_seconds, offsetof(member, files.max_age)                                \
    }

/* Read when everything else of the site is known. */
static bool take_nothing(reader_t *reader, const yaml_node_t *node, void *at) {
    (void)reader, (void)at;
    return node->type == YAML_SEQUENCE_NODE;
}

static void take_mounts(reader_t *reader, const yaml_node_t *node, site_t *site) {
    static const site_key_t keys[] = {FILES_KEYS(mount_t),
                                      {"prefix", "a path such as /assets", take_prefix, offsetof(mount_t, prefix)},
                                      {NULL, NULL, NULL, 0}};
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *one = node_at(reader, *item);
        if (site->mount_count == MOUNTS_MAX) {
            plan_problem(reader->plan, place_of(one), "a site has at most %d directories", MOUNTS_MAX);
            return;
        }
        mount_t *mount = &site->mounts[site->mount_count];
        *mount = (mount_t){.place = place_of(one), .files = site->files};
        mount->files.root = NULL;
        take_mapping(reader, one, "a mount", keys, mount);
        if (mount->prefix && mount->files.root) {
            mount->prefix_size = strlen(mount->prefix);
            site->mount_count++;
        } else {
            plan_problem(reader->plan, mount->place, "a mount needs \"prefix\" and \"root\"");
        }
    }
}

static void take_site(reader_t *reader, const yaml_node_t *node, const site_t *initial) {
    static const site_key_t keys[] = {
        FILES_KEYS(site_t),
        {"hosts", "a name, or a list of names: [example.com, \"*.example.com\"]", take_hosts, offsetof(site_t, hosts)},
        {"mounts", "a list of mappings with prefix and root", take_nothing, 0},
        {"headers", "a mapping of at most 32 names with values", take_fields, 0},
        {"redirects", "a list of at most 128 mappings with from and to", take_redirects, 0},
        {"basic_auth_file", "a file of lines USER:PASSWORD", take_path, offsetof(site_t, users_file)},
        {"cors", "origins with commas between, or \"*\"", take_text, offsetof(site_t, cors)},
        {"gzip", "true or false", take_bool, offsetof(site_t, gzip)},
        {"https_only", "true or false", take_bool, offsetof(site_t, https_only)},
        {NULL, NULL, NULL, 0}};
    plan_t *plan = reader->plan;
    site_t *site = plan->site_count < SITES_MAX ? malloc(sizeof *site) : NULL;
    if (!site) {
        plan_problem(plan, place_of(node), "there are at most %d sites", SITES_MAX);
        return;
    }
    *site = *initial;
    site->place = place_of(node);
    site->files.root = NULL;
    site->mount_count = 0;
    plan->sites[plan->site_count++] = site;
    take_mapping(reader, node, "a site", keys, site);
    if (site->files.root)
        site->mounts[site->mount_count++] = (mount_t){.place = site->place, .prefix = copy(""), .files = site->files};
    if (node->type != YAML_MAPPING_NODE) return;
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
        if (strcmp(text_of(node_at(reader, pair->key)), "mounts") == 0 &&
            node_at(reader, pair->value)->type == YAML_SEQUENCE_NODE)
            take_mounts(reader, node_at(reader, pair->value), site);
}

/* "127.0.0.1:8080", or a mapping. */
static void take_listener(reader_t *reader, const yaml_node_t *node) {
    static const site_key_t keys[] = {{"address", "an address with its port: 127.0.0.1:8080, or unix:/path", take_text,
                                       offsetof(listener_t, address)},
                                      {"tls", "true or false", take_bool, offsetof(listener_t, tls)},
                                      {NULL, NULL, NULL, 0}};
    plan_t *plan = reader->plan;
    if (plan->listener_count == LISTENERS_MAX) {
        plan_problem(plan, place_of(node), "there are at most %d addresses", LISTENERS_MAX);
        return;
    }
    listener_t *listener = &plan->listeners[plan->listener_count];
    *listener = (listener_t){.place = place_of(node)};
    if (*text_of(node))
        listener->address = copy(text_of(node));
    else
        take_mapping(reader, node, "an address", keys, listener);
    if (listener->address)
        plan->listener_count++;
    else
        plan_problem(plan, listener->place, "expected an address: 127.0.0.1:8080, or {address: ..., tls: true}");
}

/* --- the file --- */

const char *const plan_names[] = {"listen", "sites", NULL};

static void take_top(reader_t *reader, const site_t *initial) {
    const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    if (!root || root->type != YAML_MAPPING_NODE) return;
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
        const char *name = text_of(node_at(reader, pair->key));
        const yaml_node_t *value = node_at(reader, pair->value);
        bool listen = strcmp(name, "listen") == 0;
        if (!listen && strcmp(name, "sites") != 0) continue;
        if (value->type != YAML_SEQUENCE_NODE) {
            expected(reader, value, name, listen ? "a list of addresses" : "a list of mappings");
            continue;
        }
        for (yaml_node_item_t *at = value->data.sequence.items.start; at < value->data.sequence.items.top; at++) {
            if (listen)
                take_listener(reader, node_at(reader, *at));
            else
                take_site(reader, node_at(reader, *at), initial);
        }
    }
}

void plan_read_file(plan_t *plan, const site_t *initial) {
    reader_t reader = {.plan = plan};
    yaml_parser_t parser;
    struct stat info;
    if (stat(plan->file, &info) == 0 && S_ISFIFO(info.st_mode)) { /* opening one that nobody writes to would wait */
        plan_problem(plan, (place_t){0},
                     "%s: a pipe, and the configuration is read more than once: give a regular file", plan->file);
        return;
    }
    FILE *in = fopen(plan->file, "re");
    if (!in) return; /* the server's fields have been read from it, or that has been said */
    if (yaml_parser_initialize(&parser)) {
        yaml_parser_set_input_file(&parser, in);
        if (yaml_parser_load(&parser, &reader.document)) {
            take_top(&reader, initial);
            yaml_document_delete(&reader.document);
        }
        yaml_parser_delete(&parser);
    }
    fclose(in);
}
