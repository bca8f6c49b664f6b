/* Owns: streams when any allocation fails: each gets a whole response of a known kind or is cut, once, and nothing is
 * left behind. */
/* Needs: coroutines. */
#include "support/failing_allocator.h"
#include "support/fake_script.h"

static void free_pool(void *arg) {
    uvhttp__exchange_pool_free(&((fake_connection_t *)arg)->pool);
}

/* The n-th allocation from the head of the request on fails. Returns whether one did. */
static bool fail_at(fake_server_t *server, fake_mode_t mode, unsigned id, size_t n) {
    fake_script_t *script = fake_script_new(server, mode, id, 6000, 20000);
    script->request.trailers = "X-Check: yes\r\n";
    script->request.size_is_known = n % 2;
    fake_call(server->connection, free_pool, server->connection);
    test_allocator_fail_at(n);
    fake_script_start(script);
    WAIT_UNTIL(fake_script_is_over(script));
    bool failed = test_allocator_failed();
    test_allocator_fail_at(0);
    int status = script->seen.status;
    bool lost = script->seen.begun && script->seen.missized; /* a piece of it, which the client sees */
    if (!failed || (script->seen.finished && status == 200 && !lost))
        fake_script_expect_response(script);
    else if (script->seen.finished && !lost && status != 500 && status != 503 && status != 507)
        fail_msg("%s, allocation %zu: %d", script->path, n, status);
    assert_int_equal(script->seen.finished + script->seen.aborted, 1);
    fake_script_free(script);
    return failed;
}

static void test_any_allocation_may_fail_in_any_kind_of_handler(void **state) {
    fake_server_t server;
    serving_t *serving = *state;
    size_t before = test_allocator_live();
    fake_server_open(&server, state);
    unsigned id = 0;
    for (fake_mode_t mode = 0; mode < FAKE_MODE_COUNT; mode++) {
        if (!fake_mode_works(mode)) continue;
        assert_false(fail_at(&server, mode, id++, 1000000)); /* the pool of threads is there, and what is kept */
        for (size_t n = 1; fail_at(&server, mode, id++, n); n++) assert_true(n < 200);
    }
    for (unsigned i = 0; i < FAKE_ROUTES_IDS; i++) assert_in_range(fake_dones[i], 0, 1);
    fake_server_stop(&server);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
    assert_int_equal(test_allocator_live(), before);
}

int main(void) {
    test_allocator_install();
    return RUN_ON_EACH(test_any_allocation_may_fail_in_any_kind_of_handler);
}
