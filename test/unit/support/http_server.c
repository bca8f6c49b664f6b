#include "support/http_server.h"
#include "support/uring.h"

uvhttp_engine_t on_epoll = UVHTTP_ENGINE_EPOLL, on_uring = UVHTTP_ENGINE_URING;

const run_group_t on_each_engine = {
    .variants = (const run_variant_t[]){{"on_epoll", &on_epoll}, {"on_uring", &on_uring}},
    .variant_count = 2,
    .set_up = serving_setup,
    .tear_down = serving_teardown,
};

int serving_setup(void **state) {
    serving_t *serving = calloc(1, sizeof *serving);
    uvhttp_server_config_default(&serving->config);
    serving->config.engine = *(uvhttp_engine_t *)*state;
    assert_true(serving->config.engine != UVHTTP_ENGINE_URING || uring_works());
    serving->config.io_threads = 1;
    serving->config.quiet = true;
    serving->config.drain_idle_ms = 64;
    serving->config.rate_grace = 60; /* of clients that a test has not reached yet */
    serving->config.install_signal_handlers = false;
    *state = serving;
    return 0;
}

void serving_make(serving_t *serving) {
    serving->server = uvhttp_server_new(&serving->config);
    assert_non_null(serving->server);
}

static void *serving_thread(void *arg) {
    serving_t *serving = arg;
    serving->status = uvhttp_server_run(serving->server, NULL);
    return NULL;
}

void serving_run(serving_t *serving) {
    assert_int_equal(pthread_create(&serving->thread, NULL, serving_thread, serving), 0);
    serving->running = true;
}

void serving_start(serving_t *serving) {
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    serving_run(serving);
}

void serving_join(serving_t *serving) {
    assert_true(serving->running);
    pthread_join(serving->thread, NULL);
    serving->running = false;
    assert_int_equal(serving->status, UVHTTP_OK);
}

void serving_stop(serving_t *serving) {
    assert_int_equal(uvhttp_server_stop(serving->server), UVHTTP_OK);
    serving_join(serving);
}

void serving_leave(serving_t *serving, int fd) {
    close(fd);
    serving_stop(serving);
}

int serving_teardown(void **state) {
    serving_t *serving = *state;
    if (serving->running) {
        uvhttp_server_stop(serving->server);
        pthread_join(serving->thread, NULL);
    }
    uvhttp_server_free(serving->server);
    free(serving);
    return 0;
}

/* --- the client --- */

int client_ask(const serving_t *serving, const char *text) {
    int fd = client_connect(serving->port);
    client_send_text(fd, text);
    return fd;
}

client_response_t *client_read(int fd) {
    static client_response_t response;
    memset(&response, 0, sizeof response);
    size_t want = sizeof response.text - 1;
    while (response.size < want) {
        ssize_t got = client_receive_some(fd, response.text + response.size, 1); /* what follows is the next reader's */
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) fail_msg("no response in time");
        if (got <= 0) break;
        response.size++;
        char *end = strstr(response.text, "\r\n\r\n"), *length = strstr(response.text, "Content-Length: ");
        if (end && (length || strncmp(response.text, "HTTP/1.1 101", 12) == 0))
            want = (size_t)(end + 4 - response.text) + (length ? strtoul(length + 16, NULL, 10) : 0);
    }
    if (response.size > 12) response.status = (int)strtol(response.text + 9, NULL, 10);
    char *end = strstr(response.text, "\r\n\r\n");
    response.body = end ? end + 4 : "";
    return &response;
}

void client_read_last(int fd, int status) {
    assert_int_equal(client_read(fd)->status, status);
    close(fd);
}
