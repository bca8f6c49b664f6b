#include "support/fake_routes.h"

#include <sys/mman.h>
#include <uvhttp/coro.h>
#include <uvhttp/work.h>

const char *const fake_mode_names[FAKE_MODE_COUNT] = {"buffered",  "streamed",  "paused",   "worker", "spooled",
                                                      "live",      "coroutine", "deferred", "pooled", "file",
                                                      "reference", "content",   "pieces"};

atomic_int fake_dones[FAKE_ROUTES_IDS], fake_wrong_bytes, fake_held;
static uvhttp_server_t *server;

char fake_byte_in(unsigned id, size_t at) {
    return (char)(id * 37 + at * 7 + at / 251);
}

char fake_byte_out(unsigned id, size_t at) {
    return (char)(id * 59 + at * 11 + at / 509 + 1);
}

char *fake_bytes(char (*byte)(unsigned id, size_t at), unsigned id, size_t size) {
    char *bytes = malloc(size > 0 ? size : 1);
    if (!bytes) abort();
    for (size_t i = 0; i < size; i++) bytes[i] = byte(id, i);
    return bytes;
}

/* Lives as long as the request. */
typedef struct job {
    unsigned id;
    size_t size;     /* of the response */
    size_t received; /* bytes of the request's body */
    size_t written;
    uvhttp_deferred_t *deferred;
} job_t;

static unsigned long number(uvhttp_request_t *req, const char *name) {
    uvhttp_str_t text = uvhttp_request_param(req, name);
    unsigned long value = 0;
    for (size_t i = 0; i < text.size; i++) value = value * 10 + (unsigned long)(text.data[i] - '0');
    return value;
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    atomic_fetch_add(&fake_dones[(uintptr_t)user], 1);
}

/* NULL: no memory, and there is a response that says so. */
static job_t *begin(uvhttp_request_t *req, uvhttp_response_t *res) {
    job_t *job = uvhttp_request_alloc(req, sizeof *job);
    uintptr_t id = number(req, "id");
    if (!job || uvhttp_response_on_done(res, on_done, (void *)id) != UVHTTP_OK) {
        (void)uvhttp_response_empty(res, 503);
        return NULL;
    }
    *job = (job_t){.id = (unsigned)id, .size = number(req, "size")};
    return job;
}

static void check(job_t *job, uvhttp_str_t data) {
    for (size_t i = 0; i < data.size; i++)
        if (data.data[i] != fake_byte_in(job->id, job->received + i)) {
            atomic_fetch_add(&fake_wrong_bytes, 1);
            break;
        }
    job->received += data.size;
}

/* The body is complete. */
static job_t *begin_with_body(uvhttp_request_t *req, uvhttp_response_t *res) {
    job_t *job = begin(req, res);
    if (job) check(job, uvhttp_request_body(req));
    return job;
}

static void respond(job_t *job, uvhttp_response_t *res) {
    char *bytes = fake_bytes(fake_byte_out, job->id, job->size);
    if (uvhttp_response_send(res, 200, "application/octet-stream", bytes, job->size) != UVHTTP_OK)
        (void)uvhttp_response_empty(res, 503);
    free(bytes);
}

static void buffered(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    job_t *job = begin_with_body(req, res);
    if (!job) return;
    respond(job, res);
}

/* --- the body as it arrives --- */

static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res;
    job_t *job = user;
    check(job, data);
    if (!job->deferred) return;
    if (uvhttp_request_pause_body(req) != UVHTTP_OK) return;
    if (uvhttp_deferred_resume_body(job->deferred) == UVHTTP_E_NOMEM) (void)uvhttp_request_resume_body(req);
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req;
    job_t *job = user;
    if (status == UVHTTP_OK) respond(job, res);
    if (job->deferred) uvhttp_deferred_release(job->deferred);
}

static void take_body(uvhttp_request_t *req, uvhttp_response_t *res, bool pauses) {
    job_t *job = begin(req, res);
    if (!job) return;
    if (pauses) job->deferred = uvhttp_response_defer(res);
    if (pauses && !job->deferred) return;
    if (uvhttp_request_on_body(req, on_data, on_end, job) != UVHTTP_OK) abort();
}

