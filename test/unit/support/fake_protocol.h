/* Owns: a protocol of many streams for tests of src/exchange: no bytes, no connection, windows that the test opens, and
 * responses that are finished when the last byte has gone through the window. A stream is the test's record of one
 * request; the memory of the exchange is the library's and goes before it.
 *
 * Everything here but fake_open, fake_call and fake_close runs on the thread of the loop. A breach of the contract of
 * uvhttp__protocol_t (a second response, a call after the end) is counted, and fails fake_close. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_FAKE_PROTOCOL_H
#define UVHTTP_TEST_UNIT_SUPPORT_FAKE_PROTOCOL_H

#include <uvhttp/timer.h>

#include "exchange/exchange.h"
#include "support/http_server.h"

#define FAKE_NO_LIMIT UINT64_MAX

typedef struct fake_connection {
    uvhttp__http_loop_t *loop;
    uvhttp__exchange_pool_t pool;
    uvhttp__list_t streams; /* all that were started and not freed */
    bool draining;
    atomic_uint breaches; /* of the contract */
    char breach[128];     /* the first one */
} fake_connection_t;

typedef struct fake_request {
    uvhttp_method_t method;
    const char *path, *query; /* query: may be NULL */
    const char *fields;       /* "Name: value\n" lines, or NULL */
    const char *trailers;     /* the same with CRLF, behind the body; NULL: none */
    const char *body;
    size_t body_size;
    bool has_body;      /* also if its size is 0 */
    bool size_is_known; /* Content-Length */
    bool at_once;       /* what the window lets through is pulled in the call that makes it, as HTTP/1 does */
    bool by_sendfile;   /* files are pulled as descriptors */
} fake_request_t;

typedef struct fake_stream {
    fake_connection_t *connection;
    uvhttp__list_t link;
    uvhttp__exchange_t *exchange; /* NULL: none yet, or it is gone */
    uvhttp_timer_t timer;
    uvhttp__post_t post;
    bool posted, pumping, again;
    /* the request */
    fake_request_t request;
    char *head;
    size_t body_sent;
    uint64_t receive_window; /* bytes of the body that may come */
    bool wanted, ended_in;
    /* the response */
    uint64_t send_window; /* bytes of the body that the client takes */
    int status;
    char *interim;  /* "103 Name: value\r\n", one behind the other; NULL: none */
    char *fields;   /* "Name: value\r\n", terminated */
    char *trailers; /* the same; NULL: none */
    uint64_t announced;
    char *body; /* what the client has taken */
    size_t body_consumed;
    bool begun, ended, missized, finishing, wants_writable;
    bool responded; /* respond or finish was called: only finished or abort follows */
    int resets, reset_code;
    int finished, aborted; /* exactly one of them in the end, once */
    uint64_t deadline_ms;
    int fail_begin; /* the code that begin returns; 0: none */
    void *user;
} fake_stream_t;

extern const uvhttp__protocol_t fake_protocol;

/* --- the test's thread --- */

/* For a server that runs. */
fake_connection_t *fake_open(serving_t *serving);
/* Runs something on the loop and waits for it. */
void fake_call(fake_connection_t *connection, void (*run)(void *arg), void *arg);
/* No stream is left, and the server has stopped: worker threads have given back what they had. Asserts that the
 * contract was kept. */
void fake_close(fake_connection_t *connection);

/* --- the loop's thread --- */

/* NULL: no memory for a record (never for an exchange: such a stream is aborted). Windows are open wide unless the test
 * narrows them before fake_start. */
fake_stream_t *fake_new(fake_connection_t *connection, const fake_request_t *request);
/* The head has come; false: there was no memory for an exchange. */
bool fake_start(fake_stream_t *stream);
void fake_open_receive(fake_stream_t *stream, uint64_t bytes);
void fake_open_send(fake_stream_t *stream, uint64_t bytes);
/* The client has cancelled the stream, or the connection is gone. */
void fake_abort(fake_stream_t *stream, int status);
void fake_drain(fake_connection_t *connection);
static inline bool fake_is_over(const fake_stream_t *stream) {
    return stream->finished + stream->aborted > 0;
}
/* One that is over. */
void fake_free(fake_stream_t *stream);

#endif
