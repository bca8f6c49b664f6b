/* Owns: fuzzing of a whole connection (libFuzzer): a server in this thread, bytes of a client, what it responds. The
 * bytes are sent at once and, to the other backend, in parts: both times every response has to be complete, and the
 * responses have to be the same but for their dates, unless time passes between the parts or memory is scarce. Input: a
 * byte for the number of cuts, the backend that meets the parts, scarcity and that time, another if memory is scarce:
 * see memory_choose(), bytes for the places, what the client sends. With an odd number of cuts it reads only when the
 * server accepts nothing more. */
/* Needs: forms middleware static websocket. */
#include "base/str.h"
#include "http1/response_read.h"
#include "served.h"

enum { CUTS_MAX = 8, SCARCE = 3, BY_EPOLL = 4, STEP = 64 }; /* of the first byte */

/* --- what has to hold --- */

/* A client that ends its connection instead of sending its body gets no response after this. */
static bool is_continue(const char *data, size_t size) {
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    return size == sizeof line - 1 && memcmp(data, line, size) == 0;
}

/* What a client makes of all responses: of each its head and its body, decoded, as a hash; of frames behind 101 the
 * bytes. */
typedef struct digest {
    uint32_t reset, cut; /* of a size that leaves no padding: digests are compared as memory */
    size_t count;
    uint64_t hashes[SERVED_REQUESTS_MAX + 1];
} digest_t;

/* But for the date, what is said of the connection, and a random boundary. True: the body has that boundary. */
static bool hash_head(uint64_t *value, const uvhttp__http1_response_t *response) {
    uvhttp_str_t lines = uvhttp__http1_response_lines(response), name, field;
    *value = served_hash(*value, (const char *)&response->head.status, sizeof response->head.status);
    bool random = false;
    while (uvhttp__http1_response_field(&lines, &name, &field)) {
        uvhttp_str_t parts = UVHTTP__STR("multipart/byteranges");
        if (field.size > parts.size && memcmp(field.data, parts.data, parts.size) == 0) {
            random = true;
        } else if (!uvhttp__str_equal_nocase(name, UVHTTP__STR("date")) &&
                   !uvhttp__str_equal_nocase(name, UVHTTP__STR("connection"))) {
            *value = served_hash(*value, name.data, name.size);
            *value = served_hash(*value, field.data, field.size);
        }
    }
    return random;
}

/* Reads one response at data. Returns its size; 0: it is not whole. */
static size_t read_one(const char *data, size_t size, bool to_head, uint64_t *value, bool *upgraded) {
    uvhttp__http1_response_t response;
    uvhttp__http1_response_init(&response, 65536, NULL);
    uvhttp__http1_response_begin(&response, to_head);
    size_t at = 0;
    int status;
    bool has_head = false, random = false;
    do {
        size_t consumed;
        uvhttp_str_t body;
        status = uvhttp__http1_response_feed(&response, data + at, size - at, &consumed, &body);
        at += consumed;
        if (!has_head && uvhttp__http1_response_has_head(&response)) {
            has_head = true;
            random = hash_head(value, &response);
        }
        if (!random) *value = served_hash(*value, body.data, body.size);
    } while (status == UVHTTP_E_AGAIN && at < size);
    if (status == UVHTTP_E_AGAIN) status = uvhttp__http1_response_end(&response);
    *upgraded = status == UVHTTP_OK && response.head.status == 101;
    uvhttp__http1_response_deinit(&response);
    return status == UVHTTP_OK ? at : 0;
}

/* Responses follow each other without a byte between them. The last one is complete, unless its handler began it before
 * it had the body, which was faulty. */
static digest_t read_all(const played_t *played) {
    digest_t digest = {0};
    size_t at = 0;
    while (at < played->size && !is_continue(played->data + at, played->size - at)) {
        size_t i = digest.count;
        bool upgraded = false;
        size_t size = read_one(played->data + at, played->size - at, i < asked.count && asked.head[i],
                               &digest.hashes[i], &upgraded);
        if (size == 0) digest.hashes[i] = 0;                       /* how much of it there is depends on the moment */
        if (size == 0 && (asked.cut || served_step_ns > 0)) break; /* or its client was too slow */
        if (size == 0) die("a response is not whole");
        if (i >= asked.count && asked.count < SERVED_REQUESTS_MAX) die("more responses than requests");
        if (i >= SERVED_REQUESTS_MAX) break;
        digest.count++;
        at += size;
        if (!upgraded) continue;
        if (!talk.varies) digest.hashes[digest.count] = served_hash(0, played->data + at, played->size - at);
        digest.count++;
        break;
    }
    return digest;
}

static digest_t play_and_read(const char *data, size_t size, const uint8_t *cuts, size_t cut_count, backend_t backend) {
    static char memory[SERVED_OUTPUT_MAX];
    played_t played = served_play(data, size, cuts, cut_count, cut_count % 2 == 1, memory, backend);
    digest_t digest = {0};
    bool reset = played.reset || talk.reset; /* of a Unix socket it looks like an end */
    if (!reset && !scarcity.failed) digest = read_all(&played);
    digest.reset = reset;
    digest.cut = asked.cut;
    served_expect_service(memory, backend);
    return digest;
}

static bool are_equal(const digest_t *one, const digest_t *other) {
    return one->reset || other->reset || memcmp(one, other, sizeof *one) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 1) return 0;
    unsigned how = input[0] % STEP / (CUTS_MAX + 1), scarce = how & SCARCE;
    size_t cut_count = input[0] % STEP % (CUTS_MAX + 1), cuts_at = scarce ? 2 : 1;
    if (input_size < cuts_at + cut_count) return 0;
    const char *data = (const char *)input + cuts_at + cut_count;
    size_t size = input_size - cuts_at - cut_count;
    if (size >= 3 && memcmp(data, "PRI", 3) == 0) return 0; /* HTTP/2 has targets of its own */
    served_choose_step(0);
    memory_choose(0, 0);
    digest_t whole = play_and_read(data, size, NULL, 0, SERVED_BY_EPOLL);
    served_choose_step(input[0] / STEP);
    memory_choose(scarce, input[cuts_at - 1]);
    bool alike = served_step_ns == 0 && !scarce;
    backend_t backend = how & BY_EPOLL ? SERVED_BY_EPOLL : SERVED_BY_IO_URING;
    digest_t pieces = play_and_read(data, size, input + cuts_at, cut_count, backend);
    if (alike && !are_equal(&whole, &pieces)) die("in parts the responses are other ones");
    return 0;
}
