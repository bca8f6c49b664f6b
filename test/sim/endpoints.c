/* Owns: the WebSocket endpoints that respond to each message of a client, with one of its tag: /ws gets messages whole,
 * /parts as fragments. They respond at once, as fast as the client reads, or from a thread of the pool. Whether they
 * compress is the seed's. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "sim.h"

enum { PIECE_MAX = 4000, BLOCK_SIZE = 64, SHARED_SIZE = 2048, SHARED_TAG = 0x7e47 };

sim_ws_settings_t sim_ws;
static atomic_uint open;

/* --- what messages consist of --- */

/* With compression every second block of 64 bytes is the same in all messages, and a byte is one of eight. */
static void fill_block(char *out, uint32_t tag, uint64_t block) {
    uint64_t at = block * BLOCK_SIZE;
    bool shared = block % 2 == 0;
    sim_fill(out, shared ? SHARED_TAG : tag, shared ? at % SHARED_SIZE : at, BLOCK_SIZE);
    for (uint32_t i = 0; i < BLOCK_SIZE; i++) out[i] = "etaoinsh"[out[i] & 7];
}

void sim_ws_fill(char *out, uint32_t tag, uint64_t offset, size_t size) {
    char block[BLOCK_SIZE];
    if (!sim_ws.compresses) {
        sim_fill(out, tag, offset, size);
        return;
    }
    for (size_t done = 0, part; done < size; done += part) {
        size_t at = (offset + done) % BLOCK_SIZE;
        part = BLOCK_SIZE - at < size - done ? BLOCK_SIZE - at : size - done;
        fill_block(block, tag, (offset + done) / BLOCK_SIZE);
        memcpy(out + done, block + at, part);
    }
}

size_t sim_ws_mismatch(const char *data, uint32_t tag, uint64_t offset, size_t size) {
    char expected[512];
    if (!sim_ws.compresses) return sim_mismatch(data, tag, offset, size);
    for (size_t done = 0, part; done < size; done += part) {
        part = size - done < sizeof expected ? size - done : sizeof expected;
        sim_ws_fill(expected, tag, offset + done, part);
        if (memcmp(data + done, expected, part) == 0) continue;
        while (data[done] == expected[done % sizeof expected]) done++;
        return done;
    }
    return size;
}

/* --- a connection --- */

typedef struct echo {
    uvhttp_ws_t *ws; /* NULL: it has ended */
    uint32_t tag;
    uvhttp_timer_t timer;
    sim_later_t *later; /* a callback of the application, in place of the timer */
    bool paused, waits; /* waits: for a job */
    /* the message that comes as fragments */
    char head[8];
    uint64_t received;
    /* the response that waits for the client to read, or for a thread */
    uint32_t response, size, sent;
    bool streams;
    uvhttp_ws_ref_t *ref;
} echo_t;

static void pause_reading(echo_t *echo) {
    echo->paused = true;
    uvhttp_ws_pause(echo->ws);
}

static void resume_reading(echo_t *echo) {
    echo->paused = false;
    uvhttp_ws_resume(echo->ws);
}

static void stream_on(echo_t *echo);

static void on_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    echo_t *echo = user;
    if (echo->streams)
        stream_on(echo);
    else
        resume_reading(echo);
}

static void on_later(void *user) {
    echo_t *echo = user;
    echo->later = NULL;
    on_timer(NULL, echo);
}

/* False: it does not come. */
static bool call_later(echo_t *echo, uint32_t ms) {
    if (!sim_is_guest || echo->tag % 2 == 0) return uvhttp_timer_start(&echo->timer, ms, on_timer, echo) == UVHTTP_OK;
    if (!echo->later) echo->later = sim_guest_later(ms, on_later, echo);
    return true;
}

static void call_nobody(echo_t *echo) {
    uvhttp_timer_stop(&echo->timer);
    sim_guest_cancel(echo->later);
    echo->later = NULL;
}

static void pause_for(echo_t *echo, uint32_t ms) {
    if (call_later(echo, ms)) pause_reading(echo);
}

static void close_if_lost(uvhttp_ws_t *ws, int status) {
    if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) uvhttp_ws_close(ws, UVHTTP_WS_INTERNAL_ERROR, NULL);
}

/* --- how it responds --- */

static void respond_buffered(uvhttp_ws_t *ws, uint32_t tag, uint32_t size) {
    char *body = malloc(size + 1);
    sim_ws_fill(body, tag, 0, size);
    close_if_lost(ws, uvhttp_ws_send(ws, UVHTTP_WS_BINARY, body, size));
    free(body);
}

