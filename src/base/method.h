/* Owns: recognising a request method by its text, and numbering methods for tables. May include: load, hot. */
#ifndef UVHTTP_SRC_BASE_METHOD_H
#define UVHTTP_SRC_BASE_METHOD_H

#include <assert.h>
#include <string.h>
#include <uvhttp/method.h>

#include "base/hot_path.h"
#include "base/load.h"

/* What a table has a place for: the methods of UVHTTP_METHOD_MAP, then all others together, then UVHTTP_ANY. */
enum {
#define UVHTTP__METHOD_COUNTED(symbol, token) +1
    UVHTTP__METHOD_KNOWN = 0 UVHTTP_METHOD_MAP(UVHTTP__METHOD_COUNTED),
#undef UVHTTP__METHOD_COUNTED
    UVHTTP__METHOD_SLOTS = UVHTTP__METHOD_KNOWN + 2,
};

static_assert((int)UVHTTP_ANY == UVHTTP_METHOD_OTHER + 1, "so that their places follow each other");

static inline unsigned uvhttp__method_slot(unsigned method) {
    return method < UVHTTP_METHOD_OTHER ? method : method - (UVHTTP_METHOD_OTHER - UVHTTP__METHOD_KNOWN);
}

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
