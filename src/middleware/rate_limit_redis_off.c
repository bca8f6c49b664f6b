/* Owns: the Redis store of a build without it. */
#include <string.h>

#include "middleware/middleware.h"
#include "middleware/rate_limit.h"

int uvhttp_rate_limit_redis_sized(const uvhttp_rate_limit_redis_options_t *options, size_t options_size,
                                  uvhttp_rate_limit_store_t *store) {
    (void)options, (void)options_size;
    if (!store) return UVHTTP_E_INVALID;
    memset(store, 0, sizeof *store);
    (void)uvhttp__middleware_refused("rate_limit_redis", "this build has no Redis: BUILD_WITH_REDIS, hiredis");
    return UVHTTP_E_UNSUPPORTED;
}
