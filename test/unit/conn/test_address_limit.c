/* Owns: tests of the limit of connections per client address: which addresses share one, that it is exact, also from
 * several threads, and that nothing is lost without memory. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "conn/address_limit.h"
#include "support/failing_allocator.h"
#include "support/run.h"

static uvhttp__ip_t ip_of(const char *text) {
    uvhttp__ip_t ip;
    if (!uvhttp__ip_parse(uvhttp__str_from(text), &ip)) fail_msg("not an address: %s", text);
    return ip;
}

static int take(uvhttp__address_limit_t *limit, const char *text, uvhttp__address_count_t **count) {
    uvhttp__ip_t ip = ip_of(text);
    return uvhttp__address_limit_take(limit, &ip, count);
}

static void test_an_ipv4_address_is_counted_alone(void **state) {
    (void)state;
    uvhttp__address_limit_t *limit = uvhttp__address_limit_new(2);
    uvhttp__address_count_t *counts[4], *refused = (void *)&counts;
    assert_int_equal(take(limit, "192.0.2.1", &counts[0]), UVHTTP_OK);
    assert_int_equal(take(limit, "::ffff:192.0.2.1", &counts[1]), UVHTTP_OK); /* the same client */
    assert_int_equal(take(limit, "192.0.2.1", &refused), UVHTTP_E_LIMIT);
    assert_null(refused);
    assert_int_equal(take(limit, "192.0.2.2", &counts[2]), UVHTTP_OK);
    uvhttp__address_limit_give(limit, counts[0]);
    assert_int_equal(take(limit, "192.0.2.1", &counts[3]), UVHTTP_OK);
    assert_int_equal(take(limit, "192.0.2.1", &refused), UVHTTP_E_LIMIT);
    for (int i = 1; i < 4; i++) uvhttp__address_limit_give(limit, counts[i]);
    uvhttp__address_limit_free(limit);
}

static void test_the_addresses_of_an_ipv6_network_share_a_count(void **state) {
    (void)state;
    uvhttp__address_limit_t *limit = uvhttp__address_limit_new(2);
    uvhttp__address_count_t *counts[6], *refused;
    assert_int_equal(take(limit, "2001:db8:1:2::1", &counts[0]), UVHTTP_OK);
    assert_int_equal(take(limit, "2001:db8:1:2:ffff:ffff:ffff:ffff", &counts[1]), UVHTTP_OK);
    assert_int_equal(take(limit, "2001:db8:1:2:8000::7", &refused), UVHTTP_E_LIMIT);
    assert_int_equal(take(limit, "2001:db8:1:3::1", &counts[2]), UVHTTP_OK); /* the next /64 */
    /* The same first bytes, as an IPv4 address and as a network. */
    assert_int_equal(take(limit, "32.1.13.184", &counts[3]), UVHTTP_OK);
    assert_int_equal(take(limit, "2001:db8::1", &counts[4]), UVHTTP_OK);
    assert_int_equal(take(limit, "2001:db8::2", &counts[5]), UVHTTP_OK);
    assert_int_equal(take(limit, "2001:db8::3", &refused), UVHTTP_E_LIMIT);
    for (int i = 0; i < 6; i++) uvhttp__address_limit_give(limit, counts[i]);
    uvhttp__address_limit_free(limit);
}

#define MANY 5000 /* so many that every shard grows several times */

static void test_many_addresses_are_distinguished(void **state) {
    (void)state;
    uvhttp__address_limit_t *limit = uvhttp__address_limit_new(1);
    uvhttp__address_count_t **counts = calloc(MANY, sizeof *counts), *refused;
    assert_non_null(counts);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            uvhttp__ip_t ip = {.bytes = {10, 0, (uint8_t)(i >> 8), (uint8_t)i}, .size = 4};
            assert_int_equal(uvhttp__address_limit_take(limit, &ip, &counts[i]), UVHTTP_OK);
            assert_int_equal(uvhttp__address_limit_take(limit, &ip, &refused), UVHTTP_E_LIMIT);
        }
        for (int i = 0; i < MANY; i++) uvhttp__address_limit_give(limit, counts[(i * 7 + 3) % MANY]);
    }
    free(counts);
    uvhttp__address_limit_free(limit);
}

