/* Owns: tests of complete responses: what is recorded, replaced and released. */
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define EXCHANGE_MEMORY_MAX 65536
#include "one_exchange.h"
#include "support/run.h"

static void ignore(uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
}

static uvhttp_str_t body(void) {
    return (uvhttp_str_t){ex.res.body.data, (size_t)ex.res.body.size};
}

static uvhttp_str_t type(void) {
    return (uvhttp_str_t){ex.res.content_type_size ? ex.res.content_type : NULL, ex.res.content_type_size};
}

static void test_texts_with_a_length_are_copied_as_they_are(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_text_str(&ex.res, 200, (uvhttp_str_t){"a\0bc", 3}), 0);
    assert_int_equal(body().size, 3);
    assert_memory_equal(body().data, "a\0b", 3);
    assert_str(type(), "text/plain; charset=utf-8");
    assert_int_equal(uvhttp_response_json_str(&ex.res, 201, (uvhttp_str_t){"{}...", 2}), 0);
    assert_str(body(), "{}");
    assert_str(type(), "application/json");
    assert_int_equal(uvhttp_response_text_str(&ex.res, 200, (uvhttp_str_t){NULL, 1}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_status(&ex.res), 201);
    assert_int_equal(uvhttp_response_text_str(&ex.res, 200, (uvhttp_str_t){NULL, 0}), 0);
    assert_int_equal(body().size, 0);
    assert_int_equal(uvhttp_response_redirect_str(&ex.res, 303, (uvhttp_str_t){"/a/b", 2}), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "Location"), "/a");
    assert_int_equal(uvhttp_response_redirect_str(&ex.res, 303, (uvhttp_str_t){NULL, 0}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_redirect_str(&ex.res, 303, (uvhttp_str_t){"/\0", 2}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 303, NULL), UVHTTP_E_INVALID);
}

static int send_ref(int status, const char *content_type) {
    return uvhttp_response_send_ref(&ex.res, status, content_type, "ref", 3, release, &released);
}

static bool is_open(int fd) {
    return fcntl(fd, F_GETFD) != -1;
}

static int temporary(const char *text) {
    char path[] = "/tmp/uvhttp-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static void test_text_is_copied(void **state) {
    (void)state;
    char text[] = "Hello";
    assert_int_equal(uvhttp_response_status(&ex.res), 0);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, text), 0);
    memset(text, 'x', sizeof text - 1);
    assert_str(body(), "Hello");
    assert_str(type(), "text/plain; charset=utf-8");
    assert_int_equal(uvhttp_response_status(&ex.res), 200);
    assert_true(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_COMPLETE));
    assert_int_equal(uvhttp_response_text(&ex.res, 200, ""), 0);
    assert_int_equal(ex.res.body.size, 0);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, NULL), UVHTTP_E_INVALID);
}

static void test_last_response_counts(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "one"), 0);
    assert_int_equal(uvhttp_response_json(&ex.res, 404, "{}"), 0);
    assert_str(body(), "{}");
    assert_str(type(), "application/json");
    assert_int_equal(uvhttp_response_status(&ex.res), 404);
    assert_int_equal(uvhttp_response_empty(&ex.res, 204), 0);
    assert_int_equal(ex.res.body.kind, UVHTTP__BODY_NONE);
    assert_null(type().data); /* the one of the JSON has gone with it */
}

static void test_status_out_of_range_changes_nothing(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_text(&ex.res, 201, "kept"), 0);
    static const int wrong[] = {-1, 0, 100, 199, 600, 65736};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        assert_int_equal(uvhttp_response_text(&ex.res, wrong[i], "new"), UVHTTP_E_INVALID);
        assert_int_equal(uvhttp_response_send(&ex.res, wrong[i], NULL, "new", 3), UVHTTP_E_INVALID);
        assert_int_equal(uvhttp_response_send_static(&ex.res, wrong[i], NULL, "new", 3), UVHTTP_E_INVALID);
        assert_int_equal(uvhttp_response_empty(&ex.res, wrong[i]), UVHTTP_E_INVALID);
        assert_int_equal(uvhttp_response_begin(&ex.res, wrong[i], NULL, 3), UVHTTP_E_INVALID);
        assert_int_equal(uvhttp_response_set_status(&ex.res, wrong[i]), UVHTTP_E_INVALID);
    }
    assert_str(body(), "kept");
    assert_int_equal(uvhttp_response_status(&ex.res), 201);
    assert_int_equal(uvhttp_response_text(&ex.res, 599, "last"), 0);
}

