/* Owns: from a message to a line: threshold, rate, escaping, where it goes. May include: base. */
#include "obs/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "obs/trace.h"

#ifdef NDEBUG
#define LEVEL_DEFAULT UVHTTP_LOG_LEVEL_WARN
#else
#define LEVEL_DEFAULT UVHTTP_LOG_LEVEL_INFO
#endif
#define LEVEL_UNSET (-1)
#define RATE_MAX 1000000u

static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR", "NONE"};

int uvhttp_log_threshold = LEVEL_UNSET; /* by __atomic only: the header is for C++ as well, which has no _Atomic */

static _Atomic uint32_t rate_limit = UVHTTP_MAX_LOGS_PER_SECOND; /* 0: none */
/* The second that is being counted, and above it how many messages asked: second << 32 | count. What the count has
 * above the limit was suppressed and has not been reported. */
static _Atomic uint64_t window;
static _Atomic(uint64_t (*)(void)) test_clock;

/* The callback: changed and called under the mutex; the flag spares stderr the mutex. */
static pthread_mutex_t callback_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool callback_set;
static uvhttp_log_cb callback;
static void *callback_user;
static _Thread_local bool inside; /* this thread is in the callback */

/* --- level --- */

int uvhttp_log_level_parse(const char *text, uvhttp_log_level_t *level) {
    if (!text || !level) return UVHTTP_E_INVALID;
    for (int i = UVHTTP_LOG_LEVEL_DEBUG; i <= UVHTTP_LOG_LEVEL_NONE; i++) {
        if (!uvhttp__str_equal_nocase(uvhttp__str_from(text), uvhttp__str_from(names[i]))) continue;
        *level = (uvhttp_log_level_t)i;
        return UVHTTP_OK;
    }
    return UVHTTP_E_INVALID;
}

const char *uvhttp_log_level_name(uvhttp_log_level_t level) {
    return (unsigned)level <= UVHTTP_LOG_LEVEL_NONE ? names[level] : "?";
}

int uvhttp_log_set_level(uvhttp_log_level_t level) {
    if ((unsigned)level > UVHTTP_LOG_LEVEL_NONE) return UVHTTP_E_INVALID;
    __atomic_store_n(&uvhttp_log_threshold, (int)level, __ATOMIC_RELAXED);
    return UVHTTP_OK;
}

/* The first who needs the level reads the environment; uvhttp_log_set_level wins over it at any time. */
static void level_from_environment(void) {
    const char *text = getenv("UVHTTP_LOG_LEVEL");
    uvhttp_log_level_t level = LEVEL_DEFAULT;
    bool wrong = text && *text && uvhttp_log_level_parse(text, &level) != UVHTTP_OK;
    int unset = LEVEL_UNSET;
    bool first = __atomic_compare_exchange_n(&uvhttp_log_threshold, &unset, (int)level, false, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED);
    if (first && wrong)
        UVHTTP_LOG_WARN("log: UVHTTP_LOG_LEVEL is \"%.64s\", which is none of debug, info, warn, error, none; using %s",
                        text, names[level]);
}

uvhttp_log_level_t uvhttp_log_get_level(void) {
    int level = __atomic_load_n(&uvhttp_log_threshold, __ATOMIC_RELAXED);
    if (level == LEVEL_UNSET) {
        level_from_environment();
        level = __atomic_load_n(&uvhttp_log_threshold, __ATOMIC_RELAXED);
    }
    return (uvhttp_log_level_t)level;
}

/* --- clock --- */

void uvhttp__log_set_clock(uint64_t (*unix_ns)(void)) {
    atomic_store(&test_clock, unix_ns);
}

