/* Owns: the rate limiter: one token bucket per client, or per key of the application. docs/guide/rate_limit.md. */
#ifndef UVHTTP_RATE_LIMIT_H
#define UVHTTP_RATE_LIMIT_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** The requests that share a bucket. */
typedef enum uvhttp_rate_limit_by {
    /** The client's address (uvhttp_request_client). IPv6 clients share a bucket per network, see ipv6_prefix. Clients
       of a Unix socket share one bucket. */
    UVHTTP_RATE_LIMIT_BY_ADDRESS,
    /** The value of the request header field `header`; requests without it by address. A client can write any value,
       and thus use any number of buckets: only for values that a proxy has validated. */
    UVHTTP_RATE_LIMIT_BY_HEADER,
    /** All requests of this middleware: those of its route, group or server. */
    UVHTTP_RATE_LIMIT_BY_ROUTE,
    /** The result of the callback `key`. */
    UVHTTP_RATE_LIMIT_BY_CALLBACK
} uvhttp_rate_limit_by_t;

/** Returns the key of a request: bytes that are valid until the handler returns. `data` NULL: the request is not
 * limited. Runs on the loop's thread, concurrently on several loops; must not block. */
typedef uvhttp_str_t (*uvhttp_rate_limit_key_cb)(uvhttp_request_t *req, void *user);

/* --- stores ---
 *
 * A store holds the buckets. Without one in the options, a table of this process holds them. */

/** A request to admit. */
typedef struct uvhttp_rate_limit_take {
    const char *policy; /**< options.name */
    char kind; /**< type of `key`: '4', '6' address bytes (masked), 'u' Unix socket, '?' unknown address, 'h' header
                  value, 'r' route (empty), 'c' callback */
    uvhttp_str_t key;     /**< valid during the call */
    uint64_t now_ns;      /**< monotonic time of this machine */
    uint64_t interval_ns; /**< time after which one more request is admitted: 1 / per_second */
    uint32_t burst;       /**< requests that a full bucket holds */
} uvhttp_rate_limit_take_t;

typedef struct uvhttp_rate_limit_decision {
    bool allowed;
    uint32_t remaining; /**< requests that could be admitted directly after this one */
    uint64_t next_ns;   /**< ns until `remaining` grows by one */
} uvhttp_rate_limit_decision_t;

typedef struct uvhttp_rate_limit_stats_s {
    uint64_t allowed;      /**< requests that the buckets admitted */
    uint64_t refused;      /**< requests refused with 429 (or 503) because their bucket was empty */
    uint64_t keys;         /**< buckets in memory, including full ones */
    uint64_t evicted;      /**< buckets evicted before they were full, because of keys_max: raise it if this grows */
    uint64_t exempt;       /**< requests of the allow list, or for which the callback returned no key */
    uint64_t store_errors; /**< requests for which the store failed */
} uvhttp_rate_limit_stats_t;

/** A request that waits for the decision of a store. */
typedef struct uvhttp_rate_limit_ticket uvhttp_rate_limit_ticket_t;

/** A store; copied. It has `take` or `take_later`. All functions except `destroy` are called on any thread,
 * concurrently, and must not block. */
typedef struct uvhttp_rate_limit_store {
    /** Decides, and removes a token from the bucket if the request is allowed. Returns 0, or a UVHTTP_E_* code if it
     * cannot decide; options.refuse_on_error then applies. */
    int (*take)(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_decision_t *decision);
    /** Starts an asynchronous decision. The request waits until uvhttp_rate_limit_decided is called with its ticket,
     * exactly once and soon. `destroy` must call it for all open tickets. */
    void (*take_later)(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_ticket_t *ticket);
    /** Sets allowed, refused, keys and evicted in a zeroed structure. May be NULL. */
    void (*stats)(void *user, uvhttp_rate_limit_stats_t *stats);
    /** Called once, at the end of the middleware or in a uvhttp_rate_limit that fails. May be NULL. */
    void (*destroy)(void *user);
    void *user;
    void *reserved[4]; /**< NULL: for later releases */
} uvhttp_rate_limit_store_t;

/** Completes a ticket, which is invalid afterwards. `status` is 0 with a decision (copied), or a UVHTTP_E_* code
 * without one. Any thread, also inside take_later. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_rate_limit_decided(uvhttp_rate_limit_ticket_t *ticket, int status,
                                                               const uvhttp_rate_limit_decision_t *decision);

/** Options. Zero is the default everywhere. Strings are copied. */
typedef struct uvhttp_rate_limit_redis_options {
    const char *address;  /**< "192.0.2.1:6379", "[2001:db8::1]:6379", "localhost:6379" or "unix:/path"; default
                               "127.0.0.1:6379" */
    const char *user;     /**< for AUTH with a password; default none */
    const char *password; /**< default none */
    uint32_t database;    /**< for SELECT; default 0 */
    const char *prefix;   /**< prefix of all keys in Redis, 0..64 bytes; default "uvhttp:". The name of the limiter
                             follows. Limiters with separate buckets need different prefixes or names */
    uint32_t timeout_ms;  /**< ms after which a request is decided without Redis, 1..10000; default 50 */
    uint32_t pending_max; /**< maximum of open queries, 1..1,000,000; default 10000; further requests are decided
                             without Redis */
} uvhttp_rate_limit_redis_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_rate_limit_redis_sized(const uvhttp_rate_limit_redis_options_t *options,
                                                                  size_t options_size,
                                                                  uvhttp_rate_limit_store_t *store);
