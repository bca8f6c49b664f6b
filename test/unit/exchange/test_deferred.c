#include <uvhttp/events.h>
#include <uvhttp/timer.h>

#include "exchange/exchange.h"
#include "support/http_server.h"

/* What the handlers have left for the test's thread, and what has happened. */
static _Atomic(uvhttp_deferred_t *) slot;
static atomic_int aborts, dones_ok, dones_aborted, releases, runs_there, runs_gone;
static atomic_bool release_in_abort;

static void reset(void) {
    atomic_store(&slot, NULL);
    aborts = dones_ok = dones_aborted = releases = runs_there = runs_gone = 0;
    atomic_store(&release_in_abort, false);
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)user;
    atomic_fetch_add(&aborts, 1);
    if (atomic_load(&release_in_abort)) uvhttp_deferred_release(deferred);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)user;
    /* The request is readable until here. */
    if (uvhttp_request_path(uvhttp_response_request(res)).size == 0) abort();
    atomic_fetch_add(status == UVHTTP_OK ? &dones_ok : &dones_aborted, 1);
}

static void later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_on_done(res, on_done, NULL);
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    uvhttp_deferred_on_abort(deferred, on_abort, NULL);
    atomic_store(&slot, deferred);
}

static uvhttp_deferred_t *take(void) {
    WAIT_UNTIL(atomic_load(&slot) != NULL);
    return atomic_exchange(&slot, NULL);
}

static void begin(void **state) {
    serving_t *serving = *state;
    reset();
    serving_make(serving);
    uvhttp_get(serving->server, "/later", later, NULL);
    uvhttp_post(serving->server, "/later", later, NULL);
    serving_start(serving);
}

static void release_one(void *arg) {
    (void)arg;
    atomic_fetch_add(&releases, 1);
}

/* A client whose request is deferred. */
static int begin_and_take(void **state, uvhttp_deferred_t **deferred) {
    begin(state);
    int fd = client_ask(*state, GET("/later"));
    *deferred = take();
    return fd;
}

