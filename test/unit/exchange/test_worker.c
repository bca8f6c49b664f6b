/* Owns: tests of handlers on worker threads: what they may do there, clients that go meanwhile, and how it ends. */
#include <semaphore.h>

#include "support/http_server.h"

#define BIG (6u << 20)

/* What handlers say to the test, and what they wait for. */
static struct {
    sem_t inside, proceed, begun;
    atomic_uint finish_on_loop, done_ok, done_aborted, on_loop, returned, run_null;
    atomic_int status;
    _Atomic(uvhttp_deferred_t *) deferred;
    atomic_ullong written;
    pthread_mutex_t lock;
    char text[2048]; /* under the lock */
} seen;

static void seen_reset(void) {
    memset(&seen, 0, sizeof seen);
    sem_init(&seen.inside, 0, 0);
    sem_init(&seen.proceed, 0, 0);
    sem_init(&seen.begun, 0, 0);
    pthread_mutex_init(&seen.lock, NULL);
    atomic_store(&seen.status, 99);
}

static void block(void) {
    sem_post(&seen.inside);
    while (sem_wait(&seen.proceed) != 0) continue;
}

static void count_loop(void) {
    if (uvhttp_loop_uv()) atomic_fetch_add(&seen.on_loop, 1);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    count_loop();
    atomic_fetch_add(status == UVHTTP_OK ? &seen.done_ok : &seen.done_aborted, 1);
}

static void on_finish(uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_loop_uv()) atomic_fetch_add(&seen.finish_on_loop, 1);
    uvhttp_response_header(res, "X-Hook", "yes");
}

static uvhttp_flow_t add_hooks(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_on_finish(res, on_finish, NULL);
    uvhttp_response_on_done(res, on_done, NULL);
    return UVHTTP_NEXT;
}

/* --- handlers --- */

static void report_all(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    char text[1024];
    uvhttp_str_t id = uvhttp_request_param(req, "id"), body = uvhttp_request_body(req);
    uvhttp_str_t query = {0}, header = uvhttp_request_header(req, "X-Ask");
    (void)uvhttp_request_query_param(req, "q", &query);
    uvhttp_str_t peer = uvhttp_request_peer_address(req), client = uvhttp_request_client(req);
    snprintf(text, sizeof text, "%s %.*s %.*s %.*s %.*s %.*s %.*s %d %d", (const char *)user, (int)id.size, id.data,
             (int)query.size, query.data, (int)header.size, header.data, (int)peer.size, peer.data, (int)client.size,
             client.data, (int)body.size, body.data, uvhttp_loop_uv() == NULL, uvhttp_request_time_ns(req) > 0);
    uvhttp_response_header(res, "X-Worker", "yes");
    uvhttp_response_text(res, 201, text);
}

static void nothing(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
}

static void send_file(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_send_file(res, 200, "text/plain", user);
}

static void blocked(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_on_done(res, on_done, NULL);
    block();
    pthread_mutex_lock(&seen.lock);
    uvhttp_str_t target = uvhttp_request_target(req);
    snprintf(seen.text, sizeof seen.text, "%.*s", (int)target.size, target.data);
    pthread_mutex_unlock(&seen.lock);
    uvhttp_response_text(res, 200, "waited");
    atomic_fetch_add(&seen.returned, 1);
}

static void blocked_late(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    sem_post(&seen.begun);
    blocked(req, res, user);
}

static void wait_begun(uvhttp_timer_t *timer, void *user) {
    (void)timer, (void)user;
    while (sem_wait(&seen.begun) != 0) continue;
}

/* The loop stands until a thread has begun with the request: this timer is due before that of the response. */
static uvhttp_flow_t hold_loop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static uvhttp_timer_t timer;
    (void)req, (void)res, (void)user;
    if (uvhttp_timer_start(&timer, 0, wait_begun, NULL) != UVHTTP_OK) abort();
    return UVHTTP_NEXT;
}

static char byte_at(size_t i) {
    return (char)('a' + i % 23);
}

