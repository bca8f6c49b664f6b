/* The configuration from files and from the environment: every mistake with its exact place, and nothing applied in
 * part. */
/* Needs: yaml. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvhttp.h>

#include <cmocka.h>

#include "config/config.h"
#include "support/failing_allocator.h"

static char path[] = "/tmp/uvhttp-config-XXXXXX"; /* every test writes it anew */

static void write_file(const char *text, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int load_text(uvhttp_server_config_t *config, const char *text, char *message, size_t size) {
    write_file(text, strlen(text));
    return uvhttp_server_config_load(config, path, message, size);
}

/* The file is refused with these lines, in which the path is left out, and the configuration is as before. */
static void expect_bytes_refused(const char *text, size_t text_size, const char *lines) {
    uvhttp_server_config_t config, before;
    uvhttp_server_config_default(&config);
    config.backlog = 77;
    before = config;
    char message[4096], seen[4096] = "";
    write_file(text, text_size);
    assert_int_equal(uvhttp_server_config_load(&config, path, message, sizeof message), UVHTTP_E_CONFIG);
    assert_memory_equal(&config, &before, sizeof config);
    size_t used = 0;
    for (const char *line = message; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, path, strlen(path)) == 0) line += strlen(path) + 1;
        used += (size_t)snprintf(seen + used, sizeof seen - used, "%s%.*s", used ? "\n" : "", (int)strcspn(line, "\n"),
                                 line);
    }
    assert_string_equal(seen, lines);
}

static void expect_refused(const char *text, const char *lines) {
    expect_bytes_refused(text, strlen(text), lines);
}

static void test_fields_are_applied_and_others_stay(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.backlog = 77;
    char message[200] = "old";
    const char *text = "\xef\xbb\xbf# a comment\r\nio_threads: 3\r\nengine: \"libuv\"   # words may be quoted, and "
                       "this one is of 0.1\n"
                       "keepalive_timeout : never\nhalf_close: yes\n\nperformance:\n    log_level: ERROR\n"
                       "    enable_statistics: off\nbody_size_max: 4294967296\n";
    assert_int_equal(load_text(&config, text, message, sizeof message), UVHTTP_OK);
    assert_string_equal(message, "");
    assert_int_equal(config.io_threads, 3);
    assert_int_equal(config.engine, UVHTTP_ENGINE_EPOLL);
    assert_int_equal(config.keepalive_timeout, UVHTTP_NEVER);
    assert_true(config.half_close);
    assert_int_equal(config.performance.log_level, UVHTTP_LOG_LEVEL_ERROR);
    assert_false(config.performance.enable_statistics);
    assert_int_equal(config.body_size_max, UINT64_C(1) << 32);
    assert_int_equal(config.backlog, 77);
    assert_int_equal(load_text(&config, "{io_threads: 5, performance: {performance_mode: true}}", message, 1), 0);
    assert_int_equal(config.io_threads, 5);
    assert_true(config.performance.performance_mode);
}

static void test_a_file_that_says_nothing_changes_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {"",           "\n\n", "# only a comment", "---\n",
                                        "---\n...\n", "{}",   "%YAML 1.1\n---\n"};
    uvhttp_server_config_t config, before;
    uvhttp_server_config_default(&config);
    before = config;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(load_text(&config, texts[i], NULL, 0), UVHTTP_OK);
        assert_memory_equal(&config, &before, sizeof config);
    }
}

