/* Where the values of a configuration come from, and what enforces them. */
#include "config/config.h"
#include "support/http_server.h"

static uvhttp_config_setting_t found;
static char found_value[64], found_origin[320], found_initial[64];

static void find(const uvhttp_config_setting_t *setting, void *user) {
    if (strcmp(setting->name, user) != 0) return;
    found = *setting;
    snprintf(found_value, sizeof found_value, "%s", setting->value);
    snprintf(found_initial, sizeof found_initial, "%s", setting->initial);
    snprintf(found_origin, sizeof found_origin, "%s", setting->origin);
}

static void expect(const uvhttp_server_config_t *config, const char *name, const char *value,
                   uvhttp_config_source_t source, const char *origin) {
    found = (uvhttp_config_setting_t){0};
    uvhttp_server_config_explain(config, find, (void *)(uintptr_t)name);
    assert_non_null(found.name);
    assert_string_equal(found_value, value);
    assert_string_equal(found_origin, origin);
    assert_int_equal(found.source, source);
}

static void test_a_default_an_option_and_code_are_distinguished(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    expect(&config, "backlog", "4096", UVHTTP_CONFIG_FROM_DEFAULT, "default");
    assert_int_equal(uvhttp_server_config_set(&config, "backlog", "4096", NULL, 0), UVHTTP_OK);
    expect(&config, "backlog", "4096", UVHTTP_CONFIG_FROM_OPTION, "option");
    config.backlog = 7;
    expect(&config, "backlog", "7", UVHTTP_CONFIG_FROM_CODE, "code");
    config.backlog = 4096; /* what the option said */
    expect(&config, "backlog", "4096", UVHTTP_CONFIG_FROM_OPTION, "option");
    assert_int_equal(uvhttp_server_config_set(&config, "backlog", "0", NULL, 0), UVHTTP_E_CONFIG);
    expect(&config, "backlog", "4096", UVHTTP_CONFIG_FROM_OPTION, "option");
    snprintf(config.spool_directory, sizeof config.spool_directory, "/tmp");
    expect(&config, "spool_directory", "/tmp", UVHTTP_CONFIG_FROM_CODE, "code");
    assert_string_equal(found_initial, "");
    assert_false(found.live);
    expect(&config, "performance_mode", "false", UVHTTP_CONFIG_FROM_DEFAULT, "default");
    assert_string_equal(found.group, "performance");
    assert_true(found.live);
    uvhttp_server_config_t copy = config;
    expect(&copy, "backlog", "4096", UVHTTP_CONFIG_FROM_OPTION, "option");
}

static void test_the_environment_names_its_variable(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    setenv("UVHTTP_KEEPALIVE_TIMEOUT", "7", 1);
    assert_int_equal(uvhttp_server_config_env(&config, NULL, 0), UVHTTP_OK);
    unsetenv("UVHTTP_KEEPALIVE_TIMEOUT");
    expect(&config, "keepalive_timeout", "7", UVHTTP_CONFIG_FROM_ENVIRONMENT, "UVHTTP_KEEPALIVE_TIMEOUT");
    assert_int_equal(uvhttp_server_config_set(&config, "keepalive_timeout", "8", NULL, 0), UVHTTP_OK);
    expect(&config, "keepalive_timeout", "8", UVHTTP_CONFIG_FROM_OPTION, "option");
}

