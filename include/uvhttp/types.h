/* Owns: what every other public header needs and nothing else: the export mark and the string view. */
#ifndef UVHTTP_TYPES_H
#define UVHTTP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define UVHTTP_EXPORT __attribute__((visibility("default")))
#define UVHTTP_PRINTF(position, first) __attribute__((format(printf, position, first)))
#define UVHTTP_MUST_USE __attribute__((warn_unused_result))
#else
#define UVHTTP_EXPORT
#define UVHTTP_PRINTF(position, first)
#define UVHTTP_MUST_USE
#endif

#ifdef __cplusplus
#define UVHTTP_BEGIN_DECLS extern "C" {
#define UVHTTP_END_DECLS }
#else
#define UVHTTP_BEGIN_DECLS
#define UVHTTP_END_DECLS
#endif

UVHTTP_BEGIN_DECLS

/** A view of bytes that somebody else owns: not terminated, may hold NUL, `data` may be NULL when `size` is 0.
 * How long it stays valid is said where a function returns it. */
typedef struct uvhttp_str {
    const char *data;
    size_t size; /**< bytes */
} uvhttp_str_t;

UVHTTP_END_DECLS

#endif
