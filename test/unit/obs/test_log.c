/* Owns: tests of the log. The environment is read once per process, so those tests run in children of this program. */
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
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "obs/log.h"

static char lines[32][UVHTTP_LOG_MESSAGE_MAX + 1];
static uvhttp_log_level_t levels[32];
static size_t line_count;
static _Atomic uint64_t now_ns;

static uint64_t clock_for_tests(void) {
    return now_ns;
}

static void capture(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    assert_ptr_equal(user, &line_count);
    assert_int_equal(strlen(message), size);
    assert_true(size <= UVHTTP_LOG_MESSAGE_MAX);
    if (line_count < 32) {
        memcpy(lines[line_count], message, size + 1);
        levels[line_count] = level;
    }
    line_count++;
}

static int setup(void **state) {
    (void)state;
    now_ns = UINT64_C(1767997800123456789); /* 2026-01-09T22:30:00.123456789Z */
    uvhttp__log_set_clock(clock_for_tests);
    assert_int_equal(uvhttp_log_set_rate_limit(0), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_level(UVHTTP_LOG_LEVEL_INFO), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_callback(capture, &line_count), UVHTTP_OK);
    line_count = 0;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    uvhttp_log_set_callback(NULL, NULL);
    uvhttp__log_set_clock(NULL);
    return 0;
}

static int evaluated;

static int evaluate(void) {
    return ++evaluated;
}

static void test_levels_below_the_threshold_are_not_even_evaluated(void **state) {
    (void)state;
    evaluated = 0;
    UVHTTP_LOG_DEBUG("test: %d", evaluate());
    assert_int_equal(evaluated, 0);
    UVHTTP_LOG_INFO("test: %d", evaluate());
    UVHTTP_LOG_WARN("test: %d", evaluate());
    UVHTTP_LOG_ERROR("test: %d", evaluate());
    assert_int_equal(line_count, 3);
    assert_string_equal(lines[0], "test: 1");
    assert_int_equal(levels[0], UVHTTP_LOG_LEVEL_INFO);
    assert_int_equal(levels[2], UVHTTP_LOG_LEVEL_ERROR);
    assert_int_equal(uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE), UVHTTP_OK);
    UVHTTP_LOG_ERROR("test: %d", evaluate());
    uvhttp_log(UVHTTP_LOG_LEVEL_NONE, "not a level to log at");
    uvhttp_log(UVHTTP_LOG_LEVEL_ERROR, "the function looks too");
    assert_int_equal(evaluated, 3);
    assert_int_equal(line_count, 3);
    assert_int_equal(uvhttp_log_set_level(UVHTTP_LOG_LEVEL_DEBUG), UVHTTP_OK);
    UVHTTP_LOG_DEBUG("test: debug");
    assert_int_equal(line_count, 4);
    assert_int_equal(uvhttp_log_get_level(), UVHTTP_LOG_LEVEL_DEBUG);
    assert_int_equal(uvhttp_log_set_level((uvhttp_log_level_t)5), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_log_set_level((uvhttp_log_level_t)-1), UVHTTP_E_INVALID);
}

