/* Owns: tests of every function that takes a struct with its size: programs compiled with an older or a newer release
 * run with this library. check_abi.py counts the functions. */
/* Needs: middleware redis static forms websocket tls coroutines. */
#include <fcntl.h>
#include <uvhttp.h>

#include "support/exchange.h"
#include "support/http_server.h"
#include "trace/span.h"

/* What a call made of its struct. */
typedef enum outcome { READ, REFUSED_VALUE, REFUSED_NEWER } outcome_t;

static uvhttp_server_t *server;
static exchange_t ex;
static int refused_newer; /* lines of the log that say so */

static void take_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)size, (void)user;
    if (strstr(message, "of a newer release than this library")) refused_newer++;
}

static int set_up(void **state) {
    (void)state;
    refused_newer = 0;
    uvhttp_log_set_rate_limit(0);
    uvhttp_log_set_callback(take_log, NULL);
    server = uvhttp_server_new(NULL);
    exchange_init(&ex, SIZE_MAX);
    return server ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    exchange_deinit(&ex);
    uvhttp_server_free(server);
    return uvhttp_log_set_callback(NULL, NULL);
}

/* --- structs that the library reads --- */

static outcome_t of_status(int status) {
    if (status == UVHTTP_E_UNSUPPORTED) return REFUSED_NEWER;
    return status == UVHTTP_E_INVALID || status == UVHTTP_E_CONFIG ? REFUSED_VALUE : READ;
}

/* Of what has no code: the log says why it was refused. */
static outcome_t of_log(bool made) {
    outcome_t outcome = made ? READ : refused_newer ? REFUSED_NEWER : REFUSED_VALUE;
    refused_newer = 0;
    return outcome;
}

static outcome_t of_middleware(uvhttp_middleware_t middleware) {
    if (middleware.destroy) middleware.destroy(middleware.user);
    return of_log(middleware.run != NULL);
}

#define MIDDLEWARE(call, make)                                                                                         \
    static outcome_t call(const void *options, size_t size) {                                                          \
        return of_middleware(make(options, size));                                                                     \
    }
MIDDLEWARE(call_access_log, uvhttp_access_log_sized)
MIDDLEWARE(call_allowed_hosts, uvhttp_allowed_hosts_sized)
MIDDLEWARE(call_basic_auth, uvhttp_basic_auth_sized)
MIDDLEWARE(call_bearer_auth, uvhttp_bearer_auth_sized)
MIDDLEWARE(call_compression, uvhttp_compression_sized)
MIDDLEWARE(call_cors, uvhttp_cors_sized)
MIDDLEWARE(call_rate_limit, uvhttp_rate_limit_sized)
MIDDLEWARE(call_request_id, uvhttp_request_id_sized)
MIDDLEWARE(call_security_headers, uvhttp_security_headers_sized)

static outcome_t call_redis(const void *options, size_t size) {
    uvhttp_rate_limit_store_t store;
    int status = uvhttp_rate_limit_redis_sized(options, size, &store);
    if (store.destroy) store.destroy(store.user);
    return of_status(status);
}

static outcome_t call_cookie(const void *options, size_t size) {
    return of_status(uvhttp_response_cookie_sized(&ex.res, options, size));
}

static outcome_t call_form(const void *limits, size_t size) {
    uvhttp_form_t *form;
    exchange_request(&ex, UVHTTP_POST, STR("/"), NULL);
    exchange_field(&ex, "Content-Type", "multipart/form-data; boundary=b");
    ex.req.body = STR("--b--");
    return of_status(uvhttp_request_form_sized(&ex.req, limits, size, &form));
}

static outcome_t call_multipart(const void *limits, size_t size) {
    uvhttp_multipart_t parser;
    return of_status(uvhttp_multipart_init_sized(&parser, STR("multipart/form-data; boundary=b"), limits, size));
}

static void on_event(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp_multipart_event_t *event, void *user) {
    (void)req, (void)res, (void)event, (void)user;
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)res, (void)status, (void)user;
}

/* Limits are looked at before the boundary, which is missing, and nobody asks for the body. */
static void form_without_boundary(void) {
    exchange_request(&ex, UVHTTP_POST, STR("/"), NULL);
    exchange_field(&ex, "Content-Type", "multipart/form-data");
}

