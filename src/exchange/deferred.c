/* Owns: what any thread may say through a deferred handle: each call becomes a message, which the loop applies to the
 * response. */
#include "exchange/deferred.h"

#include <string.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "base/str.h"
#include "exchange/body.h"
#include "exchange/respond.h"

typedef enum message_kind { SEND, SEND_REF, HEADER, INTERIM, RUN, ON_STOP, RESUME } message_kind_t;

typedef struct message {
    uvhttp__post_t post;
    uvhttp_deferred_t *deferred; /* kept by it */
    message_kind_t kind;
    int status;
    const char *type;  /* content type or header name, in text */
    const char *value; /* header value, in text */
    const char *data;
    size_t size;
    union {
        void (*release)(void *arg);
        void (*run)(uvhttp_response_t *res, void *user);
        uvhttp_middleware_cb resume;
    };
    void *arg;
    char text[];
} message_t;

/* --- on the loop --- */

static void fail(uvhttp_response_t *res, int status) {
    uvhttp__response_fail_by(res, status, status == UVHTTP_E_NOMEM || status == UVHTTP_E_LIMIT ? 503 : 500, NULL);
}

static void take_on_stop(const message_t *message, const uvhttp__exchange_t *exchange) {
    uvhttp_deferred_t *deferred = message->deferred;
    if (!uvhttp__deferred_is_open(deferred)) return; /* the message was on its way */
    bool stops = exchange->protocol->drains(exchange);
    deferred->on_stop = stops ? NULL : message->run;
    deferred->on_stop_user = message->arg;
    if (stops) message->run(&deferred->exchange->response, message->arg);
}

/* The caller has returned: only the log can say it. */
static void set_header(const message_t *message, uvhttp_response_t *res) {
    int status = uvhttp_response_header(res, message->type, message->value);
    if (status != UVHTTP_OK)
        UVHTTP_LOG_WARN("http: header field %s of a deferred response refused: %s", message->type,
                        uvhttp_error_message(status));
}

static void apply(const message_t *message, uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    int status = UVHTTP_OK;
    switch (message->kind) {
        case SEND:
            status = uvhttp_response_send(res, message->status, message->type, message->data, message->size);
            break;
        case SEND_REF:
            status = uvhttp_response_send_ref(res, message->status, message->type, message->data, message->size,
                                              message->release, message->arg);
            break;
        case HEADER: set_header(message, res); break;
        case INTERIM:
            (void)uvhttp__response_interim(res, message->status, (uvhttp_str_t){message->data, message->size});
            break;
        case RUN: message->run(res, message->arg); break;
        case ON_STOP: take_on_stop(message, exchange); break;
        case RESUME: break; /* never here: it is the end of the handle */
    }
    if (status != UVHTTP_OK && !uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN)) fail(res, status);
}

static void nobody_there(const message_t *message) {
    if (message->kind == SEND_REF && message->release) message->release(message->arg);
    if (message->kind == RUN) message->run(NULL, message->arg);
    if (message->kind == RESUME) (void)message->resume(NULL, NULL, message->arg);
}

/* After it the handle accepts no message that could respond. */
static bool is_last(const message_t *message) {
    return message->kind == SEND || message->kind == SEND_REF;
}

static void run_message(uvhttp__post_t *post) {
    message_t *message = UVHTTP__CONTAINER_OF(post, message_t, post);
    uvhttp_deferred_t *deferred = message->deferred;
    /* Only this thread writes `exchange`, and an aborted one belongs to the threads that read it. */
    uvhttp__exchange_t *exchange = deferred->exchange;
    if (!exchange || !exchange->protocol) {
        nobody_there(message);
    } else if (message->kind == RESUME) {
        uvhttp__deferred_detach(deferred); /* the chain and the handler may defer again */
        uvhttp__response_undefer(&exchange->response);
        uvhttp__exchange_resume(exchange, message->resume, message->arg);
    } else {
        uvhttp__response_undefer(&exchange->response);
        apply(message, exchange);
        if (is_last(message) && !uvhttp__response_is_complete(&exchange->response))
            uvhttp__deferred_abandon(deferred, exchange); /* a streamed response was begun, and no message can end it */
        else
            uvhttp__deferred_proceed(deferred, exchange);
    }
    uvhttp__deferred_let_go(deferred);
    uvhttp__free(message);
}

