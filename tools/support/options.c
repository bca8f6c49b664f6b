#include "support/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/nearest.h"

#define NAME_SIZE OPTIONS_NAME_SIZE
#define HELP_WIDTH 80
#define HELP_COLUMN 29 /* where the explanations start */

/* --- what is wrong --- */

_Noreturn void options_refuse(const options_t *options, const char *name, const char *value, const char *why) {
    fprintf(stderr, "%s: %s '%s': %s\n", options->program, name, value, why);
    exit(2);
}

unsigned long options_number(const options_t *options, const char *name, const char *value, unsigned long min,
                             unsigned long max) {
    char allowed[80];
    unsigned long number = 0;
    snprintf(allowed, sizeof allowed, "allowed is %lu..%lu", min, max);
    if (*value == '\0') options_refuse(options, name, value, allowed);
    for (const char *at = value; *at; ++at) {
        if (*at < '0' || *at > '9') options_refuse(options, name, value, allowed);
        number = number * 10 + (unsigned long)(*at - '0');
        if (number > max) options_refuse(options, name, value, allowed);
    }
    if (number < min) options_refuse(options, name, value, allowed);
    return number;
}

/* Which of "auto, off" the value is. */
static int choice(const options_t *options, const option_t *option, const char *value) {
    char allowed[120];
    size_t size = strlen(value);
    int index = 0;
    for (const char *at = option->choices; at; ++index) {
        if (strncmp(at, value, size) == 0 && size > 0 && (at[size] == ',' || at[size] == '\0')) return index;
        at = strchr(at, ',');
        if (at) at += 2;
    }
    snprintf(allowed, sizeof allowed, "allowed are %s", option->choices);
    options_refuse(options, option->name, value, allowed);
}

/* --- names --- */

void options_of_field(const char *field, char *name) {
    snprintf(name, NAME_SIZE, "--%s", field);
    for (char *at = name; *at; ++at) {
        if (*at == '_') *at = '-';
    }
}

typedef struct search {
    bool is_switch;        /* it takes no value */
    bool found;            /* it is an option of a field, ... */
    bool is_alias;         /* ... by another name than the field's, ... */
    char field[NAME_SIZE]; /* ... this one */
    nearest_t nearest;
} search_t;

static void consider_field(const char *field, const char *group, const char *value, const char *expected, void *user) {
    search_t *search = user;
    char name[NAME_SIZE];
    (void)group, (void)value, (void)expected;
    options_of_field(field, name);
    nearest_offer(&search->nearest, name);
    if (strcmp(name, search->nearest.wrong) != 0) return;
    search->found = true;
    snprintf(search->field, sizeof search->field, "%s", field);
}

static search_t find_field(const options_t *options, const char *name) {
    search_t search = {.nearest = {.wrong = name, .distance = 5}};
    if (options->config) uvhttp_server_config_fields(options->config, consider_field, &search);
    for (size_t i = 0; i < options->count; ++i) {
        const option_t *option = &options->table[i];
        char own[NAME_SIZE];
        if (!option->field || strcmp(option->name, name) != 0) continue;
        options_of_field(option->field, own);
        search.found = true;
        search.is_switch = option->kind == OPTION_SWITCH;
        search.is_alias = option->kind == OPTION_FIELD && strcmp(name, own) != 0;
        snprintf(search.field, sizeof search.field, "%s", option->field);
    }
    return search;
}

static _Noreturn void refuse_unknown(const options_t *options, search_t *search) {
    char why[2 * NAME_SIZE] = "unknown; --help lists the options";
    for (size_t i = 0; i < options->count; ++i) nearest_offer(&search->nearest, options->table[i].name);
    if (strncmp(search->nearest.wrong, "--", 2) == 0 && search->nearest.name[0])
        snprintf(why, sizeof why, "unknown, did you mean %s?", search->nearest.name);
    options_refuse(options, "option", search->nearest.wrong, why);
}

/* --- help --- */

const char *options_value(const option_t *option) {
    static const char *const by_kind[] = {"TEXT", "N", "WORD", "", "TEXT", "", "TEXT", "TEXT"};
    return option->value ? option->value : by_kind[option->kind];
}

void options_print_wrapped(size_t column, size_t indent, const char *text) {
    do {
        size_t size = strlen(text), capacity = HELP_WIDTH - indent;
        if (size > capacity) {
            for (size = capacity; size > 0 && text[size] != ' '; --size) continue;
            if (size == 0) size = strcspn(text, " ");
        }
        printf("%*s%.*s\n", *text ? (int)(indent - column) : 0, "", (int)size, text);
        text += size;
        text += strspn(text, " ");
        column = 0;
    } while (*text);
}

/* The explanation next to the name, or below a long one. */
static void print_row(const char *name, const char *help) {
    size_t column = (size_t)printf("  %s", name);
    if (column >= HELP_COLUMN) {
        putchar('\n');
        column = 0;
    }
    options_print_wrapped(column, HELP_COLUMN, help);
}

