/* Owns: tests of event streams over HTTP/1: what is sent, by which thread, and how they end. Over HTTP/2:
 * test/integration/test_events.py. */
#include <uvhttp/timer.h>

#include "support/http_server.h"

static _Atomic(uvhttp_events_t *) stream; /* what a handler has opened: the test's reference */
static atomic_int open_status, closes, close_status;
static uvhttp_events_options_t options;

static void on_close(uvhttp_events_t *events, int status, void *user) {
    if (user != &options || events != atomic_load(&stream)) abort();
    atomic_store(&close_status, status);
    atomic_fetch_add(&closes, 1);
}

static void open_it(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_events_t *events;
    int status = uvhttp_events_open(res, &options, &events);
    atomic_store(&stream, events);
    atomic_store(&open_status, status);
    if (status != UVHTTP_OK) uvhttp_response_text(res, 500, uvhttp_error_name(status));
}

static serving_t *start(void **state) {
    serving_t *serving = *state;
    atomic_store(&stream, NULL);
    atomic_store(&open_status, 1);
    atomic_store(&closes, 0);
    atomic_store(&close_status, 1);
    options.on_close = on_close;
    options.user = &options;
    serving_make(serving);
    uvhttp_any(serving->server, "/events", open_it, NULL);
    uvhttp_route(serving->server, UVHTTP_GET, "/worker", open_it, NULL, UVHTTP_EXEC_WORKER);
    return serving;
}

static uvhttp_events_t *opened(void) {
    WAIT_UNTIL(atomic_load(&open_status) != 1);
    assert_int_equal(atomic_load(&open_status), UVHTTP_OK);
    return atomic_load(&stream);
}

/* Reads up to and with the end of the head. */
static const char *read_head(int fd) {
    static char head[4096];
    size_t size = 0;
    while (size < 4 || memcmp(head + size - 4, "\r\n\r\n", 4) != 0) {
        assert_true(size < sizeof head - 1);
        client_receive(fd, head + size++, 1);
    }
    head[size] = '\0';
    return head;
}

/* The next chunk is exactly this. */
static void expect_chunk(int fd, const char *text) {
    char frame[1024];
    snprintf(frame, sizeof frame, "%zx\r\n%s\r\n", strlen(text), text);
    client_expect_text(fd, frame);
}

static int ask_for(const serving_t *serving, const char *path) {
    char request[128];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    return client_ask(serving, request);
}

