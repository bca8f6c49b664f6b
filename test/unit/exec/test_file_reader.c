/* Owns: tests of files that are pulled: in order with what stands around them, a bounded part in memory, nothing that
 * would wait for the disk on the loop, and every end gives the file back once. All tests run twice: with a file that is
 * copied by threads, and with one that goes by sendfile but is not in memory at the beginning. */
#include "exec/file_reader.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../support/failing_allocator.h"
#include "obs/log.h"
#include "support/io_server.h"

enum { OFFSET = 12345, FILE_SIZE = 3 * 1024 * 1024 };

typedef struct fixture {
    uvhttp__work_t *work;
    uvhttp__work_port_t port;
    pthread_mutex_t gate; /* held by the test: the pool's thread waits */
    sem_t at_gate;        /* it has come there */
    uvhttp__job_t gate_job;
    uvhttp__file_t file;
    uvhttp__list_t pullers;
    char *data;
} fixture_t;

static bool copied;
static uvhttp__framing_t framing;
static atomic_uint frames_shown;
static atomic_size_t live_bytes_max; /* when pieces had been pulled */

static void count_release(void *arg) {
    count_event(arg, EV_RELEASED, 1);
}

/* What a protocol does: pulls while the wire has capacity, and continues when that is empty or bytes are there. */
typedef struct puller {
    uvhttp__list_t link;
    uvhttp__stream_t *stream;
    int asked;                     /* files that wait */
    uvhttp__file_reader_t *reader; /* NULL: none is pulled */
    uint64_t left;
} puller_t;

static puller_t *puller_of(uvhttp__stream_t *stream) {
    fixture_t *fixture = peer_of(stream)->server->user;
    for (uvhttp__list_t *node = fixture->pullers.next; node != &fixture->pullers; node = node->next) {
        puller_t *puller = UVHTTP__CONTAINER_OF(node, puller_t, link);
        if (puller->stream == stream) return puller;
    }
    puller_t *made = calloc(1, sizeof *made);
    if (!made) abort();
    made->stream = stream;
    uvhttp__list_init(&made->link);
    uvhttp__list_push_back(&fixture->pullers, &made->link);
    return made;
}

static void pull(void *arg);

static int start_file(puller_t *puller) {
    fixture_t *fixture = peer_of(puller->stream)->server->user;
    puller->asked--;
    puller->reader = uvhttp__file_reader_new(&fixture->port, &fixture->file, pull, puller);
    puller->left = fixture->file.size;
    int status = uvhttp__stream_send_copy(puller->stream, "head", 4);
    return puller->reader ? status : UVHTTP_E_NOMEM;
}

/* The space in front of a frame is ours: nothing that is sent may suffer. Some frames are pulled in two. */
static void take_space(server_t *server, uvhttp__piece_t *piece) {
    if (framing.head_size > 0 && piece->size > framing.payload_max) count_event(server, EV_WRONG, 1);
    if (piece->kind != UVHTTP__PIECE_FRAMED) return;
    if (framing.head_size == 0) count_event(server, EV_WRONG, 1);
    memset((char *)(uintptr_t)piece->data - framing.head_size, 0xff, framing.head_size);
    frames_shown++;
    if (frames_shown % 5 == 0) piece->size = piece->size / 2 + 1;
}

static int pull_piece(puller_t *puller) {
    uvhttp__stream_t *stream = puller->stream;
    uvhttp__piece_t piece;
    int status = uvhttp__file_reader_peek(puller->reader, !copied, &piece);
    if (status != UVHTTP_OK) return status;
    take_space(peer_of(stream)->server, &piece);
    uvhttp__keeper_t keeper = uvhttp__file_reader_consume(puller->reader, piece.size);
    status = piece.kind == UVHTTP__PIECE_FILE
                 ? uvhttp__stream_send_file(stream, piece.fd, piece.offset, piece.size, keeper.release, keeper.arg)
                 : uvhttp__stream_send_ref(stream, piece.data, piece.size, keeper.release, keeper.arg);
    puller->left -= piece.size;
    if (status != UVHTTP_OK || puller->left > 0) return status;
    uvhttp__file_reader_close(puller->reader);
    puller->reader = NULL;
    return uvhttp__stream_send_copy(stream, "tail", 4);
}