/* Until all of it is queued, nothing is read, or one message, whose response waits behind it. */
static void stream_on(echo_t *echo) {
    int status = UVHTTP_OK;
    while (echo->sent < echo->size && status == UVHTTP_OK) {
        char piece[PIECE_MAX];
        uint32_t part = 1 + (echo->response * 31 + echo->sent) % PIECE_MAX;
        if (part > echo->size - echo->sent) part = echo->size - echo->sent;
        sim_ws_fill(piece, echo->response, echo->sent, part);
        status = uvhttp_ws_write(echo->ws, piece, part);
        echo->sent += part;
        if (status == UVHTTP_OK && SIM_WS_READS_ON(echo->response) && call_later(echo, echo->sent % 100)) return;
    }
    if (status == UVHTTP_E_AGAIN && echo->sent < echo->size) {
        if (!echo->paused && !SIM_WS_READS_ON(echo->response)) pause_reading(echo);
        return;
    }
    if (status == UVHTTP_OK || status == UVHTTP_E_AGAIN) status = uvhttp_ws_end(echo->ws);
    echo->streams = false;
    call_nobody(echo);
    if (echo->paused) resume_reading(echo);
    close_if_lost(echo->ws, status);
}

static void respond_streamed(echo_t *echo, uint32_t tag, uint32_t size) {
    echo->response = tag;
    echo->size = size;
    echo->sent = 0;
    int status = uvhttp_ws_begin(echo->ws, UVHTTP_WS_BINARY);
    close_if_lost(echo->ws, status);
    echo->streams = status == UVHTTP_OK;
    if (echo->streams) stream_on(echo);
}

static void run_job(void *user) {
    echo_t *echo = user;
    char *body = malloc(echo->size + 1);
    sim_ws_fill(body, echo->response, 0, echo->size);
    int status = uvhttp_ws_ref_send(echo->ref, UVHTTP_WS_BINARY, body, echo->size);
    if (status != UVHTTP_OK && status != UVHTTP_E_ABORTED && !sim_failing)
        sim_fail("a message of a thread: %s", uvhttp_error_name(status));
    free(body);
}

/* Its message may come behind this, but not later than what is due next. */
static void on_job_done(void *user, int status) {
    echo_t *echo = user;
    if (status != UVHTTP_OK && status != UVHTTP_E_WORK_CANCELLED) sim_fail("a job: %s", uvhttp_error_name(status));
    uvhttp_ws_ref_release(echo->ref);
    echo->waits = false;
    if (!echo->ws)
        free(echo);
    else if (uvhttp_timer_start(&echo->timer, 1, on_timer, echo) != UVHTTP_OK)
        resume_reading(echo);
}

/* False: there is no thread for it. */
static bool respond_from_thread(echo_t *echo, uint32_t tag, uint32_t size) {
    echo->response = tag;
    echo->size = size;
    echo->ref = uvhttp_ws_ref(echo->ws);
    if (!echo->ref) return false;
    echo->waits = uvhttp_work(sim_server, run_job, on_job_done, echo) == UVHTTP_OK;
    if (echo->waits)
        pause_reading(echo);
    else
        uvhttp_ws_ref_release(echo->ref);
    return echo->waits;
}

static void respond(echo_t *echo, uint32_t tag, uint32_t size) {
    if (echo->streams) {
        pause_reading(echo);
        respond_buffered(echo->ws, tag, size);
        return;
    }
    bool from_thread = tag % 7 == 0 && !sim_failing; /* without memory it may be lost, and nobody knows */
    if (from_thread && respond_from_thread(echo, tag, size)) return;
    if (SIM_WS_IS_STREAMED(tag))
        respond_streamed(echo, tag, size);
    else
        respond_buffered(echo->ws, tag, size);
    if (tag % 4 == 0 && !echo->paused && !echo->streams) pause_for(echo, size % 500);
}

/* --- callbacks --- */

static void on_open(uvhttp_ws_t *ws, void *user) {
    (void)user;
    echo_t *echo = calloc(1, sizeof *echo);
    if (!echo) abort();
    echo->tag = (uint32_t)(uintptr_t)uvhttp_ws_data(ws);
    echo->ws = ws;
    uvhttp_ws_set_data(ws, echo);
    open++;
    sim_ws_app_opened(echo->tag);
}

static void check(const char *data, uint32_t tag, uint64_t offset, size_t size) {
    size_t wrong = sim_ws_mismatch(data, SIM_REQUEST_TAG(tag), offset, size);
    if (wrong < size) sim_fail("byte %llu of message %x is wrong", (unsigned long long)(offset + wrong), tag);
}

static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    echo_t *echo = uvhttp_ws_data(ws);
    if (message.type != UVHTTP_WS_BINARY || message.size < 8) sim_fail("a message of %zu bytes", message.size);
    if (echo->paused) sim_fail("a message of a connection that is paused");
    uint32_t tag = sim_get32(message.data);
    check(message.data + 8, tag, 0, message.size - 8);
    respond(echo, tag, sim_get32(message.data + 4));
}