static void test_unknown_names_are_reported_with_the_nearest(void **state) {
    (void)state;
    expect_refused("io_threads: 2\nmax_conections: 5\n",
                   "2:1: there is no field \"max_conections\", did you mean \"max_connections\"?");
    expect_refused("  Keep-Alive_timeout: 5\n",
                   "1:3: there is no field \"Keep-Alive_timeout\", did you mean \"keepalive_timeout\"?");
    expect_refused("something_else_entirely: 5\n", "1:1: there is no field \"something_else_entirely\"");
    expect_refused("performence:\n  log_level: info\n",
                   "1:1: there is no field \"performence\", did you mean \"performance\"?");
    expect_refused("performance:\n  log_levle: info\n",
                   "2:3: there is no field \"log_levle\" in \"performance\", did you mean \"log_level\"?");
    expect_refused("log_level: info\n", "1:1: log_level stands in the mapping \"performance\"");
    expect_refused("performance: {backlog: 5}\n", "1:15: backlog stands outside of mappings");
    expect_refused("struct_size: 5\n", "1:1: there is no field \"struct_size\"");
    expect_refused("\"a\\nb\\e[31m\": {deep: [1, {x: 2}]}\nbacklog: 0\n",
                   "1:1: there is no field \"a?b?[31m\"\n2:10: backlog is \"0\": expected 1..65535");
    expect_refused("? {a: b}\n: 5\n[1]: 5\n", "1:3: expected the name of a field\n3:1: expected the name of a field");
    expect_refused("gr\xc3\xb6\xc3\x9f"
                   "e: 5\n",
                   "1:1: there is no field \"gr\xc3\xb6\xc3\x9f"
                   "e\"");
}

static void test_wrong_values_are_reported_with_what_is_expected(void **state) {
    (void)state;
    expect_refused("keepalive_timeout: 604801",
                   "1:20: keepalive_timeout is \"604801\": expected 1..604800 seconds or never");
    expect_refused("keepalive_timeout: 1m", "1:20: keepalive_timeout is \"1m\": expected 1..604800 seconds or never");
    expect_refused("backlog: -5", "1:10: backlog is \"-5\": expected 1..65535");
    expect_refused("backlog: 010", "1:10: backlog is \"010\": expected 1..65535");
    expect_refused("backlog: 0x10", "1:10: backlog is \"0x10\": expected 1..65535");
    expect_refused("backlog: 5.0", "1:10: backlog is \"5.0\": expected 1..65535");
    expect_refused("backlog: ~", "1:10: backlog is \"~\": expected 1..65535");
    expect_refused("backlog:\n", "1:9: backlog has no value: expected 1..65535");
    expect_refused("backlog: \"5\"", "1:10: backlog is the text \"5\": expected 1..65535, without quotes");
    expect_refused("half_close: 'yes'", "1:13: half_close is the text \"yes\": expected true or false, without quotes");
    expect_refused("half_close: maybe", "1:13: half_close is \"maybe\": expected true or false");
    expect_refused("engine: poll", "1:9: engine is \"poll\": expected auto, uring or epoll");
    expect_refused("engine: \"epoll\\0x\"", "1:9: engine has a NUL in it: expected auto, uring or epoll");
    expect_refused("read_buffer_count: 65", "1:20: read_buffer_count is \"65\": expected 8..32768, a power of two");
    expect_refused("backlog: [5, 6]\nengine: {epoll: 1}\nquiet: 7",
                   "1:10: backlog is a list: expected 1..65535\n"
                   "2:9: engine is a mapping: expected auto, uring or epoll\n"
                   "3:8: quiet is \"7\": expected true or false");
    expect_refused("performance: 5\nbacklog: 0",
                   "1:14: performance is no mapping: its fields stand below it, indented\n"
                   "2:10: backlog is \"0\": expected 1..65535");
    expect_refused("performance:\n", "1:13: performance is no mapping: its fields stand below it, indented");
    expect_refused("backlog: 12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                   "1:10: backlog is \"123456789012345678901234567890123456789012345678901234567890...\": expected "
                   "1..65535");
}

static void test_what_is_set_twice_is_reported_with_both_lines(void **state) {
    (void)state;
    expect_refused("backlog: 5\nquiet: true\nbacklog: 6\n", "3:1: backlog is set twice, first in line 1");
    expect_refused("performance: {}\nperformance: {log_level: info}\n",
                   "2:1: performance is set twice, first in line 1");
    expect_refused("performance:\n  log_level: info\n  log_level: warn\n",
                   "3:3: log_level is set twice, first in line 2");
}

