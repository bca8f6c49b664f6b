/* Owns: the rate limiter as a middleware: the key of a request, the response to a refused one, the fields with the
 * remaining quota. May include: base, message, route. */
#include "middleware/rate_limit.h"
#include "base/sized.h"

#include <string.h>

#include "base/str.h"
#include "message/message.h"
#include "middleware/middleware.h"

/* --- whose request it is --- */

static void key_by_address(const uvhttp__rate_limiter_t *limiter, uvhttp__peer_t *who, uvhttp_rate_limit_take_t *take) {
    /* Of a Unix socket not even the path counts: it is what the client has bound to, and it could change it at will. */
    if (who->kind == UVHTTP__PEER_IPV4) uvhttp__ip_mask(&who->ip, limiter->ipv4_prefix);
    if (who->kind == UVHTTP__PEER_IPV6) uvhttp__ip_mask(&who->ip, limiter->ipv6_prefix);
    take->kind = who->kind;
    take->key = (uvhttp_str_t){(const char *)who->ip.bytes, who->ip.size};
}

/* Fills in kind and key, of which `who` holds the bytes of an address. False: the request is not limited. */
static bool make_key(const uvhttp__rate_limiter_t *limiter, uvhttp_request_t *req, uvhttp__peer_t *who,
                     uvhttp_rate_limit_take_t *take) {
    bool by_address = limiter->by == UVHTTP_RATE_LIMIT_BY_ADDRESS;
    if (limiter->by == UVHTTP_RATE_LIMIT_BY_HEADER) {
        take->kind = 'h';
        take->key = uvhttp_request_header(req, limiter->header);
        by_address = !take->key.data;
    }
    if (by_address || limiter->allow) *who = uvhttp__request_client(req)->address;
    if (uvhttp__ip_ranges_have(limiter->allow, who)) return false;
    if (by_address) key_by_address(limiter, who, take);
    if (limiter->by == UVHTTP_RATE_LIMIT_BY_ROUTE) {
        take->kind = 'r';
        take->key = UVHTTP__STR("");
    }
    if (limiter->by == UVHTTP_RATE_LIMIT_BY_CALLBACK) {
        take->kind = 'c';
        take->key = limiter->key(req, limiter->key_user);
        return take->key.data != NULL;
    }
    return true;
}

/* --- fields of the response --- */

static char *write_number(char *out, uint64_t number) {
    return out + uvhttp__write_decimal(out, number);
}

/* A field that does not fit into memory is omitted: the response matters more. */
static void say_what_is_left(const uvhttp__rate_limiter_t *limiter, uvhttp_response_t *res,
                             const uvhttp_rate_limit_decision_t *decision) {
    char text[UVHTTP__RATE_LIMIT_NAME_MAX + 2 * UVHTTP__DECIMAL_MAX + 16];
    memcpy(text, limiter->quoted, limiter->quoted_size);
    char *out = write_number(text + limiter->quoted_size, decision->remaining);
    memcpy(out, ";t=", 3);
    out = write_number(out + 3, uvhttp__seconds_up(decision->next_ns));
    *out = '\0';
    (void)uvhttp_response_header_add(res, "RateLimit-Policy", limiter->policy);
    (void)uvhttp_response_header_add(res, "RateLimit", text);
}

static uvhttp_flow_t refuse(uvhttp_response_t *res, int status) {
    static const char too_many[] = "Too Many Requests\n";
    static const char unavailable[] = "Service Unavailable\n";
    const char *text = status == 429 ? too_many : unavailable;
    uvhttp__response_forget_body(res);
    if (uvhttp_response_send_static(res, status, "text/plain; charset=utf-8", text, strlen(text)) != UVHTTP_OK)
        (void)uvhttp_response_empty(res, status);
    return UVHTTP_STOP;
}

/* The store's outcome becomes what happens to the request. */
static uvhttp_flow_t act(uvhttp__rate_limiter_t *limiter, uvhttp_request_t *req, uvhttp_response_t *res, int status,
                         const uvhttp_rate_limit_decision_t *decision) {
    if (status != UVHTTP_OK) {
        atomic_fetch_add_explicit(&limiter->store_errors, 1, memory_order_relaxed);
        uvhttp__middleware_count(req, rate_limit_undecided);
        if (!limiter->refuse_on_error) return UVHTTP_NEXT;
        uvhttp__response_retry_later(res);
        return refuse(res, 503);
    }
    if (!limiter->omit_headers) say_what_is_left(limiter, res, decision);
    if (decision->allowed) return UVHTTP_NEXT;
    uvhttp__middleware_count(req, rate_limited);
    char seconds[UVHTTP__DECIMAL_MAX + 1];
    *write_number(seconds, uvhttp__seconds_up(decision->next_ns)) = '\0';
    (void)uvhttp_response_header(res, "Retry-After", seconds);
    return refuse(res, limiter->status);
}

