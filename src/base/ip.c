/* Owns: see ip.h. May include: alloc, str. */
#include "base/ip.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

/* An IPv4 address within IPv6 is that IPv4 address. */
static void unmap(uvhttp__ip_t *ip) {
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (ip->size != 16 || memcmp(ip->bytes, mapped, sizeof mapped) != 0) return;
    memcpy(ip->bytes, ip->bytes + 12, 4);
    memset(ip->bytes + 4, 0, 12);
    ip->size = 4;
}

bool uvhttp__ip_parse(uvhttp_str_t text, uvhttp__ip_t *ip) {
    char terminated[INET6_ADDRSTRLEN];
    const char *zone = text.size ? memchr(text.data, '%', text.size) : NULL;
    if (zone) text.size = (size_t)(zone - text.data);
    if (text.size == 0 || text.size >= sizeof terminated) return false;
    memcpy(terminated, text.data, text.size);
    terminated[text.size] = '\0';
    if (strlen(terminated) != text.size) return false;
    memset(ip, 0, sizeof *ip);
    if (!memchr(terminated, ':', text.size)) {
        ip->size = 4;
        return !zone && inet_pton(AF_INET, terminated, ip->bytes) == 1;
    }
    if (inet_pton(AF_INET6, terminated, ip->bytes) != 1) return false;
    ip->size = 16;
    unmap(ip);
    return true;
}

void uvhttp__ip_mask(uvhttp__ip_t *ip, unsigned prefix) {
    unsigned whole = prefix / 8;
    if (whole >= ip->size) return;
    ip->bytes[whole] &= (uint8_t)(0xff00u >> prefix % 8);
    memset(ip->bytes + whole + 1, 0, ip->size - whole - 1u);
}

const char *uvhttp__ip_range_parse(const char *text, uvhttp__ip_range_t *range) {
    memset(range, 0, sizeof *range);
    if (!text) return "it is NULL";
    if (strcmp(text, "unix:") == 0) return NULL;
    const char *slash = strchr(text, '/');
    uvhttp_str_t address = {text, slash ? (size_t)(slash - text) : strlen(text)};
    if (memchr(address.data, '%', address.size) || !uvhttp__ip_parse(address, &range->ip)) return "it is no address";
    range->prefix = (uint8_t)(range->ip.size * 8);
    if (!slash) return NULL;
    /* What was written as IPv6 has its prefix counted as IPv6, also if it is an IPv4 address within. */
    unsigned skipped = range->ip.size == 4 && memchr(address.data, ':', address.size) ? 96 : 0;
    uint64_t prefix;
    if (uvhttp__str_parse_u64(uvhttp__str_from(slash + 1), &prefix) != UVHTTP_OK || prefix < skipped ||
        prefix - skipped > range->prefix)
        return "its prefix length is out of range";
    range->prefix = (uint8_t)(prefix - skipped);
    uvhttp__ip_t masked = range->ip;
    uvhttp__ip_mask(&masked, range->prefix);
    return memcmp(&masked, &range->ip, sizeof masked) == 0 ? NULL : "it has bits set behind its prefix";
}

bool uvhttp__ip_range_has(const uvhttp__ip_range_t *range, const uvhttp__ip_t *ip) {
    if (!ip) return range->ip.size == 0;
    if (range->ip.size != ip->size) return false;
    uvhttp__ip_t masked = *ip;
    uvhttp__ip_mask(&masked, range->prefix);
    return memcmp(masked.bytes, range->ip.bytes, ip->size) == 0;
}

bool uvhttp__ip_ranges_have(const uvhttp__ip_ranges_t *ranges, const uvhttp__peer_t *peer) {
    if (!ranges || peer->kind == UVHTTP__PEER_UNKNOWN) return false;
    for (size_t i = 0; i < ranges->count; i++)
        if (uvhttp__ip_range_has(&ranges->items[i], peer->kind == UVHTTP__PEER_UNIX ? NULL : &peer->ip)) return true;
    return false;
}

int uvhttp__ip_ranges_new(const char *const *texts, size_t count, uvhttp__ip_ranges_t **ranges, size_t *at,
                          const char **fault) {
    *ranges = NULL;
    if (count == 0) return UVHTTP_OK;
    uvhttp__ip_ranges_t *made = uvhttp__calloc(1, sizeof *made + count * sizeof *made->items);
    if (!made) return UVHTTP_E_NOMEM;
    made->count = count;
    for (size_t i = 0; i < count; i++) {
        *fault = uvhttp__ip_range_parse(texts[i], &made->items[i]);
        if (!*fault) continue;
        *at = i;
        uvhttp__free(made);
        return UVHTTP_E_INVALID;
    }
    *ranges = made;
    return UVHTTP_OK;
}

uvhttp__peer_t uvhttp__peer_of_ip(const void *bytes, size_t size, uint16_t port) {
    uvhttp__peer_t peer = {.ip.size = (uint8_t)size, .port = port};
    memcpy(peer.ip.bytes, bytes, size);
    unmap(&peer.ip);
    peer.kind = peer.ip.size == 4 ? UVHTTP__PEER_IPV4 : UVHTTP__PEER_IPV6;
    return peer;
}

static char *put_decimal(char *out, unsigned number) {
    if (number >= 100) *out++ = (char)('0' + number / 100);
    if (number >= 10) *out++ = (char)('0' + number / 10 % 10);
    *out++ = (char)('0' + number % 10);
    return out;
}

size_t uvhttp__peer_text(const uvhttp__peer_t *peer, char text[UVHTTP__IP_TEXT_MAX]) {
    char *out = text;
    switch (peer->kind) {
        case UVHTTP__PEER_IPV4:
            for (int i = 0; i < 4; i++) {
                if (i > 0) *out++ = '.';
                out = put_decimal(out, peer->ip.bytes[i]);
            }
            *out = '\0';
            return (size_t)(out - text);
        case UVHTTP__PEER_IPV6: inet_ntop(AF_INET6, peer->ip.bytes, text, UVHTTP__IP_TEXT_MAX); return strlen(text);
        case UVHTTP__PEER_UNIX: memcpy(text, "unix:", 6); return 5;
        default: memcpy(text, "unknown", 8); return 7;
    }
}
