/* Owns: tests of the thread that sends spans: what it makes of the responses of a collector, of one that is not there,
 * and of memory that runs out. What is sent: test_otlp.c and test/integration/test_trace.py. */
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/failing_allocator.h"
#include "support/http_server.h"
#include "support/process.h"
#include "trace/exporter.h"
#include "trace/span.h"

/* --- a collector --- */

typedef struct collector {
    int listener; /* -1: closed */
    uint16_t port;
    const char *const *responses; /* one for each connection, in order; NULL ends them; "": none is sent */
    pthread_t thread;
    bool started;
    atomic_uint requests;
    int kept; /* a connection without a response, or -1 */
} collector_t;

static void collector_init(collector_t *collector, const char *const *responses) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    memset(collector, 0, sizeof *collector);
    collector->kept = -1;
    collector->responses = responses;
    collector->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(collector->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(collector->listener, 8), 0);
    assert_int_equal(getsockname(collector->listener, (struct sockaddr *)&address, &size), 0);
    collector->port = ntohs(address.sin_port);
}

static char received[1 << 20]; /* of the last request; the collector's thread's, then the test's */

/* Reads a request whole: its head, and the body of the length that it says. */
static bool read_request(int fd) {
    size_t used = 0, wanted = SIZE_MAX;
    while (used < wanted && used < sizeof received - 1) {
        ssize_t got = recv(fd, received + used, sizeof received - 1 - used, 0);
        if (got <= 0) return false;
        used += (size_t)got;
        received[used] = '\0';
        const char *body = strstr(received, "\r\n\r\n"), *length = strstr(received, "Content-Length: ");
        if (body && length) wanted = (size_t)(body + 4 - received) + strtoul(length + 16, NULL, 10);
    }
    return used == wanted && strncmp(received, "POST /v1/traces HTTP/1.1\r\n", 26) == 0;
}

static void *collect(void *arg) {
    collector_t *collector = arg;
    for (const char *const *response = collector->responses; *response; response++) {
        struct pollfd ready = {.fd = collector->listener, .events = POLLIN};
        if (poll(&ready, 1, TIMEOUT_MS) != 1) break;
        int fd = accept4(collector->listener, NULL, NULL, SOCK_CLOEXEC);
        if (!read_request(fd)) break;
        atomic_fetch_add(&collector->requests, 1);
        if (**response) (void)!send(fd, *response, strlen(*response), MSG_NOSIGNAL);
        if (**response)
            close(fd);
        else
            collector->kept = fd;
    }
    return NULL;
}

static void collector_start(collector_t *collector) {
    collector->started = pthread_create(&collector->thread, NULL, collect, collector) == 0;
    assert_true(collector->started);
}

static void collector_stop(collector_t *collector) {
    if (collector->started) pthread_join(collector->thread, NULL);
    if (collector->kept >= 0) close(collector->kept);
    if (collector->listener >= 0) close(collector->listener);
}

#define OK_WITH(length, body) "HTTP/1.1 200 OK\r\nContent-Length: " length "\r\n\r\n" body

/* --- an exporter with one queue --- */

typedef struct exporting {
    uvhttp__exporter_t *exporter;
    uvhttp__span_queue_t queue;
    _Atomic(uvhttp__span_queue_t *) queues;
} exporting_t;

static char logged[4096];
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void take_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)user;
    pthread_mutex_lock(&log_lock);
    if (strlen(logged) + size + 2 < sizeof logged) strcat(strcat(logged, message), "\n");
    pthread_mutex_unlock(&log_lock);
}

static bool has_logged(const char *text) {
    pthread_mutex_lock(&log_lock);
    bool found = strstr(logged, text) != NULL;
    pthread_mutex_unlock(&log_lock);
    return found;
}

static int make(exporting_t *exporting, const char *endpoint, uint32_t delay_ms) {
    logged[0] = '\0';
    memset(exporting, 0, sizeof *exporting);
    exporting->queue.ring = uvhttp__ring_new(1 << 16);
    if (!exporting->queue.ring) return UVHTTP_E_NOMEM;
    atomic_store(&exporting->queues, &exporting->queue);
    const uvhttp__exporter_options_t options = {
        .endpoint = endpoint, .service = "test", .delay_ms = delay_ms, .queues = &exporting->queues};
    return uvhttp__exporter_new(&options, &exporting->exporter);
}

static void start(exporting_t *exporting, const collector_t *collector, uint32_t delay_ms) {
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", collector->port);
    assert_int_equal(make(exporting, endpoint, delay_ms), UVHTTP_OK);
}

