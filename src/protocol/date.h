/* Owns: the date of responses, which the protocols of a loop share. May include: exchange. */
#ifndef UVHTTP_SRC_PROTOCOL_DATE_H
#define UVHTTP_SRC_PROTOCOL_DATE_H

#include "exchange/service.h"

/* What worker->ok_and_date says is of an earlier second than now_ms (loop time): it is written again. */
void uvhttp__http_date_refresh(uvhttp__http_worker_t *worker, uint64_t now_ms);

/* The text of the date in it, UVHTTP__DATE_SIZE bytes. */
static inline const char *uvhttp__http_date(const uvhttp__http_worker_t *worker) {
    return worker->ok_and_date + UVHTTP__OK_LINE_SIZE + sizeof "Date: " - 1;
}

#endif
