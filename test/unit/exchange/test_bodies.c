/* Owns: tests of who holds the memory of a response's body, and its descriptor, and until when. */
#include <fcntl.h>

#include "support/http_server.h"

static atomic_int released;

static void release(void *arg) {
    (void)arg;
    atomic_fetch_add(&released, 1);
}

static void send_ref(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_ref(res, 200, "text/plain", "by reference", 12, release, NULL);
}

enum { LARGE = 6000 }; /* sent from where it is; still within what client_read takes */

static void send_large_static(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static char body[LARGE];
    memset(body, 's', sizeof body);
    uvhttp_response_send_static(res, 200, "text/plain", body, sizeof body);
}

static void expect_response(int fd, const char *request, size_t size, char first) {
    client_send_text(fd, request);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_int_equal(strlen(response->body), size);
    assert_int_equal(response->body[0], first);
}

/* The exchange of the first request serves the second, too. */
static void test_a_large_static_body_has_nothing_of_the_body_before(void **state) {
    serving_t *serving = *state;
    atomic_store(&released, 0);
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/ref", send_ref, NULL));
    assert_non_null(uvhttp_get(serving->server, "/large", send_large_static, NULL));
    serving_start(serving);
    int fd = client_connect(serving->port);
    expect_response(fd, GET("/ref"), 12, 'b');
    expect_response(fd, GET("/large"), LARGE, 's');
    expect_response(fd, GET("/ref"), 12, 'b');
    expect_response(fd, GET("/large"), LARGE, 's');
    serving_leave(serving, fd);
    assert_int_equal(atomic_load(&released), 2);
}

/* --- content --- */

enum { CONTENT = 8 << 20 }; /* more than the sockets take */

static void send_shared(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_send_shared_body(res, 200, "text/plain", user);
}

static int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) != -1;
    return count;
}

/* Takes the head and a part of the body. */
static int begin_to_take(const serving_t *serving) {
    int fd = client_ask(serving, GET("/content"));
    char part[8192];
    assert_true(client_receive_some(fd, part, sizeof part) > 0);
    assert_memory_equal(part, "HTTP/1.1 200 OK\r\n", 17);
    return fd;
}

static void reset(int fd) {
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger)), 0);
    close(fd);
}

/* The test's count goes while one client is in the middle of it; that of one which leaves goes with it. */
static void test_a_shared_body_lives_as_long_as_its_responses(void **state) {
    serving_t *serving = *state;
    int before = open_descriptors();
    char *bytes = malloc(CONTENT);
    assert_non_null(bytes);
    for (size_t i = 0; i < CONTENT; i++) bytes[i] = (char)('a' + i % 26);
    uvhttp_shared_body_t *content;
    assert_int_equal(uvhttp_shared_body_new(bytes, CONTENT, &content), UVHTTP_OK);
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/content", send_shared, content));
    serving_start(serving);
    int taker = begin_to_take(serving);
    for (int i = 0; i < 5; i++) reset(begin_to_take(serving));
    uvhttp_shared_body_release(content);
    size_t got = 0, at = 0;
    static char piece[65536];
    for (ssize_t size; got < CONTENT / 2 && (size = client_receive_some(taker, piece, sizeof piece)) > 0;) {
        /* What is left of the part that was consumed before is of unknown length: the first byte tells where it is. */
        if (got == 0) at = (size_t)(piece[0] - 'a');
        for (ssize_t i = 0; i < size; i++) assert_int_equal(piece[i], 'a' + (at + got + (size_t)i) % 26);
        got += (size_t)size;
    }
    assert_true(got >= CONTENT / 2);
    reset(taker);
    serving_stop(serving);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
    free(bytes);
    assert_int_equal(open_descriptors(), before);
}

int main(void) {
    return RUN_ON_EACH(test_a_large_static_body_has_nothing_of_the_body_before,
                       test_a_shared_body_lives_as_long_as_its_responses);
}
