/* Owns: see date.h. The date is written once a second, not once a response. */
#include "protocol/date.h"

#include "base/hot_path.h"

NOINLINE void uvhttp__http_date_refresh(uvhttp__http_loop_t *loop, uint64_t now_ms) {
    int64_t unix_ms = uvhttp__clock_unix_ms();
    uvhttp__date_write(loop->date, unix_ms / 1000);
    loop->date_until_ms = now_ms + (uint64_t)(1000 - unix_ms % 1000);
}
