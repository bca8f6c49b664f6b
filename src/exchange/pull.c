/* Owns: a streamed body that the handler asks for piece by piece: what comes until the piece is taken becomes part of
 * it, so that a body in many small chunks costs no wait for each. From then on the body is paused, so that the client
 * is held back. Who waits for a piece, and how, is the business of coroutine.c and worker.c. The loop's thread. */
#include "exchange/pull.h"

#include <string.h>

#include "base/alloc.h"
#include "exchange/incoming.h"

static void add(uvhttp__pull_t *pull, uvhttp_str_t data) {
    const uint32_t piece_max = pull->exchange->loop->service->config.read_buffer_size;
    if (!pull->piece) pull->piece = uvhttp__malloc(piece_max);
    if (!pull->piece) {
        pull->end_status = UVHTTP_E_NOMEM;
        pull->ended = true;
        (void)uvhttp_request_pause_body(&pull->exchange->request);
        return;
    }
    memcpy(pull->piece + pull->size, data.data, data.size);
    pull->size += data.size;
    uint32_t capacity = piece_max - (uint32_t)pull->size;
    pull->exchange->incoming->piece_max = capacity;
    if (capacity == 0) (void)uvhttp_request_pause_body(&pull->exchange->request);
}

static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)res;
    uvhttp__pull_t *pull = user;
    bool first = pull->size == 0;
    add(pull, data);
    if (first) pull->come(pull);
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)res;
    uvhttp__pull_t *pull = user;
    if (!pull->ended) pull->end_status = status == UVHTTP_OK ? UVHTTP_E_EOF : status;
    pull->ended = true;
    pull->come(pull);
}

void uvhttp__pull_open(uvhttp__pull_t *pull, uvhttp__exchange_t *exchange, void (*come)(uvhttp__pull_t *pull)) {
    *pull = (uvhttp__pull_t){.exchange = exchange, .come = come};
    if (!exchange->incoming) return;
    pull->end_status = uvhttp__body_take(exchange, on_data, on_end, pull);
    pull->ended = pull->end_status != UVHTTP_OK; /* a middleware has it */
    if (!pull->ended) (void)uvhttp_request_pause_body(&exchange->request);
}

void uvhttp__pull_close(uvhttp__pull_t *pull) {
    uvhttp__incoming_t *incoming = pull->exchange->incoming;
    if (incoming && incoming->on_data == on_data) incoming->on_end = NULL; /* nobody wants the rest */
    uvhttp__free(pull->piece);
    pull->piece = NULL;
}

bool uvhttp__pull_ready(const uvhttp__pull_t *pull) {
    return !pull->exchange->incoming || pull->size > 0 || pull->ended;
}

int uvhttp__pull_take(uvhttp__pull_t *pull, uvhttp_str_t *piece) {
    if (!pull->exchange->incoming) { /* it has come already, and is the only piece */
        uvhttp_str_t body = pull->exchange->request.body;
        if (pull->ended || body.size == 0) return UVHTTP_E_EOF;
        pull->ended = true;
        *piece = body;
        return UVHTTP_OK;
    }
    if (pull->size == 0) return pull->end_status;
    *piece = (uvhttp_str_t){pull->piece, pull->size};
    pull->size = 0;
    pull->exchange->incoming->piece_max = 0;
    (void)uvhttp_request_pause_body(&pull->exchange->request); /* it stays as it is until the body is resumed */
    return UVHTTP_OK;
}
