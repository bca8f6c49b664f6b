/* Coroutine routes: straight-line handlers that wait, on both engines, with real sockets. */
#include "server/serving.h"

#include "exec/coro_stack.h"

/* What the handlers have seen; written on the loop's thread. */
static atomic_int reached, waited_status, cleanups, done_status, dones, order;
static atomic_int cleanup_at, done_at;
static atomic_bool gate;

static void reset(void) {
    reached = cleanups = dones = order = cleanup_at = done_at = 0;
    waited_status = done_status = 1;
    gate = false;
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    done_status = status;
    dones++;
    done_at = ++order;
}

static void on_cleanup(void *arg) {
    (void)arg;
    cleanups++;
    cleanup_at = ++order;
}

static void nothing_here(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    char text[64];
    snprintf(text, sizeof text, "%d", uvhttp_coro_active());
    uvhttp_response_text(res, 200, text);
}

static void sleeper(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t path = uvhttp_request_path(req), key = uvhttp_request_header(req, "X-Key");
    uvhttp_str_t body = uvhttp_request_body(req);
    for (int i = 0; i < 3; i++)
        if (uvhttp_coro_sleep(2) != UVHTTP_OK) return;
    /* Views from before the waits. */
    char text[128];
    snprintf(text, sizeof text, "%.*s %.*s %.*s", (int)path.size, path.data, (int)key.size, key.data, (int)body.size,
             body.data ? body.data : "");
    uvhttp_response_text(res, 200, text);
}

static void begin(serving_t *serving, const char *path, uvhttp_handler_t handler) {
    reset();
    serving_make(serving);
    assert_int_equal(uvhttp_route(serving->server, UVHTTP_ANY, path, handler, NULL, UVHTTP_EXEC_COROUTINE), UVHTTP_OK);
}

static void test_a_handler_that_does_not_wait_is_not_deferred(void **state) {
    serving_t *serving = *state;
    begin(serving, "/now", nothing_here);
    serving_start(serving);
    int fd = client_ask(serving, GET("/now"));
    assert_string_equal(client_read(fd)->body, "1");
    client_send(fd, GET("/now"));
    assert_string_equal(client_read(fd)->body, "1");
    close(fd);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutines"), 2);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutines_waited"), 0);
    assert_int_equal(uvhttp_server_counter(serving->server, "deferred"), 0);
}

static void test_views_of_the_request_stay_valid_across_waits(void **state) {
    serving_t *serving = *state;
    begin(serving, "/sleep", sleeper);
    serving_start(serving);
    int fd = client_ask(serving, "POST /sleep HTTP/1.1\r\nHost: a\r\nX-Key: value\r\nContent-Length: 4\r\n\r\nbody"
                                 "GET /sleep HTTP/1.1\r\nHost: a\r\nX-Key: next\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "/sleep value body");
    assert_string_equal(client_read(fd)->body, "/sleep next ");
    close(fd);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutines_waited"), 2);
    assert_true(uvhttp_server_counter(serving->server, "coroutine_stack_used_max") > 0);
}

static void test_many_wait_at_once(void **state) {
    serving_t *serving = *state;
    enum { MANY = 200 };
    int fds[MANY];
    begin(serving, "/sleep", sleeper);
    serving_start(serving);
    for (int i = 0; i < MANY; i++) fds[i] = client_ask(serving, GET("/sleep"));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(client_read(fds[i])->status, 200);
        close(fds[i]);
    }
}

static void silent(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    uvhttp_coro_sleep(1);
}

static void test_no_answer_is_a_500(void **state) {
    serving_t *serving = *state;
    begin(serving, "/silent", silent);
    serving_start(serving);
    int fd = client_ask(serving, GET("/silent"));
    assert_int_equal(client_read(fd)->status, 500);
    client_send(fd, GET("/silent"));
    assert_int_equal(client_read(fd)->status, 500);
    close(fd);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "handler_no_answer"), 2);
}

static void answers_early(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_text(res, 200, "early");
    uvhttp_coro_sleep(2);
    /* Both still are this request's. */
    if (uvhttp_request_path(req).size != 6 || uvhttp_response_status(res) != 200) abort();
    uvhttp_response_text(res, 201, "late");
}

