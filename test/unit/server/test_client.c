/* Owns: tests of requests to other servers that a handler on the loop sends: the test's thread is that server, too. */
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/un.h>

#include "support/http_server.h"

/* --- the handler: asks what the test has set, and responds with what has come --- */

static uvhttp_client_request_t asking; /* under the lock: that a socket orders the threads is not seen by TSan */
static pthread_mutex_t asking_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int ends, aborts;

static void ask_for(const uvhttp_client_request_t *request) {
    pthread_mutex_lock(&asking_lock);
    asking = *request;
    pthread_mutex_unlock(&asking_lock);
}

typedef struct asked {
    uvhttp_deferred_t *deferred;
    uvhttp_client_response_t *response;
} asked_t;

static void respond_with(const asked_t *asked, int status) {
    if (status != UVHTTP_OK) {
        uvhttp_deferred_text(asked->deferred, uvhttp_error_http_status(status), uvhttp_error_name(status));
        return;
    }
    char text[256], names[64] = "";
    uvhttp_str_t name, value, marked = uvhttp_client_response_header(asked->response, "x-mark");
    uvhttp_str_t body = uvhttp_client_response_body(asked->response);
    if (body.data[body.size] != '\0') abort();
    for (size_t i = 0; uvhttp_client_response_header_at(asked->response, i, &name, &value); i++)
        if (strlen(names) + name.size < sizeof names) strncat(names, name.data, name.size);
    /* In any order: the place that the response remembers is not the only way in. */
    if (uvhttp_client_response_header_at(asked->response, 1, &name, &value)) {
        uvhttp_str_t second = name;
        if (!uvhttp_client_response_header_at(asked->response, 0, &name, &value) || name.data >= second.data) abort();
        if (!uvhttp_client_response_header_at(asked->response, 1, &name, &value) || name.data != second.data) abort();
    }
    snprintf(text, sizeof text, "%d %.*s %s %zu %.60s", uvhttp_client_response_status(asked->response),
             (int)marked.size, marked.data ? marked.data : "", names, body.size, body.data);
    uvhttp_deferred_text(asked->deferred, 200, text);
}

static void on_done(uvhttp_client_response_t *response, int status, void *user) {
    asked_t *asked = user;
    if (response != asked->response) abort();
    ends++;
    respond_with(asked, status);
    uvhttp_client_response_free(response);
    uvhttp_deferred_release(asked->deferred);
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    asked_t *asked = user;
    aborts++;
    uvhttp_client_response_free(asked->response);
    uvhttp_deferred_release(deferred);
}

static void ask(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    asked_t *asked = uvhttp_request_alloc(req, sizeof *asked);
    asked->deferred = uvhttp_response_defer(res);
    pthread_mutex_lock(&asking_lock);
    int status = uvhttp_client_send(&asking, on_done, asked, &asked->response);
    pthread_mutex_unlock(&asking_lock);
    if (status != UVHTTP_OK) {
        if (asked->response) abort();
        respond_with(asked, status);
        uvhttp_deferred_release(asked->deferred);
        return;
    }
    uvhttp_deferred_on_abort(asked->deferred, on_abort, asked);
}

/* --- the other server, and what is sent to it --- */

static char url[128];
static atomic_int other_port; /* network order */

static int other_listen(void) {
    struct sockaddr_in address;
    int fd = loopback_listener(8, &address);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/x", ntohs(address.sin_port));
    other_port = address.sin_port;
    struct timeval limit = {.tv_sec = LIMIT_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

enum { WHEN_ENDED = -1 };

static atomic_int send_failure;         /* errno of the next failure; 0: none */
static atomic_int sends_before_failure; /* WHEN_ENDED: the first; the second one waits for the other server's FIN */
static atomic_bool first_was_sent;

static bool send_fails(int fd) {
    struct sockaddr_in peer = {0};
    if (!send_failure || getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) != 0) return false;
    if (peer.sin_port != other_port) return false;
    if (sends_before_failure == WHEN_ENDED)
        return atomic_exchange(&first_was_sent, true) &&
               poll(&(struct pollfd){.fd = fd, .events = POLLRDHUP}, 1, TIMEOUT_MS) == 1;
    return atomic_fetch_sub(&sends_before_failure, 1) == 0;
}

/* What the client sends without looking for a response, which it does in each iteration. */
static atomic_int send_piece_max; /* bytes that a call accepts; 0: as many as there is space for */
static atomic_int sends, sends_most;
static atomic_size_t send_largest; /* bytes of a call */

static bool is_other(int fd) {
    struct sockaddr_in peer = {0};
    return other_port && getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) == 0 &&
           peer.sin_port == other_port;
}

