/* Owns: the absence of compression, in a build without it. */
#include "client.h"

bool sim_compresses;
uint64_t sim_mask = UINT64_MAX;

void sim_coding_reset(uint64_t seed) {
    (void)seed;
}

int sim_coding_add(struct uvhttp_server *server) {
    (void)server;
    return 0;
}

const char *sim_coding_accept(const op_t *op) {
    (void)op;
    return NULL;
}

void sim_coding_of(request_t *request, const op_t *op) {
    (void)request, (void)op;
}

void sim_coding_begin(const client_t *client, request_t *request, int status, const char *coding, bool varies) {
    (void)status, (void)varies;
    if (*coding) sim_fail("client %u: the response to %x is in a coding", client->id, request->tag);
}

void sim_coding_free(request_t *request) {
    (void)request;
}

size_t sim_decode(struct sim_decoder *decoder, const char **data, size_t *size, char *out, size_t capacity,
                  bool *good) {
    (void)decoder, (void)data, (void)size, (void)out, (void)capacity, (void)good;
    return 0;
}

bool sim_decoded_all(const struct sim_decoder *decoder) {
    (void)decoder;
    return false;
}
