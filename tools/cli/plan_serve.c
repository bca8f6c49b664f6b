/* Owns: the sites of a plan on a server: which site a request is for, its middleware, its files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/plan.h"

/* --- which site --- */

static bool name_fits(uvhttp_str_t host, const char *name, size_t size) {
    bool below = size > 2 && name[0] == '*' && name[1] == '.';
    if (below) {
        name++;
        size--;
        return host.size > size && strncasecmp(host.data + host.size - size, name, size) == 0;
    }
    return host.size == size && strncasecmp(host.data, name, size) == 0;
}

static bool hosts_fit(uvhttp_str_t host, const char *hosts) {
    for (const char *at = hosts; *at; at += strspn(at, ", ")) {
        size_t size = strcspn(at, ", ");
        if (size > 0 && name_fits(host, at, size)) return true;
        at += size;
    }
    return false;
}

/* Without port and without the dot at the end. */
static uvhttp_str_t name_of(const uvhttp_request_t *req) {
    uvhttp_str_t host = uvhttp_request_host(req);
    const char *close = host.size && host.data[0] == '[' ? memchr(host.data, ']', host.size) : NULL;
    const char *from = close ? close : host.data;
    const char *colon = host.size ? memchr(from, ':', (size_t)(host.data + host.size - from)) : NULL;
    if (colon) host.size = (size_t)(colon - host.data);
    if (host.size > 0 && host.data[host.size - 1] == '.') host.size--;
    return host;
}

/* The first whose hosts fit, else the first without any, else the first: requests for other hosts do not come so far.
 */
static const site_t *site_of(const plan_t *plan, const uvhttp_request_t *req) {
    const site_t *any = NULL;
    if (plan->site_count == 1) return plan->sites[0];
    uvhttp_str_t name = name_of(req);
    for (size_t i = 0; i < plan->site_count; i++) {
        const site_t *site = plan->sites[i];
        if (*site->hosts && hosts_fit(name, site->hosts)) return site;
        if (!*site->hosts && !any) any = site;
    }
    return any ? any : plan->sites[0];
}

/* --- middleware of one site --- */

typedef struct guard {
    const plan_t *plan;
    const site_t *site;
    uvhttp_middleware_t inner;
} guard_t;

static uvhttp_flow_t guard_run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const guard_t *guard = user;
    return site_of(guard->plan, req) == guard->site ? guard->inner.run(req, res, guard->inner.user) : UVHTTP_NEXT;
}

static void guard_refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const guard_t *guard = user;
    if (site_of(guard->plan, req) == guard->site) guard->inner.on_refused(req, res, guard->inner.user);
}

static void guard_reload(void *user) {
    const guard_t *guard = user;
    guard->inner.reload(guard->inner.user);
}

static void guard_destroy(void *user) {
    guard_t *guard = user;
    if (guard->inner.destroy) guard->inner.destroy(guard->inner.user);
    free(guard);
}

/* Registers middleware for the requests of one site. What could not be made has been logged. */
static bool use_for(const plan_t *plan, const site_t *site, uvhttp_server_t *server, uvhttp_middleware_t inner) {
    if (!inner.run) return false;
    guard_t *guard = malloc(sizeof *guard);
    if (!guard) {
        if (inner.destroy) inner.destroy(inner.user);
        return false;
    }
    *guard = (guard_t){.plan = plan, .site = site, .inner = inner};
    const uvhttp_middleware_t outer = {.run = guard_run,
                                       .user = guard,
                                       .destroy = guard_destroy,
                                       .reload = inner.reload ? guard_reload : NULL,
                                       .on_refused = inner.on_refused ? guard_refused : NULL};
    return uvhttp_use(server, outer) == UVHTTP_OK;
}

/* --- fields and redirects --- */

static void put_fields(uvhttp_response_t *res, void *user) {
    const site_t *site = user;
    for (size_t i = 0; i < site->field_count; i++)
        (void)uvhttp_response_header(res, site->fields[i].name, site->fields[i].value);
}

static void add_fields_refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    (void)uvhttp_response_on_finish(res, put_fields, user);
}

static uvhttp_flow_t add_fields(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    add_fields_refused(req, res, user);
    return UVHTTP_NEXT;
}

static uvhttp_flow_t follow_redirects(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const site_t *site = user;
    for (size_t i = 0; i < site->redirect_count; i++) {
        char *location = redirect_location(&site->redirects[i], req);
        if (!location) continue;
        if (uvhttp_response_redirect(res, site->redirects[i].status, location) != UVHTTP_OK)
            (void)uvhttp_response_text(res, 500, "Internal Server Error\n");
        return UVHTTP_STOP;
    }
    return UVHTTP_NEXT;
}

static uvhttp_flow_t require_https(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const plan_t *plan = user;
    if (uvhttp_str_equal(uvhttp_request_client_scheme(req), "https")) return UVHTTP_NEXT;
    char *location = redirect_to_https(req, plan->https_port);
    if (!location || uvhttp_response_redirect(res, 308, location) != UVHTTP_OK)
        (void)uvhttp_response_text(res, 400, "This site is served by HTTPS only.\n");
    return UVHTTP_STOP;
}

static bool add_auth(const plan_t *plan, const site_t *site, uvhttp_server_t *server) {
    uvhttp_credential_t users[USERS_MAX + 1];
    char why[512];
    int count = 0;
    if (site->users_file) {
        count = users_read(site->users_file, users, USERS_MAX, why, sizeof why);
        if (count < 0) {
            fprintf(stderr, "uvhttp: %s\n", why);
            return false;
        }
    }
    int total = count;
    if (site->user) users[total++] = (uvhttp_credential_t){.user = site->user, .secret = site->password};
    const uvhttp_basic_auth_options_t options = {
        .realm = "uvhttp", .credentials = users, .credential_count = (size_t)total};
    bool added = total == 0 || use_for(plan, site, server, uvhttp_basic_auth(&options));
    users_free(users, count); /* it has copies */
    return added;
}

