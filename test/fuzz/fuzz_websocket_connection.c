/* Owns: fuzzing of a whole WebSocket connection (libFuzzer): a handshake, frames of a client, what the server sends.
 * The frames are sent at once and, to the other backend, in parts. What comes back has to be frames as RFC 6455 has
 * them, with the messages that the handlers have sent, all of them if the connection is closed in order; both times the
 * same, unless time passes between the parts or memory is scarce. Input: a byte for the route, the number of cuts and
 * the head, one for the offer of compression, the backend that meets the parts, scarcity and that time, another if
 * memory is scarce: see memory_choose(), the places of the cuts, then frames: see put_frame(). With two cuts it reads
 * only when the server accepts nothing more. */
/* Needs: compression forms middleware static websocket. */
#include <zlib.h>

#include "base/str.h"
#include "base/utf8.h"
#include "served.h"
#include "websocket/frame.h"

enum {
    CUTS_MAX = 3,
    REQUEST_MAX = 1 << 19,
    PAYLOAD_MAX = 40000,
    FRAMES_MAX = 64,
    MESSAGE_MAX = 1 << 20,
    BY_EPOLL = 32
};

static const char *const offers[] = {
    NULL,
    "permessage-deflate",
    "permessage-deflate; client_no_context_takeover",
    "permessage-deflate; server_no_context_takeover",
    "permessage-deflate; server_max_window_bits=9; client_max_window_bits",
    "permessage-deflate; client_max_window_bits=10",
    "x-none, permessage-deflate; server_max_window_bits=\"12\"",
    "permessage-deflate; server_max_window_bits=8, permessage-deflate",
};

/* --- the client's bytes --- */

typedef struct request {
    const uint8_t *in;
    size_t left;
    char bytes[REQUEST_MAX];
    size_t size;
    z_stream deflater;
} request_t;

static uint8_t take(request_t *request) {
    if (request->left == 0) return 0;
    request->left--;
    return *request->in++;
}

static void put(request_t *request, const void *data, size_t size) {
    if (size > sizeof request->bytes - request->size) return;
    memcpy(request->bytes + request->size, data, size);
    request->size += size;
}

static size_t take_payload(request_t *request, char *payload) {
    size_t size = take(request);
    if (size == 255) { /* a large one, for which the input has a byte */
        memset(payload, take(request), PAYLOAD_MAX);
        payload[0] = (char)take(request);
        return PAYLOAD_MAX;
    }
    if (size > request->left) size = request->left;
    memcpy(payload, request->in, size);
    request->in += size;
    request->left -= size;
    return size;
}

static size_t deflated(request_t *request, char *payload, size_t size, bool fin) {
    static char packed[PAYLOAD_MAX + 1000];
    request->deflater.next_in = (Bytef *)payload;
    request->deflater.avail_in = (unsigned)size;
    request->deflater.next_out = (Bytef *)packed;
    request->deflater.avail_out = sizeof packed;
    (void)deflate(&request->deflater, Z_SYNC_FLUSH);
    size = sizeof packed - request->deflater.avail_out;
    if (fin && size >= 4) size -= 4;
    if (size > PAYLOAD_MAX) size = PAYLOAD_MAX;
    memcpy(payload, packed, size);
    return size;
}

/* A byte: the opcode; 0x80: the message continues; 0x40: compress; 0x20: another byte says what is wrong with the head
 * (reserved bits, no mask, not the shortest length); 0x10: the payload stands alone. Then the payload, its size in
 * front. */
static void put_frame(request_t *request) {
    static const uint8_t key[4] = {0x12, 0xab, 0x00, 0xff};
    static char payload[PAYLOAD_MAX];
    uint8_t how = take(request), wrong = how & 0x20 ? take(request) : 0, opcode = how & 15;
    bool fin = !(how & 0x80);
    size_t size = take_payload(request, payload);
    if (how & 0x40) size = deflated(request, payload, size, fin);
    if (how & 0x10) {
        put(request, payload, size);
        return;
    }
    if (how & 0x40 && opcode != UVHTTP__WS_CONTINUATION) opcode |= UVHTTP__WS_COMPRESSED;
    char head[UVHTTP__WS_SERVER_HEAD_MAX];
    size_t head_size = uvhttp__ws_write_head(head, fin, opcode ^ (wrong & 0x70), size);
    head[1] = (char)(head[1] | (wrong & 1 ? 0 : 0x80));
    if (wrong & 2) head[1] = (char)(head[1] ^ (wrong & 0x0c));
    put(request, head, head_size);
    if (!(wrong & 1)) put(request, key, sizeof key);
    uvhttp__ws_mask(payload, size, key, 0);
    put(request, payload, size);
}

typedef struct head {
    const char *version, *other;
    const char *status; /* of the response */
} head_t;

