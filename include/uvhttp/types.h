/* Owns: definitions that the public headers share: the export macro, thread annotations, the string view, HTTP versions
 * and the features of this build. */
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

/* Which thread may call a function. Each declaration names one. For clang's tools they are annotations
 * ("uvhttp_thread:" and the name), for other compilers nothing. A comment on the function may narrow it. */
#if defined(__clang__)
#define UVHTTP_THREAD(name) __attribute__((annotate("uvhttp_thread:" name)))
#else
#define UVHTTP_THREAD(name)
#endif
#define UVHTTP_ANY_THREAD UVHTTP_THREAD("any") /**< any thread, several at once */
#define UVHTTP_OWNER_THREAD                                                                                            \
    UVHTTP_THREAD("owner")                           /**< any thread that owns the object, one at a time: of a request \
                                                        the loop, the worker thread of its handler, or the thread that \
                                                        holds the deferred response */
#define UVHTTP_LOOP_THREAD UVHTTP_THREAD("loop")     /**< the thread of the object's loop: handlers and callbacks */
#define UVHTTP_WORKER_THREAD UVHTTP_THREAD("worker") /**< the worker thread that runs the request's handler */
#define UVHTTP_IN_COROUTINE UVHTTP_THREAD("coroutine") /**< a coroutine, on the thread of its loop */
#define UVHTTP_SETUP_THREAD                                                                                            \
    UVHTTP_THREAD("setup") /**< the thread that registers routes and runs the server, one at                           \
                              a time */
#define UVHTTP_BLOCKING_THREAD UVHTTP_THREAD("blocking") /**< any thread that may block on files, so not a loop's */

#ifdef __cplusplus
#define UVHTTP_BEGIN_DECLS extern "C" {
#define UVHTTP_END_DECLS }
#else
#define UVHTTP_BEGIN_DECLS
#define UVHTTP_END_DECLS
#endif

UVHTTP_BEGIN_DECLS

/** A view of bytes that another object owns. The bytes are not terminated and may contain NUL. `data` may be NULL when
 * `size` is 0. The function that returns a view documents how long it stays valid. */
typedef struct uvhttp_str_s {
    const char *data;
    size_t size; /**< bytes */
} uvhttp_str_t;

/* Declared here because several headers need them, and C99 allows one typedef of a name: server.h, request.h. */
typedef struct uvhttp_server uvhttp_server_t;
typedef struct uvhttp_request uvhttp_request_t;

/** A timeout that never comes; for a time, a rate or a limit of a configuration or of options: none. 0 never means
 * that: in options 0 is the default, and in a configuration it is an amount, or refused. */
#define UVHTTP_NEVER UINT32_MAX

/** Events of a descriptor: it can be read, or written, without blocking. They can be combined. */
enum { UVHTTP_READABLE = 1, UVHTTP_WRITABLE = 2 };

/** An HTTP version, encoded as 10 * major + minor. Later versions compare as greater. */
typedef enum uvhttp_http_version {
    UVHTTP_HTTP_1_0 = 10,
    UVHTTP_HTTP_1_1 = 11,
    UVHTTP_HTTP_2 = 20,
} uvhttp_http_version_t;

UVHTTP_END_DECLS

#endif
