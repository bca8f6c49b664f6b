#include "support/fake_protocol.h"

#include <semaphore.h>

#include "base/http_head.h"
#include "server/server.h"

/* What the library has for each request. */
typedef struct slot {
    fake_stream_t *stream;
    uvhttp__exchange_t exchange; /* last */
} slot_t;

static fake_stream_t *stream_of(const uvhttp__exchange_t *exchange) {
    return ((const slot_t *)(const void *)((const char *)exchange - offsetof(slot_t, exchange)))->stream;
}

static void breach(fake_stream_t *stream, const char *what) {
    fake_connection_t *connection = stream->connection;
    if (atomic_load(&connection->breaches) == 0)
        snprintf(connection->breach, sizeof connection->breach, "%s %s: %s", uvhttp_method_name(stream->request.method),
                 stream->request.path, what);
    atomic_fetch_add(&connection->breaches, 1);
}

/* A function of the protocol may be called: the exchange is this stream's, and its response is not complete. */
static void check(const uvhttp__exchange_t *exchange, const char *what) {
    fake_stream_t *stream = stream_of(exchange);
    if (stream->exchange != exchange || stream->responded) breach(stream, what);
}

static void *grow(void *memory, size_t size) {
    void *grown = realloc(memory, size > 0 ? size : 1);
    if (!grown) abort();
    return grown;
}

static void pump(fake_stream_t *stream);

static void on_post(uvhttp__post_t *post) {
    fake_stream_t *stream = UVHTTP__CONTAINER_OF(post, fake_stream_t, post);
    stream->posted = false;
    pump(stream);
}

static void pump_later(fake_stream_t *stream) {
    if (stream->posted) return;
    stream->posted = true;
    stream->post.run = on_post;
    uvhttp__loop_post(stream->connection->loop->tcp->io, &stream->post);
}

/* --- output --- */

static void take(fake_stream_t *stream, const char *data, size_t size) {
    stream->body = grow(stream->body, stream->body_consumed + size);
    memcpy(stream->body + stream->body_consumed, data, size);
    stream->body_consumed += size;
    if (stream->send_window != FAKE_NO_LIMIT) stream->send_window -= size;
}

static size_t within(uint64_t window, uint64_t size) {
    return (size_t)(size < window ? size : window);
}

/* One piece of the body, from wherever it is, as far as the window goes. Nothing of it is copied before the client
 * takes it. Returns what peek does. */
static int take_piece(fake_stream_t *stream, uvhttp__outgoing_t *outgoing) {
    uvhttp__piece_t piece;
    int status = uvhttp__outgoing_peek(outgoing, stream->request.by_sendfile, &piece);
    if (status != UVHTTP_OK) return status;
    if (piece.size == 0) breach(stream, "an empty piece");
    uint64_t size = within(stream->send_window, piece.size);
    uvhttp__keeper_t keeper;
    if (piece.kind == UVHTTP__PIECE_FILE) {
        if (!stream->request.by_sendfile) breach(stream, "a file for who cannot send it");
        size = within(size, 16384);
    }
    status = uvhttp__outgoing_consume(outgoing, size, &keeper);
    if (status != UVHTTP_OK) return status;
    if (piece.kind == UVHTTP__PIECE_FILE) {
        char bytes[16384];
        if (pread(piece.fd, bytes, (size_t)size, (off_t)piece.offset) != (ssize_t)size) abort();
        take(stream, bytes, (size_t)size);
    } else {
        take(stream, piece.data, (size_t)size);
    }
    stream->exchange->response.sent_size += size;
    uvhttp__keeper_release(keeper);
    return UVHTTP_OK;
}

static void cut(fake_stream_t *stream, int status) {
    if (stream->resets++ == 0) stream->reset_code = status;
}

/* Returns whether all of the body has gone through the window. */
static bool take_body(fake_stream_t *stream) {
    uvhttp__outgoing_t *outgoing = stream->exchange->outgoing;
    if (!outgoing) return true;
    int status = UVHTTP_OK;
    while (status == UVHTTP_OK && stream->send_window > 0) status = take_piece(stream, outgoing);
    if (status == UVHTTP_OK || status == UVHTTP_E_AGAIN) return outgoing->ended && outgoing->size == 0;
    if (status != UVHTTP_E_EOF) {
        cut(stream, status);
        pump_later(stream);
    }
    return status == UVHTTP_E_EOF;
}

