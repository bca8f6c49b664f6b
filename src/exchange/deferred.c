/* Owns: the counted handle by which any thread answers later. What a thread says becomes a message to the loop; a lock
 * decides between it and the client's going, so that a message is only made while the loop is there to run it.
 *
 * Who keeps whom: while OPEN, a reference of the application or a message in flight keeps the handle, and the protocol
 * keeps the exchange. ABORTED: the handle keeps the exchange, so that its request stays readable. ANSWERED: nobody
 * needs the exchange. */
#include <string.h>

#include "base/alloc.h"
#include "base/chars.h"
#include "exchange/exchange_internal.h"

enum state { OPEN, ANSWERED, ABORTED };

struct uvhttp_deferred {
    pthread_mutex_t lock;
    uint32_t count;   /* references; under the lock */
    enum state state; /* under the lock */
    uvhttp__loop_t *loop;
    uvhttp__exchange_t *exchange; /* written on the loop's thread under the lock */
    uvhttp__post_t abandon;       /* the message that the last reference becomes if nobody has answered */
    bool held;                    /* under the lock: a worker thread has the response still, messages wait in `posts` */
    uvhttp__mpsc_t posts;
    void (*on_abort)(uvhttp_deferred_t *deferred, void *user);
    void *on_abort_user;
    void (*on_drain)(uvhttp_response_t *res, void *user);
    void *on_drain_user;
    void (*on_stop)(uvhttp_response_t *res, void *user); /* NULL: nobody waits for it, or it has been called */
    void *on_stop_user;
};

typedef enum message_kind { SEND, SEND_REF, HEADER, RUN, ON_STOP, GO_ON } message_kind_t;

typedef struct message {
    uvhttp__post_t post;
    uvhttp_deferred_t *deferred; /* one reference */
    message_kind_t kind;
    int status;
    const char *type;  /* content type or header name, in text */
    const char *value; /* header value, in text */
    const char *data;
    size_t size;
    union {
        void (*release)(void *arg);
        void (*run)(uvhttp_response_t *res, void *user);
        uvhttp_middleware_cb go_on;
    };
    void *arg;
    char text[];
} message_t;

static uvhttp_deferred_t *new_handle(uvhttp__exchange_t *exchange, bool held) {
    uvhttp_deferred_t *deferred = uvhttp__calloc(1, sizeof *deferred);
    if (!deferred) return NULL;
    deferred->count = 1;
    deferred->held = held;
    pthread_mutex_init(&deferred->lock, NULL);
    uvhttp__mpsc_init(&deferred->posts);
    deferred->loop = exchange->worker->worker->loop;
    deferred->exchange = exchange;
    return deferred;
}

uvhttp_deferred_t *uvhttp__deferred_new(uvhttp__exchange_t *exchange) {
    uvhttp_deferred_t *deferred = new_handle(exchange, false);
    if (deferred) uvhttp__deferred_adopt(deferred, exchange);
    return deferred;
}

uvhttp_deferred_t *uvhttp__deferred_new_held(uvhttp__exchange_t *exchange) {
    return new_handle(exchange, true);
}

void uvhttp__deferred_adopt(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange) {
    exchange->deferred = deferred;
    uvhttp__counters_add(&exchange->worker->worker->counters, deferred, 1);
}

/* Under the lock. */
static void give_to_loop(uvhttp_deferred_t *deferred, uvhttp__post_t *post) {
    if (deferred->held)
        (void)uvhttp__mpsc_push(&deferred->posts, &post->node);
    else
        uvhttp__loop_post(deferred->loop, post);
}

void uvhttp__deferred_let_go(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(&deferred->lock);
    deferred->held = false;
    uvhttp__mpsc_node_t *next, *node = uvhttp__mpsc_take(&deferred->posts);
    for (; node; node = next) {
        next = node->next;
        uvhttp__loop_post(deferred->loop, UVHTTP__CONTAINER_OF(node, uvhttp__post_t, node));
    }
    pthread_mutex_unlock(&deferred->lock);
}

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

static void run_abandon(uvhttp__post_t *post);

/* Gives a reference back. The last one of an open handle becomes a message, so that the client gets a 500. */
static void drop(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(&deferred->lock);
    bool last = --deferred->count == 0;
    bool abandoned = last && deferred->state == OPEN;
    if (abandoned) {
        deferred->count = 1;
        deferred->state = ANSWERED;
        deferred->abandon.run = run_abandon;
        give_to_loop(deferred, &deferred->abandon);
    }
    pthread_mutex_unlock(&deferred->lock);
    if (!last || abandoned) return;
    if (deferred->state == ABORTED) uvhttp__exchange_free(deferred->exchange);
    pthread_mutex_destroy(&deferred->lock);
    uvhttp__free(deferred);
}

void uvhttp_deferred_retain(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(&deferred->lock);
    deferred->count++;
    pthread_mutex_unlock(&deferred->lock);
}

