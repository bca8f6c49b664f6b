/* Owns: tests of streamed responses, of hooks and of deferring. */
#include <cmocka.h>

#define EXCHANGE_MEMORY_MAX 65536
#include "one_exchange.h"
#include "support/run.h"

static void note_finish(uvhttp_response_t *res, void *user) {
    exchange_log(exchange_of(res), "finish:%s ", (const char *)user);
}

static void note_done(uvhttp_response_t *res, int status, void *user) {
    exchange_log(exchange_of(res), "done:%s:%d ", (const char *)user, status);
}

static void test_pieces_go_through_the_sink(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, "a/b", UVHTTP_SIZE_UNKNOWN), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "Content-Type"), "a/b");
    assert_int_equal(uvhttp_response_write(&ex.res, "one", 3), 0);
    assert_int_equal(uvhttp_response_write(&ex.res, "", 0), 0); /* not a last chunk */
    assert_int_equal(uvhttp_response_write(&ex.res, NULL, 1), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_write(&ex.res, "two", 3), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_string_equal(ex.log, "begin:200 write:one write:two end ");
}

static void test_pieces_out_of_order_are_refused(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_write(&ex.res, "x", 1), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_end(&ex.res), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), 0);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "x"), UVHTTP_E_STATE);
    assert_null(uvhttp_response_defer(&ex.res));
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_write(&ex.res, "x", 1), UVHTTP_E_STATE);
    assert_string_equal(ex.log, "begin:200 end ");
}

static void test_pieces_add_up_to_the_announced_size(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, 5), 0);
    assert_int_equal(uvhttp_response_write(&ex.res, "abc", 3), 0);
    assert_int_equal(uvhttp_response_write(&ex.res, "de", 2), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_string_equal(ex.log, "begin:200 write:abc write:de end ");
}

static void ask_for_trailers(const char *te) {
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    if (te) exchange_field(&ex, "TE", te);
    assert_int_equal(uvhttp_response_header(&ex.res, "Trailer", "X-Sum"), 0);
}

static void test_trailers_go_to_those_who_ask_for_them(void **state) {
    (void)state;
    static const char *const yes[] = {"trailers", "gzip;q=0.5, Trailers", ",,trailers ,deflate"};
    for (size_t i = 0; i < 3; ++i) {
        ask_for_trailers(yes[i]);
        assert_int_equal(uvhttp_response_trailer(&ex.res, "X-Sum", "1"), UVHTTP_E_STATE);
        assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), 0);
        assert_str(uvhttp_response_header_get(&ex.res, "Trailer"), "X-Sum");
        assert_int_equal(uvhttp_response_trailer_str(&ex.res, "X-Sum", (uvhttp_str_t){"12", 1}), 0);
        assert_int_equal(uvhttp_response_trailer_str(&ex.res, "X-Sum", (uvhttp_str_t){"1\n2", 3}), UVHTTP_E_INVALID);
        assert_int_equal(uvhttp_response_trailer_str(&ex.res, "X-Sum", (uvhttp_str_t){NULL, 0}), UVHTTP_E_INVALID);
        assert_int_equal(uvhttp_response_trailer(&ex.res, "X-Empty", ""), 0);
        assert_int_equal(ex.res.trailers->size, strlen("X-Sum: 1\r\nX-Empty: \r\n"));
        assert_memory_equal(ex.res.trailers->text, "X-Sum: 1\r\nX-Empty: \r\n", ex.res.trailers->size);
        assert_int_equal(uvhttp_response_end(&ex.res), 0);
        assert_int_equal(uvhttp_response_trailer(&ex.res, "X-Sum", "1"), UVHTTP_E_STATE);
    }
}

static void test_trailers_that_nobody_would_read_are_not_announced(void **state) {
    (void)state;
    for (int way = 0; way < 6; ++way) {
        ask_for_trailers(way == 0 ? NULL : way == 1 ? "trailer, xtrailers" : "trailers");
        if (way == 2) ex.req.head.version = UVHTTP_HTTP_1_0;
        if (way == 3) ex.req.head.method = UVHTTP_HEAD;
        assert_int_equal(uvhttp_response_begin(&ex.res, way == 4 ? 204 : 200, NULL, way == 5 ? 3 : UVHTTP_SIZE_UNKNOWN),
                         0);
        assert_null(uvhttp_response_header_get(&ex.res, "Trailer").data);
        assert_int_equal(uvhttp_response_trailer(&ex.res, "X-Sum", "1"), UVHTTP_E_UNSUPPORTED);
        assert_null(ex.res.trailers);
    }
}