static void test_level_names_parse_in_any_case(void **state) {
    (void)state;
    uvhttp_log_level_t level = UVHTTP_LOG_LEVEL_ERROR;
    assert_int_equal(uvhttp_log_level_parse("wArN", &level), UVHTTP_OK);
    assert_int_equal(level, UVHTTP_LOG_LEVEL_WARN);
    static const char *const wrong[] = {"", "warning", " warn", "2", "off", "WAR"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(uvhttp_log_level_parse(wrong[i], &level), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_log_level_parse(NULL, &level), UVHTTP_E_INVALID);
    assert_int_equal(level, UVHTTP_LOG_LEVEL_WARN);
    for (int i = 0; i <= UVHTTP_LOG_LEVEL_NONE; i++) {
        assert_int_equal(uvhttp_log_level_parse(uvhttp_log_level_name((uvhttp_log_level_t)i), &level), UVHTTP_OK);
        assert_int_equal(level, i);
    }
    assert_string_equal(uvhttp_log_level_name((uvhttp_log_level_t)9), "?");
}

static void test_control_characters_cannot_forge_lines_or_drive_terminals(void **state) {
    (void)state;
    UVHTTP_LOG_WARN("a\nb\rc\td\x1b[31me\x7f"
                    "f%cg\xc2\x9bh\xc3\xa4\xe2\x82\xac",
                    0);
    assert_string_equal(lines[0], "a\\nb\\rc\\td\\x1b[31me\\x7ff\\x00g\\xc2\\x9bh\xc3\xa4\xe2\x82\xac");
    UVHTTP_LOG_WARN("\xc2");
    assert_string_equal(lines[1], "\xc2");
    for (int c = 1; c < 32; c++) UVHTTP_LOG_WARN("%c", c);
    for (size_t i = 0; i < 32 && i < line_count; i++)
        for (const char *at = lines[i]; *at; at++) assert_true((uint8_t)*at >= 32 && *at != 127);
}

static void test_long_messages_are_cut_at_a_whole_character(void **state) {
    (void)state;
    static char text[5000];
    for (size_t size = UVHTTP_LOG_MESSAGE_MAX - 8; size < UVHTTP_LOG_MESSAGE_MAX + 8; size++) {
        memset(text, 'x', size), text[size] = '\0';
        line_count = 0;
        UVHTTP_LOG_WARN("%s", text);
        if (size <= UVHTTP_LOG_MESSAGE_MAX) {
            assert_string_equal(lines[0], text);
        } else {
            assert_int_equal(strlen(lines[0]), UVHTTP_LOG_MESSAGE_MAX);
            assert_string_equal(lines[0] + UVHTTP_LOG_MESSAGE_MAX - 4, "x...");
        }
    }
    for (size_t shift = 0; shift < 4; shift++) { /* euro signs, three bytes each, at every shift */
        memset(text, 'x', shift);
        for (size_t at = shift; at + 3 < 2000; at += 3) memcpy(text + at, "\xe2\x82\xac", 4);
        line_count = 0;
        UVHTTP_LOG_WARN("%s", text);
        size_t size = strlen(lines[0]);
        assert_true(size > UVHTTP_LOG_MESSAGE_MAX - 4 && size <= UVHTTP_LOG_MESSAGE_MAX);
        assert_string_equal(lines[0] + size - 3, "...");
        assert_int_equal((size - 3 - shift) % 3, 0);
    }
    memset(text, '\n', 700), text[700] = '\0'; /* fits, but not when escaped */
    line_count = 0;
    UVHTTP_LOG_WARN("%s", text);
    assert_true(strlen(lines[0]) <= UVHTTP_LOG_MESSAGE_MAX);
    assert_string_equal(lines[0] + strlen(lines[0]) - 5, "\\n...");
}

static void test_errno_is_kept(void **state) {
    (void)state;
    uvhttp_log_set_callback(NULL, NULL); /* stderr, and that is closed: write(2) fails */
    int saved = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    errno = ENOENT;
    UVHTTP_LOG_WARN("test");
    int after = errno;
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(after, ENOENT);
    uvhttp_log_set_callback(capture, &line_count);
    uvhttp_log_set_rate_limit(1);
    UVHTTP_LOG_WARN("passes");
    errno = EIO;
    UVHTTP_LOG_WARN("suppressed");
    assert_int_equal(errno, EIO);
    uvhttp_log_set_rate_limit(0);
}

static void test_rate_limit_says_what_it_suppressed(void **state) {
    (void)state;
    assert_int_equal(uvhttp_log_set_rate_limit(10), UVHTTP_OK);
    for (int i = 0; i < 25; i++) UVHTTP_LOG_ERROR("test: %d", i);
    assert_int_equal(line_count, 10);
    assert_string_equal(lines[9], "test: 9");
    now_ns += 500000000; /* still the same second */
    UVHTTP_LOG_ERROR("test: suppressed too");
    assert_int_equal(line_count, 10);
    now_ns += 500000000;
    UVHTTP_LOG_ERROR("test: next second");
    assert_int_equal(line_count, 12);
    assert_string_equal(lines[10], "log: suppressed 16 messages of level ERROR in the last second");
    assert_int_equal(levels[10], UVHTTP_LOG_LEVEL_WARN);
    assert_string_equal(lines[11], "test: next second");
    for (int i = 0; i < 9; i++) UVHTTP_LOG_ERROR("test");
    now_ns += 1000000000;
    UVHTTP_LOG_ERROR("nothing was suppressed");
    assert_int_equal(line_count, 22);
    for (int i = 0; i < 9; i++) UVHTTP_LOG_ERROR("test");
    assert_int_equal(line_count, 31);
    now_ns -= UINT64_C(3600) * 1000000000; /* the clock was set back: no silence for an hour */
    UVHTTP_LOG_ERROR("test: after the clock was set back");
    assert_int_equal(line_count, 32);
    assert_int_equal(uvhttp_log_set_rate_limit(1000001), UVHTTP_E_INVALID);
}

static void test_a_flood_of_one_level_suppresses_no_other(void **state) {
    (void)state;
    uvhttp_log_stats_t before, after;
    assert_int_equal(uvhttp_log_stats(&before), UVHTTP_OK);
    uvhttp_log_set_rate_limit(3);
    for (int i = 0; i < 10; i++) UVHTTP_LOG_INFO("flood");
    UVHTTP_LOG_WARN("w");
    UVHTTP_LOG_ERROR("e");
    assert_int_equal(line_count, 5);
    assert_string_equal(lines[4], "e");
    now_ns += 1000000000;
    UVHTTP_LOG_INFO("next");
    assert_string_equal(lines[5], "log: suppressed 7 messages of level INFO in the last second");
    assert_string_equal(lines[6], "next");
    uvhttp_log_stats(&after);
    assert_int_equal(after.suppressed - before.suppressed, 7);
    assert_int_equal(after.lines, before.lines); /* those of a callback do not count */
    assert_int_equal(uvhttp_log_stats(NULL), UVHTTP_E_INVALID);
}

static void test_what_is_pending_is_reported_once(void **state) {
    (void)state;
    uvhttp_log_set_rate_limit(2);
    for (int i = 0; i < 3; i++) UVHTTP_LOG_WARN("test");
    uvhttp__log_report_suppressed();
    assert_int_equal(line_count, 3);
    assert_string_equal(lines[2], "log: suppressed 1 message of level WARN in the last second");
    uvhttp__log_report_suppressed();
    assert_int_equal(line_count, 3);
    UVHTTP_LOG_WARN("the second is still full");
    assert_int_equal(line_count, 3);
    uvhttp_log_set_rate_limit(0); /* reports the one since */
    assert_int_equal(line_count, 4);
}

static int nested_status;

static void log_inside(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)message, (void)size;
    ++*(int *)user;
    UVHTTP_LOG_ERROR("from inside");
    uvhttp__log_report_suppressed();
    nested_status = uvhttp_log_set_callback(NULL, NULL);
}

