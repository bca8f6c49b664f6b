/* Owns: tests that a request owns what it shows: each public function of requests, responses and deferred handles is
 * used where it may be used off the loop (a thread of the application, a worker thread) and in coroutines, while
 * clients reset their connections and after the server is gone. The names come from the headers: a function that is in
 * no table of off_loop_uses.h fails the test. For ASan and TSan, but what is shown is compared, too. */
#include <dirent.h>

#include "off_loop_uses.h"

/* So that waiting takes little of the request's memory. */
static void pause_shortly(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

#define COUNT(table) (sizeof(table) / sizeof *(table))

static void use_all(const entry_t *table, size_t count, user_t *user) {
    for (size_t i = 0; i < count; i++) table[i].use(user);
    atomic_fetch_add(&used, 1);
}
#define USE_ALL(table, user) use_all((table), COUNT(table), (user))

/* --- the tables are complete --- */

static const entry_t *listed(const entry_t *table, size_t count, const char *text, size_t size) {
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i].name) == size && memcmp(table[i].name, text, size) == 0) return &table[i];
    return NULL;
}

static const entry_t *entry_of(const char *text, size_t size) {
    const entry_t *entry = listed(of_requests, COUNT(of_requests), text, size);
    if (!entry) entry = listed(of_responses, COUNT(of_responses), text, size);
    if (!entry) entry = listed(of_handles, COUNT(of_handles), text, size);
    if (!entry) entry = listed(of_handles_afterwards, COUNT(of_handles_afterwards), text, size);
    return entry ? entry : listed(on_loop_only, COUNT(on_loop_only), text, size);
}

/* Whether the declaration that ends at `end` names this thread. One without UVHTTP_EXPORT, which stands in the header,
 * names none. */
static bool names_thread(const char *text, const char *end, const char *thread) {
    const char *start = end;
    while (start > text && !strchr(";}/", start[-1])) start--;
    const char *exported = memmem(start, (size_t)(end - start), "UVHTTP_EXPORT ", 14);
    return !exported || strncmp(exported + 14, thread, strlen(thread)) == 0;
}

static int check_functions(const char *text, const char *prefix, const char *file) {
    int found = 0;
    for (const char *at = text; (at = strstr(at, prefix)); at += strlen(prefix)) {
        size_t size = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (at[size] != '(') continue; /* a type, or named in a comment */
        found++;
        if (size > 6 && strncmp(at + size - 6, "_sized", 6) == 0) size -= 6; /* what the function without it calls */
        const entry_t *entry = entry_of(at, size);
        if (!entry)
            fail_msg("%s: %.*s is in no table of off_loop_uses.h: how is it used off the loop?", file, (int)size, at);
        else if (!names_thread(text, at, entry->thread))
            fail_msg("%s: %s is not declared %s", file, entry->name, entry->thread);
    }
    return found;
}

static void test_every_public_function_is_in_a_table(void **state) {
    (void)state;
    static char text[1 << 20];
    static const char folder[] = "include/uvhttp"; /* tests run in the source's folder */
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int found = 0;
    for (struct dirent *one; (one = readdir(dir));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
        size_t length = strlen(one->d_name);
        if (length < 3 || strcmp(one->d_name + length - 2, ".h") != 0) continue;
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        size_t size = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[size] = '\0';
        found += check_functions(text, "uvhttp_request_", path) + check_functions(text, "uvhttp_response_", path) +
                 check_functions(text, "uvhttp_deferred_", path);
    }
    closedir(dir);
    assert_true(found >= (int)(COUNT(of_requests) + COUNT(of_responses)));
}

/* --- the server and its clients --- */

#define HEAD(path)                                                                                                     \
    "POST " path "/1?q=%32&r HTTP/1.1\r\nHost: a.example\r\nX-Key: value\r\nCookie: c=d\r\nX-Forwarded-For: "          \
    "192.0.2.7\r\nContent-Length: 3\r\n\r\na=b"