static void finish_now(fake_stream_t *stream) {
    uvhttp__exchange_t *exchange = stream->exchange;
    uvhttp_timer_stop(&stream->timer);
    stream->exchange = NULL;
    stream->finished++;
    uvhttp__exchange_finished(exchange);
}

static void keep_end(fake_stream_t *stream) {
    const uvhttp__exchange_t *exchange = stream->exchange;
    const uvhttp__trailers_t *trailers = exchange->response.trailers;
    stream->ended = true;
    stream->missized = uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_MISSIZED);
    if (!trailers) return;
    stream->trailers = grow(NULL, (size_t)trailers->size + 1);
    memcpy(stream->trailers, trailers->text, trailers->size);
    stream->trailers[trailers->size] = '\0';
}

static bool is_drained(const uvhttp__exchange_t *exchange) {
    return !exchange->outgoing || uvhttp__exchange_queued(exchange) == 0;
}

static void send_more(fake_stream_t *stream) {
    bool whole = take_body(stream);
    if (stream->resets > 0) return;
    if (whole && stream->begun && !stream->ended) keep_end(stream);
    if (whole && stream->responded) {
        finish_now(stream);
    } else if (stream->wants_writable && !stream->responded && is_drained(stream->exchange)) {
        stream->wants_writable = false;
        uvhttp__exchange_writable(stream->exchange);
    }
}

/* --- input --- */

/* One piece of the body. Returns whether there was one. */
static bool receive_more(fake_stream_t *stream) {
    uvhttp__exchange_t *exchange = stream->exchange;
    if (stream->ended_in || !stream->wanted || stream->responded || !uvhttp__exchange_is_receiving(exchange))
        return false;
    size_t left = stream->request.body_size - stream->body_sent;
    size_t size = within(uvhttp__exchange_piece_max(exchange), within(stream->receive_window, left));
    if (size == 0 && left > 0) return false;
    /* Trailers come behind all bytes. */
    bool last = size == left && (!stream->request.trailers || size == 0);
    char *piece = grow(NULL, size); /* to find those who keep it */
    memcpy(piece, stream->request.body + stream->body_sent, size);
    stream->body_sent += size;
    stream->ended_in = last;
    if (stream->receive_window != FAKE_NO_LIMIT) stream->receive_window -= size;
    int status = UVHTTP_OK;
    if (last && stream->request.trailers)
        status = uvhttp__exchange_trailer(exchange, stream->request.trailers, strlen(stream->request.trailers));
    if (status != UVHTTP_OK)
        uvhttp__exchange_refuse(exchange, status);
    else
        uvhttp__exchange_data(exchange, piece, size, last);
    free(piece);
    return true;
}

static void abort_now(fake_stream_t *stream, int status) {
    uvhttp__exchange_t *exchange = stream->exchange;
    uvhttp_timer_stop(&stream->timer);
    stream->exchange = NULL;
    stream->aborted++;
    uvhttp__exchange_abort(exchange, status);
}

/* Whatever is due on the stream; never within a call of the library. */
static void pump(fake_stream_t *stream) {
    if (stream->exchange && stream->resets > 0) abort_now(stream, stream->reset_code);
    if (stream->exchange) send_more(stream);
    while (stream->exchange && stream->resets == 0 && receive_more(stream)) continue;
}

/* --- what the exchange calls --- */

static void keep_head(fake_stream_t *stream, uint64_t size) {
    const uvhttp__exchange_t *exchange = stream->exchange;
    const uvhttp_response_t *res = &exchange->response;
    stream->status = res->status;
    stream->announced = size;
    stream->fields = grow(NULL, (size_t)res->headers_size + 1);
    memcpy(stream->fields, res->headers_size > 0 ? res->headers : "", res->headers_size);
    stream->fields[res->headers_size] = '\0';
}

/* From here on nothing but the end of the exchange follows. What it borrows is lent for this call only. */
static void set_responded(fake_stream_t *stream) {
    stream->responded = true;
    uvhttp_timer_stop(&stream->timer); /* the time of the application, and of the request, is over */
    if (stream->request.at_once && stream->resets == 0) send_more(stream);
    if (!stream->exchange) return;
    if (uvhttp__exchange_own(stream->exchange) != UVHTTP_OK && stream->resets++ == 0)
        stream->reset_code = UVHTTP_E_NOMEM;
    pump_later(stream);
}