static void test_another_thread_responds(void **state) {
    serving_t *serving = *state;
    uvhttp_deferred_t *deferred;
    int fd = begin_and_take(state, &deferred);
    assert_false(uvhttp_deferred_aborted(deferred));
    assert_int_equal(uvhttp_deferred_header_str(deferred, "X-From", (uvhttp_str_t){"afar from here", 4}), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_header_str(deferred, "X-From", (uvhttp_str_t){"a\0b", 3}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_header_str(deferred, "X-From", (uvhttp_str_t){NULL, 0}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_header(deferred, "X-From", "a\r\nb"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_header(deferred, "Content-Length", "4"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_header(deferred, "Connection", "keep-alive"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_send(deferred, 199, NULL, "", 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_send(deferred, 600, NULL, "", 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_send(deferred, 200, NULL, NULL, 1), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_text(deferred, 201, "made"), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "again"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_deferred_json(deferred, 200, "{}"), UVHTTP_E_STATE);
    uvhttp_deferred_release(deferred);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 201);
    assert_string_equal(response->body, "made");
    assert_non_null(strstr(response->text, "X-From: afar\r\n"));
    /* The connection continues. */
    client_send_text(fd, GET("/nowhere"));
    client_read_last(fd, 404);
    serving_stop(serving);
    assert_int_equal(dones_ok, 1);
    assert_int_equal(aborts + dones_aborted, 0);
}

static atomic_int refusals_logged;

static void count_refusals(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)size, (void)user;
    if (strstr(message, "header field X-Large of a deferred response refused: a configured limit is reached"))
        atomic_fetch_add(&refusals_logged, 1);
}

static void test_a_header_field_that_is_refused_on_the_loop_is_logged(void **state) {
    static char large[70000];
    serving_t *serving = *state;
    uvhttp_deferred_t *deferred;
    int fd = begin_and_take(state, &deferred);
    memset(large, 'x', sizeof large - 1);
    atomic_store(&refusals_logged, 0);
    uvhttp_log_set_callback(count_refusals, NULL);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_WARN);
    assert_int_equal(uvhttp_deferred_header(deferred, "X-Large", large), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "made"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    client_response_t *response = client_read(fd);
    assert_string_equal(response->body, "made");
    assert_null(strstr(response->text, "X-Large"));
    close(fd);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    uvhttp_log_set_callback(NULL, NULL);
    serving_stop(serving);
    assert_int_equal(refusals_logged, 1);
}

static void test_the_first_and_the_last_status_are_sent(void **state) {
    begin(state);
    for (int status = 200; status <= 599; status += 399) {
        int fd = client_ask(*state, GET("/later"));
        uvhttp_deferred_t *deferred = take();
        assert_int_equal(uvhttp_deferred_send(deferred, status, NULL, NULL, 0), UVHTTP_OK);
        uvhttp_deferred_release(deferred);
        client_read_last(fd, status);
    }
    serving_stop(*state);
}

static void test_a_body_of_any_size_is_copied(void **state) {
    serving_t *serving = *state;
    begin(state);
    static const char *const bodies[] = {"", "1", "12"};
    for (int i = 0; i < 3; i++) {
        int fd = client_ask(serving, GET("/later"));
        uvhttp_deferred_t *deferred = take();
        char body[2] = {bodies[i][0], i == 2 ? '2' : '\0'};
        assert_int_equal(uvhttp_deferred_send(deferred, 200, "text/x", body, (size_t)i), UVHTTP_OK);
        memset(body, '?', sizeof body);
        uvhttp_deferred_release(deferred);
        assert_string_equal(client_read(fd)->body, bodies[i]);
        close(fd);
    }
}

static void test_the_request_stays_readable(void **state) {
    serving_t *serving = *state;
    begin(state);
    int fd =
        client_ask(serving, "POST /later?x=1 HTTP/1.1\r\nHost: a\r\nX-Key: value\r\nContent-Length: 4\r\n\r\nbody");
    uvhttp_deferred_t *deferred = take();
    uvhttp_request_t *req = uvhttp_deferred_request(deferred);
    assert_non_null(req);
    uvhttp_str_t body = uvhttp_request_body(req), key = uvhttp_request_header(req, "x-key");
    assert_memory_equal(body.data, "body", 4);
    assert_memory_equal(key.data, "value", 5);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, ""), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    client_read_last(fd, 200);
}

static void test_a_client_that_goes_is_reported_once(void **state) {
    serving_t *serving = *state;
    uvhttp_deferred_t *deferred;
    int fd = begin_and_take(state, &deferred);
    close(fd);
    WAIT_UNTIL(dones_aborted == 1);
    assert_int_equal(aborts, 1);
    assert_true(uvhttp_deferred_aborted(deferred));
    assert_int_equal(uvhttp_request_path(uvhttp_deferred_request(deferred)).size, strlen("/later"));
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "nobody"), UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_deferred_header(deferred, "X", "y"), UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_deferred_send_ref(deferred, 200, NULL, "x", 1, release_one, NULL), UVHTTP_E_ABORTED);
    assert_int_equal(releases, 1);
    uvhttp_deferred_release(deferred);
    serving_stop(serving);
    assert_int_equal(aborts, 1);
    assert_int_equal(dones_ok, 0);
    assert_int_equal(uvhttp_server_counter(serving->server, "aborted"), 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "deferred"), 1);
}

/* The hooks still run after it, on memory that the handle owned (ASan sees it). */
static void test_on_abort_may_release_the_last_reference(void **state) {
    serving_t *serving = *state;
    begin(state);
    atomic_store(&release_in_abort, true);
    int fd = client_ask(serving, GET("/later"));
    take();
    close(fd);
    WAIT_UNTIL(dones_aborted == 1);
    assert_int_equal(aborts, 1);
}

static void test_released_without_a_response_is_a_500(void **state) {
    serving_t *serving = *state;
    uvhttp_deferred_t *deferred;
    int fd = begin_and_take(state, &deferred);
    uvhttp_deferred_retain(deferred);
    uvhttp_deferred_release(deferred);
    uvhttp_deferred_release(deferred);
    client_read_last(fd, 500);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "handler_no_response"), 1);
    assert_int_equal(dones_ok, 1);
    uvhttp_deferred_release(NULL);
}

