/* Owns: tests of what a program gives for proxies, static files and WebSocket before it listens, and gets refused: the
 * code, the text that says what is wrong, and that listening fails then, too. */
/* Needs: static websocket. */
#include <fcntl.h>
#include <unistd.h>
#include <uvhttp/proxy.h>
#include <uvhttp/static.h>
#include <uvhttp/websocket.h>

#include "route/router.h"
#include "support/http_server.h"

static char logged[1024];

static void keep_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)size, (void)user;
    snprintf(logged, sizeof logged, "%s", message);
}

static uvhttp_server_t *make(void) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.quiet = true;
    logged[0] = '\0';
    uvhttp_server_t *server = uvhttp_server_new(&config);
    assert_non_null(server);
    return server;
}

static void ignore_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)tcp, (void)data, (void)size, (void)user;
}

/* It was refused with this status: the server knows why, and does not listen. */
static void expect_refused(uvhttp_server_t *server, int status, int expected, const char *reason) {
    assert_int_equal(status, expected);
    const char *text = uvhttp_server_error_text(server);
    if (!strstr(text, reason)) fail_msg("%s: %s", reason, text);
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), expected);
    uvhttp_server_free(server);
}

static void test_an_argument_that_is_null_is_named(void **state) {
    (void)state;
    static const uvhttp_tcp_handlers_t handlers = {.on_data = ignore_data};
    uvhttp_server_t *server = make();
    assert_int_equal(uvhttp_server_attach(server, NULL), UVHTTP_E_INVALID);
    assert_string_equal(uvhttp_server_error_text(server), "attach: loop is NULL");
    assert_int_equal(uvhttp_server_listen(server, NULL, NULL), UVHTTP_E_INVALID);
    assert_string_equal(uvhttp_server_error_text(server), "listen: address is NULL");
    uvhttp_server_free(server);
    uvhttp_tcp_server_t *tcp = uvhttp_tcp_server_new(NULL, &handlers, NULL);
    assert_non_null(tcp);
    assert_int_equal(uvhttp_tcp_server_attach(tcp, NULL), UVHTTP_E_INVALID);
    assert_string_equal(uvhttp_tcp_server_error_text(tcp), "attach: loop is NULL");
    assert_int_equal(uvhttp_tcp_server_listen(tcp, NULL, NULL), UVHTTP_E_INVALID);
    assert_string_equal(uvhttp_tcp_server_error_text(tcp), "listen: address is NULL");
    uvhttp_tcp_server_free(tcp);
}

static void listen_first(uvhttp_server_t *server) {
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), UVHTTP_OK);
}

/* --- proxies --- */

static void refuse_proxies(uvhttp_proxy_options_t options, const char *reason) {
    uvhttp_server_t *server = make();
    expect_refused(server, uvhttp_server_trust_proxies(server, &options), UVHTTP_E_CONFIG, reason);
}

static void test_proxies_that_cannot_be_trusted(void **state) {
    (void)state;
    static const char *const one[] = {"192.0.2.1"}, *const wrong[] = {"192.0.2.1", "10.0.0.0/33"},
                             *const none[] = {NULL};
    refuse_proxies((uvhttp_proxy_options_t){.trusted_count = 1}, "trusted_count is 1: expected 1..1000");
    refuse_proxies((uvhttp_proxy_options_t){.trusted = one}, "trusted_count is 0: expected 1..1000");
    refuse_proxies((uvhttp_proxy_options_t){.trusted = one, .trusted_count = 1001}, "trusted_count is 1001: expected");
    refuse_proxies((uvhttp_proxy_options_t){.trusted = wrong, .trusted_count = 2}, "trusted[1] is \"10.0.0.0/33\"");
    refuse_proxies((uvhttp_proxy_options_t){.trusted = none, .trusted_count = 1}, "trusted[0] is \"\"");
    refuse_proxies((uvhttp_proxy_options_t){.trusted = one, .trusted_count = 1, .header = 77}, "header is 77");
    refuse_proxies((uvhttp_proxy_options_t){.trusted = one, .trusted_count = 1, .hops_max = 65}, "hops_max is 65");
    refuse_proxies((uvhttp_proxy_options_t){.trusted = one, .trusted_count = 1, .fields = 64},
                   "fields is 64: expected");
    refuse_proxies(
        (uvhttp_proxy_options_t){
            .trusted = one, .trusted_count = 1, .header = UVHTTP_PROXY_HEADER_FORWARDED, .fields = UVHTTP_PROXY_HOST},
        "without UVHTTP_PROXY_FOR");
}

