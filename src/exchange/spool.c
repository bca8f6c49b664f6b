/* Owns: a streaming body that must be complete before a worker thread runs its handler. The first bytes stay in memory.
 * More go to a temporary file without a name, which threads of the pool write. A client that sends slowly occupies a
 * few KiB and a descriptor, and no thread.
 *
 * Access: the loop's thread until the handler's job is submitted to the pool. While `writing`, the memory, the file and
 * `status` belong to the job, and the body is paused. Then the thread that runs the handler, until it returns. */
#include "exchange/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exchange/incoming.h"
#include "exchange/respond.h"

#define CAPACITY_FIRST 4096u

struct uvhttp__spool {
    uvhttp__exchange_t *exchange; /* NULL: it is over */
    uvhttp__service_t *service;
    uvhttp__work_port_t *port;
    void (*ready)(uvhttp__exchange_t *exchange);
    char *memory; /* bytes behind those of the file */
    size_t size, capacity, memory_max;
    uint64_t file_size; /* bytes; counted in service->spooled */
    int fd;             /* -1: no file */
    uvhttp__job_t job;  /* writes the memory, or closes the file */
    uvhttp__timer_t patience;
    int status; /* of the job */
    bool writing;
    bool ended; /* the whole body has come */
    /* The handler's thread. */
    uint64_t file_read;
    size_t memory_read;
    char *piece; /* of the file */
};

/* --- the file; on threads of the pool --- */

static int code_of(int error_number) {
    switch (error_number) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return UVHTTP_E_UPLOAD_NO_SPACE;
        case EMFILE:
        case ENFILE: return UVHTTP_E_NO_DESCRIPTORS;
        case ENOMEM: return UVHTTP_E_NOMEM;
        default: return UVHTTP_E_IO;
    }
}

static const char *directory_of(const uvhttp__service_t *service) {
    if (*service->config.spool_directory) return service->config.spool_directory;
    const char *directory = getenv("TMPDIR");
    return directory && *directory ? directory : "/var/tmp";
}