/* What everybody may see comes before the password. */
static bool add_site(plan_t *plan, const site_t *site, uvhttp_server_t *server) {
    if (site->field_count > 0) {
        const uvhttp_middleware_t fields = {
            .run = add_fields, .on_refused = add_fields_refused, .user = (void *)(uintptr_t)site};
        if (!use_for(plan, site, server, fields)) return false;
    }
    if (site->https_only) {
        const uvhttp_middleware_t https = {.run = require_https, .user = (void *)(uintptr_t)plan};
        if (!use_for(plan, site, server, https)) return false;
    }
    if (site->cors) {
        const uvhttp_cors_options_t options = {.origins = site->cors, .methods = "GET, HEAD"};
        if (!use_for(plan, site, server, uvhttp_cors(&options))) {
            plan_problem(plan, site->place, "--cors '%s': not what origins can be", site->cors);
            return false;
        }
    }
    if (site->redirect_count > 0) {
        const uvhttp_middleware_t redirects = {.run = follow_redirects, .user = (void *)(uintptr_t)site};
        if (!use_for(plan, site, server, redirects)) return false;
    }
    if (!add_auth(plan, site, server)) return false;
    return !site->gzip || use_for(plan, site, server, uvhttp_compression(NULL));
}

/* --- hosts --- */

static bool are_hosts(const char *hosts) {
    uvhttp_middleware_t made = uvhttp_allowed_hosts(&(uvhttp_allowed_hosts_options_t){.hosts = hosts});
    if (made.run && made.destroy) made.destroy(made.user);
    return made.run != NULL;
}

/* Any page that a browser shows can have a name of its own lead to a loopback address, and read what is served there:
 * only the Host shows that (DNS rebinding). */
static bool add_allowed_hosts(plan_t *plan, uvhttp_server_t *server) {
    char hosts[SITES_MAX * 256] = "";
    bool any = false, loopback = true;
    for (size_t i = 0; i < plan->site_count; i++) {
        const char *its = plan->sites[i]->hosts;
        any |= !*its;
        size_t used = strlen(hosts);
        if (*its && !are_hosts(its)) {
            plan_problem(plan, plan->sites[i]->place, "--host '%s': not what a host can be", its);
            return false;
        }
        if (*its &&
            (size_t)snprintf(hosts + used, sizeof hosts - used, "%s%s", used ? "," : "", its) >= sizeof hosts - used) {
            fprintf(stderr, "uvhttp: the sites have more hosts than fit into %zu bytes\n", sizeof hosts);
            return false;
        }
    }
    for (size_t i = 0; i < plan->listener_count; i++) loopback &= plan_is_loopback(plan->listeners[i].address);
    if (any && !loopback) return true;
    const uvhttp_allowed_hosts_options_t options = {
        .hosts = hosts,
        .loopback = true,
        .hint = "Open it as localhost, or allow the host: uvhttp serve --host NAME (or --any-host for all)."};
    return uvhttp_use(server, uvhttp_allowed_hosts(&options)) == UVHTTP_OK;
}

/* --- files --- */

static void serve_files(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const site_t *site = site_of(user, req);
    const mount_t *best = NULL;
    uvhttp_str_t path = uvhttp_request_path(req);
    for (size_t i = 0; i < site->mount_count; i++) {
        const mount_t *mount = &site->mounts[i];
        bool fits = path.size >= mount->prefix_size && memcmp(path.data, mount->prefix, mount->prefix_size) == 0 &&
                    (path.size == mount->prefix_size || path.data[mount->prefix_size] == '/');
        if (fits && (!best || mount->prefix_size > best->prefix_size)) best = mount;
    }
    if (!best || uvhttp_static_respond(best->opened, req, res, best->prefix_size) != UVHTTP_OK)
        (void)uvhttp_response_text(res, 404, "Not Found\n");
}

static bool open_mount(const site_t *site, mount_t *mount, uvhttp_server_t *server) {
    const files_t *files = &mount->files;
    char cache_control[64] = "no-cache";
    if (files->max_age != NO_MAX_AGE) snprintf(cache_control, sizeof cache_control, "max-age=%lu", files->max_age);
    const uvhttp_static_rule_t rules[] = {{"*", cache_control}, {NULL, NULL}};
    const uvhttp_static_options_t options = {.rules = rules,
                                             .fallback = files->fallback ? files->fallback
                                                         : files->spa    ? "index.html"
                                                                         : NULL,
                                             .fallback_for_html = files->spa,
                                             .list_directories = files->listing,
                                             .dot_files = files->dot_files,
                                             .no_symlinks = !files->symlinks,
                                             /* Only what is in memory is compressed. */
                                             .sendfile_min = site->gzip ? 1 << 20 : 0};
    mount->opened = uvhttp_static_files(server, files->root, &options);
    return mount->opened != NULL;
}

bool plan_add(plan_t *plan, uvhttp_server_t *server, bool any_host) {
    if (!any_host && !add_allowed_hosts(plan, server)) return false;
    for (size_t i = 0; i < plan->site_count; i++) {
        site_t *site = plan->sites[i];
        if (!add_site(plan, site, server)) return false;
        for (size_t j = 0; j < site->mount_count; j++)
            if (!open_mount(site, &site->mounts[j], server)) return false;
    }
    return uvhttp_get(server, "/*path", serve_files, (void *)(uintptr_t)plan) != NULL;
}
