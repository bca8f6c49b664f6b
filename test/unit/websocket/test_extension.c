/* Owns: tests of the negotiation of permessage-deflate: offers, and what gets a response. */
/* Needs: websocket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "websocket/extension.h"

static const uvhttp__ws_deflate_t ready = {.server_bits = 15, .client_bits = 15},
                                  takeover = {.server_bits = 15,
                                              .client_bits = 15,
                                              .server_takeover = true,
                                              .client_takeover = true},
                                  narrow = {.server_bits = 10, .client_bits = 11, .server_takeover = true};

/* The response to an offer, NULL if it is declined. The offer stands in memory of its size. */
static const char *accept_offer(const char *offer, const uvhttp__ws_deflate_t *willing) {
    static char out[UVHTTP__WS_EXTENSION_SIZE_MAX];
    uvhttp__ws_deflate_t agreed;
    if (!uvhttp__ws_deflate_negotiate(uvhttp__str_from(offer), willing, &agreed)) return NULL;
    uvhttp__ws_deflate_write(&agreed, out);
    return out;
}

static void test_good_offers_are_accepted(void **state) {
    (void)state;
    static const struct {
        const char *offer;
        const uvhttp__ws_deflate_t *willing;
        const char *response;
    } cases[] = {
        {"permessage-deflate", &takeover, "permessage-deflate"},
        {"permessage-deflate", &ready, "permessage-deflate; server_no_context_takeover; client_no_context_takeover"},
        {"Permessage-Deflate;Client_Max_Window_Bits", &takeover, "permessage-deflate"},
        {"permessage-deflate; server_no_context_takeover", &takeover, "permessage-deflate; server_no_context_takeover"},
        {"permessage-deflate; client_no_context_takeover", &takeover, "permessage-deflate; client_no_context_takeover"},
        {"permessage-deflate; server_max_window_bits=9", &takeover, "permessage-deflate; server_max_window_bits=9"},
        {"permessage-deflate; server_max_window_bits=15", &takeover, "permessage-deflate; server_max_window_bits=15"},
        {"permessage-deflate; server_max_window_bits=12", &narrow,
         "permessage-deflate; client_no_context_takeover; server_max_window_bits=10"},
        {"permessage-deflate", &narrow,
         "permessage-deflate; client_no_context_takeover; server_max_window_bits=10"}, /* not offered: it cannot be
                                                                                          requested */
        {"permessage-deflate; client_max_window_bits", &narrow,
         "permessage-deflate; client_no_context_takeover; server_max_window_bits=10; client_max_window_bits=11"},
        {"permessage-deflate; client_max_window_bits=8", &takeover, "permessage-deflate; client_max_window_bits=8"},
        {"permessage-deflate; client_max_window_bits=\"10\"", &takeover,
         "permessage-deflate; client_max_window_bits=10"},
        {"permessage-deflate; client_max_window_bits=\"1\\0\"", &takeover,
         "permessage-deflate; client_max_window_bits=10"},
        {"permessage-deflate ;\tserver_max_window_bits = 10 ; client_no_context_takeover", &takeover,
         "permessage-deflate; client_no_context_takeover; server_max_window_bits=10"},
        {"permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=10; "
         "client_max_window_bits=11",
         &takeover,
         "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=10; "
         "client_max_window_bits=11"},
        /* several: the first that is good */
        {"permessage-deflate; server_max_window_bits=9, permessage-deflate", &takeover,
         "permessage-deflate; server_max_window_bits=9"},
        {"permessage-deflate; server_max_window_bits=8, permessage-deflate", &takeover, "permessage-deflate"},
        {"x-other; a=\"b, permessage-deflate; c\", permessage-deflate; server_max_window_bits=11", &takeover,
         "permessage-deflate; server_max_window_bits=11"},
        {"x-other; a=\"\\\"\", permessage-deflate", &takeover, "permessage-deflate"},
        {", ,permessage-deflate,", &takeover, "permessage-deflate"},
        {"permessage-deflate; unknown; permessage-deflate, permessage-deflate", &takeover, "permessage-deflate"},
        {"permessage-deflate=1, permessage-deflate", &takeover, "permessage-deflate"},
        {"x-webkit-deflate-frame, permessage-deflate; client_max_window_bits", &takeover, "permessage-deflate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = accept_offer(cases[i].offer, cases[i].willing);
        if (!got) fail_msg("declined: %s", cases[i].offer);
        assert_string_equal(got, cases[i].response);
    }
}

static void test_bad_offers_are_declined(void **state) {
    (void)state;
    static const char *const offers[] = {"",
                                         ",",
                                         "permessage",
                                         "permessage-deflat",
                                         "permessage-deflate;",
                                         "permessage-deflate; ",
                                         "permessage-deflate;;",
                                         "permessage-deflate x",
                                         "permessage-deflate; x",
                                         "permessage-deflate; =",
                                         "permessage-deflate; server_no_context_takeover=1",
                                         "permessage-deflate; client_no_context_takeover=\"\"",
                                         "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
                                         "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
                                         "permessage-deflate; server_max_window_bits",
                                         "permessage-deflate; server_max_window_bits=",
                                         "permessage-deflate; server_max_window_bits=8", /* zlib cannot */
                                         "permessage-deflate; server_max_window_bits=7",
                                         "permessage-deflate; server_max_window_bits=16",
                                         "permessage-deflate; server_max_window_bits=09",
                                         "permessage-deflate; server_max_window_bits=100",
                                         "permessage-deflate; server_max_window_bits=10000",
                                         "permessage-deflate; server_max_window_bits=1/",
                                         "permessage-deflate; client_max_window_bits=\"1/\"",
                                         "permessage-deflate; server_max_window_bits=20",
                                         "permessage-deflate; client_max_window_bits=123456",
                                         "permessage-deflate; server_max_window_bits=1x",
                                         "permessage-deflate; server_max_window_bits=10; server_max_window_bits=10",
                                         "permessage-deflate; client_max_window_bits=7",
                                         "permessage-deflate; client_max_window_bits=\"",
                                         "permessage-deflate; client_max_window_bits=\"10",
                                         "permessage-deflate; client_max_window_bits=\"10\\",
                                         "permessage-deflate; client_max_window_bits=\"\"",
                                         "permessage-deflate; client_max_window_bits=1\"0\"",
                                         "permessage-deflate; client_max_window_bits; client_max_window_bits=9",
                                         "\"permessage-deflate\"",
                                         "x; a=\"permessage-deflate, permessage-deflate",
                                         "x; a=\"b\\",
                                         "x; a=\"b\\\", permessage-deflate"};
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i++)
        if (accept_offer(offers[i], &takeover)) fail_msg("accepted: %s", offers[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good_offers_are_accepted),
                                       cmocka_unit_test(test_bad_offers_are_declined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