/* The program's own in place of the C library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    static ssize_t (*_Atomic real)(int fd, const struct msghdr *message, int flags);
    if (!real) real = (ssize_t(*)(int, const struct msghdr *, int))(uintptr_t)dlsym(RTLD_NEXT, "sendmsg");
    if (send_fails(fd)) {
        errno = atomic_exchange(&send_failure, 0);
        return -1;
    }
    if (!send_piece_max || !is_other(fd)) return real(fd, message, flags);
    size_t size = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) size += message->msg_iov[i].iov_len;
    if (size > send_largest) send_largest = size;
    if (++sends > sends_most) sends_most = sends;
    struct iovec piece = message->msg_iov[0];
    if (piece.iov_len > (size_t)send_piece_max) piece.iov_len = (size_t)send_piece_max;
    return real(fd, &(struct msghdr){.msg_iov = &piece, .msg_iovlen = 1}, flags);
}

ssize_t recv(int fd, void *data, size_t size, int flags) {
    static ssize_t (*_Atomic real)(int fd, void *data, size_t size, int flags);
    if (!real) real = (ssize_t(*)(int, void *, size_t, int))(uintptr_t)dlsym(RTLD_NEXT, "recv");
    if (send_piece_max && is_other(fd)) sends = 0;
    return real(fd, data, size, flags);
}

static void fail_send(int error, int sends_before) {
    sends_before_failure = sends_before;
    first_was_sent = false;
    send_failure = error;
}

static atomic_bool unsupported_first;

/* The C library's, with an address in front whose family this kernel has no sockets for: AF_INET6 may be switched off,
 * or forbidden by a sandbox. */
int getaddrinfo(const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    static int (*_Atomic real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!real)
        real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))(uintptr_t)dlsym(
            RTLD_NEXT, "getaddrinfo");
    int status = real(name, port, hints, found);
    struct addrinfo *first = status == 0 && unsupported_first ? calloc(1, sizeof *first) : NULL;
    if (!first) return status;
    static struct sockaddr without = {.sa_family = AF_MAX};
    *first = (struct addrinfo){.ai_family = AF_MAX, .ai_addr = &without, .ai_addrlen = sizeof without};
    first->ai_next = *found;
    *found = first;
    return 0;
}

/* A wait with a time limit may be interrupted, as client_receive says. */
static int other_accept(int listener) {
    int fd;
    do {
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    assert_true(fd >= 0);
    return fd;
}

/* Whether the whole head has come. */
static bool read_head(int fd, char *head, size_t max) {
    size_t size = 0;
    head[0] = '\0';
    while (!strstr(head, "\r\n\r\n")) {
        assert_true(size + 1 < max);
        if (client_receive_some(fd, head + size, 1) != 1) return false;
        head[++size] = '\0';
    }
    return true;
}

static int other_asked(int listener, char *head, size_t max) {
    int fd = other_accept(listener);
    assert_true(read_head(fd, head, max));
    return fd;
}

static void begin(serving_t *serving) {
    ends = aborts = 0;
    ask_for(&(uvhttp_client_request_t){.url = url, .timeout_ms = LIMIT_SECONDS * 1000});
    serving_make(serving);
    assert_non_null(uvhttp_route(serving->server, UVHTTP_GET, "/ask", ask, NULL, UVHTTP_EXEC_LOOP));
    serving_start(serving);
}

/* What the handler responds when the other server responds with `text`, in one piece or byte by byte, and closes. */
static const char *respond_to(serving_t *serving, int listener, const char *text, bool bytes) {
    char head[1024];
    int client = client_ask(serving, GET("/ask"));
    int fd = other_asked(listener, head, sizeof head);
    setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){1}, sizeof(int));
    size_t size = strlen(text), step = bytes ? 1 : size;
    for (size_t at = 0; at < size; at += step)
        if (send(fd, text + at, step, MSG_NOSIGNAL) < 0) break;
    close(fd);
    client_response_t *response = client_read(client);
    close(client);
    return response->body;
}

