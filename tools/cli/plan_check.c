/* Owns: what is wrong with a plan, said with file and line before anything is served. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/plan.h"
#include "support/listen.h"

void plan_problem(plan_t *plan, place_t place, const char *format, ...) {
    va_list arguments;
    plan->problems++;
    if (plan->status == 0) plan->status = 2;
    if (place.line > 0)
        fprintf(stderr, "%s:%d:%d: ", plan->file, place.line, place.column);
    else
        fputs("uvhttp serve: ", stderr);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    putc('\n', stderr);
}

bool plan_is_loopback(const char *address) {
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost", 9) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "[::1]", 5) == 0;
}

/* --- directories --- */

static bool is_file_below(const char *directory, const char *name) {
    char path[PATH_MAX];
    struct stat info;
    int size = snprintf(path, sizeof path, "%s/%s", directory, name);
    return size > 0 && (size_t)size < sizeof path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* 0, or why a directory cannot be served. */
static int directory_error(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return errno;
    if (!S_ISDIR(info.st_mode)) return ENOTDIR;
    return access(path, R_OK | X_OK) != 0 ? errno : 0;
}

static void check_mount(plan_t *plan, const site_t *site, const mount_t *mount) {
    const files_t *files = &mount->files;
    int error = directory_error(files->root);
    if (error != 0) {
        if (plan->status == 0) plan->status = 1;
        plan_problem(plan, mount->place, "%s: the directory cannot be opened: %s", files->root, strerror(error));
    } else if (files->fallback && !is_file_below(files->root, files->fallback)) {
        plan_problem(plan, mount->place,
                     "--fallback '%s': there is no such file below DIR; its path is relative to that directory",
                     files->fallback);
    } else if (files->spa && !files->fallback && !is_file_below(files->root, "index.html")) {
        plan_problem(plan, mount->place, "--spa: there is no index.html in %s", files->root);
    }
    for (const mount_t *other = site->mounts; other < mount; other++)
        if (strcmp(other->prefix, mount->prefix) == 0)
            plan_problem(plan, mount->place, "the site has two directories at \"%s/\"", mount->prefix);
}

/* --- fields and redirects --- */

static bool is_token(const char *text) {
    return *text &&
           text[strspn(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

static bool is_value(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' ? *text != '\t' : *text == 0x7f) return false;
    return true;
}

static void check_field(plan_t *plan, const field_t *field) {
    static const char *const framing[] = {
        "Connection", "Content-Length", "Transfer-Encoding", "Upgrade", "Keep-Alive", "Trailer", "TE", "Date"};
    if (!is_token(field->name))
        plan_problem(plan, field->place, "\"%s\" is no name of a header field: expected 'Name: value'", field->name);
    else if (!is_value(field->value))
        plan_problem(plan, field->place, "the value of %s has control characters", field->name);
    for (size_t i = 0; i < sizeof framing / sizeof *framing; i++)
        if (strcasecmp(framing[i], field->name) == 0)
            plan_problem(plan, field->place, "%s is set by the server itself: leave it out", field->name);
}

/* Whether the text in place of '*' would extend the authority of a URL: "https://example.org*" leads to
 * example.org.evil. */
static bool continues_authority(const char *to) {
    const char *host = strstr(to, "://");
    return host && !strpbrk(host + 3, "/?#") && to[strlen(to) - 1] == '*';
}

static void check_redirect(plan_t *plan, const redirect_t *redirect) {
    size_t from = strlen(redirect->from), to = strlen(redirect->to);
    if (*redirect->from != '/')
        plan_problem(plan, redirect->place, "redirect from \"%s\": a path begins with '/'", redirect->from);
    if (*redirect->to != '/' && strncmp(redirect->to, "http://", 7) != 0 && strncmp(redirect->to, "https://", 8) != 0)
        plan_problem(plan, redirect->place, "redirect to \"%s\": expected a path, or a URL with http:// or https://",
                     redirect->to);
    if (!is_value(redirect->to) || strchr(redirect->to, ' '))
        plan_problem(plan, redirect->place, "redirect to \"%s\": it has spaces or control characters", redirect->to);
    if (*redirect->to != '/' && continues_authority(redirect->to))
        plan_problem(plan, redirect->place,
                     "redirect to \"%s\": the rest would be part of the authority: write a '/' before the '*'",
                     redirect->to);
    if (to > 0 && redirect->to[to - 1] == '*' && (from == 0 || redirect->from[from - 1] != '*'))
        plan_problem(plan, redirect->place, "redirect to \"%s\": without a '*' at the end of \"%s\" it has no rest",
                     redirect->to, redirect->from);
    if (redirect->status != 301 && redirect->status != 302 && redirect->status != 303 && redirect->status != 307 &&
        redirect->status != 308)
        plan_problem(plan, redirect->place, "redirect with status %d: expected 301, 302, 303, 307 or 308",
                     redirect->status);
    bool same = strcmp(redirect->from, redirect->to) == 0;
    bool below = from > 0 && redirect->from[from - 1] == '*' && strncmp(redirect->from, redirect->to, from - 1) == 0;
    if (same || below)
        plan_problem(plan, redirect->place, "redirect from \"%s\" to \"%s\": it would never end", redirect->from,
                     redirect->to);
}

/* --- sites and listeners --- */

static void check_site(plan_t *plan, site_t *site) {
    uvhttp_credential_t users[USERS_MAX];
    char why[512];
    for (size_t i = 0; i < site->mount_count; i++) check_mount(plan, site, &site->mounts[i]);
    for (size_t i = 0; i < site->field_count; i++) check_field(plan, &site->fields[i]);
    for (size_t i = 0; i < site->redirect_count; i++) check_redirect(plan, &site->redirects[i]);
    if (site->mount_count == 0 && site->redirect_count == 0)
        plan_problem(plan, site->place, "the site has no directory: add \"root: DIR\"");
    int count = site->users_file ? users_read(site->users_file, users, USERS_MAX, why, sizeof why) : 0;
    if (count < 0) plan_problem(plan, site->place, "%s", why);
    users_free(users, count);
    if (site->https_only && !plan->has_tls)
        plan_problem(plan, site->place, "https_only: no address has TLS: add \"tls: true\" to one of \"listen\"");
}

static void check_hosts(plan_t *plan) {
    const site_t *any = NULL;
    for (size_t i = 0; i < plan->site_count; i++) {
        const site_t *site = plan->sites[i];
        if (*site->hosts) continue;
        if (any)
            plan_problem(plan, site->place, "a second site without \"hosts\": that of line %d gets all requests",
                         any->place.line);
        else
            any = site;
    }
}

static bool is_port(const char *text) {
    size_t size = strspn(text, "0123456789");
    return size > 0 && size <= 5 && text[size] == '\0' && strtoul(text, NULL, 10) <= UINT16_MAX;
}

static void check_listener(plan_t *plan, const listener_t *listener) {
    const char *colon = listen_has_port(listener->address) ? strrchr(listener->address, ':') : NULL;
    const bool is_option = listener->place.line == 0;
    if (is_option && strncmp(listener->address, "systemd", 7) == 0 && !getenv("LISTEN_FDS"))
        plan_problem(
            plan, listener->place,
            "--address 'systemd': no socket was passed in (LISTEN_FDS is not set): start it by a systemd socket "
            "unit, or name an address and --port");
    else if (!is_option && listen_has_port(listener->address) && !colon)
        plan_problem(plan, listener->place, "address \"%s\" has no port: expected \"%s:8080\"", listener->address,
                     listener->address);
    else if (colon && !is_port(colon + 1))
        plan_problem(plan, listener->place, "address \"%s\": \"%s\" is no port: expected 0..65535", listener->address,
                     colon + 1);
    for (const listener_t *other = plan->listeners; other < listener; other++)
        if (strcmp(other->address, listener->address) == 0 && !strstr(listener->address, ":0"))
            plan_problem(plan, listener->place, "address \"%s\" is listed twice", listener->address);
}

void plan_check(plan_t *plan) {
    for (size_t i = 0; i < plan->listener_count; i++) {
        const listener_t *listener = &plan->listeners[i];
        const char *colon = strrchr(listener->address, ':');
        if (listener->tls && plan->https_port == 0 && colon && listen_has_port(listener->address))
            plan->https_port = (uint16_t)strtoul(colon + 1, NULL, 10);
        plan->has_tls |= listener->tls;
        check_listener(plan, listener);
    }
    check_hosts(plan);
    for (size_t i = 0; i < plan->site_count; i++) check_site(plan, plan->sites[i]);
}
