/* Owns: counting an exchange in the series of its attributes when it ends. May include: as exchange.h. */
#include "exchange/measure.h"

#include "base/error_index.h"
#include "base/method.h"

static uvhttp__series_t *find(uvhttp__exchange_t *exchange, unsigned status, unsigned error) {
    uvhttp__http_loop_t *loop = exchange->loop;
    const uvhttp__head_t *head = &exchange->request.head;
    bool is_known = LIKELY(exchange->failure == UVHTTP_OK) || head->target.size > 0; /* there is a request line */
    uvhttp__attributes_t attributes = {.status = status,
                                       .method = uvhttp__method_slot(is_known ? head->method : UVHTTP_METHOD_OTHER),
                                       .version = head->version,
                                       .is_tls = exchange->protocol->connection(exchange)->stream.filter != NULL,
                                       .error = error};
    uvhttp__series_key_t key = {exchange->cursor.route, uvhttp__attributes_pack(attributes)};
    uvhttp__series_t *series = uvhttp__series_find(loop->metrics, key);
    if (UNLIKELY(uvhttp__series_is_overflow(loop->metrics, series)))
        uvhttp__counters_add(&loop->tcp->counters, metrics_series_overflows, 1);
    return series;
}

static bool read_trace(const uvhttp__exchange_t *exchange, uvhttp__trace_id_t *id) {
    uvhttp_str_t text = uvhttp_request_header(&exchange->request, "traceparent");
    return uvhttp__trace_id_read(id, text.data, text.size);
}

/* One in UVHTTP__EXEMPLAR_NS is looked at. */
static NOINLINE void look_for_trace(uvhttp__exchange_t *exchange, const uvhttp__series_t *series) {
    uvhttp__series_shard_t *metrics = exchange->loop->metrics;
    metrics->exemplar_due = false;
    if (read_trace(exchange, &metrics->candidate_id)) metrics->candidate = (uint32_t)(series - metrics->series);
}

/* It has taken longer than an iteration, or ends otherwise than it should. */
static NOINLINE void record_alone(uvhttp__exchange_t *exchange, uvhttp__series_t *series) {
    uint64_t ns = uvhttp__clock_ns() - exchange->start_ns;
    uvhttp__trace_id_t id;
    uvhttp__series_record(series, ns);
    if (read_trace(exchange, &id)) uvhttp__exemplar_put(exchange->loop->metrics, series, &id, ns);
}

static inline void count_bodies(const uvhttp__exchange_t *exchange, uvhttp__series_t *series, uint64_t sent) {
    uvhttp__series_bodies(series, exchange->intake ? exchange->intake->seen : 0, sent);
}

UVHTTP__HOT void uvhttp__exchange_measure(uvhttp__exchange_t *exchange) {
    uvhttp__series_shard_t *metrics = exchange->loop->metrics;
    const uvhttp_response_t *res = &exchange->response;
    unsigned error = UVHTTP__ERROR_TYPE_NONE;
    if (UNLIKELY(exchange->failure != UVHTTP_OK))
        error = uvhttp__error_index(exchange->failure);
    else if (UNLIKELY(res->status >= 500))
        error = UVHTTP__ERROR_TYPE_STATUS;
    uvhttp__series_t *series = find(exchange, (unsigned)res->status, error);
    count_bodies(exchange, series, res->sent_size);
    if (UNLIKELY(exchange->start_iteration != exchange->loop->tcp->io->iteration_number)) {
        record_alone(exchange, series);
        return;
    }
    uvhttp__series_pend(metrics, series);
    if (UNLIKELY(metrics->exemplar_due)) look_for_trace(exchange, series);
}

/* The response may be another thread's: what the loop has of it is its head, once the protocol has that. */
void uvhttp__exchange_measure_abort(uvhttp__exchange_t *exchange, int code) {
    if (!exchange->loop->metrics || !exchange->protocol) return;
    const uvhttp_response_t *res = &exchange->response;
    bool has_head = exchange->begun || exchange->responded;
    if (exchange->failure != UVHTTP_OK) code = exchange->failure;
    uvhttp__series_t *series = find(exchange, has_head ? (unsigned)res->status : 0, uvhttp__error_index(code));
    count_bodies(exchange, series, has_head ? res->sent_size : 0);
    record_alone(exchange, series);
}
