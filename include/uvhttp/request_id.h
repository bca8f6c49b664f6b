/* Owns: the middleware that gives every request an id, for logs and for who asks about an answer. */
#ifndef UVHTTP_REQUEST_ID_H
#define UVHTTP_REQUEST_ID_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** Bytes of an id that is taken from a client; a longer one is replaced. */
#define UVHTTP_REQUEST_ID_SIZE_MAX 128

/** All fields zero: an id of our own in X-Request-Id. Texts are copied. */
typedef struct uvhttp_request_id_options {
    const char *header;  /**< name of the field in requests and answers, 1..64 bytes. NULL: "X-Request-Id" */
    bool trust_incoming; /**< true: an id that the request brings is kept, if there is one such field with 1..128 of
                              [A-Za-z0-9._~+/=:-]. For servers behind a proxy of one's own: whoever is trusted can make
                              ids equal. Default false */
} uvhttp_request_id_options_t;

UVHTTP_EXPORT uvhttp_middleware_t uvhttp_request_id_sized(const uvhttp_request_id_options_t *options,
                                                          size_t options_size);
/** Middleware that gives a request its id and sends it back with the answer, errors too. An id of our own is 32 hex
 * digits: 64 random bits of the process and a number that no other request of it gets, on any loop. Unique, but not
 * secret: who has one can guess others, and sees from two how many requests came between. options NULL: defaults. Wrong
 * options, or no memory: logged as an error, and `run` is NULL, so that registering it fails with UVHTTP_E_INVALID. Any
 * thread. */
static inline uvhttp_middleware_t uvhttp_request_id(const uvhttp_request_id_options_t *options) {
    return uvhttp_request_id_sized(options, sizeof *options);
}

/** The id of this request, valid as long as the request; data NULL if the middleware has not run. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_id_get(const uvhttp_request_t *req);

UVHTTP_END_DECLS

#endif