static void print_field(const char *field, const char *group, const char *value, const char *expected, void *user) {
    char name[NAME_SIZE], help[512];
    (void)group, (void)user;
    options_of_field(field, name);
    snprintf(help, sizeof help, "%s (default %s)", expected, *value ? value : "none");
    print_row(name, help);
}

static void print_option(const option_t *option) {
    char name[2 * NAME_SIZE], letter[] = {'-', option->letter, ',', ' ', '\0'};
    const char *value = options_value(option);
    snprintf(name, sizeof name, "%s%s%s%s", option->letter ? letter : "    ", option->name, *value ? " " : "", value);
    print_row(name, option->help);
}

static bool has_common(const options_t *options) {
    for (size_t i = 0; i < options->count; ++i)
        if (options->table[i].common) return true;
    return false;
}

static void print_fields(const options_t *options) {
    puts("\nFields of the configuration, --FIELD VALUE. What is given here wins over\n"
         "UVHTTP_<FIELD> in the environment, and that over the file:");
    uvhttp_server_config_default(options->config);
    uvhttp_server_config_fields(options->config, print_field, NULL);
}

static void print_help(const options_t *options, bool all) {
    bool brief = !all && has_common(options);
    printf("Usage: %s [options]", options->program);
    if (options->positional) printf(" [%s]", options->positional_name ? options->positional_name : "ADDRESS");
    putchar('\n');
    if (options->summary) puts(options->summary);
    for (size_t i = 0; i < options->count; ++i)
        if (!brief || options->table[i].common) print_option(&options->table[i]);
    if (options->config) print_row("    --config FILE", "YAML, with any of the fields of the configuration");
    print_row(brief ? "    --help-all" : "-h, --help, --version",
              brief ? "all options, and every field of the configuration" : "");
    if (brief) return;
    if (options->config) print_fields(options);
    if (options->notes) puts(options->notes);
}

bool options_flush(const char *program) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    fprintf(stderr, "%s: standard output: %s\n", program, strerror(errno));
    return false;
}

static _Noreturn void exit_after_output(const options_t *options) {
    exit(options_flush(options->program) ? 0 : 1);
}

/* --- arguments --- */

typedef struct argument {
    char name[NAME_SIZE]; /* what stands before "=" */
    const char *value;    /* what stands behind it, or NULL */
} argument_t;

static argument_t split(const char *text) {
    argument_t argument = {.value = strchr(text, '=')};
    size_t size = argument.value ? (size_t)(argument.value++ - text) : strlen(text);
    snprintf(argument.name, sizeof argument.name, "%.*s", size < NAME_SIZE ? (int)size : NAME_SIZE - 1, text);
    return argument;
}

/* An empty one is that of a shell variable that is not set. */
static void refuse_empty(const options_t *options, const char *name, const char *value) {
    if (*value == '\0') options_refuse(options, name, value, "the value is empty");
}

static const char *take_value(const options_t *options, const argument_t *argument, char ***at) {
    if (argument->value) return argument->value;
    if (!(*at)[1]) options_refuse(options, argument->name, "", "needs a value");
    return *++*at;
}

static void add_to_list(const options_t *options, const option_t *option, const char *value) {
    option_list_t *list = option->at;
    size_t used = strlen(list->text), size = strlen(value);
    if (used + size + 2 > sizeof list->text) options_refuse(options, option->name, value, "too many of them");
    snprintf(list->text + used, sizeof list->text - used, "%s%s", used ? "," : "", value);
}

static void take_option(const options_t *options, const option_t *option, const argument_t *argument, char ***at) {
    if (option->kind == OPTION_FLAG) {
        if (argument->value) options_refuse(options, option->name, argument->value, "takes no value");
        *(bool *)option->at = true;
        return;
    }
    const char *value = take_value(options, argument, at);
    const bool has_values = option->kind == OPTION_NUMBER || option->kind == OPTION_CHOICE; /* which are named then */
    if (!has_values) refuse_empty(options, option->name, value);
    if (option->kind == OPTION_EACH)
        option->each(options, option, (char *)value, at);
    else if (option->kind == OPTION_TEXT)
        *(const char **)option->at = value;
    else if (option->kind == OPTION_LIST)
        add_to_list(options, option, value);
    else if (option->kind == OPTION_NUMBER)
        *(unsigned long *)option->at = options_number(options, option->name, value, option->min, option->max);
    else
        *(int *)option->at = choice(options, option, value);
}

static bool is_named(const option_t *option, const char *name) {
    bool letter = option->letter && name[0] == '-' && name[1] == option->letter && name[2] == '\0';
    return letter || strcmp(option->name, name) == 0;
}

static bool take_from_table(const options_t *options, const argument_t *argument, char ***at) {
    for (size_t i = 0; i < options->count; ++i) {
        if (options->table[i].field || !is_named(&options->table[i], argument->name)) continue;
        take_option(options, &options->table[i], argument, at);
        return true;
    }
    return false;
}

