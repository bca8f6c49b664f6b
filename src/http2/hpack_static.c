/* Owns: the static table (RFC 7541 appendix A), and which name a text is. May include: base. */
#include "http2/hpack_static.h"

#include <pthread.h>
#include <string.h>

#define ENTRY(name, value, id, facts)                                                                                  \
    { name value, sizeof(name) - 1, sizeof(value) - 1, id, facts }

/* clang-format off */
const uvhttp__hpack_static_t uvhttp__hpack_static[UVHTTP__HPACK_STATIC_COUNT + 1] = {
    [1] = ENTRY(":authority", "", 1, UVHTTP__HPACK_GOOD_PSEUDO),
    [2] = ENTRY(":method", "GET", 2, UVHTTP__HPACK_GOOD_PSEUDO),
    [3] = ENTRY(":method", "POST", 2, UVHTTP__HPACK_GOOD_PSEUDO),
    [4] = ENTRY(":path", "/", 4, UVHTTP__HPACK_GOOD_PSEUDO),
    [5] = ENTRY(":path", "/index.html", 4, UVHTTP__HPACK_GOOD_PSEUDO),
    [6] = ENTRY(":scheme", "http", 6, UVHTTP__HPACK_GOOD_PSEUDO),
    [7] = ENTRY(":scheme", "https", 6, UVHTTP__HPACK_GOOD_PSEUDO),
    [8] = ENTRY(":status", "200", 8, 0),
    [9] = ENTRY(":status", "204", 8, 0),
    [10] = ENTRY(":status", "206", 8, 0),
    [11] = ENTRY(":status", "304", 8, 0),
    [12] = ENTRY(":status", "400", 8, 0),
    [13] = ENTRY(":status", "404", 8, 0),
    [14] = ENTRY(":status", "500", 8, 0),
    [15] = ENTRY("accept-charset", "", 15, UVHTTP__HPACK_PLAIN_FIELD),
    [16] = ENTRY("accept-encoding", "gzip, deflate", 16, UVHTTP__HPACK_PLAIN_FIELD),
    [17] = ENTRY("accept-language", "", 17, UVHTTP__HPACK_PLAIN_FIELD),
    [18] = ENTRY("accept-ranges", "", 18, UVHTTP__HPACK_PLAIN_FIELD),
    [19] = ENTRY("accept", "", 19, UVHTTP__HPACK_PLAIN_FIELD),
    [20] = ENTRY("access-control-allow-origin", "", 20, UVHTTP__HPACK_PLAIN_FIELD),
    [21] = ENTRY("age", "", 21, UVHTTP__HPACK_PLAIN_FIELD),
    [22] = ENTRY("allow", "", 22, UVHTTP__HPACK_PLAIN_FIELD),
    [23] = ENTRY("authorization", "", 23, UVHTTP__HPACK_PLAIN_FIELD),
    [24] = ENTRY("cache-control", "", 24, UVHTTP__HPACK_PLAIN_FIELD),
    [25] = ENTRY("content-disposition", "", 25, UVHTTP__HPACK_PLAIN_FIELD),
    [26] = ENTRY("content-encoding", "", 26, UVHTTP__HPACK_PLAIN_FIELD),
    [27] = ENTRY("content-language", "", 27, UVHTTP__HPACK_PLAIN_FIELD),
    [28] = ENTRY("content-length", "", 28, 0),
    [29] = ENTRY("content-location", "", 29, UVHTTP__HPACK_PLAIN_FIELD),
    [30] = ENTRY("content-range", "", 30, UVHTTP__HPACK_PLAIN_FIELD),
    [31] = ENTRY("content-type", "", 31, UVHTTP__HPACK_PLAIN_FIELD),
    [32] = ENTRY("cookie", "", 32, 0),
    [33] = ENTRY("date", "", 33, UVHTTP__HPACK_PLAIN_FIELD),
    [34] = ENTRY("etag", "", 34, UVHTTP__HPACK_PLAIN_FIELD),
    [35] = ENTRY("expect", "", 35, 0),
    [36] = ENTRY("expires", "", 36, UVHTTP__HPACK_PLAIN_FIELD),
    [37] = ENTRY("from", "", 37, UVHTTP__HPACK_PLAIN_FIELD),
    [38] = ENTRY("host", "", 38, UVHTTP__HPACK_GOOD_PSEUDO),
    [39] = ENTRY("if-match", "", 39, UVHTTP__HPACK_PLAIN_FIELD),
    [40] = ENTRY("if-modified-since", "", 40, UVHTTP__HPACK_PLAIN_FIELD),
    [41] = ENTRY("if-none-match", "", 41, UVHTTP__HPACK_PLAIN_FIELD),
    [42] = ENTRY("if-range", "", 42, UVHTTP__HPACK_PLAIN_FIELD),
    [43] = ENTRY("if-unmodified-since", "", 43, UVHTTP__HPACK_PLAIN_FIELD),
    [44] = ENTRY("last-modified", "", 44, UVHTTP__HPACK_PLAIN_FIELD),
    [45] = ENTRY("link", "", 45, UVHTTP__HPACK_PLAIN_FIELD),
    [46] = ENTRY("location", "", 46, UVHTTP__HPACK_PLAIN_FIELD),
    [47] = ENTRY("max-forwards", "", 47, UVHTTP__HPACK_PLAIN_FIELD),
    [48] = ENTRY("proxy-authenticate", "", 48, UVHTTP__HPACK_PLAIN_FIELD),
    [49] = ENTRY("proxy-authorization", "", 49, UVHTTP__HPACK_PLAIN_FIELD),
    [50] = ENTRY("range", "", 50, UVHTTP__HPACK_PLAIN_FIELD),
    [51] = ENTRY("referer", "", 51, UVHTTP__HPACK_PLAIN_FIELD),
    [52] = ENTRY("refresh", "", 52, UVHTTP__HPACK_PLAIN_FIELD),
    [53] = ENTRY("retry-after", "", 53, UVHTTP__HPACK_PLAIN_FIELD),
    [54] = ENTRY("server", "", 54, UVHTTP__HPACK_PLAIN_FIELD),
    [55] = ENTRY("set-cookie", "", 55, UVHTTP__HPACK_PLAIN_FIELD),
    [56] = ENTRY("strict-transport-security", "", 56, UVHTTP__HPACK_PLAIN_FIELD),
    [57] = ENTRY("transfer-encoding", "", 57, 0),
    [58] = ENTRY("user-agent", "", 58, UVHTTP__HPACK_PLAIN_FIELD),
    [59] = ENTRY("vary", "", 59, UVHTTP__HPACK_PLAIN_FIELD),
    [60] = ENTRY("via", "", 60, UVHTTP__HPACK_PLAIN_FIELD),
    [61] = ENTRY("www-authenticate", "", 61, UVHTTP__HPACK_PLAIN_FIELD),
};
/* clang-format on */

