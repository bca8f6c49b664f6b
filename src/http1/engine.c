/* Owns: the byte classes, the choice of the level of vector instructions at run time, and the parts of scanner and
 * tokenizer that are the same on every level. May include: base. */
#include "http1/engine.h"

/* Punctuation of RFC 9110 tchar and RFC 3986; digits and letters are filled in as ranges below. */
#define VISIBLE (CLASS_VALUE | CLASS_TARGET)
#define PLAIN (VISIBLE | CLASS_TOKEN | CLASS_REGNAME)
#define DIGIT (PLAIN | CLASS_DIGIT | CLASS_HEX)
#define HEX (PLAIN | CLASS_HEX)
/* Runs of entries with one value: ISO C has no range designator. */
#define RUN2(c, x) [(c)] = (x), [(c) + 1] = (x)
#define RUN4(c, x) RUN2(c, x), RUN2((c) + 2, x)
#define RUN8(c, x) RUN4(c, x), RUN4((c) + 4, x)
#define RUN16(c, x) RUN8(c, x), RUN8((c) + 8, x)
#define RUN64(c, x) RUN16(c, x), RUN16((c) + 16, x), RUN16((c) + 32, x), RUN16((c) + 48, x)

const uint8_t uvhttp__http1_class[256] = {
    ['\t'] = CLASS_VALUE,
    [' '] = CLASS_VALUE,
    ['!'] = PLAIN,
    ['"'] = VISIBLE,
    ['#'] = CLASS_VALUE | CLASS_TOKEN,
    ['$'] = PLAIN,
    ['%'] = VISIBLE | CLASS_TOKEN,
    ['&'] = PLAIN,
    ['\''] = PLAIN,
    ['('] = VISIBLE | CLASS_REGNAME,
    [')'] = VISIBLE | CLASS_REGNAME,
    ['*'] = PLAIN,
    ['+'] = PLAIN,
    [','] = VISIBLE,
    ['-'] = PLAIN,
    ['.'] = PLAIN,
    ['/'] = VISIBLE,
    RUN8('0', DIGIT),
    RUN2('8', DIGIT),
    [':'] = VISIBLE,
    [';'] = VISIBLE | CLASS_REGNAME,
    ['<'] = VISIBLE,
    ['='] = VISIBLE | CLASS_REGNAME,
    ['>'] = VISIBLE,
    ['?'] = VISIBLE,
    ['@'] = VISIBLE,
    RUN4('A', HEX),
    RUN2('E', HEX),
    RUN16('G', PLAIN),
    RUN4('W', PLAIN),
    ['['] = VISIBLE,
    ['\\'] = VISIBLE,
    [']'] = VISIBLE,
    ['^'] = VISIBLE | CLASS_TOKEN,
    ['_'] = PLAIN,
    ['`'] = VISIBLE | CLASS_TOKEN,
    RUN4('a', HEX),
    RUN2('e', HEX),
    RUN16('g', PLAIN),
    RUN4('w', PLAIN),
    ['{'] = VISIBLE,
    ['|'] = VISIBLE | CLASS_TOKEN,
    ['}'] = VISIBLE,
    ['~'] = PLAIN,
    RUN64(0x80, CLASS_VALUE),
    RUN64(0xc0, CLASS_VALUE),
};

_Atomic(const uvhttp__http1_engine_t *) uvhttp__http1_engine_current;

static const uvhttp__http1_engine_t *find_engine(uvhttp__http1_simd_t level) {
    bool any = level == UVHTTP__HTTP1_SIMD_AUTO;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if ((any || level == UVHTTP__HTTP1_SIMD_AVX2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt"))
        return &uvhttp__http1_engine_avx2;
    if ((any || level == UVHTTP__HTTP1_SIMD_SSE42) && __builtin_cpu_supports("sse4.2") &&
        __builtin_cpu_supports("popcnt"))
        return &uvhttp__http1_engine_sse42;
#elif defined(__aarch64__)
    if (any || level == UVHTTP__HTTP1_SIMD_NEON) return &uvhttp__http1_engine_neon;
#endif
    if (any || level == UVHTTP__HTTP1_SIMD_SCALAR) return &uvhttp__http1_engine_scalar;
    return NULL;
}

const uvhttp__http1_engine_t *uvhttp__http1_engine_choose(void) {
    const uvhttp__http1_engine_t *engine = find_engine(UVHTTP__HTTP1_SIMD_AUTO);
    atomic_store_explicit(&uvhttp__http1_engine_current, engine, memory_order_relaxed);
    return engine;
}

int uvhttp__http1_simd_select(uvhttp__http1_simd_t level) {
    const uvhttp__http1_engine_t *engine = find_engine(level);
    if (engine == NULL) return UVHTTP_E_UNSUPPORTED;
    atomic_store_explicit(&uvhttp__http1_engine_current, engine, memory_order_relaxed);
    return 0;
}

const char *uvhttp__http1_simd_name(void) {
    return http1_engine()->name;
}

int uvhttp__http1_fault(const char *data, size_t size, size_t pos, int otherwise) {
    if (pos >= size) return UVHTTP_E_INVALID;
    if (data[pos] == '\n') return UVHTTP_E_HTTP_BARE_LF;
    if (data[pos] != '\r') return otherwise;
    if (pos + 1 >= size) return UVHTTP_E_INVALID;
    return data[pos + 1] == '\n' ? otherwise : UVHTTP_E_HTTP_BARE_CR;
}

int uvhttp__http1_version_fault(const char *data, size_t size, size_t pos) {
    static const char pattern[] = "HTTP/#.#\r\n"; /* '#' stands for a digit */
    for (size_t i = 0; i < sizeof pattern - 1; ++i, ++pos) {
        if (pos >= size) return UVHTTP_E_INVALID;
        bool fits = pattern[i] == '#' ? is_class(data[pos], CLASS_DIGIT) : data[pos] == pattern[i];
        if (!fits && pattern[i] == '\n') return UVHTTP_E_HTTP_BARE_CR;
        if (!fits) return uvhttp__http1_fault(data, size, pos, UVHTTP_E_HTTP_VERSION);
    }
    return UVHTTP_E_HTTP_VERSION_UNSUPPORTED;
}

bool uvhttp__http1_plain_path(const char *path, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        if (path[i] == '%') return false;
        if (path[i] != '/') continue;
        size_t rest = size - i - 1;
        const char *segment = path + i + 1;
        if (rest == 0 || (segment[0] != '/' && segment[0] != '.')) continue;
        if (segment[0] == '/') return false;
        size_t dots = rest > 1 && segment[1] == '.' ? 2 : 1;
        if (rest == dots || segment[dots] == '/') return false;
    }
    return true;
}

int uvhttp__http1_skip_empty_lines(uvhttp__http1_scan_t *scan, const char *data, size_t size) {
    for (;;) {
        size_t at = scan->head_start;
        if (at >= size) return UVHTTP_E_AGAIN;
        if (is_class(data[at], CLASS_TOKEN)) return 0;
        if (data[at] == '\n') return UVHTTP_E_HTTP_BARE_LF;
        if (data[at] != '\r' || at >= 2 * UVHTTP__HTTP1_EMPTY_LINES_MAX) return UVHTTP_E_HTTP_METHOD;
        if (at + 1 >= size) return UVHTTP_E_AGAIN;
        if (data[at + 1] != '\n') return UVHTTP_E_HTTP_BARE_CR;
        scan->head_start += 2;
    }
}