/* --- tests --- */

typedef struct vector {
    const char *method, *text, *expected;
} vector_t;

static void expect_vectors(serving_t *serving, const vector_t *vectors, size_t count) {
    int listener = other_listen();
    begin(serving);
    for (size_t i = 0; i < count; i++) {
        for (int bytes = 0; bytes < 2; bytes++) {
            print_message("%.*s\n", (int)strcspn(vectors[i].text, "\r"), vectors[i].text);
            ask_for(&(uvhttp_client_request_t){.url = url, .method = vectors[i].method});
            assert_string_equal(respond_to(serving, listener, vectors[i].text, bytes), vectors[i].expected);
        }
    }
    assert_int_equal(uvhttp_server_counter(serving->server, "client_requests"), 2 * count);
    close(listener);
}

static void close_all(int fd, int client, int listener) {
    close(fd);
    close(client);
    close(listener);
}

static void test_responses_of_every_framing_are_read(void **state) {
    static const vector_t vectors[] = {
        {NULL, "HTTP/1.1 200 OK\r\nX-Mark: m\r\nContent-Length: 5\r\n\r\nhello", "200 m X-MarkContent-Length 5 hello"},
        {NULL, "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n",
         "404  Transfer-Encoding 6 hello!"},
        {NULL, "HTTP/1.0 200 OK\r\n\r\nuntil the end", "200   13 until the end"},
        {NULL, "HTTP/1.1 200 OK\r\n\r\n", "200   0 "},
        {NULL, "HTTP/1.1 204 No Content\r\n\r\n", "204   0 "},
        {NULL, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "304  Content-Length 0 "},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n", "200  Content-Length 0 "},
        {NULL, "HTTP/1.1 103 Early Hints\r\nX-Mark: no\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
         "200  Content-Length 1 x"},
    };
    expect_vectors(*state, vectors, sizeof vectors / sizeof *vectors);
}

