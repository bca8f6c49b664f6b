/* Owns: routes of the test server that send interim responses. */
#ifndef UVHTTP_TEST_INTEGRATION_SERVER_INTERIM_H
#define UVHTTP_TEST_INTEGRATION_SERVER_INTERIM_H

#include <uvhttp.h>

void add_interim_routes(uvhttp_server_t *server);

#endif
