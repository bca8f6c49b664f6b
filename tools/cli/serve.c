/* Owns: the command serve: its options, its addresses, and what it says at the start. */
#include "cli/serve.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/access.h"
#include "cli/commands.h"
#include "support/listen.h"

extern char **environ;

#define NO_PORT ULONG_MAX

static settings_t settings;

/* --- options --- */

/* Arguments with a password. */
static struct {
    char *texts[USERS_MAX];
    size_t count;
} secrets;

static void take_user(const options_t *options, const option_t *option, char *value, char ***at) {
    (void)at;
    static char *copy; /* of the last one, which counts */
    site_t *site = &settings.site;
    char most[24];
    snprintf(most, sizeof most, "at most %d of them", USERS_MAX);
    if (secrets.count == USERS_MAX) options_refuse(options, option->name, "", most);
    free(copy);
    copy = strdup(value);
    if (!copy || !users_split(copy, &site->user, &site->password)) {
        free(copy);
        options_refuse(options, option->name, "", "expected USER:PASSWORD");
    }
    secrets.texts[secrets.count++] = value;
}

/* ps shows the arguments as they are now. uvhttp_service_init has read them: an upgrade starts the next process with
 * them. */
static void hide_secrets(void) {
    for (size_t i = 0; i < secrets.count; i++) memset(secrets.texts[i], '*', strlen(secrets.texts[i]));
}

/* "Name: value" in two. */
static void take_field(const options_t *options, const option_t *option, char *value, char ***at) {
    (void)at;
    site_t *site = &settings.site;
    char *copy = strdup(value), *colon = copy ? strchr(copy, ':') : NULL;
    if (!colon) options_refuse(options, option->name, value, "expected 'Name: value'");
    if (site->field_count == FIELDS_MAX) options_refuse(options, option->name, value, "at most 32 of them");
    *colon++ = '\0';
    site->fields[site->field_count++] = (field_t){.name = copy, .value = colon + strspn(colon, " \t")};
}

static bool is_status(const char *text) {
    return strlen(text) == 3 && text[0] == '3' && text[strspn(text, "0123456789")] == '\0';
}

/* FROM TO, and a status if the next argument is one. */
static void take_redirect(const options_t *options, const option_t *option, char *value, char ***at) {
    site_t *site = &settings.site;
    if (!(*at)[1]) options_refuse(options, option->name, value, "expected FROM TO, and perhaps a status");
    if (site->redirect_count == REDIRECTS_MAX) options_refuse(options, option->name, value, "at most 128 of them");
    redirect_t *redirect = &site->redirects[site->redirect_count++];
    *redirect = (redirect_t){.from = value, .to = *++*at, .status = 301};
    if ((*at)[1] && is_status((*at)[1])) redirect->status = atoi(*++*at);
}

