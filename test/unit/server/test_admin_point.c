/* Owns: tests of what the dashboard gets of two snapshots: rates, percentiles, and the tables of loops and routes. The
 * snapshots are made up. */
/* Needs: middleware. */
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "server/admin_internal.h"
#include "server/metrics_snapshot.h"
#include "support/failing_allocator.h"
#include "support/run.h"

#define MS UINT64_C(1000000)
#define ROUTES_MAX 70

/* What is enough of a snapshot. */
typedef struct made {
    uvhttp__metrics_snapshot_t snapshot;
    uvhttp__metrics_row_t rows[8];
    uvhttp__metrics_loop_t loops[2];
    uvhttp__metrics_series_t series[ROUTES_MAX];
    uvhttp_metrics_bucket_t times[4];
} made_t;

static made_t before, now;
static uint64_t bounds_ns[UVHTTP__DURATION_BOUNDS];

static void init(made_t *made, uint64_t uptime_ns) {
    memset(made, 0, sizeof *made);
    made->snapshot.rows = made->rows;
    made->snapshot.loops = made->loops;
    made->snapshot.series = made->series;
    made->snapshot.response_times = made->times;
    made->snapshot.shown.uptime_ns = uptime_ns;
    made->snapshot.shown.duration_bounds_ns = bounds_ns;
    made->snapshot.shown.duration_bound_count = UVHTTP__DURATION_BOUNDS;
}

/* The second between them is two seconds long. */
static int set_up(void **state) {
    (void)state;
    for (uint64_t i = 0; i < UVHTTP__DURATION_BOUNDS; i++) bounds_ns[i] = (i + 1) * MS;
    init(&before, 10000 * MS);
    init(&now, 12000 * MS);
    return 0;
}

static void count(made_t *made, const char *name, uint64_t value) {
    made->rows[made->snapshot.shown.metric_count++].shown = (uvhttp_metric_t){.name = name, .value = value};
}

static void add_time(made_t *made, uint64_t low_ns, uint64_t high_ns, uint64_t value) {
    made->times[made->snapshot.shown.response_time_count++] = (uvhttp_metrics_bucket_t){low_ns, high_ns, value};
}

static uvhttp__metrics_series_t *add_series(made_t *made, const char *route, const char *method, uint32_t status,
                                            uint64_t value) {
    uvhttp__metrics_series_t *series = &made->series[made->snapshot.shown.series_count++];
    series->shown = (uvhttp_metrics_series_t){.route = route,
                                              .method = method,
                                              .protocol = "1.1",
                                              .scheme = "http",
                                              .error_type = "",
                                              .status = status,
                                              .count = value,
                                              .duration_counts = series->durations};
    return series;
}

typedef void write_t(uvhttp__writer_t *json, const uvhttp_metrics_snapshot_t *before,
                     const uvhttp_metrics_snapshot_t *now);

static void expect(write_t *write, const char *expected) {
    uvhttp__writer_t json = {0};
    write(&json, &before.snapshot.shown, &now.snapshot.shown);
    uvhttp__write_bytes(&json, "", 1);
    assert_false(json.failed);
    if (!strstr(json.data, expected)) fail_msg("%s: not %s", expected, json.data);
    uvhttp__writer_free(&json);
}

/* --- a point --- */

static void test_rates_are_per_second_and_never_negative(void **state) {
    (void)state;
    count(&before, "requests", 100);
    count(&now, "requests", 107);
    count(&before, "responses_2xx", 90);
    count(&now, "responses_2xx", 100);
    count(&before, "responses_4xx", 5); /* read at another moment */
    count(&now, "responses_4xx", 4);
    now.snapshot.shown.time_unix_ns = 1234567 * MS + 1;
    expect(uvhttp__admin_write_point, "{\"t\":1234567,\"rate\":3.5,\"status\":[5.0,0.0,0.0,0.0]");
}

static void test_errors_are_summed_by_the_start_of_their_names(void **state) {
    (void)state;
    static const char *const names[] = {"resets_a", "other", "timeouts_a", "resets_b", "aborted"};
    for (uint64_t i = 0; i < 5; i++) {
        count(&before, names[i], 10);
        count(&now, names[i], 10 + 2 * (i + 1));
    }
    count(&now, "resets_new", 100); /* the snapshot before does not have it */
    expect(uvhttp__admin_write_point, "5.0,3.0,5.0");
}