static void test_content_type_is_checked_and_copied(void **state) {
    (void)state;
    char text[] = "image/png";
    assert_int_equal(uvhttp_response_send(&ex.res, 200, text, "\0\1", 2), 0);
    memset(text, 'x', sizeof text - 1);
    assert_str(type(), "image/png");
    assert_int_equal(ex.res.body.size, 2);
    assert_int_equal(uvhttp_response_send(&ex.res, 200, "a\r\nX: y", "b", 1), UVHTTP_E_INVALID);
    char huge[UVHTTP__RESPONSE_CONTENT_TYPE_SIZE_MAX + 2];
    memset(huge, 'a', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    assert_int_equal(uvhttp_response_send(&ex.res, 200, huge, "b", 1), UVHTTP_E_INVALID);
    assert_str(type(), "image/png");
    assert_int_equal(uvhttp_response_send(&ex.res, 200, NULL, NULL, 1), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_send(&ex.res, 200, NULL, NULL, 0), 0);
    assert_null(type().data);
}

static void test_content_type_header_stays_when_a_response_has_none(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_header(&ex.res, "content-type", "text/css"), 0);
    assert_int_equal(uvhttp_response_send(&ex.res, 200, NULL, "a", 1), 0);
    assert_str(type(), "text/css");
    assert_int_equal(uvhttp_response_send_static(&ex.res, 200, NULL, "b", 1), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "Content-Type"), "text/css");
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "c"), 0);
    assert_str(type(), "text/plain; charset=utf-8");
    assert_int_equal(uvhttp_response_send(&ex.res, 200, NULL, "a", 1), 0);
    assert_null(type().data);
    assert_int_equal(ex.res.headers_size, 0); /* it is never sent twice */
}

static void test_static_body_is_not_copied(void **state) {
    (void)state;
    static const char data[] = "static";
    assert_int_equal(uvhttp_response_send_static(&ex.res, 200, "a/b", data, 6), 0);
    assert_ptr_equal(ex.res.body.data, data);
    assert_int_equal(ex.res.body.kind, UVHTTP__BODY_STATIC);
}

static void test_ref_is_released_once_when_replaced(void **state) {
    (void)state;
    assert_int_equal(send_ref(200, NULL), 0);
    assert_int_equal(released, 0);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "new"), 0);
    assert_int_equal(released, 1);
    uvhttp__response_done(&ex.res, 0);
    assert_int_equal(released, 1);
}

static void test_ref_is_released_once_at_the_end(void **state) {
    (void)state;
    assert_int_equal(send_ref(200, NULL), 0);
    uvhttp__response_done(&ex.res, UVHTTP_E_ABORTED);
    assert_int_equal(released, 1);
    uvhttp__response_done(&ex.res, UVHTTP_E_ABORTED);
    assert_int_equal(released, 1);
}

static void test_ref_is_released_when_it_is_refused(void **state) {
    (void)state;
    assert_int_equal(send_ref(99, NULL), UVHTTP_E_INVALID);
    assert_int_equal(released, 1);
    assert_int_equal(send_ref(200, "a\nb"), UVHTTP_E_INVALID);
    assert_int_equal(released, 2);
    assert_int_equal(uvhttp_response_send_ref(&ex.res, 200, NULL, NULL, 3, release, &released), UVHTTP_E_INVALID);
    assert_int_equal(released, 3);
    uvhttp__response_commit(&ex.res);
    assert_int_equal(send_ref(200, NULL), UVHTTP_E_STATE);
    assert_int_equal(released, 4);
    assert_int_equal(uvhttp_response_send_ref(&ex.res, 200, NULL, "a", 1, NULL, NULL), UVHTTP_E_STATE);
}

static void test_a_body_is_released_once(void **state) {
    (void)state;
    assert_int_equal(send_ref(200, NULL), 0);
    uvhttp__body_t body = ex.res.body;
    ex.res.body.kind = UVHTTP__BODY_NONE; /* taken over */
    uvhttp__response_done(&ex.res, 0);
    assert_int_equal(released, 0);
    uvhttp__body_release(&body);
    uvhttp__body_release(&body);
    assert_int_equal(released, 1);
}

static void test_file_range_is_checked(void **state) {
    (void)state;
    int fd = temporary("0123456789");
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 206, "a/b", dup(fd), 3, UINT64_MAX), 0);
    assert_int_equal(ex.res.body.kind, UVHTTP__BODY_FILE);
    assert_int_equal(ex.res.body.offset, 3);
    assert_int_equal(ex.res.body.size, 7);
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 206, "a/b", dup(fd), 2, 4), 0);
    assert_int_equal(ex.res.body.size, 4);
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 206, "a/b", dup(fd), 10, 0), 0);
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 206, "a/b", dup(fd), 2, 9), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 206, "a/b", dup(fd), 11, UINT64_MAX), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 206, "a/b", dup(fd), 2, UINT64_MAX - 1), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 200, NULL, -1, 0, 1), UVHTTP_E_INVALID);
    close(fd);
}

