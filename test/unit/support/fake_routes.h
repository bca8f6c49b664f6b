/* Owns: routes whose handlers work in every way that a handler can, for tests of many streams at once: they check each
 * byte of the request's body, which tells its stream and its place, and respond with bytes that do. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_FAKE_ROUTES_H
#define UVHTTP_TEST_UNIT_SUPPORT_FAKE_ROUTES_H

#include "support/fake_protocol.h"

#define FAKE_ROUTES_IDS 4096

typedef enum fake_mode {
    FAKE_BUFFERED,
    FAKE_STREAMED,
    FAKE_PAUSED,
    FAKE_WORKER,
    FAKE_SPOOLED,
    FAKE_LIVE,
    FAKE_COROUTINE,
    FAKE_DEFERRED,
    FAKE_POOLED, /* deferred, and another thread responds */
    FAKE_FILE,
    FAKE_REFERENCE,
    FAKE_CONTENT,
    FAKE_PIECES, /* a streamed response, written as the queue allows */
    FAKE_MODE_COUNT,
} fake_mode_t;

extern const char *const fake_mode_names[FAKE_MODE_COUNT];

/* What handlers have seen. */
extern atomic_int fake_dones[FAKE_ROUTES_IDS]; /* per stream */
extern atomic_int fake_wrong_bytes, fake_held; /* references that are not released */

char fake_byte_in(unsigned id, size_t at);
char fake_byte_out(unsigned id, size_t at);
char *fake_bytes(char (*byte)(unsigned id, size_t at), unsigned id, size_t size);

/* For a server that was made and does not run: "/<mode>/<id>/<bytes of the response>". */
void fake_routes_add(serving_t *serving);
void fake_routes_reset(void);

#endif