/* --- a store that decides later --- */

/* In the request's memory. */
struct uvhttp_rate_limit_ticket {
    uvhttp__rate_limiter_t *limiter;
    uvhttp_deferred_t *deferred;
    int status;
    uvhttp_rate_limit_decision_t decision;
};

static uvhttp_flow_t on_decided(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    if (!res) return UVHTTP_STOP; /* and the ticket is gone with the request */
    const uvhttp_rate_limit_ticket_t *ticket = user;
    return act(ticket->limiter, req, res, ticket->status, &ticket->decision);
}

void uvhttp_rate_limit_decided(uvhttp_rate_limit_ticket_t *ticket, int status,
                               const uvhttp_rate_limit_decision_t *decision) {
    uvhttp_deferred_t *deferred = ticket->deferred;
    ticket->status = status == UVHTTP_OK && !decision ? UVHTTP_E_INVALID : status;
    if (decision) ticket->decision = *decision;
    /* Without memory for the message, releasing the handle gives the client a 500. */
    (void)uvhttp_deferred_next(deferred, on_decided, ticket);
    uvhttp_deferred_release(deferred);
}

static uvhttp_flow_t ask_later(uvhttp__rate_limiter_t *limiter, uvhttp_request_t *req, uvhttp_response_t *res,
                               uvhttp_rate_limit_take_t *take) {
    uvhttp_rate_limit_ticket_t *ticket = uvhttp__arena_alloc(req->arena, sizeof *ticket);
    /* Deferring moves the request, and with it what the key may be a part of. */
    char *key = take->key.size > 0 ? uvhttp__arena_alloc_bytes(req->arena, take->key.size) : NULL;
    if (!ticket || (take->key.size > 0 && !key)) return act(limiter, req, res, UVHTTP_E_NOMEM, NULL);
    if (key) memcpy(key, take->key.data, take->key.size);
    take->key.data = key ? key : "";
    *ticket = (uvhttp_rate_limit_ticket_t){.limiter = limiter, .deferred = uvhttp_response_defer(res)};
    if (ticket->deferred) limiter->store.take_later(limiter->store.user, take, ticket);
    return UVHTTP_STOP;
}

static uvhttp_flow_t run(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp__rate_limiter_t *limiter = user;
    uvhttp__peer_t who = {.kind = UVHTTP__PEER_UNKNOWN};
    uvhttp_rate_limit_take_t take = {.policy = limiter->name,
                                     .now_ns = uvhttp_request_time_ns(req),
                                     .interval_ns = limiter->interval_ns,
                                     .burst = limiter->burst};
    if (!make_key(limiter, req, &who, &take)) {
        atomic_fetch_add_explicit(&limiter->exempt, 1, memory_order_relaxed);
        return UVHTTP_NEXT;
    }
    if (limiter->store.take_later) return ask_later(limiter, req, res, &take);
    uvhttp_rate_limit_decision_t decision;
    int status = limiter->store.take(limiter->store.user, &take, &decision);
    return act(limiter, req, res, status, &decision);
}

/* --- the public functions --- */

static void destroy(void *user) {
    uvhttp__rate_limiter_free(user);
}

uvhttp_middleware_t uvhttp_rate_limit_sized(const uvhttp_rate_limit_options_t *options, size_t options_size) {
    uvhttp__rate_limiter_t *limiter = uvhttp__rate_limiter_new(options, options_size);
    if (!limiter) return (uvhttp_middleware_t){.run = NULL};
    return (uvhttp_middleware_t){.run = run, .user = limiter, .destroy = destroy};
}

int uvhttp_rate_limit_stats_sized(uvhttp_middleware_t middleware, uvhttp_rate_limit_stats_t *stats, size_t stats_size) {
    if (middleware.run != run || !stats) return UVHTTP_E_INVALID;
    uvhttp__rate_limiter_t *limiter = middleware.user;
    uvhttp_rate_limit_stats_t full = {0};
    if (limiter->store.stats) limiter->store.stats(limiter->store.user, &full);
    full.exempt = atomic_load_explicit(&limiter->exempt, memory_order_relaxed);
    full.store_errors = atomic_load_explicit(&limiter->store_errors, memory_order_relaxed);
    uvhttp__sized_write(stats, stats_size, &full, sizeof full);
    return UVHTTP_OK;
}
