/* Owns: tests of the access log's lines and its ring. */
/* Needs: middleware. */
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "io/io.h"
#include "middleware/access_log.h"
#include "middleware/running.h"
#include "support/exchange.h"

/* --- lines --- */

static char line[UVHTTP__ACCESS_LINE_MAX];

/* 10 October 2000, 13:55:36.123456 UTC. */
#define REAL_OFFSET (INT64_C(971186136123456000) - 1000)

static const uvhttp__entry_source_t plain = {
    .entry = {.status = 200,
              .start_ns = 1000,
              .duration_ns = 42999,
              .bytes = 2326,
              .client.kind = UVHTTP__PEER_UNIX,
              .version = UVHTTP_HTTP_1_1},
    .fields = {[UVHTTP__ENTRY_METHOD] = UVHTTP__STR_INIT("GET"), [UVHTTP__ENTRY_TARGET] = UVHTTP__STR_INIT("/a?b=c")},
};

static const char *line_of(uvhttp_access_log_format_t format, const uvhttp__entry_source_t *source) {
    uvhttp__entry_ring_t *ring = uvhttp__entry_ring_new(65536);
    assert_non_null(ring);
    assert_true(uvhttp__entry_ring_put(ring, source) > 0);
    const uvhttp__entry_t *entry = uvhttp__entry_ring_peek(ring);
    size_t size = uvhttp__access_line(format, entry, REAL_OFFSET, line);
    assert_int_equal(line[size - 1], '\n');
    assert_null(memchr(line, '\n', size - 1));
    line[size - 1] = '\0';
    assert_int_equal(strlen(line), size - 1);
    uvhttp__entry_ring_release(ring, entry);
    assert_null(uvhttp__entry_ring_peek(ring));
    uvhttp__entry_ring_free(ring);
    return line;
}

static void test_the_three_formats(void **state) {
    (void)state;
    uvhttp__entry_source_t source = plain;
    source.entry.client = uvhttp__peer_of_ip("\300\0\002\007", 4, 1);
    assert_string_equal(line_of(UVHTTP_ACCESS_LOG_COMMON, &source),
                        "192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /a?b=c HTTP/1.1\" 200 2326");
    assert_string_equal(line_of(UVHTTP_ACCESS_LOG_COMBINED, &source),
                        "192.0.2.7 - - [10/Oct/2000:13:55:36 +0000] \"GET /a?b=c HTTP/1.1\" 200 2326 \"-\" \"-\"");
    assert_string_equal(line_of(UVHTTP_ACCESS_LOG_JSON, &source),
                        "{\"time\":\"2000-10-10T13:55:36.123456Z\",\"client\":\"192.0.2.7\",\"protocol\":\"HTTP/1.1\","
                        "\"method\":\"GET\",\"target\":\"/a?b=c\",\"status\":200,\"bytes\":2326,\"duration_us\":42}");
    source.entry.aborted = true;
    source.entry.version = UVHTTP_HTTP_1_0;
    source.entry.status = 499;
    source.entry.bytes = 0;
    source.fields[UVHTTP__ENTRY_USER] = UVHTTP__STR("frank");
    source.fields[UVHTTP__ENTRY_REFERER] = UVHTTP__STR("http://a/");
    source.fields[UVHTTP__ENTRY_AGENT] = UVHTTP__STR("curl/7.88");
    source.fields[UVHTTP__ENTRY_HOST] = UVHTTP__STR("h:1");
    source.fields[UVHTTP__ENTRY_ID] = UVHTTP__STR("7f");
    assert_string_equal(line_of(UVHTTP_ACCESS_LOG_COMBINED, &source),
                        "192.0.2.7 - frank [10/Oct/2000:13:55:36 +0000] \"GET /a?b=c HTTP/1.0\" 499 - \"http://a/\" "
                        "\"curl/7.88\"");
    assert_string_equal(
        line_of(UVHTTP_ACCESS_LOG_JSON, &source),
        "{\"time\":\"2000-10-10T13:55:36.123456Z\",\"client\":\"192.0.2.7\",\"protocol\":\"HTTP/1.0\","
        "\"method\":\"GET\",\"target\":\"/a?b=c\",\"user\":\"frank\",\"referer\":\"http://a/\","
        "\"user_agent\":\"curl/7.88\",\"host\":\"h:1\",\"request_id\":\"7f\",\"status\":499,\"bytes\":0,"
        "\"duration_us\":42,\"aborted\":true}");
    source.entry.version = UVHTTP_HTTP_2;
    assert_non_null(strstr(line_of(UVHTTP_ACCESS_LOG_COMMON, &source), "\"GET /a?b=c HTTP/2.0\" "));
    assert_non_null(strstr(line_of(UVHTTP_ACCESS_LOG_JSON, &source), "\"protocol\":\"HTTP/2.0\","));
}