static const option_t table[] = {
    {"--port", OPTION_NUMBER, &settings.port, 0, 65535, .letter = 'p', .common = true,
     .help = "default 8080; 0: a free one, which is shown"},
    {"--address", OPTION_TEXT, &settings.address, .letter = 'a', .common = true, .value = "ADDRESS",
     .help = "default 127.0.0.1; 0.0.0.0: everybody; unix:/path"},
    {"--open", OPTION_FLAG, &settings.open, .letter = 'o', .common = true, .help = "show it in the browser"},
    {"--host", OPTION_LIST, &settings.hosts, .value = "NAME", .common = true,
     .help = "a name to serve, again for more: *.example.com"},
    {"--any-host", OPTION_FLAG, &settings.any_host, .help = "serve whatever the request's Host is"},
    {"--tls", OPTION_FLAG, &settings.tls, .common = true, .help = "HTTPS, with a certificate made for the run"},
    {"--certificate", OPTION_FIELD, .field = "tls_certificate", .value = "FILE", .common = true,
     .help = "HTTPS with this PEM file, and --key FILE"},
    {"--key", OPTION_FIELD, .field = "tls_key", .value = "FILE", .help = "PEM file"},
    {"--http-port", OPTION_NUMBER, &settings.http_port, 0, 65535, .common = true,
     .help = "with HTTPS: redirect plain HTTP there to it"},
    {"--kernel-tls", OPTION_SWITCH, .field = "tls_kernel",
     .help = "HTTPS: the kernel encrypts large files where it can"},
    {"--spa", OPTION_FLAG, &settings.site.files.spa, .common = true,
     .help = "index.html for missing paths, to browsers"},
    {"--fallback", OPTION_TEXT, &settings.site.files.fallback, .value = "FILE",
     .help = "file below DIR for missing paths without an extension, whatever the client accepts"},
    {"--gzip", OPTION_FLAG, &settings.site.gzip, .common = true,
     .help = "compress text; .gz and .br files are sent anyway"},
    {"--max-age", OPTION_NUMBER, &settings.site.files.max_age, 0, 31536000, .value = "SECONDS", .common = true,
     .help = "browsers keep files (default: they ask each time)"},
    {"--basic-auth", OPTION_EACH, .each = take_user, .value = "USER:PASSWORD",
     .help = "ask for them; other users of this machine may see them in the list of processes for a moment"},
    {"--basic-auth-file", OPTION_TEXT, &settings.site.users_file, .value = "FILE", .common = true,
     .help = "ask for a password; lines USER:PASSWORD"},
    {"--header", OPTION_EACH, .each = take_field, .value = "'NAME: VALUE'", .common = true, .help = "in each response"},
    {"--redirect", OPTION_EACH, .each = take_redirect, .value = "FROM TO", .common = true,
     .help = "/old /new, '/old/*' '/new/*'; 302: a third word"},
    {"--cors", OPTION_TEXT, &settings.site.cors, .value = "ORIGINS",
     .help = "origins whose scripts may read the files, comma-separated, or *"},
    {"--no-listing", OPTION_FLAG, &settings.no_listing, .common = true,
     .help = "404 for a directory without index.html"},
    {"--dot-files", OPTION_FLAG, &settings.site.files.dot_files, .help = "serve names that begin with a dot"},
    {"--no-symlinks", OPTION_FLAG, &settings.no_symlinks,
     .help = "404 for symlinks (default: those that stay below DIR work)"},
    {"--access-log", OPTION_TEXT, &settings.access_log, .value = "FILE", .common = true,
     .help = "-: standard output, off (default: - on a terminal)"},
    {"--access-log-format", OPTION_CHOICE, &settings.log_format, .choices = "auto, human, combined, common, json",
     .help = "auto, human, combined, common or json (default auto: human on a terminal, else combined)"},
    {"--admin", OPTION_FIELD, .field = "admin", .value = "ADDRESS", .common = true,
     .help = "dashboard and metrics: 127.0.0.1:9090"},
};

static const char notes[] = "\nExit status: 0 stopped in order, 1 cannot serve, 2 usage.";

const options_t serve_options = {.program = "uvhttp serve",
                                 .summary = "Serves the files below DIR (default: the current directory).",
                                 .table = table,
                                 .count = sizeof table / sizeof table[0],
                                 .config = &settings.config,
                                 .positional = &settings.directory,
                                 .positional_name = "DIR",
                                 .notes = notes,
                                 .own = plan_names};

void serve_initial(settings_t *to) {
    memset(to, 0, sizeof *to);
    to->port = to->http_port = NO_PORT;
    to->site.files = (files_t){.max_age = NO_MAX_AGE, .listing = true, .symlinks = true};
    uvhttp_server_config_default(&to->config);
}

/* --- the plan --- */

static bool has_tls(const settings_t *from) {
    for (size_t i = 0; i < from->plan.listener_count; i++)
        if (from->plan.listeners[i].tls) return true;
    return false;
}

static void add_listener(settings_t *to, unsigned long port, bool tls) {
    char text[LISTEN_TEXT_SIZE];
    char *address = strdup(listen_address(to->address ? to->address : "127.0.0.1", port, text));
    if (address) to->plan.listeners[to->plan.listener_count++] = (listener_t){.address = address, .tls = tls};
}

/* The port that stands in an address where none is expected: "127.0.0.1:9000", "[::1]:9000"; NULL: none. */
static const char *port_in(const char *address) {
    const char *colon = strrchr(address, ':');
    if (!listen_has_port(address) || !colon) return NULL;
    bool separates = address[0] == '[' ? colon[-1] == ']' : strchr(address, ':') == colon; /* else of IPv6 */
    return separates ? colon + 1 : NULL;
}

