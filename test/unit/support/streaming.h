/* Owns: what the tests of streamed request bodies share: a handler that takes what comes and records what it
 * saw, and clients for it. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_STREAMING_H
#define UVHTTP_TEST_UNIT_SUPPORT_STREAMING_H

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "support/http_server.h"

/* What the handler does, and what it has seen. */
typedef struct streaming_seen {
    atomic_bool defer, pause_in_handler, pause_at_first, respond_in_handler, respond_at_first, no_response, no_on_body;
    atomic_ullong bytes;
    atomic_ulong sum; /* of bytes times position: order matters */
    atomic_int handlers, pieces, ends, end_status, dones, done_status, aborts, largest;
    _Atomic(uvhttp_deferred_t *) deferred;
    char trailer[64]; /* under text_lock */
} streaming_seen_t;

extern streaming_seen_t seen;
extern pthread_mutex_t text_lock;

void seen_reset(void);
void keep_trailer(uvhttp_request_t *req);

#define assert_trailer(text)                                                                                           \
    do {                                                                                                               \
        pthread_mutex_lock(&text_lock);                                                                                \
        char seen_[sizeof seen.trailer];                                                                               \
        memcpy(seen_, seen.trailer, sizeof seen_);                                                                     \
        pthread_mutex_unlock(&text_lock);                                                                              \
        assert_string_equal(seen_, text);                                                                              \
    } while (0)

/* Of bytes that stand from this position on. */
unsigned long sum_of(const char *data, size_t size, unsigned long long from);
/* What take sets. */
void take_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user);
void take_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user);
void take_done(uvhttp_response_t *res, int status, void *user);
void take_abort(uvhttp_deferred_t *deferred, void *user);
/* The handler of POST /take. */
void take(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* A server with POST /take (streamed, `options`) and GET /hello. */
void streaming_start(serving_t *serving, uvhttp_route_options_t options);
uint64_t counter(const serving_t *serving, const char *name);
/* The response of take_end to these bytes. */
void assert_consumed(const client_response_t *response, const char *data, size_t size);
void expect_consumed(int fd, const char *data, size_t size);
void expect_hello(int fd);

#define HEAD(rest) "POST /take HTTP/1.1\r\nHost: a\r\n" rest "\r\n"
#define CHUNKED_HEAD HEAD("Transfer-Encoding: chunked\r\n")

#endif