static void test_file_is_closed_in_every_case(void **state) {
    (void)state;
    int replaced = temporary("a"), refused = temporary("a"), beyond = temporary("a"), last = temporary("a");
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 200, NULL, replaced, 0, 1), 0);
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 999, NULL, refused, 0, 1), UVHTTP_E_INVALID);
    assert_false(is_open(refused));
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 200, NULL, beyond, 0, 2), UVHTTP_E_INVALID);
    assert_false(is_open(beyond));
    assert_true(is_open(replaced));
    assert_int_equal(uvhttp_response_send_fd(&ex.res, 200, NULL, last, 0, 1), 0);
    assert_false(is_open(replaced));
    assert_true(is_open(last));
    uvhttp__response_done(&ex.res, 0);
    assert_false(is_open(last));
}

static void test_file_is_opened_by_path(void **state) {
    (void)state;
    char directory[] = "/tmp/uvhttp-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    char file[64], fifo[64], missing[64], below[64], local[64];
    snprintf(file, sizeof file, "%s/file", directory);
    snprintf(fifo, sizeof fifo, "%s/fifo", directory);
    snprintf(missing, sizeof missing, "%s/missing", directory);
    snprintf(below, sizeof below, "%s/file/x", directory);
    snprintf(local, sizeof local, "%s/socket", directory);
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "abc", 3), 3);
    close(fd);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, local, strlen(local));
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);

    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, NULL, file), 0);
    assert_str(type(), "application/octet-stream");
    assert_int_equal(ex.res.body.size, 3);
    assert_int_equal(fcntl(ex.res.body.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, "text/html", file), 0);
    assert_str(type(), "text/html");
    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, NULL, missing), UVHTTP_E_NOT_FOUND);
    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, NULL, below), UVHTTP_E_NOT_FOUND);
    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, NULL, ""), UVHTTP_E_NOT_FOUND);
    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, NULL, directory), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, NULL, fifo), UVHTTP_E_INVALID); /* and does not hang */
    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, NULL, local), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_send_file(&ex.res, 200, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(ex.res.body.size, 3); /* the good one is still there */
    close(listener);
    unlink(local), unlink(file), unlink(fifo), rmdir(directory);
}

static void test_redirect_sets_location(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "body"), 0);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 302, "/old"), 0);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 308, "/new"), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "location"), "/new");
    assert_int_equal(ex.res.body.kind, UVHTTP__BODY_NONE);
    assert_int_equal(uvhttp_response_status(&ex.res), 308);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 302, "/a\r\nSet-Cookie: x=1"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 302, ""), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 302, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 304, "/"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 200, "/"), UVHTTP_E_INVALID);
    assert_str(uvhttp_response_header_get(&ex.res, "location"), "/new");
}

static void test_memory_limit_is_distinguished(void **state) {
    (void)state;
    static char big[70000];
    memset(big, 'a', sizeof big - 1);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "kept"), 0);
    assert_int_equal(uvhttp_response_text(&ex.res, 500, big), UVHTTP_E_LIMIT);
    assert_int_equal(uvhttp_response_send(&ex.res, 500, NULL, big, sizeof big), UVHTTP_E_LIMIT);
    assert_str(body(), "kept");
    assert_int_equal(uvhttp_response_status(&ex.res), 200);
}