/* --- on any thread --- */

void uvhttp_deferred_on_abort(uvhttp_deferred_t *deferred, void (*on_abort)(uvhttp_deferred_t *deferred, void *user),
                              void *user) {
    deferred->on_abort = on_abort;
    deferred->on_abort_user = user;
}

void uvhttp_deferred_on_drain(uvhttp_deferred_t *deferred, void (*on_drain)(uvhttp_response_t *res, void *user),
                              void *user) {
    deferred->on_drain = on_drain;
    deferred->on_drain_user = user;
}

static message_t *message_new(uvhttp_deferred_t *deferred, message_kind_t kind, size_t text_size) {
    message_t *message = uvhttp__calloc(1, sizeof *message + text_size);
    if (!message) return NULL;
    message->post.run = run_message;
    message->deferred = deferred;
    message->kind = kind;
    return message;
}

/* The message keeps the handle. `next` is the state that it leads to. */
static int post(message_t *message, uvhttp__deferred_state_t next) {
    int status = uvhttp__deferred_post(message->deferred, &message->post, next);
    if (status != UVHTTP_OK) uvhttp__free(message);
    return status;
}

static bool valid(int status, const char *content_type, const void *data, size_t size) {
    if (status < 200 || status > 599 || (!data && size > 0)) return false;
    return !content_type || uvhttp__valid_header_value((uvhttp_str_t){content_type, strlen(content_type)});
}

int uvhttp_deferred_send(uvhttp_deferred_t *deferred, int status, const char *content_type, const void *data,
                         size_t size) {
    if (!deferred || !valid(status, content_type, data, size)) return UVHTTP_E_INVALID;
    size_t type_size = content_type ? strlen(content_type) + 1 : 0;
    if (size > SIZE_MAX - sizeof(message_t) - type_size) return UVHTTP_E_INVALID;
    message_t *message = message_new(deferred, SEND, type_size + size);
    if (!message) return UVHTTP_E_NOMEM;
    message->status = status;
    if (content_type) message->type = memcpy(message->text, content_type, type_size);
    if (size > 0) memcpy(message->text + type_size, data, size);
    message->data = message->text + type_size;
    message->size = size;
    return post(message, UVHTTP__DEFERRED_SENT);
}

int uvhttp_deferred_text(uvhttp_deferred_t *deferred, int status, const char *text) {
    if (!text) return UVHTTP_E_INVALID;
    return uvhttp_deferred_send(deferred, status, "text/plain; charset=utf-8", text, strlen(text));
}

int uvhttp_deferred_json(uvhttp_deferred_t *deferred, int status, const char *json) {
    if (!json) return UVHTTP_E_INVALID;
    return uvhttp_deferred_send(deferred, status, "application/json", json, strlen(json));
}

int uvhttp_deferred_send_ref(uvhttp_deferred_t *deferred, int status, const char *content_type, const void *data,
                             size_t size, void (*release)(void *arg), void *arg) {
    int problem = UVHTTP_E_INVALID;
    message_t *message = NULL;
    if (!deferred || !valid(status, content_type, data, size)) goto fail;
    size_t type_size = content_type ? strlen(content_type) + 1 : 0;
    message = message_new(deferred, SEND_REF, type_size);
    problem = UVHTTP_E_NOMEM;
    if (!message) goto fail;
    message->status = status;
    if (content_type) message->type = memcpy(message->text, content_type, type_size);
    message->data = data;
    message->size = size;
    message->release = release;
    message->arg = arg;
    problem = post(message, UVHTTP__DEFERRED_SENT);
    if (problem == UVHTTP_OK) return UVHTTP_OK;
fail:
    if (release) release(arg);
    return problem;
}