static void streamed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    take_body(req, res, false);
}

static void paused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    take_body(req, res, true);
}

/* Reads to the end, in a thread or a coroutine that waits; what the last call returned. */
static int check_body(job_t *job, uvhttp_request_t *req,
                      int (*read)(uvhttp_request_t *req, uvhttp_str_t *piece, uint32_t timeout_ms)) {
    uvhttp_str_t piece;
    int status;
    while ((status = read(req, &piece, UINT32_MAX)) == UVHTTP_OK) check(job, piece);
    return status;
}

static void read_all(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    job_t *job = begin(req, res);
    if (job && check_body(job, req, uvhttp_request_read_body) == UVHTTP_E_EOF) respond(job, res);
}

/* --- the response in parts --- */

/* Until it does not fit. Returns what the write returned. */
static int write_on(job_t *job, uvhttp_response_t *res) {
    int status = UVHTTP_OK;
    while (status == UVHTTP_OK && job->written < job->size) {
        char piece[1500];
        size_t size = job->size - job->written < sizeof piece ? job->size - job->written : sizeof piece;
        for (size_t i = 0; i < size; i++) piece[i] = fake_byte_out(job->id, job->written + i);
        status = uvhttp_response_write(res, piece, size);
        if (status == UVHTTP_OK) job->written += size;
    }
    if (status == UVHTTP_OK) status = uvhttp_response_end(res);
    return status;
}

static void coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    job_t *job = begin(req, res);
    if (!job || check_body(job, req, uvhttp_coro_read_body) != UVHTTP_E_EOF) return;
    if (uvhttp_coro_yield() != UVHTTP_OK) return;
    if (uvhttp_response_begin(res, 200, NULL, UVHTTP_SIZE_UNKNOWN) == UVHTTP_OK) (void)write_on(job, res);
}

static void on_drain(uvhttp_response_t *res, void *user) {
    job_t *job = user;
    if (write_on(job, res) == UVHTTP_E_LIMIT) return;
    uvhttp_deferred_release(job->deferred);
}

static void start_pieces(uvhttp_response_t *res, void *user) {
    job_t *job = user;
    if (res && uvhttp_response_begin(res, 200, NULL, job->size) == UVHTTP_OK && write_on(job, res) == UVHTTP_E_LIMIT)
        return;
    uvhttp_deferred_release(job->deferred);
}

static void on_pieces_abort(uvhttp_deferred_t *deferred, void *user) {
    job_t *job = user;
    if (job->written > 0) uvhttp_deferred_release(deferred); /* on_drain will not come */
}

static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    job_t *job = begin_with_body(req, res);
    if (!job) return;
    job->deferred = uvhttp_response_defer(res);
    if (!job->deferred) return;
    uvhttp_deferred_on_drain(job->deferred, on_drain, job);
    uvhttp_deferred_on_abort(job->deferred, on_pieces_abort, job);
    if (uvhttp_deferred_run(job->deferred, start_pieces, job) != UVHTTP_OK) uvhttp_deferred_release(job->deferred);
}

/* --- deferred --- */

static void send_deferred(void *user) {
    job_t *job = user;
    char *bytes = fake_bytes(fake_byte_out, job->id, job->size);
    uvhttp_deferred_t *handle = job->deferred;
    (void)uvhttp_deferred_send(handle, 200, NULL, bytes, job->size);
    uvhttp_deferred_release(handle); /* job is gone with the request */
    free(bytes);
}

static void deferred(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    job_t *job = begin_with_body(req, res);
    if (!job) return;
    job->deferred = uvhttp_response_defer(res);
    if (!job->deferred) return;
    if (!user || uvhttp_work(server, send_deferred, NULL, job) != UVHTTP_OK) send_deferred(job);
}

/* --- where the bytes of a response are --- */

static void file(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    job_t *job = begin_with_body(req, res);
    if (!job) return;
    int fd = memfd_create("fake", MFD_CLOEXEC);
    char *bytes = fake_bytes(fake_byte_out, job->id, job->size + 3);
    if (pwrite(fd, "abc", 3, 0) != 3 || pwrite(fd, bytes, job->size, 3) != (ssize_t)job->size) abort();
    free(bytes);
    if (uvhttp_response_send_fd(res, 200, NULL, fd, 3, job->size) != UVHTTP_OK) (void)uvhttp_response_empty(res, 503);
}

