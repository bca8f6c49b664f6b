/* A server of static files on each backend, as each system call and each allocation fails once: a file is sent right,
 * or cut short; else there is an error or no response. Pages, precompressed variants, ranges, index files. */
/* Needs: static. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "handler/static.h"

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/process.h"

#define LARGE 70000
#define LONG_TEXT "a long text, of which there are shorter variants"

static char folder[] = "/tmp/uvhttp_failing_XXXXXX";
static char large[LARGE + 1];

/* --- the folder --- */

static void put(const char *name, const char *text, size_t size) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), (ssize_t)size);
    close(fd);
}

static void put_text(const char *name, const char *text) {
    put(name, text, strlen(text));
}

static void make_folder(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void set_up_folder(void) {
    assert_non_null(mkdtemp(folder));
    put_text("small.txt", "small");
    put("large.bin", large, LARGE);
    put_text("text.js", LONG_TEXT);
    put_text("text.js.gz", "shorter");
    put_text("text.js.br", "shortest");
    make_folder("index");
    put_text("index/index.html", "index");
    make_folder("page");
    put_text("page/one", "1");
    put_text("page/two10", "2");
    put_text("page/two9", "3");
    make_folder("page/sub");
    put_text("app.html", "fallback");
}

/* --- the server and its client --- */

static void set_up(uvhttp_server_t *server) {
    const uvhttp_static_options_t options = {.list_directories = true, .fallback = "app.html", .helper_threads = 1};
    (void)uvhttp_static(server, "/", folder, &options);
    const uvhttp_static_options_t warm = {.no_symlinks = true, .warm_up = true, .helper_threads = 1};
    (void)uvhttp_static(server, "/warm", folder, &warm);
    const uvhttp_static_options_t read = {.no_sendfile = true, .helper_threads = 1};
    (void)uvhttp_static(server, "/read", folder, &read);
}

#define CLOSE " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
#define WITH(field) " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" field "\r\n\r\n"

static const one_request_t requests[] = {
    {"GET /small.txt" CLOSE, 200, "small", NULL},
    {"GET /small.txt" WITH("Range: bytes=1-2"), 206, "ma", NULL},
    {"GET /small.txt" WITH("Range: bytes=0-0,3-4"), 206, NULL, NULL},
    {"GET /small.txt" WITH("If-None-Match: *"), 304, NULL, NULL},
    {"HEAD /small.txt" CLOSE, 200, "", NULL},
    {"GET /large.bin" CLOSE, 200, large, NULL},
    {"GET /text.js" WITH("Accept-Encoding: gzip"), 200, "shorter", LONG_TEXT},
    {"GET /text.js" WITH("Accept-Encoding: br"), 200, "shortest", LONG_TEXT},
    {"GET /text.js" CLOSE, 200, LONG_TEXT, NULL},
    {"GET /warm/index/" CLOSE, 200, "index", NULL},
    {"GET /warm/index" CLOSE, 301, NULL, NULL},
    {"GET /page/" CLOSE, 200, NULL, NULL},
    {"GET /page/?sort=-size&filter=two" CLOSE, 200, NULL, NULL},
    {"GET /route/of/the/page" CLOSE, 200, "fallback", NULL},
    {"GET /missing.png" CLOSE, 404, NULL, NULL},
    {"GET /warm/small.txt" CLOSE, 200, "small", NULL},
    {"GET /warm/missing.txt" CLOSE, 404, NULL, NULL},
    {"GET /read/large.bin" CLOSE, 200, large, NULL},
};
#define REQUESTS (sizeof requests / sizeof *requests)

static void speak(one_thread_t *it) {
    for (size_t i = 0; i < REQUESTS; i++) one_thread_ask(it, &requests[i]);
}

static const failing_call_t calls[] = {
    {FAIL_openat2, {EACCES, EMFILE, EIO}},
    {FAIL_openat, {EMFILE}},
    {FAIL_open, {EACCES}},
    {FAIL_fstat, {EIO}},
    {FAIL_fstatat, {EIO}},
    {FAIL_fdopendir, {ENOMEM}},
    {FAIL_pread, {EIO, FAIL_SHORT}},
    {FAIL_preadv, {EIO}},
    {FAIL_preadv2, {EAGAIN, EOPNOTSUPP}},
    {FAIL_sendfile, {EAGAIN, EIO}},
    {FAIL_cachestat, {ENOSYS}},
    {FAIL_posix_fadvise, {EINVAL}},
    {FAIL_pthread_create, {EAGAIN}},
};

static const failing_life_t life = {
    .set_up = set_up, .speak = speak, .complete = REQUESTS, .calls = calls, .call_count = sizeof calls / sizeof *calls};

static void test_each_system_call_may_fail(void **state) {
    fail_each_call_of(&life, state, 50);
}

static void test_each_allocation_may_fail(void **state) {
    fail_each_allocation_of(&life, state, 50);
}

/* Without memory for a new name: 503, which passes, and says when to ask again. 500 only if there is none for the
 * message that wakes the request after the look-up. */
static void speak_without_memory(one_thread_t *it) {
    char request[128], text[1024];
    int unavailable = 0, unwoken = 0, status = 0;
    for (int i = 1; status != 404 || test_allocator_failed(); i++) {
        int fd = one_thread_connect(it);
        one_thread_run(it, -1, 0); /* accepted */
        test_allocator_fail_at((size_t)i);
        snprintf(request, sizeof request, "GET /warm/missing%d.txt" CLOSE, i);
        size_t size = one_thread_exchange(it, fd, request, strlen(request), NULL, text, sizeof text - 1);
        text[size] = '\0';
        status = size > 12 ? (int)strtol(text + 9, NULL, 10) : 0;
        if (strstr(text, "\n\r\nout of memory\n")) status = 0; /* the server's own, before it was routed */
        if (status == 503) assert_non_null(strstr(text, "\r\nRetry-After: 1\r\n"));
        unavailable += status == 503;
        unwoken += status == 500;
        one_thread_close(it, fd);
    }
    test_allocator_fail_at(0);
    assert_true(unavailable >= 2);
    assert_int_equal(unwoken, 1);
}

static void test_a_look_up_without_memory_gets_503(void **state) {
    one_thread_t it;
    one_thread_init(&it, *(uvhttp_engine_t *)*state);
    it.set_up = set_up;
    it.speak = speak_without_memory;
    one_thread_serve(&it);
}

/* --- what could not be looked for is no fact --- */

static const one_request_t variant = {"GET /text.js" WITH("Accept-Encoding: br"), 200, "shortest", LONG_TEXT};
static bool something_fails;

static bool fails_now(void) {
    return something_fails;
}

static void set_up_for_good(uvhttp_server_t *server) {
    const uvhttp_static_options_t options = {.revalidate_ms = UVHTTP_NEVER, .helper_threads = 1};
    (void)uvhttp_static(server, "/", folder, &options);
}

static void set_up_for_a_moment(uvhttp_server_t *server) {
    const uvhttp_static_options_t options = {.revalidate_ms = 50, .helper_threads = 1};
    (void)uvhttp_static(server, "/", folder, &options);
}

static void wait_for_a_look(one_thread_t *it) {
    usleep(110000); /* twice: then the look is waited for */
    one_thread_run(it, -1, 0);
}

static void serve_with(void **state, void (*prepare)(uvhttp_server_t *server), void (*ask)(one_thread_t *it)) {
    one_thread_t it;
    one_thread_init(&it, *(uvhttp_engine_t *)*state);
    it.set_up = prepare;
    it.speak = ask;
    it.may_fail = fails_now;
    one_thread_serve(&it);
}

static size_t failing_number; /* of the call, or of the allocation, that fails */
static bool none_failed;

/* One request, in which the n-th of something fails. */
static void ask_as_it_fails(one_thread_t *it, void (*fail_at)(size_t n), bool (*has_failed)(void)) {
    something_fails = true;
    fail_at(failing_number);
    one_thread_ask(it, &variant);
    none_failed = !has_failed();
    fail_at(0);
    something_fails = false;
}

static void fail_descriptor_at(size_t n) {
    test_call_fail_at(FAIL_openat2, n ? EMFILE : 0, n);
}

static void ask_without_descriptors(one_thread_t *it) {
    ask_as_it_fails(it, fail_descriptor_at, test_call_failed);
}

/* The file, .br, .gz: the first time that one cannot be opened says nothing about the next. */
static void speak_first_without_descriptors(one_thread_t *it) {
    ask_without_descriptors(it);
    one_thread_ask(it, &variant);
}

static void test_a_variant_without_a_descriptor_is_looked_for_again(void **state) {
    for (failing_number = 1, none_failed = false; !none_failed; failing_number++)
        serve_with(state, set_up_for_good, speak_first_without_descriptors);
    assert_int_equal(failing_number, 5);
}

/* What is known of a file that has not changed is not forgotten because of it. */
static void speak_later_without_descriptors(one_thread_t *it) {
    one_thread_ask(it, &variant);
    wait_for_a_look(it);
    ask_without_descriptors(it);
    const one_request_t known = {variant.text, 200, "shortest", NULL};
    one_thread_ask(it, &known);
}

static void test_a_variant_without_a_descriptor_is_not_forgotten(void **state) {
    for (failing_number = 1, none_failed = false; !none_failed; failing_number++)
        serve_with(state, set_up_for_a_moment, speak_later_without_descriptors);
    assert_int_equal(failing_number, 5);
}

static void speak_first_without_memory(one_thread_t *it) {
    ask_as_it_fails(it, test_allocator_fail_at, test_allocator_failed);
    one_thread_ask(it, &variant);
}

static void test_a_variant_without_memory_is_looked_for_again(void **state) {
    for (failing_number = 1, none_failed = false; !none_failed; failing_number++)
        serve_with(state, set_up_for_good, speak_first_without_memory);
    assert_true(failing_number > 10);
}

static void let_no_other_open(void) {
    test_call_fail_always(FAIL_openat2, EMFILE);
}

/* 503, not 403: what may not be read may be a directory with an index that may. */
static void test_a_directory_without_a_descriptor_is_not_refused(void **state) {
    (void)state;
    int root = open(folder, O_PATH | O_DIRECTORY);
    test_call_fail_behind(FAIL_openat2, EACCES, let_no_other_open);
    assert_int_equal(uvhttp__static_open(root, "page", false, false), -EMFILE);
    test_call_fail_at(FAIL_openat2, EACCES, 1);
    assert_int_equal(uvhttp__static_open(root, "small.txt", false, false), -EACCES);
    test_call_fail_at(FAIL_openat2, EACCES, 1);
    int fd = uvhttp__static_open(root, "page", false, false);
    assert_true(fd >= 0);
    close(fd);
    close(root);
}

int main(void) {
    memset(large, 'l', LARGE);
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    set_up_folder();
    int failed = RUN_IN_ONE_THREAD(
        test_each_system_call_may_fail, test_each_allocation_may_fail, test_a_look_up_without_memory_gets_503,
        test_a_variant_without_a_descriptor_is_looked_for_again, test_a_variant_without_a_descriptor_is_not_forgotten,
        test_a_variant_without_memory_is_looked_for_again, test_a_directory_without_a_descriptor_is_not_refused);
    remove_tree(folder);
    return failed;
}
