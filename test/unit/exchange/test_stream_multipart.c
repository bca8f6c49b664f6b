/* Owns: tests of forms whose parts are delivered as they arrive. */
/* Needs: forms. */
#include "support/streaming.h"

#define MULTIPART_HEAD(rest)                                                                                           \
    HEAD("Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n" rest)
#define PART_HEAD(name) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"

/* "<name>content</>" for each part and "$" or the code at the end; under text_lock. */
static char reported[2000];
static atomic_bool respond_at_part, defer, own_response, begin_first;
static atomic_int ends;
static _Atomic(uvhttp_deferred_t *) handle;

static void tell(uvhttp_str_t text) {
    pthread_mutex_lock(&text_lock);
    size_t size = strlen(reported);
    snprintf(reported + size, sizeof reported - size, "%.*s", (int)text.size, text.data);
    pthread_mutex_unlock(&text_lock);
}

static void assert_reported(const char *text) {
    char copy[sizeof reported];
    pthread_mutex_lock(&text_lock);
    memcpy(copy, reported, sizeof copy);
    pthread_mutex_unlock(&text_lock);
    assert_string_equal(copy, text);
}

static void on_event(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp_multipart_event_t *event, void *user) {
    (void)req;
    if (user != reported) abort();
    switch (event->kind) {
        case UVHTTP_MULTIPART_PART:
            tell((uvhttp_str_t){"<", 1});
            tell(event->name);
            tell((uvhttp_str_t){">", 1});
            if (respond_at_part) uvhttp_response_text(res, 403, "no such part here");
            break;
        case UVHTTP_MULTIPART_DATA: tell(event->data); break;
        case UVHTTP_MULTIPART_PART_END: tell((uvhttp_str_t){"</>", 3}); break;
        case UVHTTP_MULTIPART_END: abort();
    }
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req;
    if (user != reported) abort();
    tell(status == UVHTTP_OK ? (uvhttp_str_t){"$", 1}
                             : (uvhttp_str_t){uvhttp_error_name(status), strlen(uvhttp_error_name(status))});
    if (status == UVHTTP_OK) uvhttp_response_text(res, 200, "fine");
    if (status != UVHTTP_OK && own_response) uvhttp_response_text(res, 422, "own");
    atomic_fetch_add(&ends, 1);
}

static void form(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const uvhttp_form_limits_t limits = {.field_count_max = 3, .part_size_max = 100};
    (void)user;
    pthread_mutex_lock(&text_lock);
    reported[0] = '\0';
    pthread_mutex_unlock(&text_lock);
    uvhttp_deferred_t *deferred = defer ? uvhttp_response_defer(res) : NULL;
    if (begin_first) uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    int status = uvhttp_request_on_multipart(req, &limits, on_event, on_end, reported);
    if (status != UVHTTP_OK) uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_name(status));
    atomic_store(&handle, deferred);
}

static void start(serving_t *serving) {
    respond_at_part = defer = own_response = begin_first = false;
    ends = 0;
    serving_make(serving);
    uvhttp_route_options(uvhttp_post(serving->server, "/take", form, NULL),
                         &(uvhttp_route_options_t){.stream_body = true});
    uvhttp_get(serving->server, "/hello", hello, NULL);
    serving_start(serving);
}

/* `size` bytes of the body in each chunk. */
static void send_form(int fd, const char *body, size_t size) {
    char chunk[4096];
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* or each chunk waits for an ACK */
    client_send_text(fd, MULTIPART_HEAD(""));
    for (size_t at = 0, left = strlen(body); left > 0; at += size, left -= size) {
        if (size > left) size = left;
        int length = snprintf(chunk, sizeof chunk, "%zx\r\n%.*s\r\n", size, (int)size, body + at);
        if (send(fd, chunk, (size_t)length, MSG_NOSIGNAL) != length) return; /* it got a response and closed */
    }
    (void)send(fd, "0\r\n\r\n", 5, MSG_NOSIGNAL);
}

static void test_parts_come_in_order_however_the_body_is_cut(void **state) {
    serving_t *serving = *state;
    start(serving);
    static const char body[] = "--b\r\n" PART_HEAD("one") "first\r\n-\r\n--b\r\n" PART_HEAD("two") "\r\n--b--\r\n";
    int fd = client_connect(serving->port);
    for (size_t size = 1; size <= sizeof body; ++size) {
        send_form(fd, body, size);
        assert_int_equal(client_read(fd)->status, 200);
        assert_reported("<one>first\r\n-</><two></>$");
    }
    close(fd);
}

