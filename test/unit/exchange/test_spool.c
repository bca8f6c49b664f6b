/* Owns: tests of streamed bodies that come before a worker thread is given to their handler: slow clients hold no
 * thread, what comes is what the handler reads, every limit ends in a proper response. On each engine. */
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "support/streaming.h"

#define POST(path, more) "POST " path " HTTP/1.1\r\nHost: a\r\n" more "\r\n"
#define QUEUE_MS 250
#define TRIES 100 /* for a thread that is free and does not take a request within QUEUE_MS: a loaded machine */
#define CHUNKED "Transfer-Encoding: chunked\r\n"

/* Stands in front of the C library's: a file system that has no files without a name. */
static atomic_bool without_tmpfile;
static atomic_int refused_tmpfiles;

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
    unsigned mode = is_nameless || (flags & O_CREAT) ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    if (is_nameless && atomic_load(&without_tmpfile)) {
        atomic_fetch_add(&refused_tmpfiles, 1);
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static struct {
    sem_t inside, proceed;
    atomic_int handled, blocked, pieces, dones, aborted;
} worked;

static void reset_worked(void) {
    memset(&worked, 0, sizeof worked);
    sem_init(&worked.inside, 0, 0);
    sem_init(&worked.proceed, 0, 0);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    atomic_fetch_add(status == UVHTTP_OK ? &worked.dones : &worked.aborted, 1);
}

static uvhttp_flow_t add_hooks(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_on_done(res, on_done, NULL);
    return UVHTTP_NEXT;
}

/* Reads all, and responds with the number of bytes, their sum, and a trailer. */
static void read_all(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    atomic_fetch_add(&worked.handled, 1);
    unsigned long long bytes = 0;
    unsigned long sum = 0;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_request_read_body(req, &piece, UVHTTP_NEVER)) == UVHTTP_OK) {
        sum += sum_of(piece.data, piece.size, bytes);
        bytes += piece.size;
        atomic_fetch_add(&worked.pieces, 1);
    }
    uvhttp_str_t trailer = uvhttp_request_trailer(req, "x-check");
    char text[96];
    snprintf(text, sizeof text, "%llu %lu%.*s", bytes, sum, (int)trailer.size, trailer.data ? trailer.data : "");
    if (status == UVHTTP_E_EOF && uvhttp_request_read_body(req, &piece, 1) == UVHTTP_E_EOF)
        uvhttp_response_text(res, 200, text);
}

#if UVHTTP_WITH_COROUTINES
static void read_in_coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    unsigned long long bytes = 0;
    unsigned long sum = 0;
    for (uvhttp_str_t piece; uvhttp_coro_read_body(req, &piece, UVHTTP_NEVER) == UVHTTP_OK; bytes += piece.size) {
        sum += sum_of(piece.data, piece.size, bytes);
        atomic_fetch_add(&worked.pieces, 1);
    }
    char text[64];
    snprintf(text, sizeof text, "%llu %lu", bytes, sum);
    uvhttp_response_text(res, 200, text);
}
#endif

static void block(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_fetch_add(&worked.blocked, 1);
    sem_post(&worked.inside);
    sem_wait(&worked.proceed);
    uvhttp_response_text(res, 200, "done");
}

static const char *text_of(size_t bytes) {
    static char data[1 << 20];
    for (size_t i = 0; !data[sizeof data - 1]; i++) data[i] = (char)('a' + i * 7 % 23);
    assert_true(bytes <= sizeof data);
    return data;
}

static void write_on(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static const char zeros[1 << 20];
    atomic_fetch_add(&worked.handled, 1);
    int status = uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    while (status == UVHTTP_OK) status = uvhttp_response_write(res, zeros, sizeof zeros);
}

static void route(uvhttp_server_t *server, const char *path, uvhttp_handler_cb handler, uvhttp_exec_t exec,
                  uvhttp_route_options_t options) {
    assert_int_equal(uvhttp_route_options(uvhttp_route(server, UVHTTP_ANY, path, handler, NULL, exec), &options),
                     UVHTTP_OK);
}

