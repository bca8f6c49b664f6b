/* Owns: what a WebSocket connection sends: frames and messages, buffered, compressed or streamed (RFC 6455 sections 5
 * and 6, RFC 7692 section 7.2.1). May include: route message exec websocket conn base obs. */
#include <string.h>

#include "base/alloc.h"
#include "handler/websocket.h"

/* A complete message that waits for the end of a streamed one. */
typedef struct held {
    struct held *next;
    uvhttp_str_t frame;
    bool compressed;
    void (*release)(void *arg); /* NULL: the frame stands behind */
    void *arg;
    char data[];
} held_t;

struct uvhttp__ws_out {
    uint8_t opcode; /* of the next piece: the type, then CONTINUATION */
    bool is_text;
    uvhttp__utf8_t utf8;
    size_t held_size; /* bytes */
    held_t *first, **last;
};

/* Bytes of a message; smaller ones alone are left to pings. */
#define CHECKED_MIN 4096

static uvhttp__channel_capacity_t capacity_of(const uvhttp_ws_t *ws) {
    const uvhttp_ws_options_t *options = uvhttp__ws_options(ws);
    return (uvhttp__channel_capacity_t){options->send_high_watermark, options->send_queue_max};
}

static bool was_negotiated(int status) {
    return status == UVHTTP_OK || status == UVHTTP_E_AGAIN;
}

/* --- frames --- */

static int send_frame(uvhttp_ws_t *ws, bool fin, uint8_t opcode, uvhttp_str_t payload,
                      uvhttp__channel_capacity_t capacity) {
    char head[UVHTTP__WS_SERVER_HEAD_MAX];
    const uvhttp__channel_parts_t parts = {.head = head,
                                           .head_size = uvhttp__ws_write_head(head, fin, opcode, payload.size),
                                           .data = payload.data,
                                           .size = payload.size};
    return ws->channel->ops->send(ws->channel, &parts, capacity);
}

void uvhttp__ws_send_control(uvhttp_ws_t *ws, uint8_t opcode, const void *data, size_t size) {
    (void)send_frame(ws, true, opcode, (uvhttp_str_t){data, size},
                     (uvhttp__channel_capacity_t){UINT32_MAX, UINT32_MAX});
}

/* --- whole messages --- */

bool uvhttp__ws_may_be_sent(uvhttp_ws_type_t type, const void *data, size_t size) {
    if (!data && size > 0) return false;
    return type == UVHTTP_WS_BINARY || (type == UVHTTP_WS_TEXT && uvhttp__utf8_valid(data, size));
}

static int send_plain(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size) {
    return send_frame(ws, true, (uint8_t)type, (uvhttp_str_t){data, size}, capacity_of(ws));
}

/* With context takeover it is the connection's, which gets it with the first message; NULL if out of memory. */
static uvhttp__ws_deflater_t *deflater_of(uvhttp_ws_t *ws) {
    const uvhttp__ws_deflate_settings_t settings = uvhttp__ws_settings(uvhttp__ws_options(ws), ws->deflate.server_bits);
    if (!ws->deflate.server_takeover) return uvhttp__ws_deflater_of(uvhttp__ws_codecs_of(ws), settings);
    if (!ws->deflater) ws->deflater = uvhttp__ws_deflater_new(settings);
    return ws->deflater;
}

/* Compresses into the iteration arena, after space for the head. A message that would not become smaller, or finds no
 * memory, is sent uncompressed. */
static int send_compressed(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size) {
    uvhttp__loop_t *loop = ws->channel->loop;
    uvhttp__ws_deflater_t *deflater = deflater_of(ws);
    char head[UVHTTP__WS_SERVER_HEAD_MAX];
    size_t guess = uvhttp__ws_write_head(head, true, (uint8_t)type, size);
    char *frame = deflater ? uvhttp__loop_iteration_alloc(loop, guess + UVHTTP__WS_DEFLATE_CAPACITY(size)) : NULL;
    if (!frame) return send_plain(ws, type, data, size);
    size_t packed = uvhttp__ws_deflate(deflater, data, size, frame + guess);
    if (packed == 0) {
        uvhttp__loop_iteration_trim(loop, frame);
        return send_plain(ws, type, data, size);
    }
    size_t head_size = uvhttp__ws_write_head(head, true, (uint8_t)type | UVHTTP__WS_COMPRESSED, packed);
    if (head_size != guess) memmove(frame + head_size, frame + guess, packed);
    memcpy(frame, head, head_size);
    uvhttp__loop_iteration_trim(loop, frame + head_size + packed);
    int status = ws->channel->ops->send_iteration(ws->channel, frame, head_size + packed, capacity_of(ws));
    /* The client will not see what the context holds. */
    if (!was_negotiated(status) && ws->deflater) uvhttp__ws_deflater_reset(ws->deflater);
    return status;
}

