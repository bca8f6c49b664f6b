/* Owns: the model of the log: lines of handlers, each with the number of its thread and its own, which arrive whole and
 * in the order of their thread, or count as dropped, lost or suppressed; and the reports of those. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "obs/log_writer.h"
#include "sim.h"

enum { WRITERS_MAX = 4096, FILLER_MAX = 900, LATE_MS = 1000, ENDS_MS = UVHTTP__LOG_LAST_MS + 200, FLOOD_MAX = 600 };

static uint64_t run;
static bool running; /* between the start of the server and its end */
static bool json;
static uint32_t burst; /* lines for each request */
static uint32_t writers;
static uint32_t next_seen[WRITERS_MAX]; /* of a writer: the number that it may have at least */
static uint64_t logged, seen, reported_dropped, reported_lost, reported_suppressed;
static uvhttp_log_stats_t before;
static uint64_t last_ns; /* when a handler logged last */

static _Thread_local struct {
    uint64_t run;
    uint32_t number, next;
} writer;

static uint32_t filler_size(uint32_t number, uint32_t at) {
    return (number * 131 + at * 37) % FILLER_MAX;
}

static char filler(uint32_t number, uint32_t at, uint32_t i) {
    return (char)('a' + (number * 7 + at * 3 + i) % 26);
}

void sim_log_reset(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x10);
    run++;
    running = false;
    memset(next_seen, 0, writers * sizeof *next_seen);
    writers = 0;
    logged = seen = reported_dropped = reported_lost = reported_suppressed = 0;
    sim_logged = seed == 0 || (sim_one_in(&random, 8) && !sim_crowd);
    if (!sim_logged) return;
    burst = sim_one_in(&random, 3) ? 1 + sim_below(&random, sim_one_in(&random, 4) ? FLOOD_MAX : 40) : 1;
    json = sim_one_in(&random, 3);
    (void)uvhttp_log_set_format(json ? UVHTTP_LOG_FORMAT_JSON : UVHTTP_LOG_FORMAT_TEXT);
    (void)uvhttp_log_set_rate_limit(sim_one_in(&random, 2) ? 0 : 1 + sim_below(&random, 100));
    (void)uvhttp_log_set_level(UVHTTP_LOG_LEVEL_DEBUG);
    (void)uvhttp_log_stats(&before);
}

/* --- what is logged --- */

static void log_one(void) {
    char text[FILLER_MAX + 1];
    uint32_t size = filler_size(writer.number, writer.next);
    for (uint32_t i = 0; i < size; i++) text[i] = filler(writer.number, writer.next, i);
    text[size] = '\0';
    logged++;
    last_ns = sim_now_ns;
    uvhttp_log(writer.next % 3 ? UVHTTP_LOG_LEVEL_INFO : UVHTTP_LOG_LEVEL_WARN, "simline %u %u %s.", writer.number,
               writer.next, text);
    writer.next++;
}

static bool anything_is_missing(void) {
    uvhttp_log_stats_t now;
    (void)uvhttp_log_stats(&now);
    return now.dropped != before.dropped || now.failed != before.failed || now.suppressed != before.suppressed;
}

void sim_log_lines(void) {
    if (!sim_logged) return;
    if (writer.run != run) {
        if (writers == WRITERS_MAX) return;
        writer.run = run;
        writer.number = writers++;
        writer.next = 0;
    }
    if (sim_standard_error_is_good() && seen < logged && sim_now_ns - last_ns > LATE_MS * SIM_MS &&
        !anything_is_missing())
        sim_fail("a line of the log is not written after %" PRIu64 " ms", (sim_now_ns - last_ns) / SIM_MS);
    for (uint32_t i = 0; i < burst; i++) log_one();
}

void sim_log_server_runs(bool runs) {
    running = runs;
}

/* While a server runs, a thread that logs never writes: it could have to wait. */
void sim_log_check_writer(void) {
    if (running && writer.run == run) sim_fail("a thread that logs writes to standard error by itself");
}

/* --- what arrives --- */

static bool is_right_end(const char *at, const char *end) {
    if (json) return strncmp(at, "\"}", 2) == 0 || strncmp(at, "\",\"trace_id\":\"", 14) == 0;
    return at == end || strncmp(at, " trace_id=", 10) == 0;
}

