/* Owns: see date.h. The date is written once a second, not once a response, and behind the status line that most
 * responses have. */
#include "protocol/date.h"

#include <string.h>

#include "base/hot.h"

NOINLINE void uvhttp__http_date_refresh(uvhttp__http_worker_t *worker, uint64_t now_ms) {
    int64_t unix_ms = uvhttp__clock_unix_ms();
    char *out = worker->ok_and_date;
    memcpy(out, UVHTTP__OK_LINE "Date: ", UVHTTP__OK_LINE_SIZE + 6);
    out += UVHTTP__OK_LINE_SIZE + 6;
    uvhttp__date_write(out, unix_ms / 1000);
    memcpy(out + UVHTTP__DATE_SIZE, "\r\n", 2);
    worker->date_until_ms = now_ms + (uint64_t)(1000 - unix_ms % 1000);
}