/* Between the quotes of a combined line's agent, or of the JSON member. */
static void assert_escaped(uvhttp_str_t agent, const char *text, const char *json) {
    uvhttp__entry_source_t source = plain;
    source.fields[UVHTTP__ENTRY_AGENT] = agent;
    const char *found = strstr(line_of(UVHTTP_ACCESS_LOG_COMBINED, &source), "\"-\" ") + 4;
    assert_int_equal(strlen(found), strlen(text) + 2);
    assert_memory_equal(found + 1, text, strlen(text));
    found = strstr(line_of(UVHTTP_ACCESS_LOG_JSON, &source), "\"user_agent\":\"") + 14;
    assert_memory_equal(found, json, strlen(json));
    assert_memory_equal(found + strlen(json), "\",\"status\"", 10);
}

static void test_no_client_can_write_a_line_of_its_own(void **state) {
    (void)state;
#define E(literal, text, json) assert_escaped(UVHTTP__STR(literal), text, json)
    E("a\" 200 5 \"x", "a\\\" 200 5 \\\"x", "a\\\" 200 5 \\\"x");
    E("a\\", "a\\\\", "a\\\\");
    E("a\r\nb\tc", "a\\x0d\\x0ab\\x09c", "a\\u000d\\u000ab\\u0009c");
    E("\x1b[31m\x7f", "\\x1b[31m\\x7f", "\\u001b[31m\\u007f");
    E("a\0b", "a\\x00b", "a\\u0000b");
    E("gr\xc3\xbc\xc3\x9f", "gr\\xc3\\xbc\\xc3\\x9f", "gr\xc3\xbc\xc3\x9f");
    E("\xf0\x9f\x98\x80", "\\xf0\\x9f\\x98\\x80", "\xf0\x9f\x98\x80");
    E("\xff\xc3", "\\xff\\xc3", "\\u00ff\\u00c3");
    E("\xc0\x8a", "\\xc0\\x8a", "\\u00c0\\u008a");                 /* a long LF */
    E("\xc2\x9b", "\\xc2\\x9b", "\\u00c2\\u009b");                 /* C1: CSI */
    E("\xed\xa0\x80", "\\xed\\xa0\\x80", "\\u00ed\\u00a0\\u0080"); /* a surrogate */
    E("\xe2\x80\xa8", "\\xe2\\x80\\xa8", "\\u00e2\\u0080\\u00a8"); /* U+2028 */
    E("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\\u00f4\\u0090\\u0080\\u0080");
    E("\xe2\x82", "\\xe2\\x82", "\\u00e2\\u0082"); /* cut off */
    uvhttp__entry_source_t source = plain;
    source.fields[UVHTTP__ENTRY_USER] = UVHTTP__STR("a b");
    assert_non_null(strstr(line_of(UVHTTP_ACCESS_LOG_COMMON, &source), " a\\x20b ["));
}

static void test_long_fields_are_cut(void **state) {
    (void)state;
    static char all[UVHTTP__ENTRY_FIELD_SIZE_MAX + 1];
    memset(all, '\1', sizeof all); /* what takes most */
    uvhttp__entry_source_t source = plain;
    for (int i = 0; i < UVHTTP__ENTRY_FIELD_COUNT; i++) source.fields[i] = (uvhttp_str_t){all, sizeof all};
    for (int format = 0; format < 3; format++) {
        const char *text = line_of((uvhttp_access_log_format_t)format, &source);
        assert_true(strlen(text) + 1 < UVHTTP__ACCESS_LINE_MAX);
        assert_non_null(strstr(text, format == UVHTTP_ACCESS_LOG_JSON ? "\\u0001...\"" : "\\x01... HTTP/1.1\""));
    }
}

