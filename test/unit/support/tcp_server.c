#include "support/tcp_server.h"
#include "support/uring.h"

const char *const seen_names[SEEN_COUNT] = {"open",     "bytes",         "drain",         "end",
                                            "close ok", "close aborted", "close timeout", "close other",
                                            "release",  "step",          "again",         "wrong"};

void fixture_saw(fixture_t *fixture, seen_t what, uint64_t n) {
    count_add(&fixture->lock, &fixture->changed, &fixture->counts[what], n);
}

uint64_t fixture_seen(fixture_t *fixture, seen_t what) {
    return count_read(&fixture->lock, &fixture->counts[what]);
}

bool wait_seen_within(fixture_t *fixture, seen_t what, uint64_t n, int timeout_ms) {
    return count_wait(&fixture->lock, &fixture->changed, &fixture->counts[what], n, timeout_ms);
}

/* --- handlers --- */

void count_open(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    pthread_mutex_lock(&fixture->lock);
    fixture->tcp = tcp;
    if (++fixture->open_now > fixture->open_most) fixture->open_most = fixture->open_now;
    pthread_mutex_unlock(&fixture->lock);
    fixture_saw(fixture, SEEN_OPEN, 1);
}

void open_with_ref(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    uvhttp_tcp_ref_t *ref = uvhttp_tcp_ref(tcp);
    if (!ref) fixture_saw(fixture, SEEN_WRONG, 1);
    pthread_mutex_lock(&fixture->lock);
    uvhttp_tcp_ref_t *before = fixture->ref;
    fixture->ref = ref;
    pthread_mutex_unlock(&fixture->lock);
    uvhttp_tcp_ref_release(before);
    count_open(tcp, user);
}

char *fixture_have_sent(fixture_t *fixture,
                        void (*on_data)(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user), size_t size) {
    char *data = pattern_new(size);
    fixture->handlers.on_data = on_data;
    fixture->size = size;
    fixture->data = data;
    return data;
}

void echo_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    int status = uvhttp_tcp_send(tcp, data, size, NULL);
    if (status == UVHTTP_E_AGAIN) {
        uvhttp_tcp_pause(tcp);
        fixture_saw(user, SEEN_AGAIN, 1);
    } else if (status == UVHTTP_E_NOMEM) {
        uvhttp_tcp_reset(tcp);
    } else if (status != UVHTTP_OK) {
        fixture_saw(user, SEEN_WRONG, 1);
    }
    fixture_saw(user, SEEN_BYTES, size);
}

void send_by_reference(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    if (uvhttp_tcp_send_ref(tcp, fixture->data, fixture->size, NULL, NULL) != UVHTTP_E_AGAIN)
        fixture_saw(fixture, SEEN_WRONG, 1);
}

void swallow_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)tcp, (void)data;
    fixture_saw(user, SEEN_BYTES, size);
}

void resume_on_drain(uvhttp_tcp_t *tcp, void *user) {
    uvhttp_tcp_resume(tcp);
    fixture_saw(user, SEEN_DRAIN, 1);
}

void count_end(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp;
    fixture_saw(user, SEEN_END, 1);
}

void count_close(uvhttp_tcp_t *tcp, int status, void *user) {
    (void)tcp;
    fixture_t *fixture = user;
    pthread_mutex_lock(&fixture->lock);
    fixture->open_now--;
    pthread_mutex_unlock(&fixture->lock);
    fixture_saw(fixture,
                status == UVHTTP_OK          ? SEEN_CLOSE_OK
                : status == UVHTTP_E_ABORTED ? SEEN_CLOSE_ABORTED
                : status == UVHTTP_E_TIMEOUT ? SEEN_CLOSE_TIMEOUT
                                             : SEEN_CLOSE_OTHER,
                1);
}

void count_release(void *arg) {
    fixture_saw(arg, SEEN_RELEASE, 1);
}

/* --- life --- */

int uring_engine = UVHTTP__ENGINE_URING, epoll_engine = UVHTTP__ENGINE_EPOLL;

const run_group_t on_engines = {
    .variants = (const run_variant_t[]){{"epoll", &epoll_engine}, {"uring", &uring_engine}},
    .variant_count = 2,
    .set_up = fixture_setup,
    .tear_down = fixture_teardown,
};