static void respond(uvhttp__exchange_t *exchange) {
    check(exchange, "respond");
    fake_stream_t *stream = stream_of(exchange);
    if (stream->begun) breach(stream, "respond after begin");
    keep_head(stream, uvhttp__exchange_wants_body(exchange) ? exchange->response.body.size : 0);
    exchange->response.sent_size = 0;
    if (stream->announced > 0 && uvhttp__exchange_open_body(exchange) != UVHTTP_OK) cut(stream, UVHTTP_E_NOMEM);
    set_responded(stream);
}

static int begin(uvhttp__exchange_t *exchange, uint64_t size) {
    check(exchange, "begin");
    fake_stream_t *stream = stream_of(exchange);
    if (stream->begun) breach(stream, "begin twice");
    if (stream->fail_begin != UVHTTP_OK) return stream->fail_begin;
    stream->begun = true;
    keep_head(stream, size);
    return UVHTTP_OK;
}

static int interim(uvhttp__exchange_t *exchange, int status, uvhttp_str_t fields) {
    check(exchange, "interim");
    fake_stream_t *stream = stream_of(exchange);
    if (stream->begun) breach(stream, "interim after begin");
    if (status < 102 || status > 199) breach(stream, "interim with another status");
    size_t before = stream->interim ? strlen(stream->interim) : 0;
    stream->interim = grow(stream->interim, before + fields.size + 5);
    snprintf(stream->interim + before, fields.size + 5, "%d %.*s", status, (int)fields.size, fields.data);
    return UVHTTP_OK;
}

/* With `at_once` it takes what it can where the application has it; else later, from where the exchange has copied it.
 */
static int body_ready(uvhttp__exchange_t *exchange) {
    fake_stream_t *stream = stream_of(exchange);
    if (stream->exchange != exchange) breach(stream, "body_ready");
    if (!exchange->outgoing || (stream->responded && stream->finished > 0)) breach(stream, "body_ready of no body");
    if (stream->request.at_once && stream->resets == 0 && !stream->responded && take_body(stream) && !stream->ended)
        keep_end(stream);
    stream->wants_writable = stream->wants_writable || exchange->outgoing->size > 4096;
    pump_later(stream);
    return stream->resets > 0 ? UVHTTP_E_ABORTED : UVHTTP_OK;
}

static void finish(uvhttp__exchange_t *exchange) {
    check(exchange, "finish");
    fake_stream_t *stream = stream_of(exchange);
    if (!stream->begun || !exchange->outgoing->ended) breach(stream, "finish before end");
    stream->finishing = true;
    set_responded(stream);
}

/* The client takes at once what has gone through the window. */
static uint64_t queued(const uvhttp__exchange_t *exchange) {
    check(exchange, "queued");
    return 0;
}

static void notify_writable(uvhttp__exchange_t *exchange) {
    check(exchange, "notify_writable");
    stream_of(exchange)->wants_writable = true;
    pump_later(stream_of(exchange));
}

static void want_body(uvhttp__exchange_t *exchange) {
    check(exchange, "want_body");
    fake_stream_t *stream = stream_of(exchange);
    if (!uvhttp__exchange_is_receiving(exchange)) breach(stream, "want_body that takes nothing");
    stream->wanted = true;
    pump_later(stream);
}

static void on_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    fake_stream_t *stream = user;
    stream->deadline_ms = UINT64_MAX;
    if (stream->exchange) uvhttp__exchange_timer(stream->exchange);
}

static void set_deadline(uvhttp__exchange_t *exchange, uint64_t at_ms) {
    check(exchange, "set_deadline");
    fake_stream_t *stream = stream_of(exchange);
    uint64_t now_ms = exchange->loop->tcp->io->now_ms;
    uvhttp_timer_stop(&stream->timer);
    stream->deadline_ms = at_ms;
    if (at_ms == UINT64_MAX) return;
    if (uvhttp_timer_start(&stream->timer, at_ms > now_ms ? at_ms - now_ms : 0, on_timer, stream) != UVHTTP_OK)
        breach(stream, "set_deadline off the loop");
}

