/* Owns: tests that a request owns what it shows: each public function of requests, responses and deferred handles is
 * used where it may be used off the loop (a thread of the application, a worker thread) and in coroutines, while
 * clients reset their connections and after the server is gone. The names come from the headers: a function that is in
 * neither of the tables below fails the test. For ASan and TSan, but what is shown is compared, too. */
#include "exchange/off_loop_requests.h"

/* Responses: by the handler on a worker thread or in a coroutine, whose client has gone. */

static void nothing(uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
}
static void nothing_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status, (void)user;
}
static void response_stopping(user_t *user) {
    EXPECT(!uvhttp_response_stopping(user->res));
}
static void response_header(user_t *user) {
    EXPECT(uvhttp_response_header(user->res, "X-One", "1") == UVHTTP_OK);
}
static void response_header_add(user_t *user) {
    EXPECT(uvhttp_response_header_add(user->res, "X-Two", "2") == UVHTTP_OK);
}
static void response_header_str(user_t *user) {
    EXPECT(uvhttp_response_header_str(user->res, "X-One", (uvhttp_str_t){"123", 1}) == UVHTTP_OK);
}
static void response_header_add_str(user_t *user) {
    EXPECT(uvhttp_response_header_add_str(user->res, "X-Two", (uvhttp_str_t){"234", 1}) == UVHTTP_OK);
}
static void response_header_get(user_t *user) {
    (void)uvhttp_response_header_get(user->res, "X-One");
}
static void response_header_remove(user_t *user) {
    EXPECT(uvhttp_response_header_remove(user->res, "X-One") == UVHTTP_OK);
}
static void response_cookie(user_t *user) {
    if (uvhttp_response_cookie_sized)
        (void)uvhttp_response_cookie(user->res, &(uvhttp_cookie_options_t){.name = "a", .value = "b"});
}
static void response_text(user_t *user) {
    EXPECT(uvhttp_response_text(user->res, 200, "text") == UVHTTP_OK);
}
static void response_json(user_t *user) {
    EXPECT(uvhttp_response_json(user->res, 200, "{}") == UVHTTP_OK);
}
static void response_text_str(user_t *user) {
    EXPECT(uvhttp_response_text_str(user->res, 200, (uvhttp_str_t){"text", 2}) == UVHTTP_OK);
}
static void response_json_str(user_t *user) {
    EXPECT(uvhttp_response_json_str(user->res, 200, (uvhttp_str_t){"{}", 2}) == UVHTTP_OK);
}
static void response_send(user_t *user) {
    EXPECT(uvhttp_response_send(user->res, 200, "a/b", "x", 1) == UVHTTP_OK);
}
static void response_send_static(user_t *user) {
    EXPECT(uvhttp_response_send_static(user->res, 200, "a/b", "x", 1) == UVHTTP_OK);
}
static void response_send_ref(user_t *user) {
    EXPECT(uvhttp_response_send_ref(user->res, 200, "a/b", "x", 1, NULL, NULL) == UVHTTP_OK);
}
static void response_send_shared_body(user_t *user) {
    uvhttp_shared_body_t *content;
    if (uvhttp_shared_body_new("x", 1, &content) != UVHTTP_OK) abort();
    EXPECT(uvhttp_response_send_shared_body(user->res, 200, "a/b", content) == UVHTTP_OK);
    uvhttp_shared_body_release(content);
}
static void response_send_fd(user_t *user) {
    EXPECT(uvhttp_response_send_fd(user->res, 200, "a/b", -1, 0, 0) == UVHTTP_E_INVALID);
}
static void response_send_file(user_t *user) {
    EXPECT(uvhttp_response_send_file(user->res, 200, "a/b", "/nowhere") == UVHTTP_E_NOT_FOUND);
}
static void response_empty(user_t *user) {
    EXPECT(uvhttp_response_empty(user->res, 204) == UVHTTP_OK);
}
static void response_redirect(user_t *user) {
    EXPECT(uvhttp_response_redirect(user->res, 302, "/") == UVHTTP_OK);
}
static void response_redirect_str(user_t *user) {
    EXPECT(uvhttp_response_redirect_str(user->res, 302, (uvhttp_str_t){"/abc", 1}) == UVHTTP_OK);
}
static void response_status(user_t *user) {
    EXPECT(uvhttp_response_status(user->res) == 302);
}
static void response_set_status(user_t *user) {
    EXPECT(uvhttp_response_set_status(user->res, 303) == UVHTTP_OK);
}
static void response_request(user_t *user) {
    EXPECT(uvhttp_response_request(user->res) == user->req);
}
static void response_close(user_t *user) {
    uvhttp_response_close(user->res);
}
static void response_on_finish(user_t *user) {
    EXPECT(uvhttp_response_on_finish(user->res, nothing, NULL) == UVHTTP_OK);
}
static void response_on_done(user_t *user) {
    EXPECT(uvhttp_response_on_done(user->res, nothing_done, NULL) == UVHTTP_OK);
}
static void response_upgrade(user_t *user) {
    EXPECT(uvhttp_response_upgrade(user->res, "p", NULL, NULL) == UVHTTP_E_INVALID);
}
static const uvhttp_response_field_t link_field = {"Link", "</a.css>; rel=preload"};
static void response_interim(user_t *user) {
    EXPECT(uvhttp_response_interim(user->res, 103, &link_field, 1) == UVHTTP_E_ABORTED);
}
static void response_begin(user_t *user) {
    EXPECT(uvhttp_response_begin(user->res, 200, "a/b", UVHTTP_SIZE_UNKNOWN) == UVHTTP_E_ABORTED);
}
static void response_write(user_t *user) {
    int status = uvhttp_response_write(user->res, "x", 1);
    EXPECT(status == UVHTTP_E_STATE || status == UVHTTP_E_ABORTED);
}
static void response_trailer(user_t *user) {
    int status = uvhttp_response_trailer(user->res, "T", "t");
    EXPECT(status == UVHTTP_E_STATE || status == UVHTTP_E_ABORTED);
}
static void response_trailer_str(user_t *user) {
    int status = uvhttp_response_trailer_str(user->res, "T", (uvhttp_str_t){"t", 1});
    EXPECT(status == UVHTTP_E_STATE || status == UVHTTP_E_ABORTED);
}
static void response_end(user_t *user) {
    int status = uvhttp_response_end(user->res);
    EXPECT(status == UVHTTP_E_STATE || status == UVHTTP_E_ABORTED);
}
/* The response was begun: it is too late. That it works, the routes of the application's thread show. */
static void response_defer(user_t *user) {
    EXPECT(uvhttp_response_defer(user->res) == NULL);
}