static outcome_t call_on_multipart(const void *limits, size_t size) {
    form_without_boundary();
    return of_status(uvhttp_request_on_multipart_sized(&ex.req, limits, size, on_event, on_end, NULL));
}

static outcome_t call_save_form(const void *limits, size_t size) {
    uvhttp_form_t *form;
    form_without_boundary();
    return of_status(uvhttp_request_save_form_sized(&ex.req, 0, limits, size, &form));
}

static outcome_t call_save_file(const void *file, size_t size) {
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE];
    int directory = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(directory >= 0);
    int status = uvhttp_form_file_save_sized(file, size, directory, NULL, saved);
    if (status == UVHTTP_OK) assert_int_equal(unlinkat(directory, saved, 0), 0);
    close(directory);
    return of_status(status);
}

static outcome_t call_proxies(const void *options, size_t size) {
    return of_status(uvhttp_server_trust_proxies_sized(server, options, size));
}

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "");
}

static outcome_t call_route(const void *options, size_t size) {
    static int routes;
    char pattern[32];
    snprintf(pattern, sizeof pattern, "/route%d", routes++);
    return of_status(uvhttp_route_options_sized(uvhttp_get(server, pattern, respond, NULL), options, size));
}

static outcome_t call_defaults(const void *options, size_t size) {
    return of_status(uvhttp_group_defaults_sized(uvhttp_group(server, "/defaults"), options, size));
}

/* The response has been deferred already: that is found out after the options have been looked at. */
static outcome_t call_events(const void *options, size_t size) {
    uvhttp_events_t *events;
    ex.res.flags |= UVHTTP__RESPONSE_DEFERRED;
    outcome_t outcome = of_status(uvhttp_events_open_sized(&ex.res, options, size, &events));
    ex.res.flags &= (uint16_t)~UVHTTP__RESPONSE_DEFERRED;
    return outcome;
}

/* No worker thread runs here: that is found out after the options have been looked at. */
static outcome_t call_save_body(const void *options, size_t size) {
    int directory = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(directory >= 0);
    int status = uvhttp_request_save_body_sized(&ex.req, directory, options, size, NULL, NULL);
    close(directory);
    return of_status(status);
}

static outcome_t call_write_body(const void *options, size_t size) {
    return of_status(uvhttp_request_write_body_sized(&ex.req, 0, options, size, NULL));
}

static outcome_t call_static(const void *options, size_t size) {
    static int routes;
    char pattern[32];
    snprintf(pattern, sizeof pattern, "/static%d", routes++);
    outcome_t outcome = of_status(uvhttp_static_sized(server, pattern, "/tmp", options, size));
    assert_int_equal(
        of_status(uvhttp_group_static_sized(uvhttp_group(server, "/group"), pattern, "/tmp", options, size)), outcome);
    bool opened = uvhttp_static_files_sized(server, "/tmp", options, size) != NULL;
    assert_int_equal(opened, outcome == of_status(UVHTTP_OK));
    return outcome;
}

static void run(void *user) {
    (void)user;
}

static outcome_t call_work(const void *options, size_t size) {
    return of_status(uvhttp_work_with_sized(server, options, size, run, NULL, NULL));
}

static outcome_t of_tls(uvhttp_tls_t *tls) {
    outcome_t outcome = of_log(tls != NULL);
    uvhttp_tls_release(tls);
    return outcome;
}

static outcome_t call_development(const void *options, size_t size) {
    return of_tls(uvhttp_tls_development_sized(options, size));
}

static outcome_t call_tls(const void *options, size_t size) {
    return of_tls(uvhttp_tls_new_sized(options, size));
}

static void on_response(uvhttp_client_response_t *response, int status, void *user) {
    (void)response, (void)status, (void)user;
}

/* No loop runs here: that is found out after the request has been looked at. */
static outcome_t call_client(const void *request, size_t size) {
    uvhttp_client_response_t *response;
    return of_status(uvhttp_client_send_sized(request, size, on_response, NULL, &response));
}

static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
}

