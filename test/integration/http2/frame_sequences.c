/* Owns: sequences of HTTP/2 frames from seeds, and what our core makes of each frame, for another server that gets the
 * same (test_http2_oracle.py). Arguments: the first seed, how many. Of each sequence it writes lines:
 *   sequence SEED RULES STREAM_WINDOW CONNECTION_WINDOW
 *   frame HEX               in front of the first: the preface
 *   log KIND STREAM VALUE   for it, each
 *   head CODE               why our core has refused its header block; 0: it has not
 *   windows SEND RECEIVE    of the connection behind it
 *   stream ID SEND RECEIVE  of each that is open in this direction; "-" if it is not
 * A sequence ends with the connection, or behind some frames. */
#include <inttypes.h>
#include <stdio.h>

#include "http2_mutate.h"
#include "http2_ours.h"

/* Payloads are not mutated here: each sequence is new. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max) {
    (void)data, (void)size_max;
    return size;
}

static void print_frame(const char *frame, size_t size) {
    printf("frame ");
    for (size_t i = 0; i < size; ++i) printf("%02x", (uint8_t)frame[i]);
    putchar('\n');
}

static void print_window(bool open, int32_t window) {
    if (open)
        printf(" %" PRId32, window);
    else
        printf(" -");
}

static void print_stream(uvhttp__http2_stream_t *stream, void *arg) {
    (void)arg;
    if (stream->flags & UVHTTP__HTTP2_RESET) return;
    printf("stream %" PRIu32, stream->id);
    print_window(!(stream->flags & UVHTTP__HTTP2_LOCAL_ENDED), stream->send_window);
    print_window(!(stream->flags & UVHTTP__HTTP2_REMOTE_ENDED), stream->receive_window);
    putchar('\n');
}

/* Returns whether the connection continues in a way that can be compared. */
static bool step(ours_t *ours, const char *frame, size_t size) {
    print_frame(frame, size);
    ours_step(ours, frame, size);
    for (unsigned i = 0; i < ours->side.log.count; ++i) {
        const log_entry_t *entry = &ours->side.log.entries[i];
        printf("log %d %" PRIu32 " %" PRIu64 "\n", entry->kind, entry->stream, entry->value);
    }
    printf("head %d\n", ours->head_code);
    ours->side.log.count = 0;
    ours->head_code = 0;
    if (ours->http2.phase == UVHTTP__HTTP2_FAILED) return false;
    printf("windows %" PRId32 " %" PRId32 "\n", ours->http2.send_window, ours->http2.receive_window);
    uvhttp__http2_each_stream(&ours->http2, print_stream, NULL);
    return !ours->unlike && !uvhttp__http2_done(&ours->http2);
}

static bool start(ours_t *ours) {
    static const char begin[] = UVHTTP__HTTP2_PREFACE "\0\0\0\4\0\0\0\0";
    static const char ack[] = "\0\0\0\4\1\0\0\0";
    return step(ours, begin, sizeof begin) && (!has_small_windows(ours->rules) || step(ours, ack, sizeof ack));
}

/* Whether it is likely to end the connection. */
static bool is_rash(const ours_t *ours, const uint8_t *frame) {
    uint32_t id = uvhttp__http2_get32((const char *)frame + 5), last_id = ours->http2.last_stream_id;
    uint32_t number = uvhttp__http2_get32((const char *)frame + MUTATE_HEAD);
    bool idle = id > last_id || !(id & 1);
    if ((frame[3] == UVHTTP__HTTP2_CONTINUATION) != (ours->http2.block_stream_id != 0)) return true;
    switch (frame[3]) {
        case UVHTTP__HTTP2_CONTINUATION: return id != ours->http2.block_stream_id;
        case UVHTTP__HTTP2_HEADERS: return !(id & 1);
        case UVHTTP__HTTP2_DATA:
        case UVHTTP__HTTP2_RST_STREAM:
        case MUTATE_BODY: return idle;
        case UVHTTP__HTTP2_WINDOW_UPDATE: return (id != 0 && idle) || number == 0 || number >= 1 << 24;
        case UVHTTP__HTTP2_PUSH_PROMISE:
        case UVHTTP__HTTP2_GOAWAY: return true;
        case UVHTTP__HTTP2_SETTINGS: return mutate_one_in(2);
        default: return false;
    }
}

/* Mostly what a client may send, so that sequences get far; some frames have a head that was changed. */
static bool add_frame(ours_t *ours, mutate_frames_t *frames) {
    uint8_t made[MUTATE_HEAD + MUTATE_PAYLOAD] = {0};
    bool may_be_rash = mutate_one_in(30);
    size_t size;
    do size = mutate_make_frame(frames, made);
    while (!may_be_rash && is_rash(ours, made));
    if (mutate_one_in(40)) mutate_change_head(made);
    if (!mutate_is_whole(made, size) || mutate_is_last_number(made, size)) return true;
    uint32_t id = uvhttp__http2_get32((const char *)made + 5);
    if (made[3] == UVHTTP__HTTP2_HEADERS && id > frames->last_id && id < 1 << 20) frames->last_id = id;
    char *frame = mutate_copy_frame(made, &size);
    bool goes_on = step(ours, frame, size);
    free(frame);
    return goes_on;
}

static void run(uint64_t seed) {
    static ours_t ours;
    mutate_frames_t frames = {0};
    mutate_state = seed * UINT64_C(0x9e3779b97f4a7c15);
    ours_init(&ours, (uint8_t)mutate_below(256));
    printf("sequence %" PRIu64 " %u %" PRIu32 " %" PRIu32 "\n", seed, ours.rules, ours.limits.stream_window,
           ours.limits.connection_window);
    ours_flush(&ours); /* our SETTINGS and window */
    ours.side.log.count = 0;
    bool goes_on = start(&ours);
    for (uint32_t left = 1 + mutate_below(60); goes_on && left > 0; --left) goes_on = add_frame(&ours, &frames);
    ours_deinit(&ours);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    for (uint64_t i = 0; i < count; ++i) run(first + i);
    return 0;
}
