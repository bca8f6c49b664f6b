/* Owns: tests of rate limits whose store decides later: in the call, on another thread, or not at all. */
/* Needs: middleware. */
#include "support/http_server.h"

typedef struct store {
    _Atomic(uvhttp_rate_limit_ticket_t *) ticket; /* of the question that is not decided */
    atomic_int asked, destroyed;
    atomic_bool at_once;
    atomic_int status, allowed; /* what it decides at once */
    char policy[32], key[5000];
} store_t;

static store_t store;

static void take_later(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_ticket_t *ticket) {
    store_t *own = user;
    atomic_fetch_add(&own->asked, 1);
    if (take->kind != 'h' || take->key.size >= sizeof own->key || take->interval_ns == 0) abort();
    if (take->key.size) memcpy(own->key, take->key.data, take->key.size);
    own->key[take->key.size] = '\0';
    snprintf(own->policy, sizeof own->policy, "%s", take->policy);
    uvhttp_rate_limit_decision_t decision = {.allowed = own->allowed, .remaining = 7, .next_ns = 1500000000};
    if (own->at_once)
        uvhttp_rate_limit_decided(ticket, own->status, own->status ? NULL : &decision);
    else
        atomic_store(&own->ticket, ticket);
}

static void destroy(void *user) {
    atomic_fetch_add(&((store_t *)user)->destroyed, 1);
}

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "hello");
}

static void begin(void **state, bool refuse_on_error) {
    serving_t *serving = *state;
    memset(&store, 0, sizeof store);
    serving_make(serving);
    const uvhttp_rate_limit_store_t later = {.take_later = take_later, .destroy = destroy, .user = &store};
    uvhttp_use(serving->server, uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.name = "own",
                                                                                 .by = UVHTTP_RATE_LIMIT_BY_HEADER,
                                                                                 .header = "X-Key",
                                                                                 .store = &later,
                                                                                 .refuse_on_error = refuse_on_error}));
    uvhttp_get(serving->server, "/", hello, NULL);
    serving_start(serving);
}

#define ASK "GET / HTTP/1.1\r\nHost: a\r\nX-Key: tea\r\n\r\n"

static void test_a_store_may_decide_in_the_call(void **state) {
    serving_t *serving = *state;
    begin(state, false);
    store.at_once = true;
    store.allowed = 1;
    int fd = client_ask(serving, ASK);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "hello");
    assert_non_null(strstr(response->text, "RateLimit: \"own\";r=7;t=2\r\n"));
    store.allowed = 0;
    client_send_text(fd, ASK);
    response = client_read(fd);
    assert_int_equal(response->status, 429);
    assert_non_null(strstr(response->text, "Retry-After: 2\r\n"));
    store.status = UVHTTP_E_TIMEOUT;
    client_send_text(fd, ASK);
    assert_int_equal(client_read(fd)->status, 200); /* open */
    close(fd);
    assert_int_equal(uvhttp_server_counter(serving->server, "rate_limited"), 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "rate_limit_undecided"), 1);
    serving_stop(serving);
    assert_string_equal(store.key, "tea");
    assert_string_equal(store.policy, "own");
    uvhttp_server_free(serving->server);
    serving->server = NULL;
    assert_int_equal(store.destroyed, 1);
}

static void test_a_store_may_decide_on_another_thread(void **state) {
    serving_t *serving = *state;
    begin(state, true);
    int fd = client_ask(serving, ASK ASK);
    for (int i = 0; i < 2; i++) {
        WAIT_UNTIL(atomic_load(&store.ticket) != NULL);
        uvhttp_rate_limit_decision_t decision = {.allowed = i == 0, .next_ns = 1};
        uvhttp_rate_limit_decided(atomic_exchange(&store.ticket, NULL), UVHTTP_OK, &decision);
        assert_int_equal(client_read(fd)->status, i == 0 ? 200 : 429);
    }
    client_send_text(fd, ASK);
    WAIT_UNTIL(atomic_load(&store.ticket) != NULL);
    uvhttp_rate_limit_decided(atomic_exchange(&store.ticket, NULL), UVHTTP_E_TIMEOUT, NULL);
    assert_int_equal(client_read(fd)->status, 503); /* closed */
    client_send_text(fd, ASK);
    WAIT_UNTIL(atomic_load(&store.ticket) != NULL);
    uvhttp_rate_limit_decided(atomic_exchange(&store.ticket, NULL), UVHTTP_OK, NULL); /* no decision at all */
    client_read_last(fd, 503);
    serving_stop(serving);
}

static void test_a_decision_for_a_client_that_has_gone_is_thrown_away(void **state) {
    serving_t *serving = *state;
    begin(state, false);
    for (int i = 0; i < 20; i++) {
        uint64_t before = uvhttp_server_counter(serving->server, "aborted");
        int fd = client_ask(serving, ASK);
        WAIT_UNTIL(atomic_load(&store.ticket) != NULL);
        close(fd);
        if (i % 2 == 0) WAIT_UNTIL(uvhttp_server_counter(serving->server, "aborted") > before);
        uvhttp_rate_limit_decision_t decision = {.allowed = true};
        uvhttp_rate_limit_decided(atomic_exchange(&store.ticket, NULL), UVHTTP_OK, &decision);
    }
    serving_stop(serving);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_store_may_decide_in_the_call, test_a_store_may_decide_on_another_thread,
                       test_a_decision_for_a_client_that_has_gone_is_thrown_away);
}
