/* Owns: tests of files on streams whose filter hands its work to the kernel when a large one comes: what is queued
 * before and behind it stays in order, each byte is encoded by exactly one of the two, and the end has its
 * close_notify. The filter of these tests encodes by turning a bit; what "the kernel" sends comes as it is, which needs
 * no kernel that can encrypt.
 */
#include "support/io_server.h"

enum { FILE_SIZE = 3 * 1024 * 1024 + 77, SMALL = UVHTTP__FILTER_PASS_MIN - 1, BIT = 0x40 };

/* Of one request. */
typedef struct plan {
    const char *orders; /* what on_data queues, letter by letter */
    bool refuses;       /* files may not pass */
    bool no_capacity;   /* for the close_notify, at the first try */
} plan_t;

typedef struct fixture {
    uvhttp__filter_t filter;
    int fd;
    plan_t plan;
    const char *next; /* of plan.orders: what waits for the wire to be empty; NULL: none does */
    atomic_int asked, encoded_ends, passed_ends;
    char *data;
} fixture_t;

static fixture_t fixture;

/* --- the filter --- */

/* Megabytes, byte by byte, and nothing that another thread writes: instrumented it would take most of the test's time.
 */
__attribute__((no_sanitize("thread"))) static void encode_bytes(char *to, const char *from, size_t size) {
    for (size_t i = 0; i < size; i++) to[i] = from[i] ^ BIT;
}

static int encode(uvhttp__stream_t *stream, const char *data, size_t size) {
    char copy[UVHTTP__FILTER_PIECE_MAX];
    encode_bytes(copy, data, size);
    return uvhttp__filter_put(stream, copy, size);
}

static void encode_end(uvhttp__stream_t *stream) {
    fixture.encoded_ends++;
    (void)uvhttp__filter_put(stream, "bye", 3);
}

static bool pass(uvhttp__stream_t *stream) {
    (void)stream;
    fixture.asked++;
    fixture.filter.may_pass = false;
    return !fixture.plan.refuses;
}

static int pass_end(uvhttp__stream_t *stream) {
    if (fixture.plan.no_capacity) {
        fixture.plan.no_capacity = false;
        return UVHTTP_E_AGAIN;
    }
    fixture.passed_ends++;
    return send(stream->fd, "BYE", 3, MSG_DONTWAIT | MSG_NOSIGNAL) == 3 ? UVHTTP_OK : UVHTTP_E_AGAIN;
}

static const uvhttp__filter_ops_t filter_ops = {.encode = encode,
                                                .encode_end = encode_end,
                                                .pass = pass,
                                                .pass_end = pass_end,
                                                .closing = filter_does_nothing,
                                                .unread = filter_holds_nothing};

/* --- the server: l large file, s small file, t text, r text by reference, c text of the iteration that is large, e end
 * ---
 */

static void count_release(void *arg) {
    count_event(arg, EV_RELEASED, 1);
}

static char iteration_text[100000];

/* Returns whether it has to wait until all before it is with the kernel. */
static bool obey_file(uvhttp__stream_t *stream, uint64_t size) {
    server_t *server = peer_of(stream)->server;
    if (size >= UVHTTP__FILTER_PASS_MIN && uvhttp__stream_may_pass(stream)) {
        if (uvhttp__stream_out_size(stream) > 0) return true;
        (void)uvhttp__stream_pass(stream);
    }
    if (uvhttp__stream_encodes(stream))
        uvhttp__stream_send_ref(stream, fixture.data, size, count_release, server);
    else
        (void)uvhttp__stream_send_file(stream, fixture.fd, 0, size, count_release, server);
    return false;
}

static bool obey(uvhttp__stream_t *stream, char order) {
    server_t *server = peer_of(stream)->server;
    switch (order) {
        case 't': uvhttp__stream_send_copy(stream, "text", 4); break;
        case 'r': uvhttp__stream_send_ref(stream, fixture.data, FILE_SIZE, count_release, server); break;
        case 'c': uvhttp__stream_send_copy(stream, iteration_text, sizeof iteration_text); break;
        case 'e': uvhttp__stream_shutdown(stream); break;
        default: return obey_file(stream, order == 'l' ? FILE_SIZE : SMALL);
    }
    return false;
}

static void proceed(uvhttp__stream_t *stream) {
    while (fixture.next && *fixture.next && !obey(stream, *fixture.next)) fixture.next++;
    if (fixture.next && !*fixture.next) fixture.next = NULL;
    uvhttp__stream_notify_sent(stream);
}

static size_t on_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    fixture.next = fixture.plan.orders;
    proceed(stream);
    return size;
}

static void on_sent(uvhttp__stream_t *stream) {
    if (fixture.next)
        proceed(stream);
    else
        peer_count_sent(stream);
}

static const uvhttp__stream_ops_t ops = {
    .on_data = on_data, .on_end = peer_close_at_end, .on_sent = on_sent, .on_closed = peer_on_closed};

static void start(server_t *server) {
    char path[] = "/tmp/uvhttp-pass-XXXXXX";
    memset(&fixture, 0, sizeof fixture);
    fixture.filter = (uvhttp__filter_t){.ops = &filter_ops};
    fixture.data = pattern_new(FILE_SIZE);
    memset(iteration_text, 'c', sizeof iteration_text);
    fixture.fd = mkstemp(path);
    assert_true(fixture.fd >= 0 && unlink(path) == 0 && write(fixture.fd, fixture.data, FILE_SIZE) == FILE_SIZE);
    server->filter = &fixture.filter;
    server_start(server, &ops);
}

static void end(void) {
    close(fixture.fd);
    free(fixture.data);
}

/* --- the client --- */