static void test_an_answer_leaves_when_the_handler_has_returned(void **state) {
    serving_t *serving = *state;
    begin(serving, "/early", answers_early);
    serving_start(serving);
    int fd = client_ask(serving, GET("/early"));
    answer_t *answer = client_read(fd);
    assert_int_equal(answer->status, 201);
    assert_string_equal(answer->body, "late");
    close(fd);
}

/* --- pieces --- */

#define PIECES 64
#define PIECE 32768

static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static char piece[PIECE];
    memset(piece, 'x', sizeof piece);
    int status = uvhttp_response_begin(res, 200, "text/plain", (uint64_t)PIECES * PIECE);
    for (int i = 0; status == UVHTTP_OK && i < PIECES; i++) status = uvhttp_response_write(res, piece, sizeof piece);
    if (status == UVHTTP_OK) status = uvhttp_coro_sleep(1);
    waited_status = status;
    if (uvhttp_response_defer(res)) abort(); /* refused */
}

static void test_a_write_waits_for_a_slow_client(void **state) {
    serving_t *serving = *state;
    serving->config.write_queue_max = 2 * PIECE;
    begin(serving, "/pieces", pieces);
    serving_start(serving);
    int fd = client_ask(serving, GET("/pieces"));
    static char buffer[65536];
    size_t sum = 0;
    while (sum < (size_t)PIECES * PIECE) {
        ssize_t got = recv(fd, buffer, sizeof buffer, 0);
        if (got < 0 && errno == EINTR) continue;
        assert_true(got > 0);
        sum += (size_t)got;
    }
    WAIT_UNTIL(waited_status <= 0);
    assert_int_equal(waited_status, UVHTTP_OK);
    close(fd);
}

/* --- bodies --- */

static void count_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_coro_sleep(1) != UVHTTP_OK) return; /* it is not lost meanwhile */
    size_t size = 0, count = 0;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_coro_read_body(req, &piece, 5000)) == UVHTTP_OK) {
        size += piece.size;
        count++;
        for (size_t i = 0; i < piece.size; i++)
            if (piece.data[i] != 'b') abort();
        if (count % 4 == 0) uvhttp_coro_sleep(1);
    }
    char text[64];
    snprintf(text, sizeof text, "%zu %s", size, uvhttp_error_name(status));
    uvhttp_response_text(res, 200, text);
}

