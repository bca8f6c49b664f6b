/* uvhttp: the library on the command line. Owns: the choice of the command, and serve. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvhttp.h>

#include "support/listen.h"
#include "support/options.h"

#define NO_MAX_AGE ULONG_MAX

typedef struct settings {
    const char *directory, *address, *fallback, *cors, *access_log;
    unsigned long port, max_age;
    option_list_t hosts;
    bool tls, no_listing, dot_files, no_symlinks, any_host;
    uvhttp_server_config_t config;
} settings_t;

static void parse_options(settings_t *settings, char **argv) {
    const option_t table[] = {
        {"--address", OPTION_TEXT, &settings->address,
         .help = "IP address; 0.0.0.0 or :: for everybody; also unix:/path (default 127.0.0.1)"},
        {"--port", OPTION_NUMBER, &settings->port, 0, 65535, .help = "0..65535; 0: a free one (default 8080)"},
        {"--host", OPTION_LIST, &settings->hosts,
         .help = "name that the server serves, several times for several: example.com, *.example.com "
                 "(default: with a loopback address only localhost and that, else any)"},
        {"--any-host", OPTION_FLAG, &settings->any_host, .help = "serve whatever the request's Host is"},
        {"--tls", OPTION_FLAG, &settings->tls, .help = "HTTPS, with a certificate that is made for the run"},
        {"--certificate", OPTION_FIELD, .field = "tls_certificate", .help = "HTTPS with this PEM file, and --key FILE"},
        {"--key", OPTION_FIELD, .field = "tls_key", .help = "PEM file"},
        {"--kernel-tls", OPTION_SWITCH, .field = "tls_kernel",
         .help = "HTTPS: the kernel encrypts large files where it can"},
        {"--fallback", OPTION_TEXT, &settings->fallback,
         .help = "file below DIR for paths that are missing, for single-page applications: index.html"},
        {"--max-age", OPTION_NUMBER, &settings->max_age, 0, 31536000,
         .help = "seconds that browsers may use a file without asking (default: they ask each time)"},
        {"--no-listing", OPTION_FLAG, &settings->no_listing, .help = "404 for a directory without index.html"},
        {"--dot-files", OPTION_FLAG, &settings->dot_files, .help = "serve names that begin with a dot"},
        {"--no-symlinks", OPTION_FLAG, &settings->no_symlinks,
         .help = "404 for symlinks (default: those that stay below DIR work)"},
        {"--cors", OPTION_TEXT, &settings->cors,
         .help = "origins whose scripts may read the files, comma-separated, or *"},
        {"--access-log", OPTION_TEXT, &settings->access_log,
         .help = "file that requests are noted in, - for standard output, or off (default: - on a terminal)"},
    };
    const options_t options = {.program = "uvhttp serve",
                               .table = table,
                               .count = sizeof table / sizeof table[0],
                               .config = &settings->config,
                               .positional = &settings->directory,
                               .positional_name = "DIR"};
    options_parse(&options, argv);
    if (!settings->directory) settings->directory = ".";
}

static bool is_loopback(const char *address) {
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "localhost") == 0 || strcmp(address, "::1") == 0 ||
           strcmp(address, "[::1]") == 0;
}

/* Any page that a browser shows can have a name of its own lead to a loopback address, and read what is served there:
 * only the Host shows that (DNS rebinding). */
static bool add_allowed_hosts(uvhttp_server_t *server, const settings_t *settings) {
    bool named = settings->hosts.text[0] != '\0';
    if (settings->any_host || (!named && !is_loopback(settings->address))) return true;
    const uvhttp_allowed_hosts_options_t options = {
        .hosts = settings->hosts.text,
        .loopback = true,
        .hint = "Open it as localhost, or allow the host: uvhttp serve --host NAME (or --any-host for all)."};
    return uvhttp_use(server, uvhttp_allowed_hosts(&options)) == UVHTTP_OK;
}

/* Registering what could not be made fails; the reason has been logged. */
static bool add_middleware(uvhttp_server_t *server, const settings_t *settings) {
    const char *log = settings->access_log ? settings->access_log : isatty(STDOUT_FILENO) ? "-" : "off";
    if (strcmp(log, "off") != 0) {
        const uvhttp_access_log_options_t options = {.path = strcmp(log, "-") == 0 ? NULL : log};
        if (uvhttp_use(server, uvhttp_access_log(&options)) != UVHTTP_OK) return false;
    }
    if (!add_allowed_hosts(server, settings)) return false;
    if (settings->cors) {
        const uvhttp_cors_options_t options = {.origins = settings->cors, .methods = "GET, HEAD"};
        if (uvhttp_use(server, uvhttp_cors(&options)) != UVHTTP_OK) return false;
    }
    return true;
}

