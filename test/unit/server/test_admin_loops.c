/* Owns: tests of the admin listener when a loop of the server does not reply. */
/* Needs: middleware. */
#include <string.h>

#include "server/admin_internal.h"
#include "support/failing_allocator.h"
#include "support/http_server.h"

#define CLIENTS 40u
#define ROUNDS 10u

static atomic_int blocked;
static atomic_bool may_return;

static void block(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&blocked, 1);
    for (int i = 0; i < 3 * TIMEOUT_MS && !atomic_load(&may_return); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    uvhttp_response_text(res, 200, "done");
}

static uint16_t port_of_admin(const serving_t *serving) {
    const char *colon = strrchr(uvhttp__admin_address(serving->server->admin), ':');
    assert_non_null(colon);
    return (uint16_t)strtoul(colon + 1, NULL, 10);
}

/* Each of many probes asks once. */
static void ask_health(uint16_t port, const char *body) {
    int fds[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(port);
        client_send_text(fds[i], "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        client_response_t *response = client_read(fds[i]);
        assert_int_equal(response->status, 503);
        assert_string_equal(response->body, body);
        close(fds[i]);
    }
}

static void test_a_loop_that_does_not_reply_keeps_no_memory_of_each_probe(void **state) {
    serving_t *serving = *state;
    atomic_store(&blocked, 0);
    atomic_store(&may_return, false);
    strcpy(serving->config.admin, "127.0.0.1:0");
    serving_make(serving);
    uvhttp_get(serving->server, "/block", block, NULL);
    serving_start(serving);
    int fd = client_connect(serving->port);
    client_send_text(fd, "GET /block HTTP/1.1\r\nHost: a\r\n\r\n");
    WAIT_UNTIL(atomic_load(&blocked));
    static const char body[] =
        "{\"healthy\":false,\"state\":\"running\",\"loops\":[{\"index\":0,\"responds\":false}]}\n";
    uint16_t port = port_of_admin(serving);
    ask_health(port, body); /* fills what the listener keeps for connections */
    size_t before = test_allocator_live();
    for (unsigned i = 0; i < ROUNDS; i++) ask_health(port, body);
    WAIT_UNTIL(test_allocator_live() < before + ROUNDS * CLIENTS / 4);
    atomic_store(&may_return, true);
    assert_int_equal(client_read(fd)->status, 200);
    serving_leave(serving, fd);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_loop_that_does_not_reply_keeps_no_memory_of_each_probe);
}