/* process_open_fds is not known in each snapshot. */
static void test_errors_are_compared_by_their_names(void **state) {
    (void)state;
    count(&before, "process_open_fds", 7);
    count(&before, "resets_a", 10);
    count(&now, "resets_a", 10);
    count(&before, "timeouts_a", 500);
    count(&now, "timeouts_a", 500);
    expect(uvhttp__admin_write_point, "\"errors\":[0.0,0.0,0.0,0.0]");
}

static void test_two_snapshots_at_the_same_time_are_a_millisecond_apart(void **state) {
    (void)state;
    now.snapshot.shown.uptime_ns = before.snapshot.shown.uptime_ns;
    count(&before, "requests", 1);
    count(&now, "requests", 2);
    expect(uvhttp__admin_write_point, "\"rate\":1000.0,");
}

static void test_the_process_is_as_it_is_now(void **state) {
    (void)state;
    before.snapshot.process = (uvhttp_metrics_process_t){.cpu_user_ns = 1000 * MS, .cpu_system_ns = 500 * MS};
    now.snapshot.process = (uvhttp_metrics_process_t){
        .cpu_user_ns = 2000 * MS, .cpu_system_ns = 1500 * MS, .resident_bytes = 4096, .open_descriptors = 7};
    expect(uvhttp__admin_write_point, "\"cpu\":100.0,\"rss\":4096,\"fds\":7,");
    now.snapshot.process.open_descriptors = UINT64_MAX; /* unknown */
    expect(uvhttp__admin_write_point, "\"fds\":0,");
}

static void test_without_requests_there_are_no_times(void **state) {
    (void)state;
    expect(uvhttp__admin_write_point, ",\"ms\":null,\"heat\":null}");
    add_time(&before, MS, MS, 5);
    add_time(&now, MS, MS, 5);
    expect(uvhttp__admin_write_point, ",\"ms\":null,\"heat\":null}");
}

static void test_percentiles_are_of_what_came_between(void **state) {
    (void)state;
    add_time(&before, 2 * MS, 4 * MS, 1000);
    add_time(&before, 10 * MS, 10 * MS, 7);
    add_time(&now, MS, MS, 90);              /* new */
    add_time(&now, 2 * MS, 4 * MS, 1009);    /* 9 more */
    add_time(&now, 10 * MS, 10 * MS, 7);     /* nothing */
    add_time(&now, 5000 * MS, 5000 * MS, 1); /* new */
    expect(uvhttp__admin_write_point, ",\"ms\":[1.0000,1.0000,3.0000,5000.0000,5000.0000],\"heat\":[0,");
}

static void test_a_time_below_and_one_above_all_rows_are_in_the_first_and_the_last(void **state) {
    (void)state;
    add_time(&now, 1, 1, 2);
    add_time(&now, UINT64_C(1) << 62, UINT64_C(1) << 62, 3);
    expect(uvhttp__admin_write_point, "\"heat\":[2,0,");
    expect(uvhttp__admin_write_point, ",0,3]}");
}

/* --- details --- */

static void test_a_loop_has_what_it_did_per_second(void **state) {
    (void)state;
    before.snapshot.shown.loop_count = 1;
    now.snapshot.shown.loop_count = 2; /* the second one has no past */
    before.loops[0].shown = (uvhttp_metrics_loop_t){.requests = 10, .cpu_ns = 1000 * MS};
    now.loops[0].shown = (uvhttp_metrics_loop_t){.connections = 3,
                                                 .requests = 20,
                                                 .bytes_received = 200,
                                                 .bytes_sent = 400,
                                                 .iterations = 3,
                                                 .cpu_ns = 2000 * MS};
    expect(uvhttp__admin_write_details,
           "\"uptime_s\":12,\"loops\":[{\"index\":0,\"connections\":3,\"rate\":5.0,\"in\":100,\"out\":200,"
           "\"iterations\":1.5,\"cpu\":50.0}],\"recording\":false,\"routes\":[],\"routes_left_out\":0,");
}

