/* Owns: fuzzing of compressed WebSocket messages (libFuzzer). The input is inflated whole and split, with
 * outlets of different sizes, as two messages of one context; result and bytes must agree. Then it is a text that is
 * compressed and must come back; and an offer of extensions, whose response must be one that can be kept. Contexts are
 * those that earlier inputs have left. Input: four bytes for the cuts and the outlet, the bytes. */
/* Needs: websocket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "websocket/deflate.h"
#include "websocket/extension.h"

enum { OUT_MAX = 1 << 18 };

typedef struct outcome {
    int code;
    size_t size;
    char bytes[OUT_MAX];
} outcome_t;

static uvhttp__ws_codecs_t codecs;
static outcome_t whole, cut, back;

static void die(const char *what) {
    fprintf(stderr, "fuzz_websocket_deflate: %s\n", what);
    abort();
}

/* A piece from a heap block of its size. False: the message has ended badly, or is larger than is looked at. */
static int feed(uvhttp__ws_inflater_t *inflater, const char *data, size_t size, bool end, size_t capacity,
                outcome_t *out) {
    char *copy = malloc(size > 0 ? size : 1), *hole = malloc(capacity);
    if (!copy || !hole) abort();
    if (size > 0) memcpy(copy, data, size);
    const char *at = copy;
    size_t left = size;
    do {
        size_t written;
        out->code = uvhttp__ws_inflate(inflater, &at, &left, end, hole, capacity, &written);
        if (written > capacity || left > size || at + left != copy + size) die("more than there is");
        if (out->code == UVHTTP_E_AGAIN && written != capacity) die("more wanted, and room left");
        if (written > OUT_MAX - out->size) written = OUT_MAX - out->size;
        memcpy(out->bytes + out->size, hole, written);
        out->size += written;
    } while (out->code == UVHTTP_E_AGAIN && out->size < OUT_MAX);
    if (out->code == UVHTTP_OK && left > 0) die("good, and bytes left");
    free(copy);
    free(hole);
    return out->code;
}

static void inflate_twice(const char *data, size_t size, const size_t cuts[2], size_t capacity, outcome_t *out) {
    out->size = 0;
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(&codecs);
    if (!inflater) abort();
    size_t middle = cuts[0] < cuts[1] ? cuts[0] : cuts[1], far = cuts[0] < cuts[1] ? cuts[1] : cuts[0];
    for (int message = 0; message < 2; message++) {
        if (feed(inflater, data, middle, false, capacity, out) != UVHTTP_OK) break;
        if (feed(inflater, data + middle, far - middle, false, capacity, out) != UVHTTP_OK) break;
        if (feed(inflater, data + far, size - far, true, capacity, out) != UVHTTP_OK) break;
    }
    uvhttp__ws_inflater_give(&codecs, inflater);
}

static void there_and_back(const char *data, size_t size, uint8_t choice) {
    const uvhttp__ws_deflate_settings_t settings = {.level = (uint8_t)(1 + choice % 9),
                                                    .memory_level = (uint8_t)(1 + choice / 9 % 9),
                                                    .bits = (uint8_t)(9 + choice % 7)};
    uvhttp__ws_deflater_t *deflater = uvhttp__ws_deflater_of(&codecs, settings);
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(&codecs);
    char *packed = malloc(UVHTTP__WS_DEFLATE_CAPACITY(size));
    if (!deflater || !inflater || !packed) abort();
    for (int message = 0; message < 2; message++) {
        back.size = 0;
        size_t packed_size = uvhttp__ws_deflate(deflater, data, size, packed);
        if (packed_size >= size && size > 0) die("it has not become smaller");
        if (packed_size > 0 && (feed(inflater, packed, packed_size, true, 100, &back) != UVHTTP_OK ||
                                back.size != size || memcmp(back.bytes, data, size) != 0))
            die("it does not come back");
    }
    free(packed);
    uvhttp__ws_inflater_give(&codecs, inflater);
}

static void negotiate(const char *data, size_t size, uint8_t choice) {
    const uvhttp__ws_deflate_t willing = {.server_bits = (uint8_t)(9 + choice % 7),
                                          .client_bits = (uint8_t)(9 + choice / 7 % 7),
                                          .server_takeover = choice & 1,
                                          .client_takeover = choice & 2};
    uvhttp__ws_deflate_t agreed, again;
    char text[UVHTTP__WS_EXTENSION_SIZE_MAX], *copy = malloc(size > 0 ? size : 1);
    if (!copy) abort();
    if (size > 0) memcpy(copy, data, size);
    bool good = uvhttp__ws_deflate_negotiate((uvhttp_str_t){copy, size}, &willing, &agreed);
    free(copy);
    if (!good) return;
    if (agreed.server_bits < 9 || agreed.server_bits > willing.server_bits) die("a window that was not asked for");
    if (agreed.client_bits < 8 || agreed.client_bits > 15) die("a window that there is not");
    if (agreed.server_takeover > willing.server_takeover || agreed.client_takeover > willing.client_takeover)
        die("takeover that was not allowed");
    uvhttp__ws_deflate_write(&agreed, text);
    if (strlen(text) + 1 >= sizeof text) die("the answer is cut");
    if (!uvhttp__ws_deflate_negotiate(uvhttp__str_from(text), &willing, &again)) die("the answer is not good");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 4) return 0;
    const char *data = (const char *)input + 4;
    size_t size = input_size - 4;
    inflate_twice(data, size, (const size_t[]){0, 0}, 4096, &whole);
    inflate_twice(data, size, (const size_t[]){size * input[0] / 256, size * input[1] / 256}, 1u + input[2], &cut);
    if (whole.code != cut.code && whole.size < OUT_MAX) die("results differ");
    size_t least = whole.size < cut.size ? whole.size : cut.size;
    if (whole.size < OUT_MAX && whole.code == UVHTTP_OK && whole.size != cut.size) die("sizes differ");
    if (memcmp(whole.bytes, cut.bytes, least) != 0) die("bytes differ");
    if (size <= 4096) there_and_back(data, size, input[3]);
    negotiate(data, size, input[3]);
    return 0;
}
