/* Owns: tests of addresses and their ranges. */
#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/str.h"
#include "support/failing_allocator.h"

static void assert_text(const char *address, const char *expected) {
    uvhttp__ip_t ip;
    char text[UVHTTP__IP_TEXT_MAX];
    assert_true(uvhttp__ip_parse(uvhttp__str_from(address), &ip));
    uvhttp__peer_t peer = uvhttp__peer_of_ip(ip.bytes, ip.size, 1);
    assert_int_equal(uvhttp__peer_text(&peer, text), strlen(expected));
    assert_string_equal(text, expected);
}

static void test_addresses_are_written_as_they_are_read(void **state) {
    (void)state;
    for (unsigned i = 0; i < 256; i++) {
        char expected[INET_ADDRSTRLEN], text[UVHTTP__IP_TEXT_MAX];
        uint8_t bytes[4] = {(uint8_t)i, (uint8_t)(255 - i), (uint8_t)(i * 7), (uint8_t)(i / 2)};
        uvhttp__peer_t peer = uvhttp__peer_of_ip(bytes, 4, 0);
        assert_int_equal(uvhttp__peer_text(&peer, text), strlen(inet_ntop(AF_INET, bytes, expected, sizeof expected)));
        assert_string_equal(text, expected);
    }
    assert_text("2001:DB8:0::1", "2001:db8::1");
    assert_text("::ffff:192.0.2.1", "192.0.2.1");
    assert_text("fe80::1%eth0", "fe80::1");
    assert_text("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

static void test_an_ipv4_address_within_ipv6_is_that_address(void **state) {
    (void)state;
    static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 7};
    uvhttp__peer_t peer = uvhttp__peer_of_ip(mapped, 16, 80);
    assert_int_equal(peer.kind, UVHTTP__PEER_IPV4);
    assert_int_equal(peer.ip.size, 4);
    assert_memory_equal(peer.ip.bytes, mapped + 12, 4);
}

static void test_what_is_no_address_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "%eth0",
                                        "1.2.3",
                                        "1.2.3.256",
                                        "01.2.3.4",
                                        "192.0.2.1%eth0",
                                        ":",
                                        "1::2::3",
                                        "g::",
                                        "::ffff:1.2.3",
                                        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
    uvhttp__ip_t ip;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (uvhttp__ip_parse(uvhttp__str_from(wrong[i]), &ip)) fail_msg("%s", wrong[i]);
    assert_false(uvhttp__ip_parse((uvhttp_str_t){NULL, 0}, &ip));
    assert_false(uvhttp__ip_parse((uvhttp_str_t){"1.2.3.4\0", 8}, &ip));
    assert_false(uvhttp__ip_parse((uvhttp_str_t){"::1\0:2", 6}, &ip));
}

static void assert_range(const char *text, const char *fault) {
    uvhttp__ip_range_t range;
    const char *found = uvhttp__ip_range_parse(text, &range);
    if (!found != !fault || (fault && strcmp(found, fault) != 0)) fail_msg("%s: %s", text, found ? found : "good");
}

