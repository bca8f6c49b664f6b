/* Owns: the rate limiter: a token bucket per client, or per whatever the application says. docs/rate_limit.md. */
#ifndef UVHTTP_RATE_LIMIT_H
#define UVHTTP_RATE_LIMIT_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** Who shares a bucket. */
typedef enum uvhttp_rate_limit_by {
    /** The client's address (uvhttp_request_peer_address); IPv6 clients by their network, see ipv6_prefix. Clients of a
     * Unix socket share one bucket. */
    UVHTTP_RATE_LIMIT_BY_ADDRESS,
    /** The value of the request header `header`; requests without it, by address. A client can put what it likes there,
     * and so have as many buckets: only for values that something in front has checked. */
    UVHTTP_RATE_LIMIT_BY_HEADER,
    /** All that comes through this middleware: the route, group or server it is registered on. */
    UVHTTP_RATE_LIMIT_BY_ROUTE,
    /** What the callback `key` returns. */
    UVHTTP_RATE_LIMIT_BY_CALLBACK
} uvhttp_rate_limit_by_t;

/** The key of a request: bytes that are valid until the handler returns. data NULL: this request is not limited. Runs
 * on the loop's thread, for several requests at once when there are several loops; must not block. */
typedef uvhttp_str_t (*uvhttp_rate_limit_key_cb)(uvhttp_request_t *req, void *user);

/* --- stores --- Where the buckets are. Without one in the options they are in a table of this process. */

/** One request that wants to be admitted. */
typedef struct uvhttp_rate_limit_take {
    const char *policy;   /**< options.name */
    char kind;            /**< what `key` is: '4', '6' address bytes (masked), 'u' Unix socket, '?' unknown address,
                               'h' header value, 'r' route (empty), 'c' of the callback */
    uvhttp_str_t key;     /**< valid in the call */
    uint64_t now_ns;      /**< monotonic time of this machine */
    uint64_t interval_ns; /**< in which one request more is admitted: 1 / per_second */
    uint32_t burst;       /**< requests that a full bucket holds */
} uvhttp_rate_limit_take_t;

typedef struct uvhttp_rate_limit_decision {
    bool allowed;
    uint32_t remaining; /**< requests that would be admitted right after this one */
    uint64_t next_ns;   /**< until one more than `remaining` would be */
} uvhttp_rate_limit_decision_t;

typedef struct uvhttp_rate_limit_stats_s {
    uint64_t allowed;      /**< requests that the buckets admitted */
    uint64_t refused;      /**< requests that were answered 429 (or 503) because their bucket was empty */
    uint64_t keys;         /**< buckets held, full ones that nobody has asked for since included */
    uint64_t evicted;      /**< buckets forgotten before they were full, for want of room: raise max_keys if it grows */
    uint64_t exempt;       /**< requests passed by the allow list, or by a callback that returned no key */
    uint64_t store_errors; /**< requests for which the store failed */
} uvhttp_rate_limit_stats_t;

/** A request that waits for a store's decision. */
typedef struct uvhttp_rate_limit_ticket uvhttp_rate_limit_ticket_t;

/** A store: copied. Has `take` or `take_later`. All but destroy are called on any thread, at the same time, and must
 * not block. */
typedef struct uvhttp_rate_limit_store {
    /** Decides, and takes the request out of the bucket if it is allowed. Returns 0, or a UVHTTP_E_* code when it can
     * not decide: options.refuse_on_error says what becomes of the request then. */
    int (*take)(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_decision_t *decision);
    /** For a store that has to ask somebody: the request waits until uvhttp_rate_limit_decided was called with its
     * ticket, exactly once and soon, for the client waits too; `destroy` has to call it for all that are left. */
    void (*take_later)(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_ticket_t *ticket);
    /** Fills in allowed, refused, keys and evicted (the structure is zero before). May be NULL. */
    void (*stats)(void *user, uvhttp_rate_limit_stats_t *stats);
    /** Called once, with the middleware's end, or in a uvhttp_rate_limit that fails. May be NULL. */
    void (*destroy)(void *user);
    void *user;
} uvhttp_rate_limit_store_t;

/** The decision for a ticket, which is gone afterwards: status 0 and the decision (copied), or a UVHTTP_E_* code when
 * there is none. Any thread, also within take_later. */
UVHTTP_EXPORT void uvhttp_rate_limit_decided(uvhttp_rate_limit_ticket_t *ticket, int status,
                                             const uvhttp_rate_limit_decision_t *decision);

