/* Owns: see proxy_protocol.h. May include: base. */
#include "conn/proxy_protocol.h"

#include <assert.h>
#include <string.h>

#include "base/str.h"

#define V2_HEAD_SIZE 16
#define V2_INET_SIZE 12
#define V2_INET6_SIZE 36
#define V2_UNIX_SIZE 216

static const char v1_begin[] = "PROXY ";
static const char v2_begin[12] = "\r\n\r\n\0\r\nQUIT\n";

/* --- version 1: "PROXY TCP4 192.0.2.1 198.51.100.1 50000 443\r\n" --- */

/* The next word; what is left of the line begins behind one space. */
static uvhttp_str_t cut_word(uvhttp_str_t *line) {
    const char *space = line->size ? memchr(line->data, ' ', line->size) : NULL;
    uvhttp_str_t word = {line->data, space ? (size_t)(space - line->data) : line->size};
    size_t used = word.size + (space != NULL);
    *line = (uvhttp_str_t){line->data + used, line->size - used};
    return word;
}

static bool read_port(uvhttp_str_t text, uint16_t *port) {
    uint64_t number;
    if (text.size > 5 || uvhttp__str_parse_u64(text, &number) != UVHTTP_OK || number > UINT16_MAX) return false;
    if (text.size > 1 && text.data[0] == '0') return false;
    *port = (uint16_t)number;
    return true;
}

static bool read_address(uvhttp_str_t text, bool v6, uvhttp__ip_t *ip) {
    bool has_colon = text.size > 0 && memchr(text.data, ':', text.size);
    if (has_colon != v6 || (text.size > 0 && memchr(text.data, '%', text.size))) return false;
    return uvhttp__ip_parse(text, ip);
}

static int parse_v1(uvhttp_str_t line, uvhttp__peer_t *source) {
    (void)cut_word(&line); /* PROXY */
    uvhttp_str_t protocol = cut_word(&line);
    if (uvhttp__str_equal(protocol, UVHTTP__STR("UNKNOWN"))) return UVHTTP_OK;
    bool v6 = uvhttp__str_equal(protocol, UVHTTP__STR("TCP6"));
    if (!v6 && !uvhttp__str_equal(protocol, UVHTTP__STR("TCP4"))) return UVHTTP_E_PROXY_MALFORMED;
    uvhttp__ip_t from, to;
    uint16_t from_port, to_port;
    if (!read_address(cut_word(&line), v6, &from) || !read_address(cut_word(&line), v6, &to) ||
        !read_port(cut_word(&line), &from_port) || line.size == 0 || !read_port(line, &to_port))
        return UVHTTP_E_PROXY_MALFORMED;
    *source = uvhttp__peer_of_ip(from.bytes, from.size, from_port);
    return UVHTTP_OK;
}

/* --- version 2 --- */

static unsigned big_endian16(const char *bytes) {
    return (unsigned)(uint8_t)bytes[0] << 8 | (uint8_t)bytes[1];
}

/* How many of the bytes behind the first 16 say where the source is. */
static unsigned address_size(uint8_t family) {
    switch (family) {
        case 0x11: return V2_INET_SIZE;
        case 0x21: return V2_INET6_SIZE;
        case 0x31: return V2_UNIX_SIZE;
        default: return 0;
    }
}

/* The first 16 bytes are there. */
static int check_v2(const char *head) {
    uint8_t command = (uint8_t)head[12], family = (uint8_t)head[13];
    unsigned size = big_endian16(head + 14);
    if (size > UVHTTP__PROXY_V2_SIZE_MAX) return UVHTTP_E_PROXY_TOO_LARGE;
    if (command == 0x20) return UVHTTP_OK; /* LOCAL: whatever the rest says */
    if (command != 0x21 || (family != 0 && address_size(family) == 0) || size < address_size(family))
        return UVHTTP_E_PROXY_MALFORMED;
    return UVHTTP_OK;
}

