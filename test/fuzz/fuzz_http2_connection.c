/* Owns: fuzzing of a whole connection of HTTP/2 (libFuzzer): a server in this thread, frames of a client, and what
 * comes back, which must be frames that the client may receive: each response once, whole, and within the windows that
 * the client has opened. Input: a byte that says how the client sends, reads and ends, whether time passes, and
 * whether memory is scarce, another if it is: see memory_choose(); frames behind preface and SETTINGS. */
/* Needs: forms middleware static websocket. */
#include <nghttp2/nghttp2.h>

#define MUTATE_TUNNELS true
#include "http2_mutate.h"
#include "served.h"

enum { STREAMS_MAX = 512, FIRST_WINDOW = 65535 };

/* --- what the client has sent --- */

/* The most that the server may send: windows are never smaller than this counts, whatever the server has read. */
static struct { uint64_t connection, stream, streams[STREAMS_MAX]; } windows;

static uint64_t *window_of(uint32_t id) {
    return id == 0 ? &windows.connection : id / 2 < STREAMS_MAX ? &windows.streams[id / 2] : NULL;
}

static void note_sent(const char *frame, size_t size) {
    if (size < MUTATE_HEAD) return;
    const char *payload = frame + MUTATE_HEAD;
    size_t left = size - MUTATE_HEAD;
    uint64_t *window = window_of(uvhttp__http2_get32(frame + 5) & UVHTTP__HTTP2_STREAM_ID_MAX);
    if (frame[3] == UVHTTP__HTTP2_WINDOW_UPDATE && left >= 4 && window)
        *window += uvhttp__http2_get32(payload) & UVHTTP__HTTP2_STREAM_ID_MAX;
    if (frame[3] != UVHTTP__HTTP2_SETTINGS) return;
    for (; left >= 6; left -= 6, payload += 6) {
        uint32_t value = uvhttp__http2_get32(payload + 2);
        if (payload[0] == 0 && payload[1] == 4 && value > windows.stream) windows.stream = value;
    }
}

/* --- what it receives --- */

/* A stream, as the server's frames show it. */
typedef struct stream {
    bool has_head, over;
    int64_t length; /* -1: not known */
    uint64_t received;
} stream_t;

typedef struct reader {
    nghttp2_hd_inflater *inflater;
    stream_t streams[STREAMS_MAX];
    uint64_t received;
} reader_t;

/* stream: NULL if its number is so large that it is only decoded. */
static void read_block(reader_t *reader, stream_t *stream, const uint8_t *data, size_t size) {
    int status = 0, flags = 0;
    for (bool first = true; !(flags & NGHTTP2_HD_INFLATE_FINAL); first = false) {
        nghttp2_nv field;
        flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(reader->inflater, &field, &flags, data, size, 1);
        if (used < 0) die("a header block cannot be decoded");
        data += used;
        size -= (size_t)used;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT) || !stream) continue;
        bool is_status = field.namelen == 7 && memcmp(field.name, ":status", 7) == 0;
        if (is_status != (first && !stream->has_head)) die("a status where none may be, or none where it has to be");
        if (is_status) status = atoi((const char *)field.value);
        if (field.namelen == 14 && memcmp(field.name, "content-length", 14) == 0)
            stream->length = atoll((const char *)field.value);
    }
    nghttp2_hd_inflate_end_headers(reader->inflater);
    if (!stream) return;
    if (!stream->has_head && (status < 100 || status > 599)) die("no status");
    stream->has_head |= status >= 200;
}

static void read_data(stream_t *stream, uint32_t id, size_t size) {
    if (!stream->has_head || stream->over) die("DATA before or behind its stream");
    stream->received += size;
    if (stream->received > windows.stream + *window_of(id)) die("more than the window of the stream");
}

static void end_stream(stream_t *stream) {
    if (!stream->has_head) die("an interim response ends a stream");
    if (stream->length >= 0 && stream->received > 0 && stream->received != (uint64_t)stream->length)
        die("a body has another size than its content-length");
    stream->over = true;
}