static void test_proxies_need_options(void **state) {
    (void)state;
    uvhttp_server_t *server = make();
    expect_refused(server, uvhttp_server_trust_proxies(server, NULL), UVHTTP_E_INVALID, "options is NULL");
}

static void test_proxies_are_trusted_before_the_first_listen(void **state) {
    (void)state;
    static const char *const one[] = {"192.0.2.1"};
    const uvhttp_proxy_options_t options = {.trusted = one, .trusted_count = 1, .hops_max = 64};
    uvhttp_server_t *server = make();
    assert_int_equal(uvhttp_server_trust_proxies(NULL, &options), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_trust_proxies(server, &options), UVHTTP_OK);
    assert_int_equal(uvhttp_server_trust_proxies(server, &options), UVHTTP_OK); /* the last ones count */
    listen_first(server);
    assert_int_equal(uvhttp_server_trust_proxies(server, &options), UVHTTP_E_STATE);
    assert_non_null(strstr(uvhttp_server_error_text(server), "not after the first listen"));
    uvhttp_server_free(server);
}

/* The first error counts: what comes behind it does not hide it. */
static void test_the_first_error_is_what_listening_returns(void **state) {
    (void)state;
    static const char *const one[] = {"192.0.2.1"};
    uvhttp_server_t *server = make();
    assert_int_equal(uvhttp_server_trust_proxies(server, &(uvhttp_proxy_options_t){.trusted = one}), UVHTTP_E_CONFIG);
    assert_null(uvhttp_get(server, "no/slash", NULL, NULL));
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), UVHTTP_E_CONFIG);
    uvhttp_server_free(server);
}

/* --- static files --- */

static void test_static_files_need_a_prefix_and_a_root(void **state) {
    (void)state;
    static const struct {
        const char *prefix, *root;
    } wrong[] = {{NULL, "/tmp"}, {"/a", NULL}, {"a", "/tmp"}, {"/a%20b", "/tmp"}};
    assert_int_equal(uvhttp_static(NULL, "/a", "/tmp", NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_group_static(NULL, "/a", "/tmp", NULL), UVHTTP_E_INVALID);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uvhttp_server_t *server = make();
        expect_refused(server, uvhttp_static(server, wrong[i].prefix, wrong[i].root, NULL), UVHTTP_E_INVALID,
                       "a prefix begins with '/' and has no percent escape");
    }
}

static void test_a_root_that_is_not_there_is_refused(void **state) {
    (void)state;
    uvhttp_server_t *server = make();
    int status = uvhttp_static(server, "/a", "/no/such/directory", NULL);
    assert_true(status < 0);
    assert_non_null(strstr(logged, "/no/such/directory"));
    expect_refused(server, status, status, "/no/such/directory");
}

static void test_a_prefix_is_no_longer_than_a_pattern(void **state) {
    (void)state;
    static char prefix[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 3];
    memset(prefix, 'a', sizeof prefix - 1);
    prefix[0] = '/';
    uvhttp_server_t *server = make();
    int status = uvhttp_static(server, prefix, "/tmp", NULL);
    assert_true(status < 0);
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), status);
    uvhttp_server_free(server);
}