void uvhttp_deferred_release(uvhttp_deferred_t *deferred) {
    if (deferred) drop(deferred);
}

/* --- on the loop --- */

bool uvhttp__deferred_abort(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(&deferred->lock);
    bool open = deferred->state == OPEN;
    if (open)
        deferred->state = ABORTED;
    else
        deferred->exchange = NULL; /* the answer is on its way and will find nobody */
    pthread_mutex_unlock(&deferred->lock);
    if (!open) return false;
    if (deferred->on_abort) deferred->on_abort(deferred, deferred->on_abort_user);
    return true;
}

void uvhttp__deferred_answered(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(&deferred->lock);
    deferred->state = ANSWERED;
    deferred->exchange = NULL;
    pthread_mutex_unlock(&deferred->lock);
}

/* The answer was made but can not leave, or was broken off: the connection, which is about to close, ends the exchange
 * alone. */
void uvhttp__deferred_detach(uvhttp_deferred_t *deferred) {
    deferred->exchange->deferred = NULL;
    uvhttp__deferred_answered(deferred);
}

static void fail(uvhttp_response_t *res, int status) {
    uvhttp__response_fail_by(res, status, status == UVHTTP_E_NOMEM || status == UVHTTP_E_LIMIT ? 503 : 500, NULL);
}

static void take_on_stop(const message_t *message, const uvhttp__exchange_t *exchange) {
    uvhttp_deferred_t *deferred = message->deferred;
    bool stops = exchange->protocol->drains(exchange);
    deferred->on_stop = stops ? NULL : message->run;
    deferred->on_stop_user = message->arg;
    if (stops) message->run(&deferred->exchange->response, message->arg);
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
        case HEADER: (void)uvhttp_response_header(res, message->type, message->value); break;
        case RUN: message->run(res, message->arg); break;
        case ON_STOP: take_on_stop(message, exchange); break;
        case GO_ON: break; /* never here: it is the end of the handle */
    }
    if (status != UVHTTP_OK && !uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN)) fail(res, status);
}

static void nobody_there(const message_t *message) {
    if (message->kind == SEND_REF && message->release) message->release(message->arg);
    if (message->kind == RUN) message->run(NULL, message->arg);
    if (message->kind == GO_ON) (void)message->go_on(NULL, NULL, message->arg);
}

static void answer_now(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange) {
    uvhttp__exchange_returned(exchange);
    if (deferred->exchange) uvhttp__deferred_detach(deferred);
}

/* What was done to the response has answered the request, or it waits for more: a coroutine answers when it ends. */
static void proceed(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange) {
    if (uvhttp__response_is_complete(&exchange->response) && !exchange->coroutine)
        answer_now(deferred, exchange);
    else
        uvhttp__response_redefer(&exchange->response);
}

void uvhttp__deferred_enter(uvhttp_deferred_t *deferred) {
    uvhttp_deferred_retain(deferred); /* it may be released in the call */
    uvhttp__response_undefer(&deferred->exchange->response);
}

void uvhttp__deferred_leave(uvhttp_deferred_t *deferred) {
    proceed(deferred, deferred->exchange);
    drop(deferred);
}

void uvhttp__deferred_drained(uvhttp_deferred_t *deferred) {
    uvhttp__exchange_t *exchange = deferred->exchange;
    if (exchange && exchange->coroutine) uvhttp__coroutine_drained(exchange);
    if (!exchange || !deferred->on_drain) return;
    uvhttp_response_t *res = &exchange->response;
    if (!uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN) || uvhttp__response_is(res, UVHTTP__RESPONSE_ENDED)) return;
    uvhttp__deferred_enter(deferred);
    deferred->on_drain(res, deferred->on_drain_user);
    uvhttp__deferred_leave(deferred);
}

void uvhttp__deferred_stop(uvhttp_deferred_t *deferred) {
    void (*on_stop)(uvhttp_response_t * res, void *user) = deferred->on_stop;
    deferred->on_stop = NULL;
    if (!on_stop || !deferred->exchange || uvhttp__response_is_complete(&deferred->exchange->response)) return;
    uvhttp__deferred_enter(deferred);
    on_stop(&deferred->exchange->response, deferred->on_stop_user);
    uvhttp__deferred_leave(deferred);
}

static void run_message(uvhttp__post_t *post) {
    message_t *message = UVHTTP__CONTAINER_OF(post, message_t, post);
    uvhttp_deferred_t *deferred = message->deferred;
    /* Only this thread writes `exchange`, and an aborted one belongs to the threads that read it. */
    uvhttp__exchange_t *exchange = deferred->exchange;
    if (!exchange || !exchange->protocol) {
        nobody_there(message);
    } else if (message->kind == GO_ON) {
        uvhttp__deferred_detach(deferred); /* the chain and the handler may defer again */
        uvhttp__response_undefer(&exchange->response);
        uvhttp__exchange_go_on(exchange, message->go_on, message->arg);
    } else {
        uvhttp__response_undefer(&exchange->response);
        apply(message, exchange);
        proceed(deferred, exchange);
    }
    drop(deferred);
    uvhttp__free(message);
}

