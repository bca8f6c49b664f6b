/* Owns: the command completion. The scripts have the words in them, so that a key press starts no program. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

/* What a shell offers as a value. */
typedef enum kind { KIND_NONE, KIND_WORDS, KIND_FILE, KIND_DIRECTORY, KIND_FIELD } kind_t;

static kind_t kind_of(const char *words) {
    if (strcmp(words, "FILE") == 0) return KIND_FILE;
    if (strcmp(words, "DIR") == 0) return KIND_DIRECTORY;
    if (strcmp(words, "FIELD") == 0) return KIND_FIELD;
    return *words >= 'a' && *words <= 'z' ? KIND_WORDS : KIND_NONE;
}

static void print_field(const char *field, const char *group, const char *value, const char *expected, void *user) {
    (void)group, (void)value, (void)expected, (void)user;
    printf("%s ", field);
}

static void print_fields(void) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    uvhttp_server_config_fields(&config, print_field, NULL);
}

/* Without the characters that end a text in the shell that reads it. */
static void print_help(const char *help, const char *without) {
    for (; *help; help++)
        if (!strchr(without, *help)) putchar(*help);
}

/* --- bash --- */

static void bash_name(const shown_t *shown, void *user) {
    (void)user;
    if (shown->letter) printf("-%c ", shown->letter);
    printf("%s ", shown->name);
}

/* Options with a value, as patterns of a case: those of files, or the others. */
static void bash_pattern(const shown_t *shown, void *user) {
    bool file = kind_of(shown->value) == KIND_FILE;
    if (!*shown->value || file != *(bool *)user) return;
    if (shown->letter) printf("-%c|", shown->letter);
    printf("%s|", shown->name);
}

static void bash_words(const command_t *command) {
    switch (kind_of(command->words)) {
        case KIND_FILE: puts("        mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;"); break;
        case KIND_DIRECTORY: puts("        mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;"); break;
        case KIND_WORDS:
        case KIND_FIELD:
            fputs("        mapfile -t COMPREPLY < <(compgen -W \"", stdout);
            if (kind_of(command->words) == KIND_FIELD)
                print_fields();
            else
                fputs(command->words, stdout);
            puts("\" -- \"$word\") ;;");
            break;
        case KIND_NONE: puts("        ;;"); break;
    }
}

static void bash_command(const command_t *command) {
    printf("    %s)\n", command->name);
    if (command->options) {
        fputs("        case $previous in\n        ", stdout);
        commands_options(command, bash_pattern, &(bool){true});
        fputs("--)\n            mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n        ", stdout);
        commands_options(command, bash_pattern, &(bool){false});
        fputs("--)\n            return ;;\n        esac\n        if [[ $word == -* ]]; then\n"
              "            mapfile -t COMPREPLY < <(compgen -W \"",
              stdout);
        commands_options(command, bash_name, NULL);
        puts("\" -- \"$word\")\n            return\n        fi");
    }
    bash_words(command);
}

static void bash(void) {
    puts("# uvhttp in bash: source <(uvhttp completion bash)\n"
         "_uvhttp() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    COMPREPLY=()\n"
         "    if ((COMP_CWORD == 1)); then");
    fputs("        mapfile -t COMPREPLY < <(compgen -W \"", stdout);
    for (size_t i = 0; i < command_count; i++) printf("%s ", commands[i].name);
    puts("\" -- \"$word\")\n        return\n    fi\n    case ${COMP_WORDS[1]} in");
    for (size_t i = 0; i < command_count; i++) bash_command(&commands[i]);
    puts("    esac\n}\ncomplete -o filenames -F _uvhttp uvhttp");
}

/* --- zsh --- */

static const char *zsh_action(const char *words) {
    switch (kind_of(words)) {
        case KIND_FILE: return "_files";
        case KIND_DIRECTORY: return "_files -/";
        default: return " ";
    }
}

