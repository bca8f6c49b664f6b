/* Owns: what is sent where: the resolved target and the requests as bytes. Read-only while the threads run, but for the
 * hash of each request's first body. May include: base, io. */
#ifndef UVHTTP_TOOLS_LOAD_PLAN_H
#define UVHTTP_TOOLS_LOAD_PLAN_H

#include <stdatomic.h>

#include "load/h2_request.h"
#include "load/options.h"

typedef struct load_protocol load_protocol_t;

typedef struct load_request {
    char *line; /* "GET /", for messages. NULL: a message of tcp or ws */
    char *data; /* HTTP/1, ws: `copies` times the request, one after the other */
    size_t size;
    uint32_t copies;
    load_h2_request_t h2; /* HTTP/2: its header blocks */
    bool is_head;
    _Atomic uint64_t first_hash; /* of the first right response's body, over all threads; 0: none yet */
} load_request_t;

enum { LOAD_MESSAGE_ID_SIZE = 11, LOAD_POOL_STEPS = 1 << 14 };

/* What messages are made of. Each is `before`, then its id and the pool from a place that the id chooses, `size` bytes
 * together, then `after`. */
typedef struct load_echo {
    uvhttp_str_t before, after; /* --echo with a body; else empty */
    size_t size;
    size_t total;  /* of all three */
    char *pool;    /* random bytes: a place for each of LOAD_POOL_STEPS, four bytes apart, and `size` more */
    char *masked;  /* ws: as they are sent; else the pool itself */
    uint64_t seed; /* mixed */
} load_echo_t;

typedef struct load_plan {
    const load_options_t *options;
    const load_protocol_t *protocol;
    void *tls;                /* tls.h's; NULL: without */
    load_echo_t echo;         /* tcp, ws, --echo */
    load_request_t handshake; /* ws */
    size_t h2_head_max;       /* HTTP/2: bytes of the largest request without its body */
    size_t h2_body_size;      /* HTTP/2: bytes of each request's body */
    uvhttp__endpoint_t endpoint;
    char address[UVHTTP__ADDRESS_TEXT_MAX];
    load_request_t *requests;
    size_t request_count;
} load_plan_t;

/* The characters of ids and of random text. */
extern const char load_echo_symbols[65];

/* Both print one line to `err` and return an exit code other than 0 if they fail. deinit in any case. */
int load_plan_init(load_plan_t *plan, const load_options_t *options, FILE *err);
/* Resolves the name, refuses addresses other than loopback unless allowed, and connects once, so that a missing target
 * is reported before anything is measured. */
int load_plan_find_target(load_plan_t *plan, FILE *err);
void load_plan_deinit(load_plan_t *plan);

/* Whether packets to it stay on this machine: 127.0.0.0/8, ::1, or a Unix socket. */
bool load_is_loopback(const uvhttp__address_t *address);

#endif