static void test_ranges_are_read_strictly(void **state) {
    (void)state;
    static const char *const good[] = {"unix:",    "192.0.2.1",       "192.0.2.1/32",        "0.0.0.0/0",
                                       "::/0",     "2001:db8::1/128", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1/128",
                                       "fe80::/10"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_range(good[i], NULL);
    static const char *const none[] = {"", "/8", "unix:/run", "fe80::1%eth0", "10.0.0/8", "10.0.0.0%/8"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_range(none[i], "it is no address");
    static const char *const out[] = {"10.0.0.0/",  "10.0.0.0/33",        "10.0.0.0/-1",        "10.0.0.0/8/8",
                                      "2001::/129", "::ffff:10.0.0.0/95", "::ffff:1.2.3.4/129", "10.0.0.0/x"};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) assert_range(out[i], "its prefix length is out of range");
    assert_range(NULL, "it is NULL");
    assert_range("::ffff:10.0.0.1/104", "it has bits set behind its prefix");
    assert_range("2001:db8::1/127", "it has bits set behind its prefix");
}

static void test_others_have_words(void **state) {
    (void)state;
    char text[UVHTTP__IP_TEXT_MAX];
    assert_int_equal(uvhttp__peer_text(&(uvhttp__peer_t){.kind = UVHTTP__PEER_UNIX}, text), 5);
    assert_string_equal(text, "unix:");
    assert_int_equal(uvhttp__peer_text(&(uvhttp__peer_t){.kind = UVHTTP__PEER_UNKNOWN}, text), 7);
    assert_string_equal(text, "unknown");
}

static void test_a_list_has_what_is_in_one_of_its_ranges(void **state) {
    (void)state;
    static const char *const texts[] = {"10.0.0.0/8", "2001:db8::/32", "unix:"};
    uvhttp__ip_ranges_t *ranges;
    size_t at;
    const char *fault;
    assert_int_equal(uvhttp__ip_ranges_new(texts, 3, &ranges, &at, &fault), UVHTTP_OK);
    const uint8_t in4[4] = {10, 9, 8, 7}, out4[4] = {11, 0, 0, 1};
    const uint8_t in6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}, out6[16] = {0x20, 0x01, 0x0d, 0xb9, [15] = 1};
    uvhttp__peer_t peers[] = {uvhttp__peer_of_ip(in4, 4, 0),   uvhttp__peer_of_ip(in6, 16, 0),
                              {.kind = UVHTTP__PEER_UNIX},     uvhttp__peer_of_ip(out4, 4, 0),
                              uvhttp__peer_of_ip(out6, 16, 0), {.kind = UVHTTP__PEER_UNKNOWN}};
    for (size_t i = 0; i < 6; i++) assert_int_equal(uvhttp__ip_ranges_have(ranges, &peers[i]), i < 3);
    assert_false(uvhttp__ip_ranges_have(NULL, &peers[0]));
    uvhttp__free(ranges);
    /* Without "unix:" and with every address, an unknown peer and one of a Unix socket are in none. */
    static const char *const all[] = {"0.0.0.0/0", "::/0"};
    assert_int_equal(uvhttp__ip_ranges_new(all, 2, &ranges, &at, &fault), UVHTTP_OK);
    for (size_t i = 0; i < 6; i++) assert_int_equal(uvhttp__ip_ranges_have(ranges, &peers[i]), i != 2 && i != 5);
    uvhttp__free(ranges);
}

static void test_a_wrong_list_says_which_entry_and_why(void **state) {
    (void)state;
    static const char *const texts[] = {"10.0.0.0/8", "10.0.0.1/8"};
    uvhttp__ip_ranges_t *ranges;
    size_t at = 99;
    const char *fault = NULL;
    assert_int_equal(uvhttp__ip_ranges_new(texts, 2, &ranges, &at, &fault), UVHTTP_E_INVALID);
    assert_null(ranges);
    assert_int_equal(at, 1);
    assert_string_equal(fault, "it has bits set behind its prefix");
    assert_int_equal(uvhttp__ip_ranges_new(NULL, 0, &ranges, &at, &fault), UVHTTP_OK);
    assert_null(ranges);
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__ip_ranges_new(texts, 1, &ranges, &at, &fault), UVHTTP_E_NOMEM);
    test_allocator_fail_at(0);
    assert_int_equal(test_allocator_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_are_written_as_they_are_read),
        cmocka_unit_test(test_an_ipv4_address_within_ipv6_is_that_address),
        cmocka_unit_test(test_what_is_no_address_is_refused),
        cmocka_unit_test(test_ranges_are_read_strictly),
        cmocka_unit_test(test_others_have_words),
        cmocka_unit_test(test_a_list_has_what_is_in_one_of_its_ranges),
        cmocka_unit_test(test_a_wrong_list_says_which_entry_and_why),
    };
    test_allocator_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
