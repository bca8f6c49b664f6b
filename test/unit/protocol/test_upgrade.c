#include "support/http_server.h"

static char received[256];
static atomic_int received_size, opens, ends, closes, close_status;
static _Atomic(uvhttp_deferred_t *) slot;

static void on_open(uvhttp_tcp_t *tcp, void *user) {
    atomic_fetch_add(&opens, 1);
    uvhttp_tcp_send(tcp, user, strlen(user), NULL);
}
static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    int at = atomic_load(&received_size);
    memcpy(received + at, data, size);
    atomic_store(&received_size, at + (int)size);
    uvhttp_tcp_send(tcp, data, size, NULL);
}
static void on_end(uvhttp_tcp_t *tcp, void *user) {
    (void)user;
    atomic_fetch_add(&ends, 1);
    uvhttp_tcp_close(tcp);
}
static void on_close(uvhttp_tcp_t *tcp, int status, void *user) {
    (void)tcp, (void)user;
    atomic_store(&close_status, status);
    atomic_fetch_add(&closes, 1);
}

static const uvhttp_tcp_handlers_t handlers = {
    .on_open = on_open, .on_data = on_data, .on_end = on_end, .on_close = on_close};

static void upgrade(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_header(res, "X-Protocol", "echo/1");
    int status = uvhttp_response_upgrade(res, "echo", &handlers, user);
    if (status != UVHTTP_OK) uvhttp_response_text(res, status == UVHTTP_E_STATE ? 400 : 500, "no upgrade");
}

/* Fields up to the limit but for as many bytes as "Upgrade: echo" needs, and not "Connection: Upgrade" too. */
static void upgrade_without_space(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    char value[4096];
    memset(value, 'x', sizeof value);
    const uvhttp_str_t later = {value, 22};
    (void)uvhttp_response_header_str(res, "Last", later);
    for (size_t size = sizeof value; size > 0;)
        if (uvhttp_response_header_add_str(res, "A", (uvhttp_str_t){value, size}) != UVHTTP_OK) size--;
    (void)uvhttp_response_header_remove(res, "Last");
    (void)req;
    int status = uvhttp_response_upgrade(res, "echo", &handlers, user);
    while (uvhttp_response_header_get(res, "A").data) (void)uvhttp_response_header_remove(res, "A");
    uvhttp_response_text(res, 503, uvhttp_error_name(status));
}

static void upgrade_later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&slot, uvhttp_response_defer(res));
}

/* The later response counts, and nothing of the first stays. */
static void change_mind(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    upgrade(req, res, user);
    uvhttp_response_text(res, 403, "no");
}

static void begin(void **state) {
    serving_t *serving = *state;
    received_size = opens = ends = closes = close_status = 0;
    memset(received, 0, sizeof received);
    serving_make(serving);
    uvhttp_get(serving->server, "/up", upgrade, (void *)"welcome ");
    uvhttp_get(serving->server, "/not-up", change_mind, NULL);
    uvhttp_get(serving->server, "/full", upgrade_without_space, NULL);
    uvhttp_get(serving->server, "/up-later", upgrade_later, NULL);
    uvhttp_post(serving->server, "/up", upgrade, NULL);
    serving_start(serving);
}

static void expect_text(int fd, const char *text) {
    char byte;
    for (const char *c = text; *c; c++) {
        client_receive(fd, &byte, 1);
        assert_int_equal(byte, *c);
    }
}

#define UPGRADE(path) "GET " path " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

static void test_bytes_behind_the_head_are_the_other_protocols(void **state) {
    serving_t *serving = *state;
    begin(state);
    int fd = client_ask(serving, UPGRADE("/up") "early");
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 101);
    assert_non_null(strstr(response->text, "Upgrade: echo\r\n"));
    assert_non_null(strstr(response->text, "Connection: Upgrade\r\n"));
    assert_non_null(strstr(response->text, "X-Protocol: echo/1\r\n"));
    assert_null(strstr(response->text, "Content-Length"));
    expect_text(fd, "welcome early");
    client_send_text(fd, GET("/up")); /* no request any more */
    expect_text(fd, GET("/up"));
    shutdown(fd, SHUT_WR);
    client_expect_end(fd);
    close(fd);
    WAIT_UNTIL(closes == 1);
    assert_int_equal(close_status, UVHTTP_OK);
    assert_int_equal(opens, 1);
    assert_int_equal(ends, 1);
    assert_string_equal(received, "early" GET("/up"));
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "upgrades"), 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "requests"), 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "responses_1xx"), 1);
}

