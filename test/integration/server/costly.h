/* Owns: routes of the test server whose work is the client's choice, each behind a limit of the library: what attacks
 * go for. */
#ifndef UVHTTP_TEST_SERVER_COSTLY_H
#define UVHTTP_TEST_SERVER_COSTLY_H

#include <uvhttp.h>

/* /costly/cookies, /costly/query, /costly/fields, /costly/form; /costly/address and /costly/key, which are limited by a
 * thousand buckets each. */
void add_costly_routes(uvhttp_server_t *server);

#endif