static void test_callback_that_logs_is_not_called_by_it(void **state) {
    (void)state;
    int calls = 0;
    uvhttp_log_set_callback(log_inside, &calls);
    UVHTTP_LOG_ERROR("test");
    assert_int_equal(calls, 1);
    assert_int_equal(nested_status, UVHTTP_E_STATE);
    UVHTTP_LOG_ERROR("test");
    assert_int_equal(calls, 2);
}

static int plain_calls; /* not atomic: calls must not overlap */

static void count_plainly(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)message, (void)size, (void)user;
    plain_calls++;
}

static void *log_much(void *arg) {
    for (int i = 0; i < 2000; i++) {
        now_ns += 100000;
        UVHTTP_LOG_WARN("thread %d: %d", (int)(intptr_t)arg, i);
        UVHTTP_LOG_DEBUG("filtered out");
        if (i % 500 == 0) uvhttp_log_set_level(UVHTTP_LOG_LEVEL_INFO);
    }
    return NULL;
}

static void test_threads_may_log_at_once_and_calls_do_not_overlap(void **state) {
    (void)state;
    plain_calls = 0;
    uvhttp_log_set_callback(count_plainly, NULL);
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, log_much, (void *)i), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    uvhttp_log_set_callback(NULL, NULL);
    assert_int_equal(plain_calls, 8000);
}

static uint64_t sum_suppressed;

static void add_up(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)size, (void)user;
    unsigned n;
    if (sscanf(message, "log: suppressed %u", &n) == 1)
        sum_suppressed += n;
    else
        plain_calls++;
}

static void test_every_message_of_every_thread_is_either_written_or_counted(void **state) {
    (void)state;
    plain_calls = 0, sum_suppressed = 0;
    uvhttp_log_set_callback(add_up, NULL);
    uvhttp_log_set_rate_limit(1000);
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, log_much, (void *)i), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    uvhttp__log_report_suppressed();
    uvhttp_log_set_callback(NULL, NULL);
    assert_int_equal(plain_calls + sum_suppressed, 8000);
    assert_true(sum_suppressed > 0);
    uvhttp_log_set_rate_limit(0);
}

/* --- in a child: a fresh process with an environment, its stderr read to the end --- */