static void add_listeners(settings_t *to) {
    const char *certificate = to->config.tls_certificate, *key = to->config.tls_key;
    const char *port = to->address ? port_in(to->address) : NULL;
    bool tls = to->tls || *certificate || *key;
    if (port)
        plan_problem(&to->plan, (place_t){0}, "--address '%s': the port is an option of its own: add --port %s",
                     to->address, port);
    if (*certificate && !*key)
        plan_problem(&to->plan, (place_t){0}, "--certificate '%s': its private key is missing: add --key FILE (PEM)",
                     certificate);
    if (*key && !*certificate)
        plan_problem(&to->plan, (place_t){0}, "--key '%s': its certificate is missing: add --certificate FILE (PEM)",
                     key);
    add_listener(to, to->port == NO_PORT ? 8080 : to->port, tls);
    if (to->http_port == NO_PORT) return;
    if (!tls)
        plan_problem(&to->plan, (place_t){0},
                     "--http-port '%lu': there is no HTTPS to redirect to: add --tls, or "
                     "--certificate and --key",
                     to->http_port);
    add_listener(to, to->http_port, false);
}

/* Options and a file could each mean something else. */
static void refuse_addresses(settings_t *to, const char *file) {
    static const place_t none = {0};
    if (to->address)
        plan_problem(&to->plan, none, "--address '%s': %s has addresses: change them there", to->address, file);
    if (to->port != NO_PORT)
        plan_problem(&to->plan, none, "--port '%lu': %s has addresses: change them there", to->port, file);
    if (to->tls)
        plan_problem(&to->plan, none,
                     "--tls: %s has addresses: add \"tls: true\" to one of them, and name tls_certificate and tls_key",
                     file);
    if (to->http_port != NO_PORT)
        plan_problem(&to->plan, none,
                     "--http-port '%lu': %s has addresses: add one, and \"https_only: true\" to a site", to->http_port,
                     file);
}

static void add_site(settings_t *to) {
    site_t *site = &to->site;
    char *root = strdup(to->directory ? to->directory : ".");
    site->files.root = root;
    if (root) site->mounts[site->mount_count++] = (mount_t){.prefix = (char *)"", .files = site->files};
    to->plan.sites[to->plan.site_count++] = site;
}

/* Whoever asks for certificates must not serve without them. */
static void refuse_unused_tls(settings_t *to) {
    const uvhttp_server_config_t *config = &to->config;
    const struct {
        const char *name, *value;
    } fields[] = {{"tls_certificate", config->tls_certificate},
                  {"tls_client_ca", config->tls_client_ca},
                  {"tls_client_crl", config->tls_client_crl},
                  {"tls_clients", config->tls_clients == UVHTTP_TLS_CLIENTS_REQUIRE  ? "require"
                                  : config->tls_clients == UVHTTP_TLS_CLIENTS_VERIFY ? "verify"
                                                                                     : ""}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!*fields[i].value) continue;
        plan_problem(&to->plan, (place_t){0},
                     "%s is \"%s\", and no address has TLS: add \"tls: true\" to one of \"listen\"", fields[i].name,
                     fields[i].value);
        return;
    }
}

bool serve_plan(settings_t *to, const char *file) {
    plan_t *plan = &to->plan;
    plan->file = file;
    memcpy(to->site.hosts, to->hosts.text, sizeof to->site.hosts);
    to->site.files.listing = !to->no_listing;
    to->site.files.symlinks = !to->no_symlinks;
    to->site.https_only = to->http_port != NO_PORT;
    if (file) plan_read_file(plan, &to->site);
    if (plan->site_count > 0 && to->directory)
        plan_problem(plan, (place_t){0}, "argument '%s': %s has sites, which say what is served", to->directory, file);
    if (plan->listener_count == 0)
        add_listeners(to);
    else
        refuse_addresses(to, file);
    if (plan->site_count == 0 && plan->problems == 0) add_site(to);
    plan_check(plan);
    if (!plan->has_tls) refuse_unused_tls(to);
    if (*to->config.admin_token && !*to->config.admin)
        plan_problem(plan, (place_t){0},
                     "admin_token is set, and there is no admin listener: set \"admin\" to its address");
    return plan->problems == 0;
}

/* --- the server --- */

static access_t access_lines;

