/* Owns: tests of what the Redis store makes of a Redis that replies something else, less or nothing, and of hiredis
 * without memory. The test is the Redis, and the client of the server. With a real one: test/integration/test_redis.py.
 */
/* Needs: middleware redis. */
#include <dlfcn.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/http_server.h"
#include "support/process.h"

#define SHA "0123456789012345678901234567890123456789"
#define LOADED "$40\r\n" SHA "\r\n"
#define ALLOWED "*3\r\n:1\r\n:5\r\n:1000\r\n"
#define CLOSE "close"
#define RESET "reset"

/* --- what is logged --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char logged[4096];

static void keep_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)user;
    pthread_mutex_lock(&lock);
    if (strlen(logged) + size < sizeof logged) strcat(logged, message);
    pthread_mutex_unlock(&lock);
}

static bool has_logged(const char *part) {
    pthread_mutex_lock(&lock);
    bool found = strstr(logged, part) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* --- the Redis --- */

static struct {
    int listener, fd; /* fd: -1: no connection */
    char in[8192];
    size_t size;
    char commands[1024]; /* a line each; the words, without the script */
    const char *const *replies;
    size_t count; /* commands of this connection */
    char address[128], folder[32];
} redis;

static void listen_as_redis(bool is_unix) {
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    socklen_t size = sizeof inet;
    memset(&redis, 0, sizeof redis);
    redis.fd = -1;
    redis.listener = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (is_unix) {
        strcpy(redis.folder, "/tmp/uvhttp-redis-XXXXXX");
        assert_non_null(mkdtemp(redis.folder));
        snprintf(local.sun_path, sizeof local.sun_path, "%s/socket", redis.folder);
        snprintf(redis.address, sizeof redis.address, "unix:%s", local.sun_path);
        assert_int_equal(bind(redis.listener, (const struct sockaddr *)&local, sizeof local), 0);
    } else {
        assert_int_equal(bind(redis.listener, (const struct sockaddr *)&inet, sizeof inet), 0);
        assert_int_equal(getsockname(redis.listener, (struct sockaddr *)&inet, &size), 0);
        snprintf(redis.address, sizeof redis.address, "127.0.0.1:%u", ntohs(inet.sin_port));
    }
    assert_int_equal(listen(redis.listener, 8), 0);
}

static void leave(bool with_reset) {
    if (with_reset) setsockopt(redis.fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    close(redis.fd);
    redis.fd = -1;
}

static void stop_redis(void) {
    if (redis.fd >= 0) leave(false);
    close(redis.listener);
    if (*redis.folder) remove_tree(redis.folder);
}

/* Removes a command, "*2\r\n$4\r\nAUTH\r\n$1\r\nb\r\n", from the input. Returns false if it is not all there. */
static bool take_command(void) {
    char *at = redis.in, *end = redis.in + redis.size, line[512] = "";
    *end = '\0';
    for (unsigned long words = redis.size ? strtoul(at + 1, &at, 10) : 0, i = 0; i <= words; i++) {
        if (end - at < 2 || words == 0) return false;
        at += 2;
        if (i == words) break;
        unsigned long size = strtoul(at + 1, &at, 10);
        if (end - at < (ptrdiff_t)size + 4) return false;
        if (size < 100) snprintf(line + strlen(line), sizeof line - strlen(line), "%.*s ", (int)size, at + 2);
        at += 2 + size;
    }
    snprintf(redis.commands + strlen(redis.commands), sizeof redis.commands - strlen(redis.commands), "%s\n", line);
    redis.size = (size_t)(end - at);
    memmove(redis.in, at, redis.size);
    return true;
}

static void reply_to_commands(void) {
    ssize_t got = recv(redis.fd, redis.in + redis.size, sizeof redis.in - 1 - redis.size, 0);
    if (got <= 0) {
        leave(false);
        return;
    }
    redis.size += (size_t)got;
    while (redis.fd >= 0 && take_command()) {
        const char *reply = redis.replies[redis.count];
        if (!reply) return;
        redis.count++;
        if (strcmp(reply, CLOSE) == 0 || strcmp(reply, RESET) == 0)
            leave(*reply == 'r');
        else
            assert_int_equal(send(redis.fd, reply, strlen(reply), MSG_NOSIGNAL), strlen(reply));
    }
}

/* Lets it reply until the server has responded. Returns the status. */
static int serve_until_response(int client) {
    for (;;) {
        struct pollfd fds[] = {{client, POLLIN, 0}, {redis.listener, POLLIN, 0}, {redis.fd, POLLIN, 0}};
        assert_true(poll(fds, 3, TIMEOUT_MS) > 0);
        if (fds[0].revents) return client_read(client)->status;
        if (fds[2].revents) reply_to_commands();
        if (!fds[1].revents) continue;
        if (redis.fd >= 0) close(redis.fd);
        redis.fd = accept4(redis.listener, NULL, NULL, SOCK_CLOEXEC);
        redis.size = redis.count = 0;
    }
}

/* --- the server --- */

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "hello");
}