static void test_send_ref_releases_once_whatever_happens(void **state) {
    serving_t *serving = *state;
    begin(state);
    static char large[300000];
    memset(large, 'l', sizeof large);
    for (int i = 0; i < 2; i++) { /* copied behind the head, and sent from where it is */
        size_t size = i ? sizeof large : 5;
        int fd = client_ask(serving, GET("/later"));
        uvhttp_deferred_t *deferred = take();
        assert_int_equal(uvhttp_deferred_send_ref(deferred, 700, NULL, large, size, release_one, NULL),
                         UVHTTP_E_INVALID);
        assert_int_equal(releases, 1);
        assert_int_equal(uvhttp_deferred_send_ref(deferred, 200, NULL, large, size, release_one, NULL), UVHTTP_OK);
        assert_int_equal(uvhttp_deferred_send_ref(deferred, 200, NULL, large, size, release_one, NULL), UVHTTP_E_STATE);
        uvhttp_deferred_release(deferred);
        if (i == 0) assert_int_equal(client_read(fd)->status, 200);
        close(fd); /* i == 1: in the middle of the body */
        WAIT_UNTIL(releases == 3);
        atomic_store(&releases, 0);
    }
    assert_int_equal(uvhttp_deferred_send_ref(NULL, 200, NULL, large, 1, release_one, NULL), UVHTTP_E_INVALID);
    assert_int_equal(releases, 1);
    serving_stop(serving);
    assert_int_equal(releases, 1);
}

/* --- run --- */

static void stream_begin(uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
}
static void stream_write(uvhttp_response_t *res, void *user) {
    uvhttp_response_write(res, user, strlen(user));
}
static void stream_end(uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_end(res);
}