/* Handles: by any thread. The client goes, or has gone. */

static bool gone_or(int status, int otherwise) {
    return status == UVHTTP_E_ABORTED || status == otherwise;
}
static void run_nothing(uvhttp_response_t *res, void *user) {
    (void)user;
    if (res) (void)uvhttp_response_header(res, "X-Run", "yes");
}
static uvhttp_flow_t go_nowhere(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_STOP;
}
static void deferred_header(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_header(user->deferred, "X-Afar", "yes"), UVHTTP_OK));
}
static void deferred_header_str(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_header_str(user->deferred, "X-Afar", (uvhttp_str_t){"yes", 1}), UVHTTP_OK));
}
static void deferred_interim(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_interim(user->deferred, 103, &link_field, 1), UVHTTP_OK));
}
static void deferred_run(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_run(user->deferred, run_nothing, NULL), UVHTTP_OK));
}
static void deferred_on_stop(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_on_stop(user->deferred, run_nothing, NULL), UVHTTP_OK));
}
static void deferred_aborted(user_t *user) {
    (void)uvhttp_deferred_aborted(user->deferred);
}
static void deferred_request(user_t *user) {
    EXPECT(uvhttp_deferred_request(user->deferred) == user->req);
}
static void deferred_retain(user_t *user) {
    uvhttp_deferred_retain(user->deferred);
}
static void deferred_release(user_t *user) {
    uvhttp_deferred_release(user->deferred); /* of deferred_retain */
}
static void deferred_pause_body(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_pause_body(user->deferred), UVHTTP_OK));
}
static void deferred_resume_body(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_resume_body(user->deferred), UVHTTP_OK));
}

/* Those that respond: when the client has gone. */
static void deferred_text(user_t *user) {
    EXPECT(uvhttp_deferred_text(user->deferred, 200, "") == UVHTTP_E_ABORTED);
}
static void deferred_json(user_t *user) {
    EXPECT(uvhttp_deferred_json(user->deferred, 200, "{}") == UVHTTP_E_ABORTED);
}
static void deferred_send(user_t *user) {
    EXPECT(uvhttp_deferred_send(user->deferred, 200, NULL, "x", 1) == UVHTTP_E_ABORTED);
}
static void deferred_send_ref(user_t *user) {
    EXPECT(uvhttp_deferred_send_ref(user->deferred, 200, NULL, "x", 1, NULL, NULL) == UVHTTP_E_ABORTED);
}
static void deferred_next(user_t *user) {
    EXPECT(uvhttp_deferred_next(user->deferred, go_nowhere, NULL) == UVHTTP_E_ABORTED);
}

