/* Owns: tests of minimum rates and of the time without a byte, with a clock of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conn/rate.h"
#include "support/run.h"

static const uvhttp__rate_limits_t defaults = {.rate = 240, .grace = 5, .timeout = 300};

/* Bytes a second for some seconds. Returns the second after which the peer was given up, 0: it was not. */
static unsigned last(uvhttp__rate_t *rate, const uvhttp__rate_limits_t *limits, uint64_t *now_ms, uint32_t *bytes,
                     uint32_t per_second, unsigned seconds) {
    for (unsigned i = 1; i <= seconds; i++) {
        *now_ms += 1000;
        *bytes += per_second;
        if (uvhttp__rate_look(rate, limits, *bytes, *now_ms) != UVHTTP__RATE_FINE) return i;
    }
    return 0;
}

typedef struct seconds {
    uint32_t per_second;
    unsigned count, given_up; /* 0: not */
} seconds_t;

static const struct {
    const char *name;
    uint64_t begin_ms;
    uint32_t begin_bytes;
    seconds_t seconds[2];
} peers[] = {
    {"a burst pays for the grace and no more", 12345, 0, {{100000000, 3, 0}, {0, 100, 6}}},
    {"silence from the begin is borne for the grace", 0, 7, {{0, 100, 6}}},
    {"a peer at the rate lives forever and one below does not", 0, 0, {{240, 100000, 0}, {120, 100, 11}}},
    /* 5 MB/s for an hour, 18 GB: beyond any total of seconds, and beyond 32 bits of bytes. The low 32 bits of the time
     * wrap, too; and it is looked at still. */
    {"a steady peer has no total time and no size", UINT32_MAX - 1000, 0, {{5000000, 3600, 0}, {0, 100, 6}}},
};

static void test_a_peer_is_given_up_when_its_grace_is_used_up(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        uvhttp__rate_t rate;
        uint64_t now_ms = peers[i].begin_ms;
        uint32_t bytes = peers[i].begin_bytes;
        uvhttp__rate_start(&rate, &defaults, bytes, now_ms);
        for (int j = 0; j < 2 && peers[i].seconds[j].count > 0; j++) {
            const seconds_t *seconds = &peers[i].seconds[j];
            unsigned second = last(&rate, &defaults, &now_ms, &bytes, seconds->per_second, seconds->count);
            if (second != seconds->given_up)
                fail_msg("%s: given up after %u s, not %u", peers[i].name, second, seconds->given_up);
        }
    }
}

static void test_the_time_without_a_byte_begins_again_with_each(void **state) {
    (void)state;
    const uvhttp__rate_limits_t limits = {.timeout = 10};
    uvhttp__rate_t rate;
    uint64_t now_ms = 0;
    uint32_t bytes = 0;
    uvhttp__rate_start(&rate, &limits, bytes, now_ms);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(last(&rate, &limits, &now_ms, &bytes, 0, 8), 0);
        assert_int_equal(last(&rate, &limits, &now_ms, &bytes, 1, 1), 0);
    }
    assert_int_equal(last(&rate, &limits, &now_ms, &bytes, 0, 100), 10);
    assert_int_equal(uvhttp__rate_look(&rate, &limits, bytes, now_ms), UVHTTP__RATE_STALLED);
}

static void test_excused_time_does_not_count(void **state) {
    (void)state;
    const uvhttp__rate_limits_t limits = {.rate = 1000, .grace = 2, .timeout = 3};
    uvhttp__rate_t rate;
    uint64_t now_ms = 0;
    uint32_t bytes = 0;
    uvhttp__rate_start(&rate, &limits, bytes, now_ms);
    now_ms += 3600000;
    uvhttp__rate_excuse(&rate, 3600000);
    assert_int_equal(last(&rate, &limits, &now_ms, &bytes, 0, 100), 3);
}

/* What a Unix socket holds is counted with its overhead. */
static void test_a_counter_that_goes_back_a_little_has_not_moved(void **state) {
    (void)state;
    uvhttp__rate_t rate;
    uvhttp__rate_start(&rate, &defaults, 100, 0);
    assert_int_equal(uvhttp__rate_look(&rate, &defaults, UINT32_MAX - 1000, 5000), UVHTTP__RATE_FINE);
    assert_int_equal(uvhttp__rate_look(&rate, &defaults, UINT32_MAX - 2000, 6000), UVHTTP__RATE_SLOW);
}

static void test_without_limits_everything_is_fine(void **state) {
    (void)state;
    const uvhttp__rate_limits_t none = {0};
    uvhttp__rate_t rate;
    uint64_t now_ms = 0;
    uint32_t bytes = 0;
    uvhttp__rate_start(&rate, &none, bytes, now_ms);
    assert_int_equal(last(&rate, &none, &now_ms, &bytes, 0, 100000), 0);
}

/* A stream of 100 bytes a second, below the minimum rate: at each look the last piece is under way still. */
static void test_a_peer_that_takes_all_of_a_slow_stream_is_not_slow(void **state) {
    (void)state;
    uvhttp__rate_t rate;
    uvhttp__given_t given = {0};
    uint64_t now_ms = 0;
    uint32_t bytes = UINT32_MAX - 1000;
    uvhttp__rate_start(&rate, &defaults, bytes, now_ms);
    for (int i = 0; i < 1000; i++, now_ms += 1000, bytes += 100)
        assert_int_equal(uvhttp__rate_look_at_output(&rate, &given, &defaults, bytes, 100, now_ms), UVHTTP__RATE_FINE);
}

/* The same stream to a peer that takes nothing, or always less than there was. */
static void test_a_peer_that_falls_behind_a_slow_stream_is_slow(void **state) {
    (void)state;
    for (uint32_t consumed = 0; consumed < 100; consumed += 50) {
        uvhttp__rate_t rate;
        uvhttp__given_t given = {0};
        uint64_t now_ms = 0;
        uint32_t bytes = 0, held = 100;
        unsigned looks = 0;
        uvhttp__rate_start(&rate, &defaults, bytes, now_ms);
        while (uvhttp__rate_look_at_output(&rate, &given, &defaults, bytes, held, now_ms) == UVHTTP__RATE_FINE) {
            assert_true(++looks < 10);
            now_ms += 1000;
            bytes += consumed;
            held += 100 - consumed;
        }
        assert_in_range(looks, 6, 9);
    }
}

int main(void) {
    return RUN_TESTS(test_a_peer_is_given_up_when_its_grace_is_used_up,
                     test_the_time_without_a_byte_begins_again_with_each, test_excused_time_does_not_count,
                     test_a_counter_that_goes_back_a_little_has_not_moved, test_without_limits_everything_is_fine,
                     test_a_peer_that_takes_all_of_a_slow_stream_is_not_slow,
                     test_a_peer_that_falls_behind_a_slow_stream_is_slow);
}