/* Of what is behind the first 16 bytes, only addresses are kept. */
static unsigned kept_v2(const char *head) {
    unsigned size = big_endian16(head + 14), wanted = address_size((uint8_t)head[13]);
    if ((uint8_t)head[12] == 0x20 || wanted == V2_UNIX_SIZE) wanted = 0;
    return wanted < size ? wanted : size;
}

static void parse_v2(const char *head, uvhttp__peer_t *source) {
    const char *addresses = head + V2_HEAD_SIZE;
    if ((uint8_t)head[12] == 0x20) return;
    switch ((uint8_t)head[13]) {
        case 0x11: *source = uvhttp__peer_of_ip(addresses, 4, (uint16_t)big_endian16(addresses + 8)); break;
        case 0x21: *source = uvhttp__peer_of_ip(addresses, 16, (uint16_t)big_endian16(addresses + 32)); break;
        case 0x31: source->kind = UVHTTP__PEER_UNIX; break;
        default: break;
    }
}

/* --- one byte after the other: it is a few dozen, once per connection --- */

static int take_v1(uvhttp__proxy_t *proxy, uvhttp__peer_t *source) {
    assert(proxy->have > 0);
    char last = proxy->bytes[proxy->have - 1];
    if (proxy->have <= sizeof v1_begin - 1)
        return last == v1_begin[proxy->have - 1] ? UVHTTP_E_AGAIN : UVHTTP_E_PROXY_MISSING;
    if (proxy->bytes[proxy->have - 2] == '\r')
        return last == '\n' ? parse_v1((uvhttp_str_t){proxy->bytes, proxy->have - 2u}, source)
                            : UVHTTP_E_PROXY_MALFORMED;
    if (last == '\n' || last == '\0') return UVHTTP_E_PROXY_MALFORMED;
    return proxy->have < UVHTTP__PROXY_V1_SIZE_MAX ? UVHTTP_E_AGAIN : UVHTTP_E_PROXY_TOO_LARGE;
}

static int take_v2(uvhttp__proxy_t *proxy, uvhttp__peer_t *source) {
    assert(proxy->have > 0);
    const char *head = proxy->bytes;
    if (proxy->have <= sizeof v2_begin)
        return head[proxy->have - 1] == v2_begin[proxy->have - 1] ? UVHTTP_E_AGAIN : UVHTTP_E_PROXY_MISSING;
    if (proxy->have < V2_HEAD_SIZE) return UVHTTP_E_AGAIN;
    if (proxy->have == V2_HEAD_SIZE) {
        int status = check_v2(head);
        if (status != UVHTTP_OK) return status;
    }
    if (proxy->have < V2_HEAD_SIZE + kept_v2(head)) return UVHTTP_E_AGAIN;
    parse_v2(head, source);
    proxy->skip = (uint16_t)(big_endian16(head + 14) - kept_v2(head));
    return UVHTTP_OK;
}

int uvhttp__proxy_read(uvhttp__proxy_t *proxy, const char *data, size_t size, size_t *used, uvhttp__peer_t *source) {
    size_t at = 0;
    int status = UVHTTP_E_AGAIN;
    if (proxy->skip == 0) *source = (uvhttp__peer_t){.kind = UVHTTP__PEER_UNKNOWN};
    while (at < size && proxy->skip == 0 && status == UVHTTP_E_AGAIN) {
        proxy->bytes[proxy->have++] = data[at++];
        status = proxy->bytes[0] == v2_begin[0] ? take_v2(proxy, source) : take_v1(proxy, source);
    }
    if (proxy->skip > 0) {
        size_t step = size - at < proxy->skip ? size - at : proxy->skip;
        at += step;
        proxy->skip = (uint16_t)(proxy->skip - step);
        status = proxy->skip > 0 ? UVHTTP_E_AGAIN : UVHTTP_OK;
    }
    *used = at;
    return status;
}
