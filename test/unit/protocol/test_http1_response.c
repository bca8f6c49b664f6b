/* Owns: tests of streamed responses as they stand on the wire: trailers, and statuses and methods without a body. */
#include "support/http_server.h"

static void with_trailers(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_header(res, "Trailer", "X-Sum");
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    uvhttp_response_write(res, "abc", 3);
    (void)uvhttp_response_trailer(res, "X-Sum", "6");
    uvhttp_response_end(res);
}

static void pieces_of_status(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp_str_t text = uvhttp_request_param(req, "status");
    uint64_t size = user ? 6 : UVHTTP_SIZE_UNKNOWN;
    uvhttp_response_begin(res, (int)strtol(text.data, NULL, 10), "text/plain", size);
    if (uvhttp_response_write(res, "abc", 3) != UVHTTP_OK || uvhttp_response_write(res, "def", 3) != UVHTTP_OK) abort();
    uvhttp_response_end(res);
}

static void text_of_status(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_send(res, (int)strtol(uvhttp_request_param(req, "status").data, NULL, 10), "text/plain", "abc", 3);
}

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "hello");
}

static void start(serving_t *serving) {
    serving_make(serving);
    uvhttp_get(serving->server, "/trailers", with_trailers, NULL);
    uvhttp_get(serving->server, "/pieces/:status", pieces_of_status, NULL);
    uvhttp_get(serving->server, "/sized/:status", pieces_of_status, "sized");
    uvhttp_get(serving->server, "/whole/:status", text_of_status, NULL);
    uvhttp_get(serving->server, "/hello", hello, NULL);
    serving_start(serving);
}

/* What comes before the response to a second request, without the Date. */
static const char *first_response(serving_t *serving, const char *request) {
    static char text[4096];
    memset(text, 0, sizeof text);
    int fd = client_ask(serving, request);
    client_send_text(fd, GET("/hello"));
    for (size_t size = 0; !strstr(text, "\r\n\r\nhello"); ++size) {
        assert_true(size + 1 < sizeof text);
        client_receive(fd, text + size, 1);
    }
    close(fd);
    char *second = strstr(text + 1, "HTTP/1.1 200 OK");
    assert_non_null(second);
    *second = '\0';
    char *date = strstr(text, "Date: "), *after = strstr(date, "\r\n") + 2;
    memmove(date, after, strlen(after) + 1);
    return text;
}

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
#define RESET_HEAD "HTTP/1.1 205 Reset Content\r\nContent-Type: text/plain\r\n"

static void test_trailers_follow_the_last_chunk_for_who_asks(void **state) {
    serving_t *serving = *state;
    start(serving);
    assert_string_equal(first_response(serving, "GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n"), OK_HEAD
                        "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n");
    assert_string_equal(first_response(serving, GET("/trailers")),
                        OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_string_equal(first_response(serving, "HEAD /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n"),
                        OK_HEAD "Transfer-Encoding: chunked\r\n\r\n");
}

static void test_pieces_of_what_has_no_body_are_not_sent(void **state) {
    serving_t *serving = *state;
    start(serving);
    static const struct {
        const char *request, *expected;
    } cases[] = {
        {"HEAD /pieces/200 HTTP/1.1\r\nHost: a\r\n\r\n", OK_HEAD "Transfer-Encoding: chunked\r\n\r\n"},
        {"HEAD /sized/200 HTTP/1.1\r\nHost: a\r\n\r\n", OK_HEAD "Content-Length: 6\r\n\r\n"},
        {GET("/pieces/204"), "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n"},
        {GET("/sized/204"), "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n"},
        {GET("/pieces/304"), "HTTP/1.1 304 Not Modified\r\nContent-Type: text/plain\r\n\r\n"},
        {GET("/sized/304"), "HTTP/1.1 304 Not Modified\r\nContent-Type: text/plain\r\n\r\n"},
        {GET("/whole/204"), "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n"},
        /* RFC 9110 section 15.3.6: no content, but the length of it is sent. */
        {GET("/pieces/205"), RESET_HEAD "Content-Length: 0\r\n\r\n"},
        {GET("/sized/205"), RESET_HEAD "Content-Length: 0\r\n\r\n"},
        {GET("/whole/205"), RESET_HEAD "Content-Length: 0\r\n\r\n"},
        {"HEAD /sized/205 HTTP/1.1\r\nHost: a\r\n\r\n", RESET_HEAD "Content-Length: 0\r\n\r\n"},
        {GET("/sized/200"), OK_HEAD "Content-Length: 6\r\n\r\nabcdef"},
        {GET("/pieces/200"), OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        assert_string_equal(first_response(serving, cases[i].request), cases[i].expected);
}

int main(void) {
    return RUN_ON_EACH(test_trailers_follow_the_last_chunk_for_who_asks, test_pieces_of_what_has_no_body_are_not_sent);
}
