/* Owns: tests of request ids: form, uniqueness over threads and processes, and which incoming ones are accepted. */
/* Needs: middleware. */
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uvhttp/request_id.h>

#include "running.h"

#define ID(...) uvhttp_request_id(&(uvhttp_request_id_options_t){__VA_ARGS__})

static void assert_own(uvhttp_str_t id) {
    assert_int_equal(id.size, 32);
    for (size_t i = 0; i < id.size; ++i) assert_non_null(memchr("0123456789abcdef", id.data[i], 16));
}

static void test_id_is_made_echoed_and_readable(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = uvhttp_request_id(NULL);
    assert_null(uvhttp_request_id_get(&ex.req).data);
    begin(UVHTTP_GET);
    exchange_field(&ex, "X-Request-Id", "from-client");
    assert_int_equal(run(middleware), UVHTTP_NEXT);
    uvhttp_str_t id = uvhttp_request_id_get(&ex.req);
    assert_own(id);
    char expected[64];
    snprintf(expected, sizeof expected, "X-Request-Id: %.32s\r\n", id.data);
    uvhttp__response_fail(&ex.res, 500, "error\n");
    assert_string_equal(fields(), expected);
    begin(UVHTTP_GET);
    assert_null(uvhttp_request_id_get(&ex.req).data);
    drop(middleware);
}

static uvhttp_str_t incoming(uvhttp_middleware_t middleware, const char *value) {
    begin(UVHTTP_GET);
    exchange_field(&ex, "X-Correlation-ID", value);
    assert_int_equal(run(middleware), UVHTTP_NEXT);
    return uvhttp_request_id_get(&ex.req);
}

