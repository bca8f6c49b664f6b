/* Owns: the command man: the manual page in roff, of the same table as the help. */
#include <stdio.h>

#include "cli/commands.h"

/* Text in which nothing is a request or an escape. */
static void text(const char *plain) {
    if (*plain == '.' || *plain == '\'') fputs("\\&", stdout);
    for (; *plain; plain++) {
        if (*plain == '\\')
            fputs("\\e", stdout);
        else if (*plain == '-')
            fputs("\\-", stdout);
        else
            putchar(*plain);
    }
}

static void line(const char *plain) {
    text(plain);
    putchar('\n');
}

static void print_option(const shown_t *shown, void *user) {
    (void)user;
    fputs(".TP\n\\fB", stdout);
    if (shown->letter) printf("\\-%c\\fR, \\fB", shown->letter);
    text(shown->name);
    fputs("\\fR", stdout);
    if (*shown->value) {
        fputs(" \\fI", stdout);
        text(shown->value);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    line(shown->help);
}

static void print_command(const command_t *command) {
    printf(".SS uvhttp %s %s\n", command->name, command->arguments);
    line(command->details);
    commands_options(command, print_option, NULL);
}

static const char file_text[] =
    ".SH CONFIGURATION FILE\n"
    "YAML. Each field of the configuration may stand at its top, and also:\n"
    ".TP\n.B listen\n"
    "Addresses, each \"address:port\", \"unix:/path\", or a mapping of address and tls.\n"
    ".TP\n.B sites\n"
    "Virtual hosts, each a mapping of hosts, root, mounts (prefix and root each), headers, redirects (from, to, "
    "status), "
    "basic_auth_file, cors, gzip, https_only, spa, fallback, listing, dot_files, symlinks and max_age. A site without "
    "hosts gets the requests that no other one has. Relative paths start at the directory of the file.\n"
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nserve: stopped in order; others: done.\n"
    ".TP\n.B 1\nserve: cannot serve; check: there are problems.\n"
    ".TP\n.B 2\nusage.\n"
    ".SH EXAMPLES\n"
    ".EX\nuvhttp serve site \\-p 0 \\-\\-open\n"
    "uvhttp serve dist \\-\\-spa \\-\\-gzip \\-\\-max\\-age 3600\n"
    "uvhttp serve site \\-\\-tls \\-p 8443 \\-\\-http\\-port 8080\n"
    "uvhttp check server.yaml && uvhttp serve \\-\\-config server.yaml\n.EE\n"
    ".SH SEE ALSO\n"
    ".BR uvhttp\\-load (1)\n";

int man_run(char **argv) {
    commands_no_arguments(argv);
    printf(".TH UVHTTP 1 \"\" \"uvhttp %s\" \"User Commands\"\n", uvhttp_version());
    fputs(".SH NAME\nuvhttp \\- serve files over HTTP, HTTPS and HTTP/2\n.SH SYNOPSIS\n", stdout);
    for (size_t i = 0; i < command_count; i++)
        printf("%s.B uvhttp %s\n%s%s\n", i ? ".br\n" : "", commands[i].name, *commands[i].arguments ? ".I " : ".\\\"",
               commands[i].arguments);
    fputs(".SH COMMANDS\n", stdout);
    for (size_t i = 0; i < command_count; i++) print_command(&commands[i]);
    fputs(file_text, stdout);
    return 0;
}
