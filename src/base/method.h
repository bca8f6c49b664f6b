/* Owns: recognising a request method by its text. May include: load, hot. */
#ifndef UVHTTP_SRC_BASE_METHOD_H
#define UVHTTP_SRC_BASE_METHOD_H

#include <string.h>
#include <uvhttp/method.h>

#include "base/hot_path.h"
#include "base/load.h"

/* Methods are case-sensitive (RFC 9110 section 9.1). */
static inline uvhttp_method_t uvhttp__find_method(const char *text, size_t size) {
    if (LIKELY(size == 3 && memcmp(text, "GET", 3) == 0)) return UVHTTP_GET;
    switch (size) {
        case 3:
            if (memcmp(text, "PUT", 3) == 0) return UVHTTP_PUT;
            break;
        case 4:
            if (uvhttp__load32(text) == uvhttp__load32("POST")) return UVHTTP_POST;
            if (uvhttp__load32(text) == uvhttp__load32("HEAD")) return UVHTTP_HEAD;
            break;
        case 5:
            if (memcmp(text, "PATCH", 5) == 0) return UVHTTP_PATCH;
            if (memcmp(text, "TRACE", 5) == 0) return UVHTTP_TRACE;
            break;
        case 6:
            if (memcmp(text, "DELETE", 6) == 0) return UVHTTP_DELETE;
            break;
        case 7:
            if (memcmp(text, "OPTIONS", 7) == 0) return UVHTTP_OPTIONS;
            if (memcmp(text, "CONNECT", 7) == 0) return UVHTTP_CONNECT;
            break;
        default: break;
    }
    return UVHTTP_METHOD_OTHER;
}

#endif