static serving_t *start(void **state) {
    serving_t *serving = *state;
    reset_worked();
    serving_make(serving);
    const uvhttp_route_options_t spooled = {.stream_body = true}, live = {.stream_body = true, .live_body = true};
    uvhttp_use(serving->server, (uvhttp_middleware_t){.run = add_hooks});
    route(serving->server, "/spool", read_all, UVHTTP_EXEC_WORKER, spooled);
    route(serving->server, "/live", read_all, UVHTTP_EXEC_WORKER, live);
#if UVHTTP_WITH_COROUTINES
    route(serving->server, "/coroutine", read_in_coroutine, UVHTTP_EXEC_COROUTINE, spooled);
#endif
    route(serving->server, "/short", hello, UVHTTP_EXEC_WORKER, (uvhttp_route_options_t){0});
    route(serving->server, "/loop", hello, UVHTTP_EXEC_LOOP, (uvhttp_route_options_t){0});
    route(serving->server, "/write", write_on, UVHTTP_EXEC_WORKER, (uvhttp_route_options_t){0});
    route(serving->server, "/block", block, UVHTTP_EXEC_WORKER, (uvhttp_route_options_t){0});
    serving_start(serving);
    return serving;
}

static void expect_sum(int fd, size_t bytes, const char *trailer) {
    char text[96];
    snprintf(text, sizeof text, "%zu %lu%s", bytes, sum_of(text_of(bytes), bytes, 0), trailer);
    const client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, text);
}

static void expect_status(int fd, int status, bool retry) {
    const client_response_t *response = client_read(fd);
    assert_int_equal(response->status, status);
    assert_int_equal(strstr(response->text, "\r\nRetry-After: 1\r\n") != NULL, retry);
}

static void ask_short(const serving_t *serving) {
    int fd = client_ask(serving, GET("/short"));
    expect_hello(fd);
    close(fd);
}

static void send_head(int fd, const char *path, size_t bytes) {
    char head[256];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", path, bytes);
    client_send_text(fd, head);
}

static void wait_inside(void) {
    WAIT_UNTIL(sem_trywait(&worked.inside) == 0);
}

/* More uploads than threads, all of which have sent a part, some of them to a file. */
static void test_slow_uploads_hold_no_thread(void **state) {
    enum { UPLOADS = 12, SIZE = 20000, FIRST = 9000 };
    serving_t *serving = *state;
    serving->config.worker_threads = 2;
    serving->config.spool_memory = 4096;
    start(state);
    int fds[UPLOADS];
    for (int i = 0; i < UPLOADS; i++) {
        fds[i] = client_connect(serving->port);
        send_head(fds[i], "/spool", SIZE);
        client_send(fds[i], text_of(SIZE), i % 2 ? FIRST : 10);
    }
    WAIT_UNTIL(counter(serving, "bodies_spooled") == UPLOADS / 2);
    for (int i = 0; i < 5; i++) ask_short(serving);
    assert_int_equal(worked.handled, 0);
    for (int i = 0; i < UPLOADS; i++) {
        size_t first = i % 2 ? FIRST : 10;
        client_send(fds[i], text_of(SIZE) + first, SIZE - first);
    }
    for (int i = 0; i < UPLOADS; i++) {
        expect_sum(fds[i], SIZE, "");
        close(fds[i]);
    }
    assert_int_equal(worked.handled, UPLOADS);
    WAIT_UNTIL(counter(serving, "work_running") == 0);
}

static void test_what_comes_is_what_is_read(void **state) {
    serving_t *serving = *state;
    serving->config.spool_memory = 4096;
    start(state);
    int fd = client_connect(serving->port);
    static const size_t sizes[] = {1, 4095, 4096, 4097, 8192, 100000, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        send_head(fd, "/spool", sizes[i]);
        client_send(fd, text_of(sizes[i]), sizes[i]);
        expect_sum(fd, sizes[i], "");
        char head[32];
        client_send_text(fd, POST("/spool", CHUNKED));
        for (size_t at = 0, now; at < sizes[i]; at += now) {
            now = sizes[i] - at < 3000 ? sizes[i] - at : 3000;
            snprintf(head, sizeof head, "%zx\r\n", now);
            client_send_text(fd, head);
            client_send(fd, text_of(sizes[i]) + at, now);
            client_send_text(fd, "\r\n");
        }
        client_send_text(fd, "0\r\nX-Check: yes\r\n\r\n");
        expect_sum(fd, sizes[i], "yes");
    }
    client_send_text(fd, POST("/spool", "") GET("/short"));
    expect_sum(fd, 0, "");
    expect_hello(fd);
    close(fd);
    assert_int_equal(counter(serving, "bodies_spooled"), 10);
}

