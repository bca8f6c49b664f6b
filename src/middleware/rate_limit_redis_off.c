/* Owns: the Redis store of a build without it. */
#include <string.h>

#include "middleware/middleware.h"
#include "middleware/rate_limit.h"

int uvhttp_rate_limit_redis(const uvhttp_rate_limit_redis_options_t *options, uvhttp_rate_limit_store_t *store) {
    (void)options;
    if (!store) return UVHTTP_E_INVALID;
    memset(store, 0, sizeof *store);
    (void)uvhttp__middleware_refused("rate_limit_redis", "this build has no Redis: BUILD_WITH_REDIS, hiredis");
    return UVHTTP_E_UNSUPPORTED;
}