static void take_and_give(void *user) {
    (void)user;
    uvhttp__address_limit_t *limit = uvhttp__address_limit_new(1);
    if (!limit) {
        assert_true(test_allocator_failed());
        return;
    }
    enum { COUNT = 400 };
    uvhttp__address_count_t *counts[COUNT];
    for (int i = 0; i < COUNT; i++) {
        uvhttp__ip_t ip = {.bytes = {10, 0, (uint8_t)(i >> 8), (uint8_t)i}, .size = 4};
        int status = uvhttp__address_limit_take(limit, &ip, &counts[i]);
        if (status == UVHTTP_OK) continue;
        assert_int_equal(status, UVHTTP_E_NOMEM);
        assert_true(test_allocator_failed());
        assert_null(counts[i]);
        assert_int_equal(uvhttp__address_limit_take(limit, &ip, &counts[i]), UVHTTP_OK); /* nothing was counted */
    }
    for (int i = 0; i < COUNT; i++) uvhttp__address_limit_give(limit, counts[i]);
    uvhttp__address_limit_free(limit);
}

static void test_every_failing_allocation_is_borne(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(take_and_give, NULL) > 400);
}

enum { THREADS = 4, ROUNDS = 20000, MAX = 3, ADDRESSES = 5 };

typedef struct shared {
    uvhttp__address_limit_t *limit;
    atomic_uint held[ADDRESSES];
    atomic_uint over, broken, refused;
} shared_t;

/* Each thread has at most one connection of an address at a time; one of the four has to be refused now and then. */
static void *take_and_give_in_thread(void *arg) {
    shared_t *shared = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int which = i % ADDRESSES;
        uvhttp__ip_t ip = {.bytes = {10, 0, 0, (uint8_t)which}, .size = 4};
        uvhttp__address_count_t *count;
        int status = uvhttp__address_limit_take(shared->limit, &ip, &count);
        if (status == UVHTTP_OK) {
            if (atomic_fetch_add(&shared->held[which], 1) >= MAX) atomic_fetch_add(&shared->over, 1);
            atomic_fetch_sub(&shared->held[which], 1);
            uvhttp__address_limit_give(shared->limit, count);
        } else {
            atomic_fetch_add(status == UVHTTP_E_LIMIT ? &shared->refused : &shared->broken, 1);
        }
    }
    return NULL;
}

static void test_the_limit_is_exact_from_several_threads(void **state) {
    (void)state;
    shared_t shared = {.limit = uvhttp__address_limit_new(MAX)};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give_in_thread, &shared), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&shared.over), 0);
    assert_int_equal(atomic_load(&shared.broken), 0);
    /* All were given back: each address may have MAX again, and no more. */
    for (int which = 0; which < ADDRESSES; which++) {
        uvhttp__ip_t ip = {.bytes = {10, 0, 0, (uint8_t)which}, .size = 4};
        uvhttp__address_count_t *counts[MAX], *refused;
        for (int i = 0; i < MAX; i++)
            assert_int_equal(uvhttp__address_limit_take(shared.limit, &ip, &counts[i]), UVHTTP_OK);
        assert_int_equal(uvhttp__address_limit_take(shared.limit, &ip, &refused), UVHTTP_E_LIMIT);
        for (int i = 0; i < MAX; i++) uvhttp__address_limit_give(shared.limit, counts[i]);
    }
    uvhttp__address_limit_free(shared.limit);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_an_ipv4_address_is_counted_alone, test_the_addresses_of_an_ipv6_network_share_a_count,
                     test_many_addresses_are_distinguished, test_every_failing_allocation_is_borne,
                     test_the_limit_is_exact_from_several_threads);
}
