/* Owns: tests of which protocol a connection speaks: the preface of HTTP/2 in any pieces, and what only begins like it.
 */
#include "support/http2_client.h"

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    const char *text = uvhttp_http_version_name(uvhttp_request_http_version(req));
    (void)uvhttp_response_text(res, 200, text);
}

static void start(serving_t *serving) {
    serving_make(serving);
    uvhttp_any(serving->server, "/", hello, NULL);
    serving_start(serving);
}

/* Returns when the server has read everything that was sent before: it has served another client since. */
static void wait_for_loop(serving_t *serving) {
    int fd = client_ask(serving, GET("/"));
    assert_int_equal(client_read(fd)->status, 200);
    close(fd);
}

static void send_in_two(serving_t *serving, int fd, const char *data, size_t size, size_t split) {
    client_send(fd, data, split);
    if (split > 0) wait_for_loop(serving);
    client_send(fd, data + split, size - split);
}

static void test_a_preface_is_seen_however_it_is_cut(void **state) {
    serving_t *serving = *state;
    start(serving);
    h2_out_t *out = calloc(1, sizeof *out);
    h2_frame_t *frame = malloc(sizeof *frame);
    h2_put_preface(out);
    h2_put_request(out, 1, false, "/", true);
    for (size_t split = 0; split < 34; split++) {
        int fd = client_connect(serving->port);
        send_in_two(serving, fd, out->data, out->size, split);
        assert_true(h2_read(fd, frame));
        assert_int_equal(frame->type, H2_SETTINGS);
        h2_expect(fd, H2_HEADERS, 1, frame);
        h2_expect(fd, H2_DATA, 1, frame);
        assert_memory_equal(frame->payload, "HTTP/2.0", 8);
        close(fd);
    }
    free(out);
    free(frame);
}

static void test_what_begins_like_it_is_http_1(void **state) {
    serving_t *serving = *state;
    start(serving);
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 200},
        {"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", 200},
        {"PRI / HTTP/1.1\r\nHost: a\r\n\r\n", 200},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r.", 505},
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].text);
        for (size_t split = 0; split < 24; split++) {
            int fd = client_connect(serving->port);
            send_in_two(serving, fd, cases[i].text, size, split);
            assert_int_equal(client_read(fd)->status, cases[i].status);
            close(fd);
        }
    }
}

static void test_part_of_a_preface_ends_with_its_connection(void **state) {
    serving_t *serving = *state;
    start(serving);
    for (size_t size = 1; size < 24; size++) {
        int fd = client_connect(serving->port);
        client_send(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", size);
        shutdown(fd, SHUT_WR);
        client_expect_end(fd);
        close(fd);
    }
}

static void test_http2_that_is_off_is_http_1(void **state) {
    serving_t *serving = *state;
    serving->config.http2 = false;
    start(serving);
    int fd = client_ask(serving, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_int_equal(client_read(fd)->status, 505);
    close(fd);
}

int main(void) {
    return RUN_ON_EACH(test_a_preface_is_seen_however_it_is_cut, test_what_begins_like_it_is_http_1,
                       test_part_of_a_preface_ends_with_its_connection, test_http2_that_is_off_is_http_1);
}
