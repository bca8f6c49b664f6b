/* Owns: tests of how lines reach standard error: a slow, full or closed one holds up nobody, and every line is written
 * or counted. Standard error is replaced by pipes and files; what needs a process of its own runs in a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "obs/log.h"
#include "obs/log_line.h"
#include "obs/log_writer.h"

#define SOME 2000       /* lines that the pipe does not hold, but pipe and ring do */
#define ABUNDANCE 20000 /* lines of 50 bytes and more: they fill pipe and ring several times */

static int saved_stderr = -1, reader = -1;
static uvhttp_log_stats_t before;

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Standard error becomes the write end of a pipe that nobody reads yet. */
static void use_pipe(void) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    if (reader >= 0) close(reader);
    reader = ends[0];
}

static int setup(void **state) {
    (void)state;
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_DEBUG);
    uvhttp_log_set_rate_limit(0);
    uvhttp_log_stats(&before);
    use_pipe();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(reader);
    reader = -1;
    uvhttp_log_set_format(UVHTTP_LOG_FORMAT_TEXT);
    return 0;
}

static uvhttp_log_stats_t stats_since(void) {
    uvhttp_log_stats_t now;
    uvhttp_log_stats(&now);
    now.lines -= before.lines;
    now.dropped -= before.dropped;
    now.failed -= before.failed;
    return now;
}

/* --- reading what was logged --- */

/* All that comes until the pipe has no writer, or (until not NULL) a line has come that contains it. */
static char *read_pipe(const char *until) {
    size_t capacity = 1 << 16, used = 0;
    char *text = malloc(capacity);
    assert_non_null(text);
    for (;;) {
        if (capacity - used < 4096) assert_non_null(text = realloc(text, capacity *= 2));
        ssize_t got = read(reader, text + used, capacity - used - 1);
        assert_true(got >= 0);
        used += (size_t)got;
        text[used] = '\0';
        if (got == 0 || (until && strstr(text, until))) return text;
    }
}

/* Lines of test "n <number>" are in order, and all lines are whole. Returns how many there are. */
static unsigned count_in_order(const char *text, unsigned *reported) {
    unsigned count = 0, last = 0, number;
    *reported = 0;
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        const char *message = strstr(text, " test: n ");
        if (!message || message > end) message = NULL;
        if (message && sscanf(message, " test: n %u padding to fill the pipe\n", &number) == 1) {
            assert_true(count == 0 || number > last);
            last = number;
            count++;
            assert_memory_equal(end - 4, "pipe", 4);
        } else {
            unsigned dropped;
            const char *report = strstr(text, "log: ");
            assert_non_null(report);
            if (sscanf(report, "log: %u", &dropped) == 1) *reported += dropped;
        }
    }
    assert_int_equal(*text, '\0');
    return count;
}

static void log_many(unsigned first, unsigned count) {
    for (unsigned i = 0; i < count; i++) UVHTTP_LOG_INFO("test: n %u padding to fill the pipe", first + i);
}

/* --- tests --- */

static void test_without_a_server_a_line_is_written_when_the_call_returns(void **state) {
    (void)state;
    UVHTTP_LOG_WARN("test: now");
    fcntl(reader, F_SETFL, O_NONBLOCK);
    char text[256] = "";
    assert_true(read(reader, text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, " WARN  test: now\n"));
}

static void test_nobody_reads_and_nobody_waits(void **state) {
    (void)state;
    uvhttp__log_writer_open();
    log_many(0, ABUNDANCE); /* were it to wait, this test would not end */
    uvhttp_log_stats_t stats = stats_since();
    assert_true(stats.dropped > 0);
    assert_int_equal(uvhttp_log_flush(20), UVHTTP_E_TIMEOUT);
    for (int i = 0; i < 100; i++) UVHTTP_LOG_ERROR("test: n %d padding to fill the pipe", ABUNDANCE + i);
    assert_int_equal(stats_since().dropped, stats.dropped); /* there is space for errors */
    static char piece[100000]; /* more than the pipe holds: some batches are written, others wait */
    for (size_t used = 0; used < sizeof piece;) {
        ssize_t got = read(reader, piece, sizeof piece - used);
        assert_true(got > 0);
        used += (size_t)got;
    }
    assert_int_equal(uvhttp_log_flush(20), UVHTTP_E_TIMEOUT);
    free(read_pipe("n 20099 "));
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
}

static void test_what_is_dropped_is_reported_where_it_is_missing(void **state) {
    (void)state;
    uvhttp__log_writer_open();
    log_many(0, ABUNDANCE);
    uint64_t dropped = stats_since().dropped;
    assert_true(dropped > 0);
    pthread_t thread;
    char *text = NULL;
    assert_int_equal(pthread_create(&thread, NULL, (void *(*)(void *))read_pipe, NULL), 0);
    assert_int_equal(uvhttp_log_flush(10000), UVHTTP_OK);
    log_many(ABUNDANCE, 3);
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
    close(STDERR_FILENO);
    pthread_join(thread, (void **)&text);
    unsigned reported, count = count_in_order(text, &reported);
    assert_int_equal(reported, dropped);
    assert_int_equal(count + dropped, ABUNDANCE + 3);
    assert_int_equal(stats_since().failed, 0);
    assert_int_equal(stats_since().lines, count + 1); /* the report */
    const char *report = strstr(text, "dropped here");
    assert_non_null(report);
    assert_non_null(strstr(report, "test: n 20000 "));
    assert_null(strstr(report + 1, "dropped here"));
    free(text);
}

