/* Owns: static files on routes of the server: registration, the way from a request to its loop's cache, the end. May
 * include: everything. */
#include "server/static.h"
#include "base/sized.h"

#include <stdio.h>
#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "exchange/exchange.h"
#include "handler/static.h"
#include "server/server.h"

static uvhttp__static_place_t place_of(uvhttp__static_site_t *site, uvhttp__tcp_loop_t *loop) {
    return (uvhttp__static_place_t){.cache = &site->caches[loop->index], .loop = loop->io, .counters = &loop->counters};
}

static void serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const uvhttp__static_place_t place = place_of(user, uvhttp__exchange_of(res)->loop->tcp);
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

/* Opens a directory; prefix: for messages. The server keeps an error. */
static int open_site(uvhttp__router_t *router, const char *prefix, const char *root,
                     const uvhttp_static_options_t *options, uvhttp__static_site_t **site) {
    uvhttp_server_t *server = uvhttp__router_owner(router);
    char text[512];
    int status =
        uvhttp__static_site_new(prefix, root, options, server->tcp_server->loop_count, text, sizeof text, site);
    if (status == UVHTTP_OK) return status;
    UVHTTP_LOG_ERROR("http: %s", text);
    return uvhttp__router_fail(router, status, text);
}

static void keep(uvhttp_server_t *server, uvhttp__static_site_t *site) {
    site->next = server->sites;
    server->sites = site;
}

static int add(uvhttp_group_t *group, const char *prefix, const char *root, const uvhttp_static_options_t *options,
               size_t options_size) {
    uvhttp__router_t *router = uvhttp__group_router(group);
    uvhttp_server_t *server = uvhttp__router_owner(router);
    if (!prefix || !root || (*prefix && *prefix != '/') || strchr(prefix, '%'))
        return uvhttp__router_fail(
            router, UVHTTP_E_INVALID,
            "static files: a prefix begins with '/' and has no percent escape, and a root is the "
            "path of a directory");
    uvhttp_static_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        return uvhttp__router_fail(router, UVHTTP_E_UNSUPPORTED, "static files: " UVHTTP__SIZED_NEWER);
    if (server->frozen) return uvhttp__group_add(group, UVHTTP_GET, prefix, serve, NULL, UVHTTP__EXEC_FIXED, NULL);
    char whole[2 * UVHTTP__ROUTE_PATTERN_SIZE_MAX];
    uvhttp_str_t outer = uvhttp__group_prefix(group);
    snprintf(whole, sizeof whole, "%.*s%s", (int)outer.size, outer.data, prefix);
    uvhttp__static_site_t *site;
    int status = open_site(router, whole, root, &full, &site);
    if (status != UVHTTP_OK) return status;
    /* One of the two routes may know it, whatever happens to the other: it stays. */
    status = add_routes(group, prefix, site);
    keep(server, site);
    return status;
}

int uvhttp_group_static_sized(uvhttp_group_t *group, const char *prefix, const char *root,
                              const uvhttp_static_options_t *options, size_t options_size) {
    return group ? add(group, prefix, root, options, options_size) : UVHTTP_E_INVALID;
}

int uvhttp_static_sized(uvhttp_server_t *server, const char *prefix, const char *root,
                        const uvhttp_static_options_t *options, size_t options_size) {
    return server ? add(uvhttp__router_root(server->service.router), prefix, root, options, options_size)
                  : UVHTTP_E_INVALID;
}

uvhttp_static_files_t *uvhttp_static_files_sized(uvhttp_server_t *server, const char *root,
                                                 const uvhttp_static_options_t *options, size_t options_size) {
    if (!server) return NULL;
    uvhttp__router_t *router = server->service.router;
    uvhttp_static_options_t full;
    uvhttp__static_site_t *site = NULL;
    if (!root)
        uvhttp__router_fail(router, UVHTTP_E_INVALID, "static files: the root is NULL");
    else if (server->frozen)
        uvhttp__router_fail(router, UVHTTP_E_STATE, "static files: the server listens already");
    else if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        uvhttp__router_fail(router, UVHTTP_E_UNSUPPORTED, "static files: " UVHTTP__SIZED_NEWER);
    else if (open_site(router, root, root, &full, &site) == UVHTTP_OK)
        keep(server, site);
    return (uvhttp_static_files_t *)site;
}

/* Conditions and ranges of other methods have another meaning (RFC 9110 section 13.2.2). */
static void refuse_method(uvhttp_response_t *res) {
    uvhttp__response_fail(res, 405, "Method Not Allowed\n");
    (void)uvhttp_response_header(res, "Allow", "GET, HEAD");
}

int uvhttp_static_respond(uvhttp_static_files_t *files, uvhttp_request_t *req, uvhttp_response_t *res,
                          size_t prefix_size) {
    if (!files || !req || !res || uvhttp_request_path(req).size < prefix_size) return UVHTTP_E_INVALID;
    uvhttp__tcp_loop_t *loop = uvhttp__exchange_of(res)->loop->tcp;
    if (!uvhttp__loop_is_current(loop->io)) return UVHTTP_E_STATE;
    uvhttp_str_t path = uvhttp_request_path(req);
    uvhttp_method_t method = uvhttp_request_method(req);
    const uvhttp__static_place_t place = place_of((uvhttp__static_site_t *)files, loop);
    if (prefix_size < path.size && path.data[prefix_size] != '/') return UVHTTP_E_INVALID;
    if (method != UVHTTP_GET && method != UVHTTP_HEAD)
        refuse_method(res);
    else if (prefix_size == path.size)
        uvhttp__static_serve_root(req, res);
    else
        uvhttp__static_serve_from(&place, req, res, prefix_size + 1);
    return UVHTTP_OK;
}
