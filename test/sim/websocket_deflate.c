/* Owns: permessage-deflate (RFC 7692) as a client speaks it: what it offers, what the server must agree to, and its own
 * zlib for both directions, whose windows are as small as agreed on and whose contexts are forgotten when they have to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "websocket.h"

enum { BITS_DEFAULT = 15, BITS_NONE = 0, BITS_ANY = 1, OUT_SIZE = 512 };

struct sim_deflate {
    z_stream in, out;
    bool server_keeps, client_keeps; /* their context */
};

/* --- negotiation --- */

static void add(char text[EXTENSION_MAX], const char *param, uint32_t bits) {
    size_t size = strlen(text);
    snprintf(text + size, EXTENSION_MAX - size, bits ? "; %s=%u" : "; %s", param, bits);
}

/* A window of 2^8 is one that the server cannot have: what is behind the comma is to be agreed on instead. */
void sim_ws_offer(tunnel_t *tunnel, sim_random_t *random) {
    offer_t *offer = &tunnel->offer;
    if (!sim_one_in(random, 2)) return;
    *offer = (offer_t){.made = true,
                       .server_forgets = sim_one_in(random, 3),
                       .client_forgets = sim_one_in(random, 3),
                       .server_bits = sim_one_in(random, 3) ? (uint8_t)(8 + sim_below(random, 8)) : BITS_NONE,
                       .client_bits = sim_one_in(random, 2)   ? BITS_NONE
                                      : sim_one_in(random, 3) ? BITS_ANY
                                                              : (uint8_t)(8 + sim_below(random, 8)),
                       .second = sim_one_in(random, 3)};
    snprintf(offer->text, EXTENSION_MAX, "%spermessage-deflate",
             sim_one_in(random, 6) ? "x-unknown; a=\"b, c\", " : "");
    if (offer->client_bits)
        add(offer->text, "client_max_window_bits", offer->client_bits == BITS_ANY ? 0 : offer->client_bits);
    if (offer->server_forgets) add(offer->text, "server_no_context_takeover", 0);
    if (offer->server_bits) add(offer->text, "server_max_window_bits", offer->server_bits);
    if (offer->client_forgets) add(offer->text, "client_no_context_takeover", 0);
    if (offer->second) strcat(offer->text, ", permessage-deflate");
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void start(tunnel_t *tunnel, uint32_t server_bits, uint32_t client_bits, bool server_keeps, bool client_keeps) {
    sim_deflate_t *it = calloc(1, sizeof *it);
    sim_random_t *random = &tunnel->client->random;
    if (!it) abort();
    it->server_keeps = server_keeps;
    it->client_keeps = client_keeps;
    /* zlib has no window of 2^8: without matches there is none. */
    int strategy = client_bits == 8 ? Z_HUFFMAN_ONLY : sim_one_in(random, 4) ? Z_FIXED : Z_DEFAULT_STRATEGY;
    int level = 1 + (int)sim_below(random, 9), memory = 1 + (int)sim_below(random, 8);
    if (inflateInit2(&it->in, -(int)server_bits) != Z_OK ||
        deflateInit2(&it->out, level, Z_DEFLATED, -(int)(client_bits == 8 ? 9 : client_bits), memory, strategy) != Z_OK)
        abort();
    tunnel->deflate = it;
}

/* What must be agreed on. */
void sim_ws_agree(tunnel_t *tunnel, const char *extension) {
    offer_t offer = tunnel->offer;
    char expected[EXTENSION_MAX] = "permessage-deflate";
    if (offer.server_bits == 8) offer = (offer_t){.made = offer.second};
    bool agrees = sim_ws.compresses && offer.made;
    bool server_keeps = sim_ws.takeover && !offer.server_forgets,
         client_keeps = sim_ws.takeover && !offer.client_forgets;
    uint32_t server_bits = smaller(sim_ws.server_bits, offer.server_bits ? offer.server_bits : BITS_DEFAULT);
    uint32_t client_bits = BITS_DEFAULT;
    if (offer.client_bits)
        client_bits = smaller(sim_ws.client_bits, offer.client_bits == BITS_ANY ? BITS_DEFAULT : offer.client_bits);
    if (!server_keeps) add(expected, "server_no_context_takeover", 0);
    if (!client_keeps) add(expected, "client_no_context_takeover", 0);
    if (offer.server_bits || server_bits < BITS_DEFAULT) add(expected, "server_max_window_bits", server_bits);
    if (client_bits < BITS_DEFAULT) add(expected, "client_max_window_bits", client_bits);
    if (!extension && !agrees) return;
    if (!extension || !agrees || strcmp(extension, expected) != 0)
        sim_fail("client %u: \"%s\" brought \"%s\" instead of \"%s\"", tunnel->client->id, tunnel->offer.text,
                 extension ? extension : "", agrees ? expected : "");
    start(tunnel, server_bits, client_bits, server_keeps, client_keeps);
}

void sim_ws_deflate_free(tunnel_t *tunnel) {
    if (!tunnel->deflate) return;
    (void)inflateEnd(&tunnel->deflate->in);
    (void)deflateEnd(&tunnel->deflate->out);
    free(tunnel->deflate);
}

/* --- what it sends --- */

/* Flushed at some byte in the middle, too. The end of a flush is left out (section 7.2.1); behind a final block there
 * is an empty one, and the context begins anew (7.2.3.4). */
char *sim_ws_deflate(tunnel_t *tunnel, const char *data, size_t size, size_t *packed) {
    sim_deflate_t *it = tunnel->deflate;
    sim_random_t *random = &tunnel->client->random;
    size_t capacity = 2 * size + 256, first = sim_one_in(random, 3) ? sim_below(random, (uint32_t)size) : 0;
    char *out = malloc(capacity);
    if (!out) abort();
    bool final = sim_one_in(random, 6);
    it->out.next_out = (Bytef *)out;
    it->out.avail_out = (unsigned)capacity;
    it->out.next_in = (Bytef *)(uintptr_t)data;
    it->out.avail_in = (unsigned)first;
    if (first > 0) (void)deflate(&it->out, sim_one_in(random, 2) ? Z_SYNC_FLUSH : Z_BLOCK);
    it->out.avail_in = (unsigned)(size - first);
    (void)deflate(&it->out, final ? Z_FINISH : Z_SYNC_FLUSH);
    *packed = capacity - it->out.avail_out;
    if (final)
        out[(*packed)++] = 0;
    else
        *packed -= 4;
    if (final || !it->client_keeps || sim_one_in(random, 8)) (void)deflateReset(&it->out);
    return out;
}

/* A message of zeros that is larger than the server takes. */
void sim_ws_put_bomb(tunnel_t *tunnel) {
    const size_t size = SIM_WS_SIZE_MAX + 1 + sim_below(&tunnel->client->random, 100000);
    size_t packed;
    char *zeros = calloc(1, size);
    if (!zeros) abort();
    char *bomb = sim_ws_deflate(tunnel, zeros, size, &packed);
    sim_ws_put(tunnel, LAST | COMPRESSED | BINARY, bomb, packed);
    free(bomb);
    free(zeros);
}

/* --- what comes --- */

/* In small pieces: zlib looks no further back than the window, apart from the piece. */
static void inflate_all(tunnel_t *tunnel, const char *data, size_t size) {
    z_stream *in = &tunnel->deflate->in;
    char out[OUT_SIZE];
    in->next_in = (Bytef *)(uintptr_t)data;
    in->avail_in = (unsigned)size;
    do {
        in->next_out = (Bytef *)out;
        in->avail_out = sizeof out;
        int status = inflate(in, Z_SYNC_FLUSH);
        if (status != Z_OK && status != Z_BUF_ERROR)
            sim_fail("client %u: tunnel %u: a message that cannot be inflated: %s", tunnel->client->id, tunnel->number,
                     in->msg ? in->msg : "a block is the last");
        sim_ws_payload(tunnel, out, sizeof out - in->avail_out);
    } while (in->avail_in > 0 || in->avail_out == 0);
}

void sim_ws_inflate(tunnel_t *tunnel, const char *data, size_t size) {
    inflate_all(tunnel, data, size);
}

void sim_ws_inflate_end(tunnel_t *tunnel) {
    inflate_all(tunnel, "\0\0\xff\xff", 4);
    if (!tunnel->deflate->server_keeps) (void)inflateReset(&tunnel->deflate->in);
}