static outcome_t open_websocket(const void *handlers, size_t size, size_t options_size) {
    static int routes;
    char pattern[32];
    snprintf(pattern, sizeof pattern, "/ws%d", routes++);
    outcome_t outcome = of_log(uvhttp_websocket_sized(server, pattern, handlers, size, options_size, NULL));
    uvhttp_group_t *group = uvhttp_group(server, "/group");
    assert_int_equal(of_log(uvhttp_group_websocket_sized(group, pattern, handlers, size, options_size, NULL)), outcome);
    return outcome;
}

static outcome_t call_websocket(const void *handlers, size_t size) {
    return open_websocket(handlers, size, sizeof(uvhttp_ws_options_t));
}

static outcome_t call_websocket_options(const void *options, size_t size) {
    uvhttp_ws_handlers_t handlers = {.on_message = on_message, .options = options};
    return open_websocket(&handlers, sizeof handlers, size);
}

static bool check_user(uvhttp_request_t *req, uvhttp_str_t user, uvhttp_str_t password, void *arg) {
    (void)req, (void)user, (void)password, (void)arg;
    return true;
}

static bool check_token(uvhttp_request_t *req, uvhttp_str_t token, uvhttp_str_t *user, void *arg) {
    (void)req, (void)token, (void)user, (void)arg;
    return true;
}

typedef struct reader {
    const char *name;
    outcome_t (*call)(const void *given, size_t size);
    const void *given; /* NULL: the defaults do */
    size_t kept;       /* bytes of it that an older program has */
    size_t size;
} reader_t;

/* An older program has fields up to `last`. */
#define GIVEN(name, call, type, last, ...)                                                                             \
    { name, call, &(const type){__VA_ARGS__}, offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type) }
#define DEFAULTS(name, call, type)                                                                                     \
    { name, call, NULL, 0, sizeof(type) }

static const char *const trusted[] = {"10.0.0.0/8"};
static const uvhttp_credential_t credential = {"user", "secret"};

static const reader_t readers[] = {
    DEFAULTS("access_log", call_access_log, uvhttp_access_log_options_t),
    GIVEN("allowed_hosts", call_allowed_hosts, uvhttp_allowed_hosts_options_t, hosts, .hosts = "example.org"),
    GIVEN("basic_auth", call_basic_auth, uvhttp_basic_auth_options_t, credential_count, .credentials = &credential,
          .credential_count = 1),
    GIVEN("bearer_auth", call_bearer_auth, uvhttp_bearer_auth_options_t, credential_count, .credentials = &credential,
          .credential_count = 1),
    GIVEN("basic_auth, check", call_basic_auth, uvhttp_basic_auth_options_t, check, .check = check_user),
    GIVEN("bearer_auth, check", call_bearer_auth, uvhttp_bearer_auth_options_t, check, .check = check_token),
    DEFAULTS("compression", call_compression, uvhttp_compression_options_t),
    DEFAULTS("cors", call_cors, uvhttp_cors_options_t),
    DEFAULTS("rate_limit", call_rate_limit, uvhttp_rate_limit_options_t),
    DEFAULTS("rate_limit_redis", call_redis, uvhttp_rate_limit_redis_options_t),
    DEFAULTS("request_id", call_request_id, uvhttp_request_id_options_t),
    DEFAULTS("security_headers", call_security_headers, uvhttp_security_headers_options_t),
    GIVEN("cookie", call_cookie, uvhttp_cookie_options_t, name, .name = "a"),
    DEFAULTS("request_form", call_form, uvhttp_form_limits_t),
    DEFAULTS("multipart_init", call_multipart, uvhttp_form_limits_t),
    DEFAULTS("request_on_multipart", call_on_multipart, uvhttp_form_limits_t),
    DEFAULTS("request_save_form", call_save_form, uvhttp_form_limits_t),
    GIVEN("form_file_save", call_save_file, uvhttp_form_file_t, name, .name = {"uvhttp_sized", 12}),
    GIVEN("trust_proxies", call_proxies, uvhttp_proxy_options_t, trusted_count, .trusted = trusted, .trusted_count = 1),
    DEFAULTS("route_options", call_route, uvhttp_route_options_t),
    DEFAULTS("group_defaults", call_defaults, uvhttp_route_options_t),
    DEFAULTS("events_open", call_events, uvhttp_events_options_t),
    DEFAULTS("request_save_body", call_save_body, uvhttp_save_options_t),
    DEFAULTS("request_write_body", call_write_body, uvhttp_save_options_t),
    DEFAULTS("static", call_static, uvhttp_static_options_t),
    DEFAULTS("work_with", call_work, uvhttp_work_options_t),
    DEFAULTS("tls_development", call_development, uvhttp_tls_options_t),
    GIVEN("client_send", call_client, uvhttp_client_request_t, url, .url = "http://127.0.0.1/"),
    GIVEN("websocket", call_websocket, uvhttp_ws_handlers_t, on_message, .on_message = on_message),
    DEFAULTS("websocket options", call_websocket_options, uvhttp_ws_options_t),
};
#define READERS (sizeof readers / sizeof *readers)

