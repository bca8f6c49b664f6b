/* Owns: a WebSocket connection after the handshake: messages, control frames, time limits, the closing handshake (RFC
 * 6455 sections 5 to 7). May include: route message exec websocket conn base obs. */
#include "handler/websocket.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "conn/host.h"

static_assert(sizeof(uvhttp_ws_t) <= 320, "an idle WebSocket costs this and its connection");

#define NEVER_MS UINT64_MAX

static const uvhttp_ws_options_t *options_of(const uvhttp_ws_t *ws) {
    return &ws->endpoint->options;
}

static uvhttp__counters_t *counters_of(const uvhttp_ws_t *ws) {
    return &ws->tcp->worker->counters;
}

/* --- frames out --- */

static int send_frame(uvhttp_ws_t *ws, uint8_t opcode, const void *data, size_t size, uint64_t queue_max) {
    char head[UVHTTP__WS_SERVER_HEAD_MAX];
    const uvhttp__conn_parts_t parts = {
        .head = head, .head_size = uvhttp__ws_write_head(head, true, opcode, size), .data = data, .size = size};
    if (uvhttp__stream_out_size(&ws->tcp->stream) == 0) ws->taken_ms = uvhttp__conn_now_ms(ws->tcp);
    int status = uvhttp__conn_send_parts(ws->tcp, &parts, options_of(ws)->send_high_watermark, queue_max);
    if (status == UVHTTP_OK || status == UVHTTP_E_AGAIN) ws->queued += parts.head_size + size;
    return status;
}

/* A control frame that has to go out: not held up by the queue's limit. */
static void send_close(uvhttp_ws_t *ws, uint16_t code, uvhttp_str_t reason) {
    char payload[UVHTTP__WS_CONTROL_SIZE_MAX];
    size_t size =
        code == UVHTTP__WS_CLOSE_NO_CODE ? 0 : uvhttp__ws_write_close(payload, code, reason.data, reason.size);
    (void)send_frame(ws, UVHTTP__WS_CLOSE, payload, size, UINT32_MAX);
}

size_t uvhttp_ws_queued(const uvhttp_ws_t *ws) {
    return uvhttp__stream_out_size(&ws->tcp->stream);
}

/* --- time --- */