static void put_spans(exporting_t *exporting, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        uvhttp__span_record_t *record = uvhttp__ring_reserve(exporting->queue.ring, sizeof *record);
        assert_non_null(record);
        uvhttp__ring_record_t first = record->record;
        memset(record, 0, sizeof *record);
        record->record = first;
        record->status = 200;
        uvhttp__ring_commit(exporting->queue.ring);
    }
}

static void stop(exporting_t *exporting) {
    uvhttp__exporter_free(exporting->exporter);
    uvhttp__ring_free(exporting->queue.ring);
}

/* Both; the exporter's thread has not started. */
static void begin(exporting_t *exporting, collector_t *collector, const char *const *responses, uint32_t delay_ms) {
    collector_init(collector, responses);
    collector_start(collector);
    start(exporting, collector, delay_ms);
}

static void finish(exporting_t *exporting, collector_t *collector) {
    stop(exporting);
    collector_stop(collector);
}

static uvhttp__exporter_stats_t stats_of(const exporting_t *exporting) {
    uvhttp__exporter_stats_t stats;
    uvhttp__exporter_read(exporting->exporter, &stats);
    return stats;
}

static void wait_settled(const exporting_t *exporting, uint64_t exported, uint64_t failed) {
    WAIT_UNTIL(stats_of(exporting).exported + stats_of(exporting).failed >= exported + failed);
    assert_int_equal(stats_of(exporting).exported, exported);
    assert_int_equal(stats_of(exporting).failed, failed);
}

/* --- responses --- */

