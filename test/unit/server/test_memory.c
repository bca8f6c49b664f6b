/* Needs: middleware. */
#include "support/may_fail.h"

#include <uv.h>

#include "support/process.h"

/* Waits, then passes the request on: by a limiter whose store decides later. */
static void decide_later(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_ticket_t *ticket) {
    (void)user, (void)take;
    uvhttp_rate_limit_decision_t decision = {.allowed = true};
    uvhttp_rate_limit_decided(ticket, UVHTTP_OK, &decision);
}

/* All middleware whose work continues elsewhere, and proxies that are believed. */
static void add_more(uvhttp_server_t *server) {
    static const char *const trusted[] = {"127.0.0.1"};
    static const uvhttp_rate_limit_store_t store = {.take_later = decide_later};
    (void)uvhttp_server_trust_proxies(
        server,
        &(uvhttp_proxy_options_t){.trusted = trusted, .trusted_count = 1, .header = UVHTTP_PROXY_HEADER_FORWARDED});
    uvhttp_group_t *group = uvhttp_group(server, "/more");
    (void)uvhttp_group_use(group,
                           uvhttp_access_log(&(uvhttp_access_log_options_t){.path = "/dev/null", .flush_ms = 1}));
    (void)uvhttp_group_use(group, uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.store = &store}));
    (void)uvhttp_group_get(group, "/:name", may_fail_greet, NULL);
}

static void in_pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) return;
    (void)uvhttp_response_write(res, "piece", 5);
}

static void work_done(void *user, int status) {
    (void)user;
    assert_true(status == UVHTTP_OK || status == UVHTTP_E_WORK_CANCELLED);
}

static void work_run(void *user) {
    (void)user;
}

/* Handlers and jobs on worker threads. */
static void add_workers(uvhttp_server_t *server) {
    (void)uvhttp_route(server, UVHTTP_GET, "/worker/greet/:name", may_fail_greet, NULL, UVHTTP_EXEC_WORKER);
    (void)uvhttp_route(server, UVHTTP_GET, "/worker/later", may_fail_later, NULL, UVHTTP_EXEC_WORKER);
    (void)uvhttp_route(server, UVHTTP_GET, "/worker/pieces", in_pieces, NULL, UVHTTP_EXEC_WORKER);
    (void)uvhttp_work(server, work_run, work_done, NULL);
    (void)uvhttp_work_with(server, &(uvhttp_work_options_t){.done = work_done, .period_ms = 1}, work_run, NULL, NULL);
}

static char long_name[3000];

static void serve_once(serving_t *serving) {
    char request[4096];
    serving->server = uvhttp_server_new(&serving->config);
    if (!serving->server) return;
    (void)uvhttp_get(serving->server, "/greet/:name", may_fail_greet, NULL);
    (void)uvhttp_post(serving->server, "/echo", may_fail_echo, NULL);
    (void)uvhttp_get(serving->server, "/later", may_fail_later, NULL);
    uvhttp_group_t *group = uvhttp_group(serving->server, "/group");
    (void)uvhttp_group_get(group, "/x", may_fail_greet, NULL);
    add_more(serving->server);
    add_workers(serving->server);
    uint16_t proxied;
    if (uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port) == UVHTTP_OK &&
        uvhttp_server_listen(serving->server, "127.0.0.1:0 proxy_protocol", &proxied) == UVHTTP_OK) {
        may_fail_start(serving);
        snprintf(request, sizeof request, "GET /greet/%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", long_name);
        may_fail_ask(serving->port, request, NULL);
        may_fail_ask(serving->port, "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Le",
                     "ngth: 4\r\n\r\nbody");
        may_fail_ask(serving->port, "GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", NULL);
        may_fail_ask(
            proxied, "PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r",
            "\nGET /more/x HTTP/1.1\r\nHost: a\r\nForwarded: for=192.0.2.9;host=b\r\nConnection: close\r\n\r\n");
        may_fail_ask(serving->port, "GET /worker/greet/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", NULL);
        may_fail_ask(serving->port, "GET /worker/later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", NULL);
        may_fail_ask(serving->port, "GET /worker/pieces HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", NULL);
        uvhttp_server_stop(serving->server);
        pthread_join(serving->thread, NULL);
    }
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void attempt(void *user) {
    serve_once(user);
}

static void test_a_life_with_some_requests_survives_any_failed_allocation(void **state) {
    memset(long_name, 'n', sizeof long_name - 1);
    may_fail_everywhere(attempt, *state);
}

/* --- attached --- */

static void free_when_stopped(uvhttp_server_t *server, void *user) {
    *(bool *)user = true;
    uvhttp_server_free(server);
}

/* A listen that fails leaves a server that may be freed at once, and nothing of it in the loop. */
static void attach_once(void *user) {
    serving_t *serving = user;
    uv_loop_t loop;
    bool stopped = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    int fds = count_fds();
    uvhttp_server_t *server = uvhttp_server_new(&serving->config);
    int status = uvhttp_server_attach(server, &loop);
    if (status == UVHTTP_OK) status = uvhttp_server_listen(server, "127.0.0.1:0", NULL);
    if (status == UVHTTP_OK) {
        uvhttp_server_on_stopped(server, free_when_stopped, &stopped);
        uvhttp_server_stop(server);
        uv_run(&loop, UV_RUN_DEFAULT);
    } else {
        assert_true(test_allocator_failed());
        uvhttp_server_free(server);
        uv_run(&loop, UV_RUN_DEFAULT);
    }
    assert_int_equal(stopped, status == UVHTTP_OK);
    assert_int_equal(count_fds(), fds);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_an_attached_server_with_an_admin_listener_bears_each_failure(void **state) {
    serving_t *serving = *state;
    snprintf(serving->config.admin, sizeof serving->config.admin, "127.0.0.1:0");
    attach_once(serving); /* what is made once */
    (void)test_allocator_each_failure(attach_once, serving);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_life_with_some_requests_survives_any_failed_allocation,
                       test_an_attached_server_with_an_admin_listener_bears_each_failure);
}