#if UVHTTP_WITH_YAML
static void load(uvhttp_server_config_t *config, const char *text, char *path) {
    strcpy(path, "/tmp/uvhttp-origin-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    assert_int_equal(uvhttp_server_config_load(config, path, NULL, 0), UVHTTP_OK);
    assert_int_equal(unlink(path), 0);
}

static void test_a_file_is_named_with_the_line(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    char path[32], origin[64];
    uvhttp_server_config_default(&config);
    load(&config, "# comment\n\nbacklog: 5\nperformance:\n  enable_statistics: true\n", path);
    snprintf(origin, sizeof origin, "%s:3", path);
    expect(&config, "backlog", "5", UVHTTP_CONFIG_FROM_FILE, origin);
    snprintf(origin, sizeof origin, "%s:5", path);
    expect(&config, "enable_statistics", "true", UVHTTP_CONFIG_FROM_FILE, origin);
    load(&config, "quiet: true\n", path); /* lines of the first file are no lines of the second */
    expect(&config, "backlog", "5", UVHTTP_CONFIG_FROM_FILE, "file");
    snprintf(origin, sizeof origin, "%s:1", path);
    expect(&config, "quiet", "true", UVHTTP_CONFIG_FROM_FILE, origin);
}
#endif

static void expect_no_secret(const char *name, const char *group, const char *value, const char *expected, void *user) {
    (void)group, (void)expected, (void)user;
    assert_null(strstr(value, "open sesame"));
    if (strcmp(name, "admin_token") == 0) assert_string_equal(value, "***");
}

static void test_a_secret_is_not_shown(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    char message[160];
    uvhttp_server_config_default(&config);
    expect(&config, "admin_token", "", UVHTTP_CONFIG_FROM_DEFAULT, "default");
    assert_int_equal(uvhttp_server_config_set(&config, "admin_token", "open sesame", NULL, 0), UVHTTP_OK);
    expect(&config, "admin_token", "***", UVHTTP_CONFIG_FROM_OPTION, "option");
    uvhttp_server_config_fields(&config, expect_no_secret, NULL);
    assert_int_equal(uvhttp_server_config_set(&config, "admin_token", "open\nsesame", message, sizeof message),
                     UVHTTP_E_CONFIG);
    assert_null(strstr(message, "sesame"));
}

/* A program that was compiled with a shorter structure: its values are known, but not who set them (ASan sees it). */
static void test_an_older_structure_has_no_origins(void **state) {
    (void)state;
    volatile size_t size = offsetof(uvhttp_server_config_t, drain_timeout);
    uvhttp_server_config_t *config = malloc(size);
    uvhttp_server_config_init(config, size);
    assert_int_equal(uvhttp_server_config_set(config, "backlog", "7", NULL, 0), UVHTTP_OK);
    expect(config, "backlog", "7", UVHTTP_CONFIG_FROM_CODE, "code");
    free(config);
}

/* --- what enforces them --- */

static uvhttp_server_t *server;

static void expect_counter(const char *name, const char *help, uint64_t value, void *user) {
    (void)help, (void)value;
    void **wanted = user;
    *(uint64_t *)wanted[1] += strcmp(name, wanted[0]) == 0;
}

/* What follows the last "; " are counters. */
static void expect_enforcement(const uvhttp_config_setting_t *setting, void *user) {
    (void)user;
    if (!setting->enforced_by) fail_msg("%s: nothing is said to enforce it", setting->name);
    const char *at = strrchr(setting->enforced_by, ';');
    char name[64];
    for (int size; at && sscanf(at, "%*[;, ]%63[a-z0-9_]%n", name, &size) == 1; at += size) {
        uint64_t counters = 0;
        uvhttp_server_counters(server, expect_counter, (void *[]){name, &counters});
        if (counters != 1) fail_msg("%s: there is no counter %s", setting->name, name);
    }
}

static void test_every_field_says_what_enforces_it_and_its_counters_exist(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    server = uvhttp_server_new(NULL);
    uvhttp_server_config_explain(&config, expect_enforcement, NULL);
    uvhttp_server_free(server);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_default_an_option_and_code_are_distinguished),
        cmocka_unit_test(test_the_environment_names_its_variable),
#if UVHTTP_WITH_YAML
        cmocka_unit_test(test_a_file_is_named_with_the_line),
#endif
        cmocka_unit_test(test_a_secret_is_not_shown),
        cmocka_unit_test(test_an_older_structure_has_no_origins),
        cmocka_unit_test(test_every_field_says_what_enforces_it_and_its_counters_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