static void run_child(const char *program, const char *mode, const char *level, char *output, size_t capacity) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (level)
            setenv("UVHTTP_LOG_LEVEL", level, 1);
        else
            unsetenv("UVHTTP_LOG_LEVEL");
        execl(program, program, mode, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(ends[0], output + used, capacity - 1 - used)) > 0;) used += (size_t)n;
    output[used] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const char *self;

static int child(const char *mode) {
    uvhttp__log_set_clock(clock_for_tests);
    now_ns = UINT64_C(1767997800123456789);
    if (strcmp(mode, "set") == 0) uvhttp_log_set_level(UVHTTP_LOG_LEVEL_ERROR);
    UVHTTP_LOG_DEBUG("test: d");
    UVHTTP_LOG_INFO("test: i");
    UVHTTP_LOG_WARN("test: w");
    UVHTTP_LOG_ERROR("test: e");
    return 0;
}

#define STAMP "2026-01-09T22:30:00.123Z "
#define LINE_D STAMP "DEBUG test: d\n"
#define LINE_I STAMP "INFO  test: i\n"
#define LINE_W STAMP "WARN  test: w\n"
#define LINE_E STAMP "ERROR test: e\n"
#ifdef NDEBUG
#define LINES_DEFAULT LINE_W LINE_E
#define DEFAULT_NAME "WARN"
#else
#define LINES_DEFAULT LINE_I LINE_W LINE_E
#define DEFAULT_NAME "INFO"
#endif

static void test_environment_sets_the_level_and_lines_have_their_form(void **state) {
    (void)state;
    static const struct {
        const char *level, *output;
    } cases[] = {{"debug", LINE_D LINE_I LINE_W LINE_E},
                 {"Info", LINE_I LINE_W LINE_E},
                 {"WARN", LINE_W LINE_E},
                 {"error", LINE_E},
                 {"none", ""},
                 {"", LINES_DEFAULT},
                 {NULL, LINES_DEFAULT}};
    char output[4096];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_child(self, "plain", cases[i].level, output, sizeof output);
        assert_string_equal(output, cases[i].output);
    }
}

static void test_wrong_environment_is_one_warning_that_names_it(void **state) {
    (void)state;
    char output[4096];
    run_child(self, "plain", "verb\nose", output, sizeof output);
    assert_string_equal(output,
                        STAMP "WARN  log: UVHTTP_LOG_LEVEL is \"verb\\nose\", which is none of debug, info, warn, "
                              "error, none; using " DEFAULT_NAME "\n" LINES_DEFAULT);
}

static void test_set_level_wins_over_the_environment(void **state) {
    (void)state;
    char output[4096];
    run_child(self, "set", "debug", output, sizeof output);
    assert_string_equal(output, LINE_E);
}

static atomic_bool enough;

static void take_a_while(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)message, (void)size, (void)user;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *log_until_enough(void *arg) {
    (void)arg;
    while (!atomic_load(&enough)) UVHTTP_LOG_ERROR("test: a thread logs");
    return NULL;
}

static void test_a_child_may_log_that_was_forked_while_a_thread_was_in_the_callback(void **state) {
    (void)state;
    pthread_t thread;
    atomic_store(&enough, false);
    assert_int_equal(uvhttp_log_set_callback(take_a_while, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_rate_limit(0), UVHTTP_OK);
    assert_int_equal(pthread_create(&thread, NULL, log_until_enough, NULL), 0);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    for (int i = 0; i < 20; i++) {
        int status = 0;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(5);
            UVHTTP_LOG_ERROR("test: the child logs");
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    assert_int_equal(uvhttp_log_set_callback(NULL, NULL), UVHTTP_OK);
}

int main(int argc, char **argv) {
    if (argc == 2) return child(argv[1]);
    self = "/proc/self/exe";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_levels_below_the_threshold_are_not_even_evaluated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_level_names_parse_in_any_case, setup, teardown),
        cmocka_unit_test_setup_teardown(test_control_characters_cannot_forge_lines_or_drive_terminals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_messages_are_cut_at_a_whole_character, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errno_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rate_limit_says_what_it_suppressed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_flood_of_one_level_suppresses_no_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_pending_is_reported_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_callback_that_logs_is_not_called_by_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads_may_log_at_once_and_calls_do_not_overlap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_message_of_every_thread_is_either_written_or_counted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_child_may_log_that_was_forked_while_a_thread_was_in_the_callback, setup,
                                        teardown),
        cmocka_unit_test(test_environment_sets_the_level_and_lines_have_their_form),
        cmocka_unit_test(test_wrong_environment_is_one_warning_that_names_it),
        cmocka_unit_test(test_set_level_wins_over_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