/* What the program has as its struct: `kept` bytes of the given one, then `fill` up to `size`, and not a byte more. */
static void *program_struct(const reader_t *reader, size_t kept, int fill, size_t size) {
    char *bytes = malloc(size ? size : 1);
    assert_non_null(bytes);
    memset(bytes, fill, size);
    if (reader->given)
        memcpy(bytes, reader->given, kept);
    else
        memset(bytes, 0, kept);
    return bytes;
}

static void expect(const reader_t *reader, const char *program, void *given, size_t size, outcome_t wanted) {
    outcome_t outcome = reader->call(given, size);
    if (outcome != wanted) fail_msg("%s, %s program: outcome %d instead of %d", reader->name, program, outcome, wanted);
    free(given);
}

static void test_an_older_program_gets_defaults_for_fields_that_it_does_not_have(void **state) {
    (void)state;
    for (size_t i = 0; i < READERS; i++) {
        const reader_t *reader = &readers[i];
        expect(reader, "older", program_struct(reader, reader->kept, 0, reader->kept), reader->kept, READ);
    }
}

/* What stands behind the struct of an older program is not read: with the present size it would have been. */
static void test_what_is_behind_the_struct_of_an_older_program_is_not_looked_at(void **state) {
    (void)state;
    for (size_t i = 0; i < READERS; i++) {
        const reader_t *reader = &readers[i];
        expect(reader, "older", program_struct(reader, reader->kept, 0xff, reader->size), reader->kept, READ);
    }
}

static void test_a_newer_program_is_served_while_it_sets_nothing_new(void **state) {
    (void)state;
    for (size_t i = 0; i < READERS; i++) {
        const reader_t *reader = &readers[i];
        size_t size = reader->size + sizeof(void *);
        expect(reader, "newer", program_struct(reader, reader->kept, 0, size), size, READ);
    }
}

static void test_a_newer_program_is_refused_when_it_sets_what_is_not_known(void **state) {
    (void)state;
    for (size_t i = 0; i < READERS; i++) {
        const reader_t *reader = &readers[i];
        size_t size = reader->size + sizeof(void *);
        char *given = program_struct(reader, reader->kept, 0, size);
        given[size - 1] = 1;
        expect(reader, "newer", given, size, REFUSED_NEWER);
    }
}

static void test_certificates_of_an_older_and_a_newer_program(void **state) {
    (void)state;
    static const uvhttp_tls_options_t none = {.certificates = NULL};
    const reader_t reader = {"tls_new", call_tls, &none, 0, sizeof none};
    size_t size = sizeof none + sizeof(void *);
    char *given = program_struct(&reader, sizeof none, 0, size);
    given[size - 1] = 1;
    expect(&reader, "newer", given, size, REFUSED_NEWER);
    expect(&reader, "older", program_struct(&reader, 0, 0, 0), 0, REFUSED_VALUE); /* there is no certificate */
}

static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)tcp, (void)data, (void)size, (void)user;
}

static int take(void *user, const uvhttp_rate_limit_take_t *asked, uvhttp_rate_limit_decision_t *decision) {
    (void)user, (void)asked, (void)decision;
    return UVHTTP_E_IO;
}

