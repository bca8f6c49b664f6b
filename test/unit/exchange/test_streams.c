/* Owns: tests of exchanges of a protocol with many streams and windows (fake_protocol.h): every way to respond, alone
 * and in every state that only such a protocol can bring about. On each engine. */
/* Needs: coroutines. */
#include "support/fake_script.h"

/* --- alone --- */

static void test_every_kind_of_handler_responds(void **state) {
    fake_server_t server;
    fake_server_open(&server, state);
    unsigned id = 0;
    FAKE_EACH_MODE(mode) {
        for (int at_once = 0; at_once <= 1; at_once++)
            for (int known = 0; known <= 1; known++) {
                fake_script_t *script = fake_script_new(&server, mode, id++, 20000, 30000);
                script->request.at_once = at_once;
                script->request.size_is_known = known;
                fake_script_start(script);
                fake_script_expect_response(script);
                assert_int_equal(fake_script_look(script)->body_sent, 20000);
                fake_script_free(script);
            }
    }
    fake_server_stop(&server);
}

static void test_a_body_comes_as_its_window_opens_and_leaves_as_its_window_opens(void **state) {
    fake_server_t server;
    fake_server_open(&server, state);
    unsigned id = 0;
    FAKE_EACH_MODE(mode) {
        fake_script_t *script = fake_script_new(&server, mode, id++, 10000, 30000);
        script->receive_window = script->send_window = 0;
        fake_script_start(script);
        for (int i = 0; i < 10; i++) {
            fake_script_receive(script, 999);
            assert_false(fake_script_is_over(script));
            assert_in_range(fake_script_look(script)->body_sent, 0, 999 * (uint64_t)(i + 1));
        }
        fake_script_receive(script, 10);
        for (int i = 0; i < 10; i++) {
            fake_script_send(script, 2999);
            assert_false(fake_script_is_over(script));
            assert_int_equal(fake_dones[script->id], 0); /* a stream with a zero window is not complete */
        }
        fake_script_send(script, 10);
        fake_script_expect_response(script);
        fake_script_free(script);
    }
    fake_server_stop(&server);
}

/* --- the end of some, while others continue --- */

static void test_an_aborted_stream_leaves_others_alone(void **state) {
    fake_server_t server;
    fake_server_open(&server, state);
    fake_script_t *scripts[2 * FAKE_MODE_COUNT];
    int count = 0;
    FAKE_EACH_MODE(mode) {
        for (int i = 0; i < 2; i++) {
            fake_script_t *script = fake_script_new(&server, mode, (unsigned)count, 10000, 30000);
            script->receive_window = 5000;
            script->send_window = 0;
            fake_script_start(script);
            scripts[count++] = script;
        }
    }
    for (int i = 0; i < count; i += 2) fake_script_abort(scripts[i]);
    for (int i = 1; i < count; i += 2) {
        fake_script_receive(scripts[i], 5000);
        fake_script_send(scripts[i], 10000);
    }
    for (int i = 1; i < count; i += 4) fake_script_abort(scripts[i]); /* with its response under way */
    for (int i = 3; i < count; i += 4) fake_script_send(scripts[i], 20000);
    for (int i = 0; i < count; i++) {
        if (i % 4 == 3)
            fake_script_expect_response(scripts[i]);
        else
            fake_script_expect_abort(scripts[i]);
        fake_script_free(scripts[i]);
    }
    fake_server_stop(&server);
}

/* --- the server's own responses --- */

static void test_a_body_above_the_limit_is_refused_in_every_state(void **state) {
    fake_server_t server;
    fake_server_open(&server, state);
    const fake_mode_t modes[] = {FAKE_BUFFERED, FAKE_WORKER, FAKE_DEFERRED, FAKE_FILE};
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
        for (int known = 0; known <= 1; known++) {
            fake_script_t *script = fake_script_new(&server, modes[i], i, 100001, 10);
            script->request.size_is_known = known;
            script->receive_window = known ? 0 : FAKE_NO_LIMIT;
            script->send_window = 5; /* the refusal is not there yet, either */
            fake_script_start(script);
            WAIT_UNTIL(fake_script_look(script)->responded);
            assert_false(fake_script_is_over(script));
            fake_script_send(script, 1000);
            fake_script_expect_status(script, 413);
            assert_int_equal(fake_dones[i], 0); /* its handler has not run */
            fake_script_free(script);
        }
    fake_server_stop(&server);
}

/* --- trailers, and responses without a body --- */

static void with_trailers(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t check = uvhttp_request_trailer(req, "x-check");
    char value[32];
    snprintf(value, sizeof value, "%.*s", (int)check.size, check.data ? check.data : "");
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) abort();
    if (uvhttp_response_write(res, "body", 4) != UVHTTP_OK) abort();
    int status = uvhttp_response_trailer(res, "X-Sum", value);
    if (status != (uvhttp_request_header(req, "TE").size > 0 ? UVHTTP_OK : UVHTTP_E_UNSUPPORTED)) abort();
    (void)uvhttp_response_end(res);
}