/* A client, and what its request will have to say. */
static int connect_as(const serving_t *serving, user_t *user) {
    int fd = client_connect(serving->port);
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &size), 0);
    snprintf(user->peer, sizeof user->peer, "127.0.0.1:%u", ntohs(own.sin_port));
    snprintf(user->client, sizeof user->client, "192.0.2.7");
    return fd;
}

static int ask(const serving_t *serving, const char *text, user_t *user) {
    int fd = connect_as(serving, user);
    client_send_text(fd, text);
    return fd;
}

static _Atomic(uvhttp_deferred_t *) slot; /* what a handler has deferred */
static atomic_bool inside;                /* a handler waits for its client to go */

static void start(serving_t *serving, uvhttp_handler_cb handler, uvhttp_exec_t exec) {
    serving->config.trace = true; /* nobody is there to get the spans */
    (void)uvhttp_server_config_set(&serving->config, "trace_endpoint", "http://127.0.0.1:9", NULL, 0);
    static const char *const trusted[] = {"127.0.0.0/8"};
    wrong = used = 0;
    atomic_store(&slot, NULL);
    serving_make(serving);
    assert_int_equal(uvhttp_server_trust_proxies(serving->server,
                                                 &(uvhttp_proxy_options_t){.trusted = trusted,
                                                                           .trusted_count = 1,
                                                                           .header = UVHTTP_PROXY_HEADER_X_FORWARDED}),
                     UVHTTP_OK);
    assert_non_null(uvhttp_route(serving->server, UVHTTP_POST, "/x/:id", handler, NULL, exec));
    serving_start(serving);
}

/* --- threads of the application --- */

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&slot, uvhttp_response_defer(res));
}

/* What is asked while the client goes, and then once more. */
static void *use_deferred(void *arg) {
    user_t *user = arg;
    user->req = uvhttp_deferred_request(user->deferred);
    for (int i = 0; i < 1000000 && !uvhttp_deferred_aborted(user->deferred); i++) {
        USE_ALL(of_requests, user);
        if (i < 10) USE_ALL(of_handles, user);
        pause_shortly();
    }
    EXPECT(uvhttp_deferred_aborted(user->deferred));
    USE_ALL(of_requests, user);
    USE_ALL(of_handles, user);
    USE_ALL(of_handles_afterwards, user);
    uvhttp_deferred_release(user->deferred);
    return NULL;
}

static uvhttp_deferred_t *take_deferred(void) {
    WAIT_UNTIL(atomic_load(&slot) != NULL);
    return atomic_exchange(&slot, NULL);
}

static void while_a_client_resets(serving_t *serving) {
    for (int i = 0; i < 50; i++) {
        user_t user = {0};
        pthread_t thread;
        int fd = ask(serving, HEAD("/x"), &user);
        user.deferred = take_deferred();
        int before = used;
        assert_int_equal(pthread_create(&thread, NULL, use_deferred, &user), 0);
        WAIT_UNTIL(used > before); /* it is at it */
        client_reset(fd);
        pthread_join(thread, NULL);
        assert_int_equal(wrong, 0);
    }
}

static void test_a_deferred_request_is_used_while_its_client_resets(void **state) {
    start(*state, defer, UVHTTP_EXEC_LOOP);
    while_a_client_resets(*state);
}

static void test_a_request_deferred_by_a_worker_is_used_while_its_client_resets(void **state) {
    start(*state, defer, UVHTTP_EXEC_WORKER);
    while_a_client_resets(*state);
}

/* Nobody has asked before the client is gone. */
static void test_what_is_asked_first_when_the_client_has_gone_is_known(void **state) {
    serving_t *serving = *state;
    user_t user = {0};
    start(serving, defer, UVHTTP_EXEC_LOOP);
    int fd = ask(serving, HEAD("/x"), &user);
    user.deferred = take_deferred();
    client_reset(fd);
    WAIT_UNTIL(uvhttp_deferred_aborted(user.deferred));
    user.req = uvhttp_deferred_request(user.deferred);
    USE_ALL(of_requests, &user);
    uvhttp_deferred_release(user.deferred);
    assert_int_equal(wrong, 0);
}

