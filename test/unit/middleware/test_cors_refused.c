/* Owns: tests of CORS on responses that the server sends before the middleware runs. */
/* Needs: middleware. */
#include <uvhttp/cors.h>

#include "support/http_server.h"

#define ORIGIN "https://a.example"

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "body");
}

static void begin(serving_t *serving, const char *origins) {
    serving_make(serving);
    uvhttp_use(serving->server, uvhttp_cors(&(uvhttp_cors_options_t){.origins = origins}));
    const uvhttp_route_options_t streamed = {.stream_body = true, .body_size_max = 10};
    uvhttp_route_options(uvhttp_post(serving->server, "/upload", respond, NULL), &streamed);
    serving_start(serving);
}

static void expect(const serving_t *serving, const char *request, int status, const char *field, bool there) {
    int fd = client_ask(serving, request);
    const client_response_t *response = client_read(fd);
    assert_int_equal(response->status, status);
    if (!strstr(response->text, field) == there) fail_msg("%s in %s", field, response->text);
    close(fd);
}

#define UPLOAD(origin) "POST /upload HTTP/1.1\r\nHost: a\r\nOrigin: " origin "\r\nContent-Length: 11\r\n\r\nelevenbytes"

/* The page that uploads too much sees the status, not a network error. */
static void test_a_page_can_read_that_its_upload_is_too_large(void **state) {
    serving_t *serving = *state;
    begin(serving, ORIGIN);
    expect(serving, UPLOAD(ORIGIN), 413, "\r\nAccess-Control-Allow-Origin: " ORIGIN "\r\n", true);
    expect(serving, UPLOAD(ORIGIN), 413, "\r\nVary: Origin\r\n", true);
    expect(serving, UPLOAD("https://b.example"), 413, "Access-Control-", false);
    expect(serving, UPLOAD("https://b.example"), 413, "\r\nVary: Origin\r\n", true);
    serving_stop(serving);
}

/* Of a malformed head no Origin is known. */
static void test_a_malformed_head_names_no_origin(void **state) {
    serving_t *serving = *state;
    begin(serving, ORIGIN);
    expect(serving, "GET / HTTP/1.1\r\nHost: a\r\nOrigin: " ORIGIN "\r\nbroken\r\n\r\n", 400, "Access-Control-", false);
    serving_stop(serving);
}

static void test_for_every_origin_a_malformed_head_makes_no_difference(void **state) {
    serving_t *serving = *state;
    begin(serving, "*");
    expect(serving, "GET / HTTP/1.1\r\nHost: a\r\nbroken\r\n\r\n", 400, "\r\nAccess-Control-Allow-Origin: *\r\n", true);
    expect(serving, UPLOAD(ORIGIN), 413, "\r\nAccess-Control-Allow-Origin: *\r\n", true);
    serving_stop(serving);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_page_can_read_that_its_upload_is_too_large, test_a_malformed_head_names_no_origin,
                       test_for_every_origin_a_malformed_head_makes_no_difference);
}