/* user: bytes of a piece. */
static void stream(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    size_t piece = (size_t)(uintptr_t)user;
    char *data = malloc(piece);
    int status = uvhttp_response_begin(res, 200, "text/plain", BIG);
    for (size_t at = 0; status == UVHTTP_OK && at < BIG; at += piece) {
        if (piece > BIG - at) piece = BIG - at;
        for (size_t i = 0; i < piece; ++i) data[i] = byte_at(at + i);
        status = uvhttp_response_write(res, data, piece);
        if (status == UVHTTP_OK) atomic_fetch_add(&seen.written, piece);
    }
    free(data);
    if (status == UVHTTP_OK) status = uvhttp_response_end(res);
    atomic_store(&seen.status, status);
    atomic_fetch_add(&seen.returned, 1);
}

static void stream_when_notified(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    block();
    stream(req, res, user);
}

/* It cleans up behind its response, or (user) before it says that this has ended. */
static void respond_and_block(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_begin(res, 200, "text/plain", 5);
    uvhttp_response_write(res, "whole", 5);
    if (!user) uvhttp_response_end(res);
    block();
}

static void chunks(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    uvhttp_response_write(res, "one", 3);
    uvhttp_response_write(res, "two", 3);
}

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&seen.deferred, uvhttp_response_defer(res));
    block();
    atomic_fetch_add(&seen.returned, 1);
}