static void test_nothing_changes_after_the_head_has_left(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "sent"), 0);
    uvhttp__response_commit(&ex.res);
    assert_int_equal(uvhttp_response_text(&ex.res, 500, "late"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_json(&ex.res, 500, "late"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_send(&ex.res, 500, NULL, "late", 4), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_send_file(&ex.res, 500, NULL, "/dev/null"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_empty(&ex.res, 500), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_redirect(&ex.res, 302, "/"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_set_status(&ex.res, 500), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_header(&ex.res, "A", "1"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_header_remove(&ex.res, "A"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, 1), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_on_finish(&ex.res, ignore, NULL), UVHTTP_E_STATE);
    assert_null(uvhttp_response_defer(&ex.res));
    uvhttp__response_fail(&ex.res, 500, "late");
    assert_str(body(), "sent");
    assert_int_equal(uvhttp_response_status(&ex.res), 200);
}

static void test_status_can_be_changed_alone(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_set_status(&ex.res, 404), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "body"), 0);
    assert_int_equal(uvhttp_response_set_status(&ex.res, 404), 0);
    assert_int_equal(uvhttp_response_status(&ex.res), 404);
    assert_str(body(), "body");
}

static void test_failure_replaces_everything_but_the_users_headers(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_header(&ex.res, "Access-Control-Allow-Origin", "*"), 0);
    assert_int_equal(uvhttp_response_header(&ex.res, "ETag", "\"1\""), 0);
    assert_int_equal(uvhttp_response_header(&ex.res, "content-encoding", "gzip"), 0);
    assert_int_equal(send_ref(200, "image/png"), 0);
    uvhttp__response_fail(&ex.res, 500, "Internal Server Error\n");
    assert_int_equal(released, 1);
    assert_str(body(), "Internal Server Error\n");
    assert_str(type(), "text/plain; charset=utf-8");
    assert_int_equal(ex.res.headers_size, strlen("Access-Control-Allow-Origin: *\r\n"));
    uvhttp__response_fail(&ex.res, 404, NULL);
    assert_int_equal(ex.res.body.size, 0);
    assert_null(type().data);
}

static void test_a_failure_of_503_says_when_to_ask_again(void **state) {
    (void)state;
    uvhttp__response_fail(&ex.res, 500, NULL);
    assert_null(uvhttp_response_header_get(&ex.res, "Retry-After").data);
    static const int codes[] = {UVHTTP_E_NOMEM, UVHTTP_E_LIMIT, UVHTTP_E_RESPONSE_TIMEOUT, UVHTTP_E_WORK_CANCELLED};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        uvhttp__response_fail_by(&ex.res, codes[i], 503, NULL);
        assert_int_equal(ex.res.headers_size, strlen("Retry-After: 1\r\n"));
        assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "1");
    }
}

/* A cache would keep a 500 for as long as Expires says (RFC 9111 section 3), and a client would miss bytes that a
 * digest has counted. */
static void test_failure_keeps_nothing_that_is_said_of_another_body(void **state) {
    (void)state;
    static const char *const names[] = {"Content-Encoding",
                                        "Content-Disposition",
                                        "Content-Range",
                                        "Content-Language",
                                        "Content-Location",
                                        "Content-Digest",
                                        "Repr-Digest",
                                        "Cache-Control",
                                        "CDN-Cache-Control",
                                        "Expires",
                                        "ETag",
                                        "Last-Modified",
                                        "Location"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        assert_int_equal(uvhttp_response_header(&ex.res, names[i], "x"), 0);
        uvhttp__response_fail(&ex.res, 500, "Internal Server Error\n");
        if (ex.res.headers_size != 0) fail_msg("kept: %.*s", (int)ex.res.headers_size, ex.res.headers);
    }
}

static void test_reset_forgets_the_response(void **state) {
    (void)state;
    assert_int_equal(uvhttp_response_header(&ex.res, "A", "1"), 0);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "body"), 0);
    uvhttp_response_close(&ex.res);
    uvhttp__response_done(&ex.res, 0);
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp_response_status(&ex.res), 0);
    assert_int_equal(ex.res.flags, 0);
    assert_null(uvhttp_response_header_get(&ex.res, "A").data);
    assert_null(uvhttp_response_header_get(&ex.res, "Content-Type").data);
    assert_int_equal(uvhttp_response_header(&ex.res, "B", "2"), 0);
    assert_int_equal(ex.res.headers_size, 6);
}

int main(void) {
    return RUN_TESTS_WITH(
        set_up, tear_down, test_a_failure_of_503_says_when_to_ask_again,
        test_texts_with_a_length_are_copied_as_they_are, test_text_is_copied, test_last_response_counts,
        test_status_out_of_range_changes_nothing, test_content_type_is_checked_and_copied,
        test_content_type_header_stays_when_a_response_has_none, test_static_body_is_not_copied,
        test_ref_is_released_once_when_replaced, test_ref_is_released_once_at_the_end,
        test_ref_is_released_when_it_is_refused, test_a_body_is_released_once, test_file_range_is_checked,
        test_file_is_closed_in_every_case, test_file_is_opened_by_path, test_redirect_sets_location,
        test_memory_limit_is_distinguished, test_nothing_changes_after_the_head_has_left,
        test_status_can_be_changed_alone, test_failure_replaces_everything_but_the_users_headers,
        test_failure_keeps_nothing_that_is_said_of_another_body, test_reset_forgets_the_response);
}
