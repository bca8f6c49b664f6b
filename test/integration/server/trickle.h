/* Owns: the route of a response that comes little by little. */
#ifndef UVHTTP_TEST_TRICKLE_H
#define UVHTTP_TEST_TRICKLE_H

#include <uvhttp.h>

void trickle_route(uvhttp_server_t *server);

#endif