static void reset(uvhttp__exchange_t *exchange, int code) {
    fake_stream_t *stream = stream_of(exchange);
    if (stream->exchange != exchange) breach(stream, "reset");
    if (stream->resets++ == 0) stream->reset_code = code;
    pump_later(stream);
}

static void fill_head(fake_stream_t *stream);

static uvhttp__exchange_t *replace(uvhttp__exchange_t *exchange) {
    check(exchange, "replace");
    fake_stream_t *stream = stream_of(exchange);
    uvhttp__exchange_t *made = uvhttp__exchange_new(stream->connection->loop, &stream->connection->pool);
    if (!made) return NULL;
    ((slot_t *)(void *)((char *)made - offsetof(slot_t, exchange)))->stream = stream;
    stream->exchange = made;
    fill_head(stream);
    if (uvhttp__request_decode_path(&made->request) != UVHTTP_OK || uvhttp__exchange_own(made) != UVHTTP_OK) {
        made->request.head.path.size = 0;
        made->request.head.header_count = 0;
    }
    made->borrowed = false;
    return made;
}

static bool is_open(const uvhttp__exchange_t *exchange) {
    const fake_stream_t *stream = stream_of(exchange);
    return stream->exchange == exchange && stream->resets == 0;
}

static bool drains(const uvhttp__exchange_t *exchange) {
    return stream_of(exchange)->connection->draining;
}

static uvhttp__conn_t *no_connection(const uvhttp__exchange_t *exchange) {
    (void)exchange;
    return NULL;
}

const uvhttp__protocol_t fake_protocol = {.respond = respond,
                                          .begin = begin,
                                          .interim = interim,
                                          .body_ready = body_ready,
                                          .finish = finish,
                                          .queued = queued,
                                          .notify_writable = notify_writable,
                                          .want_body = want_body,
                                          .set_deadline = set_deadline,
                                          .reset = reset,
                                          .replace = replace,
                                          .is_open = is_open,
                                          .drains = drains,
                                          .connection = no_connection,
                                          .offset = offsetof(slot_t, exchange),
                                          .arena_size = 512};

/* --- requests --- */

static uvhttp__span_t put(char *head, uint32_t *size, const char *text, size_t text_size) {
    uvhttp__span_t span = {*size, (uint32_t)text_size};
    memcpy(head + *size, text, text_size);
    *size += (uint32_t)text_size;
    return span;
}

static void put_fields(uvhttp__head_t *head, char *text, const char *fields) {
    while (fields && *fields) {
        const char *colon = strchr(fields, ':'), *line_end = strchr(fields, '\n');
        uvhttp__field_t *field = &head->headers[head->header_count++];
        field->name = put(text, &head->size, fields, (size_t)(colon - fields));
        field->value = put(text, &head->size, colon + 2, (size_t)(line_end - colon - 2));
        fields = line_end + 1;
    }
}

static void fill_head(fake_stream_t *stream) {
    uvhttp__exchange_t *exchange = stream->exchange;
    const fake_request_t *request = &stream->request;
    uvhttp__head_t *head = &exchange->request.head;
    const char *method = uvhttp_method_name(request->method);
    char *text = stream->head;
    *head = (uvhttp__head_t){.headers = uvhttp__exchange_fields(exchange),
                             .method = (uint8_t)request->method,
                             .version = UVHTTP_HTTP_2,
                             .form = UVHTTP__FORM_ORIGIN,
                             .keep_alive = true};
    head->method_text = put(text, &head->size, method, strlen(method));
    head->path = put(text, &head->size, request->path, strlen(request->path));
    head->target = head->path;
    head->query = (uvhttp__span_t){head->size, 0};
    if (request->query) {
        put(text, &head->size, "?", 1);
        head->query = put(text, &head->size, request->query, strlen(request->query));
        head->target.size += 1 + head->query.size;
    }
    head->authority = put(text, &head->size, "fake.example", 12);
    put_fields(head, text, request->fields);
    if (request->has_body && request->size_is_known) {
        head->has_content_length = true;
        head->content_length = request->body_size;
    }
    exchange->request.base = text;
    exchange->borrowed = true;
}

