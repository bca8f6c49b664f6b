/* Owns: inputs for fuzzing that are frames of HTTP/2: a custom mutator (libFuzzer) that makes, moves, cuts and changes
 * whole frames, with header blocks of a small grammar. Header only. An input is one byte for
 * the target, and frames behind it. */
#ifndef UVHTTP_TEST_FUZZ_HTTP2_MUTATE_H
#define UVHTTP_TEST_FUZZ_HTTP2_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http2/http2_internal.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);

/* Extended CONNECT (RFC 8441), which a target has to ask for: not every server knows it. */
#ifndef MUTATE_TUNNELS
#define MUTATE_TUNNELS false
#endif

enum { MUTATE_BODY = 0xfa /* a frame that says how many bytes of DATA stand for it */ };
enum { MUTATE_FRAMES = 256, MUTATE_PAYLOAD = 700, MUTATE_HEAD = UVHTTP__HTTP2_FRAME_HEAD_SIZE };

static uint64_t mutate_state;

static uint32_t mutate_below(uint32_t below) {
    mutate_state = mutate_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((mutate_state >> 32) * below) >> 32);
}
static bool mutate_one_in(uint32_t in) {
    return mutate_below(in) == 0;
}

/* A block or payload that is being written; what does not fit is left out. */
typedef struct mutate_text {
    size_t size;
    uint8_t bytes[MUTATE_PAYLOAD];
} mutate_text_t;

static void mutate_put(mutate_text_t *text, const void *data, size_t size) {
    if (size == 0 || text->size + size > sizeof text->bytes) return;
    memcpy(text->bytes + text->size, data, size);
    text->size += size;
}
static void mutate_byte(mutate_text_t *text, unsigned byte) {
    mutate_put(text, &(uint8_t){(uint8_t)byte}, 1);
}
static void mutate_number(mutate_text_t *text, uint32_t number) {
    char bytes[4];
    uvhttp__http2_put32(bytes, number);
    mutate_put(text, bytes, sizeof bytes);
}
static void mutate_literal(mutate_text_t *text, const char *string) {
    size_t size = strlen(string);
    if (size > 126 || text->size + 1 + size > sizeof text->bytes) return;
    mutate_byte(text, (unsigned)size);
    mutate_put(text, string, size);
}

/* --- header blocks --- */

static const char *const mutate_names[] = {
    "x",      "x-a",       "cookie", "content-length", "te",         "connection",        "host",
    "accept", "priority",  "Up",     "keep-alive",     ":authority", "transfer-encoding", ":status",
    "expect", ":protocol", "",       "upgrade",        "a b"};
static const char *const mutate_values[] = {"",    "1",        "0",   "trailers",  "a=1", "close",        "test",  "/x",
                                            "u=1", " leading", "a\r", "trailing ", "12",  "100-continue", "u=0, i"};
static const char *const mutate_paths[] = {"/", "/a", "*", "", "/a?b=c", "a", "/a b", "/%41", "//", "/\x7f",
                                           /* of served.h */
                                           "/p", "/s", "/l", "/d", "/r", "/v", "/e", "/o", "/b", "/k", "/m", "/w", "/h",
                                           "/g", "/f/", "/f/a.txt", "/f/b.txt", "/t/a.txt", "/t/b.txt"};
static const char *const mutate_tunnels[] = {"/w", "/x", "/y", "/z", "/v"};

static const char *mutate_pick(const char *const *strings, size_t count) {
    return strings[mutate_one_in(3) ? 0 : mutate_below((uint32_t)count)];
}
#define MUTATE_PICK(strings) mutate_pick(strings, sizeof(strings) / sizeof *(strings))