static int connect_to(serving_t *serving, const char *path) {
    int fd = ask_for(serving, path);
    const char *head = read_head(fd);
    assert_non_null(strstr(head, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(head, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(head, "Cache-Control: no-store\r\n"));
    expect_chunk(fd, ":\n\n");
    return fd;
}

static int send_event(uvhttp_events_t *events, uvhttp_event_t event) {
    return uvhttp_events_send(events, &event);
}

/* The test's reference goes, the client has gone, and it was called back once. */
static void end_with(int status) {
    WAIT_UNTIL(atomic_load(&closes) == 1);
    assert_int_equal(atomic_load(&close_status), status);
    uvhttp_events_t *events = atomic_load(&stream);
    assert_int_equal(send_event(events, (uvhttp_event_t){.data = uvhttp_str("late")}), UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_events_close(events), UVHTTP_E_ABORTED);
    uvhttp_events_release(events);
    assert_int_equal(atomic_load(&closes), 1);
}

/* --- what is sent --- */

static void test_fields_of_an_event_are_lines(void **state) {
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = connect_to(serving, "/events");
    uvhttp_events_t *events = opened();
    const struct {
        uvhttp_event_t event;
        const char *text;
    } cases[] = {
        {{.data = uvhttp_str("hello")}, "data: hello\n\n"},
        {{.data = uvhttp_str("")}, "data: \n\n"},
        {{.data = {"cut off here", 3}}, "data: cut\n\n"},
        {{.data = uvhttp_str("a\nb\r\nc\rd\n\ne\r")},
         "data: a\ndata: b\ndata: c\ndata: d\ndata: \ndata: e\ndata: \n\n"},
        {{.data = uvhttp_str("\r\n")}, "data: \ndata: \n\n"},
        {{.data = uvhttp_str(": x"), .event = "tick", .id = "7", .retry_ms = 4294967295},
         "event: tick\nid: 7\nretry: 4294967295\ndata: : x\n\n"},
        {{.id = ""}, "id: \n\n"},
        {{.retry_ms = 1}, "retry: 1\n\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(uvhttp_events_send(events, &cases[i].event), UVHTTP_OK);
        expect_chunk(fd, cases[i].text);
    }
    close(fd);
    end_with(UVHTTP_E_ABORTED);
}

static void test_what_is_no_event_is_refused(void **state) {
    options = (uvhttp_events_options_t){.queue_max = 1024};
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = connect_to(serving, "/events");
    uvhttp_events_t *events = opened();
    assert_int_equal(send_event(events, (uvhttp_event_t){0}), UVHTTP_E_INVALID);
    assert_int_equal(send_event(events, (uvhttp_event_t){.id = "a\nb"}), UVHTTP_E_INVALID);
    assert_int_equal(send_event(events, (uvhttp_event_t){.data = uvhttp_str("x"), .event = "a\rb"}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_events_send(events, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_events_send(NULL, &(uvhttp_event_t){.id = "a"}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_events_close(NULL), UVHTTP_E_INVALID);
    uvhttp_events_release(NULL);
    static char large[1025];
    memset(large, '\n', sizeof large);
    assert_int_equal(send_event(events, (uvhttp_event_t){.data = {large, 1025}}), UVHTTP_E_LIMIT);
    assert_int_equal(send_event(events, (uvhttp_event_t){.data = {large, 200}}), UVHTTP_E_LIMIT); /* as lines */
    assert_int_equal(send_event(events, (uvhttp_event_t){.id = "good"}), UVHTTP_OK);
    expect_chunk(fd, "id: good\n\n");
    close(fd);
    end_with(UVHTTP_E_ABORTED);
}

static void test_wrong_options_are_refused(void **state) {
    static const uvhttp_events_options_t wrong[] = {
        {.heartbeat_ms = 86400001}, {.queue_max = 1023}, {.heartbeat_ms = UVHTTP_NEVER - 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options = wrong[i];
        serving_t *serving = start(state);
        serving_start(serving);
        int fd = ask_for(serving, "/events");
        client_response_t *response = client_read(fd);
        assert_int_equal(response->status, 500);
        assert_string_equal(response->body, "UVHTTP_E_INVALID");
        assert_null(atomic_load(&stream));
        serving_leave(serving, fd);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
    options = (uvhttp_events_options_t){0};
}

static void open_begun(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_events_t *events;
    if (uvhttp_events_open(NULL, NULL, &events) != UVHTTP_E_INVALID) abort();
    if (uvhttp_events_open(res, NULL, NULL) != UVHTTP_E_INVALID) abort();
    uvhttp_response_begin(res, 200, NULL, 2);
    int status = uvhttp_events_open(res, NULL, &events);
    uvhttp_response_write(res, status == UVHTTP_E_STATE && !events ? "ok" : "no", 2);
}

static void test_a_response_that_has_begun_is_no_stream(void **state) {
    serving_t *serving = start(state);
    uvhttp_get(serving->server, "/begun", open_begun, NULL);
    serving_start(serving);
    int fd = ask_for(serving, "/begun");
    assert_string_equal(client_read(fd)->body, "ok");
    close(fd);
}

static void own_cache_control(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp_response_header(res, "Cache-Control", "no-cache");
    open_it(req, res, user);
}

static void test_a_cache_control_of_the_handler_stays(void **state) {
    serving_t *serving = start(state);
    uvhttp_get(serving->server, "/own", own_cache_control, NULL);
    serving_start(serving);
    int fd = ask_for(serving, "/own");
    const char *head = read_head(fd);
    assert_non_null(strstr(head, "Cache-Control: no-cache\r\n"));
    assert_null(strstr(head, "no-store"));
    opened();
    close(fd);
    end_with(UVHTTP_E_ABORTED);
}

static void test_head_has_no_stream(void **state) {
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = client_ask(serving, "HEAD /events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_non_null(strstr(read_head(fd), "Content-Type: text/event-stream\r\n"));
    end_with(UVHTTP_OK);
    client_send_text(fd, GET("/nowhere"));
    client_read_last(fd, 404);
}

/* --- heartbeats --- */

static void test_a_stream_without_events_has_heartbeats(void **state) {
    options = (uvhttp_events_options_t){.heartbeat_ms = 20};
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = connect_to(serving, "/events");
    for (int i = 0; i < 3; i++) expect_chunk(fd, ":\n\n");
    close(fd);
    end_with(UVHTTP_E_ABORTED);
}

/* 100 events in 10 ms each: a heartbeat that did not wait for silence would come in between. */
static void test_events_put_heartbeats_off(void **state) {
    options = (uvhttp_events_options_t){.heartbeat_ms = 2000};
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = connect_to(serving, "/events");
    uvhttp_events_t *events = opened();
    for (int i = 0; i < 250; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        assert_int_equal(send_event(events, (uvhttp_event_t){.data = uvhttp_str("x")}), UVHTTP_OK);
        expect_chunk(fd, "data: x\n\n");
    }
    close(fd);
    end_with(UVHTTP_E_ABORTED);
}

/* --- the end --- */

static void expect_last_chunk(int fd) {
    client_expect_text(fd, "0\r\n\r\n");
}

static void test_close_ends_the_stream_behind_what_was_sent(void **state) {
    options = (uvhttp_events_options_t){0};
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = connect_to(serving, "/events");
    uvhttp_events_t *events = opened();
    assert_int_equal(send_event(events, (uvhttp_event_t){.data = uvhttp_str("last")}), UVHTTP_OK);
    assert_int_equal(uvhttp_events_close(events), UVHTTP_OK);
    assert_int_equal(send_event(events, (uvhttp_event_t){.data = uvhttp_str("lost")}), UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_events_close(events), UVHTTP_E_ABORTED);
    expect_chunk(fd, "data: last\n\n");
    expect_last_chunk(fd);
    end_with(UVHTTP_OK);
    client_send_text(fd, GET("/nowhere")); /* the connection continues */
    client_read_last(fd, 404);
}

static void test_the_last_reference_ends_the_stream(void **state) {
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = connect_to(serving, "/events");
    uvhttp_events_t *events = opened();
    assert_ptr_equal(uvhttp_events_retain(events), events);
    uvhttp_events_release(events);
    assert_int_equal(send_event(events, (uvhttp_event_t){.data = uvhttp_str("still")}), UVHTTP_OK);
    expect_chunk(fd, "data: still\n\n");
    uvhttp_events_release(events);
    expect_last_chunk(fd);
    WAIT_UNTIL(atomic_load(&closes) == 1);
    assert_int_equal(atomic_load(&close_status), UVHTTP_OK);
    close(fd);
}

static void test_a_stop_ends_the_stream(void **state) {
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = connect_to(serving, "/events");
    opened();
    uvhttp_server_stop(serving->server);
    expect_last_chunk(fd);
    client_expect_end(fd);
    close(fd);
    end_with(UVHTTP_OK);
    serving_join(serving);
    assert_int_equal(serving->status, UVHTTP_OK);
}

/* 64 KiB and no more wait for it; what the kernel takes comes before. */
static void test_a_client_that_does_not_read_is_cut_off(void **state) {
    options = (uvhttp_events_options_t){.queue_max = 65536};
    serving_t *serving = start(state);
    serving_start(serving);
    int fd = client_connect_narrow(serving->port, 4096);
    client_send_text(fd, GET("/events"));
    uvhttp_events_t *events = opened();
    static char text[8000];
    memset(text, 't', sizeof text);
    size_t sent = 0;
    for (int status = UVHTTP_OK; status != UVHTTP_E_ABORTED && sent < (64u << 20);) {
        status = send_event(events, (uvhttp_event_t){.data = {text, sizeof text}});
        assert_true(status == UVHTTP_OK || status == UVHTTP_E_LIMIT || status == UVHTTP_E_ABORTED);
        if (status == UVHTTP_OK) sent += sizeof text;
        if (status == UVHTTP_E_LIMIT) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    end_with(UVHTTP_E_LIMIT);
    assert_int_equal(uvhttp_server_counter(serving->server, "events_clients_dropped"), 1);
    client_expect_reset(fd);
    close(fd);
}

/* --- threads --- */

#define THREADS 4
#define EVENTS 500

/* When this has run, the heartbeat is due, and behind it `send_and_close`. */
static void stand_still(uvhttp_timer_t *timer, void *user) {
    (void)timer, (void)user;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

static void send_and_close(uvhttp_timer_t *timer, void *user) {
    (void)timer, (void)user;
    uvhttp_events_t *events = atomic_load(&stream);
    if (uvhttp_events_send(events, &(uvhttp_event_t){.data = {"last", 4}}) != UVHTTP_OK) abort();
    if (uvhttp_events_close(events) != UVHTTP_OK) abort();
}

static void open_and_end(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static uvhttp_timer_t timers[2];
    open_it(req, res, user);
    if (uvhttp_timer_start(&timers[0], 0, stand_still, NULL) != UVHTTP_OK) abort();
    if (uvhttp_timer_start(&timers[1], 20, send_and_close, NULL) != UVHTTP_OK) abort();
}

static void test_an_event_before_the_close_is_sent_behind_a_heartbeat_too(void **state) {
    options = (uvhttp_events_options_t){.heartbeat_ms = 1};
    serving_t *serving = start(state);
    uvhttp_get(serving->server, "/end", open_and_end, NULL);
    serving_start(serving);
    int fd = connect_to(serving, "/end");
    char text[256];
    size_t size = 0;
    while (size < 5 || memcmp(text + size - 5, "0\r\n\r\n", 5) != 0) {
        assert_true(size < sizeof text - 1);
        client_receive(fd, text + size++, 1);
    }
    text[size] = '\0';
    assert_non_null(strstr(text, "data: last\n\n"));
    end_with(UVHTTP_OK);
    close(fd);
}

#define LARGE 8388608 /* more than the system queues */

static void large(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static char body[LARGE];
    memset(body, 'b', sizeof body);
    uvhttp_response_send_ref(res, 200, NULL, body, sizeof body, NULL, NULL);
}

/* Behind it the heartbeat of a stream is due. */
static void stall(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    stand_still(NULL, user);
    uvhttp_response_text(res, 200, "stalled");
}

/* What waits is a response before it, which the client has had no time to read. */
static void test_a_stream_behind_a_pipelined_response_is_not_cut_off(void **state) {
    options = (uvhttp_events_options_t){.queue_max = 1024, .heartbeat_ms = 1};
    ((serving_t *)*state)->config.write_buffer_size = 16 << 20;
    serving_t *serving = start(state);
    uvhttp_get(serving->server, "/large", large, NULL);
    uvhttp_get(serving->server, "/stall", stall, NULL);
    serving_start(serving);
    int fd = client_connect_narrow(serving->port, 2048);
    client_send_text(fd, "GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    uvhttp_events_t *events = opened();
    for (int i = 0; i < 3; i++) client_read_last(ask_for(serving, "/stall"), 200); /* heartbeats come and run */
    static char body[LARGE];
    assert_non_null(strstr(read_head(fd), "Content-Length: 8388608"));
    client_receive(fd, body, sizeof body);
    assert_non_null(strstr(read_head(fd), "text/event-stream"));
    assert_int_equal(uvhttp_events_close(events), UVHTTP_OK);
    uvhttp_events_release(events);
    WAIT_UNTIL(atomic_load(&closes) == 1);
    assert_int_equal(atomic_load(&close_status), UVHTTP_OK);
    close(fd);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "events_clients_dropped"), 0);
}

static void *send_many(void *user) {
    uvhttp_events_t *events = atomic_load(&stream);
    for (int i = 0; i < EVENTS;) {
        char text[32];
        snprintf(text, sizeof text, "%d %d", *(int *)user, i);
        int status = send_event(events, (uvhttp_event_t){.data = uvhttp_str(text)});
        if (status == UVHTTP_OK) i++;
        if (status == UVHTTP_E_LIMIT) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        if (status != UVHTTP_OK && status != UVHTTP_E_LIMIT) abort();
    }
    uvhttp_events_release(events);
    return NULL;
}

static void send_from_threads(serving_t *serving, const char *path) {
    int fd = connect_to(serving, path), next[THREADS] = {0}, numbers[THREADS];
    uvhttp_events_t *events = opened();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        uvhttp_events_retain(events);
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS * EVENTS; i++) {
        char chunk[64];
        size_t size = 0;
        while (size < 6 || memcmp(chunk + size - 4, "\n\n\r\n", 4) != 0) client_receive(fd, chunk + size++, 1);
        chunk[size] = '\0';
        int thread, number;
        assert_int_equal(sscanf(strchr(chunk, '\n') + 1, "data: %d %d", &thread, &number), 2);
        assert_int_equal(number, next[thread]++);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    close(fd);
    end_with(UVHTTP_E_ABORTED);
}

static void test_each_thread_keeps_its_order(void **state) {
    options = (uvhttp_events_options_t){0};
    serving_t *serving = start(state);
    serving_start(serving);
    send_from_threads(serving, "/events");
}

static void test_a_stream_of_a_worker_thread(void **state) {
    serving_t *serving = start(state);
    serving_start(serving);
    send_from_threads(serving, "/worker");
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_fields_of_an_event_are_lines, test_what_is_no_event_is_refused,
                       test_wrong_options_are_refused, test_a_response_that_has_begun_is_no_stream,
                       test_a_cache_control_of_the_handler_stays, test_head_has_no_stream,
                       test_a_stream_without_events_has_heartbeats, test_events_put_heartbeats_off,
                       test_close_ends_the_stream_behind_what_was_sent, test_the_last_reference_ends_the_stream,
                       test_a_stop_ends_the_stream, test_a_client_that_does_not_read_is_cut_off,
                       test_an_event_before_the_close_is_sent_behind_a_heartbeat_too,
                       test_a_stream_behind_a_pipelined_response_is_not_cut_off, test_each_thread_keeps_its_order,
                       test_a_stream_of_a_worker_thread);
}