/* Parses all options except configuration fields, which apply after the file and the environment. Those and their
 * values are left in argv, from its first element on. Returns the name of the file. */
static const char *parse_own(const options_t *options, char **argv) {
    const char *file = NULL;
    char **left = argv;
    for (char **at = argv + 1; *at; ++at) {
        argument_t argument = split(*at);
        bool all = strcmp(*at, "--help-all") == 0;
        if (all || strcmp(*at, "--help") == 0 || strcmp(*at, "-h") == 0) {
            print_help(options, all);
            exit_after_output(options);
        } else if (strcmp(*at, "--version") == 0) {
            printf("uvhttp %s\n%s", uvhttp_version(), uvhttp_build_info());
            exit_after_output(options);
        } else if (options->config && strcmp(argument.name, "--config") == 0) {
            file = take_value(options, &argument, &at);
            refuse_empty(options, "--config", file);
        } else if (take_from_table(options, &argument, &at)) {
            continue;
        } else if (**at != '-' && options->positional && !*options->positional) {
            *options->positional = *at;
        } else if (**at != '-' && options->positional) {
            char why[256];
            snprintf(why, sizeof why, "one %s is allowed, and '%.100s' is given already",
                     options->positional_name ? options->positional_name : "ADDRESS", *options->positional);
            options_refuse(options, "argument", *at, why);
        } else {
            search_t search = find_field(options, argument.name);
            if (!search.found) refuse_unknown(options, &search);
            if (search.is_switch && argument.value)
                options_refuse(options, argument.name, argument.value, "takes no value");
            *left++ = *at;
            if (!argument.value && !search.is_switch) *left++ = (char *)take_value(options, &argument, &at);
        }
    }
    *left = NULL;
    return file;
}

static _Noreturn void refuse_config(const options_t *options, const char *message) {
    for (const char *line = message; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        fprintf(stderr, "%s: %.*s\n", options->program, (int)strcspn(line, "\n"), line);
    }
    exit(2);
}

/* What a reload has to do again: a program has one command line. */
static struct {
    const char *program, *file;
    const char *const *own;
    uvhttp_server_config_t initial;
    size_t count;
    struct {
        char name[NAME_SIZE];
        const char *value;
    } fields[128]; /* of the command line; more are set, but not again */
} given;

static void keep_field(const char *field, const char *value) {
    if (given.count == sizeof given.fields / sizeof given.fields[0]) return;
    snprintf(given.fields[given.count].name, NAME_SIZE, "%s", field);
    given.fields[given.count++].value = value;
}

static void parse_fields(const options_t *options, char **argv) {
    char message[256];
    for (char **at = argv; *at; ++at) {
        argument_t argument = split(*at);
        search_t search = find_field(options, argument.name);
        const char *value = search.is_switch ? "true" : take_value(options, &argument, &at);
        if (search.is_alias) refuse_empty(options, argument.name, value);
        if (uvhttp_server_config_set(options->config, search.field, value, message, sizeof message) != 0)
            options_refuse(options, argument.name, value, strstr(message, "expected"));
        keep_field(search.field, value);
    }
}

static void say(const char *what, const char *lines) {
    for (const char *line = lines; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        fprintf(stderr, "%s: %s%.*s\n", given.program, what, (int)strcspn(line, "\n"), line);
    }
}

int options_load(uvhttp_server_config_t *config, const char *file, const char *const *own, char *message, size_t size) {
    int status = file ? uvhttp_server_config_load_with(config, file, own, message, size) : UVHTTP_OK;
    return status == UVHTTP_OK ? uvhttp_server_config_env(config, message, size) : status;
}

void options_reload(uvhttp_server_t *server, void *user) {
    (void)user;
    char message[1024] = "";
    uvhttp_server_config_t config = given.initial;
    int status = options_load(&config, given.file, given.own, message, sizeof message);
    for (size_t i = 0; i < given.count && status == 0; ++i)
        status =
            uvhttp_server_config_set(&config, given.fields[i].name, given.fields[i].value, message, sizeof message);
    if (status == 0) status = uvhttp_server_reload(server, &config, message, sizeof message);
    char text[1100] = "STATUS=configuration, certificates and log files were read again";
    if (status == 0)
        say(text + sizeof "STATUS=" - 1, "");
    else
        say("not reloaded: ", message);
    if (status != 0) snprintf(text, sizeof text, "STATUS=not reloaded: %.*s", (int)strcspn(message, "\n"), message);
    (void)uvhttp_service_notify(text);
}

const char *options_parse(const options_t *options, char **argv) {
    char message[4096];
    if (options->config) given.initial = *options->config;
    const char *file = parse_own(options, argv);
    if (!options->config) return file;
    given.program = options->program;
    given.file = file;
    given.own = options->own;
    if (options_load(options->config, file, options->own, message, sizeof message) != UVHTTP_OK)
        refuse_config(options, message);
    parse_fields(options, argv);
    return file;
}
