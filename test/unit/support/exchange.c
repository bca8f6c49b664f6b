/* Owns: see exchange.h. */
#include "support/exchange.h"

#include <assert.h>

exchange_t *exchange_of(const uvhttp_response_t *res) {
    return (exchange_t *)((char *)res - offsetof(exchange_t, res));
}

void exchange_log(exchange_t *ex, const char *format, ...) {
    size_t used = strlen(ex->log);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ex->log + used, sizeof ex->log - used, format, arguments);
    va_end(arguments);
}

static void exchange_peer(const uvhttp_request_t *req, char text[UVHTTP__PEER_TEXT_MAX]) {
    exchange_t *ex = (exchange_t *)req; /* the first member */
    ++ex->peer_calls;
    strcpy(text, "[2001:db8::1]:50000");
}

int exchange_begin(uvhttp_response_t *res) {
    uvhttp__response_finish(res);
    uvhttp__response_commit(res);
    exchange_log(exchange_of(res), "begin:%d ", res->status);
    return exchange_of(res)->sink_result;
}

static int exchange_write(uvhttp_response_t *res, const char *data, size_t size) {
    exchange_log(exchange_of(res), "write:%.*s ", (int)size, data);
    return exchange_of(res)->sink_result;
}

static int exchange_interim(uvhttp_response_t *res, int status, uvhttp_str_t fields) {
    exchange_log(exchange_of(res), "interim:%d:%.*s ", status, (int)fields.size, fields.data);
    return exchange_of(res)->sink_result;
}

int exchange_end(uvhttp_response_t *res) {
    exchange_log(exchange_of(res), uvhttp__response_is(res, UVHTTP__RESPONSE_MISSIZED) ? "end:missized " : "end ");
    return exchange_of(res)->sink_result;
}

void exchange_cut_off(uvhttp_response_t *res) {
    exchange_log(exchange_of(res), "cut off ");
}

static uvhttp_deferred_t *exchange_defer(uvhttp_response_t *res) {
    exchange_t *ex = exchange_of(res);
    exchange_log(ex, "defer ");
    if (!ex->defer_fails) return (uvhttp_deferred_t *)ex;
    uvhttp__response_unavailable(res, UVHTTP_E_LIMIT); /* as the sink of an exchange does */
    return NULL;
}

static const uvhttp__request_ops_t exchange_request_ops = {.peer = exchange_peer};
static const uvhttp__response_sink_t exchange_sink = {.begin = exchange_begin,
                                                      .write = exchange_write,
                                                      .interim = exchange_interim,
                                                      .end = exchange_end,
                                                      .cut_off = exchange_cut_off,
                                                      .defer = exchange_defer};

static uvhttp__span_t exchange_text(exchange_t *ex, const char *text, size_t size) {
    assert(ex->head_size + size <= sizeof ex->head);
    uvhttp__span_t span = {(uint32_t)ex->head_size, (uint32_t)size};
    memcpy(ex->head + ex->head_size, text, size);
    ex->head_size += size;
    return span;
}

void exchange_request(exchange_t *ex, uvhttp_method_t method, uvhttp_str_t path, const char *query) {
    uvhttp__arena_reset(&ex->arena);
    uvhttp__request_reset(&ex->req);
    uvhttp__response_reset(&ex->res);
    memset(ex->head, '#', sizeof ex->head);
    ex->head_size = 0;
    ex->log[0] = '\0';
    uvhttp_request_t *req = &ex->req;
    req->base = ex->head;
    req->head.headers = ex->fields;
    req->head.header_count = 0;
    req->head.method = (uint8_t)method;
    req->head.version = UVHTTP_HTTP_1_1;
    req->head.path_plain = false;
    req->head.method_text = exchange_text(ex, uvhttp_method_name(method), strlen(uvhttp_method_name(method)));
    exchange_text(ex, " ", 1);
    req->head.path = exchange_text(ex, path.data, path.size);
    req->head.target = req->head.path;
    req->head.query = (uvhttp__span_t){(uint32_t)ex->head_size, 0};
    if (query) {
        exchange_text(ex, "?", 1);
        req->head.query = exchange_text(ex, query, strlen(query));
        req->head.target.size += 1 + req->head.query.size;
    }
    req->head.authority = exchange_text(ex, "example.org:8080", 16);
}

void exchange_field(exchange_t *ex, const char *name, const char *value) {
    uvhttp__field_t *field = &ex->fields[ex->req.head.header_count++];
    field->name = exchange_text(ex, name, strlen(name));
    field->value = exchange_text(ex, value, strlen(value));
}

void exchange_init(exchange_t *ex, size_t memory_max) {
    memset(ex, 0, sizeof *ex);
    uvhttp__arena_init(&ex->arena, NULL, 0, memory_max);
    uvhttp__request_init(&ex->req, &ex->arena, &exchange_request_ops);
    uvhttp__response_init(&ex->res, &ex->req, &ex->arena, &exchange_sink);
    exchange_request(ex, UVHTTP_GET, STR("/"), NULL);
}

void exchange_deinit(exchange_t *ex) {
    uvhttp__response_done(&ex->res, 0);
    uvhttp__arena_deinit(&ex->arena);
}
