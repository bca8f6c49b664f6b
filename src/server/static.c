/* Owns: static files on routes of the server: registration, the way from a request to its loop's cache, the end. May
 * include: everything. */
#include "server/static.h"

#include <stdio.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "exchange/exchange.h"
#include "handler/static.h"
#include "server/server.h"

static void serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp__static_site_t *site = user;
    uvhttp__tcp_loop_t *loop = uvhttp__exchange_of(res)->loop->tcp;
    const uvhttp__static_place_t place = {
        .cache = &site->caches[loop->index], .loop = loop->io, .counters = &loop->counters};
    uvhttp__static_serve(&place, req, res);
}

static void serve_root(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp__static_serve_root(req, res);
}

void uvhttp__static_loop_stop(uvhttp__http_loop_t *loop) {
    for (uvhttp__static_site_t *site = uvhttp__server_of(loop)->sites; site; site = site->next)
        uvhttp__static_cache_close(&site->caches[loop->tcp->index]);
}

void uvhttp__static_free(uvhttp__static_site_t *sites) {
    for (uvhttp__static_site_t *next, *site = sites; site; site = next) {
        next = site->next;
        uvhttp__static_site_free(site);
    }
}

/* "<prefix>/" with all below, and "<prefix>", which is a directory without its '/'. */
static int add_routes(uvhttp_group_t *group, const char *prefix, uvhttp__static_site_t *site) {
    char pattern[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 8];
    size_t size = strlen(prefix);
    while (size > 0 && prefix[size - 1] == '/') size--;
    if (size > UVHTTP__ROUTE_PATTERN_SIZE_MAX)
        return uvhttp__group_add(group, UVHTTP_GET, prefix, serve, site, UVHTTP__EXEC_FIXED, NULL);
    memcpy(pattern, prefix, size);
    memcpy(pattern + size, "/*path", sizeof "/*path");
    int status = uvhttp__group_add(group, UVHTTP_GET, pattern, serve, site, UVHTTP__EXEC_FIXED, NULL);
    pattern[size] = '\0';
    bool is_root = size == 0 && uvhttp__group_prefix(group).size == 0;
    if (status != UVHTTP_OK || is_root) return status;
    return uvhttp__group_add(group, UVHTTP_GET, pattern, serve_root, site, UVHTTP__EXEC_FIXED, NULL);
}

static int add(uvhttp_group_t *group, const char *prefix, const char *root, const uvhttp_static_options_t *options) {
    uvhttp__router_t *router = uvhttp__group_router(group);
    uvhttp_server_t *server = uvhttp__router_owner(router);
    if (!prefix || !root || (*prefix && *prefix != '/') || strchr(prefix, '%'))
        return uvhttp__router_fail(
            router, UVHTTP_E_INVALID,
            "static files: a prefix begins with '/' and has no percent escape, and a root is the "
            "path of a directory");
    if (server->frozen) return uvhttp__group_add(group, UVHTTP_GET, prefix, serve, NULL, UVHTTP__EXEC_FIXED, NULL);
    char text[512], whole[2 * UVHTTP__ROUTE_PATTERN_SIZE_MAX];
    uvhttp_str_t outer = uvhttp__group_prefix(group);
    snprintf(whole, sizeof whole, "%.*s%s", (int)outer.size, outer.data, prefix);
    uvhttp__static_site_t *site;
    int status =
        uvhttp__static_site_new(whole, root, options, server->tcp_server->loop_count, text, sizeof text, &site);
    if (status != UVHTTP_OK) {
        UVHTTP_LOG_ERROR("http: %s", text);
        return uvhttp__router_fail(router, status, text);
    }
    /* One of the two routes may know it, whatever happens to the other: it stays. */
    status = add_routes(group, prefix, site);
    site->next = server->sites;
    server->sites = site;
    return status;
}

int uvhttp_group_static(uvhttp_group_t *group, const char *prefix, const char *root,
                        const uvhttp_static_options_t *options) {
    return group ? add(group, prefix, root, options) : UVHTTP_E_INVALID;
}

int uvhttp_static(uvhttp_server_t *server, const char *prefix, const char *root,
                  const uvhttp_static_options_t *options) {
    return server ? add(uvhttp__router_root(server->service.router), prefix, root, options) : UVHTTP_E_INVALID;
}
