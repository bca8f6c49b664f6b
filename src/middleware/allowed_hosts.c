/* Owns: the list of hosts that a server accepts. May include: message, base, obs. */
#include <arpa/inet.h>
#include <stdio.h>
#include <uvhttp/allowed_hosts.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/ip.h"
#include "base/sized.h"
#include "middleware/middleware.h"

#define NAME "allowed_hosts"

static const char refusal[] = "This server does not serve the host of the request.\n";

typedef struct allowed_hosts {
    char *hosts; /* comma-separated */
    bool loopback;
    char text[]; /* of the response */
} allowed_hosts_t;

static void destroy(void *user) {
    allowed_hosts_t *allowed = user;
    uvhttp__free(allowed->hosts);
    uvhttp__free(allowed);
}

/* --- requests --- */

static uvhttp_str_t without_port(uvhttp_str_t authority) {
    const char *colon = authority.size ? memrchr(authority.data, ':', authority.size) : NULL;
    const char *bracket = authority.size ? memrchr(authority.data, ']', authority.size) : NULL;
    if (colon && (!bracket || colon > bracket)) authority.size = (size_t)(colon - authority.data);
    return authority;
}

/* A name may end in the dot of the root: it is the same name. */
static uvhttp_str_t without_root(uvhttp_str_t host) {
    if (host.size > 1 && host.data[host.size - 1] == '.') host.size--;
    return host;
}

/* Whether the host ends in ".name". */
static bool is_below(uvhttp_str_t host, uvhttp_str_t name) {
    if (host.size < name.size + 2) return false;
    const char *at = host.data + host.size - name.size;
    return at[-1] == '.' && uvhttp__bytes_equal_nocase(at, name.data, name.size);
}

/* The address of "[2001:db8::1]". */
static bool read_ipv6(uvhttp_str_t host, struct in6_addr *address) {
    char text[INET6_ADDRSTRLEN];
    if (host.size < 4 || host.size - 2 >= sizeof text || host.data[0] != '[' || host.data[host.size - 1] != ']')
        return false;
    memcpy(text, host.data + 1, host.size - 2);
    text[host.size - 2] = '\0';
    return inet_pton(AF_INET6, text, address) == 1;
}

/* An IPv6 address has several texts. */
static bool same_host(uvhttp_str_t host, uvhttp_str_t item) {
    struct in6_addr a, b;
    return uvhttp__str_equal_nocase(host, item) ||
           (read_ipv6(host, &a) && read_ipv6(item, &b) && memcmp(&a, &b, sizeof a) == 0);
}

/* An IPv4 address is read as it is written by everybody: "127.1" and "0x7f.1" are names that a resolver may know. */
static bool is_loopback(uvhttp_str_t host) {
    const uvhttp_str_t localhost = UVHTTP__STR("localhost");
    if (uvhttp__str_equal_nocase(host, localhost) || is_below(host, localhost)) return true;
    if (same_host(host, UVHTTP__STR("[::1]"))) return true;
    char text[sizeof "255.255.255.255"];
    struct in_addr address;
    if (host.size >= sizeof text) return false;
    memcpy(text, host.data, host.size);
    text[host.size] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

static bool allows(const allowed_hosts_t *allowed, uvhttp_str_t host) {
    uvhttp_str_t rest = uvhttp__str_from(allowed->hosts), item;
    while (uvhttp__list_next(&rest, &item)) {
        bool below = uvhttp__str_starts_with(item, UVHTTP__STR("*."));
        if (below ? is_below(host, (uvhttp_str_t){item.data + 2, item.size - 2}) : same_host(host, item)) return true;
    }
    return allowed->loopback && is_loopback(host);
}

static uvhttp_flow_t run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const allowed_hosts_t *allowed = user;
    uvhttp_str_t host = without_root(without_port(uvhttp_request_host(req)));
    if (host.size == 0 || allows(allowed, host)) return UVHTTP_NEXT;
    uvhttp__counters_t *counters = req->ops->counters ? req->ops->counters(req) : NULL;
    if (counters) uvhttp__counters_error(counters, UVHTTP_E_HTTP_HOST_NOT_ALLOWED);
    uvhttp__response_fail_by(res, UVHTTP_E_HTTP_HOST_NOT_ALLOWED, 421, allowed->text);
    return UVHTTP_STOP;
}

/* --- making it --- */

static bool is_name(uvhttp_str_t host) {
    for (size_t i = 0; i < host.size; i++)
        if (!uvhttp__char_is(host.data[i], UVHTTP__CHAR_PARAM_NAME) && host.data[i] != '.') return false;
    return host.size > 0 && host.data[0] != '.' && host.data[host.size - 1] != '.';
}

/* The first host that is malformed; data NULL: none is. */
static uvhttp_str_t wrong_host(const char *hosts) {
    uvhttp_str_t rest = uvhttp__str_from(hosts), item;
    struct in6_addr address;
    while (uvhttp__list_next(&rest, &item)) {
        uvhttp_str_t name = item;
        if (uvhttp__str_starts_with(item, UVHTTP__STR("*."))) name = (uvhttp_str_t){item.data + 2, item.size - 2};
        if (!is_name(name) && !read_ipv6(item, &address)) return item;
    }
    return (uvhttp_str_t){NULL, 0};
}

static bool names_none(const char *hosts) {
    uvhttp_str_t rest = uvhttp__str_from(hosts), item;
    return !uvhttp__list_next(&rest, &item);
}

uvhttp_middleware_t uvhttp_allowed_hosts_sized(const uvhttp_allowed_hosts_options_t *options, size_t options_size) {
    uvhttp_allowed_hosts_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        return uvhttp__middleware_refused(NAME, "%s", UVHTTP__SIZED_NEWER);
    options = &full;
    if (!options->loopback && names_none(options->hosts))
        return uvhttp__middleware_refused(NAME, "no host is allowed: set hosts, loopback or both");
    uvhttp_str_t wrong = wrong_host(options->hosts);
    if (wrong.data)
        return uvhttp__middleware_refused(NAME,
                                          "hosts has \"%.*s\": expected a name (example.com), names below one "
                                          "(*.example.com), or an address (192.0.2.1, [2001:db8::1]), without a port",
                                          (int)(wrong.size < 100 ? wrong.size : 100), wrong.data);
    const char *hint = options->hint ? options->hint : "";
    size_t size = sizeof refusal + strlen(hint) + 1;
    allowed_hosts_t *allowed = uvhttp__calloc(1, sizeof *allowed + size);
    if (allowed) allowed->hosts = uvhttp__list_copy(options->hosts ? options->hosts : "");
    if (!allowed || !allowed->hosts) {
        uvhttp__free(allowed);
        return uvhttp__middleware_refused(NAME, "out of memory");
    }
    allowed->loopback = options->loopback;
    snprintf(allowed->text, size, "%s%s%s", refusal, hint, *hint ? "\n" : "");
    return (uvhttp_middleware_t){.run = run, .user = allowed, .destroy = destroy};
}
