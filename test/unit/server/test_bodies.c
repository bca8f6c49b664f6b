/* Owns: tests of who holds the memory of an answer's body, and until when. */
#include "server/serving.h"

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

static void expect_answer(int fd, const char *request, size_t size, char first) {
    client_send(fd, request);
    answer_t *answer = client_read(fd);
    assert_int_equal(answer->status, 200);
    assert_int_equal(strlen(answer->body), size);
    assert_int_equal(answer->body[0], first);
}

/* The exchange of the first request serves the second, too. */
static void test_a_large_static_body_has_nothing_of_the_body_before(void **state) {
    serving_t *serving = *state;
    atomic_store(&released, 0);
    serving_make(serving);
    assert_int_equal(uvhttp_get(serving->server, "/ref", send_ref, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_get(serving->server, "/large", send_large_static, NULL), UVHTTP_OK);
    serving_start(serving);
    int fd = client_connect(serving->port);
    expect_answer(fd, GET("/ref"), 12, 'b');
    expect_answer(fd, GET("/large"), LARGE, 's');
    expect_answer(fd, GET("/ref"), 12, 'b');
    expect_answer(fd, GET("/large"), LARGE, 's');
    close(fd);
    serving_stop(serving);
    assert_int_equal(atomic_load(&released), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_a_large_static_body_has_nothing_of_the_body_before),
    };
    return RUN_ON_EACH(tests);
}