static bool add_files(uvhttp_server_t *server, const settings_t *settings) {
    char cache_control[64] = "no-cache";
    if (settings->max_age != NO_MAX_AGE)
        snprintf(cache_control, sizeof cache_control, "max-age=%lu", settings->max_age);
    const uvhttp_static_rule_t rules[] = {{"*", cache_control}, {NULL, NULL}};
    const uvhttp_static_options_t options = {.rules = rules,
                                             .fallback = settings->fallback,
                                             .list_directories = !settings->no_listing,
                                             .dot_files = settings->dot_files,
                                             .no_symlinks = settings->no_symlinks};
    return uvhttp_static(server, "/", settings->directory, &options) == UVHTTP_OK;
}

/* The line that a person looks for. */
static void say_where(const settings_t *settings, bool tls, uint16_t port) {
    char path[PATH_MAX], text[LISTEN_TEXT_SIZE];
    const char *directory = realpath(settings->directory, path);
    if (!directory) directory = settings->directory;
    if (!listen_has_port(settings->address)) {
        fprintf(stderr, "uvhttp: %s on %s\n", directory, settings->address);
        return;
    }
    bool everybody = strcmp(settings->address, "0.0.0.0") == 0 || strcmp(settings->address, "::") == 0;
    const char *host = everybody ? "localhost" : settings->address;
    fprintf(stderr, "uvhttp: %s on %s://%s/%s\n", directory, tls ? "https" : "http", listen_address(host, port, text),
            everybody ? ", for everybody who can reach this machine" : "");
}

static _Noreturn void refuse(const char *option, const char *value, const char *why) {
    fprintf(stderr, "uvhttp serve: %s '%s': %s\n", option, value, why);
    exit(2);
}

static bool is_file_below(const char *directory, const char *name) {
    char path[PATH_MAX];
    struct stat info;
    int size = snprintf(path, sizeof path, "%s/%s", directory, name);
    return size > 0 && (size_t)size < sizeof path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* Options that are right by themselves, but not together or not here. */
static void check(const settings_t *settings) {
    struct stat info;
    const char *certificate = settings->config.tls_certificate, *key = settings->config.tls_key;
    if (*certificate && !*key) refuse("--certificate", certificate, "its private key is missing: add --key FILE (PEM)");
    if (*key && !*certificate) refuse("--key", key, "its certificate is missing: add --certificate FILE (PEM)");
    if (strncmp(settings->address, "systemd", 7) == 0 && !getenv("LISTEN_FDS"))
        refuse("--address", settings->address,
               "no socket was passed in (LISTEN_FDS is not set): start it by a systemd socket unit, or name an address "
               "and --port");
    bool has_directory = stat(settings->directory, &info) == 0 && S_ISDIR(info.st_mode);
    if (settings->fallback && has_directory && !is_file_below(settings->directory, settings->fallback))
        refuse("--fallback", settings->fallback,
               "there is no such file below DIR; its path is relative to that directory");
}

static int serve(char **argv) {
    settings_t settings = {.address = "127.0.0.1", .port = 8080, .max_age = NO_MAX_AGE};
    uvhttp_server_config_default(&settings.config);
    parse_options(&settings, argv);
    check(&settings);
    uvhttp_server_t *server = uvhttp_server_new(&settings.config);
    if (!server) return 2; /* what is wrong has been logged, here and below */
    char text[LISTEN_TEXT_SIZE];
    const char *address = listen_address(settings.address, settings.port, text);
    bool tls = settings.tls || *settings.config.tls_certificate || *settings.config.tls_key;
    uint16_t port = 0;
    uvhttp_server_on_reload(server, options_reload, NULL);
    int status = uvhttp_service_init(server);
    if (status == UVHTTP_OK && !(add_middleware(server, &settings) && add_files(server, &settings)))
        status = UVHTTP_E_CONFIG;
    if (status == UVHTTP_OK)
        status = tls ? listen_with_tls(server, address, &settings.config, &port)
                     : uvhttp_server_listen(server, address, &port);
    if (status == UVHTTP_OK) {
        say_where(&settings, tls, port);
        status = uvhttp_server_run(server, NULL);
    }
    uvhttp_server_free(server);
    return status != UVHTTP_OK;
}

static int version(char **argv) {
    (void)argv;
    printf("uvhttp %s\n%s", uvhttp_version(), uvhttp_build_info());
    return 0;
}

static int help(char **argv) {
    (void)argv;
    puts("Usage: uvhttp COMMAND\n"
         "  serve [DIR]   the files below DIR (default: the current directory) on http://127.0.0.1:8080/;\n"
         "                uvhttp serve --help lists the options\n"
         "  version       version, and what this program was built with\n"
         "  help          this");
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(char **argv);
    } commands[] = {{"serve", serve},       {"version", version}, {"help", help},
                    {"--version", version}, {"--help", help},     {"-h", help}};
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; ++i)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argv + 1);
    struct stat info;
    if (argc == 1)
        fprintf(stderr, "uvhttp: no command; uvhttp serve serves the current directory, uvhttp help lists all\n");
    else if (stat(argv[1], &info) == 0 && S_ISDIR(info.st_mode))
        fprintf(stderr, "uvhttp: '%s' is no command; to serve that directory: uvhttp serve %s\n", argv[1], argv[1]);
    else
        fprintf(stderr, "uvhttp: '%s' is no command; uvhttp help lists them\n", argv[1]);
    return 2;
}