int uvhttp_deferred_header(uvhttp_deferred_t *deferred, const char *name, const char *value) {
    return uvhttp_deferred_header_str(deferred, name, uvhttp__str_from(value));
}

int uvhttp_deferred_header_str(uvhttp_deferred_t *deferred, const char *name, uvhttp_str_t value) {
    if (!deferred || !name || !value.data) return UVHTTP_E_INVALID;
    size_t name_size = strlen(name) + 1;
    if (!uvhttp__response_may_have_field((uvhttp_str_t){name, name_size - 1}, value)) return UVHTTP_E_INVALID;
    message_t *message = message_new(deferred, HEADER, name_size + value.size + 1);
    if (!message) return UVHTTP_E_NOMEM;
    message->type = memcpy(message->text, name, name_size);
    char *copy = memcpy(message->text + name_size, value.data, value.size);
    copy[value.size] = '\0'; /* a value holds no NUL */
    message->value = copy;
    return post(message, UVHTTP__DEFERRED_OPEN);
}

int uvhttp_deferred_interim(uvhttp_deferred_t *deferred, int status, const uvhttp_response_field_t *fields,
                            size_t field_count) {
    uvhttp_str_t text;
    int problem = deferred ? uvhttp__interim_text(status, fields, field_count, &text) : UVHTTP_E_INVALID;
    if (problem != UVHTTP_OK) return problem;
    message_t *message = message_new(deferred, INTERIM, text.size);
    if (message) {
        message->status = status;
        message->data = memcpy(message->text, text.data, text.size);
        message->size = text.size;
    }
    uvhttp__free((char *)(uintptr_t)text.data);
    return message ? post(message, UVHTTP__DEFERRED_OPEN) : UVHTTP_E_NOMEM;
}

static int post_run(uvhttp_deferred_t *deferred, message_kind_t kind, void (*run)(uvhttp_response_t *res, void *user),
                    void *user) {
    if (!deferred || !run) return UVHTTP_E_INVALID;
    message_t *message = message_new(deferred, kind, 0);
    if (!message) return UVHTTP_E_NOMEM;
    message->run = run;
    message->arg = user;
    return post(message, UVHTTP__DEFERRED_OPEN);
}

int uvhttp_deferred_run(uvhttp_deferred_t *deferred, void (*run)(uvhttp_response_t *res, void *user), void *user) {
    return post_run(deferred, RUN, run, user);
}

int uvhttp_deferred_on_stop(uvhttp_deferred_t *deferred, void (*on_stop)(uvhttp_response_t *res, void *user),
                            void *user) {
    return post_run(deferred, ON_STOP, on_stop, user);
}

static void pause_body(uvhttp_response_t *res, void *user) {
    (void)user;
    if (res) (void)uvhttp_request_pause_body(uvhttp_response_request(res));
}

static void resume_body(uvhttp_response_t *res, void *user) {
    (void)user;
    if (res) (void)uvhttp_request_resume_body(uvhttp_response_request(res));
}

int uvhttp_deferred_pause_body(uvhttp_deferred_t *deferred) {
    return uvhttp_deferred_run(deferred, pause_body, NULL);
}

int uvhttp_deferred_resume_body(uvhttp_deferred_t *deferred) {
    return uvhttp_deferred_run(deferred, resume_body, NULL);
}

int uvhttp_deferred_next(uvhttp_deferred_t *deferred, uvhttp_middleware_cb resume, void *user) {
    if (!deferred || !resume) return UVHTTP_E_INVALID;
    message_t *message = message_new(deferred, RESUME, 0);
    if (!message) return UVHTTP_E_NOMEM;
    message->resume = resume;
    message->arg = user;
    return post(message, UVHTTP__DEFERRED_SENT);
}
