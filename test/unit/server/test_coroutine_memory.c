/* Coroutine routes when any allocation, or any mapping of a stack, fails. */
#include "support/failing_allocator.h"

#include "server/serving.h"

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

/* Everything that can take memory; whatever fails, it ends and answers. */
static void handle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    int count = 0, registered = 0;
    for (int i = 0; i < 6; i++) registered += uvhttp_coro_defer(cleanup, &count) == UVHTTP_OK;
    uvhttp_coro_t *coro;
    int status = uvhttp_coro_spawn(child, &count, &coro);
    if (status == UVHTTP_OK) status = uvhttp_coro_join(coro, 1000);
    if (status == UVHTTP_OK) status = uvhttp_coro_work(work, &count);
    uvhttp_str_t piece;
    while (status == UVHTTP_OK) status = uvhttp_coro_read_body(req, &piece, 1000);
    bool whole = status == UVHTTP_E_EOF && registered == 6;
    uvhttp_response_text(res, whole ? 200 : 503, "");
}

static atomic_bool run_returned;

static void *run(void *arg) {
    serving_t *serving = arg;
    serving->status = uvhttp_server_run(serving->server, NULL);
    atomic_store(&run_returned, true);
    return NULL;
}

/* Any whole answer, or none. Returns whether there was a server: one that could not start closes its sockets, maybe
 * before the client comes. */
static bool ask(uint16_t port) {
    static const char question[] =
        "POST /all HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    bool there = connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
                 send(fd, question, sizeof question - 1, MSG_NOSIGNAL) == (ssize_t)sizeof question - 1;
    if (!there) {
        close(fd);
        return false;
    }
    struct timeval limit = {.tv_usec = 10000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    char byte;
    ssize_t got;
    int tries = LIMIT_SECONDS * 100;
    do {
        got = recv(fd, &byte, 1, MSG_PEEK);
    } while (got < 0 && (errno == EAGAIN || errno == EINTR) && !run_returned && --tries > 0);
    assert_true(tries > 0);
    if (got > 0) {
        answer_t *answer = client_read(fd);
        assert_true(answer->status == 200 || answer->status == 500 || answer->status == 503);
    }
    close(fd);
    return true;
}

static void serve_once(void *user) {
    serving_t *serving = user;
    run_returned = false;
    serving->server = uvhttp_server_new(&serving->config);
    if (!serving->server) return;
    if (uvhttp_route(serving->server, UVHTTP_POST, "/all", handle, NULL, UVHTTP_EXEC_COROUTINE) == UVHTTP_OK &&
        uvhttp_route_options(serving->server, &(uvhttp_route_options_t){.stream_body = true}) == UVHTTP_OK &&
        uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port) == UVHTTP_OK) {
        assert_int_equal(pthread_create(&serving->thread, NULL, run, serving), 0);
        bool there = ask(serving->port);
        uvhttp_server_stop(serving->server);
        pthread_join(serving->thread, NULL);
        if (!there) assert_int_equal(serving->status, UVHTTP_E_NOMEM);
    }
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_coroutines_survive_any_failed_allocation(void **state) {
    serving_t *serving = *state;
    serve_once(serving); /* what is made once and stays */
    size_t count = test_allocator_each_failure(serve_once, serving);
    print_message("%zu allocations, each failed once\n", count);
    assert_true(count > 20);
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
    const struct CMUnitTest tests[] = {ON_EACH(test_coroutines_survive_any_failed_allocation),
                                       ON_EACH(test_coroutines_survive_a_failed_mapping)};
    return RUN_ON_EACH(tests);
}