/** Sets *store, for options.store, to a store in a Redis server (5 or later). All processes and machines with the same
 * prefix, name and rates share its buckets. Its own thread sends the queries. While Redis is unreachable, slow or
 * faulty, options.refuse_on_error decides, and the thread reconnects. Use one store per limiter. Returns 0,
 * UVHTTP_E_INVALID (`store` is NULL), or, logged, UVHTTP_E_CONFIG, UVHTTP_E_NOMEM or UVHTTP_E_UNSUPPORTED (not built
 * in). After a logged error uvhttp_rate_limit refuses *store. */
static inline int uvhttp_rate_limit_redis(const uvhttp_rate_limit_redis_options_t *options,
                                          uvhttp_rate_limit_store_t *store) {
    return uvhttp_rate_limit_redis_sized(options, sizeof *options, store);
}

/* --- the middleware --- */

/** Options. Zero is the default everywhere. Strings are copied. */
typedef struct uvhttp_rate_limit_options {
    double per_second; /**< requests per second that refill a bucket, 0.00001..1,000,000; default 100. Five per minute
                          is 5.0 / 60. Stored as ns per request, rounded up: at most 0.1 % slower */
    uint32_t burst; /**< requests of a full bucket, 1..1,000,000,000; default: those of one second, at least 1. burst /
                       per_second is at most 366 days */
    uint32_t keys_max; /**< maximum of buckets, 1..100,000,000 of 32 bytes, allocated by this call; default 100,000. Not
                          used with a custom store */
    uvhttp_rate_limit_by_t by;    /**< default BY_ADDRESS */
    const char *header;           /**< BY_HEADER: name of the field */
    uvhttp_rate_limit_key_cb key; /**< BY_CALLBACK */
    void *key_user;               /**< argument of `key`; must live as long as the server */
    uint32_t ipv4_prefix;         /**< relevant bits of an IPv4 address, 1..32; default 32: the address */
    uint32_t ipv6_prefix;     /**< relevant bits of an IPv6 address, 1..128; default 64: the network of one customer */
    const char *const *allow; /**< clients without a limit, for any `by`: "192.0.2.1", "10.0.0.0/8", "2001:db8::/32",
                                 "unix:"; default none */
    size_t allow_count;       /**< entries of `allow`, 0..1000 */
    int status;               /**< status of a refusal: 429 (default) or 503 */
    bool omit_headers;        /**< omit the RateLimit and RateLimit-Policy fields. Retry-After is always sent */
    const char *name; /**< name of the policy in those fields, 1..64 printable ASCII characters except '"' and '\';
                         default "default". Several limiters on a route need different names */
    const uvhttp_rate_limit_store_t
        *store; /**< NULL: the table of this process. The middleware owns the store from the call on, also on failure */
    bool refuse_on_error; /**< what happens if the store cannot decide. false (default): the request passes. true: it
                             gets 503 */
} uvhttp_rate_limit_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t uvhttp_rate_limit_sized(const uvhttp_rate_limit_options_t *options,
                                                                            size_t options_size);
/** Creates a middleware that admits the requests of a key while its token bucket has tokens. Further requests get 429
 * and Retry-After (RFC 6585 section 4, RFC 9110 section 10.2.3). Responses contain RateLimit and RateLimit-Policy
 * (draft-ietf-httpapi-ratelimit-headers-11): r is the number of remaining requests, t the seconds until it grows. All
 * loops share one table, so the number of admitted requests is exact. Its time is that of the loop iteration.
 *
 * `options` NULL means defaults. On failure (an option out of range, or no memory) the log has the reason, and `run` is
 * NULL: registration then returns UVHTTP_E_INVALID. Any thread, before the server runs. */
static inline uvhttp_middleware_t uvhttp_rate_limit(const uvhttp_rate_limit_options_t *options) {
    return uvhttp_rate_limit_sized(options, sizeof *options);
}

UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_rate_limit_stats_sized(uvhttp_middleware_t middleware,
                                                                  uvhttp_rate_limit_stats_t *stats, size_t stats_size);
/** Returns the counters of the limiter. Returns 0, or UVHTTP_E_INVALID if `middleware` is not a rate limiter or `stats`
 * is NULL. Any thread, as long as the server of the middleware exists. */
static inline int uvhttp_rate_limit_stats(uvhttp_middleware_t middleware, uvhttp_rate_limit_stats_t *stats) {
    return uvhttp_rate_limit_stats_sized(middleware, stats, sizeof *stats);
}

UVHTTP_END_DECLS

#endif