static void test_a_trusted_valid_id_is_kept(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = ID(.header = "X-Correlation-Id", .trust_incoming = true);
    assert_str(incoming(middleware, "AZaz09._~+/=:-"), "AZaz09._~+/=:-");
    assert_string_equal(fields(), "X-Correlation-Id: AZaz09._~+/=:-\r\n");
    static char longest[UVHTTP_REQUEST_ID_SIZE_MAX + 2];
    memset(longest, 'a', UVHTTP_REQUEST_ID_SIZE_MAX);
    assert_str(incoming(middleware, longest), longest);
    longest[UVHTTP_REQUEST_ID_SIZE_MAX] = 'a';
    assert_own(incoming(middleware, longest));
    static const char *const wrong[] = {"",    "a b",      "a,b",  "a;b", "a\"b", "a\\b",
                                        "<a>", "\xc3\xa4", "a\tb", "%41", "{a}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) assert_own(incoming(middleware, wrong[i]));
    begin(UVHTTP_GET);
    exchange_field(&ex, "X-Correlation-Id", "a");
    exchange_field(&ex, "X-Correlation-Id", "a");
    run(middleware);
    assert_own(uvhttp_request_id_get(&ex.req));
    drop(middleware);
}

/* --- uniqueness --- */

#define THREADS 4
#define IDS_OF_A_THREAD 70000 /* more than a thread takes at once */

typedef char id_text_t[32];
static id_text_t ids[THREADS * IDS_OF_A_THREAD];

typedef struct worker {
    uvhttp_middleware_t middleware;
    id_text_t *out;
    exchange_t own;
} worker_t;

static void *make_ids(void *arg) {
    worker_t *worker = arg;
    exchange_init(&worker->own, SIZE_MAX);
    for (size_t i = 0; i < IDS_OF_A_THREAD; ++i) {
        uvhttp__arena_reset(&worker->own.arena);
        uvhttp__request_reset(&worker->own.req);
        uvhttp__response_reset(&worker->own.res);
        worker->middleware.run(&worker->own.req, &worker->own.res, worker->middleware.user);
        memcpy(worker->out[i], uvhttp_request_id_get(&worker->own.req).data, sizeof(id_text_t));
    }
    exchange_deinit(&worker->own);
    return NULL;
}

static int compare(const void *a, const void *b) {
    return memcmp(a, b, sizeof(id_text_t));
}

static void test_ids_differ_over_threads(void **state) {
    (void)state;
    static worker_t workers[THREADS];
    pthread_t threads[THREADS];
    uvhttp_middleware_t middleware = uvhttp_request_id(NULL);
    for (size_t i = 0; i < THREADS; ++i) {
        workers[i].middleware = middleware;
        workers[i].out = ids + i * IDS_OF_A_THREAD;
        assert_int_equal(pthread_create(&threads[i], NULL, make_ids, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    qsort(ids, THREADS * IDS_OF_A_THREAD, sizeof ids[0], compare);
    for (size_t i = 1; i < THREADS * IDS_OF_A_THREAD; ++i) {
        assert_memory_equal(ids[0], ids[i], 16); /* the process */
        assert_memory_not_equal(ids[i - 1], ids[i], sizeof ids[0]);
    }
    drop(middleware);
}

/* Two processes that have not made an id before: forked first, as a server with several processes does. */
static int child_pipe[2];

static void child(void) {
    exchange_init(&ex, SIZE_MAX);
    uvhttp_middleware_t middleware = uvhttp_request_id(NULL);
    run(middleware);
    bool sent = write(child_pipe[1], uvhttp_request_id_get(&ex.req).data, 32) == 32;
    _exit(sent ? 0 : 1);
}

static int check_processes(void) {
    char of_first[32], of_second[32];
    if (pipe(child_pipe) != 0) return 1;
    for (int i = 0; i < 2; ++i) {
        pid_t pid = fork();
        if (pid == 0) child();
        int status = 1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return 1;
        if (read(child_pipe[0], i ? of_second : of_first, 32) != 32) return 1;
    }
    close(child_pipe[0]);
    close(child_pipe[1]);
    return memcmp(of_first, of_second, 16) == 0;
}

static int processes_failed;

static void test_ids_differ_over_processes(void **state) {
    (void)state;
    assert_int_equal(processes_failed, 0);
}

/* --- options and memory --- */

static void test_wrong_header_names_are_refused(void **state) {
    (void)state;
    assert_refused(ID(.header = "X Y"),
                   "middleware: request_id: header is \"X Y\": expected a field name of 1..64 bytes "
                   "without another meaning, such as X-Request-Id");
    static const char *const wrong[] = {"",
                                        "content-length",
                                        "Content-Type",
                                        "Date",
                                        "Connection",
                                        "Set-Cookie",
                                        "a:b",
                                        "a123456789a123456789a123456789a123456789a123456789a123456789a1234"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) assert_null(ID(.header = wrong[i]).run);
    drop(ID(.header = "a123456789a123456789a123456789a123456789a123456789a123456789a123"));
}

static void test_without_memory_the_request_is_refused(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = uvhttp_request_id(NULL);
    bool refused = false, passed = false;
    for (size_t size = 0; size < 400; size += 8) {
        ex.arena.size_max = SIZE_MAX;
        begin(UVHTTP_GET);
        leave_memory(size);
        if (run(middleware) == UVHTTP_NEXT) {
            passed = true;
        } else {
            refused = true;
            assert_int_equal(uvhttp_response_status(&ex.res), 503);
        }
    }
    assert_true(refused && passed);
    drop(middleware);
    ex.arena.size_max = SIZE_MAX;
}

static uvhttp_middleware_t make(void) {
    return uvhttp_request_id(NULL);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    assert_refused_without_memory(make, "middleware: request_id: out of memory", 1);
}

int main(void) {
    test_allocator_install();
    processes_failed = check_processes();
    const struct CMUnitTest tests[] = {
        TEST(test_id_is_made_echoed_and_readable), TEST(test_a_trusted_valid_id_is_kept),
        TEST(test_ids_differ_over_threads),        TEST(test_ids_differ_over_processes),
        TEST(test_wrong_header_names_are_refused), TEST(test_without_memory_the_request_is_refused),
        TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
