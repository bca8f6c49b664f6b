/* Owns: the routes of the test server in groups with defaults. */
#ifndef UVHTTP_TEST_GROUPS_H
#define UVHTTP_TEST_GROUPS_H

#include <uvhttp.h>

void add_group_routes(uvhttp_server_t *server);

#endif