static uint64_t after(uint64_t start_ms, uint32_t seconds) {
    return seconds == UVHTTP_WS_NEVER ? NEVER_MS : start_ms + (uint64_t)seconds * 1000;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t ping_ms(const uvhttp_ws_t *ws) {
    uint64_t last_ms = ws->received_ms > ws->pinged_ms ? ws->received_ms : ws->pinged_ms;
    return after(last_ms, options_of(ws)->ping_interval);
}

static uint64_t idle_ms(const uvhttp_ws_t *ws) {
    return ws->paused ? NEVER_MS : after(ws->received_ms, options_of(ws)->idle_timeout);
}

static uint64_t message_ms(const uvhttp_ws_t *ws) {
    if (ws->message.fragments == 0 || ws->paused) return NEVER_MS;
    return after(ws->message.start_ms, options_of(ws)->message_timeout);
}

/* When a client that does not take what is queued is given up; nothing else ends one whose messages are not read
 * because of that. */
static uint64_t stalled_ms(const uvhttp_ws_t *ws) {
    return uvhttp_ws_queued(ws) == 0 ? NEVER_MS : after(ws->taken_ms, options_of(ws)->idle_timeout);
}

static void look_at_queue(uvhttp_ws_t *ws) {
    uint64_t taken = ws->queued - uvhttp_ws_queued(ws);
    if (taken != ws->taken || uvhttp_ws_queued(ws) == 0) ws->taken_ms = uvhttp__conn_now_ms(ws->tcp);
    ws->taken = taken;
}

/* What is received only puts deadlines off: the timer is set when one can have come nearer, and looks again when it has
 * fired too early. */
static void set_timer(uvhttp_ws_t *ws) {
    uint64_t deadline_ms = ws->state == UVHTTP__WS_CLOSING
                               ? after(ws->closing_ms, options_of(ws)->close_timeout)
                               : earlier(earlier(ping_ms(ws), idle_ms(ws)), earlier(message_ms(ws), stalled_ms(ws)));
    uint64_t now_ms = uvhttp__conn_now_ms(ws->tcp);
    if (deadline_ms == NEVER_MS)
        (void)uvhttp_tcp_set_timer(ws->tcp, 0);
    else
        (void)uvhttp_tcp_set_timer(ws->tcp, deadline_ms > now_ms ? deadline_ms - now_ms : 1);
}

/* --- messages out --- */

static bool is_utf8(const void *data, size_t size) {
    uvhttp__utf8_t state = {0};
    return uvhttp__utf8_take(&state, data, size) && uvhttp__utf8_complete(&state);
}

static bool may_be_sent(uvhttp_ws_type_t type, const void *data, size_t size) {
    if (!data && size > 0) return false;
    return type == UVHTTP_WS_BINARY || (type == UVHTTP_WS_TEXT && is_utf8(data, size));
}

static int send_message(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size) {
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    int status = send_frame(ws, (uint8_t)type, data, size, options_of(ws)->send_queue_max);
    if (status == UVHTTP_OK || status == UVHTTP_E_AGAIN) uvhttp__counters_add(counters_of(ws), ws_messages_sent, 1);
    if (status == UVHTTP_E_AGAIN) set_timer(ws);
    return status;
}

int uvhttp_ws_send(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size) {
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    return may_be_sent(type, data, size) ? send_message(ws, type, data, size) : UVHTTP_E_INVALID;
}

/* --- the end --- */

static void drop_message(uvhttp_ws_t *ws) {
    uvhttp__free(ws->message.data);
    ws->message = (uvhttp__ws_assembly_t){0};
}

/* The last word to the application; nothing is given to it afterwards. */
static void tell_end(uvhttp_ws_t *ws, int code, uvhttp_str_t reason) {
    if (ws->state == UVHTTP__WS_ENDED) return;
    ws->state = UVHTTP__WS_ENDED;
    drop_message(ws);
    const uvhttp_ws_handlers_t *handlers = &ws->endpoint->handlers;
    if (handlers->on_close) handlers->on_close(ws, code, reason, ws->endpoint->user);
}

/* The connection ends when what is queued is out. */
static void end(uvhttp_ws_t *ws, int code, uvhttp_str_t reason) {
    uvhttp_tcp_close(ws->tcp);
    tell_end(ws, code, reason);
}

/* The peer broke a rule or a limit. */
static void fail(uvhttp_ws_t *ws, uint16_t code, int error) {
    uvhttp__counters_error(counters_of(ws), error);
    if (ws->state == UVHTTP__WS_OPEN) send_close(ws, code, UVHTTP__STR(""));
    end(ws, code, UVHTTP__STR(""));
}

static void fail_by(uvhttp_ws_t *ws, int error) {
    switch (error) {
        case UVHTTP_E_WS_UTF8: fail(ws, UVHTTP_WS_INVALID_DATA, error); break;
        case UVHTTP_E_WS_TOO_LARGE:
        case UVHTTP_E_WS_FRAGMENTS: fail(ws, UVHTTP_WS_TOO_LARGE, error); break;
        case UVHTTP_E_NOMEM: fail(ws, UVHTTP_WS_INTERNAL_ERROR, error); break;
        case UVHTTP_E_TIMEOUT: fail(ws, UVHTTP_WS_POLICY, error); break;
        default: fail(ws, UVHTTP_WS_PROTOCOL_ERROR, error); break;
    }
}

static bool close_is_valid(int code, uvhttp_str_t reason) {
    return code > 0 && uvhttp__ws_close_code_valid((unsigned)code) && reason.size <= UVHTTP__WS_REASON_SIZE_MAX &&
           is_utf8(reason.data, reason.size);
}

static int start_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason) {
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    send_close(ws, (uint16_t)code, reason);
    ws->state = UVHTTP__WS_CLOSING;
    ws->closing_ms = uvhttp__conn_now_ms(ws->tcp);
    drop_message(ws);
    if (ws->paused) uvhttp_ws_resume(ws); /* the answer has to be read */
    set_timer(ws);
    return UVHTTP_OK;
}

int uvhttp_ws_close(uvhttp_ws_t *ws, int code, const char *reason) {
    uvhttp_str_t text = uvhttp__str_from(reason);
    return close_is_valid(code, text) ? start_close(ws, code, text) : UVHTTP_E_INVALID;
}

