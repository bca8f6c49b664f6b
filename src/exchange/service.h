/* Owns: what requests are served with: the settings, routes and pools of a server, and the state of HTTP on each of its
 * loops. May include: route, message, exec, conn, io, base, obs. */
#ifndef UVHTTP_SRC_EXCHANGE_SERVICE_H
#define UVHTTP_SRC_EXCHANGE_SERVICE_H

#include <uvhttp/body.h>
#include <uvhttp/server.h>

#include "base/date.h"
#include "base/http_head.h"
#include "conn/tcp_server.h"
#include "exec/coro.h"
#include "exec/work.h"
#include "message/message.h"
#include "obs/histogram.h"
#include "obs/series.h"
#include "route/router.h"

typedef struct uvhttp__protocol uvhttp__protocol_t;
typedef struct uvhttp__exchange uvhttp__exchange_t;

/* What a client has to keep to; 0: none. */
typedef struct uvhttp__times {
    uint32_t connection_timeout, keepalive_timeout; /* seconds */
    uint32_t min_receive_rate;                      /* bytes per second */
} uvhttp__times_t;

/* Of a server; the first member of it. What is not atomic does not change once the loops run. */
typedef struct uvhttp__service {
    uvhttp_server_config_t config;
    uvhttp__head_limits_t head_limits; /* the same of `config` */
    uvhttp__times_t times;             /* the same */
    uvhttp__router_t *router;
    bool has_websocket;       /* a route of it */
    bool traced;              /* requests are traced or timed (message.h, uvhttp__trace_record_t) */
    uvhttp__trust_t trust;    /* proxies; ranges NULL: none */
    uvhttp_error_cb on_error; /* NULL: the server's own responses leave as they are */
    void *on_error_user;
    uvhttp__work_t *work;         /* the pool of worker threads */
    _Atomic(uint64_t) spooled;    /* bytes in temporary files of bodies, or on their way there */
    _Atomic(uint32_t) live_calls; /* handlers with live_body that the pool has */
    uvhttp__coro_budget_t coro_budget;
} uvhttp__service_t;

/* Exchanges of one protocol on one loop that wait for their next request. */
typedef struct uvhttp__exchange_pool {
    const uvhttp__protocol_t *protocol;
    uvhttp__exchange_t *free;
    uint32_t free_count;
} uvhttp__exchange_pool_t;

/* The HTTP state of a loop; loop->user. */
typedef struct uvhttp__http_loop {
    uvhttp__tcp_loop_t *tcp;
    uvhttp__service_t *service;
    uvhttp__exchange_pool_t http1; /* exchanges of HTTP/1 connections */
    void *http2;                   /* what HTTP/2 has on the loop; NULL before its first connection */
    uvhttp__work_port_t port;      /* to the server's pool and back */
    uvhttp__list_t calls;          /* handlers for worker threads, submitted to the pool when the iteration ends */
    uvhttp__coro_sched_t coros;
    union {
        uint64_t due_in_iteration; /* whether there is something to do when it ends; the whole of: */
        struct {
            uint32_t
                responses_in_iteration; /* requests that arrived and were completed in it: one entry of the histogram */
            uint16_t deferred_in_iteration; /* requests deferred since then, saturating */
            bool has_calls;
        };
    };
    uvhttp__series_shard_t *metrics; /* NULL: config.metrics is off */
    union {
        uint16_t around; /* whether something is to be done around a handler; the whole of: */
        struct {
            bool timed;  /* handlers are timed one by one, to find the one that blocks: until timed_until_ms */
            bool traced; /* what they send and log belongs to a trace */
        };
    };
    bool found_in_iteration;          /* ... and one was found */
    const uvhttp_route_t *last_route; /* whose handler was run last */
    uint64_t look_ns;                 /* an iteration that lasts so long is checked: warn_ns, or 0 while timed */
    uint64_t warn_ns;                 /* UINT64_MAX: off */
    uint64_t timed_until_ms, reported_at_ms, no_response_reported_at_ms;
    _Atomic uint32_t unrouted_said_s, unnamed_said_s; /* as uvhttp_route_t.blocked_said_s */
    uint64_t date_until_ms;                           /* loop time at which the date below is out of date */
    char date[UVHTTP__DATE_SIZE];                     /* of responses, by protocol/date.h */
    uvhttp__field_t *fields; /* limits.header_count_max, of the head that is read: an exchange that owns its head has a
                                 copy */
    uvhttp__histogram_t response_time; /* ns */
} uvhttp__http_loop_t;

#endif
