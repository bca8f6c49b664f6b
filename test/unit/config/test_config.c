#include "config/config.h"
#include "support/http_server.h"
#include <math.h>

/* Name, smallest, largest: as include/uvhttp/server.h and the performance standard promise. */
static const struct range {
    const char *name;
    const char *below, *min, *max, *above;
    const char *never; /* the word for UVHTTP_NEVER, if the field can have that */
} ranges[] = {
    {"io_threads", NULL, "0", "1024", "1025", NULL},
    {"max_connections", "0", "1", "10000000", "10000001", NULL},
    {"backlog", "0", "1", "65535", "65536", NULL},
    {"read_buffer_size", "1023", "1024", "1048576", "1048577", NULL},
    {"read_buffer_count", "4", "8", "32768", "65536", NULL},
    {"write_buffer_size", "1023", "1024", "67108864", "67108865", NULL},
    {"write_queue_max", "4095", "4096", "4294967295", "4294967296", NULL},
    {"connection_timeout", "0", "1", "604800", "604801", "never"},
    {"body_timeout", "0", "1", "604800", "604801", "never"},
    {"keepalive_timeout", "0", "1", "604800", "604801", "never"},
    {"write_timeout", "0", "1", "604800", "604801", "never"},
    {"min_receive_rate", "0", "1", "1073741824", "1073741825", "never"},
    {"min_send_rate", "0", "1", "1073741824", "1073741825", "never"},
    {"rate_grace", NULL, "0", "604800", "604801", NULL},
    {"drain_timeout", NULL, "0", "604800", "604801", NULL},
    {"request_line_max", "63", "64", "1048576", "1048577", NULL},
    {"headers_size_max", "63", "64", "1048576", "1048577", NULL},
    {"header_count_max", "0", "1", "1000", "1001", NULL},
    {"body_size_max", NULL, "0", "4611686018427387903", "4611686018427387904", NULL},
    {"chunk_extension_max", NULL, "0", "1048576", "1048577", NULL},
    {"trailer_size_max", NULL, "0", "1048576", "1048577", NULL},
    {"request_memory_max", "4095", "4096", "4611686018427387903", "4611686018427387904", NULL},
    {"keepalive_requests_max", "0", "1", "4294967294", "4294967295", "unlimited"},
    {"iteration_requests_max", "0", "1", "4294967295", "4294967296", NULL},
    {"worker_threads", "0", "1", "16384", "16385", NULL},
    {"max_backlog", "0", "1", "10000000", "10000001", NULL},
    {"worker_idle_timeout", "0", "1", "604800", "604801", "never"},
    {"worker_warn_ms", "0", "1", "86400000", "86400001", "never"},
    {"drain_idle_ms", NULL, "0", "86400000", "86400001", NULL},
    {"handler_warn_ms", "0", "1", "86400000", "86400001", "never"},
    {"worker_queue_timeout_ms", "0", "1", "86400000", "86400001", "never"},
    {"worker_live_max", NULL, "0", "16384", "16385", NULL},
    {"spool_memory", "4095", "4096", "67108864", "67108865", NULL},
    {"spool_size_max", NULL, "0", "9223372036854775807", "9223372036854775808", NULL},
    {"tls_handshake_timeout", "0", "1", "3600", "3601", NULL},
    {"tls_ticket_period", "0", "1", "604800", "604801", NULL},
    {"connections_per_address_max", "0", "1", "10000000", "10000001", "unlimited"},
    {"descriptors_reserved", NULL, "0", "1000000", "1000001", NULL},
    {"drain_grace_ms", NULL, "0", "86400000", "86400001", NULL},
    {"descriptor_limit", NULL, "0", "1073741824", "1073741825", NULL},
    {"upgrade_timeout", "0", "1", "86400", "86401", NULL},
};
#define RANGE_COUNT (sizeof ranges / sizeof *ranges)

static void test_defaults_are_those_of_the_performance_standard(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    memset(&config, 0xff, sizeof config);
    uvhttp_server_config_default(&config);
    assert_int_equal(config.struct_size, sizeof config);
    assert_int_equal(config.max_connections, 10000);
    assert_int_equal(config.read_buffer_size, 16384);
    assert_int_equal(config.write_buffer_size, 16384);
    assert_int_equal(config.keepalive_timeout, 60);
    assert_int_equal(config.connection_timeout, 30);
    assert_int_equal(config.engine, UVHTTP_ENGINE_AUTO);
    assert_int_equal(config.drain_timeout, 30);
    assert_false(config.half_close);
    assert_true(config.install_signal_handlers);
    assert_true(config.performance.enable_statistics);
    assert_int_equal(config.performance.log_level, uvhttp_log_get_level());
    assert_int_equal(uvhttp_server_config_check(&config, NULL, 0), UVHTTP_OK);
}