static void test_what_no_configuration_needs_is_refused(void **state) {
    (void)state;
    expect_refused("backlog: &many 5\n", "1:10: anchors and aliases are not supported: write the value");
    expect_refused("backlog: 5\nio_threads: *many\n", "2:13: anchors and aliases are not supported: write the value");
    expect_refused("*many : 5\n", "1:1: anchors and aliases are not supported: write the value");
    expect_refused("backlog: !!int 5\n", "1:10: tags are not supported: write the value alone");
    expect_refused("backlog: !!python/object:os.system 5\n", "1:10: tags are not supported: write the value alone");
    expect_refused("backlog: 5\n---\nbacklog: 6\n", "2:1: a second document: a file is one");
    expect_refused("- backlog\n", "1:1: expected fields, one in a line: \"name: value\"");
    expect_refused("backlog\n", "1:1: expected fields, one in a line: \"name: value\"");
    expect_refused("performance:\n  <<: {log_level: info}\n", "2:3: there is no field \"<<\" in \"performance\"");
}

static void test_text_that_is_no_yaml_is_reported_with_its_place(void **state) {
    (void)state;
    expect_refused("performance:\n\tlog_level: info\n", "2:1: a tab: YAML is indented with spaces");
    expect_refused("backlog: 5\nengine epoll\nquiet: true\n",
                   "3:1: could not find expected ':', while scanning a simple key that begins in line 2");
    expect_refused("backlog: 5\n io_threads: 3\n", "1:10: backlog is \"5 io_threads\": expected 1..65535\n"
                                                   "2:12: mapping values are not allowed in this context");
    expect_refused("backlog: \"5\n", "2:1: found unexpected end of stream, while scanning a quoted scalar that begins "
                                     "in line 1");
    expect_refused("{backlog: 5\n", "2:1: did not find expected ',' or '}', while parsing a flow mapping that begins "
                                    "in line 1");
    expect_refused("quiet: maybe\n}\n", "1:8: quiet is \"maybe\": expected true or false\n"
                                        "2:1: did not find expected key, while parsing a block mapping that begins "
                                        "in line 1");
    expect_refused("%YAML 3.0\n---\nbacklog: 5\n", "1:1: found incompatible YAML document");
}

static void test_text_that_is_no_utf_8_is_reported_with_its_place(void **state) {
    (void)state;
    expect_refused("backlog: 5\n# gr\xf6\xdf"
                   "e\n",
                   "2:6: the file is not UTF-8 text: invalid trailing UTF-8 octet");
    expect_refused("# \xc3\xb6\xff\n", "1:4: the file is not UTF-8 text: invalid leading UTF-8 octet");
    expect_bytes_refused("backlog: 5\0\n", 12, "1:11: the file is not UTF-8 text: control characters are not allowed");
    expect_refused("backlog: \x1b[31m5\n", "1:10: the file is not UTF-8 text: control characters are not allowed");
    expect_bytes_refused("\xff\xfe"
                         "b\0a\0",
                         6, "1:1: the file is not UTF-8 text: invalid leading UTF-8 octet");
}

static void test_all_problems_are_reported_or_counted(void **state) {
    (void)state;
    const char *text = "backlog: 0\nquiet: 5\nengine: x\n";
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    char whole[400], message[400];
    assert_int_equal(load_text(&config, text, whole, sizeof whole), UVHTTP_E_CONFIG);
    for (size_t size = 0; size < sizeof message; size++) {
        memset(message, 'x', sizeof message);
        assert_int_equal(load_text(&config, text, message, size), UVHTTP_E_CONFIG);
        if (size == 0) continue;
        assert_true(strlen(message) < size);
        assert_int_equal(message[size], 'x');
        if (strcmp(message, whole) == 0) continue;
        char *rest = strstr(message, "\nand ");
        if (rest) {
            assert_true(strcmp(rest, "\nand 2 more") == 0 || strcmp(rest, "\nand 1 more") == 0);
            *rest = '\0';
        }
        assert_int_equal(strncmp(message, whole, strlen(message)), 0);
        if (size > 150) assert_non_null(rest);
    }
    assert_string_equal(message, whole);
}

