/* Owns: the absence of permessage-deflate, in a build without compression: it is offered, and not agreed on. */
#include <stdlib.h>
#include <string.h>

#include "websocket.h"

void sim_ws_offer(tunnel_t *tunnel, sim_random_t *random) {
    if (sim_one_in(random, 2)) strcpy(tunnel->offer.text, "permessage-deflate");
}

void sim_ws_agree(tunnel_t *tunnel, const char *extension) {
    if (extension) sim_fail("client %u: the server agrees to %s", tunnel->client->id, extension);
}

char *sim_ws_deflate(tunnel_t *tunnel, const char *data, size_t size, size_t *packed) {
    (void)tunnel, (void)data, (void)size, (void)packed;
    abort();
}

void sim_ws_put_bomb(tunnel_t *tunnel) {
    (void)tunnel;
    abort();
}

void sim_ws_inflate(tunnel_t *tunnel, const char *data, size_t size) {
    (void)tunnel, (void)data, (void)size;
    abort();
}

void sim_ws_inflate_end(tunnel_t *tunnel) {
    (void)tunnel;
    abort();
}

void sim_ws_deflate_free(tunnel_t *tunnel) {
    (void)tunnel;
}