/* Returns the size of the frame at data; 0: it is not whole. */
static size_t read_frame(reader_t *reader, const char *data, size_t size) {
    if (size < MUTATE_HEAD) return 0;
    size_t payload = uvhttp__http2_get32(data) >> 8;
    if (payload > UVHTTP__HTTP2_FRAME_SIZE_MAX) die("a frame is too large");
    if (size - MUTATE_HEAD < payload) return 0;
    uint32_t id = uvhttp__http2_get32(data + 5);
    uint8_t type = (uint8_t)data[3], flags = (uint8_t)data[4];
    stream_t *stream = id % 2 == 1 && id / 2 < STREAMS_MAX ? &reader->streams[id / 2] : NULL;
    bool end = flags & UVHTTP__HTTP2_FLAG_END_STREAM;
    switch (type) {
        case UVHTTP__HTTP2_HEADERS:
            if (id % 2 == 0) die("a response to no request");
            if (stream && (stream->over || (stream->has_head && !end))) die("HEADERS in the middle or behind the end");
            if ((flags & ~UVHTTP__HTTP2_FLAG_END_STREAM) != UVHTTP__HTTP2_FLAG_END_HEADERS)
                die("our heads have one frame, without padding and priority");
            read_block(reader, stream, (const uint8_t *)data + MUTATE_HEAD, payload);
            break;
        case UVHTTP__HTTP2_DATA:
            if (stream) read_data(stream, id, payload);
            reader->received += payload;
            if (reader->received > windows.connection) die("more than the window of the connection");
            break;
        case UVHTTP__HTTP2_RST_STREAM:
            if (stream) stream->over = true;
            break;
        case UVHTTP__HTTP2_CONTINUATION: die("our heads have one frame");
        case UVHTTP__HTTP2_PUSH_PROMISE: die("a push");
        default: break;
    }
    if (stream && end && (type == UVHTTP__HTTP2_HEADERS || type == UVHTTP__HTTP2_DATA)) end_stream(stream);
    return MUTATE_HEAD + payload;
}

static void read_all(const played_t *played) {
    static reader_t reader;
    memset(&reader, 0, sizeof reader);
    for (size_t i = 0; i < STREAMS_MAX; i++) reader.streams[i].length = -1;
    if (nghttp2_hd_inflate_new(&reader.inflater) != 0) die("no memory");
    for (size_t at = 0, size; at < played->size; at += size) {
        if (at == 0 && played->size >= MUTATE_HEAD && played->data[3] != UVHTTP__HTTP2_SETTINGS) die("no SETTINGS");
        size = read_frame(&reader, played->data + at, played->size - at);
        if (size == 0) break; /* it has been cut */
    }
    nghttp2_hd_inflate_del(reader.inflater);
}

/* --- a connection --- */

enum { AT_ONCE = 1, ENDS_BY_FIN = 2, BY_IO_URING = 4, SLOW = 8, STEP = 16, SCARCE = 64 }; /* of the first byte */

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    static char memory[SERVED_OUTPUT_MAX], bytes[1 << 20];
    unsigned how = input_size > 0 ? input[0] : 0;
    size_t begin = how / SCARCE > 0 ? 2 : 1;
    if (input_size < begin) return 0;
    backend_t backend = how & BY_IO_URING ? SERVED_BY_IO_URING : SERVED_BY_EPOLL;
    memory_choose(how / SCARCE, input[begin - 1]);
    input += begin;
    memset(&windows, 0, sizeof windows);
    windows.connection = windows.stream = FIRST_WINDOW;
    mutate_frames_t frames;
    mutate_parse(input, input_size - begin, &frames);
    played_t played;
    served_connect(&played, memory, backend);
    played.slow = how & SLOW;
    served_choose_step(how / STEP);
    bool open = served_give(&played, preface, sizeof preface);
    size_t kept = 0;
    for (size_t i = 0; open && i < frames.count; i++) {
        size_t size = frames.at[i + 1] - frames.at[i];
        char *frame =
            mutate_is_whole(input + frames.at[i], size) ? mutate_copy_frame(input + frames.at[i], &size) : NULL;
        const char *data = frame ? frame : (const char *)input + frames.at[i];
        note_sent(data, size);
        if (!(how & AT_ONCE)) {
            open = served_wait(&played) && served_give(&played, data, size);
        } else if (size <= sizeof bytes - kept) {
            memcpy(bytes + kept, data, size);
            kept += size;
        }
        free(frame);
    }
    if (open && kept > 0) open = served_give(&played, bytes, kept);
    if (open && how & ENDS_BY_FIN) served_end(&played);
    served_close(&played);
    read_all(&played);
    served_expect_service(memory, backend);
    return 0;
}
