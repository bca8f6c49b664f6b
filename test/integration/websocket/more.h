/* Owns: what the files of websocket_test_server share. */
#ifndef UVHTTP_TEST_INTEGRATION_WEBSOCKET_MORE_H
#define UVHTTP_TEST_INTEGRATION_WEBSOCKET_MORE_H

#include <uvhttp.h>

/* Seconds, of clients that do not read until a test reaches them. */
#define RATE_GRACE 60

/* A route with RATE_GRACE, unless its options say otherwise. */
void add_websocket(uvhttp_server_t *server, const char *pattern, uvhttp_ws_handlers_t handlers, void *user);
/* Compression, messages in parts, topics. */
void add_more_routes(uvhttp_server_t *server);

#endif