static uint64_t clock_now_ns(void) {
    uint64_t (*clock)(void) = atomic_load_explicit(&test_clock, memory_order_relaxed);
    if (clock) return clock();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- line --- */

/* Bytes at `text` that must not reach a terminal or a log file as they are: C0, DEL, and C1 in UTF-8. 0 if none. */
static size_t control_size(const char *text, const char *end) {
    uint8_t c = (uint8_t)*text;
    if (c < 0x20 || c == 0x7f) return 1;
    return c == 0xc2 && end - text > 1 && ((uint8_t)text[1] & 0xe0) == 0x80 ? 2 : 0;
}

static int escape(char *out, size_t capacity, const char *control, size_t size) {
    switch (*control) {
        case '\n': return snprintf(out, capacity, "\\n");
        case '\r': return snprintf(out, capacity, "\\r");
        case '\t': return snprintf(out, capacity, "\\t");
        default: break;
    }
    if (size == 1) return snprintf(out, capacity, "\\x%02x", (uint8_t)control[0]);
    return snprintf(out, capacity, "\\x%02x\\x%02x", (uint8_t)control[0], (uint8_t)control[1]);
}

/* Copies `text` into out[UVHTTP_LOG_MESSAGE_MAX + 1], escaped and terminated, and returns its size. Ends in "..." if it
 * does not fit or `cut` says that there was more. */
static size_t clean(char *out, const char *text, size_t size, bool cut) {
    size_t used = 0, whole = 0; /* whole: how much may stay when the dots are added */
    const char *end = text + size;
    while (text < end) {
        size_t control = control_size(text, end);
        char piece[16] = {*text};
        size_t length = control ? (size_t)escape(piece, sizeof piece, text, control) : 1;
        if (used + length > UVHTTP_LOG_MESSAGE_MAX) {
            cut = true;
            break;
        }
        bool boundary = ((uint8_t)*text & 0xc0) != 0x80; /* not within a UTF-8 sequence */
        if (boundary && used <= UVHTTP_LOG_MESSAGE_MAX - 3) whole = used;
        memcpy(out + used, piece, length);
        used += length;
        text += control ? control : 1;
    }
    if (cut) {
        memcpy(out + whole, "...", 3);
        used = whole + 3;
    }
    out[used] = '\0';
    return used;
}

/* One write(2) per line, so that lines of several threads and processes do not mix. */
static void write_stderr(uvhttp_log_level_t level, const char *message, uint64_t now_ns) {
    char line[UVHTTP_LOG_MESSAGE_MAX + 64];
    time_t seconds = (time_t)(now_ns / 1000000000u);
    struct tm utc = {0};
    gmtime_r(&seconds, &utc);
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    int written = snprintf(line + used, sizeof line - used, ".%03uZ %-5s %s\n", (unsigned)(now_ns / 1000000u % 1000u),
                           uvhttp_log_level_name(level), message);
    assert(written > 0 && used + (size_t)written < sizeof line);
    size_t size = used + (size_t)written;
    for (const char *at = line; size > 0;) {
        ssize_t n = write(STDERR_FILENO, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return; /* nothing can be reported */
        at += n;
        size -= (size_t)n;
    }
}

static void emit(uvhttp_log_level_t level, const char *message, size_t size, uint64_t now_ns) {
    if (atomic_load_explicit(&callback_set, memory_order_acquire)) {
        pthread_mutex_lock(&callback_mutex);
        bool called = callback != NULL;
        if (called) {
            inside = true;
            callback(level, message, size, callback_user);
            inside = false;
        }
        pthread_mutex_unlock(&callback_mutex);
        if (called) return;
    }
    write_stderr(level, message, now_ns);
}

int uvhttp_log_set_callback(uvhttp_log_cb cb, void *user) {
    if (inside) return UVHTTP_E_STATE;
    pthread_mutex_lock(&callback_mutex);
    callback = cb;
    callback_user = user;
    atomic_store_explicit(&callback_set, cb != NULL, memory_order_release);
    pthread_mutex_unlock(&callback_mutex);
    return UVHTTP_OK;
}

/* --- rate --- */

/* Whether one more message may pass in this second; *suppressed: how many of the second before did not. */
static bool admit(uint64_t now_ns, uint32_t *suppressed) {
    uint32_t limit = atomic_load_explicit(&rate_limit, memory_order_relaxed);
    uint32_t now = (uint32_t)(now_ns / 1000000000u);
    uint64_t old = atomic_load_explicit(&window, memory_order_relaxed), next;
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
    } while (!atomic_compare_exchange_weak_explicit(&window, &old, next, memory_order_relaxed, memory_order_relaxed));
    return passes;
}

static void emit_suppressed(uint32_t count, uint64_t now_ns) {
    char message[96];
    int size = snprintf(message, sizeof message, "log: suppressed %u message%s in the last second", (unsigned)count,
                        count == 1 ? "" : "s");
    emit(UVHTTP_LOG_LEVEL_WARN, message, (size_t)size, now_ns);
}

void uvhttp__log_flush(void) {
    if (inside) return;
    int saved_errno = errno;
    uint32_t limit = atomic_load_explicit(&rate_limit, memory_order_relaxed), count;
    uint64_t old = atomic_load_explicit(&window, memory_order_relaxed);
    do {
        count = (uint32_t)old;
        if (limit == 0 || count <= limit) return;
    } while (!atomic_compare_exchange_weak_explicit(&window, &old, old - (count - limit), memory_order_relaxed,
                                                    memory_order_relaxed));
    emit_suppressed(count - limit, clock_now_ns());
    errno = saved_errno;
}

int uvhttp_log_set_rate_limit(uint32_t per_second) {
    if (per_second > RATE_MAX) return UVHTTP_E_INVALID;
    uvhttp__log_flush(); /* what was counted was counted against the old limit */
    atomic_store_explicit(&window, 0, memory_order_relaxed);
    atomic_store_explicit(&rate_limit, per_second, memory_order_relaxed);
    return UVHTTP_OK;
}

/* --- message --- */

/* The trace that the thread works for, at the end of the line if it fits. Returns its size. */
static size_t put_trace(char message[UVHTTP_LOG_MESSAGE_MAX + 1], size_t size) {
    static const char name[] = " trace_id=";
    enum { TRACE_SIZE = sizeof name - 1 + 2 * UVHTTP__TRACE_ID_SIZE };
    const uvhttp__trace_context_t *trace = uvhttp__trace_here();
    if (!trace || size + TRACE_SIZE > UVHTTP_LOG_MESSAGE_MAX) return 0;
    memcpy(message + size, name, sizeof name - 1);
    uvhttp__trace_hex(trace->trace_id, UVHTTP__TRACE_ID_SIZE, message + size + sizeof name - 1);
    message[size + TRACE_SIZE] = '\0';
    return TRACE_SIZE;
}

void uvhttp_log(uvhttp_log_level_t level, const char *format, ...) {
    if (inside || (unsigned)level >= UVHTTP_LOG_LEVEL_NONE || level < uvhttp_log_get_level()) return;
    int saved_errno = errno;
    uint64_t now_ns = clock_now_ns();
    uint32_t suppressed;
    if (!admit(now_ns, &suppressed)) {
        errno = saved_errno;
        return;
    }
    if (suppressed) emit_suppressed(suppressed, now_ns);
    char text[UVHTTP_LOG_MESSAGE_MAX + 1], message[UVHTTP_LOG_MESSAGE_MAX + 1];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (wanted < 0) wanted = snprintf(text, sizeof text, "log: a message could not be formatted");
    bool cut = (size_t)wanted >= sizeof text;
    size_t size = clean(message, text, cut ? sizeof text - 1 : (size_t)wanted, cut);
    size += put_trace(message, size);
    emit(level, message, size, now_ns);
    errno = saved_errno;
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