static void add_routes(serving_t *serving) {
    seen_reset();
    serving_make(serving);
    uvhttp_server_t *server = serving->server;
    uvhttp_use(server, (uvhttp_middleware_t){.run = add_hooks});
    uvhttp_route(server, UVHTTP_ANY, "/tell/:id", report_all, "told", UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/nothing", nothing, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/source", send_file, "test/tools/layers.txt", UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/blocked", blocked, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/stream", stream, (void *)(uintptr_t)1000, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/whole", stream, (void *)(uintptr_t)BIG, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/when-told", stream_when_notified, (void *)(uintptr_t)4096, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/ended", respond_and_block, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/written", respond_and_block, server, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/chunks", chunks, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/defer", defer, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route_t *route = uvhttp_route(server, UVHTTP_GET, "/late", blocked_late, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route_use(route, (uvhttp_middleware_t){.run = hold_loop});
    assert_int_equal(uvhttp_route_options(route, &(uvhttp_route_options_t){.response_timeout_ms = 20}), UVHTTP_OK);
    uvhttp_get(server, "/loop", report_all, "looped");
}

static void start(serving_t *serving) {
    add_routes(serving);
    serving_start(serving);
}

static uint64_t counter(const serving_t *serving, const char *name) {
    return uvhttp_server_counter(serving->server, name);
}

/* --- responses --- */

static void test_a_handler_on_a_worker_thread_reads_and_responds_as_on_the_loop(void **state) {
    serving_t *serving = *state;
    start(serving);
    int fd =
        client_ask(serving, "POST /tell/a%2Fb?q=x HTTP/1.1\r\nHost: a\r\nX-Ask: why\r\nContent-Length: 4\r\n\r\nbody");
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 201);
    assert_string_equal(response->body, "told a/b x why 127.0.0.1 127.0.0.1 body 1 1");
    assert_non_null(strstr(response->text, "X-Worker: yes\r\n"));
    assert_non_null(strstr(response->text, "X-Hook: yes\r\n"));
    client_send_text(fd, GET("/nothing"));
    assert_int_equal(client_read(fd)->status, 500);
    client_send_text(fd, GET("/source"));
    response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_non_null(strstr(response->body, "# Which folder of src/"));
    client_send_text(fd, "GET /chunks HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    response = client_read(fd);
    assert_non_null(strstr(response->body, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
    close(fd);
    WAIT_UNTIL(atomic_load(&seen.done_ok) == 4);
    assert_int_equal(atomic_load(&seen.finish_on_loop), 4);
    assert_int_equal(atomic_load(&seen.on_loop), 4);
    uint64_t jobs = 4 + counter(serving, "file_pieces_brought"); /* of /source, if it has left memory */
    assert_int_equal(counter(serving, "work_jobs"), jobs);
    assert_int_equal(counter(serving, "handler_no_response"), 1);
    uvhttp_metrics_t metrics;
    uvhttp_server_metrics(serving->server, &metrics);
    assert_int_equal(metrics.work_queue_time_count, jobs);
    assert_true(metrics.work_queue_time_max_ns > 0);
}

static void test_pipelined_requests_are_served_in_order(void **state) {
    serving_t *serving = *state;
    start(serving);
    int fd = client_ask(serving, GET("/tell/1") GET("/nothing") GET("/tell/2") GET("/tell/3"));
    assert_non_null(strstr(client_read(fd)->body, "told 1 "));
    assert_int_equal(client_read(fd)->status, 500);
    assert_non_null(strstr(client_read(fd)->body, "told 2 "));
    assert_non_null(strstr(client_read(fd)->body, "told 3 "));
    close(fd);
}

static void test_a_head_in_two_pieces_and_a_head_request(void **state) {
    serving_t *serving = *state;
    start(serving);
    int fd = client_ask(serving, "HEAD /tell/9 HTTP/1.1\r\nHo");
    struct timespec pause = {.tv_nsec = 5000000};
    nanosleep(&pause, NULL);
    client_send_text(fd, "st: a\r\nConnection: close\r\n\r\n");
    char text[1024] = "";
    for (size_t at = 0; client_receive_some(fd, text + at, 1) == 1; ++at) continue;
    assert_non_null(strstr(text, "HTTP/1.1 201"));
    assert_null(strstr(text, "told"));
    close(fd);
}

static void test_a_group_s_route_chooses_by_its_options(void **state) {
    serving_t *serving = *state;
    add_routes(serving);
    uvhttp_group_t *group = uvhttp_group(serving->server, "/group");
    assert_int_equal(uvhttp_route_options(uvhttp_group_get(group, "/worker/:id", report_all, "g"),
                                          &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_WORKER}),
                     UVHTTP_OK);
    uvhttp_route_t *back = uvhttp_group_get(group, "/back/:id", report_all, "g");
    uvhttp_route_options(back, &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_WORKER});
    uvhttp_route_options(back, NULL);
    uvhttp_route_options(uvhttp_route(serving->server, UVHTTP_GET, "/stays/:id", report_all, "g", UVHTTP_EXEC_WORKER),
                         &(uvhttp_route_options_t){.body_size_max = 5});
    serving_start(serving);
    const struct {
        const char *ask, *end;
    } cases[] = {{GET("/group/worker/1"), " 1 1"}, {GET("/group/back/1"), " 0 1"}, {GET("/stays/1"), " 1 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        int fd = client_ask(serving, cases[i].ask);
        client_response_t *response = client_read(fd);
        assert_string_equal(response->body + strlen(response->body) - 4, cases[i].end);
        close(fd);
    }
}

/* --- pieces --- */

static void expect_stream(int fd) {
    static char buffer[65536];
    size_t at = 0, head = 0;
    char text[1024] = "";
    while (!strstr(text, "\r\n\r\n")) client_receive(fd, text + head++, 1);
    while (at < BIG) {
        ssize_t got = client_receive_some(fd, buffer, sizeof buffer < BIG - at ? sizeof buffer : BIG - at);
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; ++i, ++at)
            if (buffer[i] != byte_at(at)) fail_msg("wrong byte at %zu", at);
    }
}

static void test_writing_waits_for_the_client(void **state) {
    serving_t *serving = *state;
    serving->config.write_queue_max = 65536;
    start(serving);
    int fd = client_ask(serving, GET("/stream"));
    WAIT_UNTIL(atomic_load(&seen.written) > 65536);
    unsigned long long before;
    do { /* until the kernel's buffers are full, too */
        before = atomic_load(&seen.written);
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    } while (atomic_load(&seen.written) != before);
    assert_true(before < BIG);
    expect_stream(fd);
    WAIT_UNTIL(atomic_load(&seen.returned) == 1);
    assert_int_equal(atomic_load(&seen.status), UVHTTP_OK);
    client_send_text(fd, GET("/whole")); /* one piece, far beyond the queue */
    expect_stream(fd);
    close(fd);
}

static void test_a_client_that_goes_while_a_thread_writes_to_it(void **state) {
    serving_t *serving = *state;
    serving->config.write_queue_max = 65536;
    start(serving);
    int fd = client_ask(serving, GET("/stream"));
    WAIT_UNTIL(atomic_load(&seen.written) > 65536);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    close(fd);
    WAIT_UNTIL(atomic_load(&seen.returned) == 1);
    assert_int_equal(atomic_load(&seen.status), UVHTTP_E_ABORTED);
    WAIT_UNTIL(atomic_load(&seen.done_aborted) == 1);
    assert_int_equal(counter(serving, "aborted"), 1);
}

static void test_a_client_that_goes_before_the_first_piece(void **state) {
    serving_t *serving = *state;
    start(serving);
    int fd = client_ask(serving, GET("/when-told"));
    wait_semaphore(&seen.inside);
    close(fd);
    WAIT_UNTIL(counter(serving, "aborted") == 1);
    sem_post(&seen.proceed);
    WAIT_UNTIL(atomic_load(&seen.returned) == 1);
    assert_int_equal(atomic_load(&seen.status), UVHTTP_E_ABORTED);
    WAIT_UNTIL(atomic_load(&seen.done_aborted) == 1);
    assert_int_equal(atomic_load(&seen.finish_on_loop), 0);
}

static void test_a_client_that_goes_with_its_whole_response_has_not_aborted(void **state) {
    static const char *const requests[] = {GET("/ended"), GET("/written")};
    serving_t *serving = *state;
    start(serving);
    for (unsigned i = 0; i < 2; i++) {
        int fd = client_ask(serving, requests[i]);
        assert_int_equal(client_read(fd)->status, 200);
        wait_semaphore(&seen.inside);
        close(fd);
        WAIT_UNTIL(counter(serving, "connections_closed") == i + 1);
        sem_post(&seen.proceed);
        WAIT_UNTIL(atomic_load(&seen.done_ok) == i + 1);
    }
    assert_int_equal(atomic_load(&seen.done_aborted), 0);
    assert_int_equal(counter(serving, "aborted"), 0);
    assert_int_equal(counter(serving, "responses_2xx"), 2);
}

/* --- clients that go, responses that are late --- */

static void test_a_client_that_goes_while_the_handler_runs(void **state) {
    serving_t *serving = *state;
    start(serving);
    for (unsigned i = 1; i <= 3; ++i) {
        int fd = client_ask(serving, GET("/blocked"));
        wait_semaphore(&seen.inside);
        close(fd);
        WAIT_UNTIL(counter(serving, "aborted") == i);
        assert_int_equal(atomic_load(&seen.done_aborted), 2 * (i - 1)); /* the hooks wait for the thread */
        fd = client_ask(serving, GET("/loop"));                         /* the loop serves others */
        client_read_last(fd, 201);
        sem_post(&seen.proceed);
        WAIT_UNTIL(atomic_load(&seen.done_aborted) == 2 * i);
        pthread_mutex_lock(&seen.lock);
        assert_string_equal(seen.text, "/blocked");
        pthread_mutex_unlock(&seen.lock);
    }
}

static void test_a_response_that_is_late_is_503_and_the_handler_continues(void **state) {
    serving_t *serving = *state;
    start(serving);
    int fd = client_ask(serving, GET("/late"));
    wait_semaphore(&seen.inside);
    client_read_last(fd, 503);
    assert_int_equal(counter(serving, "rejected_response_timeout"), 1);
    sem_post(&seen.proceed);
    WAIT_UNTIL(atomic_load(&seen.done_aborted) == 2);
    assert_int_equal(atomic_load(&seen.returned), 1);
}

/* --- deferred in a worker --- */

static void note_run(uvhttp_response_t *res, void *user) {
    (void)user;
    if (!res) atomic_fetch_add(&seen.run_null, 1);
}

static void test_a_handle_that_responds_before_its_handler_has_returned(void **state) {
    serving_t *serving = *state;
    start(serving);
    int fd = client_ask(serving, GET("/defer"));
    wait_semaphore(&seen.inside);
    uvhttp_deferred_t *deferred = atomic_load(&seen.deferred);
    assert_int_equal(uvhttp_deferred_header(deferred, "X-Later", "yes"), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "early"), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "twice"), UVHTTP_E_STATE);
    uvhttp_deferred_release(deferred);
    sem_post(&seen.proceed);
    client_response_t *response = client_read(fd);
    assert_string_equal(response->body, "early");
    assert_non_null(strstr(response->text, "X-Later: yes"));
    close(fd);
    assert_int_equal(counter(serving, "deferred"), 1);
}