static void test_a_closed_pipe_is_counted_and_reported_later(void **state) {
    (void)state;
    uvhttp__log_writer_open();
    close(reader);
    reader = -1;
    for (unsigned i = 0; i < 5; i++) {
        log_many(i, 1);
        assert_int_equal(uvhttp_log_flush(5000), UVHTTP_OK);
    }
    assert_int_equal(stats_since().failed, 5);
    use_pipe();
    log_many(5, 1);
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
    close(STDERR_FILENO);
    char *text = read_pipe(NULL);
    unsigned reported, count = count_in_order(text, &reported);
    assert_int_equal(count, 1);
    assert_int_equal(reported, 5);
    const char *report =
        strstr(text, "WARN  log: 5 lines were lost here: writing to standard error failed: Broken pipe");
    assert_non_null(report);
    assert_non_null(strstr(report, "n 5 "));
    assert_int_equal(stats_since().failed, 5);
    assert_int_equal(stats_since().lines, 2);
    free(text);
}

static void test_a_full_disk_is_counted_and_reported_later(void **state) {
    (void)state;
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) skip();
    dup2(full, STDERR_FILENO);
    close(full);
    uvhttp__log_writer_open();
    log_many(0, 3);
    assert_int_equal(uvhttp_log_flush(5000), UVHTTP_OK);
    assert_int_equal(stats_since().failed, 3);
    use_pipe();
    log_many(3, 1);
    assert_int_equal(uvhttp_log_flush(5000), UVHTTP_OK);
    log_many(4, 1);
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
    close(STDERR_FILENO);
    char *text = read_pipe(NULL);
    unsigned reported, count = count_in_order(text, &reported);
    assert_int_equal(count, 2);
    assert_int_equal(reported, 3); /* once */
    assert_non_null(strstr(text, "No space left on device"));
    free(text);
}

/* Someone else has made the terminal non-blocking: EAGAIN. */
static void test_a_descriptor_that_does_not_block_loses_nothing(void **state) {
    (void)state;
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    uvhttp__log_writer_open();
    log_many(0, SOME);
    pthread_t thread;
    char *text = NULL;
    assert_int_equal(pthread_create(&thread, NULL, (void *(*)(void *))read_pipe, NULL), 0);
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
    close(STDERR_FILENO);
    pthread_join(thread, (void **)&text);
    unsigned reported;
    assert_int_equal(count_in_order(text, &reported), SOME);
    free(text);
}

static void test_the_end_of_a_server_waits_for_a_reader_only_for_a_while(void **state) {
    (void)state;
    uvhttp__log_writer_open();
    log_many(0, SOME);
    uint64_t start_ms = now_ms();
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_ATTACHED_MS);
    assert_in_range(now_ms() - start_ms, 0, UVHTTP__LOG_LAST_MS / 2);
    uvhttp__log_writer_open(); /* another server: the lines that wait are not lost */
    start_ms = now_ms();
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
    assert_in_range(now_ms() - start_ms, UVHTTP__LOG_LAST_MS - 200, UVHTTP__LOG_LAST_MS + 8000);
    uvhttp_log_stats_t stats = stats_since();
    assert_true(stats.lines > 0 && stats.failed > 0);
    assert_int_equal(stats.lines + stats.failed, SOME);
}

static void test_a_file_gets_every_line(void **state) {
    (void)state;
    FILE *temporary = tmpfile();
    assert_non_null(temporary);
    int file = fileno(temporary);
    dup2(file, STDERR_FILENO);
    uvhttp__log_writer_open();
    for (unsigned round = 0; round < 20; round++) log_many(round * 10, 10);
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
    off_t size = lseek(file, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_int_equal(pread(file, text, (size_t)size, 0), size);
    unsigned reported;
    assert_int_equal(count_in_order(text, &reported), 200);
    free(text);
    fclose(temporary);
}

/* --- threads --- */

static atomic_bool finished;

static void *change_settings(void *arg) {
    (void)arg;
    for (unsigned i = 0; !atomic_load(&finished); i++) {
        uvhttp_log_set_level(i % 2 ? UVHTTP_LOG_LEVEL_INFO : UVHTTP_LOG_LEVEL_DEBUG);
        uvhttp_log_set_format(i % 3 ? UVHTTP_LOG_FORMAT_JSON : UVHTTP_LOG_FORMAT_TEXT);
        uvhttp_log_stats_t stats;
        uvhttp_log_stats(&stats);
        uvhttp__log_writer_open();
        if (i % 8 == 0) (void)uvhttp_log_flush(1);
        uvhttp__log_writer_close(0);
    }
    return NULL;
}

static void *log_from_thread(void *arg) {
    (void)arg;
    log_many(0, 3000);
    return NULL;
}

static void test_threads_log_while_settings_change_and_servers_come_and_go(void **state) {
    (void)state;
    pthread_t threads[5], drain;
    char *text = NULL;
    atomic_store(&finished, false);
    assert_int_equal(pthread_create(&drain, NULL, (void *(*)(void *))read_pipe, NULL), 0);
    assert_int_equal(pthread_create(&threads[4], NULL, change_settings, NULL), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, log_from_thread, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    atomic_store(&finished, true);
    pthread_join(threads[4], NULL);
    uvhttp__log_writer_open();
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
    close(STDERR_FILENO);
    pthread_join(drain, (void **)&text);
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, "padding to fill the pipe")); at++) count++;
    uvhttp_log_stats_t stats = stats_since();
    assert_int_equal(count + stats.dropped + stats.failed, 12000);
    assert_int_equal(stats.failed, 0);
    free(text);
}