static void test_a_route_is_the_sum_of_its_series(void **state) {
    (void)state;
    now.snapshot.shown.recording = true;
    add_series(&before, "/b", "GET", 200, 1);
    add_series(&before, "/a", "GET", 200, 10)->durations[0] = 10;
    add_series(&now, "/a", "GET", 200, 14)->durations[0] = 13; /* 3 within 1 ms, 1 above all bounds */
    now.series[0].durations[UVHTTP__DURATION_BOUNDS] = 1;
    add_series(&now, "/a", "GET", 503, 2)->durations[4] = 2; /* 2 within 5 ms */
    add_series(&now, "/a", "GET", 0, 1)->shown.error_type = "aborted";
    add_series(&now, "/a", "POST", 200, 4); /* nothing was measured */
    add_series(&now, "/b", "GET", 200, 1);
    expect(uvhttp__admin_write_details,
           "\"recording\":true,\"routes\":["
           "{\"route\":\"/a\",\"method\":\"GET\",\"rate\":3.5,\"total\":17,\"errors\":3,\"p50\":1.000,\"p99\":-1.000},"
           "{\"route\":\"/a\",\"method\":\"POST\",\"rate\":2.0,\"total\":4,\"errors\":0,\"p50\":-1.000,\"p99\":-1.000},"
           "{\"route\":\"/b\",\"method\":\"GET\",\"rate\":0.0,\"total\":1,\"errors\":0,\"p50\":-1.000,\"p99\":-1.000}]"
           ",\"routes_left_out\":0,");
}

/* Series that differ by any attribute have different pasts. */
static void test_a_series_is_found_by_all_its_attributes(void **state) {
    (void)state;
    (void)add_series(&now, "/a", "GET", 200, 10);
    uvhttp_metrics_series_t *old = &add_series(&before, "/a", "GET", 200, 10)->shown;
    const uvhttp_metrics_series_t same = *old;
    expect(uvhttp__admin_write_details, "\"rate\":0.0,\"total\":10,");
    for (int i = 0; i < 7; i++) {
        *old = same;
        if (i == 0) old->status = 404;
        if (i == 1) old->overflow = true;
        if (i == 2) old->route = "/b";
        if (i == 3) old->method = "PUT";
        if (i == 4) old->protocol = "2";
        if (i == 5) old->scheme = "https";
        if (i == 6) old->error_type = "aborted";
        expect(uvhttp__admin_write_details, "\"rate\":5.0,\"total\":10,");
    }
}

static void test_routes_above_the_maximum_are_counted(void **state) {
    (void)state;
    static char names[ROUTES_MAX][8];
    for (unsigned i = 0; i < ROUTES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "/%u", i);
        add_series(&now, names[i], "GET", 200, 1);
    }
    expect(uvhttp__admin_write_details, "\"route\":\"/63\"");
    expect(uvhttp__admin_write_details, "],\"routes_left_out\":6,\"totals\":{\"requests\":0,");
}

static void write_details(void *user) {
    (void)user;
    uvhttp__writer_t json = {0};
    uvhttp__admin_write_details(&json, &before.snapshot.shown, &now.snapshot.shown);
    assert_int_equal(json.failed, test_allocator_failed());
    uvhttp__writer_free(&json);
}

static void test_without_memory_the_text_has_failed(void **state) {
    (void)state;
    add_series(&now, "/a", "GET", 200, 1);
    assert_true(test_allocator_each_failure(write_details, NULL) >= 2);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(set_up, NULL, test_rates_are_per_second_and_never_negative,
                          test_errors_are_summed_by_the_start_of_their_names, test_errors_are_compared_by_their_names,
                          test_two_snapshots_at_the_same_time_are_a_millisecond_apart, test_the_process_is_as_it_is_now,
                          test_without_requests_there_are_no_times, test_percentiles_are_of_what_came_between,
                          test_a_time_below_and_one_above_all_rows_are_in_the_first_and_the_last,
                          test_a_loop_has_what_it_did_per_second, test_a_route_is_the_sum_of_its_series,
                          test_a_series_is_found_by_all_its_attributes, test_routes_above_the_maximum_are_counted,
                          test_without_memory_the_text_has_failed);
}