/* --- messages queued behind a streamed one --- */

static int hold(uvhttp_ws_t *ws, const held_t *head, const void *data, size_t size) {
    uvhttp__ws_out_t *out = ws->out;
    uvhttp__channel_capacity_t capacity = capacity_of(ws);
    if (uvhttp_ws_queued(ws) + head->frame.size > capacity.queue_max) return UVHTTP_E_LIMIT;
    held_t *held = uvhttp__malloc(sizeof *held + (head->release ? 0 : head->frame.size));
    if (!held) return UVHTTP_E_NOMEM;
    *held = *head;
    if (!head->release) {
        size_t head_size = head->frame.size - size;
        memcpy(held->data, head->frame.data, head_size);
        if (size > 0) memcpy(held->data + head_size, data, size);
        held->frame.data = held->data;
    }
    *out->last = held;
    out->last = &held->next;
    out->held_size += head->frame.size;
    return UVHTTP_OK; /* without backpressure: that is the business of who sends the pieces */
}

static int hold_message(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size) {
    char head[UVHTTP__WS_SERVER_HEAD_MAX];
    size_t head_size = uvhttp__ws_write_head(head, true, (uint8_t)type, size);
    return hold(ws, &(held_t){.frame = {head, head_size + size}}, data, size);
}

int uvhttp__ws_send_message(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size) {
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    bool waits = ws->special && ws->out;
    int status;
    if (waits)
        status = hold_message(ws, type, data, size);
    else if (ws->special && size >= uvhttp__ws_options(ws)->compression_size_min)
        status = send_compressed(ws, type, data, size);
    else
        status = send_plain(ws, type, data, size);
    if (!waits && was_negotiated(status)) uvhttp__counters_add(uvhttp__ws_counters(ws), ws_messages_sent, 1);
    if (size > CHECKED_MIN)
        ws->channel->ops->check_output(ws->channel); /* as after a response: what the kernel took is not read */
    return status;
}

int uvhttp_ws_send(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size) {
    return uvhttp__ws_may_be_sent(type, data, size) ? uvhttp__ws_send_message(ws, type, data, size) : UVHTTP_E_INVALID;
}

/* What refers to no message before may stand between others, if the next one does not refer to what is before it. */
static inline int send_ref(uvhttp_ws_t *ws, uvhttp_str_t frame, bool compressed, void (*release)(void *arg), void *arg,
                           uvhttp__channel_capacity_t capacity) {
    int status = ws->channel->ops->send_reference(ws->channel, frame, release, arg, capacity);
    if (compressed && ws->deflater && was_negotiated(status)) uvhttp__ws_deflater_reset(ws->deflater);
    return status;
}

int uvhttp__ws_send_shared(uvhttp_ws_t *ws, uvhttp_str_t frame, bool compressed, void (*release)(void *arg),
                           void *arg) {
    int status = UVHTTP_E_CLOSED;
    if (ws->state == UVHTTP__WS_OPEN && !ws->out) {
        status = send_ref(ws, frame, compressed, release, arg, capacity_of(ws));
        if (was_negotiated(status)) uvhttp__counters_add(uvhttp__ws_counters(ws), ws_messages_sent, 1);
        return status;
    }
    if (ws->state == UVHTTP__WS_OPEN)
        status = hold(ws, &(held_t){.frame = frame, .compressed = compressed, .release = release, .arg = arg}, NULL, 0);
    if (status != UVHTTP_OK) release(arg);
    return status;
}

/* --- streamed messages --- */

int uvhttp_ws_begin(uvhttp_ws_t *ws, uvhttp_ws_type_t type) {
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    if (type != UVHTTP_WS_TEXT && type != UVHTTP_WS_BINARY) return UVHTTP_E_INVALID;
    if (ws->out) return UVHTTP_E_STATE;
    uvhttp__ws_out_t *out = uvhttp__calloc(1, sizeof *out);
    if (!out) return UVHTTP_E_NOMEM;
    out->opcode = (uint8_t)type;
    out->is_text = type == UVHTTP_WS_TEXT;
    out->last = &out->first;
    ws->out = out;
    ws->special = true;
    return UVHTTP_OK;
}

