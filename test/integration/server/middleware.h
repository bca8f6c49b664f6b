/* Owns: the routes of the test server that pass the library's own middleware. */
#ifndef UVHTTP_TEST_MIDDLEWARE_H
#define UVHTTP_TEST_MIDDLEWARE_H

#include <uvhttp.h>

void add_guarded_routes(uvhttp_server_t *server);
void add_private_routes(uvhttp_server_t *server);
/* "common:path", "combined:path" or "json:path"; no path: standard output. Before all other middleware. */
void add_access_log(uvhttp_server_t *server, const char *text);

/* Limits whose buckets are in the Redis at that address. */
void add_shared_limits(uvhttp_server_t *server, const char *redis, uint32_t timeout_ms);

#endif