/* Structs of a fixed size have places for later releases. */
static void test_what_a_newer_program_reserves_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        uvhttp_middleware_t middleware = uvhttp_security_headers(NULL);
        middleware.reserved[i] = &ex;
        assert_int_equal(uvhttp_use(server, middleware), UVHTTP_E_UNSUPPORTED);
        uvhttp_tcp_handlers_t handlers = {.on_data = on_data};
        handlers.reserved[i] = &ex;
        assert_null(uvhttp_tcp_server_new(NULL, &handlers, NULL));
        assert_int_equal(uvhttp_response_upgrade(&ex.res, "a", &handlers, NULL), UVHTTP_E_UNSUPPORTED);
        uvhttp_rate_limit_store_t store = {.take = take};
        store.reserved[i] = &ex;
        assert_null(uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.store = &store}).run);
        uvhttp_tls_certificate_t certificate = {.certificate_file = "/dev/null", .key_file = "/dev/null"};
        certificate.reserved[i] = &ex;
        assert_null(uvhttp_tls_new(&(uvhttp_tls_options_t){.certificates = &certificate, .certificate_count = 1}));
        assert_int_equal(refused_newer, 3);
        refused_newer = 0;
    }
}

static void request_in_a_coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    union {
        uvhttp_client_request_t request;
        char bytes[sizeof(uvhttp_client_request_t) + sizeof(void *)];
    } given;
    uvhttp_client_response_t *response;
    memset(&given, 0xff, sizeof given);
    given.request.url = "nonsense";
    int older = uvhttp_coro_request_sized(&given.request, sizeof given.request.url, &response);
    int newer = uvhttp_coro_request_sized(&given.request, sizeof given, &response);
    memset(given.bytes + sizeof given.request.url, 0, sizeof given - sizeof given.request.url);
    int nothing_new = uvhttp_coro_request_sized(&given.request, sizeof given, &response);
    char text[64];
    snprintf(text, sizeof text, "%d %d %d", older, newer, nothing_new);
    uvhttp_response_text(res, 200, text);
}

static void test_requests_of_coroutines_come_with_their_size(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_route(serving->server, UVHTTP_GET, "/", request_in_a_coroutine, NULL, UVHTTP_EXEC_COROUTINE);
    serving_start(serving);
    int fd = client_ask(serving, GET("/"));
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%d %d %d", UVHTTP_E_ADDRESS, UVHTTP_E_UNSUPPORTED, UVHTTP_E_ADDRESS);
    assert_string_equal(client_read(fd)->body, wanted);
    serving_leave(serving, fd);
}

/* --- structs that the library fills in --- */

static void fill_metrics(void *given, size_t size) {
    uvhttp_server_metrics_sized(server, given, size);
}

static void fill_tcp_metrics(void *given, size_t size) {
    uvhttp_tcp_server_t *tcp_server = uvhttp_tcp_server_new(NULL, &(uvhttp_tcp_handlers_t){.on_data = on_data}, NULL);
    assert_non_null(tcp_server);
    uvhttp_tcp_server_metrics_sized(tcp_server, given, size);
    uvhttp_tcp_server_free(tcp_server);
}

static void fill_access_log_stats(void *given, size_t size) {
    uvhttp_middleware_t log = uvhttp_access_log(NULL);
    assert_int_equal(uvhttp_access_log_stats_sized(log, given, size), UVHTTP_OK);
    log.destroy(log.user);
}

static void fill_log_stats(void *given, size_t size) {
    assert_int_equal(uvhttp_log_stats_sized(given, size), UVHTTP_OK);
}

static void fill_rate_limit_stats(void *given, size_t size) {
    uvhttp_middleware_t limit = uvhttp_rate_limit(NULL);
    assert_int_equal(uvhttp_rate_limit_stats_sized(limit, given, size), UVHTTP_OK);
    limit.destroy(limit.user);
}

#define FILE_PART "--b\r\nContent-Disposition: form-data; name=\"field\"; filename=\"file\"\r\n\r\ncontent\r\n--b--"

static const uvhttp_form_t *form_with_a_file(void) {
    static uvhttp_form_t *form; /* the views in it are of one request */
    static bool parsed;
    if (parsed) return form;
    exchange_request(&ex, UVHTTP_POST, STR("/"), NULL);
    exchange_field(&ex, "Content-Type", "multipart/form-data; boundary=b");
    ex.req.body = STR(FILE_PART);
    assert_int_equal(uvhttp_request_form(&ex.req, NULL, &form), UVHTTP_OK);
    parsed = true;
    return form;
}

