/* Owns: the settings of the log that its other files need as well: threshold, form, clock. May include: base. */
#include "obs/log_settings.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/str.h"
#include "obs/log.h"

#ifdef NDEBUG
#define LEVEL_DEFAULT UVHTTP_LOG_LEVEL_WARN
#else
#define LEVEL_DEFAULT UVHTTP_LOG_LEVEL_INFO
#endif
#define LEVEL_UNSET (-1)

static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR", "NONE"};

int uvhttp_log_threshold = LEVEL_UNSET; /* by __atomic only: the header is for C++ as well, which has no _Atomic */

static _Atomic int format_now = LEVEL_UNSET;    /* uvhttp_log_format_t, or not yet read from the environment */
static _Atomic int level_chosen = LEVEL_UNSET;  /* by the program; the configuration of a server may change it */
static _Atomic int format_chosen = LEVEL_UNSET; /* the same */
static _Atomic(const char *) wrong_environment; /* a value that means nothing, until it is reported */
static _Atomic(uint64_t (*)(void)) test_clock;

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

void uvhttp__log_apply_level(uvhttp_log_level_t level) {
    __atomic_store_n(&uvhttp_log_threshold, (int)level, __ATOMIC_RELAXED);
}

int uvhttp_log_set_level(uvhttp_log_level_t level) {
    if ((unsigned)level > UVHTTP_LOG_LEVEL_NONE) return UVHTTP_E_INVALID;
    atomic_store_explicit(&level_chosen, (int)level, memory_order_relaxed);
    uvhttp__log_apply_level(level);
    return UVHTTP_OK;
}

/* *wrong: a value that means nothing; NULL: there is none. */
static uvhttp_log_level_t environment_level(const char **wrong) {
    const char *text = getenv("UVHTTP_LOG_LEVEL");
    uvhttp_log_level_t level = LEVEL_DEFAULT;
    *wrong = text && *text && uvhttp_log_level_parse(text, &level) != UVHTTP_OK ? text : NULL;
    return level;
}

uvhttp_log_level_t uvhttp__log_level_default(void) {
    const char *wrong;
    int level = atomic_load_explicit(&level_chosen, memory_order_relaxed);
    return level != LEVEL_UNSET ? (uvhttp_log_level_t)level : environment_level(&wrong);
}

/* The first who needs the level reads the environment; uvhttp_log_set_level wins over it at any time. */
static void level_from_environment(void) {
    const char *wrong;
    int unset = LEVEL_UNSET, level = (int)environment_level(&wrong);
    bool first =
        __atomic_compare_exchange_n(&uvhttp_log_threshold, &unset, level, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (first && wrong) atomic_store(&wrong_environment, wrong);
}

uvhttp_log_level_t uvhttp__log_level(void) {
    int level = __atomic_load_n(&uvhttp_log_threshold, __ATOMIC_RELAXED);
    if (level == LEVEL_UNSET) {
        level_from_environment();
        level = __atomic_load_n(&uvhttp_log_threshold, __ATOMIC_RELAXED);
    }
    return (uvhttp_log_level_t)level;
}

const char *uvhttp__log_wrong_environment(void) {
    return atomic_exchange(&wrong_environment, NULL);
}

/* --- format --- */

static const char *const format_names[] = {"text", "json"};

int uvhttp_log_format_parse(const char *text, uvhttp_log_format_t *format) {
    if (!text || !format) return UVHTTP_E_INVALID;
    for (int i = UVHTTP_LOG_FORMAT_TEXT; i <= UVHTTP_LOG_FORMAT_JSON; i++) {
        if (!uvhttp__str_equal_nocase(uvhttp__str_from(text), uvhttp__str_from(format_names[i]))) continue;
        *format = (uvhttp_log_format_t)i;
        return UVHTTP_OK;
    }
    return UVHTTP_E_INVALID;
}

void uvhttp__log_apply_format(uvhttp_log_format_t format) {
    atomic_store_explicit(&format_now, (int)format, memory_order_relaxed);
}

int uvhttp_log_set_format(uvhttp_log_format_t format) {
    if ((unsigned)format > UVHTTP_LOG_FORMAT_JSON) return UVHTTP_E_INVALID;
    atomic_store_explicit(&format_chosen, (int)format, memory_order_relaxed);
    uvhttp__log_apply_format(format);
    return UVHTTP_OK;
}

/* As of the level. The configuration names a wrong value: it has the same variable. */
uvhttp_log_format_t uvhttp__log_format_default(void) {
    int chosen = atomic_load_explicit(&format_chosen, memory_order_relaxed);
    uvhttp_log_format_t format = UVHTTP_LOG_FORMAT_TEXT;
    if (chosen != LEVEL_UNSET) return (uvhttp_log_format_t)chosen;
    (void)uvhttp_log_format_parse(getenv("UVHTTP_LOG_FORMAT"), &format);
    return format;
}

uvhttp_log_format_t uvhttp_log_get_format(void) {
    int now = atomic_load_explicit(&format_now, memory_order_relaxed);
    if (now != LEVEL_UNSET) return (uvhttp_log_format_t)now;
    uvhttp_log_format_t format = uvhttp__log_format_default();
    if (!atomic_compare_exchange_strong_explicit(&format_now, &now, (int)format, memory_order_relaxed,
                                                 memory_order_relaxed))
        format = (uvhttp_log_format_t)now;
    return format;
}

/* --- clock --- */

void uvhttp__log_set_clock(uint64_t (*unix_ns)(void)) {
    atomic_store(&test_clock, unix_ns);
}

uint64_t uvhttp__log_now_ns(void) {
    uint64_t (*clock)(void) = atomic_load_explicit(&test_clock, memory_order_relaxed);
    if (clock) return clock();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