static void test_a_handle_that_responds_after_its_handler_or_never(void **state) {
    serving_t *serving = *state;
    start(serving);
    int fd = client_ask(serving, GET("/defer"));
    wait_semaphore(&seen.inside);
    sem_post(&seen.proceed);
    WAIT_UNTIL(counter(serving, "deferred") == 1);
    uvhttp_deferred_t *deferred = atomic_load(&seen.deferred);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "late"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    assert_string_equal(client_read(fd)->body, "late");
    for (int early = 0; early < 2; ++early) {
        client_send_text(fd, GET("/defer"));
        wait_semaphore(&seen.inside);
        if (early) uvhttp_deferred_release(atomic_load(&seen.deferred));
        sem_post(&seen.proceed);
        if (!early) {
            WAIT_UNTIL(atomic_load(&seen.returned) == 2);
            uvhttp_deferred_release(atomic_load(&seen.deferred));
        }
        assert_int_equal(client_read(fd)->status, 500);
    }
    close(fd);
}

static void test_a_handle_whose_client_goes_while_the_handler_runs(void **state) {
    serving_t *serving = *state;
    start(serving);
    for (int cursor = 0; cursor < 3;
         ++cursor) { /* nothing sent, something sent, responded and released before it returned */
        int fd = client_ask(serving, GET("/defer"));
        wait_semaphore(&seen.inside);
        uvhttp_deferred_t *deferred = atomic_load(&seen.deferred);
        if (cursor == 1) assert_int_equal(uvhttp_deferred_run(deferred, note_run, NULL), UVHTTP_OK);
        if (cursor == 2) assert_int_equal(uvhttp_deferred_text(deferred, 200, "for nobody"), UVHTTP_OK);
        if (cursor == 2) uvhttp_deferred_release(deferred);
        close(fd);
        WAIT_UNTIL(counter(serving, "aborted") == (unsigned)cursor + 1);
        sem_post(&seen.proceed);
        WAIT_UNTIL(atomic_load(&seen.done_aborted) == (unsigned)cursor + 1);
        if (cursor == 1) WAIT_UNTIL(atomic_load(&seen.run_null) == 1);
        if (cursor == 2) continue;
        assert_true(uvhttp_deferred_aborted(deferred));
        assert_int_equal(uvhttp_deferred_text(deferred, 200, "x"), UVHTTP_E_ABORTED);
        uvhttp_str_t target = uvhttp_request_target(uvhttp_deferred_request(deferred));
        assert_memory_equal(target.data, "/defer", target.size);
        uvhttp_deferred_release(deferred);
    }
}