static const struct {
    char text[17];
    uint8_t size;
} others[] = {
#define OTHER(id, name) [(id)-UVHTTP__HPACK_STATIC_COUNT - 1] = {name, sizeof(name) - 1}
    OTHER(UVHTTP__HPACK_PROTOCOL, ":protocol"),    OTHER(UVHTTP__HPACK_CONNECTION, "connection"),
    OTHER(UVHTTP__HPACK_KEEP_ALIVE, "keep-alive"), OTHER(UVHTTP__HPACK_PROXY_CONNECTION, "proxy-connection"),
    OTHER(UVHTTP__HPACK_UPGRADE, "upgrade"),       OTHER(UVHTTP__HPACK_TE, "te"),
    OTHER(UVHTTP__HPACK_TRAILER, "trailer"),       OTHER(UVHTTP__HPACK_PRIORITY, "priority"),
#undef OTHER
};

enum { NAME_SLOTS = 256 }; /* a power of two, sparse: most names that are not known find an empty slot */
static uint8_t name_slots[NAME_SLOTS];

static uvhttp_str_t text_of(unsigned name) {
    if (name <= UVHTTP__HPACK_STATIC_COUNT)
        return (uvhttp_str_t){uvhttp__hpack_static[name].text, uvhttp__hpack_static[name].name_size};
    return (uvhttp_str_t){others[name - UVHTTP__HPACK_STATIC_COUNT - 1].text,
                          others[name - UVHTTP__HPACK_STATIC_COUNT - 1].size};
}

static inline unsigned name_hash(const char *text, size_t size) {
    unsigned first = (uint8_t)text[0], middle = (uint8_t)text[size / 2], last = (uint8_t)text[size - 1];
    return (unsigned)size * 37u + first * 5u + middle * 17u + last * 3u;
}

void uvhttp__hpack_prepare_names(void) {
    for (unsigned name = 1; name < UVHTTP__HPACK_NAME_COUNT; ++name) {
        if (name <= UVHTTP__HPACK_STATIC_COUNT && uvhttp__hpack_static[name].name != name) continue;
        uvhttp_str_t text = text_of(name);
        unsigned slot = name_hash(text.data, text.size);
        while (name_slots[slot % NAME_SLOTS] != 0) ++slot;
        name_slots[slot % NAME_SLOTS] = (uint8_t)name;
    }
}

uvhttp__hpack_name_t uvhttp__hpack_find_name(const char *text, size_t size) {
    if (size == 0) return UVHTTP__HPACK_NAME_OTHER;
    for (unsigned slot = name_hash(text, size);; ++slot) {
        unsigned name = name_slots[slot % NAME_SLOTS];
        if (name == 0) return UVHTTP__HPACK_NAME_OTHER;
        uvhttp_str_t known = text_of(name);
        if (known.size == size && memcmp(known.data, text, size) == 0) return (uvhttp__hpack_name_t)name;
    }
}

static void prepare(void) {
    uvhttp__hpack_prepare_names();
    uvhttp__hpack_prepare_huffman();
}

void uvhttp__hpack_prepare(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, prepare);
}
