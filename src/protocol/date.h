/* Owns: the date of responses, which the protocols of a loop share. May include: exchange. */
#ifndef UVHTTP_SRC_PROTOCOL_DATE_H
#define UVHTTP_SRC_PROTOCOL_DATE_H

#include "exchange/service.h"

/* Writes loop->date again, because it is of an earlier second than now_ms (loop time). */
void uvhttp__http_date_refresh(uvhttp__http_loop_t *loop, uint64_t now_ms);

#endif
