/* Owns: the middleware that gives every request an id, for logs and for support requests. */
#ifndef UVHTTP_REQUEST_ID_H
#define UVHTTP_REQUEST_ID_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** The maximum size of an id accepted from a client, in bytes. A longer one is replaced. */
#define UVHTTP_REQUEST_ID_SIZE_MAX 128

/** Options. With all fields zero, a generated id is sent in X-Request-Id. Strings are copied. */
typedef struct uvhttp_request_id_options {
    const char *header;  /**< name of the field in requests and responses, 1..64 bytes. NULL: "X-Request-Id" */
    bool trust_incoming; /**< true: keep the id of a request that has one such field with 1..128 of [A-Za-z0-9._~+/=:-].
                            Only behind your own proxy: whoever sends the field can repeat ids. Default false */
} uvhttp_request_id_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t uvhttp_request_id_sized(const uvhttp_request_id_options_t *options,
                                                                            size_t options_size);
/** Creates a middleware that gives each request an id and returns it with every response, including errors. A generated
 * id has 32 hex digits: 64 random bits of the process, and a number that is unique within it on all loops. Ids are
 * unique but not secret: one id reveals others, and two ids reveal the number of requests between them. `options` NULL
 * means defaults. Wrong options and lack of memory are logged as errors, and `run` is NULL, so that registration fails
 * with UVHTTP_E_INVALID. Any thread. */
static inline uvhttp_middleware_t uvhttp_request_id(const uvhttp_request_id_options_t *options) {
    return uvhttp_request_id_sized(options, sizeof *options);
}

/** Returns the id of this request, valid as long as the request. `data` is NULL if the middleware has not run. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_id_get(const uvhttp_request_t *req);

UVHTTP_END_DECLS

#endif