static void test_a_handle_is_used_after_its_server_is_gone(void **state) {
    serving_t *serving = *state;
    user_t user = {0};
    serving->config.drain_timeout = 1;
    start(serving, defer, UVHTTP_EXEC_LOOP);
    int fd = ask(serving, HEAD("/x"), &user);
    user.deferred = take_deferred();
    client_reset(fd);
    serving_stop(serving);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
    assert_true(uvhttp_deferred_aborted(user.deferred));
    user.req = uvhttp_deferred_request(user.deferred);
    USE_ALL(of_requests, &user);
    USE_ALL(of_handles, &user);
    USE_ALL(of_handles_afterwards, &user);
    uvhttp_deferred_release(user.deferred);
    assert_int_equal(wrong, 0);
}

/* --- worker threads and coroutines --- */

static _Atomic(user_t *) there; /* of the handler that runs */
static uvhttp_server_t *of_there;

static void use_as_handler(uvhttp_request_t *req, uvhttp_response_t *res) {
    user_t *user = atomic_load(&there);
    user->req = req;
    user->res = res;
    USE_ALL(of_requests, user);
    USE_ALL(of_responses, user);
    USE_ALL(of_requests, user);
}

static void work(uvhttp_request_t *req, uvhttp_response_t *res, void *arg) {
    (void)arg;
    user_t *user = atomic_load(&there);
    uint64_t gone = uvhttp_server_counter(of_there, "aborted");
    user->req = req;
    user->res = res;
    /* While the client goes: the loop closes the connection, but the exchange is this thread's. */
    atomic_store(&inside, true);
    for (int i = 0; i < 1000000 && uvhttp_server_counter(of_there, "aborted") == gone; i++) {
        USE_ALL(of_requests, user);
        pause_shortly();
    }
    use_as_handler(req, res);
    atomic_store(&there, NULL);
}

static void with_a_handler(serving_t *serving) {
    for (int i = 0; i < 50; i++) {
        user_t user = {0};
        atomic_store(&inside, false);
        int fd = connect_as(serving, &user);
        atomic_store(&there, &user);
        client_send_text(fd, HEAD("/x"));
        WAIT_UNTIL(atomic_load(&inside));
        client_reset(fd);
        WAIT_UNTIL(atomic_load(&there) == NULL);
        assert_int_equal(wrong, 0);
    }
}

static void test_a_worker_thread_uses_all_while_its_client_resets(void **state) {
    serving_t *serving = *state;
    start(serving, work, UVHTTP_EXEC_WORKER);
    of_there = serving->server;
    with_a_handler(serving);
}

#if UVHTTP_WITH_COROUTINES
static void wait_and_use(uvhttp_request_t *req, uvhttp_response_t *res, void *arg) {
    (void)arg;
    /* What a request shows of its connection is learnt when its coroutine first waits: the client may not go before. */
    (void)uvhttp_coro_sleep(1);
    atomic_store(&inside, true);
    while (uvhttp_coro_sleep(1) == UVHTTP_OK) continue;
    use_as_handler(req, res);
    atomic_store(&there, NULL);
}

static void test_a_coroutine_uses_all_after_its_client_has_reset(void **state) {
    start(*state, wait_and_use, UVHTTP_EXEC_COROUTINE);
    with_a_handler(*state);
}
#endif

/* --- memory of a deferred request --- */

static atomic_bool stop_headers;

static void *add_headers(void *arg) {
    char text[64];
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof text, "X-%d", i);
        EXPECT(uvhttp_deferred_header(arg, text, "0123456789012345678901234567890123456789") == UVHTTP_OK);
    }
    atomic_store(&stop_headers, true);
    return NULL;
}

/* Calls on a handle are executed on the loop, with memory of the response; a thread that reads the request meanwhile
 * uses other memory. */