static void test_a_line_says_how_many_are_missing(void **state) {
    (void)state;
    size_t size = uvhttp__access_dropped_line(UVHTTP_ACCESS_LOG_COMBINED, 17, REAL_OFFSET, line);
    line[size] = '\0';
    assert_string_equal(line,
                        "- - - [10/Oct/2000:13:55:36 +0000] \"uvhttp: 17 requests dropped here\" 0 - \"-\" \"-\"\n");
    size = uvhttp__access_dropped_line(UVHTTP_ACCESS_LOG_JSON, 17, REAL_OFFSET, line);
    line[size] = '\0';
    assert_string_equal(line, "{\"time\":\"2000-10-10T13:55:36.123455Z\",\"dropped\":17}\n");
}

/* --- the ring --- */

/* A source whose target is `size` bytes that tell the number. */
static void numbered(uvhttp__entry_source_t *source, char *text, uint64_t number, size_t size) {
    *source = plain;
    memset(text, 'a' + (int)(number % 26), size);
    source->entry.bytes = number;
    source->fields[UVHTTP__ENTRY_TARGET] = (uvhttp_str_t){text, size};
}

static size_t size_of(uint64_t number) {
    return 1 + (size_t)(number * 2654435761u % 4000);
}

static void check_numbered(const uvhttp__entry_t *entry, uint64_t number) {
    assert_int_equal(entry->bytes, number);
    assert_int_equal(entry->sizes[UVHTTP__ENTRY_TARGET], size_of(number));
    const char *target = (const char *)(entry + 1) + entry->sizes[UVHTTP__ENTRY_METHOD];
    assert_int_equal(target[0], 'a' + (int)(number % 26));
    assert_int_equal(target[size_of(number) - 1], 'a' + (int)(number % 26));
}

static void test_a_full_ring_drops_and_loses_nothing_else(void **state) {
    (void)state;
    uvhttp__entry_ring_t *ring = uvhttp__entry_ring_new(65536);
    uvhttp__entry_source_t source;
    char text[4096];
    uint64_t put = 0, consumed = 0;
    for (int round = 0; round < 200; round++) {
        for (;;) { /* until it is full */
            numbered(&source, text, put, size_of(put));
            uint64_t waiting = uvhttp__entry_ring_put(ring, &source);
            if (waiting == 0) break;
            assert_true(waiting <= 65536);
            put++;
        }
        assert_int_equal(uvhttp__entry_ring_dropped(ring), round + 1);
        for (int i = 0; i < 1 + round % 30; i++) {
            const uvhttp__entry_t *entry = uvhttp__entry_ring_peek(ring);
            if (!entry) break;
            check_numbered(entry, consumed++);
            uvhttp__entry_ring_release(ring, entry);
        }
    }
    for (const uvhttp__entry_t *entry; (entry = uvhttp__entry_ring_peek(ring)) != NULL;) {
        check_numbered(entry, consumed++);
        uvhttp__entry_ring_release(ring, entry);
    }
    assert_int_equal(consumed, put);
    assert_true(put > 500);
    uvhttp__entry_ring_free(ring);
}

#define SHARED_COUNT 100000

static void *put_many(void *arg) {
    uvhttp__entry_ring_t *ring = arg;
    uvhttp__entry_source_t source;
    char text[4096];
    for (uint64_t number = 0; number < SHARED_COUNT;) {
        numbered(&source, text, number, size_of(number));
        if (uvhttp__entry_ring_put(ring, &source) > 0) number++;
    }
    return NULL;
}

static void test_two_threads_share_a_ring(void **state) {
    (void)state;
    uvhttp__entry_ring_t *ring = uvhttp__entry_ring_new(65536);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, put_many, ring), 0);
    for (uint64_t number = 0; number < SHARED_COUNT;) {
        const uvhttp__entry_t *entry = uvhttp__entry_ring_peek(ring);
        if (!entry) continue;
        check_numbered(entry, number++);
        uvhttp__entry_ring_release(ring, entry);
    }
    pthread_join(thread, NULL);
    assert_null(uvhttp__entry_ring_peek(ring));
    uvhttp__entry_ring_free(ring);
}

/* --- the middleware --- */

static atomic_int warnings; /* of requests that were not logged */

/* For tests that drop: on the log's thread. */
static void take_warning(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)size, (void)user;
    if (level == UVHTTP_LOG_LEVEL_WARN && strstr(message, "requests were not logged, because lines come faster"))
        atomic_fetch_add(&warnings, 1);
}

static void expect_warnings(void) {
    warnings = 0;
    uvhttp_log_set_callback(take_warning, NULL);
}

