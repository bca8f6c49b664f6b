/* Owns: routes of the test server that show and extend their traces. */
#ifndef UVHTTP_TEST_INTEGRATION_SERVER_TRACE_H
#define UVHTTP_TEST_INTEGRATION_SERVER_TRACE_H

#include <uvhttp.h>

void add_trace_routes(uvhttp_server_t *server);

#endif