static void pull(void *arg) {
    puller_t *puller = arg;
    int status = UVHTTP_OK;
    while (status == UVHTTP_OK && (puller->reader || puller->asked > 0)) {
        if (uvhttp__stream_out_size(puller->stream) >= UVHTTP__WIRE_FULL) break;
        status = puller->reader ? pull_piece(puller) : start_file(puller);
    }
    size_t live_bytes = test_allocator_live_bytes();
    if (live_bytes > live_bytes_max) live_bytes_max = live_bytes;
    if (status == UVHTTP_OK || (status != UVHTTP_E_AGAIN && uvhttp__stream_out_size(puller->stream) > 0))
        uvhttp__stream_notify_sent(puller->stream);
    else if (status != UVHTTP_E_AGAIN)
        peer_close(peer_of(puller->stream));
}

static size_t ask_for_the_file(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    count_event(peer_of(stream)->server, EV_TICK, 1);
    puller_t *puller = puller_of(stream);
    puller->asked++;
    pull(puller);
    return size;
}

static void on_sent(uvhttp__stream_t *stream) {
    puller_t *puller = puller_of(stream);
    if (puller->reader || puller->asked > 0)
        pull(puller);
    else
        count_event(peer_of(stream)->server, EV_SENT, 1);
}

static void on_closed(uvhttp__stream_t *stream) {
    puller_t *puller = puller_of(stream);
    if (puller->reader) uvhttp__file_reader_close(puller->reader);
    uvhttp__list_remove(&puller->link);
    free(puller);
    peer_on_closed(stream);
}

static const uvhttp__stream_ops_t ops = {
    .on_data = ask_for_the_file, .on_end = peer_close_at_end, .on_sent = on_sent, .on_closed = on_closed};

static void open_port(server_t *server, void *arg) {
    fixture_t *fixture = arg;
    uvhttp__work_port_open(&fixture->port, fixture->work, server->loop);
}

static void close_port(server_t *server, void *arg) {
    (void)server;
    uvhttp__work_port_close(&((fixture_t *)arg)->port);
}

static size_t count_pages_in_memory(int fd) {
    static unsigned char pages[FILE_SIZE / 4096];
    void *view = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(view != MAP_FAILED && mincore(view, FILE_SIZE, pages) == 0 && munmap(view, FILE_SIZE) == 0);
    size_t count = 0;
    for (size_t i = 0; i < sizeof pages; i++) count += pages[i] & 1;
    return count;
}

/* Has the kernel drop what it holds of the file in memory; it leaves what it is busy with: then again. */
static bool forget(int fd) {
    for (int tries = 0; tries < 1000 && count_pages_in_memory(fd) > 0; tries++)
        if (fdatasync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) return false;
    return count_pages_in_memory(fd) == 0;
}

/* Whether the kernel counts the pages of a file, and drops them on request. Otherwise a lookup may find them all the
 * same, on a disk that is quick. */
static bool can_forget(void) {
    char path[] = "/tmp/uvhttp-file-XXXXXX";
    static const char data[FILE_SIZE];
    const uint64_t range[2] = {0, FILE_SIZE};
    uint64_t pages[5];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && unlink(path) == 0 && write(fd, data, FILE_SIZE) == FILE_SIZE);
    bool can = syscall(451 /* cachestat */, fd, range, pages, 0) == 0 && forget(fd);
    close(fd);
    return can;
}

static fixture_t *start(server_t *server) {
    static fixture_t fixture;
    char path[] = "/tmp/uvhttp-file-XXXXXX";
    memset(&fixture, 0, sizeof fixture);
    uvhttp__list_init(&fixture.pullers);
    fixture.data = malloc(FILE_SIZE);
    assert_non_null(fixture.data);
    for (size_t i = 0; i < FILE_SIZE; i++) fixture.data[i] = (char)(i * 31 + i / 4093);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && unlink(path) == 0 && write(fd, fixture.data, FILE_SIZE) == FILE_SIZE);
    fixture.file = (uvhttp__file_t){.fd = fd,
                                    .offset = OFFSET,
                                    .size = FILE_SIZE - OFFSET,
                                    .keeper = {count_release, server},
                                    .copied = copied,
                                    .framing = framing};
    frames_shown = 0;
    live_bytes_max = 0;
    if (!copied) assert_true(forget(fd));
    pthread_mutex_init(&fixture.gate, NULL);
    sem_init(&fixture.at_gate, 0, 0);
    fixture.work = uvhttp__work_new(&(uvhttp__work_options_t){.threads_soon = 1, .threads_max = 1, .backlog_max = 1});
    assert_non_null(fixture.work);
    server->user = &fixture;
    server_start(server, &ops);
    server_call(server, open_port, &fixture);
    return &fixture;
}

