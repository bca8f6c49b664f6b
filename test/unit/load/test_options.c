/* Owns: tests of the command line, of the requests that it makes, and of what counts as this machine. */
#include <arpa/inet.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "load/plan.h"
#include "support/failing_allocator.h"
#include "support/run.h"

enum { WORDS_MAX = 32 };

typedef struct parsed {
    load_options_t options;
    bool ok;
    int code;
    char out[8192], err[512];
} parsed_t;

/* The words of a command line, apart from the program's name; no quoting. */
static void parse(const char *line, parsed_t *parsed) {
    static char copy[1024]; /* the options point into it */
    char *words[WORDS_MAX] = {copy}, *save = NULL;
    int count = 1;
    snprintf(copy, sizeof copy, "uvhttp-load %s", line);
    strtok_r(copy, " ", &save);
    for (char *word; count < WORDS_MAX - 1 && (word = strtok_r(NULL, " ", &save));) words[count++] = word;
    memset(parsed, 0, sizeof *parsed);
    FILE *out = fmemopen(parsed->out, sizeof parsed->out, "w"), *err = fmemopen(parsed->err, sizeof parsed->err, "w");
    assert_non_null(out);
    assert_non_null(err);
    parsed->ok = load_options_parse(&parsed->options, count, words, out, err, &parsed->code);
    fclose(out);
    fclose(err);
}

static load_options_t *accepted(const char *line, parsed_t *parsed) {
    parse(line, parsed);
    if (!parsed->ok) fail_msg("%s: %s", line, parsed->err);
    return &parsed->options;
}

static void test_defaults_are_those_of_the_help(void **state) {
    (void)state;
    parsed_t parsed;
    load_options_t *options = accepted("http://127.0.0.1:8080", &parsed);
    assert_int_equal(options->scheme, LOAD_HTTP);
    assert_string_equal(options->host, "127.0.0.1");
    assert_string_equal(options->port, "8080");
    assert_string_equal(options->authority, "127.0.0.1:8080");
    assert_string_equal(options->target, "/");
    assert_string_equal(options->method, "GET");
    assert_int_equal(options->threads, 2);
    assert_int_equal(options->connections, 10);
    assert_int_equal(options->pipeline, 1);
    assert_int_equal(options->duration_ns, UINT64_C(10000000000));
    assert_int_equal(options->warmup_ns, 0);
    assert_true(options->expect_status[204]);
    assert_false(options->expect_status[199] || options->expect_status[300]);
    assert_int_equal(options->verify, LOAD_VERIFY_FIRST);
    assert_false(options->allow_remote);
}

static void test_options_are_read(void **state) {
    (void)state;
    parsed_t parsed;
    load_options_t *options =
        accepted("-t4 -c50 -d1.5m -w 200ms -p 16 -R 2.5k --arrivals poisson -H A:b -H X-Y:z -b text "
                 "-s 200,3xx http://[::1]:80/a?b=c",
                 &parsed);
    assert_int_equal(options->threads, 4);
    assert_int_equal(options->connections, 50);
    assert_int_equal(options->duration_ns, UINT64_C(90000000000));
    assert_int_equal(options->warmup_ns, 200000000);
    assert_int_equal(options->pipeline, 16);
    assert_true(options->rate > 2499 && options->rate < 2501);
    assert_int_equal(options->arrivals, LOAD_POISSON);
    assert_int_equal(options->header_count, 2);
    assert_string_equal(options->method, "POST"); /* it has a body */
    assert_true(options->expect_status[200] && options->expect_status[399] && !options->expect_status[201]);
    assert_string_equal(options->host, "::1");
    assert_string_equal(options->authority, "[::1]:80");
    assert_string_equal(options->target, "/a?b=c");
    load_options_deinit(options);
    options = accepted("-n 7 --payload-size 100 tcp://localhost:1", &parsed);
    assert_int_equal(options->scheme, LOAD_TCP);
    assert_int_equal(options->payload_size, 100);
    assert_int_equal(options->duration_ns, UINT64_C(3600000000000)); /* the number of requests ends it */
    options = accepted("-w auto http://localhost/", &parsed);
    assert_true(options->warmup_auto);
    assert_int_equal(options->warmup_ns, UINT64_C(30000000000));
    options = accepted("-w auto:2m http://localhost/", &parsed);
    assert_true(options->warmup_auto);
    assert_int_equal(options->warmup_ns, UINT64_C(120000000000));
    assert_false(accepted("-w auto:2m -w 5s http://localhost/", &parsed)->warmup_auto);
    assert_false(options->is_open);
    options = accepted("--stages 1s:5,2s:0 --arrivals poisson http://localhost/", &parsed);
    assert_true(options->is_open);
    assert_int_equal(options->duration_ns, UINT64_C(3000000000));
    options = accepted("--capacity=30s --slo p99<5ms --hdr a.hgrm http://localhost/", &parsed);
    assert_true(options->is_open && options->finds_capacity);
    assert_int_equal(options->capacity_ns, UINT64_C(30000000000));
    assert_string_equal(options->hgrm_path, "a.hgrm");
    assert_null(options->hdr_log_path);
    options = accepted("--compare --threshold 5% a.json b.json", &parsed);
    assert_true(options->compares && options->threshold > 0.049 && options->threshold < 0.051);
    assert_string_equal(options->compared[1], "b.json");
    assert_string_equal(accepted("--echo http://localhost/", &parsed)->method, "POST");
    if (!load_has_tls) return;
    options = accepted("WSS://localhost/x", &parsed);
    assert_int_equal(options->scheme, LOAD_WS);
    assert_true(options->secure);
    assert_string_equal(options->port, "443");
    assert_string_equal(options->authority, "localhost");
}