static void expect_io_error(const char *name, const char *reason) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    char message[200], wanted[200];
    snprintf(wanted, sizeof wanted, "%s: %s", name, reason);
    assert_int_equal(uvhttp_server_config_load(&config, name, message, sizeof message), UVHTTP_E_IO);
    assert_string_equal(message, wanted);
    assert_int_equal(uvhttp_server_config_load(&config, name, NULL, 0), UVHTTP_E_IO);
}

static void test_a_file_that_cannot_be_read_is_reported_by_name(void **state) {
    (void)state;
    expect_io_error("/tmp", "Is a directory");
    expect_io_error("/nowhere/uvhttp.yaml", "No such file or directory");
    expect_io_error("", "No such file or directory");
    if (geteuid() == 0) return; /* root may read everything */
    write_file("", 0);
    assert_int_equal(chmod(path, 0), 0);
    expect_io_error(path, "Permission denied");
    assert_int_equal(chmod(path, 0600), 0);
}

static void test_a_large_or_deep_file_is_refused_soon(void **state) {
    (void)state;
    static char text[65537];
    memset(text, '#', sizeof text);
    write_file(text, 65536);
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    char message[200];
    assert_int_equal(uvhttp_server_config_load(&config, path, message, sizeof message), UVHTTP_OK);
    expect_bytes_refused(text, 65537, " larger than 65536 bytes");
    assert_int_equal(uvhttp_server_config_load(&config, "/dev/zero", message, sizeof message), UVHTTP_E_CONFIG);
    assert_string_equal(message, "/dev/zero: larger than 65536 bytes");
    memset(text, '[', 65536);
    expect_bytes_refused(text, 65536,
                         "1:1: expected fields, one in a line: \"name: value\"\n"
                         "1:17: lists and mappings are nested too deeply");
    memset(text, 'a', 65536); /* one long name */
    text[65535] = ':';
    write_file(text, 65536);
    assert_int_equal(uvhttp_server_config_load(&config, path, message, sizeof message), UVHTTP_E_CONFIG);
}

static void test_names_of_the_program_are_skipped_at_the_top_only(void **state) {
    (void)state;
    static const char *const own[] = {"sites", "app", NULL};
    static const char text[] = "sites:\n  - {backlog: x, deep: [1, {a: b}]}\nbacklog: 9\napp: 1\n";
    uvhttp_server_config_t config;
    char message[400];
    uvhttp_server_config_default(&config);
    write_file(text, sizeof text - 1);
    assert_int_equal(uvhttp_server_config_load_with(&config, path, own, message, sizeof message), UVHTTP_OK);
    assert_int_equal(config.backlog, 9);
    assert_int_equal(uvhttp_server_config_load(&config, path, message, sizeof message), UVHTTP_E_CONFIG);
    assert_non_null(strstr(message, ":1:1: there is no field \"sites\""));
    write_file("performance:\n  app: 1\napps: 2\n", 30);
    assert_int_equal(uvhttp_server_config_load_with(&config, path, own, message, sizeof message), UVHTTP_E_CONFIG);
    assert_non_null(strstr(message, ":2:3: there is no field \"app\" in \"performance\""));
    assert_non_null(strstr(message, ":3:1: there is no field \"apps\""));
}