static void test_wrong_trailers_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"Content-Length", "transfer-encoding", "Set-Cookie", "Cache-Control", "X Y", "",
                                        "Max-Forwards"};
    char large[UVHTTP__RESPONSE_TRAILERS_SIZE_MAX];
    ask_for_trailers("trailers");
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        assert_int_equal(uvhttp_response_trailer(&ex.res, names[i], "1"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_trailer(&ex.res, "X", "a\r\nb"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_trailer(&ex.res, NULL, ""), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_trailer(&ex.res, "X", NULL), UVHTTP_E_INVALID);
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_int_equal(uvhttp_response_trailer(&ex.res, "X", large), UVHTTP_E_LIMIT);
    large[sizeof large - 5] = '\0'; /* "X: " and CRLF: full to the last byte */
    assert_int_equal(uvhttp_response_trailer(&ex.res, "X", large), 0);
    assert_int_equal(uvhttp_response_trailer(&ex.res, "Y", ""), UVHTTP_E_LIMIT);
    assert_int_equal(ex.res.trailers->size, sizeof large);
}

static void test_writing_too_much_spoils_the_connection(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, 3), 0);
    assert_int_equal(uvhttp_response_write(&ex.res, "abcd", 4), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_write(&ex.res, "abc", 3), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_string_equal(ex.log, "begin:200 write:abc end:missized ");
}

static void test_ending_early_spoils_the_connection(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, 3), 0);
    assert_int_equal(uvhttp_response_write(&ex.res, "ab", 2), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_string_equal(ex.log, "begin:200 write:ab end:missized ");
}

static void test_head_announces_a_size_that_is_not_sent(void **state) {
    (void)state;
    exchange_request(&ex, UVHTTP_HEAD, STR("/"), NULL);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, 3), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_string_equal(ex.log, "begin:200 end ");
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp_response_begin(&ex.res, 304, NULL, 3), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_string_equal(ex.log, "begin:304 end ");
}

static void test_refused_piece_can_be_tried_again(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, 3), 0);
    ex.sink_result = UVHTTP_E_LIMIT;
    assert_int_equal(uvhttp_response_write(&ex.res, "abc", 3), UVHTTP_E_LIMIT);
    ex.sink_result = 0;
    assert_int_equal(uvhttp_response_write(&ex.res, "abc", 3), 0);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_string_equal(ex.log, "begin:200 write:abc write:abc end ");
}

static void test_begin_drops_a_complete_response(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_send_ref(&ex.res, 200, "a/b", "x", 1, release, &released), 0);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), 0);
    assert_int_equal(released, 1);
    assert_false(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_COMPLETE));
    assert_null(uvhttp_response_header_get(&ex.res, "Content-Type").data);
}

static void test_writing_to_a_client_that_has_gone_is_reported(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), 0);
    uvhttp__response_abort(&ex.res);
    assert_int_equal(uvhttp_response_write(&ex.res, "x", 1), UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_response_end(&ex.res), UVHTTP_E_ABORTED);
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    uvhttp__response_abort(&ex.res);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), UVHTTP_E_ABORTED);
    assert_string_equal(ex.log, "");
}

static void test_failed_begin_is_passed_on(void **state) {
    (void)state;
    ex.sink_result = UVHTTP_E_NOMEM;
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), UVHTTP_E_NOMEM);
}

/* --- hooks --- */

static void test_hooks_run_in_reverse_order_once(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_on_finish(&ex.res, note_finish, "a"), 0);
    assert_int_equal(uvhttp_response_on_done(&ex.res, note_done, "a"), 0);
    assert_int_equal(uvhttp_response_on_finish(&ex.res, note_finish, "b"), 0);
    assert_int_equal(uvhttp_response_on_done(&ex.res, note_done, "b"), 0);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "x"), 0);
    for (int i = 0; i < 2; ++i) uvhttp__response_finish(&ex.res);
    for (int i = 0; i < 2; ++i) uvhttp__response_done(&ex.res, UVHTTP_E_ABORTED);
    assert_string_equal(ex.log, "finish:b finish:a done:b:-4 done:a:-4 ");
}

static void replace(uvhttp_response_t *res, void *user) {
    (void)user;
    assert_int_equal(uvhttp_response_header(res, "X", "1"), 0);
    assert_int_equal(uvhttp_response_text(res, 418, "replaced"), 0);
    assert_int_equal(uvhttp_response_on_finish(res, note_finish, "late"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_on_done(res, note_done, "added"), 0);
    assert_int_equal(uvhttp_response_begin(res, 200, NULL, 1), UVHTTP_E_STATE);
    assert_null(uvhttp_response_defer(res));
}

static void test_finish_hook_may_replace_the_response(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_on_finish(&ex.res, replace, NULL), 0);
    assert_int_equal(uvhttp_response_send_ref(&ex.res, 200, "a/b", "x", 1, release, &released), 0);
    uvhttp__response_finish(&ex.res);
    assert_int_equal(released, 1);
    assert_int_equal(uvhttp_response_status(&ex.res), 418);
    assert_int_equal(ex.res.body.size, 8);
    uvhttp__response_done(&ex.res, 0);
    assert_string_equal(ex.log, "done:added:0 ");
}

