/* Owns: what a request and a connection have for HTTP/2. May include: base. */
#ifndef UVHTTP_TOOLS_LOAD_H2_H
#define UVHTTP_TOOLS_LOAD_H2_H

#include "base/list.h"
#include "load/h2_request.h"

typedef struct load_h2 load_h2_t;

/* A request's stream. Its id is 2 * number + 1. */
typedef struct load_h2_stream {
    uvhttp__list_t upload; /* in h2->uploads while there is more of the request's body to send */
    int64_t window;        /* bytes of it that the server takes */
    uint64_t sent;         /* bytes of it so far */
    uint64_t unreturned;   /* bytes of the response whose credit the server does not have back yet */
    bool headed;           /* the head of the final response has come */
} load_h2_stream_t;

#endif
