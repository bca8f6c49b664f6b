/* Owns: the absence of TLS, in a build without it or with another library than the clients'. */
#include "tls.h"

struct uvhttp_tls *sim_tls_server;

bool sim_tls_init(void) {
    return true;
}

void sim_tls_reset(uint64_t seed, bool real) {
    (void)seed, (void)real;
}

sim_tls_t *sim_tls_new(uint32_t client, bool h2, sim_random_t *random, sim_tls_sink put, void *arg) {
    (void)client, (void)h2, (void)random, (void)put, (void)arg;
    return NULL;
}

void sim_tls_free(sim_tls_t *tls) {
    (void)tls;
}

bool sim_tls_is_open(const sim_tls_t *tls) {
    (void)tls;
    return true;
}

void sim_tls_write(sim_tls_t *tls, const char *data, size_t size) {
    (void)tls, (void)data, (void)size;
}

void sim_tls_end(sim_tls_t *tls) {
    (void)tls;
}

const char *sim_tls_read(sim_tls_t *tls, const char *data, size_t size, sim_tls_sink take, void *arg) {
    (void)tls, (void)data, (void)size, (void)take, (void)arg;
    return NULL;
}
