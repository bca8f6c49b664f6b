/* Owns: the TLS side of the test server. */
#ifndef UVHTTP_TEST_SERVER_TLS_H
#define UVHTTP_TEST_SERVER_TLS_H

#include <uvhttp.h>

/* Takes an option and its value; false if it is none of TLS. */
bool tls_option(const char *name, const char *value);
/* Listens on the addresses that were given for TLS. */
int tls_listen(uvhttp_server_t *server);
/* tls_bodies.c */
void tls_body_routes(uvhttp_server_t *server, const char *directory);
void tls_routes(uvhttp_server_t *server);
void tls_free(void);

#endif