static void mutate_field(mutate_text_t *block) {
    static const uint8_t kinds[] = {0x40, 0x00, 0x10};
    switch (mutate_below(8)) {
        case 0: mutate_byte(block, 0x80 | (62 + mutate_below(4))); return; /* of the dynamic table, if it is there */
        case 1: mutate_byte(block, 0x80 | mutate_below(128)); return;
        case 2: /* a name of a table */
            mutate_byte(block, 0x40 | mutate_below(64));
            mutate_literal(block, MUTATE_PICK(mutate_values));
            return;
        case 3: /* :authority and content-length */
            mutate_byte(block, mutate_one_in(2) ? 0x41 : 0x5c);
            mutate_literal(block, block->bytes[block->size - 1] == 0x41 ? "test" : "3");
            return;
        default:
            mutate_byte(block, kinds[mutate_below(3)]);
            mutate_literal(block, MUTATE_PICK(mutate_names));
            mutate_literal(block, MUTATE_PICK(mutate_values));
    }
}

static void mutate_block(mutate_text_t *block, bool trailer) {
    if (MUTATE_TUNNELS && !trailer && mutate_one_in(20)) {
        const char *const fields[] = {":method",
                                      "CONNECT",
                                      ":protocol",
                                      "websocket",
                                      ":scheme",
                                      "http",
                                      ":path",
                                      MUTATE_PICK(mutate_tunnels),
                                      ":authority",
                                      "test",
                                      "sec-websocket-version",
                                      "13"};
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i += 2) {
            mutate_byte(block, 0);
            mutate_literal(block, fields[i]);
            mutate_literal(block, fields[i + 1]);
        }
        return;
    }
    while (mutate_one_in(8)) { /* size updates */
        mutate_byte(block, 0x3f);
        mutate_byte(block, 0x80 | mutate_below(128));
        mutate_byte(block, mutate_below(34));
    }
    if (!trailer && !mutate_one_in(20)) {
        mutate_byte(block, mutate_one_in(4) ? 0x83 : 0x82);
        mutate_byte(block, mutate_one_in(4) ? 0x87 : 0x86);
        if (mutate_one_in(2)) {
            mutate_byte(block, 0x84);
        } else {
            mutate_byte(block, mutate_one_in(2) ? 0x44 : 0x04);
            mutate_literal(block, MUTATE_PICK(mutate_paths));
        }
        if (!mutate_one_in(4)) {
            mutate_byte(block, 0x41);
            mutate_literal(block, "test");
        }
    }
    for (uint32_t left = mutate_below(mutate_one_in(4) ? 12 : 3); left > 0; --left) mutate_field(block);
    if (block->size > 0 && mutate_one_in(12))
        block->bytes[mutate_below((uint32_t)block->size)] ^= 1u << mutate_below(8);
}

/* --- frames --- */

typedef struct mutate_frames {
    size_t count, size;
    size_t at[MUTATE_FRAMES + 1]; /* offsets, and the end */
    uint32_t last_id;             /* of HEADERS */
} mutate_frames_t;

static size_t mutate_frame_size(const uint8_t *frame, size_t left) {
    size_t size = left < MUTATE_HEAD ? left : MUTATE_HEAD + (uvhttp__http2_get32((const char *)frame) >> 8);
    return size < left ? size : left;
}

static void mutate_parse(const uint8_t *data, size_t size, mutate_frames_t *frames) {
    *frames = (mutate_frames_t){.size = size};
    for (size_t at = 0; at < size && frames->count < MUTATE_FRAMES;) {
        const uint8_t *frame = data + at;
        frames->at[frames->count++] = at;
        at += mutate_frame_size(frame, size - at);
        frames->at[frames->count] = at;
        uint32_t id =
            at - frames->at[frames->count - 1] < MUTATE_HEAD ? 0 : uvhttp__http2_get32((const char *)frame + 5);
        if (id > frames->last_id && id < 1 << 20 && frame[3] == UVHTTP__HTTP2_HEADERS) frames->last_id = id;
    }
}