static void test_what_a_collector_accepts_is_counted(void **state) {
    (void)state;
    static const struct {
        const char *response;
        unsigned exported, failed;
    } cases[] = {
        {OK_WITH("2", "{}"), 3, 0},
        {"HTTP/1.1 204 No Content\r\n\r\n", 3, 0},
        {OK_WITH("40", "{\"partialSuccess\":{\"rejectedSpans\":\"1\"}}"), 2, 1},
        {OK_WITH("41", "{\"partialSuccess\":{\"rejectedSpans\":\"99\"}}"), 0, 3}, /* more than there were */
        {"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 0, 3},
        {"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n", 0, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *responses[] = {cases[i].response, NULL};
        collector_t collector;
        exporting_t exporting;
        begin(&exporting, &collector, responses, 1);
        put_spans(&exporting, 3);
        assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
        assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK); /* it runs already */
        wait_settled(&exporting, cases[i].exported, cases[i].failed);
        assert_int_equal(stats_of(&exporting).retries, 0);
        assert_int_equal(has_logged("spans are not delivered"), i >= 4);
        finish(&exporting, &collector);
        assert_int_equal(atomic_load(&collector.requests), 1);
    }
}

/* Its status says what became of the spans: they are not sent again for a body that nobody reads. */
static void test_a_response_with_a_large_body_counts_by_its_status(void **state) {
    (void)state;
    static const struct {
        const char *head;
        unsigned exported, failed;
    } cases[] = {{"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", 3, 0},
                 {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n", 3, 0},
                 {"HTTP/1.1 200 OK\r\n\r\n", 3, 0}, /* ended by the end of the connection */
                 {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", 3, 0},
                 {"HTTP/1.1 400 Bad Request\r\nContent-Length: 100000\r\n\r\n", 0, 3}};
    static char response[100200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(response, sizeof response, "%s%0100000d", cases[i].head, 0);
        const char *responses[] = {response, NULL};
        collector_t collector;
        exporting_t exporting;
        begin(&exporting, &collector, responses, 1);
        put_spans(&exporting, 3);
        assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
        wait_settled(&exporting, cases[i].exported, cases[i].failed);
        assert_int_equal(stats_of(&exporting).retries, 0);
        assert_int_equal(has_logged("spans are not delivered"), cases[i].failed > 0);
        assert_int_equal(has_logged("it responded with status 400"), cases[i].failed > 0);
        finish(&exporting, &collector);
    }
}

/* A head that never ends has no status. */
static void test_a_response_with_a_large_head_is_none(void **state) {
    (void)state;
    static char response[100200];
    snprintf(response, sizeof response, "HTTP/1.1 200 OK\r\nX: %0100000d", 0);
    const char *responses[] = {response, OK_WITH("2", "{}"), NULL};
    collector_t collector;
    exporting_t exporting;
    begin(&exporting, &collector, responses, 1);
    put_spans(&exporting, 3);
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    wait_settled(&exporting, 3, 0);
    assert_int_equal(stats_of(&exporting).retries, 1);
    finish(&exporting, &collector);
}

static void test_a_refusal_is_said_once_and_its_end_too(void **state) {
    (void)state;
    static const char *const responses[] = {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
                                            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", OK_WITH("2", "{}"),
                                            OK_WITH("2", "{}"), NULL};
    collector_t collector;
    exporting_t exporting;
    begin(&exporting, &collector, responses, 1);
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    for (unsigned i = 1; i <= 4; i++) {
        put_spans(&exporting, 1);
        wait_settled(&exporting, i < 3 ? 0 : i - 2, i < 3 ? i : 2);
    }
    finish(&exporting, &collector);
    assert_true(has_logged("it responded with status 403"));
    assert_false(has_logged("404")); /* it is known that nothing is delivered */
    const char *again = strstr(logged, "are delivered to ");
    assert_non_null(again);
    assert_non_null(strstr(again, " again\n"));
    assert_null(strstr(again + 1, "are delivered to "));
}

static void test_a_busy_collector_is_asked_again(void **state) {
    (void)state;
    static const char *const responses[] = {
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", OK_WITH("2", "{}"), NULL};
    collector_t collector;
    exporting_t exporting;
    begin(&exporting, &collector, responses, 1);
    put_spans(&exporting, 2);
    uint64_t began_ms = clock_ms();
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    wait_settled(&exporting, 2, 0);
    assert_true(clock_ms() - began_ms >= 990);
    assert_int_equal(stats_of(&exporting).retries, 1);
    finish(&exporting, &collector);
}

/* --- no response --- */

/* At the end a request that waits is tried once more, and then its spans are lost, and counted. */
static void test_nobody_listens(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    collector_t collector;
    exporting_t exporting;
    collector_init(&collector, none);
    close(collector.listener);
    collector.listener = -1;
    start(&exporting, &collector, 1);
    put_spans(&exporting, 1);
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    WAIT_UNTIL(has_logged("spans are not delivered"));
    uint64_t began_ms = clock_ms();
    assert_int_equal(stats_of(&exporting).failed, 0); /* it may come back */
    stop(&exporting);
    assert_true(clock_ms() - began_ms < 2000);
    collector_stop(&collector);
}

static void test_a_collector_that_never_responds_holds_up_the_end_for_two_seconds(void **state) {
    (void)state;
    static const char *const silent[] = {"", NULL};
    collector_t collector;
    exporting_t exporting;
    begin(&exporting, &collector, silent, 1);
    put_spans(&exporting, 1);
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&collector.requests) == 1);
    put_spans(&exporting, 5); /* these wait behind it */
    uint64_t began_ms = clock_ms();
    stop(&exporting);
    assert_in_range(clock_ms() - began_ms, 1900, TIMEOUT_MS);
    collector_stop(&collector);
}

static void test_what_waits_is_sent_at_the_end(void **state) {
    (void)state;
    static const char *const responses[] = {OK_WITH("2", "{}"), NULL};
    collector_t collector;
    exporting_t exporting;
    begin(&exporting, &collector, responses, 60000);
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    put_spans(&exporting, 1);
    finish(&exporting, &collector);
    assert_int_equal(atomic_load(&collector.requests), 1);
}

static atomic_int lookups;

/* The C library's, of a resolver that does not respond for longer than the end waits. There is one endpoint with a
 * name here. */
int getaddrinfo(const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    (void)name, (void)port, (void)hints, (void)found;
    atomic_fetch_add(&lookups, 1);
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    return EAI_AGAIN;
}

static void test_a_resolver_that_does_not_respond_holds_up_the_end_until_it_has_given_up(void **state) {
    (void)state;
    exporting_t exporting;
    assert_int_equal(make(&exporting, "http://collector.test:1", 1), UVHTTP_OK);
    put_spans(&exporting, 1);
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&lookups) == 1);
    uint64_t began_ms = clock_ms();
    stop(&exporting);
    assert_in_range(clock_ms() - began_ms, 1900, TIMEOUT_MS);
}

