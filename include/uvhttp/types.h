/* Owns: what other public headers need and nothing else: the export mark, the string view, the versions of HTTP, and
 * what this build has. */
#ifndef UVHTTP_TYPES_H
#define UVHTTP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvhttp/features.h>

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
typedef struct uvhttp_str_s {
    const char *data;
    size_t size; /**< bytes */
} uvhttp_str_t;

/* Named here because several headers need them, and C99 allows one typedef of a name: server.h, request.h. */
typedef struct uvhttp_server uvhttp_server_t;
typedef struct uvhttp_request uvhttp_request_t;

/** A version of HTTP, 10 * major + minor: later ones compare as greater. */
typedef enum uvhttp_http_version {
    UVHTTP_HTTP_1_0 = 10,
    UVHTTP_HTTP_1_1 = 11,
    UVHTTP_HTTP_2 = 20,
} uvhttp_http_version_t;

UVHTTP_END_DECLS

#endif