/* --- receiving --- */

static void deliver(uvhttp_ws_t *ws, uint8_t type, const char *data, size_t size) {
    uvhttp__counters_add(counters_of(ws), ws_messages_received, 1);
    const uvhttp_ws_message_t message = {.type = (uvhttp_ws_type_t)type, .data = size > 0 ? data : "", .size = size};
    ws->endpoint->handlers.on_message(ws, message, ws->endpoint->user);
}

/* Grows with what has come, never with what a frame's head promises. */
static int append(uvhttp__ws_assembly_t *message, const char *data, size_t size) {
    size_t wanted = message->size + size;
    if (wanted > message->capacity) {
        size_t capacity = message->capacity ? message->capacity : 512;
        while (capacity < wanted) capacity *= 2;
        char *grown = uvhttp__realloc(message->data, capacity);
        if (!grown) return UVHTTP_E_NOMEM;
        message->data = grown;
        message->capacity = capacity;
    }
    if (size > 0) memcpy(message->data + message->size, data, size);
    message->size = wanted;
    return UVHTTP_OK;
}

static int begin_frame(uvhttp_ws_t *ws, const uvhttp__ws_piece_t *piece) {
    uvhttp__ws_assembly_t *message = &ws->message;
    const uvhttp_ws_options_t *options = options_of(ws);
    if (message->fragments == 0) {
        message->type = piece->opcode;
        message->start_ms = uvhttp__conn_now_ms(ws->tcp);
    }
    if (message->fragments == options->fragments_max) return UVHTTP_E_WS_FRAGMENTS;
    message->fragments++;
    return piece->frame_size > options->message_size_max - message->size ? UVHTTP_E_WS_TOO_LARGE : UVHTTP_OK;
}

/* Returns 0, or why the connection fails. A message that has come whole is delivered from where it stands. */
static int take_data(uvhttp_ws_t *ws, const uvhttp__ws_piece_t *piece) {
    uvhttp__ws_assembly_t *message = &ws->message;
    bool fresh = message->fragments == 0;
    int status = piece->first ? begin_frame(ws, piece) : UVHTTP_OK;
    if (status != UVHTTP_OK) return status;
    bool whole = piece->last && piece->fin;
    if (message->type == UVHTTP_WS_TEXT) {
        if (!uvhttp__utf8_take(&message->utf8, piece->data, piece->size)) return UVHTTP_E_WS_UTF8;
        if (whole && !uvhttp__utf8_complete(&message->utf8)) return UVHTTP_E_WS_UTF8;
    }
    if (whole && message->size == 0) {
        uint8_t type = message->type;
        drop_message(ws);
        deliver(ws, type, piece->data, piece->size);
        return UVHTTP_OK;
    }
    status = append(message, piece->data, piece->size);
    if (status != UVHTTP_OK) return status;
    if (whole) {
        uvhttp__ws_assembly_t taken = *message; /* the application may close the connection in its callback */
        *message = (uvhttp__ws_assembly_t){0};
        deliver(ws, taken.type, taken.data, taken.size);
        uvhttp__free(taken.data);
    } else if (fresh) {
        set_timer(ws);
    }
    return UVHTTP_OK;
}

static int take_close(uvhttp_ws_t *ws, const char *data, size_t size) {
    uint16_t code;
    uvhttp_str_t reason;
    int status = uvhttp__ws_read_close(data, size, &code, &reason);
    if (status != UVHTTP_OK) return status;
    if (ws->state == UVHTTP__WS_OPEN) send_close(ws, code, UVHTTP__STR(""));
    end(ws, code, reason);
    return UVHTTP_OK;
}

/* A client that does not read gets no answers to its pings piled up (section 5.5.3 allows to leave some out). */
static void answer_ping(uvhttp_ws_t *ws, const char *data, size_t size) {
    if (ws->state != UVHTTP__WS_OPEN || uvhttp_ws_queued(ws) > options_of(ws)->send_high_watermark) return;
    (void)send_frame(ws, UVHTTP__WS_PONG, data, size, UINT32_MAX);
}