static void test_what_is_no_upgrade_is_refused_with_a_code(void **state) {
    serving_t *serving = *state;
    begin(state);
    static const char *const requests[] = {
        GET("/up"),
        "GET /up HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\n\r\n",
        "GET /up HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
        "POST /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\nContent-Length: 1\r\n\r\nx",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int fd = client_ask(serving, requests[i]);
        client_read_last(fd, 400);
    }
    serving_stop(serving);
    assert_int_equal(opens, 0);
}

static void test_a_response_in_place_of_the_upgrade_ends_the_connection_as_asked(void **state) {
    serving_t *serving = *state;
    begin(state);
    int fd =
        client_ask(serving, "GET /not-up HTTP/1.1\r\nHost: a\r\nConnection: close, Upgrade\r\nUpgrade: echo\r\n\r\n");
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 403);
    assert_non_null(strstr(response->text, "Connection: close\r\n"));
    client_expect_end(fd);
    serving_leave(serving, fd);
    assert_int_equal(opens, 0);
}

static void test_a_refused_upgrade_leaves_no_fields(void **state) {
    serving_t *serving = *state;
    begin(state);
    int fd = client_ask(serving, UPGRADE("/full"));
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 503);
    assert_string_equal(response->body, "UVHTTP_E_LIMIT");
    assert_null(strstr(response->text, "Upgrade"));
    serving_leave(serving, fd);
    assert_int_equal(opens, 0);
}

static void test_a_reset_is_reported_to_the_other_protocol(void **state) {
    serving_t *serving = *state;
    begin(state);
    int fd = client_ask(serving, UPGRADE("/up"));
    assert_int_equal(client_read(fd)->status, 101);
    struct linger reset = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
    WAIT_UNTIL(closes == 1);
    assert_int_equal(close_status, UVHTTP_E_ABORTED);
}

static void test_a_drain_closes_upgraded_connections(void **state) {
    serving_t *serving = *state;
    begin(state);
    int fd = client_ask(serving, UPGRADE("/up"));
    assert_int_equal(client_read(fd)->status, 101);
    expect_text(fd, "welcome ");
    uvhttp_server_stop(serving->server);
    client_expect_end(fd);
    close(fd);
    serving_join(serving);
    assert_int_equal(closes, 1);
}

static void run_upgrade(uvhttp_response_t *res, void *user) {
    uvhttp_response_upgrade(res, "echo", &handlers, user);
}

/* While the server drains, or behind the FIN of the client. Returns the client; *other: another one, behind that FIN.
 */