static uint32_t mutate_old_id(const mutate_frames_t *frames) {
    if (mutate_one_in(30)) return mutate_below(8);
    if (frames->last_id == 0 || mutate_one_in(40)) return frames->last_id + 1 + mutate_below(4);
    uint32_t back = mutate_one_in(2) ? 0 : mutate_below(6) * 2;
    return back < frames->last_id ? frames->last_id - back : frames->last_id;
}

static void mutate_settings(mutate_text_t *payload) {
    static const uint32_t values[] = {0, 1, 100, 4096, 16384, 65535, 65536, 0x7fffffff, 0x80000000, 16777215, 10};
    for (uint32_t left = mutate_below(4); left > 0; --left) {
        mutate_byte(payload, 0);
        mutate_byte(payload, mutate_one_in(2) ? 4 : 1 + mutate_below(10));
        mutate_number(payload, values[mutate_below(sizeof values / sizeof *values)]);
    }
}

static uint32_t mutate_increment(void) {
    static const uint32_t values[] = {1, 100, 65535, 0, 0x7fffffff, 0x7fff0000, 1 << 20};
    return values[mutate_below(sizeof values / sizeof *values)];
}

static unsigned mutate_headers(mutate_text_t *payload, bool trailer, uint32_t id) {
    unsigned flags = mutate_one_in(12) ? 0 : UVHTTP__HTTP2_FLAG_END_HEADERS;
    if (mutate_one_in(trailer ? 12 : 2) != trailer) flags |= UVHTTP__HTTP2_FLAG_END_STREAM;
    uint32_t padding = mutate_one_in(8) ? 1 + mutate_below(20) : 0;
    if (padding) {
        flags |= UVHTTP__HTTP2_FLAG_PADDED;
        mutate_byte(payload, padding - 1);
    }
    if (mutate_one_in(10)) {
        flags |= UVHTTP__HTTP2_FLAG_PRIORITY;
        mutate_number(payload, mutate_one_in(4) ? id : mutate_below(4));
        mutate_byte(payload, 15);
    }
    mutate_block(payload, trailer);
    while (padding-- > 1) mutate_byte(payload, 0);
    return flags;
}

/* For a tunnel: a frame of WebSocket, with a mask of zeros. It may begin with a command of the routes of served.h. */
static void mutate_message(mutate_text_t *payload) {
    static const char commands[] = "LPSBWERC+-()t";
    static const uint8_t firsts[] = {0x81, 0x82, 0x01, 0x80, 0x89, 0x8a, 0x88, 0xc1};
    uint32_t size = mutate_below(9);
    mutate_byte(payload, firsts[mutate_one_in(2) ? 0 : mutate_below(sizeof firsts)]);
    mutate_byte(payload, 0x80 | size);
    mutate_number(payload, 0);
    if (size > 0)
        mutate_byte(payload, mutate_one_in(2) ? 3 : (unsigned char)commands[mutate_below(sizeof commands - 1)]);
    while (size-- > 1) mutate_byte(payload, 3);
}

static unsigned mutate_data(mutate_text_t *payload) {
    unsigned flags = mutate_one_in(3) ? UVHTTP__HTTP2_FLAG_END_STREAM : 0;
    if (mutate_one_in(6)) {
        flags |= UVHTTP__HTTP2_FLAG_PADDED;
        mutate_byte(payload, mutate_below(8));
    }
    if (mutate_one_in(6)) mutate_message(payload);
    for (uint32_t left = mutate_one_in(4) ? mutate_below(600) : mutate_below(9); left > 0; --left)
        mutate_byte(payload, 'a' + left % 26);
    return flags;
}