static int take_control(uvhttp_ws_t *ws, const uvhttp__ws_piece_t *piece) {
    const char *data = piece->data;
    size_t size = piece->size;
    if (!piece->first || !piece->last) {
        if (piece->first) ws->control_size = 0;
        memcpy(ws->control + ws->control_size, piece->data, piece->size);
        ws->control_size = (uint8_t)(ws->control_size + piece->size);
        data = ws->control;
        size = ws->control_size;
    }
    if (!piece->last) return UVHTTP_OK;
    if (piece->opcode == UVHTTP__WS_CLOSE) return take_close(ws, data, size);
    if (piece->opcode == UVHTTP__WS_PING) answer_ping(ws, data, size);
    return UVHTTP_OK;
}

static void on_data(uvhttp_tcp_t *tcp, const char *bytes, size_t size, void *user) {
    uvhttp_ws_t *ws = user;
    char *data =
        (char *)(uintptr_t)bytes; /* the loop's receive buffer, which is ours in this call: unmasked in place */
    ws->received_ms = uvhttp__conn_now_ms(tcp);
    size_t consumed;
    for (; size > 0 && ws->state != UVHTTP__WS_ENDED; data += consumed, size -= consumed) {
        uvhttp__ws_piece_t piece;
        int status = uvhttp__ws_parse(&ws->parser, data, size, &consumed, &piece);
        if (status == UVHTTP_E_AGAIN) return;
        if (status == UVHTTP_OK) {
            if (uvhttp__ws_is_control(piece.opcode))
                status = take_control(ws, &piece);
            else if (ws->state == UVHTTP__WS_OPEN)
                status = take_data(ws, &piece);
        }
        if (status != UVHTTP_OK) {
            fail_by(ws, status);
            return;
        }
    }
}

/* --- the connection's other events --- */

static void on_open(uvhttp_tcp_t *tcp, void *user) {
    uvhttp_ws_t *ws = user;
    ws->tcp = tcp;
    ws->received_ms = ws->pinged_ms = uvhttp__conn_now_ms(tcp);
    set_timer(ws);
    if (ws->endpoint->handlers.on_open) ws->endpoint->handlers.on_open(ws, ws->endpoint->user);
}

static void on_drain(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp;
    uvhttp_ws_t *ws = user;
    if (ws->state == UVHTTP__WS_OPEN && ws->endpoint->handlers.on_drain)
        ws->endpoint->handlers.on_drain(ws, ws->endpoint->user);
}