/* All peers are gone. */
static void end(server_t *server, fixture_t *fixture) {
    server_call(server, close_port, fixture);
    uvhttp__work_free(fixture->work);
    pthread_mutex_destroy(&fixture->gate);
    sem_destroy(&fixture->at_gate);
    close(fixture->file.fd);
    free(fixture->data);
}

static void leave(server_t *server, fixture_t *fixture, int fd) {
    server_leave(server, fd);
    end(server, fixture);
}

static void wait_at_gate(uvhttp__job_t *job) {
    fixture_t *fixture = UVHTTP__CONTAINER_OF(job, fixture_t, gate_job);
    sem_post(&fixture->at_gate);
    pthread_mutex_lock(&fixture->gate);
    pthread_mutex_unlock(&fixture->gate);
}

static void gate_passed(uvhttp__job_t *job, bool cancelled) {
    (void)job, (void)cancelled;
}

static void submit_gate_job(server_t *server, void *arg) {
    fixture_t *fixture = arg;
    uvhttp__job_init(&fixture->gate_job, wait_at_gate, gate_passed);
    if (uvhttp__work_submit(fixture->work, &fixture->port, &fixture->gate_job) != UVHTTP_OK)
        count_event(server, EV_WRONG, 1);
}

/* The only thread of the pool runs, and nothing waits for it. The test holds the gate. */
static void occupy_thread(server_t *server, fixture_t *fixture) {
    server_call(server, submit_gate_job, fixture);
    while (sem_wait(&fixture->at_gate) != 0) {
    }
}

/* A client whose file waits for the thread, until the test gives back the gate. */
static int ask_while_occupied(server_t *server, fixture_t *fixture) {
    pthread_mutex_lock(&fixture->gate);
    occupy_thread(server, fixture);
    int fd = client_connect(server->port);
    client_send(fd, "x", 1);
    client_expect(fd, "head", 4);
    return fd;
}

static void expect_response(int fd, const fixture_t *fixture) {
    client_expect(fd, "head", 4);
    client_expect(fd, fixture->data + OFFSET, FILE_SIZE - OFFSET);
    client_expect(fd, "tail", 4);
}

static void test_a_file_comes_between_what_was_queued_before_and_after(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    int fd = client_connect(server->port);
    client_send(fd, "x", 1);
    expect_response(fd, fixture);
    server_wait(server, EV_SENT, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 1);
    client_send(fd, "x", 1);
    expect_response(fd, fixture);
    leave(server, fixture, fd);
}

static void test_two_files_are_read_one_after_the_other(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    int fd = client_connect(server->port);
    client_send(fd, "x", 1);
    server_wait(server, EV_OPENED, 1);
    server_settle(server);
    client_send(fd, "x", 1); /* while the first one waits for the client */
    for (int i = 0; i < 2; i++) expect_response(fd, fixture);
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_RELEASED), 2);
    end(server, fixture);
}

static void read_out_size(server_t *server, void *arg) {
    *(uint32_t *)arg = uvhttp__stream_out_size(&server_first_peer(server)->stream);
}

/* What the sockets take differs from kernel to kernel; what then stays on the wire does not move until the client
 * reads. A look that came too early would only show less of what one client may hold. */