static void expect_refused(const char *name, const char *value, const char *range) {
    uvhttp_server_config_t config, before;
    uvhttp_server_config_default(&config);
    before = config;
    char message[160] = "";
    assert_int_equal(uvhttp_server_config_set(&config, name, value, message, sizeof message), UVHTTP_E_CONFIG);
    assert_memory_equal(&config, &before, sizeof config);
    char quoted[96];
    snprintf(quoted, sizeof quoted, "%s is \"%s\": expected %s", name, value, range);
    assert_int_equal(strncmp(message, quoted, strlen(quoted)), 0);
    const char *unit = message + strlen(quoted);
    assert_true(*unit == '\0' || strncmp(unit, " seconds", 8) == 0 || strncmp(unit, " milliseconds", 13) == 0 ||
                strncmp(unit, " bytes", 6) == 0 || strncmp(unit, " or unlimited", 13) == 0);
}

static void test_each_number_has_its_range_and_says_so(void **state) {
    (void)state;
    static const char *const junk[] = {
        "", "-1", "+1", " 1", "1 ", "1x", "0x10", "many", "1e3", "1.5", "99999999999999999999"};
    for (size_t i = 0; i < RANGE_COUNT; i++) {
        const struct range *range = &ranges[i];
        uvhttp_server_config_t config;
        uvhttp_server_config_default(&config);
        assert_int_equal(uvhttp_server_config_set(&config, range->name, range->min, NULL, 0), UVHTTP_OK);
        assert_int_equal(uvhttp_server_config_check(&config, NULL, 0), UVHTTP_OK);
        assert_int_equal(uvhttp_server_config_set(&config, range->name, range->max, NULL, 0), UVHTTP_OK);
        assert_int_equal(uvhttp_server_config_check(&config, NULL, 0), UVHTTP_OK);
        char expected[64];
        snprintf(expected, sizeof expected, "%s..%s%s", range->min, range->max,
                 strcmp(range->name, "read_buffer_count") == 0 ? ", a power of two" : "");
        if (range->below) expect_refused(range->name, range->below, expected);
        expect_refused(range->name, range->above, expected);
        for (size_t j = 0; j < sizeof junk / sizeof *junk; j++) expect_refused(range->name, junk[j], expected);
    }
    expect_refused("read_buffer_count", "65", "8..32768, a power of two");
}

/* --- 0 and UVHTTP_NEVER --- */

static void keep_value(const char *name, const char *group, const char *value, const char *expected, void *user) {
    const char **wanted = user;
    (void)group, (void)expected;
    if (strcmp(name, wanted[0]) == 0) wanted[1] = strcmp(value, wanted[2]) == 0 ? "as wanted" : "another one";
}

static void test_what_can_be_without_a_limit_has_a_word_for_it(void **state) {
    (void)state;
    for (size_t i = 0; i < RANGE_COUNT; i++) {
        const struct range *range = &ranges[i];
        uvhttp_server_config_t config;
        char message[200], end[120];
        uvhttp_server_config_default(&config);
        int status = uvhttp_server_config_set(&config, range->name, range->never ? range->never : "never", NULL, 0);
        assert_int_equal(status, range->never ? UVHTTP_OK : UVHTTP_E_CONFIG);
        assert_int_equal(uvhttp_server_config_set(&config, range->name, "4294967295", NULL, 0),
                         !range->never && strtoull(range->max, NULL, 10) >= UINT32_MAX ? UVHTTP_OK : UVHTTP_E_CONFIG);
        if (!range->never) continue;
        assert_int_equal(uvhttp_server_config_check(&config, NULL, 0), UVHTTP_OK);
        const char *seen[] = {range->name, NULL, range->never};
        uvhttp_server_config_fields(&config, keep_value, seen);
        assert_string_equal(seen[1], "as wanted");
        const char *other = strcmp(range->never, "never") == 0 ? "unlimited" : "never";
        assert_int_equal(uvhttp_server_config_set(&config, range->name, other, NULL, 0), UVHTTP_E_CONFIG);
        assert_int_equal(uvhttp_server_config_set(&config, range->name, "0", message, sizeof message), UVHTTP_E_CONFIG);
        snprintf(end, sizeof end, " or %s; what 0 meant before 0.2 is %s now (UVHTTP_NEVER in a program)", range->never,
                 range->never);
        assert_true(strlen(message) > strlen(end));
        assert_string_equal(message + strlen(message) - strlen(end), end);
    }
}