static bool add_access_log(uvhttp_server_t *server, const settings_t *from) {
    static const uvhttp_access_log_format_t formats[] = {UVHTTP_ACCESS_LOG_COMBINED, UVHTTP_ACCESS_LOG_JSON,
                                                         UVHTTP_ACCESS_LOG_COMBINED, UVHTTP_ACCESS_LOG_COMMON,
                                                         UVHTTP_ACCESS_LOG_JSON};
    bool terminal = isatty(STDOUT_FILENO);
    const char *log = from->access_log ? from->access_log : terminal ? "-" : "off";
    if (strcmp(log, "off") == 0) return true;
    bool output = strcmp(log, "-") == 0, human = from->log_format == 1 || (from->log_format == 0 && terminal);
    uvhttp_access_log_options_t options = {.path = output ? NULL : log, .format = formats[from->log_format]};
    if (output && human) {
        access_lines.color = commands_has_color(STDOUT_FILENO);
        options = (uvhttp_access_log_options_t){
            .format = UVHTTP_ACCESS_LOG_JSON, .write = access_write, .user = &access_lines, .flush_ms = 20};
    }
    return uvhttp_use(server, uvhttp_access_log(&options)) == UVHTTP_OK;
}

/* --- the start --- */

static const char *shown_directory(const settings_t *from, char path[PATH_MAX]) {
    const plan_t *plan = &from->plan;
    if (plan->site_count == 1 && plan->sites[0]->mount_count == 1) {
        const char *root = plan->sites[0]->mounts[0].files.root;
        return realpath(root, path) ? path : root;
    }
    snprintf(path, PATH_MAX, "%zu site%s of %s", plan->site_count, plan->site_count == 1 ? "" : "s", plan->file);
    return path;
}

/* Whether the address is that of all interfaces, as uvhttp_server_listen reads it. */
static bool is_for_everybody(const char *address) {
    static const char *const all[] = {"0.0.0.0:", "[::]:", "*:", ":"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strncmp(address, all[i], strlen(all[i])) == 0) return true;
    return false;
}

/* The URL of an address for this machine's browser; "" of one without a port. */
static void url_of(const listener_t *listener, char *url, size_t size) {
    const char *address = listener->address, *colon = strrchr(address, ':');
    url[0] = '\0';
    if (!listen_has_port(address) || !colon) return;
    int host = (int)(colon - address);
    bool everybody = is_for_everybody(address);
    snprintf(url, size, "%s://%.*s:%u/", listener->tls ? "https" : "http", everybody ? 9 : host,
             everybody ? "localhost" : address, listener->port);
}

/* The line that a person looks for. */
static void say_where(const settings_t *from, const listener_t *listener, const char *url, bool redirects) {
    char path[PATH_MAX];
    fprintf(stderr, "uvhttp: %s on %s%s%s\n", shown_directory(from, path), *url ? url : listener->address,
            redirects ? ", which redirects to HTTPS" : "",
            is_for_everybody(listener->address) ? ", for everybody who can reach this machine" : "");
}

/* A terminal or a pipe that is gone does not end a server that says something there. */
static void ignore_sigpipe(void) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL); /* fails for wrong arguments only */
}