typedef struct kept {
    pthread_mutex_t lock;
    size_t lines, calls;
    char last[512];
} kept_t;

static void keep(const char *lines, size_t size, void *user) {
    kept_t *kept = user;
    pthread_mutex_lock(&kept->lock);
    assert_int_equal(lines[size - 1], '\n');
    for (size_t i = 0; i < size; i++) kept->lines += lines[i] == '\n';
    kept->calls++;
    size_t last = size - 1;
    while (last > 0 && lines[last - 1] != '\n') last--;
    assert_true(size - last < sizeof kept->last);
    memcpy(kept->last, lines + last, size - last);
    kept->last[size - last] = '\0';
    pthread_mutex_unlock(&kept->lock);
}

static void times(const uvhttp_request_t *req, uint64_t *start_ns, uint64_t *now_ns) {
    (void)req;
    *start_ns = 1;
    *now_ns = 5001;
}

static void respond(exchange_t *one, uvhttp_middleware_t log, int status) {
    static const uvhttp__request_ops_t ops = {.times = times};
    uvhttp__response_done(&one->res, 0);
    exchange_request(one, UVHTTP_GET, STR("/x"), NULL);
    one->req.ops = &ops;
    assert_int_equal(log.run(&one->req, &one->res, log.user), UVHTTP_NEXT);
    if (status == UVHTTP_OK) (void)uvhttp_response_text(&one->res, 201, "hi");
    one->res.sent_size = 2;
    uvhttp__response_done(&one->res, status);
}

static void test_every_end_of_a_request_is_a_line(void **state) {
    (void)state;
    kept_t kept = {.lock = PTHREAD_MUTEX_INITIALIZER};
    uvhttp_middleware_t log = uvhttp_access_log(
        &(uvhttp_access_log_options_t){.format = UVHTTP_ACCESS_LOG_JSON, .write = keep, .user = &kept, .flush_ms = 1});
    respond(&ex, log, UVHTTP_OK);
    drop(log);
    assert_int_equal(kept.lines, 1);
    assert_non_null(strstr(kept.last, "\"status\":201,\"bytes\":2,\"duration_us\":5}"));
    log = uvhttp_access_log(&(uvhttp_access_log_options_t){.write = keep, .user = &kept, .flush_ms = 60000});
    respond(&ex, log, UVHTTP_E_ABORTED);
    drop(log); /* does not wait for a minute */
    assert_int_equal(kept.lines, 2);
    assert_non_null(strstr(kept.last, "\"GET /x HTTP/1.1\" 499 - \"-\" \"-\""));
}

typedef struct loop {
    uvhttp_middleware_t log;
    int count;
    pthread_t thread;
} loop_t;

static void *respond_many(void *arg) {
    loop_t *loop = arg;
    exchange_t *own = calloc(1, sizeof *own);
    exchange_init(own, SIZE_MAX);
    for (int i = 0; i < loop->count; i++) respond(own, loop->log, UVHTTP_OK);
    uvhttp__response_done(&own->res, 0);
    exchange_deinit(own);
    free(own);
    return NULL;
}

