/* Owns: tests of content: who holds it, what it is made of, and what comes of it when something is missing. */
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../support/failing_allocator.h"
#include "one_exchange.h"
#include "support/run.h"

enum { LARGE = UVHTTP__SENDFILE_MIN };

static char pattern[LARGE + 1];

static uvhttp_shared_body_t *make(size_t size) {
    uvhttp_shared_body_t *content = NULL;
    assert_int_equal(uvhttp_shared_body_new(pattern, size, &content), 0);
    assert_non_null(content);
    return content;
}

static void test_it_is_a_copy_of_any_size(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, LARGE - 1, LARGE, LARGE + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        memset(pattern, 'a', sizeof pattern);
        uvhttp_shared_body_t *content = make(sizes[i]);
        memset(pattern, 'b', sizeof pattern);
        assert_int_equal(content->size, sizes[i]);
        for (size_t k = 0; k < sizes[i]; ++k) assert_int_equal(content->data[k], 'a');
        assert_int_equal(content->fd >= 0, sizes[i] >= LARGE);
        uvhttp_shared_body_release(content);
    }
}

static void test_nobody_can_change_a_large_one(void **state) {
    (void)state;
    uvhttp_shared_body_t *content = make(LARGE);
    assert_int_equal(pwrite(content->fd, "x", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(content->fd, 1), -1);
    assert_int_equal(ftruncate(content->fd, 2 * LARGE), -1);
    assert_int_equal(fcntl(content->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    uvhttp_shared_body_release(content);
}

static void test_the_last_release_closes_it(void **state) {
    (void)state;
    uvhttp_shared_body_t *content = make(LARGE);
    int fd = content->fd;
    uvhttp_shared_body_retain(content);
    uvhttp_shared_body_release(content);
    assert_true(fcntl(fd, F_GETFD) != -1);
    assert_int_equal(uvhttp_response_send_shared_body(&ex.res, 200, "a/b", content), 0);
    uvhttp_shared_body_release(content);
    assert_true(fcntl(fd, F_GETFD) != -1);
    assert_int_equal(ex.res.body.size, LARGE);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "instead"), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    uvhttp_shared_body_release(NULL);
}

static void test_a_refused_response_keeps_nothing(void **state) {
    (void)state;
    uvhttp_shared_body_t *content = make(LARGE);
    int fd = content->fd;
    assert_int_equal(uvhttp_response_send_shared_body(&ex.res, 99, "a/b", content), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_send_shared_body(&ex.res, 200, "a\nb", content), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_response_send_shared_body(&ex.res, 200, "a/b", NULL), UVHTTP_E_INVALID);
    assert_int_equal(ex.res.body.kind, UVHTTP__BODY_NONE);
    uvhttp_shared_body_release(content);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_wrong_calls_are_reported(void **state) {
    (void)state;
    uvhttp_shared_body_t *content = (uvhttp_shared_body_t *)&ex;
    assert_int_equal(uvhttp_shared_body_new(NULL, 1, &content), UVHTTP_E_INVALID);
    assert_null(content);
    assert_int_equal(uvhttp_shared_body_new(pattern, 1, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_shared_body_new(NULL, 0, &content), 0);
    uvhttp_shared_body_release(content);
}

static void test_without_descriptors(void **state) {
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max}), 0);
    size_t live = test_allocator_live();
    uvhttp_shared_body_t *content = (uvhttp_shared_body_t *)&ex;
    int large = uvhttp_shared_body_new(pattern, LARGE, &content);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(large, UVHTTP_E_NO_DESCRIPTORS);
    assert_null(content);
    assert_int_equal(test_allocator_live(), live);
}

static void attempt(void *user) {
    size_t size = *(const size_t *)user;
    uvhttp_shared_body_t *content = (uvhttp_shared_body_t *)&ex;
    int code = uvhttp_shared_body_new(pattern, size, &content);
    assert_int_equal(code, test_allocator_failed() ? UVHTTP_E_NOMEM : 0);
    assert_true((code == 0) == (content != NULL));
    uvhttp_shared_body_release(content);
}

static void test_without_memory(void **state) {
    (void)state;
    int first_free = dup(0);
    close(first_free);
    for (size_t size = 1; size <= LARGE; size += LARGE - 1)
        assert_int_equal(test_allocator_each_failure(attempt, &size), 1);
    assert_int_equal(dup(0), first_free);
    close(first_free);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(set_up, tear_down, test_it_is_a_copy_of_any_size, test_nobody_can_change_a_large_one,
                          test_the_last_release_closes_it, test_a_refused_response_keeps_nothing,
                          test_wrong_calls_are_reported, test_without_descriptors, test_without_memory);
}