static void post_body(int fd, size_t size) {
    char head[128];
    static char data[8192];
    memset(data, 'b', sizeof data);
    snprintf(head, sizeof head, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
    client_send(fd, head);
    for (size_t sent = 0; sent < size;) {
        size_t piece = size - sent < sizeof data ? size - sent : sizeof data;
        ssize_t got = send(fd, data, piece, MSG_NOSIGNAL);
        assert_true(got > 0);
        sent += (size_t)got;
    }
}

static void test_a_body_is_read_piece_by_piece(void **state) {
    serving_t *serving = *state;
    begin(serving, "/body", count_body);
    uvhttp_route_options(serving->server, &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = client_connect(serving->port);
    post_body(fd, 1000000);
    assert_string_equal(client_read(fd)->body, "1000000 UVHTTP_E_EOF");
    post_body(fd, 10);
    assert_string_equal(client_read(fd)->body, "10 UVHTTP_E_EOF");
    client_send(fd, GET("/body"));
    assert_string_equal(client_read(fd)->body, "0 UVHTTP_E_EOF");
    client_send(fd,
                "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbbb\r\n2\r\nbb\r\n0\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "5 UVHTTP_E_EOF");
    close(fd);
}

static void test_a_collected_body_is_one_piece(void **state) {
    serving_t *serving = *state;
    begin(serving, "/body", count_body);
    serving_start(serving);
    int fd = client_connect(serving->port);
    post_body(fd, 100000);
    assert_string_equal(client_read(fd)->body, "100000 UVHTTP_E_EOF");
    close(fd);
}

static void impatient(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    waited_status = uvhttp_coro_read_body(req, &piece, 5);
    uvhttp_response_text(res, 200, uvhttp_error_name(waited_status));
}

static void test_a_body_that_does_not_come_in_time(void **state) {
    serving_t *serving = *state;
    begin(serving, "/body", impatient);
    uvhttp_route_options(serving->server, &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = client_ask(serving, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "UVHTTP_E_TIMEOUT");
    close(fd);
}

static void test_a_body_that_is_refused_is_told(void **state) {
    serving_t *serving = *state;
    begin(serving, "/body", impatient);
    uvhttp_route_options(serving->server, &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = client_ask(serving, "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    assert_int_equal(client_read(fd)->status, 400);
    WAIT_UNTIL(waited_status <= 0);
    assert_int_equal(waited_status, UVHTTP_E_HTTP_CHUNK_SIZE);
    close(fd);
}

/* --- work --- */

static void block(void *arg) {
    *(pthread_t *)arg = pthread_self();
    while (gate) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    pthread_t thread = pthread_self(), there = thread;
    int status = uvhttp_coro_work(block, &there);
    if (!pthread_equal(thread, pthread_self())) abort();
    uvhttp_response_text(res, status == UVHTTP_OK && !pthread_equal(thread, there) ? 200 : 500, "worked");
}

static void test_work_runs_on_another_thread(void **state) {
    serving_t *serving = *state;
    begin(serving, "/work", worker);
    serving_start(serving);
    int fd = client_ask(serving, GET("/work"));
    assert_int_equal(client_read(fd)->status, 200);
    close(fd);
}

/* --- a client that goes, at every place where a coroutine can wait --- */

static int wait_sleep(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    return uvhttp_coro_sleep(3600000);
}

static int wait_yield(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    int status;
    while ((status = uvhttp_coro_yield()) == UVHTTP_OK) continue;
    return status;
}

static int wait_body(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)res;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_coro_read_body(req, &piece, UVHTTP_CORO_FOREVER)) == UVHTTP_OK) continue;
    return status;
}

static int wait_write(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req;
    static char piece[PIECE];
    int status = uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    while (status == UVHTTP_OK) status = uvhttp_response_write(res, piece, sizeof piece);
    return status;
}

static int wait_work(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    pthread_t there;
    return uvhttp_coro_work(block, &there);
}

static void sleep_long(void *arg) {
    *(int *)arg = uvhttp_coro_sleep(3600000);
    cleanups += *(int *)arg == UVHTTP_E_ABORTED ? 0 : 100;
}

static int wait_join(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    static int statuses[3];
    uvhttp_coro_t *children[3];
    for (int i = 0; i < 3; i++)
        if (uvhttp_coro_spawn(sleep_long, &statuses[i], &children[i]) != UVHTTP_OK) abort();
    int status = uvhttp_coro_join(children[1], UVHTTP_CORO_FOREVER); /* it has been cancelled, too */
    return status == UVHTTP_OK ? uvhttp_coro_sleep(3600000) : status;
}

/* At its end a coroutine waits for those that it has not joined. */
static void slow_work(void *arg) {
    pthread_t there;
    *(int *)arg = uvhttp_coro_work(block, &there);
}

static int wait_children(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    static int status;
    uvhttp_coro_t *child;
    if (uvhttp_coro_spawn(slow_work, &status, &child) != UVHTTP_OK) abort();
    return uvhttp_coro_sleep(3600000);
}

static void sleep_in_cleanup(void *arg) {
    (void)arg;
    waited_status = uvhttp_coro_sleep(3600000);
    cleanups++;
}

static int wait_cleanup(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    if (uvhttp_coro_defer(sleep_in_cleanup, NULL) != UVHTTP_OK) abort();
    return 1; /* the cleanup sets the status */
}

/* A pair of connected sockets, closed with the coroutine. */
static void close_pair(void *arg) {
    int *ends = arg;
    close(ends[0]);
    close(ends[1]);
}

static int ends[2];

static void open_pair(void) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) abort();
    if (uvhttp_coro_defer(close_pair, ends) != UVHTTP_OK) abort();
}

static int wait_descriptor(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    open_pair();
    return uvhttp_coro_wait_fd(ends[0], UVHTTP_CORO_READABLE, 3600000);
}

static int wait_read(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    char byte;
    size_t size;
    open_pair();
    return uvhttp_coro_read(ends[0], &byte, 1, &size, UVHTTP_CORO_FOREVER);
}

static int wait_peer_write(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    static char piece[PIECE];
    int status;
    open_pair();
    while ((status = uvhttp_coro_write(ends[0], piece, sizeof piece, UVHTTP_CORO_FOREVER)) == UVHTTP_OK) continue;
    return status;
}

static char full_address[64];

/* Nobody accepts there, and nobody more has room. */
static int full_listener(int clients[3]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    for (int i = 0; i < 3; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (struct sockaddr *)&address, sizeof address);
    }
    snprintf(full_address, sizeof full_address, "127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

static int wait_connect(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    int fd;
    return uvhttp_coro_connect(full_address, UVHTTP_CORO_FOREVER, &fd);
}

static void free_channel(void *arg) {
    uvhttp_coro_channel_free(arg);
}

static uvhttp_coro_channel_t *open_channel(void) {
    uvhttp_coro_channel_t *channel;
    if (uvhttp_coro_channel_new(sizeof(int), 2, &channel) != UVHTTP_OK) abort();
    if (uvhttp_coro_defer(free_channel, channel) != UVHTTP_OK) abort();
    return channel;
}

static int wait_send(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    uvhttp_coro_channel_t *channel = open_channel();
    int status, number = 0;
    while ((status = uvhttp_coro_channel_send(channel, &number, UVHTTP_CORO_FOREVER)) == UVHTTP_OK) number++;
    return number == 2 ? status : 1;
}

static int wait_receive(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    int number;
    return uvhttp_coro_channel_receive(open_channel(), &number, UVHTTP_CORO_FOREVER);
}

typedef struct point {
    const char *name;
    int (*wait)(uvhttp_request_t *req, uvhttp_response_t *res);
    bool blocks; /* on a thread that the test holds up */
    int cleanups;
} point_t;

static const point_t points[] = {
    {"sleep", wait_sleep, false, 1},
    {"yield", wait_yield, false, 1},
    {"body", wait_body, false, 1},
    {"write", wait_write, false, 1},
    {"work", wait_work, true, 1},
    {"join", wait_join, false, 1},
    {"children", wait_children, true, 1},
    {"cleanup", wait_cleanup, false, 2},
    {"descriptor", wait_descriptor, false, 1},
    {"connect", wait_connect, false, 1},
    {"read", wait_read, false, 1},
    {"peer's write", wait_peer_write, false, 1},
    {"channel's send", wait_send, false, 1},
    {"channel's receive", wait_receive, false, 1},
};

static void wait_at(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const point_t *point = user;
    uvhttp_response_on_done(res, on_done, NULL);
    if (uvhttp_coro_defer(on_cleanup, NULL) != UVHTTP_OK) abort();
    reached++;
    int status = point->wait(req, res);
    if (status <= 0) waited_status = status;
    if (uvhttp_request_path(req).size != 2) abort(); /* it is readable */
    uvhttp_response_text(res, 200, "nobody reads this");
}

/* Only where the body is waited for, it is not whole: a FIN behind bytes that nobody reads is not seen. */
static int ask_point(serving_t *serving, const point_t *point) {
    return client_ask(serving, point->wait == wait_body
                                   ? "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nbody"
                                   : "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
}

static void make_point(serving_t *serving, const point_t *point) {
    serving_make(serving);
    uvhttp_route(serving->server, UVHTTP_POST, "/p", wait_at, (void *)(uintptr_t)point, UVHTTP_EXEC_COROUTINE);
    uvhttp_route_options(serving->server, &(uvhttp_route_options_t){.stream_body = point->wait == wait_body});
}

static void test_a_client_that_goes_at_any_wait_loses_nothing(void **state) {
    serving_t *serving = *state;
    int clients[3], listener = full_listener(clients);
    serving->config.write_queue_max = 2 * PIECE;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        const point_t *point = &points[i];
        reset();
        gate = point->blocks;
        make_point(serving, point);
        serving_start(serving);
        int fd = ask_point(serving, point);
        WAIT_UNTIL(reached == 1);
        WAIT_UNTIL(uvhttp_server_counter(serving->server, "coroutines_waited") == 1);
        close(fd);
        WAIT_UNTIL(uvhttp_server_counter(serving->server, "connections_closed") == 1);
        gate = false;
        WAIT_UNTIL(dones == 1);
        print_message("%s: %s\n", point->name, uvhttp_error_name(waited_status));
        bool told = waited_status == UVHTTP_E_ABORTED || waited_status == UVHTTP_E_HTTP_BODY_INCOMPLETE;
        assert_true(told);
        assert_int_equal(cleanups, point->cleanups);
        assert_int_equal(done_status, UVHTTP_E_ABORTED);
        assert_true(done_at > cleanup_at); /* the hooks of the end come behind the coroutine's */
        serving_stop(serving);
        assert_int_equal(uvhttp_server_counter(serving->server, "aborted"), 1);
        assert_int_equal(dones, 1);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
    for (int i = 0; i < 3; i++) close(clients[i]);
    close(listener);
}

static void test_a_stop_unwinds_whoever_waits(void **state) {
    serving_t *serving = *state;
    int clients[3], listener = full_listener(clients);
    serving->config.drain_timeout = 0;
    serving->config.write_queue_max = 2 * PIECE;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        const point_t *point = &points[i];
        if (point->blocks) continue; /* a stop waits for them */
        reset();
        make_point(serving, point);
        serving_start(serving);
        int fd = ask_point(serving, point);
        WAIT_UNTIL(uvhttp_server_counter(serving->server, "coroutines_waited") == 1);
        serving_stop(serving);
        assert_int_equal(dones, 1);
        assert_int_equal(cleanups, point->cleanups);
        assert_int_equal(done_status, UVHTTP_E_ABORTED);
        close(fd);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
    for (int i = 0; i < 3; i++) close(clients[i]);
    close(listener);
}

/* --- other servers --- */

static void close_socket(void *arg) {
    close((int)(intptr_t)arg);
}

/* Asks this very server, which serves it meanwhile, on the same thread. */
static int fetch(const char *address, char *text, size_t max) {
    static const char request[] = "GET /now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    int fd;
    int status = uvhttp_coro_connect(address, 5000, &fd);
    if (status != UVHTTP_OK) return status;
    if (uvhttp_coro_defer(close_socket, (void *)(intptr_t)fd) != UVHTTP_OK) abort();
    status = uvhttp_coro_write(fd, request, sizeof request - 1, 5000);
    size_t sum = 0, size;
    while (status == UVHTTP_OK && (status = uvhttp_coro_read(fd, text + sum, max - 1 - sum, &size, 5000)) == UVHTTP_OK)
        sum += size;
    text[sum] = '\0';
    return status == UVHTTP_E_EOF ? UVHTTP_OK : status;
}

static void proxy(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char text[1024] = "", address[64];
    uvhttp_str_t to = uvhttp_request_header(req, "X-To");
    snprintf(address, sizeof address, "%.*s", (int)to.size, to.data);
    int status = fetch(address, text, sizeof text);
    if (status != UVHTTP_OK)
        uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_name(status));
    else
        uvhttp_response_text(res, 200, strstr(text, "\r\n\r\n") ? strstr(text, "\r\n\r\n") + 4 : "?");
}

static const char *ask_proxy(serving_t *serving, const char *host, bool with_port) {
    char request[256], port[16] = "";
    if (with_port) snprintf(port, sizeof port, ":%u", serving->port);
    snprintf(request, sizeof request, "GET /proxy HTTP/1.1\r\nHost: a\r\nX-To: %s%s\r\n\r\n", host, port);
    int fd = client_ask(serving, request);
    answer_t *answer = client_read(fd);
    close(fd);
    return answer->body;
}

static void test_a_request_to_another_server(void **state) {
    serving_t *serving = *state;
    begin(serving, "/proxy", proxy);
    uvhttp_route(serving->server, UVHTTP_GET, "/now", nothing_here, NULL, UVHTTP_EXEC_COROUTINE);
    serving_start(serving);
    assert_string_equal(ask_proxy(serving, "127.0.0.1", true), "1");
    assert_string_equal(ask_proxy(serving, "127.1", true), "1"); /* a name, for getaddrinfo */
    assert_string_equal(ask_proxy(serving, "unix:/nowhere", false), "UVHTTP_E_PEER_UNREACHABLE");
    assert_string_equal(ask_proxy(serving, "host.invalid", true), "UVHTTP_E_PEER_NAME");
    static const char *const refused[] = {"", ":80", "name", "name:", "name:x", "a b:80", "fd:3", "*:80", "[::1:80"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        print_message("'%s'\n", refused[i]);
        assert_string_equal(ask_proxy(serving, refused[i], false), "UVHTTP_E_ADDRESS");
    }
}

static void descriptors(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    char bytes[8];
    size_t size;
    open_pair();
    bool right = uvhttp_coro_wait_fd(ends[0], UVHTTP_CORO_WRITABLE, 0) == UVHTTP_OK &&
                 uvhttp_coro_wait_fd(ends[0], UVHTTP_CORO_READABLE, 0) == UVHTTP_E_TIMEOUT &&
                 uvhttp_coro_wait_fd(ends[0], UVHTTP_CORO_READABLE, 2) == UVHTTP_E_TIMEOUT &&
                 uvhttp_coro_wait_fd(ends[0], 4, 2) == UVHTTP_E_INVALID &&
                 uvhttp_coro_wait_fd(1000000, UVHTTP_CORO_READABLE, 2) == UVHTTP_E_INVALID &&
                 uvhttp_coro_read(ends[0], bytes, 8, &size, 2) == UVHTTP_E_TIMEOUT &&
                 uvhttp_coro_write(ends[1], "bytes", 5, 0) == UVHTTP_OK &&
                 uvhttp_coro_wait_fd(ends[0], UVHTTP_CORO_READABLE, UVHTTP_CORO_FOREVER) == UVHTTP_OK &&
                 uvhttp_coro_read(ends[0], bytes, 8, &size, 0) == UVHTTP_OK && size == 5 &&
                 shutdown(ends[1], SHUT_WR) == 0 && uvhttp_coro_read(ends[0], bytes, 8, &size, 2) == UVHTTP_E_EOF &&
                 shutdown(ends[1], SHUT_RD) == 0 && uvhttp_coro_write(ends[0], "bytes", 5, 0) == UVHTTP_E_PEER_RESET;
    uvhttp_response_text(res, right ? 200 : 500, "");
}

static void test_descriptors_can_be_waited_for(void **state) {
    serving_t *serving = *state;
    begin(serving, "/fd", descriptors);
    serving_start(serving);
    int fd = client_ask(serving, GET("/fd"));
    assert_int_equal(client_read(fd)->status, 200);
    close(fd);
}

/* --- channels --- */

typedef struct pipeline {
    uvhttp_coro_channel_t *channel;
    int sum, status;
} pipeline_t;

static void consume(void *arg) {
    pipeline_t *pipeline = arg;
    int number;
    while ((pipeline->status = uvhttp_coro_channel_receive(pipeline->channel, &number, 5000)) == UVHTTP_OK)
        pipeline->sum += number;
}

static void produce(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    pipeline_t consumers[2] = {{.channel = open_channel()}};
    consumers[1].channel = consumers[0].channel;
    uvhttp_coro_channel_t *channel = consumers[0].channel;
    uvhttp_coro_t *coros[2];
    int number = 7;
    bool right = uvhttp_coro_channel_receive(channel, &number, 2) == UVHTTP_E_TIMEOUT;
    for (int i = 0; i < 2; i++)
        if (uvhttp_coro_spawn(consume, &consumers[i], &coros[i]) != UVHTTP_OK) abort();
    for (int i = 1; i <= 100; i++) right = right && uvhttp_coro_channel_send(channel, &i, 5000) == UVHTTP_OK;
    right = right && uvhttp_coro_channel_close(channel) == UVHTTP_OK &&
            uvhttp_coro_channel_send(channel, &number, 5000) == UVHTTP_E_CLOSED;
    for (int i = 0; i < 2; i++) right = right && uvhttp_coro_join(coros[i], UVHTTP_CORO_FOREVER) == UVHTTP_OK;
    right = right && consumers[0].status == UVHTTP_E_EOF && consumers[1].status == UVHTTP_E_EOF &&
            consumers[0].sum + consumers[1].sum == 5050;
    uvhttp_response_text(res, right ? 200 : 500, "");
}

static void test_a_channel_between_coroutines(void **state) {
    serving_t *serving = *state;
    begin(serving, "/channel", produce);
    serving_start(serving);
    int fd = client_ask(serving, GET("/channel"));
    assert_int_equal(client_read(fd)->status, 200);
    close(fd);
}

/* --- limits --- */

static void hold(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    reached++;
    while (gate)
        if (uvhttp_coro_sleep(1) != UVHTTP_OK) return;
    uvhttp_response_text(res, 200, "held");
}

static void test_too_many_get_a_503_and_it_recovers(void **state) {
    serving_t *serving = *state;
    serving->config.coroutines_max = 3;
    begin(serving, "/hold", hold);
    gate = true;
    serving_start(serving);
    int fds[3];
    for (int i = 0; i < 3; i++) fds[i] = client_ask(serving, GET("/hold"));
    WAIT_UNTIL(reached == 3);
    int fd = client_ask(serving, GET("/hold"));
    answer_t *answer = client_read(fd);
    assert_int_equal(answer->status, 503);
    assert_non_null(strstr(answer->text, "Retry-After: 1\r\n"));
    gate = false;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_read(fds[i])->status, 200);
        close(fds[i]);
    }
    client_send(fd, GET("/hold"));
    assert_int_equal(client_read(fd)->status, 200);
    close(fd);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutines_refused"), 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "rejected_coroutine_limit"), 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutine_stacks"), 3);
}

