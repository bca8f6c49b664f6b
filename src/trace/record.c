/* Owns: a span as the record that a loop leaves for the exporter, which shares nothing with the exchange.
 * May include: exchange, message, base, obs. */
#include <string.h>

#include "base/str.h"
#include "exchange/exchange.h"
#include "trace/span.h"

#define FIELD_SIZE_MAX 1024 /* bytes; what is longer is cut */

typedef struct source {
    uvhttp__span_record_t record;
    uvhttp_str_t fields[UVHTTP__SPAN_FIELD_COUNT];
    const uvhttp__addition_node_t *additions;
    size_t size; /* of the whole record */
} source_t;

/* A later attribute of the same name has replaced it. */
static bool is_replaced(const uvhttp__addition_node_t *first, const uvhttp__addition_node_t *node) {
    const uvhttp__addition_t *own = &node->addition;
    if (own->kind == UVHTTP__ADDITION_EVENT) return false;
    for (; first != node; first = first->next) {
        const uvhttp__addition_t *other = &first->addition;
        if (other->kind != UVHTTP__ADDITION_EVENT && other->name_size == own->name_size &&
            memcmp(first->bytes, node->bytes, own->name_size) == 0)
            return true;
    }
    return false;
}

static size_t bytes_of(const uvhttp__addition_t *addition) {
    return (size_t)addition->name_size + addition->text_size;
}

static void describe_request(source_t *source, uvhttp_response_t *res) {
    uvhttp_request_t *req = uvhttp_response_request(res);
    const uvhttp__client_t *client = uvhttp__request_client(req);
    const uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    uvhttp__span_record_t *record = &source->record;
    record->client = client->address;
    record->https = client->https;
    record->method = (uint8_t)uvhttp_request_method(req);
    record->version = (uint8_t)uvhttp_request_http_version(req);
    source->fields[UVHTTP__SPAN_METHOD] = uvhttp_request_method_text(req);
    if (exchange->cursor.chain && exchange->cursor.route)
        source->fields[UVHTTP__SPAN_ROUTE] = uvhttp__str_from(exchange->cursor.route->pattern);
    source->fields[UVHTTP__SPAN_PATH] = uvhttp_request_path(req);
    source->fields[UVHTTP__SPAN_SERVER] = uvhttp_request_client_host(req);
    source->fields[UVHTTP__SPAN_AGENT] = uvhttp_request_header(req, "User-Agent");
}

static void describe(source_t *source, uvhttp_response_t *res, const uvhttp__trace_span_t *span, int status) {
    uvhttp_request_t *req = uvhttp_response_request(res);
    const uvhttp__trace_context_t *context = &span->record.context;
    uvhttp__span_record_t *record = &source->record;
    *source = (source_t){.additions = atomic_load_explicit(&span->additions, memory_order_acquire)};
    describe_request(source, res);
    req->ops->times(req, &record->start_ns, &record->end_ns);
    bool refused;
    record->status = (uint16_t)uvhttp__response_outcome(res, &refused);
    record->error = (int16_t)(refused ? UVHTTP_OK : status);
    memcpy(record->trace_id, context->trace_id, sizeof record->trace_id);
    memcpy(record->span_id, context->span_id, sizeof record->span_id);
    memcpy(record->parent_id, span->parent_id, sizeof record->parent_id);
    record->has_parent = span->has_parent;
    record->flags = context->flags;
    source->fields[UVHTTP__SPAN_STATE] = context->state;
    record->attributes_dropped = atomic_load_explicit(&span->attributes_dropped, memory_order_relaxed);
    record->events_dropped = atomic_load_explicit(&span->events_dropped, memory_order_relaxed);
}

static void measure(source_t *source) {
    source->size = sizeof source->record;
    for (int i = 0; i < UVHTTP__SPAN_FIELD_COUNT; i++) {
        if (source->fields[i].size > FIELD_SIZE_MAX) source->fields[i].size = FIELD_SIZE_MAX;
        source->record.sizes[i] = (uint16_t)source->fields[i].size;
        source->size += source->fields[i].size;
    }
    for (const uvhttp__addition_node_t *node = source->additions; node; node = node->next) {
        if (is_replaced(source->additions, node)) continue;
        source->record.additions++;
        source->size += sizeof node->addition + bytes_of(&node->addition);
    }
}

static char *put(char *out, const void *bytes, size_t size) {
    if (size > 0) memcpy(out, bytes, size);
    return out + size;
}

static void fill(uvhttp__span_record_t *record, const source_t *source) {
    const uvhttp__ring_record_t own = record->record;
    *record = source->record;
    record->record = own;
    char *out = (char *)(record + 1);
    for (int i = 0; i < UVHTTP__SPAN_FIELD_COUNT; i++) out = put(out, source->fields[i].data, source->fields[i].size);
    for (const uvhttp__addition_node_t *node = source->additions; node; node = node->next) {
        if (is_replaced(source->additions, node)) continue;
        out = put(out, &node->addition, sizeof node->addition);
        out = put(out, node->bytes, bytes_of(&node->addition));
    }
}

uint64_t uvhttp__span_put(uvhttp__ring_t *ring, uvhttp_response_t *res, const uvhttp__trace_span_t *span, int status) {
    source_t source;
    describe(&source, res, span, status);
    measure(&source);
    uvhttp__span_record_t *record = uvhttp__ring_reserve(ring, source.size);
    if (!record) return 0;
    fill(record, &source);
    return uvhttp__ring_commit(ring);
}

void uvhttp__span_view(const uvhttp__span_record_t *record, uvhttp__span_view_t *view) {
    const char *at = (const char *)(record + 1);
    view->record = record;
    for (int i = 0; i < UVHTTP__SPAN_FIELD_COUNT; i++) {
        view->fields[i] = (uvhttp_str_t){at, record->sizes[i]};
        at += record->sizes[i];
    }
    view->additions = at;
}

void uvhttp__addition_read(const char **at, uvhttp__addition_t *addition, uvhttp_str_t *name, uvhttp_str_t *text) {
    memcpy(addition, *at, sizeof *addition);
    *name = (uvhttp_str_t){*at + sizeof *addition, addition->name_size};
    *text = (uvhttp_str_t){name->data + name->size, addition->text_size};
    *at = text->data + text->size;
}
