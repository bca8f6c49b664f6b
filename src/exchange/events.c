/* Owns: event streams (include/uvhttp/events.h): a deferred response that is begun once, and messages of any thread to
 * its loop. May include: as exchange.h. */
#include <uvhttp/events.h>

#include <stdatomic.h>
#include <string.h>
#include <uvhttp/coro.h>
#include <uvhttp/timer.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/str.h"
#include "exchange/deferred.h"

#define HEARTBEAT_MS_MAX 86400000u
#define QUEUE_MAX_MIN 1024u

struct uvhttp_events {
    atomic_uint owners;  /* references of the application */
    atomic_uint count;   /* all references: those, one of the response until it is done, and those of messages */
    atomic_bool closing; /* the application has ended it */
    atomic_bool ended;
    atomic_uint_fast64_t in_transit; /* bytes in messages to the loop */
    uvhttp_deferred_t *stream;       /* one reference */
    uvhttp__post_t close;            /* the message of the close, which needs no memory */
    uint64_t queue_max;
    uint32_t heartbeat_ms;
    int failure;          /* loop's thread: for on_close, why the stream did not start or was cut off; 0: neither */
    uvhttp_timer_t timer; /* the same */
    uvhttp_events_close_cb on_close;
    void *user;
};

/* A message to the loop. */
typedef struct event_text {
    uvhttp_events_t *events; /* one reference */
    size_t size;
    char text[];
} event_text_t;

static void unref(uvhttp_events_t *events) {
    if (atomic_fetch_sub(&events->count, 1) > 1) return;
    uvhttp_deferred_release(events->stream);
    uvhttp__free(events);
}

/* --- on the loop --- */

static void beat(uvhttp_timer_t *timer, void *user);

static void wait_for_heartbeat(uvhttp_events_t *events) {
    if (events->heartbeat_ms != UVHTTP_NEVER)
        (void)uvhttp_timer_start(&events->timer, events->heartbeat_ms, beat, events);
}

static bool has_capacity(const uvhttp_events_t *events, const uvhttp__exchange_t *exchange, size_t size) {
    uint64_t write_queue_max = exchange->loop->service->config.write_queue_max,
             max = events->queue_max < write_queue_max ? events->queue_max : write_queue_max;
    return uvhttp__exchange_queued(exchange) + size <= max;
}

/* Without an end that the client could mistake for one of the application's. */
static void cut_off(uvhttp_events_t *events, uvhttp__exchange_t *exchange) {
    events->failure = UVHTTP_E_LIMIT;
    uvhttp__counters_add(&exchange->loop->tcp->counters, events_clients_dropped, 1);
    exchange->protocol->reset(exchange, UVHTTP_E_LIMIT);
}

/* Sends or queues text. A client that is too slow is cut off. */
static void write_text(uvhttp_events_t *events, uvhttp_response_t *res, const char *text, size_t size) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (events->failure != UVHTTP_OK || !exchange->protocol || !exchange->outgoing) return;
    int status = UVHTTP_E_LIMIT;
    if (has_capacity(events, exchange, size)) status = uvhttp_response_write(res, text, size);
    if (status == UVHTTP_OK)
        wait_for_heartbeat(events);
    else if (status == UVHTTP_E_LIMIT)
        cut_off(events, exchange);
    else if (status == UVHTTP_E_NOMEM)
        events->failure = status; /* the response was cut off */
}

/* Without capacity the comment is omitted: queued bytes keep the connection busy too, and may belong to an earlier
 * response. */
static void write_comment(uvhttp_events_t *events, uvhttp_response_t *res) {
    static const char comment[] = ":\n\n";
    const uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (exchange->protocol && exchange->outgoing && has_capacity(events, exchange, sizeof comment - 1))
        write_text(events, res, comment, sizeof comment - 1);
    else
        wait_for_heartbeat(events);
}

static void end(uvhttp_response_t *res, void *user) {
    uvhttp_events_t *events = user;
    atomic_store(&events->ended, true);
    if (res && events->failure == UVHTTP_OK) (void)uvhttp_response_end(res);
}

static void run_heartbeat(uvhttp_response_t *res, void *user) {
    uvhttp_events_t *events = user;
    if (res && !atomic_load(&events->ended)) write_comment(events, res);
    unref(events);
}

static void beat(uvhttp_timer_t *timer, void *user) {
    uvhttp_events_t *events = user;
    (void)timer;
    atomic_fetch_add(&events->count, 1);
    int status = uvhttp_deferred_run(events->stream, run_heartbeat, events);
    if (status == UVHTTP_OK) return;
    atomic_fetch_sub(&events->count, 1); /* never the last: that of the response is there as long as the timer */
    if (status == UVHTTP_E_NOMEM) wait_for_heartbeat(events);
}

/* The handler has returned: without a response the client would wait. A head that was lost has cut it off already. */
static void refuse(uvhttp_events_t *events, uvhttp_response_t *res, int status) {
    if (status != UVHTTP_E_ABORTED) events->failure = UVHTTP_E_NOMEM; /* or the memory of the request was used up */
    uvhttp__response_unavailable(res, status);
}