static void test_all_loops_log_without_losing_a_line(void **state) {
    (void)state;
    expect_warnings();
    kept_t kept = {.lock = PTHREAD_MUTEX_INITIALIZER};
    uvhttp_middleware_t log = uvhttp_access_log(
        &(uvhttp_access_log_options_t){.write = keep, .user = &kept, .flush_ms = 1, .ring_size = 65536});
    loop_t loops[4];
    for (int i = 0; i < 4; i++) {
        loops[i] = (loop_t){.log = log, .count = 20000};
        assert_int_equal(pthread_create(&loops[i].thread, NULL, respond_many, &loops[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(loops[i].thread, NULL);
    uvhttp_access_log_stats_t stats;
    uvhttp_access_log_stats(log, &stats);
    drop(log);
    assert_true(kept.lines >= 80000 - stats.dropped);
    assert_true(kept.lines <= 80000 - stats.dropped + 4 * kept.calls); /* one line of each ring says what is missing */
    assert_true(kept.calls < kept.lines / 10);                         /* in batches */
}

static sem_t gate;
static bool reported_dropped;

static void wait_at_gate(const char *lines, size_t size, void *user) {
    static const char words[] = "requests dropped here\" 0 - \"-\" \"-\"\n";
    sem_wait(&gate);
    sem_post(&gate);
    reported_dropped |= memmem(lines, size, words, sizeof words - 1) != NULL;
    keep(lines, size, user);
}

static void test_a_writer_that_waits_stops_nobody(void **state) {
    (void)state;
    expect_warnings();
    kept_t kept = {.lock = PTHREAD_MUTEX_INITIALIZER};
    sem_init(&gate, 0, 0);
    uvhttp_middleware_t log = uvhttp_access_log(
        &(uvhttp_access_log_options_t){.write = wait_at_gate, .user = &kept, .flush_ms = 1, .ring_size = 65536});
    for (int i = 0; i < 5000; i++) respond(&ex, log, UVHTTP_OK); /* much more than fits */
    uvhttp_access_log_stats_t stats;
    assert_int_equal(uvhttp_access_log_stats(log, &stats), UVHTTP_OK);
    assert_true(stats.dropped > 1000);
    assert_int_equal(stats.lines, 0);
    sem_post(&gate);
    drop(log);
    assert_in_range(kept.lines, 5000 - stats.dropped + 1, 5000 - stats.dropped + 3);
    assert_in_range(warnings, 1, 3);
    assert_true(reported_dropped); /* in any batch: requests that fit again may come after it */
    sem_destroy(&gate);
}

static void test_two_logs_on_a_thread_do_not_mix(void **state) {
    (void)state;
    kept_t kept[2] = {{.lock = PTHREAD_MUTEX_INITIALIZER}, {.lock = PTHREAD_MUTEX_INITIALIZER}};
    uvhttp_middleware_t logs[2];
    for (int i = 0; i < 2; i++)
        logs[i] = uvhttp_access_log(&(uvhttp_access_log_options_t){.write = keep, .user = &kept[i]});
    for (int i = 0; i < 30; i++) respond(&ex, logs[i % 3 == 0], UVHTTP_OK);
    for (int i = 0; i < 2; i++) drop(logs[i]);
    assert_int_equal(kept[0].lines, 20);
    assert_int_equal(kept[1].lines, 10);
    /* A new log is not confused with an old one at the same address. */
    logs[0] = uvhttp_access_log(&(uvhttp_access_log_options_t){.write = keep, .user = &kept[0]});
    respond(&ex, logs[0], UVHTTP_OK);
    drop(logs[0]);
    assert_int_equal(kept[0].lines, 21);
}

/* --- files --- */

static uvhttp_access_log_stats_t settled(uvhttp_middleware_t log, uint64_t lines) {
    uvhttp_access_log_stats_t stats = {0};
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(uvhttp_access_log_stats(log, &stats), UVHTTP_OK);
        if (stats.lines + stats.failed >= lines) break;
        usleep(5000);
    }
    return stats;
}

static void limit_files(rlim_t size) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* RLIMIT_FSIZE stands for the full disk: the write that crosses it is cut. */
static void test_a_full_disk_cuts_no_line_and_every_line_is_counted_once(void **state) {
    (void)state;
    char path[] = "/tmp/access_logXXXXXX", text[65536];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    uvhttp_middleware_t log = uvhttp_access_log(
        &(uvhttp_access_log_options_t){.path = path, .flush_ms = 1, .format = UVHTTP_ACCESS_LOG_JSON});
    limit_files(5003);
    for (int i = 0; i < 200; i++) respond(&ex, log, UVHTTP_OK);
    uvhttp_access_log_stats_t stats = settled(log, 199); /* one may be half in the file */
    assert_true(stats.failed > 100);
    assert_true(stats.lines > 10);
    assert_int_equal(lseek(fd, 0, SEEK_END), 5003);
    limit_files(RLIM_INFINITY);
    respond(&ex, log, UVHTTP_OK);
    stats = settled(log, 201);
    assert_int_equal(stats.lines + stats.failed, 201);
    ssize_t size = pread(fd, text, sizeof text, 0);
    assert_int_equal(size, stats.bytes);
    uint64_t lines = 0;
    for (const char *at = text, *end; at < text + size; at = end + 1, lines++) {
        end = memchr(at, '\n', (size_t)(text + size - at));
        assert_non_null(end);
        assert_memory_equal(at, "{\"time\"", 7);
        assert_int_equal(end[-1], '}');
        assert_null(memmem(at + 1, (size_t)(end - at - 1), "{\"time\"", 7)); /* not two in one */
    }
    assert_int_equal(lines, stats.lines);
    drop(log);
    close(fd);
    unlink(path);
    logged[0] = '\0';
}

static off_t file_size(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

/* Its thread starts with the first request. */
static void test_a_file_that_was_rotated_before_the_first_request_gets_no_line(void **state) {
    (void)state;
    char directory[] = "/tmp/access_logXXXXXX", path[64], old[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/a", directory);
    snprintf(old, sizeof old, "%s/a.1", directory);
    for (int i = 0; i < 20; i++) {
        uvhttp_middleware_t log = uvhttp_access_log(&(uvhttp_access_log_options_t){.path = path});
        assert_int_equal(rename(path, old), 0);
        assert_int_equal(uvhttp_access_log_reopen(log), UVHTTP_OK);
        respond(&ex, log, UVHTTP_OK);
        usleep(10000);
        drop(log);
        assert_int_equal(file_size(old), 0);
        assert_true(file_size(path) > 0);
        unlink(path);
    }
    unlink(old);
    rmdir(directory);
}

static bool exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && info.st_size > 0;
}

/* The disk that is full when the file is rotated, or descriptors that are lacking, pass. The lines go to the old file
 * until then, and not until the next rotation. */
static void test_a_file_that_cannot_be_opened_anew_is_tried_again(void **state) {
    (void)state;
    char directory[] = "/tmp/access_logXXXXXX", folder[64], moved[64], path[80], old[80];
    assert_non_null(mkdtemp(directory));
    snprintf(folder, sizeof folder, "%s/now", directory);
    snprintf(moved, sizeof moved, "%s/before", directory);
    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(old, sizeof old, "%s/a", moved);
    assert_int_equal(mkdir(folder, 0700), 0);
    uvhttp_middleware_t log = uvhttp_access_log(&(uvhttp_access_log_options_t){.path = path, .flush_ms = 1});
    respond(&ex, log, UVHTTP_OK);
    assert_int_equal(settled(log, 1).lines, 1);
    assert_int_equal(rename(folder, moved), 0);
    assert_int_equal(uvhttp_access_log_reopen(log), UVHTTP_OK);
    for (uint64_t lines = 2; lines < 5; lines++) {
        respond(&ex, log, UVHTTP_OK);
        assert_int_equal(settled(log, lines).lines, lines);
    }
    off_t size = file_size(old);
    assert_non_null(strstr(logged, "the old file is kept"));
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int i = 0; i < 2000 && !exists(path); i++) {
        respond(&ex, log, UVHTTP_OK);
        usleep(5000);
    }
    assert_true(exists(path));
    assert_int_equal(settled(log, 5).reopened, 1);
    drop(log);
    assert_true(file_size(old) <= 2 * size); /* the first lines after it may have been on their way */
    unlink(path);
    unlink(old);
    rmdir(folder);
    rmdir(moved);
    rmdir(directory);
    logged[0] = '\0';
}

typedef struct flood {
    uvhttp_middleware_t log;
    atomic_bool over;
    int reader; /* of the FIFO that the log is */
} flood_t;

static void *flood(void *user) {
    flood_t *it = user;
    exchange_t *own = calloc(1, sizeof *own);
    exchange_init(own, SIZE_MAX);
    while (!it->over) respond(own, it->log, UVHTTP_OK);
    exchange_deinit(own);
    free(own);
    return NULL;
}

/* A reader that takes less than is written, on a machine of any speed and under any sanitizer. */
static void *read_slowly(void *user) {
    const flood_t *it = user;
    char text[4096];
    while (!it->over) {
        (void)!read(it->reader, text, sizeof text);
        usleep(5000);
    }
    return NULL;
}

/* Two loops put without end what cannot be written: the file is opened anew all the same, and what is missing is said
 * from time to time. */
static void test_a_log_that_falls_behind_is_rotated_and_says_so(void **state) {
    (void)state;
    expect_warnings();
    char directory[] = "/tmp/access_logXXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    flood_t it = {.reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    assert_true(it.reader >= 0);
    uint64_t start_ns = uvhttp__clock_ns();
    it.log = uvhttp_access_log(&(uvhttp_access_log_options_t){.path = path, .flush_ms = 1, .ring_size = 65536});
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? flood : read_slowly, &it), 0);
    uvhttp_access_log_stats_t stats = {0};
    for (int i = 0; i < 4000 && stats.dropped < 10000; i++) {
        usleep(5000);
        assert_int_equal(uvhttp_access_log_stats(it.log, &stats), UVHTTP_OK);
    }
    assert_true(stats.dropped >= 10000);
    for (uint64_t n = 1; n <= 3; n++) {
        assert_int_equal(uvhttp_access_log_reopen(it.log), UVHTTP_OK);
        for (int i = 0; i < 2000 && stats.reopened < n; i++) {
            usleep(5000);
            assert_int_equal(uvhttp_access_log_stats(it.log, &stats), UVHTTP_OK);
        }
        assert_int_equal(stats.reopened, n);
    }
    uint64_t seconds = (uvhttp__clock_ns() - start_ns) / 1000000000;
    assert_in_range(warnings, 1, 1 + seconds / 10); /* of more than 10,000 requests */
    it.over = true;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    drop(it.log);
    close(it.reader);
    unlink(path);
    rmdir(directory);
    logged[0] = '\0';
}

static void test_wrong_options_are_refused(void **state) {
    (void)state;
    assert_refused(uvhttp_access_log(&(uvhttp_access_log_options_t){.format = 3}),
                   "middleware: access_log: format: expected a UVHTTP_ACCESS_LOG_* value");
    assert_refused(uvhttp_access_log(&(uvhttp_access_log_options_t){.fd = -1}),
                   "middleware: access_log: fd is negative");
    assert_refused(
        uvhttp_access_log(&(uvhttp_access_log_options_t){.ring_size = 65537}),
        "middleware: access_log: ring_size: expected a power of two, 65536..1073741824, or 0 for the default");
    assert_refused(uvhttp_access_log(&(uvhttp_access_log_options_t){.flush_ms = 60001}),
                   "middleware: access_log: flush_ms: expected 1..60000, or 0 for the default");
    assert_refused(uvhttp_access_log(&(uvhttp_access_log_options_t){.path = "/nowhere/at/all"}),
                   "middleware: access_log: cannot open path \"/nowhere/at/all\": No such file or directory");
    assert_int_equal(uvhttp_access_log_reopen((uvhttp_middleware_t){0}), UVHTTP_E_INVALID);
    uvhttp_access_log_stats_t stats;
    assert_int_equal(uvhttp_access_log_stats((uvhttp_middleware_t){0}, &stats), UVHTTP_E_INVALID);
}

static void attempt(void *user) {
    (void)user;
    kept_t kept = {.lock = PTHREAD_MUTEX_INITIALIZER};
    uvhttp_middleware_t log = uvhttp_access_log(&(uvhttp_access_log_options_t){.write = keep, .user = &kept});
    uvhttp_middleware_t file = uvhttp_access_log(&(uvhttp_access_log_options_t){.path = "/dev/null"});
    exchange_t *own = calloc(1, sizeof *own);
    exchange_init(own, SIZE_MAX);
    for (int i = 0; log.run && i < 3; i++) respond(own, log, UVHTTP_OK);
    exchange_deinit(own);
    free(own);
    uvhttp_access_log_stats_t stats = {0};
    if (log.run) assert_int_equal(uvhttp_access_log_stats(log, &stats), UVHTTP_OK);
    drop(log);
    drop(file);
    if (log.run) assert_int_equal(kept.lines + stats.dropped, 3);
    logged[0] = '\0';
}

static void test_without_memory_requests_continue_and_are_counted(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(attempt, NULL) >= 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_three_formats),
        cmocka_unit_test(test_no_client_can_write_a_line_of_its_own),
        cmocka_unit_test(test_long_fields_are_cut),
        cmocka_unit_test(test_a_line_says_how_many_are_missing),
        cmocka_unit_test(test_a_full_ring_drops_and_loses_nothing_else),
        cmocka_unit_test(test_two_threads_share_a_ring),
        TEST(test_every_end_of_a_request_is_a_line),
        TEST(test_all_loops_log_without_losing_a_line),
        TEST(test_a_writer_that_waits_stops_nobody),
        TEST(test_two_logs_on_a_thread_do_not_mix),
        TEST(test_a_full_disk_cuts_no_line_and_every_line_is_counted_once),
        TEST(test_a_file_that_was_rotated_before_the_first_request_gets_no_line),
        TEST(test_a_file_that_cannot_be_opened_anew_is_tried_again),
        TEST(test_a_log_that_falls_behind_is_rotated_and_says_so),
        TEST(test_wrong_options_are_refused),
        TEST(test_without_memory_requests_continue_and_are_counted),
    };
    test_allocator_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
