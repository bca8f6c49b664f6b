/* Owns: the routes of the test server that pass the library's own middleware. */
#ifndef UVHTTP_TEST_MIDDLEWARE_H
#define UVHTTP_TEST_MIDDLEWARE_H

#include <uvhttp.h>

void add_guarded_routes(uvhttp_server_t *server);

#endif