static void begin(uvhttp_events_t *events, uvhttp_response_t *res) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    int status = uvhttp_response_begin(res, 200, "text/event-stream", UVHTTP_SIZE_UNKNOWN);
    if (status != UVHTTP_OK) {
        refuse(events, res, status);
        return;
    }
    if (uvhttp_request_method(&exchange->request) == UVHTTP_HEAD || exchange->protocol->drains(exchange)) {
        end(res, events);
        return;
    }
    events->stream->on_stop = end;
    events->stream->on_stop_user = events;
    write_comment(events, res); /* a browser sees at once that it is open */
}

static void run_begin(uvhttp_response_t *res, void *user) {
    uvhttp_events_t *events = user;
    if (res) begin(events, res);
    unref(events);
}

static void run_send(uvhttp_response_t *res, void *user) {
    event_text_t *message = user;
    uvhttp_events_t *events = message->events;
    atomic_fetch_sub(&events->in_transit, message->size);
    if (res && !atomic_load(&events->ended)) write_text(events, res, message->text, message->size);
    uvhttp__free(message);
    unref(events);
}

static void run_close(uvhttp__post_t *post) {
    uvhttp_events_t *events = UVHTTP__CONTAINER_OF(post, uvhttp_events_t, close);
    uvhttp_deferred_t *stream = events->stream;
    uvhttp__exchange_t *exchange = stream->exchange;
    if (exchange && exchange->protocol && !atomic_load(&events->ended)) {
        uvhttp__deferred_enter(stream);
        end(&exchange->response, events);
        uvhttp__deferred_leave(stream);
    }
    uvhttp__deferred_let_go(stream);
    unref(events);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    uvhttp_events_t *events = user;
    (void)res;
    atomic_store(&events->ended, true);
    uvhttp_timer_stop(&events->timer);
    if (events->failure != UVHTTP_OK) status = events->failure;
    if (events->on_close) events->on_close(events, status, events->user);
    unref(events);
}

/* --- the text of an event --- */

static bool is_line(const char *text) {
    return !text || !strpbrk(text, "\r\n");
}

static char *put(char *at, const char *text, size_t size) {
    if (size) memcpy(at, text, size);
    return at + size;
}

static char *put_line(char *at, const char *name, uvhttp_str_t value) {
    at = put(at, name, strlen(name));
    at = put(at, value.data, value.size);
    *at++ = '\n';
    return at;
}

/* Removes a line with its line break from *rest, and returns it without. *more: whether there was a line break. */
static uvhttp_str_t next_line(uvhttp_str_t *rest, bool *more) {
    uvhttp_str_t line = {rest->data, 0};
    while (line.size < rest->size && rest->data[line.size] != '\n' && rest->data[line.size] != '\r') line.size++;
    size_t consumed = line.size;
    *more = consumed < rest->size;
    if (*more) consumed += consumed + 1 < rest->size && memcmp(rest->data + consumed, "\r\n", 2) == 0 ? 2 : 1;
    *rest = (uvhttp_str_t){rest->data + consumed, rest->size - consumed};
    return line;
}

#define DATA_NAME "data: "

static size_t data_size(uvhttp_str_t data) {
    size_t size = 0;
    for (bool more = data.data != NULL; more;) size += sizeof DATA_NAME + next_line(&data, &more).size;
    return size;
}

#define FIXED_SIZE_MAX sizeof("event: \nid: \nretry: 4294967295\n\n")

static size_t put_event(char *text, const uvhttp_event_t *event) {
    char *at = text, digits[UVHTTP__DECIMAL_MAX];
    uvhttp_str_t data = event->data;
    if (event->event) at = put_line(at, "event: ", uvhttp__str_from(event->event));
    if (event->id) at = put_line(at, "id: ", uvhttp__str_from(event->id));
    if (event->retry_ms)
        at = put_line(at, "retry: ", (uvhttp_str_t){digits, uvhttp__write_decimal(digits, event->retry_ms)});
    for (bool more = data.data != NULL; more;) at = put_line(at, DATA_NAME, next_line(&data, &more));
    *at++ = '\n';
    return (size_t)(at - text);
}

/* --- any thread --- */

/* The message has a reference of the stream, or there is none. */
static int post(uvhttp_events_t *events, void (*run)(uvhttp_response_t *res, void *user), void *user) {
    atomic_fetch_add(&events->count, 1);
    int status = uvhttp_deferred_run(events->stream, run, user);
    if (status != UVHTTP_OK) unref(events);
    return status == UVHTTP_E_STATE ? UVHTTP_E_ABORTED : status;
}