/* Writes a frame at out, which has MUTATE_HEAD + MUTATE_PAYLOAD bytes. Returns its size. */
static size_t mutate_make_frame(const mutate_frames_t *frames, uint8_t *out) {
    static const uint8_t types[] = {1, 1, 1, 1, 0, 0, 0,  3, 4,  4,           8,          8,
                                    8, 1, 6, 7, 9, 2, 16, 5, 77, MUTATE_BODY, MUTATE_BODY};
    mutate_text_t payload = {0};
    unsigned type = types[mutate_below(sizeof types)], flags = 0;
    uint32_t id = mutate_old_id(frames);
    switch (type) {
        case UVHTTP__HTTP2_DATA: flags = mutate_data(&payload); break;
        case UVHTTP__HTTP2_HEADERS: {
            bool trailer = frames->last_id > 0 && mutate_one_in(4);
            if (!trailer) id = (frames->last_id | 1) + (frames->last_id ? 2 * (1 + mutate_one_in(10)) : 0);
            flags = mutate_headers(&payload, trailer, id);
            break;
        }
        case UVHTTP__HTTP2_CONTINUATION:
            mutate_block(&payload, true);
            flags = mutate_one_in(3) ? 0 : UVHTTP__HTTP2_FLAG_END_HEADERS;
            break;
        case UVHTTP__HTTP2_SETTINGS:
            id = 0;
            flags = mutate_one_in(3);
            if (!flags) mutate_settings(&payload);
            break;
        case UVHTTP__HTTP2_WINDOW_UPDATE:
            if (mutate_one_in(3)) id = 0;
            mutate_number(&payload, mutate_increment());
            break;
        case UVHTTP__HTTP2_RST_STREAM: mutate_number(&payload, mutate_below(15)); break;
        case UVHTTP__HTTP2_PRIORITY_FRAME:
            mutate_number(&payload, mutate_one_in(3) ? id : mutate_below(9));
            mutate_byte(&payload, 3);
            break;
        case MUTATE_BODY:
            flags = mutate_one_in(8);
            mutate_byte(&payload, mutate_below(mutate_one_in(4) ? 65 : 24));
            mutate_byte(&payload, mutate_below(256));
            break;
        case UVHTTP__HTTP2_PRIORITY_UPDATE:
            mutate_number(&payload, id);
            mutate_put(&payload, "u=1, i", mutate_below(7));
            id = 0;
            break;
        default: /* PING, GOAWAY and others */
            if (type <= UVHTTP__HTTP2_GOAWAY) id = 0;
            mutate_number(&payload, frames->last_id);
            mutate_number(&payload, mutate_below(15));
    }
    if (mutate_one_in(60) && payload.size > 0) payload.size--;
    uvhttp__http2_put_head((char *)out, payload.size, (uint8_t)type, (uint8_t)flags, id);
    memcpy(out + MUTATE_HEAD, payload.bytes, payload.size);
    return MUTATE_HEAD + payload.size;
}

/* Two servers judge a frame that is cut as soon as they like to; what the cuts do is for fuzz_http2_frames. */
static bool mutate_is_whole(const uint8_t *frame, size_t size) {
    return size >= UVHTTP__HTTP2_FRAME_HEAD_SIZE &&
           size == UVHTTP__HTTP2_FRAME_HEAD_SIZE + (uvhttp__http2_get32((const char *)frame) >> 8);
}

/* Of a stream: the last ones end our connections gracefully, before there is none left (section 5.1.1). */
static inline bool mutate_is_last_number(const uint8_t *frame, size_t size) {
    return size >= UVHTTP__HTTP2_FRAME_HEAD_SIZE && frame[3] == UVHTTP__HTTP2_HEADERS &&
           (uvhttp__http2_get32((const char *)frame + 5) & UVHTTP__HTTP2_STREAM_ID_MAX) >=
               UVHTTP__HTTP2_STREAM_ID_MAX - 256;
}

/* MUTATE_BODY stands for DATA that would make inputs too large. Returns the frame, in memory of its size. */
static char *mutate_copy_frame(const uint8_t *frame, size_t *size) {
    bool body = frame[3] == MUTATE_BODY && *size == MUTATE_HEAD + 2;
    size_t count =
        body ? ((size_t)frame[MUTATE_HEAD] << 8 | frame[MUTATE_HEAD + 1]) % (UVHTTP__HTTP2_FRAME_SIZE_MAX + 1) : 0;
    char *copy = malloc(*size + count);
    if (!copy) abort();
    memcpy(copy, frame, *size);
    if (!body) return copy;
    memset(copy + MUTATE_HEAD, 'b', count);
    uvhttp__http2_put_head(copy, count, UVHTTP__HTTP2_DATA, frame[4] & UVHTTP__HTTP2_FLAG_END_STREAM,
                           uvhttp__http2_get32(copy + 5));
    *size = MUTATE_HEAD + count;
    return copy;
}

