/* Owns: streams of the fake protocol as a test's thread steers them, one step after the other. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_FAKE_SCRIPT_H
#define UVHTTP_TEST_UNIT_SUPPORT_FAKE_SCRIPT_H

#include "support/fake_routes.h"

typedef struct fake_server {
    serving_t *serving;
    fake_connection_t *connection;
} fake_server_t;

/* A server with small queues and the routes of fake_routes.h; a test may add others before it starts. */
void fake_server_make(fake_server_t *server, void **state);
void fake_server_start(fake_server_t *server);
/* Both. */
void fake_server_open(fake_server_t *server, void **state);
/* Asserts that nothing is left, and that no byte was wrong. */
void fake_server_stop(fake_server_t *server);

typedef struct fake_script {
    fake_connection_t *connection;
    fake_request_t request; /* a test may change it, and the windows, before the start */
    uint64_t receive_window, send_window;
    int fail_begin; /* what the protocol's begin returns */
    unsigned id;
    size_t size; /* of the response */
    char path[64];
    char *body;
    fake_stream_t *stream;
    fake_stream_t seen; /* as of the last look */
    uint64_t bytes;     /* the argument of a step */
} fake_script_t;

/* A request of one of the routes of fake_routes.h; of another one, whose path the test sets. */
fake_script_t *fake_script_new(fake_server_t *server, fake_mode_t mode, unsigned id, size_t body_size, size_t size);
fake_script_t *fake_script_for(fake_server_t *server, uvhttp_method_t method, const char *path, const char *body);
void fake_script_start(fake_script_t *script);
void fake_script_receive(fake_script_t *script, uint64_t bytes);
void fake_script_send(fake_script_t *script, uint64_t bytes);
void fake_script_abort(fake_script_t *script);
/* A copy of the stream's state; `exchange` in it must not be followed. */
const fake_stream_t *fake_script_look(fake_script_t *script);
#define fake_script_is_over(script) fake_is_over(fake_script_look(script))
/* Waits for the end: all bytes have come in order, once. */
void fake_script_expect_response(fake_script_t *script);
/* Waits for the end: a response of `status`. */
void fake_script_expect_status(fake_script_t *script, int status);
/* Waits for the end: the response was cut. */
void fake_script_expect_abort(fake_script_t *script);
void fake_script_free(fake_script_t *script);

/* Whether this build has it. */
bool fake_mode_works(fake_mode_t mode);
#define FAKE_EACH_MODE(mode)                                                                                           \
    for (fake_mode_t mode = 0; mode < FAKE_MODE_COUNT; mode++)                                                         \
        if (fake_mode_works(mode))

#endif
