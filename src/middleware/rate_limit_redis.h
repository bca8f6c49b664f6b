/* Owns: what the files of the Redis store share: the store, its queries, and the replies of Redis. May include: base.
 */
#ifndef UVHTTP_SRC_MIDDLEWARE_RATE_LIMIT_REDIS_H
#define UVHTTP_SRC_MIDDLEWARE_RATE_LIMIT_REDIS_H

#include <pthread.h>
#include <stdatomic.h>
#include <uvhttp/rate_limit.h>

#include "base/ip.h"
#include "base/mpsc.h"

#define UVHTTP__REDIS_NAME "rate_limit_redis"
#define UVHTTP__REDIS_PREFIX_SIZE_MAX 64
/* Bytes of a reply; expected ones have less than 100, errors a few hundred. */
#define UVHTTP__REDIS_REPLY_SIZE_MAX 4096
#define UVHTTP__REDIS_BACKOFF_MS_MIN 50

struct redisContext;

/* A question. Its key is the whole key in Redis. */
typedef struct uvhttp__redis_job {
    uvhttp__mpsc_node_t node;           /* first; in the queue of the loops */
    struct uvhttp__redis_job *next;     /* in a list of the thread's */
    uvhttp_rate_limit_ticket_t *ticket; /* NULL: decided; the reply is awaited only to be discarded */
    uint64_t deadline_ns;
    uint64_t interval; /* sixteenths of a microsecond */
    uint32_t burst;
    size_t key_size;
    char key[];
} uvhttp__redis_job_t;

typedef struct uvhttp__redis_list {
    uvhttp__redis_job_t *first, **last;
} uvhttp__redis_list_t;

typedef enum uvhttp__redis_state {
    UVHTTP__REDIS_AWAY,
    UVHTTP__REDIS_CONNECTING,
    UVHTTP__REDIS_PREPARING,
    UVHTTP__REDIS_READY
} uvhttp__redis_state_t;

typedef struct uvhttp__redis_store {
    char address_text[128];
    char path[108]; /* of a Unix socket; "": none */
    char host[UVHTTP__IP_TEXT_MAX];
    int port;
    char *user, *password; /* NULL: none */
    uint32_t database;
    char prefix[UVHTTP__REDIS_PREFIX_SIZE_MAX + 1];
    uint32_t timeout_ms, pending_max;

    pthread_mutex_t lock; /* starting the thread */
    bool running;         /* under the lock */
    atomic_bool started;
    pthread_t thread;
    int wake; /* eventfd */
    atomic_bool stopping;
    uvhttp__mpsc_t queue;
    _Atomic uint32_t pending; /* queries that are not decided, or whose reply is still awaited */
    _Atomic uint64_t allowed, refused;

    /* The thread's. */
    struct redisContext *redis; /* connects, and makes and writes commands; replies are read here, with a bound */
    uvhttp__redis_state_t state;
    char input[UVHTTP__REDIS_REPLY_SIZE_MAX];
    size_t input_size;
    bool reported_away;   /* the outage was logged */
    uint64_t reported_ns; /* when, the last time; 0: never */
    uint32_t unreported;  /* how often it has gone since then */
    unsigned preparing;   /* replies to AUTH, SELECT and SCRIPT LOAD that are still to come */
    char sha[41];
    uvhttp__redis_list_t waiting, sent;
    uint64_t retry_ns, connect_until_ns;
    uint64_t ready_ns; /* since when the connection has been ready */
    uint32_t backoff_ms;
} uvhttp__redis_store_t;

/* CLOCK_MONOTONIC: loops and the thread compare deadlines. */
uint64_t uvhttp__redis_now_ns(void);

/* The thread that talks to Redis (rate_limit_redis_thread.c), with the first question, so that a program may fork
 * before. False: it cannot be started. */
bool uvhttp__redis_start(uvhttp__redis_store_t *store);

static inline void uvhttp__redis_list_init(uvhttp__redis_list_t *list) {
    list->first = NULL;
    list->last = &list->first;
}

/* --- replies (rate_limit_redis_reply.c) --- */

#define UVHTTP__REDIS_NUMBERS 3 /* of a decision */

typedef struct uvhttp__redis_reply {
    char type; /* '+' '-' ':' '$' '*' */
    uvhttp_str_t text;
    int64_t numbers[UVHTTP__REDIS_NUMBERS];
} uvhttp__redis_reply_t;

typedef enum uvhttp__redis_parsed {
    UVHTTP__REDIS_COMPLETE,
    UVHTTP__REDIS_PART,
    UVHTTP__REDIS_WRONG
} uvhttp__redis_parsed_t;

/* Parses the reply at *at, which advances past it when it is complete. */
uvhttp__redis_parsed_t uvhttp__redis_parse_reply(const char **at, const char *end, uvhttp__redis_reply_t *reply);

#endif