static void test_static_files_are_added_before_the_first_listen(void **state) {
    (void)state;
    uvhttp_server_t *server = make();
    listen_first(server);
    assert_int_equal(uvhttp_static(server, "/a", "/tmp", NULL), UVHTTP_E_STATE);
    uvhttp_server_free(server);
    server = make();
    listen_first(server);
    assert_null(uvhttp_static_files(server, "/tmp", NULL));
    assert_non_null(strstr(uvhttp_server_error_text(server), "the server listens already"));
    uvhttp_server_free(server);
}

static void test_files_for_handlers_need_a_root(void **state) {
    (void)state;
    assert_null(uvhttp_static_files(NULL, "/tmp", NULL));
    uvhttp_server_t *server = make();
    assert_null(uvhttp_static_files(server, NULL, NULL));
    expect_refused(server, UVHTTP_E_INVALID, UVHTTP_E_INVALID, "the root is NULL");
    server = make();
    assert_null(uvhttp_static_files(server, "/no/such/directory", NULL));
    assert_non_null(strstr(uvhttp_server_error_text(server), "/no/such/directory"));
    uvhttp_server_free(server);
}

static atomic_int responds[4];

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp_static_files_t *files = user;
    atomic_store(&responds[0], uvhttp_static_respond(NULL, req, res, 1));
    atomic_store(&responds[1], uvhttp_static_respond(files, NULL, res, 1));
    atomic_store(&responds[2], uvhttp_static_respond(files, req, res, 100)); /* longer than the path */
    atomic_store(&responds[3], uvhttp_static_respond(files, req, res, 2));   /* not at a '/' */
    uvhttp_response_text(res, 200, "refused");
}

static void test_a_prefix_that_is_none_of_the_path_is_refused(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_static_files_t *files = uvhttp_static_files(serving->server, "/tmp", NULL);
    assert_non_null(files);
    uvhttp_get(serving->server, "/files/a", respond, files);
    serving_start(serving);
    int fd = client_ask(serving, GET("/files/a"));
    client_read_last(fd, 200);
    for (int i = 0; i < 4; i++) assert_int_equal(atomic_load(&responds[i]), UVHTTP_E_INVALID);
    serving_stop(serving);
}

static void respond_any(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    if (uvhttp_static_respond(user, req, res, 6) != UVHTTP_OK) abort();
}

/* Conditions and ranges have another meaning for other methods (RFC 9110 section 13.2.2): 304 for a DELETE is wrong. */
static void test_files_for_handlers_are_for_get_and_head(void **state) {
    serving_t *serving = *state;
    char root[] = "/tmp/uvhttp_files_XXXXXX", path[64];
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof path, "%s/a", root);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    serving_make(serving);
    uvhttp_static_files_t *files = uvhttp_static_files(serving->server, root, NULL);
    assert_non_null(uvhttp_route(serving->server, UVHTTP_ANY, "/files/a", respond_any, files, UVHTTP_EXEC_LOOP));
    serving_start(serving);
    static const char *const methods[] = {"DELETE", "OPTIONS", "GET"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char request[128];
        snprintf(request, sizeof request,
                 "%s /files/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIf-None-Match: *\r\n\r\n", methods[i]);
        int fd = client_ask(serving, request);
        bool served = i == 2;
        client_response_t *response = client_read(fd);
        assert_int_equal(response->status, served ? 304 : 405);
        assert_int_equal(strstr(response->text, "\r\nAllow: GET, HEAD\r\n") != NULL, !served);
        close(fd);
    }
    serving_stop(serving);
    unlink(path);
    rmdir(root);
}

/* --- WebSocket --- */

static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
}

static void on_fragment(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user) {
    (void)ws, (void)fragment, (void)user;
}

static void refuse_websocket(uvhttp_ws_options_t options, const char *reason) {
    uvhttp_server_t *server = make();
    const uvhttp_ws_handlers_t handlers = {.on_message = on_message, .options = &options};
    assert_null(uvhttp_websocket(server, "/ws", &handlers, NULL));
    if (!strstr(logged, reason)) fail_msg("%s: %s", reason, logged);
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), UVHTTP_E_CONFIG);
    uvhttp_server_free(server);
}