static void test_run_streams_piece_by_piece(void **state) {
    serving_t *serving = *state;
    begin(state);
    int fd = client_ask(serving, "GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    uvhttp_deferred_t *deferred = take();
    assert_int_equal(uvhttp_deferred_run(deferred, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_run(deferred, stream_begin, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_run(deferred, stream_write, (void *)"one "), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_run(deferred, stream_write, (void *)"two"), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_run(deferred, stream_end, NULL), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n");
    close(fd);
    WAIT_UNTIL(dones_ok == 1);
}

static void test_a_stream_that_is_given_up_is_cut_off(void **state) {
    uvhttp_deferred_t *deferred;
    int fd = begin_and_take(state, &deferred);
    assert_int_equal(uvhttp_deferred_run(deferred, stream_begin, NULL), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    client_response_t *response = client_read(fd);
    assert_null(strstr(response->body, "0\r\n\r\n"));
    close(fd);
    WAIT_UNTIL(dones_aborted == 1);
}

static void test_a_stream_behind_which_a_whole_response_is_sent_is_cut_off(void **state) {
    serving_t *serving = *state;
    uvhttp_deferred_t *deferred;
    int fd = begin_and_take(state, &deferred);
    assert_int_equal(uvhttp_deferred_run(deferred, stream_begin, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_run(deferred, stream_write, (void *)"one "), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_text(deferred, 500, "it failed midway"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_null(strstr(response->body, "midway"));
    assert_null(strstr(response->body, "0\r\n\r\n"));
    close(fd);
    WAIT_UNTIL(dones_aborted == 1);
    serving_stop(serving);
    assert_int_equal(aborts, 0);
}

/* --- a second handle --- */

static _Atomic(uvhttp_deferred_t *) second_handle;
static atomic_int second_stream;

static void defer_again(uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_events_t *events;
    atomic_store(&second_handle, uvhttp_response_defer(res));
    atomic_store(&second_stream, uvhttp_events_open(res, NULL, &events));
    atomic_fetch_add(&runs_there, 1);
}

static void test_a_deferred_response_has_one_handle(void **state) {
    serving_t *serving = *state;
    uvhttp_deferred_t *deferred;
    int fd = begin_and_take(state, &deferred);
    assert_int_equal(uvhttp_deferred_run(deferred, defer_again, NULL), UVHTTP_OK);
    WAIT_UNTIL(runs_there == 1);
    assert_null(atomic_load(&second_handle));
    assert_int_equal(second_stream, UVHTTP_E_STATE);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "by the first"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "by the first");
    close(fd);
    serving_stop(serving);
    assert_int_equal(dones_ok, 1);
}

/* --- the end of the server --- */

static void test_a_drain_waits_for_the_response(void **state) {
    serving_t *serving = *state;
    uvhttp_deferred_t *deferred;
    int fd = begin_and_take(state, &deferred);
    uvhttp_server_stop(serving->server);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "at last"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    client_response_t *response = client_read(fd);
    assert_string_equal(response->body, "at last");
    client_expect_end(fd);
    close(fd);
    serving_join(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "drain_cut_off"), 0);
}

static atomic_int stops;

static void on_stop(uvhttp_response_t *res, void *user) {
    if (!uvhttp_response_stopping(res)) abort();
    stops++;
    if (user) (void)uvhttp_response_text(res, 200, user);
}

static void test_who_responds_later_is_notified_of_a_stop(void **state) {
    serving_t *serving = *state;
    serving->config.drain_timeout = 3600;
    begin(state);
    stops = 0;
    char text[] = "because of the stop";
    int first = client_ask(serving, GET("/later"));
    uvhttp_deferred_t *one = take();
    int second = client_ask(serving, GET("/later"));
    uvhttp_deferred_t *other = take();
    assert_int_equal(uvhttp_deferred_on_stop(one, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_on_stop(one, on_stop, text), UVHTTP_OK);
    uvhttp_server_stop(serving->server);
    WAIT_UNTIL(stops == 1);
    uvhttp_deferred_release(one);
    assert_int_equal(uvhttp_deferred_on_stop(other, on_stop, NULL), UVHTTP_OK); /* it has begun already */
    WAIT_UNTIL(stops == 2);
    assert_int_equal(uvhttp_deferred_text(other, 200, "later still"), UVHTTP_OK);
    uvhttp_deferred_release(other);
    assert_string_equal(client_read(first)->body, text);
    client_expect_end(first);
    close(first);
    assert_string_equal(client_read(second)->body, "later still");
    client_expect_end(second);
    close(second);
    serving_join(serving);
    assert_int_equal(stops, 2);
    assert_int_equal(dones_ok, 2);
}

static void test_a_handle_outlives_the_server(void **state) {
    serving_t *serving = *state;
    serving->config.drain_timeout = 0;
    begin(state);
    int fd = client_ask(serving, GET("/later"));
    uvhttp_deferred_t *deferred = take();
    serving_stop(serving);
    assert_int_equal(aborts, 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "drain_cut_off"), 1);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
    assert_true(uvhttp_deferred_aborted(deferred));
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "too late"), UVHTTP_E_ABORTED);
    assert_non_null(uvhttp_deferred_request(deferred));
    uvhttp_deferred_release(deferred);
    close(fd);
}

static void test_half_close_decides_whether_a_client_that_sent_fin_waits(void **state) {
    serving_t *serving = *state;
    for (int half_close = 0; half_close < 2; half_close++) {
        serving->config.half_close = half_close;
        begin(state);
        int fd = client_ask(serving, GET("/later"));
        uvhttp_deferred_t *deferred = take();
        shutdown(fd, SHUT_WR);
        if (half_close) {
            /* The FIN was seen when the server has sent a response to a connection that came after it. */
            int other = client_ask(serving, GET("/nowhere"));
            client_read_last(other, 404);
            assert_int_equal(uvhttp_deferred_text(deferred, 200, "still"), UVHTTP_OK);
            assert_string_equal(client_read(fd)->body, "still");
            client_expect_end(fd);
        } else {
            WAIT_UNTIL(aborts == 1);
            assert_int_equal(uvhttp_deferred_text(deferred, 200, "gone"), UVHTTP_E_ABORTED);
        }
        uvhttp_deferred_release(deferred);
        serving_leave(serving, fd);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
}

/* What comes behind a request whose response is being made, up to FIN, is looked at when the response is there. */
static void test_a_request_that_is_cut_by_fin_costs_no_response_before_it(void **state) {
    static const char *const cut[] = {"\r\n", "GET /ne",
                                      "POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"};
    serving_t *serving = *state;
    serving->config.half_close = true;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        begin(state);
        int fd = client_ask(serving, GET("/later"));
        uvhttp_deferred_t *deferred = take();
        client_send(fd, cut[i], strlen(cut[i]));
        shutdown(fd, SHUT_WR);
        int other = client_ask(serving, GET("/nowhere")); /* its response says that FIN was seen */
        client_read_last(other, 404);
        assert_int_equal(uvhttp_deferred_text(deferred, 200, "still"), UVHTTP_OK);
        assert_string_equal(client_read(fd)->body, "still");
        client_expect_end(fd);
        uvhttp_deferred_release(deferred);
        serving_leave(serving, fd);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
}

/* --- races: for ThreadSanitizer and AddressSanitizer, and exact counts --- */

static void run_counted(uvhttp_response_t *res, void *user) {
    (void)user;
    atomic_fetch_add(res ? &runs_there : &runs_gone, 1);
    if (res) uvhttp_response_text(res, 200, "run");
}

typedef struct racer {
    uvhttp_deferred_t *deferred;
    int how;
    int refs, runs; /* taken over by the library */
} racer_t;

static void *race(void *arg) {
    racer_t *racer = arg;
    switch (racer->how) {
        case 0: (void)uvhttp_deferred_text(racer->deferred, 200, "text"); break;
        case 1:
            racer->refs++;
            (void)uvhttp_deferred_send_ref(racer->deferred, 200, NULL, "ref", 3, release_one, NULL);
            break;
        case 2: racer->runs += uvhttp_deferred_run(racer->deferred, run_counted, NULL) == UVHTTP_OK; break;
        default: (void)uvhttp_deferred_aborted(racer->deferred); break;
    }
    uvhttp_deferred_release(racer->deferred);
    return NULL;
}

static void test_responses_and_releases_race_with_the_close_of_the_client(void **state) {
    serving_t *serving = *state;
    begin(state);
    enum { ROUNDS = 150, THREADS = 4 };
    int refs = 0, runs = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int fd = client_ask(serving, GET("/later"));
        uvhttp_deferred_t *deferred = take();
        racer_t racers[THREADS];
        pthread_t threads[THREADS];
        for (int j = 0; j < THREADS; j++) {
            if (j > 0) uvhttp_deferred_retain(deferred);
            racers[j] = (racer_t){.deferred = deferred, .how = (i + j) % 5};
        }
        for (int j = 0; j < THREADS; j++) assert_int_equal(pthread_create(&threads[j], NULL, race, &racers[j]), 0);
        close(fd);
        for (int j = 0; j < THREADS; j++) {
            pthread_join(threads[j], NULL);
            refs += racers[j].refs;
            runs += racers[j].runs;
        }
        /* Each request ends exactly once. */
        WAIT_UNTIL(dones_ok + dones_aborted == i + 1);
    }
    serving_stop(serving);
    assert_int_equal(dones_ok + dones_aborted, ROUNDS);
    assert_int_equal(releases, refs);
    assert_int_equal(runs_there + runs_gone, runs);
    assert_true(aborts <= dones_aborted);
}

/* --- on_drain --- */

enum { STREAM_SIZE = 8000000, STREAM_PIECE = 1000 };

/* A response that is made as fast as the client takes it. */
typedef struct stream {
    uvhttp_deferred_t *deferred;
    size_t size; /* written so far */
} stream_t;

static stream_t stream;
static atomic_int drains, refusals, stream_errors;

static char stream_byte(size_t at) {
    return (char)('a' + at % 23);
}

static void write_on(uvhttp_response_t *res, void *user) {
    (void)user;
    char piece[STREAM_PIECE];
    while (stream.size < STREAM_SIZE) {
        for (size_t i = 0; i < sizeof piece; i++) piece[i] = stream_byte(stream.size + i);
        int status = uvhttp_response_write(res, piece, sizeof piece);
        if (status == UVHTTP_E_LIMIT) {
            atomic_fetch_add(&refusals, 1);
            return;
        }
        if (status != UVHTTP_OK) atomic_fetch_add(&stream_errors, 1);
        stream.size += sizeof piece;
    }
    if (uvhttp_response_end(res) != UVHTTP_OK) atomic_fetch_add(&stream_errors, 1);
    uvhttp_deferred_release(stream.deferred);
}

static void drained(uvhttp_response_t *res, void *user) {
    atomic_fetch_add(&drains, 1);
    write_on(res, user);
}

static void start_stream(uvhttp_response_t *res, void *user) {
    if (!res) return;
    if (uvhttp_response_begin(res, 200, "text/plain", STREAM_SIZE) != UVHTTP_OK) atomic_fetch_add(&stream_errors, 1);
    write_on(res, user);
}

static void streamed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    later(req, res, user);
    stream = (stream_t){.deferred = atomic_exchange(&slot, NULL)};
    uvhttp_deferred_on_drain(stream.deferred, drained, NULL);
    uvhttp_deferred_run(stream.deferred, start_stream, NULL);
}

static int begin_stream(void **state) {
    serving_t *serving = *state;
    reset();
    drains = refusals = stream_errors = 0;
    serving->config.write_queue_max = 65536;
    serving_make(serving);
    uvhttp_get(serving->server, "/stream", streamed, NULL);
    serving_start(serving);
    return client_ask(serving, GET("/stream"));
}

static void expect_stream(int fd) {
    char last[4] = "", buffer[65536];
    while (memcmp(last, "\r\n\r\n", 4) != 0) {
        memmove(last, last + 1, 3);
        client_receive(fd, last + 3, 1);
    }
    for (size_t at = 0; at < STREAM_SIZE;) {
        ssize_t got = client_receive_some(fd, buffer, sizeof buffer);
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; i++, at++)
            if (buffer[i] != stream_byte(at)) fail_msg("byte %zu is wrong", at);
    }
}

static void test_a_response_is_made_as_fast_as_the_client_takes_it(void **state) {
    int fd = begin_stream(state);
    WAIT_UNTIL(atomic_load(&refusals) > 0); /* the client has read nothing yet */
    expect_stream(fd);
    close(fd);
    serving_stop(*state);
    assert_true(atomic_load(&drains) >= atomic_load(&refusals));
    assert_int_equal(atomic_load(&stream_errors), 0);
    assert_int_equal(atomic_load(&dones_ok), 1);
    assert_int_equal(atomic_load(&aborts), 0);
}

/* Its head said that the connection continues, and was sent before the drain began. */
static void test_a_drain_does_not_wait_for_another_request_behind_a_long_response(void **state) {
    serving_t *serving = *state;
    serving->config.drain_timeout = 3600;
    serving->config.keepalive_timeout = 3600;
    int fd = begin_stream(state);
    WAIT_UNTIL(atomic_load(&refusals) > 0);
    uvhttp_server_stop(serving->server);
    expect_stream(fd);
    client_expect_end(fd);
    close(fd);
    serving_join(serving);
    assert_int_equal(atomic_load(&dones_ok), 1);
}

static void test_a_client_that_leaves_ends_the_making(void **state) {
    int fd = begin_stream(state);
    WAIT_UNTIL(atomic_load(&refusals) > 0);
    close(fd); /* with unread bytes: a reset */
    WAIT_UNTIL(atomic_load(&aborts) == 1);
    uvhttp_deferred_release(stream.deferred);
    serving_stop(*state);
    assert_int_equal(atomic_load(&dones_aborted), 1);
    assert_int_equal(atomic_load(&stream_errors), 0);
}

/* --- nothing is called back once the last reference is released --- */

/* Behind start_and_release in the loop's queue, and before the message that the last reference becomes. */
typedef struct too_late {
    uvhttp__post_t post;
    uvhttp__exchange_t *exchange;
    bool by_stop;
} too_late_t;

static too_late_t too_late;

static void count_drain(uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    atomic_fetch_add(&drains, 1);
}

static void start_and_release(uvhttp_response_t *res, void *user) {
    if (!res || uvhttp_response_begin(res, 200, "text/plain", 10) != UVHTTP_OK) atomic_fetch_add(&stream_errors, 1);
    uvhttp_deferred_release(user);
}

static void call_back_too_late(uvhttp__post_t *post) {
    too_late_t *it = UVHTTP__CONTAINER_OF(post, too_late_t, post);
    if (it->by_stop)
        uvhttp__exchange_drain(it->exchange);
    else
        uvhttp__exchange_writable(it->exchange);
}

static void given_up(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    later(req, res, user);
    uvhttp_deferred_t *deferred = atomic_exchange(&slot, NULL);
    uvhttp_deferred_on_drain(deferred, count_drain, NULL);
    uvhttp_deferred_on_stop(deferred, count_drain, NULL);
    uvhttp_deferred_run(deferred, start_and_release, deferred);
    too_late.exchange = UVHTTP__CONTAINER_OF(req, uvhttp__exchange_t, request);
    too_late.post.run = call_back_too_late;
    uvhttp__loop_post(too_late.exchange->loop->tcp->io, &too_late.post);
}

static void expect_no_call_behind_the_last_release(serving_t *serving, bool by_stop) {
    reset();
    drains = stream_errors = 0;
    too_late = (too_late_t){.by_stop = by_stop};
    serving_make(serving);
    uvhttp_get(serving->server, "/given-up", given_up, NULL);
    serving_start(serving);
    int fd = client_ask(serving, GET("/given-up"));
    WAIT_UNTIL(atomic_load(&dones_aborted) == 1);
    close(fd);
    serving_stop(serving);
    assert_int_equal(atomic_load(&drains), 0);
    assert_int_equal(atomic_load(&stream_errors), 0);
}

/* The loop stands still in a timer while the test's thread does something that the loop finds next: then the handle is
 * used, and its last reference released, before the loop runs the message of that use. */
static struct {
    uvhttp_timer_t timer;
    uvhttp_deferred_t *deferred;
    bool by_stop;
    atomic_bool stands, may_go;
} early;

static void count_stop(uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    stops++;
}

static void use_and_release(uvhttp_timer_t *timer, void *user) {
    (void)timer, (void)user;
    atomic_store(&early.stands, true);
    WAIT_UNTIL(atomic_load(&early.may_go));
    int status = early.by_stop ? uvhttp_deferred_on_stop(early.deferred, count_stop, NULL)
                               : uvhttp_deferred_header(early.deferred, "X", "y");
    if (status != UVHTTP_OK) abort();
    uvhttp_deferred_release(early.deferred);
}

static void used_and_released(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    later(req, res, user);
    early.deferred = atomic_exchange(&slot, NULL);
    if (uvhttp_timer_start(&early.timer, 0, use_and_release, NULL) != UVHTTP_OK) abort();
}

static int stand_still(serving_t *serving, bool by_stop) {
    reset();
    stops = 0;
    early.by_stop = by_stop;
    atomic_store(&early.stands, false);
    atomic_store(&early.may_go, false);
    serving_make(serving);
    uvhttp_get(serving->server, "/early", used_and_released, NULL);
    serving_start(serving);
    int fd = client_ask(serving, GET("/early"));
    WAIT_UNTIL(atomic_load(&early.stands));
    return fd;
}

static void test_on_abort_is_not_called_behind_the_last_release(void **state) {
    serving_t *serving = *state;
    int fd = stand_still(serving, false);
    client_reset(fd);
    atomic_store(&early.may_go, true);
    WAIT_UNTIL(dones_aborted == 1);
    serving_stop(serving);
    assert_int_equal(aborts, 0);
}

static void test_on_stop_is_not_called_when_it_comes_too_late(void **state) {
    serving_t *serving = *state;
    int fd = stand_still(serving, true);
    uvhttp_server_stop(serving->server);
    atomic_store(&early.may_go, true);
    client_read_last(fd, 500);
    serving_join(serving);
    assert_int_equal(stops, 0);
}

static void test_on_drain_is_not_called_behind_the_last_release(void **state) {
    expect_no_call_behind_the_last_release(*state, false);
}

static void test_on_stop_is_not_called_behind_the_last_release(void **state) {
    expect_no_call_behind_the_last_release(*state, true);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(
        test_another_thread_responds, test_a_header_field_that_is_refused_on_the_loop_is_logged,
        test_the_first_and_the_last_status_are_sent, test_a_body_of_any_size_is_copied, test_the_request_stays_readable,
        test_a_client_that_goes_is_reported_once, test_on_abort_may_release_the_last_reference,
        test_released_without_a_response_is_a_500, test_send_ref_releases_once_whatever_happens,
        test_run_streams_piece_by_piece, test_a_stream_that_is_given_up_is_cut_off,
        test_a_stream_behind_which_a_whole_response_is_sent_is_cut_off, test_a_deferred_response_has_one_handle,
        test_a_drain_waits_for_the_response, test_who_responds_later_is_notified_of_a_stop,
        test_a_handle_outlives_the_server, test_half_close_decides_whether_a_client_that_sent_fin_waits,
        test_a_request_that_is_cut_by_fin_costs_no_response_before_it,
        test_responses_and_releases_race_with_the_close_of_the_client,
        test_a_response_is_made_as_fast_as_the_client_takes_it,
        test_a_drain_does_not_wait_for_another_request_behind_a_long_response,
        test_a_client_that_leaves_ends_the_making, test_on_drain_is_not_called_behind_the_last_release,
        test_on_stop_is_not_called_behind_the_last_release, test_on_abort_is_not_called_behind_the_last_release,
        test_on_stop_is_not_called_when_it_comes_too_late);
}
