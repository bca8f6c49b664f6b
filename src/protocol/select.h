/* Owns: which protocol a connection speaks: HTTP/2 by ALPN, or by its preface (RFC 9113 section 3), else HTTP/1. Once
 * for each connection: that of a request costs nothing. */
#ifndef UVHTTP_SRC_PROTOCOL_SELECT_H
#define UVHTTP_SRC_PROTOCOL_SELECT_H

#include "conn/tcp_server.h"

/* Numbers of protocols, for uvhttp__conn_set_protocol; 0: HTTP/1. */
enum { UVHTTP__PROTOCOL_HTTP1, UVHTTP__PROTOCOL_HTTP2, UVHTTP__PROTOCOL_UNKNOWN };

/* As the functions of uvhttp__conn_ops_t. */
void uvhttp__select_on_open(uvhttp__conn_t *conn);
/* While it is not known what a connection in clear speaks. It is as one of HTTP/1 on which nothing has come. */
size_t uvhttp__select_on_data(uvhttp__conn_t *conn, const char *data, size_t size);
const char *uvhttp__select_describe(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_DESCRIPTION_MAX]);

#endif