static void wait_until_nothing_moves(server_t *server) {
    uint32_t size = 0;
    server_wait(server, EV_OPENED, 1);
    for (int tries = 0, same = 0; same < 10; tries++) {
        assert_true(tries < TIMEOUT_MS);
        uint32_t before = size;
        server_call(server, read_out_size, &size);
        same = size > 0 && size == before ? same + 1 : 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void test_each_frame_has_space_for_its_head(void **state) {
    server_t *server = *state;
    server->listen_fd = listen_loopback(&server->port);
    int small = 65536; /* else the kernel takes all of the file */
    assert_int_equal(setsockopt(server->listen_fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    fixture_t *fixture = start(server);
    size_t live_bytes = test_allocator_live_bytes();
    int fd = client_socket();
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    client_connect_fd(fd, server->port);
    client_send(fd, "x", 1);
    wait_until_nothing_moves(server);
    expect_response(fd, fixture);
    server_wait(server, EV_SENT, 1);
    uint64_t size = fixture->file.size, in_copy = 65536 / (framing.head_size + framing.payload_max);
    uint64_t copies = size / (in_copy * framing.payload_max), rest = size % (in_copy * framing.payload_max);
    assert_int_equal(frames_shown, copies * in_copy + (rest + framing.payload_max - 1) / framing.payload_max);
    assert_int_equal(server_count(server, EV_WRONG), 0);
    size_t segments =
        UVHTTP__SLAB_CHUNK_SIZE + UVHTTP__SLAB_CHUNK_ALIGNMENT; /* a chunk, as it is aligned with a hook */
    assert_in_range(live_bytes_max, live_bytes + 65536 + segments,
                    live_bytes + UVHTTP__FILE_READER_MEMORY_MAX + segments + 16384);
    leave(server, fixture, fd);
}

static void test_the_loop_waits_quietly_while_nothing_is_read(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    int fd = ask_while_occupied(server, fixture);
    assert_quiet(server);
    assert_int_equal(server_count(server, EV_SENT), 0);
    pthread_mutex_unlock(&fixture->gate);
    client_expect(fd, fixture->data + OFFSET, FILE_SIZE - OFFSET);
    client_expect(fd, "tail", 4);
    leave(server, fixture, fd);
}

static uint64_t pieces_brought(server_t *server) {
    uvhttp__counter_sums_t sums = {0};
    uvhttp__counters_read(server->counters, &sums);
    return UVHTTP__COUNTER(&sums, file_pieces_brought);
}

static void test_what_sendfile_would_wait_for_is_brought_and_counted(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    int fd = client_connect(server->port);
    client_send(fd, "x", 1);
    expect_response(fd, fixture);
    uint64_t brought = pieces_brought(server);
    assert_true(copied ? brought == 0 : brought > 0);
    leave(server, fixture, fd);
}

static void test_a_file_in_memory_needs_no_thread_unless_it_is_copied(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    assert_true(pread(fixture->file.fd, fixture->data, FILE_SIZE, 0) == FILE_SIZE);
    int fd = ask_while_occupied(server, fixture);
    if (copied) {
        assert_quiet(server);
        pthread_mutex_unlock(&fixture->gate);
    }
    client_expect(fd, fixture->data + OFFSET, FILE_SIZE - OFFSET);
    client_expect(fd, "tail", 4);
    if (!copied) pthread_mutex_unlock(&fixture->gate);
    assert_int_equal(pieces_brought(server), 0);
    leave(server, fixture, fd);
}

/* The file's first MiB, as somebody leaves it who asked for it and did not wait: its first and its last page are in
 * memory. */
static void read_the_ends(fixture_t *fixture) {
    fixture->file.offset = 0;
    fixture->file.size = 1024 * 1024;
    char byte;
    assert_int_equal(posix_fadvise(fixture->file.fd, 0, 0, POSIX_FADV_RANDOM), 0);
    assert_int_equal(pread(fixture->file.fd, &byte, 1, 0), 1);
    assert_int_equal(pread(fixture->file.fd, &byte, 1, 1024 * 1024 - 1), 1);
}

static void expect_first_mib(int fd, const fixture_t *fixture) {
    client_send(fd, "x", 1);
    client_expect(fd, "head", 4);
    client_expect(fd, fixture->data, 1024 * 1024);
    client_expect(fd, "tail", 4);
}

static void test_a_file_that_is_half_in_memory_is_brought(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    read_the_ends(fixture);
    int fd = ask_while_occupied(server, fixture);
    assert_quiet(server);
    assert_int_equal(server_count(server, EV_SENT), 0);
    pthread_mutex_unlock(&fixture->gate);
    client_expect(fd, fixture->data, 1024 * 1024);
    client_expect(fd, "tail", 4);
    leave(server, fixture, fd);
}

/* Who found all of it a moment ago looks at the ends only. */
static void test_a_file_that_was_just_found_is_looked_for_at_its_ends(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    _Atomic(uint64_t) found_ms = uvhttp__clock_ns() / 1000000 + 1000000;
    fixture->file.found_ms = &found_ms;
    read_the_ends(fixture);
    server_settle(server); /* its thread sees what this one has written */
    int fd = client_connect(server->port);
    expect_first_mib(fd, fixture);
    assert_int_equal(pieces_brought(server), 0);
    leave(server, fixture, fd);
}

static void test_a_file_that_was_found_long_ago_is_looked_for_and_noted(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    uint64_t before_ms = uvhttp__clock_ns() / 1000000;
    _Atomic(uint64_t) found_ms = before_ms - 100;
    fixture->file.found_ms = &found_ms;
    read_the_ends(fixture);
    server_settle(server); /* its thread sees what this one has written */
    int fd = client_connect(server->port);
    expect_first_mib(fd, fixture);
    uint64_t brought = pieces_brought(server);
    assert_true(brought > 0);
    assert_true(found_ms < before_ms);
    expect_first_mib(fd, fixture);
    assert_int_equal(pieces_brought(server), brought);
    assert_true(found_ms >= before_ms);
    leave(server, fixture, fd);
}

static void test_a_client_that_leaves_before_the_file_is_read_gives_it_back(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    int fd = ask_while_occupied(server, fixture);
    client_reset(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 0); /* the job has the descriptor still */
    pthread_mutex_unlock(&fixture->gate);
    server_wait(server, EV_RELEASED, 1);
    end(server, fixture);
}

static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER;
static char logged[2048];
static bool some_logged;

static void take_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)user;
    if (level != UVHTTP_LOG_LEVEL_ERROR) return;
    pthread_mutex_lock(&logged_lock);
    memcpy(logged, message, size + 1);
    pthread_mutex_unlock(&logged_lock);
}

/* Counted each time; the line comes once a second, so that it is not there when another test had it just now. */
static void assert_file_error(server_t *server, const char *text) {
    uvhttp__counter_sums_t sums = {0};
    uvhttp__counters_read(server->counters, &sums);
    assert_int_equal(UVHTTP__COUNTER(&sums, file_read_errors), 1);
    pthread_mutex_lock(&logged_lock);
    if (logged[0]) assert_non_null(strstr(logged, text));
    some_logged |= logged[0] != '\0';
    logged[0] = '\0';
    pthread_mutex_unlock(&logged_lock);
}

static void test_a_file_that_has_become_shorter_breaks_the_connection(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    assert_int_equal(ftruncate(fixture->file.fd, OFFSET + 100000), 0);
    int fd = client_connect(server->port);
    client_send(fd, "x", 1);
    client_expect(fd, "head", 4);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 1);
    assert_int_equal(server_count(server, EV_SENT), 0);
    assert_file_error(server, "it is shorter than it was");
    close(fd);
    end(server, fixture);
}

/* A directory stands for a file that the disk does not give: reading it is an error. */
static void test_a_file_that_cannot_be_read_breaks_the_connection_and_is_logged(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    close(fixture->file.fd);
    fixture->file.fd = open("/tmp", O_RDONLY | O_DIRECTORY);
    int fd = client_connect(server->port);
    client_send(fd, "x", 1);
    client_expect(fd, "head", 4);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 1);
    /* sendfile(2) says EINVAL of it. */
    assert_file_error(server, "cannot read \"/tmp\" at byte ");
    close(fd);
    end(server, fixture);
}

