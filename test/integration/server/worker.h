/* Owns: the routes of the test server that run on worker threads. */
#ifndef UVHTTP_TEST_WORKER_H
#define UVHTTP_TEST_WORKER_H

#include <uvhttp.h>

void add_worker_routes(uvhttp_server_t *server);

#endif