/* Signals are as they are for a program from the shell. */
static int spawn(pid_t *child, char *const *arguments) {
    posix_spawnattr_t attributes;
    int error = posix_spawnattr_init(&attributes);
    if (error != 0) return error;
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    error = posix_spawnattr_setsigdefault(&attributes, &pipe);
    if (error == 0) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    if (error == 0) error = posix_spawnp(child, arguments[0], NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static void open_browser(const char *url) {
    char *const arguments[] = {(char *)"xdg-open", (char *)(uintptr_t)url, NULL};
    pid_t child;
    int error = *url ? spawn(&child, arguments) : ENOENT;
    if (error != 0)
        fprintf(stderr, "uvhttp: no browser was started (xdg-open: %s): open %s yourself\n", strerror(error), url);
}

/* A certificate of the configuration, or one that is made for the run. A dry run looks at one that no address needs,
 * too. */
static int make_tls(const settings_t *from, bool dry_run, uvhttp_tls_t **tls) {
    bool named = *from->config.tls_certificate || *from->config.tls_key;
    if (!has_tls(from) && !(dry_run && named)) return UVHTTP_OK;
    *tls = uvhttp_tls_from_config(&from->config);
    return *tls ? UVHTTP_OK : UVHTTP_E_TLS_CERTIFICATE;
}

static int listen_on(settings_t *from, uvhttp_server_t *server, uvhttp_tls_t *tls) {
    for (size_t i = 0; i < from->plan.listener_count; i++) {
        listener_t *listener = &from->plan.listeners[i];
        int status = listener->tls ? uvhttp_server_listen_tls(server, listener->address, tls, &listener->port)
                                   : uvhttp_server_listen(server, listener->address, &listener->port);
        if (status == UVHTTP_E_ADDRESS)
            plan_problem(&from->plan, listener->place, "%s '%s': nothing can listen there",
                         listener->place.line > 0 ? "address" : "--address",
                         listener->place.line > 0 ? listener->address : from->address);
        if (status != UVHTTP_OK) return status;
        if (listener->tls && from->plan.https_port == 0) from->plan.https_port = listener->port;
    }
    return UVHTTP_OK;
}

static void say_addresses(const settings_t *from) {
    char url[LISTEN_TEXT_SIZE + 16];
    for (size_t i = 0; i < from->plan.listener_count; i++) {
        const listener_t *listener = &from->plan.listeners[i];
        url_of(listener, url, sizeof url);
        say_where(from, listener, url, !listener->tls && from->site.https_only);
    }
    url_of(&from->plan.listeners[0], url, sizeof url);
    if (from->open) open_browser(url);
}

/* log_level none is for a server that runs: one that does not start says why. */
static bool is_silent(const settings_t *from) {
    return from->config.performance.log_level == UVHTTP_LOG_LEVEL_NONE;
}

static int run_server(const settings_t *from, uvhttp_server_t *server) {
    if (is_silent(from)) uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    int status = uvhttp_server_run(server, NULL);
    if (status != UVHTTP_OK && is_silent(from)) fprintf(stderr, "uvhttp serve: %s\n", uvhttp_server_error_text(server));
    return status;
}

/* A page is open already if an upgrade has started this process. */
static bool is_successor(void) {
    return getenv("UVHTTP_UPGRADE_FD") != NULL; /* until uvhttp_service_init */
}

/* What can fail, in its order. */
static int run(settings_t *from, uvhttp_server_t *server, bool dry_run, uvhttp_tls_t **tls) {
    int status = dry_run ? uvhttp_server_dry_run(server) : UVHTTP_OK;
    if (is_successor()) from->open = false;
    if (status == UVHTTP_OK) status = make_tls(from, dry_run, tls);
    if (status == UVHTTP_OK) status = uvhttp_service_init(server);
    if (status == UVHTTP_OK) status = listen_on(from, server, *tls);
    hide_secrets();
    if (status == UVHTTP_OK && !dry_run) say_addresses(from);
    return status == UVHTTP_OK ? run_server(from, server) : status;
}

int serve_start(settings_t *from, bool dry_run) {
    uvhttp_tls_t *tls = NULL;
    uvhttp_log_level_t *level = &from->config.performance.log_level;
    if (dry_run && *level < UVHTTP_LOG_LEVEL_WARN) *level = UVHTTP_LOG_LEVEL_WARN; /* of what does not happen */
    uvhttp_server_t *server = uvhttp_server_new(&from->config);
    if (is_silent(from)) uvhttp_log_set_level(UVHTTP_LOG_LEVEL_ERROR);
    if (!server && is_silent(from))
        fputs("uvhttp serve: the configuration is wrong; another log_level shows why\n", stderr);
    if (!server) return 2; /* the log has the reason */
    bool made = add_access_log(server, from) && plan_add(&from->plan, server, from->any_host);
    if (made) uvhttp_server_on_reload(server, options_reload, NULL);
    int status = made ? run(from, server, dry_run, &tls) : UVHTTP_E_INVALID;
    uvhttp_tls_release(tls); /* the server keeps it */
    uvhttp_server_free(server);
    if (from->plan.status != 0) return from->plan.status;
    return status == UVHTTP_E_CONFIG || status == UVHTTP_E_ADDRESS ? 2 : status != UVHTTP_OK;
}

int serve_run(char **argv) {
    ignore_sigpipe();
    serve_initial(&settings);
    const char *file = options_parse(&serve_options, argv);
    return serve_plan(&settings, file) ? serve_start(&settings, false) : settings.plan.status;
}