static void test_live_bodies_leave_a_share_of_the_threads(void **state) {
    serving_t *serving = *state;
    serving->config.worker_threads = 4;
    start(state);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = client_connect(serving->port);
        send_head(fds[i], "/live", 4);
        if (i < 2) WAIT_UNTIL(atomic_load(&worked.handled) == i + 1);
    }
    expect_status(fds[2], 503, true);
    ask_short(serving);
    assert_int_equal(counter(serving, "work_live_refused"), 1);
    for (int i = 0; i < 2; i++) {
        client_send(fds[i], text_of(4), 4);
        expect_sum(fds[i], 4, "");
    }
    send_head(fds[0], "/live", 4); /* their places are free again */
    client_send(fds[0], text_of(4), 4);
    expect_sum(fds[0], 4, "");
    for (int i = 0; i < 3; i++) close(fds[i]);
}

/* Returns the connection of a request that has its thread. */
static int ask_until_it_runs(const serving_t *serving, const char *request, const atomic_int *handled) {
    int before = atomic_load(handled);
    for (int tries = 0; tries < TRIES; tries++) {
        int fd = client_ask(serving, request);
        WAIT_UNTIL(atomic_load(handled) > before || wait_fd(fd, POLLIN, 0));
        if (atomic_load(handled) > before) return fd;
        expect_status(fd, 503, true);
        close(fd);
    }
    fail_msg("no thread takes it");
    return -1;
}

static int block_a_thread(const serving_t *serving) {
    int fd = ask_until_it_runs(serving, GET("/block"), &worked.blocked);
    wait_inside();
    return fd;
}

static void expect_hello_from_a_thread(const serving_t *serving) {
    int fd = client_connect(serving->port);
    for (int tries = 0, status = 503; status != 200; tries++) {
        assert_true(tries < TRIES && status == 503);
        client_send_text(fd, GET("/short"));
        status = client_read(fd)->status;
    }
    close(fd);
}

static void test_who_waits_too_long_for_a_thread_gets_503(void **state) {
    serving_t *serving = *state;
    serving->config.worker_threads = 1;
    serving->config.worker_queue_timeout_ms = QUEUE_MS;
    serving->config.spool_memory = 4096;
    start(state);
    int busy = block_a_thread(serving);
    uint64_t before = counter(serving, "work_queue_timeouts");
    int fd = client_ask(serving, GET("/short"));
    expect_status(fd, 503, true);
    client_send_text(fd, GET("/short") GET("/short")); /* the connection continues */
    expect_status(fd, 503, true);
    expect_status(fd, 503, true);
    send_head(fd, "/spool", 3);
    client_send(fd, text_of(3), 3);
    expect_status(fd, 503, true);
    send_head(fd, "/spool", 5000); /* the write of its file waits for the thread */
    client_send(fd, text_of(5000), 5000);
    expect_status(fd, 503, true);
    close(fd);
    assert_int_equal(counter(serving, "work_queue_timeouts"), before + 5);
    sem_post(&worked.proceed);
    assert_string_equal(client_read(busy)->body, "done");
    close(busy);
    busy = block_a_thread(serving); /* and that runs longer than it may wait is nothing to refuse */
    nanosleep(&(struct timespec){.tv_nsec = (QUEUE_MS + 50) * 1000000L}, NULL);
    sem_post(&worked.proceed);
    assert_string_equal(client_read(busy)->body, "done");
    close(busy);
    expect_hello_from_a_thread(serving);
}

