/* Owns: the tests of the formats that show a histogram: HdrHistogram's and the bars. What HdrHistogram's own decoder
 * says about the log is in test/integration/test_load_results.py. */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "load/bars.h"
#include "load/hdr.h"
#include "support/run.h"

enum { MS = 1000000 };

static uvhttp__histogram_t histogram;
static char text[65536];

static void record(uint64_t from, uint64_t to, uint64_t step) {
    uvhttp__histogram_init(&histogram);
    for (uint64_t i = from; i <= to; i += step) uvhttp__histogram_record(&histogram, i);
}

static const char *print(void (*write)(const uvhttp__histogram_t *, FILE *)) {
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    text[0] = '\0';
    write(&histogram, out);
    fclose(out);
    return text;
}

static unsigned lines(const char *at) {
    unsigned count = 0;
    for (; *at; at++) count += *at == '\n';
    return count;
}

static void test_percentiles_end_with_the_greatest_value_and_the_count(void **state) {
    (void)state;
    record(MS, 1000 * MS, MS);
    print(load_hdr_print_percentiles);
    assert_memory_equal(text, "       Value     Percentile TotalCount 1/(1-Percentile)\n\n", 57);
    assert_non_null(strstr(text, "    1000.000 1.000000000000       1000\n"));
    assert_non_null(strstr(text, "#[Max     =     1000.000, Total count    =         1000]\n"));
    assert_in_range(lines(text), 20, 70);
    uvhttp__histogram_init(&histogram);
    assert_int_equal(lines(print(load_hdr_print_percentiles)), 5); /* head and foot */
}

static void add_line(const uvhttp__histogram_t *of, FILE *out) {
    load_hdr_log_begin(1700000000.5, out);
    assert_true(load_hdr_log_add(of, 1700000000.5, 1.0, out));
}

static void test_a_line_of_the_log_is_a_compressed_histogram(void **state) {
    (void)state;
    uint8_t probe[128];
    size_t size = sizeof probe;
    if (!load_deflate("x", 1, probe, &size)) skip(); /* built without zlib */
    record(1, UINT64_MAX / 2, UINT64_MAX / 100);     /* longer than a day: none may be lost or leave the buffer */
    print(add_line);
    assert_non_null(strstr(text, "#[Histogram log format version 1.3]\n"));
    assert_non_null(strstr(text, "#[StartTime: 1700000000.500 (seconds since epoch), Tue Nov 14 22:13:20 UTC 2023]\n"));
    assert_non_null(strstr(text, "\n1700000000.500,1.000,"));
    assert_non_null(strstr(text, ",HISTF")); /* the cookie of a compressed V2 histogram in base64 */
}

static void test_bars_are_few_whatever_the_range(void **state) {
    (void)state;
    record(100000, 300000, 1000);
    print(load_bars_print);
    if (lines(text) != 2) fail_msg("%s", text);
    if (!strstr(text, "    100us - 200us   50.249% #")) fail_msg("%s", text);
    assert_non_null(strstr(text, "    200us - 500us   49.751% ########################################\n"));
    for (uint64_t max = 10; max < UINT64_MAX / 10; max *= 10) {
        record(0, max, max / 10);
        assert_in_range(lines(print(load_bars_print)), 1, LOAD_BARS_MAX);
    }
    uvhttp__histogram_init(&histogram);
    uvhttp__histogram_record(&histogram, UINT64_MAX);
    assert_in_range(lines(print(load_bars_print)), 1, LOAD_BARS_MAX);
    uvhttp__histogram_record(&histogram, 0);
    assert_in_range(lines(print(load_bars_print)), 1, LOAD_BARS_MAX);
    uvhttp__histogram_init(&histogram);
    assert_string_equal(print(load_bars_print), "");
}

int main(void) {
    return RUN_TESTS(test_percentiles_end_with_the_greatest_value_and_the_count,
                     test_a_line_of_the_log_is_a_compressed_histogram, test_bars_are_few_whatever_the_range);
}
