/* Owns: what the files of the rate limiter share: the arithmetic of a bucket, addresses, the limiter, the local store.
 * May include: base, message, route, obs. */
#ifndef UVHTTP_SRC_MIDDLEWARE_RATE_LIMIT_H
#define UVHTTP_SRC_MIDDLEWARE_RATE_LIMIT_H

#include <stdatomic.h>
#include <uvhttp/rate_limit.h>

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

/* For header fields, which have no fractions. Up: who waits so long is admitted, if nobody else with the same key comes
 * first. */
static inline uint64_t uvhttp__seconds_up(uint64_t ns) {
    return ns / 1000000000 + (ns % 1000000000 > 0);
}

/* --- addresses --- */

typedef struct uvhttp__ip {
    uint8_t bytes[16]; /* network order */
    uint8_t size;      /* 4 or 16 */
} uvhttp__ip_t;

typedef struct uvhttp__ip_range {
    uvhttp__ip_t ip; /* size 0: clients of Unix sockets */
    uint8_t prefix;  /* bits */
} uvhttp__ip_range_t;

/* "192.0.2.1", "2001:db8::1", "fe80::1%2" (the zone is left out), "::ffff:192.0.2.1" (that is IPv4). */
bool uvhttp__ip_parse(uvhttp_str_t text, uvhttp__ip_t *ip);
/* Zeroes the bits behind the first `prefix`. */
void uvhttp__ip_mask(uvhttp__ip_t *ip, unsigned prefix);
/* An address, address/prefix or "unix:". Returns NULL, or what is wrong with it, for people. */
const char *uvhttp__ip_range_parse(const char *text, uvhttp__ip_range_t *range);
/* ip NULL: a client of a Unix socket. */
bool uvhttp__ip_range_has(const uvhttp__ip_range_t *range, const uvhttp__ip_t *ip);

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
    uvhttp__ip_range_t *allow;
    size_t allow_count;
    const char *policy; /* the value of RateLimit-Policy */
    const char *quoted; /* "\"name\";r=": how the value of RateLimit begins */
    size_t quoted_size;
    uvhttp_rate_limit_store_t store;
    _Atomic uint64_t exempt, store_errors;
} uvhttp__rate_limiter_t;

/* Takes options that have been checked or not: NULL, after a log line, if they are wrong or memory is out. The store
 * is destroyed then. */
uvhttp__rate_limiter_t *uvhttp__rate_limiter_new(const uvhttp_rate_limit_options_t *options);
void uvhttp__rate_limiter_free(uvhttp__rate_limiter_t *limiter);

/* --- the local store --- */

#define UVHTTP__RATE_LIMIT_KEY_SIZE 32 /* bytes a key, all told */

/* Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__rate_limit_local_store(uint32_t max_keys, uvhttp_rate_limit_store_t *store);

#endif
