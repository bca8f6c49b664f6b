/* Owns: the routes of the test server. */
#ifndef UVHTTP_TEST_ROUTES_H
#define UVHTTP_TEST_ROUTES_H

#include <uvhttp.h>

#include "later.h"

void add_routes(uvhttp_server_t *server, later_t *later);

#endif
