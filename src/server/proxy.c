/* Owns: whom a server believes. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "server/server.h"
#include "server/server_config.h"

#define TRUSTED_MAX 1000
#define HOPS_MAX 64
#define HOPS_DEFAULT 16

static_assert((int)UVHTTP_PROXY_HEADER_FORWARDED == UVHTTP__PROXY_HEADER_FORWARDED &&
                  (int)UVHTTP_PROXY_HEADER_X_FORWARDED == UVHTTP__PROXY_HEADER_X_FORWARDED &&
                  (int)UVHTTP_PROXY_FOR == UVHTTP__PROXY_FOR && (int)UVHTTP_PROXY_PROTO == UVHTTP__PROXY_PROTO &&
                  (int)UVHTTP_PROXY_HOST == UVHTTP__PROXY_HOST,
              "message knows the values without the header");

static uint32_t fields_of(const uvhttp_server_t *server, const uvhttp_proxy_options_t *options) {
    return options->fields ? options->fields : server->service.config.proxy_fields;
}

static int take_trusted(uvhttp_server_t *server, const uvhttp_proxy_options_t *options) {
    size_t at;
    const char *fault;
    uvhttp__ip_ranges_t *ranges;
    int status = uvhttp__ip_ranges_new(options->trusted, options->trusted_count, &ranges, &at, &fault);
    if (status == UVHTTP_E_NOMEM) return uvhttp__server_remember(server, status, "trust_proxies: out of memory");
    if (status != UVHTTP_OK)
        return uvhttp__server_remember(server, UVHTTP_E_CONFIG,
                                       "trust_proxies: trusted[%zu] is \"%s\": %s; expected \"192.0.2.1\", "
                                       "\"10.0.0.0/8\", \"2001:db8::/32\" or \"unix:\"",
                                       at, options->trusted[at] ? options->trusted[at] : "", fault);
    uvhttp__free(server->service.trust.ranges);
    server->service.trust.ranges = ranges;
    server->service.trust.header = (uint8_t)options->header;
    server->service.trust.fields = (uint8_t)fields_of(server, options);
    server->service.trust.hops_max = (uint8_t)(options->hops_max ? options->hops_max : HOPS_DEFAULT);
    server->tcp_server->proxies = ranges;
    return UVHTTP_OK;
}

static int check(uvhttp_server_t *server, const uvhttp_proxy_options_t *options) {
    if (server->frozen)
        return uvhttp__server_remember(server, UVHTTP_E_STATE, "trust_proxies: not after the first listen");
    if (!options->trusted || options->trusted_count == 0 || options->trusted_count > TRUSTED_MAX)
        return uvhttp__server_remember(server, UVHTTP_E_CONFIG,
                                       "trust_proxies: trusted_count is %zu: expected 1..%d entries of trusted",
                                       options->trusted_count, TRUSTED_MAX);
    if ((unsigned)options->header > UVHTTP_PROXY_HEADER_X_FORWARDED)
        return uvhttp__server_remember(server, UVHTTP_E_CONFIG,
                                       "trust_proxies: header is %d: expected a UVHTTP_PROXY_HEADER_* value",
                                       (int)options->header);
    uint32_t fields = fields_of(server, options);
    if (fields > UVHTTP__PROXY_FIELDS_ALL)
        return uvhttp__server_remember(server, UVHTTP_E_CONFIG,
                                       "trust_proxies: fields is %" PRIu32
                                       ": expected UVHTTP_PROXY_FOR, _PROTO and _HOST combined, or 0 for the default",
                                       fields);
    if (options->header == UVHTTP_PROXY_HEADER_FORWARDED && !(fields & UVHTTP_PROXY_FOR))
        return uvhttp__server_remember(server, UVHTTP_E_CONFIG,
                                       "trust_proxies: fields is %" PRIu32
                                       " without UVHTTP_PROXY_FOR: the parameters of "
                                       "Forwarded belong to the address in for=; add it (proxy_fields: for,proto)",
                                       fields);
    if (options->hops_max > HOPS_MAX)
        return uvhttp__server_remember(server, UVHTTP_E_CONFIG,
                                       "trust_proxies: hops_max is %" PRIu32 ": expected 1..%d, or 0 for the default",
                                       options->hops_max, HOPS_MAX);
    return take_trusted(server, options);
}

int uvhttp_server_trust_proxies_sized(uvhttp_server_t *server, const uvhttp_proxy_options_t *options,
                                      size_t options_size) {
    if (!server) return UVHTTP_E_INVALID;
    uvhttp_proxy_options_t full;
    int status;
    if (!options)
        status = uvhttp__server_remember(server, UVHTTP_E_INVALID, "trust_proxies: options is NULL");
    else if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        status = uvhttp__server_remember(server, UVHTTP_E_UNSUPPORTED, "trust_proxies: " UVHTTP__SIZED_NEWER);
    else
        status = check(server, &full);
    if (server->setup_status == UVHTTP_OK) server->setup_status = status;
    return status;
}