/* A kick before the loop runs has no effect. */
static void kick_until_exported(exporting_t *exporting) {
    for (int tries = 0; tries < TIMEOUT_MS && stats_of(exporting).exported == 0; tries++) {
        uvhttp__exporter_kick(exporting->exporter);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(stats_of(exporting).exported > 0);
}

static void test_a_kick_sends_what_waits(void **state) {
    (void)state;
    static const char *const responses[] = {OK_WITH("2", "{}"), NULL};
    collector_t collector;
    exporting_t exporting;
    begin(&exporting, &collector, responses, 60000);
    put_spans(&exporting, 1);
    uvhttp__exporter_kick(exporting.exporter); /* nobody hears it yet, and the next one is not lost */
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    kick_until_exported(&exporting);
    assert_int_equal(stats_of(&exporting).exported, 1);
    finish(&exporting, &collector);
}

/* A request has 512 spans at most; the others follow at once. */
static void test_many_spans_are_several_requests(void **state) {
    (void)state;
    static const char *const responses[] = {OK_WITH("2", "{}"), OK_WITH("2", "{}"), NULL};
    collector_t collector;
    exporting_t exporting;
    begin(&exporting, &collector, responses, 1);
    uvhttp__ring_free(exporting.queue.ring);
    exporting.queue.ring = uvhttp__ring_new(1 << 19);
    put_spans(&exporting, 513);
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    wait_settled(&exporting, 513, 0);
    finish(&exporting, &collector);
    assert_int_equal(atomic_load(&collector.requests), 2);
}

/* --- of a server --- */

static _Atomic(uvhttp_deferred_t *) waiting;

static void wait(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    waiting = uvhttp_response_defer(res);
}

static void test_a_response_that_is_late_has_the_status_that_the_client_got(void **state) {
    (void)state;
    static const char *const responses[] = {OK_WITH("2", "{}"), NULL};
    collector_t collector;
    void *made = &on_epoll;
    assert_int_equal(serving_setup(&made), 0);
    serving_t *serving = made;
    collector_init(&collector, responses);
    collector_start(&collector);
    serving->config.trace = true;
    snprintf(serving->config.trace_endpoint, sizeof serving->config.trace_endpoint, "http://127.0.0.1:%u",
             collector.port);
    serving_make(serving);
    const uvhttp_route_options_t late = {.response_timeout_ms = 30};
    uvhttp_route_options(uvhttp_get(serving->server, "/late", wait, NULL), &late);
    serving_start(serving);
    client_read_last(client_ask(serving, GET("/late")), 503);
    uvhttp_deferred_release(waiting);
    assert_int_equal(serving_teardown(&made), 0);
    collector_stop(&collector);
    assert_non_null(strstr(received, "{\"key\":\"http.response.status_code\",\"value\":{\"intValue\":\"503\"}}"));
    assert_non_null(strstr(received, "{\"key\":\"error.type\",\"value\":{\"stringValue\":\"503\"}}"));
}

/* --- memory, endpoints --- */

static void test_spans_without_memory_for_the_request_are_counted(void **state) {
    (void)state;
    static const char *const responses[] = {OK_WITH("2", "{}"), NULL};
    collector_t collector;
    exporting_t exporting;
    begin(&exporting, &collector, responses, 60000);
    put_spans(&exporting, 1);
    assert_int_equal(uvhttp__exporter_start(exporting.exporter), UVHTTP_OK);
    kick_until_exported(&exporting); /* from now on it waits for spans, with memory for a few */
    put_spans(&exporting, 200);
    test_allocator_fail_from(1);
    uvhttp__exporter_kick(exporting.exporter);
    wait_settled(&exporting, 1, 200);
    test_allocator_fail_at(0);
    assert_true(has_logged("spans are not delivered"));
    finish(&exporting, &collector);
}

static void attempt(void *user) {
    exporting_t exporting;
    int status = make(&exporting, user, 1);
    if (status != UVHTTP_OK) assert_int_equal(status, UVHTTP_E_NOMEM);
    if (status != UVHTTP_OK) assert_null(exporting.exporter);
    stop(&exporting);
}

static void test_an_exporter_comes_to_be_or_not(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(attempt, (void *)(uintptr_t) "http://127.0.0.1:1/other/path?a") > 4);
    static const struct {
        const char *endpoint;
        int status;
    } wrong[] = {{"https://a/", UVHTTP_E_UNSUPPORTED},
                 {"ftp://a/", UVHTTP_E_ADDRESS},
                 {"", UVHTTP_E_ADDRESS},
                 {"http://unix:/run/a", UVHTTP_E_CLIENT_UNIX_URL}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        exporting_t exporting;
        assert_int_equal(make(&exporting, wrong[i].endpoint, 1), wrong[i].status);
        assert_null(exporting.exporter);
        stop(&exporting);
    }
}

static int set_up(void **state) {
    (void)state;
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_INFO);
    uvhttp_log_set_rate_limit(0);
    uvhttp_log_set_callback(take_log, NULL);
    return 0;
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(
        set_up, NULL, test_what_a_collector_accepts_is_counted, test_a_response_with_a_large_body_counts_by_its_status,
        test_a_response_with_a_large_head_is_none, test_a_refusal_is_said_once_and_its_end_too,
        test_a_busy_collector_is_asked_again, test_nobody_listens,
        test_a_collector_that_never_responds_holds_up_the_end_for_two_seconds,
        test_a_resolver_that_does_not_respond_holds_up_the_end_until_it_has_given_up,
        test_what_waits_is_sent_at_the_end, test_a_kick_sends_what_waits, test_many_spans_are_several_requests,
        test_a_response_that_is_late_has_the_status_that_the_client_got,
        test_spans_without_memory_for_the_request_are_counted, test_an_exporter_comes_to_be_or_not);
}
