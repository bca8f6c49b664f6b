/* Owns: what the middlewares share: refusing wrong options, lists in options, Vary, and answers for want of memory.
 * Private to src/middleware. May include: message, base, obs. */
#ifndef UVHTTP_SRC_MIDDLEWARE_MIDDLEWARE_H
#define UVHTTP_SRC_MIDDLEWARE_MIDDLEWARE_H

#include <uvhttp/route.h>

#include "base/str.h"
#include "message/message.h"
#include "obs/counters.h"

/* Logs "middleware: <name>: <message>" as an error; the result cannot be registered. */
UVHTTP_PRINTF(2, 3) uvhttp_middleware_t uvhttp__middleware_refused(const char *name, const char *format, ...);

/* Counts in the shard of the request's loop, whose thread calls (on another one it counts nothing):
 * uvhttp__middleware_count(req, rate_limited). */
#define uvhttp__middleware_count(req, name)                                                                            \
    do {                                                                                                               \
        uvhttp__counters_t *shard_ = (req)->ops->counters ? (req)->ops->counters(req) : NULL;                          \
        if (shard_) uvhttp__counters_add(shard_, name, 1);                                                             \
    } while (0)

/* For a request that cannot be let through because memory is lacking: 503 without a body, which needs none. */
uvhttp_flow_t uvhttp__middleware_unavailable(uvhttp_response_t *res);

/* The value of the field called `name`. False if there is none, or more than one. */
bool uvhttp__single_header(const uvhttp_request_t *req, const char *name, uvhttp_str_t *value);

/* --- comma-separated lists --- */

/* Whether `item` is in it, case of ASCII letters ignored. */
bool uvhttp__list_has(uvhttp_str_t list, uvhttp_str_t item);

/* The items joined by ", ", terminated, for uvhttp__free; NULL if out of memory. */
char *uvhttp__list_copy(const char *list);

/* The first item that is not a token (RFC 9110 section 5.6.2); data NULL if all are. */
uvhttp_str_t uvhttp__list_wrong_token(const char *list);

/* Makes sure that Vary names `name`; what it names already stays, also "*". Returns 0 or a code of
 * uvhttp__response_put_header. */
UVHTTP_MUST_USE int uvhttp__vary_add(uvhttp_response_t *res, uvhttp_str_t name);

#endif