static void on_end(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp;
    end(user, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
}

static void on_stop(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp;
    (void)start_close(user, UVHTTP_WS_GOING_AWAY, UVHTTP__STR(""));
}

static void on_timer(uvhttp_tcp_t *tcp, void *user) {
    uvhttp_ws_t *ws = user;
    uint64_t now_ms = uvhttp__conn_now_ms(tcp);
    look_at_queue(ws);
    if (ws->state == UVHTTP__WS_CLOSING) {
        if (now_ms >= after(ws->closing_ms, options_of(ws)->close_timeout)) {
            end(ws, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
            return;
        }
    } else if (now_ms >= idle_ms(ws)) {
        uvhttp__counters_add(counters_of(ws), timeouts_keepalive, 1);
        end(ws, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
        return;
    } else if (now_ms >= stalled_ms(ws)) {
        uvhttp__counters_add(counters_of(ws), timeouts_write, 1);
        uvhttp_tcp_reset(ws->tcp);
        tell_end(ws, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
        return;
    } else if (now_ms >= message_ms(ws)) {
        fail_by(ws, UVHTTP_E_TIMEOUT);
        return;
    } else if (now_ms >= ping_ms(ws)) {
        ws->pinged_ms = now_ms;
        (void)send_frame(ws, UVHTTP__WS_PING, NULL, 0, UINT32_MAX);
    }
    set_timer(ws);
}

static void on_close(uvhttp_tcp_t *tcp, int status, void *user) {
    (void)tcp, (void)status;
    tell_end(user, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
    uvhttp__free(user);
}

const uvhttp_tcp_handlers_t uvhttp__ws_tcp_handlers = {.on_open = on_open,
                                                       .on_data = on_data,
                                                       .on_drain = on_drain,
                                                       .on_end = on_end,
                                                       .on_close = on_close,
                                                       .on_timer = on_timer,
                                                       .on_stop = on_stop};

/* --- what the application asks for --- */

void uvhttp_ws_pause(uvhttp_ws_t *ws) {
    if (ws->state != UVHTTP__WS_OPEN || ws->paused) return;
    ws->paused = true;
    uvhttp_tcp_pause(ws->tcp);
}

/* The time in which nothing was read is not the client's. */
void uvhttp_ws_resume(uvhttp_ws_t *ws) {
    if (!ws->paused) return;
    uint64_t now_ms = uvhttp__conn_now_ms(ws->tcp);
    ws->paused = false;
    ws->received_ms = ws->message.start_ms = now_ms;
    uvhttp_tcp_resume(ws->tcp);
    if (ws->state == UVHTTP__WS_OPEN) set_timer(ws);
}

void uvhttp_ws_set_data(uvhttp_ws_t *ws, void *data) {
    ws->data = data;
}

void *uvhttp_ws_data(const uvhttp_ws_t *ws) {
    return ws->data;
}

const char *uvhttp_ws_subprotocol(const uvhttp_ws_t *ws) {
    return ws->subprotocol;
}

int uvhttp_ws_peer(uvhttp_ws_t *ws, char *text, size_t size) {
    return uvhttp_tcp_peer(ws->tcp, text, size);
}

/* --- other threads ---
 * A uvhttp_ws_ref_t is the connection's uvhttp_tcp_ref_t under a name of its own, so that nobody sends bytes past the
 * frames. */

typedef struct order {
    uint8_t type;  /* uvhttp_ws_type_t; 0: close */
    uint16_t code; /* of a close */
    size_t size;
    char data[];
} order_t;

static uvhttp_tcp_ref_t *tcp_ref(uvhttp_ws_ref_t *ref) {
    return (uvhttp_tcp_ref_t *)(void *)ref;
}

uvhttp_ws_ref_t *uvhttp_ws_ref(uvhttp_ws_t *ws) {
    if (ws->state == UVHTTP__WS_ENDED) return NULL;
    return (uvhttp_ws_ref_t *)(void *)uvhttp_tcp_ref(ws->tcp);
}

static void run_order(uvhttp_tcp_t *tcp, void *arg) {
    order_t *order = arg;
    uvhttp_ws_t *ws = tcp ? uvhttp_tcp_data(tcp) : NULL;
    int status = UVHTTP_OK;
    if (ws && order->type)
        status = send_message(ws, (uvhttp_ws_type_t)order->type, order->data, order->size);
    else if (ws)
        (void)start_close(ws, order->code, (uvhttp_str_t){order->data, order->size});
    if (status == UVHTTP_E_LIMIT || status == UVHTTP_E_NOMEM) uvhttp__counters_error(counters_of(ws), status);
    uvhttp__free(order);
}

static int post_order(uvhttp_ws_ref_t *ref, order_t head, const void *data) {
    order_t *order = uvhttp__malloc(sizeof *order + head.size);
    if (!order) return UVHTTP_E_NOMEM;
    *order = head;
    if (head.size > 0) memcpy(order->data, data, head.size);
    int status = uvhttp_tcp_ref_run(tcp_ref(ref), run_order, order);
    if (status != UVHTTP_OK) uvhttp__free(order);
    return status;
}

int uvhttp_ws_ref_send(uvhttp_ws_ref_t *ref, uvhttp_ws_type_t type, const void *data, size_t size) {
    if (!may_be_sent(type, data, size)) return UVHTTP_E_INVALID;
    return post_order(ref, (order_t){.type = (uint8_t)type, .size = size}, data);
}

int uvhttp_ws_ref_close(uvhttp_ws_ref_t *ref, int code, const char *reason) {
    uvhttp_str_t text = uvhttp__str_from(reason);
    if (!close_is_valid(code, text)) return UVHTTP_E_INVALID;
    return post_order(ref, (order_t){.code = (uint16_t)code, .size = text.size}, text.data);
}

void uvhttp_ws_ref_retain(uvhttp_ws_ref_t *ref) {
    uvhttp_tcp_ref_retain(tcp_ref(ref));
}

void uvhttp_ws_ref_release(uvhttp_ws_ref_t *ref) {
    uvhttp_tcp_ref_release(tcp_ref(ref));
}
