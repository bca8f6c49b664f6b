/* uvhttp: the library on the command line. Owns: the table of commands, the choice among them, and help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "support/nearest.h"

static int help_run(char **argv);

const command_t commands[] = {
    {"serve", "[DIR]", "serves the files below DIR (default: the current directory)",
     "Serves the files below DIR, or the sites of a configuration file, until Ctrl-C or SIGTERM. SIGHUP reads "
     "certificates and configuration again and opens the access log anew.",
     &serve_options, "DIR", serve_run},
    {"check", "FILE", "what is wrong in a configuration file, if anything",
     "Reads FILE as serve --config does, opens directories, certificates and password files, and writes each problem "
     "with its line. Listens nowhere.",
     NULL, "FILE", check_run},
    {"explain", "[FIELD]", "each setting: value, origin, what enforces it",
     "Shows the settings that serve would have with the same options, or one FIELD.", &explain_options, "FIELD",
     explain_run},
    {"version", "", "version, features, libraries, backends that work here",
     "Shows what this program was built with, and which I/O backends work here, or why not.", NULL, "", version_run},
    {"completion", "SHELL", "completions for bash, zsh or fish",
     "Writes a script of completions. In bash: source <(uvhttp completion bash)", NULL, "bash zsh fish",
     completion_run},
    {"man", "", "this program's manual page, for man -l -", "Writes the manual page in roff.", NULL, "", man_run},
    {"help", "[COMMAND]", "this, or the options of a command", "Shows the commands, or the options of one.", NULL,
     "serve check explain version completion man", help_run},
};
const size_t command_count = sizeof commands / sizeof *commands;

bool commands_has_color(int fd) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
}

void commands_no_arguments(char **argv) {
    if (!argv[1]) return;
    fprintf(stderr, "uvhttp %s: '%s': it takes no arguments\n", argv[0], argv[1]);
    exit(2);
}

/* --- options, for completions and the manual page --- */

typedef struct walk {
    void (*each)(const shown_t *shown, void *user);
    void *user;
    const options_t *options;
} walk_t;

static void each_field(const char *field, const char *group, const char *value, const char *expected, void *user) {
    const walk_t *walk = user;
    char name[OPTIONS_NAME_SIZE], help[512];
    (void)group;
    options_of_field(field, name);
    for (size_t i = 0; i < walk->options->count; i++)
        if (strcmp(walk->options->table[i].name, name) == 0) return;
    snprintf(help, sizeof help, "%s (default %s)", expected, *value ? value : "none");
    walk->each(&(shown_t){.name = name, .value = "VALUE", .help = help}, walk->user);
}

void commands_options(const command_t *command, void (*each)(const shown_t *shown, void *user), void *user) {
    const options_t *options = command->options;
    walk_t walk = {each, user, options};
    if (!options) return;
    for (size_t i = 0; i < options->count; i++) {
        const option_t *option = &options->table[i];
        each(&(shown_t){option->letter, option->name, options_value(option), option->help}, user);
    }
    each(&(shown_t){.name = "--config", .value = "FILE", .help = "YAML, with any of the fields of the configuration"},
         user);
    each(&(shown_t){.letter = 'h', .name = "--help", .value = "", .help = "the common options"}, user);
    each(&(shown_t){.name = "--help-all", .value = "", .help = "all options"}, user);
    each(&(shown_t){.name = "--version", .value = "", .help = "as uvhttp version"}, user);
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    uvhttp_server_config_fields(&config, each_field, &walk);
}

/* --- help and the choice --- */

static const command_t *find(const char *name) {
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static void refuse(const char *program, const char *name) {
    nearest_t nearest = {.wrong = name, .distance = 3};
    for (size_t i = 0; i < command_count; i++) nearest_offer(&nearest, commands[i].name);
    if (nearest.name[0])
        fprintf(stderr, "%s: '%s' is no command, did you mean %s?\n", program, name, nearest.name);
    else
        fprintf(stderr, "%s: '%s' is no command; uvhttp help lists them\n", program, name);
}

static int help_run(char **argv) {
    const command_t *command = argv[1] ? find(argv[1]) : NULL;
    if (argv[1] && !command) {
        refuse("uvhttp help", argv[1]);
        return 2;
    }
    if (command && argv[2]) {
        fprintf(stderr, "uvhttp help: argument '%s': one COMMAND is allowed, and '%s' is given already\n", argv[2],
                argv[1]);
        return 2;
    }
    if (command && command->options) return command->run((char *[]){argv[1], (char *)"--help", NULL});
    if (command) {
        printf("Usage: uvhttp %s %s\n", command->name, command->arguments);
        options_print_wrapped(0, 0, command->details);
        return 0;
    }
    puts("uvhttp serves files over HTTP, HTTPS and HTTP/2.\n\nUsage: uvhttp COMMAND\n");
    for (size_t i = 0; i < command_count; i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].arguments);
        printf("  %-18s %s\n", left, commands[i].summary);
    }
    puts("\nFirst steps\n"
         "  uvhttp serve                   the current directory on http://127.0.0.1:8080/\n"
         "  uvhttp serve site -p 0 --open  a free port, shown in the browser\n"
         "  uvhttp serve site --tls        HTTPS, with a certificate made for the run\n"
         "  uvhttp serve --help            the common options");
    return 0;
}

static int choose(int argc, char **argv) {
    struct stat info;
    if (argc > 1) {
        const char *name = argv[1];
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return help_run(argv + 1);
        const command_t *command = find(strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 ? "version" : name);
        bool help =
            command && !command->options && argv[2] && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
        if (help) return help_run((char *[]){(char *)"help", argv[1], NULL});
        if (command) return command->run(argv + 1);
    }
    if (argc == 1)
        fprintf(stderr, "uvhttp: no command; uvhttp serve serves the current directory, uvhttp help lists all\n");
    else if (stat(argv[1], &info) == 0 && S_ISDIR(info.st_mode))
        fprintf(stderr, "uvhttp: '%s' is no command; to serve that directory: uvhttp serve %s\n", argv[1], argv[1]);
    else
        refuse("uvhttp", argv[1]);
    return 2;
}

int main(int argc, char **argv) {
    /* What serve writes to standard output is lines of requests: it serves without a reader of them. */
    bool serves = argc > 1 && strcmp(argv[1], "serve") == 0;
    int status = choose(argc, argv);
    return status == 0 && !serves && !options_flush("uvhttp") ? 1 : status;
}