/* The time that a request may wait for its thread says nothing of how long that waits for a live body (seed 153 of the
 * simulation). */
static void test_a_thread_waits_for_a_live_body_as_long_as_it_wants(void **state) {
    serving_t *serving = *state;
    serving->config.worker_queue_timeout_ms = QUEUE_MS;
    start(state);
    int fd = ask_until_it_runs(serving, POST("/live", "Content-Length: 6\r\n"), &worked.handled);
    nanosleep(&(struct timespec){.tv_nsec = (QUEUE_MS + 50) * 1000000L}, NULL);
    client_send(fd, text_of(6), 6);
    expect_sum(fd, 6, "");
    close(fd);
}

/* Clients that do not read hold every thread: the other worker routes get responses within their time all the same, the
 * loop's at once, and a client that reads too slowly is ended. */
static void test_slow_readers_keep_nobody_waiting(void **state) {
    enum { READERS = 2 };
    serving_t *serving = *state;
    serving->config.worker_threads = READERS;
    serving->config.worker_queue_timeout_ms = QUEUE_MS;
    serving->config.rate_grace = 2; /* QUEUE_MS has passed long before */
    serving->config.min_send_rate = 1 << 20;
    start(state);
    int fds[READERS];
    for (int i = 0; i < READERS; i++) fds[i] = ask_until_it_runs(serving, GET("/write"), &worked.handled);
    uint64_t before = counter(serving, "work_queue_timeouts");
    int fd = client_ask(serving, GET("/short"));
    expect_status(fd, 503, true);
    client_send_text(fd, GET("/loop"));
    expect_hello(fd);
    assert_int_equal(counter(serving, "work_queue_timeouts"), before + 1);
    close(fd);
    WAIT_UNTIL(atomic_load(&worked.aborted) == READERS);
    expect_hello_from_a_thread(serving);
    for (int i = 0; i < READERS; i++) close(fds[i]);
}

static void set_directory(serving_t *serving, const char *directory) {
    assert_int_equal(uvhttp_server_config_set(&serving->config, "spool_directory", directory, NULL, 0), UVHTTP_OK);
}

static void test_a_directory_that_is_removed_is_500(void **state) {
    serving_t *serving = *state;
    serving->config.spool_memory = 4096;
    char directory[] = "/tmp/uvhttp-spool-XXXXXX";
    assert_non_null(mkdtemp(directory));
    set_directory(serving, directory);
    start(state);
    assert_int_equal(rmdir(directory), 0); /* the start looks at it */
    int fd = client_connect(serving->port);
    send_head(fd, "/spool", 5000);
    client_send(fd, text_of(5000), 5000);
    expect_status(fd, 500, false);
    send_head(fd, "/spool", 4000); /* a small one needs no file */
    client_send(fd, text_of(4000), 4000);
    expect_sum(fd, 4000, "");
    close(fd);
    assert_int_equal(counter(serving, "rejected_io"), 1);
}

/* The size of the largest file without a name in `directory` that the process has open; -1: there is none. */
static long long largest_file_in(const char *directory) {
    char link[64], target[512];
    long long largest = -1;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, target, sizeof target - 1);
        if (size <= 0) continue;
        target[size] = '\0';
        struct stat file;
        if (strncmp(target, directory, strlen(directory)) != 0 || !strstr(target, " (deleted)")) continue;
        if (stat(link, &file) == 0 && file.st_size > largest) largest = file.st_size; /* the descriptor is a worker's */
    }
    return largest;
}

/* The directory of the configuration comes before that of the environment; the file has no name there, whether the
 * file system has such files or the name is removed at once. */
