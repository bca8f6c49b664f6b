/* Owns: what proxies say of a request's client: Forwarded (RFC 7239) and X-Forwarded-*. May include: base.
 *
 * A proxy adds an element at the end and leaves what it was sent before it. So elements are read from the end, each on
 * the word of the one behind it, and nothing that a client has written is looked at before its own address is known. */
#include <assert.h>

#include "base/str.h"
#include "base/uri.h"
#include "message/message.h"

#define HOST_SIZE_MAX 255

/* --- from the last field to the first, from the end of a value to its begin --- */

typedef struct backward {
    const uvhttp_request_t *req;
    const char *name;
    size_t index;      /* of the field that `rest` is of; above it: not looked at yet */
    uvhttp_str_t rest; /* of its value */
} backward_t;

static backward_t backward_begin(const uvhttp_request_t *req, const char *name) {
    return (backward_t){.req = req, .name = name, .index = uvhttp_request_header_count(req)};
}

/* The field of that name before `index`. */
static bool previous_field(backward_t *it) {
    while (it->index > 0) {
        uvhttp_str_t name, value;
        (void)uvhttp_request_header_at(it->req, --it->index, &name, &value);
        if (!uvhttp__str_equal_nocase(name, uvhttp__str_from(it->name))) continue;
        it->rest = value;
        return true;
    }
    return false;
}

/* Where the quoted-string that ends at `end` (past its '"') begins; NULL: nowhere. */
static const char *quote_begin(const char *begin, const char *end) {
    for (const char *at = end - 1; at-- > begin;) {
        if (*at != '"') continue;
        const char *slash = at;
        while (slash > begin && slash[-1] == '\\') slash--;
        if ((at - slash) % 2 == 0) return at;
    }
    return NULL;
}

/* Cuts the text behind the last `separator` that is in no quoted-string off the end of *rest, trimmed. False, and *rest
 * is empty, if a quoted-string has no begin. */
static bool cut_last(uvhttp_str_t *rest, char separator, uvhttp_str_t *part) {
    const char *begin = rest->data, *end = begin + rest->size, *at = end;
    while (at > begin && at[-1] != separator) {
        at = at[-1] == '"' ? quote_begin(begin, at) : at - 1;
        if (!at) {
            *rest = (uvhttp_str_t){begin, 0};
            return false;
        }
    }
    *part = uvhttp__str_trim((uvhttp_str_t){at, (size_t)(end - at)});
    *rest = (uvhttp_str_t){begin, at > begin ? (size_t)(at - begin) - 1 : 0};
    return true;
}

/* The element before. *readable: false if it is not known where it begins. */
static bool previous_element(backward_t *it, uvhttp_str_t *element, bool *readable) {
    do {
        while (it->rest.size == 0)
            if (!previous_field(it)) return false;
        *readable = cut_last(&it->rest, ',', element);
    } while (*readable && element->size == 0);
    return true;
}

/* --- the parts of an element --- */

/* A token or quoted-string; without the quotes. What is escaped in it is nothing that we could use. */
static uvhttp_str_t unquoted(uvhttp_str_t value) {
    if (value.size >= 2 && value.data[0] == '"' && value.data[value.size - 1] == '"')
        return (uvhttp_str_t){value.data + 1, value.size - 2};
    return value;
}