static void test_arguments_that_are_wrong(void **state) {
    (void)state;
    uvhttp_server_config_t config = {.struct_size = 0};
    char message[200];
    assert_int_equal(uvhttp_server_config_load(NULL, path, NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_config_load(&config, NULL, NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_config_env(NULL, NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_config_load(&config, path, message, sizeof message), UVHTTP_E_CONFIG);
    assert_non_null(strstr(message, "struct_size"));
    assert_int_equal(uvhttp_server_config_env(&config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_non_null(strstr(message, "struct_size"));
}

/* ASan sees who writes beyond the end. */
static void test_an_older_structure_has_no_newer_fields(void **state) {
    (void)state;
    volatile size_t size = offsetof(uvhttp_server_config_t, drain_timeout); /* gcc must not know */
    uvhttp_server_config_t *config = malloc(size);
    char message[200];
    uvhttp_server_config_init(config, size);
    assert_int_equal(load_text(config, "backlog: 9\n", message, sizeof message), UVHTTP_OK);
    assert_int_equal(config->backlog, 9);
    assert_int_equal(load_text(config, "drain_timeout: 9\n", message, sizeof message), UVHTTP_E_CONFIG);
    assert_non_null(strstr(message, "there is no field \"drain_timeout\""));
    setenv("UVHTTP_BACKLOG", "10", 1);
    assert_int_equal(uvhttp_server_config_env(config, message, sizeof message), UVHTTP_OK);
    assert_int_equal(config->backlog, 10);
    unsetenv("UVHTTP_BACKLOG");
    free(config);
}

static void attempt_load(void *user) {
    uvhttp_server_config_t config, before;
    uvhttp_server_config_default(&config);
    before = config;
    char message[200];
    int status = load_text(&config, user, message, sizeof message);
    if (status == UVHTTP_E_NOMEM) {
        assert_non_null(strstr(message, ": out of memory"));
        assert_memory_equal(&config, &before, sizeof config);
    } else {
        assert_int_equal(status, UVHTTP_OK);
        assert_int_equal(config.backlog, 5);
    }
}

static void test_out_of_memory_is_an_error_and_nothing_is_applied(void **state) {
    (void)state;
    assert_int_equal(test_allocator_each_failure(attempt_load, (char *)"backlog: 5\n"), 1);
}

/* --- the sample --- */

static char sample[16384]; /* its text */
static int fields_seen;

/* The line says what 0 is. */
static void expect_zero_in_sample(const char *name, const char *line) {
    uvhttp_server_config_t config;
    const char *field, *group;
    size_t i = 0;
    uvhttp_server_config_default(&config);
    while ((field = uvhttp__config_name(&config, i, &group)) && strcmp(field, name) != 0) i++;
    const char *zero = uvhttp__config_zero(i);
    if (!zero) return;
    char comment[80];
    snprintf(comment, sizeof comment, "; 0: %s\n", zero);
    const char *found = strstr(line, comment);
    if (!found || found > strchr(line + 1, '\n')) fail_msg("examples/uvhttp.yaml: %s lacks \"%s\"", name, comment);
}

static void expect_in_sample(const char *name, const char *group, const char *value, const char *expected, void *user) {
    (void)user;
    char start[80], comment[120];
    snprintf(start, sizeof start, "\n%s%s: %s ", group ? "  " : "", name, *value ? value : "\"\"");
    snprintf(comment, sizeof comment, "# %s; ", expected);
    const char *line = strstr(sample, start);
    if (!line || !strstr(line, comment) || strstr(line, comment) > strchr(line + 1, '\n'))
        fail_msg("examples/uvhttp.yaml lacks the line%s # %s; ...", start, expected);
    expect_zero_in_sample(name, line);
    fields_seen++;
}

/* The reference of the documentation: each field, its default and what is expected. */
static void test_the_sample_holds_every_field_with_its_default(void **state) {
    (void)state;
    uvhttp_server_config_t config, defaults;
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_WARN);
    uvhttp_server_config_default(&defaults);
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    char message[1024];
    assert_int_equal(uvhttp_server_config_load(&config, "examples/uvhttp.yaml", message, sizeof message), UVHTTP_OK);
    assert_string_equal(config.origins.file, "examples/uvhttp.yaml");
    defaults.origins = config.origins; /* values that a file sets come from it, also if they are the defaults */
    assert_memory_equal(&config, &defaults, sizeof config);
    FILE *file = fopen("examples/uvhttp.yaml", "rb");
    assert_non_null(file);
    size_t size = fread(sample, 1, sizeof sample - 1, file);
    assert_true(size > 0 && size < sizeof sample - 1);
    fclose(file);
    uvhttp_server_config_fields(&defaults, expect_in_sample, NULL);
    assert_true(fields_seen > 30);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
}

/* --- the environment --- */

static void test_the_environment_is_applied(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    setenv("UVHTTP_KEEPALIVE_TIMEOUT", "7", 1);
    setenv("UVHTTP_PERFORMANCE_MODE", "on", 1);
    setenv("UVHTTP_BACKLOG", "", 1);
    setenv("UVHTTP_BUILD_DIR", "/tmp", 1);
    char message[200] = "old";
    assert_int_equal(uvhttp_server_config_env(&config, message, sizeof message), UVHTTP_OK);
    assert_string_equal(message, "");
    assert_int_equal(config.keepalive_timeout, 7);
    assert_true(config.performance.performance_mode);
    assert_int_equal(config.backlog, 4096);
    unsetenv("UVHTTP_KEEPALIVE_TIMEOUT");
    unsetenv("UVHTTP_PERFORMANCE_MODE");
    unsetenv("UVHTTP_BACKLOG");
}

static void test_a_wrong_environment_is_reported_and_nothing_is_applied(void **state) {
    (void)state;
    uvhttp_server_config_t config, before;
    uvhttp_server_config_default(&config);
    before = config;
    setenv("UVHTTP_IO_THREADS", "2", 1);
    setenv("UVHTTP_KEEPALIVE_TIMEOUT", "1m", 1);
    setenv("UVHTTP_BACKLOGS", "5", 1);
    char message[400];
    assert_int_equal(uvhttp_server_config_env(&config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_string_equal(message,
                        "environment: UVHTTP_KEEPALIVE_TIMEOUT is \"1m\": expected 1..604800 seconds or never\n"
                        "environment: there is no UVHTTP_BACKLOGS, did you mean UVHTTP_BACKLOG?");
    assert_memory_equal(&config, &before, sizeof config);
    assert_int_equal(uvhttp_server_config_env(&config, NULL, 0), UVHTTP_E_CONFIG);
    unsetenv("UVHTTP_IO_THREADS");
    unsetenv("UVHTTP_KEEPALIVE_TIMEOUT");
    unsetenv("UVHTTP_BACKLOGS");
}

/* --- */

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    unsetenv("UVHTTP_ENGINE");
    unsetenv("UVHTTP_LOG_LEVEL");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_are_applied_and_others_stay),
        cmocka_unit_test(test_a_file_that_says_nothing_changes_nothing),
        cmocka_unit_test(test_unknown_names_are_reported_with_the_nearest),
        cmocka_unit_test(test_wrong_values_are_reported_with_what_is_expected),
        cmocka_unit_test(test_what_is_set_twice_is_reported_with_both_lines),
        cmocka_unit_test(test_what_no_configuration_needs_is_refused),
        cmocka_unit_test(test_text_that_is_no_yaml_is_reported_with_its_place),
        cmocka_unit_test(test_text_that_is_no_utf_8_is_reported_with_its_place),
        cmocka_unit_test(test_all_problems_are_reported_or_counted),
        cmocka_unit_test(test_a_file_that_cannot_be_read_is_reported_by_name),
        cmocka_unit_test(test_a_large_or_deep_file_is_refused_soon),
        cmocka_unit_test(test_names_of_the_program_are_skipped_at_the_top_only),
        cmocka_unit_test(test_arguments_that_are_wrong),
        cmocka_unit_test(test_an_older_structure_has_no_newer_fields),
        cmocka_unit_test(test_out_of_memory_is_an_error_and_nothing_is_applied),
        cmocka_unit_test(test_the_sample_holds_every_field_with_its_default),
        cmocka_unit_test(test_the_environment_is_applied),
        cmocka_unit_test(test_a_wrong_environment_is_reported_and_nothing_is_applied),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
