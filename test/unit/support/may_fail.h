/* Owns: a server of which any allocation may fail: a thread that runs it, and a client that takes any whole answer, or
 * none. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_MAY_FAIL_H
#define UVHTTP_TEST_UNIT_SUPPORT_MAY_FAIL_H

#include "support/failing_allocator.h"
#include "support/http_server.h"

/* As serving_start, for a server that listens already. */
void may_fail_start(serving_t *serving);
/* second: NULL, or what is sent after the first part. Returns whether there was a server that took the first part: one
 * that could not start may have closed its socket. */
bool may_fail_ask(uint16_t port, const char *first, const char *second);

/* Once for what is made once and stays; then with each allocation failing. */
void may_fail_everywhere(void (*attempt)(void *serving), serving_t *serving);

#endif