static void test_a_stack_that_can_not_be_mapped_is_a_503(void **state) {
    serving_t *serving = *state;
    begin(serving, "/now", nothing_here);
    serving_start(serving);
    uvhttp__coro_stack_fail_maps = 1;
    int fd = client_ask(serving, GET("/now"));
    assert_int_equal(client_read(fd)->status, 503);
    client_send(fd, GET("/now"));
    assert_int_equal(client_read(fd)->status, 200);
    close(fd);
}

/* --- outside --- */

static void test_outside_of_a_coroutine_nothing_happens(void **state) {
    (void)state;
    uvhttp_coro_t *coro;
    int arg = 0;
    assert_false(uvhttp_coro_active());
    assert_int_equal(uvhttp_coro_sleep(1), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_yield(), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_defer(on_cleanup, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_work(on_cleanup, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_spawn(sleep_long, &arg, &coro), UVHTTP_E_STATE);
    assert_null(coro);
}

static void loop_handler(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    bool refused = uvhttp_coro_sleep(1) == UVHTTP_E_STATE && uvhttp_coro_read_body(req, &piece, 1) == UVHTTP_E_STATE;
    uvhttp_response_text(res, refused ? 200 : 500, "");
}

static void test_a_handler_on_the_loop_is_refused(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_get(serving->server, "/loop", loop_handler, NULL);
    serving_start(serving);
    int fd = client_ask(serving, GET("/loop"));
    assert_int_equal(client_read(fd)->status, 200);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_of_a_coroutine_nothing_happens),
        ON_EACH(test_a_handler_that_does_not_wait_is_not_deferred),
        ON_EACH(test_views_of_the_request_stay_valid_across_waits),
        ON_EACH(test_many_wait_at_once),
        ON_EACH(test_no_answer_is_a_500),
        ON_EACH(test_an_answer_leaves_when_the_handler_has_returned),
        ON_EACH(test_a_write_waits_for_a_slow_client),
        ON_EACH(test_a_body_is_read_piece_by_piece),
        ON_EACH(test_a_collected_body_is_one_piece),
        ON_EACH(test_a_body_that_does_not_come_in_time),
        ON_EACH(test_a_body_that_is_refused_is_told),
        ON_EACH(test_work_runs_on_another_thread),
        ON_EACH(test_a_client_that_goes_at_any_wait_loses_nothing),
        ON_EACH(test_a_stop_unwinds_whoever_waits),
        ON_EACH(test_a_request_to_another_server),
        ON_EACH(test_descriptors_can_be_waited_for),
        ON_EACH(test_a_channel_between_coroutines),
        ON_EACH(test_too_many_get_a_503_and_it_recovers),
        ON_EACH(test_a_stack_that_can_not_be_mapped_is_a_503),
        ON_EACH(test_a_handler_on_the_loop_is_refused),
    };
    return RUN_ON_EACH(tests);
}