static void expect(int fd, const char *data, size_t size, bool encoded) {
    char *copy = malloc(size);
    assert_non_null(copy);
    if (encoded)
        encode_bytes(copy, data, size);
    else
        memcpy(copy, data, size);
    client_expect(fd, copy, size);
    free(copy);
}

static void expect_order(int fd, char order, bool encoded) {
    switch (order) {
        case 't': expect(fd, "text", 4, encoded); break;
        case 'r': expect(fd, fixture.data, FILE_SIZE, encoded); break;
        case 'c': expect(fd, iteration_text, sizeof iteration_text, encoded); break;
        case 'l': expect(fd, fixture.data, FILE_SIZE, encoded); break;
        case 's': expect(fd, fixture.data, SMALL, encoded); break;
        default: client_expect(fd, encoded ? "bye" : "BYE", 3); client_expect_eof(fd);
    }
}

/* The first large file and all behind it pass. */
static void expect_orders(int fd, const char *orders, bool encoded) {
    for (; *orders; orders++) {
        if (*orders == 'l') encoded = false;
        expect_order(fd, *orders, encoded);
    }
}

static void set_plan(server_t *server, void *plan) {
    (void)server;
    fixture.plan = *(const plan_t *)plan;
    fixture.filter.may_pass = true;
}

static void ask(server_t *server, int fd, plan_t plan) {
    server_call(server, set_plan, &plan);
    client_send(fd, "x", 1);
}

static void leave(server_t *server, int fd, uint64_t closed) {
    close(fd);
    server_wait(server, EV_CLOSED, closed);
}

/* --- tests --- */

static void test_what_stands_around_a_file_that_passes_keeps_its_place(void **state) {
    static const char *const mixtures[] = {"l",   "tl",   "tlt",   "stlt",   "tlst",   "rlr",    "tllt",
                                           "clc", "slsl", "tlrtc", "ltltlt", "cslscr", "rltlsrt"};
    server_t *server = *state;
    start(server);
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        int fd = client_connect(server->port);
        server_wait(server, EV_OPENED, i + 1);
        ask(server, fd, (plan_t){.orders = mixtures[i]});
        expect_orders(fd, mixtures[i], true);
        assert_int_equal(fixture.asked, i + 1);
        server_wait(server, EV_SENT, i + 1);
        leave(server, fd, i + 1);
    }
    end();
}

static void test_later_responses_pass_too(void **state) {
    server_t *server = *state;
    start(server);
    int fd = client_connect(server->port);
    server_wait(server, EV_OPENED, 1);
    ask(server, fd, (plan_t){.orders = "tlt"});
    expect_orders(fd, "tlt", true);
    static const char *const later[] = {"t", "ts", "c", "tl", "rt", "te"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        server_wait(server, EV_SENT, i + 1);
        ask(server, fd, (plan_t){.orders = later[i]});
        expect_orders(fd, later[i], false);
    }
    assert_int_equal(fixture.asked, 1);
    assert_int_equal(fixture.passed_ends, 1);
    assert_int_equal(fixture.encoded_ends, 0);
    leave(server, fd, 1);
    end();
}

static void test_small_files_do_not_ask(void **state) {
    server_t *server = *state;
    start(server);
    int fd = client_connect(server->port);
    ask(server, fd, (plan_t){.orders = "tsse"});
    expect_orders(fd, "tsse", true);
    assert_int_equal(fixture.asked, 0);
    assert_int_equal(fixture.encoded_ends, 1);
    leave(server, fd, 1);
    end();
}

static void test_a_file_that_may_not_pass_is_read_and_asks_once(void **state) {
    server_t *server = *state;
    start(server);
    int fd = client_connect(server->port);
    ask(server, fd, (plan_t){.orders = "tltle", .refuses = true});
    for (const char *order = "tltle"; *order; order++) expect_order(fd, *order, true);
    assert_int_equal(fixture.asked, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 2);
    leave(server, fd, 1);
    end();
}

/* The end was queued while the filter still encoded. */
static void test_an_end_behind_a_file_that_passes_waits_for_capacity(void **state) {
    server_t *server = *state;
    start(server);
    int fd = client_connect(server->port);
    ask(server, fd, (plan_t){.orders = "tle", .no_capacity = true});
    expect_orders(fd, "tle", true);
    assert_int_equal(fixture.passed_ends, 1);
    assert_int_equal(fixture.encoded_ends, 0);
    leave(server, fd, 1);
    end();
}

/* What does not fit into the socket is sent from copies, in order. */
static void test_a_slow_client_gets_everything(void **state) {
    server_t *server = *state;
    start(server);
    int fd = client_socket();
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int)), 0);
    client_connect_fd(fd, server->port);
    ask(server, fd, (plan_t){.orders = "clcrce"});
    server_wait(server, EV_OPENED, 1);
    assert_quiet(server);
    expect_orders(fd, "clcrce", true);
    leave(server, fd, 1);
    end();
}

static void test_a_client_that_leaves_gives_everything_back(void **state) {
    server_t *server = *state;
    start(server);
    int fd = client_connect(server->port);
    ask(server, fd, (plan_t){.orders = "tlrltr"});
    expect(fd, "text", 4, true);
    expect(fd, fixture.data, 100000, false);
    client_reset(fd);
    server_wait(server, EV_CLOSED, 1);
    server_wait(server, EV_RELEASED, 4);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_what_stands_around_a_file_that_passes_keeps_its_place),
        ON_EACH(test_later_responses_pass_too),
        ON_EACH(test_small_files_do_not_ask),
        ON_EACH(test_a_file_that_may_not_pass_is_read_and_asks_once),
        ON_EACH(test_an_end_behind_a_file_that_passes_waits_for_capacity),
        ON_EACH(test_a_slow_client_gets_everything),
        ON_EACH(test_a_client_that_leaves_gives_everything_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