int uvhttp_ws_write(uvhttp_ws_t *ws, const void *data, size_t size) {
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    uvhttp__ws_out_t *out = ws->out;
    if (!out) return UVHTTP_E_STATE;
    if (!data && size > 0) return UVHTTP_E_INVALID;
    uvhttp__utf8_t utf8 = out->utf8;
    if (out->is_text && !uvhttp__utf8_take(&utf8, data, size)) return UVHTTP_E_INVALID;
    uvhttp__channel_capacity_t capacity = capacity_of(ws);
    if (capacity.queue_max < out->held_size) return UVHTTP_E_LIMIT;
    capacity.queue_max -= out->held_size;
    int status = send_frame(ws, false, out->opcode, (uvhttp_str_t){data, size}, capacity);
    if (!was_negotiated(status)) return status;
    out->opcode = UVHTTP__WS_CONTINUATION;
    out->utf8 = utf8;
    return status;
}

static void release_held(uvhttp__ws_out_t *out) {
    for (held_t *next, *held = out->first; held; held = next) {
        next = held->next;
        if (held->release) held->release(held->arg);
        uvhttp__free(held);
    }
    uvhttp__free(out);
}

/* Behind a message without an end there can be no other (RFC 6455 section 5.4). */
static void drop_held(uvhttp_ws_t *ws) {
    for (const held_t *held = ws->out->first; held; held = held->next)
        uvhttp__counters_error(uvhttp__ws_counters(ws), UVHTTP_E_CLOSED);
    release_held(ws->out);
    ws->out = NULL;
}

void uvhttp__ws_drop_out(uvhttp_ws_t *ws) {
    if (ws->out) drop_held(ws);
    uvhttp__ws_deflater_free(ws->deflater);
    ws->deflater = NULL;
}

static int send_one_held(uvhttp_ws_t *ws, held_t *held) {
    const uvhttp__channel_capacity_t capacity = {uvhttp__ws_options(ws)->send_high_watermark, UINT32_MAX};
    void (*release)(void *arg) = held->release;
    if (!release)
        return ws->channel->ops->send(
            ws->channel, &(uvhttp__channel_parts_t){.head = held->frame.data, .head_size = held->frame.size}, capacity);
    held->release = NULL;
    return send_ref(ws, held->frame, held->compressed, release, held->arg, capacity);
}

/* Their space in the queue was reserved before. One that finds no memory was accepted all the same, and is not left
 * out for others to follow: the connection is reset. */
static void send_held(uvhttp_ws_t *ws, uvhttp__ws_out_t *out) {
    for (held_t *held = out->first; held; held = held->next) {
        int status = send_one_held(ws, held);
        if (was_negotiated(status)) {
            uvhttp__counters_add(uvhttp__ws_counters(ws), ws_messages_sent, 1);
        } else {
            uvhttp__counters_error(uvhttp__ws_counters(ws), status);
            ws->channel->ops->reset(ws->channel);
        }
    }
}

int uvhttp_ws_end(uvhttp_ws_t *ws) {
    if (ws->state != UVHTTP__WS_OPEN) return UVHTTP_E_CLOSED;
    uvhttp__ws_out_t *out = ws->out;
    if (!out) return UVHTTP_E_STATE;
    if (!uvhttp__utf8_complete(&out->utf8)) return UVHTTP_E_INVALID;
    int status = send_frame(ws, true, out->opcode, (uvhttp_str_t){NULL, 0},
                            (uvhttp__channel_capacity_t){UINT32_MAX, UINT32_MAX});
    if (status != UVHTTP_OK) return status;
    uvhttp__counters_add(uvhttp__ws_counters(ws), ws_messages_sent, 1);
    ws->out = NULL;
    ws->special = ws->deflate.server_bits > 0;
    send_held(ws, out);
    release_held(out);
    return UVHTTP_OK;
}

size_t uvhttp_ws_queued(const uvhttp_ws_t *ws) {
    return ws->channel->ops->queued(ws->channel) + (ws->out ? ws->out->held_size : 0);
}

bool uvhttp_ws_is_compressed(const uvhttp_ws_t *ws) {
    return ws->deflate.server_bits > 0;
}
