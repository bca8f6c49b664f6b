/* Owns: the configuration from a YAML file. Events of libyaml, no tree: nothing is expanded, so nothing can grow. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "config/config.h"

#define FILE_SIZE_MAX 65536 /* bytes; a file that sets every field with a comment has a tenth of it */
#define DEPTH_MAX 16        /* of nested lists and mappings: libyaml's work grows with the square of it */

typedef struct loader {
    const char *path;
    const char *const *own; /* the program's names at the top, terminated by NULL; or NULL */
    char *text;             /* the file; FILE_SIZE_MAX + 1 bytes */
    size_t size;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    bool ended;         /* by an error of the parser, or of depth: no further event comes */
    bool out_of_memory;
    uvhttp_server_config_t config;                 /* the caller's when all has been right */
    size_t field_lines[UVHTTP__CONFIG_FIELDS_MAX]; /* where each was set, from 1; 0: not yet */
    size_t group_lines[UVHTTP__CONFIG_GROUPS];
    uvhttp__problems_t problems;
} loader_t;

static const char *text_of(const yaml_event_t *scalar) {
    return (const char *)scalar->data.scalar.value;
}

/* --- problems and their places --- */

static void problem_at(loader_t *loader, yaml_mark_t at, const char *what) {
    uvhttp__problems_add(&loader->problems, "%s:%zu:%zu: %s", loader->path, at.line + 1, at.column + 1, what);
}

