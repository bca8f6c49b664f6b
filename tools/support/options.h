/* The command lines of the programs here: a table of options, and every field of the server's configuration. */
#ifndef UVHTTP_SUPPORT_OPTIONS_H
#define UVHTTP_SUPPORT_OPTIONS_H

#include <uvhttp.h>

typedef enum option_kind {
    OPTION_TEXT,   /* at: const char * */
    OPTION_NUMBER, /* at: unsigned long, min..max */
    OPTION_CHOICE, /* at: int, which of `choices` */
    OPTION_FLAG,   /* at: bool; takes no value */
    OPTION_FIELD,  /* at: nothing; another name of `field` of the configuration */
    OPTION_SWITCH, /* the same of a field that is true or false: without a value, for true */
    OPTION_LIST,   /* at: option_list_t; may be given several times */
    OPTION_EACH,   /* `each` is called; may be given several times */
} option_kind_t;

/* The values of an option, comma-separated in the order given; "" if it was not. */
typedef struct option_list {
    char text[2048];
} option_list_t;

typedef struct options options_t;

typedef struct option {
    const char *name; /* with the dashes */
    option_kind_t kind;
    void *at; /* holds the default, which an option replaces */
    unsigned long min, max;
    const char *choices; /* "auto, off" */
    const char *field;
    const char *help;  /* in a sentence or less */
    char letter;       /* 'p': also "-p"; 0: none */
    bool common;       /* in --help; without one that is, all are */
    const char *value; /* what its value is called: FILE, DIR, ...; NULL: by its kind */
    void (*each)(const options_t *options, const struct option *option, char *value, char ***at);
} option_t;

struct options {
    const char *program;
    const char *summary; /* what it does, in --help; may be NULL */
    const option_t *table;
    size_t count;
    uvhttp_server_config_t *config; /* NULL: no --config and no fields */
    const char **positional;        /* one argument without dashes; NULL: there is none */
    const char *positional_name;    /* in --help; NULL: ADDRESS */
    const char *notes;              /* at the end of --help; may be NULL */
    const char *const *own;         /* names in the file that are not the server's; may be NULL */
};

/* "--name value", "--name=value" or "-n value". With a configuration: first the file that --config names, then the
 * environment, then the fields that are given as options (--keepalive-timeout 60), wherever they stand. --help,
 * --help-all and --version end the program with 0, or 1 if their text could not be written; whatever is wrong ends it
 * with 2 after one line that says what. Changes the elements of argv. Returns the name of the file, or NULL. */
const char *options_parse(const options_t *options, char **argv);

/* At the end of a program that has printed: false after a line on stderr if standard output did not accept all of it.
 */
bool options_flush(const char *program);

/* For `each`: ends the program because of its value. */
_Noreturn void options_refuse(const options_t *options, const char *name, const char *value, const char *why);

/* In lines that fit a terminal; `column` is where the first one begins, `indent` where all text does. */
void options_print_wrapped(size_t column, size_t indent, const char *text);

/* What --help calls the value of an option: "FILE"; "" if it has none. */
const char *options_value(const option_t *option);

/* "keepalive_timeout" as "--keepalive-timeout"; name has OPTIONS_NAME_SIZE bytes. */
#define OPTIONS_NAME_SIZE 64
void options_of_field(const char *field, char *name);

/* For uvhttp_server_on_reload (SIGHUP), of a program that has called options_parse: reads the file and the environment
 * again, with the options of the command line above them, gives the server what they say, and says on stderr whether
 * it was accepted. */
void options_reload(uvhttp_server_t *server, void *user);

/* Sets what the file (NULL: there is none) and then the environment say, as options_parse does. Result and message are
 * those of uvhttp_server_config_load_with. */
int options_load(uvhttp_server_config_t *config, const char *file, const char *const *own, char *message, size_t size);

/* A number of min..max, for a value that may also be something else. */
unsigned long options_number(const options_t *options, const char *name, const char *value, unsigned long min,
                             unsigned long max);

#endif
