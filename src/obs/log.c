/* Owns: the way of a message: threshold, rate, and where it goes. May include: base. */
#include "obs/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/sized.h"
#include "obs/log_line.h"
#include "obs/log_settings.h"
#include "obs/log_writer.h"
#include "obs/trace.h"

#define RATE_MAX 1000000u

static _Atomic uint32_t rate_limit = UVHTTP_MAX_LOGS_PER_SECOND; /* 0: none */
/* Per level: the second that is being counted, and how many messages asked: second << 32 | count. What the count has
 * above the limit was suppressed and has not been reported. */
static _Atomic uint64_t windows[UVHTTP_LOG_LEVEL_NONE];
static _Atomic uint64_t suppressed_total;

/* The callback: changed and called under the mutex; the flag spares stderr the mutex. */
static pthread_mutex_t callback_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool callback_set;
static uvhttp_log_cb callback;
static void *callback_user;
static _Thread_local bool inside; /* this thread is in the callback */

uvhttp_log_level_t uvhttp_log_get_level(void) {
    uvhttp_log_level_t level = uvhttp__log_level();
    const char *wrong = uvhttp__log_wrong_environment();
    if (wrong)
        UVHTTP_LOG_WARN("log: UVHTTP_LOG_LEVEL is \"%.64s\", which is none of debug, info, warn, error, none; using %s",
                        wrong, uvhttp_log_level_name(level));
    return level;
}

/* --- destination --- */

#define TRACE_TEXT_SIZE (2 * UVHTTP__TRACE_ID_SIZE + 1)

/* The trace that the thread works for; "" for none. */
static const char *trace_here(char text[TRACE_TEXT_SIZE]) {
    const uvhttp__trace_context_t *trace = uvhttp__trace_here();
    if (trace) uvhttp__trace_hex(trace->trace_id, UVHTTP__TRACE_ID_SIZE, text);
    text[trace ? TRACE_TEXT_SIZE - 1 : 0] = '\0';
    return text;
}

/* At the end of the message, if it fits. Returns the size of both. */
static size_t put_trace(char message[UVHTTP_LOG_MESSAGE_MAX + 1], size_t size) {
    char trace[TRACE_TEXT_SIZE];
    size_t left = UVHTTP_LOG_MESSAGE_MAX + 1 - size;
    int wanted = *trace_here(trace) ? snprintf(message + size, left, " trace_id=%s", trace) : 0;
    if ((size_t)wanted < left) return size + (size_t)wanted;
    message[size] = '\0';
    return size;
}

/* False: there is no callback. */
static bool emit_to_callback(uvhttp_log_level_t level, const char *text, size_t size, bool cut) {
    if (!atomic_load_explicit(&callback_set, memory_order_acquire)) return false;
    char message[UVHTTP_LOG_MESSAGE_MAX + 1];
    size = put_trace(message, uvhttp__log_escape(UVHTTP_LOG_FORMAT_TEXT, text, size, cut, message));
    pthread_mutex_lock(&callback_mutex);
    bool called = callback != NULL;
    if (called) {
        inside = true;
        callback(level, message, size, callback_user);
        inside = false;
    }
    pthread_mutex_unlock(&callback_mutex);
    return called;
}

static void emit_to_stderr(uvhttp_log_level_t level, const char *text, size_t size, bool cut, uint64_t now_ns) {
    uvhttp_log_format_t format = uvhttp_log_get_format();
    char message[UVHTTP_LOG_MESSAGE_MAX + 1], line[UVHTTP__LOG_LINE_MAX], trace[TRACE_TEXT_SIZE];
    (void)uvhttp__log_escape(format, text, size, cut, message);
    uvhttp__log_write(level, line, uvhttp__log_line(format, level, message, trace_here(trace), now_ns, line));
}

static void emit(uvhttp_log_level_t level, const char *text, size_t size, bool cut, uint64_t now_ns) {
    if (!emit_to_callback(level, text, size, cut)) emit_to_stderr(level, text, size, cut, now_ns);
}

/* A child gets the mutex free, or as held by the thread that forks within the callback. */
static void before_fork(void) {
    if (!inside) pthread_mutex_lock(&callback_mutex);
}

