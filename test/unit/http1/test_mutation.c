/* Owns: tests that the levels of vector instructions agree on heads that nobody thought of, and that nothing ambiguous
 * is accepted: every byte in every place of valid heads, and random damage from a fixed seed. */
#include "support/http1_feed.h"
#include "support/run.h"

static const char *const heads[] = {
    "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
    "GET /a.b/../c?d=e HTTP/1.0\r\nConnection: keep-alive, x\r\n\r\n",
    "POST /form HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 13\r\nExpect: 100-continue\r\nA: \t b \r\n\r\n",
    "PUT http://h.example:80/x//y?z HTTP/1.1\r\nHost: other\r\nTransfer-Encoding: chunked\r\nE:\r\n\r\n",
    "CONNECT host.example:443 HTTP/1.1\r\nHost: host.example:443\r\n\r\n",
    "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: "
    "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "\r\nOPTIONS * HTTP/1.1\r\nHost: name-of-a-host-that-is-longer-than-one-vector.example.com:8443\r\nCookie: "
    "0123456789012345678901234567890123456789012345678901234567890123456789\r\n\r\n",
};

enum { HEAD_COUNT = sizeof heads / sizeof *heads, TEXT_MAX = 1024 };

static uint64_t seed = 20260109;

static uint32_t random_below(uint32_t bound) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % bound;
}

/* Feeds the text at every level, whole and cut at `cut`, and asks the oracle about what is accepted. */
static int expect_agreement(const char *text, size_t size, size_t cut) {
    static feed_result_t reference, other;
    bool first = true;
    FEED_EACH_LEVEL(level) {
        feed_cuts(text, &size, 1, true, &feed_limits, first ? &reference : &other);
        if (!first) feed_expect_same(&reference, &other);
        first = false;
        feed_cuts(text, (size_t[]){cut, size}, 2, false, &feed_limits, &other);
        feed_expect_same(&reference, &other);
    }
    if (reference.code != 0) return reference.code;
    const char *wrong = oracle_accepted(text, reference.head_size, &reference.head);
    if (wrong == NULL) wrong = oracle_spans(text, reference.head_size, &reference.head);
    if (wrong != NULL) fail_msg("accepted in spite of: %s\n%.*s", wrong, (int)size, text);
    return 0;
}

static void test_every_byte_in_every_place_of_valid_heads(void **state) {
    (void)state;
    int accepted = 0, refused = 0;
    for (int i = 0; i < HEAD_COUNT; ++i) {
        size_t size = strlen(heads[i]);
        char text[TEXT_MAX];
        memcpy(text, heads[i], size);
        assert_int_equal(expect_agreement(text, size, size / 2), 0);
        for (size_t at = 0; at < size; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                text[at] = (char)byte;
                int code = expect_agreement(text, size, at);
                accepted += code == 0;
                refused += code != 0;
            }
            text[at] = heads[i][at];
        }
    }
    print_message("%d accepted, %d refused\n", accepted, refused);
    assert_true(accepted > 10000 && refused > 10000);
}

static void test_every_byte_removed_or_doubled(void **state) {
    (void)state;
    for (int i = 0; i < HEAD_COUNT; ++i) {
        size_t size = strlen(heads[i]);
        for (size_t at = 0; at < size; ++at) {
            char text[TEXT_MAX];
            memcpy(text, heads[i], at);
            memcpy(text + at, heads[i] + at + 1, size - at - 1);
            expect_agreement(text, size - 1, at);
            memcpy(text, heads[i], at + 1);
            memcpy(text + at + 1, heads[i] + at, size - at);
            expect_agreement(text, size + 1, at);
        }
    }
}

static const char *const pieces[] = {
    "\r\n",
    "\r",
    "\n",
    "\r\n\r\n",
    " ",
    "\t",
    ":",
    ": ",
    ",",
    "\"",
    "\0x",
    "GET ",
    " HTTP/1.1",
    "/",
    "//",
    "/..",
    "?",
    "%2e",
    "#",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "chunked",
    "gzip, ",
    "keep-alive",
    "0",
    "99999999999999999999",
    "\x7f",
    "\x80",
    "\xff",
    "_",
    "[::1]",
    "@",
    ":80",
};

static void test_random_damage(void **state) {
    (void)state;
    for (int round = 0; round < 60000; ++round) {
        char text[TEXT_MAX];
        const char *head = heads[random_below(HEAD_COUNT)];
        size_t size = strlen(head);
        memcpy(text, head, size);
        for (uint32_t damage = 1 + random_below(3); damage > 0; --damage) {
            size_t at = random_below((uint32_t)size + 1), rest = size - at;
            const char *piece = pieces[random_below(sizeof pieces / sizeof *pieces)];
            size_t piece_size = strlen(piece) + (piece[0] == '\0');
            size_t overwritten = random_below(2) == 0 ? 0 : rest < piece_size ? rest : piece_size;
            if (size + piece_size > TEXT_MAX) break;
            memmove(text + at + piece_size, text + at + overwritten, rest - overwritten);
            memcpy(text + at, piece, piece_size);
            size += piece_size - overwritten;
        }
        expect_agreement(text, size, random_below((uint32_t)size + 1));
    }
}

static void test_random_bytes_of_few_kinds(void **state) {
    (void)state;
    static const char alphabet[] = "\r\n\r\n: /GaH.%?\t\x7f\xff";
    for (int round = 0; round < 30000; ++round) {
        char text[200];
        size_t size = random_below(sizeof text) + 1;
        for (size_t i = 0; i < size; ++i) text[i] = alphabet[random_below(sizeof alphabet - 1)];
        if (round % 2 == 0 && size > 60) memcpy(text, "GET / HTTP/1.1\r\nHost: a\r\n", 25);
        expect_agreement(text, size, random_below((uint32_t)size));
    }
}

int main(void) {
    return RUN_TESTS(test_every_byte_in_every_place_of_valid_heads, test_every_byte_removed_or_doubled,
                     test_random_damage, test_random_bytes_of_few_kinds);
}