static void release(void *arg) {
    free(arg);
    atomic_fetch_sub(&fake_held, 1);
}

static void reference(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    job_t *job = begin_with_body(req, res);
    if (!job) return;
    char *bytes = fake_bytes(fake_byte_out, job->id, job->size);
    atomic_fetch_add(&fake_held, 1);
    if (uvhttp_response_send_ref(res, 200, NULL, bytes, job->size, release, bytes) != UVHTTP_OK)
        (void)uvhttp_response_empty(res, 503);
}

static void content(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    job_t *job = begin_with_body(req, res);
    if (!job) return;
    char *bytes = fake_bytes(fake_byte_out, job->id, job->size);
    uvhttp_shared_body_t *shared;
    int status = uvhttp_shared_body_new(bytes, job->size, &shared);
    free(bytes);
    if (status == UVHTTP_OK) {
        status = uvhttp_response_send_shared_body(res, 200, NULL, shared);
        uvhttp_shared_body_release(shared);
    }
    if (status != UVHTTP_OK) (void)uvhttp_response_empty(res, 503);
}

/* --- the routes --- */

void fake_routes_reset(void) {
    for (int i = 0; i < FAKE_ROUTES_IDS; i++) atomic_store(&fake_dones[i], 0);
    atomic_store(&fake_wrong_bytes, 0);
    atomic_store(&fake_held, 0);
}

void fake_routes_add(serving_t *serving) {
    static char on_pool;
    static const struct {
        uvhttp_handler_cb handler;
        uvhttp_exec_t exec;
        bool stream_body, live_body;
        void *user;
    } routes[FAKE_MODE_COUNT] = {
        [FAKE_BUFFERED] = {.handler = buffered, .exec = UVHTTP_EXEC_LOOP},
        [FAKE_STREAMED] = {.handler = streamed, .exec = UVHTTP_EXEC_LOOP, .stream_body = true},
        [FAKE_PAUSED] = {.handler = paused, .exec = UVHTTP_EXEC_LOOP, .stream_body = true},
        [FAKE_WORKER] = {.handler = buffered, .exec = UVHTTP_EXEC_WORKER},
        [FAKE_SPOOLED] = {.handler = read_all, .exec = UVHTTP_EXEC_WORKER, .stream_body = true},
        [FAKE_LIVE] = {.handler = read_all, .exec = UVHTTP_EXEC_WORKER, .stream_body = true, .live_body = true},
        [FAKE_COROUTINE] = {.handler = coroutine, .exec = UVHTTP_EXEC_COROUTINE, .stream_body = true},
        [FAKE_DEFERRED] = {.handler = deferred, .exec = UVHTTP_EXEC_LOOP},
        [FAKE_POOLED] = {.handler = deferred, .exec = UVHTTP_EXEC_LOOP, .user = &on_pool},
        [FAKE_FILE] = {.handler = file, .exec = UVHTTP_EXEC_LOOP},
        [FAKE_REFERENCE] = {.handler = reference, .exec = UVHTTP_EXEC_LOOP},
        [FAKE_CONTENT] = {.handler = content, .exec = UVHTTP_EXEC_LOOP},
        [FAKE_PIECES] = {.handler = pieces, .exec = UVHTTP_EXEC_LOOP},
    };
    server = serving->server;
    for (int mode = 0; mode < FAKE_MODE_COUNT; mode++) {
        char pattern[64];
        snprintf(pattern, sizeof pattern, "/%s/:id/:size", fake_mode_names[mode]);
        uvhttp_route_t *route =
            uvhttp_route(server, UVHTTP_ANY, pattern, routes[mode].handler, routes[mode].user, routes[mode].exec);
        assert_non_null(route);
        const uvhttp_route_options_t options = {.stream_body = routes[mode].stream_body,
                                                .live_body = routes[mode].live_body};
        assert_int_equal(uvhttp_route_options(route, &options), UVHTTP_OK);
    }
}
