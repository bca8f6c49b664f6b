/* Owns: client addresses as bytes, and ranges of them. May include: base. */
#include <arpa/inet.h>
#include <string.h>

#include "base/str.h"
#include "middleware/rate_limit.h"

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
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (memcmp(ip->bytes, mapped, sizeof mapped) == 0) {
        memcpy(ip->bytes, ip->bytes + 12, 4);
        memset(ip->bytes + 4, 0, 12);
        ip->size = 4;
    }
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