/* --- processes --- */

/* Runs this program as a child whose standard error is the pipe. Returns what it wrote. */
static char *run_child(const char *mode, int *status) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test_log_writer", mode, (char *)NULL);
        _exit(127);
    }
    close(STDERR_FILENO);
    char *text = read_pipe(NULL);
    assert_int_equal(waitpid(pid, status, 0), pid);
    return text;
}

/* Without a server: the program's own thread writes, and does not get the signal. */
static int write_to_closed_pipe(void) {
    uvhttp_log_stats_t stats;
    for (int i = 0; i < 3; i++) UVHTTP_LOG_ERROR("test: nobody reads this");
    uvhttp_log_stats(&stats);
    sigset_t pending;
    sigpending(&pending);
    return stats.failed == 3 && !sigismember(&pending, SIGPIPE) ? 0 : 1;
}

static int child(const char *mode) {
    uvhttp_log_set_rate_limit(0);
    if (strcmp(mode, "closed") == 0) return write_to_closed_pipe();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_INFO);
    uvhttp__log_writer_open();
    log_many(0, 1500);
    if (strcmp(mode, "exit") == 0) exit(3);
    if (strcmp(mode, "abort") == 0) {
        assert_int_equal(uvhttp_log_flush(5000), UVHTTP_OK);
        abort();
    }
    pid_t pid = fork(); /* "fork": the ring and its thread are the parent's */
    if (pid == 0) {
        log_many(1500, 5); /* written at once: a child that ends by _exit has no other chance */
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    uvhttp__log_writer_close(UVHTTP__LOG_CLOSE_MS);
    return status == 0 ? 0 : 1;
}

static void test_a_closed_pipe_does_not_end_the_program(void **state) {
    (void)state;
    close(reader);
    reader = -1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test_log_writer", "closed", (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_exit_loses_no_line(void **state) {
    (void)state;
    int status;
    char *text = run_child("exit", &status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    unsigned reported;
    assert_int_equal(count_in_order(text, &reported), 1500);
    free(text);
}

static void test_flush_before_abort_loses_no_line(void **state) {
    (void)state;
    int status;
    char *text = run_child("abort", &status);
    assert_true(WIFSIGNALED(status));
    unsigned reported;
    assert_int_equal(count_in_order(text, &reported), 1500);
    free(text);
}

static void test_a_forked_child_writes_its_own_lines_only(void **state) {
    (void)state;
    int status;
    char *text = run_child("fork", &status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unsigned count = 0, seen[1505] = {0}, number;
    for (const char *at = text; (at = strstr(at, "test: n ")); at++) {
        assert_int_equal(sscanf(at, "test: n %u padding", &number), 1);
        assert_true(number < 1505);
        assert_int_equal(seen[number]++, 0);
        count++;
    }
    assert_int_equal(count, 1505);
    free(text);
}

#define IN_PIPE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv) {
    if (argc == 2) return child(argv[1]);
    const struct CMUnitTest tests[] = {
        IN_PIPE(test_without_a_server_a_line_is_written_when_the_call_returns),
        IN_PIPE(test_nobody_reads_and_nobody_waits),
        IN_PIPE(test_what_is_dropped_is_reported_where_it_is_missing),
        IN_PIPE(test_a_closed_pipe_is_counted_and_reported_later),
        IN_PIPE(test_a_closed_pipe_does_not_end_the_program),
        IN_PIPE(test_a_full_disk_is_counted_and_reported_later),
        IN_PIPE(test_a_descriptor_that_does_not_block_loses_nothing),
        IN_PIPE(test_the_end_of_a_server_waits_for_a_reader_only_for_a_while),
        IN_PIPE(test_a_file_gets_every_line),
        IN_PIPE(test_threads_log_while_settings_change_and_servers_come_and_go),
        IN_PIPE(test_exit_loses_no_line),
        IN_PIPE(test_flush_before_abort_loses_no_line),
        IN_PIPE(test_a_forked_child_writes_its_own_lines_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
