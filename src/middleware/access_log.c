/* Owns: the access log as a middleware: its options, and what a loop does for it. May include: message, base, obs. */
#include "middleware/access_log.h"
#include "base/sized.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp/auth.h>
#include <uvhttp/log.h>
#include <uvhttp/request_id.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "base/thread.h"
#include "middleware/middleware.h"

#define NAME "access_log"
#define RING_SIZE_MIN 65536u
#define RING_SIZE_MAX (1u << 30)
#define FLUSH_MS_MAX 60000u
#define STATUS_GONE 499 /* no status of HTTP: the client has gone before there was one */

/* --- whose ring --- */

/* Numbers of logs, never used twice, as those of threads: addresses are. */
static uint64_t next_number(void) {
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static _Thread_local struct {
    uint64_t log;
    uvhttp__entry_ring_t *ring;
} latest; /* that this thread used */

/* Adds a ring, and starts the log's thread with the first. NULL if one of them is unavailable: it is tried again. */
static uvhttp__entry_ring_t *add_ring(uvhttp__access_log_t *log) {
    uvhttp__entry_ring_t *ring = uvhttp__entry_ring_new(log->ring_size);
    if (!ring) return NULL;
    ring->owner = uvhttp__thread_number();
    pthread_mutex_lock(&log->lock);
    if (!log->running) log->running = uvhttp__access_log_start(log) == UVHTTP_OK;
    bool running = log->running;
    if (running) {
        ring->next = atomic_load_explicit(&log->rings, memory_order_relaxed);
        atomic_store_explicit(&log->rings, ring, memory_order_release);
    }
    pthread_mutex_unlock(&log->lock);
    if (running) return ring;
    uvhttp__entry_ring_free(ring);
    return NULL;
}

static uvhttp__entry_ring_t *find_ring(uvhttp__access_log_t *log) {
    const uint64_t thread = uvhttp__thread_number();
    uvhttp__entry_ring_t *ring = atomic_load_explicit(&log->rings, memory_order_acquire);
    while (ring && ring->owner != thread) ring = ring->next;
    if (!ring) ring = add_ring(log);
    if (ring) {
        latest.log = log->number;
        latest.ring = ring;
    }
    return ring;
}

/* --- requests --- */

/* What the client has got: the response, one of the server in its place, or none. */
static void describe_end(uvhttp_response_t *res, int status, uvhttp__entry_t *entry) {
    bool refused;
    int got = uvhttp__response_outcome(res, &refused);
    entry->status = (uint16_t)(got ? got : STATUS_GONE);
    entry->bytes = got && !refused ? res->sent_size : 0;
    entry->aborted = status != UVHTTP_OK && !refused;
}

static void fill_source(const uvhttp__access_log_t *log, uvhttp_response_t *res, int status,
                        uvhttp__entry_source_t *source) {
    uvhttp_request_t *req = uvhttp_response_request(res);
    uvhttp__entry_t *entry = &source->entry;
    uint64_t now_ns;
    entry->client = uvhttp__request_client(req)->address;
    req->ops->times(req, &entry->start_ns, &now_ns);
    entry->duration_ns = now_ns - entry->start_ns;
    describe_end(res, status, entry);
    entry->version = (uint8_t)uvhttp_request_http_version(req);
    uvhttp_str_t *fields = source->fields;
    if (uvhttp_request_method_text(req).size > 0) fields[UVHTTP__ENTRY_METHOD] = uvhttp_request_method_text(req);
    if (uvhttp_request_target(req).size > 0) fields[UVHTTP__ENTRY_TARGET] = uvhttp_request_target(req);
    fields[UVHTTP__ENTRY_USER] = uvhttp_auth_user(req);
    if (log->format == UVHTTP_ACCESS_LOG_COMMON) return;
    fields[UVHTTP__ENTRY_REFERER] = uvhttp_request_header(req, "Referer");
    fields[UVHTTP__ENTRY_AGENT] = uvhttp_request_header(req, "User-Agent");
    if (log->format == UVHTTP_ACCESS_LOG_COMBINED) return;
    if (uvhttp_request_client_host(req).size > 0) fields[UVHTTP__ENTRY_HOST] = uvhttp_request_client_host(req);
    fields[UVHTTP__ENTRY_ID] = uvhttp_request_id_get(req);
    const uvhttp__trace_context_t *trace = uvhttp__request_trace_context(req);
    if (!trace) return;
    uvhttp__trace_hex(trace->trace_id, UVHTTP__TRACE_ID_SIZE, source->trace_id);
    fields[UVHTTP__ENTRY_TRACE] = (uvhttp_str_t){source->trace_id, sizeof source->trace_id};
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    uvhttp__access_log_t *log = user;
    uvhttp__entry_ring_t *ring = latest.log == log->number ? latest.ring : find_ring(log);
    if (!ring) {
        atomic_fetch_add_explicit(&log->homeless, 1, memory_order_relaxed);
        uvhttp__middleware_count(uvhttp_response_request(res), access_log_dropped);
        return;
    }
    uvhttp__entry_source_t source;
    memset(source.fields, 0, sizeof source.fields);
    fill_source(log, res, status, &source);
    uint64_t waiting = uvhttp__entry_ring_put(ring, &source);
    if (waiting == 0) uvhttp__middleware_count(uvhttp_response_request(res), access_log_dropped);
    atomic_thread_fence(memory_order_seq_cst); /* the entry is there before we look whether somebody sleeps */
    bool half = waiting > log->ring_size / 2, kick = half && !ring->kicked;
    ring->kicked = half;
    if (kick || (atomic_load_explicit(&log->asleep, memory_order_relaxed) && atomic_exchange(&log->asleep, false)))
        sem_post(&log->wake);
}

static void note(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    /* Now, because the connection can be gone when the response is aborted. */
    (void)uvhttp__request_client(req);
    if (uvhttp_response_on_done(res, on_done, user) == UVHTTP_OK) return;
    uvhttp__access_log_t *log = user;
    atomic_fetch_add_explicit(&log->homeless, 1, memory_order_relaxed);
    uvhttp__middleware_count(req, access_log_dropped);
}

static uvhttp_flow_t run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    note(req, res, user);
    return UVHTTP_NEXT;
}