static void expect_form(const serving_t *serving, const char *body, int status, const char *text) {
    for (size_t size = 1; size < 3000; size += 1999) {
        int fd = client_connect(serving->port);
        send_form(fd, body, size);
        assert_int_equal(client_read(fd)->status, status);
        assert_reported(text);
        if (defer) uvhttp_deferred_release(handle);
        close(fd);
    }
}

static void test_a_malformed_form_is_reported_and_refused(void **state) {
    serving_t *serving = *state;
    start(serving);
    for (int with_handle = 0; with_handle < 2; ++with_handle) {
        defer = with_handle;
        expect_form(serving, "--b\r\n" PART_HEAD("a") "x\r\n--bX\r\n", 400, "<a>xUVHTTP_E_MULTIPART_FRAMING");
        expect_form(serving, "--b\r\n" PART_HEAD("a") "x\r\n", 400, "<a>xUVHTTP_E_MULTIPART_INCOMPLETE");
        if (defer) break;
        expect_form(serving, "--b\r\n\r\n", 400, "UVHTTP_E_MULTIPART_DISPOSITION");
    }
    own_response = true;
    defer = false;
    expect_form(serving, "--b\r\n\r\n", 422, "UVHTTP_E_MULTIPART_DISPOSITION");
    assert_int_equal(counter(serving, "rejected_multipart_disposition"), 4);
}

static void test_limits_of_parts_are_413(void **state) {
    serving_t *serving = *state;
    start(serving);
    char body[1000];
    int size = snprintf(body, sizeof body, "--b\r\n" PART_HEAD("a") "%0101d\r\n--b--", 0);
    assert_true(size > 0);
    int fd = client_connect(serving->port);
    send_form(fd, body, 4000);
    client_read_last(fd, 413);
    expect_form(serving,
                "--b\r\n" PART_HEAD("a") "\r\n--b\r\n" PART_HEAD("b") "\r\n--b\r\n" PART_HEAD(
                    "c") "\r\n--b\r\n" PART_HEAD("d") "\r\n--b--",
                413, "<a></><b></><c></>UVHTTP_E_FORM_TOO_MANY_FIELDS");
}

static void test_what_is_no_form_is_refused_at_once(void **state) {
    serving_t *serving = *state;
    start(serving);
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {HEAD("Content-Length: 1\r\n") "x", 415},
        {HEAD("Content-Length: 1\r\nContent-Type: text/plain\r\n") "x", 415},
        {HEAD("Content-Length: 1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
              "Content-Type: multipart/form-data; boundary=c\r\n") "x",
         415},
        {HEAD("Content-Length: 5\r\nContent-Type: multipart/form-data; boundary=b\r\n"
              "Content-Encoding: gzip\r\n") "--b--",
         415},
        {HEAD("Content-Length: 1\r\nContent-Type: multipart/form-data\r\n") "x", 400},
        {HEAD("Content-Length: 0\r\nContent-Type: multipart/form-data; boundary=b\r\n"), 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        int fd = client_ask(serving, cases[i].request);
        assert_int_equal(client_read(fd)->status, cases[i].status);
        client_send_text(fd, GET("/hello"));
        expect_hello(fd);
        close(fd);
    }
}

static void test_a_response_at_a_part_ends_the_events(void **state) {
    serving_t *serving = *state;
    start(serving);
    respond_at_part = true;
    expect_form(serving, "--b\r\n" PART_HEAD("a") "x\r\n--b--", 403, "<a>");
    assert_int_equal(ends, 0);
}

static void test_a_malformed_form_cuts_off_a_response_that_was_begun(void **state) {
    serving_t *serving = *state;
    start(serving);
    begin_first = true;
    int fd = client_connect(serving->port);
    send_form(fd, "--b\r\n\r\n", 100);
    client_response_t *response = client_read(fd); /* until the end */
    assert_null(strstr(response->text, "0\r\n\r\n"));
    close(fd);
    WAIT_UNTIL(ends == 1);
    assert_reported("UVHTTP_E_MULTIPART_DISPOSITION");
}

int main(void) {
    return RUN_ON_EACH(test_parts_come_in_order_however_the_body_is_cut, test_a_malformed_form_is_reported_and_refused,
                       test_limits_of_parts_are_413, test_what_is_no_form_is_refused_at_once,
                       test_a_response_at_a_part_ends_the_events,
                       test_a_malformed_form_cuts_off_a_response_that_was_begun);
}