/* --- bounds and the end --- */

static void test_a_full_backlog_is_503_with_retry_after(void **state) {
    serving_t *serving = *state;
    serving->config.worker_threads = 1;
    serving->config.max_backlog = 1;
    start(serving);
    int running = client_ask(serving, GET("/blocked"));
    wait_semaphore(&seen.inside);
    int waiting = client_ask(serving, GET("/blocked"));
    WAIT_UNTIL(counter(serving, "work_waiting") == 1);
    int refused = client_ask(serving, GET("/blocked"));
    client_response_t *response = client_read(refused);
    assert_int_equal(response->status, 503);
    assert_non_null(strstr(response->text, "Retry-After: 1\r\n"));
    assert_non_null(strstr(response->text, "X-Hook: yes\r\n"));
    assert_int_equal(counter(serving, "work_refused"), 1);
    assert_int_equal(counter(serving, "rejected_work_full"), 1);
    client_send_text(refused, GET("/loop")); /* the connection continues */
    assert_int_equal(client_read(refused)->status, 201);
    sem_post(&seen.proceed);
    sem_post(&seen.proceed);
    assert_string_equal(client_read(running)->body, "waited");
    assert_string_equal(client_read(waiting)->body, "waited");
    close(running);
    close(waiting);
    close(refused);
}

