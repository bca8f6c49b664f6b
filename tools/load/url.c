/* Owns: what the URL says about the target. May include: base, io. */
#include <string.h>

#include "base/str.h"
#include "load/options.h"

static const char *set_authority(load_options_t *options, const char *text, size_t size, const char *default_port) {
    if (size == 0 || size >= sizeof options->authority - 1 || memchr(text, '@', size))
        return "no host that can be used";
    memcpy(options->authority, text, size);
    const char *host = options->authority, *end = host + size, *port = NULL;
    if (host[0] == '[') {
        const char *bracket = strchr(host, ']');
        if (!bracket) return "the bracket of the address is not closed";
        if (bracket[1] == ':')
            port = bracket + 2;
        else if (bracket[1] != '\0')
            return "expected a port behind the bracket";
        host++;
        end = bracket;
    } else if ((port = strrchr(host, ':'))) {
        if (strchr(host, ':') != port) return "expected an IPv6 address in brackets, as in [::1]:8080";
        end = port++;
    }
    if (!port) port = default_port;
    uint64_t number = 0;
    if (!port || uvhttp__str_parse_u64(uvhttp__str_from(port), &number) != 0 || number == 0 || number > 65535)
        return "expected a port from 1 to 65535";
    if (end == host || (size_t)(end - host) >= sizeof options->host) return "no host that can be used";
    memcpy(options->host, host, (size_t)(end - host));
    snprintf(options->port, sizeof options->port, "%u", (unsigned)number);
    return NULL;
}

const char *load_set_url(load_options_t *options, const char *url) {
    static const struct {
        const char *prefix, *port;
        load_scheme_t scheme;
        bool secure;
    } schemes[] = {{"http://", "80", LOAD_HTTP, false},
                   {"https://", "443", LOAD_HTTP, true},
                   {"ws://", "80", LOAD_WS, false},
                   {"wss://", "443", LOAD_WS, true},
                   {"tcp://", NULL, LOAD_TCP, false}};
    options->url = url;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t prefix = strlen(schemes[i].prefix);
        if (strncasecmp(url, schemes[i].prefix, prefix) != 0) continue;
        options->scheme = schemes[i].scheme;
        options->secure = schemes[i].secure;
        if (options->secure && !load_has_tls) return "built without OpenSSL";
        const char *host = url + prefix;
        size_t size = strcspn(host, "/?#");
        options->target = host[size] == '/' ? host + size : "/";
        if (host[size] == '?' || strchr(options->target, '#'))
            return "expected a target that begins with / and has no #";
        for (const char *c = options->target; *c; c++)
            if (*c <= ' ' || *c > '~') return "encode what is not ASCII, and spaces";
        return set_authority(options, host, size, schemes[i].port);
    }
    return "expected http://HOST[:PORT]/TARGET, or https, ws, wss, tcp";
}