int uvhttp_events_send(uvhttp_events_t *events, const uvhttp_event_t *event) {
    if (!events || !event || !is_line(event->event) || !is_line(event->id)) return UVHTTP_E_INVALID;
    if (!event->data.data && !event->event && !event->id && !event->retry_ms) return UVHTTP_E_INVALID;
    if (atomic_load(&events->ended) || atomic_load(&events->closing)) return UVHTTP_E_ABORTED;
    if (event->data.size > events->queue_max) return UVHTTP_E_LIMIT;
    size_t size = FIXED_SIZE_MAX + data_size(event->data);
    size += (event->event ? strlen(event->event) : 0) + (event->id ? strlen(event->id) : 0);
    if (size > events->queue_max) return UVHTTP_E_LIMIT;
    event_text_t *message = uvhttp__malloc(sizeof *message + size);
    if (!message) return UVHTTP_E_NOMEM;
    message->events = events;
    message->size = put_event(message->text, event);
    size_t sent = message->size; /* the message is the loop's from `post` on */
    int status = UVHTTP_E_LIMIT;
    if (atomic_fetch_add(&events->in_transit, sent) + sent <= events->queue_max)
        status = post(events, run_send, message);
    if (status == UVHTTP_OK) return UVHTTP_OK;
    atomic_fetch_sub(&events->in_transit, sent);
    uvhttp__free(message);
    return status;
}

int uvhttp_events_close(uvhttp_events_t *events) {
    if (!events) return UVHTTP_E_INVALID;
    if (atomic_load(&events->ended) || atomic_exchange(&events->closing, true)) return UVHTTP_E_ABORTED;
    atomic_fetch_add(&events->count, 1);
    if (uvhttp__deferred_post(events->stream, &events->close, UVHTTP__DEFERRED_OPEN) == UVHTTP_OK) return UVHTTP_OK;
    unref(events);
    return UVHTTP_E_ABORTED;
}

uvhttp_events_t *uvhttp_events_retain(uvhttp_events_t *events) {
    atomic_fetch_add(&events->owners, 1);
    atomic_fetch_add(&events->count, 1);
    return events;
}

void uvhttp_events_release(uvhttp_events_t *events) {
    if (!events) return;
    if (atomic_fetch_sub(&events->owners, 1) == 1) (void)uvhttp_events_close(events);
    unref(events);
}

/* --- opening --- */

static bool in_range(const uvhttp_events_options_t *options) {
    if (options->heartbeat_ms > HEARTBEAT_MS_MAX && options->heartbeat_ms != UVHTTP_NEVER) return false;
    return options->queue_max == 0 || options->queue_max >= QUEUE_MAX_MIN;
}

static uvhttp_events_t *new_events(const uvhttp_events_options_t *options) {
    uvhttp_events_t *events = uvhttp__calloc(1, sizeof *events);
    if (!events) return NULL;
    events->owners = 1;
    events->count = 2; /* and that of the response */
    events->queue_max = options->queue_max ? options->queue_max : UVHTTP_EVENTS_QUEUE_SIZE;
    events->heartbeat_ms = options->heartbeat_ms ? options->heartbeat_ms : UVHTTP_EVENTS_HEARTBEAT_MS;
    events->close.run = run_close;
    events->on_close = options->on_close;
    events->user = options->user;
    return events;
}

/* The client gets 500, and on_done frees the rest. */
static void abandon(uvhttp_events_t *events) {
    uvhttp_deferred_t *stream = events->stream;
    events->stream = NULL;
    events->on_close = NULL;
    unref(events);
    uvhttp_deferred_release(stream);
}

static bool may_open(uvhttp_response_t *res) {
    const unsigned locked = UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED |
                            UVHTTP__RESPONSE_FINISHING | UVHTTP__RESPONSE_ON_ERROR;
    return !uvhttp__response_is(res, locked) && !uvhttp__exchange_of(res)->deferred && !uvhttp_coro_active();
}

int uvhttp_events_open_sized(uvhttp_response_t *res, const uvhttp_events_options_t *given, size_t options_size,
                             uvhttp_events_t **events) {
    uvhttp_events_options_t options;
    if (events) *events = NULL;
    if (!uvhttp__sized_read(&options, sizeof options, given, options_size)) return UVHTTP_E_UNSUPPORTED;
    if (!res || !events || !in_range(&options)) return UVHTTP_E_INVALID;
    if (!may_open(res)) return UVHTTP_E_STATE;
    uvhttp_events_t *made = new_events(&options);
    if (!made) return UVHTTP_E_NOMEM;
    bool has_own = uvhttp_response_header_get(res, "Cache-Control").data != NULL;
    int status = has_own ? UVHTTP_OK : uvhttp_response_header(res, "Cache-Control", "no-store");
    if (status == UVHTTP_OK && !(made->stream = uvhttp_response_defer(res))) {
        if (!has_own) uvhttp__response_remove_fields(res, UVHTTP__STR("Cache-Control"));
        status = UVHTTP_E_NOMEM;
    }
    if (status == UVHTTP_OK) status = uvhttp_response_on_done(res, on_done, made);
    if (status != UVHTTP_OK) { /* no reference exists yet: releasing the handle gives the client 500 */
        uvhttp_deferred_release(made->stream);
        uvhttp__free(made);
        return status;
    }
    status = post(made, run_begin, made);
    if (status == UVHTTP_E_NOMEM) {
        abandon(made);
        return status;
    }
    *events = made; /* also when the client has gone: on_close follows */
    return UVHTTP_OK;
}
