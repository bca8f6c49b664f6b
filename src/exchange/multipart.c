/* Owns: multipart/form-data out of a body that comes piece by piece. */
#include <uvhttp/form.h>

#include "exchange/respond.h"
#include "message/multipart.h"

typedef struct upload {
    uvhttp_multipart_t parser;
    uvhttp_multipart_cb on_event;
    uvhttp_body_end_cb on_end;
    void *user;
    bool end_notified;
} upload_t;

/* The body is malformed, or beyond a limit. */
static void fail(upload_t *upload, uvhttp_request_t *req, uvhttp_response_t *res, int code) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    uvhttp__counters_error(&exchange->loop->tcp->counters, code);
    upload->end_notified = true;
    upload->on_end(req, res, code, upload->user);
    if (uvhttp__response_is_complete(res)) return;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN))
        exchange->protocol->reset(exchange, code);
    else
        uvhttp__response_fail_by(res, code, uvhttp_error_http_status(code), uvhttp_error_message(code));
}

static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    upload_t *upload = user;
    uvhttp_multipart_event_t event;
    int status = UVHTTP_OK;
    for (size_t at = 0, consumed; status == UVHTTP_OK && !upload->end_notified; at += consumed) {
        status = uvhttp_multipart_read(&upload->parser, data.data + at, data.size - at, &consumed, &event);
        if (status != UVHTTP_OK || event.kind == UVHTTP_MULTIPART_END) continue;
        upload->on_event(req, res, &event, upload->user);
        if (uvhttp__response_is_complete(res)) return;
    }
    if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) fail(upload, req, res, status);
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    upload_t *upload = user;
    if (upload->end_notified) return;
    int whole = status == UVHTTP_OK ? uvhttp_multipart_finish(&upload->parser) : UVHTTP_OK;
    if (whole != UVHTTP_OK) {
        fail(upload, req, res, whole);
        return;
    }
    upload->end_notified = true;
    upload->on_end(req, res, status, upload->user);
}

int uvhttp_request_on_multipart(uvhttp_request_t *req, const uvhttp_form_limits_t *limits, uvhttp_multipart_cb on_event,
                                uvhttp_body_end_cb end, void *user) {
    if (!req || !on_event || !end) return UVHTTP_E_INVALID;
    uvhttp_str_t content_type;
    int status = uvhttp__form_type(req, &content_type);
    if (status != UVHTTP_OK) return status;
    upload_t *upload = uvhttp_request_alloc(req, sizeof *upload);
    if (!upload) return UVHTTP_E_NOMEM;
    upload->on_event = on_event;
    upload->on_end = end;
    upload->user = user;
    upload->end_notified = false;
    status = uvhttp_multipart_init(&upload->parser, content_type, limits);
    return status == UVHTTP_OK ? uvhttp_request_on_body(req, on_data, on_end, upload) : status;
}
