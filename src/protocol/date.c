/* Owns: see date.h. The date is written once a second, not once a response. */
#include "protocol/date.h"

#include "base/hot.h"

NOINLINE void uvhttp__http_date_refresh(uvhttp__http_worker_t *worker, uint64_t now_ms) {
    int64_t unix_ms = uvhttp__clock_unix_ms();
    uvhttp__date_write(worker->date, unix_ms / 1000);
    worker->date_until_ms = now_ms + (uint64_t)(1000 - unix_ms % 1000);
}