/* --- making it --- */

static void free_log(uvhttp__access_log_t *log) {
    uvhttp__entry_ring_t *next;
    for (uvhttp__entry_ring_t *ring = atomic_load(&log->rings); ring; ring = next) {
        next = ring->next;
        uvhttp__entry_ring_free(ring);
    }
    if (log->owns_fd && log->fd >= 0) close(log->fd);
    sem_destroy(&log->wake);
    pthread_mutex_destroy(&log->lock);
    uvhttp__free(log->path);
    uvhttp__free(log);
}

static void destroy(void *user) {
    uvhttp__access_log_t *log = user;
    if (log->running) uvhttp__access_log_stop(log);
    free_log(log);
}

/* NULL, or what is wrong. */
static const char *wrong_option(const uvhttp_access_log_options_t *options) {
    if ((unsigned)options->format > UVHTTP_ACCESS_LOG_JSON) return "format: expected a UVHTTP_ACCESS_LOG_* value";
    if (options->fd < 0) return "fd is negative";
    if (options->ring_size != 0 && (options->ring_size < RING_SIZE_MIN || options->ring_size > RING_SIZE_MAX ||
                                    (options->ring_size & (options->ring_size - 1)) != 0))
        return "ring_size: expected a power of two, 65536..1073741824, or 0 for the default";
    if (options->flush_ms > FLUSH_MS_MAX) return "flush_ms: expected 1..60000, or 0 for the default";
    return NULL;
}

static uvhttp__access_log_t *make(const uvhttp_access_log_options_t *options) {
    uvhttp__access_log_t *log = uvhttp__calloc(1, sizeof *log);
    if (!log) return NULL;
    pthread_mutex_init(&log->lock, NULL);
    sem_init(&log->wake, 0, 0);
    log->number = next_number();
    log->format = options->format;
    log->ring_size = options->ring_size ? options->ring_size : 1u << 20;
    log->flush_ms = options->flush_ms ? options->flush_ms : 200;
    log->write = options->write;
    log->user = options->user;
    log->fd = options->fd ? options->fd : STDOUT_FILENO;
    if (options->write || !options->path) return log;
    size_t size = strlen(options->path) + 1;
    log->path = uvhttp__malloc(size);
    if (log->path) {
        memcpy(log->path, options->path, size);
        return log;
    }
    free_log(log);
    return NULL;
}

static void reload(void *user) {
    (void)uvhttp_access_log_reopen((uvhttp_middleware_t){.run = run, .user = user}); /* one without a path stays */
}

uvhttp_middleware_t uvhttp_access_log_sized(const uvhttp_access_log_options_t *options, size_t options_size) {
    uvhttp_access_log_options_t full;
    if (!uvhttp__sized_read(&full, sizeof full, options, options_size))
        return uvhttp__middleware_refused(NAME, "%s", UVHTTP__SIZED_NEWER);
    options = &full;
    const char *fault = wrong_option(options);
    if (fault) return uvhttp__middleware_refused(NAME, "%s", fault);
    uvhttp__access_log_t *log = make(options);
    if (!log) return uvhttp__middleware_refused(NAME, "out of memory");
    if (log->path) {
        log->fd = uvhttp__access_log_open(log);
        log->owns_fd = true;
        int error = errno;
        if (log->fd < 0 && uvhttp__access_log_unread(log, error)) {
            UVHTTP_LOG_WARN("access_log: the FIFO \"%.300s\" has no reader; lines are lost until it has one",
                            log->path);
        } else if (log->fd < 0) {
            free_log(log);
            return uvhttp__middleware_refused(NAME, "cannot open path \"%.300s\": %s", options->path,
                                              strerrordesc_np(error));
        }
    }
    return (uvhttp_middleware_t){.run = run, .user = log, .destroy = destroy, .reload = reload, .on_refused = note};
}

/* --- the rest --- */

int uvhttp_access_log_reopen(uvhttp_middleware_t middleware) {
    if (middleware.run != run) return UVHTTP_E_INVALID;
    uvhttp__access_log_t *log = middleware.user;
    if (!log->path) return UVHTTP_E_INVALID;
    atomic_store(&log->reopen_wanted, true);
    sem_post(&log->wake);
    return UVHTTP_OK;
}

int uvhttp_access_log_stats_sized(uvhttp_middleware_t middleware, uvhttp_access_log_stats_t *stats, size_t stats_size) {
    if (middleware.run != run || !stats) return UVHTTP_E_INVALID;
    uvhttp__access_log_t *log = middleware.user;
    uvhttp_access_log_stats_t full = {.lines = atomic_load(&log->lines),
                                      .bytes = atomic_load(&log->bytes),
                                      .dropped = atomic_load(&log->homeless),
                                      .failed = atomic_load(&log->failed),
                                      .reopened = atomic_load(&log->reopened)};
    for (uvhttp__entry_ring_t *ring = atomic_load_explicit(&log->rings, memory_order_acquire); ring; ring = ring->next)
        full.dropped += uvhttp__entry_ring_dropped(ring);
    uvhttp__sized_write(stats, stats_size, &full, sizeof full);
    return UVHTTP_OK;
}