static int upgrade_late(serving_t *serving, bool draining, void (*run)(uvhttp_response_t *res, void *user),
                        int *other) {
    int fd = client_ask(serving, UPGRADE("/up-later"));
    WAIT_UNTIL(atomic_load(&slot));
    uvhttp_deferred_t *deferred = atomic_exchange(&slot, NULL);
    if (draining)
        uvhttp_server_stop(serving->server);
    else
        shutdown(fd, SHUT_WR);
    *other = draining ? -1 : client_ask(serving, GET("/nowhere"));
    if (*other >= 0) assert_int_equal(client_read(*other)->status, 404);
    assert_int_equal(uvhttp_deferred_run(deferred, run, (void *)"hello"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    return fd;
}

/* An upgrade that comes late, from a deferred response: while draining it must not keep the server, and an earlier FIN
 * is reported. */
static void test_a_late_upgrade_learns_of_drain_and_fin(void **state) {
    serving_t *serving = *state;
    serving->config.half_close = true;
    for (int draining = 0; draining < 2; draining++) {
        begin(state);
        int other, fd = upgrade_late(serving, draining, run_upgrade, &other);
        client_response_t *response = client_read(fd);
        assert_int_equal(response->status, 101);
        assert_null(strstr(response->text, "Connection: close"));
        expect_text(fd, "hello");
        client_expect_end(fd);
        close(fd);
        WAIT_UNTIL(closes == 1);
        assert_int_equal(ends, draining ? 0 : 1);
        if (other >= 0) close(other);
        if (draining)
            serving_join(serving);
        else
            serving_stop(serving);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
}

/* As with a TCP server, the data of a connection is not what the handlers get. */
static char own_data;
static atomic_int strangers;

static void own_open(uvhttp_tcp_t *tcp, void *user) {
    on_open(tcp, user);
    uvhttp_tcp_set_data(tcp, &own_data);
}
static void check_user(uvhttp_tcp_t *tcp, const void *user) {
    if (strcmp(user, "mine ") != 0 || uvhttp_tcp_data(tcp) != &own_data) atomic_fetch_add(&strangers, 1);
}
static void own_received(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    check_user(tcp, user);
    on_data(tcp, data, size, user);
}
static void own_end(uvhttp_tcp_t *tcp, void *user) {
    check_user(tcp, user);
    on_end(tcp, user);
}
static void own_close(uvhttp_tcp_t *tcp, int status, void *user) {
    check_user(tcp, user);
    on_close(tcp, status, user);
}
static const uvhttp_tcp_handlers_t own_handlers = {
    .on_open = own_open, .on_data = own_received, .on_end = own_end, .on_close = own_close};

static void upgrade_with_data(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    (void)uvhttp_response_upgrade(res, "echo", &own_handlers, user);
}

static void test_the_data_of_a_connection_is_not_the_user_of_its_handlers(void **state) {
    serving_t *serving = *state;
    begin(state);
    strangers = 0;
    serving_stop(serving);
    uvhttp_server_free(serving->server);
    serving_make(serving);
    uvhttp_get(serving->server, "/up", upgrade_with_data, (void *)"mine ");
    serving_start(serving);
    int fd = client_ask(serving, UPGRADE("/up") "early");
    assert_int_equal(client_read(fd)->status, 101);
    expect_text(fd, "mine early");
    shutdown(fd, SHUT_WR);
    client_expect_end(fd);
    close(fd);
    WAIT_UNTIL(closes == 1);
    assert_int_equal(strangers, 0);
}

static void close_at_open(uvhttp_tcp_t *tcp, void *user) {
    on_open(tcp, user);
    uvhttp_tcp_close(tcp);
}
static void count_stop(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp, (void)user;
    atomic_fetch_add(&ends, 1);
}
static const uvhttp_tcp_handlers_t brief_handlers = {
    .on_open = close_at_open, .on_data = on_data, .on_end = on_end, .on_stop = count_stop, .on_close = on_close};

static void upgrade_briefly(uvhttp_response_t *res, void *user) {
    uvhttp_response_upgrade(res, "echo", &brief_handlers, user);
}

/* Nothing but on_close follows a close in on_open, also if the server stops or the client has sent FIN. */
static void test_a_late_upgrade_that_closes_at_once_learns_of_nothing_else(void **state) {
    serving_t *serving = *state;
    serving->config.half_close = true;
    for (int draining = 0; draining < 2; draining++) {
        begin(state);
        int other, fd = upgrade_late(serving, draining, upgrade_briefly, &other);
        assert_int_equal(client_read(fd)->status, 101);
        expect_text(fd, "hello");
        client_expect_end(fd);
        close(fd);
        WAIT_UNTIL(closes == 1);
        assert_int_equal(ends, 0);
        if (other >= 0) close(other);
        if (draining)
            serving_join(serving);
        else
            serving_stop(serving);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
}

/* --- a connection that begins while the server stops --- */

static atomic_int stops;

static void count_late_stop(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp, (void)user;
    atomic_fetch_add(&stops, 1);
}
static const uvhttp_tcp_handlers_t counting_handlers = {
    .on_open = on_open, .on_data = on_data, .on_end = on_end, .on_stop = count_late_stop, .on_close = on_close};

static void upgrade_counting(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_upgrade(res, "echo", &counting_handlers, user);
}

/* What comes with the last byte of its beginning is a request like any other, and the connection drains behind it. */
static void test_an_upgrade_behind_a_late_beginning_stops_once(void **state) {
    static const char rest[] = "192.0.2.8 1 2\r\n" UPGRADE("/up");
    serving_t *serving = *state;
    received_size = stops = closes = 0;
    serving_make(serving);
    uvhttp_get(serving->server, "/up", upgrade_counting, (void *)"hello");
    static const char *const trusted[] = {"127.0.0.1"};
    const uvhttp_proxy_options_t proxies = {.trusted = trusted, .trusted_count = 1};
    assert_int_equal(uvhttp_server_trust_proxies(serving->server, &proxies), UVHTTP_OK);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0 proxy_protocol", &serving->port), UVHTTP_OK);
    serving_run(serving);
    int fd = client_connect(serving->port);
    client_send(fd, "PROXY TCP4 192.0.2.7 ", 21);
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "connections_accepted") == 1);
    uvhttp_server_stop(serving->server);
    WAIT_UNTIL(uvhttp_server_state(serving->server) == UVHTTP_SERVER_DRAINING);
    client_send(fd, rest, sizeof rest - 1);
    assert_int_equal(client_read(fd)->status, 101);
    expect_text(fd, "hello");
    client_send(fd, "x", 1);
    expect_text(fd, "x");
    close(fd);
    serving_join(serving);
    assert_int_equal(closes, 1);
    assert_int_equal(stops, 1);
}

/* --- hooks --- */

static char order[64];

static void note(uvhttp_response_t *res, void *user) {
    (void)res;
    strncat(order, user, sizeof order - strlen(order) - 1);
}
static void note_done(uvhttp_response_t *res, int status, void *user) {
    (void)res;
    note(NULL, user);
    note(NULL, (void *)(status == UVHTTP_OK ? "+" : "-"));
}
static uvhttp_flow_t hooks(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const char *name = user;
    (void)req;
    uvhttp_response_on_finish(res, note, (void *)(uintptr_t)name);
    uvhttp_response_on_done(res, note_done, (void *)(uintptr_t)(name + 2));
    return UVHTTP_NEXT;
}
static void respond_with_hooks(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    note(NULL, (void *)"handler ");
    if (user) {
        uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
        note(NULL, (void *)"begun ");
        uvhttp_response_write(res, "x", 1);
    } else {
        uvhttp_response_text(res, 200, "x");
    }
}

static void test_hooks_run_backwards_and_done_comes_last(void **state) {
    serving_t *serving = *state;
    static const char outer[] = "1\0a", inner[] = "2\0b";
    for (int streamed = 0; streamed < 2; streamed++) {
        order[0] = '\0';
        serving_make(serving);
        uvhttp_use(serving->server, (uvhttp_middleware_t){.run = hooks, .user = (void *)(uintptr_t)outer});
        uvhttp_use(serving->server, (uvhttp_middleware_t){.run = hooks, .user = (void *)(uintptr_t)inner});
        uvhttp_get(serving->server, "/", respond_with_hooks, streamed ? serving : NULL);
        serving_start(serving);
        int fd = client_ask(serving, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client_read_last(fd, 200);
        serving_stop(serving);
        assert_string_equal(order, streamed ? "handler 21begun b+a+" : "handler 21b+a+");
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(
        test_bytes_behind_the_head_are_the_other_protocols, test_what_is_no_upgrade_is_refused_with_a_code,
        test_a_response_in_place_of_the_upgrade_ends_the_connection_as_asked, test_a_refused_upgrade_leaves_no_fields,
        test_a_reset_is_reported_to_the_other_protocol, test_a_drain_closes_upgraded_connections,
        test_a_late_upgrade_learns_of_drain_and_fin, test_the_data_of_a_connection_is_not_the_user_of_its_handlers,
        test_a_late_upgrade_that_closes_at_once_learns_of_nothing_else,
        test_an_upgrade_behind_a_late_beginning_stops_once, test_hooks_run_backwards_and_done_comes_last);
}
