/* Owns: responses in a coding (gzip, brotli): which ones have to be, and their decoders. */
#include <brotli/decode.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>
#include <zlib.h>

#include "client.h"

enum { SURE_SIZE = 1024, STREAMS_MAX = 2 };

struct sim_decoder {
    z_stream gzip;
    BrotliDecoderState *brotli; /* NULL: it is gzip */
    bool ended;
};

bool sim_compresses;
uint64_t sim_mask = UINT64_MAX;
static uint32_t size_min;
static bool streams_are_few, events_too;

void sim_coding_reset(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0xc0);
    sim_compresses = !sim_crowd && sim_one_in(&random, 8);
    size_min = sim_one_in(&random, 2) ? SURE_SIZE : 1 + sim_below(&random, SURE_SIZE);
    streams_are_few = sim_one_in(&random, 3);
    events_too = sim_one_in(&random, 2);
    sim_mask = sim_compresses ? UINT64_C(0x0f0f0f0f0f0f0f0f) : UINT64_MAX; /* half of each byte can be saved */
}

int sim_coding_add(uvhttp_server_t *server) {
    const char *const types[] = {"text/plain", events_too ? "text/event-stream" : NULL, NULL};
    if (!sim_compresses) return UVHTTP_OK;
    return uvhttp_use(
        server, uvhttp_compression(&(uvhttp_compression_options_t){.size_min = size_min,
                                                                   .size_max = 4 << 20,
                                                                   .brotli_quality = 1,
                                                                   .streams_max = streams_are_few ? STREAMS_MAX : 0,
                                                                   .types = types}));
}

const char *sim_coding_accept(const op_t *op) {
    static const char *const texts[] = {NULL, "gzip", "br", "gzip, br;q=0.5"};
    return texts[op->accepts];
}

/* --- a response --- */

#define BIT(route) (UINT64_C(1) << (route))

void sim_coding_of(request_t *request, const op_t *op) {
    static const uint64_t streamed = BIT(STREAM) | BIT(SIZED) | BIT(WORK) | BIT(CORO),
                          other = BIT(FILES) | BIT(GATE) | BIT(COGATE) | BIT(DIAL) | BIT(CODIAL) | BIT(HANDLE) |
                                  BIT(WHANDLE) | BIT(BHANDLE) | BIT(EVENTS) | BIT(CHANNEL) | BIT(JOBS) | BIT(WJOBS) |
                                  BIT(HINTED) | BIT(WHINTED) | BIT(SHARED) | BIT(WSHARED) | BIT(PART) | BIT(WPART) |
                                  BIT(SAVE) | BIT(FORM) | BIT(LFORM) | BIT(BFORM) | BIT(PARTS) | BIT(BROKEN);
    request->accepts = op->accepts;
    bool fits = sim_compresses && op->size >= SURE_SIZE && !(other >> op->route & 1);
    request->is_coded = fits && !(streams_are_few && (streamed >> op->route & 1));
}

static uint8_t number_of(const char *coding) {
    return !*coding ? 0 : strcmp(coding, "gzip") == 0 ? 1 : strcmp(coding, "br") == 0 ? 2 : 4;
}

void sim_coding_begin(const client_t *client, request_t *request, int status, const char *coding, bool varies) {
    uint8_t number = number_of(coding);
    if (number & ~request->accepts)
        sim_fail("client %u: the response to %x is in a coding that it does not accept", client->id, request->tag);
    if (number && !varies) sim_fail("client %u: the response to %x in a coding has no Vary", client->id, request->tag);
    if (!sim_compresses) return;
    bool all_have = request->is_coded && status == 200 && !sim_failing;
    if (all_have && !varies) sim_fail("client %u: the response to %x has no Vary", client->id, request->tag);
    if (all_have && request->accepts && !number)
        sim_fail("client %u: the response to %x is in no coding", client->id, request->tag);
    if (number == 2 && request->accepts == 3)
        sim_fail("client %u: the response to %x is in the coding that it likes less", client->id, request->tag);
    if (number == 0 || request->head) return;
    struct sim_decoder *decoder = request->decoder = calloc(1, sizeof *decoder);
    if (!decoder) abort();
    if (number == 2)
        decoder->brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    else if (inflateInit2(&decoder->gzip, 15 + 16) != Z_OK)
        abort();
}

void sim_coding_free(request_t *request) {
    struct sim_decoder *decoder = request->decoder;
    if (decoder && decoder->brotli)
        BrotliDecoderDestroyInstance(decoder->brotli);
    else if (decoder)
        (void)inflateEnd(&decoder->gzip);
    free(decoder);
    request->decoder = NULL;
}

size_t sim_decode(struct sim_decoder *decoder, const char **data, size_t *size, char *out, size_t capacity,
                  bool *good) {
    if (decoder->brotli) {
        const uint8_t *next_in = (const uint8_t *)*data;
        uint8_t *next_out = (uint8_t *)out;
        size_t left = capacity;
        BrotliDecoderResult result =
            BrotliDecoderDecompressStream(decoder->brotli, size, &next_in, &left, &next_out, NULL);
        *data = (const char *)next_in;
        *good = result != BROTLI_DECODER_RESULT_ERROR;
        decoder->ended = result == BROTLI_DECODER_RESULT_SUCCESS;
        return capacity - left;
    }
    z_stream *gzip = &decoder->gzip;
    gzip->next_in = (Bytef *)(uintptr_t)*data;
    gzip->avail_in = (unsigned)*size;
    gzip->next_out = (Bytef *)out;
    gzip->avail_out = (unsigned)capacity;
    int status = inflate(gzip, Z_SYNC_FLUSH);
    *data += *size - gzip->avail_in;
    *size = gzip->avail_in;
    *good = status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR;
    decoder->ended = status == Z_STREAM_END;
    return capacity - gzip->avail_out;
}

bool sim_decoded_all(const struct sim_decoder *decoder) {
    return decoder->ended;
}