static void start(serving_t *serving, uvhttp_rate_limit_redis_options_t options) {
    uvhttp_rate_limit_store_t store;
    options.address = redis.address;
    if (!options.timeout_ms) options.timeout_ms = 10000;
    logged[0] = '\0';
    serving_make(serving);
    assert_int_equal(uvhttp_rate_limit_redis(&options, &store), UVHTTP_OK);
    const uvhttp_rate_limit_options_t limit = {.store = &store, .refuse_on_error = true};
    uvhttp_use(serving->server, uvhttp_rate_limit(&limit));
    uvhttp_get(serving->server, "/", hello, NULL);
    serving_start(serving);
}

static void stop(serving_t *serving) {
    serving_stop(serving);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
    stop_redis();
}

static int ask(const serving_t *serving) {
    int client = client_ask(serving, GET("/"));
    int status = serve_until_response(client);
    close(client);
    return status;
}

typedef struct conversation {
    const char *replies[6];
    int status;         /* of HTTP: 503: undecided */
    const char *reason; /* that is logged; NULL: nothing */
} conversation_t;

static void have(serving_t *serving, const conversation_t *conversation, uvhttp_rate_limit_redis_options_t options) {
    redis.replies = conversation->replies;
    start(serving, options);
    int status = ask(serving);
    if (status != conversation->status) fail_msg("%s: %d", conversation->replies[0], status);
    if (conversation->reason)
        WAIT_UNTIL(has_logged(conversation->reason));
    else
        assert_string_equal(logged, "");
    stop(serving);
}

/* --- tests --- */

static void assert_commands(const char *start) {
    if (strncmp(redis.commands, start, strlen(start)) != 0) fail_msg("%s", redis.commands);
}

static void test_a_user_and_a_database_come_before_the_script(void **state) {
    listen_as_redis(false);
    have(*state, &(conversation_t){{"+OK\r\n", "+OK\r\n", LOADED, ALLOWED}, 200, NULL},
         (uvhttp_rate_limit_redis_options_t){.user = "tea", .password = "pot", .database = 3});
    assert_commands("AUTH tea pot \nSELECT 3 \nSCRIPT LOAD \nEVALSHA " SHA " 1 ");
    /* 100 requests per second, in sixteenths of a microsecond, and as many at once. */
    assert_non_null(strstr(redis.commands, " 160000 100 \n"));
}

static void test_a_password_without_a_user_is_for_the_default_user(void **state) {
    listen_as_redis(true);
    have(*state, &(conversation_t){{"+OK\r\n", LOADED, ALLOWED}, 200, NULL},
         (uvhttp_rate_limit_redis_options_t){.password = "pot"});
    assert_commands("AUTH pot \nSCRIPT LOAD \nEVALSHA ");
}

static void test_what_redis_refuses_or_never_replies_is_no_decision(void **state) {
    static const conversation_t conversations[] = {
        {{LOADED, "*3\r\n:0\r\n:0\r\n:1000\r\n"}, 429, NULL},
        {{"-WRONGPASS invalid\r\n"}, 503, "unavailable: WRONGPASS invalid"},
        {{"+OK\r\n"}, 503, "unavailable: no reply of Redis to SCRIPT LOAD"},
        {{"$3\r\nabc\r\n"}, 503, "unavailable: no reply of Redis to SCRIPT LOAD"},
        {{LOADED, "-NOSCRIPT no such script\r\n"}, 503, "unavailable: NOSCRIPT no such script"},
        {{LOADED, "+OK\r\n"}, 503, "unavailable: unexpected reply"},
        {{LOADED, "*3\r\n:1\r\n:-5\r\n:1000\r\n"}, 503, "unavailable: "},
        {{LOADED, "?\r\n"}, 503, "unavailable: a reply that matches no request"},
        {{LOADED ":1\r\n"}, 503, "unavailable: "}, /* before it was asked, or in place of a reply */
        {{LOADED, ALLOWED ALLOWED}, 200, "unavailable: a reply without a request"},
        {{LOADED, CLOSE}, 503, "unavailable: Server closed the connection"},
        {{LOADED, RESET}, 503, "unavailable: Connection reset by peer"},
    };
    for (size_t i = 0; i < sizeof conversations / sizeof *conversations; i++) {
        listen_as_redis(i % 2);
        if (i == 11) { /* a Unix socket knows no reset */
            stop_redis();
            listen_as_redis(false);
        }
        have(*state, &conversations[i], (uvhttp_rate_limit_redis_options_t){0});
    }
}

