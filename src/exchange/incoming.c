/* Owns: a streaming request body: its consumer, and when it is paused. */
#include "exchange/incoming.h"

#include "exchange/deadline.h"
#include "exchange/exec.h"

static bool is_open(const uvhttp__exchange_t *exchange) {
    return uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BODY_OPEN);
}

uvhttp__incoming_t *uvhttp__incoming_new(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = uvhttp__arena_alloc(&exchange->arena, sizeof *incoming);
    if (!incoming) return NULL;
    *incoming = (uvhttp__incoming_t){.handler_runs = true, .paused_at_ms = uvhttp__exchange_now_ms(exchange)};
    exchange->incoming = incoming;
    return incoming;
}

size_t uvhttp__exchange_piece_max(const uvhttp__exchange_t *exchange) {
    if (!exchange->incoming) return SIZE_MAX;
    uint32_t piece_max = exchange->incoming->piece_max;
    return piece_max > 0 ? piece_max : exchange->loop->service->config.read_buffer_size;
}

void uvhttp__incoming_resume(uvhttp__exchange_t *exchange) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!is_open(exchange)) return;
    uvhttp__rate_excuse(&exchange->intake->rate, uvhttp__exchange_now_ms(exchange) - incoming->paused_at_ms);
    incoming->paused_at_ms = uvhttp__exchange_now_ms(exchange);
    exchange->response_by_ms = 0;
    uvhttp__exchange_arm_deadline(exchange);
    exchange->protocol->want_body(exchange);
}

void uvhttp__body_fail(uvhttp__exchange_t *exchange, int status) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!incoming || !incoming->on_end || incoming->end_notified || exchange->responded) return;
    incoming->end_notified = true;
    incoming->on_end(&exchange->request, &exchange->response, status, incoming->user);
}

static uvhttp__exchange_t *exchange_of_request(uvhttp_request_t *req) {
    return UVHTTP__CONTAINER_OF(req, uvhttp__exchange_t, request);
}

int uvhttp__body_take(uvhttp__exchange_t *exchange, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end,
                      void *user) {
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!incoming || !incoming->handler_runs || incoming->on_end) return UVHTTP_E_STATE;
    incoming->on_data = on_data;
    incoming->on_end = on_end;
    incoming->user = user;
    return UVHTTP_OK;
}

/* The body of a handler on a worker thread belongs to that thread, like request and response: no other code is
 * notified. */
int uvhttp_request_on_body(uvhttp_request_t *req, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end, void *user) {
    if (!req || !on_data || !on_end) return UVHTTP_E_INVALID;
    uvhttp__exchange_t *exchange = exchange_of_request(req);
    if (!uvhttp__exchange_is_here(exchange)) return UVHTTP_E_STATE;
    if (exchange->incoming && uvhttp__route_mode(exchange->cursor.route) == UVHTTP_EXEC_WORKER) return UVHTTP_E_STATE;
    return uvhttp__body_take(exchange, on_data, on_end, user);
}

/* Returns 0, UVHTTP_E_STATE or UVHTTP_E_ABORTED. */
static int may_hold_back(const uvhttp__exchange_t *exchange) {
    if (!uvhttp__exchange_is_here(exchange)) return UVHTTP_E_STATE;
    if (!exchange->incoming || !exchange->incoming->on_end) return UVHTTP_E_STATE;
    uvhttp__loop_look_at_clock(exchange->loop->tcp->io);
    return exchange->protocol ? UVHTTP_OK : UVHTTP_E_ABORTED;
}

int uvhttp_request_pause_body(uvhttp_request_t *req) {
    uvhttp__exchange_t *exchange = exchange_of_request(req);
    int status = may_hold_back(exchange);
    if (status != UVHTTP_OK) return status;
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (incoming->paused || !is_open(exchange)) return UVHTTP_OK;
    incoming->paused = true;
    if (incoming->handler_runs) return UVHTTP_OK;
    incoming->paused_at_ms = uvhttp__exchange_now_ms(exchange);
    uvhttp__exchange_await(exchange);
    return UVHTTP_OK;
}

int uvhttp_request_resume_body(uvhttp_request_t *req) {
    uvhttp__exchange_t *exchange = exchange_of_request(req);
    int status = may_hold_back(exchange);
    if (status != UVHTTP_OK) return status;
    uvhttp__incoming_t *incoming = exchange->incoming;
    if (!incoming->paused) return UVHTTP_OK;
    incoming->paused = false;
    if (!incoming->handler_runs) uvhttp__incoming_resume(exchange);
    return UVHTTP_OK;
}