static void test_messages_or_fragments_are_received(void **state) {
    (void)state;
    const uvhttp_ws_handlers_t wrong[] = {{0}, {.on_message = on_message, .on_fragment = on_fragment}};
    for (size_t i = 0; i < 2; i++) {
        uvhttp_server_t *server = make();
        assert_null(uvhttp_websocket(server, "/ws", &wrong[i], NULL));
        assert_string_equal(logged, "websocket: /ws: set one of handlers.on_message and handlers.on_fragment");
        assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), UVHTTP_E_INVALID);
        uvhttp_server_free(server);
    }
}

static void test_options_of_websocket_have_ranges(void **state) {
    (void)state;
    refuse_websocket((uvhttp_ws_options_t){.compression_level = 10},
                     "compression_level is 10, allowed are 1..9, or 0 for the default");
    refuse_websocket((uvhttp_ws_options_t){.server_window_bits = 8}, "server_window_bits is 8, allowed are 9..15");
    refuse_websocket((uvhttp_ws_options_t){.ping_interval = UVHTTP_NEVER - 1}, "seconds, UVHTTP_NEVER, or 0");
    static const char *const tokens[][2] = {{""}, {"a b"}, {"a,b"}, {"\x7f"}, {"\xc3\xa9"}};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        refuse_websocket((uvhttp_ws_options_t){.subprotocols = tokens[i]}, "expected a token such as \"chat.v1\"");
    static const char *const origins[][2] = {{"example.com"}, {"://a"}, {"https://"}, {"https://a b"}, {"https://a/b"}};
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        refuse_websocket((uvhttp_ws_options_t){.origins = origins[i]}, "expected \"https://example.com\" or \"*\"");
}

static void test_options_of_websocket_that_are_right_are_accepted(void **state) {
    (void)state;
    static const char *const tokens[] = {"chat.v1", "a!#$%&'*+-^_`|~", NULL};
    static const char *const origins[] = {"*", "https://example.com", "http://a:8080", NULL};
    const uvhttp_ws_options_t options = {.subprotocols = tokens, .origins = origins, .rate_grace = UVHTTP_NEVER};
    uvhttp_server_t *server = make();
    const uvhttp_ws_handlers_t handlers = {.on_fragment = on_fragment, .options = &options};
    assert_non_null(uvhttp_websocket(server, "/ws", &handlers, NULL));
    assert_string_equal(logged, "");
    listen_first(server);
    uvhttp_server_free(server);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_WARN);
    uvhttp_log_set_callback(keep_log, NULL);
    uvhttp_log_set_rate_limit(0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proxies_that_cannot_be_trusted),
        cmocka_unit_test(test_an_argument_that_is_null_is_named),
        cmocka_unit_test(test_proxies_need_options),
        cmocka_unit_test(test_proxies_are_trusted_before_the_first_listen),
        cmocka_unit_test(test_the_first_error_is_what_listening_returns),
        cmocka_unit_test(test_static_files_need_a_prefix_and_a_root),
        cmocka_unit_test(test_a_root_that_is_not_there_is_refused),
        cmocka_unit_test(test_a_prefix_is_no_longer_than_a_pattern),
        cmocka_unit_test(test_static_files_are_added_before_the_first_listen),
        cmocka_unit_test(test_files_for_handlers_need_a_root),
        ON_EACH(test_a_prefix_that_is_none_of_the_path_is_refused),
        ON_EACH(test_files_for_handlers_are_for_get_and_head),
        cmocka_unit_test(test_messages_or_fragments_are_received),
        cmocka_unit_test(test_options_of_websocket_have_ranges),
        cmocka_unit_test(test_options_of_websocket_that_are_right_are_accepted),
    };
    return RUN_TABLE(tests);
}