static void without_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    const int status = *(const int *)user;
    if (uvhttp_response_begin(res, status, NULL, 5) != UVHTTP_OK) abort();
    if (uvhttp_response_write(res, "never", 5) != UVHTTP_OK) abort();
    (void)uvhttp_response_end(res);
}

static void facts(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t peer = uvhttp_request_peer(req), client = uvhttp_request_client(req);
    char text[128];
    snprintf(text, sizeof text, "%.*s %.*s %d %s", (int)peer.size, peer.data, (int)client.size, client.data,
             uvhttp_request_is_tls(req), uvhttp_request_client_subject(req) ? "subject" : "none");
    uvhttp_response_text(res, 200, text);
}

static void test_trailers_go_both_ways_and_some_responses_have_no_body(void **state) {
    static const int statuses[] = {200, 204, 304};
    fake_server_t server;
    fake_server_make(&server, state);
    uvhttp_server_t *http = server.serving->server;
    assert_non_null(uvhttp_post(http, "/trailers", with_trailers, NULL));
    assert_non_null(uvhttp_any(http, "/200", without_body, (void *)&statuses[0]));
    assert_non_null(uvhttp_get(http, "/204", without_body, (void *)&statuses[1]));
    assert_non_null(uvhttp_get(http, "/304", without_body, (void *)&statuses[2]));
    assert_non_null(uvhttp_get(http, "/facts", facts, NULL));
    fake_server_start(&server);
    const struct {
        fake_request_t request;
        int status;
        const char *body, *trailers;
    } cases[] = {
        {{.method = UVHTTP_POST,
          .path = "/trailers",
          .fields = "TE: trailers\n",
          .body = "x",
          .body_size = 1,
          .has_body = true,
          .trailers = "X-Check: yes\r\n"},
         200,
         "body",
         "X-Sum: yes\r\n"},
        {{.method = UVHTTP_POST, .path = "/trailers", .body = "x", .body_size = 1, .has_body = true},
         200,
         "body",
         NULL},
        {{.method = UVHTTP_HEAD, .path = "/200"}, 200, "", NULL},
        {{.method = UVHTTP_GET, .path = "/200"}, 200, "never", NULL},
        {{.method = UVHTTP_GET, .path = "/204"}, 204, "", NULL},
        {{.method = UVHTTP_GET, .path = "/304"}, 304, "", NULL},
        {{.method = UVHTTP_GET, .path = "/facts", .query = "a=b"}, 200, "unknown unknown 0 none", NULL},
        {{.method = UVHTTP_GET, .path = "/none"}, 404, "Not Found\n", NULL},
        {{.method = UVHTTP_PUT, .path = "/204"}, 405, "Method Not Allowed\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_script_t *script = fake_script_for(&server, UVHTTP_GET, "", NULL);
        script->request = cases[i].request;
        fake_script_start(script);
        fake_script_expect_status(script, cases[i].status);
        const fake_stream_t *stream = &script->seen;
        assert_false(stream->missized);
        assert_int_equal(stream->body_consumed, strlen(cases[i].body));
        if (stream->body_consumed > 0) assert_memory_equal(stream->body, cases[i].body, stream->body_consumed);
        assert_string_equal(stream->trailers ? stream->trailers : "", cases[i].trailers ? cases[i].trailers : "");
        fake_script_free(script);
    }
    fake_server_stop(&server);
}

/* --- how much may wait --- */

static atomic_int writes[4];

static void write_beyond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static const char bytes[8192];
    static const size_t sizes[] = {8191, 2, 1, 1}; /* write_queue_max is 8192 */
    (void)req, (void)user;
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) abort();
    for (int i = 0; i < 4; i++) atomic_store(&writes[i], uvhttp_response_write(res, bytes, sizes[i]));
    uvhttp_response_end(res);
}

static void test_a_response_fills_its_queue_to_the_last_byte_and_no_further(void **state) {
    fake_server_t server;
    fake_server_make(&server, state);
    assert_non_null(uvhttp_get(server.serving->server, "/beyond", write_beyond, NULL));
    fake_server_start(&server);
    fake_script_t *script = fake_script_for(&server, UVHTTP_GET, "/beyond", NULL);
    script->send_window = 0;
    fake_script_start(script);
    fake_script_send(script, 10000);
    fake_script_expect_status(script, 200);
    static const int expected[] = {UVHTTP_OK, UVHTTP_E_LIMIT, UVHTTP_OK, UVHTTP_E_LIMIT};
    for (int i = 0; i < 4; i++) assert_int_equal(writes[i], expected[i]);
    assert_int_equal(fake_script_look(script)->body_consumed, 8192);
    fake_script_free(script);
    fake_server_stop(&server);
}

int main(void) {
    return RUN_ON_EACH(
        test_every_kind_of_handler_responds, test_a_body_comes_as_its_window_opens_and_leaves_as_its_window_opens,
        test_an_aborted_stream_leaves_others_alone, test_a_body_above_the_limit_is_refused_in_every_state,
        test_trailers_go_both_ways_and_some_responses_have_no_body,
        test_a_response_fills_its_queue_to_the_last_byte_and_no_further);
}