static void test_an_error_that_is_long_is_cut(void **state) {
    static char error[300];
    listen_as_redis(false);
    memset(error, 'e', sizeof error - 1);
    memcpy(error, "-", 1);
    memcpy(error + sizeof error - 3, "\r\n", 2);
    have(*state, &(conversation_t){{error}, 503, "unavailable: eeee"}, (uvhttp_rate_limit_redis_options_t){0});
    assert_null(strstr(logged, error + sizeof error - 3 - 101));
}

static void test_a_reply_that_is_too_long_ends_the_connection(void **state) {
    static char reply[5000];
    listen_as_redis(false);
    memset(reply, '1', sizeof reply - 1);
    memcpy(reply, "$4990\r\n", 7);
    have(*state, &(conversation_t){{LOADED, reply}, 503, "or one of more than 4096 bytes"},
         (uvhttp_rate_limit_redis_options_t){0});
}

static void test_without_a_reply_in_time_there_is_no_decision(void **state) {
    listen_as_redis(false);
    have(*state, &(conversation_t){{LOADED}, 503, NULL}, (uvhttp_rate_limit_redis_options_t){.timeout_ms = 50});
}

static void test_where_nobody_listens_there_is_no_decision(void **state) {
    static const bool kinds[] = {false, true};
    for (size_t i = 0; i < 2; i++) {
        listen_as_redis(kinds[i]);
        close(redis.listener);
        redis.listener = -1;
        if (kinds[i]) unlink(redis.address + strlen("unix:"));
        have(*state, &(conversation_t){{LOADED}, 503, kinds[i] ? "No such file" : "Connection refused"},
             (uvhttp_rate_limit_redis_options_t){0});
    }
}

static void test_it_is_asked_again_when_it_is_back(void **state) {
    serving_t *serving = *state;
    listen_as_redis(false);
    redis.replies = (const char *const[]){LOADED, CLOSE, NULL};
    start(serving, (uvhttp_rate_limit_redis_options_t){0});
    assert_int_equal(ask(serving), 503);
    redis.replies = (const char *const[]){LOADED, ALLOWED, NULL};
    WAIT_UNTIL(ask(serving) == 200);
    assert_true(has_logged("is available again"));
    stop(serving);
}

/* Redis ends connections that have been idle for its `timeout`. */
static void test_an_idle_connection_that_ends_is_no_outage(void **state) {
    serving_t *serving = *state;
    listen_as_redis(false);
    redis.replies = (const char *const[]){LOADED, ALLOWED, NULL};
    start(serving, (uvhttp_rate_limit_redis_options_t){0});
    assert_int_equal(ask(serving), 200);
    leave(false);
    struct pollfd comes_back = {redis.listener, POLLIN, 0};
    assert_int_equal(poll(&comes_back, 1, TIMEOUT_MS), 1);
    assert_int_equal(ask(serving), 200);
    assert_string_equal(logged, "");
    stop(serving);
}

/* A client that comes in the pause before the next connection would be decided without Redis. */
static void test_behind_an_idle_connection_there_is_no_pause(void **state) {
    serving_t *serving = *state;
    uint64_t left_ms = 0;
    listen_as_redis(false);
    redis.replies = (const char *const[]){LOADED, ALLOWED, NULL};
    start(serving, (uvhttp_rate_limit_redis_options_t){0});
    assert_int_equal(ask(serving), 200);
    for (int i = 0; i < 7; i++) { /* pauses would double */
        usleep(120000);
        leave(false);
        left_ms = clock_ms();
        struct pollfd comes_back = {redis.listener, POLLIN, 0};
        assert_int_equal(poll(&comes_back, 1, TIMEOUT_MS), 1);
        left_ms = clock_ms() - left_ms;
        redis.fd = accept4(redis.listener, NULL, NULL, SOCK_CLOEXEC);
        redis.size = redis.count = 0;
        while (redis.fd >= 0 && redis.count == 0) reply_to_commands();
    }
    if (left_ms >= 1000) fail_msg("%d ms", (int)left_ms);
    assert_int_equal(ask(serving), 200);
    assert_string_equal(logged, "");
    stop(serving);
}

