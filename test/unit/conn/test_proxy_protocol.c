/* Owns: tests of the PROXY protocol's parser: every vector cut at every place, its bytes in blocks of their exact size.
 */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <uvhttp/error.h>

#include "conn/proxy_protocol.h"
#include "support/run.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define REST "GET / HTTP/1.1\r\n"

typedef struct vector {
    const char *data;
    size_t size; /* of the header */
    int status;
    const char *source; /* as text; NULL: does not say */
    uint16_t port;
} vector_t;

#define V(text, status, source, port)                                                                                  \
    { "" text REST, sizeof(text) - 1, status, source, port }
#define OK UVHTTP_OK
#define MISSING UVHTTP_E_PROXY_MISSING
#define MALFORMED UVHTTP_E_PROXY_MALFORMED
#define TOO_LARGE UVHTTP_E_PROXY_TOO_LARGE

#define INET "\300\000\002\007\306\063\144\001\303\120\001\273"
#define INET6 "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\303\120\001\273"
#define X8 "xxxxxxxx"
#define X64 X8 X8 X8 X8 X8 X8 X8 X8

static const vector_t vectors[] = {
    V("PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n", OK, "192.0.2.7", 50000),
    V("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", OK, "255.255.255.255", 65535),
    V("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", OK, "0.0.0.0", 0),
    V("PROXY TCP6 2001:db8::1 2001:db8::2 50000 443\r\n", OK, "2001:db8::1", 50000),
    V("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", OK,
      "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535),
    V("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", OK, "192.0.2.7", 1),
    V("PROXY UNKNOWN\r\n", OK, NULL, 0),
    V("PROXY UNKNOWN whatever it is\r\n", OK, NULL, 0),
    V("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
      OK, NULL, 0),
    V("PROXY \r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 50000\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 50000 \r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 50000 443 \r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 50000 443 1\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4  192.0.2.7 198.51.100.1 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 050 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 000080 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4  198.51.100.1 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 -1 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.256 198.51.100.1 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 2001:db8::1 2001:db8::2 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP6 192.0.2.7 198.51.100.1 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP6 fe80::1%1 ::1 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP5 192.0.2.7 198.51.100.1 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY tcp4 192.0.2.7 198.51.100.1 50000 443\r\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\n", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\rx", MALFORMED, NULL, 0),
    V("PROXY TCP4 192.0.2.7\0"
      "198.51.100.1 50000 443\r\n",
      MALFORMED, NULL, 0),
    V("PROXY UNKNOWN " X64 X8 X8 X8 "xxxxx", TOO_LARGE, NULL, 0), /* 107 bytes and no end */
    V("PROXX", MISSING, NULL, 0),
    V("", MISSING, NULL, 0),
    V("\r\n\r\nx", MISSING, NULL, 0),
    V(SIGNATURE "\x21\x11\x00\x0c" INET, OK, "192.0.2.7", 50000),
    V(SIGNATURE "\x21\x11\x00\x10" INET "\x04\x00\x01\x00", OK, "192.0.2.7", 50000),
    V(SIGNATURE "\x21\x21\x00\x24" INET6, OK, "2001:db8::1", 50000),
    V(SIGNATURE "\x21\x21\x00\x64" INET6 X64, OK, "2001:db8::1", 50000),
    V(SIGNATURE "\x21\x00\x00\x00", OK, NULL, 0),
    V(SIGNATURE "\x21\x00\x00\x08" X8, OK, NULL, 0),
    V(SIGNATURE "\x20\x00\x00\x00", OK, NULL, 0),
    V(SIGNATURE "\x20\x11\x00\x0c" INET, OK, NULL, 0), /* LOCAL: the addresses do not count */
    V(SIGNATURE "\x20\x77\x00\x08" X8, OK, NULL, 0),
    V(SIGNATURE "\x21\x31\x00\xd8" X64 X64 X64 X8 X8 X8, OK, "unix:", 0),
    V(SIGNATURE "\x21\x11\x00\x0b", MALFORMED, NULL, 0),
    V(SIGNATURE "\x21\x21\x00\x0c", MALFORMED, NULL, 0),
    V(SIGNATURE "\x21\x31\x00\xd7", MALFORMED, NULL, 0),
    V(SIGNATURE "\x21\x12\x00\x0c", MALFORMED, NULL, 0), /* UDP */
    V(SIGNATURE "\x22\x11\x00\x0c", MALFORMED, NULL, 0),
    V(SIGNATURE "\x11\x11\x00\x0c", MALFORMED, NULL, 0),
    V(SIGNATURE "\x21\x11\x10\x01", TOO_LARGE, NULL, 0),
    V(SIGNATURE "\x20\x00\xff\xff", TOO_LARGE, NULL, 0),
};

/* One piece, in a block of its own. */
static int feed(uvhttp__proxy_t *proxy, const char *data, size_t size, size_t *used, uvhttp__peer_t *source) {
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    int status = uvhttp__proxy_read(proxy, copy, size, used, source);
    assert_true(*used <= size);
    free(copy);
    return status;
}

static void check(const vector_t *vector, int status, size_t used, const uvhttp__peer_t *source) {
    assert_int_equal(status, vector->status);
    if (status != UVHTTP_OK) {
        assert_true(used <= vector->size + 1);
        return;
    }
    char text[UVHTTP__IP_TEXT_MAX];
    assert_int_equal(used, vector->size);
    (void)uvhttp__peer_text(source, text);
    assert_string_equal(text, vector->source ? vector->source : "unknown");
    assert_int_equal(source->port, vector->port);
}

static void test_headers_cut_at_every_place_mean_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const vector_t *vector = &vectors[i];
        size_t all = vector->size + sizeof REST - 1;
        for (size_t cut = 0; cut <= all; cut++) {
            uvhttp__proxy_t proxy = {0};
            uvhttp__peer_t source;
            size_t used, more = 0;
            int status = feed(&proxy, vector->data, cut, &used, &source);
            if (status == UVHTTP_E_AGAIN) {
                assert_int_equal(used, cut);
                status = feed(&proxy, vector->data + cut, all - cut, &more, &source);
            }
            check(vector, status, used + more, &source);
        }
    }
}

static void test_headers_may_come_byte_by_byte(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const vector_t *vector = &vectors[i];
        uvhttp__proxy_t proxy = {0};
        uvhttp__peer_t source;
        size_t at = 0, used;
        int status = UVHTTP_E_AGAIN;
        while (status == UVHTTP_E_AGAIN && at < vector->size + sizeof REST - 1)
            status = feed(&proxy, vector->data + at++, 1, &used, &source);
        check(vector, status, at, &source);
    }
}

static void test_the_largest_header_is_skipped_whole(void **state) {
    (void)state;
    static char data[16 + UVHTTP__PROXY_V2_SIZE_MAX + 1];
    memcpy(data, SIGNATURE "\x21\x11\x10\x00" INET, 16 + 12);
    for (size_t cut = 0; cut < sizeof data; cut += 61) {
        uvhttp__proxy_t proxy = {0};
        uvhttp__peer_t source;
        size_t used, more;
        assert_int_equal(feed(&proxy, data, cut, &used, &source), UVHTTP_E_AGAIN);
        assert_int_equal(feed(&proxy, data + cut, sizeof data - cut, &more, &source), UVHTTP_OK);
        assert_int_equal(used + more, sizeof data - 1);
        assert_int_equal(source.port, 50000);
    }
}

int main(void) {
    return RUN_TESTS(test_headers_cut_at_every_place_mean_the_same, test_headers_may_come_byte_by_byte,
                     test_the_largest_header_is_skipped_whole);
}