static void fill_form_file(void *given, size_t size) {
    assert_true(uvhttp_form_file_sized(form_with_a_file(), "field", given, size));
}

static void fill_form_file_at(void *given, size_t size) {
    assert_true(uvhttp_form_file_at_sized(form_with_a_file(), 0, given, size));
}

static void fill_trace(void *given, size_t size) {
    const uvhttp__trace_span_t span = {
        .record = {.context = {.trace_id = {1}, .span_id = {2}, .state = STR("a=b")}, .traced = true}};
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp__request_set_trace_record(&ex.req, &span.record, sizeof span), UVHTTP_OK);
    assert_int_equal(uvhttp_request_trace_sized(&ex.req, given, size), UVHTTP_OK);
}

static void fill_multipart_event(void *given, size_t size) {
    static uvhttp_multipart_t parser;
    size_t consumed;
    assert_int_equal(uvhttp_multipart_init(&parser, STR("multipart/form-data; boundary=b"), NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_multipart_read_sized(&parser, FILE_PART, sizeof FILE_PART - 1, &consumed, given, size),
                     UVHTTP_OK);
}

typedef struct writer {
    const char *name;
    void (*fill)(void *given, size_t size);
    size_t size;
} writer_t;

static const writer_t writers[] = {
    {"metrics", fill_metrics, sizeof(uvhttp_metrics_t)},
    {"tcp metrics", fill_tcp_metrics, sizeof(uvhttp_tcp_metrics_t)},
    {"access_log_stats", fill_access_log_stats, sizeof(uvhttp_access_log_stats_t)},
    {"log_stats", fill_log_stats, sizeof(uvhttp_log_stats_t)},
    {"rate_limit_stats", fill_rate_limit_stats, sizeof(uvhttp_rate_limit_stats_t)},
    {"form_file", fill_form_file, sizeof(uvhttp_form_file_t)},
    {"form_file_at", fill_form_file_at, sizeof(uvhttp_form_file_t)},
    {"trace", fill_trace, sizeof(uvhttp_trace_t)},
    {"multipart_event", fill_multipart_event, sizeof(uvhttp_multipart_event_t)},
};

static void expect_filled(const writer_t *writer, size_t size) {
    char present[512], given[512], zeros[512] = {0};
    assert_true(size + 8 <= sizeof given);
    memset(present, 0xa5, sizeof present);
    memset(given, 0xa5, sizeof given);
    writer->fill(present, writer->size);
    writer->fill(given, size);
    size_t known = size < writer->size ? size : writer->size;
    if (memcmp(given, present, known) != 0) fail_msg("%s, %zu bytes: other values", writer->name, size);
    if (memcmp(given + known, zeros, size - known) != 0) fail_msg("%s, %zu bytes: not all is set", writer->name, size);
    for (size_t at = size; at < sizeof given; at++)
        if ((unsigned char)given[at] != 0xa5) fail_msg("%s, %zu bytes: byte %zu is written", writer->name, size, at);
}

static void test_programs_get_the_fields_that_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        expect_filled(&writers[i], 0);
        expect_filled(&writers[i], sizeof(uint64_t));
        expect_filled(&writers[i], writers[i].size);
        expect_filled(&writers[i], writers[i].size + sizeof(void *));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_an_older_program_gets_defaults_for_fields_that_it_does_not_have),
        TEST(test_what_is_behind_the_struct_of_an_older_program_is_not_looked_at),
        TEST(test_a_newer_program_is_served_while_it_sets_nothing_new),
        TEST(test_a_newer_program_is_refused_when_it_sets_what_is_not_known),
        TEST(test_certificates_of_an_older_and_a_newer_program),
        TEST(test_what_a_newer_program_reserves_is_refused),
        TEST(test_programs_get_the_fields_that_fit),
        ON_ENGINE(test_requests_of_coroutines_come_with_their_size, on_epoll),
    };
    return RUN_TABLE(tests);
}
