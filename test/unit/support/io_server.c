#include "support/io_server.h"
#include "support/uring.h"

variant_t epoll_own = {UVHTTP__ENGINE_EPOLL, false};
variant_t epoll_guest = {UVHTTP__ENGINE_EPOLL, true};
variant_t uring_own = {UVHTTP__ENGINE_URING, false};
variant_t uring_guest = {UVHTTP__ENGINE_URING, true};

/* --- events --- */

void count_event(server_t *server, event_t event, uint64_t n) {
    count_add(&server->lock, &server->changed, &server->counts[event], n);
}

uint64_t server_count(server_t *server, event_t event) {
    return count_read(&server->lock, &server->counts[event]);
}

bool server_wait_within(server_t *server, event_t event, uint64_t n, int timeout_ms) {
    return count_wait(&server->lock, &server->changed, &server->counts[event], n, timeout_ms);
}

const char *const event_names[EV_COUNT] = {
    "opened",         "bytes",    "end ok",       "end aborted",     "sent", "closed", "connect ok",
    "connect failed", "released", "accept error", "listener closed", "tick", "wrong"};

typedef struct call {
    uvhttp__post_t post;
    server_t *server;
    void (*run)(server_t *server, void *arg);
    void *arg;
    bool done;
} call_t;

static void run_call(uvhttp__post_t *post) {
    call_t *call = UVHTTP__CONTAINER_OF(post, call_t, post);
    server_t *server = call->server;
    call->run(server, call->arg);
    pthread_mutex_lock(&server->lock);
    call->done = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

void server_call(server_t *server, void (*run)(server_t *server, void *arg), void *arg) {
    call_t call = {.post = {.run = run_call}, .server = server, .run = run, .arg = arg};
    struct timespec at = deadline_in(TIMEOUT_MS);
    int error = 0;
    uvhttp__loop_post(server->loop, &call.post);
    pthread_mutex_lock(&server->lock);
    while (!call.done && error == 0) error = pthread_cond_timedwait(&server->changed, &server->lock, &at);
    bool done = call.done;
    pthread_mutex_unlock(&server->lock);
    if (!done) {
        fprintf(stderr, "a message to the loop was not run: the loop hangs\n");
        abort(); /* the call is on this stack: there is no safe way on */
    }
}

void nothing(server_t *server, void *arg) {
    (void)server, (void)arg;
}

void server_settle(server_t *server) {
    server_call(server, nothing, NULL);
    server_call(server, nothing, NULL);
}

void assert_quiet(server_t *server) {
    server_settle(server);
    unsigned iterations = atomic_load(&server->iterations);
    poll(NULL, 0, 100);
    iterations = atomic_load(&server->iterations) - iterations;
    if (iterations > 20) fail_msg("%u turns in 100 ms without anything to do", iterations);
}

int *descriptors_for(const server_t *server, rlim_t count) {
    struct rlimit limit = server->nofile_before;
    if (limit.rlim_max < 2 * count + 100) skip();
    limit.rlim_cur = 2 * count + 100;
    if (limit.rlim_cur > server->nofile_before.rlim_cur) assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return calloc(count, sizeof(int));
}

/* --- peers --- */

peer_t *peer_of(uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream, peer_t, stream);
}

peer_t *server_first_peer(server_t *server) {
    if (uvhttp__list_empty(&server->peers)) return NULL;
    return UVHTTP__CONTAINER_OF(server->peers.next, peer_t, link);
}

peer_t *peer_new(server_t *server) {
    peer_t *peer = calloc(1, sizeof *peer);
    if (!peer) abort();
    peer->server = server;
    uvhttp__list_init(&peer->link);
    uvhttp__list_push_back(&server->peers, &peer->link);
    return peer;
}

void peer_close(peer_t *peer) {
    peer->closed_by_test = true;
    peer->in_call = true;
    uvhttp__stream_close(&peer->stream);
    peer->in_call = false;
}

size_t peer_echo(uvhttp__stream_t *stream, const char *data, size_t size) {
    count_event(peer_of(stream)->server, EV_BYTES, size);
    if (uvhttp__stream_send_copy(stream, data, size) != 0) count_event(peer_of(stream)->server, EV_WRONG, 1);
    return size;
}

size_t peer_swallow(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    count_event(peer_of(stream)->server, EV_BYTES, size);
    return size;
}

void peer_count_end(uvhttp__stream_t *stream, int status) {
    peer_t *peer = peer_of(stream);
    if (peer->in_call || peer->closed_by_test) count_event(peer->server, EV_WRONG, 1);
    count_event(peer->server, status == UVHTTP_OK ? EV_END_OK : EV_END_ABORTED, 1);
}

void peer_close_at_end(uvhttp__stream_t *stream, int status) {
    peer_count_end(stream, status);
    peer_close(peer_of(stream));
}

void peer_count_sent(uvhttp__stream_t *stream) {
    peer_t *peer = peer_of(stream);
    if (peer->in_call || peer->closed_by_test) count_event(peer->server, EV_WRONG, 1);
    count_event(peer->server, EV_SENT, 1);
}