static void test_a_stop_waits_for_what_runs_and_what_waits(void **state) {
    serving_t *serving = *state;
    serving->config.worker_threads = 1;
    start(serving);
    int running = client_ask(serving, GET("/blocked"));
    wait_semaphore(&seen.inside);
    int waiting = client_ask(serving, GET("/blocked"));
    WAIT_UNTIL(counter(serving, "work_waiting") == 1);
    uvhttp_server_stop(serving->server);
    sem_post(&seen.proceed);
    sem_post(&seen.proceed);
    assert_string_equal(client_read(running)->body, "waited");
    assert_string_equal(client_read(waiting)->body, "waited");
    client_expect_end(running);
    close(running);
    close(waiting);
    serving_join(serving);
    assert_int_equal(counter(serving, "drain_cut_off"), 0);
}

static void test_the_end_of_the_drain_cancels_what_waits_and_waits_for_what_runs(void **state) {
    serving_t *serving = *state;
    serving->config.worker_threads = 1;
    serving->config.drain_timeout = 0;
    start(serving);
    int running = client_ask(serving, GET("/blocked"));
    wait_semaphore(&seen.inside);
    int waiting = client_ask(serving, GET("/blocked"));
    WAIT_UNTIL(counter(serving, "work_waiting") == 1);
    uvhttp_server_stop(serving->server);
    client_expect_end(running);
    client_expect_end(waiting);
    assert_int_equal(atomic_load(&seen.returned), 0);
    WAIT_UNTIL(counter(serving, "work_cancelled") == 1); /* or the thread would take it, right behind the close */
    sem_post(&seen.proceed);
    serving_join(serving);
    assert_int_equal(atomic_load(&seen.returned), 1);
    assert_int_equal(atomic_load(&seen.done_aborted), 3); /* two hooks of the one, one of the other */
    assert_int_equal(counter(serving, "drain_cut_off"), 2);
    assert_int_equal(counter(serving, "work_cancelled"), 1);
    close(running);
    close(waiting);
}

int main(void) {
    return RUN_ON_EACH(
        test_a_handler_on_a_worker_thread_reads_and_responds_as_on_the_loop,
        test_pipelined_requests_are_served_in_order, test_a_head_in_two_pieces_and_a_head_request,
        test_a_group_s_route_chooses_by_its_options, test_writing_waits_for_the_client,
        test_a_client_that_goes_while_a_thread_writes_to_it, test_a_client_that_goes_before_the_first_piece,
        test_a_client_that_goes_with_its_whole_response_has_not_aborted, test_a_client_that_goes_while_the_handler_runs,
        test_a_response_that_is_late_is_503_and_the_handler_continues,
        test_a_handle_that_responds_before_its_handler_has_returned,
        test_a_handle_that_responds_after_its_handler_or_never, test_a_handle_whose_client_goes_while_the_handler_runs,
        test_a_full_backlog_is_503_with_retry_after, test_a_stop_waits_for_what_runs_and_what_waits,
        test_the_end_of_the_drain_cancels_what_waits_and_waits_for_what_runs);
}
