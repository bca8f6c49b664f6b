/* Owns: spooled bodies: received completely before their handler gets a worker thread. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_SPOOL_H
#define UVHTTP_SRC_EXCHANGE_SPOOL_H

#include "exchange/exchange.h"

/* Makes a temporary file in the directory that is configured, as the current user, and closes it. Returns 0, or the
 * error of the system if the directory or its permissions are the reason; 0 if none is configured, or no files are
 * allowed. */
int uvhttp__spool_try(const uvhttp_server_config_t *config);
/* The loop's thread. Consumes the body of a request with exchange->incoming; calls `ready` when it is complete, and
 * responds when that fails. Lives until the exchange is done. Returns 0 or an error, and then nothing follows. */
int uvhttp__spool_start(uvhttp__exchange_t *exchange, void (*ready)(uvhttp__exchange_t *exchange));
/* The handler's thread: the next piece, valid until the next call. Returns 0, UVHTTP_E_EOF, UVHTTP_E_IO or
 * UVHTTP_E_NOMEM. */
int uvhttp__spool_read(uvhttp__spool_t *spool, uvhttp_str_t *piece);
/* The handler has returned: nothing is read any more. */
void uvhttp__spool_close_file(uvhttp__spool_t *spool);

#endif