static void count_released(void *arg) {
    count_event(arg, EV_RELEASED, 1);
}

void peer_send_file(uvhttp__stream_t *stream, int fd, uint64_t offset, uint64_t size) {
    (void)uvhttp__stream_send_file(stream, fd, offset, size, count_released, peer_of(stream)->server);
}

void peer_on_closed(uvhttp__stream_t *stream) {
    peer_t *peer = peer_of(stream);
    server_t *server = peer->server;
    if (peer->in_call) count_event(server, EV_WRONG, 1);
    uvhttp__list_remove(&peer->link);
    memset(peer, 0xdd, sizeof *peer); /* whoever still uses it is found out */
    free(peer);
    count_event(server, EV_CLOSED, 1);
}

const uvhttp__stream_ops_t echo_ops = PEER_OPS(peer_echo);

/* --- life of the server --- */

void server_on_accept(uvhttp__listener_t *listener, int fd) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    peer_t *peer = peer_new(server);
    uvhttp__stream_open(&peer->stream, server->loop, fd, listener->flags & UVHTTP__LISTENER_UNIX, server->ops);
    int status = server->filter ? uvhttp__stream_set_filter(&peer->stream, server->filter, server->ops) : UVHTTP_OK;
    if (status == UVHTTP_OK) status = uvhttp__stream_read_start(&peer->stream);
    if (status != UVHTTP_OK) count_event(server, EV_WRONG, 1);
    count_event(server, EV_OPENED, 1);
}

void filter_does_nothing(uvhttp__stream_t *stream) {
    (void)stream;
}

bool filter_holds_nothing(const uvhttp__stream_t *stream) {
    (void)stream;
    return false;
}

static void server_on_accept_error(uvhttp__listener_t *listener, int status) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    (void)status;
    count_event(server, EV_ACCEPT_ERROR, 1);
}

static void server_on_listener_closed(uvhttp__listener_t *listener) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    server->listener_open = false;
    count_event(server, EV_LISTENER_CLOSED, 1);
}

static void server_on_iteration_end(uvhttp__loop_t *loop, void *arg) {
    (void)loop;
    atomic_fetch_add(&((server_t *)arg)->iterations, 1);
}

int server_setup(void **state) {
    server_t *server = calloc(1, sizeof *server);
    if (!server) return -1;
    warm_up_epoll();
    server->variant = *state;
    assert_true(server->variant->kind != UVHTTP__ENGINE_URING || uring_works());
    server->listen_fd = -1;
    server->fds_before = count_fds();
    getrlimit(RLIMIT_NOFILE, &server->nofile_before);
    server->counters = aligned_alloc(64, (sizeof *server->counters + 63) / 64 * 64);
    memset(server->counters, 0, sizeof *server->counters);
    server->options = (uvhttp__loop_options_t){.engine = server->variant->kind,
                                               .receive_buffer_size = 16384,
                                               .receive_buffer_count = 64,
                                               .counters = server->counters,
                                               .on_iteration_end = server_on_iteration_end,
                                               .arg = server};
    server->listener_ops = (uvhttp__listener_ops_t){.on_accept = server_on_accept,
                                                    .on_accept_error = server_on_accept_error,
                                                    .on_closed = server_on_listener_closed};
    uvhttp__list_init(&server->peers);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->changed, NULL);
    *state = server;
    return 0;
}