fake_stream_t *fake_new(fake_connection_t *connection, const fake_request_t *request) {
    fake_stream_t *stream = calloc(1, sizeof *stream);
    if (!stream) return NULL;
    stream->connection = connection;
    stream->request = *request;
    stream->receive_window = stream->send_window = FAKE_NO_LIMIT;
    stream->deadline_ms = UINT64_MAX;
    uvhttp__list_init(&stream->link);
    uvhttp__list_push_back(&connection->streams, &stream->link);
    return stream;
}

/* The head is lent for the call only, as a receive buffer is. */
bool fake_start(fake_stream_t *stream) {
    const fake_request_t *request = &stream->request;
    fake_connection_t *connection = stream->connection;
    uvhttp__exchange_t *exchange = uvhttp__exchange_new(connection->loop, &connection->pool);
    if (!exchange) {
        stream->aborted++;
        return false;
    }
    ((slot_t *)(void *)((char *)exchange - offsetof(slot_t, exchange)))->stream = stream;
    stream->exchange = exchange;
    size_t size = 64 + strlen(request->path) + (request->query ? strlen(request->query) : 0) +
                  (request->fields ? strlen(request->fields) : 0);
    stream->head = grow(NULL, size);
    fill_head(stream);
    bool whole = request->size_is_known && !request->trailers && stream->receive_window >= request->body_size;
    if (!request->has_body) {
        if (uvhttp__exchange_run(exchange)) exchange->protocol->respond(exchange);
    } else {
        uvhttp__exchange_run_with_body(exchange, whole);
        stream->wanted = stream->wanted || whole;
        if (whole && stream->exchange && stream->resets == 0) (void)receive_more(stream);
    }
    /* `replace` may want to read it: it is poisoned, not freed. */
    memset(stream->head, 'X', size);
    pump_later(stream);
    return true;
}

void fake_open_receive(fake_stream_t *stream, uint64_t bytes) {
    if (stream->receive_window != FAKE_NO_LIMIT) stream->receive_window += bytes;
    pump(stream);
}

void fake_open_send(fake_stream_t *stream, uint64_t bytes) {
    if (stream->send_window != FAKE_NO_LIMIT) stream->send_window += bytes;
    pump(stream);
}

void fake_abort(fake_stream_t *stream, int status) {
    if (stream->exchange) abort_now(stream, status);
}

void fake_drain(fake_connection_t *connection) {
    connection->draining = true;
    uvhttp__list_t *node, *next;
    UVHTTP__LIST_FOREACH_SAFE(node, next, &connection->streams) {
        fake_stream_t *stream = UVHTTP__CONTAINER_OF(node, fake_stream_t, link);
        if (stream->exchange && !stream->responded) uvhttp__exchange_drain(stream->exchange);
    }
}

void fake_free(fake_stream_t *stream) {
    if (stream->exchange || stream->posted) abort();
    uvhttp__list_remove(&stream->link);
    free(stream->head);
    free(stream->interim);
    free(stream->fields);
    free(stream->trailers);
    free(stream->body);
    free(stream);
}

/* --- the test's thread --- */

typedef struct call {
    uvhttp__post_t post;
    void (*run)(void *arg);
    void *arg;
    sem_t done;
} call_t;

static void run_call(uvhttp__post_t *post) {
    call_t *call = UVHTTP__CONTAINER_OF(post, call_t, post);
    call->run(call->arg);
    sem_post(&call->done);
}

void fake_call(fake_connection_t *connection, void (*run)(void *arg), void *arg) {
    call_t call = {.post.run = run_call, .run = run, .arg = arg};
    sem_init(&call.done, 0, 0);
    uvhttp__loop_post(connection->loop->tcp->io, &call.post);
    while (sem_wait(&call.done) != 0) continue;
    sem_destroy(&call.done);
}

fake_connection_t *fake_open(serving_t *serving) {
    WAIT_UNTIL(uvhttp_server_engine(serving->server, NULL));
    fake_connection_t *connection = calloc(1, sizeof *connection);
    assert_non_null(connection);
    connection->loop = serving->server->tcp_server->loops[0].user;
    connection->pool.protocol = &fake_protocol;
    uvhttp__list_init(&connection->streams);
    return connection;
}

void fake_close(fake_connection_t *connection) {
    uvhttp__exchange_pool_free(&connection->pool);
    if (atomic_load(&connection->breaches) > 0)
        fail_msg("the contract of a protocol was broken: %s", connection->breach);
    assert_true(uvhttp__list_empty(&connection->streams));
    free(connection);
}
