/* Coroutine routes when any allocation, or any mapping of a stack, fails. */
/* Needs: coroutines. */
#include "support/may_fail.h"

#include "exec/coro_stack.h"

static void cleanup(void *arg) {
    ++*(int *)arg;
}

static void child(void *arg) {
    if (uvhttp_coro_sleep(1) == UVHTTP_OK) ++*(int *)arg;
}

static void work(void *arg) {
    ++*(int *)arg;
}

static char url[64];

static void now(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "now");
}

/* Asks this very server, by what is a name for getaddrinfo. */
static int ask_now(void) {
    uvhttp_client_response_t *response;
    int status = uvhttp_coro_request(&(uvhttp_client_request_t){.url = url, .timeout_ms = 5000}, &response);
    if (status == UVHTTP_OK && uvhttp_client_response_status(response) != 200) status = UVHTTP_E_PEER_RESPONSE;
    uvhttp_client_response_free(response);
    return status;
}

/* Everything that allocates memory; whatever fails, it ends and responds. */
static void handle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    static int count; /* cleanups, and a child that was not joined, run behind the end of this function */
    int registered = 0;
    for (int i = 0; i < 6; i++) registered += uvhttp_coro_defer(cleanup, &count) == UVHTTP_OK;
    uvhttp_coro_t *coro;
    int status = uvhttp_coro_spawn(child, &count, &coro);
    if (status == UVHTTP_OK) status = uvhttp_coro_join(coro, 1000);
    if (status == UVHTTP_OK) status = uvhttp_coro_work(work, &count);
    if (status == UVHTTP_OK) status = ask_now();
    uvhttp_str_t piece;
    while (status == UVHTTP_OK) status = uvhttp_coro_read_body(req, &piece, 1000);
    bool whole = status == UVHTTP_E_EOF && registered == 6;
    uvhttp_response_text(res, whole ? 200 : 503, "");
}

static void serve_once(void *user) {
    serving_t *serving = user;
    serving->server = uvhttp_server_new(&serving->config);
    if (!serving->server) return;
    uvhttp_route_t *all = uvhttp_route(serving->server, UVHTTP_POST, "/all", handle, NULL, UVHTTP_EXEC_COROUTINE);
    if (uvhttp_route_options(all, &(uvhttp_route_options_t){.stream_body = true}) == UVHTTP_OK &&
        uvhttp_route(serving->server, UVHTTP_GET, "/now", now, NULL, UVHTTP_EXEC_LOOP) &&
        uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port) == UVHTTP_OK) {
        snprintf(url, sizeof url, "http://127.1:%u/now", serving->port);
        may_fail_start(serving);
        bool there = may_fail_ask(
            serving->port, "POST /all HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", NULL);
        uvhttp_server_stop(serving->server);
        pthread_join(serving->thread, NULL);
        if (!there) assert_int_equal(serving->status, UVHTTP_E_NOMEM);
    }
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_coroutines_survive_any_failed_allocation(void **state) {
    may_fail_everywhere(serve_once, *state);
}

static void test_coroutines_survive_a_failed_mapping(void **state) {
    for (uint32_t i = 1; i <= 2; i++) {
        uvhttp__coro_stack_fail_at = i; /* the handler's, and its child's */
        serve_once(*state);
        uvhttp__coro_stack_fail_at = 0;
    }
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_coroutines_survive_any_failed_allocation, test_coroutines_survive_a_failed_mapping);
}
