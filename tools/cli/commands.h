/* The commands of uvhttp, in the one table that help, completions and the manual page are made of. */
#ifndef UVHTTP_CLI_COMMANDS_H
#define UVHTTP_CLI_COMMANDS_H

#include "support/options.h"

typedef struct command {
    const char *name;
    const char *arguments;    /* "[DIR]"; "": none */
    const char *summary;      /* a line of help */
    const char *details;      /* a paragraph of the manual page */
    const options_t *options; /* NULL: none */
    const char *words;        /* what its argument may be, with spaces between; "FILE", "DIR", or "" */
    int (*run)(char **argv);  /* argv[0] is the command's name */
} command_t;

extern const command_t commands[];
extern const size_t command_count;

/* An option in the order of the manual page; `user` is that of the call. */
typedef struct shown {
    char letter;
    const char *name, *value, *help; /* value "": it takes none */
} shown_t;
/* All options of a command: its own, --config, and every field of the configuration. */
void commands_options(const command_t *command, void (*each)(const shown_t *shown, void *user), void *user);

/* The command ends with an error of usage if there are arguments. */
void commands_no_arguments(char **argv);

extern const options_t serve_options, explain_options;

int serve_run(char **argv);
int check_run(char **argv);
int explain_run(char **argv);
int version_run(char **argv);
int completion_run(char **argv);
int man_run(char **argv);

/* Whether to write colours to the descriptor: a terminal that has them, and NO_COLOR is not set. */
bool commands_has_color(int fd);

#endif