static void check_file_in_its_directory(void **state) {
    serving_t *serving = *state;
    char own[] = "/tmp/uvhttp-spool-XXXXXX", other[] = "/tmp/uvhttp-other-XXXXXX";
    assert_non_null(mkdtemp(own));
    assert_non_null(mkdtemp(other));
    serving->config.spool_memory = 4096;
    bool is_set = serving->user == NULL;
    if (is_set) set_directory(serving, own);
    setenv("TMPDIR", is_set ? other : own, 1);
    start(state);
    int fd = client_connect(serving->port);
    send_head(fd, "/spool", 5000);
    client_send(fd, text_of(5000), 4999);
    WAIT_UNTIL(largest_file_in(own) == 4096);
    assert_int_equal(largest_file_in(other), -1);
    assert_int_equal(rmdir(other), 0);
    assert_int_equal(rmdir(own), 0); /* no name is there */
    client_send(fd, text_of(5000) + 4999, 1);
    expect_sum(fd, 5000, "");
    WAIT_UNTIL(largest_file_in(own) == -1); /* and nothing is left open */
    close(fd);
    unsetenv("TMPDIR");
}

static void test_the_file_is_in_the_directory_of_the_configuration(void **state) {
    check_file_in_its_directory(state);
}

static void test_the_file_is_in_the_directory_of_the_environment(void **state) {
    ((serving_t *)*state)->user = *state;
    check_file_in_its_directory(state);
}

static void test_a_file_system_without_nameless_files_serves_too(void **state) {
    atomic_store(&without_tmpfile, true);
    check_file_in_its_directory(state);
    assert_true(atomic_load(&refused_tmpfiles) > 0);
    atomic_store(&without_tmpfile, false);
}

/* A file beyond what the system allows gives the same response as a full disk. */
static void test_a_full_disk_is_507(void **state) {
    serving_t *serving = *state;
    serving->config.spool_memory = 4096;
    start(state);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 10000, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int fd = client_connect(serving->port);
    send_head(fd, "/spool", 100000);
    client_send_text(fd, "x");
    client_send(fd, text_of(15000), 15000);
    expect_status(fd, 507, false);
    close(fd);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(counter(serving, "rejected_upload_no_space"), 1);
    assert_int_equal(worked.handled, 0);
}

/* The space of a body is free when a thread has closed its file, which is later than its response. */
static void upload_when_there_is_space(const serving_t *serving) {
    for (int tries = 0, status = 503; status != 200; tries++) {
        assert_true(tries < 1000);
        int fd = client_connect(serving->port);
        send_head(fd, "/spool", 49152);
        client_send(fd, text_of(49152), 49152);
        status = client_read(fd)->status;
        close(fd);
    }
}

static void test_the_space_of_all_files_is_bounded_and_given_back(void **state) {
    serving_t *serving = *state;
    serving->config.spool_memory = 4096;
    serving->config.spool_size_max = 50000;
    set_directory(serving, "/tmp");
    start(state);
    int fd = client_connect(serving->port);
    send_head(fd, "/spool", 50001);
    expect_status(fd, 413, false);
    close(fd);
    fd = client_connect(serving->port);
    client_send_text(fd, POST("/spool", CHUNKED) "f000\r\n"); /* it does not say how much it will be */
    client_send(fd, text_of(0xf000), 0xf000);
    expect_status(fd, 413, false);
    close(fd);
    upload_when_there_is_space(serving);
    WAIT_UNTIL((uint64_t)(worked.dones + worked.aborted) == counter(serving, "requests")); /* all space is free */
    int first = client_connect(serving->port);
    send_head(first, "/spool", 45000);
    client_send(first, text_of(40960), 40960);
    WAIT_UNTIL(largest_file_in("/tmp/") == 40960);
    fd = client_connect(serving->port);
    uint64_t full = counter(serving, "spool_full");
    send_head(fd, "/spool", 12288);
    client_send(fd, text_of(12288), 12288);
    expect_status(fd, 503, true);
    assert_int_equal(counter(serving, "spool_full"), full + 1);
    close(fd);
    int handled = worked.handled, aborted = worked.aborted;
    client_reset(first);
    WAIT_UNTIL(atomic_load(&worked.aborted) > aborted);
    assert_int_equal(worked.handled, handled);
    upload_when_there_is_space(serving);
}