/* File systems that have no files without a name say so in several ways. */
static int open_file(const char *directory) {
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/uvhttp-XXXXXX", directory) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

/* Of what is configured. Others, such as a full disk, may be over when a body comes. */
static bool is_of_path(int error_number) {
    switch (error_number) {
        case EACCES:
        case ELOOP:
        case ENAMETOOLONG:
        case ENOENT:
        case ENOTDIR:
        case EPERM:
        case EROFS: return true;
        default: return false;
    }
}

int uvhttp__spool_try(const uvhttp_server_config_t *config) {
    if (!*config->spool_directory || config->spool_size_max == 0) return 0;
    int fd = open_file(config->spool_directory);
    if (fd < 0) return is_of_path(errno) ? errno : 0;
    close(fd);
    return 0;
}

static int write_file(uvhttp__spool_t *spool) {
    if (spool->fd < 0) spool->fd = open_file(directory_of(spool->service));
    if (spool->fd < 0) return code_of(errno);
    for (size_t done = 0; done < spool->size;) {
        off_t at = (off_t)(spool->file_size + done);
        ssize_t written = pwrite(spool->fd, spool->memory + done, spool->size - done, at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? code_of(errno) : UVHTTP_E_UPLOAD_NO_SPACE;
        done += (size_t)written;
    }
    return UVHTTP_OK;
}

static void run_write(uvhttp__job_t *job) {
    uvhttp__spool_t *spool = UVHTTP__CONTAINER_OF(job, uvhttp__spool_t, job);
    spool->status = write_file(spool);
}

void uvhttp__spool_close_file(uvhttp__spool_t *spool) {
    if (spool->fd >= 0) close(spool->fd);
    spool->fd = -1;
}

static void run_close(uvhttp__job_t *job) {
    uvhttp__spool_close_file(UVHTTP__CONTAINER_OF(job, uvhttp__spool_t, job));
}

/* --- the end --- */

static void release(uvhttp__spool_t *spool) {
    uvhttp__spool_close_file(spool);
    atomic_fetch_sub_explicit(&spool->service->spooled, spool->file_size, memory_order_relaxed);
    uvhttp__free(spool->memory);
    uvhttp__free(spool->piece);
    uvhttp__free(spool);
}

static void closed(uvhttp__job_t *job, bool cancelled) {
    (void)cancelled;
    release(UVHTTP__CONTAINER_OF(job, uvhttp__spool_t, job));
}

/* To give back the blocks of a large file takes its time: not on the loop, if a thread can be had. */
static void leave(uvhttp__spool_t *spool) {
    if (spool->fd >= 0) {
        uvhttp__job_init(&spool->job, run_close, closed);
        spool->job.name = "spool";
        if (uvhttp__work_submit(spool->service->work, spool->port, &spool->job) == UVHTTP_OK) return;
    }
    release(spool);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    uvhttp__spool_t *spool = user;
    uvhttp__timer_stop(&spool->port->loop->wheel, &spool->patience);
    spool->exchange = NULL;
    if (!spool->writing) leave(spool);
}

/* --- on the loop --- */

static void fail(uvhttp__spool_t *spool, int code) {
    uvhttp__exchange_t *exchange = spool->exchange;
    uvhttp_response_t *res = &exchange->response;
    uvhttp__counters_error(&exchange->loop->tcp->counters, code);
    int status = code == UVHTTP_E_LIMIT ? 503 : uvhttp_error_http_status(code);
    uvhttp__response_fail_by(res, code, status, uvhttp_error_message(code));
}

/* Counts in what is going to be in the file. */
static bool reserve(uvhttp__spool_t *spool) {
    uint64_t max = spool->service->config.spool_size_max;
    uint64_t before = atomic_fetch_add_explicit(&spool->service->spooled, spool->size, memory_order_relaxed);
    if (before + spool->size <= max) return true;
    atomic_fetch_sub_explicit(&spool->service->spooled, spool->size, memory_order_relaxed);
    uvhttp__counters_add(&spool->exchange->loop->tcp->counters, spool_full, 1);
    return false;
}

static void unreserve(uvhttp__spool_t *spool) {
    atomic_fetch_sub_explicit(&spool->service->spooled, spool->size, memory_order_relaxed);
}

static void written(uvhttp__job_t *job, bool cancelled) {
    uvhttp__spool_t *spool = UVHTTP__CONTAINER_OF(job, uvhttp__spool_t, job);
    uvhttp__timer_stop(&spool->port->loop->wheel, &spool->patience);
    int status = cancelled ? UVHTTP_E_WORK_FULL : spool->status;
    spool->writing = false;
    if (status == UVHTTP_OK)
        spool->file_size += spool->size;
    else
        unreserve(spool);
    spool->size = 0;
    uvhttp__exchange_t *exchange = spool->exchange;
    if (!exchange) {
        leave(spool);
        return;
    }
    if (exchange->responded) return; /* it was refused meanwhile: on_done follows */
    if (spool->ended) uvhttp__response_undefer(&exchange->response);
    if (status != UVHTTP_OK) {
        fail(spool, status);
        uvhttp__exchange_conclude(exchange);
    } else if (spool->ended) {
        spool->ready(exchange);
        uvhttp__exchange_conclude(exchange);
    } else {
        exchange->incoming->piece_max = (uint32_t)spool->memory_max;
        (void)uvhttp_request_resume_body(&exchange->request);
    }
}

static void on_late(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    uvhttp__spool_t *spool = UVHTTP__CONTAINER_OF(timer, uvhttp__spool_t, patience);
    if (uvhttp__work_cancel(spool->service->work, &spool->job) == UVHTTP_OK)
        uvhttp__counters_add(&spool->exchange->loop->tcp->counters, work_queue_timeouts, 1);
}

/* The memory is full: it goes to the file, and the client is held back until then. */
static int flush(uvhttp__spool_t *spool) {
    uvhttp__counters_t *counters = &spool->exchange->loop->tcp->counters;
    if (spool->file_size + spool->size > spool->service->config.spool_size_max) return UVHTTP_E_HTTP_BODY_TOO_LARGE;
    if (!reserve(spool)) return UVHTTP_E_LIMIT;
    if (spool->file_size == 0) uvhttp__counters_add(counters, bodies_spooled, 1);
    uvhttp__job_init(&spool->job, run_write, written);
    spool->job.name = "spool";
    int status = uvhttp__work_submit(spool->service->work, spool->port, &spool->job);
    if (status != UVHTTP_OK) {
        unreserve(spool);
        return status;
    }
    spool->writing = true;
    uvhttp__loop_t *loop = spool->port->loop;
    uint32_t ms = spool->service->config.worker_queue_timeout_ms;
    if (ms != UVHTTP_NEVER) uvhttp__timer_set_after(&loop->wheel, &spool->patience, loop->now_ns, ms);
    (void)uvhttp_request_pause_body(&spool->exchange->request);
    return UVHTTP_OK;
}

static int add(uvhttp__spool_t *spool, uvhttp_str_t data) {
    if (spool->size + data.size > spool->capacity) {
        size_t capacity = spool->capacity > 0 ? 2 * spool->capacity : CAPACITY_FIRST;
        if (capacity < spool->size + data.size) capacity = spool->size + data.size;
        if (capacity > spool->memory_max) capacity = spool->memory_max;
        char *memory = uvhttp__realloc(spool->memory, capacity);
        if (!memory) return UVHTTP_E_NOMEM;
        spool->memory = memory;
        spool->capacity = capacity;
    }
    memcpy(spool->memory + spool->size, data.data, data.size);
    spool->size += data.size;
    spool->exchange->incoming->piece_max = (uint32_t)(spool->memory_max - spool->size);
    return spool->size < spool->memory_max ? UVHTTP_OK : flush(spool);
}

static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)res;
    uvhttp__spool_t *spool = user;
    int status = add(spool, data);
    if (status != UVHTTP_OK) fail(spool, status);
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req;
    uvhttp__spool_t *spool = user;
    if (status != UVHTTP_OK) return; /* on_done follows */
    spool->ended = true;
    if (spool->writing)
        uvhttp__response_redefer(res); /* until the file is written */
    else
        spool->ready(spool->exchange);
}

