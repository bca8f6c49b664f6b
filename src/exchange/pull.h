/* Owns: bodies that the handler reads with blocking calls, from its own thread or in a coroutine. The loop's thread.
 * May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_PULL_H
#define UVHTTP_SRC_EXCHANGE_PULL_H

#include "exchange/exchange.h"

/* In the exchange's arena. */
typedef struct uvhttp__pull {
    uvhttp__exchange_t *exchange;
    void (*come)(struct uvhttp__pull *pull); /* a piece, or the end: it is ready now */
    char *piece;                             /* read_buffer_size bytes; NULL before the first */
    size_t size;                             /* bytes that were not read yet: more are appended until then */
    int end_status;                          /* once it has ended */
    bool ended;                              /* all of it has come, or it has failed */
} uvhttp__pull_t;

/* Before the handler runs. Without a streamed body, the whole one is the only piece. */
void uvhttp__pull_open(uvhttp__pull_t *pull, uvhttp__exchange_t *exchange, void (*come)(uvhttp__pull_t *pull));
/* The handler has returned. */
void uvhttp__pull_close(uvhttp__pull_t *pull);
/* False: uvhttp_request_resume_body has it come. */
bool uvhttp__pull_ready(const uvhttp__pull_t *pull);
/* When it is ready. Valid until the body is resumed. Returns 0, UVHTTP_E_EOF or why the rest will never come. */
int uvhttp__pull_take(uvhttp__pull_t *pull, uvhttp_str_t *piece);

#endif