static void run_abandon(uvhttp__post_t *post) {
    uvhttp_deferred_t *deferred = UVHTTP__CONTAINER_OF(post, uvhttp_deferred_t, abandon);
    uvhttp__exchange_t *exchange = deferred->exchange;
    if (exchange && exchange->protocol) {
        uvhttp__counters_add(&exchange->worker->worker->counters, handler_no_answer, 1);
        uvhttp__response_undefer(&exchange->response);
        /* What was begun can only be cut off; anything else gets an answer. */
        if (uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BEGUN)) {
            uvhttp__deferred_detach(deferred);
            exchange->protocol->reset(exchange, UVHTTP_E_STATE);
        } else {
            uvhttp__response_fail_by(&exchange->response, UVHTTP_E_NO_RESPONSE, 500, "Internal Server Error\n");
            answer_now(deferred, exchange);
        }
    }
    drop(deferred);
}

/* --- on any thread --- */

static message_t *message_new(uvhttp_deferred_t *deferred, message_kind_t kind, size_t text_size) {
    message_t *message = uvhttp__calloc(1, sizeof *message + text_size);
    if (!message) return NULL;
    message->post.run = run_message;
    message->deferred = deferred;
    message->kind = kind;
    return message;
}

/* The message takes a reference. `next` is the state that it leads to. */
static int post(message_t *message, enum state next) {
    uvhttp_deferred_t *deferred = message->deferred;
    pthread_mutex_lock(&deferred->lock);
    int status = deferred->state == ABORTED    ? UVHTTP_E_ABORTED
                 : deferred->state == ANSWERED ? UVHTTP_E_STATE
                                               : UVHTTP_OK;
    if (status == UVHTTP_OK) {
        deferred->state = next;
        deferred->count++;
        give_to_loop(deferred, &message->post);
    }
    pthread_mutex_unlock(&deferred->lock);
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
    return post(message, ANSWERED);
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
    problem = post(message, ANSWERED);
    if (problem == UVHTTP_OK) return UVHTTP_OK;
fail:
    if (release) release(arg);
    return problem;
}

int uvhttp_deferred_header(uvhttp_deferred_t *deferred, const char *name, const char *value) {
    if (!deferred || !name || !value) return UVHTTP_E_INVALID;
    size_t name_size = strlen(name) + 1, value_size = strlen(value) + 1;
    if (!uvhttp__valid_header_name((uvhttp_str_t){name, name_size - 1}) ||
        !uvhttp__valid_header_value((uvhttp_str_t){value, value_size - 1}))
        return UVHTTP_E_INVALID;
    message_t *message = message_new(deferred, HEADER, name_size + value_size);
    if (!message) return UVHTTP_E_NOMEM;
    message->type = memcpy(message->text, name, name_size);
    message->value = memcpy(message->text + name_size, value, value_size);
    return post(message, OPEN);
}

int uvhttp_deferred_run(uvhttp_deferred_t *deferred, void (*run)(uvhttp_response_t *res, void *user), void *user) {
    if (!deferred || !run) return UVHTTP_E_INVALID;
    message_t *message = message_new(deferred, RUN, 0);
    if (!message) return UVHTTP_E_NOMEM;
    message->run = run;
    message->arg = user;
    return post(message, OPEN);
}

int uvhttp_deferred_on_stop(uvhttp_deferred_t *deferred, void (*on_stop)(uvhttp_response_t *res, void *user),
                            void *user) {
    if (!deferred || !on_stop) return UVHTTP_E_INVALID;
    message_t *message = message_new(deferred, ON_STOP, 0);
    if (!message) return UVHTTP_E_NOMEM;
    message->run = on_stop;
    message->arg = user;
    return post(message, OPEN);
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

int uvhttp_deferred_next(uvhttp_deferred_t *deferred, uvhttp_middleware_cb go_on, void *user) {
    if (!deferred || !go_on) return UVHTTP_E_INVALID;
    message_t *message = message_new(deferred, GO_ON, 0);
    if (!message) return UVHTTP_E_NOMEM;
    message->go_on = go_on;
    message->arg = user;
    return post(message, ANSWERED);
}

bool uvhttp_deferred_aborted(const uvhttp_deferred_t *deferred) {
    pthread_mutex_t *lock = &((uvhttp_deferred_t *)(uintptr_t)deferred)->lock;
    pthread_mutex_lock(lock);
    bool aborted = deferred->state == ABORTED;
    pthread_mutex_unlock(lock);
    return aborted;
}

uvhttp_request_t *uvhttp_deferred_request(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(&deferred->lock);
    uvhttp_request_t *request = deferred->exchange ? &deferred->exchange->request : NULL;
    pthread_mutex_unlock(&deferred->lock);
    return request;
}
