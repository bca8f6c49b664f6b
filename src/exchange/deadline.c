/* Owns: the time of an exchange: the client's for its body, and the application's for its response. */
#include "exchange/deadline.h"

#include "base/never.h"

/* What the client has to send. */
static uvhttp__rate_limits_t rate_limits(const uvhttp__exchange_t *exchange) {
    const uvhttp_server_config_t *config = &exchange->loop->service->config;
    const uvhttp_route_t *route = exchange->cursor.route;
    uint32_t timeout = route ? route->options.body_timeout : 0;
    if (timeout == 0) timeout = config->body_timeout;
    return (uvhttp__rate_limits_t){exchange->loop->service->times.min_receive_rate, config->rate_grace,
                                   uvhttp__or_none(timeout)};
}

void uvhttp__exchange_start_rate(uvhttp__exchange_t *exchange) {
    const uvhttp__rate_limits_t limits = rate_limits(exchange);
    uvhttp__intake_t *intake = exchange->intake;
    uvhttp__rate_start(&intake->rate, &limits, (uint32_t)intake->seen, uvhttp__exchange_now_ms(exchange));
}

bool uvhttp__exchange_client_is_late(uvhttp__exchange_t *exchange) {
    if (!exchange->receiving || !uvhttp__exchange_is_receiving(exchange)) return false;
    const uvhttp__rate_limits_t limits = rate_limits(exchange);
    uvhttp__intake_t *intake = exchange->intake;
    uvhttp__rate_verdict_t verdict =
        uvhttp__rate_look(&intake->rate, &limits, (uint32_t)intake->seen, uvhttp__exchange_now_ms(exchange));
    if (verdict == UVHTTP__RATE_FINE) return false;
    uvhttp__counters_t *counters = &exchange->loop->tcp->counters;
    if (verdict == UVHTTP__RATE_STALLED)
        uvhttp__counters_add(counters, timeouts_body, 1);
    else
        uvhttp__counters_add(counters, slow_read, 1);
    return true;
}

void uvhttp__exchange_arm_deadline(uvhttp__exchange_t *exchange) {
    uint64_t at = UINT64_MAX;
    if (exchange->receiving && uvhttp__exchange_is_receiving(exchange))
        at = uvhttp__exchange_now_ms(exchange) + UVHTTP__RATE_INTERVAL_MS;
    if (exchange->response_by_ms > 0 && exchange->response_by_ms < at) at = exchange->response_by_ms;
    exchange->protocol->set_deadline(exchange, at);
}

void uvhttp__exchange_await(uvhttp__exchange_t *exchange) {
    if (exchange->loop->deferred_in_iteration < UINT16_MAX) exchange->loop->deferred_in_iteration++;
    uint32_t timeout = exchange->cursor.route ? exchange->cursor.route->options.response_timeout_ms : 0;
    bool begun = uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BEGUN);
    if (timeout > 0 && exchange->response_by_ms == 0 && !begun)
        exchange->response_by_ms = uvhttp__exchange_now_ms(exchange) + timeout;
    uvhttp__exchange_arm_deadline(exchange);
}