/* Replaces data[from..to) by `frame`. Returns the size of all; unchanged, if it does not fit. */
static size_t mutate_splice(uint8_t *data, size_t size, size_t size_max, size_t from, size_t to, const uint8_t *frame,
                            size_t frame_size) {
    if (size - (to - from) + frame_size > size_max) return size;
    memmove(data + from + frame_size, data + to, size - to);
    if (frame_size > 0) memcpy(data + from, frame, frame_size);
    return size - (to - from) + frame_size;
}

static void mutate_change_head(uint8_t *frame) {
    uint32_t id = uvhttp__http2_get32((const char *)frame + 5);
    switch (mutate_below(4)) {
        case 0: frame[3] = (uint8_t)mutate_below(11); break;
        case 1: frame[4] ^= (uint8_t)(1u << mutate_below(6)); break;
        case 2: uvhttp__http2_put32((char *)frame + 5, id + 4 - mutate_below(8)); break;
        default: frame[2] ^= (uint8_t)(1u << mutate_below(8));
    }
}

static size_t mutate_payload(uint8_t *data, size_t size, size_t size_max, size_t from, size_t to) {
    uint8_t frame[MUTATE_HEAD + MUTATE_PAYLOAD];
    size_t old = to - from;
    if (old < MUTATE_HEAD || old > sizeof frame) return size;
    memcpy(frame, data + from, old);
    size_t changed = LLVMFuzzerMutate(frame + MUTATE_HEAD, old - MUTATE_HEAD, MUTATE_PAYLOAD);
    uvhttp__http2_put_head((char *)frame, changed, frame[3], frame[4], uvhttp__http2_get32((char *)frame + 5));
    return mutate_splice(data, size, size_max, from, to, frame, MUTATE_HEAD + changed);
}

static size_t mutate_once(uint8_t *data, size_t size, size_t size_max) {
    uint8_t made[MUTATE_HEAD + MUTATE_PAYLOAD];
    mutate_frames_t frames;
    mutate_parse(data, size, &frames);
    size_t at = frames.count ? mutate_below((uint32_t)frames.count) : 0, from = frames.count ? frames.at[at] : 0;
    size_t to = frames.count ? frames.at[at + 1] : 0;
    switch (frames.count ? mutate_below(12) : 0) {
        case 5: return mutate_splice(data, size, size_max, from, to, NULL, 0);
        case 6:
            if (to - from <= sizeof made) memcpy(made, data + from, to - from);
            return to - from <= sizeof made ? mutate_splice(data, size, size_max, to, to, made, to - from) : size;
        case 7:
        case 8:
            if (to - from >= MUTATE_HEAD) mutate_change_head(data + from);
            return size;
        case 9:
        case 10: return mutate_payload(data, size, size_max, from, to);
        case 11: return LLVMFuzzerMutate(data, size, size_max);
        default: break;
    }
    from = mutate_one_in(3) ? from : frames.count ? frames.at[frames.count] : 0;
    return mutate_splice(data, size, size_max, from, from, made, mutate_make_frame(&frames, made));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed) {
    mutate_state = seed;
    if (size_max < 2) return size;
    if (size == 0) data[size++] = 0;
    if (mutate_one_in(20)) data[0] = (uint8_t)mutate_below(256);
    for (uint32_t left = 1 + mutate_below(4); left > 0; --left)
        size = 1 + mutate_once(data + 1, size - 1, size_max - 1);
    return size;
}

#endif