static void take_ours(const char *at, const char *end) {
    char *rest;
    uint32_t number = (uint32_t)strtoul(at, &rest, 10), line = (uint32_t)strtoul(rest, &rest, 10);
    if (number >= writers || *rest != ' ') sim_fail("the log has a line of nobody: %s", at);
    rest++;
    for (uint32_t i = 0, size = filler_size(number, line); i < size; i++)
        if (*rest++ != filler(number, line, i)) sim_fail("line %u of thread %u is not whole in the log", line, number);
    if (*rest++ != '.' || !is_right_end(rest, end))
        sim_fail("line %u of thread %u ends with %s in the log", line, number, rest);
    if (line < next_seen[number])
        sim_fail("line %u of thread %u is in the log behind line %u", line, number, next_seen[number] - 1);
    next_seen[number] = line + 1;
    seen++;
}

/* "log: 3 lines were dropped here: ..." and so on; in JSON the area is a field of its own. */
static void take_report(const char *line) {
    static const struct {
        const char *text;
        uint64_t *count;
    } reports[] = {{" lost here", &reported_lost},
                   {" dropped here", &reported_dropped},
                   {" in the last second", &reported_suppressed}};
    const char *message = strstr(line, json ? "\"message\":\"" : " log: "), *number;
    for (size_t i = 0; message && i < sizeof reports / sizeof *reports; i++)
        if (strstr(message, reports[i].text) && (number = strpbrk(message, "0123456789")) != NULL)
            *reports[i].count += strtoull(number, NULL, 10);
}

void sim_log_take(const char *line, const char *end) {
    if (json ? strncmp(line, "{\"time\":\"", 9) != 0 || end[-1] != '}' : *line < '0' || *line > '9')
        sim_fail("a line of the log is not whole: %s", line);
    const char *ours = strstr(line, "simline ");
    if (ours)
        take_ours(ours + 8, end);
    else
        take_report(line);
}

/* --- the end --- */

static void check_counts(void) {
    uvhttp_log_stats_t now;
    uint64_t bytes, lines = sim_standard_error_lines(&bytes);
    (void)uvhttp_log_stats(&now);
    uint64_t dropped = now.dropped - before.dropped, failed = now.failed - before.failed,
             suppressed = now.suppressed - before.suppressed;
    sim_trace("log: lines, dropped", lines, dropped);
    sim_trace("log: lost, suppressed", failed, suppressed);
    if (now.lines - before.lines != lines || now.bytes - before.bytes != bytes)
        sim_fail("%" PRIu64 " lines of the log and %" PRIu64 " bytes count as written, and %" PRIu64 " and %" PRIu64
                 " have come",
                 now.lines - before.lines, now.bytes - before.bytes, lines, bytes);
    bool reports_are_missing = reported_suppressed < suppressed && dropped + failed == 0; /* else one is among those */
    if (reported_dropped != dropped || reported_lost != failed || reported_suppressed > suppressed ||
        reports_are_missing)
        sim_fail("%" PRIu64 " lines of the log are dropped, %" PRIu64 " lost, %" PRIu64 " suppressed; it says %" PRIu64
                 ", %" PRIu64 ", %" PRIu64,
                 dropped, failed, suppressed, reported_dropped, reported_lost, reported_suppressed);
    if (logged - seen > dropped + failed + suppressed)
        sim_fail("%" PRIu64 " lines were logged, %" PRIu64 " have come, and %" PRIu64 " count as missing", logged, seen,
                 dropped + failed + suppressed);
}

/* The end of a server that was attached does not wait for the thread that writes: the next one joins it. It ends by
 * itself, also when standard error accepts nothing. */
static void join_writer(void) {
    sim_wait_time(sim_now_ns + ENDS_MS * SIM_MS);
    uvhttp__log_writer_open();
    uvhttp__log_writer_close(0);
}

/* Behind the end of the server: standard error accepts all now, and a last line brings what is left. */
void sim_log_end(void) {
    if (!sim_logged) return;
    if (sim_is_guest) join_writer();
    sim_standard_error_relieve();
    (void)uvhttp_log_set_rate_limit(0);
    uvhttp_log(UVHTTP_LOG_LEVEL_ERROR, "sim: the end");
    check_counts();
    (void)uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    sim_logged = false;
}
