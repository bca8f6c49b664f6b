/* Owns: a server of which any allocation may fail: a thread that runs it, and a client that takes any whole response,
 * or none. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_MAY_FAIL_H
#define UVHTTP_TEST_UNIT_SUPPORT_MAY_FAIL_H

#include "support/failing_allocator.h"
#include "support/http_server.h"

/* As serving_start, for a server that listens already. */
void may_fail_start(serving_t *serving);
/* second: NULL, or what is sent after the first part. Returns whether there was a server that took the first part: one
 * that could not start may have closed its socket. */
bool may_fail_ask(uint16_t port, const char *first, const char *second);

/* Handlers. Without memory the client gets 500 or 503. */
void may_fail_greet(uvhttp_request_t *req, uvhttp_response_t *res, void *user); /* with a parameter "name" */
void may_fail_echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
void may_fail_later(uvhttp_request_t *req, uvhttp_response_t *res, void *user); /* deferred */

/* Once for what is made once and stays; then with each allocation failing. */
void may_fail_everywhere(void (*attempt)(void *serving), serving_t *serving);

#endif