int fixture_setup(void **state) {
    fixture_t *fixture = calloc(1, sizeof *fixture);
    if (!fixture) return -1;
    warm_up_epoll();
    fixture->engine = *(int *)*state;
    assert_true(fixture->engine != UVHTTP__ENGINE_URING || uring_works());
    fixture->fds_before = count_fds();
    uvhttp_tcp_config_default(&fixture->config);
    fixture->config.io_threads = 1;
    fixture->config.engine = fixture->engine;
    fixture->config.install_signal_handlers = false;
    fixture->handlers = (uvhttp_tcp_handlers_t){
        .on_open = count_open, .on_data = echo_data, .on_drain = resume_on_drain, .on_close = count_close};
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    *state = fixture;
    return 0;
}

void fixture_make(fixture_t *fixture) {
    fixture->server = uvhttp_tcp_server_new(&fixture->config, &fixture->handlers, fixture);
    assert_non_null(fixture->server);
}

static void *run_server(void *arg) {
    fixture_t *fixture = arg;
    fixture->run_status = uvhttp_tcp_server_run(fixture->server, NULL);
    return NULL;
}

void fixture_run(fixture_t *fixture) {
    assert_int_equal(pthread_create(&fixture->thread, NULL, run_server, fixture), 0);
    fixture->running = true;
}

void fixture_start(fixture_t *fixture) {
    fixture_make(fixture);
    assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port), UVHTTP_OK);
    assert_true(fixture->port > 0);
    fixture_run(fixture);
}

int fixture_join(fixture_t *fixture) {
    pthread_join(fixture->thread, NULL);
    fixture->running = false;
    return fixture->run_status;
}

int fixture_stop(fixture_t *fixture) {
    assert_int_equal(uvhttp_tcp_server_stop(fixture->server), UVHTTP_OK);
    return fixture_join(fixture);
}

void fixture_free(fixture_t *fixture) {
    uvhttp_tcp_server_free(fixture->server);
    fixture->server = NULL;
}

int fixture_teardown(void **state) {
    fixture_t *fixture = *state;
    int failed = 0;
    uvhttp_tcp_ref_release(fixture->ref);
    if (fixture->running && fixture_stop(fixture) != UVHTTP_OK) failed = -1;
    if (fixture->server) fixture_free(fixture);
    if (fixture->counts[SEEN_WRONG] != 0) {
        fprintf(stderr, "%llu things happened that must not\n", (unsigned long long)fixture->counts[SEEN_WRONG]);
        failed = -1;
    }
    uint64_t closed = fixture->counts[SEEN_CLOSE_OK] + fixture->counts[SEEN_CLOSE_ABORTED] +
                      fixture->counts[SEEN_CLOSE_TIMEOUT] + fixture->counts[SEEN_CLOSE_OTHER];
    if (closed != fixture->counts[SEEN_OPEN]) {
        fprintf(stderr, "%llu opened, %llu closed\n", (unsigned long long)fixture->counts[SEEN_OPEN],
                (unsigned long long)closed);
        failed = -1;
    }
    int fds = count_fds();
    if (fds != fixture->fds_before) {
        fprintf(stderr, "%d descriptors before, %d after\n", fixture->fds_before, fds);
        failed = -1;
    }
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
    free(fixture);
    return failed;
}

/* --- the client --- */

int dial(fixture_t *fixture) {
    return client_connect(fixture->port);
}

int dial_narrow(fixture_t *fixture) {
    return client_connect_narrow(fixture->port, 16384);
}

int fixture_dial(fixture_t *fixture, const char *text) {
    fixture_start(fixture);
    int fd = dial(fixture);
    client_send_text(fd, text);
    return fd;
}

int fixture_dial_narrow(fixture_t *fixture, const char *text) {
    fixture_start(fixture);
    int fd = dial_narrow(fixture);
    client_send_text(fd, text);
    return fd;
}

int fixture_dial_with_ref(fixture_t *fixture) {
    fixture->handlers.on_open = open_with_ref;
    int fd = fixture_dial(fixture, "");
    wait_seen(fixture, SEEN_OPEN, 1);
    return fd;
}

void ping(int fd) {
    client_send(fd, "ping", 4);
    client_expect(fd, "ping", 4);
}

void fixture_leave(fixture_t *fixture, int fd) {
    close(fd);
    wait_seen(fixture, SEEN_CLOSE_OK, 1);
}

void dial_many(fixture_t *fixture, int *fds, int count) {
    for (int i = 0; i < count; i++) {
        fds[i] = dial(fixture);
        ping(fds[i]);
    }
}

void expect_ends(const int *fds, int count) {
    for (int i = 0; i < count; i++) {
        client_expect_eof(fds[i]);
        close(fds[i]);
    }
}