/* The backlog has space for one job. Both responses have begun. */
static void test_a_full_backlog_breaks_no_connection(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    pthread_mutex_lock(&fixture->gate);
    occupy_thread(server, fixture);
    int fds[] = {client_connect(server->port), client_connect(server->port), client_connect(server->port)};
    for (int i = 0; i < 3; i++) {
        client_send(fds[i], "x", 1);
        client_expect(fds[i], "head", 4);
        server_settle(server);
    }
    uvhttp__work_stats_t stats;
    uvhttp__work_read(fixture->work, &stats, NULL);
    assert_int_equal(stats.waiting, 3);
    assert_int_equal(stats.refused, 0);
    pthread_mutex_unlock(&fixture->gate);
    for (int i = 0; i < 3; i++) client_expect(fds[i], fixture->data + OFFSET, FILE_SIZE - OFFSET);
    for (int i = 0; i < 3; i++) close(fds[i]);
    server_wait(server, EV_CLOSED, 3);
    end(server, fixture);
}

/* Either all of it comes, or the connection ends before. */
static void test_every_allocation_may_fail(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        int fd = client_connect(server->port);
        server_wait(server, EV_OPENED, n);
        test_allocator_fail_at(n);
        client_send(fd, "x", 1);
        shutdown(fd, SHUT_WR);
        char memory[65536];
        size_t size = 0;
        for (ssize_t got; (got = recv(fd, memory, sizeof memory, 0)) > 0;) size += (size_t)got;
        failed = test_allocator_failed();
        test_allocator_fail_at(0);
        assert_true(size <= FILE_SIZE - OFFSET + 8);
        close(fd);
        server_wait(server, EV_CLOSED, n);
        server_wait(server, EV_RELEASED, server_count(server, EV_TICK));
    }
    end(server, fixture);
}

