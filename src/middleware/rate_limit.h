/* Owns: what the files of the rate limiter share: the arithmetic of a bucket, the limiter, the local store.
 * May include: base, message, route, obs. */
#ifndef UVHTTP_SRC_MIDDLEWARE_RATE_LIMIT_H
#define UVHTTP_SRC_MIDDLEWARE_RATE_LIMIT_H

#include <stdatomic.h>
#include <uvhttp/rate_limit.h>

#include "base/ip.h"

#define UVHTTP__RATE_LIMIT_ALLOW_MAX 1000
#define UVHTTP__RATE_LIMIT_NAME_MAX 64
#define UVHTTP__RATE_LIMIT_WINDOW_MAX_NS (366u * 86400u * UINT64_C(1000000000))

/* --- the bucket --- Generic cell rate algorithm: all that a bucket is is the time at which it will be full, `full_ns`.
 * Each request moves it one interval on; it may be at most burst * interval ahead of now. Times are compared by their
 * difference, so that they may wrap. burst * interval_ns <= UVHTTP__RATE_LIMIT_WINDOW_MAX_NS. */
static inline void uvhttp__rate_limit_bucket_take(uint64_t *full_ns, const uvhttp_rate_limit_take_t *take,
                                                  uint64_t now_ns, uvhttp_rate_limit_decision_t *decision) {
    uint64_t capacity = take->interval_ns * take->burst;
    uint64_t used = (int64_t)(*full_ns - now_ns) > 0 ? *full_ns - now_ns : 0;
    decision->allowed = used + take->interval_ns <= capacity;
    if (decision->allowed) {
        used += take->interval_ns;
        *full_ns = now_ns + used;
    }
    /* More than the capacity is used only if a bucket was filled under another policy. */
    uint64_t remaining = used < capacity ? (capacity - used) / take->interval_ns : 0;
    decision->remaining = (uint32_t)remaining;
    decision->next_ns = used + (remaining + 1) * take->interval_ns - capacity;
}

/* For header fields, which have no fractions. Rounded up: a client that waits so long is admitted, unless another with
 * the same key comes first. */
static inline uint64_t uvhttp__seconds_up(uint64_t ns) {
    return ns / 1000000000 + (ns % 1000000000 > 0);
}

/* --- the limiter --- */

typedef struct uvhttp__rate_limiter {
    uint64_t interval_ns;
    uint32_t burst;
    uint8_t by; /* uvhttp_rate_limit_by_t */
    uint8_t ipv4_prefix, ipv6_prefix;
    bool omit_headers, refuse_on_error;
    int status;
    const char *header;
    uvhttp_rate_limit_key_cb key;
    void *key_user;
    uvhttp__ip_ranges_t *allow; /* NULL: nobody */
    const char *name;
    const char *policy; /* the value of RateLimit-Policy */
    const char *quoted; /* "\"name\";r=": how the value of RateLimit begins */
    size_t quoted_size;
    uvhttp_rate_limit_store_t store;
    _Atomic uint64_t exempt, store_errors;
} uvhttp__rate_limiter_t;

/* Takes options that have been checked or not: NULL, after a log line, if they are wrong or memory is out. The store
 * is destroyed then. */
uvhttp__rate_limiter_t *uvhttp__rate_limiter_new(const uvhttp_rate_limit_options_t *given, size_t given_size);
void uvhttp__rate_limiter_free(uvhttp__rate_limiter_t *limiter);

/* --- the local store --- */

#define UVHTTP__RATE_LIMIT_KEY_SIZE 32 /* bytes per key in total */

/* Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__rate_limit_local_store(uint32_t keys_max, uvhttp_rate_limit_store_t *store);

#endif