static const head_t *head_of(unsigned bits) {
    static const head_t heads[] = {{"13", "", "101"},
                                   {"13", "Origin: http://a\r\n", "101"},
                                   {"13", "Origin: http://b\r\n", "403"},
                                   {"13", "Origin: http://a\r\nOrigin: http://a\r\n", "403"},
                                   {"13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "400"},
                                   {"12", "", "426"}};
    return &heads[bits < sizeof heads / sizeof *heads ? bits : 0];
}

static void put_handshake(request_t *request, char route, const char *offer, const head_t *head) {
    char text[512];
    int size = snprintf(text, sizeof text,
                        "GET /%c HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: %s\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                        "Sec-WebSocket-Protocol: none, chat\r\n%s%s%s%s\r\n",
                        route, head->version, head->other, offer ? "Sec-WebSocket-Extensions: " : "",
                        offer ? offer : "", offer ? "\r\n" : "");
    put(request, text, (size_t)size);
}

/* --- what comes back --- */

/* Digests are compared as memory. */
typedef struct digest {
    uint32_t count, code, sent_code, reset;
    served_message_t messages[SERVED_MESSAGES_MAX];
} digest_t;

typedef struct reader {
    const char *at, *end;
    bool compresses;
    z_stream inflater;
    char message[MESSAGE_MAX];
    size_t size;
    uint8_t opcode; /* of the message that is not complete; 0: none */
    bool compressed;
} reader_t;

static void check_handshake(reader_t *reader, bool offered) {
    const char *head_end = memmem(reader->at, (size_t)(reader->end - reader->at), "\r\n\r\n", 4);
    if (!head_end || strncmp(reader->at, "HTTP/1.1 101 ", 13) != 0) die("no handshake");
    size_t size = (size_t)(head_end - reader->at);
    if (!memmem(reader->at, size, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 28)) die("another key");
    reader->compresses = memmem(reader->at, size, "permessage-deflate", 18) != NULL;
    if (reader->compresses && !offered) die("compression that was not offered");
    reader->at = head_end + 4;
}

static void inflate_message(reader_t *reader) {
    static char packed[MESSAGE_MAX];
    memcpy(packed, reader->message, reader->size);
    memcpy(packed + reader->size, "\0\0\xff\xff", 4);
    reader->inflater.next_in = (Bytef *)packed;
    reader->inflater.avail_in = (unsigned)reader->size + 4;
    reader->inflater.next_out = (Bytef *)reader->message;
    reader->inflater.avail_out = sizeof reader->message;
    int status = inflate(&reader->inflater, Z_SYNC_FLUSH);
    if (status != Z_OK || reader->inflater.avail_in > 0) die("a message that does not inflate");
    reader->size = sizeof reader->message - reader->inflater.avail_out;
}

static void end_message(reader_t *reader, digest_t *digest) {
    if (reader->compressed) inflate_message(reader);
    if (reader->opcode == UVHTTP__WS_TEXT && !uvhttp__utf8_valid(reader->message, reader->size))
        die("text that is not UTF-8");
    if (digest->count < SERVED_MESSAGES_MAX)
        digest->messages[digest->count++] =
            (served_message_t){served_hash(0, reader->message, reader->size), (uint32_t)reader->size, reader->opcode};
    reader->opcode = 0;
}

static void read_data(reader_t *reader, digest_t *digest, uint8_t first, const char *payload, size_t size) {
    uint8_t opcode = first & 15;
    if ((opcode == UVHTTP__WS_CONTINUATION) != (reader->opcode != 0)) die("a message inside of another");
    if (opcode != UVHTTP__WS_CONTINUATION) {
        if (opcode > UVHTTP__WS_BINARY) die("an unknown opcode");
        reader->opcode = opcode;
        reader->compressed = first & UVHTTP__WS_COMPRESSED;
        reader->size = 0;
    } else if (first & UVHTTP__WS_COMPRESSED) {
        die("RSV1 within a message");
    }
    if (reader->compressed && !reader->compresses) die("compression that was not agreed on");
    if (size > sizeof reader->message - reader->size - 4) die("a message that is too large");
    memcpy(reader->message + reader->size, payload, size);
    reader->size += size;
    if (first & 0x80) end_message(reader, digest);
}

static void read_control(digest_t *digest, uint8_t first, const char *payload, size_t size) {
    if (!(first & 0x80) || first & UVHTTP__WS_COMPRESSED || size > UVHTTP__WS_CONTROL_SIZE_MAX)
        die("a control frame that is none");
    if ((first & 15) == UVHTTP__WS_CLOSE) {
        uint16_t code;
        uvhttp_str_t reason;
        if (uvhttp__ws_read_close(payload, size, &code, &reason) != UVHTTP_OK) die("a wrong close frame");
        digest->sent_code = code;
    } else if ((first & 15) > UVHTTP__WS_PONG) {
        die("an unknown control frame");
    }
}

/* False: what is left is not a whole frame. */
static bool read_frame(reader_t *reader, digest_t *digest) {
    size_t left = (size_t)(reader->end - reader->at);
    const uint8_t *head = (const uint8_t *)reader->at;
    if (left < 2) return false;
    if (head[1] & 0x80) die("a masked frame");
    if (head[0] & 0x30) die("reserved bits");
    uint64_t size = head[1];
    size_t head_size = 2;
    if (size >= 126) {
        head_size = size == 126 ? 4 : 10;
        if (left < head_size) return false;
        size = 0;
        for (size_t i = 2; i < head_size; i++) size = size << 8 | head[i];
        if (size < (head_size == 4 ? 126 : 65536)) die("not the shortest length");
    }
    if (left - head_size < size) return false;
    if (digest->sent_code != 0) die("a frame behind the close frame");
    if ((head[0] & 15) >= UVHTTP__WS_CLOSE)
        read_control(digest, head[0], reader->at + head_size, size);
    else
        read_data(reader, digest, head[0], reader->at + head_size, size);
    reader->at += head_size + size;
    return true;
}

/* The handlers' messages in their order; publications are not counted here. */
static void expect_sent(const digest_t *digest, char route) {
    if (route == 'z' || route == 'v' || talk.referred) return;
    size_t count = talk.streams ? talk.held : talk.count;
    if (digest->count > count) die("more messages than were sent");
    if (digest->sent_code != 0 && digest->count != count) die("closed in order, and a message is missing");
    if (memcmp(digest->messages, talk.messages, digest->count * sizeof *digest->messages) != 0) die("another message");
}

static bool has_status(const played_t *played, const char *status) {
    static const char line[] = "HTTP/1.1 ";
    size_t size = sizeof line - 1;
    return played->size >= size + 3 && memcmp(played->data, line, size) == 0 &&
           memcmp(played->data + size, status, 3) == 0;
}

static void read_all(const played_t *played, char route, bool offered, const char *status, digest_t *digest) {
    static reader_t reader;
    memset(digest, 0, sizeof *digest);
    reader = (reader_t){.at = played->data, .end = played->data + played->size};
    digest->code = (uint32_t)talk.code;
    digest->reset = played->reset;
    if (played->reset && played->size == 0) return;
    if ((served_step_ns > 0 || scarcity.failed) && !has_status(played, status)) return; /* no head, or a late one */
    if (strcmp(status, "101") != 0) {
        if (!has_status(played, status)) die("another status");
        if (talk.opened > 0) die("upgraded although it is refused");
        return;
    }
    if (inflateInit2(&reader.inflater, -MAX_WBITS) != Z_OK) die("no memory");
    check_handshake(&reader, offered);
    while (read_frame(&reader, digest)) {
    }
    (void)inflateEnd(&reader.inflater);
    /* On a Unix socket a reset, for a client that is too slow or want of memory, looks like an end. */
    bool cut = played->reset || served_step_ns > 0 || scarcity.failed;
    if (reader.at != reader.end && !cut) die("a frame is not whole");
    if (!played->reset) expect_sent(digest, route);
}

/* --- both --- */

/* What the client says may come in the first send, with the handshake. */
static void play(const request_t *request, const uint8_t *cuts, size_t cut_count, char route, bool offered,
                 const char *status, backend_t backend, digest_t *digest) {
    static char memory[SERVED_OUTPUT_MAX];
    played_t played = served_play(request->bytes, request->size, cuts, cut_count, cut_count == 2, memory, backend);
    read_all(&played, route, offered, status, digest);
    served_expect_service(memory, backend);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    static request_t request;
    static digest_t whole, pieces;
    if (input_size < 2) return 0;
    char route = (char)("wxyzwxyv"[(input[0] & 3) | (input[0] >> 2 & 4)]);
    const head_t *head = head_of(input[0] >> 5);
    size_t cut_count = input[0] >> 2 & CUTS_MAX;
    const char *offer = offers[input[1] & 7];
    unsigned scarce = input[1] >> 3 & 3;
    size_t cuts_at = scarce ? 3 : 2;
    if (input_size < cuts_at + cut_count) return 0;
    request = (request_t){.in = input + cuts_at + cut_count, .left = input_size - cuts_at - cut_count};
    if (deflateInit2(&request.deflater, 1, Z_DEFLATED, -MAX_WBITS, 1, Z_DEFAULT_STRATEGY) != Z_OK) die("no memory");
    put_handshake(&request, route, offer, head);
    for (int i = 0; i < FRAMES_MAX && request.left > 0; i++) put_frame(&request);
    (void)deflateEnd(&request.deflater);
    served_choose_step(0);
    memory_choose(0, 0);
    play(&request, NULL, 0, route, offer != NULL, head->status, SERVED_BY_EPOLL, &whole);
    served_choose_step(input[1] >> 6);
    memory_choose(scarce, input[cuts_at - 1]);
    bool varies = talk.varies || served_step_ns > 0 || scarce;
    backend_t backend = input[1] & BY_EPOLL ? SERVED_BY_EPOLL : SERVED_BY_IO_URING;
    play(&request, input + cuts_at, cut_count, route, offer != NULL, head->status, backend, &pieces);
    if (!varies && !whole.reset && !pieces.reset && memcmp(&whole, &pieces, sizeof whole) != 0)
        die("in parts the messages are other ones");
    return 0;
}