/** Zero is the default everywhere. Strings are copied. */
typedef struct uvhttp_rate_limit_redis_options {
    const char *address;  /**< "192.0.2.1:6379", "[2001:db8::1]:6379", "localhost:6379" or "unix:/path"; default
                               "127.0.0.1:6379" */
    const char *user;     /**< for AUTH with a password; default none */
    const char *password; /**< default none */
    uint32_t database;    /**< for SELECT; default 0 */
    const char *prefix;   /**< what keys in Redis begin with, 0..64 bytes; default "uvhttp:". The name of the limiter
                               follows: limiters that shall not share buckets need different ones */
    uint32_t timeout_ms;  /**< after which a request is decided without Redis, 1..10000; default 50 */
    uint32_t pending_max; /**< questions under way, 1..1,000,000; default 10000; more are decided without Redis */
} uvhttp_rate_limit_redis_options_t;

/** Fills in *store for options.store: buckets in a Redis server (5 or later), shared by all processes and machines that
 * use it with the same prefix, name and rates. A thread of its own asks; while Redis is away, slow or wrong, requests
 * pass or are refused as options.refuse_on_error says, and it is tried again. Give each limiter a store of its own.
 * Returns 0; UVHTTP_E_CONFIG, UVHTTP_E_NOMEM or UVHTTP_E_UNSUPPORTED (built without), which are logged, and then *store
 * is one that uvhttp_rate_limit refuses; UVHTTP_E_INVALID (store NULL). */
UVHTTP_EXPORT int uvhttp_rate_limit_redis(const uvhttp_rate_limit_redis_options_t *options,
                                          uvhttp_rate_limit_store_t *store);

/* --- the middleware --- */

/** Zero is the default everywhere. Strings are copied. */
typedef struct uvhttp_rate_limit_options {
    double per_second; /**< requests a second that a bucket refills, 0.00001..1,000,000; default 100. Five a minute is
                            5.0 / 60. Kept as a whole number of ns a request, rounded up: at most 0.1 % slower */
    uint32_t burst;    /**< requests that a full bucket holds, 1..1,000,000,000; default: one second's, at least 1.
                            burst / per_second is at most 366 days */
    uint32_t max_keys; /**< buckets at once, 1..100,000,000, 32 bytes each, allocated at once;
                            default 100,000. With a store of your own: not used */
    uvhttp_rate_limit_by_t by;    /**< default BY_ADDRESS */
    const char *header;           /**< BY_HEADER: its name */
    uvhttp_rate_limit_key_cb key; /**< BY_CALLBACK */
    void *key_user;               /**< for `key`; must live as long as the server */
    uint32_t ipv4_prefix;         /**< bits of an IPv4 address that count, 1..32; default 32: the address */
    uint32_t ipv6_prefix;         /**< bits of an IPv6 address that count, 1..128; default 64: what one customer gets */
    const char *const *allow;     /**< clients that are never limited, whatever `by`: "192.0.2.1", "10.0.0.0/8",
                                       "2001:db8::/32", "unix:"; default none */
    size_t allow_count;           /**< of `allow`, 0..1000 */
    int status;                   /**< of a refusal: 429 (default) or 503 */
    bool omit_headers;            /**< no RateLimit and RateLimit-Policy fields. Retry-After is sent all the same */
    const char *name;             /**< of the policy in those fields, 1..64 printable ASCII characters but '"' and '\';
                                       default "default". Give each its own when several limiters meet on a route */
    const uvhttp_rate_limit_store_t *store; /**< NULL: this process' own table. It is the middleware's from the call on,
                                                 also when that fails */
    bool refuse_on_error; /**< what becomes of a request that the store cannot decide on: false (default) it passes,
                               true it gets a 503 */
} uvhttp_rate_limit_options_t;

/** A middleware that admits as many requests of a key as its token bucket holds and refuses others with 429 and
 * Retry-After (RFC 6585 section 4, RFC 9110 section 10.2.3). Admitted and refused answers carry RateLimit and
 * RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11): r is what remains, t the seconds until that grows. One
 * table for all loops: what is admitted is exact. Time is that of the loop's turn. options NULL: defaults.
 *
 * On failure (an option out of range, or no memory) the log says what, and `run` is NULL: registering it then returns
 * UVHTTP_E_INVALID. Any thread, before the server runs. */
UVHTTP_EXPORT uvhttp_middleware_t uvhttp_rate_limit(const uvhttp_rate_limit_options_t *options);

/** What the limiter has done so far. Any thread, as long as the server that it is registered on exists. Returns 0, or
 * UVHTTP_E_INVALID when `middleware` is not a rate limiter, or stats is NULL. */
UVHTTP_EXPORT int uvhttp_rate_limit_stats(uvhttp_middleware_t middleware, uvhttp_rate_limit_stats_t *stats);

UVHTTP_END_DECLS

#endif
