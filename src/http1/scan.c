/* Owns: the choice of the level of vector instructions at run time. May include: base. */
#include "http1/scan.h"

_Atomic(const uvhttp__http1_scanner_t *) uvhttp__http1_scanner_current;

static const uvhttp__http1_scanner_t *find_scanner(uvhttp__http1_simd_t level) {
    bool any = level == UVHTTP__HTTP1_SIMD_AUTO;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if ((any || level == UVHTTP__HTTP1_SIMD_AVX2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt"))
        return &uvhttp__http1_scanner_avx2;
    if ((any || level == UVHTTP__HTTP1_SIMD_SSE42) && __builtin_cpu_supports("sse4.2") &&
        __builtin_cpu_supports("popcnt"))
        return &uvhttp__http1_scanner_sse42;
#elif defined(__aarch64__)
    if (any || level == UVHTTP__HTTP1_SIMD_NEON) return &uvhttp__http1_scanner_neon;
#endif
    if (any || level == UVHTTP__HTTP1_SIMD_SCALAR) return &uvhttp__http1_scanner_scalar;
    return NULL;
}

const uvhttp__http1_scanner_t *uvhttp__http1_scanner_choose(void) {
    const uvhttp__http1_scanner_t *scanner = find_scanner(UVHTTP__HTTP1_SIMD_AUTO);
    atomic_store_explicit(&uvhttp__http1_scanner_current, scanner, memory_order_relaxed);
    return scanner;
}

int uvhttp__http1_simd_select(uvhttp__http1_simd_t level) {
    const uvhttp__http1_scanner_t *scanner = find_scanner(level);
    if (scanner == NULL) return UVHTTP_E_UNSUPPORTED;
    atomic_store_explicit(&uvhttp__http1_scanner_current, scanner, memory_order_relaxed);
    return 0;
}

const char *uvhttp__http1_simd_name(void) {
    return http1_scanner()->name;
}
