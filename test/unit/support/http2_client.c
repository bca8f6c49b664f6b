#include "support/http2_client.h"

static void put(h2_out_t *out, const void *data, size_t size) {
    assert_true(size <= sizeof out->data - out->size);
    if (size > 0) memcpy(out->data + out->size, data, size);
    out->size += size;
}

static void put32(unsigned char *at, uint32_t value) {
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

uint32_t h2_get32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void h2_put_frame(h2_out_t *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t size) {
    unsigned char head[9];
    put32(head, (uint32_t)size << 8 | type);
    head[4] = flags;
    put32(head + 5, stream);
    put(out, head, sizeof head);
    put(out, payload, size);
}

void h2_put_preface(h2_out_t *out) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    put(out, preface, sizeof preface - 1);
    h2_put_frame(out, H2_SETTINGS, 0, 0, NULL, 0);
}

void h2_put_request(h2_out_t *out, uint32_t stream, bool post, const char *path, bool end) {
    size_t size = strlen(path), at = 0;
    char block[512];
    assert_true(size < 120);
    block[at++] = (char)(post ? 0x83 : 0x82); /* :method */
    block[at++] = (char)0x86;                 /* :scheme http */
    block[at++] = 0x44;                       /* :path, to the table */
    block[at++] = (char)size;
    memcpy(block + at, path, size);
    at += size;
    memcpy(block + at, "\x41\x01\x61", 3); /* :authority: a */
    at += 3;
    h2_put_frame(out, H2_HEADERS, (uint8_t)(H2_END_HEADERS | (end ? H2_END_STREAM : 0)), stream, block, at);
}

size_t h2_put_field(char *block, size_t at, const char *name, const char *value) {
    const char *const texts[] = {name, value};
    block[at++] = 0;
    for (int i = 0; i < 2; i++) {
        size_t size = strlen(texts[i]);
        block[at++] = (char)size;
        memcpy(block + at, texts[i], size);
        at += size;
    }
    return at;
}

void h2_put_window(h2_out_t *out, uint32_t stream, uint32_t size) {
    unsigned char payload[4];
    put32(payload, size);
    h2_put_frame(out, H2_WINDOW_UPDATE, 0, stream, payload, sizeof payload);
}

void h2_put_setting(h2_out_t *out, uint16_t name, uint32_t value) {
    unsigned char payload[6] = {(unsigned char)(name >> 8), (unsigned char)name};
    put32(payload + 2, value);
    h2_put_frame(out, H2_SETTINGS, 0, 0, payload, sizeof payload);
}

/* Returns false at the end. */
static bool receive(int fd, void *data, size_t size) {
    char *at = data;
    while (size > 0) {
        ssize_t got = client_receive_some(fd, at, size);
        if (got <= 0) return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

bool h2_read(int fd, h2_frame_t *frame) {
    unsigned char head[9];
    if (!receive(fd, head, sizeof head)) return false;
    uint32_t first = h2_get32(head);
    frame->size = first >> 8;
    frame->type = (uint8_t)first;
    frame->flags = head[4];
    frame->stream = h2_get32(head + 5);
    assert_true(frame->size <= 16384);
    return receive(fd, frame->payload, frame->size);
}

void h2_expect(int fd, uint8_t type, uint32_t stream, h2_frame_t *frame) {
    do {
        assert_true(h2_read(fd, frame));
    } while (frame->type != type || (stream != UINT32_MAX && frame->stream != stream));
}