/* No segment is left for the piece that was read, nor memory for the next one: the connection breaks once. */
static void take_segments(server_t *server, void *arg) {
    uvhttp__slab_t *segments = &server->loop->segments;
    void **consumed = arg;
    while (uvhttp__slab_in_use(segments) < uvhttp__slab_capacity(segments)) {
        void **segment = uvhttp__slab_alloc(segments);
        *segment = *consumed;
        *consumed = segment;
    }
}

static void give_segments_back(server_t *server, void *arg) {
    void **consumed = arg;
    for (void **segment; (segment = *consumed);) {
        *consumed = *segment;
        uvhttp__slab_free(&server->loop->segments, segment);
    }
}

static void test_memory_that_is_wanting_twice_breaks_the_connection_once(void **state) {
    server_t *server = *state;
    fixture_t *fixture = start(server);
    void *consumed = NULL;
    int fd = ask_while_occupied(server, fixture);
    server_call(server, take_segments, &consumed);
    test_allocator_fail_from(1);
    pthread_mutex_unlock(&fixture->gate);
    server_wait(server, EV_CLOSED, 1);
    test_allocator_fail_at(0);
    server_call(server, give_segments_back, &consumed);
    assert_int_equal(server_count(server, EV_RELEASED), 1);
    close(fd);
    end(server, fixture);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        ON_OWN_LOOPS(test_a_file_comes_between_what_was_queued_before_and_after),
        ON_OWN_LOOPS(test_two_files_are_read_one_after_the_other),
        ON_OWN_LOOPS(test_the_loop_waits_quietly_while_nothing_is_read),
        ON_OWN_LOOPS(test_what_sendfile_would_wait_for_is_brought_and_counted),
        ON_OWN_LOOPS(test_a_file_in_memory_needs_no_thread_unless_it_is_copied),
        ON_OWN_LOOPS(test_a_file_that_is_half_in_memory_is_brought),
        ON_OWN_LOOPS(test_a_client_that_leaves_before_the_file_is_read_gives_it_back),
        ON_OWN_LOOPS(test_a_file_that_has_become_shorter_breaks_the_connection),
        ON_OWN_LOOPS(test_a_file_that_cannot_be_read_breaks_the_connection_and_is_logged),
        ON_OWN_LOOPS(test_a_full_backlog_breaks_no_connection),
        ON_OWN_LOOPS(test_every_allocation_may_fail),
    };
    const struct CMUnitTest of_frames[] = {
        ON_OWN_LOOPS(test_each_frame_has_space_for_its_head),
    };
    const struct CMUnitTest of_copies[] = {
        ON_OWN_LOOPS(test_memory_that_is_wanting_twice_breaks_the_connection_once),
    };
    const struct CMUnitTest by_sendfile[] = {
        ON_OWN_LOOPS(test_a_file_that_was_just_found_is_looked_for_at_its_ends),
        ON_OWN_LOOPS(test_a_file_that_was_found_long_ago_is_looked_for_and_noted),
    };
    uvhttp_log_set_callback(take_log, NULL);
    copied = true;
    int failed = cmocka_run_group_tests_name("copied", tests, NULL, NULL) +
                 cmocka_run_group_tests_name("of copies", of_copies, NULL, NULL) + !some_logged;
    static const uvhttp__framing_t framings[] = {{9, 16375}, {4, 5000}};
    for (size_t i = 0; i < sizeof framings / sizeof *framings; i++) {
        framing = framings[i];
        failed += cmocka_run_group_tests_name("copied, in frames", tests, NULL, NULL) +
                  cmocka_run_group_tests_name("of frames", of_frames, NULL, NULL);
    }
    framing = (uvhttp__framing_t){0, 0};
    if (!can_forget()) {
        print_message("not with sendfile: this kernel or file system does not tell what of a file is in memory\n");
        return failed;
    }
    copied = false;
    return failed + cmocka_run_group_tests_name("by sendfile", tests, NULL, NULL) +
           cmocka_run_group_tests_name("only by sendfile", by_sendfile, NULL, NULL);
}