/* Whether the client announces more than a file may have. What fits into memory needs none. */
static bool is_too_large(const uvhttp_server_config_t *config, uint64_t announced) {
    return announced >= config->spool_memory && announced > config->spool_size_max;
}

int uvhttp__spool_start(uvhttp__exchange_t *exchange, void (*ready)(uvhttp__exchange_t *exchange)) {
    uvhttp__service_t *service = exchange->loop->service;
    if (is_too_large(&service->config, exchange->request.head.content_length)) return UVHTTP_E_HTTP_BODY_TOO_LARGE;
    uvhttp__spool_t *spool = uvhttp__calloc(1, sizeof *spool);
    if (!spool) return UVHTTP_E_NOMEM;
    spool->exchange = exchange;
    spool->service = service;
    spool->port = &exchange->loop->port;
    spool->ready = ready;
    spool->memory_max = service->config.spool_memory;
    spool->fd = -1;
    uvhttp__timer_init(&spool->patience, uvhttp__wheel_kind(&spool->port->loop->wheel, on_late, NULL));
    int status = uvhttp_response_on_done(&exchange->response, on_done, spool);
    if (status != UVHTTP_OK) {
        uvhttp__free(spool);
        return UVHTTP_E_NOMEM;
    }
    exchange->incoming->spool = spool;
    exchange->incoming->piece_max = (uint32_t)spool->memory_max;
    return uvhttp__body_take(exchange, on_data, on_end, spool);
}

/* --- the handler's thread --- */

static int read_file(uvhttp__spool_t *spool, uvhttp_str_t *piece) {
    size_t size = spool->service->config.read_buffer_size;
    if (size > spool->file_size - spool->file_read) size = (size_t)(spool->file_size - spool->file_read);
    if (!spool->piece) spool->piece = uvhttp__malloc(spool->service->config.read_buffer_size);
    if (!spool->piece) return UVHTTP_E_NOMEM;
    ssize_t got;
    do {
        got = pread(spool->fd, spool->piece, size, (off_t)spool->file_read);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return UVHTTP_E_IO;
    spool->file_read += (size_t)got;
    *piece = (uvhttp_str_t){spool->piece, (size_t)got};
    return UVHTTP_OK;
}

int uvhttp__spool_read(uvhttp__spool_t *spool, uvhttp_str_t *piece) {
    if (spool->file_read < spool->file_size) return read_file(spool, piece);
    size_t left = spool->size - spool->memory_read, max = spool->service->config.read_buffer_size;
    if (left == 0) return UVHTTP_E_EOF;
    *piece = (uvhttp_str_t){spool->memory + spool->memory_read, left < max ? left : max};
    spool->memory_read += piece->size;
    return UVHTTP_OK;
}
