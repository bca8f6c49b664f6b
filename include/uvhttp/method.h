/* Owns: the request methods that the library knows by number (RFC 9110 section 9, RFC 5789). */
#ifndef UVHTTP_METHOD_H
#define UVHTTP_METHOD_H

#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** X(symbol, token). The order is part of the ABI: append only. */
#define UVHTTP_METHOD_MAP(X)                                                                                           \
    X(GET, "GET")                                                                                                      \
    X(HEAD, "HEAD")                                                                                                    \
    X(POST, "POST")                                                                                                    \
    X(PUT, "PUT")                                                                                                      \
    X(DELETE, "DELETE")                                                                                                \
    X(PATCH, "PATCH")                                                                                                  \
    X(OPTIONS, "OPTIONS")                                                                                              \
    X(CONNECT, "CONNECT")                                                                                              \
    X(TRACE, "TRACE")

/** A method by number. UVHTTP_METHOD_OTHER is any other valid token; read it as text. UVHTTP_ANY is for routes only: it
 * matches every method for which the same pattern has no more specific route. */
typedef enum uvhttp_method {
#define UVHTTP_METHOD_ENUM(symbol, token) UVHTTP_##symbol,
    UVHTTP_METHOD_MAP(UVHTTP_METHOD_ENUM)
#undef UVHTTP_METHOD_ENUM
        UVHTTP_METHOD_OTHER = 254, /**< any other valid token: uvhttp_request_method_text */
    UVHTTP_ANY = 255, /**< in a route only: every method for which the same pattern has no route of its own */
} uvhttp_method_t;

UVHTTP_END_DECLS

#endif