/* What fits into memory needs no file, whether it announces its size or not. */
static void test_without_files_small_bodies_are_served(void **state) {
    serving_t *serving = *state;
    serving->config.spool_memory = 4096;
    serving->config.spool_size_max = 0;
    start(state);
    int fd = client_connect(serving->port);
    send_head(fd, "/spool", 4000);
    client_send(fd, text_of(4000), 4000);
    expect_sum(fd, 4000, "");
    client_send_text(fd, POST("/spool", CHUNKED) "fa0\r\n");
    client_send(fd, text_of(4000), 4000);
    client_send_text(fd, "\r\n0\r\n\r\n");
    expect_sum(fd, 4000, "");
    send_head(fd, "/spool", 5000);
    expect_status(fd, 413, false);
    close(fd);
    fd = client_connect(serving->port);
    client_send_text(fd, POST("/spool", CHUNKED) "1388\r\n");
    client_send(fd, text_of(5000), 5000);
    expect_status(fd, 413, false);
    close(fd);
    assert_int_equal(counter(serving, "bodies_spooled"), 0);
}

static void test_a_client_that_goes_meanwhile(void **state) {
    serving_t *serving = *state;
    serving->config.spool_memory = 4096;
    start(state);
    for (int i = 1; i <= 20; i++) {
        int fd = client_connect(serving->port);
        send_head(fd, "/spool", 100000);
        client_send(fd, text_of(5000 * (size_t)i), 5000 * (size_t)i - (i == 20));
        WAIT_UNTIL(counter(serving, "requests") == (uint64_t)i); /* a reset may throw away what was not read */
        if (i % 2)
            client_reset(fd);
        else
            close(fd);
        WAIT_UNTIL(atomic_load(&worked.aborted) == i);
    }
    assert_int_equal(worked.handled, 0);
}

static void test_a_stop_while_bodies_come(void **state) {
    serving_t *serving = *state;
    serving->config.spool_memory = 4096;
    serving->config.drain_timeout = 0;
    start(state);
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = client_connect(serving->port);
        send_head(fds[i], "/spool", 1 << 20);
        client_send(fds[i], text_of(50000), 50000);
    }
    WAIT_UNTIL(counter(serving, "bodies_spooled") == 4);
    serving_stop(serving);
    assert_int_equal(worked.aborted + worked.dones, 4);
    for (int i = 0; i < 4; i++) close(fds[i]);
}

/* A body in chunks of one byte, of which many come at once, is not read one by one. */
static void test_small_chunks_become_large_pieces(void **state) {
    enum { SIZE = 50000 };
    static const char *const paths[] = {"/spool", "/live", "/coroutine"};
    static char wire[SIZE * 6];
    serving_t *serving = start(state);
    const char *data = text_of(SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        memcpy(wire + 6 * i, "1\r\n?\r\n", 6);
        wire[6 * i + 3] = data[i];
    }
    for (size_t i = 0; i < (UVHTTP_WITH_COROUTINES ? 3 : 2); i++) {
        atomic_store(&worked.pieces, 0);
        int fd = client_connect(serving->port);
        char head[128];
        snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\n" CHUNKED "\r\n", paths[i]);
        client_send_text(fd, head);
        client_send(fd, wire, sizeof wire);
        client_send_text(fd, "0\r\n\r\n");
        expect_sum(fd, SIZE, "");
        assert_true(atomic_load(&worked.pieces) < SIZE / 50);
        close(fd);
    }
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_ERROR);
    return RUN_ON_EACH(test_slow_uploads_hold_no_thread, test_what_comes_is_what_is_read,
                       test_live_bodies_leave_a_share_of_the_threads, test_who_waits_too_long_for_a_thread_gets_503,
                       test_a_thread_waits_for_a_live_body_as_long_as_it_wants, test_slow_readers_keep_nobody_waiting,
                       test_a_directory_that_is_removed_is_500, test_the_file_is_in_the_directory_of_the_configuration,
                       test_the_file_is_in_the_directory_of_the_environment,
                       test_a_file_system_without_nameless_files_serves_too, test_a_full_disk_is_507,
                       test_the_space_of_all_files_is_bounded_and_given_back,
                       test_without_files_small_bodies_are_served, test_a_client_that_goes_meanwhile,
                       test_a_stop_while_bodies_come, test_small_chunks_become_large_pieces);
}