static void change_head(uvhttp_response_t *res, void *user) {
    (void)user;
    assert_int_equal(uvhttp_response_header(res, "X", "1"), 0);
    assert_int_equal(uvhttp_response_set_status(res, 201), 0);
    assert_int_equal(uvhttp_response_text(res, 500, "no"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_write(res, "too early", 9), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_end(res), UVHTTP_E_STATE);
}

static void test_finish_hook_may_change_the_head_of_pieces(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_on_finish(&ex.res, change_head, NULL), 0);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), 0);
    assert_int_equal(uvhttp_response_header(&ex.res, "Y", "2"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    assert_string_equal(ex.log, "begin:201 end ");
    assert_str(uvhttp_response_header_get(&ex.res, "X"), "1");
}

static void read_request(uvhttp_response_t *res, int status, void *user) {
    (void)user;
    assert_int_equal(uvhttp_response_on_done(res, note_done, "late"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_text(res, 200, "late"), UVHTTP_E_STATE);
    uvhttp_str_t path = uvhttp_request_target(uvhttp_response_request(res));
    exchange_log(exchange_of(res), "%.*s:%d ", (int)path.size, path.data, status);
}

static void test_done_hook_still_sees_the_request(void **state) {
    (void)state;
    exchange_request(&ex, UVHTTP_GET, STR("/seen"), NULL);
    assert_int_equal(uvhttp_response_on_done(&ex.res, read_request, NULL), 0);
    uvhttp__response_done(&ex.res, 0);
    assert_string_equal(ex.log, "/seen:0 ");
}

static void test_hooks_need_memory_and_a_function(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_on_finish(&ex.res, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_on_done(&ex.res, NULL, NULL), UVHTTP_E_INVALID);
    ex.arena.size_max = ex.arena.used;
    assert_int_equal(uvhttp_response_on_finish(&ex.res, note_finish, "a"), UVHTTP_E_NOMEM);
    assert_int_equal(uvhttp_response_on_done(&ex.res, note_done, "a"), UVHTTP_E_NOMEM);
    ex.arena.size_max = 65536;
}

/* --- deferring --- */

static void test_deferred_response_responds_through_its_handle_only(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_send_ref(&ex.res, 200, NULL, "x", 1, release, &released), 0);
    assert_non_null(uvhttp_response_defer(&ex.res));
    assert_int_equal(released, 1); /* the response before does not count any more */
    assert_false(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_COMPLETE));
    assert_null(uvhttp_response_defer(&ex.res));
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "x"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_header(&ex.res, "A", "1"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, 1), UVHTTP_E_STATE);
    assert_int_equal(uvhttp__response_put_header(&ex.res, STR("A"), STR("1"), true), 0);
    uvhttp__response_undefer(&ex.res);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "later"), 0);
    assert_string_equal(ex.log, "defer ");
}

static void test_pieces_wait_while_deferred_again(void **state) {
    (void)state;
    assert_non_null(uvhttp_response_defer(&ex.res));
    uvhttp__response_undefer(&ex.res);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), 0);
    uvhttp__response_redefer(&ex.res);
    assert_int_equal(uvhttp_response_write(&ex.res, "x", 1), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_end(&ex.res), UVHTTP_E_STATE);
    uvhttp__response_undefer(&ex.res);
    assert_int_equal(uvhttp_response_write(&ex.res, "x", 1), 0);
}

static void test_deferring_without_memory_responds_503(void **state) {
    (void)state;
    ex.defer_fails = true;
    assert_null(uvhttp_response_defer(&ex.res));
    assert_int_equal(uvhttp_response_status(&ex.res), 503);
    assert_true(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_COMPLETE));
    assert_false(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_DEFERRED));
}

static void test_failure_ends_deferring_and_pieces(void **state) {
    (void)state;
    assert_non_null(uvhttp_response_defer(&ex.res));
    uvhttp__response_fail(&ex.res, 500, "gone\n");
    assert_false(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_DEFERRED));
    assert_true(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_COMPLETE));
    assert_int_equal(uvhttp_response_status(&ex.res), 500);
}

int main(void) {
    return RUN_TESTS_WITH(set_up, tear_down, test_pieces_go_through_the_sink, test_pieces_out_of_order_are_refused,
                          test_pieces_add_up_to_the_announced_size, test_trailers_go_to_those_who_ask_for_them,
                          test_trailers_that_nobody_would_read_are_not_announced, test_wrong_trailers_are_refused,
                          test_writing_too_much_spoils_the_connection, test_ending_early_spoils_the_connection,
                          test_head_announces_a_size_that_is_not_sent, test_refused_piece_can_be_tried_again,
                          test_begin_drops_a_complete_response, test_writing_to_a_client_that_has_gone_is_reported,
                          test_failed_begin_is_passed_on, test_hooks_run_in_reverse_order_once,
                          test_finish_hook_may_replace_the_response, test_finish_hook_may_change_the_head_of_pieces,
                          test_done_hook_still_sees_the_request, test_hooks_need_memory_and_a_function,
                          test_deferred_response_responds_through_its_handle_only,
                          test_pieces_wait_while_deferred_again, test_deferring_without_memory_responds_503,
                          test_failure_ends_deferring_and_pieces);
}
