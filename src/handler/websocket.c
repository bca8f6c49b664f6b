/* Owns: a WebSocket connection after the handshake: messages, control frames, time limits, the closing handshake (RFC
 * 6455 sections 5 to 7). May include: route message exec websocket conn base obs. */
#include "handler/websocket.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

static_assert(sizeof(uvhttp_ws_t) <= 320, "an idle WebSocket costs this and its connection");

#define NEVER_MS UINT64_MAX

static size_t waiting(const uvhttp_ws_t *ws) {
    return ws->channel->ops->queued(ws->channel);
}

static void send_close(uvhttp_ws_t *ws, uint16_t code, uvhttp_str_t reason) {
    char payload[UVHTTP__WS_CONTROL_SIZE_MAX];
    size_t size =
        code == UVHTTP__WS_CLOSE_NO_CODE ? 0 : uvhttp__ws_write_close(payload, code, reason.data, reason.size);
    uvhttp__ws_send_control(ws, UVHTTP__WS_CLOSE, payload, size);
}

/* --- time --- */

static uint64_t after(uint64_t start_ms, uint32_t seconds) {
    return seconds == UVHTTP_NEVER ? NEVER_MS : start_ms + (uint64_t)seconds * 1000;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t ping_ms(const uvhttp_ws_t *ws) {
    uint64_t last_ms = ws->received_ms > ws->pinged_ms ? ws->received_ms : ws->pinged_ms;
    return after(last_ms, uvhttp__ws_options(ws)->ping_interval);
}

static uint64_t idle_ms(const uvhttp_ws_t *ws) {
    return ws->paused ? NEVER_MS : after(ws->received_ms, uvhttp__ws_options(ws)->idle_timeout);
}

static uint64_t message_ms(const uvhttp_ws_t *ws) {
    if (ws->message.fragments == 0 || ws->paused) return NEVER_MS;
    return after(ws->message.start_ms, uvhttp__ws_options(ws)->message_timeout);
}

/* What is received only puts deadlines off: the timer is set when one can have come nearer, and looks again when it has
 * fired too early. */
void uvhttp__ws_set_timer(uvhttp_ws_t *ws) {
    uint64_t deadline_ms = ws->state == UVHTTP__WS_CLOSING
                               ? after(ws->closing_ms, uvhttp__ws_options(ws)->close_timeout)
                               : earlier(earlier(ping_ms(ws), idle_ms(ws)), message_ms(ws));
    ws->channel->ops->set_deadline(ws->channel, deadline_ms);
}

/* --- the end --- */

static void drop_inflater(uvhttp_ws_t *ws) {
    uvhttp__ws_inflater_give(ws->deflate.client_takeover ? NULL : uvhttp__ws_codecs_of(ws), ws->inflater);
    ws->inflater = NULL;
}

/* No further message is delivered. */
static void drop_message(uvhttp_ws_t *ws) {
    uvhttp__free(ws->message.data);
    ws->message = (uvhttp__ws_assembly_t){0};
    if (ws->inflater) drop_inflater(ws);
}

/* The last word to the application; nothing is given to it afterwards. */
static void notify_end(uvhttp_ws_t *ws, int code, uvhttp_str_t reason) {
    if (ws->state == UVHTTP__WS_ENDED) return;
    ws->state = UVHTTP__WS_ENDED;
    drop_message(ws);
    uvhttp__ws_drop_out(ws);
    if (ws->topics) uvhttp__ws_unsubscribe_all(ws);
    const uvhttp_ws_handlers_t *handlers = &ws->endpoint->handlers;
    if (handlers->on_close) handlers->on_close(ws, code, reason, ws->endpoint->user);
}

/* The connection ends when what is queued is out. */
static void end(uvhttp_ws_t *ws, int code, uvhttp_str_t reason) {
    ws->channel->ops->finish(ws->channel);
    notify_end(ws, code, reason);
}

/* The peer broke a rule or a limit. Behind a close frame of ours there is no other, and no code that was sent. */
static void fail(uvhttp_ws_t *ws, uint16_t code, int error) {
    bool sends = ws->state == UVHTTP__WS_OPEN;
    uvhttp__counters_error(uvhttp__ws_counters(ws), error);
    if (sends) send_close(ws, code, UVHTTP__STR(""));
    end(ws, sends ? code : UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
}

static void fail_by(uvhttp_ws_t *ws, int error) {
    switch (error) {
        case UVHTTP_E_WS_DEFLATE:
        case UVHTTP_E_WS_UTF8: fail(ws, UVHTTP_WS_INVALID_DATA, error); break;
        case UVHTTP_E_WS_TOO_LARGE:
        case UVHTTP_E_WS_INFLATED:
        case UVHTTP_E_WS_FRAGMENTS: fail(ws, UVHTTP_WS_TOO_LARGE, error); break;
        case UVHTTP_E_NOMEM: fail(ws, UVHTTP_WS_INTERNAL_ERROR, error); break;
        case UVHTTP_E_TIMEOUT: fail(ws, UVHTTP_WS_POLICY, error); break;
        default: fail(ws, UVHTTP_WS_PROTOCOL_ERROR, error); break;
    }
}

static bool close_is_valid(int code, uvhttp_str_t reason) {
    return code > 0 && uvhttp__ws_close_code_valid((unsigned)code) && reason.size <= UVHTTP__WS_REASON_SIZE_MAX &&
           uvhttp__utf8_valid(reason.data, reason.size);
}

int uvhttp__ws_start_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason) {
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    uvhttp__loop_look_at_clock(ws->channel->loop);
    send_close(ws, (uint16_t)code, reason);
    ws->state = UVHTTP__WS_CLOSING;
    ws->closing_ms = uvhttp__channel_now_ms(ws->channel);
    drop_message(ws);
    uvhttp__ws_drop_out(ws);
    if (ws->paused) uvhttp_ws_resume(ws); /* the reply has to be read */
    uvhttp__ws_set_timer(ws);
    return UVHTTP_OK;
}

int uvhttp_ws_close(uvhttp_ws_t *ws, int code, const char *reason) {
    uvhttp_str_t text = uvhttp__str_from(reason);
    return close_is_valid(code, text) ? uvhttp__ws_start_close(ws, code, text) : UVHTTP_E_INVALID;
}

/* --- receiving --- */

static void deliver(uvhttp_ws_t *ws, uint8_t type, const char *data, size_t size) {
    uvhttp__counters_add(uvhttp__ws_counters(ws), ws_messages_received, 1);
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

/* What a message may take on the wire: what compresses badly becomes a little larger. */
static uint64_t wire_size_max(const uvhttp_ws_t *ws) {
    uint64_t size_max = uvhttp__ws_options(ws)->message_size_max;
    return ws->message.compressed ? size_max + size_max / 8 + 1024 : size_max;
}

static int begin_message(uvhttp_ws_t *ws, const uvhttp__ws_piece_t *piece) {
    uvhttp__ws_assembly_t *message = &ws->message;
    message->type = piece->opcode;
    message->start_ms = uvhttp__channel_now_ms(ws->channel);
    message->compressed = piece->compressed;
    if (!piece->compressed || ws->inflater) return UVHTTP_OK;
    ws->inflater = uvhttp__ws_inflater_take(ws->deflate.client_takeover ? NULL : uvhttp__ws_codecs_of(ws));
    return ws->inflater ? UVHTTP_OK : UVHTTP_E_NOMEM;
}

static int begin_frame(uvhttp_ws_t *ws, const uvhttp__ws_piece_t *piece) {
    uvhttp__ws_assembly_t *message = &ws->message;
    int status = message->fragments == 0 ? begin_message(ws, piece) : UVHTTP_OK;
    if (status != UVHTTP_OK) return status;
    if (message->fragments == uvhttp__ws_options(ws)->fragments_max) return UVHTTP_E_WS_FRAGMENTS;
    message->fragments++;
    if (piece->frame_size > wire_size_max(ws) - message->wire_size) return UVHTTP_E_WS_TOO_LARGE;
    message->wire_size += piece->frame_size;
    return UVHTTP_OK;
}

static void deliver_fragment(uvhttp_ws_t *ws, const char *data, size_t size, bool last) {
    uvhttp__ws_assembly_t *message = &ws->message;
    const uvhttp_ws_fragment_t fragment = {.type = (uvhttp_ws_type_t)message->type,
                                           .first = !message->started,
                                           .last = last,
                                           .data = size > 0 ? data : "",
                                           .size = size};
    message->started = true;
    message->size += size;
    if (last) {
        *message = (uvhttp__ws_assembly_t){0};
        uvhttp__counters_add(uvhttp__ws_counters(ws), ws_messages_received, 1);
    }
    ws->endpoint->handlers.on_fragment(ws, fragment, ws->endpoint->user);
}

/* Payload of the current message; last: it ends with this. Returns 0, or why the connection fails. A payload that is
 * complete in the buffer is delivered in place. */
static int take_payload(uvhttp_ws_t *ws, const char *data, size_t size, bool last) {
    uvhttp__ws_assembly_t *message = &ws->message;
    if (message->type == UVHTTP_WS_TEXT) {
        if (!uvhttp__utf8_take(&message->utf8, data, size)) return UVHTTP_E_WS_UTF8;
        if (last && !uvhttp__utf8_complete(&message->utf8)) return UVHTTP_E_WS_UTF8;
    }
    if (ws->endpoint->handlers.on_fragment) {
        if (size > 0 || last) deliver_fragment(ws, data, size, last);
        return UVHTTP_OK;
    }
    if (last && message->size == 0) {
        uint8_t type = message->type;
        uvhttp__free(message->data);
        *message = (uvhttp__ws_assembly_t){0};
        deliver(ws, type, data, size);
        return UVHTTP_OK;
    }
    int status = append(message, data, size);
    if (status != UVHTTP_OK || !last) return status;
    uvhttp__ws_assembly_t consumed = *message; /* the application may close the connection in its callback */
    *message = (uvhttp__ws_assembly_t){0};
    deliver(ws, consumed.type, consumed.data, consumed.size);
    uvhttp__free(consumed.data);
    return UVHTTP_OK;
}

/* Frames, and inflated bytes, that count as a request in their iteration. */
enum { FRAME_SHARE = 8, INFLATED_SHARE = 256 };

/* As take_payload, of what the bytes inflate to: a piece of the loop's memory at a time, so that a message that would
 * become too large stops there. */
static int take_compressed(uvhttp_ws_t *ws, const char *data, size_t size, bool last) {
    char *scratch = uvhttp__ws_scratch_of(ws);
    if (!scratch) return UVHTTP_E_NOMEM;
    int status, consumed = UVHTTP_OK;
    do {
        size_t written;
        status = uvhttp__ws_inflate(ws->inflater, &data, &size, last, scratch, UVHTTP__WS_SCRATCH_SIZE, &written);
        if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) return status;
        if (written > uvhttp__ws_options(ws)->message_size_max - ws->message.size) return UVHTTP_E_WS_INFLATED;
        ws->cost += (uint32_t)written / (INFLATED_SHARE / FRAME_SHARE);
        bool ends = last && status == UVHTTP_OK;
        if (ends && !ws->deflate.client_takeover) drop_inflater(ws);
        consumed = take_payload(ws, scratch, written, ends);
    } while (status == UVHTTP_E_AGAIN && consumed == UVHTTP_OK && ws->state == UVHTTP__WS_OPEN);
    return consumed;
}

/* A message in one complete frame is delivered in place. */
static int take_whole(uvhttp_ws_t *ws, const uvhttp__ws_piece_t *piece) {
    if (piece->size > uvhttp__ws_options(ws)->message_size_max) return UVHTTP_E_WS_TOO_LARGE;
    if (piece->opcode == UVHTTP__WS_TEXT && !uvhttp__utf8_valid(piece->data, piece->size)) return UVHTTP_E_WS_UTF8;
    deliver(ws, piece->opcode, piece->data, piece->size);
    return UVHTTP_OK;
}

static int take_data(uvhttp_ws_t *ws, const uvhttp__ws_piece_t *piece) {
    if (piece->first && piece->last && piece->fin && piece->opcode != UVHTTP__WS_CONTINUATION && !piece->compressed &&
        ws->endpoint->handlers.on_message)
        return take_whole(ws, piece);
    bool fresh = ws->message.fragments == 0;
    int status = piece->first ? begin_frame(ws, piece) : UVHTTP_OK;
    if (status != UVHTTP_OK) return status;
    bool last = piece->last && piece->fin;
    status = ws->message.compressed ? take_compressed(ws, piece->data, piece->size, last)
                                    : take_payload(ws, piece->data, piece->size, last);
    if (fresh && !last && status == UVHTTP_OK && ws->state == UVHTTP__WS_OPEN) uvhttp__ws_set_timer(ws);
    return status;
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

/* If the client does not read, replies to its pings do not accumulate (section 5.5.3 permits skipping some). */
static void reply_to_ping(uvhttp_ws_t *ws, const char *data, size_t size) {
    if (ws->state != UVHTTP__WS_OPEN || waiting(ws) > uvhttp__ws_options(ws)->send_high_watermark) return;
    uvhttp__ws_send_control(ws, UVHTTP__WS_PONG, data, size);
}

static int take_control(uvhttp_ws_t *ws, const uvhttp__ws_piece_t *piece) {
    const char *data = piece->data;
    size_t size = piece->size;
    if (!piece->first || !piece->last) {
        if (!ws->control) ws->control = uvhttp__malloc(UVHTTP__WS_CONTROL_SIZE_MAX);
        if (!ws->control) return UVHTTP_E_NOMEM;
        if (piece->first) ws->control_size = 0;
        memcpy(ws->control + ws->control_size, piece->data, piece->size);
        ws->control_size = (uint8_t)(ws->control_size + piece->size);
        data = ws->control;
        size = ws->control_size;
    }
    if (!piece->last) return UVHTTP_OK;
    int status = UVHTTP_OK;
    if (piece->opcode == UVHTTP__WS_CLOSE) status = take_close(ws, data, size);
    if (piece->opcode == UVHTTP__WS_PING) reply_to_ping(ws, data, size);
    uvhttp__free(ws->control);
    ws->control = NULL;
    return status;
}

/* Compressed bytes become up to a thousand times as many: where the application may pause between pieces of a message,
 * they are looked at in small steps. */
#define COMPRESSED_STEP 256

static size_t step_size(const uvhttp_ws_t *ws, size_t size) {
    bool in_steps = ws->deflate.server_bits > 0 && ws->endpoint->handlers.on_fragment;
    return in_steps && size > COMPRESSED_STEP ? COMPRESSED_STEP : size;
}

/* Counts whole requests of the cost so far. False: the share is used up, the rest of the bytes is left to the next
 * iteration, and so is what a large message has cost beyond the share. */
static bool count_cost(uvhttp_ws_t *ws) {
    if (ws->cost < FRAME_SHARE) return true;
    uint32_t requests = ws->cost / FRAME_SHARE;
    ws->cost %= FRAME_SHARE;
    bool more = ws->channel->ops->spend(ws->channel, &requests);
    ws->cost += requests * FRAME_SHARE;
    return more;
}

/* Unmasked in place. */
static size_t on_data(uvhttp__channel_t *channel, char *data, size_t size) {
    uvhttp_ws_t *ws = channel->user;
    size_t rest = size, consumed;
    bool more = count_cost(ws);
    ws->received_ms = uvhttp__channel_now_ms(channel);
    for (; more && rest > 0 && !ws->paused && ws->state != UVHTTP__WS_ENDED; data += consumed, rest -= consumed) {
        uvhttp__ws_piece_t piece;
        int status = uvhttp__ws_parse(&ws->parser, data, step_size(ws, rest), &consumed, &piece);
        if (status == UVHTTP_E_AGAIN) continue;
        if (status == UVHTTP_OK) {
            if (uvhttp__ws_is_control(piece.opcode))
                status = take_control(ws, &piece);
            else if (ws->state == UVHTTP__WS_OPEN)
                status = take_data(ws, &piece);
        }
        if (status != UVHTTP_OK) {
            fail_by(ws, status);
            break;
        }
        ws->cost++;
        more = count_cost(ws);
    }
    return ws->state == UVHTTP__WS_ENDED ? size : size - rest;
}

/* --- the channel's other events --- */

static void on_open(uvhttp__channel_t *channel) {
    uvhttp_ws_t *ws = channel->user;
    ws->channel = channel;
    ws->received_ms = ws->pinged_ms = uvhttp__channel_now_ms(channel);
    uvhttp__ws_set_timer(ws);
    if (ws->endpoint->handlers.on_open) ws->endpoint->handlers.on_open(ws, ws->endpoint->user);
}

static void on_drain(uvhttp__channel_t *channel) {
    uvhttp_ws_t *ws = channel->user;
    if (ws->state == UVHTTP__WS_OPEN && ws->endpoint->handlers.on_drain)
        ws->endpoint->handlers.on_drain(ws, ws->endpoint->user);
}

static void on_end(uvhttp__channel_t *channel) {
    end(channel->user, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
}

static void on_stop(uvhttp__channel_t *channel) {
    uvhttp_ws_t *ws = channel->user;
    if (ws->state == UVHTTP__WS_OPEN && ws->endpoint->handlers.on_stop)
        ws->endpoint->handlers.on_stop(ws, ws->endpoint->user);
    (void)uvhttp__ws_start_close(ws, UVHTTP_WS_GOING_AWAY, UVHTTP__STR(""));
}

static const uvhttp__rate_limits_t *output_limits(const uvhttp__channel_t *channel) {
    const uvhttp_ws_t *ws = channel->user;
    return &ws->endpoint->output;
}

static void on_timer(uvhttp__channel_t *channel) {
    uvhttp_ws_t *ws = channel->user;
    uint64_t now_ms = uvhttp__channel_now_ms(channel);
    if (ws->state == UVHTTP__WS_CLOSING) {
        if (now_ms >= after(ws->closing_ms, uvhttp__ws_options(ws)->close_timeout)) {
            end(ws, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
            return;
        }
    } else if (now_ms >= idle_ms(ws)) {
        uvhttp__counters_add(uvhttp__ws_counters(ws), timeouts_keepalive, 1);
        end(ws, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
        return;
    } else if (now_ms >= message_ms(ws)) {
        fail_by(ws, UVHTTP_E_TIMEOUT);
        return;
    } else if (now_ms >= ping_ms(ws)) {
        ws->pinged_ms = now_ms;
        uvhttp__ws_send_control(ws, UVHTTP__WS_PING, NULL, 0);
    }
    uvhttp__ws_set_timer(ws);
}

static void on_close(uvhttp__channel_t *channel, int status) {
    (void)status;
    uvhttp_ws_t *ws = channel->user;
    notify_end(ws, UVHTTP_WS_ABNORMAL, UVHTTP__STR(""));
    uvhttp__loop_ref_close(&ws->ref);
    uvhttp__free(ws->control);
    uvhttp__free(ws);
}

const uvhttp__channel_events_t uvhttp__ws_events = {.on_open = on_open,
                                                    .on_data = on_data,
                                                    .on_drain = on_drain,
                                                    .on_end = on_end,
                                                    .on_timer = on_timer,
                                                    .on_stop = on_stop,
                                                    .on_close = on_close,
                                                    .output_limits = output_limits};

/* --- what the application asks for --- */

void uvhttp_ws_pause(uvhttp_ws_t *ws) {
    if (ws->state != UVHTTP__WS_OPEN || ws->paused) return;
    uvhttp__loop_look_at_clock(ws->channel->loop);
    ws->paused = true;
    ws->paused_ms = uvhttp__channel_now_ms(ws->channel);
    ws->channel->ops->pause(ws->channel);
}

/* The time in which nothing was read is not the client's. All other time is: a client that sends a byte now and then
 * must not profit from an application that pauses often. */
void uvhttp_ws_resume(uvhttp_ws_t *ws) {
    if (!ws->paused) return;
    uvhttp__loop_look_at_clock(ws->channel->loop);
    uint64_t pause_ms = uvhttp__channel_now_ms(ws->channel) - ws->paused_ms;
    ws->paused = false;
    ws->received_ms += pause_ms;
    ws->message.start_ms += pause_ms;
    ws->channel->ops->resume(ws->channel);
    if (ws->state == UVHTTP__WS_OPEN) uvhttp__ws_set_timer(ws);
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
    return ws->channel->ops->peer(ws->channel, text, size);
}

/* --- other threads ---
 * A uvhttp_ws_ref_t is the uvhttp__loop_ref_t of its WebSocket. */

typedef struct order {
    uvhttp__loop_call_t call;
    uint8_t type;  /* uvhttp_ws_type_t; 0: close */
    uint16_t code; /* of a close */
    size_t size;
    char data[];
} order_t;

static uvhttp__loop_ref_t *loop_ref(uvhttp_ws_ref_t *ref) {
    return (uvhttp__loop_ref_t *)(void *)ref;
}

uvhttp_ws_ref_t *uvhttp_ws_ref(uvhttp_ws_t *ws) {
    if (ws->state == UVHTTP__WS_ENDED) return NULL;
    return (uvhttp_ws_ref_t *)(void *)uvhttp__loop_ref_get(&ws->ref, ws->channel->loop, ws);
}

static void run_order(uvhttp__loop_call_t *call, void *target) {
    order_t *order = UVHTTP__CONTAINER_OF(call, order_t, call);
    uvhttp_ws_t *ws = target;
    int status = UVHTTP_OK;
    if (ws && order->type)
        status = uvhttp__ws_send_message(ws, (uvhttp_ws_type_t)order->type, order->data, order->size);
    else if (ws)
        (void)uvhttp__ws_start_close(ws, order->code, (uvhttp_str_t){order->data, order->size});
    if (status == UVHTTP_E_LIMIT || status == UVHTTP_E_NOMEM) uvhttp__counters_error(uvhttp__ws_counters(ws), status);
    uvhttp__free(order);
}

static int post_order(uvhttp_ws_ref_t *ref, const order_t *head, const void *data) {
    order_t *order = uvhttp__malloc(sizeof *order + head->size);
    if (!order) return UVHTTP_E_NOMEM;
    *order = *head;
    order->call.run = run_order;
    if (head->size > 0) memcpy(order->data, data, head->size);
    int status = uvhttp__loop_ref_call(loop_ref(ref), &order->call);
    if (status != UVHTTP_OK) uvhttp__free(order);
    return status;
}

int uvhttp_ws_ref_send(uvhttp_ws_ref_t *ref, uvhttp_ws_type_t type, const void *data, size_t size) {
    if (!uvhttp__ws_may_be_sent(type, data, size)) return UVHTTP_E_INVALID;
    return post_order(ref, &(order_t){.type = (uint8_t)type, .size = size}, data);
}

int uvhttp_ws_ref_close(uvhttp_ws_ref_t *ref, int code, const char *reason) {
    uvhttp_str_t text = uvhttp__str_from(reason);
    if (!close_is_valid(code, text)) return UVHTTP_E_INVALID;
    return post_order(ref, &(order_t){.code = (uint16_t)code, .size = text.size}, text.data);
}

void uvhttp_ws_ref_retain(uvhttp_ws_ref_t *ref) {
    uvhttp__loop_ref_retain(loop_ref(ref));
}

void uvhttp_ws_ref_release(uvhttp_ws_ref_t *ref) {
    uvhttp__loop_ref_release(loop_ref(ref));
}
