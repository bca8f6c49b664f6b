/* Owns: what the files of websocket_test_server share. */
#ifndef UVHTTP_TEST_INTEGRATION_WEBSOCKET_MORE_H
#define UVHTTP_TEST_INTEGRATION_WEBSOCKET_MORE_H

#include <uvhttp.h>

/* Compression, messages in parts, topics. */
void add_more_routes(uvhttp_server_t *server);

#endif