typedef struct entry {
    const char *name;
    void (*use)(user_t *user);
} entry_t;
#define USE(function)                                                                                                  \
    { "uvhttp_" #function, function }

static const entry_t of_requests[] = {
    USE(request_method),       USE(request_method_text),    USE(request_target),        USE(request_path),
    USE(request_query),        USE(request_query_param),    USE(request_query_at),      USE(request_param),
    USE(request_header),       USE(request_header_at),      USE(request_header_count),  USE(request_header_next),
    USE(request_host),         USE(request_http_version),   USE(request_body),          USE(request_peer),
    USE(request_peer_address), USE(request_client),         USE(request_client_scheme), USE(request_client_host),
    USE(request_is_tls),       USE(request_client_subject), USE(request_time_ns),       USE(request_data),
    USE(request_set_data),     USE(request_alloc),          USE(request_trailer),       USE(request_trailer_at),
    USE(request_cookie),       USE(request_cookie_at),      USE(request_form),          USE(request_id_get),
    USE(request_trace),        USE(request_trace_text),     USE(request_trace_int),     USE(request_trace_double),
    USE(request_trace_bool),   USE(request_trace_event),    USE(request_on_body),       USE(request_on_multipart),
    USE(request_pause_body),   USE(request_resume_body),    USE(request_read_body),     USE(request_save_body),
    USE(request_save_form),
};
/* In this order: begin locks what is before it. */
static const entry_t of_responses[] = {
    USE(response_stopping),       USE(response_header),
    USE(response_header_add),     USE(response_header_str),
    USE(response_header_add_str), USE(response_header_get),
    USE(response_header_remove),  USE(response_cookie),
    USE(response_text),           USE(response_json),
    USE(response_text_str),       USE(response_json_str),
    USE(response_send),           USE(response_send_static),
    USE(response_send_ref),       USE(response_send_shared_body),
    USE(response_send_fd),        USE(response_send_file),
    USE(response_empty),          USE(response_redirect),
    USE(response_redirect_str),   USE(response_status),
    USE(response_set_status),     USE(response_request),
    USE(response_close),          USE(response_on_finish),
    USE(response_on_done),        USE(response_upgrade),
    USE(response_interim),        USE(response_begin),
    USE(response_write),          USE(response_trailer),
    USE(response_trailer_str),    USE(response_end),
    USE(response_defer),
};
static const entry_t of_handles[] = {
    USE(deferred_on_stop), USE(deferred_header),     USE(deferred_header_str),  USE(deferred_interim),
    USE(deferred_run),     USE(deferred_aborted),    USE(deferred_request),     USE(deferred_retain),
    USE(deferred_release), USE(deferred_pause_body), USE(deferred_resume_body),
};
static const entry_t of_handles_afterwards[] = {
    USE(deferred_text), USE(deferred_json), USE(deferred_send), USE(deferred_send_ref), USE(deferred_next),
};
/* Not for a thread that is not the loop's. */
static const entry_t on_loop_only[] = {
    {"uvhttp_deferred_on_abort", NULL}, /* right after defer, in the handler */
    {"uvhttp_deferred_on_drain", NULL}, /* the same */
    {"uvhttp_request_id", NULL},        /* a middleware, which is made before the server runs */
};

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

static bool listed(const entry_t *table, size_t count, const char *text, size_t size) {
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i].name) == size && memcmp(table[i].name, text, size) == 0) return true;
    return false;
}
#define LISTED(table, text, size) listed((table), COUNT(table), (text), (size))

static int check_functions(const char *text, const char *prefix, const char *file) {
    int found = 0;
    for (const char *at = text; (at = strstr(at, prefix)); at += strlen(prefix)) {
        size_t size = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (at[size] != '(') continue; /* a type, or named in a comment */
        found++;
        if (size > 6 && strncmp(at + size - 6, "_sized", 6) == 0) size -= 6; /* what the function without it calls */
        if (LISTED(of_requests, at, size) || LISTED(of_responses, at, size) || LISTED(of_handles, at, size) ||
            LISTED(of_handles_afterwards, at, size) || LISTED(on_loop_only, at, size))
            continue;
        fail_msg("%s: %.*s is in no table of %s: how is it used off the loop?", file, (int)size, at, __FILE__);
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
    const client_response_t *answer = client_read(fd);
    assert_int_equal(answer->status, 200);
    assert_string_equal(answer->body, "made");
    assert_non_null(strstr(answer->text, "X-0: 0123456789012345678901234567890123456789\r\n"));
    assert_non_null(strstr(answer->text, "X-199: 0123456789012345678901234567890123456789\r\n"));
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