static void test_reading_a_request_while_its_response_is_made_needs_no_lock(void **state) {
    serving_t *serving = *state;
    user_t user = {0};
    pthread_t thread;
    start(serving, defer, UVHTTP_EXEC_LOOP);
    int fd = ask(serving, HEAD("/x"), &user);
    user.deferred = take_deferred();
    user.req = uvhttp_deferred_request(user.deferred);
    atomic_store(&stop_headers, false);
    assert_int_equal(pthread_create(&thread, NULL, add_headers, user.deferred), 0);
    for (char *memory; !atomic_load(&stop_headers);) {
        memory = uvhttp_request_alloc(user.req, 64);
        assert_non_null(memory);
        memset(memory, 'x', 64);
        USE_ALL(of_requests, &user);
        pause_shortly();
    }
    pthread_join(thread, NULL);
    assert_int_equal(uvhttp_deferred_text(user.deferred, 200, "made"), UVHTTP_OK);
    uvhttp_deferred_release(user.deferred);
    const client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "made");
    assert_non_null(strstr(response->text, "X-0: 0123456789012345678901234567890123456789\r\n"));
    assert_non_null(strstr(response->text, "X-199: 0123456789012345678901234567890123456789\r\n"));
    close(fd);
    assert_int_equal(wrong, 0);
}

/* --- the limit of memory --- */

#define MEMORY_MAX 65536

static atomic_size_t handed_out;

static void take_all(uvhttp_request_t *req, uvhttp_response_t *res, void *arg) {
    (void)arg;
    size_t size = 0;
    while (uvhttp_request_alloc(req, 512)) size += 512;
    atomic_store(&handed_out, size);
    uvhttp_response_send_static(res, 200, NULL, "", 0);
}

/* A head in two pieces or a body in two makes the exchange own its head, as a deferred response does. */
static void test_the_memory_of_a_request_does_not_grow_with_the_requests_before_it(void **state) {
    serving_t *serving = *state;
    serving->config.request_memory_max = MEMORY_MAX;
    serving_make(serving);
    assert_non_null(uvhttp_route(serving->server, UVHTTP_POST, "/owned", take_all, NULL, UVHTTP_EXEC_LOOP));
    assert_non_null(uvhttp_route(serving->server, UVHTTP_POST, "/far", take_all, NULL, UVHTTP_EXEC_WORKER));
    assert_non_null(uvhttp_route(serving->server, UVHTTP_POST, "/defer", defer, NULL, UVHTTP_EXEC_LOOP));
    serving_start(serving);
    static char head[8192];
    memset(head, 'a', sizeof head - 1);
    for (int i = 0; i < 60; i++) {
        const char *path = i % 3 == 0 ? "/owned" : i % 3 == 1 ? "/far" : "/defer";
        int fd = client_connect(serving->port);
        char text[9000];
        snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: a\r\nX: %.*s\r\nContent-Length: 2\r\n\r\n", path, 8000,
                 head);
        client_send_text(fd, text);
        client_send_text(fd, "xy");
        if (i % 3 == 2) {
            uvhttp_deferred_t *deferred = take_deferred();
            size_t size = 0;
            while (uvhttp_request_alloc(uvhttp_deferred_request(deferred), 512)) size += 512;
            atomic_store(&handed_out, size);
            assert_int_equal(uvhttp_deferred_text(deferred, 200, ""), UVHTTP_OK);
            uvhttp_deferred_release(deferred);
        }
        client_read_last(fd, 200);
        assert_in_range(handed_out, MEMORY_MAX - 2048, MEMORY_MAX);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_public_function_is_in_a_table),
        ON_EACH(test_a_deferred_request_is_used_while_its_client_resets),
        ON_EACH(test_a_request_deferred_by_a_worker_is_used_while_its_client_resets),
        ON_EACH(test_what_is_asked_first_when_the_client_has_gone_is_known),
        ON_EACH(test_a_handle_is_used_after_its_server_is_gone),
        ON_EACH(test_a_worker_thread_uses_all_while_its_client_resets),
#if UVHTTP_WITH_COROUTINES
        ON_EACH(test_a_coroutine_uses_all_after_its_client_has_reset),
#endif
        ON_EACH(test_reading_a_request_while_its_response_is_made_needs_no_lock),
        ON_EACH(test_the_memory_of_a_request_does_not_grow_with_the_requests_before_it),
    };
    return RUN_TABLE(tests);
}