/* A byte that is not UTF-8 has no mark yet, only its distance from the start. */
static yaml_mark_t mark_of(const loader_t *loader, size_t offset) {
    yaml_mark_t mark = {.index = offset};
    for (size_t i = 0; i < offset && i < loader->size; i++) {
        unsigned char byte = (unsigned char)loader->text[i];
        if (byte == '\n') {
            mark.line++;
            mark.column = 0;
        } else if ((byte & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static bool is_tab(const loader_t *loader, yaml_mark_t at) {
    const char *line = loader->text, *end = loader->text + loader->size;
    for (size_t i = 0; i < at.line && line; i++) {
        line = memchr(line, '\n', (size_t)(end - line));
        if (line) line++;
    }
    return line && (size_t)(end - line) > at.column && line[at.column] == '\t';
}

static void parser_problem(loader_t *loader) {
    const yaml_parser_t *parser = &loader->parser;
    char what[200];
    loader->ended = true;
    if (parser->error == YAML_MEMORY_ERROR) {
        loader->out_of_memory = true;
    } else if (parser->error == YAML_READER_ERROR) {
        snprintf(what, sizeof what, "the file is not UTF-8 text: %s", parser->problem);
        problem_at(loader, mark_of(loader, parser->problem_offset), what);
    } else if (is_tab(loader, parser->problem_mark)) {
        problem_at(loader, parser->problem_mark, "a tab: YAML is indented with spaces");
    } else if (parser->context && parser->context_mark.line != parser->problem_mark.line) {
        snprintf(what, sizeof what, "%s, %s that begins in line %zu", parser->problem, parser->context,
                 parser->context_mark.line + 1);
        problem_at(loader, parser->problem_mark, what);
    } else {
        problem_at(loader, parser->problem_mark, parser->problem);
    }
}

/* --- events --- */

/* Anchors, aliases and tags are refused wherever they stand: a configuration needs none of them. */
static void check_plain(loader_t *loader) {
    const yaml_event_t *event = &loader->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (event->type == YAML_ALIAS_EVENT) {
        anchor = event->data.alias.anchor;
    } else if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor) problem_at(loader, event->start_mark, "anchors and aliases are not supported: write the value");
    if (tag) problem_at(loader, event->start_mark, "tags are not supported: write the value alone");
}

/* The next event; at the end of everything, and after an error, YAML_NO_EVENT. */
static yaml_event_type_t next(loader_t *loader) {
    yaml_event_delete(&loader->event);
    memset(&loader->event, 0, sizeof loader->event);
    if (loader->ended) return YAML_NO_EVENT;
    if (!yaml_parser_parse(&loader->parser, &loader->event)) {
        parser_problem(loader);
        return YAML_NO_EVENT;
    }
    check_plain(loader);
    return loader->event.type;
}

/* Passes the rest of a list or a mapping whose begin is the current event. */
static void skip(loader_t *loader) {
    size_t depth = 0;
    for (yaml_event_type_t type = loader->event.type; type != YAML_NO_EVENT; type = next(loader)) {
        if (type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT) depth++;
        if (type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT) depth--;
        if (depth == 0) return;
        if (depth > DEPTH_MAX) {
            problem_at(loader, loader->event.start_mark, "lists and mappings are nested too deeply");
            loader->ended = true;
        }
    }
}

/* --- fields --- */

static bool same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* What is wrong with the name that is the current event, which is none of the mapping `group` (NULL: the file). */
static void unknown_name(loader_t *loader, const char *group) {
    const char *wrong = text_of(&loader->event), *name, *its_group;
    char shown[UVHTTP__CONFIG_SHOWN_SIZE], hint[UVHTTP__NEAREST_HINT_SIZE], what[240];
    uvhttp__nearest_t nearest = uvhttp__nearest(wrong);
    uvhttp__config_shown(wrong, shown);
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX; i++) {
        if (!(name = uvhttp__config_name(&loader->config, i, &its_group))) continue;
        if (same(its_group, group)) {
            uvhttp__nearest_offer(&nearest, name);
        } else if (strcmp(name, wrong) == 0) {
            snprintf(what, sizeof what, its_group ? "%s stands in the mapping \"%s\"" : "%s stands outside of mappings",
                     name, its_group);
            problem_at(loader, loader->event.start_mark, what);
            return;
        }
    }
    for (size_t i = 0; i < UVHTTP__CONFIG_GROUPS && !group; i++)
        uvhttp__nearest_offer(&nearest, uvhttp__config_group(i));
    snprintf(what, sizeof what, "there is no field \"%s\"%s%s%s%s", shown, group ? " in \"" : "", group ? group : "",
             group ? "\"" : "", uvhttp__nearest_hint(&nearest, hint));
    problem_at(loader, loader->event.start_mark, what);
}

/* Whether the name that is the current event comes for the first time; *line remembers it. */
static void check_first(loader_t *loader, size_t *line) {
    char shown[UVHTTP__CONFIG_SHOWN_SIZE], what[160];
    if (*line > 0) {
        snprintf(what, sizeof what, "%s is set twice, first in line %zu",
                 uvhttp__config_shown(text_of(&loader->event), shown), *line);
        problem_at(loader, loader->event.start_mark, what);
    }
    *line = loader->event.start_mark.line + 1;
}

/* The current event is the value of a field. */
static void take_value(loader_t *loader, size_t index) {
    const char *group, *name = uvhttp__config_name(&loader->config, index, &group);
    char range[UVHTTP__CONFIG_EXPECTED_SIZE], shown[UVHTTP__CONFIG_SHOWN_SIZE], what[256] = "";
    const char *expected = uvhttp__config_expected(index, range);
    const yaml_event_t *event = &loader->event;
    yaml_mark_t at = event->start_mark;
    if (event->type == YAML_SCALAR_EVENT) {
        bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        if (event->data.scalar.length == 0 && (plain || !uvhttp__config_expects_nothing(index)))
            snprintf(what, sizeof what, "%s has no value: expected %s", name, expected);
        else if (!plain && !uvhttp__config_expects_words(index))
            snprintf(what, sizeof what, "%s is the text \"%s\": expected %s, without quotes", name,
                     uvhttp__config_shown(text_of(event), shown), expected);
        else if (strlen(text_of(event)) != event->data.scalar.length)
            snprintf(what, sizeof what, "%s has a NUL in it: expected %s", name, expected);
        else if (uvhttp__config_assign(&loader->config, index, name, text_of(event), what, sizeof what) == UVHTTP_OK)
            uvhttp__config_set_origin_line(&loader->config, index, loader->path, at.line + 1);
    } else if (event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT) {
        snprintf(what, sizeof what, "%s is a %s: expected %s", name,
                 event->type == YAML_MAPPING_START_EVENT ? "mapping" : "list", expected);
        skip(loader);
    }
    if (*what) problem_at(loader, at, what);
}

static void take_mapping(loader_t *loader, const char *group);

/* The current event is the name of a group: its mapping follows. */
static void take_group(loader_t *loader, size_t index) {
    check_first(loader, &loader->group_lines[index]);
    yaml_event_type_t type = next(loader);
    if (type == YAML_MAPPING_START_EVENT) {
        take_mapping(loader, uvhttp__config_group(index));
        return;
    }
    char what[160];
    snprintf(what, sizeof what, "%s is no mapping: its fields stand below it, indented", uvhttp__config_group(index));
    if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT)
        problem_at(loader, loader->event.start_mark, what);
    skip(loader);
}

static bool is_own(const loader_t *loader, const char *name) {
    for (const char *const *own = loader->own; own && *own; own++)
        if (strcmp(*own, name) == 0) return true;
    return false;
}

/* The current event is a name in the mapping `group`; afterwards it is the end of the value. */
static void take_pair(loader_t *loader, const char *group) {
    const char *wanted = text_of(&loader->event), *name, *its_group;
    for (size_t i = 0; i < UVHTTP__CONFIG_FIELDS_MAX; i++) {
        name = uvhttp__config_name(&loader->config, i, &its_group);
        if (!name || !same(its_group, group) || strcmp(name, wanted) != 0) continue;
        check_first(loader, &loader->field_lines[i]);
        if (next(loader) != YAML_NO_EVENT) take_value(loader, i);
        return;
    }
    for (size_t i = 0; i < UVHTTP__CONFIG_GROUPS && !group; i++) {
        if (strcmp(uvhttp__config_group(i), wanted) != 0) continue;
        take_group(loader, i);
        return;
    }
    if (group || !is_own(loader, wanted)) unknown_name(loader, group);
    (void)next(loader);
    skip(loader);
}

/* The current event is the start of a mapping, afterwards its end. Mappings are as deep as the table has groups. */
static void take_mapping(loader_t *loader, const char *group) {
    for (;;) {
        yaml_event_type_t type = next(loader);
        if (type == YAML_NO_EVENT || type == YAML_MAPPING_END_EVENT) return;
        if (type == YAML_SCALAR_EVENT) {
            take_pair(loader, group);
            continue;
        }
        if (type != YAML_ALIAS_EVENT) problem_at(loader, loader->event.start_mark, "expected the name of a field");
        skip(loader);
        (void)next(loader);
        skip(loader);
    }
}

static void take_document(loader_t *loader) {
    yaml_event_type_t type = next(loader);
    if (type == YAML_MAPPING_START_EVENT) {
        take_mapping(loader, NULL);
    } else if (type == YAML_SEQUENCE_START_EVENT ||
               (type == YAML_SCALAR_EVENT && loader->event.data.scalar.length > 0)) {
        problem_at(loader, loader->event.start_mark, "expected fields, one in a line: \"name: value\"");
        skip(loader);
    }
    (void)next(loader); /* the document's end */
}

static void take_file(loader_t *loader) {
    if (next(loader) == YAML_STREAM_START_EVENT && next(loader) == YAML_DOCUMENT_START_EVENT) {
        take_document(loader);
        if (next(loader) == YAML_DOCUMENT_START_EVENT)
            problem_at(loader, loader->event.start_mark, "a second document: a file is one");
    }
    yaml_event_delete(&loader->event);
}

/* --- the file --- */

static int cannot_read(const loader_t *loader, int error) {
    if (loader->problems.size > 0)
        snprintf(loader->problems.message, loader->problems.size, "%s: %s", loader->path, strerrordesc_np(error));
    return UVHTTP_E_IO;
}

static int read_file(loader_t *loader) {
    int fd = open(loader->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cannot_read(loader, errno);
    int status = UVHTTP_OK;
    ssize_t got = 1;
    while (got > 0 && loader->size <= FILE_SIZE_MAX) {
        got = read(fd, loader->text + loader->size, FILE_SIZE_MAX + 1 - loader->size);
        if (got > 0) loader->size += (size_t)got;
        if (got < 0 && errno == EINTR) got = 1;
    }
    if (got < 0) status = cannot_read(loader, errno);
    (void)close(fd);
    return status;
}

static int parse_file(loader_t *loader) {
    if (!yaml_parser_initialize(&loader->parser)) return UVHTTP_E_NOMEM;
    yaml_parser_set_encoding(&loader->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&loader->parser, (const unsigned char *)loader->text, loader->size);
    take_file(loader);
    yaml_parser_delete(&loader->parser);
    return loader->out_of_memory ? UVHTTP_E_NOMEM : uvhttp__problems_end(&loader->problems);
}

int uvhttp_server_config_load_with(uvhttp_server_config_t *config, const char *path, const char *const *own,
                                   char *message, size_t size) {
    if (!config || !path) return UVHTTP_E_INVALID;
    int status = uvhttp__config_check_size(config, message, size);
    if (status != UVHTTP_OK) return status;
    loader_t loader = {.path = path, .own = own, .problems = uvhttp__problems(message, size)};
    memcpy(&loader.config, config, config->struct_size);
    loader.text = uvhttp__malloc(FILE_SIZE_MAX + 1);
    status = loader.text ? read_file(&loader) : UVHTTP_E_NOMEM;
    if (status == UVHTTP_OK && loader.size > FILE_SIZE_MAX) {
        uvhttp__problems_add(&loader.problems, "%s: larger than %d bytes", path, FILE_SIZE_MAX);
        status = uvhttp__problems_end(&loader.problems);
    } else if (status == UVHTTP_OK) {
        status = parse_file(&loader);
    }
    uvhttp__free(loader.text);
    if (status == UVHTTP_OK) memcpy(config, &loader.config, config->struct_size);
    if (status == UVHTTP_E_NOMEM && size > 0 && message) snprintf(message, size, "%s: out of memory", path);
    return status;
}

int uvhttp_server_config_load(uvhttp_server_config_t *config, const char *path, char *message, size_t size) {
    return uvhttp_server_config_load_with(config, path, NULL, message, size);
}