/* "_" and letters, digits, '.', '_' or '-' (RFC 7239 section 6). */
static bool is_obfuscated(uvhttp_str_t text) {
    if (text.size < 2 || text.data[0] != '_') return false;
    for (size_t i = 1; i < text.size; i++) {
        char c = text.data[i], lower = uvhttp__char_lower(c);
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

/* One that is hidden is 0. */
static bool valid_port(uvhttp_str_t text, uint16_t *port) {
    uint64_t number;
    if (is_obfuscated(text)) return true;
    if (text.size > 5 || uvhttp__str_parse_u64(text, &number) != UVHTTP_OK || number > UINT16_MAX) return false;
    *port = (uint16_t)number;
    return true;
}

/* "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80". False for all else: "unknown",
 * "_hidden", garbage. */
static bool read_node(uvhttp_str_t text, uvhttp__peer_t *peer) {
    uvhttp__ip_t ip;
    uint16_t port = 0;
    const char *colon = text.size ? memchr(text.data, ':', text.size) : NULL;
    if (text.size > 0 && text.data[0] == '[') {
        const char *close = memchr(text.data, ']', text.size);
        if (!close) return false;
        uvhttp_str_t after = {close + 1, text.size - (size_t)(close + 1 - text.data)};
        if (after.size > 0 &&
            (after.data[0] != ':' || !valid_port((uvhttp_str_t){after.data + 1, after.size - 1}, &port)))
            return false;
        text = (uvhttp_str_t){text.data + 1, (size_t)(close - text.data) - 1};
        if (text.size == 0 || !memchr(text.data, ':', text.size)) return false;
    } else if (colon && !memchr(colon + 1, ':', text.size - (size_t)(colon + 1 - text.data))) {
        if (!valid_port((uvhttp_str_t){colon + 1, text.size - (size_t)(colon + 1 - text.data)}, &port)) return false;
        text.size = (size_t)(colon - text.data);
    }
    if (text.size > 0 && memchr(text.data, '%', text.size)) return false;
    if (!uvhttp__ip_parse(text, &ip)) return false;
    *peer = uvhttp__peer_of_ip(ip.bytes, ip.size, port);
    return true;
}

/* "unknown" and "_hidden" (RFC 7239 section 6), with or without a port, are no faults. */
static bool hides(uvhttp_str_t node) {
    if (node.size > 1 && node.data[0] == '_') return true;
    const char *colon = node.size > 0 ? memchr(node.data, ':', node.size) : NULL;
    if (colon) node.size = (size_t)(colon - node.data);
    return uvhttp__str_equal_nocase(node, UVHTTP__STR("unknown"));
}

static void read_scheme(uvhttp_str_t text, uvhttp__client_t *client) {
    if (uvhttp__str_equal_nocase(text, UVHTTP__STR("https"))) client->https = true;
    if (uvhttp__str_equal_nocase(text, UVHTTP__STR("http"))) client->https = false;
}

/* It will stand in links and redirects, as the Host field does, and has the same syntax. */
static void read_host(uvhttp_request_t *req, uvhttp_str_t text, uvhttp__client_t *client) {
    if (text.size > HOST_SIZE_MAX || !uvhttp__valid_authority(text, false)) return;
    assert(text.data);
    /* A copy: the head may move when the response is deferred. */
    char *copy = uvhttp__arena_alloc_uncounted(req->arena, text.size, 1);
    if (copy) client->host = (uvhttp_str_t){memcpy(copy, text.data, text.size), text.size};
}

/* --- Forwarded --- */

typedef struct element {
    uvhttp_str_t node, proto, host;
} element_t;

/* forwarded-element = [ pair ] *( ";" [ pair ] ); false for anything else, and for a parameter that comes twice. */
static bool read_element(uvhttp_str_t text, element_t *element) {
    static const char *const names[] = {"for", "proto", "host"};
    uvhttp_str_t *const values[] = {&element->node, &element->proto, &element->host};
    uvhttp_str_t pair;
    *element = (element_t){{NULL, 0}, {NULL, 0}, {NULL, 0}};
    while (text.size > 0) {
        bool whole = cut_last(&text, ';', &pair);
        assert(whole); /* its quoted-strings are whole: they were when it was cut off */
        (void)whole;
        if (pair.size == 0) continue;
        const char *equals = memchr(pair.data, '=', pair.size);
        if (!equals) return false;
        uvhttp_str_t name = {pair.data, (size_t)(equals - pair.data)};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (!uvhttp__str_equal_nocase(name, uvhttp__str_from(names[i]))) continue;
            if (values[i]->data) return false;
            *values[i] = unquoted((uvhttp_str_t){equals + 1, pair.size - name.size - 1});
        }
    }
    return element->node.data != NULL;
}

static bool resolve_forwarded(uvhttp_request_t *req, const uvhttp__trust_t *trust, uvhttp__client_t *client) {
    backward_t it = backward_begin(req, "Forwarded");
    uvhttp_str_t text;
    element_t element, last = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    bool readable = true;
    unsigned hops = 0;
    /* Also the last address is only followed if it is one of ours; what it says of itself comes with it. */
    while (readable && uvhttp__ip_ranges_have(trust->ranges, &client->address) &&
           previous_element(&it, &text, &readable)) {
        uvhttp__peer_t peer;
        readable = readable && hops++ < trust->hops_max && read_element(text, &element);
        if (!readable) break;
        last = element; /* how the one before has asked is known even if its name is not */
        if (hides(element.node)) break;
        readable = read_node(element.node, &peer);
        if (readable) client->address = peer;
    }
    if (trust->fields & UVHTTP__PROXY_PROTO) read_scheme(last.proto, client);
    if (trust->fields & UVHTTP__PROXY_HOST) read_host(req, last.host, client);
    return readable;
}

/* --- X-Forwarded-For, -Proto, -Host --- */

/* The element that was added together with the one of X-Forwarded-For that is `hops` from the end: proxies that do not
 * add but replace leave fewer, then it is the first. */
static uvhttp_str_t element_at(const uvhttp_request_t *req, const char *name, unsigned hops) {
    backward_t it = backward_begin(req, name);
    uvhttp_str_t text = {NULL, 0}, found = {NULL, 0};
    bool readable = true;
    for (unsigned i = 0; i < hops && previous_element(&it, &text, &readable) && readable; i++) found = text;
    return found;
}

static bool resolve_x_forwarded(uvhttp_request_t *req, const uvhttp__trust_t *trust, uvhttp__client_t *client) {
    backward_t it = backward_begin(req, "X-Forwarded-For");
    uvhttp_str_t text;
    bool readable = true;
    unsigned hops = 0;
    bool follow = trust->fields & UVHTTP__PROXY_FOR;
    while (follow && uvhttp__ip_ranges_have(trust->ranges, &client->address) &&
           previous_element(&it, &text, &readable)) {
        uvhttp__peer_t peer;
        if (readable && hides(text)) break;
        readable = readable && hops < trust->hops_max && read_node(text, &peer);
        if (!readable) break;
        client->address = peer;
        hops++;
    }
    /* A proxy that says how it was asked need not say by whom. */
    unsigned at = hops > 0 ? hops : 1;
    if (trust->fields & UVHTTP__PROXY_PROTO) read_scheme(element_at(req, "X-Forwarded-Proto", at), client);
    if (trust->fields & UVHTTP__PROXY_HOST) read_host(req, element_at(req, "X-Forwarded-Host", at), client);
    return readable;
}

bool uvhttp__forwarded_resolve(uvhttp_request_t *req, const uvhttp__trust_t *trust, uvhttp__client_t *client) {
    switch (trust->header) {
        case UVHTTP__PROXY_HEADER_FORWARDED: return resolve_forwarded(req, trust, client);
        case UVHTTP__PROXY_HEADER_X_FORWARDED: return resolve_x_forwarded(req, trust, client);
        default: return true;
    }
}