static void after_fork(void) {
    if (!inside) pthread_mutex_unlock(&callback_mutex);
}

static void prepare_for_forks(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
}

int uvhttp_log_set_callback(uvhttp_log_cb cb, void *user) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (inside) return UVHTTP_E_STATE;
    pthread_once(&once, prepare_for_forks);
    pthread_mutex_lock(&callback_mutex);
    callback = cb;
    callback_user = user;
    atomic_store_explicit(&callback_set, cb != NULL, memory_order_release);
    pthread_mutex_unlock(&callback_mutex);
    return UVHTTP_OK;
}

/* --- rate --- */

/* Whether one more message of `level` may pass in this second; *suppressed: how many of the second before did not. */
static bool admit(uvhttp_log_level_t level, uint64_t now_ns, uint32_t *suppressed) {
    _Atomic uint64_t *window = &windows[level];
    uint32_t limit = atomic_load_explicit(&rate_limit, memory_order_relaxed);
    uint32_t now = (uint32_t)(now_ns / 1000000000u);
    uint64_t old = atomic_load_explicit(window, memory_order_relaxed), next;
    *suppressed = 0;
    if (limit == 0) return true;
    bool passes;
    do {
        uint32_t second = (uint32_t)(old >> 32), count = (uint32_t)old;
        if (second == now || second == now + 1) { /* +1: another thread was first to see the clock move on */
            passes = count < limit;
            next = old + (count < UINT32_MAX);
            *suppressed = 0;
        } else {
            passes = true;
            next = (uint64_t)now << 32 | 1;
            *suppressed = count > limit ? count - limit : 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(window, &old, next, memory_order_relaxed, memory_order_relaxed));
    if (!passes) atomic_fetch_add_explicit(&suppressed_total, 1, memory_order_relaxed);
    return passes;
}

static void emit_suppressed(uvhttp_log_level_t level, uint32_t count, uint64_t now_ns) {
    char text[128];
    int size = snprintf(text, sizeof text, "log: suppressed %u message%s of level %s in the last second",
                        (unsigned)count, count == 1 ? "" : "s", uvhttp_log_level_name(level));
    emit(UVHTTP_LOG_LEVEL_WARN, text, (size_t)size, false, now_ns);
}

/* Those of a level that have not been reported; they count as reported now. */
static uint32_t take_suppressed(uvhttp_log_level_t level) {
    uint32_t limit = atomic_load_explicit(&rate_limit, memory_order_relaxed), count;
    uint64_t old = atomic_load_explicit(&windows[level], memory_order_relaxed);
    do {
        count = (uint32_t)old;
        if (limit == 0 || count <= limit) return 0;
    } while (!atomic_compare_exchange_weak_explicit(&windows[level], &old, old - (count - limit), memory_order_relaxed,
                                                    memory_order_relaxed));
    return count - limit;
}

void uvhttp__log_report_suppressed(void) {
    if (inside) return;
    int saved_errno = errno;
    for (uvhttp_log_level_t level = UVHTTP_LOG_LEVEL_DEBUG; level < UVHTTP_LOG_LEVEL_NONE; level++) {
        uint32_t count = take_suppressed(level);
        if (count > 0) emit_suppressed(level, count, uvhttp__log_now_ns());
    }
    errno = saved_errno;
}

void uvhttp__log_server_ended(uint32_t wait_ms) {
    uvhttp__log_report_suppressed();
    uvhttp__log_writer_close(wait_ms);
}

int uvhttp_log_flush(uint32_t timeout_ms) {
    uvhttp__log_report_suppressed();
    return uvhttp__log_writer_flush(timeout_ms);
}

int uvhttp_log_stats_sized(uvhttp_log_stats_t *stats, size_t stats_size) {
    if (!stats) return UVHTTP_E_INVALID;
    uvhttp_log_stats_t full = {.suppressed = atomic_load_explicit(&suppressed_total, memory_order_relaxed)};
    uvhttp__log_writer_stats(&full);
    uvhttp__sized_write(stats, stats_size, &full, sizeof full);
    return UVHTTP_OK;
}

int uvhttp_log_set_rate_limit(uint32_t per_second) {
    if (per_second > RATE_MAX) return UVHTTP_E_INVALID;
    uvhttp__log_report_suppressed(); /* what was counted was counted against the old limit */
    for (size_t i = 0; i < UVHTTP_LOG_LEVEL_NONE; i++) atomic_store_explicit(&windows[i], 0, memory_order_relaxed);
    atomic_store_explicit(&rate_limit, per_second, memory_order_relaxed);
    return UVHTTP_OK;
}

/* --- message --- */

/* Returns the size of the text; *cut: it was longer. */
static size_t print(char text[UVHTTP_LOG_MESSAGE_MAX + 1], bool *cut, const char *format, va_list args) {
    int wanted = vsnprintf(text, UVHTTP_LOG_MESSAGE_MAX + 1, format, args);
    if (wanted < 0)
        wanted = snprintf(text, UVHTTP_LOG_MESSAGE_MAX + 1, "log: a message could not be formatted: \"%s\"", format);
    *cut = wanted > UVHTTP_LOG_MESSAGE_MAX;
    return *cut ? UVHTTP_LOG_MESSAGE_MAX : (size_t)wanted;
}

void uvhttp_log(uvhttp_log_level_t level, const char *format, ...) {
    if (inside || (unsigned)level >= UVHTTP_LOG_LEVEL_NONE || level < uvhttp_log_get_level()) return;
    int saved_errno = errno;
    uint64_t now_ns = uvhttp__log_now_ns();
    uint32_t suppressed;
    if (admit(level, now_ns, &suppressed)) {
        if (suppressed) emit_suppressed(level, suppressed, now_ns);
        char text[UVHTTP_LOG_MESSAGE_MAX + 1];
        bool cut;
        va_list args;
        va_start(args, format);
        size_t size = print(text, &cut, format, args);
        va_end(args);
        emit(level, text, size, cut, now_ns);
    }
    errno = saved_errno;
}

void uvhttp__log_notice(const char *format, ...) {
    char text[UVHTTP_LOG_MESSAGE_MAX + 1], line[UVHTTP_LOG_MESSAGE_MAX + 2];
    bool cut;
    va_list args;
    va_start(args, format);
    size_t size = print(text, &cut, format, args);
    va_end(args);
    if (uvhttp_log_get_format() == UVHTTP_LOG_FORMAT_JSON) {
        emit_to_stderr(UVHTTP_LOG_LEVEL_INFO, text, size, cut, uvhttp__log_now_ns());
        return;
    }
    size = uvhttp__log_escape(UVHTTP_LOG_FORMAT_TEXT, text, size, cut, line);
    line[size++] = '\n';
    uvhttp__log_write(UVHTTP_LOG_LEVEL_WARN, line, size);
}

/* --- files that cannot be read --- */

static _Atomic uint64_t file_error_next_ns; /* before it, nothing is said */
static _Atomic uint32_t file_errors_unreported;

static bool may_report_file_error(uint64_t now_ns) {
    uint64_t next_ns = atomic_load_explicit(&file_error_next_ns, memory_order_relaxed);
    return now_ns >= next_ns &&
           atomic_compare_exchange_strong_explicit(&file_error_next_ns, &next_ns, now_ns + 1000000000u,
                                                   memory_order_relaxed, memory_order_relaxed);
}

void uvhttp__log_file_error(int fd, const char *path, uint64_t offset, int error) {
    int saved_errno = errno;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (!may_report_file_error((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec)) {
        atomic_fetch_add_explicit(&file_errors_unreported, 1, memory_order_relaxed);
        errno = saved_errno;
        return;
    }
    char link[32], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = path ? -1 : readlink(link, name, sizeof name - 1);
    if (size >= 0) name[size] = '\0';
    UVHTTP_LOG_ERROR("file: cannot read \"%s\" at byte %llu: %s (%u more such errors since the last line)",
                     path        ? path
                     : size >= 0 ? name
                                 : "a file whose path is not known",
                     (unsigned long long)offset, error ? strerrordesc_np(error) : "it is shorter than it was",
                     (unsigned)atomic_exchange_explicit(&file_errors_unreported, 0, memory_order_relaxed));
    errno = saved_errno;
}