/* The descriptor of this process whose peer is `fd`: the server is here, too. */
static int other_end(int fd) {
    struct sockaddr_storage wanted, peer;
    socklen_t wanted_size = sizeof wanted, size;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&wanted, &wanted_size), 0);
    for (int other = 0; other < 1024; other++) {
        size = sizeof peer;
        if (getpeername(other, (struct sockaddr *)&peer, &size) != 0 || size != wanted_size) continue;
        if (memcmp(&peer, &wanted, size) == 0) return other;
    }
    return -1;
}

/* Whoever has it asks Redis without the password. */
static void test_no_program_that_is_started_inherits_the_connection(void **state) {
    static const bool kinds[] = {false, true};
    for (size_t i = 0; i < 2; i++) {
        listen_as_redis(kinds[i]);
        redis.replies = (const char *const[]){"+OK\r\n", LOADED, ALLOWED, NULL};
        start(*state, (uvhttp_rate_limit_redis_options_t){.password = "pot"});
        assert_int_equal(ask(*state), 200);
        int fd = other_end(redis.fd);
        assert_true(fd >= 0);
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        stop(*state);
    }
}

/* --- hiredis without memory --- */

static atomic_size_t calls, fail_at; /* of the functions that stand in front of its own */

static bool fails(void) {
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&fail_at);
}

redisContext *redisConnectNonBlock(const char *host, int port) {
    redisContext *(*real)(const char *host, int port);
    *(void **)&real = dlsym(RTLD_NEXT, "redisConnectNonBlock");
    return fails() ? NULL : real(host, port);
}

int redisAppendCommandArgv(redisContext *context, int count, const char **words, const size_t *sizes) {
    int (*real)(redisContext * context, int count, const char **words, const size_t *sizes);
    *(void **)&real = dlsym(RTLD_NEXT, "redisAppendCommandArgv");
    return fails() ? REDIS_ERR : real(context, count, words, sizes);
}

static void test_without_memory_for_a_command_there_is_no_decision(void **state) {
    serving_t *serving = *state;
    static const char *const replies[] = {"+OK\r\n", "+OK\r\n", LOADED, ALLOWED, ALLOWED, NULL};
    enum { CALLS = 5 }; /* to connect, AUTH, SELECT, SCRIPT LOAD, EVALSHA */
    for (size_t n = 1; n <= CALLS + 1; n++) {
        listen_as_redis(false);
        redis.replies = replies;
        atomic_store(&calls, 0);
        atomic_store(&fail_at, n);
        start(serving, (uvhttp_rate_limit_redis_options_t){.password = "pot", .database = 3});
        assert_int_equal(ask(serving), n <= CALLS ? 503 : 200);
        assert_int_equal(has_logged("unavailable: out of memory"), n < CALLS); /* the last one costs no connection */
        WAIT_UNTIL(ask(serving) == 200);
        stop(serving);
    }
    atomic_store(&fail_at, 0);
}

int main(void) {
    uvhttp_log_set_callback(keep_log, NULL);
    uvhttp_log_set_rate_limit(0);
    const run_group_t on_epoll_only = {&(run_variant_t){NULL, &on_epoll}, 1, serving_setup, serving_teardown};
    return RUN_GROUP(
        on_epoll_only, test_a_user_and_a_database_come_before_the_script,
        test_a_password_without_a_user_is_for_the_default_user, test_what_redis_refuses_or_never_replies_is_no_decision,
        test_an_error_that_is_long_is_cut, test_a_reply_that_is_too_long_ends_the_connection,
        test_without_a_reply_in_time_there_is_no_decision, test_where_nobody_listens_there_is_no_decision,
        test_it_is_asked_again_when_it_is_back, test_an_idle_connection_that_ends_is_no_outage,
        test_behind_an_idle_connection_there_is_no_pause, test_no_program_that_is_started_inherits_the_connection,
        test_without_memory_for_a_command_there_is_no_decision);
}