/* The meaning of 0 stands in the table, or 0 is refused: a field cannot be added where it silently means "off". */
static void test_0_is_an_amount_or_the_default_or_refused(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    const char *name, *group;
    unsigned refused = 0, accepted = 0;
    uvhttp_server_config_default(&config);
    for (size_t i = 0; (name = uvhttp__config_name(&config, i, &group)); i++) {
        char expected[UVHTTP__CONFIG_EXPECTED_SIZE];
        const char *range = uvhttp__config_expected(i, expected);
        if (*range < '0' || *range > '9' || !strstr(range, "..") || strstr(range, "0.05")) continue; /* no number */
        bool takes = uvhttp_server_config_set(&config, name, "0", NULL, 0) == UVHTTP_OK;
        if (takes != (uvhttp__config_zero(i) != NULL)) fail_msg("%s: what is 0?", name);
        takes ? accepted++ : refused++;
    }
    assert_int_equal(accepted, 14);
    assert_true(refused > 30);
}

static void test_a_program_that_means_never_by_0_is_refused(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    char message[200];
    uvhttp_server_config_default(&config);
    config.keepalive_timeout = 0;
    assert_int_equal(uvhttp_server_config_check(&config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_string_equal(message, "keepalive_timeout is \"0\": expected 1..604800 seconds or never; what 0 meant before "
                                 "0.2 is never now (UVHTTP_NEVER in a program)");
    assert_null(uvhttp_server_new(&config));
    config.keepalive_timeout = UVHTTP_NEVER;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    assert_non_null(server);
    uvhttp_server_free(server);
}

static void test_the_minimum_of_worker_threads_is_at_most_their_maximum(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    char message[160] = "";
    expect_refused("worker_threads_min", "16385", "0..16384");
    assert_int_equal(uvhttp_server_config_set(&config, "worker_threads_min", "512", NULL, 0), UVHTTP_OK);
    assert_int_equal(uvhttp_server_config_check(&config, NULL, 0), UVHTTP_OK);
    assert_int_equal(uvhttp_server_config_set(&config, "worker_threads_min", "513", NULL, 0), UVHTTP_OK);
    assert_int_equal(uvhttp_server_config_check(&config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_string_equal(message, "worker_threads_min is 513: expected at most worker_threads, 512");
    config.struct_size = offsetof(uvhttp_server_config_t, worker_threads); /* an older program */
    assert_int_equal(uvhttp_server_config_check(&config, NULL, 0), UVHTTP_OK);
}

static void test_texts_are_copied_and_must_fit(void **state) {
    (void)state;
    uvhttp_server_config_t config, before;
    uvhttp_server_config_default(&config);
    assert_string_equal(config.tls_certificate, "");
    assert_string_equal(config.tls_alpn, "");
    assert_string_equal(config.spool_directory, "");
    assert_string_equal(config.tcp_congestion_control, "");
    char longest[UVHTTP_CONFIG_TEXT_SIZE + 1], message[160] = "";
    memset(longest, 'x', sizeof longest);
    longest[UVHTTP_CONFIG_TEXT_SIZE - 1] = '\0';
    before = config;
    assert_int_equal(uvhttp_server_config_set(&config, "tls_key", longest, NULL, 0), UVHTTP_OK);
    assert_string_equal(config.tls_key, longest);
    assert_int_equal(uvhttp_server_config_check(&config, NULL, 0), UVHTTP_OK);
    assert_int_equal(uvhttp_server_config_set(&config, "tls_key", "", NULL, 0), UVHTTP_OK);
    before.origins = config.origins;
    assert_memory_equal(&config, &before, sizeof config); /* nothing of the longer one stays behind */
    longest[UVHTTP_CONFIG_TEXT_SIZE - 1] = 'x';
    longest[UVHTTP_CONFIG_TEXT_SIZE] = '\0';
    assert_int_equal(uvhttp_server_config_set(&config, "tls_key", longest, NULL, 0), UVHTTP_E_CONFIG);
    assert_int_equal(uvhttp_server_config_set(&config, "tls_key", "a\nb", message, sizeof message), UVHTTP_E_CONFIG);
    assert_string_equal(message, "tls_key is \"a?b\": expected text of at most 1023 bytes");
    assert_memory_equal(&config, &before, sizeof config);
    memset(config.tls_alpn, 'x', sizeof config.tls_alpn);
    assert_int_equal(uvhttp_server_config_check(&config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_int_equal(strncmp(message, "tls_alpn is ", 12), 0);
    config = before;
    config.tls_min_version = UVHTTP_TLS_DEFAULT; /* a program that sets it so gets an error */
    assert_int_equal(uvhttp_server_config_check(&config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_string_equal(message, "tls_min_version is \"0\": expected 1.2 or 1.3");
}

static void test_words_are_understood_and_others_refused(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    static const struct {
        const char *name, *value;
    } good[] = {
        {"engine", "epoll"},  {"engine", "URING"},          {"half_close", "yes"},         {"quiet", "1"},
        {"quiet", "off"},     {"log_level", "error"},       {"tls_clients", "REQUIRE"},    {"tls_min_version", "1.3"},
        {"tls_kernel", "on"}, {"performance_mode", "true"}, {"enable_statistics", "false"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(uvhttp_server_config_set(&config, good[i].name, good[i].value, NULL, 0), UVHTTP_OK);
    assert_int_equal(config.engine, UVHTTP_ENGINE_URING);
    assert_true(config.half_close);
    assert_false(config.quiet);
    assert_int_equal(config.performance.log_level, UVHTTP_LOG_LEVEL_ERROR);
    assert_false(config.performance.enable_statistics);
    expect_refused("engine", "poll", "auto, uring or epoll");
    expect_refused("half_close", "2", "true or false");
    expect_refused("log_level", "loud", "debug, info, warn, error or none");
}

static void keep_ratio(const char *name, const char *group, const char *value, const char *expected, void *user) {
    (void)group, (void)expected;
    if (strcmp(name, "trace_ratio") == 0) snprintf(user, 24, "%s", value);
}

static void test_a_ratio_is_a_decimal_fraction(void **state) {
    (void)state;
    static const struct {
        const char *text, *shown;
        double ratio;
    } good[] = {{"0", "0", 0},          {"1", "1", 1},           {"1.0", "1", 1},
                {"0.05", "0.05", 0.05}, {"5e-2", "0.05", 0.05},  {"0.0000011", "0.000001", 0.000001},
                {"0.5", "0.5", 0.5},    {"0.9999999", "1", 1.0}, {"0.125", "0.125", 0.125}};
    uvhttp_server_config_t config;
    char shown[24];
    uvhttp_server_config_default(&config);
    assert_true(config.trace_ratio == 1.0);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(uvhttp_server_config_set(&config, "trace_ratio", good[i].text, NULL, 0), UVHTTP_OK);
        assert_true(config.trace_ratio == good[i].ratio);
        uvhttp_server_config_fields(&config, keep_ratio, shown);
        assert_string_equal(shown, good[i].shown);
    }
    static const char *const wrong[] = {"1.1", "-0", "-0.1", "+1", "", ".5", "50%", "nan", "0,5", "1e9"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused("trace_ratio", wrong[i], "0..1, such as 0.05");
    static const double direct[] = {-0.1, 1.1, 1e300, NAN, -INFINITY};
    char message[256];
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++) {
        config.trace_ratio = direct[i];
        assert_int_equal(uvhttp_server_config_check(&config, message, sizeof message), UVHTTP_E_CONFIG);
        assert_non_null(strstr(message, "trace_ratio is \""));
    }
}

static void test_unknown_names_are_refused_by_name(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    char message[120], tiny[4] = "abc";
    assert_int_equal(uvhttp_server_config_set(&config, "max_conections", "1", message, sizeof message),
                     UVHTTP_E_CONFIG);
    assert_string_equal(message,
                        "max_conections: there is no such configuration field, did you mean \"max_connections\"?");
    assert_int_equal(uvhttp_server_config_set(&config, "nothing_like_it", "1", message, sizeof message),
                     UVHTTP_E_CONFIG);
    assert_string_equal(message, "nothing_like_it: there is no such configuration field");
    assert_int_equal(uvhttp_server_config_set(&config, "backlog", "0", tiny, 1), UVHTTP_E_CONFIG);
    assert_string_equal(tiny, "");
    assert_int_equal(uvhttp_server_config_set(NULL, "backlog", "1", NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_config_set(&config, NULL, "1", NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_config_set(&config, "backlog", NULL, NULL, 0), UVHTTP_E_INVALID);
}

static void test_a_long_unknown_name_is_cut_and_resembles_nothing(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    char message[160], name[101] = "", expected[160];
    memset(name, 'b', sizeof name - 1);
    assert_int_equal(uvhttp_server_config_set(&config, name, "1", message, sizeof message), UVHTTP_E_CONFIG);
    snprintf(expected, sizeof expected, "%.60s...: there is no such configuration field", name);
    assert_string_equal(message, expected);
    assert_int_equal(uvhttp_server_config_set(&config, name, "1", NULL, 0), UVHTTP_E_CONFIG);
}

static void test_foreign_text_is_cut_at_the_end_of_a_character(void **state) {
    (void)state;
    char shown[UVHTTP__CONFIG_SHOWN_SIZE], expected[UVHTTP__CONFIG_SHOWN_SIZE], text[101] = "";
    for (size_t before = 0; before < 4; before++) { /* the cut falls on each byte of a character */
        memset(text, 'a', before);
        for (size_t at = before; at + 3 < sizeof text; at += 3) memcpy(text + at, "\xe2\x82\xac", 3);
        text[before + (sizeof text - 1 - before) / 3 * 3] = '\0';
        size_t kept = before + (UVHTTP__CONFIG_SHOWN_SIZE - sizeof "..." - before) / 3 * 3;
        snprintf(expected, sizeof expected, "%.*s...", (int)kept, text);
        assert_string_equal(uvhttp__config_shown(text, shown), expected);
    }
    memset(text, 0x80, sizeof text - 1); /* no character begins */
    assert_string_equal(uvhttp__config_shown(text, shown), "...");
    assert_string_equal(uvhttp__config_shown("a\x7f\tb", shown), "a??b");
}

static void test_check_and_new_refuse_what_was_written_directly(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    char message[120];
    uvhttp_server_config_default(&config);
    config.read_buffer_count = 65;
    assert_int_equal(uvhttp_server_config_check(&config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_string_equal(message, "read_buffer_count is \"65\": expected 8..32768, a power of two");
    assert_null(uvhttp_server_new(&config));
    uvhttp_server_config_default(&config);
    config.engine = (uvhttp_engine_t)7;
    assert_int_equal(uvhttp_server_config_check(&config, message, sizeof message), UVHTTP_E_CONFIG);
    assert_null(uvhttp_server_new(&config));
    assert_int_equal(uvhttp_server_config_check(NULL, message, sizeof message), UVHTTP_E_INVALID);
}

/* A program that was compiled with a shorter structure: nothing beyond its end is read or written (ASan sees it). */
static void test_an_older_structure_is_read_as_long_as_it_is(void **state) {
    (void)state;
    volatile size_t size = offsetof(uvhttp_server_config_t, drain_timeout); /* gcc must not know */
    uvhttp_server_config_t *config = malloc(size);
    char message[120];
    uvhttp_server_config_init(config, size);
    assert_int_equal(config->struct_size, size);
    assert_int_equal(config->keepalive_timeout, 60);
    assert_int_equal(uvhttp_server_config_check(config, message, sizeof message), UVHTTP_OK);
    assert_int_equal(uvhttp_server_config_set(config, "backlog", "7", message, sizeof message), UVHTTP_OK);
    assert_int_equal(uvhttp_server_config_set(config, "drain_timeout", "7", message, sizeof message), UVHTTP_E_CONFIG);
    assert_non_null(strstr(message, "drain_timeout"));
    uvhttp_server_t *server = uvhttp_server_new(config);
    assert_non_null(server);
    uvhttp_server_free(server);
    config->backlog = 0;
    assert_int_equal(uvhttp_server_config_check(config, message, sizeof message), UVHTTP_E_CONFIG);
    free(config);
}

static void test_a_newer_or_missing_size_is_refused(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    char message[160];
    uvhttp_server_config_default(&config);
    for (int i = 0; i < 2; i++) {
        config.struct_size = i ? 0 : (uint32_t)sizeof config + 8;
        assert_null(uvhttp_server_new(&config));
        assert_int_equal(uvhttp_server_config_check(&config, message, sizeof message), UVHTTP_E_CONFIG);
        assert_non_null(strstr(message, "struct_size"));
    }
}

static void test_the_environment_chooses_the_engine_of_auto_only(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    setenv("UVHTTP_ENGINE", "poll", 1);
    assert_null(uvhttp_server_new(&config));
    config.engine = UVHTTP_ENGINE_EPOLL;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    assert_non_null(server);
    uvhttp_server_free(server);
    unsetenv("UVHTTP_ENGINE");
}

#if !UVHTTP_WITH_YAML
static void test_a_build_without_yaml_says_so(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    char message[120];
    assert_int_equal(uvhttp_server_config_load(&config, "x.yaml", message, sizeof message), UVHTTP_E_UNSUPPORTED);
    assert_string_equal(message, "x.yaml: this build reads no configuration files: BUILD_WITH_YAML is off");
    assert_int_equal(uvhttp_server_config_load(&config, NULL, message, sizeof message), UVHTTP_E_INVALID);
}
#endif

static void test_performance_mode_means_warnings_and_worse(void **state) {
    (void)state;
    uvhttp_log_level_t before = uvhttp_log_get_level();
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.performance.performance_mode = true;
    config.performance.log_level = UVHTTP_LOG_LEVEL_DEBUG;
    uvhttp_server_free(uvhttp_server_new(&config));
    assert_true(uvhttp_log_get_level() >= UVHTTP_LOG_LEVEL_WARN);
    uvhttp_log_set_level(before);
}

/* A reload asks for every index up to the bound, as the other readers of the table do: there are fewer fields. */
static void test_only_changed_fields_that_need_a_restart_are_named(void **state) {
    (void)state;
    uvhttp_server_config_t config, changed;
    uvhttp_server_config_default(&config);
    uvhttp_server_config_default(&changed);
    for (size_t i = 0; i <= UVHTTP__CONFIG_FIELDS_MAX; i++) assert_null(uvhttp__config_frozen(&config, &changed, i));
    changed.backlog++;
    changed.tls_handshake_timeout++; /* is applied while the server runs */
    unsigned named = 0;
    for (size_t i = 0; i <= UVHTTP__CONFIG_FIELDS_MAX; i++) {
        const char *name = uvhttp__config_frozen(&config, &changed, i);
        if (!name) continue;
        assert_string_equal(name, "backlog");
        named++;
    }
    assert_int_equal(named, 1);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_those_of_the_performance_standard),
        cmocka_unit_test(test_each_number_has_its_range_and_says_so),
        cmocka_unit_test(test_what_can_be_without_a_limit_has_a_word_for_it),
        cmocka_unit_test(test_0_is_an_amount_or_the_default_or_refused),
        cmocka_unit_test(test_a_program_that_means_never_by_0_is_refused),
        cmocka_unit_test(test_the_minimum_of_worker_threads_is_at_most_their_maximum),
        cmocka_unit_test(test_texts_are_copied_and_must_fit),
        cmocka_unit_test(test_words_are_understood_and_others_refused),
        cmocka_unit_test(test_a_ratio_is_a_decimal_fraction),
        cmocka_unit_test(test_unknown_names_are_refused_by_name),
        cmocka_unit_test(test_a_long_unknown_name_is_cut_and_resembles_nothing),
        cmocka_unit_test(test_foreign_text_is_cut_at_the_end_of_a_character),
        cmocka_unit_test(test_check_and_new_refuse_what_was_written_directly),
        cmocka_unit_test(test_an_older_structure_is_read_as_long_as_it_is),
        cmocka_unit_test(test_a_newer_or_missing_size_is_refused),
        cmocka_unit_test(test_the_environment_chooses_the_engine_of_auto_only),
#if !UVHTTP_WITH_YAML
        cmocka_unit_test(test_a_build_without_yaml_says_so),
#endif
        cmocka_unit_test(test_only_changed_fields_that_need_a_restart_are_named),
        cmocka_unit_test(test_performance_mode_means_warnings_and_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
