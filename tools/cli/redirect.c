/* Owns: where redirects lead. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/plan.h"

/* Whether the first byte has no meaning in a path, or begins "%2F", which uvhttp_request_path does not decode. */
static bool stays(const char *text, size_t size) {
    unsigned char c = (unsigned char)*text;
    if (c == '%') return size >= 3 && strncasecmp(text, "%2F", 3) == 0;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("/-._~", c));
}

/* The rest is escaped, so that nothing of a request ends the field. */
static char *add_escaped(char *at, const char *text, size_t size) {
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (stays(text + i, size - i)) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        }
    }
    return at;
}

/* The part of the path that the '*' stands for; false: the redirect is for other paths. */
static bool fits(const redirect_t *redirect, uvhttp_str_t path, uvhttp_str_t *rest) {
    size_t size = strlen(redirect->from);
    bool open = size > 0 && redirect->from[size - 1] == '*';
    if (open) size--;
    if (path.size < size || (!open && path.size != size) || memcmp(path.data, redirect->from, size) != 0) return false;
    *rest = (uvhttp_str_t){path.data + size, path.size - size};
    return true;
}

char *redirect_location(const redirect_t *redirect, uvhttp_request_t *req) {
    uvhttp_str_t rest, query = uvhttp_request_query(req);
    if (!fits(redirect, uvhttp_request_path(req), &rest)) return NULL;
    size_t size = strlen(redirect->to);
    bool open = size > 0 && redirect->to[size - 1] == '*';
    if (open) size--;
    char *location = uvhttp_request_alloc(req, size + 3 * rest.size + query.size + 2), *at = location;
    if (!location) return NULL;
    memcpy(at, redirect->to, size);
    at += size;
    /* "/" and "/example.org" would make a link to another host. */
    while (open && size > 0 && redirect->to[size - 1] == '/' && rest.size > 0 && *rest.data == '/') {
        rest.data++;
        rest.size--;
    }
    if (open) at = add_escaped(at, rest.data, rest.size);
    if (query.size > 0 && !strchr(redirect->to, '?')) {
        *at++ = '?';
        memcpy(at, query.data, query.size);
        at += query.size;
    }
    *at = '\0';
    return location;
}

char *redirect_to_https(uvhttp_request_t *req, uint16_t port) {
    uvhttp_str_t host = uvhttp_request_host(req), path = uvhttp_request_path(req), query = uvhttp_request_query(req);
    size_t name = host.size;
    const char *close = host.size && host.data[0] == '[' ? memchr(host.data, ']', host.size) : NULL;
    const char *from = close ? close : host.data;
    const char *colon = host.size ? memchr(from, ':', (size_t)(host.data + host.size - from)) : NULL;
    if (colon) name = (size_t)(colon - host.data);
    if (name == 0) return NULL;                     /* HTTP/1.0 without a host */
    if (uvhttp_str_equal(path, "*")) path.size = 0; /* OPTIONS (RFC 9112 section 3.2.4) */
    char *location = uvhttp_request_alloc(req, name + 3 * path.size + query.size + 32), *at = location;
    if (!location) return NULL;
    at += sprintf(at, "https://%.*s", (int)name, host.data);
    if (port != 0 && port != 443) at += sprintf(at, ":%u", (unsigned)port);
    at = add_escaped(at, path.data, path.size);
    if (query.size > 0) {
        *at++ = '?';
        memcpy(at, query.data, query.size);
        at += query.size;
    }
    *at = '\0';
    return location;
}