static void server_say_ready(server_t *server) {
    pthread_mutex_lock(&server->lock);
    server->ready = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void *server_thread(void *arg) {
    server_t *server = arg;
    if (server->variant->guest) {
        if (uv_loop_init(&server->embedding) != 0) abort();
        server->options.embedding = &server->embedding;
    }
    if (!server->loop) server->start_status = uvhttp__loop_new(&server->options, &server->loop);
    if (server->start_status == 0 && server->listen_fd >= 0) {
        server->listener_open = true;
        uvhttp__listener_open(&server->listener, server->loop, server->listen_fd, &server->listener_ops);
    }
    server_say_ready(server);
    if (server->start_status == 0) {
        if (server->variant->guest) {
            uv_run(&server->embedding, UV_RUN_DEFAULT);
        } else {
            uvhttp__loop_run(server->loop);
            while (!atomic_load(&server->may_free)) poll(NULL, 0, 1);
            uvhttp__loop_free(server->loop, NULL, NULL);
        }
    }
    if (server->variant->guest) server->embedding_close_status = uv_loop_close(&server->embedding);
    return NULL;
}

int listen_loopback(int *port) {
    uvhttp__endpoint_t endpoint;
    uvhttp__address_t address;
    socklen_t size = sizeof address;
    int fd = -1;
    assert_int_equal(uvhttp__endpoint_parse("127.0.0.1:0", &endpoint), 0);
    assert_int_equal(uvhttp__listen_socket(&endpoint, 1024, false, &fd), 0);
    assert_int_equal(getsockname(fd, &address.any, &size), 0);
    *port = ntohs(address.v4.sin_port);
    return fd;
}

void server_start(server_t *server, const uvhttp__stream_ops_t *ops) {
    server->ops = ops;
    if (server->listen_fd < 0) server->listen_fd = listen_loopback(&server->port);
    assert_int_equal(pthread_create(&server->thread, NULL, server_thread, server), 0);
    pthread_mutex_lock(&server->lock);
    while (!server->ready) pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    if (server->start_status != 0) {
        pthread_join(server->thread, NULL);
        close(server->listen_fd);
        if (server->start_status == UVHTTP_E_UNSUPPORTED && server->variant->kind == UVHTTP__ENGINE_URING) {
            print_message("           io_uring is not available here\n");
            skip();
        }
        fail_msg("no loop: %s", uvhttp_error_name(server->start_status));
    }
    server->started = true;
}

int server_dial(server_t *server, const uvhttp__stream_ops_t *ops, const char *text) {
    server_start(server, ops);
    int fd = client_connect(server->port);
    client_send_text(fd, text);
    return fd;
}

int client_connect_to(const char *text) {
    uvhttp__endpoint_t endpoint;
    assert_int_equal(uvhttp__endpoint_parse(text, &endpoint), 0);
    int fd = socket(endpoint.address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    set_limits(fd);
    assert_int_equal(connect(fd, &endpoint.address.any, endpoint.address_size), 0);
    return fd;
}

int listen_on(const char *text) {
    uvhttp__endpoint_t endpoint;
    int fd = -1;
    assert_int_equal(uvhttp__endpoint_parse(text, &endpoint), 0);
    return uvhttp__listen_socket(&endpoint, 16, false, &fd) == 0 ? fd : -1;
}

void server_leave(server_t *server, int fd) {
    close(fd);
    server_wait(server, EV_CLOSED, 1);
}

void pause_listener(server_t *server, void *arg) {
    (void)arg;
    uvhttp__listener_pause(&server->listener);
}

void server_join(server_t *server) {
    atomic_store(&server->may_free, true);
    pthread_join(server->thread, NULL);
    server->started = false;
}

void close_listener(server_t *server, void *arg) {
    (void)arg;
    uvhttp__listener_close(&server->listener);
}

void close_peers(server_t *server, void *arg) {
    (void)arg;
    uvhttp__list_t *node, *next;
    UVHTTP__LIST_FOREACH_SAFE(node, next, &server->peers) {
        peer_close(UVHTTP__CONTAINER_OF(node, peer_t, link));
    }
}

void close_everything(server_t *server, void *arg) {
    if (server->listener_open) uvhttp__listener_close(&server->listener);
    close_peers(server, arg);
}

static void free_guest(uv_timer_t *timer) {
    server_t *server = timer->data;
    if (!atomic_load(&server->may_free)) return;
    uv_close((uv_handle_t *)timer, NULL);
    uvhttp__loop_free(server->loop, NULL, NULL);
}

/* The loop is not freed before uvhttp__loop_post, which brought this here, has returned in the other thread. */
static void stop_loop(server_t *server, void *arg) {
    (void)arg;
    if (server->variant->guest) {
        uv_timer_init(&server->embedding, &server->free_timer);
        server->free_timer.data = server;
        uv_timer_start(&server->free_timer, free_guest, 0, 1);
    } else {
        uvhttp__loop_stop(server->loop);
    }
}

typedef struct leftovers {
    bool any;
} leftovers_t;

static void count_leftovers(server_t *server, void *arg) {
    ((leftovers_t *)arg)->any = server->listener_open || !uvhttp__list_empty(&server->peers);
}

bool server_stop(server_t *server) {
    if (!server->started) return true;
    leftovers_t leftovers = {.any = true};
    uint64_t end_ms = clock_ms() + TIMEOUT_MS;
    server_call(server, close_everything, NULL);
    while (leftovers.any && clock_ms() < end_ms) {
        server_call(server, close_peers, NULL); /* those that the listener took from its backlog when it closed */
        server_call(server, count_leftovers, &leftovers);
        if (leftovers.any) poll(NULL, 0, 1); /* not for an order: only not to be busy */
    }
    if (leftovers.any) {
        fprintf(stderr, "a stream or listener was not closed\n");
        abort();
    }
    server_call(server, stop_loop, NULL);
    atomic_store(&server->may_free, true);
    pthread_join(server->thread, NULL);
    server->started = false;
    return true;
}

int server_teardown(void **state) {
    server_t *server = *state;
    setrlimit(RLIMIT_NOFILE, &server->nofile_before);
    server_stop(server);
    int failed = 0;
    if (server->counts[EV_WRONG] != 0) {
        fprintf(stderr, "%llu callbacks came that must not\n", (unsigned long long)server->counts[EV_WRONG]);
        failed = -1;
    }
    if (server->embedding_close_status != 0) {
        fprintf(stderr, "the application's loop has handles left: %s\n", uv_strerror(server->embedding_close_status));
        failed = -1;
    }
    int fds = count_fds();
    if (fds != server->fds_before) {
        fprintf(stderr, "%d descriptors before, %d after\n", server->fds_before, fds);
        failed = -1;
    }
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server->counters);
    free(server);
    return failed;
}