static void test_wrong_options_are_refused_in_one_line_that_names_them(void **state) {
    (void)state;
    const char *const lines[][2] = {
        {"", "no URL"},
        {"-c", "-c needs a value"},
        {"--bogus http://localhost/", "--bogus is not an option"},
        {"-Z http://localhost/", "-Z is not an option"},
        {"-c x http://localhost/", "--connections x: expected a number from 1"},
        {"-c 0 http://localhost/", "--connections 0"},
        {"-c -5 http://localhost/", "--connections -5"},
        {"-t 4 -c 3 http://localhost/", "each thread needs one"},
        {"-d 10x http://localhost/", "--duration 10x: expected a time"},
        {"-d -1 http://localhost/", "--duration -1"},
        {"-d 0 http://localhost/", "--duration 0"},
        {"-R 0 http://localhost/", "--rate 0"},
        {"-R 1q http://localhost/", "--rate 1q"},
        {"-R nan http://localhost/", "--rate nan"},
        {"--arrivals constant http://localhost/", "--arrivals without --rate or --stages"},
        {"--arrivals often -R 1 http://localhost/", "expected constant or poisson"},
        {"--think 1s -R 1 http://localhost/", "--think with --rate"},
        {"--think 1s -p 2 http://localhost/", "--think with --pipeline or --streams"},
        {"--think 1s --h2 -m 2 http://localhost/", "--think with --pipeline or --streams"},
        {"-n 5 -w 1s http://localhost/", "--warmup with --requests"},
        {"-n 5 -w auto http://localhost/", "--warmup with --requests"},
        {"-w automatic http://localhost/", "--warmup automatic: expected a time"},
        {"-w auto:900ms http://localhost/", "--warmup auto:900ms: expected auto, or auto:T of at least 1s"},
        {"-w auto: http://localhost/", "--warmup auto:: expected auto"},
        {"-p 2 --send-rate 5 http://localhost/", "--pipeline with a slow client"},
        {"-H nocolon http://localhost/", "expected 'Name: value'"},
        {"-H Content-Length:5 http://localhost/", "made from the body"},
        {"-b a -b b http://localhost/", "there is a body already"},
        {"-B /nowhere/at/all http://localhost/", "cannot be read: No such file"},
        {"-s 20 http://localhost/", "--expect-status 20"},
        {"--expect-xxh64 12 http://localhost/", "16 hexadecimal digits"},
        {"--expect-xxh64 xxxxxxxxxxxxxxxx http://localhost/", "16 hexadecimal digits"},
        {"--verify often http://localhost/", "expected none or first"},
        {"--engine poll http://localhost/", "expected auto, uring or epoll"},
        {"--payload-size 5 http://localhost/", "is for tcp://, ws:// and --echo"},
        {"--echo tcp://localhost:5", "--echo is for http://"},
        {"--echo --expect-length 5 http://localhost/", "--echo with --expect-length"},
        {"--echo --send-rate 5 http://localhost/", "--echo with --send-rate"},
        {"--echo -b nomark http://localhost/", "mark the place"},
        {"--echo -b %a% http://localhost/", "mark the place"},
        {"--slo p99<5 http://localhost/", "--slo p99<5: expected objectives"},
        {"--stages 5 http://localhost/", "--stages 5: expected stages"},
        {"--stages 1s:5 -R 5 http://localhost/", "--stages with -R"},
        {"--stages 1s:5 -d 5s http://localhost/", "--stages with -R"},
        {"--stages 1s:5 -w auto http://localhost/", "--stages with -R"},
        {"--stages 1s:5 -n 5 http://localhost/", "--stages with -R"},
        {"--capacity http://localhost/", "--capacity needs --slo"},
        {"--capacity=soon --slo p99<5ms http://localhost/", "--capacity soon: expected a time"},
        {"--capacity --slo p99<5ms --stages 1s:5 http://localhost/", "--capacity with --stages"},
        {"--capacity --slo p99<5ms -n 5 http://localhost/", "--capacity with --stages or -n"},
        {"--compare a.json", "expected two results"},
        {"--compare a.json b.json c.json", "expected two results"},
        {"--compare --threshold x a.json b.json", "--threshold x: expected a percentage"},
        {"--threshold 5 http://localhost/", "--threshold is for --compare"},
        {"-b x tcp://localhost:5", "tcp:// and ws:// send messages"},
        {"--expect-length 5 tcp://localhost:5", "always compare"},
        {"--expect-xxh64 fc6d24b916145cf9 ws://localhost/", "always compare"},
        {"--ca-file x http://localhost/", "--ca-file is for https://"},
        {"--send-rate 5 https://localhost/",
         load_has_tls ? "a slow client is one of http://" : "built without OpenSSL"},
        {"--send-rate 5 ws://localhost/", "a slow client is one of http://"},
        {"localhost:8080", "expected http://"},
        {"http://", "no host"},
        {"http://:80/", "no host"},
        {"http://user@localhost/", "no host"},
        {"http://localhost:0/", "port"},
        {"http://localhost:70000/", "port"},
        {"http://localhost:8o/", "port"},
        {"http://[::1/", "bracket"},
        {"http://[::1]8080/", "port"},
        {"http://[::1]x:8080/", "port"},
        {"http://::1:8080/", "in brackets"},
        {"tcp://::1", "in brackets"},
        {"http://localhost/a#b", "no #"},
        {"tcp://localhost", "port"},
        {"http://a/ http://b/", "one URL is enough"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        parsed_t parsed;
        parse(lines[i][0], &parsed);
        if (parsed.ok || !strstr(parsed.err, lines[i][1])) fail_msg("%s: \"%s\"", lines[i][0], parsed.err);
        assert_int_equal(parsed.code, LOAD_USAGE);
        assert_ptr_equal(strchr(parsed.err, '\n'), parsed.err + strlen(parsed.err) - 1);
        assert_string_equal(parsed.out, "");
    }
}

static void test_help_and_version_end_well(void **state) {
    (void)state;
    parsed_t parsed;
    parse("--help", &parsed);
    assert_false(parsed.ok);
    assert_int_equal(parsed.code, LOAD_OK);
    assert_non_null(strstr(parsed.out, "--requests-per-connection"));
    parse("--version", &parsed);
    assert_int_equal(parsed.code, LOAD_OK);
    assert_memory_equal(parsed.out, "uvhttp-load ", 12);
}

static void test_a_request_is_written_as_it_is_sent(void **state) {
    (void)state;
    static const char expected[] = "POST /a HTTP/1.1\r\nHost: localhost:1\r\nA:b\r\nContent-Length: 4\r\n\r\ntext";
    parsed_t parsed;
    load_plan_t plan;
    load_options_t *options = accepted("-p 3 -H A:b -b text http://localhost:1/a", &parsed);
    assert_int_equal(load_plan_init(&plan, options, stderr), 0);
    assert_int_equal(plan.request_count, 1);
    assert_int_equal(plan.requests->size, strlen(expected));
    assert_int_equal(plan.requests->copies, 3);
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(plan.requests->data + i * strlen(expected), expected, strlen(expected));
    load_plan_deinit(&plan);
    load_options_deinit(options);
    options = accepted("-X HEAD -H host:other http://localhost:1/", &parsed);
    assert_int_equal(load_plan_init(&plan, options, stderr), 0);
    assert_true(plan.requests->is_head);
    assert_memory_equal(plan.requests->data, "HEAD / HTTP/1.1\r\nhost:other\r\n\r\n", plan.requests->size);
    load_plan_deinit(&plan);
}

static void test_echoes_come_from_a_seeded_pool(void **state) {
    (void)state;
    static const char head[] = "POST / HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 18\r\n\r\n";
    parsed_t parsed;
    load_plan_t plan, other;
    load_options_t *options = accepted("--echo -b {\"a\":\"%\"} --payload-size 10 http://localhost:1/", &parsed);
    assert_int_equal(load_plan_init(&plan, options, stderr), 0);
    assert_int_equal(plan.requests->size, strlen(head)); /* the body is made anew for each request */
    assert_memory_equal(plan.requests->data, head, strlen(head));
    assert_int_equal(plan.echo.total, 18);
    assert_memory_equal(plan.echo.before.data, "{\"a\":\"", plan.echo.before.size);
    assert_memory_equal(plan.echo.after.data, "\"}", plan.echo.after.size);
    size_t kinds = 0;
    for (const char *c = load_echo_symbols; *c; c++) kinds += memchr(plan.echo.pool, *c, 4096) != NULL;
    assert_int_equal(kinds, 64);
    assert_int_equal(load_plan_init(&other, options, stderr), 0);
    assert_memory_equal(other.echo.pool, plan.echo.pool, 4096);
    load_plan_deinit(&other);
    options->seed = 2;
    assert_int_equal(load_plan_init(&other, options, stderr), 0);
    assert_memory_not_equal(other.echo.pool, plan.echo.pool, 64);
    load_plan_deinit(&other);
    load_plan_deinit(&plan);
    load_options_deinit(options);
}

static int plan_of_file(const char *text, load_plan_t *plan, char *err, size_t err_size) {
    char path[] = "/tmp/uvhttp-load-XXXXXX", line[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w"), *messages = fmemopen(err, err_size, "w");
    fputs(text, file);
    fclose(file);
    snprintf(line, sizeof line, "-u %s http://localhost:1/", path);
    static parsed_t parsed; /* the plan points to its options */
    int code = load_plan_init(plan, accepted(line, &parsed), messages);
    fclose(messages);
    remove(path);
    return code;
}

static void test_a_list_of_targets_is_read(void **state) {
    (void)state;
    load_plan_t plan;
    char err[256] = "";
    assert_int_equal(plan_of_file("# all\n/a\r\n\n  DELETE /b?c \n/d", &plan, err, sizeof err), 0);
    assert_int_equal(plan.request_count, 3);
    assert_memory_equal(plan.requests[0].data, "GET /a HTTP/1.1\r\n", 17);
    assert_memory_equal(plan.requests[1].data, "DELETE /b?c HTTP/1.1\r\n", 22);
    assert_memory_equal(plan.requests[2].data, "GET /d HTTP/1.1\r\n", 17);
    load_plan_deinit(&plan);
    static const char *const wrong[][2] = {{"/a\nb\n", ":2: expected"},
                                           {"GET /a b\n", ":1: expected"},
                                           {"G(T /a\n", ":1: expected"},
                                           {"# nothing\n", "no target in it"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(plan_of_file(wrong[i][0], &plan, err, sizeof err), LOAD_USAGE);
        if (!strstr(err, wrong[i][1])) fail_msg("%s: %s", wrong[i][0], err);
        load_plan_deinit(&plan);
    }
}

static bool is_loopback(int family, const char *text) {
    uvhttp__address_t address = {.any = {.sa_family = (sa_family_t)family}};
    assert_int_equal(inet_pton(family, text, family == AF_INET ? (void *)&address.v4.sin_addr : &address.v6.sin6_addr),
                     1);
    return load_is_loopback(&address);
}

static void test_only_loopback_is_this_machine(void **state) {
    (void)state;
    assert_true(is_loopback(AF_INET, "127.0.0.1"));
    assert_true(is_loopback(AF_INET, "127.255.255.254"));
    assert_true(is_loopback(AF_INET6, "::1"));
    assert_true(is_loopback(AF_INET6, "::ffff:127.0.0.1"));
    assert_false(is_loopback(AF_INET, "128.0.0.1"));
    assert_false(is_loopback(AF_INET, "0.0.0.0"));
    assert_false(is_loopback(AF_INET, "10.0.0.1"));
    assert_false(is_loopback(AF_INET6, "::"));
    assert_false(is_loopback(AF_INET6, "::2"));
    assert_false(is_loopback(AF_INET6, "::ffff:10.0.0.1"));
}

static void plan_once(void *user) {
    parsed_t parsed;
    load_plan_t plan;
    parse(user, &parsed);
    if (!parsed.ok) return; /* its memory is what was missing */
    FILE *err = fopen("/dev/null", "w");
    int code = load_plan_init(&plan, &parsed.options, err);
    assert_int_equal(code, test_allocator_failed() ? LOAD_ERROR : 0);
    fclose(err);
    load_plan_deinit(&plan);
    load_options_deinit(&parsed.options);
}

static void test_a_plan_bears_a_lack_of_memory(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(plan_once, "-p 4 -b text http://localhost:1/") >= 3);
    assert_true(test_allocator_each_failure(plan_once, "ws://localhost:1/") >= 4);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_defaults_are_those_of_the_help, test_options_are_read,
                     test_wrong_options_are_refused_in_one_line_that_names_them, test_help_and_version_end_well,
                     test_a_request_is_written_as_it_is_sent, test_echoes_come_from_a_seeded_pool,
                     test_a_list_of_targets_is_read, test_only_loopback_is_this_machine,
                     test_a_plan_bears_a_lack_of_memory);
}