static void zsh_option(const shown_t *shown, void *user) {
    (void)user;
    if (shown->letter)
        printf(" \\\n            '*'{-%c,%s}'[", shown->letter, shown->name);
    else
        printf(" \\\n            '*%s[", shown->name);
    print_help(shown->help, "[]:'");
    putchar(']');
    if (*shown->value) {
        putchar(':');
        print_help(shown->value, "[]:' ");
        printf(":%s", zsh_action(shown->value));
    }
    putchar('\'');
}

static void zsh_command(const command_t *command) {
    kind_t kind = kind_of(command->words);
    printf("        %s)\n            _arguments", command->name);
    commands_options(command, zsh_option, NULL);
    if (kind == KIND_WORDS || kind == KIND_FIELD) {
        fputs(" \\\n            '*: :(", stdout);
        if (kind == KIND_FIELD)
            print_fields();
        else
            fputs(command->words, stdout);
        fputs(")'", stdout);
    } else if (kind != KIND_NONE) {
        printf(" \\\n            '*: :%s'", zsh_action(command->words));
    }
    puts(" ;;");
}

static void zsh(void) {
    puts("#compdef uvhttp\n# uvhttp in zsh: source <(uvhttp completion zsh)\n"
         "_uvhttp() {\n    local curcontext=$curcontext state line\n    local -a commands\n    commands=(");
    for (size_t i = 0; i < command_count; i++) {
        printf("        '%s:", commands[i].name);
        print_help(commands[i].summary, "'");
        puts("'");
    }
    puts("    )\n    _arguments -C '1: :->command' '*:: :->arguments'\n    case $state in\n"
         "    command) _describe command commands ;;\n    arguments)\n        case $line[1] in");
    for (size_t i = 0; i < command_count; i++) zsh_command(&commands[i]);
    puts("        esac ;;\n    esac\n}\n"
         "if [[ $funcstack[1] == _uvhttp ]]; then _uvhttp \"$@\"; else compdef _uvhttp uvhttp; fi");
}

/* --- fish --- */

static void fish_option(const shown_t *shown, void *user) {
    const command_t *command = user;
    printf("complete -c uvhttp -n '__fish_seen_subcommand_from %s' -l %s", command->name, shown->name + 2);
    if (shown->letter) printf(" -s %c", shown->letter);
    if (*shown->value) fputs(kind_of(shown->value) == KIND_FILE ? " -r -F" : " -x", stdout);
    fputs(" -d '", stdout);
    print_help(shown->help, "'\\");
    puts("'");
}

static void fish_command(const command_t *command) {
    printf("complete -c uvhttp -n __fish_use_subcommand -a %s -d '", command->name);
    print_help(command->summary, "'\\");
    puts("'");
    commands_options(command, fish_option, (void *)(uintptr_t)command);
    printf("complete -c uvhttp -n '__fish_seen_subcommand_from %s'", command->name);
    switch (kind_of(command->words)) {
        case KIND_FILE: puts(" -F"); break;
        case KIND_DIRECTORY: puts(" -a '(__fish_complete_directories)'"); break;
        case KIND_WORDS: printf(" -a '%s'\n", command->words); break;
        case KIND_FIELD:
            fputs(" -a '", stdout);
            print_fields();
            puts("'");
            break;
        case KIND_NONE: puts(" -f"); break;
    }
}

static void fish(void) {
    puts("# uvhttp in fish: uvhttp completion fish | source\ncomplete -c uvhttp -f");
    for (size_t i = 0; i < command_count; i++) fish_command(&commands[i]);
}

int completion_run(char **argv) {
    static const struct {
        const char *name;
        void (*write)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells && argv[1] && !argv[2]; i++) {
        if (strcmp(shells[i].name, argv[1]) != 0) continue;
        shells[i].write();
        return 0;
    }
    fputs("uvhttp completion: expected bash, zsh or fish: source <(uvhttp completion bash)\n", stderr);
    return 2;
}