static void test_what_is_no_response_is_refused(void **state) {
    static const vector_t vectors[] = {
        {NULL, "", "UVHTTP_E_PEER_RESET"},
        {NULL, "HTTP/1.1 200 OK\r\nContent-Le", "UVHTTP_E_PEER_RESET"},
        {NULL, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "UVHTTP_E_PEER_RESET"},
        {NULL, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "UVHTTP_E_PEER_RESET"},
        {NULL, "SSH-2.0-x\r\n", "UVHTTP_E_PEER_RESPONSE"},
        {NULL, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy", "UVHTTP_E_PEER_RESPONSE"},
        {NULL, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "UVHTTP_E_PEER_RESPONSE"},
        {NULL, "HTTP/1.1 101 Switching Protocols\r\n\r\n", "UVHTTP_E_PEER_RESPONSE"},
        {NULL, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
         "UVHTTP_E_PEER_RESPONSE"},
        {NULL, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", "UVHTTP_E_PEER_RESPONSE"},
        {NULL, "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", "UVHTTP_E_PEER_RESPONSE"},
    };
    serving_t *serving = *state;
    size_t count = sizeof vectors / sizeof *vectors;
    expect_vectors(serving, vectors, count);
    assert_int_equal(uvhttp_server_counter(serving->server, "client_failed"), 2 * count);
}

static void test_a_response_has_limits(void **state) {
    static char text[4096];
    static const char *const heads[] = {"HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"};
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    ask_for(&(uvhttp_client_request_t){.url = url, .response_size_max = 1000, .head_size_max = 128});
    for (size_t i = 0; i < 2; i++) {
        for (size_t size = 1000; size <= 1001; size++) {
            int head = snprintf(text, sizeof text, heads[i], size);
            memset(text + head, 'b', size);
            text[(size_t)head + size] = '\0';
            const char *response = respond_to(serving, listener, text, false);
            assert_memory_equal(response, size == 1000 ? "200 " : "UVHTTP_E_PEER_TOO_LARGE", 4);
        }
    }
    for (size_t size = 128; size <= 129; size++) {
        int begun = snprintf(text, sizeof text, "HTTP/1.1 204 No Content\r\nX: ");
        memset(text + begun, 'h', size);
        memcpy(text + size - 4, "\r\n\r\n", 5);
        const char *response = respond_to(serving, listener, text, false);
        assert_memory_equal(response, size == 128 ? "204 " : "UVHTTP_E_PEER_TOO_LARGE", 4);
    }
    close(listener);
}

static void test_interim_responses_have_a_limit(void **state) {
    static const char interim[] = "HTTP/1.1 103 Early Hints\r\n\r\n";
    static const char final[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    static char text[64 * sizeof interim + sizeof final];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    for (uint32_t max = 0; max <= 3; max += 3) { /* 0: the default */
        uint32_t most = max ? max : 16;
        ask_for(&(uvhttp_client_request_t){.url = url, .interim_max = max});
        for (uint32_t count = most; count <= most + 1; count++) {
            text[0] = '\0';
            for (uint32_t i = 0; i < count; i++) strcat(text, interim);
            strcat(text, final);
            const char *expected = count == most ? "200  Content-Length 2 ok" : "UVHTTP_E_PEER_INTERIM";
            assert_string_equal(respond_to(serving, listener, text, false), expected);
            assert_string_equal(respond_to(serving, listener, text, true), expected);
        }
    }
    assert_int_equal(uvhttp_server_counter(serving->server, "rejected_peer_interim"), 4);
    close(listener);
}

static void test_a_request_goes_out_whole(void **state) {
    static const uvhttp_client_header_t headers[] = {{"X-One", "1"}};
    static char body[4 * 1024 * 1024], head[1024], piece[65536];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    memset(body, 'b', sizeof body);
    ask_for(&(uvhttp_client_request_t){
        .url = url, .method = "PUT", .headers = headers, .header_count = 1, .body = body, .body_size = sizeof body});
    int client = client_ask(serving, GET("/ask"));
    int fd = other_asked(listener, head, sizeof head);
    assert_memory_equal(head, "PUT /x HTTP/1.1\r\nHost: 127.0.0.1:", 33);
    assert_non_null(strstr(head, "\r\nX-One: 1\r\nContent-Length: 4194304\r\nConnection: close\r\n\r\n"));
    for (size_t sum = 0; sum < sizeof body;) {
        ssize_t got = client_receive_some(fd, piece, sizeof piece);
        assert_true(got > 0);
        assert_memory_equal(piece, body + sum, (size_t)got);
        sum += (size_t)got;
    }
    client_send_text(fd, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    assert_string_equal(client_read(client)->body, "201  Content-Length 0 ");
    close(fd);
    /* A server that responds before it has read all, and closes. */
    close(client);
    client = client_ask(serving, GET("/ask"));
    fd = other_asked(listener, head, sizeof head);
    client_send_text(fd, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
    assert_string_equal(client_read(client)->body, "413  Content-Length 2 no");
    close_all(fd, client, listener);
}

/* send(2), tcp(7). The server does not respond: it waits for the rest. */
static void test_a_send_that_fails_ends_the_request(void **state) {
    static const struct {
        int error;
        const char *response;
    } cases[] = {
        {EPIPE, "UVHTTP_E_PEER_RESET"}, {ECONNRESET, "UVHTTP_E_PEER_RESET"}, {ETIMEDOUT, "UVHTTP_E_PEER_RESET"},
        {ENOBUFS, "UVHTTP_E_NOMEM"},    {ENOMEM, "UVHTTP_E_NOMEM"},          {EACCES, "UVHTTP_E_IO"},
        {EHOSTUNREACH, "UVHTTP_E_IO"},  {EMSGSIZE, "UVHTTP_E_IO"},           {ENOTCONN, "UVHTTP_E_IO"},
    };
    static char body[8 * 1024 * 1024], head[1024]; /* the socket does not accept it at once */
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    ask_for(&(uvhttp_client_request_t){
        .url = url, .method = "PUT", .body = body, .body_size = sizeof body, .timeout_ms = UVHTTP_NEVER});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int sent = 0; sent < 2; sent++) {
            fail_send(cases[i].error, sent);
            int client = client_ask(serving, GET("/ask"));
            int fd = other_accept(listener);
            if (sent) assert_true(read_head(fd, head, sizeof head));
            assert_string_equal(client_read(client)->body, cases[i].response);
            close(fd);
            close(client);
        }
    }
    assert_int_equal(uvhttp_server_counter(serving->server, "client_failed"), 2 * sizeof cases / sizeof *cases);
    close(listener);
}

/* A server that reads as fast as the client sends must not occupy the loop until all of a large body has been sent. */
static void test_a_large_body_leaves_others_their_share(void **state) {
    static char body[1024 * 1024], head[1024];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    ask_for(&(uvhttp_client_request_t){
        .url = url, .method = "PUT", .body = body, .body_size = sizeof body, .timeout_ms = LIMIT_SECONDS * 1000});
    sends = sends_most = 0;
    send_largest = 0;
    send_piece_max = 8192;
    int client = client_ask(serving, GET("/ask"));
    int fd = other_asked(listener, head, sizeof head);
    char *received = malloc(sizeof body);
    for (size_t size = 0; size < sizeof body;) {
        ssize_t got = client_receive_some(fd, received, sizeof body - size);
        assert_true(got > 0);
        size += (size_t)got;
    }
    free(received);
    send_piece_max = 0;
    client_send_text(fd, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_string_equal(client_read(client)->body, "204   0 ");
    assert_in_range(sends_most, 1, 8); /* when it has connected, and in the iteration after that */
    assert_in_range(send_largest, 1, 257 * 1024);
    close_all(fd, client, listener);
}

static void test_a_send_that_is_interrupted_or_would_block_is_tried_again(void **state) {
    static const int errors[] = {EINTR, EAGAIN};
    char head[1024];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        fail_send(errors[i], 0);
        int client = client_ask(serving, GET("/ask"));
        int fd = other_asked(listener, head, sizeof head);
        client_send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert_string_equal(client_read(client)->body, "200  Content-Length 2 ok");
        assert_int_equal(send_failure, 0);
        close(fd);
        close(client);
    }
    close(listener);
}

/* What has come before the failure counts. A reset that the send has reported leaves an end of the stream, which is no
 * end of a response. */
static void test_a_response_that_came_before_a_send_fails_counts(void **state) {
    static const struct {
        int error;
        const char *sent, *response;
    } cases[] = {
        {EPIPE, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", "413  Content-Length 2 no"},
        {ECONNRESET, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", "413  Content-Length 2 no"},
        {ENOBUFS, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", "413  Content-Length 2 no"},
        {EPIPE, "HTTP/1.1 413 Too Large\r\n\r\nno", "413   2 no"},
        {ECONNRESET, "HTTP/1.1 413 Too Large\r\n\r\nno", "UVHTTP_E_PEER_RESET"},
        {EPIPE, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno", "UVHTTP_E_PEER_RESET"},
    };
    static char body[8 * 1024 * 1024], head[1024];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    ask_for(&(uvhttp_client_request_t){
        .url = url, .method = "PUT", .body = body, .body_size = sizeof body, .timeout_ms = UVHTTP_NEVER});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fail_send(cases[i].error, WHEN_ENDED);
        int client = client_ask(serving, GET("/ask"));
        int fd = other_asked(listener, head, sizeof head);
        setsockopt(fd, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int)); /* response and FIN come together */
        client_send_text(fd, cases[i].sent);
        shutdown(fd, SHUT_WR);
        assert_string_equal(client_read(client)->body, cases[i].response);
        assert_int_equal(send_failure, 0);
        close(fd);
        close(client);
    }
    close(listener);
}

/* A busy machine may be over it before the head has come, or what is sent then: the outcome is the same. */
static void test_a_deadline_holds_for_all_of_it(void **state) {
    static const char *const begun[] = {"", "HTTP/1.1 200 OK\r\nConte", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nb",
                                        "HTTP/1.1 100 Continue\r\n\r\n"};
    char head[1024];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    ask_for(&(uvhttp_client_request_t){.url = url, .timeout_ms = 30});
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        int client = client_ask(serving, GET("/ask"));
        int fd = other_accept(listener);
        if (read_head(fd, head, sizeof head)) (void)send(fd, begun[i], strlen(begun[i]), MSG_NOSIGNAL);
        assert_string_equal(client_read(client)->body, "UVHTTP_E_TIMEOUT");
        client_expect_end(fd);
        close(fd);
        close(client);
    }
    close(listener);
}

static void test_what_can_be_said_at_once_is(void **state) {
    static const struct {
        uvhttp_client_request_t request;
        const char *expected;
    } cases[] = {
        {{.url = NULL}, "UVHTTP_E_INVALID"},
        {{.url = "https://127.0.0.1/"}, "UVHTTP_E_UNSUPPORTED"},
        {{.url = "127.0.0.1/"}, "UVHTTP_E_ADDRESS"},
        {{.url = "http://*:1/"}, "UVHTTP_E_ADDRESS"},
        {{.url = "http://a%20b/"}, "UVHTTP_E_ADDRESS"},
        {{.url = "http://127.0.0.1:1/", .method = "A B"}, "UVHTTP_E_INVALID"},
        {{.url = "http://127.0.0.1:1/", .head_size_max = 63}, "UVHTTP_E_INVALID"},
        {{.url = "http://127.0.0.1:1/", .head_size_max = 16 * 1024 * 1024 + 1}, "UVHTTP_E_INVALID"},
        {{.url = "http://unix:/nowhere/at/all"}, "UVHTTP_E_CLIENT_UNIX_URL"},
        {{.url = "http://a/", .unix_socket = "nowhere"}, "UVHTTP_E_INVALID"},
        {{.url = "http://a/", .unix_socket = "/nowhere/at/all"}, "UVHTTP_E_PEER_UNREACHABLE"},
        {{.url = "http://" NO_NAME "/"}, "UVHTTP_E_PEER_NAME"},
    };
    serving_t *serving = *state;
    begin(serving);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask_for(&cases[i].request);
        int client = client_ask(serving, GET("/ask"));
        assert_string_equal(client_read(client)->body, cases[i].expected);
        close(client);
    }
    uvhttp_client_response_t *response;
    assert_int_equal(uvhttp_client_send(&cases[1].request, on_done, NULL, &response), UVHTTP_E_STATE);
    assert_null(response);
    uvhttp_client_response_free(NULL);
}

static void test_a_name_has_all_its_addresses_tried(void **state) {
    char head[1024], name[64];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    snprintf(name, sizeof name, "http://127.1%s", strrchr(url, ':')); /* getaddrinfo's way to write it */
    ask_for(&(uvhttp_client_request_t){.url = name});
    int client = client_ask(serving, GET("/ask"));
    int fd = other_asked(listener, head, sizeof head);
    assert_non_null(strstr(head, "\r\nHost: 127.1:"));
    client_send_text(fd, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_string_equal(client_read(client)->body, "204   0 ");
    close_all(fd, client, listener);
    client = client_ask(serving, GET("/ask")); /* nobody listens there any more */
    assert_string_equal(client_read(client)->body, "UVHTTP_E_PEER_UNREACHABLE");
    close(client);
}

static void test_an_address_of_a_family_without_sockets_is_passed_over(void **state) {
    char head[1024], name[64];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    snprintf(name, sizeof name, "http://127.1%s", strrchr(url, ':'));
    ask_for(&(uvhttp_client_request_t){.url = name});
    unsupported_first = true;
    int client = client_ask(serving, GET("/ask"));
    int fd = other_asked(listener, head, sizeof head);
    unsupported_first = false;
    client_send_text(fd, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_string_equal(client_read(client)->body, "204   0 ");
    close_all(fd, client, listener);
}

static void test_a_unix_socket_is_asked(void **state) {
    char head[1024], name[64], at[128];
    serving_t *serving = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "uvhttp-test-client-%d", (int)getpid());
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address.sun_path + 1));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    begin(serving);
    /* A url alone does not lead there. */
    snprintf(at, sizeof at, "http://unix:@%s:/there?x", address.sun_path + 1);
    ask_for(&(uvhttp_client_request_t){.url = at});
    int client = client_ask(serving, GET("/ask"));
    assert_string_equal(client_read(client)->body, "UVHTTP_E_CLIENT_UNIX_URL");
    close(client);
    snprintf(name, sizeof name, "@%s", address.sun_path + 1);
    ask_for(&(uvhttp_client_request_t){.url = "http://app.internal/there?x", .unix_socket = name});
    client = client_ask(serving, GET("/ask"));
    int fd = other_asked(listener, head, sizeof head);
    assert_memory_equal(head, "GET /there?x HTTP/1.1\r\nHost: app.internal\r\n", 43);
    client_send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_string_equal(client_read(client)->body, "200  Content-Length 2 ok");
    close_all(fd, client, listener);
}

/* "unix:80" is host and port of the url "http://unix/"; as the address of a listener it is a socket of the current
 * directory. */
static void test_a_host_called_unix_is_a_name(void **state) {
    serving_t *serving = *state;
    char before[4096], directory[] = "/tmp/uvhttp-test-client-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "80"};
    assert_non_null(getcwd(before, sizeof before));
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    begin(serving);
    static const char *const urls[] = {"http://unix/", "http://unix:80/", "http://UNIX:/x"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        ask_for(&(uvhttp_client_request_t){.url = urls[i], .timeout_ms = 500}); /* whatever a resolver makes of it */
        int client = client_ask(serving, GET("/ask"));
        const char *body = client_read(client)->body;
        assert_memory_equal(body, "UVHTTP_E_", 9);
        assert_int_equal(accept(listener, NULL, NULL), -1);
        assert_int_equal(errno, EAGAIN);
        close(client);
    }
    close(listener);
    assert_int_equal(unlink("80"), 0);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void test_a_client_that_goes_gives_the_request_up(void **state) {
    char head[1024];
    serving_t *serving = *state;
    int listener = other_listen();
    begin(serving);
    for (int i = 0; i < 3; i++) {
        int client = client_ask(serving, GET("/ask"));
        int fd = other_asked(listener, head, sizeof head);
        if (i > 0)
            client_send_text(fd, i == 1 ? "HTTP/1.1 200 OK\r\nCo" : "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nb");
        close(client);
        client_expect_end(fd);
        close(fd);
    }
    WAIT_UNTIL(aborts == 3);
    assert_int_equal(ends, 0);
    close(listener);
}

int main(void) {
    return RUN_ON_EACH(test_responses_of_every_framing_are_read, test_what_is_no_response_is_refused,
                       test_a_response_has_limits, test_interim_responses_have_a_limit, test_a_request_goes_out_whole,
                       test_a_send_that_fails_ends_the_request, test_a_large_body_leaves_others_their_share,
                       test_a_send_that_is_interrupted_or_would_block_is_tried_again,
                       test_a_response_that_came_before_a_send_fails_counts, test_a_deadline_holds_for_all_of_it,
                       test_what_can_be_said_at_once_is, test_a_name_has_all_its_addresses_tried,
                       test_an_address_of_a_family_without_sockets_is_passed_over, test_a_unix_socket_is_asked,
                       test_a_host_called_unix_is_a_name, test_a_client_that_goes_gives_the_request_up);
}