/* Tag 0: a message that is about to break a rule. */
static void take_part(echo_t *echo, uvhttp_ws_fragment_t part) {
    size_t at = 0;
    for (; at < part.size && echo->received < sizeof echo->head; at++) echo->head[echo->received++] = part.data[at];
    uint32_t tag = sim_get32(echo->head);
    if (at == part.size || tag == 0) return;
    check(part.data + at, tag, echo->received - 8, part.size - at);
    echo->received += part.size - at;
}

static void on_fragment(uvhttp_ws_t *ws, uvhttp_ws_fragment_t part, void *user) {
    (void)user;
    echo_t *echo = uvhttp_ws_data(ws);
    if (part.first != (echo->received == 0) && part.size > 0 && sim_get32(echo->head) != 0)
        sim_fail("a part of a message in a wrong place");
    if (part.first) echo->received = 0;
    if (echo->paused && !uvhttp_ws_is_compressed(ws)) sim_fail("a part of a connection that is paused");
    take_part(echo, part);
    if (part.last) {
        if (echo->received < 8 || sim_get32(echo->head) == 0) sim_fail("a message that has no head");
        echo->received = 0;
        respond(echo, sim_get32(echo->head), sim_get32(echo->head + 4));
    } else if (!echo->paused && !echo->streams && (echo->received + echo->tag) % 5 == 0) {
        pause_for(echo, (uint32_t)(echo->received % 300));
    }
}

static void on_drain(uvhttp_ws_t *ws, void *user) {
    (void)user;
    echo_t *echo = uvhttp_ws_data(ws);
    if (echo->streams) stream_on(echo);
}

static void on_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)reason, (void)user;
    echo_t *echo = uvhttp_ws_data(ws);
    sim_ws_app_closed(echo->tag, code);
    call_nobody(echo);
    echo->ws = NULL;
    if (!echo->waits) free(echo);
    open--;
}

/* --- options --- */

void sim_ws_plan(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x93);
    sim_ws = (sim_ws_settings_t){.compresses = UVHTTP_WITH_COMPRESSION && sim_one_in(&random, 3),
                                 .takeover = sim_one_in(&random, 2),
                                 .level = (uint8_t)(1 + sim_below(&random, 9)),
                                 .memory_level = (uint8_t)(1 + sim_below(&random, 9)),
                                 .size_min = sim_one_in(&random, 2) ? 256 : sim_log_uniform(&random, 2000),
                                 .server_bits = (uint8_t)(sim_one_in(&random, 2) ? 15 : 9 + sim_below(&random, 6)),
                                 .client_bits = (uint8_t)(sim_one_in(&random, 2) ? 15 : 9 + sim_below(&random, 6)),
                                 .high_watermark = sim_one_in(&random, 2) ? 65536 : sim_log_uniform(&random, 8000),
                                 .size_max = 1 << 20};
    if (sim_ws.compresses) sim_ws.size_max = SIM_WS_SIZE_MAX;
}

uvhttp_ws_options_t sim_ws_options(void) {
    return (uvhttp_ws_options_t){.compression = sim_ws.compresses,
                                 .context_takeover = sim_ws.takeover,
                                 .compression_level = sim_ws.level,
                                 .compression_memory_level = sim_ws.memory_level,
                                 .compression_size_min = sim_ws.size_min,
                                 .server_window_bits = sim_ws.server_bits,
                                 .client_window_bits = sim_ws.client_bits,
                                 .send_high_watermark = sim_ws.high_watermark,
                                 .message_size_max = sim_ws.size_max};
}

/* Callbacks know which tunnel of a client it is. */
uvhttp_flow_t sim_ws_upgrade_request(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    sim_server_check_origin(req, sim_request_number(req, "tag", 16));
    uvhttp_request_set_data(req, (void *)(uintptr_t)sim_request_number(req, "tag", 16));
    return UVHTTP_NEXT;
}

void sim_endpoints_add(uvhttp_server_t *server) {
    const uvhttp_ws_options_t options = sim_ws_options();
    uvhttp_ws_handlers_t handlers = {.on_upgrade = sim_ws_upgrade_request,
                                     .on_open = on_open,
                                     .on_message = on_message,
                                     .on_drain = on_drain,
                                     .on_close = on_close,
                                     .options = &options};
    open = 0;
    uvhttp_websocket(server, "/ws/:tag", &handlers, NULL);
    handlers.on_message = NULL;
    handlers.on_fragment = on_fragment;
    uvhttp_websocket(server, "/parts/:tag", &handlers, NULL);
}

void sim_endpoints_check_end(void) {
    if (open) sim_fail("%u WebSockets have not ended for the application", open);
}
